"""How many rows this node has written since it started, table by table: what pg_stat_user_tables counts.

Counted where rows are written (engine/execute/writer.py), one addition a row, and by bulk work when it ends, one
addition a statement. Like PostgreSQL's, the counts take in what was rolled back; a statement that waited for a lock and
ran again counts what it wrote each time. They begin at 0 with the process, so a node counts what it has executed.
"""

from __future__ import annotations

from collections import defaultdict


class Written:
    """Rows inserted, updated and deleted, by the OID of their table."""

    __slots__ = ("deleted", "inserted", "updated")

    def __init__(self) -> None:
        self.inserted: dict[int, int] = defaultdict(int)
        self.updated: dict[int, int] = defaultdict(int)
        self.deleted: dict[int, int] = defaultdict(int)

    def forget(self, oid: int) -> None:
        """The table, if it is one, has been dropped."""
        for counts in (self.inserted, self.updated, self.deleted):
            counts.pop(oid, None)
