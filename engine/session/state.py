"""What a session is between statements: who it is, its settings, the catalog it sees, and what functions ask of it.

The lowest of a session's four layers (engine/session/session.py has the picture). Plans depend on some settings, and
those are kept as one `PlanKey`: when a setting changes, the session moves to the plan cache of its new key.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from catalog.encodings import encoding_named
from catalog.errors import SqlError, not_supported
from catalog.functions.base import CallContext
from catalog.memory import UNLIMITED, Account
from catalog.privileges import is_member, may, may_columns, may_set
from catalog.schema import Catalog, Database, Role, Schema, Table, View
from catalog.schema import Sequence as SequenceObject
from catalog.types.base import TypeRef
from engine.execute.context import ExecContext
from engine.node.node import Node
from engine.node.plan_cache import PlanCache, PlanKey
from engine.past.nodes import PastNode
from engine.session.portal import Portal
from engine.session.positioned import current_row
from engine.session.prepared import Prepared
from engine.session.settings import (
    DEFINITIONS,
    IDENTITIES,
    MEMORY_LIMITS,
    Settings,
    byte_count,
    is_for_superusers,
    milliseconds,
    not_permitted,
)
from engine.session.waiting import Work
from engine.sql import privileges, tree
from engine.sql.analyze import Environment
from engine.sql.analyze.environment import usable_path
from engine.sql.analyze.typenames import type_from_text
from engine.sql.lift import lift
from engine.statistics.statements import threshold
from engine.txn.interface import READ_COMMITTED
from engine.txn.locks import ROW_EXCLUSIVE
from engine.txn.transaction import Savepoint, Transaction

if TYPE_CHECKING:
    from engine.bulk.progress import CopyProgress
    from engine.session.advisory import AdvisoryLocks
    from engine.session.large_objects import LargeObjects
    from engine.session.notifications import SessionNotifications


def _nothing() -> None:
    pass


# What a client does not hear, by client_min_messages; with one of the levels from debug1 to debug5 it hears all.
UNHEARD = {
    "log": frozenset({"DEBUG"}), "notice": frozenset({"DEBUG"}), "warning": frozenset({"DEBUG", "NOTICE"}),
    "error": frozenset({"DEBUG", "NOTICE", "WARNING"}),
}  # fmt: skip


class StatementContext(ExecContext):
    """The context of the cached path, one per session: a statement that asks for no time pays for none.

    `made` is the statement's CallContext once something has asked for it.
    """

    __slots__ = ("_session", "made")

    def __init__(self, session: SessionState) -> None:
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


class SessionState:
    """What a session is between statements. `Session` says what the parameters of its constructor are."""

    transaction_timeout = 0  # milliseconds; 0: none
    process_id: int  # the node gives it to the whole session, for CancelRequest and pg_backend_pid()
    secret: bytes

    def __init__(self, node: Node, role: Role, database_oid: int, database: str, parameters: dict[str, str]) -> None:
        self.node = node
        self.past_reader: object = None  # what the last statement with AS OF was run by (engine/statements/as_of.py)
        self.memory = Account(node.memory)
        self.today: Node | None = None  # the present node, in a session that reads the past for another one
        self.present = node  # the same, unless the session reads the past (engine/statements/as_of.py)
        self.role = role
        self.database_oid = database_oid
        self.database_name = database
        self.session_user_name = role.name
        self.user_name = role.name
        self._acting: Role | None = None
        self._custom_bytes = 0  # of settings that the session has made up, as its memory counts them
        self.settings = Settings({})
        self.settings.force("is_superuser", "on" if role.superuser else "off")
        self.settings.force("session_authorization", role.name)
        self.notices: list[SqlError] = []
        self._start_settings(parameters)
        self.transaction: Transaction | None = None
        self.status = "I"
        self.in_block = False
        self.prepared: dict[bytes, Prepared] = {}
        self.portals: dict[bytes, Portal] = {}
        self.sequence_values: dict[int, int] = {}
        self.last_sequence: int | None = None
        self._sequence_allowed: object = None  # the last sequence whose privileges were looked at, and for whom
        self.last_commit = 0  # LSN, of this session
        self.portals_before: list[
            tuple[Savepoint, tuple[Portal, ...]]
        ] = []  # the portals that there were at savepoints
        self.modes_before: list[tuple[Savepoint, bool]] = []  # what was READ ONLY at savepoints, where it has changed
        self.advisory_held: AdvisoryLocks | None = None  # once it has used advisory locks
        self.notifying: SessionNotifications | None = None  # once it has used LISTEN or NOTIFY
        self.large_objects_held: LargeObjects | None = None  # once it has used large objects
        self.work: dict[str, Work] = {}  # what functions wait for, by their names
        self.copying: CopyProgress | None = None  # while a COPY runs
        self.temporary_schema: int | None = None
        self._environment: tuple[tuple[PlanKey, int | None], Environment] | None = None  # the last, and of what
        self.task: asyncio.Task[None] | None = None
        self.running = False  # the task has begun: before that, cancelling it would keep it from cleaning up
        self.cancel_error: SqlError | None = None
        self.shown: Prepared | bytes | str = ""  # the statement that runs, or ran last
        self.began = 0.0  # when it began: time.perf_counter(), 0 before the first one
        self.ended = 0.0  # the same of the end of the last one that may have waited
        self.waited = 0.0  # seconds that the statement has waited for locks, before it runs again
        self.depth = 0  # statements under way, one inside the other, that may wait
        self.commits = 0
        self.rollbacks = 0
        self.client_address: tuple[str, int] | None = None  # host and port; None over a Unix-domain socket
        self.server_address: tuple[str, int] | None = None
        self.tls: tuple[str, str, int] | None = None  # its client's connection: version, cipher, bits of the key
        self.backend_start = node.clock()
        self._settings_changed()
        self.settings.on_change = self._settings_changed
        self.row_context = StatementContext(self)
        self.row_context.next_row_number = node.next_row_number
        self.row_context.written = node.written
        self._limit_memory()

    def stand_on(self, node: Node) -> None:
        """From now on the session reads another node: the present one, or one of the past."""
        self.node = node
        self.row_context.next_row_number = node.next_row_number
        self.row_context.written = node.written
        self._settings_changed()

    def leave_past(self) -> None:
        """The session reads what is there now."""
        if self.node is not self.present:
            node = self.node
            assert isinstance(node, PastNode)
            self.stand_on(self.present)
            node.close()
            self.settings.force("as_of", "")

    def _start_settings(self, parameters: dict[str, str]) -> None:
        """The server's own defaults, ALTER DATABASE ... SET, ALTER ROLE ... SET, then the startup packet. Raises what
        the latter's SET does; the former's are older than the values that are valid now, so what is wrong there is a
        warning."""
        catalog = self.node.shared_catalog
        database, role = catalog.get(self.database_oid), catalog.get(self.role.oid)
        if isinstance(database, Database):
            self.settings.force("lc_collate", database.collate)
            self.settings.force("lc_ctype", database.ctype)
        for name, value in self.node.default_settings.items():
            self.settings.set(name, value)
        for item in (database, role):
            for name, value in item.settings if isinstance(item, Database | Role) else ():
                if name.lower() in IDENTITIES:
                    continue
                try:
                    self._check_encoding(name, value)
                    self.settings.set(name, value)
                except SqlError as error:
                    self.warn(error.sqlstate, error.message)
        self.given_limits = {name: self.settings.get(name) for name in MEMORY_LIMITS}
        for name, value in parameters.items():
            if name.lower() in IDENTITIES:
                not_supported(f"{name.lower()} in the startup packet")
            if not may_set(self.committed_catalog, self.role, name):
                if is_for_superusers(name):
                    raise not_permitted(name)
                self._check_limit(name, value)
            self._check_encoding(name, value)
            self.settings.set(name, value)
        self.settings.become_defaults()

    def warn(self, sqlstate: str, message: str, severity: str = "WARNING", hint: str | None = None) -> None:
        """A notice to be sent before the statement's answer."""
        self.notices.append(SqlError(sqlstate, message, severity=severity, hint=hint))

    # ---- what plans depend on ---------------------------------------------------------------------------------------

    def _settings_changed(self) -> None:
        settings = self.settings
        role = settings.get("role")
        self.session_user_name = settings.get("session_authorization")
        self.user_name = role if role != "none" else self.session_user_name
        if self._acting is not None:
            self.user_name = self._acting.name
        path = settings.search_path(self.user_name)
        self.search_path = path
        self.cache: PlanCache[Prepared] = self.node.plans(
            PlanKey(
                self.database_oid,
                path,
                self.user_name,
                settings.format_settings(),
                settings.get("shoal.path"),
                settings.get("standard_conforming_strings") == "on",
            )
        )
        self.key = self.cache.key  # one object for all sessions with these settings
        self.known_plans = self.cache.plans
        self.escapes = not self.key.conforming
        self.statement_timeout = milliseconds(settings.get("statement_timeout"))
        self.lock_timeout = milliseconds(settings.get("lock_timeout"))
        longest = milliseconds(settings.get("transaction_timeout"))
        if longest != self.transaction_timeout:
            self.transaction_timeout = longest
            self._watch_transaction()
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
        self._limit_memory()
        isolation = settings.get("default_transaction_isolation")
        self.default_isolation = READ_COMMITTED if isolation == "read uncommitted" else isolation
        self.default_read_only = settings.get("default_transaction_read_only") == "on"
        self.log_over = threshold(milliseconds(settings.get("log_min_duration_statement")))
        self.unheard = UNHEARD.get(settings.get("client_min_messages"), frozenset())

    def _limit_memory(self) -> None:
        context = self.__dict__.get("row_context")  # made once the settings are known
        if context is not None:
            context.memory_limit = self.query_memory
            context.account = self.memory
            context.timeout = self.statement_timeout / 1000

    def plan_anew(self) -> None:
        """The plans that it has found so far are not used any more: its node has forgotten them."""
        self.cache = self.node.plans(self.key)
        self.known_plans = self.cache.plans

    def fall_apart(self) -> None:
        """The session is over, and nothing of it refers to it any more: what it holds (rows, portals, prepared
        statements) goes now. The cyclic collector comes by too seldom to leave that to it."""
        self.settings.on_change = _nothing
        self.advisory_held = self.notifying = self.large_objects_held = None
        self.past_reader = self.task = None
        self.prepared.clear()
        self.portals.clear()
        self.work.clear()
        del self.row_context

    def _watch_transaction(self) -> None:
        """transaction_timeout is another one, or a transaction has begun under it."""
        raise NotImplementedError

    def stays_on_row_path(self, stays: bool) -> None:
        """Whether what runs next may hold more on the row path than other queries, for no other path takes it."""
        self.row_context.stays = stays

    # ---- what others see of it -------------------------------------------------------------------------------------

    @property
    def query_text(self) -> str:
        """The statement that runs, or ran last."""
        shown = self.shown
        if isinstance(shown, Prepared):
            return shown.statement.text
        return shown.decode(errors="replace") if isinstance(shown, bytes) else shown

    @property
    def query_id(self) -> int | None:
        """The number that pg_stat_statements has for it, once it has run."""
        plan = self.known_plan
        return None if plan is None or plan.tally is None else plan.tally.queryid

    @property
    def known_plan(self) -> Prepared | None:
        """Its plan, if that is known."""
        shown = self.shown
        if not isinstance(shown, bytes):
            return shown if isinstance(shown, Prepared) else None
        lifted = lift(shown)
        return self.known_plans.get(shown) or (None if lifted is None else self.known_plans.get((lifted[0], lifted[2])))

    @property
    def query_start(self) -> int:
        """When it began, in microseconds since 2000-01-01 UTC; 0: there was none."""
        return self._wall(self.began)

    @property
    def query_end(self) -> int:
        """When the last one ended. What runs at once takes microseconds, so its end is not looked at."""
        return self._wall(max(self.began, self.ended))

    def _wall(self, counter: float) -> int:
        return self.node.clock() - round((time.perf_counter() - counter) * 1e6) if counter else 0

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
    def catalog_today(self) -> Catalog | None:
        """Where the session reads the past: the catalog of now, without whose rights nobody reads it."""
        now = self.today or self.present
        return None if now is self.node else now.catalogs.get(self.database_oid)

    @property
    def usable_path(self) -> tuple[str, ...]:
        return usable_path(self.catalog, self.search_path, self.user_name, self.catalog_today)

    @property
    def environment(self) -> Environment:
        """One for all statements that are analysed under the same catalogs and settings: who may look into which schema
        of the path is asked once."""
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
        made = Environment(catalog, path, self.user_name, self.database_name, self.key.format, asks=True, today=today)
        self._environment = (of, made)
        return made

    def type_named(self, text: str) -> TypeRef:
        """The type that a text names, as regtype's input does. Raises 42704, 42601."""
        return type_from_text(text, self.environment)

    @property
    def temporary_schema_name(self) -> str:
        return f"pg_temp_{self.process_id}"

    def call_now(self) -> CallContext:
        """What functions of a statement that runs now may ask for."""
        clock = self.node.clock()
        return self._call(clock, clock if self.transaction is None else self.transaction.start_time)

    def _call(self, statement: int, transaction: int) -> CallContext:
        return CallContext(statement, transaction, self.key.format.timezone, self, self.key.format)

    def context(self) -> ExecContext:
        """An execution context of its own, for what outlives one synchronous call."""
        transaction = self.transaction
        clock = self.node.clock()
        start = transaction.start_time if transaction else clock
        context = ExecContext(
            transaction or self.node.store.current, transaction, self._call(clock, start), self.catalog, self.key.format
        )
        context.next_row_number = self.node.next_row_number
        context.written = self.node.written
        context.memory_limit, context.account = self.query_memory, self.memory
        context.timeout = self.statement_timeout / 1000
        return context

    # ---- who may do what --------------------------------------------------------------------------------------------

    def set_identity(self, name: str, wanted: str | None, local: bool = False) -> None:
        """SET ROLE and SET SESSION AUTHORIZATION; None goes back to the session's own. Raises 22023, 42501."""
        if self._acting is not None:
            raise SqlError("42501", f'cannot set parameter "{name}" within security-definer function')
        in_transaction = self.in_block or self.transaction is not None
        catalog = self.catalog
        owner = self.role.name if name == "session_authorization" else self.session_user_name
        user = owner if wanted is None or (name == "role" and wanted == "none") else wanted
        found, base = (catalog.get(catalog.roles.get(item, 0)) for item in (user, owner))
        if not isinstance(found, Role):
            raise SqlError("22023", f'role "{user}" does not exist')
        if user != owner and not (isinstance(base, Role) and base.superuser):
            if name == "session_authorization":
                raise SqlError("42501", f'permission denied to set session authorization "{user}"')
            if not isinstance(base, Role) or not is_member(catalog, base, found.oid):
                raise SqlError("42501", f'permission denied to set role "{user}"')
        settings = self.settings
        if name == "session_authorization":
            settings.set(name, user, local=local, in_transaction=in_transaction)
        role = "none" if name == "session_authorization" or user == owner else user
        settings.set("role", role, local=local, in_transaction=in_transaction)
        settings.force("is_superuser", "on" if found.superuser else "off")

    def check_privileges(self, analyzed: tree.Analyzed) -> None:
        """42501 unless the user may do what the statement does (engine/sql/privileges.py)."""
        catalog, today, user = self.catalog, self.catalog_today, self._known_user()
        views = any([isinstance(catalog.get(oid), View) for oid in analyzed.relations])
        if views or not user.superuser:
            privileges.check(catalog, user, analyzed.statement)
        if today is not None:
            user = privileges.role_of(today, self.user_name)
            if views or not user.superuser:
                privileges.check(today, user, analyzed.statement)

    @property
    def user(self) -> Role | None:
        """The current user; None if somebody has dropped the role meanwhile. In the past a superuser is who was one
        then and is one now."""
        catalog, today = self.catalog, self.catalog_today
        found = catalog.get(catalog.roles.get(self.user_name, 0))
        if not isinstance(found, Role):
            return None
        if today is not None and found.superuser:
            now = today.get(today.roles.get(self.user_name, 0))
            if not (isinstance(now, Role) and now.superuser):
                return replace(found, superuser=False)
        return found

    def _known_user(self) -> Role:
        found = self.user
        return privileges.role_of(self.catalog, self.user_name) if found is None else found

    @contextlib.contextmanager
    def acting_as(self, role: Role) -> Iterator[None]:
        """What is planned and run meanwhile is so as another user: what its owner runs for somebody else."""
        before, self._acting = self._acting, role
        self._settings_changed()
        try:
            yield
        finally:
            self._acting = before
            self._settings_changed()

    def require_superuser(self, function: str) -> None:
        """42501 unless the user is a superuser."""
        user = self.user  # who may have become one, or be one no more, since the session began
        if user is None or not user.superuser:
            raise SqlError("42501", f"permission denied for function {function}")

    def check_letters(self, item: Table | View | SequenceObject, letters: str, columns: Sequence[int] = ()) -> None:
        """42501 unless the user holds any of these letters (catalog/privileges.py) on a relation, or on these columns
        of it."""
        user = self._known_user()
        if user.superuser:
            return
        if isinstance(item, SequenceObject):
            allowed = may(self.catalog, item, user, letters)
        else:
            chosen = frozenset(columns)
            allowed = any(may_columns(self.catalog, item, user, letter, chosen) for letter in letters)
        if not allowed:
            raise privileges.permission_denied(self.catalog, item)

    # ---- what functions ask of the session (SessionServices) --------------------------------------------------------

    def check_setting(self, name: str, value: str | None) -> None:
        """What a setting's own check cannot know. Raises 22023 for a `default_tablespace` that does not exist, 0A000
        for an encoding that nodes of a cluster do not speak, 42501 for what is for superusers, and whom they let."""
        if value is not None and name.lower() not in DEFINITIONS and len(value) > self.memory.left():
            raise self.memory.refusal()
        if not may_set(self.catalog, self.user, name):
            if is_for_superusers(name):
                raise not_permitted(name)
            self._check_limit(name, value)
        self._check_encoding(name, value)
        if name.lower() == "default_tablespace" and value and value not in self.catalog.tablespaces:
            message = f'invalid value for parameter "{name}": "{value}"'
            raise SqlError("22023", message, detail=f'Tablespace "{value}" does not exist.')

    def _check_limit(self, name: str, value: str | None) -> None:
        """42501 for a limit of memory above what the session has been given by the server, its database or its role."""
        key = name.lower()
        if key in MEMORY_LIMITS and value is not None:
            wanted, given = byte_count(DEFINITIONS[key].check(name, value)), byte_count(self.given_limits[key])
            if key == "connection_memory_limit" and not given and wanted > self.memory.share:
                hint = f"It is half of the server's memory here, {self.memory.share >> 10}kB: only superusers raise it."
                raise SqlError("42501", f'permission denied to set parameter "{name}" to "{value}"', hint=hint)
            if given and (not wanted or wanted > given):
                hint = f"It is {self.given_limits[key]} here: only superusers raise it."
                raise SqlError("42501", f'permission denied to set parameter "{name}" to "{value}"', hint=hint)

    def _check_encoding(self, name: str, value: str | None) -> None:
        if name.lower() == "client_encoding" and value and self.node.cluster_view is not None:
            found = encoding_named(value)
            if found is not None and not found.is_utf8:
                not_supported(f"client_encoding {found.name} in a cluster")

    def next_value(self, sequence: int) -> int:
        self._lock_sequence(sequence)
        item = self._sequence(sequence, "Uw")
        self._refuse_if_read_only(item, "nextval()")
        value = self.node.sequences.next_value(item)
        self.sequence_values[sequence] = value
        self.last_sequence = sequence
        return value

    def current_value(self, sequence: int) -> int:
        item = self._sequence(sequence, "Ur")
        if sequence not in self.sequence_values:
            raise SqlError("55000", f'currval of sequence "{item.name}" is not yet defined in this session')
        return self.sequence_values[sequence]

    def _refuse_if_read_only(self, item: SequenceObject, command: str) -> None:
        if self.transaction is not None and item.schema != self.temporary_schema:
            self.transaction.refuse_if_read_only(command)

    def last_value(self) -> int:
        if self.last_sequence is None or not isinstance(self.catalog.get(self.last_sequence), SequenceObject):
            raise SqlError("55000", "lastval is not yet defined in this session")
        self._sequence(self.last_sequence, "Ur")
        return self.sequence_values[self.last_sequence]

    def current_row(self, cursor: str, table: Table) -> bytes:
        """The key of the table's row under which a cursor is (engine/session/positioned.py)."""
        return current_row(self, cursor, table)

    def _lock_sequence(self, oid: int) -> None:
        """Nobody changes the definition of a sequence that the transaction has drawn from; who has changed it is
        waited for. Raises LockWait."""
        if self.transaction is not None:
            self.transaction.lock_table(oid, ROW_EXCLUSIVE)

    def set_value(self, sequence: int, value: int, is_called: bool) -> None:
        self._lock_sequence(sequence)
        item = self._sequence(sequence, "w")
        self._refuse_if_read_only(item, "setval()")
        self.node.sequences.set_value(item, value, is_called)
        if is_called:
            self.sequence_values[sequence] = value
            self.last_sequence = sequence

    def _sequence(self, oid: int, letters: str) -> SequenceObject:
        """The sequence, on which the user holds one of the letters; one behind an identity column is its table's."""
        item = self.catalog.get(oid)
        if isinstance(item, SequenceObject):
            if item.owned_kind != "i":
                key = (self.catalog.version, self.user_name, oid, letters)
                if key != self._sequence_allowed:
                    self.check_letters(item, letters)
                    self._sequence_allowed = key
            return item
        if isinstance(item, Table | Schema):
            raise SqlError("42809", f'"{item.name}" is not a sequence')
        raise SqlError("42P01", f"relation with OID {oid} does not exist")
