"""A crowd of connections that read single rows, and what is to leave them alone.

    quiet        500 idle connections, 200 that read
    each load    beside them
    all loads    at once
    quiet        again

Point reads are the crowd's because they are what waits when anything holds the event loop, the interpreter or the disk.
They wait for processors too, which the loads' clients and the readers themselves want as well: so PostgreSQL is the
control. It has a crowd of its own, which rests while Shoal's reads, and the other way round.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

import psutil
import psycopg

from tests.oracle import PostgresServer
from tests.server import ROOT, ShoalServer
from tests.torture.crowd.loads import LOADS

IDLE, BUSY, RATE, ROWS = 500, 200, 1000.0, 100_000


class CrowdServer(ShoalServer):
    """Shoal for so many connections. In a session of its own, as a service is, and as PostgreSQL's processes are: Linux
    shares processors out among sessions first (sched_autogroup), and the loads' clients are in this one."""

    def command(self) -> list[str]:
        return ["setsid", "env", "SHOAL_MAX_CONNECTIONS=1000", f"SHOAL_COLUMNAR_MEMORY={512 << 20}", *super().command()]


class CrowdPostgres(PostgresServer):
    """The same of PostgreSQL, which syncs its commits as Shoal does."""

    def __init__(self) -> None:
        super().__init__(("max_connections=1000",))

    @property
    def pid(self) -> int:
        return int((self.directory / "data" / "postmaster.pid").read_text().split()[0])


class Served(Protocol):
    """A server under a crowd."""

    @property
    def dsn(self) -> str: ...
    @property
    def port(self) -> int: ...
    @property
    def pid(self) -> int: ...


@dataclass(slots=True)
class Window:
    """Of the reads while `name` ran: times in milliseconds; what the engine's process grew to, in MB: memory of its
    own, and `mapped`, pages of files, which the kernel takes back when it wants them."""

    name: str
    figures: dict[str, float]
    memory: float
    said: list[str] = field(default_factory=list)
    mapped: float = 0.0


class Crowd:
    """Idle connections and readers of a server, for as long as the context lasts."""

    def __init__(self, server: Served, idle: int, busy: int, rate: float) -> None:
        self.server = server
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute("CREATE TABLE crowd_points (id int PRIMARY KEY, note text)")
            connection.execute(
                f"INSERT INTO crowd_points SELECT i, 'note of ' || i FROM generate_series(0, {ROWS - 1}) i".encode()
            )
            connection.execute("CREATE TABLE crowd_copy (id bigint PRIMARY KEY, part int, filler text)")
        self.idle = [psycopg.connect(server.dsn) for _ in range(idle)]
        command = [
            sys.executable,
            "-m",
            "tests.torture.crowd.readers",
            str(server.port),
            str(busy),
            str(rate),
            str(ROWS),
        ]
        self.readers = subprocess.Popen(
            command,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._line()

    def window(self) -> dict[str, float]:
        """The figures since the last call. Raises RuntimeError when a reader was not answered."""
        return self._ask("")

    def rest(self) -> None:
        """Nothing is read until the next window."""
        self._ask("rest")

    def _ask(self, line: str) -> dict[str, float]:
        assert self.readers.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # they have ended: the next line tells why
            self.readers.stdin.write(f"{line}\n")
            self.readers.stdin.flush()
        return self._line()

    def _line(self) -> dict[str, float]:
        """The next figures that the readers write; the first when all of them are connected."""
        assert self.readers.stdout is not None and self.readers.stderr is not None
        line = self.readers.stdout.readline()
        if not line:
            raise RuntimeError(f"the readers have ended: {self.readers.stderr.read()[-500:]}")
        found: dict[str, float] = json.loads(line)
        return found

    def run(self, name: str, loads: dict[str, int], seconds: float) -> Window:
        """Reads beside the loads, which are given their sizes."""
        over = threading.Event()
        said: list[str] = []

        def work(load: str, size: int) -> None:
            try:
                said.append(LOADS[load](self.server.dsn, over, size))
            except Exception as error:
                said.append(f"WRONG: {load}: {error!r}"[:300])

        threads = [threading.Thread(target=work, args=item, name=item[0]) for item in loads.items()]
        self.window()
        for thread in threads:
            thread.start()
        end, most, mapped = time.monotonic() + seconds, 0.0, 0.0
        process = psutil.Process(self.server.pid)
        while time.monotonic() < end:
            memory = process.memory_info()
            most, mapped = max(most, (memory.rss - memory.shared) / 1e6), max(mapped, memory.shared / 1e6)
            time.sleep(0.1)
        figures = self.window()
        over.set()
        for thread in threads:
            thread.join(120)
            if thread.is_alive():
                said.append(f"WRONG: {thread.name} does not end")
        return Window(name, figures, most, said, mapped)

    def close(self) -> None:
        assert self.readers.stdin is not None
        self.readers.kill()
        self.readers.communicate()
        for connection in self.idle:
            connection.close()


@contextlib.contextmanager
def crowd(
    idle: int = IDLE, busy: int = BUSY, rate: float = RATE, server: type[CrowdServer | CrowdPostgres] = CrowdServer
) -> Iterator[Crowd]:
    with server() as served:
        found = Crowd(served, idle, busy, rate)
        try:
            yield found
        finally:
            found.close()
