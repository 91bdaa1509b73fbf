"""Writes new rows of a partitioned table into bulk runs of its partitions (engine/bulk/insert.py).

    in the thread     a batch is divided by partition, which needs the columns of the keys only
    on the loop       partitions without rows so far are locked and opened
    in the thread     the rows of each partition, in the order of its columns, are checked and written

If several rows have errors, the first row's is raised. The exception is existing keys, which are searched partition by
partition.
"""

from __future__ import annotations

from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING

import numpy as np

from catalog.catalog import Catalog
from catalog.errors import SqlError
from catalog.schema import Table
from engine.bulk import references
from engine.bulk.claims import claim_keys
from engine.bulk.complete import RowCompleter
from engine.bulk.encode import TableEncoder
from engine.bulk.insert import BulkInsert, Conflict, repeat_work
from engine.bulk.rows import Row, RowSet
from engine.bulk.thread import BulkThread
from engine.execute.foreign_keys import Outgoing
from engine.execute.written import Written
from engine.partitions.partition_writer import Leaf, PartitionedWriter
from engine.storage.columns import Numbers
from engine.storage.runs import BulkRun
from engine.txn.locks import ROW_EXCLUSIVE

if TYPE_CHECKING:
    from engine.bulk.session import BulkSession
    from engine.txn.transaction import Transaction


def concerns_itself(catalog: Catalog, table: Table) -> bool:
    """`references.concerns_itself` of a partitioned table and its partitions."""
    family = [table, *catalog.descendants(table.oid)]
    own = {item.oid for item in family}
    return any(constraint.late or constraint.references in own for item in family for constraint in item.constraints)


class _Part:
    """One partition with rows of the statement."""

    def __init__(self, session: BulkSession, leaf: Leaf, encoder: TableEncoder, bulk: BulkInsert) -> None:
        self.leaf = leaf
        self.encoder = encoder
        self.bulk = bulk
        self.completer = RowCompleter(session, encoder.writer, (), (), leaf.checks)

    def rows_of(self, rows: RowSet, places: Numbers) -> RowSet:
        """The rows at these positions as rows of the partition."""
        taken = rows.take(places)
        if not taken.in_columns:
            return RowSet(self.leaf.table, taken.count, None, [tuple(self.leaf.row(row)) for row in taken.tuples()])
        numbers = self.leaf.numbers
        columns = {numbers[number]: taken.column(number) for number in numbers if taken.has(number)}
        return RowSet(self.leaf.table, taken.count, columns)


