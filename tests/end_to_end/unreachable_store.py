"""A store that a command can reach and the nodes of a cluster cannot: called in a node's process (tests/cluster.py)."""

from __future__ import annotations

from replication.interface import StoreUnavailableError
from replication.stores.files import FileStore

NAME = "unreachable"


def install() -> None:
    get = FileStore.get

    async def get_unless_unreachable(self: FileStore, name: str) -> bytes:
        if self.url.endswith(NAME):
            raise StoreUnavailableError(f"{self.url} does not answer")
        return await get(self, name)

    FileStore.get = get_unless_unreachable  # type: ignore[method-assign]
