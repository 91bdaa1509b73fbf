"""Queries: SELECT with its clauses, set operations, WITH.

A SELECT becomes one DuckDB SELECT if DuckDB's clauses have the same meaning. Otherwise it gets an outer level:
set-returning functions are expanded before DISTINCT, ORDER BY and LIMIT; DISTINCT over values that are compared by key
groups by the keys and returns one value of each group; FETCH ... WITH TIES ranks the rows first; and catalog functions
of window functions or of expanded rows are in the level above these (levels.py).

Output columns are named c1, c2, ...; ORDER BY refers to an output column by its position, so that no expression occurs
twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from catalog.duckdb.nodes import CastTo, Clause, ColumnReference, Part, Sql, comma_list, fill
from catalog.errors import SqlError, not_supported
from catalog.functions.duckdb_errors import raising
from engine.columnar.generate import ranges
from engine.columnar.generate.comparisons import comparable, is_native, sort_item, sort_key
from engine.columnar.generate.forms import Piece, convert, of_form, unify, with_blanks
from engine.columnar.generate.levels import lookups_above
from engine.columnar.generate.state import (
    CteSource,
    Generation,
    Scope,
    Source,
    compact_expression,
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

    sql: Sql
    pieces: list[Piece]
    correlated: bool = False


def query(node: tree.Query, parent: Scope | None, generation: Generation | None = None, exact: bool = False) -> Body:
    """Returns the SQL of a query inside `parent`. `exact`: the columns in DuckDB must have exactly the forms of the
    pieces (for the outermost query, set operations and WITH), not only forms with equal comparisons and results."""
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


def with_clause(scope: Scope, ctes: Sequence[tree.Cte]) -> Clause:
    """Returns `WITH RECURSIVE ... ` or nothing, and adds the CTEs to the scope."""
    parts: list[Part] = []
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
        columns = ranges.column_names(len(body.pieces))
        parts.append(fill("{}({}) AS {}({})", name, columns, word, body.sql))
    return fill("WITH RECURSIVE {} ", comma_list(parts)) if parts else ""


def _recursive(scope: Scope, cte: tree.Cte, node: tree.Query, name: str) -> Body | None:
    """Returns the SQL of `first UNION [ALL] next`, where `next` refers to the CTE itself; None if the query does not
    have this shape."""
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
    return Body(fill("{}({}) {} ({})", with_, left, word, right), pieces)


def refers_to_itself(node: tree.Query, arm: tree.SetOperation | tree.FromRef) -> bool:
    """Whether an arm of the recursive query's set operation contains the self-reference."""
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
        pieces = _settle_output(scope, body.pieces)
        return Body(_in_forms(scope, body, pieces), pieces)
    leaf: tree.SetOperation | tree.FromRef = node.set_operation
    while isinstance(leaf, tree.SetOperation):
        leaf = leaf.left
    alias = scope.generation.alias()
    source = Source.of_pieces(alias, body.pieces)
    scope.sources[leaf.relation] = source
    items = [
        sort_item(
            scope.generation, compact_expression(scope, o.expression), o.expression.type, o.descending, o.nulls_first
        )
        for o in node.order_by
    ]
    if _ranked(scope, node):
        return _by_rank(scope, node, body, items, alias)
    shown = _settle_output(scope, list(source.columns.values()))
    columns = comma_list([fill("{} AS c{}", piece.sql, n) for n, piece in enumerate(shown, 1)])
    sql: Sql = fill("SELECT {} FROM ({}) AS {}", columns, body.sql, alias)
    if items:
        sql += fill(" ORDER BY {}", comma_list(items))
    return Body(sql + _limit(scope, node), shown)


def _settle_output(scope: Scope, pieces: list[Piece]) -> list[Piece]:
    """Returns the columns of a query's output. In the outermost query, char(n) gets its blanks."""
    return [with_blanks(piece) for piece in pieces] if scope.parent is None else pieces


def _arm(scope: Scope, arm: tree.SetOperation | tree.FromRef) -> Body:
    if isinstance(arm, tree.FromRef):
        entry = scope.query.range_table[arm.relation]
        assert isinstance(entry, tree.RangeSubquery)
        return query(entry.query, scope, exact=True)
    left, right = _arm(scope, arm.left), _arm(scope, arm.right)
    if any(piece.fields for piece in (*left.pieces, *right.pieces)):
        not_supported("records in set operations on this query")
    pieces = [
        of_form(unify(a.form, b.form)) for a, b in zip(_typed(left.pieces, right.pieces), right.pieces, strict=True)
    ]
    first, second = _in_forms(scope, left, pieces), _in_forms(scope, right, pieces)
    oids = [item.oid for item in arm.types]
    if (arm.kind == "union" and arm.all) or _all_native(pieces, oids):
        return Body(fill("({}) {}{} ({})", first, arm.kind.upper(), " ALL" if arm.all else "", second), pieces)
    return Body(_by_keys(scope, arm, first, second, pieces), pieces)


