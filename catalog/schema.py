"""Schema objects: tables, types, roles, ..., each a frozen dataclass with an OID.

They live as rows of system tables (catalog/rows.py turns an object into its row and back) in the same storage as user
rows, so DDL is transactional and replicates like any other change. All objects at one LSN are a catalog
(catalog/catalog.py).

OIDs below 16384 are PostgreSQL's and ours, built in; user objects count up from 16384 and are never reused.
`storage_id` names the bytes of a table or index in storage and changes when it is rewritten (TRUNCATE, ALTER TYPE), as
pg_class.relfilenode does; the OID stays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from catalog.types import oids
from catalog.types.base import TypeRef

FIRST_USER_OID = 16384
PG_CATALOG_OID = 11
PUBLIC_OID = 2200
INFORMATION_SCHEMA_OID = 13000
BOOTSTRAP_ROLE_OID = 10  # postgres
DEFAULT_TABLESPACE_OID = 1663  # pg_default
POSTGRES_DATABASE_OID = 5


@dataclass(frozen=True, slots=True)
class Role:
    oid: int
    name: str
    superuser: bool = False
    login: bool = True
    create_db: bool = False
    create_role: bool = False
    inherit: bool = True
    replication: bool = False
    bypass_rls: bool = False
    connection_limit: int = -1
    password: str | None = None  # SCRAM-SHA-256 verifier, never clear text
    valid_until: int | None = None  # timestamptz, microseconds since 2000-01-01
    member_of: tuple[int, ...] = ()
    admin_of: tuple[int, ...] = ()  # of these, those that it may give to others
    settings: tuple[tuple[str, str], ...] = ()


DATABASE_OWNER_OID = 6171
READ_ALL_SETTINGS_OID, READ_ALL_STATS_OID, STAT_SCAN_TABLES_OID = 3374, 3375, 3377
SIGNAL_BACKEND_OID, CHECKPOINT_OID = 4200, 4544
PREDEFINED_ROLES: Mapping[int, Role] = {
    oid: Role(oid, name, login=False, member_of=groups)
    for oid, name, groups in (
        (DATABASE_OWNER_OID, "pg_database_owner", ()),
        (6181, "pg_read_all_data", ()),
        (6182, "pg_write_all_data", ()),
        (3373, "pg_monitor", (READ_ALL_SETTINGS_OID, READ_ALL_STATS_OID, STAT_SCAN_TABLES_OID)),
        (READ_ALL_SETTINGS_OID, "pg_read_all_settings", ()),
        (READ_ALL_STATS_OID, "pg_read_all_stats", ()),
        (STAT_SCAN_TABLES_OID, "pg_stat_scan_tables", ()),
        (4569, "pg_read_server_files", ()),
        (4570, "pg_write_server_files", ()),
        (4571, "pg_execute_server_program", ()),
        (SIGNAL_BACKEND_OID, "pg_signal_backend", ()),
        (CHECKPOINT_OID, "pg_checkpoint", ()),
    )
}
"""The roles that every catalog has, with PostgreSQL's OIDs. They are rows only once somebody has changed one."""


@dataclass(frozen=True, slots=True)
class DefaultAcl:
    """ALTER DEFAULT PRIVILEGES: what objects of a kind (table sequence function schema) begin with when the role
    creates them, in all schemas (0) or in one."""

    oid: int
    role: int
    schema: int
    kind: str
    acl: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Database:
    oid: int
    name: str
    owner: int = BOOTSTRAP_ROLE_OID
    allow_connections: bool = True
    connection_limit: int = -1
    is_template: bool = False
    settings: tuple[tuple[str, str], ...] = ()
    comment: str | None = None
    acl: tuple[str, ...] | None = None
    default_acls: tuple[DefaultAcl, ...] = ()
    collate: str = "C"  # LC_COLLATE: whatever its name is, texts are in the order of their bytes
    ctype: str = "C.UTF-8"  # LC_CTYPE: of C and POSIX letters are those of ASCII

    @property
    def knows_ascii_only(self) -> bool:
        return self.ctype in ("C", "POSIX")


