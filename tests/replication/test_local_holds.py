"""The local changelog keeps what somebody holds, and gives it out as entries and as the bytes that they are."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from catalog.errors import SqlError
from replication.local import LocalChangelog
from replication.segments import SegmentEntry, chain_entries
from tests.replication.test_local import TABLESPACE, Harness, body


def _close(log: Harness) -> None:
    """What was asked of the thread for files is done."""
    log.log.close()


def _lsns(log: LocalChangelog, after: int, upto: int) -> list[int]:
    return [entry.header.lsn for entry in log.entries(after, upto)]


def _bulk(log: LocalChangelog, name: str) -> bytes:
    with log.open_bulk(name) as path:
        return Path(path).read_bytes()


def test_what_is_held_outlives_being_retired(tmp_path: Path) -> None:
    log = Harness(tmp_path)
    log.log.hold("reader", 100)
    log.write(1, 500)
    log.log.retire(450)
    _close(log)
    again = Harness(tmp_path)
    assert (again.log.oldest_lsn() or 0) <= 101
    assert _lsns(again.log, 100, 500) == list(range(101, 501))
    assert [entry.body for entry in again.log.entries(498, 500)] == [body(499), body(500)]
    _close(again)


def test_the_lowest_hold_counts_and_letting_go_retires(tmp_path: Path) -> None:
    log = Harness(tmp_path)
    log.log.hold("one", 100)
    log.log.hold("two", 300)
    log.write(1, 500)
    log.log.retire(490)
    log.log.hold("one", None)
    _close(log)
    again = Harness(tmp_path)
    oldest = again.log.oldest_lsn() or 0
    assert 1 < oldest <= 301
    with pytest.raises(SqlError, match="it begins at LSN"):
        _lsns(again.log, 0, 500)
    _close(again)


def test_pieces_are_the_bytes_of_the_entries_and_chain(tmp_path: Path) -> None:
    log = Harness(tmp_path)
    log.log.hold("reader", 0)
    log.write(1, 400)
    pieces = list(log.log.entry_runs(50, 390, 4000))
    assert len(pieces) > 5
    assert (pieces[0].first, pieces[-1].last, pieces[-1].commit_time) == (51, 390, 1390)
    for before, piece in itertools.pairwise(pieces):
        assert (piece.first, piece.previous) == (before.last + 1, before.hash)
    for piece in pieces:
        data = memoryview(bytes(4096) + piece.data)
        found = list(chain_entries(data, piece.first, piece.previous, TABLESPACE))
        assert [entry.header.lsn for entry in found] == list(range(piece.first, piece.last + 1))
        assert found[-1].hash == piece.hash
    _close(log)


def test_bulk_segments_stay_while_their_entries_are_held(tmp_path: Path) -> None:
    log = Harness(tmp_path)
    log.log.hold("reader", 0)
    log.write(1, 200)
    Path(log.log.bulk_path("run")).write_bytes(b"rows")
    log.log.drop_bulk("run", 150)
    _close(log)
    again = Harness(tmp_path)
    assert again.log.bulk_names() == []
    assert _bulk(again.log, "run") == b"rows"
    again.write(201, 500)
    again.log.retire(500)
    _close(again)
    last = Harness(tmp_path)
    with pytest.raises(SqlError, match='"run" is missing'):
        _bulk(last.log, "run")
    _close(last)


@pytest.mark.parametrize("held", [False, True])
def test_an_open_bulk_segment_can_be_read_whatever_becomes_of_it(held: bool, tmp_path: Path) -> None:
    log = Harness(tmp_path)
    log.write(1, 20)
    if held:
        log.log.hold("reader", 0)
    Path(log.log.bulk_path("run")).write_bytes(b"rows")
    with log.log.open_bulk("run") as path:
        log.log.drop_bulk("run", 15)
        _close(log)
        assert log.log.bulk_names() == []
        assert [Path(path).read_bytes() for _ in range(2)] == [b"rows"] * 2


def test_bulk_segments_are_read_while_they_are_moved_to_the_held_ones(tmp_path: Path) -> None:
    log = Harness(tmp_path)
    log.write(1, 20)
    log.log.hold("reader", 0)
    names = [f"run{number}" for number in range(1000)]
    for name in names:
        Path(log.log.bulk_path(name)).write_bytes(name.encode())
        log.log.drop_bulk(name, 15)
    assert [_bulk(log.log, name).decode() for name in reversed(names)] == names[::-1]
    _close(log)


def test_entries_whose_files_have_gone_are_not_whole(tmp_path: Path) -> None:
    """Segments go whole: entries stay that refer to what nobody has kept."""
    log = Harness(tmp_path)
    log.write(1, 20)
    assert log.log.first_complete_lsn() == 1
    for name in ("early", "kept", "late"):
        Path(log.log.bulk_path(name)).write_bytes(b"rows")
    log.log.drop_bulk("early", 10)
    assert log.log.first_complete_lsn() == 11
    log.log.hold("reader", 10)
    log.log.drop_bulk("kept", 12)
    assert log.log.first_complete_lsn() == 11
    _close(log)

    again = Harness(tmp_path)
    assert again.log.oldest_lsn() == 1
    assert again.log.first_complete_lsn() == 11
    again.log.hold("reader", 11)
    again.log.retire(20)
    assert again.log.first_complete_lsn() == 11
    assert _bulk(again.log, "kept") == b"rows"
    again.log.hold("reader", None)
    assert again.log.first_complete_lsn() == 13
    again.log.drop_bulk("late", 15)
    _close(again)

    last = Harness(tmp_path)
    assert last.log.bulk_names() == []
    assert (last.log.oldest_lsn(), last.log.first_complete_lsn()) == (1, 16)
    _close(last)


def test_what_an_older_release_has_kept_is_taken_for_gone(tmp_path: Path) -> None:
    log = Harness(tmp_path)
    log.write(1, 20)
    _close(log)
    mark = tmp_path / "durable"
    mark.write_bytes(mark.read_bytes()[:1024].ljust(4096, b"\0"))
    again = Harness(tmp_path)
    assert again.log.first_complete_lsn() == 21
    again.write(21, 22)
    assert again.log.first_complete_lsn() == 21
    _close(again)


def test_reading_from_the_middle_does_not_begin_at_the_segment_s_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a log is open it knows where its groups lie."""
    monkeypatch.setattr("replication.local.MARK_BYTES", 4000)
    log = Harness(tmp_path, segment_bytes=40_000)
    log.log.hold("reader", 0)
    log.write(1, 900, size=100)
    assert len(log.log.segments()) > 2
    starts = list[int]()

    def watched(
        data: memoryview, first: int, previous: bytes, tablespace: bytes, offset: int
    ) -> Iterator[SegmentEntry]:
        starts.append(first)
        return chain_entries(data, first, previous, tablespace, offset)

    whole = [(entry.header.lsn, entry.hash) for entry in log.log.entries(0, 900)]
    monkeypatch.setattr("replication.local.chain_entries", watched)
    for after in (0, 1, 250, 433, 434, 435, 899):
        starts.clear()
        assert [(entry.header.lsn, entry.hash) for entry in log.log.entries(after, 900)] == whole[after:]
        assert after - 40 <= starts[0] <= after + 1
    rests = list[int]()
    first, *_ = log.log.entry_runs(433, 900, 10_000, lambda: rests.append(1))
    assert (first.first, first.previous) == (434, whole[432][1])
    assert len(rests) == 2  # after 512 and 768
    _close(log)
