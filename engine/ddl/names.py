"""Finds objects by name, generates names, and refuses names that are used.

Generated names follow PostgreSQL's makeObjectName and ChooseRelationName: parts joined by '_', shortened to 63 bytes by
cutting the longer of the two names, then numbered until the name is free.
"""

from __future__ import annotations

from collections.abc import Iterable

from catalog.errors import SqlError
from catalog.identifiers import join_names
from catalog.privileges import may_columns
from catalog.schema import (
    INFORMATION_SCHEMA_OID,
    PG_CATALOG_OID,
    Constraint,
    Index,
    Relation,
    Sequence,
    Table,
    View,
    VirtualTable,
)
from engine.ddl.context import DdlContext
from engine.ddl.ownership import must_own, user_role
from engine.sql import ast

WORDS: dict[type, str] = {Table: "table", View: "view", Index: "index", Sequence: "sequence", VirtualTable: "table"}


def free_relation_name(
    context: DdlContext, schema: int, first: str, second: str, label: str, taken: Iterable[str] = ()
) -> str:
    """A generated name that no relation of the schema has, and that is not in `taken`."""
    used = set(taken)
    number = 0
    while True:
        name = join_names(first, second, label + (str(number) if number else ""))
        if name not in used and context.catalog.relation(schema, name) is None:
            return name
        number += 1


def free_constraint_name(constraints: Iterable[Constraint], first: str, second: str, label: str) -> str:
    """A generated name that no constraint of the table has."""
    used = {constraint.name for constraint in constraints}
    number = 0
    while (name := join_names(first, second, label + (str(number) if number else ""))) in used:
        number += 1
    return name


def show_relation(relation: ast.RangeVar) -> str:
    return f"{relation.schema}.{relation.name}" if relation.schema else relation.name


def find(context: DdlContext, relation: ast.RangeVar) -> Relation | None:
    """The relation of that name, or None. A missing schema counts as a missing relation."""
    return context.environment.find_relation(relation.schema, relation.name)


def table_named(
    context: DdlContext,
    relation: ast.RangeVar,
    mode: str = "access exclusive",
    letter: str = "",
    materialized: bool = False,
    foreign: bool = False,
) -> Table:
    """The named table, locked; also a materialized view or a foreign table, where the statement allows one. Raises
    42P01, 42809 for another kind of relation, and 42501 unless the user owns it or has the privilege `letter` on
    it."""
    found = find(context, relation)
    if found is None:
        raise SqlError("42P01", f'relation "{show_relation(relation)}" does not exist')
    if not isinstance(found, Table):
        if isinstance(found, VirtualTable) or found.schema in (PG_CATALOG_OID, INFORMATION_SCHEMA_OID):
            raise SqlError("42501", f'permission denied: "{found.name}" is a system catalog')
        raise SqlError("42809", f'"{found.name}" is not a table')
    if (found.query is not None and not materialized) or (found.server and not foreign):
        raise SqlError("42809", f'"{found.name}" is not a table')
    if not letter:
        must_own(context, found)
    elif not may_on_table(context, found, letter):
        raise SqlError("42501", f"permission denied for table {found.name}")
    context.lock_relation(found.oid, mode)
    current = context.catalog.get(found.oid)
    if not isinstance(current, Table):
        raise SqlError("42P01", f'relation "{show_relation(relation)}" does not exist')
    return current


def may_on_table(context: DdlContext, table: Table, letter: str, columns: frozenset[int] = frozenset()) -> bool:
    """Whether the user has a privilege on a table, or on these columns of it."""
    return context.is_superuser or may_columns(context.catalog, table, user_role(context), letter, columns)


def refuse_if_taken(
    context: DdlContext, schema: int, name: str, if_not_exists: bool, *, has_row_type: bool = False
) -> bool:
    """Locks the name for its creator. True: the relation exists and the statement has IF NOT EXISTS (it sends a
    notice). Raises 42P07."""
    context.lock_name(schema, name)
    if context.catalog.relation(schema, name) is None:
        if has_row_type and context.catalog.user_type(schema, name) is not None:
            hint = (
                "A relation has an associated type of the same name, so you must use a name that doesn't conflict with "
                "any existing type."
            )
            raise SqlError("42710", f'type "{name}" already exists', hint=hint)
        return False
    if not if_not_exists:
        raise SqlError("42P07", f'relation "{name}" already exists')
    context.notice(SqlError("42P07", f'relation "{name}" already exists, skipping', severity="NOTICE"))
    return True
