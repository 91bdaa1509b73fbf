"""Sessions whose `synchronous_commit` is not on: commits that are acknowledged before or after they are durable.

    off             the commit is acknowledged when it is sequenced. A crash or a fail-over may lose the last such
                    commits, but never a commit without all later ones: LSNs become durable in order
    remote_apply    the commit is acknowledged when it is durable and every live replica has applied it
    local, remote_write    as on: a commit is only in the changelog, whole or not at all

The first SET of such a value replaces the session's objects for transactions, waits and row path plans
(`become_asynchronous`). They stay; other sessions have no extra cost.

**Visibility.** Other sessions read durable state only. This session also reads all commits that any session of the node
has acknowledged early, including its own (`Node.deferred`). Single statements on the row path read sequenced state at
that LSN. Statements that may wait (the columnar path, a REPEATABLE READ snapshot, several tablespaces) wait until it is
durable. A commit of this session has a later LSN, or an empty part in the other tablespace (`observed`). So if a commit
is lost, the commits that depend on it are lost too.

**Lost commits.** If the node loses its leadership, and an early acknowledged commit may be lost, the session ends
(08006), because its client would continue from a wrong state. Clients of a dead node have lost their connection.

**Limits.** A commit waits if an early acknowledged one has not become durable for LIMIT seconds, or if the changelog is
overloaded (`pressure`). Schema changes always wait, and so does SELECT nextval().
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from catalog.errors import SqlError
from engine.session.errors import aborted_error
from engine.session.leadership import commits_lost
from engine.session.other_waits import DurabilityWait
from engine.session.plan import RunRow
from engine.session.prepared import Prepared
from engine.session.row_runner import RowRunner
from engine.session.transactions import TransactionControl
from engine.session.waits import Waits
from engine.storage.moments import SLOT_SHIFT, Lsn
from engine.storage.stores import ObservedStores
from engine.storage.tablespace import Tablespace
from engine.txn.interface import READ_COMMITTED, LockWait
from engine.txn.locks import LockSpace
from engine.txn.row_locks import RowLocks
from engine.txn.transaction import Transaction

if TYPE_CHECKING:
    from engine.session.session import Session
    from engine.txn.commit import Acknowledge, Lost

LIMIT = 0.6  # seconds; PostgreSQL's is three times wal_writer_delay, 0.2 s


class AheadTransaction(Transaction):
    """A transaction whose row path statements read sequenced state up to `ahead`, unless that is 0."""

    __slots__ = ("ahead",)

    def __init__(
        self,
        store: Tablespace | ObservedStores,
        row_space: RowLocks,
        table_space: LockSpace,
        process_id: int,
        start_time: int,
        isolation: str = READ_COMMITTED,
        read_only: bool = False,
    ) -> None:
        super().__init__(store, row_space, table_space, process_id, start_time, isolation, read_only)
        self.ahead = 0

    def begin_statement(self) -> int:
        if self.ahead and isinstance(self._store, Tablespace):
            assert isinstance(self.met, int)
            self.snapshot_lsn = max(self.ahead, self.met)
            self._base = self._store.view(self.snapshot_lsn)
            self.queried = True
            return self.mark()
        return super().begin_statement()


class AsynchronousCommits:
    """The commits that a session has seen before they were durable. `unwaited`: their positions, by slot."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.unwaited: dict[int, int] = {}
        self._lost: SqlError | None = None  # the error that ends the session
        self._since = 0.0  # loop time: there are unwaited commits since

    @property
    def waits_for_nothing(self) -> bool:
        """Whether all commits that the client knows of are durable."""
        durable = self._session.node.store.durable_lsn
        return all(position <= durable for position in self.unwaited.values())

    def may_defer(self, slot: int) -> bool:
        """Whether a commit in this tablespace may be acknowledged now."""
        store = self._session.node.store
        space = store if isinstance(store, Tablespace) else store.spaces[slot]
        if space is None or space.pressure:
            return False
        return self.waits_for_nothing or asyncio.get_running_loop().time() - self._since < LIMIT

    def know(self, position: int) -> None:
        """The session has seen a commit that is not durable, and must end if it is lost."""
        unwaited = self.unwaited
        if self.waits_for_nothing:
            self._since = asyncio.get_running_loop().time()
        slot = position >> SLOT_SHIFT
        before = unwaited.get(slot, 0)
        if position > before:
            unwaited[slot] = position
            if before <= self._session.node.store.durable_lsn:
                self._watch(slot)

    def _watch(self, slot: int) -> None:
        self._session.node.commits.wait(self.unwaited[slot], partial(self._durable, slot), self._was_lost)

    def _durable(self, slot: int) -> None:
        """The watched commit is durable; later ones may not be."""
        self._since = asyncio.get_running_loop().time()
        on_durable = self._session.client.on_durable
        if self.unwaited[slot] > self._session.node.store.durable_lsn:
            self._watch(slot)
        elif on_durable is not None and self.waits_for_nothing:
            on_durable()

    def _was_lost(self, _: SqlError) -> None:
        if self._lost is None:
            self._lost = commits_lost()
            asyncio.get_running_loop().call_soon(self._session.cancel, self._lost)

    def check(self) -> None:
        """Raises 08006 if a commit that the session has seen is lost."""
        if self._lost is not None:
            raise self._lost

    def ahead(self) -> list[int]:
        """The positions of commits that were acknowledged early and are not durable yet."""
        node = self._session.node
        durable = node.store.durable_lsn
        return [position for position in node.deferred.values() if position > durable]


