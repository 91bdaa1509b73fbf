"""The actions and conditions of rules: statements and expressions over the rows old and new of the rule's relation
(transformRuleStmt of parse_utilcmd.c)."""

from __future__ import annotations

from catalog.schema import Table, View
from engine.sql import ast, tree
from engine.sql.analyze import coerce
from engine.sql.analyze.dispatch import change_statement, expression, handles
from engine.sql.analyze.environment import Environment
from engine.sql.analyze.scope import table_item
from engine.sql.analyze.set_clause import assign
from engine.sql.analyze.state import Shared, State
from engine.sql.analyze.trigger_conditions import NEW, OLD, entries_of
from engine.sql.deparse_changes import RuleAction
from engine.sql.tree_walk import variables

_SEEN = {"a": (NEW,), "w": (OLD, NEW), "d": (OLD,)}


def _around(relation: Table | View, shared: Shared, seen: tuple[int, ...]) -> State:
    """The level with the rows old and new, whose columns have no names without these."""
    state = State(shared)
    for index, entry in enumerate(entries_of(relation)):
        item = table_item(state.add(entry), entry)
        item.columns_visible = False
        if index in seen:
            state.names.append(item)
            state.namespace.append(item)
    return state


def analyse_action(node: ast.Node, relation: Table | View, environment: Environment) -> tuple[RuleAction, Shared]:
    """An action, whose OLD and NEW are Vars of the level around it, and what it depends on."""
    shared = Shared(environment, ())
    change = change_statement(State(shared, _around(relation, shared, (OLD, NEW))), node)
    assert not isinstance(change, tree.Merge)
    return change, shared


def analyse_rule_condition(
    node: ast.Node, relation: Table | View, event: str, environment: Environment
) -> tuple[tree.Expr, Shared]:
    """The condition, over `entries_of` the relation, and what it depends on."""
    shared = Shared(environment, ())
    state = _around(relation, shared, _SEEN[event])
    return coerce.to_boolean(state, expression(state, node, "WHERE"), "WHERE"), shared


@handles(ast.AssignedValue)
def _assigned_value(state: State, node: ast.AssignedValue) -> tree.Expr:
    """A value as a column gets it."""
    return assign(state, expression(state, node.expression, state.kind), node.column)


def outer_columns(action: RuleAction) -> set[tuple[int, int]]:
    """(entry, column) of the rows old and new that an action uses."""
    return {(item.relation, item.column) for item in variables(action) if item.levels_up == 1}
