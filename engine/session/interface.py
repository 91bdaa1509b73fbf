"""The interfaces between a session, its parts, and the packages above it.

A part knows `SessionCore` and no other parts. engine/connect.py connects the packages.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

from engine.execute.triggers import Firing

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from catalog.catalog import Catalog
    from catalog.errors import SqlError
    from catalog.event_triggers import EventTrigger
    from catalog.memory import Account
    from catalog.schema import Role, VirtualTable
    from catalog.types.base import TypeRef
    from engine.columnar.interface import VirtualContent
    from engine.execute.context import RoutineCall
    from engine.execute.triggers import RunningStatement
    from engine.node.node import Node
    from engine.node.plan_cache import PlanKey
    from engine.session.settings import Settings
    from engine.sql.analyze import Environment
    from engine.storage.moments import Lsn
    from engine.txn.interface import LockWait
    from engine.txn.serializable import Safety
    from engine.txn.transaction import Transaction


S = TypeVar("S")
T = TypeVar("T")


class Shown(Protocol):
    """Settings, and the modes of the transaction."""

    def get(self, name: str) -> str:
        """The value for SHOW. Raises 42704."""


class SessionCore(Protocol):
    """The common state of a session. `present` is the node, also while the session reads a node of the past; `status`
    is that of ReadyForQuery: I T E."""

    node: Node
    present: Node
    transaction: Transaction | None
    in_block: bool
    status: str
    temporary_schema: int | None
    settings: Settings
    notices: list[SqlError]
    waited: float
    last_commit: int  # LSN
    task: asyncio.Task[None] | None
    cancel_error: SqlError | None
    safety: Safety | None

    @property
    def has_block(self) -> bool:
        """Whether the transaction goes on after the running statement."""

    @property
    def process_id(self) -> int: ...
    @property
    def user(self) -> Role | None: ...
    @property
    def shown(self) -> object:
        """The current or last statement: a `Prepared` or its text."""

    @property
    def variables(self) -> Shown: ...
    @property
    def role(self) -> Role: ...
    @property
    def user_name(self) -> str: ...
    @property
    def session_user_name(self) -> str: ...
    @property
    def database_oid(self) -> int: ...
    @property
    def memory(self) -> Account: ...
    @property
    def key(self) -> PlanKey: ...
    @property
    def catalog(self) -> Catalog: ...
    @property
    def catalog_today(self) -> Catalog | None: ...
    @property
    def environment(self) -> Environment: ...
    @property
    def default_read_only(self) -> bool: ...
    @property
    def lock_timeout(self) -> int: ...
    @property
    def statement_timeout(self) -> int: ...

    def settings_changed(self) -> None: ...
    def begin_implicit(self) -> Transaction: ...
    def check_leads(self) -> None: ...
    async def wait_for(self, wait: LockWait) -> None: ...
    async def durable(self, lsn: Lsn) -> None: ...
    def cancel(self, error: SqlError | None = None) -> None: ...
    def warn(self, sqlstate: str, message: str, severity: str = "WARNING", hint: str | None = None) -> None: ...


class SystemViews(Protocol):
    """The system as the session sees it: engine/system_views/views.py."""

    @property
    def surroundings(self) -> object:
        """Names, definitions and privileges as the session sees them now, for functions."""

    def content(self) -> VirtualContent:
        """A provider of the content of virtual tables for the columnar client."""

    def rows(self, relation: VirtualTable) -> object:
        """The rows of a virtual table, for one execution on the row path."""


class TemporaryTables(Protocol):
    """The temporary tables of a session: engine/statements/temporary.py."""

    def on_commit(self, transaction: Transaction) -> None:
        """Applies ON COMMIT, before the session's transaction is sequenced."""

    async def drop(self) -> None:
        """Drops the session's temporary schema with its contents, in a transaction of its own."""


class TriggerServices(Firing, Protocol):
    """Calls of trigger functions: engine/statements/plpgsql/trigger_calls.py."""

    depth: int

    def during(self, running: RunningStatement) -> AbstractContextManager[None]:
        """The statement runs within."""

    def end_rows(self) -> None:
        """Fires the AFTER triggers of the statement that runs, unless they have fired."""


class Routines(Protocol):
    """Functions of users within other statements: engine/statements/plpgsql/within.py."""

    @property
    def triggers(self) -> TriggerServices: ...

    async def run_patiently(self, function: Callable[[], T]) -> T:
        """Runs a function, in which triggers may fire and wait."""

    async def fire_deferred(self, everything: bool) -> None:
        """Fires the transaction's deferred triggers: all, or those that are no longer deferred."""

    async def fire_event(self, trigger: EventTrigger, tag: str) -> None:
        """Runs the function of an event trigger, for a command with this tag."""

    def patient(self, transaction: Transaction) -> Transaction:
        """The transaction as it waits at once in such a function."""

    def call(self, call: RoutineCall, arguments: Sequence[object]) -> object:
        """The value of a call, in internal form. Raises 0A000 where the statement cannot wait."""

    def let_others_run(self) -> None:
        """In a statement that may wait: other sessions run, if this one has run for a while."""

    def rows(
        self, call: RoutineCall, arguments: Sequence[object], columns: Sequence[TypeRef]
    ) -> Sequence[tuple[object, ...]]:
        """The rows of a call, with columns of these types. Raises 0A000, and 42804 if it gives others."""


class SessionParts(NamedTuple, Generic[S]):
    """Makes the parts of a session that lie above it."""

    views: Callable[[S], SystemViews]
    temporary: Callable[[S], TemporaryTables]
    routines: Callable[[S], Routines]
