"""A portal: a bound statement that runs, and the rows that it has given so far."""

from __future__ import annotations

from collections.abc import AsyncIterator, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from catalog.errors import SqlError
    from catalog.memory import Holding
    from engine.columnar.interface import ResultStream
    from engine.columnar.profile import Profile
    from engine.session.positioned import Positions
    from engine.session.prepared import Prepared


class Portal:
    """A bound statement. Once started, rows come from `pending` (framed DataRow messages, whole) and then `stream`."""

    __slots__ = (
        "bound", "chunks", "count", "done", "error", "formats", "held", "holdable", "holding", "kept", "name",
        "parameters", "path", "pending", "pending_rows", "position", "positions", "prepared", "profile", "rows",
        "scroll", "started", "stream", "took",
    )  # fmt: skip

    chunks: AsyncIterator[tuple[bytes, int]]  # set with `stream`

    def __init__(
        self, prepared: Prepared, parameters: Sequence[object], formats: tuple[int, ...], name: bytes = b""
    ) -> None:
        self.prepared = prepared
        self.parameters = parameters
        self.formats = formats
        self.name = name
        self.started = False
        self.done = False
        self.pending = b""
        self.pending_rows = 0
        self.stream: ResultStream | None = None
        self.count = 0
        self.holdable = False
        self.holding: Holding | None = None  # what its rows take
        self.bound: Holding | None = None  # what its parameters take, if that is much
        self.kept = False  # a cursor WITH HOLD whose transaction has been committed
        self.scroll = False
        self.position = 0
        self.held: Mapping[Hashable, int] | None = None  # the table locks from before the statement, once it has some
        self.error: SqlError | None = None  # what the next FETCH raises
        self.positions: Positions | None = None  # where a cursor's rows lie, if it can be changed through
        self.path = "utility"  # that it took, once it has run: utility, row, columnar
        self.took = 0.0  # seconds of execution so far
        self.profile: Profile | None = None  # takes what DuckDB does for it, for EXPLAIN
        self.rows: list[bytes] | None = None  # a materialised cursor: one DataRow message each

    def take(self, limit: int) -> tuple[bytes, int]:
        """Up to `limit` pending rows (0: all), and how many they are."""
        data, rows = self.pending, self.pending_rows
        if not limit or rows <= limit:
            self.pending, self.pending_rows = b"", 0
            return data, rows
        end = 0
        for _ in range(limit):
            end += 1 + int.from_bytes(data[end + 1 : end + 5], "big")
        self.pending, self.pending_rows = data[end:], rows - limit
        return data[:end], limit
