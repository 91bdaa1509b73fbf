"""The client of `shoal logstore`, a changelog store in another process (replication/stores/log_protocol.py).

Connections are kept open and shared. A request is sent once: a put whose reply was lost ends as unavailable. It is not
repeated implicitly, because the caller would take the second answer, 'exists', for another writer's object.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from urllib.parse import quote

import aiohttp
import orjson

from replication.interface import (
    ObjectDamagedError,
    ObjectExistsError,
    ObjectInfo,
    ObjectMissingError,
    StoreFullError,
    StoreUnavailableError,
)
from replication.stores.call_deadlines import Calls, Deadline, get_each
from replication.stores.log_protocol import APPEND, CRC, MANY_BYTES, PIECE, crc32c, crc_header, decode_frames
from replication.stores.names import check_folder, check_name

CONNECTIONS = 64
OLD_SECONDS = 60.0  # after which a server that does not know a request may have been replaced by a newer one


class _Once:
    """Sends a request once: aiohttp repeats a PUT when a kept connection has closed."""

    def __init__(self) -> None:
        self._sent = False

    async def __call__(
        self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        if self._sent:
            raise aiohttp.ServerDisconnectedError
        self._sent = True
        return await handler(request)


class LogStore:
    """A ChangelogStore at host and port. `prefix` is '' or ends in '/'; `timeout` in seconds; `secret` '' for none;
    with `tls` its URL is logs://."""

    def __init__(
        self,
        host: str,
        port: int,
        prefix: str = "",
        *,
        timeout: float = 10.0,
        secret: str = "",
        tls: ssl.SSLContext | None = None,
    ) -> None:
        place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._url = f"{'log' if tls is None else 'logs'}://{place}/{prefix}".rstrip("/")
        self._base = f"{'http' if tls is None else 'https'}://{place}"
        self._tls = tls
        self._prefix = prefix
        self._calls = Calls(self._url, timeout)
        self._headers = {"Authorization": f"Bearer {secret}"} if secret else {}
        self._session: aiohttp.ClientSession | None = None
        self._old_until = float("-inf")  # time of the event loop before which it is not asked for several objects

    @property
    def url(self) -> str:
        return self._url

    async def put(self, name: str, data: bytes) -> None:
        await self._put(name, data, {})

    async def append(self, name: str, data: bytes) -> None:
        await self._put(name, data, {APPEND: "1"})

    async def _put(self, name: str, data: bytes, more: Mapping[str, str]) -> None:
        headers = {CRC: crc_header(crc32c(data)), "Content-Type": "application/octet-stream", **more}
        async with self._calls.begin():
            await self._request("PUT", self._object(name), name, data=data, headers=headers)

    async def put_file(self, name: str, path: str) -> None:
        url = self._object(name)
        async with self._calls.begin() as deadline:
            crc = 0
            async for piece in _pieces(path, deadline):
                crc = crc32c(piece, crc)
            headers = {
                CRC: crc_header(crc),
                "Content-Type": "application/octet-stream",
                "Content-Length": str(os.path.getsize(path)),
            }
            await self._request("PUT", url, name, data=_pieces(path, deadline), headers=headers)

    async def get(self, name: str) -> bytes:
        pieces: list[bytes] = []
        async with self._calls.begin() as deadline:
            async for piece in self._read(name, deadline):
                pieces.append(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    async def get_many(self, names: Sequence[str]) -> dict[str, bytes]:
        if len(names) > 1 and asyncio.get_running_loop().time() >= self._old_until:
            try:
                return await self._get_many(names)
            except ObjectMissingError:  # of the request itself
                self._old_until = asyncio.get_running_loop().time() + OLD_SECONDS
        return await get_each(self.get, names)

    async def _get_many(self, names: Sequence[str]) -> dict[str, bytes]:
        whole = [self._prefix + check_name(name) for name in names]
        async with self._calls.begin():
            body, _ = await self._request(
                "POST",
                f"{self._base}/objects",
                names[0],
                data=orjson.dumps(whole),
                headers={"Content-Type": "application/json"},
                limit=MANY_BYTES,
            )
        try:
            return {names[index]: data for index, data in decode_frames(whole, body)}
        except ValueError as error:
            raise self._calls.unavailable(f"the answer to a request for {len(names)} objects: {error}") from None

    async def get_file(self, name: str, path: str) -> None:
        with open(path, "wb") as file:
            async with self._calls.begin() as deadline:
                async for piece in self._read(name, deadline):
                    await asyncio.to_thread(file.write, piece)

    async def _read(self, name: str, deadline: Deadline) -> AsyncIterator[bytes]:
        """The object, piece by piece, each verified."""
        url = self._object(name)
        offset = 0
        while True:
            headers = {"Range": f"bytes={offset}-{offset + PIECE - 1}"}
            data, answer = await self._request("GET", url, name, headers=headers)
            if answer.get(CRC) != crc_header(crc32c(data)):
                raise self._calls.unavailable(f"{name} was damaged in transit")
            yield data
            deadline.extend()
            offset += len(data)
            size = answer.get("Content-Range", "").rpartition("/")[2]  # none: this was the last one
            if not size or offset >= int(size):
                return

    async def list(self, prefix: str, after: str = "") -> AsyncIterator[ObjectInfo]:
        check_folder(prefix)
        url = f"{self._base}/folders/{self._prefix}{prefix}"
        behind = self._prefix + after if after else ""
        while True:
            async with self._calls.begin():
                body, _ = await self._request("GET", f"{url}?after={quote(behind, safe='/')}", prefix)
            page = orjson.loads(body)
            for name, size in page["objects"]:
                yield ObjectInfo(name[len(self._prefix) :], size)
            if not page["more"]:
                return
            behind = page["objects"][-1][0]

    async def delete(self, name: str) -> None:
        async with self._calls.begin():
            await self._request("DELETE", self._object(name), name)

    async def delete_folder(self, prefix: str) -> None:
        check_folder(prefix)
        async with self._calls.begin():
            await self._request("DELETE", f"{self._base}/folders/{self._prefix}{prefix}", prefix)

    async def close(self) -> None:
        self._calls.close()
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _object(self, name: str) -> str:
        return f"{self._base}/objects/{self._prefix}{check_name(name)}"

    async def _request(
        self,
        method: str,
        url: str,
        name: str,
        *,
        data: bytes | AsyncIterator[bytes] | None = None,
        headers: Mapping[str, str] | None = None,
        limit: int | None = None,
    ) -> tuple[bytes, Mapping[str, str]]:
        """Sends one request; returns body and headers of the answer, of at most `limit` bytes if there is one. Raises
        the errors of the store."""
        session = self._session or self._connect()
        try:
            async with session.request(method, url, data=data, headers=headers, middlewares=(_Once(),)) as answer:
                if limit is not None and (answer.content_length is None or answer.content_length > limit):
                    raise self._calls.unavailable("an answer that is longer than it may be")
                body = await answer.read()
                status = answer.status
                if status < 300:
                    return body, answer.headers
        except aiohttp.ClientConnectorCertificateError as error:
            why = getattr(error.certificate_error, "verify_message", "") or str(error.certificate_error)
            raise self._calls.unavailable(f"its certificate is not accepted: {why}") from None
        except aiohttp.ClientConnectorSSLError as error:
            raise self._calls.unavailable(f"no TLS connection: {error.os_error}") from None
        except aiohttp.ClientError as error:
            raise self._calls.unavailable(f"no answer ({type(error).__name__})") from None
        except OSError as error:
            raise self._calls.unavailable(error.strerror or type(error).__name__) from None
        if status == 422 and method == "GET":
            raise ObjectDamagedError(f"{self._url}: {_server_message(body)}")
        raise self._error_of_status(status, name, body)

    def _error_of_status(self, status: int, name: str, body: bytes) -> Exception:
        if status == 409:
            return ObjectExistsError(name)
        if status == 404:
            return ObjectMissingError(name)
        told = _server_message(body)
        if status == 507:
            return StoreFullError(f"{self._url}: {told}")
        return StoreUnavailableError(f"{self._url}: refused with {status} {told}")

    def _connect(self) -> aiohttp.ClientSession:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=CONNECTIONS, keepalive_timeout=1800.0, ssl=self._tls or True),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=self._calls.timeout),
            headers=self._headers,
            skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding"),
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
        )
        return self._session


def _server_message(body: bytes) -> str:
    """The server's message about an error."""
    return body[:200].decode(errors="replace").strip()


async def _pieces(path: str, deadline: Deadline) -> AsyncIterator[bytes]:
    """The file in pieces; each sent piece counts as progress of the call."""
    with open(path, "rb") as file:
        while piece := await asyncio.to_thread(file.read, PIECE):
            deadline.extend()
            yield piece
