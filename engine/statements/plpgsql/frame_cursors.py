"""Cursors of functions in PL/pgSQL: portals of the session, which its client can fetch from too (PostgreSQL manual,
43.7). An open cursor has all its rows."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from catalog.errors import SqlError
from catalog.types import lookup
from engine.session.portal import Portal
from engine.sql import ast
from engine.statements import run as run_portal
from engine.statements.collect import Collector, decode_row, reformat_rows
from engine.statements.cursors import DATA_ERRORS, catch_up, keep_rows, put_off, runs_late, width_of_places, window
from engine.statements.plpgsql.nested import wait_within
from engine.statements.rows_plan import RowsPlan

if TYPE_CHECKING:
    from engine.execute.context import Field
    from engine.session.prepared import Prepared
    from engine.session.session import Session

_numbers = itertools.count(1)


def check_unused(session: Session, name: str | None) -> None:
    """Raises 42P03 for the name of an open cursor."""
    if name is not None and name.encode() in session.portals:
        raise SqlError("42P03", f'cursor "{name}" already in use')


def open_portal(
    session: Session, name: str | None, prepared: Prepared, parameters: Sequence[object], scroll: bool | None
) -> str:
    """Opens a cursor over a query, and returns its name. Raises 42P03 if the name is in use."""
    check_unused(session, name)
    while name is None or name.encode() in session.portals:
        name = f"<unnamed portal {next(_numbers)}>"
    formats = (1,) * len(prepared.fields or ())
    cursor = Portal(prepared, parameters, formats, name.encode())
    cursor.scroll = scroll is not False
    if isinstance(prepared.plan, RowsPlan):
        run_portal.fail_first(session, prepared.plan, parameters)  # PostgreSQL plans it now, and reads rows later
    inner = Portal(prepared, parameters, (*(1,) * width_of_places(prepared), *formats))
    if runs_late(cursor, prepared):
        wait_within(session, put_off(session, cursor, inner))
    else:
        rows = Collector(session.memory)
        try:
            wait_within(session, run_portal.run(session, inner, 0, rows))
        except SqlError as error:
            if error.sqlstate[:2] not in DATA_ERRORS:
                raise
            rows, cursor.error = Collector(session.memory), error
        keep_rows(session, cursor, rows)
    cursor.started = True
    session.portals[cursor.name] = cursor
    return name


def portal_of(session: Session, name: str | None, variable: str) -> Portal:
    """The open cursor that a variable names. Raises 22004 for NULL, 34000."""
    if name is None:
        raise SqlError("22004", f'cursor variable "{variable}" is null')
    cursor = session.portals.get(name.encode())
    if cursor is None or cursor.rows is None:
        raise SqlError("34000", f'cursor "{name}" does not exist')
    return cursor


class Steps(list[tuple[object, ...]]):
    """The rows that a loop takes from a cursor. The cursor is at each row while that is the newest one, for WHERE
    CURRENT OF."""

    def __init__(self, cursor: Portal, first: int, rows: Sequence[tuple[object, ...]]) -> None:
        super().__init__(rows)
        self._cursor = cursor
        self._first = first

    def __iter__(self) -> Iterator[tuple[object, ...]]:
        cursor = self._cursor
        after = cursor.position
        for cursor.position, row in enumerate(super().__iter__(), self._first):
            yield row
        cursor.position = after


def step_through(session: Session, cursor: Portal) -> tuple[Sequence[Field], Steps]:
    """The columns of a cursor and all rows after its position."""
    first = cursor.position + 1
    fields, rows = fetch(session, cursor, "forward", None, False)
    return fields, Steps(cursor, first, rows)


def fetch(
    session: Session, cursor: Portal, direction: str, count: int | None, move: bool
) -> tuple[Sequence[Field], list[tuple[object, ...]]]:
    """The columns of a cursor, and the rows of one FETCH; `count` None: ALL."""
    if direction in ("next", "prior"):
        direction = "forward" if direction == "next" else "backward"
    elif direction in ("first", "last"):
        direction, count = "absolute", 1 if direction == "first" else -1
    if cursor.later is not None:
        wait_within(session, catch_up(session, cursor))
    taken = window(cursor, ast.FetchStmt(cursor.name.decode(), direction, count, move))
    fields = cursor.prepared.fields or ()
    have, want = cursor.formats, (1,) * len(fields)
    if have != want:
        taken = reformat_rows(taken, cursor.prepared, have, want)
    decoders: list[Callable[[bytes], object]] = [lookup(item.type.oid).binary_decoder() for item in fields]
    return fields, [decode_row(message, decoders) for message in taken]
