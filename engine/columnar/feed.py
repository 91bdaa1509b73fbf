"""What each of the worker's tables still lacks.

    reached   the LSN up to which the worker has been sent a table's changes (W)
    D         the durable LSN: what a query reads now
    S         the LSN that a transaction reads at; D for READ COMMITTED, its snapshot's for REPEATABLE READ

Before a query, its tables are brought to D: the keys that changed in (W, D], each once, with their values as of D. If
the query reads at S < D, or its transaction has written, an *overlay* goes with it: the keys that changed in (S, D],
with their values as the transaction sees them, and its own writes. All of this happens in one turn of the event loop,
so one D holds for all tables of a query.

The tablespace answers "which keys changed since" from memory as long as a snapshot is open that is as old. So the feed
holds one snapshot (the *hold*) at the smallest W, and moves it to D after PUSH_LSNS commits or PUSH_SECONDS (client.py
keeps the time) by noting every changed key in the `pending` of its table: one pass over the keys, whatever tables there
are, a few thousand keys in each turn of the event loop (`settle`). Where there are several tablespaces, W, D and S
are LSNs of the table's own, and there is a hold in each that has tables here. Keys are sent with the next query of the
table, or when they have become many: a delta of a few costs the worker as much as one of hundreds, so it is not
bothered with every commit, and a query never has to catch up with more than PUSH_KEYS.

Loading: LMDB is read by the worker at some flushed LSN F that the engine does not choose. F is at least the flushed LSN
when loading began, and no more than D when it has ended: what changed after the former is noted until the worker tells
F, and what changed after F is sent with its value as of D. A storage id that leans on others is read with them, and
until it is loaded their changes count as its own. Bulk runs that are not flushed yet are waited for: where LMDB has
some of their rows already, adding the run to them is as slow as building the table twice.

Bulk runs (COPY, large DML) do not pass through here key by key: the worker gets the run's file, under a name of its own
so that a flush cannot take it away, or has columns of it already (drafts.py), and applies it before the keys: a key
that changed before or after the run comes with its value as of D in any case.
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
    """What keeps bulk runs for the worker (drafts.py)."""

    def keep(self, path: str) -> KeptRun | None:
        """What stays of a bulk run's file when the store has merged and removed it; None where that cannot be done."""

    def release(self, kept: KeptRun) -> None:
        """The worker does not need it any more."""


class FedTable:
    """One table in the worker. `built`: it was read as a whole, since the worker had no copy that could be brought up.
    `ready` is False while it is being loaded: until then `early` has what would be pending, with its LSN, because LMDB
    may turn out to have it. `unwanted`: it is forgotten once it is loaded."""

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
        """Takes LSNs and keys of changes."""
        if self.ready:
            self.pending.update((key, None) for _, key in changes)
        else:
            self.early.extend(changes)

    def serves(self, table: Table) -> bool:
        """Whether the worker's table has every column of `table`, with the same type and the same value in older rows,
        and reads rows of every layout that both know alike: a change that was undone may have used the numbers of
        columns and layouts for something else."""
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
    """Lives on the engine's thread, as the tablespace does."""

    def __init__(self, store: AnyStore, keeper: RunKeeper) -> None:
        self.store = store
        self._keeper = keeper
        self.tables: dict[int, FedTable] = {}
        self._holds: dict[Tablespace, Snapshot] = {}

    # ---- which tables -------------------------------------------------------------------------------------------

    def begin_load(self, table: Table) -> FedTable:
        """From now on every change of this table is remembered. The worker may read LMDB any time later."""
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
        """The worker no longer has this table."""
        fed = self.tables.pop(storage_id, None)
        if fed is None:
            return
        for _, kept in fed.runs:
            self._keeper.release(kept)
        if all(other.store is not fed.store for other in self.tables.values()):
            self._let_go(fed.store)

    def clear(self) -> None:
        """The worker has nothing any more."""
        self.tables.clear()
        for store in list(self._holds):
            self._let_go(store)

    # ---- changes ------------------------------------------------------------------------------------------------

    def collect(self, *tables: FedTable) -> None:
        """Moves the changes of these tables up to D into `runs` and `pending`; `reached` is then D."""
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
        """Until a storage id that leans on others is loaded, their changes count as its own."""
        storage_id = fed.table.storage_id
        if fed.ready or not leans(storage_id):
            return
        own = storage_prefix(storage_id)
        for base in fed.store.leaning.chain(storage_id):
            changes = fed.store.changed_since(base, fed.reached, durable)
            fed.note((lsn, own + key[PREFIX_BYTES:]) for lsn, key in changes)

    def _give(self, tables: Mapping[bytes, FedTable], lsn: int, changed: Sequence[bytes] | BulkRun) -> None:
        """Notes the keys of one commit, or one of its bulk runs, for the tables that they are of and that lack it."""
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
        """The worker has built the table from LMDB as of `lsn`; bulk runs up to it are of no use any more."""
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
        """Everything that the worker's table lacks as of D, which counts as sent from now on: bulk runs, to be applied
        first and in order, and keys with their values. Where that is not wanted as a whole, some keys stay in
        `pending`: until they are sent the table is none of any moment, and no query reads it."""
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
        """The commit time of the oldest change that no table has been told of, in microseconds since 2000-01-01 UTC;
        None if there is none, or it is no longer known."""
        times = [store.time_of(hold.lsn + 1) for store, hold in self._holds.items() if hold.lsn < store.durable_lsn]
        return min((time for time in times if time is not None), default=None)

    @property
    def behind(self) -> int:
        """LSNs between the holds and D: what the tablespaces keep in memory for our sake."""
        return sum(store.durable_lsn - hold.lsn for store, hold in self._holds.items())

    def settle(self) -> Generator[None, None, None]:
        """Collects for all tables, and moves the holds to what D is now. To be read on in later turns of the loop: each
        step looks at no more than STEP_KEYS keys, but for those that a commit has written beside its bulk runs. What a
        query collects in between it collects once more, which changes nothing."""
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
        """The tables that have enough to be sent to the worker now."""
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
        """What the reader sees otherwise than the worker's table at D does: files of its own bulk runs, oldest first,
        and over them keys with what it sees under them.

        Raises 72000 for a reader so old that the tablespace no longer knows what has changed since, 40001 for one from
        a time when another node led it.
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
            changes.update(own_writes(reader.writes.items(), prefix))
            return [run.path for run in reader.runs if run.has(prefix)], changes
        return [], changes


def own_writes(writes: Iterable[tuple[bytes, bytes | None]], prefix: bytes) -> Iterator[tuple[bytes, bytes | None]]:
    """Those writes of a transaction that are rows of one storage id."""
    return (item for item in writes if item[0][:4] == prefix)
