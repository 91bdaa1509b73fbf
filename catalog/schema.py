"""Schema objects: tables, types, roles, ..., each a frozen dataclass with an OID.

They are stored as rows of system tables (catalog/rows.py converts between objects and rows), in the same storage as
user rows, so DDL is transactional and is replicated like any other change. A catalog consists of all objects at one LSN
(catalog/catalog.py).

OIDs below 16384 belong to built-in objects of PostgreSQL and of Shoal. User objects get ascending OIDs from 16384,
which are never reused. `storage_id` identifies the stored data of a table or index. It changes when the relation is
rewritten (TRUNCATE, ALTER TYPE), like pg_class.relfilenode; the OID stays.
"""

# mypy: implicit-reexport

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from catalog.event_triggers import EventTrigger
from catalog.foreign_objects import ForeignServer, ForeignWrapper, UserMapping
from catalog.lesser_objects import BOOTSTRAP_ROLE_OID as BOOTSTRAP_ROLE_OID  # noqa: PLC0414
from catalog.lesser_objects import ExtensionType as ExtensionType  # noqa: PLC0414
from catalog.lesser_objects import StatisticsObject as StatisticsObject  # noqa: PLC0414
from catalog.lesser_objects import UserCast as UserCast  # noqa: PLC0414
from catalog.lesser_objects import UserMultirange as UserMultirange  # noqa: PLC0414
from catalog.lesser_objects import UserOperator as UserOperator  # noqa: PLC0414
from catalog.lesser_objects import UserRange as UserRange  # noqa: PLC0414
from catalog.rewrite_rules import RewriteRule
from catalog.text_search.objects import TEXT_SEARCH, TextSearchConfiguration, TextSearchDictionary
from catalog.types import oids
from catalog.types.base import TypeRef

FIRST_USER_OID = 16384
PG_CATALOG_OID = 11
PUBLIC_OID = 2200
INFORMATION_SCHEMA_OID = 13000
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
    admin_of: tuple[int, ...] = ()  # the roles of `member_of` that it holds WITH ADMIN OPTION
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
"""The roles that every catalog has, with PostgreSQL's OIDs. A predefined role is stored only after it was changed."""


@dataclass(frozen=True, slots=True)
class DefaultAcl:
    """ALTER DEFAULT PRIVILEGES: the privileges of new objects of a kind (table, sequence, function, schema) that a role
    creates in one schema, or in all (0)."""

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
    collate: str = "C"  # LC_COLLATE; texts are ordered by bytes under any name
    ctype: str = "C.UTF-8"  # LC_CTYPE; C and POSIX have only the letters of ASCII

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
    """`identity`: its id in storage, 32 hexadecimal digits, the same on every node; '' for built-in tablespaces."""

    oid: int
    name: str
    owner: int = BOOTSTRAP_ROLE_OID
    comment: str | None = None
    options: tuple[tuple[str, str], ...] = ()
    identity: str = ""
    acl: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Parameter:
    """A setting on which privileges were granted; `name` is in lower case. The bootstrap superuser owns all
    settings."""

    oid: int
    name: str
    acl: tuple[str, ...] | None = None
    owner: int = BOOTSTRAP_ROLE_OID


