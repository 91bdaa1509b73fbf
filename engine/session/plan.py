"""The plan of a prepared statement as the session and the wire see it. engine/statements has the kinds.

A plan is made once, and shared by all sessions that have the same `Prepared`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from catalog.errors import SqlError
from engine.execute.context import ExecContext, Field, RowPlan

if TYPE_CHECKING:
    from engine.session.answer import Sink
    from engine.session.portal import Portal
    from engine.session.prepared import Prepared
    from engine.session.session import Session
    from engine.sql.tree import Statement

RunRow = Callable[[ExecContext, Sequence[object]], tuple[bytes, int]]


class Answer(NamedTuple):
    """The complete answer of a statement: framed rows, its command, the number of rows (-1: the tag has no count), and
    the LSN that must be durable before the answer is sent (0: none)."""

    data: bytes
    command: str
    rows: int
    lsn: int


class ResultColumns:
    """The columns of a statement's rows. The protocol layer caches encoded descriptions (RowDescription) in
    `descriptions`."""

    __slots__ = ("descriptions", "fields", "text_formats")

    def __init__(self, fields: tuple[Field, ...]) -> None:
        self.fields = fields
        self.text_formats = (0,) * len(fields)
        self.descriptions: dict[tuple[int, ...], bytes] = {}

    def formats(self, requested: tuple[int, ...]) -> tuple[int, ...]:
        """One format code per column from those of Bind: none, one for all, or one each. Raises 08P01."""
        count = len(self.fields)
        if len(requested) == count and count != 1:
            return requested
        if not requested:
            return (0,) * count
        if len(requested) == 1:
            return requested * count
        raise SqlError("08P01", f"bind message has {len(requested)} result formats but query has {count} columns")


NO_COLUMNS = ResultColumns(())


class Plan:
    """A kind of plan overrides these defaults. `columns` are None for a statement that returns no rows; `locks` are the
    table locks that it needs, as (relation OID, mode of engine/txn/locks.py); `relations` are OIDs."""

    __slots__ = ()

    columns: ResultColumns | None = None
    command: str = ""  # of the tag; '' for statements that are neither queries nor changes
    locks: tuple[tuple[int, int], ...] = ()
    relations: tuple[int, ...] = ()
    row: RowPlan | None = None  # for the row path
    writes: bool = False  # it changes rows, or locks them
    temporary: bool = False  # it writes temporary tables only, as a read-only transaction may
    at_once: bool = False  # it can run now and waits only for locks: by `row_run`, or else by `answer`
    is_counted: bool = True  # by itself, in pg_stat_statements
    is_cacheable: bool = True  # it depends on nothing but its text and the plan's key
    is_prompt: bool = False  # it seldom waits, though it may: its first step runs at once, without a task
    is_planned_late: bool = False  # at execution; a change of the schema does not make it stale

    @property
    def analysed_statement(self) -> Statement | None:
        """The statement, if it was analysed."""
        return None

    def row_run(self, formats: tuple[int, ...]) -> RunRow | None:
        """The function that runs the plan on the row path, with results in these formats; None if another path runs it
        now."""
        return None

    def text_run(self, prepared: Prepared) -> RunRow | None:
        """The function that runs the plan with results in text, which `prepared` then keeps; None if there is none."""
        return None

    def answer(
        self, session: Session, prepared: Prepared, parameters: Sequence[object], formats: tuple[int, ...]
    ) -> Answer | None:
        """Runs the plan at once. None: it needs more, and nothing has happened. Raises SqlError (the caller calls
        `fail`) and LockWait."""
        return None

    async def run(self, session: Session, portal: Portal, limit: int, sink: Sink) -> None:
        """Runs or resumes the portal: rows, then complete or suspended."""
        raise NotImplementedError


class UnplannedStatement(Plan):
    """A statement that was prepared on another node: its first use plans it."""

    __slots__ = ()
