"""What the worker has told: the log says once what is the matter, and once that it is over."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from engine.columnar.worker_report import ColumnsWork, WorkerReport

FULL = "[Errno 28] No space left on device: '/data/columnar/columns.duckdb'"
SAVED = {"tables": [[1, 2, 3, 4], [5, 6, 7, None]], "seconds": 0.5, "memory": 100}


@pytest.fixture
def report(tmp_path: Path) -> WorkerReport:
    (tmp_path / "spill").mkdir()
    return WorkerReport(str(tmp_path / "columns.duckdb"), str(tmp_path / "spill"))


def test_a_full_disk_is_told_once_with_what_to_do_and_that_it_is_over(
    report: WorkerReport, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    for _ in range(3):
        report.note_unsaved(FULL)
    report.note_unsaved("IO Error: Could not write file: No space left on device")
    (line,) = caplog.messages
    assert line.startswith("the columns cannot be saved: no space is left on the file system of")
    assert "Make space there" in line
    report.note_unsaved("something else")
    report.note_saved(SAVED)
    report.note_saved(SAVED)
    assert caplog.messages[1:] == ["the columns cannot be saved: something else", "the columns are saved again"]
    assert (report.saves, report.failed_saves, report.save_seconds, report.saved_tables) == (2, 5, 1.0, 2)


def test_a_database_that_fails_for_a_full_disk_says_what_to_do(
    report: WorkerReport, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    report.note_leave("broken", {"bytes": 5_000_000, "message": f"IO Error: Checkpoint failed: {FULL}"})
    assert "(5 MB)" in caplog.messages[0] and "Make space there" in caplog.messages[1]
    report.note_leave("grown", {"bytes": 5_000_000, "message": ""})
    assert len(caplog.messages) == 3


def test_work_is_known_while_it_lasts(report: WorkerReport) -> None:
    told = {"op": "progress", "storage_id": 7, "phase": "building", "total": None, "done": 10, "bytes": 100}
    report.note_progress(told)
    assert report.work == {7: ColumnsWork(7, "building", None, 10, 100)}
    report.note_progress({**told, "done": 20, "bytes": 200})
    assert report.work[7].done == 20
    report.note_progress({"op": "progress", "storage_id": 7, "phase": ""})
    assert report.work == {}
    report.note_progress(told)
    report.clear()
    assert report.work == {}


def test_loads_are_counted_by_their_kind(report: WorkerReport) -> None:
    report.note_loaded({"built": True, "seconds": 1.5, "memory": 10})
    report.note_loaded({"built": False, "seconds": 0.25, "memory": 20})
    assert (report.builds, report.build_seconds) == (1, 1.5)
    assert (report.catch_ups, report.catch_up_seconds, report.memory_bytes) == (1, 0.25, 20)


def test_what_is_on_the_disk_is_looked_up(report: WorkerReport, tmp_path: Path) -> None:
    assert (report.file_bytes, report.spill_bytes) == (0, 0)
    (tmp_path / "columns.duckdb").write_bytes(b"x" * 1000)
    (tmp_path / "spill" / "a").write_bytes(b"x" * 10)
    (tmp_path / "spill" / "b").write_bytes(b"x" * 20)
    assert (report.file_bytes, report.spill_bytes) == (1000, 30)
