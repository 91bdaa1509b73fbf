"""A session: one connection's settings, transaction, prepared statements and portals, and the road of its statements.

Two ways in, both used by the wire (and by the embedded library):

    find / execute_row / finish    the cached path. Plain synchronous calls; nothing is awaited, nothing is allocated
                                   that could have been made at planning. LockWait, RowPathFull and any other need to
                                   wait send the statement to the second way
    run / simple_query             everything: `async` calls that may wait for locks, for the worker, for durability

Four layers, each of which knows only those below it, and the module that runs what may wait:

    Session                 this file         cached path, named statements and portals     -> running.py
    LedSession              leadership.py     what a node of a cluster asks of it
    TransactionalSession    transactions.py   BEGIN to COMMIT, savepoints, locks and waits
    SessionState            state.py          identity, settings, catalog, what functions ask

They are one object, not several, because the cached path reads all of it for every statement.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import islice
from time import perf_counter

from catalog.errors import SqlError
from catalog.schema import Role, VirtualTable
from engine.execute.context import RowPathFull
from engine.node.node import Node
from engine.session import serializing, statement_log
from engine.session.errors import aborted, canceled
from engine.session.interface import SessionParts
from engine.session.leadership import LedSession
from engine.session.plan import RunRow
from engine.session.portal import Portal
from engine.session.prepared import Prepared, StalePlan
from engine.session.statement_texts import utf8
from engine.session.transactions import ends_block
from engine.session.waiting import wait_for_met
from engine.sql import ast
from engine.txn.interface import SERIALIZABLE, LockWait
from engine.txn.transaction import Transaction


class Session(LedSession):
    """`database` is the name that goes with the OID; `parameters` are the settings of the startup packet; `parts` are
    what packages above give it. Raises what SET of the parameters does."""

    _unwatched: Callable[[Prepared, RunRow, Sequence[object]], tuple[bytes, int, int]]

    def __init__(
        self,
        node: Node,
        role: Role,
        database_oid: int,
        database: str,
        parameters: dict[str, str],
        parts: SessionParts,
    ) -> None:
        super().__init__(node, role, database_oid, database, parameters)
        self.parts = parts
        self.views = parts.views(self)
        self.temporary = parts.temporary(self)
        self.process_id, self.secret = node.register(self)
        node.activity.opened(self)

    def _settings_changed(self) -> None:
        super()._settings_changed()
        if self.settings.get("synchronous_commit") in ("off", "remote_apply"):
            from engine.session.asynchronous_commit import as_deferring

            as_deferring(self)
        # Where every statement is SERIALIZABLE, none may read without a transaction; nobody else is to pay for that.
        if self.default_isolation == SERIALIZABLE:
            self.__dict__["execute_row"] = self._execute_row_serializable
        else:
            self.__dict__.pop("execute_row", None)
        if self.log_over != math.inf:  # the same of a log of what took long
            self._unwatched = self.execute_row
            self.__dict__["execute_row"] = self._execute_row_watched

    def _execute_row_serializable(
        self, prepared: Prepared, run: RunRow, parameters: Sequence[object]
    ) -> tuple[bytes, int, int]:
        if self.transaction is None and self.status != "E":
            self.begin_implicit()
        return type(self).execute_row(self, prepared, run, parameters)

    def _execute_row_watched(
        self, prepared: Prepared, run: RunRow, parameters: Sequence[object]
    ) -> tuple[bytes, int, int]:
        began = perf_counter() - self.waited
        found = self._unwatched(prepared, run, parameters)
        statement_log.ran(self, prepared, perf_counter() - began)
        return found

    @property
    def surroundings(self) -> object:
        """Names, definitions and privileges as the session sees them now."""
        return self.views.surroundings

    def virtual_rows(self, relation: VirtualTable) -> object:
        """The rows of a virtual table, for one execution."""
        return self.views.rows(relation)

    def _end_temporary_tables(self, transaction: Transaction) -> None:
        self.temporary.on_commit(transaction)

    # ---- the cached path --------------------------------------------------------------------------------------------

    def begins(self, sql: bytes) -> None:
        """This is what others see from now on."""
        self.shown = sql
        self.began = perf_counter()

    def plain(self) -> bool:
        """Whether cached plans may be used: no schema changes of this transaction's own, no temporary tables."""
        transaction = self.transaction
        return self.temporary_schema is None and (transaction is None or not transaction.changed_objects)

    def execute_row(self, prepared: Prepared, run: RunRow, parameters: Sequence[object]) -> tuple[bytes, int, int]:
        """Runs a row plan: framed rows, row count, and an LSN that must be durable before the client is told (0: none).

        Raises LockWait, RowPathFull and StalePlan (the caller goes to `run`), SqlError (the caller calls `fail`).
        """
        self.began = began = perf_counter()
        node = self.node
        transaction = self.transaction
        context = self.row_context
        if transaction is None:
            if self.status == "E":
                raise aborted()
            if not prepared.plan.writes and not node.exclusive_tables:
                if prepared.catalog is not node.catalogs[self.database_oid]:
                    raise StalePlan
                context.reader = node.store.current
                context.transaction = None
                context.catalog = prepared.catalog
                context.made = None
                data, count = run(context, parameters)
                tally = prepared.tally or node.statements.tally(prepared)
                if count != 1:
                    tally.rows += count - 1
                times = tally.alone
                times.append(perf_counter() - began)
                if len(times) >= tally.limit:
                    node.statements.full(tally)
                logged = node.sequences.last_logged_lsn
                return data, count, logged if logged > node.store.durable_lsn else 0
            transaction = self.begin_implicit()
        elif self.status == "E":
            raise aborted()
        mark = transaction.begin_statement()
        context.reader = transaction
        context.transaction = transaction
        context.catalog = prepared.catalog
        context.made = None
        held = transaction.table_locks
        held_before = len(held)
        plan = prepared.plan
        for oid, mode in plan.locks:
            if not held.get(oid, 0) & mode:
                transaction.lock_table(oid, mode)
        # Only now nobody can change the tables any more; somebody may have while the locks were waited for.
        if prepared.catalog is not (self.catalog if transaction.changed_objects else node.catalogs[self.database_oid]):
            raise StalePlan
        if plan.writes and transaction.read_only and not plan.temporary:
            transaction.refuse_if_read_only(plan.command)
        try:
            data, count = run(context, parameters)
            if transaction.serial is not None:
                transaction.serial.wrote_since(mark)
        except BaseException as error:
            self._undo_row(prepared, transaction, mark, held_before, error)
            raise
        tally = prepared.tally or node.statements.tally(prepared)
        if count != 1:
            tally.rows += count - 1
        times = tally.inside
        if self.waited:
            began -= self.waited
            self.waited = 0.0
        times.append(perf_counter() - began)
        if len(times) >= tally.limit:
            node.statements.full(tally)
        return data, count, 0

    def _undo_row(
        self, prepared: Prepared, transaction: Transaction, mark: int, held_before: int, error: BaseException
    ) -> None:
        """A row plan has ended by an error after `mark`, and may have taken more table locks than it had before."""
        if transaction.serial is not None and isinstance(error, SqlError) and error.sqlstate == "23505":
            transaction.serial.would_write(serializing.storage_ids(self.catalog, prepared.plan.locks))
        transaction.rollback_to(mark)
        if self.advisory_held is not None and not isinstance(error, SqlError):
            self.advisory_held.restart()
        if transaction.met and isinstance(error, SqlError):
            wait_for_met(self, transaction)
        row = prepared.plan.row
        if isinstance(error, LockWait) and row is not None:
            if row.finds_rows:
                transaction.run_again(error)
            else:
                transaction.run_anew()
        if isinstance(error, RowPathFull):  # it starts anew, and may want a stronger lock first
            for taken in list(transaction.table_locks)[held_before:]:
                transaction.unlock_table(taken)

    def execute_together(self, prepared: Prepared, rows: Sequence[Sequence[object]]) -> bool:
        """Runs as many executions of a plan as these rows are (`RowPlan.together`). False: one fails or has to wait,
        and nothing has happened."""
        row = prepared.plan.row
        assert row is not None
        together = row.together
        if together is None or "execute_row" in self.__dict__:  # where each is looked at
            return False
        notices = len(self.notices)
        locked = 0 if self.transaction is None else len(self.transaction.row_locks)
        began = perf_counter()
        try:
            self.execute_row(prepared, together.run, rows)
        except (SqlError, LockWait, RowPathFull, StalePlan) as error:
            if isinstance(error, LockWait):
                error.ticket.cancel(canceled())
            del self.notices[notices:]
            if self.transaction is not None:
                self.transaction.let_go_after(locked)
            return False
        tally = prepared.tally
        assert tally is not None
        counted = 1
        if tally.inside:  # as one that took long
            tally.inside.pop()
            tally.rows += 1
            counted = 0
        executions = len(rows) // together.rows
        tally.add_alike((perf_counter() - began) / executions, executions - counted, 0)
        return True

    def execute_rows(
        self, prepared: Prepared, run: RunRow, rows: Sequence[Sequence[object]]
    ) -> tuple[list[int], SqlError | None]:
        """Runs a row plan that repeats (`RowPlan.repeats`) for each of these parameters, up to the first one that
        fails or has to wait: how many rows each before it wrote, and its error. None: there is none, or that row is
        to be run again alone, since it waits or the plan is not for it. Nothing is left of the row in any case.
        """
        counts: list[int] = []
        failed: SqlError | None = None
        notices = len(self.notices)
        began = perf_counter()
        try:
            counts.append(self.execute_row(prepared, run, rows[0])[1])
            began = perf_counter()
            transaction, context = self.transaction, self.row_context
            assert transaction is not None
            for parameters in islice(rows, 1, None):
                notices = len(self.notices)
                mark = transaction.begin_statement()
                context.made = None
                try:
                    counts.append(run(context, parameters)[1])
                except BaseException as error:
                    transaction.rollback_to(mark)
                    if transaction.met and isinstance(error, SqlError):
                        wait_for_met(self, transaction)
                    raise
        except SqlError as error:
            failed = error
        except (LockWait, RowPathFull, StalePlan) as error:
            if isinstance(error, LockWait):
                error.ticket.cancel(canceled())  # it is asked for again by the row that needs it
            del self.notices[notices:]
        more = len(counts) - 1
        if more > 0:
            assert prepared.tally is not None
            prepared.tally.add_alike((perf_counter() - began) / more, more, sum(counts) - counts[0])
        return counts, failed

    # ---- prepared statements and portals ----------------------------------------------------------------------------

    def ready_plan(self, name: bytes) -> Prepared | None:
        """The prepared statement, if it runs at once and can run as it is; None where Bind has more to do."""
        prepared = self.prepared.get(name)
        transaction = self.transaction
        if (
            prepared is None
            or prepared.catalog is not self.node.catalogs[self.database_oid]
            or prepared.key is not self.key
            or self.status == "E"
            or self.temporary_schema is not None
            or (transaction is not None and transaction.changed_objects)
            or not prepared.plan.at_once
        ):
            return None
        if self.portals:
            unnamed = self.portals.get(b"")
            if unnamed is not None:
                if unnamed.stream is not None:
                    return None
                del self.portals[b""]  # as Bind does
        self.shown = prepared
        return prepared

    def refuse_in_failed_block(self, statement: ast.Statement) -> None:
        """25P02 for what a failed block does not take, before its names are looked up."""
        if not ends_block(statement.tree) and statement.text:
            raise aborted()

    def portal(self, name: bytes) -> Portal:
        """The portal of that name. Raises 34000, and 25P02 for one that has ended with the block."""
        portal = self.portals.get(name)
        if portal is None:
            if self.status == "E" and name in self.failed_portals:
                raise aborted()
            raise SqlError("34000", f'portal "{utf8(name)}" does not exist')
        return portal

    # ---- ends -------------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """The connection is gone: rolls back, frees every lock, drops temporary tables."""
        self.memory.give(self._custom_bytes)
        self._custom_bytes = 0
        try:
            self._abort()
            if self.advisory_held is not None:
                self.advisory_held.close()
            if self.notifying is not None:
                self.notifying.close()
            if self.temporary_schema is not None:
                await self.temporary.drop()
        finally:
            self.leave_past()
            self.node.activity.closed(self)
            statement_log.disconnected(self)
            self.node.unregister(self.process_id)
            self.fall_apart()
