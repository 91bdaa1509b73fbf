"""The worker's tables: built from LMDB, or read from the file and updated to LMDB, then updated by deltas.

`columns.t<storage_id>` has a column `c<attnum>` for every live column, and `r` (hidden row number) or `k` (encoded key)
if the columns do not identify a row: see keys.py. A delta is one DuckDB transaction with one delete (a join on the key
columns) and one insert, so a query's snapshot has all of it or nothing. Only one thread, the applier, writes.

Arrays are LISTs. If a LIST cannot hold an array, because of its dimensions or its lower bound, all arrays of the table
are converted to text in PostgreSQL's form (arrays of built-in types). A query that reads them as LISTs then fails with
`ShapedArray`, and the engine sends it again in a form that reads text; a query that reads other columns is not
affected. For a query in the text form every table has a view that converts LISTs to text.

char(n) is stored without its padding blanks: queries compare it in this form, and add the blanks to their output.

If a change cannot be applied (out of memory, a row that does not decode), the table is *lost*: the worker drops it,
queries of it fail with the error, and the engine loads it again when a later query needs it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from catalog.errors import SqlError
from engine.columnar.descriptions import definitions, table_of, text_of
from engine.columnar.frames import Pairs
from engine.columnar.interface import UdfSignature, whole_signature
from engine.columnar.reshape import reshape_commands
from engine.columnar.worker.columns_file import Saved, table_name
from engine.columnar.worker.drafts import DraftTable
from engine.columnar.worker.held_table import (
    HeldTable,
    column_types,
    decode_pairs,
    definition,
    hold_table,
    insert_rows,
    larger_tables,
    prefetch,
    rows_as_held,
    transaction,
)
from engine.columnar.worker.progress import BUILDING, CATCHING_UP, WorkProgress
from engine.storage.columns import ShapedArray
from engine.storage.readonly import read_changes, read_table_batches
from engine.storage.row_batches import RowBatches


@dataclass(frozen=True, slots=True)
class ArrayUse:
    """How a query reads arrays: as text (`whole`), or the arrays of `tables` as LISTs."""

    whole: bool
    tables: Sequence[int]


class Tables:
    """All tables of one DuckDB. `lost` maps the storage id of a lost table to the error. `need` registers a Python
    function in DuckDB. `check_room` raises 53100 if the disk has no room for an insert of so many rows."""

    def __init__(
        self,
        connection: Any,
        need: Callable[[UdfSignature], None],
        saved: Mapping[int, Saved] = MappingProxyType({}),
        progress: WorkProgress | None = None,
        check_room: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._connection = connection
        self._need = need
        self._progress = progress or WorkProgress()
        self._check_room = check_room
        self._held: dict[int, HeldTable] = {}
        self._found = dict(saved)  # tables of the file that are not loaded yet
        self.lost: dict[int, SqlError] = {}

    def load(
        self, description: Any, lmdb_path: str, token: str, durable: int = 0, empty_at: int | None = None
    ) -> tuple[int, bool]:
        """Brings the table to the state of LMDB: reads only the changed keys, if the worker has the table and the list
        of its changed keys is complete, or else builds it. `durable`: the newest durable LSN. `empty_at`: at this LSN
        the table has no rows in LMDB. Returns the LSN of LMDB, and whether the table was built."""
        table = table_of(description)
        if empty_at is not None:
            self.drop(table.storage_id)
            held = self._held[table.storage_id] = hold_table(description, token)
            held.lsn = empty_at
            self._connection.execute(f"CREATE TABLE {table_name(table.storage_id)} ({definition(held)})")
            return empty_at, True
        known = self._take(description, token, durable)
        if known is not None:
            lsn = self._catch_up(known, lmdb_path)
            if lsn is not None:
                return lsn, False
        self.drop(table.storage_id)
        try:
            lsn = self._build(hold_table(description, token), lmdb_path, description["bases"])
        except ShapedArray:
            lsn = self._build(hold_table(description, token, whole=True), lmdb_path, description["bases"])
        return lsn, True

    def _take(self, description: Any, token: str, durable: int) -> HeldTable | None:
        """Returns the table, if the worker has it with this description, with the list of changed keys that `token`
        identifies, and without changes later than `durable`."""
        storage_id = description["storage_id"]
        found = self._found.get(storage_id)
        if found is not None and found.token == token and self._fits(found, description):
            del self._found[storage_id]
            held = self._held[storage_id] = hold_table(description, token, whole=found.whole)
            held.lsn = found.lsn
        known = self._held.get(storage_id)
        if known is None or not token or known.lsn > durable:
            return None
        return known if (known.token, known.description) == (token, text_of(description)) else None

    def _fits(self, found: Saved, description: Any) -> bool:
        """Whether a table of the file has this description. Adds and drops its columns if that suffices."""
        if not set(map(tuple, json.loads(found.description)["types"])) <= definitions(description):
            return False
        return self._reshape(found.description, description, found.whole)

    def _catch_up(self, held: HeldTable, lmdb_path: str) -> int | None:
        """Applies the changes that were flushed since the table's LSN, and returns the new LSN; None if the list of
        changed keys is not complete."""
        changes = read_changes(lmdb_path, held.table.storage_id, bytes.fromhex(held.token), held.lsn)
        if changes is None:
            return None
        lsn, count, batches = changes
        self._progress.begin(CATCHING_UP, held.table.storage_id, count)
        try:
            with closing(batches), transaction(self._connection):
                for keys, values in batches:
                    gone, rows = decode_pairs(held, Pairs.of(keys, values), held.batches)
                    self._replace(held, gone, rows)
                    self._progress.add(gone.num_rows - rows.num_rows, 0)  # `_insert` counts the others
        except ShapedArray:
            return self._catch_up(self._widen(held), lmdb_path)
        held.lsn = lsn
        return lsn

    def _build(self, held: HeldTable, lmdb_path: str, bases: Sequence[int]) -> int:
        storage_id = held.table.storage_id
        connection = self._connection
        self._progress.begin(BUILDING, storage_id)
        lsn, batches = read_table_batches(lmdb_path, storage_id, held.batches, bases)
        parts = larger_tables(rows_as_held(held, rows, keys) for keys, rows in batches)
        with closing(batches), closing(prefetch(parts)) as made, transaction(connection):
            connection.execute(f"CREATE TABLE {table_name(storage_id)} ({definition(held)})")
            for rows in made:
                self._insert(held, rows)
        held.lsn = lsn
        self._held[storage_id] = held
        return lsn

    def note_reached(self, storage_id: int, lsn: int) -> None:
        """Called when every change up to this LSN has been applied."""
        held = self._held.get(storage_id)
        if held is not None:
            held.lsn = lsn

    @property
    def storage_ids(self) -> list[int]:
        """The tables of the worker, including those of the file that have to be updated before use."""
        return [*self._held, *self._found]

    def tables_to_save(self) -> list[Saved]:
        """Returns the tables that the next worker can use, if they are saved."""
        return [
            *self._found.values(),
            *(
                Saved(storage_id, held.lsn, held.token, held.whole, held.description)
                for storage_id, held in self._held.items()
                if held.token
            ),
        ]

    def describe_again(self, description: Any) -> None:
        """Adds and drops columns of a table according to its new description (engine/columnar/reshape.py). Raises
        XX000 if the table has to be built again."""
        held = self._held.get(description["storage_id"])
        if held is None:
            return  # lost: the engine knows
        again = hold_table(description, held.token, whole=held.whole)
        if not self._reshape(held.description, description, held.whole):
            raise SqlError("XX000", f"columnar table {held.table.storage_id} has to be built again")
        again.lsn = held.lsn
        self._held[held.table.storage_id] = again

    def _reshape(self, text: str, description: Any, whole: bool) -> bool:
        """Changes a table's columns from those of description `text` to those of `description`. False if ALTER TABLE
        cannot do that."""
        if text == text_of(description):
            return True
        commands = reshape_commands(json.loads(text), description, whole)
        if commands is None:
            return False
        with transaction(self._connection):
            for command in commands:
                self._connection.execute(f"ALTER TABLE {table_name(description['storage_id'])} {command}")
        return True

    def apply_all(self, storage_id: int, parts: Iterator[Pairs]) -> None:
        """Applies a delta in parts. If the table has no rows yet, no old rows have to be deleted."""
        held = self._held.get(storage_id)
        if held is None or held.arrays or not self._is_empty(storage_id):
            for pairs in parts:
                self.apply(storage_id, pairs)
            return
        made = larger_tables(rows_as_held(held, held.batches.decode(pairs.rows), pairs.row_keys) for pairs in parts)
        with transaction(self._connection), closing(prefetch(made)) as tables:
            for rows in tables:
                self._insert(held, rows)

    def _is_empty(self, storage_id: int) -> bool:
        return self._connection.execute(f"SELECT 1 FROM {table_name(storage_id)} LIMIT 1").fetchone() is None

    def adopt(self, storage_id: int, draft: DraftTable) -> bool:
        """Applies a bulk run whose rows are all in a draft. False if the draft does not match this table's description.
        Raises 53100 if the disk has no room to copy the rows."""
        held = self._held.get(storage_id)
        if held is None or (held.description, held.whole) != (draft.held.description, draft.held.whole):
            return False
        connection, name = self._connection, table_name(storage_id)
        empty = self._is_empty(storage_id)
        if not empty:
            self._check_room(draft.inserted[0])
        with transaction(connection):
            if empty:
                connection.execute(f"DROP TABLE {name}")
                connection.execute(f"ALTER TABLE {draft.name} RENAME TO t{storage_id}")
            else:  # a key may have an old row here, whose deletion has not arrived yet
                self._delete_keys(held, draft.name)
                connection.execute(f"INSERT INTO {name} ({held.columns}) SELECT {held.columns} FROM {draft.name}")
                connection.execute(f"DROP TABLE {draft.name}")
        return True

    def apply(self, storage_id: int, pairs: Pairs) -> None:
        """Applies one delta: deletes the row of every key, and inserts the new one if the key has a value. Each key
        occurs once."""
        held = self._held.get(storage_id)
        if held is None:
            return  # lost: the engine knows
        try:
            keys, rows = decode_pairs(held, pairs, held.batches)
        except ShapedArray:
            held = self._widen(held)
            keys, rows = decode_pairs(held, pairs, held.batches)
        with transaction(self._connection):
            self._replace(held, keys, rows)

    def _replace(self, held: HeldTable, keys: pa.Table, rows: pa.Table) -> None:
        """Deletes the rows of the keys, and inserts the new rows, in the open transaction."""
        connection = self._connection
        if keys.num_rows:
            connection.register("gone", keys)
            self._delete_keys(held, "gone")
            connection.unregister("gone")
        if rows.num_rows:
            self._insert(held, rows)

    def _delete_keys(self, held: HeldTable, source: str) -> None:
        """Deletes the rows whose keys the relation `source` contains."""
        same = " AND ".join(f"x.{name} = y.{name}" for name in held.keys.columns)
        name = table_name(held.table.storage_id)
        self._connection.execute(f"DELETE FROM {name} AS x USING {source} AS y WHERE {same}")

    def _widen(self, held: HeldTable) -> HeldTable:
        """Converts the table's arrays to text, and returns the new form of the table."""
        wide = replace(held, whole=True)
        wide.columns = ", ".join(name for name, _ in column_types(wide))
        name = table_name(held.table.storage_id)
        self._connection.execute(f"CREATE OR REPLACE TABLE {name} AS SELECT {self._as_whole(held)} FROM {name}")
        self._held[held.table.storage_id] = wide
        return wide

    def whole_view(self, cursor: Any, storage_id: int) -> None:
        """Creates the view `w<storage_id>` for the cursor: the table with its arrays as text."""
        selected = self._as_whole(self._held[storage_id])
        cursor.execute(f"CREATE TEMP VIEW w{storage_id} AS SELECT {selected} FROM {table_name(storage_id)}")

    def _as_whole(self, held: HeldTable) -> str:
        """Returns the SELECT list of a table's columns, with arrays as text."""
        selected = []
        for name, kind in column_types(held):
            if name in held.arrays and not held.whole:
                signature = whole_signature(held.arrays[name], kind)
                self._need(signature)
                selected.append(f"{signature.name}({name}) AS {name}")
            else:
                selected.append(name)
        return ", ".join(selected)

    def overlay(self, cursor: Any, storage_id: int, parts: Sequence[Pairs], use: ArrayUse) -> None:
        """Creates `o<storage_id>` (rows) and `x<storage_id>` (replaced or deleted keys) for the cursor.

        If several parts have the same key, the last part counts; within a part each key occurs once. Raises
        `ShapedArray` if the query reads arrays as LISTs and a row has an array that a LIST cannot hold.
        """
        held = self._held[storage_id]
        whole = held.whole or use.whole
        kinds = column_types(held, whole)
        selected = [f"CAST({name} AS {kind}) AS {name}" for name, kind in kinds]
        try:
            keys, rows = self._overlaid(held, parts, held.codec.whole_batches if whole else held.codec.batches)
        except ShapedArray:
            if storage_id in use.tables:
                raise
            keys, rows = self._overlaid(held, parts, held.codec.whole_batches)
            selected = [f"CAST({'NULL' if name in held.arrays else name} AS {kind}) AS {name}" for name, kind in kinds]
        cursor.register(f"x{storage_id}", keys)
        cursor.register(f"n{storage_id}", rows)
        cursor.execute(f"CREATE TEMP VIEW o{storage_id} AS SELECT {', '.join(selected)} FROM n{storage_id}")

    def _overlaid(self, held: HeldTable, parts: Sequence[Pairs], batches: RowBatches) -> tuple[pa.Table, pa.Table]:
        keys: list[pa.Table] = []
        rows: list[pa.Table] = []
        seen: list[Any] = []
        for part in reversed(parts):
            unseen = part.without(pa.concat_arrays(seen)) if seen else part
            seen.append(part.keys)
            part_keys, part_rows = decode_pairs(held, unseen, batches)
            keys.append(part_keys)
            rows.append(part_rows)
        return pa.concat_tables(keys), pa.concat_tables(rows)

    def drop(self, storage_id: int) -> None:
        """Drops a table; running queries keep their snapshot of it."""
        self.lost.pop(storage_id, None)
        if self._held.pop(storage_id, None) or self._found.pop(storage_id, None):
            self._connection.execute(f"DROP TABLE {table_name(storage_id)}")

    def lose(self, storage_id: int, error: SqlError) -> None:
        """Drops a table that can no longer be updated. Keeps the text of the error, without its traceback."""
        self.drop(storage_id)
        self.lost[storage_id] = SqlError(error.sqlstate, error.message, detail=error.detail, hint=error.hint)

    def check(self, storage_ids: Iterable[int], use: ArrayUse) -> None:
        """Raises the error of the first lost table, or `ShapedArray` if the query reads arrays as LISTs in a table that
        holds them as text."""
        for storage_id in storage_ids:
            if storage_id not in self._held:
                raise self.lost.get(storage_id) or SqlError("XX000", f"columnar table {storage_id} is not loaded")
            if self._held[storage_id].whole and not use.whole and storage_id in use.tables:
                raise ShapedArray

    def _insert(self, held: HeldTable, rows: pa.Table) -> None:
        """Inserts rows into the table, in the open transaction. Raises 53100 if the disk has no room for them."""
        self._check_room(rows.num_rows)
        insert_rows(self._connection, table_name(held.table.storage_id), held, rows)
        self._progress.add(rows.num_rows, rows.nbytes)
