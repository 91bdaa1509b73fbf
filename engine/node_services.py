"""Services of a node (engine/node/node.py) for parts that do not import it: change streams, checks of replicas,
requests for space, the cluster's views."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence, Sized
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from catalog.catalog import Catalog
    from catalog.errors import SqlError
    from engine.checkpoint.digest import Digest
    from engine.columnar.client import WorkerClient
    from engine.replica import Replica
    from engine.storage.space import Packed
    from engine.storage.stores import AnyStore
    from engine.txn.commit import CommitQueue
    from engine.txn.joint import JointCommits


class _Held(Protocol):
    def lacks(self, oid: int) -> bool:
        """Whether tables in a tablespace (OID) cannot be read on this node."""


class _Changes(Protocol):
    def note_captured(self, size: int) -> None:
        """Called when `size` more bytes of changes are written."""

    def look(self) -> None:
        """Called when a position of a stream has moved."""


class _Listeners(Protocol):
    @property
    def streams(self) -> set[tuple[int, str]]:
        """The notification channels of change streams, as (database, channel)."""

    def tell(self, database: int, process_id: int, notifications: Iterable[Sequence[str]]) -> None: ...


class NodeServices(Protocol):
    """On the engine's thread."""

    clock: Callable[[], int]

    @property
    def store(self) -> AnyStore: ...
    @property
    def commits(self) -> CommitQueue | JointCommits: ...
    @property
    def catalogs(self) -> Mapping[int, Catalog]: ...
    @property
    def shared_catalog(self) -> Catalog: ...
    @property
    def sessions(self) -> Sized: ...
    @property
    def started(self) -> int: ...
    @property
    def columnar(self) -> WorkerClient: ...
    @property
    def replica(self) -> Replica | None: ...
    @property
    def report_check(self) -> Callable[[bytes, bytes, Digest | SqlError], None] | None: ...
    @property
    def held(self) -> _Held: ...
    @property
    def changes(self) -> _Changes: ...
    @property
    def listeners(self) -> _Listeners: ...

    def background(self, work: Coroutine[Any, Any, None]) -> None: ...
    def pack_later(self, storage_ids: Iterable[int], done: Packed, everywhere: bool = False) -> None: ...
    def give_back(self, storage_ids: Iterable[int], everywhere: bool = False) -> None: ...
