"""Keys of rows that have changed since a table's columns were saved; a flush records them with the rows.

The columnar worker saves its copies of tables in a file (engine/columnar/worker/columns_file.py), each as of some LSN.
After a restart, changes that were flushed after that LSN are not in memory. So each flush records the keys that it
writes of such tables, in the same LMDB transaction.

    meta    "noted" + storage id             u64 since, 16 bytes token, u64 upto
    meta    "keys" + storage id + u64 lsn    the keys that a flush up to this LSN wrote: an Arrow stream of one binary
                                             column, compressed
    (storage id: u32, big-endian; so is the LSN of "keys")

Keys are complete for changes later than `since`, up to `upto`, which each flush moves. A list whose `upto` is before
the flushed LSN is useless (an older release has flushed). The token identifies the list: a copy with another token
belongs to another directory, or to a list that had gaps. Keys of saved changes are removed, and `since` moves: an older
copy that was restored must be built again. If a table would need more than MOST_BYTES of keys, its list begins again
after the flush, and older copies must be built again.

A list begins with an entry of its own, and does not wait for the next flush: there may be none before the end.

`add`, `remove` and `note_saved` run on the engine's thread, the rest on that of the flush. The rest of ended lists is
deleted with the next entry.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.storage.columns import Column
from engine.storage.keys import PREFIX_BYTES, storage_prefix
from engine.storage.lmdb_writer import U64

NOTED, KEYS = b"noted", b"keys"
MOST_BYTES = 32 << 20  # of one table's keys
TOKEN_BYTES = 16
_SCHEMA: Any = pa.schema([("key", pa.large_binary())])

Entries = list[tuple[bytes, bytes | None]]
"""Names in `meta` with their values; None deletes."""


@dataclass(slots=True)
class _Noted:
    token: bytes
    since: int | None = None  # None: no flush has begun the list
    sizes: dict[int, int] = field(default_factory=dict)  # LSN of a flush -> bytes of the recorded keys
    saved: int = 0


class KeyNotes:
    """The lists of one environment."""

    def __init__(self, environment: Any, meta: Any, flushed_lsn: int) -> None:
        self._lock = threading.Lock()
        self._tables: dict[int, _Noted] = {}
        self._removed: dict[int, list[int]] = {}  # storage ids of lists that have ended, and the LSNs of their keys
        with environment.begin(db=meta, buffers=True) as transaction:
            for name, value in _entries(transaction, NOTED):
                storage_id = int.from_bytes(name[len(NOTED) :], "big")
                if U64.unpack(value[8 + TOKEN_BYTES :])[0] == flushed_lsn:
                    self._tables[storage_id] = _Noted(bytes(value[8 : 8 + TOKEN_BYTES]), U64.unpack(value[:8])[0])
                else:
                    self._removed[storage_id] = []
            for name, value in _entries(transaction, KEYS):
                storage_id, lsn = _place(name)
                if storage_id in self._tables:
                    self._tables[storage_id].sizes[lsn] = len(value)
                else:
                    self._removed.setdefault(storage_id, []).append(lsn)

    def add(self, storage_id: int) -> str:
        """A copy of this table is about to be made or updated: from the next flush on its keys are recorded, and
        recorded keys are kept until it has been saved. `entries_at` has something to write. Returns the list's token,
        in hexadecimal digits."""
        with self._lock:
            noted = self._tables.get(storage_id)
            if noted is None:
                noted = self._tables[storage_id] = _Noted(secrets.token_bytes(TOKEN_BYTES))
            noted.saved = 0
            return noted.token.hex()

    def remove(self, storage_id: int) -> None:
        """There is no copy of the table any more."""
        with self._lock:
            noted = self._tables.pop(storage_id, None)
            if noted is not None:
                self._removed.setdefault(storage_id, []).extend(noted.sizes)

    def note_saved(self, storage_id: int, lsn: int) -> None:
        """A copy has been saved as of this LSN; `entries_at` may have something."""
        with self._lock:
            noted = self._tables.get(storage_id)
            if noted is not None:
                noted.saved = lsn

    @property
    def is_behind(self) -> bool:
        """Whether `entries_at` has anything."""
        with self._lock:
            return bool(self._removed) or any(
                noted.since is None or min(noted.sizes, default=noted.saved + 1) <= noted.saved
                for noted in self._tables.values()
            )

    def entries_at(self, flushed_lsn: int) -> Entries:
        """Between two flushes: the changes of `meta` for lists that begin and end, and for keys that have been
        saved."""
        taking = self.begin(flushed_lsn + 1, flushed_lsn)
        entries = taking.entries()
        self.end(taking)
        return entries

    def begin(self, first_lsn: int, last_lsn: int, drops: Iterable[int] = ()) -> Taking:
        """For the flush of a layer."""
        for storage_id in drops:
            self.remove(storage_id)
        with self._lock:
            removed = {storage_id: tuple(lsns) for storage_id, lsns in self._removed.items()}
            return Taking(dict(self._tables), removed, first_lsn, last_lsn)

    def end(self, taking: Taking) -> None:
        """The layer is flushed with its keys."""
        with self._lock:
            for storage_id, lsns in taking.removed.items():
                left = self._removed[storage_id] = self._removed[storage_id][len(lsns) :]
                if not left:
                    del self._removed[storage_id]
            for storage_id, noted in taking.tables.items():
                if self._tables.get(storage_id) is not noted:  # removed meanwhile, except newer keys
                    new = taking.sizes[storage_id].keys() - noted.sizes.keys()
                    self._removed.setdefault(storage_id, []).extend(new)
                noted.since = taking.since[storage_id]
                noted.sizes = taking.sizes[storage_id]


class Taking:
    """The records of one flush for `meta`. `pass_on` the layer's batches first, then call `entries`."""

    def __init__(
        self, tables: dict[int, _Noted], removed: Mapping[int, Sequence[int]], first_lsn: int, last_lsn: int
    ) -> None:
        self.tables = tables
        self.removed = removed
        self.since: dict[int, int] = {}
        self.sizes: dict[int, dict[int, int]] = {}
        self._first_lsn, self._last_lsn = first_lsn, last_lsn
        self._taken: dict[int, list[Column]] = {}
        self._bytes: dict[int, int] = {}

    def pass_on(self, batches: Iterable[tuple[Column, Column]]) -> Iterator[tuple[Column, Column]]:
        """The same batches (keys, values)."""
        self._taken.clear()
        self._bytes.clear()
        for keys, values in batches:
            if self.tables and len(keys):
                self._take(keys)
            yield keys, values

    def _take(self, keys: Column) -> None:
        keys = keys.cast(pa.large_binary())  # as memtables have them; runs have another form
        starts = np.frombuffer(keys.buffers()[1], np.int64, len(keys), 8 * keys.offset)
        data = np.frombuffer(keys.buffers()[2], np.uint8)
        prefixes = data[starts[:, None] + np.arange(PREFIX_BYTES)].view(">u4").reshape(-1)
        present = np.unique(prefixes).tolist()
        for storage_id in self.tables.keys() & set(present):
            size = self._bytes.get(storage_id, 0)
            if size <= MOST_BYTES:
                found = keys if len(present) == 1 else keys.filter(pa.array(prefixes == storage_id))
                self._bytes[storage_id] = size + found.nbytes
                self._taken.setdefault(storage_id, []).append(found)

    def entries(self) -> Entries:
        """The records for `meta`, in the transaction that moves `flushed`. A second call returns the same: the flush
        may be repeated in another way."""
        entries: Entries = []
        for storage_id, lsns in self.removed.items():
            entries.extend((_keys_name(storage_id, lsn), None) for lsn in lsns)
            if storage_id not in self.tables:
                entries.append((_noted_name(storage_id), None))
        for storage_id, noted in self.tables.items():
            entries.extend(self._entries_of(storage_id, noted))
        return entries

    def _entries_of(self, storage_id: int, noted: _Noted) -> Entries:
        entries: Entries = []
        self.since[storage_id] = self._first_lsn - 1 if noted.since is None else noted.since
        sizes = self.sizes[storage_id] = dict(noted.sizes)
        gone = [lsn for lsn in sizes if lsn <= noted.saved]
        if self._bytes.get(storage_id, 0) > MOST_BYTES:
            data = None
        else:
            data = encode_keys(self._taken[storage_id]) if storage_id in self._taken else b""
        left = sum(size for lsn, size in sizes.items() if lsn > noted.saved)
        if data is None or left + len(data) > MOST_BYTES:
            gone, data = list(sizes), b""
            self.since[storage_id] = self._last_lsn
        entries.extend((_keys_name(storage_id, lsn), None) for lsn in gone)
        for lsn in gone:
            del sizes[lsn]
            self.since[storage_id] = max(self.since[storage_id], lsn)
        if data:
            entries.append((_keys_name(storage_id, self._last_lsn), data))
            sizes[self._last_lsn] = len(data)
        value = U64.pack(self.since[storage_id]) + noted.token + U64.pack(self._last_lsn)
        entries.append((_noted_name(storage_id), value))
        return entries


