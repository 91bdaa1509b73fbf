"""Runs statements that may wait: for locks, for the worker, for durability, for the client to read its rows.

    simple_query / run_simple    the statements of a simple Query
    run                          starts or resumes a portal. Queries and changes of rows: `start`, then `deliver`

A statement takes its table locks before it runs, and is planned again if the schema has changed during the wait for
them (`current`, `lock_relations`). A row path plan that meets a lock waits and runs again; one that visits too many
rows continues as a columnar plan.
"""

from __future__ import annotations

from collections.abc import Coroutine, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

from catalog.errors import SqlError
from catalog.memory import LARGE, Holding, within
from catalog.patience import TooLong
from engine.execute.context import RowPathFull, RowPathHeavy
from engine.foreground import aside
from engine.session import serializable_statements, statement_log
from engine.session.answer import Answer, Sink, tag
from engine.session.errors import aborted_error
from engine.session.plan import RunRow
from engine.session.portal import Portal
from engine.session.prepared import Prepared, StalePlan, once_known
from engine.session.safe_snapshots import note_begin
from engine.session.statement_texts import LONG_TEXT, LONGEST_KEPT, may_read_past, utf8
from engine.session.transactions import ends_transaction
from engine.sql import ast
from engine.sql.dialects.names import SHOAL
from engine.sql.dialects.statements import statements_in
from engine.sql.parser import parse
from engine.sql.tree_walk import walk
from engine.statements import paths, planning, utility
from engine.statements.rows_plan import RowsPlan
from engine.statistics.statements import COLUMNAR, ROW
from engine.txn.interface import SERIALIZABLE, LockWait

if TYPE_CHECKING:
    from engine.node.plan_cache import PlanKey
    from engine.session.session import Session


async def simple_query(session: Session, sql: bytes, sink: Sink) -> None:
    """Runs every statement of a simple Query, as one transaction unless it has transaction statements. Raises SqlError;
    the caller calls `fail`. Acknowledged commits are durable."""
    session.begins(sql)
    key = session.key
    long = len(sql) >= LONG_TEXT or key.dialect != SHOAL
    past = False  # planning a short text shows that
    if long:
        statements, past = await aside(_read_long, sql, key)
    else:
        statements = parse(utf8(sql), key.conforming)
    if not statements:
        sink.empty()
    brief = len(statements) > 1 or len(sql) > LONGEST_KEPT or not session.cache.note_meeting(sql)
    for number, statement in enumerate(statements, 1):
        if number > 1:
            session.timeouts.watch_statement()  # each has its own statement_timeout, as changed by earlier ones
        explains = isinstance(statement.tree, ast.ExplainStmt)  # plans its query when it runs
        if long and len(statements) == 1 and not past:
            prepared = await aside(within, session.query_memory, planning.prepare, session, statement, ())
        else:
            prepared = await once_known(partial(planning.prepare, session, statement, (), brief=brief))
        if prepared.parameters.types or (explains and "$" in statement.text and _parameters(statement)):
            raise _no_parameter(statement)
        if len(statements) == 1 and session.plan_cache_catalog() is not None and planning.cacheable(prepared):
            planning.keep(session, sql, prepared)
        last = number == len(statements) or _ends_implicit(session, statement)
        if not last and isinstance(prepared.plan, RowsPlan) and prepared.plan.writes:
            (session.transaction or session.begin_implicit()).defers = True
        session.more_follow = not last
        try:
            await _run_simple(session, prepared, (), sink, last)
        finally:
            session.more_follow = False


def _no_parameter(statement: ast.Statement) -> SqlError:
    """42P02: a simple query has none."""
    location, number = min(_parameters(statement))
    return SqlError("42P02", f"there is no parameter ${number}", position=location + 1)


def _parameters(statement: ast.Statement) -> list[tuple[int, int]]:
    return [(node.location, node.number) for node in walk(statement.tree) if isinstance(node, ast.ParamRef)]


