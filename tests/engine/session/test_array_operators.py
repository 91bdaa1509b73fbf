"""operator ANY and ALL over arrays, whatever the operands are made of: columns, computed, volatile, sub-queries."""

from __future__ import annotations

from itertools import product

import pytest

from tests.engine.session.conftest import Pair
from tests.samples import Part, parts, some

_LEFT = ("x.a", "3", "(~x.a)", "(SELECT x.a)", "(SELECT max(y.a) FROM x y) - x.a", "NULL::int", "nullif(x.a, 2)")
_RIGHT = (
    "x.v", "'{1,3,NULL}'::int[]", "ARRAY[x.a, 3]", "ARRAY[(SELECT x.a), 2]", "(SELECT x.a) || x.v", "x.v || x.a",
    "array_append(x.v, (SELECT x.a + 1))", "ARRAY(SELECT y.a FROM x y WHERE y.a <= x.a)", "(SELECT x.v)", "NULL::int[]",
    "'{}'::int[]", "coalesce(x.v, '{5}')",
)  # fmt: skip
_OPERATORS = ("=", "<>", "<", ">=")
_OTHERS = ("TRUE", "random() < 2", "EXISTS (SELECT FROM x y WHERE y.a = x.a)")
"""What stands beside: a volatile function has its operands written in another way."""


@pytest.mark.parametrize("operator", some(_OPERATORS, 4))
@pytest.mark.parametrize("part", parts(3))
def test_what_operands_are_made_of(both_paths: Pair, operator: str, part: Part) -> None:
    both_paths.run(
        "CREATE TABLE x (a int PRIMARY KEY, v int[])",
        "INSERT INTO x VALUES (1, '{1,2}'), (2, NULL), (3, '{}'), (4, '{NULL,4}'), (5, '{7}')",
    )
    for number, (left, right, word) in part.of(enumerate(product(_LEFT, _RIGHT, ("ANY", "ALL")))):
        condition = f"{left} {operator} {word} ({right})"
        both_paths.same(
            f"SELECT x.a, {condition} FROM x",
            f"SELECT count(*) FROM x WHERE {condition} AND {_OTHERS[number % len(_OTHERS)]}",
        )
