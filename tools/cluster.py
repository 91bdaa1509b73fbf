"""`make cluster`: ZooKeeper, nodes and a router on this machine, in one terminal, until Ctrl-C.

    .venv/bin/python -m tools.cluster [--nodes 3] [--data ./shoal-cluster] [--port 5440]

    PORT            the router                          DIR/zookeeper/      ZooKeeper's data, synced as in production
    PORT + 1 ...    node-1, node-2, ...                 DIR/changelog/      the changelog store that all nodes share
    PORT + 10       SQL over HTTP (the router)          DIR/node-1/ ...     a node's own directory
    PORT + 11       ZooKeeper                           DIR/logs/           what each of them says
    PORT + 21 ...   the nodes' consoles and metrics

Started again with the same directory it goes on with its data, with more nodes or with fewer. A node that is killed is
started again after a pause that is long enough to see the others go on without it. Ctrl-C stops the router, then the
nodes one after the other, each handing over what it leads, then ZooKeeper.
"""

from __future__ import annotations

import argparse
import pathlib
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence

from tests.zookeeper_server import CLASS_PATH, JARS

SHOAL = pathlib.Path(sys.executable).with_name("shoal")
ROOT = pathlib.Path(__file__).resolve().parent.parent
MAX_NODES = 9
START_SECONDS = 60.0
STOP_SECONDS = 60.0
ADMIN = 20  # from a node's port to that of its console
RESTART_PAUSE = 20.0  # seconds that a killed node stays away
POLL = 0.1
ZOOKEEPER = """\
dataDir={data}
clientPort={port}
clientPortAddress=127.0.0.1
tickTime=1000
maxClientCnxns=0
admin.enableServer=false
autopurge.snapRetainCount=3
autopurge.purgeInterval=1
"""


class ClusterError(Exception):
    """What keeps the cluster from running, in one line."""


class Part:
    """One process. `start` returns when its port is open, and that of HTTP or of its console (`other_port`) too."""

    def __init__(
        self, name: str, port: int, command: Sequence[str], log: pathlib.Path, other_port: int | None = None
    ) -> None:
        self.name = name
        self.port = port
        self.ports = [port] if other_port is None else [port, other_port]
        self.command = list(command)
        self.log = log
        self.ended_at: float | None = None  # time.monotonic(), when it has ended by itself
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        return self._process.pid if self._process is not None else 0

    def start(self) -> None:
        """Raises ClusterError with what it said last."""
        self.launch()
        deadline = time.monotonic() + START_SECONDS
        while not all(map(is_open, self.ports)):
            if self.status() is not None or time.monotonic() > deadline:
                self.stop()
                lines = self.log.read_text(errors="replace").strip().splitlines()
                raise ClusterError(f"{self.name} did not start, see {self.log}:\n  " + "\n  ".join(lines[-5:]))
            time.sleep(POLL)

    def launch(self) -> None:
        """In a session of its own, so that Ctrl-C reaches only this program, which knows the order to stop in."""
        self.ended_at = None
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self.command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def status(self) -> int | None:
        """How it has ended; None while it runs."""
        return self._process.poll() if self._process is not None else 0

    def stop(self) -> None:
        """SIGTERM, and SIGKILL where that does not help."""
        if self._process is None or self._process.poll() is not None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def is_open(port: int) -> bool:
    """Whether somebody listens on the port of the loopback interface."""
    try:
        with socket.create_connection(("127.0.0.1", port), 1.0):
            return True
    except OSError:
        return False


