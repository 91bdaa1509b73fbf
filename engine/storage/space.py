"""Returns the free space of the tables' file to the file system; on the flush thread, while nothing else waits there.

    delete, pack  ->  a commit that separates them from readers  ->  the engine begins a newer read transaction
                  ->  holes are punched into free pages   (engine/storage/holes.py)

This happens after a range was dropped, when most of the file is free, and on request (`Packing`). While more than a
little space remains, it is checked again every few seconds:

    readers          snapshots, kept history, another process. After their end the pages are free. The log names readers
                     that stay long; Python's cyclic collector ends reads that only an old error refers to, and the
                     engine runs it when it is idle
    the engine       its own newest read transaction, or the last commit, whose pages LMDB keeps. An idle engine begins
                     no newer one by itself, so it gets another request
    a failed step    a full disk, an interrupted call, a busy file system

A failing step is repeated less and less often; one that the file system does not support, once an hour. Only a commit
that fails for another reason than a full disk ends the thread.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import inf

from catalog.errors import DISK_FULL, SqlError
from engine.storage.checkpoint import SHRINK_BYTES, Checkpoint
from engine.storage.holes import RUN_PAGES
from engine.storage.interface import EngineThread

READERS_PAUSE = 3.0  # seconds without other work until the remaining space is checked again
LONGEST_PAUSE = 60.0  # the same after repeated failures, and if other work never ends
IMPOSSIBLE_PAUSE = 3600.0  # the same if the file system does not support it
SPARE_BYTES = 8 << 20  # of free pages that the file may keep
TOLD_AFTER = 60.0  # seconds for which a reader keeps pages until the log names it
ASKED_SPARE_BYTES = 1 << 20  # the same if all space was requested
VAIN_PARTINGS = 2  # consecutive attempts without result: LMDB's list of free pages may itself be that large

log = logging.getLogger("shoal.storage")

Packed = Callable[[SqlError | None], None]


@dataclass(slots=True)
class Packing:
    """Ranges that must fill their pages; then the file must take as little space as possible."""

    ranges: list[tuple[bytes, bytes]]
    least: int  # pages of a hole
    done: Packed


class Space:
    """The free space of one file. `called` returns whether other work waits for the thread; `rest` is called with the
    processor seconds of a slice. `on_rewritten` runs on the engine's thread, which begins a newer read transaction
    there, and then `on_renewed` runs on this one; `engine_reads` is the oldest commit that the engine's newest
    transaction may use. `on_held` runs there too, while this process itself keeps pages by an older one."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        engine_thread: EngineThread,
        on_rewritten: Callable[[], None],
        on_held: Callable[[], None],
        engine_reads: Callable[[], int],
        called: Callable[[], bool],
        rest: Callable[[float], None],
    ) -> None:
        self._checkpoint = checkpoint
        self._engine_thread = engine_thread
        self._on_rewritten = on_rewritten
        self._on_held = on_held
        self._engine_reads = engine_reads
        self._called = called
        self._rest = rest
        self._dropped = False  # ranges were deleted since space was last returned
        self._packings: list[Packing] = []
        self._packed: list[Packing] = []  # that wait for a separating commit
        self._parted: list[Packing] = []  # whose callers are informed when space has been returned
        self._renewing = False
        self._look_at: float | None = None  # on the monotonic clock: the time of the next check
        self._before = 0  # Given.before of the last time
        self._needed = 0  # Given.needed of it
        self._reader = (0, 0.0)  # the oldest reader that keeps pages, and since when, on the monotonic clock
        self._vain = 0
        self._least = RUN_PAGES  # of the holes that were requested then
        self._kept = 0  # free bytes after the last time
        self._failures = 0  # in a row
        self._cannot_until = 0.0  # on the monotonic clock: no attempt before

    # ---- what the thread calls ----------------------------------------------------------------------------------

    def pack(self, packing: Packing) -> None:
        """One more request; `tidy` does it."""
        self._packings.append(packing)

    def weighs(self, ranges: list[tuple[bytes, bytes]]) -> bool:
        """Whether the drop of these ranges is worth a flush."""
        return self._checkpoint.weighs(ranges, SPARE_BYTES)

    @property
    def kept_bytes(self) -> int:
        """Bytes of free pages that readers keep, as of the last check."""
        return self._needed if self._look_at is not None else 0

    def wait(self) -> float | None:
        """Seconds until there is work here; None: none until a request."""
        return None if self._look_at is None else max(self._look_at - time.monotonic(), 0.0)

    def tidy(self, idle: bool = False) -> None:
        """Does the work that is possible while nothing waits to be written; `idle`: `wait` is over without other work.
        Raises SqlError except for a full disk."""
        try:
            if self._look_at is not None and time.monotonic() >= self._look_at + (0.0 if idle else LONGEST_PAUSE):
                self._look()
            if self._checkpoint.delete_dropped(self._rest, self._called):
                self._dropped = True
            self._pack()
            if not self._called() and not self._renewing and self._is_worth_it():
                self._part()
        except SqlError as error:
            if error.sqlstate != DISK_FULL:
                raise
            self._fail(error)

    def on_renewed(self) -> None:
        """The engine's read transaction sees the deleted and packed state."""
        self._renewing = False
        self._give_back()

    # ---- its steps ----------------------------------------------------------------------------------------------

    def _pack(self) -> None:
        while self._packings:
            ranges = self._packings[0].ranges
            while ranges:
                if self._called():
                    return
                low, high = ranges[0]
                left = self._checkpoint.pack(low, high, self._rest, self._called)
                if left is not None:
                    ranges[0] = left, high
                    return
                del ranges[0]
            self._packed.append(self._packings.pop(0))

    def _is_worth_it(self) -> bool:
        """Whether to return space now: on a request, or if there is more of it than last time."""
        if self._packed or self._parted:
            return True
        free = self._checkpoint.free_bytes()
        self._kept = min(self._kept, free)
        if self._dropped:
            return free > self._kept + SPARE_BYTES
        return free > self._kept + SHRINK_BYTES and self._checkpoint.mostly_free

    def _part(self) -> None:
        self._checkpoint.part_from_readers()
        self._parted += self._packed
        self._packed, self._dropped = [], False
        self._renewing = True
        self._engine_thread(self._on_rewritten)

    def _give_back(self) -> None:
        self._least = min((packing.least for packing in self._parted), default=self._least)
        cannot = self._cannot_until - time.monotonic()
        if cannot > 0:
            self._kept = self._checkpoint.free_bytes()
            self._look_later(cannot)
            self._tell(None)
            return
        try:
            given = self._checkpoint.give_back(self._least, self._rest, self._called)
        except SqlError as error:
            if error.sqlstate != DISK_FULL:
                raise
            self._fail(error)
            return
        if given.error is not None:
            self._fail(None, given.impossible)
            return
        self._failures = 0
        if not given.whole:  # other work waits, and has precedence
            self._dropped = True
            self._before = 0
            self._look_later(READERS_PAUSE)
            return
        self._vain = self._vain + 1 if given.needed * 2 > self._needed > 0 and self._is_alone() else 0
        self._before, self._needed = given.before, given.needed
        self._kept = self._checkpoint.free_bytes()
        spare = SPARE_BYTES if self._least > 1 else ASKED_SPARE_BYTES
        if given.needed > spare and self._vain <= VAIN_PARTINGS:
            self._look_later(READERS_PAUSE)
        else:
            self._look_at, self._vain, self._least = None, 0, RUN_PAGES
        self._tell(None)

    # ---- remaining space --------------------------------------------------------------------------------------

    def _is_alone(self) -> bool:
        """Whether no reader uses older pages than the engine's newest read transaction."""
        return self._checkpoint.oldest_reader >= self._engine_reads()

    def _look(self) -> None:
        """Tries again to return the remaining space, if a reader has ended, or none needs it."""
        self._look_later(READERS_PAUSE)
        if self._renewing:
            return  # the engine's thread is late
        self._checkpoint.forget_dead_readers()
        if self._checkpoint.oldest_reader <= self._before and not self._is_alone():
            self._look_at_reader()
            return
        try:
            self._part()
        except SqlError as error:
            if error.sqlstate != DISK_FULL:
                raise
            self._give_back()  # free for all readers without that
            raise

    def _look_at_reader(self) -> None:
        """A reader still keeps pages."""
        oldest, process = self._checkpoint.oldest_reader, self._checkpoint.oldest_process
        if process == os.getpid():
            self._engine_thread(self._on_held)
        now = time.monotonic()
        if self._reader[0] != oldest:
            self._reader = oldest, now
        elif now - self._reader[1] >= TOLD_AFTER:
            self._reader = oldest, inf
            who = "a snapshot of this server" if process == os.getpid() else f"process {process}"
            size, path = self._needed >> 20, self._checkpoint.path
            log.warning('%d MB of the tables in "%s" are not given back yet: %s reads what was there', size, path, who)

    def _look_later(self, seconds: float) -> None:
        self._look_at = time.monotonic() + seconds

    def _fail(self, error: SqlError | None, impossible: bool = False) -> None:
        """A step has failed, for a full disk or a temporary reason: it is repeated later."""
        self._failures += 1
        self._before = 0
        pause = min(READERS_PAUSE * 2 ** min(self._failures - 1, 10), LONGEST_PAUSE)
        if impossible:
            pause = IMPOSSIBLE_PAUSE
            self._cannot_until = time.monotonic() + pause
            self._kept = self._checkpoint.free_bytes()
        self._look_later(pause)
        self._tell(error)

    def _tell(self, error: SqlError | None) -> None:
        """Informs the callers that wait for the return of space; after an error also those that would come later."""
        waiting, self._parted = self._parted, []
        if error is not None:
            waiting += self._packed + self._packings
            self._least = min((packing.least for packing in waiting), default=self._least)
            self._packed, self._packings = [], []
        for packing in waiting:
            self._engine_thread(partial(packing.done, error))
