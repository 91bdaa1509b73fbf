"""Aggregates and window functions.

The aggregates that everybody uses are generated here, where the form of their argument is known: DuckDB's own wherever
the result is PostgreSQL's to the last digit. Others run by the DuckDB side of their implementation, or else by a UDF
over the LIST of a group's values. avg of integers and DECIMALs is numeric division of DuckDB's sum and count.

A `Call` carries what surrounds an aggregate's arguments: DISTINCT, ORDER BY, FILTER and OVER.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from catalog.errors import not_supported
from catalog.functions import registry
from catalog.functions.base import Function, Implementation
from catalog.types import oids
from catalog.types.base import TypeRef
from engine.columnar.generate.calls import as_declared, constant
from engine.columnar.generate.comparisons import comparable, is_native, sort_item
from engine.columnar.generate.forms import (
    GENERAL,
    MAX_DIGITS,
    Piece,
    common,
    convert,
    decimal_form,
    digits_of,
    form_of,
    physical_type,
)
from engine.columnar.generate.state import Generation, Scope, expression, makes, type_names
from engine.columnar.generate.udf import aggregate_signature, function_signature
from engine.sql import tree

_NUMERIC_DIV = 1727  # OID of numeric_div
_INTEGERS = frozenset({oids.INT2, oids.INT4, oids.INT8})
_INTEGER_DIGITS = {oids.INT2: 5, oids.INT4: 10, oids.INT8: 19}
_FLOATS = frozenset({oids.FLOAT4, oids.FLOAT8})


@dataclass(slots=True)
class Call:
    """One aggregate call: its arguments, and how DuckDB is to aggregate them."""

    generation: Generation
    function: Function
    arguments: list[Piece]
    types: list[TypeRef]
    result: TypeRef
    distinct: str = ""  # 'DISTINCT '
    order: str = ""  # ' ORDER BY ...'
    after: str = ""  # FILTER and OVER clauses
    constants: tuple[bool, ...] = ()  # which arguments are the same in every row

    def over(self, name: str, *arguments: str) -> str:
        """`name([DISTINCT] arguments [ORDER BY]) [FILTER] [OVER]`."""
        return f"{name}({self.distinct}{', '.join(arguments)}{self.order}){self.after}"


@makes(tree.Aggref)
def _aggregate(scope: Scope, node: tree.Aggref) -> Piece:
    level = scope.up(node.levels_up) if node.levels_up else scope
    filter_, order = "", ""

    def inside() -> list[Piece]:
        nonlocal filter_, order
        if node.filter is not None:
            filter_ = f" FILTER (WHERE {expression(scope, node.filter).sql})"
        if node.order_by:
            items = [
                sort_item(
                    scope.generation, expression(scope, o.expression), o.expression.type, o.descending, o.nulls_first
                )
                for o in node.order_by
            ]
            order = f" ORDER BY {', '.join(items)}"
        return [expression(scope, argument) for argument in node.arguments]

    pieces = level.plain(inside)
    if node.direct_arguments:
        not_supported(f"aggregate {node.function.name} WITHIN GROUP on this query", position=node.location + 1)
    call = Call(
        generation=scope.generation,
        function=node.function,
        arguments=pieces,
        types=[argument.type for argument in node.arguments],
        result=node.type,
        distinct="DISTINCT " if node.distinct else "",
        order=order,
        after=filter_,
        constants=tuple(constant(argument) for argument in node.arguments),
    )
    return aggregate_call(call, node.star)


def aggregate_call(call: Call, star: bool) -> Piece:
    """SQL of an aggregate. Raises 0A000 by name if nothing runs it."""
    if star:
        return Piece(f"count(*){call.after}", "BIGINT")
    maker = _NATIVE.get(call.function.name)
    if maker is not None:
        made = maker(call)
        if made is not None:
            return made
    if any(piece.fields for piece in call.arguments):
        not_supported(f"a record as argument of aggregate {call.function.name} on this query")
    found = registry.implementation(call.function.source)
    if found is None:
        not_supported(f"aggregate {call.function.name}({type_names(call.types)})")
    native = _from_registry(call, found)
    return native if native is not None else _over_lists(call, found)


def _from_registry(call: Call, found: Implementation) -> Piece | None:
    if found.duckdb is None or call.distinct or call.order:
        return None
    physical = [physical_type(type_, piece.form) for piece, type_ in zip(call.arguments, call.types, strict=True)]
    if isinstance(found.duckdb, str):
        arguments = [
            convert(piece, GENERAL).sql if type_.oid == oids.NUMERIC else piece.sql
            for piece, type_ in zip(call.arguments, call.types, strict=True)
        ]
        sql: str | None = found.duckdb.replace("{filter}", "\x03").format(*arguments)
    else:
        sql = found.duckdb([piece.sql for piece in call.arguments], physical)
        sql = sql.replace("{filter}", "\x03") if sql is not None else None
    if sql is None:
        return None
    sql = sql.replace("\x03", call.after) if "\x03" in sql else sql + call.after
    result = found.duckdb_result(physical) if found.duckdb_result is not None else call.result
    return Piece(sql, form_of(result.oid, result.typmod if result.oid == oids.NUMERIC else -1))


def _over_lists(call: Call, found: Implementation) -> Piece:
    """The UDF over lists of the group's values."""
    if found.python_aggregate is None and found.aggregate_for_types is None:
        not_supported(f"aggregate {call.function.name}({type_names(call.types)})")
    if call.distinct and (len(call.arguments) != 1 or not is_native(call.arguments[0], call.types[0].oid)):
        not_supported(f"DISTINCT in aggregate {call.function.name}({type_names(call.types)}) on this query")
    signature = aggregate_signature(call.function, found, call.types, call.result)
    lists = [
        call.over("list", as_declared(piece, type_.oid))
        for piece, type_ in zip(call.arguments, call.types, strict=True)
    ]
    if call.distinct and call.order:
        not_supported(f"DISTINCT and ORDER BY in aggregate {call.function.name} on this query")
    return Piece(call.generation.call_udf(signature, lists), signature.result_duckdb)


