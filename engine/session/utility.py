"""Statements that are not queries: settings, cursors, SQL-level PREPARE, EXPLAIN, and the doors to DDL and COPY.

`fields` says which columns a statement returns (Describe asks before anything runs); `execute` runs it. Each kind has
one handler in `_HANDLERS`; what has none is refused by name.
"""

from __future__ import annotations

import struct
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from catalog.errors import SqlError, not_supported
from catalog.privileges import acts_as
from catalog.schema import CHECKPOINT_OID, Domain
from catalog.types import format_type, oids
from catalog.types.base import TypeRef
from engine.execute.context import Field
from engine.execute.expressions import compile_value
from engine.session import past, planning, routines
from engine.session.collect import Collector, reformatted
from engine.session.locking import lock
from engine.session.notifications import UNLISTEN_ALL
from engine.session.positioned import Positions, check_options, scrolls, separated
from engine.session.prepared import Portal, Prepared
from engine.session.reindex import reindex
from engine.session.settings import IDENTITIES, description_of, in_list
from engine.session.system_settings import alter_system
from engine.session.vacuum import vacuum
from engine.sql import ast
from engine.sql.analyze import analyze_expression, resolve_type, runnable_expression
from engine.sql.analyze.domains import has_conditions
from engine.sql.tree import Expr, Query
from engine.txn.interface import LockWait

if TYPE_CHECKING:
    from engine.session.answer import Sink
    from engine.session.session import Session

TEXT = TypeRef(oids.TEXT)
DATA_ERRORS = ("21", "22", "23")  # classes of what a row's values raise: of a cursor's, when it is fetched from
_LENGTH = struct.Struct(">i")

DDL = (
    ast.CreateStmt, ast.IndexStmt, ast.AlterTableStmt, ast.RenameStmt, ast.AlterObjectSchemaStmt, ast.AlterOwnerStmt,
    ast.DropStmt, ast.TruncateStmt, ast.ViewStmt, ast.SequenceStmt, ast.CreateSchemaStmt, ast.CreateDatabaseStmt,
    ast.DropDatabaseStmt, ast.AlterDatabaseStmt, ast.TablespaceStmt, ast.RoleStmt, ast.GrantStmt, ast.CommentStmt,
    ast.OwnedStmt, ast.DefaultPrivilegesStmt,
    ast.CreateEnumStmt, ast.AlterEnumStmt, ast.CreateDomainStmt, ast.AlterDomainStmt, ast.AlterTypeStmt,
    ast.CompositeTypeStmt, ast.AlterCompositeStmt, ast.ExtensionStmt, ast.ChangeStreamStmt,
    ast.CollationStmt, ast.CreateFunctionStmt, ast.DropFunctionStmt, ast.AlterFunctionStmt, ast.DropFromTableStmt,
)  # fmt: skip

_WITHOUT_SNAPSHOT = (
    ast.TransactionStmt, ast.SetStmt, ast.ShowStmt, ast.LockStmt, ast.SetConstraintsStmt, ast.CheckPointStmt,
    ast.FetchStmt, ast.ClosePortalStmt, ast.DeallocateStmt, ast.DiscardStmt, ast.NotifyStmt, ast.ExecuteStmt,
)  # fmt: skip
"""What PostgreSQL gives no snapshot (PlannedStmtRequiresSnapshot of pquery.c): the modes of a transaction may still be
set after it. EXECUTE has the one of its statement, and DEALLOCATE, CLOSE and DISCARD use none."""


def fields(session: Session, statement: ast.Node) -> tuple[Field, ...] | None:
    """The result columns; None for a statement that returns no rows."""
    if isinstance(statement, ast.ShowStmt):
        if statement.name == "all":
            return (Field("name", TEXT), Field("setting", TEXT), Field("description", TEXT))
        return (Field(session.settings.display_name(_setting_name(statement.name)), TEXT),)
    if isinstance(statement, ast.CallStmt):
        return routines.procedure_call(session, statement).fields
    if isinstance(statement, ast.ExplainStmt):
        return (Field("QUERY PLAN", TEXT),)
    if isinstance(statement, ast.ExecuteStmt):
        return executed(session, statement).fields
    if isinstance(statement, ast.FetchStmt) and not statement.move:
        return _cursor(session, statement.cursor).prepared.fields
    return None


