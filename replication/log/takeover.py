"""The takeover: how a candidate becomes leader, and how a leader gives up its epoch.

    1  epoch     incremented by compare-and-set: from here on the old leader can commit nothing
    2  head      read: it is final, because only the holder of the epoch can move it
    3  catch up  the follower applies everything up to head
    4  ledgers   everything closed at head, a new ledger opened after it, under check(epoch)

A candidate that loses a compare-and-set has lost the election (LostElectionError), and follows. After a lost reply it
reads back its write: an epoch contains a random claim of its writer, and a ledger its epoch.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import replace

from catalog.errors import SqlError
from replication.entry import NO_HASH
from replication.interface import (
    Check,
    ConflictError,
    Coordination,
    CoordinationUnavailableError,
    Create,
    Delete,
    Epoch,
    Head,
    LedgerList,
    Operation,
    OutcomeUnknownError,
    Set,
    Spec,
)
from replication.log.election import Candidacy
from replication.log.layout import (
    decode_epoch,
    decode_head,
    decode_ledgers,
    encode,
    encode_checkpoints,
    encode_head,
    encode_ledgers,
    paths,
)
from replication.log.leader import Term
from replication.log.ledger_list import list_write
from replication.log.ledgers import close_all, open_next
from replication.log.settings import Clock

DELETED_TOGETHER = 1000  # segments of the ledger list, when a tablespace is dropped


class LostElectionError(Exception):
    """Another node has changed the epoch."""


async def create_tablespace(
    coordination: Coordination,
    tablespace: bytes,
    spec: Spec,
    *,
    lsn: int = 0,
    hash_: bytes = NO_HASH,
    commit_time: int = 0,
    leader: str = "",
) -> None:
    """Makes the znodes of a tablespace. `lsn`, `hash_`, `commit_time`: of its last entry so far (from a single node);
    the log begins after it, so other replicas start from a checkpoint. `leader`: the node that should take over first.
    Raises ConflictError if it exists. All of them are made, or none."""
    operations = znode_creations(tablespace, spec, lsn=lsn, hash_=hash_, commit_time=commit_time, leader=leader)
    with contextlib.suppress(ConflictError):
        await coordination.create("tablespaces", b"")
    try:
        await coordination.multi([Create(paths(tablespace).root, b""), *operations])
    except ConflictError as error:
        if error.reason != "exists" or error.index:
            raise
        await coordination.multi(operations)  # earlier versions made the root before the rest, and could end between


def znode_creations(
    tablespace: bytes, spec: Spec, *, lsn: int = 0, hash_: bytes = NO_HASH, commit_time: int = 0, leader: str = ""
) -> list[Operation]:
    """The operations that create the znodes below a tablespace's root; see `create_tablespace`."""
    where = paths(tablespace)
    return [
        Create(where.spec, encode(spec)),
        Create(where.epoch, encode(Epoch(0, "", wish=leader))),
        Create(where.head, encode_head(Head(lsn, 0, hash_.hex(), commit_time, 0))),
        Create(where.ledgers, encode_ledgers(LedgerList())),
        Create(where.checkpoints, encode_checkpoints(())),
        Create(where.replicas, b""),
    ]


async def drop_tablespace(coordination: Coordination, tablespace: bytes) -> None:
    """Removes its znodes: its leader can commit nothing any more, and its replicas end. Objects stay."""
    where = paths(tablespace)
    while True:  # the deletions in many requests come first, so that an interrupted drop can begin again
        segments = (await coordination.children(where.ledgers))[:DELETED_TOGETHER]
        if not segments:
            break
        await coordination.multi([Delete(f"{where.ledgers}/{name}") for name in segments])
    replicas = [where.replica(name) for name in await coordination.children(where.replicas)]
    there = {f"{where.root}/{name}" for name in await coordination.children(where.root)}
    mine = (where.replicas, where.checkpoints, where.ledgers, where.head, where.epoch, where.spec)
    operations: list[Operation] = [
        Delete(path) for path in (*replicas, *(path for path in mine if path in there), where.root)
    ]
    await coordination.multi(operations)


async def claim_epoch(coordination: Coordination, tablespace: bytes, node: str, turn: Candidacy) -> tuple[Epoch, int]:
    """Increments the epoch that was seen: returns it, and the version of its node. Raises LostElectionError.

    After CoordinationUnavailableError it may have been incremented; then its leader is this node, which leads nothing,
    and claims it again.
    """
    path = paths(tablespace).epoch
    seen = turn.epoch
    epoch = Epoch(decode_epoch(seen.data).epoch + 1, node, secrets.token_hex(16))
    while True:
        try:
            return epoch, (await coordination.multi((*turn.checks, Set(path, encode(epoch), seen.version))))[-1]
        except ConflictError:
            raise LostElectionError from None
        except OutcomeUnknownError:
            await coordination.sync()
            found = await coordination.get(path)
            if found is not None and decode_epoch(found.data).claim == epoch.claim:
                return epoch, found.version
            if found is None or found.version != seen.version:
                raise LostElectionError from None


async def take_over(
    coordination: Coordination,
    tablespace: bytes,
    claimed: tuple[Epoch, int],
    catch_up: Callable[[Head], Awaitable[None]],
    store: str,
    clock: Clock,
) -> Term:
    """Steps 2 to 4. `catch_up` returns when everything up to the head is applied. `store`: URL for the new ledger.

    Raises LostElectionError, CoordinationUnavailableError, and errors of `catch_up`.
    """
    where = paths(tablespace)
    epoch, epoch_version = claimed
    znode = await coordination.get(where.head)
    if znode is None:
        raise SqlError("42704", f"the cluster has no tablespace {tablespace.hex()}")
    head = decode_head(znode.data)
    await catch_up(head)
    while True:
        found = await coordination.get(where.ledgers)
        if found is None:
            raise LostElectionError
        listed = decode_ledgers(found.data)
        if listed.ledgers and listed.ledgers[-1].epoch == epoch.epoch:  # of an attempt whose reply was lost
            return Term(tablespace, epoch, epoch_version, head, znode.version, listed, found.version)
        ledgers = open_next(close_all(listed.ledgers, head, clock.wall()), epoch.epoch, head.lsn + 1, store)
        listed, operations = list_write(tablespace, replace(listed, ledgers=ledgers), found.version)
        try:
            version = (await coordination.multi((Check(where.epoch, epoch_version), *operations)))[1]
        except OutcomeUnknownError:
            await coordination.sync()
            continue
        except ConflictError as conflict:
            if conflict.index == 0:
                raise LostElectionError from None
            continue  # an attempt whose reply was lost has succeeded after all
        return Term(tablespace, epoch, epoch_version, head, znode.version, listed, version)


async def vacate(coordination: Coordination, tablespace: bytes, node: str) -> None:
    """If the epoch names this node, which does not lead (it has to bootstrap, or has failed): records that there is no
    leader.

    Raises CoordinationUnavailableError."""
    await coordination.sync()
    found = await coordination.get(paths(tablespace).epoch)
    if found is not None and decode_epoch(found.data).leader == node:
        await abdicate(coordination, tablespace, decode_epoch(found.data), found.version)


async def abdicate(coordination: Coordination, tablespace: bytes, epoch: Epoch, version: int, wish: str = "") -> None:
    """Records that there is no leader, and which node should be the next, unless there is one already. The term must be
    over.

    Does nothing on failure: the node's absence has the same effect.
    """
    vacant = Epoch(epoch.epoch, "", secrets.token_hex(16), wish)
    with contextlib.suppress(ConflictError, CoordinationUnavailableError):
        await coordination.set(paths(tablespace).epoch, encode(vacant), version)