class AsynchronousWaits(Waits):
    """Waits of a session whose commits are acknowledged early, or when the replicas have applied them."""

    catches_up = True

    def __init__(self, session: Session, known: AsynchronousCommits) -> None:
        super().__init__(session)
        self._known = known
        self.to_apply = 0  # position of a commit that the replicas must apply
        self._applying: asyncio.Future[bool] | None = None

    @property
    def for_nothing(self) -> bool:
        return self._known.waits_for_nothing

    async def catch_up(self) -> None:
        self._known.check()
        for position in self._known.ahead():
            await self.durable(position)

    def late(self, transaction: Transaction) -> int:
        at = super().late(transaction)
        session = self._session
        early = at and session.settings.get("synchronous_commit") == "off"
        if early and at <= session.node.deferred.get(at >> SLOT_SHIFT, 0):
            self._known.know(at)
            return 0
        return at

    # ---- replicas ---------------------------------------------------------------------------------------------------

    def await_commit(self, lsn: int, acknowledge: Acknowledge, lost: Lost) -> None:
        position, self.to_apply = self.to_apply, 0
        if position:
            super().await_commit(lsn, partial(self._durable_here, position, acknowledge), lost)
        else:
            super().await_commit(lsn, acknowledge, lost)

    def _durable_here(self, position: int, acknowledge: Acknowledge) -> None:
        self._session.node.background(self._then_applied(position, acknowledge))

    async def _then_applied(self, position: int, acknowledge: Acknowledge) -> None:
        await self._wait_applied(position)
        acknowledge()

    async def durable(self, lsn: Lsn) -> None:
        await super().durable(lsn)
        if self.to_apply and lsn == self.to_apply:
            position, self.to_apply = self.to_apply, 0
            await self._wait_applied(position)

    async def _wait_applied(self, position: int) -> None:
        """Returns when every live replica has applied the commit, or with a warning: the transaction stays
        committed."""
        wait = self._session.node.applied_elsewhere
        if wait is None:
            return
        self._applying = asyncio.ensure_future(wait(position))
        try:
            applied = await asyncio.shield(self._applying)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():  # of the statement: the commit stays
                self._session.cancel_error = None
                task.uncancel()
            self._applying.cancel()
            self._warn_of_replicas("canceling the wait for the replicas due to user request")
        else:
            if not applied:
                self._warn_of_replicas("the replicas have not answered in time")
        finally:
            self._applying = None

    def _warn_of_replicas(self, message: str) -> None:
        detail = "The transaction has already committed, but some replica may not have applied it yet."
        self._session.notices.append(SqlError("01000", message, detail=detail, severity="WARNING"))

    def cancel(self) -> bool:
        if self._applying is None or self._session.task is not None:
            return False
        self._applying.cancel()
        return True


class AsynchronousTransactions(TransactionControl):
    """Commits that are acknowledged early, or when the replicas have applied them."""

    def __init__(self, session: Session, known: AsynchronousCommits, waits: AsynchronousWaits) -> None:
        super().__init__(session)
        self._known = known
        self._waits = waits

    def new_transaction(self) -> Transaction:
        made, node = super().new_transaction(), self.session.node
        return AheadTransaction(
            made.store, node.row_locks, node.table_locks, made.process_id, made.start_time, made.isolation,
            made.read_only,
        )  # fmt: skip

    def commit(self) -> int:
        session, known = self.session, self._known
        transaction = session.transaction
        assert transaction is not None
        known.check()
        level = session.settings.get("synchronous_commit")  # SET LOCAL ends with the commit
        wrote = transaction.has_writes
        if wrote and isinstance(transaction.store, ObservedStores):
            durable = session.node.store.durable_lsn
            transaction.store.observed.update(slot for slot, at in known.unwaited.items() if at > durable)
        lsn = super().commit()
        if not wrote or transaction.changed_objects:
            return lsn
        if level == "remote_apply":
            self._waits.to_apply = lsn
        elif level == "off" and known.may_defer(lsn >> SLOT_SHIFT):
            session.node.deferred[lsn >> SLOT_SHIFT] = lsn
            known.know(lsn)
            return 0
        return lsn


class AheadRunner(RowRunner):
    """Single statements on the row path that read sequenced state, up to the last early acknowledged commit."""

    def __init__(self, session: Session, known: AsynchronousCommits) -> None:
        super().__init__(session)
        self._known = known

    def run(self, prepared: Prepared, run: RunRow, parameters: Sequence[object]) -> tuple[bytes, int, int]:
        session, known = self.session, self._known
        known.check()
        ahead = known.ahead()
        if not ahead:
            return super().run(prepared, run, parameters)
        if session.status == "E":
            raise aborted_error()
        transaction = session.transaction or session.begin_implicit()
        if transaction.isolation != READ_COMMITTED:
            if not transaction.has_snapshot:
                raise LockWait(DurabilityWait(session.node, ahead))
            return super().run(prepared, run, parameters)
        if not (isinstance(transaction, AheadTransaction) and isinstance(transaction.store, Tablespace)):
            raise LockWait(DurabilityWait(session.node, ahead))
        transaction.ahead = ahead[0]
        try:
            found = super().run(prepared, run, parameters)
        finally:
            transaction.ahead = 0
        known.know(ahead[0])
        return found

    def run_within(self, prepared: Prepared, run: RunRow, parameters: Sequence[object]) -> tuple[Any, int]:
        return self.run(prepared, run, parameters)[:2]


def become_asynchronous(session: Session) -> None:
    """Gives the session its objects for such values of `synchronous_commit`, if it does not have them yet."""
    if not isinstance(session.waits, AsynchronousWaits):
        known = AsynchronousCommits(session)
        session.waits = waits = AsynchronousWaits(session, known)
        session.transactions = AsynchronousTransactions(session, known, waits)
        session.plain_rows = AheadRunner(session, known)
