"""The worker's tables: built from LMDB, then kept up by deltas.

`t<storage_id>` has a column `c<attnum>` for every live column, and, where rows are found by something else than
columns, `r` (hidden row number) or `k` (encoded key): see keys.py. A delta is one DuckDB transaction with one delete
(a join on the key columns) and one insert, so a query's pinned snapshot sees all of it or nothing. Only one thread,
the applier, writes.

What cannot be applied (out of memory, a row that does not decode) makes the table *lost*: it is dropped, queries that
name it get the error, and the engine loads it again when it is next asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from catalog import types
from catalog.errors import SqlError
from catalog.schema import Table
from engine.columnar.descriptions import table_of
from engine.columnar.frames import Pairs
from engine.columnar.worker.keys import ENCODED, ROW_NUMBER, KeyPlan
from engine.storage.keys import storage_prefix
from engine.storage.readonly import read_table_batches
from engine.storage.rows import RowCodec


@dataclass(slots=True)
class _Held:
    table: Table
    codec: RowCodec
    keys: KeyPlan
    columns: str  # the column list, in the table's order


class Tables:
    """All tables of one DuckDB. `lost` maps a storage id to the error that cost us the table."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._held: dict[int, _Held] = {}
        self.lost: dict[int, SqlError] = {}

    def load(self, description: Any, lmdb_path: str) -> int:
        """Builds the table from LMDB (or anew if it exists). Returns the LSN that LMDB had reached."""
        held = _prepare(table_of(description))
        storage_id = held.table.storage_id
        self.drop(storage_id)
        connection = self._connection
        lsn, batches = read_table_batches(lmdb_path, storage_id, held.codec)
        connection.execute("BEGIN")
        try:
            connection.execute(f"CREATE TABLE t{storage_id} ({_definition(held)})")
            for keys, rows in batches:
                self._insert(connection, held, _with_key(held, rows, keys))
            connection.execute("COMMIT")
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        self._held[storage_id] = held
        return int(lsn)

    def describe_again(self, description: Any) -> None:
        """Takes a new description of a table whose columns stay (a new row layout)."""
        held = _prepare(table_of(description))
        self._held[held.table.storage_id] = held

    def apply(self, storage_id: int, pairs: Pairs) -> None:
        """One delta: every key is deleted, and inserted anew where it has a value. Each key occurs once."""
        held = self._held.get(storage_id)
        if held is None:
            return  # lost: the engine has been told
        keys, rows = self._decoded(held, pairs)
        connection = self._connection
        connection.execute("BEGIN")
        try:
            if keys.num_rows:
                connection.register("gone", keys)
                joined = " AND ".join(f"x.{name} = gone.{name}" for name in held.keys.columns)
                connection.execute(f"DELETE FROM t{storage_id} AS x USING gone WHERE {joined}")
            if rows.num_rows:
                self._insert(connection, held, rows)
            connection.execute("COMMIT")
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        finally:
            connection.unregister("gone")

    def overlay(self, cursor: Any, storage_id: int, parts: Sequence[Pairs]) -> None:
        """Gives the cursor `o<storage_id>` (rows) and `x<storage_id>` (keys that are replaced or gone).

        Of a key in several parts the last one counts; within a part each occurs once.
        """
        held = self._held[storage_id]
        keys: list[pa.Table] = []
        rows: list[pa.Table] = []
        seen: list[Any] = []
        for part in reversed(parts):
            unseen = part.without(pa.concat_arrays(seen)) if seen else part
            seen.append(part.keys)
            part_keys, part_rows = self._decoded(held, unseen)
            keys.append(part_keys)
            rows.append(part_rows)
        cursor.register(f"x{storage_id}", pa.concat_tables(keys))
        cursor.register(f"n{storage_id}", pa.concat_tables(rows))
        casts = ", ".join(f"CAST({name} AS {kind}) AS {name}" for name, kind in _column_types(held))
        cursor.execute(f"CREATE TEMP VIEW o{storage_id} AS SELECT {casts} FROM n{storage_id}")

    def drop(self, storage_id: int) -> None:
        """Forgets a table; running queries keep their snapshot of it."""
        self.lost.pop(storage_id, None)
        if self._held.pop(storage_id, None) is not None:
            self._connection.execute(f"DROP TABLE t{storage_id}")

    def lose(self, storage_id: int, error: SqlError) -> None:
        """Drops a table that can no longer be kept up."""
        self.drop(storage_id)
        self.lost[storage_id] = error

    def check(self, storage_ids: Iterable[int]) -> None:
        """Raises the error of the first of these tables that is lost."""
        for storage_id in storage_ids:
            if storage_id not in self._held:
                raise self.lost.get(storage_id) or SqlError("XX000", f"columnar table {storage_id} is not loaded")

    def _decoded(self, held: _Held, pairs: Pairs) -> tuple[pa.Table, pa.Table]:
        """The key columns of all pairs, and the rows of those that have one."""
        rows = held.codec.batches.decode(pairs.rows)
        return held.keys.decode(pairs.keys), _with_key(held, rows, pairs.row_keys)

    def _insert(self, connection: Any, held: _Held, rows: pa.Table) -> None:
        connection.register("fresh", rows)
        try:
            connection.execute(
                f"INSERT INTO t{held.table.storage_id} ({held.columns}) SELECT {held.columns} FROM fresh"
            )
        finally:
            connection.unregister("fresh")


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


def _prepare(table: Table) -> _Held:
    held = _Held(table, RowCodec(table), KeyPlan(table), "")
    held.columns = ", ".join(name for name, _ in _column_types(held))
    return held


def _column_types(held: _Held) -> list[tuple[str, str]]:
    found = [
        (f"c{column.number}", types.lookup(column.type.oid).duckdb_type(column.type.typmod))
        for column in held.table.columns
    ]
    if held.keys.columns == (ROW_NUMBER,):
        found.append((ROW_NUMBER, "BIGINT"))
    elif held.keys.encoded:
        found.append((ENCODED, "BLOB"))
    return found


def _definition(held: _Held) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in _column_types(held))


def _with_key(held: _Held, rows: pa.RecordBatch, keys: Any) -> pa.Table:
    """The rows with their hidden key column, if the table has one. `keys`: a binary array, or a list of bytes."""
    table = pa.Table.from_batches([rows])
    if held.keys.columns == (ROW_NUMBER,) or held.keys.encoded:
        name = held.keys.columns[0]
        array = keys if isinstance(keys, pa.Array) else pa.array(keys, type=pa.binary())
        key = held.keys.decode(array).column(name)
        # A batch without columns has no length that a column could be appended to.
        table = table.append_column(name, key) if table.num_columns else pa.table({name: key})
    return table
