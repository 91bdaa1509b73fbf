"""The interfaces on which the replicated changelog is built: a store of objects and a coordination service.

    changelog store      objects by name, created once and never changed (replication/stores/)
    coordination         ZooKeeper: small nodes with versions, ephemerals, watches, `multi` (replication/zookeeper/)

Both are asynchronous and belong to the engine's thread: implementations with threads of their own (kazoo, file systems)
hand results over to the loop. Tests have an implementation of both in memory, with a clock and faults that depend on a
seed, so that the logic above them is tried without waiting.

Objects of a tablespace (names are relative to the store's URL; `<ts>` is the tablespace's id, 32 hexadecimal digits):

    cluster                                        the cluster's id: a store that holds another cluster is refused
    <ts>/ledger-<id:010>/<first:020>-<last:020>-<commit id>     entries (replication/entry.py), one after the other
    <ts>/ledger-<id:010>/bulk/<name>               a bulk run of an entry of this ledger, deleted with the ledger
    <ts>/checkpoint-<lsn:020>/...                  files of a checkpoint, `manifest.json` last

Znodes below the cluster's chroot:

    format, cluster                     the layout's version; the cluster's id
    nodes/<node>                        ephemeral: Node
    controller                          ephemeral: the node that places replicas and leaders
    awaited/<ts>                        ephemeral: the LSN that replicas are to apply (replication/log/remote_apply.py)
    moves/<ts>                          a leader is to hand over (replication/placement.py)
    tablespaces/<ts>/spec               Spec
    tablespaces/<ts>/epoch              Epoch; its version is what every commit checks
    tablespaces/<ts>/head               Head
    tablespaces/<ts>/ledgers            LedgerList
    tablespaces/<ts>/ledgers/<number>   a segment of it: older Ledgers
    tablespaces/<ts>/checkpoints        list of Checkpoint
    tablespaces/<ts>/replicas/<node>    ephemeral: Replica
    tablespaces/<ts>/checks/<id>/<node> what a replica has found (replication/checks.py)

All znode values are JSON (orjson), with unknown fields kept out of the way of older readers: a reader ignores them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

# --- the store of objects --------------------------------------------------------------------------------------------


class ObjectExistsError(Exception):
    """`put` found an object of that name; its content may be different."""


class ObjectMissingError(Exception):
    """There is no object of that name."""


class StoreUnavailableError(Exception):
    """The store did not answer, or refused. The outcome of a `put` or `delete` is unknown."""


class ObjectDamagedError(StoreUnavailableError):
    """The store has lost acknowledged data, and knows it. A repeated request does not help; another copy may."""


class StoreFullError(StoreUnavailableError):
    """The store has no room left; the object was not written."""


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    name: str
    size: int  # bytes


MANY = 1000  # names that `get_many` takes at most


class ChangelogStore(Protocol):
    """Objects that are created once. Names are relative paths of [a-zA-Z0-9._-] parts, joined by '/'.

    Everything may raise StoreUnavailableError. No call retries by itself for longer than the store's own timeout
    (seconds, given at construction; default 10).
    """

    @property
    def url(self) -> str:
        """The URL with which it was opened, without credentials."""

    async def put(self, name: str, data: bytes) -> None:
        """Creates the object; it is durable and can be read by everyone when this returns.

        Raises ObjectExistsError, StoreFullError. Putting the same content again after an unknown outcome is for the
        caller to resolve: ObjectExistsError, then `get` and compare.
        """

    def append(self, name: str, data: bytes) -> Awaitable[None]:
        """Puts a small object whose name no other writer can choose, faster than `put` where the store can. The request
        may be sent when this returns, before the answer is awaited. A caller that does not need the answer any more
        cancels the future, or closes the coroutine.

        Only this handle's own tries are checked for an object of that name: the same content may be stored twice, which
        no reader sees. Another content under the name of an object is the caller's defect.
        """

    async def put_file(self, name: str, path: str) -> None:
        """As `put`, with the content of a local file, in pieces: memory does not grow with it."""

    async def get(self, name: str) -> bytes:
        """Raises ObjectMissingError."""

    async def get_many(self, names: Sequence[str]) -> dict[str, bytes]:
        """Small objects by their names, at most MANY, in as few requests as the store supports. Missing or damaged ones
        are left out, and so are those that exceed one answer: the caller requests them again by `get`, which raises the
        error."""

    async def get_file(self, name: str, path: str) -> None:
        """As `get`, into a new local file (not synced), in pieces. Raises ObjectMissingError."""

    def list(self, prefix: str, after: str = "") -> AsyncIterator[ObjectInfo]:
        """Objects whose names start with the prefix (a folder, ending in '/') and sort after `after`, by name."""

    async def delete(self, name: str) -> None:
        """Deletes the object, if it exists."""

    async def delete_folder(self, prefix: str) -> None:
        """Deletes every object whose name starts with the prefix (ending in '/'): a whole ledger, a checkpoint."""

    async def close(self) -> None:
        """Closes connections and threads; running calls end with StoreUnavailableError."""


# --- the coordination service ----------------------------------------------------------------------------------------


class CoordinationUnavailableError(Exception):
    """There is no connection, or the session is over: the request was certainly not executed."""


class OutcomeUnknownError(CoordinationUnavailableError):
    """The request was sent and its reply was lost: it may have been executed, or may still be, because it may be in a
    buffer of the server. Reading back can prove that it was executed. Only another write that checks the same version
    proves that it never will be."""


class ConflictError(Exception):
    """A version did not match, a node exists already, or does not exist: nothing was done.

    `index` is the operation of a multi that failed, `reason` 'version', 'exists', 'missing' or 'not empty'.
    """

    def __init__(self, reason: Literal["version", "exists", "missing", "not empty"], path: str, index: int = 0) -> None:
        super().__init__(f"{path}: {reason}")
        self.reason = reason
        self.path = path
        self.index = index


@dataclass(frozen=True, slots=True)
class Check:
    path: str
    version: int


@dataclass(frozen=True, slots=True)
class Create:
    path: str
    data: bytes
    ephemeral: bool = False


@dataclass(frozen=True, slots=True)
class Set:
    path: str
    data: bytes
    version: int  # -1: any


@dataclass(frozen=True, slots=True)
class Delete:
    path: str
    version: int = -1


Operation = Check | Create | Set | Delete

SessionState = Literal["connected", "suspended", "lost"]
"""suspended: no server answers, and the session may still exist. lost: the session has ended, and its ephemeral nodes
were removed."""


@dataclass(frozen=True, slots=True)
class Znode:
    data: bytes
    version: int


Watch = Callable[[], None]
"""Called once, on the engine's thread, when the read znodes have changed, or when the session was interrupted, so that
a change may have been missed. The receiver reads and watches again."""


class Coordination(Protocol):
    """A ZooKeeper session below the cluster's chroot. Paths are relative, without a leading '/'.

    Requests of one session are executed in their order. While the session is suspended requests wait for the connection
    up to `timeout` (seconds, given at construction), then fail as unavailable. After 'lost' this object is dead: every
    request raises CoordinationUnavailableError, and a new one is opened.
    """

    @property
    def session_timeout(self) -> float:
        """Seconds, as negotiated with the server."""

    @property
    def alive_until(self) -> float:
        """Clock time (`time.monotonic()`) before which the session cannot have expired: the session timeout after the
        *sending* of the last request that was answered. Renewed several times a session timeout while connected."""

    @property
    def state(self) -> SessionState: ...

    def on_state(self, callback: Callable[[SessionState], None]) -> None:
        """Called on the engine's thread with every change of state."""

    async def get(self, path: str, watch: Watch | None = None) -> Znode | None:
        """None if there is none; the watch then waits for its creation. The newest state, not a lagging server's
        (implementations sync first where `fresh` matters: see `sync`)."""

    async def sync(self) -> None:
        """Makes later reads at least as new as everything committed before this call; also concurrent reads that start
        after it."""

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        """Names, sorted; empty if the node does not exist (the watch then waits for its creation)."""

    async def create(self, path: str, data: bytes, ephemeral: bool = False) -> None:
        """Makes missing parents. Raises ConflictError('exists')."""

    async def set(self, path: str, data: bytes, version: int = -1) -> int:
        """Returns the new version. Raises ConflictError."""

    async def delete(self, path: str, version: int = -1) -> None:
        """Raises ConflictError."""

    def multi(self, operations: Sequence[Operation]) -> Awaitable[list[int]]:
        """All or nothing. Returns the new version of every Set (0 for other operations), in order.

        The request may have been sent when this returns, before the answer is awaited.

        Raises ConflictError with the first operation that failed, OutcomeUnknownError.
        """

    async def close(self) -> None:
        """Ends the session: its ephemeral nodes are deleted at once."""


