"""The constants that PostgreSQL evaluates during planning, as far as they change the evaluation of other expressions
(eval_const_expressions).

A strict function of a constant NULL is NULL, and its other arguments are not evaluated: `nullif(1, 1) + a / 0` raises
no error. The constant may be the result of an immutable function of constants, also inside other strict functions.
Literals that were lifted out of the text are parameters here, whose values the plan does not have. So both paths look
for such parts of a call's arguments, and test them before they evaluate the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from catalog.types.oids import BOX, JSON_TYPES, LINE, LSEG, PATH
from engine.sql import tree
from engine.sql.tree_walk import children

_CASTS = (tree.RelabelType, tree.CoerceTypmod, tree.CoerceViaIO)
# Nodes that are constant if all their parts are constant.
_PLAIN = (
    tree.ArrayExpr, tree.BoolExpr, tree.CaseExpr, tree.CoalesceExpr, tree.MinMaxExpr, tree.NullTest,
    tree.SubscriptingRef,
)  # fmt: skip
_NOT_FOLDED = (False, False)
# Operators of built-in types whose result is never NULL if no argument is NULL.
_TOTAL_OPERATORS = frozenset((
    "=", "<>", "<", "<=", ">", ">=", "+", "-", "*", "/", "%", "^", "||", "&", "|", "#", "<<", ">>", "@>", "<@", "&&",
    "^@", "~~", "!~~", "~~*", "!~~*", "~", "!~", "~*", "!~*",
))  # fmt: skip

_NULL_RESULTS = JSON_TYPES | {LINE, LSEG, BOX, PATH}
"""Types some of whose operators have no result for some values: two lines that do not meet, two closed paths."""


class Folding:
    """Examines the expressions of one statement, whose first `literals` parameters are never NULL."""

    def __init__(self, literals: int = 0) -> None:
        self._literals = literals
        self._known: dict[int, tuple[object, tuple[bool, bool]]] = {}  # by the identity of the first

    def before_others(self, call: tree.FuncExpr) -> list[tuple[tree.Expr, bool]]:
        """The constant parts of a strict call's arguments, and whether each may be NULL, if one of them may and other
        arguments need evaluation. Empty if the order of evaluation does not matter."""
        arguments = call.arguments
        if len(arguments) < 2:
            return []
        found = [self._look(argument) for argument in arguments]
        if not any(nullable for _, nullable in found) or not any(
            not constant and not isinstance(argument, tree.Var)
            for argument, (constant, _) in zip(arguments, found, strict=True)
        ):
            return []
        return list(self._parts(arguments))

    def is_never_null(self, node: tree.Expr) -> bool:
        """Whether the expression is constant and not NULL."""
        return self._look(node) == (True, False)

    def _parts(self, arguments: Sequence[tree.Expr]) -> Iterator[tuple[tree.Expr, bool]]:
        for argument in arguments:
            constant, nullable = self._look(argument)
            if constant:
                yield argument, nullable
            elif isinstance(argument, tree.FuncExpr) and _passes_null(argument):
                yield from self._parts(argument.arguments)
            elif isinstance(argument, _CASTS):
                yield from self._parts((argument.argument,))

    def _look(self, node: object) -> tuple[bool, bool]:
        """Whether the expression is constant, and whether it is NULL if a constant part of it is NULL and that is
        possible."""
        if isinstance(node, tree.Const):
            return True, node.value is None
        if isinstance(node, tree.Param):
            return True, node.number > self._literals
        known = self._known.get(id(node))
        if known is None:  # each call asks for all within it
            known = self._known[id(node)] = (node, self._examine(node))
        return known[1]

    def _examine(self, node: object) -> tuple[bool, bool]:
        if isinstance(node, tree.FuncExpr):
            found = [self._look(argument) for argument in node.arguments]
            nullable = any(nullable for _, nullable in found)
            plain = node.function.kind == "f" and not node.function.returns_set
            if plain and node.function.volatility == "i" and all(constant for constant, _ in found):
                return True, nullable or not is_total(node)
            return False, nullable and _passes_null(node)
        if isinstance(node, _CASTS):
            return self._look(node.argument)
        if isinstance(node, tree.NullIfExpr):
            folded = node.function.volatility == "i" and self._look(node.left)[0] and self._look(node.right)[0]
            return folded, folded
        if isinstance(node, _PLAIN):
            folded = all(self._look(child)[0] for child in children(node))
            return folded, folded and not isinstance(node, (tree.ArrayExpr, tree.NullTest))
        return _NOT_FOLDED


def _passes_null(call: tree.FuncExpr) -> bool:
    return call.function.strict and call.function.kind == "f" and not call.function.returns_set


def is_total(expression: tree.FuncExpr) -> bool:
    """Whether a strict function's result is never NULL when no argument is."""
    if expression.display.startswith("cast"):
        return True
    if expression.operator is None or expression.operator.name not in _TOTAL_OPERATORS:
        return False
    return not any(argument.type.oid in _NULL_RESULTS for argument in expression.arguments)
