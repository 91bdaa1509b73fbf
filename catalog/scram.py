"""SCRAM-SHA-256 verifiers: what is kept of a password (RFC 5802, RFC 7677; PostgreSQL 16 manual, 53.8 pg_authid)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets

ITERATIONS = 4096
_VERIFIER = re.compile(r"SCRAM-SHA-256\$\d+:[A-Za-z0-9+/=]+\$[A-Za-z0-9+/=]+:[A-Za-z0-9+/=]+")


def verifier(password: str, salt: bytes | None = None, iterations: int = ITERATIONS) -> str:
    """'SCRAM-SHA-256$<iterations>:<salt>$<stored key>:<server key>'; a password that already is one stays as it is."""
    if _VERIFIER.fullmatch(password):
        return password
    salt = salt if salt is not None else secrets.token_bytes(16)
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, iterations)
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    stored = hashlib.sha256(client_key).digest()
    server = hmac.digest(salted, b"Server Key", "sha256")
    parts = [base64.b64encode(item).decode() for item in (salt, stored, server)]
    return f"SCRAM-SHA-256${iterations}:{parts[0]}${parts[1]}:{parts[2]}"
