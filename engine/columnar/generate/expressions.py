"""Expressions except for calls, aggregates and sub-queries."""

from __future__ import annotations

from collections.abc import Sequence

from catalog import types
from catalog.duckdb.nodes import (
    CastTo,
    ColumnReference,
    Entry,
    Identifier,
    Null,
    Part,
    Sql,
    Words,
    comma_list,
    constant_integer,
    fill,
    has_query,
    join_parts,
)
from catalog.duckdb.types import (
    BIGINT,
    BLOB,
    BOOLEAN,
    INTEGER,
    TIMESTAMP,
    VARCHAR,
    DuckDBType,
    ListType,
    list_of,
    struct_of,
)
from catalog.errors import not_supported
from catalog.functions.array_shapes import NEST, SLICE, SUBSCRIPT
from catalog.functions.array_slices import ASSIGN_SLICE
from catalog.functions.composites import ALL_NULL, FIELD, MAKE, NONE_NULL
from catalog.functions.duckdb_errors import raising
from catalog.functions.duckdb_sql import bind_once
from catalog.types import oids
from catalog.types.array import MAX_ELEMENTS
from catalog.types.base import Array, TypeRef
from engine.columnar.generate.bounds import narrow_comparison
from engine.columnar.generate.calls import call, elements
from engine.columnar.generate.comparisons import (
    COMPARISONS,
    comparable,
    comparable_element,
    comparable_pair,
    compare,
    is_by_key,
    is_native,
    key_of,
    row_comparison,
)
from engine.columnar.generate.forms import (
    Piece,
    common,
    convert,
    element_form,
    form_of,
    is_whole,
    rescaled,
    settle,
    shown_scale,
    unify,
    unify_pieces,
    with_blanks,
)
from engine.columnar.generate.state import (
    FEWEST,
    MANY,
    Scope,
    Source,
    compact_expression,
    expression,
    makes,
    scaled_expression,
)
from engine.columnar.generate.texts import as_declared
from engine.columnar.generate.udf import is_composite, row_signature
from engine.columnar.interface import TRANSACTION_TIME
from engine.sql import tree
from engine.sql.tree_walk import changes, contains, is_volatile
from engine.storage.columns import ShapedArray

# ---- columns --------------------------------------------------------------------------------------------------------


@makes(tree.Var)
def _var(scope: Scope, node: tree.Var) -> Piece:
    at = scope.outer(node.levels_up) if node.levels_up else scope
    if at.groups is not None:
        own = tree.Var(node.relation, node.column, node.type, 0, node.name) if node.levels_up else node
        found = at.groups.get(own)
        if found is not None:
            return found
    entry = at.query.range_table[node.relation]
    if isinstance(entry, tree.RangeJoin) and node.relation not in at.sources:
        return _of_join(at, entry, node.column)
    source = at.sources[node.relation]
    if node.column == tree.ROW_NUMBER:
        return Piece(ColumnReference(source.alias, "r"), BIGINT)
    if node.column == tree.TABLE_OID:
        not_supported("tableoid of rows that move to other partitions, on this query")
    if node.column == tree.XMAX:
        not_supported("xmax with ON CONFLICT on this query")
    piece = source.columns[node.column] if node.column else _whole_row(source, entry)
    if at.groups is not None:
        # The column depends on a grouped primary key: all rows of the group have the same value.
        return Piece(fill("any_value({})", piece.sql), piece.form, piece.fields)
    return piece


def _of_join(scope: Scope, entry: tree.RangeJoin, column: int) -> Piece:
    if column:
        return compact_expression(scope, entry.expressions[column - 1])
    pieces = [expression(scope, item) for item in entry.expressions]
    return record(pieces, [item.type for item in entry.columns])


def _whole_row(source: Source, entry: tree.RangeEntry) -> Piece:
    """Returns the row as a record; NULL if an outer join has replaced the row by NULLs."""
    piece = record(list(source.columns.values()), [item.type for item in entry.columns])
    if source.present is None:
        return piece
    return piece._replace(sql=fill("CASE WHEN {} IS NOT NULL THEN {} END", source.present, piece.sql))


