"""The wall clock in the units of timestamptz."""

from __future__ import annotations

import time

EPOCH_2000 = 946_684_800_000_000  # microseconds from 1970-01-01 to 2000-01-01


def now() -> int:
    """Microseconds since 2000-01-01 UTC."""
    return time.time_ns() // 1000 - EPOCH_2000
