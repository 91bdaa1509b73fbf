"""The thread that writes frozen layers into the checkpoint, oldest first.

It shares the interpreter with the engine, so it works in slices and rests between them for as long as it worked: point
reads go on at their pace. When writers are waiting for it (`hurry`), or at shutdown, it does not rest. It stands back
from processors that others want, as threads of bulk work do (engine/priority.py).

What was dropped is deleted while nothing waits to be written: not before layers, and not at shutdown, since the next
start goes on with it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue

from catalog.durations import durations
from engine.priority import stand_back
from engine.storage.checkpoint import Checkpoint
from engine.storage.interface import EngineThread
from engine.storage.views import Layer

LONGEST_REST = 0.05

_FLUSHES = durations("shoal_flush_seconds")


class Flusher:
    """`on_flushed(layer)` and `on_failure(error)` run on the engine's thread. After a failure nothing more is done."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        engine_thread: EngineThread,
        on_flushed: Callable[[Layer], None],
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self._checkpoint = checkpoint
        self._engine_thread = engine_thread
        self._on_flushed = on_flushed
        self._on_failure = on_failure
        self.hurry = False
        self.failed = False
        self._jobs: SimpleQueue[Layer | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="flush", daemon=True)
        self._thread.start()

    def add(self, layer: Layer) -> None:
        """The layer is frozen and durable; layers are added in LSN order."""
        self._jobs.put(layer)

    def stop(self) -> None:
        """Finishes what was added and ends the thread. The last `on_flushed` may still be on its way."""
        self.hurry = True
        self._jobs.put(None)
        self._thread.join()

    def _run(self) -> None:
        stand_back()
        try:
            self._delete()
            while (layer := self._jobs.get()) is not None:
                began = time.perf_counter_ns()
                self._checkpoint.write(layer, self._rest)
                _FLUSHES.add(time.perf_counter_ns() - began)
                self._engine_thread(partial(self._on_flushed, layer))
                self._delete()
        except BaseException as error:  # the thread ends here: whatever happened is reported, and is fatal
            self.failed = True
            self._engine_thread(partial(self._on_failure, error))

    def _delete(self) -> None:
        self._checkpoint.delete_dropped(self._rest, lambda: not self._jobs.empty())

    def _rest(self, worked: float) -> None:
        if not self.hurry:
            time.sleep(min(worked, LONGEST_REST))
