"""A log store's server: a FileStore over HTTP (replication/stores/log_protocol.py), for `shoal logstore`.

Memory is bounded: a limited number of requests runs at once. Others wait before their bodies are read, and beyond a
limit of waiting requests new ones are refused. Bodies go to the disk in pieces. A request that has begun is executed
even if its client disconnects, because the client will ask for the result.

Without a secret it listens on loopback only, and answers only to names of the loopback (a web page can make its own
name resolve to this machine).
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import os
import re
import ssl
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import islice

import orjson
from aiohttp import web

from catalog.errors import SqlError
from replication.interface import (
    MANY,
    ObjectDamagedError,
    ObjectExistsError,
    ObjectMissingError,
    StoreFullError,
    StoreUnavailableError,
)
from replication.stores.files import FileStore
from replication.stores.log_protocol import (
    APPEND,
    CRC,
    FRAME,
    MANY_BYTES,
    MANY_NAMES_BYTES,
    PAGE,
    PIECE,
    crc32c,
    crc_header,
    encode_frame,
)
from replication.stores.names import MAX_NAME, check_folder, check_name
from replication.stores.tls import check_plaintext, is_loopback

MAX_RUNNING = 32  # requests that run at once: 32 * PIECE is the memory of their bodies
MAX_WAITING = 1024
BODY_SECONDS = 30.0  # within which the next piece of a body must arrive
STOP_SECONDS = 10.0  # for running requests to finish when the server stops
_RANGE = re.compile(r"bytes=(\d{1,19})-(\d{1,19})")

log = logging.getLogger("shoal.logstore")

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class LogServer:
    """Serves the store. `secret` is '' for none; `tls` None for plain HTTP."""

    def __init__(self, store: FileStore, *, secret: str = "", tls: ssl.SSLContext | None = None) -> None:
        self._store = store
        self._tls = tls
        self._authorization = f"Bearer {secret}".encode() if secret else b""
        self._running = asyncio.Semaphore(MAX_RUNNING)
        self._waiting = 0
        self._runner: web.AppRunner | None = None

    async def start(self, host: str, port: int) -> int:
        """Listens; returns the port, which the system chooses for 0. Raises SqlError 28000 if a secret is required,
        OSError."""
        if not self._authorization and not is_loopback(host):
            raise SqlError(
                "28000",
                f"a log store on {host} needs a secret",
                hint="Set SHOAL_STORE_SECRET, or give --secret-file, or listen on 127.0.0.1.",
            )
        if self._tls is None and not is_loopback(host):
            check_plaintext(f"a log store on {host} without TLS", "Give --tls-cert and --tls-key", os.environ)
        app = web.Application(middlewares=[self._guard], client_max_size=0)
        app.router.add_put("/objects/{name:.+}", self._put)
        app.router.add_get("/objects/{name:.+}", self._get, allow_head=False)
        app.router.add_delete("/objects/{name:.+}", self._delete)
        app.router.add_post("/objects", self._get_many)
        app.router.add_get("/folders/{name:.*}", self._list, allow_head=False)
        app.router.add_delete("/folders/{name:.*}", self._delete_folder)
        self._runner = web.AppRunner(
            app, access_log=None, shutdown_timeout=STOP_SECONDS, keepalive_timeout=3600.0, handle_signals=False
        )
        await self._runner.setup()
        site = web.TCPSite(self._runner, host, port, backlog=1024, ssl_context=self._tls)
        await site.start()
        return int(self._runner.addresses[0][1])

    async def stop(self) -> None:
        """Accepts no new requests; running ones finish."""
        if self._runner is not None:
            await self._runner.cleanup()
        await self._store.close()

    # --- around every request ------------------------------------------------------------------------------------

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        refused = self._check_access(request)
        if refused is not None:
            return refused
        self._waiting += 1
        try:
            async with self._running:
                return await self._answer(request, handler)
        finally:
            self._waiting -= 1

    def _check_access(self, request: web.Request) -> web.Response | None:
        """The refusal of a request without permission, or beyond the limit; None for all others."""
        if self._authorization:
            given = request.headers.get("Authorization", "").encode("utf-8", "surrogateescape")
            if not hmac.compare_digest(given, self._authorization):
                return _text_response(401, "wrong or missing secret")
        elif not is_loopback(request.host.rpartition(":")[0] or request.host):
            return _text_response(401, "this log store has no secret and serves its own machine only")
        if self._waiting >= MAX_WAITING:
            return _text_response(503, "too many requests")
        return None

    async def _answer(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            return await handler(request)
        except ObjectExistsError:
            return _text_response(409, "there is an object of that name")
        except ObjectMissingError:
            return _text_response(404, "there is no object of that name")
        except StoreFullError as error:
            log.warning("%s", error)
            return _text_response(507, "no room left")
        except ObjectDamagedError as error:
            log.error("%s", error)
            return _text_response(422, "damaged on the disk of the log store")
        except StoreUnavailableError as error:
            log.warning("%s", error)
            return _text_response(503, "the disk does not answer or has failed")
        except ValueError as error:
            return _text_response(400, str(error))
        except ConnectionError:
            raise  # the client has gone
        except web.HTTPException:
            raise
        except Exception:
            log.exception("%s %s", request.method, request.path)
            return _text_response(500, "internal error")

    # --- the operations ------------------------------------------------------------------------------------------

    async def _put(self, request: web.Request) -> web.Response:
        name = check_name(request.match_info["name"])
        size = request.content_length
        if size is None:
            return _text_response(411, "Content-Length is required")
        wanted = request.headers.get(CRC)
        if wanted is None:
            return _text_response(400, f"{CRC} is required")
        if size <= PIECE:
            body = await _next_piece(request, size)
            if len(body) != size or crc_header(crc32c(body)) != wanted:
                return _text_response(422, "the body does not match its CRC")
            if request.headers.get(APPEND) == "1":
                await self._store.append(name, body)
            else:
                await self._store.put(name, body)
        elif not await self._put_large(request, name, size, wanted):
            return _text_response(422, "the body does not match its CRC")
        return web.Response(status=201)

    async def _put_large(self, request: web.Request, name: str, size: int, wanted: str) -> bool:
        """Writes the body as it arrives; False if it does not match its CRC."""
        store = self._store
        incoming = await store.run(store.receive)
        try:
            crc = 0
            while incoming.size < size:
                piece = await _next_piece(request, min(PIECE, size - incoming.size))
                if not piece:
                    return False
                crc = crc32c(piece, crc)
                await store.run(incoming.write, piece)
            if crc_header(crc) != wanted:
                return False
            await store.run(incoming.publish, name)
            return True
        finally:
            store.run_later(incoming.discard)

    async def _get(self, request: web.Request) -> web.StreamResponse:
        name = check_name(request.match_info["name"])
        asked = request.headers.get("Range")
        if asked is None:
            return await self._get_all(request, name)
        match = _RANGE.fullmatch(asked)
        if match is None or int(match[2]) < int(match[1]):
            return _text_response(416, "only Range: bytes=first-last is understood")
        first, last = int(match[1]), int(match[2])
        data, size = await self._store.run(self._store.read, name, first, min(last - first + 1, PIECE))
        if first and not data:
            return _text_response(416, f"the object has {size} bytes")
        headers = {CRC: crc_header(crc32c(data))}
        if len(data) == size:
            return web.Response(body=data, headers=headers)
        headers["Content-Range"] = f"bytes {first}-{first + len(data) - 1}/{size}"
        return web.Response(status=206, body=data, headers=headers)

    async def _get_all(self, request: web.Request, name: str) -> web.StreamResponse:
        """A whole object in one answer, for people with curl: our clients read it piece by piece."""
        store = self._store
        data, size = await store.run(store.read, name, 0, PIECE)
        if len(data) == size:
            return web.Response(body=data, headers={CRC: crc_header(crc32c(data))})
        response = web.StreamResponse(headers={"Content-Length": str(size)})
        await response.prepare(request)
        sent = 0
        while data:
            await response.write(data)
            sent += len(data)
            data, _ = await store.run(store.read, name, sent, PIECE)
        await response.write_eof()
        return response

    async def _get_many(self, request: web.Request) -> web.Response:
        size = request.content_length
        if size is None or size > MANY_NAMES_BYTES:
            return _text_response(413, f"a list of at most {MANY} names is required, with its length")
        names = orjson.loads(await _next_piece(request, size))
        if not isinstance(names, list) or len(names) > MANY or not all(isinstance(name, str) for name in names):
            return _text_response(400, f"a list of at most {MANY} names is required")
        for name in names:
            check_name(name)
        return web.Response(body=await self._store.run(self._frames, names))

    def _frames(self, names: Sequence[str]) -> bytes:
        """Encodes the objects of an answer, in a thread of the store."""
        found = self._store.read_many(names, MANY_BYTES, FRAME)
        return b"".join(encode_frame(index, names[index], data) for index, data in found)

    async def _delete(self, request: web.Request) -> web.Response:
        await self._store.delete(check_name(request.match_info["name"]))
        return web.Response(status=204)

    async def _list(self, request: web.Request) -> web.Response:
        prefix = check_folder(request.match_info["name"])
        after = request.query.get("after", "")
        if len(after) > MAX_NAME + 1:
            return _text_response(400, "after is too long")
        walk = self._store.walk(prefix, after)
        found = await self._store.run(lambda: [(info.name, info.size) for info in islice(walk, PAGE + 1)])
        body = orjson.dumps({"objects": found[:PAGE], "more": len(found) > PAGE})
        return web.Response(body=body, content_type="application/json")

    async def _delete_folder(self, request: web.Request) -> web.Response:
        await self._store.delete_folder(check_folder(request.match_info["name"]))
        return web.Response(status=204)


async def _next_piece(request: web.Request, size: int) -> bytes:
    """The next bytes of the body; fewer at its end. Raises StoreUnavailableError if they do not arrive."""
    pieces: list[bytes] = []
    read: Callable[[int], Awaitable[bytes]] = partial(request.content.read)
    try:
        while size > 0:
            async with asyncio.timeout(BODY_SECONDS):
                piece = await read(size)
            if not piece:
                break
            pieces.append(piece)
            size -= len(piece)
    except TimeoutError:
        raise StoreUnavailableError("a client stopped sending in the middle of an object") from None
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _text_response(status: int, text: str) -> web.Response:
    return web.Response(status=status, text=text + "\n")
