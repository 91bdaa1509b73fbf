"""Calls of functions in PL/pgSQL as statements of their own, and DO."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from catalog.errors import SqlError
from catalog.schema import Routine
from catalog.types import oids
from catalog.types.base import TypeRef
from engine.sql.plpgsql import signatures
from engine.sql.plpgsql.parser import Signature
from engine.statements.plpgsql import errors, suspend
from engine.statements.plpgsql.compile import Program
from engine.statements.plpgsql.frame import Frame, Known
from engine.statements.plpgsql.programs import compile_body, program_of
from engine.statements.plpgsql.records import Row, check_columns

if TYPE_CHECKING:
    from engine.execute.context import RoutineCall
    from engine.session.session import Session

Rows = list[tuple[object, ...]]


async def call(
    session: Session,
    routine: Routine,
    call: RoutineCall,
    arguments: Sequence[object],
    columns: Sequence[TypeRef] | None,
    *,
    is_atomic: bool,
) -> Rows:
    """The rows of a call that is a statement. `columns`: those of a column definition list."""
    program, known = program_of(session, routine, call)
    if session.transaction is None:
        session.begin_implicit()
    return await suspend.run(
        lambda: rows_of_program(session, program, known, routine, arguments, columns, is_atomic=is_atomic)
    )


async def run_do(session: Session, body: str, *, is_atomic: bool) -> None:
    """DO."""
    signature = Signature("inline_code_block", (), TypeRef(oids.VOID))
    program, known = compile_body(session, body, signature)
    if session.transaction is None:
        session.begin_implicit()
    frame = Frame(session, program, known, signature.name, is_atomic)
    await suspend.run(lambda: _enter(session, program, frame, signature.name, ()))


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
    shown = signatures.text_of(routine)
    frame = Frame(session, program, known, shown, is_atomic, columns)
    value = _enter(session, program, frame, shown, arguments)
    if routine.returns_set:
        return frame.results
    if isinstance(value, Row):
        if columns is not None:
            given = [type_ for _, type_ in value.shape]
            with errors.LineContext(f"PL/pgSQL function {shown} while casting return value to function's return type"):
                check_columns(given, columns, "returned record type does not match expected record type")
        return [tuple(frame.values_of(value.values, value.fields, frame.columns))]
    if len(frame.columns) > 1:
        return [value if isinstance(value, tuple) else (None,) * len(frame.columns)]
    return [(value,)]


def run_program(
    session: Session, program: Program, known: Known, routine: Routine, arguments: Sequence[object], *, is_atomic: bool
) -> object:
    """The value of a call within another statement, which runs in a greenlet already."""
    shown = signatures.text_of(routine)
    frame = Frame(session, program, known, shown, is_atomic)
    value = _enter(session, program, frame, shown, arguments)
    return value.values if isinstance(value, Row) else value


def _enter(session: Session, program: Program, frame: Frame, shown: str, arguments: Sequence[object]) -> object:
    """Runs a body; errors get its line of context."""
    assert session.transaction is not None
    session.transaction.queried = True
    try:
        return program.run(frame, session.context(), *arguments)
    except SqlError as error:
        errors.add_context(error, errors.context_line(shown, *errors.place_of(program, error.__traceback__)))
        raise
