"""A store that a command can reach and the nodes of a cluster cannot: called in a node's process (tests/cluster.py)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from replication.interface import StoreUnavailableError
from replication.stores.files import FileStore

NAME = "unreachable"


def install() -> None:
    for name in ("get", "get_file", "put", "put_file"):
        setattr(FileStore, name, _unless_unreachable(getattr(FileStore, name)))


def _unless_unreachable(method: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    async def called(self: FileStore, *arguments: Any, **options: Any) -> Any:
        if self.url.endswith(NAME):
            raise StoreUnavailableError(f"{self.url} does not answer")
        return await method(self, *arguments, **options)

    return called
