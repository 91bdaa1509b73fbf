"""A portal: a bound statement that runs, and the rows that it has returned so far."""

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
    from engine.txn.statement_view import StatementView


class Portal:
    """A bound statement. After the start, rows come from `pending` (complete framed DataRow messages) and then from
    `stream`."""

    __slots__ = (
        "bound", "chunks", "count", "done", "error", "formats", "held", "holdable", "holding", "kept", "later",
        "may_commit", "name", "parameters", "path", "pending", "pending_rows", "position", "positions", "prepared",
        "profile", "rows", "scroll", "started", "stream", "took", "view",
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
        self.holding: Holding | None = None  # memory of its rows
        self.bound: Holding | None = None  # memory of its parameters, if that is much
        self.may_commit = False  # a CALL or DO in a procedure that may end the transaction
        self.view: StatementView | None = None  # what it reads, if a function runs it that is not VOLATILE
        self.kept = False  # a cursor WITH HOLD whose transaction has been committed
        self.scroll = False
        self.position = 0
        self.held: Mapping[Hashable, int] | None = None  # the table locks before the statement, once it has taken some
        self.later: Portal | None = None  # a cursor's query that runs at the first FETCH
        self.error: SqlError | None = None  # the error of the next FETCH
        self.positions: Positions | None = None  # the places of a cursor's rows, for WHERE CURRENT OF
        self.path = "utility"  # path of its execution: utility, row, columnar
        self.took = 0.0  # seconds of execution so far
        self.profile: Profile | None = None  # receives DuckDB's profile, for EXPLAIN
        self.rows: list[bytes] | None = None  # a materialised cursor: one DataRow message each

    def take(self, limit: int) -> tuple[bytes, int]:
        """Takes up to `limit` pending rows (0: all), with their number."""
        data, rows = self.pending, self.pending_rows
        if not limit or rows <= limit:
            self.pending, self.pending_rows = b"", 0
            return data, rows
        end = 0
        for _ in range(limit):
            end += 1 + int.from_bytes(data[end + 1 : end + 5], "big")
        self.pending, self.pending_rows = data[end:], rows - limit
        return data[:end], limit
