"""What one node of the simulation sees of the coordination service and of the store.

What a node has asked for is on its way then, as in a cluster: it goes on while the node is stopped, or dead, and the
answer comes when the node does.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, TypeVar

from replication.interface import (
    ObjectExistsError,
    ObjectInfo,
    ObjectMissingError,
    Operation,
    SessionState,
    StoreUnavailableError,
    Watch,
    Znode,
)
from tests.replication.log.virtual import NOWHERE, Node
from tests.replication.memory_coordination import MemorySession
from tests.replication.memory_store import Fault, MemoryStore

T = TypeVar("T")


class NodeSession:
    """A session as one node sees it: requests go on while the node is stopped, their answers reach it later."""

    def __init__(self, node: Node, session: MemorySession) -> None:
        self.session = session
        self._node = node
        self._watches: dict[Watch, Watch] = {}

    @property
    def session_timeout(self) -> float:
        return self.session.session_timeout

    @property
    def alive_until(self) -> float:
        return self.session.alive_until

    @property
    def state(self) -> SessionState:
        return self.session.state

    def on_state(self, callback: Callable[[SessionState], None]) -> None:
        self.session.on_state(lambda state: self._call(callback, state))

    def _call(self, callback: Callable[..., None], *arguments: Any) -> None:
        asyncio.get_running_loop().call_soon(callback, *arguments, context=self._node.context.copy())

    def _watch(self, watch: Watch | None) -> Watch | None:
        if watch is None:
            return None
        known = watch
        return self._watches.setdefault(watch, lambda: self._call(known))

    async def get(self, path: str, watch: Watch | None = None) -> Znode | None:
        return await self.session.get(path, self._watch(watch))

    async def sync(self) -> None:
        await self.session.sync()

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        return await self.session.children(path, self._watch(watch))

    async def create(self, path: str, data: bytes, ephemeral: bool = False) -> None:
        await self.session.create(path, data, ephemeral)

    async def set(self, path: str, data: bytes, version: int = -1) -> int:
        return await self.session.set(path, data, version)

    async def delete(self, path: str, version: int = -1) -> None:
        await self.session.delete(path, version)

    def multi(self, operations: Sequence[Operation]) -> Awaitable[list[int]]:
        return self.session.multi(operations)

    async def close(self) -> None:
        await self.session.close()


class NodeStore:
    """A store as one node sees it: a call goes on while the node is stopped, or dead."""

    def __init__(self, store: MemoryStore) -> None:
        self.store = store
        self.url = store.url

    def _call(self, operation: str, name: str, act: Callable[[str], T]) -> asyncio.Future[T]:
        """The call is on its way when this returns."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()
        fault = self.store.count(operation, name)
        seconds = fault.seconds if fault is not None and fault.kind == "delay" else 0.0
        loop.call_later(seconds, self._carry_out, fault, act, answer, context=NOWHERE)
        return answer

    def _carry_out(self, fault: Fault | None, act: Callable[[str], T], answer: asyncio.Future[T]) -> None:
        try:
            kind = self.store.arrive(fault)
            result = act(kind)
            if kind == "unknown":
                raise StoreUnavailableError("the reply was lost")
        except (StoreUnavailableError, ObjectExistsError, ObjectMissingError) as error:
            if not answer.done():
                answer.set_exception(error)
        else:
            if not answer.done():
                answer.set_result(result)

    async def put(self, name: str, data: bytes) -> None:
        await self._call("put", name, lambda fault: self.store.put_now(name, data, fault))

    def append(self, name: str, data: bytes) -> Awaitable[None]:
        return self._call("put", name, lambda fault: self.store.put_now(name, data, fault))

    async def put_file(self, name: str, path: str) -> None:
        with open(path, "rb") as file:
            data = file.read()
        await self.put(name, data)

    async def get(self, name: str) -> bytes:
        return await self._call("get", name, lambda fault: self.store.get_now(name))

    async def get_many(self, names: Sequence[str]) -> dict[str, bytes]:
        return await self._call("get_many", names[0], lambda fault: self.store.get_many_now(names, fault))

    async def get_file(self, name: str, path: str) -> None:
        data = await self.get(name)
        with open(path, "wb") as file:
            file.write(data)

    async def list(self, prefix: str, after: str = "") -> AsyncIterator[ObjectInfo]:
        objects = self.store.objects
        for name in await self._call("list", prefix, lambda fault: self.store.names_now(prefix, after)):
            yield ObjectInfo(name, len(objects.get(name, b"")))

    async def delete(self, name: str) -> None:
        await self._call("delete", name, lambda fault: self.store.objects.pop(name, None))

    async def delete_folder(self, prefix: str) -> None:
        await self._call("delete_folder", prefix, lambda fault: self._delete_folder(prefix))

    def _delete_folder(self, prefix: str) -> None:
        for name in self.store.names_now(prefix):
            del self.store.objects[name]

    async def close(self) -> None:
        pass
