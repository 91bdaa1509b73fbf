"""Aggregates and window functions.

An aggregate is the DuckDB SQL of its implementation, whose marks are replaced by DISTINCT, ORDER BY, FILTER and OVER,
or otherwise a UDF over the LIST of a group's values. Aggregates that compare values (min, max and DISTINCT) use keys
for types that DuckDB does not compare as PostgreSQL does (general numeric, jsonb).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from catalog.duckdb.nodes import CastTo, Clause, Filled, Part, Sql, Words, comma_list, fill, join_parts
from catalog.duckdb.templates import DISTINCT_MARK, FILTER_MARK, ORDER_MARK
from catalog.duckdb.types import BIGINT, BOOLEAN, HUGEINT, CharType, DuckDBType
from catalog.errors import not_supported
from catalog.functions import registry
from catalog.functions.base import Function, Implementation, Trait
from catalog.functions.duckdb_errors import raising
from catalog.routines import LANGUAGE
from catalog.types import oids
from catalog.types.base import TypeRef
from engine.columnar.generate.comparisons import comparable, is_native, sort_item, sort_key
from engine.columnar.generate.forms import (
    GENERAL,
    MAX_DIGITS,
    Piece,
    common,
    convert,
    decimal_form,
    digits_of,
    form_of,
    is_whole,
    physical_type,
    settle,
)
from engine.columnar.generate.hypothetical import NAMES as HYPOTHETICAL
from engine.columnar.generate.hypothetical import hypothetical
from engine.columnar.generate.state import (
    Generation,
    Scope,
    compact_expression,
    expression,
    makes,
    scaled_expression,
    stable,
    type_names,
)
from engine.columnar.generate.texts import as_declared
from engine.columnar.generate.udf import aggregate_signature, named_signature
from engine.execute.user_aggregates import BuiltInSteps, built_in_steps
from engine.sql import tree
from engine.sql.tree_walk import walk

_SCALED = frozenset({"sum", "avg", "min", "max", "count"})


@dataclass(slots=True)
class Call:
    """One aggregate or window call: its arguments and its clauses."""

    generation: Generation
    function: Function
    arguments: list[Piece]
    types: list[TypeRef]
    result: TypeRef
    direct: int = 0  # number of direct arguments of an ordered-set aggregate
    distinct: str = ""  # 'DISTINCT '
    order: Clause = ""  # ' ORDER BY ...'
    sorting: Sequence[tuple[int, bool, bool]] = ()  # with DISTINCT: the order of the arguments (UdfSignature.distinct)
    after: Clause = ""  # FILTER and OVER clauses
    steps: BuiltInSteps | None = None  # of a user-defined aggregate
    strict: bool = True  # the same: rows with a NULL are left out

    @property
    def shown(self) -> str:
        return f"{self.function.name}({type_names(self.types)})"

    @property
    def by_key(self) -> bool:
        """Whether an argument has to be compared by keys."""
        return any(
            not piece.fields and not is_native(piece, type_.oid)
            for piece, type_ in zip(self.arguments, self.types, strict=True)
        )

    def marked(self, sql: Sql) -> Sql:
        """Returns the SQL with its marks replaced by the call's clauses."""
        is_marked = isinstance(sql, Filled) and sql.template.is_marked
        return sql.with_marks(self.distinct, self.order, self.after) if isinstance(sql, Filled) and is_marked else sql


