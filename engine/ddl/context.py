"""The interface of a schema change to its session. engine/statements/ddl_context.py implements the Protocol."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Sequence as Items
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from catalog.catalog import Catalog
from catalog.errors import SqlError
from catalog.schema import (
    DEFAULT_TABLESPACE_OID,
    Constraint,
    Index,
    Schema,
    SchemaObject,
    Sequence,
    Table,
    Tablespace,
    View,
)
from engine.execute.context import ExecContext
from engine.sql import ast, tree
from engine.sql.analyze import Environment
from engine.txn.interface import Transaction

if TYPE_CHECKING:
    from engine.ddl.branches import Then


@dataclass(frozen=True, slots=True)
class RewriteTable:
    """Rewrites every row of `old` under `new`'s storage id and key. A column whose type changed goes through
    `conversions` (column number -> expression over the old row, range entry 0). Then every index of `new` is built.
    Raises 23502, 23505."""

    old: Table
    new: Table
    conversions: tuple[tuple[int, tree.Expr], ...] = ()


@dataclass(frozen=True, slots=True)
class BuildIndex:
    """Builds the entries of all rows. Raises 23505 (could not create unique index) with PostgreSQL's detail."""

    table: Table
    index: Index


@dataclass(frozen=True, slots=True)
class ValidateConstraint:
    """Checks every row against a new check, not-null or foreign key constraint. Raises 23514, 23502, 23503.

    `of_domain`: a domain's condition over a column of it, which is not a constraint of the table. `violated`: the
    message for a partition's bounds, and for a foreign key to a partition that is detached.
    """

    table: Table
    constraint: Constraint
    of_domain: bool = False
    violated: str = ""


@dataclass(frozen=True, slots=True)
class CopyStorage:
    """Copies everything under storage ids at a moment to others: (old, new), in ascending order of the new ones."""

    then: Then
    storage_ids: tuple[tuple[int, int], ...]


Job = RewriteTable | BuildIndex | ValidateConstraint | CopyStorage


