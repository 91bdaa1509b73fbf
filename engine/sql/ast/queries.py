"""SELECT with its FROM and WITH, and INSERT, UPDATE, DELETE, MERGE."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog.records import dataclass
from catalog.schema import Column
from engine.sql.ast.base import Node
from engine.sql.ast.expressions import SortBy, Subscript, TypeName, WindowDef

if TYPE_CHECKING:
    from engine.sql.ast.definitions import IndexElement


# ---- FROM ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Alias(Node):
    name: str
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RangeVar(Node):
    catalog: str | None
    schema: str | None
    name: str
    alias: Alias | None = None
    only: bool = False
    as_of: AsOf | None = None  # in FROM alone


@dataclass(frozen=True, slots=True)
class AsOf(Node):
    """AS OF LSN n, AS OF TIMESTAMP t, from `location` to `end` in the query string. kind: 'lsn', 'timestamp'."""

    kind: str
    moment: Node
    end: int


@dataclass(frozen=True, slots=True)
class RangeSubselect(Node):
    query: SelectStmt
    alias: Alias | None = None
    lateral: bool = False


@dataclass(frozen=True, slots=True)
class ColumnDefinitionItem(Node):
    """A column of a function's AS (name type [COLLATE collation], ...) list."""

    name: str
    type: TypeName
    collation: tuple[str, ...] = ()
    collate_location: int = -1


@dataclass(frozen=True, slots=True)
class RangeFunction(Node):
    functions: tuple[Node, ...]  # more than one for ROWS FROM (...)
    alias: Alias | None = None
    lateral: bool = False
    ordinality: bool = False
    definitions: tuple[ColumnDefinitionItem, ...] = ()
    inside: tuple[tuple[ColumnDefinitionItem, ...], ...] = ()  # the column definition lists within ROWS FROM


@dataclass(frozen=True, slots=True)
class JoinExpr(Node):
    """kind: inner left right full cross. natural, or using, or on."""

    kind: str
    left: Node
    right: Node
    natural: bool = False
    using: tuple[str, ...] = ()
    using_alias: str | None = None
    on: Node | None = None
    alias: Alias | None = None


@dataclass(frozen=True, slots=True)
class RangeTableSample(Node):
    relation: Node
    method: str
    arguments: tuple[Node, ...]
    repeatable: Node | None


# ---- queries and DML -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ResTarget(Node):
    """SELECT: expression AS name. INSERT: column name (with indirection). UPDATE: name = expression."""

    expression: Node | None = None
    name: str | None = None
    indirection: tuple[Subscript | str, ...] = ()


@dataclass(frozen=True, slots=True)
class MultiAssign(Node):
    """UPDATE ... SET (a, b) = source, where source is a RowExpr or a SubLink."""

    targets: tuple[ResTarget, ...]
    source: Node


@dataclass(frozen=True, slots=True)
class GroupingSet(Node):
    kind: str  # empty | simple | rollup | cube | sets
    content: tuple[Node, ...] = ()


@dataclass(frozen=True, slots=True)
class LockingClause(Node):
    strength: str  # update | no key update | share | key share
    of: tuple[str, ...] = ()
    wait: str = "block"  # block | skip locked | nowait


@dataclass(frozen=True, slots=True)
class SearchClause(Node):
    breadth: bool
    columns: tuple[str, ...]
    sequence: str


@dataclass(frozen=True, slots=True)
class CycleClause(Node):
    """CYCLE. `value` and `default` are None if not given, and stand for TRUE and FALSE."""

    columns: tuple[str, ...]
    mark: str
    value: Node | None
    default: Node | None
    path: str


@dataclass(frozen=True, slots=True)
class CommonTableExpr(Node):
    name: str
    columns: tuple[str, ...]
    query: Node  # SelectStmt, InsertStmt, UpdateStmt, DeleteStmt, MergeStmt
    materialized: bool | None = None
    search: SearchClause | None = None
    cycle: CycleClause | None = None