@makes(tree.Aggref)
def _aggregate(scope: Scope, node: tree.Aggref) -> Piece:
    level = scope.outer(node.levels_up) if node.levels_up else scope
    if node.levels_up and any(_holds_query(item) for item in (*node.direct_arguments, *node.arguments)):
        not_supported("a sub-query in an aggregate of an outer query")  # DuckDB would aggregate at the inner level
    condition: Sql | None = None
    order: Clause = ""
    is_hypothetical = bool(node.direct_arguments) and node.function.name in HYPOTHETICAL

    def inside() -> list[Piece]:
        nonlocal condition, order
        if node.filter is not None:
            condition = expression(scope, node.filter).sql
        if is_hypothetical:
            return [hypothetical(scope, node, condition)]
        order = _order(scope, node.order_by)
        make = scaled_expression if node.function.name in _SCALED else expression
        pieces = [make(scope, argument) for argument in (*node.direct_arguments, *node.arguments)]
        return _with_guard(pieces, node.arguments, condition)

    with scope.generation.streaming(False):
        pieces = level.plain(inside)
    if is_hypothetical:
        return pieces[0]
    call = Call(
        generation=scope.generation,
        function=node.function,
        arguments=pieces,
        types=[argument.type for argument in (*node.direct_arguments, *node.arguments)],
        result=node.type,
        direct=len(node.direct_arguments),
        distinct="DISTINCT " if node.distinct else "",
        order=order,
        sorting=_sorting(node) if node.distinct else (),
        after="" if condition is None else fill(" FILTER (WHERE {})", condition),
        steps=built_in_steps(node),
        strict=node.body is None or node.body.strict,
    )
    piece = aggregate_call(call)
    if node.distinct:  # DuckDB searches the expressions of ORDER BY among the arguments, except for volatile ones
        piece = piece._replace(sql=stable(scope, piece.sql))
    return piece


def _sorting(node: tree.Aggref) -> list[tuple[int, bool, bool]]:
    """Returns the order in which DISTINCT sorts: first by ORDER BY, which may contain only arguments, then by the other
    arguments."""
    sorting = [(node.arguments.index(item.expression), item.descending, item.nulls_first) for item in node.order_by]
    named = {place for place, _, _ in sorting}
    return sorting + [(place, False, False) for place in range(len(node.arguments)) if place not in named]


_HARMLESS = (tree.Var, tree.Const, tree.Param, tree.RelabelType)


def _with_guard(pieces: list[Piece], nodes: tuple[tree.Expr, ...], condition: Sql | None) -> list[Piece]:
    """Restricts arguments that may raise errors to the rows of FILTER, because DuckDB computes them for all rows."""
    if condition is None or all(isinstance(node, _HARMLESS) for node in nodes):
        return pieces
    return [piece._replace(sql=fill("CASE WHEN {} THEN {} END", condition, piece.sql)) for piece in pieces]


def _holds_query(node: tree.Expr) -> bool:
    return any(isinstance(item, tree.Query) for item in walk(node))


def _order(scope: Scope, clauses: tuple[tree.SortClause, ...]) -> Clause:
    """Returns ` ORDER BY ...`, or nothing."""
    return fill(" ORDER BY {}", _sort_items(scope, clauses)) if clauses else ""


def _sort_items(scope: Scope, clauses: tuple[tree.SortClause, ...]) -> Sql:
    items = [
        sort_item(
            scope.generation, compact_expression(scope, o.expression), o.expression.type, o.descending, o.nulls_first
        )
        for o in clauses
    ]
    return comma_list(items)


def aggregate_call(call: Call) -> Piece:
    """Returns the SQL of an aggregate. Raises 0A000 with its name if it has no implementation here."""
    if call.function.language == LANGUAGE:
        return _of_user(call)
    found = registry.implementation(call.function.source)
    if found is None:
        not_supported(f"aggregate {call.shown}")
    if call.arguments and call.arguments[0].scale is not None:
        return _scaled(call)
    if call.distinct and not call.order and _depends_on_order(call):
        # PostgreSQL sorts to find duplicates, and aggregates the values in that order.
        call.order = " ORDER BY " + sort_item(call.generation, call.arguments[0], call.types[0], False, False)
    if call.arguments and isinstance(call.arguments[0].form, CharType) and call.function.name in ("min", "max"):
        sql = fill(f"{call.function.name}({{}}){FILTER_MARK}", call.arguments[0].sql)
        return Piece(call.marked(sql), call.arguments[0].form)
    if call.distinct and call.by_key and call.function.name not in ("count", "min", "max"):
        return _call_python(call, found)
    native = _keyed(call) or _native(call, found)
    return native if native is not None else _call_python(call, found)


