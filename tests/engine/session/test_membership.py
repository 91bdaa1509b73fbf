"""x IN (...), = ANY and <> ALL of many elements, for values of every type: what is found, NULLs, and the time it takes.

Values that are equal are written in several ways: an element is found by a key, and equal values must have one.
"""

from __future__ import annotations

import time
from itertools import product

import pytest

from tests.engine.session.conftest import Pair
from tests.samples import some

VALUES = {
    "int2": ("1", "2", "-3"), "int8": ("1", "2", "9223372036854775807"),
    "numeric": ("1", "1.0", "1.50", "NaN", "Infinity", "-0.0"), "numeric(10,2)": ("1", "1.00", "1.5"),
    "float8": ("1", "-0", "0", "NaN", "1e300"), "float4": ("1", "-0", "0", "NaN", "0.1"), "bool": ("t", "f"),
    "text": ("a", "a ", "", "\N{LATIN SMALL LETTER E WITH ACUTE}"), "varchar(4)": ("a", "ab", "a "), "name": ("a", "b"),
    "char(4)": ("a", "a ", "b"), '"char"': ("a", "b"), 'text COLLATE "en-x-icu"': ("a", "A", "b"),
    "bytea": (r"\x00", r"\x61"), "uuid": ("a0eebc999c0b4ef8bb6d6bb9bd380a11", "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11"),
    "date": ("2020-01-01", "infinity", "4713-01-01 BC"), "time": ("01:00", "24:00"),
    "timetz": ("01:00+00", "02:00+01", "02:00+00"), "timestamp": ("2020-01-01", "-infinity"),
    "timestamptz": ("2020-01-01 00:00+00", "2020-01-01 01:00+01"), "inet": ("10.0.0.1", "10.0.0.1/32", "::1"),
    "interval": ("1 month", "30 days", "720:00:00", "1 h"),
    "jsonb": ("1", "1.0", '{"a": 1, "b": [2]}', '{"b": [2], "a": 1}', "null"),
    "int4[]": ("{1,2}", "[0:1]={1,2}", "{}", "{NULL}"), "text[]": ("{a,b}", "{}"), "mood": ("sad", "glad"),
    "pair": ("(1,a)", "(1,)", "(2,a)"), "oid": ("1", "2"), "tsvector": ("a b", "b a", "a:1 b"),
    "money": ("1", "2.50"), "bit(3)": ("101", "111"), "macaddr": ("08:00:2b:01:02:03", "08002b:010203"),
}  # fmt: skip


@pytest.fixture
def typed(both_paths: Pair) -> Pair:
    both_paths.run("CREATE TYPE mood AS ENUM ('sad', 'glad')", "CREATE TYPE pair AS (n int, t text)")
    return both_paths


@pytest.mark.parametrize("type_", some(VALUES, 3))
def test_many_elements_of_a_type(typed: Pair, type_: str) -> None:
    values, plain = VALUES[type_], type_.partition(" COLLATE")[0]
    typed.same(f"CREATE TABLE m (k int, x {type_})")
    for number, value in enumerate(values):
        typed.run(f"INSERT INTO m VALUES ({number}, '{value}')")
    typed.run("INSERT INTO m VALUES (100, NULL)")
    for left_out, has_null, operator in product((0, 1), (False, True), ("=", "<>")):
        literals = [f"'{value}'" for value in values[left_out:] for _ in range(12 // len(values) + 1)]
        if has_null:
            literals.insert(3, "NULL")
        items, array = ", ".join(literals), f"ARRAY[{', '.join(literals)}]::{plain}[]"
        word, listed = ("ANY", "IN") if operator == "=" else ("ALL", "NOT IN")
        typed.same(
            f"SELECT k FROM m WHERE x {listed} ({items})",
            f"SELECT k, x {listed} ({items}) FROM m",
            f"SELECT k, x {operator} {word} ({array}) FROM m",
            f"SELECT k FROM m WHERE NOT x {operator} {word} ({array})",
            f"SELECT m.k, m.x {operator} {word} (a) FROM m, (VALUES ({array}), (NULL), ('{{}}')) v(a)",
            f"SELECT m.k, m.x {operator} {word} (array_agg(o.x)) FROM m, m o GROUP BY m.k, m.x",
        )
        if not plain.endswith("[]"):
            typed.run(f"PREPARE q (text) AS SELECT k, x {operator} {word} ($1::{plain}[]) FROM m")
            typed.same(f"EXECUTE q ('{array_text(literals)}')", "EXECUTE q (NULL)", "EXECUTE q ('{}')")
            typed.run("DEALLOCATE q")


def array_text(literals: list[str]) -> str:
    """The text of an array of values that are written as literals."""
    items = [item.strip("'").replace("\\", r"\\").replace('"', r"\"") for item in literals]
    return f"{{{', '.join(item if item == 'NULL' else chr(34) + item + chr(34) for item in items)}}}"


@pytest.mark.parametrize(
    ("type_", "made"),
    [
        ("int8", "i"), ("numeric", "i"), ("numeric(12,2)", "i"), ("text", "'k' || i"),
        ("date", "date '2000-01-01' + i"),
        ("uuid", "md5(i::text)::uuid"), ("jsonb", "to_jsonb(i)"), ("interval", "i * interval '1 day'"),
        ('text COLLATE "en-x-icu"', "'k' || i"),
    ],
)  # fmt: skip
def test_rows_are_not_compared_with_each_element(both_paths: Pair, type_: str, made: str) -> None:
    """1,500 elements and 5,000 rows would be 7.5 million comparisons: a minute of those that need a key."""
    both_paths.run(
        f"CREATE TABLE m (k int, x {type_})", f"INSERT INTO m SELECT i, {made} FROM generate_series(1, 5000) i"
    )
    found = both_paths.postgres.execute("SELECT x::text FROM m WHERE k % 3 = 0 AND k <= 4500").fetchall()
    items = ", ".join(f"'{value}'" for (value,) in found)
    for statement in (
        f"SELECT count(*) FROM m WHERE x IN ({items})",
        f"SELECT count(*) FROM m WHERE x NOT IN ({items})",
    ):
        began = time.monotonic()
        both_paths.same(statement)
        assert time.monotonic() - began < 10
