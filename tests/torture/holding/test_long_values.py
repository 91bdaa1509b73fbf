"""Values of megabytes that clients send, in each way in which they can be sent, hold nobody."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from itertools import product

import psycopg
import pytest

from tests.samples import some
from tests.server import ShoalServer
from tests.torture.holding.watching import HELD, Watch, one_of_tries

JSON = "[" + '{"a": 1, "b": "xyz"},' * 400_000 + "1]"
TEXT = "abcdefghij" * 8_000_000
ESCAPES = "SELECT length(E'{}')"
STATEMENTS = {
    "a long literal of json": f"INSERT INTO held_json VALUES ('{JSON}')",
    "a long literal of jsonb": f"INSERT INTO held_jsonb VALUES ('{JSON}')",
    "a literal of many escapes": ESCAPES.format(r"a\n" * 2_000_000),
    "many spaces": "SELECT 1" + " " * 30_000_000,
    "a long statement that fails": "SELECT 1 / 0 --" + "0a" * 20_000_000,
    "a literal of four times as many escapes": ESCAPES.format(r"a\n" * 8_000_000),
}
COPIES = [("held_json", JSON), ("held_jsonb", JSON), ("held_text", TEXT[: len(TEXT) // 4]), ("held_text", TEXT)]


@pytest.fixture(scope="module")
def watched() -> Iterator[tuple[psycopg.Connection, Watch]]:
    with ShoalServer() as own, psycopg.connect(own.dsn, autocommit=True) as connection, Watch(own) as watch:
        for type_ in ("json", "jsonb", "text"):
            connection.execute(f"CREATE TABLE held_{type_} (x {type_})".encode())
        yield connection, watch


@pytest.mark.parametrize("name", some(STATEMENTS, 2))
@one_of_tries
def test_statements(watched: tuple[psycopg.Connection, Watch], name: str) -> None:
    connection, watch = watched
    with watch.beside() as seen, contextlib.suppress(psycopg.errors.DataError):
        connection.execute(STATEMENTS[name].encode())
    assert seen.held <= HELD


@pytest.mark.parametrize("type_", ("json", "jsonb"))
@one_of_tries
def test_parameters(watched: tuple[psycopg.Connection, Watch], type_: str) -> None:
    connection, watch = watched
    with watch.beside() as seen:
        connection.execute(f"INSERT INTO held_{type_} VALUES (%s::{type_})".encode(), (JSON,))
    assert seen.held <= HELD


@pytest.mark.parametrize(("table", "text"), some(COPIES, 2), ids=lambda it: it[:9])
@one_of_tries
def test_copy(watched: tuple[psycopg.Connection, Watch], table: str, text: str) -> None:
    connection, watch = watched
    value = text.encode()
    with watch.beside() as seen, connection.cursor().copy(f"COPY {table} FROM STDIN".encode()) as copy:
        for start in range(0, len(value), 1 << 16):
            copy.write(value[start : start + (1 << 16)])
    assert seen.held <= HELD
    last = connection.execute(f"SELECT max(length(x::text)) FROM {table}".encode()).fetchone()
    assert last is not None and last[0] >= len(value)


@pytest.mark.parametrize(
    ("options", "value"), some(product(("", "(FORMAT csv)", "(FORMAT binary)"), (r"a\"b", "abcdef")), 2)
)
@one_of_tries
def test_copy_out(watched: tuple[psycopg.Connection, Watch], value: str, options: str) -> None:
    connection, watch = watched
    connection.execute("CREATE TABLE IF NOT EXISTS held_out (x text)")
    connection.execute("TRUNCATE held_out")
    connection.execute(f"INSERT INTO held_out SELECT repeat(e'{value}\t\n', 1000000)".encode())
    with watch.beside() as seen, connection.cursor().copy(f"COPY held_out TO STDOUT {options}".encode()) as copy:
        assert sum(map(len, copy)) > 5_000_000
    assert seen.held <= HELD


ARRAYS = {"int4": "{" + ",".join(["12345"] * 1_000_000) + "}", "numeric": "{" + ",".join(["1.50"] * 600_000) + "}"}


@pytest.mark.parametrize(("road", "element"), some(product(("literal", "text", "binary"), ARRAYS), 8))
@one_of_tries
def test_arrays_of_many_elements(watched: tuple[psycopg.Connection, Watch], element: str, road: str) -> None:
    connection, watch = watched
    connection.execute(f"CREATE TABLE IF NOT EXISTS held_{element} (x {element}[])".encode())
    insert, given = f"INSERT INTO held_{element} VALUES", ARRAYS[element]
    if road == "binary":
        connection.execute(f"{insert} ($${given}$$)".encode())
        found = connection.pgconn.exec_params(f"SELECT x FROM held_{element} LIMIT 1".encode(), [], result_format=1)
        binary = found.get_value(0, 0)
    with watch.beside() as seen:
        if road == "literal":
            connection.execute(f"{insert} ('{given}')".encode())
        elif road == "text":
            connection.pgconn.exec_params(f"{insert} ($1)".encode(), [given.encode()])
        else:
            connection.pgconn.exec_params(f"{insert} ($1)".encode(), [binary], param_formats=[1])
    assert seen.held <= HELD
    last = connection.execute(f"SELECT min(cardinality(x)), min(x[9]) FROM held_{element}".encode()).fetchone()
    assert last is not None and last[0] == given.count(",") + 1 and str(last[1]) == given[1 : given.index(",")]
