"""TLS on a connection that has been accepted: after an SSLRequest, or from the first byte on (direct TLS).

Nothing that came in the clear may count as if it had come by TLS (CVE-2021-23214): reading stops before the client is
told to begin, and what is there all the same ends the connection. While the handshake lasts the connection is busy:
what is decrypted waits in its core until its answers go through TLS too.

Direct TLS is only for who says by ALPN that he speaks PostgreSQL's protocol (PostgreSQL 17 manual, 55.2.10), so that a
browser's request is never taken for one.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

HELLO = 0x16  # the first byte of TLS; as the length of a startup packet it would be too long
ALPN = "postgresql"


class NotTlsError(Exception):
    """What went wrong, in words."""


def for_clients(context: ssl.SSLContext) -> ssl.SSLContext:
    """A server's context that takes PostgreSQL's clients."""
    context.set_alpn_protocols([ALPN])
    return context


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
