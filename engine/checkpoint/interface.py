"""The services that a checkpoint needs: a store of files, and the changelog's data on an LSN.

The composition root passes implementations. A store of changelog objects satisfies `CheckpointFiles` without changes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection
from dataclasses import dataclass
from typing import Protocol

from catalog.schema import SchemaObject


class FileInfo(Protocol):
    """One file of a listing."""

    @property
    def name(self) -> str: ...

    @property
    def size(self) -> int:
        """Bytes."""


class CheckpointFiles(Protocol):
    """Files that are created once and never changed.

    Names are relative paths of [a-zA-Z0-9._-] parts, joined by '/'. Errors of the implementation pass through
    unchanged. After an unknown outcome of the manifest's `put`, the manifest is read back.
    """

    async def put(self, name: str, data: bytes) -> None:
        """Creates the file, which is durable when this returns. Raises if a file of that name exists."""

    async def put_file(self, name: str, path: str) -> None:
        """As `put`, with the content of a local file."""

    async def get(self, name: str) -> bytes:
        """The content. Raises if the file does not exist."""

    async def get_file(self, name: str, path: str) -> None:
        """As `get`, but writes to a new local file."""

    def list(self, prefix: str, after: str = "") -> AsyncIterator[FileInfo]:
        """Files whose names start with the prefix (a folder, ending in '/') and are greater than `after`, by name."""

    async def delete(self, name: str) -> None:
        """Deletes the file, if it exists."""


@dataclass(frozen=True, slots=True)
class EntryMark:
    """The changelog's data on the entry at an LSN."""

    hash: str = ""  # of the whole entry, hexadecimal; '' before the first entry
    commit_time: int = 0  # microseconds since 2000-01-01 UTC


@dataclass(frozen=True, slots=True)
class Described:
    """The description of a tablespace (OID) whose catalog is in another tablespace: all schema objects of a moment."""

    tablespace: int
    objects: Collection[SchemaObject]


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a checkpoint. `bytes` counts stored rows that were read, not files."""

    tables_done: int
    tables: int
    rows: int
    bytes: int
    table: str = ""  # the one at work, as schema.table


OnProgress = Callable[[Progress], None]
"""Called on the engine's thread, after every file and at the end."""
