"""The rows that this node has written since it started, by table, for pg_stat_user_tables.

Counted when rows are written (engine/execute/writer.py), one addition a row, and by bulk work at its end, one addition
a statement. A session with `track_counts = off` counts into one that nobody reads.
As in PostgreSQL, the counts include rolled back rows; a statement that waited for a lock and ran again
counts its rows each time. They begin at 0 with the process, so a node counts the statements that it has executed.
"""

from __future__ import annotations

from collections import defaultdict

from catalog.catalog import Catalog


class Written:
    """Rows inserted, updated and deleted, by the OID of their table."""

    __slots__ = ("_dropped", "deleted", "inserted", "updated")

    def __init__(self) -> None:
        self.inserted: dict[int, int] = defaultdict(int)
        self.updated: dict[int, int] = defaultdict(int)
        self.deleted: dict[int, int] = defaultdict(int)
        self._dropped: dict[int, list[int]] = defaultdict(lambda: [0, 0, 0])  # of dropped tables, by database

    def forget(self, oid: int, database: int) -> None:
        """A relation of that database was dropped; its rows stay in the sums."""
        dropped = self._dropped[database]
        for place, counts in enumerate((self.inserted, self.updated, self.deleted)):
            dropped[place] += counts.pop(oid, 0)

    def reset(self, catalog: Catalog, oid: int = 0) -> None:
        """The counts of a table, or of all tables of a database, begin again at 0."""
        for counts in (self.inserted, self.updated, self.deleted):
            for table in [oid] if oid else [table.oid for table in catalog.tables()]:
                counts.pop(table, None)
        if not oid:
            self._dropped.pop(catalog.database, None)

    def of_database(self, catalog: Catalog) -> list[int]:
        """Rows inserted, updated and deleted in all tables of a database, including dropped ones."""
        tables = [table.oid for table in catalog.tables()]
        return [
            before + sum(counts.get(oid, 0) for oid in tables)
            for before, counts in zip(
                self._dropped[catalog.database], (self.inserted, self.updated, self.deleted), strict=True
            )
        ]
