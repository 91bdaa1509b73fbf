"""Golden transcripts: messages sent, messages expected, as text that runs against any server (*.pgtest).

    test a failed statement skips everything up to Sync
    > Parse {"sql": "SELECT 1/0"}
    > Sync
    < ParseComplete
    < ReadyForQuery I

A test is a connection of its own; its tables live in a schema of its own. It is started up unless there is a line `raw`
(then parameters, keys and AuthenticationOk are passed over). Runs of '>' lines are sent in one write; the '<' lines
below must be exactly what comes back. After the last line the client says Terminate, and nothing more may come. A line
`setup SQL` runs SQL beforehand on another connection, a line `only NAME` says that the test is for one server (what is
newer than the PostgreSQL beside us).

Error and notice fields are compared where the script names them. Values are text; bytes that are no printable UTF-8 are
written as 0x and hex. Table OIDs and the key data differ between servers and are not shown.

    python -m tests.wire.transcript FILE...     rewrites the '<' lines with PostgreSQL's answers, to be read over
"""

from __future__ import annotations

import json
import pathlib
import socket
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from tests.oracle import PostgresServer

LIMIT = 30.0  # seconds to wait for one message
BARE = {
    "1": "ParseComplete",
    "2": "BindComplete",
    "3": "CloseComplete",
    "n": "NoData",
    "s": "PortalSuspended",
    "I": "EmptyQueryResponse",
    "c": "CopyDone",
}
DUE = ("Query", "Sync", "Startup", "Bytes", "CopyDone", "CopyFail", "Terminate")
CODES = {"Sync": b"S", "Flush": b"H", "Terminate": b"X", "CopyDone": b"c"}


@dataclass(slots=True)
class Script:
    """One test. Lines keep their '>' or '<'."""

    name: str
    line: int
    raw: bool = False
    only: str = ""
    setup: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)


def parse(text: str) -> list[Script]:
    """The tests of a file. Raises ValueError with the line."""
    found: list[Script] = []
    for number, full in enumerate(text.splitlines(), 1):
        line = full.strip()
        if not line or line.startswith("#"):
            continue
        word, _, rest = line.partition(" ")
        if word == "test":
            found.append(Script(rest, number))
        elif word == "raw":
            found[-1].raw = True
        elif word == "only":
            found[-1].only = rest
        elif word == "setup":
            found[-1].setup.append(rest)
        elif word in "<>":
            found[-1].lines.append(line)
        else:
            raise ValueError(f"line {number}: {line!r}")
    return found


def message(kind: bytes, body: bytes = b"") -> bytes:
    return kind + struct.pack(">i", len(body) + 4) + body


def _text(value: str) -> bytes:
    return value.encode() + b"\0"


def _value(value: str | None) -> bytes:
    if value is None:
        return struct.pack(">i", -1)
    data = bytes.fromhex(value[2:]) if value.startswith("0x") else value.encode()
    return struct.pack(">i", len(data)) + data


def _codes(codes: list[int]) -> bytes:
    return struct.pack(f">h{len(codes)}h", len(codes), *codes)


def encode(line: str) -> bytes:
    """The bytes of a '>' line."""
    name, _, rest = line[1:].strip().partition(" ")
    if name in CODES:
        return message(CODES[name])
    if name == "Bytes":
        return bytes.fromhex(rest)
    given: dict[str, Any] = json.loads(rest or "{}") if not rest.startswith('"') else {"sql": json.loads(rest)}
    if name == "Startup":
        body = struct.pack(">i", given.pop("version", 196608))
        body += b"".join(_text(part) for pair in given.items() for part in pair) + b"\0"
        return struct.pack(">i", len(body) + 4) + body
    if name == "Query":
        return message(b"Q", _text(given["sql"]))
    if name == "Parse":
        types = given.get("types", [])
        body = _text(given.get("name", "")) + _text(given["sql"])
        return message(b"P", body + struct.pack(f">h{len(types)}I", len(types), *types))
    if name == "Bind":
        values = given.get("values", [])
        body = _text(given.get("portal", "")) + _text(given.get("name", "")) + _codes(given.get("formats", []))
        body += struct.pack(">h", len(values)) + b"".join(map(_value, values)) + _codes(given.get("results", []))
        return message(b"B", body)
    if name in ("Describe", "Close"):
        kind = "S" if "name" in given else "P"
        return message(name[0].encode(), kind.encode() + _text(given.get("name", given.get("portal", ""))))
    if name == "Execute":
        return message(b"E", _text(given.get("portal", "")) + struct.pack(">i", given.get("limit", 0)))
    if name == "CopyData":
        return message(b"d", _value(given["sql"])[4:])
    if name == "CopyFail":
        return message(b"f", _text(given["sql"]))
    raise ValueError(f"unknown message {name}")


