"""Raises errors with a position in the statement."""

from __future__ import annotations

from typing import NoReturn

from catalog.errors import SqlError
from engine.sql import ast, tree


def fail(
    sqlstate: str, message: str, at: ast.Node | int = -1, *, hint: str | None = None, detail: str | None = None
) -> NoReturn:
    """Raises `SqlError` with the position of a node, or of a location in characters from 0."""
    location = at if isinstance(at, int) else location_of(at)
    position = location + 1 if location >= 0 else None
    raise SqlError(sqlstate, message, position=position, hint=hint, detail=detail)


def refuse(feature: str, at: ast.Node | int = -1) -> NoReturn:
    """Refuses a feature by name (0A000)."""
    fail("0A000", f"{feature} is not supported", at)


def location_of(node: ast.Node) -> int:
    """The start of the expression in the text: the leftmost location of it and its operands (exprLocation)."""
    location = node.location
    first: ast.Node | None = None
    if isinstance(node, ast.Expression):
        first = node.left
    elif isinstance(node, ast.BoolExpr):
        first = None if node.operator == "not" else node.arguments[0]
    elif isinstance(node, (ast.NullTest, ast.BooleanTest, ast.TypeCast, ast.CollateClause, ast.Indirection)):
        first = node.argument
    elif isinstance(node, ast.SubLink):
        first = node.test
    elif isinstance(node, ast.ListExpr):
        first = node.items[0] if node.items else None
    if first is None:
        return location
    start = location_of(first)
    return start if location < 0 or 0 <= start < location else location


def expr_location(expr: tree.Expr) -> int:
    """The start of an analysed expression in the text, or -1 (exprLocation)."""
    location = expr.location if not isinstance(expr, tree.SetToDefault) else -1
    inner: tuple[tree.Expr, ...] = ()
    if isinstance(expr, (tree.FuncExpr, tree.BoolExpr)):
        inner = expr.arguments
    elif isinstance(expr, _WITH_ARGUMENT):
        inner = (expr.argument,)
    elif isinstance(expr, (tree.DistinctExpr, tree.NullIfExpr, tree.ScalarArrayOp)):
        inner = (expr.left, expr.right)
    elif isinstance(expr, tree.SubLink):
        inner = expr.test
    elif isinstance(expr, tree.RowCompare):
        inner = expr.left
    for item in inner:
        start = expr_location(item)
        if start >= 0 and (location < 0 or start < location):
            location = start
    return location


_WITH_ARGUMENT = (
    tree.RelabelType, tree.CoerceViaIO, tree.CoerceTypmod, tree.ArrayCoerce, tree.NullTest, tree.BooleanTest,
    tree.FieldSelect, tree.SubscriptingRef, tree.CoerceToDomain, tree.CollateExpr,
)  # fmt: skip
