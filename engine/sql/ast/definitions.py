"""DDL: tables and their constraints, indexes, views, sequences, schemas, databases, roles, privileges, comments."""

from __future__ import annotations

from typing import Any

from catalog.records import dataclass
from engine.sql.ast.base import Node
from engine.sql.ast.code import FunctionSignature
from engine.sql.ast.expressions import TypeName
from engine.sql.ast.queries import AsOf, RangeVar, SelectStmt
from engine.sql.ast.sessions import SetStmt


@dataclass(frozen=True, slots=True)
class ConstraintDef(Node):
    """kind: null not_null default identity generated check primary unique exclusion foreign.

    `columns` is empty for a column constraint. Clauses such as DEFERRABLE are included.
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
    method: str = ""  # exclusion: the access method
    elements: tuple[IndexElement, ...] = ()
    operators: tuple[tuple[str, ...], ...] = ()  # one an element
    where: Node | None = None


@dataclass(frozen=True, slots=True)
class ForeignOption(Node):
    """One of OPTIONS (...). action: '' or add, set, drop."""

    action: str
    name: str
    value: str = ""


@dataclass(frozen=True, slots=True)
class ColumnDef(Node):
    """A column definition. The type names 'serial', 'bigserial' and 'smallserial' are not replaced."""

    name: str
    type: TypeName | None  # None in CREATE TABLE AS column lists
    constraints: tuple[ConstraintDef, ...] = ()
    collation: tuple[str, ...] = ()
    storage: str | None = None
    foreign_options: tuple[ForeignOption, ...] = ()


@dataclass(frozen=True, slots=True)
class LikeClause(Node):
    relation: RangeVar
    including: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PartitionSpec(Node):
    """PARTITION BY. `strategy` as written, in lower case."""

    strategy: str
    elements: tuple[IndexElement, ...]


@dataclass(frozen=True, slots=True)
class BoundSpec(Node):
    """FOR VALUES ..., with the kinds of catalog.schema.PartitionBound. `values` of a range are its lower end."""

    kind: str
    values: tuple[Node, ...] = ()
    upper: tuple[Node, ...] = ()
    modulus: int = 0
    remainder: int = 0


@dataclass(frozen=True, slots=True)
class CreateStmt(Node):
    """CREATE TABLE, and with `server` CREATE FOREIGN TABLE. `bound`: for PARTITION OF; `inherits` is then the
    partitioned table, and columns have no types."""

    relation: RangeVar
    elements: tuple[ColumnDef | ConstraintDef | LikeClause, ...]
    persistence: str = "p"  # p permanent, t temporary, u unlogged
    if_not_exists: bool = False
    inherits: tuple[RangeVar, ...] = ()
    partition_by: PartitionSpec | None = None
    bound: BoundSpec | None = None
    options: tuple[tuple[str, str], ...] = ()
    on_commit: str = ""  # '' preserve delete drop
    tablespace: str | None = None
    access_method: str | None = None
    server: str | None = None
    foreign_options: tuple[ForeignOption, ...] = ()


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
    foreign_options cluster set_logged set_unlogged enable_trigger disable_trigger enable_rule disable_rule
    replica_identity inherit no_inherit attach_partition detach_partition. Of *_trigger, `value` is always, replica, '',
    or every for ALL and USER."""

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
    relation: RangeVar | None = None  # of inherit, no_inherit, attach_partition, detach_partition
    bound: BoundSpec | None = None
    foreign_options: tuple[ForeignOption, ...] = ()


@dataclass(frozen=True, slots=True)
class AlterTableStmt(Node):
    """ALTER TABLE | INDEX | VIEW | SEQUENCE | MATERIALIZED VIEW | FOREIGN TABLE name command, ... (kind: table index
    view sequence matview, foreign table)."""

    kind: str
    relation: RangeVar
    commands: tuple[AlterTableCmd, ...]
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class RenameStmt(Node):
    """kind: table index view sequence column constraint trigger schema database role tablespace type matview."""

    kind: str
    relation: RangeVar | None
    name: str | None  # the old name of column, constraint, schema, database, role, tablespace
    new_name: str
    if_exists: bool = False
    of: str = "table"  # for a column or constraint: the kind of relation in the statement


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
class CreateEnumStmt(Node):
    name: tuple[str, ...]
    labels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AlterEnumStmt(Node):
    """ADD VALUE (`old` is None) or RENAME VALUE. place: '' before after."""

    name: tuple[str, ...]
    old: str | None
    new: str
    place: str = ""
    neighbor: str | None = None
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class CreateDomainStmt(Node):
    """CREATE DOMAIN. The constraints are those of a column: null, not_null, default, check; others are errors."""

    name: tuple[str, ...]
    type: TypeName
    constraints: tuple[ConstraintDef, ...] = ()
    collation: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AlterDomainStmt(Node):
    """action: set_default drop_default set_not_null drop_not_null add drop_constraint rename_constraint
    validate_constraint. `definition`: the default's expression, or the ConstraintDef to add."""

    name: tuple[str, ...]
    action: str
    constraint: str | None = None
    definition: Node | None = None
    new_name: str = ""
    if_exists: bool = False
    cascade: bool = False


