"""Decides whether a follower may run the statements of a client (needs.py has the requirements of each).

A `Route` describes a whole query string, and its effect on the transaction.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypeGuard

from catalog.errors import SqlError
from catalog.functions.base import Trait
from catalog.functions.registry import names_with
from engine.session.plan import UnplannedStatement
from engine.session.prepared import Prepared
from engine.session.statement_texts import LONG_TEXT, utf8
from engine.sql import ast
from engine.sql.dialects.names import SHOAL
from engine.sql.dialects.statements import is_of_session
from engine.sql.lift import lift
from engine.sql.parser import parse
from engine.sql.tree_walk import walk
from engine.statements import registry
from engine.statements.needs import Needs, of_node
from engine.txn.interface import SERIALIZABLE

LOOKED_AT = 1 << 15  # bytes of a text that is parsed to find its tablespaces


_ENDS = frozenset(("commit", "end", "rollback", "abort"))
_TWO_PHASE = frozenset(("prepare", "commit_prepared", "rollback_prepared"))


@dataclass(frozen=True, slots=True)
class Route:
    """A query string. `executes`: prepared statements that EXECUTE runs in it; `relations`: the relations that it
    reads, as (schema, name), some of which may be sequences."""

    needs: Needs
    executes: tuple[str, ...] = ()
    relations: frozenset[tuple[str | None, str]] = frozenset()
    opens_writable: bool = False  # a BEGIN that does not say READ ONLY, or says SERIALIZABLE: for the leader
    ends_first: bool = False  # it begins with COMMIT or ROLLBACK
    commits: bool = False
    rolls_back: bool = False  # it is a single ROLLBACK
    discards: bool = False
    unlocks: bool = False  # it calls pg_advisory_unlock_all(), which must run where the locks are
    told: bool = False  # `relations` and `places` are complete (statement_tablespaces.py)
    shared: bool = False  # it uses objects of all tablespaces: the schema, sequences, advisory locks
    places: frozenset[str] = frozenset()  # tablespaces that it names
    makes: bool = False  # it makes a table, maybe in `default_tablespace`
    calls: frozenset[str] = frozenset()  # functions that it calls


# A text that cannot be parsed fails on any node in the same way.
INVALID = Route(Needs.NOTHING)
LONG_READ = Route(Needs.READ)
LONG = Route(Needs.LEADER, opens_writable=True, commits=True)


# A long text takes milliseconds to parse, so only its words are searched. Strings and comments may contain these
# words too: then it is forwarded, which is always right. To search a megabyte takes 10 ms.
_LOOKED_THROUGH = 1 << 20
_READS = re.compile(rb"[\s(]*(?:select|values|table|with)\b", re.IGNORECASE)


@cache
def _may_write() -> re.Pattern[bytes]:
    names = "|".join(sorted(names_with(Trait.LEADER)))
    return re.compile(rb"\b(?:insert|update|delete|merge|into|for|execute|%b)\b|;" % names.encode(), re.IGNORECASE)


class Routes:
    """Routes of earlier statements, by their text without its literals. For all sessions of a node."""

    SIZE = 8192

    def __init__(self) -> None:
        self._known: dict[bytes, Route] = {}
        self._of_prepared: weakref.WeakKeyDictionary[Prepared, Route] = weakref.WeakKeyDictionary()

    def of(self, sql: bytes, conforming: bool = True, dialect: str = SHOAL) -> Route:
        """The route of a query string; INVALID for one with an error. Without standard_conforming_strings a backslash
        may have another meaning than here, and so may everything in another dialect: such a text is forwarded, which is
        always right."""
        if (not conforming and b"\\" in sql) or (dialect != SHOAL and not is_of_session(sql.decode(errors="replace"))):
            return LONG
        if len(sql) >= LONG_TEXT:
            short = len(sql) <= _LOOKED_THROUGH
            return LONG_READ if short and _READS.match(sql) and not _may_write().search(sql) else LONG
        lifted = lift(sql)
        key = sql if lifted is None else lifted[0]
        found = self._known.get(key)
        if found is None:
            found = _of_text(key) if lifted is None else _of_text(key, otherwise=sql)
            if len(self._known) >= self.SIZE:
                self._known.clear()
            self._known[key] = found
        return found

    def of_prepared(self, prepared: Prepared) -> Route:
        """The route of a prepared statement."""
        found = self._of_prepared.get(prepared)
        if found is None:
            statement = prepared.statement
            if isinstance(prepared.plan, UnplannedStatement):
                found = self.of(statement.text.encode(), prepared.key.conforming, prepared.key.dialect)
            else:
                found = of_trees([statement.tree])
            self._of_prepared[prepared] = found
        return found

    def closer(self, sql: bytes, conforming: bool = True, dialect: str = SHOAL) -> Route:
        """The route of a statement, also of a long text up to LOOKED_AT bytes: some milliseconds."""
        if LONG_TEXT <= len(sql) <= LOOKED_AT and (conforming or b"\\" not in sql) and dialect == SHOAL:
            return _of_text(sql)
        return self.of(sql, conforming, dialect)


def _of_text(sql: bytes, otherwise: bytes | None = None) -> Route:
    try:
        return of_trees([statement.tree for statement in parse(utf8(sql))])
    except SqlError:
        return INVALID if otherwise is None else _of_text(otherwise)


def of_trees(statements: Sequence[ast.Node]) -> Route:
    """The route of statements that are sent together."""
    if not statements:
        return INVALID
    nodes = [node for statement in statements for node in walk(statement)]
    controls = [node for node in statements if isinstance(node, ast.TransactionStmt)]
    first = statements[0]
    return Route(
        max(map(needs, statements)),
        tuple(node.name for node in nodes if isinstance(node, ast.ExecuteStmt)),
        frozenset(_relations(nodes)),
        any(
            node.kind in ("begin", "start") and (node.read_only is not True or node.isolation == SERIALIZABLE)
            for node in controls
        ),
        isinstance(first, ast.TransactionStmt) and first.kind in _ENDS,
        any(node.kind in ("commit", "end", "prepare") for node in controls),
        len(statements) == 1 and isinstance(first, ast.TransactionStmt) and first.kind in ("rollback", "abort"),
        any(isinstance(node, ast.DiscardStmt) for node in statements),
        any(isinstance(node, ast.FuncCall) and node.names[-1] == "pg_advisory_unlock_all" for node in nodes),
        all(map(tells_all, statements)) and not any(map(_reaches_everything, nodes)),
        any(map(_is_shared, nodes)),
        frozenset(_places(nodes)),
        any(_makes_table(node) and node.tablespace is None and node.persistence == "p" for node in nodes),
        frozenset(node.names[-1] for node in nodes if isinstance(node, ast.FuncCall)),
    )


def _relations(nodes: Sequence[ast.Node]) -> Iterator[tuple[str | None, str]]:
    for node in nodes:
        if isinstance(node, ast.RangeVar):
            yield node.schema, node.name
        elif isinstance(node, ast.DropStmt):
            yield from ((parts[-2] if len(parts) > 1 else None, parts[-1]) for parts in node.names)


def _places(nodes: Sequence[ast.Node]) -> Iterator[str]:
    for node in nodes:
        if _makes_table(node) and node.tablespace is not None:
            yield node.tablespace
        elif isinstance(node, ast.AlterTableCmd) and node.action == "tablespace" and node.value is not None:
            yield node.value


def _makes_table(node: ast.Node) -> TypeGuard[ast.CreateStmt | ast.CreateTableAsStmt]:
    kind = registry.find(node)
    return kind is not None and kind.makes_table


def tells_all(statement: ast.Node) -> bool:
    """Whether a statement's text names all relations that it uses."""
    kind = registry.find(statement)
    told = kind is not None and (kind.tells_all(statement) if callable(kind.tells_all) else kind.tells_all)
    return told or needs(statement) is Needs.NOTHING


def _is_shared(node: ast.Node) -> bool:
    kind = registry.find(node)
    return (kind is not None and kind.changes_schema) or (
        isinstance(node, ast.FuncCall) and of_node(node) is Needs.LEADER
    )


def _reaches_everything(node: ast.Node) -> bool:
    if isinstance(node, ast.SelectStmt):
        return node.into is not None
    return isinstance(node, ast.FuncCall) and node.names[-1] in names_with(Trait.ALL_TABLESPACES)


def needs(statement: ast.Node) -> Needs:
    """The requirement of one statement; for EXECUTE only of its arguments."""
    if type(statement) is ast.Node:  # an empty one
        return Needs.NOTHING
    kind = registry.find(statement)
    if kind is None:
        return Needs.LEADER
    return kind.needs if isinstance(kind.needs, Needs) else kind.needs(statement)
