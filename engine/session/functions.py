"""The session as functions see it: `CallContext.session` (catalog/functions/base.py). The modules of catalog/functions
declare the parts that they use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog.errors import SqlError
from catalog.system.identities import identity_of
from engine.session import activity, safe_snapshots
from engine.session.open_sessions import open_sessions
from engine.session.positioned import current_row
from engine.sql.analyze.typenames import type_from_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from catalog.catalog import Catalog
    from catalog.functions.base import CallContext
    from catalog.schema import Table, VirtualTable
    from catalog.types.base import TypeRef
    from engine.execute.context import RoutineCall
    from engine.node.node import Node
    from engine.node.plan_cache import PlanKey
    from engine.session.advisory import AdvisoryLocks
    from engine.session.ddl_events import DdlEvents
    from engine.session.function_calls import FunctionCalls
    from engine.session.interface import TriggerServices
    from engine.session.large_objects import LargeObjects
    from engine.session.notifications import SessionNotifications
    from engine.session.session import Session
    from engine.sql.analyze import Environment
    from engine.txn.transaction import Transaction


class FunctionServices:
    """The services of one session for functions."""

    __slots__ = ("_session",)

    def __init__(self, session: Session) -> None:
        self._session = session

    # ---- identity ---------------------------------------------------------------------------------------------------

    @property
    def node(self) -> Node:
        return self._session.node

    @property
    def process_id(self) -> int:
        return self._session.process_id

    @property
    def user_name(self) -> str:
        return self._session.user_name

    @property
    def session_user_name(self) -> str:
        return self._session.session_user_name

    @property
    def database_oid(self) -> int:
        return self._session.database_oid

    @property
    def database_name(self) -> str:
        return self._session.database_name

    @property
    def client_address(self) -> tuple[str, int] | None:
        return self._session.client.address

    @property
    def server_address(self) -> tuple[str, int] | None:
        return self._session.client.server_address

    # ---- visible objects --------------------------------------------------------------------------------------------

    @property
    def catalog(self) -> Catalog:
        return self._session.catalog

    @property
    def key(self) -> PlanKey:
        return self._session.key

    @property
    def search_path(self) -> tuple[str, ...]:
        return self._session.search_path

    @property
    def environment(self) -> Environment:
        return self._session.environment

    @property
    def surroundings(self) -> object:
        """Names, definitions and privileges as the session sees them now, and data of the node."""
        return self._session.views.surroundings

    def virtual_rows(self, relation: VirtualTable) -> object:
        """The rows of a virtual table, for one execution."""
        return self._session.views.rows(relation)

    def type_named(self, text: str) -> TypeRef:
        """The type that a text names, by the rules of regtype's input. Raises 42704, 42601."""
        return type_from_text(text, self._session.environment)

    def call_routine(self, call: RoutineCall, arguments: Sequence[object]) -> object:
        """The value of a call of a user's function."""
        return self._session.routines.call(call, arguments)

    def let_others_run(self) -> None:
        """In a statement that may wait: other sessions run, if this one has run for a while."""
        self._session.routines.let_others_run()

    def routine_rows(
        self, call: RoutineCall, arguments: Sequence[object], columns: Sequence[TypeRef]
    ) -> Sequence[tuple[object, ...]]:
        """The rows of a call in FROM, with columns of these types."""
        return self._session.routines.rows(call, arguments, columns)

    @property
    def triggers(self) -> TriggerServices:
        """The calls of triggers (Firing of engine/execute/triggers.py)."""
        return self._session.routines.triggers

    @property
    def trigger_depth(self) -> int:
        """pg_trigger_depth()"""
        return self._session.routines.triggers.depth

    # ---- connections to foreign servers -----------------------------------------------------------------------------

    def foreign_connections(self) -> Iterable[tuple[str | None, bool]]:
        """postgres_fdw_get_connections()"""
        return () if self._session.foreign is None else self._session.foreign.describe_all()

    def disconnect_foreign(self, server: str | None) -> bool:
        """postgres_fdw_disconnect(), and with None postgres_fdw_disconnect_all(). Raises 42704."""
        found = None if server is None else self.catalog.servers.get(server)
        if server is not None and found is None:
            raise SqlError("42704", f'server "{server}" does not exist')
        if self._session.foreign is None:
            return False
        closed, used = self._session.foreign.disconnect(None if found is None else found.oid)
        for name in used:
            message = f'cannot close connection for server "{name}" because it is still in use'
            self._session.warn("01000", message)
        return closed

    # ---- event triggers ----------------------------------------------------------------------------------------------

    @property
    def ddl_events(self) -> DdlEvents | None:
        """What event triggers see."""
        return self._session.ddl_events

    def identity(self, call: CallContext, kind: int, oid: int, number: int) -> tuple[object, ...]:
        """pg_identify_object()"""
        return identity_of(call, kind, oid, number)[3:7]

    # ---- settings and sequences -------------------------------------------------------------------------------------

    def setting(self, name: str) -> str:
        return self._session.variables.get(name)

    def set_setting(self, name: str, value: str, local: bool) -> None:
        self._session.variables.set(name, value, local)

    def next_value(self, sequence: int) -> int:
        return self._session.sequences.next_value(sequence)

    def current_value(self, sequence: int) -> int:
        return self._session.sequences.current_value(sequence)

    def last_value(self) -> int:
        return self._session.sequences.last_value()

    def set_value(self, sequence: int, value: int, is_called: bool) -> None:
        self._session.sequences.set_value(sequence, value, is_called)

    # ---- the transaction --------------------------------------------------------------------------------------------

    @property
    def transaction(self) -> Transaction | None:
        return self._session.transaction

    def begin_implicit(self) -> Transaction:
        return self._session.begin_implicit()

    @property
    def advisory(self) -> AdvisoryLocks:
        return self._session.advisory

    @property
    def notifications(self) -> SessionNotifications:
        return self._session.notifications

    @property
    def large_objects(self) -> LargeObjects:
        return self._session.large_objects

    def current_row(self, cursor: str | None, table: Table) -> bytes:
        """The key of the table's row at which a cursor is (engine/session/positioned.py)."""
        session = self._session
        return current_row(session.portals, session.transaction, cursor, table, session.catalog)

    @property
    def function_calls(self) -> FunctionCalls:
        """The statistics of functions."""
        return self._session.function_calls

    def export_snapshot(self) -> str:
        """pg_export_snapshot(): the identifier. Raises 25001, 0A000."""
        return self._session.node.exported.export(self._session)

    def blockers(self, process_id: int) -> list[int]:
        """The process ids of the sessions that block that session."""
        session = open_sessions(self._session.node).get(process_id)
        return [] if session is None else activity.blockers(session)

    def safe_snapshot_blockers(self, process_id: int) -> list[int]:
        """The process ids of the sessions that delay that session's safe snapshot."""
        session = open_sessions(self._session.node).get(process_id)
        return [] if session is None else safe_snapshots.blockers(session)