async def execute(session: Session, portal: Portal, limit: int, sink: Sink) -> None:
    """Runs a utility statement through the portal."""
    tree = portal.prepared.statement.tree
    if isinstance(tree, DDL):
        from engine.session import ddl

        tag = await ddl.execute(session, tree, portal.prepared.statement)
        portal.done = True
        sink.complete(tag)
        return
    if session.transaction is not None and not isinstance(tree, _WITHOUT_SNAPSHOT):
        session.transaction.queried = True
    handler = _HANDLERS.get(type(tree))
    if handler is None:
        not_supported(tree.what if isinstance(tree, ast.DoStmt) else type(tree).__name__)
    portal.done = True
    await handler(session, tree, portal, sink)


def text_row(values: Sequence[str | None]) -> bytes:
    """One DataRow of text values; text has the same bytes in both formats."""
    parts = []
    for value in values:
        if value is None:
            parts.append(b"\xff\xff\xff\xff")
        else:
            data = value.encode()
            parts += (_LENGTH.pack(len(data)), data)
    body = b"".join(parts)
    return b"D" + _LENGTH.pack(len(body) + 6) + struct.pack(">h", len(values)) + body


async def _transaction(session: Session, tree: ast.TransactionStmt, portal: Portal, sink: Sink) -> None:
    while True:
        try:
            tag, lsn = session.transaction_statement(tree)
            break
        except LockWait as wait:  # a constraint that was deferred
            await session.wait_for(wait)
    if lsn:
        await session.durable(lsn)
    sink.complete(tag)


async def _set_constraints(session: Session, tree: ast.SetConstraintsStmt, portal: Portal, sink: Sink) -> None:
    """SET CONSTRAINTS: what is immediate from now on is checked now. Raises 42704, 42809, 23503."""
    transaction = session.transaction
    chosen = [oid for schema, name in tree.names for oid in _constraints(session, schema, name)]
    deferred = None if transaction is None else transaction.deferral()
    if transaction is None or deferred is None:
        session.warn("25P01", "SET CONSTRAINTS can only be used in transaction blocks")
        sink.complete("SET CONSTRAINTS")
        return
    for oid in chosen or [0]:
        deferred.set_mode(oid, tree.deferred)
    while not tree.deferred:
        try:
            deferred.check(transaction, session.catalog, session.key.format, everything=False)
            break
        except LockWait as wait:
            await session.wait_for(wait)
    sink.complete("SET CONSTRAINTS")


def _constraints(session: Session, schema: str | None, name: str) -> list[int]:
    """The deferrable constraints of that name in the first schema of the path that has one."""
    environment = session.environment
    path = environment.search_path if schema is None else (schema,)
    if schema is not None and not environment.schema_oid(schema):
        raise SqlError("3F000", f'schema "{schema}" does not exist')
    for place in path:
        oid = environment.schema_oid(place)
        found = [
            constraint
            for table in session.catalog.tables()
            if table.schema == oid
            for constraint in table.constraints
            if constraint.name == name
        ]
        if found and not any(constraint.deferrable for constraint in found):
            raise SqlError("42809", f'constraint "{name}" is not deferrable')
        if found:
            return [constraint.oid for constraint in found if constraint.deferrable]
    shown = name if schema is None else f"{schema}.{name}"
    raise SqlError("42704", f'constraint "{shown}" does not exist')


def _setting_name(name: str) -> str:
    return {"time zone": "TimeZone", "transaction isolation level": "transaction_isolation"}.get(name.lower(), name)


async def _set(session: Session, tree: ast.SetStmt, portal: Portal, sink: Sink) -> None:
    name = _setting_name(tree.name)
    in_transaction = session.in_block or session.transaction is not None
    tag = "RESET" if tree.reset else "SET"
    if tree.modes is not None:
        _set_modes(session, tree)
    elif name == "TRANSACTION SNAPSHOT":
        if not session.in_block:
            raise SqlError("25P01", "SET TRANSACTION SNAPSHOT can only be used in transaction blocks")
        session.node.exported.import_into(session, tree.values[0])
    elif name.lower() == "all" and tree.reset:
        if not in_transaction:
            past.leave(session)
        session.settings.reset_all(in_transaction)
    elif name.lower() == past.SETTING and not tree.local:
        await past.set_as_of(session, ", ".join(tree.values) if tree.values else None)
    elif name.lower() in IDENTITIES:
        wanted = tree.values[0] if tree.values and tree.values[0].lower() != "default" else None
        session.set_identity(name.lower(), wanted, tree.local)
    else:
        if tree.values:
            session.set_mode(name, tree.values[0])
        if tree.local and not session.in_block:
            session.warn("25P01", "SET LOCAL can only be used in transaction blocks")
        value = in_list(name, tree.values) if tree.values else None
        session.check_setting(name, value)
        session.settings.set(name, value, local=tree.local, in_transaction=in_transaction)
    sink.complete(tag)


