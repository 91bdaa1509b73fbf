"""Finds statements that are calls of functions and procedures whose bodies are more than a query: CALL p(...), SELECT
f(...) and SELECT * FROM f(...). call.py runs them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any

from catalog.errors import SqlError
from catalog.schema import Routine
from catalog.types import lookup, oids
from catalog.types.base import FormatSettings
from catalog.types.composite import CompositeType
from engine.execute.context import ExecContext, Field, RoutineCall
from engine.sql import ast, privileges, tree
from engine.sql.analyze import Shared, analyze_expression
from engine.sql.analyze.resolve import signature
from engine.sql.analyze.routine_rights import check_execute
from engine.sql.analyze.routines import body_of, is_routine, refuse_trigger_function, runner
from engine.sql.tree_walk import walk
from engine.statements import registry
from engine.statements.utility import UtilityPlan

if TYPE_CHECKING:
    from engine.session.session import Session

Compute = Callable[[ExecContext, Sequence[object]], object]
Encoder = Callable[[Any], bytes]
DEEPEST = 640
"""Calls of routines within one another: about as many as PostgreSQL's default max_stack_depth lets run."""


@dataclass(frozen=True, slots=True)
class WholeCall:
    """A call that is a whole statement. `rows`: in FROM, so that a record is expanded and a set may be empty."""

    call: tree.FuncExpr
    rows: bool
    fields: tuple[Field, ...] | None


class CallPlan(UtilityPlan):
    """The plan of a SELECT that is a call. `computes`: the compiled arguments, once they have been needed."""

    __slots__ = ("_encoders", "call", "called", "computes", "parameters", "routine_call")
    is_prompt = True

    def __init__(self, call: WholeCall) -> None:
        super().__init__(registry.kind_of(ast.CallStmt(ast.Node())), call.fields)
        self.call = call
        self.routine_call = RoutineCall(call.call.function.oid, tuple(argument_types(call.call)), call.call.type)
        self.computes: list[Compute] | None = None
        self.called: Routine | None = None  # once it is known that the user may call it
        self.parameters: list[int] | None = None  # the numbers of those that the arguments are, if they are no more
        self.is_cacheable = True
        self._encoders: dict[tuple[int, ...], tuple[FormatSettings, list[Encoder]]] = {}

    def encoders(self, formats: tuple[int, ...], settings: FormatSettings) -> list[Encoder]:
        """Those of the columns, for these formats and settings."""
        known = self._encoders.get(formats)
        if known is None or known[0] is not settings:
            known = self._encoders[formats] = settings, row_encoders(self.call.fields or (), formats, settings)
        return known[1]


def row_encoders(fields: Sequence[Field], formats: tuple[int, ...], settings: FormatSettings) -> list[Encoder]:
    """One for each column, in these formats."""
    types = [lookup(item.type.oid) for item in fields]
    return [
        type_.binary_encoder() if code else type_.text_encoder(settings)
        for type_, code in zip(types, formats, strict=False)
    ]


def whole_call(session: Session, statement: tree.Statement) -> WholeCall | None:
    """The call that a SELECT consists of, if the function's body cannot be inlined."""
    if not isinstance(statement, tree.Query) or len(statement.range_table) > 1 or statement.row_marks:
        return None
    plain = (statement.where, statement.group_by, statement.having, statement.windows, statement.order_by,
             statement.limit, statement.offset, statement.set_operation, statement.ctes)  # fmt: skip
    if any(plain) or statement.distinct is not None:
        return None
    fields = tuple(Field(target.name, target.expression.type) for target in statement.output)
    if not statement.from_items and len(statement.targets) == 1:
        call, rows = statement.targets[0].expression, False
    elif statement.from_items and isinstance(entry := statement.range_table[0], tree.RangeFunction):
        numbers = [getattr(target.expression, "column", 0) for target in statement.targets]
        if len(entry.functions) != 1 or entry.ordinality or numbers != list(range(1, len(entry.columns) + 1)):
            return None
        call, rows = entry.functions[0], True
    else:
        return None
    if not isinstance(call, tree.FuncExpr) or not is_routine(call):
        return None
    if any(isinstance(item, tree.SubLink) or is_routine(item) for item in walk(call.arguments)):
        return None
    routine = routine_of(session, call)
    refuse_trigger_function(routine)
    if routine.language == "plpgsql":
        return WholeCall(call, rows, fields) if rows or not _gives_rows(call) else None
    if routine.settings:  # its rows would be encoded under its settings
        return None
    body = body_of(routine, session.environment, call.function, argument_types(call), call.type)
    if body.query is not None and call.type.oid != oids.VOID:
        return None
    if not rows and _gives_rows(call):
        return None
    return WholeCall(call, rows, fields)