def shown(data: bytes) -> str:
    """Bytes as scripts write them."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return "0x" + data.hex()
    return text if all(char.isprintable() or char in "\n\t" for char in text) else "0x" + data.hex()


def _strings(body: bytes) -> list[str]:
    return [part.decode() for part in body.split(b"\0")]


def decode(kind: str, body: bytes) -> str:
    """A message of the server as a line, without '<'."""
    if kind in BARE:
        return BARE[kind]
    if kind == "Z":
        return f"ReadyForQuery {body.decode()}"
    if kind == "C":
        return f"CommandComplete {_strings(body)[0]}"
    if kind == "R":
        return f"Authentication {struct.unpack('>i', body[:4])[0]}"
    if kind == "D":
        return "DataRow " + json.dumps(list(_row(body)), ensure_ascii=False)
    if kind == "T":
        return "RowDescription " + json.dumps(list(_columns(body)), ensure_ascii=False)
    if kind == "t":
        return "ParameterDescription " + json.dumps(list(struct.unpack(f">{len(body) // 4}I", body[2:])))
    if kind in "EN":
        fields = {part[0]: part[1:] for part in _strings(body) if part and part[0] not in "FLRV"}
        return f"{'ErrorResponse' if kind == 'E' else 'NoticeResponse'} {json.dumps(fields, ensure_ascii=False)}"
    if kind == "S":
        return "ParameterStatus {} {}".format(*_strings(body))
    if kind in "GH":
        name = "CopyInResponse" if kind == "G" else "CopyOutResponse"
        return f"{name} {body[0]} {list(struct.unpack(f'>{(len(body) - 3) // 2}h', body[3:]))}"
    if kind == "d":
        return "CopyData " + json.dumps(shown(body), ensure_ascii=False)
    if kind == "A":
        channel, payload, _ = _strings(body[4:])
        return f"NotificationResponse {channel} {json.dumps(payload)}"
    if kind == "v":
        return f"NegotiateProtocolVersion {struct.unpack('>i', body[:4])[0]} {_strings(body[8:])[:-1]}"
    return f"{kind} {body!r}"


def _row(body: bytes) -> Iterator[str | None]:
    position = 2
    for _ in range(struct.unpack_from(">h", body)[0]):
        length = struct.unpack_from(">i", body, position)[0]
        position += 4
        yield None if length < 0 else shown(body[position : position + length])
        position += max(length, 0)


def _columns(body: bytes) -> Iterator[str]:
    position = 2
    for _ in range(struct.unpack_from(">h", body)[0]):
        end = body.index(b"\0", position)
        _, _, oid, size, typmod, code = struct.unpack_from(">IhIhih", body, end + 1)
        yield f"{body[position:end].decode()} type={oid} size={size} typmod={typmod} format={code}"
        position = end + 19


class Client:
    """A socket that speaks in lines."""

    def __init__(self, dsn: str, raw: bool = False, schema: str = "public") -> None:
        given = conninfo_to_dict(dsn)
        self.socket = socket.create_connection((str(given["host"]), int(str(given["port"]))), LIMIT)
        self.raw = raw
        self._negotiating = False
        self._buffer = b""
        if not raw:
            start = {"user": "postgres", "database": "postgres", "options": f"-c search_path={schema}"}
            self.send([f"> Startup {json.dumps(start)}"])
            while (line := self.receive()) != "ReadyForQuery I":
                if line == "Closed" or line.startswith("Error"):
                    raise ConnectionError(line)

    def send(self, lines: list[str]) -> None:
        data = b"".join(map(encode, lines))
        self._negotiating = data[4:8] in (b"\x04\xd2\x16\x2f", b"\x04\xd2\x16\x30")
        self.socket.sendall(data)

    def _read(self, size: int) -> bytes:
        while len(self._buffer) < size:
            try:
                data = self.socket.recv(1 << 16)
            except ConnectionResetError:
                data = b""
            if not data:
                return b""
            self._buffer += data
        taken, self._buffer = self._buffer[:size], self._buffer[size:]
        return taken

    def receive(self) -> str:
        """The next message as a line; 'Closed' when the server hung up, 'Nothing' when it is silent."""
        try:
            kind = self._read(1)
            if not kind:
                return "Closed"
            if self._negotiating and kind in b"NSG":
                self._negotiating = False
                return f"Byte {kind.decode()}"
            head = self._read(4)
            length = struct.unpack(">i", head)[0] if head else 4
            body = self._read(length - 4) if length > 4 else b""
            if len(body) != length - 4 or not head:  # as servers answer protocol 2, or hang up within a message
                rest, self._buffer = kind + head + self._buffer, b""
                return f"Rest {rest!r}"
        except TimeoutError:
            return "Nothing"
        if self.raw and kind in b"RSK":
            return self.receive()
        return decode(kind.decode(), body)

    def close(self) -> None:
        self.socket.close()


def agrees(expected: str, got: str) -> bool:
    """Whether a message is the expected one; of errors and notices the fields that the script names."""
    name, _, rest = expected.partition(" ")
    if name in ("ErrorResponse", "NoticeResponse") and got.startswith(name + " "):
        fields = json.loads(got.partition(" ")[2])
        return all(fields.get(code) == value for code, value in json.loads(rest).items())
    return expected == got.rstrip()


def run(dsn: str, script: Script, record: bool = False) -> list[str]:
    """The script's lines with what really came. Raises AssertionError at the first difference unless recording."""
    schema = "wire"
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE".encode())
        connection.execute(f"CREATE SCHEMA {schema}".encode())
        connection.execute(f"SET search_path TO {schema}".encode())
        for sql in script.setup:
            connection.execute(sql.encode())
        client = Client(dsn, script.raw, schema)
        try:
            return _converse(client, script, record)
        finally:
            client.close()
            connection.execute(f"DROP SCHEMA {schema} CASCADE".encode())


