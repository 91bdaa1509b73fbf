"""pg8000, pure Python: its own interface (parameters in text, unnamed and named statements) and DB-API."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

import pg8000.dbapi
import pg8000.native
import pytest

from tests.drivers.conftest import AnyServer
from tests.drivers.values import CASES, JSON, Case, same

# pg8000 has its own classes for intervals and reads float4 as float.
KINDS = [case for case in CASES if case.type not in ("interval", "timestamp", "timestamptz", "date")]


@pytest.fixture
def connection(server: AnyServer, schema: str) -> Iterator[Any]:
    opened = pg8000.native.Connection("postgres", host="127.0.0.1", port=server.port, database="postgres")
    opened.run(f"SET search_path = {schema}")
    yield opened
    opened.close()


@pytest.mark.parametrize("case", KINDS, ids=lambda case: case.name)
def test_values_come_back_as_they_went_in(connection: Any, case: Case) -> None:
    connection.run(f"CREATE TABLE t (id int PRIMARY KEY, v {case.type})")
    for number, value in enumerate([*case.values, None]):
        connection.run("INSERT INTO t VALUES (:id, :v)", id=number, v=value)
        assert connection.row_count == 1
    rows = connection.run("SELECT v FROM t ORDER BY id")
    for (got,), wanted in zip(rows, [*case.expected, None], strict=True):
        assert same(got, wanted)
    assert [column["name"] for column in connection.columns] == ["v"]


def test_json_and_arrays(connection: Any) -> None:
    connection.run("CREATE TABLE t (id int PRIMARY KEY, v jsonb, a text[], n int4[])")
    for number, value in enumerate(JSON[:-1]):
        numbers = [[1, 2], [3, 4]] if number % 2 else []
        insert = "INSERT INTO t VALUES (:id, CAST(:v AS jsonb), :a, :n)"
        connection.run(insert, id=number, v=json.dumps(value), a=["x", None, 'y"'], n=numbers)
    rows = connection.run("SELECT v, a, n FROM t ORDER BY id")
    assert [row[0] for row in rows] == list(JSON[:-1])
    assert rows[0][1:] == [["x", None, 'y"'], []]
    assert rows[1][2] == [[1, 2], [3, 4]]


def test_prepared_statements(connection: Any) -> None:
    connection.run("CREATE TABLE t (a int PRIMARY KEY, b text)")
    insert = connection.prepare("INSERT INTO t VALUES (:a, :b) RETURNING a + 1")
    for number in range(20):
        assert insert.run(a=number, b=f"row {number}") == [[number + 1]]
    insert.close()
    select = connection.prepare("SELECT b FROM t WHERE a = :a")
    assert select.run(a=7) == [["row 7"]]
    connection.run("ALTER TABLE t ADD COLUMN c int")
    assert select.run(a=8) == [["row 8"]]
    select.close()


def test_transactions_and_errors(connection: Any) -> None:
    connection.run("CREATE TABLE t (a int PRIMARY KEY)")
    connection.run("START TRANSACTION")
    connection.run("INSERT INTO t VALUES (1)")
    with pytest.raises(pg8000.native.DatabaseError) as caught:
        connection.run("INSERT INTO t VALUES (:a)", a=1)
    fields = caught.value.args[0]
    assert (fields["C"], fields["t"], fields["n"]) == ("23505", "t", "t_pkey")
    assert fields["D"] == "Key (a)=(1) already exists."
    with pytest.raises(pg8000.native.DatabaseError) as caught:
        connection.run("SELECT 1")
    assert caught.value.args[0]["C"] == "25P02"
    connection.run("ROLLBACK")
    assert connection.run("SELECT count(*) FROM t") == [[0]]
    for statement, sqlstate in (("SELECT 1 FORM t", "42601"), ("SELECT missing", "42703"), ("SELECT 1 / 0", "22012")):
        with pytest.raises(pg8000.native.DatabaseError) as caught:
            connection.run(statement)
        assert caught.value.args[0]["C"] == sqlstate


def test_copy_in_and_out(connection: Any) -> None:
    connection.run("CREATE TABLE t (a int PRIMARY KEY, b text)")
    connection.run("COPY t FROM STDIN WITH CSV", stream=io.StringIO("1,one\n2,two\n"))
    assert connection.row_count == 2
    out = io.BytesIO()
    connection.run("COPY t TO STDOUT", stream=out)
    assert out.getvalue() == b"1\tone\n2\ttwo\n"


def test_db_api(server: AnyServer, schema: str) -> None:
    opened = pg8000.dbapi.connect("postgres", host="127.0.0.1", port=server.port, database="postgres")
    try:
        cursor = opened.cursor()
        cursor.execute(f"CREATE TABLE {schema}.t (a int PRIMARY KEY, b text)")
        cursor.executemany(f"INSERT INTO {schema}.t VALUES (%s, %s)", [(number, str(number)) for number in range(50)])
        cursor.execute(f"SELECT b FROM {schema}.t WHERE a > %s ORDER BY a", (46,))
        assert cursor.fetchone() == ["47"]
        assert list(cursor.fetchall()) == [["48"], ["49"]]
        opened.rollback()
        cursor.execute("SELECT count(*) FROM pg_tables WHERE schemaname = %s", (schema,))
        assert cursor.fetchone() == [0]
        opened.rollback()
    finally:
        opened.close()
