"""A session's transaction: its beginning and end, savepoints, and what it waits for.

Status as ReadyForQuery shows it: I idle, T in a block, E in a failed block. A statement outside a block runs in an
implicit transaction that `finish` commits: after each simple Query, or at Sync (PostgreSQL 16 manual, 55.2.2.1, 55.2.3:
statements of a pipeline up to Sync, or of one Query string, are one transaction).

An error in a block rolls everything back at once and keeps only the status E, unless savepoints are set: then what came
before the last one is kept, with its locks, for ROLLBACK TO.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Mapping
from contextlib import suppress
from functools import partial, wraps
from time import perf_counter
from typing import Concatenate, ParamSpec, TypeVar

from catalog.errors import SqlError, forget_frames
from catalog.schema import Table
from engine.columnar.ahead import announce
from engine.execute.shown import ShownKey, ShownRow
from engine.node.node import resolve
from engine.session import safe_snapshots, two_phase
from engine.session.advisory import AdvisoryLocks
from engine.session.errors import aborted, canceled, transaction_error
from engine.session.large_objects import LargeObjects
from engine.session.open_sessions import open_sessions
from engine.session.portal import Portal
from engine.session.prepared import Prepared
from engine.session.server_settings import examined, server_settings
from engine.session.settings import DEFINITIONS, IDENTITIES, OF_TRANSACTION, SERVER_DEFINITIONS
from engine.session.state import SessionState
from engine.sql import ast
from engine.sql.analyze import analyze
from engine.sql.parser import parse
from engine.sql.privileges import given_columns
from engine.storage.moments import Lsn
from engine.txn.commit import Acknowledge, Lost
from engine.txn.interface import READ_COMMITTED, SERIALIZABLE, LockWait
from engine.txn.joint import wait_for
from engine.txn.locks import ACCESS_EXCLUSIVE, ROW_EXCLUSIVE, Ticket
from engine.txn.serializable import Safety
from engine.txn.transaction import Savepoint, Transaction

P = ParamSpec("P")
S = TypeVar("S", bound=SessionState)


def complete(undo: Callable[Concatenate[S, P], None]) -> Callable[Concatenate[S, P], None]:
    """A method that undoes: it does so to the end, or the node stops. Half of it would leave locks that nobody holds,
    or rows that nobody has written."""

    @wraps(undo)
    def run(session: S, /, *args: P.args, **kwargs: P.kwargs) -> None:
        try:
            undo(session, *args, **kwargs)
        except BaseException as error:
            session.node.store.of(0).fail(error)
            raise

    return run


class TransactionalSession(SessionState):
    asked_isolation: tuple[Transaction | None, str] = (None, "")  # what the last one that said so has said
    failed_portals: frozenset[bytes] = frozenset()  # the names of those that there were when the block failed
    deferrable: tuple[Transaction | None, bool] = (None, False)  # what the last one that said so has said
    safety: Safety | None = None  # of the snapshot that it waits for
    _transaction_timer: asyncio.TimerHandle | None = None
    _statement_timer: asyncio.TimerHandle | None = None

    @property
    def advisory(self) -> AdvisoryLocks:
        """The session's advisory locks."""
        if self.advisory_held is None:
            self.advisory_held = AdvisoryLocks(self, self.node.advisory_locks)
        return self.advisory_held

    @property
    def large_objects(self) -> LargeObjects:
        """The session's large objects."""
        if self.large_objects_held is None:
            self.large_objects_held = LargeObjects(self)
        return self.large_objects_held

    def export_snapshot(self) -> str:
        """pg_export_snapshot(): the identifier. Raises 25001, 0A000."""
        return self.node.exported.export(open_sessions(self.node)[self.process_id])

    def blockers(self, process_id: int) -> list[int]:
        """The process ids of the sessions for which that one waits."""
        session = open_sessions(self.node).get(process_id)
        transaction = None if session is None else session.transaction
        ticket = None if transaction is None else transaction.waiting
        return [] if ticket is None else ticket.space.blockers(ticket)

    def safe_snapshot_blockers(self, process_id: int) -> list[int]:
        """The process ids of the sessions for which that one waits until its snapshot is safe."""
        session = open_sessions(self.node).get(process_id)
        return [] if session is None else safe_snapshots.blockers(session)

    def begin_implicit(self) -> Transaction:
        """The transaction of statements outside a block."""
        self.transaction = made = self._new_transaction()
        made.account = self.memory
        if made.isolation == SERIALIZABLE:
            safe_snapshots.look_before(self, made)
        if self.transaction_timeout:
            self._watch_transaction()
        return made

    def _watch_transaction(self) -> None:
        if self._transaction_timer is not None:
            self._transaction_timer.cancel()
            self._transaction_timer = None
        if self.transaction_timeout and self.status_of_transaction != "I":
            loop = asyncio.get_running_loop()
            self._transaction_timer = loop.call_later(self.transaction_timeout / 1000, self._transaction_late)

    def _transaction_late(self) -> None:
        self._transaction_timer = None
        if self.status_of_transaction != "I":
            self.cancel(transaction_error())

    @property
    def status_of_transaction(self) -> str:
        """I where there is no transaction, not even that of a single statement."""
        return "T" if self.__dict__.get("transaction") is not None else self.__dict__.get("status", "I")

    def cancel(self, error: SqlError | None = None) -> None:
        """See LedSession."""
        raise NotImplementedError

    def watch_statement(self) -> None:
        """A statement that may wait begins: from now on it has statement_timeout."""
        self.leave_statement()
        if self.statement_timeout:
            error = SqlError("57014", "canceling statement due to statement timeout")
            loop = asyncio.get_running_loop()
            self._statement_timer = loop.call_later(self.statement_timeout / 1000, self.cancel, error)

    def leave_statement(self) -> None:
        """Nothing runs that statement_timeout counts."""
        if self._statement_timer is not None:
            self._statement_timer.cancel()
            self._statement_timer = None

    def _new_transaction(self) -> Transaction:
        node = self.node
        return node.new_transaction(
            node.store,
            node.row_locks,
            node.table_locks,
            self.process_id,
            node.clock(),
            self.default_isolation,
            self.default_read_only,
        )

    def finish(self) -> int:
        """Commits the implicit transaction, if there is one. Returns the LSN to wait for (0: nothing)."""
        if self.transaction is None or self.in_block:
            return 0
        return self._commit()

    def _commit(self) -> int:
        transaction = self.transaction
        assert transaction is not None
        if transaction.deferred is not None:
            self._check_deferred(transaction)
        if self.temporary_schema is not None:
            self._end_temporary_tables(transaction)
        notifying = self.notifying
        try:
            if transaction.serial is not None:
                transaction.serial.prepare()
            row = None if notifying is None else notifying.before_commit(transaction)
            if transaction.runs:
                announce(self.node.columnar, self.node.store, self.catalog, transaction.runs)
            lsn = self.node.commits.commit(transaction)
        except BaseException:
            self._abort()
            raise
        # From here on the transaction is sequenced: it will be durable, or the node stops.
        try:
            return self._committed(transaction, lsn, row)
        except BaseException as error:
            self.node.store.of(0).fail(error)  # nothing may say that it has failed
            raise

    def _committed(self, transaction: Transaction, lsn: int, row: bytes | None) -> int:
        """What follows from a transaction that is sequenced. Returns the LSN to wait for."""
        self.transaction = None
        self.in_block = False
        self.status = "I"
        notifying = self.notifying
        self.commits += 1
        if lsn:
            self.last_commit = lsn
        if transaction.serial is not None:
            transaction.serial.commit(lsn)
        if transaction.changed_objects:
            self.node.publish_when_durable(lsn, transaction)
        else:
            if transaction.exclusive:
                self.node.exclusive_tables -= 1
            transaction.release()
        if not lsn:
            lsn = self.late(transaction)  # its client has been told of what others committed
            if (logged := self.node.sequences.last_logged_lsn) > self.node.store.durable_lsn:
                lsn = self.node.commits.both(lsn, logged)  # it may have drawn values from sequences
        self.settings.end_transaction(True)
        if notifying is not None:
            notifying.committed(row, lsn, self.node.commits)
        if self.advisory_held is not None:
            self.advisory_held.end_transaction()
        if self.portals:
            self._close_portals(committed=True)
        return lsn

    def _end_temporary_tables(self, transaction: Transaction) -> None:
        """What ON COMMIT says (engine/statements/temporary.py). A session with temporary tables is on no fast path."""
        raise NotImplementedError

    def _check_deferred(self, transaction: Transaction) -> None:
        """Constraints that were put off: LockWait leaves everything as it is; 23503 has rolled back."""
        assert transaction.deferred is not None
        try:
            transaction.deferred.check(transaction, self.catalog, self.key.format, everything=True)
        except SqlError:
            self._abort()
            raise

    def _narrow(self, error: SqlError) -> None:
        """Shows of a row what the user may read, or has written himself."""
        user, detail = self.user, error.detail
        if not isinstance(detail, ShownKey | ShownRow) or (user is not None and user.superuser):
            return
        error.detail = None
        if user is not None:
            with suppress(SqlError):  # of a statement whose tables have changed meanwhile
                error.detail = detail.narrowed(self.catalog, user, self._given)

    def _given(self, table: Table) -> frozenset[int]:
        """The columns of a table that the statement that runs gives values."""
        prepared = self.shown
        if isinstance(prepared, bytes):  # of one statement that had a plan for its text
            analyzed = analyze(parse(prepared.decode())[0].tree, self.environment)
            return given_columns(analyzed.statement, table)
        if not isinstance(prepared, Prepared):
            return frozenset()
        if (statement := prepared.plan.analysed_statement) is not None:
            return given_columns(statement, table)
        copy = prepared.statement.tree
        if not isinstance(copy, ast.CopyStmt) or not copy.is_from:
            return frozenset()
        return frozenset(item.number for item in table.columns if not copy.columns or item.name in copy.columns)

    def fail(self, error: SqlError) -> None:
        """An error ended the statement: the transaction is over, or failed back to its last savepoint."""
        forget_frames(error)
        try:
            self._narrow(error)
        finally:
            self._undo(error)

    @complete
    def _undo(self, error: SqlError) -> None:
        self.waited = 0.0
        transaction = self.transaction
        if transaction is None:
            self.rollbacks += 1  # of the statement alone
            return
        if not self.in_block:
            self._abort()
            return
        if self.status == "E":
            return
        self.status = "E"
        self.failed_portals = frozenset(self.portals)
        if transaction.waiting is not None:
            transaction.waiting.cancel(error)
        if transaction.savepoints:
            transaction.rollback_to_savepoint(transaction.savepoints[-1].name)
            self._rolled_back_to(transaction.savepoints[-1])
        else:
            self._let_go(transaction)
            self._close_portals(committed=False)

    def _rolled_back_to(self, savepoint: Savepoint) -> None:
        for point, was in self.modes_before:
            if point is savepoint and self.transaction is not None:
                self.transaction.read_only = was
        for part in (self.advisory_held, self.notifying):
            if part is not None:
                part.roll_back_to(savepoint)
        kept = next((portals for point, portals in self.portals_before if point is savepoint), ())
        for name, portal in list(self.portals.items()):
            if portal not in kept and not portal.kept:
                self.close_portal(name)

    def _let_go(self, transaction: Transaction) -> None:
        if transaction.changed_objects:
            self.node.held.abandoned(transaction.changed_objects)
        if transaction.exclusive:
            self.node.exclusive_tables -= 1
            transaction.exclusive = False
        transaction.abort()
        if self.advisory_held is not None:
            self.advisory_held.end_transaction()
        if self.notifying is not None:
            self.notifying.rolled_back()
        transaction.changed_objects = {}
        transaction.catalog = None

    @complete
    def _abort(self) -> None:
        transaction = self.transaction
        self.transaction = None
        self.in_block = False
        self.status = "I"
        if transaction is not None:
            self.rollbacks += 1
            self._let_go(transaction)
        self.settings.end_transaction(False)
        self._close_portals(committed=False)

    def roll_back(self) -> None:
        """Ends the transaction, if there is one, of a session that nobody talks to."""
        if self.transaction is not None:
            self._abort()

    # ---- portals end with their transaction -------------------------------------------------------------------------

    def _close_portals(self, committed: bool) -> None:
        for name in list(self.portals):
            portal = self.portals[name]
            portal.kept = portal.kept or (committed and portal.holdable)
            if not portal.kept:
                self.close_portal(name)

    def end_portals(self) -> None:
        """Sync outside a block ends every named portal that is not WITH HOLD; the unnamed one is soon replaced."""
        if len(self.portals) > 1 or b"" not in self.portals:
            self._close_portals(committed=True)

    def close_portal(self, name: bytes) -> None:
        portal = self.portals.pop(name, None)
        if portal is not None:
            self.stop_portal(portal)

    def stop_portal(self, portal: Portal) -> None:
        """Ends what the portal still runs."""
        if portal.stream is not None:
            stream, portal.stream = portal.stream, None
            self.node.background(stream.close())

    # ---- transaction statements -------------------------------------------------------------------------------------

    def transaction_statement(self, statement: ast.TransactionStmt) -> tuple[str, int]:
        """BEGIN, COMMIT, ROLLBACK and savepoints: the command tag, and the LSN to wait for. Never waits for a lock."""
        kind = statement.kind
        if kind in ("begin", "start"):
            self._begin(statement)
            return ("BEGIN" if kind == "begin" else "START TRANSACTION"), 0
        if kind in ("commit", "end"):
            return self._end(statement, committed=True)
        if kind in ("rollback", "abort"):
            return self._end(statement, committed=False)
        if kind == "prepare":
            return self._prepare(statement.name or "")
        if kind in ("commit_prepared", "rollback_prepared"):
            lsn = two_phase.finish(self, statement.name or "", committed=kind == "commit_prepared")
            return kind.upper().replace("_", " "), lsn
        return self._savepoint_statement(kind, statement.name or ""), 0

    def _prepare(self, identifier: str) -> tuple[str, int]:
        """PREPARE TRANSACTION: whatever comes of it, the block is over."""
        transaction = self.transaction
        if transaction is None or not self.in_block:
            self.warn("25P01", "there is no transaction in progress")
            return "ROLLBACK", 0
        if self.status == "E":
            self._abort()
            return "ROLLBACK", 0
        if transaction.deferred is not None:
            self._check_deferred(transaction)
        try:
            two_phase.check(self, identifier)
            owner = self.catalog.roles[self.user_name]
            lsn = self.node.prepared.prepare(identifier, owner, self.database_oid, transaction)
        except BaseException:
            self._abort()
            raise
        self.last_commit = lsn
        self.transaction = None
        self.in_block = False
        self.status = "I"
        self.settings.end_transaction(True)
        self._close_portals(committed=True)
        return "PREPARE TRANSACTION", lsn

    def _begin(self, statement: ast.TransactionStmt) -> None:
        if self.in_block:
            if self.status == "E":
                raise aborted()
            self.warn("25001", "there is already a transaction in progress")
        transaction = self.transaction or self.begin_implicit()
        self.in_block = transaction.in_block = True
        self.status = "T"
        if statement.isolation is not None:
            self.set_isolation(transaction, statement.isolation)
        if statement.read_only is not None:
            self.set_read_only(transaction, statement.read_only)
        if statement.deferrable is not None:
            self.set_deferrable(transaction, statement.deferrable)

    def set_read_only(self, transaction: Transaction, read_only: bool) -> None:
        """READ ONLY and READ WRITE. Raises 25001 for what is to become READ WRITE too late, 25006 for the past."""
        if not read_only and self.node is not self.present:
            raise SqlError("25006", "a transaction that reads the past is read-only", hint="RESET as_of first.")
        if not read_only and transaction.read_only:
            if transaction.savepoints:
                raise SqlError("25001", "cannot set transaction read-write mode inside a read-only transaction")
            if transaction.queried:
                raise SqlError("25001", "transaction read-write mode must be set before any query")
        known = {id(point): (point, was) for point, was in self.modes_before}
        self.modes_before = [known.get(id(item), (item, transaction.read_only)) for item in transaction.savepoints]
        transaction.read_only = read_only

    def set_deferrable(self, transaction: Transaction, deferrable: bool) -> None:
        """DEFERRABLE: a SERIALIZABLE READ ONLY transaction waits for a safe snapshot (safe_snapshots.py). Raises 25001
        after the first query, or in a savepoint."""
        if transaction.savepoints:
            raise SqlError("25001", "SET TRANSACTION [NOT] DEFERRABLE cannot be called within a subtransaction")
        if transaction.queried:
            raise SqlError("25001", "SET TRANSACTION [NOT] DEFERRABLE must be called before any query")
        self.deferrable = transaction, deferrable

    def setting(self, name: str) -> str:
        """What SHOW and current_setting give: the transaction's own values where it has some. Raises 42704."""
        key = name.lower()
        if key not in OF_TRANSACTION:
            return examined(self, key) if key in SERVER_DEFINITIONS else self.settings.get(name)
        transaction = self.transaction if self.in_block else None
        if key == "transaction_isolation":
            default = self.settings.get("default_transaction_isolation")
            if transaction is None:
                return default
            asked = self.asked_isolation[1] if self.asked_isolation[0] is transaction else default
            return asked if asked == "read uncommitted" else transaction.isolation
        if key == "transaction_deferrable":
            if transaction is not None and self.deferrable[0] is transaction:
                return "on" if self.deferrable[1] else "off"
            return self.settings.get("default_transaction_deferrable")
        read_only = self.default_read_only if transaction is None else transaction.read_only
        return "on" if read_only else "off"

    def set_setting(self, name: str, value: str, local: bool) -> None:
        """set_config(). Raises what SET raises."""
        if name.lower() in IDENTITIES:
            self.set_identity(name.lower(), value, local)
        else:
            self.set_mode(name, value)
            self.check_setting(name, value)
            self.settings.set(name, value, local=local, in_transaction=True)

    def set_mode(self, name: str, value: str) -> None:
        """SET transaction_read_only and its like do what SET TRANSACTION does; other settings are none of its business.
        Raises 25001, 22023."""
        key, transaction = name.lower(), self.transaction
        if key not in OF_TRANSACTION or transaction is None:
            return
        wanted = DEFINITIONS[key].check(name, value)
        if key == "transaction_isolation":
            self.set_isolation(transaction, wanted)
        elif key == "transaction_read_only":
            self.set_read_only(transaction, wanted == "on")
        else:
            self.set_deferrable(transaction, wanted == "on")

    def shown_settings(self) -> list[tuple[str, str]]:
        """(name, value) of every setting, as SHOW prints it."""
        found = [
            (name, self.setting(name) if name in OF_TRANSACTION else value) for name, value in self.settings.items()
        ]
        return sorted(found + server_settings(self), key=lambda item: item[0].lower())

    def set_isolation(self, transaction: Transaction, isolation: str) -> None:
        """SET TRANSACTION ISOLATION LEVEL. Raises 25001 for another one after the first query, or in a savepoint."""
        if isolation != self.setting("transaction_isolation"):
            if transaction.queried:
                raise SqlError("25001", "SET TRANSACTION ISOLATION LEVEL must be called before any query")
            if transaction.savepoints:
                raise SqlError("25001", "SET TRANSACTION ISOLATION LEVEL must not be called in a subtransaction")
        self.asked_isolation = transaction, isolation
        if self.node is self.present:  # one that reads the past reads one moment in any case
            transaction.isolation = READ_COMMITTED if isolation == "read uncommitted" else isolation
            safe_snapshots.look_before(self, transaction)

    def _end(self, statement: ast.TransactionStmt, committed: bool) -> tuple[str, int]:
        lsn = 0
        before = self.transaction
        if statement.chain and not self.in_block:
            raise SqlError("25P01", f"{statement.kind.upper()} AND CHAIN can only be used in transaction blocks")
        if not self.in_block:
            self.warn("25P01", "there is no transaction in progress")
            if self.transaction is not None:
                if committed:
                    lsn = self._commit()
                else:
                    self._abort()
        elif self.status == "E" or not committed:
            committed = False
            lsn = self.late(before) if before is not None else 0
            self._abort()
        else:
            lsn = self._commit()
        if statement.chain:
            transaction = self.begin_implicit()
            if before is not None:
                self._continue_modes(before, transaction)
            self.in_block = transaction.in_block = True
            self.status = "T"
        return ("COMMIT" if committed else "ROLLBACK"), lsn

    def _continue_modes(self, before: Transaction, transaction: Transaction) -> None:
        """AND CHAIN: the new transaction has the modes of the one that has just ended."""
        transaction.isolation, transaction.read_only = before.isolation, before.read_only
        if self.asked_isolation[0] is before:
            self.asked_isolation = transaction, self.asked_isolation[1]
        if self.deferrable[0] is before:
            self.deferrable = transaction, self.deferrable[1]

    def _savepoint_statement(self, kind: str, name: str) -> str:
        transaction = self.transaction
        word = {"savepoint": "SAVEPOINT", "release": "RELEASE SAVEPOINT", "rollback_to": "ROLLBACK TO SAVEPOINT"}[kind]
        if transaction is None or not self.in_block:
            raise SqlError("25P01", f"{word} can only be used in transaction blocks")
        if kind == "rollback_to":
            transaction.rollback_to_savepoint(name)
            state = transaction.savepoints[-1].settings
            own = {
                name: portal
                for name, portal in self.portals.items()
                if isinstance(portal.prepared.statement.tree, ast.TransactionStmt)
            }
            self._rolled_back_to(transaction.savepoints[-1])
            self.portals.update(own)  # this very statement's
            if state is not None:
                self.settings.restore(state)
            self.status = "T"
            return "ROLLBACK"
        if self.status == "E":
            raise aborted()
        if kind == "savepoint":
            transaction.savepoint(name, self.settings.state())
            for part in (self.advisory_held, self.notifying):
                if part is not None:
                    part.save(transaction.savepoints[-1])
            points = set(map(id, transaction.savepoints))
            self.portals_before = [item for item in self.portals_before if id(item[0]) in points]
            self.portals_before.append((transaction.savepoints[-1], tuple(self.portals.values())))
            return "SAVEPOINT"
        released = next((point for point in reversed(transaction.savepoints) if point.name == name), None)
        for point, was in self.modes_before:
            if point is released:
                transaction.read_only = was
        transaction.release_savepoint(name)
        return "RELEASE"

    # ---- what it waits for ------------------------------------------------------------------------------------------

    def table_locks(self) -> Mapping[Hashable, int]:
        """The table locks that the transaction holds now."""
        return dict(self.transaction.table_locks) if self.transaction is not None else {}

    async def lock_table(self, transaction: Transaction, oid: int, mode: int, wait: str = "block") -> None:
        """Locks a table, waiting as long as it takes."""
        if mode == ACCESS_EXCLUSIVE and not transaction.exclusive:
            transaction.exclusive = True
            self.node.exclusive_tables += 1
        while True:
            try:
                transaction.lock_table(oid, mode, wait)
            except LockWait as wait_for:
                await self.wait_for(wait_for)
                continue
            if mode > ROW_EXCLUSIVE:
                # Whoever shuts out writers reads what the last of them wrote, and not only where it locks rows.
                await self.durable(self.node.store.sequenced_lsn)
            return

    async def wait_for(self, wait: LockWait) -> None:
        """Waits until the lock is granted. Raises what ended the wait: 57014, 55P03 (lock_timeout)."""
        ticket = wait.ticket
        began = perf_counter()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()

        ticket.add_done_callback(partial(resolve, future))
        timer = None
        if self.lock_timeout:
            error = SqlError("55P03", "canceling statement due to lock timeout")
            timer = loop.call_later(self.lock_timeout / 1000, ticket.cancel, error)
        try:
            await future
        except asyncio.CancelledError:
            ticket.cancel(canceled())
            raise
        finally:
            if timer is not None:
                timer.cancel()
        if ticket.error is not None:
            raise ticket.error
        if wait.then is not None:
            try:
                wait.then()
            except SqlError:
                if self.transaction is not None:
                    await self.met_durable(self.transaction)
                raise
        if isinstance(ticket, Ticket) and ticket.space is self.node.table_locks:
            await self.durable(self.node.store.sequenced_lsn)  # what held the lock is to be seen
        self.waited += perf_counter() - began

    def await_commit(self, lsn: int, acknowledge: Acknowledge, lost: Lost) -> None:
        """CommitQueue.wait for the LSN of a commit of this session, before its client is told."""
        self.node.commits.wait(lsn, acknowledge, lost)

    async def catch_up(self) -> None:
        """Before a statement that may wait: what the session was told early is to be seen (deferring.py)."""

    def late(self, transaction: Transaction) -> int:
        """What to wait for before the client is told of what the transaction has met; 0: nothing."""
        return self.node.commits.late(transaction.met) if transaction.met else 0

    async def met_durable(self, transaction: Transaction) -> None:
        """Waits until what the transaction has met is durable: for what only reads that, and before errors that come
        of it, so that who looks for the reason finds it."""
        if transaction.met and (late := self.node.commits.late(transaction.met)):
            await self.durable(late)

    async def durable(self, lsn: Lsn) -> None:
        """Waits until the LSN is durable. Cannot be cancelled: a commit that is under way is not undone, so nobody is
        to be told that it was. Raises 40001 or 08007 when the node has lost its leadership (CommitQueue.wait)."""
        if lsn <= self.node.store.durable_lsn:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        lost: list[SqlError] = []

        def give_up(error: SqlError) -> None:
            lost.append(error)
            resolve(future)

        wait_for(self.node.commits, lsn, partial(resolve, future), give_up)
        while not future.done():
            try:
                await asyncio.shield(future)
            except asyncio.CancelledError:
                self.cancel_error = None
                task = asyncio.current_task()
                if task is not None:
                    task.uncancel()
        if lost:
            raise lost[0]


def ends_transaction(prepared: Prepared) -> bool:
    """Whether a failed block accepts it: COMMIT, ROLLBACK, ROLLBACK TO, PREPARE TRANSACTION."""
    return ends_block(prepared.statement.tree)


def ends_block(node: ast.Node) -> bool:
    """The same of a parsed statement."""
    return isinstance(node, ast.TransactionStmt) and node.kind in (
        "commit",
        "end",
        "rollback",
        "abort",
        "rollback_to",
        "prepare",
    )
