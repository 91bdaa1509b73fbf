"""The analysed tree: every name resolved against the catalog, every expression typed.

Nodes follow PostgreSQL's primnodes.h and Query. Both paths start here: engine/execute compiles a `Query` to closures,
engine/columnar generates DuckDB SQL from it. Lower levels do not use the text of the statement.

Every expression has `type` (a TypeRef). A `Var` names a column by (range table index, column number) within the query
`levels_up` levels out; range table indexes count from 0 within each Query.

`location` (characters from 0, -1 for none) is the position for errors about the node. It is not compared, so that
`GROUP BY a + 1` equals `a + 1` in the target list.
"""

from __future__ import annotations

from dataclasses import field as node_field
from typing import Union

from catalog.functions.base import Function, Operator
from catalog.records import dataclass
from catalog.schema import Table, VirtualTable
from catalog.types.base import TypeRef
from catalog.types.oids import BOOL, RECORD
from engine.sql import tree_records

RangeColumn = tree_records.RangeColumn
RowMark = tree_records.RowMark
SearchClause = tree_records.SearchClause
ViewUse = tree_records.ViewUse

ROW_NUMBER = -1
"""The column of a Var that is the hidden number (int8) of a row of a table without a primary key."""


@dataclass(frozen=True, slots=True)
class Const:
    value: object  # internal form, None for NULL
    type: TypeRef
    location: int = node_field(default=-1, compare=False)


@dataclass(frozen=True, slots=True)
class Param:
    """$number; its type was given or inferred."""

    number: int
    type: TypeRef
    location: int = node_field(default=-1, compare=False)


@dataclass(frozen=True, slots=True)
class Var:
    """A column: its attnum in a table; elsewhere its position from 1. Column 0 is the whole row; see also
    ROW_NUMBER."""

    relation: int
    column: int
    type: TypeRef
    levels_up: int = 0
    name: str = ""
    location: int = node_field(default=-1, compare=False)


@dataclass(frozen=True, slots=True)
class FuncExpr:
    """A call of a function or of an `operator`, but not of an aggregate or window function. `arguments` have the
    declared types, with polymorphic ones resolved. Variadic arguments are one ArrayExpr, unless `variadic` (VARIADIC
    array). `display`, for deparse: call | cast_explicit | cast_implicit | operator | sql_syntax."""

    function: Function
    arguments: tuple[Expr, ...]
    type: TypeRef
    operator: Operator | None = None
    display: str = node_field(default="call", compare=False)
    variadic: bool = False
    location: int = node_field(default=-1, compare=False)


@dataclass(frozen=True, slots=True)
class RelabelType:
    """A binary-coercible cast: same internal form (varchar -> text), another type."""

    argument: Expr
    type: TypeRef
    implicit: bool = node_field(default=True, compare=False)
    location: int = node_field(default=-1, compare=False)


@dataclass(frozen=True, slots=True)
class CollateExpr:
    """argument COLLATE "...", until the statement is planned (engine/sql/analyze/collations.py). `collation`: its OID,
    `name`: as it was found, for printing."""

    argument: Expr
    collation: int
    type: TypeRef
    location: int = node_field(default=-1, compare=False)


@dataclass(frozen=True, slots=True)
class CoerceViaIO:
    """A cast through the text form: output of one type, input of the other."""

    argument: Expr
    type: TypeRef
    implicit: bool = node_field(default=False, compare=False)
    location: int = node_field(default=-1, compare=False)


@dataclass(frozen=True, slots=True)
class CoerceTypmod:
    """Length coercion to the modifier of `type` (catalog.types: SqlType.length_coercion)."""

    argument: Expr
    type: TypeRef
    explicit: bool
    location: int = node_field(default=-1, compare=False)


@dataclass(frozen=True, slots=True)
class ArrayCoerce:
    """An array cast element by element; `element` is the cast over CaseTestExpr."""

    argument: Expr
    element: Expr
    type: TypeRef
    location: int = node_field(default=-1, compare=False)


@dataclass(frozen=True, slots=True)
class CaseTestExpr:
    """The element in an ArrayCoerce, or the argument of a CASE."""

    type: TypeRef
    location: int = node_field(default=-1, compare=False)


