"""Several tablespaces of a node with the interface of one.

    Stores          `Node.store` from the second tablespace on; before, it is pg_default's Tablespace itself, so that a
                    node with one tablespace has no extra cost
    ObservedStores  the same for one transaction: it records where the transaction has read sequenced state
    CurrentStores   the newest durable state of all
    SequencedStores the same with sequenced commits that are not durable yet
    StoresSnapshot  a snapshot of all, taken at one moment

A key belongs to the tablespace for which `route` has registered its storage id (its first four bytes). All other keys
are in pg_default: the system tables, counters, sequences. The row that records the base of a leaning storage id is in
the tablespace of that id: `sequence` sends it there, and readers ask that tablespace. LSNs are positions and moments
(engine/storage/moments.py).

**Commits over several tablespaces** are one entry in each, connected by a Joint. Their changelogs report the parts one
after the other, in one turn of the loop. In between some tablespaces show the commit and others do not, so sessions are
informed only when all do (`_note_move`). Sessions run only when they are informed, or in turns of their own.

**A commit that depends on another tablespace's.** Locks are released when a commit is sequenced, so the next holder may
have read state that is not durable. In one changelog the order of the LSNs makes that safe. With several, the commit
gets a part, maybe empty, in each tablespace whose sequenced state it has read: so after a crash it cannot exist without
the commits that it depends on.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial

from catalog.errors import SqlError
from engine.storage import joints
from engine.storage.branch_storage import kept_id, leans, place_prefix
from engine.storage.edits import Edits
from engine.storage.interface import Joint
from engine.storage.keys import storage_prefix
from engine.storage.moments import MAX_SLOT, Lsn, Moment, lsn_in, position
from engine.storage.runs import BulkRun
from engine.storage.tablespace import Tablespace
from engine.storage.views import CurrentView, Snapshot

PREFIX = 4
MANY = 64  # number of commits over several tablespaces that are forgotten at once, or may run at a time


def not_here() -> SqlError:
    return SqlError(
        "57P03",
        "the tablespace is not on this node at the moment",
        hint="shoal_replicas shows which nodes hold it. Retry in a moment, or connect to one of them.",
    )


class _Nowhere:
    """Represents a tablespace that this node does not have."""

    def get(self, key: bytes) -> bytes | None:
        raise not_here()

    def scan(self, low: bytes, high: bytes, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        raise not_here()


NOWHERE = _Nowhere()


class _Outstanding:
    """A commit over several tablespaces that is not durable yet; `left` parts do not show it."""

    __slots__ = ("left", "parts")

    def __init__(self, parts: int) -> None:
        self.parts = self.left = parts

    def moved(self) -> int:
        """One part more shows it. Returns the change of the number of commits that only some parts show."""
        self.left -= 1
        return (1 if self.left == self.parts - 1 else 0) - (1 if self.left == 0 else 0)


class KeptJoints:
    """The recent commits over several tablespaces, in the order of their LSNs: the LSN of each part by slot."""

    def __init__(self) -> None:
        self._joints: list[Mapping[int, int]] = []
        self._upto: list[Moment] = []  # for each the LSNs of it and of all before it

    def add(self, parts: Mapping[int, int]) -> None:
        """Adds one. If its parts are applied one by one, they come here once each: that counts as one."""
        if len(parts) < 2 or parts in self._joints[-MANY:]:
            return
        last = self._upto[-1].lsns if self._upto else ()
        slots = range(max(len(last), *(slot + 1 for slot in parts)))
        lsns = (max(parts.get(slot, 0), last[slot] if slot < len(last) else 0) for slot in slots)
        self._joints.append(parts)
        self._upto.append(Moment(tuple(lsns)))

    def forget(self, upto: Moment) -> None:
        """Forgets those that are wholly before a moment."""
        gone = self._place(upto)
        if gone > MANY:
            del self._joints[:gone], self._upto[:gone]

    def undo_above(self, slot: int, lsn: int) -> None:
        """Removes those that were undone."""
        kept = [parts for parts in self._joints if parts.get(slot, 0) <= lsn]
        if len(kept) < len(self._joints):
            self._joints, self._upto = [], []
            for parts in kept:
                self.add(parts)

    def whole(self, moment: Moment) -> Moment:
        """The moment, moved so that each of them is visible whole or not at all; pg_default's LSN stays."""
        found: list[Mapping[int, int]] = []
        open_slots = {slot for slot, lsn in enumerate(moment.lsns)}
        for parts in self._joints[self._place(moment) :]:
            found.append(parts)
            open_slots.difference_update(slot for slot, lsn in parts.items() if lsn > moment.of(slot))
            if not open_slots:
                break  # in none of them a later one is within the moment
        if not found:
            return moment
        ends = joints.whole(dict(enumerate(moment.lsns)), 0, found)
        return Moment(tuple(ends[slot] for slot in range(len(moment.lsns))))

    def _place(self, moment: Moment) -> int:
        """The number of commits, from the first, that are wholly within a moment."""
        return bisect_left(self._upto, True, key=lambda upto: not moment >= upto)


