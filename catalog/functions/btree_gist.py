"""The extension btree_gist (PostgreSQL 16 manual, F.7): the distance operator <-> of plain types. Its operator classes
are declared in catalog/data/extensions."""

from __future__ import annotations

from catalog.functions.datetime_arithmetic import days_between
from catalog.functions.floats import subtract, to_single
from catalog.functions.integers import CHECKS
from catalog.functions.money import in_range
from catalog.functions.registry import implement
from catalog.types.base import Interval
from catalog.types.datetime import (
    interval_span,
    negate_interval,
    subtract_intervals,
    subtract_timestamps,
    timestamp_is_infinite,
)

_INFINITELY_FAR = Interval((1 << 31) - 1, (1 << 31) - 1, (1 << 63) - 1)


def _size_of(interval: Interval) -> Interval:
    return negate_interval(interval) if interval_span(interval) < 0 else interval


def _between_moments(left: int, right: int) -> Interval:
    if timestamp_is_infinite(left) or timestamp_is_infinite(right):
        return _INFINITELY_FAR
    return _size_of(subtract_timestamps(left, right))


def _between_singles(left: float, right: float) -> float:
    return abs(to_single(subtract(left, right)))


def _register() -> None:
    for size, check in CHECKS.items():
        implement(f"int{size}_dist", lambda left, right, check=check: check(abs(check(left - right))))
    implement("oid_dist", lambda left, right: abs(left - right))
    implement("cash_dist", lambda left, right: in_range(abs(in_range(left - right))))
    implement("float4_dist", _between_singles)
    implement("float8_dist", lambda left, right: abs(subtract(left, right)))
    implement("date_dist", lambda left, right: abs(days_between(left, right)))
    implement("time_dist", lambda left, right: _size_of(Interval(0, 0, left - right)))
    implement("ts_dist", _between_moments)
    implement("tstz_dist", _between_moments)
    implement("interval_dist", lambda left, right: _size_of(subtract_intervals(left, right)))


_register()