@dataclass(frozen=True, slots=True)
class Schema:
    oid: int
    database: int
    name: str
    owner: int = BOOTSTRAP_ROLE_OID
    comment: str | None = None
    acl: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Tablespace:
    """`identity`: its id in storage, 32 hexadecimal digits, the same on every node; '' for the built-in ones."""

    oid: int
    name: str
    owner: int = BOOTSTRAP_ROLE_OID
    comment: str | None = None
    options: tuple[tuple[str, str], ...] = ()
    identity: str = ""
    acl: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Parameter:
    """A setting on which something has been granted: `name` in lower case. Settings are the first superuser's."""

    oid: int
    name: str
    acl: tuple[str, ...] | None = None
    owner: int = BOOTSTRAP_ROLE_OID


@dataclass(frozen=True, slots=True)
class Column:
    """`default` and `generated` hold SQL text that parses back (schema-qualified where needed), bound when planned.

    `missing` is the text form of the value that rows written before ADD COLUMN ... DEFAULT have.
    """

    number: int  # attnum, from 1, never reused
    name: str
    type: TypeRef
    not_null: bool = False
    default: str | None = None
    identity: str = ""  # '' | 'a' always | 'd' by default
    generated: str | None = None  # GENERATED ALWAYS AS (...) STORED
    sequence: int | None = None  # OID of the sequence owned by a serial or identity column
    missing: str | None = None
    collation: int = 0
    comment: str | None = None
    acl: tuple[str, ...] | None = None  # catalog/privileges.py has the form of these
    inherited: int = 0  # from how many direct parents it comes
    local: bool = True  # defined here too: it stays when the parents let go of it


@dataclass(frozen=True, slots=True)
class Layout:
    """One version of a table's row layout: the column numbers that a stored row of this version holds, in order.

    A row names its version; ADD and DROP COLUMN append a version and touch no row.
    """

    version: int
    columns: tuple[int, ...]
    types: tuple[TypeRef, ...]  # the types at that time, parallel to `columns`


@dataclass(frozen=True, slots=True)
class Constraint:
    """kind: 'p' primary key, 'u' unique, 'x' exclude, 'c' check, 'f' foreign key, 'n' not null."""

    oid: int
    name: str
    kind: str
    columns: tuple[int, ...] = ()
    index: int | None = None  # p, u, x: the index; f: the referenced unique index
    check: str | None = None  # SQL text of the condition
    references: int | None = None  # f: OID of the referenced table
    referenced_columns: tuple[int, ...] = ()
    on_delete: str = "a"  # a no action, r restrict, c cascade, n set null, d set default
    on_update: str = "a"
    match: str = "s"  # s simple, f full
    deferrable: bool = False
    initially_deferred: bool = False
    validated: bool = True
    no_inherit: bool = False
    comment: str | None = None
    inherited: int = 0  # from how many direct parents it comes
    local: bool = True
    parent: int | None = (
        None  # p, u, f of a partition: the constraint (OID) of the partitioned table that it is part of
    )
    operators: tuple[int, ...] = ()  # x: the operators (OIDs) by which two rows are compared, one a column of the index

    @property
    def late(self) -> bool:
        """Whether it is looked at after rows are written, and not kept by its index (engine/execute/exclusions.py)."""
        return self.kind == "x" or (self.deferrable and self.kind in ("p", "u"))


@dataclass(frozen=True, slots=True)
class PartitionColumn:
    """Either a table column or an expression (SQL text)."""

    number: int  # 0 for an expression
    type: TypeRef
    expression: str | None = None


@dataclass(frozen=True, slots=True)
class Partitioning:
    """PARTITION BY. strategy: 'r' range, 'l' list, 'h' hash."""

    strategy: str
    columns: tuple[PartitionColumn, ...]


@dataclass(frozen=True, slots=True)
class PartitionBound:
    """FOR VALUES of a partition, its values in their text form.

    'l': `values`, None for NULL. 'r': `lower` (inclusive) and `upper` (exclusive), one ('v', text), ('-', '') MINVALUE
    or ('+', '') MAXVALUE a column. 'h': `modulus` and `remainder`. 'd': DEFAULT.
    """

    kind: str
    values: tuple[str | None, ...] = ()
    lower: tuple[tuple[str, str], ...] = ()
    upper: tuple[tuple[str, str], ...] = ()
    modulus: int = 0
    remainder: int = 0


