"""The plan of a query or of a change of rows: the row path, the columnar path, or both.

A statement with a row path plan runs on the row path. If that stops (RowPathFull), the columnar path is made (paths.py)
and runs the statement; a query for which this happens repeatedly skips the row path for a while.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, Self, TypeVar

from catalog.patience import TooLong
from engine.execute.context import ExecContext, Field, RowPathHeavy, RowPlan
from engine.session.plan import Plan, ResultColumns, RunRow
from engine.sql import tree

if TYPE_CHECKING:
    from catalog.catalog import Catalog
    from catalog.types.base import FormatSettings
    from engine.session.portal import Portal
    from engine.session.positioned import Places
    from engine.session.prepared import Prepared
    from engine.session.session import Session

T = TypeVar("T")

MOST_ELSEWHERE = 31
COMMANDS = {
    tree.Query: "SELECT",
    tree.Insert: "INSERT",
    tree.Update: "UPDATE",
    tree.Delete: "DELETE",
    tree.Merge: "MERGE",
}
RunRows = Callable[[ExecContext, Sequence[object]], tuple[list[tuple[object, ...]], int]]
FailsFirst = Callable[[ExecContext, Sequence[object]], object]


class ColumnarPath(Protocol):
    """A path other than the row path (paths.py has the kinds)."""

    def with_constants(self, parameters: Sequence[object]) -> Self:
        """The path with these values in place of its parameters, if that is better; otherwise the path itself."""

    def compute_in_worker(self) -> None:
        """From now on the worker computes the values that took long in the engine. Raises 54000 if it cannot."""

    async def begin(self, session: Session, portal: Portal, held: Mapping[Hashable, int]) -> None:
        """Runs it up to its first rows, or to its end if it returns none: sets the portal's stream and count. `held`
        are the table locks from before the statement. Raises TooLong, before it has written anything."""

    def explain(self, command: str, verbose: bool) -> list[str]:
        """The lines of EXPLAIN."""


class RowsPlan(Plan):
    """`fails_first`: see engine/execute/constants.py. `places`: for a cursor, the columns that its plan selects before
    its own. `all_locks`: all locks, if the row path plan takes those of partitions itself. `at_once`: the row path is
    used first."""

    __slots__ = (
        "_overflows",
        "_rows_run",
        "_runs",
        "all_locks",
        "analyzed",
        "at_once",
        "catalog",
        "columnar",
        "columns",
        "command",
        "elsewhere",
        "fails_first",
        "is_prompt",
        "locks",
        "places",
        "relations",
        "row",
        "settings",
        "temporary",
        "writes",
        "written",
    )  # fmt: skip

    columnar: ColumnarPath | None

    def __init__(self, analyzed: tree.Analyzed, catalog: Catalog, settings: FormatSettings, writes: bool) -> None:
        root = analyzed.statement
        self.analyzed = analyzed
        self.catalog = catalog
        self.settings = settings
        self.columns = columns_of(root)
        self.command = COMMANDS[type(root)]
        self.writes = writes
        self.relations = analyzed.relations
        self.written = analyzed.written
        self.locks: tuple[tuple[int, int], ...] = ()
        self.all_locks: tuple[tuple[int, int], ...] = ()
        self.temporary = False
        self.fails_first: FailsFirst | None = None
        self.places: tuple[Places, ...] | None = None
        self.row: RowPlan | None = None
        self.columnar = None
        self.at_once = False
        self.is_prompt = False
        self.elsewhere = 0  # executions until the row path is tried again
        self._overflows = (0, -1)  # in a row, and how many executions the row path had finished before the last
        self._runs: dict[tuple[int, ...], RunRow] = {}
        self._rows_run: RunRows | None = None

    def set_row(self, row: RowPlan | None) -> None:
        self.row = row
        self.at_once = row is not None

    @property
    def analysed_statement(self) -> tree.Statement:
        return self.analyzed.statement

    # ---- the row path -----------------------------------------------------------------------------------------------

    def row_run(self, formats: tuple[int, ...]) -> RunRow | None:
        return self.row_function(formats) if self.at_once else None

    def text_run(self, prepared: Prepared) -> RunRow | None:
        if not self.at_once:
            return None
        prepared.text_run = self.row_function(prepared.text_formats)
        return prepared.text_run

    def row_function(self, formats: tuple[int, ...]) -> RunRow:
        """The compiled row plan for these result formats, made on first use."""
        run = self._runs.get(formats)
        if run is None:
            assert self.row is not None
            run = self.row.make_encoder(formats)
            run = self._runs[formats] = run if self.fails_first is None else _behind(self.fails_first, run)
        return run

    @property
    def rows_function(self) -> RunRows:
        """The compiled row plan for a function's statement, with rows as its result."""
        run = self._rows_run
        if run is None:
            assert self.row is not None
            run = self.row.rows
            run = self._rows_run = run if self.fails_first is None else _behind(self.fails_first, run)
        return run

    # ---- statistics of the row path ---------------------------------------------------------------------------------

    def note_overflow(self, prepared: Prepared) -> None:
        """The row path has stopped, after some milliseconds of the engine's time. So the next executions of a query use
        the columnar path at once: twice as many each time, at most MOST_ELSEWHERE, if the row path has finished none
        since."""
        if not self.at_once or self.columnar is None or self.writes:
            return
        tally = prepared.tally
        finished = 0 if tally is None else tally.single + len(tally.alone) + len(tally.inside)
        times, before = self._overflows
        times = times + 1 if finished == before else 1
        self._overflows = times, finished
        self.elsewhere = min((1 << times) - 1, MOST_ELSEWHERE)
        self.at_once = False
        prepared.text_run = None

    def ran_elsewhere(self) -> None:
        """One of the executions that skip the row path has run."""
        if self.elsewhere:
            self.elsewhere -= 1
            if not self.elsewhere:
                self.at_once = True

    def follow(self, before: RowsPlan) -> None:
        """Replaces a plan of the same text and takes over its statistics."""
        self._overflows = before._overflows
        if before.elsewhere and self.columnar is not None:
            self.elsewhere, self.at_once = before.elsewhere, False


def columns_of(root: tree.Statement) -> ResultColumns | None:
    """The result columns of a statement; None if it returns no rows."""
    returned = root.output if isinstance(root, tree.Query) else root.returning
    fields = tuple(
        Field(target.name, target.expression.type, target.origin_table, target.origin_column) for target in returned
    )
    return ResultColumns(fields) if fields or isinstance(root, tree.Query) else None


def _behind(first: FailsFirst, run: Callable[[ExecContext, Sequence[object]], T]) -> Callable[..., T]:
    def both(context: ExecContext, parameters: Sequence[object]) -> T:
        try:
            first(context, parameters)
        except TooLong:
            if not context.stays:
                raise RowPathHeavy from None
        return run(context, parameters)

    return both
