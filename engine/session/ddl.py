"""Schema changes from a session: the context that engine/ddl works in, the jobs on rows, CREATE TABLE AS.

A statement runs as: the schema change itself (again after each lock that it had to wait for), then its jobs, all in the
session's transaction. So a failed job rolls everything back, and nobody sees a half-made table.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from catalog import rows as system_rows
from catalog.collations import collation, key_version, of_type
from catalog.errors import SqlError, not_supported
from catalog.privileges import may
from catalog.schema import (
    DEFAULT_TABLESPACE_OID,
    Catalog,
    ChangeStream,
    Database,
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
from engine import ddl
from engine.ddl import branches, default_privileges
from engine.ddl.branches import Then
from engine.ddl.context import BuildIndex, Job, RewriteTable, settled
from engine.ddl.objects import check_new_database, parent_of
from engine.ddl.ownership import owns
from engine.execute.context import ExecContext, Field
from engine.session import planning, running, settings
from engine.session.branches import Far, InBackup, Recent, branch_moment, in_backup
from engine.session.open_sessions import open_sessions
from engine.session.prepared import Prepared
from engine.session.signals import check_signal
from engine.sql import ast, privileges
from engine.sql.analyze import Environment
from engine.sql.analyze.collations import no_collation
from engine.storage.keys import prefix_range
from engine.storage.leaning import base_key
from engine.txn.locks import ACCESS_EXCLUSIVE, SHARE_ROW_EXCLUSIVE, TABLE_MODES
from engine.txn.sequences import encode_state, state_key

if TYPE_CHECKING:
    from engine.session.session import Session

LEAVING_ROUNDS, LEAVING_PAUSE = 50, 0.1  # seconds; how long DROP DATABASE waits for its other sessions


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
        catalog = self.catalog
        for oid in changes:
            if catalog.get(oid) is not None:  # of two changes of one object the later one is made of the earlier one
                transaction.lock_table((oid,), ACCESS_EXCLUSIVE)
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

    def catalog_of(self, database: int) -> Catalog:
        return self._session.node.catalogs[database]

    def then(self) -> Then | None:
        return self._then

    def check_stored_setting(self, setting: ast.SetStmt) -> None:
        if setting.name.lower() in settings.IDENTITIES:
            not_supported(f"{setting.name.lower()} as a setting that comes with a role or a database")
        if setting.modes is None and not (setting.reset and setting.name == "all"):
            self._session.check_setting(setting.name, ", ".join(setting.values) if setting.values else None)

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
        return self._session.setting("check_function_bodies") == "on"

    @property
    def default_tablespace(self) -> str:
        return self._session.setting("default_tablespace")

    def check_tablespace_options(self, options: Mapping[str, str], item: Tablespace | None) -> None:
        self._session.node.held.check_options(options, item)

    def is_parameter(self, name: str) -> bool:
        return settings.is_known(name)

    def check_temporary_place(self) -> None:
        if self._session.node.replica is not None:
            # The next leader of pg_default removes what is left of them, and may lead no other tablespace then.
            not_supported("a temporary table in another tablespace than pg_default, in a cluster")

    def create_tablespace(self, item: Tablespace) -> None:
        self._session.node.held.create(item)

    def drop_tablespace(self, item: Tablespace) -> None:
        self._session.node.held.doubt(item.oid)

    def lock_relation(self, oid: int, mode: str) -> None:
        number = TABLE_MODES[mode]
        if number >= SHARE_ROW_EXCLUSIVE and not self.transaction.exclusive:
            self.transaction.exclusive = True
            self._session.node.exclusive_tables += 1
        self.transaction.lock_table(oid, number)

    def lock_name(self, schema: int, name: str) -> None:
        self.transaction.lock_table((schema, name), ACCESS_EXCLUSIVE)

    def drop_storage(self, storage_id: int) -> None:
        transaction = self.transaction
        gone = branches.give_up(self, storage_id)
        if not gone:
            transaction.kept_storage.add(storage_id)
        transaction.dropped_storage += [storage_id, *gone[1:]]

    def table_is_empty(self, table: Table) -> bool:
        for job in reversed(self.jobs):  # the rows of a table that is to be written anew are still where they were
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
    """A new object with what ALTER DEFAULT PRIVILEGES says."""
    if not isinstance(item, (Table, View, SequenceObject, Schema, Routine)) or item.acl is not None:
        return item
    if item.oid in catalog.objects:
        return item
    acl = default_privileges.acl_of_new(catalog, item)
    return item if acl is None else dataclasses.replace(item, acl=acl)


def _check_block(session: Session, statement: ast.Node) -> None:
    """25001 for what PostgreSQL does outside of transaction blocks only, and 0A000 for what it never does so."""
    what = ""
    match statement:
        case ast.CreateDatabaseStmt():
            what = "CREATE DATABASE"
        case ast.DropDatabaseStmt():
            what = "DROP DATABASE"
        case ast.TablespaceStmt(action=action) if action != "alter":
            what = f"{action.upper()} TABLESPACE"
        case ast.IndexStmt(concurrently=True):
            what = "CREATE INDEX CONCURRENTLY"
        case ast.DropStmt(concurrently=True):
            what = "DROP INDEX CONCURRENTLY"
    if what and session.in_block:
        raise SqlError("25001", f"{what} cannot run inside a transaction block")
    if isinstance(statement, ast.DropStmt) and statement.concurrently:
        if len(statement.names) > 1:
            raise SqlError("0A000", f"{what} does not support dropping multiple objects")
        if statement.cascade:
            raise SqlError("0A000", f"{what} does not support CASCADE")


async def execute(session: Session, statement: ast.Node, whole: ast.Statement) -> str:
    """Runs a schema change with its jobs; the command tag."""
    transaction = session.transaction or session.begin_implicit()
    transaction.refuse_if_read_only(_command(statement))
    _check_block(session, statement)
    if isinstance(statement, ast.TablespaceStmt) and statement.action == "create":
        await _prepare_tablespace(session, statement)
    if isinstance(statement, ast.DropDatabaseStmt):
        await _until_unused(session, statement)
    if isinstance(statement, ast.CreateDatabaseStmt) and parent_of(statement) is not None:
        tag, context = await _create_from(session, statement)
    else:
        if owners := _owners(session, statement):
            await session.large_objects.find_owned(owners)
        try:
            tag, context = await _change_with_jobs(session, statement)
        finally:
            session.large_objects.forget_owned()
    session.notices += context.notices
    if isinstance(statement, ast.CreateSchemaStmt) and statement.elements:
        await _create_elements(session, statement, whole)
    if isinstance(statement, ast.TablespaceStmt) and statement.action == "create" and session.node.replica is not None:
        await _until_it_stands(session, statement.name)
    return tag


def _owners(session: Session, statement: ast.Node) -> frozenset[int]:
    """The roles whose large objects the statement has to do with."""
    names: tuple[str, ...] = ()
    if isinstance(statement, ast.OwnedStmt):
        names = statement.roles
    elif isinstance(statement, ast.RoleStmt) and statement.action == "drop":
        names = statement.names
    if not names:
        return frozenset()
    names += (session.user_name, session.session_user_name)  # CURRENT_USER and its kin
    return frozenset(oid for oid in map(session.catalog.roles.get, names) if oid)


async def _change_with_jobs(session: Session, statement: ast.Node, then: Then | None = None) -> tuple[str, SessionDdl]:
    tag, context = await _change(session, statement, then)
    if isinstance(then, Far):
        assert session.transaction is not None
        session.transaction.runs += then.take_runs()
    if context.jobs:
        from engine.bulk import backfill

        try:
            for job in settled(context.jobs, context.catalog):
                await backfill.run(session, job)
        except SqlError:
            if isinstance(statement, ast.IndexStmt) and statement.concurrently:
                with contextlib.suppress(SqlError):
                    await _leave_invalid(session, statement)
            raise
    return tag, context


async def _leave_invalid(session: Session, statement: ast.IndexStmt) -> None:
    """CREATE INDEX CONCURRENTLY has failed over the rows: the index stays, without entries, until it is dropped, or
    built by REINDEX. Nothing reads it or writes to it, and it says of no key that it is there once."""
    session.roll_back()
    session.begin_implicit()
    _, context = await _change(session, statement)
    for job in context.jobs:
        if isinstance(job, BuildIndex):
            index = context.catalog.index(job.index.oid)
            context.change({index.oid: dataclasses.replace(index, ready=False, valid=False)})
    await session.durable(session.finish())


async def _create_from(session: Session, statement: ast.CreateDatabaseStmt) -> tuple[str, SessionDdl]:
    """CREATE DATABASE from another one. What was copied out of a backup is durable when this is over."""
    check_new_database(SessionDdl(session), statement)
    then: Recent | Far | InBackup | None = None
    if statement.backup is not None:
        then = await in_backup(session, statement)
    elif statement.as_of is not None:
        then = await branch_moment(session, statement)
    if then is None:
        return await _change_with_jobs(session, statement)
    try:
        done = await _change_with_jobs(session, statement, then)
    finally:
        then.close()
    backups = session.node.backups
    if statement.backup is not None and backups is not None:
        await session.durable(session.finish())
        await asyncio.to_thread(backups.let_go, statement.name)
        session.begin_implicit()
    return done


_COMMANDS: dict[type[ast.Node], str] = {
    ast.CreateStmt: "CREATE TABLE", ast.ViewStmt: "CREATE VIEW", ast.IndexStmt: "CREATE INDEX",
    ast.AlterTableStmt: "ALTER TABLE", ast.TruncateStmt: "TRUNCATE TABLE", ast.CreateSchemaStmt: "CREATE SCHEMA",
    ast.CommentStmt: "COMMENT",
}  # fmt: skip


def _command(statement: ast.Node) -> str:
    """The command as a read-only transaction refuses it."""
    if isinstance(statement, ast.DropStmt):
        return f"DROP {statement.kind.upper()}"
    if isinstance(statement, ast.GrantStmt):
        return "GRANT" if statement.is_grant else "REVOKE"
    if isinstance(statement, ast.SequenceStmt):
        return "CREATE SEQUENCE" if statement.create else "ALTER SEQUENCE"
    return _COMMANDS.get(type(statement), "DDL")


_ELEMENTS = (ast.SequenceStmt, ast.CreateStmt, ast.ViewStmt, ast.IndexStmt, ast.GrantStmt)


async def _create_elements(session: Session, statement: ast.CreateSchemaStmt, whole: ast.Statement) -> None:
    """The elements of CREATE SCHEMA, in the order of transformCreateSchemaStmtElements, with the new schema in front of
    the search path. Raises 42P15."""
    name = statement.name or statement.owner
    assert name is not None
    kept = session.search_path
    session.search_path = (name, *kept)
    try:
        for element in sorted((_within(name, item) for item in statement.elements), key=_place_of_element):
            await execute(session, element, whole.of(element))
    finally:
        session.search_path = kept


def _place_of_element(element: ast.Node) -> int:
    return next(place for place, kind in enumerate(_ELEMENTS) if isinstance(element, kind))


def _within(schema: str, element: ast.Node) -> ast.Node:
    """The element with the schema that is being created."""
    if isinstance(element, ast.GrantStmt):
        return element
    if not isinstance(element, ast.SequenceStmt | ast.CreateStmt | ast.ViewStmt | ast.IndexStmt):
        not_supported(f"{type(element).__name__} within CREATE SCHEMA")
    given = element.relation.schema
    if given is not None and given != schema:
        message = f"CREATE specifies a schema ({given}) different from the one being created ({schema})"
        raise SqlError("42P15", message)
    return dataclasses.replace(element, relation=dataclasses.replace(element.relation, schema=schema))


async def _until_unused(session: Session, statement: ast.DropDatabaseStmt) -> None:
    """Before DROP DATABASE: waits, as PostgreSQL does, for sessions that are about to leave it; FORCE ends them."""
    oid = session.catalog.databases.get(statement.name)
    change = SessionDdl(session)
    database = session.catalog.get(oid or 0)
    if oid == session.database_oid or not (isinstance(database, Database) and owns(change, database)):
        return
    if statement.force:
        there = [other for other in open_sessions(session.node).values() if other.database_oid == oid]
        for other in there:
            check_signal(session, other, terminate=True)
        for other in there:
            message = "terminating connection due to administrator command"
            other.cancel(SqlError("57P01", message, severity="FATAL"))
    for _ in range(LEAVING_ROUNDS):
        if not change.database_in_use(database.oid):
            return
        await asyncio.sleep(LEAVING_PAUSE)


async def _prepare_tablespace(session: Session, statement: ast.TablespaceStmt) -> None:
    """Sees to what a new tablespace needs outside of the database, unless CREATE is going to be refused."""
    if SessionDdl(session).is_superuser and statement.name not in session.catalog.tablespaces:
        await session.node.held.make_ready(dict(statement.options))


async def _until_it_stands(session: Session, name: str) -> None:
    """Commits the CREATE of a tablespace, and waits until it has a leader: what comes next will write to it."""
    item = session.catalog.get(session.catalog.tablespaces[name])
    assert isinstance(item, Tablespace)
    lsn = session.finish()
    await session.durable(lsn)
    if not await session.node.held.stands(item.identity):
        session.warn("57P03", f'tablespace "{name}" has no leader yet')
    session.begin_implicit()


async def _change(session: Session, statement: ast.Node, then: Then | None = None) -> tuple[str, SessionDdl]:
    from engine.txn.interface import LockWait

    transaction = session.transaction
    assert transaction is not None
    transaction.begin_statement()
    mark = transaction.mark()
    changed, dropped = dict(transaction.changed_objects), len(transaction.dropped_storage)
    while True:
        context = SessionDdl(session, then)
        try:
            tag = ddl.run(statement, context)
            _check_setting(statement)
            return tag, context
        except LockWait as wait:
            transaction.rollback_to(mark)
            transaction.changed_objects = dict(changed)
            transaction.catalog = None
            del transaction.dropped_storage[dropped:]
            await session.wait_for(wait)


def _check_setting(statement: ast.Node) -> None:
    """ALTER ROLE and ALTER DATABASE ... SET keep nothing that a session could not be given. Raises 42704, 22023,
    55P02."""
    change = statement.setting if isinstance(statement, ast.RoleStmt | ast.AlterDatabaseStmt) else None
    if change is not None and not change.reset:
        name = "TimeZone" if change.name.lower() == "time zone" else change.name
        settings.check(name, ", ".join(change.values) if change.values else None)


async def create_table_as(
    session: Session, statement: ast.Node, whole: ast.Statement, parameters: Sequence[object]
) -> str:
    """CREATE TABLE AS and SELECT INTO: the table from the query's columns, then INSERT ... SELECT."""
    from dataclasses import replace

    if isinstance(statement, ast.SelectStmt):
        assert statement.into is not None
        query: ast.Node = replace(statement, into=None)
        created = ast.CreateTableAsStmt(statement.into, (), query)
    else:
        assert isinstance(statement, ast.CreateTableAsStmt)
        created, query = statement, statement.query
    if created.materialized:
        from engine.session import matviews

        return await matviews.create(session, created, whole)
    types: tuple[int, ...] = ()
    if isinstance(query, ast.ExecuteStmt):
        from engine.session import utility

        executed = utility.executed(session, query)
        types, parameters = executed.declared_types, await utility.arguments(session, query, executed)
        query, whole = executed.statement.tree, executed.statement
    if not isinstance(query, ast.SelectStmt):
        raise SqlError("42809", "prepared statement is not a SELECT")
    transaction = session.transaction or session.begin_implicit()
    transaction.refuse_if_read_only("CREATE TABLE AS")
    source = planning.prepare(session, whole.of(query), types)
    columns = definition(created, source)
    known = session.environment.find_relation(created.relation.schema, created.relation.name)
    if known is not None and created.if_not_exists:
        session.warn("42P07", f'relation "{created.relation.name}" already exists, skipping', "NOTICE")
        return "CREATE TABLE AS"
    await execute(session, columns, whole)
    if not created.with_data:
        return "CREATE TABLE AS" if query is created.query else "SELECT 0"
    insert = ast.InsertStmt(created.relation, (), query)
    if query.changes_data:
        insert = replace(insert, query=replace(query, with_clause=None), with_clause=query.with_clause)
    prepared = planning.prepare(session, whole.of(insert), types)
    prepared.tally = session.node.statements.nested
    count = await running.run_to_count(session, prepared, parameters)
    return f"SELECT {count}"


