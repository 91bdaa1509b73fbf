"""The jobs of schema changes on rows: rewrite a table, build an index, check a constraint.

The schema change holds its table locks, so no other transaction writes the table. A job reads the newest rows with the
transaction's own changes (engine/storage/newest.py), batch by batch in a thread, and writes bulk runs under new storage
ids.

If a rewrite does not change the stored rows (ADD PRIMARY KEY), only the key columns are decoded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from catalog.catalog import Catalog
from catalog.errors import SqlError
from catalog.schema import Table
from catalog.types.base import TypeRef
from catalog.types.oids import BOOL
from engine.bulk import references
from engine.bulk.complete import RowCompleter, compile_checks, compile_row_functions
from engine.bulk.copy_run import copy_storage
from engine.bulk.encode import TableEncoder
from engine.bulk.insert import BulkInsert, Conflict, MakeError, Target
from engine.bulk.rows import RowSet
from engine.bulk.thread import BulkThread
from engine.ddl.context import BuildIndex, CopyStorage, Job, RewriteTable, ValidateConstraint
from engine.execute.exclusions import Exclusion, Members
from engine.execute.foreign_keys import Outgoing
from engine.execute.shown import constraint_error
from engine.execute.writer import IndexWriter, TableWriter
from engine.sql import tree
from engine.sql.analyze.collations import collate_expression
from engine.sql.analyze.routines import expanded_expression
from engine.sql.analyze.rules import bind_text, runnable_rules
from engine.sql.tree_walk import walk
from engine.storage.columns import Column, ShapedArray
from engine.storage.keys import storage_prefix
from engine.storage.newest import NewestRows
from engine.storage.rows import RowCodec
from engine.storage.runs import BulkRun, DuplicateKey

if TYPE_CHECKING:
    from engine.bulk.session import BulkSession

_BOOL = TypeRef(BOOL)
Batches = Iterator[tuple[Column, Column]]


async def run(session: BulkSession, job: Job) -> None:
    """Runs a job in the session's transaction. Raises 23502, 23505, 23514, 23503, and errors of expressions."""
    thread = BulkThread("backfill")
    try:
        if isinstance(job, RewriteTable):
            await _Rewrite(session, job, thread).run()
        elif isinstance(job, BuildIndex):
            await _Build(session, job, thread).run()
        elif isinstance(job, CopyStorage):
            await copy_storage(session, job, thread)
        else:
            await _validate(session, job, thread)
    finally:
        thread.close()


def _not_unique(writer: TableWriter) -> MakeError:
    """Makes the error of a duplicate key (23505)."""

    def error(index: IndexWriter | None, row: Sequence[object]) -> SqlError:
        name, key = writer.unique_key(index, row)
        message = f'could not create unique index "{name}"'
        return constraint_error("23505", message, writer.catalog, writer.table, name, f"{key} is duplicated.")

    return error


def _has_null(catalog: Catalog, table: Table, number: int) -> SqlError:
    name = table.column_by_number(number).name
    return SqlError(
        "23502",
        f'column "{name}" of relation "{table.name}" contains null values',
        schema=catalog.schema_name(table.schema),
        table=table.name,
        column=name,
    )


def _columns_of(codec: RowCodec, rows: Column, numbers: Sequence[int] | None) -> RowSet:
    """Stored rows as columns: all columns, or the given ones. Arrays are text where one of them is not a list."""
    try:
        batch = codec.batches.decode(rows, numbers)
    except ShapedArray:
        batch = codec.whole_batches.decode(rows, numbers)
    wanted = [column.number for column in codec.table.columns] if numbers is None else numbers
    return RowSet(codec.table, len(rows), dict(zip(wanted, batch.columns, strict=True)))


# ---- a table written anew -------------------------------------------------------------------------------------------


