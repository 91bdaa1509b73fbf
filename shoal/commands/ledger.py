"""`shoal ledger list | show | read`: the changelog of a tablespace in its store.

    list    the list of ledgers in ZooKeeper
    show    the objects of one ledger: objects with entries, objects that were never committed, bulk files
    read    decoded entries, each verified: checksum, tablespace, epoch, LSN, and the hash of the entry before it

The names of tables come from the catalog of the newest checkpoint, and from schema changes among the entries. A
relation that neither of them has is shown by its storage id.
"""

from __future__ import annotations

import argparse
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass

import orjson

from catalog import rows as system_rows
from catalog.errors import SqlError
from catalog.schema import Index, Schema, SchemaObject, Table
from catalog.schema import Sequence as SequenceObject
from engine.checkpoint import read_manifest
from engine.checkpoint import system as checkpoint_system
from engine.storage.edits import Edits
from replication.interface import Head, LogEntry, ObjectMissingError
from replication.log.layout import (
    decode_head,
    ledger_folder,
    object_name,
    parse_object_name,
    paths,
    tablespace_folder,
)
from replication.log.ledger_list import LedgerListReader
from replication.log.ledger_object import Position, decode_object
from replication.log.ledgers import Ledgers, last_lsn
from replication.log.objects import ObjectMap
from replication.log.settings import LogGoneError
from replication.observer import ObservedTablespace
from shoal.commands.check import name_of
from shoal.commands.cluster_access import (
    ClusterAccess,
    OpenStores,
    age,
    open_cluster,
    size,
    table,
    timestamp,
    timestamp_or_none,
)
from shoal.config import ConfigError


async def run(options: argparse.Namespace) -> int:
    async with open_cluster(options.cluster) as cluster:
        tablespace = cluster.tablespace(options.tablespace)
        stores = OpenStores(tablespace.spec.store)
        try:
            if options.action == "list":
                return await _list(options, cluster, tablespace)
            if options.action == "show":
                return await _show(options, cluster, tablespace, stores)
            return await _read(options, cluster, tablespace, stores)
        finally:
            await stores.close()


def _line(value: Mapping[str, object]) -> None:
    print(orjson.dumps(value).decode())


# ---- list -----------------------------------------------------------------------------------------------------------


LEDGERS = ("LEDGER", "STATE", "EPOCH", "FIRST LSN", "LAST LSN", "SIZE", "CLOSED", "STORE")


async def _list(options: argparse.Namespace, cluster: ClusterAccess, tablespace: ObservedTablespace) -> int:
    """Prints page by page, because the text of all ledgers may not fit into memory."""
    header = True
    async for page in _pages(cluster, tablespace):
        rows: list[tuple[object, ...]] = []
        for index, item in enumerate(page):
            closed = item.last is not None
            last = last_lsn(page, index, tablespace.head.lsn)
            used = tablespace.head.bytes if not closed and item is page[-1] else item.bytes
            store = item.store or tablespace.spec.store
            if options.json:
                _line({
                    "tablespace": tablespace.name, "ledger": item.ledger, "state": "closed" if closed else "open",
                    "epoch": item.epoch, "first_lsn": item.first, "last_lsn": last, "entries": last - item.first + 1,
                    "bytes": used, "closed": timestamp_or_none(item.closed), "store": store,
                })  # fmt: skip
            closed_ago = f"{age(item.closed)} ago" if item.closed else ""
            state = "closed" if closed else "open"
            rows.append((item.ledger, state, item.epoch, item.first, last, size(used), closed_ago, store))
        if not options.json:
            print("\n".join(table(LEDGERS, rows).splitlines()[0 if header else 1 :]))
        header = False
    return 0


async def _pages(cluster: ClusterAccess, tablespace: ObservedTablespace) -> AsyncIterator[Ledgers]:
    try:
        async for page in LedgerListReader(tablespace.tablespace).all_pages(cluster.coordination):
            yield page
    except LogGoneError as error:
        raise ConfigError(f"{error} meanwhile; retry") from error


# ---- show -----------------------------------------------------------------------------------------------------------


async def _show(
    options: argparse.Namespace, cluster: ClusterAccess, tablespace: ObservedTablespace, stores: OpenStores
) -> int:
    pages = LedgerListReader(tablespace.tablespace)
    try:
        found = await pages.find_ledger(cluster.coordination, options.ledger)
    except LogGoneError:
        found = None
    if found is None:
        ledgers = pages.listed.ledgers
        known = f"{pages.listed.first_ledger} to {ledgers[-1].ledger}" if ledgers else "none"
        raise ConfigError(f'tablespace "{tablespace.name}" has no ledger {options.ledger}; it has: {known}')
    page, index = found
    ledger = page[index]
    last = last_lsn(page, index, tablespace.head.lsn)
    rows: list[tuple[object, ...]] = []
    async for info in stores(ledger.store).list(ledger_folder(tablespace.tablespace, ledger.ledger)):
        item = parse_object_name(info.name, ledger.ledger)
        kind = "bulk file" if item is None else "entries" if item.last <= last else "never committed"
        first, end = (None, None) if item is None else (item.first, item.last)
        if options.json:
            _line({"object": info.name, "kind": kind, "first_lsn": first, "last_lsn": end, "bytes": info.size})
        rows.append((first, end, size(info.size), kind, info.name))
    if not options.json:
        print(table(("FIRST LSN", "LAST LSN", "SIZE", "KIND", "OBJECT"), rows))
    return 0


# ---- read -----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class ReadPosition:
    """The position of the last entry that was read."""

    position: Position
    entries: int = 0


