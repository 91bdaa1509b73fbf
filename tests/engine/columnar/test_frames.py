"""Pairs of keys and values as five buffers, one by one and as whole columns."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest

from engine.columnar.frames import Buffer, Pairs, encode_columns, encode_pairs

PAIRS: list[tuple[bytes, bytes | None]] = [(b"a", b"1"), (b"bb", None), (b"", b""), (b"ccc", b"4" * 1000)]


def pairs_of(buffers: Sequence[Buffer]) -> tuple[object, object, object]:
    pairs = Pairs.from_buffers([memoryview(buffer) for buffer in buffers])
    return pairs.keys.to_pylist(), pairs.row_keys.to_pylist(), pairs.rows.to_pylist()


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()])
@pytest.mark.parametrize(("first", "count"), [(0, 4), (1, 3), (1, 1), (2, 2), (0, 0), (4, 0)])
def test_columns_are_encoded_as_their_pairs(kind: pa.DataType, first: int, count: int) -> None:
    keys, values = (pa.array([pair[part] for pair in PAIRS], kind).slice(first, count) for part in (0, 1))
    wanted = encode_pairs(PAIRS[first : first + count])
    assert [bytes(piece) for piece in encode_columns(keys, values)] == [bytes(piece) for piece in wanted]
    part = PAIRS[first : first + count]
    rows = [(key, value) for key, value in part if value is not None]
    assert pairs_of(wanted) == ([key for key, _ in part], [key for key, _ in rows], [value for _, value in rows])
