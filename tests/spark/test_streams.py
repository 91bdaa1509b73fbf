"""Streams of the data source `shoal`: nothing is missed and nothing comes twice, over stops, faults and repeats."""

from __future__ import annotations

import itertools
import json
import pathlib
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from psycopg import conninfo
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from bench.measures import environment
from shoal_spark import ShoalDataSource
from tests.server import ShoalServer

WAIT = 90.0
SINK = (
    "CREATE TABLE sink (lsn bigint, tx bigint, ordinal int, commit_time timestamptz, schema_version bigint, op text, "
    '"table" text, key text, before text, after text)'
)


_names = itertools.count()


class Database:
    """A database for one test, with what Spark needs of it."""

    def __init__(self, server: ShoalServer, spark: SparkSession, folder: pathlib.Path) -> None:
        self.server = server
        self.spark = spark
        self.folder = folder
        self.name = f"streams_{next(_names)}"
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {self.name}")
        dsn = conninfo.make_conninfo(server.dsn, dbname=self.name)
        self.connection: psycopg.Connection[Any] = psycopg.connect(dsn, autocommit=True)
        self.url = f"postgresql://postgres:secret-word@127.0.0.1:{server.port}/{self.name}"

    def run(self, *statements: str) -> None:
        for statement in statements:
            self.connection.execute(statement.encode())

    def one(self, query: str) -> Any:
        row = self.connection.execute(query.encode()).fetchone()
        assert row is not None
        return row[0] if len(row) == 1 else row

    def changes(self, **options: object) -> DataFrame:
        reader = self.spark.readStream.format("shoal").option("url", self.url).option("stream", "s")
        for name, value in options.items():
            reader = reader.option(name, str(value))
        return reader.load()

    def into(self, frame: DataFrame, table: str, mode: str = "append", **options: object) -> StreamingQuery:
        writer = frame.writeStream.format("shoal").option("url", self.url).option("dbtable", table).outputMode(mode)
        for name, value in {"checkpointLocation": self.folder / f"to-{table}", **options}.items():
            writer = writer.option(name, str(value))
        return writer.start()

    def until(self, condition: Callable[[], object], query: StreamingQuery | None = None) -> None:
        deadline = time.monotonic() + WAIT
        while not condition():
            if query is not None and query.exception() is not None:
                raise AssertionError(str(query.exception()))
            assert time.monotonic() < deadline
            time.sleep(0.05)


