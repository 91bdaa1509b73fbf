"""One table of changes on a node: makes its rows and reads them (engine/changes/record.py has their form).

Writes become part of a transaction's commit, and reads return durable rows. `end` counts the bytes of all changes ever
written there. A new leader first reads it from the newest row.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from catalog.schema import Table
from catalog.types import oids
from catalog.types.base import TypeRef
from engine.changes import record
from engine.changes.shapes import ReadShape, decode_shape
from engine.storage.keys import row_key_encoder, storage_prefix
from engine.storage.rows import codec_of

if TYPE_CHECKING:
    from engine.storage.interface import Reader
    from engine.storage.tablespace import Tablespace


_GONE = struct.Struct("<qQ")


class Kept(Protocol):
    """A shape, and the streams with its changes."""

    @property
    def encoded(self) -> bytes: ...
    @property
    def streams(self) -> tuple[int, ...]: ...


class Changes(Protocol):
    """Changes of one transaction: encoded, with the shapes that they need and the size of the changes that they refer
    to."""

    @property
    def changes(self) -> list[bytes]: ...
    @property
    def shapes(self) -> Mapping[int, Kept]: ...
    @property
    def referred(self) -> int: ...


class Log:
    """A table of changes. `space` is its tablespace."""

    def __init__(self, table: Table, space: Tablespace) -> None:
        self.table = table
        self.space = space
        self.prefix = storage_prefix(table.storage_id)
        self._codec = codec_of(table)
        self._key = row_key_encoder(table.storage_id, (TypeRef(oids.INT8), TypeRef(oids.INT4)))
        self._end: int | None = None  # None: not known
        self._streams: dict[tuple[int, ...], tuple[int, ...]] = {}  # by shapes that are in the table
        self._shapes: dict[int, ReadShape] = {}

    def key(self, lsn: int, part: int = 0) -> bytes:
        """The key of a part."""
        return self._key((lsn, part))

    # ---- writing ----------------------------------------------------------------------------------------------------

    def write(self, writes: dict[bytes, bytes | None], found: Changes, now: int, schema_version: int) -> int:
        """Adds the changes to the writes of the commit that is sequenced next, and returns their size in bytes."""
        lsn = self.space.sequenced_lsn + 1
        streams = self._streams.get(key := tuple(found.shapes))
        if streams is None:
            streams = self._streams_of(key, found.shapes, writes)
        before = self.end()
        end = before + found.referred
        parts = _parts(found.changes)
        for number, part in enumerate(parts):
            end += len(part)
            head = record.encode_head(number == len(parts) - 1, now, schema_version, end, streams)
            writes[self._key((lsn, number))] = self._codec.encode((lsn, number, head + part))
        self._end = end
        return end - before

    def _streams_of(
        self, key: tuple[int, ...], shapes: Mapping[int, Kept], writes: dict[bytes, bytes | None]
    ) -> tuple[int, ...]:
        """The streams with changes of these shapes. Adds the shapes to the writes until they are surely stored, because
        a commit may fail."""
        streams = tuple(sorted({stream for kept in shapes.values() for stream in kept.streams}))
        stored = True
        for shape, kept in shapes.items():
            place = self.key(-1 - shape)
            if self.space.newest(place) is None:
                stored = False
                writes[place] = self._codec.encode((-1 - shape, 0, kept.encoded))
        if stored:
            self._streams[key] = streams
        return streams

    def end(self) -> int:
        """The total number of bytes of changes ever written."""
        if self._end is None:
            newest = next(self.space.scan_newest(self.key(1), self.key(record.BULK), reverse=True), None)
            if newest is not None:
                self._end = record.decode_head(self.body(newest[1])).end
            else:
                row = self.space.newest(self.key(0))
                self._end = 0 if row is None or row[1] is None else decode_gone(self.body(row[1]))[1]
        return self._end

    # ---- reading ----------------------------------------------------------------------------------------------------

    def body(self, row: bytes) -> bytes:
        """The body of a stored row."""
        found: bytes = self._codec.decode(row)[2]
        return found

    def parts(self, reader: Reader, after: int) -> Iterator[tuple[int, int, bytes]]:
        """(LSN, number, body) of the parts of the commits above an LSN, in ascending order."""
        decode: Any = self._codec.decode
        return (decode(row) for _, row in reader.scan(self.key(after + 1), self.key(record.BULK)))

    def parts_back(self, reader: Reader) -> Iterator[tuple[int, bytes]]:
        """(LSN, body) of all parts, newest first."""
        decode: Any = self._codec.decode
        for _, row in reader.scan(self.key(1), self.key(record.BULK), reverse=True):
            lsn, _, body = decode(row)
            yield lsn, body

    def read_referred(self, reader: Reader, reference: bytes, first: int = 0) -> Iterator[record.Change]:
        """The changes that one change of a commit refers to, from number `first` (0 or more)."""
        number, _, _ = record.REFERRED.unpack(reference)
        for _, row in reader.scan(self.key(number, first), self.key(number + 1)):
            yield from record.decode_changes(self.body(row), 0)

    def shape(self, reader: Reader, shape: int) -> ReadShape:
        """The shape with that id."""
        found = self._shapes.get(shape)
        if found is None:
            row = reader.get(self.key(-1 - shape))
            assert row is not None, "a change without its shape"
            found = self._shapes[shape] = decode_shape(self.body(row))
        return found

    def get_trimmed(self, reader: Reader) -> tuple[int, int]:
        """The newest LSN whose changes were removed, or 0, and the bytes of changes up to there."""
        row = reader.get(self.key(0))
        return (0, 0) if row is None else decode_gone(self.body(row))

    def gone_row(self, lsn: int, end: int) -> bytes:
        """The stored row with this information."""
        return self._codec.encode((0, 0, _GONE.pack(lsn, end)))


def decode_gone(body: bytes) -> tuple[int, int]:
    """Decodes the row with LSN 0."""
    lsn, end = _GONE.unpack(body)
    return lsn, end


def _parts(changes: list[bytes]) -> list[bytes]:
    """Changes joined to bodies of about PART_BYTES."""
    if sum(map(len, changes)) <= record.PART_BYTES:
        return [b"".join(changes)]
    parts: list[bytes] = []
    group: list[bytes] = []
    size = 0
    for change in changes:
        group.append(change)
        size += len(change)
        if size >= record.PART_BYTES:
            parts.append(b"".join(group))
            group, size = [], 0
    return [*parts, b"".join(group)] if group else parts
