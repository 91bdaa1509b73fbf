"""A session: one connection's settings, transaction, prepared statements and portals, and the road of its statements.

Two ways in, both used by the wire (and by the embedded library):

    find / execute_row / finish    the cached path. Plain synchronous calls; nothing is awaited, nothing is allocated
                                   that could have been made at planning. LockWait, RowPathFull and any other need to
                                   wait send the statement to the second way
    run                            everything: an `async` call that may wait for locks, for the worker, for durability

Transaction status as ReadyForQuery shows it: I idle, T in a block, E in a failed block. A statement outside a block
runs in an implicit transaction that `finish` commits: after each simple Query, or at Sync (PostgreSQL 16 manual,
55.2.2.1, 55.2.3: statements of a pipeline up to Sync, or of one Query string, are one transaction).

An error in a block rolls everything back at once and keeps only the status E, unless savepoints are set: then what came
before the last one is kept, with its locks, for ROLLBACK TO.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Mapping, Sequence
from functools import partial
from typing import Protocol

from catalog.errors import SqlError, not_supported
from catalog.functions.base import CallContext
from catalog.schema import Catalog, Database, Role, Schema, SchemaObject, Table, View
from catalog.schema import Sequence as SequenceObject
from engine.columnar.interface import RowEncoding
from engine.execute.context import ExecContext, RowPathFull
from engine.node import Node, PlanCache, resolve
from engine.session import planning
from engine.session.prepared import Portal, Prepared, RunRow, StalePlan, utf8
from engine.session.settings import IDENTITIES, PlanKey, Settings, milliseconds
from engine.session.system import SessionSurroundings, virtual_content
from engine.sql import ast, tree
from engine.sql.analyze import Environment
from engine.sql.lift import lift
from engine.sql.parser import parse
from engine.txn.interface import READ_COMMITTED, LockWait
from engine.txn.locks import ACCESS_EXCLUSIVE, ACCESS_SHARE, ROW_EXCLUSIVE, ROW_SHARE, Ticket
from engine.txn.transaction import Transaction

PORTAL_CHUNK = 1 << 16
LONG_TEXT = 4096  # bytes of a statement that takes milliseconds to parse and plan, which is done in a thread


UNHEARD = {"warning": frozenset({"NOTICE"}), "error": frozenset({"NOTICE", "WARNING"})}  # by client_min_messages


class Sink(Protocol):
    """Where the answer of a statement goes: the wire's connection, or a collector in the embedded library."""

    def fields(self, prepared: Prepared, formats: tuple[int, ...]) -> None:
        """The columns of the rows that follow (simple queries only; Describe answers in the extended protocol)."""

    async def rows(self, data: bytes) -> None:
        """Whole framed rows. Waits while the client does not take them."""

    def complete(self, tag: str) -> None: ...
    def empty(self) -> None: ...
    def suspended(self) -> None: ...
    def notice(self, notice: SqlError) -> None: ...

    async def copy_in(self, columns: int) -> CopySource: ...
    def copy_out(self, columns: int) -> None: ...
    def copy_out_done(self) -> None: ...


