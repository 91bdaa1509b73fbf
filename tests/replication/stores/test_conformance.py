"""What every changelog store does, whatever it stands on."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
from pathlib import Path

import pytest

from catalog.errors import SqlError
from replication.interface import (
    ChangelogStore,
    ObjectExistsError,
    ObjectMissingError,
    StoreUnavailableError,
)
from replication.stores import claim
from replication.stores.quorum import QuorumStore
from tests.replication.stores.conftest import Opener

TABLESPACE = "0123456789abcdef" * 2
LEDGER = f"{TABLESPACE}/ledger-0000000007"


async def names(store: ChangelogStore, prefix: str, after: str = "") -> list[str]:
    return [info.name async for info in store.list(prefix, after)]


async def settled(*handles: ChangelogStore) -> None:
    """A quorum answers before its last member: what is still under way must not come behind a delete."""
    for handle in handles:
        if isinstance(handle, QuorumStore) and handle._background:
            await asyncio.wait(handle._background)


async def test_what_was_put_is_read_by_every_handle(store: ChangelogStore, another: Opener) -> None:
    data = random.Random(1).randbytes(3000)
    await store.put(f"{LEDGER}/a", data)
    assert await store.get(f"{LEDGER}/a") == data
    assert await another().get(f"{LEDGER}/a") == data


async def test_what_was_appended_is_an_object_like_any_other(
    store: ChangelogStore, another: Opener, tmp_path: Path
) -> None:
    other = another()
    with pytest.raises(ObjectMissingError):
        await other.get(f"{LEDGER}/c")
    contents = {"a": b"", "b": b"put", "c": random.Random(4).randbytes(5000), "d/e": b"x", "f": bytes(300 << 10)}
    for name in random.Random(5).sample(sorted(contents), len(contents)):
        await (store.put if name == "b" else store.append)(f"{LEDGER}/{name}", contents[name])
    for handle in (store, other, another()):
        for name, data in contents.items():
            assert await handle.get(f"{LEDGER}/{name}") == data
        found = [(info.name, info.size) async for info in handle.list(f"{LEDGER}/")]
        assert found == [(f"{LEDGER}/{name}", len(contents[name])) for name in sorted(contents)]
    assert await names(other, f"{LEDGER}/", f"{LEDGER}/b") == [f"{LEDGER}/{name}" for name in ("c", "d/e", "f")]
    await other.get_file(f"{LEDGER}/c", str(tmp_path / "local"))
    assert (tmp_path / "local").read_bytes() == contents["c"]
    with pytest.raises(ObjectExistsError):
        await other.put(f"{LEDGER}/c", b"other")


async def test_an_append_may_be_tried_again(store: ChangelogStore, another: Opener) -> None:
    for handle in (store, store, another()):
        with contextlib.suppress(ObjectExistsError):
            await handle.append("a/b", b"same")
        await settled(handle)
        assert await handle.get("a/b") == b"same"
    assert [(info.name, info.size) async for info in store.list("")] == [("a/b", 4)]
    await another().delete("a/b")
    for handle in (store, another()):
        with pytest.raises(ObjectMissingError):
            await handle.get("a/b")


async def test_of_writers_that_append_in_one_folder_none_disturbs_another(
    store: ChangelogStore, another: Opener
) -> None:
    handles = [store, another(), another()]
    contents = {f"{LEDGER}/{n:03}": random.Random(n).randbytes(n * 7) for n in range(150)}
    await asyncio.gather(*(handles[n % 3].append(name, data) for n, (name, data) in enumerate(contents.items())))
    assert await names(store, f"{LEDGER}/") == list(contents)
    for name, data in contents.items():
        assert await handles[1].get(name) == data


async def test_what_was_appended_can_be_deleted_by_everybody(store: ChangelogStore, another: Opener) -> None:
    other = another()
    for name in ("a/b", "a/c", "a/d"):
        await store.append(name, name.encode())
    await settled(store)
    assert await other.get("a/b") == b"a/b"
    await another().delete("a/b")
    await store.delete("a/d")
    for handle in (store, other, another()):
        for name in ("a/b", "a/d"):
            with pytest.raises(ObjectMissingError):
                await handle.get(name)
        assert await names(handle, "") == ["a/c"]
    await store.append("a/b", b"again")
    await other.put("a/d", b"again")
    await settled(store, other)
    for handle in (store, other, another()):
        assert [await handle.get(name) for name in ("a/b", "a/d")] == [b"again"] * 2
    await other.delete_folder("a/")
    for handle in (store, other, another()):
        assert await names(handle, "") == []
        with pytest.raises(ObjectMissingError):
            await handle.get("a/c")
    await store.append("a/c", b"new")
    assert await other.get("a/c") == b"new"
    assert await names(other, "") == ["a/c"]


async def test_appends_go_on_while_the_folder_is_deleted(store: ChangelogStore, another: Opener) -> None:
    async def append(number: int) -> None:
        await store.append(f"d/e/{number}", b"x")

    other = another()
    await asyncio.gather(*(append(number) for number in range(20)), *(other.delete_folder("d/") for _ in range(3)))
    assert set(await names(store, "")) <= {f"d/e/{number}" for number in range(20)}
    await store.append("d/e/last", b"y")
    assert await other.get("d/e/last") == b"y"


async def test_an_empty_object_is_an_object(store: ChangelogStore, tmp_path: Path) -> None:
    await store.put("empty", b"")
    assert await store.get("empty") == b""
    await store.get_file("empty", str(tmp_path / "local"))
    assert (tmp_path / "local").read_bytes() == b""
    assert [info.size async for info in store.list("")] == [0]


async def test_a_name_is_created_once(store: ChangelogStore, another: Opener) -> None:
    await store.put("a/b", b"first")
    with pytest.raises(ObjectExistsError):
        await another().put("a/b", b"second")
    assert await store.get("a/b") == b"first"


async def test_of_two_writers_exactly_one_wins(store: ChangelogStore, another: Opener) -> None:
    others = [store, another()]
    for number in range(10):
        name = f"race/{number}"
        contents = [b"x" * 2000, b"y" * 2000]
        results = await asyncio.gather(
            *(other.put(name, data) for other, data in zip(others, contents, strict=True)), return_exceptions=True
        )
        won = [index for index, result in enumerate(results) if result is None]
        lost = [result for result in results if result is not None]
        assert all(isinstance(result, ObjectExistsError) for result in lost), results
        assert len(won) == 1, results
        assert await store.get(name) == contents[won[0]]


async def test_what_is_not_there_is_missing(store: ChangelogStore, tmp_path: Path) -> None:
    with pytest.raises(ObjectMissingError):
        await store.get("no/such/object")
    with pytest.raises(ObjectMissingError):
        await store.get_file("no/such/object", str(tmp_path / "local"))
    await store.put("no/such", b"")
    with pytest.raises(ObjectMissingError):
        await store.get("no")
    assert await names(store, "none/") == []


async def test_many_are_given_at_once_but_for_those_that_are_missing(store: ChangelogStore, another: Opener) -> None:
    objects = {f"t/ledger-{number % 3:010}/{number}": b"%d" % number * (number % 50) for number in range(90)}
    for number, (name, data) in enumerate(objects.items()):
        await (store.append if number % 3 else store.put)(name, data)
    objects["alone"] = b"x" * 100_000
    await store.put("alone", objects["alone"])
    await settled(store)
    wanted = random.Random(5).sample([*objects, "missing", "t/ledger-0000000000", "t/ledger-0000000000/x"], 94)
    for reader in (store, another()):
        assert await reader.get_many(wanted) == objects
        assert await reader.get_many(wanted[:1]) == {name: objects[name] for name in wanted[:1] if name in objects}
        assert await reader.get_many(["missing", "t/missing"]) == {}


async def test_large_files_go_both_ways(store: ChangelogStore, another: Opener, tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(random.Random(2).randbytes(21 << 20))
    await store.put_file("bulk/run", str(source))
    await another().get_file("bulk/run", str(target))
    assert target.read_bytes() == source.read_bytes()
    assert len(await store.get("bulk/run")) == 21 << 20
    assert [(info.name, info.size) async for info in store.list("bulk/")] == [("bulk/run", 21 << 20)]
    with pytest.raises(ObjectExistsError):
        await another().put_file("bulk/run", _changed(source))
    assert await store.get("bulk/run") == target.read_bytes()


def _changed(source: Path) -> str:
    other = source.with_name("changed")
    other.write_bytes(b"other" + source.read_bytes()[5:])
    return str(other)


async def test_small_files_go_both_ways(store: ChangelogStore, tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(b"run")
    await store.put_file("bulk/run", str(tmp_path / "source"))
    os.unlink(tmp_path / "source")
    await store.get_file("bulk/run", str(tmp_path / "target"))
    assert (tmp_path / "target").read_bytes() == b"run"
    (tmp_path / "source").write_bytes(b"another")
    with pytest.raises(ObjectExistsError):
        await store.put_file("bulk/run", str(tmp_path / "source"))


async def test_listings_are_ordered_by_name(store: ChangelogStore) -> None:
    chosen = ["a", "b-c/x", "b.c/x", "b/1/2", "b/1.5", "b/2", "b0", "bb/x", "c/A", "c/_", "c/a"]
    for name in random.Random(3).sample(chosen, len(chosen)):
        await store.put(name, name.encode())
    assert await names(store, "") == sorted(chosen)
    assert await names(store, "b/") == ["b/1.5", "b/1/2", "b/2"]
    assert await names(store, "b/", "b/1.5") == ["b/1/2", "b/2"]
    assert await names(store, "b/", "b/1/") == ["b/1/2", "b/2"]
    assert await names(store, "b/", "b/1/2") == ["b/2"]
    assert await names(store, "b/", "b/2") == []
    assert await names(store, "", "b/") == ["b/1.5", "b/1/2", "b/2", "b0", "bb/x", "c/A", "c/_", "c/a"]
    assert [info.size async for info in store.list("b/")] == [5, 5, 3]


async def test_listings_are_longer_than_a_page(store: ChangelogStore) -> None:
    if store.url.startswith("s3"):
        pytest.skip("the test service is slow, and obstore's paging not ours")
    for first in range(0, 1050, 50):
        await asyncio.gather(*(store.put(f"{LEDGER}/{number:05}", b"") for number in range(first, first + 50)))
    assert await names(store, f"{LEDGER}/") == [f"{LEDGER}/{number:05}" for number in range(1050)]
    assert await names(store, f"{LEDGER}/", f"{LEDGER}/01040") == [f"{LEDGER}/{n:05}" for n in range(1041, 1050)]
    await store.delete_folder(f"{LEDGER}/")
    assert await names(store, "") == []


async def test_what_is_deleted_is_gone(store: ChangelogStore) -> None:
    await store.put("a/b", b"1")
    await store.put("a/c", b"2")
    await store.delete("a/b")
    await store.delete("a/b")
    await store.delete("never/there")
    assert await names(store, "") == ["a/c"]
    await store.put("a/b", b"again")
    assert await store.get("a/b") == b"again"


async def test_folders_are_deleted_whole_and_alone(store: ChangelogStore) -> None:
    for name in ("l/ledger-1/a", "l/ledger-1/b/c", "l/ledger-10/a", "l/ledger-1.x", "m/ledger-1/a"):
        await store.put(name, b"")
    await store.delete_folder("l/ledger-1/")
    await store.delete_folder("l/ledger-1/")
    await store.delete_folder("never/there/")
    assert await names(store, "") == ["l/ledger-1.x", "l/ledger-10/a", "m/ledger-1/a"]
    await store.put("l/ledger-1/a", b"new")
    assert await store.get("l/ledger-1/a") == b"new"


async def test_puts_go_on_while_the_folder_is_deleted(store: ChangelogStore) -> None:
    async def put(number: int) -> None:
        await store.put(f"d/e/{number}", b"x")

    await asyncio.gather(*(put(number) for number in range(20)), *(store.delete_folder("d/") for _ in range(3)))
    assert set(await names(store, "")) <= {f"d/e/{number}" for number in range(20)}


@pytest.mark.parametrize(
    "name", ["", "/a", "a/", "a//b", "../a", "a/../b", "a/./b", "a b", "ä", "a\0", "~x", "a" * 241]
)
async def test_names_stay_inside(store: ChangelogStore, name: str) -> None:
    with pytest.raises(ValueError, match="not a name"):
        await store.put(name, b"")
    with pytest.raises(ValueError, match="not a name"):
        await store.append(name, b"")
    with pytest.raises(ValueError, match="not a name"):
        await store.get(name)
    with pytest.raises(ValueError, match="not a name"):
        await store.delete(name)
    if name:
        with pytest.raises(ValueError, match="not a"):
            await store.delete_folder(f"{name}/" if not name.endswith("/") else name + "/")


async def test_a_closed_store_refuses(store: ChangelogStore) -> None:
    await store.put("a", b"")
    await store.close()
    with pytest.raises(StoreUnavailableError):
        await store.get("a")
    with pytest.raises(StoreUnavailableError):
        await store.put("b", b"")
    with pytest.raises(StoreUnavailableError):
        await store.append("b", b"")
    with pytest.raises(StoreUnavailableError):
        await store.delete("a")
    with pytest.raises(StoreUnavailableError):
        await names(store, "")
    await store.close()


async def test_a_store_belongs_to_one_cluster(store: ChangelogStore, another: Opener) -> None:
    with pytest.raises(SqlError, match="is empty, but the cluster has data") as empty:
        await claim(store, "one", create=False)
    assert empty.value.sqlstate == "55000"
    await claim(store, "one")
    await claim(another(), "one")
    await claim(another(), "one", create=False)
    with pytest.raises(SqlError, match='holds the data of cluster "one", not of "two"') as taken:
        await claim(another(), "two")
    assert taken.value.sqlstate == "55000"