@dataclass(frozen=True, slots=True)
class DomainValue:
    """VALUE in a domain's condition: the argument of the `CoerceToDomain` around it."""

    type: TypeRef
    location: int = node_field(default=-1, compare=False)


@dataclass(frozen=True, slots=True)
class CoerceToDomain:
    """A cast to a domain. Raises 23502 for a NULL that the domain does not allow, and 23514 if one of `checks` (name,
    condition over DomainValue) is FALSE. `name` is the domain's, as messages show it."""

    argument: Expr
    type: TypeRef
    name: str
    not_null: bool
    checks: tuple[tuple[str, Expr], ...] = ()
    implicit: bool = node_field(default=True, compare=False)
    location: int = node_field(default=-1, compare=False)


@dataclass(frozen=True, slots=True)
class DomainRule:
    """TRUE if the argument, a cast to a domain, raises no error: a table's check of a column of that domain."""

    argument: Expr
    type: TypeRef
    location: int = node_field(default=-1, compare=False)


@dataclass(frozen=True, slots=True)
class SortClause:
    """`expression` refers to the query's level. `nulls_first` is resolved, never default."""

    expression: Expr
    descending: bool = False
    nulls_first: bool = False


@dataclass(frozen=True, slots=True)
class Aggref:
    function: Function
    arguments: tuple[Expr, ...]
    type: TypeRef
    direct_arguments: tuple[Expr, ...] = ()  # ordered-set aggregates
    star: bool = False
    distinct: bool = False
    order_by: tuple[SortClause, ...] = ()
    filter: Expr | None = None
    levels_up: int = 0
    location: int = node_field(default=-1, compare=False)


@dataclass(frozen=True, slots=True)
class WindowFunc:
    function: Function  # a window function or an aggregate
    arguments: tuple[Expr, ...]
    type: TypeRef
    window: int  # index into Query.windows
    star: bool = False
    filter: Expr | None = None
    location: int = node_field(default=-1, compare=False)


@dataclass(frozen=True, slots=True)
class WindowClause:
    """frame_mode: rows range groups. Bounds as in ast.WindowDef, offsets typed."""

    name: str | None
    partition_by: tuple[Expr, ...]
    order_by: tuple[SortClause, ...]
    frame_mode: str
    frame_start: tuple[str, Expr | None]
    frame_end: tuple[str, Expr | None]
    exclude: str = ""


@dataclass(frozen=True, slots=True)
class GroupingFunc:
    arguments: tuple[Expr, ...]
    type: TypeRef
    location: int = node_field(default=-1, compare=False)


@dataclass(frozen=True, slots=True)
class BoolExpr:
    operator: str  # and | or | not
    arguments: tuple[Expr, ...]
    type: TypeRef = TypeRef(BOOL)
    location: int = node_field(default=-1, compare=False)


@dataclass(frozen=True, slots=True)
class NullTest:
    """IS [NOT] NULL. For a row it tests every field, or with `whole` the row itself."""

    argument: Expr
    is_null: bool
    type: TypeRef = TypeRef(BOOL)
    location: int = node_field(default=-1, compare=False)
    whole: bool = False


@dataclass(frozen=True, slots=True)
class BooleanTest:
    argument: Expr
    test: str
    type: TypeRef = TypeRef(BOOL)
    location: int = node_field(default=-1, compare=False)


@dataclass(frozen=True, slots=True)
class DistinctExpr:
    """left IS [NOT] DISTINCT FROM right, by the type's = operator."""

    operator: Operator
    function: Function
    left: Expr
    right: Expr
    negated: bool  # IS NOT DISTINCT FROM
    type: TypeRef = TypeRef(BOOL)
    location: int = node_field(default=-1, compare=False)


@dataclass(frozen=True, slots=True)
class NullIfExpr:
    operator: Operator
    function: Function
    left: Expr
    right: Expr
    type: TypeRef
    location: int = node_field(default=-1, compare=False)


@dataclass(frozen=True, slots=True)
class ScalarArrayOp:
    """left operator ANY|ALL (array). IN lists of constants and parameters of one type become this over an ArrayExpr."""

    operator: Operator
    function: Function
    use_or: bool  # ANY
    left: Expr
    right: Expr
    type: TypeRef = TypeRef(BOOL)
    location: int = node_field(default=-1, compare=False)


