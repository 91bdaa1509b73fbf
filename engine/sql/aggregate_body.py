"""The computation of a user-defined aggregate, which analysis adds to its calls when a statement is planned
(engine/sql/analyze/aggregate_bodies.py). It is no node of the tree: walks skip it, and it contains nothing of the
query."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog.functions.base import Function
from catalog.records import dataclass

if TYPE_CHECKING:
    from engine.sql.tree import Const, Expr


@dataclass(frozen=True, slots=True)
class AggregateBody:
    """`step`: the new state, and `final`: the result, over StepInputs. `strict`: rows with a NULL argument are left
    out, and a state that is NULL stays. `takes_first`: there is no initial state, and the first argument of the first
    row becomes the state. `built_in`: the transition and the final function, if any process can call them."""

    initial: Const
    step: Expr
    final: Expr
    strict: bool
    takes_first: bool
    built_in: tuple[Function, Function | None] | None = None
