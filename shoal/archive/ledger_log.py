"""Reads the changelog of a cluster's node for backups: the objects of its ledgers in the cluster's store.

Only the leader of a tablespace knows the end of its log. Ledgers are dropped by their own rules (docs/cluster.md),
which a backup cannot delay: it needs young ledgers, and if one has been dropped the backup reports it.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Callable

from catalog.errors import SqlError
from engine.checkpoint import EntryMark
from replication.interface import ChangelogStore, Coordination, Head, LogEntry, ObjectMissingError
from replication.local import EntryRun
from replication.log.layout import bulk_name, decode_head, object_name, paths
from replication.log.leader import LeaderLog
from replication.log.ledger_object import Position, VerifiedEntry, decode_object
from replication.log.objects import LocatedObject, ObjectMap
from replication.log.settings import LogGoneError, StoreOf
from shoal.archive.archived_log import part_of
from shoal.archive.log_source import PIECE_BYTES


class LedgerLog:
    """shoal.archive.log_source.LogSource over ledgers. `leader` returns this node's term as the tablespace's leader,
    None if it does not lead; `scratch` is a local directory."""

    def __init__(
        self,
        tablespace: bytes,
        leader: Callable[[], LeaderLog | None],
        store_at: StoreOf,
        coordination: Callable[[], Coordination],
        scratch: str,
    ) -> None:
        self._tablespace = tablespace
        self._leader = leader
        self._store_at = store_at
        self._coordination = coordination
        self._scratch = scratch
        self._bulk: dict[str, tuple[str, int]] = {}  # bulk segments that entries refer to: store and ledger

    def _require_leader(self) -> LeaderLog:
        leader = self._leader()
        if leader is None:
            raise SqlError(
                "55000",
                "this node does not lead every tablespace, so it cannot make a backup",
                hint="shoal_tablespaces shows the leaders; `shoal lead` makes another node lead.",
            )
        return leader

    def entry_mark(self, lsn: int) -> EntryMark:
        """Hash and commit time of the last durable entry. Raises 55000 on a node that is no longer the leader."""
        head = self._require_leader().head
        if head.lsn != lsn:
            raise SqlError("55000", "this node has just lost its leadership: the backup is not written")
        return EntryMark(head.hash, head.commit_time)

    def oldest(self) -> int | None:
        return self._require_leader().list.listed.first_lsn

    def hold(self, holder: str, after: int | None) -> None:
        """Does nothing: ledgers are dropped by their own rules."""

    async def _head(self) -> Head:
        """The end of the log, as it is known here."""
        leader = self._leader()
        if leader is not None:
            return leader.head
        coordination = self._coordination()
        await coordination.sync()
        found = await coordination.get(paths(self._tablespace).head)
        if found is None:
            raise SqlError("55000", "the tablespace has been dropped")
        return decode_head(found.data)

    async def entries(self, after: int, upto: int) -> AsyncIterator[LogEntry]:
        """The entries above `after` up to one that is committed, verified. Raises as `entry_runs`."""
        async for found, _, read in self._objects(after, upto):
            for item in read:
                self._bulk.update(dict.fromkeys(item.entry.files, (found.ledger.store, found.item.ledger)))
                yield item.entry

    async def fetch_bulk(self, name: str, path: str) -> None:
        """The bulk segment of an entry that has been read, as a file."""
        url, ledger = self._bulk[name]
        await self._store_at(url).get_file(bulk_name(self._tablespace, ledger, name), path)

    async def entry_runs(self, after: int, upto: int) -> AsyncIterator[EntryRun]:
        """Raises 55000 for dropped ledgers, XX001 for damage."""
        parts: list[bytes] = []
        entries: list[VerifiedEntry] = []
        previous = b""
        async for found, data, read in self._objects(after, upto):
            first, last = read[0].entry.lsn, read[-1].entry.lsn
            part, before = part_of(data, found.item.first, first, last)
            if not parts:
                previous = before
            parts.append(part)
            entries += read
            for item in read:
                self._bulk.update(dict.fromkeys(item.entry.files, (found.ledger.store, found.item.ledger)))
            if sum(map(len, parts)) >= PIECE_BYTES:
                yield _piece(entries, previous, parts)
                parts, entries = [], []
        if parts:
            yield _piece(entries, previous, parts)

    async def _objects(self, after: int, upto: int) -> AsyncIterator[tuple[LocatedObject, bytes, list[VerifiedEntry]]]:
        """The objects with these entries, each with its entries among them."""
        objects = ObjectMap(self._tablespace, self._store_at)
        position = Position(after, None)
        at_end = False
        while position.lsn < upto:
            head = await self._head()
            try:
                places = await objects.find(self._coordination(), head, position.lsn, at_end=at_end)
            except LogGoneError as error:
                raise SqlError("55000", f"{error} meanwhile: make the backup again") from error
            for place in places:
                name = object_name(self._tablespace, place.item)
                try:
                    data = await self._store_at(place.ledger.store).get(name)
                except ObjectMissingError:
                    raise SqlError("XX001", f"object {name} is missing in the store") from None
                read = await asyncio.to_thread(self._read, data, place, position)
                read = [item for item in read if item.entry.lsn <= upto]
                if not read:
                    return
                yield place, data, read
                position = Position(read[-1].entry.lsn, read[-1].hash)
                if position.lsn >= upto:
                    return
            at_end = True

    def _read(self, data: bytes, place: LocatedObject, position: Position) -> list[VerifiedEntry]:
        return list(decode_object(data, place.item, self._tablespace, place.ledger.epoch, position))

    async def put_bulk(self, name: str, store: ChangelogStore, target: str) -> None:
        os.makedirs(self._scratch, 0o700, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="bulk-", dir=self._scratch) as folder:
            path = os.path.join(folder, "bulk")
            await self.fetch_bulk(name, path)
            await store.put_file(target, path)


def _piece(entries: list[VerifiedEntry], previous: bytes, parts: list[bytes]) -> EntryRun:
    last = entries[-1]
    return EntryRun(entries[0].entry.lsn, last.entry.lsn, last.entry.commit_time, previous, last.hash, b"".join(parts))
