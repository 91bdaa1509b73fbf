"""`shoal store replace` and `shoal store drain`: another member for a quorum store, or one less, while writes go on.

The command changes the URL of the store in the spec of every tablespace that has the member: '-' before the old one.
The leaders do the rest (shoal/cluster/mending.py), and take the old member out of the spec when it is no longer
needed, which is what the command waits for.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import time

import orjson

from catalog.errors import SqlError
from replication.interface import ConflictError, Coordination, Spec
from replication.log.layout import decode_spec, encode, paths
from replication.observer import Observed
from replication.stores import claim, open_store
from replication.stores.members import QuorumUrl, parse_quorum
from shoal.commands.looking import Cluster, looking_at
from shoal.config import ConfigError

TOLD_EVERY = 10.0  # seconds


async def run(options: argparse.Namespace) -> int:
    old = await canonical(options.old)
    new = await canonical(options.new) if options.action == "replace" else ""
    async with looking_at(options.cluster) as cluster:
        chosen = _chosen(cluster, options.tablespace, old)
        # All of them are looked at before the first is changed.
        for item in chosen:
            changed(item.spec, old, new)
        if new:
            await _claim(cluster.coordination, new)
        for item in chosen:
            spec = await _change(cluster.coordination, item.tablespace, old, new)
            print(f"{item.name}: {spec.store}", flush=True)
        if not options.no_wait:
            await _wait(cluster, [item.tablespace for item in chosen], old)
            print(f"{old} is no longer needed")
    return 0


async def canonical(url: str) -> str:
    """A member's URL as specs have it. Raises SqlError 22023."""
    store = open_store(url)
    try:
        return store.url
    finally:
        await store.close()


def changed(spec: Spec, old: str, new: str) -> Spec:
    """With `new` in place of `old`, which leaves; '': none. Raises SqlError 22023, 55000."""
    quorum = parse_quorum(spec.store)
    if quorum is None:
        raise SqlError("22023", f'the store of tablespace "{spec.name}" is no quorum: {spec.store}')
    return dataclasses.replace(spec, store=str(quorum.replaced(old, new) if new else quorum.drained(old)))


def _chosen(cluster: Cluster, name: str | None, old: str) -> list[Observed]:
    """The tablespaces whose store has the member. Raises ConfigError for none."""
    if name is not None:
        return [cluster.tablespace(name)]
    found = [item for item in cluster.observer.tablespaces.values() if old in _members(item)]
    if not found:
        stores = sorted({item.spec.store for item in cluster.observer.tablespaces.values() if item.spec.store})
        raise ConfigError(f"no tablespace has a store with the member {old}; stores: {', '.join(stores) or 'none'}")
    return sorted(found, key=lambda item: item.name)


def _members(item: Observed) -> tuple[str, ...]:
    quorum: QuorumUrl | None = parse_quorum(item.spec.store)
    return quorum.active if quorum is not None else ()


async def _claim(coordination: Coordination, url: str) -> None:
    """The new member is the cluster's from now on. Raises SqlError 55000 for another cluster's."""
    found = await coordination.get("cluster")
    if found is None:
        raise ConfigError("there is no cluster at this address")
    store = open_store(url)
    try:
        await claim(store, str(orjson.loads(found.data)["cluster"]))
    finally:
        await store.close()


async def _change(coordination: Coordination, tablespace: bytes, old: str, new: str) -> Spec:
    path = paths(tablespace).spec
    while True:
        found = await coordination.get(path)
        if found is None:
            raise ConfigError("the tablespace has just been dropped")
        spec = changed(decode_spec(found.data), old, new)
        try:
            await coordination.set(path, encode(spec), found.version)
            return spec
        except ConflictError:
            continue


async def _wait(cluster: Cluster, tablespaces: list[bytes], old: str) -> None:
    """Until no spec has the member any more."""
    told = time.monotonic()
    while True:
        wake = asyncio.Event()
        left = []
        for tablespace in tablespaces:
            found = await cluster.coordination.get(paths(tablespace).spec, wake.set)
            spec = decode_spec(found.data) if found is not None else None
            quorum = parse_quorum(spec.store) if spec is not None else None
            if spec is not None and quorum is not None and old in quorum.leaving:
                left.append(spec.name)
        if not left:
            return
        if time.monotonic() - told >= TOLD_EVERY:
            print(f"waiting for {', '.join(left)}: the log of the leader's node says what is copied", flush=True)
            told = time.monotonic()
        try:
            async with asyncio.timeout(TOLD_EVERY):
                await wake.wait()
        except TimeoutError:
            pass