class Answer:
    """A sink that holds the command tag back until the statement's transaction is durable."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._tag: str | None = None
        self.fields = sink.fields
        self.rows = sink.rows
        self.suspended = sink.suspended
        self.notice = sink.notice
        self.copy_in = sink.copy_in
        self.copy_out = sink.copy_out
        self.copy_out_done = sink.copy_out_done
        self.empty = sink.empty

    def complete(self, tag: str) -> None:
        self._tag = tag

    def release(self) -> None:
        if self._tag is not None:
            self._sink.complete(self._tag)


class CopySource(Protocol):
    """The data of COPY FROM STDIN."""

    async def read(self) -> bytes | None:
        """The next piece (any size, not cut at rows), None at the end. Raises 57014 when the client gave up."""


class StatementContext(ExecContext):
    """The context of the cached path, one per session: a statement that asks for no time pays for none.

    `made` is the statement's CallContext once something has asked for it.
    """

    __slots__ = ("_session", "made")

    def __init__(self, session: Session) -> None:
        self._session = session
        self.made: CallContext | None = None
        super().__init__(
            session.node.store.current, None, session.call_now(), session.committed_catalog, session.key.format
        )

    @property
    def call(self) -> CallContext:
        if self.made is None:
            self.made = self._session.call_now()
        return self.made

    @call.setter
    def call(self, made: CallContext) -> None:
        self.made = made


class Session:
    def __init__(self, node: Node, role: Role, database_oid: int, database: str, parameters: dict[str, str]) -> None:
        self.node = node
        self.role = role
        self.database_oid = database_oid
        self.database_name = database
        self.session_user_name = role.name
        self.user_name = role.name
        self.settings = Settings({})
        self.settings.force("is_superuser", "on" if role.superuser else "off")
        self.settings.force("session_authorization", role.name)
        self.notices: list[SqlError] = []
        self._start_settings(parameters)
        self.transaction: Transaction | None = None
        self.status = "I"
        self.in_block = False
        self.failed_to_commit = False
        self.prepared: dict[bytes, Prepared] = {}
        self.portals: dict[bytes, Portal] = {}
        self.sequence_values: dict[int, int] = {}
        self.last_sequence: int | None = None
        self.temporary_schema: int | None = None
        self.task: asyncio.Task[None] | None = None
        self.running = False  # the task has begun: before that, cancelling it would keep it from cleaning up
        self.cancel_error: SqlError | None = None
        self.query_text = ""
        self.query_start = 0
        self.client_address: tuple[str, int] | None = None  # host and port; None over a Unix-domain socket
        self.server_address: tuple[str, int] | None = None
        self.backend_start = node.clock()
        self.application_counters: dict[str, int] = {}
        self._transaction_read_only = False
        self.process_id, self.secret = node.register(self)
        self._settings_changed()
        self.settings.on_change = self._settings_changed
        self._context = StatementContext(self)
        self._context.next_row_number = node.next_row_number

    def _start_settings(self, parameters: dict[str, str]) -> None:
        """ALTER DATABASE ... SET, then ALTER ROLE ... SET, then the startup packet. Raises what the latter's SET does;
        the former's are older than the values that are valid now, so what is wrong there is a warning."""
        catalog = self.node.shared_catalog
        database, role = catalog.get(self.database_oid), catalog.get(self.role.oid)
        for item in (database, role):
            for name, value in item.settings if isinstance(item, Database | Role) else ():
                try:
                    self.settings.set(name, value)
                except SqlError as error:
                    self.warn(error.sqlstate, error.message)
        for name, value in parameters.items():
            if name.lower() in IDENTITIES:
                not_supported(f"{name.lower()} in the startup packet")
            self.settings.set(name, value)
        self.settings.become_defaults()

    def set_identity(self, name: str, wanted: str | None, local: bool = False) -> None:
        """SET ROLE and SET SESSION AUTHORIZATION; None goes back to the session's own. Raises 22023, 42501."""
        in_transaction = self.in_block or self.transaction is not None
        catalog = self.catalog
        owner = self.role.name if name == "session_authorization" else self.session_user_name
        user = owner if wanted is None or (name == "role" and wanted == "none") else wanted
        found, base = (catalog.get(catalog.roles.get(item, 0)) for item in (user, owner))
        if not isinstance(found, Role):
            raise SqlError("22023", f'role "{user}" does not exist')
        if user != owner and not (isinstance(base, Role) and base.superuser):
            if name == "session_authorization":
                raise SqlError("42501", "permission denied to set session authorization")
            if not isinstance(base, Role) or not _is_member(catalog, base, found.oid):
                raise SqlError("42501", f'permission denied to set role "{user}"')
        settings = self.settings
        if name == "session_authorization":
            settings.set(name, user, local=local, in_transaction=in_transaction)
        role = "none" if name == "session_authorization" or user == owner else user
        settings.set("role", role, local=local, in_transaction=in_transaction)
        settings.force("is_superuser", "on" if found.superuser else "off")

    # ---- what plans depend on -----------------------------------------------------------------------------------

    def _settings_changed(self) -> None:
        settings = self.settings
        role = settings.get("role")
        self.session_user_name = settings.get("session_authorization")
        self.user_name = role if role != "none" else self.session_user_name
        path = settings.search_path(self.user_name)
        self.search_path = path
        self.cache: PlanCache = self.node.plans(
            PlanKey(self.database_oid, path, self.user_name, settings.format_settings(), settings.get("shoal.path"))
        )
        self.key = self.cache.key  # one object for all sessions with these settings
        self._find = self.cache.plans
        self.statement_timeout = milliseconds(settings.get("statement_timeout"))
        self.lock_timeout = milliseconds(settings.get("lock_timeout"))
        self.idle_timeouts = {
            "I": milliseconds(settings.get("idle_session_timeout")),
            "T": milliseconds(settings.get("idle_in_transaction_session_timeout")),
        }
        self.may_time_out = any(self.idle_timeouts.values())
        self.unheard = UNHEARD.get(settings.get("client_min_messages"), frozenset())

    @property
    def committed_catalog(self) -> Catalog:
        """The newest committed catalog of the session's database."""
        return self.node.catalogs[self.database_oid]

    @property
    def catalog(self) -> Catalog:
        """The committed catalog, or the transaction's own successor of it."""
        transaction = self.transaction
        if transaction is None or not transaction.changed_objects:
            return self.committed_catalog
        committed = self.committed_catalog
        if transaction.catalog is None or transaction.catalog_base is not committed:
            transaction.catalog_base = committed
            transaction.catalog = committed.with_changes(transaction.changed_objects)
        return transaction.catalog

    @property
    def environment(self) -> Environment:
        path = self.search_path
        if self.temporary_schema is not None:
            path = (self.temporary_schema_name, *path)
        return Environment(self.catalog, path, self.user_name, self.database_name, self.key.format)

    @property
    def temporary_schema_name(self) -> str:
        return f"pg_temp_{self.process_id}"

    def call_now(self) -> CallContext:
        """What functions of a statement that runs now may ask for."""
        clock = self.node.clock()
        return self._call(clock, clock if self.transaction is None else self.transaction.start_time)

    def _call(self, statement: int, transaction: int) -> CallContext:
        return CallContext(statement, transaction, self.key.format.timezone, self)

    # ---- the cached path ----------------------------------------------------------------------------------------

    def find(self, sql: bytes) -> tuple[Prepared, Sequence[object]] | None:
        """A cached plan for the text of a simple Query, and its parameters; None sends the text to `run`."""
        prepared = self._find.get(sql)
        if prepared is not None:
            return (prepared, ()) if prepared.catalog is self.committed_catalog and self._plain() else None
        lifted = lift(sql)
        if lifted is None:
            return None
        template, literals, tags = lifted
        key = (template, tags)
        prepared = self._find.get(key)
        if prepared is None:
            if key in self._find or not self._plain():
                return None
            prepared = planning.prepare_lifted(self, template, tags)
            self.cache.put(key, prepared)
            if prepared is None:
                return None
        elif prepared.catalog is not self.committed_catalog:
            del self._find[key]
            return self.find(sql)
        elif not self._plain():
            return None
        try:
            return prepared, planning.decode_literals(prepared, literals, tags)
        except SqlError:
            return None  # planned with its literals in place, the statement fails with the place in its text

    def _plain(self) -> bool:
        """Whether cached plans may be used: no schema changes of this transaction's own, no temporary tables."""
        transaction = self.transaction
        return self.temporary_schema is None and (transaction is None or not transaction.changed_objects)

    def execute_row(self, prepared: Prepared, run: RunRow, parameters: Sequence[object]) -> tuple[bytes, int, int]:
        """Runs a row plan: framed rows, row count, and an LSN that must be durable before the client is told (0: none).

        Raises LockWait, RowPathFull and StalePlan (the caller goes to `run`), SqlError (the caller calls `fail`).
        """
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
                logged = node.sequences.last_logged_lsn
                return data, count, logged if logged > node.store.durable_lsn else 0
            transaction = self.begin_implicit()
        elif self.status == "E":
            raise aborted()
        transaction.begin_statement()
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
        if prepared.writes and transaction.read_only:
            transaction.refuse_if_read_only(prepared.command)
        mark = transaction.mark()
        try:
            data, count = run(context, parameters)
        except BaseException as error:
            transaction.rollback_to(mark)
            if isinstance(error, RowPathFull):  # it starts anew, and may want a stronger lock first
                for taken in list(held)[held_before:]:
                    transaction.unlock_table(taken)
            raise
        return data, count, 0

    def begin_implicit(self) -> Transaction:
        """The transaction of statements outside a block."""
        self.transaction = self._new_transaction()
        return self.transaction

    def _new_transaction(self) -> Transaction:
        settings = self.settings
        isolation = settings.get("default_transaction_isolation")
        read_only = settings.get("default_transaction_read_only") == "on"
        node = self.node
        return Transaction(
            node.store,
            node.row_locks,
            node.table_locks,
            self.process_id,
            node.clock(),
            READ_COMMITTED if isolation == "read uncommitted" else isolation,
            read_only,
        )

    def finish(self) -> int:
        """Commits the implicit transaction, if there is one. Returns the LSN to wait for (0: nothing)."""
        if self.transaction is None or self.in_block:
            return 0
        return self._commit()

    def _commit(self) -> int:
        transaction = self.transaction
        assert transaction is not None
        changed = transaction.changed_objects
        exclusive = transaction.exclusive
        # From here on the transaction is sequenced: it will be durable, or the node stops.
        self.transaction = None
        self.in_block = False
        self.status = "I"
        try:
            lsn = self.node.commits.commit(transaction)
        except BaseException:
            transaction.abort()
            raise
        if changed:
            self.node.publish_when_durable(lsn, transaction)
        elif exclusive:
            self.node.exclusive_tables -= 1
        logged = self.node.sequences.last_logged_lsn
        if not lsn and logged > self.node.store.durable_lsn:
            lsn = logged  # it may have drawn values from sequences
        self.settings.end_transaction(True)
        if self.portals:
            self._close_portals(committed=True)
        return lsn

    def fail(self, error: SqlError) -> None:
        """An error ended the statement: the transaction is over, or failed back to its last savepoint."""
        transaction = self.transaction
        if transaction is None:
            return
        if not self.in_block:
            self._abort()
            return
        if self.status == "E":
            return
        self.status = "E"
        if transaction.waiting is not None:
            transaction.waiting.cancel(error)
        if transaction.savepoints:
            transaction.rollback_to_savepoint(transaction.savepoints[-1].name)
        else:
            self._let_go(transaction)
        self._close_portals(committed=False)

    def _let_go(self, transaction: Transaction) -> None:
        if transaction.exclusive:
            self.node.exclusive_tables -= 1
            transaction.exclusive = False
        transaction.abort()
        transaction.changed_objects = {}
        transaction.catalog = None

    def _abort(self) -> None:
        transaction = self.transaction
        self.transaction = None
        self.in_block = False
        self.status = "I"
        if transaction is not None:
            self._let_go(transaction)
        self.settings.end_transaction(False)
        self._close_portals(committed=False)

    def _close_portals(self, committed: bool) -> None:
        for name in list(self.portals):
            portal = self.portals[name]
            if not (committed and portal.holdable):
                self.close_portal(name)

    # ---- transaction statements ---------------------------------------------------------------------------------

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
        if kind not in ("savepoint", "release", "rollback_to"):
            not_supported("two-phase commit")
        return self._savepoint_statement(kind, statement.name or ""), 0

    def _begin(self, statement: ast.TransactionStmt) -> None:
        if self.in_block:
            if self.status == "E":
                raise aborted()
            self.warn("25001", "there is already a transaction in progress")
        transaction = self.transaction or self.begin_implicit()
        self.in_block = True
        self.status = "T"
        if statement.isolation is not None:
            self.set_isolation(transaction, statement.isolation)
        if statement.read_only is not None:
            transaction.read_only = statement.read_only

    def set_isolation(self, transaction: Transaction, isolation: str) -> None:
        """SET TRANSACTION ISOLATION LEVEL. Raises 25001 after the first query, 0A000 for SERIALIZABLE."""
        if isolation == "serializable":
            not_supported("isolation level SERIALIZABLE", hint="Use REPEATABLE READ.")
        if transaction.has_writes or transaction.has_snapshot:
            raise SqlError("25001", "SET TRANSACTION ISOLATION LEVEL must be called before any query")
        transaction.isolation = READ_COMMITTED if isolation == "read uncommitted" else isolation

    def _end(self, statement: ast.TransactionStmt, committed: bool) -> tuple[str, int]:
        lsn = 0
        isolation = self.transaction.isolation if self.transaction else READ_COMMITTED
        if not self.in_block:
            self.warn("25P01", "there is no transaction in progress")
            if self.transaction is not None:
                if committed:
                    lsn = self._commit()
                else:
                    self._abort()
        elif self.status == "E" or not committed:
            committed = False
            self._abort()
        else:
            lsn = self._commit()
        if statement.chain:
            transaction = self.begin_implicit()
            transaction.isolation = isolation
            self.in_block, self.status = True, "T"
        return ("COMMIT" if committed else "ROLLBACK"), lsn

    def _savepoint_statement(self, kind: str, name: str) -> str:
        transaction = self.transaction
        word = {"savepoint": "SAVEPOINT", "release": "RELEASE SAVEPOINT", "rollback_to": "ROLLBACK TO SAVEPOINT"}[kind]
        if transaction is None or not self.in_block:
            raise SqlError("25P01", f"{word} can only be used in transaction blocks")
        if kind == "rollback_to":
            transaction.rollback_to_savepoint(name)
            state = transaction.savepoints[-1].settings
            if state is not None:
                self.settings.restore(state)
            self.status = "T"
            return "ROLLBACK"
        if self.status == "E":
            raise aborted()
        if kind == "savepoint":
            transaction.savepoint(name, self.settings.state())
            return "SAVEPOINT"
        transaction.release_savepoint(name)
        return "RELEASE"

    # ---- prepared statements and portals ------------------------------------------------------------------------

    def parse(self, name: bytes, sql: bytes, types: tuple[int, ...]) -> Prepared:
        """Parse: plans a statement and keeps it under the name. Raises 42P05 for a name in use."""
        self._refuse_known(name)
        return self._keep(name, planning.prepare_text(self, sql, types))

    async def parse_long(self, name: bytes, sql: bytes, types: tuple[int, ...]) -> Prepared:
        """`parse` for a text of LONG_TEXT bytes or more: in a thread, unless the plan is known."""
        self._refuse_known(name)
        prepared = planning.cached_text(self, sql, types)
        if prepared is None:
            planned = await asyncio.to_thread(planning.plan_text, self, sql, types)
            prepared = planning.remembered(self, sql, types, planned)
        return self._keep(name, prepared)

    def _refuse_known(self, name: bytes) -> None:
        if name and name in self.prepared:
            raise SqlError("42P05", f'prepared statement "{name.decode()}" already exists')

    def _keep(self, name: bytes, prepared: Prepared) -> Prepared:
        if self.status == "E":
            self.refuse_in_failed_block(prepared.statement)
        self.prepared[name] = prepared
        return prepared

    def statement(self, name: bytes) -> Prepared:
        """The prepared statement of that name, planned again if the schema changed. Raises 26000."""
        prepared = self.prepared.get(name)
        if prepared is None:
            shown = f'prepared statement "{name.decode()}"' if name else "unnamed prepared statement"
            raise SqlError("26000", f"{shown} does not exist")
        if prepared.catalog is not self.committed_catalog or not self._plain() or prepared.key is not self.key:
            prepared = self.prepared[name] = planning.renew(self, prepared)
        return prepared

    def ready_plan(self, name: bytes) -> Prepared | None:
        """The prepared statement, if it is a row plan or ends or begins a transaction, and can run as it is; None where
        Bind has more to do."""
        prepared = self.prepared.get(name)
        if (
            prepared is None
            or not (prepared.kind == "row" or prepared.control is not None)
            or prepared.catalog is not self.node.catalogs[self.database_oid]
            or prepared.key is not self.key
            or self.status == "E"
            or not self._plain()
        ):
            return None
        if self.portals:
            unnamed = self.portals.get(b"")
            if unnamed is not None:
                if unnamed.stream is not None:
                    return None
                del self.portals[b""]  # as Bind does
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
        """Bind: a portal over the statement. Raises 42P03 for a name in use."""
        prepared = self.statement(statement)
        if self.status == "E" and not ends_transaction(prepared):
            raise aborted()
        if name and name in self.portals:
            raise SqlError("42P03", f'cursor "{name.decode()}" already exists')
        if len(parameters) != len(prepared.parameter_types):
            message = (
                f"bind message supplies {len(parameters)} parameters, "
                f'but prepared statement "{statement.decode()}" requires {len(prepared.parameter_types)}'
            )
            raise SqlError("08P01", message)
        try:
            values = prepared.decode(parameters, parameter_formats)
        except SqlError as error:
            prepared.explain_parameter(error, name, parameters, parameter_formats)
            raise
        portal = Portal(prepared, values, prepared.formats(result_formats), name)
        old = self.portals.get(name)
        if old is not None and old.stream is not None:
            self.close_portal(name)
        self.portals[name] = portal
        return portal

    def portal(self, name: bytes) -> Portal:
        """The portal of that name. Raises 34000."""
        portal = self.portals.get(name)
        if portal is None:
            raise SqlError("34000", f'portal "{name.decode()}" does not exist')
        return portal

    def end_portals(self) -> None:
        """Sync outside a block ends every named portal that is not WITH HOLD; the unnamed one is soon replaced."""
        if len(self.portals) > 1 or b"" not in self.portals:
            self._close_portals(committed=True)

    def close_portal(self, name: bytes) -> None:
        portal = self.portals.pop(name, None)
        if portal is not None:
            self._stop(portal)

    def _stop(self, portal: Portal) -> None:
        """Ends what the portal still runs."""
        if portal.stream is not None:
            stream, portal.stream = portal.stream, None
            self.node.background(stream.close())

    # ---- everything that may wait -------------------------------------------------------------------------------

    async def simple_query(self, sql: bytes, sink: Sink) -> None:
        """Every statement of a simple Query, as one transaction unless it says otherwise. Raises SqlError; the caller
        calls `fail`. What is acknowledged is durable."""
        long = len(sql) >= LONG_TEXT
        statements = await asyncio.to_thread(parse, utf8(sql)) if long else parse(utf8(sql))
        if not statements:
            sink.empty()
        for number, statement in enumerate(statements, 1):
            if long and len(statements) == 1:
                prepared = await asyncio.to_thread(planning.prepare, self, statement, ())
            else:
                prepared = planning.prepare(self, statement, ())
            if len(statements) == 1 and self._plain() and planning.cacheable(prepared):
                self.cache.put(sql, prepared)
            last = number == len(statements) or self.ends_implicit(statement)
            await self._run_simple(prepared, (), sink, last)

    async def run_simple(
        self, prepared: Prepared, parameters: Sequence[object], sink: Sink, wait: BaseException | None
    ) -> None:
        """A statement that `find` gave and `execute_row` could not finish, because of `wait` (LockWait,
        RowPathFull)."""
        if isinstance(wait, LockWait):
            await self.wait_for(wait)
        await self._run_simple(prepared, parameters, sink, True)

    async def _run_simple(self, prepared: Prepared, parameters: Sequence[object], sink: Sink, last: bool) -> None:
        formats = prepared.text_formats
        if prepared.kind == "utility":
            from engine.session import utility

            formats = utility.simple_formats(self, prepared)
        held = self.table_locks()
        if prepared.kind not in ("utility", "empty"):
            prepared = await self.current(prepared, fixed=False)
            formats = prepared.text_formats
        portal = Portal(prepared, parameters, formats)
        portal.held = held
        answer = Answer(sink)
        sink.fields(prepared, portal.formats)
        await self.run(portal, 0, answer)
        if last:
            lsn = self.finish()
            if lsn:
                await self.durable(lsn)
        answer.release()

    def ends_implicit(self, statement: ast.Statement) -> bool:
        """COMMIT and ROLLBACK in a query string of several statements end what came before them."""
        return isinstance(statement.tree, ast.TransactionStmt) and not self.in_block

    def check_privileges(self, analyzed: tree.Analyzed) -> None:
        """42501 unless the user may touch every relation: superusers may, others only what they own (GRANT is refused
        by name, so there is nothing else to look at)."""
        self.check_owner(analyzed.relations)

    def check_owner(self, relations: Sequence[int]) -> None:
        """The same for relations by OID."""
        catalog = self.catalog
        user = catalog.get(catalog.roles.get(self.user_name, 0))
        if isinstance(user, Role) and user.superuser:
            return
        for oid in relations:
            item = catalog.get(oid)
            if isinstance(item, Table | View) and (user is None or item.owner != user.oid):
                kind = "table" if isinstance(item, Table) else "view"
                raise SqlError("42501", f"permission denied for {kind} {item.name}")

    async def run(self, portal: Portal, limit: int, sink: Sink) -> None:
        """Runs or resumes a portal: rows, then complete or suspended. Raises SqlError; the caller calls `fail`."""
        prepared = portal.prepared
        if self.status == "E" and not ends_transaction(prepared):
            raise aborted()
        if portal.done:
            if prepared.fields is None:
                raise SqlError("55000", f'portal "{portal.name.decode()}" cannot be run')
            sink.complete(f"{prepared.command} 0")
            return
        if not portal.started:
            portal.started = True
            self.query_text = prepared.statement.text
            self.query_start = self.node.clock()
            if prepared.kind == "empty":
                portal.done = True
                sink.empty()
                return
            if prepared.kind == "utility":
                from engine.session import utility

                await utility.execute(self, portal, limit, sink)
                return
            await self._start(portal)
        try:
            await self._deliver(portal, limit, sink)
        except BaseException:
            self._stop(portal)
            raise

    async def _start(self, portal: Portal) -> None:
        held = self.table_locks() if portal.held is None else portal.held
        prepared = portal.prepared = await self.current(portal.prepared)
        while prepared.kind == "row":
            try:
                portal.pending, portal.count = await self.execute_row_waiting(
                    prepared, prepared.run_row(portal.formats), portal.parameters
                )
                portal.pending_rows = portal.count if prepared.fields is not None else 0
                return
            except StalePlan:
                prepared = portal.prepared = await self.current(prepared)
            except RowPathFull:
                prepared = planning.columnar_of(self, prepared)
                break
        if self.transaction is None:
            self.begin_implicit()
            prepared = portal.prepared = await self.locked(prepared)
            planning.columnar_of(self, prepared)
        transaction = self.transaction
        assert transaction is not None
        if prepared.kind == "dml" or prepared.dml is not None:
            from engine.session import dml

            done = await dml.execute(self, prepared, portal.parameters, portal.formats, held)
            portal.count = done.count
            if done.returned is not None:
                portal.stream = done.returned
                portal.chunks = done.returned.__aiter__()
            return
        transaction.begin_statement()
        assert prepared.columnar is not None
        context = self.context()
        values = planning.columnar_parameters(self, prepared.columnar, portal.parameters, context)
        encoding = RowEncoding("datarow", portal.formats, self.key.format)
        virtual = virtual_content(self)
        stream = await self.node.columnar.rows(prepared.columnar, values, transaction, encoding, virtual)
        portal.stream = stream
        portal.chunks = stream.__aiter__()

    async def run_to_count(self, prepared: Prepared, parameters: Sequence[object]) -> int:
        """Runs a statement without RETURNING inside another one; the number of rows that it wrote."""
        portal = Portal(prepared, parameters, ())
        await self._start(portal)
        return portal.count

    async def execute_row_waiting(
        self, prepared: Prepared, run: RunRow, parameters: Sequence[object]
    ) -> tuple[bytes, int]:
        """execute_row, again after each lock that it had to wait for."""
        while True:
            try:
                data, count, lsn = self.execute_row(prepared, run, parameters)
            except LockWait as wait:
                await self.wait_for(wait)
                continue
            if lsn:
                await self.durable(lsn)
            return data, count

    def context(self) -> ExecContext:
        """An execution context of its own, for what outlives one synchronous call."""
        transaction = self.transaction
        clock = self.node.clock()
        start = transaction.start_time if transaction else clock
        context = ExecContext(
            transaction or self.node.store.current, transaction, self._call(clock, start), self.catalog, self.key.format
        )
        context.next_row_number = self.node.next_row_number
        return context

    def table_locks(self) -> Mapping[Hashable, int]:
        """The table locks that the transaction holds now."""
        return dict(self.transaction.table_locks) if self.transaction is not None else {}

    async def current(self, prepared: Prepared, fixed: bool = True) -> Prepared:
        """The statement's plan with its table locks taken; reads outside a block that meet no exclusive lock need
        none. `fixed`: the client knows the result's columns, so they must not have changed (0A000)."""
        if self.transaction is None:
            if prepared.kind == "row" and not prepared.writes and not self.node.exclusive_tables:
                return prepared if prepared.catalog is self.committed_catalog else self._again(prepared, fixed)
            self.begin_implicit()
        return await self.locked(prepared, fixed)

    async def locked(self, prepared: Prepared, fixed: bool = True) -> Prepared:
        """Takes the statement's table locks, and plans it again if the schema has changed meanwhile. Raises what
        planning raises, 40P01, 55P03, 25006."""
        transaction = self.transaction
        assert transaction is not None
        while True:
            for oid, mode in prepared.locks:
                await self.lock_table(transaction, oid, mode)
            if prepared.catalog is self.catalog:
                break
            prepared = self._again(prepared, fixed)
        if prepared.writes:
            transaction.refuse_if_read_only(prepared.command)
        return prepared

    def _again(self, prepared: Prepared, fixed: bool) -> Prepared:
        if fixed:
            return planning.renew(self, prepared)
        return planning.prepare(self, prepared.statement, prepared.parameter_types)

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
        if isinstance(ticket, Ticket) and ticket.space is self.node.table_locks:
            await self.durable(self.node.store.sequenced_lsn)  # what held the lock is to be seen

    async def durable(self, lsn: int) -> None:
        """Waits until the LSN is durable. Cannot be cancelled: a commit that is under way is not undone, so nobody is
        to be told that it was."""
        if lsn <= self.node.store.durable_lsn:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.node.commits.wait(lsn, partial(resolve, future))
        while not future.done():
            try:
                await asyncio.shield(future)
            except asyncio.CancelledError:
                self.cancel_error = None
                task = asyncio.current_task()
                if task is not None:
                    task.uncancel()

    async def _deliver(self, portal: Portal, limit: int, sink: Sink) -> None:
        prepared = portal.prepared
        if prepared.fields is None:
            portal.done = True
            sink.complete(tag(prepared.command, portal.count))
            return
        sent = 0
        while True:
            if portal.pending_rows:
                data, rows = portal.take(limit - sent if limit else 0)
                sent += rows
                if prepared.kind == "columnar" or prepared.columnar is not None:
                    portal.count += rows
                await sink.rows(data)
            if limit and sent >= limit and (portal.pending_rows or portal.stream is not None):
                sink.suspended()
                return
            if portal.pending_rows:
                continue
            if portal.stream is None:
                break
            chunk = await anext(portal.chunks, None)
            if chunk is None:
                portal.stream = None
                break
            portal.pending, portal.pending_rows = chunk
        portal.done = True
        # A tag counts the rows of this Execute: a portal may have been suspended before.
        sink.complete(tag(prepared.command, portal.count if prepared.writes else sent))

    # ---- ends ---------------------------------------------------------------------------------------------------

    def cancel(self, error: SqlError | None = None) -> None:
        """Ends the running statement with 57014, or with this error. A commit under way goes on."""
        if self.task is not None and not self.task.done():
            self.cancel_error = error or canceled()
            if self.running:
                self.task.cancel()
        elif self.transaction is not None and self.transaction.waiting is not None:
            self.transaction.waiting.cancel(error or canceled())

    async def close(self) -> None:
        """The connection is gone: rolls back, frees every lock, drops temporary tables."""
        try:
            self._abort()
            if self.temporary_schema is not None:
                from engine.session import ddl

                await ddl.drop_temporary(self)
        finally:
            self.node.unregister(self.process_id)

    def warn(self, sqlstate: str, message: str, severity: str = "WARNING", hint: str | None = None) -> None:
        """A notice to be sent before the statement's answer."""
        self.notices.append(SqlError(sqlstate, message, severity=severity, hint=hint))

    # ---- what functions ask of the session (SessionServices) ----------------------------------------------------

    @property
    def surroundings(self) -> SessionSurroundings:
        """Names, definitions and privileges as the session sees them now."""
        return SessionSurroundings(self)

    def setting(self, name: str) -> str:
        return self.settings.get(name)

    def set_setting(self, name: str, value: str, local: bool) -> None:
        if name.lower() in IDENTITIES:
            self.set_identity(name.lower(), value, local)
        else:
            self.settings.set(name, value, local=local, in_transaction=True)

    def next_value(self, sequence: int) -> int:
        item = self._sequence(sequence)
        if self.transaction is not None:
            self.transaction.refuse_if_read_only("nextval()")
        value = self.node.sequences.next_value(item)
        self.sequence_values[sequence] = value
        self.last_sequence = sequence
        return value

    def current_value(self, sequence: int) -> int:
        item = self._sequence(sequence)
        if sequence not in self.sequence_values:
            raise SqlError("55000", f'currval of sequence "{item.name}" is not yet defined in this session')
        return self.sequence_values[sequence]

    def last_value(self) -> int:
        if self.last_sequence is None:
            raise SqlError("55000", "lastval is not yet defined in this session")
        return self.sequence_values[self.last_sequence]

    def set_value(self, sequence: int, value: int, is_called: bool) -> None:
        self.node.sequences.set_value(self._sequence(sequence), value, is_called)
        if is_called:
            self.sequence_values[sequence] = value
            self.last_sequence = sequence

    def _sequence(self, oid: int) -> SequenceObject:
        item = self.catalog.get(oid)
        if isinstance(item, SequenceObject):
            return item
        if isinstance(item, Table | Schema):
            raise SqlError("42809", f'"{item.name}" is not a sequence')
        raise SqlError("42P01", f"relation with OID {oid} does not exist")

    def object(self, oid: int) -> SchemaObject | None:
        return self.catalog.get(oid)


