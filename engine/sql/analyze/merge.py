"""MERGE (parse_merge.c): the join of source and target, and what each WHEN clause does with its rows."""

from __future__ import annotations

from dataclasses import replace

from catalog.errors import SqlError
from catalog.schema import Table
from engine.sql import ast, tree
from engine.sql.analyze import changes, coerce
from engine.sql.analyze.dispatch import analyses, expression
from engine.sql.analyze.errors import fail
from engine.sql.analyze.from_clause import from_clause
from engine.sql.analyze.rules import TableRules, table_rules
from engine.sql.analyze.set_clause import assign, update_assignments
from engine.sql.analyze.state import NamespaceItem, State
from engine.sql.analyze.with_clause import with_clause

_CONDITION = "MERGE WHEN conditions"


@analyses(ast.MergeStmt)
def merge(state: State, node: ast.MergeStmt) -> tree.Merge:
    """transformMergeStmt: the target is range entry 0, the source's entries follow."""
    if node.with_clause is not None:
        if node.with_clause.recursive:
            fail("42601", "WITH RECURSIVE is not supported for MERGE statement", -1)
        with_clause(state, node.with_clause)
    _check_reachable(node)
    table, item = changes.changed_table(state, node.relation, "merge into")
    rules = table_rules(table, state.environment)
    state.namespace = []
    places = _source(state, node, item)
    source = list(state.namespace)
    item.lateral_only, item.lateral_ok = False, True
    state.namespace = [item, *source]
    condition = coerce.to_boolean(state, expression(state, node.on, "JOIN conditions"), "JOIN/ON")
    actions = tuple(_action(state, when, table, item, source, rules) for when in node.whens)
    found = tree.Merge(
        table, tuple(state.entries), places, condition, actions, rules.generated, rules.checks, (),
        tuple(state.ctes.values()),
    )  # fmt: skip
    kinds = {action.action for action in actions}
    if "insert" in kinds:
        return found
    if "update" not in kinds:
        return replace(found, generated=(), checks=())
    changed = {item.column for action in actions for item in action.assignments}
    return replace(found, checks=rules.checks_of_update(changed))


def _check_reachable(node: ast.MergeStmt) -> None:
    """42601 for a WHEN clause after one of the same kind without a condition."""
    taken: set[bool] = set()
    for when in node.whens:
        if when.matched in taken:
            fail("42601", "unreachable WHEN clause specified after unconditional WHEN clause", -1)
        if when.condition is None:
            taken.add(when.matched)


def _source(state: State, node: ast.MergeStmt, target: NamespaceItem) -> tree.FromItem:
    (place,) = from_clause(state, (node.source,))
    for other in state.namespace:
        if other.table_visible and other.alias == target.alias:
            raise SqlError(
                "42712",
                f'name "{target.alias}" specified more than once',
                detail="The name is used both as MERGE target table and data source.",
            )
    return place


def _action(
    state: State,
    when: ast.MergeWhen,
    table: Table,
    target: NamespaceItem,
    source: list[NamespaceItem],
    rules: TableRules,
) -> tree.MergeAction:
    """One WHEN clause. In WHEN NOT MATCHED, the target's columns cannot be used."""
    state.namespace = [target, *source] if when.matched else source
    state.target = target
    condition = None
    if when.condition is not None:
        condition = coerce.to_boolean(state, expression(state, when.condition, _CONDITION), "WHEN")
    assignments: tuple[tree.Assignment, ...] = ()
    columns: tuple[int, ...] = ()
    if when.action == "update":
        assignments = update_assignments(state, when.assignments, table, target, rules)
    elif when.action == "insert":
        assignments, columns = _insert(state, when, table, target, rules)
    return tree.MergeAction(when.matched, when.action, condition, assignments, columns)


def _insert(
    state: State, when: ast.MergeWhen, table: Table, item: NamespaceItem, rules: TableRules
) -> tuple[tuple[tree.Assignment, ...], tuple[int, ...]]:
    columns = changes.insert_columns(table, item, when.columns)
    given: dict[int, tree.Expr] = {}
    if when.values is not None:
        values = when.values
        if len(values) > len(columns):
            fail("42601", "INSERT has more expressions than target columns", values[len(columns)])
        if when.columns and len(values) < len(columns):
            fail("42601", "INSERT has more target columns than expressions", when.columns[len(values)])
        row = [None if isinstance(item, ast.SetToDefault) else expression(state, item, "VALUES") for item in values]
        if changes.has_parts(when.columns):
            row = changes.gather_values(state, when.columns, columns, row)
            columns = changes.once(columns)
        for column, value in zip(columns, row, strict=False):
            if value is not None and changes.check_given(column, when.overriding):
                given[column.number] = assign(state, value, column)
    named = columns if when.columns else columns[: len(when.values or ())]
    assignments = tuple(
        tree.Assignment(column.number, given.get(column.number) or rules.default(column))
        for column in table.columns
        if column.generated is None
    )
    return assignments, tuple(column.number for column in named)
