"""`shoal health`: tests whether a server or a router answers, for example for a container's HEALTHCHECK. It needs no
password and writes no line to the log: the server answers an SSLRequest before authentication, and the pages /readyz
and /health need no login.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import os
import socket
import ssl
import urllib.error
import urllib.request

import orjson

from shoal.config import ConfigError, host_and_port, variable_of
from wire.client_core import SSL_REQUEST

DEFAULT = "127.0.0.1:5432"
_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}


def run(options: argparse.Namespace) -> int:
    """The exit status: 0 if it answers. Raises ConfigError for an invalid address."""
    address = options.address or os.environ.get(variable_of("listen")) or DEFAULT
    why = _probe(address, options.timeout)
    if options.json:
        print(orjson.dumps({"address": address, "healthy": not why, "why": why}).decode())
    else:
        print(f"{address}: {why}" if why else f"{address} answers")
    return 1 if why else 0


def _probe(address: str, timeout: float) -> str:
    """Tests an address, and returns the problem, or ''."""
    if address.startswith(("http://", "https://")):
        return _page(address, timeout)
    host, port = host_and_port(address)
    try:
        with socket.create_connection((_EVERYWHERE.get(host, host), port), timeout) as connection:
            connection.settimeout(timeout)
            connection.sendall(SSL_REQUEST)
            found = connection.recv(1)
    except OSError as error:
        return error.strerror or str(error)
    return "" if found in (b"S", b"N") else "does not answer like a PostgreSQL server"


def _page(url: str, timeout: float) -> str:
    """Tests a page, which answers 200 when the server is well. The certificate is not verified, because a health test
    needs no trust."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
    try:
        with opener.open(url, timeout=timeout):
            return ""
    except urllib.error.HTTPError as error:
        with contextlib.suppress(orjson.JSONDecodeError, OSError, AttributeError):
            return f"{error.code} {orjson.loads(error.read()).get('why', '')}".strip()
        return str(error.code)
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        return getattr(reason, "strerror", None) or str(reason)
    except ValueError as error:
        raise ConfigError(f'"{url}": {error}') from error