def _set_modes(session: Session, tree: ast.SetStmt) -> None:
    modes = tree.modes
    assert modes is not None
    if tree.name.upper() == "SESSION CHARACTERISTICS":
        if modes.isolation is not None:
            session.settings.set("default_transaction_isolation", modes.isolation)
        if modes.read_only is not None:
            session.settings.set("default_transaction_read_only", "on" if modes.read_only else "off")
        if modes.deferrable is not None:
            session.settings.set("default_transaction_deferrable", "on" if modes.deferrable else "off")
        return
    transaction = session.transaction
    if transaction is None or not session.in_block:
        session.warn("25P01", "SET TRANSACTION can only be used in transaction blocks")
        return
    if modes.isolation is not None:
        session.set_isolation(transaction, modes.isolation)
    if modes.read_only is not None:
        session.set_read_only(transaction, modes.read_only)
    if modes.deferrable is not None:
        session.set_deferrable(transaction, modes.deferrable)


async def _show(session: Session, tree: ast.ShowStmt, portal: Portal, sink: Sink) -> None:
    if tree.name == "all":
        rows = [text_row((name, value, description_of(name))) for name, value in session.shown_settings()]
        await sink.rows(b"".join(rows))
    else:
        await sink.rows(text_row((session.setting(_setting_name(tree.name)),)))
    sink.complete("SHOW")


async def _prepare(session: Session, tree: ast.PrepareStmt, portal: Portal, sink: Sink) -> None:
    name = tree.name.encode()
    if name in session.prepared:
        raise SqlError("42P05", f'prepared statement "{tree.name}" already exists')
    declared = [resolve_type(item, session.environment) for item in tree.types]
    types = tuple(_told(session, item) for item in declared)
    session.prepared[name] = planning.prepare(session, portal.prepared.statement.of(tree.query), types)
    sink.complete("PREPARE")


def _told(session: Session, type_: TypeRef) -> int:
    """The OID that stands for a parameter's declared type: a domain's own, for it knows its conditions."""
    if isinstance(session.catalog.get(type_.domain), Domain):
        return type_.domain
    if type_.domain and has_conditions(session.catalog, type_):
        not_supported("a parameter that is an array of a domain with conditions")
    return type_.oid


def executed(session: Session, tree: ast.ExecuteStmt) -> Prepared:
    """The statement that EXECUTE names. Raises 26000, and 42601 for another number of arguments."""
    prepared = session.statement(tree.name.encode())
    if len(tree.arguments) != len(prepared.parameter_types):
        raise SqlError(
            "42601",
            f'wrong number of parameters for prepared statement "{tree.name}"',
            detail=f"Expected {len(prepared.parameter_types)} parameters but got {len(tree.arguments)}.",
        )
    return prepared


async def arguments(session: Session, tree: ast.ExecuteStmt, prepared: Prepared) -> list[object]:
    """The values of EXECUTE's arguments. Raises 42804 for one of another type."""
    context = session.context()
    values = []
    for number, (node, oid) in enumerate(zip(tree.arguments, prepared.parameter_types, strict=True), 1):
        compute = compile_value(_argument(session, node, oid, number), context.format)
        while True:
            try:
                values.append(compute(context, ()))
                break
            except LockWait as wait:  # engine/session/waiting.py
                await session.wait_for(wait)
    return values


def _argument(session: Session, node: ast.Node, oid: int, number: int) -> Expr:
    try:
        return runnable_expression(node, session.environment, None, TypeRef(oid))
    except SqlError as error:
        if error.sqlstate != "42804":
            raise
        given = format_type(analyze_expression(node, session.environment).type.oid)
        message = f"parameter ${number} of type {given} cannot be coerced to the expected type {format_type(oid)}"
        hint = "You will need to rewrite or cast the expression."
        raise SqlError("42804", message, hint=hint, position=error.position) from None


async def _execute(session: Session, tree: ast.ExecuteStmt, portal: Portal, sink: Sink) -> None:
    prepared = executed(session, tree)
    values = await arguments(session, tree, prepared)
    inner = Portal(prepared, values, portal.formats or prepared.text_formats)
    await session.run(inner, 0, sink)


async def _call(session: Session, tree: ast.CallStmt, portal: Portal, sink: Sink) -> None:
    await routines.run(session, tree, portal, sink)


