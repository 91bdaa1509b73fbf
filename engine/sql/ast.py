"""The raw parse tree: what was written, nothing resolved.

Nodes follow PostgreSQL's parsenodes.h, so that its documentation and anybody's knowledge of it apply here. `location`
is the character offset (from 0) of the token that an error about the node should point at; -1 where there is none.
engine/sql/parser/ makes these trees; nothing else in Shoal knows sqlglot.
Identifiers are folded to lower case unless they were quoted, and cut to 63 bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    location: int = -1


# ---- expressions -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Literal(Node):
    """kind: 'integer' (fits int4 or int8), 'float' (any other number), 'string', 'bit', 'hexbit', 'boolean', 'null'.

    `value` is the text for numbers, strings (escapes already resolved) and bits; a bool for 'boolean'; None for 'null'.
    """

    kind: str
    value: str | bool | None


@dataclass(frozen=True, slots=True)
class ParamRef(Node):
    number: int  # $1 is 1


@dataclass(frozen=True, slots=True)
class ColumnRef(Node):
    """a, t.a, s.t.a, t.* (the last part is '*')."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TypeName(Node):
    """names: ('int4',), ('pg_catalog', 'varchar'), SQL spellings already mapped to PostgreSQL's names ('integer' ->
    int4).

    modifiers: expressions in parentheses, as text. array_dimensions: number of [] pairs. setof for functions.
    interval fields ('YEAR TO MONTH') and precision come as modifiers encoded by the parser as in PostgreSQL's grammar.
    """

    names: tuple[str, ...]
    modifiers: tuple[str, ...] = ()
    array_dimensions: int = 0
    percent_type: bool = False


@dataclass(frozen=True, slots=True)
class TypeCast(Node):
    argument: Node
    type: TypeName


@dataclass(frozen=True, slots=True)
class CollateClause(Node):
    argument: Node
    collation: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Expression(Node):
    """A_Expr. kind: 'op' | 'op_any' | 'op_all' | 'distinct' | 'not_distinct' | 'nullif' | 'in' | 'not_in' | 'like' |
    'not_like' | 'ilike' | 'not_ilike' | 'similar' | 'not_similar' | 'between' | 'not_between' | 'between_sym' |
    'not_between_sym'.

    operator: its name parts, ('+',) or ('pg_catalog', '~'). left is None for a prefix operator. For in: right is a
    tuple of nodes in ListExpr. For between: right is a ListExpr of two. For like/similar with ESCAPE: right is a
    FuncCall like_escape(pattern, escape) / similar_to_escape(...), as in PostgreSQL.
    """

    kind: str
    operator: tuple[str, ...]
    left: Node | None
    right: Node | None


@dataclass(frozen=True, slots=True)
class ListExpr(Node):
    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class BoolExpr(Node):
    operator: str  # and | or | not
    arguments: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class NullTest(Node):
    argument: Node
    is_null: bool


@dataclass(frozen=True, slots=True)
class BooleanTest(Node):
    argument: Node
    test: str  # is_true is_not_true is_false is_not_false is_unknown is_not_unknown


@dataclass(frozen=True, slots=True)
class SortBy(Node):
    expression: Node
    direction: str = "default"  # default asc desc using
    nulls: str = "default"  # default first last
    using: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WindowDef(Node):
    """frame_mode: '' (default frame) rows range groups. Bounds: ('unbounded_preceding'|'preceding'|'current_row'|
    'following'|'unbounded_following', offset expression or None). exclude: '' current_row group ties."""

    name: str | None = None  # the name it defines in WINDOW, or refers to in OVER name
    refname: str | None = None  # OVER (name ...)
    partition_by: tuple[Node, ...] = ()
    order_by: tuple[SortBy, ...] = ()
    frame_mode: str = ""
    frame_start: tuple[str, Node | None] = ("unbounded_preceding", None)
    frame_end: tuple[str, Node | None] = ("current_row", None)
    exclude: str = ""


