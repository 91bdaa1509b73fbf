"""The context of a running statement, and the interface of compiled plans."""

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


@dataclass(frozen=True, slots=True)
class RoutineCall:
    """A call of a user-defined function that was not replaced by its body. `types`: of the arguments; `result`: of the
    result, both as they are in the call. `checked`: that it may be called is known."""

    oid: int
    types: tuple[int, ...]
    result: TypeRef
    checked: bool = False


class SessionServices(Protocol):
    """The session's services for functions (CallContext.session). engine/session/functions.py implements it."""

    user_name: str
    session_user_name: str
    database_name: str
    process_id: int
    search_path: tuple[str, ...]  # schema names, without pg_catalog unless it is named

    @property
    def catalog(self) -> Catalog: ...
    def setting(self, name: str) -> str: ...
    def set_setting(self, name: str, value: str, local: bool) -> None: ...
    def next_value(self, sequence: int) -> int: ...
    def current_value(self, sequence: int) -> int: ...
    def last_value(self) -> int: ...
    def set_value(self, sequence: int, value: int, is_called: bool) -> None: ...
    def current_row(self, cursor: str | None, table: Table) -> bytes: ...  # engine/session/positioned.py
    def virtual_rows(self, relation: VirtualTable) -> object: ...  # engine/system_views/rows.py: VirtualRows
    def type_named(self, text: str) -> TypeRef: ...
    def call_routine(self, call: RoutineCall, arguments: Sequence[object]) -> object: ...
    def let_others_run(self) -> None: ...  # a long loop calls it from time to time
    def routine_rows(
        self, call: RoutineCall, arguments: Sequence[object], columns: Sequence[TypeRef]
    ) -> Sequence[tuple[object, ...]]: ...


@dataclass(slots=True)
class ExecContext:
    """One execution of one statement.

    `reader` is the source of a SELECT; `transaction` is None for an autocommit SELECT (reader is then a plain
    snapshot).
    """

    reader: Reader
    transaction: Transaction | None
    call: CallContext
    catalog: Catalog
    format: FormatSettings
    next_row_number: Callable[[Table], int] | None = None  # the hidden row number of a new row; from the engine
    checks: Checks | None = None  # of a statement with several parts: they run when all parts have written
    results: Mapping[int, Sequence[Sequence[object]]] | None = None  # results of other parts, by their OID
    written: Written = field(default_factory=Written)  # counter of written rows; the engine has its own
    memory_limit: int = UNLIMITED  # bytes that the statement may hold (catalog/memory.py)
    account: Account | None = None  # of the connection, which may have less left
    timeout: float = 0.0  # seconds that the statement may take; 0: no limit
    stays: bool = False  # no other path can run it, for any amount of memory


@contextmanager
def small_values(context: ExecContext) -> Iterator[None]:
    """Computations in this block may make no large values, for which one step of C takes long: they raise TooLong, and
    53200 if one value alone exceeds the statement's limit in this process."""
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
    """The memory account of the new statement (catalog/memory.py). `may_leave`: it only reads, so the columnar path may
    be better for large data. `calls`: Code.calls."""
    away = None if context.stays else RowPathHeavy
    begun = meter().begin(context.memory_limit, context.account, away if may_leave else None, away, calls)
    if context.timeout:
        begun.deadline = perf_counter() + context.timeout
    for value in parameters:
        if (value.__class__ is str or value.__class__ is bytes) and len(value) > LARGE:
            begun.note_size(len(value))  # it may be in every row
        elif isinstance(value, Array) and len(value[0]) > _MANY:
            begun.away = None  # as a DuckDB constant it would cost more than it saves
    return begun


@dataclass(frozen=True, slots=True)
class Field:
    """One column of RowDescription (PostgreSQL 16 manual, 55.7)."""

    name: str
    type: TypeRef
    table: int = 0
    column: int = 0


class RowPathFull(Exception):  # noqa: N818
    """A row path plan has visited too many rows: the statement must run on the columnar path."""


class RowPathHeavy(RowPathFull):
    """A row path plan has visited rows that are too large together: if no other path can run the statement, it may
    continue."""


class NotTogether(RowPathFull):
    """Rows cannot be written together, because one conflicts with another or with an existing row: they are written one
    by one."""


class Together:
    """An INSERT of `rows` rows, compiled for many executions at once: `run` takes the `parameters` of all their rows,
    and returns their number. It has no effect if one of them fails or would have to wait: it raises the errors of
    `make_encoder`, or NotTogether."""

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
    """A statement compiled for the row path. `parameter_types` are OIDs; parameters have internal form."""

    fields: tuple[Field, ...]  # () when no rows are returned
    parameter_types: tuple[int, ...]
    command: str  # SELECT | INSERT | UPDATE | DELETE
    writes: bool
    relations: tuple[int, ...]
    repeats: bool  # it writes, returns no rows, and a loop may run it for many rows
    finds_rows: bool  # the rows that it locks depend on the snapshot beyond their existence
    values: int  # number of rows that an execution of INSERT ... VALUES writes; 1 for others

    @property
    def together(self) -> Together | None:
        """The plan of many executions at once, if there is one."""

    def explain(self) -> list[str]:
        """The plan as EXPLAIN (COSTS OFF) prints it, a line each."""

    def rows(self, context: ExecContext, parameters: Sequence[object]) -> tuple[list[tuple[object, ...]], int]:
        """Runs it: the result rows in internal form (empty without RETURNING), and the number of rows for the command
        tag. Raises LockWait, RowPathFull (only for reads, before anything was written), SqlError."""

    def make_encoder(self, formats: tuple[int, ...]) -> Callable[[ExecContext, Sequence[object]], tuple[bytes, int]]:
        """A function that runs it and returns DataRow messages; made once per formats (0 text, 1 binary; one per field)
        and cached in the plan. This is the cached statement path: it computes nothing that could be computed here."""
