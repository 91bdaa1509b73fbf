"""Asks PostgreSQL and Shoal's analyser the same question: what does this statement mean?

`load_catalog` reads the tables, views, sequences and indexes of a PostgreSQL database into a `Catalog` with the same
OIDs. `ours` and `theirs` describe a statement as both see it: parameter types, result columns, or the error.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import psycopg
from psycopg import pq

from catalog.catalog import Catalog
from catalog.errors import SqlError
from catalog.schema import Column, Constraint, Index, IndexColumn, Role, Schema, SchemaObject, Table, View
from catalog.schema import Sequence as SequenceObject
from catalog.types.base import TypeRef
from engine.sql import tree
from engine.sql.analyze import Environment, analyze
from engine.sql.parser import parse


@dataclass(frozen=True)
class Meaning:
    """What a statement is taken for. `error` is (SQLSTATE, message, position, hint, detail)."""

    parameters: tuple[int, ...] = ()
    columns: tuple[tuple[str, int, int, int, int], ...] = ()  # name, type, modifier, table, column
    error: tuple[str, str, int | None, str | None, str | None] | None = None


def theirs(connection: psycopg.Connection, sql: str, types: Sequence[int] = ()) -> Meaning:
    """PostgreSQL's view, by Parse and Describe."""
    pgconn = connection.pgconn
    result = pgconn.prepare(b"", sql.encode(), types)
    if result.status != pq.ExecStatus.COMMAND_OK:
        return Meaning(error=_error(result))
    result = pgconn.describe_prepared(b"")
    if result.status != pq.ExecStatus.COMMAND_OK:
        return Meaning(error=_error(result))
    columns = tuple(
        (
            (result.fname(i) or b"").decode(),
            result.ftype(i),
            result.fmod(i),
            result.ftable(i),
            result.ftablecol(i),
        )
        for i in range(result.nfields)
    )
    return Meaning(tuple(result.param_type(i) for i in range(result.nparams)), columns)


def _error(result: pq.abc.PGresult) -> tuple[str, str, int | None, str | None, str | None]:
    def text(field: pq.DiagnosticField) -> str | None:
        value = result.error_field(field)
        return value.decode() if value is not None else None

    position = text(pq.DiagnosticField.STATEMENT_POSITION)
    return (
        text(pq.DiagnosticField.SQLSTATE) or "",
        text(pq.DiagnosticField.MESSAGE_PRIMARY) or "",
        int(position) if position else None,
        text(pq.DiagnosticField.MESSAGE_HINT),
        text(pq.DiagnosticField.MESSAGE_DETAIL),
    )


def ours(environment: Environment, sql: str, types: Sequence[int] = ()) -> Meaning:
    """The analyser's view."""
    try:
        (statement,) = parse(sql)
        analysed = analyze(statement.tree, environment, types)
    except SqlError as error:
        return Meaning(error=(error.sqlstate, error.message, error.position, error.hint, error.detail))
    found = analysed.statement
    targets = found.output if isinstance(found, tree.Query) else found.returning
    columns = tuple(
        (
            target.name,
            target.expression.type.oid,
            target.expression.type.typmod,
            target.origin_table,
            target.origin_column,
        )
        for target in targets
    )
    return Meaning(analysed.parameter_types, columns)


# ---- the catalog ----------------------------------------------------------------------------------------------------


def load_catalog(connection: psycopg.Connection) -> Catalog:
    """The user's objects of a PostgreSQL database, with its OIDs."""
    path = _rows(connection, "SELECT current_setting('search_path'), set_config('search_path', 'pg_catalog', false)")
    try:
        return _load(connection)
    finally:
        connection.execute("SELECT set_config('search_path', %s, false)", (path[0][0],))


