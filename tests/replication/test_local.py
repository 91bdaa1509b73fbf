"""The local changelog: what was committed is read back in order; torn tails end it, damage is refused."""

from __future__ import annotations

import contextlib
import os
import queue
import select
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from catalog.errors import SqlError
from replication.durable_mark import DurableMark
from replication.file_sync import RingSync, kernel_can_sync
from replication.files import Files
from replication.local import LocalChangelog
from replication.segments import BLOCK

TABLESPACE = b"t" * 16


class PollLoop:
    """The engine's thread as a queue of calls, and readers that are polled when it is empty."""

    def __init__(self) -> None:
        self.calls: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self.readers: dict[int, Callable[[], object]] = {}

    def call_soon(self, callback: Callable[[], object]) -> None:
        self.calls.put(callback)  # type: ignore[arg-type]

    def add_reader(self, fd: int, callback: Callable[[], object]) -> None:
        self.readers[fd] = callback

    def remove_reader(self, fd: int) -> None:
        del self.readers[fd]

    def step(self, timeout: float) -> None:
        """One call, or what a reader brings; a thread's call is looked for every few milliseconds."""
        if not self.readers:
            self.calls.get(timeout=timeout)()
            return
        if self.calls.empty():
            for fd in select.select(list(self.readers), [], [], 0.003)[0]:
                self.readers[fd]()
        with contextlib.suppress(queue.Empty):
            self.calls.get_nowait()()


@pytest.fixture(params=["kernel", "thread"], autouse=True)
def syncing(request: pytest.FixtureRequest) -> Iterator[str]:
    """Every test runs with both ways to sync."""
    if request.param == "kernel" and not kernel_can_sync():
        pytest.skip("the kernel offers no asynchronous fdatasync here; Shoal then uses a thread")
    Harness.kernel = request.param == "kernel"
    yield request.param


class Harness:
    """A changelog, and the engine's thread as a queue."""

    kernel = False

    def __init__(self, path: Path, segment_bytes: int = 16 << 10, files: Files | None = None) -> None:
        self.loop = PollLoop()
        self.committed: list[int] = []
        self.failures: list[BaseException] = []
        self.log = LocalChangelog(
            str(path),
            self.loop.calls.put,
            self.committed.append,
            self.failures.append,
            loop=self.loop if self.kernel else None,
            tablespace=TABLESPACE,
            segment_bytes=segment_bytes,
            files=files,
        )

    def wait(self, lsn: int) -> None:
        end = time.monotonic() + 10
        while not self.failures and (not self.committed or self.committed[-1] < lsn):
            assert time.monotonic() < end
            self.loop.step(max(end - time.monotonic(), 0.01))

    def write(self, first: int, last: int, size: int = 50) -> None:
        """Entries first..last, each waited for, so that each is a group of its own."""
        for lsn in range(first, last + 1):
            self.log.submit(lsn, body(lsn, size), 1000 + lsn, 1)
            self.wait(lsn)

    def entries(self, after: int = 0) -> list[tuple[int, int, bytes]]:
        return list(self.log.read(after))


def body(lsn: int, size: int = 50) -> bytes:
    return b"%d;" % lsn + b"x" * size


def expected(first: int, last: int, size: int = 50) -> list[tuple[int, int, bytes]]:
    return [(lsn, 1000 + lsn, body(lsn, size)) for lsn in range(first, last + 1)]


def segments(path: Path) -> list[Path]:
    return sorted(path.glob("*.segment"))


def test_entries_come_back_in_order_across_segments_and_restarts(tmp_path: Path) -> None:
    log = Harness(tmp_path)
    log.write(1, 300)
    assert log.entries() == expected(1, 300)
    assert log.entries(250) == expected(251, 300)
    assert len(segments(tmp_path)) > 1
    log.log.close()
    again = Harness(tmp_path)
    assert again.log.last_lsn == 300
    assert again.entries() == expected(1, 300)
    again.write(301, 310)
    assert again.entries(299) == expected(300, 310)
    again.log.close()


def test_commits_are_announced_in_order_and_groups_form(tmp_path: Path) -> None:
    log = Harness(tmp_path, segment_bytes=1 << 20)
    for lsn in range(1, 2001):
        log.log.submit(lsn, body(lsn), 1000 + lsn, 1)
    assert log.log.pending_bytes > 0
    log.wait(2000)
    assert log.committed == sorted(set(log.committed))
    assert len(log.committed) < 1000
    assert log.log.pending_bytes == 0
    assert log.entries() == expected(1, 2000)
    log.log.close()


