"""The analysed tree: every name resolved against the catalog, every expression typed.

Nodes follow PostgreSQL's primnodes.h and Query. Both paths start here: engine/execute compiles a `Query` to closures,
engine/columnar generates DuckDB SQL from it. Nothing below this level looks at text that a user wrote.

Every expression has `type` (a TypeRef). A `Var` names a column by (range table index, column number) within the query
`levels_up` levels out; range table indexes count from 0 within each Query.

`location` (characters from 0, -1 for none) is where errors about the node point; it takes no part in equality, so that
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
    """Column `column` (attnum for tables; 1-based position for subqueries, functions, values, CTEs and joins).

    column 0 is the whole row. For hidden row identity see `RowKey`.
    """

    relation: int
    column: int
    type: TypeRef
    levels_up: int = 0
    name: str = ""
    location: int = node_field(default=-1, compare=False)


@dataclass(frozen=True, slots=True)
class FuncExpr:
    """A call of a function that is not an aggregate or window function; operators too (`operator` says which).

    `display`: call | cast_explicit | cast_implicit | operator | sql_syntax, for deparse.
    `arguments` already are of the declared types, polymorphic ones resolved; variadic arguments are collected into one
    ArrayExpr unless `variadic` (VARIADIC array was given).
    """

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
    """Stands for the element under ArrayCoerce, or the CASE argument."""

    type: TypeRef
    location: int = node_field(default=-1, compare=False)


@dataclass(frozen=True, slots=True)
class DomainValue:
    """VALUE in a domain's condition: what the `CoerceToDomain` around it is given."""

    type: TypeRef
    location: int = node_field(default=-1, compare=False)


@dataclass(frozen=True, slots=True)
class CoerceToDomain:
    """The argument, if it meets the domain's conditions: 23502 where it is NULL and may not be, 23514 where one of
    `checks` (name, condition over DomainValue) is FALSE. `name` is the domain's, as messages show it."""

    argument: Expr
    type: TypeRef
    name: str
    not_null: bool
    checks: tuple[tuple[str, Expr], ...] = ()
    implicit: bool = node_field(default=True, compare=False)
    location: int = node_field(default=-1, compare=False)


@dataclass(frozen=True, slots=True)
class DomainRule:
    """TRUE when the argument, a cast to a domain, raises nothing: what a table asks of a column of that domain."""

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
    """IS [NOT] NULL. Of a row it asks every field, unless `whole`: then, whether there is a row."""

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
    """argument[upper], or argument[lower:upper] when is_slice; several subscripts for several dimensions.

    With `assignment` it is the new array after storing that value (UPDATE t SET a[1] = x).
    """

    argument: Expr
    upper: tuple[Expr | None, ...]
    lower: tuple[Expr | None, ...]
    is_slice: bool
    type: TypeRef
    assignment: Expr | None = None
    location: int = node_field(default=-1, compare=False)


@dataclass(frozen=True, slots=True)
class SubLink:
    """kind: exists any all expr array. any/all: `comparisons` compare `test` (left values) with the query's columns:
    pairs (operator, function); combined by AND ('=') or row comparison."""

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
    """WHERE CURRENT OF: TRUE for the row of the changed table under which the cursor is."""

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
class RangeColumn:
    """`collation`: the OID of the one that a column definition list gives it, 0 where its type or its query says."""

    name: str
    type: TypeRef
    collation: int = 0


@dataclass(frozen=True, slots=True)
class Sample:
    """TABLESAMPLE. method: bernoulli | system; `percent` is a float4, `seed` (REPEATABLE) a float8, without columns."""

    method: str
    percent: Expr
    seed: Expr | None = None