@dataclass(frozen=True, slots=True)
class CoalesceExpr:
    arguments: tuple[Expr, ...]
    type: TypeRef
    location: int = node_field(default=-1, compare=False)


@dataclass(frozen=True, slots=True)
class MinMaxExpr:
    operator: str  # greatest | least
    arguments: tuple[Expr, ...]
    type: TypeRef
    location: int = node_field(default=-1, compare=False)


@dataclass(frozen=True, slots=True)
class CaseExpr:
    """`argument` forms are rewritten: each condition is `CaseTestExpr = value` with `argument` evaluated once."""

    argument: Expr | None
    whens: tuple[tuple[Expr, Expr], ...]
    default: Expr  # Const NULL when ELSE is missing
    type: TypeRef
    location: int = node_field(default=-1, compare=False)


@dataclass(frozen=True, slots=True)
class ArrayExpr:
    """ARRAY[...]; `nested` when the elements are arrays themselves."""

    elements: tuple[Expr, ...]
    type: TypeRef
    element_type: TypeRef
    nested: bool = False
    location: int = node_field(default=-1, compare=False)


@dataclass(frozen=True, slots=True)
class RowExpr:
    elements: tuple[Expr, ...]
    names: tuple[str, ...]
    type: TypeRef = TypeRef(RECORD)
    location: int = node_field(default=-1, compare=False)


@dataclass(frozen=True, slots=True)
class RowCompare:
    """(a, b) < (c, d) and the like, column by column; = and <> are rewritten to AND / OR."""

    kind: str  # < <= > >=
    operators: tuple[Operator, ...]
    functions: tuple[Function, ...]
    left: tuple[Expr, ...]
    right: tuple[Expr, ...]
    type: TypeRef = TypeRef(BOOL)
    location: int = node_field(default=-1, compare=False)


@dataclass(frozen=True, slots=True)
class FieldSelect:
    argument: Expr
    field: int  # from 1
    name: str
    type: TypeRef
    location: int = node_field(default=-1, compare=False)


@dataclass(frozen=True, slots=True)
class SubscriptingRef:
    """argument[upper], or argument[lower:upper] if is_slice, with a subscript for each dimension. With `assignment`,
    the array after that value is stored (UPDATE t SET a[1] = x)."""

    argument: Expr
    upper: tuple[Expr | None, ...]
    lower: tuple[Expr | None, ...]
    is_slice: bool
    type: TypeRef
    assignment: Expr | None = None
    location: int = node_field(default=-1, compare=False)


@dataclass(frozen=True, slots=True)
class SubLink:
    """kind: exists any all expr array. For any and all, `comparisons`, pairs (operator, function), compare `test` (the
    left values) with the query's columns. They are combined by AND ('=') or as a row comparison."""

    kind: str
    query: Query
    type: TypeRef
    test: tuple[Expr, ...] = ()
    comparisons: tuple[tuple[Operator, Function], ...] = ()
    operator_name: str = ""
    negated: bool = False  # NOT IN: <> ALL
    location: int = node_field(default=-1, compare=False)


@dataclass(frozen=True, slots=True)
class SqlValueFunction:
    name: str
    precision: int | None
    type: TypeRef
    location: int = node_field(default=-1, compare=False)


@dataclass(frozen=True, slots=True)
class NextValueExpr:
    """The next value of an identity or serial column's sequence, when a default is filled in."""

    sequence: int
    type: TypeRef
    location: int = node_field(default=-1, compare=False)


@dataclass(frozen=True, slots=True)
class SetToDefault:
    """DEFAULT in VALUES of a multi-row INSERT; replaced by the column's default before execution."""

    type: TypeRef


@dataclass(frozen=True, slots=True)
class CurrentOf:
    """WHERE CURRENT OF: TRUE for the changed table's row at which the cursor is positioned."""

    cursor: str
    type: TypeRef = TypeRef(BOOL)
    location: int = node_field(default=-1, compare=False)


Expr = Union[
    Const, Param, Var, FuncExpr, RelabelType, CoerceViaIO, CoerceTypmod, ArrayCoerce, CaseTestExpr, Aggref, WindowFunc,
    GroupingFunc, BoolExpr, NullTest, BooleanTest, DistinctExpr, NullIfExpr, ScalarArrayOp, CoalesceExpr, MinMaxExpr,
    CaseExpr, ArrayExpr, RowExpr, RowCompare, FieldSelect, SubscriptingRef, SubLink, SqlValueFunction, NextValueExpr,
    SetToDefault, DomainValue, CoerceToDomain, DomainRule, CurrentOf, CollateExpr,
]  # fmt: skip


