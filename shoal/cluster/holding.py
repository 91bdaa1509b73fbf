"""Which tablespaces a node holds, where not every node holds every one.

    the spec (ZooKeeper) says who holds a tablespace; placement changes it, the node follows:
    it has come to this node     bring: the newest checkpoint and the log behind it, beside everything else. It is seen
                                 from the moment on at which it is as far as all others here (`may_be_seen`)
    it has left this node        leave: nothing reads it from now on; its log ends, and when the last snapshot of it is
                                 closed its directory goes
    a CREATE's row               names the nodes, or says that all take it: they open it before there is a spec

What is not on this node is carried to the leader (wire/carrying.py). A node that leads pg_default takes what it lacks.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from catalog.errors import SqlError
from catalog.schema import Tablespace as CatalogItem
from replication.interface import (
    ConflictError,
    CoordinationUnavailableError,
    Spec,
    StoreUnavailableError,
)
from replication.log.layout import decode_spec, paths
from shoal.cluster.joining import hold, join_other
from shoal.config import ConfigError

if TYPE_CHECKING:
    from shoal.cluster.spaces import ClusterTablespaces, SpaceReplica

log = logging.getLogger("shoal.cluster")

RETRY_PAUSE = 0.5  # seconds
IN_USE_PAUSE = 0.1


def asked_nodes(options: Mapping[str, str]) -> tuple[str, ...]:
    """The nodes of the option `replicas`; () where it is not given."""
    return tuple(dict.fromkeys(name.strip() for name in options.get("replicas", "").split(",") if name.strip()))


def with_replicas(spec: Spec, item: CatalogItem) -> Spec:
    """The spec with what the catalog says of who holds the tablespace."""
    options = dict(item.options)
    asked, expected = asked_nodes(options), options.get("expected_replicas")
    return dataclasses.replace(
        spec,
        asked=asked,
        expected_replicas=max(len(asked), 1) if expected is None else int(expected),
        everywhere=not asked and expected is None,
    )


class Holdings:
    """Of one node; on the engine's thread."""

    def __init__(self, spaces: ClusterTablespaces) -> None:
        self.specs: Mapping[bytes, Spec] = {}
        """Of all tablespaces, as they were seen last."""
        self._spaces = spaces
        self._rows: set[bytes] = set()  # tablespaces whose rows the catalog has, or has had
        self._coming: dict[bytes, asyncio.Task[None]] = {}
        self._leaving: dict[bytes, tuple[SpaceReplica, asyncio.Task[None]]] = {}

    @property
    def _node(self) -> str:
        return self._spaces.place.node

    def is_mine(self, spec: Spec) -> bool:
        """Whether this node is to hold the tablespace."""
        return spec.everywhere or self._node in spec.replicas

    def is_new(self, item: CatalogItem) -> bool:
        """Whether this node takes a tablespace whose row it sees for the first time, from its first entry on. One that
        has a spec already may have had others, so it is brought."""
        identity = bytes.fromhex(item.identity)
        seen = identity in self._rows
        self._rows.add(identity)
        if seen or identity in self.specs:
            return False
        return self.is_mine(with_replicas(Spec(item.name, asked_nodes(dict(item.options))), item))

    def look(self) -> bool:
        """Whether the specs have changed."""
        specs = self._spaces.place.specs()
        if specs is None or specs == self.specs:
            return False
        self.specs = specs
        return True

    async def follow(self) -> None:
        """Begins to bring what is missing, and to remove what is too much. Raises CoordinationUnavailableError,
        ConflictError."""
        spaces = self._spaces
        self.look()

        def at_home() -> bool:
            return spaces.leaderships.at_home

        for identity, spec in self.specs.items():
            replica = spaces.replica(identity)
            if identity == spaces.place.first:
                continue
            if not self.is_mine(spec):
                if at_home():  # it is to have all of them: placement would say the same in a while
                    await hold(spaces.place.coordination(), identity, self._node)
                elif replica is not None and await self._is_excluded(identity) and not at_home():
                    await replica.log.step_down()
                    self.leave(replica)
            elif replica is None:
                self._bring(identity)
            elif spec.everywhere and self._node not in spec.replicas:
                await hold(spaces.place.coordination(), identity, self._node)
        for replica in spaces.unseen():
            if replica.identity not in self.specs and spaces.item(replica.identity) is None:
                self.leave(replica)  # dropped before it was here

    async def _is_excluded(self, identity: bytes) -> bool:
        """What is about to be removed is looked at once more."""
        coordination = self._spaces.place.coordination()
        await coordination.sync()
        found = await coordination.get(paths(identity).spec)
        return found is not None and not self.is_mine(decode_spec(found.data))

    # --- coming --------------------------------------------------------------------------------------------------

    def _bring(self, identity: bytes) -> None:
        if identity not in self._coming and identity not in self._leaving and self._spaces.item(identity) is not None:
            task = self._coming[identity] = asyncio.get_running_loop().create_task(self._brought(identity))
            task.add_done_callback(lambda _: self._coming.pop(identity, None))

    async def _brought(self, identity: bytes) -> None:
        """Until the tablespace is seen here, or has been given up."""
        spaces = self._spaces
        while self.is_mine(self.specs.get(identity, Spec("", ()))) and spaces.item(identity) is not None:
            try:
                replica = spaces.replica(identity) or await self._restored(identity)
                if replica is None or replica.whole:
                    return
                await self._find_goal(replica)
                return
            except (
                CoordinationUnavailableError,
                StoreUnavailableError,
                ConflictError,
                ConfigError,
                SqlError,
            ) as error:
                log.warning("tablespace %s does not come to this node for now: %s", identity.hex(), error)
                await asyncio.sleep(RETRY_PAUSE)

    async def _restored(self, identity: bytes) -> SpaceReplica | None:
        spaces, place = self._spaces, self._spaces.place
        directory = spaces.directory(identity)
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        await place.claim(self.specs[identity].store, False)
        position = await join_other(place.coordination(), place.store_at, identity, directory)
        if position is None or spaces.replica(identity) is not None:
            return spaces.replica(identity)
        log.info("tablespace %s comes to this node, from LSN %d on", identity.hex(), position.lsn)
        return spaces.begin(identity, position)

    async def _find_goal(self, replica: SpaceReplica) -> None:
        """How far it has to come, and everything else here: what others may show of its transactions by now, and what
        it may show of theirs."""
        head = await replica.log.read_head()
        await self._spaces.place.catch_up()
        await self._spaces.caught_up()
        replica.goal = head.lsn
        self.may_be_seen(replica)

    def may_be_seen(self, replica: SpaceReplica) -> None:
        """It has moved: if it is as far as the others, everybody sees it from now on."""
        spaces, identity = self._spaces, replica.identity
        if replica.goal is None or replica.applied_lsn < max(replica.goal, spaces.arrivals.owes(identity)):
            return
        item = spaces.item(identity)
        if item is not None and spaces.replica(identity) is replica:
            replica.whole = True
            spaces.arrivals.join(identity, replica)
            spaces.node.held.arrived(item, replica.store)
            spaces.seen(replica)
            log.info('tablespace "%s" is on this node from LSN %d on', item.name, replica.applied_lsn)

    # --- leaving -------------------------------------------------------------------------------------------------

    def leave(self, replica: SpaceReplica) -> None:
        """Gives a tablespace up that lives on elsewhere."""
        spaces, identity = self._spaces, replica.identity
        log.info("tablespace %s leaves this node", identity.hex())
        if replica.whole:
            spaces.node.held.departs(replica.store)
        spaces.forget(replica)
        self._leaving[identity] = replica, asyncio.get_running_loop().create_task(self._left(replica))

    async def _left(self, replica: SpaceReplica) -> None:
        spaces, identity = self._spaces, replica.identity
        await spaces.end(replica)
        spaces.arrivals.leave(identity)  # only now: until its log has ended it may ask
        with contextlib.suppress(CoordinationUnavailableError, ConflictError):
            await spaces.place.coordination().delete(paths(identity).replica(self._node))
        while replica.store.in_use:
            await asyncio.sleep(IN_USE_PAUSE)
        await asyncio.to_thread(replica.store.close)
        await asyncio.to_thread(shutil.rmtree, Path(replica.store.path), ignore_errors=True)
        del self._leaving[identity]
        spaces.wake()

    # --- the end -------------------------------------------------------------------------------------------------

    async def stop(self) -> None:
        """Ends what is under way; what is half done is found at the next start."""
        tasks = [*self._coming.values(), *(task for _, task in self._leaving.values())]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def close(self) -> None:
        """Closes the tables of what was leaving."""
        for replica, _ in self._leaving.values():
            replica.store.close()