async def _deallocate(session: Session, tree: ast.DeallocateStmt, portal: Portal, sink: Sink) -> None:
    if tree.name is None:
        session.prepared.clear()
        sink.complete("DEALLOCATE ALL")
        return
    if session.prepared.pop(tree.name.encode(), None) is None:
        raise SqlError("26000", f'prepared statement "{tree.name}" does not exist')
    sink.complete("DEALLOCATE")


# ---- cursors ---------------------------------------------------------------------------------------------------


async def _declare(session: Session, tree: ast.DeclareCursorStmt, portal: Portal, sink: Sink) -> None:
    if isinstance(tree.query, ast.SelectStmt) and tree.query.changes_data:
        raise SqlError("0A000", "DECLARE CURSOR must not contain data-modifying statements in WITH")
    if not session.in_block and "hold" not in tree.options:
        raise SqlError("25P01", "DECLARE CURSOR can only be used in transaction blocks")
    name = tree.name.encode()
    if name in session.portals:
        raise SqlError("42P03", f'cursor "{tree.name}" already exists')
    prepared = planning.prepare(
        session, portal.prepared.statement.of(tree.query), portal.prepared.parameter_types, with_places=True
    )
    prepared.tally = session.node.statements.nested
    assert prepared.analyzed is not None and isinstance(prepared.analyzed.statement, Query)
    check_options(tree.options, prepared.analyzed.statement)
    planning.fail_first(session, prepared, portal.parameters)  # not with the first row that is fetched
    code = 1 if "binary" in tree.options else 0
    cursor = Portal(prepared, portal.parameters, (code,) * len(prepared.fields or ()), name)
    cursor.holdable = "hold" in tree.options
    cursor.scroll = "scroll" in tree.options or (
        "no scroll" not in tree.options and scrolls(prepared.analyzed.statement)
    )
    places = prepared.places or ()
    width = sum(item.width for item in places)
    inner = Portal(prepared, portal.parameters, (*(1,) * width, *cursor.formats))
    rows = Collector(session.memory)
    try:
        await session.run(inner, 0, rows)
    except SqlError as error:
        if error.sqlstate[:2] not in DATA_ERRORS:
            raise
        rows, cursor.error = Collector(session.memory), error
    cursor.rows = rows.split()
    cursor.holding = rows.holding
    if places:
        cursor.rows, found = separated(cursor.rows, width)
        if session.transaction is not None:  # else it is held, and begins where nothing can be changed through it
            locked = bool(prepared.analyzed.statement.row_marks)
            cursor.positions = Positions(places, locked, session.transaction, found)
    cursor.started = True
    cursor.kept = cursor.holdable and session.transaction is None  # there is no transaction whose commit would say so
    session.portals[name] = cursor
    sink.complete("DECLARE CURSOR")


def _window(cursor: Portal, tree: ast.FetchStmt) -> list[bytes]:
    """The rows of a FETCH, and the cursor moved. `position` counts rows from 1; 0 is before the first."""
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
            _refuse_backward(cursor)  # the row under the cursor is fetched again from the one before it
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
    """FETCH from a portal that Bind made: its next rows; it keeps none, so there is no way back."""
    if tree.direction != "forward" or (tree.count is not None and tree.count <= 0):
        _refuse_backward(cursor)
    rows = Collector(session.memory)
    await session.run(cursor, tree.count or 0, rows)
    return rows.split()


async def _fetch(session: Session, tree: ast.FetchStmt, portal: Portal, sink: Sink) -> None:
    cursor = _cursor(session, tree.cursor)
    taken = _window(cursor, tree) if cursor.rows is not None else await _next_rows(session, cursor, tree)
    if not tree.move and taken:
        if portal.formats != cursor.formats:
            taken = reformatted(taken, cursor.prepared, cursor.formats, portal.formats)
        await sink.rows(b"".join(taken))
    portal.count = len(taken)
    sink.complete(f"{'MOVE' if tree.move else 'FETCH'} {portal.count}")


def simple_formats(session: Session, prepared: Prepared) -> tuple[int, ...]:
    """The result formats of a simple Query: text, but for FETCH from a BINARY cursor."""
    tree = prepared.statement.tree
    if isinstance(tree, ast.FetchStmt) and not tree.move:
        return _cursor(session, tree.cursor).formats
    return prepared.text_formats


