"""The thread that writes frozen layers into the checkpoint, oldest first.

It shares the interpreter with the engine, so it works in slices and rests between them for as long as it worked: point
reads go on at their pace. When writers are waiting for it (`hurry`), or at shutdown, it does not rest. It stands back
from processors that others want, as threads of bulk work do (engine/priority.py).

A full disk ends nothing: what could not be written is still in memory and in the changelog, LMDB has undone what it had
begun, and it is tried again every few seconds, for as long as it takes. Any other failure is fatal.

What was dropped is deleted while nothing waits to be written: not before layers, and not at shutdown, since the next
start goes on with it. So is the rest of what gives space back:

    delete, pack  ->  a commit that parts them from readers  ->  the engine begins a newer read transaction
                  ->  holes are punched where pages are free   (engine/storage/holes.py)

That happens when a range was dropped, when most of the file is free, and when somebody asks (`pack`). What readers
still need then, be it snapshots or the past that is kept, is looked at again every few seconds until it is free too.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue

from catalog.durations import durations
from catalog.errors import DISK_FULL, SqlError
from engine.priority import stand_back
from engine.storage.checkpoint import SHRINK_BYTES, Checkpoint
from engine.storage.holes import RUN_PAGES
from engine.storage.interface import EngineThread
from engine.storage.views import Layer

LONGEST_REST = 0.05
FULL_PAUSE = 2.0  # seconds after which a flush that found the disk full is tried again
READERS_PAUSE = 3.0  # the same for pages that readers needed
SPARE_BYTES = 8 << 20  # of free pages that the file may keep where ranges were dropped

_FLUSHES = durations("shoal_flush_seconds")


Packed = Callable[[SqlError | None], None]


@dataclass(slots=True)
class Packing:
    """Ranges that are to fill their pages, and then the file as little space as it can."""

    ranges: list[tuple[bytes, bytes]]
    least: int  # pages of a hole
    done: Packed


@dataclass(frozen=True, slots=True)
class _Weighing:
    """Ranges of keys that a commit has dropped, and that are deleted once it is flushed."""

    ranges: list[tuple[bytes, bytes]]
    heavy: Callable[[], None]


class _Renewed:
    """The engine reads by a transaction that sees what was deleted and packed."""


class Flusher:
    """`on_flushed(layer)`, `on_rewritten()`, `on_full(error)` and `on_failure(error)` run on the engine's thread. After
    a failure nothing more is done; after a full disk (53100) the same is tried again."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        engine_thread: EngineThread,
        on_flushed: Callable[[Layer], None],
        on_rewritten: Callable[[], None],
        on_full: Callable[[SqlError], None],
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self._checkpoint = checkpoint
        self._engine_thread = engine_thread
        self._on_flushed = on_flushed
        self._on_rewritten = on_rewritten
        self._on_full = on_full
        self._on_failure = on_failure
        self._stopping = threading.Event()
        self.hurry = False
        self.failed = False
        self.wanted = True  # False: the files are about to go, and whatever fails with them is nobody's concern
        self._jobs: SimpleQueue[Layer | Packing | _Weighing | _Renewed | None] = SimpleQueue()
        self._dropped = False  # ranges were deleted since space was last given back
        self._packings: list[Packing] = []
        self._packed: list[Packing] = []  # their ends are told when space has been given back
        self._renewing = False
        self._again = False  # some could not be given back
        self._before = 0  # Given.before of then
        self._least = RUN_PAGES  # of the holes that were asked for then
        self._kept = 0  # free bytes that the last time has left
        self._thread = threading.Thread(target=self._run, name="flush", daemon=True)
        self._thread.start()

    def add(self, layer: Layer) -> None:
        """The layer is frozen and durable; layers are added in LSN order."""
        self._jobs.put(layer)

    def pack(self, packing: Packing) -> None:
        """Once what was added is written: its ranges of keys take as little space as they can, and the file's free
        pages none. `done` runs on the engine's thread, with what has prevented it."""
        self._jobs.put(packing)

    def weigh(self, ranges: list[tuple[bytes, bytes]], heavy: Callable[[], None]) -> None:
        """These ranges are to be dropped: calls `heavy` on the engine's thread if that is worth a flush."""
        self._jobs.put(_Weighing(ranges, heavy))

    def renewed(self) -> None:
        """What `on_rewritten` has asked for has been done."""
        self._jobs.put(_Renewed())

    def stop(self) -> None:
        """Finishes what was added and ends the thread. The last `on_flushed` may still be on its way."""
        self.hurry = True
        self._stopping.set()
        self._jobs.put(None)
        self._thread.join()

    def _run(self) -> None:
        stand_back()
        try:
            self._tidy()
            while self._take():
                self._tidy()
        except BaseException as error:  # the thread ends here: whatever happened is reported, and is fatal
            self.failed = True
            if self.wanted:
                self._engine_thread(partial(self._on_failure, error))

    def _take(self) -> bool:
        """Does what comes next; False at the end. While it waits it holds no layer: that holds its bulk runs' files."""
        try:
            job = self._jobs.get(timeout=READERS_PAUSE if self._again else None)
        except Empty:
            if self._checkpoint.oldest_reader > self._before:
                self._give_back()
            return True
        if job is None:
            return False
        if isinstance(job, Packing):
            self._packings.append(job)
        elif isinstance(job, _Renewed):
            self._renewing = False
            self._give_back()
        elif isinstance(job, _Weighing):
            if self._checkpoint.weighs(job.ranges, SPARE_BYTES):
                self._engine_thread(job.heavy)
        else:
            began = time.perf_counter_ns()
            self._write(job)
            _FLUSHES.add(time.perf_counter_ns() - began)
            self._engine_thread(partial(self._on_flushed, job))
        return True

    def _write(self, layer: Layer) -> None:
        while True:
            try:
                self._checkpoint.write(layer, self._rest)
                return
            except SqlError as error:
                if error.sqlstate != DISK_FULL or self._stopping.is_set():
                    raise
                self._engine_thread(partial(self._on_full, error))
            self._stopping.wait(FULL_PAUSE)

    def _tidy(self) -> None:
        """What can be done while nothing waits to be written."""
        try:
            if self._checkpoint.delete_dropped(self._rest, self._called):
                self._dropped = True
            self._pack()
            if not self._called() and not self._renewing and self._is_worth_it():
                self._checkpoint.part_from_readers()
                self._renewing = True
                self._engine_thread(self._on_rewritten)
        except SqlError as error:
            if error.sqlstate != DISK_FULL:  # then after the next flush, which may find room among the pages
                raise
            self._tell(error)

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
        """Whether to give space back now: somebody waits for it, or there is more of it than last time."""
        if self._packed:
            return True
        free = self._checkpoint.free_bytes()
        self._kept = min(self._kept, free)
        if self._dropped:
            return free > self._kept + SPARE_BYTES
        return free > self._kept + SHRINK_BYTES and self._checkpoint.mostly_free

    def _give_back(self) -> None:
        self._least = min((packing.least for packing in self._packed), default=self._least)
        try:
            given = self._checkpoint.give_back(self._least, self._rest, self._called)
        except SqlError as error:
            if error.sqlstate != DISK_FULL:
                raise
            self._tell(error)
            return
        self._again = not given.whole or given.needed > SPARE_BYTES
        self._before = given.before if given.whole else 0
        if not self._again:
            self._least = RUN_PAGES
        if given.whole:
            self._dropped = False
            self._kept = self._checkpoint.free_bytes()
            self._tell(None)

    def _tell(self, error: SqlError | None) -> None:
        """Those who wait for space to be given back."""
        waiting, self._packed = self._packed, []
        for packing in waiting:
            self._engine_thread(partial(packing.done, error))

    def _called(self) -> bool:
        """Whether something else waits."""
        return not self._jobs.empty()

    def _rest(self, worked: float) -> None:
        if not self.hurry:
            time.sleep(min(worked, LONGEST_REST))