def test_close_makes_everything_submitted_durable(tmp_path: Path) -> None:
    log = Harness(tmp_path)
    for lsn in range(1, 200):
        log.log.submit(lsn, body(lsn), 1000 + lsn, 1)
    log.log.close()
    again = Harness(tmp_path)
    assert again.entries() == expected(1, 199)
    again.log.close()


def test_an_entry_larger_than_a_segment(tmp_path: Path) -> None:
    log = Harness(tmp_path, segment_bytes=8192)
    log.write(1, 3, size=100_000)
    log.write(4, 5)
    assert log.entries() == expected(1, 3, 100_000) + expected(4, 5)
    log.log.close()
    again = Harness(tmp_path, segment_bytes=8192)
    assert again.entries(3) == expected(4, 5)
    again.log.close()


def test_the_chain_may_begin_after_a_checkpoint(tmp_path: Path) -> None:
    log = Harness(tmp_path)
    assert log.entries(41) == []
    log.write(42, 50)
    assert log.entries(41) == expected(42, 50)
    with pytest.raises(SqlError, match="XX001"):
        log.entries(40)
    with pytest.raises(SqlError, match="XX001"):
        log.entries(51)
    log.log.close()


def test_lsns_come_without_gaps(tmp_path: Path) -> None:
    log = Harness(tmp_path)
    log.write(1, 2)
    with pytest.raises(SqlError):
        log.log.submit(4, b"", 0, 0)
    log.log.close()


def test_retired_segments_are_reused_and_stale_entries_never_come_back(tmp_path: Path) -> None:
    log = Harness(tmp_path)
    log.write(1, 500)
    before = len(segments(tmp_path))
    log.log.retire(450)
    log.write(501, 900)
    log.log.retire(880)
    log.write(901, 1000)
    assert log.entries(880) == expected(881, 1000)
    log.log.close()
    assert len(segments(tmp_path)) < before
    again = Harness(tmp_path)
    assert again.entries(900) == expected(901, 1000)
    with pytest.raises(SqlError, match="XX001"):
        again.entries(1)
    again.log.close()


def _write_log(path: Path, last: int) -> tuple[Path, int]:
    """A closed changelog of one segment; the segment, and where its entries end."""
    log = Harness(path)
    log.write(1, last)
    end = log.log._offset
    log.log.close()
    return segments(path)[0], end


def _forget_mark(path: Path) -> None:
    """As after a power cut before the mark was written back: it is as it was made."""
    (path / "durable").write_bytes(DurableMark._slot(0).ljust(BLOCK, b"\0"))


@pytest.mark.parametrize("forgotten", [False, True])
def test_every_flipped_byte_is_noticed(tmp_path: Path, forgotten: bool) -> None:
    """With the mark, in every entry; after a power cut that lost the mark, in all but the last group."""
    segment, end = _write_log(tmp_path / "log", 6)
    if forgotten:
        _forget_mark(tmp_path / "log")
    original = segment.read_bytes()
    last_entry = end - (end - BLOCK) // 6
    for position in [*range(52), *range(BLOCK, end, 3)]:
        data = bytearray(original)
        data[position] ^= 0x10
        segment.write_bytes(data)
        if forgotten and position >= last_entry:
            log = Harness(tmp_path / "log")
            assert log.entries() == expected(1, 5)
            log.log.close()
            _forget_mark(tmp_path / "log")
            continue
        with pytest.raises(SqlError, match="XX001"):
            Harness(tmp_path / "log")


def test_truncation_is_damage_up_to_the_mark_and_a_torn_tail_beyond(tmp_path: Path) -> None:
    segment, end = _write_log(tmp_path / "log", 6)
    original = segment.read_bytes()
    size = (end - BLOCK) // 6
    for length in range(BLOCK, end, 17):
        segment.write_bytes(original[:length])
        with pytest.raises(SqlError, match="XX001"):
            Harness(tmp_path / "log")
        copy = tmp_path / "cut"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(tmp_path / "log", copy)
        _forget_mark(copy)
        log = Harness(copy)
        whole = (length - BLOCK) // size
        assert log.entries() == expected(1, whole)
        log.write(whole + 1, whole + 3)
        assert log.entries() == expected(1, whole + 3)
        log.log.close()