# ---- the common ones ------------------------------------------------------------------------------------------------


def _count(call: Call) -> Piece:
    piece = call.arguments[0]
    sql = piece.sql
    if call.distinct and not piece.fields:
        sql = comparable(call.generation, piece, call.types[0].oid)
    return Piece(call.over("count", sql), "BIGINT")


def _sum(call: Call) -> Piece | None:
    oid, piece = call.types[0].oid, call.arguments[0]
    digits = digits_of(piece.form)
    if oid == oids.NUMERIC and digits:
        form = decimal_form(MAX_DIGITS, digits[1])
        return Piece(f"CAST({call.over('sum', piece.sql)} AS {form})", form)
    if oid == oids.INT8:
        return Piece(f"CAST({call.over('sum', piece.sql)} AS DECIMAL(38,0))", "DECIMAL(38,0)")
    if oid in _INTEGERS:
        return Piece(f"CAST({call.over('sum', piece.sql)} AS BIGINT)", "BIGINT")
    if oid == oids.FLOAT8:
        return Piece(call.over("sum", piece.sql), "DOUBLE")
    return None


def _avg(call: Call) -> Piece | None:
    oid, piece = call.types[0].oid, call.arguments[0]
    if oid in _FLOATS:
        return Piece(call.over("avg", f"CAST({piece.sql} AS DOUBLE)"), "DOUBLE")
    if oid not in _INTEGERS and not digits_of(piece.form):
        return None
    function = registry.function(_NUMERIC_DIV)
    found = registry.implementation(function.source)
    if found is None:
        not_supported("aggregate avg")
    numeric = TypeRef(oids.NUMERIC)
    signature = function_signature(function, found, [numeric, numeric], numeric)
    quotient = call.generation.call_udf(
        signature,
        [f"CAST({call.over('sum', piece.sql)} AS VARCHAR)", f"CAST({call.over('count', piece.sql)} AS VARCHAR)"],
    )
    # No value, no division: sum is NULL there, and the UDF is strict.
    return Piece(quotient, GENERAL)


def _extreme(native: str, by_key: str) -> Callable[[Call], Piece | None]:
    def make(call: Call) -> Piece | None:
        piece, oid = call.arguments[0], call.types[0].oid
        call.distinct, call.order = "", ""
        if is_native(piece, oid):
            return Piece(call.over(native, piece.sql), piece.form)
        key = comparable(call.generation, piece, oid)
        return Piece(call.over(by_key, piece.sql, key), piece.form)

    return make


def _same(name: str) -> Callable[[Call], Piece | None]:
    """An aggregate over one argument whose result has the argument's form."""

    def make(call: Call) -> Piece | None:
        call.order = ""
        piece = call.arguments[0]
        if piece.form not in ("BOOLEAN", "SMALLINT", "INTEGER", "BIGINT"):
            return None
        return Piece(call.over(name, piece.sql), piece.form)

    return make


def _array_agg(call: Call) -> Piece | None:
    piece = call.arguments[0]
    if piece.form.endswith("[]"):
        not_supported("multidimensional arrays on this query")
    if piece.fields:
        not_supported("arrays of records on this query")
    if call.distinct and not is_native(piece, call.types[0].oid):
        not_supported("DISTINCT in aggregate array_agg of this type on this query")
    if call.distinct and not call.order:
        # PostgreSQL sorts to find duplicates, and gives the values in that order.
        call.order = " ORDER BY " + sort_item(call.generation, piece, call.types[0], False, False)
    return Piece(call.over("list", piece.sql), piece.form + "[]")


def _string_agg(call: Call) -> Piece | None:
    text, separator = call.arguments
    if call.types[0].oid not in (oids.TEXT, oids.VARCHAR) or not call.constants[1]:
        return None
    if separator.sql.startswith("NULL::"):
        separator = Piece("''", "VARCHAR")
    if call.distinct and not call.order:
        call.order = " ORDER BY " + sort_item(call.generation, text, call.types[0], False, False)
    return Piece(call.over("string_agg", text.sql, separator.sql), "VARCHAR")