# --- contents of the znodes ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Node:
    """nodes/<node>: the address of a node."""

    node: str
    host: str
    port: int
    admin: str = ""  # host:port of its HTTP interface, with https:// before it for TLS
    started: int = 0  # microseconds since 2000-01-01 UTC
    load: float = 0.0  # busy share of its engine's thread, 0..1, of the last seconds
    connections: int = 0
    version: str = ""
    certificate: str = ""  # SHA-256 of its TLS certificate, hexadecimal, by which other nodes recognise it


@dataclass(frozen=True, slots=True)
class Spec:
    """tablespaces/<ts>/spec: the options of the user, and the replicas."""

    name: str
    replicas: tuple[str, ...]  # nodes that hold it
    expected_replicas: int = 1
    preferred_leader: str = ""
    max_leader_inactivity: float = 0.0  # seconds without a sign of life before another may lead; 0: session expiry only
    store: str = ""  # URL of its changelog store, '' for the cluster's
    asked: tuple[str, ...] = ()  # nodes that must be among `replicas`, by the user's option
    everywhere: bool = False  # every node holds it
    former_stores: tuple[str, ...] = ()  # URLs: older ledgers and checkpoints may be there


@dataclass(frozen=True, slots=True)
class Epoch:
    """tablespaces/<ts>/epoch: the leader. Incremented before the new leader reads anything."""

    epoch: int
    leader: str  # '' : none
    claim: str = ""  # random, by the writer, 32 hexadecimal digits: identifies its own write after a lost reply
    wish: str = ""  # without a leader: the node that should be the next one


