"""The answers of a session to its client: engine/session's `Sink` over the bytes of a connection.

Rows are sent when FLUSH_AT bytes have collected, and wait while the client does not read. COPY data from the client go
from the protocol core to a feed (wire/copy_feed.py) until their end.
"""

from __future__ import annotations

import asyncio

from catalog.encodings import ENCODINGS, Encoding
from catalog.errors import SqlError
from engine.session import statement_log
from engine.session.prepared import Prepared
from engine.session.session import Session
from wire import core, messages
from wire.channel import Channel
from wire.copy_feed import CopyFeed
from wire.messages import command_complete
from wire.ready import description

FLUSH_AT = 1 << 16


class Answers(Channel):
    def __init__(self) -> None:
        super().__init__()
        self.core = core.ProtocolCore()
        self.session: Session | None = None
        self._extended = False
        self._copy: CopyFeed | None = None

    def _fatal(self, error: SqlError) -> None:
        self._error(error, "FATAL")
        self._close()

    def _error(self, error: SqlError, severity: str | None = None) -> None:
        """Sends an error to the client, and counts and logs it."""
        if self.session is None:
            statement_log.log_refusal(self._transport.get_extra_info("peername"), error)
        else:
            self.session.node.activity.count_failure(self.session, error)
            statement_log.log_failure(self.session, error, severity or error.severity)
        self._write(messages.error_response(error, severity))

    def _close(self) -> None:
        self.flush()
        self.closing = True
        self._transport.close()

    def _send_notices(self) -> None:
        session = self.session
        assert session is not None
        for notice in session.notices:
            self.notice(notice)
        session.notices.clear()

    def _send_settings(self) -> None:
        session = self.session
        assert session is not None
        for name in dict.fromkeys(session.settings.changed):
            self._write(messages.parameter_status(name, session.settings.get(name)))
        self._follow_encoding(session)
        session.settings.changed.clear()

    def _follow_encoding(self, session: Session) -> None:
        """Encodes later answers in the client's encoding; does nothing while that is UTF8."""
        if "client_encoding" in session.settings.changed:
            self.flush()
            self._use_encoding(ENCODINGS[session.settings.get("client_encoding")])

    def _use_encoding(self, encoding: Encoding) -> None:
        """Encodings other than UTF8: wire/encoded.py."""
        raise NotImplementedError

    def fields(self, prepared: Prepared, formats: tuple[int, ...]) -> None:
        columns = prepared.plan.columns
        if not self._extended and columns is not None:
            self._write(description(columns, formats))

    async def rows(self, data: bytes) -> None:
        self._write(data)
        if self._out_size >= FLUSH_AT:
            self.flush()
            if self._drained is not None:
                await self._drained
            if self.closing:
                raise asyncio.CancelledError

    def complete(self, name: str) -> None:
        session = self.session
        if session is not None and session.notices:
            self._send_notices()
        if session is not None and session.settings.changed:
            self._follow_encoding(session)
        self._write(command_complete(name))

    def empty(self) -> None:
        self._write(messages.EMPTY_QUERY)

    def suspend(self) -> None:
        self._write(messages.PORTAL_SUSPENDED)

    def notice(self, notice: SqlError) -> None:
        if self.session is None or notice.severity not in self.session.client.unheard:
            self._write(messages.notice_response(notice))

    async def copy_in(self, columns: int, binary: bool) -> CopyFeed:
        self._write(messages.copy_response("in", columns, binary))
        self.flush()
        feed = self._copy = self._feed(binary)
        self.core.begin_copy()
        self.resume("busy")
        self._take_copy()
        return feed

    def _feed(self, binary: bool) -> CopyFeed:
        return CopyFeed(self)

    def _take_copy(self) -> None:
        """Moves COPY messages from the core to the feed, until the data ends."""
        feed = self._copy
        try:
            while feed is not None:
                event = self.core.next_event()
                if isinstance(event, core.CopyData):
                    feed.put(event.data)
                    continue
                if event is core.NEED_DATA:
                    return
                error = None
                if isinstance(event, core.CopyFail):
                    error = SqlError("57014", f"COPY from stdin failed: {event.reason}")
                elif isinstance(event, core.Terminate):
                    error = SqlError("08006", "client connection lost during COPY")
                    self.closing = True
                self._copy = None
                self.core.end_copy(failed=False, extended=self._extended)
                feed.end(error)
                return
        except SqlError as error:
            self._copy = None
            assert feed is not None
            feed.end(error)
            self._fatal(error)

    def copy_out(self, columns: int, binary: bool) -> None:
        self._write(messages.copy_response("out", columns, binary))

    def copy_out_done(self) -> None:
        self._write(messages.COPY_DONE)
