"""Stored expressions after a rename: read with the old names, written with the new ones."""

from __future__ import annotations

from dataclasses import replace

from catalog.errors import not_supported
from catalog.schema import Column, SchemaObject, Sequence, Table, View
from catalog.types.base import TypeRef
from engine.ddl.context import DdlContext
from engine.ddl.expressions import stored_text
from engine.sql import tree
from engine.sql.analyze import analyze_expression
from engine.sql.analyze.walk import expressions_in
from engine.sql.parser import parse_expression

BOOL = TypeRef(16)
REGCLASS = 2205


def refuse_used_by_views(context: DdlContext, oid: int, what: str) -> None:
    """A view's text names what it reads; while one does, that keeps its name (0A000)."""
    for item in context.catalog.objects.values():
        if isinstance(item, View) and oid in item.depends_on:
            not_supported(f"{what} while view {item.name} uses it", hint="Drop the view, rename, and create it again.")


def rename_relations(context: DdlContext, changes: dict[int, SchemaObject | None], what: str) -> None:
    """Makes changes that give relations other names or schemas. Defaults that draw from them follow; views over them
    are in the way (0A000), and so are the views over a whole schema that is renamed."""
    renamed = set(changes)
    for item in context.catalog.objects.values():
        if isinstance(item, Table | View | Sequence) and item.schema in renamed:
            renamed.add(item.oid)
    for oid in renamed:
        refuse_used_by_views(context, oid, what)
    follow = [
        (table.oid, column.number, found)
        for table in context.catalog.tables()
        for column in table.columns
        if (found := default_over(context, column, renamed)) is not None
    ]
    context.change(changes)
    for oid, number, found in follow:
        table = context.catalog.table(oid)
        text = stored_text(context, found)
        columns = tuple(replace(item, default=text) if item.number == number else item for item in table.columns)
        context.change({oid: replace(table, columns=columns)})


def default_over(context: DdlContext, column: Column, oids: set[int]) -> tree.Expr | None:
    """The column's default, if one of these relations is a constant of type regclass in it."""
    if column.default is None or "regclass" not in column.default:
        return None
    found = analyze_expression(
        parse_expression(column.default), context.environment, None, column.type, "DEFAULT expressions"
    )
    named = any(
        isinstance(item, tree.Const) and item.type.oid == REGCLASS and item.value in oids
        for item, _ in expressions_in(found)
    )
    return found if named else None


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
