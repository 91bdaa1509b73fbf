"""Python functions in DuckDB, by kind of signature."""

from __future__ import annotations

from typing import Any

import duckdb
import pytest

from catalog.functions.base import Implementation
from catalog.functions.duckdb_errors import translate
from catalog.types import oids
from catalog.types.base import FormatSettings, TypeRef
from engine.columnar.interface import UdfSignature, settings_text
from engine.columnar.worker import calls, udf

INT8, TEXT, DATE = TypeRef(oids.INT8), TypeRef(oids.TEXT), TypeRef(oids.DATE)

IMPLEMENTATIONS = {
    "pairs": Implementation(python=lambda count: [(n, f"text {n}") for n in range(count)]),
    "counting": Implementation(python=lambda count: list(range(count)) if count >= 0 else None),
    "zone": Implementation(python=lambda context, value: f"{context.timezone} {value}", needs_context=True),
    "now": Implementation(python=lambda context: context.statement_time, needs_context=True),
    "next": Implementation(python=iter(range(100)).__next__),
    "total": Implementation(python_aggregate=(lambda: 0, lambda state, value: state + value, lambda state: state)),
    "nth": Implementation(
        python_aggregate=(
            lambda place: (place, []),
            lambda state, value: (state[0], [*state[1], value]),
            lambda state: state[1][state[0]] if len(state[1]) > state[0] else None,
        )
    ),
    "long": Implementation(python=lambda count: "x" * count),
    "parts": Implementation(python=lambda count: ["x" * 1000] * 10 + ["y" * 5000] * count),
    "typed": Implementation(python_for_types=lambda arguments, result: lambda value: f"{arguments[0].oid}:{value}"),
}


