"""The tablespaces that a node holds, in a cluster where some tablespaces are on some of the nodes only.

A tablespace's spec in ZooKeeper names the nodes that hold it. Placement changes the spec, and the nodes follow it:

    the spec names this node   The node bootstraps a replica from the newest checkpoint and the later log, while
                               everything else continues. The replica becomes visible when it has caught up with the
                               other replicas on this node (`show_if_caught_up`).
    it no longer does          New statements do not read the replica. Its log ends, and its directory is removed when
                               its last snapshot is closed.
    there is no spec yet       The row of CREATE TABLESPACE names the nodes, or means all. They open the tablespace.

Statements on tablespaces that this node does not hold are forwarded to the leader (wire/leader_forwarding.py). A node
that leads pg_default gets the tablespaces that it lacks.
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
from shoal.cluster.replica_bootstrap import add_holder, join_tablespace
from shoal.config import ConfigError

if TYPE_CHECKING:
    from shoal.cluster.tablespaces import ClusterTablespaces, TablespaceReplica

log = logging.getLogger("shoal.cluster")

RETRY_PAUSE = 0.5  # seconds
IN_USE_PAUSE = 0.1


def requested_nodes(options: Mapping[str, str]) -> tuple[str, ...]:
    """The nodes of the option `replicas`, or () if it is not given."""
    return tuple(dict.fromkeys(name.strip() for name in options.get("replicas", "").split(",") if name.strip()))


def with_replicas(spec: Spec, item: CatalogItem) -> Spec:
    """The spec with the catalog's options about the nodes that hold the tablespace."""
    options = dict(item.options)
    asked, expected = requested_nodes(options), options.get("expected_replicas")
    return dataclasses.replace(
        spec,
        asked=asked,
        expected_replicas=max(len(asked), 1) if expected is None else int(expected),
        everywhere=not asked and expected is None,
    )


