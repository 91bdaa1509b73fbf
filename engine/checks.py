"""Checks: every replica of a tablespace computes its digest at the same LSN, and reports it.

    shoal_check()   on the leader commits one row: storage id 11 + the check's id, the request as JSON
    the leader      captures its state when that LSN is sequenced, and reads the capture when the LSN is durable
    a follower      captures its state when it has applied that commit, before it applies the next one
    all of them     compute digest(capture) in a thread, and call `Node.report_check`

Before that each node compares the columns of its own analytic worker with the rows of that LSN
(engine/columnar_checks.py).

The captures are taken at exactly that LSN, whatever is committed meanwhile. So different digests mean different
replicas. The row is an ordinary commit, and part of the digest. The next check deletes the rows of earlier ones.

With several tablespaces the commit has an empty part in each tablespace that its node leads, and the row holds the LSNs
of the parts. A follower applies all parts together, and computes a digest of each tablespace at the LSN of its part.

Entries are applied again when a replica restarts or begins with a checkpoint, so a request older than `FRESH` is
ignored. One digest is computed at a time, and one waits. Of further requests the oldest is dropped, because a capture
keeps pages of LMDB from being reused.
"""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import orjson

from catalog.errors import SqlError
from catalog.rows import CHECKS
from engine.checkpoint.capture import Capture
from engine.checkpoint.digest import Digest, digest_of
from engine.cluster_view import DEFAULT, spaces_of
from engine.columnar_checks import CopyChecks
from engine.replica import HOME
from engine.storage.edits import Edits
from engine.storage.keys import prefix_range
from engine.storage.stores import Stores
from engine.txn.joint import JointCommits

if TYPE_CHECKING:
    from engine.node_services import NodeServices
    from engine.storage.tablespace import Tablespace

FRESH = 600_000_000  # microseconds
ID_BYTES = 16
PREFIX = CHECKS.to_bytes(4, "big")


class Checks:
    """A node's part in checks. Used on the engine's thread."""

    def __init__(self, node: NodeServices) -> None:
        self._node = node
        self._waiting: tuple[bytes, list[_Captured]] | None = None
        self._running = False

    async def request(self) -> bytes:
        """Starts a check of all tablespaces, which this node leads. Returns the check's id when its row is durable.

        Raises 55000 if there is no cluster to compare with, and errors of the commit."""
        node = self._node
        if node.report_check is None:
            raise SqlError("55000", "this node is not part of a cluster: it has no replicas to compare")
        identity = secrets.token_bytes(ID_BYTES)
        if node.replica is not None and not node.replica.leads_in((HOME,)):
            raise SqlError("55000", "this node is not the leader of the tablespace, so it cannot start a check")
        space = spaces_of(node)[DEFAULT]
        others = node.store.usable()[1:] if isinstance(node.store, Stores) else []
        asked: dict[str, object] = {"time": node.clock()}
        if others:
            asked["others"] = {other.tablespace_id.hex(): other.sequenced_lsn + 1 for other in others}
        older = space.scan(*prefix_range(PREFIX), space.sequenced_lsn)
        writes: dict[bytes, bytes | None] = {key: None for key, _ in older}
        writes[PREFIX + identity] = orjson.dumps(asked)
        if isinstance(node.commits, JointCommits):
            lsn = node.commits.sequence_everywhere(writes)
        else:
            lsn = node.commits.sequence(writes)
        captures = [_Captured.take(node, found, found.sequenced_lsn) for found in (space, *others)]
        durable: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        node.commits.wait(lsn, partial(self._durable, identity, captures, durable), partial(_fail, captures, durable))
        return await durable

    def _durable(self, identity: bytes, captures: list[_Captured], durable: asyncio.Future[bytes]) -> None:
        self._compute(identity, captures)
        if not durable.done():
            durable.set_result(identity)

    def on_applied(self, edits: Edits) -> None:
        """Called when the default tablespace has just applied a commit of the leader, before the next entry."""
        key = next(reversed(edits.writes), b"")
        if key[:4] != PREFIX or self._node.report_check is None:
            return
        value = edits.writes[key]
        if value is None:
            return
        asked = orjson.loads(value)
        if self._node.clock() - int(asked["time"]) >= FRESH:
            return
        spaces = spaces_of(self._node)
        first = spaces.pop(DEFAULT)
        lsns = {bytes.fromhex(name): lsn for name, lsn in asked.get("others", {}).items()}
        others = [space for space in spaces.values() if lsns.get(space.tablespace_id) == space.durable_lsn]
        self._compute(key[4:], [_Captured.take(self._node, space) for space in (first, *others)])

    def _compute(self, identity: bytes, captures: list[_Captured]) -> None:
        if self._waiting is not None:
            older, kept = self._waiting
            for captured in kept:
                captured.close()
                self._report(older, captured.state.tablespace, SqlError("53000", "a later check has taken its place"))
        self._waiting = identity, captures
        if not self._running:
            self._running = True
            self._node.background(self._run())

    async def _run(self) -> None:
        while self._waiting is not None:
            (identity, captures), self._waiting = self._waiting, None
            for captured in captures:
                await self._digest(identity, captured)
        self._running = False

    async def _digest(self, identity: bytes, captured: _Captured) -> None:
        capture = captured.state
        try:
            found = await digest_of(capture, captured.copies.compare)
        except SqlError as error:
            self._report(identity, capture.tablespace, error)
        except Exception as error:
            self._report(identity, capture.tablespace, SqlError("XX000", f"the digest failed: {error!r}"))
        else:
            self._report(identity, capture.tablespace, found)
        finally:
            captured.copies.close()

    def _report(self, identity: bytes, tablespace: bytes, result: Digest | SqlError) -> None:
        if self._node.report_check is not None:
            self._node.report_check(identity, tablespace, result)


@dataclass(frozen=True, slots=True)
class _Captured:
    """A tablespace at one LSN, and the comparison of the analytic worker's tables with it."""

    state: Capture
    copies: CopyChecks

    @classmethod
    def take(cls, node: NodeServices, space: Tablespace, lsn: int | None = None) -> _Captured:
        state = Capture.take(space, lsn)
        return cls(state, CopyChecks(node, space, state.lsn))

    def close(self) -> None:
        self.copies.close()
        self.state.close()


def _fail(captures: list[_Captured], durable: asyncio.Future[bytes], error: SqlError) -> None:
    for capture in captures:
        capture.close()
    if not durable.done():
        durable.set_exception(error)
