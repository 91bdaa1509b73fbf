"""The limit on memory for old snapshots.

While a snapshot is open, later changes stay in memory beyond their flush, because the analytic worker needs them for
older snapshots (engine/columnar/feed.py). PostgreSQL keeps such rows in its tables on disk; here they would take the
memory of all connections. So these changes may take as much as the setting `memory`. Beyond that, the connection with
the oldest snapshot is ended, then the next.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from catalog.errors import SqlError
from engine.storage.moments import lsn_in

if TYPE_CHECKING:
    from engine.node.node import Node
    from engine.storage.tablespace import Tablespace

log = logging.getLogger("shoal.session")


def bound(node: Node, space: Tablespace) -> bool:
    """Ends the connection with the oldest snapshot if a tablespace keeps too much for old snapshots. Returns whether it
    did."""
    kept = space.kept_bytes
    if kept <= node.memory.limit:
        return False
    holders = [
        (lsn_in(space.slot, session.transaction.snapshot.lsn), session)
        for session in node.sessions.values()
        if session.transaction is not None and session.transaction.snapshot is not None
    ]
    if not holders:
        return False
    _, session = min(holders, key=lambda item: item[0])
    log.warning("session %d is ended: %d MB are kept in memory for old snapshots", session.process_id, kept >> 20)
    session.cancel(
        SqlError(
            "53200",
            "terminating connection because its snapshot keeps too much in memory",
            detail=f"Changes since the snapshot take {kept >> 20} MB, more than memory ({node.memory.limit >> 20} MB).",
            hint="End transactions at REPEATABLE READ earlier, or raise the server's setting memory.",
            severity="FATAL",
        )
    )
    return True
