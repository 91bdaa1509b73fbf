"""COPY: the statement around the data.

    FROM STDIN    resolve table and columns, lock, take the data (engine/bulk/load.py)
    TO STDOUT     a SELECT whose rows the worker writes as lines; rows of small plans and of RETURNING become lines here

Server-side files and programs are refused: psql's \\copy and the drivers' copy functions send the data through the
connection.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from catalog.binary_texts import Turn
from catalog.encodings import ENCODINGS
from catalog.errors import SqlError, not_supported
from catalog.schema import Column, Index, Table, View, VirtualTable
from catalog.schema import Sequence as SequenceObject
from catalog.types import oids
from catalog.types.base import TypeRef
from engine.bulk.copy_binary import Framing, data_rows_to_tuples, turned_tuples, turns_of
from engine.bulk.copy_options import CopyOptions, read_options
from engine.bulk.copy_output import data_rows_to_lines, header_line
from engine.bulk.load import Load, LoadPlan
from engine.bulk.progress import CopyProgress
from engine.columnar.interface import ResultStream, RowEncoding
from engine.execute.context import RowPathFull
from engine.execute.transitions import Capture
from engine.execute.triggers import RunningStatement, StatementTriggers, captured_tables
from engine.foreground import aside
from engine.node.stages import FILE_PREFIX
from engine.session import serializable_statements
from engine.session.portal import Portal
from engine.session.prepared import Prepared, StalePlan
from engine.session.safe_snapshots import note_begin
from engine.sql import ast, tree
from engine.sql.analyze import runnable_expression
from engine.sql.parser import parse
from engine.statements import paths, planning
from engine.statements import run as running
from engine.statements.columnar_read import ColumnarRead
from engine.statements.plpgsql import suspend
from engine.txn.locks import ACCESS_SHARE, ROW_EXCLUSIVE

if TYPE_CHECKING:
    from engine.session.answer import Sink
    from engine.session.session import Session

_BOOLEAN = TypeRef(oids.BOOL)
LONG_ROWS = 1 << 19  # bytes of rows from which on the conversion for COPY runs in a thread
FRAME = 5  # bytes of CopyData around each row


async def run_copy(session: Session, tree: ast.CopyStmt, portal: Portal, sink: Sink) -> None:
    portal.count = await execute(session, tree, portal.prepared.statement, sink)


async def execute(session: Session, statement: ast.CopyStmt, whole: ast.Statement, sink: Sink) -> int:
    """Runs COPY and completes it with 'COPY n'; returns n. Raises errors of options, names, data and constraints."""
    options = read_options(statement.options, statement.is_from)
    if not (statement.is_from and _is_staged(statement)):
        _refuse_files(session, statement)
    elif not options.arrow:
        not_supported("COPY FROM a stage in another format than arrow")
    _refuse_encoding(session, options)
    if session.transaction is None:
        session.begin_implicit()
    session.copying = CopyProgress("COPY FROM" if statement.is_from else "COPY TO")
    try:
        if statement.is_from:
            count = await _copy_from(session, statement, options, sink)
        else:
            count = await _copy_to(session, statement, whole, options, sink)
    finally:
        session.copying = None
    sink.complete(f"COPY {count}")
    return count


def _refuse_encoding(session: Session, options: CopyOptions) -> None:
    """Data have the client's encoding (wire/encoded.py)."""
    client = ENCODINGS[session.settings.get("client_encoding")]
    given = options.encoding
    if given is None or options.is_binary:  # texts within values in binary are the client's, whatever ENCODING says
        return
    if given != client and not (given.is_utf8 and client.is_utf8):
        not_supported(f"COPY with encoding {given.name} while client_encoding is {client.name}")


def _is_staged(statement: ast.CopyStmt) -> bool:
    """Whether it reads parts of a stage (engine/node/stages.py)."""
    return statement.filename is not None and statement.filename.startswith(FILE_PREFIX) and not statement.program


def _refuse_files(session: Session, statement: ast.CopyStmt) -> None:
    if statement.filename is None:
        return
    what = "program" if statement.program else "file"
    hint = (
        f"Anyone can COPY to stdout or from stdin. psql's \\copy command also works for anyone; "
        f"it reads and writes {what}s on the client's side."
    )
    not_supported(f"COPY {'FROM' if statement.is_from else 'TO'} a {what} of the server", hint=hint)


