"""A private ZooKeeper from Debian's packages: one server, or an ensemble, on free ports of the loopback interface.

Started with plain `java`, small and quick (about half a second alone, two with three servers). Clocks are fast: a tick
is 0.1 s, so sessions of 0.2 s and more are possible. Nothing is synced to disk unless asked for: killed processes lose
nothing by that.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from types import TracebackType

from tests.oracle import free_port

JARS = pathlib.Path("/usr/share/java")
CLASS_PATH = (
    "zookeeper.jar",
    "slf4j-simple.jar",
    "netty-codec.jar",
    "netty-resolver.jar",
)  # Debian's zookeeper.jar names most others
START_SECONDS = 30.0


class ZooKeeperServer:
    """One process. It can be killed and started again, frozen and thawed; its data stay."""

    def __init__(self, directory: pathlib.Path, settings: list[str], java_options: tuple[str, ...]) -> None:
        self.directory = directory
        self.port = free_port()
        self._settings = settings
        self._java_options = java_options
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None, "the server is not running"
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None

    def launch(self) -> None:
        """Starts the process; `wait` for it to serve."""
        if not (JARS / CLASS_PATH[0]).exists() or shutil.which("java") is None:
            raise RuntimeError("no ZooKeeper on this machine: make packages")
        (self.directory / "data").mkdir(parents=True, exist_ok=True)
        configuration = self.directory / "zoo.cfg"
        settings = [f"dataDir={self.directory / 'data'}", f"clientPort={self.port}", *self._settings]
        configuration.write_text("\n".join([*settings, ""]))
        command = ["java", "-Xmx128m", "-Xshare:auto", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        command += [*self._java_options, "-cp", ":".join(str(JARS / name) for name in CLASS_PATH)]
        command += ["org.apache.zookeeper.server.quorum.QuorumPeerMain", str(configuration)]
        with (self.directory / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.directory)

    def wait(self) -> None:
        """Until it serves clients. Raises RuntimeError with its log if it does not."""
        deadline = time.monotonic() + START_SECONDS
        while not self.mode():
            if self._process is None or self._process.poll() is not None or time.monotonic() > deadline:
                text = (self.directory / "log").read_text(errors="replace")
                raise RuntimeError(f"ZooKeeper did not start:\n{text[-4000:]}")
            time.sleep(0.02)

    def mode(self) -> str:
        """'standalone', 'leader' or 'follower'; '' if it serves nobody."""
        return self._status("Mode")

    def zxid(self) -> str:
        """The last change that it has applied; '' if it serves nobody."""
        return self._status("Zxid")

    def _status(self, name: str) -> str:
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1.0) as connection:
                connection.settimeout(1.0)
                connection.sendall(b"srvr")
                answer = b""
                while piece := connection.recv(4096):
                    answer += piece
        except OSError:
            return ""
        for line in answer.decode(errors="replace").splitlines():
            if line.startswith(f"{name}: "):
                return line.removeprefix(f"{name}: ").strip()
        return ""

    def start(self) -> None:
        if not self.running:
            self.launch()
        self.wait()

    def stop(self) -> None:
        """SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def suspend(self) -> None:
        """SIGSTOP: connections stay open, nothing is answered. No thread of it runs any more on return."""
        os.kill(self.pid, signal.SIGSTOP)
        for thread in pathlib.Path(f"/proc/{self.pid}/task").iterdir():
            while (thread / "stat").read_text().rpartition(")")[2].split()[0] not in "TZ":
                time.sleep(0.001)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)


class ZooKeeper:
    """`size` servers, started on entry and removed on exit. `sync`: with fsync, as in production. `java`: options."""

    def __init__(
        self, size: int = 1, *, sync: bool = False, settings: tuple[str, ...] = (), java: tuple[str, ...] = ()
    ) -> None:
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="shoal-zookeeper-"))
        common = [
            "clientPortAddress=127.0.0.1",
            "tickTime=100",
            "initLimit=30",
            "syncLimit=20",
            "maxSessionTimeout=60000",
            "admin.enableServer=false",
            "4lw.commands.whitelist=srvr",
            "maxClientCnxns=0",
            *settings,
        ]
        synced = f"-Dzookeeper.forceSync={'yes' if sync else 'no'}"
        options = ("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", synced, *java)
        if size > 1:
            ports = [(free_port(), free_port()) for _ in range(size)]
            common += [f"server.{i}=127.0.0.1:{peer}:{vote}" for i, (peer, vote) in enumerate(ports, 1)]
        self.servers = [ZooKeeperServer(self.directory / str(i), common, options) for i in range(1, size + 1)]
        if size > 1:
            for number, server in enumerate(self.servers, 1):
                (server.directory / "data").mkdir(parents=True)
                (server.directory / "data" / "myid").write_text(f"{number}\n")

    @property
    def hosts(self) -> str:
        return ",".join(f"127.0.0.1:{server.port}" for server in self.servers)

    def url(self, name: str) -> str:
        """Of a cluster below the znode /name."""
        return f"zk://{self.hosts}/{name}"

    def server(self, mode: str) -> ZooKeeperServer:
        """The first that is 'leader', 'follower' or 'standalone' now."""
        return next(server for server in self.servers if server.running and server.mode() == mode)

    def settle(self) -> None:
        """Waits until all servers have applied the same changes. In ZooKeeper 3.8.0 followers that are not level when
        their leader dies may elect in vain until it is back (an acknowledgement of the older change is taken for that
        of the new leader)."""
        while len({server.zxid() for server in self.servers}) > 1:
            time.sleep(0.01)

    def start(self) -> None:
        """Those that were stopped. Returns when all of them serve."""
        for server in self.servers:
            if not server.running:
                server.launch()
        for server in self.servers:
            server.wait()

    def stop(self) -> None:
        for server in self.servers:
            server.stop()

    def forget(self) -> None:
        """All servers lose their data (they must be stopped)."""
        for server in self.servers:
            for version in (server.directory / "data").glob("version-*"):
                shutil.rmtree(version)

    def __enter__(self) -> ZooKeeper:
        try:
            self.start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)
