"""Trigger functions: calls in PL/pgSQL, and the built-in ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from catalog.errors import SqlError, not_supported
from catalog.functions import registry
from catalog.schema import Routine, Table, Trigger, VirtualTable
from catalog.types import format_type
from catalog.types.base import Array
from engine.execute.transitions import NEW_OID, OLD_OID, relations_of
from engine.execute.triggers import PendingCall, RunningStatement, TriggerCall
from engine.execute.triggers import Row as Values
from engine.execute.writer import Checks
from engine.sql.plpgsql import signatures
from engine.sql.plpgsql.tree import Shape
from engine.statements.plpgsql import errors, suspend
from engine.statements.plpgsql.built_in_triggers import built_in_trigger
from engine.statements.plpgsql.call import run_trigger
from engine.statements.plpgsql.programs import trigger_program_of
from engine.statements.plpgsql.records import Row
from engine.statements.routine_calls import as_runner

if TYPE_CHECKING:
    from catalog.catalog import Catalog
    from engine.node.plan_cache import PlanKey
    from engine.session.session import Session
    from engine.statements.plpgsql.compile import Program
    from engine.statements.plpgsql.frame import Known

READY_KEPT = 256


@dataclass(frozen=True, slots=True)
class _Ready:
    """A trigger's function, compiled for its relation. `arguments`: those behind NEW and OLD."""

    catalog: Catalog
    key: PlanKey
    program: Program
    known: Known
    shape: Shape
    shown: str
    local: dict[str, VirtualTable]
    arguments: tuple[object, ...]


class TriggerCalls:
    """The calls of one session. `depth`: pg_trigger_depth()."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.depth = 0
        self._pending: list[PendingCall] = []
        self.running = RunningStatement()  # the statement that runs
        self._ready: dict[TriggerCall, _Ready] = {}

    def postpone(self, call: PendingCall) -> None:
        """Lets a deferred trigger wait for the end of the statement, which is that of its transaction."""
        self._pending.append(call)

    @contextmanager
    def during(self, running: RunningStatement) -> Iterator[None]:
        """The statement runs within."""
        before, self.running = self.running, running
        try:
            yield
        finally:
            self.running = before

    def end_rows(self) -> None:
        """Fires the AFTER triggers of the statement that runs, unless they have fired; in a greenlet."""
        checks = Checks()
        self.running.end_rows(self._session.context(), checks)
        checks.finish()

    @contextmanager
    def _with_transitions(self, call: TriggerCall, local: dict[str, VirtualTable]) -> Iterator[None]:
        """The transition tables of a trigger are relations within, and no others are."""
        session = self._session
        before = dict(session.local_relations), dict(session.local_rows)
        if not local and not before[0]:
            yield
            return
        rows: dict[int, list[Values]] = {}
        if self.running.capture is not None and isinstance(call.relation, Table):
            old, new = self.running.capture.rows(call.relation, call.operation[0].lower())
            rows = {OLD_OID: old, NEW_OID: new}
        self._use_local(local, rows)
        try:
            yield
        finally:
            self._use_local(*before)

    def _use_local(self, relations: dict[str, VirtualTable], rows: Mapping[int, Sequence[Values]]) -> None:
        session = self._session
        session.local_relations.clear()  # the environment has this dict
        session.local_relations.update(relations)
        session.local_rows.clear()
        session.local_rows.update(rows)

    @contextmanager
    def ends_statement(self) -> Iterator[None]:
        """Around a statement of a client: afterwards no call is pending, whatever has happened."""
        try:
            yield
        finally:
            if not self.depth:
                self._pending.clear()

    def run_pending(self) -> None:
        """Runs the pending calls, in a greenlet, unless this statement is within another one."""
        while self._pending and not self.depth:
            self._pending.pop(0).run(self._session.context())

    def fires(self, trigger: Trigger) -> bool:
        """Whether the trigger is enabled under session_replication_role."""
        return trigger.enabled == "A" or (trigger.enabled == "R") == self._session.is_replica

    def fire(self, call: TriggerCall, old: Values | None, new: Values | None) -> Values | None:
        """See Firing (engine/execute/triggers.py). Raises what the function raises, 42804 for a row of another form."""
        routine = self._session.catalog.get(call.trigger.function)
        self.depth += 1
        try:
            if isinstance(routine, Routine):
                return self._run(routine, call, old, new)
            source = registry.function(call.trigger.function).source
            return built_in_trigger(source)(call, old, new)
        finally:
            self.depth -= 1

    def _run(self, routine: Routine, call: TriggerCall, old: Values | None, new: Values | None) -> Values | None:
        session = self._session
        if not suspend.is_running():
            not_supported(f'trigger "{call.trigger.name}" here')
        ready = self._ready_call(routine, call)
        given = (_record(ready.shape, new), _record(ready.shape, old), *ready.arguments)
        is_volatile = routine.volatility == "v"
        with as_runner(session, routine), self._with_transitions(call, ready.local):
            found = run_trigger(session, ready.program, ready.known, ready.shown, given, is_volatile=is_volatile)
        if found is None or call.timing == "AFTER" or not call.trigger.for_row:
            return None
        if isinstance(found, Row) and found.shape is ready.shape:
            return found.values
        with errors.LineContext(errors.context_line(ready.shown, 0, "during function exit")):
            return _fit_row(found, ready.shape)

    def _ready_call(self, routine: Routine, call: TriggerCall) -> _Ready:
        """What does not differ from call to call."""
        session = self._session
        known = self._ready.get(call)
        if known is not None and known.catalog is session.catalog and known.key is session.key:
            return known
        if len(self._ready) >= READY_KEPT:
            self._ready.clear()
        trigger, relation = call.trigger, call.relation
        local = relations_of(trigger, relation) if isinstance(relation, Table) else {}
        program, texts, shape = trigger_program_of(session, routine, relation, tuple(local))
        arguments = Array.of(trigger.arguments)
        if trigger.arguments:
            arguments = Array(arguments.elements, arguments.dimensions, (0,))
        made = self._ready[call] = _Ready(
            session.catalog, session.key, program, texts, shape, signatures.text_of(routine), local,
            (trigger.name, call.timing, "ROW" if trigger.for_row else "STATEMENT", call.operation, relation.oid,
             relation.name, relation.name, session.catalog.schema_name(relation.schema), len(trigger.arguments),
             arguments),
        )  # fmt: skip
        return made


def _record(shape: Shape, values: Values | None) -> Row | None:
    """NEW and OLD."""
    return None if values is None else Row(shape, tuple(values))


def _fit_row(found: object, shape: Shape) -> Values:
    """The returned row as one of the relation. Raises 42804."""
    if not isinstance(found, Row):
        return found  # type: ignore[return-value]
    if found.shape is shape:
        return found.values
    message = "returned row structure does not match the structure of the triggering table"
    for number, ((_, given), (_, wanted)) in enumerate(zip(found.shape, shape, strict=False), 1):
        if given.oid != wanted.oid:
            detail = (
                f"Returned type {format_type(given.oid, given.typmod)} does not match expected type "
                f"{format_type(wanted.oid, wanted.typmod)} in column {number}."
            )
            raise SqlError("42804", message, detail=detail)
    if len(found.shape) != len(shape):
        detail = f"Number of returned columns ({len(found.shape)}) does not match expected column count ({len(shape)})."
        raise SqlError("42804", message, detail=detail)
    return found.values
