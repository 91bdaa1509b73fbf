"""Writes a sqlglot tree as PostgreSQL's text, for the supported classes and arguments."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

import sqlglot.expressions as exp

from catalog.errors import SqlError
from engine.sql.dialects.names import Traits
from engine.sql.parser.keywords import KEYWORDS

Write = Callable[["Writer", Any], str]
_PLAIN = re.compile(r"[a-z_][a-z0-9_]*\Z")
_WORDS = re.compile(r"(?<=[a-z])(?=[A-Z])")
# SQL's names for classes of sqlglot with other names.
_NAMES = {
    "DPipe": "||",
    "RegexpLike": "REGEXP",
    "JSONExtract": "JSON path",
    "JSONExtractScalar": "JSON path",
    "TryCast": "TRY_CAST",
    "BitwiseAnd": "&",
    "BitwiseOr": "|",
    "BitwiseXor": "^",
    "BitwiseNot": "~",
    "BitwiseLeftShift": "<<",
    "BitwiseRightShift": ">>",
    "IntDiv": "integer division",
    "Pow": "power operator",
    "PropertyEQ": ":=",
    "Command": "statement",
    "ToTableProperty": "TO",
}


class Writer:
    """Writes one statement. `placeholders`: the positions of its question marks, in the order of the text."""

    def __init__(self, traits: Traits, writers: dict[type, Write], placeholders: dict[int, int]) -> None:
        self.traits = traits
        self.dialect = traits.name
        self._writers = writers
        self._placeholders = placeholders
        self._aliases = 0

    def text(self, node: exp.Expression) -> str:
        """Returns a part of the tree as PostgreSQL's text. Raises 0A000 for an unsupported part."""
        write = self._writers.get(type(node))
        if write is None:
            self.refuse(construct(node), node)
        return write(self, node)

    def operand(self, node: exp.Expression) -> str:
        """Returns the same as an operand, in parentheses if it is an operator, independent of PostgreSQL's
        precedence."""
        found = self.text(node)
        return f"({found})" if isinstance(node, LOOSE) else found

    def write_list(self, nodes: Iterable[exp.Expression]) -> str:
        return ", ".join(map(self.text, nodes))

    def take(self, node: exp.Expression, *names: str) -> tuple[Any, ...]:
        """Returns the arguments of a node by name. Raises 0A000 if the node has others, so that none is ignored."""
        for name, value in node.args.items():
            if name not in names and _says_something(value):
                self.refuse(f"{construct(node)} {name.rstrip('_').replace('_', ' ')}", node)
        return tuple(node.args.get(name) for name in names)

    def name(self, node: exp.Expression) -> str:
        """Returns an identifier in the form of PostgreSQL's catalog. Names in these dialects are case-insensitive,
        except for quoted ones in Snowflake and Oracle, where a quoted name in upper case equals the unquoted one."""
        if isinstance(node, str):  # of db..t
            self.refuse("name without a schema")
        if not isinstance(node, exp.Identifier):
            self.refuse(construct(node), node)
        self.take(node, "this", "quoted")
        return self.quote(self.fold(node))

    def fold(self, node: exp.Expression) -> str:
        name: str = node.this
        if self.traits.folds_upper and node.args.get("quoted") and name != name.upper():
            return name
        return name.lower()

    @staticmethod
    def quote(name: str) -> str:
        if _PLAIN.match(name) and KEYWORDS.get(name, ("U", True))[0] == "U":
            return name
        return '"' + name.replace('"', '""') + '"'

    def new_alias(self) -> str:
        """Returns an alias for a sub-query without one, because PostgreSQL requires it."""
        self._aliases += 1
        return f"unnamed_{self._aliases}"

    def parameter(self, node: exp.Expression) -> str:
        """Returns the parameter of a question mark, by its number."""
        return f"${self._placeholders[node.meta['start']]}"

    def refuse(self, what: str, node: exp.Expression | None = None) -> NoReturn:
        message = f'"{what}" of the dialect {self.dialect} has no counterpart in PostgreSQL'
        raise SqlError("0A000", message, position=None if node is None else position(node))


# Nodes whose text is an operator with operands: within another operator they are in parentheses.
LOOSE: tuple[type, ...] = (exp.Binary, exp.Not, exp.Neg, exp.Between, exp.In, exp.Is)


def construct(node: exp.Expression) -> str:
    """Returns the name of a node for a message."""
    kind = type(node).__name__
    if isinstance(node, exp.Anonymous):
        return str(node.name).upper()
    if isinstance(node, exp.Command):
        return str(node.this).upper()
    return _NAMES.get(kind) or _WORDS.sub(" ", kind).upper()


def position(node: exp.Expression) -> int | None:
    """Returns the first position in a node (characters of the text, from 1); None if there is none."""
    starts = [item.meta["start"] for item in node.walk() if "start" in (item._meta or ())]
    return min(starts) + 1 if starts else None


def _says_something(value: object) -> bool:
    return value is not None and value is not False and value != [] and value != ""


def string(value: str) -> str:
    """Returns a string literal for standard_conforming_strings."""
    return "'" + value.replace("'", "''") + "'"


def text_of(node: exp.Expression | None) -> str | None:
    """Returns the value of a string literal; None for other nodes."""
    if isinstance(node, exp.Literal) and node.args.get("is_string"):
        return str(node.this)
    return str(node.this) if isinstance(node, exp.RawString | exp.National) else None


def word_of(node: exp.Expression | None) -> str | None:
    """Returns a word that sqlglot may have read as a name, in upper case; None if it is not a single word."""
    if isinstance(node, exp.Var):
        return str(node.name).upper()
    if isinstance(node, exp.Column) and not any(value for name, value in node.args.items() if name != "this"):
        node = node.this
    if not isinstance(node, exp.Identifier) or any(value for name, value in node.args.items() if name != "this"):
        return None
    return str(node.this).upper()


def integer_of(node: exp.Expression | None) -> int | None:
    """Returns the value of an integer literal, with or without a minus; None for other nodes."""
    if isinstance(node, exp.Paren):
        return integer_of(node.this)
    if isinstance(node, exp.Neg):
        found = integer_of(node.this)
        return None if found is None else -found
    if isinstance(node, exp.Literal) and not node.args.get("is_string") and str(node.this).isdigit():
        return int(node.this)
    return None
