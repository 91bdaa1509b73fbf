"""A changelog store in a directory, local or shared: one file an object.

    DIR/<name>                 an object; complete as soon as it is visible, and durable with one exception, see below
    DIR/~incoming/<random>     an object that is being written
    DIR/<folder>/~packs/       small objects of the folder, many in a file: replication/stores/pack_reader.py

**A put** writes a new file in `~incoming`, syncs it, links it to its name (which fails if that exists: of two writers
one wins), syncs the directory of the name, and removes the first name. A crash leaves a complete object, none, or a
piece in `~incoming`, which no listing shows and which the next process removes after a day.

Between the link and the sync of the directory other processes can see the object and a power cut can still remove it.
So a process that finds an existing name syncs the directory too before it reports it: a caller who resolves an unknown
outcome by "it exists, with my content" may rely on the disk. For the same reason a process relies on a directory's own
name only when it has synced the parents itself.

A few threads of the store do the work, so that a slow disk delays only its callers. After a time-out the thread
finishes its work: the outcome is unknown.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import heapq
import os
import secrets
import stat
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from typing import TypeVar
from urllib.parse import quote

from replication.file_sync import RingSync, Sync, SyncCallback, kernel_can_sync
from replication.interface import (
    ObjectDamagedError,
    ObjectExistsError,
    ObjectInfo,
    ObjectMissingError,
    StoreFullError,
    StoreUnavailableError,
)
from replication.stores.call_deadlines import Calls, Deadline
from replication.stores.names import check_folder, check_name, is_part
from replication.stores.pack_reader import PACKS, PackReader
from replication.stores.pack_writer import LARGEST, OpenSync, PackWriter
from replication.stores.store_files import StoreFiles

THREADS = 4
PIECE = 4 << 20  # bytes of a file that are copied at a time
PAGE = 1000  # objects that a listing reads at a time
MANY_BYTES = 4 << 20  # of objects that are read together
MANY_SECONDS = 0.5  # time for which the reading of several objects continues
INCOMING = "~incoming"
STALE = 86_400.0  # seconds after which an upload without progress is the rest of a crash
LOCAL = frozenset(("ext2", "ext3", "ext4", "xfs", "f2fs", "tmpfs"))  # file systems
_FULL = (errno.ENOSPC, errno.EDQUOT)

T = TypeVar("T")


class IncomingObject:
    """An object that is being written. For one caller at a time, in the store's threads."""

    def __init__(self, store: FileStore, path: str) -> None:
        self._store = store
        self._files = store.files
        self._fd = self._files.create(path)
        self.path = path
        self.size = 0

    def write(self, data: bytes | memoryview) -> None:
        """Appends all of it. Raises OSError."""
        self._files.write(self._fd, data, self.size)
        self.size += len(data)

    def publish(self, name: str) -> None:
        """Makes it the object of that name, durably. Raises ObjectExistsError, OSError."""
        self._files.sync(self._fd)
        self._store.link(self.path, name)

    def discard(self) -> None:
        """Closes and removes the file; a published object stays."""
        with contextlib.suppress(OSError):
            os.close(self._fd)
        with contextlib.suppress(OSError):
            self._files.unlink(self.path)


