"""Runs calls three ways (PostgreSQL, the Python side, the DuckDB side) and compares value and SQLSTATE.

A call is a source or operator with its argument types, and arguments in text form (None for NULL). All calls of a test
go to PostgreSQL in one statement, each inside its own exception block. Values are compared in PostgreSQL's text form.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import psycopg

from catalog.duckdb.nodes import Constant, Sql, Words, fill, text_of
from catalog.duckdb.types import parse_type
from catalog.errors import SqlError
from catalog.functions import registry
from catalog.functions.base import CallContext, DuckSide, Function, udf_name
from catalog.functions.duckdb_errors import translate, udf_error_message
from catalog.types import element_of, lookup, pg_type_by_name
from catalog.types.base import TypeRef

CONTEXT = CallContext(0, 0, "UTC", None)
NUMERIC = 1700
_CHUNK = 2000

_TRY = """
CREATE OR REPLACE FUNCTION pg_temp.attempt(expression text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE result text;
BEGIN
    EXECUTE 'SELECT CASE WHEN x IS NULL THEN ''null'' ELSE format(''value %s'', x) END FROM (SELECT '
        || expression || ' AS x OFFSET 0) AS t' INTO result;
    RETURN result;
EXCEPTION WHEN others THEN
    RETURN 'error ' || SQLSTATE || ' ' || SQLERRM;
END $$
"""


@dataclass(frozen=True)
class Call:
    """One call: `name` is a function's or operator's, `types` are typnames, `arguments` texts or None."""

    name: str
    types: tuple[str, ...]
    arguments: tuple[str | None, ...]
    variadic: bool = False

    def sql(self) -> str:
        literals = [
            f"NULL::{name}" if text is None else f"{quote(text)}::{name}"
            for name, text in zip(sql_types(self.types), self.arguments, strict=True)
        ]
        if self.name.isidentifier():
            if self.variadic:
                literals[-1] = "VARIADIC " + literals[-1]
            return f'pg_catalog."{self.name}"({", ".join(literals)})'
        if len(literals) == 1:
            return f"OPERATOR(pg_catalog.{self.name}) {literals[0]}"
        return f"{literals[0]} OPERATOR(pg_catalog.{self.name}) {literals[1]}"


def calls(names: str, types: str, *columns: Sequence[str | None]) -> list[Call]:
    """Calls of each of the names with every combination of the columns' values."""
    rows = list(itertools.product(*columns))
    return [Call(name, tuple(types.split()), row) for name in names.split() for row in rows]


def sql_types(names: Sequence[str]) -> list[str]:
    return [f'pg_catalog."{name}"' for name in names]


def quote(text: str) -> str:
    escaped = text.replace("'", "''").replace("\\", "\\\\")
    return f"E'{escaped}'"


def postgres_answers(connection: psycopg.Connection[Any], expressions: Sequence[str]) -> list[str]:
    """'null', 'value <text>' or 'error <SQLSTATE> <message>' for each SQL expression."""
    connection.execute(_TRY)
    answers: list[str] = []
    for start in range(0, len(expressions), _CHUNK):
        rows = connection.execute(
            "SELECT pg_temp.attempt(e) FROM unnest(%s::text[]) WITH ORDINALITY t(e, n) ORDER BY n",
            (list(expressions[start : start + _CHUNK]),),
        )
        answers.extend(row[0] for row in rows)
    return answers


def find(call: Call) -> Function:
    """The function that the call names with exactly these argument types."""
    oids = tuple(pg_type_by_name[name].oid for name in call.types)
    if call.name.isidentifier():
        for function in registry.functions_named(call.name):
            if function.argument_types == oids:
                return function
    else:
        left, right = oids if len(oids) == 2 else (0, oids[0])
        for operator in registry.operators_named(call.name):
            if (operator.left, operator.right) == (left, right):
                return registry.function(operator.function)
    raise LookupError(f"{call.name}{call.types}")


def decode(type_name: str, text: str | None) -> object:
    if text is None:
        return None
    return lookup(pg_type_by_name[type_name].oid).text_decoder()(text)


def encode(oid: int, value: object) -> str:
    if value is None:
        return "null"
    text = lookup(oid).text_encoder()(value).decode()
    return "value " + text


def python_answer(call: Call) -> str:
    function = find(call)
    found = registry.implementation(function.source)
    if found is None:
        return f"no implementation of {function.source}"
    references = [TypeRef(pg_type_by_name[name].oid) for name in call.types]
    run = found.python
    if run is None and found.python_for_types is not None:
        run = found.python_for_types(references, TypeRef(function.result_type))
    if run is None:
        return f"no python side of {function.source}"
    values = [decode(name, text) for name, text in zip(call.types, call.arguments, strict=True)]
    if function.strict and None in values:
        return "null"
    if found.needs_context:
        values.insert(0, CONTEXT)
    try:
        result = run(*values)
        if found.python_source is not None:
            inlined = inline_answer(found.python_source, found.python_names, values)
            assert encode(function.result_type, inlined) == encode(function.result_type, result), call
        return encode(function.result_type, result)
    except SqlError as error:
        return f"error {error.sqlstate} {error.message}"


def inline_answer(source: str, names: Any, values: Sequence[object]) -> object:
    variables = {f"v{number}": value for number, value in enumerate(values)}
    expression = source.format(*variables)
    return eval(expression, dict(names), variables)


# ---- the DuckDB side ----


def open_duckdb() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("SET integer_division = true")
    connection.execute("SET default_null_order = 'nulls_last_on_asc_first_on_desc'")
    return connection


def register_udf(connection: Any, source: str) -> None:
    """Registers the Python side of a source under its UDF name, over the general forms of its types."""
    function = next(f for oid in registry.function_oids() if (f := registry.function(oid)).source == source)
    found = registry.implementation(source)
    assert found is not None and found.python is not None
    run = found.python
    forms = [lookup(oid).duckdb_type() for oid in function.argument_types]
    decoders = [lookup(oid).text_decoder() if oid == NUMERIC else None for oid in function.argument_types]

    def call(*values: Any) -> Any:
        if None in values:
            return None
        items = [value if decoder is None else decoder(value) for value, decoder in zip(values, decoders, strict=True)]
        try:
            result = run(*items)
        except SqlError as error:
            raise ValueError(udf_error_message(error)) from None
        return str(result) if function.result_type == NUMERIC and result is not None else result

    names = ", ".join(f"v{number}" for number in range(len(forms)))
    fixed = eval(f"lambda {names}: call({names})", {"call": call})  # DuckDB counts the parameters
    if connection.execute("SELECT 1 FROM duckdb_functions() WHERE function_name = ?", (udf_name(source),)).fetchone():
        return
    connection.create_function(
        udf_name(source), fixed, forms, lookup(function.result_type).duckdb_type(), null_handling="special"
    )


def duckdb_literal(type_name: str, text: str | None, form: TypeRef) -> str:
    sql_type = lookup(form.oid)
    duck = sql_type.duckdb_type(form.typmod)
    if text is None:
        return f"CAST(NULL AS {duck})"
    value = decode(type_name, text)
    if duck == "BLOB":
        return "CAST('" + "".join(f"\\x{byte:02X}" for byte in value) + "' AS BLOB)"  # type: ignore[attr-defined]
    if duck in ("DATE", "TIMESTAMP") and text in ("infinity", "-infinity"):
        return f"CAST('{text}' AS {duck})"
    if duck == "DATE" and isinstance(value, int):
        return f"(DATE '2000-01-01' + {value}::INTEGER)"
    if duck == "TIMESTAMP" and isinstance(value, int):
        return f"make_timestamp({value + 946684800_000_000})"
    if duck == "BOOLEAN":
        return "true" if value else "false"
    shown = text if isinstance(value, (str, float)) or duck == "TIME" else str(value)
    if isinstance(value, str):
        shown = value
    return "CAST('" + shown.replace("'", "''") + f"' AS {duck})"


def numeric_form(text: str | None) -> TypeRef:
    """The DECIMAL form that just holds a numeric, for its TypeRef; general if none does."""
    if text is None:
        return TypeRef(NUMERIC, ((10 << 16) | 2) + 4)
    value: Any = decode("numeric", text)
    if not value.is_finite():
        return TypeRef(NUMERIC)
    digits = -value.as_tuple().exponent
    precision = max(value.adjusted() + 1, 1) + digits
    return TypeRef(NUMERIC, ((precision << 16) | digits) + 4) if precision <= 38 else TypeRef(NUMERIC)


def duckdb_sql(call: Call) -> tuple[str, TypeRef] | None:
    """The DuckDB SQL of a call with its result's physical type; None if the UDF would run."""
    function = find(call)
    found = registry.implementation(function.source)
    if found is None or found.duckdb is None:
        return None
    forms = [
        numeric_form(text) if name == "numeric" else TypeRef(pg_type_by_name[name].oid)
        for name, text in zip(call.types, call.arguments, strict=True)
    ]
    literals = [
        duckdb_node(name, text, form) for name, text, form in zip(call.types, call.arguments, forms, strict=True)
    ]
    sql = native(found.duckdb, literals, forms)
    if sql is None:
        return None
    result = found.duckdb_result(forms) if found.duckdb_result else TypeRef(function.result_type)
    return text_of(sql), result


def native(side: DuckSide, arguments: Sequence[Sql], types: Sequence[TypeRef]) -> Sql | None:
    """What the DuckDB side of an implementation makes of arguments."""
    if side is None or isinstance(side, str):
        return None if side is None else fill(side, *arguments)
    return side(arguments, types)


def duckdb_node(type_name: str, text: str | None, form: TypeRef) -> Sql:
    """A constant as the generator gives it to functions."""
    if text is None:
        return Words(duckdb_literal(type_name, text, form))
    return Constant(
        duckdb_literal(type_name, text, form),
        decode(type_name, text),
        parse_type(lookup(form.oid).duckdb_type(form.typmod)),
    )


def duckdb_answer(connection: duckdb.DuckDBPyConnection, call: Call) -> str | None:
    prepared = duckdb_sql(call)
    if prepared is None:
        return None
    sql, result = prepared
    try:
        row = connection.execute(f"SELECT typeof(x), x FROM (SELECT {sql} AS x)").fetchone()
    except duckdb.Error as error:
        translated = translate(str(error))
        return f"error {translated.sqlstate} {translated.message}"
    assert row is not None
    expected = lookup(result.oid).duckdb_type(result.typmod)
    if row[0] not in (expected, '"NULL"'):
        return f"is of type {row[0]} instead of {expected}"
    return duckdb_value(result, row[1])


def duckdb_value(result: TypeRef, value: Any) -> str:
    if value is None:
        return "null"
    if result.oid == NUMERIC:
        text = f"{value:f}" if result.typmod != -1 else value
        return "value " + text
    if isinstance(value, (bool, int, float, str, bytes)):
        return encode(result.oid, value)
    return f"value {value}"


# ---- comparison ----


def with_nulls(calls: Iterable[Call]) -> list[Call]:
    """The calls, and for the first of each function one more for each argument made NULL."""
    result, seen = [], set()
    for call in calls:
        result.append(call)
        if (call.name, call.types) not in seen:
            seen.add((call.name, call.types))
            for index in range(len(call.arguments)):
                arguments = (*call.arguments[:index], None, *call.arguments[index + 1 :])
                result.append(Call(call.name, call.types, arguments))
    return result


def differences(postgres: psycopg.Connection[Any], calls: Sequence[Call]) -> list[str]:
    """What differs from PostgreSQL, one line a call; [] is what a test wants."""
    expected = postgres_answers(postgres, [call.sql() for call in calls])
    connection = open_duckdb()
    found = []
    for call, answer in zip(calls, expected, strict=True):
        for side, mine in (("python", python_answer(call)), ("duckdb", duckdb_answer(connection, call))):
            if mine is None:
                continue
            if mine != answer and not (side == "duckdb" and mine.startswith("error 0A000")):
                found.append(f"{side}: {call.sql()}: {mine!r} instead of {answer!r}")
    connection.close()
    return found


def check(postgres: psycopg.Connection[Any], calls: Sequence[Call]) -> None:
    """Fails with a list of what differs from PostgreSQL."""
    found = differences(postgres, with_nulls(calls))
    if found:
        raise AssertionError(f"{len(found)} of {len(calls)} calls differ:\n" + "\n".join(found[:40]))


def element_type(name: str) -> int:
    return element_of(pg_type_by_name[name].oid)
