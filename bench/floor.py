"""The bare floor of a commit in a cluster: one append to the store and one multi, one after the other, by the client
libraries that a node uses, on an event loop as a node has it, with nothing else on it."""

from __future__ import annotations

import os
import statistics
import time
from dataclasses import dataclass

import uvloop

from replication.interface import Check, Set
from replication.stores import open_store
from replication.zookeeper import open_coordination

OBJECT = 500  # bytes: a commit of one short row, with its header
HEAD = 1000  # bytes: a head with the objects that it names


@dataclass(frozen=True, slots=True)
class Floor:
    """Medians in seconds."""

    put: float
    multi: float
    both: float


def bare_floor(zookeeper: str, store: str, rounds: int) -> Floor:
    """Measures it `rounds` times, under a chroot and in a folder of its own."""
    return uvloop.run(_bare_floor(zookeeper, store, rounds))


async def _bare_floor(zookeeper: str, url: str, rounds: int) -> Floor:
    coordination, store = await open_coordination(zookeeper), open_store(url)
    try:
        await coordination.create("epoch", b"1")
        await coordination.create("head", b"")
        puts, multis, both = [], [], []
        for number in range(rounds + 10):
            data, head = os.urandom(OBJECT), os.urandom(HEAD)
            began = time.perf_counter()
            await store.append(f"bare/ledger-0000000001/{number:010d}", data)
            stored = time.perf_counter()
            await coordination.multi((Check("epoch", 0), Set("head", head, number)))
            ended = time.perf_counter()
            if number >= 10:  # the first ones make connections and folders
                puts.append(stored - began)
                multis.append(ended - stored)
                both.append(ended - began)
        return Floor(statistics.median(puts), statistics.median(multis), statistics.median(both))
    finally:
        await store.close()
        await coordination.close()
