"""The format of packs, and their reader. A pack is a file of a directory store that holds many small objects as
records.

    <folder>/~packs/<32 hex>.pack             records, then zeros; one writer, which never reopens it
    <folder>/~packs/<32 hex>.pack-<offset>    empty: the record at the offset has been deleted

    record    magic  crc  durable  size  crc of data  length of name  name  data  zeros up to a multiple of 8

**Files or packs.** A separate file costs two commits of the file system's journal (its data and inode, its name). An
append into zeros that are on disk costs the data alone, and one sync serves all waiting appends.

**Reading.** A process caches the places of a folder's records, and the position up to which it has read each pack; an
unknown name makes it read on. An incomplete record ends the reading for now: it may be in progress, or the rest of a
crash, which was never acknowledged. Every pack is opened again for that, so that a shared file system shows new data.

**Damage** is distinguished from such an end by later records: every record contains the size of its pack that was on
disk before it was written (`durable`). If that is beyond the end of the reading, acknowledged data are lost. Then
reading continues after the damage, and an unreadable object raises ObjectDamagedError, never missing: by its name if
that is intact, otherwise for every name of the folder that is not found. The crc of a record's head starts with the
name of the pack and the offset, so that stored data never look like a record.

**Deletions** are files beside the pack, so that only its creator writes a pack. They are rare: a put that is undone.
Deleted data take space until the folder is deleted.
"""

from __future__ import annotations

import contextlib
import errno
import os
import struct
import threading
import time
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass

from replication.interface import ObjectDamagedError
from replication.stores.log_protocol import crc32c
from replication.stores.store_files import StoreFiles

PACKS = "~packs"
SUFFIX = ".pack"
ALIGN = 8
MAX_NAMES = 200_000  # that are cached, of all folders, unless one alone has more
MAX_FOLDERS = 64
FIRST_LOOK = 16 << 10  # bytes of a read for new data; four times as much each time that there was more
PIECE = 1 << 20  # the maximum of one read, except for a larger record
OLD = 2.0  # seconds without a write after which a pack's time stamp shows whether there has been another write
MAX_TRIES = 10
PAGE = 1000  # names that a listing takes from a folder at once

_MAGIC = b"\xc5SP1"
_HEAD = struct.Struct("<4sI")
_FIELDS = struct.Struct("<QIIH")
_AT = struct.Struct("<Q")
_FIXED = _HEAD.size + _FIELDS.size
_MAX_HEAD = _FIXED + 256
_OFFSET_BITS = _SIZE_BITS = 32


