"""Processes of the tests as forks of one that has imported the server.

    forks.enable()                                          by tests/conftest.py, not by benchmarks
    process = forks.start([sys.executable, "-m", "shoal", "serve", ...], stderr=log)
    done = forks.run("status", "--cluster", url)

To import the server takes a process most of the processor time that it needs until it serves, and tests start hundreds
of them. A fork begins where an interpreter stands that has imported the modules and run nothing: its arguments,
environment, directory and streams are its own, and it ends as a process does (threads are waited for, `atexit`). What
an environment says to the C library or to the interpreter's start has no effect on it. Tests of the start itself run
the command as it stands.
"""

from __future__ import annotations

import array
import atexit
import contextlib
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).resolve().parent.parent
LARGEST = 1 << 20  # bytes of a request
IMPORTED = ("serve", "cluster.member", "embedded", "logstore", "router", "commands.check", "commands.sql")
"""Modules of `shoal` that import, with the others that they need, what commands need."""


class Forked:
    """What is used of `subprocess.Popen`."""

    def __init__(self, keeper: _Keeper, pid: int, stdout: IO[str] | None = None) -> None:
        self.pid = pid
        self.stdout = stdout
        self.returncode: int | None = None
        self._keeper = keeper
        self._ended = os.pidfd_open(pid)
        self._lock = threading.Lock()

    def poll(self) -> int | None:
        return self._look(0.0)

    def wait(self, timeout: float | None = None) -> int:
        """The exit status, negative for a signal. Raises subprocess.TimeoutExpired."""
        status = self._look(timeout)
        if status is None:
            raise subprocess.TimeoutExpired(f"fork {self.pid}", timeout or 0.0)
        return status

    def _look(self, timeout: float | None) -> int | None:
        if self.returncode is None:
            milliseconds = None if timeout is None else int(timeout * 1000)
            with contextlib.suppress(ValueError):  # another thread has closed it
                waiting = select.poll()
                waiting.register(self._ended, select.POLLIN)
                if not waiting.poll(milliseconds):
                    return None
            with self._lock:
                if self.returncode is None:
                    self.returncode = self._keeper.ask({"reap": self.pid})
                    os.close(self._ended)
                    self._ended = -1
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)


Process = subprocess.Popen[str] | Forked


class _Keeper:
    """The process that is forked, and the way to ask it."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.forks", str(theirs.fileno())], cwd=ROOT, pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        theirs.close()
        atexit.register(self.close)

    def close(self) -> None:
        self._socket.close()
        self._process.wait()

    def ask(self, request: Mapping[str, object], streams: Sequence[int] = ()) -> int:
        with self._lock:
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", streams))] if streams else []
            self._socket.sendmsg([json.dumps(request).encode()], rights)
            answer = self._socket.recv(100)
        if not answer:
            raise RuntimeError("the process that is forked has ended")
        return int(answer)


_enabled = False
_keeper: _Keeper | None = None


def enable() -> None:
    """From now on `start` forks."""
    global _enabled
    _enabled = True


def start(command: Sequence[str], *, stderr: IO[Any], environment: Mapping[str, str] | None = None) -> Process:
    """Starts a command in the tree's directory, a fork if it can be one: this Python with -m or -c. Standard input is
    empty, standard output a pipe of text."""
    if not (_enabled and command[0] == sys.executable and command[1] in ("-m", "-c")):
        return subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )
    reading, writing = os.pipe()
    try:
        with open(os.devnull, "rb") as stdin:
            forked = _fork_of(command, environment, (stdin.fileno(), writing, stderr.fileno()))
    finally:
        os.close(writing)
    forked.stdout = os.fdopen(reading)
    return forked


def run(
    *arguments: str, given: str = "", environment: Mapping[str, str] | None = None, timeout: float = 120.0
) -> subprocess.CompletedProcess[str]:
    """`shoal ARGUMENTS` in the tree's directory, to its end. `given`: its standard input. Raises
    subprocess.TimeoutExpired; it is killed then."""
    command = [sys.executable, "-m", "shoal", *arguments]
    if not _enabled:
        return subprocess.run(
            command,
            cwd=ROOT,
            env=environment,
            input=given,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
    with contextlib.ExitStack() as files:
        stdin, stdout, stderr = (files.enter_context(tempfile.TemporaryFile("w+")) for _ in range(3))
        stdin.write(given)
        stdin.seek(0)
        forked = _fork_of(command, environment, (stdin.fileno(), stdout.fileno(), stderr.fileno()))
        try:
            forked.wait(timeout)
        finally:
            forked.kill()
            status = forked.wait()
        stdout.seek(0)
        stderr.seek(0)
        return subprocess.CompletedProcess(command, status, stdout.read(), stderr.read())


def _fork_of(command: Sequence[str], environment: Mapping[str, str] | None, streams: Sequence[int]) -> Forked:
    global _keeper
    _keeper = _keeper or _Keeper()
    request = {"run": list(command[1:]), "environment": dict(os.environ if environment is None else environment)}
    return Forked(_keeper, _keeper.ask(request, streams))


# --- the process that is forked --------------------------------------------------------------------------------------


def _keep(asking: socket.socket) -> None:
    """Answers one request after the other, until nobody is there to ask."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for name in IMPORTED:
        importlib.import_module(f"shoal.{name}")

    gc.collect()
    gc.freeze()
    while True:
        received, rights, _, _ = asking.recvmsg(LARGEST, socket.CMSG_SPACE(12))
        if not received:
            return
        request = json.loads(received)
        if "reap" in request:
            answer = os.waitstatus_to_exitcode(os.waitpid(request["reap"], 0)[1])
        else:
            streams = array.array("i")
            streams.frombytes(rights[0][2])
            answer = _fork(lambda: _run(request, streams, asking))  # noqa: B023
            for stream in streams:
                os.close(stream)
        asking.send(str(answer).encode())


def _fork(work: Callable[[], object]) -> int:
    """The child's process id. It ends as `work` does."""
    child = os.fork()
    if child:
        return child
    status = 0
    try:
        work()
    except SystemExit as ended:
        status = _status(ended.code)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException:
        traceback.print_exc()
        status = 1
    finally:
        with contextlib.suppress(BaseException):
            threading._shutdown()  # type: ignore[attr-defined]
            atexit._run_exitfuncs()
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def _status(code: object) -> int:
    if isinstance(code, int):
        return code & 255
    if code is not None:
        print(code, file=sys.stderr)
    return 0 if code is None else 1


def _run(request: Mapping[str, Any], streams: Sequence[int], asking: socket.socket) -> None:
    asking.close()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(request["environment"])
    kind, what, *arguments = request["run"]
    if kind == "-m":
        sys.argv = [what, *arguments]
        runpy.run_module(what, run_name="__main__", alter_sys=True)
    else:
        sys.argv = ["-c", *arguments]
        exec(compile(what, "<string>", "exec"), {"__name__": "__main__"})


if __name__ == "__main__":
    _keep(socket.socket(fileno=int(sys.argv[1])))
