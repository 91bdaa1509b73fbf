"""Transactions, settings, prepared statements, cursors, EXPLAIN, COPY, LOCK, VACUUM, NOTIFY and similar statements."""

from __future__ import annotations

from typing import Any

from catalog.records import dataclass
from engine.sql.ast.base import Node
from engine.sql.ast.expressions import TypeName
from engine.sql.ast.queries import RangeVar, SelectStmt


@dataclass(frozen=True, slots=True)
class TransactionStmt(Node):
    """kind: begin start commit end rollback abort savepoint release rollback_to prepare commit_prepared
    rollback_prepared. modes: isolation ('read committed', ...), read_only (bool), deferrable (bool) where given."""

    kind: str
    name: str | None = None
    isolation: str | None = None
    read_only: bool | None = None
    deferrable: bool | None = None
    chain: bool = False


@dataclass(frozen=True, slots=True)
class SetStmt(Node):
    """SET name TO values; values () means DEFAULT (RESET). `SET TRANSACTION`/`SET SESSION CHARACTERISTICS` have the
    name 'TRANSACTION' / 'SESSION CHARACTERISTICS' and `modes`, SET TRANSACTION SNAPSHOT has the name
    'TRANSACTION SNAPSHOT'. RESET ALL: name 'all', values ()."""

    name: str
    values: tuple[str, ...] = ()
    local: bool = False
    reset: bool = False
    modes: TransactionStmt | None = None


@dataclass(frozen=True, slots=True)
class AlterSystemStmt(Node):
    setting: SetStmt


@dataclass(frozen=True, slots=True)
class ShowStmt(Node):
    name: str  # 'all' for SHOW ALL


@dataclass(frozen=True, slots=True)
class PrepareStmt(Node):
    name: str
    types: tuple[TypeName, ...]
    query: Node


@dataclass(frozen=True, slots=True)
class ExecuteStmt(Node):
    name: str
    arguments: tuple[Node, ...] = ()


@dataclass(frozen=True, slots=True)
class DeallocateStmt(Node):
    name: str | None  # None: ALL


@dataclass(frozen=True, slots=True)
class DeclareCursorStmt(Node):
    name: str
    query: SelectStmt
    options: tuple[str, ...] = ()  # binary scroll no scroll insensitive asensitive hold


@dataclass(frozen=True, slots=True)
class FetchStmt(Node):
    """direction: forward backward absolute relative; count None is ALL. move: MOVE instead of FETCH."""

    cursor: str
    direction: str = "forward"
    count: int | None = 1
    move: bool = False


@dataclass(frozen=True, slots=True)
class ClosePortalStmt(Node):
    name: str | None


@dataclass(frozen=True, slots=True)
class ExplainStmt(Node):
    query: Node
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class CopyStmt(Node):
    """target None with from_ False: STDOUT; with from_ True: STDIN. options as written, keys lower case."""

    relation: RangeVar | None
    query: Node | None
    columns: tuple[str, ...]
    is_from: bool
    filename: str | None = None
    program: bool = False
    options: tuple[tuple[str, Any], ...] = ()  # value: str, bool, tuple of column names, or '*'
    where: Node | None = None


@dataclass(frozen=True, slots=True)
class LockStmt(Node):
    relations: tuple[RangeVar, ...]
    mode: str  # 'access exclusive' ...
    nowait: bool = False


@dataclass(frozen=True, slots=True)
class VacuumStmt(Node):
    """VACUUM and ANALYZE."""

    is_vacuum: bool
    relations: tuple[RangeVar, ...] = ()
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class DiscardStmt(Node):
    target: str  # all plans sequences temp


@dataclass(frozen=True, slots=True)
class NotifyStmt(Node):
    """LISTEN, UNLISTEN (channel None: *), NOTIFY."""

    kind: str
    channel: str | None
    payload: str = ""


@dataclass(frozen=True, slots=True)
class CheckPointStmt(Node):
    pass


@dataclass(frozen=True, slots=True)
class ReindexStmt(Node):
    """kind: index table schema database system. `name` is (schema or None, name)."""

    kind: str
    name: tuple[str | None, str]
    concurrently: bool = False


@dataclass(frozen=True, slots=True)
class ClusterStmt(Node):
    """CLUSTER. `relation`: None for all tables that were clustered before; `index`: None for the one that was used."""

    relation: RangeVar | None = None
    index: str | None = None


@dataclass(frozen=True, slots=True)
class SetConstraintsStmt(Node):
    """SET CONSTRAINTS. `names`: (schema, name) each, () for ALL."""

    names: tuple[tuple[str | None, str], ...]
    deferred: bool


@dataclass(frozen=True, slots=True)
class DoStmt(Node):
    """DO [LANGUAGE language] body. `literal`: where the body begins, and how it is written."""

    language: str
    body: str
    literal: tuple[int, str] | None = None


@dataclass(frozen=True, slots=True)
class RefusedStmt(Node):
    """A statement that the parser knows but Shoal does not support. `what`: its name in the 0A000."""

    what: str
