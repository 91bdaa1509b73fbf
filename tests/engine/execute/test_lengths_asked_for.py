"""A function that makes as much as a number says asks for its memory first: a small call cannot hold the server."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import shoal

MAKERS = (
    "repeat('a', {})", "repeat('ab', {})", "lpad('a', {})", "rpad('a', {})", "lpad('a', {}, 'b')", "rpad('a', {}, 'b')",
    '"bit"(1, {})', '"bit"(-1::bigint, {})', "\"bit\"(B'1', {}, true)", "array_fill(1, ARRAY[{}])",
    "array_fill('a'::text, ARRAY[10000, {} / 10000])", "format('%{}s', 'a')", "format('%-{}s', 'a')",
    "format('%1$*2$s', 'a', {})", "bpchar('a', {}, true)",
)  # fmt: skip


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[shoal.Database]:
    folder: Path = tmp_path_factory.mktemp("lengths")
    with shoal.open(str(folder)) as opened:
        yield opened


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("length", ["1000000000", "(SELECT 1000000000)"])
def test_memory_is_reserved_before_it_is_used(database: shoal.Database, maker: str, length: str) -> None:
    if length.startswith("(") and "{}s'" in maker:
        pytest.skip("a pattern is a constant")
    began = time.monotonic()
    with pytest.raises(Exception) as raised:
        database.execute(f"SELECT length(({maker.format(length)})::text)").fetchall()
    assert getattr(raised.value, "sqlstate", None) in ("53200", "54000"), raised.value
    assert time.monotonic() - began < 1
