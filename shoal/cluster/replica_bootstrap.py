"""Makes a data directory a replica of a tablespace.

  only the cluster has the tablespace    The newest checkpoint is restored. If the log still goes back to its beginning,
                                         the log alone is applied.
  the cluster and the directory have it  The replica continues after the entries in its LMDB.
  only the directory has it, or neither  This node creates it from the directory's content (cluster_creation.py).

A restore that was interrupted is wiped and starts again. A directory of another tablespace is refused.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from engine.checkpoint import Manifest, half_restored, read_checkpoint, read_manifest
from engine.storage.checkpoint import Checkpoint as Tables
from replication.entry import NO_HASH
from replication.interface import (
    ChangelogStore,
    Checkpoint,
    ConflictError,
    Coordination,
    ObjectMissingError,
    Spec,
)
from replication.log.layout import (
    decode_checkpoints,
    decode_head,
    decode_ledgers,
    decode_spec,
    encode,
    paths,
    tablespace_folder,
)
from replication.log.ledger_object import Position
from replication.log.settings import StoreOf
from shoal.config import ConfigError

log = logging.getLogger("shoal.cluster")

DEFAULT_TABLESPACE = "pg_default"
FIRST_CHECKPOINT = 30.0  # seconds that a node waits for a checkpoint to start from
LOOK_PAUSE = 0.5


@dataclasses.dataclass(frozen=True, slots=True)
class JoinedTablespace:
    """A tablespace of the cluster, and the position of this node's replica."""

    tablespace: bytes
    spec: Spec
    position: Position
    is_new_cluster: bool  # the LSN that this node has applied


async def find_tablespace(coordination: Coordination, name: str) -> tuple[bytes, Spec] | None:
    """The tablespace of that name, by its id; None if the cluster has none."""
    for identifier in await coordination.children("tablespaces"):
        found = await coordination.get(f"tablespaces/{identifier}/spec")
        if found is not None:
            spec = decode_spec(found.data)
            if spec.name == name:
                return bytes.fromhex(identifier), spec
    return None


async def join_default_tablespace(
    coordination: Coordination, store_at: StoreOf, data: Path, node: str
) -> JoinedTablespace | None:
    """Makes `data` a replica of pg_default, which every node holds. None if the cluster has none yet.

    Raises ConfigError for a directory that belongs to another cluster, and errors of the store and of the coordination.
    """
    await coordination.sync()
    found = await find_tablespace(coordination, DEFAULT_TABLESPACE)
    if found is None:
        return None
    tablespace, spec = found
    await add_holder(coordination, tablespace, node)
    if (data / "rows").exists():
        return JoinedTablespace(tablespace, spec, own_position(data, tablespace), False)
    return JoinedTablespace(tablespace, spec, await restore(coordination, store_at, tablespace, data), False)


async def join_tablespace(
    coordination: Coordination, store_at: StoreOf, tablespace: bytes, data: Path
) -> Position | None:
    """Makes `data` a replica of another tablespace than pg_default. None if the tablespace has just been dropped.
    Raises as `join_default_tablespace`."""
    found = await coordination.get(paths(tablespace).ledgers)
    if found is None:
        return None
    if (data / "rows").exists():
        position = own_position(data, tablespace)
        begin = decode_ledgers(found.data).first_lsn
        if begin is None or begin <= position.lsn + 1:
            return position
        log.warning("the log after LSN %d has been dropped; starting from a checkpoint", position.lsn)
        await asyncio.to_thread(shutil.rmtree, data / "rows")
    if await coordination.get(paths(tablespace).spec) is None:
        return None
    return await restore(coordination, store_at, tablespace, data)