class FileStore:
    """A ChangelogStore below `directory`, which is created at the first call. `timeout` in seconds."""

    def __init__(
        self,
        directory: str,
        *,
        timeout: float = 10.0,
        files: StoreFiles | None = None,
        open_sync: OpenSync | None = None,
    ) -> None:
        self.directory = os.path.abspath(directory)
        self.files = files or StoreFiles()
        self._url = "file://" + quote(self.directory)
        self._calls = Calls(self._url, timeout)
        self._threads = ThreadPoolExecutor(THREADS, "store")
        self._incoming = os.path.join(self.directory, INCOMING)
        self._rooted = False
        self._durable: set[str] = set()  # directories whose names are durable, up to the root of the store
        self._pending_reads: list[tuple[str, asyncio.Future[bytes]]] = []  # in this turn of the loop
        self._packs = PackReader(self.files)
        self._pack_writer = PackWriter(self, open_sync or (_no_sync if files else self._open_sync))

    @property
    def url(self) -> str:
        return self._url

    # --- the calls -----------------------------------------------------------------------------------------------

    async def put(self, name: str, data: bytes) -> None:
        check_name(name)
        async with self._calls.begin():
            await self.run(self._put, name, data)

    def append(self, name: str, data: bytes) -> Awaitable[None]:
        check_name(name)
        if len(data) > LARGEST:
            return self.put(name, data)
        try:
            appended = self._pack_writer.append(name, data)
        except (OSError, RuntimeError) as error:
            appended = asyncio.get_running_loop().create_future()
            appended.set_exception(error)
            appended.exception()  # because asyncio logs errors that no caller retrieves
        return self._wait_for_append(appended)

    async def _wait_for_append(self, appended: asyncio.Future[None]) -> None:
        async with self._calls.begin():
            await self._outcome(lambda: appended)

    def _open_sync(self, loop: asyncio.AbstractEventLoop, done: SyncCallback) -> Sync | None:
        """The kernel's sync, but only for a disk of this machine: on others a write may block for long."""
        if is_local(self.directory) and kernel_can_sync():
            with contextlib.suppress(OSError):
                return RingSync(loop, done)
        return None

    async def put_file(self, name: str, path: str) -> None:
        check_name(name)
        with open(path, "rb") as file:
            async with self._calls.begin() as deadline:
                incoming = await self.run(self.receive)
                try:
                    while await self.run(self._copy, file.fileno(), incoming):
                        deadline.extend()
                    await self.run(incoming.publish, name)
                finally:
                    self.run_later(incoming.discard)

    async def get(self, name: str) -> bytes:
        """One thread reads all objects that callers request in one turn of the loop, because a follower reads a few
        small objects at a time, and passing each to a thread would cost more than its reading."""
        check_name(name)
        async with self._calls.begin():
            loop = asyncio.get_running_loop()
            wanted: asyncio.Future[bytes] = loop.create_future()
            if not self._pending_reads:
                loop.call_soon(self._start_reads, loop)
            self._pending_reads.append((name, wanted))
            return await self._outcome(lambda: wanted)

    def _start_reads(self, loop: asyncio.AbstractEventLoop) -> None:
        wanted, self._pending_reads = self._pending_reads, []
        try:
            reading = loop.run_in_executor(self._threads, self._read_all, [name for name, _ in wanted])
        except RuntimeError as error:  # the threads are shut down
            _answer_reads(wanted, [error] * len(wanted))
            return
        reading.add_done_callback(partial(_on_reads_done, wanted))

    def _read_all(self, names: Sequence[str]) -> list[bytes | Exception]:
        found: list[bytes | Exception] = []
        for name in names:
            try:
                found.append(self.read(name, 0, None)[0])
            except Exception as error:  # each caller gets its own
                found.append(error)
        return found

    async def get_many(self, names: Sequence[str]) -> dict[str, bytes]:
        for name in names:
            check_name(name)
        async with self._calls.begin():
            return await self.run(lambda: {names[index]: data for index, data in self.read_many(names, MANY_BYTES)})

    async def get_file(self, name: str, path: str) -> None:
        check_name(name)
        async with self._calls.begin() as deadline:
            await self._get_file(name, path, deadline)

    async def _get_file(self, name: str, path: str, deadline: Deadline) -> None:
        offset = 0
        with open(path, "wb") as file:
            while True:
                data, size = await self.run(self.read, name, offset, PIECE)
                # Not by `run`, because a full local disk is not an error of the store.
                await asyncio.get_running_loop().run_in_executor(self._threads, file.write, data)
                offset += len(data)
                deadline.extend()
                if offset >= size:
                    return
                if not data:
                    raise self._calls.unavailable(f"object {name} has become shorter")

    async def list(self, prefix: str, after: str = "") -> AsyncIterator[ObjectInfo]:
        walk = self.walk(check_folder(prefix), after)
        while page := await self._page(walk):
            for found in page:
                yield found

    async def _page(self, walk: Iterator[ObjectInfo]) -> Sequence[ObjectInfo]:
        async with self._calls.begin():
            return await self.run(lambda: tuple(islice(walk, PAGE)))

    async def delete(self, name: str) -> None:
        check_name(name)
        async with self._calls.begin():
            await self.run(self._delete, name)

    async def delete_folder(self, prefix: str) -> None:
        check_folder(prefix)
        async with self._calls.begin():
            try:
                await self.run(self._delete_folder, prefix)
            finally:
                self._pack_writer.close_deleted_packs()

    async def close(self) -> None:
        self._calls.close()
        self._pack_writer.close()
        self._threads.shutdown(wait=False, cancel_futures=True)

    # --- threads -------------------------------------------------------------------------------------------------

    async def run(self, work: Callable[..., T], *arguments: object) -> T:
        """Runs work of this store in one of its threads; its OSErrors become the store's errors."""
        loop = asyncio.get_running_loop()
        return await self._outcome(lambda: loop.run_in_executor(self._threads, partial(work, *arguments)))

    async def _outcome(self, start: Callable[[], asyncio.Future[T]]) -> T:
        try:
            return await start()
        except OSError as error:
            if error.errno in _FULL:
                raise StoreFullError(f"{self._url}: {os.strerror(error.errno or 0)}") from error
            raise self._calls.unavailable(error.strerror or str(error)) from error
        except RuntimeError as error:  # the threads are shut down
            if self._calls.closed:
                raise self._calls.unavailable("closed") from error
            raise

    def run_later(self, work: Callable[[], None]) -> None:
        """Runs work of this store after the present work of its threads, without waiting for it."""
        try:
            started = self._threads.submit(work)
        except RuntimeError:  # shut down: it is quick, and better than to leave files behind
            work()
        else:
            started.add_done_callback(lambda _: work() if started.cancelled() else None)  # shut down before it began

    # --- what the threads do: everything below raises OSError -----------------------------------------------------

    def receive(self) -> IncomingObject:
        """A new object, to be written and published, then discarded in any case."""
        self.make_root()
        return IncomingObject(self, os.path.join(self._incoming, secrets.token_hex(16)))

    def _put(self, name: str, data: bytes) -> None:
        incoming = self.receive()
        try:
            incoming.write(data)
            incoming.publish(name)
        finally:
            incoming.discard()

    def _copy(self, source: int, incoming: IncomingObject) -> bool:
        """Copies the next piece of the open file; False at its end."""
        data = os.pread(source, PIECE, incoming.size)
        incoming.write(data)
        return bool(data)

    def read(self, name: str, offset: int, limit: int | None) -> tuple[bytes, int]:
        """Reads up to `limit` bytes from the offset (None: all), and the size of the object. Raises
        ObjectMissingError."""
        self.make_root()
        path = os.path.join(self.directory, name)
        folder, part = os.path.split(path)
        if self._packs.had_packs(folder):
            with contextlib.suppress(ObjectDamagedError):  # a file may have mended it
                packed = self._packs.read(folder, part)
                if packed is not None:
                    return _slice(packed, offset, limit), len(packed)
        try:
            with open(path, "rb", buffering=0) as file:
                status = os.fstat(file.fileno())
                left = max(status.st_size - offset, 0)
                return _read_at(file.fileno(), offset, left if limit is None else min(left, limit)), status.st_size
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            packed = self._packs.read(folder, part)
            if packed is None:
                self.check_root()
                raise ObjectMissingError(name) from None
            return _slice(packed, offset, limit), len(packed)

    def read_many(self, names: Sequence[str], room: int, each: int = 0) -> Iterator[tuple[int, bytes]]:
        """The readable objects, with their indexes among the names, up to the first for which there is no room (`room`
        bytes, of which every object takes `each` more than its size), and only as long as its caller has time to
        request the others."""
        began = time.monotonic()
        for index, name in enumerate(names):
            room -= each
            if room < 0 or time.monotonic() - began > MANY_SECONDS:
                return
            try:
                data, size = self.read(name, 0, room)
            except (ObjectMissingError, ObjectDamagedError, OSError):  # a caller that requests it alone gets the error
                room += each
                continue
            if size > len(data):
                return
            room -= size
            yield index, data

    def walk(self, prefix: str, after: str) -> Iterator[ObjectInfo]:
        """The objects below a folder, by name: a directory sorts as its name with '/', as all names in it do."""
        self.make_root()
        folder = os.path.join(self.directory, prefix).rstrip("/")
        try:
            with os.scandir(folder) as entries:
                every = {entry.name: entry for entry in entries}
        except (FileNotFoundError, NotADirectoryError):
            self.check_root()
            return
        behind = after[len(prefix) :] if after.startswith(prefix) else ""
        packed = self._packs.list(folder, behind) if PACKS in every and behind < "~" else iter(())
        files: list[tuple[str, os.DirEntry[str] | int]] = [
            (prefix + name + ("/" if entry.is_dir() else ""), entry) for name, entry in every.items() if is_part(name)
        ]
        files = sorted(
            [(name, entry) for name, entry in files if name > after or after.startswith(name)], key=_item_name
        )
        in_packs = ((prefix + name, size) for name, size in packed if name not in every or every[name].is_dir())
        for name, entry in heapq.merge(files, in_packs, key=_item_name):
            if name.endswith("/"):
                yield from self.walk(name, after)
            elif name <= after:
                continue
            elif isinstance(entry, int):
                yield ObjectInfo(name, entry)
            else:
                with contextlib.suppress(FileNotFoundError):  # deleted meanwhile
                    status = entry.stat()
                    if stat.S_ISREG(status.st_mode):
                        yield ObjectInfo(name, status.st_size)

    def _delete(self, name: str) -> None:
        self.make_root()
        path = os.path.join(self.directory, name)
        try:
            self.files.unlink(path)
            self.files.sync_directory(os.path.dirname(path))
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            self.check_root()
        self._packs.delete(*os.path.split(path))

    def _delete_folder(self, prefix: str) -> None:
        self.make_root()
        top = os.path.join(self.directory, prefix).rstrip("/")
        self.forget_folders()
        self._delete_tree(top, keep_top=not prefix)
        if prefix:
            with contextlib.suppress(FileNotFoundError):
                self.files.sync_directory(os.path.dirname(top))
        self.check_root()

    def _delete_tree(self, top: str, keep_top: bool = False) -> None:
        """Deletes files and directories; a directory into which another process writes meanwhile stays."""
        try:
            with os.scandir(top) as entries:
                found = [
                    (entry.path, entry.is_dir(follow_symlinks=False))
                    for entry in entries
                    if is_part(entry.name) or entry.name == PACKS
                ]
        except (FileNotFoundError, NotADirectoryError):
            return
        for path, directory in sorted(found):  # a pack before the file that marks a deletion in it
            if directory:
                self._delete_tree(path)
            else:
                with contextlib.suppress(FileNotFoundError):
                    self.files.unlink(path)
        if keep_top:
            self.files.sync_directory(top)
            return
        try:
            os.rmdir(top)
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            self.files.sync_directory(top)

    def link(self, path: str, name: str) -> None:
        """Gives a synced file of `~incoming` its name, durably. Raises ObjectExistsError."""
        target = os.path.join(self.directory, name)
        folder = os.path.dirname(target)
        for _ in range(10):
            try:
                self.make_folder(folder)
                if self._packs.holds(folder, os.path.basename(target)):
                    raise ObjectExistsError(name)
                self.files.link(path, target)
                self.files.sync_directory(folder)
                return
            except FileExistsError:
                self.files.sync_directory(folder)
                raise ObjectExistsError(name) from None
            except FileNotFoundError:  # another process deletes the folder at this moment
                self.check_root()
                self.forget_folders()
        raise StoreUnavailableError(f"{self._url}: {folder} is deleted again and again")

    def forget_folders(self) -> None:
        """Directories may have been deleted: their names must be made durable again."""
        self._durable = set()

    def make_folder(self, folder: str) -> None:
        """Creates the directory, and makes its name, and those of its parents, durable."""
        if folder in self._durable or folder == self.directory:
            return
        parent = os.path.dirname(folder)
        self.make_folder(parent)
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, 0o700)
        self.files.sync_directory(parent)
        self._durable.add(folder)

    def make_root(self) -> None:
        """Creates the directory of the store, once; removes the rest of crashes in it."""
        if self._rooted:
            return
        missing = []
        path = self.directory
        while not os.path.isdir(path):
            missing.append(path)
            path = os.path.dirname(path)
        for path in reversed(missing):
            with contextlib.suppress(FileExistsError):
                os.mkdir(path, 0o700)
            self.files.sync_directory(os.path.dirname(path))
        with contextlib.suppress(FileExistsError):
            os.mkdir(self._incoming, 0o700)
        old = time.time() - STALE
        with os.scandir(self._incoming) as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):
                    if entry.stat().st_mtime < old:
                        os.unlink(entry.path)
        self._rooted = True

    def check_root(self) -> None:
        """An object may be missing, but not the store: a lost file system is not an empty store."""
        if not os.path.isdir(self._incoming):
            raise FileNotFoundError(errno.ENOENT, f"directory {self.directory} is gone")


