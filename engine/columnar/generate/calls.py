"""Function calls and casts.

A call is generated in the first of these ways that is possible: as a comparison of DuckDB; as a parameter that the
engine computes before the query, if the function needs the session or a context and its arguments contain no column; as
a query of virtual tables (`catalog_functions`); by the DuckDB SQL of its implementation; as a UDF that calls its Python
implementation.
"""

from __future__ import annotations

from collections.abc import Sequence

from catalog import types
from catalog.duckdb.nodes import Identifier, Sql, fill, join_parts
from catalog.duckdb.types import BIGINT, BOOLEAN, INTEGER, TIMESTAMP, VARCHAR, CharType, DuckDBType, ListType, list_of
from catalog.errors import not_supported
from catalog.functions import registry
from catalog.functions.array_shapes import RESHAPE
from catalog.functions.base import Function, Implementation, Trait
from catalog.functions.duckdb_errors import raising
from catalog.types import element_of, oids
from catalog.types.base import TypeRef
from catalog.types.carried import is_carried_as_text
from engine.columnar.generate.bounds import cross_type_symbol, narrow_comparison
from engine.columnar.generate.catalog_functions import catalog_functions
from engine.columnar.generate.comparisons import COMPARISONS, compare
from engine.columnar.generate.forms import (
    GENERAL,
    Piece,
    convert,
    decimal_form,
    digits_of,
    form_of,
    is_whole,
    physical_type,
    settle,
    short_product,
    shown_scale,
    with_blanks,
)
from engine.columnar.generate.set_functions import unnested
from engine.columnar.generate.state import (
    Generation,
    Scope,
    compact_expression,
    expression,
    makes,
    scaled_expression,
    type_names,
)
from engine.columnar.generate.texts import TEXTS, UTC, as_declared, from_text, over_elements, to_text
from engine.columnar.generate.udf import (
    function_signature,
    is_composite,
    length_signature,
    named_signature,
    row_signature,
    set_signature,
)
from engine.columnar.interface import STATEMENT_TIME, TRANSACTION_TIME
from engine.sql import tree
from engine.sql.tree_walk import walk

_TO_DECIMAL = {"int2_numeric": 5, "int4_numeric": 10, "int8_numeric": 19}
# The scale of a result, from the scales of scaled arguments; and functions that depend on the value only.
_SCALES = {
    "numeric_add": "greatest({0}, {1})",
    "numeric_sub": "greatest({0}, {1})",
    "numeric_mul": "({0} + {1})",
    "numeric_uminus": "{0}",
    "numeric_abs": "{0}",
}
_OF_THE_VALUE = frozenset(f"numeric_{name}" for name in ("float8", "float4", "int2", "int4", "int8", "round", "trunc"))
_UNNEST = 2331  # OID of unnest(anyarray)
_TIMES = {"now": TRANSACTION_TIME, "statement_timestamp": STATEMENT_TIME}
_JOINED_AS_PRINTED = oids.WHOLE_NUMBERS | oids.UNPADDED_TEXTS | {oids.NUMERIC}


def constant(node: object) -> bool:
    """Whether the engine can compute the expression before the query: it contains no column, no sub-query and no
    volatile function."""
    if isinstance(node, (tree.Const, tree.Param, tree.SqlValueFunction)):
        return True
    if isinstance(node, tree.FuncExpr):
        stable = node.function.volatility != "v" and not node.function.returns_set
        return stable and all(constant(argument) for argument in node.arguments) and _has_python(node.function.source)
    if isinstance(node, (tree.RelabelType, tree.CoerceViaIO, tree.CoerceTypmod)):
        return constant(node.argument)
    if isinstance(node, tree.ArrayExpr):
        return all(constant(element) for element in node.elements)
    return False


def _has_python(source: str) -> bool:
    found = registry.implementation(source)
    return found is not None and (found.python is not None or found.python_for_types is not None)


