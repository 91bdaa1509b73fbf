"""A session: the state of one connection.

The cached path, which never waits:

    find        engine/statements/find.py    the plan of a text
    rows.run    row_runner.py                runs a row path plan
    finish      transactions.py              commits

Everything else may wait: engine/statements/run.py. This class has the data of the cached path; parts with methods of
their own have the rest:

    identity, variables, sequences, portals, advisory, notifications, large_objects, client
    transactions, waits, timeouts, leadership, rows
    views, temporary    from packages above (interface.py)
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Collection
from time import perf_counter
from typing import TYPE_CHECKING

from catalog.catalog import Catalog
from catalog.errors import SqlError, not_supported
from catalog.functions.base import CallContext
from catalog.memory import UNLIMITED, Account
from catalog.privileges import may_set
from catalog.schema import Database, Role
from engine.execute.context import ExecContext
from engine.execute.written import Written
from engine.foreign.connections import ForeignConnections
from engine.node.node import Node
from engine.node.plan_cache import PlanCache, PlanKey
from engine.past.nodes import PastNode
from engine.session import statement_log
from engine.session.advisory import AdvisoryLocks
from engine.session.asynchronous_commit import become_asynchronous
from engine.session.client import Client
from engine.session.errors import aborted_error, canceled_error
from engine.session.function_calls import FunctionCalls
from engine.session.functions import FunctionServices
from engine.session.identity import Identity
from engine.session.interface import SessionParts
from engine.session.large_objects import LargeObjects
from engine.session.leadership import Leadership
from engine.session.notifications import SessionNotifications
from engine.session.other_waits import Work
from engine.session.portals import Portals
from engine.session.prepared import Prepared
from engine.session.row_runner import RowRunner, SerializableRunner, WatchedRunner
from engine.session.sequences import SessionSequences
from engine.session.setting_definitions import IDENTITIES, MEMORY_LIMITS, byte_count, milliseconds
from engine.session.settings import Settings, is_for_superusers, not_permitted
from engine.session.transactions import TransactionControl, ends_block
from engine.session.variables import SessionVariables
from engine.session.waits import Timeouts, Waits
from engine.sql import ast
from engine.sql.analyze import Environment
from engine.sql.analyze.environment import usable_path
from engine.sql.dialects.names import SHOAL
from engine.statistics.statements import threshold
from engine.txn.interface import READ_COMMITTED, SERIALIZABLE, LockWait
from engine.txn.serializable import Safety
from engine.txn.transaction import Transaction

if TYPE_CHECKING:
    from collections.abc import Sequence

    from catalog.schema import VirtualTable
    from engine.bulk.progress import CopyProgress
    from engine.session.ddl_events import DdlEvents
    from engine.storage.moments import Lsn
    from engine.txn.statement_view import StatementView


def _nothing() -> None:
    pass


# Notices that client_min_messages hides; with debug1 to debug5 the client gets all of them.
UNHEARD = {
    "log": frozenset({"DEBUG"}), "notice": frozenset({"DEBUG"}), "warning": frozenset({"DEBUG", "NOTICE"}),
    "error": frozenset({"DEBUG", "NOTICE", "WARNING"}),
}  # fmt: skip


class StatementContext(ExecContext):
    """The context of the cached path, one per session: a statement that does not use the time does not read the clock.

    `made` is the statement's CallContext, after its first use.
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


class _Use:
    """See Session.using."""

    __slots__ = ("_in_use", "_relations")

    def __init__(self, in_use: list[Collection[int]], relations: Collection[int]) -> None:
        self._in_use, self._relations = in_use, relations

    def __enter__(self) -> None:
        self._in_use.append(self._relations)

    def __exit__(self, *_: object) -> None:
        self._in_use.pop()