def _slice(data: bytes, offset: int, limit: int | None) -> bytes:
    return data[offset:] if limit is None else data[offset : offset + limit]


def _no_sync(loop: asyncio.AbstractEventLoop, done: SyncCallback) -> Sync | None:
    return None


def is_local(path: str) -> bool:
    """Whether the path is on a file system on a disk, or in the memory, of this machine, as far as is known. From
    Linux's /proc/self/mountinfo (man 5 proc)."""
    while not os.path.exists(path):
        path = os.path.dirname(path)
    device = os.stat(path).st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    try:
        with open("/proc/self/mountinfo") as mounts:
            kinds = [line.partition(" - ")[2].split()[0] for line in mounts if line.split()[2] == number]
    except OSError:
        return False
    return bool(kinds) and LOCAL.issuperset(kinds)


def _on_reads_done(
    wanted: Sequence[tuple[str, asyncio.Future[bytes]]], done: asyncio.Future[list[bytes | Exception]]
) -> None:
    closed: list[bytes | Exception] = [RuntimeError("closed")] * len(wanted)
    _answer_reads(wanted, closed if done.cancelled() else done.result())


def _answer_reads(wanted: Sequence[tuple[str, asyncio.Future[bytes]]], found: Sequence[bytes | Exception]) -> None:
    for (_, future), answer in zip(wanted, found, strict=True):
        if future.done():
            continue  # its caller has ended
        if isinstance(answer, Exception):
            future.set_exception(answer)
        else:
            future.set_result(answer)


def _read_at(fd: int, offset: int, size: int) -> bytes:
    """Reads up to `size` bytes from the offset, fewer at the end of the file."""
    data = os.pread(fd, size, offset)
    if len(data) == size:
        return data
    pieces = [data]
    while data and size > len(data):  # the system reads 2 GiB at a time
        size -= len(data)
        offset += len(data)
        data = os.pread(fd, size, offset)
        pieces.append(data)
    return b"".join(pieces)


def _item_name(item: tuple[str, object]) -> str:
    return item[0]
