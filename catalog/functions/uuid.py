"""uuid: random ones (PostgreSQL 16 manual, 9.14)."""

from __future__ import annotations

import uuid

from catalog.functions.base import Trait
from catalog.functions.registry import implement


def random_uuid() -> bytes:
    """gen_random_uuid(): version 4."""
    return uuid.uuid4().bytes


_RANDOM_SQL = "unhex(replace(CAST(gen_random_uuid() AS VARCHAR), '-', ''))"

implement("gen_random_uuid", random_uuid, _RANDOM_SQL, traits=(Trait.CLOCK_OR_CHANCE,))
implement("uuid_cmp", lambda left, right: int(left > right) - int(left < right))