def record(pieces: list[Piece], field_types: list[TypeRef]) -> Piece:
    """Returns a STRUCT with fields f1, f2, ... and their SQL types. Raises 0A000 for no fields and for nested
    records."""
    if not pieces:
        not_supported("rows without columns on this query")
    if any(piece.fields for piece in pieces):
        not_supported("a record in a record on this query")
    pieces = [with_blanks(piece) for piece in pieces]
    items = comma_list([fill("f{} := {}", n, piece.sql) for n, piece in enumerate(pieces, 1)])
    fields = tuple((type_, piece.form) for type_, piece in zip(field_types, pieces, strict=True))
    return Piece(fill("struct_pack({})", items), struct_of([piece.form for piece in pieces]), fields)


@makes(tree.RowExpr)
def _row(scope: Scope, node: tree.RowExpr) -> Piece:
    pieces = [expression(scope, item) for item in node.elements]
    if node.type.oid == oids.RECORD:
        return record(pieces, [item.type for item in node.elements])
    signature = row_signature(MAKE, [item.type for item in node.elements], node.type)
    sql = [as_declared(piece, item.type.oid) for piece, item in zip(pieces, node.elements, strict=True)]
    return scope.generation.udf(signature, sql)


@makes(tree.FieldSelect)
def _field(scope: Scope, node: tree.FieldSelect) -> Piece:
    if isinstance(node.argument, tree.RowExpr):
        return expression(scope, node.argument.elements[node.field - 1])
    piece = expression(scope, node.argument)
    if is_composite(node.argument.type.oid):
        signature = row_signature(FIELD, [node.argument.type, TypeRef(oids.INT4)], node.type, strict=True)
        return scope.generation.udf(signature, [piece.sql, str(node.field)])
    if not piece.fields:
        not_supported("a field of this record")
    return Piece(fill("struct_extract({}, 'f{}')", piece.sql, node.field), piece.fields[node.field - 1][1])


# ---- logic ----------------------------------------------------------------------------------------------------------


@makes(tree.BoolExpr)
def _bool(scope: Scope, node: tree.BoolExpr) -> Piece:
    if node.operator == "not":
        return Piece(fill("(NOT {})", expression(scope, node.arguments[0]).sql), BOOLEAN)
    word = " AND " if node.operator == "and" else " OR "
    return Piece(fill("({})", join_parts(word, [expression(scope, item).sql for item in node.arguments])), BOOLEAN)


@makes(tree.NullTest)
def _null_test(scope: Scope, node: tree.NullTest) -> Piece:
    piece = compact_expression(scope, node.argument)
    word = "IS NULL" if node.is_null else "IS NOT NULL"
    if is_composite(node.argument.type.oid) and not node.whole:
        source = ALL_NULL if node.is_null else NONE_NULL
        signature = row_signature(source, [node.argument.type], TypeRef(oids.BOOL))
        return Piece(scope.generation.call_udf(signature, [piece.sql]), BOOLEAN)
    if piece.fields:
        tests = [fill("struct_extract({}, 'f{}') {}", piece.sql, n, word) for n in range(1, len(piece.fields) + 1)]
        return Piece(fill("({})", join_parts(" AND ", tests)), BOOLEAN)
    return Piece(fill("({} {})", piece.sql, word), BOOLEAN)


_BOOLEAN_TESTS = {
    "is_true": "IS NOT DISTINCT FROM TRUE",
    "is_not_true": "IS DISTINCT FROM TRUE",
    "is_false": "IS NOT DISTINCT FROM FALSE",
    "is_not_false": "IS DISTINCT FROM FALSE",
    "is_unknown": "IS NULL",
    "is_not_unknown": "IS NOT NULL",
}


