"""A sink that keeps the rows: for cursors, which may be read backwards, and for EXPLAIN ANALYZE."""

from __future__ import annotations

import struct

from catalog.errors import SqlError, not_supported
from engine.session.prepared import Prepared
from engine.session.session import CopySource

_LENGTH = struct.Struct(">i")


class Collector:
    """See the module's text; engine.session.session.Sink."""

    def __init__(self) -> None:
        self.chunks: list[bytes] = []

    def fields(self, prepared: Prepared, formats: tuple[int, ...]) -> None:
        pass

    async def rows(self, data: bytes) -> None:
        self.chunks.append(data)

    def complete(self, tag: str) -> None:
        pass

    def suspended(self) -> None:
        pass

    def empty(self) -> None:
        pass

    def notice(self, notice: SqlError) -> None:
        pass

    async def copy_in(self, columns: int) -> CopySource:
        not_supported("COPY in a cursor")

    def copy_out(self, columns: int) -> None:
        not_supported("COPY in a cursor")

    def copy_out_done(self) -> None:
        pass

    def split(self) -> list[bytes]:
        """One DataRow message each."""
        data = b"".join(self.chunks)
        found = []
        position = 0
        while position < len(data):
            end = position + 1 + _LENGTH.unpack_from(data, position + 1)[0]
            found.append(data[position:end])
            position = end
        return found
