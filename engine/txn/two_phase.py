"""Prepared transactions (PREPARE TRANSACTION, COMMIT PREPARED): they outlive their session and the node.

    PREPARE TRANSACTION    the transaction's writes and locks become one row of a system table, which is committed like
                           any other; the client gets its answer when it is durable. The Transaction object remains
                           as the owner of the locks, without a session
    COMMIT PREPARED        its writes, and the deletion of the row, are one commit; then the locks are released
    ROLLBACK PREPARED      the deletion of the row is the commit
    a start, a fail-over   the leader reads the rows, before any session can do anything, and takes the locks again.
                           What a SERIALIZABLE one has read and written is in its row too, its conflicts are not

Each of these commits has a part in every tablespace that the transaction uses. So the next leader of one of them, on
any node, has the rows with the locks, and the transaction is finished where all of them are led. A prepared transaction
is in the changelog and survives like every commit.

The row: key = storage id, identifier; value = format byte, u32 length and JSON, u32 length and the writes, the row
locks (name -> modes in one byte), both in the form of a changelog entry's body (engine/storage/edits.py).

engine/session/two_phase.py refuses transactions that cannot be prepared: here its writes are rows of tables, and its
locks are of rows and of relations.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import orjson

from catalog.errors import SqlError
from catalog.rows import FORMAT, PREPARED_TRANSACTIONS
from engine.storage.edits import Edits
from engine.storage.keys import prefix_range
from engine.storage.stores import ObservedStores, Stores
from engine.txn.interface import READ_COMMITTED
from engine.txn.locks import ACCESS_EXCLUSIVE, LockSpace
from engine.txn.serializable import Serial
from engine.txn.transaction import Transaction

if TYPE_CHECKING:
    from engine.storage.stores import AnyStore
    from engine.txn.commit import CommitQueue
    from engine.txn.joint import JointCommits
    from engine.txn.row_locks import RowLocks

_PREFIX = PREPARED_TRANSACTIONS.to_bytes(4, "big")
_RANGE = prefix_range(_PREFIX)
_LENGTH = struct.Struct("<I")


@dataclass(frozen=True, slots=True)
class PreparedTransaction:
    """A row of pg_prepared_xacts. `number`: the transaction id that it shows. `prepared_at`: timestamptz. `owner`,
    `database`: OIDs."""

    identifier: str
    number: int
    prepared_at: int
    owner: int
    database: int


class _Held(Protocol):
    def slots_of(self, transaction: Transaction) -> set[int]:
        """The slots of the tablespaces in which it has locks, or has read state that is not durable."""


class _Numbers(Protocol):
    """engine/node/transaction_numbers.py"""

    def end(self, transaction: Transaction, lsn: int | None) -> None: ...

    def forget(self, transaction: Transaction) -> None: ...


class TransactionNode(Protocol):
    """The node as prepared transactions use it (engine/node/node.py)."""

    clock: Callable[[], int]
    new_transaction: Callable[..., Transaction]
    exclusive_tables: int

    def end_exclusive(self, lsn: int) -> None: ...

    @property
    def store(self) -> AnyStore: ...
    @property
    def commits(self) -> CommitQueue | JointCommits: ...
    @property
    def row_locks(self) -> RowLocks: ...
    @property
    def table_locks(self) -> LockSpace: ...
    @property
    def held(self) -> _Held: ...
    @property
    def numbers(self) -> _Numbers: ...


class PreparedTransactions:
    """The prepared transactions of a node that leads a tablespace; on a follower, those that it knew as leader."""

    def __init__(self, node: TransactionNode) -> None:
        self._node = node
        self._known: dict[str, tuple[PreparedTransaction, Transaction]] = {}

    def __len__(self) -> int:
        return len(self._known)

    def use(self, database: int) -> bool:
        """Whether one of them belongs to that database (OID)."""
        return any(prepared.database == database for prepared, _ in self._known.values())

    def find(self, identifier: str) -> PreparedTransaction | None:
        known = self._known.get(identifier)
        return None if known is None else known[0]

    def prepare(self, identifier: str, owner: int, database: int, transaction: Transaction) -> int:
        """Takes the transaction over from its session. Returns the LSN that must be durable before the client gets its
        answer. The identifier is unused."""
        node = self._node
        writes: dict[bytes, bytes | None] = {}
        for run in transaction.runs:
            for part in run.slices():
                writes.update(part)
            run.discard()
        writes.update(transaction.writes)
        transaction.leave_session(writes)
        if transaction.serial is not None:
            transaction.serial.leave_session()
        number = 1 + max((item.number for item, _ in self._known.values()), default=0)
        made = PreparedTransaction(identifier, number, node.clock(), owner, database)
        carrier = self._new_transaction()
        carrier.stand_on(transaction)
        self._concern(carrier, transaction)
        carrier.writes = {_key(identifier): _encode(made, transaction)}
        lsn = node.commits.commit(carrier, _get_keys(transaction))
        carrier.release()
        self._known[identifier] = made, transaction
        return lsn

    def finish(self, identifier: str, committed: bool) -> int:
        """COMMIT PREPARED or ROLLBACK PREPARED. Returns the LSN that must be durable before the client gets its
        answer."""
        _, transaction = self._known[identifier]
        carrier = self._new_transaction()
        carrier.writes = dict(transaction.writes) if committed else {}
        carrier.writes[_key(identifier)] = None
        self._concern(carrier, transaction)
        lsn = self._node.commits.commit(carrier, _get_keys(transaction))
        carrier.release()
        if transaction.serial is not None and committed:
            transaction.serial.commit(lsn)
        self._node.numbers.end(transaction, lsn if committed else None)
        self._forget(identifier, lsn)
        return lsn

    def _concern(self, carrier: Transaction, transaction: Transaction) -> None:
        """Its commit has a part in each tablespace where the transaction has a lock, even of a whole table."""
        if isinstance(carrier.store, ObservedStores):
            carrier.store.concerned = self._node.held.slots_of(transaction)

    def _new_transaction(self) -> Transaction:
        node = self._node
        owner = (node.store, node.row_locks, node.table_locks, 0)
        return node.new_transaction(*owner, node.clock(), READ_COMMITTED, False)

    def _forget(self, identifier: str, lsn: int = 0) -> None:
        """`lsn`: of its end, 0 if this node is no longer the leader."""
        _, transaction = self._known.pop(identifier)
        self._node.numbers.forget(transaction)
        if transaction.serial is not None:
            transaction.serial.abort()  # does nothing to one that is committed
        if transaction.exclusive:
            self._node.end_exclusive(lsn)
            transaction.exclusive = False
        transaction.note_commit(lsn)
        transaction.release()

    # ---- starts and fail-overs --------------------------------------------------------------------------------------

    def load(self) -> None:
        """This node leads: takes the locks of transactions that have a row, and releases those of others."""
        store = self._node.store
        found = store.scan_known(*_RANGE) if isinstance(store, Stores) else store.scan_newest(*_RANGE)
        stored = {key[len(_PREFIX) :].decode(): value for key, value in found}
        for identifier in self._known.keys() - stored.keys():
            self._forget(identifier)
        for identifier in stored.keys() - self._known.keys():
            self._restore(identifier, stored[identifier])

    def forget(self) -> None:
        """This node is no longer the leader; the next leader has the rows."""
        for identifier in list(self._known):
            self._forget(identifier)

    def list_shown(self) -> list[PreparedTransaction]:
        """All committed ones, on any node."""
        with self._node.store.snapshot() as snapshot:
            return [_parts(key, value)[0] for key, value in snapshot.scan(*_RANGE)]

    def last_key(self, prefix: bytes) -> bytes | None:
        """The highest key with this prefix among their writes: row numbers after a start must be above it too."""
        writes = (transaction.writes for _, transaction in self._known.values())
        return max((key for keys in writes for key in keys if key.startswith(prefix)), default=None)

    def _restore(self, identifier: str, value: bytes) -> None:
        node = self._node
        made, head, writes, row_locks = _parts(_key(identifier), value)
        transaction = self._new_transaction()
        transaction.leave_session(writes.writes)
        rows = [(name, modes[0]) for name, modes in row_locks.writes.items() if modes]
        _acquire(node.row_locks, transaction, transaction.row_locks, rows)
        _acquire(node.table_locks, transaction, transaction.table_locks, map(tuple, head["table_locks"]))
        if any(modes & ACCESS_EXCLUSIVE for modes in transaction.table_locks.values()):
            transaction.exclusive = True
            node.exclusive_tables += 1
        transaction.guards = True
        if "serial" in head:
            transaction.serial = Serial.restore(node.table_locks.serializable, transaction, head["serial"])
        self._known[identifier] = made, transaction


def _acquire(
    space: LockSpace, owner: Transaction, held: dict[Hashable, int], locks: Iterable[tuple[Hashable, int]]
) -> None:
    for name, modes in locks:
        for bit in range(modes.bit_length()):
            if modes >> bit & 1 and space.acquire(owner, held, name, 1 << bit) is not None:
                raise SqlError("XX000", "two prepared transactions hold locks that conflict")


def _get_keys(transaction: Transaction) -> Iterable[bytes]:
    """The keys that it has written and locked."""
    yield from transaction.writes
    for name in transaction.row_locks:
        assert isinstance(name, bytes)
        yield name


def _key(identifier: str) -> bytes:
    return _PREFIX + identifier.encode()


def _encode(prepared: PreparedTransaction, transaction: Transaction) -> bytes:
    head = orjson.dumps({
        "number": prepared.number, "at": prepared.prepared_at, "owner": prepared.owner,
        "database": prepared.database,
        "table_locks": [item for item in transaction.table_locks.items() if isinstance(item[0], int)],
        **({} if transaction.serial is None else {"serial": transaction.serial.to_json()}),
    })  # fmt: skip
    writes = Edits(transaction.writes).encode()
    locks: dict[bytes, bytes | None] = {}
    for name, modes in transaction.row_locks.items():
        assert isinstance(name, bytes)
        locks[name] = bytes((modes,))
    return b"".join((FORMAT, _LENGTH.pack(len(head)), head, _LENGTH.pack(len(writes)), writes, Edits(locks).encode()))


def _parts(key: bytes, value: bytes) -> tuple[PreparedTransaction, dict[str, Any], Edits, Edits]:
    """The parts of a row: its JSON, the writes and the row locks."""
    assert value[:1] == FORMAT
    place = 1 + _LENGTH.size
    end = place + _LENGTH.unpack_from(value, 1)[0]
    head = orjson.loads(value[place:end])
    place = end + _LENGTH.size
    after = place + _LENGTH.unpack_from(value, end)[0]
    identifier = key[len(_PREFIX) :].decode()
    prepared = PreparedTransaction(identifier, head["number"], head["at"], head["owner"], head["database"])
    return prepared, head, Edits.decode(value[place:after]), Edits.decode(value[after:])
