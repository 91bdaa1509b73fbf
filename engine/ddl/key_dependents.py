"""Views that need a table's primary key: they group by it and return other columns of the table, which the key
determines.

PostgreSQL records a dependency on the constraint (check_functional_grouping). Here the views on the table are analysed
with a catalog without the key. A view that is then invalid needs the key.
"""

from __future__ import annotations

from dataclasses import replace

from catalog.catalog import Catalog
from catalog.errors import SqlError, not_supported
from catalog.schema import Constraint, Table, View
from engine.ddl.context import DdlContext
from engine.sql.analyze import analyze, inner_environment
from engine.sql.parser import parse_select

_NOT_GROUPED = "42803"


def refuse_views_that_need(context: DdlContext, table: Table, key: Constraint, cascade: bool) -> None:
    """Raises 2BP01 if a view needs the primary key that is dropped, 0A000 with CASCADE."""
    kept = tuple(item for item in table.constraints if item.oid != key.oid)
    without = context.catalog.with_object(replace(table, constraints=kept, key_columns=()))
    dependent: dict[int, View | Table] = {}
    lines = []
    for item in context.catalog.objects.values():
        if not isinstance(item, View | Table) or table.oid not in item.depends_on or _is_valid(item, without):
            continue
        kind = "view" if isinstance(item, View) else "materialized view"
        through = next((dependent[oid] for oid in item.depends_on if oid in dependent), None)
        on = f"constraint {key.name} on table {table.name}" if through is None else f"view {through.name}"
        lines.append(f"{kind} {item.name} depends on {on}")
        dependent[item.oid] = item
    if not lines:
        return
    if cascade:
        not_supported(f"dropping view {next(iter(dependent.values())).name} with a constraint that it depends on")
    raise SqlError(
        "2BP01",
        f"cannot drop constraint {key.name} on table {table.name} because other objects depend on it",
        detail="\n".join(lines),
        hint="Use DROP ... CASCADE to drop the dependent objects too.",
    )


def _is_valid(item: View | Table, catalog: Catalog) -> bool:
    assert item.query is not None
    try:
        with inner_environment(catalog, ("pg_catalog", "public")) as inside:
            analyze(parse_select(item.query), inside)
    except SqlError as error:
        return error.sqlstate != _NOT_GROUPED
    return True
