"""The worker's tables: built from LMDB, or taken from the file and brought up to LMDB, then kept up by deltas.

`columns.t<storage_id>` has a column `c<attnum>` for every live column, and, where rows are found by something else than
columns, `r` (hidden row number) or `k` (encoded key): see keys.py. A delta is one DuckDB transaction with one delete
(a join on the key columns) and one insert, so a query's pinned snapshot sees all of it or nothing. Only one thread,
the applier, writes.

Arrays are LISTs. The first that is none, for its dimensions or its lower bound, makes all arrays of its table text in
PostgreSQL's form, built-in types' at least. A query that reads them as LISTs is then refused (`ShapedArray`), and comes
again in a form that reads text; one that reads other columns does not care. A query in that form gets a view of every
table, with LISTs turned into text.

char(n) lacks the blanks that pad it: queries compare it as it is, and give the blanks to what they show.

What cannot be applied (out of memory, a row that does not decode) makes the table *lost*: it is dropped, queries that
name it get the error, and the engine loads it again when it is next asked for.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from catalog import types
from catalog.errors import SqlError
from catalog.schema import Table
from catalog.types.text import has_blanks
from engine.columnar.descriptions import table_of
from engine.columnar.frames import Pairs
from engine.columnar.interface import UdfSignature, whole_signature
from engine.columnar.worker.columns_file import Saved, table_name
from engine.columnar.worker.keys import ENCODED, ROW_NUMBER, KeyPlan
from engine.columnar.worker.progress import BUILDING, CATCHING_UP, WorkProgress
from engine.columnar.worker.timestamps import check_rows
from engine.storage.columns import ShapedArray, takes_shapes
from engine.storage.keys import storage_prefix
from engine.storage.readonly import read_changes, read_table_batches
from engine.storage.row_batches import RowBatches
from engine.storage.rows import RowCodec

Item = TypeVar("Item")
TOGETHER_ROWS = 500_000
TOGETHER_BYTES = 64 << 20  # what memory may be taken by rows on their way into a table, a few times


@dataclass(slots=True)
class _Held:
    table: Table
    codec: RowCodec
    keys: KeyPlan
    columns: str  # the column list, in the table's order
    arrays: dict[str, int]  # columns that may be held as text, with their types
    padded: frozenset[str]  # columns of char(n)
    whole: bool  # its arrays are held as text, since one of them is none for a LIST
    description: str  # by which the same table is known again
    token: str  # of its list of changed keys (engine/storage/key_notes.py); "" where there is none
    lsn: int = 0  # every change up to it is here

    @property
    def batches(self) -> RowBatches:
        return self.codec.whole_batches if self.whole else self.codec.batches


@dataclass(frozen=True, slots=True)
class ArrayUse:
    """How a query reads arrays: as text that any array has (`whole`), or as LISTs, those of `tables`."""

    whole: bool
    tables: Sequence[int]


class Tables:
    """All tables of one DuckDB. `lost` maps a storage id to the error that cost us the table. `check_room` raises 53100
    where so many rows at a time are too many for the disk."""

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
        self._held: dict[int, _Held] = {}
        self._found = dict(saved)  # what is in the file, and nobody has asked for yet
        self.lost: dict[int, SqlError] = {}

    def load(
        self, description: Any, lmdb_path: str, token: str, durable: int = 0, empty_at: int | None = None
    ) -> tuple[int, bool]:
        """Brings the table to what LMDB has: by the keys that have changed, if it is here and they are known, else it
        is built anew. `durable`: the newest LSN that there is. `empty_at`: LMDB has nothing of it as of this LSN.
        Returns the LSN that LMDB had reached, and whether the table was built."""
        table = table_of(description)
        if empty_at is not None:
            self.drop(table.storage_id)
            held = self._held[table.storage_id] = _prepare(description, token)
            held.lsn = empty_at
            self._connection.execute(f"CREATE TABLE {table_name(table.storage_id)} ({_definition(held)})")
            return empty_at, True
        known = self._take(description, token, durable)
        if known is not None:
            lsn = self._catch_up(known, lmdb_path)
            if lsn is not None:
                return lsn, False
        self.drop(table.storage_id)
        try:
            lsn = self._build(_prepare(description, token), lmdb_path, description["bases"])
        except ShapedArray:
            lsn = self._build(_prepare(description, token, whole=True), lmdb_path, description["bases"])
        return lsn, True

    def _take(self, description: Any, token: str, durable: int) -> _Held | None:
        """The table, if it is here as it is described, the list of its changed keys is the one with the token, and it
        has nothing that is later than what is durable."""
        storage_id = description["storage_id"]
        found = self._found.get(storage_id)
        if found is not None and (found.token, found.description) == (token, _text_of(description)):
            del self._found[storage_id]
            held = self._held[storage_id] = _prepare(description, token, whole=found.whole)
            held.lsn = found.lsn
        known = self._held.get(storage_id)
        if known is None or not token or known.lsn > durable:
            return None
        return known if (known.token, known.description) == (token, _text_of(description)) else None

    def _catch_up(self, held: _Held, lmdb_path: str) -> int | None:
        """Applies what has been flushed since the LSN that the table has reached. None where nobody knows what that
        is."""
        changes = read_changes(lmdb_path, held.table.storage_id, bytes.fromhex(held.token), held.lsn)
        if changes is None:
            return None
        lsn, count, batches = changes
        self._progress.begin(CATCHING_UP, held.table.storage_id, count)
        try:
            with closing(batches), _transaction(self._connection):
                for keys, values in batches:
                    gone, rows = _decode(held, Pairs.of(keys, values), held.batches)
                    self._replace(held, gone, rows)
                    self._progress.add(gone.num_rows - rows.num_rows, 0)  # the others are counted where they come in
        except ShapedArray:
            return self._catch_up(self._widen(held), lmdb_path)
        held.lsn = lsn
        return lsn

    def _build(self, held: _Held, lmdb_path: str, bases: Sequence[int]) -> int:
        storage_id = held.table.storage_id
        connection = self._connection
        self._progress.begin(BUILDING, storage_id)
        lsn, batches = read_table_batches(lmdb_path, storage_id, held.batches, bases)
        parts = _together(_with_key(held, rows, keys) for keys, rows in batches)
        with closing(batches), closing(_ahead(parts)) as made, _transaction(connection):
            connection.execute(f"CREATE TABLE {table_name(storage_id)} ({_definition(held)})")
            for rows in made:
                self._insert(connection, held, rows)
        held.lsn = lsn
        self._held[storage_id] = held
        return lsn

    def note_reached(self, storage_id: int, lsn: int) -> None:
        """Every change up to this LSN has been applied."""
        held = self._held.get(storage_id)
        if held is not None:
            held.lsn = lsn

    @property
    def storage_ids(self) -> list[int]:
        """The tables that are here, those included that have to be brought up first."""
        return [*self._held, *self._found]

    def tables_to_save(self) -> list[Saved]:
        """The tables that can be used again after they have been saved."""
        return [
            *self._found.values(),
            *(
                Saved(storage_id, held.lsn, held.token, held.whole, held.description)
                for storage_id, held in self._held.items()
                if held.token
            ),
        ]

    def describe_again(self, description: Any) -> None:
        """Takes a new description of a table whose columns stay (a new row layout)."""
        held = self._held.get(description["storage_id"])
        if held is not None:  # else it is lost: the engine has been told
            again = self._held[held.table.storage_id] = _prepare(description, held.token, whole=held.whole)
            again.lsn = held.lsn

    def apply_all(self, storage_id: int, parts: Iterator[Pairs]) -> None:
        """The delta in parts. A table without rows, which a bulk load has filled, needs no look for keys that go."""
        held = self._held.get(storage_id)
        name = table_name(storage_id)
        if held is None or held.arrays or self._connection.execute(f"SELECT 1 FROM {name} LIMIT 1").fetchone():
            for pairs in parts:
                self.apply(storage_id, pairs)
            return
        with _transaction(self._connection):
            for rows in _ahead(_together(_decode(held, pairs, held.batches)[1] for pairs in parts)):
                self._insert(self._connection, held, rows)

    def apply(self, storage_id: int, pairs: Pairs) -> None:
        """One delta: every key is deleted, and inserted anew where it has a value. Each key occurs once."""
        held = self._held.get(storage_id)
        if held is None:
            return  # lost: the engine has been told
        try:
            keys, rows = _decode(held, pairs, held.batches)
        except ShapedArray:
            held = self._widen(held)
            keys, rows = _decode(held, pairs, held.batches)
        with _transaction(self._connection):
            self._replace(held, keys, rows)

    def _replace(self, held: _Held, keys: pa.Table, rows: pa.Table) -> None:
        """Deletes what is under the keys, and inserts the rows, in the transaction that is open."""
        connection = self._connection
        if keys.num_rows:
            connection.register("gone", keys)
            joined = " AND ".join(f"x.{name} = gone.{name}" for name in held.keys.columns)
            connection.execute(f"DELETE FROM {table_name(held.table.storage_id)} AS x USING gone WHERE {joined}")
            connection.unregister("gone")
        if rows.num_rows:
            self._insert(connection, held, rows)

    def _widen(self, held: _Held) -> _Held:
        """From now on the table's arrays are held as text."""
        wide = replace(held, whole=True)
        wide.columns = ", ".join(name for name, _ in _column_types(wide))
        name = table_name(held.table.storage_id)
        self._connection.execute(f"CREATE OR REPLACE TABLE {name} AS SELECT {self._as_whole(held)} FROM {name}")
        self._held[held.table.storage_id] = wide
        return wide

    def whole_view(self, cursor: Any, storage_id: int) -> None:
        """Gives the cursor `w<storage_id>`: the table with its arrays as text."""
        selected = self._as_whole(self._held[storage_id])
        cursor.execute(f"CREATE TEMP VIEW w{storage_id} AS SELECT {selected} FROM {table_name(storage_id)}")

    def _as_whole(self, held: _Held) -> str:
        """The columns of a table, arrays as text."""
        selected = []
        for name, kind in _column_types(held):
            if name in held.arrays and not held.whole:
                signature = whole_signature(held.arrays[name], kind)
                self._need(signature)
                selected.append(f"{signature.name}({name}) AS {name}")
            else:
                selected.append(name)
        return ", ".join(selected)

    def overlay(self, cursor: Any, storage_id: int, parts: Sequence[Pairs], use: ArrayUse) -> None:
        """Gives the cursor `o<storage_id>` (rows) and `x<storage_id>` (keys that are replaced or gone).

        Of a key in several parts the last one counts; within a part each occurs once. Raises `ShapedArray` if the query
        reads arrays as LISTs and one of the rows has another.
        """
        held = self._held[storage_id]
        whole = held.whole or use.whole
        kinds = _column_types(held, whole)
        selected = [f"CAST({_held_form(held, name)} AS {kind}) AS {name}" for name, kind in kinds]
        try:
            keys, rows = self._overlaid(held, parts, held.codec.whole_batches if whole else held.codec.batches)
        except ShapedArray:
            if storage_id in use.tables:
                raise
            keys, rows = self._overlaid(held, parts, held.codec.whole_batches)
            selected = [
                f"CAST({'NULL' if name in held.arrays else _held_form(held, name)} AS {kind}) AS {name}"
                for name, kind in kinds
            ]
        cursor.register(f"x{storage_id}", keys)
        cursor.register(f"n{storage_id}", rows)
        cursor.execute(f"CREATE TEMP VIEW o{storage_id} AS SELECT {', '.join(selected)} FROM n{storage_id}")

    def _overlaid(self, held: _Held, parts: Sequence[Pairs], batches: RowBatches) -> tuple[pa.Table, pa.Table]:
        keys: list[pa.Table] = []
        rows: list[pa.Table] = []
        seen: list[Any] = []
        for part in reversed(parts):
            unseen = part.without(pa.concat_arrays(seen)) if seen else part
            seen.append(part.keys)
            part_keys, part_rows = _decode(held, unseen, batches)
            keys.append(part_keys)
            rows.append(part_rows)
        return pa.concat_tables(keys), pa.concat_tables(rows)

    def drop(self, storage_id: int) -> None:
        """Forgets a table; running queries keep their snapshot of it."""
        self.lost.pop(storage_id, None)
        if self._held.pop(storage_id, None) or self._found.pop(storage_id, None):
            self._connection.execute(f"DROP TABLE {table_name(storage_id)}")

    def lose(self, storage_id: int, error: SqlError) -> None:
        """Drops a table that can no longer be kept up. Of the error what it says is kept, not what it was met in."""
        self.drop(storage_id)
        self.lost[storage_id] = SqlError(error.sqlstate, error.message, detail=error.detail, hint=error.hint)

    def check(self, storage_ids: Iterable[int], use: ArrayUse) -> None:
        """Raises the error of the first of these tables that is lost, or `ShapedArray` for one whose arrays are not
        LISTs, as the query would read them."""
        for storage_id in storage_ids:
            if storage_id not in self._held:
                raise self.lost.get(storage_id) or SqlError("XX000", f"columnar table {storage_id} is not loaded")
            if self._held[storage_id].whole and not use.whole and storage_id in use.tables:
                raise ShapedArray

    def _insert(self, connection: Any, held: _Held, rows: pa.Table) -> None:
        self._check_room(rows.num_rows)
        connection.register("fresh", rows)
        selected = ", ".join(_held_form(held, name) for name, _ in _column_types(held))
        name = table_name(held.table.storage_id)
        connection.execute(f"INSERT INTO {name} ({held.columns}) SELECT {selected} FROM fresh")
        connection.unregister("fresh")
        self._progress.add(rows.num_rows, rows.nbytes)


