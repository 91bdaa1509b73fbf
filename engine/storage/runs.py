"""Bulk runs: the writes of a COPY or a large DML statement, in a file that the commit's changelog entry refers to.

A run is an Arrow IPC file of batches (key binary, value binary; NULL is a deletion). Each batch is in key order, and
the key ranges of the batches are disjoint, so a look-up is two binary searches in mapped memory and a scan reads
batches in the order of their first keys. No key occurs twice.

The writer sorts each batch that it is given. Batches that come in key order (new row numbers, sorted input) go to the
file once. If ranges overlap, `finish` merges: it cuts the key space at sampled keys and sorts one part at a time, so
that memory does not grow with the run.

The reference in the entry holds the file's CRC32C, which is verified when the changelog is replayed.
"""

from __future__ import annotations

import logging
import os
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, cast

import google_crc32c
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from catalog.errors import SqlError
from engine.storage.checkpoint import sync_directory, sync_file
from engine.storage.columns import Column, Numbers, one_array
from engine.storage.edits import RunReference
from engine.storage.keys import PREFIX_BYTES, prefix_range
from engine.storage.memtable import KEYS_SAMPLED, SIZE_SAMPLE, Memtable, Version
from engine.storage.views import overlay

log = logging.getLogger("shoal.storage")

BATCH_ROWS = 65_536
SLICE = 512
ARROW_SCHEMA: Any = pa.schema([("key", pa.binary()), ("value", pa.binary())])
_CRC_SLICE = 4 << 20


def _sink(path: str) -> Any:
    """A new file that only its owner can read, whatever the umask is."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600))
    return pa.OSFile(path, "wb")


class DuplicateKey(Exception):  # noqa: N818 - a finding for the caller, who knows the constraint to name in 23505
    """The same key was added twice; `key` is one of them."""

    def __init__(self, key: bytes) -> None:
        super().__init__("duplicate key in a bulk run")
        self.key = key


@dataclass(frozen=True, slots=True)
class Found:
    """The value of a key in a run; None is a deletion."""

    value: bytes | None


class BulkRunWriter:
    """Writes a run. `finish` or `discard` ends it; nothing refers to the file before a commit."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.rows = 0
        self.written = 0, 0
        """Rows and bytes that are in the file as whole batches: another process may read them already."""
        self.in_order = True
        """Whether every batch so far is behind the one before it, so that the file stays as it is."""
        self._file: Any = _sink(path)
        try:
            self._writer: Any = pa.ipc.new_file(self._file, ARROW_SCHEMA)
        except OSError:
            _remove(path)
            raise
        self._ranges: list[tuple[bytes, bytes]] = []

    def add(self, keys: Column, values: Column) -> None:
        """Adds keys (binary array, no NULLs) with their values (binary array, NULL deletes), in any order.

        Raises DuplicateKey for a key that occurs twice among them.
        """
        if len(keys) == 0:
            return
        keys, values = sort_by_key(one_array(keys), one_array(values))
        for start in range(0, len(keys), BATCH_ROWS):
            part = keys.slice(start, BATCH_ROWS)
            first, last = part[0].as_py(), part[-1].as_py()
            if self._ranges and first <= self._ranges[-1][1]:
                self.in_order = False
            self._ranges.append((first, last))
            self._writer.write_batch(
                pa.RecordBatch.from_arrays([part, values.slice(start, BATCH_ROWS)], schema=ARROW_SCHEMA)
            )
        self.rows += len(keys)
        self.written = self.rows, self._file.tell()

    def finish(self) -> BulkRun:
        """Makes the file durable and opens it. Raises DuplicateKey for a key in two of the batches."""
        self._writer.close()
        self._file.close()
        ranges = sorted(self._ranges)
        if any(later[0] <= earlier[1] for earlier, later in pairwise(ranges)):
            self._merge()
        sync_file(self.path)
        sync_directory(os.path.dirname(self.path))
        return BulkRun(self.path)

    def discard(self) -> None:
        """Removes the file, whether or not `finish` was called or has failed, also on a full disk."""
        for part in (self._writer, self._file):
            with suppress(OSError, pa.ArrowInvalid):  # the latter of one that is closed
                part.close()
        _remove(self.path)

    def find(self, key: bytes) -> bytes | None:
        """One value of a key that `finish` has found twice (DuplicateKey)."""
        with pa.memory_map(self.path) as source:
            reader = pa.ipc.open_file(source)
            for index in range(reader.num_record_batches):
                batch = _Batch(reader.get_batch(index))
                place = bisect_left(cast("Sequence[bytes]", batch), key)
                if place < len(batch) and batch[place] == key:
                    return batch.value(place)
        return None

    def _merge(self) -> None:
        merged = self.path + ".merged"
        try:
            with pa.memory_map(self.path) as source, _sink(merged) as sink:
                self._merge_into(sink, pa.ipc.open_file(source))
        except BaseException:
            _remove(merged)
            raise
        os.replace(merged, self.path)

    def _merge_into(self, sink: Any, reader: Any) -> None:
        batches = [_Batch(reader.get_batch(i)) for i in range(reader.num_record_batches)]
        with pa.ipc.new_file(sink, ARROW_SCHEMA) as writer:
            for low, high in _cuts(batches):
                parts = [batch.between(low, high) for batch in batches]
                table = pa.Table.from_batches([part for part in parts if part.num_rows], ARROW_SCHEMA)
                if table.num_rows:
                    keys, values = sort_by_key(one_array(table["key"]), one_array(table["value"]))
                    writer.write_batch(pa.RecordBatch.from_arrays([keys, values], schema=ARROW_SCHEMA))