async def restore(coordination: Coordination, store_at: StoreOf, tablespace: bytes, data: Path) -> Position:
    """Restores the newest checkpoint into a directory that has no rows or an unfinished restore. Does nothing if the
    log goes back to its beginning."""
    if half_restored(str(data)):
        log.warning("an earlier restore into %s was interrupted; it starts again", data)
    known = paths(tablespace)
    checkpoints = await _starting_points(coordination, tablespace)
    if not checkpoints:
        shutil.rmtree(data / "restoring", ignore_errors=True)
        return Position(0, NO_HASH)
    newest = max(checkpoints, key=lambda checkpoint: checkpoint.lsn)
    root = tablespace_folder(tablespace).rstrip("/")
    log.info("restoring the checkpoint at LSN %d", newest.lsn)
    found = await coordination.get(known.spec)
    spec = decode_spec(found.data) if found is not None else Spec("", ())
    store, manifest = await _find_checkpoint([store_at(url) for url in (spec.store, *spec.former_stores)], root, newest)
    started = asyncio.get_running_loop().time()
    await read_checkpoint(store, root, manifest, str(data))
    seconds = asyncio.get_running_loop().time() - started
    log.info("restored %d rows in %.1f s", manifest.table_rows(), seconds)
    return Position(newest.lsn, bytes.fromhex(newest.hash))


async def _starting_points(coordination: Coordination, tablespace: bytes) -> tuple[Checkpoint, ...]:
    """The checkpoints, or () if the log goes back to the beginning. Waits for the first checkpoint of a tablespace that
    the cluster's founder had before the cluster."""
    known = paths(tablespace)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + FIRST_CHECKPOINT
    told = False
    while True:
        listed, ledgers = await coordination.get(known.checkpoints), await coordination.get(known.ledgers)
        checkpoints = decode_checkpoints(listed.data) if listed is not None else ()
        first = decode_ledgers(ledgers.data).first_lsn if ledgers is not None else None
        if first is None:
            head = await coordination.get(known.head)
            first = decode_head(head.data).lsn + 1 if head is not None else 1
        if checkpoints or first <= 1:
            return checkpoints
        if loop.time() > deadline:
            raise ConfigError(
                "the log of the cluster begins after its first commit, and there is no checkpoint to start from: "
                "run `shoal checkpoint` on a node that is up, then start this one again"
            )
        if not told:
            log.info("waiting for the first checkpoint of tablespace %s", tablespace.hex())
        told = True
        await asyncio.sleep(LOOK_PAUSE)


async def _find_checkpoint(
    stores: Sequence[ChangelogStore], root: str, checkpoint: Checkpoint
) -> tuple[ChangelogStore, Manifest]:
    """The first of the stores that has the checkpoint, and the manifest. Raises ObjectMissingError."""
    for store in stores[:-1]:
        with contextlib.suppress(ObjectMissingError):
            return store, await read_manifest(store, root, checkpoint.lsn)
    return stores[-1], await read_manifest(stores[-1], root, checkpoint.lsn)


@contextlib.contextmanager
def own_tables(data: Path) -> Iterator[Tables]:
    """Opens the LMDB of a tablespace's directory, which must not be open elsewhere."""
    tables = Tables(str(data / "rows"))
    try:
        yield tables
    finally:
        tables.close()


def own_position(data: Path, tablespace: bytes) -> Position:
    """The position up to which the directory's LMDB has entries. Raises ConfigError if it belongs to another
    tablespace."""
    with own_tables(data) as tables:
        if tables.tablespace != tablespace:
            raise ConfigError(
                f"{data} holds data of its own, which the cluster does not have: start this node with an empty "
                "directory, or found a new cluster with it (with another name after zk://.../)"
            )
        return Position(tables.flushed_lsn, None)


async def add_holder(coordination: Coordination, tablespace: bytes, node: str) -> None:
    """Adds the node to the nodes that hold the tablespace."""
    path = paths(tablespace).spec
    while True:
        found = await coordination.get(path)
        if found is None:
            return
        spec = decode_spec(found.data)
        if node in spec.replicas:
            return
        with contextlib.suppress(ConflictError):
            changed = dataclasses.replace(spec, replicas=(*spec.replicas, node))
            await coordination.set(path, encode(changed), found.version)
            return
