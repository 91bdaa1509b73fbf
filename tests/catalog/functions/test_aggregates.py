"""Aggregates against PostgreSQL, both sides: over none, one and many rows, with NULLs and extremes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import duckdb
import psycopg
import pytest

from catalog.duckdb.nodes import Filled, Identifier, text_of
from catalog.errors import SqlError
from catalog.functions import registry
from catalog.functions.duckdb_errors import translate
from catalog.types import array_of, lookup, pg_type_by_name
from catalog.types.base import TypeRef
from tests.catalog.functions.calling import (
    NUMERIC,
    decode,
    duckdb_literal,
    duckdb_value,
    encode,
    native,
    open_duckdb,
    postgres_answers,
    quote,
    register_udf,
)
from tests.samples import some

Rows = Sequence[tuple[str | None, ...]]
POLYMORPHIC = {"anyelement", "anynonarray", "any", "anyarray"}

INTEGERS = [[], ["1"], [None], ["1", None, "-7", "7", "7", "12"], ["32767"] * 3, ["-5", "4"]]
INT4 = [*INTEGERS, ["2147483647"] * 4, ["-2147483648", "2147483647"]]
INT8 = [*INT4, ["9223372036854775807"] * 3, ["-9223372036854775808"] * 2]
NUMERICS = [[], [None], ["1.10"], ["1.10", None, "2.5", "-3", "2.50"], ["0.00", "0"], ["NaN", "1"], ["Infinity", "1"],
            ["Infinity", "-Infinity"], ["123456789.123"] * 7, ["99999999999999999999.99"] * 3, ["1e-20",
            "5"]]  # fmt: skip
FLOATS = [[], [None], ["1.5"], ["1.5", None, "2.25", "-3"], ["NaN", "1"], ["Infinity", "1"], ["Infinity", "-Infinity"],
          ["1e38", "1e38"], ["0.1", "0.2", "0.3"], ["5", "5", "5"]]  # fmt: skip
BIG_FLOATS = [*FLOATS, ["1e308", "1e308"], ["1e200", "1e200", "3"]]
FLOAT_TYPES = ("float4", "float8")
TEXTS = [[], [None], ["a"], ["b", None, "a", "é", "", "B"]]
STATISTICS = "variance var_samp var_pop stddev stddev_samp stddev_pop"

CASES = [
    ("sum avg max min bit_and bit_or bit_xor " + STATISTICS, "int2", INTEGERS),
    ("sum avg max min bit_and bit_or bit_xor " + STATISTICS, "int4", INT4),
    ("sum avg max min bit_and bit_or bit_xor " + STATISTICS, "int8", INT8),
    ("sum avg max min " + STATISTICS, "numeric", NUMERICS),
    ("sum avg max min " + STATISTICS, "float4", FLOATS),
    ("sum avg max min " + STATISTICS, "float8", BIG_FLOATS),
    ("max min", "text", TEXTS),
    ("bool_and bool_or every", "bool", [[], [None], ["t"], ["t", None, "f"], ["f", None]]),
    ("max min", "bpchar", [["a ", "b", "B"], ["a", "a\t"]]),
]


def find(name: str, types: Sequence[str]) -> Any:
    oids = tuple(pg_type_by_name[item].oid for item in types)
    named = [function for function in registry.functions_named(name) if function.kind == "a"]
    exact = [function for function in named if function.argument_types == oids]
    polymorphic = [f for f in named if f.argument_types and lookup_name(f.argument_types[0]) in POLYMORPHIC]
    return (exact or polymorphic)[0]


def lookup_name(oid: int) -> str:
    return next(row.name for row in pg_type_by_name.values() if row.oid == oid)


def result_oid(function: Any, types: Sequence[str]) -> int:
    declared = lookup_name(function.result_type)
    oid = pg_type_by_name[types[-1]].oid
    return array_of(oid) if declared == "anyarray" else oid if declared in POLYMORPHIC else function.result_type


def values_sql(types: Sequence[str], rows: Rows) -> str:
    shown = [
        "(" + ", ".join("NULL" if item is None else quote(item) for item in row) + f", {number})"
        for number, row in enumerate(rows)
    ] or ["(" + "NULL, " * len(types) + "0)"]
    columns = ", ".join(f"c{number}" for number in range(len(types)))
    return f"(VALUES {', '.join(shown)}) AS t({columns}, n)" + ("" if rows else " WHERE false")


def postgres_sql(name: str, types: Sequence[str], rows: Rows, distinct: str) -> str:
    arguments = ", ".join(f"c{number}::{item}" for number, item in enumerate(types))
    order = "" if distinct else " ORDER BY n"
    return f"(SELECT {name}({distinct}{arguments}{order}) FROM {values_sql(types, rows)})"


def python_answer(function: Any, types: Sequence[str], rows: Rows) -> str:
    found = registry.implementation(function.source)
    assert found is not None, function.source
    references = [TypeRef(pg_type_by_name[item].oid) for item in types]
    result = result_oid(function, types)
    steps = found.python_aggregate
    if steps is None:
        assert found.aggregate_for_types is not None
        steps = found.aggregate_for_types(references, TypeRef(result))
    start, step, final = steps
    try:
        state = start()
        for row in rows:
            values = [decode(item, text) for item, text in zip(types, row, strict=True)]
            if found.steps_see_nulls or None not in values:
                state = step(state, *values)
        return encode(result, final(state))
    except SqlError as error:
        return f"error {error.sqlstate} {error.message}"


def numeric_column_form(rows: Rows) -> TypeRef | None:
    """DECIMAL(p,s) of a column; None where its values do not share a scale (then it is a general one)."""
    values: list[Any] = [decode("numeric", row[0]) for row in rows if row[0] is not None]
    if any(not value.is_finite() for value in values) or len({value.as_tuple().exponent for value in values}) != 1:
        return None
    scale = -values[0].as_tuple().exponent
    precision = max(max(value.adjusted() + 1, 1) for value in values) + scale
    return TypeRef(NUMERIC, ((precision << 16) | scale) + 4)


def duckdb_answer(connection: Any, function: Any, types: Sequence[str], rows: Rows, distinct: str) -> str | None:
    found = registry.implementation(function.source)
    assert found is not None
    forms = [TypeRef(pg_type_by_name[item].oid) for item in types]
    if types[0] == "numeric":
        form = numeric_column_form(rows)
        if form is None:
            return None
        forms[0] = form
    columns = [f"c{number}" for number in range(len(types))]
    made = native(found.duckdb, [Identifier(column) for column in columns], forms)
    if made is None:
        return None
    for source in found.duckdb_udfs:
        register_udf(connection, source)
    # Where the order makes a difference, the engine has DuckDB take distinct values in PostgreSQL's.
    order = ("" if types[0] not in FLOAT_TYPES else " ORDER BY c0") if distinct else " ORDER BY n"
    assert isinstance(made, Filled)
    sql = text_of(made.with_marks(distinct, order, ""))
    body = ", ".join(
        "(" + ", ".join([*(duckdb_literal(t, x, f) for t, x, f in zip(types, row, forms, strict=True)), str(n)]) + ")"
        for n, row in enumerate(rows or [(None,) * len(types)])
    )
    source = f"(VALUES {body}) AS t({', '.join(columns)}, n)" + ("" if rows else " WHERE false")
    result = found.duckdb_result(forms) if found.duckdb_result else TypeRef(result_oid(function, types))
    try:
        kind, value = connection.execute(f"SELECT typeof(x), x FROM (SELECT {sql} AS x FROM {source})").fetchone()
    except duckdb.Error as error:
        translated = translate(str(error))
        return f"error {translated.sqlstate} {translated.message}"
    expected = lookup(result.oid).duckdb_type(result.typmod)
    return duckdb_value(result, value) if kind in (expected, '"NULL"') else f"is {kind}, not {expected}"


def compare(postgres: psycopg.Connection[Any], name: str, types: Sequence[str], many: Sequence[Rows]) -> list[str]:
    function, connection = find(name, types), open_duckdb()
    different: list[str] = []
    for distinct in ("", "DISTINCT "):
        expected = postgres_answers(postgres, [postgres_sql(name, types, rows, distinct) for rows in many])
        for rows, answer in zip(many, expected, strict=True):
            mine = {"duckdb": duckdb_answer(connection, function, types, rows, distinct)}
            if not distinct:
                mine["python"] = python_answer(function, types, rows)
            different += [
                f"{side}: {name}({distinct}{rows}): {text!r} instead of {answer!r}"
                for side, text in mine.items()
                if text is not None and text != answer and not text.startswith("error 0A000")
            ]
    return different


@pytest.mark.parametrize(("names", "type_name", "many"), some(CASES, 2))
def test_aggregates_of_one_argument(
    postgres: psycopg.Connection[Any], names: str, type_name: str, many: Sequence[Sequence[str | None]]
) -> None:
    rows = [[(value,) for value in values] for values in many]
    different = [line for name in names.split() for line in compare(postgres, name, (type_name,), rows)]
    assert not different, "\n".join(different[:30])


def test_counts_and_collecting(postgres: psycopg.Connection[Any]) -> None:
    rows: list[Rows] = [[], [(None,)], [("1",), (None,), ("1",)]]
    texts: list[Rows] = [[], [(None, ",")], [("a", ","), (None, ";"), ("b", ";"), ("c", None), ("", "-"), ("d", "/")]]
    different = compare(postgres, "count", ("int4",), rows)
    different += compare(postgres, "string_agg", ("text", "text"), texts)
    assert not different, "\n".join(different)


def test_regressions(postgres: psycopg.Connection[Any]) -> None:
    many: list[Rows] = [[], [("1", "2")], [(None, "1")], [("1", "2"), ("2", "3"), ("4", "7.5"), (None, "3")],
                        [("1", "1"), ("2", "1")], [("1", "1"), ("1", "2")], [("NaN", "1"), ("2", "3")],
                        [("1e300", "1"), ("-1e300", "2")], [("Infinity", "1"), ("2", "2")]]  # fmt: skip
    names = (
        "regr_count regr_sxx regr_syy regr_sxy regr_avgx regr_avgy regr_r2 regr_slope regr_intercept "
        "covar_pop covar_samp corr"
    )
    different = [line for name in names.split() for line in compare(postgres, name, ("float8", "float8"), many)]
    assert not different, "\n".join(different[:30])
