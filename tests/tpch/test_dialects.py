"""The 22 queries of TPC-H, written for other databases, give PostgreSQL's answers."""

from __future__ import annotations

import re
from itertools import product

import pytest

from tests.samples import some
from tests.tpch.test_queries import HERE, QUERIES, Connection, servers

__all__ = ["servers"]
WRITTEN = {
    path.stem: dict(re.findall(r"-- Q(\d+)\n(.*?;)", path.read_text(), re.DOTALL))
    for path in sorted((HERE / "dialects").glob("*.sql"))
}


def test_all_queries_are_there_in_all_dialects() -> None:
    assert set(WRITTEN) == {"bigquery", "mysql", "snowflake", "spark", "tsql"}
    assert all(queries.keys() == QUERIES.keys() for queries in WRITTEN.values())


@pytest.mark.parametrize(("dialect", "number"), some(product(WRITTEN, QUERIES), 9))
def test_query(servers: tuple[Connection, Connection], dialect: str, number: str) -> None:
    postgres, ours = servers
    expected = postgres.execute(QUERIES[number].encode()).fetchall()
    ours.execute(f"SET sql_dialect = '{dialect}'".encode())
    try:
        found = ours.execute(WRITTEN[dialect][number].encode()).fetchall()
    finally:
        ours.execute("RESET sql_dialect")
    assert found == expected