@makes(tree.BooleanTest)
def _boolean_test(scope: Scope, node: tree.BooleanTest) -> Piece:
    return Piece(fill("({} {})", expression(scope, node.argument).sql, _BOOLEAN_TESTS[node.test]), BOOLEAN)


@makes(tree.DistinctExpr)
def _distinct(scope: Scope, node: tree.DistinctExpr) -> Piece:
    symbol = "IS NOT DISTINCT FROM" if node.negated else "IS DISTINCT FROM"
    narrow = narrow_comparison(symbol, node.left, node.right)
    kinds = {node.left.type.oid, node.right.type.oid}
    if narrow is None and len(kinds) > 1 and kinds <= oids.DATED:
        return _distinct_moments(scope, node)
    symbol, one, other = narrow or (symbol, node.left, node.right)
    oids_ = (one.type.oid, other.type.oid)
    left, right = compact_expression(scope, one), compact_expression(scope, other)
    return Piece(compare(scope.generation, symbol, left, right, oids_), BOOLEAN)


def _distinct_moments(scope: Scope, node: tree.DistinctExpr) -> Piece:
    """Returns IS [NOT] DISTINCT FROM for two different types of date, timestamp and timestamptz, by their `=`
    operator."""
    sides = expression(scope, node.left), expression(scope, node.right)
    types = [node.left.type, node.right.type]

    def make(one: Sql, other: Sql) -> Sql:
        pieces = [piece._replace(sql=sql) for piece, sql in zip(sides, (one, other), strict=True)]
        equal = call(scope.generation, node.function, pieces, types, TypeRef(oids.BOOL)).sql
        answer = equal if node.negated else fill("NOT {}", equal)
        symbol = "=" if node.negated else "<>"
        one_null, other_null = fill("({} IS NULL)", one), fill("({} IS NULL)", other)
        return fill("(CASE WHEN {0} OR {1} THEN {0} {2} {1} ELSE {3} END)", one_null, other_null, symbol, answer)

    return Piece(bind_once([side.sql for side in sides], make), BOOLEAN)


@makes(tree.NullIfExpr)
def _null_if(scope: Scope, node: tree.NullIfExpr) -> Piece:
    left = expression(scope, node.left)
    right = expression(scope, node.right)
    equal = call(scope.generation, node.function, [left, right], [node.left.type, node.right.type], TypeRef(oids.BOOL))
    return Piece(fill("CASE WHEN {} THEN NULL ELSE {} END", equal.sql, left.sql), left.form, left.fields)


@makes(tree.RowCompare)
def _row_compare(scope: Scope, node: tree.RowCompare) -> Piece:
    pairs = [
        comparable_pair(
            scope.generation, compact_expression(scope, a), compact_expression(scope, b), (a.type.oid, b.type.oid)
        )
        for a, b in zip(node.left, node.right, strict=True)
    ]
    return Piece(row_comparison(node.kind, pairs), BOOLEAN)


# ---- conditionals ---------------------------------------------------------------------------------------------------


@makes(tree.CaseExpr)
def _case(scope: Scope, node: tree.CaseExpr) -> Piece:
    if node.argument is not None:
        argument = expression(scope, node.argument)
        scope.case_tests.append(argument)
    try:
        conditions = [expression(scope, condition).sql for condition, _ in node.whens]
    finally:
        if node.argument is not None:
            scope.case_tests.pop()
    results = [scaled_expression(scope, result) for _, result in node.whens]
    results.append(scaled_expression(scope, node.default))
    fields = next((piece.fields for piece in results if piece.fields), ())
    form = _rescaled(scope, node, results)
    if form is not None:
        scale = _branches(conditions, [shown_scale(piece) for piece in results])
        return Piece(_branches(conditions, [convert(piece, form).sql for piece in results]), form, scale=scale)
    results, form = common([settle(piece) for piece in results])
    return Piece(_branches(conditions, [piece.sql for piece in results]), form, fields)