def _typed(left: list[Piece], right: list[Piece]) -> list[Piece]:
    """Returns the left arm's columns, with the right arm's form for bare NULLs."""
    return [b if a.is_null else a for a, b in zip(left, right, strict=True)]


def _in_forms(scope: Scope, body: Body, pieces: Sequence[Piece]) -> Sql:
    """Returns the body's SQL with its columns converted to these forms."""
    if all(have.form == want.form for have, want in zip(body.pieces, pieces, strict=True)):
        return body.sql
    alias = scope.generation.alias()
    columns = comma_list(
        [
            fill("{} AS c{}", convert(piece, pieces[n - 1].form).sql, n)
            for n, piece in Source.of_pieces(alias, body.pieces).columns.items()
        ]
    )
    return fill("SELECT {} FROM ({}) AS {}", columns, body.sql, alias)


def _by_keys(scope: Scope, operation: tree.SetOperation, first: Sql, second: Sql, pieces: list[Piece]) -> Sql:
    """Returns a set operation over values that are compared by key: both arms together, grouped by the keys. If equal
    values have different texts, the result has the value of the first arm. Raises 0A000 for ALL."""
    if operation.all:
        not_supported(f"{operation.kind.upper()} ALL of this type on this query")
    alias, generation = scope.generation.alias(), scope.generation
    source = Source.of_pieces(alias, pieces)
    keys = comma_list(
        [comparable(generation, piece, operation.types[n - 1].oid) for n, piece in source.columns.items()]
    )
    columns = comma_list(
        [fill("arg_min({}, {}.side) AS c{}", piece.sql, alias, n) for n, piece in source.columns.items()]
    )
    sides = fill("SELECT *, 1 AS side FROM ({}) UNION ALL SELECT *, 2 AS side FROM ({})", first, second)
    having = {
        "union": "",
        "intersect": f" HAVING min({alias}.side) <> max({alias}.side)",
        "except": f" HAVING max({alias}.side) = 1",
    }[operation.kind]
    return fill(
        "SELECT {columns} FROM ({sides}) AS {alias} GROUP BY {keys}{having}",
        columns=columns,
        sides=sides,
        alias=alias,
        keys=keys,
        having=having,
    )


# ---- SELECT ---------------------------------------------------------------------------------------------------------


def _select(scope: Scope, node: tree.Query, exact: bool) -> Body:
    if node.distinct and not node.order_by:  # PostgreSQL sorts for DISTINCT ON, and users see that order
        node = replace(node, order_by=tuple(tree.SortClause(item, False, False) for item in node.distinct))
    tail: Clause = fill(" FROM {}", ranges.from_list(scope, node.from_items)) if node.from_items else ""
    if node.where is not None:
        tail = tail + fill(" WHERE {}", expression(scope, node.where).sql)
    tail = tail + _grouping(scope, node)
    with scope.generation.streaming(scope.parent is None or scope.generation.streams):
        if node.having is not None:
            tail = tail + fill(" HAVING {}", expression(scope, node.having).sql)
        output = node.output
        scope.set_functions = node.has_set_functions
        pieces = [compact_expression(scope, target.expression) for target in output]
        scope.set_functions = False
    if exact:
        pieces = [
            Piece(CastTo(piece.sql, piece.form), piece.form, piece.fields)
            if isinstance(target.expression, _CHECKED)
            else piece
            for target, piece in zip(output, pieces, strict=True)
        ]
    by_key = node.distinct == () and not all(
        is_native(piece, target.expression.type.oid)
        for target, piece in zip(output, _settle_output(scope, pieces), strict=True)
    )
    if by_key or node.has_set_functions or _ranked(scope, node):
        return _outer(scope, node, pieces, tail)
    shown = _settle_output(scope, pieces)
    columns = comma_list([fill("{} AS c{}", piece.sql, n) for n, piece in enumerate(shown, 1)] or ["1 AS c1"])
    sql: Sql = fill("SELECT {}{}{}", _distinct(scope, node), columns, tail)
    if node.order_by:
        sql += fill(" ORDER BY {}", comma_list([_order_item(scope, node, shown, item) for item in node.order_by]))
    return Body(sql + _limit(scope, node), shown)