class _Rewrite:
    def __init__(self, session: BulkSession, job: RewriteTable, thread: BulkThread) -> None:
        assert session.transaction is not None
        self.session = session
        self.transaction = session.transaction
        self.thread = thread
        self.old, self.new = job.old, job.new
        self.codec = RowCodec(job.old)
        self.encoder = TableEncoder(session.catalog, job.new, session.key.format)
        self._context = session.context()
        known = {column.number for column in job.old.columns}
        conversions = dict(job.conversions)
        rules = runnable_rules(job.new, session.environment)
        self._converted = [number for number in conversions if number in known]
        self._convert = None
        if self._converted:
            expressions = [conversions[number] for number in self._converted]
            self._convert = compile_row_functions(job.old, session.key.format, expressions)
        added = [column for column in job.new.columns if column.number not in known]
        defaults = [
            tree.Assignment(column.number, conversions.get(column.number) or rules.default(column))
            for column in added
            if column.generated is None
        ]
        made = {column.number for column in added if column.generated is not None}
        generated = [item for item in rules.generated if item.column in made]
        self.completer = RowCompleter(session, self.encoder.writer, defaults, generated, ())
        self._needed = self._columns_needed() if not added and not self._converted else None

    def _columns_needed(self) -> list[int] | None:
        """The columns to decode if stored rows can be copied unchanged. None: all, and rows are encoded again."""
        if self.old.layouts != self.new.layouts or any(index.on_expressions for index in self.encoder.indexes):
            return None
        numbers = set(self.new.key_columns)
        for index in self.encoder.indexes:
            numbers |= index.columns
        required = {column.number for column in self.new.columns if column.not_null}
        before = {column.number for column in self.old.columns if column.not_null} | set(self.old.key_columns)
        return sorted(numbers | (required - before))

    async def run(self) -> None:
        session, new = self.session, self.new
        newest = await NewestRows.of(self.transaction, self.old.storage_id)
        self.thread.at_end(newest.end)
        error = _not_unique(self.encoder.writer)
        bulk = await BulkInsert.open(self.transaction, self.encoder, error, alone=True)
        self.thread.at_end(bulk.discard)
        batches = newest.batches()
        while (read := await self.thread.run(self._read, batches)) is not None:
            rows, stored = read
            drawn = await self.completer.draw(rows.count) if self.completer.draws else {}
            number = 0 if new.key_columns else session.node.next_row_numbers(new, rows.count)
            await self.thread.run(self._write, bulk, rows, stored, drawn, number)
        await self.thread.run(bulk.finish)
        bulk.merge_into(self.transaction)

    def _read(self, batches: Batches) -> tuple[RowSet, Column | None] | None:
        """The next rows, as the new table's columns."""
        batch = next(batches, None)
        if batch is None:
            return None
        found = _columns_of(self.codec, batch[1], self._needed)
        kept = {column.number for column in self.new.columns}
        if self._needed is not None:
            kept &= set(self._needed)
        if self._convert is not None:
            convert, context = self._convert, self._context
            made = list(zip(*(convert(context, row) for row in found.tuples()), strict=True))
            kept -= set(self._converted)
            columns = {number: found.column(number) for number in kept if found.has(number)}
            rows = RowSet(self.new, found.count, columns)
            return rows.with_columns(dict(zip(self._converted, made, strict=True))), None
        columns = {column.number: found.column(column.number) for column in self.old.columns if column.number in kept}
        return RowSet(self.new, found.count, columns), batch[1] if self._needed is not None else None

    def _write(
        self, bulk: BulkInsert, rows: RowSet, stored: Column | None, drawn: dict[int, list[object]], number: int
    ) -> None:
        if stored is None:
            rows, _ = self.completer.complete(rows, drawn)
        for column in self.new.columns:
            must = column.not_null or column.number in self.new.key_columns
            if must and (stored is None or rows.has(column.number)) and rows.valid(column.number) is not None:
                raise _has_null(self.encoder.catalog, self.new, column.number)
        try:
            bulk.add(rows, number, stored)
        except Conflict as conflict:
            raise conflict.error from None


# ---- an index -------------------------------------------------------------------------------------------------------


class _Build:
    def __init__(self, session: BulkSession, job: BuildIndex, thread: BulkThread) -> None:
        assert session.transaction is not None
        self.session = session
        self.transaction = session.transaction
        self.thread = thread
        self.encoder = TableEncoder(session.catalog, job.table, session.key.format)
        self.index = next(index for index in self.encoder.indexes if index.index.oid == job.index.oid)
        self._columns = None if self.index.on_expressions else sorted(self.index.columns)
        self._done = False

    async def run(self) -> None:
        newest = await NewestRows.of(self.transaction, self.encoder.table.storage_id)
        target = Target(self.transaction.tablespace(self.index.index.storage_id), None, None)
        self.thread.at_end(lambda: None if self._done else target.discard())
        self.thread.at_end(newest.end)
        batches = newest.batches()
        try:
            while await self.thread.run(self._add, target, batches):
                pass
            run = await self.thread.run(self._finish, target)
        except _Twice as twice:
            raise self._error(twice.place) from None
        if run is not None:
            self.transaction.runs.append(run)
        self._done = True

    def _add(self, target: Target, batches: Batches) -> bool:
        """Writes the entries of the next rows. False when there are no more."""
        batch = next(batches, None)
        if batch is None:
            return False
        keys, stored = batch
        rows = _columns_of(self.encoder.codec, stored, self._columns)
        entries, values, _ = self.encoder.entries(self.index, rows, keys)
        if len(entries):
            try:
                target.add(entries, values)
            except DuplicateKey as duplicate:
                at = pc.index(entries, pa.scalar(duplicate.key, pa.binary())).as_py()
                raise _Twice(values[at].as_py()) from None
        return True

    def _finish(self, target: Target) -> BulkRun | None:
        try:
            return target.finish()
        except DuplicateKey as duplicate:
            assert target.writer is not None
            raise _Twice(target.writer.find(duplicate.key) or b"") from None

    def _error(self, place: bytes) -> SqlError:
        row = self.transaction.newest(storage_prefix(self.encoder.table.storage_id) + place)
        if row is None:
            raise SqlError("XX000", "an index entry without its row")
        return _not_unique(self.encoder.writer)(self.index, self.encoder.codec.decode(row))