@makes(tree.FuncExpr)
def _function(scope: Scope, node: tree.FuncExpr) -> Piece:
    function = node.function
    if function.returns_set:
        return unnested(scope, node)
    source = function.source
    symbol = COMPARISONS.get(source)
    known = symbol or cross_type_symbol(source)
    narrow = None if known is None else narrow_comparison(known, *node.arguments)
    if narrow is not None:
        symbol, left, right = narrow
        pieces = scaled_expression(scope, left), scaled_expression(scope, right)
        return Piece(compare(scope.generation, symbol, *pieces, (left.type.oid, right.type.oid)), BOOLEAN)
    if symbol is not None:
        left, right = node.arguments
        pieces = scaled_expression(scope, left), scaled_expression(scope, right)
        return Piece(compare(scope.generation, symbol, *pieces, (left.type.oid, right.type.oid)), BOOLEAN)
    if source in _TIMES:
        return Piece(scope.generation.parameter(_TIMES[source], TIMESTAMP), TIMESTAMP)
    if registry.has_trait(source, Trait.JOINS_AS_TEXT) and all(
        item.type.oid in _JOINED_AS_PRINTED for item in node.arguments
    ):
        parts = [to_text(scope.generation, expression(scope, item), item.type.oid).sql for item in node.arguments]
        return Piece(fill("({})", join_parts(" || ", parts)), VARCHAR)
    answered = catalog_functions.get(source)
    if source not in _TO_DECIMAL:
        found = registry.implementation(source)
        if found is None and answered is None:
            not_supported(f"function {function.name}({type_names([item.type for item in node.arguments])})")
        kind = element_of(node.type.oid) or node.type.oid
        carried_as_text = is_composite(kind) or is_carried_as_text(kind) or is_whole(node.type.oid)
        asked = found is not None and (found.needs_context if scope.generation.computes else found.needs_session)
        if asked and constant(node) and not carried_as_text:
            return scope.generation.compute(node)
    piece = _called(scope, node)
    if not function.strict:
        return piece
    # DuckDB folds only calls of its own functions: it computes a UDF's arguments even if one of them is NULL.
    constants = [part for part, nullable in scope.generation.folding.before_others(node) if nullable]
    tests = [fill("{} IS NULL", expression(scope, part).sql) for part in constants]
    if not tests:
        return piece
    return piece._replace(sql=fill("CASE WHEN {} THEN NULL ELSE {} END", join_parts(" OR ", tests), piece.sql))


def _called(scope: Scope, node: tree.FuncExpr) -> Piece:
    """Returns a call by DuckDB's functions, by a UDF, or by virtual tables."""
    function, source = node.function, node.function.source
    answered = catalog_functions.get(source)
    make = scaled_expression if source in _SCALES or source in _OF_THE_VALUE else expression
    if registry.has_trait(source, Trait.IGNORES_BLANKS):
        (piece,) = [compact_expression(scope, argument) for argument in node.arguments]
        if isinstance(piece.form, CharType):
            piece = piece._replace(form=VARCHAR)
            if node.type.oid == oids.TEXT:
                return piece
            return call(scope.generation, function, [piece], [node.arguments[0].type], node.type)
    arguments = [make(scope, argument) for argument in node.arguments]
    argument_types = [argument.type for argument in node.arguments]
    if answered is not None:
        if any(is_whole(type_.oid) for type_ in (*argument_types, node.type)):
            not_supported(f"function {function.name} with arrays of several dimensions on this query")
        return Piece(answered.make(scope.generation, [piece.sql for piece in arguments]), form_of(node.type.oid))
    if source in _SCALES and any(piece.scale is not None for piece in arguments):
        if all(digits_of(piece.form) for piece in arguments):
            made = call(scope.generation, function, arguments, argument_types, node.type)
            if digits_of(made.form):
                return made._replace(scale=fill(_SCALES[source], *[shown_scale(piece) for piece in arguments]))
        arguments = [settle(piece) for piece in arguments]
    if source == "numeric_mul" and not scope.generation.streams:
        form = short_product(arguments[0].form, arguments[1].form)
        if form is not None:
            return Piece(fill("({} * {})", arguments[0].sql, arguments[1].sql), form)
    made = call(scope.generation, function, arguments, argument_types, node.type)
    if arguments and function.volatility != "v" and all(piece.once for piece in arguments):
        return made._replace(once=True)
    return made


def call(
    generation: Generation,
    function: Function,
    arguments: list[Piece],
    argument_types: Sequence[TypeRef],
    result: TypeRef,
) -> Piece:
    """Returns the SQL of a call. Raises 0A000 with the function's name if it cannot run here."""
    source = function.source
    symbol = COMPARISONS.get(source)
    if symbol is not None:
        left, right = argument_types
        return Piece(compare(generation, symbol, arguments[0], arguments[1], (left.oid, right.oid)), BOOLEAN)
    arguments = [with_blanks(piece) for piece in arguments]
    if source in _TO_DECIMAL:
        return convert(arguments[0], decimal_form(_TO_DECIMAL[source], 0))
    if source == "pg_typeof":  # keeps its argument: an aggregate or a set in it determines the number of rows
        oid = argument_types[0].declared
        return Piece(
            fill("(CASE WHEN {0} IS NULL THEN {1}::BIGINT ELSE {1}::BIGINT END)", arguments[0].sql, oid), BIGINT
        )
    if any(piece.fields for piece in arguments):
        not_supported(f"a record as argument of function {function.name} on this query")
    found = registry.implementation(source)
    if found is None:
        not_supported(f"function {function.name}({type_names(argument_types)})")
    native = _native(generation, found, arguments, argument_types, result)
    if native is not None:
        return native
    if function.volatility == "v" and not registry.has_trait(source, Trait.CLOCK_OR_CHANCE):
        not_supported(f"function {function.name} on this query")
    if found.needs_session:
        not_supported(f"function {function.name}({type_names(argument_types)}) with other than constant arguments")
    if found.python is None and found.python_for_types is None:
        not_supported(f"function {function.name}({type_names(argument_types)})")
    signature = function_signature(function, found, argument_types, result)
    sql = [as_declared(piece, type_.oid) for piece, type_ in zip(arguments, argument_types, strict=True)]
    return generation.udf(signature, sql)


