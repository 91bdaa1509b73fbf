"""Calls of functions and procedures whose bodies are more than a query, as a statement of their own: CALL p(...),
SELECT f(...) and SELECT * FROM f(...).

The arguments are computed once; then the statements of the body run one after the other in the session's transaction,
each planned separately and seeing the effects of those before it. The result of the last one is the answer.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from catalog.errors import SqlError
from catalog.schema import Routine
from catalog.types import oids
from engine.execute.context import Field
from engine.execute.expressions import compile_value
from engine.session.plan import Answer
from engine.session.portal import Portal
from engine.sql import ast, tree
from engine.sql.analyze import analyze
from engine.sql.analyze.routines import body_of, expanded_expression
from engine.statements import run as run_portal
from engine.statements.collect import Collector
from engine.statements.plpgsql import call as plpgsql
from engine.statements.plpgsql import suspend
from engine.statements.plpgsql.errors import LineContext
from engine.statements.plpgsql.nested import refuse_change, wait_within
from engine.statements.plpgsql.programs import plan_of_body
from engine.statements.routine_calls import (
    CallPlan,
    Encoder,
    WholeCall,
    argument_types,
    as_runner,
    check_may_call,
    procedure_call,
    routine_of,
    whole_call,
)
from engine.txn.interface import LockWait

if TYPE_CHECKING:
    from engine.session.answer import Sink
    from engine.session.prepared import Prepared
    from engine.session.session import Session

_LENGTH = struct.Struct(">i")
_ONE = struct.Struct(">ihi")  # of a DataRow with one value: its length, the number of values, the length of the value


def call_fields(session: Session, tree: ast.CallStmt) -> tuple[Field, ...] | None:
    return procedure_call(session, tree).fields


async def run_call(session: Session, node: ast.CallStmt, portal: Portal, sink: Sink) -> None:
    """Runs a call to its end."""
    command = "CALL" if isinstance(node.call, ast.FuncCall) else "SELECT"
    plan = _present_plan(session, node, portal.prepared)
    found = plan.call
    routine = routine_of(session, found.call)
    check_may_call(session, routine)
    function = found.call.function
    formats = portal.formats or (0,) * len(found.fields or ())
    rows: list[bytes] = []
    if routine.language == "plpgsql":
        is_apart = routine.kind != "p" or routine.security_definer or routine.settings
        is_atomic = bool(is_apart) or _is_atomic(session, portal)
        result = await suspend.run(lambda: _run_program(session, plan, routine, portal.parameters, is_atomic))
        rows = encoded_rows(result, plan.encoders(formats, session.key.format)) if result else []
    else:
        values = await _arguments(session, plan, portal.parameters)
        if not function.strict or None not in values:
            with as_runner(session, routine), session.function_calls.count(routine):
                body = body_of(routine, session.environment, function, argument_types(found.call), found.call.type)
                rows = await _run_body(session, portal, found, body.statements, values, formats)
    if found.fields is not None and not function.returns_set:
        rows = rows[:1] or [_row_of_nulls(len(found.fields))]
    if rows and found.fields is not None:
        await sink.rows(b"".join(rows))
    sink.complete(command if command == "CALL" else f"SELECT {len(rows)}")


def work_of_call(session: Session, portal: Portal, plan: CallPlan) -> Callable[[], Answer] | None:
    """`run_call` of a function in PL/pgSQL by SELECT, for a greenlet; None for another call. Raises 42501."""
    prepared = portal.prepared
    if prepared.catalog is not session.catalog or prepared.key is not session.key:
        return None
    routine = plan.called
    if routine is None:
        routine = routine_of(session, plan.call.call)
        node = prepared.statement.tree
        if routine.language != "plpgsql" or (isinstance(node, ast.CallStmt) and isinstance(node.call, ast.FuncCall)):
            return None
        check_may_call(session, routine)
        plan.called = routine  # the plan is that of this user and this catalog
    if session.transaction is not None:
        session.transaction.queried = True
    return partial(_answer, session, portal, plan, routine)


def _answer(session: Session, portal: Portal, plan: CallPlan, routine: Routine) -> Answer:
    is_atomic = session.in_block or bool(routine.security_definer or routine.settings)
    result = _run_program(session, plan, routine, portal.parameters, is_atomic)
    fields = plan.call.fields or ()
    rows = encoded_rows(result, plan.encoders(portal.formats, session.key.format)) if result else []
    if not plan.call.call.function.returns_set:
        rows = rows[:1] or [_row_of_nulls(len(fields))]
    return Answer(b"".join(rows), "SELECT", len(rows), 0)


def _present_plan(session: Session, node: ast.CallStmt, prepared: Prepared) -> CallPlan:
    """The call, analysed again if the schema has changed since it was planned."""
    plan = prepared.plan
    if isinstance(node.call, ast.FuncCall):
        return CallPlan(procedure_call(session, node))
    if isinstance(plan, CallPlan) and prepared.catalog is session.catalog and prepared.key == session.key:
        return plan
    analyzed = analyze(node.call, session.environment, prepared.parameters.types)
    found = whole_call(session, analyzed.statement)
    if found is None:
        raise SqlError("0A000", "cached plan must not change result type", routine="RevalidateCachedQuery")
    return CallPlan(found)


async def run_do(session: Session, node: ast.DoStmt, portal: Portal, sink: Sink) -> None:
    """DO. Raises 42704 for an unknown language."""
    if node.language != "plpgsql":
        raise SqlError("42704", f'language "{node.language}" does not exist')
    await plpgsql.run_do(session, node, is_atomic=_is_atomic(session, portal))
    sink.complete("DO")


def _is_atomic(session: Session, portal: Portal) -> bool:
    """Whether what is called may not end the transaction."""
    return session.in_block or not (session.is_top_level or portal.may_commit)


def encoded_rows(rows: Sequence[tuple[object, ...]], encoders: Sequence[Encoder]) -> list[bytes]:
    """Rows as DataRow messages."""
    return [_message(row, encoders) for row in rows]


def _message(row: tuple[object, ...], encoders: Sequence[Encoder]) -> bytes:
    if len(encoders) == 1 and row[0] is not None:
        only = encoders[0](row[0])
        return b"D" + _ONE.pack(len(only) + 10, 1, len(only)) + only
    parts = [struct.pack(">h", len(encoders))]
    for value, encode in zip(row, encoders, strict=False):
        data = None if value is None else encode(value)
        parts.append(b"\xff\xff\xff\xff" if data is None else _LENGTH.pack(len(data)) + data)
    body = b"".join(parts)
    return b"D" + _LENGTH.pack(len(body) + 4) + body


def _run_program(
    session: Session, plan: CallPlan, routine: Routine, parameters: Sequence[object], is_atomic: bool
) -> plpgsql.Rows | None:
    """The rows of a call of a function in PL/pgSQL, in a greenlet; None for a strict one with an argument that is
    NULL."""
    values = _compute_arguments(session, plan, parameters)
    found = plan.call
    if found.call.function.strict and None in values:
        return None
    columns = None
    if found.rows and found.call.type.oid == oids.RECORD and not routine.outputs:
        columns = [item.type for item in found.fields or ()]
    with as_runner(session, routine):
        if session.function_calls.counts(routine):
            with session.function_calls.count(routine):
                return plpgsql.call(session, routine, plan.routine_call, values, columns, is_atomic=is_atomic)
        return plpgsql.call(session, routine, plan.routine_call, values, columns, is_atomic=is_atomic)


async def _arguments(session: Session, plan: CallPlan, parameters: Sequence[object]) -> list[object]:
    return await suspend.run(lambda: _compute_arguments(session, plan, parameters))  # they may call functions


def _compute_arguments(session: Session, plan: CallPlan, parameters: Sequence[object]) -> list[object]:
    if plan.parameters is not None:
        return [parameters[number - 1] for number in plan.parameters]
    context = session.context()
    if plan.computes is None:
        environment = session.environment
        arguments = [expanded_expression(argument, environment) for argument in plan.call.call.arguments]
        plan.computes = [compile_value(argument, context.format) for argument in arguments]
        if all(isinstance(argument, tree.Param) for argument in arguments):
            plan.parameters = [argument.number for argument in arguments if isinstance(argument, tree.Param)]
    values: list[object] = []
    for compute in plan.computes:
        while True:
            try:
                values.append(compute(context, parameters))
                break
            except LockWait as lock:
                wait_within(session, session.wait_for(lock))
    return values


async def _run_body(
    session: Session,
    portal: Portal,
    found: WholeCall,
    statements: Sequence[tree.Analyzed | ast.Node],
    values: list[object],
    formats: tuple[int, ...],
) -> list[bytes]:
    """The rows of the last statement, as DataRow messages."""
    rows: list[bytes] = []
    routine = routine_of(session, found.call)
    if routine.volatility == "v":
        (session.transaction or session.begin_implicit()).defers = True
    for number, item in enumerate(statements, 1):
        with LineContext(f'SQL function "{routine.name}" during startup'):
            types = argument_types(found.call)
            prepared = plan_of_body(session, routine, portal.prepared.statement, item, types)
            if routine.volatility != "v":
                refuse_change(prepared)
        with LineContext(f'SQL function "{routine.name}" statement {number}'):
            last = number == len(statements) and found.call.type.oid != oids.VOID
            collector = Collector(session.memory)
            inner = Portal(prepared, values, formats if last else prepared.text_formats)
            await run_portal.run(session, inner, 0, collector)
        if last and prepared.fields is not None:
            rows = collector.split()
    return rows


def _row_of_nulls(count: int) -> bytes:
    return b"D" + _LENGTH.pack(6 + 4 * count) + struct.pack(">h", count) + b"\xff\xff\xff\xff" * count
