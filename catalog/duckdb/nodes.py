"""DuckDB SQL as a tree of nodes, which is converted to text once, when a statement is complete (`text_of`).

    fill("({} + {})", ColumnReference("q1", "c1"), integer(2, INTEGER))        (q1.c1 + 2::INTEGER)

The class of a node shows whether it is NULL, a constant, a column or a name. Nodes are immutable, and a tree may
contain a node several times.

    Null, Constant     values; `Constant.value` is the value in internal form
    Parameter          $1 with its type
    ColumnReference    a column of a relation
    Identifier, Entry  a relation or a lambda variable; an entry of a variable that is a STRUCT: name['key']
    CastTo, Call       CAST(argument AS type), name(argument, ...)
    Raising            error(...), which raises an error
    Filled             a template and its arguments (templates.py): operators, CASE, SELECT, and all other SQL
    Joined             parts with a separator between them
    Steady             its argument without functions that DuckDB regards as volatile
    Later              a placeholder for an expression that is not complete yet
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NoReturn

from catalog.duckdb.templates import Template, parse_template
from catalog.duckdb.types import BIGINT, VARCHAR, DuckDBType

TABLE_MARKS = ("\x01", "\x02")
"""The characters around a table's placeholder; the complete text has braces there (engine/columnar/generate/state.py).
"""
_SPELLED_OUT = str.maketrans({mark: f"' || chr({ord(mark)}) || '" for mark in TABLE_MARKS})


class Sql:
    """A node. It cannot be formatted as a string: only whole statements are converted to text."""

    __slots__ = ()

    def write(self, out: list[str], steady: bool) -> None:
        """Appends the text to `out`. `steady`: the node is within a `Steady`."""
        raise NotImplementedError

    @property
    def parts(self) -> Sequence[Part]:
        """The child nodes and words, in the order of the text."""
        return ()

    def rebuilt(self, change: Callable[[Sql], Sql]) -> Sql:
        """Returns the node with each child node replaced by the result of `change`."""
        return self

    @property
    def is_simple(self) -> bool:
        """Whether a second evaluation costs nothing."""
        return False

    def __add__(self, other: Part) -> Sql:
        return Joined("", (self, other))

    def __radd__(self, other: str) -> Sql:
        return Joined("", (other, self))

    def __format__(self, spec: str) -> NoReturn:
        raise TypeError("SQL is put together by nodes, not as text")

    def __str__(self) -> NoReturn:
        raise TypeError("SQL is put together by nodes, not as text")


Part = Sql | DuckDBType | str | int
"""The content of a slot: a node, or generated words (a keyword, an alias, a number)."""
Clause = Sql | str
"""A clause; '' if it is missing."""


def text_of(node: Sql) -> str:
    """Converts a complete tree to text."""
    out: list[str] = []
    node.write(out, False)
    return "".join(out)


def _write(part: Part, out: list[str], steady: bool) -> None:
    if isinstance(part, Sql):
        part.write(out, steady)
    else:
        out.append(str(part))


class _Leaf(Sql):
    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def write(self, out: list[str], steady: bool) -> None:
        out.append(self.text)


class Words(_Leaf):
    """Words without parts: TRUE, an empty list."""

    __slots__ = ()

    @property
    def is_simple(self) -> bool:
        return self.text.isidentifier()


class Null(Sql):
    """NULL of a type."""

    __slots__ = ("type",)

    def __init__(self, type_: DuckDBType) -> None:
        self.type = type_

    def write(self, out: list[str], steady: bool) -> None:
        out.append(f"NULL::{self.type}")


class Constant(_Leaf):
    """A constant: its value in internal form, its text, and its type."""

    __slots__ = ("_simple", "type", "value")

    def __init__(self, text: str, value: object, type_: DuckDBType, simple: bool = False) -> None:
        self.text = text
        self.value = value
        self.type = type_
        self._simple = simple

    @property
    def is_simple(self) -> bool:
        return self._simple


class Parameter(Sql):
    """A parameter of the query, from 1."""

    __slots__ = ("number", "type")

    def __init__(self, number: int, type_: DuckDBType) -> None:
        self.number = number
        self.type = type_

    def write(self, out: list[str], steady: bool) -> None:
        out.append(f"CAST(${self.number} AS {self.type})")


class Identifier(_Leaf):
    """A relation, or a lambda variable."""

    __slots__ = ()

    @property
    def is_simple(self) -> bool:
        return True


class ColumnReference(Sql):
    """A column of a relation."""

    __slots__ = ("name", "relation")

    def __init__(self, relation: str, name: str) -> None:
        self.relation = relation
        self.name = name

    def write(self, out: list[str], steady: bool) -> None:
        out.append(f"{self.relation}.{self.name}")

    @property
    def is_simple(self) -> bool:
        return True


class Entry(Sql):
    """An entry of a lambda variable that is a STRUCT."""

    __slots__ = ("key", "variable")

    def __init__(self, variable: str, key: str) -> None:
        self.variable = variable
        self.key = key

    def write(self, out: list[str], steady: bool) -> None:
        out.append(f"{self.variable}['{self.key}']")

    @property
    def is_simple(self) -> bool:
        return True


class CastTo(Sql):
    """An explicit cast."""

    __slots__ = ("argument", "type")

    def __init__(self, argument: Sql, type_: DuckDBType) -> None:
        self.argument = argument
        self.type = type_

    def write(self, out: list[str], steady: bool) -> None:
        out.append("CAST(")
        self.argument.write(out, steady)
        out.append(f" AS {self.type})")

    @property
    def parts(self) -> Sequence[Part]:
        return (self.argument,)

    def rebuilt(self, change: Callable[[Sql], Sql]) -> Sql:
        return CastTo(change(self.argument), self.type)


class Joined(Sql):
    """Parts with a separator between them."""

    __slots__ = ("_parts", "separator")

    def __init__(self, separator: str, parts: Iterable[Part]) -> None:
        self.separator = separator
        self._parts = tuple(parts)

    def write(self, out: list[str], steady: bool) -> None:
        separator = ""
        for part in self._parts:
            out.append(separator)
            separator = self.separator
            _write(part, out, steady)

    @property
    def parts(self) -> Sequence[Part]:
        return self._parts

    def rebuilt(self, change: Callable[[Sql], Sql]) -> Sql:
        return Joined(self.separator, _change_each(self._parts, change))


class Call(Joined):
    """A call of a function by its name."""

    __slots__ = ("name",)

    def __init__(self, name: str, arguments: Iterable[Part]) -> None:
        super().__init__(", ", arguments)
        self.name = name

    def write(self, out: list[str], steady: bool) -> None:
        out.append(f"{self.name}(")
        super().write(out, steady)
        out.append(")")

    def rebuilt(self, change: Callable[[Sql], Sql]) -> Sql:
        return Call(self.name, _change_each(self._parts, change))


_NO_MARKS = ("", "", "")


class Filled(Sql):
    """A template with its arguments, and with the replacements of its marks if it is an aggregate."""

    __slots__ = ("arguments", "marks", "template")

    def __init__(self, template: Template, arguments: Sequence[Part], marks: Sequence[Part] = _NO_MARKS) -> None:
        self.template = template
        self.arguments = arguments
        self.marks = marks

    def write(self, out: list[str], steady: bool) -> None:
        template = self.template.steady if steady else self.template
        out.append(template.texts[0])
        arguments = self.arguments
        if template.repeats:  # converts an argument with several uses only once
            arguments = [
                _text(part, steady) if uses > 1 and isinstance(part, Sql) else part
                for part, uses in zip(arguments, template.uses, strict=False)
            ]
        for slot, text in template.pairs:
            part = arguments[slot] if slot >= 0 else self.marks[-1 - slot]
            if isinstance(part, str):
                out.append(part)
            elif isinstance(part, Sql):
                part.write(out, steady)
            else:
                out.append(str(part))
            if text:
                out.append(text)

    @property
    def parts(self) -> Sequence[Part]:
        return [self.arguments[slot] if slot >= 0 else self.marks[-1 - slot] for slot in self.template.slots]

    def rebuilt(self, change: Callable[[Sql], Sql]) -> Sql:
        return Filled(self.template, _change_each(self.arguments, change), _change_each(self.marks, change))

    def with_marks(self, distinct: Part, order: Part, after: Part) -> Filled:
        """The aggregate with its clauses: DISTINCT; ORDER BY; FILTER and OVER (`after`)."""
        return Filled(self.template, self.arguments, (distinct, order, after))


def _text(part: Sql, steady: bool) -> str:
    out: list[str] = []
    part.write(out, steady)
    return "".join(out)


class Raising(Sql):
    """An expression that raises an error. Its type is NULL, so any CASE can contain it. DuckDB regards its function
    error() as volatile."""

    __slots__ = ("message",)

    def __init__(self, message: Part) -> None:
        self.message = message

    def write(self, out: list[str], steady: bool) -> None:
        out.append("raise_error(" if steady else "error(")
        _write(self.message, out, steady)
        out.append(")")

    @property
    def parts(self) -> Sequence[Part]:
        return (self.message,)

    def rebuilt(self, change: Callable[[Sql], Sql]) -> Sql:
        return Raising(*_change_each((self.message,), change))


class Steady(Sql):
    """Its argument without functions that DuckDB regards as volatile, because DuckDB refuses these in the ORDER BY of a
    window or of a DISTINCT aggregate. Within it, errors are raised by a function of the worker."""

    __slots__ = ("argument",)

    def __init__(self, argument: Sql) -> None:
        self.argument = argument

    def write(self, out: list[str], steady: bool) -> None:
        self.argument.write(out, True)

    @property
    def parts(self) -> Sequence[Part]:
        return (self.argument,)

    def rebuilt(self, change: Callable[[Sql], Sql]) -> Sql:
        return Steady(change(self.argument))


class Later(Sql):
    """A named placeholder, which `replace_later` replaces by an expression."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def write(self, out: list[str], steady: bool) -> None:
        raise AssertionError(f"nothing has taken the place of {self.name}")


