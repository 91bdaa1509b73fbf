"""The log of one term as leader of a tablespace: `submit` accepts entries, `on_committed` reports them as committed.

    submit -> gathered -> cut into an object -> PUT -> the committer's multi: check(epoch), set(head) -> on_committed
              `form_objects`         several at a time   (replication/log/committer.py)

**Group commit.** When no commit is running, the entries of one turn of the loop go into one object. Otherwise later
entries gather. One multi runs at a time, and moves the head after every object that is stored by then. With a quick
store the next object is cut when the multi has ended: earlier it would only wait, and later entries would need another
object. If many sessions write, it is cut a moment later (`_is_gathering`), because sessions whose commits have just
been acknowledged send their next ones, which then share the object and the multi. With other stores an object is cut
when no PUT is running, when many bytes are pending (`eager_bytes`), or, with a slow store, when a part of its usual
answer time has passed; so `max_puts` PUTs run at a time, spread evenly.

**Bulk files** are in the folder of the ledger whose entry refers to them, so they are dropped with the ledger. A ledger
is not rolled while a file has been uploaded before its entry.

**The end of a term.** Every entry is in the log, or certainly never will be, or its outcome is unknown for now and its
clients get that error (`on_unknown`). States:

    leading     accepts entries
    draining    accepts no entries; commits the ones that it has (a clean hand-over), or those before a cut
    resolving   the outcome of the last multi is not known
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
from replication.log.groups import CommitGroup, GroupObject, HeadUpdate, Multi, Submission
from replication.log.interface import MultiTablespaceCommit
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
    """A term as leader at its beginning (replication/log/takeover.py)."""

    tablespace: bytes
    epoch: Epoch
    epoch_version: int
    head: Head
    head_version: int
    listed: LedgerList  # the last one is open, and this term's
    listed_version: int


@dataclass(frozen=True, slots=True)
class CommitNotification:
    """The callbacks by which a term reports the fate of its entries to ReplicaEngine (replication/log/interface.py)."""

    on_committed: Callable[[int], None]
    on_deposed: Callable[[int], None]
    on_unknown: Callable[[int], None]
    on_lost: Callable[[], None]  # in place of on_deposed: the log no longer shows where the term ended


_MULTIS = durations("shoal_changelog_multi_seconds")
_PUTS = durations("shoal_changelog_put_seconds")


class LeaderLog:
    """`Leader` of replication/log/interface.py. Everything on the loop's thread."""

    def __init__(
        self,
        term: Term,
        coordination: Coordination,
        committer: Committer,
        stores: StoreOf,
        bulk: BulkFiles,
        notification: CommitNotification,
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
        self.lease_limit = float("inf")  # clock time from which on another node may lead by max_leader_inactivity
        self.pending_bytes = 0
        self.pending: deque[Submission] = deque()
        self.groups: deque[CommitGroup] = deque()
        self.multi: Multi | None = None
        self.joints = 0  # among the pending
        self.store_url = term.listed.ledgers[-1].store
        self._committer = committer
        self._stores = stores
        self._bulk = bulk
        self._notification = notification
        self._settings = settings
        self._clock = clock
        self._submitted_lsn = self._formed_lsn = self._notified_lsn = term.head.lsn
        self._chain = bytes.fromhex(term.head.hash)
        self._gathered_bytes = 0  # bytes of pending bodies
        self.ledger_sizes: dict[int, int] = {term.listed.ledgers[-1].ledger: 0}
        self._uploaded: dict[str, int] = {}  # bulk file -> the ledger of its folder
        self._reserved: set[str] = set()
        self._puts: dict[GroupObject, asyncio.Task[None]] = {}
        self._put_bytes = 0
        self._put_seconds = 0.0  # smoothed
        self._multi_seconds = 0.0  # the same
        self._last_put = float("-inf")
        self._last_multi = float("-inf")  # when it ended
        self._multi_entries = 0  # entries of the last multi
        self._is_turn_scheduled = False
        self._object_timer: asyncio.TimerHandle | None = None
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
        """The end of the log, as far as it is known here."""
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
        joint: MultiTablespaceCommit | None = None,
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
        self._gathered_bytes += len(body)
        if joint is not None:
            self.joints += 1
        if not self._is_turn_scheduled:
            self._is_turn_scheduled = True
            asyncio.get_running_loop().call_soon(self._end_of_turn)
        if self._watchdog is None:
            self._schedule_timeout_check(self._settings.commit_timeout)

    def read(self, after: int) -> Iterator[tuple[int, int, bytes]]:
        """No entries, because a follower has applied everything up to the term's beginning."""
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
                await self._upload_bulk(name, self.ledgers[-1])
                return
            except StoreUnavailableError:
                if self._clock.monotonic() + pause > deadline:
                    raise
            await asyncio.sleep(pause)
            pause = min(2 * pause, self._settings.max_retry_pause)

    def close(self) -> None:
        """Closes at once, without notifications. Raises 58030 if a submitted entry is not committed: `drain` before."""
        left = self._submitted_lsn - self.head.lsn
        abandoned = self.state != "over" and left > 0
        self._finish()
        if abandoned:
            raise SqlError("58030", f"{left} entries are not known to be in the log")

    # --- the owner's side ----------------------------------------------------------------------------------------

    async def drain(self) -> None:
        """Accepts no more entries, commits those that it has, and returns when the term is over."""
        if self.state == "leading":
            self.state = "draining"
            self.finish_if_drained()
        await self._over.wait()

    def move_to_store(self, store: str) -> None:
        """New ledgers are in the store at this URL; one is opened at once, so that a member can leave an idle log."""
        if store != self.store_url:
            self.store_url = store
            if self.state == "leading" and not self._is_rolling():
                self.form_objects()

    async def edit_ledgers(self, change: Callable[[Ledgers], Ledgers]) -> Ledgers:
        """Changes the newest part of the list under the epoch. Raises DeposedError; waits while there is no
        connection."""
        return await self.list.edit(change)

    # --- objects -------------------------------------------------------------------------------------------------

    def _end_of_turn(self) -> None:
        self._is_turn_scheduled = False
        self.form_objects()

    def form_objects(self) -> None:
        """Cuts objects from the pending entries, as many as may be sent to the store now."""
        while self._may_form_object() and self._committer.cut_group(self):
            pass

    def _may_form_object(self) -> bool:
        if not self.pending or self.state in ("resolving", "over") or self._is_rolling():
            return False
        if not self._puts:
            if self._put_seconds > QUICK_STORE * self._multi_seconds:
                return True
            return self.multi is None and not self._is_gathering()
        if len(self._puts) >= self._settings.max_puts or self._put_bytes >= self._settings.max_put_bytes:
            return False
        return self._gathered_bytes >= self._settings.eager_bytes or self._is_put_due()

    def _is_gathering(self) -> bool:
        """Whether the next object waits for more entries, because the last multi acknowledged many: until as many
        entries are pending again, or a part of a multi's usual time has passed."""
        if self._multi_entries < MANY or len(self.pending) >= self._multi_entries:
            return False
        return not self._is_due(self._last_multi + GATHER * self._multi_seconds)

    def _is_put_due(self) -> bool:
        """Whether the last PUT began long enough ago for the next one."""
        if self._put_seconds < SLOW_STORE:
            return False
        return self._is_due(self._last_put + self._put_seconds / self._settings.max_puts)

    def _is_due(self, moment: float) -> bool:
        """Whether the clock time has come; if not, schedules `form_objects` for then."""
        left = moment - self._clock.monotonic()
        if left <= 0:
            return True
        if self._object_timer is None:
            self._object_timer = asyncio.get_running_loop().call_later(left, self._on_object_due)
        return False

    def _on_object_due(self) -> None:
        self._object_timer = None
        self.form_objects()

    @property
    def rolling(self) -> bool:
        return self._rolling is not None

    def cut_objects(self, group: CommitGroup, *, everything: bool) -> None:
        """Makes objects of the pending entries and adds them to the group: one, or all. Starts their PUTs."""
        objects = []
        while self.pending:
            objects.append(self._cut_object())
            if not everything:
                break
        group.parts[self] = objects
        self.groups.append(group)
        for item in objects:
            self._put_bytes += len(item.data)
            item.sent = self._send(item)
            self._puts[item] = asyncio.ensure_future(self._store(item, group))
        self._last_put = self._clock.monotonic()

    def _cut_object(self) -> GroupObject:
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
        self._gathered_bytes -= size
        ledger = self.ledgers[-1].ledger
        item = HeadObject(ledger, first.lsn, last.lsn, secrets.token_hex(16))
        data = b"".join(parts)
        self.ledger_sizes[ledger] = total = self.ledger_sizes.get(ledger, 0) + len(data)
        name = object_name(self.tablespace, item)
        return GroupObject(item, name, data, tuple(files), self._chain, last.commit_time, size, total, first.at)

    def _send(self, item: GroupObject) -> Awaitable[None] | None:
        """Sends the first try at once, because its task starts only in the next turn of the loop; None if the object's
        files have to be stored before it."""
        if item.files:
            return None
        try:
            return self._stores(self._ledger_of(item).store).append(item.name, item.data)
        except SqlError:
            return None  # the task tries again, and handles the error

    def _ledger_of(self, item: GroupObject) -> Ledger:
        return next(known for known in self.ledgers if known.ledger == item.item.ledger)

    async def _store(self, item: GroupObject, group: CommitGroup) -> None:
        """Stores an object, after its files. Retries until the group is dropped, which the watchdog decides."""
        pause = self._settings.retry_pause
        ledger = self._ledger_of(item)
        try:
            while not group.dropped:
                began = self._clock.monotonic()
                try:
                    for name in item.files:
                        await self._upload_bulk(name, ledger)
                        self._reserved.discard(name)
                    await self._put(item, ledger)
                    break
                except StoreUnavailableError as error:
                    log.warning("changelog object %s is not stored yet: %s", item.name, error)
                await asyncio.sleep(pause)
                pause = min(2 * pause, self._settings.max_retry_pause)
        except (SqlError, OSError) as error:
            log.error("changelog object %s cannot be stored: %s", item.name, error)
            self._forget_put(item)
            self._committer.cut_off(self, group)
            return
        self._forget_put(item)
        if group.dropped:
            return
        for name in item.files:
            self._uploaded.pop(name, None)
        seconds = self._clock.monotonic() - began
        _PUTS.add_seconds(seconds)
        self._put_seconds += (seconds - self._put_seconds) / 8
        item.stored = True
        self._committer.on_object_stored(group)

    def _forget_put(self, item: GroupObject) -> None:
        item.drop_sent()
        if self._puts.pop(item, None) is not None:
            self._put_bytes -= len(item.data)

    async def _put(self, item: GroupObject, ledger: Ledger) -> None:
        """Raises StoreUnavailableError, SqlError XX001 if an object of that name has different content."""
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

    async def _upload_bulk(self, name: str, ledger: Ledger) -> None:
        """Uploads a bulk file into the ledger's folder, unless it is there: a file's name determines its content."""
        if self._uploaded.get(name) == ledger.ledger:
            return
        # An upload whose reply was lost may have stored it. That suffices, because stores show whole objects only.
        with contextlib.suppress(ObjectExistsError):
            await self._stores(ledger.store).put_file(
                bulk_name(self.tablespace, ledger.ledger, name), self._bulk.path(name)
            )
        self._uploaded[name] = ledger.ledger

    # --- rolling -------------------------------------------------------------------------------------------------

    def _is_rolling(self) -> bool:
        """Whether the next ledger is being opened, for which entries wait. Begins that when the ledger is full."""
        if self._rolling is not None:
            return True
        size = self.ledger_sizes.get(self.ledgers[-1].ledger, 0)
        full = size >= self._settings.ledger_bytes and not self._reserved
        if not full and size < LEDGER_LIMIT * self._settings.ledger_bytes and self.store_url == self.ledgers[-1].store:
            return False
        self._rolling = asyncio.ensure_future(self._roll_ledger())
        return True

    async def _roll_ledger(self) -> None:
        """Opens the next ledger. Failures are retried until the waiting commits time out, which ends the term."""
        pause = self._settings.retry_pause
        while self.state == "leading" or (self.state == "draining" and self.pending):
            try:
                await self.edit_ledgers(self._add_ledger)
                break
            except DeposedError:
                self._rolling = None
                self._committer.cut_off(self, None)
                self.finish_if_drained()
                return
            except Exception:
                log.exception("the next ledger of %s cannot be opened yet", self.tablespace.hex())
            await asyncio.sleep(pause)
            pause = min(2 * pause, self._settings.max_retry_pause)
        self._rolling = None
        self.ledger_sizes = {
            ledger.ledger: self.ledger_sizes.get(ledger.ledger, 0) for ledger in self.ledgers if ledger.last is None
        }
        self.form_objects()
        self.finish_if_drained()

    def _add_ledger(self, ledgers: Ledgers) -> Ledgers:
        now = self._clock.wall()
        closed = close_committed(ledgers, self.head.lsn, self.ledger_sizes, now)
        return close_committed(
            open_next(closed, self.epoch.epoch, self._formed_lsn + 1, self.store_url),
            self.head.lsn,
            self.ledger_sizes,
            now,
        )

    # --- the committer's side ------------------------------------------------------------------------------------

    def is_pending(self, lsn: int) -> bool:
        """Whether the entry is pending."""
        return self._formed_lsn < lsn <= self._submitted_lsn and self.state in ("leading", "draining")

    def now(self) -> float:
        return self._clock.monotonic()

    def record_multi(self, began: float) -> None:
        """Records the duration of a multi that began at that clock time."""
        self._last_multi = self._clock.monotonic()
        _MULTIS.add_seconds(self._last_multi - began)
        self._multi_seconds += (self._last_multi - began - self._multi_seconds) / 8

    def advance(self, part: HeadUpdate, version: int) -> None:
        """Takes over the head that a multi has set."""
        if self.state == "over":
            return
        for _ in range(part.groups):
            self.groups.popleft()
        self._multi_entries = part.head.lsn - self.head.lsn
        self.head, self.head_version = part.head, version
        self.pending_bytes -= sum(item.body_bytes for item in part.objects)

    def notify_committed(self) -> None:
        if self.state != "over":
            self._notify_head()
            self.finish_if_drained()

    def _notify_head(self) -> None:
        if self._notified_lsn < self.head.lsn:
            self._notified_lsn = self.head.lsn
            self._notification.on_committed(self.head.lsn)

    def drop_pending(self) -> list[Submission]:
        """Drops and returns the entries that have not been put into an object."""
        dropped = list(self.pending)
        self.pending.clear()
        self._gathered_bytes = self.joints = 0
        return dropped

    def mark_unknown(self) -> None:
        """The outcome of the running commits is unknown for now."""
        if self.state in ("leading", "draining"):
            self.state = "resolving"

    def notify_unknown(self) -> None:
        self.mark_unknown()
        self._notification.on_unknown(self.head.lsn + 1)

    def finish_if_drained(self) -> None:
        """Ends the term if it accepts no more entries and has none left."""
        if self.state in ("draining", "resolving") and not (self.pending or self.groups or self.multi or self._rolling):
            self._notify_head()  # the caller may have advanced the head without a notification yet
            self._finish()
            self._notification.on_deposed(self.head.lsn)

    def notify_lost(self) -> None:
        if self.state != "over":
            self.multi = None
            self._finish()
            self._notification.on_lost()

    def _finish(self) -> None:
        self.state = "over"
        self._over.set()
        self._committer.remove(self)
        for timer in (self._object_timer, self._watchdog):
            if timer is not None:
                timer.cancel()
        for task in (*self._puts.values(), self._rolling):
            if task is not None and task is not asyncio.current_task():
                task.cancel()
        for item in self._puts:
            item.drop_sent()  # its task will not do it: a task that is cancelled before its first step never runs
        self.pending.clear()
        self.groups.clear()

    # --- time ----------------------------------------------------------------------------------------------------

    def _schedule_timeout_check(self, delay: float) -> None:
        self._watchdog = asyncio.get_running_loop().call_later(delay, self._check_timeout)

    def _check_timeout(self) -> None:
        """Reports a timeout to the committer if the oldest commit has waited for `commit_timeout`."""
        self._watchdog = None
        if self.groups:
            oldest = self.groups[0].parts[self][0].oldest
        elif self.pending:
            oldest = self.pending[0].at
        else:
            return
        left = oldest + self._settings.commit_timeout - self._clock.monotonic()
        if left > 0.001:
            self._schedule_timeout_check(left)
            return
        log.warning("commits from LSN %d on have waited for %g s", self.head.lsn + 1, self._settings.commit_timeout)
        asyncio.get_running_loop().call_soon(partial(self._committer.on_commit_timeout, self))
