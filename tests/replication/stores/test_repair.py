"""Repair of a quorum: what is short is copied, what was to go goes, a member is emptied and left out."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from replication.interface import ObjectInfo, StoreUnavailableError
from replication.stores import open_store
from replication.stores.quorum import QuorumStore
from replication.stores.repair import Repairer, RepairSummary
from tests.replication.memory_store import Fault, MemoryStore
from tests.replication.stores.test_quorum import LEDGER, Cluster, names, quiet


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


async def short(cluster: Cluster, store: QuorumStore, down: str, objects: list[str]) -> None:
    """Puts the objects while a member is down."""
    cluster.members[down].down = True
    for name in objects:
        await store.put(name, f"content of {name}".encode())
    await quiet(store)
    cluster.members[down].down = False


async def test_what_fewer_than_w_hold_is_copied(cluster: Cluster) -> None:
    store = cluster.quorum("a b c", 3, 3, 2)
    chosen = [f"{LEDGER}/{number}" for number in range(10)]
    await store.put("cluster", b"one")
    await short(cluster, store, "b", chosen[:5])
    await short(cluster, store, "c", [*chosen[5:], "other/1"])
    seen: list[int] = []
    summary = await Repairer(store, progress=lambda now: seen.append(now.checked)).repair([f"{LEDGER}/"], ["cluster"])
    assert (summary.checked, summary.copied, summary.failed, summary.problems) == (11, 10, 0, [])
    assert summary.bytes == sum(len(f"content of {name}") for name in chosen)
    assert seen == list(range(1, 12))
    assert all(cluster.holders(name) == "a b c" for name in chosen)
    assert cluster.holders("other/1") == "a b"  # nobody asked for it
    assert cluster.members["b"].objects[chosen[0]] == f"content of {chosen[0]}".encode()
    again = await Repairer(store).repair([f"{LEDGER}/"], ["cluster"])
    assert (again.checked, again.copied, again.failed) == (11, 0, 0)


async def test_a_dead_member_is_made_up_for_by_the_next(cluster: Cluster) -> None:
    store = cluster.quorum("a b c d e", 3, 3, 2)
    chosen = [f"{LEDGER}/{number}" for number in range(10)]
    for name in chosen:
        await store.put(name, b"1")
    await quiet(store)
    dead = store.order(chosen[0])[0].url
    cluster.members[dead].down = True
    summary = await Repairer(store).repair([f"{LEDGER}/"])
    assert (summary.checked, summary.copied, summary.failed) == (10, 10, 0)
    assert all(len(set(cluster.holders(name).split()) - {dead}) == 3 for name in chosen)


async def test_what_cannot_be_mended_is_told(cluster: Cluster) -> None:
    store = cluster.quorum("a b c", 3, 3, 2)
    await short(cluster, store, "b", ["x/1", "x/2"])
    cluster.members["b"].room = 0
    summary = await Repairer(store).repair(["x/"], ["never/there"])
    assert (summary.checked, summary.copied, summary.failed) == (3, 0, 3)
    assert sorted(summary.problems) == ["never/there: no member has it", "x/1: b: full", "x/2: b: full"]
    cluster.members["a"].down = cluster.members["c"].down = True
    with pytest.raises(StoreUnavailableError):
        await Repairer(store).repair(["x/"])


async def test_members_at_odds_are_told_and_left_alone(cluster: Cluster) -> None:
    store = cluster.quorum("a b c", 3, 3, 2)
    await short(cluster, store, "b", ["x"])
    cluster.members["b"].objects["x"] = b"another content"
    summary = await Repairer(store).repair([""])
    assert (summary.copied, summary.failed) == (0, 1)
    assert summary.problems == ["x: b has different content"]
    assert cluster.members["b"].objects["x"] == b"another content"


async def test_a_damaged_copy_is_not_passed_on(cluster: Cluster) -> None:
    store = cluster.quorum("a b c", 3, 3, 2)
    await short(cluster, store, "b", ["x/1"])
    first = next(member for member in store.members if member.url in "ac")
    cluster.members[first.url].objects["x/1"] = b"damage  of x/1"

    def verify(name: str, path: str) -> bool:
        return Path(path).read_bytes() == f"content of {name}".encode()

    summary = await Repairer(store, verify=verify).repair(["x/"])
    assert (summary.copied, summary.failed) == (1, 0)
    assert cluster.members["b"].objects["x/1"] == b"content of x/1"
    cluster.members["b"].objects.clear()
    cluster.members["c"].objects["x/1"] = cluster.members["a"].objects["x/1"] = b"damage  of x/1"
    summary = await Repairer(store, verify=verify).repair(["x/"])
    assert (summary.copied, summary.failed) == (0, 1)
    assert "is damaged" in summary.problems[0]


async def test_missed_deletes_are_made_up_for(cluster: Cluster) -> None:
    store = cluster.quorum("a b c", 3, 3, 2)
    for name in ("l/1", "l/2", "m", "n"):
        await store.put(name, b"1")
    await quiet(store)
    cluster.members["b"].down = True
    await store.delete_folder("l/")
    await store.delete("m")
    summary = await Repairer(store).repair(["n/"])
    assert summary.deleted == 0 and store.missed_deletes == {"b": ["l/", "m"]}
    cluster.members["b"].down = False
    summary = await Repairer(store).repair([""])
    assert summary.deleted == 2 and store.missed_deletes == {}
    assert [cluster.holders(name) for name in ("l/1", "l/2", "m", "n")] == ["", "", "", "a b c"]


async def test_what_is_deleted_while_it_is_mended_does_not_come_back(cluster: Cluster) -> None:
    store = cluster.quorum("a b c", 3, 3, 2)
    await short(cluster, store, "b", ["x/1"])
    lagging = next(member.store for member in store.members if member.url == "b")
    assert isinstance(lagging, MemoryStore)
    put = lagging.put

    async def deleted_before(name: str, data: bytes) -> None:
        await store.delete_folder("x/")
        await put(name, data)

    lagging.put = deleted_before  # type: ignore[method-assign]
    summary = await Repairer(store).repair(["x/"])
    assert summary.failed == 0
    assert cluster.holders("x/1") == ""


async def test_a_member_is_emptied_and_left_out_while_writes_go_on(cluster: Cluster) -> None:
    store = cluster.quorum("a b c", 3, 3, 2)
    await short(cluster, store, "b", [f"old/{number}" for number in range(20)])
    with pytest.raises(ValueError, match="not a leaving member"):
        await Repairer(store).empty("c")
    await store.replace_members(["a", "b", "-c", "d"])
    written: list[str] = []
    done = asyncio.Event()

    async def write() -> None:
        while not done.is_set():
            await store.put(f"new/{len(written)}", b"new")
            written.append(f"new/{len(written)}")

    writer = asyncio.ensure_future(write())
    summary = await Repairer(store).empty("c")
    assert summary.failed == 0 and summary.copied >= 20
    await store.replace_members(["a", "b", "d"])
    while len(written) < 20:
        await asyncio.sleep(0)
    done.set()
    await writer
    await quiet(store)
    del cluster.members["c"]
    assert all(cluster.holders(f"old/{number}") == "a b d" for number in range(20))
    assert all(cluster.holders(name) == "a b d" for name in written)
    assert await names(store, "new/") == sorted(written)
    await store.close()


async def test_a_member_that_has_died_is_made_up_for_by_a_new_one(cluster: Cluster) -> None:
    store = cluster.quorum("a b c", 3, 3, 2)
    await short(cluster, store, "b", [f"old/{number}" for number in range(5)])
    cluster.members["c"].down = True
    await store.replace_members(["a", "b", "-c", "d"])
    summary = await Repairer(store).empty("c")
    assert (summary.checked, summary.copied, summary.failed) == (5, 10, 0)
    await store.replace_members(["a", "b", "d"])
    cluster.members["a"].down = True
    assert len(await names(store, "old/")) == 5


async def test_the_rate_is_bounded(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    store = cluster.quorum("a b c", 3, 3, 2)
    await short(cluster, store, "b", [f"x/{number}" for number in range(10)])
    slept: list[float] = []
    real = asyncio.sleep

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        await real(0)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    await Repairer(store, bytes_per_second=len("content of x/0")).repair(["x/"])
    assert max(slept) == pytest.approx(9.0, abs=0.5)


@pytest.mark.parametrize("seed", range(20))
async def test_repair_ends_well_after_any_faults(cluster: Cluster, seed: int) -> None:
    chance = random.Random(seed)
    store = cluster.quorum("a b c d", 4, 3, 2)

    def decide(number: int, operation: str, name: str) -> Fault | None:
        return Fault(chance.choice(["fail", "unknown"])) if chance.random() < 0.15 else None

    handles = [member.store for member in store.members]
    for handle in handles:
        assert isinstance(handle, MemoryStore)
        handle.decide = decide
    acknowledged = []
    for number in range(30):
        name = f"{LEDGER}/{number:03}"
        try:
            await store.put(name, name.encode())
            acknowledged.append(name)
        except StoreUnavailableError:
            continue
    await quiet(store)

    async def once() -> RepairSummary | None:
        try:
            return await Repairer(store).repair([f"{LEDGER}/"])
        except StoreUnavailableError:
            return None

    await once()
    for handle in handles:
        assert isinstance(handle, MemoryStore)
        handle.decide = None
    summary = await once()
    assert summary is not None and summary.failed == 0, f"seed {seed}"
    for name in acknowledged:
        held = [member.objects[name] for member in cluster.members.values() if name in member.objects]
        assert len(held) >= 3 and set(held) == {name.encode()}, f"seed {seed}: {name}"


async def test_repair_of_directories_copies_large_files(tmp_path: Path) -> None:
    store = open_store("quorum(2,2,2):" + ",".join(f"file://{tmp_path}/{number}" for number in range(2)))
    assert isinstance(store, QuorumStore)
    data = random.Random(7).randbytes(9 << 20)
    await store.put("bulk/run", data)
    (tmp_path / "1" / "bulk" / "run").unlink()
    summary = await Repairer(store).repair(["bulk/"])
    assert (summary.copied, summary.bytes, summary.failed) == (1, len(data), 0)
    assert (tmp_path / "1" / "bulk" / "run").read_bytes() == data
    found = [(info, len(holders)) async for info, holders in store.holders("bulk/")]
    assert found == [(ObjectInfo("bulk/run", len(data)), 2)]
    await store.close()
