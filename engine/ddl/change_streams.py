"""CREATE, ALTER and DROP CHANGE STREAM, and the tables that hold changes (engine/changes).

A stream belongs to one tablespace, because the order of its changes is that of one changelog. All streams of a database
in a tablespace share one table there, pg_toast.pg_changes_<OID of the tablespace>, which is created with the first
stream. Only this code writes to it. As a table it is replicated, recovered, checkpointed and backed up like every
other. In the schema pg_toast, clients do not show it and pg_dump skips it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from catalog.errors import SqlError, not_supported
from catalog.schema import (
    BOOTSTRAP_ROLE_OID,
    DEFAULT_TABLESPACE_OID,
    ChangeStream,
    Column,
    Constraint,
    Database,
    Index,
    IndexColumn,
    Schema,
    SchemaObject,
    Table,
)
from catalog.types import oids
from catalog.types.base import TypeRef
from engine.changes.tables import HIDDEN_SCHEMA, can_be_in_streams, log_name, log_of
from engine.ddl import names, ownership
from engine.ddl.context import DdlContext
from engine.ddl.tables import layout
from engine.ddl.tablespaces import find as find_tablespace
from engine.sql import ast

_SIZE = re.compile(r"\s*(\d+)\s*(B|kB|MB|GB|TB)?\s*")
_UNITS = {None: 1 << 10, "B": 1, "kB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}


def change_stream(context: DdlContext, statement: ast.ChangeStreamStmt) -> str:
    """Runs CREATE, ALTER or DROP CHANGE STREAM. Raises 42710, 42704, 42501, 42P01, 42809, 22023, 0A000."""
    if statement.action == "create":
        _create(context, statement)
        return "CREATE CHANGE STREAM"
    if statement.action == "drop":
        _drop(context, statement)
        return "DROP CHANGE STREAM"
    stream = _get_owned(context, statement.names[0])
    context.change({stream.oid: _alter(context, stream, statement)})
    return "ALTER CHANGE STREAM"


def _create(context: DdlContext, statement: ast.ChangeStreamStmt) -> None:
    (name,) = statement.names
    context.lock_name(0, f"change stream {name}")
    if name in context.catalog.change_streams:
        message = f'change stream "{name}" already exists'
        if not statement.if_exists:
            raise SqlError("42710", message)
        context.notice(SqlError("42710", f"{message}, skipping", severity="NOTICE"))
        return
    database = context.catalog.get(context.catalog.database)
    assert isinstance(database, Database)
    ownership.must_create_schemas(context, ownership.user_role(context))
    stream = ChangeStream(context.new_oid(), database.oid, name, owner=context.user_oid)
    if statement.tables is None:
        if not context.is_superuser:
            raise SqlError("42501", "must be superuser to create a FOR ALL TABLES change stream")
        place = statement.tablespace
        tablespace = DEFAULT_TABLESPACE_OID if place in (None, "pg_default") else find_tablespace(context, place).oid
        stream = replace(stream, all_tables=True, tablespace=tablespace)
    else:
        tables = [_readable(context, relation) for relation in statement.tables]
        stream = replace(stream, tablespace=_place(tables), tables=_numbers(tables))
    stream = _with_options(stream, statement.options)
    changes: dict[int, SchemaObject | None] = {stream.oid: stream}
    if log_of(context.catalog.objects, stream.database, stream.tablespace) is None:
        context.lock_name(0, f"changes of {stream.tablespace}")
        changes |= _new_log(context, stream)
    context.change(changes)


def _readable(context: DdlContext, relation: ast.RangeVar) -> Table:
    """A table that may be in a stream and that the user may read. Raises 42P01, 42809, 42501."""
    table = names.table_named(context, relation, "access share", "r")
    if table.persistence == "t":
        raise SqlError("42809", f'"{table.name}" is a temporary table', detail="A change stream outlives its session.")
    return table


def _numbers(tables: Iterable[Table]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(table.oid for table in tables))


def _place(tables: Iterable[Table]) -> int:
    """The tablespace of the tables. Raises 0A000 for several."""
    found = {table.tablespace for table in tables}
    if len(found) > 1:
        not_supported(
            "a change stream over tables of several tablespaces",
            hint="Make one for each tablespace: changes have an order within a tablespace.",
        )
    return found.pop()


def _with_options(stream: ChangeStream, options: Iterable[tuple[str, str]]) -> ChangeStream:
    for name, value in options:
        if name != "retain":
            raise SqlError("22023", f'unrecognized parameter "{name}"', hint="There is: retain, as in '1GB'.")
        size = _SIZE.fullmatch(value)
        if size is None or not int(size[1]):
            raise SqlError("22023", f'invalid value for parameter "retain": "{value}"', hint="As in '512MB' or '1GB'.")
        stream = replace(stream, retain=int(size[1]) * _UNITS[size[2]])
    return stream


def _get_owned(context: DdlContext, name: str) -> ChangeStream:
    """The stream. Raises 42704; 42501 unless the user owns it."""
    found = context.catalog.change_streams.get(name)
    if found is None:
        raise SqlError("42704", f'change stream "{name}" does not exist')
    ownership.must_own(context, found)
    context.lock_name(0, f"change stream {name}")
    return found


def _alter(context: DdlContext, stream: ChangeStream, statement: ast.ChangeStreamStmt) -> ChangeStream:
    if statement.action == "set":
        return _with_options(stream, statement.options)
    if statement.action == "rename":
        if statement.value in context.catalog.change_streams:
            raise SqlError("42710", f'change stream "{statement.value}" already exists')
        context.lock_name(0, f"change stream {statement.value}")
        return replace(stream, name=statement.value)
    if statement.action == "owner":
        return replace(stream, owner=ownership.new_owner(context, stream, statement.value).oid)
    if stream.all_tables:
        raise SqlError("55000", f'change stream "{stream.name}" is defined as FOR ALL TABLES')
    assert statement.tables is not None
    tables = [_readable(context, relation) for relation in statement.tables]
    if statement.action == "add":
        known = [item for oid in stream.tables if isinstance(item := context.catalog.get(oid), Table)]
        if _place([*known, *tables]) != stream.tablespace:
            not_supported("a change stream over tables of several tablespaces")
        return replace(stream, tables=tuple(dict.fromkeys((*stream.tables, *_numbers(tables)))))
    for table in tables:
        if table.oid not in stream.tables:
            raise SqlError("42704", f'table "{table.name}" is not part of change stream "{stream.name}"')
    left = tuple(oid for oid in stream.tables if oid not in _numbers(tables))
    if not left:
        raise SqlError("55000", "a change stream needs a table", hint="DROP CHANGE STREAM ends it.")
    return replace(stream, tables=left)


def _drop(context: DdlContext, statement: ast.ChangeStreamStmt) -> None:
    for name in statement.names:
        if statement.if_exists and name not in context.catalog.change_streams:
            message = f'change stream "{name}" does not exist, skipping'
            context.notice(SqlError("00000", message, severity="NOTICE"))
            continue
        _get_owned(context, name)
        drop(context, [name])


def drop(context: DdlContext, found: Iterable[str]) -> None:
    """Drops streams by name, and the tables of changes that no other stream needs."""
    for name in found:
        stream = context.catalog.change_streams[name]
        context.change({stream.oid: None})
        others = context.catalog.change_streams.values()
        if all(other.tablespace != stream.tablespace for other in others):
            context.change(_without_log(context, stream))


# ---- the table of changes -------------------------------------------------------------------------------------------


def _new_log(context: DdlContext, stream: ChangeStream) -> dict[int, SchemaObject | None]:
    schema = _hidden_schema(context)
    types = (TypeRef(oids.INT8), TypeRef(oids.INT4), TypeRef(oids.BYTEA))
    columns = tuple(
        Column(number, name, type_, not_null=True)
        for number, (name, type_) in enumerate(zip(("lsn", "part", "body"), types, strict=True), 1)
    )
    oid, index_oid = context.new_oid(), context.new_oid()
    storage_id, place, name = context.new_storage_id(stream.tablespace), stream.tablespace, log_name(stream.tablespace)
    key = Constraint(context.new_oid(), f"{name}_pkey", "p", (1, 2), index_oid)
    table = Table(
        oid, schema.oid, name, columns, storage_id, (1, 2), (layout(0, columns),), (key,), (index_oid,),
        owner=BOOTSTRAP_ROLE_OID, tablespace=place, next_column=4,
        comment="what change streams hold: read it by shoal_changes()",
    )  # fmt: skip
    parts = (IndexColumn(1, type=types[0]), IndexColumn(2, type=types[1]))
    index = Index(
        index_oid, schema.oid, key.name, oid, parts, storage_id, unique=True, primary=True, owner=BOOTSTRAP_ROLE_OID,
        tablespace=place,
    )  # fmt: skip
    return {schema.oid: schema, oid: table, index_oid: index}


def _hidden_schema(context: DdlContext) -> Schema:
    known = context.catalog.get(context.catalog.schemas.get(HIDDEN_SCHEMA, 0))
    if isinstance(known, Schema):
        return known
    context.lock_name(0, HIDDEN_SCHEMA)
    return Schema(context.new_oid(), context.catalog.database, HIDDEN_SCHEMA, BOOTSTRAP_ROLE_OID)


def _without_log(context: DdlContext, stream: ChangeStream) -> dict[int, SchemaObject | None]:
    """Drops the table of changes with the last stream of a tablespace, so that the tablespace can be dropped."""
    log = log_of(context.catalog.objects, stream.database, stream.tablespace)
    if log is None or not can_be_in_streams(context.catalog.objects, log, hidden=True):
        return {}
    context.lock_relation(log.oid, "access exclusive")
    context.drop_storage(log.storage_id)
    return {log.oid: None, **dict.fromkeys(log.indexes)}
