"""How a follower far behind fetches the log: in runs of objects, and what it does with what does not come."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from catalog.errors import SqlError
from replication.interface import HeadObject, Ledger, ObjectDamagedError, StoreUnavailableError
from replication.log import LogSettings
from replication.log import follower as follower_module
from replication.log.objects import LocatedObject, fetch_runs
from tests.replication.log.ledger_of import Written
from tests.replication.memory_store import Fault, MemoryStore

ENTRIES = 1200
QUICK = LogSettings(retry_pause=0.001, max_retry_pause=0.002, poll=0.01)


@pytest.fixture(scope="module")
def written() -> Written:
    return Written(ENTRIES)


def count(store: MemoryStore, operation: str) -> int:
    return sum(called == operation for called, _ in store.log)


@pytest.mark.parametrize("seed", range(20))
def test_runs_are_bounded_and_keep_the_order(seed: int) -> None:
    chance = random.Random(seed)
    ledgers = [Ledger(number, 1, 1) for number in range(1, 4)]
    sizes = (None, 1, 10, 99, 100, 101, 500)
    found = [
        LocatedObject(HeadObject(ledger.ledger, lsn, lsn, "x"), ledger, chance.choice(sizes))
        for ledger in ledgers
        for lsn in range(chance.randint(0, 30))
    ]
    made = fetch_runs(found, 4, 100)
    assert [item for run in made for item in run] == found
    for run in made:
        assert 1 <= len(run) <= 4 and len({item.ledger.ledger for item in run}) == 1
        assert len(run) == 1 or sum(100 if item.size is None else item.size for item in run) <= 100
        assert len(run) == 1 or all(item.size is not None for item in run)
    for run, following in itertools.pairwise(made):  # no run could take one more
        item, last = following[0], run[-1]
        full = sum(100 if other.size is None else other.size for other in [*run, item]) > 100
        assert full or len(run) == 4 or item.ledger != last.ledger or None in (item.size, last.size)


async def test_requests_grow_with_runs_and_not_with_objects(written: Written, tmp_path: Path) -> None:
    store = MemoryStore(written.objects)
    await written.follow(store, tmp_path)
    assert count(store, "get") == 0
    assert count(store, "get_many") <= ENTRIES / 500 + count(store, "list")
    alone = MemoryStore(written.objects)
    await written.follow(alone, tmp_path, LogSettings(run_objects=1))
    assert count(alone, "get") == ENTRIES and count(alone, "get_many") == 0


@pytest.mark.parametrize("kind", ["fail", "unknown", "part"])
async def test_what_does_not_come_is_asked_for_again(written: Written, tmp_path: Path, kind: Any) -> None:
    def decide(number: int, called: str, name: str) -> Fault | None:
        return Fault(kind) if called == "get_many" or number % 97 == 0 else None

    store = MemoryStore(written.objects, decide=decide)
    await written.follow(store, tmp_path, QUICK)
    assert count(store, "get") < 3 * ENTRIES
    assert kind != "part" or count(store, "get") <= ENTRIES / 100


class _Gives(MemoryStore):
    """Answers with what the test makes of it."""

    def __init__(self, objects: dict[str, bytes], change: Any) -> None:
        super().__init__(objects)
        self.change = change

    async def get_many(self, names: Sequence[str]) -> dict[str, bytes]:
        found = await super().get_many(names)
        self.change(found)
        return found


async def test_a_store_that_gives_nothing_at_once_is_asked_for_each(written: Written, tmp_path: Path) -> None:
    store = _Gives(written.objects, dict.clear)
    await written.follow(store, tmp_path, QUICK)
    assert count(store, "get") == ENTRIES


@pytest.mark.parametrize("at", [0, 1, 499, 500, 777, ENTRIES - 1])
async def test_everything_before_a_damaged_entry_is_applied(written: Written, tmp_path: Path, at: int) -> None:
    name = written.names[at]

    def change(found: dict[str, bytes]) -> None:
        if name in found:
            found[name] = found[name][:-1] + b"!"

    with pytest.raises(SqlError) as damage:
        await written.follow(_Gives(written.objects, change), tmp_path)
    assert damage.value.sqlstate == "XX001" and f"entry {at + 1} " in str(damage.value)
    assert len(written.applied) == at


@pytest.mark.parametrize("at", [0, 3, 777])
async def test_an_entry_under_the_name_of_another_is_not_applied(written: Written, tmp_path: Path, at: int) -> None:
    def change(found: dict[str, bytes]) -> None:
        name, other = written.names[at], written.names[at + 1]
        if name in found:
            found[name] = written.objects[other]

    with pytest.raises(SqlError) as damage:
        await written.follow(_Gives(written.objects, change), tmp_path)
    assert damage.value.sqlstate == "XX001" and len(written.applied) == at


@pytest.mark.parametrize("damaged", [True, False])
async def test_what_the_store_has_lost_ends_the_following_there(
    written: Written, tmp_path: Path, damaged: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = written.names[600]
    store = _Gives(written.objects, lambda found: found.pop(name, None))
    original = store.get

    async def get(asked: str) -> bytes:
        if asked == name:
            raise ObjectDamagedError("damaged") if damaged else StoreUnavailableError("not now")
        return await original(asked)

    monkeypatch.setattr(store, "get", get)
    with pytest.raises(SqlError if damaged else TimeoutError):
        await written.follow(store, tmp_path, QUICK, seconds=5.0 if damaged else 0.5)
    assert len(written.applied) == 600


async def test_a_follower_that_mixed_up_a_run_would_be_noticed(
    written: Written, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = follower_module.Follower._fetch_run

    async def fetch_run(self: Any, coordination: Any, run: Any) -> dict[str, bytes]:
        fetched = await original(self, coordination, run)
        return dict(zip(fetched, [*list(fetched.values())[1:], b""], strict=True))

    monkeypatch.setattr(follower_module.Follower, "_fetch_run", fetch_run)
    with pytest.raises(SqlError) as damage:
        await written.follow(MemoryStore(written.objects), tmp_path)
    assert damage.value.sqlstate == "XX001" and written.applied == []
