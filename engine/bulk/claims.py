"""The unique keys of a bulk insert, and other writers of the same table.

A bulk insert takes ROW EXCLUSIVE, the lock of a single INSERT, so others insert, change and delete rows at the same
time. Conflicts on equal keys are found in these steps:

open        Changes are kept in memory, so that all later writes of others are known (`changes_since`).
a batch     Its keys are compared with existing keys (NewestRows, as of `open`). A key that exists is locked, which
            waits for a transaction that changes its row, and is then looked up again.
claim       When all rows are there, the keys are compared with all writes since `open`, and with keys that others
            have locked. The insert waits for keys that an open transaction has locked. An existing key is a duplicate.
afterwards  The transaction holds its keys by `RowLocks.claim`. A writer of one of these keys waits for its end.

`claim` compares in the statement's thread while there is much to compare, and then again with later writes (locks are
recorded as they come), until the rest fits into one turn of the event loop. So nothing can change between the last
comparison and the claim.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from catalog.errors import SqlError
from engine.storage.keys import PREFIX_BYTES, storage_prefix
from engine.storage.runs import BulkRun
from engine.txn.interface import UPDATE, LockWait

if TYPE_CHECKING:
    from engine.bulk.session import BulkSession
    from engine.bulk.thread import BulkThread
    from engine.storage.tablespace import Tablespace
    from engine.storage.views import Snapshot
    from engine.txn.transaction import Transaction

AT_ONCE = 200  # keys that are looked for in one turn of the event loop


class Watch:
    """The writes of others under the storage id of unique keys, since `open`. Used on the engine's thread."""

    def __init__(self, store: Tablespace, storage_id: int) -> None:
        self.prefix = storage_prefix(storage_id)
        self._store = store
        self._storage_id = storage_id
        self._snapshot: Snapshot | None = store.hold()
        self._since = self._snapshot.lsn
        self.keys: set[bytes] = set()  # written since `open`, and not yet compared
        self.runs: list[BulkRun] = []  # the same, written in bulk

    def look(self) -> None:
        """Collects the writes since the last call. Frequent calls are cheap."""
        upto = self._store.sequenced_lsn
        if upto == self._since:
            return
        keys, runs = self._store.changes_since(self._storage_id, self._since, upto)
        self.keys.update(key for _, key in keys)
        self.runs += [run for _, run in runs]
        self._since = upto

    def take(self) -> tuple[list[bytes], list[BulkRun]]:
        """Returns the collected writes, to compare them."""
        keys, self.keys = list(self.keys), set()
        runs, self.runs = self.runs, []
        return keys, runs

    def close(self) -> None:
        if self._snapshot is not None:
            self._snapshot.close()
            self._snapshot = None


class Claim:
    """The keys of one run, which its transaction claims. `duplicate` makes the error of an existing key."""

    def __init__(self, watch: Watch, run: BulkRun, duplicate: Callable[[bytes], SqlError]) -> None:
        self.watch = watch
        self.run = run
        self.duplicate = duplicate
        self.locked: list[bytes] = []  # keys that other transactions have locked, and that were not compared yet
        self._rivals: set[str] = set()  # runs of others whose keys the run does not have

    def collect(self, transaction: Transaction) -> tuple[list[bytes], list[bytes], list[BulkRun]]:
        """The keys, locked keys, and runs of keys since the last call, to be compared with the run."""
        self.watch.look()
        keys, runs = self.watch.take()
        locked = list(self.locked)
        self.locked.clear()
        prefix = self.watch.prefix
        for owner in transaction.row_space.claimants(prefix, transaction):
            for run in owner.runs:
                if run.path not in self._rivals and run.has(prefix):
                    self._rivals.add(run.path)
                    runs.append(run)
        return keys, locked, runs

    def common(self, keys: Sequence[bytes], runs: Sequence[BulkRun]) -> list[bytes]:
        """The given keys that the run has. Runs in any thread."""
        if len(keys) > AT_ONCE:
            found = self.run.contains_any(keys)
        else:
            found = [key for key in keys if self.run.get(key) is not None]
        for other in runs:
            found += common_keys(self.run, other)
        return found


def common_keys(one: BulkRun, other: BulkRun) -> Iterator[bytes]:
    """The keys that both runs have."""
    for batch in one.batches():
        keys = batch.column(0)
        for part in other.between(keys[0].as_py(), keys[len(keys) - 1].as_py() + b"\0"):
            yield from keys.filter(pc.is_in(keys, value_set=part.column(0))).to_pylist()


async def claim_keys(
    session: BulkSession, transaction: Transaction, thread: BulkThread, claims: Sequence[Claim]
) -> None:
    """Returns when no other transaction has or can get one of the keys, in the same turn of the event loop in which the
    claims are made. Raises 23505, and errors that end a wait."""
    space = transaction.row_space
    names = space.names()
    for claim in claims:
        claim.locked = space.watch(claim.watch.prefix)
    try:
        prefixes = {claim.watch.prefix for claim in claims}
        held = _by_prefix(names, prefixes) if len(names) <= AT_ONCE else await thread.run(_by_prefix, names, prefixes)
        for claim in claims:
            claim.locked += held[claim.watch.prefix]
        while not await _compare_claims(session, transaction, thread, claims):
            pass
        transaction.claim(claim.watch.prefix for claim in claims)
    finally:
        for claim in claims:
            space.unwatch(claim.watch.prefix, claim.locked)


def _by_prefix(names: Sequence[object], prefixes: Iterable[bytes]) -> dict[bytes, list[bytes]]:
    found: dict[bytes, list[bytes]] = {prefix: [] for prefix in prefixes}
    for name in names:
        if isinstance(name, bytes) and (under := found.get(name[:PREFIX_BYTES])) is not None:
            under.append(name)
    return found


async def _compare_claims(
    session: BulkSession, transaction: Transaction, thread: BulkThread, claims: Sequence[Claim]
) -> bool:
    """Whether nothing remained to compare or to wait for in this turn of the event loop."""
    clear = True
    for claim in claims:
        keys, locked, runs = claim.collect(transaction)
        if len(keys) + len(locked) <= AT_ONCE and not runs:
            found, held = claim.common(keys, runs), claim.common(locked, [])
        else:
            found = await thread.run(claim.common, keys, runs)
            held = await thread.run(claim.common, locked, [])
            clear = False
        for key in (*found, *(key for key in held if not transaction.row_space.is_own(transaction, key))):
            await settle(session, transaction, key, claim)
            clear = False
    return clear


async def settle(session: BulkSession, transaction: Transaction, key: bytes, claim: Claim) -> None:
    """Waits for the holder of the key, and takes it. Raises 23505 if the key exists then."""
    await take(session, transaction, key)
    if transaction.newest(key) is not None:
        raise claim.duplicate(key)


async def take(session: BulkSession, transaction: Transaction, key: bytes) -> None:
    """Locks a key as an INSERT of it does, and waits as long as necessary."""
    while True:
        try:
            transaction.lock(key, UPDATE)
            return
        except LockWait as wait:
            await session.wait_for(wait)
