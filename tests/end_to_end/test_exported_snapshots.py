"""pg_export_snapshot() and SET TRANSACTION SNAPSHOT, on PostgreSQL and on Shoal; pg_dump --jobs reads with them."""

from __future__ import annotations

import pathlib
import subprocess
from collections.abc import Callable, Iterator

import psycopg
import pytest

from tests.oracle import PostgresServer
from tests.server import ShoalServer

Server = ShoalServer | PostgresServer


@pytest.fixture
def connect(server: Server) -> Iterator[Callable[[], psycopg.Connection]]:
    """Makes autocommit connections; the table `seen` has the rows 1 to 3."""
    opened: list[psycopg.Connection] = []

    def made() -> psycopg.Connection:
        opened.append(psycopg.connect(server.dsn, autocommit=True))
        return opened[-1]

    first = made()
    first.execute("DROP TABLE IF EXISTS seen")
    first.execute("CREATE TABLE seen (id int PRIMARY KEY, t text)")
    first.execute("INSERT INTO seen VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    yield made
    for connection in opened:
        connection.close()


def _rows(connection: psycopg.Connection, columnar: bool) -> list[int]:
    if columnar:
        return [row[0] for row in connection.execute("SELECT max(id) FROM seen GROUP BY id ORDER BY 1")]
    return [row[0] for row in connection.execute("SELECT id FROM seen ORDER BY id")]


@pytest.mark.parametrize("columnar", [False, True])
@pytest.mark.parametrize("isolation", ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"])
def test_an_importer_sees_the_exporters_moment(
    connect: Callable[[], psycopg.Connection], isolation: str, columnar: bool
) -> None:
    exporter, importer, writer = connect(), connect(), connect()
    exporter.execute(f"BEGIN ISOLATION LEVEL {isolation}")
    exporter.execute("INSERT INTO seen VALUES (50, 'of the exporter itself')")
    (name,) = exporter.execute("SELECT pg_export_snapshot()").fetchone() or ()
    writer.execute("DELETE FROM seen WHERE id = 1")
    writer.execute("INSERT INTO seen SELECT i, 'late' FROM generate_series(100, 120) i")
    importer.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    importer.execute(f"SET TRANSACTION SNAPSHOT '{name}'")
    exporter.execute("ROLLBACK")
    writer.execute("UPDATE seen SET id = 9 WHERE id = 2")
    assert _rows(importer, columnar) == [1, 2, 3]
    importer.execute("COMMIT")
    assert _rows(importer, columnar)[:2] == [3, 9]


def test_one_snapshot_serves_many(connect: Callable[[], psycopg.Connection]) -> None:
    exporter, writer = connect(), connect()
    exporter.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    (name,) = exporter.execute("SELECT pg_export_snapshot()").fetchone() or ()
    for number in range(4):
        writer.execute("INSERT INTO seen VALUES (%s, 'x')", (10 + number,))
        importer = connect()
        importer.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        importer.execute(f"SET TRANSACTION SNAPSHOT '{name}'")
        assert _rows(importer, number % 2 == 1) == [1, 2, 3]
        importer.execute("COMMIT")
    with pytest.raises(psycopg.errors.SerializationFailure):
        importer = connect()
        writer.execute("UPDATE seen SET t = 'newer' WHERE id = 1")
        importer.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        importer.execute(f"SET TRANSACTION SNAPSHOT '{name}'")
        importer.execute("UPDATE seen SET t = 'mine' WHERE id = 1")


def test_what_is_refused(connect: Callable[[], psycopg.Connection]) -> None:
    exporter, importer = connect(), connect()

    def refused(connection: psycopg.Connection, *statements: str) -> str | None:
        with pytest.raises(psycopg.Error) as error:
            for statement in statements:
                connection.execute(statement)
        connection.execute("ROLLBACK")
        return error.value.sqlstate

    begin = "BEGIN ISOLATION LEVEL REPEATABLE READ"
    assert refused(importer, begin, "SET TRANSACTION SNAPSHOT '00000003-0000001B-1'") == "22023"
    assert refused(importer, begin, "SET TRANSACTION SNAPSHOT 'nonsense'") == "22023"
    assert refused(exporter, begin, "SELECT pg_export_snapshot()", "PREPARE TRANSACTION 'p'") == "0A000"
    assert refused(exporter, begin, "SAVEPOINT s", "SELECT pg_export_snapshot()") == "25001"
    exporter.execute(begin)
    (name,) = exporter.execute("SELECT pg_export_snapshot()").fetchone() or ()
    assert refused(importer, "BEGIN", f"SET TRANSACTION SNAPSHOT '{name}'") == "0A000"
    late = refused(importer, begin, "SELECT count(*) FROM seen", f"SET TRANSACTION SNAPSHOT '{name}'")
    assert late == "25001"
    serializable = "BEGIN ISOLATION LEVEL SERIALIZABLE"
    assert refused(importer, serializable, f"SET TRANSACTION SNAPSHOT '{name}'") == "0A000"
    exporter.execute("COMMIT")
    assert refused(importer, begin, f"SET TRANSACTION SNAPSHOT '{name}'") == "22023"


def test_a_snapshot_is_let_go_with_its_last_holder(shoal: ShoalServer) -> None:
    """History is kept while somebody may read it, and no longer: a checkpoint then merges everything."""
    with psycopg.connect(shoal.dsn, autocommit=True) as exporter, psycopg.connect(shoal.dsn, autocommit=True) as writer:
        writer.execute("DROP TABLE IF EXISTS let_go")
        writer.execute("CREATE TABLE let_go (id int PRIMARY KEY)")
        exporter.execute("BEGIN")
        (name,) = exporter.execute("SELECT pg_export_snapshot()").fetchone() or ()
        writer.execute("INSERT INTO let_go VALUES (1)")
        with psycopg.connect(shoal.dsn, autocommit=True) as importer:
            importer.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
            importer.execute(f"SET TRANSACTION SNAPSHOT '{name}'")
            exporter.close()
            writer.execute("CHECKPOINT")
            assert importer.execute("SELECT * FROM let_go").fetchall() == []
            assert importer.execute("SELECT count(*), max(id) FROM let_go GROUP BY id % 2").fetchall() == []
        writer.execute("CHECKPOINT")
        assert writer.execute("SELECT * FROM let_go").fetchall() == [(1,)]


def test_pg_dump_with_jobs(server: Server, tmp_path: pathlib.Path) -> None:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("DROP DATABASE IF EXISTS in_parts")
        connection.execute("CREATE DATABASE in_parts")
    dsn = server.dsn.replace("dbname=postgres", "dbname=in_parts")
    with psycopg.connect(dsn, autocommit=True) as connection:
        for number in range(3):
            connection.execute(f"CREATE TABLE part_{number} AS SELECT i FROM generate_series(1, 100) i")
    place = tmp_path / "dump"
    found = subprocess.run(
        ["pg_dump", "--format=directory", "--jobs=2", "--file", str(place), dsn],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    assert len(list(place.glob("*.dat.gz"))) == 3