@dataclass(frozen=True, slots=True)
class Source:
    """A relation that the query of a view names at a place of its text (characters from 0): which one that is, and its
    columns (attnum, name) when the text was written. So the text means the same whatever they are called later."""

    location: int
    relation: int
    columns: tuple[tuple[int, str], ...]


COLUMNAR = "columnar"
COLUMNAR_SETTINGS = ("on", "off", "auto")
"""A storage parameter of tables: whether their columns are built before a query asks for them, and kept."""


@dataclass(frozen=True, slots=True)
class Table:
    """An ordinary table, or a materialized view. Rows are clustered by primary key, or by a hidden row number (int8)
    where there is none.

    `key_columns` is the primary key's columns; () means that rows are keyed by the hidden row number.
    A partitioned table has storage too, in which nothing ever lies: its rows are those of its partitions.
    """

    oid: int
    schema: int
    name: str
    columns: tuple[Column, ...]
    storage_id: int
    key_columns: tuple[int, ...] = ()
    layouts: tuple[Layout, ...] = ()  # the last one is written, all are read
    constraints: tuple[Constraint, ...] = ()
    indexes: tuple[int, ...] = ()  # OIDs
    owner: int = BOOTSTRAP_ROLE_OID
    tablespace: int = DEFAULT_TABLESPACE_OID
    persistence: str = "p"  # p permanent, t temporary
    options: tuple[tuple[str, str], ...] = ()  # WITH (fillfactor=...): kept and shown; `columnar` has an effect
    comment: str | None = None
    acl: tuple[str, ...] | None = None
    next_column: int = 1  # attnum of the next ADD COLUMN
    query: str | None = None  # of a materialized view, as in View
    sources: tuple[Source, ...] = ()
    depends_on: tuple[int, ...] = ()
    populated: bool = True
    on_commit: str = ""  # of a temporary table: delete | drop
    parents: tuple[int, ...] = ()  # OIDs of the tables that it inherits from; of a partition the one that it is part of
    partitioning: Partitioning | None = None
    bound: PartitionBound | None = None  # of a partition

    def column(self, name: str) -> Column | None:
        for column in self.columns:
            if column.name == name:
                return column
        return None

    def column_by_number(self, number: int) -> Column:
        for column in self.columns:
            if column.number == number:
                return column
        raise KeyError(number)


@dataclass(frozen=True, slots=True)
class IndexColumn:
    """Either a table column or an expression (SQL text)."""

    number: int  # 0 for an expression
    expression: str | None = None
    descending: bool = False
    nulls_first: bool = False
    collation: int = 0
    type: TypeRef = TypeRef(oids.TEXT)
    operator_class: int = 0  # its OID; 0 is the default one of the type
    derived: int = 0  # the collation that an expression has by itself, which `collation` may differ from


@dataclass(frozen=True, slots=True)
class Index:
    """`method` btree and hash are trees of keys; of the others nothing is stored (catalog/operator_classes.py).

    `late`: the kind (p, u, x) of its constraint where that is looked at late (`Constraint.late`). Its entries are then
    those of an index that is not unique, and `unique` and `primary`, which say how keys lie, are False.
    """

    oid: int
    schema: int
    name: str
    table: int
    columns: tuple[IndexColumn, ...]
    storage_id: int
    unique: bool = False
    primary: bool = False
    nulls_not_distinct: bool = False
    include: tuple[int, ...] = ()
    predicate: str | None = None  # SQL text of a partial index's WHERE
    method: str = "btree"
    ready: bool = True  # it has entries; False where CREATE INDEX CONCURRENTLY has failed
    owner: int = BOOTSTRAP_ROLE_OID
    tablespace: int = DEFAULT_TABLESPACE_OID
    comment: str | None = None
    options: tuple[tuple[str, str], ...] = ()  # storage parameters, which have no effect
    parent: int | None = None  # the index (OID) of the partitioned table that it is part of
    valid: bool = True  # of a partitioned table's: whether every partition has its part; False with `ready`
    late: str = ""
    collation_version: str = ""  # of ICU's rules, by which its keys were made (catalog/collations.py: key_version)
    aside: bool = False  # a primary key under an ICU collation: a tree of its own beside the rows, which lie by number

    @property
    def is_unique(self) -> bool:
        """As it was declared."""
        return self.unique or self.late in ("p", "u")

    @property
    def is_primary(self) -> bool:
        """As it was declared."""
        return self.primary or self.aside or self.late == "p"

    @property
    def is_tree(self) -> bool:
        return self.method in ("btree", "hash")


