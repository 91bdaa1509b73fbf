"""A table in the worker: its columns in DuckDB, and the conversion of rows to them."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from catalog.schema import Table
from catalog.types.text import has_blanks
from engine.columnar.descriptions import stored_kind, table_of, text_of
from engine.columnar.frames import Pairs
from engine.columnar.worker.keys import ENCODED, ROW_NUMBER, KeyPlan
from engine.columnar.worker.timestamps import check_rows
from engine.storage.columns import takes_shapes
from engine.storage.keys import storage_prefix
from engine.storage.row_batches import RowBatches
from engine.storage.rows import RowCodec

Item = TypeVar("Item")
TOGETHER_ROWS = 500_000
TOGETHER_BYTES = 64 << 20  # of rows that are inserted together; a load needs a few times as much memory


@dataclass(slots=True)
class HeldTable:
    """The conversion of one table's rows to the worker's columns."""

    table: Table
    codec: RowCodec
    keys: KeyPlan
    columns: str  # the column list, in the table's order
    arrays: dict[str, int]  # columns that may be held as text, with their types
    padded: frozenset[str]  # columns of char(n)
    whole: bool  # its arrays are held as text, because a LIST cannot hold one of them
    description: str  # identifies the same table after a restart
    token: str  # of its list of changed keys (engine/storage/key_notes.py); "" if there is none
    lsn: int = 0  # the table has every change up to this LSN

    @property
    def batches(self) -> RowBatches:
        return self.codec.whole_batches if self.whole else self.codec.batches


def insert_rows(connection: Any, name: str, held: HeldTable, rows: pa.Table) -> None:
    """Inserts rows into the table `name`, in the open transaction."""
    connection.register("fresh", rows)
    connection.execute(f"INSERT INTO {name} ({held.columns}) SELECT {held.columns} FROM fresh")
    connection.unregister("fresh")


@contextmanager
def transaction(connection: Any) -> Iterator[None]:
    """Executes BEGIN, and COMMIT or ROLLBACK. Raises the first error, and ignores those of the cleanup: after an error
    DuckDB accepts only ROLLBACK, so `unregister` fails before it, and after a failed COMMIT ROLLBACK fails."""
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


def larger_tables(parts: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Yields the same rows in larger tables, because DuckDB processes several row groups in parallel, and each INSERT
    has a cost."""
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


def prefetch(items: Iterator[Item]) -> Generator[Item, None, None]:
    """Yields the same items; a thread makes the next item while the caller uses the current one."""
    with ThreadPoolExecutor(1, "build") as thread:
        coming = thread.submit(next, items, None)
        while (item := coming.result()) is not None:
            coming = thread.submit(next, items, None)
            yield item


def decode_pairs(held: HeldTable, pairs: Pairs, batches: RowBatches) -> tuple[pa.Table, pa.Table]:
    """Returns the key columns of all pairs, and the rows of the pairs that have a value."""
    return held.keys.decode(pairs.keys), rows_as_held(held, batches.decode(pairs.rows), pairs.row_keys)


def read_run(path: str, storage_id: int) -> Iterator[Pairs]:
    """Yields the pairs of one storage id in a bulk run's file (engine/storage/runs.py), batch by batch."""
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


def hold_table(description: Any, token: str, *, whole: bool = False) -> HeldTable:
    table = table_of(description)
    arrays = {f"c{column.number}": column.type.oid for column in table.columns if takes_shapes(column.type.oid)}
    padded = frozenset(f"c{column.number}" for column in table.columns if has_blanks(column.type))
    text = text_of(description)
    held = HeldTable(table, RowCodec(table), KeyPlan(table), "", arrays, padded, whole, text, token)
    held.columns = ", ".join(name for name, _ in column_types(held))
    return held


def column_types(held: HeldTable, whole: bool | None = None) -> list[tuple[str, str]]:
    as_text = held.whole if whole is None else whole
    found = [(f"c{column.number}", stored_kind(column.type, as_text)) for column in held.table.columns]
    if held.keys.columns == (ROW_NUMBER,):
        found.append((ROW_NUMBER, "BIGINT"))
    elif held.keys.is_encoded:
        found.append((ENCODED, "BLOB"))
    return found


def definition(held: HeldTable) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in column_types(held))


def rows_as_held(held: HeldTable, rows: pa.RecordBatch, keys: Any) -> pa.Table:
    """Returns the rows in the table's form: with the hidden key column, if the table has one, and char(n) without the
    padding blanks (no other character of UTF-8 contains the byte of a blank). `keys`: a binary array, or a list of
    bytes. Raises 0A000 for a value that DuckDB cannot store."""
    check_rows(rows)
    table = pa.Table.from_batches([rows])
    for place, name in enumerate(table.column_names):
        if name in held.padded:
            table = table.set_column(place, name, pc.ascii_rtrim(table.column(place), " "))
    if held.keys.columns == (ROW_NUMBER,) or held.keys.is_encoded:
        name = held.keys.columns[0]
        array = keys if isinstance(keys, pa.Array) else pa.array(keys, type=pa.binary())
        key = held.keys.decode(array).column(name)
        # A table without columns has length 0, so no column can be appended to it.
        table = table.append_column(name, key) if table.num_columns else pa.table({name: key})
    return table
