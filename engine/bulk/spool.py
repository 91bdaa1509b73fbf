"""Keeps result rows until the statement has written everything: in memory while they are few, then in a file."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from typing import IO

MEMORY_BYTES = 4 << 20


class RowSpool:
    """An engine.columnar.interface.ResultStream over DataRow messages from `add`."""

    def __init__(self) -> None:
        self._file: IO[bytes] = tempfile.SpooledTemporaryFile(MEMORY_BYTES)  # noqa: SIM115 - lives until it is read
        self._chunks: list[tuple[int, int]] = []  # (bytes, rows)

    def add(self, data: bytes | memoryview, rows: int) -> None:
        """Adds whole messages."""
        self._file.write(data)
        self._chunks.append((len(data), rows))

    async def __aiter__(self) -> AsyncIterator[tuple[bytes, int]]:
        self._file.seek(0)
        for size, rows in self._chunks:
            yield self._file.read(size), rows
        self._file.close()

    async def close(self) -> None:
        """Drops the rows that were not read."""
        self._file.close()
