"""Authentication between the nodes of a cluster, when one forwards a client's session to another.

The forwarding node adds reserved parameters to the startup message and signs all of them with the cluster's secret:

    _shoal.node     forwarding node        _shoal.issued   time, microseconds since 1970 (its clock)
    _shoal.target   receiving node         _shoal.nonce    16 random bytes, hexadecimal
    _shoal.client   the client's address   _shoal.proof    HMAC-SHA256 over every other parameter, hexadecimal
    _shoal.home     only for sessions that must run on the leader of pg_default

The secret itself is never sent. The proof covers the user, the database and every setting. It is valid for one node,
for WINDOW seconds, and once: a node keeps the nonces of that time. A forwarded session needs no password: the
forwarding node has authenticated the client, and the user is the one that it found.

A startup message with any `_shoal.` parameter and without a valid proof is refused (28000).
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from catalog.errors import SqlError

PREFIX = "_shoal."
TO_HOME = {f"{PREFIX}home": "on"}
WINDOW = 120.0  # seconds that the clocks of two nodes may differ
NONCES = 200_000  # maximum number: far more forwarded sessions than can be opened in the window
MINIMUM_SECRET = 16  # bytes


@dataclass(frozen=True, slots=True)
class Peer:
    """The node that forwards a session here, and the client's address as that node saw it. `home`: it is for the leader
    of pg_default, not for the leader of other tablespaces."""

    node: str
    client: str
    home: bool = False


def introduce(
    parameters: Mapping[str, str],
    secret: bytes,
    *,
    node: str,
    target: str,
    client: str = "",
    clock: Callable[[], float] = time.time,
) -> dict[str, str]:
    """The startup parameters with which `node` forwards a session to `target`."""
    signed = {
        **parameters,
        f"{PREFIX}node": node,
        f"{PREFIX}target": target,
        f"{PREFIX}client": client,
        f"{PREFIX}issued": str(int(clock() * 1_000_000)),
        f"{PREFIX}nonce": secrets.token_hex(16),
    }
    return {**signed, f"{PREFIX}proof": _proof(secret, signed)}


def _proof(secret: bytes, parameters: Mapping[str, str]) -> str:
    text = b"".join(
        name.encode() + b"\0" + value.encode() + b"\0" for name, value in sorted(parameters.items())
    )  # no name or value contains a zero byte: the startup message ends each with one
    return hmac.new(secret, text, hashlib.sha256).hexdigest()


class PeerVerifier:
    """Checks the nodes that forward sessions to this one. ValueError for a secret of less than MINIMUM_SECRET bytes."""

    def __init__(self, secret: bytes, node: str, clock: Callable[[], float] = time.time) -> None:
        if len(secret) < MINIMUM_SECRET:
            raise ValueError(f"the cluster's secret must have at least {MINIMUM_SECRET} bytes")
        self._secret = secret
        self._node = node
        self._clock = clock
        self._nonces: OrderedDict[str, float] = OrderedDict()  # with the time at which each may be removed

    def check(self, parameters: Mapping[str, str]) -> tuple[Peer | None, dict[str, str]]:
        """The node that forwards the session, None for a client's own, and the parameters that are not reserved.

        Raises 28000 (FATAL).
        """
        reserved = {name: value for name, value in parameters.items() if name.startswith(PREFIX)}
        if not reserved:
            return None, dict(parameters)
        proof = reserved.get(f"{PREFIX}proof", "")
        signed = {name: value for name, value in parameters.items() if name != f"{PREFIX}proof"}
        if not hmac.compare_digest(proof.encode(), _proof(self._secret, signed).encode()):
            raise _refusal("the cluster's secret does not match")
        if reserved.get(f"{PREFIX}target") != self._node:
            raise _refusal(f'this is node "{self._node}", not "{reserved.get(f"{PREFIX}target")}"')
        self._once(reserved.get(f"{PREFIX}nonce", ""), int(reserved.get(f"{PREFIX}issued", "0")) / 1_000_000)
        peer = Peer(
            reserved.get(f"{PREFIX}node", ""), reserved.get(f"{PREFIX}client", ""), reserved.keys() >= TO_HOME.keys()
        )
        return peer, {name: value for name, value in parameters.items() if name not in reserved}

    def _once(self, nonce: str, issued: float) -> None:
        now = self._clock()
        if abs(now - issued) > WINDOW:
            raise _refusal(f"the clocks of the two nodes differ by {abs(now - issued):.0f} s")
        while self._nonces and next(iter(self._nonces.values())) < now:
            self._nonces.popitem(last=False)
        if nonce in self._nonces or len(self._nonces) >= NONCES:
            raise _refusal("the introduction was used before")
        self._nonces[nonce] = now + 2 * WINDOW


def _refusal(why: str) -> SqlError:
    return SqlError("28000", f"a node's introduction was refused: {why}", severity="FATAL")