@dataclass(frozen=True, slots=True)
class Column:
    """`default` and `generated` are SQL text with schema-qualified names where needed, analysed when a statement is
    planned. `missing` is the value, in text form, of rows written before ADD COLUMN ... DEFAULT.
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
    acl: tuple[str, ...] | None = None  # in the form of catalog/privileges.py
    inherited: int = 0  # the number of direct parents that have it (attinhcount)
    local: bool = True  # defined in the table itself (attislocal): it stays if parents drop it
    foreign_options: tuple[tuple[str, str], ...] = ()  # OPTIONS of a foreign table's column


@dataclass(frozen=True, slots=True)
class Layout:
    """One version of a table's row layout: the column numbers of a stored row of this version, in order.

    A row stores its version. ADD and DROP COLUMN append a version and change no row.
    """

    version: int
    columns: tuple[int, ...]
    types: tuple[TypeRef, ...]  # the types of `columns` in this version


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
    inherited: int = 0  # the number of direct parents that have it (coninhcount)
    local: bool = True
    parent: int | None = (
        None  # p, u, f of a partition: OID of the partitioned table's constraint that this one is part of
    )
    operators: tuple[int, ...] = ()  # x: OIDs of the operators that compare two rows, one per index column

    @property
    def late(self) -> bool:
        """Whether it is checked after rows are written, and not by its index (engine/execute/exclusions.py)."""
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
    """FOR VALUES of a partition, with values in text form.

    `kind`: 'l' list: `values`, None for NULL. 'r' range: `lower` (inclusive) and `upper` (exclusive), each with one
    item per column: ('v', text), ('-', '') for MINVALUE or ('+', '') for MAXVALUE. 'h' hash: `modulus` and `remainder`.
    'd': DEFAULT.
    """

    kind: str
    values: tuple[str | None, ...] = ()
    lower: tuple[tuple[str, str], ...] = ()
    upper: tuple[tuple[str, str], ...] = ()
    modulus: int = 0
    remainder: int = 0


@dataclass(frozen=True, slots=True)
class Source:
    """A relation in the query text of a view: its OID, and its columns at the time of the text. So the text keeps its
    meaning when the relation or its columns are renamed."""

    location: int  # of the relation's name in the text, in characters from 0
    relation: int
    columns: tuple[tuple[int, str], ...]  # (attnum, name)


@dataclass(frozen=True, slots=True)
class Trigger:
    """A trigger of a table or view (pg_trigger).

    `timing`: b before, a after, i instead of. `events`: of i insert, u update, d delete, t truncate. `columns`: those
    of UPDATE OF. `condition`: the text of WHEN over the relations old and new. `constraint`: the OID of the constraint
    of a constraint trigger. `enabled`: as in tgenabled. `parent`: the trigger of the partitioned table that this one is
    a copy of. `old_table`, `new_table`: the names of transition tables.
    """

    oid: int
    name: str
    function: int
    timing: str
    events: str
    for_row: bool = False
    columns: tuple[int, ...] = ()
    condition: str | None = None
    arguments: tuple[str, ...] = ()
    enabled: str = "O"
    old_table: str = ""
    new_table: str = ""
    constraint: int = 0
    references: int = 0  # FROM: OID of the other table
    deferrable: bool = False
    initially_deferred: bool = False
    parent: int = 0
    comment: str | None = None


EVERYBODY = 0
"""The OID in `Policy.roles` that stands for PUBLIC."""


@dataclass(frozen=True, slots=True)
class Policy:
    """CREATE POLICY. `command`: * all, r SELECT, a INSERT, w UPDATE, d DELETE. `roles`: OIDs, (EVERYBODY,) for PUBLIC.
    `using` and `check` are SQL texts of conditions over the table's columns, with all names qualified; `depends_on`:
    the relations that they read, without the table itself."""

    oid: int
    name: str
    command: str = "*"
    permissive: bool = True
    roles: tuple[int, ...] = (EVERYBODY,)
    using: str | None = None
    check: str | None = None
    depends_on: tuple[int, ...] = ()
    comment: str | None = None


COLUMNAR = "columnar"
COLUMNAR_SETTINGS = ("on", "off", "auto")
"""Values of the storage parameter `columnar`: whether a table's columns are built before a query needs them, and are
kept (engine/columnar/ahead.py)."""


PENDING, PENDING_BUT_SEEN = "p", "s"
"""DETACH PARTITION CONCURRENTLY has begun: the parent's statements do not find the partition any more; those of a
transaction with an older snapshot do (engine/ddl/detach.py)."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table, a partitioned table or a materialized view. Rows are stored in the order of the primary key, or without
    one in the order of a hidden row number (int8).

    `key_columns` are the primary key's columns; () if the key of rows is the hidden row number.
    A partitioned table has a `storage_id` too, but no stored rows: its rows are in its partitions.
    """

    oid: int
    schema: int
    name: str
    columns: tuple[Column, ...]
    storage_id: int
    key_columns: tuple[int, ...] = ()
    layouts: tuple[Layout, ...] = ()  # new rows have the last one, stored rows have any of them
    constraints: tuple[Constraint, ...] = ()
    indexes: tuple[int, ...] = ()  # OIDs
    owner: int = BOOTSTRAP_ROLE_OID
    tablespace: int = DEFAULT_TABLESPACE_OID
    persistence: str = "p"  # p permanent, t temporary
    options: tuple[tuple[str, str], ...] = ()  # WITH (fillfactor=...); only `columnar` has an effect
    comment: str | None = None
    acl: tuple[str, ...] | None = None
    next_column: int = 1  # attnum of the next ADD COLUMN
    query: str | None = None  # of a materialized view, as in View
    sources: tuple[Source, ...] = ()
    depends_on: tuple[int, ...] = ()
    populated: bool = True
    on_commit: str = ""  # of a temporary table: delete | drop
    parents: tuple[int, ...] = ()  # OIDs of the parents in inheritance; of a partition: its partitioned table
    partitioning: Partitioning | None = None
    bound: PartitionBound | None = None  # of a partition
    triggers: tuple[Trigger, ...] = ()
    rules: tuple[RewriteRule, ...] = ()
    references_off: bool = False  # DISABLE TRIGGER ALL: foreign keys neither check its changes nor act on them
    detaching: str = ""  # of a partition: PENDING, or in a transaction's own catalog PENDING_BUT_SEEN
    policies: tuple[Policy, ...] = ()
    row_security: bool = False  # ENABLE ROW LEVEL SECURITY: the policies apply
    force_row_security: bool = False  # FORCE ROW LEVEL SECURITY: they apply to the owner too
    replica_identity: str = "d"  # d default, f full, n nothing, i index; without effect
    server: int = 0  # of a foreign table: the OID of its server, which has the rows; none are stored here
    foreign_options: tuple[tuple[str, str], ...] = ()  # OPTIONS of a foreign table

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
    operator_class: int = 0  # OID; 0: the type's default operator class
    derived: int = 0  # the collation that was derived for an expression; `collation` may differ


@dataclass(frozen=True, slots=True)
class Index:
    """Indexes with `method` btree and hash are trees of keys; those with other methods store nothing
    (catalog/operator_classes.py).

    `late`: the kind (p, u, x) of its constraint, if this is checked after rows are written (`Constraint.late`). The
    index then stores entries like one that is not unique, so `unique` and `primary` are False.
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
    ready: bool = True  # has entries; False after a failed CREATE INDEX CONCURRENTLY
    owner: int = BOOTSTRAP_ROLE_OID
    tablespace: int = DEFAULT_TABLESPACE_OID
    comment: str | None = None
    options: tuple[tuple[str, str], ...] = ()  # storage parameters; none has an effect
    parent: int | None = None  # OID of the partitioned table's index that this one is part of
    valid: bool = True  # of a partitioned table: whether every partition has its part; False if not `ready`
    late: str = ""
    collation_version: str = ""  # the version of ICU's rules in its keys (catalog/collations.py: key_version)
    clustered: bool = False  # CLUSTER has named it; rows are stored in the order of the primary key all the same
    replica_identity: bool = False  # REPLICA IDENTITY USING INDEX has named it
    unseen: bool = False  # in a transaction's own catalog: it has no entries for the transaction's snapshot
    aside: bool = False  # a primary key under an ICU collation: a separate tree; rows are stored by row number

    @property
    def is_unique(self) -> bool:
        """Whether it was declared unique."""
        return self.unique or self.late in ("p", "u")

    @property
    def is_primary(self) -> bool:
        """Whether it was declared as a primary key."""
        return self.primary or self.aside or self.late == "p"

    @property
    def is_tree(self) -> bool:
        return self.method in ("btree", "hash")


