"""The thread that writes frozen layers into the checkpoint, oldest first.

It shares the interpreter with the engine, so it works in slices and rests between them for as long as it worked: point
reads keep their speed. It does not rest when writers wait for it (`hurry`), or at shutdown. It has a lower priority on
the processors, like threads of bulk work (engine/priority.py).

A full disk is not fatal: the changes are still in memory and in the changelog, LMDB has undone its transaction, and the
flush is repeated every few seconds. Any other failure is fatal.

While nothing waits to be written, the thread returns free space (engine/storage/space.py). At shutdown it does not,
because the next start continues with that.
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
from engine.storage.checkpoint import Checkpoint
from engine.storage.interface import EngineThread
from engine.storage.space import Packing, Space
from engine.storage.views import Layer

LONGEST_REST = 0.05
FULL_PAUSE = 2.0  # seconds until a flush that found the disk full is repeated

_FLUSHES = durations("shoal_flush_seconds")


@dataclass(frozen=True, slots=True)
class _Weighing:
    """Ranges of keys that a commit has dropped, and that are deleted after its flush."""

    ranges: list[tuple[bytes, bytes]]
    heavy: Callable[[], None]


class _Renewed:
    """The engine's read transaction sees the deleted and packed state."""


class _Notes:
    """Lists of changed keys begin or end (engine/storage/key_notes.py)."""


class Flusher:
    """`on_flushed(layer)`, `on_full(error)` and `on_failure(error)` run on the engine's thread. After a failure the
    thread does nothing more; after a full disk (53100) it tries again. The other callbacks:
    engine.storage.space.Space."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        engine_thread: EngineThread,
        engine_reads: Callable[[], int],
        on_flushed: Callable[[Layer], None],
        on_rewritten: Callable[[], None],
        on_held: Callable[[], None],
        on_full: Callable[[SqlError], None],
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self._checkpoint = checkpoint
        self._engine_thread = engine_thread
        self._on_flushed = on_flushed
        self._on_full = on_full
        self._on_failure = on_failure
        self._stopping = threading.Event()
        self.hurry = False
        self.failed = False
        self.wanted = True  # False: the files are about to be removed, and failures do not matter
        self._jobs: SimpleQueue[Layer | Packing | _Weighing | _Renewed | _Notes | None] = SimpleQueue()
        self._space = Space(checkpoint, engine_thread, on_rewritten, on_held, engine_reads, self._is_called, self._rest)
        self._thread = threading.Thread(target=self._run, name="flush", daemon=True)
        self._thread.start()

    def add(self, layer: Layer) -> None:
        """The layer is frozen and durable; layers are added in LSN order."""
        self._jobs.put(layer)

    def pack(self, packing: Packing) -> None:
        """After the writes of the added layers: packs its ranges of keys, and returns all free pages of the file.
        `done` runs on the engine's thread, with the error if there is one."""
        self._jobs.put(packing)

    def weigh(self, ranges: list[tuple[bytes, bytes]], heavy: Callable[[], None]) -> None:
        """These ranges will be dropped: calls `heavy` on the engine's thread if that is worth a flush."""
        self._jobs.put(_Weighing(ranges, heavy))

    @property
    def kept_bytes(self) -> int:
        """Space.kept_bytes."""
        return self._space.kept_bytes

    def write_notes(self) -> None:
        """Writes the beginning or end of lists of changed keys."""
        self._jobs.put(_Notes())

    def on_renewed(self) -> None:
        """The request of `on_rewritten` is done."""
        self._jobs.put(_Renewed())

    def stop(self) -> None:
        """Finishes the added layers and ends the thread. The last `on_flushed` may still come."""
        self.hurry = True
        self._stopping.set()
        self._jobs.put(None)
        self._thread.join()

    def _run(self) -> None:
        stand_back()
        try:
            self._space.tidy()
            while self._take():
                self._space.tidy()
        except BaseException as error:  # the thread ends here: every error is reported, and is fatal
            self.failed = True
            if self.wanted:
                self._engine_thread(partial(self._on_failure, error))

    def _take(self) -> bool:
        """Does the next work; False at the end. While it waits it holds no layer, because a layer holds the files of
        its bulk runs."""
        try:
            job = self._jobs.get(timeout=self._space.wait())
        except Empty:
            self._space.tidy(idle=True)
            return True
        if job is None:
            return False
        if isinstance(job, Packing):
            self._space.pack(job)
        elif isinstance(job, _Renewed):
            self._space.on_renewed()
        elif isinstance(job, _Notes):
            self._write_notes()
        elif isinstance(job, _Weighing):
            if self._space.weighs(job.ranges):
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

    def _write_notes(self) -> None:
        try:
            self._checkpoint.write_notes()
        except SqlError as error:
            if error.sqlstate != DISK_FULL:
                raise
            # The next flush writes them; until then a copy of the table is built again.

    def _is_called(self) -> bool:
        """Whether other work waits."""
        return not self._jobs.empty()

    def _rest(self, worked: float) -> None:
        if not self.hurry:
            time.sleep(min(worked, LONGEST_REST))
