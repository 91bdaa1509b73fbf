"""Functions and procedures whose bodies are more than a query, called as a statement of their own: CALL p(...),
SELECT f(...) and SELECT * FROM f(...).

The arguments are computed once; then the statements of the body run one after the other in the session's transaction,
each planned as if it stood alone and seeing what those before it did. What the last one returns is the answer.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from catalog.errors import SqlError, not_supported
from catalog.schema import Routine
from catalog.types import oids
from engine.execute.context import Field
from engine.execute.expressions import compile_value
from engine.session import planning
from engine.session.collect import Collector
from engine.session.prepared import Portal, Prepared
from engine.sql import ast, privileges, tree
from engine.sql.analyze import analyze, analyze_expression
from engine.sql.analyze.routines import body_of, check_execute, expanded_expression, is_routine, runner
from engine.txn.interface import LockWait

if TYPE_CHECKING:
    from engine.session.answer import Sink
    from engine.session.session import Session

_LENGTH = struct.Struct(">i")


@dataclass(frozen=True, slots=True)
class WholeCall:
    """A call that is a whole statement. `rows`: in FROM, so that a record is taken apart and a set may be empty."""

    call: tree.FuncExpr
    rows: bool
    fields: tuple[Field, ...] | None


def whole_call(session: Session, statement: tree.Statement) -> WholeCall | None:
    """The call that a SELECT is, if the function's body cannot take its place."""
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
    body = body_of(_routine(session, call), session.environment, call.function, _types(call), call.type)
    if body.query is not None and call.type.oid != oids.VOID:
        return None
    if call.type.oid == oids.RECORD and not rows and not call.function.returns_set:
        not_supported("a record of a function whose body is more than a query")
    return WholeCall(call, rows, fields)


def _routine(session: Session, call: tree.FuncExpr) -> Routine:
    found = session.catalog.get(call.function.oid)
    assert isinstance(found, Routine)
    return found


def _types(call: tree.FuncExpr) -> list[int]:
    return [item.type.oid for item in call.arguments]


def prepared_select(session: Session, statement: ast.Statement, analyzed: tree.Analyzed, call: WholeCall) -> Prepared:
    """A SELECT that is a call, as a statement that runs the body."""
    assert isinstance(statement.tree, ast.SelectStmt)
    node = ast.CallStmt(statement.tree, location=statement.tree.location)
    types = analyzed.parameter_types
    return Prepared("utility", statement.of(node), types, call.fields, session.catalog, session.key)


def procedure_call(session: Session, node: ast.CallStmt) -> WholeCall:
    """The call of a CALL statement. Raises 42883, 42809 for a function."""
    call = node.call
    assert isinstance(call, ast.FuncCall)
    call = _without_outputs(session, call)
    found = analyze_expression(call, session.environment, None, None, "CALL arguments")
    if not isinstance(found, tree.FuncExpr) or found.function.kind != "p":
        shown = call.names[-1]
        if isinstance(found, tree.FuncExpr):
            from engine.sql.analyze.resolve import signature

            shown = signature(".".join(call.names), _types(found))
        position = call.location + 1 if call.location >= 0 else None
        hint = "To call a function, use SELECT."
        raise SqlError("42809", f"{shown} is not a procedure", hint=hint, position=position)
    outputs = _routine(session, found).outputs
    fields = tuple(Field(item.name or f"column{n}", item.type) for n, item in enumerate(outputs, 1))
    return WholeCall(found, True, fields or None)


def _without_outputs(session: Session, call: ast.FuncCall) -> ast.FuncCall:
    """The call without what stands for OUT arguments: nothing is done with these."""
    for item in session.catalog.routines.get(call.names[-1], ()):
        modes = [argument.mode for argument in item.arguments]
        if item.kind == "p" and "o" in modes and len(modes) == len(call.arguments) and not any(call.argument_names):
            kept = tuple(value for value, mode in zip(call.arguments, modes, strict=True) if mode != "o")
            return replace(call, arguments=kept, argument_names=())
    return call


async def run(session: Session, node: ast.CallStmt, portal: Portal, sink: Sink) -> None:
    """Runs a call to its end."""
    command = "CALL"
    if isinstance(node.call, ast.SelectStmt):
        analyzed = analyze(node.call, session.environment, portal.prepared.parameter_types)
        found = whole_call(session, analyzed.statement)
        if found is None:
            raise SqlError("0A000", "cached plan must not change result type", routine="RevalidateCachedQuery")
        command = "SELECT"
    else:
        found = procedure_call(session, node)
    routine = _routine(session, found.call)
    caller = privileges.role_of(session.catalog, session.user_name)
    check_execute(routine, session.catalog, caller)
    values = await _arguments(session, found.call, portal.parameters)
    function = found.call.function
    formats = portal.formats or (0,) * len(found.fields or ())
    if function.strict and None in values:
        rows: list[bytes] = []
    else:
        body = body_of(routine, session.environment, function, _types(found.call), found.call.type)
        with session.acting_as(runner(routine, session.catalog, caller)):
            rows = await _run_body(session, portal, found, body.statements, values, formats)
    if found.fields is not None and not function.returns_set:
        rows = rows[:1] or [_row_of_nulls(len(found.fields))]
    if rows and found.fields is not None:
        await sink.rows(b"".join(rows))
    sink.complete(command if command == "CALL" else f"SELECT {len(rows)}")


async def _arguments(session: Session, call: tree.FuncExpr, parameters: Sequence[object]) -> list[object]:
    context = session.context()
    values: list[object] = []
    for argument in call.arguments:
        compute = compile_value(expanded_expression(argument, session.environment), context.format)
        while True:
            try:
                values.append(compute(context, parameters))
                break
            except LockWait as wait:
                await session.wait_for(wait)
    return values


async def _run_body(
    session: Session,
    portal: Portal,
    found: WholeCall,
    statements: Sequence[tree.Analyzed],
    values: list[object],
    formats: tuple[int, ...],
) -> list[bytes]:
    """The rows of the last statement, as DataRow messages."""
    rows: list[bytes] = []
    for number, analyzed in enumerate(statements, 1):
        prepared = planning.planned(session, portal.prepared.statement, analyzed, session.environment)
        prepared.tally = session.node.statements.nested
        last = number == len(statements) and found.call.type.oid != oids.VOID
        collector = Collector(session.memory)
        inner = Portal(prepared, values, formats if last else prepared.text_formats)
        await session.run(inner, 0, collector)
        if last and prepared.fields is not None:
            rows = collector.split()
    return rows


def _row_of_nulls(count: int) -> bytes:
    return b"D" + _LENGTH.pack(6 + 4 * count) + struct.pack(">h", count) + b"\xff\xff\xff\xff" * count
