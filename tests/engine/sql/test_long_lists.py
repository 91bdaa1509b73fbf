"""IN over thousands of integers: the same rows and errors as PostgreSQL's, by plans that hold them as one constant."""

from __future__ import annotations

import re
from itertools import product

import numpy as np
import psycopg
import pytest

from catalog.errors import SqlError
from catalog.types.base import Integers
from engine.session.statement_texts import may_read_past
from engine.sql import ast
from engine.sql.normalize import normalize_statement
from engine.sql.parser import parse
from engine.sql.parser.lexer import LONG_LIST
from tests.oracle import PostgresServer
from tests.samples import some
from tests.server import ShoalServer

ITEMS = [*range(-700, 700, 7), *range(10_000, 12_000)]
LARGE = [*ITEMS, 1 << 40]
ROWS = 1500
NULL = ROWS  # the id of a row of NULLs


def listed(items: list[int], separator: str = ", ") -> str:
    found = separator.join(map(str, items))
    assert len(found) >= LONG_LIST
    return found


def where(text: str) -> ast.Node | None:
    (statement,) = parse(text)
    assert isinstance(statement.tree, ast.SelectStmt)
    return statement.tree.where


@pytest.mark.parametrize("separator", [",", ", ", " \n,\t"])
def test_a_long_list_of_integers_is_one_node(separator: str) -> None:
    found = where(f"SELECT 1 FROM t WHERE a IN ( {listed(ITEMS, separator)} )")
    assert isinstance(found, ast.Expression)
    assert isinstance(found.right, ast.IntegerList)
    assert [int(item) for item in found.right.text.split(",")] == found.right.numbers.tolist() == ITEMS


OTHERS = [
    "x", "NULL", "1.5", "'7'", "1 + 1", "/* ten */ 10", "9999999999999999999", "-9999999999999999999", "--5\n+5",
    "1e3", "- 5", "7 -- seven\n", "- -5", "5-4", "\N{SUPERSCRIPT TWO}", "1 /* ) */",
]  # fmt: skip


@pytest.mark.parametrize("item", ["+5", "007", "1000000000000000000"])
def test_integers_may_be_written_in_many_ways(item: str) -> None:
    found = where(f"SELECT 1 FROM t WHERE a IN ({listed(ITEMS)}, {item})")
    assert isinstance(found, ast.Expression)
    assert isinstance(found.right, ast.IntegerList)
    assert found.right.numbers.tolist() == [*ITEMS, int(item)]


WRONG = ("1 2", "1,,2", ",1", "1,", "1, ", "1,\n", " ", "", "1;", "-", "1, -", "+", "1-", "\v8", "0x10", "1_000")


@pytest.mark.parametrize(("wrong", "place"), some(product(WRONG, ["{0}, {1}", "{1}, {0}", "{1}, {0}, {1}"]), 2))
def test_what_is_no_list_is_an_error(wrong: str, place: str) -> None:
    with pytest.raises(SqlError) as caught:
        parse(f"SELECT 1 FROM t WHERE a IN ({place.format(wrong, listed([*ITEMS, *range(5000)]))})")
    assert caught.value.sqlstate == "42601"


@pytest.mark.parametrize("item", OTHERS)
def test_a_list_with_anything_else_is_read_item_by_item(item: str) -> None:
    for text in (f"{listed(ITEMS)}, {item}", f"{item}, {listed(ITEMS)}", f"{listed(ITEMS)}, {item}, {listed(ITEMS)}"):
        found = where(f"SELECT 1 FROM t WHERE a IN ({text})")
        assert isinstance(found, ast.Expression)
        assert isinstance(found.right, ast.ListExpr)
        assert len(found.right.items) in (len(ITEMS) + 1, 2 * len(ITEMS) + 1)


def test_a_definition_keeps_every_item() -> None:
    (statement,) = parse(f"CREATE VIEW v AS SELECT 1 FROM t WHERE a IN ({listed(ITEMS)})")
    assert isinstance(statement.tree, ast.ViewStmt)
    found = statement.tree.query.where
    assert isinstance(found, ast.Expression)
    assert isinstance(found.right, ast.ListExpr)


def test_statistics_show_one_constant_for_a_long_list() -> None:
    text = "SELECT 5, a FROM t WHERE a IN (%s) AND b NOT IN (%s) AND c = 'x'"
    (long,) = parse(text % (listed(ITEMS), listed(LARGE)))
    (short,) = parse(text % (1, 2))
    expected = "SELECT $1, a FROM t WHERE a IN ($2) AND b NOT IN ($3) AND c = $4"
    assert normalize_statement(long, (), True) == normalize_statement(short, (), True)
    assert normalize_statement(long, (), True)[1] == expected
    (quoted,) = parse(text.replace(" a ", ' "a" ') % (listed(ITEMS), listed(LARGE)))  # scanned, not spliced
    assert normalize_statement(quoted, (), True)[1] == expected.replace(" a ", ' "a" ')