@pytest.fixture
def connection(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(udf, "implementation", IMPLEMENTATIONS.get)
    return duckdb.connect()


def signature(
    kind: str, source: str, arguments: list[tuple[TypeRef, str]], result: tuple[TypeRef, str], **more: Any
) -> UdfSignature:
    types = tuple(reference for reference, _ in arguments)
    forms = tuple(form for _, form in arguments)
    return UdfSignature("f", kind, source, types, forms, result[0], result[1], **more)


def test_a_set_comes_as_a_list(connection: Any) -> None:
    udf.register(connection, signature("set", "counting", [(INT8, "BIGINT")], (INT8, "BIGINT[]")))
    rows = connection.sql("SELECT f(x) FROM (VALUES (2), (0), (NULL), (-1)) AS t (x)").fetchall()
    assert rows == [([0, 1],), ([],), (None,), (None,)]


def test_records_come_as_structs(connection: Any) -> None:
    made = signature(
        "set",
        "pairs",
        [(INT8, "BIGINT")],
        (TypeRef(oids.RECORD), "STRUCT(f1 BIGINT, f2 VARCHAR)[]"),
        result_fields=(INT8, TEXT),
    )
    udf.register(connection, made)
    assert connection.sql("SELECT unnest(f(2), recursive := true)").fetchall() == [(0, "text 0"), (1, "text 1")]


def test_the_context_comes_before_the_arguments(connection: Any) -> None:
    udf.register(connection, signature("function", "zone", [(INT8, "BIGINT")], (TEXT, "VARCHAR"), context="call"))
    settings = settings_text(FormatSettings(timezone="Europe/Prague"))
    times = "TIMESTAMP '2000-01-01 00:00:01', TIMESTAMP '2000-01-01'"
    sql = f"SELECT f($1, {times}, x) FROM (VALUES (1), (NULL), (3)) AS t (x)"
    rows = connection.sql(sql, params=[settings]).fetchall()
    assert rows == [("Europe/Prague 1",), (None,), ("Europe/Prague 3",)]


def test_a_function_of_the_context_alone(connection: Any) -> None:
    udf.register(connection, signature("function", "now", [], (INT8, "BIGINT"), context="call"))
    sql = "SELECT f($1, TIMESTAMP '2000-01-01 00:00:01', TIMESTAMP '2000-01-01') FROM range(2)"
    assert connection.sql(sql, params=[settings_text(FormatSettings())]).fetchall() == [(1_000_000,), (1_000_000,)]


def test_a_volatile_function_without_arguments_is_called_for_each_row(connection: Any) -> None:
    udf.register(connection, signature("function", "next", [], (INT8, "BIGINT"), volatile=True))
    assert len({row[0] for row in connection.sql("SELECT f() FROM range(5)").fetchall()}) == 5


@pytest.mark.parametrize("strict, expected", [(True, 3), (False, "error")])
def test_an_aggregate_runs_over_the_list_of_its_group(connection: Any, strict: bool, expected: object) -> None:
    udf.register(connection, signature("aggregate", "total", [(INT8, "BIGINT[]")], (INT8, "BIGINT"), strict=strict))
    sql = "SELECT f(list(x)) FROM (VALUES (1), (2), (NULL)) AS t (x)"
    if strict:
        assert connection.sql(sql).fetchall() == [(expected,)]
        assert connection.sql("SELECT f(list(x)) FROM (SELECT 1 AS x WHERE false)").fetchall() == [(0,)]
    else:
        with pytest.raises(duckdb.Error):
            connection.sql(sql).fetchall()


def test_direct_arguments_go_to_the_state_maker(connection: Any) -> None:
    arguments = [(INT8, "BIGINT"), (TEXT, "VARCHAR[]")]
    udf.register(connection, signature("aggregate", "nth", arguments, (TEXT, "VARCHAR"), direct=1))
    rows = "(VALUES (1, 'b'), (1, 'a'), (2, 'c')) AS t (g, x)"
    sql = f"SELECT g, f(1, list(x ORDER BY x)) FROM {rows} GROUP BY g ORDER BY g"
    assert connection.sql(sql).fetchall() == [(1, "b"), (2, None)]


def test_polymorphic_functions_know_their_types(connection: Any) -> None:
    udf.register(connection, signature("function", "typed", [(DATE, "DATE")], (TEXT, "VARCHAR")))
    assert connection.sql("SELECT f(DATE '2000-01-03')").fetchall() == [("1082:2",)]


def test_conversions_follow_the_settings(connection: Any) -> None:
    udf.register(connection, signature("output", "", [(DATE, "DATE")], (TEXT, "VARCHAR"), context="settings"))
    german = settings_text(FormatSettings(date_style="German"))
    assert connection.sql("SELECT f($1, DATE '2000-01-03')", params=[german]).fetchall() == [("03.01.2000",)]


def test_lengths_are_coerced(connection: Any) -> None:
    short = TypeRef(oids.VARCHAR, 7)
    udf.register(connection, signature("length", "explicit", [(short, "VARCHAR")], (short, "VARCHAR")))
    assert connection.sql("SELECT f('abcdef'), f('ab')").fetchall() == [("abc", "ab")]


def test_an_error_keeps_its_sqlstate(connection: Any) -> None:
    udf.register(connection, signature("input", "", [(TEXT, "VARCHAR")], (DATE, "DATE")))
    with pytest.raises(duckdb.Error) as caught:
        connection.sql("SELECT f('no date')").fetchall()
    error = translate(str(caught.value))
    assert (error.sqlstate, error.message) == ("22007", 'invalid input syntax for type date: "no date"')


def test_what_has_no_python_side_is_refused(connection: Any) -> None:
    with pytest.raises(Exception, match="0A000"):
        udf.register(connection, signature("function", "unheard_of", [(TEXT, "VARCHAR")], (TEXT, "VARCHAR")))


@pytest.mark.parametrize("limit", (150_000, 1_000_000))
@pytest.mark.parametrize(
    ("kind", "source", "form", "argument"),
    [
        ("function", "long", "VARCHAR", "10000"),
        ("set", "parts", "VARCHAR[]", "2"),
        ("function", "long", "VARCHAR", "x"),
    ],
)
def test_what_rows_make_together_has_the_limit_of_the_query(
    connection: Any, kind: str, source: str, form: str, argument: str, limit: int
) -> None:
    """A limit that the values of one row would keep to."""
    udf.register(connection, signature(kind, source, [(INT8, "BIGINT")], (TEXT, form)))
    sql = f"SELECT count(f(CAST({argument} AS BIGINT) + x - x)) FROM range(20) AS t (x)"
    with calls.of_query(1, limit, lambda: False):
        if limit == 1_000_000 or argument == "x":
            assert connection.sql(sql).fetchall() == [(20,)]
            return
        with pytest.raises(duckdb.Error) as caught:
            connection.sql(sql).fetchall()
    error = translate(str(caught.value))
    assert error.sqlstate == "53200" and "query_memory_limit" in str(error.detail)
