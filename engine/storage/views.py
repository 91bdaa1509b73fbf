"""Reads through the layers: memtables and runs over LMDB, as of one LSN.

    active memtable -> frozen memtables and runs, newest first -> LMDB (a read transaction at the flushed LSN)

The first layer that has a version at or below the reader's LSN decides. A view is a few references; layers and the LMDB
read transaction (a `Generation`) live as long as a view refers to them, by Python's reference count. So neither they
nor the holders of views may refer to themselves (tests/end_to_end/test_held_resources.py).

Views belong to the engine's thread. Another thread may read one only if nobody else uses the same Generation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from engine.storage.branch_storage import bound_in, known, moved
from engine.storage.columns import Column
from engine.storage.lmdb_writer import LEANS
from engine.storage.memtable import Memtable, Version

Get = Callable[[bytes], bytes | None]


class Layer(Protocol):
    """A memtable, or a bulk run: the versions of the LSNs first_lsn..last_lsn."""

    first_lsn: int
    last_lsn: int
    size: int

    @property
    def find(self) -> Callable[[bytes], Version | None]:
        """A function that returns the newest version of a key."""

    def knows_any(self, keys: Sequence[bytes], first: bytes, last: bytes) -> bool:
        """Whether it has a version of any of the keys, with their lowest and highest."""

    @property
    def keys(self) -> int:
        """The number of keys of `newest`."""

    @property
    def drops(self) -> list[int]:
        """Storage ids whose ranges are deleted after the flush of the layer."""

    def dropped_upto(self, lsn: int) -> list[int]:
        """The storage ids of `drops` up to this LSN."""

    def scan(
        self, low: bytes, high: bytes, lsn: int, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes | None]]: ...
    def has(self, prefix: bytes) -> bool: ...
    def size_of(self, prefix: bytes) -> int:
        """An estimate of the bytes of a storage id's keys and values here."""

    def sample(self, prefix: bytes) -> list[tuple[bytes, float]]:
        """An even sample of the keys of a storage id, with the number of keys that each represents; in no order."""

    def rows_added(self, prefix: bytes, below: Callable[[bytes], bytes | None]) -> int:
        """An estimate of the number of keys that the layer adds to a storage id; `below` reads the layers under it."""

    def changes(self, prefix: bytes, after: int, upto: int) -> Iterator[tuple[int, bytes]]: ...
    def commits(self, after: int, upto: int) -> Iterator[tuple[int, Sequence[bytes]]]:
        """Yields (LSN, keys) for every commit with after < LSN <= upto, in LSN order, without the keys of bulk runs."""

    def newest(self) -> Iterator[tuple[Column, Column]]:
        """The state at the layer's end: batches of keys (binary arrays) and values (NULL for a deletion); later ones
        overwrite earlier ones."""


class Generation:
    """The state of LMDB after one flush: a read transaction that stays open as long as anything refers to it."""

    __slots__ = ("bases", "exact_from", "flushed_lsn", "get", "seen", "transaction")

    def __init__(
        self, environment: Any, rows: Any, flushed_lsn: int, bases: Mapping[bytes, bytes], exact_from: int = 0
    ) -> None:
        """`exact_from`: layers up to this LSN were being written into LMDB, and may be partly visible. `bases`: of
        engine.storage.branch_storage.Leaning."""
        self.bases = bases
        self.transaction = environment.begin(db=rows)
        self.get: Callable[[bytes], bytes | None] = self.transaction.get
        self.seen: int = self.transaction.id()
        """The last of LMDB's commits that it sees, by its id."""
        self.flushed_lsn = flushed_lsn
        self.exact_from = max(exact_from, flushed_lsn)

    def end(self) -> None:
        """Ends it, whatever refers to it: for its only owner, when nothing reads it any more."""
        self.transaction.abort()

    def scan(self, low: bytes, high: bytes, reverse: bool) -> Iterator[tuple[bytes, bytes]]:
        cursor = self.transaction.cursor()
        if reverse:
            if not (cursor.prev() if cursor.set_range(high) else cursor.last()):
                return
            for item in cursor.iterprev():
                if item[0] < low:
                    return
                yield item
        elif cursor.set_range(low):
            for item in cursor.iternext():
                if item[0] >= high:
                    return
                yield item

    def has_between(self, first: bytes, last: bytes) -> bool:
        """Whether any key from `first` to `last`, both included, is stored: one look-up."""
        cursor = self.transaction.cursor()
        return bool(cursor.set_range(first)) and cursor.key() <= last