def _rescaled(scope: Scope, node: tree.CaseExpr | tree.CoalesceExpr, pieces: list[Piece]) -> DuckDBType | None:
    """Returns the common form of scaled results; None if there is none, or if the expression is volatile: the SQL of
    the scale contains the conditions and the results again."""
    if node.type.oid != oids.NUMERIC or (scope.generation.volatile and is_volatile(node)):
        return None
    return rescaled(pieces)


def _branches(conditions: Sequence[Part], results: Sequence[Part]) -> Sql:
    """Returns a CASE; the last result is that of ELSE."""
    branches = join_parts(" ", [fill("WHEN {} THEN {}", c, r) for c, r in zip(conditions, results, strict=False)])
    return fill("CASE {} ELSE {} END", branches, results[-1])


@makes(tree.CurrentOf)
def _current_of(scope: Scope, node: tree.CurrentOf) -> Piece:
    not_supported("WHERE CURRENT OF on this query")


@makes(tree.CaseTestExpr)
def _case_test(scope: Scope, node: tree.CaseTestExpr) -> Piece:
    return scope.case_tests[-1]


@makes(tree.CoalesceExpr)
def _coalesce(scope: Scope, node: tree.CoalesceExpr) -> Piece:
    pieces = [scaled_expression(scope, item) for item in node.arguments]
    fields = next((piece.fields for piece in pieces if piece.fields), ())
    form = _rescaled(scope, node, pieces)
    if form is not None:
        tests = [fill("{} IS NOT NULL", piece.sql) for piece in pieces[:-1]]
        scale = _branches(tests, [shown_scale(piece) for piece in pieces])
        sql = comma_list([convert(piece, form).sql for piece in pieces])
        return Piece(fill("coalesce({})", sql), form, scale=scale)
    pieces, form = common([settle(piece) for piece in pieces])
    return Piece(fill("coalesce({})", comma_list([piece.sql for piece in pieces])), form, fields)


@makes(tree.MinMaxExpr)
def _min_max(scope: Scope, node: tree.MinMaxExpr) -> Piece:
    """Returns GREATEST or LEAST, which ignore NULLs, in DuckDB too. PostgreSQL returns the first of equal values. If
    equal values may have different texts, or values are compared by keys, the SQL selects the value by the smallest or
    largest pair of key and position."""
    pieces, form = common([expression(scope, item) for item in node.arguments])
    oid = node.type.oid
    if (
        all(is_native(piece, oid) for piece in pieces)
        and oid not in _EQUAL_IN_MANY_WAYS
        and not isinstance(form, ListType)
    ):
        return Piece(fill("{}({})", node.operator, comma_list([piece.sql for piece in pieces])), form)
    values, value, place = (scope.generation.alias() for _ in range(3))
    key = comparable(scope.generation, Piece(Identifier(value), form), oid)
    function, sign = ("list_max", "-") if node.operator == "greatest" else ("list_min", "")
    keys = fill(
        "list_transform({values}, lambda {value}, {place}: struct_pack(k := {key}, p := {sign}{place}))",
        values=values,
        value=value,
        place=place,
        key=key,
        sign=sign,
    )
    given = fill("list_filter([{0}], lambda {1}: {1} IS NOT NULL)", comma_list([piece.sql for piece in pieces]), value)
    # DuckDB has no LET: a list of one element binds the value.
    found = fill("{}[{}struct_extract({}({}), 'p')]", values, sign, function, keys)
    return Piece(fill("list_transform([{}], lambda {}: {})[1]", given, values, found), form)


_EQUAL_IN_MANY_WAYS = frozenset({oids.FLOAT4, oids.FLOAT8, oids.INTERVAL, oids.RECORD})  # 0 and -0, a month and 30 days


# ---- arrays ---------------------------------------------------------------------------------------------------------


