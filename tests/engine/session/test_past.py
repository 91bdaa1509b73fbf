"""AS OF and SET as_of: every moment that memory keeps reads as it was recorded then, on both paths."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.server import ShoalServer

QUERIES = (
    "SELECT * FROM t{of} WHERE id = 3",
    "SELECT count(*), sum(n), min(v) FROM t{of}",
    "SELECT v, count(*) FROM t{of} x GROUP BY v ORDER BY v, 2 LIMIT 5",
    "SELECT a.id, b.v FROM t{of} a JOIN t{of} b ON b.id = a.n WHERE a.id < 40 ORDER BY a.id",
    "WITH few AS (SELECT id FROM t{of} WHERE id < 9) SELECT * FROM few ORDER BY id",
)


class Remembering(ShoalServer):
    """Keeps minutes in memory."""

    def command(self) -> list[str]:
        config = self.data.parent / "shoal.toml"
        config.write_text("past_window = 300.0\n")
        return [*super().command(), "--config", str(config)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShoalServer]:
    with Remembering(tmp_path_factory.mktemp("past") / "data") as found:
        yield found


@pytest.fixture
def connection(server: ShoalServer) -> Iterator[psycopg.Connection]:
    with psycopg.connect(server.dsn, autocommit=True) as found:
        yield found


@pytest.fixture
def table(connection: psycopg.Connection) -> Iterator[None]:
    connection.execute("CREATE TABLE t (id int PRIMARY KEY, n int, v text)")
    connection.execute("INSERT INTO t SELECT i, i % 50, 'v' || i % 7 FROM generate_series(1, 3000) i")
    yield
    connection.execute("RESET as_of")
    connection.execute("DROP TABLE IF EXISTS t")


def lsn(connection: psycopg.Connection) -> int:
    row = connection.execute("SELECT pg_current_wal_lsn() - '0/0'").fetchone()
    assert row is not None
    return int(row[0])


def answers(connection: psycopg.Connection, of: str = "") -> list[Any]:
    found: list[Any] = []
    for path in ("auto", "columnar"):
        connection.execute(f"SET shoal.path = {path}")
        found += [connection.execute(query.format(of=of)).fetchall() for query in QUERIES]
    connection.execute("RESET shoal.path")
    return found


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize("steps", [7, pytest.param(12, marks=pytest.mark.long)])
def test_every_moment_reads_as_it_did(server: ShoalServer, connection: psycopg.Connection, steps: int) -> None:
    chance = random.Random(4)
    recorded: dict[int, Any] = {}
    times: dict[Any, int] = {}
    for step in range(steps):
        change = chance.choice([
            f"UPDATE t SET v = 'u{step}', n = n + 1 WHERE id % 100 = {chance.randrange(100)}",
            f"DELETE FROM t WHERE id % 97 = {chance.randrange(97)}",
            f"INSERT INTO t SELECT i, 3, 'new' FROM generate_series({5000 + step * 10}, {5004 + step * 10}) i",
            f"UPDATE t SET v = 'all {step}'",
        ])  # fmt: skip
        connection.execute(change)
        recorded[lsn(connection)] = answers(connection)
        row = connection.execute("SELECT clock_timestamp()").fetchone()
        assert row is not None
        times[row[0]] = max(recorded)
        if step % 4 == 1:
            connection.execute("CHECKPOINT")  # what was in the memtable is in LMDB
    for at, expected in recorded.items():
        assert answers(connection, f" AS OF LSN {at}") == expected, at
    for moment, at in times.items():
        assert answers(connection, f" AS OF TIMESTAMP '{moment}'") == recorded[at], at
    for level in ("READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"):
        at = chance.choice(list(recorded))
        connection.execute(f"SET as_of = '{at}'")
        connection.execute(f"BEGIN ISOLATION LEVEL {level}")
        assert answers(connection) == recorded[at]
        connection.execute("COMMIT")
        connection.execute("RESET as_of")
    with psycopg.connect(server.dsn, autocommit=True) as other:
        for at, expected in recorded.items():
            other.execute(f"SET as_of = 'lsn {at}'")
            assert answers(other) == expected, at
        other.execute("RESET as_of")
        assert answers(other) == recorded[max(recorded)]


@pytest.mark.usefixtures("table")
def test_the_schema_is_the_one_of_the_moment(connection: psycopg.Connection) -> None:
    before = lsn(connection)
    expected = answers(connection)
    connection.execute("ALTER TABLE t ADD COLUMN later int DEFAULT 7")
    added = lsn(connection)
    connection.execute("CREATE VIEW seen AS SELECT id FROM t")
    assert answers(connection, f" AS OF LSN {before}") == expected
    assert len(connection.execute(f"SELECT * FROM t AS OF LSN {added} LIMIT 1").fetchone() or ()) == 4
    with pytest.raises(psycopg.errors.UndefinedTable):
        connection.execute(f"SELECT * FROM seen AS OF LSN {added}")
    connection.execute("DROP VIEW seen")
    connection.execute("DROP TABLE t")
    assert connection.execute(f"SELECT n FROM t AS OF LSN {before} WHERE id = 77").fetchall() == [(27,)]
    with pytest.raises(psycopg.Error) as error:
        connection.execute(f"SELECT sum(n) FROM t AS OF LSN {before}")
    assert error.value.sqlstate == "72000"


@pytest.mark.usefixtures("table")
def test_nothing_can_be_written_in_the_past(connection: psycopg.Connection) -> None:
    connection.execute("CREATE SEQUENCE counter")
    connection.execute(f"SET as_of = '{lsn(connection)}'")
    for statement in (
        "INSERT INTO t VALUES (0)", "UPDATE t SET n = 0", "DELETE FROM t WHERE id = 1", "TRUNCATE t",
        "CREATE TABLE u (a int)", "CREATE TEMP TABLE u (a int)", "DROP TABLE t", "SELECT nextval('counter')",
        "SELECT * FROM t FOR UPDATE", "CREATE ROLE nobody", "ALTER TABLE t ADD COLUMN w int", "COPY t FROM STDIN",
    ):  # fmt: skip
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            connection.execute(statement)
    for statement in (
        "BEGIN READ WRITE",
        "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE; INSERT INTO t VALUES (0)",
    ):
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            connection.execute(statement)
        connection.execute("ROLLBACK")
    connection.execute("RESET as_of")
    assert connection.execute("SELECT count(*), count(n) FROM t").fetchall() == [(3000, 3000)]
    connection.execute("DROP SEQUENCE counter")


@pytest.mark.usefixtures("table")
def test_moments_may_be_parameters_and_expressions(connection: psycopg.Connection) -> None:
    at = lsn(connection)
    row = connection.execute("SELECT clock_timestamp()").fetchone()
    assert row is not None
    connection.execute("DELETE FROM t WHERE id = 5")
    for moment, value in (("LSN %s", at), ("TIMESTAMP %s", row[0])):
        query = f"SELECT id FROM t AS OF {moment} WHERE id = %s"
        assert connection.execute(query, (value, 5)).fetchall() == [(5,)]
        assert connection.execute(query, (value, 5), prepare=True, binary=True).fetchall() == [(5,)]
    assert connection.execute("SELECT id FROM t AS OF LSN pg_current_wal_lsn() WHERE id = 5").fetchall() == []
    assert connection.execute(f"SELECT id FROM t AS OF LSN '0/{at:X}' WHERE id = 5").fetchall() == [(5,)]
    query = "SELECT count(*) FROM t AS OF TIMESTAMP now() - interval '1 h'"
    with pytest.raises(psycopg.Error, match="no longer kept"):
        connection.execute(query)
    out = f"COPY (SELECT id FROM t AS OF LSN {at} WHERE id < 7) TO STDOUT"
    with connection.cursor() as cursor, cursor.copy(out) as copy:
        assert b"".join(copy) == b"1\n2\n3\n4\n5\n6\n"
    with connection.transaction(), connection.cursor() as cursor:
        cursor.execute("DELETE FROM t WHERE id = 6")
        cursor.execute(f"SELECT id FROM t AS OF LSN {at} WHERE id IN (5, 6) ORDER BY id")
        assert cursor.fetchall() == [(5,), (6,)]


def test_the_time_before_the_first_commit_since_the_start_is_known(private_shoal: ShoalServer) -> None:
    with psycopg.connect(private_shoal.dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE t (id int PRIMARY KEY)")
    private_shoal.restart()
    with psycopg.connect(private_shoal.dsn, autocommit=True) as connection:
        row = connection.execute("SELECT clock_timestamp(), pg_current_wal_lsn() - '0/0'").fetchone()
        assert row is not None
        connection.execute("INSERT INTO t VALUES (1)")
        assert connection.execute(f"SELECT * FROM t AS OF TIMESTAMP '{row[0]}'").fetchall() == []
        assert connection.execute("SELECT shoal_lsn_at(%s)", row[:1]).fetchone() == (row[1],)


@pytest.mark.usefixtures("table")
def test_times_and_lsns_are_found_from_each_other(connection: psycopg.Connection) -> None:
    at = lsn(connection)
    row = connection.execute("SELECT clock_timestamp(), shoal_time_of(%s)", (at,)).fetchone()
    assert row is not None and row[1] <= row[0]
    connection.execute("DELETE FROM t")
    for moment in row:
        assert connection.execute("SELECT shoal_lsn_at(%s)", (moment,)).fetchone() == (at,)
    with pytest.raises(psycopg.Error, match="there is no LSN 999999"):
        connection.execute("SELECT shoal_time_of(999999)")


@pytest.mark.usefixtures("table")
def test_an_invalid_moment_is_a_one_line_error(connection: psycopg.Connection) -> None:
    for moment, sqlstate, text in (
        ("LSN 99999999", "22023", "there is no LSN 99999999"),
        ("LSN 1 + NULL", "22004", "must not be null"),
        ("TIMESTAMP '2001-01-01'", "72000", "no longer kept"),
        ("TIMESTAMP '2101-01-01'", "22023", "the future"),
        ("TIMESTAMP 'soon'", "22007", "invalid input syntax"),
    ):
        with pytest.raises(psycopg.Error, match=text) as error:
            connection.execute(f"SELECT * FROM t AS OF {moment}")
        assert error.value.sqlstate == sqlstate
    at = lsn(connection)
    for statement in (
        f"SELECT * FROM t AS OF LSN {at} a, t b",
        f"SELECT * FROM t AS OF LSN {at} a, t AS OF LSN {at - 1} b",
        f"INSERT INTO t SELECT id + 10000 FROM t AS OF LSN {at}",
        f"CREATE TABLE u AS SELECT * FROM t AS OF LSN {at}",
        f"CREATE VIEW w AS SELECT * FROM t AS OF LSN {at}",
    ):
        with pytest.raises(psycopg.errors.FeatureNotSupported):
            connection.execute(statement)
    with connection.transaction(), pytest.raises(psycopg.errors.ActiveSqlTransaction), connection.transaction():
        connection.execute(f"SET as_of = '{at}'")
    assert connection.execute("SELECT 1 FROM t AS of WHERE of.id = 1").fetchall() == [(1,)]


@pytest.mark.usefixtures("table")
def test_the_past_is_for_who_might_read_it_then_and_may_today(
    server: ShoalServer, connection: psycopg.Connection
) -> None:
    connection.execute("CREATE ROLE reader LOGIN")
    early = lsn(connection)
    connection.execute("GRANT SELECT ON t TO reader")
    granted = lsn(connection)
    connection.execute("CREATE TABLE since ()")
    with psycopg.connect(server.dsn.replace("user=postgres", "user=reader"), autocommit=True) as reader:
        assert reader.execute(f"SELECT id FROM t AS OF LSN {granted} WHERE id = 1").fetchall() == [(1,)]
        connection.execute("REVOKE SELECT ON t FROM reader")
        connection.execute("DROP TABLE since")
        for at in (early, granted, lsn(connection)):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                reader.execute(f"SELECT id FROM t AS OF LSN {at} WHERE id = 1")
        with pytest.raises(psycopg.errors.UndefinedObject, match="did not exist at"):
            reader.execute(f"SET as_of = '{early - 1}'")
    connection.execute("DROP ROLE reader")


@pytest.mark.usefixtures("table")
def test_a_portal_that_is_read_in_parts_keeps_its_moment(server: ShoalServer, connection: psycopg.Connection) -> None:
    at = lsn(connection)
    connection.execute("DELETE FROM t")
    with psycopg.connect(server.dsn) as reading, reading.cursor() as cursor:
        rows = list(cursor.stream(f"SELECT id FROM t AS OF LSN {at} ORDER BY id"))
    assert len(rows) == 3000


@pytest.mark.usefixtures("table")
def test_a_look_up_in_the_past_by_any_road(server: ShoalServer, connection: psycopg.Connection) -> None:
    """Literals, parameters, transactions, both formats: what runs at once reads what everything else does."""
    connection.execute("CREATE SEQUENCE IF NOT EXISTS drawn")
    before = lsn(connection)
    row = connection.execute("SELECT clock_timestamp()").fetchone()
    assert row is not None
    connection.execute("UPDATE t SET n = n + 1000")
    clauses = (
        f"LSN {before}",
        f"LSN '{before}'",
        f"TIMESTAMP '{row[0]}'",
        f"TIMESTAMP timestamptz '{row[0]}' - interval '0 s'",
    )
    with psycopg.connect(server.dsn, prepare_threshold=0) as other:
        for clause in clauses:
            for number in (3, 4, 3):
                text = f"SELECT n, v FROM t AS OF {clause} x WHERE x.id = {number}"
                expected = [(number % 50, f"v{number % 7}")]
                assert connection.execute(text.encode()).fetchall() == expected
                with connection.transaction():
                    connection.execute("UPDATE t SET n = -1 WHERE id = 3")
                    assert connection.execute(text.encode()).fetchall() == expected
                    assert connection.execute("SELECT n FROM t WHERE id = 3").fetchall() == [(-1,)]
                    connection.execute("UPDATE t SET n = 1003 WHERE id = 3")
                for binary in (False, True):
                    prepared = "SELECT n, v FROM t AS OF LSN %s x WHERE x.id = %s"
                    assert other.execute(prepared, (before, number), binary=binary).fetchall() == expected
                assert connection.execute(f"SELECT n, v FROM t WHERE id = {number}").fetchone() == (
                    number % 50 + 1000, f"v{number % 7}",
                )  # fmt: skip
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        connection.execute(f"SELECT nextval('drawn') FROM t AS OF LSN {before} WHERE id = 3".encode())
    with pytest.raises(psycopg.Error):
        connection.execute(f"SELECT n FROM t AS OF LSN {before} WHERE id = 3 FOR UPDATE".encode())
    with pytest.raises(psycopg.errors.DivisionByZero):
        connection.execute(f"SELECT n / (id - 3) FROM t AS OF LSN {before} WHERE id = 3".encode())
    assert connection.execute(f"SELECT count(*) FROM t AS OF LSN {before} WHERE id = 3".encode()).fetchone() == (1,)
    connection.execute("DROP SEQUENCE drawn")
