"""psqlODBC under unixODBC, through pyodbc: the driver that office programs and report tools bring."""

from __future__ import annotations

import datetime as dt
import pathlib
import uuid
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from tests.drivers.conftest import AnyServer

DRIVERS = sorted(pathlib.Path("/usr/lib").glob("*/odbc/psqlodbcw.so"))
pyodbc: Any = pytest.importorskip("pyodbc", reason="unixODBC is not installed", exc_type=ImportError)
pytestmark = pytest.mark.skipif(not DRIVERS, reason="odbc-postgresql is not installed")


@pytest.fixture
def connection(server: AnyServer, schema: str) -> Iterator[Any]:
    text = f"Driver={DRIVERS[-1]};Server=127.0.0.1;Port={server.port};Database=postgres;Uid=postgres;BoolsAsChar=0"
    opened = pyodbc.connect(text)
    opened.execute(f"SET search_path = {schema}")
    opened.execute("SET TimeZone = 'UTC'")
    opened.commit()
    yield opened
    opened.close()


VALUES: tuple[tuple[str, tuple[object, ...]], ...] = (
    ("bool", (True, False)),
    ("int2", (-32768, 32767)),
    ("int4", (-(2**31), 2**31 - 1)),
    ("int8", (-(2**63), 2**63 - 1)),
    ("float8", (0.1, -1.5e300)),
    ("numeric(12,4)", (Decimal("1.1000"), Decimal("-99999999.9999"))),
    ("text", ("", "äöü ß 漢字", 'it\'s \\ "quoted"\t\n')),
    ("varchar(20)", ("ünïcode",)),
    ("bytea", (b"\0\1\xff", b"")),
    ("date", (dt.date(2000, 2, 29),)),
    ("time", (dt.time(12, 30, 15),)),
    ("timestamp", (dt.datetime(2024, 2, 29, 12, 0, 0, 123456),)),
    ("uuid", (uuid.UUID("f47ac10b-58cc-4372-a567-0e02b2c3d479"),)),
)


@pytest.mark.parametrize(("kind", "values"), VALUES, ids=[kind for kind, _ in VALUES])
def test_values_come_back_as_they_went_in(connection: Any, kind: str, values: tuple[object, ...]) -> None:
    cursor = connection.cursor()
    cursor.execute(f"CREATE TABLE t (id int PRIMARY KEY, v {kind})")
    for number, value in enumerate([*values, None]):
        cursor.execute("INSERT INTO t VALUES (?, ?)", number, value)
        assert cursor.rowcount == 1
    connection.commit()
    rows = cursor.execute("SELECT v FROM t ORDER BY id").fetchall()
    got = [uuid.UUID(row[0]) if kind == "uuid" and row[0] is not None else row[0] for row in rows]
    assert got == [*values, None]


def test_statements_transactions_and_errors(connection: Any) -> None:
    cursor = connection.cursor()
    cursor.execute("CREATE TABLE people (id serial PRIMARY KEY, name text UNIQUE NOT NULL, age int CHECK (age >= 0))")
    cursor.executemany("INSERT INTO people (name, age) VALUES (?, ?)", [(f"p{number}", number) for number in range(50)])
    connection.commit()
    assert tuple(cursor.execute("SELECT count(*), sum(age) FROM people WHERE age > ?", 40).fetchone()) == (9, 405)
    cursor.execute("DELETE FROM people WHERE age > ?", 40)
    assert cursor.rowcount == 9
    connection.rollback()
    assert cursor.execute("SELECT count(*) FROM people").fetchval() == 50
    for statement, sqlstate in (
        ("INSERT INTO people (name) VALUES ('p1')", "23505"),
        ("INSERT INTO people (age) VALUES (1)", "23502"),
        ("INSERT INTO people (name, age) VALUES ('x', -1)", "23514"),
        ("SELECT 1 FORM people", "42601"),
        ("SELECT missing FROM people", "42703"),
        ("SELECT 1 / 0", "22012"),
    ):
        with pytest.raises(pyodbc.Error) as caught:
            cursor.execute(statement).fetchall()
        assert caught.value.args[0] == sqlstate
        connection.rollback()
    assert cursor.execute("SELECT 1").fetchval() == 1


def test_the_catalog_through_odbc(connection: Any, schema: str) -> None:
    cursor = connection.cursor()
    cursor.execute(
        "CREATE TABLE people (id serial PRIMARY KEY, name varchar(40) NOT NULL, balance numeric(12,2) DEFAULT 0)"
    )
    cursor.execute("CREATE TABLE orders (id int8 PRIMARY KEY, person int NOT NULL REFERENCES people ON DELETE CASCADE)")
    cursor.execute("CREATE INDEX by_person ON orders (person)")
    cursor.execute("CREATE VIEW rich AS SELECT * FROM people WHERE balance > 100")
    connection.commit()
    tables = [(row.table_name, row.table_type) for row in cursor.tables(schema=schema)]
    assert tables == [("orders", "TABLE"), ("people", "TABLE"), ("rich", "VIEW")]
    columns = [
        (row.column_name, row.type_name, row.column_size, row.nullable)
        for row in cursor.columns("people", schema=schema)
    ]
    assert columns == [("id", "int4", 10, 0), ("name", "varchar", 40, 0), ("balance", "numeric", 12, 1)]
    assert [row.column_name for row in cursor.primaryKeys("people", schema=schema)] == ["id"]
    keys = [
        (row.fktable_name, row.fkcolumn_name, row.pkcolumn_name) for row in cursor.foreignKeys("people", schema=schema)
    ]
    assert keys == [("orders", "person", "id")]
    indexes = {row.index_name for row in cursor.statistics("orders", schema=schema) if row.index_name}
    assert indexes == {"orders_pkey", "by_person"}
    assert connection.getinfo(pyodbc.SQL_DBMS_NAME) == "PostgreSQL"
