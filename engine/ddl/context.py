"""What a schema change needs of the session that runs it. engine/statements/ddl_context.py implements the Protocol."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Items
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from catalog.catalog import Catalog
from catalog.errors import SqlError
from catalog.schema import DEFAULT_TABLESPACE_OID, Constraint, Index, Schema, SchemaObject, Sequence, Table, Tablespace
from engine.execute.context import ExecContext
from engine.sql import ast, tree
from engine.sql.analyze import Environment
from engine.txn.interface import Transaction

if TYPE_CHECKING:
    from engine.ddl.branches import Then


@dataclass(frozen=True, slots=True)
class RewriteTable:
    """Every row of `old` goes to `new`'s storage id and key, through `conversions` (column number -> expression over
    the old row, range entry 0) where a column's type changed; then every index of `new` is built. 23502, 23505."""

    old: Table
    new: Table
    conversions: tuple[tuple[int, tree.Expr], ...] = ()


@dataclass(frozen=True, slots=True)
class BuildIndex:
    """Entries for every row. Raises 23505 (could not create unique index) with PostgreSQL's detail."""

    table: Table
    index: Index


@dataclass(frozen=True, slots=True)
class ValidateConstraint:
    """A new check, not-null or foreign key constraint against every row. Raises 23514, 23502, 23503.

    `of_domain`: the condition of a domain over a column of it, which is no constraint of the table. `violated`: the
    message for a condition that is none either, but a partition's bounds, and for a foreign key when a partition to
    which it refers is detached.
    """

    table: Table
    constraint: Constraint
    of_domain: bool = False
    violated: str = ""


@dataclass(frozen=True, slots=True)
class CopyStorage:
    """Everything that was under storage ids at a moment goes under others: (old, new), the new ones ascending."""

    then: Then
    storage_ids: tuple[tuple[int, int], ...]


Job = RewriteTable | BuildIndex | ValidateConstraint | CopyStorage


def merge_jobs(jobs: Items[Job], catalog: Catalog) -> list[Job]:
    """The jobs of one schema change, for tables as the whole of it leaves them: a later part of the change may have
    given a table more indexes, or put its rows elsewhere. A table is written anew once, with all of its indexes, before
    anything looks at its rows."""
    rewrites: dict[int, RewriteTable] = {}
    others: list[Job] = []
    for job in jobs:
        if isinstance(job, RewriteTable):
            first = rewrites.get(job.old.oid)
            conversions = job.conversions if first is None else first.conversions + job.conversions
            old = job.old if first is None else first.old
            rewrites[old.oid] = RewriteTable(old, _final(catalog, job.new), conversions)
        elif isinstance(job, CopyStorage):
            others.append(job)
        else:
            others.append(replace(job, table=_final(catalog, job.table)))
    built = [job for job in others if not (isinstance(job, BuildIndex) and job.table.oid in rewrites)]
    return [*rewrites.values(), *built]


def _final(catalog: Catalog, table: Table) -> Table:
    found = catalog.get(table.oid)
    return found if isinstance(found, Table) else table


