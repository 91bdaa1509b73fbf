"""The file operations of the directory store, behind one small class, so that tests can make the Nth one fail."""

from __future__ import annotations

import os

from replication.files import Files


class StoreFiles(Files):
    """The file operations for objects in files, and for packs."""

    def create(self, path: str) -> int:
        """A new file for writing. Raises FileExistsError."""
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)

    def link(self, old: str, new: str) -> None:
        """Makes a second name. Raises FileExistsError."""
        os.link(old, new)

    def reopen(self, path: str) -> int:
        """An existing file, for writing. Raises FileNotFoundError."""
        return os.open(path, os.O_WRONLY | os.O_CLOEXEC)
