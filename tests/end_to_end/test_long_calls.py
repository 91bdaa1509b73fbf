"""One call that takes long, for one row alone, holds nobody else, and ends when its statement is to end."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import psycopg
import pytest

from tests.samples import some
from tests.server import ShoalServer

ENDLESS = r"repeat('ab', 3000) ~ '(.+)(.+)\1\2x'"  # back references: for hours


@pytest.fixture(scope="module")
def server() -> Iterator[ShoalServer]:
    with ShoalServer() as own:
        with psycopg.connect(own.dsn, autocommit=True) as connection:
            connection.execute("CREATE TABLE t (a int PRIMARY KEY, b text)")
            connection.execute("INSERT INTO t VALUES (1, 'x')")
        yield own
        own.kill()  # what was left to itself in the worker need not end first


def test_others_are_answered_and_it_can_be_cancelled(server: ShoalServer) -> None:
    ended: list[str | None] = []
    with psycopg.connect(server.dsn, autocommit=True) as one, psycopg.connect(server.dsn, autocommit=True) as other:

        def run() -> None:
            try:
                one.execute(f"SELECT {ENDLESS}".encode())
            except psycopg.Error as error:
                ended.append(error.sqlstate)

        thread = threading.Thread(target=run)
        thread.start()
        running = "SELECT count(*) FROM pg_stat_activity WHERE pid = %s AND state = 'active'"
        while other.execute(running, (one.info.backend_pid,)).fetchone() != (1,):
            assert thread.is_alive()
        one.cancel_safe()
        thread.join(60)
        assert ended == ["57014"]


NUMBERS = "('[' || repeat('1,', 3000) || '1]')::jsonb"
STATEMENTS = (
    f"SELECT jsonb_path_exists({NUMBERS}, '$[*] ? (exists ($[*] ? (exists ($[*] ? (@ == 2)))))')",
    f"SELECT {ENDLESS}",
    f"SELECT '{'ab' * 3000}' ~ '(.+)(.+)\\1\\2x'",
    f"SELECT * FROM t WHERE a = 1 AND {ENDLESS}",
    f"UPDATE t SET b = 'y' WHERE a = 1 AND {ENDLESS}",
    f"UPDATE t SET b = ({ENDLESS})::text WHERE a = 1",
    f"INSERT INTO t SELECT 2, ({ENDLESS})::text",
    f"INSERT INTO t VALUES (2, ({ENDLESS})::text)",
)


@pytest.mark.parametrize("statement", STATEMENTS, ids=range(len(STATEMENTS)))
def test_statement_timeout_ends_it(server: ShoalServer, statement: str) -> None:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("SET statement_timeout = '500ms'")
        with pytest.raises(psycopg.errors.QueryCanceled, match="statement timeout"):
            connection.execute(statement.encode())
        connection.execute("SET statement_timeout = 0")
        assert connection.execute("SELECT * FROM t").fetchall() == [(1, "x")]


def test_a_server_that_has_just_matched_stops_as_ever() -> None:
    with ShoalServer() as own:
        with psycopg.connect(own.dsn, autocommit=True) as connection:
            assert connection.execute("SELECT repeat('ab', 100) ~ '(a|b)+c'").fetchone() == (False,)
        assert own.stop() == 0


@pytest.mark.parametrize("kind", some(["jsonb", "int[]", "text"], 3))
def test_large_values_are_written_and_read(server: ShoalServer, kind: str) -> None:
    """They take long by their size alone, which is no reason to end a statement."""
    value = {
        "int[]": "{" + ",".join(map(str, range(1_000_000))) + "}",
        "jsonb": "[" + ",".join(f'{{"a": {n}}}' for n in range(300_000)) + "]",
        "text": "x" * 20_000_000,
    }[kind]
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute(f"CREATE TEMP TABLE large (a int PRIMARY KEY, v {kind})".encode())
        insert = "INSERT INTO large VALUES (1, %s) ON CONFLICT (a) DO UPDATE SET v = excluded.v"
        for _ in range(2):
            connection.execute(insert, (value,))
        assert connection.execute("SELECT v = %s FROM large WHERE a = 1", (value,)).fetchone() == (True,)


def test_thousands_of_values_in_coalesce_are_no_nest_of_conditions(server: ShoalServer) -> None:
    count = 8000
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("CREATE TEMP TABLE chosen (a int)")
        connection.execute("SET statement_timeout = '6s'")  # it took 12
        insert = f"INSERT INTO chosen VALUES (coalesce({', '.join(['%s::int'] * count)}))"
        connection.execute(insert.encode(), [None] * (count - 1) + [7], prepare=True)
        assert connection.execute("SELECT * FROM chosen").fetchall() == [(7,)]


def test_an_aggregate_over_whole_partitions_is_computed_once_for_each(server: ShoalServer) -> None:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE spans AS SELECT n % 10 AS g, make_interval(secs => n) AS i "
                           "FROM generate_series(1, 5000) AS n")  # fmt: skip
        connection.execute("SET statement_timeout = '6s'")  # it took 9
        found = connection.execute("SELECT DISTINCT g, max(i) OVER (PARTITION BY g) = make_interval(secs => 4990 + "
                                   "CASE g WHEN 0 THEN 10 ELSE g END) FROM spans").fetchall()  # fmt: skip
        assert sorted(found) == [(g, True) for g in range(10)]
