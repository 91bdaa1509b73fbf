"""The statements of a connection that may wait: each is a task, but its first step may run at once."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from catalog.errors import SqlError
from engine.session.answer import Sink
from engine.session.plan import Answer
from engine.session.portal import Portal
from engine.session.prepared import Prepared
from engine.statements import prompt
from wire.client_link import ClientLink, Host
from wire.task_steps import begin_task


class StatementTasks(ClientLink):
    """The part of wire/connection.py's Connection that runs them."""

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._is_beginning = False  # the first step of a task runs, within the processing of its message

    def _extended_failed(self, error: SqlError) -> None:
        raise NotImplementedError

    def _query_failed(self, error: SqlError) -> None:
        raise NotImplementedError

    def _continue(self) -> None:
        """Processes what follows the statement."""
        raise NotImplementedError

    def _begin_prompt(self, portal: Portal, sink: Sink) -> Answer | Coroutine[Any, Any, None] | SqlError | None:
        """Runs a statement up to its first wait (engine/statements/prompt.py), or to its error."""
        session = self.session
        assert session is not None
        watched = bool(session.statement_timeout)
        if watched:
            session.timeouts.watch_statement()
        begun: Answer | Coroutine[Any, Any, None] | SqlError | None = None
        try:
            begun = prompt.begin(session, portal, sink)
        except SqlError as error:
            begun = error
        except Exception as error:
            begun = self._internal_error(error)
        finally:
            if watched and not isinstance(begun, Coroutine):
                session.timeouts.leave_statement()
        return begun

    def _start_task(self, work: Coroutine[Any, Any, None]) -> None:
        self.busy = True
        session = self.session
        assert session is not None
        session.task = asyncio.get_running_loop().create_task(self._run_guarded(work))

    def _begin_task(self, prepared: Prepared, work: Coroutine[Any, Any, None], begun: bool = False) -> None:
        """As `_start_task`, but the first step of a plan that seldom waits runs now. `begun`: its time is watched."""
        if not prepared.plan.is_prompt:
            return self._start_task(work)
        session = self.session
        assert session is not None
        self.busy = self._is_beginning = True
        session.task = begin_task(self._run_guarded(work, begun))
        self._is_beginning = False

    async def _run_guarded(self, work: Coroutine[Any, Any, None], begun: bool = False) -> None:
        session = self.session
        assert session is not None
        if not begun:
            session.timeouts.watch_statement()
        session.running = True
        try:
            if session.cancel_error is not None:  # before the first step
                work.close()
                raise asyncio.CancelledError
            await work
        except asyncio.CancelledError:
            self._fail_session(session.cancel_error or SqlError("57P01", "terminating connection", severity="FATAL"))
        except Exception as error:
            self._fail_session(self._internal_error(error))
        finally:
            session.timeouts.leave_statement()
            session.cancel_error = None
            session.running = False
            session.task = None
            if self._copy is not None:
                self._copy = None
                self.resume("copy")
                self.core.end_copy(failed=True, extended=self._extended)
            self.busy = False
            if self.closing:
                self._transport.close()  # a Terminate in the middle of a COPY only ended the statement
                self._end_session()
            else:
                self._continue()

    def _fail_session(self, error: SqlError) -> None:
        try:
            if error.severity == "FATAL":
                self._fatal(error)
            elif self._extended:
                self._extended_failed(error)
            else:
                self._query_failed(error)
        except Exception as failure:  # without an error the client would think its statement complete
            defect = self._internal_error(failure)
            defect.severity = "FATAL"
            self._fatal(defect)
