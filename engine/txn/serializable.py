"""SERIALIZABLE: snapshot isolation with detection of dangerous structures (Cahill, Röhm, Fekete: "Serializable
Isolation for Snapshot Databases"; PostgreSQL's src/backend/storage/lmgr/README-SSI and predicate.c, with the same
rules).

    T1 --rw--> T2     T1 has read a row that a concurrent T2 has written or writes later: T1 precedes T2 in any serial
                      order. A cycle of such orders always contains T1 --rw--> T2 --rw--> T3, where T3 commits first:
                      then one of the three ends with 40001, if possible the pivot T2, so that a retry succeeds

    reads     keys, and ranges of keys, of tables and of indexes, as the row path reads them from its snapshot
              (`Tracked`); the columnar path reads whole tables. Kept after COMMIT while a concurrent transaction runs
    writes    keys, recorded after each statement, and whole tables of bulk writers. A new key in a range that was read
              is a conflict, so phantoms are found without locks on gaps

Reads and writes are compared key by key. PostgreSQL also uses pages and tables, so more transactions without a real
conflict fail there. A commit that is sequenced but not durable is invisible to a reader, so it counts as concurrent
with a snapshot that does not show it. If two such commits are in different tablespaces, either may become visible
first: either may count as the first to commit (`may_precede`).

All state is in memory of the leader: transactions that write or are SERIALIZABLE run there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from catalog.errors import SqlError
from engine.storage.moments import SLOT_SHIFT

if TYPE_CHECKING:
    from engine.storage.moments import Lsn
    from engine.txn.transaction import Transaction

PREFIX_BYTES = 4  # of a key: its storage id


def failure(reason: str) -> SqlError:
    """The error 40001 in PostgreSQL's words."""
    return SqlError(
        "40001",
        "could not serialize access due to read/write dependencies among transactions",
        detail=f"Reason code: Canceled on {reason}.",
        hint="The transaction might succeed if retried.",
    )


class SerializableSpace:
    """The SERIALIZABLE transactions of a node, and those that ended while concurrent ones run. `ticks` orders
    snapshots, preparations and commits."""

    def __init__(self) -> None:
        self._transactions: dict[Serial, None] = {}
        self._ticks = 0
        self._watched: list[Safety] = []

    def tick(self) -> int:
        self._ticks += 1
        return self._ticks

    def add(self, serial: Serial) -> None:
        self._transactions[serial] = None

    def others(self, serial: Serial) -> Iterator[Serial]:
        """The transactions that are concurrent with one."""
        for other in self._transactions:
            if other is not serial and other.overlaps(serial):
                yield other

    def watch_safety(self, lsn: Lsn) -> Safety:
        """Tracks the safety of a snapshot that is taken now, until `watch_no_more`."""
        safety = Safety(self._transactions, lsn, self.tick())
        self._watched.append(safety)
        return safety

    def watch_no_more(self, safety: Safety) -> None:
        self._watched.remove(safety)

    def note_end(self, serial: Serial) -> None:
        """A transaction is committed, or rolled back."""
        for safety in list(self._watched):
            safety.note_end(serial)

    def forget(self, serial: Serial) -> None:
        """It is rolled back: its reads and writes do not matter."""
        self._transactions.pop(serial, None)
        self.note_end(serial)
        for other in serial.ins:
            other.outs.discard(serial)
        for other in serial.outs:
            other.ins.discard(serial)
        self.prune()

    def prune(self) -> None:
        """Forgets committed transactions without concurrent ones. A transaction that begins before a commit is durable
        does not see it, and is concurrent with it."""
        active = [item for item in self._transactions if not item.committed]
        for item in [item for item in self._transactions if item.committed]:
            if item.durable and not any(other.overlaps(item) for other in active):
                del self._transactions[item]