def _call_python(call: Call, found: Implementation) -> Piece:
    """Returns the call of a UDF with the steps of a built-in aggregate. Raises 0A000 if there are none."""
    if found.python_aggregate is None and found.aggregate_for_types is None:
        not_supported(f"aggregate {call.shown}")
    return _over_lists(call, found.steps_see_nulls)


def _depends_on_order(call: Call) -> bool:
    """Whether the result depends on the order of the values: collections do, and the last digit of sums of floats."""
    if call.function.name.endswith("_agg"):
        return True
    return _of_floats(call) and call.function.name not in ("count", "min", "max")


def _of_floats(call: Call) -> bool:
    return bool(call.types) and call.types[0].oid in oids.FLOATS


def _scaled(call: Call) -> Piece:
    """Returns sum, avg, min, max or count of scaled numerics. The scale of a sum is the largest scale of its values."""
    piece, name = call.arguments[0], call.function.name
    if name == "count":
        return Piece(call.marked(fill(f"count({DISTINCT_MARK}{{}}){FILTER_MARK}", piece.sql)), BIGINT)
    digits = digits_of(piece.form)
    assert digits is not None and piece.scale is not None
    shown = fill("CASE WHEN {} IS NOT NULL THEN {} END", piece.sql, piece.scale)
    if name in ("min", "max"):
        scale = fill("arg_{}({}, {}){}", name, shown, piece.sql, call.after)
        return Piece(fill("{}({}){}", name, piece.sql, call.after), piece.form, scale=scale)
    form = decimal_form(MAX_DIGITS, digits[1])
    total = Piece(
        call.marked(fill(f"CAST(sum({DISTINCT_MARK}{{}}){FILTER_MARK} AS {{}})", piece.sql, form)),
        form,
        scale=fill("max({}){}", shown, call.after),
    )
    if name == "sum":
        return total
    signature = named_signature("numeric_div")
    count = call.marked(fill(f"CAST(count({DISTINCT_MARK}{{}}){FILTER_MARK} AS VARCHAR)", piece.sql))
    return Piece(call.generation.call_udf(signature, [settle(total).sql, count]), GENERAL)


def _keyed(call: Call) -> Piece | None:
    """Returns min, max or count(DISTINCT) of values that are compared by key; None for other calls."""
    if not call.by_key:
        return None
    piece, name = call.arguments[0], call.function.name
    if name in ("min", "max"):
        key = comparable(call.generation, piece, call.types[0].oid)
        return Piece(fill("arg_{}({}, {}){}", name, piece.sql, key, call.after), piece.form)
    if call.distinct:
        key = comparable(call.generation, piece, call.types[0].oid)
        return Piece(fill("count(DISTINCT {}){}", key, call.after), BIGINT)
    return None


def _native(call: Call, found: Implementation) -> Piece | None:
    """Returns the call by DuckDB's functions, which accept arrays only as LISTs; None if there is none."""
    if found.duckdb is None or call.direct:
        return None
    if call.function.name != "count" and any(is_whole(type_.oid) for type_ in (*call.types, call.result)):
        return None
    physical = [physical_type(type_, piece.form) for piece, type_ in zip(call.arguments, call.types, strict=True)]
    if isinstance(found.duckdb, str):
        declared = call.function.argument_types
        arguments = [
            convert(piece, GENERAL).sql if type_.oid == oids.NUMERIC and wanted != oids.ANY else piece.sql
            for piece, type_, wanted in zip(call.arguments, call.types, declared, strict=False)
        ]
        sql: Sql | None = fill(found.duckdb, *arguments)
    elif any(piece.fields for piece in call.arguments):
        return None
    else:
        sql = found.duckdb([piece.sql for piece in call.arguments], physical)
    if sql is None:
        return None
    for source in found.duckdb_udfs:
        signature = named_signature(source)
        call.generation.functions[signature.name] = signature
    result = found.duckdb_result(physical) if found.duckdb_result is not None else call.result
    return Piece(call.marked(sql), form_of(result.oid, result.typmod if result.oid == oids.NUMERIC else -1))


