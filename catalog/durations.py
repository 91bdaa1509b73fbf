"""Durations as histograms, which the measured code updates and /metrics reads.

    WAIT = durations("shoal_lock_wait_seconds", space="row")      once: the same name and labels are one histogram
    WAIT.add(nanoseconds)                                         each time

One process is one node, so they are kept for the process. A bucket is a power of two of a nanosecond, so adding is
counting bits; this is for what happens thousands of times a second, not for every statement (engine/statistics has a
way of its own for these, with the same buckets).
"""

from __future__ import annotations

from collections.abc import Iterator

BUCKETS = 64

_known: dict[tuple[str, tuple[tuple[str, str], ...]], Durations] = {}


class Durations:
    """`buckets[n]` counts what took less than 2^n nanoseconds, and not less than half of that; element 0, which no
    time falls into, is the sum of all in nanoseconds."""

    __slots__ = ("buckets",)

    def __init__(self) -> None:
        self.buckets = [0] * BUCKETS

    def add(self, nanoseconds: int) -> None:
        self.buckets[nanoseconds.bit_length()] += 1
        self.buckets[0] += nanoseconds

    def add_seconds(self, seconds: float) -> None:
        """The same of what a clock of seconds has measured."""
        self.add(max(int(seconds * 1e9), 1))


def durations(name: str, **labels: str) -> Durations:
    """The histogram of that name (as /metrics shows it) and these labels."""
    key = (name, tuple(sorted(labels.items())))
    found = _known.get(key)
    return found if found is not None else _known.setdefault(key, Durations())


def all_durations() -> Iterator[tuple[str, dict[str, str], Durations]]:
    """Every histogram: its name, its labels, itself."""
    for (name, labels), found in sorted(_known.items(), key=lambda item: item[0]):
        yield name, dict(labels), found
