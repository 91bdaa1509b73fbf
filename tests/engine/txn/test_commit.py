"""The commit queue: who waits for an LSN is told in order, or told that it is lost."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from catalog.errors import SqlError
from engine.txn.commit import CommitQueue


def queue(durable: int = 0) -> tuple[CommitQueue, Any, list[object]]:
    store = SimpleNamespace(durable_lsn=durable)
    return CommitQueue(store, lambda: 0), store, []  # type: ignore[arg-type]


def wait(commits: CommitQueue, told: list[object], lsn: int) -> None:
    commits.wait(lsn, lambda: told.append(lsn), lambda error: told.append((lsn, error.sqlstate)))


def test_waiters_are_notified_in_the_order_of_their_lsns() -> None:
    commits, store, told = queue(1)
    for lsn in (1, 3, 5, 4, 4):
        wait(commits, told, lsn)
    assert told == [1]
    store.durable_lsn = 4
    commits.on_durable(4)
    assert told == [1, 3, 4, 4]
    commits.on_durable(5)
    assert told == [1, 3, 4, 4, 5]


def test_what_will_never_be_durable_is_given_up() -> None:
    commits, _, told = queue()
    for lsn in (2, 3, 4):
        wait(commits, told, lsn)
    commits.give_up(2, SqlError("40001", "not committed"))
    assert sorted(told, key=str) == [(3, "40001"), (4, "40001")]
    commits.on_durable(2)
    assert told[-1] == 2