@dataclass(frozen=True, slots=True)
class HeadObject:
    """An object of entries in a ledger."""

    ledger: int
    first: int
    last: int
    commit_id: str  # 32 hexadecimal digits, random, by the writer


@dataclass(frozen=True, slots=True)
class Head:
    """tablespaces/<ts>/head: the end of the log. Setting it is the commit."""

    lsn: int
    epoch: int
    hash: str  # of the last entry, hexadecimal
    commit_time: int  # of the last entry, microseconds since 2000-01-01 UTC
    bytes: int  # of the open ledger
    recent: tuple[HeadObject, ...] = ()  # the last objects, newest last: a reader close to the end needs no listing


@dataclass(frozen=True, slots=True)
class Ledger:
    """An element of the ledger list: a run of entries of one epoch."""

    ledger: int
    epoch: int
    first: int
    last: int | None = None  # None: open
    bytes: int = 0
    closed: int = 0  # microseconds since 2000-01-01 UTC
    store: str = ""  # URL of its store: a tablespace may move to another store


@dataclass(frozen=True, slots=True)
class LedgerList:
    """tablespaces/<ts>/ledgers: the newest ledgers, and a summary of the older ones. Those are in segments,
    tablespaces/<ts>/ledgers/<number>, a few hundred closed ones each."""

    ledgers: tuple[Ledger, ...] = ()  # the newest, oldest first
    first_segment: int = 0
    next_segment: int = 0  # the number after the last segment
    oldest: int = 0  # number of the oldest ledger in a segment that has not been dropped; 0 without segments
    oldest_lsn: int = 0  # its first LSN
    count: int = 0  # ledgers in segments
    bytes: int = 0  # in these

    @property
    def first_ledger(self) -> int:
        """The number of the oldest ledger; 0 if there is none."""
        return self.oldest or (self.ledgers[0].ledger if self.ledgers else 0)

    @property
    def first_lsn(self) -> int | None:
        """The first LSN of the log; None without any ledger."""
        if self.oldest:
            return self.oldest_lsn
        return self.ledgers[0].first if self.ledgers else None


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """An element of tablespaces/<ts>/checkpoints."""

    lsn: int
    hash: str  # of the entry at the LSN, hexadecimal
    folder: str
    bytes: int
    created: int  # microseconds since 2000-01-01 UTC


@dataclass(frozen=True, slots=True)
class Replica:
    """tablespaces/<ts>/replicas/<node>."""

    node: str
    role: Literal["leader", "follower", "bootstrapping"]
    applied: int  # LSN
    flushed: int = 0  # LSN in its own LMDB: the log after it must be kept for this replica
    seen: int = 0  # of its last report, microseconds since 2000-01-01 UTC
    detail: dict[str, str] = field(default_factory=dict)


# --- for the engine --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LogEntry:
    """A committed entry, verified; its `files` are at the follower's `bulk_path` before it is applied."""

    lsn: int
    epoch: int
    commit_time: int  # microseconds since 2000-01-01 UTC
    schema_version: int
    files: tuple[str, ...]
    body: bytes
    parts: tuple[tuple[bytes, int], ...] = ()  # (tablespace id, LSN) of all parts of a transaction over several
