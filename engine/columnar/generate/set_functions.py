"""Set-returning functions: each as a LIST of its rows, which `unnest` turns into rows where they are wanted.

In the target list, several advance together and the shorter ones give NULL, in DuckDB as in PostgreSQL since 10.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from catalog.errors import not_supported
from catalog.functions import registry
from catalog.functions.duckdb_errors import sql_error_call
from catalog.types import oids
from catalog.types.base import TypeRef
from engine.columnar.generate.forms import Piece, convert
from engine.columnar.generate.state import Scope, expression, type_names
from engine.columnar.generate.udf import set_signature, udf_form
from engine.sql import tree


def _series(form: str) -> Callable[[Sequence[Piece]], Piece]:
    def make(arguments: Sequence[Piece]) -> Piece:
        sql = ", ".join(f"CAST({piece.sql} AS BIGINT)" for piece in arguments)
        series = f"generate_series({sql})"
        if form != "BIGINT":
            series = f"CAST({series} AS {form}[])"
        if len(arguments) == 3 and not _nonzero(arguments[2].sql):
            error = sql_error_call("22023", "step size cannot equal zero")
            series = f"CASE WHEN {arguments[2].sql} = 0 THEN {error} ELSE {series} END"
        return Piece(series, form + "[]")

    return make


def _nonzero(sql: str) -> bool:
    number = sql.partition("::")[0].strip("()")
    return number.lstrip("-").isdigit() and int(number) != 0


def _elements(arguments: Sequence[Piece]) -> Piece:
    return arguments[0]


def _subscripts(arguments: Sequence[Piece]) -> Piece:
    array, dimension = arguments[0], arguments[1]
    sql = f"CASE WHEN {dimension.sql} = 1 THEN CAST(generate_series(1, len({array.sql})) AS INTEGER[]) END"
    if len(arguments) == 3:
        sql = f"CASE WHEN {arguments[2].sql} THEN list_reverse({sql}) ELSE {sql} END"
    return Piece(sql, "INTEGER[]")


_NATIVE: dict[str, Callable[[Sequence[Piece]], Piece]] = {
    "array_unnest": _elements,
    "generate_series_int4": _series("INTEGER"),
    "generate_series_step_int4": _series("INTEGER"),
    "generate_series_int8": _series("BIGINT"),
    "generate_series_step_int8": _series("BIGINT"),
    "generate_subscripts": _subscripts,
    "generate_subscripts_nodir": _subscripts,
}
PLAIN_SERIES = frozenset(source for source in _NATIVE if source.startswith("generate_series"))


def rows_of(scope: Scope, node: tree.FuncExpr, fields: Sequence[TypeRef] = ()) -> Piece:
    """The function's rows as one LIST; of STRUCTs with `fields` f1, f2, ... if it returns records."""
    function = node.function
    arguments = [expression(scope, argument) for argument in node.arguments]
    native = _NATIVE.get(function.source)
    if native is not None:
        return native(arguments)
    found = registry.implementation(function.source)
    argument_types = [argument.type for argument in node.arguments]
    if found is None or (found.python is None and found.python_for_types is None):
        not_supported(f"function {function.name}({type_names(argument_types)})")
    signature = set_signature(function, found, argument_types, node.type, fields)
    sql = [
        f"CAST({piece.sql} AS {udf_form(type_.oid)})" for piece, type_ in zip(arguments, argument_types, strict=True)
    ]
    call = scope.generation.call_udf(signature, sql)
    if fields:
        row = tuple((TypeRef(item.oid), udf_form(item.oid)) for item in fields)
        return Piece(call, signature.result_duckdb, row)
    return Piece(call, signature.result_duckdb)


def unnested(scope: Scope, node: tree.FuncExpr) -> Piece:
    """A set-returning function in the target list."""
    if not scope.set_functions:
        not_supported(f"set-returning function {node.function.name} here")
    scope.set_functions = False  # its arguments may not hold another
    try:
        if node.type.oid == oids.RECORD:
            fields = [TypeRef(oid) for oid in node.function.output_types]
            rows = rows_of(scope, node, fields)
        else:
            rows = rows_of(scope, node)
    finally:
        scope.set_functions = True
    return Piece(f"unnest({rows.sql})", rows.form[:-2], rows.fields)


def list_of_one(piece: Piece) -> Piece:
    """A plain function in FROM gives one row."""
    return Piece(f"[{convert(piece, piece.form).sql}]", piece.form + "[]", piece.fields)
