"""The checker: applies what a stream says to tables of its own, and finds what does not fit.

changes in the order of (lsn, ordinal), none twice, LSNs going up; before = what the tables have under the key, after
= what they will have; in the end they are what SELECT shows
"""

from __future__ import annotations

from typing import Any

Row = dict[str, Any]
READ = """
    SELECT lsn, ordinal, op, "table", key, before, after FROM shoal_changes(%s, after => %s, limit => %s)
"""


class Broken(AssertionError):  # noqa: N818 - what has been found
    """The stream does not say what has happened."""


class Replay:
    """Tables by name, rows by the text of their keys. `lsn`: how far it has read."""

    def __init__(self, stream: str, lsn: int = 0) -> None:
        self.stream = stream
        self.lsn = lsn
        self.tables: dict[str, dict[str, Row]] = {}
        self.count = 0
        self._last = (lsn, 0)

    def read(self, connection: Any, limit: int = 1000) -> int:
        """Reads once; how many changes there were."""
        rows = connection.execute(READ, (self.stream, self.lsn, limit)).fetchall()
        for row in rows:
            self.apply(*row)
        return len(rows)

    def read_all(self, connection: Any, limit: int = 1000) -> None:
        while self.read(connection, limit):
            pass

    def apply(self, lsn: int, ordinal: int, op: str, table: str, key: Row | None, before: Any, after: Any) -> None:
        """One change. Raises Broken."""
        expected = (lsn, self._last[1] + 1) if lsn == self._last[0] else (lsn, 1)
        if lsn < self._last[0] or ordinal != expected[1] or (lsn == self.lsn and lsn != self._last[0]):
            raise Broken(f"{(lsn, ordinal)} comes after {self._last}")
        self._last = (lsn, ordinal)
        self.lsn = lsn
        self.count += 1
        rows = self.tables.setdefault(table, {})
        if op == "t":
            rows.clear()
            return
        place = str(key)
        if rows.get(place) != before:
            raise Broken(f"{table} {place} at {lsn}: before is {before}, and was {rows.get(place)}")
        if (op == "c") != (before is None) or (op == "d") != (after is None):
            raise Broken(f"{op} with {before} and {after}")
        if after is None:
            del rows[place]
        else:
            rows[place] = after

    def compare(self, connection: Any, table: str, key: str) -> None:
        """With what the table holds. Raises Broken."""
        found = connection.execute(f"SELECT jsonb_build_object('{key}', {key}), to_jsonb(t) FROM {table} t".encode())
        shown = {str(place): row for place, row in found.fetchall()}
        own = self.tables.get(table, {})
        if shown != own:
            missing, more = shown.keys() - own.keys(), own.keys() - shown.keys()
            raise Broken(f"{table}: {len(missing)} rows missing, {len(more)} too many, e.g. {[*missing, *more][:3]}")
