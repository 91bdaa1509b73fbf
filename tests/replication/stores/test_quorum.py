"""A quorum of stores: who gets what, and what is promised while members are down, slow, full or at odds."""

from __future__ import annotations

import asyncio
import logging
import random
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from catalog.errors import SqlError
from replication.interface import (
    ChangelogStore,
    ObjectExistsError,
    ObjectMissingError,
    StoreFullError,
    StoreUnavailableError,
)
from replication.stores import claim, open_store
from replication.stores import quorum as quorum_module
from replication.stores.files import FileStore
from replication.stores.member_order import member_order
from replication.stores.quorum import QuorumStore
from tests.replication.memory_store import Fault, MemoryStore
from tests.replication.stores.log_process import LogProcess

LEDGER = "0123456789abcdef/ledger-0000000007"


class Clock:
    """Delays that end when the test says so."""

    def __init__(self) -> None:
        self._gate = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        await self._gate.wait()

    def go_on(self) -> None:
        self._gate.set()


class Cluster:
    """Members in memory by their URL, and a quorum of them."""

    def __init__(self) -> None:
        self.members: dict[str, MemoryStore] = {}
        self.clock = Clock()

    def open(self, url: str) -> MemoryStore:
        if url not in self.members:
            self.members[url] = MemoryStore(url=url, sleep=self.clock.sleep)
            return self.members[url]
        return self.members[url].another()

    def quorum(self, urls: str, ensemble: int, write: int, ack: int) -> QuorumStore:
        return QuorumStore(urls.split(), ensemble, write, ack, opener=self._opener, timeout=2.0)

    def _opener(self, url: str) -> ChangelogStore:
        return self.open(url)

    def holders(self, name: str) -> str:
        return " ".join(sorted(url for url, member in self.members.items() if name in member.objects))


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    monkeypatch.setattr(quorum_module, "PATIENCE", 0.01)
    return Cluster()


async def quiet(store: QuorumStore) -> None:
    """Everything in the background has ended."""
    while store._background:
        await asyncio.wait(store._background)
        await asyncio.sleep(0)


async def names(store: ChangelogStore, prefix: str = "") -> list[str]:
    return [info.name async for info in store.list(prefix)]


def test_ledgers_and_objects_spread_evenly() -> None:
    first: dict[str, int] = {}
    held: dict[str, int] = {}
    for ledger in range(60):
        for number in range(20):
            order = member_order(f"ts/ledger-{ledger:010}/{number:020}", "abcde", 4, 3)
            assert sorted(order) == list("abcde")
            for member in order[:3]:
                held[member] = held.get(member, 0) + 1
        order = member_order(f"ts/ledger-{ledger:010}/x", "abc", 3, 3)
        first[order[0]] = first.get(order[0], 0) + 1
    assert set(first.values()) == {20}
    assert all(600 < count < 840 for count in held.values()), held  # 720 each would be even


def test_objects_of_a_ledger_stay_in_its_ensemble() -> None:
    chosen = {
        member for number in range(50) for member in member_order(f"t/ledger-0000000003/{number}", "abcde", 3, 2)[:2]
    }
    assert len(chosen) == 3
    assert member_order("t/ledger-1/x", "abcde", 3, 2) == member_order("t/ledger-1/x", "abcde", 3, 2)


async def test_a_put_returns_when_enough_have_it_and_the_rest_follows(cluster: Cluster) -> None:
    store = cluster.quorum("a b c", 3, 3, 2)
    cluster.members["b"].faults[1] = Fault("delay")
    await store.put("x", b"1")
    assert cluster.holders("x") == "a c"
    cluster.clock.go_on()
    await quiet(store)
    assert cluster.holders("x") == "a b c"


async def test_a_member_that_is_down_is_stood_in_for(cluster: Cluster) -> None:
    store = cluster.quorum("a b c d", 3, 3, 3)
    down = store.order(f"{LEDGER}/1")[0].url
    cluster.members[down].down = True
    for number in range(20):
        await store.put(f"{LEDGER}/{number}", b"1")
    assert all(cluster.holders(f"{LEDGER}/{n}") == " ".join(sorted({"a", "b", "c", "d"} - {down})) for n in range(20))
    assert len(await names(store)) == 20


