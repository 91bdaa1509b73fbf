"""Every construct has the value that the dialect's manual gives it, or is refused by name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import duckdb
import psycopg
import pytest

from tests.engine.sql.dialects.constructs import COMMON, CONSTRUCTS, REFUSED, ROW, TABLE
from tests.samples import Part, parts, some
from tests.server import ShoalServer

Connection: TypeAlias = "psycopg.Connection[tuple[object, ...]]"
CASES = [(dialect, *case) for dialect, cases in CONSTRUCTS.items() for case in COMMON + cases]
# What the table says of DuckDB and DuckDB itself shows in another way: a decimal where it has a double.
_NOT_DUCKDB = {"round(f)"}


@pytest.fixture(scope="module")
def table(shoal: ShoalServer) -> Iterator[Connection]:
    with psycopg.connect(shoal.dsn, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA constructs")
        connection.execute("SET search_path TO constructs")
        connection.execute(TABLE.encode())
        connection.execute(ROW.encode())
        yield connection
        connection.execute("RESET sql_dialect")
        connection.execute("DROP SCHEMA constructs CASCADE")


@pytest.mark.parametrize("dialect", some(CONSTRUCTS, 2))
@pytest.mark.parametrize("part", parts(2))
def test_constructs_have_the_value_of_the_manual(table: Connection, dialect: str, part: Part) -> None:
    table.execute(f"SET sql_dialect = '{dialect}'".encode())
    wrong = []
    for sql, expected in part.of(COMMON + CONSTRUCTS[dialect]):
        if expected is REFUSED:
            continue
        try:
            row = table.execute(f"SELECT {sql} FROM t".encode()).fetchone()
        except psycopg.Error as error:
            wrong.append((sql, str(error)))
            continue
        assert row is not None
        if not _is_same(row[0], expected):
            wrong.append((sql, repr(row[0])))
    assert wrong == []


@pytest.mark.parametrize("dialect", CONSTRUCTS)
def test_what_has_no_counterpart_is_refused_with_both_dialects(table: Connection, dialect: str) -> None:
    table.execute(f"SET sql_dialect = '{dialect}'".encode())
    refused = [sql for sql, expected in CONSTRUCTS[dialect] if expected is REFUSED]
    assert len(refused) > 10
    for sql in refused:
        with pytest.raises(psycopg.errors.FeatureNotSupported) as error:
            table.execute(f"SELECT {sql} FROM t".encode())
        message = error.value.diag.message_primary or ""
        assert message.endswith(f'" of the dialect {dialect} has no counterpart in PostgreSQL'), sql


def test_duckdb_itself_gives_the_values_that_the_table_says() -> None:
    """Of the dialects of the table one can be asked here."""
    with duckdb.connect() as connection:
        connection.execute(TABLE)
        connection.execute(ROW)
        wrong = []
        for sql, expected in COMMON + CONSTRUCTS["duckdb"]:
            if expected is REFUSED or sql in _NOT_DUCKDB:
                continue
            row = connection.execute(f"SELECT {sql} FROM t").fetchone()
            assert row is not None
            if not _is_same(row[0], expected):
                wrong.append((sql, repr(row[0])))
        assert wrong == []


def _is_same(found: object, expected: object) -> bool:
    if isinstance(expected, bool) or isinstance(found, bool) or expected is None:
        return found is expected
    if isinstance(expected, float):
        return abs(float(found) - expected) < 1e-12  # type: ignore[arg-type]
    return type(found) is not str and found == expected if not isinstance(expected, str) else found == expected
