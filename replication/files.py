"""The file operations of the local changelog, behind one small class, so that tests can make the Nth one fail."""

from __future__ import annotations

import os


class Files:
    """Plain files of the operating system. Offsets and sizes in bytes; every failure is an OSError."""

    def open(self, path: str) -> int:
        """Opens (or creates) a file for reading and writing."""
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def write(self, fd: int, data: bytes | memoryview, offset: int) -> None:
        """Writes all of it."""
        written = os.pwrite(fd, data, offset)
        while written < len(data):
            data = memoryview(data)[written:]
            offset += written
            written = os.pwrite(fd, data, offset)

    def sync(self, fd: int) -> None:
        os.fsync(fd)

    def sync_data(self, fd: int) -> None:
        """Syncs the data and what reading them back needs, without other metadata (man 2 fdatasync)."""
        os.fdatasync(fd)

    def sync_directory(self, path: str) -> None:
        """Makes names that were created, renamed or removed in the directory durable."""
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            self.sync(fd)
        finally:
            os.close(fd)

    def rename(self, old: str, new: str) -> None:
        os.rename(old, new)

    def unlink(self, path: str) -> None:
        os.unlink(path)
