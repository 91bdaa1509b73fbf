"""Stored expressions after a rename: read with the old names, written with the new ones."""

from __future__ import annotations

from dataclasses import replace

from catalog.errors import not_supported
from catalog.schema import SchemaObject, Table, View
from catalog.types.base import TypeRef
from engine.ddl.context import DdlContext
from engine.ddl.expressions import stored_text
from engine.sql.analyze import analyze_expression
from engine.sql.parser import parse_expression

BOOL = TypeRef(16)


def refuse_used_by_views(context: DdlContext, oid: int, what: str) -> None:
    """A view's text names what it reads; while one does, that keeps its name (0A000)."""
    for item in context.catalog.objects.values():
        if isinstance(item, View) and oid in item.depends_on:
            not_supported(f"{what} while view {item.name} uses it", hint="Drop the view, rename, and create it again.")


def renamed_texts(context: DdlContext, old: Table, new: Table, column: int) -> dict[int, SchemaObject | None]:
    """`new` with the texts of its checks and generated columns, and its indexes' expressions, in the new names."""
    refuse_used_by_views(context, old.oid, f"renaming a column of {old.name}")

    def rewritten(text: str, target: TypeRef | None, kind: str) -> str:
        found = analyze_expression(parse_expression(text), context.environment, old, target, kind)
        return stored_text(context, found, new)

    constraints = tuple(
        replace(item, check=rewritten(item.check, BOOL, "check constraints")) if item.check is not None else item
        for item in new.constraints
    )
    columns = tuple(
        replace(item, generated=rewritten(item.generated, item.type, "column generation expressions"))
        if item.generated is not None
        else item
        for item in new.columns
    )
    changes: dict[int, SchemaObject | None] = {new.oid: replace(new, constraints=constraints, columns=columns)}
    for oid in new.indexes:
        index = context.catalog.index(oid)
        keys = tuple(
            replace(item, expression=rewritten(item.expression, None, "index expressions"))
            if item.expression is not None
            else item
            for item in index.columns
        )
        predicate = rewritten(index.predicate, BOOL, "index predicates") if index.predicate is not None else None
        if keys != index.columns or predicate != index.predicate:
            changes[oid] = replace(index, columns=keys, predicate=predicate)
    return changes