# ---- range table ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Sample:
    """TABLESAMPLE. method: bernoulli | system; `percent` is a float4, `seed` (REPEATABLE) a float8, without columns."""

    method: str
    percent: Expr
    seed: Expr | None = None


@dataclass(frozen=True, slots=True)
class RangeTable:
    """A stored or virtual table. `columns` is by position; Var.column is the attnum, found through table.columns.
    `only`: without child tables; also set after the members have replaced the table (engine/partitions/expand.py).
    `role`: the owner (OID) of the SECURITY DEFINER function that reads it, or 0."""

    table: Table | VirtualTable
    alias: str
    columns: tuple[RangeColumn, ...]  # after alias renaming, parallel to table.columns
    aliased: bool = False  # the alias was written, even if it is the table's own name
    sample: Sample | None = None
    only: bool = False
    given: frozenset[int] | None = None  # in a stored text: the columns (attnums) that the alias names
    role: int = 0


@dataclass(frozen=True, slots=True)
class RangeSubquery:
    query: Query
    alias: str
    columns: tuple[RangeColumn, ...]
    lateral: bool = False
    view: int | None = None  # OID of the view that was expanded
    apart: bool = False  # its conditions are evaluated before everything around it (engine/sql/barriers.py)


@dataclass(frozen=True, slots=True)
class RangeFunction:
    """Set-returning or plain functions in FROM. column_counts: the number of columns of each function."""

    functions: tuple[Expr, ...]
    alias: str
    columns: tuple[RangeColumn, ...]
    column_counts: tuple[int, ...]
    ordinality: bool = False
    lateral: bool = False


@dataclass(frozen=True, slots=True)
class RangeValues:
    rows: tuple[tuple[Expr, ...], ...]
    alias: str
    columns: tuple[RangeColumn, ...]
    lateral: bool = False


@dataclass(frozen=True, slots=True)
class RangeCte:
    """Refers to Query.ctes of the query `levels_up` out, by name. `recursive_self`: inside its own recursive term."""

    name: str
    levels_up: int
    alias: str
    columns: tuple[RangeColumn, ...]
    recursive_self: bool = False


@dataclass(frozen=True, slots=True)
class RangeJoin:
    """The output columns of a join, each an expression over its inputs (USING merges two into a coalesce)."""

    alias: str  # 'unnamed_join' for a join without an alias
    columns: tuple[RangeColumn, ...]
    expressions: tuple[Expr, ...]
    merged: int = 0  # the number of first columns that USING (or NATURAL) merged


RangeEntry = Union[RangeTable, RangeSubquery, RangeFunction, RangeValues, RangeCte, RangeJoin]


@dataclass(frozen=True, slots=True)
class FromRef:
    """One range table entry in the join tree."""

    relation: int


@dataclass(frozen=True, slots=True)
class FromJoin:
    """kind: inner left right full cross. `relation` is its RangeJoin entry (or -1). A cross join has no condition. Vars
    above a join refer to the base entries, except those of merged USING columns. They are Vars of the RangeJoin entry,
    which generators expand through RangeJoin.expressions."""

    kind: str
    left: FromItem
    right: FromItem
    condition: Expr | None
    relation: int = -1


FromItem = Union[FromRef, FromJoin]


# ---- queries --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Target:
    """One output column. A `junk` column, for ORDER BY, GROUP BY or row identity, is not sent."""

    expression: Expr
    name: str
    junk: bool = False
    origin_table: int = 0  # OID and attnum for RowDescription, 0 if computed
    origin_column: int = 0


@dataclass(frozen=True, slots=True)
class CycleClause:
    columns: tuple[str, ...]
    mark: str
    value: Expr
    default: Expr
    path: str


