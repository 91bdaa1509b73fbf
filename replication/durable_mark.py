"""The file `durable` of a local changelog: the last LSN that was acknowledged.

It is mapped and written without a sync after each group. So it survives a crash of the process up to the last entry,
and a power cut as far as the system wrote it back. The LSN is in two slots, written in turn, because the system may
write the page back while one of them changes. A third slot has the LSN after which every entry has its files.
"""

from __future__ import annotations

import mmap
import os
import struct

import google_crc32c

from replication.files import Files
from replication.segments import BLOCK, damaged_changelog_error

_SLOT = struct.Struct("<QI")
_SLOT_LSN = struct.Struct("<Q")
_SLOT_DISTANCE = 512
_FILES_SLOT = 1024


class DurableMark:
    """The mapped file."""

    def __init__(self, path: str, files: Files, fresh: bool) -> None:
        """`fresh`: there is no segment yet, so the file may be missing, or incomplete after a crash. Raises XX001."""
        if not fresh and (not os.path.exists(path) or os.path.getsize(path) < BLOCK):
            raise damaged_changelog_error("the file 'durable' is damaged")
        fd = files.open(path)
        try:
            if os.fstat(fd).st_size < BLOCK:
                files.write(fd, self._slot(0).ljust(BLOCK, b"\0"), 0)
                files.sync(fd)
            self._pages = mmap.mmap(fd, BLOCK)
        finally:
            os.close(fd)
        self._next_slot = 0
        if fresh:
            self.write_files_after(0)

    @staticmethod
    def _slot(lsn: int) -> bytes:
        return _SLOT.pack(lsn, google_crc32c.value(_SLOT_LSN.pack(lsn)))

    def read(self) -> int:
        """The last durable LSN. Raises XX001 when neither slot is whole."""
        return decode_mark(self._pages)

    def write(self, lsn: int) -> None:
        self._pages[self._next_slot : self._next_slot + _SLOT.size] = self._slot(lsn)
        self._next_slot ^= _SLOT_DISTANCE

    def files_after(self) -> int | None:
        """The LSN after which every existing entry has the files that it refers to; None if that is unknown, because an
        older release has used the directory."""
        lsn, crc = _SLOT.unpack_from(self._pages, _FILES_SLOT)
        return lsn if google_crc32c.value(_SLOT_LSN.pack(lsn)) == crc else None

    def write_files_after(self, lsn: int) -> None:
        """Durable when it returns."""
        self._pages[_FILES_SLOT : _FILES_SLOT + _SLOT.size] = self._slot(lsn)
        self._pages.flush()

    def close(self) -> None:
        self._pages.flush()
        self._pages.close()


def read_mark(path: str) -> int:
    """The LSN in the file of a DurableMark, which is not changed. Raises OSError, XX001."""
    with open(path, "rb") as file:
        return decode_mark(file.read(BLOCK).ljust(BLOCK, b"\0"))


def decode_mark(pages: bytes | mmap.mmap) -> int:
    """The LSN in the pages of a DurableMark. Raises XX001 when neither slot is whole."""
    found: list[int] = []
    for place in (0, _SLOT_DISTANCE):
        lsn, crc = _SLOT.unpack_from(pages, place)
        if google_crc32c.value(_SLOT_LSN.pack(lsn)) == crc:
            found.append(lsn)
    if not found:
        raise damaged_changelog_error("the file 'durable' is damaged")
    return max(found)
