"""A changelog store whose disk is full while a test wants it to be: called in a node's process (tests/cluster.py)."""

from __future__ import annotations

import os
import pathlib

from replication.interface import StoreFullError
from replication.stores.files import FileStore


def flag(directory: pathlib.Path) -> pathlib.Path:
    """While this file is there the store of the cluster in the directory is full."""
    return directory / "full"


def install() -> None:
    place = flag(pathlib.Path(os.environ["SHOAL_TEST_NODE"]).parent)
    put, append = FileStore.put, FileStore.append

    def check(store: FileStore) -> None:
        if place.exists():
            raise StoreFullError(f"{store.url}: No space left on device")

    async def put_unless_full(self: FileStore, name: str, data: bytes) -> None:
        check(self)
        await put(self, name, data)

    async def append_unless_full(self: FileStore, name: str, data: bytes) -> None:
        check(self)
        await append(self, name, data)

    FileStore.put = put_unless_full  # type: ignore[method-assign]
    FileStore.append = append_unless_full  # type: ignore[method-assign]
