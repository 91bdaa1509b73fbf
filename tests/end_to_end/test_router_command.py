"""`shoal router` as a process, with a real ZooKeeper."""

from __future__ import annotations

import asyncio
import dataclasses
import pathlib
import re
import signal
import subprocess
import sys
import urllib.request

import orjson
import psycopg
import pytest

from replication.interface import Coordination, Node
from replication.zookeeper import open_coordination
from shoal.cli import main
from tests.server import ShoalServer

ROOT = pathlib.Path(__file__).resolve().parents[2]


def router(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "shoal", "router", *arguments]


async def line(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    return (await asyncio.wait_for(process.stdout.readline(), 30)).decode()


async def register(coordination: Coordination, server: ShoalServer) -> None:
    node = Node("one", "127.0.0.1", server.port)
    await coordination.create("nodes/one", orjson.dumps(dataclasses.asdict(node)), ephemeral=True)


def ask(url: str) -> object:
    request = urllib.request.Request(url, b"SELECT 6 * 7", {"Content-Type": "text/plain"})
    with urllib.request.urlopen(request, timeout=30) as response:
        return orjson.loads(response.read())["rows"]


@pytest.mark.parametrize("form", ["text", "json"])
async def test_it_finds_nodes_in_zookeeper_and_stops_in_good_order(
    shoal: ShoalServer, zookeeper: str, form: str
) -> None:
    coordination = await open_coordination(zookeeper)
    options = ["--json", "--log-format", "json"] if form == "json" else []
    command = router("--cluster", zookeeper, "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", *options)
    process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=subprocess.PIPE)
    try:
        ready = await line(process)
        if form == "json":
            told = orjson.loads(ready)
            assert set(told) == {"ready", "http"}
            ready, url = told["ready"], told["http"]
        else:
            assert ready.startswith("shoal router ready: postgresql://")
            url = (await line(process)).split()[-1]
        connecting = asyncio.create_task(psycopg.AsyncConnection.connect(ready.split()[-1]))
        await register(coordination, shoal)  # after the router has started: it learns of the node by its watch
        async with await connecting as connection:
            cursor = await connection.execute("SELECT 1")
            assert await cursor.fetchone() == (1,)
            assert await asyncio.to_thread(ask, url) == [[42]]
            process.send_signal(signal.SIGTERM)
            assert await asyncio.wait_for(process.wait(), 30) == 0
            with pytest.raises(psycopg.errors.AdminShutdown, match="router is shutting down"):
                await connection.execute("SELECT 1")
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        await coordination.close()


@pytest.mark.usefixtures("restored_process")
@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--cluster", "nonsense"], "does not start with zk://"),
        (["--cluster", "{zookeeper}", "--listen", "5432"], '"5432" is not HOST:PORT'),
        (["--cluster", "{zookeeper}", "--listen", "0.0.0.0:0"], "refusing to listen on 0.0.0.0"),
        (["--cluster", "{zookeeper}", "--listen", "127.0.0.1:0", "--http", "0.0.0.0:0"], "refusing to serve HTTP"),
        (["--cluster", "{zookeeper}", "--listen", "127.0.0.1:{taken}"], "choose another with --listen"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    shoal: ShoalServer, zookeeper: str, capsys: pytest.CaptureFixture[str], arguments: list[str], told: str
) -> None:
    status = main(["router", *(part.format(zookeeper=zookeeper, taken=shoal.port) for part in arguments)])
    said = capsys.readouterr().err
    assert status == 1
    *logged, last = said.splitlines()
    assert last.startswith("shoal: ") and told in last
    assert all(re.match(r"\d{4}-.* (INFO|WARNING) ", line) for line in logged), said
