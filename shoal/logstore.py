"""`shoal logstore`: keeps the changelogs of clusters in a directory and serves them over HTTP.

It is a process of its own, on any machine. Several of them form a quorum store. It does not interpret its objects.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import ssl
import sys
from collections.abc import Callable

import orjson
import uvloop

from catalog.errors import SqlError
from replication.interface import StoreUnavailableError
from replication.stores.files import FileStore
from replication.stores.log_server import LogServer
from replication.stores.open import store_secret
from replication.stores.tls import is_loopback, renew_certificate, server_context
from shoal.config import Config, ConfigError
from shoal.logs import configure
from shoal.reload import ignore_hangup, on_hangup


def logstore(
    data: str,
    listen: str,
    secret_file: str | None,
    cert: str = "",
    key: str = "",
    client_ca: str = "",
    log_format: str = "text",
    as_json: bool = False,
) -> int:
    """Serves until SIGTERM or SIGINT, with TLS if there is a certificate (replication/stores/tls.py), and returns the
    exit status. `as_json`: prints its address as a JSON object. Raises ConfigError, SqlError."""
    if (key or client_ca) and not cert:
        raise ConfigError("--tls-key and --tls-client-ca need --tls-cert")
    # The writing threads wait this long at most to get the interpreter lock back from the loop.
    sys.setswitchinterval(0.0005)
    ignore_hangup()
    os.umask(0o077)
    configure(log_format, socket.gethostname())
    host, port = Config(listen=listen).address
    environment = os.environ
    secret = store_secret(None, secret_file) if secret_file else ""
    if not secret:
        secret = store_secret(environment.get("SHOAL_STORE_SECRET"), environment.get("SHOAL_STORE_SECRET_FILE"))
    tls = server_context(cert, key, client_ca) if cert else None

    def renew() -> None:
        try:
            renew_certificate((tls,), cert, key)
        except SqlError as error:
            logging.getLogger("shoal.logstore").error("the certificate is not changed: %s", error)

    status: int = uvloop.run(_run(data, host, port, secret, tls, as_json, renew))
    return status


async def _run(
    data: str, host: str, port: int, secret: str, tls: ssl.SSLContext | None, as_json: bool, renew: Callable[[], None]
) -> int:
    loop = asyncio.get_running_loop()
    on_hangup(renew if tls is not None else lambda: None)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    store = FileStore(data)
    server = LogServer(store, secret=secret, tls=tls)
    try:
        await store.run(store.make_root)
        bound = await server.start(host, port)
    except StoreUnavailableError as error:
        await server.stop()
        raise ConfigError(f"cannot use the directory: {error}") from error
    except OSError as error:
        await server.stop()
        raise ConfigError(
            f"cannot listen on {host}:{port}: {os.strerror(error.errno or 0)}; choose another with --listen"
        ) from error
    except SqlError as error:
        await server.stop()
        raise ConfigError(f"{error.message}. {error.hint}") from error
    place = f"[{host}]:{bound}" if ":" in host else f"{host}:{bound}"
    if tls is None and not is_loopback(host):
        logging.getLogger("shoal.logstore").warning("requests and the secret are sent unencrypted")
    url = f"{'log' if tls is None else 'logs'}://{place}"
    print(orjson.dumps({"ready": url}).decode() if as_json else f"shoal logstore ready: {url}", flush=True)
    await stop.wait()
    await server.stop()
    return 0
