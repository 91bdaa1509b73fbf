"""CREATE SCHEMA with its elements."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from catalog.errors import SqlError, not_supported
from engine.session.answer import Sink
from engine.session.portal import Portal
from engine.sql import ast
from engine.statements import schema_change

if TYPE_CHECKING:
    from engine.session.session import Session

_ELEMENTS = (ast.SequenceStmt, ast.CreateStmt, ast.ViewStmt, ast.IndexStmt, ast.GrantStmt)


async def run_create(session: Session, tree: ast.CreateSchemaStmt, portal: Portal, sink: Sink) -> None:
    tag = await schema_change.execute(session, tree)
    if tree.elements:
        await _create_elements(session, tree)
    sink.complete(tag)


async def _create_elements(session: Session, statement: ast.CreateSchemaStmt) -> None:
    """Creates the elements of CREATE SCHEMA, in the order of transformCreateSchemaStmtElements, with the new schema
    first in the search path. Raises 42P15."""
    name = statement.name or statement.owner
    assert name is not None
    kept = session.search_path
    session.search_path = (name, *kept)
    try:
        for element in sorted((_within(name, item) for item in statement.elements), key=_place_of_element):
            await schema_change.execute(session, element)
    finally:
        session.search_path = kept


def _place_of_element(element: ast.Node) -> int:
    return next(place for place, kind in enumerate(_ELEMENTS) if isinstance(element, kind))


def _within(schema: str, element: ast.Node) -> ast.Node:
    """The element with the schema that is being created."""
    if isinstance(element, ast.GrantStmt):
        return element
    if not isinstance(element, ast.SequenceStmt | ast.CreateStmt | ast.ViewStmt | ast.IndexStmt):
        not_supported(f"{type(element).__name__} within CREATE SCHEMA")
    given = element.relation.schema
    if given is not None and given != schema:
        message = f"CREATE specifies a schema ({given}) different from the one being created ({schema})"
        raise SqlError("42P15", message)
    return dataclasses.replace(element, relation=dataclasses.replace(element.relation, schema=schema))
