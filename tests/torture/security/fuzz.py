"""Frames that no client sends, in every state of the protocol: the server answers, or hangs up, and goes on.

A case is made from its number: a state is reached by good messages; then come bytes made of good messages with lengths
altered, bytes flipped, pieces cut, doubled or put in another order, and garbage, in pieces of any size. Then the case
ends the connection's sending side and everything that still comes is read. Wrong is

    a hang      the server has not hung up LIMIT seconds later
    a crash     the server is gone, or a plain statement on another connection is not answered
    a defect    it answers with XX000, or with a message that is none
"""

from __future__ import annotations

import random
import socket
import struct
from dataclasses import dataclass

import psycopg
from psycopg.conninfo import conninfo_to_dict

from tests.wire.transcript import encode

LIMIT = 15.0
KNOWN = b"RKSZCTDEN12nst3IGHWAdcvV"

STARTUP = encode('> Startup {"user": "postgres", "database": "postgres"}')
PARSE = encode('> Parse {"name": "s", "sql": "SELECT $1::int + g, repeat($2, 3) FROM generate_series(1, 5) g"}')
BIND = encode('> Bind {"portal": "p", "name": "s", "values": ["1", "x"], "formats": [0], "results": [0, 1]}')
EXECUTE, SYNC = encode('> Execute {"portal": "p", "limit": 2}'), encode("> Sync")

# What has been sent when the fuzzed bytes come; what came back is not waited for.
STATES: dict[str, bytes] = {
    "nothing": b"",
    "started": STARTUP,
    "prepared": STARTUP + PARSE,
    "bound": STARTUP + PARSE + BIND,
    "suspended": STARTUP + PARSE + BIND + EXECUTE,
    "skipping": STARTUP + encode('> Parse {"sql": "SELECT 1/"}') + EXECUTE,
    "in a block": STARTUP + encode('> Query "BEGIN; SELECT 1"'),
    "in a failed block": STARTUP + encode('> Query "BEGIN; SELECT 1/0"'),
    "COPY in": STARTUP + encode('> Query "CREATE TEMP TABLE f (a int, b text); COPY f FROM STDIN"'),
    "COPY in, extended": STARTUP
    + encode('> Query "CREATE TEMP TABLE f (a int, b text)"')
    + encode('> Parse {"sql": "COPY f FROM STDIN (FORMAT binary)"}')
    + encode("> Bind {}")
    + encode("> Execute {}"),
    "COPY out": STARTUP + encode('> Query "COPY (SELECT g FROM generate_series(1, 100000) g) TO STDOUT"'),
    "columnar": STARTUP + encode('> Query "SET shoal.path = columnar; SELECT count(*) FROM generate_series(1, 9)"'),
}

GOOD = (
    STARTUP,
    PARSE,
    BIND,
    EXECUTE,
    SYNC,
    encode("> Flush"),
    encode('> Query "SELECT 1"'),
    encode("> Query \"SELECT 1; SELECT 'ä'; COMMIT\""),
    encode('> Parse {"sql": "INSERT INTO f VALUES ($1, $2)", "types": [23, 25]}'),
    encode('> Bind {"values": ["1", null], "formats": [1, 0]}'),
    encode('> Describe {"portal": "p"}'),
    encode('> Describe {"name": "s"}'),
    encode('> Close {"name": "s"}'),
    encode('> Execute {"limit": 1}'),
    encode('> CopyData {"sql": "1\\tx\\n"}'),
    encode("> CopyDone"),
    encode('> CopyFail {"sql": "no"}'),
    encode("> Terminate"),
    b"F" + struct.pack(">iIhhhi4sh", 26, 1598, 1, 1, 1, 4, b"\0\0\0\1", 1),
    b"p\0\0\0\x17SCRAM-SHA-256\0\0\0\0\x01n",
    struct.pack(">ii", 8, 80877103),
    struct.pack(">ii", 8, 80877104),
    struct.pack(">iiii", 16, 80877102, 1, 2),
)


@dataclass(frozen=True, slots=True)
class Made:
    """The state of a case, and the pieces that its `frames` are sent in."""

    number: int
    state: str
    frames: int
    pieces: list[bytes]