@dataclass(frozen=True, slots=True)
class CreateRangeStmt(Node):
    """CREATE TYPE name AS RANGE (definition)."""

    name: tuple[str, ...]
    definition: tuple[Node, ...]  # DefinitionItem


@dataclass(frozen=True, slots=True)
class CompositeTypeStmt(Node):
    """CREATE TYPE name AS (attribute type, ...)."""

    name: tuple[str, ...]
    attributes: tuple[ColumnDef, ...]


@dataclass(frozen=True, slots=True)
class AlterCompositeStmt(Node):
    """ALTER TYPE ... ATTRIBUTE. Actions of the commands: add drop alter rename (`value` is the new name)."""

    name: tuple[str, ...]
    commands: tuple[AlterTableCmd, ...]


@dataclass(frozen=True, slots=True)
class AlterTypeStmt(Node):
    """ALTER TYPE | DOMAIN | COLLATION name RENAME TO | OWNER TO | SET SCHEMA value. action: rename owner schema, and of
    a collation refresh."""

    kind: str
    name: tuple[str, ...]
    action: str
    value: str


@dataclass(frozen=True, slots=True)
class CollationStmt(Node):
    """CREATE COLLATION name (options), or name FROM source."""

    name: tuple[str, ...]
    options: tuple[tuple[str, str], ...] = ()
    source: tuple[str, ...] = ()
    if_not_exists: bool = False


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
    """CREATE DATABASE. `parent`: the database in FROM, of which the new one is a branch, as of now or of an earlier
    moment. `backup`: the URL in IN BACKUP of a store of backups that contains `parent`; the new one is then a copy."""

    name: str
    options: tuple[tuple[str, str], ...] = ()
    parent: str | None = None
    as_of: AsOf | None = None
    backup: str | None = None


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
    """CREATE, ALTER and DROP TABLESPACE. action: create alter drop. `reset`: ALTER ... RESET, which removes options."""

    action: str
    name: str
    owner: str | None = None
    directory: str | None = None
    options: tuple[tuple[str, str], ...] = ()
    if_exists: bool = False
    reset: bool = False


@dataclass(frozen=True, slots=True)
class RoleStmt(Node):
    """CREATE / ALTER / DROP ROLE (USER, GROUP). kind: role user group. options: ('superuser', True), ('password',
    'x'), ..."""

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
    granted_by: str | None = None
    signatures: tuple[FunctionSignature, ...] = ()  # of functions, procedures, routines


@dataclass(frozen=True, slots=True)
class DefaultPrivilegesStmt(Node):
    """ALTER DEFAULT PRIVILEGES. `grant` has no objects; its object_kind: tables sequences functions types schemas."""

    roles: tuple[str, ...]
    schemas: tuple[str, ...]
    grant: GrantStmt


@dataclass(frozen=True, slots=True)
class OwnedStmt(Node):
    """REASSIGN OWNED BY roles TO new_owner, or without `new_owner` DROP OWNED BY roles."""

    roles: tuple[str, ...]
    new_owner: str | None = None
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
class CreateStatisticsStmt(Node):
    """CREATE STATISTICS name (kinds) ON elements FROM relations. A relation that is no name of a table is None."""

    name: tuple[str, ...]
    kinds: tuple[str, ...]
    elements: tuple[Node, ...]
    relations: tuple[RangeVar | None, ...]
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class AlterStatisticsStmt(Node):
    """action: rename | owner | schema | target. `value`: the new name, owner, schema or target."""

    name: tuple[str, ...]
    action: str
    value: str
    if_exists: bool = False
