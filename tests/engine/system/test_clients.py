"""What drivers and object mappers learn of a schema: the same from Shoal as from PostgreSQL."""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg
import psycopg
import sqlalchemy
from psycopg.types import TypeInfo
from psycopg.types.composite import CompositeInfo
from psycopg.types.range import RangeInfo


def _url(dsn: str) -> str:
    parts = dict(part.split("=") for part in dsn.split())
    return f"postgresql+psycopg://{parts['user']}@{parts['host']}:{parts['port']}/{parts['dbname']}"


def _reflected(dsn: str) -> dict[str, Any]:
    engine = sqlalchemy.create_engine(_url(dsn))
    inspector: Any = sqlalchemy.inspect(engine)
    found: dict[str, Any] = {"schemas": inspector.get_schema_names(), "enums": inspector.get_enums()}
    for schema in ("public", "app"):
        tables = sorted(inspector.get_table_names(schema))
        found[schema] = (tables, sorted(inspector.get_view_names(schema)), sorted(inspector.get_sequence_names(schema)))
        for view in inspector.get_view_names(schema):
            found[f"{schema}.{view}"] = inspector.get_view_definition(view, schema)
        for table in tables:
            columns = [{**column, "type": repr(column["type"])} for column in inspector.get_columns(table, schema)]
            found[f"{schema}.{table}"] = (
                columns,
                inspector.get_pk_constraint(table, schema),
                inspector.get_foreign_keys(table, schema),
                inspector.get_indexes(table, schema),
                inspector.get_unique_constraints(table, schema),
                inspector.get_check_constraints(table, schema),
                inspector.get_table_comment(table, schema),
            )
    metadata = sqlalchemy.MetaData()
    metadata.reflect(engine, "public")
    found["reflected"] = sorted(metadata.tables)
    engine.dispose()
    return found


def test_sqlalchemy_reflects_the_same(described: tuple[str, str]) -> None:
    ours, theirs = (_reflected(dsn) for dsn in described)
    for key, value in theirs.items():
        assert ours[key] == value, key


def test_psycopg_finds_types(described: tuple[str, str]) -> None:
    with psycopg.connect(described[0]) as connection:
        for name, oid, array in (("int4", 23, 1007), ("text", 25, 1009), ("timestamptz", 1184, 1185)):
            found = TypeInfo.fetch(connection, name)
            assert found is not None
            assert (found.oid, found.array_oid) == (oid, array)
        row = CompositeInfo.fetch(connection, "app.item")
        assert row is not None
        assert (row.field_names, row.field_types) == (("a", "b", "Mixed Case", "select"), (23, 23, 25, 23))
        span = RangeInfo.fetch(connection, "int4range")
        assert span is not None
        assert (span.oid, span.subtype_oid) == (3904, 23)
        assert TypeInfo.fetch(connection, "nosuch") is None


def test_asyncpg_introspects_types(described: tuple[str, str]) -> None:
    from asyncpg.introspection import INTRO_LOOKUP_TYPES

    async def look(dsn: str) -> list[tuple[object, ...]]:
        parts = dict(part.split("=") for part in dsn.split())
        connection = await asyncpg.connect(
            host=parts["host"], port=int(parts["port"]), user="postgres", database=parts["dbname"]
        )
        rows = await connection.fetch(INTRO_LOOKUP_TYPES, [23, 1009, 1700, 3904, 16])
        assert await connection.fetchval("SELECT $1::regclass::text", "customer") == "customer"
        await connection.close()
        return sorted((tuple(row) for row in rows), key=str)

    assert asyncio.run(look(described[0])) == asyncio.run(look(described[1]))
