"""COPY FROM: from the connection's bytes to the transaction.

    1  pieces of complete lines or tuples are cut from the bytes
    2  [thread] a piece is parsed into rows
    3  [thread] the rows are completed, checked, encoded and written to runs

The event loop receives data while one thread parses the next piece and another one writes the last piece. Two parsed
pieces may wait between them, so a load of any length needs memory for a few pieces. They count as memory of the
connection, which reduces the memory of others. A line without an end is refused. A load of up to SMALL_ROWS is written
row by row.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, ParamSpec

from catalog.encodings import ENCODINGS
from catalog.errors import SqlError
from catalog.memory import Holding, within
from catalog.schema import Column, Table
from catalog.types.oids import BPCHAR
from engine.bulk import references
from engine.bulk.complete import RowCompleter
from engine.bulk.copy_arrow import ArrowParser, ArrowReader
from engine.bulk.copy_binary import BinaryParser, TupleReader
from engine.bulk.copy_lines import Line, LineReader
from engine.bulk.copy_options import CopyOptions
from engine.bulk.copy_parse import CopyParser, Piece
from engine.bulk.encode import TableEncoder
from engine.bulk.insert import BulkInsert, Conflict, repeat_work
from engine.bulk.partitioned import PartitionedInsert, concerns_itself
from engine.bulk.progress import CopyProgress, CopySource, CountedSource
from engine.bulk.rows import Row, RowSet
from engine.bulk.single import SingleInsert
from engine.bulk.thread import BulkThread
from engine.changes.bulk import finish_recorded
from engine.execute.foreign_keys import Outgoing
from engine.foreground import aside, foreground
from engine.partitions.partition_writer import PartitionedWriter
from engine.sql import tree
from engine.sql.analyze.rules import check_calls, runnable_rules
from engine.storage.columns import Numbers

if TYPE_CHECKING:
    from engine.bulk.session import BulkSession

P = ParamSpec("P")

SMALL_ROWS = 5_000
SMALL_BYTES = 1 << 20
PIECE_BYTES = 4 << 20
_AT_ONCE_BYTES = 1 << 16  # so little data is parsed without a thread
_WAITING = 2  # parsed pieces
NOT_NULL_VIOLATION, CHECK_VIOLATION = "23502", "23514"
_PADDED_BYTES = 64 << 20  # of a piece's rows where char(n) makes them longer than their text
SMALL_PIECE_BYTES = 1 << 18  # while it gives way to short statements: a millisecond or two of each thread
_MORE = 4  # a piece may exceed the requested size by a quarter (1 / _MORE) if the data has arrived


class Pieces:
    """The data of one COPY in pieces of complete lines. When there is a `thread`, it joins and cuts them, because
    moving megabytes would block the engine's thread for milliseconds.

    Received bytes count in `held`, until the user of a piece returns its size."""

    def __init__(self, source: CopySource, reader: LineReader | TupleReader | ArrowReader, held: Holding) -> None:
        self._source = source
        self._reader = reader
        self._held = held
        self.thread: BulkThread | None = None
        self._parts: list[bytes] = []
        self._size = 0
        self.ended = False

    async def gather(self, size: int, lines: int = 0) -> bytes:
        """About `size` bytes, cut at a line's end. Less if there are more than `lines` lines, or at the end of the
        data. Raises errors of the source (57014), and 53200 for a line that exceeds the connection's memory."""
        counted = sum(self._reader.count(part) for part in self._parts) if lines else 0
        while not self.ended or self._size > size:
            while not self.ended and self._size < size and not 0 < lines < counted:
                data = await self._source.read()
                if data is None:
                    self.ended = True
                    break
                self._parts.append(data)
                self._size += len(data)
                if self._size > 2 * PIECE_BYTES:
                    self._held.add(len(data))
                else:
                    self._held.owe(len(data))
                counted += self._reader.count(data) if lines else 0
            if self.ended and self._size <= size:
                break
            piece = await self._run(self._cut, size)
            if piece:
                return piece
            size = self._size + PIECE_BYTES  # one very long line
            lines = 0
        return await self._run(self._join)

    async def _run(self, function: Callable[P, bytes], *args: P.args, **kwargs: P.kwargs) -> bytes:
        if self._size < (_AT_ONCE_BYTES if self.thread is not None else 2 * SMALL_BYTES):
            return function(*args, **kwargs)
        if self.thread is None:  # a line that is longer than everything that is small
            return await asyncio.to_thread(function, *args, **kwargs)
        return await self.thread.run(function, *args, **kwargs)

    def _cut(self, size: int) -> bytes:
        """Takes complete lines of about `size` bytes, or b"" if there is none."""
        count, taken = 0, 0
        while count < len(self._parts) and taken < size + size // _MORE:
            taken += len(self._parts[count])
            count += 1
        # Megabytes are joined, never sliced: to slice bytes keeps the interpreter for as long as it takes.
        whole = b"".join(self._parts[:count])
        end = self._reader.cut(whole)
        self._size -= end
        if end == taken:
            del self._parts[:count]
            return whole
        while taken > end:
            count -= 1
            taken -= len(self._parts[count])
        place = end - taken
        piece = b"".join([*self._parts[:count], self._parts[count][:place]])
        self._parts[: count + 1] = [self._parts[count][place:]]
        return piece

    def _join(self) -> bytes:
        whole = b"".join(self._parts)
        self._parts, self._size = [], 0
        return whole

    @property
    def has_left(self) -> bool:
        """Whether there may be more."""
        return not self.ended or self._size > 0

    async def skip(self) -> None:
        """Reads to the end. Data after an end-of-data mark is ignored."""
        while await self._source.read() is not None:
            pass


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """The columns to load, in the order of the data."""

    table: Table
    columns: tuple[Column, ...]
    options: CopyOptions
    where: tree.Expr | None


