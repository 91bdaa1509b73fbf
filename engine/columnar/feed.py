"""The changes that each of the worker's tables lacks.

    reached   the LSN up to which the worker has received a table's changes (W)
    D         the durable LSN: a query reads this state
    S         the LSN of a transaction: D for READ COMMITTED, its snapshot's for REPEATABLE READ

Before a query, its tables are brought to D: the worker gets each key that has changed in (W, D], once, with its value
as of D. If the query reads at S < D, or its transaction has written, an *overlay* is sent with it: the keys that have
changed in (S, D], with their values for the transaction, and its own writes. All of this happens in one turn of the
event loop, so one D holds for all tables of a query.

The tablespace knows the keys that have changed since an LSN while a snapshot of that LSN is open. So the feed holds one
snapshot (the *hold*) at the smallest W. After PUSH_LSNS commits or PUSH_SECONDS (client.py measures the time) it moves
the hold to D, and adds every changed key to the `pending` of its table. That is one pass over the keys for all tables,
with a few thousand keys in each turn of the event loop (`settle`). With several tablespaces, W, D and S are LSNs of the
table's own, and there is a hold in each tablespace with such tables. Keys are sent with the next query of the table, or
when there are many. A delta of a few keys costs the worker as much as one of hundreds, so it does not get every commit,
and a query never sends more than PUSH_KEYS.

**Loading.** The worker reads LMDB at a flushed LSN F that the engine does not choose. F is at least the flushed LSN at
the start, and at most D at the end. Changes after the start are recorded until the worker returns F, and changes after
F are sent with their values as of D. A storage id with bases is read together with them, and until it is loaded,
changes of a base count as its own. A load waits until bulk runs are flushed, because if LMDB has a part of
their rows, adding the run is as slow as a second build.

**Bulk runs** (COPY, large DML) are not sent key by key. The worker gets the run's file, under a second name so that a
flush does not remove it, or already has its columns (drafts.py). It applies the run before the keys: a key that changed
before or after the run is sent with its value as of D.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Protocol

from catalog.errors import SqlError
from catalog.schema import Table
from engine.storage.branch_storage import leans
from engine.storage.keys import PREFIX_BYTES, prefix_range, storage_prefix
from engine.storage.moments import Lsn, lsn_in
from engine.storage.runs import BulkRun
from engine.txn.interface import READ_COMMITTED
from engine.txn.statement_view import StatementView
from engine.txn.transaction import Transaction

if TYPE_CHECKING:
    from engine.columnar.drafts import KeptRun
    from engine.storage.stores import AnyStore
    from engine.storage.tablespace import Tablespace
    from engine.storage.views import Snapshot

PUSH_LSNS = 500
PUSH_SECONDS = 1.0
PUSH_KEYS = 2_500  # pending keys of one table that are sent without waiting for a query, so many in a turn: some 3 ms
STEP_KEYS = 5_000  # changed keys that are given to their tables in one turn of the loop: a millisecond or two

Changes = dict[bytes, bytes | None]


class RunKeeper(Protocol):
    """Keeps bulk runs for the worker (drafts.py)."""

    def keep(self, path: str) -> KeptRun | None:
        """A kept copy of a bulk run's file, for after the store has merged and removed the file. None if that is not
        possible."""

    def release(self, kept: KeptRun) -> None:
        """Called when the worker no longer needs the run."""


class FedTable:
    """One table in the worker. `built`: it was read as a whole, because the worker had no copy to update. While it is
    being loaded, `ready` is False, and `early` has the changes with their LSNs, because LMDB may already contain them.
    `unwanted`: it is dropped when it is loaded."""

    __slots__ = (
        "built",
        "early",
        "loaded",
        "pending",
        "reached",
        "ready",
        "runs",
        "saved",
        "store",
        "table",
        "unwanted",
    )

    def __init__(self, table: Table, store: Tablespace) -> None:
        self.table = table
        self.store = store
        self.reached = store.flushed_lsn
        self.pending: dict[bytes, None] = {}  # keys in the order in which they have changed
        self.early: list[tuple[int, bytes]] = []
        self.runs: list[tuple[int, KeptRun]] = []  # with their LSNs: bulk runs to be applied first, oldest first
        self.built = self.ready = False
        self.loaded: int | None = None  # when, in microseconds since 2000-01-01 UTC
        self.saved: tuple[int, int, int | None] | None = None  # LSN, rows and bytes on the disk, when it was last saved
        self.unwanted = False

    def note(self, changes: Iterable[tuple[int, bytes]]) -> None:
        """Adds LSNs and keys of changes."""
        if self.ready:
            self.pending.update((key, None) for _, key in changes)
        else:
            self.early.extend(changes)

    def serves(self, table: Table) -> bool:
        """Whether the worker's table has every column of `table`, with the same type and the same value in older rows,
        and equal layouts where both have them. After a rolled back change, the numbers of columns and layouts may have
        another meaning."""
        if table is self.table:
            return True
        held = {column.number: (column.type, column.missing) for column in self.table.columns}
        known = min(len(table.layouts), len(self.table.layouts))
        return (
            self.table.key_columns == table.key_columns
            and self.table.layouts[:known] == table.layouts[:known]
            and all(held.get(column.number) == (column.type, column.missing) for column in table.columns)
        )


class Feed:
    """The feed of one worker. Used on the engine's thread."""

    def __init__(self, store: AnyStore, keeper: RunKeeper) -> None:
        self.store = store
        self._keeper = keeper
        self.tables: dict[int, FedTable] = {}
        self._holds: dict[Tablespace, Snapshot] = {}

    # ---- which tables -------------------------------------------------------------------------------------------

    def begin_load(self, table: Table) -> FedTable:
        """Starts to record every change of this table. The worker may read LMDB at any later time."""
        store = self.store.of(table.storage_id)
        fed = FedTable(table, store)
        before = self.tables.get(table.storage_id)
        for _, kept in before.runs if before is not None else ():
            self._keeper.release(kept)
        self.tables[table.storage_id] = fed
        self.collect(fed)
        if store not in self._holds:
            self._holds[store] = store.hold()
        return fed

    def forget(self, storage_id: int) -> None:
        """Called when the worker no longer has this table."""
        fed = self.tables.pop(storage_id, None)
        if fed is None:
            return
        for _, kept in fed.runs:
            self._keeper.release(kept)
        if all(other.store is not fed.store for other in self.tables.values()):
            self._let_go(fed.store)

    def clear(self) -> None:
        """Called when the worker has no tables any more."""
        self.tables.clear()
        for store in list(self._holds):
            self._let_go(store)

    # ---- changes ------------------------------------------------------------------------------------------------

    def collect(self, *tables: FedTable) -> None:
        """Moves the changes of these tables up to D into `runs` and `pending`. `reached` is then D."""
        behind: dict[Tablespace, dict[bytes, FedTable]] = {}
        for fed in tables:
            if fed.reached < fed.store.durable_lsn:
                behind.setdefault(fed.store, {})[storage_prefix(fed.table.storage_id)] = fed
        for store, some in behind.items():
            durable = store.durable_lsn
            for lsn, changed in store.commits_between(min(fed.reached for fed in some.values()), durable):
                self._give(some, lsn, changed)
            for fed in some.values():
                self._collect_bases(fed, durable)
                fed.reached = durable

    def _collect_bases(self, fed: FedTable, durable: int) -> None:
        """Collects the changes of bases, which count as those of a storage id until it is loaded."""
        storage_id = fed.table.storage_id
        if fed.ready or not leans(storage_id):
            return
        own = storage_prefix(storage_id)
        for base in fed.store.leaning.chain(storage_id):
            changes = fed.store.changed_since(base, fed.reached, durable)
            fed.note((lsn, own + key[PREFIX_BYTES:]) for lsn, key in changes)

    def _give(self, tables: Mapping[bytes, FedTable], lsn: int, changed: Sequence[bytes] | BulkRun) -> None:
        """Adds the keys of one commit, or one of its bulk runs, to the tables that lack them."""
        if isinstance(changed, BulkRun):
            for prefix in changed.prefixes():
                fed = tables.get(prefix)
                if fed is not None and fed.reached < lsn:
                    self._give_run(fed, lsn, changed)
            return
        find = tables.get
        for key in changed:
            fed = find(key[:PREFIX_BYTES])
            if fed is not None and fed.reached < lsn:
                if fed.ready:
                    fed.pending[key] = None
                else:
                    fed.early.append((lsn, key))

    def _give_run(self, fed: FedTable, lsn: int, run: BulkRun) -> None:
        storage_id = fed.table.storage_id
        if self.tables.get(storage_id, fed) is not fed:
            return  # forgotten meanwhile
        kept = self._keeper.keep(run.path)
        if kept is not None:
            fed.runs.append((lsn, kept))
        else:
            fed.note((lsn, key) for key, _ in run.scan(*prefix_range(storage_prefix(storage_id))))

    def note_loaded(self, storage_id: int, lsn: int) -> None:
        """Called when the worker has built the table from LMDB as of `lsn`. Bulk runs up to it are no longer needed."""
        fed = self.tables[storage_id]
        self.collect(fed)
        fed.ready = True
        fed.note((at, key) for at, key in fed.early if at > lsn)
        fed.early = []
        for at, kept in fed.runs:
            if at <= lsn:
                self._keeper.release(kept)
        fed.runs = [(at, kept) for at, kept in fed.runs if at > lsn]

    def delta(self, fed: FedTable, whole: bool = True) -> tuple[list[KeptRun], list[tuple[bytes, bytes | None]]]:
        """The changes that the worker's table lacks as of D, which count as sent from now on: bulk runs, to be applied
        first and in order, and keys with their values. If not everything is wanted, some keys remain in `pending`.
        Until they are sent, the table has the state of no LSN, and no query reads it."""
        self.collect(fed)
        runs, fed.runs = fed.runs, []
        kept_runs = [kept for _, kept in runs]
        if not fed.pending:
            return kept_runs, []
        get = fed.store.current.get
        # In the order of keys, as LMDB and the row path have it: rows without a key keep the order of their INSERTs.
        if whole or len(fed.pending) <= PUSH_KEYS:
            keys, fed.pending = sorted(fed.pending), {}
        else:
            keys = sorted(islice(fed.pending, PUSH_KEYS))
            for key in keys:
                del fed.pending[key]
        return kept_runs, [(key, get(key)) for key in keys]

    @property
    def late_since(self) -> int | None:
        """The commit time of the oldest change that was not sent, in microseconds since 2000-01-01 UTC. None if there
        is none, or its time is no longer known."""
        times = [store.time_of(hold.lsn + 1) for store, hold in self._holds.items() if hold.lsn < store.durable_lsn]
        return min((time for time in times if time is not None), default=None)

    @property
    def behind(self) -> int:
        """The number of LSNs between the holds and D, which the tablespaces keep in memory for the feed."""
        return sum(store.durable_lsn - hold.lsn for store, hold in self._holds.items())

    def settle(self) -> Generator[None, None, None]:
        """Collects the changes of all tables, and moves the holds to the present D. It is a generator for several turns
        of the loop. A step reads at most STEP_KEYS keys, except for single writes of a commit with bulk runs. A query
        may collect changes in between; they are then collected twice, which is harmless."""
        for store, hold in list(self._holds.items()):
            if hold.lsn < store.durable_lsn:
                yield from self._settle_store(store, hold)

    def _settle_store(self, store: Tablespace, hold: Snapshot) -> Generator[None, None, None]:
        younger = store.hold()
        try:
            tables = {storage_prefix(number): fed for number, fed in self.tables.items() if fed.store is store}
            for fed in tables.values():
                if not fed.ready and leans(fed.table.storage_id):
                    self.collect(fed)
            looked = bulk = 0
            for lsn, changed in store.commits_between(hold.lsn, younger.lsn):
                if isinstance(changed, BulkRun):
                    bulk = lsn
                    self._give(tables, lsn, changed)
                    continue
                step = len(changed) if lsn == bulk else STEP_KEYS  # its runs must not be collected without its keys
                for start in range(0, len(changed), step or 1):
                    part = changed[start : start + step]
                    if looked and looked + len(part) > STEP_KEYS and lsn != bulk:
                        yield
                        if self._holds.get(store) is not hold:
                            return  # no table is left
                        looked = 0
                    looked += len(part)
                    self._give(tables, lsn, part)
                if lsn == bulk:
                    for fed in tables.values():
                        fed.reached = max(fed.reached, lsn)
            for fed in tables.values():
                fed.reached = max(fed.reached, younger.lsn)
            self._holds[store], younger = younger, hold
        finally:
            younger.close()

    @property
    def due(self) -> list[FedTable]:
        """The tables with enough changes to be sent now."""
        return [fed for fed in self.tables.values() if fed.ready and (fed.runs or len(fed.pending) >= PUSH_KEYS)]

    def _let_go(self, store: Tablespace) -> None:
        hold = self._holds.pop(store, None)
        if hold is not None:
            hold.close()

    # ---- what one query sees on top -----------------------------------------------------------------------------

    def read_lsn(self, reader: object) -> Lsn:
        """S of a reader: a Transaction, a Snapshot, or the store's current view."""
        if isinstance(reader, Transaction):
            return self.store.durable_lsn if reader.isolation == READ_COMMITTED else reader.snapshot_lsn
        lsn = getattr(reader, "lsn", None)
        if not isinstance(lsn, Lsn):
            raise SqlError("XX000", f"a columnar query cannot read from {type(reader).__name__}")
        return lsn

    def overlay(self, table: Table, reader: object) -> tuple[list[str], Changes]:
        """The differences between the reader's state and the worker's table at D: files of its own bulk runs, oldest
        first, and over them keys with the reader's values.
        """
        changes: Changes = {}
        store = self.tables[table.storage_id].store
        lsn = lsn_in(store.slot, self.read_lsn(reader))
        store.check_sees_all(lsn)
        if lsn < store.durable_lsn:
            get = reader.get  # type: ignore[attr-defined]
            for _, key in store.changed_since(table.storage_id, lsn):
                changes[key] = get(key)
        if isinstance(reader, (Transaction, StatementView)):
            prefix = storage_prefix(table.storage_id)
            changes.update(own_writes(reader.written_items(), prefix))
            return [run.path for run in reader.runs if run.has(prefix)], changes
        return [], changes


def own_writes(writes: Iterable[tuple[bytes, bytes | None]], prefix: bytes) -> Iterator[tuple[bytes, bytes | None]]:
    """The writes of a transaction to one storage id."""
    return (item for item in writes if item[0][:4] == prefix)
