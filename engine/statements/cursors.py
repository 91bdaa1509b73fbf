"""Cursors: DECLARE, FETCH, MOVE and CLOSE.

A declared cursor stores all its rows, so that it may be read backwards; a portal of Bind returns its next rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog.errors import SqlError
from engine.execute.context import Field
from engine.session.portal import Portal
from engine.session.positioned import Positions, check_options, scrolls, separate_places
from engine.session.prepared import Prepared
from engine.sql import ast
from engine.sql.tree import Query
from engine.statements import planning, run
from engine.statements.collect import Collector, reformat_rows
from engine.statements.routine_path import RoutinePath
from engine.statements.rows_plan import RowsPlan
from engine.txn.statement_view import StatementView

if TYPE_CHECKING:
    from engine.session.answer import Sink
    from engine.session.session import Session

DATA_ERRORS = ("21", "22", "23")  # classes of errors of a row's values: for a cursor, raised by FETCH


async def run_declare(session: Session, tree: ast.DeclareCursorStmt, portal: Portal, sink: Sink) -> None:
    if isinstance(tree.query, ast.SelectStmt) and tree.query.changes_data:
        raise SqlError("0A000", "DECLARE CURSOR must not contain data-modifying statements in WITH")
    if not session.has_block and "hold" not in tree.options:
        raise SqlError("25P01", "DECLARE CURSOR can only be used in transaction blocks")
    name = tree.name.encode()
    if name in session.portals:
        raise SqlError("42P03", f'cursor "{tree.name}" already exists')
    prepared = planning.prepare(
        session, portal.prepared.statement.of(tree.query), portal.prepared.parameters.types, with_places=True
    )
    prepared.tally = session.node.statements.nested
    plan = run.rows_plan(prepared)
    query = plan.analyzed.statement
    assert isinstance(query, Query)
    check_options(tree.options, query)
    run.fail_first(session, plan, portal.parameters)  # not at the first row that is fetched
    code = 1 if "binary" in tree.options else 0
    cursor = Portal(prepared, portal.parameters, (code,) * len(prepared.fields or ()), name)
    cursor.holdable = "hold" in tree.options
    cursor.scroll = "scroll" in tree.options or ("no scroll" not in tree.options and scrolls(query))
    inner = Portal(prepared, portal.parameters, (*(1,) * width_of_places(prepared), *cursor.formats))
    if runs_late(cursor, prepared):
        await put_off(session, cursor, inner)
    else:
        rows = Collector(session.memory)
        try:
            await run.run(session, inner, 0, rows)
        except SqlError as error:
            if error.sqlstate[:2] not in DATA_ERRORS:
                raise
            rows, cursor.error = Collector(session.memory), error
        keep_rows(session, cursor, rows)
    cursor.started = True
    cursor.kept = cursor.holdable and session.transaction is None  # there is no transaction whose commit would end it
    session.portals[name] = cursor
    sink.complete("DECLARE CURSOR")


def runs_late(cursor: Portal, prepared: Prepared) -> bool:
    """Whether the query of a cursor runs at the first FETCH: it calls functions that run statements, whose effects
    belong there. Not if the cursor outlives the transaction, or locks rows."""
    plan = prepared.plan
    if not isinstance(plan, RowsPlan) or not isinstance(plan.columnar, RoutinePath):
        return False
    return not plan.writes and not cursor.holdable


async def put_off(session: Session, cursor: Portal, inner: Portal) -> None:
    """Lets the query of a cursor run at the first FETCH. It will read what is there now."""
    if session.transaction is None:
        session.begin_implicit()
    inner.prepared = await run.lock_relations(session, inner.prepared)
    transaction = session.transaction
    assert transaction is not None
    inner.view = StatementView(transaction)
    cursor.later, cursor.rows = inner, []


async def catch_up(session: Session, cursor: Portal) -> None:
    """Before a cursor is read: runs its query, if that has not run. Raises its errors."""
    inner, cursor.later = cursor.later, None
    if inner is None:
        return
    assert inner.view is not None
    rows = Collector(session.memory)
    try:
        await run.run(session, inner, 0, rows)
    except BaseException:
        cursor.error = SqlError("55000", f'portal "{cursor.name.decode()}" cannot be run')
        raise
    finally:
        inner.view.close()
    keep_rows(session, cursor, rows)


def width_of_places(prepared: Prepared) -> int:
    """The number of columns before those of a cursor's query."""
    plan = prepared.plan
    return sum(len(item.columns) for item in plan.places or ()) if isinstance(plan, RowsPlan) else 0


