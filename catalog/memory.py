"""Estimates the memory of a running statement where it collects or creates large values.

    kept       the large values in rows that the statement keeps: for sorting, grouping, or sending
    fleeting   the large values that were made or read for the current row; they are freed with it unless it is kept

Only values of more than LARGE bytes count, with the size that Python reports. Smaller values are bounded by the number
of rows: the row path stops at some thousand rows (engine/execute/scan.py). Values that share bytes count separately,
and a row that is kept in two places counts twice. So the estimate is never far below the used memory.

Every thread has its own meter. Only code that runs statements calls `begin`; other threads have no limit. Code that
knows the size of a value calls `room_for` before it makes the value.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import ParamSpec, TypeVar

from catalog.errors import SqlError
from catalog.types.base import Array, is_stored

LARGE = 4096  # bytes
HEAVY = 4 << 20  # bytes; for a larger value one step of C may take nearly 0.1 s
POINTER = 8  # bytes
SAMPLE = 16  # elements of an array whose sizes are measured
UNLIMITED = sys.maxsize

P = ParamSpec("P")
T = TypeVar("T")
Known = TypeVar("Known", bound="str | bytes | None")


class Meter:
    """Meters the memory of one statement. `seen`: there was a large value, so kept rows must be measured."""

    __slots__ = (
        "account", "away", "deadline", "elsewhere", "fleeting", "given", "kept", "limit", "made", "needed", "seen",
        "stored", "wanted",
    )  # fmt: skip

    def __init__(self) -> None:
        self.begin(UNLIMITED, None)

    def begin(
        self,
        wanted: int,
        account: Account | None,
        elsewhere: type[Exception] | None = None,
        away: type[Exception] | None = None,
        calls: int = 0,
    ) -> Meter:
        """Begins a statement that may hold `wanted` bytes, or fewer if its connection's account has fewer left. Returns
        the meter. `elsewhere` is raised if the statement exceeds its limit mostly by stored rows, because another path
        can run it with less memory. `away` is raised if the statement takes long (catalog/patience.py), or if a
        function call could get a value of more than HEAVY bytes: a stored value or a parameter (`calls` is 1), or also
        the result of another call (`calls` is 2)."""
        self.away = away
        self.given = HEAVY if away is not None and calls else UNLIMITED
        self.made = HEAVY if away is not None and calls > 1 else UNLIMITED
        self.kept = self.fleeting = self.stored = self.needed = 0
        self.wanted = wanted
        self.account = account
        left = wanted if account is None else account.get_left()
        self.limit = wanted if wanted < left else left
        self.elsewhere = elsewhere
        self.deadline = 0.0  # on perf_counter's clock; 0: none
        self.seen = False
        return self

    def note_size(self, size: int) -> None:
        """Notes a large value that the statement reads. Raises `away` if a call could get a value of this size."""
        self.seen = True
        if size > self.given and self.away is not None:
            raise self.away

    def stay(self) -> None:
        """From now on, no other path can run the statement."""
        self.elsewhere = None

    def row(self, size: int) -> None:
        """Counts a large stored row that was read, in place of the previous fleeting values. Raises 53200,
        `elsewhere` or `away`."""
        self.fleeting = 0
        self.stored += size
        self.note_size(size)
        self.fleeting = size
        if self.kept + size > self.limit:
            raise self.exceeded_error()

    def saw(self, size: int) -> None:
        """Counts a large value that a call has made. Raises 53200, `elsewhere` or `away`."""
        self.seen = True
        if size > self.made and self.away is not None:
            raise self.away
        self.fleeting += size
        if self.kept + self.fleeting > self.limit:
            raise self.exceeded_error()

    def keep(self, row: Sequence[object] | bytes) -> None:
        """Counts a row that the statement keeps, as values or as encoded bytes. Raises 53200 or `elsewhere`."""
        self.fleeting = 0
        if isinstance(row, bytes):
            self.kept += len(row)
        else:
            for value in row:
                self.kept += size_of(value)
        if self.kept > self.limit:
            raise self.exceeded_error()

    def stored_row(self, size: int) -> None:
        """Counts a large stored row that the statement keeps in stored form. Raises 53200, `elsewhere` or `away`."""
        self.row(size)
        self.kept, self.fleeting = self.kept + size, 0

    def room_for(self, size: int) -> None:
        """Checks that there is memory for a value of this size, before it is made. Raises 53200 or `elsewhere`."""
        if self.kept + self.fleeting + size > self.limit:
            self.needed = self.kept + self.fleeting + size
            raise self.exceeded_error()

    def exceeded_error(self) -> Exception:
        """Returns `elsewhere`, or 53200 with the setting that sets the limit."""
        if self.elsewhere is not None and self.stored * 4 > self.limit:
            return self.elsewhere()
        if self.limit < self.wanted and self.account is not None:
            return self.account.refusal()
        return too_much(self.wanted)


def too_much(limit: int) -> SqlError:
    """53200 for a statement that needs more than its query_memory_limit. `limit` is in bytes."""
    return SqlError(
        "53200",
        "out of memory",
        detail=f"The statement needs more than query_memory_limit ({limit >> 10} kB).",
        hint="Raise query_memory_limit, or let the statement read, collect or build less at once.",
    )


class Pool:
    """The bytes that all connections of a server hold between statements, and while a statement waits.

    A statement on the row path runs to its end without waiting, so at any time only one statement holds more memory.
    """

    __slots__ = ("held", "limit")

    def __init__(self, limit: int = UNLIMITED) -> None:
        self.limit = limit
        self.held = 0


class Account:
    """The bytes of a pool that one connection holds: uncommitted writes, cursors, results that the client has not read.

    `wanted` is the connection's own limit in bytes; 0: half of the pool's limit.
    """

    __slots__ = ("_pool", "held", "wanted")

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self.wanted = 0
        self.held = 0

    @property
    def share(self) -> int:
        """The limit in bytes of a connection without a limit of its own."""
        return self._pool.limit // 2

    @property
    def limit(self) -> int:
        return self.wanted or self.share

    def get_left(self) -> int:
        """The bytes that the connection can still take; at least 0."""
        pool = self._pool
        own, left = (self.wanted or self.share) - self.held, pool.limit - pool.held
        return 0 if own <= 0 or left <= 0 else own if own < left else left

    def take(self, size: int) -> None:
        """Takes this many bytes. Raises 53200 if the connection or the pool does not have them."""
        if size > self.get_left():
            raise self.refusal()
        self.owe(size)

    def owe(self, size: int) -> None:
        """Takes bytes without a check, because they are in use already."""
        self.held += size
        self._pool.held += size

    def give(self, size: int) -> None:
        self.owe(-size)

    def refusal(self) -> SqlError:
        """53200 with the setting that sets the limit."""
        if self.limit - self.held <= self._pool.limit - self._pool.held:
            return SqlError(
                "53200",
                "out of memory",
                detail=f"The connection would hold more than connection_memory_limit ({self.limit >> 10} kB).",
                hint="End its transaction or close its cursors earlier, write less at once, or raise "
                "connection_memory_limit.",
            )
        return SqlError(
            "53200",
            "out of memory",
            detail=f"All connections together would hold more than the server's setting memory ({self._pool.limit} B).",
            hint="Try again when others have ended, or raise the server's setting memory.",
        )


class Holding:
    """Bytes of an account that an object holds. They are given back when the Holding is freed."""

    __slots__ = ("_account", "size")

    def __init__(self, account: Account) -> None:
        self._account = account
        self.size = 0

    def add(self, size: int) -> None:
        """Takes more bytes of the account. Raises 53200."""
        self._account.take(size)
        self.size += size

    def owe(self, size: int) -> None:
        """Takes more bytes of the account without a check (Account.owe)."""
        self._account.owe(size)
        self.size += size

    def __del__(self) -> None:
        self._account.give(self.size)


class _OfThread(threading.local):
    def __init__(self) -> None:
        self.meter = Meter()


_of_thread = _OfThread()


def meter() -> Meter:
    """The meter of this thread."""
    return _of_thread.meter


@contextmanager
def at_most(size: int) -> Iterator[Meter]:
    """Limits the memory within the context to `size` bytes, by a separate meter. The statement's meter does not count
    it."""
    before, _of_thread.meter = _of_thread.meter, Meter().begin(size, None)
    try:
        yield _of_thread.meter
    finally:
        _of_thread.meter = before


def new_meter(wanted: int, account: Account | None) -> Meter:
    """A meter of a statement that begins (Meter.begin)."""
    return Meter.__new__(Meter).begin(wanted, account)


def exchange_meter(other: Meter) -> Meter:
    """Makes another meter that of this thread; returns the one before."""
    before, _of_thread.meter = _of_thread.meter, other
    return before


def within(size: int, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Calls a function with a limit of `size` bytes, for work in other threads."""
    with at_most(size):
        return function(*args, **kwargs)


