"""How many rows this node has written since it started, table by table: what pg_stat_user_tables counts.

Counted where rows are written (engine/execute/writer.py), one addition a row, and by bulk work when it ends, one
addition a statement. Like PostgreSQL's, the counts take in what was rolled back; a statement that waited for a lock and
ran again counts what it wrote each time. They begin at 0 with the process, so a node counts what it has executed.
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
        self._dropped: dict[int, list[int]] = defaultdict(lambda: [0, 0, 0])  # of tables that are gone, by database

    def forget(self, oid: int, database: int) -> None:
        """The table of that database, if it is one, has been dropped; what was written to it stays in the sums."""
        dropped = self._dropped[database]
        for place, counts in enumerate((self.inserted, self.updated, self.deleted)):
            dropped[place] += counts.pop(oid, 0)

    def of_database(self, catalog: Catalog) -> list[int]:
        """Rows inserted, updated and deleted in all tables of a database, those that were dropped included."""
        tables = [table.oid for table in catalog.tables()]
        return [
            before + sum(counts.get(oid, 0) for oid in tables)
            for before, counts in zip(
                self._dropped[catalog.database], (self.inserted, self.updated, self.deleted), strict=True
            )
        ]
