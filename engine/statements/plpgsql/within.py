"""Calls of functions in PL/pgSQL within other statements (engine/statements/routine_path.py runs these)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, TypeVar, cast

from catalog.errors import SqlError, not_supported
from catalog.schema import Routine
from catalog.types.base import TypeRef
from engine.execute.triggers import PendingCall
from engine.sql import privileges
from engine.sql.analyze.routines import check_execute, runner
from engine.statements.patient_transaction import patient
from engine.statements.plpgsql import suspend
from engine.statements.plpgsql.call import run_program
from engine.statements.plpgsql.frame import SLICE_SECONDS
from engine.statements.plpgsql.programs import program_of
from engine.statements.plpgsql.trigger_calls import TriggerCalls

if TYPE_CHECKING:
    from engine.session.session import Session
    from engine.txn.transaction import Transaction

T = TypeVar("T")

DEEPEST = 200
"""Calls within calls."""


class CallsWithin:
    """The calls of one session (`Routines` of engine/session/interface.py)."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._depth = 0
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
            await suspend.run(partial(cast(PendingCall, call).run, session.context()))

    def patient(self, transaction: Transaction) -> Transaction:
        """See `Routines`."""
        return patient(self._session, transaction)

    def call(self, oid: int, result: TypeRef, arguments: Sequence[object]) -> object:
        session = self._session
        routine = session.catalog.get(oid)
        assert isinstance(routine, Routine)
        if not suspend.is_running():
            not_supported(f"function {routine.name}, which is in PL/pgSQL, here")
        if self._depth >= DEEPEST:
            hint = (
                'Increase the configuration parameter "max_stack_depth" (currently 2048kB), after ensuring the'
                " platform's stack depth limit is adequate."
            )
            raise SqlError("54001", "stack depth limit exceeded", hint=hint)
        if perf_counter() - self._yielded > SLICE_SECONDS:
            suspend.wait(asyncio.sleep(0))
            self._yielded = perf_counter()
        caller = privileges.role_of(session.catalog, session.user_name)
        check_execute(routine, session.catalog, caller)
        program, known = program_of(session, routine, result)
        self._depth += 1
        try:
            with session.identity.acting_as(runner(routine, session.catalog, caller)):
                return run_program(session, program, known, routine, arguments, is_atomic=True)
        finally:
            self._depth -= 1
