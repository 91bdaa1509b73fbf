"""A statement's view shows its transaction as it was when the statement began, whatever is written and undone since."""

from __future__ import annotations

import random
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from engine.txn.statement_view import StatementView
from engine.txn.transaction import Transaction

KEYS = [bytes((number,)) for number in range(8)]


class _Rows:
    """Committed rows: a Reader, and a snapshot of itself."""

    lsn = 0

    def __init__(self, rows: dict[bytes, bytes]) -> None:
        self._rows = rows

    def get(self, key: bytes) -> bytes | None:
        return self._rows.get(key)

    def scan(self, low: bytes, high: bytes, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        return iter(sorted(((key, value) for key, value in self._rows.items() if low <= key < high), reverse=reverse))

    def close(self) -> None:
        pass


def _transaction() -> Transaction:
    rows = _Rows({key: b"committed" for key in KEYS[::2]})
    store: Any = SimpleNamespace(current=rows, durable_lsn=0, sequenced_lsn=0, snapshot=lambda: rows)
    return Transaction(store, cast(Any, None), cast(Any, None), 1, 0)


def _content(reader: Transaction | StatementView) -> list[tuple[bytes, bytes]]:
    return list(reader.scan(KEYS[1], KEYS[7]))


class _Statement:
    """A view, and what it must show for good."""

    def __init__(self, transaction: Transaction) -> None:
        self.view = StatementView(transaction)
        self.values = [transaction.get(key) for key in KEYS]
        self.rows = _content(transaction)
        self.written = dict(transaction.written_items())

    def check(self, wholly: bool) -> None:
        assert [self.view.get(key) for key in KEYS] == self.values
        if wholly:
            assert _content(self.view) == self.rows
            assert dict(self.view.written_items()) == self.written
            assert list(self.view.scan(KEYS[1], KEYS[7], reverse=True)) == self.rows[::-1]


@pytest.mark.parametrize("seed", range(60))
def test_a_view_does_not_change(seed: int) -> None:
    chance = random.Random(seed)
    transaction = _transaction()
    open_: list[_Statement] = []
    marks: list[int] = []
    for step in range(60):
        kind = chance.random()
        if kind < 0.6:
            key, value = chance.choice(KEYS), None if chance.random() < 0.3 else str(step).encode()
            transaction.put(key, value)
        elif kind < 0.7:
            marks.append(transaction.mark())
        elif kind < 0.8 and marks:
            mark = marks.pop()
            if not open_ or mark >= open_[-1].view.start:
                transaction.rollback_to(mark)
        elif kind < 0.9:
            open_.append(_Statement(transaction))
        elif open_:
            open_.pop().view.close()
        if chance.random() < 0.3:
            for statement in open_:
                statement.check(chance.random() < 0.5)
    for statement in open_:
        statement.check(True)


def test_a_closed_view_costs_nothing() -> None:
    transaction = _transaction()
    StatementView(transaction).close()
    assert not transaction.views