@pytest.fixture(scope="module")
def table(shoal: ShoalServer, postgres_server: PostgresServer) -> None:
    for server in (shoal, postgres_server):
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute("CREATE TABLE long_lists (id int PRIMARY KEY, small int2, large int8, exact numeric)")
            connection.execute(
                f"INSERT INTO long_lists SELECT i, i - 700, i, i FROM generate_series(0, {ROWS - 1}) i".encode()
            )
            connection.execute(f"INSERT INTO long_lists (id) VALUES ({NULL})".encode())


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize("path", ["auto", "columnar"])
@pytest.mark.parametrize("items", [ITEMS, LARGE, [*ITEMS, *range(20_000, 25_000)]], ids=["int4", "int8", "many"])
def test_rows_are_those_of_the_list(server: ShoalServer | PostgresServer, items: list[int], path: str) -> None:
    numbers = listed(items)
    members = set(items)
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        if isinstance(server, ShoalServer):
            connection.execute(f"SET shoal.path = {path}".encode())

        def ids(condition: str) -> list[int]:
            text = f"SELECT id FROM long_lists WHERE {condition} ORDER BY id"
            return [row[0] for row in connection.execute(text.encode())]

        inside = [number for number in range(ROWS) if number in members]
        assert ids(f"id IN ({numbers})") == inside
        assert ids(f"large IN ({numbers})") == inside
        assert ids(f"id - 1 IN ({numbers}) AND id > 5") == [n for n in range(6, ROWS + 1) if n - 1 in members]
        assert ids(f"small IN ({numbers})") == [number for number in range(ROWS) if number - 700 in members]
        outside = [number for number in range(ROWS) if number not in members]
        assert ids(f"id NOT IN ({numbers})") == [*outside, NULL]
        assert ids(f"large NOT IN ({numbers})") == outside  # NULL is neither
        assert ids(f"NOT (large IN ({numbers}))") == outside
        assert ids(f"(large IN ({numbers})) IS NULL") == [NULL]
        shown = f"SELECT id IN ({numbers}), large IN ({numbers}), large NOT IN ({numbers}) FROM long_lists"
        rows = connection.execute(f"{shown} WHERE id IN (7, 8, {NULL}) ORDER BY id".encode()).fetchall()
        assert rows == [(True, True, False), (False, False, True), (False, None, None)]


@pytest.mark.usefixtures("table")
def test_other_types_take_the_items_one_by_one(server: ShoalServer | PostgresServer) -> None:
    even = list(range(0, ROWS, 2))
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        text = f"SELECT count(*) FROM long_lists WHERE exact IN ({listed(even)})"
        assert connection.execute(text.encode()).fetchone() == (len(even),)


@pytest.mark.usefixtures("table")
def test_errors_point_at_what_is_wrong(server: ShoalServer | PostgresServer) -> None:
    numbers = listed(ITEMS)
    found = []
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        for text in (
            f"SELECT 1 FROM long_lists WHERE id::text IN ({numbers})",
            f"SELECT 1 FROM long_lists WHERE id IN ({numbers} FROM x",
            f"SELECT 1 FROM long_lists WHERE id IN ({numbers}) AND nothing = 1",
        ):
            with pytest.raises(psycopg.Error) as raised:
                connection.execute(text.encode())
            diagnosis = raised.value.diag
            found.append((diagnosis.sqlstate, diagnosis.message_primary, diagnosis.statement_position))
    at = len("SELECT 1 FROM long_lists WHERE id IN (") + len(numbers)
    assert [state for state, _, _ in found] == ["42883", "42601", "42703"]
    assert [int(str(place)) for _, _, place in found[1:]] == [at + 2, at + len(") AND ") + 1]


@pytest.mark.usefixtures("table")
def test_changes_take_long_lists(server: ShoalServer | PostgresServer) -> None:
    with psycopg.connect(server.dsn) as connection:
        cursor = connection.execute(f"UPDATE long_lists SET large = large + 1 WHERE id IN ({listed(ITEMS)})".encode())
        expected = len(set(ITEMS) & set(range(ROWS)))
        assert cursor.rowcount == expected
        assert connection.execute(f"DELETE FROM long_lists WHERE id NOT IN ({listed(ITEMS)})".encode()).rowcount == (
            ROWS + 1 - expected
        )
        connection.rollback()


@pytest.mark.parametrize("padding", ["", "1, " * 100, "o" * 200, "of " * 5, "O f" * 100])
@pytest.mark.parametrize(
    "text", ["AS OF LSN 5", "as of timestamp 'x'", "As\noF lsn 1", "as  of x", "as of", "asof lsn 1"]
)
def test_a_long_text_that_may_read_the_past_is_recognized(padding: str, text: str) -> None:
    found = re.search(r"\bas\s+of\s+(lsn|timestamp)\b", text, re.IGNORECASE) is not None
    assert may_read_past(f"SELECT {padding} {text} {padding}") == found


def test_integers_become_objects_on_access() -> None:
    numbers = Integers(np.array([3, 1, 2]))
    assert len(numbers) == 3 and numbers.as_array().dimensions == (3,)
    assert list(numbers) == [3, 1, 2] and numbers[1:] == (1, 2) and 2 in numbers
    assert numbers == (3, 1, 2) and numbers == Integers(np.array([3, 1, 2])) != Integers(np.array([3, 1]))
    assert hash(numbers) == hash((3, 1, 2))