async def test_a_member_that_hangs_is_stood_in_for(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    store = cluster.quorum("a b c", 2, 2, 2)
    hung = cluster.members[store.order("x/1")[0].url]
    hung.decide = lambda number, operation, name: Fault("delay")
    with caplog.at_level(logging.WARNING, "shoal"):
        for number in range(5):
            await store.put(f"x/{number}", b"1")
    assert all(len(cluster.holders(f"x/{number}").split()) == 2 for number in range(5))
    assert 1 <= len(caplog.records) <= 3  # it says so, and does not repeat it for every put
    assert await names(store) == [f"x/{number}" for number in range(5)]
    await store.close()


async def test_what_waits_for_a_slow_member_is_bounded(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quorum_module, "MAX_BEHIND", 5)
    store = cluster.quorum("a b c", 3, 3, 2)
    cluster.members["b"].decide = lambda number, operation, name: Fault("delay")
    for number in range(50):
        await store.put(f"x/{number}", b"1")
    assert len(store._background) == 5
    cluster.clock.go_on()
    await quiet(store)
    assert len(cluster.members["b"].objects) == 5
    await store.put("x/last", b"1")
    await quiet(store)
    assert "x/last" in cluster.members["b"].objects


async def test_who_needs_a_member_that_is_behind_waits_for_it(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quorum_module, "MAX_BEHIND", 3)
    store = cluster.quorum("a b", 2, 2, 2)
    cluster.members["b"].decide = lambda number, operation, name: Fault("delay")
    puts = [asyncio.ensure_future(store.put(f"x/{number}", b"1")) for number in range(8)]
    while cluster.members["b"].calls < 8:
        await asyncio.sleep(0)
    assert not any(put.done() for put in puts)
    cluster.clock.go_on()
    await asyncio.gather(*puts)
    assert len(cluster.members["b"].objects) == 8


async def test_too_few_members_is_unavailable_and_never_success(cluster: Cluster) -> None:
    store = cluster.quorum("a b c", 3, 3, 2)
    cluster.members["a"].down = cluster.members["b"].down = True
    with pytest.raises(StoreUnavailableError, match="1 members have the object, 2 must") as failed:
        await store.put("x", b"1")
    assert not isinstance(failed.value, StoreFullError)
    with pytest.raises(StoreUnavailableError, match="1 of 3 members answered, 2 are needed"):
        await names(store)
    with pytest.raises(StoreUnavailableError):
        await store.get("y")
    assert await store.get("x") == b"1"
    cluster.members["a"].down = False
    await store.put("x", b"1")  # the copy that is there counts
    await quiet(store)
    assert cluster.holders("x") == "a c"


async def test_full_members_are_told_as_full_only_when_nothing_was_written(cluster: Cluster) -> None:
    store = cluster.quorum("a b c", 3, 3, 2)
    for url in "abc":
        cluster.members[url].room = 0
    with pytest.raises(StoreFullError):
        await store.put("x", b"1")
    cluster.members["a"].room = None
    with pytest.raises(StoreUnavailableError) as failed:
        await store.put("x", b"1")
    assert not isinstance(failed.value, StoreFullError)


async def test_lost_replies_are_resolved_by_a_second_put(cluster: Cluster) -> None:
    store = cluster.quorum("a b c", 3, 3, 2)
    for url in "abc":
        cluster.members[url].faults[1] = Fault("unknown")
    with pytest.raises(StoreUnavailableError):
        await store.put("x", b"1")
    await store.put("x", b"1")
    with pytest.raises(ObjectExistsError):
        await store.put("x", b"2")


async def test_another_content_is_refused_and_leaves_nothing_behind(cluster: Cluster) -> None:
    store = cluster.quorum("a b c", 3, 3, 2)
    cluster.members["b"].down = True
    await store.put("x", b"1")
    cluster.members["b"].down = False
    with pytest.raises(ObjectExistsError):
        await store.put("x", b"2")
    assert cluster.holders("x") == "a c"
    assert await store.get("x") == b"1"


async def test_without_a_majority_any_other_content_is_refused(cluster: Cluster) -> None:
    store = cluster.quorum("a b c", 3, 3, 1)
    cluster.members["b"].down = cluster.members["c"].down = True
    await store.put("x", b"1")
    cluster.members["b"].down = cluster.members["c"].down = False
    cluster.members["b"].faults[cluster.members["b"].calls + 1] = Fault("delay")
    cluster.members["c"].faults[cluster.members["c"].calls + 1] = Fault("delay")
    put = asyncio.ensure_future(store.put("x", b"2"))
    await asyncio.sleep(0.05)
    cluster.clock.go_on()
    with pytest.raises(ObjectExistsError):
        await put
    assert cluster.holders("x") == "a"


@pytest.mark.parametrize("seed", range(40))
async def test_at_most_one_of_two_writers_wins_under_faults(cluster: Cluster, seed: int) -> None:
    chance = random.Random(seed)

    def decide(number: int, operation: str, name: str) -> Fault | None:
        return Fault(chance.choice(["fail", "unknown"])) if chance.random() < 0.2 else None

    stores = [cluster.quorum("a b c", 3, 3, 2) for _ in range(2)]
    for store in stores:
        for member in store.members:
            assert isinstance(member.store, MemoryStore)
            member.store.decide = decide
    for number in range(10):
        name, contents = f"race/{number}", [b"x", b"y"]
        puts = [store.put(name, data) for store, data in zip(stores, contents, strict=True)]
        results = await asyncio.gather(*puts, return_exceptions=True)
        for store in stores:
            await quiet(store)
        won = [index for index, result in enumerate(results) if result is None]
        assert len(won) <= 1, f"seed {seed}: {results}"
        if won:
            held = [member.objects.get(name) for member in cluster.members.values()]
            assert held.count(contents[won[0]]) >= 2, f"seed {seed}: {held}"


async def test_reads_ask_until_one_has_it(cluster: Cluster, tmp_path: Path) -> None:
    store = cluster.quorum("a b c d", 3, 2, 2)
    last = store.order("x")[-1].url
    cluster.members[last].objects["x"] = b"1"
    assert await store.get("x") == b"1"
    await store.get_file("x", str(tmp_path / "x"))
    assert (tmp_path / "x").read_bytes() == b"1"
    with pytest.raises(ObjectMissingError):
        await store.get("y")
    with pytest.raises(ObjectMissingError):
        await store.get_file("y", str(tmp_path / "y"))


async def test_a_hung_member_delays_no_read(cluster: Cluster) -> None:
    store = cluster.quorum("a b c", 3, 3, 2)
    await store.put("x", b"1")
    await quiet(store)
    hung = cluster.members[store.order("x")[0].url]
    hung.decide = lambda number, operation, name: Fault("delay")
    assert await store.get("x") == b"1"
    assert await names(store) == ["x"]
    await store.close()


async def test_missing_is_said_only_when_it_cannot_have_been_acknowledged(cluster: Cluster) -> None:
    store = cluster.quorum("a b c", 3, 3, 2)
    cluster.members["a"].down = True
    with pytest.raises(ObjectMissingError):
        await store.get("x")
    cluster.members["b"].down = True
    with pytest.raises(StoreUnavailableError):
        await store.get("x")


async def test_a_listing_sees_everything_acknowledged_with_a_member_down(cluster: Cluster) -> None:
    store = cluster.quorum("a b c", 3, 3, 2)
    expected: list[str] = []
    for number, down in enumerate("abcabc"):
        cluster.members[down].down = True
        await store.put(f"x/{number}", b"1")
        expected.append(f"x/{number}")
        await quiet(store)
        cluster.members[down].down = False
    for down in "abc":
        cluster.members[down].down = True
        assert await names(store, "x/") == expected
        cluster.members[down].down = False


async def test_a_listing_fails_when_too_many_members_fail_in_the_middle(cluster: Cluster) -> None:
    store = cluster.quorum("a b c", 3, 3, 2)
    for number in range(4):
        await store.put(f"x/{number}", b"1")
    await quiet(store)
    for url in "ab":
        cluster.members[url].faults[cluster.members[url].calls + 1] = Fault("unknown")  # at the end of the listing
    with pytest.raises(StoreUnavailableError):
        await names(store, "x/")


async def test_deletes_go_to_all_and_what_was_missed_is_remembered(cluster: Cluster) -> None:
    store = cluster.quorum("a b c", 3, 3, 2)
    for name in ("l/1", "l/2", "m"):
        await store.put(name, b"1")
    await quiet(store)
    cluster.members["b"].down = True
    await store.delete("m")
    await store.delete_folder("l/")
    assert store.missed_deletes == {"b": ["m", "l/"]}
    assert cluster.holders("m") == "b"
    cluster.members["a"].down = cluster.members["c"].down = True
    with pytest.raises(StoreUnavailableError):
        await store.delete("m")


async def test_a_file_may_go_when_put_returns(cluster: Cluster, tmp_path: Path) -> None:
    urls = [f"file://{tmp_path}/{number}" for number in range(3)]
    opened: list[FileStore] = []

    def opener(url: str) -> ChangelogStore:
        opened.append(FileStore(url.removeprefix("file://")))
        return opened[-1]

    store = QuorumStore(urls, 3, 3, 1, opener=opener)
    data = random.Random(5).randbytes(9 << 20)
    (tmp_path / "file").write_bytes(data)
    await store.put_file("bulk/x", str(tmp_path / "file"))
    (tmp_path / "file").unlink()
    await quiet(store)
    for member in opened:
        assert await member.get("bulk/x") == data
    await store.put("bulk/y", data)
    (tmp_path / "file").write_bytes(data)
    await store.put_file("bulk/y", str(tmp_path / "file"))
    (tmp_path / "file").write_bytes(data + b"more")
    with pytest.raises(ObjectExistsError):
        await store.put_file("bulk/x", str(tmp_path / "file"))
    await store.close()


async def test_a_slow_member_still_gets_a_file_that_went(cluster: Cluster, tmp_path: Path) -> None:
    store = cluster.quorum("a b c", 3, 3, 2)
    late = next(member.store for member in store.members if member.url == "b")
    assert isinstance(late, MemoryStore)
    put_file = late.put_file

    async def slow(name: str, path: str) -> None:
        await cluster.clock.sleep(1.0)
        await put_file(name, path)

    late.put_file = slow  # type: ignore[method-assign]
    (tmp_path / "file").write_bytes(b"run")
    await store.put_file("bulk/x", str(tmp_path / "file"))
    (tmp_path / "file").unlink()
    cluster.clock.go_on()
    await quiet(store)
    assert cluster.members["b"].objects["bulk/x"] == b"run"


async def test_close_ends_what_is_under_way(cluster: Cluster) -> None:
    store = cluster.quorum("a b c", 3, 3, 2)
    for url in "abc":
        cluster.members[url].decide = lambda number, operation, name: Fault("delay")
    calls: list[Awaitable[object]] = [store.put("x", b"1"), store.get("x"), names(store), store.delete("x")]
    waiting = [asyncio.ensure_future(call) for call in calls]
    await asyncio.sleep(0.05)
    await store.close()
    for call in waiting:
        with pytest.raises(StoreUnavailableError):
            await call
    with pytest.raises(StoreUnavailableError):
        await store.put("y", b"1")


async def test_every_member_belongs_to_the_cluster(cluster: Cluster) -> None:
    store = cluster.quorum("a b c", 3, 3, 2)
    cluster.members["b"].down = True
    await claim(store, "one")
    assert cluster.holders("cluster") == "a c"
    cluster.members["b"].down = False
    await claim(store, "one", create=False)  # a disk that was replaced
    assert cluster.holders("cluster") == "a b c"
    cluster.members["c"].objects["cluster"] = b"two"
    with pytest.raises(SqlError, match='changelog store c holds the data of cluster "two"'):
        await claim(store, "one")
    cluster.members["a"].down = cluster.members["c"].down = True
    with pytest.raises(StoreUnavailableError):
        await claim(store, "one")


# --- members come and go ------------------------------------------------------------------------------------------


async def test_a_leaving_member_is_read_and_not_written(cluster: Cluster) -> None:
    store = cluster.quorum("a b c", 3, 3, 2)
    cluster.members["a"].down = True
    await store.put("old", b"1")
    await quiet(store)
    cluster.members["a"].down = False
    await store.replace_members(["a", "-b", "-c", "d", "e"])
    assert store.url == "quorum(3,3,2):a,-b,-c,d,e"
    await store.put("new", b"1")
    await quiet(store)
    assert cluster.holders("new") == "a d e"
    assert await store.get("old") == b"1"
    assert await names(store) == ["new", "old"]
    await store.delete("old")
    assert cluster.holders("old") == ""


async def test_members_are_replaced_while_writes_go_on(cluster: Cluster) -> None:
    store = cluster.quorum("a b c", 3, 3, 2)
    written: list[str] = []
    done = asyncio.Event()

    async def write(writer: int) -> None:
        while not done.is_set():
            name = f"{LEDGER}/{writer}-{len(written)}"
            await store.put(name, name.encode())
            written.append(name)

    async def until(more: int) -> None:
        wanted = len(written) + more
        while len(written) < wanted:
            await asyncio.sleep(0)

    writers = [asyncio.ensure_future(write(writer)) for writer in range(3)]
    await until(20)
    await store.replace_members(["a", "b", "-c", "d"])
    await until(20)
    cluster.members["c"].down = True
    await store.replace_members(["a", "-b", "-c", "d", "e"])
    await until(20)
    done.set()
    await asyncio.gather(*writers)
    await quiet(store)
    for name in written:
        assert await store.get(name) == name.encode()
    await store.close()


async def test_members_that_cannot_be_are_refused_and_nothing_changes(cluster: Cluster) -> None:
    store = cluster.quorum("a b c", 3, 3, 2)
    for urls in (["a", "b"], ["a", "b", "-c"], ["a", "b", "b"], ["a", "b", "c", "-c"]):
        with pytest.raises(SqlError) as refused:
            await store.replace_members(urls)
        assert refused.value.sqlstate == "22023"
    assert store.url == "quorum(3,3,2):a,b,c"
    await store.put("x", b"1")


# --- with real servers --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", ["put", "append"])
async def test_nothing_acknowledged_is_lost_when_a_log_store_is_killed_or_stopped(call: str) -> None:
    with LogProcess() as first, LogProcess() as second, LogProcess() as third:
        store = open_store("quorum(3,3,2):" + ",".join(server.url for server in (first, second, third)), timeout=5.0)
        written: list[str] = []

        async def write(count: int) -> None:
            for _ in range(count):
                name = f"{LEDGER}/{len(written):020}"
                written.append(name)
                await getattr(store, call)(name, name.encode())

        async def check() -> None:
            assert await names(store, f"{LEDGER}/") == sorted(written)
            for name in written[-3:]:
                assert await store.get(name) == name.encode()

        async def kill_and_start(act: Callable[[], None], again: Callable[[], None]) -> None:
            writer = asyncio.ensure_future(asyncio.gather(write(20), write(20)))
            await asyncio.sleep(0)
            act()
            await writer
            await check()
            await write(5)
            await asyncio.to_thread(again)
            await write(5)
            await check()

        await kill_and_start(first.kill, first.start)
        await kill_and_start(
            lambda: second.signal(signal.SIGSTOP),
            lambda: second.signal(signal.SIGCONT),
        )
        third.kill()
        assert await names(store, f"{LEDGER}/") == sorted(written)
        for name in written:
            assert await store.get(name) == name.encode()
        await store.close()
