"""What a running statement carries with it, and what compiled plans look like."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from itertools import chain
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol

from catalog.catalog import Catalog
from catalog.errors import SqlError
from catalog.functions.base import CallContext
from catalog.memory import HEAVY, LARGE, UNLIMITED, Account, Meter, at_most, meter, too_much
from catalog.patience import TooLong
from catalog.records import dataclass
from catalog.schema import Table, VirtualTable
from catalog.types.base import Array, FormatSettings, TypeRef
from engine.execute.written import Written
from engine.storage.interface import Reader
from engine.txn.interface import Transaction

if TYPE_CHECKING:
    from engine.execute.writer import Checks


class SessionServices(Protocol):
    """What functions may ask of their session (CallContext.session). engine/session/functions.py implements it."""

    user_name: str
    session_user_name: str
    database_name: str
    process_id: int
    search_path: tuple[str, ...]  # schema names, pg_catalog not included unless named

    @property
    def catalog(self) -> Catalog: ...
    def setting(self, name: str) -> str: ...
    def set_setting(self, name: str, value: str, local: bool) -> None: ...
    def next_value(self, sequence: int) -> int: ...
    def current_value(self, sequence: int) -> int: ...
    def last_value(self) -> int: ...
    def set_value(self, sequence: int, value: int, is_called: bool) -> None: ...
    def current_row(self, cursor: str, table: Table) -> bytes: ...  # engine/session/positioned.py
    def virtual_rows(self, relation: VirtualTable) -> object: ...  # engine/system_views/rows.py: VirtualRows
    def type_named(self, text: str) -> TypeRef: ...


@dataclass(slots=True)
class ExecContext:
    """One execution of one statement.

    `reader` is where a SELECT reads; `transaction` is None for an autocommit SELECT (reader is then a plain snapshot).
    """

    reader: Reader
    transaction: Transaction | None
    call: CallContext
    catalog: Catalog
    format: FormatSettings
    next_row_number: Callable[[Table], int] | None = None  # the hidden row number of a new row; the engine supplies it
    checks: Checks | None = None  # of a statement that is one of several parts: they run when all have written
    results: Mapping[int, Sequence[Sequence[object]]] | None = None  # what other parts have returned, by its OID
    written: Written = field(default_factory=Written)  # where rows are counted; the engine supplies its own
    memory_limit: int = UNLIMITED  # bytes that the statement may hold (catalog/memory.py)
    account: Account | None = None  # of the connection, which may have less left
    timeout: float = 0.0  # seconds that the statement may take; 0: no limit
    stays: bool = False  # no other path can run it, however much it holds


@contextmanager
def small_values(context: ExecContext) -> Iterator[None]:
    """What is computed meanwhile may make no large values, over which one step of C takes long: it raises TooLong, and
    53200 where one value alone is more than the statement may hold anywhere in this process."""
    limit, context.memory_limit = context.memory_limit, min(context.memory_limit, HEAVY)
    with at_most(context.memory_limit) as begun:
        try:
            yield
        except SqlError as error:
            if error.sqlstate == "53200" and limit > HEAVY:
                raise (TooLong() if begun.needed <= limit else too_much(limit)) from None
            raise
        finally:
            context.memory_limit = limit


_MANY = 100_000  # elements


def begin_meter(
    context: ExecContext, parameters: Sequence[object] = (), may_leave: bool = False, calls: int = 0
) -> Meter:
    """The meter of the statement that begins (catalog/memory.py). `may_leave`: it only reads, so the columnar path may
    be the better place for what is large. `calls`: Code.calls."""
    away = None if context.stays else RowPathHeavy
    begun = meter().begin(context.memory_limit, context.account, away if may_leave else None, away, calls)
    if context.timeout:
        begun.deadline = perf_counter() + context.timeout
    for value in parameters:
        if (value.__class__ is str or value.__class__ is bytes) and len(value) > LARGE:
            begun.note_size(len(value))  # it may be in every row
        elif isinstance(value, Array) and len(value[0]) > _MANY:
            begun.away = None  # as a constant of DuckDB's it would take more than its worth
    return begun


@dataclass(frozen=True, slots=True)
class Field:
    """One column of RowDescription (PostgreSQL 16 manual, 55.7)."""

    name: str
    type: TypeRef
    table: int = 0
    column: int = 0


class RowPathFull(Exception):  # noqa: N818
    """A row plan met more rows than the row path is for: the statement is to run on the columnar path instead."""


class RowPathHeavy(RowPathFull):
    """The same of rows that are too large together: where no other path takes the statement, this one may go on."""


class NotTogether(RowPathFull):
    """Rows cannot be written together, since one is in the way of another or of what is there: one by one, it will be
    seen what that means."""


class Together:
    """An INSERT of `rows` rows, compiled for many executions at once: `run` takes the `parameters` of every row of them
    all, and gives how many there are. It has no effect where one of them fails or would have to wait: it raises what
    `make_encoder` does, or NotTogether."""

    __slots__ = ("parameters", "rows", "run")

    def __init__(
        self, rows: int, parameters: int, run: Callable[[ExecContext, Sequence[Any]], tuple[bytes, int]]
    ) -> None:
        self.rows = rows
        self.parameters = parameters
        self.run = run

    def executions(self, rows: Sequence[Sequence[object]]) -> Sequence[Sequence[object]]:
        """The parameters of each execution, of those of the rows."""
        if self.rows == 1:
            return rows
        return [list(chain.from_iterable(rows[first : first + self.rows])) for first in range(0, len(rows), self.rows)]


class RowPlan(Protocol):
    """A statement compiled for the row path. `parameter_types` are OIDs; parameters come in internal form."""

    fields: tuple[Field, ...]  # () when no rows are returned
    parameter_types: tuple[int, ...]
    command: str  # SELECT | INSERT | UPDATE | DELETE
    writes: bool
    relations: tuple[int, ...]
    repeats: bool  # it writes, returns no rows, and a loop may run it for one row after the other
    finds_rows: bool  # which rows it locks depends on more of the snapshot than whether they are there
    values: int  # so many rows of an INSERT ... VALUES are written by an execution; 1 for anything else

    @property
    def together(self) -> Together | None:
        """The same for many executions, where that is possible."""

    def explain(self) -> list[str]:
        """The plan as EXPLAIN (COSTS OFF) prints it, a line each."""

    def rows(self, context: ExecContext, parameters: Sequence[object]) -> tuple[list[tuple[object, ...]], int]:
        """Runs it: the result rows in internal form (empty without RETURNING), and the number of rows of the command
        tag. Raises LockWait, RowPathFull (reads only, before anything was written), SqlError."""

    def make_encoder(self, formats: tuple[int, ...]) -> Callable[[ExecContext, Sequence[object]], tuple[bytes, int]]:
        """A function that runs it and gives DataRow messages; made once per formats (0 text, 1 binary; one per field)
        and cached in the plan. This is the cached statement path: it does nothing that could be done here."""
