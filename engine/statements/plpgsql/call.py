"""Calls of functions in PL/pgSQL as statements of their own, and DO."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from catalog.errors import SqlError
from catalog.memory import exchange_meter, new_meter
from catalog.schema import Routine
from catalog.types import oids
from catalog.types.base import TypeRef
from engine.sql import ast
from engine.sql.literal_places import move_to_statement
from engine.sql.plpgsql.parser import Signature
from engine.statements.plpgsql import errors, suspend
from engine.statements.plpgsql.frame import Frame
from engine.statements.plpgsql.known import Known
from engine.statements.plpgsql.program import Program
from engine.statements.plpgsql.programs import compile_body, program_of
from engine.statements.plpgsql.records import Row, Uncast, check_columns

if TYPE_CHECKING:
    from engine.execute.context import RoutineCall
    from engine.session.session import Session

Rows = list[tuple[object, ...]]


def call(
    session: Session,
    routine: Routine,
    call: RoutineCall,
    arguments: Sequence[object],
    columns: Sequence[TypeRef] | None,
    *,
    is_atomic: bool,
) -> Rows:
    """The rows of a call that is a statement, in a greenlet. `columns`: those of a column definition list."""
    program, known = program_of(session, routine, call)
    if session.transaction is None:
        session.begin_implicit()
    return rows_of_program(session, program, known, routine, arguments, columns, is_atomic=is_atomic)


async def run_do(session: Session, node: ast.DoStmt, *, is_atomic: bool) -> None:
    """DO."""
    signature = Signature("inline_code_block", (), TypeRef(oids.VOID))
    try:
        program, known = compile_body(session, node.body, signature)
    except SqlError as error:
        move_to_statement(error, node.literal, node.body)
        raise
    if session.transaction is None:
        session.begin_implicit()
    frame = Frame(session, program, known, is_atomic)
    await suspend.run(lambda: enter(frame, ()))


def rows_of_program(
    session: Session,
    program: Program,
    known: Known,
    routine: Routine,
    arguments: Sequence[object],
    columns: Sequence[TypeRef] | None = None,
    *,
    is_atomic: bool = True,
) -> Rows:
    """The rows of a call: one for a function that returns no set."""
    frame = Frame(session, program, known, is_atomic, columns)
    value = enter(frame, arguments)
    if routine.returns_set:
        return frame.results
    if isinstance(value, Row):
        if columns is not None:
            given = [type_ for _, type_ in value.shape]
            line = f"PL/pgSQL function {program.shown} while casting return value to function's return type"
            with errors.LineContext(line):
                check_columns(given, columns, "returned record type does not match expected record type")
        return [tuple(frame.values_of(value.values, value.fields, frame.columns))]
    if len(frame.columns) > 1:
        return [value if isinstance(value, tuple) else (None,) * len(frame.columns)]
    return [(value,)]


def run_program(session: Session, program: Program, known: Known, arguments: Sequence[object]) -> object:
    """The value of a call within another statement, which runs in a greenlet already."""
    value = enter(Frame(session, program, known, is_atomic=True), arguments)
    return value.values if isinstance(value, Row) else value


def enter(frame: Frame, arguments: Sequence[object]) -> object:
    """Runs a body, with a meter of its own; errors get its line of context."""
    session = frame.session
    assert session.transaction is not None
    session.transaction.queried = True
    outside = exchange_meter(new_meter(session.query_memory, session.memory))
    try:
        value = run_apart(frame, arguments)
    finally:
        exchange_meter(outside)
    if not isinstance(value, Uncast):
        return value
    line = f"PL/pgSQL function {frame.program.shown} while casting return value to function's return type"
    with errors.LineContext(line):
        return frame.convert((value.value, value.type), value.wanted)


def run_apart(frame: Frame, arguments: Sequence[object]) -> object:
    """`enter` without a meter of its own."""
    program = frame.program
    try:
        return program.run(frame, frame.context if program.asks_context else None, *arguments)
    except SqlError as error:
        place = errors.place_of(program, error.__traceback__)
        errors.add_context(error, errors.context_line(program.shown, *place))
        raise
