"""A client's connection apart from its statements: start-up, TLS, memory of its bytes, time-outs while it is idle,
notifications, its end.

A connection without a session has authentication_timeout to get one, and may send little until then.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from catalog.encodings import ENCODINGS
from catalog.errors import SqlError, as_sql_error
from catalog.memory import Holding
from catalog.patience import TooLong, too_long
from engine.session import statement_log
from engine.session.errors import idle_error
from engine.session.notifications import SessionNotifications
from engine.session.session import Session
from engine.session.setting_definitions import REPORTED
from wire import core, messages, tls
from wire.answers import Answers
from wire.messages import READY
from wire.password_throttle import PasswordThrottle
from wire.scram import MECHANISM, Exchange

READ_AHEAD = 1 << 20

log = logging.getLogger("shoal.wire")


class Host(Protocol):
    """The part of the server that its connections use."""

    authentication_timeout: float
    tls: ssl.SSLContext | None
    guesses: PasswordThrottle

    def authentication(self, parameters: dict[str, str], address: str, secure: bool) -> Exchange | None:
        """The proof that the client must give, None: none. Raises 28000 (FATAL) if no rule admits it."""

    def open_session(self, parameters: dict[str, str], connection: ClientLink) -> Session:
        """The session of an authenticated client. Raises 28000, 3D000, 53300, 55000, 57P03 (FATAL)."""

    def cancel(self, process_id: int, secret: bytes) -> None: ...
    def add_connection(self, connection: ClientLink) -> None: ...
    def remove_connection(self, connection: ClientLink) -> None: ...
    def flush_soon(self, flush: Callable[[], None]) -> None:
        """Calls `flush` when everything that has arrived is answered: reads first, then writes. A write wakes its
        reader, and a reader woken in the middle of a batch takes the processor from the rest of it."""


class ClientLink(Answers):
    """The base of wire/connection.py's Connection, which processes the messages."""

    def __init__(self, host: Host) -> None:
        super().__init__()
        self.host = host
        self.busy = False
        self._is_yielding = False  # between two turns of a pipeline, or until the client has read its output
        self._timer: asyncio.TimerHandle | None = None  # until it has a session
        self._secure = False  # by TLS
        self._unfinished: Holding | None = None  # bytes of an incomplete message
        self._unread: Holding | None = None  # bytes that the client does not read
        self._exchange: Exchange | None = None
        self._entering: tuple[core.Startup, dict[str, str]] | None = None

    def _process(self) -> None:
        """Processes the messages that have arrived."""
        raise NotImplementedError

    # ---- the transport ------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._limit_writes()
        self._timer = asyncio.get_running_loop().call_later(
            self.host.authentication_timeout, self._on_authentication_timeout
        )
        self.host.add_connection(self)

    def _hold_input(self) -> None:
        """Counts the bytes of an unfinished large message as memory; closes a connection that sends more than there is
        room for."""
        session, size = self.session, self.core.buffered_bytes
        if size <= READ_AHEAD or session is None or self.closing:
            self._unfinished = None
            return
        if self._unfinished is None:
            self._unfinished = Holding(session.memory)
        try:
            if size > self._unfinished.size:
                self._unfinished.add(size - self._unfinished.size + READ_AHEAD)
        except SqlError as error:
            self._fatal(error)

    def _takes_messages(self, data: bytes) -> bool:
        """Whether bytes that arrived before the session are processed as messages."""
        if self.session is not None:
            assert self._timer is not None
            self._timer.cancel()
            self._timer = None
        elif data[0] == tls.HELLO and not (self._secure or self.busy or self.core.buffered_bytes or self._exchange):
            if self.host.tls is not None:
                self._begin_tls(data)
                return False
        elif self.core.buffered_bytes + len(data) > core.PROOF_LIMIT + READ_AHEAD:
            self._fatal(core.violation("the client sent too much before the end of the start-up"))
            return False
        return True

    def connection_lost(self, error: Exception | None) -> None:
        self.closing = True
        self._unread = self._unfinished = None
        if self._timer is not None:
            self._timer.cancel()
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)
        if self._copy is not None:
            self._copy.end(SqlError("08006", "client connection lost during COPY"))
        self.host.remove_connection(self)
        session = self.session
        if session is not None:
            session.cancel()
            if not self.busy:
                self._end_session()

    def _end_session(self) -> None:
        session, self.session = self.session, None
        if session is not None:
            session.node.background(session.close())

    def pause_writing(self) -> None:
        super().pause_writing()
        if self.session is not None:  # existing output cannot be refused; others get less until it is read
            self._unread = Holding(self.session.memory)
            self._unread.owe(self._transport.get_write_buffer_size())

    def eof_received(self) -> bool:
        return False

    def _on_authentication_timeout(self) -> None:
        if self.session is None:
            self._close()

    # ---- start-up -----------------------------------------------------------------------------------------------

    def _on_startup(self, event: core.Startup) -> None:
        unknown = [name for name in event.parameters if name.startswith("_pq_.")]
        if event.minor > core.NEWEST_MINOR or unknown:
            self._write(messages.negotiate_version(min(event.minor, core.NEWEST_MINOR), unknown))
        parameters = {name: value for name, value in event.parameters.items() if not name.startswith("_pq_.")}
        self._exchange = self._authentication(parameters)
        if self._exchange is None:
            self._start_session(event, parameters)
            return
        self._entering = event, parameters
        self.core.authenticate()
        self._write(messages.authentication_sasl(MECHANISM))

    def _authentication(self, parameters: dict[str, str]) -> Exchange | None:
        return self.host.authentication(parameters, self._address, self._secure)

    @property
    def _address(self) -> str:
        """The client's, '' if it is within this process."""
        address = _internet_address(self._transport.get_extra_info("peername"))
        return "" if address is None else address[0]

    def _on_proof(self, event: core.Proof) -> None:
        exchange, entering = self._exchange, self._entering
        assert exchange is not None and entering is not None
        if exchange.challenged:
            self.host.guesses.check(self._address)
            try:
                answer = exchange.final(event.data)
            except SqlError as error:
                if error.sqlstate != "28P01":
                    raise
                self._refuse_later(error)
                return
            self._write(messages.authentication_step(messages.SASL_FINAL, answer))
            self._entering = None
            self._start_session(*entering)
            return
        mechanism, separator, rest = event.data.partition(b"\0")
        if not separator or len(rest) < 4 or int.from_bytes(rest[:4], "big") != len(rest) - 4:
            raise core.violation("malformed SASL message")
        challenge = exchange.first(mechanism.decode(errors="replace"), rest[4:])
        self._write(messages.authentication_step(messages.SASL_CONTINUE, challenge))

    def _refuse_later(self, error: SqlError) -> None:
        """The password was wrong. The answer counts as pending until it is due, whether the client stays or not."""
        guesses, address = self.host.guesses, self._address

        def answer() -> None:
            guesses.release(address)
            if not self.closing:
                self._fatal(error)

        self.busy = True
        delay = guesses.record_failure(address)
        if delay:
            asyncio.get_running_loop().call_later(delay, answer)
        else:
            answer()

    def _on_encryption_request(self, event: core.EncryptionRequest) -> None:
        if event.kind == "ssl" and self.host.tls is not None and not self._secure:
            self._begin_tls(b"")
        else:
            self._write(messages.SSL_REFUSED)

    def _begin_tls(self, began: bytes) -> None:
        self.busy = True
        self._transport.pause_reading()
        if not began:
            self._transport.write(messages.SSL_ACCEPTED)
        asyncio.get_running_loop().create_task(self._finish_tls(began))

    async def _finish_tls(self, began: bytes) -> None:
        context = self.host.tls
        assert context is not None
        try:
            if self.core.buffered_bytes:
                raise tls.NotTlsError("received unencrypted data after SSL request")
            self._transport = await tls.upgrade(self._transport, self, context, self.host.authentication_timeout, began)
        except tls.NotTlsError as error:
            log.info("no TLS with %s: %s", self._transport.get_extra_info("peername"), error)
            self._transport.abort()
            self.connection_lost(None)
            return
        self._secure = True
        self._limit_writes()
        self.busy = False
        self._process()

    def _start_session(self, event: core.Startup, parameters: dict[str, str]) -> None:
        """Starts the session of an authenticated client."""
        session = self.session = self.host.open_session(parameters, self)
        if event.minor >= core.NEWEST_MINOR:
            session.secret = session.node.lengthen_secret(session.process_id)
        session.client.terminator = self._on_terminate_request
        session.client.on_told, session.client.tell_now = self._on_notification, self._send_notice_now
        session.client.address = _internet_address(self._transport.get_extra_info("peername"))
        session.client.server_address = _internet_address(self._transport.get_extra_info("sockname"))
        session.client.tls = _tls_of(self._transport)
        if self._timer is not None:
            self._timer.cancel()
        self.core.ready()
        self._write(messages.AUTHENTICATION_OK)
        session.settings.changed.clear()
        for name in self._startup_settings():
            self._write(messages.parameter_status(name, session.settings.get(name)))
        self._write(messages.message(b"K", session.process_id.to_bytes(4, "big") + session.secret))
        if session.may_time_out:
            self._wait_idle(session)
        self._write(READY["I"])
        statement_log.log_connection(session)
        self._use_encoding(ENCODINGS[session.settings.get("client_encoding")])

    def _startup_settings(self) -> Sequence[str]:
        """The settings that are reported at the start."""
        return REPORTED

    # ---- while it is idle, and its end ---------------------------------------------------------------------------

    def _on_notification(self) -> None:
        """Sends notifications at once to a client that is idle."""
        session = self.session
        if session is None or session.notifying is None or self.busy or self.closing or session.transaction is not None:
            return
        self._send_notifications(session.notifying)
        if not self._flushing:
            self._flushing = True
            self.host.flush_soon(self.flush)

    def _send_notice_now(self, notice: SqlError) -> None:
        """Sends a notice while the client's statement waits."""
        if not self.closing:
            self.notice(notice)
            self.flush()

    def _send_notifications(self, notifying: SessionNotifications) -> None:
        for notification in notifying.take():
            self._write(messages.notification(*notification))

    def _wait_idle(self, session: Session) -> None:
        """Ends the session if the client is silent for longer than idle_session_timeout and similar settings allow."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        limit = session.idle_timeouts["I" if session.status == "I" else "T"]
        if limit:
            error = idle_error(session.status)
            self._timer = asyncio.get_running_loop().call_later(limit / 1000, self._on_idle_timeout, error)

    def _on_idle_timeout(self, error: SqlError) -> None:
        if not self.busy and not self.core.buffered_bytes:
            self.shut_down(error)

    def _internal_error(self, error: BaseException) -> SqlError:
        """The error (XX000) for a defect, whose traceback goes to the log; or that of an OSError."""
        if isinstance(error, TooLong):
            return too_long()
        known = as_sql_error(error)
        if known.sqlstate == "XX000":
            log.error("internal error: %s: %s", type(error).__name__, error, exc_info=error)
        else:
            log.error("%s: %s", known.sqlstate, known.message)
        return known

    @property
    def idle(self) -> bool:
        """Whether it waits for its client."""
        return not self.busy

    def shut_down(self, error: SqlError) -> None:
        """Ends an idle connection (57P01)."""
        if not self.closing:
            self._fatal(error)

    def _on_terminate_request(self, error: SqlError) -> None:
        """pg_terminate_backend() when no statement runs; a running commit is acknowledged."""
        if not self.busy:
            self.shut_down(error)


def _tls_of(transport: asyncio.Transport) -> tuple[str, str, int] | None:
    """Version, cipher and bits of the key of a connection with TLS."""
    found = transport.get_extra_info("ssl_object")
    cipher = found.cipher() if found is not None else None
    return (found.version() or "", cipher[0], cipher[2]) if cipher is not None else None


def _internet_address(name: Any) -> tuple[str, int] | None:
    """Host and port of a socket's name; None for a Unix-domain socket, whose name is a path."""
    return (name[0], name[1]) if isinstance(name, tuple) and len(name) >= 2 else None