@dataclass(frozen=True, slots=True)
class RangeTable:
    """A stored or virtual table. `columns` is by position; Var.column is the attnum, found through table.columns.
    `only`: without the tables that inherit from it; so is what is left when these have been put in its place
    (engine/partitions/expand.py).

    Views are already expanded: they are RangeSubquery with `view` set.
    """

    table: Table | VirtualTable
    alias: str
    columns: tuple[RangeColumn, ...]  # after alias renaming, parallel to table.columns
    aliased: bool = False  # the alias was written, even if it is the table's own name
    sample: Sample | None = None
    only: bool = False
    given: frozenset[int] | None = None  # in a stored text: the columns (attnums) that are named by the alias


@dataclass(frozen=True, slots=True)
class RangeSubquery:
    query: Query
    alias: str
    columns: tuple[RangeColumn, ...]
    lateral: bool = False
    view: int | None = None  # OID of the view that it came from
    apart: bool = False  # nothing around it may be computed before its own conditions (engine/sql/barriers.py)


@dataclass(frozen=True, slots=True)
class RangeFunction:
    """Set-returning or plain functions in FROM. column_counts says how many columns each function gives."""

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
    """The output columns of a join, each an expression over its inputs (USING merges two into a coalesce).

    The alias is 'unnamed_join' where the join was given none."""

    alias: str
    columns: tuple[RangeColumn, ...]
    expressions: tuple[Expr, ...]
    merged: int = 0  # how many of the first columns USING (or NATURAL) merged


RangeEntry = Union[RangeTable, RangeSubquery, RangeFunction, RangeValues, RangeCte, RangeJoin]


@dataclass(frozen=True, slots=True)
class FromRef:
    """One range table entry in the join tree."""

    relation: int


@dataclass(frozen=True, slots=True)
class FromJoin:
    """kind: inner left right full cross. `relation` is its RangeJoin entry (or -1). condition None: cross join.

    Vars above a join refer to the base entries directly, except merged USING columns, which are Vars of the RangeJoin
    entry; generators expand those through RangeJoin.expressions.
    """

    kind: str
    left: FromItem
    right: FromItem
    condition: Expr | None
    relation: int = -1


FromItem = Union[FromRef, FromJoin]


# ---- queries --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Target:
    """One output column. `junk` ones are for ORDER BY, GROUP BY and row identity, and are not sent."""

    expression: Expr
    name: str
    junk: bool = False
    origin_table: int = 0  # OID and attnum for RowDescription, 0 if computed
    origin_column: int = 0


@dataclass(frozen=True, slots=True)
class SearchClause:
    breadth: bool
    columns: tuple[str, ...]
    sequence: str


@dataclass(frozen=True, slots=True)
class CycleClause:
    columns: tuple[str, ...]
    mark: str
    value: Expr
    default: Expr
    path: str


@dataclass(frozen=True, slots=True)
class Cte:
    """`aliases`: the column names that were written. With SEARCH or CYCLE, `query` has their columns
    (engine/sql/analyze/search_cycle.py), and `written` is what was written, for the text of views."""

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
    """left and right are range table indexes of RangeSubquery entries, or nested set operations.

    `types` are the unified column types; the analyser has already put the casts into the leaf queries.
    """

    kind: str  # union intersect except
    all: bool
    left: SetOperation | FromRef
    right: SetOperation | FromRef
    types: tuple[TypeRef, ...]


@dataclass(frozen=True, slots=True)
class RowMark:
    """FOR UPDATE and its kin on one range table entry."""

    relation: int
    strength: str  # update | no key update | share | key share
    wait: str  # block | skip locked | nowait


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
    """What planning has found out about the query and all within it (engine/sql/tree_walk.py): asked at every level of
    queries within one another, each time by a walk, it would take time that grows with the square of their number."""

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
    """index_oids: the unique indexes that arbitrate; () with action nothing means any. Expressions over the target
    table (range entry 0) and EXCLUDED (range entry 1). `provided`: parameters, and how they have to compare with
    constants for a partial index to arbitrate; whoever runs the statement asks (42P10)."""

    action: str  # nothing | update
    index_oids: tuple[int, ...]
    assignments: tuple[Assignment, ...] = ()
    where: Expr | None = None
    provided: tuple[tuple[Param, str, Const], ...] = ()


