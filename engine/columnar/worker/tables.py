"""The worker's tables: built from LMDB, then kept up by deltas.

`t<storage_id>` has a column `c<attnum>` for every live column, and, where rows are found by something else than
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

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
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
from engine.columnar.worker.keys import ENCODED, ROW_NUMBER, KeyPlan
from engine.storage.columns import ShapedArray, takes_shapes
from engine.storage.keys import storage_prefix
from engine.storage.readonly import read_table_batches
from engine.storage.row_batches import RowBatches
from engine.storage.rows import RowCodec

Item = TypeVar("Item")


@dataclass(slots=True)
class _Held:
    table: Table
    codec: RowCodec
    keys: KeyPlan
    columns: str  # the column list, in the table's order
    arrays: dict[str, int]  # columns that may be held as text, with their types
    padded: frozenset[str]  # columns of char(n)
    whole: bool  # its arrays are held as text, since one of them is none for a LIST

    @property
    def batches(self) -> RowBatches:
        return self.codec.whole_batches if self.whole else self.codec.batches


@dataclass(frozen=True, slots=True)
class ArrayUse:
    """How a query reads arrays: as text that any array has (`whole`), or as LISTs, those of `tables`."""

    whole: bool
    tables: Sequence[int]


class Tables:
    """All tables of one DuckDB. `lost` maps a storage id to the error that cost us the table."""

    def __init__(self, connection: Any, need: Callable[[UdfSignature], None]) -> None:
        self._connection = connection
        self._need = need
        self._held: dict[int, _Held] = {}
        self.lost: dict[int, SqlError] = {}

    def load(self, description: Any, lmdb_path: str) -> int:
        """Builds the table from LMDB (or anew if it exists). Returns the LSN that LMDB had reached."""
        table = table_of(description)
        self.drop(table.storage_id)
        try:
            return self._build(_prepare(table), lmdb_path, description["bases"])
        except ShapedArray:
            return self._build(_prepare(table, whole=True), lmdb_path, description["bases"])

    def _build(self, held: _Held, lmdb_path: str, bases: Sequence[int]) -> int:
        storage_id = held.table.storage_id
        connection = self._connection
        lsn, batches = read_table_batches(lmdb_path, storage_id, held.batches, bases)
        with closing(batches), closing(_ahead(batches)) as made, _transaction(connection):
            connection.execute(f"CREATE TABLE t{storage_id} ({_definition(held)})")
            for keys, rows in made:
                self._insert(connection, held, _with_key(held, rows, keys))
        self._held[storage_id] = held
        return int(lsn)

    def describe_again(self, description: Any) -> None:
        """Takes a new description of a table whose columns stay (a new row layout)."""
        table = table_of(description)
        held = self._held.get(table.storage_id)
        if held is not None:  # else it is lost: the engine has been told
            self._held[table.storage_id] = _prepare(table, whole=held.whole)

    def apply_all(self, storage_id: int, parts: Iterator[Pairs]) -> None:
        """The delta in parts. A table without rows, which a bulk load has filled, needs no look for keys that go."""
        held = self._held.get(storage_id)
        name = f"t{storage_id}"
        if held is None or held.arrays or self._connection.execute(f"SELECT 1 FROM {name} LIMIT 1").fetchone():
            for pairs in parts:
                self.apply(storage_id, pairs)
            return
        with _transaction(self._connection):
            for rows in _ahead(_decode(held, pairs, held.batches)[1] for pairs in parts):
                if rows.num_rows:
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
        connection = self._connection
        with _transaction(connection):
            if keys.num_rows:
                connection.register("gone", keys)
                joined = " AND ".join(f"x.{name} = gone.{name}" for name in held.keys.columns)
                connection.execute(f"DELETE FROM t{storage_id} AS x USING gone WHERE {joined}")
            if rows.num_rows:
                self._insert(connection, held, rows)

    def _widen(self, held: _Held) -> _Held:
        """From now on the table's arrays are held as text."""
        wide = _prepare(held.table, whole=True)
        name = f"t{held.table.storage_id}"
        self._connection.execute(f"CREATE OR REPLACE TABLE {name} AS SELECT {self._as_whole(held)} FROM {name}")
        self._held[held.table.storage_id] = wide
        return wide

    def whole_view(self, cursor: Any, storage_id: int) -> None:
        """Gives the cursor `w<storage_id>`: the table with its arrays as text."""
        selected = self._as_whole(self._held[storage_id])
        cursor.execute(f"CREATE TEMP VIEW w{storage_id} AS SELECT {selected} FROM t{storage_id}")

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
        if self._held.pop(storage_id, None) is not None:
            self._connection.execute(f"DROP TABLE t{storage_id}")

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
        connection.register("fresh", rows)
        selected = ", ".join(_held_form(held, name) for name, _ in _column_types(held))
        connection.execute(f"INSERT INTO t{held.table.storage_id} ({held.columns}) SELECT {selected} FROM fresh")
        connection.unregister("fresh")


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


def _prepare(table: Table, *, whole: bool = False) -> _Held:
    arrays = {f"c{column.number}": column.type.oid for column in table.columns if takes_shapes(column.type.oid)}
    padded = frozenset(f"c{column.number}" for column in table.columns if has_blanks(column.type))
    held = _Held(table, RowCodec(table), KeyPlan(table), "", arrays, padded, whole)
    held.columns = ", ".join(name for name, _ in _column_types(held))
    return held


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
    """The rows with their hidden key column, if the table has one. `keys`: a binary array, or a list of bytes."""
    table = pa.Table.from_batches([rows])
    if held.keys.columns == (ROW_NUMBER,) or held.keys.is_encoded:
        name = held.keys.columns[0]
        array = keys if isinstance(keys, pa.Array) else pa.array(keys, type=pa.binary())
        key = held.keys.decode(array).column(name)
        # A batch without columns has no length that a column could be appended to.
        table = table.append_column(name, key) if table.num_columns else pa.table({name: key})
    return table