def test_a_torn_group_is_no_damage_even_if_its_later_entries_are_whole(tmp_path: Path) -> None:
    """The pages of one write may reach the disk in any order: what follows the hole was never acknowledged either."""
    segment, end = _write_log(tmp_path, 3)
    log = Harness(tmp_path)
    for lsn in range(4, 8):  # one turn, hence one group
        log.log.submit(lsn, body(lsn), 1000 + lsn, 1)
    log.log.close()
    _forget_mark(tmp_path)
    data = bytearray(segment.read_bytes())
    data[end + 20] ^= 1
    segment.write_bytes(data)
    again = Harness(tmp_path)
    assert again.entries() == expected(1, 3)
    again.write(4, 4)
    again.log.close()
    last = Harness(tmp_path)  # entries 5 to 7 of the torn group still lie behind 4
    assert last.entries() == expected(1, 4)
    last.log.close()


def test_damage_in_an_earlier_segment_is_found_by_reading(tmp_path: Path) -> None:
    log = Harness(tmp_path)
    log.write(1, 300)
    log.log.close()
    first = segments(tmp_path)[0]
    data = bytearray(first.read_bytes())
    data[BLOCK + 500] ^= 1
    first.write_bytes(data)
    again = Harness(tmp_path)
    with pytest.raises(SqlError, match="XX001"):
        again.entries()
    assert again.entries(290) == expected(291, 300)
    again.log.close()


@pytest.mark.parametrize("lost", [0, 1, -1])
def test_a_lost_segment_is_damage(tmp_path: Path, lost: int) -> None:
    log = Harness(tmp_path)
    log.write(1, 400)
    log.log.close()
    segments(tmp_path)[lost].unlink()
    with pytest.raises(SqlError, match="XX001"):
        Harness(tmp_path).entries()


def test_both_slots_of_the_mark_broken_is_damage_one_is_not(tmp_path: Path) -> None:
    _write_log(tmp_path, 5)
    mark = tmp_path / "durable"
    data = bytearray(mark.read_bytes())
    data[0] ^= 1
    mark.write_bytes(data)
    Harness(tmp_path).log.close()
    data = bytearray(mark.read_bytes())
    data[0] ^= 1
    data[512] ^= 1
    mark.write_bytes(data)
    with pytest.raises(SqlError, match="durable"):
        Harness(tmp_path)


def test_another_tablespaces_changelog_is_refused(tmp_path: Path) -> None:
    _write_log(tmp_path, 2)
    with pytest.raises(SqlError, match="another tablespace"):
        LocalChangelog(str(tmp_path), lambda call: call(), lambda lsn: None, lambda error: None)