class _Batch:
    """One sorted batch over mapped memory: a sequence of its keys."""

    __slots__ = ("_data", "_offsets", "batch", "first", "last")

    def __init__(self, batch: Any) -> None:
        self.batch = batch
        keys = batch.column(0)
        start = keys.offset
        offsets, data = keys.buffers()[1:]
        self._offsets = memoryview(offsets).cast("B").cast("i")[start : start + len(keys) + 1]
        self._data = memoryview(data)
        self.first = self[0]
        self.last = self[len(keys) - 1]

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitem__(self, index: int) -> bytes:
        return bytes(self._data[self._offsets[index] : self._offsets[index + 1]])

    def value(self, index: int) -> bytes | None:
        return cast("bytes | None", self.batch.column(1)[index].as_py())

    def between(self, low: bytes | None, high: bytes | None) -> Any:
        """The rows with low <= key < high; None is no bound."""
        keys = cast("Sequence[bytes]", self)
        start = 0 if low is None else bisect_left(keys, low)
        stop = len(self) if high is None else bisect_left(keys, high)
        return self.batch.slice(start, stop - start)


def _cuts(batches: list[_Batch]) -> list[tuple[bytes | None, bytes | None]]:
    """Ranges that cover all keys and hold about BATCH_ROWS each: cut at samples of every batch's keys, thinned."""
    step = max(BATCH_ROWS // 16, 1)
    samples = sorted(batch[i] for batch in batches for i in range(0, len(batch), step))
    bounds: list[bytes | None] = [None, *dict.fromkeys(samples[BATCH_ROWS // step :: BATCH_ROWS // step]), None]
    return list(pairwise(bounds))


def sort_by_key(keys: Column, values: Column) -> tuple[Column, Column]:
    """Both arrays in key order. Raises DuplicateKey."""
    if len(keys) < 2:
        return keys, values
    numbers = _as_numbers(keys)
    if numbers is not None:
        if (numbers[1:] > numbers[:-1]).all():
            return keys, values
        order = np.argsort(numbers, kind="stable")
        ordered = numbers[order]
        same = np.flatnonzero(ordered[1:] == ordered[:-1])
        indices = pa.array(order)
    else:
        if pc.all(pc.less(keys.slice(0, len(keys) - 1), keys.slice(1))).as_py():
            return keys, values
        indices = pc.array_sort_indices(keys)
        taken = keys.take(indices)
        equal = pc.equal(taken.slice(0, len(keys) - 1), taken.slice(1))
        same = np.flatnonzero(equal.to_numpy(zero_copy_only=False))
    if len(same):
        raise DuplicateKey(keys[indices[int(same[0])].as_py()].as_py())
    return keys.take(indices), values.take(indices)


def _as_numbers(keys: Column) -> Numbers | None:
    """Keys of one storage id and one width up to 12 bytes as integers in the same order; None for any other."""
    offsets = np.frombuffer(keys.buffers()[1], "<i4", len(keys) + 1, keys.offset * 4)
    width = int(offsets[1] - offsets[0])
    if not PREFIX_BYTES < width <= PREFIX_BYTES + 8 or not (np.diff(offsets) == width).all():
        return None
    matrix = np.frombuffer(keys.buffers()[2], np.uint8, width * len(keys), int(offsets[0])).reshape(-1, width)
    if (matrix[:, :PREFIX_BYTES] != matrix[0, :PREFIX_BYTES]).any():
        return None
    padded = np.zeros((len(keys), 8), np.uint8)
    padded[:, 8 - (width - PREFIX_BYTES) :] = matrix[:, PREFIX_BYTES:]
    return padded.view(">u8").reshape(-1).astype(np.uint64)


def file_checksum(path: str) -> int:
    """CRC32C of a file."""
    crc = 0
    with open(path, "rb") as file:
        while data := file.read(_CRC_SLICE):
            crc = google_crc32c.extend(crc, data)
    return crc


class BulkRun:
    """A finished run, mapped into memory. `verify`: the file is compared with the reference's checksum (XX001)."""

    def __init__(self, path: str, reference: RunReference | None = None, verify: bool = False) -> None:
        self.path = path
        if reference is None:
            reference = RunReference(os.path.basename(path), 0, file_checksum(path))
        elif verify and (not os.path.exists(path) or file_checksum(path) != reference.checksum):
            raise SqlError("XX001", f'bulk segment "{reference.name}" is missing or damaged')
        self.recorded: object = None  # of a run that change streams use: their data on it
        self.on_discard: Callable[[], None] | None = None
        """Called, on the engine's thread, where the run is thrown away in place of being committed."""
        with pa.memory_map(path) as source:  # the map lives as long as any of its batches, and needs no descriptor
            reader = pa.ipc.open_file(source)
            batches = [_Batch(reader.get_batch(i)) for i in range(reader.num_record_batches)]
        self._batches = sorted(batches, key=lambda batch: batch.first)
        self._firsts = [batch.first for batch in self._batches]
        self.rows = sum(map(len, self._batches))
        self.reference = RunReference(reference.name, self.rows, reference.checksum)

    @property
    def first_key(self) -> bytes | None:
        """The lowest key; None for an empty run."""
        return self._firsts[0] if self._firsts else None

    @property
    def last_key(self) -> bytes | None:
        return self._batches[-1].last if self._batches else None

    def reaches(self, first: bytes, last: bytes) -> bool:
        """Whether its range of keys overlaps first..last."""
        low, high = self.first_key, self.last_key
        return low is not None and high is not None and low <= last and first <= high

    def has(self, prefix: bytes) -> bool:
        """Whether any key begins with the prefix."""
        low, high = prefix_range(prefix)
        return next(self.scan(low, high), None) is not None

    def prefixes(self) -> Iterator[bytes]:
        """The storage ids of its keys, in order, as the keys begin: a few look-ups for each."""
        found = self.first_key
        while found is not None:
            prefix = found[:PREFIX_BYTES]
            yield prefix
            found = self._first_from(prefix_range(prefix)[1])

    def _first_from(self, low: bytes) -> bytes | None:
        """The first key that is not before `low`."""
        for batch in self._batches[max(bisect_right(self._firsts, low) - 1, 0) :]:
            if batch.last >= low:
                return batch[bisect_left(cast("Sequence[bytes]", batch), low)]
        return None

    def get(self, key: bytes) -> Found | None:
        """The run's value of the key, None if it does not have it."""
        place = bisect_right(self._firsts, key) - 1
        if place < 0:
            return None
        batch = self._batches[place]
        if key > batch.last:
            return None
        index = bisect_left(cast("Sequence[bytes]", batch), key)
        return Found(batch.value(index)) if batch[index] == key else None

    def scan(self, low: bytes, high: bytes, reverse: bool = False) -> Iterator[tuple[bytes, bytes | None]]:
        """Keys in [low, high) in order with their values; None is a deletion."""
        first = max(bisect_right(self._firsts, low) - 1, 0)
        last = bisect_left(self._firsts, high)
        places = range(last - 1, first - 1, -1) if reverse else range(first, last)
        for place in places:
            batch = self._batches[place].between(low, high)
            starts = range(0, batch.num_rows, SLICE)
            for start in reversed(starts) if reverse else starts:
                part = _pairs(batch.slice(start, SLICE))
                yield from reversed(part) if reverse else part

    def between(self, low: bytes, high: bytes) -> Iterator[Any]:
        """Keys in [low, high), as pyarrow record batches (key, value) over the mapped file, in key order."""
        for place in range(max(bisect_right(self._firsts, low) - 1, 0), bisect_left(self._firsts, high)):
            part = self._batches[place].between(low, high)
            if part.num_rows:
                yield part

    def contains_any(self, keys: Sequence[bytes]) -> list[bytes]:
        """The keys of these that the run has, in no order; one pass over the keys of the run."""
        wanted = pa.array(keys, pa.binary())
        found: list[bytes] = []
        for batch in self._batches:
            column = batch.batch.column(0)
            found.extend(column.filter(pc.is_in(column, value_set=wanted)).to_pylist())
        return found

    def slices(self) -> Iterator[list[tuple[bytes, bytes | None]]]:
        """All of it in key order, in slices."""
        for batch in self._batches:
            for start in range(0, len(batch), SLICE):
                yield _pairs(batch.batch.slice(start, SLICE))

    def batches(self) -> Iterator[Any]:
        """All of it in key order, as pyarrow record batches (key, value) over the mapped file."""
        for batch in self._batches:
            yield batch.batch

    def discard(self) -> None:
        """Removes the file of a run that was never committed. Readers that hold it continue. If the removal fails, the
        next start does it, which removes all files without a commit."""
        if self.on_discard is not None:
            self.on_discard()
        _remove(self.path)


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
    except OSError as error:
        log.warning("cannot remove %s: %s", path, error.strerror)


def _pairs(batch: Any) -> list[tuple[bytes, bytes | None]]:
    return list(zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True))


class BulkLayer:
    """A commit with runs, as one layer: its own edits over its runs, the last run on top (engine/storage/views.py)."""

    def __init__(self, lsn: int, runs: Sequence[BulkRun], edits: dict[bytes, bytes | None], drops: list[int]) -> None:
        self.first_lsn = self.last_lsn = lsn
        self.size = 0
        self.drops = drops
        self.runs = tuple(runs)
        self._edits = Memtable(lsn)
        self._edits.apply(lsn, edits, lsn)

    def find(self, key: bytes) -> Version | None:
        version = self._edits.find(key)
        if version is not None:
            return version
        for run in reversed(self.runs):
            found = run.get(key)
            if found is not None:
                return [self.last_lsn, found.value, None]
        return None

    def knows_any(self, keys: Sequence[bytes], first: bytes, last: bytes) -> bool:
        if self._edits.knows_any(keys, first, last):
            return True
        return any(run.get(key) is not None for run in self.runs if run.reaches(first, last) for key in keys)

    @property
    def versions(self) -> dict[bytes, Version]:
        """The commit's own edits by key, without its runs; they never change."""
        return self._edits.versions

    def dropped_upto(self, lsn: int) -> list[int]:
        return self.drops if self.last_lsn <= lsn else []

    def get_edits(self, prefix: bytes) -> Iterator[tuple[int, bytes]]:
        """(LSN, key) of the commit's own edits of a storage id, without its runs."""
        return self._edits.changes(prefix, self.first_lsn - 1, self.last_lsn)

    def commits(self, after: int, upto: int) -> Iterator[tuple[int, Sequence[bytes]]]:
        """(LSN, keys) of the commit's own edits, without what is in its runs."""
        return self._edits.commits(after, upto)

    def scan_edits(self, low: bytes, high: bytes) -> Iterator[tuple[bytes, bytes | None]]:
        """The commit's own edits in a range of keys, without its runs."""
        return self._edits.scan(low, high, self.last_lsn)

    def scan(self, low: bytes, high: bytes, lsn: int, reverse: bool = False) -> Iterator[tuple[bytes, bytes | None]]:
        if lsn < self.first_lsn:
            return iter(())
        rows = self.runs[0].scan(low, high, reverse)
        for run in self.runs[1:]:
            rows = overlay(run.scan(low, high, reverse), rows, reverse)
        return overlay(self._edits.scan(low, high, lsn, reverse), rows, reverse)

    def has(self, prefix: bytes) -> bool:
        low, high = prefix_range(prefix)
        return self._edits.has(prefix) or any(next(run.scan(low, high), None) is not None for run in self.runs)

    def rows_added(self, prefix: bytes, below: Callable[[bytes], bytes | None]) -> int:
        low, high = prefix_range(prefix)
        added = self._edits.rows_added(prefix, below)
        for run in self.runs:
            for part in run.between(low, high):
                some = part.column(0)[:: -(-part.num_rows // SIZE_SAMPLE)].to_pylist()
                known = sum(below(key) is not None for key in some)
                added += part.num_rows - part.column(1).null_count - known * part.num_rows // len(some)
        return added

    def sample(self, prefix: bytes) -> list[tuple[bytes, float]]:
        low, high = prefix_range(prefix)
        found = self._edits.sample(prefix)
        parts = [part.column(0) for run in self.runs for part in run.between(low, high)]
        step = -(-sum(map(len, parts)) // KEYS_SAMPLED) or 1
        for part in parts:
            found.extend((key, min(step, len(part))) for key in part[::step].to_pylist())
        return found

    def size_of(self, prefix: bytes) -> int:
        low, high = prefix_range(prefix)
        runs = sum(int(part.nbytes) for run in self.runs for part in run.between(low, high))
        return self._edits.size_of(prefix) + runs

    def changes(self, prefix: bytes, after: int, upto: int) -> Iterator[tuple[int, bytes]]:
        if not after < self.last_lsn <= upto:
            return
        low, high = prefix_range(prefix)
        for key, _ in self.scan(low, high, self.last_lsn):
            yield self.last_lsn, key

    @property
    def keys(self) -> int:
        return self._edits.keys + sum(run.rows for run in self.runs)

    def newest(self) -> Iterator[tuple[Column, Column]]:
        for run in self.runs:
            for batch in run.batches():
                yield batch.column(0), batch.column(1)
        yield from self._edits.newest()
