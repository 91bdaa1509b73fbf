"""Evaluates each volatile operand once.

The generated SQL may contain an operand several times: comparisons by key, NULLIF and functions of DuckDB SQL do. A
stable operand only costs time then, but a volatile one would have several values. So in a statement that calls volatile
functions, the generator writes such operands as names. When the expression is complete, a name that occurs once is
replaced by its SQL; a name that occurs several times becomes the argument of a lambda, over a list of one row (DuckDB
has no LET):

    list_transform([random()], lambda q1: CASE WHEN q1 = 0 THEN NULL ELSE q1 END)[1]

DuckDB allows neither sub-queries nor UNNEST inside a lambda, so they become arguments too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from catalog.duckdb.nodes import (
    Entry,
    Later,
    Sql,
    Steady,
    comma_list,
    fill,
    has_query,
    names_later,
    replace_later,
    uses,
)
from catalog.errors import not_supported
from engine.columnar.generate.forms import Piece, settle
from engine.sql import tree
from engine.sql.tree_walk import is_volatile, walk


class Operand(NamedTuple):
    """An operand that was written as a name: the name, its SQL, and its properties."""

    name: str
    sql: Sql
    volatile: bool
    stays_outside: bool  # it contains a sub-query or a set, which a lambda may not contain

    @property
    def reference(self) -> Later:
        """The node of the name in trees, until the expression is complete."""
        return Later(self.name)


Operands = list[Operand]


def is_named(node: tree.Expr) -> bool:
    """Whether the generator writes the operand as a name first."""
    return is_volatile(node) or _stays_outside(node)


def _stays_outside(node: tree.Expr) -> bool:
    return any(
        isinstance(item, tree.SubLink) or (isinstance(item, tree.FuncExpr) and item.function.returns_set)
        for item in walk(node)
    )


def named(piece: Piece, node: tree.Expr, name: str, operands: Operands) -> Piece:
    """Returns the operand as a name, and adds it to the operands of the expression."""
    piece = settle(piece)
    operands.append(Operand(name, piece.sql, is_volatile(node), _stays_outside(node)))
    return piece._replace(sql=operands[-1].reference)


def steady(sql: Sql, operands: Operands) -> Sql:
    """Returns the SQL without constructs that DuckDB considers volatile (`Steady`), also in the operands that it
    names."""
    named = names_later(sql) if operands else ()
    for place, operand in enumerate(operands):
        if operand.name in named:
            operands[place] = operand._replace(sql=steady(operand.sql, operands))
    return Steady(sql)


def with_operands(piece: Piece, operands: Sequence[Operand], alias: Callable[[], str]) -> Piece:
    """Returns the complete expression. Raises 0A000 if a repeated volatile operand is used inside a sub-query."""
    if any(operand.volatile for operand in operands):
        piece = settle(piece)
    known = {operand.name: operand for operand in operands}

    def written(sql: Sql, variable: str = "", outside: Sequence[Operand] = ()) -> Sql:
        def expression(later: Later) -> Sql:
            operand = known.get(later.name)
            if operand is None:
                return later
            return Entry(variable, operand.name) if operand in outside else written(operand.sql, variable, outside)

        return replace_later(sql, expression)

    again = _evaluated_again(piece.sql, known)
    repeated = [operand for operand in operands if operand.volatile and operand.name in again]
    if not repeated:
        return piece._replace(sql=written(piece.sql), scale=piece.scale and written(piece.scale))
    outside = [operand for operand in operands if operand in repeated or operand.stays_outside]
    name = alias()
    body = written(piece.sql, name, outside)
    given = comma_list([fill("'{}': {}", operand.name, written(operand.sql)) for operand in outside])
    if has_query(body) or any(repeat.name in names_later(item.sql) for item in outside for repeat in repeated):
        not_supported("a volatile value that is used again beside a sub-query on this query")
    return Piece(fill("list_transform([{{{}}}], lambda {}: {})[1]", given, name, body), piece.form, piece.fields)


def _evaluated_again(sql: Sql, known: dict[str, Operand]) -> set[str]:
    """Returns the names that occur several times in the tree, or inside a lambda or a sub-query, which are loops."""
    seen: set[str] = set()
    again: set[str] = set()

    def look(node: Sql) -> None:
        for later, in_loop in uses(node):
            operand = known.get(later.name)
            if operand is not None:
                if operand.name in seen or in_loop:
                    again.add(operand.name)
                seen.add(operand.name)
                look(operand.sql)

    look(sql)
    return again