def keep_rows(session: Session, cursor: Portal, rows: Collector) -> None:
    """Gives a cursor all its rows, and their places."""
    cursor.rows = rows.split()
    cursor.holding = rows.holding
    plan = cursor.prepared.plan
    if not isinstance(plan, RowsPlan) or not plan.places:
        return
    cursor.rows, found = separate_places(cursor.rows, width_of_places(cursor.prepared))
    if session.transaction is not None:  # otherwise it is held, and begins where it is not updatable
        cursor.positions = Positions(plan.places, session.transaction, found)


def window(cursor: Portal, tree: ast.FetchStmt) -> list[bytes]:
    """The rows of a FETCH; moves the cursor. `position` counts rows from 1; 0 is before the first."""
    rows = cursor.rows
    assert rows is not None
    if cursor.error is not None:
        error, cursor.error = cursor.error, SqlError("55000", f'portal "{cursor.name.decode()}" cannot be run')
        raise error
    total = len(rows)
    direction, count = tree.direction, tree.count
    if direction in ("absolute", "relative"):
        assert count is not None
        target = count if direction == "absolute" else cursor.position + count
        if direction == "absolute" and count < 0:
            target = total + 1 + count
        if target < cursor.position or (target == cursor.position and not tree.move and 1 <= target <= total):
            _refuse_backward(cursor)  # the cursor's present row is fetched again from the one before it
        cursor.position = min(max(target, 0), total + 1)
        return rows[cursor.position - 1 : cursor.position] if 1 <= cursor.position <= total else []
    if count is not None and count < 0:
        direction = "backward" if direction == "forward" else "forward"
        count = -count
    if count == 0:
        if 1 <= cursor.position <= total and not tree.move:
            _refuse_backward(cursor)
        return rows[cursor.position - 1 : cursor.position] if 1 <= cursor.position <= total else []
    if direction == "forward":
        start = min(cursor.position, total)
        taken = rows[start:] if count is None else rows[start : start + count]
        cursor.position = start + len(taken) + (1 if count is None or len(taken) < count else 0)
        return taken
    _refuse_backward(cursor)
    end = max(min(cursor.position, total + 1) - 1, 0)
    start = 0 if count is None else max(end - count, 0)
    taken = rows[start:end][::-1]
    cursor.position = end - len(taken) + 1 - (1 if count is None or len(taken) < count else 0)
    return taken


def _refuse_backward(cursor: Portal) -> None:
    if not cursor.scroll:
        message = "cursor can only scan forward"
        raise SqlError("55000", message, hint="Declare it with SCROLL option to enable backward scan.")


def _cursor(session: Session, name: str) -> Portal:
    """The cursor of that name. Raises 34000."""
    cursor = session.portals.get(name.encode())
    if cursor is None:
        raise SqlError("34000", f'cursor "{name}" does not exist')
    return cursor


async def _next_rows(session: Session, cursor: Portal, tree: ast.FetchStmt) -> list[bytes]:
    """FETCH from a portal of Bind: its next rows; it stores none, so it cannot go back."""
    if tree.direction != "forward" or (tree.count is not None and tree.count <= 0):
        _refuse_backward(cursor)
    rows = Collector(session.memory)
    await run.run(session, cursor, tree.count or 0, rows)
    return rows.split()


async def run_fetch(session: Session, tree: ast.FetchStmt, portal: Portal, sink: Sink) -> None:
    cursor = _cursor(session, tree.cursor)
    await catch_up(session, cursor)
    taken = window(cursor, tree) if cursor.rows is not None else await _next_rows(session, cursor, tree)
    if not tree.move and taken:
        if portal.formats != cursor.formats:
            taken = reformat_rows(taken, cursor.prepared, cursor.formats, portal.formats)
        await sink.rows(b"".join(taken))
    portal.count = len(taken)
    sink.complete(f"{'MOVE' if tree.move else 'FETCH'} {portal.count}")


async def run_close(session: Session, tree: ast.ClosePortalStmt, portal: Portal, sink: Sink) -> None:
    if tree.name is None:
        for name in [name for name, item in session.portals.items() if item.rows is not None]:
            session.portals.close(name)
        sink.complete("CLOSE CURSOR ALL")
        return
    if tree.name.encode() not in session.portals:
        raise SqlError("34000", f'cursor "{tree.name}" does not exist')
    session.portals.close(tree.name.encode())
    sink.complete("CLOSE CURSOR")


def fetch_fields(session: Session, tree: ast.FetchStmt) -> tuple[Field, ...] | None:
    return None if tree.move else _cursor(session, tree.cursor).prepared.fields


def fetch_formats(session: Session, tree: ast.FetchStmt) -> tuple[int, ...] | None:
    """The formats of the cursor: a BINARY one returns binary in a simple query too."""
    return None if tree.move else _cursor(session, tree.cursor).formats
