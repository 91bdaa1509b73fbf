"""A real `shoal logstore` process on a port of its own, for tests.

with LogProcess() as server:
    store = open_store(server.url)
"""

from __future__ import annotations

import os
import pathlib
import select
import shutil
import signal
import sys
import tempfile
from collections.abc import Sequence
from types import TracebackType

from tests import forks

ROOT = pathlib.Path(__file__).resolve().parents[3]
READY = "shoal logstore ready: "
LIMIT = 60.0  # seconds; a loaded machine


class LogProcess:
    """Starts on entry, is killed on exit; keeps its port over `start`s. `environment` is added to our own, `options` to
    the command."""

    def __init__(self, environment: dict[str, str] | None = None, options: Sequence[str] = ()) -> None:
        self._options = options
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="shoal-logstore-"))
        self.url = ""
        self._listen = "127.0.0.1:0"
        self._environment = {**os.environ, **(environment or {})}
        self._process: forks.Process | None = None
        self._log = self.directory / "log"

    def start(self) -> None:
        command = [sys.executable, "-m", "shoal", "logstore", "--data", str(self.directory / "data")]
        command += ["--listen", self._listen, *self._options]
        with self._log.open("a") as log:
            self._process = forks.start(command, stderr=log, environment=self._environment)
        assert self._process.stdout is not None
        told, _, _ = select.select([self._process.stdout], [], [], LIMIT)
        line = self._process.stdout.readline() if told else ""
        if not line.startswith(READY):
            self._process.kill()
            raise RuntimeError(f"the log store did not start: {line}{self._log.read_text()[-2000:]}")
        self.url = line[len(READY) :].strip()
        self._listen = self.url.partition("://")[2]

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def suspend(self) -> None:
        """SIGSTOP: connections stay open, nothing is answered."""
        self.signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.signal(signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """SIGTERM; the exit status."""
        return self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> int:
        assert self._process is not None
        if self._process.poll() is None:
            self._process.send_signal(number)
        status = self._process.wait(LIMIT)
        if self._process.stdout is not None:
            self._process.stdout.close()
        return status

    def __enter__(self) -> LogProcess:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)
