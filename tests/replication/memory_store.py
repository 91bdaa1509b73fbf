"""A changelog store in memory, with faults at exactly the calls that a test or a seed chooses.

    store = MemoryStore(faults={3: Fault("unknown")})      # the third call is carried out, and its reply is lost
    other = store.another()                                # a second node's handle on the same objects

Calls are counted from 1 in the order in which they were made, over all operations (a listing is one call). Nothing here
depends on time or chance: delays go through the `sleep` that was given, which may be a simulated clock's.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from replication.interface import (
    ObjectExistsError,
    ObjectInfo,
    ObjectMissingError,
    StoreFullError,
    StoreUnavailableError,
)
from replication.stores.names import check_folder, check_name


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens to one call.

    fail      it is not carried out                      -> StoreUnavailableError
    unknown   it is carried out, and its reply is lost   -> StoreUnavailableError
    full      a put finds no room                        -> StoreFullError
    delay     it is carried out `seconds` later
    part      of many objects only every second one is given
    """

    kind: Literal["fail", "unknown", "full", "delay", "part"]
    seconds: float = 0.0


Decide = Callable[[int, str, str], Fault | None]
"""(number of the call, operation, name) -> its fault: for a seed that decides."""


class MemoryStore:
    """`objects` is the content, shared by every handle that is given the same dictionary.

    `down`: every call fails. `room`: bytes that may still be put (None: no limit). `log`: (operation, name) of every
    call so far.
    """

    def __init__(
        self,
        objects: dict[str, bytes] | None = None,
        *,
        faults: Mapping[int, Fault] | None = None,
        decide: Decide | None = None,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        url: str = "memory://store",
    ) -> None:
        self.objects: dict[str, bytes] = {} if objects is None else objects
        self.faults: dict[int, Fault] = dict(faults or {})
        self.decide = decide
        self.down = False
        self.room: int | None = None
        self.log: list[tuple[str, str]] = []
        self._sleep = sleep
        self._url = url
        self._closed = asyncio.Event()

    @property
    def url(self) -> str:
        return self._url

    @property
    def calls(self) -> int:
        """How many calls there have been."""
        return len(self.log)

    def another(self) -> MemoryStore:
        """Another handle on the same objects, with faults and a count of its own."""
        return MemoryStore(self.objects, sleep=self._sleep, url=self._url)

    async def put(self, name: str, data: bytes) -> None:
        fault = await self._begin("put", check_name(name))
        self.put_now(name, data, fault)
        self._reply(fault)

    def put_now(self, name: str, data: bytes, fault: str) -> None:
        """Raises ObjectExistsError, StoreFullError."""
        if fault == "full" or (self.room is not None and self.room < len(data)):
            raise StoreFullError(f"{self._url}: full")
        if name in self.objects:
            raise ObjectExistsError(name)
        self.objects[name] = bytes(data)
        if self.room is not None:
            self.room -= len(data)

    async def append(self, name: str, data: bytes) -> None:
        await self.put(name, data)

    async def put_file(self, name: str, path: str) -> None:
        await self.put(name, Path(path).read_bytes())

    async def get(self, name: str) -> bytes:
        fault = await self._begin("get", check_name(name))
        data = self.get_now(name)
        self._reply(fault)
        return data

    async def get_many(self, names: Sequence[str]) -> dict[str, bytes]:
        fault = await self._begin("get_many", check_name(names[0]))
        found = self.get_many_now(names, fault)
        self._reply(fault)
        return found

    def get_many_now(self, names: Sequence[str], fault: str) -> dict[str, bytes]:
        found = {name: self.objects[name] for name in names if name in self.objects}
        return dict(list(found.items())[1::2]) if fault == "part" else found

    def get_now(self, name: str) -> bytes:
        """Raises ObjectMissingError."""
        if name not in self.objects:
            raise ObjectMissingError(name)
        return self.objects[name]

    async def get_file(self, name: str, path: str) -> None:
        Path(path).write_bytes(await self.get(name))

    async def list(self, prefix: str, after: str = "") -> AsyncIterator[ObjectInfo]:
        fault = await self._begin("list", check_folder(prefix))
        for name in self.names_now(prefix, after):
            if name in self.objects:
                yield ObjectInfo(name, len(self.objects[name]))
        self._reply(fault)

    def names_now(self, prefix: str, after: str = "") -> list[str]:
        return sorted(name for name in self.objects if name > after and name.startswith(prefix))

    async def delete(self, name: str) -> None:
        fault = await self._begin("delete", check_name(name))
        self.objects.pop(name, None)
        self._reply(fault)

    async def delete_folder(self, prefix: str) -> None:
        fault = await self._begin("delete_folder", check_folder(prefix))
        for name in [name for name in self.objects if name.startswith(prefix)]:
            del self.objects[name]
        self._reply(fault)

    async def close(self) -> None:
        self._closed.set()

    async def _begin(self, operation: str, name: str) -> str:
        """Counts the call; the kind of its fault, '' for none. Raises StoreUnavailableError for 'fail'."""
        fault = self.count(operation, name)
        if fault is not None and fault.kind == "delay":
            await self._delay(fault.seconds)
        else:
            await asyncio.sleep(0)  # as with any other store, others get their turn
        return self.arrive(fault)

    def count(self, operation: str, name: str) -> Fault | None:
        """One more call, and its fault."""
        self.log.append((operation, name))
        number = self.calls
        return self.faults.get(number) or (self.decide(number, operation, name) if self.decide else None)

    def arrive(self, fault: Fault | None) -> str:
        """The call has come to the store: as `_begin`."""
        if self._closed.is_set():
            raise StoreUnavailableError(f"{self._url}: closed")
        if self.down or (fault is not None and fault.kind == "fail"):
            raise StoreUnavailableError(f"{self._url}: does not answer")
        return fault.kind if fault is not None else ""

    async def _delay(self, seconds: float) -> None:
        """Waits, unless the store is closed meanwhile."""
        waits = [asyncio.ensure_future(self._sleep(seconds)), asyncio.ensure_future(self._closed.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    def _reply(self, fault: str) -> None:
        if fault == "unknown":
            raise StoreUnavailableError(f"{self._url}: the reply was lost")
