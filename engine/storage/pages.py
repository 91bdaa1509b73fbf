"""The bytes that a range of keys takes in LMDB: its pages are counted, not its rows.

LMDB keeps `rows` as a B+tree and reports only the number of pages of the whole tree. The tree has more information:
every branch page lists its children with their first keys, so the leaves between two keys are counted from the branch
pages alone, about a hundredth of the tree. This module reads those pages from the file (lmdb.h and mdb.c of LMDB 0.9;
the data format has been version 1 since its first release):

    page    u64 number, u16 pad, u16 flags, u16 lower, u16 upper, then u16 offsets of the nodes up to `lower`
    node    u16 low, u16 high, u16 flags, u16 key size, key, data
            branch: the child's number is low | high << 16 | flags << 32; leaf: the data's size is low | high << 16
    meta    pages 0 and 1, after the page's head: magic, version, address, map size, two database records, last page,
            transaction id; the newer of the two is the newest commit, a reader's is the one with its own id
    record  u32 pad (in the first one: the page size), u16 flags, u16 depth, u64 branch, leaf, overflow pages, entries,
            root

A read transaction holds its pages: none is reused while it is open, so they can be read with `pread`. Large values are
in separate pages, to which only leaves refer: these are estimated from some of the leaves. A page with more than SAMPLE
branch pages below is also estimated, so the work is bounded for any size.
"""

from __future__ import annotations

import os
import struct
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from typing import Any

from catalog.errors import SqlError

SAMPLE = 32
SAMPLED_LEAVES = 1024
SAMPLED_KEYS = 4  # of a leaf
HEAD = 16
_HEAD_TAIL = struct.Struct("<8xHHHH")  # pad, flags, lower, upper
_NODE = struct.Struct("<HHHH")
_META = struct.Struct("<IIQQ")
_RECORD = struct.Struct("<IHHQQQQQ")
_U64 = struct.Struct("<Q")
_MAGIC, _VERSION = 0xBEEFC0DE, 1
_LEAF, BIG, _NO_PAGE = 0x02, 0x01, 2**64 - 1
_META_BYTES = HEAD + _META.size + 2 * _RECORD.size + 2 * _U64.size
_ATTEMPTS = 100


