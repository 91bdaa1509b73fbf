"""Processes for the pages: one that has imported everything is forked, for each page and for each of its commands.

    KEEPER                          has imported what commands need, and runs one page after the other
      PAGE                          process 1 of new namespaces: nothing but the page's own listens or runs there
        the page's blocks           running.py
        `shoal ...`, `python`       what SHIM asks PAGE for, on its own standard streams, directory and environment

Importing the server takes one to two seconds of a processor, and a page has up to thirty commands. Whoever ends KEEPER
ends all of it.
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import json
import os
import pathlib
import selectors
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Sequence

NEW_NAMESPACES = 0x40000000 | 0x00020000 | 0x20000000  # CLONE_NEWNET, CLONE_NEWNS, CLONE_NEWPID
SOCKET = "DOCS_KEEPER"
_LARGEST = 1 << 20  # bytes of a request

# Stands on the PATH. What it is called, its words, directory and environment, and its standard streams go to PAGE;
# signals too, each as a byte; what comes back is the exit status.
SHIM = f"""#!{sys.executable} -IS
import array, json, os, signal, socket, sys
page = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
page.connect(os.environ["{SOCKET}"])
asked = json.dumps([os.path.basename(sys.argv[0]), sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
page.sendmsg([len(asked).to_bytes(4, "big")], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1, 2]))])
page.sendall(asked)
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda number, frame: page.sendall(bytes([number])))
sys.exit(int(page.recv(10) or b"255"))
"""

Command = Callable[[str, list[str]], int]


def in_child(work: Callable[[], int]) -> int:
    """Forks; the process id of the child, which ends with what `work` gives."""
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        status = work()
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except KeyboardInterrupt:
        status = 128 + signal.SIGINT
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status & 255)


def status_of(wait_status: int) -> int:
    """As a shell has it."""
    code = os.waitstatus_to_exitcode(wait_status)
    return code if code >= 0 else 128 - code


def apart(work: Callable[[], int]) -> int:
    """Runs `work` as process 1 of new namespaces; its exit status. What it leaves running ends with it. Raises
    OSError where the kernel forbids namespaces."""

    def outside() -> int:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.unshare(NEW_NAMESPACES) != 0:
            raise OSError(ctypes.get_errno(), "no namespaces")
        return status_of(os.waitpid(in_child(work), 0)[1])

    return status_of(os.waitpid(in_child(outside), 0)[1])


class Page:
    """Process 1 of a page: forks what is asked for, and waits for whatever ends."""

    def __init__(self, address: pathlib.Path, command: Command) -> None:
        self._command = command
        self._selector = selectors.DefaultSelector()
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listening.bind(str(address))
        self._listening.listen(64)
        self._running: dict[int, socket.socket] = {}

    def run(self, blocks: Callable[[], int]) -> int:
        """Until the page's blocks have ended; their status."""
        woken, wake = socket.socketpair()
        woken.setblocking(False)
        wake.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.set_wakeup_fd(wake.fileno())
        self._selector.register(woken, selectors.EVENT_READ)
        self._selector.register(self._listening, selectors.EVENT_READ)
        main = in_child(blocks)
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is woken:
                    with contextlib.suppress(BlockingIOError):
                        woken.recv(4096)
                elif key.fileobj is self._listening:
                    self._fork(self._listening.accept()[0])
                else:
                    self._signal(key.fileobj, key.data)  # type: ignore[arg-type]
            for child, status in _ended():
                if child == main:
                    return status_of(status)
                if child in self._running:
                    self._answer(self._running.pop(child), status)

    def _fork(self, client: socket.socket) -> None:
        size, ancillary, _, _ = client.recvmsg(4, socket.CMSG_SPACE(12))
        streams = array.array("i")
        streams.frombytes(ancillary[0][2])
        asked = b""
        while len(asked) < min(int.from_bytes(size, "big"), _LARGEST):
            asked += client.recv(_LARGEST)
        name, words, directory, environment = json.loads(asked)

        def work() -> int:
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGCHLD, signal.SIGTERM):
                signal.signal(number, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            for number, stream in enumerate(streams):
                os.dup2(stream, number)
            os.closerange(3, 1024)
            sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
            os.chdir(directory)
            os.environ.clear()
            os.environ.update(environment)
            return self._command(name, words)

        child = in_child(work)
        for stream in streams:
            os.close(stream)
        self._running[child] = client
        self._selector.register(client, selectors.EVENT_READ, child)

    def _signal(self, client: socket.socket, child: int) -> None:
        numbers = client.recv(16)
        for number in numbers or [signal.SIGKILL]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, number)
        if not numbers:
            self._selector.unregister(client)

    def _answer(self, client: socket.socket, status: int) -> None:
        with contextlib.suppress(KeyError):
            self._selector.unregister(client)
        with contextlib.suppress(OSError):
            client.sendall(str(status_of(status)).encode())
        client.close()


def _ended() -> Sequence[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            found.append(ended)
    return found
