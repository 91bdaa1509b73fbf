"""A session's transaction: its beginning and end, and savepoints.

Status as in ReadyForQuery: I idle, T in a block, E in a failed block. A statement outside a block runs in an implicit
transaction that `finish` commits: after each simple Query, or at Sync (PostgreSQL 16 manual, 55.2.2.1, 55.2.3:
statements of a pipeline up to Sync, or of one Query string, are one transaction).

An error in a block rolls everything back at once and keeps only the status E. With savepoints, the work before the last
one is kept, with its locks, for ROLLBACK TO.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Concatenate, ParamSpec

from catalog.errors import SqlError, forget_frames
from engine.columnar.ahead import announce
from engine.execute.deferred import check
from engine.node.schema_of_snapshots import see_committed
from engine.session import safe_snapshots, two_phase
from engine.session.errors import aborted_error
from engine.session.other_waits import Work
from engine.session.prepared import Prepared
from engine.session.shown_rows import narrow
from engine.sql import ast
from engine.txn.interface import READ_COMMITTED, LockWait
from engine.txn.transaction import Savepoint, Transaction

if TYPE_CHECKING:
    from engine.session.session import Session

P = ParamSpec("P")


def complete(
    undo: Callable[Concatenate[TransactionControl, P], None],
) -> Callable[Concatenate[TransactionControl, P], None]:
    """Decorates a method that undoes work: it completes, or the node stops. Half of it would leave locks without a
    holder, or rows without a writer."""

    @wraps(undo)
    def run(control: TransactionControl, /, *args: P.args, **kwargs: P.kwargs) -> None:
        try:
            undo(control, *args, **kwargs)
        except BaseException as error:
            control.session.node.store.of(0).fail(error)
            raise

    return run


class TransactionControl:
    """The transaction state of one session: `transaction`, `in_block`, `status`."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def begin_implicit(self) -> Transaction:
        """The transaction of statements outside a block."""
        session = self.session
        session.transaction = made = self.new_transaction()
        made.account = session.memory
        if session.is_replica:
            made.is_replica = True
        if made.isolation != READ_COMMITTED:
            safe_snapshots.look_before(session, made)
        if session.timeouts.transaction:
            session.timeouts.watch_transaction()
        return made

    def new_transaction(self) -> Transaction:
        session = self.session
        node = session.node
        return node.new_transaction(
            node.store,
            node.row_locks,
            node.table_locks,
            session.process_id,
            node.clock(),
            session.default_isolation,
            session.default_read_only,
        )

    def finish(self) -> int:
        """Commits the implicit transaction, if there is one. Returns the LSN to wait for (0: nothing)."""
        if self.session.transaction is None or self.session.in_block:
            return 0
        return self.commit()

    def commit(self) -> int:
        """Commits the transaction. Returns the LSN to wait for."""
        session = self.session
        transaction = session.transaction
        assert transaction is not None
        if transaction.changed_objects:
            see_committed(transaction)
        if transaction.deferred is not None:
            self._check_deferred(transaction)
        if session.foreign is not None and session.foreign.in_transaction:
            raise LockWait(Work(self._commit_foreign()))
        if session.temporary_schema is not None:
            session.temporary.on_commit(transaction)
        notifying = session.notifying
        try:
            if transaction.serial is not None:
                transaction.serial.prepare()
            row = None if notifying is None else notifying.before_commit(transaction)
            if transaction.runs:
                announce(session.node.columnar, session.node.store, session.catalog, transaction.runs)
            lsn = session.node.commits.commit(transaction)
        except BaseException:
            self.abort()
            raise
        # From here on the transaction is sequenced: it will be durable, or the node stops.
        try:
            return self._finish_commit(transaction, lsn, row)
        except BaseException as error:
            session.node.store.of(0).fail(error)  # nothing may report a failure from here on
            raise

    def _finish_commit(self, transaction: Transaction, lsn: int, row: bytes | None) -> int:
        """The steps after a transaction is sequenced. Returns the LSN to wait for."""
        session = self.session
        node = session.node
        session.transaction = None
        session.in_block = False
        session.status = "I"
        notifying = session.notifying
        session.commits += 1
        if lsn:
            session.last_commit = lsn
        if transaction.serial is not None:
            transaction.serial.commit(lsn)
        if node.numbers.running:
            node.numbers.end(transaction, lsn)
        if transaction.changed_objects:
            node.publish_when_durable(lsn, transaction)
        else:
            if transaction.exclusive:
                node.end_exclusive(lsn)
            transaction.note_commit(lsn)
            transaction.release()
        if not lsn:
            lsn = session.waits.late(transaction)  # its client knows commits of others
            if (logged := node.sequences.last_logged_lsn) > node.store.durable_lsn:
                lsn = node.commits.both(lsn, logged)  # it may have drawn values from sequences
        session.settings.end_transaction(True)
        if notifying is not None:
            notifying.on_committed(row, lsn, node.commits)
        if session.advisory_held is not None:
            session.advisory_held.end_transaction()
        if session.portals:
            session.portals.end_transaction(True)
        return lsn

    def _check_deferred(self, transaction: Transaction) -> None:
        """Checks deferred constraints. LockWait leaves everything unchanged; 23503 has rolled back. Deferred triggers
        are fired first: LockWait waits for them."""
        session = self.session
        assert transaction.deferred is not None
        if transaction.deferred.triggers:
            raise LockWait(Work(self._fire_deferred()))
        try:
            check(transaction.deferred, transaction, session.catalog, session.key.format, everything=True)
        except SqlError:
            self.abort()
            raise

    async def _fire_deferred(self) -> None:
        try:
            await self.session.routines.fire_deferred(everything=True)
        except BaseException:
            if self.session.transaction is not None:
                self.abort()
            raise

    async def _commit_foreign(self) -> None:
        """Commits the transactions on foreign servers, just before that of the session."""
        assert self.session.foreign is not None
        try:
            await self.session.foreign.commit()
        except BaseException:
            if self.session.transaction is not None:
                self.abort()
            raise

    async def end_deferred(self) -> None:
        """Fires the deferred triggers and checks the deferred constraints of an implicit transaction, whose statements
        have ended. Raises 23503, 23505, 23P01, and errors of triggers."""
        session = self.session
        transaction = session.transaction
        if transaction is None or session.in_block:
            return
        while transaction.deferred is not None:
            try:
                await session.routines.fire_deferred(everything=True)
                check(transaction.deferred, transaction, session.catalog, session.key.format, everything=True)
                transaction.deferred = None
            except LockWait as wait:
                await session.wait_for(wait)
        transaction.defers = False  # the next statement of a pipeline may run where nothing can wait for a lock

    # ---- errors and rollbacks ---------------------------------------------------------------------------------------

    def fail(self, error: SqlError) -> None:
        """Handles an error of the statement: ends the transaction, or rolls it back to its last savepoint."""
        forget_frames(error)
        try:
            narrow(self.session, error)
        finally:
            self._undo(error)

    @complete
    def _undo(self, error: SqlError) -> None:
        session = self.session
        session.waited = 0.0
        transaction = session.transaction
        if transaction is None:
            session.rollbacks += 1  # of the statement alone
            return
        if not session.in_block:
            self.abort()
            return
        if session.status == "E":
            return
        session.status = "E"
        session.portals.block_failed()
        if transaction.waiting is not None:
            transaction.waiting.cancel(error)
        if transaction.savepoints:
            transaction.rollback_to_savepoint(transaction.savepoints[-1].name)
            self._rolled_back_to(transaction.savepoints[-1])
        else:
            self._let_go(transaction)
            session.portals.end_transaction(False)

    def _rolled_back_to(self, savepoint: Savepoint) -> None:
        session = self.session
        if session.transaction is not None:
            session.variables.back_to(session.transaction, savepoint)
        for part in (session.advisory_held, session.notifying, session.foreign):
            if part is not None:
                part.roll_back_to(savepoint)
        session.portals.roll_back_to(savepoint)

    def _let_go(self, transaction: Transaction) -> None:
        session = self.session
        if transaction.changed_objects:
            session.node.held.on_abandoned(transaction.changed_objects)
        if transaction.exclusive:
            session.node.exclusive_tables -= 1
            transaction.exclusive = False
        transaction.abort()
        if session.foreign is not None:
            session.foreign.abandon()
        session.node.numbers.end(transaction, None)
        if session.advisory_held is not None:
            session.advisory_held.end_transaction()
        if session.notifying is not None:
            session.notifying.rolled_back()
        transaction.changed_objects = {}
        transaction.catalog = None

    @complete
    def abort(self) -> None:
        """Rolls back, whatever the state is."""
        session = self.session
        transaction = session.transaction
        session.transaction = None
        session.in_block = False
        session.status = "I"
        if transaction is not None:
            session.rollbacks += 1
            self._let_go(transaction)
        session.settings.end_transaction(False)
        session.portals.end_transaction(False)

    def roll_back(self) -> None:
        """Ends the transaction, if any, of a session without a client."""
        if self.session.transaction is not None:
            self.abort()

    def fail_block(self) -> None:
        """Only the end of the block remains."""
        session = self.session
        transaction = session.transaction
        assert transaction is not None
        transaction.savepoints.clear()
        if session.status != "E":
            session.status = "E"
            self._let_go(transaction)
            session.portals.end_transaction(False)

    # ---- transaction statements -------------------------------------------------------------------------------------

    def run(self, statement: ast.TransactionStmt) -> tuple[str, int]:
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
            lsn = two_phase.finish(self.session, statement.name or "", committed=kind == "commit_prepared")
            return kind.upper().replace("_", " "), lsn
        return self._savepoint_statement(kind, statement.name or ""), 0

    def _prepare(self, identifier: str) -> tuple[str, int]:
        """PREPARE TRANSACTION: the block is over, whatever the result is."""
        session = self.session
        transaction = session.transaction
        if transaction is None or not session.in_block:
            session.warn("25P01", "there is no transaction in progress")
            return "ROLLBACK", 0
        if session.status == "E":
            self.abort()
            return "ROLLBACK", 0
        if transaction.deferred is not None:
            self._check_deferred(transaction)
        try:
            if session.foreign is not None and session.foreign.in_transaction:
                message = "cannot PREPARE a transaction that has operated on postgres_fdw foreign tables"
                raise SqlError("0A000", message)
            two_phase.check(session, identifier, self._used())
            owner = session.catalog.roles[session.user_name]
            if transaction.serial is not None:
                transaction.serial.prepare()
            lsn = session.node.prepared.prepare(identifier, owner, session.database_oid, transaction)
        except BaseException:
            self.abort()
            raise
        session.last_commit = lsn
        session.transaction = None
        session.in_block = False
        session.status = "I"
        session.settings.end_transaction(True)
        session.portals.end_transaction(True)
        return "PREPARE TRANSACTION", lsn

    def _used(self) -> two_phase.Used:
        session = self.session
        return two_phase.Used(
            session.advisory_held is not None and session.advisory_held.of_transaction,
            session.notifying is not None and session.notifying.used,
            any(portal.holdable and not portal.kept for portal in session.portals.values()),
        )

    def _begin(self, statement: ast.TransactionStmt) -> None:
        session = self.session
        if session.in_block:
            if session.status == "E":
                raise aborted_error()
            session.warn("25001", "there is already a transaction in progress")
        transaction = session.transaction or self.begin_implicit()
        session.in_block = transaction.defers = True
        session.status = "T"
        if statement.isolation is not None:
            session.variables.set_isolation(transaction, statement.isolation)
        if statement.read_only is not None:
            session.variables.set_read_only(transaction, statement.read_only)
        if statement.deferrable is not None:
            session.variables.set_deferrable(transaction, statement.deferrable)

    def _end(self, statement: ast.TransactionStmt, committed: bool) -> tuple[str, int]:
        lsn = 0
        session = self.session
        before = session.transaction
        if statement.chain and not session.in_block:
            raise SqlError("25P01", f"{statement.kind.upper()} AND CHAIN can only be used in transaction blocks")
        if not session.in_block:
            session.warn("25P01", "there is no transaction in progress")
            if before is not None:
                if committed:
                    lsn = self.commit()
                else:
                    self.abort()
        elif session.status == "E" or not committed:
            committed = False
            lsn = session.waits.late(before) if before is not None else 0
            self.abort()
        else:
            lsn = self.commit()
        if statement.chain:
            transaction = self.begin_implicit()
            if before is not None:
                session.variables.continue_modes(before, transaction)
            session.in_block = transaction.defers = True
            session.status = "T"
        return ("COMMIT" if committed else "ROLLBACK"), lsn

    def _savepoint_statement(self, kind: str, name: str) -> str:
        session = self.session
        transaction = session.transaction
        word = {"savepoint": "SAVEPOINT", "release": "RELEASE SAVEPOINT", "rollback_to": "ROLLBACK TO SAVEPOINT"}[kind]
        if transaction is None or not session.in_block:
            raise SqlError("25P01", f"{word} can only be used in transaction blocks")
        if kind == "rollback_to":
            self._roll_back_to(transaction, name)
            return "ROLLBACK"
        if session.status == "E":
            raise aborted_error()
        if kind == "savepoint":
            self.save(name)
            return "SAVEPOINT"
        released = next((point for point in reversed(transaction.savepoints) if point.name == name), None)
        session.variables.back_to(transaction, released)
        transaction.release_savepoint(name)
        return "RELEASE"

    def save(self, name: str) -> None:
        """Sets a savepoint."""
        session = self.session
        transaction = session.transaction
        assert transaction is not None
        transaction.savepoint(name, session.settings.state())
        made = transaction.savepoints[-1]
        for part in (session.advisory_held, session.notifying):
            if part is not None:
                part.save(made)
        session.portals.save(made, transaction.savepoints)

    def undo_to(self, name: str) -> None:
        """Undoes the work after a savepoint, and forgets it: the end of a block whose error is handled."""
        session = self.session
        transaction = session.transaction
        assert transaction is not None
        transaction.rollback_to_savepoint(name)
        point = transaction.savepoints[-1]
        self._rolled_back_to(point)
        if point.settings is not None:
            session.settings.restore(point.settings)
        transaction.release_savepoint(name)

    def forget(self, name: str) -> None:
        """Forgets a savepoint, and keeps the work after it."""
        if self.session.transaction is not None:
            self.session.transaction.release_savepoint(name)

    def _roll_back_to(self, transaction: Transaction, name: str) -> None:
        session = self.session
        transaction.rollback_to_savepoint(name)
        state = transaction.savepoints[-1].settings
        own = {
            name: portal
            for name, portal in session.portals.items()
            if isinstance(portal.prepared.statement.tree, ast.TransactionStmt)
        }
        self._rolled_back_to(transaction.savepoints[-1])
        session.portals.update(own)  # this very statement's
        if state is not None:
            session.settings.restore(state)
        session.status = "T"


def ends_transaction(prepared: Prepared) -> bool:
    """Whether a failed block accepts it: COMMIT, ROLLBACK, ROLLBACK TO, PREPARE TRANSACTION."""
    return ends_block(prepared.statement.tree)


def ends_block(node: ast.Node) -> bool:
    """Whether a failed block accepts a parsed statement."""
    return isinstance(node, ast.TransactionStmt) and node.kind in (
        "commit",
        "end",
        "rollback",
        "abort",
        "rollback_to",
        "prepare",
    )
