"""`shoal store move` changes to another store. `shoal store replace` and `shoal store drain` replace or remove a member
of a quorum store. Writes continue.

The command changes the URL of the store in the spec of every tablespace that uses the member: '-' before the old one.
The leaders do the copying (shoal/cluster/store_repair.py), and remove the old member from the spec when it is no longer
needed. The command waits for that.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import sys
import time
from collections import Counter
from collections.abc import Callable

import orjson

from catalog.errors import SqlError
from replication.interface import ConflictError, Coordination, Spec
from replication.log.layout import decode_ledgers, decode_spec, encode, paths
from replication.log.ledger_list import LedgerListReader
from replication.log.settings import LogGoneError
from replication.observer import ObservedTablespace
from replication.placement import DEFAULT_TABLESPACE
from replication.stores import claim, open_store
from replication.stores.members import QuorumUrl, parse_quorum
from shoal.commands.cluster_access import ClusterAccess, open_cluster, plural
from shoal.config import ConfigError

PROGRESS_INTERVAL = 10.0  # seconds


async def run(options: argparse.Namespace) -> int:
    if options.action == "move":
        return await _move(options)
    old = await canonical(options.old)
    new = await canonical(options.new) if options.action == "replace" else ""
    stores: dict[str, str] = {}
    left = 0
    async with open_cluster(options.cluster) as cluster:
        chosen = _tablespaces_with_member(cluster, options.tablespace, old)
        # All of them are checked before the first one is changed.
        for item in chosen:
            with_member_changed(item.spec, old, new)
        if new:
            await _claim(cluster.coordination, new)
        for item in chosen:
            spec = await _change(
                cluster.coordination, item.tablespace, lambda spec: with_member_changed(spec, old, new)
            )
            stores[item.name] = spec.store
            if not options.json:
                print(f"{item.name}: {spec.store}", flush=True)
        if not options.no_wait:
            await _wait(cluster, [item.tablespace for item in chosen], old)
            stores = {item.name: await _store_of(cluster.coordination, item) for item in chosen}
            left = await _ledgers_with(cluster, [item.tablespace for item in chosen], old)
            if not options.json and left:
                print(f"{old} is needed until {plural(left, 'ledger')} in it have been dropped: `shoal ledger list`")
            elif not options.json:
                print(f"{old} is no longer needed")
    if options.json:
        print(orjson.dumps({"stores": stores, "left": old, "waited": not options.no_wait, "ledgers": left}).decode())
    return 0


async def _store_of(coordination: Coordination, item: ObservedTablespace) -> str:
    found = await coordination.get(paths(item.tablespace).spec)
    return item.spec.store if found is None else decode_spec(found.data).store


async def _move(options: argparse.Namespace) -> int:
    new = await canonical(options.new)
    stores: dict[str, str] = {}
    left: dict[str, int] = {}
    async with open_cluster(options.cluster) as cluster:
        chosen = _of_one_store(cluster, options.tablespace)
        await _claim(cluster.coordination, new)
        for item in chosen:
            spec = await _change(cluster.coordination, item.tablespace, lambda spec: with_store(spec, new))
            stores[spec.name] = spec.store
            if not options.json:
                print(f"{spec.name}: {spec.store}", flush=True)
        if not options.no_wait:
            left = await _wait_for_ledgers(cluster, [item.tablespace for item in chosen], new, options.timeout)
            for url, count in sorted(left.items()) if not options.json else ():
                print(f"{url} is needed until {plural(count, 'ledger')} in it have been dropped: `shoal ledger list`")
    if options.json:
        print(orjson.dumps({"stores": stores, "ledgers_elsewhere": left, "waited": not options.no_wait}).decode())
    return 0


def with_store(spec: Spec, new: str) -> Spec:
    """The spec with another store."""
    former = tuple(url for url in dict.fromkeys((spec.store, *spec.former_stores)) if url and url != new)
    return dataclasses.replace(spec, store=new, former_stores=former)


def _of_one_store(cluster: ClusterAccess, name: str | None) -> list[ObservedTablespace]:
    """The named tablespace, or pg_default and all tablespaces in the same store."""
    if name is not None:
        return [cluster.tablespace(name)]
    default = cluster.tablespace(DEFAULT_TABLESPACE)
    return [item for item in cluster.observer.tablespaces.values() if item.spec.store in ("", default.spec.store)]


async def _wait_for_ledgers(
    cluster: ClusterAccess, tablespaces: list[bytes], new: str, timeout: float
) -> dict[str, int]:
    """Waits until the newest ledger of each tablespace is in the store. Returns the number of older ledgers in other
    stores. Raises ConfigError after `timeout` seconds, because the leaders then keep the former store."""
    deadline = time.monotonic() + timeout
    while True:
        wake = asyncio.Event()
        late = False
        for tablespace in tablespaces:
            found = await cluster.coordination.get(paths(tablespace).ledgers, wake.set)
            ledgers = decode_ledgers(found.data).ledgers if found is not None else ()
            late = late or bool(ledgers and ledgers[-1].store != new)
        if not late:
            counts = [await _ledgers_by_store(cluster, tablespace) for tablespace in tablespaces]
            counted = sum(counts, Counter())
            return {store: count for store, count in counted.items() if store != new}
        if time.monotonic() >= deadline:
            raise ConfigError(
                f"after {timeout:g} s nothing has been written to {new}: the log of the leader says why. The leader "
                "keeps using the previous store; `shoal store move` to that store reverts the change"
            )
        try:
            async with asyncio.timeout(1.0):
                await wake.wait()
        except TimeoutError:
            pass


async def _ledgers_by_store(cluster: ClusterAccess, tablespace: bytes) -> Counter[str]:
    """The number of ledgers in each store."""
    while True:
        counted: Counter[str] = Counter()
        try:
            async for page in LedgerListReader(tablespace).all_pages(cluster.coordination):
                counted.update(ledger.store for ledger in page)
            return counted
        except LogGoneError:  # some were dropped meanwhile
            continue


async def _ledgers_with(cluster: ClusterAccess, tablespaces: list[bytes], member: str) -> int:
    """The number of ledgers in stores that have the member, for example in a former store of the tablespace."""
    found = 0
    for tablespace in tablespaces:
        for store, count in (await _ledgers_by_store(cluster, tablespace)).items():
            quorum = parse_quorum(store)
            found += count if quorum is not None and member in (*quorum.active, *quorum.leaving) else 0
    return found


async def canonical(url: str) -> str:
    """A member's URL in the form that specs use. Raises SqlError 22023."""
    store = open_store(url)
    try:
        return store.url
    finally:
        await store.close()


