"""pg_lsn: positions in the log, their distances and their order (pg_lsn.c). Internal form `int`."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal

from catalog.errors import SqlError
from catalog.functions.integers import comparisons
from catalog.functions.registry import implement

_END = 1 << 64


def _from_numeric(value: Decimal) -> int:
    """numeric -> pg_lsn, rounded. Raises 0A000 for NaN and infinities, 22023 for values out of range."""
    if not value.is_finite():
        raise SqlError("0A000", f"cannot convert {'NaN' if value.is_nan() else 'infinity'} to pg_lsn")
    found = int(value.to_integral_value(ROUND_HALF_UP))
    if not 0 <= found < _END:
        raise SqlError("22023", "pg_lsn out of range")
    return found


def _move(position: int, distance: Decimal, sign: int, verb: str) -> int:
    if distance.is_nan():
        raise SqlError("0A000", f"cannot {verb} pg_lsn")
    if not distance.is_finite():
        return _from_numeric(distance)
    return _from_numeric(Decimal(position) + sign * distance)


comparisons("pg_lsn_{}")
implement("pg_lsn_cmp", lambda left, right: (left > right) - (left < right))
implement("pg_lsn_larger", max)
implement("pg_lsn_smaller", min)
implement("numeric_pg_lsn", _from_numeric)
implement("pg_lsn_pli", lambda position, distance: _move(position, distance, 1, "add NaN to"))
implement("numeric_pl_pg_lsn", lambda distance, position: _move(position, distance, 1, "add NaN to"))
implement("pg_lsn_mii", lambda position, distance: _move(position, distance, -1, "subtract NaN from"))
for _name in ("pg_lsn_mi", "pg_wal_lsn_diff"):
    implement(_name, lambda left, right: Decimal(left - right))