def _of_user(call: Call) -> Piece:
    """Returns the call of a user-defined aggregate whose functions are built in. Raises 0A000 for others."""
    if call.steps is None:
        not_supported(f"aggregate {call.shown}, whose functions are not built in, on this query")
    if not call.arguments:
        call.arguments, call.types = [Piece(Words("TRUE"), BOOLEAN)], [TypeRef(oids.BOOL)]
    if call.distinct and not call.order and _is_sortable(call):
        call.order = " ORDER BY " + sort_item(call.generation, call.arguments[0], call.types[0], False, False)
    return _over_lists(call, not call.strict)


def _is_sortable(call: Call) -> bool:
    return len(call.arguments) == 1 and not call.by_key


def _over_lists(call: Call, sees_nulls: bool) -> Piece:
    """Returns the call of a UDF over LISTs of the group's values."""
    if any(piece.fields for piece in call.arguments):
        not_supported(f"a record as argument of aggregate {call.function.name} on this query")
    sorting: Sequence[tuple[int, bool, bool]] = ()
    if call.distinct and (len(call.arguments) != 1 or call.by_key or (call.order and not _of_floats(call))):
        sorting, call.distinct, call.order = call.sorting, "", ""
    signature = aggregate_signature(
        call.function, call.types, call.result, call.direct, sorting, sees_nulls=sees_nulls, steps=call.steps
    )
    arguments = [as_declared(piece, type_.oid) for piece, type_ in zip(call.arguments, call.types, strict=True)]
    template = f"list({DISTINCT_MARK}{{}}{ORDER_MARK}){FILTER_MARK}"
    lists = [call.marked(fill(template, sql)) for sql in arguments[call.direct :]]
    return call.generation.udf(signature, [*arguments[: call.direct], *lists])


# ---- windows --------------------------------------------------------------------------------------------------------

_DEFAULT_FRAME = ("range", "unbounded_preceding", "current_row")
_BOUNDS = {
    "unbounded_preceding": "UNBOUNDED PRECEDING",
    "unbounded_following": "UNBOUNDED FOLLOWING",
    "current_row": "CURRENT ROW",
}
_EXCLUSIONS = {"current_row": "CURRENT ROW", "group": "GROUP", "ties": "TIES"}


@makes(tree.WindowFunc)
def _window_function(scope: Scope, node: tree.WindowFunc) -> Piece:
    after: Clause = ""
    condition: Sql | None = None
    if node.filter is not None:
        condition = expression(scope, node.filter).sql
        after = fill(" FILTER (WHERE {})", condition)
    is_aggregate = node.function.kind == "a"
    framed = is_aggregate or not registry.has_trait(node.function.source, Trait.FRAMELESS)
    after = after + fill(" OVER ({})", _window(scope, scope.query.windows[node.window], framed))
    make = scaled_expression if is_aggregate and node.function.name in _SCALED else expression
    call = Call(
        generation=scope.generation,
        function=node.function,
        arguments=_with_guard([make(scope, argument) for argument in node.arguments], node.arguments, condition),
        types=[argument.type for argument in node.arguments],
        result=node.type,
        after=after,
        steps=built_in_steps(node),
        strict=node.body is None or node.body.strict,
    )
    if is_aggregate:
        return aggregate_call(call)
    found = registry.implementation(node.function.source)
    if found is None or not isinstance(found.duckdb, str):
        not_supported(f"window function {call.shown}")
    form, fields = _value_form(call)
    sql = call.marked(fill(found.duckdb, *[piece.sql for piece in call.arguments]))
    return Piece(sql, form, fields)


