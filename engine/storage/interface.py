"""The changelog as the engine needs it, and storage as the rest of the engine needs it.

The engine declares the interfaces; `replication/` implements `Changelog` (engine and replication never import each
other), and the composition root (shoal/) connects them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol


class Joint:
    """Connects the entries that one transaction makes in several tablespaces: all of them are committed, or none.

    The changelogs of the parts share it: `parts` is the number of entries that carry it, each in another tablespace,
    and `tablespaces` their ids (16 bytes each), in the order of `lsns`, which the commit queue fills before any
    `submit`.
    """

    __slots__ = ("lsns", "tablespaces", "waiting")

    def __init__(self, tablespaces: tuple[bytes, ...], lsns: tuple[int, ...]) -> None:
        self.tablespaces = tablespaces
        self.lsns = lsns
        self.waiting: list[Callable[[], None]] = []  # called by the changelogs when the last part is durable

    @property
    def parts(self) -> int:
        return len(self.tablespaces)


class Changelog(Protocol):
    """Makes changelog entries durable and committed, strictly in LSN order.

    The body of an entry is opaque here (engine/storage/edits.py encodes it). The implementation adds the header (format
    version, tablespace, epoch, LSN, previous entry's hash, commit time, schema version, CRC32C).
    """

    def submit(
        self,
        lsn: int,
        body: bytes,
        commit_time: int,
        schema_version: int,
        files: Sequence[str] = (),
        joint: Joint | None = None,
    ) -> None:
        """Queues the entry and returns at once. LSNs come without gaps. Called on the engine's thread only.

        `files`: names of the bulk segments (`bulk_path`) that the entry refers to, complete and synced; they are where
        every reader of the entry can get them before it is committed. `joint`: see Joint; the entry is committed
        together with the other parts, which are submitted in the same turn of the loop.

        Entries submitted while an earlier group is being made durable form the next group. When a group is durable,
        `on_committed(last_lsn)` (given at construction) is called on the engine's thread. A failure to make an entry
        durable is fatal: `on_failure(exception)` is called once and nothing after it is ever acknowledged.
        """

    @property
    def pending_bytes(self) -> int:
        """Bytes submitted and not yet committed; the commit queue makes writers wait past a limit."""

    def read(self, after: int) -> Iterator[tuple[int, int, bytes]]:
        """(LSN, commit time, body) of every committed entry with an LSN above `after`, in order, verified.

        A torn tail (an entry that was never acknowledged) ends the iteration; damage before it raises XX001.
        """

    def retire(self, upto: int) -> None:
        """Entries up to this LSN are in a synced checkpoint: whole segments below it may be removed or reused."""

    def bulk_path(self, name: str) -> str:
        """The path of a bulk segment of that name (a file that an entry refers to), also before it is written."""

    def bulk_names(self) -> list[str]:
        """The existing bulk segments, including those without an entry (a crash before the commit)."""

    def drop_bulk(self, name: str, lsn: int) -> None:
        """This node no longer needs the bulk segment: it is in the checkpoint, or no entry refers to it. `lsn`: of the
        entry that refers to it, or the last that may."""

    def close(self) -> None:
        """Makes everything submitted durable and releases files and threads. Raises 58030 if something is not
        durable."""


class LocalLog(Changelog, Protocol):
    """A changelog whose end only its own directory knows (replication/local.py): after a crash it may have parts of
    transactions whose other parts were never written. engine/storage/joints.py decides."""

    @property
    def last_lsn(self) -> int | None:
        """The last entry's LSN; None while there was none."""

    def joints(self, after: int) -> Iterator[tuple[int, tuple[tuple[bytes, int], ...]]]:
        """(LSN, parts) of the entries above `after` that are parts of transactions over several tablespaces; a part is
        (tablespace id, LSN)."""

    def cut(self, lsn: int) -> None:
        """Removes every entry above the LSN, durably, before anything is submitted. Raises XX001 if one of them was
        acknowledged."""

    def has_moved(self, directory: str) -> None:
        """It is closed, and its files were moved to this place, where they can still be read."""


class Reader(Protocol):
    """Rows as of one moment: a snapshot, or a transaction (own writes over its snapshot)."""

    def get(self, key: bytes) -> bytes | None:
        """The value stored under the key, None if there is none."""

    def scan(self, low: bytes, high: bytes, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        """Keys in [low, high) in order with their values. The iterator stays valid while others write."""


EngineThread = Callable[[Callable[[], None]], None]
"""Runs a callable on the engine's thread (asyncio's call_soon_threadsafe)."""
