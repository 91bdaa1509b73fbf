"""Examines the changelog of a stopped server without changing it: its range of LSNs, and its damage.

It follows the rules of a start (replication/local.py), but continues after the first damage, and removes nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field

from catalog.errors import SqlError
from replication.commit_parts import Parts
from replication.durable_mark import read_mark
from replication.segments import (
    BLOCK,
    SegmentEntry,
    chain_entries,
    decode_segment_header,
    later_entries,
    list_segments,
    map_file,
    segment_name,
)


@dataclass(slots=True)
class Examination:
    """`first`, `last`: the LSNs of its entries, 0 without any; `acknowledged`: the last LSN that is known to be
    acknowledged; `parts`: of the entries after `after` that belong to several tablespaces."""

    first: int = 0
    last: int = 0
    entries: int = 0
    bytes: int = 0
    acknowledged: int = 0
    torn: int = 0  # entries of a group after the end that was never acknowledged
    parts: list[tuple[int, Parts]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def examine(directory: str, tablespace: bytes, after: int, look: Callable[[SegmentEntry], str]) -> Examination:
    """`after`: the last LSN in the tables. `look` gets every later entry, and returns its error, '' if there is
    none."""
    found = Examination()
    starts = list_segments(directory)
    try:
        found.acknowledged = read_mark(os.path.join(directory, "durable"))
    except (OSError, SqlError):
        found.problems.append("the file 'durable' is missing or broken: it tells what was acknowledged")
    known: bytes | None = None
    for number, start in enumerate(starts):
        path = os.path.join(directory, segment_name(start))
        found.bytes += os.path.getsize(path)
        try:
            with map_file(path) as data:
                known = _examine_segment(data, start, known, tablespace, after, look, found)
        except SqlError as error:
            found.problems.append(error.message)
            known = None
        if number + 1 < len(starts) and found.last < starts[number + 1] - 1:
            found.problems.append(f"{_format_range(found.last + 1, starts[number + 1] - 1)} here and cannot be read")
            known = None
    found.first = starts[0] if starts else 0
    if starts and starts[0] > after + 1:
        found.problems.append(
            f"{_format_range(after + 1, starts[0] - 1)} here and are missing: the tables end at {after}"
        )
    if max(found.last, after) < found.acknowledged:
        lost = _format_range(max(found.last, after) + 1, found.acknowledged)
        found.problems.append(f"{lost} acknowledged and cannot be read")
    return found


def _format_range(first: int, last: int) -> str:
    return f"entry {first} was" if first == last else f"entries {first} to {last} were"


def _examine_segment(
    data: memoryview,
    start: int,
    known: bytes | None,
    tablespace: bytes,
    after: int,
    look: Callable[[SegmentEntry], str],
    found: Examination,
) -> bytes:
    """The hash of its last entry."""
    previous = decode_segment_header(data, start, tablespace)
    if known is not None and previous != known:
        found.problems.append(f"segment {segment_name(start)} does not continue the one before it")
    end, found.last = BLOCK, start - 1
    for entry in chain_entries(data, start, previous, tablespace):
        found.last, end, previous = entry.header.lsn, entry.end, entry.hash
        found.entries += 1
        if entry.header.lsn <= after:
            continue
        if entry.parts:
            found.parts.append((entry.header.lsn, entry.parts))
        if wrong := look(entry):
            found.problems.append(f"entry {entry.header.lsn}: {wrong}")
    later = list(later_entries(data, end, found.last, tablespace))
    found.torn += len(later)
    if any(header.committed > found.last for header in later):
        found.problems.append(f"entry {found.last + 1} was acknowledged and cannot be read")
    return previous