@makes(tree.ArrayExpr)
def _array(scope: Scope, node: tree.ArrayExpr) -> Piece:
    if node.nested:
        return _nested_array(scope, node)
    pieces = [expression(scope, item) for item in node.elements]
    if any(piece.fields for piece in pieces):
        not_supported("arrays of records on this query", position=node.location + 1)
    form = unify_pieces(pieces) if pieces else form_of(node.element_type.oid)
    items = comma_list([convert(piece, form).sql for piece in pieces])
    made = Piece(fill("CAST([{}] AS {}[])", items, form), list_of(form))
    return scope.generation.as_whole(made, node.type.oid)


def _nested_array(scope: Scope, node: tree.ArrayExpr) -> Piece:
    """Returns ARRAY[array, ...], which has one dimension more. Raises ShapedArray if arrays are LISTs."""
    if not is_whole(node.type.oid):
        raise ShapedArray
    signature = row_signature(NEST, [item.type for item in node.elements], node.type)
    sql: list[Part] = [as_declared(expression(scope, item), item.type.oid) for item in node.elements]
    return scope.generation.udf(signature, sql)


@makes(tree.SubscriptingRef)
def _subscript(scope: Scope, node: tree.SubscriptingRef) -> Piece:
    array = expression(scope, node.argument)
    if is_whole(node.argument.type.oid):
        return _subscript_of_text(scope, node, array)
    if node.argument.type.oid == oids.NAME and len(node.upper) == 1 and not node.is_slice:
        place = _index(scope, node.upper[0])
        assert place is not None
        return Piece(fill("CASE WHEN {0} >= 0 THEN substr({1}, {0} + 1, 1) END", place, array.sql), VARCHAR)
    if not isinstance(array.form, ListType):
        not_supported(f"subscripts of type {types.format_type(node.argument.type.oid)} on this query")
    if len(node.upper) > 1:
        raise ShapedArray
    upper = _index(scope, node.upper[0])
    if node.is_slice:
        if node.assignment is not None:
            return _assigned_slice(scope, node, array, upper)
        return _slice(array, _index(scope, node.lower[0]), upper)
    assert upper is not None
    if node.argument.type.oid in oids.VECTORS:  # they start at 0
        return Piece(fill("CASE WHEN {0} >= 0 THEN {1}[{0} + 1] END", upper, _named(array)), array.form.element)
    if node.assignment is not None:
        return _assigned(array, upper, expression(scope, node.assignment))
    if (constant_integer(upper) or 0) > 0:
        return Piece(fill("{}[{}]", _named(array), upper), array.form.element)
    return Piece(fill("CASE WHEN {0} > 0 THEN {1}[{0}] END", upper, _named(array)), array.form.element)


def _subscript_of_text(scope: Scope, node: tree.SubscriptingRef, array: Piece) -> Piece:
    """Returns array[i][j] or array[i:j][k:l] by UDFs that call the row path's functions."""
    if node.assignment is not None:
        not_supported("assignment to arrays of several dimensions, or not starting at 1, on this query")
    upper = [_integer(scope, item) for item in node.upper]
    if node.is_slice:
        bounds = [
            (_integer(scope, low), high, str(low is None), str(given is None))
            for low, high, given in zip(node.lower, upper, node.upper, strict=True)
        ]
        kinds = (_INT4, _INT4, _BOOL, _BOOL) * len(bounds)
        signature = row_signature(SLICE, [node.argument.type, *kinds], node.type)
        sql = [array.sql, *(item for quad in bounds for item in quad)]
    else:
        signature = row_signature(SUBSCRIPT, [node.argument.type, *(_INT4 for _ in upper)], node.type)
        sql = [array.sql, *upper]
    return scope.generation.udf(signature, sql)


def _named(array: Piece) -> Sql:
    return fill("({})", array.sql)


_INT4, _BOOL = TypeRef(oids.INT4), TypeRef(oids.BOOL)


def _integer(scope: Scope, node: tree.Expr | None) -> Sql:
    """Returns a subscript as an argument of a UDF."""
    return Null(INTEGER) if node is None else CastTo(expression(scope, node).sql, INTEGER)


