"""Durations as histograms, which the measured code updates and /metrics reads.

    WAIT = durations("shoal_lock_wait_seconds", space="row")      once: equal names and labels are one histogram
    WAIT.add(nanoseconds)                                         for each duration

A process is one node, so a histogram counts for the process. The buckets are powers of two of a nanosecond, so that
`add` only counts bits. It is fast enough for thousands of durations per second, but not for every statement:
engine/statistics counts those separately, with the same buckets.
"""

from __future__ import annotations

from collections.abc import Iterator

BUCKETS = 64

_known: dict[tuple[str, tuple[tuple[str, str], ...]], Durations] = {}


class Durations:
    """`buckets[n]` counts durations of at least 2^(n-1) and less than 2^n nanoseconds. Element 0, which no duration
    falls into, is the sum of all durations in nanoseconds."""

    __slots__ = ("buckets",)

    def __init__(self) -> None:
        self.buckets = [0] * BUCKETS

    def add(self, nanoseconds: int) -> None:
        self.buckets[nanoseconds.bit_length()] += 1
        self.buckets[0] += nanoseconds

    def add_seconds(self, seconds: float) -> None:
        """Adds a duration in seconds, at least one nanosecond."""
        self.add(max(int(seconds * 1e9), 1))


def durations(name: str, **labels: str) -> Durations:
    """The histogram with this name (of /metrics) and these labels."""
    key = (name, tuple(sorted(labels.items())))
    found = _known.get(key)
    return found if found is not None else _known.setdefault(key, Durations())


def all_durations() -> Iterator[tuple[str, dict[str, str], Durations]]:
    """All histograms, as (name, labels, histogram)."""
    for (name, labels), found in sorted(_known.items(), key=lambda item: item[0]):
        yield name, dict(labels), found
