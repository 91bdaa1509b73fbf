"""VACUUM in a cluster: what the leader gives back of its tables' files, every replica gives back of its own.

    VACUUM [FULL] on the leader -> a commit of one row: storage id 18, the request as JSON -> the leader does it
    a follower                  -> has applied that commit, and all deletions before it     -> does the same, by itself

Each replica has files of its own, so its pages are others, and which of them are free is its own affair: the request
names storage ids. Nobody waits for followers. Entries are applied again when a replica comes back: a request that is
older than `FRESH` is nobody's concern any more. The next request takes the row's place.
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
    """A node's part. Lives on the engine's thread."""

    def __init__(self, node: NodeServices) -> None:
        self._node = node

    def tell(self, storage_ids: Sequence[int], full: bool, everywhere: bool) -> None:
        """Followers are to give back what these storage ids have left, if this node leads any; `everywhere`: in all
        tablespaces."""
        node = self._node
        if node.replica is None or not node.replica.leads_in((HOME,)):
            return
        asked = {"time": node.clock(), "full": full, "storage_ids": storage_ids, "everywhere": everywhere}
        node.commits.sequence({KEY: orjson.dumps(asked)})

    def on_applied(self, edits: Edits) -> None:
        """A follower has applied a commit of the leader's."""
        value = edits.writes.get(KEY)
        if value is None:
            return
        asked = orjson.loads(value)
        if self._node.clock() - int(asked["time"]) >= FRESH:
            return
        everywhere = bool(asked.get("everywhere"))  # a leader of an older release does not say
        if asked["full"]:
            self._node.pack_later(asked["storage_ids"], _tell, everywhere)
        else:
            self._node.give_back(asked["storage_ids"], everywhere)


def _tell(error: SqlError | None) -> None:
    if error is not None:
        log.warning("cannot return the space that VACUUM FULL freed on the leader: %s", error.message)
