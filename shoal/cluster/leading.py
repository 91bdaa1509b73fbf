"""Who leads which tablespace, and how leaderships come together where they are needed together.

Every replica of a tablespace may be elected to lead it. pg_default has the schema, the sequences, and what else there
is one of; the node that leads it is the *home*. A transaction is one `multi` of one node, so it runs on a node that
leads all that it has to do with:

    apart       what has nothing to do with pg_default: the leader of its tablespaces
    at home     everything else. The home *gathers* the leaderships that it lacks: it asks for each as placement does
                (`moves/<ts>`, shoal/cluster/controller.py), waits until it leads, and goes on

A tablespace that was needed together with others is *tied*: its leader says since when (`detail["tied"]`), and
placement leaves it where it is for a while.

What no node may do that does not lead a tablespace, the storage refuses (`Stores.guard`): to write there, or to look at
what is not durable yet. What is refused so is gathered, so whoever tries again succeeds.

The schema. A schema change has a part in every tablespace that it has to do with (engine/node/affected_tablespaces.py),
so it commits only while all of these are led at home, and a leader that has been replaced cannot commit it. Whoever
takes a tablespace over applies its log up to the head, and with each such part what pg_default has at that place
(arrivals.py). Moreover it applies pg_default's head as it is then (`has_schema`) before it leads.

So does a prepared transaction (engine/txn/two_phase.py): whoever leads one of its tablespaces next takes its locks.
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
    from shoal.cluster.spaces import ClusterTablespaces

log = logging.getLogger("shoal.cluster")

LOOK_PAUSE = 0.2  # seconds between two looks at who leads a tablespace that is waited for
LOOKED = 0.005  # seconds for which it is known until when this node serves: asked for with every message


class Leaderships:
    """Of one node; on the engine's thread."""

    def __init__(self, spaces: ClusterTablespaces) -> None:
        self._spaces = spaces
        self.at_home = False  # this node leads pg_default
        self.serves_until = float("-inf")  # clock time; all tablespaces
        self.looks_again_at = float("-inf")
        self._gathering: dict[bytes, asyncio.Future[None]] = {}

    # --- what it leads -------------------------------------------------------------------------------------------

    def lead(self) -> None:
        """This node leads pg_default from now on."""
        self.at_home = True
        self.gate()
        self._spaces.wake()

    def follow(self) -> None:
        """It does not, any more."""
        self.at_home = False
        self.gate()

    @property
    def known(self) -> frozenset[bytes]:
        """All tablespaces that the catalog knows, by id, with HOME for pg_default."""
        node = self._spaces.node
        if not isinstance(node.store, Stores):
            return frozenset((HOME,))
        catalog = node.shared_catalog
        items = (catalog.get(oid) for oid in catalog.tablespaces.values())
        return frozenset(bytes.fromhex(item.identity) for item in items if isinstance(item, CatalogItem)) | {HOME}

    def leads(self, identity: bytes, now: float) -> bool:
        """Whether this node leads a tablespace beside pg_default. `now`: clock time."""
        replica = self._spaces.replica(identity)
        return replica is not None and replica.leading and now < replica.log.may_serve_until

    def look(self, now: float, home_until: float) -> None:
        """Finds out until when this node serves all of them. `home_until`: pg_default, which it leads.

        What was found holds for a while: nobody else can lead before a time that was told once, unless this node gives
        a leadership away, and then `gate` has it looked at anew.
        """
        replicas = self._spaces.attached_replicas()
        apart = self._spaces.node.held.lacking or not all(replica.leading for replica in replicas)
        until = min((replica.log.may_serve_until for replica in replicas), default=home_until)
        self.serves_until = float("-inf") if apart else min(until, home_until)
        self.looks_again_at = now + LOOKED

    def led_together(self, identities: Iterable[bytes]) -> bool:
        """Whether one node leads all of them, as far as is known."""
        leaders = set(map(self._spaces.place.leader_of, identities))
        return len(leaders) == 1 and "" not in leaders

    def gate(self) -> None:
        """What this node does not lead is guarded."""
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
        return elsewhere()

    def _refuse_home(self) -> SqlError:
        self.begin_to_gather(identity for identity, replica in self._spaces.replicas.items() if replica.leading)
        return elsewhere()

    # --- taking one over -----------------------------------------------------------------------------------------

    async def has_schema(self, leader: Leader) -> bool:
        """Waits until this node has applied what is committed in pg_default by now. False: the term is over before."""
        while leader.leading:
            with contextlib.suppress(CoordinationUnavailableError):
                await self._spaces.place.catch_up()
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
                    self._gather(identity)
            elif replica is not None and replica.leading:
                self._spaces.background(replica.log.step_down(self._spaces.place.leader_of(HOME)))

    async def gather(self, identities: Iterable[bytes]) -> None:
        """See engine.replica.Replica."""
        try:
            async with asyncio.timeout(self._spaces.place.patience):
                await asyncio.gather(*(asyncio.shield(self._gather(identity)) for identity in identities))
        except TimeoutError:
            raise SqlError(
                "57P03",
                "the leadership of a tablespace could not be brought here in time",
                hint="shoal_tablespaces shows who leads it. Retry in a moment.",
            ) from None

    def _gather(self, identity: bytes) -> asyncio.Future[None]:
        """One search for each, however many wait for it."""
        found = self._gathering.get(identity)
        if found is None:
            found = self._gathering[identity] = asyncio.ensure_future(self._gathered(identity))
            found.add_done_callback(lambda _: self._gathering.pop(identity, None))
        return found

    async def _gathered(self, identity: bytes) -> None:
        """Until this node leads it, leads pg_default no more, or nobody needs it any more: it has been dropped."""
        spaces = self._spaces
        while self.at_home and spaces.item(identity) is not None:
            replica = spaces.replica(identity)
            if replica is None:  # it comes: the home holds all of them
                await asyncio.sleep(LOOK_PAUSE)
                continue
            replica.store.tied = max(replica.store.tied, spaces.node.clock())
            if replica.leading:
                return
            with contextlib.suppress(CoordinationUnavailableError, ConflictError):
                await self._ask_for(identity)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_PAUSE):
                    await replica.led.wait()

    async def _ask_for(self, identity: bytes) -> None:
        """Leaves the request to hand over, if somebody leads it."""
        coordination, node = self._spaces.place.coordination(), self._spaces.place.node
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
        if other is not None and other.data != move:  # placement wants it elsewhere, or did
            await coordination.delete(path, other.version)


def elsewhere() -> SqlError:
    """What a transaction ends with that has come upon a tablespace which this node does not lead."""
    return SqlError(
        "40001",
        "a tablespace that the transaction needs is led by another node",
        hint="Nothing was committed. Retry it in a moment: it will find what it needs led by one node.",
    )
