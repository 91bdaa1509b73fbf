"""A real `shoal serve` process on a port of its own, for tests and the bench.

    with ShoalServer() as server:
        psycopg.connect(server.dsn)

The data directory is temporary unless one is given, the port is chosen by the system at the first start and kept by
later ones, so a client can find a server again after `kill()` and `start()`.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from types import TracebackType

from tests import forks

ROOT = pathlib.Path(__file__).resolve().parent.parent
READY = "shoal ready: "
START_LIMIT = 60.0  # seconds; a loaded machine, and a changelog to replay
STOP_LIMIT = 60.0
WORKER = b"engine.columnar.worker"


class ShoalServer:
    """Starts on entry; stops, and removes a temporary directory, on exit. `dsn` is a libpq connection string."""

    worker = WORKER
    """By which the analytic worker's command is known."""

    def __init__(self, data: pathlib.Path | None = None) -> None:
        self._temporary = data is None
        self.data = data or pathlib.Path(tempfile.mkdtemp(prefix="shoal-test-")) / "data"
        self.port = 0
        self.process: forks.Process | None = None
        self.log = pathlib.Path(tempfile.mkstemp(prefix="shoal-log-")[1])

    @property
    def dsn(self) -> str:
        return f"host=127.0.0.1 port={self.port} user=postgres dbname=postgres"

    @property
    def url(self) -> str:
        """The same as a URL without a scheme: //user@host:port/database."""
        return f"//postgres@127.0.0.1:{self.port}/postgres"

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def command(self) -> list[str]:
        """The command line that `start` runs."""
        address = f"127.0.0.1:{self.port}"
        return [sys.executable, "-m", "shoal", "serve", "--data", str(self.data), "--listen", address]

    def start(self) -> None:
        """Returns when the server says that it is ready. Raises RuntimeError with its log when it does not."""
        with self.log.open("a") as log:
            self.process = forks.start(self.command(), stderr=log)
        stdout = self.process.stdout
        assert stdout is not None
        told, _, _ = select.select([stdout], [], [], START_LIMIT)
        line = stdout.readline() if told else ""
        if not line.startswith(READY):
            self.kill()
            raise RuntimeError(f"the server did not start: {line}{self.log.read_text()[-2000:]}")
        self.port = int(line.rsplit(":", 1)[1].split("/")[0])

    def stop(self) -> int:
        """SIGTERM; the exit status."""
        return self._end(signal.SIGTERM)

    def kill(self) -> int:
        """SIGKILL, as a power cut for the process; the exit status."""
        return self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Stops in good order and starts again."""
        self.stop()
        self.start()

    def _end(self, number: signal.Signals) -> int:
        process = self.process
        assert process is not None
        if process.poll() is None:
            process.send_signal(number)
        try:
            status = process.wait(STOP_LIMIT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise RuntimeError(f"the server did not stop: {self.log.read_text()[-2000:]}") from None
        if process.stdout is not None:
            process.stdout.close()
        return status

    def children(self) -> list[int]:
        """Process ids of the server's children: the analytic worker, once it has been needed, and for a moment what
        writes tables."""
        tasks = pathlib.Path(f"/proc/{self.pid}/task")
        found: list[int] = []
        for task in tasks.iterdir():
            with contextlib.suppress(OSError):
                found += [int(child) for child in (task / "children").read_text().split()]
        return found

    def workers(self) -> list[int]:
        """Process ids of the server's analytic worker, once it has been needed."""
        found = []
        for child in self.children():
            with contextlib.suppress(OSError):
                if self.worker in pathlib.Path(f"/proc/{child}/cmdline").read_bytes():
                    found.append(child)
        return found

    def __enter__(self) -> ShoalServer:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process is not None and self.process.poll() is None:
            self.stop()
        if self._temporary:
            shutil.rmtree(self.data.parent, ignore_errors=True)
        self.log.unlink(missing_ok=True)


def gone(pid: int, within: float = 10.0) -> bool:
    """Whether a process that is not our child ends within so many seconds."""
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        with contextlib.suppress(OSError):
            if pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                return True
        time.sleep(0.05)
    return False
