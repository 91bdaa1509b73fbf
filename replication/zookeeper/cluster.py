"""Opens a cluster's chroot: checks the version of its layout, and that it belongs to the caller's cluster.

A missing chroot is created, with `format` in it. That must not happen to a node whose data belong to a cluster: if
ZooKeeper has lost its data, or belongs to another cluster, epochs and heads would begin again while the old entries
still exist. So a caller that knows its cluster passes its id. Then nothing is created, and a chroot without that
cluster is an error with instructions.
"""

from __future__ import annotations

import contextlib
import logging
import os
import uuid
from collections.abc import Mapping

import orjson

from catalog.errors import SqlError
from replication.interface import ConflictError, Coordination
from replication.zookeeper.address import parse_address
from replication.zookeeper.session import ZooKeeperCoordination

log = logging.getLogger("shoal.zookeeper")

FORMAT = 1
"""The layout of the znodes that this program reads and writes (`replication/interface.py`)."""


async def open_coordination(
    url: str,
    *,
    session_timeout: float = 10.0,
    timeout: float = 10.0,
    known_cluster: str = "",
    environment: Mapping[str, str] | None = None,
    create: bool = True,
) -> ZooKeeperCoordination:
    """Opens a session of the running loop below the chroot of `zk://HOST:PORT,HOST:PORT/NAME`.

    `session_timeout`: seconds (the servers may choose another value); `timeout`: seconds for opening, and for requests
    while there is no connection. `known_cluster`: the id of the caller's cluster, '' for the first time; then a missing
    chroot is created, unless `create` is false, for callers that only read. `environment`: os.environ.

    Raises SqlError: 08001 for a wrong URL, credentials or an ensemble that does not answer, 28000 if ZooKeeper refuses
    access, 55000 for a newer format, or if it does not hold the known cluster.
    """
    address = parse_address(url, os.environ if environment is None else environment)
    session = ZooKeeperCoordination(address, session_timeout, timeout)
    await session.start()
    try:
        await session.sync()
        if not await _has_format(session):
            if known_cluster:
                raise _wrong_cluster_error(address.url, known_cluster)
            if not create:
                raise SqlError("55000", f"{address.url} holds no cluster: check the address and the name after it")
            await session.make_chroot()
            await _make_format(session)
        if known_cluster:
            await join_cluster(session, address.url, known_cluster)
        await _notice_open_access(session)
    except BaseException:
        await session.close()
        raise
    return session


async def join_cluster(coordination: Coordination, url: str, known: str = "", new: str = "") -> str:
    """The id of the chroot's cluster (32 hexadecimal digits).

    `known` is the caller's cluster: the chroot must hold it, and nothing is created. Without it the first caller names
    the cluster (`new`, or a random id) and all others get that name. Raises SqlError 55000; `url` is for its message.
    """
    await coordination.sync()
    found = await coordination.get("cluster")
    if found is None and known:
        raise _wrong_cluster_error(url, known)
    if found is None:
        with contextlib.suppress(ConflictError):  # another node was first
            await coordination.create("cluster", orjson.dumps({"cluster": new or uuid.uuid4().hex}))
        found = await coordination.get("cluster")
        if found is None:
            raise SqlError("55000", f"{url} has just been emptied by somebody else")
    cluster = str(orjson.loads(found.data)["cluster"])
    if known and cluster != known:
        raise SqlError(
            "55000",
            f"{url} holds the cluster {cluster}, the data of this node belong to the cluster {known}: "
            "start it with the address of its own cluster, or with an empty data directory",
        )
    return cluster


def _wrong_cluster_error(url: str, known: str) -> SqlError:
    return SqlError(
        "55000",
        f"{url} does not hold the cluster {known}, to which the data of this node belong: ZooKeeper has lost its data, "
        "or the address is wrong. Nothing was changed. Correct the address, or restore ZooKeeper's data directory",
    )


async def _has_format(session: ZooKeeperCoordination) -> bool:
    """Raises SqlError 55000 for a layout that is newer than this program."""
    found = await session.get("format")
    if found is None:
        return False
    number = int(orjson.loads(found.data)["format"])
    if number > FORMAT:
        raise SqlError(
            "55000",
            f"{session.address.url} was written by a newer version (format {number}, this one knows {FORMAT}): "
            "upgrade this node",
        )
    return True


async def _make_format(session: ZooKeeperCoordination) -> None:
    try:
        await session.create("format", orjson.dumps({"format": FORMAT}))
    except ConflictError:
        await _has_format(session)


async def _notice_open_access(session: ZooKeeperCoordination) -> None:
    if not await session.open_to_the_world():
        return
    url = session.address.url
    if session.address.auth:
        log.warning("%s was made without credentials: everybody who reaches ZooKeeper can change it", url)
    else:
        log.warning("%s can be changed by everybody on this machine: set SHOAL_ZK_AUTH=user:password", url)
