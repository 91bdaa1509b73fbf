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
from functools import partial
from itertools import islice
from time import perf_counter

from catalog.errors import SqlError
from catalog.memory import LARGE, Holding, within
from catalog.schema import Role, VirtualTable
from engine.execute.context import RowPathFull
from engine.foreground import aside
from engine.node.node import Node
from engine.session import past, planning, running, serializing, statement_log
from engine.session.answer import Sink, tag
from engine.session.errors import aborted, canceled, idle_error
from engine.session.interface import SystemViews
from engine.session.leadership import LedSession
from engine.session.planning import LONG_TEXT, LONGEST_KEPT
from engine.session.prepared import PastWait, Portal, Prepared, RunRow, StalePlan, once_known, utf8
from engine.session.transactions import ends_block, ends_transaction
from engine.session.waiting import wait_for_met
from engine.sql import ast
from engine.sql.lift import lift
from engine.txn.interface import SERIALIZABLE, LockWait
from engine.txn.transaction import Transaction

__all__ = [
    "LONG_TEXT",
    "Session",
    "aborted",
    "canceled",
    "ends_transaction",
    "idle_error",
    "tag",
]


class Session(LedSession):
    """`database` is the name that goes with the OID; `parameters` are the settings of the startup packet; `see` gives
    what the session sees of the system. Raises what SET of the parameters does."""

    _unwatched: Callable[[Prepared, RunRow, Sequence[object]], tuple[bytes, int, int]]

    def __init__(
        self,
        node: Node,
        role: Role,
        database_oid: int,
        database: str,
        parameters: dict[str, str],
        see: Callable[[Session], SystemViews],
    ) -> None:
        super().__init__(node, role, database_oid, database, parameters)
        self.see = see
        self.views = see(self)
        self.process_id, self.secret = node.register(self)
        node.activity.opened(self)

    def _settings_changed(self) -> None:
        super()._settings_changed()
        if self.settings.get("synchronous_commit") in ("off", "remote_apply"):
            from engine.session.deferring import as_deferring

            as_deferring(self)
        # Where every statement is SERIALIZABLE, none may read without a transaction; nobody else is to pay for that.
        if self.default_isolation == SERIALIZABLE:
            self.__dict__["execute_row"] = self._execute_row_serializable
        else:
            self.__dict__.pop("execute_row", None)
        if self.log_over != math.inf:  # the same of a log of what took long
            self._unwatched = self.execute_row
            self.__dict__["execute_row"] = self._execute_row_watched
        if self.key.conforming:
            self.__dict__.pop("find", None)
        else:
            self.__dict__["find"] = self._find_escaping

    def _find_escaping(self, sql: bytes) -> tuple[Prepared, Sequence[object]] | None:
        """`find` without standard_conforming_strings, where literals with backslashes are read by the parser only."""
        return None if b"\\" in sql else type(self).find(self, sql)

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
        from engine.session import temporary

        temporary.on_commit(self, transaction)

    # ---- the cached path --------------------------------------------------------------------------------------------

    def find(self, sql: bytes) -> tuple[Prepared, Sequence[object]] | None:
        """A cached plan for the text of a simple Query, and its parameters; None sends the text to `run`."""
        prepared = self._find.get(sql) if len(sql) <= LONGEST_KEPT else None  # to look for a megabyte takes long
        if prepared is not None:
            self.shown = sql
            if prepared.parameter_types:  # a Parse has left it there
                return None
            return (prepared, ()) if prepared.catalog is self.committed_catalog and self.plain() else None
        lifted = lift(sql)
        if lifted is None:
            return None
        template, literals, tags = lifted
        key = (template, tags)
        prepared = self._find.get(key)
        if not self.plain() or (prepared is None and key in self._find):
            return None
        if prepared is None or prepared.catalog is not self.committed_catalog:
            try:
                prepared = planning.prepare_lifted(self, template, tags, not self.cache.met(key))
            except PastWait:  # `run` waits until that is there
                return None
            planning.keep(self, key, prepared)
            if prepared is None:
                return None
        self.shown = sql
        try:
            return prepared, planning.decode_literals(prepared, literals, tags)
        except SqlError:
            return None  # planned with its literals in place, the statement fails with the place in its text

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
        context = self._context
        if transaction is None:
            if self.status == "E":
                raise aborted()
            if not prepared.writes and not node.exclusive_tables:
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
        for oid, mode in prepared.locks:
            if not held.get(oid, 0) & mode:
                transaction.lock_table(oid, mode)
        # Only now nobody can change the tables any more; somebody may have while the locks were waited for.
        if prepared.catalog is not (self.catalog if transaction.changed_objects else node.catalogs[self.database_oid]):
            raise StalePlan
        if prepared.writes and transaction.read_only and not prepared.temporary:
            transaction.refuse_if_read_only(prepared.command)
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
            transaction.serial.would_write(serializing.storage_ids(self.catalog, prepared))
        transaction.rollback_to(mark)
        if self.advisory_held is not None and not isinstance(error, SqlError):
            self.advisory_held.restart()
        if transaction.met and isinstance(error, SqlError):
            wait_for_met(self, transaction)
        if isinstance(error, LockWait) and prepared.row is not None:
            if prepared.row.finds_rows:
                transaction.run_again(error)
            else:
                transaction.run_anew()
        if isinstance(error, RowPathFull):  # it starts anew, and may want a stronger lock first
            for taken in list(transaction.table_locks)[held_before:]:
                transaction.unlock_table(taken)

    def look_up_past(
        self, prepared: Prepared, parameters: Sequence[object], formats: tuple[int, ...]
    ) -> tuple[bytes, int] | None:
        """See engine.session.past.look_up."""
        self.began = perf_counter()
        return past.look_up(self, self._context, prepared, parameters, formats)

    def execute_together(self, prepared: Prepared, rows: Sequence[Sequence[object]]) -> bool:
        """Runs as many executions of a plan as these rows are (`RowPlan.together`). False: one fails or has to wait,
        and nothing has happened."""
        assert prepared.row is not None
        together = prepared.row.together
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
            transaction, context = self.transaction, self._context
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

    def execute_control(self, prepared: Prepared) -> tuple[str, int]:
        """Runs a transaction statement: its command tag, and the LSN to wait for. Raises as transaction_statement."""
        assert prepared.control is not None
        self.began = began = perf_counter()
        name, lsn = self.transaction_statement(prepared.control)
        tally = prepared.tally or self.node.statements.tally(prepared)
        tally.rows -= 1  # it gives none
        times = tally.inside
        times.append(perf_counter() - began)
        if len(times) >= tally.limit:
            self.node.statements.full(tally)
        return name, lsn

    # ---- prepared statements and portals ----------------------------------------------------------------------------

    def parse(self, name: bytes, sql: bytes, types: tuple[int, ...]) -> Prepared:
        """Parse: plans a statement and keeps it under the name. Raises 42P05 for a name in use."""
        self._refuse_known(name)
        self._begins(sql)
        return self._keep(name, planning.prepare_text(self, sql, types, unnamed=not name))

    async def parse_long(self, name: bytes, sql: bytes, types: tuple[int, ...]) -> Prepared:
        """`parse` for a text of LONG_TEXT bytes or more, or one that reads the past: in a thread, or when that is made,
        unless the plan is known."""
        self._refuse_known(name)
        self._begins(sql)
        prepared = planning.cached_text(self, sql, types)
        if prepared is None:
            planned = await aside(within, self.query_memory, planning.plan_present, self, sql, types)
            if planned is None:
                planned = await self._plan_past(sql, types)
            prepared = planning.remembered(self, sql, types, planned)
        return self._keep(name, prepared)

    async def _plan_past(self, sql: bytes, types: tuple[int, ...]) -> Prepared:
        """The plan of a text that reads the past, which may have to be made first."""
        return await once_known(partial(planning.plan_text, self, sql, types))

    def _begins(self, sql: bytes) -> None:
        """This is what others see from now on."""
        self.shown = sql
        self.began = perf_counter()

    def _refuse_known(self, name: bytes) -> None:
        if name and utf8(name) and name in self.prepared:
            raise SqlError("42P05", f'prepared statement "{utf8(name)}" already exists')

    def _keep(self, name: bytes, prepared: Prepared) -> Prepared:
        if self.status == "E":
            self.refuse_in_failed_block(prepared.statement)
        self.prepared[name] = prepared
        return prepared

    def statement(self, name: bytes) -> Prepared:
        """The prepared statement of that name, planned again if the schema changed. Raises 26000."""
        prepared = self.prepared.get(name)
        if prepared is None:
            shown = f'prepared statement "{utf8(name)}"' if name else "unnamed prepared statement"
            raise SqlError("26000", f"{shown} does not exist")
        if prepared.catalog is not self.committed_catalog or not self.plain() or prepared.key is not self.key:
            prepared = self.prepared[name] = planning.renew(self, prepared)
        return prepared

    def ready_plan(self, name: bytes) -> Prepared | None:
        """The prepared statement, if it is a row plan, reads the past, or ends or begins a transaction, and can run as
        it is; None where Bind has more to do."""
        prepared = self.prepared.get(name)
        transaction = self.transaction
        if (
            prepared is None
            or prepared.catalog is not self.node.catalogs[self.database_oid]
            or prepared.key is not self.key
            or self.status == "E"
            or self.temporary_schema is not None
            or (transaction is not None and transaction.changed_objects)
            or not (prepared.kind == "row" or prepared.control is not None or prepared.kind == "past")
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

    def bind(
        self,
        name: bytes,
        statement: bytes,
        parameters: list[bytes | None],
        parameter_formats: tuple[int, ...],
        result_formats: tuple[int, ...],
    ) -> Portal:
        """Bind: a portal over the statement. Raises 42P03 for a name in use, 53200 for too large parameters."""
        prepared = self._bindable(name, statement, parameters)
        values = planning.bound_values(self, prepared, name, parameters, parameter_formats)
        return self._bound(name, Portal(prepared, values, prepared.formats(result_formats), name), parameters)

    async def bind_long(
        self,
        name: bytes,
        statement: bytes,
        parameters: list[bytes | None],
        parameter_formats: tuple[int, ...],
        result_formats: tuple[int, ...],
    ) -> Portal:
        """`bind` of parameters that may take long to read: in a thread."""
        prepared = self._bindable(name, statement, parameters)
        decode = partial(planning.bound_values, self, prepared, name, parameters, parameter_formats)
        values = await aside(within, self.query_memory, decode)
        return self._bound(name, Portal(prepared, values, prepared.formats(result_formats), name), parameters)

    def _bindable(self, name: bytes, statement: bytes, parameters: list[bytes | None]) -> Prepared:
        prepared = self.statement(statement)
        if self.status == "E" and not ends_transaction(prepared):
            raise aborted()
        if name and utf8(name) and name in self.portals:
            raise SqlError("42P03", f'cursor "{utf8(name)}" already exists')
        if isinstance(prepared.statement.tree, ast.FetchStmt):  # its columns are those of the cursor that there is now
            prepared = planning.prepare(self, prepared.statement, prepared.declared_types)
        if len(parameters) != len(prepared.parameter_types):
            message = (
                f"bind message supplies {len(parameters)} parameters, "
                f'but prepared statement "{statement.decode()}" requires {len(prepared.parameter_types)}'
            )
            raise SqlError("08P01", message)
        return prepared

    def _bound(self, name: bytes, portal: Portal, parameters: list[bytes | None]) -> Portal:
        old = self.portals.get(name)
        if old is not None:
            old.bound = None
            if old.stream is not None:
                self.close_portal(name)
        size = sum(len(value) for value in parameters if value is not None)
        if size > LARGE:
            portal.bound = Holding(self.memory)
            portal.bound.add(size)
        self.portals[name] = portal
        return portal

    def portal(self, name: bytes) -> Portal:
        """The portal of that name. Raises 34000, and 25P02 for one that has ended with the block."""
        portal = self.portals.get(name)
        if portal is None:
            if self.status == "E" and name in self.failed_portals:
                raise aborted()
            raise SqlError("34000", f'portal "{utf8(name)}" does not exist')
        return portal

    # ---- everything that may wait -----------------------------------------------------------------------------------

    async def simple_query(self, sql: bytes, sink: Sink) -> None:
        """Every statement of a simple Query, as one transaction unless it says otherwise. Raises SqlError; the caller
        calls `fail`. What is acknowledged is durable."""
        self._begins(sql)
        await running.simple_query(self, sql, sink)

    async def run_simple(
        self, prepared: Prepared, parameters: Sequence[object], sink: Sink, wait: LockWait | None
    ) -> None:
        """A statement that `find` gave and that was not finished at once; `wait`: the lock that it came upon."""
        await running.run_simple(self, prepared, parameters, sink, wait)

    async def run(self, portal: Portal, limit: int, sink: Sink) -> None:
        """Runs or resumes a portal: rows, then complete or suspended. Raises SqlError; the caller calls `fail`."""
        await running.run(self, portal, limit, sink)

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
                from engine.session import ddl

                await ddl.drop_temporary(self)
        finally:
            past.leave(self)
            self.node.activity.closed(self)
            statement_log.disconnected(self)
            self.node.unregister(self.process_id)
            self.fall_apart()
