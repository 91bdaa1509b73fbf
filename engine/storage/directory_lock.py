"""The lock of a data directory: the file `lock` in it, held by flock, with the owner's process id in it.

It is separate from the code that opens the directory, so that a second server reports the first one at once, before it
has loaded the modules for serving.
"""

from __future__ import annotations

import fcntl
import os
import time

from catalog.errors import SqlError

LOCK_SECONDS = 30.0


class DirectoryInUse(SqlError):  # noqa: N818 - named for what is the matter
    """Another process has this directory open (55006)."""

    def __init__(self, path: str, owner: str) -> None:
        holder = f"Stop process {owner}" if owner else "Stop it"
        super().__init__(
            "55006",
            f'directory "{path}" is in use by another process',
            hint=f"{holder}, connect to it if it is a server, or choose another directory.",
        )


def lock_directory(path: str) -> int:
    """Creates the directory if necessary and takes its lock until the descriptor is closed. Raises DirectoryInUse.

    After a kill of the server, its writing process may hold the lock for a moment (engine/storage/lmdb_writer.py):
    waits for that.
    """
    os.makedirs(path, 0o700, exist_ok=True)
    fd = os.open(os.path.join(path, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except OSError as error:
            owner = os.pread(fd, 100, 0).decode(errors="replace").strip()
            if _runs(owner) or time.monotonic() > deadline:
                os.close(fd)
                raise DirectoryInUse(path, owner) from error
            time.sleep(0.01)
    os.ftruncate(fd, 0)
    os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
    return fd


def _runs(process: str) -> bool:
    """Whether a process of this id exists, as far as is known."""
    return not process.isdecimal() or os.path.exists(f"/proc/{process}") or not os.path.exists("/proc/self")


def check_free(path: str) -> None:
    """Raises DirectoryInUse if another process has the directory now. Takes and creates nothing."""
    try:
        fd = os.open(os.path.join(path, "lock"), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return  # there is none yet; or opening it reports the problem
    try:
        owner = os.pread(fd, 100, 0).decode(errors="replace").strip()
        if owner.isdecimal() and _runs(owner):  # a concurrent opener is not disturbed
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise DirectoryInUse(path, owner) from error
    finally:
        os.close(fd)
