"""pg_statistic_ext, the definitions of statistics objects, and their rows in other catalogs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from catalog.catalog import Catalog
from catalog.identifiers import quote_identifier
from catalog.schema import StatisticsObject, Table
from catalog.system import derived_oids
from catalog.system import relations as internal
from catalog.system.content import (
    Columns,
    Dependency,
    Item,
    Items,
    Surroundings,
    comment_columns,
    content,
    dependency_columns,
)
from catalog.types.array import vector_of
from catalog.types.base import Array

_WORDS = {"d": "ndistinct", "f": "dependencies", "m": "mcv"}


def _with_table(catalog: Catalog, item: StatisticsObject) -> Item:
    """Returns (object, its table, names of the schemas of both)."""
    table = cast(Table, catalog.objects[item.table])
    return item, table, catalog.schema_name(item.schema), catalog.schema_name(table.schema)


objects = Items((StatisticsObject,), _with_table)


@content("pg_statistic_ext", "session", objects)
def _rows(items: list[Item], surroundings: Surroundings) -> Columns:
    return {
        "oid": [item.oid for item, *_ in items],
        "stxrelid": [item.table for item, *_ in items],
        "stxname": [item.name for item, *_ in items],
        "stxnamespace": [item.schema for item, *_ in items],
        "stxowner": [item.owner for item, *_ in items],
        "stxstattarget": [item.statistics_target for item, *_ in items],
        "stxkeys": [vector_of(item.columns) for item, *_ in items],
        "stxkind": [Array.of(tuple(item.kinds)) for item, *_ in items],
        "stxexprs": [_trees(surroundings, item, table) for item, table, *_ in items],
    }


def _trees(surroundings: Surroundings, item: StatisticsObject, table: Table) -> str | None:
    """The value of a pg_node_tree column: the plain and the pretty text."""
    if not item.expressions:
        return None
    return "\x1f".join(
        ", ".join(surroundings.expression(text, table, pretty) for text in item.expressions) for pretty in (False, True)
    )


@content("pg_description", "catalog", objects)
def _comments(items: list[Item], _: Surroundings) -> Columns:
    return comment_columns(derived_oids.PG_STATISTIC_EXT, (item for item, *_ in items))


@content("pg_depend", "catalog", objects)
def _dependencies(items: list[Item], _: Surroundings) -> Columns:
    found: list[Dependency] = []
    for entry in items:
        item: StatisticsObject = entry[0]
        own = (derived_oids.PG_STATISTIC_EXT, item.oid, 0)
        found.append((*own, derived_oids.PG_NAMESPACE, item.schema, 0, "n"))
        whole = () if item.columns else (0,)  # without columns of its own it also depends on the table
        for number in (*item.columns, *item.expression_columns, *whole):
            found.append((*own, derived_oids.PG_CLASS, item.table, number, "a"))
    return dependency_columns(found)


@content(internal.STATISTICS_TEXTS, "session", objects)
def _texts(items: list[Item], surroundings: Surroundings) -> Columns:
    columns = [", ".join(_parts(surroundings, item[0], item[1])) for item in items]
    expressions = [
        Array.of(tuple(surroundings.expression(text, table, False) for text in item.expressions))
        if item.expressions
        else None
        for item, table, *_ in items
    ]
    path = surroundings.path
    shown = [
        quote_identifier(item.name)
        if _is_visible(surroundings, item)
        else f"{quote_identifier(schema)}.{quote_identifier(item.name)}"
        for item, _, schema, _ in items
    ]
    definitions = []
    for (item, table, schema, place), parts in zip(items, columns, strict=True):
        words = [_WORDS[kind] for kind in item.kinds if kind in _WORDS]
        several = len(item.columns) + len(item.expressions) > 1
        kinds = f" ({', '.join(words)})" if several and len(words) < len(_WORDS) else ""
        on = quote_identifier(table.name)
        if table.schema not in path:
            on = f"{quote_identifier(place)}.{on}"
        name = f"{quote_identifier(schema)}.{quote_identifier(item.name)}"
        definitions.append(f"CREATE STATISTICS {name}{kinds} ON {parts} FROM {on}")
    return {
        "oid": [item.oid for item, *_ in items],
        "definition": definitions,
        "columns": columns,
        "expressions": expressions,
        "shown": shown,
        "visible": [_is_visible(surroundings, item) for item, *_ in items],
    }


def _parts(surroundings: Surroundings, item: StatisticsObject, table: Table) -> Iterator[str]:
    for number in item.columns:
        yield quote_identifier(table.column_by_number(number).name)
    for text in item.expressions:
        shown = surroundings.expression(text, table, True)
        yield shown if surroundings.is_call(text, table) else f"({shown})"


def _is_visible(surroundings: Surroundings, item: StatisticsObject) -> bool:
    """Whether the search path finds it: no earlier schema has statistics of its name."""
    for schema in surroundings.path:
        if schema == item.schema:
            return True
        others = surroundings.catalog.by_kind.get(StatisticsObject, ())
        if any(getattr(other, "name", "") == item.name and getattr(other, "schema", 0) == schema for other in others):
            return False
    return False
