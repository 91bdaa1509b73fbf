"""psycopg 3: every type in both formats, statements, transactions, pipelines, cursors, COPY, errors."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import errors, sql
from psycopg.types.json import Json, Jsonb

from tests.drivers.values import ARRAYS, CASES, JSON, Case, same
from tests.oracle import PostgresServer
from tests.server import ShoalServer

Connection = psycopg.Connection[tuple[Any, ...]]


@pytest.fixture
def connection(server: ShoalServer | PostgresServer, schema: str) -> Iterator[Connection]:
    options = f"-c search_path={schema} -c TimeZone=UTC"
    with psycopg.connect(server.dsn, autocommit=True, options=options) as opened:
        yield opened


@pytest.mark.parametrize("binary", [False, True], ids=["text", "binary"])
@pytest.mark.parametrize("case", [*CASES, *ARRAYS], ids=lambda case: case.name)
def test_values_come_back_as_they_went_in(connection: Connection, case: Case, binary: bool) -> None:
    mark = "%b" if binary else "%t"
    connection.execute(f"CREATE TABLE t (id int PRIMARY KEY, v {case.type})".encode())
    values = [*case.values, None]
    expected = [*case.expected, None]
    with connection.cursor(binary=binary) as cursor:
        insert = f"INSERT INTO t VALUES (%s, {mark}::{case.type})".encode()
        for number, value in enumerate(values):
            cursor.execute(insert, (number, value))
            assert cursor.rowcount == 1
        rows = cursor.execute("SELECT v FROM t ORDER BY id").fetchall()
        assert all(same(row[0], value) for row, value in zip(rows, expected, strict=True)), rows
        for number, value in enumerate(expected[:-1]):
            found = cursor.execute(f"SELECT v FROM t WHERE id = {mark}".encode(), (number,)).fetchall()
            assert len(found) == 1 and same(found[0][0], value), (found, value)
            shown = cursor.execute(f"SELECT {mark}::{case.type}".encode(), (values[number],)).fetchone()
            assert shown is not None and same(shown[0], value), (shown, value)
        cursor.execute(f"UPDATE t SET v = {mark}::{case.type} WHERE id = 0".encode(), (None,))
        cursor.execute("SELECT count(*), count(v) FROM t")
        assert cursor.fetchone() == (len(values), len(values) - 2)


@pytest.mark.parametrize("binary", [False, True], ids=["text", "binary"])
@pytest.mark.parametrize("wrap", [Json, Jsonb], ids=["json", "jsonb"])
def test_json_comes_back(connection: Connection, wrap: type[Json] | type[Jsonb], binary: bool) -> None:
    name = wrap.__name__.lower()
    mark = "%b" if binary else "%t"
    connection.execute(f"CREATE TABLE t (id int PRIMARY KEY, v {name}, a {name}[])".encode())
    with connection.cursor(binary=binary) as cursor:
        for number, value in enumerate(JSON):
            row = (number, wrap(value), [wrap(value), None])
            cursor.execute(f"INSERT INTO t VALUES (%s, {mark}, {mark})".encode(), row)
        cursor.execute("SELECT v, a FROM t ORDER BY id")
        assert cursor.fetchall() == [(value, [value, None]) for value in JSON]


def test_prepared_statements_are_used_again(connection: Connection) -> None:
    connection.execute("CREATE TABLE t (a int PRIMARY KEY, b text)")
    for number in range(20):
        connection.execute("INSERT INTO t VALUES (%s, %s)", (number, str(number)), prepare=True)
    for number in range(20):
        row = connection.execute("SELECT b FROM t WHERE a = %s", (number,), prepare=True).fetchone()
        assert row == (str(number),)


def test_a_prepared_statement_survives_a_change_of_its_table(connection: Connection) -> None:
    connection.execute("CREATE TABLE t (a int)")
    query = "SELECT a FROM t WHERE a > %s"
    assert connection.execute(query, (0,), prepare=True).fetchall() == []
    connection.execute("ALTER TABLE t ADD COLUMN b text DEFAULT 'x'")
    connection.execute("INSERT INTO t VALUES (1)")
    assert connection.execute(query, (0,), prepare=True).fetchall() == [(1,)]


def test_executemany_returns_and_counts(connection: Connection) -> None:
    connection.execute("CREATE TABLE t (a int PRIMARY KEY, b text)")
    with connection.cursor() as cursor:
        cursor.executemany("INSERT INTO t VALUES (%s, %s)", [(number, f"row {number}") for number in range(500)])
        assert cursor.rowcount == 500
        cursor.executemany("UPDATE t SET b = %s WHERE a = %s RETURNING a", [("x", 1), ("y", 2)], returning=True)
        assert cursor.fetchall() == [(1,)]
        assert cursor.nextset() and cursor.fetchall() == [(2,)]


def test_a_failing_executemany_leaves_nothing(connection: Connection) -> None:
    connection.execute("CREATE TABLE t (a int PRIMARY KEY)")
    with pytest.raises(errors.UniqueViolation), connection.cursor() as cursor:
        cursor.executemany("INSERT INTO t VALUES (%s)", [(1,), (2,), (1,)])
    assert connection.execute("SELECT count(*) FROM t").fetchone() == (0,)


def test_a_pipeline(connection: Connection) -> None:
    connection.execute("CREATE TABLE t (a int PRIMARY KEY)")
    with connection.pipeline() as pipeline:
        for number in range(100):
            connection.execute("INSERT INTO t VALUES (%s)", (number,))
        counted = connection.execute("SELECT count(*) FROM t")
        pipeline.sync()
        assert counted.fetchone() == (100,)


def test_an_error_aborts_the_rest_of_a_pipeline(connection: Connection) -> None:
    connection.execute("CREATE TABLE t (a int PRIMARY KEY)")
    with pytest.raises(errors.UniqueViolation), connection.pipeline():
        for number in (1, 1, 2):
            connection.execute("INSERT INTO t VALUES (%s)", (number,))
    assert connection.execute("SELECT count(*) FROM t").fetchone() == (0,)


def test_transactions_and_savepoints(connection: Connection) -> None:
    connection.execute("CREATE TABLE t (a int PRIMARY KEY)")
    with connection.transaction():
        connection.execute("INSERT INTO t VALUES (1)")
        with pytest.raises(errors.UniqueViolation), connection.transaction():
            connection.execute("INSERT INTO t VALUES (2)")
            connection.execute("INSERT INTO t VALUES (1)")
        with connection.transaction(force_rollback=True):
            connection.execute("INSERT INTO t VALUES (3)")
        with connection.transaction():
            connection.execute("INSERT INTO t VALUES (4)")
    with pytest.raises(ZeroDivisionError), connection.transaction():
        connection.execute("INSERT INTO t VALUES (5)")
        raise ZeroDivisionError
    assert connection.execute("SELECT a FROM t ORDER BY a").fetchall() == [(1,), (4,)]


def test_without_autocommit_nothing_is_seen_before_commit(
    server: ShoalServer | PostgresServer, connection: Connection, schema: str
) -> None:
    connection.execute("CREATE TABLE t (a int)")
    with psycopg.connect(server.dsn, options=f"-c search_path={schema}") as other:
        other.execute("INSERT INTO t VALUES (1)")
        assert connection.execute("SELECT count(*) FROM t").fetchone() == (0,)
        other.commit()
        assert connection.execute("SELECT count(*) FROM t").fetchone() == (1,)
        other.execute("DELETE FROM t")
        other.rollback()
    assert connection.execute("SELECT count(*) FROM t").fetchone() == (1,)


def test_isolation_and_read_only_of_the_connection(connection: Connection) -> None:
    connection.execute("CREATE TABLE t (a int)")
    connection.autocommit = False
    connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    connection.read_only = True
    assert connection.execute("SHOW transaction_isolation").fetchone() == ("repeatable read",)
    with pytest.raises(errors.ReadOnlySqlTransaction):
        connection.execute("INSERT INTO t VALUES (1)")
    connection.rollback()


@pytest.mark.parametrize("binary", [False, True], ids=["text", "binary"])
def test_server_side_cursors(connection: Connection, binary: bool) -> None:
    with connection.transaction(), connection.cursor("c", scrollable=True, binary=binary) as cursor:
        cursor.execute("SELECT g, g::text FROM generate_series(1, 1000) g")
        assert cursor.fetchone() == (1, "1")
        assert cursor.fetchmany(2) == [(2, "2"), (3, "3")]
        cursor.scroll(-2)
        assert cursor.fetchone() == (2, "2")
        cursor.scroll(999, mode="absolute")
        assert cursor.fetchall() == [(1000, "1000")]
    with connection.transaction(), connection.cursor("d") as cursor:
        cursor.itersize = 100
        cursor.execute("SELECT g FROM generate_series(1, 1000) g WHERE g %% 2 = %s", (0,))
        assert sum(row[0] for row in cursor) == 250_500


def test_a_cursor_with_hold_outlives_its_transaction(connection: Connection) -> None:
    cursor = connection.cursor("held", withhold=True)
    with connection.transaction():
        cursor.execute("SELECT g FROM generate_series(1, 5) g")
    assert cursor.fetchmany(2) == [(1,), (2,)]
    connection.execute("SELECT 1")
    assert cursor.fetchall() == [(3,), (4,), (5,)]
    cursor.close()


def test_rows_can_be_streamed_and_left(connection: Connection) -> None:
    with connection.cursor() as cursor:
        seen = 0
        for row in cursor.stream("SELECT g FROM generate_series(1, 20000) g"):
            seen += row[0]
        assert seen == 20000 * 20001 // 2
        for _ in cursor.stream("SELECT g FROM generate_series(1, 20000) g"):
            break
    assert connection.execute("SELECT 1").fetchone() == (1,)


def test_copy_in_and_out(connection: Connection) -> None:
    connection.execute("CREATE TABLE t (a int PRIMARY KEY, b text, c numeric, d timestamptz)")
    rows = [(number, f"tab\t and \\ {number}" if number % 3 else None, number / 4, None) for number in range(1000)]
    with connection.cursor() as cursor:
        with cursor.copy("COPY t FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)
        assert cursor.rowcount == 1000
        with cursor.copy("COPY t (a, b) TO STDOUT") as copy:
            copy.set_types(["int4", "text"])
            assert sorted(copy.rows()) == [row[:2] for row in rows]
        with cursor.copy("COPY (SELECT a, b FROM t WHERE a < 2 ORDER BY a) TO STDOUT (FORMAT csv)") as copy:
            assert b"".join(copy) == b"0,\n1,tab\t and \\ 1\n"


def test_a_copy_given_up_leaves_nothing(connection: Connection) -> None:
    connection.execute("CREATE TABLE t (a int)")
    with pytest.raises(ZeroDivisionError), connection.cursor() as cursor, cursor.copy("COPY t FROM STDIN") as copy:
        copy.write("1\n2\n")
        raise ZeroDivisionError
    with pytest.raises(errors.InvalidTextRepresentation), connection.cursor() as cursor:  # noqa: SIM117
        with cursor.copy("COPY t FROM STDIN") as copy:
            copy.write("1\nx\n")
    assert connection.execute("SELECT count(*) FROM t").fetchone() == (0,)


@pytest.mark.parametrize(
    ("statement", "error"),
    [
        ("SELECT 1 FORM t", errors.SyntaxError),
        ("SELECT missing", errors.UndefinedColumn),
        ("SELECT * FROM missing", errors.UndefinedTable),
        ("SELECT missing(1)", errors.UndefinedFunction),
        ("SELECT 'x'::missing", errors.UndefinedObject),
        ("SELECT 1/0", errors.DivisionByZero),
        ("SELECT 2147483647 + 1", errors.NumericValueOutOfRange),
        ("SELECT 'x'::int", errors.InvalidTextRepresentation),
        ("SELECT '2024-02-30'::date", errors.DatetimeFieldOverflow),
        ("SELECT 'abcdef'::varchar(3) || 1/0", errors.DivisionByZero),
        ("INSERT INTO parent VALUES (1)", errors.UniqueViolation),
        ("INSERT INTO parent VALUES (NULL)", errors.NotNullViolation),
        ("INSERT INTO parent VALUES (7, 'too long')", errors.StringDataRightTruncation),
        ("INSERT INTO parent VALUES (-1)", errors.CheckViolation),
        ("INSERT INTO child VALUES (9)", errors.ForeignKeyViolation),
        ("DELETE FROM parent WHERE a = 1", errors.ForeignKeyViolation),
        ("CREATE TABLE parent (a int)", errors.DuplicateTable),
        ("CREATE TABLE u (a int, a int)", errors.DuplicateColumn),
        ("SELECT a FROM parent GROUP BY b", errors.GroupingError),
        ("SELECT (SELECT a FROM (VALUES (1), (2)) v(a))", errors.CardinalityViolation),
        ("SET nothing_like_it = 1", errors.UndefinedObject),
        ("SET statement_timeout = 'x'", errors.InvalidParameterValue),
        ("SAVEPOINT s", errors.NoActiveSqlTransaction),
        ("DROP TABLE parent", errors.DependentObjectsStillExist),
    ],
)
def test_errors_have_their_sqlstates(connection: Connection, statement: str, error: type[psycopg.Error]) -> None:
    connection.execute("CREATE TABLE parent (a int PRIMARY KEY CHECK (a > 0), b varchar(3))")
    connection.execute("CREATE TABLE child (a int REFERENCES parent)")
    connection.execute("INSERT INTO parent VALUES (1)")
    connection.execute("INSERT INTO child VALUES (1)")
    with pytest.raises(error) as caught:
        connection.execute(statement.encode())
    assert caught.value.sqlstate == error.sqlstate


def test_diagnostics_of_a_constraint(connection: Connection, schema: str) -> None:
    connection.execute("CREATE TABLE t (a int CONSTRAINT positive CHECK (a > 0))")
    with pytest.raises(errors.CheckViolation) as caught:
        connection.execute("INSERT INTO t VALUES (-1)")
    given = caught.value.diag
    assert (given.schema_name, given.table_name, given.constraint_name) == (schema, "t", "positive")
    assert given.message_primary == 'new row for relation "t" violates check constraint "positive"'
    assert given.message_detail == "Failing row contains (-1)."


def test_composed_statements_and_client_side_binding(server: ShoalServer | PostgresServer, schema: str) -> None:
    with psycopg.connect(server.dsn, autocommit=True, cursor_factory=psycopg.ClientCursor) as connection:
        connection.execute(
            sql.SQL("CREATE TABLE {} ({} int)").format(sql.Identifier(schema, "T x"), sql.Identifier("A"))
        )
        connection.execute(sql.SQL("INSERT INTO {} VALUES ({})").format(sql.Identifier(schema, "T x"), sql.Literal(5)))
        query = sql.SQL('SELECT "A", {} FROM {}').format(sql.Literal("it's"), sql.Identifier(schema, "T x"))
        assert connection.execute(query).fetchall() == [(5, "it's")]
        assert connection.execute("SELECT %s, %s", ("x", None)).fetchall() == [("x", None)]


def test_several_statements_in_one_string(connection: Connection) -> None:
    cursor = connection.execute("CREATE TABLE t (a int); INSERT INTO t VALUES (1), (2); SELECT a FROM t ORDER BY a")
    assert cursor.nextset()
    assert cursor.rowcount == 2
    assert cursor.nextset()
    assert cursor.fetchall() == [(1,), (2,)]


def test_a_running_statement_can_be_cancelled(connection: Connection) -> None:
    timer = threading.Timer(0.3, connection.cancel)
    timer.start()
    began = time.monotonic()
    with pytest.raises(errors.QueryCanceled):
        connection.execute("SELECT count(*) FROM generate_series(1, 100000) a, generate_series(1, 100000) b")
    assert time.monotonic() - began < 10
    timer.join()
    assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_statement_timeout(connection: Connection) -> None:
    connection.execute("SET statement_timeout = '100ms'")
    with pytest.raises(errors.QueryCanceled):
        connection.execute("SELECT count(*) FROM generate_series(1, 100000) a, generate_series(1, 100000) b")
    connection.execute("RESET statement_timeout")
    assert connection.execute("SELECT 1").fetchone() == (1,)


def test_notices_arrive(connection: Connection) -> None:
    heard: list[str | None] = []
    connection.add_notice_handler(lambda diagnostic: heard.append(diagnostic.message_primary))
    connection.execute("DROP TABLE IF EXISTS nothing_here")
    assert heard == ['table "nothing_here" does not exist, skipping']


async def test_async_connections(server: ShoalServer | PostgresServer, schema: str) -> None:
    options = f"-c search_path={schema}"
    async with await psycopg.AsyncConnection.connect(server.dsn, autocommit=True, options=options) as connection:
        await connection.execute("CREATE TABLE t (a int)")
        async with connection.cursor() as cursor:
            await cursor.executemany("INSERT INTO t VALUES (%s)", [(1,), (2,)])
            await cursor.execute("SELECT sum(a) FROM t")
            assert await cursor.fetchone() == (3,)


def test_void_parameters_are_dropped_from_calls(connection: Connection) -> None:
    assert connection.execute("SELECT now(%s::void) IS NOT NULL", ("",)).fetchone() == (True,)
    with pytest.raises(errors.UndefinedFunction, match=r"function length\(\) does not exist"):
        connection.execute("SELECT length(%s::void)", ("",))