@dataclass(frozen=True, slots=True)
class WithClause(Node):
    recursive: bool
    ctes: tuple[CommonTableExpr, ...]


@dataclass(frozen=True, slots=True)
class SelectStmt(Node):
    """Either a plain SELECT, or VALUES (`values`), or a set operation (`set_operation` with left and right).

    `distinct`: None, () for DISTINCT, or the expressions of DISTINCT ON.
    """

    targets: tuple[ResTarget, ...] = ()
    from_clause: tuple[Node, ...] = ()
    where: Node | None = None
    group_by: tuple[Node, ...] = ()
    group_distinct: bool = False
    having: Node | None = None
    windows: tuple[WindowDef, ...] = ()
    distinct: tuple[Node, ...] | None = None
    values: tuple[tuple[Node, ...], ...] = ()
    order_by: tuple[SortBy, ...] = ()
    limit: Node | None = None
    limit_with_ties: bool = False
    offset: Node | None = None
    locking: tuple[LockingClause, ...] = ()
    with_clause: WithClause | None = None
    set_operation: str = ""  # '' union intersect except
    all: bool = False
    left: SelectStmt | None = None
    right: SelectStmt | None = None
    into: RangeVar | None = None

    @property
    def changes_data(self) -> bool:
        """Whether its WITH clause contains statements that change data."""
        return self.with_clause is not None and any(
            not isinstance(cte.query, SelectStmt) for cte in self.with_clause.ctes
        )


@dataclass(frozen=True, slots=True)
class InferClause(Node):
    elements: tuple[IndexElement, ...] = ()
    where: Node | None = None
    constraint: str | None = None


@dataclass(frozen=True, slots=True)
class OnConflict(Node):
    infer: InferClause | None
    action: str  # nothing | update
    assignments: tuple[ResTarget | MultiAssign, ...] = ()
    where: Node | None = None


@dataclass(frozen=True, slots=True)
class InsertStmt(Node):
    relation: RangeVar
    columns: tuple[ResTarget, ...] = ()
    query: SelectStmt | None = None  # None: DEFAULT VALUES
    on_conflict: OnConflict | None = None
    returning: tuple[ResTarget, ...] = ()
    with_clause: WithClause | None = None
    overriding: str = ""  # '' user system
    ruled: bool = False  # its table's rules are applied already


@dataclass(frozen=True, slots=True)
class UpdateStmt(Node):
    relation: RangeVar
    assignments: tuple[ResTarget | MultiAssign, ...]
    from_clause: tuple[Node, ...] = ()
    where: Node | None = None
    returning: tuple[ResTarget, ...] = ()
    with_clause: WithClause | None = None
    current_of: str | None = None
    ruled: bool = False


@dataclass(frozen=True, slots=True)
class DeleteStmt(Node):
    relation: RangeVar
    using: tuple[Node, ...] = ()
    where: Node | None = None
    returning: tuple[ResTarget, ...] = ()
    with_clause: WithClause | None = None
    current_of: str | None = None
    ruled: bool = False


@dataclass(frozen=True, slots=True)
class AssignedValue(Node):
    """An expression, cast as an assignment to the column casts it; not in a text."""

    expression: Node
    column: Column


@dataclass(frozen=True, slots=True)
class MergeWhen(Node):
    matched: bool
    condition: Node | None
    action: str  # update | delete | insert | nothing
    assignments: tuple[ResTarget | MultiAssign, ...] = ()
    columns: tuple[ResTarget, ...] = ()
    values: tuple[Node, ...] | None = ()  # None: DEFAULT VALUES
    overriding: str = ""


@dataclass(frozen=True, slots=True)
class MergeStmt(Node):
    relation: RangeVar
    source: Node
    on: Node
    whens: tuple[MergeWhen, ...]
    with_clause: WithClause | None = None
