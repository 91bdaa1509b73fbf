"""The interface of bulk work to its session (engine/session/session.py)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from catalog.catalog import Catalog
    from catalog.errors import SqlError
    from catalog.memory import Account
    from catalog.schema import Table
    from catalog.types.base import FormatSettings
    from engine.bulk.progress import CopyProgress
    from engine.changes.capture import Captured
    from engine.execute.context import ExecContext
    from engine.execute.written import Written
    from engine.sql.analyze import Environment
    from engine.storage.moments import Lsn
    from engine.storage.runs import BulkRun, BulkRunWriter
    from engine.txn.interface import LockWait
    from engine.txn.sequences import Sequences
    from engine.txn.transaction import Transaction


T = TypeVar("T")


class _Changes(Protocol):
    def captured_tables(self) -> Mapping[bytes, Captured]: ...


class _Other(Protocol):
    """Another session."""

    @property
    def transaction(self) -> Transaction | None: ...


class ColumnMaker(Protocol):
    """Makes columns from a load's rows while the load runs (engine/columnar/drafts.py)."""

    def look(self, writer: BulkRunWriter) -> None: ...
    def keep(self, writer: BulkRunWriter, run: BulkRun) -> None: ...
    def end(self) -> None: ...


class _Drafts(Protocol):
    def of_load(self, table: Table) -> ColumnMaker | None: ...


class _Columnar(Protocol):
    @property
    def drafts(self) -> _Drafts: ...


class BulkNode(Protocol):
    """The part of the node that bulk work uses."""

    clock: Callable[[], int]

    @property
    def columnar(self) -> _Columnar: ...
    @property
    def sequences(self) -> Sequences: ...
    @property
    def changes(self) -> _Changes: ...
    @property
    def sessions(self) -> Mapping[int, _Other]: ...
    def next_row_numbers(self, table: Table, count: int) -> int: ...


class _Format(Protocol):
    @property
    def format(self) -> FormatSettings: ...


class _Settings(Protocol):
    def get(self, name: str) -> str: ...


class _Sequences(Protocol):
    def note_drawn(self, oid: int, value: int) -> None: ...


class _Client(Protocol):
    @property
    def tell_now(self) -> Callable[[SqlError], None] | None: ...


class _Routines(Protocol):
    """Statements that fire triggers (engine/statements/plpgsql/within.py)."""

    async def run_patiently(self, function: Callable[[], T]) -> T: ...
    def patient(self, transaction: Transaction) -> Transaction: ...


class _Functions(Protocol):
    def blockers(self, process_id: int) -> list[int]: ...


class BulkSession(Protocol):
    """See the module's text."""

    @property
    def node(self) -> BulkNode: ...
    @property
    def process_id(self) -> int: ...
    @property
    def written(self) -> Written: ...
    @property
    def transaction(self) -> Transaction | None: ...
    @property
    def catalog(self) -> Catalog: ...
    @property
    def environment(self) -> Environment: ...
    @property
    def key(self) -> _Format: ...
    @property
    def settings(self) -> _Settings: ...
    @property
    def sequences(self) -> _Sequences: ...
    @property
    def client(self) -> _Client: ...
    @property
    def functions(self) -> _Functions: ...
    @property
    def routines(self) -> _Routines: ...
    @property
    def memory(self) -> Account: ...
    @property
    def query_memory(self) -> int: ...
    @property
    def notices(self) -> list[SqlError]: ...
    @property
    def copying(self) -> CopyProgress | None: ...

    def context(self) -> ExecContext: ...
    async def lock_table(self, transaction: Transaction, oid: int, mode: int, wait: str = "block") -> None: ...
    async def wait_for(self, wait: LockWait) -> None: ...
    async def durable(self, lsn: Lsn) -> None: ...