class View:
    """Rows as of `lsn`: an engine.storage.interface.Reader."""

    __slots__ = ("_generation", "_layers", "_stored", "finders", "lsn")

    def __init__(self, lsn: int, layers: tuple[Layer, ...], generation: Generation) -> None:
        self.lsn = lsn
        self._look_through(layers, generation)

    def _look_through(self, layers: tuple[Layer, ...], generation: Generation) -> None:
        self._layers = layers
        self._generation = generation
        self.finders = tuple(layer.find for layer in layers)
        """For each layer, in order, the function that finds the newest version of a key."""
        self._stored = generation.get

    def get(self, key: bytes) -> bytes | None:
        for find in self.finders:
            version = find(key)
            while version is not None:
                if version[0] <= self.lsn:
                    return version[1]  # type: ignore[no-any-return]
                version = version[2]
        value = self._stored(key)
        return value if value or key[0] < LEANS else self._below(key, value)

    def _below(self, key: bytes, stored: bytes | None) -> bytes | None:
        """The value of a leaning key for which only LMDB has a version."""
        base = self._generation.bases.get(key[:4])
        return None if base is None or stored is not None else self.get(base + key[4:])

    def scan(self, low: bytes, high: bytes, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        """Keys in [low, high), which lie within one storage id."""
        prefix = low[:4]
        rows: Any = self._generation.scan(low, high, reverse)
        covered = low[0] >= LEANS
        if covered:
            rows = known(rows)
            base = self._generation.bases.get(prefix)
            if base is not None:
                below = self.scan(base + low[4:], bound_in(base, prefix, high), reverse)
                rows = overlay(rows, moved(below, prefix), reverse)
        for layer in reversed(self._layers):
            if layer.has(prefix):
                rows = overlay(layer.scan(low, high, self.lsn, reverse), rows, reverse)
                covered = True
        return without_deletions(rows) if covered else rows


class Snapshot(View):
    """A view that does not change until it is closed. Open snapshots keep old versions: close them."""

    __slots__ = ("_release",)

    def __init__(
        self, lsn: int, layers: tuple[Layer, ...], generation: Generation, release: Callable[[int], None]
    ) -> None:
        super().__init__(lsn, layers, generation)
        self._release: Callable[[int], None] | None = release

    def again(self, release: Callable[[int], None]) -> Snapshot:
        """Another snapshot of the same moment, which is closed separately."""
        return Snapshot(self.lsn, self._layers, self._generation, release)

    def close(self) -> None:
        """Releases layers and LMDB pages; it may be closed twice."""
        if (release := self._release) is not None:
            self._release = None
            self._look_through((), UNREADABLE)
            self.finders = (_refuse_closed,)
            release(self.lsn)

    def __enter__(self) -> Snapshot:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _refuse_closed(*_: object) -> Any:
    raise RuntimeError("the snapshot is closed, or is not there to be read")


class _Unreadable:
    """Replaces the generation of a closed snapshot: an object that still holds the snapshot, such as an idle session
    with its last transaction, keeps no page of LMDB."""

    get = scan = has_between = staticmethod(_refuse_closed)
    bases: Mapping[bytes, bytes] = {}


UNREADABLE: Any = _Unreadable()


class CurrentView(View):
    """The newest durable state, always: one object for the life of the tablespace, changed in place.

    For statements that run to their end at once; reads over several turns of the event loop take a snapshot.
    """

    __slots__ = ()

    def renew(self, layers: tuple[Layer, ...], generation: Generation) -> None:
        """Called when a memtable was frozen or flushed."""
        self._look_through(layers, generation)


def overlay(
    upper: Iterator[tuple[bytes, bytes | None]], lower: Iterator[tuple[bytes, bytes | None]], reverse: bool = False
) -> Iterator[tuple[bytes, bytes | None]]:
    """Merges two ordered streams of (key, value); of the same key in both, the upper one's counts."""
    above, below = next(upper, None), next(lower, None)
    while above is not None and below is not None:
        if above[0] == below[0]:
            yield above
            above, below = next(upper, None), next(lower, None)
        elif (above[0] < below[0]) != reverse:
            yield above
            above = next(upper, None)
        else:
            yield below
            below = next(lower, None)
    if above is not None:
        yield above
        yield from upper
    elif below is not None:
        yield below
        yield from lower


def without_deletions(rows: Iterator[tuple[bytes, bytes | None]]) -> Iterator[tuple[bytes, bytes]]:
    for key, value in rows:
        if value is not None:
            yield key, value


def below_or(stored: Get, get: Get, key: bytes) -> bytes | None:
    """The value of LMDB under a leaning key, an empty value for a deletion; otherwise the value of `get`."""
    found = stored(key)
    return get(key) if found is None else found or None


def newest_in(layers: Sequence[Layer], stored: Get, key: bytes) -> bytes | None:
    """The newest value of a key in layers over the stored rows."""
    for layer in layers:
        version = layer.find(key)
        if version is not None:
            return version[1]  # type: ignore[no-any-return]
    return stored(key)


def up_to(layer: Layer, lsn: int) -> Layer | None:
    """The part of a layer up to an LSN; None for none."""
    if layer.last_lsn <= lsn:
        return layer
    if layer.first_lsn > lsn or not isinstance(layer, Memtable):
        return None
    kept = layer.up_to(lsn)
    return kept if kept.last_lsn >= kept.first_lsn else None
