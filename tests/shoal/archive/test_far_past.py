"""The past behind memory: every LSN that history keeps reads as it was recorded, also after a restart."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from engine.past.far import LIMIT
from tests.server import ShoalServer
from tests.shoal.archive.history import STATEMENTS, Content, KeepingServer, lsn_of, record, shown


class Forgetful(KeepingServer):
    """Keeps nothing in memory."""

    def command(self) -> list[str]:
        config = self.data.parent / "shoal.toml"
        config.write_text("past_window = 0.0\n")
        return [*super().command(), "--config", str(config)]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ShoalServer]:
    with Forgetful(tmp_path / "data") as found:
        yield found


def _sums(connection: psycopg.Connection, content: Content) -> None:
    """The same on the columnar path."""
    connection.execute("SET shoal.path = columnar")
    for name, rows in content.items():
        found = connection.execute(f"SELECT count(*), count(DISTINCT {name}.*::text) FROM {name}").fetchone()
        assert found == (len(rows), len(set(rows)))
    connection.execute("RESET shoal.path")


def test_what_was_dropped_before_a_restart_is_there(server: ShoalServer) -> None:
    """A statement with AS OF is planned with the schema of its moment, whatever the node has seen since its start."""
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE gone (id int PRIMARY KEY, a int)")
        connection.execute("CREATE TABLE narrow (id int PRIMARY KEY, a int)")
        connection.execute("INSERT INTO gone VALUES (1, 2)")
        connection.execute("INSERT INTO narrow VALUES (3, 4)")
        then = lsn_of(connection)
        connection.execute("DROP TABLE gone")
        connection.execute("ALTER TABLE narrow DROP COLUMN a")
    server.restart()
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        assert connection.execute(f"SELECT * FROM gone AS OF LSN {then}").fetchall() == [(1, 2)]
        assert connection.execute(f"SELECT * FROM narrow AS OF LSN {then}").fetchall() == [(3, 4)]
        assert connection.execute("SELECT * FROM narrow").fetchall() == [(3,)]


def test_every_lsn_reads_as_it_was(server: ShoalServer) -> None:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        recorded = record(connection, STATEMENTS[:9])
        connection.execute("CHECKPOINT")
    server.restart()
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.prepare_threshold = None  # what is prepared keeps its columns
        recorded |= record(connection, STATEMENTS[9:])
        row = connection.execute("SELECT clock_timestamp()").fetchone()
        last = lsn_of(connection)
        connection.execute("DROP TABLE a")
        for number, (lsn, content) in enumerate(recorded.items()):
            if number % 2:
                continue
            connection.execute(f"SET as_of = '{lsn}'")
            assert shown(connection) == content, lsn
            if number % 6 == 4:
                _sums(connection, content)
        connection.execute("RESET as_of")
        assert connection.execute(f"SELECT id FROM a AS OF LSN {last}").fetchall() == [(7,)]
        assert row is not None
        assert connection.execute(f"SELECT id FROM a AS OF TIMESTAMP '{row[0]}'").fetchall() == [(7,)]
        middle = sorted(recorded)[5]
        query = f"SELECT id FROM a AS OF LSN {middle} WHERE id < %s ORDER BY id"
        assert connection.execute(query, (12,), prepare=True).fetchall() == [(1,), (10,), (11,)]
    deadline = time.monotonic() + 20
    while len(list((server.data / "past").iterdir())) > LIMIT:  # those that are too many are closed behind our back
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.long
def test_the_past_begins_when_it_is_first_kept(tmp_path: Path) -> None:
    """Bulk loads of before are in the tables and nowhere else, though the changelog still has their entries."""
    data = tmp_path / "data"
    with ShoalServer(data) as server, psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE a (id int PRIMARY KEY)")
        connection.execute("INSERT INTO a SELECT generate_series(1, 6000)")
        before = lsn_of(connection)
        connection.execute("DELETE FROM a WHERE id = 1")
        server.restart()  # what is in the tables goes at the latest now
    with Forgetful(data) as server, psycopg.connect(server.dsn, autocommit=True) as connection:
        first = lsn_of(connection)
        connection.execute("DELETE FROM a WHERE id = 2")
        _until_readable(connection, first)
        connection.execute("INSERT INTO a SELECT generate_series(7000, 13000)")
        loaded = lsn_of(connection)
        connection.execute("DELETE FROM a WHERE id > 100")
        with pytest.raises(psycopg.Error, match=f"the state at LSN {before} is no longer kept") as told:
            connection.execute(f"SELECT count(*) FROM a AS OF LSN {before}")
        assert told.value.sqlstate == "72000"
        assert "The oldest that can be read is LSN" in (told.value.diag.message_hint or "")
    with Forgetful(data) as server, psycopg.connect(server.dsn, autocommit=True) as connection:
        for lsn, rows in ((first, 5999), (loaded, 11999)):
            assert connection.execute(f"SELECT count(*) FROM a AS OF LSN {lsn}").fetchone() == (rows,)


def _until_readable(connection: psycopg.Connection, lsn: int) -> None:
    """The checkpoint from which the past begins is written beside the server's other work."""
    end = time.monotonic() + 60
    while True:
        try:
            connection.execute(f"SELECT count(*) FROM a AS OF LSN {lsn}")
            return
        except psycopg.Error as error:
            assert error.sqlstate == "72000", error
            assert time.monotonic() < end, "the past is not kept"
            time.sleep(0.05)


