"""TLS on an accepted connection: after an SSLRequest, or from the first byte on (direct TLS).

Bytes that arrived unencrypted must never count as bytes of TLS (CVE-2021-23214): reading stops before the answer after
which the client begins, and earlier bytes end the connection. During the handshake the connection is busy: decrypted
bytes wait in its core until its answers are encrypted too.

Nodes of a cluster use direct TLS between each other if they have certificates. They accept only the certificate whose
hash the other node has registered, whatever its issuer.

Direct TLS is only for clients that announce PostgreSQL's protocol by ALPN (PostgreSQL 17 manual, 55.2.10), so that a
browser's request is never accepted as a client.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ssl
from functools import cache
from typing import Any

HELLO = 0x16  # the first byte of TLS; as the length of a startup packet it would be too long
ALPN = "postgresql"


class NotTlsError(Exception):
    """A TLS handshake that failed; the message has the reason."""


def for_clients(context: ssl.SSLContext) -> ssl.SSLContext:
    """A server's context that takes PostgreSQL's clients."""
    context.set_alpn_protocols([ALPN])
    return context


@cache
def for_nodes() -> ssl.SSLContext:
    """A client's context for other nodes: `check_certificate` verifies the other side."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols([ALPN])
    return context


def hash_of(certificate: bytes) -> str:
    """The hash of a certificate in DER."""
    return hashlib.sha256(certificate).hexdigest()


def check_certificate(transport: Any, wanted: str) -> None:
    """Raises NotTlsError when the other side's certificate has another hash."""
    shown = transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
    if shown is None or not hmac.compare_digest(hash_of(shown), wanted):
        raise NotTlsError("another certificate than the node has registered")


async def upgrade(
    transport: Any, protocol: asyncio.Protocol, context: ssl.SSLContext, timeout: float, began: bytes
) -> Any:
    """The transport over TLS. `began`: the bytes of the client's first message, if TLS begins with the connection.
    Raises NotTlsError."""
    loop = asyncio.get_running_loop()
    if began:
        # start_tls has set its protocol, and calls it, before anything is read: this follows at once.
        loop.call_soon(loop.call_soon, _feed, transport, began)
    try:
        secured = await loop.start_tls(transport, protocol, context, server_side=True, ssl_handshake_timeout=timeout)
    except (OSError, ssl.SSLError) as error:
        raise NotTlsError(str(error)) from None
    if secured is None:
        raise NotTlsError("the client has gone")
    if began and secured.get_extra_info("ssl_object").selected_alpn_protocol() != ALPN:
        secured.close()
        raise NotTlsError(f"direct TLS without ALPN {ALPN}")
    return secured


def _feed(transport: Any, data: bytes) -> None:
    protocol = transport.get_protocol()
    while data and not transport.is_closing():
        buffer = protocol.get_buffer(len(data))
        taken = min(len(buffer), len(data))
        buffer[:taken] = data[:taken]
        data = data[taken:]
        protocol.buffer_updated(taken)
