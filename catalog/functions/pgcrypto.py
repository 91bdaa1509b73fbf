"""The extension pgcrypto (PostgreSQL 16 manual, F.26): digests, random bytes and password hashes. Its ciphers are in
pgcrypto_ciphers.py, PGP messages in pgcrypto_pgp.py. Calls for public keys of PGP raise 0A000."""

from __future__ import annotations

import ctypes
import ctypes.util
import functools
import hashlib
import hmac
import secrets
from collections.abc import Callable
from dataclasses import dataclass

from catalog.errors import SqlError, not_supported
from catalog.functions.base import Trait
from catalog.functions.registry import implement
from catalog.functions.uuid import random_uuid
from catalog.patience import long_step

_ALGORITHMS = {
    **{name: name for name in ("md5", "sha1", "sha224", "sha256", "sha384", "sha512", "ripemd160", "sm3")},
    **{f"sha3-{size}": f"sha3_{size}" for size in (224, 256, 384, 512)},
    "blake2b512": "blake2b",
    "blake2s256": "blake2s",
}
_MOST_RANDOM = 1024  # bytes for one call


# ---- digests and random bytes ----------------------------------------------------------------------------------------


def algorithm(name: str) -> str:
    """Returns hashlib's name of a hash algorithm. Raises 22023."""
    found = _ALGORITHMS.get(name.lower())
    if found is None or found not in hashlib.algorithms_available:
        raise SqlError("22023", f'Cannot use "{name}": No such hash algorithm')
    return found


def _bytes(data: str | bytes) -> bytes:
    return data.encode() if isinstance(data, str) else data


def _digest(data: str | bytes, name: str) -> bytes:
    return hashlib.new(algorithm(name), _bytes(data), usedforsecurity=False).digest()


def _hmac(data: str | bytes, key: str | bytes, name: str) -> bytes:
    return hmac.new(_bytes(key), _bytes(data), algorithm(name)).digest()


def _random_bytes(count: int) -> bytes:
    if not 1 <= count <= _MOST_RANDOM:
        raise SqlError("39000", "Length not in range")
    return secrets.token_bytes(count)


# ---- salts ----------------------------------------------------------------------------------------------------------

_DIGITS = "./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_BCRYPT_DIGITS = "./ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"


def _digits(number: int, count: int) -> str:
    """Six bits for each character, the lowest ones first."""
    return "".join(_DIGITS[number >> 6 * place & 63] for place in range(count))


def _random_digits(count: int) -> str:
    return "".join(secrets.choice(_DIGITS) for _ in range(count))


def _bcrypt_salt(rounds: int) -> str:
    number = secrets.randbits(128) << 4  # 22 digits; the last one has two bits
    return f"$2a${rounds:02}$" + "".join(_BCRYPT_DIGITS[number >> 6 * place & 63] for place in reversed(range(22)))


@dataclass(frozen=True)
class _SaltKind:
    """A kind of salts. `rounds`: the allowed numbers of rounds; the first one is the default."""

    rounds: Callable[[int], bool]
    default: int
    make: Callable[[int], str]


_SALTS = {
    "des": _SaltKind(lambda rounds: rounds == 25, 25, lambda _: _random_digits(2)),
    "md5": _SaltKind(lambda rounds: rounds == 1000, 1000, lambda _: f"$1${_random_digits(8)}"),
    "xdes": _SaltKind(
        lambda rounds: 1 <= rounds < 1 << 24 and rounds % 2 == 1,
        29 * 25,
        lambda rounds: f"_{_digits(rounds, 4)}{_random_digits(4)}",
    ),
    "bf": _SaltKind(lambda rounds: 4 <= rounds <= 31, 6, _bcrypt_salt),
}


def _make_salt(name: str, rounds: int = 0) -> str:
    """gen_salt(). 0 rounds: the default. Raises 22023."""
    kind = _SALTS.get(name.lower())
    if kind is None:
        raise SqlError("22023", "gen_salt: Unknown salt algorithm")
    if rounds and not kind.rounds(rounds):
        raise SqlError("22023", "gen_salt: Incorrect number of rounds")
    return kind.make(rounds or kind.default)


# ---- crypt() --------------------------------------------------------------------------------------------------------

_STATE_BYTES = 256 << 10  # more than struct crypt_data of any libcrypt
_LONG_BCRYPT = 7  # log2 of rounds that take more than some milliseconds
_LONG_DES = 5000  # rounds
_COMMON_SALT = 3  # bytes: "$1$"


@functools.cache
def _library() -> Callable[[bytes, bytes, ctypes.Array[ctypes.c_char]], bytes | None]:
    """Returns the system's crypt_r(), which has the four algorithms of pgcrypto. Raises 0A000 if there is none."""
    name = ctypes.util.find_library("crypt")
    if name is None:
        not_supported("crypt() on a machine without libcrypt")
    found = ctypes.CDLL(name).crypt_r
    found.restype = ctypes.c_char_p
    found.argtypes = (ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p)
    return found


def _takes_long(salt: str) -> bool:
    if salt.startswith(("$2a$", "$2x$")):
        return salt[4:6].isdecimal() and int(salt[4:6]) >= _LONG_BCRYPT
    if salt.startswith("_"):
        rounds = sum(max(_DIGITS.find(char), 0) << 6 * place for place, char in enumerate(salt[1:5]))
        return rounds > _LONG_DES
    return False


def _crypt(password: str, salt: str) -> str:
    known = salt.startswith(("$1$", "$2a$", "$2x$")) or not salt.startswith("$")
    if not known or len(salt) < _COMMON_SALT - 1:
        raise SqlError("22023", "invalid salt")
    if _takes_long(salt):
        long_step()
    found = _library()(password.encode(), salt.encode(), ctypes.create_string_buffer(_STATE_BYTES))
    if found is None or found.startswith(b"*"):
        raise SqlError("22023", "invalid salt")
    return found.decode()


implement("pg_digest", _digest)
implement("pg_hmac", _hmac)
implement("pg_random_bytes", _random_bytes, traits=(Trait.CLOCK_OR_CHANCE,))
implement("pg_random_uuid", random_uuid, traits=(Trait.CLOCK_OR_CHANCE,))
implement("pg_gen_salt", _make_salt, traits=(Trait.CLOCK_OR_CHANCE,))
implement("pg_gen_salt_rounds", _make_salt, traits=(Trait.CLOCK_OR_CHANCE,))
implement("pg_crypt", _crypt)
