"""The context of engine/ddl, over a session (engine.ddl.context.DdlContext)."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from catalog import rows as system_rows
from catalog.catalog import Catalog
from catalog.collations import key_version
from catalog.errors import SqlError, not_supported
from catalog.privileges import may
from catalog.row_types import is_row_type
from catalog.schema import (
    DEFAULT_TABLESPACE_OID,
    PENDING_BUT_SEEN,
    ChangeStream,
    Composite,
    Database,
    Domain,
    Index,
    Role,
    Routine,
    Schema,
    SchemaObject,
    Table,
    Tablespace,
    View,
)
from catalog.schema import Sequence as SequenceObject
from catalog.types import format_type
from engine.ddl import branches, default_privileges, rules
from engine.ddl.branches import Then
from engine.ddl.context import Job, RewriteTable
from engine.execute.context import ExecContext
from engine.session import settings
from engine.session.setting_definitions import IDENTITIES
from engine.sql import ast, privileges
from engine.sql.analyze import Environment
from engine.statements import registry
from engine.storage.branch_storage import base_key
from engine.storage.keys import prefix_range
from engine.txn.locks import ACCESS_EXCLUSIVE, SHARE_ROW_EXCLUSIVE, TABLE_MODES
from engine.txn.sequences import encode_state, state_key

if TYPE_CHECKING:
    from engine.session.session import Session


def _refuse_rows_of_tables(item: SchemaObject | None) -> None:
    """Raises 0A000 for a row of a table as a stored value: it would have to follow the table's columns."""
    stored = [column.type for column in item.columns] if isinstance(item, Table | Composite) else ()
    for type_ in (item.type,) if isinstance(item, Domain) else stored:
        if is_row_type(type_.oid):
            not_supported(f"a stored value of the composite type {format_type(type_.oid)}, the row of a table,")