def _index(scope: Scope, node: tree.Expr | None) -> Sql | None:
    return None if node is None else expression(scope, node).sql


def _slice(array: Piece, lower: Sql | None, upper: Sql | None) -> Piece:
    """Returns a slice, with the bounds limited to those of the array. A NULL bound gives NULL, an empty range an empty
    array."""
    first: Part = 1 if lower is None else fill("greatest({}, 1)", lower)
    last = fill("len({})", array.sql) if upper is None else fill("greatest({}, 0)", upper)
    sql = fill("CASE WHEN {0} > {1} THEN CAST([] AS {2}) ELSE {3}[{0}:{1}] END", first, last, array.form, _named(array))
    bounds = [bound for bound in (lower, upper) if bound is not None]
    if bounds:
        tests = join_parts(" OR ", [fill("{} IS NULL", item) for item in (*bounds, array.sql)])
        sql = fill("CASE WHEN {} THEN NULL ELSE {} END", tests, sql)
    return Piece(sql, array.form)


def _assigned(array: Piece, index: Sql, value: Piece) -> Piece:
    """Returns the array with one element assigned; a longer array is padded with NULLs. The query raises 0A000 if the
    result's lower bound would not be 1: for an index below 1, and for an index above 1 in an empty array."""
    form = unify(array.form, list_of(value.form))
    whole = fill("coalesce({}, CAST([] AS {}))", convert(array, form).sql, form)
    before = fill("list_resize({}, CAST({} - 1 AS UBIGINT))", whole, index)
    after = fill(
        "CASE WHEN len({whole}) > {index} THEN ({whole})[{index} + 1:] ELSE CAST([] AS {form}) END",
        whole=whole,
        index=index,
        form=form,
    )
    stored = fill("list_concat({}, [{}], {})", before, convert(value, element_form(form)).sql, after)
    refused = raising("0A000", "arrays not starting at 1 on this query are not supported")
    absent = raising("22004", "array subscript in assignment must not be null")
    large = raising("54000", f"array size exceeds the maximum allowed ({MAX_ELEMENTS})")
    tests = fill(
        "WHEN {0} < 1 OR ({0} > 1 AND len({1}) = 0) THEN {2} WHEN {0} > {3} THEN {4} WHEN {0} IS NULL THEN {5}",
        index,
        whole,
        refused,
        MAX_ELEMENTS,
        large,
        absent,
    )
    return Piece(fill("CASE {} ELSE {} END", tests, stored), form)


def _assigned_slice(scope: Scope, node: tree.SubscriptingRef, array: Piece, upper: Sql | None) -> Piece:
    """Returns the array with a slice of one dimension assigned, by a UDF that calls the row path's function."""
    assert node.assignment is not None
    lower = _index(scope, node.lower[0])
    whole = node.argument.type
    signature = row_signature(ASSIGN_SLICE, [whole, _INT4, _INT4, _BOOL, _BOOL, node.assignment.type], whole)
    sql: list[Part] = [
        as_declared(array, whole.oid),
        Null(INTEGER) if lower is None else CastTo(lower, INTEGER),
        Null(INTEGER) if upper is None else CastTo(upper, INTEGER),
        str(lower is None),
        str(upper is None),
        as_declared(expression(scope, node.assignment), node.assignment.type.oid),
    ]
    return scope.generation.udf(signature, sql)


