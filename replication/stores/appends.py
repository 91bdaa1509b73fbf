"""Writing packs (replication/stores/packs.py): one thread of a store that appends what is waiting, in order.

    append -> waiting -> all that waits: one write and one sync a folder -> acknowledged

A pack grows by zeros that are synced before anything is written over them, so that a sync has only data to write. Its
own name is on the disk before its first record is acknowledged.

**Nothing is appended behind something of unknown state.** A process appends to packs that it has made itself, and after
a failed write or sync to a new one: the pages may have been dropped as if written. The tail that was not acknowledged
is cut off as far as that can be done; what is left of it is what any put leaves whose outcome is unknown.

**A folder that is deleted** takes the pack with it, which an open file does not notice. So after every sync, and before
anything is acknowledged, the pack's name must still lead to it; else everything goes into a new one.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import threading
from collections import OrderedDict, deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

from replication.interface import ObjectExistsError
from replication.stores.packs import PACKS, SUFFIX, dead_mark, encode_record, pack_seed
from replication.stores.store_files import StoreFiles

LARGEST = 256 << 10  # bytes of an object: a larger one is a file, whose cost is the data's
FIRST_STEP = 256 << 10  # bytes that a pack has at first; then it grows by as much as it has, up to the next one
LARGEST_STEP = 1 << 20
MAX_PACK = 64 << 20
MAX_GROUP = 4 << 20  # bytes that are written at once
MAX_WAITING = 64 << 20
MAX_OPEN = 32  # packs that are held open; those of other folders are opened again when they are needed
MAX_KNOWN = 4096
MAX_RECENT = 1024  # objects that a try again is known by
MAX_TRIES = 10


class Place(Protocol):
    """The part of the directory store that is needed here. All raise OSError."""

    directory: str
    files: StoreFiles

    def make_root(self) -> None: ...

    def check_root(self) -> None: ...

    def make_folder(self, folder: str) -> None: ...

    def forget_folders(self) -> None: ...


@dataclass(eq=False, slots=True)
class _Append:
    name: str
    data: bytes
    done: Future[None]


class _OpenPack:
    """A pack that this process has made. For the store's one appending thread."""

    def __init__(self, files: StoreFiles, path: str) -> None:
        self.path = path
        self._files = files
        self._fd: int | None = files.create(path)
        status = os.fstat(self._fd)
        self._identity = (status.st_dev, status.st_ino)
        self._seed = pack_seed(os.path.basename(path))
        self._size = 0
        self.end = 0  # everything before it is on the disk

    @property
    def held(self) -> bool:
        return self._fd is not None

    def append(self, group: list[_Append]) -> list[int]:
        """The offsets of the objects, which are on the disk now. Raises OSError."""
        fd = self._open()
        end = self.end
        offsets, records = [], []
        for item in group:
            record = encode_record(self._seed, end, self.end, item.name, item.data)
            offsets.append(end)
            records.append(record)
            end += len(record)
        if end > self._size:
            self.grow(end)
        self._files.write(fd, b"".join(records), self.end)
        self._files.sync_data(fd)
        self.end = end
        return offsets

    def grow(self, end: int) -> None:
        """Makes room for what ends there, and for more. Raises OSError."""
        fd = self._open()
        size = end + min(max(self._size, FIRST_STEP), LARGEST_STEP)
        self._files.write(fd, bytes(size - self._size), self._size)
        self._files.sync(fd)
        self._size = size

    def _open(self) -> int:
        if self._fd is None:
            self._fd = self._files.reopen(self.path)
        return self._fd

    def in_place(self) -> bool:
        """Whether its name still leads to it."""
        try:
            status = os.stat(self.path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return (status.st_dev, status.st_ino) == self._identity

    def close(self) -> None:
        """Lets go of the file, without what was not acknowledged and without the zeros."""
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


class Appends:
    """What is being appended to one store."""

    def __init__(self, store: Place) -> None:
        self._store = store
        self._thread = ThreadPoolExecutor(1, "append")
        self._lock = threading.Lock()
        self._waiting: deque[_Append] = deque()
        self._waiting_bytes = 0
        self._running = False
        self._closed = False
        self._packs: OrderedDict[str, _OpenPack] = OrderedDict()  # by folder, the one used last at the end
        self._recent: OrderedDict[str, tuple[str, int]] = OrderedDict()  # acknowledged: its pack and offset

    def append(self, name: str, data: bytes) -> Future[None]:
        """Done when the object is durable. Its errors: ObjectExistsError, OSError. Raises OSError if too much waits,
        RuntimeError once closed."""
        item = _Append(name, data, Future())
        with self._lock:
            if self._closed:
                raise RuntimeError("closed")
            if self._waiting_bytes + len(data) > MAX_WAITING:
                self._drop_cancelled()
                if self._waiting_bytes + len(data) > MAX_WAITING:
                    raise OSError(errno.EBUSY, "too much waits for the disk")
            self._waiting.append(item)
            self._waiting_bytes += len(data)
            if not self._running:
                self._running = True
                self._thread.submit(self._work)
        return item.done

    def tidy(self) -> None:
        """Folders have been deleted: lets go of packs that were in them."""
        with self._lock:
            if self._packs and not self._closed:
                self._thread.submit(self._close_gone)

    def close(self) -> None:
        """Everything that waits ends as closed; what is being written is finished."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            for item in self._waiting:
                if item.done.set_running_or_notify_cancel():
                    item.done.set_exception(RuntimeError("closed"))
            self._waiting.clear()
            if self._packs or self._running:
                self._thread.submit(self._close_all)
        self._thread.shutdown(wait=False)

    def _drop_cancelled(self) -> None:
        """Callers that were not answered in time have gone; those behind a hanging disk would fill the memory."""
        self._waiting = deque(item for item in self._waiting if not item.done.cancelled())
        self._waiting_bytes = sum(len(item.data) for item in self._waiting)

    # --- the thread ----------------------------------------------------------------------------------------------

    def _work(self) -> None:
        while group := self._take():
            folders: dict[str, list[_Append]] = {}
            for item in group:
                folder, item.name = os.path.split(os.path.join(self._store.directory, item.name))
                folders.setdefault(folder, []).append(item)
            for folder, items in folders.items():
                try:
                    self._store_in(folder, items)
                except BaseException as error:
                    for item in items:
                        if not item.done.done():
                            item.done.set_exception(error)

    def _take(self) -> list[_Append]:
        """What is written next; the thread's work is done if there is nothing."""
        group: list[_Append] = []
        size = 0
        with self._lock:
            while self._waiting and size < MAX_GROUP:
                item = self._waiting.popleft()
                self._waiting_bytes -= len(item.data)
                if item.done.set_running_or_notify_cancel():
                    group.append(item)
                    size += len(item.data)
            if not group:
                self._running = False
        return group

    def _store_in(self, folder: str, items: list[_Append]) -> None:
        fresh: dict[str, _Append] = {}
        for item in items:
            if not self._has(os.path.join(folder, item.name)):
                fresh.setdefault(item.name, item)
        group = list(fresh.values())
        if group:
            path, offsets = self._write(folder, group)
            for item, offset in zip(group, offsets, strict=True):
                self._recent[os.path.join(folder, item.name)] = (path, offset)
                item.done.set_result(None)
        for item in items:  # not before it is durable: whoever hears that it exists relies on that
            if not item.done.done():
                item.done.set_exception(ObjectExistsError(item.name))
        while len(self._recent) > MAX_RECENT:
            self._recent.popitem(last=False)

    def _has(self, name: str) -> bool:
        """Whether this process has stored it, and nobody has deleted it since."""
        found = self._recent.get(name)
        if found is None:
            return False
        path, offset = found
        return os.path.lexists(path) and not os.path.lexists(dead_mark(path, offset))

    def _write(self, folder: str, group: list[_Append]) -> tuple[str, list[int]]:
        """The pack in which the objects are durable now, and their offsets in it."""
        for _ in range(MAX_TRIES):
            pack = self._packs.pop(folder, None) or self._open(folder)
            try:
                in_place = pack.held or pack.in_place()
                if in_place:
                    offsets = pack.append(group)
                    in_place = pack.in_place()
            except BaseException:
                pack.close()
                raise
            if in_place:
                self._keep(folder, pack)
                return pack.path, offsets
            pack.close()
            self._store.check_root()
            self._store.forget_folders()
        raise OSError(errno.ENOENT, f"{folder} is deleted again and again")

    def _keep(self, folder: str, pack: _OpenPack) -> None:
        if pack.end >= MAX_PACK:
            pack.close()
            return
        self._packs[folder] = pack
        if len(self._packs) <= MAX_OPEN:
            return
        held = [known for known in self._packs.values() if known.held]
        for known in held[:-MAX_OPEN]:
            known.close()
        if len(self._packs) > MAX_KNOWN:
            self._packs.popitem(last=False)[1].close()

    def _open(self, folder: str) -> _OpenPack:
        """A new pack, whose name is on the disk, with room."""
        self._close_gone()
        store = self._store
        store.make_root()
        store.forget_folders()  # another process may have deleted and made them since
        packs = os.path.join(folder, PACKS)
        for _ in range(MAX_TRIES):
            try:
                store.make_folder(packs)
                pack = _OpenPack(store.files, os.path.join(packs, secrets.token_hex(16) + SUFFIX))
            except FileNotFoundError:  # somebody deletes the folder at this moment
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

    def _close_gone(self) -> None:
        for folder in [folder for folder, pack in self._packs.items() if not pack.in_place()]:
            self._packs.pop(folder).close()

    def _close_all(self) -> None:
        while self._packs:
            self._packs.popitem()[1].close()
