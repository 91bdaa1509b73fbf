"""VACUUM in a cluster: every replica returns the same tables' free space to its file system.

    VACUUM [FULL]   on the leader commits one row: storage id 18, the request as JSON. Then the leader frees the space.
    a follower      applies that commit, and all deletes before it, and then frees the space in its own files

Replicas have different pages and different free pages, so the request names storage ids. The leader does not wait for
followers. Entries are applied again when a replica restarts, so a request older than `FRESH` is ignored. The next
request replaces the row.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

import orjson

from catalog.errors import SqlError
from catalog.rows import SPACE_REQUESTS
from engine.replica import HOME
from engine.storage.edits import Edits

if TYPE_CHECKING:
    from engine.node_services import NodeServices

log = logging.getLogger("shoal.storage")

FRESH = 600_000_000  # microseconds
KEY = SPACE_REQUESTS.to_bytes(4, "big") + bytes(4)


class SpaceRequests:
    """A node's part in VACUUM. Used on the engine's thread."""

    def __init__(self, node: NodeServices) -> None:
        self._node = node

    def tell(self, storage_ids: Sequence[int], full: bool, everywhere: bool) -> None:
        """Asks followers to free the space of these storage ids, if this node leads their tablespaces; `everywhere`: in
        all tablespaces."""
        node = self._node
        if node.replica is None or not node.replica.leads_in((HOME,)):
            return
        asked = {"time": node.clock(), "full": full, "storage_ids": storage_ids, "everywhere": everywhere}
        node.commits.sequence({KEY: orjson.dumps(asked)})

    def on_applied(self, edits: Edits) -> None:
        """Called when a follower has applied a commit of the leader."""
        value = edits.writes.get(KEY)
        if value is None:
            return
        asked = orjson.loads(value)
        if self._node.clock() - int(asked["time"]) >= FRESH:
            return
        everywhere = bool(asked.get("everywhere"))  # absent in requests of a leader of an older release
        if asked["full"]:
            self._node.pack_later(asked["storage_ids"], _tell, everywhere)
        else:
            self._node.give_back(asked["storage_ids"], everywhere)


def _tell(error: SqlError | None) -> None:
    if error is not None:
        log.warning("cannot return the space that VACUUM FULL freed on the leader: %s", error.message)
