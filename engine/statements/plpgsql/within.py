"""Calls of functions within other statements (engine/statements/routine_path.py runs these): of functions in PL/pgSQL,
and of those in SQL whose bodies are more than a query."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, TypeVar, cast

from catalog.errors import not_supported
from catalog.patience import note_pause
from catalog.schema import Routine
from catalog.types import oids
from catalog.types.base import TypeRef
from engine.execute.triggers import PendingCall, RunningStatement
from engine.statements.patient_transaction import patient
from engine.statements.plpgsql import suspend
from engine.statements.plpgsql.call import enter, rows_of_program, run_program
from engine.statements.plpgsql.errors import LineContext
from engine.statements.plpgsql.frame import SLICE_SECONDS, Frame
from engine.statements.plpgsql.nested import NestedStatements, refuse_change, wait_within
from engine.statements.plpgsql.programs import event_program_of, program_of, sql_body_of
from engine.statements.plpgsql.trigger_calls import TriggerCalls
from engine.statements.routine_calls import as_runner, check_may_call

if TYPE_CHECKING:
    from catalog.event_triggers import EventTrigger
    from engine.execute.context import RoutineCall
    from engine.session.session import Session
    from engine.txn.transaction import Transaction

T = TypeVar("T")

Rows = Sequence[tuple[object, ...]]


class CallsWithin:
    """The calls of one session (`Routines` of engine/session/interface.py)."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._yielded = perf_counter()
        self.triggers = TriggerCalls(session)

    async def run_patiently(self, function: Callable[[], T]) -> T:
        """See `Routines`."""
        return await suspend.run(function)

    async def fire_deferred(self, everything: bool) -> None:
        """See `Routines`."""
        session = self._session
        assert session.transaction is not None
        deferred = session.transaction.deferred
        while deferred is not None and (call := deferred.due_trigger(everything)) is not None:
            session.transaction.begin_statement()
            with session.using((call.relation.oid,)), self.triggers.during(RunningStatement()):
                await suspend.run(partial(cast(PendingCall, call).run, session.context()))

    async def fire_event(self, trigger: EventTrigger, tag: str) -> None:
        """See `Routines`."""
        session = self._session
        routine = session.catalog.get(trigger.function)
        assert isinstance(routine, Routine) and session.transaction is not None
        session.transaction.begin_statement()
        program, known = event_program_of(session, routine)
        frame = Frame(session, program, known, is_atomic=True)
        with as_runner(session, routine), session.function_calls.count(routine):
            await suspend.run(lambda: enter(frame, (trigger.event, tag)))

    def patient(self, transaction: Transaction) -> Transaction:
        """See `Routines`."""
        return patient(self._session, transaction)

    def call(self, call: RoutineCall, arguments: Sequence[object]) -> object:
        """The value of a call."""
        session = self._session
        routine = self._begin(call)
        with as_runner(session, routine), session.function_calls.count(routine):
            if routine.language == "sql":
                rows = self._run_sql(routine, call, arguments)
                if not rows or call.result.oid == oids.VOID:
                    return None
                return rows[0] if len(routine.outputs) > 1 else rows[0][0]
            program, known = program_of(session, routine, call)
            return run_program(session, program, known, arguments)

    def rows(self, call: RoutineCall, arguments: Sequence[object], columns: Sequence[TypeRef]) -> Rows:
        """The rows of a call in FROM."""
        session = self._session
        routine = self._begin(call)
        with as_runner(session, routine), session.function_calls.count(routine):
            if routine.language == "sql":
                rows = self._run_sql(routine, call, arguments)
                if len(columns) > 1 and rows and len(rows[0]) == 1:  # a row as one value
                    rows = [row[0] if row[0] is not None else (None,) * len(columns) for row in rows]  # type: ignore[misc]
                return rows if routine.returns_set else list(rows[:1]) or [(None,) * len(columns)]
            program, known = program_of(session, routine, call)
            wanted = columns if call.result.oid == oids.RECORD and not routine.outputs else None
            return rows_of_program(session, program, known, routine, arguments, wanted)

    def let_others_run(self) -> None:
        """See `Routines`."""
        if perf_counter() - self._yielded > SLICE_SECONDS and suspend.is_running():
            wait_within(self._session, asyncio.sleep(0))
            self._yielded = perf_counter()
            note_pause()

    def _begin(self, call: RoutineCall) -> Routine:
        """The function of a call, which the user may call here."""
        session = self._session
        routine = session.catalog.get(call.oid)
        assert isinstance(routine, Routine)
        if not suspend.is_running():
            not_supported(f"function {routine.name}, which runs statements, here")
        self.let_others_run()
        if not call.checked:
            check_may_call(session, routine)
        return routine

    def _run_sql(self, routine: Routine, call: RoutineCall, arguments: Sequence[object]) -> Rows:
        """The rows of the last statement of a function in SQL."""
        with LineContext(f'SQL function "{routine.name}" during startup'):
            body = sql_body_of(self._session, routine, call)
            for prepared in body.statements if routine.volatility != "v" else ():
                refuse_change(prepared)
        nested = NestedStatements(self._session, routine.volatility == "v")
        rows: Rows = ()
        for number, prepared in enumerate(body.statements, 1):
            with LineContext(f'SQL function "{routine.name}" statement {number}'):
                _, rows = nested.rows(prepared, arguments)
        return rows
