"""The session proxy: forwards a client's session to the leader of a tablespace for a transaction, and then takes it
back.

    client -> Connection -> SessionProxy -> ClientConnection -> the leader     messages unchanged, with back-pressure
           <-            <-              <-                  <-

The connection (wire/leader_forwarding.py) runs a client's statements by itself. When a statement must run at its
tablespace's leader, the connection passes the bytes from there on, and every byte that arrives later, to `feed` and
calls `forward`, which returns after the ReadyForQuery that ends the transaction ('I'); later bytes are given back.

A *cycle* is the messages that one ReadyForQuery answers: a Query, or extended messages up to Sync. The next cycle is
read only when the one before it is answered, so the messages after a COMMIT in a pipeline run locally again.

The proxy adds and removes messages, so that the client sees one session:

    settings      before a transaction, SET for each that differs from what the leader's session has (`SessionImage`);
                  the leader reports every setting at the start and every change by ParameterStatus (it knows a
                  forwarded session by its introduction); at the end the session gets all of them, the
                  client only those that clients may see
    block         a block that the client began locally begins at the leader first (`SessionImage.block`)
    statements    a named or unnamed statement that the leader's session lacks, or has with another text, is parsed
                  there before the Bind, Describe, EXECUTE or DEALLOCATE that names it; those that the client prepares
                  meanwhile are recorded in the local session
    state         objects that outlive a transaction at the leader (cursors WITH HOLD, temporary tables, statements that
                  SQL made) pin the session there: `forward` then continues from transaction to transaction

Pseudo-parameters by which a leader reports on a forwarded session, never shown to the client: `_shoal.holds` (the names
of its objects that outlive the transaction, separated by commas; '' for none), `_shoal.last_commit` (the session's
token), `_shoal.listens` (LISTEN and UNLISTEN for the client's own node), `_shoal.unwaited` ('on' while acknowledged
commits are not durable, `synchronous_commit` = off).

When the leader's connection breaks:

    no message was sent                                the leader is looked up again, until the deadline: then 57P03
    only a refusal was received (NOT_LEADING)          the same: a node that is no longer the leader has done nothing
    in a transaction                                   40001, once, in answer to the running or the next statement;
                                                       the block is failed (a ROLLBACK is not refused)
    a commit was sent                                  08007 (FATAL): the outcome is unknown
    a message to the client was cut in the middle      the client's connection closes without an error
    commits were acknowledged before they were         08006 (FATAL), at once: they may be lost, and the client must not
    durable                                            depend on them

Reading from the client stops while READ_AHEAD bytes wait here; frames from the leader wait for the client to read.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from catalog.errors import SqlError
from engine.session.setting_definitions import DEFINITIONS, REPORTED, milliseconds
from engine.session.settings import set_statement
from wire import client_core, core, messages
from wire.client import ClientConnection, ConnectionLostError
from wire.client_core import FRONTEND_BULK, Frame, FrameStream
from wire.frozen_leader import end_if_frozen, watch
from wire.peer_authentication import PREFIX
from wire.proxy_cycle import OTHER, ProxyCycle, effects_of
from wire.proxy_host import ProxyHost

READ_AHEAD = 1 << 20
DEADLINE = 15.0  # seconds within which a leader must be found and reached
RETRY_PAUSE = 0.1
NOT_LEADING = "NotLeading"  # the routine in the error (40001) of a node that leads no more and has done nothing
log = logging.getLogger("shoal.proxy")

_SHOWN = frozenset(REPORTED)
_SHOWN_LOWER = frozenset(map(str.lower, REPORTED))
_NO_LEADER = "A new leader is elected when the old one's session has expired: retry in a few seconds."
_COPY_KINDS = frozenset(b"dcf")
_ENDS_CYCLE = frozenset(b"QSF")  # Query, Sync, FunctionCall
_ASIDES = frozenset(b"SNA")  # ParameterStatus, NoticeResponse, NotificationResponse
_PINNING = frozenset(("PREPARE", "DEALLOCATE"))
_UNPINNING = frozenset(("DEALLOCATE ALL", "DISCARD ALL"))
_NAMES_STATEMENT = re.compile(rb"\b(?:execute|deallocate)\b", re.IGNORECASE)
# FATAL errors by which a node says that it stops, not that the session has an error.
_GOING = frozenset(("57P01", "57P02", "57P03"))


@dataclass(frozen=True, slots=True)
class LeaderAddress:
    """The address of a leader, and its epoch."""

    node: str
    host: str
    port: int
    epoch: int = 0
    certificate: str = ""  # the hash of its own, '' if it has none (wire/tls.py)


class Locator(Protocol):
    """Finds leaders, and introduces sessions to them."""

    async def leader(self, tablespace: str, not_this: LeaderAddress | None = None) -> LeaderAddress:
        """The leader of a tablespace. `not_this` has failed: waits a moment for another, or the same in a new epoch,
        and returns it again if there is none. Raises 57P03 if there is no leader."""

    def introduce(self, target: LeaderAddress, parameters: Mapping[str, str], client: str) -> dict[str, str]:
        """The startup parameters for a forwarded session (wire/peer_authentication.py)."""


@dataclass(frozen=True, slots=True)
class SessionImage:
    """The state that the leader's session must have before the client's messages come.

    `startup` are the client's own startup parameters (user and database too), `settings` those that the session has
    now, outside of the transaction, by lower-case names. `block` opens the transaction as the client has opened it
    locally: BEGIN with its characteristics, then SET [LOCAL] and SAVEPOINT in their order; empty outside a block.
    `client` is the client's address.
    """

    startup: Mapping[str, str]
    settings: Mapping[str, str]
    block: Sequence[str] = ()
    client: str = ""


class _LeaderGoneError(Exception):
    """Raised when the leader reports that it stops."""


class _RefusedError(_LeaderGoneError):
    """The node is no longer the leader, and has done nothing."""


class ClientGoneError(Exception):
    """The client has sent Terminate."""


class LeadsHereError(Exception):
    """This node leads: `forward` has sent nothing."""


class SessionProxy:
    """Forwards one client's session. `forward` runs as one task; `feed`, `cancel` and `close` may be called
    meanwhile."""

    def __init__(self, host: ProxyHost, locator: Locator, *, deadline: float = DEADLINE) -> None:
        self._host = host
        self._locator = locator
        self._deadline = deadline
        self._clock = asyncio.get_running_loop().time
        self._leader: ClientConnection | None = None
        self._target: LeaderAddress | None = None
        self._client = FrameStream(FRONTEND_BULK, core.MESSAGE_LIMIT)
        self._first: deque[Frame] = deque()
        self._given_back = b""
        self._arrival: asyncio.Future[None] | None = None
        self._cancelling: asyncio.Task[bool] | None = None
        self._opening: asyncio.Task[None] | None = None  # the task of `forward` while it looks for the leader
        self._interrupted: SqlError | None = None
        self._resting = True  # the leader's output is not read
        self.idle = False  # between two cycles of a transaction: the client is silent
        # The leader's session: statements, effects of their texts and of those of portals, settings, and its reports.
        self._there: dict[bytes, core.Parse] = {}
        self._effects: dict[bytes, int] = {}  # b"S" + statement or b"P" + portal
        self._texts: dict[bytes, bytes] = {}  # of portals
        self._known: dict[str, str] = {}
        self._holds = ""
        self._unwaited = ""
        self._sql_statements = False
        # Reports since the transaction began.
        self._changed: dict[str, str] = {}
        self._token = ""
        # Pending answers to Parse, Bind and Close in order: whether the client gets them, and their objects.
        self._expected: deque[tuple[bool, core.Parse | bytes | None]] = deque()

    # ---- interface for the connection -------------------------------------------------------------------------------

    @property
    def is_pinned(self) -> bool:
        """Whether the leader's session holds objects that outlive a transaction."""
        return bool(self._holds) or self._sql_statements

    @property
    def held_objects(self) -> str:
        """The objects that the leader's session holds, by its last report."""
        return self._holds

    @property
    def has_unwaited_commits(self) -> bool:
        """Whether acknowledged commits were not durable at the leader's last report."""
        leader = self._leader
        while self._unwaited and self._resting and leader is not None and (frame := leader.take()) is not None:
            if frame.kind == 0x53:
                self._take_setting(frame)
        return bool(self._unwaited)

    def feed(self, data: bytes) -> None:
        """Takes bytes of the client while `forward` runs."""
        self._client.receive_data(data)
        if self._client.buffered_bytes > READ_AHEAD:
            self._host.pause("relay")
        _wake(self._arrival)

    def take_rest(self) -> bytes:
        """The bytes of the client that the proxy has not forwarded, after `forward` has ended in any way."""
        data, self._given_back = self._given_back + self._client.take_rest(), b""
        self._host.resume("relay")
        return data

    async def forward(self, tablespace: str, image: SessionImage) -> None:
        """Runs the fed messages at the tablespace's leader, until the transaction is over. Later bytes are in
        `take_rest`.

        Raises SqlError, after which nothing has happened to the session and all fed bytes are in `take_rest`: 57P03 (no
        leader in time), the leader's error for a setting or BEGIN; FATAL: 08007 and the error with which the leader
        ended the session. Raises LeadsHereError, likewise; ClientGoneError, and ConnectionLostError when a message to
        the client was cut: it closes without an error.
        """
        self._resting = False
        cycle = ProxyCycle("T" if image.block else "I")
        end = self._clock() + self._deadline
        begun = False
        await self._open_leader_session(tablespace, image, end)
        try:
            while True:
                try:
                    status = await self._run_cycle(cycle)
                except (_LeaderGoneError, ConnectionLostError) as error:
                    refused = isinstance(error, _RefusedError)
                    if begun or (cycle.is_sent and not (refused and cycle.is_repeatable)):
                        await self._handle_leader_loss(cycle, error)
                        return
                    cycle = await self._retry_cycle(tablespace, image, cycle, end, refused)
                    continue
                if status == "I":
                    self._finalize(image)
                    if not self.is_pinned:
                        return
                cycle, begun = ProxyCycle(status), True
        finally:
            self._given_back += b"".join(frame.data for frame in self._first)
            self._first.clear()
            self.idle = False
            self._resting = True

    async def _retry_cycle(
        self, tablespace: str, image: SessionImage, cycle: ProxyCycle, end: float, elsewhere: bool
    ) -> ProxyCycle:
        """Repeats the first cycle at another leader or in a new session, because it has had no effect."""
        self._first.extendleft(reversed(cycle.messages))
        target = self._target
        self._drop_leader()
        await self._open_leader_session(tablespace, image, end, target if elsewhere else None)
        return ProxyCycle(cycle.status)

    def cancel(self) -> None:
        """Asks the leader to cancel the statement. The answer comes as usual, or the connection breaks."""
        leader = self._leader
        if leader is not None and not leader.lost and self._opening is None:
            self._cancelling = asyncio.get_running_loop().create_task(end_if_frozen(leader, leader.cancel()))

    def interrupt(self, error: SqlError) -> bool:
        """Ends the search for a leader: `forward` raises the error. False if there is one already."""
        if self._opening is None:
            return False
        self._interrupted = error
        return self._opening.cancel()

    def close(self) -> None:
        """The client has disconnected: the leader rolls back."""
        if self._leader is not None:
            self._leader.close()
            self._leader = None

    def _finalize(self, image: SessionImage) -> None:
        """Passes the changes of a finished transaction to the local session."""
        if image.block:
            self._host.end_block()
        if self._changed:
            self._host.adopt_settings(self._changed)
            self._changed = {}
        if self._token:
            self._host.on_committed(self._token)
            self._token = ""

    # ---- the leader's session ---------------------------------------------------------------------------------------

    async def _open_leader_session(
        self, tablespace: str, image: SessionImage, end: float, not_this: LeaderAddress | None = None
    ) -> None:
        """Opens a session at the leader with the state of the image."""
        task = self._opening = asyncio.current_task()
        assert task is not None
        try:
            while True:
                target = await self._find_leader(tablespace, not_this, end)
                try:
                    await self._connect(target, image, end)
                    await self._prepare(image)
                    return
                except (ConnectionLostError, _LeaderGoneError) as error:
                    self._drop_leader()
                    if self._clock() >= end:
                        message = f'the leader of tablespace "{tablespace}" cannot be reached'
                        raise SqlError("57P03", message, detail=str(error), hint=_NO_LEADER) from error
                    await asyncio.sleep(RETRY_PAUSE)
                not_this = target
        except asyncio.CancelledError:
            interrupted, self._interrupted = self._interrupted, None
            if interrupted is None:
                raise
            self._drop_leader()
            task.uncancel()
            raise interrupted from None
        finally:
            self._opening = None

    async def _find_leader(self, tablespace: str, not_this: LeaderAddress | None, end: float) -> LeaderAddress:
        """The leader; 57P03 after the deadline. Raises LeadsHereError as soon as it is this node."""
        while True:
            search = asyncio.ensure_future(self._locator.leader(tablespace, not_this))
            try:
                while not search.done():
                    if self._host.leads_here:
                        raise LeadsHereError
                    if self._clock() >= end:
                        raise SqlError("57P03", f'no node leads tablespace "{tablespace}"', hint=_NO_LEADER)
                    await asyncio.wait((search,), timeout=min(RETRY_PAUSE, max(end - self._clock(), 0.0)))
                return search.result()
            except SqlError as error:
                if error.sqlstate != "57P03" or self._clock() >= end:
                    raise
                await asyncio.sleep(RETRY_PAUSE)
            finally:
                search.cancel()

    async def _connect(self, target: LeaderAddress, image: SessionImage, end: float) -> None:
        if self._leader is not None and not self._leader.lost and self._target == target:
            return
        self._drop_leader()
        parameters = self._locator.introduce(target, image.startup, image.client)
        timeout = max(end - self._clock(), 0.05)
        try:
            self._leader = await ClientConnection.open(
                target.host, target.port, parameters, timeout=timeout, certificate=target.certificate
            )
        except SqlError as error:
            if error.sqlstate in _GOING:
                raise _LeaderGoneError(error.message) from error
            error.severity = "ERROR"
            raise
        self._target = target
        self._leader.on_lost = partial(self._leader_lost, self._leader)
        self._known = {name.lower(): value for name, value in self._leader.parameters.items()}

    def _leader_lost(self, leader: ClientConnection) -> None:
        if leader is not self._leader:
            return
        if self.has_unwaited_commits:
            self._host.on_commits_lost()

    def _drop_leader(self) -> None:
        if self._leader is not None:
            self._leader.on_lost = None
            self._leader.abort()
            if self._unwaited:
                self._host.on_commits_lost()
        self._unwaited = ""
        self._leader = self._target = None
        self._there.clear()
        self._effects.clear()
        self._texts.clear()
        self._expected.clear()
        self._known = {}
        self._changed = {}
        self._holds = self._token = ""
        self._sql_statements = False

    async def _prepare(self, image: SessionImage) -> None:
        """Sends settings, then the block: in two Queries, because a ROLLBACK undoes the SETs of its own transaction."""
        wanted = _changed_settings(self._known, image.settings)
        leader = self._require_leader()
        failure: SqlError | None = None
        if wanted:
            leader.send(client_core.query("; ".join(set_statement(*item) for item in wanted.items()).encode()))
        if image.block:
            leader.send(client_core.query("; ".join(image.block).encode()))
        if wanted:
            failure = await self._quiet_answer(leader)
            self._known.update(wanted)
        self._changed = {}  # changes in the block count: they may be undone with it
        if image.block:
            failure = await self._quiet_answer(leader) or failure
        if wanted or image.block:
            self._there.pop(b"", None)
        if failure is not None:
            self._drop_leader()
            raise _RefusedError(failure.message) if failure.routine == NOT_LEADING else failure

    async def _quiet_answer(self, leader: ClientConnection) -> SqlError | None:
        """Reads up to ReadyForQuery without passing it to the client; returns the error in it, if there is one."""
        failure: SqlError | None = None
        while True:
            frame = await leader.receive()
            if frame.kind == 0x45:
                failure = _leader_error(frame)
            elif frame.kind == 0x53:
                self._take_setting(frame)
            elif frame.kind == 0x5A:
                return failure

    def _require_leader(self) -> ClientConnection:
        if self._leader is None:
            raise _LeaderGoneError("there is no connection to the leader")
        return self._leader

    # ---- one cycle: from the client ---------------------------------------------------------------------------------

    async def _run_cycle(self, cycle: ProxyCycle) -> str:
        """Forwards one cycle; returns the transaction status after it."""
        leader = self._require_leader()
        loop = asyncio.get_running_loop()
        up = loop.create_task(self._send_cycle(leader, cycle))
        down = loop.create_task(self._pass_answer(leader, cycle))
        timeout = milliseconds(self._known.get("statement_timeout", "0"))
        watching = loop.create_task(watch(leader, timeout / 1000)) if timeout else None
        try:
            await asyncio.wait((up, down), return_when=asyncio.FIRST_COMPLETED)
            if not down.done():
                up.result()  # ClientGoneError, or an invalid message
                await down
            ready = down.result()
            cycle.end()
            _wake(self._arrival)
            await up
            await self._end_of_message()  # the leader may have been lost since
        finally:
            if watching is not None:
                watching.cancel()
            up.cancel()
            down.cancel()
            await asyncio.wait((up, down))
            for task in (up, down):
                if not task.cancelled():
                    task.exception()  # handled: it was raised above, or does not matter any more
        status = chr(ready.data[5])
        self._host.on_statement_end(status)
        self._host.send(ready.data)
        await self._host.drain()
        return status

    async def _next_frame(self, leader: ClientConnection, cycle: ProxyCycle) -> Frame | None:
        """The client's next frame. None, with nothing taken, if the leader is lost, and if the cycle is answered and
        the taken bytes end at the end of a message."""
        while not (leader.lost or (cycle.over and self._client.at_boundary)):
            frame = self._first.popleft() if self._first else self._client.next_frame()
            if frame is not None:
                return frame
            self._host.resume("relay")
            await self._wait_for_input()
        return None

    async def _wait_for_input(self) -> None:
        """Waits for more bytes from the client, or another event. One task waits at a time."""
        self._arrival = asyncio.get_running_loop().create_future()
        await self._arrival

    async def _send_cycle(self, leader: ClientConnection, cycle: ProxyCycle) -> None:
        """Sends the client's messages up to Query or Sync, and COPY data when the leader asks for it. Ends without an
        error when the leader is lost: its remaining answers must still be read. Ends after a whole message when the
        cycle is answered: the leader may have stopped in the middle of a CopyData, whose rest belongs to it."""
        while not cycle.over or not self._client.at_boundary:
            if cycle.complete:
                cycle.copy_begun.clear()
                await cycle.copy_begun.wait()
            self.idle = not cycle.is_sent
            frame = await self._next_frame(leader, cycle)
            self.idle = False
            if frame is None:
                return
            if frame.kind == 0x58:  # Terminate
                raise ClientGoneError
            if frame.kind in _COPY_KINDS or cycle.copying:
                self._forward_copy(leader, cycle, frame)
            elif not await self._forward(leader, cycle, frame):
                return
            await leader.drain()

    def _forward_copy(self, leader: ClientConnection, cycle: ProxyCycle, frame: Frame) -> None:
        """Forwards a message of COPY; the leader ignores a Sync in the middle of it, and messages after its failure.
        The proxy ignores them too before another message."""
        if not (cycle.is_sent or cycle.copying):
            return
        leader.send(frame.data)
        if frame.kind in (0x63, 0x66):  # CopyDone, CopyFail
            cycle.copying = False
            cycle.complete = not cycle.extended

    async def _forward(self, leader: ClientConnection, cycle: ProxyCycle, frame: Frame) -> bool:
        """Forwards one message of the client, after messages that the leader needs before it. False: the cycle has
        failed before it."""
        kind, body = frame.kind, frame.body
        cycle.extended = kind != 0x51
        cycle.keep(frame)
        if not cycle.is_sent or kind == 0x45:
            self._host.on_statement_start(self._text(kind, body))
        if kind == 0x51:
            if not await self._query_named(leader, cycle, body[:-1]):
                return False
        elif kind == 0x50:
            self._parse(leader, frame)
        elif kind == 0x42:
            portal, statement = body.split(b"\0", 2)[:2]
            self._require_statement(leader, statement)
            self._effects[b"P" + portal] = self._effects.get(b"S" + statement, OTHER)
            self._texts[portal] = self._bound_text(statement)
            self._expected.append((False, None))
        elif kind == 0x44 and body[:1] == b"S":
            self._require_statement(leader, body[1:-1])
        elif kind == 0x43:
            self._expected.append((False, body[1:-1] if body[:1] == b"S" else None))
        elif kind == 0x45:
            cycle.effects |= self._effects.get(b"P" + body[:-5], OTHER)
        leader.send(frame.data)
        cycle.is_sent = True
        cycle.complete = kind in _ENDS_CYCLE
        return True

    def _text(self, kind: int, body: bytes) -> bytes:
        """The text that a Query or Execute runs."""
        return body[:-1] if kind == 0x51 else self._texts.get(body[:-5], b"") if kind == 0x45 else b""

    def _bound_text(self, name: bytes) -> bytes:
        """The text of a statement that a Bind names."""
        for _, what in reversed(self._expected):
            if isinstance(what, core.Parse) and what.name == name:
                return what.sql
        there = self._there.get(name)
        return b"" if there is None else there.sql

    async def _query_named(self, leader: ClientConnection, cycle: ProxyCycle, sql: bytes) -> bool:
        """Before a Query: the statements that it names are parsed in a separate cycle. False if one failed: its error
        was the answer."""
        cycle.effects |= effects_of(sql)
        self._there.pop(b"", None)
        self._host.forget_statement(b"")  # 55.2.3: a simple query destroys the unnamed statement
        named = self._statements_named_in(sql)
        if not named:
            return True
        cycle.is_sent = True
        for statement in named:
            self._parse_there(leader, statement)
        cycle.quiet = asyncio.get_running_loop().create_future()
        leader.send(client_core.SYNC)
        return await cycle.quiet

    def _parse(self, leader: ClientConnection, frame: Frame) -> None:
        reader = core.ProtocolCore()
        reader.ready()
        reader.receive_data(frame.data)
        statement = reader.next_event()
        assert isinstance(statement, core.Parse)
        for named in self._statements_named_in(statement.sql):
            self._parse_there(leader, named)
        if statement.name and statement.name in self._there and self._host.statement(statement.name) is None:
            # The client has dropped the statement of that name by a DEALLOCATE, which ran here.
            leader.send(client_core.close("S", statement.name))
            self._expected.append((True, statement.name))
        self._effects[b"S" + statement.name] = effects_of(statement.sql)
        self._expected.append((False, statement))

    def _statements_named_in(self, sql: bytes) -> list[core.Parse]:
        """The client's statements that EXECUTE or DEALLOCATE in this text may name and that the leader lacks."""
        if not _NAMES_STATEMENT.search(sql):
            return []
        text = sql.lower()
        found = (self._host.statement(name) for name in self._host.statement_names() if name and name.lower() in text)
        return [statement for statement in found if statement and not self._is_at_leader(statement)]

    def _is_at_leader(self, statement: core.Parse) -> bool:
        """Whether the leader's session has it. Types that were not given are those that the text implies."""
        there = self._there.get(statement.name)
        return (
            there is not None
            and there.sql == statement.sql
            and all(given in (0, wanted) for given, wanted in zip(there.types, statement.types, strict=False))
        )

    def _require_statement(self, leader: ClientConnection, name: bytes) -> None:
        """Parses the client's statement at the leader unless it has it, or it was sent already."""
        if any(isinstance(what, core.Parse) and what.name == name for _, what in self._expected):
            return
        statement = self._host.statement(name)
        if statement is not None and not self._is_at_leader(statement):
            self._parse_there(leader, statement)

    def _parse_there(self, leader: ClientConnection, statement: core.Parse) -> None:
        if statement.name and statement.name in self._there:
            leader.send(client_core.close("S", statement.name))
            self._expected.append((True, statement.name))
        leader.send(client_core.parse(statement.name, statement.sql, statement.types))
        self._expected.append((True, statement))
        self._effects[b"S" + statement.name] = effects_of(statement.sql)

    # ---- one cycle: from the leader ---------------------------------------------------------------------------------

    async def _pass_answer(self, leader: ClientConnection, cycle: ProxyCycle) -> Frame:
        """Passes the leader's frames to the client up to ReadyForQuery, which it returns."""
        while True:
            frame = await leader.receive()
            kind = frame.kind
            if kind in client_core.BACKEND_BULK:
                cycle.has_answer = True
                self._host.send(frame.data)
                await self._host.drain()
            elif kind != 0x5A:
                if kind == 0x45 and not cycle.has_completed and _is_not_leading(frame):
                    raise _RefusedError("the node does not lead any more")
                if self._take_report(cycle, frame):
                    cycle.has_answer = cycle.has_answer or kind not in _ASIDES
                    self._host.send(frame.data)
            elif cycle.quiet is not None and not cycle.quiet_failed:
                cycle.quiet.set_result(True)
                cycle.quiet = None
            else:
                self._expected.clear()
                return frame

    async def _end_of_message(self) -> None:
        """Drops the rest of a CopyData message in which the leader was lost."""
        while not self._client.at_boundary:
            if self._client.next_frame() is None:
                self._host.resume("relay")
                await self._wait_for_input()

    def _take_report(self, cycle: ProxyCycle, frame: Frame) -> bool:
        """Handles a frame that reports about the session. Returns whether the client gets the frame."""
        kind = frame.kind
        if kind in (0x31, 0x32, 0x33) and self._expected:
            quiet, what = self._expected.popleft()
            self._on_complete(kind, quiet, what)
            return not quiet
        if kind == 0x45:
            error = _leader_error(frame)
            log.debug("the leader answered %s", error)
            self._expected.clear()  # the rest of the cycle is skipped
            cycle.copying = False
            if cycle.quiet is not None:
                cycle.quiet_failed = True
        elif kind == 0x53:
            return self._take_setting(frame)
        elif kind == 0x43:
            cycle.has_completed = True
            self._command(client_core.strings(frame.body)[0])
        elif kind == 0x47:
            cycle.begin_copy()
        return True

    def _on_complete(self, kind: int, quiet: bool, what: core.Parse | bytes | None) -> None:
        if kind == 0x31 and isinstance(what, core.Parse):
            self._there[what.name] = what
            if not quiet:
                self._host.adopt_statement(what)
        elif kind == 0x33 and isinstance(what, bytes):
            self._there.pop(what, None)
            if not quiet:
                self._host.forget_statement(what)

    def _command(self, tag: str) -> None:
        if tag in _UNPINNING:
            self._sql_statements = False
            self._there.clear()
            self._host.forget_statement(None)
        elif tag in _PINNING:
            self._sql_statements = True

    def _take_setting(self, frame: Frame) -> bool:
        """Handles a ParameterStatus; returns whether clients get it."""
        name, value = client_core.strings(frame.body)
        if name == "_shoal.holds":
            self._holds = value
        elif name == "_shoal.last_commit":
            self._token = value
        elif name == "_shoal.listens":
            self._host.on_listen(value)

        elif name == "_shoal.unwaited":
            self._unwaited = value
        elif not name.startswith(PREFIX):
            self._known[name.lower()] = self._changed[name.lower()] = value
        return name in _SHOWN

    # ---- when the leader is lost ------------------------------------------------------------------------------------

    async def _handle_leader_loss(self, cycle: ProxyCycle, cause: Exception) -> None:
        """Reports the outcome of the transaction after the leader's loss, and gives the session back. Raises the errors
        of `forward`."""
        cut = self._leader is not None and not self._leader.at_boundary
        pinned = self.is_pinned
        told = [name for name in self._changed if name in _SHOWN_LOWER]
        self._drop_leader()
        if cycle.may_have_committed and not isinstance(cause, _RefusedError):
            raise SqlError(
                "08007",
                "the connection to the leader broke during a commit, whose outcome is unknown",
                detail=str(cause),
                severity="FATAL",
            )
        if cut:
            raise ConnectionLostError("a message to the client was cut")
        if pinned:
            message = "the node that held this session's cursors, temporary tables or prepared statements is gone"
            raise SqlError("57P01", message, detail=str(cause), severity="FATAL")
        self._host.on_settings_lost(told)
        if cycle.is_rollback:
            self._given_back = b"".join(frame.data for frame in cycle.messages)
            self._host.fail_block(None)
            return
        error = SqlError(
            "40001",
            "the transaction was rolled back because the connection to its leader ended",
            detail=str(cause),
            hint="Run the transaction again.",
        )
        if not cycle.is_sent:
            self._host.fail_block(error)
            return
        await self._end_of_message()
        self._host.send(messages.error_response(error))
        if cycle.status != "I":
            self._host.fail_block(None)
        if cycle.complete:
            self._host.send(messages.READY["E"])
        else:
            self._host.skip_to_sync()


def _wake(waiter: asyncio.Future[None] | None) -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(None)


def _leader_error(frame: Frame) -> SqlError:
    """Handles an error of the leader. Raises _LeaderGoneError if it stops, the error itself if it ends the session."""
    error = client_core.report_error(frame.body)
    if error.severity in ("FATAL", "PANIC"):
        if error.sqlstate in _GOING:
            raise _LeaderGoneError(error.message)
        error.severity = "FATAL"
        raise error
    return error


def _is_not_leading(frame: Frame) -> bool:
    return client_core.report_fields(frame.body).get("R") == NOT_LEADING


def _changed_settings(known: Mapping[str, str], wanted: Mapping[str, str]) -> dict[str, str]:
    """The settings to be set, the user first, because setting it resets the role."""
    found = {
        name: value
        for name, value in wanted.items()
        if known.get(name) != value and (name not in DEFINITIONS or DEFINITIONS[name].context != "internal")
    }
    return dict(sorted(found.items(), key=lambda item: (item[0] != "session_authorization", item[0] != "role")))