@makes(tree.ScalarArrayOp)
def _array_operator(scope: Scope, node: tree.ScalarArrayOp) -> Piece:
    left = compact_expression(scope, node.left)
    by_key = _among_keys(scope, node, left)
    if by_key is not None:
        return by_key
    if isinstance(node.right, tree.ArrayExpr) and not node.right.nested:
        return _array_list(scope, node, left, [(compact_expression(scope, e), e.type) for e in node.right.elements])
    left = settle(left)
    many = _many(node)
    if many is not None and is_native(left, node.left.type.oid):
        word = "IN" if node.use_or else "NOT IN"  # a join; = ANY would scan the list for each row
        return Piece(fill("({} {} (SELECT n FROM {}))", left.sql, word, scope.generation.relation_of(*many)), BOOLEAN)
    array = elements(scope.generation, expression(scope, node.right), node.right.type)
    if not isinstance(array.form, ListType):
        not_supported("this array on this query")
    element = types.element_of(node.right.type.oid)
    name, whole, values = scope.generation.alias(), left.sql, array.sql
    if not isinstance(node.left, tree.Var | tree.Const | tree.Param):
        # The left operand is computed, and may raise, even if the array is empty. Both operands are outside of the
        # lambda, which may not contain sub-queries.
        both = scope.generation.alias()
        left, values = left._replace(sql=Entry(both, "l")), Entry(both, "a")
    pieces = [left, Piece(Identifier(name), array.form.element)]
    test = call(scope.generation, node.function, pieces, [node.left.type, TypeRef(element)], TypeRef(oids.BOOL))
    # DuckDB turns = ANY into a sub-query, which the lambda of a volatile operand may not contain.
    # It also takes = ANY((SELECT array)) for a comparison with the query's rows.
    plain = COMPARISONS.get(node.function.source) == "=" and node.use_or and not scope.generation.volatile
    plain = plain and not has_query(array.sql)
    if plain and is_native(left, node.left.type.oid):
        comparable_element(element, array.form.element)
        if not isinstance(node.right, tree.Const) or node.right.value is None:
            sql = fill("CASE WHEN {0} IS NULL THEN NULL ELSE ({1} = ANY({0})) END", array.sql, whole)
            return Piece(sql, BOOLEAN)
        return Piece(fill("({} = ANY({}))", whole, array.sql), BOOLEAN)
    # A list with the result for each element: any TRUE (for ANY) or FALSE (for ALL) decides, then any NULL.
    answers = fill("list_transform({}, lambda {}: {})", values, name, test.sql)
    deciding = "TRUE" if node.use_or else "FALSE"
    other = "FALSE" if node.use_or else "TRUE"
    sql = fill(
        "list_transform([{answers}], lambda {name}: CASE WHEN {name} IS NULL THEN NULL "
        "WHEN list_contains({name}, {deciding}) THEN {deciding} "
        "WHEN len(list_filter({name}, lambda e: e IS NULL)) > 0 THEN NULL ELSE {other} END)[1]",
        answers=answers,
        name=name,
        deciding=deciding,
        other=other,
    )
    if left.sql is not whole:
        sql = fill("list_transform([{{'l': {}, 'a': {}}}], lambda {}: {})[1]", whole, array.sql, both, sql)
    return Piece(sql, BOOLEAN)


def _among_keys(scope: Scope, node: tree.ScalarArrayOp, left: Piece) -> Piece | None:
    """Returns IN or NOT IN over the keys of many elements, which is a join: comparing each element would compute a key
    for each row. None for other operators, and for types that DuckDB compares without a key."""
    oid = node.left.type.oid
    if not _is_membership(node) or not is_by_key(left, oid) or scope.generation.volatile:
        return None
    word = "IN" if node.use_or else "NOT IN"
    key = key_of(scope.generation, left, oid)
    is_list = isinstance(node.right, tree.Const | tree.ArrayExpr)
    if not is_list and not contains(node.right, _is_of_row) and types.element_of(node.right.type.oid) == oid:
        array = elements(scope.generation, expression(scope, node.right), node.right.type)
        if not isinstance(array.form, ListType):
            return None
        element = key_of(scope.generation, Piece(Identifier("e"), array.form.element), oid)
        sql = fill(
            "CASE WHEN {0} IS NULL THEN NULL ELSE ({1} {2} (SELECT {3} FROM (SELECT unnest({0}) AS e))) END",
            array.sql,
            key,
            word,
            element,
        )
        return Piece(sql, BOOLEAN)
    values = _constants(node.right, oid)
    if values is None or len(values) < FEWEST:
        return None
    encode = types.lookup(oid).key_encoder()
    assert encode is not None
    keys = scope.generation.relation_of([None if value is None else encode(value) for value in values], BLOB)
    return Piece(fill("({} {} (SELECT n FROM {}))", key, word, keys), BOOLEAN)


