"""Values of every kind of type as keys and values of JSON objects, by functions and by aggregates."""

from __future__ import annotations

import pytest

from tests.engine.session.conftest import Pair
from tests.samples import some

VALUES = {
    "mood": "sad", "settled": "glad", "int": "1", "uuid": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "date": "2020-01-01",
    "bool": "t", "pair": "(1,a)", "int[]": "{1}", "jsonb": "1", "text": 'a "b"', "inet": "10.0.0.1",
    "interval": "1 day", "timestamptz": "2020-01-01 00:00+00", "timestamp": "2020-01-01", "numeric": "1.50",
    "float8": "0.1", "bytea": r"\x01", "char(3)": "a", "time": "01:00",
    "money": "1.50", "int4range": "[1,3)", "bit(3)": "101",
    "point": "(1,2)", "regclass": "pg_class", "tsvector": "a b", "json": "{}",
}  # fmt: skip


@pytest.mark.parametrize("type_", some(VALUES, 2))
def test_keys_and_values(both_paths: Pair, type_: str) -> None:
    both_paths.run(
        "CREATE TYPE mood AS ENUM ('sad', 'glad')", "CREATE TYPE pair AS (n int, t text)",
        "CREATE DOMAIN settled AS mood", f"CREATE TABLE j (k {type_}, n int)",
        f"INSERT INTO j VALUES ('{VALUES[type_]}', 1), (NULL, 2)",
    )  # fmt: skip
    for kind in ("json", "jsonb"):
        both_paths.same(
            f"SELECT {kind}_object_agg(k, n) FROM j WHERE n = 1", f"SELECT {kind}_object_agg(k, n) FROM j",
            f"SELECT {kind}_object_agg(n, k) FROM j", f"SELECT {kind}_build_object(k, n) FROM j WHERE n = 1",
            f"SELECT {kind}_build_object(n, k) FROM j", f"SELECT {kind}_agg(k) FROM j", f"SELECT to_{kind}(k) FROM j",
            f"SELECT {kind}_object_agg(k, k) FILTER (WHERE n = 1) FROM j",
        )  # fmt: skip