@dataclass(frozen=True, slots=True)
class Cte:
    """`aliases`: the column names in the statement. With SEARCH or CYCLE, `query` includes their columns
    (engine/sql/analyze/search_cycle.py), and `written` is the original query, for the text of views."""

    name: str
    columns: tuple[RangeColumn, ...]
    query: Statement
    recursive: bool = False
    materialized: bool | None = None
    search: SearchClause | None = None
    cycle: CycleClause | None = None
    written: Query | None = None
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SetOperation:
    """left and right are range table indexes of RangeSubquery entries, or nested set operations. `types` are the common
    column types. The analyser has added the casts to the leaf queries."""

    kind: str  # union intersect except
    all: bool
    left: SetOperation | FromRef
    right: SetOperation | FromRef
    types: tuple[TypeRef, ...]


@dataclass(frozen=True, slots=True)
class Query:
    """A SELECT, VALUES or set operation.

    group_by: expressions; grouping_sets: tuples of indexes into group_by, () when there is only the plain GROUP BY.
    distinct: None | () for DISTINCT | expressions of DISTINCT ON. Set operations: `set_operation` is set, and targets
    are Vars of the leftmost leaf that give names and types.
    """

    targets: tuple[Target, ...]
    range_table: tuple[RangeEntry, ...] = ()
    from_items: tuple[FromItem, ...] = ()
    where: Expr | None = None
    group_by: tuple[Expr, ...] = ()
    grouping_sets: tuple[tuple[int, ...], ...] = ()
    having: Expr | None = None
    windows: tuple[WindowClause, ...] = ()
    distinct: tuple[Expr, ...] | None = None
    order_by: tuple[SortClause, ...] = ()
    limit: Expr | None = None  # int8
    limit_with_ties: bool = False
    offset: Expr | None = None
    set_operation: SetOperation | None = None
    ctes: tuple[Cte, ...] = ()
    row_marks: tuple[RowMark, ...] = ()
    has_aggregates: bool = False
    has_windows: bool = False
    has_set_functions: bool = False  # set-returning functions in the target list
    volatile: bool = False  # calls a volatile function anywhere
    facts: dict[object, object] = node_field(default_factory=dict, init=False, repr=False, compare=False)
    """Results of walks for planning (engine/sql/tree_walk.py). Without them, every level of nested queries would walk
    all levels below it, in quadratic time."""

    @property
    def output(self) -> tuple[Target, ...]:
        return tuple([target for target in self.targets if not target.junk])


@dataclass(frozen=True, slots=True)
class Assignment:
    """column number := expression, already coerced to the column's type by assignment cast."""

    column: int
    expression: Expr


NO_ARBITER = "there is no unique or exclusion constraint matching the ON CONFLICT specification"


@dataclass(frozen=True, slots=True)
class OnConflict:
    """index_oids: the arbiter indexes; () with action nothing means any. Expressions use the target table (range entry
    0) and EXCLUDED (range entry 1). `provided`: comparisons of parameters with constants that must hold for a partial
    index to be an arbiter. The executor checks them (42P10). `policies`, `checks`: the checks of row security policies
    on the conflicting row and on its new version."""

    action: str  # nothing | update
    index_oids: tuple[int, ...]
    assignments: tuple[Assignment, ...] = ()
    where: Expr | None = None
    provided: tuple[tuple[Param, str, Const], ...] = ()
    policies: tuple[tuple[str, Expr], ...] = ()
    checks: tuple[tuple[str, Expr], ...] = ()


@dataclass(frozen=True, slots=True)
class Insert:
    """`rows`, for VALUES without sub-queries: for each row one expression for each column of the table, in the order of
    table.columns, with defaults and casts. Otherwise `source` returns the columns in `source_columns`, and `defaults`
    the others. `defaults`, `checks`, `generated` and RETURNING use the new row as range entry 0. `columns`: the attnums
    with values in the statement. `views`: the views through which the statement changes the table, outermost first."""

    table: Table
    range_table: tuple[RangeEntry, ...]
    rows: tuple[tuple[Expr, ...], ...] = ()
    source: Query | None = None
    source_columns: tuple[int, ...] = ()  # attnum of each output column of source
    defaults: tuple[Assignment, ...] = ()  # for columns not in source_columns
    generated: tuple[Assignment, ...] = ()
    checks: tuple[tuple[str, Expr], ...] = ()  # (constraint name, condition)
    on_conflict: OnConflict | None = None
    returning: tuple[Target, ...] = ()
    ctes: tuple[Cte, ...] = ()
    columns: tuple[int, ...] = ()
    views: tuple[ViewUse, ...] = ()