def _value_form(call: Call) -> tuple[DuckDBType, tuple[tuple[TypeRef, DuckDBType], ...]]:
    """Returns the form and the fields of the result. If the result is one of the arguments' values, converts these
    arguments to one form."""
    values = [
        index
        for index, oid in enumerate(call.function.argument_types)
        if oid in (oids.ANYELEMENT, oids.ANYCOMPATIBLE) and call.function.result_type == oid
    ]
    if not values:
        return form_of(call.result.oid), ()
    pieces, form = common([call.arguments[index] for index in values], call.arguments[values[0]].form)
    for index, piece in zip(values, pieces, strict=True):
        call.arguments[index] = piece
    return form, pieces[0].fields


def _window(scope: Scope, clause: tree.WindowClause, framed: bool) -> Sql:
    parts: list[Part] = []
    if clause.partition_by:
        keys = [
            comparable(scope.generation, compact_expression(scope, item), item.type.oid) for item in clause.partition_by
        ]
        parts.append(stable(scope, fill("PARTITION BY {}", comma_list(keys))))
    if clause.order_by and _has_range_offset(clause):
        parts.append(fill("ORDER BY {}", _range_key(scope, clause.order_by[0])))
    elif clause.order_by:
        parts.append(stable(scope, fill("ORDER BY {}", _sort_items(scope, clause.order_by))))
    default = (clause.frame_mode, clause.frame_start[0], clause.frame_end[0]) == _DEFAULT_FRAME
    if framed and (not default or clause.exclude):
        start, end = _bound(scope, clause, clause.frame_start), _bound(scope, clause, clause.frame_end)
        parts.append(fill("{} BETWEEN {} AND {}", clause.frame_mode.upper(), start, end))
        if clause.exclude:
            parts.append(f"EXCLUDE {_EXCLUSIONS[clause.exclude]}")
    return join_parts(" ", parts)


def _has_range_offset(clause: tree.WindowClause) -> bool:
    return clause.frame_mode == "range" and (clause.frame_start[1] or clause.frame_end[1]) is not None


def _range_key(scope: Scope, order: tree.SortClause) -> Sql:
    """Returns the ORDER BY item of RANGE with an offset. Integers are HUGEINT, so that no sum with an offset
    overflows."""
    key = expression(scope, order.expression)
    if order.expression.type.oid in oids.INTEGERS:
        return stable(scope, sort_key(CastTo(key.sql, HUGEINT), order.descending, order.nulls_first))
    items = sort_item(scope.generation, key, order.expression.type, order.descending, order.nulls_first)
    return stable(scope, items)


def _bound(scope: Scope, clause: tree.WindowClause, bound: tuple[str, tree.Expr | None]) -> Part:
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
        if offset.type.oid in oids.INTEGERS:
            return fill("CAST({} AS HUGEINT) {}", piece.sql, kind.upper())
        if offset.type.oid in oids.FLOATS:
            return fill("{} {}", _finite_offset(scope, piece.sql), kind.upper())
    return fill("{} {}", piece.sql, kind.upper())


def _finite_offset(scope: Scope, sql: Sql) -> Sql:
    """Returns a float offset with checks: 22013 for NaN, as in PostgreSQL, and 0A000 for infinity, because DuckDB's sum
    may be NaN for rows that PostgreSQL includes."""
    invalid = raising("22013", "invalid preceding or following size in window function")
    refused = raising("0A000", "RANGE with an infinite offset on this query is not supported")
    checked = fill(
        "CASE WHEN isnan({sql}) THEN {invalid} WHEN isinf({sql}) THEN {refused} ELSE {sql} END",
        sql=sql,
        invalid=invalid,
        refused=refused,
    )
    return stable(scope, checked)
