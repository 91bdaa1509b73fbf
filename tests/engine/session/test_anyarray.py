"""Values of anyarray, whose element type nobody knows: what takes one array takes them, nothing else does."""

from __future__ import annotations

import pytest

from tests.engine.session.conftest import Pair

NULL = "CAST(NULL AS anyarray)"


@pytest.mark.parametrize("operator", ["&&", "@>", "<@", "=", "<", ">=", "||"])
def test_two_of_them_have_no_operator(both_paths: Pair, operator: str) -> None:
    both_paths.same(f"SELECT {NULL} {operator} {NULL}", f"SELECT {NULL} {operator} ARRAY[1]")


@pytest.mark.parametrize(
    "call",
    [
        "array_length({}, 1)", "cardinality({})", "array_dims({})", "array_to_string({}, ',')", "array_append({}, 1)",
        "array_cat({0}, {0})", "array_position({}, 1)",
    ],
)  # fmt: skip
def test_functions_take_one_of_them(both_paths: Pair, call: str) -> None:
    both_paths.same(f"SELECT {call.format(NULL)}")


def test_columns_of_statistics_are_read(both_paths: Pair) -> None:
    both_paths.same("SELECT max(most_common_vals), count(histogram_bounds) FROM pg_stats WHERE tablename = 'none'")
