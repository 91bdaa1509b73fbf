"""A private PostgreSQL server from Debian's packages, for comparisons.

initdb refuses to run as root, so there it runs as the package's `postgres` user.
"""

from __future__ import annotations

import contextlib
import glob
import itertools
import os
import pathlib
import pwd
import random
import shutil
import socket
import subprocess
import tempfile
from types import TracebackType

_PORTS = range(10_000, 32_000)
_next = itertools.count(random.SystemRandom().randrange(len(_PORTS)))


def free_port() -> int:
    """A TCP port of the loopback interface that nobody listens on now. Not of those that the system gives connections:
    one of these may be taken before a server listens on it."""
    for number in _next:
        port = _PORTS[number % len(_PORTS)]
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError


def binaries() -> pathlib.Path:
    """The directory of initdb and postgres. Raises RuntimeError with the package to install."""
    places = sorted(glob.glob("/usr/lib/postgresql/*/bin"))
    if not places:
        raise RuntimeError("no PostgreSQL server on this machine: apt-get install postgresql")
    return pathlib.Path(places[-1])


class PostgresServer:
    """Starts on entry, stops and removes its files on exit. `dsn` is a libpq connection string."""

    def __init__(self, settings: tuple[str, ...] = ("fsync=off", "max_prepared_transactions=10")) -> None:
        self.settings = settings
        self.port = free_port()
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="shoal-oracle-"))
        self.dsn = f"host=127.0.0.1 port={self.port} user=postgres dbname=postgres"

    def _run(self, *command: str) -> None:
        identity = {}
        if os.getuid() == 0:
            owner = pwd.getpwnam("postgres")
            os.chown(self.directory, owner.pw_uid, owner.pw_gid)
            identity = {"user": owner.pw_uid, "group": owner.pw_gid}
        # type: ignore[call-overload]
        subprocess.run(command, check=True, cwd=self.directory, stdout=subprocess.DEVNULL, **identity)

    def __enter__(self) -> PostgresServer:
        data = str(self.directory / "data")
        bin_ = binaries()
        self._run(str(bin_ / "initdb"), "-D", data, "-A", "trust", "-U", "postgres", "--locale=C.UTF-8", "-E", "UTF8")
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={self.directory}"
        options += "".join(f" -c {setting}" for setting in self.settings)
        self._run(str(bin_ / "pg_ctl"), "-D", data, "-o", options, "-l", str(self.directory / "log"), "-w", "start")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._run(str(binaries() / "pg_ctl"), "-D", str(self.directory / "data"), "-m", "immediate", "-w", "stop")
        shutil.rmtree(self.directory, ignore_errors=True)
