"""Queries: the select list and what follows it, set operations, WITH.

A SELECT becomes one DuckDB SELECT wherever DuckDB's clauses mean the same. An outer level is put around it where they
do not: set-returning functions are expanded before DISTINCT, ORDER BY and LIMIT; DISTINCT over values that must be
compared by key groups by the keys and shows one value of each group; FETCH ... WITH TIES ranks the rows first; and
what looks window functions or expanded rows up in the catalog stands above them (levels.py).

Output columns are named c1, c2, ...; ORDER BY names a column of the output by its position, so that no expression is
written twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from catalog.errors import SqlError, not_supported
from catalog.functions.duckdb_errors import sql_error_call
from engine.columnar.generate import ranges
from engine.columnar.generate.comparisons import comparable, is_native, sort_item, sort_key
from engine.columnar.generate.forms import Piece, convert, unify
from engine.columnar.generate.levels import lookups_above
from engine.columnar.generate.state import (
    CteSource,
    Generation,
    Scope,
    Source,
    expression,
    scaled_expression,
    stable,
)
from engine.columnar.generate.volatile_levels import volatile_below
from engine.sql import tree
from engine.sql.set_places import sets_apart

_CHECKED = (tree.FuncExpr, tree.Aggref, tree.WindowFunc, tree.MinMaxExpr, tree.CaseExpr, tree.CoalesceExpr)


class Body(NamedTuple):
    """A complete SELECT (no parentheses around it) and the forms of its columns c1, c2, ..."""

    sql: str
    pieces: list[Piece]
    correlated: bool = False


def query(node: tree.Query, parent: Scope | None, generation: Generation | None = None, exact: bool = False) -> Body:
    """SQL of a query inside `parent`. `exact`: DuckDB must yield exactly the forms that the pieces say (at the root and
    in set operations), not merely what is compared and computed alike."""
    owner = generation if generation is not None else parent.generation if parent is not None else None
    assert owner is not None
    if node.row_marks:
        not_supported("FOR UPDATE on this query")
    node = lookups_above(sets_apart(node))
    if node.volatile or node.has_aggregates:
        node = volatile_below(node)
    scope = Scope(owner, node, parent)
    around, owner.operands = owner.operands, None
    try:
        with_ = with_clause(scope, node.ctes)
        body = _set_query(scope, node) if node.set_operation is not None else _select(scope, node, exact)
    finally:
        owner.operands = around
    return Body(with_ + body.sql, body.pieces, scope.correlated)


# ---- WITH -----------------------------------------------------------------------------------------------------------


def with_clause(scope: Scope, ctes: Sequence[tree.Cte]) -> str:
    """`WITH RECURSIVE ... ` or nothing; places the CTEs in the scope."""
    parts = []
    for cte in ctes:
        if not isinstance(cte.query, tree.Query):
            not_supported("data-modifying statements in WITH on this query")
        name = scope.generation.alias()
        body = None
        if cte.recursive:
            body = _recursive(scope, cte, cte.query, name)
        if body is None:
            body = query(cte.query, scope, exact=True)
        scope.ctes[cte.name] = CteSource(name, body.pieces)
        word = ""
        if cte.materialized is not None:
            word = "MATERIALIZED " if cte.materialized else "NOT MATERIALIZED "
        elif cte.query.volatile:
            word = "MATERIALIZED "
        columns = ", ".join(f"c{n}" for n in range(1, len(body.pieces) + 1))
        parts.append(f"{name}({columns}) AS {word}({body.sql})")
    return f"WITH RECURSIVE {', '.join(parts)} " if parts else ""


def _recursive(scope: Scope, cte: tree.Cte, node: tree.Query, name: str) -> Body | None:
    """first UNION [ALL] next, where `next` may refer to the CTE itself; None if the query has not that shape."""
    operation = node.set_operation
    if operation is None or operation.kind != "union" or not refers_to_itself(node, operation.right):
        return None
    if node.order_by or node.limit is not None or node.offset is not None:
        not_supported("ORDER BY or LIMIT in a recursive query")
    inner = Scope(scope.generation, node, scope)
    with_ = with_clause(inner, node.ctes)
    first = _arm(inner, operation.left)
    pieces = ranges.general(first.pieces)
    scope.ctes[cte.name] = CteSource(name, pieces)
    following = _arm(inner, operation.right)
    if not operation.all and not _all_native(pieces, [item.oid for item in operation.types]):
        not_supported("UNION of this type in a recursive query")
    word = "UNION ALL" if operation.all else "UNION"
    left, right = _in_forms(inner, first, pieces), _in_forms(inner, following, pieces)
    return Body(f"{with_}({left}) {word} ({right})", pieces)


def refers_to_itself(node: tree.Query, arm: tree.SetOperation | tree.FromRef) -> bool:
    """Whether an arm of the recursive query's set operation holds the self-reference."""
    if isinstance(arm, tree.SetOperation):
        return refers_to_itself(node, arm.left) or refers_to_itself(node, arm.right)
    entry = node.range_table[arm.relation]
    return isinstance(entry, tree.RangeSubquery) and _holds_self_reference(entry.query)


