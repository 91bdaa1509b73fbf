"""A follower's tablespace applies what the leader commits; a deposed leader's takes back what never was."""

from __future__ import annotations

from pathlib import Path

import pytest

from catalog.errors import SqlError
from engine.storage.edits import Edits
from tests.engine.storage.harness import Store, key


class Silent:
    """A changelog that keeps what is submitted and makes nothing durable."""

    def __init__(self, inner: object) -> None:
        self.inner = inner
        self.bodies: list[bytes] = []
        self.pending_bytes = 0

    def submit(self, lsn: int, body: bytes, *rest: object) -> None:
        self.bodies.append(body)

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)


def body(writes: dict[bytes, bytes | None], drops: list[int] | None = None) -> bytes:
    return Edits(writes, [], drops or []).encode()


def test_applied_entries_are_read_and_flushed_like_own_ones(tmp_path: Path) -> None:
    store = Store(tmp_path)
    seen: list[int] = []
    store.space.on_durable(seen.append)
    for lsn in range(1, 6):
        edits = store.space.apply(lsn, body({key(lsn): b"v%d" % lsn, key(1): b"new%d" % lsn}))
        assert set(edits.writes) == {key(lsn), key(1)}
    assert seen == [1, 2, 3, 4, 5]
    assert store.contents() == {key(1): b"new5", **{key(n): b"v%d" % n for n in range(2, 6)}}
    with pytest.raises(SqlError, match="XX000"):
        store.space.apply(7, body({}))
    store.flush()
    store.space.apply(6, body({key(2): None}))
    assert key(2) not in store.contents()


def test_a_snapshot_of_a_follower_stays_as_it_is(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.space.apply(1, body({key(1): b"a"}))
    with store.space.snapshot() as snapshot:
        store.space.apply(2, body({key(1): b"b", key(2): b"c"}))
        assert snapshot.get(key(1)) == b"a" and snapshot.get(key(2)) is None
    assert store.space.get(key(1), 2) == b"b"


@pytest.mark.parametrize("freeze_at", [0, 3, 5])
def test_what_was_sequenced_and_not_committed_is_taken_back(tmp_path: Path, freeze_at: int) -> None:
    store = Store(tmp_path)
    store.commit({key(1): b"a", key(2): b"b"})
    store.commit({key(1): b"a2"})
    silent = Silent(store.space._changelog)
    store.space.use_changelog(silent)  # type: ignore[arg-type]
    for lsn in range(3, 7):
        store.space.sequence(Edits({key(1): b"lost%d" % lsn, key(lsn): b"lost", key(2): None}, [], [77]), 0, 0)
        if lsn == freeze_at:
            store.space.flush()
    assert store.space.newest(key(1)) == (6, b"lost6")
    store.space.undo_above(2)
    assert store.space.newest(key(1)) == (2, b"a2")
    assert store.space.newest(key(2)) == (1, b"b")
    assert store.space.newest(key(4)) is None
    assert (store.space.sequenced_lsn, store.space.durable_lsn) == (2, 2)
    assert store.contents() == {key(1): b"a2", key(2): b"b"}
    store.space.apply(3, body({key(4): b"the new leader's"}))
    assert store.contents() == {key(1): b"a2", key(2): b"b", key(4): b"the new leader's"}
    store.flush()
    assert store.contents() == {key(1): b"a2", key(2): b"b", key(4): b"the new leader's"}
    assert store.space._checkpoint.drops_in(store.space._generation.transaction) == []


def test_an_entry_that_turns_out_to_be_committed_is_kept(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.space.use_changelog(Silent(store.space._changelog))  # type: ignore[arg-type]
    for lsn in range(1, 4):
        store.space.sequence(Edits({key(lsn): b"v"}), 0, 0)
    store.space.undo_above(2)
    assert (store.space.sequenced_lsn, store.space.durable_lsn) == (2, 2)
    assert store.contents() == {key(1): b"v", key(2): b"v"}
    with pytest.raises(SqlError, match="XX000"):
        store.space.undo_above(1)