@pytest.fixture
def database(shoal: ShoalServer, spark: SparkSession, tmp_path: pathlib.Path) -> Iterator[Database]:
    spark.dataSource.register(ShoalDataSource)
    found = Database(shoal, spark, tmp_path)
    yield found
    for query in spark.streams.active:
        query.stop()
    found.connection.close()
    with psycopg.connect(shoal.dsn, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {found.name} WITH (FORCE)")


@pytest.mark.long
def test_a_stream_that_is_stopped_and_resumed_misses_and_repeats_nothing_while_pgbench_runs(database: Database) -> None:
    variables = {**environment(database.server), "PGDATABASE": database.name}
    subprocess.run(["pgbench", "-i", "-q", "-s", "1"], env=variables, check=True, capture_output=True)
    tables = "pgbench_accounts, pgbench_branches, pgbench_tellers, pgbench_history"
    database.run(SINK, f"CREATE CHANGE STREAM s FOR TABLE {tables}")
    words = ["pgbench", "-n", "-c", "4", "-T", "12", "-R", "100"]
    load = subprocess.Popen(words, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    seen = 0
    for _ in range(3):
        query = database.into(database.changes(maxRowsPerBatch=400, advance="false"), "sink")
        database.until(lambda known=seen: database.one("SELECT count(*) FROM sink") > known + 300, query)
        query.stop()  # in the middle of whatever it does
        seen = database.one("SELECT count(*) FROM sink")
    database.run("UPDATE pgbench_branches SET bbalance = bbalance")  # where the load has ended by then
    out, _ = load.communicate(timeout=120)
    assert load.returncode == 0, out
    query = database.into(database.changes(maxRowsPerBatch=2000, rowsPerPartition=500, advance="false"), "sink")
    query.processAllAvailable()
    query.stop()
    expected = (
        "SELECT lsn, ordinal, op, \"table\", key::text, before::text, after::text FROM shoal_changes('s', 0, 1000000)"
    )
    found = 'SELECT lsn, ordinal, op, "table", key, before, after FROM sink ORDER BY lsn, ordinal'
    everything = database.connection.execute(expected.encode()).fetchall()
    assert database.connection.execute(found.encode()).fetchall() == everything
    assert len(everything) > 2000 and seen < len(everything)


def test_rows_are_changes_and_a_commit_moves_the_position(database: Database) -> None:
    database.run("CREATE TABLE t (id int PRIMARY KEY, v text)", "CREATE CHANGE STREAM s FOR TABLE t")
    database.run("INSERT INTO t VALUES (1, 'a')", "UPDATE t SET v = 'b'", SINK)
    query = database.into(database.changes(), "sink")
    query.processAllAvailable()
    rows = database.connection.execute("SELECT op, key, before, after FROM sink ORDER BY lsn").fetchall()
    assert [(op, *(None if text is None else json.loads(text) for text in rest)) for op, *rest in rows] == [
        ("c", {"id": 1}, None, {"id": 1, "v": "a"}),
        ("u", {"id": 1}, {"id": 1, "v": "a"}, {"id": 1, "v": "b"}),
    ]
    assert database.one("SELECT bool_and(commit_time > now() - interval '1 hour') FROM sink")
    database.run("DELETE FROM t")
    query.processAllAvailable()
    database.run("INSERT INTO t VALUES (2, 'c')")  # the commit of a batch is told with the next one
    query.processAllAvailable()
    query.stop()
    assert database.one("SELECT count(*) FROM sink") == 4
    assert database.one("SELECT position >= (SELECT max(lsn) FROM sink WHERE op = 'd') FROM shoal_change_streams")


def test_a_batch_that_is_repeated_is_written_once(database: Database) -> None:
    """Spark forgets that a batch was committed, as when it dies in between: it gives the batch again."""
    database.run("CREATE TABLE t (id int PRIMARY KEY)", "CREATE CHANGE STREAM s FOR TABLE t", SINK)
    database.run("INSERT INTO t SELECT g FROM generate_series(1, 100) g")
    query = database.into(database.changes(advance="false"), "sink")
    query.processAllAvailable()
    query.stop()
    commits = sorted((database.folder / "to-sink" / "commits").glob("[0-9]*"))
    assert commits
    for path in commits:
        path.unlink()
        (path.parent / f".{path.name}.crc").unlink(missing_ok=True)
    query = database.into(database.changes(advance="false"), "sink")
    query.processAllAvailable()
    database.run("INSERT INTO t VALUES (1000)")
    query.processAllAvailable()
    query.stop()
    assert database.one("SELECT count(*), count(DISTINCT (lsn, ordinal)) FROM sink") == (101, 101)
    # Without what the server remembers it would be there twice.
    for path in (database.folder / "to-sink" / "commits").glob("*"):
        path.unlink()
    database.run("DELETE FROM shoal_spark_batches")
    query = database.into(database.changes(advance="false"), "sink")
    query.processAllAvailable()
    query.stop()
    assert database.one("SELECT count(*) > 101 FROM sink")


def test_tasks_that_fail_and_run_again_write_their_rows_once(database: Database) -> None:
    database.run("CREATE TABLE t (id int PRIMARY KEY)", "CREATE CHANGE STREAM s FOR TABLE t", SINK)
    database.run("INSERT INTO t SELECT g FROM generate_series(1, 50) g")
    marker = str(database.folder / "failed")

    @f.udf("string")
    def fails_once(op: str) -> str:
        path = pathlib.Path(marker)
        if not path.exists():
            path.touch()
            raise RuntimeError("a task that fails")
        return op

    frame = database.changes(advance="false").withColumn("op", fails_once("op"))
    query = database.into(frame, "sink")
    query.processAllAvailable()
    query.stop()
    assert pathlib.Path(marker).exists()
    assert database.one("SELECT count(*), count(DISTINCT ordinal) FROM sink") == (50, 50)


def test_upserts_keep_a_table_like_the_one_that_is_followed(database: Database) -> None:
    database.run(
        "CREATE TABLE t (id int PRIMARY KEY, v int)", "CREATE CHANGE STREAM s FOR TABLE t",
        "CREATE TABLE copied (id int PRIMARY KEY, v int)",
    )  # fmt: skip
    after = f.from_json("after", "id int, v int")
    frame = database.changes().select("lsn", "ordinal", after.alias("r")).where("r IS NOT NULL")
    query = database.into(frame.select("r.id", "r.v"), "copied", writeMode="upsert")
    for number in range(5):
        database.run(
            f"INSERT INTO t SELECT g, {number} FROM generate_series({number}, {number + 10}) g "
            "ON CONFLICT (id) DO UPDATE SET v = excluded.v"
        )
        query.processAllAvailable()
    query.stop()
    assert database.one("SELECT count(*) FROM (TABLE t EXCEPT TABLE copied) x") == 0
    assert database.one("SELECT count(*) FROM copied") == database.one("SELECT count(*) FROM t")


def test_a_stream_that_was_retired_says_so_and_how_to_restart(database: Database) -> None:
    database.run("CREATE TABLE t (id int PRIMARY KEY)", "CREATE CHANGE STREAM s FOR TABLE t", SINK)
    for number in range(5):
        database.run(f"INSERT INTO t VALUES ({number})")
    database.run("SELECT shoal_change_stream_advance('s', (SELECT max(lsn) FROM shoal_changes('s')))")
    database.until(lambda: database.one("SELECT oldest_lsn = position FROM shoal_change_streams"))
    query = database.into(database.changes(startingLsn=1), "sink")
    with pytest.raises(StreamingQueryException) as caught:
        query.processAllAvailable()
    message = str(caught.value)
    assert 'change stream "s" no longer has the changes after LSN' in message
    assert 'a new "checkpointLocation" with the option "startingLsn"' in message
    assert "secret-word" not in message


def test_options_that_are_wrong_are_named(database: Database) -> None:
    database.run(SINK)
    for options, expected in (
        ({}, 'there is no change stream "s"'),
        ({"maxRowsPerBatch": "many"}, '"maxrowsperbatch" is a whole number'),
        ({"nothing": "1"}, 'unknown option "nothing"'),
    ):
        with pytest.raises(PySparkException, match=expected):
            database.into(
                database.changes(**options), "sink", checkpointLocation=database.folder / "w"
            ).processAllAvailable()