def _gives_rows(call: tree.FuncExpr) -> bool:
    """Whether the value of a call is a row with known fields."""
    return bool(call.function.output_types[1:]) or isinstance(lookup(call.type.oid), CompositeType)


def check_may_call(session: Session, routine: Routine) -> None:
    """Raises 42501 if the current user may not execute a routine."""
    check_execute(routine, session.catalog, privileges.role_of(session.catalog, session.user_name))


class as_runner:  # noqa: N801  # a block, as those of contextlib
    """A block that runs the body of a routine: as its owner if it is SECURITY DEFINER. Raises 54001 for too many calls
    within one another."""

    __slots__ = ("_around", "_routine", "_session", "_view")

    def __init__(self, session: Session, routine: Routine) -> None:
        self._session, self._routine = session, routine
        self._view = session.statement_view
        self._around: ExitStack | None = None

    def __enter__(self) -> None:
        session, routine = self._session, self._routine
        if session.call_depth >= DEEPEST:
            hint = (
                'Increase the configuration parameter "max_stack_depth" (currently 2048kB), after ensuring the'
                " platform's stack depth limit is adequate."
            )
            raise SqlError("54001", "stack depth limit exceeded", hint=hint)
        if routine.security_definer or routine.settings:
            with ExitStack() as around:
                if routine.security_definer:
                    caller = privileges.role_of(session.catalog, session.user_name)
                    around.enter_context(session.identity.acting_as(runner(routine, session.catalog, caller)))
                if routine.settings:
                    around.enter_context(session.settings.within(routine.settings))
                self._around = around.pop_all()
        session.call_depth += 1
        if routine.volatility == "v":
            session.statement_view = None  # each of its statements sees what is there when it begins

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._around is not None:
                self._around.__exit__(kind, error, trace)
        finally:
            self._session.call_depth -= 1
            self._session.statement_view = self._view


def routine_of(session: Session, call: tree.FuncExpr) -> Routine:
    found = session.catalog.get(call.function.oid)
    assert isinstance(found, Routine)
    return found


def argument_types(call: tree.FuncExpr) -> list[int]:
    return [item.type.oid for item in call.arguments]


def procedure_call(session: Session, node: ast.CallStmt, shared: Shared | None = None) -> WholeCall:
    """The call of a CALL statement. `shared`: of its parameters. Raises 42883, 42809 for a function."""
    call = node.call
    assert isinstance(call, ast.FuncCall)
    call = _without_outputs(session, call)
    found = analyze_expression(call, session.environment, None, None, "CALL arguments", shared)
    if not isinstance(found, tree.FuncExpr) or found.function.kind != "p":
        shown = call.names[-1]
        if isinstance(found, tree.FuncExpr):
            shown = signature(".".join(call.names), argument_types(found))
        position = call.location + 1 if call.location >= 0 else None
        hint = "To call a function, use SELECT."
        raise SqlError("42809", f"{shown} is not a procedure", hint=hint, position=position)
    outputs = routine_of(session, found).outputs
    fields = tuple(Field(item.name or f"column{n}", item.type) for n, item in enumerate(outputs, 1))
    return WholeCall(found, True, fields or None)


def _without_outputs(session: Session, call: ast.FuncCall) -> ast.FuncCall:
    """The call without the expressions of OUT arguments, which are not computed."""
    names = call.argument_names or (None,) * len(call.arguments)
    for item in session.catalog.routines.get(call.names[-1], ()):
        if item.kind != "p" or not any(argument.mode == "o" for argument in item.arguments):
            continue
        named = {argument.name: argument.mode for argument in item.arguments if argument.name}
        positional = [argument.mode for argument in item.arguments]
        modes = [
            positional[at] if name is None and at < len(positional) else named.get(name or "", "")
            for at, name in enumerate(names)
        ]
        if modes.count("o") == positional.count("o"):
            kept = [at for at, mode in enumerate(modes) if mode != "o"]
            left = tuple(names[at] for at in kept)
            return replace(
                call,
                arguments=tuple(call.arguments[at] for at in kept),
                argument_names=left if any(left) else (),
            )
    return call
