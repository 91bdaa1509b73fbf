"""The extension uuid-ossp (PostgreSQL 16 manual, F.49)."""

from __future__ import annotations

import secrets
import uuid

from catalog.functions.base import Trait
from catalog.functions.registry import implement


def _with_random_node() -> bytes:
    """uuid_generate_v1mc(): version 1, with a random multicast address instead of the machine's."""
    return uuid.uuid1(node=secrets.randbits(48) | 1 << 40).bytes


implement("uuid_generate_v1", lambda: uuid.uuid1().bytes, traits=(Trait.CLOCK_OR_CHANCE,))
implement("uuid_generate_v1mc", _with_random_node, traits=(Trait.CLOCK_OR_CHANCE,))
implement("uuid_generate_v3", lambda space, name: uuid.uuid3(uuid.UUID(bytes=space), name).bytes)
implement("uuid_generate_v4", lambda: uuid.uuid4().bytes, traits=(Trait.CLOCK_OR_CHANCE,))
implement("uuid_generate_v5", lambda space, name: uuid.uuid5(uuid.UUID(bytes=space), name).bytes)
implement("uuid_nil", lambda: bytes(16))
implement("uuid_ns_dns", lambda: uuid.NAMESPACE_DNS.bytes)
implement("uuid_ns_url", lambda: uuid.NAMESPACE_URL.bytes)
implement("uuid_ns_oid", lambda: uuid.NAMESPACE_OID.bytes)
implement("uuid_ns_x500", lambda: uuid.NAMESPACE_X500.bytes)