@contextmanager
def _transaction(connection: Any) -> Iterator[None]:
    """BEGIN, and COMMIT or ROLLBACK. The error is the one that was met first: after it DuckDB takes nothing but
    ROLLBACK, which `unregister` is not, and no ROLLBACK where COMMIT has failed."""
    connection.execute("BEGIN")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        with suppress(Exception):
            connection.execute("ROLLBACK")
        with suppress(Exception):
            connection.unregister("fresh")
        raise
    finally:
        with suppress(Exception):
            connection.unregister("gone")


def _together(parts: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """The same rows in larger tables: DuckDB works on several of its row groups at a time, and each INSERT costs."""
    pending: list[pa.Table] = []
    rows = size = 0
    for part in parts:
        if part.num_rows:
            pending.append(part)
            rows, size = rows + part.num_rows, size + part.nbytes
        if rows >= TOGETHER_ROWS or size >= TOGETHER_BYTES:
            yield pa.concat_tables(pending)
            pending, rows, size = [], 0, 0
    if pending:
        yield pa.concat_tables(pending)


def _ahead(items: Iterator[Item]) -> Generator[Item, None, None]:
    """The same items; each is made while what came before is used."""
    with ThreadPoolExecutor(1, "build") as thread:
        coming = thread.submit(next, items, None)
        while (item := coming.result()) is not None:
            coming = thread.submit(next, items, None)
            yield item


def _decode(held: _Held, pairs: Pairs, batches: RowBatches) -> tuple[pa.Table, pa.Table]:
    """The key columns of all pairs, and the rows of those that have one."""
    return held.keys.decode(pairs.keys), _with_key(held, batches.decode(pairs.rows), pairs.row_keys)


def read_run(path: str, storage_id: int) -> Iterator[Pairs]:
    """The pairs of one storage id in a bulk run's file (engine/storage/runs.py), a batch at a time."""
    prefix = storage_prefix(storage_id)
    with pa.memory_map(path) as source:
        reader = pa.ipc.open_file(source)
        for index in range(reader.num_record_batches):
            keys, values = reader.get_batch(index).columns
            if not (keys[0].as_py().startswith(prefix) and keys[-1].as_py().startswith(prefix)):
                wanted = pc.starts_with(keys, pattern=prefix)
                keys, values = keys.filter(wanted), values.filter(wanted)
            if len(keys):
                yield Pairs.of(keys, values)


def _prepare(description: Any, token: str, *, whole: bool = False) -> _Held:
    table = table_of(description)
    arrays = {f"c{column.number}": column.type.oid for column in table.columns if takes_shapes(column.type.oid)}
    padded = frozenset(f"c{column.number}" for column in table.columns if has_blanks(column.type))
    text = _text_of(description)
    held = _Held(table, RowCodec(table), KeyPlan(table), "", arrays, padded, whole, text, token)
    held.columns = ", ".join(name for name, _ in _column_types(held))
    return held


def _text_of(description: Any) -> str:
    """A description as text, equal for tables that are the same in every respect."""
    return json.dumps({name: part for name, part in description.items() if name != "bases"}, sort_keys=True)


def _held_form(held: _Held, name: str) -> str:
    """A column of fresh rows as the table has it: char(n) without the blanks that pad it."""
    return f"rtrim({name}, ' ')" if name in held.padded else name


def _column_types(held: _Held, whole: bool | None = None) -> list[tuple[str, str]]:
    found = [
        (f"c{column.number}", types.lookup(column.type.oid).duckdb_type(column.type.typmod))
        for column in held.table.columns
    ]
    if held.whole if whole is None else whole:
        found = [(name, "VARCHAR" if name in held.arrays else kind) for name, kind in found]
    if held.keys.columns == (ROW_NUMBER,):
        found.append((ROW_NUMBER, "BIGINT"))
    elif held.keys.is_encoded:
        found.append((ENCODED, "BLOB"))
    return found


def _definition(held: _Held) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in _column_types(held))


def _with_key(held: _Held, rows: pa.RecordBatch, keys: Any) -> pa.Table:
    """The rows with their hidden key column, if the table has one. `keys`: a binary array, or a list of bytes. Raises
    0A000 for what DuckDB has no form for."""
    check_rows(rows)
    table = pa.Table.from_batches([rows])
    if held.keys.columns == (ROW_NUMBER,) or held.keys.is_encoded:
        name = held.keys.columns[0]
        array = keys if isinstance(keys, pa.Array) else pa.array(keys, type=pa.binary())
        key = held.keys.decode(array).column(name)
        # A batch without columns has no length that a column could be appended to.
        table = table.append_column(name, key) if table.num_columns else pa.table({name: key})
    return table
