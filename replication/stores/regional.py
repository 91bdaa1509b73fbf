"""A regional copy of the changelog: nodes far away from the primary store read each object from there once, not once
each.

    get     regional store has it, sealed and whole -> returned
            otherwise the primary store             -> returned, and stored in the regional store in the background

Nothing waits for the regional store except its own answers, and its loss loses nothing: it may be emptied, damaged or
unavailable at any time. Readers request only names before the head, so it never holds uncommitted objects. Writes (a
leader's objects), listings, claims and deletions use the primary store.

A copy is stored under `regional/<name>` and ends in a seal: MAGIC and the CRC32 of the content. One without a valid
seal counts as missing, and is replaced. Only objects of ledgers are copied; `sweep_regional` deletes objects of ledgers
that are no longer listed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import struct
import zlib
from collections.abc import AsyncIterator, Mapping, Sequence

from replication.interface import (
    ChangelogStore,
    ObjectExistsError,
    ObjectInfo,
    ObjectMissingError,
    StoreUnavailableError,
)
from replication.stores.call_deadlines import get_each

log = logging.getLogger("shoal.store")

FOLDER = "regional/"
MAGIC = b"SREG"
_SEAL = struct.Struct("<4sI")
_OF_LEDGER = re.compile(r"([0-9a-f]{32})/ledger-(\d{10})/")
FILLS = 16  # objects being copied into the regional store at a time; more are left to the next reader
CHUNK = 1 << 20


class RegionalStore:
    """`primary`, with reads of ledgers' objects through `regional`. `close` closes both; `stop` is for an owner that
    shares them with others."""

    def __init__(self, primary: ChangelogStore, regional: ChangelogStore) -> None:
        self._primary = primary
        self._regional = regional
        self._fills: set[asyncio.Task[None]] = set()
        self._away = False
        self.read_here = self.read_there = 0
        """Objects that came from the regional store, and from the primary one."""

    @property
    def url(self) -> str:
        return self._primary.url

    async def put(self, name: str, data: bytes) -> None:
        await self._primary.put(name, data)

    async def append(self, name: str, data: bytes) -> None:
        await self._primary.append(name, data)

    async def put_file(self, name: str, path: str) -> None:
        await self._primary.put_file(name, path)

    def list(self, prefix: str, after: str = "") -> AsyncIterator[ObjectInfo]:
        return self._primary.list(prefix, after)

    async def delete(self, name: str) -> None:
        await self._primary.delete(name)

    async def delete_folder(self, prefix: str) -> None:
        await self._primary.delete_folder(prefix)

    async def stop(self) -> None:
        """Ends running copies into the regional store."""
        for task in self._fills:
            task.cancel()
        if self._fills:
            await asyncio.wait(self._fills)

    async def close(self) -> None:
        await self.stop()
        await self._primary.close()
        await self._regional.close()

    async def get(self, name: str) -> bytes:
        if not _OF_LEDGER.match(name):
            return await self._primary.get(name)
        found = await self._copy(name)
        if found is not None:
            self.read_here += 1
            return found
        data = await self._primary.get(name)
        self.read_there += 1
        if len(self._fills) < FILLS:
            task = asyncio.get_running_loop().create_task(self._fill(name, data))
            self._fills.add(task)
            task.add_done_callback(self._fills.discard)
        return data

    async def get_many(self, names: Sequence[str]) -> dict[str, bytes]:
        return await get_each(self.get, names)

    async def _copy(self, name: str) -> bytes | None:
        try:
            data = await self._regional.get(FOLDER + name)
        except ObjectMissingError:
            return None
        except StoreUnavailableError as error:
            self._is_away(error)
            return None
        self._away = False
        if len(data) >= _SEAL.size and _SEAL.unpack_from(data, len(data) - _SEAL.size) == (
            MAGIC,
            zlib.crc32(memoryview(data)[: -_SEAL.size]),
        ):
            return data[: -_SEAL.size]
        await self._drop(name)
        return None

    async def _fill(self, name: str, data: bytes) -> None:
        try:
            await self._regional.put(FOLDER + name, data + _SEAL.pack(MAGIC, zlib.crc32(data)))
        except ObjectExistsError:
            return  # another node was faster
        except StoreUnavailableError as error:
            self._is_away(error)

    async def get_file(self, name: str, path: str) -> None:
        if not _OF_LEDGER.match(name):
            await self._primary.get_file(name, path)
        elif await self._copy_file(name, path):
            self.read_here += 1
        else:
            await self._primary.get_file(name, path)
            self.read_there += 1
            size = os.path.getsize(path)
            await asyncio.to_thread(_add_seal, path)
            try:
                await self._regional.put_file(FOLDER + name, path)
            except ObjectExistsError:
                pass
            except StoreUnavailableError as error:
                self._is_away(error)
            finally:
                os.truncate(path, size)

    async def _copy_file(self, name: str, path: str) -> bool:
        try:
            await self._regional.get_file(FOLDER + name, path)
            if await asyncio.to_thread(_remove_seal, path):
                return True
            await self._drop(name)
        except ObjectMissingError:
            pass
        except StoreUnavailableError as error:
            self._is_away(error)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        return False

    async def _drop(self, name: str) -> None:
        log.warning("the copy of %s in %s is damaged; it is copied again", name, self._regional.url)
        with contextlib.suppress(StoreUnavailableError):
            await self._regional.delete(FOLDER + name)

    def _is_away(self, error: Exception) -> None:
        if not self._away:
            self._away = True
            log.warning("the regional store does not serve, %s is read instead: %s", self._primary.url, error)


def _add_seal(path: str) -> None:
    with open(path, "r+b") as file:
        crc = 0
        while chunk := file.read(CHUNK):
            crc = zlib.crc32(chunk, crc)
        file.write(_SEAL.pack(MAGIC, crc))


def _remove_seal(path: str) -> bool:
    """Removes the seal of the file; returns whether it was valid."""
    size = os.path.getsize(path) - _SEAL.size
    if size < 0:
        return False
    with open(path, "r+b") as file:
        crc, left = 0, size
        while left and (chunk := file.read(min(left, CHUNK))):
            crc, left = zlib.crc32(chunk, crc), left - len(chunk)
        whole = _SEAL.unpack(file.read(_SEAL.size)) == (MAGIC, crc)
        if whole:
            file.truncate(size)
    return whole


async def sweep_regional(regional: ChangelogStore, oldest: Mapping[str, int]) -> int:
    """Deletes copies of dropped ledgers; returns the number of ledgers. `oldest`: by the existing tablespaces (32
    hexadecimal digits), the number of the oldest kept ledger. Raises StoreUnavailableError."""
    gone: list[str] = []
    after = ""
    while True:
        found = await anext(aiter(regional.list(FOLDER, after)), None)
        if found is None:
            break
        parsed = _OF_LEDGER.match(found.name[len(FOLDER) :])
        if parsed is None:
            after = found.name
            continue
        folder = FOLDER + parsed[0]
        after = folder[:-1] + "0"  # a name after all names in the folder: '0' is the character after '/'
        if int(parsed[2]) < oldest.get(parsed[1], 1 << 62):
            gone.append(folder)
    for folder in gone:
        await regional.delete_folder(folder)
    return len(gone)