# ---- FROM -----------------------------------------------------------------------------------------------------------


async def _copy_from(session: Session, statement: ast.CopyStmt, options: CopyOptions, sink: Sink) -> int:
    transaction = session.transaction
    assert transaction is not None and statement.relation is not None
    while True:
        table = _target(session, statement.relation)
        held_before = transaction.table_locks.get(table.oid, 0)
        if table.schema != session.temporary_schema:
            transaction.refuse_if_read_only("COPY FROM")
        await session.lock_table(transaction, table.oid, ACCESS_SHARE if options.stage else ROW_EXCLUSIVE)
        if _target(session, statement.relation) is table:
            break
        if not held_before:
            transaction.unlock_table(table.oid)
    assert session.copying is not None
    session.copying.relation = table.oid
    columns = _columns(table, statement.columns)
    session.identity.check_letters(table, "a", [column.number for column in columns])
    if session.identity.check_row_security(table):
        hint = "Use INSERT statements instead."
        raise SqlError("0A000", "COPY FROM not supported with row-level security", hint=hint)
    transaction.begin_statement()
    _known_columns(table, columns, "FORCE_NOT_NULL", options.force_not_null)
    _known_columns(table, columns, "FORCE_NULL", options.force_null)
    where = None
    if statement.where is not None:
        where = runnable_expression(statement.where, session.environment, table, _BOOLEAN, "COPY FROM WHERE conditions")
    if options.stage:
        data = await sink.copy_in(len(columns), options.is_binary)
        return await session.node.stages.put(session, table, columns, (options.stage, options.part), data)
    load = Load(session, LoadPlan(table, columns, options, where))
    mark = transaction.mark()

    async def run() -> int:
        if statement.filename is not None:
            with session.node.stages.source(session, statement.filename.removeprefix(FILE_PREFIX)) as source:
                return await load.run(source)
        return await load.run(await sink.copy_in(len(columns), options.is_binary))

    count = await _between_triggers(session, table, run)
    if transaction.serial is not None:
        transaction.serial.wrote_since(mark, serializable_statements.storage_ids_of(session.catalog, table.oid))
    return count


async def _between_triggers(session: Session, table: Table, run: Callable[[], Awaitable[int]]) -> int:
    """Runs a load, with the statement triggers of the table before and after it."""
    if table.oid not in session.catalog.triggering:
        return await run()
    change = tree.Insert(table, ())
    statement = StatementTriggers(session.catalog, [change])
    triggers = session.routines.triggers
    captured = captured_tables(session.catalog, [change])
    running = RunningStatement(None if captured is None else Capture(session.catalog, captured), statement)
    with triggers.during(running), session.using((table.oid, *table.indexes)):
        await suspend.run(lambda: statement.before(session.context()))
        count = await run()
        await suspend.run(triggers.end_rows)
    return count


def _target(session: Session, relation: ast.RangeVar) -> Table:
    """The table to copy into. Raises 42P01, 42809."""
    found = _relation(session, relation, "to")
    if isinstance(found, Table):
        if found.query is not None:
            raise SqlError("42809", f'cannot copy to materialized view "{found.name}"')
        if found.server:
            not_supported("COPY into a foreign table")
        return found
    if isinstance(found, VirtualTable):
        raise SqlError("42501", f"permission denied for table {found.name}")
    hint = "To enable copying to a view, provide an INSTEAD OF INSERT trigger."
    raise SqlError("42809", f'cannot copy to view "{found.name}"', hint=hint)


def _relation(session: Session, relation: ast.RangeVar, direction: str) -> Table | View | VirtualTable:
    """The relation for COPY; `direction`: from or to. Raises 3F000, 42P01, 42809."""
    found = session.environment.find_relation(relation.schema, relation.name)
    if found is None:
        if relation.schema and not session.environment.schema_oid(relation.schema):
            raise SqlError("3F000", f'schema "{relation.schema}" does not exist')
        name = f"{relation.schema}.{relation.name}" if relation.schema else relation.name
        raise SqlError("42P01", f'relation "{name}" does not exist')
    if isinstance(found, Index):
        raise SqlError("42809", f'"{found.name}" is an index')
    if isinstance(found, SequenceObject):
        raise SqlError("42809", f'cannot copy {direction} sequence "{found.name}"')
    if isinstance(found, Table) and found.server and direction == "from":
        hint = "Try the COPY (SELECT ...) TO variant."
        raise SqlError("42809", f'cannot copy from foreign table "{found.name}"', hint=hint)
    return found