class Safety:
    """Whether transactions that only read one snapshot can be part of a dangerous structure. The snapshot is safe if no
    concurrent transaction commits that has written, and has read a row whose later writer's commit the snapshot shows.
    `left`: the transactions whose end is not known yet."""

    def __init__(self, transactions: Iterable[Serial], lsn: Lsn, tick: int) -> None:
        self._lsn = lsn
        self._tick = tick
        self._decided: Callable[[], None] | None = None
        self.holds = True
        self.left: set[Serial] = set()
        for serial in transactions:
            if serial.committed and not self._shows(serial):
                self._judge(serial)
            elif not (serial.committed or serial.doomed or serial.declared_read_only):
                self.left.add(serial)

    def when_decided(self, call: Callable[[], None]) -> None:
        """Calls back when it is decided; at once if it is."""
        self._decided = call
        self._tell()

    def note_end(self, serial: Serial) -> None:
        """A transaction is committed, or rolled back."""
        if serial in self.left:
            self.left.discard(serial)
            self._judge(serial)
            self._tell()

    def _judge(self, serial: Serial) -> None:
        if serial.committed and not serial.read_only and any(map(self._shows, serial.outs)):
            self.holds = False

    def _shows(self, serial: Serial) -> bool:
        return 0 < serial.committed <= self._tick and (not serial.lsn or bool(serial.lsn <= self._lsn))

    def _tell(self) -> None:
        if self._decided is not None and not (self.holds and self.left):
            self._decided()


