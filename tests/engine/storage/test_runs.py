"""Bulk runs: sorted, searched, merged, verified."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest

from catalog.errors import SqlError
from engine.storage.runs import BATCH_ROWS, BulkRun, BulkRunWriter, DuplicateKey
from tests.engine.storage.harness import key

Pairs = dict[bytes, bytes | None]


def _write(path: Path, parts: list[Pairs]) -> BulkRun:
    writer = BulkRunWriter(str(path))
    for part in parts:
        writer.add(pa.array(list(part), pa.binary()), pa.array(list(part.values()), pa.binary()))
    return writer.finish()


def _shuffled(chance: random.Random, widths: bool) -> list[Pairs]:
    """Parts whose key ranges overlap; with several key widths and storage ids if asked."""
    numbers = list(range(3000))
    chance.shuffle(numbers)
    parts: list[Pairs] = [{} for _ in range(5)]
    for number in numbers:
        place = key(number, 1 + number % 2) + (b"x" * (number % 3) if widths else b"")
        chance.choice(parts)[place] = None if number % 7 == 0 else b"%d" % number
    return parts


@pytest.mark.parametrize("widths", [False, True])
@pytest.mark.parametrize("batch_rows", [100, BATCH_ROWS])
def test_a_run_holds_what_was_added(
    tmp_path: Path, widths: bool, batch_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.storage.runs.BATCH_ROWS", batch_rows)
    parts = _shuffled(random.Random(1), widths)
    run = _write(tmp_path / "run", parts)
    everything = {place: value for part in parts for place, value in part.items()}
    assert run.rows == len(everything)
    assert (run.first_key, run.last_key) == (min(everything), max(everything))
    for place, value in everything.items():
        found = run.get(place)
        assert found is not None and found.value == value
    assert run.get(key(1, 9)) is None and run.get(b"") is None and run.get(key(5) + b"zz") is None
    low, high = key(100), key(900, 2)
    expected = sorted((place, value) for place, value in everything.items() if low <= place < high)
    assert list(run.scan(low, high)) == expected
    assert list(run.scan(low, high, reverse=True)) == expected[::-1]
    assert [item for part in run.slices() for item in part] == sorted(everything.items())


def test_duplicates_are_found_within_a_batch_and_across_batches(tmp_path: Path) -> None:
    writer = BulkRunWriter(str(tmp_path / "a"))
    for width in (b"", b"wide" * 5):
        keys = pa.array([key(2) + width, key(1) + width, key(2) + width], pa.binary())
        with pytest.raises(DuplicateKey) as error:
            writer.add(keys, keys)
        assert error.value.key == key(2) + width
    writer.discard()
    assert not (tmp_path / "a").exists()
    with pytest.raises(DuplicateKey) as error:
        _write(tmp_path / "b", [{key(1): b"", key(5): b""}, {key(3): b"", key(5): b""}])
    assert error.value.key == key(5)


def test_contains_any(tmp_path: Path) -> None:
    run = _write(tmp_path / "run", [{key(number): b"" for number in range(0, 100, 2)}])
    assert sorted(run.contains_any([key(1), key(2), key(98), key(3, 5)])) == [key(2), key(98)]
    assert run.contains_any([]) == []


def test_an_empty_run(tmp_path: Path) -> None:
    run = _write(tmp_path / "run", [])
    assert run.get(key(1)) is None and list(run.scan(b"", b"\xff")) == [] and run.first_key is None


def test_damage_and_absence_are_noticed(tmp_path: Path) -> None:
    run = _write(tmp_path / "run", [{key(number): b"value" for number in range(50)}])
    BulkRun(run.path, run.reference, verify=True)
    data = bytearray((tmp_path / "run").read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / "run").write_bytes(data)
    with pytest.raises(SqlError) as error:
        BulkRun(run.path, run.reference, verify=True)
    assert error.value.sqlstate == "XX001"
    run.discard()
    with pytest.raises(SqlError):
        BulkRun(run.path, run.reference, verify=True)


@pytest.mark.parametrize("finished", [False, True])
def test_a_run_that_is_thrown_away_leaves_no_file(tmp_path: Path, finished: bool) -> None:
    """A statement that is finished may still fail, where others have taken its keys."""
    writer = BulkRunWriter(str(tmp_path / "run"))
    writer.add(pa.array([key(1)], pa.binary()), pa.array([b"x"], pa.binary()))
    if finished:
        writer.finish()
    writer.discard()
    assert not list(tmp_path.iterdir())


def test_what_is_written_can_be_read_while_the_file_grows(tmp_path: Path) -> None:
    writer = BulkRunWriter(str(tmp_path / "run"))
    assert writer.written == (0, 0)
    for first in (0, 10, 20):
        names = pa.array([key(number) for number in range(first, first + 10)], pa.binary())
        writer.add(names, names)
        rows, size = writer.written
        assert rows == first + 10 and size == (tmp_path / "run").stat().st_size
        assert writer.in_order
        with pa.memory_map(writer.path) as source:
            assert sum(batch.num_rows for batch in pa.ipc.open_stream(source.read_buffer()[8:])) == rows
    late = pa.array([key(25), key(40)], pa.binary())
    with pytest.raises(DuplicateKey):
        writer.add(late, late)
        assert not writer.in_order
        writer.finish()


def test_the_storage_ids_of_a_run(tmp_path: Path) -> None:
    keys = [key(number, storage) for storage in (7, 8, 300) for number in range(3)]
    writer = BulkRunWriter(str(tmp_path / "run"))
    for start in range(0, len(keys), 2):  # batches that end within a storage id, and at its end
        part = pa.array(keys[start : start + 2], pa.binary())
        writer.add(part, part)
    assert [int.from_bytes(prefix, "big") for prefix in writer.finish().prefixes()] == [7, 8, 300]
    assert list(BulkRunWriter(str(tmp_path / "empty")).finish().prefixes()) == []


def test_a_run_tells_that_it_is_thrown_away(tmp_path: Path) -> None:
    told: list[str] = []
    run = _write(tmp_path / "run", [{key(1): b""}])
    run.on_discard = lambda: told.append("discarded")
    run.discard()
    assert told == ["discarded"]
