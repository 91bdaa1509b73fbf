"""Which values can be told apart, grouped and sorted: types with and without equality and order, alone and within
arrays, rows and composite types, wherever SQL compares, beside PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tests.engine.session.conftest import Pair, outcome
from tests.samples import some

_TYPES = {
    "int4": ("1", "2"), "json": ("1", "2"), "point": ("(1,2)", "(3,4)"), "polygon": ("((0,0),(1,1))", "((0,0),(2,2))"),
    "jsonpath": ("$.a", "$.b"), "xid": ("1", "2"),
}  # fmt: skip
"""Each with two values. xid has an equality and no order, the four before it have neither."""
_FORMS = {
    "alone": "{0}.v", "domain": "{0}.d", "array": "ARRAY[{0}.v]", "column of arrays": "{0}.l", "row": "ROW(1, {0}.v)",
    "row that tells itself apart": "ROW({0}.n, {0}.v)", "nested row": "ROW(1, ROW({0}.v))", "composite": "{0}.c",
    "array of composites": "ARRAY[{0}.c]", "composite in a row": "ROW(1, {0}.c)", "array in a row": "ROW(1, {0}.l)",
    "whole row": "{0}", "array of rows": "ARRAY[ROW(1, {0}.v)]",
}  # fmt: skip
_PLACES = (
    "SELECT DISTINCT {0} FROM t",
    "SELECT DISTINCT ON ({0}) 1 FROM t",
    "SELECT count(*) FROM t GROUP BY {0}",
    "SELECT {0} FROM t UNION SELECT {0} FROM t",
    "SELECT {0} FROM t UNION ALL SELECT {0} FROM t",
    "SELECT {0} FROM t EXCEPT SELECT {0} FROM t",
    "SELECT {0} FROM t INTERSECT SELECT {0} FROM t",
    "SELECT n FROM t ORDER BY {0}",
    "SELECT n FROM t ORDER BY {0} DESC",
    "SELECT count(DISTINCT {0}) FROM t",
    "SELECT array_agg({0}) FROM t",
    "SELECT array_agg(DISTINCT {0}) FROM t",
    "SELECT array_agg(n ORDER BY {0}) FROM t",
    "SELECT count(*) FROM t JOIN t b ON {0} = {1}",
    "SELECT count(*) FROM t JOIN t b ON {0} <> {1}",
    "SELECT count(*) FROM t JOIN t b ON {0} < {1}",
    "SELECT count(*) FROM t JOIN t b ON {0} IS DISTINCT FROM {1}",
    "SELECT count(*) FROM t WHERE {0} IN (SELECT {1} FROM t b)",
    "SELECT count(greatest({0}, {1})) FROM t, t b",
    "SELECT count(nullif({0}, {1})) FROM t, t b",
    "SELECT count(*) OVER (PARTITION BY {0}) FROM t",
    "SELECT rank() OVER (ORDER BY {0}) FROM t",
    "SELECT count(*) FROM t JOIN t b ON {0} = ANY (ARRAY[{1}])",
    "SELECT CASE {0} WHEN {1} THEN 1 END FROM t, t b",
    "SELECT mode() WITHIN GROUP (ORDER BY {0}) IS NULL FROM t",
)
_DECLARED = ("alone", "domain", "array", "column of arrays", "composite", "array of composites")
"""What is told by its type alone. Whether rows with a field of xid can be grouped depends on how a plan does it."""
_NOT_HERE = "0A000"
_REFUSED = {
    "OVER (": {*_FORMS} - {"alone", "domain"},
    "= ANY": {"row", "row that tells itself apart", "nested row", "composite in a row", "array in a row", "whole row"},
    "CASE": {"row", "row that tells itself apart", "nested row", "composite in a row", "array in a row", "whole row",
             "array of rows"},
    "mode()": {*_FORMS} - {"alone", "domain"},
}  # fmt: skip
"""What may be refused by name: no more than these forms in these places."""
_EITHER = ("a comparison function", "an equality operator")


def _tables(pair: Pair, type_: str) -> None:
    pair.run(
        f"CREATE TYPE c AS (a int, v {type_})",
        f"CREATE DOMAIN d AS {type_}",
        f"CREATE TABLE t (n int, v {type_}, d d, l {type_}[], c c)",
    )


def _rows(pair: Pair, type_: str, *rows: tuple[int, str]) -> None:
    pair.run("TRUNCATE t")
    for number, value in rows:
        pair.run(
            f"INSERT INTO t VALUES ({number}, '{value}', '{value}', ARRAY['{value}'::{type_}],"
            f" ROW(1, '{value}'::{type_}))"
        )


def _alike(found: tuple[object, ...]) -> tuple[object, ...]:
    """Which of both is missed first by a join, or by IN over a sub-query, depends on how its plan compares."""
    return tuple(item.replace(*_EITHER) if isinstance(item, str) else item for item in found)


def _wrong(pair: Pair, forms: Iterable[str]) -> list[str]:
    """What comes out otherwise, or is refused here."""
    wrong = []
    for form in forms:
        value = _FORMS[form]
        for place in _PLACES:
            sql = place.format(value.format("t"), value.format("b"))
            ours, theirs = outcome(pair.shoal, sql), outcome(pair.postgres, sql)
            if " IN (" in place or "{0} = {1}" in place:
                ours, theirs = _alike(ours), _alike(theirs)
            refused = ours[0] == _NOT_HERE and any(part in place and form in _REFUSED[part] for part in _REFUSED)
            if ours != theirs and not refused:
                wrong.append(f"{form}: {sql}\n  {ours}\n  {theirs}")
    return wrong


@pytest.mark.parametrize("type_", some(_TYPES, 4))
def test_values_are_compared_as_in_postgresql(pair: Pair, type_: str) -> None:
    one, other = _TYPES[type_]
    _tables(pair, type_)
    for rows in ([], [(1, one)], [(1, one), (2, one)], [(1, one), (1, one), (2, other)]):
        _rows(pair, type_, *rows)
        assert not (wrong := _wrong(pair, _DECLARED if type_ == "xid" else _FORMS)), "\n".join(wrong)