class Serial:
    """The reads, writes and conflicts of one transaction: `ins` have read rows that it writes; it has read rows that
    `outs` write. `began`, `prepared`, `committed` are ticks, 0 before."""

    __slots__ = (
        "_durable_then", "_points", "_ranges", "_space", "_transaction", "_written", "began", "committed", "doomed",
        "ins", "lsn", "outs", "prepared", "read_only", "sees_nothing", "wrote",
    )  # fmt: skip

    def __init__(self, space: SerializableSpace, transaction: Transaction) -> None:
        self._space = space
        self._transaction = transaction
        self._points: set[bytes] = set()
        self._ranges: set[tuple[bytes, bytes]] = set()
        self._written: set[bytes] = set()  # keys, and storage ids alone for whole tables
        self.began = self.prepared = self.committed = 0
        self.lsn = 0
        self._durable_then: Lsn = 0  # the time of its commit
        self.doomed = self.wrote = self.read_only = False
        self.sees_nothing = False  # its snapshot is closed
        self.ins: set[Serial] = set()
        self.outs: set[Serial] = set()

    @property
    def process_id(self) -> int:
        return self._transaction.process_id

    @property
    def declared_read_only(self) -> bool:
        return self._transaction.read_only

    def overlaps(self, other: Serial) -> bool:
        """Whether neither had committed, visibly to the other, when the other took its snapshot."""
        return not (self._precedes(other) or other._precedes(self))

    def _precedes(self, other: Serial) -> bool:
        if not self.committed or not other.began or self.committed > other.began:
            return False
        return not self.lsn or bool(self.lsn <= other._transaction.snapshot_lsn)

    def may_precede(self, other: Serial) -> bool:
        """Whether it may be the first of the two to commit, as snapshots show them; it is prepared itself."""
        if not other.committed or self.prepared <= other.committed:
            return True
        apart = self.lsn >> SLOT_SHIFT != other.lsn >> SLOT_SHIFT
        return bool(apart and other.lsn and not other.lsn <= self._durable_then)

    @property
    def durable(self) -> bool:
        """Whether every new snapshot shows its commit."""
        return not self.lsn or bool(self.lsn <= self._transaction.store.durable_lsn)

    # ---- statements -------------------------------------------------------------------------------------------------

    def track(self, base: Any) -> Any:
        """The transaction has taken its snapshot. Returns the tracked view for its reads."""
        self.began = self._space.tick()
        self._space.add(self)
        return Tracked(base, self)

    def check(self) -> None:
        """Raises 40001 if another transaction's commit has made this one a pivot."""
        self.read_only = self._transaction.read_only
        if self.doomed:
            raise failure("identification as a pivot, during conflict out checking")

    def read_key(self, key: bytes) -> None:
        """Raises 40001."""
        if key in self._points:
            return
        self.check()
        self._read(lambda other: other.has_written(key))
        self._points.add(key)  # unless that failed: the statement may run again, and must fail again

    def read_range(self, low: bytes, high: bytes) -> None:
        """[low, high). Raises 40001."""
        if (low, high) in self._ranges:
            return
        self.check()
        self._read(lambda other: other.has_written_in(low, high))
        self._ranges.add((low, high))

    def read_tables(self, storage_ids: Iterable[int]) -> None:
        """Whole tables. Raises 40001."""
        for storage_id in storage_ids:
            self.read_range(storage_id.to_bytes(PREFIX_BYTES, "big"), (storage_id + 1).to_bytes(PREFIX_BYTES, "big"))

    def _read(self, meets: Any) -> None:
        for other in list(self._space.others(self)):
            if other.doomed or other in self.outs or not meets(other):
                continue
            if self.read_only and other.committed and not other.is_pivot_before(self.began):
                continue  # a transaction that only reads appears to run before the other
            self._conflict(self, other)

    def wrote_since(self, mark: int, storage_ids: Iterable[int] = ()) -> None:
        """A statement has written the keys after the mark, and these tables and indexes in bulk. Raises 40001."""
        keys = self._transaction.written_since(mark)
        keys += [storage_id.to_bytes(PREFIX_BYTES, "big") for storage_id in storage_ids]
        new = [key for key in keys if key not in self._written]
        if not new:
            return
        self.check()
        self.wrote = True
        self._written_conflicts(new)
        self._written.update(new)

    def would_write(self, storage_ids: Iterable[int]) -> None:
        """A key that the statement would write into one of these tables or indexes exists already. The recorded readers
        decide whether it fails for that reason or for a dependency. Raises 40001."""
        self.check()
        self._written_conflicts([storage_id.to_bytes(PREFIX_BYTES, "big") for storage_id in storage_ids])

    def _written_conflicts(self, keys: list[bytes]) -> None:
        for other in list(self._space.others(self)):
            if other.doomed or other in self.ins:
                continue
            if any(other.has_read(key) and self._follows(other, key) for key in keys):
                self._conflict(other, self)

    def _follows(self, reader: Serial, key: bytes) -> bool:
        """Whether the write of a key may directly follow the version that the reader has seen. If another version is
        between them, its writer is the one that follows the reader. (LSNs are exact for versions that an open snapshot
        does not show: a committed reader has none.)"""
        if len(key) == PREFIX_BYTES or reader.committed or reader.sees_nothing:
            return True
        newest = self._transaction.store.newest(key)
        return newest is None or not newest[0] > reader._transaction.snapshot_lsn

    def has_written(self, key: bytes) -> bool:
        return key in self._written or key[:PREFIX_BYTES] in self._written

    def has_written_in(self, low: bytes, high: bytes) -> bool:
        return any(
            low <= key < high or (len(key) == PREFIX_BYTES and key == low[:PREFIX_BYTES]) for key in self._written
        )

    def has_read(self, key: bytes) -> bool:
        if len(key) == PREFIX_BYTES:
            following = (int.from_bytes(key, "big") + 1).to_bytes(PREFIX_BYTES, "big")
            return any(key <= point < following for point in self._points) or any(
                low < following and high > key for low, high in self._ranges
            )
        return key in self._points or any(low <= key < high for low, high in self._ranges)

    # ---- conflicts --------------------------------------------------------------------------------------------------

    def is_pivot_before(self, tick: int) -> bool:
        """Whether it is committed and has read a row that a transaction has written which committed before it, and
        before a tick."""
        return any(out.committed and out.may_precede(self) and out.committed <= tick for out in self.outs)

    def _conflict(self, reader: Serial, writer: Serial) -> None:
        """Adds an edge from reader to writer, one of which is this transaction
        (OnConflict_CheckForSerializationFailure). Raises 40001 without the edge if this one has to end; marks another
        one that has to end."""
        if _writer_is_pivot(reader, writer) or _reader_is_pivot(reader, writer):
            if writer is self:
                raise failure("identification as a pivot, during write")
            if writer.prepared:
                raise failure("conflict out to pivot, during read")
            writer.doomed = True
        reader.outs.add(writer)
        writer.ins.add(reader)

    # ---- the end ----------------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Before COMMIT (PreCommit_CheckForSerializationFailure). Raises 40001."""
        self.read_only = self._transaction.read_only
        if self.doomed:
            raise failure("identification as a pivot, during commit attempt")
        for near in self.ins:
            if near.committed or near.doomed:
                continue
            if any(far is self or not (far.committed or far.read_only or far.doomed) for far in near.ins):
                if near.prepared:  # by PREPARE TRANSACTION: it may not fail any more
                    raise failure("commit attempt with conflict in from prepared pivot")
                near.doomed = True
        self.prepared = self._space.tick()

    # ---- PREPARE TRANSACTION ----------------------------------------------------------------------------------------

    def leave_session(self) -> None:
        """It is prepared, and has no snapshot any more."""
        self.sees_nothing = True

    def to_json(self) -> dict[str, Any]:
        """What `restore` has to know."""
        return {
            "points": [key.hex() for key in self._points],
            "ranges": [(low.hex(), high.hex()) for low, high in self._ranges],
            "written": [key.hex() for key in self._written],
            "read_only": self.read_only,
        }

    @classmethod
    def restore(cls, space: SerializableSpace, transaction: Transaction, stored: dict[str, Any]) -> Serial:
        """One that was prepared before this node led. Its conflicts are forgotten: so one transaction counts as having
        read what it has written, and another as having written what it has read and committed first
        (predicatelock_twophase_recover)."""
        made = cls(space, transaction)
        made._points = set(map(bytes.fromhex, stored["points"]))
        made._ranges = {(bytes.fromhex(low), bytes.fromhex(high)) for low, high in stored["ranges"]}
        made._written = set(map(bytes.fromhex, stored["written"]))
        made.read_only, made.wrote = stored["read_only"], bool(made._written)
        before, after = cls(space, transaction), cls(space, transaction)
        after.prepared = after.committed = made.began = made.prepared = space.tick()
        made.ins, made.outs = {before}, {after}
        made.leave_session()
        space.add(made)
        return made

    def commit(self, lsn: int) -> None:
        """It is sequenced at this position (0: it wrote nothing)."""
        self.committed = self._space.tick()
        self._durable_then = self._transaction.store.durable_lsn
        self.lsn = lsn
        self.read_only = self.read_only or not self.wrote
        self._space.note_end(self)
        self._space.prune()

    def abort(self) -> None:
        """It is rolled back."""
        if not self.committed:
            self._space.forget(self)


