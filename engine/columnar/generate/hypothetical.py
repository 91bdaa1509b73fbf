"""Hypothetical-set aggregates: where a row would stand among the rows of its group (PostgreSQL 16 manual, table 9.63).

rank            1 + how many rows come before it        percent_rank    (rank - 1) / rows
dense_rank      1 + how many different ones do          cume_dist       (1 + rows before or beside it) / (1 + rows)
"""

from __future__ import annotations

from collections.abc import Sequence

from catalog.errors import not_supported
from engine.columnar.generate.comparisons import comparable_pair
from engine.columnar.generate.forms import Piece
from engine.columnar.generate.state import Scope, expression
from engine.sql import tree
from engine.sql.tree_walk import walk

NAMES = frozenset(("rank", "dense_rank", "percent_rank", "cume_dist"))
_Pair = tuple[str, str]  # the key of a row, and that of the hypothetical one


def hypothetical(scope: Scope, node: tree.Aggref, condition: str) -> Piece:
    """SQL of the aggregate; `condition` is its FILTER. Called with grouping out of the way (`Scope.plain`)."""
    fixed = not any(isinstance(item, tree.Var) for direct in node.direct_arguments for item in walk(direct))
    if scope.up(node.levels_up).query.grouping_sets and not fixed:
        not_supported("a hypothetical row of grouping columns under grouping sets")
    pairs = [
        comparable_pair(
            scope.generation,
            expression(scope, clause.expression),
            expression(scope, direct),
            (clause.expression.type.oid, direct.type.oid),
        )
        for clause, direct in zip(node.order_by, node.direct_arguments, strict=True)
    ]
    before = _before(pairs, node.order_by)
    rows = f"count(*){_where(condition)}"
    if node.function.name == "dense_rank":
        different = f"count(DISTINCT row({', '.join(row for row, _ in pairs)}))"
        return Piece(f"(1 + {different}{_where(before, condition)})", "BIGINT")
    earlier = f"count(*){_where(before, condition)}"
    if node.function.name == "rank":
        return Piece(f"(1 + {earlier})", "BIGINT")
    if node.function.name == "percent_rank":
        return Piece(f"(CASE WHEN {rows} = 0 THEN 0 ELSE CAST({earlier} AS DOUBLE) / {rows} END)", "DOUBLE")
    beside = " AND ".join(f"{row} IS NOT DISTINCT FROM {wanted}" for row, wanted in pairs)
    upto = f"count(*){_where(f'({before} OR ({beside}))', condition)}"
    return Piece(f"(CAST(1 + {upto} AS DOUBLE) / (1 + {rows}))", "DOUBLE")


def _where(*conditions: str) -> str:
    given = [item for item in conditions if item]
    return f" FILTER (WHERE {' AND '.join(given)})" if given else ""


def _before(pairs: Sequence[_Pair], order: Sequence[tree.SortClause]) -> str:
    """Whether a row sorts before the hypothetical one: never NULL."""
    (row, wanted), clause = pairs[0], order[0]
    symbol = ">" if clause.descending else "<"
    known = f"({row} IS NOT NULL AND {wanted} IS NOT NULL AND {row} {symbol} {wanted})"
    null, other = (row, wanted) if clause.nulls_first else (wanted, row)
    test = f"({known} OR ({null} IS NULL AND {other} IS NOT NULL))"
    if len(pairs) == 1:
        return test
    return f"({test} OR ({row} IS NOT DISTINCT FROM {wanted} AND {_before(pairs[1:], order[1:])}))"
