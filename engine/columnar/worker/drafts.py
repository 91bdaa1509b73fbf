"""Drafts in the worker: the rows of running bulk loads, each in a separate table that no query reads.

`columns.d<number>` has the columns of the future `columns.t<storage id>`; engine/columnar/drafts.py describes the
purpose and the life of a draft. The worker reads the run's file while it grows: the file begins as a stream of Arrow
messages, and only its end has the footer of an Arrow file. The worker inserts whole row groups, because DuckDB writes
these to its file at once and frees their memory; the remaining rows wait for the next part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from typing import Any

import pyarrow as pa

from catalog.errors import SqlError
from engine.columnar.interface import GROUP_ROWS
from engine.columnar.worker.columns_file import SCHEMA
from engine.columnar.worker.held_table import (
    HeldTable,
    definition,
    hold_table,
    insert_rows,
    larger_tables,
    prefetch,
    rows_as_held,
    transaction,
)
from engine.columnar.worker.progress import WorkProgress
from engine.storage.runs import ARROW_SCHEMA

_BEGINNING = 8  # bytes of the file before its first message


class DraftTable:
    """One draft. `rows` is its number of rows, including those in `rest`. `inserted` is the number of rows in its
    table, and their bytes. `place` is the byte of the file up to which it has been read."""

    def __init__(self, number: int, held: HeldTable, path: str) -> None:
        self.name = f"{SCHEMA}.d{number}"
        self.held = held
        self.path = path
        self.place = _BEGINNING
        self.batches = 0
        self.rows = 0
        self.inserted = 0, 0
        self.rest: pa.Table | None = None

    def decode(self, batch: Any) -> pa.Table:
        """Decodes the rows of one batch of the run. Raises XX000 if the batch deletes rows."""
        keys, values = batch.columns
        if values.null_count:
            raise SqlError("XX000", "a bulk load that deletes rows")
        return rows_as_held(self.held, self.held.batches.decode(values), keys)


class DraftTables:
    """All drafts, by their numbers. Only the applier uses it. `check_room` raises 53100 if the disk has no room for an
    insert of so many rows."""

    def __init__(
        self, connection: Any, check_room: Callable[[int], None] = lambda _: None, progress: WorkProgress | None = None
    ) -> None:
        self._connection = connection
        self._check_room = check_room
        self._progress = progress or WorkProgress()
        self._drafts: dict[int, DraftTable] = {}

    def begin(self, number: int, description: Any, path: str) -> None:
        draft = DraftTable(number, hold_table(description, ""), path)
        self._connection.execute(f"CREATE TABLE {draft.name} ({definition(draft.held)})")
        self._drafts[number] = draft

    def grow(self, number: int, upto: int, rows: int) -> int | None:
        """Adds about `rows` rows from the part of the file before byte `upto`. Returns the draft's number of rows, or
        None for an unknown draft. Raises 53100 if the disk has no room for the rows."""
        draft = self._drafts.get(number)
        if draft is None:
            return None
        parts = [] if draft.rest is None else [draft.rest]
        taken = 0
        for batch in _batches(draft, upto):
            parts.append(draft.decode(batch))
            taken += batch.num_rows
            if taken >= rows:
                break
        draft.rest = None
        draft.rows += taken
        if parts:
            whole = pa.concat_tables(parts)
            groups = whole.num_rows // GROUP_ROWS * GROUP_ROWS
            if groups:
                with transaction(self._connection):
                    self._insert(draft, whole.slice(0, groups))
            draft.rest = whole.slice(groups)
        return draft.rows

    def take(self, number: int) -> DraftTable | None:
        """Removes a draft from the register and returns it; the caller adopts or drops it."""
        return self._drafts.pop(number, None)

    def finish(self, draft: DraftTable) -> None:
        """Adds the remaining rows of the run, whose file is complete. Raises 53100 if the disk has no room."""
        self._progress.add(*draft.inserted)
        with transaction(self._connection), closing(prefetch(larger_tables(_remaining_rows(draft)))) as parts:
            for rows in parts:
                self._insert(draft, rows)

    def _insert(self, draft: DraftTable, rows: pa.Table) -> None:
        """Inserts rows into the draft's table, in the open transaction."""
        self._check_room(rows.num_rows)
        insert_rows(self._connection, draft.name, draft.held, rows)
        count, size = draft.inserted
        draft.inserted = count + rows.num_rows, size + rows.nbytes
        self._progress.add(rows.num_rows, rows.nbytes)

    def drop(self, draft: DraftTable) -> None:
        """Drops the draft's table, if it exists."""
        draft.rest = None
        with suppress(Exception):  # if the database accepts no more statements, another call ends the worker
            self._connection.execute(f"DROP TABLE IF EXISTS {draft.name}")


def _batches(draft: DraftTable, upto: int) -> Iterator[Any]:
    """Yields the batches of the draft's file from `place` up to byte `upto`."""
    with pa.memory_map(draft.path) as source:
        if draft.place == _BEGINNING:
            source.seek(_BEGINNING)
            pa.ipc.read_schema(pa.ipc.read_message(source))
            draft.place = source.tell()
        source.seek(draft.place)
        while draft.place < upto:
            batch = pa.ipc.read_record_batch(pa.ipc.read_message(source), ARROW_SCHEMA)
            draft.place = source.tell()
            draft.batches += 1
            yield batch


def _remaining_rows(draft: DraftTable) -> Iterator[pa.Table]:
    """Yields the rows that the draft's table lacks."""
    if draft.rest is not None:
        yield draft.rest
    with pa.memory_map(draft.path) as source:
        reader = pa.ipc.open_file(source)
        for index in range(draft.batches, reader.num_record_batches):
            yield draft.decode(reader.get_batch(index))