@dataclass(frozen=True, slots=True)
class FuncCall(Node):
    """Also what SQL spells specially, under PostgreSQL's function name: extract('year' , x), position -> position(sub
    in), substring, overlay, btrim/ltrim/rtrim, timezone (AT TIME ZONE), xmlconcat..., in the argument order of pg_proc;
    `sql_syntax` is True for these. coalesce, greatest, least, nullif have nodes of their own."""

    names: tuple[str, ...]
    arguments: tuple[Node, ...] = ()
    argument_names: tuple[str | None, ...] = ()  # name => value; () when none is named
    star: bool = False
    distinct: bool = False
    order_by: tuple[SortBy, ...] = ()
    filter: Node | None = None
    within_group: bool = False
    variadic: bool = False
    over: WindowDef | None = None
    sql_syntax: bool = False


@dataclass(frozen=True, slots=True)
class SqlValueFunction(Node):
    """current_date current_time current_timestamp localtime localtimestamp current_user session_user user current_role
    current_catalog current_schema, with a precision where given."""

    name: str
    precision: int | None = None


@dataclass(frozen=True, slots=True)
class CoalesceExpr(Node):
    arguments: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class MinMaxExpr(Node):
    operator: str  # greatest | least
    arguments: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class CaseWhen(Node):
    condition: Node
    result: Node


@dataclass(frozen=True, slots=True)
class CaseExpr(Node):
    argument: Node | None
    whens: tuple[CaseWhen, ...]
    default: Node | None


@dataclass(frozen=True, slots=True)
class SubLink(Node):
    """kind: exists | any | all | expr | array. any/all: `test` operator `operator` over `query` (IN is any with
    '=')."""

    kind: str
    query: SelectStmt
    test: Node | None = None
    operator: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ArrayExpr(Node):
    elements: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class RowExpr(Node):
    elements: tuple[Node, ...]
    explicit: bool = False  # ROW(...), not (a, b)


@dataclass(frozen=True, slots=True)
class Subscript(Node):
    """lower is None for x[i]; is_slice for x[a:b] where either may be missing."""

    is_slice: bool
    lower: Node | None
    upper: Node | None


@dataclass(frozen=True, slots=True)
class Indirection(Node):
    """argument followed by subscripts, .field names (str) or '*'."""

    argument: Node
    steps: tuple[Subscript | str, ...]


@dataclass(frozen=True, slots=True)
class GroupingFunc(Node):
    arguments: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class SetToDefault(Node):
    """DEFAULT as a value in INSERT or UPDATE."""


# ---- FROM ------------------------------------------------------------------------------------------------------


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


@dataclass(frozen=True, slots=True)
class RangeSubselect(Node):
    query: SelectStmt
    alias: Alias | None = None
    lateral: bool = False


@dataclass(frozen=True, slots=True)
class ColumnDefinitionItem(Node):
    """A column of a function's AS (name type, ...) list."""

    name: str
    type: TypeName


@dataclass(frozen=True, slots=True)
class RangeFunction(Node):
    functions: tuple[Node, ...]  # more than one for ROWS FROM (...)
    alias: Alias | None = None
    lateral: bool = False
    ordinality: bool = False
    definitions: tuple[ColumnDefinitionItem, ...] = ()


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


# ---- queries and DML -------------------------------------------------------------------------------------------


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
class CommonTableExpr(Node):
    name: str
    columns: tuple[str, ...]
    query: Node  # SelectStmt, InsertStmt, UpdateStmt, DeleteStmt, MergeStmt
    materialized: bool | None = None


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


@dataclass(frozen=True, slots=True)
class UpdateStmt(Node):
    relation: RangeVar
    assignments: tuple[ResTarget | MultiAssign, ...]
    from_clause: tuple[Node, ...] = ()
    where: Node | None = None
    returning: tuple[ResTarget, ...] = ()
    with_clause: WithClause | None = None
    current_of: str | None = None


@dataclass(frozen=True, slots=True)
class DeleteStmt(Node):
    relation: RangeVar
    using: tuple[Node, ...] = ()
    where: Node | None = None
    returning: tuple[ResTarget, ...] = ()
    with_clause: WithClause | None = None
    current_of: str | None = None


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


# ---- transactions, settings, sessions --------------------------------------------------------------------------


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
    """SET name TO values; values () means DEFAULT (RESET). `SET TRANSACTION`/`SET SESSION CHARACTERISTICS` come with
    name 'TRANSACTION' / 'SESSION CHARACTERISTICS' and `modes`. RESET ALL: name 'all', values ()."""

    name: str
    values: tuple[str, ...] = ()
    local: bool = False
    reset: bool = False
    modes: TransactionStmt | None = None


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
class DoStmt(Node):
    """DO and everything else that is parsed as a known statement but refused; `what` names it for 0A000."""

    what: str


