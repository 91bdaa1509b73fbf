"""`make cluster` as a new user would try it: paste a line, stop it, start it again."""

from __future__ import annotations

import json
import os
import pathlib
import random
import re
import select
import signal
import subprocess
import sys
import time
import urllib.request

import psycopg
import pytest

from tools.cluster import is_open

ROOT = pathlib.Path(__file__).resolve().parents[2]
PORTS = 23


def free_ports() -> int:
    """The first of PORTS ports in a row that nobody listens on, below those that connections get by themselves: one of
    these could be taken before the cluster comes to it."""
    while True:
        first = random.randrange(20000, 32768 - PORTS)
        if not any(is_open(first + number) for number in range(PORTS)):
            return first


def command(data: pathlib.Path, port: int) -> list[str]:
    return [sys.executable, "-m", "tools.cluster", "--nodes", "2", "--data", str(data), "--port", str(port)]


class Running:
    """The tool, from its last line of help to SIGINT."""

    def __init__(self, data: pathlib.Path, port: int) -> None:
        self.process = subprocess.Popen(command(data, port), cwd=ROOT, stdout=subprocess.PIPE)
        self.logs = data / "logs"
        self.text = ""
        self.read_until("keeps the data.")

    def read_until(self, what: str) -> None:
        assert self.process.stdout is not None
        deadline = time.monotonic() + 60
        while what not in self.text:
            assert select.select([self.process.stdout], [], [], max(deadline - time.monotonic(), 0))[0], self.text
            piece = os.read(self.process.stdout.fileno(), 4096).decode()
            assert piece, self.text
            self.text += piece

    def told(self, part: str) -> str:
        """The connection string or URL that it prints for one of its parts."""
        line = next(line for line in self.text.splitlines() if line.strip().startswith(part + " "))
        found = re.search(r'"(.*)"', line)
        return found[1] if found else line.split()[-1]

    def stop(self) -> int:
        self.process.send_signal(signal.SIGINT)
        try:
            return self.process.wait(60)
        except subprocess.TimeoutExpired:  # what its parts said last tells which of them does not end
            last = [f"{path.name}: {path.read_text(errors='replace')[-1500:]}" for path in sorted(self.logs.iterdir())]
            raise AssertionError("\n".join(["it does not end", *last])) from None


@pytest.mark.usefixtures("zookeeper_server")  # there is one to be had
def test_what_it_prints_works_and_a_second_start_has_the_data(tmp_path: pathlib.Path) -> None:
    port = free_ports()
    first = Running(tmp_path, port)
    try:
        with psycopg.connect(first.told("router"), autocommit=True) as connection:
            connection.execute("CREATE TABLE kept (a int PRIMARY KEY)")
            connection.execute("INSERT INTO kept VALUES (42)")
        refused = subprocess.run(command(tmp_path, port), cwd=ROOT, capture_output=True, text=True, check=False)
        assert refused.returncode == 1 and f"port {port + 11} (ZooKeeper) is taken" in refused.stderr
        killed = re.search(r"node-2 .* pid (\d+)", first.text)
        assert killed is not None
        subprocess.run(["kill", "-9", killed[1]], check=True)
        first.read_until("node-2 was killed by SIGKILL")
    finally:
        assert first.stop() == 0
    assert not any(is_open(port + number) for number in range(PORTS))
    second = Running(tmp_path, port)
    try:
        with psycopg.connect(second.told("any node"), autocommit=True) as connection:
            assert connection.execute("SELECT a FROM kept").fetchone() == (42,)
        request = urllib.request.Request(second.told("HTTP"), b"SELECT a FROM kept", {"Content-Type": "text/plain"})
        with urllib.request.urlopen(request, timeout=30) as response:
            assert json.loads(response.read())["rows"] == [[42]]
        with urllib.request.urlopen(second.told("console"), timeout=30) as response:
            assert b"<title>Shoal" in response.read()
        line = next(line for line in second.text.splitlines() if line.startswith("  status "))
        status = subprocess.run(line.split(None, 1)[1], shell=True, capture_output=True, text=True, check=False)
        assert "node-2" in status.stdout, status
    finally:
        assert second.stop() == 0