def made(number: int) -> Made:
    """A case of a number."""
    chance = random.Random(number)
    state = chance.choice(list(STATES))
    frames = [_spoiled(chance, chance.choice(GOOD)) for _ in range(chance.randrange(1, 12))]
    data = b"".join(frames)
    if chance.random() < 0.2:
        data = data[: chance.randrange(len(data) + 1)]
    pieces = []
    while data:
        size = chance.choice((1, 7, 100, 5000, 1 << 20))
        pieces.append(data[:size])
        data = data[size:]
    return Made(number, state, len(frames), pieces)


def _spoiled(chance: random.Random, frame: bytes) -> bytes:
    way = chance.randrange(10)
    data = bytearray(frame)
    if way == 0:
        return bytes(chance.randrange(256) for _ in range(chance.randrange(60)))
    if way == 1 and len(data) >= 5:
        lengths = (-1, 0, 3, 4, 5, 1 << 16, 1 << 30, (1 << 31) - 1, chance.randrange(200))
        data[1:5] = struct.pack(">i", chance.choice(lengths))
    elif way == 2:
        for _ in range(chance.randrange(1, 4)):
            data[chance.randrange(len(data))] = chance.randrange(256)
    elif way == 3:
        at = chance.randrange(len(data))
        del data[at : at + chance.randrange(1, 8)]
    elif way == 4:
        at = chance.randrange(5, len(data) + 1) if len(data) > 5 else len(data)
        data[at:at] = bytes(chance.randrange(256) for _ in range(chance.randrange(20)))
        if len(data) >= 5:
            data[1:5] = struct.pack(">i", len(data) - 1)
    elif way == 5:
        data = data * 2
    return bytes(data)


def attempt(dsn: str, case: Made, limit: float = LIMIT) -> str:
    """What went wrong, '' if nothing. `limit`: seconds within which the server is to hang up."""
    which = f"case {case.number} ({case.state})"
    given = conninfo_to_dict(dsn)
    answer = b""
    try:
        with socket.create_connection((str(given["host"]), int(str(given["port"]))), limit) as connection:
            try:
                connection.sendall(STATES[case.state])
                for piece in case.pieces:
                    connection.sendall(piece)
                connection.shutdown(socket.SHUT_WR)
                while data := connection.recv(1 << 16):
                    answer += data
            except TimeoutError:
                return f"{which}: no end after {limit:g} s"
            except OSError:
                pass  # it hung up while something was still on its way
    except OSError as error:
        return f"{which}: {error}"
    problem = _judge(answer)
    return f"{which}: {problem}" if problem else ""


def _judge(answer: bytes) -> str:
    """Messages of known kinds, one behind the other, of which the last may be cut; none of them a defect."""
    position = 0
    if answer[:1] in (b"N", b"S") and not (answer[:1] == b"S" and answer[1:3] == b"\0\0"):
        position = len(answer) - len(answer.lstrip(b"NS")) if answer.strip(b"NS") == b"" else 1
    while len(answer) - position >= 5:
        kind, length = answer[position], struct.unpack_from(">i", answer, position + 1)[0]
        if kind in b"N" and not 4 <= length < 1 << 20:  # another refusal of encryption
            position += 1
            continue
        if kind not in KNOWN or length < 4:
            return f"no message: {answer[position : position + 20]!r}"
        if kind == ord("E") and b"CXX000\0" in answer[position : position + length + 1]:
            return f"a defect: {answer[position : position + 300]!r}"
        position += 1 + length
    return ""


def alive(dsn: str) -> str:
    """Whether a plain statement is answered, on both paths: what is wrong, '' if nothing."""
    try:
        with psycopg.connect(dsn, autocommit=True, connect_timeout=10) as connection:
            connection.execute(b"SET statement_timeout = '20s'")
            for path in (b"auto", b"columnar"):
                connection.execute(b"SET shoal.path = " + path)
                assert connection.execute(b"SELECT 1").fetchall() == [(1,)]
        return ""
    except Exception as error:
        return f"a plain statement fails: {error!r}"
