"""The cached content of pg_catalog and other virtual tables, for all sessions. engine/system_views/content.py (Arrow
batches) and engine/system_views/rows.py (single rows) make it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from catalog.catalog import Catalog
from catalog.system.content import Item

TEXTS_KEPT = 65536

Row = tuple[Any, ...]
Index = dict[object, list[Row]]


class Whole:
    """All rows of a relation, with an index for each column that was searched."""

    def __init__(self, rows: list[Row]) -> None:
        self.rows = rows
        self._indexes: dict[int, Index] = {}

    def index(self, number: int) -> Index:
        """The rows by the value of a column, without rows in which it is NULL."""
        found = self._indexes.get(number)
        if found is None:
            found = self._indexes[number] = {}
            for row in self.rows:
                value = row[number - 1]
                if value is not None:
                    found.setdefault(value, []).append(row)
        return found


class RowCache:
    """Rows for the row path."""

    def __init__(self) -> None:
        self.fixed: dict[int, Whole] = {}  # id of the part
        self.items: OrderedDict[object, dict[int, tuple[Item, list[Row]]]] = OrderedDict()  # by OID
        self.wholes: OrderedDict[object, tuple[Catalog, Whole]] = OrderedDict()


class SystemCache:
    """Batches for the columnar path, printed definitions, and rows."""

    def __init__(self) -> None:
        self.fixed: dict[int, Any] = {}  # id of the part -> batch
        self.slices: OrderedDict[object, dict[int, tuple[list[Item], Any]]] = OrderedDict()
        self.wholes: OrderedDict[object, tuple[Catalog, Any]] = OrderedDict()
        self.texts: dict[object, str] = {}
        self.rows = RowCache()

    def text(self, key: object, make: Callable[[], str]) -> str:
        """A remembered text."""
        found = self.texts.get(key)
        if found is None:
            if len(self.texts) >= TEXTS_KEPT:
                self.texts.clear()
            found = self.texts[key] = make()
        return found
