"""Dispatches raw nodes of expressions and statements to the functions that analyse them.

Clauses call `expression(state, node, kind)`. `kind` is the place of the expression ('WHERE', 'select', ...), which
determines whether aggregates, window functions and sets are allowed. `operand` is for nodes within nodes. Each module
registers its kinds of nodes with `handles`.

Statements occur within expressions, FROM items, WITH items and other statements. These call `select_query` or
`change_statement`, and the modules that analyse statements register with `analyses`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from engine.sql import ast, tree
from engine.sql.analyze.errors import refuse
from engine.sql.analyze.state import State

Handler = Callable[[State, Any], tree.Expr]
Change = tree.Insert | tree.Update | tree.Delete | tree.Merge
Analysis = TypeVar("Analysis", bound=Callable[..., tree.Statement])
_HANDLERS: dict[type, Handler] = {}
_STATEMENTS: dict[type, Callable[..., Any]] = {}


def handles(kind: type) -> Callable[[Handler], Handler]:
    """Registers the decorated function as the analysis of that kind of node."""

    def register(handler: Handler) -> Handler:
        _HANDLERS[kind] = handler
        return handler

    return register


def expression(state: State, node: ast.Node, kind: str) -> tree.Expr:
    """transformExpr: the typed expression. A literal without a type stays unknown, and the caller resolves it."""
    saved = state.kind
    state.kind = kind
    try:
        return operand(state, node)
    finally:
        state.kind = saved


def operand(state: State, node: ast.Node) -> tree.Expr:
    """The typed expression of a node, at the same kind of place as `state`."""
    handler = _HANDLERS.get(type(node))
    if handler is None:
        refuse(f"{type(node).__name__} in an expression", node)
    return handler(state, node)


@dataclass(frozen=True, slots=True)
class ConditionNode:
    """An expression that must be boolean, in a construct that the message of 42804 names: "CHECK", "WHERE"."""

    expression: ast.Node
    kind: str
    construct: str


def condition(state: State, wanted: ConditionNode) -> tree.Expr:
    """The typed expression of a condition. Raises 42804 where it is not boolean."""
    return _HANDLERS[ConditionNode](state, wanted)


def analyses(kind: type) -> Callable[[Analysis], Analysis]:
    """Registers the decorated function as the analysis of that kind of statement."""

    def register(analysis: Analysis) -> Analysis:
        _STATEMENTS[kind] = analysis
        return analysis

    return register


def select_query(state: State, node: ast.SelectStmt, settle: bool) -> tree.Query:
    """Analyses a SELECT, VALUES or set operation in a fresh state. `settle` converts unknown outputs to text."""
    query: tree.Query = _STATEMENTS[ast.SelectStmt](state, node, settle)
    return query


def change_statement(state: State, node: ast.Node) -> Change:
    """Analyses a statement that changes a table, in a fresh state."""
    analysis = None if isinstance(node, ast.SelectStmt) else _STATEMENTS.get(type(node))
    if analysis is None:
        refuse(type(node).__name__, node)
    change: Change = analysis(state, node)
    return change
