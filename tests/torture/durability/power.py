"""Power cuts: a file system on a loop device, and copies of the image as they would be found after the cut.

What a process has written and not synced is in the kernel's cache and not in the image, so a copy of it is what a disk
holds when the power goes. The process is stopped for the copy, after which it goes on as if nothing had happened:
one run gives many cuts, at random moments of commits, flushes and the rolling of the changelog. Each copy is mounted
(ext4 replays its journal) and recovered; what had been acknowledged must be there, and every commit whole.

Needs root and loop devices.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import random
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

from tests.engine.storage.test_crash import check

SETTLE = 0.03  # seconds for requests to the disk that are under way when the process is stopped


def possible() -> bool:
    """Whether this machine lets us mount images."""
    return os.getuid() == 0 and pathlib.Path("/dev/loop-control").exists() and shutil.which("mkfs.ext4") is not None


@contextlib.contextmanager
def mounted(image: pathlib.Path, place: pathlib.Path) -> Iterator[pathlib.Path]:
    """The file system of an image. Raises subprocess.CalledProcessError."""
    place.mkdir(exist_ok=True)
    subprocess.run(["mount", "-o", "loop", str(image), str(place)], check=True, timeout=60)
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True, timeout=60)


@contextlib.contextmanager
def image(megabytes: int) -> Iterator[pathlib.Path]:
    """An empty ext4 file system in a file, in a directory of its own that is removed at the end."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="shoal-power-"))
    try:
        path = folder / "disk"
        with path.open("wb") as file:
            file.truncate(megabytes << 20)
        subprocess.run(["mkfs.ext4", "-q", "-F", str(path)], check=True, timeout=60)
        yield path
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Child:
    """tests/engine/storage/crash_child.py at work; `acknowledged` is the last number that it has told."""

    def __init__(self, data: pathlib.Path, plant: str = "") -> None:
        command = [sys.executable, "-m", "tests.engine.storage.crash_child", str(data), *filter(None, [plant])]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self._told = b""
        self.acknowledged = 0

    def listen(self, seconds: float) -> bool:
        """For so long; whether it still runs."""
        out = self.process.stdout
        assert out is not None
        end = time.monotonic() + seconds
        while True:
            left = max(end - time.monotonic(), 0)
            if not select.select([out], [], [], left)[0]:
                return True
            data = os.read(out.fileno(), 1 << 16)
            if not data:
                return False
            self._told += data
            whole = len(self._told) // 8 * 8
            if whole:
                self.acknowledged = int.from_bytes(self._told[whole - 8 : whole], "big")
                self._told = self._told[whole:]

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


def cuts(seconds: float, seed: int, most: int = 1_000_000, plant: str = "") -> Iterator[str]:
    """Cuts the power until the time is over: for each cut what is wrong, '' if nothing."""
    chance = random.Random(seed)
    end = time.monotonic() + seconds
    done = 0
    while done < most and (time.monotonic() < end or not done):
        with image(96) as disk, mounted(disk, disk.parent / "live") as live:
            child = Child(live / "data", plant)
            try:
                while child.acknowledged == 0 and child.listen(0.05):
                    pass
                for _ in range(8):
                    if not child.listen(chance.uniform(0.0, 0.25)):
                        raise RuntimeError(f"the process has ended: {child.process.communicate()[1].decode()}")
                    yield _cut(disk, child)
                    done += 1
                    if done >= most or time.monotonic() > end:
                        break
            finally:
                child.kill()


def _cut(disk: pathlib.Path, child: Child) -> str:
    os.kill(child.process.pid, signal.SIGSTOP)
    time.sleep(SETTLE)
    child.listen(0)  # what it had told before it was stopped
    acknowledged = child.acknowledged
    copy = disk.parent / "copy"
    subprocess.run(["cp", "--sparse=always", str(disk), str(copy)], check=True, timeout=60)
    os.kill(child.process.pid, signal.SIGCONT)
    rescued = disk.parent / "rescued"
    shutil.rmtree(rescued, ignore_errors=True)
    with mounted(copy, disk.parent / "found") as found:
        shutil.copytree(found / "data", rescued)
    try:
        check(rescued, acknowledged)
        return ""
    except Exception as error:
        return f"after {acknowledged} acknowledged commits: {type(error).__name__}: {str(error)[:300]}"


def _fill(path: pathlib.Path) -> None:
    """Takes what is left of the disk."""
    with path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(1 << 14))


def full_disk() -> tuple[int, str]:
    """A disk that fills up: how many commits were acknowledged before, and what is wrong, '' if nothing."""
    with image(24) as disk, mounted(disk, disk.parent / "live") as live:
        child = Child(live / "data")
        try:
            while child.acknowledged == 0 and child.listen(0.05):
                pass
            _fill(live / "ballast")
            end = time.monotonic() + 60
            while child.listen(0.2):
                if time.monotonic() > end:
                    return child.acknowledged, "the disk is full and the process goes on"
            _, told = child.process.communicate()
            if child.process.returncode != 70:
                return child.acknowledged, f"ended with {child.process.returncode}: {told.decode()[-300:]}"
            rescued = disk.parent / "rescued"
            shutil.copytree(live / "data", rescued)
            check(rescued, child.acknowledged)
            return child.acknowledged, ""
        except AssertionError as error:
            return child.acknowledged, f"lost or torn: {str(error)[:300]}"
        finally:
            child.kill()