class PartitionedInsert:
    """One statement's rows. Call `write` for each batch, then `finish` and `merge_into`."""

    def __init__(self, session: BulkSession, writer: PartitionedWriter) -> None:
        assert session.transaction is not None
        self._session = session
        self._transaction = session.transaction
        self._writer = writer
        self._parts: dict[int, _Part] = {}
        self._needed = key_positions(session.catalog, writer.table)
        self.rows = 0

    async def write(self, thread: BulkThread, rows: RowSet) -> None:
        """Writes a batch. Raises Conflict with the position of the row, 23503."""
        if not rows.count:
            return
        found, error = await thread.run(self._split, rows)
        for leaf, _ in found:
            if leaf.table.oid not in self._parts:
                await self._open(leaf)
        numbers = [
            0 if leaf.table.key_columns else self._session.node.next_row_numbers(leaf.table, len(places))
            for leaf, places in found
        ]
        for part in self._parts.values():
            part.bulk.look()
        done: set[int] = set()
        for foreign, keys in await repeat_work(
            self._session, partial(thread.run, self._add, rows, found, numbers, error, done)
        ):
            await references.check(self._session, foreign, keys)
        self.rows += rows.count

    def _split(self, rows: RowSet) -> tuple[list[tuple[Leaf, Numbers]], SqlError | None]:
        """The positions of the rows of each partition, up to the first row without a partition, and that row's
        error."""
        columns = self._writer.table.columns
        values = [
            rows.values(column.number) if place in self._needed else repeat(None, rows.count)
            for place, column in enumerate(columns)
        ]
        known: dict[Row, Leaf] = {}
        places: dict[int, tuple[Leaf, list[int]]] = {}
        error = None
        for place, row in enumerate(zip(*values, strict=True)):
            leaf = known.get(row)
            if leaf is None:
                try:
                    leaf = known[row] = self._writer.leaf_of(row)
                except SqlError as found:
                    error = found
                    break
            entry = places.get(leaf.table.oid)
            if entry is None:
                entry = places[leaf.table.oid] = leaf, []
            entry[1].append(place)
        return [(leaf, np.array(found)) for leaf, found in places.values()], error

    async def _open(self, leaf: Leaf) -> None:
        session, transaction, table = self._session, self._transaction, leaf.table
        await session.lock_table(transaction, table.oid, ROW_EXCLUSIVE)
        encoder = TableEncoder(session.catalog, table, session.key.format)
        encoder.writer.row_shown = leaf.writer.row_shown
        columns = session.node.columnar.drafts.of_load(table)
        bulk = await BulkInsert.open(transaction, encoder, columns=columns)
        self._parts[table.oid] = _Part(session, leaf, encoder, bulk)

    def _add(
        self,
        rows: RowSet,
        found: list[tuple[Leaf, Numbers]],
        numbers: list[int],
        error: SqlError | None,
        done: set[int],
    ) -> list[tuple[Outgoing, list[Row]]]:
        """Checks and writes the parts of a batch, and returns the keys that they refer to. `done`: the OIDs of the
        partitions whose parts have been written."""
        cut = [(part := self._parts[leaf.table.oid], places, part.rows_of(rows, places)) for leaf, places in found]
        violations = []
        for part, places, own in cut:
            violation = part.completer.violation(own)
            if violation is not None:
                violations.append((int(places[violation[0]]), violation[1]))
        if violations:
            raise Conflict(*min(violations, key=lambda item: item[0]))
        if error is not None:
            raise Conflict(sum(len(places) for _, places in found), error)
        keys: list[tuple[Outgoing, list[Row]]] = []
        for (part, places, own), number in zip(cut, numbers, strict=True):
            if part.leaf.table.oid not in done:
                try:
                    part.bulk.add(own, number)
                except Conflict as conflict:
                    raise conflict.at(int(places[conflict.place])) from None
                done.add(part.leaf.table.oid)
            writer = part.encoder.writer
            keys += [(foreign, references.distinct_keys(writer, foreign, own)) for foreign in writer.outgoing]
        return keys

    def finish(self) -> None:
        """Sorts and syncs the runs. Raises 23505."""
        for part in self._parts.values():
            part.bulk.finish()

    @property
    def table_runs(self) -> list[tuple[Table, list[BulkRun]]]:
        """The runs of each partition itself, after `finish`."""
        return [found for part in self._parts.values() for found in part.bulk.table_runs]

    async def claim(self, session: BulkSession, transaction: Transaction, thread: BulkThread) -> None:
        """As BulkInsert.claim, for all partitions at once."""
        claims = [claim for part in self._parts.values() for claim in part.bulk.claims]
        await claim_keys(session, transaction, thread, claims)

    def unwatch(self) -> None:
        """Stops collecting. Runs at the end of the statement, on the engine's thread."""
        for part in self._parts.values():
            part.bulk.unwatch()

    def merge_into(self, transaction: Transaction, written: Written) -> None:
        """Adds the runs to the transaction. Runs on the engine's thread, after `finish`. `written` counts the rows."""
        for part in self._parts.values():
            part.bulk.merge_into(transaction, written)

    def discard(self) -> None:
        """Removes the written files, unless they belong to the transaction by now."""
        for part in self._parts.values():
            part.bulk.discard()


def key_positions(catalog: Catalog, table: Table) -> frozenset[int]:
    """The positions of the columns that decide a row's partition."""
    names = {column.name: place for place, column in enumerate(table.columns)}
    found: set[int] = set()
    for item in [table, *catalog.descendants(table.oid)]:
        for column in item.partitioning.columns if item.partitioning is not None else ():
            if not column.number:
                return frozenset(names.values())
            found.add(names[item.column_by_number(column.number).name])
    if table.bound is not None:  # its own bounds are looked at too
        return frozenset(names.values())
    return frozenset(found)