def _change_each(parts: Sequence[Part], change: Callable[[Sql], Sql]) -> list[Part]:
    return [change(part) if isinstance(part, Sql) else part for part in parts]


# ---- making ---------------------------------------------------------------------------------------------------------


def fill(template: str, *arguments: Part, **named: Part) -> Sql:
    """Parses a template and fills it with its arguments, which are either all positional or all named."""
    parsed = parse_template(template)
    return apply_template(parsed, [named[name] for name in parsed.names] if named else arguments)


def apply_template(template: Template, arguments: Sequence[Part]) -> Sql:
    """Fills a parsed template. If the template is only a NULL or only its argument, returns that node instead."""
    if template.null is not None:
        return Null(template.null)
    if template.is_argument and isinstance(arguments[0], Sql):
        return arguments[0]
    return Filled(template, arguments)


def join_parts(separator: str, parts: Iterable[Part]) -> Joined:
    return Joined(separator, parts)


def comma_list(parts: Iterable[Part]) -> Joined:
    """Parts with commas between them."""
    return Joined(", ", parts)


def text_literal(text: str) -> str:
    """A DuckDB string literal, with chr() in place of the TABLE_MARKS."""
    sql = "'" + text.replace("'", "''") + "'"
    spelled_out = sql.translate(_SPELLED_OUT)
    return sql if spelled_out == sql else f"({spelled_out})"