class Load:
    """One COPY FROM. The table is locked in ROW EXCLUSIVE mode."""

    def __init__(self, session: BulkSession, plan: LoadPlan) -> None:
        assert session.transaction is not None
        self.session = session
        self.transaction = session.transaction
        self.plan = plan
        self._held = Holding(session.memory)
        self._progress = session.copying or CopyProgress("COPY FROM", plan.table.oid)
        table = plan.table
        self._piece_bytes = _piece_bytes(plan.columns)
        self.parser: CopyParser | BinaryParser | ArrowParser
        if plan.options.binary:
            encoding = ENCODINGS[session.settings.get("client_encoding")]
            self.parser = BinaryParser(table, plan.columns, encoding)
        elif plan.options.arrow:
            self.parser = ArrowParser(table, plan.columns, session.key.format)
        else:
            settings = replace(session.key.format, transaction_time=self.transaction.start_time)  # which 'now' means
            self.parser = CopyParser(table, plan.columns, plan.options, settings)
        self.encoder = TableEncoder(session.catalog, table, session.key.format)
        rules = runnable_rules(table, session.environment)
        check_calls(table, session.environment)
        given = {column.number for column in plan.columns}
        defaults = [
            tree.Assignment(column.number, rules.default(column))
            for column in table.columns
            if column.number not in given and column.generated is None
        ]
        self.writer, checks = self.encoder.writer, rules.checks
        if table.partitioning is not None:  # each partition checks its own rows
            self.writer, checks = PartitionedWriter(session.catalog, table, session.key.format), ()
        self._fires = table.oid in session.catalog.triggering
        generated = rules.generated
        if self.writer.triggers is not None:  # BEFORE triggers come before both
            generated, checks = (), ()
        self.completer = RowCompleter(session, self.writer, defaults, generated, checks, plan.where)
        if self.writer.triggers is not None:
            self.completer.allow_nulls()

    async def run(self, source: CopySource) -> int:
        """Loads everything, and returns the number of rows."""
        pieces = Pieces(CountedSource(source, self._progress), self.parser.reader, self._held)
        first = await pieces.gather(min(SMALL_BYTES, self._piece_bytes), SMALL_ROWS)
        small = len(first) <= 2 * SMALL_BYTES and self.parser.reader.count(first) <= SMALL_ROWS
        if small and not pieces.has_left:
            return await self._load_small(first)
        if self._fires:
            return await self._load_singly(first, pieces)
        if isinstance(self.writer, PartitionedWriter):
            if concerns_itself(self.session.catalog, self.plan.table):
                return await self._load_singly(first, pieces)
            return await self._load_in_bulk(first, pieces, PartitionedInsert(self.session, self.writer))
        if references.concerns_itself(self.encoder.writer):
            return await self._load_singly(first, pieces)
        columns = self.session.node.columnar.drafts.of_load(self.plan.table)
        bulk = await BulkInsert.open(self.transaction, self.encoder, columns=columns)
        return await self._load_in_bulk(first, pieces, bulk)

    # --- row by row ----------------------------------------------------------------------------------------------

    async def _load_small(self, data: bytes) -> int:
        single = SingleInsert(self.session, self.writer)
        if len(data) <= _AT_ONCE_BYTES:
            read = data or self.plan.options.binary  # where the header must not be missing
            count = await self._add_singly(single, self.parser.parse(data)) if read else 0
        else:
            count = await self._add_singly(single, await aside(self._parse, data), large=True)
        await single.finish()
        return count

    async def _load_singly(self, first: bytes, pieces: Pieces) -> int:
        single = SingleInsert(self.session, self.writer)
        count, data = 0, first
        while data:
            piece = await aside(self._parse, data)
            count += await self._add_singly(single, piece, len(data) > _AT_ONCE_BYTES)
            self._held.owe(-len(data))
            if piece.last:
                await pieces.skip()
                break
            data = await pieces.gather(self._piece_bytes)
        await single.finish()
        return count

    async def _add_singly(self, single: SingleInsert, piece: Piece, large: bool = False) -> int:
        drawn = await self.completer.draw(piece.rows.count) if self.completer.draws else {}
        rows, kept = await aside(self._complete, piece, drawn) if large else self._complete(piece, drawn)
        return await single.add(rows.tuples(), lambda place, error: self._at_line(piece, kept, place, error))

    def _complete(self, piece: Piece, drawn: Mapping[int, Sequence[object]]) -> tuple[RowSet, Numbers | None]:
        """`_check` with the rows as tuples."""
        rows, kept = self._check(piece, drawn)
        rows.tuples()
        return rows, kept

    # --- in bulk -------------------------------------------------------------------------------------------------

    async def _load_in_bulk(self, first: bytes, pieces: Pieces, bulk: BulkInsert | PartitionedInsert) -> int:
        parsing, writing = BulkThread("copy-parse", gives_way=True), BulkThread("copy-write", gives_way=True)
        pieces.thread = parsing
        writing.at_end(bulk.discard)
        parsed: asyncio.Queue[tuple[Piece, int] | BaseException | None] = asyncio.Queue(_WAITING)
        producer = asyncio.create_task(self._parse_all(first, pieces, parsing, parsed))
        try:
            while (made := await parsed.get()) is not None:
                if isinstance(made, BaseException):
                    raise made
                piece, size = made
                await self._write(bulk, writing, piece)
                self._held.owe(-size)
            await finish_recorded(self.session, self.transaction, writing, bulk)
        finally:
            bulk.unwatch()
            producer.cancel()
            parsing.close()
            writing.close()
        return bulk.rows

    async def _parse_all(
        self,
        first: bytes,
        pieces: Pieces,
        thread: BulkThread,
        parsed: asyncio.Queue[tuple[Piece, int] | BaseException | None],
    ) -> None:
        try:
            data = first
            while data:
                piece = await thread.run(self._parse, data)
                await parsed.put((piece, len(data)))
                if piece.error is not None:
                    return
                if piece.last:
                    await pieces.skip()
                    break
                some = SMALL_PIECE_BYTES if foreground().is_pressed else PIECE_BYTES
                data = await pieces.gather(min(some, self._piece_bytes))
            await parsed.put(None)
        except Exception as error:  # the reader of the pieces raises it
            await parsed.put(error)

    async def _write(self, bulk: BulkInsert | PartitionedInsert, thread: BulkThread, piece: Piece) -> None:
        count, table = piece.rows.count, self.plan.table
        drawn = await self.completer.draw(count) if self.completer.draws and count else {}
        if isinstance(bulk, PartitionedInsert):
            rows, kept = await thread.run(self._check, piece, drawn)
            try:
                await bulk.write(thread, rows)
            except Conflict as conflict:
                raise self._at_line(piece, kept, conflict.place, conflict.error) from None
            return
        number = self.session.node.next_row_numbers(table, count) if count and not table.key_columns else 0
        rows, kept = await thread.run(self._check, piece, drawn)
        bulk.look()
        try:
            found = await repeat_work(self.session, partial(thread.run, self._store, bulk, rows, number))
        except Conflict as conflict:
            raise self._at_line(piece, kept, conflict.place, conflict.error) from None
        for foreign, keys in found:
            await references.check(self.session, foreign, keys)

    def _store(self, bulk: BulkInsert, rows: RowSet, number: int) -> list[tuple[Outgoing, list[Row]]]:
        """Runs in the thread: writes a piece's rows, and returns the keys that they refer to."""
        bulk.add(rows, number)
        writer = self.encoder.writer
        return [(foreign, references.distinct_keys(writer, foreign, rows)) for foreign in writer.outgoing]

    # --- both ----------------------------------------------------------------------------------------------------

    def _parse(self, data: bytes) -> Piece:
        """Parses a piece. Runs in a thread."""
        return within(self.session.query_memory, self.parser.parse, data)

    def _check(self, piece: Piece, drawn: Mapping[int, Sequence[object]]) -> tuple[RowSet, Numbers | None]:
        """The piece's complete rows. Raises the error of the first line that has one."""
        rows, kept = self.completer.complete(piece.rows, drawn)
        self._progress.rows += rows.count
        self._progress.excluded += piece.rows.count - rows.count
        found = self.completer.violation(rows)
        if found is not None:
            place, error = found
            error.context = self.parser.context(_line(piece, kept, place))
            raise error
        if piece.error is not None:
            raise piece.error
        return rows, kept

    def _at_line(self, piece: Piece, kept: Numbers | None, place: int, error: SqlError) -> SqlError:
        line = _line(piece, kept, place)
        if self._fires and self.writer.triggers is not None:
            own = self.parser.context(line)
            error.context = own if error.context is None else f"{error.context}\n{own}"
            return error
        if error.sqlstate in (NOT_NULL_VIOLATION, CHECK_VIOLATION):  # by the partition: of the row as it came
            error.context = self.parser.context(line)
        else:
            error.context = f"COPY {self.plan.table.name}, line {line.number}"
        return error


def _line(piece: Piece, kept: Numbers | None, place: int) -> Line:
    return piece.line(place if kept is None else int(kept[place]))


def _piece_bytes(columns: Sequence[Column]) -> int:
    """The number of bytes to parse at once, so that rows with padded char(n) do not take too much memory."""
    padding = sum(max(column.type.typmod, 0) for column in columns if column.type.oid == BPCHAR)
    return min(PIECE_BYTES, max(1 << 16, _PADDED_BYTES * 2 * len(columns) // (padding + 1)))
