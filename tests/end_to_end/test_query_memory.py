"""Statements that would take about 2 GB end with 53200, whatever gathers them, and nobody else notices."""

from __future__ import annotations

import pathlib
import socket
import threading
import time
from collections.abc import Iterator

import asyncpg
import psycopg
import pytest

from tests.samples import some
from tests.server import ShoalServer

LIMIT = 32 << 20
WIDE = "repeat('x', 500000)"  # of 4000 rows, which are not too many for the row path: 2 GB
GATHERING = {
    "one value": "SELECT repeat('x', 1000000000)",
    "a folded value": "SELECT id FROM t WHERE id = length(repeat('x', 1000000000))",
    "joined values": "SELECT length(a || a || a || a || a) FROM (SELECT repeat('x', 400000000) AS a) AS q",
    "padding": "SELECT length(rpad('x', 260000000) || lpad('x', 260000000))",
    "a field of format()": "SELECT format('%1000000000s', 'x')",
    "many fields of format()": "SELECT length(format(repeat('%1$s', 20000), repeat('x', 100000)))",
    "concat()": f"SELECT length(concat({', '.join(['s'] * 90)})) FROM (SELECT repeat('x', 2500000) AS s) AS q",
    "concat_ws()": f"""SELECT length(concat_ws(',', {", ".join(["s"] * 90)})) FROM (SELECT repeat('x', 2500000) AS s)
                       AS q""",
    "an array that doubles": """WITH RECURSIVE r (n, a) AS (SELECT 1, ARRAY[1] UNION ALL SELECT n + 1, a || a FROM r
                                WHERE n < 28) SELECT max(cardinality(a)) FROM r""",
    "replace()": "SELECT length(replace(repeat('x', 20000000), 'x', repeat('y', 50)))",
    "regexp_replace()": "SELECT length(regexp_replace(repeat('x', 100000), 'x', repeat('y', 10000), 'g'))",
    "an array": "SELECT array_length(array_fill(1, ARRAY[130000000]), 1)",
    "joined arrays": "SELECT array_length(a || a || a, 1) FROM (SELECT array_fill(1, ARRAY[4000000]) AS a) AS q",
    "the parts of a text": "SELECT array_length(string_to_array(repeat('x,', 15000000), ','), 1)",
    "a padded type": "SELECT v::text::char(10000000) FROM t WHERE id < 300",
    "a result": f"SELECT id, {WIDE} FROM t WHERE id > 0",
    "VALUES": f"SELECT * FROM (VALUES {', '.join(['(repeat(chr(120), 200000000))'] * 10)}) AS q",
    "ORDER BY": f"SELECT v FROM t WHERE id > 0 ORDER BY {WIDE} || v",
    "DISTINCT": f"SELECT DISTINCT {WIDE} || id FROM t WHERE id > 0",
    "GROUP BY": f"SELECT length({WIDE} || id), count(*) FROM t WHERE id > 0 GROUP BY {WIDE} || id",
    "string_agg()": f"SELECT length(string_agg({WIDE}, ',')) FROM t WHERE id > 0",
    "array_agg()": f"SELECT array_length(array_agg({WIDE}), 1) FROM t WHERE id > 0",
    # 250 MB: of all rows it is the 2 GB that the analytic worker has, which it may meet first, and then names
    "jsonb_agg()": f"SELECT length(jsonb_agg({WIDE})::text) FROM t WHERE id > 3500",
    "an aggregate's DISTINCT": f"SELECT count(DISTINCT {WIDE} || id) FROM t WHERE id > 0",
    "an aggregate's ORDER BY": f"SELECT max(v ORDER BY {WIDE} || id) FROM t WHERE id > 0",
    "UNION": f"SELECT {WIDE} || id FROM t WHERE id > 0 UNION SELECT 'a'",
    "EXCEPT": f"SELECT {WIDE} || id FROM t WHERE id > 0 EXCEPT SELECT 'a'",
    "WITH": f"WITH m AS MATERIALIZED (SELECT {WIDE} || id AS s FROM t WHERE id > 0) SELECT count(*) FROM m",
    "WITH RECURSIVE": f"""WITH RECURSIVE r (n, s) AS (SELECT 1, {WIDE} UNION ALL SELECT n + 1, s || 'y' FROM r
                          WHERE n < 4000) SELECT max(length(s)) FROM r""",
    "a recursion that doubles": """WITH RECURSIVE r (n, s) AS (SELECT 1, 'x' UNION ALL SELECT n + 1, s || s FROM r
                                   WHERE n < 30) SELECT max(length(s)) FROM r""",
    "ARRAY(SELECT)": f"SELECT array_length(ARRAY(SELECT {WIDE} || id FROM t WHERE id > 0), 1)",
    "LEFT JOIN": f"""SELECT count(*) FROM t LEFT JOIN (SELECT id, {WIDE} || id AS s FROM t WHERE id > 0) AS o
                     ON length(o.s) > t.id WHERE t.id = 1""",
    "INSERT": f"INSERT INTO written SELECT id, {WIDE} FROM t WHERE id > 0",
    "RETURNING": f"UPDATE t SET v = v WHERE id < 4000 RETURNING {WIDE}",
}  # fmt: skip