class SessionDdl:
    """engine.ddl.context.DdlContext over a session."""

    def __init__(self, session: Session, then: Then | None = None) -> None:
        assert session.transaction is not None
        self._then = then
        self._session = session
        self.transaction = session.transaction
        role = privileges.role_of(session.catalog, session.user_name)
        self.user_oid = role.oid
        self.user_name = role.name
        self.session_user_name = session.session_user_name
        self.is_superuser = role.superuser
        self.jobs: list[Job] = []
        self.notices: list[SqlError] = []

    @property
    def catalog(self) -> Catalog:
        return self._session.catalog

    @property
    def environment(self) -> Environment:
        return self._session.environment

    def run(self, statement: ast.Node) -> str:
        """Runs the schema change without its jobs; returns the command tag. Raises SqlError, LockWait."""
        change = registry.kind_of(statement).change
        assert change is not None
        return change(self, statement)

    def creation_schema(self, relation: ast.RangeVar | None, persistence: str = "p") -> Schema:
        session = self._session
        catalog = session.catalog
        wanted = relation.schema if relation is not None else None
        if persistence == "t" or wanted == "pg_temp":
            if wanted not in (None, "pg_temp", session.temporary_schema_name):
                raise SqlError("42P16", "cannot create temporary relation in non-temporary schema")
            return self._temporary_schema()
        if wanted is not None:
            oid = catalog.schemas.get(wanted)
            if oid is None:
                raise SqlError("3F000", f'schema "{wanted}" does not exist')
            return self._writable(oid)
        for name in session.usable_path:
            if name == "pg_temp":
                return self._temporary_schema()
            if name == "pg_catalog":
                raise _is_systems('in schema "pg_catalog"' if relation is None else f'"pg_catalog.{relation.name}"')
            if name in catalog.schemas:
                return self._writable(catalog.schemas[name])
        raise SqlError("3F000", "no schema has been selected to create in")

    def _writable(self, oid: int) -> Schema:
        found = self.catalog.get(oid)
        assert isinstance(found, Schema)
        if found.name.startswith("pg_temp_") and oid != self._session.temporary_schema:
            raise SqlError("42P16", "cannot create relations in temporary schemas of other sessions")
        if found.name in ("pg_catalog", "information_schema", "pg_toast"):
            raise _is_systems(f'in schema "{found.name}"')
        user = self.catalog.get(self.user_oid)
        if not isinstance(user, Role) or not may(self.catalog, found, user, "C"):
            raise SqlError("42501", f"permission denied for schema {found.name}")
        return found

    def _temporary_schema(self) -> Schema:
        session = self._session
        name = session.temporary_schema_name
        oid = session.catalog.schemas.get(name)
        if oid is None:
            database, user = self.catalog.get(self.catalog.database), self.catalog.get(self.user_oid)
            if isinstance(database, Database) and isinstance(user, Role) and not may(self.catalog, database, user, "T"):
                message = f'permission denied to create temporary tables in database "{database.name}"'
                raise SqlError("42501", message)
            schema = Schema(self.new_oid(), session.catalog.database, name, self.user_oid)
            self.change({schema.oid: schema})
            session.temporary_schema = schema.oid
            return schema
        found = session.catalog.get(oid)
        assert isinstance(found, Schema)
        session.temporary_schema = found.oid
        return found

    def change(self, changes: Mapping[int, SchemaObject | None], granted: bool = True) -> None:
        transaction = self.transaction
        transaction.refuse_if_read_only("DDL")
        if self.catalog.with_rules:
            rules.check_uses(self, changes)
        if self._session.ddl_events is not None:
            self._session.ddl_events.touched.update(dict.fromkeys(changes))
        catalog = self.catalog
        for oid, item in changes.items():
            if isinstance(item, Table) and item.detaching == PENDING_BUT_SEEN:
                raise SqlError("40001", "could not serialize access due to concurrent update")
            _refuse_rows_of_tables(item)
            if catalog.get(oid) is not None:  # of two changes of one object the later one is made of the earlier one
                self.lock_object(oid)
        changes = {oid: _as_committed(item) for oid, item in changes.items()}
        if granted:
            changes = {oid: _with_default_acl(catalog, item) for oid, item in changes.items()}
        changes = {oid: _with_version(catalog, item) for oid, item in changes.items()}
        changes |= default_privileges.without_schemas(catalog, [oid for oid, item in changes.items() if item is None])
        for oid, item in changes.items():
            old = catalog.get(oid)
            if item is not None:
                transaction.put(system_rows.object_key(item), system_rows.encode(item))
            elif old is not None:
                transaction.delete(system_rows.object_key(old))
        transaction.changed_objects.update(changes)
        if any(isinstance(item, ChangeStream) for item in changes.values()):
            self._session.node.changes.activate()
        transaction.catalog_base = self._session.committed_catalog
        transaction.catalog = catalog.with_changes(changes)

    def note_dropped(self, roots: Iterable[int], normal: Iterable[int], parts: Iterable[tuple[int, int]]) -> None:
        if self._session.ddl_events is not None:
            self._session.ddl_events.roots.update(roots)
            self._session.ddl_events.normal.update(normal)
            self._session.ddl_events.normal_parts.update(parts)

    def note_rewrite(self, oid: int, reasons: int) -> None:
        if self._session.ddl_events is not None:
            self._session.ddl_events.rewrites[oid] = reasons

    def catalog_of(self, database: int) -> Catalog:
        return self._session.node.catalogs[database]

    def then(self) -> Then | None:
        return self._then

    def check_stored_setting(self, setting: ast.SetStmt) -> None:
        if setting.name.lower() in IDENTITIES:
            not_supported(f"{setting.name.lower()} as a setting that comes with a role or a database")
        if setting.modes is None and not (setting.reset and setting.name == "all"):
            self._session.variables.check(setting.name, ", ".join(setting.values) if setting.values else None)

    def stored_setting(self, name: str, setting: ast.SetStmt | None) -> tuple[str, str]:
        name = "TimeZone" if name.lower() == "time zone" else name
        values = self._session.settings
        if name.lower() in IDENTITIES:
            not_supported(f"{name.lower()} as a setting of a function")
        value = values.get(name) if setting is None else settings.in_list(name, setting.values)
        self._session.variables.check(name, value)
        settings.check(name, value)
        return values.display_name(name.lower()), value

    def under_settings(self, given: Sequence[tuple[str, str]]) -> AbstractContextManager[None]:
        return self._session.settings.within(given)

    def large_objects_of(self, owner: int) -> list[int]:
        found = self._session.large_objects.owned_by(owner)
        return [oid for database, oid in found if database == self._session.database_oid]

    def large_objects_elsewhere(self, owner: int) -> dict[str, int]:
        names = {oid: name for name, oid in self.catalog.databases.items() if oid != self._session.database_oid}
        found = self._session.large_objects.owned_by(owner)
        return dict(Counter(names[database] for database, _ in found if database in names))

    def give_large_object(self, oid: int, owner: int) -> None:
        self._session.large_objects.give(oid, owner)

    def drop_large_object(self, oid: int) -> None:
        self._session.large_objects.remove(oid)

    def heirs(self, storage_id: int) -> list[int]:
        return self._session.node.store.of(storage_id).leaning.heirs_of(storage_id)

    def base(self, storage_id: int) -> int | None:
        key, writes = base_key(storage_id), self.transaction.writes
        if key in writes:
            base = writes[key]
        else:
            newest = self._session.node.store.of(storage_id).newest(key)
            base = None if newest is None else newest[1]
        return None if base is None else int.from_bytes(base, "big")

    def sequence_state(self, sequence: SequenceObject) -> bytes:
        return encode_state(*self._session.node.sequences.current(sequence))

    def new_oid(self) -> int:
        return self._session.node.new_oid()

    def new_storage_id(self, tablespace: int = DEFAULT_TABLESPACE_OID) -> int:
        return self._session.node.new_storage_id(tablespace)

    def new_leaning_id(self, tablespace: int) -> int:
        return self._session.node.new_leaning_id(tablespace)

    @property
    def checks_bodies(self) -> bool:
        return self._session.variables.get("check_function_bodies") == "on"

    @property
    def default_tablespace(self) -> str:
        return self._session.variables.get("default_tablespace")

    def check_tablespace_options(self, options: Mapping[str, str], item: Tablespace | None) -> None:
        self._session.node.held.check_options(options, item)

    def is_parameter(self, name: str) -> bool:
        return settings.is_known(name)

    def check_temporary_place(self) -> None:
        if self._session.node.replica is not None:
            # The next leader of pg_default removes their rest, and may then lead no other tablespace.
            not_supported("a temporary table in another tablespace than pg_default, in a cluster")

    def create_tablespace(self, item: Tablespace) -> None:
        self._session.node.held.create(item)

    def drop_tablespace(self, item: Tablespace) -> None:
        self._session.node.held.doubt(item.oid)

    def refuse_in_use(self, item: Table | View | SequenceObject | Index, what: str) -> None:
        why = ""
        deferred = self.transaction.deferred
        if any(item.oid in relations for relations in self._session.in_use):
            why = "it is being used by active queries in this session"
        elif deferred is not None and deferred.is_pending(item.oid):
            why = "it has pending trigger events"
        if why:
            raise SqlError("55006", f'cannot {what} "{item.name}" because {why}')

    def lock_relation(self, oid: int, mode: str) -> None:
        number = TABLE_MODES[mode]
        if number >= SHARE_ROW_EXCLUSIVE and not self.transaction.exclusive:
            self.transaction.exclusive = True
            self._session.node.exclusive_tables += 1
        self.transaction.lock_table(oid, number)

    def lock_name(self, schema: int, name: str) -> None:
        self.transaction.lock_table((schema, name), ACCESS_EXCLUSIVE)

    def lock_object(self, oid: int) -> None:
        self.transaction.lock_table((oid,), ACCESS_EXCLUSIVE)

    def drop_storage(self, storage_id: int) -> None:
        transaction = self.transaction
        gone = branches.give_up(self, storage_id)
        if not gone:
            transaction.kept_storage.add(storage_id)
        transaction.dropped_storage += [storage_id, *gone[1:]]

    def table_is_empty(self, table: Table) -> bool:
        for job in reversed(self.jobs):  # the rows of a table that will be rewritten are still at their old place
            if isinstance(job, RewriteTable) and job.new.storage_id == table.storage_id:
                table = job.old
        low, high = prefix_range(table.storage_id.to_bytes(4, "big"))
        return next(self.transaction.scan_newest(low, high), None) is None

    def add_job(self, job: Job) -> None:
        self.jobs.append(job)

    def exec_context(self) -> ExecContext:
        return self._session.context()

    def sequence_value(self, sequence: SequenceObject) -> int:
        return self._session.node.sequences.current(sequence)[0]

    def set_sequence_start(self, sequence: SequenceObject, value: int) -> None:
        self.transaction.put(state_key(sequence.storage_id), encode_state(value, False))

    def notice(self, notice: SqlError) -> None:
        self.notices.append(notice)

    def database_in_use(self, oid: int) -> bool:
        node = self._session.node
        return any(session.database_oid == oid for session in node.sessions.values()) or node.prepared.use(oid)


def _is_systems(where: str) -> SqlError:
    detail = "System catalog modifications are currently disallowed."
    return SqlError("42501", f"permission denied to create {where}", detail=detail)


def _with_default_acl(catalog: Catalog, item: SchemaObject | None) -> SchemaObject | None:
    """A new object with the privileges of ALTER DEFAULT PRIVILEGES."""
    if not isinstance(item, (Table, View, SequenceObject, Schema, Routine)) or item.acl is not None:
        return item
    if item.oid in catalog.objects:
        return item
    acl = default_privileges.acl_of_new(catalog, item)
    return item if acl is None else dataclasses.replace(item, acl=acl)


def _as_committed(item: SchemaObject | None) -> SchemaObject | None:
    """What is stored of a change of an index that the transaction does not read."""
    return dataclasses.replace(item, unseen=False) if isinstance(item, Index) and item.unseen else item


def _with_version(catalog: Catalog, item: SchemaObject | None) -> SchemaObject | None:
    """A new index with the version of its ICU collation, if it has one."""
    if isinstance(item, Index) and not item.collation_version and any(column.collation for column in item.columns):
        return dataclasses.replace(item, collation_version=key_version(catalog, item))
    return item
