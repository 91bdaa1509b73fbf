"""Ciphers of the extension pgcrypto: encrypt() and decrypt(), and what PGP messages need.

The package cryptography is imported at the first use, because most servers never need it and it would delay their
start.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from catalog.errors import SqlError
from catalog.functions.registry import implement

_ALIASES = {
    "bf": "bf-cbc", "blowfish": "bf-cbc", "blowfish-cbc": "bf-cbc", "blowfish-ecb": "bf-ecb", "des": "des-cbc",
    "3des": "des3-cbc", "3des-cbc": "des3-cbc", "3des-ecb": "des3-ecb", "cast5": "cast5-cbc", "aes": "aes-cbc",
    "rijndael": "aes-cbc", "rijndael-cbc": "aes-cbc", "rijndael-ecb": "aes-ecb",
}  # fmt: skip
_TYPE = re.compile(r"([^/]*)(?:/([^:/]*):([^:/]*))?")


@dataclass(frozen=True)
class _Kind:
    """A block cipher. `key`: the most bytes of a key; longer ones are cut."""

    block: int
    key: int
    make: Callable[[bytes], Any]


def _aes(key: bytes) -> Any:
    from cryptography.hazmat.primitives.ciphers.algorithms import AES

    size = 16 if len(key) <= 16 else 24 if len(key) <= 24 else 32
    return AES(key.ljust(size, b"\0"))


def _triple_des(key: bytes) -> Any:
    from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES

    return TripleDES(key.ljust(24, b"\0"))


def _single_des(key: bytes) -> Any:
    return _triple_des(key.ljust(8, b"\0") * 3)


def _blowfish(key: bytes) -> Any:
    from cryptography.hazmat.decrepit.ciphers.algorithms import Blowfish

    if not key:
        raise ValueError
    while len(key) < 4:
        key += key  # its schedule repeats the key
    return Blowfish(key)


def _cast5(key: bytes) -> Any:
    from cryptography.hazmat.decrepit.ciphers.algorithms import CAST5

    return CAST5(key.ljust(5, b"\0"))


_KINDS = {
    "aes": _Kind(16, 32, _aes),
    "des3": _Kind(8, 24, _triple_des),
    "des": _Kind(8, 8, _single_des),
    "bf": _Kind(8, 56, _blowfish),
    "cast5": _Kind(8, 16, _cast5),
}


def run_cipher(algorithm: Any, mode: Any, data: bytes, encrypts: bool) -> bytes:
    """Encrypts or decrypts by an algorithm and a mode of cryptography."""
    from cryptography.hazmat.primitives.ciphers import Cipher

    cipher = Cipher(algorithm, mode)
    step = cipher.encryptor() if encrypts else cipher.decryptor()
    return bytes(step.update(data) + step.finalize())


def cipher_with_key(kind: str, key: bytes) -> tuple[Any, int]:
    """Returns a cipher (aes, des3, bf, cast5) with its key, and the bytes of a block."""
    found = _KINDS[kind]
    return found.make(key), found.block


def _parse(text: str) -> tuple[str, str, bool]:
    """Splits 'aes-cbc/pad:pkcs' into cipher, mode and whether there is padding. Raises 22023."""
    unknown = SqlError("22023", f'Cannot use "{text}": No such cipher algorithm')
    found = _TYPE.fullmatch(text.lower())
    if found is None:
        raise SqlError("22023", f'Cannot use "{text}": Badly formatted type')
    name = _ALIASES.get(found[1], found[1])
    kind, _, mode = name.partition("-")
    if kind not in _KINDS or mode not in ("cbc", "ecb"):
        raise unknown
    if found[2] not in (None, "pad"):
        raise SqlError("22023", f'Cannot use "{text}": Unknown option')
    if found[3] not in (None, "pkcs", "none"):
        raise unknown
    return kind, mode, found[3] != "none"


def _run(data: bytes, key: bytes, vector: bytes, type_: str, encrypts: bool) -> bytes:
    from cryptography.hazmat.primitives.ciphers import modes
    from cryptography.hazmat.primitives.padding import PKCS7

    name, mode, pads = _parse(type_)
    kind = _KINDS[name]
    try:
        algorithm = kind.make(key[: kind.key])
    except ValueError:
        raise _failure(encrypts, "Cipher cannot be initialized") from None
    first = vector[: kind.block].ljust(kind.block, b"\0")
    made = modes.CBC(first) if mode == "cbc" else modes.ECB()
    padding = PKCS7(8 * kind.block)
    try:
        if encrypts and pads:
            padder = padding.padder()
            data = padder.update(data) + padder.finalize()
        found = run_cipher(algorithm, made, data, encrypts)
        if not encrypts and pads:
            unpadder = padding.unpadder()
            found = unpadder.update(found) + unpadder.finalize()
    except ValueError:
        raise _failure(encrypts, "Encryption failed" if encrypts else "Decryption failed") from None
    return found


def _failure(encrypts: bool, why: str) -> SqlError:
    return SqlError("39000", f"{'encrypt' if encrypts else 'decrypt'} error: {why}")


implement("pg_encrypt", lambda data, key, type_: _run(data, key, b"", type_, True))
implement("pg_decrypt", lambda data, key, type_: _run(data, key, b"", type_, False))
implement("pg_encrypt_iv", lambda data, key, vector, type_: _run(data, key, vector, type_, True))
implement("pg_decrypt_iv", lambda data, key, vector, type_: _run(data, key, vector, type_, False))
