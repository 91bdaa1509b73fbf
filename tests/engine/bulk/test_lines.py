"""Cutting data into pieces: wherever it is cut, the lines and fields are the same."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from catalog.errors import SqlError
from catalog.memory import Account, Holding, Pool
from engine.bulk import copy_lines
from engine.bulk.copy_lines import LineReader, splitter
from engine.bulk.copy_options import CopyOptions
from engine.bulk.load import Pieces

TEXT = CopyOptions()
CSV = CopyOptions(csv=True, delimiter=",", null="")
ESCAPED_CSV = CopyOptions(csv=True, delimiter=",", null="", escape="\\")
PARTS = {
    TEXT: [b"a", b"\t", b"\n", b"\\n", b"\\\\", b"\\\n", b"\\N", b"bb"],
    CSV: [b"a", b",", b"\n", b'""', b'"x\ny"', b'"a""b"', b"bb", b'"'],
    ESCAPED_CSV: [b"a", b",", b"\n", b'"\\""', b'"x\ny"', b'"\\\\"', b"\\", b'"'],
}


def in_pieces(data: bytes, options: CopyOptions, size: int) -> list[bytes]:
    reader = LineReader(options)
    found: list[bytes] = []
    rest = b""
    for start in range(0, len(data), size):
        rest += data[start : start + size]
        end = reader.cut(rest)
        found += [line.text for line in reader.lines(rest[:end])]
        rest = rest[end:]
    return found + [line.text for line in reader.lines(rest)]


@pytest.mark.parametrize("step", [1, 2, 3, 7])
@pytest.mark.parametrize("options", [CSV, ESCAPED_CSV], ids=["csv", "csv with another escape"])
def test_fields_that_are_split_in_steps_are_the_same(
    options: CopyOptions, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = random.Random(step)
    lines = []
    for _ in range(2000):
        kinds = [b"a", b",", b"\n", b"xyz", b'""' if options is CSV else b'\\"']
        inside = b"".join(source.choices(kinds, k=source.randrange(12)))
        lines.append(b"plain" * source.randrange(4) + b',"' + inside + b'",' + b"a" * source.randrange(9))
    expected = list(map(splitter(options), lines))
    monkeypatch.setattr(copy_lines, "_STEP", step)
    assert list(map(splitter(options), lines)) == expected


@pytest.mark.parametrize("options", list(PARTS), ids=["text", "csv", "csv with another escape"])
def test_cuts_change_nothing(options: CopyOptions) -> None:
    source = random.Random(7)
    for _ in range(300):
        data = b"".join(source.choices(PARTS[options], k=source.randrange(1, 30)))
        whole = [line.text for line in LineReader(options).lines(data)]
        for size in (1, 2, 5, 11):
            assert in_pieces(data, options, size) == whole, (data, size)


class Source:
    """Gives these parts, one at a time."""

    def __init__(self, parts: list[bytes]) -> None:
        self.parts = parts

    async def read(self) -> bytes | None:
        return self.parts.pop(0) if self.parts else None


async def test_pieces_are_whole_lines_of_about_the_size_and_nothing_is_lost() -> None:
    source = random.Random(11)
    for _ in range(200):
        lines = [b"x" * source.randrange(60) + b"\n" for _ in range(source.randrange(1, 80))]
        data = b"".join(lines) + b"end"[: source.randrange(4)]
        cuts = sorted(source.randrange(len(data)) for _ in range(source.randrange(12)))
        parts = [data[start:end] for start, end in pairwise([0, *cuts, len(data)]) if end > start]
        pool = Pool()
        held = Holding(Account(pool))
        pieces = Pieces(Source(parts), LineReader(TEXT), held)
        found: list[bytes] = []
        while pieces.has_left:
            found.append(await pieces.gather(source.choice((1, 100, 1000))))
            held.owe(-len(found[-1]))
        assert b"".join(found) == data
        assert not pool.held
        assert all(piece.endswith(b"\n") for piece in found[:-1])


def test_fields() -> None:
    split = splitter(TEXT)
    assert split(b"1\ta\\tb\t\\N") == [b"1", b"a\tb", None]
    assert split(b"a\\\t\tx\\") == [b"a\t", b"x"]
    assert split(b"\\N\t\\Nx\t\\\\N") == [None, b"Nx", b"\\N"]
    assert split(b"\\x41\\101\\9\\q\\x") == [b"AA9qx"]
    assert split(b"") == [b""]
    split = splitter(CSV)
    assert split(b'1,"x""y",z') == [b"1", b'x"y', b"z"]
    assert split(b'ab"c,d"e,,""') == [b"abc,de", None, b""]
    split = splitter(ESCAPED_CSV)
    assert split(b'1,"a\\"b\\\\c\\d",z') == [b"1", b'a"b\\c\\d', b"z"]
    with pytest.raises(SqlError, match="unterminated"):
        split(b'"a\\"')
