"""Writes the files of a table's ranges from a capture, in a thread."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from engine.checkpoint.capture import Capture, Pause
from engine.checkpoint.exact import EXACT_SCHEMA, ContentHash, OpenTable, with_places_from
from engine.checkpoint.manifest import RangeFile, StoredFile
from engine.checkpoint.ranges import Found, Rewrite
from engine.storage.columns import Column, one_array
from engine.storage.keys import PREFIX_BYTES, storage_prefix
from engine.storage.runs import file_checksum

GROUP_ROWS = 60_000
GROUP_BYTES = 16 << 20
COMPRESSION = "zstd"
COMPRESSION_LEVEL = 1
_EXACT_OPTIONS: Any = pa.ipc.IpcWriteOptions(compression=COMPRESSION)


def file_crc(path: str) -> str:
    """The CRC32C of a file, 8 hexadecimal digits."""
    return f"{file_checksum(path):08x}"


@dataclass(frozen=True, slots=True)
class Made:
    """Files that were written locally, and their entries in the manifest once they have a name."""

    path: str
    exact_path: str | None
    entry: RangeFile  # with local names


def key_bound(storage_id: int, cut: str | None) -> bytes:
    """A cut of the manifest as a whole key; b'' (no bound) for None."""
    return b"" if cut is None else storage_prefix(storage_id) + bytes.fromhex(cut)


class _RangeWriter:
    """Writes one file, and its companion if there are exceptions."""

    def __init__(self, table: OpenTable, path: str, low: str | None) -> None:
        self.rows = self.size = 0
        self._table = table
        self._path = path
        self._low = low
        self._file: Any = pq.ParquetWriter(
            path, table.schema, compression=COMPRESSION, compression_level=COMPRESSION_LEVEL
        )
        self._exact_path = path + ".exact"
        self._exact: Any = None
        self._exact_rows = 0
        self._written = 0
        self._waiting: list[tuple[Column, Column]] = []
        self._waiting_rows = self._waiting_bytes = 0
        self._content = ContentHash()
        self._nulled: Counter[str] = Counter()
        self._first = self._last = b""

    def add(self, keys: Column, rows: Column) -> None:
        if not self.rows:
            self._first = keys[0].as_py()
        self._last = keys[len(keys) - 1].as_py()
        size = pc.sum(pc.binary_length(rows)).as_py()
        self.rows += len(keys)
        self.size += size
        self._waiting.append((keys, rows))
        self._waiting_rows += len(keys)
        self._waiting_bytes += size
        if self._waiting_rows >= GROUP_ROWS or self._waiting_bytes >= GROUP_BYTES:
            self._write_group()

    def _write_group(self) -> None:
        keys, rows = (one_array(pa.concat_arrays(parts)) for parts in zip(*self._waiting, strict=True))
        self._waiting = []
        self._waiting_rows = self._waiting_bytes = 0
        self._content.add(keys, rows)
        opened = self._table.to_open(keys, rows)
        self._file.write_batch(opened.batch)
        self._nulled.update(opened.nulled)
        if opened.exact is not None:
            if self._exact is None:
                self._exact = pa.ipc.new_file(self._exact_path, EXACT_SCHEMA, options=_EXACT_OPTIONS)
            self._exact.write_batch(with_places_from(opened.exact, self._written))
            self._exact_rows += opened.exact.num_rows
        self._written += len(keys)

    def finish(self) -> Made:
        if self._waiting:
            self._write_group()
        self._file.close()
        exact = None
        if self._exact is not None:
            self._exact.close()
            exact = _describe_file(self._exact_path)
        first = self._first[PREFIX_BYTES:].hex()
        entry = RangeFile(
            _describe_file(self._path),
            self.rows,
            self.size,
            first if self._low is None else self._low,
            first,
            self._last[PREFIX_BYTES:].hex(),
            self._content.hexdigest(),
            exact,
            self._exact_rows,
            tuple(sorted(self._nulled.items())),
        )
        return Made(self._path, self._exact_path if exact else None, entry)

    def discard(self) -> None:
        """Closes the open files. The owner of the directory removes them."""
        self._file.close()
        if self._exact is not None:
            self._exact.close()


def _describe_file(path: str) -> StoredFile:
    return StoredFile(os.path.basename(path), os.path.getsize(path), file_crc(path))


def write_range(
    capture: Capture, table: OpenTable, step: Rewrite, directory: str, prefix: str, pause: Pause
) -> Iterator[Made]:
    """Writes the rows of a range to files `<prefix>-<number>` of a local directory. A range without rows has no
    file."""
    storage_id = table.table.storage_id
    low: str | None = step.low
    number = 0
    sink: _RangeWriter | None = None
    try:
        for keys, rows in capture.batches(
            storage_id, key_bound(storage_id, step.low), key_bound(storage_id, step.high), pause
        ):
            pause()
            place = 0
            while place < len(keys):
                if sink is None:
                    sink = _RangeWriter(table, os.path.join(directory, f"{prefix}-{number}"), low)
                    number, low = number + 1, None
                count = min(step.rows - sink.rows, len(keys) - place)
                sink.add(keys.slice(place, count), rows.slice(place, count))
                place += count
                if sink.rows >= step.rows or sink.size >= step.size:
                    made, sink = sink.finish(), None
                    yield made
        if sink is not None:
            made, sink = sink.finish(), None
            yield made
    finally:
        if sink is not None:
            sink.discard()


def look_at(
    capture: Capture, storage_id: int, files: tuple[RangeFile, ...], after: int, pause: Pause
) -> Iterator[Found]:
    """Finds the ranges of the checkpoint at LSN `after` that have changed since.

    It uses the list of changes, if the capture still has all of them. Otherwise it reads every row, and compares the
    hash of the range.
    """
    for place, old in enumerate(files):
        low = key_bound(storage_id, old.low)
        high = key_bound(storage_id, files[place + 1].low if place + 1 < len(files) else None)
        if after >= capture.known_since:
            end = high or key_bound(storage_id + 1, "")
            yield Found(old, capture.has_changed(storage_id, low, end, after), old.rows, old.stored_bytes)
            continue
        content, size = ContentHash(), 0
        for keys, rows in capture.batches(storage_id, low, high, pause):
            pause()
            content.add(keys, rows)
            size += pc.sum(pc.binary_length(rows)).as_py()
        yield Found(old, content.hexdigest() != old.content, content.rows, size)
