"""`shoal logstore`: keeps the changelogs of clusters in a directory and serves them over HTTP.

A process of its own, on any machine: several of them make a quorum. It knows nothing of what is in its objects.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import ssl
import sys

import uvloop

from catalog.errors import SqlError
from replication.interface import StoreUnavailableError
from replication.stores.files import FileStore
from replication.stores.log_server import LogServer, is_loopback
from replication.stores.open import store_secret
from replication.stores.tls import server_context
from shoal.config import Config, ConfigError


def logstore(
    data: str, listen: str, secret_file: str | None, cert: str = "", key: str = "", client_ca: str = ""
) -> int:
    """Serves until SIGTERM or SIGINT, with TLS if there is a certificate (replication/stores/tls.py); returns the exit
    status. Raises ConfigError, SqlError."""
    if (key or client_ca) and not cert:
        raise ConfigError("--tls-key and --tls-client-ca need --tls-cert")
    # The threads that write must win the interpreter back from the loop, which takes up to this long.
    sys.setswitchinterval(0.0005)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    host, port = Config(listen=listen).address
    environment = os.environ
    secret = store_secret(None, secret_file) if secret_file else ""
    if not secret:
        secret = store_secret(environment.get("SHOAL_STORE_SECRET"), environment.get("SHOAL_STORE_SECRET_FILE"))
    tls = server_context(cert, key, client_ca) if cert else None
    status: int = uvloop.run(_run(data, host, port, secret, tls))
    return status


async def _run(data: str, host: str, port: int, secret: str, tls: ssl.SSLContext | None) -> int:
    loop = asyncio.get_running_loop()
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
    if tls is None and secret and not is_loopback(host):
        logging.getLogger("shoal.logstore").warning("requests and the secret are not encrypted on their way")
    print(f"shoal logstore ready: {'log' if tls is None else 'logs'}://{place}", flush=True)
    await stop.wait()
    await server.stop()
    return 0
