"""Trigger functions: calls in PL/pgSQL, and the built-in ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from catalog.errors import SqlError, not_supported
from catalog.functions import registry
from catalog.schema import Role, Routine, Table, Trigger, VirtualTable
from catalog.types import format_type
from catalog.types.base import Array
from engine.execute.transitions import NEW_OID, OLD_OID, relations_of
from engine.execute.triggers import Row as Values
from engine.execute.triggers import RunningStatement, TriggerCall
from engine.execute.writer import Checks
from engine.sql.plpgsql.tree import Shape
from engine.statements.plpgsql import errors, suspend
from engine.statements.plpgsql.built_in_triggers import built_in_trigger
from engine.statements.plpgsql.call import enter, run_apart
from engine.statements.plpgsql.frame import Frame
from engine.statements.plpgsql.programs import trigger_program_of
from engine.statements.plpgsql.records import Row
from engine.statements.routine_calls import as_runner

if TYPE_CHECKING:
    from catalog.catalog import Catalog
    from engine.node.plan_cache import PlanKey
    from engine.session.session import Session
    from engine.statements.plpgsql.known import Known
    from engine.statements.plpgsql.program import Program

READY_KEPT = 256


@dataclass(frozen=True, slots=True)
class _Ready:
    """A trigger's function, compiled for its relation. `changed`: the catalog with the transaction's schema changes;
    `arguments`: those behind NEW and OLD; `is_apart`: it reads and writes nothing but its row, and runs as the present
    user."""

    changed: Catalog | None
    key: PlanKey
    routine: Routine
    program: Program
    known: Known
    shape: Shape
    local: dict[str, VirtualTable]
    arguments: tuple[object, ...]
    is_apart: bool


class _During:
    """See TriggerCalls.during."""

    __slots__ = ("_before", "_calls", "_running")

    def __init__(self, calls: TriggerCalls, running: RunningStatement) -> None:
        self._calls, self._running = calls, running

    def __enter__(self) -> None:
        self._before = self._calls.begin(self._running)

    def __exit__(self, *_: object) -> None:
        self._calls.running = self._before


class TriggerCalls:
    """The calls of one session. `depth`: pg_trigger_depth()."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.depth = 0
        self.running = RunningStatement()  # the statement that runs
        self._ready: dict[TriggerCall, _Ready] = {}
        self._catalog: Catalog | None = None  # for which these are ready
        self._frames: dict[TriggerCall, Frame] = {}  # of functions that are apart: one serves all calls of a statement

    def during(self, running: RunningStatement) -> _During:
        """A block in which a statement runs. Its triggers may run others, so constraints may be deferred."""
        return _During(self, running)

    def begin(self, running: RunningStatement) -> RunningStatement:
        """A statement begins. Returns the one around it."""
        if self._session.transaction is not None:
            self._session.transaction.defers = True
        catalog = self._session.catalog
        if self._catalog is not catalog or len(self._ready) >= READY_KEPT:
            self._catalog, self._ready = catalog, {}
        self._frames = {}
        before, self.running = self.running, running
        return before

    def end_rows(self) -> None:
        """Fires the AFTER triggers of the statement that runs, unless they have fired; in a greenlet."""
        if self.running.has_end:
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

    def fires(self, trigger: Trigger) -> bool:
        """Whether the trigger is enabled under session_replication_role."""
        return trigger.enabled == "A" or (trigger.enabled == "R") == self._session.is_replica

    @contextmanager
    def of_foreign_key(self, table: Table) -> Iterator[None]:
        """See Firing."""
        session = self._session
        owner = session.catalog.get(table.owner)
        assert isinstance(owner, Role)
        is_owner = owner.name == session.user_name
        self.depth += 1
        try:
            with nullcontext() if is_owner else session.identity.acting_as(owner):
                yield
        finally:
            self.depth -= 1

    def is_apart(self, call: TriggerCall) -> bool:
        """See Firing."""
        routine = self._session.catalog.get(call.trigger.function)
        return not isinstance(routine, Routine) or self._ready_call(routine, call).is_apart

    def fire(self, call: TriggerCall, old: Values | None, new: Values | None) -> Values | None:
        """See Firing."""
        session = self._session
        ready = self._ready.get(call)
        assert session.transaction is not None
        if ready is None or ready.changed is not session.transaction.catalog or ready.key is not session.key:
            routine = session.catalog.get(call.trigger.function)
            if not isinstance(routine, Routine):
                return built_in_trigger(registry.function(call.trigger.function).source)(call, old, new)
            ready = self._ready_call(routine, call)
        shape = ready.shape
        given = (
            None if new is None else Row(shape, tuple(new)), None if old is None else Row(shape, tuple(old)),
            *ready.arguments,
        )  # fmt: skip
        self.depth += 1
        try:
            found = self._run_apart(call, ready, given) if ready.is_apart else self._run(call, ready, given)
        finally:
            self.depth -= 1
        if found is None or call.timing == "AFTER" or not call.trigger.for_row:
            return None
        if found.__class__ is Row and found.shape is shape:
            return found.values
        with errors.LineContext(errors.context_line(ready.program.shown, 0, "during function exit")):
            return _fit_row(found, shape)

    def for_many(self, call: TriggerCall) -> Callable[[Values], Values | None]:
        """See Firing."""
        routine = self._session.catalog.get(call.trigger.function)
        if not isinstance(routine, Routine) or self._session.function_calls.counts(routine) or self.depth:
            return lambda new: self.fire(call, None, new)
        ready = self._ready_call(routine, call)
        frame = Frame(self._session, ready.program, ready.known, is_atomic=True)
        run, context = ready.program.run, frame.context if ready.program.asks_context else None
        shape, arguments = ready.shape, ready.arguments

        def fire(new: Values) -> Values | None:
            self.depth = 1
            try:
                found = run(frame, context, Row(shape, tuple(new)), None, *arguments)
            finally:
                self.depth = 0
            if found.__class__ is Row and found.shape is shape:
                return found.values
            return None if found is None else _fit_row(found, shape)

        return fire

    def _run_apart(self, call: TriggerCall, ready: _Ready, given: Sequence[object]) -> object:
        frame = self._frames.get(call)
        if frame is None or frame.program is not ready.program:
            frame = self._frames[call] = Frame(self._session, ready.program, ready.known, is_atomic=True)
        with self._session.function_calls.count(ready.routine):
            return run_apart(frame, given)

    def _run(self, call: TriggerCall, ready: _Ready, given: Sequence[object]) -> object:
        """The result of a function that may run statements."""
        session = self._session
        if not suspend.is_running():
            not_supported(f'trigger "{call.trigger.name}" here')
        frame = Frame(session, ready.program, ready.known, is_atomic=True)
        with as_runner(session, ready.routine):
            if not (ready.local or session.local_relations or session.function_calls.counts(ready.routine)):
                return enter(frame, given)
            with session.function_calls.count(ready.routine), self._with_transitions(call, ready.local):
                return enter(frame, given)

    def _ready_call(self, routine: Routine, call: TriggerCall) -> _Ready:
        """What does not differ from call to call."""
        session = self._session
        known = self._ready.get(call)
        assert session.transaction is not None
        changed = session.transaction.catalog
        if known is not None and known.changed is changed and known.key is session.key:
            return known
        trigger, relation = call.trigger, call.relation
        local = relations_of(trigger, relation) if isinstance(relation, Table) else {}
        program, texts, shape = trigger_program_of(session, routine, relation, tuple(local))
        arguments = Array.of(trigger.arguments)
        if trigger.arguments:
            arguments = Array(arguments.elements, arguments.dimensions, (0,))
        is_apart = program.is_apart and not (local or routine.security_definer or routine.settings)
        made = self._ready[call] = _Ready(
            changed, session.key, routine, program, texts, shape, local,
            (trigger.name, call.timing, "ROW" if trigger.for_row else "STATEMENT", call.operation, relation.oid,
             relation.name, relation.name, session.catalog.schema_name(relation.schema), len(trigger.arguments),
             arguments),
            is_apart,
        )  # fmt: skip
        return made


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