def _holds_self_reference(node: tree.Query) -> bool:
    for entry in node.range_table:
        if isinstance(entry, tree.RangeCte) and entry.recursive_self:
            return True
        if isinstance(entry, tree.RangeSubquery) and _holds_self_reference(entry.query):
            return True
    return any(isinstance(cte.query, tree.Query) and _holds_self_reference(cte.query) for cte in node.ctes)


# ---- set operations -------------------------------------------------------------------------------------------------


def _all_native(pieces: Sequence[Piece], oids: Sequence[int]) -> bool:
    return all(is_native(piece, oid) for piece, oid in zip(pieces, oids, strict=True))


def _set_query(scope: Scope, node: tree.Query) -> Body:
    assert node.set_operation is not None
    body = _arm(scope, node.set_operation)
    if not (node.order_by or node.limit is not None or node.offset is not None):
        return body
    leaf: tree.SetOperation | tree.FromRef = node.set_operation
    while isinstance(leaf, tree.SetOperation):
        leaf = leaf.left
    alias = scope.generation.alias()
    source = Source.of_pieces(alias, body.pieces)
    scope.sources[leaf.relation] = source
    items = [
        sort_item(scope.generation, expression(scope, o.expression), o.expression.type, o.descending, o.nulls_first)
        for o in node.order_by
    ]
    if _ranked(scope, node):
        return _by_rank(scope, node, body, items, alias)
    columns = ", ".join(f"{piece.sql} AS c{n}" for n, piece in source.columns.items())
    sql = f"SELECT {columns} FROM ({body.sql}) AS {alias}"
    if items:
        sql += f" ORDER BY {', '.join(items)}"
    return Body(sql + _limit(scope, node), body.pieces)


def _arm(scope: Scope, arm: tree.SetOperation | tree.FromRef) -> Body:
    if isinstance(arm, tree.FromRef):
        entry = scope.query.range_table[arm.relation]
        assert isinstance(entry, tree.RangeSubquery)
        return query(entry.query, scope, exact=True)
    left, right = _arm(scope, arm.left), _arm(scope, arm.right)
    if any(piece.fields for piece in (*left.pieces, *right.pieces)):
        not_supported("records in set operations on this query")
    pieces = [
        Piece("", unify(a.form, b.form)) for a, b in zip(_typed(left.pieces, right.pieces), right.pieces, strict=True)
    ]
    first, second = _in_forms(scope, left, pieces), _in_forms(scope, right, pieces)
    oids = [item.oid for item in arm.types]
    if (arm.kind == "union" and arm.all) or _all_native(pieces, oids):
        return Body(f"({first}) {arm.kind.upper()}{' ALL' if arm.all else ''} ({second})", pieces)
    return Body(_by_keys(scope, arm, first, second, pieces), pieces)


