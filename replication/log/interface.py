"""The interfaces between the log of a tablespace and the engine.

`ReplicatedLog` (replica.py) is one tablespace on one node. It follows, is elected, leads and is deposed, and calls its
`ReplicaEngine`:

    following   apply(entry) ...                                       in LSN order, never past the head
    leading     lead(leader): everything committed has been applied; from now on `leader.submit` (a Changelog)
                on_committed(lsn) ...                                  in LSN order
    the end     [on_unknown(first_lsn)]  on_deposed(last_committed)    then following again

`LeaderLog` is one term. It has the interface Changelog of engine/storage/interface.py.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterator, Sequence
from typing import Literal, Protocol

from replication.interface import LogEntry

Role = Literal["bootstrapping", "follower", "candidate", "leader", "resolving"]
"""candidate: it holds the epoch, or tries to, and catches up. resolving: its term is over, but whether its last commits
are in the log is not known yet; it serves nothing that depends on them."""


class MultiTablespaceCommit(Protocol):
    """One transaction's entries in several tablespaces, which are committed together
    (engine.storage.interface.Joint)."""

    tablespaces: tuple[bytes, ...]
    lsns: tuple[int, ...]


class Leader(Protocol):
    """One term as leader, for the engine's writes."""

    @property
    def leading(self) -> bool:
        """Whether `submit` accepts entries. Check it for all parts of a joint transaction before the first is
        submitted."""

    @property
    def committed_lsn(self) -> int: ...

    @property
    def pending_bytes(self) -> int: ...

    @property
    def may_serve_until(self) -> float:
        """Clock time before which no other node can have committed; strong reads are answered only before it."""

    def submit(
        self,
        lsn: int,
        body: bytes,
        commit_time: int,
        schema_version: int,
        files: Sequence[str] = (),
        joint: MultiTablespaceCommit | None = None,
    ) -> None:
        """Raises SqlError 40001 when this node no longer leads (nothing was queued), 54000 for a body past 4 GiB."""

    async def upload(self, name: str) -> None:
        """Uploads a bulk file to the store before its entry, so that other commits need not wait for it. Optional: a
        missing file is uploaded when the entry is submitted. `drop_bulk` removes it again.

        Raises StoreUnavailableError if the store did not accept it within `commit_timeout`."""

    def read(self, after: int) -> Iterator[tuple[int, int, bytes]]: ...

    def retire(self, upto: int) -> None: ...

    def bulk_path(self, name: str) -> str: ...

    def bulk_names(self) -> list[str]: ...

    def drop_bulk(self, name: str, lsn: int) -> None: ...

    def close(self) -> None: ...


class ReplicaEngine(Protocol):
    """One tablespace of the engine. Everything is called on the loop's thread, one after the other."""

    @property
    def flushed_lsn(self) -> int:
        """The LSN up to which the engine has flushed into its own tables, so that it does not need the log up to
        that."""

    def apply(self, entry: LogEntry) -> None:
        """The next entry; its files are at `bulk.path`. An exception ends the replica."""

    def admit(self, entry: LogEntry) -> Awaitable[None] | None:
        """Called before an entry is applied: None, or an awaitable to wait for (the entry depends on another
        tablespace). The wait is cancelled when this node stops following."""

    async def ready(self) -> None:
        """Returns at once unless the engine's flush is late; awaited while following."""

    async def lead(self, leader: Leader) -> None:
        """This node leads: everything up to `leader.committed_lsn` is applied. Writes are accepted when this returns;
        the term may be over before."""

    def on_committed(self, lsn: int) -> None:
        """Acknowledges commits: everything up to the LSN is committed in the log."""

    def on_unknown(self, first_lsn: int) -> None:
        """It is unknown, and will be for a while, whether the entries submitted from this LSN on are in the log: their
        clients get 08007. `on_committed` may still come for some of them, and `on_deposed` comes in any case."""

    def on_deposed(self, last_committed: int) -> None:
        """The term is over. Everything above the LSN is certainly not in the log and never will be: the engine undoes
        it, and its clients get 40001. The replica follows after the LSN."""
