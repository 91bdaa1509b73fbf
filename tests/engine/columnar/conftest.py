"""A tablespace over a local changelog, and the columnar worker beside it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from catalog.schema import Column, Layout, Table
from catalog.types.base import TypeRef
from engine.columnar.client import WorkerClient
from engine.columnar.interface import ColumnarQuery, OutputColumn
from engine.storage.edits import Edits
from engine.storage.interface import Changelog
from engine.storage.keys import row_key_encoder, row_number_key
from engine.storage.rows import RowCodec
from engine.storage.tablespace import Tablespace
from replication.local import LocalChangelog


def make_table(storage_id: int, types: list[tuple[int, int]], key: tuple[int, ...]) -> Table:
    """A table with columns 1, 2, ... of these (type OID, typmod)."""
    references = tuple(TypeRef(*item) for item in types)
    columns = tuple(Column(number, f"column{number}", reference) for number, reference in enumerate(references, 1))
    layout = Layout(1, tuple(range(1, len(types) + 1)), references)
    return Table(storage_id, 2200, f"table{storage_id}", columns, storage_id, key, (layout,))


def query(sql: str, columns: list[tuple[int, str]], *tables: Table, **more: object) -> ColumnarQuery:
    """A ColumnarQuery whose output columns have these (type OID, DuckDB type)."""
    outputs = tuple(OutputColumn(f"o{i}", TypeRef(oid), kind) for i, (oid, kind) in enumerate(columns))
    fields: dict[str, object] = {"virtual_tables": (), "parameters": (), **more}
    return ColumnarQuery(sql=sql, columns=outputs, tables=tables, **fields)  # type: ignore[arg-type]


class Database:
    """A store with rows written through it, as commits are."""

    def __init__(self, store: Tablespace, client: WorkerClient) -> None:
        self.store = store
        self.client = client
        self._changed = asyncio.Event()
        store.on_durable(lambda _: self._changed.set())

    def key(self, table: Table, row: tuple[object, ...]) -> bytes:
        if not table.key_columns:
            raise ValueError("rows without a primary key are named by their number")
        references = [table.column_by_number(number).type for number in table.key_columns]
        return row_key_encoder(table.storage_id, references)([row[number - 1] for number in table.key_columns])

    def writes(self, table: Table, *rows: tuple[object, ...]) -> dict[bytes, bytes | None]:
        codec = RowCodec(table)
        return {self.key(table, row): codec.encode(row) for row in rows}

    def numbered(self, table: Table, rows: dict[int, tuple[object, ...] | None]) -> dict[bytes, bytes | None]:
        codec = RowCodec(table)
        return {
            row_number_key(table.storage_id, number): None if row is None else codec.encode(row)
            for number, row in rows.items()
        }

    def submit(self, writes: dict[bytes, bytes | None]) -> int:
        """Sequences a commit, which will be durable later."""
        return self.store.sequence(Edits(writes), 0, 1)

    async def commit(self, writes: dict[bytes, bytes | None]) -> int:
        lsn = self.submit(writes)
        await self.durable(lsn)
        return lsn

    async def durable(self, lsn: int) -> None:
        while self.store.durable_lsn < lsn:
            self._changed.clear()
            await asyncio.wait_for(self._changed.wait(), 20)

    async def flush(self) -> None:
        """Moves everything into LMDB."""
        await self.durable(self.store.sequenced_lsn)
        done = asyncio.Event()
        self.store.flush(done.set)
        await asyncio.wait_for(done.wait(), 20)

    async def fetch(
        self, wanted: ColumnarQuery, reader: object = None, *parameters: object
    ) -> list[tuple[object, ...]]:
        """The rows of a query, as Python values of DuckDB's types."""
        stream = await self.client.batches(wanted, parameters, reader if reader is not None else self.store.current)
        rows: list[tuple[object, ...]] = []
        async for batch in stream:
            rows.extend(zip(*(column.to_pylist() for column in batch.columns), strict=True))  # type: ignore[attr-defined]
        return rows


def open_store(path: Path) -> Tablespace:
    loop = asyncio.get_running_loop()

    def thread(work: Callable[[], None]) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(work)

    def open_changelog(
        tablespace: bytes, committed: Callable[[int], None], failed: Callable[[BaseException], None]
    ) -> Changelog:
        return LocalChangelog(
            str(path / "changelog"), thread, tablespace=tablespace, on_committed=committed, on_failure=failed
        )

    return Tablespace.open(str(path), open_changelog, thread)


@pytest_asyncio.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    store = open_store(tmp_path)
    client = WorkerClient(store, directory=str(tmp_path / "columnar"), memory_limit=512 << 20, threads=2)
    try:
        yield Database(store, client)
    finally:
        await client.close()
        store.close()


__all__ = ["Database", "make_table", "open_store", "pytest", "query"]
