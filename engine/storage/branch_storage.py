"""Storage ids that lean on others: how a branch of a database shares what its parent has stored.

A table (or index) of a branch has a storage id of its own, under which lies only what the branch has changed. What is
not there is looked for in what it leans on:

    S'   leans on  P'   leans on  S          S' = 0x80000000 | n     what the branch has written
                                             P' = 0xC0000000 | n     what the parent had, where it has changed since
                                             S  = the parent's storage id, which may lean itself

The first of the three that knows a key decides; a deletion is known too. So a branch costs its own changes, and those
of its parent: the first time that a key of S is written after the branch was made, the same entry of the changelog puts
what was there until then into P' (`Tablespace.sequence`; bulk runs: engine/bulk/branch_preservation.py). Nothing is
asked of S', and nothing of the branch's transactions: who writes to S alone writes to P', under the same lock.
Followers, recovery and the past apply what the entry says, and need to know nothing of it.

Which storage id leans on which is a row of the tablespace that has both: storage id BASES + S' -> S. `Leaning` is what
a tablespace knows of these rows. Storage ids are never reused, so what leaned once may stay known: the past is still
read through it.

In LMDB a deletion under a storage id that leans is an empty value, everywhere else no key. A checkpoint holds the
tables of a branch as they read, whole; a directory made of one says so (`Checkpoint.whole`), and there S' leans on
nothing. P' goes on being written where the changelog says so.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from catalog.rows import BASES
from engine.storage.columns import Column, one_array
from engine.storage.keys import PREFIX_BYTES, prefix_range, storage_prefix, successor
from engine.storage.lmdb_writer import LEANS

KEEPS = 0xC0  # from which on they are what a parent had
_LEANS, _KEEPS = LEANS << 24, KEEPS << 24
_BASES = storage_prefix(BASES)


def leaning_id(number: int) -> int:
    """The storage id that leans with this number, which no other storage id has."""
    return _LEANS | number


def kept_id(storage_id: int) -> int:
    """Of a storage id that leans, the one with what its parent had."""
    return storage_id | _KEEPS


def leans(storage_id: int) -> bool:
    """Whether it is one of a branch's; those that keep what a parent had are too."""
    return storage_id >= _LEANS


def keeps(storage_id: int) -> bool:
    """Whether it keeps what a parent had."""
    return storage_id >= _KEEPS


def base_key(storage_id: int) -> bytes:
    """The key of the row that says what the storage id leans on; its value is that one's prefix."""
    return _BASES + storage_prefix(storage_id)


def place_prefix(key: bytes) -> bytes:
    """The prefix that tells in which tablespace a key lies: its own, or of a base's key that of what leans."""
    prefix = key[:PREFIX_BYTES]
    return key[PREFIX_BYTES:] if prefix == _BASES else prefix


def tells_bases(keys: Iterable[bytes]) -> bool:
    """Whether there are base's keys among these."""
    return any(key.startswith(_BASES) for key in keys)


BASE_RANGE = prefix_range(_BASES)


class Leaning:
    """What leans on what in a tablespace. Prefixes are the first four bytes of keys."""

    def __init__(self, whole: Collection[bytes] = ()) -> None:
        """`whole`: prefixes under which everything lies, whatever the rows say."""
        self._whole = frozenset(whole)
        self.bases: dict[bytes, bytes] = {}
        """A prefix -> where to look for what it does not have."""
        self.heirs: dict[bytes, tuple[bytes, ...]] = {}
        """A prefix -> those that keep what is overwritten there."""

    def learn(self, rows: Iterable[tuple[bytes, bytes]]) -> None:
        """The rows under BASES, all of them, as of what is sequenced."""
        heirs: dict[bytes, tuple[bytes, ...]] = {}
        for key, base in rows:
            own = key[PREFIX_BYTES:]
            kept = storage_prefix(kept_id(int.from_bytes(own, "big")))
            heirs[base] = (*heirs.get(base, ()), kept)
            if own not in self._whole:
                self.bases[own], self.bases[kept] = kept, base
        self.heirs = heirs

    def heirs_of(self, storage_id: int) -> list[int]:
        """The storage ids that lean on one."""
        kept = self.heirs.get(storage_prefix(storage_id), ())
        return [int.from_bytes(prefix, "big") & ~(_KEEPS ^ _LEANS) for prefix in kept]

    def chain(self, storage_id: int) -> list[int]:
        """What a storage id leans on, nearest first; [] for one that does not."""
        found = []
        prefix = self.bases.get(storage_prefix(storage_id))
        while prefix is not None:
            found.append(int.from_bytes(prefix, "big"))
            prefix = self.bases.get(prefix)
        return found


def moved(rows: Iterable[tuple[bytes, bytes | None]], prefix: bytes) -> Iterator[tuple[bytes, bytes | None]]:
    """The same under another prefix."""
    for key, value in rows:
        yield prefix + key[PREFIX_BYTES:], value


def known(rows: Iterable[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, bytes | None]]:
    """What LMDB has under a prefix that leans, with deletions as None."""
    for key, value in rows:
        yield key, value or None


def bound_in(base: bytes, prefix: bytes, bound: bytes) -> bytes:
    """The end of a range of keys of `prefix` as that of the same range under `base`."""
    return base + bound[PREFIX_BYTES:] if bound[:PREFIX_BYTES] == prefix else successor(base)


def moved_keys(keys: Column, prefix: bytes) -> Column:
    """A column of keys under another prefix."""
    if not len(keys):
        return keys
    replaced: Any = pc.binary_replace_slice(keys, start=0, stop=PREFIX_BYTES, replacement=prefix)
    return one_array(replaced)


def known_values(values: Column) -> Column:
    """A column of values as LMDB has them under a prefix that leans, with deletions as NULL."""
    empty = pc.equal(pc.binary_length(values), 0)
    return pc.if_else(empty, pa.scalar(None, values.type), values) if pc.any(empty).as_py() else values