async def _read(
    options: argparse.Namespace, cluster: ClusterAccess, tablespace: ObservedTablespace, stores: OpenStores
) -> int:
    head = await _head(cluster, tablespace)
    begin = tablespace.ledger_list.first_lsn
    oldest = head.lsn + 1 if begin is None else begin
    first = oldest if options.first is None else options.first
    last = head.lsn if options.last is None else min(options.last, head.lsn)
    if first < oldest:
        raise ConfigError(f"the changelog begins at LSN {oldest}: what was before has been dropped")
    names = StorageNames(await _checkpoint_catalog(tablespace, stores))
    reading = ReadPosition(Position(first - 1, None))
    try:
        async for entry in _entries(cluster, tablespace, stores, head, last, reading):
            _show_entry(options, entry, names)
    except SqlError as error:
        if error.sqlstate != "XX001":
            raise
        print(f"WRONG: {error.message}")
        return 1
    if reading.position.lsn == head.lsn and reading.entries and (reading.position.hash or b"").hex() != head.hash:
        print(f"WRONG: entry {head.lsn} has another hash than the head in ZooKeeper")
        return 1
    if not options.json:
        print(f"{reading.entries} entries read, all intact")
    return 0


async def _head(cluster: ClusterAccess, tablespace: ObservedTablespace) -> Head:
    """The head at the time of the call, not of the last read."""
    await cluster.coordination.sync()
    found = await cluster.coordination.get(paths(tablespace.tablespace).head)
    return tablespace.head if found is None else decode_head(found.data)


async def _entries(
    cluster: ClusterAccess,
    tablespace: ObservedTablespace,
    stores: OpenStores,
    head: Head,
    last: int,
    reading: ReadPosition,
) -> AsyncIterator[LogEntry]:
    """Verified entries after `reading.position`, up to `last`. Raises XX001 for a damaged or missing entry."""
    objects = ObjectMap(tablespace.tablespace, stores)
    at_end = False
    while reading.position.lsn < last:
        try:
            found = await objects.find(cluster.coordination, head, reading.position.lsn, at_end=at_end)
        except LogGoneError as error:
            raise ConfigError(f"{error} meanwhile; start after it with --from") from error
        for place in found:
            name = object_name(tablespace.tablespace, place.item)
            try:
                data = await stores(place.ledger.store).get(name)
            except ObjectMissingError:
                raise SqlError("XX001", f"object {name} is missing in the store") from None
            for read in decode_object(data, place.item, tablespace.tablespace, place.ledger.epoch, reading.position):
                if read.entry.lsn > last:
                    return
                reading.position = Position(read.entry.lsn, read.hash)
                reading.entries += 1
                yield read.entry
        at_end = True


def _show_entry(options: argparse.Namespace, entry: LogEntry, names: StorageNames) -> None:
    edits = Edits.decode(entry.body)
    names.learn(edits.writes.items())
    written: Counter[int] = Counter(int.from_bytes(key[:4], "big") for key in edits.writes)
    deleted: Counter[int] = Counter(
        int.from_bytes(key[:4], "big") for key, value in edits.writes.items() if value is None
    )
    if options.json:
        _line({
            "lsn": entry.lsn, "epoch": entry.epoch, "time": timestamp(entry.commit_time),
            "schema_version": entry.schema_version, "bytes": len(entry.body),
            "edits": [
                {"storage_id": item, "name": names[item], "edits": count, "deletions": deleted[item]}
                for item, count in sorted(written.items())
            ],
            "bulk": [{"file": run.name, "rows": run.rows} for run in edits.runs],
            "dropped": [{"storage_id": item, "name": names[item]} for item in edits.drops],
        })  # fmt: skip
        return
    parts = [
        f"{names[item]} {count}" + (f" ({deleted[item]} deleted)" if deleted[item] else "")
        for item, count in sorted(written.items())
    ]
    parts += [f"bulk file {run.name} of {run.rows} rows" for run in edits.runs]
    parts += [f"drops {names[item]}" for item in edits.drops]
    when = timestamp(entry.commit_time)
    print(f"{entry.lsn}  epoch {entry.epoch}  {when}  schema {entry.schema_version}  {'; '.join(parts) or 'nothing'}")


class StorageNames:
    """The names of the relations by storage id."""

    def __init__(self, objects: Iterable[SchemaObject]) -> None:
        self._schemas: dict[int, str] = {}
        self._names: dict[int, str] = {}
        self._learn(list(objects))

    def __getitem__(self, storage_id: int) -> str:
        return name_of(storage_id, self._names)

    def learn(self, edits: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Learns names from the schema changes among edits. A dropped relation keeps its name."""
        self._learn([item for item in system_rows.changes(edits).values() if item is not None])

    def _learn(self, objects: Sequence[SchemaObject]) -> None:
        self._schemas.update({item.oid: item.name for item in objects if isinstance(item, Schema)})
        # A table has the storage id of its primary key, and the name of the table is the more useful one.
        for item in sorted(objects, key=lambda item: isinstance(item, Table)):
            if isinstance(item, Table | Index | SequenceObject):
                self._names[item.storage_id] = f"{self._schemas.get(item.schema, '?')}.{item.name}"


async def _checkpoint_catalog(tablespace: ObservedTablespace, stores: OpenStores) -> list[SchemaObject]:
    """The catalog of the newest checkpoint that can be read."""
    store = stores("")
    root = tablespace_folder(tablespace.tablespace).rstrip("/")
    for checkpoint in sorted(tablespace.checkpoints, key=lambda item: item.lsn, reverse=True):
        with contextlib.suppress(ObjectMissingError):
            manifest = await read_manifest(store, root, checkpoint.lsn)
            system, _ = checkpoint_system.decode(await store.get(f"{root}/{manifest.catalog.name}"))
            return list(system.objects.values())
    return []