@dataclass(frozen=True, slots=True)
class Sequence:
    """The definition; where the sequence stands is state of the engine (engine/txn/sequences.py), logged in ranges."""

    oid: int
    schema: int
    name: str
    storage_id: int
    type: TypeRef = TypeRef(oids.INT8)
    start: int = 1
    increment: int = 1
    minimum: int = 1
    maximum: int = 2**63 - 1
    cache: int = 1
    cycle: bool = False
    owned_by: tuple[int, int] | None = None  # (table OID, column number)
    owned_kind: str = "a"  # a automatic (serial), i internal (identity)
    owner: int = BOOTSTRAP_ROLE_OID
    tablespace: int = DEFAULT_TABLESPACE_OID
    comment: str | None = None
    acl: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class View:
    """`query` is SQL text that parses back to the same query, all names qualified (engine/sql/deparse.py); what its
    names of relations and columns stand for say the `sources`, where there are any."""

    oid: int
    schema: int
    name: str
    columns: tuple[Column, ...]
    query: str
    owner: int = BOOTSTRAP_ROLE_OID
    check_option: str | None = None  # local | cascaded
    depends_on: tuple[int, ...] = ()
    comment: str | None = None
    acl: tuple[str, ...] | None = None
    options: tuple[tuple[str, str], ...] = ()  # WITH (security_barrier, security_invoker)
    extension: int = 0  # OID of the one that has brought it
    sources: tuple[Source, ...] = ()


@dataclass(frozen=True, slots=True)
class VirtualTable:
    """A relation of pg_catalog (or shoal_*) that is computed from the catalog or from the running node.

    It reads like a table and takes no writes (42809 like PostgreSQL's views; 42501 for pg_catalog).
    catalog/system/ registers one per relation with the function that yields its columns.
    """

    oid: int
    schema: int
    name: str
    columns: tuple[Column, ...]
    kind: str = "r"  # as pg_class.relkind shows it
    comment: str | None = None


SEQUENCE_COLUMNS = (
    Column(1, "last_value", TypeRef(oids.INT8), True),
    Column(2, "log_cnt", TypeRef(oids.INT8), True),
    Column(3, "is_called", TypeRef(oids.BOOL), True),
)


def sequence_table(sequence: Sequence) -> VirtualTable:
    """A sequence as what a query reads: one row that says where it stands."""
    return VirtualTable(sequence.oid, sequence.schema, sequence.name, SEQUENCE_COLUMNS, "S")


@dataclass(frozen=True, slots=True)
class EnumLabel:
    """A value of an enum: `position` is what rows hold (catalog/types/enum.py)."""

    oid: int
    name: str
    position: int


