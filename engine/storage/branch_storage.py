"""Storage ids of branches: a branch of a database shares the rows that its parent has stored.

A table (or index) of a branch has a storage id of its own, which contains only the branch's changes. Other keys are
searched in the storage id that it leans on:

    S'   leans on  P'   leans on  S          S' = 0x80000000 | n     the branch's writes
                                             P' = 0xC0000000 | n     the parent's former rows that have changed since
                                             S  = the parent's storage id, which may lean on another

The first of the three that has a version of a key decides; a deletion is a version too. So a branch costs its own
changes and those of its parent. The first write of a key of S after the branch was made also puts the former row into
P', in the same entry of the changelog (`Tablespace.sequence`; bulk runs: engine/bulk/branch_preservation.py). This does
not depend on S' or the branch's transactions: only writers to S write to P', under the same lock. Followers, recovery
and the past apply the entry without further knowledge.

A row of the tablespace records that a storage id leans on another: storage id BASES + S' -> S. `Leaning` is a
tablespace's copy of these rows. Storage ids are never reused, so this information stays valid: the past is still read
through it.

In LMDB a deletion under a leaning storage id is an empty value; elsewhere it is a missing key. A checkpoint contains
the tables of a branch whole, as they are read; a directory restored from one records this (`Checkpoint.whole`), and
there S' leans on nothing. P' is still written as the changelog says.
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

KEEPS = 0xC0  # from this number on they hold a parent's former rows
_LEANS, _KEEPS = LEANS << 24, KEEPS << 24
_BASES = storage_prefix(BASES)


def leaning_id(number: int) -> int:
    """The leaning storage id with this number, which no other object has."""
    return _LEANS | number


def kept_id(storage_id: int) -> int:
    """The storage id with the parent's former rows for a leaning one."""
    return storage_id | _KEEPS


def leans(storage_id: int) -> bool:
    """Whether it belongs to a branch, including those with a parent's former rows."""
    return storage_id >= _LEANS


def keeps(storage_id: int) -> bool:
    """Whether it has a parent's former rows."""
    return storage_id >= _KEEPS


def base_key(storage_id: int) -> bytes:
    """The key of the row that records the base of the storage id; its value is the base's prefix."""
    return _BASES + storage_prefix(storage_id)


def place_prefix(key: bytes) -> bytes:
    """The prefix that determines the tablespace of a key: its own, or for a base's key that of the leaning storage
    id."""
    prefix = key[:PREFIX_BYTES]
    return key[PREFIX_BYTES:] if prefix == _BASES else prefix


def tells_bases(keys: Iterable[bytes]) -> bool:
    """Whether these keys include a base's key."""
    return any(key.startswith(_BASES) for key in keys)


BASE_RANGE = prefix_range(_BASES)


class Leaning:
    """The leaning storage ids of a tablespace and their bases. Prefixes are the first four bytes of keys."""

    def __init__(self, whole: Collection[bytes] = ()) -> None:
        """`whole`: prefixes that have no base, even if the rows contain one."""
        self._whole = frozenset(whole)
        self.bases: dict[bytes, bytes] = {}
        """A prefix -> the prefix in which keys are searched that it does not have."""
        self.heirs: dict[bytes, tuple[bytes, ...]] = {}
        """A prefix -> the prefixes that keep its overwritten rows."""

    def learn(self, rows: Iterable[tuple[bytes, bytes]]) -> None:
        """Reads all rows under BASES, as of the sequenced state."""
        heirs: dict[bytes, tuple[bytes, ...]] = {}
        for key, base in rows:
            own = key[PREFIX_BYTES:]
            kept = storage_prefix(kept_id(int.from_bytes(own, "big")))
            heirs[base] = (*heirs.get(base, ()), kept)
            if own not in self._whole:
                self.bases[own], self.bases[kept] = kept, base
        self.heirs = heirs

    def heirs_of(self, storage_id: int) -> list[int]:
        """The storage ids that lean directly on a storage id."""
        kept = self.heirs.get(storage_prefix(storage_id), ())
        return [int.from_bytes(prefix, "big") & ~(_KEEPS ^ _LEANS) for prefix in kept]

    def chain(self, storage_id: int) -> list[int]:
        """The storage ids that a storage id leans on, nearest first; [] if it leans on none."""
        found = []
        prefix = self.bases.get(storage_prefix(storage_id))
        while prefix is not None:
            found.append(int.from_bytes(prefix, "big"))
            prefix = self.bases.get(prefix)
        return found


def moved(rows: Iterable[tuple[bytes, bytes | None]], prefix: bytes) -> Iterator[tuple[bytes, bytes | None]]:
    """The same key under another prefix."""
    for key, value in rows:
        yield prefix + key[PREFIX_BYTES:], value


def known(rows: Iterable[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, bytes | None]]:
    """The rows of LMDB under a leaning prefix, with deletions as None."""
    for key, value in rows:
        yield key, value or None


def bound_in(base: bytes, prefix: bytes, bound: bytes) -> bytes:
    """The end of a range of keys of `prefix`, moved to the range under `base`."""
    return base + bound[PREFIX_BYTES:] if bound[:PREFIX_BYTES] == prefix else successor(base)


def moved_keys(keys: Column, prefix: bytes) -> Column:
    """A column of keys under another prefix."""
    if not len(keys):
        return keys
    replaced: Any = pc.binary_replace_slice(keys, start=0, stop=PREFIX_BYTES, replacement=prefix)
    return one_array(replaced)


def known_values(values: Column) -> Column:
    """A column of values of LMDB under a leaning prefix, with deletions as NULL."""
    empty = pc.equal(pc.binary_length(values), 0)
    return pc.if_else(empty, pa.scalar(None, values.type), values) if pc.any(empty).as_py() else values
