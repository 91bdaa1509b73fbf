"""The writer of packs (replication/stores/pack_reader.py): appends the waiting objects, in order.

    append -> waiting -> all waiting objects: one write and one sync for each folder -> acknowledged

**Thread or loop.** A thread of the store does everything that may take long: it makes packs and lets them grow, writes
to many folders, and recovers from errors. An append of a few records to an open pack, on a disk of this machine, is
written by the loop itself and synced by the kernel (replication/file_sync.py), because the way to a thread and back
acquires the interpreter lock twice. They take turns: while one of them works it owns the packs, and new appends wait.

A pack grows by zeros that are synced before anything is written over them, so that a sync has only data to write. Its
own name is on the disk before its first record is acknowledged.

**Nothing is appended behind data of unknown state.** A process appends only to packs that it has made itself. After a
failed write or sync it begins a new one, because the kernel may have dropped the pages as if they were written. It cuts
off the tail that was not acknowledged, if it can; a tail that stays is like any put of unknown outcome.

**A folder that is deleted** takes the pack with it, and the open file does not show that. So after every sync, and
before a put is acknowledged, the writer checks that the pack's name still refers to it. Otherwise it writes everything
to a new pack.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import secrets
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

from replication.file_sync import Sync, SyncCallback
from replication.interface import ObjectExistsError
from replication.stores.pack_reader import PACKS, SUFFIX, encode_record, pack_seed, tombstone_name
from replication.stores.store_files import StoreFiles

LARGEST = 256 << 10  # bytes of an object: a larger one is a file, whose cost is the data's
FIRST_STEP = 256 << 10  # bytes of a new pack; then it doubles, up to the next one
LARGEST_STEP = 1 << 20
MAX_PACK = 64 << 20
MAX_GROUP = 4 << 20  # bytes of one write
MAX_WAITING = 64 << 20
MAX_OPEN = 32  # packs that are kept open; those of other folders are opened again
MAX_KNOWN = 4096
MAX_RECENT = 1024  # objects by which a repeated put is recognised
MAX_TRIES = 10


class PackDirectory(Protocol):
    """The part of the directory store that is needed here. All raise OSError."""

    directory: str
    files: StoreFiles

    def make_root(self) -> None: ...

    def check_root(self) -> None: ...

    def make_folder(self, folder: str) -> None: ...

    def forget_folders(self) -> None: ...


OpenSync = Callable[[asyncio.AbstractEventLoop, SyncCallback], Sync | None]
"""Returns the function that syncs for the event loop; None: the thread syncs itself."""


@dataclass(eq=False, slots=True)
class _PendingAppend:
    folder: str
    name: str
    data: bytes
    done: asyncio.Future[None]

    @property
    def path(self) -> str:
        return os.path.join(self.folder, self.name)

    def answer(self, error: BaseException | None) -> None:
        if self.done.done():
            return  # the caller has stopped waiting
        if error is None:
            self.done.set_result(None)
        else:
            self.done.set_exception(error)
            self.done.exception()  # because asyncio logs errors that no caller retrieves


@dataclass(frozen=True, slots=True)
class _SyncingGroup:
    """The group that the kernel syncs now."""

    folder: str
    pack: _OpenPack
    group: list[_PendingAppend]
    offsets: list[int]
    end: int


class _OpenPack:
    """A pack that this process has made. Either the loop or the store's appending thread uses it, never both at
    once."""

    def __init__(self, files: StoreFiles, path: str) -> None:
        self.path = path
        self._files = files
        self._fd: int | None = files.create(path)
        status = os.fstat(self._fd)
        self._identity = (status.st_dev, status.st_ino)
        self._seed = pack_seed(os.path.basename(path))
        self._size = 0
        self.end = 0  # everything before it is on disk

    @property
    def is_open(self) -> bool:
        return self._fd is not None

    def append(self, group: list[_PendingAppend]) -> list[int]:
        """The offsets of the objects, which are on disk now. Raises OSError."""
        data, offsets, end = self.encode(group)
        if end > self._size:
            self.grow(end)
        self._files.sync_data(self.write(data))
        self.end = end
        return offsets

    def encode(self, group: list[_PendingAppend]) -> tuple[bytes, list[int], int]:
        """The records, their offsets, and the end of the last one."""
        end = self.end
        offsets, records = [], []
        for item in group:
            record = encode_record(self._seed, end, self.end, item.name, item.data)
            offsets.append(end)
            records.append(record)
            end += len(record)
        return b"".join(records), offsets, end

    def has_room(self, end: int) -> bool:
        return self._fd is not None and end <= self._size

    def write(self, data: bytes) -> int:
        """Writes after the durable part, and returns the file to be synced. Raises OSError."""
        fd = self._open()
        self._files.write(fd, data, self.end)
        return fd

    def grow(self, end: int) -> None:
        """Makes room up to this end, and for more. Raises OSError."""
        fd = self._open()
        size = end + min(max(self._size, FIRST_STEP), LARGEST_STEP)
        self._files.write(fd, bytes(size - self._size), self._size)
        self._files.sync(fd)
        self._size = size

    def _open(self) -> int:
        if self._fd is None:
            self._fd = self._files.reopen(self.path)
        return self._fd

    def has_path(self) -> bool:
        """Whether its path still leads to this file: a folder may have been deleted."""
        try:
            status = os.stat(self.path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return (status.st_dev, status.st_ino) == self._identity

    def close(self) -> None:
        """Closes the file, without the part that was not acknowledged and without the zeros."""
        fd, self._fd, self._size = self._fd, None, self.end
        if fd is None:
            return
        with contextlib.suppress(OSError):
            if self.end:
                os.ftruncate(fd, self.end)
            else:
                self._files.unlink(self.path)
        with contextlib.suppress(OSError):
            os.close(fd)


class PackWriter:
    """Appends small objects to the packs of one store. Methods run on the loop's thread, unless they are marked as the
    appending thread's."""

    def __init__(self, store: PackDirectory, open_sync: OpenSync) -> None:
        self._store = store
        self._open_sync = open_sync
        self._sync: Sync | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = ThreadPoolExecutor(1, "append")
        self._waiting: deque[_PendingAppend] = deque()
        self._waiting_bytes = 0
        self._busy = False  # the packs are the thread's, or the kernel syncs
        self._written: _SyncingGroup | None = None
        self._has_deletions = False  # folders have been deleted
        self._closed = False
        self._packs: OrderedDict[str, _OpenPack] = OrderedDict()  # by folder, the one used last at the end
        self._recent: OrderedDict[str, tuple[str, int]] = OrderedDict()  # acknowledged: its pack and offset

    def append(self, name: str, data: bytes) -> asyncio.Future[None]:
        """Completes when the object is durable. Its errors: ObjectExistsError, OSError. Raises OSError if too much
        waits, RuntimeError after close."""
        if self._closed:
            raise RuntimeError("closed")
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop, self._sync = loop, self._open_sync(loop, self._on_synced)
        if self._waiting_bytes + len(data) > MAX_WAITING:
            self._drop_cancelled()
            if self._waiting_bytes + len(data) > MAX_WAITING:
                raise OSError(errno.EBUSY, "too much waits for the disk")
        folder, last = os.path.split(os.path.join(self._store.directory, name))
        item = _PendingAppend(folder, last, data, loop.create_future())
        self._waiting.append(item)
        self._waiting_bytes += len(data)
        if not self._busy:
            self._start_group()
        return item.done

    def close_deleted_packs(self) -> None:
        """Closes the packs of folders that have been deleted."""
        self._has_deletions = bool(self._packs)
        if self._has_deletions and not self._busy and not self._closed:
            self._busy = True
            self._thread.submit(self._write_in_thread, [])

    def close(self) -> None:
        """Finishes the current write, and ends all waiting appends as closed."""
        if self._closed:
            return
        self._closed = True
        for item in self._waiting:
            item.answer(RuntimeError("closed"))
        self._waiting.clear()
        if self._sync is not None:
            self._sync.close()
        if self._packs or self._busy:
            self._thread.submit(self._close_all)
        self._thread.shutdown(wait=False)

    def _drop_cancelled(self) -> None:
        """Callers that were not answered in time have ended; those of a hanging disk would fill the memory."""
        self._waiting = deque(item for item in self._waiting if not item.done.cancelled())
        self._waiting_bytes = sum(len(item.data) for item in self._waiting)

    # --- the loop ------------------------------------------------------------------------------------------------

    def _start_group(self) -> None:
        """Begins to write the waiting objects, if there are some."""
        group: list[_PendingAppend] = []
        size = 0
        while self._waiting and size < MAX_GROUP:
            item = self._waiting.popleft()
            self._waiting_bytes -= len(item.data)
            if not item.done.cancelled():
                group.append(item)
                size += len(item.data)
        self._busy = not self._closed and (bool(group) or self._has_deletions)
        if self._busy and not (group and size <= LARGEST and self._write_on_loop(group)):
            self._thread.submit(self._write_in_thread, group)

    def _write_on_loop(self, group: list[_PendingAppend]) -> bool:
        """Writes the group, if it goes into one open pack with room, and begins its sync; returns whether it did."""
        folder = group[0].folder
        pack = self._packs.get(folder)
        if self._sync is None or self._has_deletions or pack is None or any(item.folder != folder for item in group):
            return False
        if len({item.name for item in group}) < len(group) or any(item.path in self._recent for item in group):
            return False
        data, offsets, end = pack.encode(group)
        if not pack.has_room(end):
            return False
        try:
            self._sync.begin(pack.write(data))
        except OSError as error:
            self._thread.submit(self._abandon_pack, folder, group, error)
            return True
        self._written = _SyncingGroup(folder, pack, group, offsets, end)
        return True

    def _on_synced(self, error: BaseException | None) -> None:
        written, self._written = self._written, None
        if written is None or self._closed:
            return
        if error is not None:
            self._thread.submit(self._abandon_pack, written.folder, written.group, error)
        elif not written.pack.has_path():
            self._thread.submit(self._write_in_thread, written.group)
        else:
            written.pack.end = written.end
            self._remember(written.pack, written.group, written.offsets)
            if written.end >= MAX_PACK:
                self._packs.pop(written.folder).close()
            else:
                self._packs.move_to_end(written.folder)
            for item in written.group:
                item.answer(None)
            self._start_group()

    def _remember(self, pack: _OpenPack, group: Sequence[_PendingAppend], offsets: Sequence[int]) -> None:
        for item, offset in zip(group, offsets, strict=True):
            self._recent[item.path] = (pack.path, offset)
        while len(self._recent) > MAX_RECENT:
            self._recent.popitem(last=False)

    # --- the thread ----------------------------------------------------------------------------------------------

    def _call_on_loop(self, callback: Callable[..., None], *arguments: object) -> None:
        assert self._loop is not None
        with contextlib.suppress(RuntimeError):  # the loop is closed, so no caller waits any more
            self._loop.call_soon_threadsafe(callback, *arguments)

    def _write_in_thread(self, group: list[_PendingAppend]) -> None:
        if self._has_deletions:
            self._has_deletions = False
            self._close_deleted()
        folders: dict[str, list[_PendingAppend]] = {}
        for item in group:
            folders.setdefault(item.folder, []).append(item)
        for folder, items in folders.items():
            try:
                self._store_group(folder, items)
            except BaseException as error:
                for item in items:
                    self._call_on_loop(item.answer, error)
        self._call_on_loop(self._start_group)

    def _abandon_pack(self, folder: str, group: list[_PendingAppend], error: BaseException) -> None:
        """After a failed write or sync; see the module's docstring."""
        self._packs.pop(folder).close()
        for item in group:
            self._call_on_loop(item.answer, error)
        self._call_on_loop(self._start_group)

    def _store_group(self, folder: str, items: list[_PendingAppend]) -> None:
        fresh: dict[str, _PendingAppend] = {}
        for item in items:
            if not self._is_stored(item.path):
                fresh.setdefault(item.name, item)
        group = list(fresh.values())
        if group:
            pack, offsets = self._write(folder, group)
            self._remember(pack, group, offsets)
            for item in group:
                self._call_on_loop(item.answer, None)
        for item in items:  # not before it is durable, because callers that learn that it exists rely on that
            if fresh.get(item.name) is not item:
                self._call_on_loop(item.answer, ObjectExistsError(item.name))

    def _is_stored(self, name: str) -> bool:
        """Whether this process has stored it, and it was not deleted since."""
        found = self._recent.get(name)
        if found is None:
            return False
        path, offset = found
        return os.path.lexists(path) and not os.path.lexists(tombstone_name(path, offset))

    def _write(self, folder: str, group: list[_PendingAppend]) -> tuple[_OpenPack, list[int]]:
        """The pack in which the objects are durable now, and their offsets in it."""
        for _ in range(MAX_TRIES):
            pack = self._packs.pop(folder, None) or self._open(folder)
            try:
                in_place = pack.is_open or pack.has_path()
                if in_place:
                    offsets = pack.append(group)
                    in_place = pack.has_path()
            except BaseException:
                pack.close()
                raise
            if in_place:
                self._keep_open(folder, pack)
                return pack, offsets
            pack.close()
            self._store.check_root()
            self._store.forget_folders()
        raise OSError(errno.ENOENT, f"{folder} is deleted again and again")

    def _keep_open(self, folder: str, pack: _OpenPack) -> None:
        if pack.end >= MAX_PACK:
            pack.close()
            return
        self._packs[folder] = pack
        if len(self._packs) <= MAX_OPEN:
            return
        held = [known for known in self._packs.values() if known.is_open]
        for known in held[:-MAX_OPEN]:
            known.close()
        if len(self._packs) > MAX_KNOWN:
            self._packs.popitem(last=False)[1].close()

    def _open(self, folder: str) -> _OpenPack:
        """A new pack with room, whose name is on disk."""
        self._close_deleted()
        store = self._store
        store.make_root()
        store.forget_folders()  # another process may have deleted and made them since
        packs = os.path.join(folder, PACKS)
        for _ in range(MAX_TRIES):
            try:
                store.make_folder(packs)
                pack = _OpenPack(store.files, os.path.join(packs, secrets.token_hex(16) + SUFFIX))
            except FileNotFoundError:  # another process deletes the folder at this moment
                store.check_root()
                store.forget_folders()
                continue
            try:
                pack.grow(0)
                store.files.sync_directory(packs)
                return pack
            except FileNotFoundError:
                pack.close()
            except BaseException:
                pack.close()
                raise
        raise OSError(errno.ENOENT, f"{folder} is deleted again and again")

    def _close_deleted(self) -> None:
        for folder in [folder for folder, pack in self._packs.items() if not pack.has_path()]:
            self._packs.pop(folder).close()

    def _close_all(self) -> None:
        while self._packs:
            self._packs.popitem()[1].close()