async def _close(session: Session, tree: ast.ClosePortalStmt, portal: Portal, sink: Sink) -> None:
    if tree.name is None:
        for name in [name for name, item in session.portals.items() if item.rows is not None]:
            session.close_portal(name)
        sink.complete("CLOSE CURSOR ALL")
        return
    if tree.name.encode() not in session.portals:
        raise SqlError("34000", f'cursor "{tree.name}" does not exist')
    session.close_portal(tree.name.encode())
    sink.complete("CLOSE CURSOR")


# ---- the rest --------------------------------------------------------------------------------------------------


async def _explain(session: Session, tree: ast.ExplainStmt, portal: Portal, sink: Sink) -> None:
    from engine.session import explain

    for line in await explain.lines(session, tree, portal):
        await sink.rows(text_row((line,)))
    sink.complete("EXPLAIN")


async def _copy(session: Session, tree: ast.CopyStmt, portal: Portal, sink: Sink) -> None:
    from engine.session import copy

    portal.count = await copy.execute(session, tree, portal.prepared.statement, sink)


async def _refresh(session: Session, tree: ast.RefreshMatViewStmt, portal: Portal, sink: Sink) -> None:
    from engine.session import matviews

    sink.complete(await matviews.refresh(session, tree))


async def _discard(session: Session, tree: ast.DiscardStmt, portal: Portal, sink: Sink) -> None:
    if tree.target == "all":
        if session.in_block:
            raise SqlError("25001", "DISCARD ALL cannot run inside a transaction block")
        session.prepared.clear()
        for name in list(session.portals):
            session.close_portal(name)
        if session.transaction is None:
            past.leave(session)
        session.set_identity("session_authorization", None)
        session.settings.reset_all(False)
        if session.transaction is None:
            session.begin_implicit()
        session.notifications.act(UNLISTEN_ALL)
        session.advisory.unlock_all()
    if tree.target in ("all", "sequences"):
        session.sequence_values.clear()
        session.last_sequence = None
    if tree.target in ("all", "temp") and session.temporary_schema is not None:
        from engine.session import ddl

        await ddl.drop_temporary(session)
    sink.complete(f"DISCARD {tree.target.upper()}")


async def _checkpoint(session: Session, tree: ast.CheckPointStmt, portal: Portal, sink: Sink) -> None:
    if not acts_as(session.catalog, session.user, CHECKPOINT_OID):
        raise SqlError("42501", "must be superuser or have privileges of pg_checkpoint to do CHECKPOINT")
    await session.node.flush()
    sink.complete("CHECKPOINT")


async def _create_table_as(session: Session, tree: ast.Node, portal: Portal, sink: Sink) -> None:
    from engine.session import ddl

    tag = await ddl.create_table_as(session, tree, portal.prepared.statement, portal.parameters)
    if tag.startswith("SELECT "):
        portal.count = int(tag[7:])
    sink.complete(tag)


async def _notify(session: Session, tree: ast.NotifyStmt, portal: Portal, sink: Sink) -> None:
    if session.transaction is None:
        session.begin_implicit()
    kind = tree.kind.lower()
    if kind == "notify":
        session.notifications.notify(tree.channel or "", tree.payload)
    elif tree.channel is None:
        session.notifications.act(UNLISTEN_ALL)
    else:
        session.notifications.act(kind, tree.channel)
    sink.complete(kind.upper())


Handler = Callable[["Session", Any, Portal, "Sink"], Awaitable[None]]
_HANDLERS: dict[type[ast.Node], Handler] = {
    ast.TransactionStmt: _transaction,
    ast.SetStmt: _set,
    ast.AlterSystemStmt: alter_system,
    ast.ShowStmt: _show,
    ast.PrepareStmt: _prepare,
    ast.ExecuteStmt: _execute,
    ast.CallStmt: _call,
    ast.DeallocateStmt: _deallocate,
    ast.SetConstraintsStmt: _set_constraints,
    ast.RefreshMatViewStmt: _refresh,
    ast.ReindexStmt: reindex,
    ast.DeclareCursorStmt: _declare,
    ast.FetchStmt: _fetch,
    ast.ClosePortalStmt: _close,
    ast.ExplainStmt: _explain,
    ast.CopyStmt: _copy,
    ast.LockStmt: lock,
    ast.VacuumStmt: vacuum,
    ast.DiscardStmt: _discard,
    ast.CheckPointStmt: _checkpoint,
    ast.CreateTableAsStmt: _create_table_as,
    ast.SelectStmt: _create_table_as,
    ast.NotifyStmt: _notify,
}