def _writer_is_pivot(reader: Serial, writer: Serial) -> bool:
    """reader --> writer --> t2, where t2 was the first to commit."""
    if writer.committed and any(t2.committed and t2.may_precede(writer) for t2 in writer.outs):
        return True
    return any(
        t2.prepared
        and t2.may_precede(reader)
        and t2.may_precede(writer)
        and (not reader.read_only or t2.prepared <= reader.began)
        for t2 in writer.outs
    )


def _reader_is_pivot(reader: Serial, writer: Serial) -> bool:
    """t0 --> reader --> writer, where the writer was the first to commit."""
    if not writer.prepared or reader.read_only:
        return False
    return any(
        not t0.doomed and writer.may_precede(t0) and (not t0.read_only or t0.began >= writer.prepared)
        for t0 in reader.ins
    )


class Tracked:
    """A snapshot that records its reads."""

    __slots__ = ("_base", "_serial")

    def __init__(self, base: Any, serial: Serial) -> None:
        self._base = base
        self._serial = serial

    def get(self, key: bytes) -> bytes | None:
        self._serial.read_key(key)
        found: bytes | None = self._base.get(key)
        return found

    def scan(self, low: bytes, high: bytes, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        self._serial.read_range(low, high)
        found: Iterator[tuple[bytes, bytes]] = self._base.scan(low, high, reverse)
        return found
