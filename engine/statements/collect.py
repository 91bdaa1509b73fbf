"""A sink that stores the rows, which count as memory of the connection: for cursors, which may be read backwards, and
for EXPLAIN ANALYZE."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

from catalog.errors import SqlError, not_supported
from catalog.memory import Account, Holding
from catalog.types import lookup
from catalog.types.base import FormatSettings, TypeRef
from engine.bulk.progress import CopySource
from engine.session.prepared import Prepared

_LENGTH = struct.Struct(">i")


class Collector:
    """Stores rows; engine.session.answer.Sink."""

    def __init__(self, account: Account) -> None:
        self.chunks: list[bytes] = []
        self.holding = Holding(account)

    def fields(self, prepared: Prepared, formats: tuple[int, ...]) -> None:
        pass

    async def rows(self, data: bytes) -> None:
        self.holding.add(len(data))
        self.chunks.append(data)

    def complete(self, tag: str) -> None:
        pass

    def suspend(self) -> None:
        pass

    def empty(self) -> None:
        pass

    def notice(self, notice: SqlError) -> None:
        pass

    async def copy_in(self, columns: int, binary: bool) -> CopySource:
        not_supported("COPY in a cursor")

    def copy_out(self, columns: int, binary: bool) -> None:
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


def reformat_rows(rows: list[bytes], prepared: Prepared, have: Sequence[int], want: Sequence[int]) -> list[bytes]:
    """DataRow messages in other result formats: a cursor's rows were made before FETCH chose its formats."""
    types = [field.type for field in prepared.fields or ()]
    convert = [
        None if before == after else _converter(reference, after, prepared.key.format)
        for reference, before, after in zip(types, have, want, strict=True)
    ]
    return [_convert(row, convert) for row in rows]


def _converter(reference: TypeRef, code: int, settings: FormatSettings) -> Callable[[bytes], bytes]:
    """Text to binary (code 1) or binary to text (code 0)."""
    known = lookup(reference.oid)
    if code == 1:
        read, send = known.text_decoder(settings), known.binary_encoder()
        return lambda value: send(read(value.decode()))
    receive, write = known.binary_decoder(), known.text_encoder(settings)
    return lambda value: write(receive(value))


def _convert(row: bytes, convert: Sequence[Callable[[bytes], bytes] | None]) -> bytes:
    position = 7
    parts = [row[5:7]]
    for converter in convert:
        length = _LENGTH.unpack_from(row, position)[0]
        position += 4
        if length < 0:
            parts.append(b"\xff\xff\xff\xff")
            continue
        value = row[position : position + length]
        position += length
        if converter is not None:
            value = converter(value)
        parts += (_LENGTH.pack(len(value)), value)
    body = b"".join(parts)
    return b"D" + _LENGTH.pack(len(body) + 4) + body


def decode_row(message: bytes, decoders: Sequence[Callable[[bytes], object]]) -> tuple[object, ...]:
    """The values of a DataRow message in binary, in internal form."""
    position = 7
    found: list[object] = []
    for decode in decoders:
        length = int.from_bytes(message[position : position + 4], "big", signed=True)
        position += 4
        if length < 0:
            found.append(None)
            continue
        found.append(decode(message[position : position + length]))
        position += length
    return tuple(found)
