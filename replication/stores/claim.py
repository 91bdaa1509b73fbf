"""Claims a store for one cluster: the object `cluster`, created once, holds the cluster's id.

Two clusters that write into one bucket by mistake would delete each other's ledgers. So a process that opens a store
claims it first, and gets an error if the store holds another cluster's data.
"""

from __future__ import annotations

import contextlib

from catalog.errors import SqlError
from replication.interface import ChangelogStore, ObjectExistsError, ObjectMissingError, StoreUnavailableError
from replication.stores.quorum import QuorumStore

CLUSTER = "cluster"


async def claim(store: ChangelogStore, cluster_id: str, *, create: bool = True) -> None:
    """Makes sure that the store is the cluster's. Raises StoreUnavailableError.

    A store without an owner becomes this cluster's, or, without `create`, is refused: a cluster that has data has lost
    them if its store is empty. Raises SqlError 55000 for that, and for a store of another cluster. Every member of a
    quorum that answers is checked: at least as many as must acknowledge a write.
    """
    if isinstance(store, QuorumStore):
        await _claim_members(store, cluster_id, create)
    elif not await _claim_one(store, cluster_id, create):
        raise _ownerless(store)


async def _claim_members(store: QuorumStore, cluster_id: str, create: bool) -> None:
    """Claims all members. New members may be empty if at least one other member belongs to the cluster."""
    owned = 0
    answered = 0
    why = ""
    for member in store.member_stores():
        try:
            owned += await _claim_one(member, cluster_id, False)
            answered += 1
        except StoreUnavailableError as error:
            why = str(error)
    if answered < store.needed_to_list:
        raise StoreUnavailableError(
            f"{answered} members of {store.url} answer, {store.needed_to_list} are needed: {why}"
        )
    if not owned and not create:
        raise _ownerless(store)
    for member in store.member_stores():
        with contextlib.suppress(StoreUnavailableError):
            await _claim_one(member, cluster_id, True)


async def _claim_one(store: ChangelogStore, cluster_id: str, create: bool) -> bool:
    """Whether the store is the cluster's now; False if it has no owner."""
    try:
        owner = await store.get(CLUSTER)
    except ObjectMissingError:
        if not create:
            return False
        try:
            await store.put(CLUSTER, cluster_id.encode())
            return True
        except ObjectExistsError:
            owner = await store.get(CLUSTER)
    if owner != cluster_id.encode():
        raise SqlError(
            "55000",
            f'changelog store {store.url} holds the data of cluster "{owner[:100].decode(errors="replace")}", '
            f'not of "{cluster_id}"',
            hint="Give every cluster a store, or a prefix in it, of its own.",
        )
    return True


def _ownerless(store: ChangelogStore) -> SqlError:
    return SqlError(
        "55000",
        f"changelog store {store.url} is empty, but the cluster has data",
        hint="Check that its directory is mounted, or its bucket and prefix are the right ones.",
    )
