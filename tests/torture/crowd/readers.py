"""The crowd's point reads, in a process of their own: so many connections, each with a read every so often.

    python -m tests.torture.crowd.readers PORT CONNECTIONS READS_A_SECOND ROWS

A line on standard input begins the next window, and the figures of the one before are written as a line of JSON:
how many reads, and percentiles of their times in milliseconds. After the line `rest` nothing is read until the next
one. Errors of the server end the process with their text.

A read's time counts from when it was due, not from when it was sent, so a server that stands still is charged with
every read that it has kept waiting (no "coordinated omission"). And this process gets a processor as soon as it wakes
up, where Linux does that: the clients of the loads, which would have machines of their own, are on this one, and what
readers wait for them is nothing that the server could change.
"""

from __future__ import annotations

import asyncio
import json
import random
import struct
import sys
from typing import cast

import uvloop

from engine.priority import stand_first

READY = b"Z\0\0\0\5"
STARTUP = struct.pack("!ii", 41, 196608) + b"user\0postgres\0database\0postgres\0\0"
SQL = b"SELECT note FROM crowd_points WHERE id = $1\0"


def _message(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!i", len(body) + 4) + body


def _read(number: int) -> bytes:
    value = str(number).encode()
    bind = b"\0s\0" + struct.pack("!hhi", 0, 1, len(value)) + value + struct.pack("!h", 0)
    return _message(b"B", bind) + _message(b"E", b"\0\0\0\0\0") + _message(b"S", b"")


class Reader(asyncio.Protocol):
    """One connection. `times`: seconds of each read of this window."""

    times: list[float] = []
    resting = False

    def __init__(self, interval: float, rows: int) -> None:
        self.loop = asyncio.get_running_loop()
        self.interval, self.rows = interval, rows
        self.entered: asyncio.Future[None] = self.loop.create_future()
        self.due = 0.0
        self.waits = False  # has come to its turn while all rest
        self.data = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is one without being a subclass
        self.transport.write(STARTUP)
        self.transport.write(_message(b"P", b"s\0" + SQL + struct.pack("!hi", 1, 23)) + _message(b"S", b""))
        self.greetings = 2

    def data_received(self, data: bytes) -> None:
        self.data += data
        if self.data[-6:-1] != READY:
            return
        if self.greetings:
            self.greetings -= self.data.count(READY)
            if not self.greetings:
                self.entered.set_result(None)
                self.begin()
        elif self.data[:1] != b"2":
            sys.exit(f"no answer to a read: {self.data[:200]!r}")
        else:
            now = self.loop.time()
            Reader.times.append(now - self.due)
            self.due += self.interval
            if self.due > now:
                self.loop.call_at(self.due, self.send)
            else:
                self.send()
        self.data = b""

    def begin(self) -> None:
        """Reads at some moment within an interval, and every interval from then on."""
        self.waits = False
        self.due = self.loop.time() + random.random() * self.interval
        self.loop.call_at(self.due, self.send)

    def send(self) -> None:
        if Reader.resting:
            self.waits = True
            return
        self.transport.write(_read(random.randrange(self.rows)))

    def connection_lost(self, error: Exception | None) -> None:
        sys.exit(f"a connection was lost: {error!r}, {self.data[:200]!r}")


def _figures() -> dict[str, float]:
    times = sorted(Reader.times)
    Reader.times = []
    count = len(times)
    if not count:
        return {"reads": 0}
    at = {name: times[min(int(count * part), count - 1)] * 1000 for name, part in (("p50", 0.5), ("p99", 0.99))}
    return {"reads": count, **at, "p999": times[min(int(count * 0.999), count - 1)] * 1000, "most": times[-1] * 1000}


async def _main(port: int, connections: int, rate: float, rows: int) -> None:
    loop = asyncio.get_running_loop()
    readers = []
    for _ in range(connections):
        _, reader = await loop.create_connection(lambda: Reader(connections / rate, rows), "127.0.0.1", port)
        await reader.entered
        readers.append(reader)
    incoming = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(incoming), sys.stdin)
    print(json.dumps(_figures()), flush=True)
    while line := await incoming.readline():
        if Reader.resting:
            await asyncio.sleep(2 * connections / rate)  # all have come to their turn
        Reader.resting = line.strip() == b"rest"
        for reader in readers:
            if reader.waits and not Reader.resting:
                reader.begin()
        print(json.dumps(_figures()), flush=True)
    for reader in readers:
        reader.transport.abort()


if __name__ == "__main__":
    stand_first()
    uvloop.run(_main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])))
