"""Where a table is cut, and what is taken over."""

from __future__ import annotations

from engine.checkpoint.manifest import RangeFile, StoredFile
from engine.checkpoint.ranges import Found, Rewrite, plan, whole_table

BYTES = 1_000_000


def old(low: str, rows: int) -> RangeFile:
    return RangeFile(StoredFile(f"f{low}", 1, "0"), rows, rows, low, low, low, "")


def steps(*found: tuple[str, bool, int], target: int = 100) -> list[object]:
    """Steps as 'keep <low>' or (low, high, rows a file)."""
    made = plan([Found(old(low, rows), changed, rows, rows) for low, changed, rows in found], target, BYTES)
    return [(s.low, s.high, s.rows) if isinstance(s, Rewrite) else f"keep {s.low}" for s in made]


def test_ranges_without_a_change_stay() -> None:
    assert steps(("", False, 100), ("10", True, 100), ("20", False, 100)) == ["keep ", ("10", "20", 200), "keep 20"]


def test_neighbours_that_changed_keep_their_cut() -> None:
    assert steps(("", True, 90), ("10", True, 90)) == [("", "10", 200), ("10", None, 200)]


def test_a_range_that_has_grown_past_twice_the_target_is_written_as_several() -> None:
    assert steps(("", True, 200), ("10", True, 201)) == [("", "10", 200), ("10", None, 67)]


def test_a_range_that_has_shrunk_joins_a_neighbour() -> None:
    assert steps(("", False, 100), ("10", True, 20), ("20", False, 100)) == [("", "20", 200), "keep 20"]
    assert steps(("", True, 10), ("10", False, 100), ("20", False, 100)) == [("", "20", 200), "keep 20"]
    assert steps(("", True, 10), ("10", True, 10), ("20", True, 10)) == [("", None, 200)]


def test_a_small_range_without_a_change_is_left_alone() -> None:
    assert steps(("", False, 10), ("10", False, 10), ("20", True, 100)) == ["keep ", "keep 10", ("20", None, 200)]


def test_a_small_range_does_not_join_a_large_one() -> None:
    assert steps(("", False, 140), ("10", True, 20), ("20", False, 140)) == ["keep ", ("10", "20", 200), "keep 20"]


def test_bytes_count_as_rows_do() -> None:
    found = [Found(old("", 10), True, 10, 5 * BYTES)]
    assert plan(found, 100, BYTES) == [Rewrite("", None, 2, 2 * BYTES)]


def test_a_new_table_is_cut_at_the_target() -> None:
    assert whole_table(100, BYTES) == [Rewrite("", None, 100, BYTES)]
