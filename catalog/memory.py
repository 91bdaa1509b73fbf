"""Estimates the memory of a running statement where it collects or creates large values.

    kept       the large values of the rows that the statement has put aside: to be sorted, grouped, sent
    fleeting   the large values that were made or read for the row at hand, and are gone with it unless they are kept

A value counts from LARGE bytes on, at what Python says that it takes. Smaller ones are not looked at: the row path
stops at some thousand rows (engine/execute/scan.py), which is what bounds them. Values that share bytes count one by
one, and a row that waits in two places counts twice: an estimate, never far below what there is.

Every thread has its own meter. Only whoever runs statements says `begin`; on other threads nothing has a limit.
`room_for` is asked before something is made whose size is known: then nothing has to be taken back.
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
HEAVY = 4 << 20  # bytes, for which a step of C may take a good part of 0.1 s
POINTER = 8  # bytes
SAMPLE = 16  # elements of an array that are looked at
UNLIMITED = sys.maxsize

P = ParamSpec("P")
T = TypeVar("T")
Known = TypeVar("Known", bound="str | bytes | None")


class Meter:
    """The account of one statement. `seen`: a large value has been met, so rows that are kept are to be looked at."""

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
        """A statement that may hold `wanted` bytes begins, if its connection's account has them; the meter itself.
        `elsewhere`: what to raise where stored rows are too much, for it can be run in another way that holds less.
        `away`: the same where it takes long (catalog/patience.py), and where a call may get a value of more than HEAVY
        bytes: one that the statement is given (`calls` is 1), or also one that another call has made (2)."""
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
        """It is given something large. Raises what sends it elsewhere."""
        self.seen = True
        if size > self.given and self.away is not None:
            raise self.away

    def stay(self) -> None:
        """From now on it cannot be run in another way."""
        self.elsewhere = None

    def row(self, size: int) -> None:
        """A large stored row is read; what was fleeting before is gone. Raises 53200."""
        self.fleeting = 0
        self.stored += size
        self.note_size(size)
        self.fleeting = size
        if self.kept + size > self.limit:
            raise self.exceeded_error()

    def saw(self, size: int) -> None:
        """There is another large value. Raises 53200."""
        self.seen = True
        if size > self.made and self.away is not None:
            raise self.away
        self.fleeting += size
        if self.kept + self.fleeting > self.limit:
            raise self.exceeded_error()

    def keep(self, row: Sequence[object] | bytes) -> None:
        """A row was put aside: its values, or the bytes that it was turned into. Raises 53200."""
        self.fleeting = 0
        if isinstance(row, bytes):
            self.kept += len(row)
        else:
            for value in row:
                self.kept += size_of(value)
        if self.kept > self.limit:
            raise self.exceeded_error()

    def stored_row(self, size: int) -> None:
        """A large stored row is put aside as it is. Raises 53200."""
        self.row(size)
        self.kept, self.fleeting = self.kept + size, 0

    def room_for(self, size: int) -> None:
        """Something of this size is about to be made. Raises 53200 where it would be too much."""
        if self.kept + self.fleeting + size > self.limit:
            self.needed = self.kept + self.fleeting + size
            raise self.exceeded_error()

    def exceeded_error(self) -> Exception:
        """53200, and which setting says so."""
        if self.elsewhere is not None and self.stored * 4 > self.limit:
            return self.elsewhere()
        if self.limit < self.wanted and self.account is not None:
            return self.account.refusal()
        return too_much(self.wanted)


def too_much(limit: int) -> SqlError:
    """53200: a statement needs more than its query_memory_limit, in bytes."""
    return SqlError(
        "53200",
        "out of memory",
        detail=f"The statement needs more than query_memory_limit ({limit >> 10} kB).",
        hint="Raise query_memory_limit, or let the statement read, collect or build less at once.",
    )


class Pool:
    """What the connections of a server hold together between statements, and while one waits; bytes.

    A statement on the row path runs to its end in one go, so at any time only one of them has something beside this.
    """

    __slots__ = ("held", "limit")

    def __init__(self, limit: int = UNLIMITED) -> None:
        self.limit = limit
        self.held = 0


class Account:
    """What one connection holds of a pool: uncommitted writes, cursors, results that its client has not read.

    `wanted` is the connection's own limit; 0: half of the pool's.
    """

    __slots__ = ("_pool", "held", "wanted")

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self.wanted = 0
        self.held = 0

    @property
    def share(self) -> int:
        """What it may hold that has no limit of its own."""
        return self._pool.limit // 2

    @property
    def limit(self) -> int:
        return self.wanted or self.share

    def get_left(self) -> int:
        """What is to be had; nothing where it is less than nothing."""
        return max(min(self.limit - self.held, self._pool.limit - self._pool.held), 0)

    def take(self, size: int) -> None:
        """Raises 53200."""
        if size > self.get_left():
            raise self.refusal()
        self.owe(size)

    def owe(self, size: int) -> None:
        """Takes what is there already and cannot be refused any more."""
        self.held += size
        self._pool.held += size

    def give(self, size: int) -> None:
        self.owe(-size)

    def refusal(self) -> SqlError:
        """53200, and which setting says so."""
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
    """A part of an account that something holds as long as it lives: it is given back when nobody refers to it."""

    __slots__ = ("_account", "size")

    def __init__(self, account: Account) -> None:
        self._account = account
        self.size = 0

    def add(self, size: int) -> None:
        """Raises 53200."""
        self._account.take(size)
        self.size += size

    def owe(self, size: int) -> None:
        """Account.owe."""
        self._account.owe(size)
        self.size += size

    def __del__(self) -> None:
        self._account.give(self.size)


class _OfThread(threading.local):
    def __init__(self) -> None:
        self.meter = Meter()


_of_thread = _OfThread()


def meter() -> Meter:
    """This thread's."""
    return _of_thread.meter


@contextmanager
def at_most(size: int) -> Iterator[Meter]:
    """What is made inside may take this many bytes, whatever the statement has; nothing of it counts afterwards."""
    before, _of_thread.meter = _of_thread.meter, Meter().begin(size, None)
    try:
        yield _of_thread.meter
    finally:
        _of_thread.meter = before


def within(size: int, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """A function's result that may take this many bytes, as all that is made for it: of work in a thread."""
    with at_most(size):
        return function(*args, **kwargs)


def room_for(size: int) -> None:
    """Meter.room_for of this thread; small sizes are not asked about."""
    if size > LARGE:
        _of_thread.meter.room_for(size)


def large(value: Known) -> Known:
    """A value that may be a large one, on its way. Raises 53200."""
    if value is not None and len(value) > LARGE:
        _of_thread.meter.saw(sys.getsizeof(value))
    return value


def large_array(value: Array | None) -> Array | None:
    """The same of an array."""
    if value is not None and len(value[0]) * POINTER > LARGE:
        _of_thread.meter.saw(size_of(value))
    return value


def size_of(value: object) -> int:
    """Bytes that a value in internal form takes, from LARGE bytes on; else 0."""
    if is_stored(value):  # what it consists of is not made for this
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
