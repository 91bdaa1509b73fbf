"""Which rules of a relation are in force, and the places where statements on such relations are refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from catalog.errors import not_supported
from catalog.rewrite_rules import RewriteRule
from catalog.schema import Table, View
from engine.sql import ast, tree

if TYPE_CHECKING:
    from engine.session.session import Session

Relation = Table | View
_STATEMENTS: dict[type[ast.Node], str] = {ast.InsertStmt: "a", ast.UpdateStmt: "w", ast.DeleteStmt: "d"}
_EVENTS: dict[type, str] = {tree.Insert: "a", tree.Update: "w", tree.Delete: "d", tree.Merge: "awd"}


def due_rules(session: Session, relation: Relation, events: str) -> list[RewriteRule]:
    """The rules of these events that are enabled, in the order of their names."""
    found = [rule for rule in relation.rules if rule.event in events and rule.enabled != "D"]
    due = [rule for rule in found if rule.enabled == "A" or (rule.enabled == "R") == session.is_replica]
    return sorted(due, key=lambda rule: rule.name.encode())


def is_ruled(session: Session, node: ast.Node) -> bool:
    """Whether a statement changes a relation with rules for it."""
    event = _STATEMENTS.get(type(node))
    if event is None or not session.catalog.with_rules:
        return False
    assert isinstance(node, ast.InsertStmt | ast.UpdateStmt | ast.DeleteStmt)
    relation = session.environment.find_relation(node.relation.schema, node.relation.name)
    return isinstance(relation, Table | View) and bool(due_rules(session, relation, event))


def refuse_elsewhere(session: Session, node: ast.Node, statement: tree.Statement) -> None:
    """0A000 for a change of a relation with rules where none is applied: in WITH, in functions in SQL, through a
    view."""
    ruled = isinstance(node, ast.InsertStmt | ast.UpdateStmt | ast.DeleteStmt) and node.ruled
    for relation, event in _changes_within(statement, ruled):
        if due_rules(session, relation, event):
            not_supported(f'a change of "{relation.name}", which has rules, within another statement')


def _changes_within(statement: tree.Statement, ruled: bool) -> Iterator[tuple[Relation, str]]:
    """The relations that a statement changes, with the events; without that of a statement to which its rules are
    applied (`ruled`)."""
    for part in (statement, *(cte.query for cte in statement.ctes)):
        if isinstance(part, tree.Query):
            continue
        is_view = not isinstance(part, tree.Merge) and bool(part.views)
        if part is not statement or not ruled or is_view:
            yield part.table, _EVENTS[type(part)]
