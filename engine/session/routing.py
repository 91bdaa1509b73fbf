"""Where the statements of a client may run, told from their syntax trees: what a node that follows decides by.

    NOTHING    settings, transaction control, cursors and statements of the session's own, SELECTs that look at nothing:
               they run on any node
    READ       what reads the catalog or tables: it runs where the replica is fresh enough (engine/replica.py)
    LEADER     what writes or may write: DML, DDL, COPY, LOCK, FOR UPDATE, sequences, cursors WITH HOLD

A function counts by its name alone, whatever its schema: names need a catalog, and the catalog of a node that follows
may lack what the leader has. So a function with a side effect that hides in a view is not found here; on a node that
follows it then fails (40001), and nothing has happened.

A `Route` says it of a whole query string, and what the string does to the transaction.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cache

from catalog.errors import SqlError
from catalog.functions.base import Trait
from catalog.functions.registry import names_with
from engine.session.planning import LONG_TEXT
from engine.session.prepared import utf8
from engine.sql import ast
from engine.sql.lift import lift
from engine.sql.parser import parse
from engine.sql.tree_walk import walk
from engine.txn.interface import SERIALIZABLE

LOOKED_AT = 1 << 15  # bytes of a text that is parsed to find out which tablespaces it has to do with


class Needs(IntEnum):
    """In the order of how much is needed."""

    NOTHING = 0
    READ = 1
    LEADER = 2


_OWN_VALUES = frozenset(("current_user", "session_user", "user", "current_role", "current_catalog"))
_WRITES = (ast.InsertStmt, ast.UpdateStmt, ast.DeleteStmt, ast.MergeStmt)
_ALONE = (
    ast.TransactionStmt, ast.ShowStmt, ast.DeallocateStmt, ast.FetchStmt, ast.ClosePortalStmt, ast.DiscardStmt,
    ast.CheckPointStmt, ast.DoStmt, ast.AlterSystemStmt,
)  # fmt: skip
_MAKES = (ast.CreateStmt, ast.CreateTableAsStmt)
# Changes of the schema whose text names the relations that they have to do with.
_SCHEMA = (
    *_MAKES, ast.IndexStmt, ast.DropStmt, ast.AlterTableStmt, ast.ViewStmt, ast.SequenceStmt, ast.RefreshMatViewStmt,
    ast.TruncateStmt,
)  # fmt: skip
_TELLING = (ast.SelectStmt, ast.ExecuteStmt, ast.CopyStmt, ast.LockStmt, *_SCHEMA)
_OFF = ("off", "false", "0")
_ENDS = frozenset(("commit", "end", "rollback", "abort"))
_TWO_PHASE = frozenset(("prepare", "commit_prepared", "rollback_prepared"))


@dataclass(frozen=True, slots=True)
class Route:
    """A query string. `executes`: prepared statements that EXECUTE runs in it; `relations`: what it reads, as (schema,
    name), for whoever knows which of these are sequences."""

    needs: Needs
    executes: tuple[str, ...] = ()
    relations: frozenset[tuple[str | None, str]] = frozenset()
    opens_writable: bool = False  # a BEGIN that does not say READ ONLY, or says SERIALIZABLE: that is of the leader
    ends_first: bool = False  # it begins with COMMIT or ROLLBACK
    commits: bool = False
    rolls_back: bool = False  # it is a ROLLBACK and nothing else
    discards: bool = False
    unlocks: bool = False  # it calls pg_advisory_unlock_all(), which has to do where the locks are
    told: bool = False  # `relations` and `places` tell everything that it has to do with (engine/session/reach.py)
    shared: bool = False  # it has to do with what is for all tablespaces: the schema, sequences, advisory locks
    places: frozenset[str] = frozenset()  # tablespaces that it names
    makes: bool = False  # it makes a table that may lie in `default_tablespace`
    calls: frozenset[str] = frozenset()  # functions that it names


# What cannot be parsed fails, on any node, in the same way.
INVALID = Route(Needs.NOTHING)
LONG_READ = Route(Needs.READ)
LONG = Route(Needs.LEADER, opens_writable=True, commits=True)


# A long text takes milliseconds to parse, and is looked at only for what it may be. Strings and comments may hold these
# words too: then it is carried, which is always right. To look through a megabyte takes 10 ms.
_LOOKED_THROUGH = 1 << 20
_READS = re.compile(rb"[\s(]*(?:select|values|table|with)\b", re.IGNORECASE)


@cache
def _may_write() -> re.Pattern[bytes]:
    names = "|".join(sorted(names_with(Trait.LEADER)))
    return re.compile(rb"\b(?:insert|update|delete|merge|into|for|execute|%b)\b|;" % names.encode(), re.IGNORECASE)


class Routes:
    """Routes of statements that came before, by their text without its literals. For all sessions of a node."""

    SIZE = 8192

    def __init__(self) -> None:
        self._known: dict[bytes, Route] = {}

    def of(self, sql: bytes, conforming: bool = True) -> Route:
        """The route of a query string; INVALID for one that has an error. Without standard_conforming_strings a
        backslash may mean something else than here: such a text is carried, which is always right."""
        if not conforming and b"\\" in sql:
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

    def closer(self, sql: bytes, conforming: bool = True) -> Route:
        """The same, of a long text too, up to LOOKED_AT bytes: some milliseconds."""
        if LONG_TEXT <= len(sql) <= LOOKED_AT and (conforming or b"\\" not in sql):
            return _of_text(sql)
        return self.of(sql, conforming)


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
        all(map(_is_told, statements)) and not any(map(_reaches_everything, nodes)),
        any(map(_is_shared, nodes)),
        frozenset(_places(nodes)),
        any(isinstance(node, _MAKES) and node.tablespace is None and node.persistence == "p" for node in nodes),
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
        if isinstance(node, _MAKES) and node.tablespace is not None:
            yield node.tablespace
        elif isinstance(node, ast.AlterTableCmd) and node.action == "tablespace" and node.value is not None:
            yield node.value


def _is_told(statement: ast.Node) -> bool:
    if isinstance(statement, ast.ExplainStmt | ast.DeclareCursorStmt):
        held = isinstance(statement, ast.DeclareCursorStmt) and "hold" in statement.options
        return not held and _is_told(statement.query)
    if isinstance(statement, ast.DropStmt):
        return statement.kind in ("table", "index", "view", "matview", "sequence")
    return isinstance(statement, (*_TELLING, *_WRITES)) or needs(statement) is Needs.NOTHING


def _is_shared(node: ast.Node) -> bool:
    return isinstance(node, _SCHEMA) or (isinstance(node, ast.FuncCall) and _node(node) is Needs.LEADER)


def _reaches_everything(node: ast.Node) -> bool:
    if isinstance(node, ast.SelectStmt):
        return node.into is not None
    return isinstance(node, ast.FuncCall) and node.names[-1] in names_with(Trait.ALL_TABLESPACES)


def needs(statement: ast.Node) -> Needs:
    """What one statement needs; EXECUTE only for its arguments."""
    if type(statement) is ast.Node or isinstance(statement, _ALONE):
        two_phase = isinstance(statement, ast.TransactionStmt) and statement.kind in _TWO_PHASE
        return Needs.LEADER if two_phase else Needs.NOTHING
    if isinstance(statement, ast.NotifyStmt):
        return Needs.LEADER if statement.kind.lower() == "notify" else Needs.NOTHING
    if isinstance(statement, ast.SetStmt):
        if statement.name == "TRANSACTION SNAPSHOT":
            return Needs.LEADER
        names_role = statement.name.lower() in ("role", "session_authorization")
        return Needs.READ if names_role else Needs.NOTHING
    if isinstance(statement, ast.SelectStmt):
        return _select(statement)
    if isinstance(statement, ast.ExecuteStmt):
        return max(map(_expression, statement.arguments), default=Needs.NOTHING)
    if isinstance(statement, ast.DeclareCursorStmt):
        return Needs.LEADER if "hold" in statement.options else max(Needs.READ, _select(statement.query))
    if isinstance(statement, ast.ExplainStmt):
        runs = any(name == "analyze" and value.lower() not in _OFF for name, value in statement.options)
        return max(Needs.READ, needs(statement.query)) if runs else Needs.READ
    if isinstance(statement, ast.PrepareStmt | ast.VacuumStmt):
        return Needs.READ
    return Needs.LEADER


def _select(statement: ast.SelectStmt) -> Needs:
    return max((_node(node) for node in walk(statement)), default=Needs.NOTHING)


def _expression(expression: ast.Node) -> Needs:
    return max((_node(node) for node in walk(expression)), default=Needs.NOTHING)


def _node(node: ast.Node) -> Needs:
    if isinstance(node, _WRITES):
        return Needs.LEADER
    if isinstance(node, ast.SelectStmt):
        return Needs.LEADER if node.locking or node.into is not None else Needs.NOTHING
    if isinstance(node, ast.FuncCall):
        if node.names[-1] in names_with(Trait.LEADER):
            return Needs.LEADER
        return Needs.NOTHING if node.names[-1] in names_with(Trait.SESSION_ONLY) else Needs.READ
    if isinstance(node, ast.SqlValueFunction):
        return Needs.NOTHING if node.name in _OWN_VALUES else Needs.READ
    return Needs.READ if isinstance(node, ast.RangeVar | ast.RangeFunction | ast.TypeCast) else Needs.NOTHING