def _native(
    generation: Generation,
    found: Implementation,
    arguments: list[Piece],
    argument_types: Sequence[TypeRef],
    result: TypeRef,
) -> Piece | None:
    """Returns the call by DuckDB's functions, which accept arrays only as LISTs; None if there is none for arguments of
    these forms."""
    if any(is_whole(type_.oid) for type_ in (*argument_types, result)):
        return None
    side = found.duckdb
    if side is None and found.duckdb_in_utc is not None:
        generation.settings_free = False
        side = found.duckdb_in_utc if generation.settings.timezone in UTC else None
    if side is None:
        return None
    physical = [physical_type(type_, piece.form) for piece, type_ in zip(arguments, argument_types, strict=True)]
    if isinstance(side, str):
        # A template cannot depend on the form of its arguments: it expects the declared form.
        pieces = arguments
        if any(type_.oid == oids.NUMERIC for type_ in argument_types):
            pieces = [
                convert(piece, GENERAL) if type_.oid == oids.NUMERIC else piece
                for piece, type_ in zip(arguments, argument_types, strict=True)
            ]
        sql: Sql | None = fill(side, *[piece.sql for piece in pieces])
    else:
        sql = side([piece.sql for piece in arguments], physical)
    if sql is None:
        return None
    for source in found.duckdb_udfs:
        signature = named_signature(source)
        generation.functions[signature.name] = signature
    if found.duckdb_result is not None:
        given = found.duckdb_result(physical)
        return Piece(sql, form_of(given.oid, given.typmod))
    if found.duckdb_result_of is not None:
        given = found.duckdb_result_of([piece.sql for piece in arguments], physical)
        return Piece(sql, form_of(given.oid, given.typmod))
    return Piece(sql, form_of(result.oid))


# ---- casts ----------------------------------------------------------------------------------------------------------


@makes(tree.RelabelType)
def _relabel(scope: Scope, node: tree.RelabelType) -> Piece:
    piece = expression(scope, node.argument)
    source, target = node.argument.type.oid, node.type.oid
    if source == oids.NUMERIC or piece.fields:
        return piece
    form = form_of(target)
    if form == piece.form or isinstance(piece.form, ListType):
        return piece
    if piece.is_null:
        return convert(piece, form)
    if piece.form == INTEGER and form == BIGINT:  # int4 -> oid keeps the bits
        return Piece(fill("(CAST({} AS BIGINT) & 4294967295)", piece.sql), form)
    if piece.form == BIGINT and form == INTEGER:  # oid -> int4 too
        return Piece(fill("CAST((({} + 2147483648) & 4294967295) - 2147483648 AS INTEGER)", piece.sql), form)
    return convert(piece, form)


@makes(tree.CoerceViaIO)
def _via_text(scope: Scope, node: tree.CoerceViaIO) -> Piece:
    source, target = node.argument.type, node.type
    piece = expression(scope, node.argument)
    if piece.is_null:
        return convert(piece, form_of(target.oid))
    text = to_text(scope.generation, piece, source.oid)
    if target.oid in TEXTS and target.oid not in (oids.NAME, oids.CHAR):
        return text
    return from_text(scope.generation, text, target)


@makes(tree.CoerceTypmod)
def _length(scope: Scope, node: tree.CoerceTypmod) -> Piece:
    piece = scaled_expression(scope, node.argument)
    oid, typmod = node.type.oid, node.type.typmod
    form = form_of(oid, typmod)
    if piece.is_null:
        return convert(piece, form)
    if typmod < 0:
        return piece
    if oid == oids.NUMERIC and piece.form != GENERAL and form != GENERAL:
        return _decimal_length(piece, form)
    piece = settle(piece)
    if oid == oids.VARCHAR or oid == oids.BPCHAR:
        return Piece(_character_length(piece.sql, typmod - 4, oid, node.explicit), VARCHAR)
    if types.lookup(oid).length_coercion(typmod, node.explicit) is None:
        return convert(piece, form) if oid == oids.NUMERIC else piece
    signature = length_signature(node.type, node.explicit)
    return convert(scope.generation.udf(signature, [as_declared(piece, oid)]), form)