def _typed(left: list[Piece], right: list[Piece]) -> list[Piece]:
    """The left arm's columns, those that are bare NULLs in the right arm's form."""
    return [b if a.sql.startswith("NULL::") else a for a, b in zip(left, right, strict=True)]


def _in_forms(scope: Scope, body: Body, pieces: Sequence[Piece]) -> str:
    """The body's SQL with its columns in these forms."""
    if all(have.form == want.form for have, want in zip(body.pieces, pieces, strict=True)):
        return body.sql
    alias = scope.generation.alias()
    columns = ", ".join(
        f"{convert(piece, pieces[n - 1].form).sql} AS c{n}"
        for n, piece in Source.of_pieces(alias, body.pieces).columns.items()
    )
    return f"SELECT {columns} FROM ({body.sql}) AS {alias}"


def _by_keys(scope: Scope, operation: tree.SetOperation, first: str, second: str, pieces: list[Piece]) -> str:
    """A set operation over values that are compared by key: both arms together, grouped by the keys. Of equal values
    that look different, the first arm's is shown."""
    if operation.all:
        not_supported(f"{operation.kind.upper()} ALL of this type on this query")
    alias, generation = scope.generation.alias(), scope.generation
    source = Source.of_pieces(alias, pieces)
    keys = ", ".join(comparable(generation, piece, operation.types[n - 1].oid) for n, piece in source.columns.items())
    columns = ", ".join(f"arg_min({piece.sql}, {alias}.side) AS c{n}" for n, piece in source.columns.items())
    sides = f"SELECT *, 1 AS side FROM ({first}) UNION ALL SELECT *, 2 AS side FROM ({second})"
    having = {
        "union": "",
        "intersect": f" HAVING min({alias}.side) <> max({alias}.side)",
        "except": f" HAVING max({alias}.side) = 1",
    }[operation.kind]
    return f"SELECT {columns} FROM ({sides}) AS {alias} GROUP BY {keys}{having}"


# ---- SELECT ---------------------------------------------------------------------------------------------------------


def _select(scope: Scope, node: tree.Query, exact: bool) -> Body:
    if node.distinct and not node.order_by:  # PostgreSQL sorts to find what is distinct ON, and its users see it
        node = replace(node, order_by=tuple(tree.SortClause(item, False, False) for item in node.distinct))
    from_ = ranges.from_list(scope, node.from_items)
    tail = f" FROM {from_}" if from_ else ""
    if node.where is not None:
        tail += f" WHERE {expression(scope, node.where).sql}"
    tail += _grouping(scope, node)
    if node.having is not None:
        tail += f" HAVING {expression(scope, node.having).sql}"
    output = node.output
    scope.set_functions = node.has_set_functions
    pieces = [expression(scope, target.expression) for target in output]
    scope.set_functions = False
    if exact:
        pieces = [
            Piece(f"CAST({piece.sql} AS {piece.form})", piece.form, piece.fields)
            if isinstance(target.expression, _CHECKED)
            else piece
            for target, piece in zip(output, pieces, strict=True)
        ]
    by_key = node.distinct == () and not all(
        is_native(piece, target.expression.type.oid) for target, piece in zip(output, pieces, strict=True)
    )
    if by_key or node.has_set_functions or _ranked(scope, node):
        return _outer(scope, node, pieces, tail)
    columns = ", ".join([f"{piece.sql} AS c{n}" for n, piece in enumerate(pieces, 1)]) or "1 AS c1"
    sql = f"SELECT {_distinct(scope, node)}{columns}{tail}"
    if node.order_by:
        sql += f" ORDER BY {', '.join([_order_item(scope, node, pieces, item) for item in node.order_by])}"
    return Body(sql + _limit(scope, node), pieces)


