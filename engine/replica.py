"""A node's interface to its part in a cluster, and the rules for reads on followers.

The composition root implements `Replica` over `replication/`. A single node has none. A node *leads* while it may
commit and answer strong reads: its epoch is current, and its session with the coordination service cannot have expired.

The setting read_consistency decides when a follower answers a read:

    strong              after it has read the head of the log and applied everything up to it
    bounded             if it is at most `max_staleness` behind, else it raises 55000
    session             after it has applied the session's own last commit and `read_after`
    eventual            at once
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Protocol

from catalog.catalog import Catalog
from catalog.errors import SqlError
from catalog.schema import Tablespace

HOME = b""
"""The id for pg_default, which has the catalog, among the ids of tablespaces."""

_TOKEN = re.compile(r"(\d{1,18})")


class Replica(Protocol):
    """Called on the engine's thread."""

    @property
    def leads(self) -> bool:
        """Whether this node may commit and answer strong reads in all tablespaces, pg_default included. It is cheap,
        because it is called for every batch of messages."""

    def leads_in(self, tablespaces: Iterable[bytes]) -> bool:
        """Whether this node leads these tablespaces, by id; pg_default is HOME."""

    @property
    def tablespaces(self) -> frozenset[bytes]:
        """All tablespaces by id, with HOME for pg_default."""

    def led_together(self, tablespaces: Iterable[bytes]) -> bool:
        """Whether one node leads all of these tablespaces, as far as this node knows."""

    async def gather(self, tablespaces: Iterable[bytes]) -> None:
        """Moves the leadership of tablespaces to this node, which leads pg_default. Raises 57P03 if that takes longer
        than `commit_timeout`."""

    def begin_to_gather(self, tablespaces: Iterable[bytes]) -> None:
        """Starts to bring pg_default and these tablespaces under one leader: this node requests the leaderships that it
        lacks, or gives away those that it has."""

    @property
    def staleness(self) -> float:
        """Seconds by which this node's applied state may be behind the leader's."""

    async def catch_up(self) -> None:
        """Reads the head of the log and waits until it is applied. Raises 57P03 if the head cannot be read, or is not
        applied within `commit_timeout`."""

    async def reach(self, lsn: int) -> None:
        """Waits until the LSN is applied. Raises 55000 after `commit_timeout`."""


def identity_of(catalog: Catalog, oid: int) -> bytes:
    """The id of the tablespace with an OID."""
    item = catalog.get(oid)
    return bytes.fromhex(item.identity) if isinstance(item, Tablespace) else HOME


def parse_token(text: str) -> int:
    """The LSN in a token of `shoal_last_commit()`; '' is 0. Raises 22023."""
    if not text:
        return 0
    found = _TOKEN.fullmatch(text.strip())
    if found is None:
        raise SqlError(
            "22023",
            f'invalid value for parameter "read_after": "{text}"',
            hint="Use what shoal_last_commit() has returned.",
        )
    return int(found[1])


def token(lsn: int) -> str:
    """An LSN in the form that `shoal_last_commit()` returns and `read_after` accepts."""
    return str(lsn)


async def admit_read(replica: Replica, consistency: str, max_staleness: float, after: int) -> None:
    """Waits until a follower may answer a read (see the module's text). `max_staleness` in seconds, `after` an LSN.

    Raises 55000 when the limit or the token is not met, 57P03 when the head cannot be read.
    """
    if after:
        await replica.reach(after)
    if consistency == "strong":
        await replica.catch_up()
    elif consistency == "bounded":
        staleness = replica.staleness
        if staleness > max_staleness:
            raise SqlError(
                "55000",
                f"this replica may be {staleness:.3f} s behind, more than max_staleness allows ({max_staleness:g} s)",
                hint="Raise max_staleness, or set read_consistency to strong, session or eventual.",
            )
