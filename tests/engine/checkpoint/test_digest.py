"""The digest: what a replica holds at an LSN, however it came by it."""

from __future__ import annotations

import asyncio
from pathlib import Path

from engine.checkpoint.digest import Digest, digest
from engine.storage.edits import Edits
from tests.engine.storage.harness import Store, key

HISTORY: list[tuple[dict[bytes, bytes | None], list[int]]] = [
    ({key(1): b"a", key(2): b"b", key(1, 7): b"other"}, []),
    ({key(2): None, key(3): b"c"}, []),
    ({key(1): b"a2"}, [7]),
    ({key(4): b"d"}, []),
]


def taken(store: Store, lsn: int | None = None) -> Digest:
    return asyncio.run(digest(store.space, lsn))


def replica(path: Path, flush_after: set[int]) -> Store:
    store = Store(path)
    for number, (writes, drops) in enumerate(HISTORY, 1):
        store.space.apply(number, Edits(writes, [], drops).encode())
        if number in flush_after:
            store.flush()
    return store


def test_replicas_agree_whatever_is_flushed(tmp_path: Path) -> None:
    digests = [
        taken(replica(tmp_path / str(place), flushes)) for place, flushes in enumerate((set(), {1, 3}, {2}, {4}))
    ]
    assert all(found == digests[0] for found in digests)
    assert digests[0].lsn == len(HISTORY) and set(digests[0].parts) == {1}
    assert digests[0].parts[1][0] == 3


def test_one_byte_makes_a_difference(tmp_path: Path) -> None:
    first = taken(replica(tmp_path / "one", set()))
    other = replica(tmp_path / "two", {2})
    other.commit({key(4): b"D"})
    other.commit({key(4): b"d"})
    assert taken(other).total == first.total
    other.commit({key(1): b"A2"})
    assert taken(other).total != first.total


def test_an_older_lsn_that_is_kept(tmp_path: Path) -> None:
    store = Store(tmp_path / "one")
    store.space.apply(1, Edits(HISTORY[0][0], [], []).encode())
    before = taken(store)
    with store.space.snapshot():
        for number, (writes, drops) in enumerate(HISTORY[1:], 2):
            store.space.apply(number, Edits(writes, [], drops).encode())
        assert taken(store, 1) == before
        assert taken(store).total != before.total
