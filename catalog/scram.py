"""SCRAM-SHA-256 verifiers, the stored form of passwords (RFC 5802, RFC 7677; PostgreSQL 16 manual, 53.8 pg_authid)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
import stringprep
import unicodedata

ITERATIONS = 4096
_VERIFIER = re.compile(r"SCRAM-SHA-256\$\d+:[A-Za-z0-9+/=]+\$[A-Za-z0-9+/=]+:[A-Za-z0-9+/=]+")


def verifier(password: str, salt: bytes | None = None, iterations: int = ITERATIONS) -> str:
    """Makes the verifier 'SCRAM-SHA-256$<iterations>:<salt>$<stored key>:<server key>' of a password. If `password` is
    a verifier already, returns it unchanged."""
    if _VERIFIER.fullmatch(password):
        return password
    salt = salt if salt is not None else secrets.token_bytes(16)
    salted = hashlib.pbkdf2_hmac("sha256", prepare_password(password).encode(), salt, iterations)
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    stored = hashlib.sha256(client_key).digest()
    server = hmac.digest(salted, b"Server Key", "sha256")
    parts = [base64.b64encode(item).decode() for item in (salt, stored, server)]
    return f"SCRAM-SHA-256${iterations}:{parts[0]}${parts[1]}:{parts[2]}"


def parts(kept: str) -> tuple[int, bytes, bytes, bytes]:
    """A verifier's iterations, salt, stored key and server key."""
    _, first, second = kept.split("$")
    iterations, salt = first.split(":")
    stored, server = second.split(":")
    return int(iterations), base64.b64decode(salt), base64.b64decode(stored), base64.b64decode(server)


_PROHIBITED = (
    stringprep.in_table_c12,
    stringprep.in_table_c21_c22,
    stringprep.in_table_c3,
    stringprep.in_table_c4,
    stringprep.in_table_c5,
    stringprep.in_table_c6,
    stringprep.in_table_c7,
    stringprep.in_table_c8,
    stringprep.in_table_c9,
    stringprep.in_table_a1,
)


def prepare_password(password: str) -> str:
    """SASLprep (RFC 4013), as in clients. A password that it does not allow stays unchanged, as in libpq."""
    if password.isascii():
        return password
    mapped = "".join(
        " " if stringprep.in_table_c12(char) else char for char in password if not stringprep.in_table_b1(char)
    )
    found = unicodedata.ucd_3_2_0.normalize("NFKC", mapped)
    if not found or any(table(char) for char in found for table in _PROHIBITED):
        return password
    right = [stringprep.in_table_d1(char) for char in found]
    if any(right) and not (right[0] and right[-1] and not any(map(stringprep.in_table_d2, found))):
        return password
    return found


def matches(password: str, kept: str) -> bool:
    """Whether the verifier was made from this password. Takes the time of ITERATIONS hashes."""
    if not _VERIFIER.fullmatch(kept) or _VERIFIER.fullmatch(password):
        return False
    iterations, salt = kept.split("$")[1].split(":")
    return hmac.compare_digest(kept, verifier(password, base64.b64decode(salt), int(iterations)))