# What only reads may go on in the analytic worker, always or on a slow machine, and takes no memory of the server's.
HERE = ("INSERT", "RETURNING")


@pytest.fixture(scope="module")
def server() -> Iterator[ShoalServer]:
    with ShoalServer() as running, psycopg.connect(running.dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE t (id int PRIMARY KEY, v int)")
        connection.execute("INSERT INTO t SELECT g, g % 10 FROM generate_series(1, 4000) g")
        connection.execute("CREATE TABLE written (id int PRIMARY KEY, s text)")
        connection.execute("CREATE TABLE large (id int PRIMARY KEY, s text)")
        for number in range(1, 61):
            connection.execute("INSERT INTO large VALUES (%s, %s)", (number, chr(64 + number) * 1_000_000))
        connection.execute("CHECKPOINT")  # a flush of all this in the midst of a test would count as the statement's
        yield running


def peak(server: ShoalServer) -> int:
    """The most memory that the server has had since `forget`, in bytes."""
    status = pathlib.Path(f"/proc/{server.pid}/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) << 10


def forget(server: ShoalServer) -> int:
    """What it has now, from which its peak counts again."""
    pathlib.Path(f"/proc/{server.pid}/clear_refs").write_text("5")
    return peak(server)


def code(connection: psycopg.Connection, sql: str) -> str | None:
    try:
        connection.execute(sql.encode())
    except psycopg.Error as error:
        assert error.diag.message_hint is not None and "query_memory_limit" in error.diag.message_hint
        return error.sqlstate
    return None


@pytest.mark.parametrize("name", some(GATHERING, 2))
def test_a_statement_past_its_limit_ends(server: ShoalServer, name: str) -> None:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("SET query_memory_limit = '32MB'")
        before = forget(server)
        assert code(connection, GATHERING[name]) in ("53200", "53200" if name in HERE else None)
        assert peak(server) - before < 4 * LIMIT
        assert connection.execute("SELECT v FROM t WHERE id = 17").fetchall() == [(7,)]
        assert connection.execute("SELECT count(*) FROM written").fetchall() == [(0,)]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT id, %s::text FROM t WHERE id > 0",
        "SELECT id, %s::text AS s FROM t WHERE id > 0 ORDER BY id %% 7",
        "SELECT length(string_agg(%s::text, '')) FROM t WHERE id > 0",
        "SELECT length(array_agg(%s::text)::text) FROM t WHERE id > 0",
        "SELECT id, repeat('x', 500000), %s::int FROM t WHERE id > 0",  # a constant of the plan
    ],
)
def test_one_value_in_every_row_counts(server: ShoalServer, sql: str) -> None:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("SET query_memory_limit = '32MB'")
        before = forget(server)
        with pytest.raises(psycopg.errors.OutOfMemory):
            connection.execute(sql.encode(), ("1" * (1 if "::int" in sql else 500_000),))
        assert peak(server) - before < 4 * LIMIT


