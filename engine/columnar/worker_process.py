"""The worker's process: its start, its end, and the files in its directory.

It starts on first use, so that a server without analytic queries needs no worker. After it has ended, it starts again
when it is needed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from catalog.stillness import LOOK_SECONDS, Stillness
from engine.columnar import frames
from engine.columnar.frame_protocol import FrameProtocol
from engine.columnar.frames import Buffer, Header
from engine.columnar.result_streams import WorkerLoss, WorkerUnavailable
from engine.priority import beside

log = logging.getLogger("shoal.columnar")

COLUMNS_FILE = "columns.duckdb"
BROKEN_SECONDS = 30.0  # without saves after a worker whose database has failed; twice that after two in a row...
MOST_BROKEN_SECONDS = 600.0  # ... and at most so many
USELESS = 2  # after so many workers in a row that ended without an answer, the file is removed
START_SECONDS = 60.0
STARTS = 2  # attempts, if the worker ends or makes no progress before it is ready
_PACKAGES = str(Path(__file__).resolve().parents[2])  # where `engine` and `catalog` are imported from


class WorkerProcess:
    """The worker's process. `directory` is the worker's own: it contains the file with the tables, if that is kept
    after the process has ended (`keep`), and the spill directory. `memory_limit` and `spill` are in bytes."""

    def __init__(
        self,
        directory: str,
        memory_limit: int,
        threads: int,
        spill: int,
        keep: bool,
        *,
        receive: Callable[[Header, list[memoryview]], None],
        on_start: Callable[[], None],
        on_loss: Callable[[str], None],
        on_exit: Callable[[], None],
    ) -> None:
        """`receive` is called with each frame, and calls `note_ready` for the first one. `on_start`: the worker is
        ready. `on_loss`: its socket has ended, with the worker's reason if it sent one. `on_exit`: the process has
        ended, a moment later."""
        self.directory = directory
        self.spill_directory = os.path.join(directory, "spill")
        self.keep = keep
        self.frames: FrameProtocol | None = None
        self.watchers: frozenset[int] = frozenset()
        """Ids of the worker's threads that only read frames or watch other threads."""
        self.useless = 0
        """Workers in a row that ended without an answer."""
        self._memory_limit = memory_limit
        self._threads = threads
        self._spill = spill
        self._receive = receive
        self._on_start = on_start
        self._on_loss = on_loss
        self._on_exit = on_exit
        self._process: subprocess.Popen[bytes] | None = None
        self._ended: asyncio.Future[int] | None = None  # the last worker's exit
        self._starting: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[None] | None = None
        self._save_after = 0.0  # on the monotonic clock
        self._broken_seconds = BROKEN_SECONDS
        self._reason = ""  # why the worker ends, if it has announced its end
        self._closed = False
        self._beside = contextlib.ExitStack()

    @property
    def pid(self) -> int:
        """The process id, or 0 if no process runs."""
        return self._process.pid if self._process is not None and self._process.poll() is None else 0

    @property
    def process_id(self) -> int | None:
        """The worker's process id, or None."""
        return self._process.pid if self._process is not None and self.frames is not None else None

    @property
    def running(self) -> bool:
        """Whether the worker accepts requests without a start."""
        return self.frames is not None and self._starting is None

    @property
    def starting(self) -> bool:
        """Whether the worker is being started."""
        return self._starting is not None

    @property
    def columns_path(self) -> str:
        """The file that keeps tables after the worker has ended."""
        return os.path.join(self.directory, COLUMNS_FILE)

    def write(self, header: Header, buffers: Sequence[Buffer] = ()) -> None:
        """Sends a frame. Raises WorkerLoss."""
        if self.frames is None or self.frames.transport is None:
            raise WorkerLoss
        self.frames.transport.writelines(frames.encode(header, buffers))

    def abort(self) -> None:
        """Kills the worker."""
        if self.frames is not None and self.frames.transport is not None:
            self.frames.transport.abort()

    def note_ready(self, watchers: Iterable[int]) -> bool:
        """Called when the worker is ready. False if no caller waits for that."""
        if self._ready is None or self._ready.done():
            return False
        self.watchers = frozenset(watchers)
        self._ready.set_result(None)
        return True

    def note_reason(self, reason: str) -> None:
        """Called when the worker has announced its end."""
        self._reason = "grown" if reason == "displaced" else reason  # such a worker is idle too

    def note_saved(self) -> None:
        """Called when the worker has saved its tables."""
        self._broken_seconds = BROKEN_SECONDS

    # ---- start -------------------------------------------------------------------------------------------------------

    def check_open(self) -> None:
        """Raises 57P02 after `close`."""
        if self._closed:
            raise WorkerUnavailable("the analytic worker has been shut down")

    async def start(self) -> None:
        """Starts the worker if it is not running. Raises 57P02 if it cannot be started."""
        self.check_open()
        if self.running:
            return
        if self._starting is None:
            self._starting = asyncio.get_running_loop().create_task(self._start())
        starting = self._starting
        try:
            await asyncio.shield(starting)
        except asyncio.CancelledError:
            if self._closed and starting.cancelled():
                raise WorkerUnavailable("the analytic worker has been shut down") from None
            raise

    async def _start(self) -> None:
        try:
            for left in reversed(range(STARTS)):
                try:
                    await self._start_once()
                    return
                except (OSError, TimeoutError, WorkerLoss) as error:
                    if not left or isinstance(error, TimeoutError):
                        raise WorkerUnavailable("the analytic worker process cannot be started", str(error)) from error
                while self.frames is not None:  # otherwise its end would count as the next worker's end
                    await asyncio.sleep(0)
        finally:
            self._starting = None

    async def _start_once(self) -> None:
        try:
            loop = asyncio.get_running_loop()
            ours, theirs = socket.socketpair()
            for end in (ours, theirs):
                for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
                    end.setsockopt(socket.SOL_SOCKET, option, 1 << 20)
            if self._ended is not None:
                await self._ended  # the old process holds the file until it has ended
            self._clear_directory()
            if self.useless >= USELESS:
                log.warning("the columns are built again: %s workers in a row have ended by what was saved", USELESS)
                self.useless = 0
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(self.columns_path)
            for path in (self.directory, self.spill_directory):
                os.makedirs(path, mode=0o700, exist_ok=True)
            self._ready = loop.create_future()
            with theirs:
                self._process = process = self._spawn(theirs.fileno())
            _, self.frames = await loop.create_connection(
                lambda: FrameProtocol(self._receive, self._note_loss), sock=ours
            )
            await self._until_ready(self._ready, process.pid)
            self._on_start()
        except BaseException:  # a cancelled start leaves no process either
            if self._ready is not None:
                self._ready.cancel()
            if self.frames is not None and self.frames.transport is not None:
                self.frames.transport.abort()
            elif self._process is not None:
                self._note_loss()
            raise

    async def _until_ready(self, ready: asyncio.Future[None], pid: int) -> None:
        """Waits for the worker's first frame. Raises TimeoutError after `START_SECONDS`, and WorkerLoss if the worker
        makes no progress."""
        watch = Stillness(pid)
        async with asyncio.timeout(START_SECONDS):
            while not ready.done():
                await asyncio.wait((ready,), timeout=LOOK_SECONDS)
                if not ready.done() and watch.lasts():
                    raise WorkerLoss
            await ready

    def _spawn(self, descriptor: int) -> subprocess.Popen[bytes]:
        environment = {
            "PATH": os.environ.get("PATH", ""),
            "LANG": "C.UTF-8",
            "PYTHONPATH": _PACKAGES,
            # One allocator with few arenas keeps little free memory, so that the memory limit is exact.
            "ARROW_DEFAULT_MEMORY_POOL": "system",
            "MALLOC_ARENA_MAX": "4",
            "OPENBLAS_NUM_THREADS": "1",
            "OMP_NUM_THREADS": "1",
        }
        command = [
            *(sys.executable, "-P", "-m", "engine.columnar.worker"),
            *("--fd", str(descriptor)),
            *("--memory-limit", str(self._memory_limit)),
            *("--threads", str(self._threads)),
            *("--spill-directory", self.spill_directory),
            *("--spill", str(self._spill)),
        ]
        if self.keep:
            command += ["--columns", self.columns_path]
            command += ["--save-after", str(max(self._save_after - time.monotonic(), 0.0))]
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,  # when it ends, the worker ends at once: engine/columnar/worker/sandbox.py
            stdout=subprocess.DEVNULL,
            pass_fds=(descriptor,),
            env=environment,
            cwd=self.spill_directory,
            start_new_session=True,
        )
        self._beside.enter_context(beside(process.pid))
        return process

    # ---- end ---------------------------------------------------------------------------------------------------------

    def _note_loss(self) -> None:
        """Called when the socket has ended. The worker has ended or will end."""
        self.frames = None
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            assert process.stdin is not None
            process.stdin.close()
            self._beside.close()
            # The kernel may need a moment to free the worker's memory, so the event loop does not wait for it.
            self._ended = asyncio.get_running_loop().run_in_executor(None, process.wait)
            self._ended.add_done_callback(lambda _: self._on_exit())
        reason, self._reason = self._reason, ""
        if reason == "broken":
            self._save_after = time.monotonic() + self._broken_seconds
            self._broken_seconds = min(2 * self._broken_seconds, MOST_BROKEN_SECONDS)
        self.useless += 1
        self._on_loss(reason)
        if self._ready is not None and not self._ready.done():
            self._ready.set_exception(WorkerLoss(reason))

    async def stop_starts(self) -> None:
        """Prevents further starts."""
        self._closed = True
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.gather(self._starting, return_exceptions=True)

    async def end(self) -> None:
        """Ends the worker, and removes all files except the file with the tables."""
        if self.frames is not None and self.frames.transport is not None:
            self.frames.transport.abort()
            while self.frames is not None:
                await asyncio.sleep(0)
        if self._ended is not None:
            await self._ended
        self._clear_directory()

    def _clear_directory(self) -> None:
        """Removes all files except the file with the tables."""
        with contextlib.suppress(FileNotFoundError), os.scandir(self.directory) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    shutil.rmtree(entry.path, ignore_errors=True)
                elif not (self.keep and entry.name == COLUMNS_FILE):
                    os.unlink(entry.path)