def _grouping(scope: Scope, node: tree.Query) -> Clause:
    """Returns the GROUP BY clause, and sets `scope.groups`."""
    if not (node.group_by or node.grouping_sets or node.has_aggregates):
        return ""
    groups: dict[tree.Expr, Piece] = {}
    keys = []
    for item in node.group_by:
        piece = compact_expression(scope, item)
        if node.has_windows:  # windows use this form, and DuckDB finds grouping expressions by their text
            piece = piece._replace(sql=stable(scope, piece.sql))
        key = comparable(scope.generation, piece, item.type.oid)
        scope.group_keys[item] = key
        if key is not piece.sql:
            shown = fill("any_value({})", piece.sql)
            if node.grouping_sets:
                shown = fill("CASE WHEN grouping({}) = 0 THEN {} END", key, shown)
            piece = Piece(shown, piece.form, piece.fields)
        groups[item] = piece
        keys.append(key)
        if not isinstance(item, tree.Var):
            scope.groups_are_columns = False
    scope.groups = groups
    if node.grouping_sets:
        sets = comma_list(
            [fill("({})", comma_list([keys[index] for index in indexes])) for indexes in node.grouping_sets]
        )
        return fill(" GROUP BY GROUPING SETS ({})", sets)
    return fill(" GROUP BY {}", comma_list(keys)) if keys else ""


def _distinct(scope: Scope, node: tree.Query) -> Clause:
    if node.distinct is None:
        return ""
    if not node.distinct:
        return "DISTINCT "
    keys = [comparable(scope.generation, compact_expression(scope, item), item.type.oid) for item in node.distinct]
    return fill("DISTINCT ON ({}) ", comma_list(keys))


def _position(node: tree.Query, wanted: tree.Expr) -> int:
    """Returns the position of an expression in the output, from 1; 0 if the output does not contain it."""
    output = node.output
    for number, target in enumerate(output, 1):
        if target.expression is wanted:
            return number
    for number, target in enumerate(output, 1):
        if target.expression == wanted:
            return number
    return 0


def _order_item(scope: Scope, node: tree.Query, pieces: list[Piece], item: tree.SortClause) -> Sql:
    position = _position(node, item.expression)
    if position and is_native(pieces[position - 1], item.expression.type.oid):
        return sort_key(position, item.descending, item.nulls_first)
    key = scope.group_keys.get(item.expression) if scope.group_keys else None
    if key is None:
        key = comparable(scope.generation, scaled_expression(scope, item.expression), item.expression.type.oid)
    return sort_key(key, item.descending, item.nulls_first)


def _outer(scope: Scope, node: tree.Query, pieces: list[Piece], tail: Clause) -> Body:
    """Returns the select list as a derived table, with DISTINCT, ORDER BY and LIMIT in an outer SELECT."""
    generation = scope.generation
    alias = generation.alias()
    inner = [fill("{} AS c{}", piece.sql, n) for n, piece in enumerate(pieces, 1)]
    made = Source.of_pieces(alias, pieces).columns

    def column(wanted: tree.Expr) -> Piece:
        position = _position(node, wanted)
        if position:
            return made[position]
        piece = compact_expression(scope, wanted)
        name = f"x{len(inner) + 1}"
        inner.append(fill("{} AS {}", piece.sql, name))
        return Piece(ColumnReference(alias, name), piece.form, piece.fields)

    items: list[Part] = [
        sort_item(generation, column(o.expression), o.expression.type, o.descending, o.nulls_first)
        for o in node.order_by
    ]
    output_pieces = _settle_output(scope, list(made.values()))
    shown = [fill("{} AS c{}", piece.sql, n) for n, piece in enumerate(output_pieces, 1)]
    prefix: Clause = ""
    suffix: Clause = ""
    if node.distinct == ():
        output = node.output
        keys = [comparable(generation, piece, output[n - 1].expression.type.oid) for n, piece in made.items()]
        shown = [
            fill("{} AS c{}", piece.sql if key is made[n].sql else fill("any_value({})", piece.sql), n)
            for n, (piece, key) in enumerate(zip(output_pieces, keys, strict=True), 1)
        ]
        suffix = fill(" GROUP BY {}", comma_list(keys))
    elif node.distinct:
        keys = [comparable(generation, column(item), item.type.oid) for item in node.distinct]
        prefix = fill("DISTINCT ON ({}) ", comma_list(keys))
    derived = fill("SELECT {}{}", comma_list(inner), tail)
    if _ranked(scope, node):
        if node.distinct is not None:
            not_supported("DISTINCT with a LIMIT of this kind on this query")
        return _by_rank(scope, node, Body(derived, pieces), items, alias)
    if items and node.has_set_functions and node.distinct != ():
        # The rows that one row expands to stay together and in order: PostgreSQL sorts before it expands sets.
        derived = fill("SELECT *, row_number() OVER () AS expanded FROM ({})", derived)
        items.append(ColumnReference(alias, "expanded"))
    sql: Sql = fill("SELECT {}{} FROM ({}) AS {}{}", prefix, comma_list(shown), derived, alias, suffix)
    if items:
        sql += fill(" ORDER BY {}", comma_list(items))
    return Body(sql + _limit(scope, node), output_pieces)