def _columns(table: Table | VirtualTable, names: Sequence[str]) -> tuple[Column, ...]:
    """The columns to copy: those named, or all but the generated ones. Raises 42703, 42701, 42P10."""
    if not names:
        return tuple(column for column in table.columns if column.generated is None)
    by_name = {column.name: column for column in table.columns}
    found: list[Column] = []
    for name in names:
        column = by_name.get(name)
        if column is None:
            raise _no_column(table, name)
        if column.generated is not None:
            raise SqlError(
                "42P10",
                f'column "{name}" is a generated column',
                detail="Generated columns cannot be used in COPY.",
            )
        if column in found:
            raise SqlError("42701", f'column "{name}" specified more than once')
        found.append(column)
    return tuple(found)


def _no_column(table: Table | VirtualTable, name: str) -> SqlError:
    return SqlError("42703", f'column "{name}" of relation "{table.name}" does not exist')


def _known_columns(table: Table | VirtualTable, columns: Sequence[Column], option: str, names: Sequence[str]) -> None:
    """FORCE_...: the names must be among those copied. Raises 42703, 42P10."""
    copied = {column.name for column in columns}
    for name in names:
        if all(column.name != name for column in table.columns):
            raise _no_column(table, name)
        if name not in copied:
            raise SqlError("42P10", f'{option} column "{name}" not referenced by COPY')


# ---- TO -------------------------------------------------------------------------------------------------------------


async def _copy_to(
    session: Session, statement: ast.CopyStmt, whole: ast.Statement, options: CopyOptions, sink: Sink
) -> int:
    prepared = await _prepare(session, statement, whole, options)
    prepared.tally = session.node.statements.nested
    fields = prepared.fields
    if fields is None:
        raise SqlError("0A000", "COPY query must have a RETURNING clause")
    names = [field.name for field in fields]
    if statement.query is not None and options.force_quote != "*":
        for name in options.force_quote:
            if name not in names:
                raise SqlError("42703", f'column "{name}" does not exist')
    progress = session.copying
    assert progress is not None
    if statement.relation is not None:
        progress.relation = _relation(session, statement.relation, "from").oid
    lines, stream = await _lines(session, prepared, options)
    try:
        sink.copy_out(len(fields), options.is_binary)
        if options.header:
            await sink.rows(header_line(names, options))
        framing = Framing() if options.binary else None
        encoding = ENCODINGS[session.settings.get("client_encoding")]
        turns = turns_of([field.type.oid for field in fields], encoding) if options.binary else []
        count = 0
        async for data, rows in lines:
            sent = await _turn(bytes(data), turns) if turns else data
            await sink.rows(sent if framing is None else framing.rows(bytes(sent)))
            count += rows
            progress.rows = count
            progress.bytes += len(data) - FRAME * rows
        if framing is not None:
            await sink.rows(framing.end())
        sink.copy_out_done()
    finally:
        if stream is not None:
            await stream.close()
    return count


async def _prepare(session: Session, statement: ast.CopyStmt, whole: ast.Statement, options: CopyOptions) -> Prepared:
    """The planned query of COPY TO, with locks against changes of its tables."""
    if statement.query is not None:
        return await running.lock_relations(
            session, planning.prepare(session, whole.of(statement.query), ()), fixed=False
        )
    relation, transaction = statement.relation, session.transaction
    assert relation is not None and transaction is not None
    while isinstance(found := _relation(session, relation, "from"), Table):
        await session.lock_table(transaction, found.oid, ACCESS_SHARE)
        if _relation(session, relation, "from") is found:
            break
    if isinstance(found, View) or (isinstance(found, VirtualTable) and found.kind == "v"):
        hint = "Try the COPY (SELECT ...) TO variant."
        raise SqlError("42809", f'cannot copy from view "{found.name}"', hint=hint)
    if isinstance(found, Table) and found.partitioning is not None:
        hint = "Try the COPY (SELECT ...) TO variant."
        raise SqlError("42809", f'cannot copy from partitioned table "{found.name}"', hint=hint)
    columns = _columns(found, statement.columns)
    if options.force_quote != "*":
        _known_columns(found, columns, "FORCE_QUOTE", options.force_quote)
    schema = f"{_quote(relation.schema)}." if relation.schema else ""
    listed = ", ".join(_quote(column.name) for column in columns)
    (query,) = parse(f"SELECT {listed} FROM ONLY {schema}{_quote(relation.name)}")
    return planning.prepare(session, query, ())


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