def _grouping(scope: Scope, node: tree.Query) -> str:
    """The GROUP BY clause. After it, `scope.groups` says what each grouping expression has become."""
    if not (node.group_by or node.grouping_sets or node.has_aggregates):
        return ""
    groups: dict[tree.Expr, Piece] = {}
    keys = []
    for item in node.group_by:
        piece = expression(scope, item)
        if node.has_windows:  # a window names it in this form, and DuckDB compares texts
            piece = piece._replace(sql=stable(scope, piece.sql))
        key = comparable(scope.generation, piece, item.type.oid)
        scope.group_keys[item] = key
        if key != piece.sql:
            shown = f"any_value({piece.sql})"
            if node.grouping_sets:
                shown = f"CASE WHEN grouping({key}) = 0 THEN {shown} END"
            piece = Piece(shown, piece.form, piece.fields)
        groups[item] = piece
        keys.append(key)
        if not isinstance(item, tree.Var):
            scope.groups_are_columns = False
    scope.groups = groups
    if node.grouping_sets:
        sets = ", ".join(f"({', '.join(keys[index] for index in indexes)})" for indexes in node.grouping_sets)
        return f" GROUP BY GROUPING SETS ({sets})"
    return f" GROUP BY {', '.join(keys)}" if keys else ""


def _distinct(scope: Scope, node: tree.Query) -> str:
    if node.distinct is None:
        return ""
    if not node.distinct:
        return "DISTINCT "
    keys = [comparable(scope.generation, expression(scope, item), item.type.oid) for item in node.distinct]
    return f"DISTINCT ON ({', '.join(keys)}) "


def _position(node: tree.Query, wanted: tree.Expr) -> int:
    """The place of an expression in the output, from 1; 0 if it is not there."""
    output = node.output
    for number, target in enumerate(output, 1):
        if target.expression is wanted:
            return number
    for number, target in enumerate(output, 1):
        if target.expression == wanted:
            return number
    return 0


def _order_item(scope: Scope, node: tree.Query, pieces: list[Piece], item: tree.SortClause) -> str:
    position = _position(node, item.expression)
    if position and is_native(pieces[position - 1], item.expression.type.oid):
        return sort_key(str(position), item.descending, item.nulls_first)
    key = scope.group_keys.get(item.expression) if scope.group_keys else None
    if key is None:
        key = comparable(scope.generation, scaled_expression(scope, item.expression), item.expression.type.oid)
    return sort_key(key, item.descending, item.nulls_first)


def _outer(scope: Scope, node: tree.Query, pieces: list[Piece], tail: str) -> Body:
    """The select list as a derived table, with DISTINCT, ORDER BY and LIMIT around it."""
    generation = scope.generation
    alias = generation.alias()
    inner = [f"{piece.sql} AS c{n}" for n, piece in enumerate(pieces, 1)]
    made = Source.of_pieces(alias, pieces).columns

    def column(wanted: tree.Expr) -> Piece:
        position = _position(node, wanted)
        if position:
            return made[position]
        piece = expression(scope, wanted)
        name = f"x{len(inner) + 1}"
        inner.append(f"{piece.sql} AS {name}")
        return Piece(f"{alias}.{name}", piece.form, piece.fields)

    items = [
        sort_item(generation, column(o.expression), o.expression.type, o.descending, o.nulls_first)
        for o in node.order_by
    ]
    shown = [f"{piece.sql} AS c{n}" for n, piece in made.items()]
    prefix, suffix = "", ""
    if node.distinct == ():
        output = node.output
        keys = [comparable(generation, piece, output[n - 1].expression.type.oid) for n, piece in made.items()]
        shown = [
            f"{piece.sql if key == piece.sql else f'any_value({piece.sql})'} AS c{n}"
            for (n, piece), key in zip(made.items(), keys, strict=True)
        ]
        suffix = f" GROUP BY {', '.join(keys)}"
    elif node.distinct:
        keys = [comparable(generation, column(item), item.type.oid) for item in node.distinct]
        prefix = f"DISTINCT ON ({', '.join(keys)}) "
    derived = f"SELECT {', '.join(inner)}{tail}"
    if _ranked(scope, node):
        if node.distinct is not None:
            not_supported("DISTINCT with a LIMIT of this kind on this query")
        return _by_rank(scope, node, Body(derived, pieces), items, alias)
    if items and node.has_set_functions and not suffix:
        # The rows that one row becomes stay together and in their order: PostgreSQL sorts before it expands them.
        derived = f"SELECT *, row_number() OVER () AS expanded FROM ({derived})"
        items.append(f"{alias}.expanded")
    sql = f"SELECT {prefix}{', '.join(shown)} FROM ({derived}) AS {alias}{suffix}"
    if items:
        sql += f" ORDER BY {', '.join(items)}"
    return Body(sql + _limit(scope, node), pieces)


