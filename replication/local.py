"""The changelog of a single node: segment files in a directory, appended and synced group by group.

    directory/00000000000000000001.segment   entries from LSN 1 (replication/segments.py)
    directory/spare-1                        a retired segment, to be reused
    directory/durable                        the last durable LSN, in two slots
    directory/bulk/<name>                    files that entries refer to (engine/storage/runs.py)
    directory/kept/<lsn>-<name>              files that storage no longer needs, while a reader holds the log: <lsn> is
                                             that of the entry

**Group commit.** `submit` puts the entry into a list and returns. At the end of the loop's turn everything in the list
is written with one call, and the sync begins (replication/file_sync.py: the kernel does it, and reports its end). Later
entries form the next group. The busier the machine, the larger the groups; there is no timer.

**Rolling.** A segment is closed when the next group would exceed its size. The next one is a retired segment or a new
file, which the thread for files prepares while groups wait for it. A file grows by 256 KiB of zeros after a group that
reaches its end, because an append + sync inside a file takes 0.10 ms, and one that makes it longer 0.13 ms.

**Acknowledged entries.** After each group its last LSN goes into the mapped file `durable`
(replication/durable_mark.py). A chain that ends before that LSN is damaged, even if its end is intact.

**Holds.** Entries that are in the checkpoint of LMDB are retired, unless a reader needs them: `hold` keeps every entry
above an LSN, with its files. Such a file moves to `kept`, under the LSN of its entry, and stays as long as the hold.
Segments are removed whole, so entries may be readable without their files: `durable` records the LSN after which every
entry has its files, and complete reads begin there (`first_complete_lsn`).

**Transactions over several tablespaces.** An entry that is one part of such a transaction counts as durable when every
part is, and so do all later entries: until then they are not acknowledged, and `durable` and the `committed` of later
entries stay below it. After a crash `joints` returns the parts of the entries; `cut` removes an entry that lacks a
part, with all later ones (engine/storage/joints.py decides, with all tablespaces).
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from queue import SimpleQueue
from typing import BinaryIO, Protocol

from catalog.durations import durations
from catalog.errors import SqlError
from catalog.records import dataclass
from replication.commit_parts import Parts, encode_parts
from replication.durable_mark import DurableMark
from replication.entry import HEADER_SIZE, JOINT, MAX_BODY, NO_HASH, encode_entry
from replication.file_sync import Loop, open_sync
from replication.files import Files
from replication.segments import (
    BLOCK,
    SegmentEntry,
    chain_entries,
    damaged_changelog_error,
    decode_segment_header,
    encode_segment_header,
    later_entries,
    list_segments,
    map_file,
    segment_name,
)

SEGMENT_BYTES = 64 << 20
GROUP_BYTES = 1 << 20  # bytes after which a group is written: in one turn of the loop, while the first entry waits
SPARES = 2
KEPT = "kept"
ZERO_STEP = 256 << 10
MARK_BYTES = 256 << 10
PAUSE_ENTRIES = 256

Submission = tuple[int, bytes, int, int, int]
"""(LSN, body, commit time, schema version, flags)"""


@dataclass(frozen=True, slots=True)
class EntryRun:
    """Consecutive entries of a segment, verified."""

    first: int
    last: int
    commit_time: int  # of the last one, microseconds since 2000-01-01 UTC
    previous: bytes  # hash of the entry before
    hash: bytes  # of the last one
    data: bytes


class LocalMultiTablespaceCommit(Protocol):
    """One transaction's entries in several local changelogs, which share this object
    (engine.storage.interface.Joint)."""

    @property
    def tablespaces(self) -> tuple[bytes, ...]: ...

    @property
    def lsns(self) -> tuple[int, ...]: ...

    @property
    def parts(self) -> int: ...

    @property
    def waiting(self) -> list[Callable[[], None]]:
        """A callback for each durable part; all are called when the last part is durable."""


@dataclass(slots=True)
class PendingSegment:
    """A new segment that a thread makes, and the group that waits to be its first. The thread sets `fd` or `error`."""

    first_lsn: int
    data: bytes
    last_hash: bytes
    fd: int = -1
    error: OSError | None = None


@dataclass(frozen=True, slots=True)
class LocatedEntry:
    """An entry in its segment, whose bytes are mapped until the iteration continues."""

    entry: SegmentEntry
    segment: memoryview

    def data(self) -> bytes:
        """Header and body as stored."""
        end, header = self.entry.end, self.entry.header
        return bytes(self.segment[end - HEADER_SIZE - header.length : end])


class LocalChangelog:
    """engine.storage.interface.Changelog over a local directory.

    Opening finds the end of the chain (and raises XX001 for damage in the last segment; `read` finds damage in earlier
    ones). `tablespace` (16 bytes) and `epoch` go into every entry. Everything runs on the engine's thread, whose event
    loop is `loop`; without one (a queue of calls in a test) syncs need a thread.
    """

    def __init__(
        self,
        directory: str,
        engine_thread: Callable[[Callable[[], None]], None],
        on_committed: Callable[[int], None],
        on_failure: Callable[[BaseException], None],
        *,
        loop: Loop | None = None,
        tablespace: bytes = bytes(16),
        epoch: int = 1,
        segment_bytes: int = SEGMENT_BYTES,
        files: Files | None = None,
    ) -> None:
        self._directory = directory
        self._engine_thread = engine_thread
        self._call_soon: Callable[[Callable[[], None]], object] = loop.call_soon if loop is not None else engine_thread
        self._on_committed = on_committed
        self._on_failure = on_failure
        self._tablespace = tablespace
        self._epoch = epoch
        self._segment_bytes = segment_bytes
        self._files = files or Files()
        self._failure: BaseException | None = None
        self._submitted_lsn: int | None = None
        self.pending_bytes = 0
        for path in (directory, os.path.join(directory, "bulk")):
            os.makedirs(path, 0o700, exist_ok=True)
        self._mark = DurableMark(os.path.join(directory, "durable"), self._files, not list_segments(directory))
        self._files.sync_directory(directory)
        self._files.sync_directory(os.path.dirname(os.path.abspath(directory)))
        self._fd = -1
        self._segment = 0
        self._offset = self._capacity = self._written = 0
        self._hash = NO_HASH
        self._tail = (0, NO_HASH, 0)  # LSN, hash and commit time of the last entry that is durable here
        self._committed: int | None = None  # None: the chain has not begun
        self._find_end()
        self._files_after, self._kept_lsns = self._find_files()
        self._marks: dict[int, list[tuple[int, int, bytes]]] = {}  # by segment: LSN, offset, hash of the entry before
        self._group_first = 0
        self._submitted: list[Submission] = []
        self._start_lsn = 0  # the beginning of the chain, while none of its entries is committed
        self._synced_lsn = self._committed or 0  # durable here
        self._joints: deque[tuple[int, LocalMultiTablespaceCommit]] = deque()  # submitted, not durable here
        self._incomplete: deque[tuple[int, LocalMultiTablespaceCommit]] = deque()  # durable here, maybe not elsewhere
        self._is_registered = False  # whether the first of them has this changelog's callback
        self._syncing_group = (
            0,
            0,
            0,
        )  # last LSN, bytes of bodies and last commit time of the group that is being synced
        self._state = "idle"
        self._syncing_since = 0
        self._durations = durations("shoal_changelog_sync_seconds")
        self._rolling: PendingSegment | None = None
        self._closing = False
        self._holds: dict[str, int] = {}
        self._retired = 0
        self._sync = open_sync(loop, engine_thread, self._on_synced, self._files)
        self._file_tasks: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._file_thread = threading.Thread(target=self._run_file_tasks, name="changelog-files", daemon=True)
        self._file_thread.start()

    # --- the engine's side -------------------------------------------------------------------------------------

    def submit(
        self,
        lsn: int,
        body: bytes,
        commit_time: int,
        schema_version: int,
        files: Sequence[str] = (),
        joint: LocalMultiTablespaceCommit | None = None,
    ) -> None:
        """See engine.storage.interface.Changelog. Raises 58030 after a failure, 54000 for a body past 4 GiB; then
        nothing was queued."""
        flags = 0
        if joint is not None:
            flags = JOINT
            body = encode_parts(joint.tablespaces, joint.lsns) + body
        if self._failure is not None:
            raise SqlError("58030", f"changelog has failed: {self._failure}")
        if self._submitted_lsn is not None and lsn != self._submitted_lsn + 1:
            raise SqlError("XX000", f"changelog entry {lsn} does not follow {self._submitted_lsn}")
        if len(body) > MAX_BODY:
            raise SqlError("54000", "transaction is too large for one changelog entry")
        if self._submitted_lsn is None:
            self._start_lsn = lsn - 1
        if joint is not None:
            self._joints.append((lsn, joint))
        self._submitted_lsn = lsn
        self.pending_bytes += len(body)
        self._submitted.append((lsn, body, commit_time, schema_version, flags))
        if self._state == "idle":
            self._state = "called"
            self._call_soon(self._on_turn_end)

    @property
    def last_lsn(self) -> int | None:
        """The last durable entry's LSN; None while the chain has not begun."""
        return self._committed

    def bulk_path(self, name: str) -> str:
        return os.path.join(self._directory, "bulk", name)

    def bulk_names(self) -> list[str]:
        """The existing bulk segments, including those without an entry."""
        return os.listdir(os.path.join(self._directory, "bulk"))

    def drop_bulk(self, name: str, lsn: int) -> None:
        """See engine.storage.interface.Changelog."""
        if self._holds and min(self._holds.values()) < lsn:
            self._kept_lsns.append(lsn)
            self._file_tasks.put(lambda: self._keep_bulk(name, lsn))
        else:
            after = self._files_after = max(self._files_after, lsn)
            self._file_tasks.put(lambda: self._drop_bulk(name, after))

    def retire(self, upto: int) -> None:
        self._retired = max(self._retired, upto)
        self._retire_unheld()

    def _retire_unheld(self) -> None:
        upto = min(self._retired, *self._holds.values()) if self._holds else self._retired
        going = [lsn for lsn in self._kept_lsns if lsn <= upto]
        if going:
            self._kept_lsns = [lsn for lsn in self._kept_lsns if lsn > upto]
            self._files_after = max(self._files_after, *going)
        after = self._files_after
        self._file_tasks.put(lambda: self._retire(upto, after))

    # --- readers of entries that storage no longer needs -----------------------------------------------------------

    def hold(self, holder: str, after: int | None) -> None:
        """Keeps every existing entry above `after`, with its files, until the same holder passes another LSN, or None.
        On the engine's thread."""
        if after is None:
            self._holds.pop(holder, None)
        else:
            self._holds[holder] = after
        if not self._closing:
            self._retire_unheld()

    def oldest_lsn(self) -> int | None:
        """The first LSN that can be read; None while the chain has not begun. A hold prevents it from growing."""
        starts = list_segments(self._directory)
        return starts[0] if starts else None

    def first_complete_lsn(self) -> int | None:
        """The first LSN from which on every entry can be read together with its files; None while the chain has not
        begun. A hold prevents it from growing."""
        oldest = self.oldest_lsn()
        return None if oldest is None else max(oldest, self._files_after + 1)

    def segments(self) -> list[tuple[int, int]]:
        """(first LSN, size in bytes) of every segment, in order; for the last one the written bytes."""
        found: list[tuple[int, int]] = []
        for start in list_segments(self._directory):
            with contextlib.suppress(FileNotFoundError):  # retired meanwhile
                found.append((start, os.path.getsize(os.path.join(self._directory, segment_name(start)))))
        if found:
            found[-1] = (found[-1][0], self._offset)
        return found

    def entries(self, after: int, upto: int) -> Iterator[SegmentEntry]:
        """The entries above `after` up to a durable one, verified. In any thread; the caller holds them. Raises
        XX001."""
        return (item.entry for item in self._located_entries(after, upto))

    def entry_runs(
        self, after: int, upto: int, size: int, pause: Callable[[], None] | None = None
    ) -> Iterator[EntryRun]:
        """The bytes of the same entries as `entries`, in runs of `size` bytes or a little more; none is empty. `pause`
        is called every few milliseconds of work."""
        first, parts, gathered = 0, list[bytes](), 0
        previous = known = b""
        committed = lsn = 0
        for item in self._located_entries(after, upto):
            header = item.entry.header
            if not parts:
                first, previous = header.lsn, header.previous
            parts.append(item.data())
            gathered += len(parts[-1])
            lsn, committed, known = header.lsn, header.commit_time, item.entry.hash
            if pause is not None and not lsn % PAUSE_ENTRIES:
                pause()
            if gathered >= size:
                yield EntryRun(first, lsn, committed, previous, known, b"".join(parts))
                parts, gathered = [], 0
        if parts:
            yield EntryRun(first, lsn, committed, previous, known, b"".join(parts))

    def mark(self, lsn: int) -> tuple[bytes, int]:
        """Hash and commit time of the entry at a durable LSN; NO_HASH and 0 for a missing one: the chain begins after
        it. On the engine's thread."""
        if self._tail[0] == lsn:
            return self._tail[1:]
        oldest = self.oldest_lsn()
        if oldest is None or oldest > lsn:
            return NO_HASH, 0
        entry = next(self.entries(lsn - 1, lsn))
        return entry.hash, entry.header.commit_time

    @contextlib.contextmanager
    def open_bulk(self, name: str) -> Iterator[str]:
        """A path by which the bulk segment of a readable entry can be opened, any number of times, until the context
        ends: the thread for files may move or remove the file meanwhile. Raises XX001."""
        with self._open_bulk(name) as file:
            yield f"/dev/fd/{file.fileno()}"

    def _open_bulk(self, name: str) -> BinaryIO:
        with contextlib.suppress(FileNotFoundError):
            return open(self.bulk_path(name), "rb")
        kept = os.path.join(self._directory, KEPT)
        for found in os.listdir(kept) if os.path.isdir(kept) else ():
            if found.partition("-")[2] == name:
                return open(os.path.join(kept, found), "rb")
        raise damaged_changelog_error(f'bulk segment "{name}" is missing')

    def close(self) -> None:
        """See engine.storage.interface.Changelog; it may be closed twice."""
        if not self._closing:
            self._close()
        if self._failure is not None:
            raise SqlError("58030", f"changelog has failed: {self._failure}")

    def _close(self) -> None:
        self._file_tasks.put(None)
        self._file_thread.join()
        self._closing = True
        if self._state == "rolling":
            self._on_segment_made()
        while self._failure is None and (self._submitted or self._state == "syncing"):
            if self._state == "syncing":
                self._sync.finish()
            else:
                self._next_group()
        self._sync.close()
        self._mark.close()
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def has_moved(self, directory: str) -> None:
        """The closed changelog's files are in another directory now, where they can still be read."""
        self._directory = directory

    def read(self, after: int) -> Iterator[tuple[int, int, bytes]]:
        if self._committed is not None:
            # Clients see entries that are read after a crash: from now on they count as acknowledged.
            self._mark.write(self._committed)
        for entry in self._entries(after):
            yield entry.header.lsn, entry.header.commit_time, entry.body

    def joints(self, after: int) -> Iterator[tuple[int, Parts]]:
        """(LSN, parts) of the entries above `after` whose transactions have parts in other tablespaces too."""
        return ((entry.header.lsn, entry.parts) for entry in self._entries(after) if entry.parts)

    def cut(self, lsn: int) -> None:
        """Removes everything above the LSN, durably: the rest of an uncommitted transaction after a crash, and later
        entries. Before anything is submitted. Raises XX001 if some of it was acknowledged."""
        if self._committed is None or lsn >= self._committed:
            return
        proof = max(self._mark.read(), *(entry.header.committed for entry in self._entries(lsn)))
        if proof > lsn:
            raise damaged_changelog_error(
                f"entry {lsn + 1} was committed, and another tablespace has lost its part of the transaction"
            )
        os.close(self._fd)
        starts = list_segments(self._directory)
        while len(starts) > 1 and starts[-1] > lsn:
            self._files.unlink(os.path.join(self._directory, segment_name(starts.pop())))
        self._files.sync_directory(self._directory)
        path = os.path.join(self._directory, segment_name(starts[-1]))
        with map_file(path) as data:
            offset, size = BLOCK, len(data)
            known = decode_segment_header(data, starts[-1], self._tablespace)
            for entry in chain_entries(data, starts[-1], known, self._tablespace):
                if entry.header.lsn > lsn:
                    break
                offset = entry.end
        fd = self._files.open(path)
        try:
            self._files.write(fd, bytes(size - offset), offset)
            self._files.sync(fd)
        finally:
            os.close(fd)
        self._find_end()

    def _entries(self, after: int) -> Iterator[SegmentEntry]:
        """Every entry above `after` up to the last durable one, verified. Raises XX001."""
        if self._committed is None:
            return iter(())
        return self.entries(after, self._committed)

    def _located_entries(self, after: int, last: int) -> Iterator[LocatedEntry]:
        """The entries above `after` up to `last`, verified, with their places. Raises XX001."""
        if last == after:
            return
        if last < after:
            raise damaged_changelog_error(f"it ends at LSN {last}, before the checkpoint at {after}")
        starts = list_segments(self._directory)
        if starts[0] > after + 1:
            raise damaged_changelog_error(f"it begins at LSN {starts[0]}, after the checkpoint at {after}")
        first = max(index for index, start in enumerate(starts) if start <= after + 1)
        known: bytes | None = None  # the hash that the next segment must name as its predecessor
        for index in range(first, len(starts)):
            lsn = starts[index] - 1
            with map_file(os.path.join(self._directory, segment_name(starts[index]))) as data:
                previous = decode_segment_header(data, starts[index], self._tablespace)
                if known is not None and previous != known:
                    raise damaged_changelog_error(
                        f"segment {segment_name(starts[index])} does not continue the one before it"
                    )
                known = previous
                place = self._find_mark(starts[index], after + 1) or (starts[index], BLOCK, previous)
                lsn = place[0] - 1
                for entry in chain_entries(data, place[0], place[2], self._tablespace, place[1]):
                    lsn, known = entry.header.lsn, entry.hash
                    if lsn > last:
                        return
                    if lsn > after:
                        yield LocatedEntry(entry, data)
            end = starts[index + 1] - 1 if index + 1 < len(starts) else last
            if lsn < end:
                raise damaged_changelog_error(f"entry {lsn + 1} cannot be read")

    # --- opening -----------------------------------------------------------------------------------------------

    def _find_end(self) -> None:
        starts = list_segments(self._directory)
        if not starts:
            if self._mark.read() > 0:
                raise damaged_changelog_error("its segments are gone")
            return
        durable = self._mark.read()
        path = os.path.join(self._directory, segment_name(starts[-1]))
        lsn, offset = starts[-1] - 1, BLOCK
        with map_file(path) as data:
            self._hash = decode_segment_header(data, starts[-1], self._tablespace)
            for entry in chain_entries(data, starts[-1], self._hash, self._tablespace):
                lsn, offset, self._hash = entry.header.lsn, entry.end, entry.hash
                self._tail = (lsn, entry.hash, entry.header.commit_time)
            later = [header.committed for header in later_entries(data, offset, lsn, self._tablespace)]
            if max([durable, *later]) > lsn:
                raise damaged_changelog_error(f"entry {lsn + 1} cannot be read")
            self._written = len(data)
            self._capacity = max(len(data), self._segment_bytes)
        self._fd = self._files.open(path)
        self._segment = starts[-1]
        self._offset = offset
        self._committed = self._submitted_lsn = lsn
        if later:
            # The rest of a torn group, which was never acknowledged. It must not be found after a new entry either.
            self._files.write(self._fd, bytes(self._written - offset), offset)
        # Entries may have been written without having been synced (a crash between the two). They will be replayed
        # and shown to clients, so they must be durable first.
        self._files.sync(self._fd)
        self._mark.write(durable)  # both slots are whole again

    def _find_files(self) -> tuple[int, list[int]]:
        """The LSN after which every entry has its files, and the LSNs of entries whose files are in `kept`."""
        known = self._mark.files_after()
        if known is None:
            known = self._committed or 0
            self._mark.write_files_after(known)
        kept = os.path.join(self._directory, KEPT)
        names = os.listdir(kept) if os.path.isdir(kept) else []
        return known, [int(name.partition("-")[0]) for name in names]

    # --- writing -----------------------------------------------------------------------------------------------
    #
    #   idle -> called -> syncing -> idle | the next group        by submit, the end of the turn, the sync
    #              |-> rolling -> syncing                         the group needs another segment

    def _on_turn_end(self) -> None:
        if self._state == "called":
            self._next_group()

    def _next_group(self) -> None:
        """Writes the submitted entries, up to GROUP_BYTES, and begins to sync them."""
        submitted, count, size = self._submitted, 0, 0
        for _, body, *_ in submitted:
            count += 1
            size += len(body)
            if size >= GROUP_BYTES:
                break
        group, self._submitted = submitted[:count], submitted[count:]
        self._write_group(group, size)

    def _write_group(self, group: list[Submission], size: int) -> None:
        committed = self._committed if self._committed is not None else self._start_lsn
        previous = self._hash
        parts = []
        for lsn, body, commit_time, schema_version, flags in group:
            entry, previous = encode_entry(
                lsn, body, commit_time, schema_version, committed, self._epoch, self._tablespace, previous, flags
            )
            parts.append(entry)
        data = b"".join(parts)
        self._syncing_group = (group[-1][0], size, group[-1][2])
        self._group_first = group[0][0]
        if self._offset + len(data) > self._capacity:
            self._roll(group[0][0], data, previous)
        else:
            self._write(data, previous)

    def _remember_mark(self) -> None:
        """Records the beginning of some groups, so that readers need not read the segment from its start."""
        marks = self._marks.setdefault(self._segment, [])
        if self._offset - (marks[-1][1] if marks else BLOCK) >= MARK_BYTES:
            marks.append((self._group_first, self._offset, self._hash))

    def _find_mark(self, segment: int, lsn: int) -> tuple[int, int, bytes] | None:
        """The last known place in a segment at or before an LSN. In any thread."""
        marks = self._marks.get(segment, ())
        return marks[found - 1] if (found := bisect_right(marks, lsn, key=lambda mark: mark[0])) else None

    def _write(self, data: bytes, last_hash: bytes) -> None:
        self._remember_mark()
        end = self._offset + len(data)
        try:
            if end > self._written:
                self._written = end + ZERO_STEP
                data = data.ljust(self._written - self._offset, b"\0")
            self._files.write(self._fd, data, self._offset)
            self._offset = end
            self._hash = last_hash
            self._state = "syncing"
            self._syncing_since = time.perf_counter_ns()
            self._sync.begin(self._fd)
        except OSError as error:
            self._fail(error)

    def _on_synced(self, error: BaseException | None) -> None:
        if error is not None:
            self._fail(error)
            return
        self._durations.add(time.perf_counter_ns() - self._syncing_since)
        lsn, size, commit_time = self._syncing_group
        self._synced_lsn = lsn
        self._tail = (lsn, self._hash, commit_time)
        self.pending_bytes -= size
        self._state = "idle"
        if self._joints or self._incomplete:
            self._on_joints_synced(lsn)
            return
        self._mark.write(lsn)
        self._committed = lsn
        if self._submitted:
            self._next_group()  # before the acknowledgement, so that the disk works meanwhile
        self._on_committed(lsn)

    def _on_joints_synced(self, lsn: int) -> None:
        """The rest of `_on_synced` while transactions over several tablespaces are running."""
        while self._joints and self._joints[0][0] <= lsn:
            self._incomplete.append(self._joints.popleft())
        if self._submitted:
            self._next_group()
        self._advance()

    def _advance(self) -> None:
        """Commits entries that are durable here, up to the first that lacks a part elsewhere; then the changelogs of
        the other parts do the same.

        A part counts when everything before it is committed: an earlier entry may still be removed, with this one.
        """
        held = self._incomplete
        whole: list[LocalMultiTablespaceCommit] = []
        while held:
            joint = held[0][1]
            if not self._is_registered:
                joint.waiting.append(self._advance)
                self._is_registered = True
            if len(joint.waiting) < joint.parts:
                break
            held.popleft()
            self._is_registered = False
            whole.append(joint)
        upto = held[0][0] - 1 if held else self._synced_lsn
        if upto > (self._start_lsn if self._committed is None else self._committed):
            if self._fd >= 0:  # otherwise it is closed, and the mark with it
                self._mark.write(upto)
            self._committed = upto
            self._on_committed(upto)
        for joint in whole:
            for advance in joint.waiting:
                advance()

    def _fail(self, error: BaseException) -> None:
        """Stops writing. The failure is reported in another turn of the loop, because callers are in the middle of
        their work."""
        self._state = "failed"
        self._failure = error
        self._engine_thread(partial(self._on_failure, error))

    def _roll(self, first_lsn: int, data: bytes, last_hash: bytes) -> None:
        """The thread for files makes the segment that begins with this group; then the group is written."""
        self._state = "rolling"
        self._rolling = PendingSegment(first_lsn, data, last_hash)
        if self._closing:
            self._make_segment(self._rolling)
            self._on_segment_made()
        else:
            self._file_tasks.put(partial(self._make_segment, self._rolling))

    def _make_segment(self, rolling: PendingSegment) -> None:
        """Makes a segment file. Its header is durable before the file gets its name, so that every segment that is
        found has a header."""
        try:
            need = len(rolling.data) + BLOCK
            spare = next((path for path in self._spares() if os.path.getsize(path) >= need), None)
            if spare is None:
                spare = os.path.join(self._directory, "new")
                if os.path.exists(spare):
                    self._files.unlink(spare)
            fd = self._files.open(spare)
            try:
                self._files.write(fd, encode_segment_header(rolling.first_lsn, self._tablespace, self._hash), 0)
                self._files.sync(fd)
                self._files.rename(spare, os.path.join(self._directory, segment_name(rolling.first_lsn)))
                self._files.sync_directory(self._directory)
            except BaseException:
                os.close(fd)
                raise
            rolling.fd = fd
        except OSError as error:
            rolling.error = error
        self._engine_thread(self._on_segment_made)

    def _on_segment_made(self) -> None:
        rolling = self._rolling
        if self._state != "rolling" or rolling is None:
            return
        self._rolling = None
        if rolling.error is not None:
            self._fail(rolling.error)
            return
        if self._fd >= 0:
            os.close(self._fd)
        self._fd, self._offset, self._written = rolling.fd, BLOCK, os.fstat(rolling.fd).st_size
        self._segment = rolling.first_lsn
        there = set(list_segments(self._directory))
        self._marks = {segment: marks for segment, marks in self._marks.items() if segment in there}
        self._capacity = max(self._segment_bytes, len(rolling.data) + BLOCK)
        self._write(rolling.data, rolling.last_hash)

    # --- the thread for files -------------------------------------------------------------------------------------

    def _run_file_tasks(self) -> None:
        while (chore := self._file_tasks.get()) is not None:
            try:
                chore()
            except OSError:
                continue  # a spare or a removal that failed costs speed or disk, never data; the next one tries again

    def _spares(self) -> list[str]:
        names = sorted(name for name in os.listdir(self._directory) if name.startswith("spare-"))
        return [os.path.join(self._directory, name) for name in names]

    def _free_spare_name(self) -> str | None:
        taken = set(self._spares())
        for number in range(1, SPARES + 1):
            path = os.path.join(self._directory, f"spare-{number}")
            if path not in taken:
                return path
        return None

    def _drop_bulk(self, name: str, files_after: int) -> None:
        self._mark_files(files_after)
        self._files.unlink(self.bulk_path(name))

    def _mark_files(self, files_after: int) -> None:
        """Writes the LSN after which entries have their files, before the files are removed."""
        if (self._mark.files_after() or 0) < files_after:
            self._mark.write_files_after(files_after)

    def _keep_bulk(self, name: str, lsn: int) -> None:
        kept = os.path.join(self._directory, KEPT)
        os.makedirs(kept, 0o700, exist_ok=True)
        self._files.rename(self.bulk_path(name), os.path.join(kept, f"{lsn:020}-{name}"))

    def _retire(self, upto: int, files_after: int) -> None:
        self._mark_files(files_after)
        kept = os.path.join(self._directory, KEPT)
        for name in os.listdir(kept) if os.path.isdir(kept) else ():
            if int(name.partition("-")[0]) <= upto:
                self._files.unlink(os.path.join(kept, name))
        starts = list_segments(self._directory)
        for start, following in pairwise(starts):
            if following - 1 > upto:
                break
            path = os.path.join(self._directory, segment_name(start))
            spare = self._free_spare_name()
            if spare is not None and os.path.getsize(path) >= self._segment_bytes - HEADER_SIZE:
                self._files.rename(path, spare)
            else:
                self._files.unlink(path)
        self._files.sync_directory(self._directory)
