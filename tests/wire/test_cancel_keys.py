"""Cancel keys: four bytes for clients of protocol 3.0, 32 for those of 3.2, and only the right one cancels."""

from __future__ import annotations

import socket
import struct

import pytest

from tests.server import ShoalServer

CANCELED = b"C57014\0"


def read(connection: socket.socket) -> tuple[bytes, bytes]:
    """One message: its type, its body."""
    head = b""
    while len(head) < 5:
        head += connection.recv(5 - len(head))
    size = struct.unpack(">i", head[1:])[0] - 4
    body = b""
    while len(body) < size:
        body += connection.recv(size - len(body))
    return head[:1], body


def until(connection: socket.socket, kind: bytes) -> bytes:
    """The next message of this type."""
    while (message := read(connection))[0] != kind:
        assert message[0] != b"E" or kind == b"E", message
    return message[1]


def cancel(port: int, process_id: int, secret: bytes) -> None:
    with socket.create_connection(("127.0.0.1", port), 20) as connection:
        connection.sendall(struct.pack(">iii", 12 + len(secret), 80877102, process_id) + secret)
        assert connection.recv(1) == b""


@pytest.mark.parametrize(("version", "length"), [(196608, 4), (196610, 32)])
def test_a_key_of_the_clients_protocol_cancels(shoal: ShoalServer, version: int, length: int) -> None:
    with socket.create_connection(("127.0.0.1", shoal.port), 20) as connection:
        body = struct.pack(">i", version) + b"user\0postgres\0database\0postgres\0\0"
        connection.sendall(struct.pack(">i", len(body) + 4) + body)
        key = until(connection, b"K")
        process_id, secret = struct.unpack(">i", key[:4])[0], key[4:]
        assert len(secret) == length
        until(connection, b"Z")
        query = b"SELECT pg_sleep(20)\0"
        connection.sendall(b"Q" + struct.pack(">i", len(query) + 4) + query)
        for wrong in (b"", secret[:-1], secret[:4] + b"\0" * 28, b"\0" * length):
            cancel(shoal.port, process_id, wrong)
        connection.settimeout(0.2)
        with pytest.raises(TimeoutError):
            while connection.recv(4096):
                pass
        connection.settimeout(20)
        cancel(shoal.port, process_id, secret)
        assert CANCELED in until(connection, b"E")