def with_member_changed(spec: Spec, old: str, new: str) -> Spec:
    """The spec with `new` in place of `old`, which leaves. `new` is '' to remove a member. Raises SqlError 22023,
    55000."""
    quorum = parse_quorum(spec.store)
    if quorum is None:
        raise SqlError("22023", f'the store of tablespace "{spec.name}" is not a quorum store: {spec.store}')
    return dataclasses.replace(
        spec, store=str(quorum.with_member_replaced(old, new) if new else quorum.with_member_leaving(old))
    )


def _tablespaces_with_member(cluster: ClusterAccess, name: str | None, old: str) -> list[ObservedTablespace]:
    """The tablespaces whose store has the member. Raises ConfigError if there are none."""
    if name is not None:
        return [cluster.tablespace(name)]
    found = [item for item in cluster.observer.tablespaces.values() if old in _members(item)]
    if not found:
        stores = sorted({item.spec.store for item in cluster.observer.tablespaces.values() if item.spec.store})
        raise ConfigError(f"no tablespace has a store with the member {old}; stores: {', '.join(stores) or 'none'}")
    return sorted(found, key=lambda item: item.name)


def _members(item: ObservedTablespace) -> tuple[str, ...]:
    quorum: QuorumUrl | None = parse_quorum(item.spec.store)
    return quorum.active if quorum is not None else ()


async def _claim(coordination: Coordination, url: str) -> None:
    """Claims the new member for the cluster. Raises SqlError 55000 if it belongs to another cluster."""
    found = await coordination.get("cluster")
    if found is None:
        raise ConfigError("there is no cluster at this address")
    store = open_store(url)
    try:
        await claim(store, str(orjson.loads(found.data)["cluster"]))
    finally:
        await store.close()


async def _change(coordination: Coordination, tablespace: bytes, change: Callable[[Spec], Spec]) -> Spec:
    path = paths(tablespace).spec
    while True:
        found = await coordination.get(path)
        if found is None:
            raise ConfigError("the tablespace has just been dropped")
        spec = change(decode_spec(found.data))
        try:
            await coordination.set(path, encode(spec), found.version)
            return spec
        except ConflictError:
            continue


async def _wait(cluster: ClusterAccess, tablespaces: list[bytes], old: str) -> None:
    """Waits until no spec has the member any more, and no ledger in the spec's store has it."""
    told = time.monotonic()
    while True:
        wake = asyncio.Event()
        left = []
        for tablespace in tablespaces:
            found = await cluster.coordination.get(paths(tablespace).spec, wake.set)
            spec = decode_spec(found.data) if found is not None else None
            quorum = parse_quorum(spec.store) if spec is not None else None
            listed = await cluster.coordination.get(paths(tablespace).ledgers, wake.set)
            ledgers = decode_ledgers(listed.data).ledgers if listed is not None else ()
            if spec is not None and quorum is not None:
                settling = str(dataclasses.replace(quorum, leaving=(old,)))
                if old in quorum.leaving or any(ledger.store == settling for ledger in ledgers):
                    left.append(spec.name)
        if not left:
            return
        if time.monotonic() - told >= PROGRESS_INTERVAL:
            message = f"waiting for {', '.join(left)}: the log of the leader's node says what is copied"
            print(message, file=sys.stderr, flush=True)
            told = time.monotonic()
        try:
            async with asyncio.timeout(PROGRESS_INTERVAL):
                await wake.wait()
        except TimeoutError:
            pass