def _load(connection: psycopg.Connection) -> Catalog:
    objects: dict[int, SchemaObject | None] = {10: Role(10, "postgres", superuser=True)}
    for oid, name in _rows(connection, "SELECT oid, nspname FROM pg_namespace WHERE nspname !~ '^pg_toast'"):
        objects[oid] = Schema(oid, 5, name)
    relations = _rows(
        connection,
        "SELECT oid, relnamespace, relname, relkind::text, relpersistence::text FROM pg_class "
        "WHERE oid >= 16384 AND relkind IN ('r', 'v', 'S', 'i', 'p') AND relnamespace <> 99 ORDER BY oid",
    )
    columns = _columns(connection)
    indexes = _indexes(connection)
    constraints = _constraints(connection)
    by_table: dict[int, list[int]] = {}
    for index in indexes.values():
        by_table.setdefault(index.table, []).append(index.oid)
    for oid, schema, name, kind, persistence in relations:
        if kind == "i":
            objects[oid] = indexes[oid]
        elif kind == "S":
            objects[oid] = SequenceObject(oid, schema, name, oid)
        elif kind == "v":
            (text,) = _rows(connection, f"SELECT pg_get_viewdef({oid})")[0]
            objects[oid] = View(oid, schema, name, tuple(columns.get(oid, ())), text.rstrip(";"))
        else:
            table_constraints = tuple(constraints.get(oid, ()))
            key = next((item.columns for item in table_constraints if item.kind == "p"), ())
            objects[oid] = Table(
                oid, schema, name, tuple(columns.get(oid, ())), oid, key, (), table_constraints,
                tuple(by_table.get(oid, ())), persistence=persistence,
            )  # fmt: skip
    return Catalog().with_changes(objects)


def _rows(connection: psycopg.Connection, sql: str) -> list[tuple]:  # type: ignore[type-arg]
    return connection.execute(sql).fetchall()  # type: ignore[call-overload, no-any-return]


def _columns(connection: psycopg.Connection) -> dict[int, list[Column]]:
    found: dict[int, list[Column]] = {}
    for table, number, name, oid, typmod, not_null, identity, generated, default, sequence in _rows(
        connection,
        "SELECT attrelid, attnum, attname, atttypid, atttypmod, attnotnull, attidentity::text, attgenerated::text, "
        "pg_get_expr(adbin, adrelid), pg_get_serial_sequence(attrelid::regclass::text, attname)::regclass::oid "
        "FROM pg_attribute JOIN pg_class c ON c.oid = attrelid "
        "LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum "
        "WHERE attrelid >= 16384 AND attnum > 0 AND NOT attisdropped AND relkind IN ('r', 'v', 'p') "
        "AND relnamespace <> 99 ORDER BY attrelid, attnum",
    ):
        found.setdefault(table, []).append(
            Column(
                number,
                name,
                TypeRef(oid, typmod),
                not_null,
                None if generated else default,
                identity.strip(),
                default if generated.strip() else None,
                sequence,
            )
        )
    return found


def _indexes(connection: psycopg.Connection) -> dict[int, Index]:
    found = {}
    for oid, schema, name, table, unique, primary, numbers, expressions, predicate in _rows(
        connection,
        "SELECT c.oid, relnamespace, relname, indrelid, indisunique, indisprimary, indkey::int2[]::int[], "
        "(SELECT array_agg(pg_get_indexdef(c.oid, k, true) ORDER BY k) FROM generate_series(1, indnkeyatts) k), "
        "pg_get_expr(indpred, indrelid) FROM pg_index JOIN pg_class c ON c.oid = indexrelid "
        "WHERE c.oid >= 16384 AND relnamespace <> 99",
    ):
        columns = tuple(
            IndexColumn(number, text if number == 0 else None)
            for number, text in zip(numbers, expressions, strict=False)
        )
        found[oid] = Index(oid, schema, name, table, columns, oid, unique, primary, predicate=predicate)
    return found


def _constraints(connection: psycopg.Connection) -> dict[int, list[Constraint]]:
    found: dict[int, list[Constraint]] = {}
    for oid, table, name, kind, numbers, index, check, deferrable in _rows(
        connection,
        "SELECT oid, conrelid, conname, contype::text, conkey::int[], conindid, pg_get_expr(conbin, conrelid), "
        "condeferrable FROM pg_constraint WHERE conrelid <> 0 AND contype IN ('p', 'u', 'c')",
    ):
        found.setdefault(table, []).append(
            Constraint(oid, name, kind, tuple(numbers or ()), index or None, check, deferrable=deferrable)
        )
    return found


def without_oids(message: str) -> str:
    """A message with what differs between any two servers blotted out."""
    return re.sub(r"\d{5,}", "#", message)