def _ranked(scope: Scope, node: tree.Query) -> bool:
    """Whether LIMIT needs row numbers: for WITH TIES, and for bounds that are not constant in a sub-query, which DuckDB
    refuses if the sub-query is correlated."""
    if node.limit_with_ties:
        return True
    bounds = (node.limit, node.offset)
    return scope.parent is not None and any(b is not None and _constant_bound(b) is None for b in bounds)


def _by_rank(scope: Scope, node: tree.Query, body: Body, items: Sequence[Part], alias: str) -> Body:
    """Returns a query with LIMIT by row numbers. WITH TIES: the rows whose rank is within the limit, except for those
    that OFFSET skips."""
    order: Part = fill("ORDER BY {}", comma_list(items)) if items else ""
    outer = scope.generation.alias()
    function = "rank" if node.limit_with_ties else "row_number"
    ranked = fill(
        "SELECT {0}.*, {1}() OVER ({2}) AS k, row_number() OVER ({2}) AS n FROM ({3}) AS {0}",
        alias,
        function,
        order,
        body.sql,
    )
    limit = "NULL" if node.limit is None else _bound(scope, node.limit, "LIMIT", "2201W")
    offset = "0" if node.offset is None else _bound(scope, node.offset, "OFFSET", "2201X")
    shown = _settle_output(scope, list(Source.of_pieces(outer, body.pieces).columns.values()))
    columns = comma_list([fill("{} AS c{}", piece.sql, n) for n, piece in enumerate(shown, 1)])
    total = fill("({} + coalesce({}, 0))", limit, offset)
    sql = fill(
        "SELECT {columns} FROM ({ranked}) AS {outer} "
        "WHERE ({total} IS NULL OR {outer}.k <= {total}) AND {outer}.n > coalesce({offset}, 0) ORDER BY {outer}.n",
        columns=columns,
        ranked=ranked,
        outer=outer,
        total=total,
        offset=offset,
    )
    return Body(sql, shown)


# ---- LIMIT ----------------------------------------------------------------------------------------------------------


def _limit(scope: Scope, node: tree.Query) -> Clause:
    if node.limit is None and node.offset is None:
        return ""
    text: Clause = ""
    if node.limit is not None:
        text = fill(" LIMIT {}", _bound(scope, node.limit, "LIMIT", "2201W"))
    if node.offset is not None:
        text = text + fill(" OFFSET {}", _bound(scope, node.offset, "OFFSET", "2201X"))
    return text


def _constant_bound(node: tree.Expr) -> tree.Const | None:
    """Returns the constant of a LIMIT, which is usually an int4 that is cast to int8; None if it is not constant."""
    if isinstance(node, tree.FuncExpr) and node.function.source in ("int28", "int48"):
        node = node.arguments[0]
    return node if isinstance(node, tree.Const) else None


def _bound(scope: Scope, node: tree.Expr, clause: str, sqlstate: str) -> Clause:
    """Returns the SQL of a row count; NULL means no limit. Raises `sqlstate` for a negative number, here for a constant
    and otherwise in the query."""
    message = f"{clause} must not be negative"
    count = _constant_bound(node)
    if count is not None:
        if isinstance(count.value, int) and count.value < 0:
            raise SqlError(sqlstate, message)
        return "NULL" if count.value is None else str(count.value)
    sql = expression(scope, node).sql
    error = raising(sqlstate, message)
    alias = scope.generation.alias()
    return fill(
        "(SELECT CASE WHEN {alias}.v < 0 THEN {error} ELSE {alias}.v END FROM (SELECT {sql} AS v) AS {alias})",
        alias=alias,
        error=error,
        sql=sql,
    )