def room_for(size: int) -> None:
    """Meter.room_for of this thread, for sizes above LARGE."""
    if size > LARGE:
        _of_thread.meter.room_for(size)


def large(value: Known) -> Known:
    """Counts the value if it is large, and returns it. Raises as Meter.saw."""
    if value is not None and len(value) > LARGE:
        _of_thread.meter.saw(sys.getsizeof(value))
    return value


def large_array(value: Array | None) -> Array | None:
    """Counts the array if it is large, and returns it. Raises as Meter.saw."""
    if value is not None and len(value[0]) * POINTER > LARGE:
        _of_thread.meter.saw(size_of(value))
    return value


def size_of(value: object) -> int:
    """The bytes that a value in internal form takes, 0 for at most LARGE bytes."""
    if is_stored(value):  # measured without decoding it
        size = len(value.stored)  # type: ignore[attr-defined]
        return size if size > LARGE else 0
    if isinstance(value, Array):
        count = len(value.elements)
        if not count:
            return 0
        sample = value.elements[:: -(-count // SAMPLE)]
        each = POINTER + sum(map(sys.getsizeof, sample)) // len(sample)
        return each * count if each * count > LARGE else 0
    if isinstance(value, tuple):
        return sum(map(size_of, value))
    size = sys.getsizeof(value)
    return size if size > LARGE else 0
