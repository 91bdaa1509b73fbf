"""`shoal pipeline copy`: tables of PostgreSQL and of another Shoal, rows and definitions; none of them half."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from pyspark.sql import SparkSession

from shoal_spark.jobs import copy_job
from shoal_spark.jobs.copy_job import CopyOptions, run_copy
from shoal_spark.jobs.server_access import find_server
from shoal_spark.jobs.session import spark_session
from shoal_spark.jobs.summary import JobError, Summary
from tests.oracle import PostgresServer
from tests.server import ShoalServer
from tests.spark.test_pipeline_import import NoBars

pytestmark = pytest.mark.long

_TABLES = """
CREATE SCHEMA shop;
CREATE TYPE shop.mood AS ENUM ('glad', 'sad');
CREATE TABLE shop.person (
    id serial PRIMARY KEY, name varchar(20) NOT NULL DEFAULT 'no''body', mood shop.mood, balance numeric,
    price numeric(12, 3) CHECK (price >= 0), born date, seen timestamptz DEFAULT now(), at timestamp, raw bytea,
    tags text[], doc jsonb, u uuid, span interval, x float8, ok bool, doubled int GENERATED ALWAYS AS (id * 2) STORED,
    UNIQUE (name)
);
CREATE INDEX person_born ON shop.person (born);
CREATE TABLE shop.visit (
    id bigint GENERATED ALWAYS AS IDENTITY, person int REFERENCES shop.person, "odd ""name" text,
    part int DEFAULT nowhere.f()
);
INSERT INTO shop.person (name, mood, balance, price, born, seen, at, raw, tags, doc, u, span, x, ok)
SELECT 'näme ' || i, (ARRAY['glad', 'sad', NULL])[1 + i % 3]::shop.mood, i * 1.10000000000000000000001::numeric,
    i / 8.0, date '2024-02-29' - i, timestamptz '2024-01-01 00:00:00.123456+02' + i * interval '1 hour',
    timestamp '1999-12-31 23:59:59' + i * interval '1 day', decode('00ff', 'hex'), ARRAY['a,b', NULL, i::text],
    jsonb_build_object('i', i, 's', '"'), md5(i::text)::uuid, i * interval '1 mon 2 days', i / 3.0::float8, i % 2 = 0
FROM generate_series(1, 3000) i;
INSERT INTO shop.person (name) VALUES ('');
INSERT INTO shop.visit (person, "odd ""name") SELECT i, repeat('x', i) FROM generate_series(1, 500) i;
"""
_ROWS = "SELECT * FROM shop.person ORDER BY id"


def _prepare(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS shop CASCADE")
        connection.execute("DROP SCHEMA IF EXISTS nowhere CASCADE")
        connection.execute("CREATE SCHEMA nowhere")
        connection.execute("CREATE FUNCTION nowhere.f() RETURNS int LANGUAGE sql RETURN 7")
        connection.execute(_TABLES)


def _rows(dsn: str, query: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(dsn, options="-c timezone=UTC") as connection:
        return connection.execute(query).fetchall()


def _copy(source: str, target: str, **wanted: Any) -> Summary:
    with spark_session("") as spark:
        return run_copy(spark, find_server(source), find_server(target), CopyOptions(**wanted), NoBars())


@pytest.mark.parametrize("kind", ["postgres", "shoal"])
def test_a_schema_with_all_that_belongs_to_it(
    kind: str,
    request: pytest.FixtureRequest,
    spark: SparkSession,
    private_shoal: ShoalServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server: ShoalServer | PostgresServer = request.getfixturevalue("shoal" if kind == "shoal" else "postgres_server")
    _prepare(server.dsn)
    source, target = server.dsn, private_shoal.dsn
    monkeypatch.setattr(copy_job, "PART_PAGES", 10)
    real, calls = copy_job._Copy._write, []

    def broken(self: Any, frame: Any, table: Any) -> int:
        calls.append(table.table)
        if len(calls) == 2:
            raise JobError("broken off")
        return real(self, frame, table)

    with monkeypatch.context() as patch:
        patch.setattr(copy_job._Copy, "_write", broken)
        with pytest.raises(JobError, match="broken off"):
            _copy(source, target, schema="shop", resume=True)
    assert _rows(target, "SELECT count(*) FROM shop.person") == [(3001,)]
    assert _rows(target, "SELECT to_regclass('shop.visit')") == [(None,)]
    summary = _copy(source, target, schema="shop", resume=True)
    assert (summary.rows, summary.more["tables_done_before"]) == (500, 1)
    assert "nowhere.f()" in str(summary.more["left_out"]) and "person_born" not in str(summary.more["left_out"])
    assert _rows(target, _ROWS) == _rows(source, _ROWS)
    visits = 'SELECT id, person, "odd ""name" FROM shop.visit ORDER BY id'
    assert _rows(target, visits) == _rows(source, visits)
    with psycopg.connect(target, autocommit=True) as connection:
        assert connection.execute("INSERT INTO shop.person DEFAULT VALUES RETURNING id, name").fetchone() == (
            3002, "no'body",
        )  # fmt: skip
        for statement, error in (
            ("INSERT INTO shop.person (name) VALUES ('')", psycopg.errors.UniqueViolation),
            ("INSERT INTO shop.person (name, price) VALUES ('p', -1)", psycopg.errors.CheckViolation),
            ("INSERT INTO shop.person (name) VALUES (NULL)", psycopg.errors.NotNullViolation),
            ("INSERT INTO shop.visit (person) VALUES (99999)", psycopg.errors.ForeignKeyViolation),
        ):
            with pytest.raises(error):
                connection.execute(statement)
        found = connection.execute("SELECT indexname FROM pg_indexes WHERE schemaname = 'shop' ORDER BY 1").fetchall()
        assert ("person_born",) in found
    with pytest.raises(JobError, match=r"shop.* already exists: choose a --mode"):
        _copy(source, target, table="shop.person")
    assert _copy(source, target, table="shop.person", mode="upsert").rows == 3001
    with psycopg.connect(source, autocommit=True) as connection:
        connection.execute("UPDATE shop.person SET at = 'infinity' WHERE id = 5")
    if kind == "postgres":
        with pytest.raises(JobError, match="infinite value in column at"):
            _copy(source, target, table="shop.person", mode="upsert")