def _with_version(catalog: Catalog, item: SchemaObject | None) -> SchemaObject | None:
    """A new index with the version of the rules by which its keys are made, where it has an ICU collation."""
    if isinstance(item, Index) and not item.collation_version and any(column.collation for column in item.columns):
        return dataclasses.replace(item, collation_version=key_version(catalog, item))
    return item


def _collation_name(catalog: Catalog, field: Field, oid: int) -> tuple[str, ...]:
    """What COLLATE is to say of a column: nothing where its type says it. Raises 42P22."""
    typed = of_type(field.type.oid)
    if typed and not oid:
        raise no_collation(field.name, field.type)
    if not typed or oid == typed:
        return ()
    item = collation(catalog, oid)
    return catalog.schema_name(item.schema), item.name


def definition(created: ast.CreateTableAsStmt, source: Prepared) -> ast.CreateStmt:
    """The table that CREATE TABLE AS makes of a query's columns."""
    fields = source.fields or ()
    catalog = source.catalog
    oids = source.analyzed.outputs if source.analyzed is not None else ()
    if len(created.columns) > len(fields):
        raise SqlError("42601", "too many column names were specified")
    columns = []
    for number, field in enumerate(fields):
        name = created.columns[number] if number < len(created.columns) else field.name
        named = _collation_name(catalog, field, oids[number]) if oids else ()
        columns.append(ast.ColumnDef(name, planning.type_name(field.type), (), named))
    return ast.CreateStmt(
        created.relation,
        tuple(columns),
        created.persistence,
        created.if_not_exists,
        options=created.options,
        on_commit=created.on_commit,
        tablespace=created.tablespace,
    )


async def drop_temporary(session: Session) -> None:
    """Drops the session's temporary schema with all that is in it, in a transaction of its own."""
    name = session.temporary_schema_name
    session.temporary_schema = None
    if name not in session.catalog.schemas:
        return
    session.begin_implicit()
    try:
        await execute(session, ast.DropStmt("schema", ((name,),), cascade=True), ast.Statement(ast.Node(), ""))
    except SqlError as error:
        session.fail(error)
        raise
    session.notices.clear()
    lsn = session.finish()
    if lsn:
        await session.durable(lsn)
