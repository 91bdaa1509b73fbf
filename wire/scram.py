"""SCRAM-SHA-256, the server's side of one exchange (RFC 5802, RFC 7677; PostgreSQL 16 manual, 55.3).

    exchange = Exchange(verifier or None, name, mock_key)
    exchange.first(mechanism, data)      the client's first message -> our challenge
    exchange.final(data)                 the client's proof -> our own; raises 28P01

Passwords are stored only as verifiers (catalog/scram.py), and never come here. libpq leaves the name in the message
empty: the one in the startup packet counts. An unknown role, or one without a password, gets a challenge like others,
with a salt made from the name and a key that all nodes of a cluster have and that restarts do not change; it is refused
at the end. Comparisons take constant time. Channel binding is not offered: a client that requires it gets an error.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets

from catalog.errors import SqlError
from catalog.scram import ITERATIONS, parts

MECHANISM = "SCRAM-SHA-256"


def _malformed_error() -> SqlError:
    return SqlError("08P01", "malformed SCRAM message", severity="FATAL")


def password_error(name: str) -> SqlError:
    """The error for a failed authentication, the same for every reason, so that nobody learns which names exist."""
    return SqlError("28P01", f'password authentication failed for user "{name}"', severity="FATAL")


class Exchange:
    """One exchange. `verifier`: the role's, None if it cannot log in."""

    def __init__(self, verifier: str | None, name: str, mock_key: bytes) -> None:
        self._name = name
        self._known = verifier is not None
        if verifier is None:
            self._iterations = ITERATIONS
            self._salt = hmac.digest(mock_key, name.encode(), "sha256")[:16]
            self._stored_key = self._server_key = secrets.token_bytes(32)
        else:
            self._iterations, self._salt, self._stored_key, self._server_key = parts(verifier)
        self._header = ""
        self._nonce = ""
        self._so_far = ""
        self.challenged = False

    def first(self, mechanism: str, data: bytes) -> bytes:
        """Raises 08P01, 0A000 (FATAL)."""
        if mechanism != MECHANISM:
            raise SqlError("08P01", "client selected an invalid SASL authentication mechanism", severity="FATAL")
        text = _text(data)
        binding, _, rest = text.partition(",")
        if binding.startswith("p="):
            raise SqlError("0A000", "channel binding is not supported", severity="FATAL")
        identity, _, bare = rest.partition(",")
        if identity.startswith("a="):
            raise SqlError("0A000", "an authorization identity is not supported", severity="FATAL")
        attributes = bare.split(",")
        if binding not in ("n", "y") or identity or len(attributes) < 2:
            raise _malformed_error()
        user, nonce = attributes[:2]
        if not user.startswith("n=") or not nonce.startswith("r=") or not _printable(nonce[2:]):
            raise _malformed_error()
        self._header = f"{binding},,"
        self._nonce = nonce[2:] + base64.b64encode(secrets.token_bytes(18)).decode()
        challenge = f"r={self._nonce},s={base64.b64encode(self._salt).decode()},i={self._iterations}"
        self._so_far = f"{bare},{challenge}"
        self.challenged = True
        return challenge.encode()

    def final(self, data: bytes) -> bytes:
        """Raises 08P01, 28P01 (FATAL)."""
        text = _text(data)
        without_proof, separator, proof_text = text.rpartition(",p=")
        attributes = without_proof.split(",")
        if not separator or len(attributes) < 2 or attributes[1] != f"r={self._nonce}":
            raise _malformed_error()
        try:
            header = base64.b64decode(attributes[0].removeprefix("c="), validate=True)
            proof = base64.b64decode(proof_text, validate=True)
        except binascii.Error:
            raise _malformed_error() from None
        if header != self._header.encode() or len(proof) != len(self._stored_key):
            raise _malformed_error()
        message = f"{self._so_far},{without_proof}".encode()
        signature = hmac.digest(self._stored_key, message, "sha256")
        key = bytes(one ^ other for one, other in zip(proof, signature, strict=True))
        if not hmac.compare_digest(hashlib.sha256(key).digest(), self._stored_key) or not self._known:
            raise password_error(self._name)
        return b"v=" + base64.b64encode(hmac.digest(self._server_key, message, "sha256"))


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise _malformed_error() from None


def _printable(nonce: str) -> bool:
    return bool(nonce) and all("!" <= char <= "~" and char != "," for char in nonce)