class ReplicaHoldings:
    """The replicas that one node holds. Used on the engine's thread."""

    def __init__(self, spaces: ClusterTablespaces) -> None:
        self.specs: Mapping[bytes, Spec] = {}
        """The last known specs of all tablespaces."""
        self._spaces = spaces
        self._rows: set[bytes] = set()  # tablespaces whose rows the catalog has or had
        self._bootstraps: dict[bytes, asyncio.Task[None]] = {}
        self._removals: dict[bytes, tuple[TablespaceReplica, asyncio.Task[None]]] = {}

    @property
    def _node(self) -> str:
        return self._spaces.context.node

    def is_held_here(self, spec: Spec) -> bool:
        """Whether this node must hold the tablespace."""
        return spec.everywhere or self._node in spec.replicas

    def is_new(self, item: CatalogItem) -> bool:
        """Whether this node holds a tablespace from its first entry, when it sees the catalog row for the first time. A
        tablespace that has a spec may already have entries, so it needs a bootstrap."""
        identity = bytes.fromhex(item.identity)
        seen = identity in self._rows
        self._rows.add(identity)
        if seen or identity in self.specs:
            return False
        return self.is_held_here(with_replicas(Spec(item.name, requested_nodes(dict(item.options))), item))

    def refresh_specs(self) -> bool:
        """Reads the specs, and returns whether they have changed."""
        specs = self._spaces.context.specs()
        if specs is None or specs == self.specs:
            return False
        self.specs = specs
        return True

    async def follow(self) -> None:
        """Starts to bootstrap missing replicas, and to remove replicas that this node must no longer hold. Raises
        CoordinationUnavailableError, ConflictError."""
        spaces = self._spaces
        self.refresh_specs()

        def at_home() -> bool:
            return spaces.leaderships.at_home

        for identity, spec in self.specs.items():
            replica = spaces.replica(identity)
            if identity == spaces.context.default_tablespace:
                continue
            if not self.is_held_here(spec):
                if at_home():  # the home holds all tablespaces, and placement would assign this one soon
                    await add_holder(spaces.context.coordination(), identity, self._node)
                elif replica is not None and await self._is_excluded(identity) and not at_home():
                    await replica.log.step_down()
                    self.start_removal(replica)
            elif replica is None:
                self._start_bootstrap(identity)
            elif spec.everywhere and self._node not in spec.replicas:
                await add_holder(spaces.context.coordination(), identity, self._node)
        for replica in spaces.bootstrapping_replicas():
            if replica.identity not in self.specs and spaces.item(replica.identity) is None:
                self.start_removal(replica)  # dropped before the bootstrap was complete

    async def _is_excluded(self, identity: bytes) -> bool:
        """Whether the spec excludes this node. Reads the spec again, because the caller removes the replica."""
        coordination = self._spaces.context.coordination()
        await coordination.sync()
        found = await coordination.get(paths(identity).spec)
        return found is not None and not self.is_held_here(decode_spec(found.data))

    # --- bootstrap -----------------------------------------------------------------------------------------------

    def _start_bootstrap(self, identity: bytes) -> None:
        if (
            identity not in self._bootstraps
            and identity not in self._removals
            and self._spaces.item(identity) is not None
        ):
            task = self._bootstraps[identity] = asyncio.get_running_loop().create_task(self._bootstrap(identity))
            task.add_done_callback(lambda _: self._bootstraps.pop(identity, None))

    async def _bootstrap(self, identity: bytes) -> None:
        """Retries until the replica is open, or this node must no longer hold the tablespace."""
        spaces = self._spaces
        while self.is_held_here(self.specs.get(identity, Spec("", ()))) and spaces.item(identity) is not None:
            try:
                replica = spaces.replica(identity) or await self._open_replica(identity)
                if replica is None or replica.is_visible:
                    return
                await self._set_goal(replica)
                return
            except (
                CoordinationUnavailableError,
                StoreUnavailableError,
                ConflictError,
                ConfigError,
                SqlError,
            ) as error:
                log.warning("cannot copy tablespace %s to this node now: %s", identity.hex(), error)
                await asyncio.sleep(RETRY_PAUSE)

    async def _open_replica(self, identity: bytes) -> TablespaceReplica | None:
        spaces, place = self._spaces, self._spaces.context
        directory = spaces.directory(identity)
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        await place.claim_store(self.specs[identity].store, False)
        position = await join_tablespace(place.coordination(), place.store_at, identity, directory)
        if position is None or spaces.replica(identity) is not None:
            return spaces.replica(identity)
        log.info("copying tablespace %s to this node, from LSN %d", identity.hex(), position.lsn)
        return spaces.add_replica(identity, position)

    async def _set_goal(self, replica: TablespaceReplica) -> None:
        """Sets the LSN that the replica must reach before it becomes visible, and waits until the other replicas have
        caught up with it. All of them then show the same transactions."""
        head = await replica.log.read_head()
        await self._spaces.context.catch_up()
        await self._spaces.catch_up_all()
        replica.goal = head.lsn
        self.show_if_caught_up(replica)

    def show_if_caught_up(self, replica: TablespaceReplica) -> None:
        """Makes the replica visible if it has caught up with the others."""
        spaces, identity = self._spaces, replica.identity
        if replica.goal is None or replica.applied_lsn < max(replica.goal, spaces.apply_order.awaited_lsn(identity)):
            return
        item = spaces.item(identity)
        if item is not None and spaces.replica(identity) is replica:
            replica.is_visible = True
            spaces.apply_order.join(identity, replica)
            spaces.node.held.on_arrived(item, replica.store)
            spaces.attach_replica(replica)
            log.info('tablespace "%s" is on this node from LSN %d on', item.name, replica.applied_lsn)

    # --- removal -------------------------------------------------------------------------------------------------

    def start_removal(self, replica: TablespaceReplica) -> None:
        """Starts to remove the replica of a tablespace that other nodes hold."""
        spaces, identity = self._spaces, replica.identity
        log.info("removing tablespace %s from this node", identity.hex())
        if replica.is_visible:
            spaces.node.held.departs(replica.store)
        spaces.forget(replica)
        self._removals[identity] = replica, asyncio.get_running_loop().create_task(self._remove_replica(replica))

    async def _remove_replica(self, replica: TablespaceReplica) -> None:
        spaces, identity = self._spaces, replica.identity
        await spaces.end_replica(replica)
        spaces.apply_order.leave(identity)  # after the log has ended, because the log may still need it
        with contextlib.suppress(CoordinationUnavailableError, ConflictError):
            await spaces.context.coordination().delete(paths(identity).replica(self._node))
        while replica.store.in_use:
            await asyncio.sleep(IN_USE_PAUSE)
        await asyncio.to_thread(replica.store.close)
        await asyncio.to_thread(shutil.rmtree, Path(replica.store.path), ignore_errors=True)
        del self._removals[identity]
        spaces.wake_reconciler()

    # --- stop ----------------------------------------------------------------------------------------------------

    async def stop(self) -> None:
        """Cancels the tasks. The next start continues their work."""
        tasks = [*self._bootstraps.values(), *(task for _, task in self._removals.values())]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def close(self) -> None:
        """Closes the tables of replicas whose removal is not complete."""
        for replica, _ in self._removals.values():
            replica.store.close()
