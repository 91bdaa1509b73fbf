"""A statement without a columnar plan, whose rows are first too large for the row path, and then too many as well."""

from __future__ import annotations

import psycopg
import pytest

from tests.server import ShoalServer

_QUERY = "SELECT t FROM given_up t EXCEPT SELECT NULL"


@pytest.mark.parametrize("statement", [_QUERY, f"COPY ({_QUERY}) TO STDOUT"])
def test_it_is_refused_by_name(shoal: ShoalServer, statement: str) -> None:
    with psycopg.connect(shoal.dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE given_up (id int PRIMARY KEY, v text)")
        try:
            connection.execute("INSERT INTO given_up SELECT n, repeat('a', 40000) FROM generate_series(1, 3000) n")
            with pytest.raises(psycopg.errors.FeatureNotSupported, match="records in set operations"):
                connection.execute(statement.encode())
        finally:
            connection.execute("DROP TABLE given_up")
