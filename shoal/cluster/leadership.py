"""The leaderships of a node, and how one node gets the leaderships that a transaction needs together.

Every replica of a tablespace may be elected to lead it. pg_default has the schema, the sequences, and everything else
that exists once in a cluster; the node that leads it is the *home*. A transaction is one `multi` of one node, so it
runs on a node that leads all tablespaces of the transaction:

    apart       a transaction without pg_default runs on the leader of its tablespaces
    at home     all others. The home *gathers* the leaderships that it lacks: it requests each one as placement does
                (`moves/<ts>`, shoal/cluster/controller.py), waits until it leads, and goes on

A tablespace that was needed together with others is *tied*: its leader reports since when (`detail["tied"]`), and
placement leaves it where it is for a while.

The storage refuses what only a leader may do (`Stores.guard`): writes, and reads of entries that are not durable yet.
After such an error the leadership is gathered, so a retry of the transaction succeeds.

The schema. A schema change has a part in every tablespace that it concerns (engine/node/affected_tablespaces.py). So it
commits only while the home leads all of them, and a leader that has been replaced cannot commit it. The next leader of
a tablespace applies its log up to the head, and with each such part the entries of pg_default up to the same commit
(apply_order.py). Moreover it applies pg_default up to its current head (`has_schema`) before it leads.

A prepared transaction (engine/txn/two_phase.py) has parts in the same way: the next leader of one of its tablespaces
takes its locks.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

from catalog.errors import SqlError
from catalog.schema import Tablespace as CatalogItem
from engine.replica import HOME
from engine.storage.stores import Stores
from replication.interface import ConflictError, CoordinationUnavailableError
from replication.log.interface import Leader
from replication.log.layout import decode_epoch, paths
from replication.placement import Move, encode_move, move_path

if TYPE_CHECKING:
    from shoal.cluster.tablespaces import ClusterTablespaces

log = logging.getLogger("shoal.cluster")

LOOK_PAUSE = 0.2  # seconds between two checks of an awaited tablespace's leader
LOOKED = 0.005  # seconds for which it is known until when this node serves: asked for with every message


class Leaderships:
    """The leaderships of one node; on the engine's thread."""

    def __init__(self, spaces: ClusterTablespaces) -> None:
        self._spaces = spaces
        self.at_home = False  # this node leads pg_default
        self.serves_until = float("-inf")  # clock time; all tablespaces
        self.looks_again_at = float("-inf")
        self._gathering: dict[bytes, asyncio.Future[None]] = {}

    # --- led tablespaces -----------------------------------------------------------------------------------------

    def lead(self) -> None:
        """Called when this node starts to lead pg_default."""
        self.at_home = True
        self.guard_storage()
        self._spaces.wake_reconciler()

    def follow(self) -> None:
        """Called when this node stops leading pg_default."""
        self.at_home = False
        self.guard_storage()

    @property
    def known_tablespaces(self) -> frozenset[bytes]:
        """The ids of all tablespaces in the catalog, with HOME for pg_default."""
        node = self._spaces.node
        if not isinstance(node.store, Stores):
            return frozenset((HOME,))
        catalog = node.shared_catalog
        items = (catalog.get(oid) for oid in catalog.tablespaces.values())
        return frozenset(bytes.fromhex(item.identity) for item in items if isinstance(item, CatalogItem)) | {HOME}

    def leads(self, identity: bytes, now: float) -> bool:
        """Whether this node leads a tablespace other than pg_default. `now`: clock time."""
        replica = self._spaces.replica(identity)
        return replica is not None and replica.leading and now < replica.log.may_serve_until

    def refresh_serving_time(self, now: float, home_until: float) -> None:
        """Computes the time until which this node serves all tablespaces. `home_until`: that time for pg_default, which
        it leads.

        The result stays valid until this node gives a leadership away, because no other node can lead before a time
        that was computed once. `guard_storage` then computes it again.
        """
        replicas = self._spaces.attached_replicas()
        apart = self._spaces.node.held.lacking or not all(replica.leading for replica in replicas)
        until = min((replica.log.may_serve_until for replica in replicas), default=home_until)
        self.serves_until = float("-inf") if apart else min(until, home_until)
        self.looks_again_at = now + LOOKED

    def led_together(self, identities: Iterable[bytes]) -> bool:
        """Whether one node leads all of these tablespaces, as far as this node knows."""
        leaders = set(map(self._spaces.context.leader_of, identities))
        return len(leaders) == 1 and "" not in leaders

    def guard_storage(self) -> None:
        """Guards the storage of the tablespaces that this node does not lead."""
        self.looks_again_at = float("-inf")
        store = self._spaces.node.store
        if not isinstance(store, Stores):
            return
        if self.at_home:
            store.reopen(store.of(0))
        else:
            store.guard(store.of(0), self._refuse_home)
        for replica in self._spaces.attached_replicas():
            if replica.leading:
                store.reopen(replica.store)
            else:
                store.guard(replica.store, partial(self._refuse, replica.identity))

    def _refuse(self, identity: bytes) -> SqlError:
        self.begin_to_gather((identity,))
        return led_elsewhere_error()

    def _refuse_home(self) -> SqlError:
        self.begin_to_gather(identity for identity, replica in self._spaces.replicas.items() if replica.leading)
        return led_elsewhere_error()

    # --- taking one over -----------------------------------------------------------------------------------------

    async def has_schema(self, leader: Leader) -> bool:
        """Waits until this node has applied the entries that are committed in pg_default now. False: the term ended
        before."""
        while leader.leading:
            with contextlib.suppress(CoordinationUnavailableError):
                await self._spaces.context.catch_up()
                return leader.leading
            await asyncio.sleep(LOOK_PAUSE)
        return False

    # --- gathering -----------------------------------------------------------------------------------------------

    def begin_to_gather(self, identities: Iterable[bytes]) -> None:
        """See engine.replica.Replica."""
        for identity in frozenset(identities) - {HOME}:
            replica = self._spaces.replica(identity)
            if self.at_home:
                if replica is None or not replica.leading:
                    self._start_gathering(identity)
            elif replica is not None and replica.leading:
                self._spaces.run_in_background(replica.log.step_down(self._spaces.context.leader_of(HOME)))

    async def gather(self, identities: Iterable[bytes]) -> None:
        """See engine.replica.Replica."""
        try:
            async with asyncio.timeout(self._spaces.context.commit_timeout):
                await asyncio.gather(*(asyncio.shield(self._start_gathering(identity)) for identity in identities))
        except TimeoutError:
            raise SqlError(
                "57P03",
                "the leadership of a tablespace could not move to this node in time",
                hint="shoal_tablespaces shows who leads it. Retry in a moment.",
            ) from None

    def _start_gathering(self, identity: bytes) -> asyncio.Future[None]:
        """Starts one task for each tablespace, however many callers wait for it."""
        found = self._gathering.get(identity)
        if found is None:
            found = self._gathering[identity] = asyncio.ensure_future(self._take_leadership(identity))
            found.add_done_callback(lambda _: self._gathering.pop(identity, None))
        return found

    async def _take_leadership(self, identity: bytes) -> None:
        """Requests the leadership until this node has it, no longer leads pg_default, or the tablespace is dropped."""
        spaces = self._spaces
        while self.at_home and spaces.item(identity) is not None:
            replica = spaces.replica(identity)
            if replica is None:  # its bootstrap is running, because the home holds all tablespaces
                await asyncio.sleep(LOOK_PAUSE)
                continue
            replica.store.tied = max(replica.store.tied, spaces.node.clock())
            if replica.leading:
                return
            with contextlib.suppress(CoordinationUnavailableError, ConflictError):
                await self._request_leadership(identity)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_PAUSE):
                    await replica.led.wait()

    async def _request_leadership(self, identity: bytes) -> None:
        """Writes a request to hand the leadership over, if another node leads the tablespace."""
        coordination, node = self._spaces.context.coordination(), self._spaces.context.node
        found = await coordination.get(paths(identity).epoch)
        if found is None:
            return
        epoch = decode_epoch(found.data)
        if epoch.leader in ("", node):
            return
        move, path = encode_move(Move(epoch.leader, node, epoch.epoch)), move_path(identity)
        with contextlib.suppress(ConflictError):
            await coordination.create(path, move)
            log.info("%s is asked to hand tablespace %s over to %s", epoch.leader, identity.hex(), node)
            return
        other = await coordination.get(path)
        if other is not None and other.data != move:  # placement wants another leader, or wanted one
            await coordination.delete(path, other.version)


def led_elsewhere_error() -> SqlError:
    """The error of a transaction that uses a tablespace whose leader is another node."""
    return SqlError(
        "40001",
        "a tablespace that the transaction needs is led by another node",
        hint="Nothing was committed. Retry it in a moment: one node will then lead all tablespaces that it needs.",
    )
