"""TLS on a connection that has been accepted: after an SSLRequest, or from the first byte on (direct TLS).

Nothing that came in the clear may count as if it had come by TLS (CVE-2021-23214): reading stops before the client is
told to begin, and what is there all the same ends the connection. While the handshake lasts the connection is busy:
what is decrypted waits in its core until its answers go through TLS too.

Nodes of a cluster speak direct TLS to each other where they have certificates: to the one certificate whose hash the
other node has registered, whoever has issued it.

Direct TLS is only for who says by ALPN that he speaks PostgreSQL's protocol (PostgreSQL 17 manual, 55.2.10), so that a
browser's request is never taken for one.
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
    """A TLS handshake that failed; the message says why."""


def for_clients(context: ssl.SSLContext) -> ssl.SSLContext:
    """A server's context that takes PostgreSQL's clients."""
    context.set_alpn_protocols([ALPN])
    return context


@cache
def for_nodes() -> ssl.SSLContext:
    """A client's context for other nodes: `check_certificate` says whom it has reached."""
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
    """The transport that goes through TLS. `began`: what has been read of the client's first message, where TLS begins
    with the connection. Raises NotTlsError."""
    loop = asyncio.get_running_loop()
    if began:
        # start_tls has put its protocol in place, and calls it, before anything is read: this comes right behind.
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
