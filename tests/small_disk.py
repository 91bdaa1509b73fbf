"""File systems that are small, and that have no room left for a while."""

from __future__ import annotations

import contextlib
import pathlib
import subprocess
from collections.abc import Iterator

import pytest


@contextlib.contextmanager
def mounted(place: pathlib.Path, size: int) -> Iterator[pathlib.Path]:
    """A file system of so many bytes in a new directory. Skips the test where it cannot be mounted."""
    place.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)], check=False)
    if done.returncode:
        pytest.skip("a file system can be mounted by root only")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


@contextlib.contextmanager
def without_room(disk: pathlib.Path, left: int) -> Iterator[None]:
    """The disk has so many bytes left for a while, whoever removes what it is full of."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        with contextlib.suppress(OSError):
            while file.write(b"\0" * (1 << 20)):
                pass
        with contextlib.suppress(OSError):
            while file.write(b"\0" * 4096):
                pass
        file.truncate(max(file.tell() - left, 0))
        try:
            yield
        finally:
            ballast.unlink(missing_ok=True)