def test_others_go_on_beside_statements_past_their_limit(server: ShoalServer) -> None:
    errors: list[str | None] = []

    def too_much() -> None:
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute("SET query_memory_limit = '32MB'")
            errors.extend(code(connection, GATHERING[name]) for name in ("DISTINCT", "string_agg()", "one value"))

    threads = [threading.Thread(target=too_much) for _ in range(4)]
    before = forget(server)
    with psycopg.connect(server.dsn, autocommit=True) as other:
        for thread in threads:
            thread.start()
        points = 0
        while any(thread.is_alive() for thread in threads):
            assert other.execute("SELECT v FROM t WHERE id = 25").fetchall() == [(5,)]
            points += 1
        assert points > 0
    assert errors == ["53200"] * 12
    assert peak(server) - before < 6 * LIMIT


def test_a_block_goes_on_after_its_savepoint(server: ShoalServer) -> None:
    with psycopg.connect(server.dsn) as connection:
        connection.execute("SET query_memory_limit = '32MB'")
        connection.execute("INSERT INTO written VALUES (1, 'a')")
        with pytest.raises(psycopg.errors.OutOfMemory), connection.transaction():
            connection.execute(GATHERING["INSERT"].encode())
        assert connection.execute("SELECT * FROM written").fetchall() == [(1, "a")]
        connection.rollback()


def test_large_rows_that_are_only_read_go_to_the_columnar_path(server: ShoalServer) -> None:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("SET query_memory_limit = '8MB'")
        rows = connection.execute("SELECT id, s FROM large WHERE id < 50 ORDER BY id").fetchall()
        assert [(number, text[0], len(text)) for number, text in rows] == [
            (number, chr(64 + number), 1_000_000) for number in range(1, 50)
        ]
        assert connection.execute("SELECT sum(length(s)) FROM large WHERE id < 50").fetchall() == [(49_000_000,)]


def test_what_is_gone_with_its_row_does_not_count(server: ShoalServer) -> None:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("SET query_memory_limit = '8MB'")
        sql = "SELECT count(*), max(length(repeat('x', 100000) || id)) FROM t WHERE id < 1000"
        assert connection.execute(sql).fetchall() == [(999, 100_003)]
        sql = "SELECT g FROM generate_series(1, 1000) AS g WHERE length(repeat('x', 100000 + g)) = 100500"
        assert connection.execute(sql).fetchall() == [(500,)]


def test_the_limit_is_a_setting(server: ShoalServer) -> None:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        for given, shown in (("64", "64kB"), ("1024", "1MB"), ("1.5GB", "1536MB"), ("0", "0")):
            connection.execute(f"SET query_memory_limit = '{given}'".encode())
            assert connection.execute("SHOW query_memory_limit").fetchall() == [(shown,)]
        assert connection.execute("SELECT length(repeat('x', 100000000))").fetchall() == [(100_000_000,)]
        for wrong in ("63", "1 PB", "-1"):
            with pytest.raises(psycopg.errors.InvalidParameterValue):
                connection.execute(f"SET query_memory_limit = '{wrong}'".encode())


# ---- what connections hold between statements -----------------------------------------------------------------------


HUNDRED = "INSERT INTO small SELECT %s * 100 + g FROM generate_series(1, 100) g"


def held_too_long(connection: psycopg.Connection, sql: str, count: int) -> str | None:
    """The SQLSTATE that ends the statement, run again and again."""
    try:
        for number in range(count):
            connection.execute(sql.encode(), (number,))
    except psycopg.Error as error:
        assert error.diag.message_hint is not None and "connection_memory_limit" in error.diag.message_hint
        return error.sqlstate
    return None


@pytest.mark.parametrize(
    "sql",
    ["INSERT INTO written VALUES (%s, repeat('x', 500000))", HUNDRED],
)
def test_writes_of_a_transaction_count(server: ShoalServer, sql: str) -> None:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS small (id int PRIMARY KEY)")
        connection.execute("SET connection_memory_limit = '16MB'")
        before = forget(server)
        for _ in range(2):  # what an end gives back is to be had again
            connection.execute("BEGIN")
            assert held_too_long(connection, sql, 4000) == "53200"
            connection.execute("ROLLBACK")
        assert peak(server) - before < 4 * LIMIT
        for number in range(60):
            connection.execute(sql.encode(), (number,))  # one transaction each
        connection.execute("DELETE FROM written")
        connection.execute("DELETE FROM small")


