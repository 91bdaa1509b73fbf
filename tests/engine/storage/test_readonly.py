"""Reading a whole table from LMDB, as the columnar worker does."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.storage.keys import row_key_encoder, row_number_key
from engine.storage.readonly import read_table_batches
from engine.storage.rows import RowCodec
from tests.engine.storage.harness import Store, key
from tests.engine.storage.samples import make_table


@pytest.mark.parametrize("long", [False, True])  # whether a value lies in pages of its own
@pytest.mark.parametrize("count", [0, 1, 9, 10, 11, 25])
def test_a_table_is_read_in_batches_with_its_lsn(tmp_path: Path, count: int, long: bool) -> None:
    table = make_table("int4", "text")
    codec = RowCodec(table)
    encode_key = row_key_encoder(table.storage_id, [table.columns[0].type])
    rows = [(number, f"row {number}" * (1000 if long and number == 7 else 1)) for number in range(count)]
    store = Store(tmp_path)
    store.commit({key(1, table.storage_id - 1): b"before", key(1, table.storage_id + 1): b"behind"})
    store.commit({encode_key(row): codec.encode(row) for row in rows})
    path = store.space.checkpoint_path
    store.close()
    lsn, batches = read_table_batches(path, table.storage_id, codec.batches, batch_rows=10)
    parts = list(batches)
    assert lsn == 2
    assert [found for keys, _ in parts for found in keys.to_pylist()] == [encode_key(row) for row in rows]
    assert [tuple(row.values()) for _, batch in parts for row in batch.to_pylist()] == rows
    assert all(len(keys) == batch.num_rows for keys, batch in parts)


def test_hidden_row_numbers_are_in_the_keys(tmp_path: Path) -> None:
    table = make_table("text", key=())
    codec = RowCodec(table)
    store = Store(tmp_path)
    store.commit({row_number_key(table.storage_id, 5): codec.encode(("x",))})
    path = store.space.checkpoint_path
    store.close()
    _, batches = read_table_batches(path, table.storage_id, codec.batches)
    assert [keys.to_pylist() for keys, _ in batches] == [[row_number_key(table.storage_id, 5)]]
