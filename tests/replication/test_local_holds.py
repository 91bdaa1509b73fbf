"""The local changelog keeps what somebody holds, and gives it out as entries and as the bytes that they are."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from catalog.errors import SqlError
from replication.local import LocalChangelog
from replication.segments import walk
from tests.replication.test_local import TABLESPACE, Harness, body


def _close(log: Harness) -> None:
    """What was asked of the thread for files is done."""
    log.log.close()


def _lsns(log: LocalChangelog, after: int, upto: int) -> list[int]:
    return [entry.header.lsn for entry in log.entries(after, upto)]


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
    pieces = list(log.log.pieces(50, 390, 4000))
    assert len(pieces) > 5
    assert (pieces[0].first, pieces[-1].last, pieces[-1].commit_time) == (51, 390, 1390)
    for before, piece in itertools.pairwise(pieces):
        assert (piece.first, piece.previous) == (before.last + 1, before.hash)
    for piece in pieces:
        data = memoryview(bytes(4096) + piece.data)
        found = list(walk(data, piece.first, piece.previous, TABLESPACE))
        assert [entry.header.lsn for entry in found] == list(range(piece.first, piece.last + 1))
        assert found[-1].hash == piece.hash
    _close(log)


def test_bulk_segments_stay_while_their_entries_are_held(tmp_path: Path) -> None:
    log = Harness(tmp_path)
    log.log.hold("reader", 0)
    log.write(1, 200)
    Path(log.log.bulk_path("run")).write_bytes(b"rows")
    log.log.drop_bulk("run")
    _close(log)
    again = Harness(tmp_path)
    assert again.log.bulk_names() == []
    assert Path(again.log.find_bulk("run")).read_bytes() == b"rows"
    again.write(201, 500)
    again.log.retire(500)
    _close(again)
    last = Harness(tmp_path)
    with pytest.raises(SqlError, match='"run" is missing'):
        last.log.find_bulk("run")
    _close(last)
