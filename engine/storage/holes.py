"""Returns free pages of a file to the file system: holes are punched into the file.

LMDB never makes its file smaller; it reuses free pages. Their space is returned while the file keeps its size: a hole
reads as zeros, takes no blocks, and the next write fills it like any other page. Nothing is copied or moved, and this
works on a full disk.

LMDB's list of free pages records the commit that has left each page free. If that commit is older than the last one and
than every reader, no reader sees the page and neither of the file's two roots refers to it: LMDB would overwrite it
next. Only such pages are returned, in a writing transaction, so that no other takes one meanwhile. So a crash or a
power cut at any step loses nothing.

A call takes about a millisecond on ext4, for any size; RUN_PAGES are worth it. Single pages are returned only on
request (VACUUM FULL).
"""

from __future__ import annotations

import ctypes
import errno
import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.storage.pages import free_pages, roots_as_of

RUN_PAGES = 16
PART_BYTES = 4 << 20  # of one call: readers of the file wait for it
_KEEP_SIZE, _PUNCH_HOLE = 1, 2
_libc = ctypes.CDLL(None, use_errno=True)
_libc.fallocate64.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)

Numbers = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, slots=True)
class Given:
    """The result of a call. `before`: readers may still need pages that were left free from this commit on."""

    whole: bool = True  # False: it was stopped
    needed: int = 0  # bytes of free pages that readers may still need
    before: int = 0
    error: OSError | None = None  # the first error: some space was not returned

    @property
    def impossible(self) -> bool:
        """Whether the file system does not support it at all."""
        return self.error is not None and self.error.errno in (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)


def allocated_bytes(path: str) -> int:
    """The bytes that a file takes on disk."""
    return os.stat(path).st_blocks * 512


def punch(file: int, offset: int, size: int) -> None:
    """Punches a hole of whole blocks. Raises OSError: EOPNOTSUPP if the file system does not support it."""
    while _libc.fallocate64(file, _PUNCH_HOLE | _KEEP_SIZE, offset, size):
        number = ctypes.get_errno()
        if number != errno.EINTR:
            raise OSError(number, os.strerror(number))


def give_back(
    environment: Any, path: str, least: int, pause: Callable[[float], None], stop: Callable[[], bool]
) -> Given:
    """Returns the free pages of an environment's file in runs of at least `least`, until `stop`. Raises OSError if it
    cannot begin, lmdb.Error."""
    page_bytes = int(environment.stat()["psize"])
    file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    transaction = environment.begin(write=True)
    try:
        last = transaction.id() - 1
        roots = roots_as_of(file, page_bytes, last)
        if roots is None:
            return Given(False)
        before = min(last, oldest_reader(environment))
        pages = _numbers(free_pages(file, page_bytes, roots[0], before))
        every = _numbers(free_pages(file, page_bytes, roots[0], last + 1))
        first: OSError | None = None
        for offset, size in _parts(runs(pages, least), page_bytes):
            if stop():
                return Given(False, 0, before)
            if _has_data(file, offset, size):
                started = time.thread_time()
                try:
                    punch(file, offset, size)
                except OSError as error:  # another part may still be returned
                    first = first or error
                    if Given(error=error).impossible:
                        break
                pause(time.thread_time() - started)
        return Given(True, (len(every) - len(pages)) * page_bytes, before, first)
    finally:
        transaction.abort()
        os.close(file)


def oldest_reader(environment: Any) -> int:
    """The oldest commit that a reader of any process uses, by its id; the last one for none."""
    return min((seen for seen, _ in readers(environment)), default=int(environment.info()["last_txnid"]))


def readers(environment: Any) -> list[tuple[int, int]]:
    """The commit of each reader, by its id, and its process. The lines of LMDB's table: process, thread, id or "-"."""
    lines = (line.split() for line in environment.readers().splitlines())
    return [(int(line[2]), int(line[0])) for line in lines if len(line) == 3 and line[2].isdecimal()]


def runs(pages: Numbers, least: int) -> Iterator[tuple[int, int]]:
    """(first, one after the last) of runs of consecutive pages, each of at least `least`."""
    if not len(pages):
        return
    ends = np.flatnonzero(np.diff(pages) != 1)
    starts, stops = np.concatenate(([0], ends + 1)), np.concatenate((ends, [len(pages) - 1]))
    long = stops - starts + 1 >= least
    yield from zip(pages[starts[long]].tolist(), (pages[stops[long]] + 1).tolist(), strict=True)


def _parts(pages: Iterable[tuple[int, int]], page_bytes: int) -> Iterator[tuple[int, int]]:
    """Runs of pages as (offset, size) in the file, each small enough for one call."""
    for first, behind in pages:
        for offset in range(first * page_bytes, behind * page_bytes, PART_BYTES):
            yield offset, min(PART_BYTES, behind * page_bytes - offset)


def _numbers(parts: Iterable[bytes]) -> Numbers:
    return np.sort(np.frombuffer(b"".join(parts), np.int64))


def _has_data(file: int, offset: int, size: int) -> bool:
    """Whether a part of a range takes blocks."""
    try:
        return os.lseek(file, offset, os.SEEK_DATA) < offset + size
    except OSError:  # nothing follows it
        return False
