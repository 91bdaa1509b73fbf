"""One term as leader of a tablespace: entries come in by `submit` and go out by `on_committed`.

    submit -> gathered -> cut into an object -> PUT -> the committer's multi: check(epoch), set(head) -> on_committed
              `form`                 several at a time   (replication/log/committer.py)

**Group commit.** When nothing is on its way, what one turn of the loop submitted goes off as one object. While
something is, later entries gather. One multi is under way at a time, and carries the head over every object that is
stored by then; so with a quick store the next object is cut when the multi has ended: sooner it would only wait, and
those behind it would need another. Where many write, it is cut a moment later (`_gathers`): those who have just been
told come back with their next commits, and share the object and the multi. With other stores an object goes off when
the way to the store is free, when there is much to send (`eager_bytes`), or, with a slow store, when a part of its
usual answer time has passed: `max_puts` objects are on their way then, spread evenly.

**Bulk files** lie in the folder of the ledger whose entry refers to them, so they live and are dropped with it. A
ledger is not rolled while a file has been uploaded ahead of its entry.

**The end of a term.** Nothing is ever given up by itself: an entry is in the log, or certainly never will be, or its
clients are told that it is not known (`on_unknown`) until it is. States:

    leading     takes entries
    draining    takes none; what it has goes on (a clean hand-over), or was cut off at some entry
    resolving   the last multi's outcome is not known
    over        on_deposed has been called
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal

from catalog.durations import durations
from catalog.errors import SqlError
from replication.entry import MAX_BODY
from replication.interface import (
    Coordination,
    Epoch,
    Head,
    HeadObject,
    Ledger,
    LedgerList,
    ObjectExistsError,
    ObjectMissingError,
    StoreUnavailableError,
)
from replication.log.bulk import BulkFiles
from replication.log.groups import Group, GroupObject, Multi, Part, Submission
from replication.log.interface import Joint
from replication.log.layout import bulk_name, object_name
from replication.log.ledger_list import DeposedError, OwnedList
from replication.log.ledger_object import MAX_FILES, Position, encode_log_entry
from replication.log.ledgers import Ledgers, close_committed, open_next
from replication.log.settings import Clock, LogSettings, StoreOf

if TYPE_CHECKING:
    from replication.log.committer import Committer

log = logging.getLogger("shoal.log")

State = Literal["leading", "draining", "resolving", "over"]

QUICK_STORE = 1.0  # of a multi's time for a PUT, up to which an object is cut when the multi has ended
MANY = 4  # entries of a multi from which on the next object gathers for a moment more
GATHER = 0.75  # of a multi's time: for how long, at most
SLOW_STORE = 0.02  # seconds for a PUT from which on objects are spread over its time: a busy machine is no slow store
LEDGER_LIMIT = 16  # times its size: a ledger that waits for uploads is rolled nevertheless


@dataclass(frozen=True, slots=True)
class Term:
    """What a takeover has won (replication/log/takeover.py)."""

    tablespace: bytes
    epoch: Epoch
    epoch_version: int
    head: Head
    head_version: int
    listed: LedgerList  # the last one is open, and this term's
    listed_version: int


@dataclass(frozen=True, slots=True)
class Told:
    """Whom a term tells what becomes of its entries; see replication/log/interface.py, ReplicaEngine."""

    on_committed: Callable[[int], None]
    on_deposed: Callable[[int], None]
    on_unknown: Callable[[int], None]
    on_gone: Callable[[], None]  # in place of on_deposed: the log no longer tells where the term ended


_MULTIS = durations("shoal_changelog_multi_seconds")
_PUTS = durations("shoal_changelog_put_seconds")


class LeaderLog:
    """See the module's text; `Leader` in replication/log/interface.py. Everything on the loop's thread."""

    def __init__(
        self,
        term: Term,
        coordination: Coordination,
        committer: Committer,
        stores: StoreOf,
        bulk: BulkFiles,
        told: Told,
        *,
        settings: LogSettings,
        clock: Clock,
    ) -> None:
        self.tablespace = term.tablespace
        self.epoch = term.epoch
        self.epoch_version = term.epoch_version
        self.head = term.head
        self.head_version = term.head_version
        self.list = OwnedList(
            term.tablespace,
            term.epoch_version,
            term.listed,
            term.listed_version,
            coordination,
            settings,
            lambda: self.state == "over",
        )
        self.coordination = coordination
        self.state: State = "leading"
        self.lease_limit = float("inf")  # clock time from which on another may lead by max_leader_inactivity
        self.pending_bytes = 0
        self.pending: deque[Submission] = deque()
        self.groups: deque[Group] = deque()
        self.multi: Multi | None = None
        self.joints = 0  # among the pending
        self.store_url = term.listed.ledgers[-1].store
        self._committer = committer
        self._stores = stores
        self._bulk = bulk
        self._told = told
        self._settings = settings
        self._clock = clock
        self._submitted_lsn = self._formed_lsn = self._told_lsn = term.head.lsn
        self._chain = bytes.fromhex(term.head.hash)
        self._gathered = 0  # bytes of pending bodies
        self.ledger_sizes: dict[int, int] = {term.listed.ledgers[-1].ledger: 0}
        self._uploaded: dict[str, int] = {}  # bulk file -> the ledger in whose folder it is
        self._reserved: set[str] = set()
        self._puts: dict[GroupObject, asyncio.Task[None]] = {}
        self._put_bytes = 0
        self._put_seconds = 0.0  # smoothed
        self._multi_seconds = 0.0  # the same
        self._last_put = float("-inf")
        self._last_multi = float("-inf")  # when it ended
        self._carried = 0  # entries of the last multi
        self._called = False
        self._pace: asyncio.TimerHandle | None = None
        self._watchdog: asyncio.TimerHandle | None = None
        self._rolling: asyncio.Task[None] | None = None
        self._over = asyncio.Event()
        committer.add(self)

    # --- the engine's side ---------------------------------------------------------------------------------------

    @property
    def ledgers(self) -> Ledgers:
        """The newest of the list: the last one is open, and this term's."""
        return self.list.ledgers

    @property
    def leading(self) -> bool:
        return self.state == "leading"

    @property
    def committed_lsn(self) -> int:
        return self.head.lsn

    @property
    def position(self) -> Position:
        """Where the log ends, as far as it is known here."""
        return Position(self.head.lsn, bytes.fromhex(self.head.hash))

    @property
    def may_serve_until(self) -> float:
        if self.state != "leading":
            return float("-inf")
        return min(self.coordination.alive_until, self.lease_limit) - self._settings.lease_margin

    def submit(
        self,
        lsn: int,
        body: bytes,
        commit_time: int,
        schema_version: int,
        files: Sequence[str] = (),
        joint: Joint | None = None,
    ) -> None:
        if self.state != "leading":
            raise SqlError("40001", "this node no longer leads the tablespace", hint="Try the transaction again.")
        if lsn != self._submitted_lsn + 1:
            raise SqlError("XX000", f"changelog entry {lsn} does not follow {self._submitted_lsn}")
        if len(body) > MAX_BODY - (1 << 24) or len(files) > MAX_FILES:
            raise SqlError("54000", "transaction is too large for one changelog entry")
        self._submitted_lsn = lsn
        now = self._clock.monotonic()
        self.pending.append(Submission(lsn, body, commit_time, schema_version, files, joint, now))
        self.pending_bytes += len(body)
        self._gathered += len(body)
        if joint is not None:
            self.joints += 1
        if not self._called:
            self._called = True
            asyncio.get_running_loop().call_soon(self._end_of_turn)
        if self._watchdog is None:
            self._watch(self._settings.commit_timeout)

    def read(self, after: int) -> Iterator[tuple[int, int, bytes]]:
        """Nothing: a follower has applied everything up to the term's beginning."""
        return iter(())

    def retire(self, upto: int) -> None:
        """The log of a cluster is dropped by ledgers (replication/log/ledgers.py), when no replica needs it."""

    def bulk_path(self, name: str) -> str:
        return self._bulk.path(name)

    def bulk_names(self) -> list[str]:
        return self._bulk.names()

    def drop_bulk(self, name: str, lsn: int) -> None:
        self._reserved.discard(name)
        self._uploaded.pop(name, None)
        self._bulk.drop(name)

    async def upload(self, name: str) -> None:
        self._reserved.add(name)
        deadline = self._clock.monotonic() + self._settings.commit_timeout
        pause = self._settings.retry_pause
        while True:
            try:
                await self._bring(name, self.ledgers[-1])
                return
            except StoreUnavailableError:
                if self._clock.monotonic() + pause > deadline:
                    raise
            await asyncio.sleep(pause)
            pause = min(2 * pause, self._settings.max_retry_pause)

    def close(self) -> None:
        """At once, without telling anybody. Raises 58030 if something submitted is not committed: `drain` before."""
        left = self._submitted_lsn - self.head.lsn
        abandoned = self.state != "over" and left > 0
        self._finish()
        if abandoned:
            raise SqlError("58030", f"{left} entries are not known to be in the log")

    # --- the owner's side ----------------------------------------------------------------------------------------

    async def drain(self) -> None:
        """Takes no more entries, commits those that it has, and returns when the term is over."""
        if self.state == "leading":
            self.state = "draining"
            self.check_end()
        await self._over.wait()

    def move_to(self, store: str) -> None:
        """New ledgers lie in the store at this URL; one is opened at once, so that a member can leave an idle log."""
        if store != self.store_url:
            self.store_url = store
            if self.state == "leading" and not self._rolls():
                self.form()

    async def edit_ledgers(self, change: Callable[[Ledgers], Ledgers]) -> Ledgers:
        """Changes the newest part of the list under the epoch. Raises DeposedError; waits while there is no
        connection."""
        return await self.list.edit(change)

    # --- objects -------------------------------------------------------------------------------------------------

    def _end_of_turn(self) -> None:
        self._called = False
        self.form()

    def form(self) -> None:
        """Cuts objects from what has gathered, as far as the way to the store is free."""
        while self._may_form() and self._committer.form(self):
            pass

    def _may_form(self) -> bool:
        if not self.pending or self.state in ("resolving", "over") or self._rolls():
            return False
        if not self._puts:
            if self._put_seconds > QUICK_STORE * self._multi_seconds:
                return True
            return self.multi is None and not self._gathers()
        if len(self._puts) >= self._settings.max_puts or self._put_bytes >= self._settings.max_put_bytes:
            return False
        return self._gathered >= self._settings.eager_bytes or self._paced()

    def _gathers(self) -> bool:
        """Whether the next object waits for those whom the last multi has answered, if there were many: until as many
        entries are here again, or a part of a multi's usual time has passed."""
        if self._carried < MANY or len(self.pending) >= self._carried:
            return False
        return not self._has_come(self._last_multi + GATHER * self._multi_seconds)

    def _paced(self) -> bool:
        """Whether the last object went off long enough ago."""
        if self._put_seconds < SLOW_STORE:
            return False
        return self._has_come(self._last_put + self._put_seconds / self._settings.max_puts)

    def _has_come(self, moment: float) -> bool:
        """Whether it has; if not, sees to it that objects are formed then."""
        left = moment - self._clock.monotonic()
        if left <= 0:
            return True
        if self._pace is None:
            self._pace = asyncio.get_running_loop().call_later(left, self._form_again)
        return False

    def _form_again(self) -> None:
        self._pace = None
        self.form()

    @property
    def rolling(self) -> bool:
        return self._rolling is not None

    def cut(self, group: Group, *, everything: bool) -> None:
        """Makes objects of what is pending and adds them to the group: one, or of everything. Starts their PUTs."""
        objects = []
        while self.pending:
            objects.append(self._cut_one())
            if not everything:
                break
        group.parts[self] = objects
        self.groups.append(group)
        for item in objects:
            self._put_bytes += len(item.data)
            item.sent = self._send(item)
            self._puts[item] = asyncio.ensure_future(self._store(item, group))
        self._last_put = self._clock.monotonic()

    def _cut_one(self) -> GroupObject:
        """The next object: entries up to `group_bytes`, at least one."""
        first = self.pending[0]
        parts: list[bytes] = []
        files: list[str] = []
        size = 0
        last = first
        while self.pending and (size == 0 or size + len(self.pending[0].body) <= self._settings.group_bytes):
            last = self.pending.popleft()
            data, self._chain = encode_log_entry(
                last.lsn,
                last.body,
                last.commit_time,
                last.schema_version,
                last.files,
                self.head.lsn,
                self.epoch.epoch,
                self.tablespace,
                self._chain,
                last.joint,
            )
            parts.append(data)
            files += last.files
            size += len(last.body)
            self.joints -= last.joint is not None
        self._formed_lsn = last.lsn
        self._gathered -= size
        ledger = self.ledgers[-1].ledger
        item = HeadObject(ledger, first.lsn, last.lsn, secrets.token_hex(16))
        data = b"".join(parts)
        self.ledger_sizes[ledger] = total = self.ledger_sizes.get(ledger, 0) + len(data)
        name = object_name(self.tablespace, item)
        return GroupObject(item, name, data, tuple(files), self._chain, last.commit_time, size, total, first.at)

    def _send(self, item: GroupObject) -> Awaitable[None] | None:
        """The first try, on its way at once and not only when its task comes to run; None if files come before it."""
        if item.files:
            return None
        try:
            return self._stores(self._ledger_of(item).store).append(item.name, item.data)
        except SqlError:
            return None  # it fails again, where that is dealt with

    def _ledger_of(self, item: GroupObject) -> Ledger:
        return next(known for known in self.ledgers if known.ledger == item.item.ledger)

    async def _store(self, item: GroupObject, group: Group) -> None:
        """Brings an object to the store, and before it what it refers to; again and again until the group is given
        up, which is for the watchdog to decide."""
        pause = self._settings.retry_pause
        ledger = self._ledger_of(item)
        try:
            while not group.dropped:
                began = self._clock.monotonic()
                try:
                    for name in item.files:
                        await self._bring(name, ledger)
                        self._reserved.discard(name)
                    await self._put(item, ledger)
                    break
                except StoreUnavailableError as error:
                    log.warning("changelog object %s is not stored yet: %s", item.name, error)
                await asyncio.sleep(pause)
                pause = min(2 * pause, self._settings.max_retry_pause)
        except (SqlError, OSError) as error:
            log.error("changelog object %s cannot be stored: %s", item.name, error)
            self._put_ends(item)
            self._committer.cut_off(self, group)
            return
        self._put_ends(item)
        if group.dropped:
            return
        for name in item.files:
            self._uploaded.pop(name, None)
        seconds = self._clock.monotonic() - began
        _PUTS.add_seconds(seconds)
        self._put_seconds += (seconds - self._put_seconds) / 8
        item.stored = True
        self._committer.stored(group)

    def _put_ends(self, item: GroupObject) -> None:
        item.drop_sent()
        if self._puts.pop(item, None) is not None:
            self._put_bytes -= len(item.data)

    async def _put(self, item: GroupObject, ledger: Ledger) -> None:
        """Raises StoreUnavailableError, SqlError XX001 if another content has the name."""
        store = self._stores(ledger.store)
        try:
            await (item.take_sent() or store.append(item.name, item.data))
        except ObjectExistsError:
            try:
                found = await store.get(item.name)
            except ObjectMissingError:
                raise StoreUnavailableError(f"{store.url}: {item.name} is there and is not") from None
            if found != item.data:
                raise SqlError("XX001", f"{store.url} has another object {item.name}") from None

    async def _bring(self, name: str, ledger: Ledger) -> None:
        """Uploads a bulk file into the ledger's folder, unless it is there. Its name stands for its content."""
        if self._uploaded.get(name) == ledger.ledger:
            return
        # It may be there, of an upload whose reply was lost: stores show whole objects only.
        with contextlib.suppress(ObjectExistsError):
            await self._stores(ledger.store).put_file(
                bulk_name(self.tablespace, ledger.ledger, name), self._bulk.path(name)
            )
        self._uploaded[name] = ledger.ledger

    # --- rolling -------------------------------------------------------------------------------------------------

    def _rolls(self) -> bool:
        """Whether the next ledger is being opened: entries wait for it. Begins it when it is time."""
        if self._rolling is not None:
            return True
        size = self.ledger_sizes.get(self.ledgers[-1].ledger, 0)
        full = size >= self._settings.ledger_bytes and not self._reserved
        if not full and size < LEDGER_LIMIT * self._settings.ledger_bytes and self.store_url == self.ledgers[-1].store:
            return False
        self._rolling = asyncio.ensure_future(self._roll())
        return True

    async def _roll(self) -> None:
        """Opens the next ledger. What cannot be done is tried again until the commits that wait for it are given up,
        which ends the term."""
        pause = self._settings.retry_pause
        while self.state == "leading" or (self.state == "draining" and self.pending):
            try:
                await self.edit_ledgers(self._rolled)
                break
            except DeposedError:
                self._rolling = None
                self._committer.cut_off(self, None)
                self.check_end()
                return
            except Exception:
                log.exception("the next ledger of %s cannot be opened yet", self.tablespace.hex())
            await asyncio.sleep(pause)
            pause = min(2 * pause, self._settings.max_retry_pause)
        self._rolling = None
        self.ledger_sizes = {
            ledger.ledger: self.ledger_sizes.get(ledger.ledger, 0) for ledger in self.ledgers if ledger.last is None
        }
        self.form()
        self.check_end()

    def _rolled(self, ledgers: Ledgers) -> Ledgers:
        now = self._clock.wall()
        closed = close_committed(ledgers, self.head.lsn, self.ledger_sizes, now)
        return close_committed(
            open_next(closed, self.epoch.epoch, self._formed_lsn + 1, self.store_url),
            self.head.lsn,
            self.ledger_sizes,
            now,
        )

    # --- the committer's side ------------------------------------------------------------------------------------

    def holds(self, lsn: int) -> bool:
        """Whether the entry is pending."""
        return self._formed_lsn < lsn <= self._submitted_lsn and self.state in ("leading", "draining")

    def now(self) -> float:
        return self._clock.monotonic()

    def took(self, began: float) -> None:
        """A multi that began at that clock time has ended."""
        self._last_multi = self._clock.monotonic()
        _MULTIS.add_seconds(self._last_multi - began)
        self._multi_seconds += (self._last_multi - began - self._multi_seconds) / 8

    def advance(self, part: Part, version: int) -> None:
        """A multi has carried the head over its part."""
        if self.state == "over":
            return
        for _ in range(part.groups):
            self.groups.popleft()
        self._carried = part.head.lsn - self.head.lsn
        self.head, self.head_version = part.head, version
        self.pending_bytes -= sum(item.body_bytes for item in part.objects)

    def tell_committed(self) -> None:
        if self.state != "over":
            self._tell()
            self.check_end()

    def _tell(self) -> None:
        if self._told_lsn < self.head.lsn:
            self._told_lsn = self.head.lsn
            self._told.on_committed(self.head.lsn)

    def drop_pending(self) -> list[Submission]:
        """Nothing that has not been cut is to be committed; gives what it was."""
        dropped = list(self.pending)
        self.pending.clear()
        self._gathered = self.joints = 0
        return dropped

    def doubt(self) -> None:
        """The commits under way cannot be resolved for now."""
        if self.state in ("leading", "draining"):
            self.state = "resolving"

    def tell_unknown(self) -> None:
        self.doubt()
        self._told.on_unknown(self.head.lsn + 1)

    def check_end(self) -> None:
        """The term is over when it takes no more entries and nothing is left."""
        if self.state in ("draining", "resolving") and not (self.pending or self.groups or self.multi or self._rolling):
            self._tell()  # of a commit that has just been taken note of, while the next groups are cut
            self._finish()
            self._told.on_deposed(self.head.lsn)

    def tell_gone(self) -> None:
        if self.state != "over":
            self.multi = None
            self._finish()
            self._told.on_gone()

    def _finish(self) -> None:
        self.state = "over"
        self._over.set()
        self._committer.remove(self)
        for timer in (self._pace, self._watchdog):
            if timer is not None:
                timer.cancel()
        for task in (*self._puts.values(), self._rolling):
            if task is not None and task is not asyncio.current_task():
                task.cancel()
        for item in self._puts:
            item.drop_sent()  # its task will not: who is cancelled before its first step never runs
        self.pending.clear()
        self.groups.clear()

    # --- time ----------------------------------------------------------------------------------------------------

    def _watch(self, delay: float) -> None:
        self._watchdog = asyncio.get_running_loop().call_later(delay, self._look)

    def _look(self) -> None:
        """Whether the oldest commit has waited for `commit_timeout`."""
        self._watchdog = None
        if self.groups:
            oldest = self.groups[0].parts[self][0].oldest
        elif self.pending:
            oldest = self.pending[0].at
        else:
            return
        left = oldest + self._settings.commit_timeout - self._clock.monotonic()
        if left > 0.001:
            self._watch(left)
            return
        log.warning("commits from LSN %d on have waited for %g s", self.head.lsn + 1, self._settings.commit_timeout)
        asyncio.get_running_loop().call_soon(partial(self._committer.give_up, self))
