"""Hypothetical-set aggregates: the place of a row among the rows of its group (PostgreSQL 16 manual, table 9.63).

rank            1 + number of rows before it              percent_rank    (rank - 1) / rows
dense_rank      1 + number of distinct rows before it     cume_dist       (1 + rows before or equal) / (1 + rows)
"""

from __future__ import annotations

from collections.abc import Sequence

from catalog.duckdb.nodes import Clause, Sql, comma_list, fill, join_parts
from catalog.duckdb.types import BIGINT, DOUBLE
from catalog.errors import not_supported
from engine.columnar.generate.comparisons import comparable_pair
from engine.columnar.generate.forms import Piece
from engine.columnar.generate.state import Scope, compact_expression
from engine.sql import tree
from engine.sql.tree_walk import walk

NAMES = frozenset(("rank", "dense_rank", "percent_rank", "cume_dist"))
_Pair = tuple[Sql, Sql]  # the key of a row, and that of the hypothetical one


def hypothetical(scope: Scope, node: tree.Aggref, condition: Sql | None) -> Piece:
    """Returns the SQL of the aggregate; `condition` is its FILTER. The caller has suspended grouping (`Scope.plain`).
    Raises 0A000 under grouping sets if the direct arguments contain columns."""
    fixed = not any(isinstance(item, tree.Var) for direct in node.direct_arguments for item in walk(direct))
    if scope.up(node.levels_up).query.grouping_sets and not fixed:
        not_supported("a hypothetical row of grouping columns under grouping sets")
    pairs = [
        comparable_pair(
            scope.generation,
            compact_expression(scope, clause.expression),
            compact_expression(scope, direct),
            (clause.expression.type.oid, direct.type.oid),
        )
        for clause, direct in zip(node.order_by, node.direct_arguments, strict=True)
    ]
    before = _before(pairs, node.order_by)
    rows = fill("count(*){}", _where(condition))
    if node.function.name == "dense_rank":
        different = fill("count(DISTINCT row({}))", comma_list([row for row, _ in pairs]))
        return Piece(fill("(1 + {}{})", different, _where(before, condition)), BIGINT)
    earlier = fill("count(*){}", _where(before, condition))
    if node.function.name == "rank":
        return Piece(fill("(1 + {})", earlier), BIGINT)
    if node.function.name == "percent_rank":
        return Piece(
            fill(
                "(CASE WHEN {rows} = 0 THEN 0 ELSE CAST({earlier} AS DOUBLE) / {rows} END)", rows=rows, earlier=earlier
            ),
            DOUBLE,
        )
    beside = join_parts(" AND ", [fill("{} IS NOT DISTINCT FROM {}", row, wanted) for row, wanted in pairs])
    upto = fill("count(*){}", _where(fill("({} OR ({}))", before, beside), condition))
    return Piece(fill("(CAST(1 + {} AS DOUBLE) / (1 + {}))", upto, rows), DOUBLE)


def _where(*conditions: Sql | None) -> Clause:
    given = [item for item in conditions if item is not None]
    return fill(" FILTER (WHERE {})", join_parts(" AND ", given)) if given else ""


def _before(pairs: Sequence[_Pair], order: Sequence[tree.SortClause]) -> Sql:
    """Returns the SQL of the test whether a row sorts before the hypothetical row. The test is never NULL."""
    (row, wanted), clause = pairs[0], order[0]
    symbol = ">" if clause.descending else "<"
    known = fill(
        "({row} IS NOT NULL AND {wanted} IS NOT NULL AND {row} {symbol} {wanted})",
        row=row,
        wanted=wanted,
        symbol=symbol,
    )
    null, other = (row, wanted) if clause.nulls_first else (wanted, row)
    test = fill("({} OR ({} IS NULL AND {} IS NOT NULL))", known, null, other)
    if len(pairs) == 1:
        return test
    return fill("({} OR ({} IS NOT DISTINCT FROM {} AND {}))", test, row, wanted, _before(pairs[1:], order[1:]))
