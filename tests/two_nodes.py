"""Two nodes of a cluster without ZooKeeper (tests/cluster_node.py): `a` leads at first, `b` follows."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType

from tests.server import ROOT


class ScriptedNode:
    """A process. `dsn` and `url` as of tests.server.ShoalServer."""

    def __init__(self, folder: Path, name: str, first: bool) -> None:
        self.name = name
        self.log = folder / f"{name}.err"
        command = [sys.executable, "-m", "tests.cluster_node", str(folder), name, *(["first"] if first else [])]
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, bufsize=1
            )
        line = self._answer()
        if not line.isdigit():
            raise RuntimeError(f"node {name} did not start: {self.log.read_text()[-3000:]}")
        self.port = int(line)

    def _answer(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def say(self, line: str) -> None:
        """A command of tests/cluster_node.py; returns when it is done."""
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        answer = self._answer()
        if answer != "ok":
            raise RuntimeError(f"{line}: {answer} {self.log.read_text()[-3000:]}")

    @property
    def dsn(self) -> str:
        return f"host=127.0.0.1 port={self.port} user=postgres dbname=postgres"

    @property
    def url(self) -> str:
        return f"//postgres@127.0.0.1:{self.port}/postgres"

    def kill(self) -> None:
        """SIGKILL."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        if self.process.poll() is None and self.process.stdin is not None:
            self.process.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(30)
        if self.process.poll() is None:
            self.kill()
        if self.process.stdout is not None:
            self.process.stdout.close()


class TwoNodes:
    """Starts on entry."""

    def __enter__(self) -> TwoNodes:
        self.folder = Path(tempfile.mkdtemp(prefix="shoal-two-nodes-"))
        os.makedirs(self.folder / "bulk")
        self.a = ScriptedNode(self.folder, "a", first=True)
        self.b = ScriptedNode(self.folder, "b", first=False)
        self.leader, self.follower = self.a, self.b
        return self

    def switch(self) -> None:
        """The follower leads from now on."""
        self.leader.say("follow")
        self.follower.say("lead")
        self.leader, self.follower = self.follower, self.leader

    def nobody_leads(self) -> None:
        self.leader.say("follow")
        (self.folder / "leader").write_text("")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for node in (self.a, self.b):
            node.stop()
            text = node.log.read_text()
            if text:
                print(f"node {node.name}:\n{text[-6000:]}")
        shutil.rmtree(self.folder, ignore_errors=True)