class Cluster:
    """All the processes, below one directory."""

    def __init__(self, data: pathlib.Path, nodes: int, port: int) -> None:
        logs = data / "logs"
        self.address = f"zk://127.0.0.1:{port + 11}/shoal"
        self.http = f"http://127.0.0.1:{port + 10}/sql"
        self.zookeeper = Part(
            "ZooKeeper", port + 11, self._zookeeper_command(data / "zookeeper", port + 11), logs / "zookeeper.log"
        )
        shoal = [sys.executable, "-m", "shoal"]
        store = (data / "changelog").as_uri()
        self.nodes = []
        for number in range(1, nodes + 1):
            name = f"node-{number}"
            options = ["--node", name, "--data", str(data / name), "--listen", f"127.0.0.1:{port + number}"]
            admin = ["--admin", f"127.0.0.1:{port + ADMIN + number}"]
            command = [*shoal, "serve", *options, *admin, "--cluster", self.address, "--store", store]
            self.nodes.append(Part(name, port + number, command, logs / f"{name}.log", port + ADMIN + number))
        options = ["--listen", f"127.0.0.1:{port}", "--http", f"127.0.0.1:{port + 10}"]
        command = [*shoal, "router", "--cluster", self.address, *options]
        self.router = Part("router", port, command, logs / "router.log", port + 10)
        self._data = data

    def parts(self) -> list[Part]:
        """In the order in which they start."""
        return [self.zookeeper, *self.nodes, self.router]

    def _zookeeper_command(self, directory: pathlib.Path, port: int) -> list[str]:
        jars = ":".join(str(JARS / name) for name in CLASS_PATH)
        options = ["-Xmx256m", "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
        self._zookeeper_settings = ZOOKEEPER.format(data=directory / "data", port=port)
        self._configuration = directory / "zoo.cfg"
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        return ["java", *options, "-cp", jars, main, str(self._configuration)]

    def start(self) -> None:
        """Raises ClusterError; what had been started is stopped then."""
        wanted = [(part.name, part.port) for part in self.parts()]
        for name, port in [*wanted, *((f"{node.name}'s console", node.port + ADMIN) for node in self.nodes)]:
            if is_open(port):
                raise ClusterError(f"port {port} ({name}) is taken: another cluster? PORT=... chooses others")
        self._configuration.parent.mkdir(parents=True, exist_ok=True)
        self._configuration.write_text(self._zookeeper_settings)
        (self._data / "logs").mkdir(exist_ok=True)
        try:
            for part in self.parts():
                print(f"starting {part.name} ...", flush=True)
                part.start()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        for part in reversed(self.parts()):
            part.stop()

    def look(self) -> None:
        """Says who has ended, and starts nodes and router again after a pause. Raises ClusterError for ZooKeeper."""
        for part in self.parts():
            status = part.status()
            if status is None:
                continue
            if part.ended_at is None:
                part.ended_at = time.monotonic()
                how = f"was killed by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
                if part is self.zookeeper:
                    raise ClusterError(f"ZooKeeper {how}, see {part.log}")
                print(f"{part.name} {how} (log: {part.log}); it is started again in {RESTART_PAUSE:g} s", flush=True)
            elif time.monotonic() - part.ended_at >= RESTART_PAUSE:
                part.launch()
                print(f"{part.name} is started again, pid {part.pid}", flush=True)

    def told(self) -> str:
        """What a new user wants to paste."""
        user = "user=postgres dbname=postgres"
        hosts = ",".join("127.0.0.1" for _ in self.nodes)
        ports = ",".join(str(node.port) for node in self.nodes)
        lines = ["", "the cluster is ready:", ""]
        for node in self.nodes:
            lines.append(f'  {node.name:<10} psql "host=127.0.0.1 port={node.port} {user}"    pid {node.pid}')
        leads = "SELECT tablespace, leader, live_replicas FROM shoal_tablespaces"
        return "\n".join(
            [
                *lines,
                f'  {"any node":<10} psql "host={hosts} port={ports} {user}"',
                f'  {"router":<10} psql "host=127.0.0.1 port={self.router.port} {user}"    pid {self.router.pid}',
                f"  {'HTTP':<10} curl -s -H 'Content-Type: text/plain' -d 'SELECT 6 * 7' {self.http}",
                f"  {'console':<10} http://127.0.0.1:{self.nodes[0].port + ADMIN}/",
                f"  {'status':<10} {shlex.quote(str(SHOAL))} status --cluster {self.address}",
                "",
                "to see a fail-over, find the leader, kill it by its pid above, and continue through the router:",
                f'  psql "host=127.0.0.1 port={self.router.port} {user}" -c "{leads}"',
                "  kill -9 PID",
                f"Every node has a console, on port {self.nodes[0].port + ADMIN} and those that follow. "
                f"Killed nodes come back after {RESTART_PAUSE:g} s. Logs: {shlex.quote(str(self._data / 'logs'))}. "
                "Ctrl-C stops everything and keeps the data.",
                "",
            ]
        )


def require_zookeeper() -> None:
    """Installs Java and ZooKeeper's library where they are missing. Raises ClusterError when that fails."""
    if (JARS / CLASS_PATH[0]).exists() and shutil.which("java") is not None:
        return
    done = subprocess.run([str(ROOT / "tools" / "packages.sh"), "cluster"], check=False)
    if done.returncode or shutil.which("java") is None:
        raise ClusterError("ZooKeeper could not be installed: apt-get install libzookeeper-java default-jre-headless")


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(prog="python -m tools.cluster", description="A whole cluster on this machine.")
    top.add_argument("--nodes", type=int, default=3, help="how many (1 to 9; default: %(default)s)")
    top.add_argument("--data", default="./shoal-cluster", help="directory of everything (default: %(default)s)")
    top.add_argument("--port", type=int, default=5440, help="the router's; the others follow (default: %(default)s)")
    return top


def run(cluster: Cluster) -> None:
    """Starts it, and looks after it until SIGINT or SIGTERM. Raises ClusterError."""
    stopping = False

    def stop(number: int, frame: object) -> None:
        nonlocal stopping
        if stopping:
            return  # it is stopping already, in good order
        stopping = True
        raise KeyboardInterrupt

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    try:
        cluster.start()
        print(cluster.told(), flush=True)
        while True:
            time.sleep(POLL)
            cluster.look()
    except KeyboardInterrupt:
        print("\nstopping ...", flush=True)
    finally:
        stopping = True
        cluster.stop()


def main() -> int:
    """The exit status."""
    options = parser().parse_args()
    if not 1 <= options.nodes <= MAX_NODES:
        parser().error(f"--nodes is between 1 and {MAX_NODES}")
    if not 1024 <= options.port <= 65535 - ADMIN - MAX_NODES:
        parser().error(f"--port is between 1024 and {65535 - ADMIN - MAX_NODES}")
    try:
        require_zookeeper()
        run(Cluster(pathlib.Path(options.data).resolve(), options.nodes, options.port))
    except ClusterError as error:
        print(f"cluster: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
