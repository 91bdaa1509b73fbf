"""Makes a data directory the first node's of a new cluster.

    flush_local_changelogs   flushes the local changelogs of every tablespace into its LMDB, and removes them,
                             pg_default's last: while pg_default's exists, a new attempt repeats all of this
    create_cluster           creates the znodes of all its tablespaces in one multi. The state at each head is that of
                             the directory, and the logs begin after it, so other nodes start from checkpoints

A cluster has all of its tablespaces from the beginning, because nodes treat a tablespace without znodes as dropped.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
import uuid
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path

from catalog import rows as system_rows
from catalog.schema import Tablespace as CatalogItem
from engine.storage.checkpoint import Checkpoint as Tables
from engine.storage.keys import prefix_range, storage_prefix
from engine.storage.tablespace import Tablespace
from replication.entry import NO_HASH
from replication.interface import ConflictError, Coordination, Create, Operation, Set, Spec
from replication.log.layout import paths
from replication.log.ledger_object import Position
from replication.log.takeover import znode_creations
from shoal.cluster.replica_bootstrap import DEFAULT_TABLESPACE, JoinedTablespace, find_tablespace, own_tables
from shoal.cluster.tablespaces import FOLDER, make_spec
from shoal.config import ConfigError
from shoal.data_directory import open_spaces

log = logging.getLogger("shoal.cluster")

CHANGELOG = "changelog"
GONE_PAUSE = 0.05  # seconds between two looks whether dropped tablespaces are gone

StoreUrl = Callable[[str], Awaitable[str]]
"""The URL of a store as clusters keep it, once it is this cluster's. Raises as shoal.cluster.tablespaces.StoreClaim."""


async def flush_local_changelogs(data: Path, fatal: Callable[[BaseException], None]) -> None:
    """Does nothing for a directory that is already a cluster node's. Raises ConfigError for one with tablespaces that
    its catalog does not know, and errors of opening them."""
    if not (data / CHANGELOG).exists():
        return
    loop = asyncio.get_running_loop()
    spaces = open_spaces(data, loop.call_soon_threadsafe, fatal, loop)
    first = spaces.open()
    try:
        rows = first.current.scan(*prefix_range(storage_prefix(system_rows.SYSTEM_TABLES[CatalogItem])))
        known = {bytes.fromhex(item.identity) for item in _tablespace_items(rows)}
        spaces.settle(known)
        while any((data / FOLDER).glob("*.gone")):
            await asyncio.sleep(GONE_PAUSE)
        strangers = {path.name for path in (data / FOLDER).glob("*")} - {identity.hex() for identity in known}
        if strangers:
            raise ConfigError(
                f"the catalog knows no tablespace {min(strangers)}, which is in {data / FOLDER}: move it away first"
            )
        for space in (*spaces.found.values(), first):
            await _flush(space)
    finally:
        spaces.close()
    for identity in known:
        await asyncio.to_thread(shutil.rmtree, data / FOLDER / identity.hex() / CHANGELOG, ignore_errors=True)
    await asyncio.to_thread(shutil.rmtree, data / CHANGELOG)


async def _flush(space: Tablespace) -> None:
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    space.flush(lambda: None if done.done() else done.set_result(None))
    await done


def _tablespace_items(rows: Iterator[tuple[bytes, bytes]]) -> Sequence[CatalogItem]:
    """The other tablespaces among the rows of their system table."""
    items = [system_rows.decode(key, value) for key, value in rows]
    return [item for item in items if isinstance(item, CatalogItem) and item.identity]


async def create_cluster(
    coordination: Coordination, data: Path, node: str, url: str, store_url: StoreUrl
) -> JoinedTablespace:
    """Makes the cluster's tablespaces from the directory. `url`: of the changelog store.

    Raises ConflictError when another node was first, ConfigError for a directory that lacks a tablespace.
    """
    tablespace, lsn, items = uuid.uuid4().bytes, 0, list[CatalogItem]()
    if (data / "rows").exists():
        with own_tables(data) as tables:
            tablespace, lsn = tables.tablespace, tables.flushed_lsn
            items = list(_tablespace_items(_rows(tables, system_rows.SYSTEM_TABLES[CatalogItem])))
    spec = Spec(DEFAULT_TABLESPACE, (node,), store=url)
    with contextlib.suppress(ConflictError):
        await coordination.create("tablespaces", b"{}")
    parent = await coordination.get("tablespaces")
    assert parent is not None
    if (
        await find_tablespace(coordination, DEFAULT_TABLESPACE) is not None
    ):  # another node that creates it from here on fails
        raise ConflictError("exists", paths(tablespace).root)
    operations: list[Operation] = [
        Set("tablespaces", b"{}", parent.version),  # of two founders that got here one fails
        *_tablespace_creations(tablespace, spec, lsn),
    ]
    for item in items:
        identity = bytes.fromhex(item.identity)
        store = dict(item.options).get("store")
        made = make_spec(item, await store_url(store) if store else url, node)
        operations += _tablespace_creations(
            identity, made, _flushed_lsn(data / FOLDER / item.identity, identity), leader=node
        )
    await coordination.multi(operations)
    log.info("founded tablespace %s at LSN %d, and %d others", tablespace.hex(), lsn, len(items))
    return JoinedTablespace(tablespace, spec, Position(lsn, NO_HASH), True)


def _tablespace_creations(tablespace: bytes, spec: Spec, lsn: int, leader: str = "") -> list[Operation]:
    return [Create(paths(tablespace).root, b""), *znode_creations(tablespace, spec, lsn=lsn, leader=leader)]


def _rows(tables: Tables, storage_id: int) -> Iterator[tuple[bytes, bytes]]:
    """The rows of a storage id in LMDB."""
    low, high = prefix_range(storage_prefix(storage_id))
    with tables.environment.begin(db=tables.rows) as transaction:
        cursor = transaction.cursor()
        if cursor.set_range(low):
            for key, value in cursor.iternext():
                if key >= high:
                    break
                yield key, value


def _flushed_lsn(directory: Path, identity: bytes) -> int:
    if not (directory / "rows").exists():
        raise ConfigError(f"{directory} is missing: put it back, or restore the whole data directory")
    with own_tables(directory) as tables:
        if tables.tablespace != identity:
            raise ConfigError(f"{directory} holds tablespace {tables.tablespace.hex()}")
        return tables.flushed_lsn