def test_a_savepoint_gives_writes_back(server: ShoalServer) -> None:
    with psycopg.connect(server.dsn) as connection:
        connection.execute("SET connection_memory_limit = '16MB'")
        for _ in range(10):
            with connection.transaction(force_rollback=True):
                for number in range(20):
                    connection.execute("INSERT INTO written VALUES (%s, repeat('x', 500000))", (number,))
        connection.rollback()


@pytest.mark.parametrize("options", ["", "WITH HOLD"])
def test_rows_of_cursors_count(server: ShoalServer, options: str) -> None:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("SET connection_memory_limit = '16MB'")
        for _ in range(3):
            connection.execute("BEGIN")
            for name in "ab":
                sql = f"DECLARE {name} CURSOR {options} FOR SELECT repeat('x', 60000) FROM t WHERE id <= 100"
                connection.execute(sql.encode())
            with pytest.raises(psycopg.errors.OutOfMemory):
                connection.execute(sql.replace(" b ", " c ").encode())
            connection.execute("ROLLBACK")


def test_a_cursor_over_the_columnar_path_counts_while_it_fills(server: ShoalServer) -> None:
    with psycopg.connect(server.dsn) as connection:
        connection.execute("SET connection_memory_limit = '16MB'")
        before = forget(server)
        with pytest.raises(psycopg.errors.OutOfMemory):
            connection.execute("DECLARE c CURSOR FOR SELECT g, g::text FROM generate_series(1, 20000000) g")
        assert peak(server) - before < 4 * LIMIT


def test_rows_between_the_parts_of_a_statement_count(server: ShoalServer) -> None:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS small (id int PRIMARY KEY)")
        connection.execute("SET connection_memory_limit = '16MB'")
        sql = """WITH made AS (INSERT INTO small SELECT g FROM generate_series(1, 3000000) g RETURNING id)
                 SELECT count(*) FROM made"""
        before = forget(server)
        with pytest.raises(psycopg.errors.OutOfMemory):
            connection.execute(sql)
        assert peak(server) - before < 16 * LIMIT  # a bulk load has buffers of its own
        assert connection.execute("SELECT count(*) FROM small").fetchall() == [(0,)]
        assert connection.execute(sql.replace("3000000", "3000")).fetchall() == [(3000,)]
        connection.execute("DELETE FROM small")


def test_what_a_connection_holds_is_not_there_for_its_statements(server: ShoalServer) -> None:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("SET connection_memory_limit = '16MB'")
        for _ in range(3):
            with connection.transaction(force_rollback=True):
                connection.execute("DECLARE a CURSOR FOR SELECT repeat('x', 60000) FROM t WHERE id <= 200")
                with pytest.raises(psycopg.errors.OutOfMemory):
                    connection.execute("SELECT repeat('x', 60000) FROM t WHERE id <= 100 ORDER BY repeat('x', 60000)")


def test_messages_that_are_too_large_end_their_connection(server: ShoalServer) -> None:
    before = forget(server)
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("SET connection_memory_limit = '16MB'")
        assert connection.execute("SELECT length(%s)", ("x" * 8_000_000,)).fetchall() == [(8_000_000,)]
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT length(%s)", ("x" * 400_000_000,))
        assert connection.closed
    assert peak(server) - before < 4 * LIMIT
    with psycopg.connect(server.dsn, autocommit=True) as connection:  # what it held was given back
        assert connection.execute("SELECT length(%s)", ("x" * 8_000_000,)).fetchall() == [(8_000_000,)]


