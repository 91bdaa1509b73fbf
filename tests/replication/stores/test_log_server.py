"""A log store over HTTP: who may ask, damaged bodies, limits, and its process."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from catalog.errors import SqlError
from replication.interface import (
    ObjectDamagedError,
    ObjectExistsError,
    ObjectMissingError,
    StoreFullError,
    StoreUnavailableError,
)
from replication.stores import log_server, open_store
from replication.stores.files import FileStore
from replication.stores.log_client import LogStore
from replication.stores.log_protocol import CRC, PIECE, crc32c, crc_header
from replication.stores.log_server import LogServer
from tests import forks
from tests.replication.stores.log_process import LogProcess
from tests.replication.stores.test_files import FaultyFiles


class Served:
    """A server in this process."""

    def __init__(self, directory: Path, secret: str = "") -> None:
        self.files = FaultyFiles()
        self.store = FileStore(str(directory), files=self.files)
        self.server = LogServer(self.store, secret=secret)
        self.port = 0

    async def start(self) -> None:
        self.port = await self.server.start("127.0.0.1", 0)

    def client(self, secret: str = "", timeout: float = 5.0) -> LogStore:
        return LogStore("127.0.0.1", self.port, timeout=timeout, secret=secret)


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    served = Served(tmp_path)
    await served.start()
    yield served
    await served.server.stop()


async def request(served: Served, method: str, path: str, **options: object) -> tuple[int, bytes, dict[str, str]]:
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, f"http://127.0.0.1:{served.port}{path}", **options) as answer,  # type: ignore[arg-type]
    ):
        return answer.status, await answer.read(), dict(answer.headers)


async def test_only_who_knows_the_secret_is_served(tmp_path: Path) -> None:
    served = Served(tmp_path, "hushhush")
    await served.start()
    try:
        await served.client("hushhush").put("a", b"x")
        for secret in ("", "hushhus", "hushhushh", "Hushhush"):
            stranger = served.client(secret)
            for call in (stranger.get("a"), stranger.put("b", b""), stranger.delete("a"), stranger.delete_folder("")):
                with pytest.raises(StoreUnavailableError, match="refused with 401") as refused:
                    await call
                assert "ushhush" not in str(refused.value)
            await stranger.close()
        assert await served.client("hushhush").get("a") == b"x"
    finally:
        await served.server.stop()


async def test_beyond_loopback_a_secret_is_needed(tmp_path: Path) -> None:
    with pytest.raises(SqlError, match="needs a secret") as refused:
        await LogServer(FileStore(str(tmp_path))).start("0.0.0.0", 0)
    assert refused.value.sqlstate == "28000"


async def test_without_a_secret_only_names_of_the_loopback_are_served(served: Served) -> None:
    for host, status in (("localhost:1", 200), ("127.0.0.1", 200), ("evil.example:80", 401), ("10.0.0.1:80", 401)):
        assert (await request(served, "GET", "/folders/", headers={"Host": host}))[0] == status, host


async def test_a_body_that_does_not_match_its_crc_is_no_object(served: Served) -> None:
    for body in (b"x" * 1000, b"x" * (PIECE + 1000)):
        wrong = {CRC: crc_header(crc32c(body) ^ 1)}
        assert (await request(served, "PUT", "/objects/a", data=body, headers=wrong))[0] == 422
    assert (await request(served, "PUT", "/objects/a", data=b"x"))[0] == 400
    assert (await request(served, "PUT", "/objects/a", data=_chunks(), headers={CRC: "00000000"}))[0] == 411
    assert (await request(served, "GET", "/objects/a"))[0] == 404
    await served.store.run(lambda: None)
    assert [info async for info in served.store.list("")] == []


async def test_appends_go_into_packs_and_damage_is_told(served: Served) -> None:
    client = served.client()
    for name in ("l/a", "l/b"):
        await client.append(name, name.encode() * 100)
    await client.put("l/c", b"x")
    with pytest.raises(ObjectExistsError):
        await client.append("l/a", b"l/a" * 100)
    (pack,) = Path(served.store.directory).rglob("*.pack")
    assert sorted(os.listdir(pack.parent.parent)) == ["c", "~packs"]
    place = pack.read_bytes().index(b"l/al/a")
    with open(pack, "r+b") as file:
        file.seek(place)
        file.write(b"L")
    with pytest.raises(ObjectDamagedError):
        await client.get("l/a")
    assert await client.get("l/b") == b"l/b" * 100
    with open(pack, "r+b") as file:
        file.write(b"broken")
    await served.store.close()
    served.store = served.server._store = FileStore(served.store.directory)
    with pytest.raises(ObjectDamagedError):
        await client.get("l/a")
    with pytest.raises(ObjectDamagedError):
        [info async for info in client.list("l/")]
    await client.close()


async def _chunks() -> AsyncIterator[bytes]:
    yield b"x"


async def test_a_client_that_goes_in_the_middle_leaves_nothing(served: Served) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", served.port)
    size = PIECE * 3
    writer.write(f"PUT /objects/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: {size}\r\n{CRC}: 0\r\n\r\n".encode())
    writer.write(b"x" * (PIECE + 10))
    await writer.drain()
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()
    client = served.client()
    with pytest.raises(ObjectMissingError):
        await client.get("a")
    await client.close()
    await served.server.stop()
    assert list(served.store.walk("", "")) == []


async def test_damage_on_the_way_back_is_noticed(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    client = served.client()
    await client.put("a", b"x" * 100)
    monkeypatch.setattr(log_server, "crc_header", lambda crc: "00000000")
    with pytest.raises(StoreUnavailableError, match="damaged in transit"):
        await client.get("a")
    await client.close()


async def test_ranges_are_answered_as_http_says(served: Served) -> None:
    client = served.client()
    await client.put("a", b"0123456789")
    assert (await request(served, "GET", "/objects/a"))[1] == b"0123456789"
    status, body, headers = await request(served, "GET", "/objects/a", headers={"Range": "bytes=2-4"})
    assert (status, body, headers["Content-Range"]) == (206, b"234", "bytes 2-4/10")
    assert headers[CRC] == crc_header(crc32c(b"234"))
    assert (await request(served, "GET", "/objects/a", headers={"Range": "bytes=8-90"}))[1] == b"89"
    for bad in ("bytes=10-12", "bytes=4-2", "bytes=-3", "bytes=1-2,4-5", "lines=1-2"):
        assert (await request(served, "GET", "/objects/a", headers={"Range": bad}))[0] == 416
    await client.close()


async def test_a_large_object_can_be_fetched_at_once(served: Served, tmp_path: Path) -> None:
    client = served.client()
    data = os.urandom(PIECE + 77)
    (tmp_path / "file").write_bytes(data)
    await client.put_file("big", str(tmp_path / "file"))
    assert (await request(served, "GET", "/objects/big"))[1] == data
    await client.close()


@pytest.mark.parametrize(
    "path",
    ["/objects/..%2f..%2fetc%2fpasswd", "/objects/a%00b", "/objects/~incoming/x", "/folders/a", "/folders/..%2f"],
)
async def test_paths_stay_inside(served: Served, path: str) -> None:
    assert (await request(served, "GET", path))[0] in (400, 404)
    assert (await request(served, "DELETE", path))[0] in (400, 404)


async def test_a_full_disk_is_told_apart(served: Served) -> None:
    client = served.client()
    served.files.fail = {("write", 1): errno.ENOSPC, ("write", 2): errno.EIO}
    with pytest.raises(StoreFullError):
        await client.put("a", b"x")
    with pytest.raises(StoreUnavailableError) as failed:
        await client.put("a", b"x")
    assert not isinstance(failed.value, StoreFullError)
    await client.put("a", b"x")
    await client.close()


async def test_too_many_requests_are_turned_away_and_the_others_served(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_server, "MAX_WAITING", 8)
    client = served.client()
    await client.put("first", b"")
    served.files.hang.clear()
    puts = [asyncio.ensure_future(client.put(f"a/{number}", b"x")) for number in range(12)]
    refused, _ = await asyncio.wait(puts, return_when=asyncio.FIRST_COMPLETED)
    while len(refused) < 4:
        refused, _ = await asyncio.wait(puts, timeout=0.01)
    served.files.hang.set()
    results = await asyncio.gather(*puts, return_exceptions=True)
    assert sum(result is None for result in results) == 8
    assert sum("503 too many requests" in str(result) for result in results) == 4
    await client.close()


async def test_a_put_is_sent_once_although_its_connection_breaks() -> None:
    """A reply that is lost must not become 'exists' by a silent second try."""
    seen: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError):
            seen.append(await reader.readuntil(b"\r\n\r\n"))
            await reader.readexactly(1)
            if len(seen) == 1:
                writer.write(b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n")
                seen.append(await reader.readuntil(b"\r\n\r\n"))
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    client = LogStore("127.0.0.1", server.sockets[0].getsockname()[1], timeout=5.0)
    await client.put("a", b"x")
    with pytest.raises(StoreUnavailableError, match="no answer"):
        await client.put("b", b"x")
    assert len(seen) == 2
    await client.close()
    server.close()


async def test_a_silent_server_is_given_up_and_close_ends_what_waits() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            await reader.read(-1)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    client = LogStore("127.0.0.1", port, timeout=0.05)
    with pytest.raises(StoreUnavailableError, match=r"no answer within 0.05 s"):
        await client.put("a", b"x")
    await client.close()
    client = LogStore("127.0.0.1", port, timeout=60.0)
    waiting = asyncio.ensure_future(client.get("a"))
    await asyncio.sleep(0)
    await client.close()
    with pytest.raises(StoreUnavailableError):
        await waiting
    server.close()


async def test_a_process_ends_in_good_order_and_keeps_what_it_acknowledged() -> None:
    with LogProcess({"SHOAL_STORE_SECRET": ""}) as process:
        store = open_store(process.url)
        await store.put("a/b", b"x")
        assert await asyncio.to_thread(process.stop) == 0
        with pytest.raises(StoreUnavailableError):
            await store.get("a/b")
        await asyncio.to_thread(process.start)
        assert await store.get("a/b") == b"x"
        await store.put("a/c", b"y")
        await asyncio.to_thread(process.kill)
        await asyncio.to_thread(process.start)
        assert await store.get("a/c") == b"y"
        with pytest.raises(ObjectExistsError):
            await store.put("a/c", b"z")
        await store.close()


def test_the_command_says_in_one_line_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "secret").write_text("hushhush")
    for arguments, told in (
        (["--data", str(tmp_path / "d"), "--listen", "0.0.0.0:0"], "a log store on 0.0.0.0 needs a secret"),
        (
            ["--data", str(tmp_path / "d"), "--listen", "0.0.0.0:0", "--secret-file", str(tmp_path / "secret")],
            "a log store on 0.0.0.0 without TLS would send the secret of the log stores and the changelog unencrypted",
        ),
        (["--data", str(tmp_path / "d"), "--listen", "nowhere"], "is not HOST:PORT"),
        (["--data", str(tmp_path / "file" / "x"), "--listen", "127.0.0.1:0"], "cannot use the directory"),
        (["--data", str(tmp_path / "d"), "--secret-file", str(tmp_path / "none")], "cannot read the secret"),
    ):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("SHOAL_STORE")}
        done = forks.run("logstore", *arguments, environment=environment)
        assert done.returncode == 1
        assert done.stderr.startswith("shoal: ") and told in done.stderr and done.stderr.count("\n") == 1


async def test_requests_under_way_finish_when_the_server_stops(tmp_path: Path) -> None:
    served = Served(tmp_path)
    await served.start()
    client = served.client()
    await client.put("first", b"")
    served.files.hang.clear()
    put = asyncio.ensure_future(client.put("a", b"x"))
    while served.server._waiting == 0:
        await asyncio.sleep(0)
    threading.Timer(0.05, served.files.hang.set).start()
    await served.server.stop()
    await put
    assert (tmp_path / "a").read_bytes() == b"x"
    await client.close()
