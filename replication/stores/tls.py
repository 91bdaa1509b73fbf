"""TLS between nodes and log stores (`logs://`): contexts from files, TLS 1.2 or later.

    servers    a certificate and its key; with `client_ca`, only clients with a certificate of that authority
    clients    SHOAL_STORE_TLS_CA: the authority of servers' certificates (default: the system's);
               SHOAL_STORE_TLS_CERT, _KEY: the client's own, for servers that require one

A server's certificate must be for the host, or the address, in the URL. Beyond this machine `log://`, which has no TLS,
requires SHOAL_STORE_PLAINTEXT=allow.
"""

from __future__ import annotations

import contextlib
import ipaddress
import ssl
from collections.abc import Iterable, Mapping

from catalog.errors import SqlError

PLAINTEXT = "SHOAL_STORE_PLAINTEXT"


def server_context(cert: str, key: str, client_ca: str = "") -> ssl.SSLContext:
    """`cert`: a PEM file with the certificate and those between it and its root; `key` '' if it is in there too. Raises
    SqlError 58P01 for unusable files."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(cert, key or None, password=_no_password)
        if client_ca:
            context.load_verify_locations(client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
    except (OSError, ssl.SSLError, ValueError) as error:
        raise _unusable(", ".join(filter(None, (cert, key, client_ca))), error) from None
    return context


def renew_certificate(contexts: Iterable[ssl.SSLContext | None], cert: str, key: str) -> None:
    """Puts a certificate into contexts in use, for new connections. Raises SqlError 58P01 without a change."""
    server_context(cert, key)
    for context in contexts:
        if context is not None:
            context.load_cert_chain(cert, key or None, password=_no_password)


def client_context(environment: Mapping[str, str]) -> ssl.SSLContext:
    """Raises SqlError 58P01 for unusable files."""
    ca = environment.get("SHOAL_STORE_TLS_CA", "")
    cert, key = environment.get("SHOAL_STORE_TLS_CERT", ""), environment.get("SHOAL_STORE_TLS_KEY", "")
    try:
        context = ssl.create_default_context(cafile=ca or None)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if cert:
            context.load_cert_chain(cert, key or None, password=_no_password)
    except (OSError, ssl.SSLError, ValueError) as error:
        raise _unusable("SHOAL_STORE_TLS_CA, _CERT and _KEY", error) from None
    return context


def is_loopback(host: str) -> bool:
    """Whether the name or address is this machine's own."""
    if host == "localhost":
        return True
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    return False


def check_plaintext(what: str, instead: str, environment: Mapping[str, str]) -> None:
    """Raises SqlError 28000 if requests to a log store, with its secret, would be sent unencrypted without
    permission."""
    if environment.get(PLAINTEXT) != "allow":
        raise SqlError(
            "28000",
            f"{what} would send the secret of the log stores and the changelog unencrypted",
            hint=f"{instead}; or set {PLAINTEXT}=allow, where nobody else reaches the network.",
        )


def _no_password() -> str:
    """Answers OpenSSL instead of its prompt on the terminal."""
    raise ValueError("the key is encrypted")


def _unusable(files: str, error: Exception) -> SqlError:
    why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return SqlError("58P01", f"cannot use the TLS files {files}: {why}")
