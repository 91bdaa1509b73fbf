"""The process that writes into LMDB for the server (engine/storage/writing.py), as the server waits for it."""

from __future__ import annotations

import array
import fcntl
import subprocess
import termios
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

from catalog import stillness
from catalog.stillness import Stillness


@contextmanager
def watched(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Kills it where it does nothing more (catalog/stillness.py), though it has something to do."""
    over = threading.Event()
    thread = threading.Thread(target=_watch, args=(process, over), name="writer-watch", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _watch(process: subprocess.Popen[bytes], over: threading.Event) -> None:
    watch = Stillness(process.pid)
    while not over.wait(stillness.LOOK_SECONDS):
        if watch.lasts(_is_due(process.stdin)):
            process.kill()


def _is_due(stdin: IO[Any] | None) -> bool:
    """Whether it has not read everything yet, or is to end."""
    unread = array.array("i", (0,))
    try:
        assert stdin is not None
        fcntl.ioctl(stdin.fileno(), termios.FIONREAD, unread)
    except (OSError, ValueError):  # closed
        return True
    return unread[0] > 0