@dataclass(frozen=True, slots=True)
class Enum:
    """CREATE TYPE ... AS ENUM. `labels` in their order."""

    oid: int
    schema: int
    name: str
    array_oid: int
    labels: tuple[EnumLabel, ...] = ()
    owner: int = BOOTSTRAP_ROLE_OID
    comment: str | None = None
    acl: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Domain:
    """CREATE DOMAIN. `type` is what its values are in the end; `base_oid` what it was declared over: that type, or
    another domain, whose conditions hold too. `checks` are Constraints of kind 'c' over VALUE."""

    oid: int
    schema: int
    name: str
    array_oid: int
    type: TypeRef
    base_oid: int
    not_null: bool = False
    default: str | None = None
    checks: tuple[Constraint, ...] = ()
    collation: int = 0
    owner: int = BOOTSTRAP_ROLE_OID
    comment: str | None = None
    acl: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Composite:
    """CREATE TYPE ... AS (...). `relation` is the OID under which its columns stand in pg_class and pg_attribute."""

    oid: int
    schema: int
    name: str
    array_oid: int
    relation: int
    columns: tuple[Column, ...] = ()
    owner: int = BOOTSTRAP_ROLE_OID
    comment: str | None = None
    acl: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Collation:
    """CREATE COLLATION, or one of the built-in ones (catalog/collations.py). `provider`: i ICU, c the C library's, of
    which there are only those that compare bytes; d stands for the database's. `version`: that of ICU's rules when it
    was made or refreshed."""

    oid: int
    schema: int
    name: str
    locale: str = ""
    deterministic: bool = True
    provider: str = "i"
    version: str = ""
    owner: int = BOOTSTRAP_ROLE_OID
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class Extension:
    """CREATE EXTENSION: what it brings (catalog/extensions.py) is found in `schema`."""

    oid: int
    schema: int
    name: str
    version: str
    owner: int = BOOTSTRAP_ROLE_OID
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class ChangeStream:
    """CREATE CHANGE STREAM: the changes of some tables, or of all in a tablespace, are kept for whoever reads them
    (engine/changes). `start` is the newest LSN before the commit that made it, -1 until that: what is committed above
    it is in the stream."""

    oid: int
    database: int
    name: str
    tables: tuple[int, ...] = ()  # OIDs; of a partitioned table or a parent: those that hold its rows too
    all_tables: bool = False
    owner: int = BOOTSTRAP_ROLE_OID
    tablespace: int = DEFAULT_TABLESPACE_OID
    retain: int = 1 << 30  # bytes of changes that are kept for it when it is not advanced
    start: int = -1


@dataclass(frozen=True, slots=True)
class RoutineArgument:
    """mode: i in, o out, b inout, v variadic, t column of RETURNS TABLE. `default`: SQL text, names qualified."""

    name: str
    type: TypeRef
    mode: str = "i"
    default: str | None = None


@dataclass(frozen=True, slots=True)
class Routine:
    """CREATE FUNCTION, CREATE PROCEDURE in SQL. `relation`: the table or view whose rows it returns, `result` then is
    record. `statements` of a body in SQL's own form are texts with all names qualified; otherwise `body` is the string,
    which means what it says under the search path of the caller."""

    oid: int
    schema: int
    name: str
    kind: str  # f function, p procedure
    arguments: tuple[RoutineArgument, ...]
    result: TypeRef
    returns_set: bool
    body: str
    statements: tuple[str, ...] | None = None
    relation: int = 0
    is_expression: bool = False  # RETURN expression
    volatility: str = "v"
    strict: bool = False
    security_definer: bool = False
    leakproof: bool = False
    parallel: str = "u"
    cost: float = 100.0
    rows: float = 0.0
    depends_on: tuple[int, ...] = ()  # what a body in SQL's own form refers to
    owner: int = BOOTSTRAP_ROLE_OID
    comment: str | None = None
    acl: tuple[str, ...] | None = None

    @property
    def inputs(self) -> tuple[RoutineArgument, ...]:
        return tuple(item for item in self.arguments if item.mode in "ibv")

    @property
    def outputs(self) -> tuple[RoutineArgument, ...]:
        return tuple(item for item in self.arguments if item.mode in "obt")

    @property
    def signature(self) -> tuple[int, ...]:
        """The types of the input arguments, which tell functions of one name apart."""
        return tuple(item.type.oid for item in self.inputs)


@dataclass(frozen=True, slots=True)
class ExtensionType:
    """A type that an extension has brought: what a name leads to."""

    oid: int
    array_oid: int
    name: str
    schema: int


UserType = Enum | Domain | Composite
USER_TYPES = (Enum, Domain, Composite)
CODE = (Extension, Routine)
Relation = Table | Index | Sequence | View | VirtualTable
SchemaObject = (
    Role
    | Database
    | Schema
    | Tablespace
    | Parameter
    | Table
    | Index
    | Sequence
    | View
    | Enum
    | Domain
    | Composite
    | Collation
    | Extension
    | Routine
    | ChangeStream
)
IN_SCHEMAS = (Table, Index, Sequence, View, Collation, *USER_TYPES, *CODE)