async def test_bound_parameters_count(server: ShoalServer) -> None:
    connection = await asyncpg.connect(host="127.0.0.1", port=server.port, user="postgres", database="postgres")
    try:
        await connection.execute("SET connection_memory_limit = '16MB'")
        value, sql = "x" * 900_000, "SELECT $1::text, g FROM generate_series(1, 3) g"
        for _ in range(3):  # what the end of a transaction gives back is to be had again
            transaction = connection.transaction()
            await transaction.start()
            for _ in range(30):  # one after the other, each gives back what it held
                assert await connection.fetchval("SELECT length($1::text)", value) == 900_000
            cursors = []
            with pytest.raises(asyncpg.OutOfMemoryError):
                while len(cursors) < 30:
                    cursors.append(await connection.cursor(sql, value))
            assert len(cursors) > 10
            await transaction.rollback()
    finally:
        await connection.close()


def test_a_line_of_copy_that_does_not_end_counts_and_many_lines_do_not(server: ShoalServer) -> None:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE copied (id int, filler text)")
        connection.execute("SET connection_memory_limit = '16MB'")
        before = forget(server)
        cursor = connection.cursor()
        with pytest.raises(psycopg.errors.OutOfMemory) as error, cursor.copy("COPY copied FROM STDIN") as copy:
            copy.write(b"1\t")
            for _ in range(300):
                copy.write(b"x" * 1_000_000)
        hint = error.value.diag.message_hint
        assert hint is not None and "connection_memory_limit" in hint
        assert peak(server) - before < 4 * LIMIT
        with cursor.copy("COPY copied FROM STDIN") as copy:
            for _ in range(60):
                copy.write(b"1\t%b\n" % (b"x" * 1_000_000))
        assert connection.execute("SELECT count(*) FROM copied").fetchall() == [(60,)]
        connection.execute("DROP TABLE copied")


class SmallServer(ShoalServer):
    """Its connections may hold 64 MB together."""

    def command(self) -> list[str]:
        config = pathlib.Path(self.data).parent / "small.toml"
        config.write_text(f"memory = {64 << 20}\n")
        return [*super().command(), "--config", str(config)]


def test_connections_at_their_limits_together_are_refused() -> None:
    with SmallServer() as server:
        connections = [psycopg.connect(server.dsn) for _ in range(12)]
        refused = held = 0
        connections[0].execute("CREATE TABLE written (id int PRIMARY KEY, s text)")
        connections[0].commit()
        before = forget(server)
        for place, connection in enumerate(connections):
            try:
                for number in range(20):
                    connection.execute("INSERT INTO written VALUES (%s, repeat('x', 500000))", (place * 100 + number,))
                held += 1
            except psycopg.errors.OutOfMemory as error:
                assert error.diag.message_hint is not None and "memory" in error.diag.message_hint
                refused += 1
        assert (held, refused) == (6, 6)
        assert peak(server) - before < 160 << 20
        for connection in connections:
            connection.rollback()
        connections[5].execute("INSERT INTO written VALUES (1, repeat('x', 20000000))")
        connections[5].rollback()
        for connection in connections:
            connection.close()


def test_results_that_nobody_reads_count() -> None:
    with SmallServer() as server, psycopg.connect(server.dsn, autocommit=True) as other:
        other.execute("CREATE TABLE one (n int PRIMARY KEY)")
        other.execute("INSERT INTO one VALUES (25000000)")
        lazy = []
        for _ in range(3):
            connection = socket.create_connection(("127.0.0.1", server.port))
            connection.sendall(b"\0\0\0\x29\0\3\0\0user\0postgres\0database\0postgres\0\0")
            sql = b"SELECT repeat('x', n) FROM one\0"
            connection.sendall(b"Q" + (len(sql) + 4).to_bytes(4, "big") + sql)
            lazy.append(connection)
        deadline = time.monotonic() + 30
        refusal = None
        while refusal is None and time.monotonic() < deadline:
            try:
                other.execute("SELECT length(repeat('x', n)) FROM one")
            except psycopg.errors.OutOfMemory as error:
                refusal = error
        assert refusal is not None
        for connection in lazy:
            connection.close()
        while True:
            try:
                other.execute("SELECT length(repeat('x', n)) FROM one")
                break
            except psycopg.errors.OutOfMemory:
                assert time.monotonic() < deadline