def _converse(client: Client, script: Script, record: bool) -> list[str]:
    said: list[str] = []
    for sending, lines in _groups(script.lines, record):
        if sending:
            said += lines
            client.send(lines)
            if record:
                said += [f"< {line}" for line in _answers(client)]
        elif not record:
            for line in lines:
                got = client.receive()
                said.append(f"< {got}")
                assert agrees(line[1:].strip(), got), "\n".join([script.name, *said, f"expected {line}"])
    if not record and not said[-1].endswith("Closed"):
        client.send(["> Terminate"])
        rest = client.receive()
        assert rest == "Closed", f"{script.name}: {rest} after the last expected message"
    return said


def _groups(lines: list[str], record: bool) -> Iterator[tuple[bool, list[str]]]:
    """Runs of '>' lines and of '<' lines; when recording, a run ends where an answer is due."""
    runs: list[tuple[bool, list[str]]] = []
    for line in lines:
        sending = line.startswith(">")
        ended = record and bool(runs) and runs[-1][1][-1].split()[1] in DUE
        if not runs or runs[-1][0] != sending or ended:
            runs.append((sending, []))
        runs[-1][1].append(line)
    return iter(runs)


def _answers(client: Client) -> Iterator[str]:
    """What comes until the server has nothing more to say, for recording."""
    client.socket.settimeout(0.5)
    while (line := client.receive()) != "Nothing":
        yield line
        if line == "Closed":
            return


def record(dsn: str, path: pathlib.Path) -> None:
    """Rewrites the '<' lines of a file; comments above a test stay."""
    text = path.read_text()
    scripts = iter(parse(text))
    out: list[str] = []
    for line in text.splitlines():
        if line[:1] not in ("<", ">"):
            out.append(line)
    merged: list[str] = []
    pending: Script | None = None
    for line in [*out, ""]:
        if pending is not None and not line.strip():
            merged += run(dsn, pending, record=True)
            pending = None
        if line.startswith("test "):
            pending = next(scripts)
        merged.append(line)
    path.write_text("\n".join(merged).rstrip() + "\n")


if __name__ == "__main__":
    with PostgresServer() as postgres:
        for name in sys.argv[1:]:
            record(postgres.dsn, pathlib.Path(name))
