"""The conditions of triggers (WHEN): expressions over the rows old and new."""

from __future__ import annotations

from catalog.schema import Table, View, VirtualTable
from engine.sql import ast, tree
from engine.sql.analyze.coerce import to_boolean
from engine.sql.analyze.collations import collate_expression
from engine.sql.analyze.dispatch import expression
from engine.sql.analyze.environment import Environment, inner_environment
from engine.sql.analyze.routines import expanded_expression
from engine.sql.analyze.scope import table_item
from engine.sql.analyze.state import Shared, State
from engine.sql.parser import parse_expression

OLD, NEW = 0, 1
"""The entries of the range table."""


def entries_of(table: Table | View) -> tuple[tree.RangeTable, tree.RangeTable]:
    """The range table of a condition."""
    columns = tuple(tree.RangeColumn(column.name, column.type) for column in table.columns)
    if isinstance(table, View):
        rows: Table | VirtualTable = VirtualTable(table.oid, table.schema, table.name, table.columns, "v")
    else:
        rows = table
    old, new = (tree.RangeTable(rows, alias, columns, only=True) for alias in ("old", "new"))
    return old, new


def analyse_condition(node: ast.Node, environment: Environment, table: Table | View) -> tree.Expr:
    """The condition as a tree."""
    state = State(Shared(environment, ()))
    for entry in entries_of(table):
        item = table_item(state.add(entry), entry)
        state.names.append(item)
        state.namespace.append(item)
    return to_boolean(state, expression(state, node, "trigger WHEN conditions"), "WHEN")


def runnable_condition(text: str, environment: Environment, table: Table) -> tree.Expr:
    """A stored condition in a form that can be compiled."""
    catalog, path = environment.catalog, ("pg_catalog", "public")
    with inner_environment(catalog, path, environment.user_name, environment.database_name) as inside:
        found = expanded_expression(analyse_condition(parse_expression(text), inside, table), inside)
        return collate_expression(found, catalog, table)