class Session:
    """`database` is the name of the OID; `parameters` are the settings of the startup packet; `parts` come from
    packages above. Raises the errors of SET for the parameters."""

    settings: Settings
    key: PlanKey
    search_path: tuple[str, ...]
    query_memory: int
    written: Written
    process_id: int  # the node assigns it to the whole session, for CancelRequest and pg_backend_pid()
    secret: bytes

    def __init__(
        self,
        node: Node,
        role: Role,
        database_oid: int,
        database: str,
        parameters: dict[str, str],
        parts: SessionParts[Session],
    ) -> None:
        self.node = node
        self.present = node  # the same, unless the session reads the past (engine/statements/as_of.py)
        self.today: Node | None = None  # the present node, in a session of it that reads the past
        self.foreign: ForeignConnections | None = None  # after the first use of a foreign table
        self.past_reader: object = None  # the runner of the last statement with AS OF
        self.memory = Account(node.memory)
        self.role = role
        self.database_oid = database_oid
        self.database_name = database
        self.session_user_name = self.user_name = role.name
        self.transaction: Transaction | None = None
        self.status = "I"
        self.in_block = False
        self.prepared: dict[bytes, Prepared] = {}
        self.notices: list[SqlError] = []
        self.temporary_schema: int | None = None
        self.last_commit = 0  # LSN, of this session
        self.work: dict[str, Work] = {}  # waits of functions, by their names
        self.copying: CopyProgress | None = None  # while a COPY runs
        self.safety: Safety | None = None  # the process ids that delay its snapshot
        self.local_relations: dict[str, VirtualTable] = {}  # transition tables of the trigger that runs, by name
        self.local_rows: dict[int, Sequence[Sequence[object]]] = {}  # their rows, by OID
        self._environment: tuple[tuple[PlanKey, int | None], Environment] | None = None  # its last one
        self._begin_activity()
        self._make_parts()
        self._start_settings(parameters)
        self.function_calls = FunctionCalls(self)
        self._follow_settings()
        self.settings.on_change = self.settings_changed
        self.row_context = StatementContext(self)
        self.row_context.next_row_number = node.next_row_number
        self.row_context.written = self.written
        self._limit_memory()
        self.parts = parts
        self.views = parts.views(self)
        self.temporary = parts.temporary(self)
        self.routines = parts.routines(self)
        self.process_id, self.secret = node.register(self)
        node.activity.count_open(self)

    def _begin_activity(self) -> None:
        """For pg_stat_activity (activity.py)."""
        self.task: asyncio.Task[None] | None = None
        self.running = False  # the task has begun: before that, cancelling it would keep it from cleaning up
        self.cancel_error: SqlError | None = None
        self.shown: Prepared | bytes | str = ""  # the statement that runs, or ran last
        self.began = 0.0  # start of the current or last statement: time.perf_counter(), 0 before the first one
        self.ended = 0.0  # end of the last statement that may have waited
        self.waited = 0.0  # seconds that the statement has waited for locks, before it runs again
        self.depth = 0  # number of nested statements that may wait
        self.more_follow = False  # whether statements of the same query string follow
        self.statement_view: StatementView | None = None  # what the running statement sees, if it calls functions
        self.call_depth = 0  # number of nested calls of users' functions and procedures
        self.ddl_events: DdlEvents | None = None  # while a command runs for which event triggers may fire
        self.in_use: list[Collection[int]] = []  # the relations of the statements around the running one
        self.commits = 0
        self.rollbacks = 0

    def _make_parts(self) -> None:
        self.identity = Identity(self)
        self.variables = SessionVariables(self, self.identity)
        self.sequences = SessionSequences(self, self.identity)
        self.portals = Portals(self)
        self.functions = FunctionServices(self)
        self.client = Client(self.node.clock())
        self.leadership = Leadership(self)
        self.timeouts = Timeouts(self)
        self.transactions = TransactionControl(self)
        self.waits = Waits(self)
        self.plain_rows = self.rows = RowRunner(self)  # the plain runner, and the one with wrappers for settings
        self.advisory_held: AdvisoryLocks | None = None  # after the first use of advisory locks
        self.notifying: SessionNotifications | None = None  # after the first use of LISTEN or NOTIFY
        self.large_objects_held: LargeObjects | None = None  # after the first use of large objects

    @property
    def user(self) -> Role | None:
        """The current user; None if the role has been dropped."""
        return self.identity.user

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

    @property
    def notifications(self) -> SessionNotifications:
        """The session's part in LISTEN and NOTIFY."""
        if self.notifying is None:
            self.notifying = SessionNotifications(self)
        return self.notifying

    def warn(self, sqlstate: str, message: str, severity: str = "WARNING", hint: str | None = None) -> None:
        """Sends a notice before the statement's answer."""
        self.notices.append(SqlError(sqlstate, message, severity=severity, hint=hint))

    # ---- settings ---------------------------------------------------------------------------------------------------

    def _start_settings(self, parameters: dict[str, str]) -> None:
        """Applies the server's defaults, ALTER DATABASE ... SET, ALTER ROLE ... SET, then the startup packet. Raises
        the errors of SET for the startup packet. Stored settings may be older than the present rules, so their errors
        are warnings."""
        self._custom_bytes = 0  # memory of the session's own settings
        self.settings = settings = Settings({})
        settings.force("is_superuser", "on" if self.role.superuser else "off")
        settings.force("session_authorization", self.role.name)
        catalog, variables = self.node.shared_catalog, self.variables
        database, role = catalog.get(self.database_oid), catalog.get(self.role.oid)
        if isinstance(database, Database):
            settings.force("lc_collate", database.collate)
            settings.force("lc_ctype", database.ctype)
        for name, value in self.node.default_settings.items():
            settings.set(name, value)
        for item in (database, role):
            for name, value in item.settings if isinstance(item, Database | Role) else ():
                if name.lower() in IDENTITIES:
                    continue
                try:
                    variables.check_encoding(name, value)
                    settings.set(name, value)
                except SqlError as error:
                    self.warn(error.sqlstate, error.message)
        variables.given_limits = {name: settings.get(name) for name in MEMORY_LIMITS}
        for name, value in parameters.items():
            if name.lower() in IDENTITIES:
                not_supported(f"{name.lower()} in the startup packet")
            if not may_set(self.committed_catalog, self.role, name):
                if is_for_superusers(name):
                    raise not_permitted(name)
                variables.check_limit(name, value)
            variables.check_encoding(name, value)
            settings.set(name, value)
        settings.become_defaults()

    @property
    def is_top_level(self) -> bool:
        """Whether the running statement is the client's own, not one of a function."""
        return self.depth <= 1

    def using(self, relations: Collection[int]) -> _Use:
        """A block in which the statements of functions and triggers run, within one that uses these relations."""
        return _Use(self.in_use, relations)

    @property
    def has_block(self) -> bool:
        """Whether the transaction goes on after the running statement: in a block, and in a function."""
        return self.in_block or self.depth > 1

    def settings_changed(self) -> None:
        """Settings have new values, or the current user has changed."""
        self._follow_settings()
        self.row_context.written = self.written
        self._limit_memory()

    def _follow_settings(self) -> None:
        settings = self.settings
        self._find_plans()
        self.statement_timeout = milliseconds(settings.get("statement_timeout"))
        self.lock_timeout = milliseconds(settings.get("lock_timeout"))
        self.timeouts.follow(milliseconds(settings.get("transaction_timeout")))
        self.idle_timeouts = {
            "I": milliseconds(settings.get("idle_session_timeout")),
            "T": milliseconds(settings.get("idle_in_transaction_session_timeout")),
        }
        self.may_time_out = any(self.idle_timeouts.values())
        self.query_memory = byte_count(settings.get("query_memory_limit")) or UNLIMITED
        self.memory.wanted = byte_count(settings.get("connection_memory_limit"))
        if settings.custom_bytes != self._custom_bytes:
            self.memory.owe(settings.custom_bytes - self._custom_bytes)
            self._custom_bytes = settings.custom_bytes
        isolation = settings.get("default_transaction_isolation")
        self.default_isolation = READ_COMMITTED if isolation == "read uncommitted" else isolation
        self.default_read_only = settings.get("default_transaction_read_only") == "on"
        self.is_replica = settings.get("session_replication_role") == "replica"
        if self.transaction is not None:
            self.transaction.is_replica = self.is_replica
        self.log_over = threshold(milliseconds(settings.get("log_min_duration_statement")))
        self.client.unheard = UNHEARD.get(settings.get("client_min_messages"), frozenset())
        self.function_calls.follow()
        self.written = self.node.written if settings.get("track_counts") == "on" else Written()
        self._choose_runner()

    def _find_plans(self) -> None:
        """Determines the user, and the plan cache for the settings."""
        settings = self.settings
        role = settings.get("role")
        self.session_user_name = settings.get("session_authorization")
        self.user_name = role if role != "none" else self.session_user_name
        if self.identity.acting is not None:
            self.user_name = self.identity.acting.name
        self.search_path = settings.search_path(self.user_name)
        self.cache: PlanCache[Prepared] = self.node.plans(
            PlanKey(
                self.database_oid,
                self.search_path,
                self.user_name,
                settings.format_settings(),
                settings.get("shoal.path"),
                settings.get("standard_conforming_strings") == "on",
                settings.get("sql_dialect"),
                settings.get("row_security") == "on",
            )
        )
        self.key = self.cache.key  # one object for all sessions with these settings
        self.known_plans = self.cache.plans
        self.unliftable = self._unliftable()

    def _unliftable(self) -> bytes | None:
        """A pattern of texts whose literals cannot be lifted: with backslash escapes, and in another dialect all."""
        if self.key.dialect != SHOAL:
            return b""
        return None if self.key.conforming else b"\\"

    def _choose_runner(self) -> None:
        if self.settings.get("synchronous_commit") in ("off", "remote_apply"):
            become_asynchronous(self)
        rows = self.plain_rows
        if self.default_isolation == SERIALIZABLE:
            rows = SerializableRunner(rows)
        if self.log_over != math.inf:
            rows = WatchedRunner(rows)
        self.rows = rows

    def _limit_memory(self) -> None:
        context = self.row_context
        context.memory_limit = self.query_memory
        context.account = self.memory
        context.timeout = self.statement_timeout / 1000

    def plan_anew(self) -> None:
        """Forgets the plans that the session has found: its node has dropped them."""
        self.cache = self.node.plans(self.key)
        self.known_plans = self.cache.plans

    # ---- the node that it reads --------------------------------------------------------------------------------------

    def stand_on(self, node: Node) -> None:
        """The session now reads another node: the present one, or one of the past."""
        self.node = node
        self.row_context.next_row_number = node.next_row_number
        self.settings_changed()

    def leave_past(self) -> None:
        """The session reads the present again."""
        if self.node is not self.present:
            node = self.node
            assert isinstance(node, PastNode)
            self.stand_on(self.present)
            node.close()
            self.settings.force("as_of", "")

    @property
    def committed_catalog(self) -> Catalog:
        """The newest committed catalog of the session's database."""
        return self.node.catalogs[self.database_oid]

    @property
    def catalog(self) -> Catalog:
        """The committed catalog, or the transaction's changed version of it."""
        transaction = self.transaction
        if transaction is None or not transaction.changed_objects:
            return self.committed_catalog
        committed = self.committed_catalog
        if transaction.catalog is None or transaction.catalog_base is not committed:
            transaction.catalog_base = committed
            transaction.catalog = committed.with_changes(transaction.changed_objects)
        return transaction.catalog

    @property
    def catalog_today(self) -> Catalog | None:
        """In a session that reads the past: the present catalog, whose privileges are needed too."""
        now = self.today or self.present
        return None if now is self.node else now.catalogs.get(self.database_oid)

    @property
    def usable_path(self) -> tuple[str, ...]:
        return usable_path(self.catalog, self.search_path, self.user_name, self.catalog_today)

    @property
    def environment(self) -> Environment:
        """One object for all statements that are analysed with the same catalogs and settings, so that privileges on
        the schemas of the search path are checked once."""
        catalog, today = self.catalog, self.catalog_today
        of = (self.key, self.temporary_schema)
        known = self._environment
        if known is not None and known[0] == of and known[1].catalog is catalog and known[1].today is today:
            known[1].make_current()
            return known[1]
        path = self.usable_path
        if self.temporary_schema is not None:
            own = self.temporary_schema_name
            if own not in path:  # the environment puts it where the path says "pg_temp"
                path = (own, *path)
        made = Environment(
            catalog, path, self.user_name, self.database_name, self.key.format, True, self.local_relations, today
        )
        self._environment = (of, made)
        return made

    @property
    def temporary_schema_name(self) -> str:
        return f"pg_temp_{self.process_id}"

    # ---- running ----------------------------------------------------------------------------------------------------

    def call_now(self) -> CallContext:
        """The services that functions of the current statement may use."""
        clock = self.node.clock()
        return self._call(clock, clock if self.transaction is None else self.transaction.start_time)

    def _call(self, statement: int, transaction: int) -> CallContext:
        return CallContext(statement, transaction, self.key.format.timezone, self.functions, self.key.format)

    def context(self) -> ExecContext:
        """A separate execution context, for objects that outlive one synchronous call."""
        transaction = self.transaction
        clock = self.node.clock()
        start = transaction.start_time if transaction else clock
        node, format_ = self.node, self.key.format
        return ExecContext(
            transaction or node.store.current,
            transaction,
            CallContext(clock, start, format_.timezone, self.functions, format_),
            self.catalog,
            format_,
            node.next_row_number,
            None,
            None,
            self.written,
            self.query_memory,
            self.memory,
            self.statement_timeout / 1000,
        )

    def begins(self, sql: bytes) -> None:
        """Other sessions see this statement from now on."""
        self.shown = sql
        self.began = perf_counter()

    def plan_cache_catalog(self) -> Catalog | None:
        """The catalog for which shared plans are made; None if the session must not use them, because the transaction
        has changed the schema or there are temporary tables."""
        transaction = self.transaction
        if self.temporary_schema is None and (transaction is None or not transaction.changed_objects):
            return self.node.catalogs[self.database_oid]
        return None

    def ready_plan(self, name: bytes) -> Prepared | None:
        """The prepared statement, if it can run at once; None if Bind has more to do."""
        prepared = self.prepared.get(name)
        transaction = self.transaction
        if (
            prepared is None
            or prepared.catalog is not self.node.catalogs[self.database_oid]
            or prepared.key is not self.key
            or self.status == "E"
            or self.temporary_schema is not None
            or (transaction is not None and transaction.changed_objects)
            or not (prepared.plan.at_once or prepared.plan.is_prompt)
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
        """Raises 25P02 for a statement that a failed block refuses, before its names are looked up."""
        if not ends_block(statement.tree) and statement.text:
            raise aborted_error()

    def cancel(self, error: SqlError | None = None) -> None:
        """Ends the running statement with 57014, or with this error. A running commit continues."""
        if self.waits.cancel():
            return
        client = self.client
        if client.canceler is not None:
            client.canceler(error or canceled_error())
        elif self.task is not None and not self.task.done():
            self.cancel_error = error or canceled_error()
            if self.running:
                self.task.cancel()
        elif self.transaction is not None and self.transaction.waiting is not None:
            self.transaction.waiting.cancel(error or canceled_error())
        else:
            for work in self.work.values():
                work.cancel(error or canceled_error())
            if error is not None and error.severity == "FATAL" and client.terminator is not None:
                client.terminator(error)

    # ---- services for other packages --------------------------------------------------------------------------------

    def begin_implicit(self) -> Transaction:
        """The transaction of statements outside a block."""
        return self.transactions.begin_implicit()

    def finish(self) -> int:
        """Commits the implicit transaction, if there is one. Returns the LSN to wait for (0: nothing)."""
        return self.transactions.finish()

    async def lock_table(self, transaction: Transaction, oid: int, mode: int, wait: str = "block") -> None:
        """Locks a table, and waits without a limit."""
        await self.waits.lock_table(transaction, oid, mode, wait)

    async def wait_for(self, wait: LockWait) -> None:
        """Waits until the lock is granted. Raises the error that ended the wait."""
        await self.waits.wait_for(wait)

    async def durable(self, lsn: Lsn) -> None:
        """Waits until the LSN is durable."""
        await self.waits.durable(lsn)

    def node_leads(self) -> None:
        """The node has become the leader."""
        if self.client.on_lead is not None:
            self.client.on_lead()

    def check_leads(self) -> None:
        """Raises 40001 for work of the leader on a node that is no longer the leader."""
        self.leadership.check()

    @property
    def stands_on(self) -> frozenset[bytes]:
        """The tablespaces, by id, that the node must lead for the work that the transaction has done."""
        return self.leadership.stands_on

    def lose_transaction(self, error: SqlError) -> None:
        """The node is no longer the leader: the running statement ends with the error, and the transaction is over."""
        self.leadership.lose_transaction(error)

    # ---- ends -------------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """The connection has ended: rolls back, releases every lock, drops temporary tables."""
        self.memory.give(self._custom_bytes)
        self._custom_bytes = 0
        try:
            self.transactions.abort()
            if self.advisory_held is not None:
                self.advisory_held.close()
            if self.notifying is not None:
                self.notifying.close()
            if self.foreign is not None:
                self.foreign.close()
            if self.temporary_schema is not None:
                await self.temporary.drop()
        finally:
            self.leave_past()
            self.node.activity.count_close(self)
            self.function_calls.close()
            statement_log.log_disconnection(self)
            self.node.unregister(self.process_id)
            self._fall_apart()

    def _fall_apart(self) -> None:
        """Breaks the references of an ended session, so that its rows, portals and prepared statements are freed now.
        Python's cyclic collector would be too late."""
        self.settings.on_change = _nothing
        self.advisory_held = self.notifying = self.large_objects_held = None
        self.past_reader = self.task = None
        self.prepared.clear()
        self.portals.clear()
        self.work.clear()
        del self.row_context, self.identity, self.variables, self.sequences, self.functions, self.leadership
        del self.function_calls
        del (
            self.portals,
            self.timeouts,
            self.transactions,
            self.waits,
            self.rows,
            self.plain_rows,
            self.views,
            self.temporary,
        )
