"""One client connection: passes the protocol core's events to the session, and its answers to the client.

Events are processed one by one. Most are answered at once (the cached path). An event that must wait (for a lock, the
worker, a commit) sets `busy`, and later events stay in the core until it is done. Answers collect in `_out` and are
sent in one write when there is nothing more to do. Start-up, TLS and time-outs are in wire/client_link.py.

Bounds: reading pauses while a statement runs and more than READ_AHEAD bytes wait. Rows, and the statements of a
pipeline, wait while the transport holds more than WRITE_BEHIND bytes (asyncio's write buffer limits). COPY has a bound
of its own (wire/copy_feed.py). A pipeline yields to other connections after TURN answers.

A node of a cluster has wire/leader_forwarding.py's connections, which first decide whether the node may run the
messages.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from time import perf_counter
from typing import Any

from catalog.encodings import Encoding
from catalog.errors import SqlError
from engine.execute.context import RowPathFull
from engine.session.answer import Answer as AnswerAtEnd
from engine.session.errors import canceled_error
from engine.session.plan import Answer
from engine.session.portal import Portal
from engine.session.prepared import LongPlan, PastWait, Prepared, StalePlan
from engine.session.session import Session
from engine.session.statement_texts import LONG_TEXT
from engine.statements import extended
from engine.statements import run as running
from engine.statements.find import find
from engine.statements.function_call import FunctionCall
from engine.statements.planning import note_overflow
from engine.txn.interface import LockWait, WaitTicket
from wire import core, messages
from wire.batches import run_batch
from wire.client_link import READ_AHEAD, Host
from wire.copy_feed import CopyFeed
from wire.encoded import ClientEncoding, EncodedOut
from wire.messages import READY
from wire.ready import ReadyExecution, complete_bytes, description, ready_execution
from wire.statement_tasks import StatementTasks

FLUSH_PIECES = 64  # answers of a pipeline that collect before they are sent
QUERY, BIND = b"QB"
TURN = 512  # answers of a pipeline before others get their turn

log = logging.getLogger("shoal.wire")


class Connection(StatementTasks):
    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._batched = 0  # rows of batches in this turn, whose answers are one piece each
        self._encoding: ClientEncoding | None = None  # for a client in another encoding than UTF8
        self._handlers = self._own_handlers()

    def _own_handlers(self) -> dict[type, Callable[[Any], None]]:
        return {
            core.Query: self.take_query,
            core.Bind: self._on_bind,
            core.LargeBind: self.take_large_bind,
            core.Describe: self._on_describe,
            core.Execute: self.take_execute,
            core.Sync: self._on_sync,
            core.Parse: self.take_parse,
            core.Close: self._on_close,
            core.Flush: lambda _: None,
            core.Terminate: lambda _: self._close(),
            core.Startup: self._on_startup,
            core.EncryptionRequest: self._on_encryption_request,
            core.Proof: self._on_proof,
            core.CancelRequest: self._on_cancel,
            core.FunctionCall: self.take_function_call,
            core.WaitingExecution: self._on_waiting_execution,
        }

    # ---- asyncio.Protocol ---------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        if self._timer is not None and not self._takes_messages(data):
            return
        if (
            self.busy
            or self._is_yielding
            or self.session is None
            or self._encoding is not None  # only clients in UTF8 are answered at once
            or not self._take_whole(data)
        ):
            self._receive(data)

    def _receive(self, data: bytes) -> None:
        """Stores bytes, and processes their messages as soon as it is their turn."""
        self.core.receive_data(data)
        if self._copy is not None:
            self._take_copy()
        elif not self.busy and not self._is_yielding:
            self._process()
        elif self.core.buffered_bytes > READ_AHEAD:
            self.pause("busy")
        if self.core.buffered_bytes > READ_AHEAD or self._unfinished is not None:
            self._hold_input()

    def _take_whole(self, data: bytes) -> bool:
        """Answers the bytes, if they are one simple query, or one execution of a known kind: nearly all messages of
        most clients. That needs no buffer and no events. False: they are something else."""
        kind = data[0]
        if kind == QUERY:
            sql = self.core.whole_query(data)
            if sql is None:
                return False
            query = core.Query(sql)
            try:
                self.take_query(query)
            except Exception as error:
                self._handle_error(query, error)
        elif kind == BIND:
            found = self.core.whole_execution(data)
            if found is None:
                return False
            execution, parameters = found
            try:
                if not self._execute_at_once(execution, parameters, False):
                    return False
            except LockWait as wait:
                self._wait_for_lock(core.WaitingExecution(execution, parameters, data), wait)
                self._process()
                return True
            except Exception as error:
                self._handle_error(core.WaitingExecution(execution, parameters, data), error)
                self._process()
                return True
        else:
            return False
        if self._out and not self._flushing:
            self._flushing = True
            self.host.flush_soon(self.flush)
        return True

    def resume_writing(self) -> None:
        self._unread = None
        drained, self._drained = self._drained, None
        if drained is not None and not drained.done():
            drained.set_result(None)
        if self._is_yielding:
            asyncio.get_running_loop().call_soon(self._next_turn)

    def _yield_turn(self) -> None:
        """Continues a pipeline in another turn of the loop."""
        self._is_yielding = True
        if self._drained is None:
            asyncio.get_running_loop().call_soon(self._next_turn)

    def _next_turn(self) -> None:
        if self._is_yielding and self._drained is None:
            self._is_yielding = False
            self.resume("busy")
            if not self.closing:
                self._process()

    # ---- events -------------------------------------------------------------------------------------------------

    def _process(self) -> None:
        handlers = self._handlers
        next_event = self.core.next_event
        need_data = core.NEED_DATA
        sent = self._batched = 0
        try:
            while self.core.buffered_bytes and not self.busy and not self.closing:
                if len(self._out) >= FLUSH_PIECES or self._batched >= TURN:
                    sent += len(self._out) + self._batched
                    self._batched = 0
                    self.flush()
                    if sent >= TURN or self._drained is not None:
                        self._yield_turn()
                        return
                event = next_event()
                if event is need_data:
                    break
                try:
                    handlers[type(event)](event)
                except Exception as error:
                    self._handle_error(event, error)
        except SqlError as error:
            self._fatal(error)
        if self._out and not self._flushing:
            self._flushing = True
            self.host.flush_soon(self.flush)

    def _handle_error(self, event: object, error: Exception) -> None:
        """Handles an error as its message requires (55.2.2, 55.2.3)."""
        if not isinstance(error, SqlError):
            error = self._internal_error(error)
        if isinstance(event, core.WaitingExecution):  # as if its Bind had failed: the rest is skipped up to its Sync
            self.core.push_back(event.data)
            self.core.next_event()
        if self.session is None or error.severity == "FATAL":
            self._fatal(error)
        elif isinstance(event, core.Query | core.Sync | core.FunctionCall):
            self._query_failed(error)
        else:
            self._extended_failed(error)

    def _use_encoding(self, encoding: Encoding) -> None:
        if encoding.is_utf8 and self._encoding is None:
            return
        self.flush()
        self._encoding = None if encoding.is_utf8 else ClientEncoding(self, encoding)
        self._out = [] if self._encoding is None else EncodedOut(self._encoding)
        self._handlers |= self._own_handlers() if self._encoding is None else self._encoding.handlers()

    @property
    def extended(self) -> bool:
        """Whether it is in the extended protocol."""
        return self._extended

    def _feed(self, binary: bool) -> CopyFeed:
        return super()._feed(binary) if self._encoding is None else self._encoding.feed(binary)

    def copy_out(self, columns: int, binary: bool) -> None:
        if self._encoding is not None:
            self._encoding.copies_texts = not binary
        super().copy_out(columns, binary)

    def _on_cancel(self, event: core.CancelRequest) -> None:
        self.host.cancel(event.process_id, event.secret)
        self._close()

    # ---- simple query -------------------------------------------------------------------------------------------

    def take_query(self, event: core.Query) -> None:
        session = self.session
        assert session is not None
        self._extended = False
        session.prepared.pop(b"", None)  # 55.2.3: a simple query destroys the unnamed statement
        try:
            found = find(session, event.sql)
            if found is None:
                self._start_task(self._simple_query(event.sql))
                return
            prepared, parameters = found
            run = prepared.text_run or prepared.plan.text_run(prepared)
            if run is not None:
                data, count, lsn = session.rows.run(prepared, run, parameters)
                plan = prepared.plan
                if (columns := plan.columns) is not None:
                    data = description(columns, columns.text_formats) + data
                data += complete_bytes(plan.command, count)
                if session.transaction is not None and not session.in_block:
                    lsn = session.finish()
            elif prepared.plan.at_once:
                answer = prepared.plan.answer(session, prepared, parameters, prepared.text_formats)
                if answer is None:  # with its literals in place it is planned under the present schema
                    self._start_task(self._simple_query(event.sql))
                    return
                data, command, count, lsn = answer
                if (columns := prepared.plan.columns) is not None:
                    data = description(columns, columns.text_formats) + data
                data += complete_bytes(command, count)
            elif prepared.plan.is_prompt:
                ran = self._query_promptly(prepared, parameters)
                if ran is None:
                    return
                data, lsn = ran
            else:
                self._start_task(self._run_found_query(prepared, parameters))
                return
        except (RowPathFull, StalePlan) as error:
            # It is not raised again: the plan's data would stay alive with its traceback.
            if isinstance(error, RowPathFull):
                note_overflow(session, prepared)
            self._start_task(self._run_found_query(prepared, parameters))
            return
        except LockWait as wait:
            if not self._run_when_granted(event, wait):
                self._start_task(self._run_found_query(prepared, parameters, wait))
            return
        if session.notices:
            self._send_notices()
        if lsn:
            self._await_commit(lsn, data)
        else:
            self._ready(data)

    def _query_promptly(self, prepared: Prepared, parameters: Sequence[object]) -> tuple[bytes, int] | None:
        """`take_query` for a plan that may wait: the answer and its LSN; None if that comes later. Raises SqlError."""
        session = self.session
        assert session is not None
        answer = AnswerAtEnd(self)
        begun = self._begin_prompt(Portal(prepared, parameters, prepared.text_formats), answer)
        if begun is None:
            self._begin_task(prepared, self._run_found_query(prepared, parameters))
        elif isinstance(begun, SqlError):
            self._end_query(begun)
        elif isinstance(begun, Answer):
            return begun.data + complete_bytes(begun.command, begun.rows), session.finish()
        else:
            rest = running.finish_simple(session, begun, answer)
            self._begin_task(prepared, self._answer_query(rest), begun=True)
        return None

    def _ready(self, answer: bytes = b"") -> None:
        """The last part of the answer and ReadyForQuery, with the settings that the statements have changed between
        them."""
        session = self.session
        assert session is not None
        if self._encoding is not None:
            answer = self._put_answer(session, answer)
        if session.settings.changed or session.may_time_out or session.notifying is not None:
            self._out.append(answer)
            answer = b""
            if session.settings.changed:
                self._send_settings()
            if session.may_time_out:
                self._wait_idle(session)
            if session.notifying is not None and session.status == "I":
                self._send_notifications(session.notifying)
        self._out.append(answer + READY[session.status])

    def _put_answer(self, session: Session, answer: bytes) -> bytes:
        """For a client whose encoding may lack a character of it (22P05). Returns the rest."""
        try:
            self._out.append(answer)
        except SqlError as error:
            session.transactions.fail(error)
            self._error(error)
        return b""

    def _await_commit(self, lsn: int, data: bytes) -> None:
        session = self.session
        assert session is not None
        if lsn <= session.node.store.durable_lsn:
            self._ready(data)
            return
        self.busy = True

        def on_durable() -> None:
            self.busy = False
            if session.notices:
                self._send_notices()
            self._ready(data)
            self._continue()

        def on_lost(error: SqlError) -> None:
            self.busy = False
            self._end_query(error)
            self._continue()

        session.waits.await_commit(lsn, on_durable, on_lost)

    def _end_query(self, error: SqlError) -> None:
        """The end of a query that has failed, or of its connection."""
        if error.severity == "FATAL":
            self._fatal(error)
        else:
            self._query_failed(error)

    def _query_failed(self, error: SqlError) -> None:
        session = self.session
        assert session is not None
        session.transactions.fail(error)
        self._send_notices()
        self._error(error)
        self._ready()

    async def _run_found_query(
        self, prepared: Prepared, parameters: Sequence[object], wait: LockWait | None = None
    ) -> None:
        session = self.session
        assert session is not None
        await self._answer_query(running.run_simple(session, prepared, parameters, self, wait))

    async def _simple_query(self, sql: bytes) -> None:
        session = self.session
        assert session is not None
        await self._answer_query(running.simple_query(session, sql, self))

    async def _answer_query(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except SqlError as error:
            self._end_query(error)
        else:
            self._send_notices()
            self._ready()

    # ---- extended query -----------------------------------------------------------------------------------------

    def _extended_failed(self, error: SqlError) -> None:
        assert self.session is not None
        if error.severity == "FATAL":
            self._fatal(error)
            return
        self.session.transactions.fail(error)
        self._send_notices()
        self._error(error)
        self.core.error()

    def take_parse(self, event: core.Parse) -> None:
        assert self.session is not None
        self._extended = True
        if len(event.sql) >= LONG_TEXT:
            self._start_task(self._parse_long(event))
            return
        try:
            extended.parse(self.session, event.name, event.sql, event.types)
        except (PastWait, LongPlan):
            self._start_task(self._parse_long(event))
            return
        self._out.append(messages.PARSE_COMPLETE)

    async def _parse_long(self, event: core.Parse) -> None:
        assert self.session is not None
        try:
            await extended.parse_long(self.session, event.name, event.sql, event.types)
            self._out.append(messages.PARSE_COMPLETE)
        except SqlError as error:
            self._extended_failed(error)

    def _on_bind(self, event: core.Bind) -> None:
        self._extended = True
        if event.execution is not None:
            try:
                if self._execute_at_once(event.execution, event.parameters, True):
                    return
            except LockWait as wait:
                if self._run_when_granted(event, wait):
                    return
                wait.ticket.cancel(canceled_error())  # Execute asks for it again
        if self._execute_batch(event):
            return
        self.take_bind(event)

    def take_large_bind(self, event: core.LargeBind) -> None:
        self._extended = True
        self._start_task(self._bind_long(event))

    async def _bind_long(self, event: core.LargeBind) -> None:
        assert self.session is not None
        self._unfinished = None
        try:
            await extended.bind_long(
                self.session,
                event.portal,
                event.statement,
                event.parameters,
                event.parameter_formats,
                event.result_formats,
            )
            self._out.append(messages.BIND_COMPLETE)
        except SqlError as error:
            self._extended_failed(error)

    def _execute_batch(self, event: core.Bind) -> bool:
        """Runs the messages that follow a Bind as a batch, if possible: wire/batches.py. Raises the error of a row that
        failed, when those before it are answered."""
        session = self.session
        assert session is not None
        ran = None if event.portal else run_batch(session, self.core, event)
        if ran is None:
            return False
        self.core.skip_batch(ran.batch, ran.executions)
        if session.notices:
            self._send_notices()
        self._out.append(ran.answers)
        self._batched += ran.rows
        if ran.error is not None:
            raise ran.error
        return True

    def take_bind(self, event: core.Bind) -> None:
        """Processes Bind alone."""
        assert self.session is not None
        self._extended = True
        self._unfinished = None  # it is complete: from now on it counts as a bound parameter
        extended.bind(
            self.session, event.portal, event.statement, event.parameters, event.parameter_formats, event.result_formats
        )
        self._out.append(messages.BIND_COMPLETE)

    def _execute_at_once(self, execution: core.Execution, parameters: list[bytes | None], buffered: bool) -> bool:
        """Bind, Describe, Execute and Sync in one step, for a row path plan that is ready to run. False: it is not,
        nothing has happened, and the messages must be processed one by one. `buffered`: all but Bind is in the core.

        Raises LockWait, and SqlError after Bind is answered.
        """
        session = self.session
        assert session is not None
        prepared = session.ready_plan(execution.statement)
        if prepared is None:
            return False
        ready: ReadyExecution | None = execution.memo
        if ready is None or ready.prepared is not prepared:
            ready = ready_execution(execution, prepared)
            if ready is None:
                return False
        try:
            values: Sequence[object] = parameters and [
                None if value is None else decode(value)
                for value, decode in zip(parameters, ready.decoders, strict=True)
            ]
        except SqlError:
            return False  # Bind names the parameter
        if prepared.plan.is_prompt:
            if buffered:
                self.core.skip(execution)
            self._execute_promptly(ready, values)
            return True
        try:
            if (run := ready.run) is not None:
                data, count, lsn = session.rows.run(prepared, run, values)
                data = ready.head + data + (ready.one if count == 1 else complete_bytes(ready.command, count))
            else:
                answer = prepared.plan.answer(session, prepared, values, ready.formats)
                if answer is None:
                    return False
                data, command, count, lsn = answer
                data = ready.head + data + complete_bytes(command, count)
        except (RowPathFull, StalePlan) as error:
            if isinstance(error, RowPathFull):
                note_overflow(session, prepared)
            return False
        except SqlError:
            self._out.append(ready.head)
            raise
        if buffered:
            self.core.skip(execution)
            self._extended = False
        if session.notices:
            self._send_notices()
        if self._pending_lsn:
            lsn, self._pending_lsn = session.node.commits.both(lsn, self._pending_lsn), 0
        if run is not None and not session.in_block and session.transaction is not None:
            try:
                committed = session.finish()
                lsn = session.node.commits.both(lsn, committed) if lsn else committed
            except SqlError as error:  # as Sync would have found it
                self._out.append(data)
                self._query_failed(error)
                return True
            if session.notices:
                self._send_notices()
        if session.portals and not session.in_block:
            session.portals.sync()
        if lsn:
            self._await_commit(lsn, data)  # the commit that it acknowledges is durable
        else:
            self._ready(data)
        return True

    def _execute_promptly(self, ready: ReadyExecution, values: Sequence[object]) -> None:
        """`_execute_at_once` for a plan that may wait."""
        session = self.session
        assert session is not None
        self._extended = True
        self._out.append(ready.head)  # its notices come behind it
        portal = Portal(ready.prepared, values, ready.formats)
        begun = self._begin_prompt(portal, self)
        if begun is None:
            self._begin_task(ready.prepared, self._execute_whole(running.run(session, portal, 0, self)))
        elif isinstance(begun, Answer):
            data, command, count, _ = begun
            if session.notices:
                self._send_notices()
            self._out.append(data + complete_bytes(command, count))
            self._on_sync(core.Sync())
        elif isinstance(begun, SqlError):
            self._extended = False
            self._end_query(begun)
        else:
            self._begin_task(ready.prepared, self._execute_whole(begun), begun=True)

    async def _execute_whole(self, work: Coroutine[Any, Any, None]) -> None:
        """The rest of a prompt plan that waits."""
        session = self.session
        assert session is not None
        try:
            await work
        except SqlError as error:
            self._extended = False
            self._end_query(error)
            return
        self._send_notices()
        self._on_sync(core.Sync())

    def _on_describe(self, event: core.Describe) -> None:
        session = self.session
        assert session is not None
        self._extended = True
        if event.kind == "S":
            prepared = extended.get_prepared(session, event.name)
            self._out.append(messages.parameter_description(prepared.parameters.declared))
            formats = prepared.text_formats
        else:
            portal = session.portals.get_portal(event.name)
            prepared, formats = portal.prepared, portal.formats
        columns = prepared.plan.columns
        self._out.append(messages.NO_DATA if columns is None else description(columns, formats))

    def take_execute(self, event: core.Execute) -> None:
        self._extended = True
        session = self.session
        assert session is not None
        try:
            portal = session.portals.get_portal(event.portal)
            session.shown = prepared = portal.prepared
            limit = max(event.limit, 0)
            if portal.started or (limit and prepared.fields is not None):
                self._start_task(self._execute(portal, limit))
                return
            run = prepared.plan.row_run(portal.formats)
            if run is not None:
                data, count, lsn = session.rows.run(prepared, run, portal.parameters)
                data += complete_bytes(prepared.plan.command, count)
            else:
                answer = None
                if prepared.plan.at_once:
                    answer = prepared.plan.answer(session, prepared, portal.parameters, portal.formats)
                if answer is None:
                    self._begin_task(prepared, self._execute(portal, limit))
                    return
                data, command, count, lsn = answer
                data += complete_bytes(command, count)
            portal.started = portal.done = True
            if lsn:
                self._pending_lsn = session.node.commits.both(self._pending_lsn, lsn)
        except (RowPathFull, StalePlan) as error:
            if isinstance(error, RowPathFull):
                note_overflow(session, prepared)
            self._start_task(self._execute(portal, limit))
            return
        except LockWait as wait:
            self._start_task(self._execute(portal, limit, wait))
            return
        if session.notices:
            self._send_notices()
        if self._pending_lsn and not session.in_block and run is None:
            # COMMIT in a pipeline: its commit must be durable before the client reads the tag.
            lsn, self._pending_lsn = self._pending_lsn, 0
            self._wait_durable(lsn, data)
        else:
            self._out.append(data)

    _pending_lsn = 0

    def _wait_durable(self, lsn: int, data: bytes) -> None:
        session = self.session
        assert session is not None
        if lsn <= session.node.store.durable_lsn:
            self._out.append(data)
            return
        self.busy = True

        def on_durable() -> None:
            self.busy = False
            if session.notices:
                self._send_notices()
            self._out.append(data)
            self._continue()

        def on_lost(error: SqlError) -> None:
            self.busy = False
            if error.severity == "FATAL":
                self._fatal(error)
            else:
                self._extended_failed(error)
            self._continue()

        session.waits.await_commit(lsn, on_durable, on_lost)

    async def _execute(self, portal: Portal, limit: int, wait: LockWait | None = None) -> None:
        session = self.session
        assert session is not None
        try:
            if wait is not None:
                await session.wait_for(wait)
            await running.run(session, portal, limit, self)
        except SqlError as error:
            self._extended_failed(error)
        self._send_notices()

    def _on_close(self, event: core.Close) -> None:
        session = self.session
        assert session is not None
        self._extended = True
        if event.kind == "S":
            session.prepared.pop(event.name, None)
        else:
            session.portals.close(event.name)
        self._out.append(messages.CLOSE_COMPLETE)

    def _on_sync(self, _: core.Sync) -> None:
        session = self.session
        assert session is not None
        self._extended = False
        lsn, self._pending_lsn = self._pending_lsn, 0
        if session.transaction is not None and not session.in_block:
            committed = session.finish()
            lsn = session.node.commits.both(lsn, committed) if lsn else committed
            if session.notices:
                self._send_notices()
        if session.portals and not session.in_block:
            session.portals.sync()
        if lsn:
            self._await_commit(lsn, b"")
        else:
            self._ready()

    def take_function_call(self, event: core.FunctionCall) -> None:
        self._extended = False
        self._start_task(self._call_function(event))

    async def _call_function(self, event: core.FunctionCall) -> None:
        session = self.session
        assert session is not None
        call = FunctionCall(event.function, event.formats, event.arguments, event.result_format)
        try:
            self._write(messages.function_result(await call.run(session)))
        except SqlError as error:
            session.transactions.fail(error)
            self._send_notices()
            self._error(error)
        self._send_notices()
        self._ready()

    # ---- waits --------------------------------------------------------------------------------------------------

    def _on_waiting_execution(self, event: core.WaitingExecution) -> None:
        """Runs an execution again after its wait for a lock."""
        try:
            if not self._execute_at_once(event.execution, event.parameters, False):
                self.core.push_back(event.data)
        except LockWait as wait:
            self._wait_for_lock(event, wait)

    def _wait_for_lock(self, event: core.WaitingExecution, wait: LockWait) -> None:
        """Runs it again when the lock is granted; as events, with a new request for the lock, if a timeout applies."""
        if not self._run_when_granted(event, wait):
            wait.ticket.cancel(canceled_error())
            self.core.push_back(event.data)

    def _run_when_granted(self, event: core.Query | core.Bind | core.WaitingExecution, wait: LockWait) -> bool:
        """Processes the message again when its lock is granted, without a task. False if a timeout applies to the wait,
        or more messages follow."""
        session = self.session
        assert session is not None
        if session.lock_timeout or session.statement_timeout or wait.then is not None:
            return False
        self.busy = True
        began = perf_counter()
        loop = asyncio.get_running_loop()

        def on_done() -> None:  # within the commit that releases the lock: the rest waits for its turn
            session.waited += perf_counter() - began
            loop.call_soon(self._on_lock_granted, event, wait.ticket)

        wait.ticket.add_done_callback(on_done)
        return True

    def _on_lock_granted(self, event: core.Query | core.Bind | core.WaitingExecution, ticket: WaitTicket) -> None:
        self.busy = False
        if not self.closing:
            try:
                if ticket.error is not None:
                    raise ticket.error
                self._handlers[type(event)](event)
            except Exception as error:
                self._handle_error(event, error)
        if not self.busy:
            self._continue()

    def _continue(self) -> None:
        self.resume("busy")
        if self.closing:
            if self.session is not None:
                self._end_session()
            return
        if not self._is_beginning:  # otherwise the caller processes what follows
            self._process()