_NATIVE: dict[str, Callable[[Call], Piece | None]] = {
    "count": _count,
    "sum": _sum,
    "avg": _avg,
    "min": _extreme("min", "arg_min"),
    "max": _extreme("max", "arg_max"),
    "bool_and": _same("bool_and"),
    "every": _same("bool_and"),
    "bool_or": _same("bool_or"),
    "bit_and": _same("bit_and"),
    "bit_or": _same("bit_or"),
    "bit_xor": _same("bit_xor"),
    "array_agg": _array_agg,
    "string_agg": _string_agg,
}


# ---- windows --------------------------------------------------------------------------------------------------------

_RANKS = {
    "row_number": "BIGINT",
    "rank": "BIGINT",
    "dense_rank": "BIGINT",
    "percent_rank": "DOUBLE",
    "cume_dist": "DOUBLE",
    "ntile": "INTEGER",
}
_OF_VALUES = frozenset({"lag", "lead", "first_value", "last_value", "nth_value"})
_FRAMELESS = frozenset({*_RANKS, "lag", "lead"})
_DEFAULT_FRAMES = frozenset({("range", "unbounded_preceding", "current_row")})


@makes(tree.WindowFunc)
def _window_function(scope: Scope, node: tree.WindowFunc) -> Piece:
    clause = scope.query.windows[node.window]
    name = node.function.name
    after = ""
    if node.filter is not None:
        after = f" FILTER (WHERE {expression(scope, node.filter).sql})"
    after += f" OVER ({_window(scope, clause, framed=name not in _FRAMELESS or node.function.kind == 'a')})"
    pieces = [expression(scope, argument) for argument in node.arguments]
    call = Call(
        generation=scope.generation,
        function=node.function,
        arguments=pieces,
        types=[argument.type for argument in node.arguments],
        result=node.type,
        after=after,
        constants=tuple(constant(argument) for argument in node.arguments),
    )
    if node.function.kind == "a":
        return aggregate_call(call, node.star)
    if name in _RANKS:
        sql = call.over(name, *[piece.sql for piece in pieces])
        return Piece(f"CAST({sql} AS {_RANKS[name]})", _RANKS[name])
    if name in _OF_VALUES:
        return _value_call(call, name)
    not_supported(f"window function {name}")


def _value_call(call: Call, name: str) -> Piece:
    """lag, lead, first_value, last_value, nth_value: the value in its own form."""
    value, *others = call.arguments
    if name in ("lag", "lead") and len(others) == 2:
        (value, default), _ = common([value, others[1]], value.form)
        others[1] = default
    return Piece(call.over(name, value.sql, *[piece.sql for piece in others]), value.form, value.fields)


_BOUNDS = {
    "unbounded_preceding": "UNBOUNDED PRECEDING",
    "unbounded_following": "UNBOUNDED FOLLOWING",
    "current_row": "CURRENT ROW",
}
_EXCLUSIONS = {"current_row": "CURRENT ROW", "group": "GROUP", "ties": "TIES"}


def _window(scope: Scope, clause: tree.WindowClause, framed: bool) -> str:
    generation = scope.generation
    parts = []
    if clause.partition_by:
        keys = [comparable(generation, expression(scope, item), item.type.oid) for item in clause.partition_by]
        parts.append(f"PARTITION BY {', '.join(keys)}")
    if clause.order_by:
        items = [
            sort_item(generation, expression(scope, o.expression), o.expression.type, o.descending, o.nulls_first)
            for o in clause.order_by
        ]
        parts.append(f"ORDER BY {', '.join(items)}")
    default = (clause.frame_mode, clause.frame_start[0], clause.frame_end[0]) in _DEFAULT_FRAMES
    if framed and (not default or clause.exclude):
        start, end = _bound(scope, clause, clause.frame_start), _bound(scope, clause, clause.frame_end)
        frame = f"{clause.frame_mode.upper()} BETWEEN {start} AND {end}"
        if clause.exclude:
            frame += f" EXCLUDE {_EXCLUSIONS[clause.exclude]}"
        parts.append(frame)
    return " ".join(parts)


def _bound(scope: Scope, clause: tree.WindowClause, bound: tuple[str, tree.Expr | None]) -> str:
    kind, offset = bound
    if offset is None:
        return _BOUNDS[kind]
    piece = expression(scope, offset)
    if clause.frame_mode == "range":
        key = expression(scope, clause.order_by[0].expression)
        if not is_native(key, clause.order_by[0].expression.type.oid) or (
            offset.type.oid == oids.NUMERIC and piece.form == GENERAL
        ):
            not_supported("RANGE with an offset over numeric of no fixed scale on this query")
    return f"{piece.sql} {kind.upper()}"
