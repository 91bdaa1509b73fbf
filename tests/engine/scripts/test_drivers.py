"""Drivers ask the catalogs about types that they do not know, and send and read them in text and in binary."""

from __future__ import annotations

import enum

import asyncpg
import psycopg
from psycopg.types.enum import EnumInfo, register_enum

from tests.oracle import PostgresServer
from tests.server import ShoalServer


class Mood(enum.Enum):
    sad = "sad"
    happy = "happy"


def test_psycopg_finds_an_enum_and_maps_it_in_both_formats(server: ShoalServer | PostgresServer) -> None:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("DROP TYPE IF EXISTS driver_mood; CREATE TYPE driver_mood AS ENUM ('sad', 'happy')")
        info = EnumInfo.fetch(connection, "driver_mood")
        assert info is not None and list(info.labels) == ["sad", "happy"]
        register_enum(info, connection, Mood)
        for binary in (False, True):
            query = "SELECT %s::driver_mood, ARRAY['sad', 'happy']::driver_mood[]"
            row = connection.execute(query, (Mood.happy,), binary=binary).fetchone()
            assert row == (Mood.happy, [Mood.sad, Mood.happy])
        connection.execute("DROP TYPE driver_mood")


async def _with_asyncpg(dsn: str) -> list[object]:
    words = dict(word.split("=") for word in dsn.split())
    connection = await asyncpg.connect(
        host=words["host"], port=int(words["port"]), user=words["user"], database=words["dbname"]
    )
    try:
        await connection.execute("CREATE TYPE async_mood AS ENUM ('sad', 'happy')")
        await connection.execute("CREATE DOMAIN async_count AS int CHECK (value > 0)")
        await connection.execute("CREATE TABLE async_rows (m async_mood, ms async_mood[], c async_count)")
        await connection.execute("INSERT INTO async_rows VALUES ($1, $2, $3)", "happy", ["sad", "happy"], 3)
        return [tuple(row) for row in await connection.fetch("SELECT * FROM async_rows")]
    finally:
        await connection.execute("DROP TABLE IF EXISTS async_rows")
        await connection.execute("DROP TYPE async_mood; DROP DOMAIN async_count")
        await connection.close()


def test_asyncpg_introspects_enums_their_arrays_and_domains(server: ShoalServer | PostgresServer) -> None:
    import asyncio

    assert asyncio.run(_with_asyncpg(server.dsn)) == [("happy", ["sad", "happy"], 3)]