class _Twice(Exception):  # noqa: N818 - a finding: the error is made on the engine's thread
    """Two rows have the same entry. `place` is the key of one of them, without storage id."""

    def __init__(self, place: bytes) -> None:
        super().__init__("entry twice")
        self.place = place


# ---- constraints ----------------------------------------------------------------------------------------------------


async def _validate(session: BulkSession, job: ValidateConstraint, thread: BulkThread) -> None:
    transaction = session.transaction
    assert transaction is not None
    table, constraint = job.table, job.constraint
    writer = TableWriter(session.catalog, table, session.key.format)
    codec = RowCodec(table)
    newest = await NewestRows.of(transaction, table.storage_id)
    thread.at_end(newest.end)
    batches = newest.batches()
    if constraint.kind == "f":
        foreign = Outgoing(writer, constraint)  # also under DISABLE TRIGGER ALL
        foreign.removing = job.violated
        parent = await references.ParentKeys.open(session, foreign)
        thread.at_end(parent.close)

        def next_keys() -> list[tuple[object, ...]] | None:
            batch = next(batches, None)
            if batch is None:
                return None
            return parent.doubtful(writer, _columns_of(codec, batch[1], sorted(set(constraint.columns))))

        while (keys := await thread.run(next_keys)) is not None:
            await references.check(session, foreign, keys, now=True)
        return
    if constraint.late:
        await _compare(Exclusion(writer, constraint), codec, batches, thread)
        return
    look = _null_finder(session, job) if constraint.kind == "n" else _check_finder(session, job)

    def next_batch() -> bool:
        batch = next(batches, None)
        if batch is None:
            return False
        look(codec, batch[1])
        return True

    while await thread.run(next_batch):
        pass


async def _compare(exclusion: Exclusion, codec: RowCodec, batches: Batches, thread: BulkThread) -> None:
    """Raises 23505, 23P01 for two conflicting rows."""
    groups: dict[bytes, Members] = {}

    def read() -> bool:
        batch = next(batches, None)
        if batch is None:
            return False
        for key, row in zip(batch[0].to_pylist(), _columns_of(codec, batch[1], None).tuples(), strict=True):
            values = exclusion.part_of(row)
            if values is not None:
                groups.setdefault(exclusion.group(values), {})[key] = values
        return True

    def compare() -> None:
        for rows in groups.values():
            conflict = exclusion.conflict(rows, list(rows))
            if conflict is not None:
                raise exclusion.not_built(rows[conflict[0]], rows[conflict[1]])

    while await thread.run(read):
        pass
    await thread.run(compare)


Look = Callable[[RowCodec, Column], None]


def _null_finder(session: BulkSession, job: ValidateConstraint) -> Look:
    """Raises 23502 for a NULL in the constraint's columns."""
    catalog, numbers = session.catalog, sorted(job.constraint.columns)

    def look(codec: RowCodec, stored: Column) -> None:
        rows = _columns_of(codec, stored, numbers)
        for number in numbers:
            if rows.valid(number) is not None:
                if job.of_domain:
                    name = job.table.column_by_number(number).name
                    raise SqlError("23502", f'column "{name}" of table "{job.table.name}" contains null values')
                raise _has_null(catalog, job.table, number)

    return look


def _check_finder(session: BulkSession, job: ValidateConstraint) -> Look:
    """Raises 23514 for a row for which the condition is FALSE."""
    table, name = job.table, job.constraint.name
    if job.of_domain or job.violated:
        assert job.constraint.check is not None
        bound = bind_text(job.constraint.check, session.environment, table, _BOOL, "check constraints")
        condition = collate_expression(expanded_expression(bound, session.environment), session.catalog, table)
    else:
        condition = next(check for known, check in runnable_rules(table, session.environment).checks if known == name)
    used = {item.column for item in walk(condition) if isinstance(item, tree.Var)}
    numbers = None if 0 in used or not used else sorted(used)
    violated = compile_checks(table, session.key.format, [(name, condition)])
    context, catalog = session.context(), session.catalog

    def look(codec: RowCodec, stored: Column) -> None:
        for row in _columns_of(codec, stored, numbers).tuples():
            if violated(context, row) is not None:
                if job.violated:
                    raise SqlError("23514", job.violated, schema=catalog.schema_name(table.schema), table=table.name)
                if job.of_domain:
                    column = table.column_by_number(job.constraint.columns[0]).name
                    message = (
                        f'column "{column}" of table "{table.name}" contains values that violate the new constraint'
                    )
                    schema = catalog.schema_name(table.schema)
                    raise SqlError("23514", message, schema=schema, table=table.name, column=column)
                message = f'check constraint "{name}" of relation "{table.name}" is violated by some row'
                raise constraint_error("23514", message, catalog, table, name)

    return look