def string(text: str) -> Constant:
    """A text as a constant of type VARCHAR."""
    literal = text_literal(text)  # two characters longer than the text if nothing was escaped
    return Constant(literal + "::VARCHAR", text, VARCHAR, simple=len(literal) == len(text) + 2)


def integer(value: int, type_: DuckDBType = BIGINT) -> Constant:
    """An integer constant of a type."""
    return Constant(f"{value}::{type_}" if value >= 0 else f"({value})::{type_}", value, type_, value >= 0)


# ---- asking ---------------------------------------------------------------------------------------------------------


def constant_text(node: Sql) -> str | None:
    """The value of a text constant; None for any other node."""
    while isinstance(node, CastTo) and node.type == VARCHAR:
        node = node.argument
    if isinstance(node, Constant) and node.type == VARCHAR and isinstance(node.value, str):
        return node.value
    return None


def constant_integer(node: Sql) -> int | None:
    """The value of an integer constant; None for any other node."""
    if isinstance(node, Constant) and isinstance(node.value, int) and not isinstance(node.value, bool):
        return node.value
    return None


def distinct_nodes(node: Sql) -> Iterator[Sql]:
    """The node and all nodes below it, each once even if the tree contains it several times."""
    met = {id(node)}
    waiting = [node]
    while waiting:
        item = waiting.pop()
        yield item
        for part in item.parts:
            if isinstance(part, Sql) and id(part) not in met:
                met.add(id(part))
                waiting.append(part)


def columns_of(node: Sql) -> Iterator[ColumnReference]:
    """The columns in a tree."""
    return (item for item in distinct_nodes(node) if isinstance(item, ColumnReference))


def names_later(node: Sql) -> set[str]:
    """The names of the placeholders (`Later`) in a tree."""
    return {item.name for item in distinct_nodes(node) if isinstance(item, Later)}


def has_query(node: Sql) -> bool:
    """Whether the tree contains a query."""
    return any(isinstance(item, Filled) and any(item.template.selects) for item in distinct_nodes(node))


def uses(node: Sql) -> Iterator[tuple[Later, bool]]:
    """The placeholders (`Later`) in a tree, in the order of the text, each with whether a lambda or a query begins
    before it."""
    looped = False

    def look(item: Sql) -> Iterator[tuple[Later, bool]]:
        nonlocal looped
        if isinstance(item, Later):
            yield item, looped
        loops = item.template.loops if isinstance(item, Filled) else ()
        looped = looped or any(loops[:1])
        for number, part in enumerate(item.parts, 1):
            if isinstance(part, Sql):
                yield from look(part)
            looped = looped or any(loops[number : number + 1])

    return look(node)


def replace_later(node: Sql, later: Callable[[Later], Sql]) -> Sql:
    """Replaces each placeholder (`Later`) by the result of `later`."""
    made: dict[int, Sql] = {}

    def change(item: Sql) -> Sql:
        if isinstance(item, Later):
            return later(item)
        found = made.get(id(item))
        if found is None:
            found = made[id(item)] = item.rebuilt(change)
        return found

    return change(node)
