"""Ordered-set aggregates, and window functions as DuckDB runs them, against PostgreSQL."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import psycopg

from catalog.duckdb.nodes import Filled, Words, text_of
from catalog.errors import SqlError
from catalog.functions import registry
from catalog.types import pg_type_by_name
from catalog.types.base import TypeRef
from tests.catalog.functions.calling import decode, encode, native, open_duckdb, postgres_answers, quote, register_udf

VALUES = ("1.5", "2.5", "2.5", "10", "-3", "7")
INTERVALS = ("1 day", "3 days", "1 mon 2 days 03:04:05", "100:00:00", "-1 mon")


def ordered_set(
    source: str, types: Sequence[str], direct: Sequence[str | None], values: Sequence[str], oid: int
) -> str:
    """The Python side's answer; the values are sorted as their type sorts."""
    found = registry.implementation(source)
    assert found is not None
    steps = found.python_aggregate
    references = [TypeRef(pg_type_by_name[name].oid) for name in types]
    if steps is None:
        assert found.aggregate_for_types is not None
        steps = found.aggregate_for_types(references, TypeRef(oid))
    start, step, final = steps
    try:
        state = start(*(decode(name, text) for name, text in zip(types, direct, strict=False)))
        for text in values:
            state = step(state, decode(types[-1], text))
        return encode(oid, final(state))
    except SqlError as error:
        return f"error {error.sqlstate} {error.message}"


def test_percentiles_and_mode(postgres: psycopg.Connection[Any]) -> None:
    cases: list[tuple[str, str, str | None, tuple[str, ...], str, int]] = []
    for fraction, values in itertools.product(("0", "0.25", "0.5", "1", "0.9", "2", None), (VALUES, VALUES[:1], ())):
        for name in ("percentile_cont", "percentile_disc"):
            cases.append((name, "float8", fraction, values, "float8", 701))
    cases += [("percentile_cont", "float8", f, INTERVALS, "interval", 1186) for f in ("0.1", "0.5", "0.77", "1")]
    cases += [("percentile_cont", "_float8", "{0.5,NULL,0.9}", VALUES, "float8", 1022)]
    expected = postgres_answers(
        postgres,
        [
            f"(SELECT {name}({'NULL' if f is None else quote(f)}::{kind}) WITHIN GROUP (ORDER BY v::{of})"
            f" FROM unnest(ARRAY[{', '.join(map(quote, values))}]::text[]) v)"
            for name, kind, f, values, of, _ in cases
        ],
    )
    for (name, kind, fraction, values, of, oid), answer in zip(cases, expected, strict=True):
        source = f"{name}({kind},{'anyelement' if name == 'percentile_disc' else of})"
        ordered = sorted(values, key=lambda text: sort_value(of, text))
        assert ordered_set(source, (kind, of), (fraction,), ordered, oid) == answer, (name, fraction, values)
    assert ordered_set("mode(anyelement)", ("float8",), (), sorted(VALUES, key=float), 701) == "value 2.5"


def sort_value(name: str, text: str) -> Any:
    value: Any = decode(name, text)
    return value if name == "float8" else (value[0] * 30 + value[1]) * 86_400_000_000 + value[2]


WINDOWS = (
    ("window_row_number", (), "row_number()"), ("window_rank", (), "rank()"), ("window_dense_rank", (), "dense_rank()"),
    ("window_percent_rank", (), "percent_rank()"), ("window_cume_dist", (), "cume_dist()"),
    ("window_ntile", ("3",), "ntile(3)"), ("window_lag", ("x",), "lag(x)"), ("window_lead", ("x",), "lead(x)"),
    ("window_lag_with_offset", ("x", "2"), "lag(x, 2)"), ("window_lead_with_offset", ("x", "-1"), "lead(x, -1)"),
    ("window_lag_with_offset_and_default", ("x", "1", "-9"), "lag(x, 1, -9)"),
    ("window_first_value", ("x",), "first_value(x)"), ("window_last_value", ("x",), "last_value(x)"),
    ("window_nth_value", ("x", "2"), "nth_value(x, 2)"),
)  # fmt: skip
AGGREGATES = (("sum(int4)", "sum(x)"), ("avg(int4)", "avg(x)"), ("stddev_pop(int4)", "stddev_pop(x)"),
              ("count(any)", "count(x)"), ("max(int4)", "max(x)"))  # fmt: skip


def test_windows_give_the_same_rows(postgres: psycopg.Connection[Any]) -> None:
    connection = open_duckdb()
    over = " OVER (ORDER BY x)"
    rows = "(VALUES (1), (2), (2), (NULL), (5), (7)) AS t(x)"
    cases = [(source, tuple(map(str, arguments)), sql) for source, arguments, sql in WINDOWS]
    cases += [(source, ("x",), sql) for source, sql in AGGREGATES]
    for source, arguments, sql in cases:
        found = registry.implementation(source)
        assert found is not None and found.duckdb is not None
        for name in found.duckdb_udfs:
            register_udf(connection, name)
        made = native(found.duckdb, [Words(argument) for argument in arguments], [TypeRef(23)])
        assert isinstance(made, Filled)
        text = text_of(made.with_marks("", "", over))
        mine = connection.execute(f"SELECT x, {text} FROM {rows} ORDER BY 1, 2").fetchall()
        theirs = postgres.execute(f"SELECT x, {sql}{over} FROM {rows} ORDER BY 1, 2").fetchall()
        assert [tuple(map(str, row)) for row in mine] == [tuple(map(str, row)) for row in theirs], source
