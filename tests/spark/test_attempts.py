"""Attempts of one task that race, as under speculation: both hand their rows in, the one that Spark chooses counts."""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterator
from dataclasses import dataclass

import psycopg
import pyarrow as pa
import pytest
from pyspark.sql import types as t

from shoal_spark import stream_writer, writer
from shoal_spark.options import read_options
from shoal_spark.stream_writer import QUERY_ID, ShoalStreamWriter
from shoal_spark.writer import ShoalWriter, WriteMessage
from tests.server import ShoalServer

pytestmark = pytest.mark.long

SCHEMA = t.StructType([t.StructField("id", t.LongType())])


@dataclass
class Context:
    """What a writer asks of pyspark.TaskContext."""

    partition: int
    attempt: int

    def partitionId(self) -> int:  # noqa: N802
        return self.partition

    def taskAttemptId(self) -> int:  # noqa: N802
        return self.attempt

    def getLocalProperty(self, name: str) -> str:  # noqa: N802
        assert name == QUERY_ID
        return "a-query"


class Attempts:
    """Runs attempts, each in a thread of its own; they see a context of theirs."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._here = threading.local()
        for module in (writer, stream_writer):
            monkeypatch.setattr(module, "TaskContext", self)

    def get(self) -> Context:
        found: Context = self._here.context
        return found

    def run(self, writer: ShoalWriter, places: list[tuple[int, int]]) -> list[WriteMessage]:
        """(partition, attempt): all at once; each is half-way when the others begin."""
        together = threading.Barrier(len(places))
        found: dict[tuple[int, int], WriteMessage] = {}

        def rows(partition: int) -> Iterator[pa.RecordBatch]:
            for half in range(2):
                first = partition * 1000 + half * 500
                yield pa.RecordBatch.from_pydict({"id": list(range(first, first + 500))})
                together.wait(30)

        def attempt(place: tuple[int, int]) -> None:
            self._here.context = Context(*place)
            found[place] = copy.copy(writer).write(rows(place[0]))  # each task has a copy

        threads = [threading.Thread(target=attempt, args=(place,)) for place in places]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        return [found[place] for place in places]


@pytest.fixture
def attempts(monkeypatch: pytest.MonkeyPatch) -> Attempts:
    return Attempts(monkeypatch)


def counted(shoal: ShoalServer, table: str) -> tuple[int, int]:
    with psycopg.connect(shoal.dsn, autocommit=True) as connection:
        row = connection.execute(f"SELECT count(*), count(DISTINCT id) FROM {table}".encode()).fetchone()
    assert row is not None
    return row[0], row[1]


def test_of_attempts_that_race_the_chosen_ones_are_written(shoal: ShoalServer, attempts: Attempts) -> None:
    options = read_options({"url": f"postgresql://postgres@127.0.0.1:{shoal.port}/postgres", "dbtable": "raced"})
    with psycopg.connect(shoal.dsn, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS raced")
    writer = ShoalWriter(options, SCHEMA, overwrite=False)
    first, again, other = attempts.run(writer, [(0, 10), (0, 12), (1, 11)])
    assert first.part != again.part
    writer.commit([again, other])
    assert counted(shoal, "raced") == (2000, 2000)
    with psycopg.connect(shoal.dsn, autocommit=True) as connection, pytest.raises(psycopg.errors.UndefinedObject):
        connection.execute(f"COPY raced FROM 'stage:{writer._stage}/{first.part}' (FORMAT arrow)".encode())


def test_a_batch_of_a_stream_takes_the_chosen_attempts_once(shoal: ShoalServer, attempts: Attempts) -> None:
    options = read_options({"url": f"postgresql://postgres@127.0.0.1:{shoal.port}/postgres", "dbtable": "raced_batch"})
    with psycopg.connect(shoal.dsn, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS raced_batch")
        connection.execute("DROP TABLE IF EXISTS shoal_spark_batches")
    writer = ShoalStreamWriter(options, SCHEMA, overwrite=False)
    first, again, other = attempts.run(writer, [(0, 10), (0, 12), (1, 11)])
    writer.commit([first, other], 7)
    assert counted(shoal, "raced_batch") == (2000, 2000)
    repeated = attempts.run(writer, [(0, 20), (1, 21)])
    writer.commit(list(repeated), 7)  # Spark did not hear of the first commit
    assert counted(shoal, "raced_batch") == (2000, 2000)
    with psycopg.connect(shoal.dsn, autocommit=True) as connection:
        connection.execute("SELECT shoal_drop_stage(%s)", (again.stage,))  # type: ignore[attr-defined]
