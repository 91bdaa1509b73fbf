"""Set-returning functions: each returns a LIST of its rows, which `unnest` expands.

Several of them in a target list advance together, and the shorter sets give NULL, in DuckDB as in PostgreSQL since 10.
"""

from __future__ import annotations

from collections.abc import Sequence

from catalog.duckdb.nodes import fill
from catalog.duckdb.types import list_of
from catalog.errors import not_supported
from catalog.functions import registry
from catalog.types import element_of, oids
from catalog.types.base import TypeRef
from engine.columnar.generate.catalog_functions import catalog_functions
from engine.columnar.generate.forms import Piece, element_form, is_whole, physical_type
from engine.columnar.generate.state import Scope, expression, type_names
from engine.columnar.generate.texts import as_declared
from engine.columnar.generate.udf import set_signature, struct_form, udf_form
from engine.sql import tree
from engine.sql.analyze.column_definitions import check_row

PLAIN_SERIES = frozenset(
    {"generate_series_int4", "generate_series_step_int4", "generate_series_int8", "generate_series_step_int8"}
)


def rows_of(scope: Scope, node: tree.FuncExpr, fields: Sequence[TypeRef] = ()) -> Piece:
    """Returns the function's rows as one LIST, of STRUCTs with `fields` f1, f2, ... if it returns records. Raises 0A000
    for a function that cannot run here."""
    function = node.function
    arguments = [expression(scope, argument) for argument in node.arguments]
    argument_types = [argument.type for argument in node.arguments]
    as_text = any(is_whole(type_.oid) for type_ in (*argument_types, node.type, *fields))
    if function.source == "array_unnest" and not as_text:
        if fields and not arguments[0].fields:
            not_supported("rows of no known type on this query")
        if fields:
            check_row([type_ for type_, _ in arguments[0].fields], fields)
        return arguments[0]
    found = registry.implementation(function.source)
    side = found.duckdb if found is not None and not as_text else None
    if isinstance(side, str):
        return Piece(fill(side, *[piece.sql for piece in arguments]), list_of(udf_form(node.type.oid)))
    if side is not None:
        physical = [physical_type(type_, piece.form) for piece, type_ in zip(arguments, argument_types, strict=True)]
        native = side([piece.sql for piece in arguments], physical)
        if native is not None:
            return Piece(native, list_of(udf_form(node.type.oid)))
    answered = catalog_functions.get(function.source)
    if answered is not None and as_text:
        not_supported(f"function {function.name} with arrays of several dimensions on this query")
    if answered is not None:
        row = tuple((TypeRef(item.oid), udf_form(item.oid)) for item in fields)
        made = answered.make(scope.generation, [piece.sql for piece in arguments])
        return Piece(made, list_of(struct_form(fields)), row)
    if found is not None and found.needs_session:
        not_supported(f"function {function.name} on this query", hint="Read it into a table first.")
    if found is None or (found.python is None and found.python_for_types is None):
        not_supported(f"function {function.name}({type_names(argument_types)})")
    signature = set_signature(function, found, argument_types, node.type, fields)
    sql = [as_declared(piece, type_.oid) for piece, type_ in zip(arguments, argument_types, strict=True)]
    call = scope.generation.udf(signature, sql)
    if fields:
        return call._replace(fields=tuple((TypeRef(item.oid), udf_form(item.oid)) for item in fields))
    return call


def unnested(scope: Scope, node: tree.FuncExpr) -> Piece:
    """Returns the SQL of a set-returning function in the target list. Raises 0A000 elsewhere."""
    if not scope.set_functions:
        not_supported(f"set-returning function {node.function.name} here")
    scope.set_functions = False  # not in its arguments
    try:
        if node.type.oid == oids.RECORD:
            rows = rows_of(scope, node, _fields(node))
        else:
            rows = rows_of(scope, node)
    finally:
        scope.set_functions = True
    return Piece(fill("unnest({})", rows.sql), element_form(rows.form), rows.fields)


def _fields(node: tree.FuncExpr) -> list[TypeRef]:
    """Returns the types of a record's fields; anyelement is the element type of the array among the arguments."""
    elements = [oid for argument in node.arguments if (oid := element_of(argument.type.oid))]
    return [TypeRef(elements[0] if oid == oids.ANYELEMENT and elements else oid) for oid in node.function.output_types]


def list_of_one(piece: Piece) -> Piece:
    """Returns the value of a plain function in FROM as a LIST of one row."""
    return Piece(fill("[{}]", piece.sql), list_of(piece.form), piece.fields)
