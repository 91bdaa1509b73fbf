"""uuid: random ones (PostgreSQL 16 manual, 9.14)."""

from __future__ import annotations

import uuid

from catalog.functions.registry import implement


def random_uuid() -> bytes:
    """gen_random_uuid(): version 4."""
    return uuid.uuid4().bytes


implement("gen_random_uuid", random_uuid, "unhex(replace(CAST(gen_random_uuid() AS VARCHAR), '-', ''))")
implement("uuid_cmp", lambda left, right: int(left > right) - int(left < right))