@dataclass(frozen=True, slots=True)
class ViewUse:
    """A view on the way to the table that a change is for: the numbers of its columns that are read, inserted into and
    updated, and those that its query names of what is under it."""

    oid: int
    read: tuple[int, ...]
    inserted: tuple[int, ...]
    updated: tuple[int, ...]
    referred: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Insert:
    """rows: one expression per *table column* (in table.columns order, defaults filled in, casts applied) per row, for
    VALUES without sub-queries; else `source` gives the columns listed in `source_columns`, and `defaults` the rest.

    RETURNING and checks see the new row as range entry 0. `defaults`/`checks`/`generated` expressions are over entry 0.
    `columns`: the attnums that are given values by name or place. `views`: the OIDs of the views through which the
    statement changes the table, the outermost first.
    """

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
    """Target table is range entry 0; FROM items follow. from_items excludes the target.

    `members`: the tables whose rows are the target's, where these are several: it runs over each of them. `root`: the
    partitioned table that the statement named, if a row of this partition of it may have to move to another one.
    `named`: the table that it named, if that is not the target: errors show rows in the order of its columns.
    """

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
    """One WHEN clause. action: update | delete | insert | nothing. `assignments`: what UPDATE sets; of INSERT every
    column of the table that is not generated. `columns`: those (attnums) that INSERT names, or gives. Expressions see
    the target's row (range entry 0) only if `matched`."""

    matched: bool
    action: str
    condition: Expr | None = None
    assignments: tuple[Assignment, ...] = ()
    columns: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Merge:
    """Target table is range entry 0; `source` is what is joined to it on `condition`. `generated` and `checks` see the
    new row as range entry 0. The first action whose condition holds is taken for a row."""

    table: Table
    range_table: tuple[RangeEntry, ...]
    source: FromItem
    condition: Expr
    actions: tuple[MergeAction, ...]
    generated: tuple[Assignment, ...] = ()
    checks: tuple[tuple[str, Expr], ...] = ()
    returning: tuple[Target, ...] = ()
    ctes: tuple[Cte, ...] = ()

    @property
    def makes_rows(self) -> bool:
        """Whether one of its actions puts a row into the table."""
        return any(action.action in ("insert", "update") for action in self.actions)


VIEW_CHECK = "\U0010ffff"
"""Begins the names of `checks` that are a view's check option (44000); a number of four digits follows, then the view's
name. They sort after every constraint, which is when PostgreSQL looks at them."""

PARTITION_CHECK = "\U0010fffe"
"""The name among `checks` of what a partition's bounds ask of its rows: it comes after every constraint."""

TABLE_OID = -6
"""The column number of tableoid."""

Statement = Union[Query, Insert, Update, Delete, Merge]

RECORDS = (RangeColumn, RowMark, ViewUse, SearchClause)
"""Parts of nodes that are no nodes: nothing that a tree refers to is in them, and walks (tree_walk.py) leave
them out."""


@dataclass(frozen=True, slots=True)
class Analyzed:
    """What analysis gives: the statement, the types of its parameters, and what it depends on.

    `relations` are the OIDs of every relation read or written (views included), for locks, privileges and invalidation.
    """

    statement: Statement
    parameter_types: tuple[int, ...]
    relations: tuple[int, ...]
    written: tuple[int, ...] = ()
    table_oids: bool = False  # it asks for the tableoid of a stored table
    declared_types: tuple[
        int, ...
    ] = ()  # parameter_types with domains in place of their base types; () if there are none
    collated: bool = False  # collations decide something in it: it is to go through collations.collate before planning
    outputs: tuple[int, ...] = ()  # once it has: the collations of the output columns, 0 where none was derived
    literals: int = 0  # so many parameters, from $1 on, are literals of the text: none of them is NULL