@dataclass(frozen=True, slots=True)
class PackRecord:
    """The head of a record; offsets count from the beginning of the bytes in which it was found."""

    name: str
    durable: int  # bytes of the pack that were on disk before it was written
    start: int  # of the data
    size: int
    crc: int

    @property
    def end(self) -> int:
        return -(-(self.start + self.size) // ALIGN) * ALIGN

    def data(self, found: bytes) -> bytes | None:
        """The data of the record, None if they are incomplete."""
        data = found[self.start : self.start + self.size]
        return data if len(data) == self.size and crc32c(data) == self.crc else None


def pack_seed(pack: str) -> int:
    """The initial value of the CRCs of a pack's records; `pack` is its file's name."""
    return crc32c(pack.encode())


def encode_record(seed: int, at: int, durable: int, name: str, data: bytes) -> bytes:
    """A record at the offset `at` of its pack."""
    text = name.encode()
    fields = _FIELDS.pack(durable, len(data), crc32c(data), len(text)) + text
    record = _HEAD.pack(_MAGIC, crc32c(fields, crc32c(_AT.pack(at), seed))) + fields + data
    return record + bytes(-len(record) % ALIGN)


def decode_record(found: bytes, start: int, at: int, seed: int) -> PackRecord | None:
    """The record whose head is at `start` of the bytes, and at `at` of its pack; None if there is no whole head."""
    if len(found) - start < _FIXED or found[start : start + 4] != _MAGIC:
        return None
    crc = _HEAD.unpack_from(found, start)[1]
    durable, size, data_crc, length = _FIELDS.unpack_from(found, start + _HEAD.size)
    end = start + _FIXED + length
    if end > len(found) or crc32c(found[start + _HEAD.size : end], crc32c(_AT.pack(at), seed)) != crc:
        return None
    return PackRecord(found[start + _FIXED : end].decode(), durable, end, size, data_crc)


class _PackDeletedError(Exception):
    """A known pack no longer exists: the folder has been deleted."""


class _Pack:
    """A pack, and the position up to which it has been read."""

    def __init__(self, path: str, number: int) -> None:
        self.path = path
        self.number = number
        self.seed = pack_seed(os.path.basename(path))
        self.end = 0
        self.has_lost_record = False  # an acknowledged record cannot be read, not even its name
        self.last_look = (-1, -1, -1)  # size, time of change and `end` when nothing was found after it


class _Folder:
    """The places of one folder's packed objects. A place is (number of the pack, offset, size) in one integer."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.places: dict[str, tuple[int, ...] | int] = {}
        self._packs: dict[str, _Pack] = {}
        self._numbered: list[_Pack] = []
        self._ordered: list[str] = []  # the names in `places`, except those that came after they were listed
        self._new: list[str] = []
        self._lock = threading.Lock()

    def places_of(self, name: str) -> tuple[int, ...]:
        """The places of the records of that name: more than one after a repeated put."""
        found = self.places.get(name, ())
        return (found,) if isinstance(found, int) else found

    @property
    def is_damaged(self) -> bool:
        return any(pack.has_lost_record for pack in self._numbered)

    def location(self, place: int) -> tuple[str, int, int, int]:
        """Path and seed of the pack, offset and size."""
        pack = self._numbered[place >> (_OFFSET_BITS + _SIZE_BITS)]
        offset = place >> _SIZE_BITS & (1 << _OFFSET_BITS) - 1
        return pack.path, pack.seed, offset, place & (1 << _SIZE_BITS) - 1

    def page(self, after: str, count: int) -> list[str]:
        """Up to `count` names after one, in order. The cost does not grow with the number of other names."""
        with self._lock:
            if self._new:
                new, self._new = sorted(self._new), []
                inside = bool(self._ordered) and new[0] < self._ordered[-1]
                self._ordered += new
                if inside:
                    self._ordered.sort()  # of two runs: each name is compared once
            start = bisect_right(self._ordered, after)
            return self._ordered[start : start + count]

    def refresh(self, deep: bool) -> set[str]:
        """Reads new records; `deep`: also after possible damage. Returns the names of all files of the folder. Raises
        _GoneError, FileNotFoundError when there are no packs."""
        with self._lock:
            files = set(os.listdir(self.directory))
            if not files.issuperset(self._packs):
                raise _PackDeletedError
            for name in files:
                if name.endswith(SUFFIX):
                    self._read_pack(name, deep)
            return files

    def _read_pack(self, name: str, deep: bool) -> None:
        pack = self._packs.get(name)
        if pack is None:
            pack = self._packs[name] = _Pack(os.path.join(self.directory, name), len(self._numbered))
            self._numbered.append(pack)
        try:
            fd = os.open(pack.path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            raise _PackDeletedError from None
        try:
            self._scan(pack, fd)
            while deep and self._skip_damage(pack, fd):
                self._scan(pack, fd)
        except FileNotFoundError:
            raise _PackDeletedError from None
        finally:
            os.close(fd)

    def _scan(self, pack: _Pack, fd: int) -> None:
        """Adds whole records up to the first incomplete one."""
        wanted = FIRST_LOOK
        while True:
            found = os.pread(fd, wanted, pack.end)
            at, start = pack.end, 0
            while (record := decode_record(found, start, at + start, pack.seed)) is not None:
                if record.start + record.size > len(found):
                    break
                if record.data(found) is None:
                    pack.end = at + start
                    return
                self._add(pack, at + start, record)
                start = record.end
            pack.end = at + start
            if len(found) < wanted or (record is None and len(found) - start >= _MAX_HEAD):
                return
            wanted = min(4 * wanted, PIECE) if record is None else max(min(4 * wanted, PIECE), record.end - start)

    def _add(self, pack: _Pack, offset: int, record: PackRecord) -> None:
        place = (pack.number << _OFFSET_BITS | offset) << _SIZE_BITS | record.size
        known = self.places_of(record.name)
        if not known:
            self._new.append(record.name)
        self.places[record.name] = (*known, place) if known else place

    def _skip_damage(self, pack: _Pack, fd: int) -> bool:
        """Whether the bytes at the end of the reading are damaged; then moves the end of the reading after them."""
        status = os.fstat(fd)
        state = (status.st_size, status.st_mtime_ns, pack.end)
        if state == pack.last_look or not self._proves_loss(
            pack, os.pread(fd, max(status.st_size - pack.end, 0), pack.end)
        ):
            if time.time() - status.st_mtime > OLD:
                pack.last_look = state
            return False
        # Data that was on the disk before the proof was written can be read now, if at all. On a shared file system
        # this requires that the file is opened again.
        again = os.open(pack.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            found = os.pread(again, max(status.st_size - pack.end, 0), pack.end)
        finally:
            os.close(again)
        record = decode_record(found, 0, pack.end, pack.seed)
        if record is None:
            behind = next(_records(found, pack.end, pack.seed), None)
            if behind is None:  # it cannot be read twice in the same way: a failing disk
                return False
            pack.has_lost_record = True
            pack.end += behind[0]
        elif record.data(found) is None:
            self._add(pack, pack.end, record)
            pack.end += record.end
        return True

    def _proves_loss(self, pack: _Pack, found: bytes) -> bool:
        return any(record.durable > pack.end for _, record in _records(found, pack.end, pack.seed))


def _records(found: bytes, at: int, seed: int) -> Iterator[tuple[int, PackRecord]]:
    """The whole records after the first byte, at any offset; `at` is that byte's offset in the pack."""
    start = found.find(_MAGIC, 1)
    while start >= 0:
        record = decode_record(found, start, at + start, seed) if (at + start) % ALIGN == 0 else None
        if record is not None and record.data(found) is not None:
            yield start, record
        start = found.find(_MAGIC, start + 1)


def tombstone_name(pack: str, offset: int) -> str:
    """The file that marks a deleted record; `pack` is a path, or a file's name."""
    return f"{pack}-{offset}"


class PackReader:
    """The packed objects below a directory. `folder` is a path in the file system. For any thread; raises OSError."""

    def __init__(self, files: StoreFiles) -> None:
        self._files = files
        self._folders: OrderedDict[str, _Folder] = OrderedDict()
        self._lock = threading.Lock()

    def had_packs(self, folder: str) -> bool:
        """Whether the folder had packs at the last read."""
        return folder in self._folders

    def read(self, folder: str, name: str) -> bytes | None:
        """The object, None if there is none. Raises ObjectDamagedError."""
        for _ in range(MAX_TRIES):
            try:
                return self._read(folder, name)
            except _PackDeletedError:
                self._forget(folder)
        raise OSError(f"{folder} is deleted again and again")

    def _read(self, folder: str, name: str) -> bytes | None:
        known = self._folder(folder)
        looked: set[int] = set()
        damaged = ""
        for deep in (None, False, True):
            if deep is not None and not self._refresh(folder, known, deep):
                return None
            for place in known.places_of(name):
                if place in looked:
                    continue
                looked.add(place)
                data, whole = _read_place(known, place, name)
                if data is not None:
                    return data
                if not whole:
                    damaged = known.location(place)[0]
        if damaged or known.is_damaged:
            raise ObjectDamagedError(f"{damaged or known.directory} is damaged: {name} cannot be read")
        return None

    def list(self, folder: str, after: str = "") -> Iterator[tuple[str, int]]:
        """The packed objects of the folder itself after a name, in order, with their sizes in bytes: the present ones,
        and maybe some that are added during the listing. Raises ObjectDamagedError if some may be missing."""
        known, files = self._refreshed_folder(folder)
        marked = any(not file.endswith(SUFFIX) for file in files)
        while names := known.page(after, PAGE):
            for name in names:
                places = known.places_of(name)
                if marked:
                    places = tuple([place for place in places if not _is_deleted(known, place, files)])
                if places:
                    yield name, known.location(places[-1])[3]
            after = names[-1]

    def _refreshed_folder(self, folder: str) -> tuple[_Folder, set[str]]:
        """A folder, read up to now, and the names of its files of packs."""
        for _ in range(MAX_TRIES):
            known = self._folder(folder)
            try:
                files = known.refresh(deep=True)
            except (FileNotFoundError, NotADirectoryError):
                self._forget(folder)
                return _Folder(known.directory), set()
            except _PackDeletedError:
                self._forget(folder)
                continue
            self._remember(folder, known)
            if known.is_damaged:
                raise ObjectDamagedError(f"{known.directory} is damaged: not all its objects can be told")
            return known, files
        raise OSError(f"{folder} is deleted again and again")

    def delete(self, folder: str, name: str) -> None:
        """Deletes the object for every process, durably, if it exists."""
        for _ in range(MAX_TRIES):
            known = self._folder(folder)
            try:
                if self._refresh(folder, known, deep=True) and known.places_of(name):
                    for place in known.places_of(name):
                        path, _, offset, _ = known.location(place)
                        with contextlib.suppress(FileExistsError):
                            fd = self._files.create(tombstone_name(path, offset))
                            try:
                                self._files.sync(fd)
                            finally:
                                os.close(fd)
                    self._files.sync_directory(known.directory)
                return
            except (_PackDeletedError, FileNotFoundError):
                self._forget(folder)
        raise OSError(f"{folder} is deleted again and again")

    def holds(self, folder: str, name: str) -> bool:
        """Whether the folder has the whole object, which is on disk then. Raises FileNotFoundError if the folder is
        being deleted."""
        try:
            if self.read(folder, name) is None:
                return False
        except ObjectDamagedError:
            return False
        known = self._folder(folder)
        try:
            self._refresh(folder, known, deep=True)
        except _PackDeletedError:
            raise FileNotFoundError(errno.ENOENT, f"{folder} is being deleted") from None
        for path in {known.location(place)[0] for place in known.places_of(name)}:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                self._files.sync_data(fd)
            finally:
                os.close(fd)
        self._files.sync_directory(known.directory)
        self._files.sync_directory(folder)
        return True

    # --- cache ---------------------------------------------------------------------------------------------------

    def _folder(self, folder: str) -> _Folder:
        known = self._folders.get(folder)
        return known if known is not None else _Folder(os.path.join(folder, PACKS))

    def _refresh(self, folder: str, known: _Folder, deep: bool) -> bool:
        """False if there are no packs."""
        try:
            known.refresh(deep)
        except (FileNotFoundError, NotADirectoryError):
            self._forget(folder)
            return False
        self._remember(folder, known)
        return True

    def _remember(self, folder: str, known: _Folder) -> None:
        with self._lock:
            self._folders[folder] = known
            self._folders.move_to_end(folder)
            names = sum(len(other.places) for other in self._folders.values())
            while len(self._folders) > 1 and (names > MAX_NAMES or len(self._folders) > MAX_FOLDERS):
                names -= len(self._folders.popitem(last=False)[1].places)

    def _forget(self, folder: str) -> None:
        with self._lock:
            self._folders.pop(folder, None)


def _is_deleted(known: _Folder, place: int, files: set[str]) -> bool:
    path, _, offset, _ = known.location(place)
    return tombstone_name(os.path.basename(path), offset) in files


def _read_place(known: _Folder, place: int, name: str) -> tuple[bytes | None, bool]:
    """The data, or None; and whether they are intact: a deleted record, or one cut off by a failure of its writer, is
    None. Raises _GoneError."""
    path, seed, offset, size = known.location(place)
    if os.path.lexists(tombstone_name(path, offset)):
        return None, True
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise _PackDeletedError from None
    try:
        length = _FIXED + len(name) + size
        found = os.pread(fd, length, offset)
    finally:
        os.close(fd)
    record = decode_record(found, 0, offset, seed)
    if record is not None and record.name == name and (data := record.data(found)) is not None:
        return data, True
    return None, len(found) < length
