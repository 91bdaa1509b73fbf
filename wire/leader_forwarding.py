"""A client's connection on a node of a cluster: runs statements on this node, or forwards them to the leader.

`Replica.leads` is checked before every batch of messages, and again after every wait. While the node leads, everything
runs here, as on a single node. While it does not, the messages up to the next ReadyForQuery (a *cycle*) are inspected
together, before any of them is taken out of the core:

    NOTHING     settings, transaction control, the session's own cursors and statements: here
    READ        outside a block, or in a block that is READ ONLY: here, once the replica is as fresh as
                read_consistency asks (`admit_read`)
    others      forwarded to the leader, with their block, from its first statement that touches data
                (wire/session_proxy.py)

(engine/statements/routing.py classifies statements.) An extended cycle that has not arrived completely is forwarded as
soon as it binds a statement that touches data, because the rest of it is not known, and its statements are one
transaction.

A block that began here begins again at the leader when it is forwarded, so it must not have done anything yet. A
READ ONLY block that has read here stays, and refuses statements of the leader (25006). A block in which this node
has worked as the leader is lost with the leadership (40001), because it cannot continue elsewhere.

Tablespaces may be led by different nodes. A cycle runs on a node that leads all tablespaces that it uses
(wire/leader_selection.py): without pg_default at the leader of its tablespaces, otherwise at the leader of pg_default,
which first gets the leaderships that it lacks (`Replica.gather`). A block that has begun to work elsewhere and then
needs more tablespaces ends with 40001, and the leaderships are gathered meanwhile.

A session that another node forwards here is refused (40001, routine NotLeading) when this node does not lead: nothing
has been done then, and the other node's proxy continues at the new leader. If the leadership is lost while such a
session is idle, the session ends (57P01, NotLeading). It gets reports that its client does not get: every setting,
`_shoal.holds`, and more.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from time import perf_counter

from catalog.errors import SqlError, not_supported
from engine.replica import HOME, admit_read, parse_token, token
from engine.session.leadership import commits_lost, deposed_error, is_untouched
from engine.session.session import Session
from engine.session.setting_definitions import milliseconds
from engine.statements.needs import Needs
from engine.statements.routing import Route
from engine.statements.statement_tablespaces import AT_HOME, Reached
from engine.statements.utility import UtilityPlan
from engine.storage.moments import SLOT_SHIFT
from engine.txn.interface import SERIALIZABLE, WaitTicket
from wire import core, messages
from wire.answers import FLUSH_AT
from wire.client import ConnectionLostError
from wire.client_link import Host
from wire.connection import BIND, FLUSH_PIECES, QUERY, TURN, Connection
from wire.forwarding_services import ForwardingServices, LingeringConnection, led_apart_error, not_leading_error
from wire.leader_selection import CycleNeeds, LeaderSelection, tablespace_name
from wire.peer_authentication import TO_HOME, Peer
from wire.scram import Exchange
from wire.session_proxy import (
    NOT_LEADING,
    ClientGoneError,
    LeadsHereError,
    SessionImage,
    SessionProxy,
)

ADVISORY_LOCKS = "advisory locks"
LINGER = 5.0  # seconds that the other side has to close a connection that was ended here
FRESH_START = 1.0  # seconds that a new session waits at most for the newest catalog
_PREPARE = re.compile(
    r'\s*prepare\s+(?:"(?:[^"]|"")+"|[\w$]+)\s*(?:\((?:[^()]|\([^()]*\))*\)\s*)?as\b\s*', re.IGNORECASE
)


class ClusterConnection(Connection):
    """See the module's text."""

    def __init__(self, host: Host, cluster: ForwardingServices) -> None:
        super().__init__(host)
        self._cluster = cluster
        self._replica = cluster.replica
        self._proxy: SessionProxy | None = None  # the proxy of the present or last use
        self._proxies: dict[bytes, SessionProxy] = {}  # by the tablespace whose leader they use
        self._proxy_tablespace = HOME
        self._proxy_task: asyncio.Task[None] | None = None
        self._cleared_bytes = 0  # bytes in the core that may run here although the node does not lead
        self._admitting = False
        self._must_end = False  # after the running statement: acknowledged commits may be lost
        self._has_read = False  # in the block of a session whose node does not lead
        self._ending: SqlError | None = None
        self._startup: Mapping[str, str] = {}
        self._peer: Peer | None = None
        self._reports = {"_shoal.holds": "", "_shoal.unwaited": "", "_shoal.last_commit": token(0)}
        self._selection = LeaderSelection(cluster.routes, cluster.replica)
        self._at_home = False  # a session that another node forwards here is for the leader of pg_default

    # ---- what arrives -----------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        session = self.session
        if self._proxy_task is not None and self._proxy is not None:
            self._proxy.feed(data)
        elif session is None or (self._replica.leads and session.leadership.owed is None):
            if session is not None:
                session.leadership.must_lead = True
                self._cleared_bytes = 0
            super().data_received(data)
        else:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            if (self._is_led(session, data) or self._is_fresh_read(session, data)) and self._take_whole(data):
                return
            self._receive(data)

    def _is_fresh_read(self, session: Session, data: bytes) -> bool:
        """Whether the bytes are one statement outside a block that this replica may answer at once: most messages of
        readers on followers."""
        if (
            self.busy
            or self._is_yielding
            or session.leadership.must_lead
            or session.leadership.owed is not None
            or session.transaction is not None
        ):
            return False
        route = self._whole_route(session, data)
        if route is None or self._peer is not None or self._selection.needs(session, route) is not Needs.READ:
            return False
        return not route.opens_writable and self._admission(session) is None

    def _is_led(self, session: Session, data: bytes) -> bool:
        """Whether the bytes are one statement, and this node leads all tablespaces that it uses: the result of
        `_choose_leader` for most messages on a node that leads some tablespaces."""
        transaction = session.transaction
        if (
            self.busy
            or self._is_yielding
            or session.leadership.owed is not None
            or session.status == "E"
            or (transaction is not None and (not session.leadership.must_lead or is_untouched(transaction)))
        ):
            return False
        route = self._whole_route(session, data)
        needed = None if route is None else self._selection.tablespaces_of_route(session, route)
        if not needed or not self._replica.leads_in(needed):
            return False
        home = self._replica.leads_in(AT_HOME)
        alone = None if home else self._selection.led_apart_from_home(session, needed)
        if (alone is None and not home) or (transaction is not None and not session.leadership.leads_on):
            return False
        if alone is not None and transaction is not None:
            alone |= session.leadership.alone or alone
        self._cleared_bytes = 0
        self._at_home = self._at_home or home
        session.leadership.must_lead, session.leadership.alone = True, alone
        return True

    def _whole_route(self, session: Session, data: bytes) -> Route | None:
        """The route of the bytes, if they are one statement."""
        if data[0] == QUERY:
            sql = self.core.whole_query(data)
            return None if sql is None else self._cluster.routes.of(sql, dialect=session.key.dialect)
        found = self.core.whole_execution(data) if data[0] == BIND else None
        return None if found is None else self._selection.prepared_route(session, found[0].statement)

    def _process(self) -> None:
        session = self.session
        if self._proxy_task is not None:
            return
        if session is None:
            super()._process()
        elif session.node is not session.present:  # it reads the past, which only this node has
            self._cleared_bytes = 0
            super()._process()
        elif self._replica.leads and session.leadership.owed is None:
            session.leadership.must_lead = True
            self._cleared_bytes = 0
            super()._process()
        else:
            self._process_as_follower(session)

    def _on_lock_granted(self, event: core.Query | core.Bind | core.WaitingExecution, ticket: WaitTicket) -> None:
        session = self.session
        if session is None or self.closing or not session.leadership.must_lead or session.leadership.leads_on:
            super()._on_lock_granted(event, ticket)
            return
        self.busy = False
        session.leadership.owed = None  # this shows it
        self._handle_error(event, ticket.error or deposed_error())
        self._continue()

    def _process_as_follower(self, session: Session) -> None:
        """Processes messages on a node that does not lead, or for a session that is owed an error."""
        if session.leadership.must_lead and not session.leadership.leads_on:
            session.leadership.must_lead = False
            transaction = session.transaction
            if transaction is not None and session.status != "E" and not is_untouched(transaction):
                session.lose_transaction(deposed_error())
        sent = 0
        try:
            while not (self.busy or self.closing or self._is_yielding):
                if len(self._out) >= FLUSH_PIECES:
                    sent += len(self._out)
                    self.flush()
                if sent >= TURN or self._drained is not None:
                    self._yield_turn()
                    return
                if self._cleared_bytes <= 0:
                    if self._clear_next_cycle(session):
                        continue
                    break
                left = self.core.buffered_bytes - self._cleared_bytes
                event = self.core.next_event()
                if event is core.NEED_DATA:
                    self._cleared_bytes = 0
                    continue
                try:
                    self._handlers[type(event)](event)
                except Exception as error:
                    self._handle_error(event, error)
                self._cleared_bytes = self.core.buffered_bytes - left  # a handler may have taken more than the event
        except SqlError as error:
            self._fatal(error)
        if self._out and not self._flushing:
            self._flushing = True
            self.host.flush_soon(self.flush)

    def _clear_next_cycle(self, session: Session) -> bool:
        """Inspects the next cycle and clears it for this node, or answers it with an error. False when there is none,
        or it cannot run here now."""
        if not self.core.buffered_bytes:
            return False
        if self.core.phase == "skipping":
            return self._skip_ends()
        cycle = self._selection.cycle_needs(session, *self.core.peek())
        if not cycle.events:
            return False
        try:
            return self._choose_node(session, cycle)
        except SqlError as error:
            self._fail_cycle(error)
            return True

    def _skip_ends(self) -> bool:
        """Whether the Sync that ends the skipping has arrived; otherwise the messages before it are dropped."""
        events, size = self.core.peek()
        if events:
            self._cleared_bytes = size
            return True
        self.core.next_event()
        return False

    # ---- choice of the node ---------------------------------------------------------------------------------------

    def _choose_node(self, session: Session, cycle: CycleNeeds) -> bool:
        """Clears the cycle for this node; False if it must run elsewhere or later. Raises the error that answers it."""
        if session.leadership.owed is not None and (cycle.speaks or not session.in_block):
            self._send_owed_error(session, cycle)
        if self._replica.leads:
            session.leadership.must_lead = True
            return self._run_here(cycle)
        if session.in_block and cycle.rolls_back:
            return self._run_here(cycle)
        if session.status == "E":
            if cycle.needs is Needs.NOTHING or not cycle.ends_first:
                return self._run_here(cycle)
            session.leadership.forgive(ended=True)  # ROLLBACK, and other statements that do not run here
        if self._peer is not None and cycle.speaks and not self._leads_something():
            raise not_leading_error()
        if not session.in_block:
            self._has_read = False
        if cycle.needs is not Needs.NOTHING:
            return self._choose_leader(session, cycle)
        relay = self._proxies.get(HOME)
        for other in self._proxies.values() if cycle.discards else ():
            other.close()  # its end also ends the objects that the leader holds for the session
        if relay is not None and cycle.unlocks and relay.held_objects == ADVISORY_LOCKS:
            relay.close()
        elif relay is not None and cycle.unlocks and ADVISORY_LOCKS in relay.held_objects:
            self._start_proxy(session, HOME)
            return False
        return self._run_here(cycle)

    def _choose_leader(self, session: Session, cycle: CycleNeeds) -> bool:
        """Chooses the leader for a cycle that reads or writes, on a node that does not lead all tablespaces."""
        replica, transaction = self._replica, session.transaction
        needed = self._selection.tablespaces_of_events(session, cycle.events)
        if session.leadership.must_lead and transaction is not None and not is_untouched(transaction):
            return self._continue_transaction(session, cycle, needed)
        session.leadership.must_lead, session.leadership.alone = False, None
        carried = self._must_forward(session, cycle)
        if not carried and (session.in_block or needed is None or not replica.leads_in(needed)):
            return self._admit(session, cycle)
        alone = None if cycle.own_portals else self._selection.led_apart_from_home(session, needed)
        if alone is not None and replica.leads_in(alone):
            return self._run_as_leader(session, cycle, alone)
        if alone is not None and self._peer is None:
            self._start_proxy(session, min(alone))
            return False
        if not replica.leads_in(AT_HOME) or (alone is not None and not self._at_home):
            if self._peer is None:
                self._start_proxy(session, HOME)
                return False
            if alone is not None or self._at_home:
                raise not_leading_error()
            self._replica.begin_to_gather(self._replica.tablespaces if needed is None else needed)
            raise led_apart_error()  # it needs more tablespaces than the forwarding node knew
        missing = self._selection.not_led_here(needed)
        return self._start_gathering(cycle, missing) if missing else self._run_as_leader(session, cycle, None)

    def _continue_transaction(self, session: Session, cycle: CycleNeeds, needed: Reached | None) -> bool:
        """Chooses the leader for the next cycle of a transaction that has worked here."""
        missing = self._selection.not_led_here(needed)
        if not missing:
            alone = None if session.leadership.alone is None or needed is None else session.leadership.alone | needed
            return self._run_as_leader(session, cycle, alone)
        if self._replica.leads_in(AT_HOME):
            return self._start_gathering(cycle, missing)
        self._replica.begin_to_gather(missing | session.stands_on)
        raise led_apart_error()

    def _run_as_leader(self, session: Session, cycle: CycleNeeds, alone: Reached | None) -> bool:
        """Runs a cycle here, because this node leads all of its tablespaces: `alone`, or with pg_default."""
        if alone is None or self._replica.leads_in(AT_HOME):
            alone, self._at_home = None, self._at_home or alone is None
        session.leadership.must_lead, session.leadership.alone = True, alone
        return self._run_here(cycle)

    def _start_gathering(self, cycle: CycleNeeds, missing: Reached) -> bool:
        """Starts to gather the leaderships on this node; then the cycle is inspected again."""
        self._extended = not isinstance(cycle.events[0], core.Query)
        self._admitting = True
        self._start_task(self._wait_for_leaderships(missing))
        return False

    async def _wait_for_leaderships(self, missing: Reached) -> None:
        try:
            await self._replica.gather(missing)
        except SqlError as error:
            self._fail_cycle(error)
        self._admitting = False

    def _run_here(self, cycle: CycleNeeds) -> bool:
        self._cleared_bytes = cycle.size
        return True

    def _send_owed_error(self, session: Session, cycle: CycleNeeds) -> None:
        """Sends the error that the client is owed, unless the client rolls back by itself."""
        error = session.leadership.owed
        assert error is not None
        if cycle.rolls_back and session.in_block:
            session.leadership.forgive(ended=False)
            return
        session.leadership.forgive(ended=cycle.commits)
        raise error

    def _must_forward(self, session: Session, cycle: CycleNeeds) -> bool:
        """Raises 25006, 25001, 0A000 for a cycle that can run nowhere."""
        transaction = session.transaction
        if not session.in_block or transaction is None:
            incomplete = not cycle.whole and cycle.binds is not Needs.NOTHING
            watched = cycle.needs is Needs.READ and session.default_isolation == SERIALIZABLE
            return cycle.needs is Needs.LEADER or cycle.opens_writable or incomplete or watched
        if cycle.needs is Needs.READ and transaction.read_only and transaction.isolation != SERIALIZABLE:
            return False
        if cycle.own_portals:
            not_supported("a statement for the leader together with a portal of a follower")
        if not self._has_read or cycle.ends_first:
            return True
        if transaction.read_only:
            raise SqlError(
                "25006",
                "cannot execute this statement in a read-only transaction that has read on a follower",
                hint="Only the leader can run it: use another transaction.",
            )
        raise SqlError("25001", "transaction read-write mode must be set before any query")

    def _admit(self, session: Session, cycle: CycleNeeds) -> bool:
        """Clears a read, at once or when the replica is fresh enough."""
        transaction = session.transaction
        if self._has_read and transaction is not None and transaction.has_snapshot:
            return self._run_here(cycle)
        admission = self._admission(session)
        if admission is None:
            self._has_read = True
            return self._run_here(cycle)
        self._extended = not isinstance(cycle.events[0], core.Query)
        self._admitting = True
        self._start_task(self._admit_cycle(session, cycle, *admission))
        return False

    def _admission(self, session: Session) -> tuple[str, float, int] | None:
        """The condition for the replica before it answers a read (`admit_read`); None: none."""
        settings = session.settings
        consistency = settings.get("read_consistency")
        token = settings.get("read_after")
        after = parse_token(token) if token else 0
        # The head may not have arrived yet.
        early = consistency == "strong" and any(relay.has_unwaited_commits for relay in self._proxies.values())
        if session.last_commit and (early or consistency == "session"):
            after = max(after, session.last_commit)
        if after and not after >> SLOT_SHIFT and after <= session.node.store.durable_lsn:
            after = 0  # for another tablespace than pg_default the replica converts it: slots differ from node to node
        if not after and consistency in ("eventual", "session"):
            return None
        return consistency, milliseconds(settings.get("max_staleness")) / 1000, after

    async def _admit_cycle(
        self, session: Session, cycle: CycleNeeds, consistency: str, max_staleness: float, after: int
    ) -> None:
        """Waits until the replica is fresh enough, and clears the cycle. If entries applied meanwhile have made a
        relation a sequence, or moved it, the node is chosen again."""
        try:
            await admit_read(self._replica, consistency, max_staleness, after)
        except SqlError as error:
            self._has_read = True
            self._fail_cycle(error)
        else:
            if self._selection.cycle_needs(session, *self.core.peek()).needs is not Needs.LEADER:
                self._has_read = True
                self._cleared_bytes = cycle.size
        self._admitting = False

    def _fail_session(self, error: SqlError) -> None:
        if self._admitting:
            self._admitting = False
            self._fail_cycle(error)
        else:
            super()._fail_session(error)

    def _fail_cycle(self, error: SqlError) -> None:
        """Answers a cycle of which nothing has been taken with the error."""
        if error.severity == "FATAL":
            self._fatal(error)
            return
        self._handle_error(self.core.next_event(), error)

    # ---- forwarding -------------------------------------------------------------------------------------------------

    def _start_proxy(self, session: Session, to: bytes) -> None:
        if session.transaction is not None and not session.in_block:
            session.finish()  # of statements without data
        relay = self._proxies.get(to)
        if relay is None:
            relay = self._proxies[to] = SessionProxy(self, self._cluster.locator, deadline=self._cluster.deadline)
        self._proxy, self._proxy_tablespace = relay, to
        address = session.client.address
        client = f"{address[0]}:{address[1]}" if address is not None else ""
        startup = {**self._startup, **TO_HOME} if to == HOME else self._startup
        image = SessionImage(startup, session.settings.outside(), session.leadership.block_image(), client)
        relay.feed(self.core.take_rest())
        self._cleared_bytes = 0
        self.busy = True
        session.client.carried = "active"
        session.client.canceler = self._cancel_forwarded
        self._ending = None
        self._proxy_task = asyncio.get_running_loop().create_task(self._run_proxy(session, relay, image))

    async def _run_proxy(self, session: Session, relay: SessionProxy, image: SessionImage) -> None:
        """Runs the proxy, and takes the session back. In any case the connection continues or ends."""
        timer = None
        if session.statement_timeout:
            error = SqlError("57014", "canceling statement due to statement timeout")
            timer = asyncio.get_running_loop().call_later(session.statement_timeout / 1000, relay.interrupt, error)
        failure: SqlError | None = None
        try:
            await relay.forward(tablespace_name(session, self._proxy_tablespace), image)
        except LeadsHereError:
            pass
        except (ClientGoneError, ConnectionLostError):
            self._close()
        except asyncio.CancelledError:
            failure = self._ending or SqlError("57P01", "terminating connection", severity="FATAL")
        except SqlError as error:
            failure = error
        except Exception as error:
            failure = self._internal_error(error)
            failure.severity = "FATAL"
        finally:
            if timer is not None:
                timer.cancel()
        self._take_back(session, relay, failure)

    def _take_back(self, session: Session, relay: SessionProxy, failure: SqlError | None) -> None:
        self._proxy_task = None
        session.client.canceler = None
        session.client.carried = ""
        self.core.receive_data(relay.take_rest())
        self.busy = False
        if failure is not None and not self.closing:
            self._fail_cycle(failure)
        if self.closing:
            relay.close()
        elif session.may_time_out and not self.core.buffered_bytes:
            self._wait_idle(session)
        self._on_notification()
        self._continue()

    def _cancel_forwarded(self, error: SqlError) -> None:
        relay, task = self._proxy, self._proxy_task
        assert relay is not None and task is not None
        if error.severity == "FATAL":
            self._ending = error
            task.cancel()
        elif not relay.interrupt(error):
            relay.cancel()

    @property
    def idle(self) -> bool:
        carried_idle = self._proxy_task is not None and self._proxy is not None and self._proxy.idle
        if self._peer is not None and self.session is not None and not self.session.waits.for_nothing:
            return False  # its node would have to treat commits that will be durable as lost
        return carried_idle or not self.busy

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        if self._proxy_task is not None:
            self._proxy_task.cancel()

    def _end_session(self) -> None:
        for relay in self._proxies.values():
            relay.close()
        if self._peer is not None:
            self._cluster.carriers.discard(self._peer.node, self)
        super()._end_session()

    # ---- ProxyHost --------------------------------------------------------------------------------------------------

    @property
    def leads_here(self) -> bool:
        return self._replica.leads_in((self._proxy_tablespace,))

    def on_statement_start(self, sql: bytes) -> None:
        session = self.session
        if session is not None:
            session.client.carried = "active"
            session.began = perf_counter()
            if sql:
                session.shown = sql

    def on_statement_end(self, status: str) -> None:
        if self.session is not None:
            self.session.client.carried = status
            self.session.ended = perf_counter()

    def send(self, data: bytes) -> None:
        self._write(data)
        if self._out_size >= FLUSH_AT:
            self.flush()
        elif not self._flushing:
            self._flushing = True
            self.host.flush_soon(self.flush)

    async def drain(self) -> None:
        if self._drained is not None:
            await self._drained
        if self.closing:
            raise asyncio.CancelledError

    def statement(self, name: bytes) -> core.Parse | None:
        prepared = self.session.prepared.get(name) if self.session is not None else None
        if prepared is None:
            return None
        text = prepared.statement.text
        found = _PREPARE.match(text)
        if found is not None and not isinstance(prepared.plan, UtilityPlan):
            text = text[found.end() :]
        return core.Parse(name, text.encode(), prepared.parameters.declared)

    def statement_names(self) -> Sequence[bytes]:
        return list(self.session.prepared) if self.session is not None else []

    def adopt_statement(self, statement: core.Parse) -> None:
        if self.session is not None:
            self.session.leadership.adopt_statement(statement.name, statement.sql, statement.types)

    def forget_statement(self, name: bytes | None) -> None:
        if self.session is None:
            return
        if name is None:
            self.session.prepared.clear()
        else:
            self.session.prepared.pop(name, None)

    def adopt_settings(self, settings: Mapping[str, str]) -> None:
        if self.session is not None:
            self.session.leadership.adopt_settings(settings)

    def on_settings_lost(self, names: Sequence[str]) -> None:
        if self.session is not None:
            self.session.settings.changed += [self.session.settings.display_name(name) for name in names]

    def on_committed(self, token: str) -> None:
        if self.session is not None:
            self.session.last_commit = max(self.session.last_commit, parse_token(token))

    def on_listen(self, actions: str) -> None:
        if self.session is not None:
            for action, channel in json.loads(actions):
                self.session.notifications.do(action, channel)

    def on_commits_lost(self) -> None:
        if self.session is None or self.closing:
            return
        self._must_end = True
        if not self.busy:
            self._error(commits_lost(), "FATAL")
            self._linger()
            self._end_session()

    def _continue(self) -> None:
        if self._must_end and not self.closing:
            self._fatal(commits_lost())
        super()._continue()

    def _on_leadership_gained(self) -> None:
        """This node leads now: state that the session had at another leader is here, or is lost."""
        if any(relay.has_unwaited_commits for relay in self._proxies.values()):
            self.on_commits_lost()

    def end_block(self) -> None:
        if self.session is not None:
            self.session.leadership.end_block()

    def fail_block(self, error: SqlError | None) -> None:
        if self.session is not None:
            self.session.leadership.fail_block(error)

    def skip_to_sync(self) -> None:
        self.core.error()

    # ---- a session that another node forwards here ------------------------------------------------------------------

    def _on_startup(self, event: core.Startup) -> None:
        self._peer, parameters = self._cluster.verifier.check(event.parameters)
        if self._peer is not None and not self._leads_something():
            raise SqlError("57P03", "this node does not lead the tablespace", severity="FATAL")
        self._at_home = self._peer is not None and self._peer.home
        self._startup = {name: value for name, value in parameters.items() if not name.startswith("_pq_.")}
        if self._peer is None and not self._replica.leads:
            self.busy = True
            self._proxy_task = asyncio.get_running_loop().create_task(self._start_fresh(event))
            return
        super()._on_startup(core.Startup(event.minor, parameters))

    def _authentication(self, parameters: dict[str, str]) -> Exchange | None:
        return None if self._peer is not None else super()._authentication(parameters)

    def _start_session(self, event: core.Startup, parameters: dict[str, str]) -> None:
        super()._start_session(event, parameters)
        self._watch_leadership()
        self._started_for_peer()

    def _leads_something(self) -> bool:
        replica = self._replica
        return any(replica.leads_in((tablespace,)) for tablespace in replica.tablespaces)

    async def _start_fresh(self, event: core.Startup) -> None:
        """Starts the session of a client with the roles, databases and settings of the leader, if they are known
        soon."""
        try:
            with contextlib.suppress(SqlError, TimeoutError):
                async with asyncio.timeout(FRESH_START):
                    await self._replica.catch_up()
            super()._on_startup(event)
        except SqlError as error:
            self._fatal(error)
        finally:
            self._proxy_task = None
            self.busy = False
        self._continue()

    def _watch_leadership(self) -> None:
        if self.session is not None:
            self.session.client.on_lead = self._on_leadership_gained

    def _started_for_peer(self) -> None:
        session = self.session
        if session is None or self._peer is None:
            return
        host, _, port = self._peer.client.rpartition(":")
        session.client.address = (host, int(port)) if port.isdigit() else None
        session.settings.report_all = True
        session.client.on_deposed = self._peer_deposed
        session.client.on_told, session.client.listens_elsewhere = None, []
        session.client.on_durable = self._peer_durable
        self._cluster.carriers.add(self._peer.node, self)

    def _startup_settings(self) -> Sequence[str]:
        session = self.session
        if self._peer is None or session is None:
            return super()._startup_settings()
        return [name for name, _ in session.settings.items()]

    def _peer_durable(self) -> None:
        """Reports to the client's node that early acknowledged commits are durable."""
        if not self.busy and not self.closing:
            self._tell_durable()
            self.flush()

    def shut_down(self, error: SqlError) -> None:
        """Shuts the connection down like any other. Also informs the forwarding node that the messages since the last
        answer, maybe a COMMIT, were not run, so that their outcome is known."""
        if self._peer is None or self.busy or self.closing:
            super().shut_down(error)
            return
        told = SqlError(error.sqlstate, error.message, hint=error.hint, severity="FATAL", routine=NOT_LEADING)
        self._write(messages.error_response(told, "FATAL"))
        self._linger()

    def _linger(self) -> None:
        """Sends the rest, and closes when the other side has closed, which must read the last message."""
        self.flush()
        self.closing = True
        if not self._transport.can_write_eof():  # TLS
            self._transport.close()
            return
        self._transport.set_protocol(LingeringConnection(self))
        if self._pauses:
            self._transport.resume_reading()
        self._transport.write_eof()
        asyncio.get_running_loop().call_later(LINGER, self._transport.close)

    def end_forwarded(self, error: SqlError) -> None:
        """Ends the session, because the node that forwards it here is lost."""
        if self.session is not None and self.busy:
            self.session.cancel(error)
        self.shut_down(error)
        if not self.busy:
            self._end_session()  # not only when the other side has closed, because it may be stopped

    def _peer_deposed(self) -> None:
        if not self.busy:
            self._tell_durable()
            self.shut_down(SqlError("57P01", "this node no longer leads", severity="FATAL"))

    def _tell_durable(self) -> None:
        session = self.session
        if session is not None and session.waits.for_nothing and self._reports["_shoal.unwaited"]:
            self._reports["_shoal.unwaited"] = ""
            self._write(messages.parameter_status("_shoal.unwaited", ""))

    def _ready(self, answer: bytes = b"") -> None:
        if self._peer is not None and self.session is not None:
            self._out.append(answer)
            answer = b""
            if self.session.client.listens_elsewhere:
                actions, self.session.client.listens_elsewhere = self.session.client.listens_elsewhere, []
                self._write(messages.parameter_status("_shoal.listens", json.dumps(actions)))
            for name, value in _session_reports(self.session):
                if self._reports[name] != value:
                    self._reports[name] = value
                    self._write(messages.parameter_status(name, value))
        super()._ready(answer)


def _session_reports(session: Session) -> Iterable[tuple[str, str]]:
    """The reports to a forwarded session's own node: objects that outlive the transaction, and the last commit."""
    holds = [name.decode() for name, portal in session.portals.items() if portal.holdable]
    schema = session.temporary_schema
    if schema is not None and any(getattr(item, "schema", 0) == schema for item in session.catalog.objects.values()):
        holds.append("pg_temp")
    if session.advisory_held is not None and session.advisory_held.of_session:
        holds.append(ADVISORY_LOCKS)
    return (
        ("_shoal.holds", ",".join(holds)),
        ("_shoal.unwaited", "" if session.waits.for_nothing else "on"),
        ("_shoal.last_commit", token(session.last_commit)),
    )