def merge_jobs(jobs: Items[Job], catalog: Catalog) -> list[Job]:
    """The merged jobs of one schema change, for the final state of the tables, because a later part of the change may
    have added indexes or moved rows. A table is rewritten once, with all of its indexes, before any other job reads its
    rows."""
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
    """One schema change. It runs on the engine's thread in a transaction, and may raise LockWait (then it runs
    again)."""

    @property
    def transaction(self) -> Transaction: ...

    user_oid: int
    user_name: str
    session_user_name: str
    is_superuser: bool

    @property
    def catalog(self) -> Catalog:
        """The catalog with this transaction's own changes so far."""

    @property
    def environment(self) -> Environment:
        """The environment for analyse_expression, resolve_type and analyse."""

    def run(self, statement: ast.Node) -> str:
        """Runs another schema change within this one, and returns its command tag."""

    def creation_schema(self, relation: ast.RangeVar | None, persistence: str = "p") -> Schema:
        """The schema of a new relation: the named one, or the first of search_path; the session's temporary schema for
        't'. Raises 3F000 (schema does not exist / no schema has been selected to create in)."""

    def change(self, changes: Mapping[int, SchemaObject | None], granted: bool = True) -> None:
        """Writes objects (None drops) as rows of system tables in the transaction. `catalog` shows them at once.
        `granted`: new objects get the privileges of ALTER DEFAULT PRIVILEGES."""

    def note_dropped(self, roots: Iterable[int], normal: Iterable[int], parts: Iterable[tuple[int, int]]) -> None:
        """For event triggers: the objects that a statement drops by name, and the dependents that only CASCADE drops:
        objects, and parts of tables (engine/session/ddl_events.py)."""

    def note_rewrite(self, oid: int, reasons: int) -> None:
        """For event triggers: the rows of a table will be written anew (engine/ddl/rewrite_reasons.py)."""

    def catalog_of(self, database: int) -> Catalog:
        """The committed catalog of another database (OID)."""

    def then(self) -> Then | None:
        """The moment of CREATE DATABASE ... FROM ... AS OF, or None for now."""

    def check_stored_setting(self, setting: ast.SetStmt) -> None:
        """Checks ALTER ROLE and ALTER DATABASE ... SET. Raises 42501 for a superuser's setting, 22023, 0A000."""

    def stored_setting(self, name: str, setting: ast.SetStmt | None) -> tuple[str, str]:
        """The name and the value of a SET clause of a function; None: FROM CURRENT. Raises 42704, 22023, 42501 for a
        superuser's setting, 0A000."""

    def under_settings(self, given: Items[tuple[str, str]]) -> AbstractContextManager[None]:
        """In this block the settings of a function apply."""

    def large_objects_of(self, owner: int) -> list[int]:
        """The large objects (OIDs) of this database that a role owns."""

    def large_objects_elsewhere(self, owner: int) -> dict[str, int]:
        """The number of large objects that a role owns in other databases, by name."""

    def give_large_object(self, oid: int, owner: int) -> None: ...

    def drop_large_object(self, oid: int) -> None: ...

    def heirs(self, storage_id: int) -> list[int]:
        """The storage ids of branches that are based on a storage id, as of the last sequenced commit."""

    def base(self, storage_id: int) -> int | None:
        """The base of a storage id in this transaction."""

    def sequence_state(self, sequence: Sequence) -> bytes:
        """The state of a sequence in storage."""

    def new_oid(self) -> int: ...

    def new_storage_id(self, tablespace: int = DEFAULT_TABLESPACE_OID) -> int:
        """A new storage id in a tablespace (OID)."""

    def new_leaning_id(self, tablespace: int) -> int:
        """A new storage id that is based on one in a tablespace (OID)."""

    @property
    def checks_bodies(self) -> bool:
        """The setting check_function_bodies."""

    @property
    def default_tablespace(self) -> str:
        """The setting default_tablespace; '' is the database's tablespace."""

    def check_tablespace_options(self, options: Mapping[str, str], item: Tablespace | None) -> None:
        """Checks the options of CREATE or ALTER TABLESPACE; `default`: of pg_default. Raises 0A000 for options that
        this node does not support."""

    def is_parameter(self, name: str) -> bool:
        """Whether a setting of that name, in lower case, exists or could exist."""

    def check_temporary_place(self) -> None:
        """Raises 0A000 if temporary tables cannot be in another tablespace than pg_default."""

    def create_tablespace(self, item: Tablespace) -> None:
        """Creates its storage, which is removed if the transaction does not commit. Raises 58030."""

    def drop_tablespace(self, item: Tablespace) -> None:
        """Removes its storage when the transaction is durable."""

    def refuse_in_use(self, item: Table | View | Sequence | Index, what: str) -> None:
        """Raises 55006 for a relation that a statement around this one uses, or that has pending triggers. `what`: the
        command."""

    def lock_relation(self, oid: int, mode: str) -> None:
        """Locks a relation. The mode is a mode of LOCK TABLE ('access exclusive', 'share', ...)."""

    def lock_name(self, schema: int, name: str) -> None:
        """Blocks other creators of a name in a schema until the transaction ends."""

    def lock_object(self, oid: int) -> None:
        """Blocks other changes of an object of the schema until the transaction ends."""

    def drop_storage(self, storage_id: int) -> None:
        """At commit, removes everything under this storage id, in the background."""

    def table_is_empty(self, table: Table) -> bool:
        """Whether this transaction sees no row in the table, so that it needs no job."""

    def add_job(self, job: Job) -> None:
        """Adds work on the table's rows. The session runs the jobs after the catalog change, in the same transaction
        and under its locks, off the engine's thread and in whole columns (engine/bulk)."""

    def exec_context(self) -> ExecContext:
        """The execution context for compiled defaults and checks."""

    def database_in_use(self, oid: int) -> bool:
        """Whether a session is connected to the database, or a prepared transaction belongs to it."""

    def sequence_value(self, sequence: Sequence) -> int:
        """The last value that was drawn or set, or the start value."""

    def set_sequence_start(self, sequence: Sequence, value: int) -> None:
        """Sets the state of a sequence with a new storage id: its next value is `value`. Part of the transaction."""

    def notice(self, notice: SqlError) -> None:
        """Sends a NOTICE (with its severity) before the statement's result."""