def _noted_name(storage_id: int) -> bytes:
    return NOTED + storage_prefix(storage_id)


def _keys_name(storage_id: int, lsn: int) -> bytes:
    return KEYS + storage_prefix(storage_id) + lsn.to_bytes(8, "big")


def _place(name: bytes) -> tuple[int, int]:
    place = len(KEYS)
    return int.from_bytes(name[place : place + 4], "big"), int.from_bytes(name[place + 4 :], "big")


def _entries(transaction: Any, prefix: bytes) -> Iterator[tuple[bytes, Any]]:
    cursor = transaction.cursor()
    if cursor.set_range(prefix):
        for name, value in cursor.iternext():
            if bytes(name[: len(prefix)]) != prefix:
                return
            yield bytes(name), value


def encode_keys(columns: list[Column]) -> bytes:
    """Keys (large_binary arrays) in their recorded form."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, _SCHEMA, options=options) as writer:
        for column in columns:
            writer.write_batch(pa.RecordBatch.from_arrays([column], schema=_SCHEMA))
    return bytes(sink.getvalue())


def changed_keys(transaction: Any, meta: Any, storage_id: int, token: bytes, after: int) -> Column | None:
    """The keys of a table that flushes have written after an LSN, without duplicates and in order, as a transaction of
    LMDB sees them. None if the list with this token does not have all of them."""
    found = transaction.get(_noted_name(storage_id), db=meta)
    if found is None or found[8 : 8 + TOKEN_BYTES] != token or U64.unpack(found[:8])[0] > after:
        return None
    parts: list[Column] = []
    cursor = transaction.cursor(db=meta)
    prefix = KEYS + storage_prefix(storage_id)
    if cursor.set_range(_keys_name(storage_id, after + 1)):
        for name, value in cursor.iternext():
            if not name.startswith(prefix):
                break
            parts.extend(batch.column(0) for batch in pa.ipc.open_stream(pa.py_buffer(value)))
    keys = pc.unique(pa.chunked_array(parts, pa.large_binary())).cast(pa.binary())
    return keys.take(pc.array_sort_indices(keys))
