"""The lists of changed keys: complete from where they say, bounded, and gone when nobody needs them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.storage import key_notes
from engine.storage.checkpoint import Checkpoint
from engine.storage.key_notes import changed_keys
from engine.storage.keys import storage_prefix
from engine.storage.memtable import Memtable

TABLES = (701, 702, 703)


def key(storage_id: int, number: int) -> bytes:
    return storage_prefix(storage_id) + number.to_bytes(4, "big")


class Model:
    """A checkpoint, and what has to be known of each list."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoint = Checkpoint(str(path / "rows"))
        self.lsn = 0
        self.written: dict[int, dict[int, set[bytes]]] = {table: {} for table in TABLES}
        self.tokens: dict[int, tuple[str, int]] = {}  # and the LSN after which the list has all
        self.saved: dict[int, int] = {}

    def flush(self, choices: random.Random) -> None:
        first, writes = self.lsn + 1, {}
        layer = Memtable(first)
        for _ in range(choices.randrange(1, 4)):
            self.lsn += 1
            writes = {
                key(table, choices.randrange(50)): choices.choice([b"row", None])
                for table in choices.sample(TABLES, choices.randrange(1, 4))
                for _ in range(choices.randrange(1, 5))
            }
            layer.apply(self.lsn, dict(writes), self.lsn)
            for written in writes:
                self.written[int.from_bytes(written[:4], "big")].setdefault(self.lsn, set()).add(written)
        layer.last_lsn = self.lsn
        self.checkpoint.write(layer, lambda _: None)

    def add(self, table: int) -> None:
        token = self.checkpoint.key_notes.add(table)
        if self.tokens.get(table, ("", 0))[0] != token:
            self.tokens[table] = token, self.lsn
            self.saved.pop(table, None)
        self.checkpoint.write_notes()

    def remove(self, table: int) -> None:
        self.checkpoint.key_notes.remove(table)
        self.tokens.pop(table, None)
        self.checkpoint.write_notes()

    def save(self, table: int) -> None:
        self.saved[table] = self.lsn
        self.checkpoint.key_notes.note_saved(table, self.lsn)

    def reopen(self) -> None:
        self.checkpoint.close()
        self.checkpoint = Checkpoint(str(self.path / "rows"))

    def known(self, table: int, token: str, after: int) -> set[bytes] | None:
        with self.checkpoint.environment.begin() as transaction:
            found = changed_keys(transaction, self.checkpoint._meta, table, bytes.fromhex(token), after)
        return None if found is None else set(found.to_pylist())

    def wanted(self, table: int, after: int) -> set[bytes]:
        return set[bytes]().union(*(keys for lsn, keys in self.written[table].items() if lsn > after))

    def names(self) -> list[bytes]:
        with self.checkpoint.environment.begin(db=self.checkpoint._meta) as transaction:
            every = [bytes(name) for name in transaction.cursor().iternext(values=False)]
        return [name for name in every if name.startswith((key_notes.NOTED, key_notes.KEYS))]


@pytest.fixture
def model(tmp_path: Path) -> Iterator[Model]:
    made = Model(tmp_path)
    yield made
    made.checkpoint.close()


@pytest.mark.parametrize("seed", range(20))
def test_a_list_has_what_was_written_since_it_was_saved(model: Model, seed: int) -> None:
    choices = random.Random(seed)
    for _ in range(120):
        table = choices.choice(TABLES)
        step = choices.choice(["flush", "flush", "flush", "add", "remove", "save", "reopen"])
        if step == "flush":
            model.flush(choices)
        elif step == "reopen":
            model.reopen()
        elif step != "save" or table in model.tokens:
            getattr(model, step)(table)
        for known, (token, since) in model.tokens.items():
            after = max(model.saved.get(known, 0), since)
            assert model.known(known, token, after) == model.wanted(known, after)
            assert model.known(known, "00" * 16, after) is None
            older = choices.randrange(
                since, after + 1
            )  # than what was saved: at least what has changed since, or nothing
            found = model.known(known, token, older)
            assert found is None or found >= model.wanted(known, older)
            if since:
                assert model.known(known, token, since - 1) is None
    for table in list(model.tokens):
        model.remove(table)
    assert model.names() == []


def test_a_list_that_is_too_long_begins_again(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_notes, "MOST_BYTES", 4000)
    choices = random.Random(0)
    model.add(701)
    token = model.tokens[701][0]
    before = model.lsn
    for _ in range(40):
        model.flush(choices)
    assert model.known(701, token, before) is None
    last = model.lsn
    model.flush(choices)
    found = model.known(701, token, last)
    assert found is None or found == model.wanted(701, last)
    assert sum(map(len, model.names())) < 4000


def test_a_flush_that_fails_has_noted_nothing_and_is_tried_again(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    model.add(701)
    token = model.tokens[701][0]
    layer = Memtable(1)
    layer.apply(1, {key(701, 7): b"row"}, 1)
    layer.last_lsn = 1
    with monkeypatch.context() as patch:
        patch.setattr(key_notes.Taking, "entries", lambda self: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            model.checkpoint.write(layer, lambda _: None)
    assert model.known(701, token, 0) == set()
    model.checkpoint.write(layer, lambda _: None)
    assert model.known(701, token, 0) == {key(701, 7)}
