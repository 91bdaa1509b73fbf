"""pg_stat_statements, pg_stat_activity and pg_stat_database of a running server, beside PostgreSQL's."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.server import ShoalServer

SCRIPT = """
    CREATE TABLE words (a int PRIMARY KEY, b text)
    INSERT INTO words VALUES (1, 'one'), (2, 'two'), (3, 'three')
    SELECT b FROM words WHERE a = 1
    select b from words where a = 2
    SELECT count(*) FROM words u, words v WHERE u.b <> v.b
    UPDATE words SET b = 'x' WHERE a > 1
    BEGIN
    DELETE FROM words WHERE a = 3
    ROLLBACK
    PREPARE p AS SELECT a FROM words WHERE b = $1
    EXECUTE p('x')
    DEALLOCATE p
    CREATE TABLE copied AS SELECT * FROM words
    COPY words TO STDOUT
    BEGIN
    DECLARE c CURSOR FOR SELECT * FROM words
    FETCH 2 FROM c
    COMMIT
    DROP TABLE words, copied
"""
COUNTS = "SELECT query, calls, rows, toplevel, dbid = (SELECT oid FROM pg_database WHERE datname = current_database())"


@pytest.fixture(scope="module")
def server() -> Iterator[ShoalServer]:
    with ShoalServer() as running:
        yield running


@pytest.fixture
def shoal(server: ShoalServer) -> Iterator[psycopg.Connection]:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
        yield connection


def _counted(connection: psycopg.Connection) -> list[Any]:
    connection.execute("SELECT pg_stat_statements_reset()")
    for sql in SCRIPT.strip().splitlines():
        connection.execute(f"SELECT 'before {len(sql)}'")  # so that no statement is the last one
        connection.pgconn.exec_(sql.strip().encode())
        if sql.strip().startswith("COPY"):
            while connection.pgconn.get_copy_data(0)[0] > 0:
                pass
            while connection.pgconn.get_result() is not None:
                pass
    return connection.execute(
        f"{COUNTS} FROM pg_stat_statements WHERE query !~ 'pg_stat|SELECT .1$' ORDER BY query COLLATE \"C\""
    ).fetchall()


def _without_prepared(rows: list[Any]) -> list[Any]:
    """PostgreSQL shows what EXECUTE ran by the text of PREPARE as it was written, Shoal without its constants."""
    return [row for row in rows if not row[0].startswith("PREPARE")]


def test_statements_are_counted_as_postgresql_counts_them(
    shoal: psycopg.Connection, counting_postgres: psycopg.Connection
) -> None:
    ours, theirs = _counted(shoal), _counted(counting_postgres)
    assert _without_prepared(ours) == _without_prepared(theirs)
    assert len(ours) == len(theirs)


def test_the_view_has_postgresqls_columns(shoal: psycopg.Connection, counting_postgres: psycopg.Connection) -> None:
    for view in ("pg_stat_statements", "pg_stat_statements_info"):
        columns = (
            "SELECT attname, atttypid::regtype::text FROM pg_attribute "
            f"WHERE attrelid = '{view}'::regclass AND attnum > 0 ORDER BY attnum"
        )
        assert shoal.execute(columns).fetchall() == counting_postgres.execute(columns).fetchall()


def test_times_are_plausible_and_reset_forgets_one(shoal: psycopg.Connection) -> None:
    shoal.execute("SELECT pg_stat_statements_reset()")
    for _ in range(3):
        shoal.execute("SELECT 'slow', pg_sleep(0.01)")
    entry = shoal.execute(
        "SELECT calls, total_exec_time, min_exec_time, max_exec_time, mean_exec_time, stddev_exec_time, queryid "
        "FROM pg_stat_statements WHERE query = 'SELECT $1, pg_sleep($2)'"
    ).fetchone()
    assert entry is not None
    calls, total, least, most, mean, deviation, queryid = entry
    assert calls == 3 and 10 <= least <= mean <= most and total == pytest.approx(3 * mean)
    assert 0 <= deviation <= most - least
    shoal.execute("SELECT pg_stat_statements_reset(0, 0, %s)", (queryid,))
    left = shoal.execute("SELECT count(*), bool_or(queryid = %s) FROM pg_stat_statements", (queryid,)).fetchone()
    assert left is not None and left[0] > 0 and left[1] is False


def test_info_says_since_when(shoal: psycopg.Connection) -> None:
    shoal.execute("SELECT pg_stat_statements_reset()")
    row = shoal.execute("SELECT dealloc, now() - stats_reset < '10s' FROM pg_stat_statements_info").fetchone()
    assert row == (0, True)


def test_others_statements_are_for_superusers(server: ShoalServer, shoal: psycopg.Connection) -> None:
    shoal.execute("CREATE ROLE curious LOGIN")
    with psycopg.connect(f"{server.dsn} user=curious".replace("user=postgres ", ""), autocommit=True) as curious:
        curious.execute("SELECT 'mine', 'alone'")
        seen = curious.execute("SELECT query, queryid IS NULL FROM pg_stat_statements").fetchall()
        assert ("<insufficient privilege>", True) in seen and ("SELECT $1, $2", False) in seen
        assert {hidden for query, hidden in seen if query != "<insufficient privilege>"} == {False}
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="pg_stat_statements_reset"):
            curious.execute("SELECT pg_stat_statements_reset()")
    shoal.execute("DROP ROLE curious")


def test_its_views_belong_to_the_extension(shoal: psycopg.Connection) -> None:
    with pytest.raises(
        psycopg.errors.DependentObjectsStillExist, match="because extension pg_stat_statements requires"
    ):
        shoal.execute("DROP VIEW pg_stat_statements")
    member = "SELECT deptype FROM pg_depend WHERE objid = 'pg_stat_statements'::regclass AND refclassid = 3079"
    assert shoal.execute(member).fetchall() == [("e",)]
    shoal.execute("CREATE VIEW mine AS SELECT calls FROM pg_stat_statements")
    with pytest.raises(psycopg.errors.DependentObjectsStillExist):
        shoal.execute("DROP EXTENSION pg_stat_statements")
    shoal.execute("DROP EXTENSION pg_stat_statements CASCADE")
    assert shoal.execute("SELECT to_regclass('pg_stat_statements'), to_regclass('mine')").fetchone() == (None, None)


def test_passwords_are_in_no_view(shoal: psycopg.Connection) -> None:
    shoal.execute("CREATE ROLE secretive PASSWORD 'hidden-word'")
    shown = shoal.execute("SELECT string_agg(query, ' ') FROM pg_stat_statements").fetchone()
    assert shown is not None and "PASSWORD '********'" in shown[0] and "hidden-word" not in shown[0]
    shoal.execute("DROP ROLE secretive")


@pytest.mark.parametrize(
    "sent",
    [
        "SELECT 1;", "SELECT 12 ; ", "SELECT 1; SELECT 2;", "/* x */ SELECT 3;", "BEGIN; ",
        "DROP TABLE IF EXISTS missing;", "SELECT a FROM (VALUES (1)) v (a) WHERE a = 5 -- z",
    ],
)  # fmt: skip
def test_activity_shows_the_string_as_it_was_sent(server: ShoalServer, shoal: psycopg.Connection, sent: str) -> None:
    """As PostgreSQL does, with what ends a statement."""
    with psycopg.connect(server.dsn, autocommit=True) as other:
        other.execute(sent.encode())
        [(found,)] = shoal.execute(
            "SELECT query FROM pg_stat_activity WHERE pid = %s", (other.info.backend_pid,)
        ).fetchall()
    assert found == sent


def test_activity_shows_what_runs_and_what_it_waits_for(server: ShoalServer, shoal: psycopg.Connection) -> None:
    look = (
        "SELECT state, wait_event_type, wait_event, query, xact_start IS NOT NULL, state_change >= query_start, "
        "application_name FROM pg_stat_activity WHERE pid = %s"
    )
    shoal.execute("CREATE TABLE locked (a int PRIMARY KEY, b int)")
    shoal.execute("INSERT INTO locked VALUES (1, 1)")
    with (
        psycopg.connect(server.dsn, autocommit=True, application_name="waiter") as waiter,
        psycopg.connect(server.dsn) as holder,
    ):
        pid = waiter.info.backend_pid
        waiter.execute("SELECT b FROM locked WHERE a = 1")
        idle = ("idle", "Client", "ClientRead", "SELECT b FROM locked WHERE a = 1", False, True, "waiter")
        assert shoal.execute(look, (pid,)).fetchone() == idle
        holder.execute("UPDATE locked SET b = 2 WHERE a = 1")
        thread = threading.Thread(target=waiter.execute, args=("UPDATE locked SET b = b + 10 WHERE a = 1",))
        thread.start()
        waits = ("active", "Lock", "transactionid", "UPDATE locked SET b = b + 10 WHERE a = 1", True, True, "waiter")
        for _ in range(500):
            found = shoal.execute(look, (pid,)).fetchone()
            if found == waits:
                break
        assert found == waits
        time.sleep(0.03)
        holder.commit()
        thread.join(10)
        assert waiter.execute("SELECT b FROM locked").fetchone() == (12,)
    counted = (
        "SELECT calls, max_exec_time FROM pg_stat_statements WHERE query = 'UPDATE locked SET b = b + $1 WHERE a = $2'"
    )
    entry = shoal.execute(counted).fetchone()
    assert entry is not None and entry[0] == 1 and entry[1] > 30  # ms, of which it waited nearly all
    shoal.execute("DROP TABLE locked")


def test_a_database_counts_transactions_and_rows(shoal: psycopg.Connection) -> None:
    look = (
        "SELECT xact_commit, xact_rollback, tup_inserted, tup_updated, tup_deleted, sessions, deadlocks "
        "FROM pg_stat_database WHERE datname = 'postgres'"
    )
    before = shoal.execute(look).fetchone()
    shoal.execute("CREATE TABLE counted (a int PRIMARY KEY, b int)")
    shoal.execute("INSERT INTO counted SELECT n, n FROM generate_series(1, 100) n")
    shoal.execute("UPDATE counted SET b = 0 WHERE a = 1")
    for number in (1, 2, 3):
        shoal.execute("SELECT b FROM counted WHERE a = %s", (number,))
    with pytest.raises(psycopg.errors.DivisionByZero):
        shoal.execute("SELECT 1 / b FROM counted WHERE a = 1")
    with pytest.raises(ZeroDivisionError), shoal.transaction():
        shoal.execute("DELETE FROM counted WHERE a < 3")
        raise ZeroDivisionError
    shoal.execute("DROP TABLE counted")
    after = shoal.execute(look).fetchone()
    assert before is not None and after is not None
    # The look before counts as well: 1 + CREATE, INSERT, UPDATE, three SELECTs, DROP.
    assert [now - then for now, then in zip(after, before, strict=True)] == [8, 2, 100, 1, 2, 0, 0]


@pytest.mark.long
def test_a_copy_shows_how_far_it_is(server: ShoalServer, shoal: psycopg.Connection) -> None:
    look = (
        "SELECT relid::regclass::text, command, type, bytes_processed, bytes_total, tuples_processed, tuples_excluded, "
        "datname FROM pg_stat_progress_copy WHERE pid = %s"
    )
    line = "{}\tsome words to fill the line with, so that pieces are of a size\n"
    shoal.execute("CREATE TABLE loaded (a int PRIMARY KEY, b text)")
    with psycopg.connect(server.dsn, autocommit=True) as loader:
        sent = 0
        with loader.cursor().copy("COPY loaded FROM STDIN WHERE a % 10 <> 0") as copy:
            seen: tuple[Any, ...] | None = None
            for start in range(0, 200_000, 10_000):
                data = "".join(line.format(number) for number in range(start, start + 10_000))
                copy.write(data)
                sent += len(data)
            deadline = time.monotonic() + 20
            while seen is None or not (seen[5] and seen[6]):  # whole pieces that have been read are loaded
                assert time.monotonic() < deadline, seen
                seen = shoal.execute(look, (loader.info.backend_pid,)).fetchone()
        assert seen is not None
        name, command, kind, read, size, rows, excluded, database = seen
        assert (name, command, kind, size, database) == ("loaded", "COPY FROM", "PIPE", 0, "postgres")
        assert 0 < read <= sent and 0 < excluded < rows < 200_000
        assert shoal.execute(look, (loader.info.backend_pid,)).fetchone() is None
        with loader.cursor().copy("COPY (SELECT a, b FROM loaded, generate_series(1, 20)) TO STDOUT") as copy:
            for number, _ in enumerate(copy):
                if number == 1000:
                    break
            seen = shoal.execute(look, (loader.info.backend_pid,)).fetchone()
            for _ in copy:
                pass
    assert seen is not None and seen[:3] == ("-", "COPY TO", "PIPE") and seen[3] > 1000 and seen[5] >= 1000
    shoal.execute("DROP TABLE loaded")