# ---- DDL -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ConstraintDef(Node):
    """kind: null not_null default identity generated check primary unique exclusion foreign.

    As a column constraint `columns` is empty. deferrable etc. are already folded in.
    """

    kind: str
    name: str | None = None
    columns: tuple[str, ...] = ()
    expression: Node | None = None  # default, check, generated
    expression_text: str = ""  # as written, for deparse of defaults and checks
    identity: str = ""  # a | d
    sequence_options: tuple[tuple[str, Any], ...] = ()
    references: RangeVar | None = None
    referenced_columns: tuple[str, ...] = ()
    match: str = "s"
    on_delete: str = "a"
    on_update: str = "a"
    deferrable: bool = False
    initially_deferred: bool = False
    not_valid: bool = False
    no_inherit: bool = False
    nulls_not_distinct: bool = False
    include: tuple[str, ...] = ()
    using_index: str | None = None
    tablespace: str | None = None
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class ColumnDef(Node):
    """type names 'serial', 'bigserial', 'smallserial' stay as they are."""

    name: str
    type: TypeName | None  # None in CREATE TABLE AS column lists
    constraints: tuple[ConstraintDef, ...] = ()
    collation: tuple[str, ...] = ()
    storage: str | None = None


@dataclass(frozen=True, slots=True)
class LikeClause(Node):
    relation: RangeVar
    including: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CreateStmt(Node):
    relation: RangeVar
    elements: tuple[ColumnDef | ConstraintDef | LikeClause, ...]
    persistence: str = "p"  # p permanent, t temporary, u unlogged
    if_not_exists: bool = False
    inherits: tuple[RangeVar, ...] = ()
    partition: str | None = None  # PARTITION BY / OF: the text, for the refusal
    options: tuple[tuple[str, str], ...] = ()
    on_commit: str = ""  # '' preserve delete drop
    tablespace: str | None = None
    access_method: str | None = None


@dataclass(frozen=True, slots=True)
class CreateTableAsStmt(Node):
    relation: RangeVar
    columns: tuple[str, ...]
    query: Node
    persistence: str = "p"
    if_not_exists: bool = False
    with_data: bool = True
    materialized: bool = False
    options: tuple[tuple[str, str], ...] = ()
    on_commit: str = ""
    tablespace: str | None = None
    query_text: str = ""  # as written


@dataclass(frozen=True, slots=True)
class IndexElement(Node):
    name: str | None
    expression: Node | None = None
    expression_text: str = ""
    collation: tuple[str, ...] = ()
    opclass: tuple[str, ...] = ()
    direction: str = "default"
    nulls: str = "default"


@dataclass(frozen=True, slots=True)
class IndexStmt(Node):
    name: str | None
    relation: RangeVar
    elements: tuple[IndexElement, ...]
    unique: bool = False
    method: str = "btree"
    include: tuple[str, ...] = ()
    where: Node | None = None
    where_text: str = ""
    nulls_not_distinct: bool = False
    concurrently: bool = False
    if_not_exists: bool = False
    options: tuple[tuple[str, str], ...] = ()
    tablespace: str | None = None


@dataclass(frozen=True, slots=True)
class AlterTableCmd(Node):
    """action: add_column drop_column alter_type set_default drop_default set_not_null drop_not_null add_constraint
    drop_constraint validate_constraint alter_constraint add_identity set_identity drop_identity drop_expression
    set_statistics set_storage set_options reset_options owner tablespace enable_row_security disable_row_security
    cluster set_logged set_unlogged enable_trigger disable_trigger replica_identity inherit no_inherit attach_partition
    detach_partition."""

    action: str
    name: str | None = None  # column or constraint
    definition: Node | None = None  # ColumnDef, ConstraintDef, or the USING / DEFAULT expression
    definition_text: str = ""
    type: TypeName | None = None
    value: str | None = None
    options: tuple[tuple[str, Any], ...] = ()
    if_exists: bool = False
    if_not_exists: bool = False
    cascade: bool = False