def _decimal_length(piece: Piece, form: DuckDBType) -> Piece:
    """Converts a DECIMAL to numeric(p,s). DuckDB rounds half away from zero, as PostgreSQL does. A test before the cast
    raises 22003 for an overflow, because DuckDB's error is the same for all conversions."""
    if piece.form == form:
        return piece._replace(scale=None)
    sql = fill("TRY_CAST({} AS {})", piece.sql, form)
    error = raising("22003", "numeric field overflow")
    return Piece(fill("CASE WHEN {0} IS NULL AND {1} IS NOT NULL THEN {2} ELSE {0} END", sql, piece.sql, error), form)


def _character_length(sql: Sql, length: int, oid: int, explicit: bool) -> Sql:
    cut = fill("left({}, {})", sql, length)
    if oid == oids.BPCHAR:
        cut = fill("rpad({}, {}, ' ')", cut, length)
    if explicit:
        return cut
    name = "character varying" if oid == oids.VARCHAR else "character"
    error = raising("22001", f"value too long for type {name}({length})")
    return fill("CASE WHEN rtrim(substr({}, {}), ' ') <> '' THEN {} ELSE {} END", sql, length + 1, error, cut)


@makes(tree.DomainValue)
def _domain_value(scope: Scope, node: tree.DomainValue) -> Piece:
    return scope.domain_values[-1]


@makes(tree.CoerceToDomain)
def _to_domain(scope: Scope, node: tree.CoerceToDomain) -> Piece:
    """Returns the value of a domain, with its checks: 23502 for NULL, 23514 for the first condition that is FALSE."""
    piece = expression(scope, node.argument)
    if piece.fields:
        not_supported("a domain over records on this query")
    name = scope.generation.alias()
    branches = []
    if node.not_null:
        error = raising("23502", f"domain {node.name} does not allow null values")
        branches.append(fill("WHEN {} IS NULL THEN {}", name, error))
    scope.domain_values.append(Piece(Identifier(name), piece.form))
    for check, condition in node.checks:
        if any(isinstance(item, tree.Query) for item in walk(condition)):
            not_supported("a domain with a function that reads tables on this query")
        error = raising("23514", f'value for domain {node.name} violates check constraint "{check}"')
        branches.append(fill("WHEN NOT ({}) THEN {}", expression(scope, condition).sql, error))
    scope.domain_values.pop()
    if not branches:
        return piece
    sql = fill(
        "list_transform([{0}], lambda {1}: CASE {2} ELSE {1} END)[1]", piece.sql, name, join_parts(" ", branches)
    )
    return Piece(sql, piece.form)


@makes(tree.DomainRule)
def _domain_rule(scope: Scope, node: tree.DomainRule) -> Piece:
    piece = expression(scope, node.argument)
    return Piece(fill("CASE WHEN {0} IS NULL THEN TRUE ELSE ({0}) IS NOT NULL END", piece.sql), BOOLEAN)


@makes(tree.ArrayCoerce)
def _array_cast(scope: Scope, node: tree.ArrayCoerce) -> Piece:
    piece = expression(scope, node.argument)
    if {element_of(node.argument.type.oid), element_of(node.type.oid)} & oids.NAMED_TYPES:
        return _array_of_names(scope, node, piece)
    name = scope.generation.alias()
    of_list = piece.form.element if isinstance(piece.form, ListType) else None
    variable = Piece(Identifier(name), of_list or form_of(element_of(node.argument.type.oid)))
    scope.case_tests.append(variable)
    element = expression(scope, node.element)
    scope.case_tests.pop()
    if element.sql is variable.sql:
        return piece
    values = elements(scope.generation, piece, node.argument.type)
    made = Piece(fill("list_transform({}, lambda {}: {})", values.sql, name, element.sql), list_of(element.form))
    made = scope.generation.as_whole(made, node.type.oid)
    if of_list is not None:
        return made
    if not is_whole(node.type.oid):
        not_supported("casts of arrays to arrays of user-defined types on this query")
    signature = row_signature(RESHAPE, [node.argument.type, node.type], node.type, strict=True)
    return scope.generation.udf(signature, [piece.sql, made.sql])


def _array_of_names(scope: Scope, node: tree.ArrayCoerce, array: Piece) -> Piece:
    """Returns a cast of an array whose elements are names or OIDs of catalog objects."""

    def cast(item: Piece) -> Piece:
        scope.case_tests.append(item)
        made = expression(scope, node.element)
        scope.case_tests.pop()
        return made

    return over_elements(scope.generation, array, cast)


def elements(generation: Generation, array: Piece, type_: TypeRef) -> Piece:
    """Returns the array as a LIST of all its elements."""
    if not is_whole(type_.oid):
        return array
    function, element = registry.function(_UNNEST), TypeRef(element_of(type_.oid))
    found = registry.implementation(function.source)
    assert found is not None
    signature = set_signature(function, found, [type_], element, ())
    return generation.udf(signature, [array.sql])