def _read_long(sql: bytes, key: PlanKey) -> tuple[tuple[ast.Statement, ...], bool]:
    """In a thread: parses a text that takes long; returns its statements, and whether they may read the past."""
    text = utf8(sql)
    return statements_in(text, key.dialect, key.conforming), may_read_past(text)


async def run_simple(
    session: Session, prepared: Prepared, parameters: Sequence[object], sink: Sink, wait: LockWait | None
) -> None:
    """Runs a statement of `find` that could not finish at once; `wait`: the lock that it met."""
    if wait is not None:
        await session.wait_for(wait)
    await _run_simple(session, prepared, parameters, sink, True)


async def _run_simple(
    session: Session, prepared: Prepared, parameters: Sequence[object], sink: Sink, last: bool
) -> None:
    held = session.waits.table_locks()
    if isinstance(prepared.plan, RowsPlan):
        prepared = await current(session, prepared, fixed=False)
    formats = utility.simple_formats(session, prepared)
    portal = Portal(prepared, parameters, formats)
    portal.held = held
    answer = Answer(sink)
    sink.fields(prepared, portal.formats)
    await run(session, portal, 0, answer)
    if last:
        lsn = session.finish()
        if lsn:
            await session.durable(lsn)
    answer.release()


async def finish_simple(session: Session, rest: Coroutine[Any, Any, None], answer: Answer) -> None:
    """The rest of a statement of a simple Query that has begun (prompt.py)."""
    await rest
    lsn = session.finish()
    if lsn:
        await session.durable(lsn)
    answer.release()


def _ends_implicit(session: Session, statement: ast.Statement) -> bool:
    """COMMIT and ROLLBACK in a query string of several statements end the work before them."""
    return isinstance(statement.tree, ast.TransactionStmt) and not session.in_block


async def run(session: Session, portal: Portal, limit: int, sink: Sink) -> None:
    """Runs or resumes a portal: rows, then complete or suspended. Raises SqlError; the caller calls `fail`."""
    began, counted = perf_counter() - session.waited, portal.done
    alone, ended_before = session.transaction is None, session.commits + session.rollbacks
    if not session.depth:
        session.began = began
        session.shown = portal.prepared
    elif session.transaction is not None:
        session.transaction.defers = True
    session.depth += 1
    try:
        await _run(session, portal, limit, sink)
        if session.depth == 1 and portal.done and not session.more_follow:
            await session.transactions.end_deferred()
        if session.foreign is not None and session.depth == 1 and not (session.more_follow or session.in_block):
            await session.foreign.commit()  # of a statement alone: the end of its transaction does not wait
    finally:
        session.depth -= 1
        session.waited = 0.0
        session.ended = ended = perf_counter()
        portal.took += ended - began
        if ended - began >= session.log_over and portal.path != ROW and not session.depth:
            statement_log.ran(session, portal.prepared, ended - began)
    if portal.done and not counted and portal.path != "row":
        count(session, portal)
        if alone and session.transaction is None and session.commits + session.rollbacks == ended_before:
            session.commits += 1  # SET, SHOW, ... need no transaction, and pg_stat_statements counts each as one


def count(session: Session, portal: Portal) -> None:
    """Counts statements that did not run on the row path, which counts its own (Session.execute_row)."""
    prepared = portal.prepared
    if prepared.plan.is_counted:
        session.node.statements.count_execution(prepared, portal.path, portal.took, portal.count)


async def _run(session: Session, portal: Portal, limit: int, sink: Sink) -> None:
    prepared = portal.prepared
    if session.status == "E" and not ends_transaction(prepared):
        raise aborted_error()
    if portal.done:
        if prepared.fields is None:
            raise SqlError("55000", f'portal "{portal.name.decode()}" cannot be run')
        sink.complete(f"{prepared.command} 0")
        return
    if prepared.plan.is_planned_late:
        await prepared.plan.run(session, portal, limit, sink)
        return
    if not portal.started:
        session.leadership.check()
        if not isinstance(prepared.statement.tree, ast.TransactionStmt | ast.SetStmt | ast.ShowStmt):
            await session.waits.catch_up()
        portal.started = True
        if not isinstance(prepared.plan, RowsPlan):
            await prepared.plan.run(session, portal, limit, sink)
            return
        await start(session, portal)
    try:
        await deliver(session, portal, limit, sink)
    except BaseException:
        session.portals.stop(portal)
        raise