def test_there_is_nothing_before_the_first_commit(server: ShoalServer) -> None:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        for statement in ("SELECT 1 FROM pg_class AS OF LSN 0", "SET as_of = '0'", "SELECT shoal_time_of(0)"):
            with pytest.raises(psycopg.errors.InvalidParameterValue, match="there is no LSN 0"):
                connection.execute(statement)


def test_a_moment_before_the_first_is_a_one_line_error(server: ShoalServer) -> None:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE a (id int PRIMARY KEY)")
        with pytest.raises(psycopg.Error, match="no longer kept") as error:
            connection.execute("SELECT * FROM a AS OF TIMESTAMP '2001-01-01'")
        assert "The oldest that can be read is LSN 1" in str(error.value)
        with pytest.raises(psycopg.Error, match=r'relation "a" does not exist'):
            connection.execute("SELECT * FROM a AS OF LSN 2")


TABLES = ("home", "one", "two")
SUMS = "SELECT (SELECT sum(n) FROM home{of}) + (SELECT sum(n) FROM one{of}) + (SELECT sum(n) FROM two{of})"


@pytest.mark.long
def test_several_tablespaces_are_read_at_one_moment(server: ShoalServer) -> None:
    """Each as it was then, with and without a checkpoint below, also after a restart; and no transaction in half."""
    recorded: dict[str, list[list[tuple[int, int]]]] = {}
    lsns: list[int] = []
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        for name in TABLES:
            if name != "home":
                connection.execute(f"CREATE TABLESPACE {name}")
            place = "" if name == "home" else f" TABLESPACE {name}"
            connection.execute(f"CREATE TABLE {name} (id int PRIMARY KEY, n int){place}")
            connection.execute(f"INSERT INTO {name} SELECT i, 10 FROM generate_series(1, 9) i")
        connection.execute("CREATE INDEX one_n ON one (n)")
        begun = lsn_of(connection)
        for step in range(12):
            with connection.transaction():
                connection.execute("UPDATE home SET n = n - %s WHERE id = %s", (2 * step, step % 9 + 1))
                connection.execute("UPDATE one SET n = n + %s WHERE id = %s", (step, step % 7 + 1))
                connection.execute("UPDATE two SET n = n + %s WHERE id = %s", (step, step % 5 + 1))
            row = connection.execute("SELECT clock_timestamp()").fetchone()
            assert row is not None
            recorded[str(row[0])] = _tables(connection)
            lsns.append(lsn_of(connection))
            if step == 6:
                connection.execute("CHECKPOINT")
    server.restart()
    with psycopg.connect(server.dsn, autocommit=True, prepare_threshold=None) as connection:
        connection.execute("UPDATE one SET n = 0")
        connection.execute("DROP TABLE two")
        for time_, expected in list(recorded.items())[::3]:
            connection.execute(f"SET as_of = '{time_}'")
            assert _tables(connection) == expected, time_
            assert connection.execute(SUMS.format(of="")).fetchone() == (270,)
            connection.execute("SET shoal.path = columnar")
            assert connection.execute(SUMS.format(of="")).fetchone() == (270,)
            connection.execute("RESET shoal.path")
            connection.execute("RESET as_of")
            assert (
                connection.execute(f"SELECT id, n FROM one AS OF TIMESTAMP '{time_}' ORDER BY id").fetchall()
                == (expected[1])
            )
        for lsn in lsns[1::4]:
            assert lsn > begun
            assert connection.execute(SUMS.format(of=f" AS OF LSN {lsn}")).fetchone() == (270,), lsn
        connection.execute("DROP TABLESPACE two")
        assert connection.execute(SUMS.format(of=f" AS OF LSN {lsns[0]}")).fetchone() == (270,)


def _tables(connection: psycopg.Connection) -> list[list[tuple[int, int]]]:
    return [connection.execute(f"SELECT id, n FROM {name} ORDER BY id").fetchall() for name in TABLES]
