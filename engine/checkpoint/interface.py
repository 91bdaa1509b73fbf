"""What a checkpoint needs of others: a place for files, and what the changelog says about an LSN.

The engine declares; the composition root hands in an implementation. A store of changelog objects satisfies
`CheckpointFiles` as it is.
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

    Names are relative paths of [a-zA-Z0-9._-] parts, joined by '/'. Errors are the implementation's own and pass
    through unchanged; an unknown outcome of the manifest's `put` is resolved by reading it back.
    """

    async def put(self, name: str, data: bytes) -> None:
        """Creates the file; durable when this returns. Raises if there is one of that name."""

    async def put_file(self, name: str, path: str) -> None:
        """As `put`, with the content of a local file."""

    async def get(self, name: str) -> bytes:
        """The content. Raises if there is no such file."""

    async def get_file(self, name: str, path: str) -> None:
        """As `get`, into a new local file."""

    def list(self, prefix: str, after: str = "") -> AsyncIterator[FileInfo]:
        """Files whose names start with the prefix (a folder, ending in '/') and sort behind `after`, by name."""

    async def delete(self, name: str) -> None:
        """The file is gone afterwards, whether it was there or not."""


@dataclass(frozen=True, slots=True)
class EntryMark:
    """What the changelog knows of the entry at an LSN."""

    hash: str = ""  # of the whole entry, hexadecimal; '' before the first entry
    commit_time: int = 0  # microseconds since 2000-01-01 UTC


@dataclass(frozen=True, slots=True)
class Described:
    """What tells what lies in a tablespace (OID) whose catalog lies elsewhere: all schema objects of a moment."""

    tablespace: int
    objects: Collection[SchemaObject]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a checkpoint has come. `bytes` counts stored rows that were read, not files."""

    tables_done: int
    tables: int
    rows: int
    bytes: int
    table: str = ""  # the one at work, as schema.table


OnProgress = Callable[[Progress], None]
"""Called on the engine's thread, after every file and at the end."""