async def start(session: Session, portal: Portal) -> None:
    """Runs a portal's query or change up to its first rows: to its end on the row path and for changes, to an open
    stream on the columnar path."""
    held = session.waits.table_locks() if portal.held is None else portal.held
    prepared = portal.prepared = await current(session, portal.prepared)
    plan = rows_plan(prepared)
    while plan.at_once:
        try:
            await _start_row(session, portal, plan)
            return
        except StalePlan:
            prepared = portal.prepared = await current(session, prepared)
            plan = rows_plan(prepared)
        except RowPathFull as full:
            locks = plan.locks
            refusal = elsewhere(session, plan, full)
            if refusal is not None:
                with staying(session, refusal):
                    await _start_row(session, portal, plan)
                return
            if session.transaction is not None and plan.locks is not locks:
                prepared = portal.prepared = await lock_relations(session, prepared)
                plan = rows_plan(prepared)
                paths.columnar_of(session, plan)
            plan.note_overflow(prepared)
            break
    plan.ran_elsewhere()
    if session.transaction is None:
        session.begin_implicit()
        prepared = portal.prepared = await lock_relations(session, prepared)
        plan = rows_plan(prepared)
        paths.columnar_of(session, plan)
    transaction = session.transaction
    assert transaction is not None
    await session.waits.met_durable(transaction)
    try:
        await _begin_columnar(session, portal, plan, held)
    except SqlError:
        await session.waits.met_durable(transaction)
        raise


def rows_plan(prepared: Prepared) -> RowsPlan:
    """The plan of a query or a change of rows."""
    assert isinstance(prepared.plan, RowsPlan)
    return prepared.plan


async def _begin_columnar(session: Session, portal: Portal, plan: RowsPlan, held: Mapping[Hashable, int]) -> None:
    transaction = session.transaction
    assert transaction is not None and plan.columnar is not None
    fail_first(session, plan, portal.parameters)
    if transaction.before_snapshot is not None:
        await note_begin(session, transaction)
    while True:
        path = plan.columnar.with_constants(portal.parameters)
        portal.path = COLUMNAR
        try:
            if transaction.isolation == SERIALIZABLE:
                async with serializable_statements.watch_serializable(session, plan.locks):
                    await path.begin(session, portal, held)
            else:
                await path.begin(session, portal, held)
        except TooLong:
            plan.columnar.compute_in_worker()
            continue
        return


def fail_first(session: Session, plan: RowsPlan, parameters: Sequence[object]) -> None:
    """Raises the errors of PostgreSQL's planner now; an expression that takes too long now fails when it is
    computed."""
    if plan.fails_first is not None:
        with suppress(TooLong):
            plan.fails_first(session.context(), parameters)


async def _start_row(session: Session, portal: Portal, plan: RowsPlan) -> None:
    prepared = portal.prepared
    portal.pending, portal.count = await execute_row_waiting(
        session, prepared, plan.row_function(portal.formats), portal.parameters
    )
    portal.pending_rows = portal.count if prepared.fields is not None else 0
    portal.path = ROW


def elsewhere(session: Session, plan: RowsPlan, full: RowPathFull) -> SqlError | None:
    """Makes the columnar path of a statement that the row path has abandoned. Otherwise returns the refusal: there is
    no columnar path, and the rows are too large but maybe not too many, so the row path must continue. Raises errors of
    planning."""
    try:
        paths.columnar_of(session, plan)
    except SqlError as error:
        if error.sqlstate == "0A000" and isinstance(full, RowPathHeavy):
            return error
        raise
    return None