class DdlContext(Protocol):
    """One schema change. Runs on the engine's thread in a transaction and may raise LockWait (then it runs again)."""

    @property
    def transaction(self) -> Transaction: ...

    user_oid: int
    user_name: str
    session_user_name: str
    is_superuser: bool

    @property
    def catalog(self) -> Catalog:
        """With this transaction's own changes so far."""

    @property
    def environment(self) -> Environment:
        """For analyse_expression, resolve_type, analyse."""

    def run(self, statement: ast.Node) -> str:
        """Another schema change within this one: its command tag."""

    def creation_schema(self, relation: ast.RangeVar | None, persistence: str = "p") -> Schema:
        """The schema that a new relation goes to: named, or the first of search_path; the session's temporary schema
        for 't'. Raises 3F000 (schema does not exist / no schema has been selected to create in)."""

    def change(self, changes: Mapping[int, SchemaObject | None], granted: bool = True) -> None:
        """Writes objects (None drops) as rows of system tables in the transaction; `catalog` shows them at once.
        `granted`: new ones begin with what ALTER DEFAULT PRIVILEGES says."""

    def catalog_of(self, database: int) -> Catalog:
        """The committed catalog of another database (OID)."""

    def then(self) -> Then | None:
        """The moment of CREATE DATABASE ... FROM ... AS OF; None for now."""

    def check_stored_setting(self, setting: ast.SetStmt) -> None:
        """Of ALTER ROLE and ALTER DATABASE ... SET. Raises 42501 for what is for superusers, 22023, 0A000."""

    def large_objects_of(self, owner: int) -> list[int]:
        """The large objects (OIDs) of this database that a role owns."""

    def large_objects_elsewhere(self, owner: int) -> dict[str, int]:
        """How many large objects it owns in other databases, by their names."""

    def give_large_object(self, oid: int, owner: int) -> None: ...

    def drop_large_object(self, oid: int) -> None: ...

    def heirs(self, storage_id: int) -> list[int]:
        """The storage ids of branches that lean on one, as of the last commit that is sequenced."""

    def base(self, storage_id: int) -> int | None:
        """What a storage id leans on, as of this transaction."""

    def sequence_state(self, sequence: Sequence) -> bytes:
        """Where it stands, as storage has it."""

    def new_oid(self) -> int: ...

    def new_storage_id(self, tablespace: int = DEFAULT_TABLESPACE_OID) -> int:
        """For what is to lie in a tablespace (OID)."""

    def new_leaning_id(self, tablespace: int) -> int:
        """For what is to lean on what lies in a tablespace (OID)."""

    @property
    def checks_bodies(self) -> bool:
        """The setting check_function_bodies."""

    @property
    def default_tablespace(self) -> str:
        """The setting; '' is the database's."""

    def check_tablespace_options(self, options: Mapping[str, str], item: Tablespace | None) -> None:
        """Of CREATE or ALTER TABLESPACE; `default`: of pg_default. Raises 0A000 for what this node cannot do."""

    def is_parameter(self, name: str) -> bool:
        """Whether there is, or could be, a setting of that name, which is in lower case."""

    def check_temporary_place(self) -> None:
        """Raises 0A000 where temporary tables cannot lie beside pg_default."""

    def create_tablespace(self, item: Tablespace) -> None:
        """Makes its storage, which goes away again if the transaction does not commit. Raises 58030."""

    def drop_tablespace(self, item: Tablespace) -> None:
        """Its storage goes away when the transaction is durable."""

    def lock_relation(self, oid: int, mode: str) -> None:
        """mode as in LOCK TABLE ('access exclusive', 'share', ...)."""

    def lock_name(self, schema: int, name: str) -> None:
        """Serialises creators of one name in one schema until the transaction ends."""

    def drop_storage(self, storage_id: int) -> None:
        """At commit, everything under this storage id is removed in the background."""

    def table_is_empty(self, table: Table) -> bool:
        """Whether this transaction sees no row in it (then no job is needed)."""

    def add_job(self, job: Job) -> None:
        """Work on the table's rows that the change needs. The session runs the jobs after the catalog change, in the
        same transaction and under the locks taken, off the engine's thread and in whole columns (engine/bulk)."""

    def exec_context(self) -> ExecContext:
        """For compiled defaults and checks."""

    def database_in_use(self, oid: int) -> bool:
        """Whether any session is connected to it, or a prepared transaction is of it."""

    def sequence_value(self, sequence: Sequence) -> int:
        """The last value that was drawn or set, or the start."""

    def set_sequence_start(self, sequence: Sequence, value: int) -> None:
        """The state of a sequence with a new storage id: the next value is `value`. Part of the transaction."""

    def notice(self, notice: SqlError) -> None:
        """Sends a NOTICE (severity set in it) before the statement's answer."""