def _is_member(catalog: Catalog, role: Role, of: int) -> bool:
    """Whether a role is another one or a member of it, directly or through others."""
    waiting, seen = [role.oid], set[int]()
    while waiting:
        oid = waiting.pop()
        item = catalog.get(oid)
        if oid == of:
            return True
        if oid not in seen and isinstance(item, Role):
            seen.add(oid)
            waiting += item.member_of
    return False


def idle_error(status: str) -> SqlError:
    """What ends a session that has idled too long, in this state of ReadyForQuery."""
    if status == "I":
        return SqlError("57P05", "terminating connection due to idle-session timeout", severity="FATAL")
    return SqlError("25P03", "terminating connection due to idle-in-transaction timeout", severity="FATAL")


def tag(command: str, count: int) -> str:
    """The command tag: INSERT has a zero for the OID that it used to report."""
    return f"INSERT 0 {count}" if command == "INSERT" else f"{command} {count}"


def aborted() -> SqlError:
    return SqlError("25P02", "current transaction is aborted, commands ignored until end of transaction block")


def canceled() -> SqlError:
    return SqlError("57014", "canceling statement due to user request")


def ends_transaction(prepared: Prepared) -> bool:
    """Whether a failed block accepts it: COMMIT, ROLLBACK, ROLLBACK TO."""
    return ends_block(prepared.statement.tree)


def ends_block(node: ast.Node) -> bool:
    """The same of a parsed statement."""
    return isinstance(node, ast.TransactionStmt) and node.kind in ("commit", "end", "rollback", "abort", "rollback_to")


def lock_modes(relations: Sequence[int], written: Sequence[int], marked: bool) -> tuple[tuple[int, int], ...]:
    """The table locks of a statement: (OID, mode)."""
    modes = {oid: ROW_SHARE if marked else ACCESS_SHARE for oid in relations}
    modes.update(dict.fromkeys(written, ROW_EXCLUSIVE))
    return tuple(modes.items())