def _ranked(scope: Scope, node: tree.Query) -> bool:
    """Whether rows must be numbered to be limited: WITH TIES, and bounds that are not constants in a sub-query, which
    DuckDB does not take if it is correlated."""
    if node.limit_with_ties:
        return True
    bounds = (node.limit, node.offset)
    return scope.parent is not None and any(b is not None and _constant_bound(b) is None for b in bounds)


def _by_rank(scope: Scope, node: tree.Query, body: Body, items: list[str], alias: str) -> Body:
    """LIMIT by row numbers. WITH TIES: the rows whose rank is within the limit, without those that OFFSET skips."""
    order = f"ORDER BY {', '.join(items)}" if items else ""
    outer = scope.generation.alias()
    function = "rank" if node.limit_with_ties else "row_number"
    ranked = (
        f"SELECT {alias}.*, {function}() OVER ({order}) AS k, row_number() OVER ({order}) AS n "
        f"FROM ({body.sql}) AS {alias}"
    )
    limit = _bound(scope, node.limit, "LIMIT", "2201W") if node.limit is not None else "NULL"
    offset = _bound(scope, node.offset, "OFFSET", "2201X") if node.offset is not None else "0"
    columns = ", ".join(f"{outer}.c{n} AS c{n}" for n in range(1, len(body.pieces) + 1))
    total = f"({limit} + coalesce({offset}, 0))"
    sql = (
        f"SELECT {columns} FROM ({ranked}) AS {outer} WHERE ({total} IS NULL OR {outer}.k <= {total}) "
        f"AND {outer}.n > coalesce({offset}, 0) ORDER BY {outer}.n"
    )
    return Body(sql, body.pieces)


# ---- LIMIT ----------------------------------------------------------------------------------------------------------


def _limit(scope: Scope, node: tree.Query) -> str:
    if node.limit is None and node.offset is None:
        return ""
    text = ""
    if node.limit is not None:
        text = f" LIMIT {_bound(scope, node.limit, 'LIMIT', '2201W')}"
    if node.offset is not None:
        text += f" OFFSET {_bound(scope, node.offset, 'OFFSET', '2201X')}"
    return text


def _constant_bound(node: tree.Expr) -> tree.Const | None:
    """The constant under a LIMIT, which is an int4 cast to int8 as a rule."""
    if isinstance(node, tree.FuncExpr) and node.function.source in ("int28", "int48"):
        node = node.arguments[0]
    return node if isinstance(node, tree.Const) else None


def _bound(scope: Scope, node: tree.Expr, clause: str, sqlstate: str) -> str:
    """A row count: NULL is none, negative an error."""
    message = f"{clause} must not be negative"
    count = _constant_bound(node)
    if count is not None:
        if isinstance(count.value, int) and count.value < 0:
            raise SqlError(sqlstate, message)
        return "NULL" if count.value is None else str(count.value)
    sql = expression(scope, node).sql
    error = sql_error_call(sqlstate, message)
    alias = scope.generation.alias()
    return f"(SELECT CASE WHEN {alias}.v < 0 THEN {error} ELSE {alias}.v END FROM (SELECT {sql} AS v) AS {alias})"
