"""Connections of foreign tables to other PostgreSQL servers (engine/foreign/interface.py).

It authenticates by a password in clear text, MD5 or SCRAM-SHA-256, over TLS as sslmode says. Statements run by the
extended protocol, with texts as parameters and results. Messages about failures are libpq's.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import secrets
import ssl
from collections.abc import Sequence

from catalog.errors import SqlError
from catalog.scram import prepare_password
from engine.foreign.interface import CannotConnectError, Destination, RemoteLostError, Row
from wire import client_core
from wire.client import CANCEL_TIMEOUT, ClientConnection, ConnectionLostError
from wire.client_core import RowReader

_SOCKET_DIRECTORY = "/var/run/postgresql"
_LARGEST_ROW = 1 << 30
_MECHANISM = b"SCRAM-SHA-256"
_OK, _CLEAR, _MD5, _SASL, _SASL_CONTINUE, _SASL_FINAL = 0, 3, 5, 10, 11, 12
_ENCRYPTED = ("require", "verify-ca", "verify-full")


async def open_remote(destination: Destination) -> RemoteConnection:
    """Connects. Raises CannotConnectError."""
    connection = RemoteConnection(destination)
    try:
        async with asyncio.timeout(destination.timeout):
            await connection.begin()
    except TimeoutError:
        connection.abort()
        raise CannotConnectError(f"{connection.place} failed: timeout expired") from None
    except ConnectionLostError:
        raise CannotConnectError(
            f"{connection.place} failed: server closed the connection unexpectedly\n"
            "\tThis probably means the server terminated abnormally\n\tbefore or while processing the request."
        ) from None
    except SqlError as error:
        connection.abort()
        detail = f"\nDETAIL:  {error.detail}" if error.detail else ""
        raise CannotConnectError(f"{connection.place} failed: {error.severity}:  {error.message}{detail}") from None
    except BaseException:
        connection.abort()
        raise
    return connection


class RemoteAnswer:
    """See engine/foreign/interface.py. The messages of its rows are read when they are wanted."""

    def __init__(self) -> None:
        self.tag = ""
        self.size = 0
        self._pieces: list[bytes] = []

    def add(self, data: bytes) -> None:
        """A run of DataRow messages, which may be cut anywhere."""
        self._pieces.append(data)
        self.size += len(data)

    def rows(self) -> list[Row]:
        reader = RowReader(_LARGEST_ROW)
        return [row for piece in self._pieces for row in reader.rows(piece)]


class RemoteConnection(ClientConnection):
    """One connection; make it with `open_remote`."""

    def __init__(self, destination: Destination) -> None:
        super().__init__()
        self.used_password = False
        self._destination = destination
        self.host, self.port = destination.host or _SOCKET_DIRECTORY, destination.port

    @property
    def place(self) -> str:
        """The server, as libpq's messages begin with it."""
        if self.host.startswith("/"):
            return f'connection to server on socket "{self._socket}"'
        return f'connection to server at "{self.host}", port {self.port}'

    @property
    def _socket(self) -> str:
        return f"{self.host}/.s.PGSQL.{self.port}"

    # ---- start-up ---------------------------------------------------------------------------------------------------

    async def begin(self) -> None:
        """Connects and authenticates. Raises CannotConnectError, ConnectionLostError, SqlError."""
        loop = asyncio.get_running_loop()
        try:
            if self.host.startswith("/"):
                await loop.create_unix_connection(lambda: self, self._socket)
            else:
                await loop.create_connection(lambda: self, self.host, self.port)
        except OSError as error:
            raise CannotConnectError(f"{self.place} failed: {self._reason(error)}") from error
        await self._encrypt()
        self.send(client_core.startup(self._destination.parameters))
        await self._start_up()

    def _reason(self, error: OSError) -> str:
        why = {ConnectionRefusedError: "Connection refused", FileNotFoundError: "No such file or directory"}
        text = why.get(type(error), error.strerror or str(error))
        if self.host.startswith("/"):
            return f"{text}\n\tIs the server running locally and accepting connections on that socket?"
        if isinstance(error, ConnectionRefusedError):
            return f"{text}\n\tIs the server running on that host and accepting TCP/IP connections?"
        return text

    async def _encrypt(self) -> None:
        """TLS, as sslmode says. Raises CannotConnectError."""
        mode = self._destination.tls
        if mode in ("disable", "allow") or self.host.startswith("/"):
            return
        transport = self._transport
        answer = self._answer = asyncio.get_running_loop().create_future()
        transport.write(client_core.SSL_REQUEST)
        accepted = await answer == b"S"
        if not accepted:
            if mode in _ENCRYPTED:
                raise CannotConnectError(f"{self.place} failed: server does not support SSL, but SSL was required")
            return
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.check_hostname = mode == "verify-full"
        trusted = self._destination.certificates
        if mode.startswith("verify") and not trusted:
            why = f"sslmode {mode} needs the option sslrootcert, a file of the certificates to trust"
            raise CannotConnectError(f"{self.place} failed: {why}")
        verifies = mode.startswith("verify") or (mode == "require" and bool(trusted))  # as in libpq
        context.verify_mode = ssl.CERT_REQUIRED if verifies else ssl.CERT_NONE
        try:
            if verifies:
                context.load_verify_locations(trusted)
            upgraded = await asyncio.get_running_loop().start_tls(
                transport, self, context, server_hostname=self.host if mode == "verify-full" else None
            )
        except (OSError, TypeError) as error:
            raise CannotConnectError(f"{self.place} failed: SSL error: {error}") from error
        assert upgraded is not None
        self._transport = upgraded

    _answer: asyncio.Future[bytes] | None = None

    def data_received(self, data: bytes) -> None:
        answer, self._answer = self._answer, None
        if answer is None:
            super().data_received(data)
        elif len(data) > 1:  # nothing unencrypted may count as encrypted
            answer.set_exception(
                CannotConnectError(f"{self.place} failed: received unencrypted data after SSL response")
            )
        elif not answer.done():
            answer.set_result(data)

    def connection_lost(self, error: Exception | None) -> None:
        answer, self._answer = self._answer, None
        if answer is not None and not answer.done():
            answer.set_exception(ConnectionLostError(f"the connection to {self.host}:{self.port} broke"))
        super().connection_lost(error)

    async def _start_up(self) -> None:
        while True:
            frame = await self.receive()
            if frame.kind == 0x5A:  # ReadyForQuery
                return
            if frame.kind == 0x45:
                error = client_core.report_error(frame.body)
                error.severity = client_core.report_fields(frame.body).get("S", "FATAL")
                raise error
            if frame.kind == 0x52:
                await self._authenticate(int.from_bytes(frame.body[:4], "big"), frame.body[4:])
            elif frame.kind == 0x4B:
                self.process_id = int.from_bytes(frame.body[:4], "big")
                self.secret = frame.body[4:]

    async def _authenticate(self, kind: int, body: bytes) -> None:
        if kind == _OK:
            return
        if kind not in (_CLEAR, _MD5, _SASL):
            raise CannotConnectError(f"{self.place} failed: authentication method {kind} not supported")
        password = self._destination.password
        if not password:
            raise CannotConnectError(f"{self.place} failed: fe_sendauth: no password supplied")
        self.used_password = True
        if kind == _SASL:
            await self._prove(password, body)
            return
        proof = password.encode()
        if kind == _MD5:
            user = self._destination.parameters["user"].encode()
            inner = hashlib.md5(proof + user, usedforsecurity=False).hexdigest().encode()
            proof = b"md5" + hashlib.md5(inner + body[:4], usedforsecurity=False).hexdigest().encode()
        self.send(client_core.message(b"p", proof + b"\0"))

    async def _prove(self, password: str, mechanisms: bytes) -> None:
        """SCRAM-SHA-256 (RFC 5802), without channel binding."""
        if _MECHANISM not in mechanisms.split(b"\0"):
            raise CannotConnectError(
                f"{self.place} failed: none of the server's SASL authentication mechanisms are supported"
            )
        bare = f"n=,r={base64.b64encode(secrets.token_bytes(18)).decode()}"
        first = f"n,,{bare}".encode()
        self.send(client_core.message(b"p", _MECHANISM + b"\0" + len(first).to_bytes(4, "big") + first))
        challenge = (await self._sasl(_SASL_CONTINUE)).decode()
        fields = dict(part.split("=", 1) for part in challenge.split(","))
        if not fields["r"].startswith(bare[5:]):
            raise CannotConnectError(f"{self.place} failed: invalid SCRAM response (nonce mismatch)")
        salt, rounds = base64.b64decode(fields["s"]), int(fields["i"])
        final = f"c=biws,r={fields['r']}"
        signed = f"{bare},{challenge},{final}".encode()
        salted = await asyncio.to_thread(
            hashlib.pbkdf2_hmac, "sha256", prepare_password(password).encode(), salt, rounds
        )
        key = hmac.digest(salted, b"Client Key", "sha256")
        signature = hmac.digest(hashlib.sha256(key).digest(), signed, "sha256")
        proof = bytes(left ^ right for left, right in zip(key, signature, strict=True))
        self.send(client_core.message(b"p", f"{final},p={base64.b64encode(proof).decode()}".encode()))
        answer = await self._sasl(_SASL_FINAL)
        server = hmac.digest(hmac.digest(salted, b"Server Key", "sha256"), signed, "sha256")
        if answer != b"v=" + base64.b64encode(server):
            raise CannotConnectError(f"{self.place} failed: incorrect server signature")

    async def _sasl(self, wanted: int) -> bytes:
        frame = await self.receive()
        if frame.kind == 0x45:
            error = client_core.report_error(frame.body)
            error.severity = client_core.report_fields(frame.body).get("S", "FATAL")
            raise error
        if frame.kind != 0x52 or int.from_bytes(frame.body[:4], "big") != wanted:
            raise CannotConnectError(f"{self.place} failed: invalid SASL exchange")
        return frame.body[4:]

    # ---- statements -------------------------------------------------------------------------------------------------

    async def run(self, sql: str, parameters: Sequence[str | None] = ()) -> RemoteAnswer:
        """See engine/foreign/interface.py."""
        values = [None if value is None else value.encode() for value in parameters]
        self.send(
            client_core.parse(b"", sql.encode())
            + client_core.bind(b"", b"", values)
            + client_core.execute(b"")
            + client_core.SYNC
        )
        answer = RemoteAnswer()
        failure: SqlError | None = None
        try:
            while True:
                frame = await self.receive()
                if frame.kind == 0x44:
                    answer.add(frame.data)
                elif frame.kind == 0x43:
                    answer.tag = frame.body.rstrip(b"\0").decode()
                elif frame.kind == 0x45:
                    failure = failure or client_core.report_error(frame.body)
                elif frame.kind == 0x5A:
                    break
        except ConnectionLostError:
            if failure is None:
                raise RemoteLostError from None
        if failure is not None:
            raise failure
        return answer

    async def cancel(self) -> bool:
        """Asks the server to cancel the running statement, over a separate connection without TLS."""
        try:
            async with asyncio.timeout(CANCEL_TIMEOUT):
                if self.host.startswith("/"):
                    reader, writer = await asyncio.open_unix_connection(self._socket)
                else:
                    reader, writer = await asyncio.open_connection(self.host, self.port)
                try:
                    writer.write(client_core.cancel_request(self.process_id, self.secret))
                    await reader.read(1)
                finally:
                    writer.close()
        except (OSError, TimeoutError):
            return False
        return True
