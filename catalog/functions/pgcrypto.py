"""The extension pgcrypto (PostgreSQL 16 manual, F.26): digests and random bytes. Calls of ciphers, crypt() and PGP
raise 0A000."""

from __future__ import annotations

import hashlib
import hmac
import secrets

from catalog.errors import SqlError
from catalog.functions.base import Trait
from catalog.functions.registry import implement
from catalog.functions.uuid import random_uuid

_ALGORITHMS = frozenset({"md5", "sha1", "sha224", "sha256", "sha384", "sha512"})
_MOST_RANDOM = 1024  # bytes for one call


def _algorithm(name: str) -> str:
    found = name.lower()
    if found not in _ALGORITHMS:
        raise SqlError("22023", f'Cannot use "{name}": No such hash algorithm')
    return found


def _bytes(data: str | bytes) -> bytes:
    return data.encode() if isinstance(data, str) else data


def _digest(data: str | bytes, name: str) -> bytes:
    return hashlib.new(_algorithm(name), _bytes(data), usedforsecurity=False).digest()


def _hmac(data: str | bytes, key: str | bytes, name: str) -> bytes:
    return hmac.new(_bytes(key), _bytes(data), _algorithm(name)).digest()


def _random_bytes(count: int) -> bytes:
    if not 1 <= count <= _MOST_RANDOM:
        raise SqlError("39000", "Length not in range")
    return secrets.token_bytes(count)


implement("pg_digest", _digest)
implement("pg_hmac", _hmac)
implement("pg_random_bytes", _random_bytes, traits=(Trait.CLOCK_OR_CHANCE,))
implement("pg_random_uuid", random_uuid, traits=(Trait.CLOCK_OR_CHANCE,))
