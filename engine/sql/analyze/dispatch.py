"""The way into expression analysis: from a raw node to the function that analyses its kind.

`expression(state, node, kind)` is what clauses call; `kind` says where the expression stands ('WHERE', 'select', ...),
which decides whether aggregates, window functions and sets may be called there. `operand` is for nodes within nodes.
Each module registers the kinds of node that it analyses with `handles`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from engine.sql import ast, tree
from engine.sql.analyze.errors import refuse
from engine.sql.analyze.state import State

Handler = Callable[[State, Any], tree.Expr]
_HANDLERS: dict[type, Handler] = {}


def handles(kind: type) -> Callable[[Handler], Handler]:
    """Registers the decorated function as the analysis of that kind of node."""

    def register(handler: Handler) -> Handler:
        _HANDLERS[kind] = handler
        return handler

    return register


def expression(state: State, node: ast.Node, kind: str) -> tree.Expr:
    """transformExpr: the typed expression; a literal without a type stays unknown for the caller to settle."""
    saved = state.kind
    state.kind = kind
    try:
        return operand(state, node)
    finally:
        state.kind = saved


def operand(state: State, node: ast.Node) -> tree.Expr:
    """The typed expression of a node, in the kind of place that `state` is in."""
    handler = _HANDLERS.get(type(node))
    if handler is None:
        refuse(f"{type(node).__name__} in an expression", node)
    return handler(state, node)
