"""Decides which ranges of a table are written again, and where files are cut.

A table is divided into ranges of its key order, about TARGET_ROWS rows each. The cuts of the previous checkpoint are
kept, so that a range without a change reuses the old file. A range that has grown past twice the target is divided. A
range that has shrunk below a quarter is merged with a neighbour, if both together have at most one and a half targets.
An empty range is merged with the one before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.checkpoint.manifest import RangeFile

TARGET_ROWS = 250_000
TARGET_BYTES = 128 << 20  # of stored rows


@dataclass(frozen=True, slots=True)
class Found:
    """The present state of a range of the previous checkpoint. `rows` and `size` (stored bytes) may be those of the
    previous checkpoint, if they have not been counted."""

    old: RangeFile
    changed: bool
    rows: int
    size: int


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A range [low, high) to write. Cuts are as in manifest.RangeFile; None as `high` is the end of the table.

    A file is closed at `rows` rows or `size` stored bytes, whichever comes first.
    """

    low: str
    high: str | None
    rows: int
    size: int


def whole_table(target_rows: int, target_bytes: int) -> list[Rewrite | RangeFile]:
    """The plan for a table of which nothing can be reused."""
    return [Rewrite("", None, target_rows, target_bytes)]


def plan(found: Sequence[Found], target_rows: int, target_bytes: int) -> list[Rewrite | RangeFile]:
    """The plan for a table's ranges, in key order: old files to reuse, and ranges to write."""
    groups: list[list[Found]] = []
    for item in found:
        if groups and _joins(groups[-1], item, target_rows, target_bytes):
            groups[-1].append(item)
        else:
            groups.append([item])
    bounds: list[str | None] = [group[0].old.low for group in groups[1:]]
    steps: list[Rewrite | RangeFile] = []
    for group, high in zip(groups, [*bounds, None], strict=True):
        if len(group) == 1 and not group[0].changed:
            steps.append(group[0].old)
            continue
        rows, size = sum(item.rows for item in group), sum(item.size for item in group)
        pieces = max(_pieces(rows, target_rows), _pieces(size, target_bytes))
        if pieces == 1:
            steps.append(Rewrite(group[0].old.low, high, 2 * target_rows, 2 * target_bytes))
        else:
            steps.append(Rewrite(group[0].old.low, high, -(-rows // pieces), 2 * target_bytes))
    return steps


def _pieces(amount: int, target: int) -> int:
    return 1 if amount <= 2 * target else -(-amount // target)


def _joins(group: Sequence[Found], item: Found, target_rows: int, target_bytes: int) -> bool:
    """Whether a range must be written together with those before it."""
    if not item.changed and not any(member.changed for member in group):
        return False
    rows, size = sum(member.rows for member in group), sum(member.size for member in group)
    small = (_is_small(rows, size, target_rows, target_bytes) and any(member.changed for member in group)) or (
        item.changed and _is_small(item.rows, item.size, target_rows, target_bytes)
    )
    return small and 2 * (rows + item.rows) <= 3 * target_rows and 2 * (size + item.size) <= 3 * target_bytes


def _is_small(rows: int, size: int, target_rows: int, target_bytes: int) -> bool:
    return 4 * rows < target_rows and 4 * size < target_bytes