@dataclass(frozen=True, slots=True)
class AlterTableStmt(Node):
    """ALTER TABLE | INDEX | VIEW | SEQUENCE | MATERIALIZED VIEW name command, ... (kind: table index view sequence
    matview)."""

    kind: str
    relation: RangeVar
    commands: tuple[AlterTableCmd, ...]
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class RenameStmt(Node):
    """kind: table index view sequence column constraint schema database role tablespace type matview."""

    kind: str
    relation: RangeVar | None
    name: str | None  # the old name of column, constraint, schema, database, role, tablespace
    new_name: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class AlterObjectSchemaStmt(Node):
    kind: str
    relation: RangeVar
    schema: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class AlterOwnerStmt(Node):
    """Owner of a schema, database or tablespace (relations: AlterTableCmd 'owner')."""

    kind: str
    name: str
    owner: str


@dataclass(frozen=True, slots=True)
class DropStmt(Node):
    """kind: table index view sequence schema matview type domain function ... names: one tuple of parts per object."""

    kind: str
    names: tuple[tuple[str, ...], ...]
    if_exists: bool = False
    cascade: bool = False
    concurrently: bool = False


@dataclass(frozen=True, slots=True)
class TruncateStmt(Node):
    relations: tuple[RangeVar, ...]
    restart_identity: bool = False
    cascade: bool = False


@dataclass(frozen=True, slots=True)
class ViewStmt(Node):
    relation: RangeVar
    columns: tuple[str, ...]
    query: SelectStmt
    replace: bool = False
    recursive: bool = False
    persistence: str = "p"
    options: tuple[tuple[str, str], ...] = ()
    check_option: str | None = None
    query_text: str = ""  # as written


@dataclass(frozen=True, slots=True)
class SequenceStmt(Node):
    """CREATE and ALTER SEQUENCE. options: start, increment, minvalue, maxvalue, cache, cycle, owned_by, restart, as."""

    relation: RangeVar
    options: tuple[tuple[str, Any], ...] = ()
    create: bool = True
    if_exists: bool = False  # IF NOT EXISTS for create
    persistence: str = "p"


@dataclass(frozen=True, slots=True)
class CreateSchemaStmt(Node):
    name: str | None
    owner: str | None = None
    if_not_exists: bool = False
    elements: tuple[Node, ...] = ()


@dataclass(frozen=True, slots=True)
class CreateDatabaseStmt(Node):
    name: str
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class DropDatabaseStmt(Node):
    name: str
    if_exists: bool = False
    force: bool = False


@dataclass(frozen=True, slots=True)
class AlterDatabaseStmt(Node):
    name: str
    options: tuple[tuple[str, str], ...] = ()
    setting: SetStmt | None = None


@dataclass(frozen=True, slots=True)
class TablespaceStmt(Node):
    """CREATE, ALTER and DROP TABLESPACE; action: create alter drop."""

    action: str
    name: str
    owner: str | None = None
    directory: str | None = None
    options: tuple[tuple[str, str], ...] = ()
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class RoleStmt(Node):
    """CREATE / ALTER / DROP ROLE (USER, GROUP). kind: role user group. options as ('superuser', True), ('password',
    'x')."""

    action: str  # create alter drop
    kind: str
    names: tuple[str, ...]
    options: tuple[tuple[str, Any], ...] = ()
    setting: SetStmt | None = None
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class GrantStmt(Node):
    """GRANT / REVOKE of privileges (object_kind: table sequence schema database tablespace all_tables ... ) or of roles
    (object_kind 'role': privileges are the granted roles)."""

    is_grant: bool
    object_kind: str
    privileges: tuple[tuple[str, tuple[str, ...]], ...]  # (privilege, columns); ('all', ()) for ALL
    objects: tuple[tuple[str, ...], ...]
    grantees: tuple[str, ...]
    grant_option: bool = False
    cascade: bool = False


@dataclass(frozen=True, slots=True)
class CommentStmt(Node):
    kind: str  # table column index view sequence schema database tablespace role constraint function type ...
    names: tuple[str, ...]
    text: str | None
    on: tuple[str, ...] = ()  # the table of a constraint


@dataclass(frozen=True, slots=True)
class RefreshMatViewStmt(Node):
    relation: RangeVar
    concurrently: bool = False
    with_data: bool = True


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement of a query string: its tree, and where it lies in the string (characters, from 0)."""

    tree: Node
    text: str
    offset: int = 0
    parameters: int = 0  # the highest $n in it


@dataclass(frozen=True, slots=True)
class ParsedText:
    statements: tuple[Statement, ...] = field(default=())
