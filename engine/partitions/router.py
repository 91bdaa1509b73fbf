"""Routes a row to its partition: maps the columns of the two tables, computes the key, finds the partition."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from catalog.catalog import Catalog
from catalog.errors import SqlError
from catalog.schema import Index, IndexColumn, Table
from catalog.types import lookup
from engine.execute.index_expressions import value_getter
from engine.execute.shown import shown_key
from engine.partitions.levels import level_of

Row = Sequence[object]
Reorder = Callable[[Row], Row]


def reorder(source: Table, target: Table) -> Reorder | None:
    """Makes a function that converts rows of one table to rows of another with columns of the same names. None if they
    are identical."""
    places = {column.name: place for place, column in enumerate(source.columns)}
    order = [places[column.name] for column in target.columns]
    if order == list(range(len(source.columns))):
        return None
    return lambda row: tuple([row[place] for place in order])


def column_numbers(source: Table, target: Table) -> dict[int, int]:
    """Maps the attnums of one table to those of the columns with the same names in another."""
    names = {column.name: column.number for column in target.columns}
    return {column.number: names[column.name] for column in source.columns if column.name in names}


class Router:
    """Routes rows from one partitioned table down to partitions."""

    def __init__(self, catalog: Catalog, table: Table) -> None:
        assert table.partitioning is not None
        self._catalog = catalog
        self.table = table
        self._level = level_of(catalog, table)
        self.key = key_getter(catalog, table)
        self._below: dict[int, tuple[Reorder | None, Router]] = {}

    def leaf(self, row: Row) -> Table:
        """The partition of a row. Raises 23514."""
        key = self.key(row)
        found = self._level.find(key)
        if found is None:
            raise self._none_found(key)
        if found.partitioning is None:
            return found
        router, row = self._under(found, row)
        return router.leaf(row)

    def find(self, row: Row) -> Table | None:
        """The partition of a row, or None."""
        found = self._level.find(self.key(row))
        if found is None or found.partitioning is None:
            return found
        router, row = self._under(found, row)
        return router.find(row)

    def _under(self, table: Table, row: Row) -> tuple[Router, Row]:
        """The router of a partition that is partitioned itself, and the row in this partition's form."""
        below = self._below.get(table.oid)
        if below is None:
            below = self._below[table.oid] = reorder(self.table, table), Router(self._catalog, table)
        change, router = below
        return router, row if change is None else change(row)

    def _none_found(self, key: Sequence[object]) -> SqlError:
        table = self.table
        assert table.partitioning is not None
        numbers = [column.number for column in table.partitioning.columns]
        return SqlError(
            "23514",
            f'no partition of relation "{table.name}" found for row',
            detail=shown_key(table, numbers, f"Partition key of the failing row contains {key_shown(table, key)}."),
            schema=self._catalog.schema_name(table.schema),
            table=table.name,
        )


def key_getter(catalog: Catalog, table: Table) -> Callable[[Row], tuple[object, ...]]:
    """Makes a function that computes the partition key of a row."""
    assert table.partitioning is not None
    columns = tuple(IndexColumn(item.number, item.expression, type=item.type) for item in table.partitioning.columns)
    return value_getter(catalog, table, Index(0, table.schema, "", table.oid, columns, 0))


def key_shown(table: Table, key: Sequence[object]) -> str:
    """A key as messages show it: '(a, b) = (1, x)'."""
    assert table.partitioning is not None
    names, texts = [], []
    for column, value in zip(table.partitioning.columns, key, strict=True):
        names.append(table.column_by_number(column.number).name if column.number else f"{column.expression}")
        texts.append("null" if value is None else lookup(column.type.oid).text_encoder()(value).decode())
    return f"({', '.join(names)}) = ({', '.join(texts)})"


def key_column_numbers(catalog: Catalog, table: Table) -> frozenset[int] | None:
    """The columns (attnums) of a partition that decide the partition of its rows, in all tables above it. None if a key
    has an expression, which may use any column."""
    names: set[str] = set()
    for above in catalog.partitioned_above(table):
        assert above.partitioning is not None
        for item in above.partitioning.columns:
            if not item.number:
                return None
            names.add(above.column_by_number(item.number).name)
    return frozenset(column.number for column in table.columns if column.name in names)