@contextmanager
def staying(session: Session, refusal: SqlError) -> Iterator[None]:
    """Statements in this block stay on the row path, up to query_memory_limit. Raises the refusal of the columnar path
    if there are too many rows."""
    session.row_context.stays = True
    try:
        yield
    except RowPathFull:
        raise refusal from None
    finally:
        session.row_context.stays = False


async def run_to_count(session: Session, prepared: Prepared, parameters: Sequence[object]) -> int:
    """Runs a statement without RETURNING inside another one; returns the number of rows written."""
    portal = Portal(prepared, parameters, ())
    await start(session, portal)
    return portal.count


async def execute_row_waiting(
    session: Session, prepared: Prepared, run: RunRow, parameters: Sequence[object]
) -> tuple[bytes, int]:
    """execute_row, again after each wait for a lock."""
    while True:
        try:
            data, count, lsn = session.rows.run(prepared, run, parameters)
        except LockWait as wait:
            await session.wait_for(wait)
            continue
        if lsn:
            await session.durable(lsn)
        return data, count


async def current(session: Session, prepared: Prepared, fixed: bool = True) -> Prepared:
    """The statement's plan with its table locks; reads outside a block that meet no exclusive lock need none. `fixed`:
    the client knows the result's columns, so they must not have changed (0A000)."""
    if session.transaction is None:
        if prepared.plan.at_once and not prepared.plan.writes and not session.node.exclusive_tables:
            return prepared if prepared.catalog is session.committed_catalog else _again(session, prepared, fixed)
        session.begin_implicit()
    return await lock_relations(session, prepared, fixed)


async def lock_relations(session: Session, prepared: Prepared, fixed: bool = True) -> Prepared:
    """Takes the statement's table locks, and plans it again if the schema has changed meanwhile. A transaction with one
    snapshot takes it before it waits, as in PostgreSQL. Raises errors of planning, 40P01, 55P03, 25006."""
    transaction = session.transaction
    assert transaction is not None
    if transaction.before_snapshot is not None:
        await note_begin(session, transaction)
    while True:
        for oid, mode in prepared.plan.locks:
            await session.lock_table(transaction, oid, mode)
        if prepared.catalog is session.catalog:
            break
        prepared = _again(session, prepared, fixed)
    if prepared.plan.writes and not prepared.plan.temporary:
        transaction.refuse_if_read_only(prepared.command)
    return prepared


def _again(session: Session, prepared: Prepared, fixed: bool) -> Prepared:
    if fixed:
        return planning.renew(session, prepared)
    as_query = isinstance(prepared.plan, RowsPlan)
    return planning.prepare(session, prepared.statement, prepared.parameters.declared, as_query=as_query)


async def deliver(session: Session, portal: Portal, limit: int, sink: Sink) -> None:
    prepared = portal.prepared
    if prepared.fields is None:
        portal.done = True
        sink.complete(tag(prepared.command, portal.count))
        return
    sent = 0
    while True:
        if portal.pending_rows:
            data, rows = portal.take(limit - sent if limit else 0)
            sent += rows
            if portal.path != ROW and prepared.command == "SELECT":
                portal.count += rows
            await sink.rows(data)
        if limit and sent >= limit and (portal.pending_rows or portal.stream is not None):
            if len(portal.pending) > LARGE and portal.holding is None:
                portal.holding = Holding(session.memory)
                portal.holding.owe(len(portal.pending))
            sink.suspend()
            return
        if portal.pending_rows:
            continue
        if portal.stream is None:
            break
        chunk = await anext(portal.chunks, None)
        if chunk is None:
            portal.stream = None
            break
        portal.pending, portal.pending_rows = chunk
    portal.done = True
    # A tag counts the rows of this Execute: a portal may have been suspended before.
    sink.complete(tag(prepared.command, portal.count if prepared.plan.writes else sent))