@dataclass(frozen=True, slots=True)
class Update:
    """The target table is range entry 0, and FROM items follow; from_items excludes the target. `members`: the tables
    with the target's rows, if there are several; the statement runs over each. `root`: the partitioned table that the
    statement named, if rows of this partition may move to another one. `named`: the table that the statement named, if
    it is not the target: errors show rows in the order of its columns."""

    table: Table
    range_table: tuple[RangeEntry, ...]
    assignments: tuple[Assignment, ...]
    from_items: tuple[FromItem, ...] = ()
    where: Expr | None = None
    generated: tuple[Assignment, ...] = ()
    checks: tuple[tuple[str, Expr], ...] = ()
    returning: tuple[Target, ...] = ()
    ctes: tuple[Cte, ...] = ()
    views: tuple[ViewUse, ...] = ()
    members: tuple[Table, ...] = ()
    root: Table | None = None
    named: Table | None = None


@dataclass(frozen=True, slots=True)
class Delete:
    """`members` as in Update."""

    table: Table
    range_table: tuple[RangeEntry, ...]
    from_items: tuple[FromItem, ...] = ()
    where: Expr | None = None
    returning: tuple[Target, ...] = ()
    ctes: tuple[Cte, ...] = ()
    views: tuple[ViewUse, ...] = ()
    members: tuple[Table, ...] = ()


@dataclass(frozen=True, slots=True)
class MergeAction:
    """One WHEN clause. action: update | delete | insert | nothing. `assignments`: those of UPDATE; for INSERT one for
    every column that is not generated. `columns`: the attnums with values in the INSERT. Expressions may use the
    target's row (range entry 0) only if `matched`. `policies`, `checks`: as in OnConflict, on the target's row."""

    matched: bool
    action: str
    condition: Expr | None = None
    assignments: tuple[Assignment, ...] = ()
    columns: tuple[int, ...] = ()
    policies: tuple[tuple[str, Expr], ...] = ()
    checks: tuple[tuple[str, Expr], ...] = ()


@dataclass(frozen=True, slots=True)
class Merge:
    """The target table is range entry 0, and is joined to `source` on `condition`. `generated` and `checks` use the new
    row as range entry 0. The first action whose condition is true is executed for a row. `in_members`: range entry 0
    is a sub-query over the partitions of the table, whose last columns are the hidden row number, or NULL, and
    tableoid."""

    table: Table
    range_table: tuple[RangeEntry, ...]
    source: FromItem
    condition: Expr
    actions: tuple[MergeAction, ...]
    generated: tuple[Assignment, ...] = ()
    checks: tuple[tuple[str, Expr], ...] = ()
    returning: tuple[Target, ...] = ()
    ctes: tuple[Cte, ...] = ()
    in_members: bool = False


POLICY_CHECK = "\1"
"""The prefix of names in `checks` for row security policies (row_security.py), which are checked first."""

VIEW_CHECK = "\U0010ffff"
"""The prefix of names in `checks` for a view's check option (44000). A number of four digits and the view's name
follow. They sort after every constraint, because PostgreSQL checks them last."""

PARTITION_CHECK = "\U0010fffe"
"""The name in `checks` of the condition of a partition's bounds, which sorts after every constraint."""

TABLE_OID = -6
"""The column number of tableoid."""

Statement = Union[Query, Insert, Update, Delete, Merge]


@dataclass(frozen=True, slots=True)
class Analyzed:
    """The result of analysis: the statement, the types of its parameters, and its dependencies. `relations` are the
    OIDs of all relations that it reads or writes, including views, for locks, privileges and invalidation."""

    statement: Statement
    parameter_types: tuple[int, ...]
    relations: tuple[int, ...]
    written: tuple[int, ...] = ()
    locked: tuple[int, ...] = ()  # whose rows FOR UPDATE and similar clauses lock, also those of sub-queries
    table_oids: bool = False  # it uses the tableoid of a stored table
    declared_types: tuple[int, ...] = ()  # parameter_types with domains, if there are any, and not their base types
    collated: bool = False  # it depends on collations, so that collations.collate must run before planning
    outputs: tuple[int, ...] = ()  # after collate: the collations of the output columns, or 0
    literals: int = 0  # the number of parameters, from $1 on, that are literals of the text; none of them is NULL