class Page:
    """One branch or leaf page: a sequence of its keys. The first key of a branch page stands for the lowest of all."""

    __slots__ = ("_data", "_offsets", "leaf")

    def __init__(self, data: bytes) -> None:
        _, flags, lower, _ = _HEAD_TAIL.unpack_from(data)
        self._data = data
        self._offsets: tuple[int, ...] = struct.unpack_from(f"<{(lower - HEAD) // 2}H", data, HEAD)
        self.leaf = bool(flags & _LEAF)

    def __len__(self) -> int:
        return len(self._offsets)

    def __getitem__(self, index: int) -> bytes:
        if index == 0 and not self.leaf:
            return b""
        start = self._offsets[index] + _NODE.size
        return self._data[start : start + _NODE.unpack_from(self._data, self._offsets[index])[3]]

    def child(self, index: int) -> int:
        low, high, top, _ = _NODE.unpack_from(self._data, self._offsets[index])
        return int(low | high << 16 | top << 32)

    def data(self, index: int) -> bytes:
        """A leaf's value of the length that the node has."""
        offset = self._offsets[index]
        low, high, _, key = _NODE.unpack_from(self._data, offset)
        start = offset + _NODE.size + key
        return self._data[start : start + (low | high << 16)]

    def apart(self, index: int) -> tuple[int, int | None]:
        """The length of a leaf's value and the number of its first separate page; None if the value is in the leaf."""
        offset = self._offsets[index]
        low, high, flags, key = _NODE.unpack_from(self._data, offset)
        place = _U64.unpack_from(self._data, offset + _NODE.size + key)[0] if flags & BIG else None
        return low | high << 16, place

    @property
    def used(self) -> int:
        """Its used bytes."""
        _, _, lower, upper = _HEAD_TAIL.unpack_from(self._data)
        return int(lower + len(self._data) - upper)

    def overflow(self, index: int, page_bytes: int) -> int:
        """The separate pages of a leaf's value."""
        low, high, flags, _ = _NODE.unpack_from(self._data, self._offsets[index])
        return -(-(HEAD + (low | high << 16)) // page_bytes) if flags & BIG else 0


class PageCounter:
    """Counts the pages of ranges of keys in one database, as of one read transaction. Close it."""

    def __init__(self, environment: Any, name: bytes, database: Any) -> None:
        """`name`: of the database; `database`: what it was opened as. Raises XX001 for an unknown format, 55000."""
        self._page_bytes = int(environment.stat()["psize"])
        self._database = database
        self._transaction: Any = None
        self._file = os.open(os.path.join(environment.path(), "data.mdb"), os.O_RDONLY)
        try:
            databases = self._databases(environment)
            while not (page := self._page(databases)).leaf:
                databases = page.child(bisect_right(page, name) - 1)
            record = _RECORD.unpack(page.data(bisect_left(page, name)))
        except BaseException:
            self.close()
            raise
        self._root, self._has_overflow = int(record[7]), record[5] > 0

    def close(self) -> None:
        os.close(self._file)
        if self._transaction is not None:
            self._transaction.abort()

    def bytes_of(self, low: bytes, high: bytes) -> int:
        """The bytes of the pages with keys in [low, high). A page that is shared with a neighbour counts in full."""
        leaves, sampled = self._range(low, high)
        if leaves <= 2 and not any(self._in_range(number, low, high, _one) for number in sampled):
            return 0
        pages = float(leaves)
        if self._has_overflow:
            pages += self._total(leaves, sampled, low, high, self._beside)
        return round(pages) * self._page_bytes

    def entries_in(self, low: bytes, high: bytes) -> int:
        """The number of keys in [low, high): exact for up to SAMPLE pages, otherwise estimated from as many of them."""
        return round(self._total(*self._range(low, high), low, high, _one))

    def fullness(self, low: bytes, high: bytes) -> float:
        """The used share of the leaves with keys in [low, high), estimated from some of them; 1 for none."""
        if self._root == _NO_PAGE:
            return 1.0
        found = [page.used for page, _ in self._some_leaves(self._root, low, high, SAMPLED_LEAVES, 1.0)]
        return sum(found) / (len(found) * self._page_bytes) if len(found) > 1 else 1.0

    def sample(self, low: bytes, high: bytes) -> list[tuple[bytes, float]]:
        """Some keys in [low, high), in order, with the approximate number of keys that each represents: a few from each
        of up to SAMPLED_LEAVES pages."""
        found: list[tuple[bytes, float]] = []
        if self._root == _NO_PAGE:
            return found
        for page, weight in self._some_leaves(self._root, low, high, SAMPLED_LEAVES, 1.0):
            places = range(bisect_left(page, low), bisect_left(page, high))
            step = -(-len(places) // SAMPLED_KEYS) or 1
            found.extend((page[place], step * weight) for place in places[::step])
        return found

    def _some_leaves(
        self, number: int, low: bytes, high: bytes, most: int, weight: float
    ) -> Iterator[tuple[Page, float]]:
        """Evenly chosen leaves below a page, with the number of leaves that each represents."""
        page = self._page(number)
        if page.leaf:
            yield page, weight
            return
        children = range(bisect_right(page, low) - 1, bisect_left(page, high))
        chosen = children[:: -(-len(children) // most) or 1]
        for place in chosen:
            share = weight * len(children) / len(chosen)
            yield from self._some_leaves(page.child(place), low, high, max(most // len(chosen), 1), share)

    def get(self, key: bytes) -> bytes | None:
        """The value of a key, as of the same moment."""
        return self._transaction.get(key, db=self._database)  # type: ignore[no-any-return]

    def _range(self, low: bytes, high: bytes) -> tuple[float, list[int]]:
        """The number of leaves that may have keys in [low, high), and the page numbers of some, or of all if few."""
        sampled: list[int] = []
        return (0 if self._root == _NO_PAGE else self._leaves(self._root, low, high, sampled)), sampled

    def _total(
        self, leaves: float, sampled: list[int], low: bytes, high: bytes, count: Callable[[Page, int], int]
    ) -> float:
        """A count over the nodes with keys in [low, high), from some of the leaves."""
        chosen = sampled[:: -(-len(sampled) // SAMPLE) or 1]
        return sum(self._in_range(number, low, high, count) for number in chosen) * leaves / max(len(chosen), 1)

    def _leaves(self, number: int, low: bytes, high: bytes, sampled: list[int]) -> float:
        """The number of leaves below a page that may have keys in [low, high); adds some of them to `sampled`."""
        page = self._page(number)
        if page.leaf:
            sampled.append(number)
            return 1
        first, last = bisect_right(page, low) - 1, bisect_left(page, high) - 1
        if self._page(page.child(first)).leaf:
            step = -(-(last - first + 1) // SAMPLE)
            sampled.extend(page.child(place) for place in range(first, last + 1, step))
            return last - first + 1
        count = self._leaves(page.child(first), low, high, sampled)
        if last > first:
            count += self._leaves(page.child(last), low, high, sampled)
        inner = range(first + 1, last)
        chosen = inner[:: -(-len(inner) // SAMPLE) or 1]
        if chosen:
            found = sum(self._leaves(page.child(place), low, high, sampled) for place in chosen)
            count += found * len(inner) / len(chosen)
        return count

    def _in_range(self, number: int, low: bytes, high: bytes, count: Callable[[Page, int], int]) -> int:
        """The sum of a count over the nodes of a leaf with keys in [low, high)."""
        page = self._page(number)
        return sum(count(page, place) for place in range(bisect_left(page, low), bisect_left(page, high)))

    def _beside(self, page: Page, index: int) -> int:
        return page.overflow(index, self._page_bytes)

    def _databases(self, environment: Any) -> int:
        """The root of the tree of databases, as of an open transaction. If LMDB commits twice between the transaction's
        begin and this read, it begins again."""
        for _ in range(_ATTEMPTS):
            self._transaction = environment.begin()
            roots = roots_as_of(self._file, self._page_bytes, self._transaction.id())
            if roots is not None:
                return roots[1]
            self._transaction.abort()
        self._transaction = None
        raise SqlError("55000", "the tables' file changes too fast to be measured")

    def _page(self, number: int) -> Page:
        return Page(os.pread(self._file, self._page_bytes, number * self._page_bytes))


def roots_as_of(file: int, page_bytes: int, transaction: int) -> tuple[int, int] | None:
    """The root pages of the list of free pages and of the tree of databases, as a commit left them, by its id; None if
    it is not one of the last two. Raises XX001 for an unknown format."""
    for number in range(2):
        meta = os.pread(file, _META_BYTES, number * page_bytes)
        magic, version, _, _ = _META.unpack_from(meta, HEAD)
        if (magic, version) != (_MAGIC, _VERSION):
            raise SqlError("XX001", f"the tables' file is of LMDB's format {version}, not {_VERSION}")
        if _U64.unpack_from(meta, _META_BYTES - _U64.size)[0] == transaction:
            records = (_RECORD.unpack_from(meta, HEAD + _META.size + place * _RECORD.size) for place in range(2))
            free, databases = (int(record[7]) for record in records)
            return free, databases
    return None


def free_pages(file: int, page_bytes: int, root: int, before: int) -> Iterator[bytes]:
    """The numbers (u64 each, in no order) of pages that have been free since a commit earlier than `before`, by its id.
    `root`: of `roots_as_of`; the reading transaction must be the writing one.

    The list of free pages is a database of LMDB's own: the key is the id (u64) of the commit that left them free, the
    value their count and their numbers.
    """
    if root == _NO_PAGE:
        return
    page = Page(os.pread(file, page_bytes, root * page_bytes))
    for place in range(len(page)):
        if not page.leaf:
            yield from free_pages(file, page_bytes, page.child(place), before)
        elif _U64.unpack(page[place])[0] < before:
            size, apart = page.apart(place)
            data = page.data(place) if apart is None else os.pread(file, size, apart * page_bytes + HEAD)
            (count,) = _U64.unpack_from(data)
            yield data[_U64.size : (count + 1) * _U64.size]


def root_as_of(file: int, page_bytes: int, name: bytes, transaction: int) -> int | None:
    """The root page of a database as of a read transaction, by its id; None if the file no longer has it, or there is
    none. The transaction must be open."""
    roots = roots_as_of(file, page_bytes, transaction)
    if roots is None:
        return None
    page = Page(os.pread(file, page_bytes, roots[1] * page_bytes))
    while not page.leaf:
        page = Page(os.pread(file, page_bytes, page.child(bisect_right(page, name) - 1) * page_bytes))
    found = int(_RECORD.unpack(page.data(bisect_left(page, name)))[7])
    return None if found == _NO_PAGE else found


def _one(_: Page, __: int) -> int:
    return 1