class Stores:
    """All tablespaces of a node; see the module's docstring. Lives on the engine's thread."""

    def __init__(self, first: Tablespace) -> None:
        self.slots: dict[bytes, int] = {}  # storage id -> slot, except pg_default's
        self.views: dict[bytes, CurrentView | _Nowhere] = {}  # storage id -> newest durable state, except pg_default's
        self.spaces: list[Tablespace | None] = []  # by slot; None: dropped
        self._guarded: dict[int, Callable[[], SqlError]] = {}  # by slot
        self._came: set[int] = set()  # slots of tablespaces that had rows when this node got them
        self.gone: dict[bytes, int] = {}
        """The slots of those that were dropped, by id."""
        self._callbacks: list[list[Callable[[int], None]]] = []
        self._durable: list[int] = []
        self._outstanding: list[deque[tuple[int, _Outstanding]]] = []
        self._half = 0  # commits that some of their tablespaces show, and others not yet
        self._news: set[int] = set()
        self.noted: KeptJoints | None = None
        """The commits over several tablespaces, while there are readers of the past."""
        self.durable_lsn = Moment(())
        self.add(first)
        self.current = CurrentStores(self, first)
        """The newest durable state, for statements that run to their end at once."""

    # --- which tablespaces -------------------------------------------------------------------------------------

    def add(self, space: Tablespace, came: bool = False) -> int:
        """Adds a tablespace; returns its slot. Callbacks of its `on_durable` stay. `came`: it is older than this
        moment, so older snapshots, which do not have it, cannot be read there."""
        slot = len(self.spaces)
        if slot >= MAX_SLOT:
            raise SqlError("54000", "this node has seen too many tablespaces: restart it")
        if came:
            self._came.add(slot)
        space.slot = slot
        self.spaces.append(space)
        self._outstanding.append(deque())
        self._durable.append(space.durable_lsn)
        self._callbacks.append(space.divert_durable(partial(self._note_move, slot)))
        self.durable_lsn = Moment(tuple(self._durable))
        return slot

    def remove(self, space: Tablespace) -> None:
        """Removes a dropped tablespace: it is empty, and nothing refers to it any more."""
        self.gone[space.tablespace_id] = space.slot
        self.spaces[space.slot] = None
        self._callbacks[space.slot] = []
        self._guarded.pop(space.slot, None)
        for prefix in [prefix for prefix, slot in self.slots.items() if slot == space.slot]:
            del self.slots[prefix], self.views[prefix]

    def add_gone(self, identity: bytes) -> None:
        """Adds a tablespace that was dropped before the start, and whose history can be read."""
        self.gone[identity] = len(self.spaces)
        self.spaces.append(None)
        self._outstanding.append(deque())
        self._durable.append(0)
        self._callbacks.append([])
        self.durable_lsn = Moment(tuple(self._durable))

    def leave(self, space: Tablespace) -> None:
        """Other nodes keep the tablespace, and this one gives it up: reads and writes of it end with 57P03."""
        self.spaces[space.slot] = None
        self._callbacks[space.slot] = []
        self._guarded.pop(space.slot, None)
        for prefix in [prefix for prefix, slot in self.slots.items() if slot == space.slot]:
            self.slots[prefix], self.views[prefix] = MAX_SLOT, NOWHERE

    def route(self, storage_id: int, space: Tablespace | None) -> None:
        """From now on keys under this storage id, and under its bases, belong to the tablespace, which is not
        pg_default; None: one that this node lacks."""
        found = [storage_id]
        if leans(storage_id):
            found += [kept_id(storage_id), *(() if space is None else space.leaning.chain(storage_id))]
        for prefix in map(storage_prefix, found):
            self.slots[prefix] = MAX_SLOT if space is None else space.slot
            self.views[prefix] = NOWHERE if space is None else space.current

    def guard(self, space: Tablespace, error: Callable[[], SqlError]) -> None:
        """Until `reopen`, reads of sequenced state of this tablespace, and writes, end with the error: this node does
        not lead it. Reads of durable state are not affected."""
        self._guarded[space.slot] = error

    def reopen(self, space: Tablespace) -> None:
        """Undoes `guard`."""
        self._guarded.pop(space.slot, None)

    def check_open(self, slot: int) -> None:
        """Raises 57P03 for a tablespace that this node lacks."""
        if slot == MAX_SLOT:
            raise not_here()

    def of(self, storage_id: int) -> Tablespace:
        """The tablespace of a storage id."""
        return self._of(storage_id.to_bytes(PREFIX, "big"))

    def _of(self, key: bytes) -> Tablespace:
        return self.space(self.slots.get(key[:PREFIX], 0))

    def open_spaces(self) -> list[Tablespace]:
        return [space for space in self.spaces if space is not None]

    @property
    def came(self) -> Collection[int]:
        """See `add`."""
        return self._came

    def usable(self) -> list[Tablespace]:
        """The tablespaces that are here and not guarded, pg_default first."""
        return [space for space in self.open_spaces() if space.slot not in self._guarded]

    # --- writing -----------------------------------------------------------------------------------------------

    @property
    def sequenced_lsn(self) -> Moment:
        return Moment(tuple(0 if space is None else space.sequenced_lsn for space in self.spaces))

    def slots_of(self, keys: Iterable[bytes]) -> set[int]:
        """The slots of the tablespaces of the keys."""
        return {self.slots.get(prefix, 0) for prefix in set(map(place_prefix, keys))}

    def scan_known(self, low: bytes, high: bytes) -> Iterator[tuple[bytes, bytes]]:
        """The known state of a range: the newest if this node leads, otherwise the durable one."""
        if self.slots.get(low[:PREFIX], 0) not in self._guarded:
            yield from self.scan_newest(low, high)
            return
        with self.snapshot() as snapshot:
            yield from snapshot.scan(low, high)

    def sequence(
        self,
        edits: Edits,
        commit_time: int,
        schema_version: int,
        runs: Sequence[BulkRun] = (),
        observed: Collection[int] = (),
        everywhere: bool = False,
        concerned: Collection[int] = (),
    ) -> int:
        """As Tablespace.sequence, for edits of any tablespaces; returns the position of one of its parts. `runs`:
        replaces those of `edits`, which do not name their tablespace. `observed`: slots of the tablespaces that the
        commit depends on (see the module's docstring). `everywhere`: it gets a part in all that are `usable`.
        `concerned`: slots of further ones that get a part."""
        parts = self._split(edits, runs)
        for space in self.usable() if everywhere else ():
            parts.setdefault(space.slot, Edits())
        for slot in observed:
            if slot not in parts and (space := self.space(slot)).sequenced_lsn > space.durable_lsn:
                parts[slot] = Edits()
        for slot in concerned:
            parts.setdefault(slot, Edits())
        spaces = [(slot, self._get_led(slot)) for slot in sorted(parts)]
        if len(spaces) == 1:
            slot, space = spaces[0]
            return position(slot, space.sequence(parts[slot], commit_time, schema_version))
        for _, space in spaces:
            if space.failure is not None:
                raise SqlError("58030", f"storage has failed: {space.failure}")
            space.check_takes_entries()
        joint = Joint(
            tuple(space.tablespace_id for _, space in spaces), tuple(space.sequenced_lsn + 1 for _, space in spaces)
        )
        if self.noted is not None:
            self.noted.add({slot: lsn for (slot, _), lsn in zip(spaces, joint.lsns, strict=True)})
        outstanding = _Outstanding(len(spaces))
        for number, (slot, space) in enumerate(spaces):
            space.tied = commit_time
            try:
                lsn = space.sequence(parts[slot], commit_time, schema_version, joint)
            except BaseException as error:
                if number:
                    space.fail(error)  # the parts before it would wait without end
                raise
            self._outstanding[slot].append((lsn, outstanding))
        return position(spaces[0][0], joint.lsns[0])

    def space(self, slot: int) -> Tablespace:
        """The tablespace of a slot. Raises 57P03."""
        space = self.spaces[slot] if slot < len(self.spaces) else None
        if space is None:
            raise not_here()
        return space

    def _get_led(self, slot: int) -> Tablespace:
        """As `space`, for operations of the leader only."""
        if slot in self._guarded:
            raise self._guarded[slot]()
        return self.space(slot)

    def _split(self, edits: Edits, runs: Sequence[BulkRun]) -> dict[int, Edits]:
        """The edits of each tablespace, by slot."""
        slots = self.slots
        parts: dict[int, Edits] = {}

        def part(prefix: bytes) -> Edits:
            slot = slots.get(prefix, 0)
            found = parts.get(slot)
            if found is None:
                found = parts[slot] = Edits()
            return found

        for key, value in edits.writes.items():
            part(place_prefix(key)).writes[key] = value
        for storage_id in edits.drops:
            part(storage_id.to_bytes(PREFIX, "big")).drops.append(storage_id)
        for run in runs:
            part((run.first_key or b"")[:PREFIX]).runs.append(run.reference)
        return parts or {0: edits}

    def applied_together(self, parts: Iterable[tuple[bytes, int]]) -> None:
        """A commit of another node over several tablespaces, by id, is applied here."""
        if self.noted is not None:
            slots = {space.tablespace_id: space.slot for space in self.open_spaces()}
            self.noted.add({slots[identity]: lsn for identity, lsn in parts if identity in slots})

    def on_durable(self, callback: Callable[[int], None], slot: int = 0) -> None:
        """`callback(durable LSN)` is called when the durable LSN of a tablespace has moved, and no commit is partly
        visible."""
        self._callbacks[slot].append(callback)

    def _note_move(self, slot: int, lsn: int) -> None:
        """A tablespace's durable LSN has moved."""
        self._durable[slot] = lsn
        self._news.add(slot)
        outstanding = self._outstanding[slot]
        while outstanding and outstanding[0][0] <= lsn:
            self._half += outstanding.popleft()[1].moved()
        if self._half:
            return  # the other parts follow in this turn
        self.durable_lsn = Moment(tuple(self._durable))
        news, self._news = self._news, set()
        for number in sorted(news):
            for callback in list(self._callbacks[number]):
                callback(self._durable[number])

    # --- reading -----------------------------------------------------------------------------------------------

    def newest(self, key: bytes) -> tuple[int, bytes | None] | None:
        """As Tablespace.newest; the LSN as a position."""
        slot = self.slots.get(key[:PREFIX], 0)
        found = self._get_led(slot).newest(key)
        if found is None or slot == 0:
            return found
        return position(slot, found[0]), found[1]

    def all_new(self, keys: Sequence[bytes]) -> bool:
        """As Tablespace.all_new."""
        by_slot: dict[int, list[bytes]] = {}
        for key in keys:
            by_slot.setdefault(self.slots.get(key[:PREFIX], 0), []).append(key)
        return all(self._get_led(slot).all_new(some) for slot, some in by_slot.items())

    def unchanged_since(self, keys: Sequence[bytes], at: Lsn) -> bool:
        """As Tablespace.unchanged_since."""
        by_slot: dict[int, list[bytes]] = {}
        for key in keys:
            by_slot.setdefault(self.slots.get(key[:PREFIX], 0), []).append(key)
        return all(self._get_led(slot).unchanged_since(some, lsn_in(slot, at)) for slot, some in by_slot.items())

    def scan_newest(self, low: bytes, high: bytes, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        return self._get_led(self.slots.get(low[:PREFIX], 0)).scan_newest(low, high, reverse)

    def snapshot(self) -> StoresSnapshot:
        """A view of all tablespaces at the durable moment, which does not change."""
        return StoresSnapshot(self, [None if space is None else space.snapshot() for space in self.spaces])

    def undo_above(self, lsn: int, slot: int = 0) -> None:
        """As Tablespace.undo_above, of one tablespace."""
        space = self.spaces[slot]
        assert space is not None
        outstanding = self._outstanding[slot]
        while outstanding and outstanding[-1][0] > lsn:
            outstanding.pop()
        if self.noted is not None:
            self.noted.undo_above(slot, lsn)
        space.undo_above(lsn)

    def learn_bases(self) -> None:
        """As Tablespace.learn_bases, of all of them."""
        for space in self.open_spaces():
            space.learn_bases()

    # --- flushing ----------------------------------------------------------------------------------------------

    def flush(self, done: Callable[[], None] | None = None, failed: Callable[[SqlError], None] | None = None) -> None:
        """As Tablespace.flush, of all of them; `failed` may be called several times."""
        spaces = self.open_spaces()
        left = len(spaces)

        def flushed() -> None:
            nonlocal left
            left -= 1
            if left == 0 and done is not None:
                done()

        for space in spaces:
            space.flush(flushed, failed)


def close_together(spaces: Sequence[Tablespace]) -> None:
    """Closes tablespaces whose commits may have parts in several of them. Raises 58030 after closing all."""
    with ExitStack() as closing:
        for space in spaces:
            closing.callback(space.close)
        for space in spaces:
            with suppress(SqlError):  # closing it raises it again
                space.close_changelog()


class CurrentStores:
    """The newest durable state, always; a storage.interface.Reader."""

    __slots__ = ("_first", "_stores", "_views")

    def __init__(self, stores: Stores, first: Tablespace) -> None:
        self._stores = stores
        self._first = first.current
        self._views = stores.views

    @property
    def lsn(self) -> Moment:
        return self._stores.durable_lsn

    def get(self, key: bytes) -> bytes | None:
        return self._views.get(key[:PREFIX], self._first).get(key)

    def scan(self, low: bytes, high: bytes, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        """Keys in [low, high), which lie within one storage id."""
        return self._views.get(low[:PREFIX], self._first).scan(low, high, reverse)


class SequencedStores:
    """Rows as of a moment that may not be durable, for a transaction that has met such rows; valid within one turn of
    the loop. Its commit depends on every tablespace that it reads in this way."""

    __slots__ = ("_observed", "_stores", "_views", "lsn")

    def __init__(self, stores: Stores, observed: set[int], lsn: Lsn) -> None:
        self._stores = stores
        self._observed = observed
        self._views: dict[int, CurrentView] = {}
        self.lsn = lsn

    def _view(self, key: bytes) -> CurrentView:
        slot = self._stores.slots.get(key[:PREFIX], 0)
        view = self._views.get(slot)
        if view is None:
            space = self._stores.space(slot)
            view = self._views[slot] = space.view(max(lsn_in(slot, self.lsn), space.durable_lsn))
            if view.lsn > space.durable_lsn:
                self._observed.add(slot)
        return view

    def get(self, key: bytes) -> bytes | None:
        return self._view(key).get(key)

    def scan(self, low: bytes, high: bytes, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        """Keys in [low, high), which lie within one storage id."""
        return self._view(low).scan(low, high, reverse)


class StoresSnapshot:
    """Rows as of one moment; close it. A tablespace that is younger than the moment is invisible in it."""

    __slots__ = ("_parts", "_slots", "_stores", "lsn")

    def __init__(self, stores: Stores, parts: list[Snapshot | None]) -> None:
        self._stores = stores
        self._slots = stores.slots
        self._parts = parts
        self.lsn = Moment(tuple(0 if part is None else part.lsn for part in parts))

    def _part(self, key: bytes) -> Snapshot | None:
        slot = self._slots.get(key[:PREFIX], 0)
        if slot:
            self._stores.check_open(slot)
        if slot < len(self._parts):
            part, space = self._parts[slot], self._stores.spaces[slot]
            if slot and part is not None and space is not None:
                space.check_sees_all(part.lsn)
            return part
        if slot in self._stores.came:
            raise SqlError("40001", "the tablespace has come to this node since the snapshot was taken", hint="Retry.")
        return None

    def get(self, key: bytes) -> bytes | None:
        part = self._part(key)
        return None if part is None else part.get(key)

    def scan(self, low: bytes, high: bytes, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        """Keys in [low, high), which lie within one storage id."""
        part = self._part(low)
        return iter(()) if part is None else part.scan(low, high, reverse)

    def again(self) -> StoresSnapshot:
        """Another snapshot of the same moment, which is closed separately."""
        shared: list[Snapshot | None] = []
        for part, space in zip(self._parts, self._stores.spaces, strict=False):
            if part is not None and space is None:
                raise SqlError("40001", "a tablespace has left this node since the snapshot was taken", hint="Retry.")
            shared.append(None if part is None or space is None else space.share(part))
        return type(self)(self._stores, shared)

    def close(self) -> None:
        """Releases its resources; it may be closed twice."""
        for part in self._parts:
            if part is not None:
                part.close()

    def __enter__(self) -> StoresSnapshot:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class PastSnapshot(StoresSnapshot):
    """A snapshot of a past moment: a change of leader does not affect it."""

    __slots__ = ()

    def _part(self, key: bytes) -> Snapshot | None:
        slot = self._slots.get(key[:PREFIX], 0)
        if slot:
            self._stores.check_open(slot)
        return self._parts[slot] if slot < len(self._parts) else None


class ObservedStores:
    """The view of a transaction: Stores, with a record of the slots where it has read sequenced state."""

    __slots__ = ("_stores", "concerned", "observed")

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self.observed: set[int] = set()
        self.concerned: Collection[int] = ()  # slots of tablespaces in which its commit has a part in any case

    @property
    def current(self) -> CurrentStores:
        return self._stores.current

    @property
    def durable_lsn(self) -> Moment:
        return self._stores.durable_lsn

    @property
    def sequenced_lsn(self) -> Moment:
        return self._stores.sequenced_lsn

    def view(self, lsn: Lsn) -> SequencedStores:
        """As Tablespace.view, of all of them."""
        return SequencedStores(self._stores, self.observed, lsn)

    def of(self, storage_id: int) -> Tablespace:
        space = self._stores.of(storage_id)
        self.observed.add(space.slot)
        return space

    def newest(self, key: bytes) -> tuple[int, bytes | None] | None:
        self.observed.add(self._stores.slots.get(key[:PREFIX], 0))
        return self._stores.newest(key)

    def all_new(self, keys: Sequence[bytes]) -> bool:
        self.observed.update(self._stores.slots.get(key[:PREFIX], 0) for key in keys)
        return self._stores.all_new(keys)

    def unchanged_since(self, keys: Sequence[bytes], at: Lsn) -> bool:
        self.observed.update(self._stores.slots.get(key[:PREFIX], 0) for key in keys)
        return self._stores.unchanged_since(keys, at)

    def scan_newest(self, low: bytes, high: bytes, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        self.observed.add(self._stores.slots.get(low[:PREFIX], 0))
        return self._stores.scan_newest(low, high, reverse)

    def snapshot(self) -> StoresSnapshot:
        return self._stores.snapshot()

    def share(self, snapshot: Snapshot | StoresSnapshot) -> StoresSnapshot:
        """Another snapshot of the same moment, which is closed separately."""
        if isinstance(snapshot, Snapshot):  # from the time of a single tablespace
            return self.adopt(self._stores.of(0).share(snapshot))
        return snapshot.again()

    def adopt(self, snapshot: Snapshot) -> StoresSnapshot:
        """Takes over a snapshot from the time of a single tablespace."""
        return StoresSnapshot(self._stores, [snapshot])


AnyStore = Tablespace | Stores
"""The store of a node: one tablespace, or several."""