class Failing(Files):
    """Every write from the Nth on fails, after half of it was written."""

    def __init__(self, nth: int) -> None:
        self.left = nth

    def write(self, fd: int, data: bytes | memoryview, offset: int) -> None:
        self.left -= 1
        if self.left < 0:
            super().write(fd, memoryview(data)[: len(data) // 2], offset)
            raise OSError(28, "No space left on device")
        super().write(fd, data, offset)


@pytest.mark.parametrize("nth", range(2, 12))
def test_after_a_failed_write_nothing_is_acknowledged(tmp_path: Path, nth: int) -> None:
    log = Harness(tmp_path, segment_bytes=5000, files=Failing(nth))
    lsn = 0
    while not log.failures:
        lsn += 1
        try:
            log.log.submit(lsn, body(lsn), 1000 + lsn, 1)
        except SqlError as error:
            assert error.sqlstate == "58030"
            break
        log.wait(lsn)
    acknowledged = log.committed[-1] if log.committed else 0
    with pytest.raises(SqlError, match="58030"):
        log.log.submit(lsn + 1, b"", 0, 0)
    with pytest.raises(SqlError, match="58030"):
        log.log.close()
    assert len(log.failures) == 1
    again = Harness(tmp_path, segment_bytes=5000)
    found = again.entries()
    assert found == expected(1, len(found))
    assert acknowledged <= len(found) <= acknowledged + 1
    again.log.close()


def test_bulk_segments(tmp_path: Path) -> None:
    log = Harness(tmp_path)
    Path(log.log.bulk_path("one")).write_bytes(b"x")
    Path(log.log.bulk_path("two")).write_bytes(b"x")
    assert sorted(log.log.bulk_names()) == ["one", "two"]
    log.log.drop_bulk("one", 0)
    log.log.close()
    again = Harness(tmp_path)
    assert again.log.bulk_names() == ["two"]
    again.log.close()


def test_an_entry_of_another_history_is_not_taken(tmp_path: Path) -> None:
    """Whole, of the right LSN and the right tablespace, but its predecessor is not ours."""
    segment, end = _write_log(tmp_path / "one", 3)
    other = Harness(tmp_path / "two")
    other.log.submit(1, body(9), 1001, 1)
    other.wait(1)
    other.write(2, 3)
    other.log.close()
    place = end - (end - BLOCK) // 3
    data = bytearray(segment.read_bytes())
    data[place:end] = segments(tmp_path / "two")[0].read_bytes()[place:end]
    segment.write_bytes(data)
    with pytest.raises(SqlError, match="entry 3 cannot be read"):
        Harness(tmp_path / "one")
    _forget_mark(tmp_path / "one")
    log = Harness(tmp_path / "one")
    assert log.entries() == expected(1, 2)
    log.log.close()


class FailingSync(Files):
    """Every sync of data from the Nth on fails."""

    def __init__(self, nth: int) -> None:
        self.left = nth

    def sync_data(self, fd: int) -> None:
        self.left -= 1
        if self.left < 0:
            raise OSError(5, "Input/output error")
        super().sync_data(fd)


@pytest.mark.parametrize("nth", range(4))
def test_after_a_failed_sync_nothing_is_acknowledged(
    tmp_path: Path, nth: int, syncing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Harness(tmp_path, files=FailingSync(nth))
    if syncing == "kernel":
        begin, left = RingSync.begin, [nth]

        def failing(self: RingSync, fd: int) -> None:
            left[0] -= 1
            if left[0] < 0:  # a file that cannot be synced: the kernel answers EINVAL
                fd = os.open("/proc/self/status", os.O_RDONLY)
            begin(self, fd)

        monkeypatch.setattr(RingSync, "begin", failing)
    for lsn in range(1, nth + 1):
        log.write(lsn, lsn)
    log.log.submit(nth + 1, body(nth + 1), 0, 1)
    log.wait(nth + 1)
    assert len(log.failures) == 1 and log.committed == list(range(1, nth + 1))
    with pytest.raises(SqlError, match="58030"):
        log.log.submit(nth + 2, b"", 0, 0)
    with pytest.raises(SqlError, match="58030"):
        log.log.close()


def test_the_order_of_groups_holds_across_a_roll_that_more_entries_wait_for(tmp_path: Path) -> None:
    log = Harness(tmp_path, segment_bytes=8192)
    for lsn in range(1, 400):
        log.log.submit(lsn, body(lsn, 200), 1000 + lsn, 1)
        if lsn % 7 == 0:
            with contextlib.suppress(queue.Empty):  # the disk may be slow
                log.loop.step(0.01)
    log.wait(399)
    assert log.committed == sorted(set(log.committed))
    log.log.close()
    assert Harness(tmp_path).entries() == expected(1, 399, 200)


# ---- transactions over several tablespaces -------------------------------------------------------------------------


class Parts:
    """engine.storage.interface.Joint."""

    def __init__(self, lsns: tuple[int, ...], others: tuple[bytes, ...] = (b"u" * 16,)) -> None:
        self.tablespaces = (TABLESPACE, *others)
        self.lsns = lsns
        self.waiting: list[Callable[[], None]] = []
        self.parts = len(lsns)


class Pair:
    """Two changelogs on one thread; `committed` of each, and everything that was told, in order."""

    def __init__(self, path: Path) -> None:
        self.told: list[tuple[str, int]] = []
        self.logs: dict[str, Harness] = {}
        for name, tablespace in (("a", TABLESPACE), ("b", b"u" * 16)):
            harness = Harness.__new__(Harness)
            harness.loop = PollLoop()
            harness.committed, harness.failures = [], []

            def committed(lsn: int, name: str = name, harness: Harness = harness) -> None:
                harness.committed.append(lsn)
                self.told.append((name, lsn))

            harness.log = LocalChangelog(
                str(path / name),
                harness.loop.calls.put,
                committed,
                harness.failures.append,
                loop=harness.loop if Harness.kernel else None,
                tablespace=tablespace,
                segment_bytes=16 << 10,
            )
            self.logs[name] = harness
        self.a, self.b = self.logs["a"], self.logs["b"]

    def submit(self, a: int, b: int) -> None:
        joint = Parts((a, b))
        self.a.log.submit(a, body(a), 1000 + a, 1, joint=joint)
        self.b.log.submit(b, body(b), 1000 + b, 1, joint=joint)

    def close(self) -> None:
        self.a.log.close()
        self.b.log.close()


def run_dry(harness: Harness) -> None:
    """Until everything submitted is durable in this log."""
    end = time.monotonic() + 10
    while harness.log.pending_bytes:
        assert time.monotonic() < end
        harness.loop.step(10)


def copied(path: Path) -> Path:
    """The logs as a crash leaves them now."""
    for name in "ab":
        shutil.copytree(path / name, path / "crashed" / name)
    return path / "crashed"


def test_a_joint_entry_and_what_is_behind_it_wait_for_the_other_part(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    pair.a.write(1, 2)
    pair.submit(3, 1)
    pair.a.log.submit(4, body(4), 1004, 1)
    run_dry(pair.a)
    assert pair.a.committed[-1] == 2
    assert pair.a.log.last_lsn == 2
    pair.b.log.submit(2, body(2), 1002, 1)
    run_dry(pair.b)
    assert (pair.a.committed[-1], pair.b.committed[-1]) == (4, 2)
    assert pair.told[-2:] == [("b", 2), ("a", 4)]
    assert pair.a.entries() == expected(1, 4)
    assert list(pair.a.log.joints(0)) == [(3, ((TABLESPACE, 3), (b"u" * 16, 1)))]
    assert list(pair.a.log.joints(3)) == []
    pair.close()


def test_several_joint_entries_in_one_group_are_committed_together(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    for number in range(1, 41):
        pair.submit(number, number)
    run_dry(pair.b)
    assert pair.b.committed == []
    run_dry(pair.a)
    assert (pair.a.committed[-1], pair.b.committed[-1]) == (40, 40)
    for name in "ab":
        assert [lsn for told, lsn in pair.told if told == name] == sorted({lsn for t, lsn in pair.told if t == name})
    pair.close()
    again = Pair(tmp_path)
    assert again.a.entries() == again.b.entries() == expected(1, 40)
    again.close()


def test_the_first_entries_of_two_chains_may_be_joint(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    pair.submit(6, 1)
    run_dry(pair.a)
    assert pair.a.log.last_lsn is None
    run_dry(pair.b)
    assert (pair.a.committed, pair.b.committed) == ([6], [1])
    pair.close()


def test_closing_both_makes_both_parts_durable(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    pair.submit(1, 1)
    pair.a.log.close()
    assert pair.a.committed == []
    pair.b.log.close()
    assert (pair.a.committed, pair.b.committed) == ([1], [1])
    again = Pair(tmp_path)
    assert (again.a.log.last_lsn, again.b.log.last_lsn) == (1, 1)
    again.close()


@pytest.mark.parametrize("behind", [0, 3, 400])
def test_a_part_whose_other_part_is_missing_is_cut_off_with_what_is_behind_it(tmp_path: Path, behind: int) -> None:
    pair = Pair(tmp_path)
    pair.a.write(1, 300)
    pair.submit(301, 1)
    for lsn in range(302, 302 + behind):
        pair.a.log.submit(lsn, body(lsn), 1000 + lsn, 1)
    run_dry(pair.a)
    crashed_path = copied(tmp_path)  # b's part was never written
    pair.close()
    crashed = Pair(crashed_path)
    assert crashed.a.log.last_lsn == 301 + behind
    assert [lsn for lsn, _ in crashed.a.log.joints(250)] == [301]
    crashed.a.log.cut(300)
    assert crashed.a.log.last_lsn == 300
    assert crashed.a.entries() == expected(1, 300)
    crashed.a.write(301, 305)
    assert crashed.a.entries(299) == expected(300, 305)
    crashed.close()
    again = Pair(crashed_path)
    assert again.a.entries() == expected(1, 305)
    again.close()


def test_the_only_entries_of_a_chain_can_be_cut_off(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    pair.submit(1, 1)
    run_dry(pair.a)
    crashed_path = copied(tmp_path)
    pair.close()
    crashed = Pair(crashed_path)
    crashed.a.log.cut(0)
    assert crashed.a.entries() == []
    crashed.a.write(1, 2)
    assert crashed.a.entries() == expected(1, 2)
    crashed.close()


def test_what_was_acknowledged_is_not_cut_off(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    pair.submit(1, 1)
    run_dry(pair.a)
    run_dry(pair.b)
    pair.a.write(2, 2)
    pair.close()
    mark = DurableMark(str(tmp_path / "a" / "durable"), Files(), False)
    mark.write(0)
    mark.write(0)
    mark.close()
    again = Pair(tmp_path)
    with pytest.raises(SqlError, match="another tablespace has lost its part"):
        again.a.log.cut(0)  # entry 2 says that entry 1 was durable when it was written
    again.close()