@dataclass(frozen=True, slots=True)
class Sequence:
    """The definition of a sequence. The engine holds its current value, and logs it in ranges
    (engine/txn/sequences.py)."""

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
    """`query` is the SQL text of the query, with all names qualified (engine/sql/deparse.py). `sources` resolve the
    names of relations and columns in it; without them the names are looked up."""

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
    extension: int = 0  # OID of the extension that created it
    sources: tuple[Source, ...] = ()
    triggers: tuple[Trigger, ...] = ()
    rules: tuple[RewriteRule, ...] = ()


@dataclass(frozen=True, slots=True)
class VirtualTable:
    """A relation of pg_catalog (or shoal_*) whose rows are computed from the catalog or from the running node.

    It can be read like a table. Writes fail with 42809, as for PostgreSQL's views, or with 42501 in pg_catalog.
    catalog/system/ registers each with the function that computes its columns.
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
    """The relation that a query of a sequence reads: one row with its current state."""
    return VirtualTable(sequence.oid, sequence.schema, sequence.name, SEQUENCE_COLUMNS, "S")


@dataclass(frozen=True, slots=True)
class EnumLabel:
    """A value of an enum. Rows store `position` (catalog/types/enum.py)."""

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
    """CREATE DOMAIN. `base_oid` is the type in its declaration, which may be another domain with conditions of its
    own; `type` is the type below all domains. `checks` are Constraints of kind 'c' over VALUE."""

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
    """CREATE TYPE ... AS (...). `relation` is the OID of its row in pg_class, and of its columns in pg_attribute."""

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
    """A collation made by CREATE COLLATION, or a built-in one (catalog/collations.py). `provider`: i ICU; c the C
    library, only with collations that compare bytes; d the database's default. `version`: the version of ICU's rules
    when the collation was created or refreshed."""

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
    """CREATE EXTENSION. Its objects (catalog/extensions.py) are in `schema`."""

    oid: int
    schema: int
    name: str
    version: str
    owner: int = BOOTSTRAP_ROLE_OID
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class ChangeStream:
    """CREATE CHANGE STREAM: keeps the changes of some tables, or of all tables in a tablespace, for readers
    (engine/changes). `start` is the newest LSN before the commit that created the stream, -1 before this commit: the
    stream contains the changes of commits above it."""

    oid: int
    database: int
    name: str
    tables: tuple[int, ...] = ()  # OIDs; a partitioned table or a parent includes the tables that store its rows
    all_tables: bool = False
    owner: int = BOOTSTRAP_ROLE_OID
    tablespace: int = DEFAULT_TABLESPACE_OID
    retain: int = 1 << 30  # bytes of changes that are kept at most if the stream is not advanced
    start: int = -1


@dataclass(frozen=True, slots=True)
class RoutineArgument:
    """mode: i in, o out, b inout, v variadic, t column of RETURNS TABLE. `default`: SQL text, names qualified."""

    name: str
    type: TypeRef
    mode: str = "i"
    default: str | None = None


@dataclass(frozen=True, slots=True)
class AggregateParts:
    """The functions and the state of an aggregate (pg_aggregate). Functions and operators are OIDs, 0: none. `kind`: n
    normal, o ordered-set, h hypothetical-set. `direct`: the number of direct arguments. `modify`: whether the final
    function changes the state (r no, s shareable, w yes). `moving_...`: of the moving-aggregate mode, which is kept and
    not used, as `combine`, `serial` and `deserial` are."""

    transition: int
    state: TypeRef
    kind: str = "n"
    direct: int = 0
    initial: str | None = None
    space: int = 0
    final: int = 0
    final_extra: bool = False
    modify: str = "r"
    combine: int = 0
    serial: int = 0
    deserial: int = 0
    sort_operator: int = 0
    moving_transition: int = 0
    moving_inverse: int = 0
    moving_state: TypeRef | None = None
    moving_initial: str | None = None
    moving_space: int = 0
    moving_final: int = 0
    moving_final_extra: bool = False
    moving_modify: str = "r"

    @property
    def functions(self) -> tuple[int, ...]:
        """The OIDs of its functions."""
        found = (
            self.transition, self.final, self.combine, self.serial, self.deserial, self.moving_transition,
            self.moving_inverse, self.moving_final,
        )  # fmt: skip
        return tuple(dict.fromkeys(oid for oid in found if oid))


@dataclass(frozen=True, slots=True)
class Routine:
    """A function, procedure or aggregate of a user. `relation`: the table or view whose rows it returns; `result` is
    record then. `statements` are the texts of a body in SQL-standard form, with all names qualified; otherwise `body`
    is the body's string, whose names are looked up by the caller's search path."""

    oid: int
    schema: int
    name: str
    kind: str  # f function, p procedure, a aggregate
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
    language: str = "sql"  # sql | plpgsql | internal (aggregates, and constructors of ranges)
    depends_on: tuple[int, ...] = ()  # OIDs of the objects in a body in SQL-standard form
    owner: int = BOOTSTRAP_ROLE_OID
    comment: str | None = None
    acl: tuple[str, ...] | None = None
    settings: tuple[tuple[str, str], ...] = ()  # SET clauses: names and values while the body runs
    aggregate: AggregateParts | None = None  # of an aggregate, which has no body

    @property
    def is_constructor(self) -> bool:
        """Whether it is a constructor of a user's range or multirange type, its result. `body` is then the source of
        its implementation."""
        return self.language == "internal" and self.aggregate is None

    @property
    def inputs(self) -> tuple[RoutineArgument, ...]:
        return tuple(item for item in self.arguments if item.mode in "ibv")

    @property
    def outputs(self) -> tuple[RoutineArgument, ...]:
        return tuple(item for item in self.arguments if item.mode in "obt")

    @property
    def signature(self) -> tuple[int, ...]:
        """The types of the input arguments, which distinguish functions of the same name."""
        return tuple(item.type.oid for item in self.inputs)


UserType = Enum | Domain | Composite | UserRange | UserMultirange
USER_TYPES = (Enum, Domain, Composite, UserRange, UserMultirange)
OfForeign = ForeignWrapper | ForeignServer | UserMapping
OF_FOREIGN = (ForeignWrapper, ForeignServer, UserMapping)
OfTextSearch = TextSearchDictionary | TextSearchConfiguration
Code = Extension | Routine | UserOperator | UserCast | OfForeign | EventTrigger | OfTextSearch
CODE = (Extension, Routine, UserOperator, UserCast, *OF_FOREIGN, EventTrigger, *TEXT_SEARCH)
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
    | UserRange
    | UserMultirange
    | Collation
    | Extension
    | Routine
    | UserOperator
    | UserCast
    | StatisticsObject
    | OfForeign
    | EventTrigger
    | OfTextSearch
    | ChangeStream
)
IN_SCHEMAS = (
    Table,
    Index,
    Sequence,
    View,
    Collation,
    *USER_TYPES,
    Extension,
    Routine,
    UserOperator,
    StatisticsObject,
    *TEXT_SEARCH,
)
IN_DATABASES = (ChangeStream, UserCast, *OF_FOREIGN, EventTrigger)  # of no schema