def _is_of_row(node: object) -> bool:
    return isinstance(node, tree.Var | tree.SubLink | tree.Aggref | tree.WindowFunc | tree.GroupingFunc) or changes(
        node
    )


def _is_membership(node: tree.ScalarArrayOp) -> bool:
    return COMPARISONS.get(node.function.source) == ("=" if node.use_or else "<>")


def _constants(array: tree.Expr, oid: int) -> Sequence[object] | None:
    """Returns the elements of an array of this type, if they are constants."""
    if isinstance(array, tree.Const):
        is_known = isinstance(array.value, Array) and types.element_of(array.type.oid) == oid
        return array.value.elements if is_known else None  # type: ignore[attr-defined]
    if not isinstance(array, tree.ArrayExpr) or array.nested or array.element_type.oid != oid:
        return None
    values = [element.value for element in array.elements if isinstance(element, tree.Const)]
    return values if len(values) == len(array.elements) else None


def _many(node: tree.ScalarArrayOp) -> tuple[Sequence[object], DuckDBType] | None:
    """Returns the integers of an IN or NOT IN over at least `MANY`, and their form; None for other operators."""
    array = node.right.value if isinstance(node.right, tree.Const) else None
    element = types.element_of(node.right.type.oid)
    if _is_membership(node) and isinstance(array, Array) and element in oids.INTEGERS and len(array.elements) >= MANY:
        return array.elements, form_of(element)
    return None


def _array_list(scope: Scope, node: tree.ScalarArrayOp, left: Piece, elements: list[tuple[Piece, TypeRef]]) -> Piece:
    """Returns ANY or ALL over the elements of ARRAY[...]: IN, NOT IN, or a chain of comparisons."""
    if not elements:
        return Piece(Words("FALSE" if node.use_or else "TRUE"), BOOLEAN)
    oid = node.left.type.oid
    pieces = [left, *(piece for piece, _ in elements)]
    alike = all(is_native(piece, type_.oid) for piece, type_ in elements) and is_native(left, oid)
    if _is_membership(node) and alike and not left.fields:
        word = "IN" if node.use_or else "NOT IN"
        return Piece(fill("({} {} ({}))", left.sql, word, comma_list([piece.sql for piece in pieces[1:]])), BOOLEAN)
    tests = [
        call(scope.generation, node.function, [left, piece], [node.left.type, type_], TypeRef(oids.BOOL)).sql
        for piece, type_ in elements
    ]
    return Piece(fill("({})", join_parts(" OR " if node.use_or else " AND ", tests)), BOOLEAN)


# ---- the session ----------------------------------------------------------------------------------------------------


@makes(tree.SqlValueFunction)
def _value_function(scope: Scope, node: tree.SqlValueFunction) -> Piece:
    if node.name.lower() == "current_timestamp" and node.precision is None:
        return Piece(scope.generation.parameter(TRANSACTION_TIME, TIMESTAMP), TIMESTAMP)
    return scope.generation.compute(node)


@makes(tree.NextValueExpr)
def _next_value(scope: Scope, node: tree.NextValueExpr) -> Piece:
    not_supported("nextval on this query")


@makes(tree.GroupingFunc)
def _grouping(scope: Scope, node: tree.GroupingFunc) -> Piece:
    keys = [scope.group_keys[item] for item in node.arguments]
    return Piece(fill("CAST(grouping({}) AS INTEGER)", comma_list(keys)), INTEGER)
