"""`shoal router`: runs the TCP router and SQL over HTTP, with the directory in ZooKeeper, until a signal.

At SIGTERM or SIGINT it accepts no new clients, ends idle ones with an error, and lets running statements finish.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial

import orjson
import uvloop
from aiohttp import web

from replication.background import stop_on_failure
from replication.directory import CoordinatedDirectory
from replication.zookeeper.cluster import open_coordination
from shoal.config import Config, ConfigError
from shoal.logs import configure
from shoal.reload import ignore_hangup, on_hangup
from wire.http import SqlOverHttp, health_of
from wire.router import Router
from wire.server import is_loopback

log = logging.getLogger("shoal")


@dataclass(frozen=True, slots=True)
class RouterConfig:
    """`http` is '' to disable SQL over HTTP. Addresses are HOST:PORT, `cluster` is zk://HOST:PORT,.../NAME."""

    cluster: str
    listen: str = "127.0.0.1:5432"
    http: str = ""
    max_connections: int = 2000
    log_format: str = "text"
    as_json: bool = False  # prints its addresses as a JSON object


def route(config: RouterConfig) -> int:
    """Runs the router, and returns the exit status. Raises ConfigError, and SqlError for a cluster that cannot be
    read."""
    ignore_hangup()
    configure(config.log_format, socket.gethostname())
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)
    status: int = uvloop.run(_run(config))
    return status


def _fail(error: BaseException) -> None:
    log.critical("stopping after an unrecoverable error: %s", error, exc_info=error)
    os._exit(70)


async def _run(config: RouterConfig) -> int:
    host, port = Config(listen=config.listen).address
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    stop_on_failure(loop, _fail)
    on_hangup(lambda: None)  # the router has no configuration to reload
    directory = CoordinatedDirectory(partial(open_coordination, config.cluster))
    await directory.start()
    try:
        router = Router(directory, host, port, max_connections=config.max_connections)
        try:
            bound = await router.start()
        except OSError as error:
            raise ConfigError(_address_in_use_error(host, port, error, "--listen")) from error
        except ValueError as error:
            raise ConfigError(str(error)) from error
        async with serve_http(router, config.http) as http:
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, stop.set)
            url = f"postgresql://postgres@{host}:{bound}/postgres"
            if config.as_json:
                print(orjson.dumps({"ready": url, "http": http or None}).decode(), flush=True)
            else:
                print(f"shoal router ready: {url}" + (f"\nSQL over HTTP: POST {http}" if http else ""), flush=True)
            await stop.wait()
        await router.stop()
        return 0
    finally:
        await directory.close()


@contextlib.asynccontextmanager
async def serve_http(router: Router, listen: str) -> AsyncIterator[str]:
    """Serves SQL over HTTP on an address, and yields its URL. Does nothing for ''. Raises ConfigError."""
    if not listen:
        yield ""
        return
    host, port = Config(listen=listen).address
    if not is_loopback(host):
        raise ConfigError(f"refusing to serve HTTP on {host}: it takes no passwords; use --http 127.0.0.1:PORT")
    application = SqlOverHttp(router.open_connection).application()
    application.router.add_get("/health", health_of(router.roster))
    runner = web.AppRunner(application, handler_cancellation=True, access_log=None)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, host, port).start()
        except OSError as error:
            raise ConfigError(_address_in_use_error(host, port, error, "--http")) from error
        yield f"http://{host}:{runner.addresses[0][1]}/sql"
    finally:
        await runner.cleanup()


def _address_in_use_error(host: str, port: int, error: OSError, option: str) -> str:
    return f"cannot listen on {host}:{port}: {os.strerror(error.errno or 0)}; choose another with {option}"