Lines = AsyncIterator[tuple[bytes, int]]


async def _lines(session: Session, prepared: Prepared, options: CopyOptions) -> tuple[Lines, ResultStream | None]:
    """CopyData messages, one line each, in chunks with their number of rows; and the stream to be closed after them."""
    formats = (1,) * len(prepared.fields or ()) if options.binary else prepared.text_formats
    prepared = await running.lock_relations(session, prepared)
    plan = running.rows_plan(prepared)
    if options.arrow:
        paths.columnar_of(session, plan)
    while plan.at_once and not options.arrow:
        run = plan.row_function(formats)
        try:
            data, count = await running.execute_row_waiting(session, prepared, run, ())
            return _one(await _copy(data, prepared, options), count), None
        except StalePlan:
            prepared = await running.lock_relations(session, prepared)
            plan = running.rows_plan(prepared)
        except RowPathFull as full:
            refusal = running.elsewhere(session, plan, full)
            if refusal is None:
                break
            with running.staying(session, refusal):
                data, count = await running.execute_row_waiting(session, prepared, run, ())
            return _one(await _copy(data, prepared, options), count), None
    if not isinstance(plan.columnar, ColumnarRead) and options.arrow:
        not_supported("COPY of this query in the format arrow")
    if not isinstance(plan.columnar, ColumnarRead):
        portal = Portal(prepared, (), formats)
        await running.start(session, portal)
        return _convert(portal, prepared, options), portal.stream
    transaction = session.transaction
    assert transaction is not None
    await note_begin(session, transaction)
    if transaction.serial is not None:
        transaction.serial.read_tables(serializable_statements.storage_ids(session.catalog, plan.locks))
    running.fail_first(session, plan, ())
    query, values = plan.columnar.call((), session.context(), formats)
    kind = (
        "copy_arrow"
        if options.arrow
        else "copy_binary"
        if options.binary
        else "copy_csv"
        if options.csv
        else "copy_text"
    )
    encoding = RowEncoding(kind, formats, session.key.format, _encoder_options(options))
    stream = await session.node.columnar.rows(
        query, values, transaction, encoding, session.views.content(), memory=session.query_memory
    )
    return stream.__aiter__(), stream


async def _copy(data: bytes, prepared: Prepared, options: CopyOptions) -> bytes:
    """DataRow messages as CopyData messages; long ones in a thread."""
    if options.binary:
        return data_rows_to_tuples(data)
    if len(data) < LONG_ROWS:
        return data_rows_to_lines(data, prepared.fields or (), options)
    return await aside(data_rows_to_lines, data, prepared.fields or (), options)


async def _turn(data: bytes, turns: Sequence[Turn | None]) -> bytes:
    """Tuples with their texts in the client's encoding; long ones in a thread."""
    return turned_tuples(data, turns) if len(data) < LONG_ROWS else await aside(turned_tuples, data, turns)


def _encoder_options(options: CopyOptions) -> tuple[tuple[str, str], ...]:
    """The options as the worker's encoder reads them."""
    if options.is_binary:
        return ()
    forced = options.force_quote if isinstance(options.force_quote, str) else ",".join(options.force_quote)
    pairs = (("delimiter", options.delimiter), ("null", options.null))
    if not options.csv:
        return pairs
    return (*pairs, ("quote", options.quote), ("escape", options.escape), ("force_quote", forced))


async def _one(data: bytes, count: int) -> Lines:
    yield data, count


async def _convert(portal: Portal, prepared: Prepared, options: CopyOptions) -> Lines:
    """A started portal's rows as lines."""
    if portal.pending_rows:
        data, count = portal.take(0)
        yield await _copy(data, prepared, options), count
    if portal.stream is not None:
        async for data, count in portal.chunks:
            yield await _copy(data, prepared, options), count
