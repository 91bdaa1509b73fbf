"""Drivers ask the catalogs about types that they do not know, and send and read them in text and in binary."""

from __future__ import annotations

import enum
import subprocess

import asyncpg
import psycopg
import pytest
from psycopg.types import TypeInfo
from psycopg.types.composite import CompositeInfo, register_composite
from psycopg.types.enum import EnumInfo, register_enum
from psycopg.types.hstore import register_hstore

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


def test_psycopg_finds_a_composite_type_and_maps_it_in_both_formats(server: ShoalServer | PostgresServer) -> None:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("DROP TYPE IF EXISTS driver_pair; CREATE TYPE driver_pair AS (n int, t text)")
        info = CompositeInfo.fetch(connection, "driver_pair")
        assert info is not None and list(info.field_names) == ["n", "t"]
        register_composite(info, connection)
        assert info.python_type is not None
        pair = info.python_type(7, 'a "b"')
        for binary in (False, True):
            row = connection.execute("SELECT %s::driver_pair, ARRAY[%s]::driver_pair[]", (pair, pair), binary=binary)
            assert row.fetchone() == (pair, [pair])
        connection.execute("DROP TYPE driver_pair")


def test_hstore_and_citext_travel_in_both_formats_and_survive_a_restart(private_shoal: ShoalServer) -> None:
    def read(connection: psycopg.Connection) -> None:
        info = TypeInfo.fetch(connection, "hstore")
        assert info is not None
        register_hstore(info, connection)
        query = "SELECT h, c, cs::text[] FROM kept WHERE c = %s"
        for binary in (False, True):
            row = connection.execute(query, ("ABC",), binary=binary).fetchone()
            assert row is not None and (row[0], row[2]) == ({"a": "1", "b": None}, ["X", "y"])
            assert row[1] == (b"abc" if binary else "abc")

    with psycopg.connect(private_shoal.dsn, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION hstore; CREATE EXTENSION citext")
        connection.execute("CREATE TABLE kept (c citext PRIMARY KEY, h hstore, cs citext[])")
        with connection.cursor().copy("COPY kept FROM STDIN") as copy:
            copy.write('abc\t"a"=>"1", "b"=>NULL\t{X,y}\n')
        read(connection)
    private_shoal.stop()
    private_shoal.start()
    with psycopg.connect(private_shoal.dsn, autocommit=True) as connection:
        read(connection)
        with pytest.raises(psycopg.errors.UniqueViolation):
            connection.execute("INSERT INTO kept VALUES ('ABC')")


def test_user_types_are_there_after_a_restart(private_shoal: ShoalServer) -> None:
    with psycopg.connect(private_shoal.dsn, autocommit=True) as connection:
        for statement in (
            "CREATE TYPE mood AS ENUM ('sad', 'happy')",
            "CREATE DOMAIN inner_mood AS mood CHECK (value <> 'sad')",
            "CREATE DOMAIN outer_mood AS inner_mood NOT NULL",
            "CREATE TYPE pair AS (m mood, n int)",
            "CREATE TABLE kept (id int PRIMARY KEY, m outer_mood, p pair, ps pair[])",
            "INSERT INTO kept VALUES (1, 'happy', ('sad', 3), ARRAY[('happy', 4)]::pair[])",
            "ALTER TYPE mood RENAME VALUE 'happy' TO 'glad'",
        ):
            connection.execute(statement.encode())
    private_shoal.restart()
    with psycopg.connect(private_shoal.dsn, autocommit=True) as connection:
        for path in ("auto", "columnar"):
            connection.execute(f"SET shoal.path = {path}".encode())
            row = connection.execute("SELECT m::text, p::text, ps::text, array_to_string(ps, ';') FROM kept").fetchone()
            assert row == ("glad", "(sad,3)", '{"(glad,4)"}', "(glad,4)")
        with pytest.raises(psycopg.errors.CheckViolation):
            connection.execute("INSERT INTO kept VALUES (2, 'sad')")


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


def _psql(dsn: str, script: str) -> str:
    found = subprocess.run(["psql", "-qX", dsn], input=script, capture_output=True, text=True, timeout=60, check=True)
    return found.stdout + found.stderr


def test_psql_describes_user_types_as_it_does_on_postgresql(
    shoal: ShoalServer, postgres_server: PostgresServer
) -> None:
    script = """
        CREATE SCHEMA described;
        SET search_path = described;
        CREATE TYPE mood AS ENUM ('sad', 'ok');
        CREATE DOMAIN posint AS int DEFAULT 3 NOT NULL CHECK (value > 0) CHECK (value < 9);
        CREATE TYPE pair AS (a int, b mood, c text[]);
        COMMENT ON TYPE mood IS 'feeling';
        CREATE TABLE t (id posint, m mood, p pair, r int4range);
        \\dT
        \\dT+ mood
        \\dD
        \\d pair
        \\d t
        \\dT pair
        SET client_min_messages = warning;
        DROP SCHEMA described CASCADE;
        """
    assert _psql(shoal.dsn, script) == _psql(postgres_server.dsn, script)
