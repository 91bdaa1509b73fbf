"""Our own scripts on Shoal and on PostgreSQL, and SQLite's corpus where it is at hand.

The corpus is looked for in $SHOAL_CORPORA: sqllogictest.tar.xz, or the unpacked scripts.
"""

from __future__ import annotations

import os
import pathlib
import tarfile
from collections.abc import Iterator

import pytest

from sqllogictest.runner import run_file, scripts, show
from sqllogictest.script import ScriptError, parse
from tests.oracle import PostgresServer
from tests.server import ROOT, ShoalServer

OWN = scripts([str(ROOT / "sqllogictest" / "scripts")])
CORPUS = ("select1", "select2", "select3")


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.stem)
def test_our_scripts(server: ShoalServer | PostgresServer, path: pathlib.Path) -> None:
    tally = run_file(server.dsn, path)
    assert tally.failures == []
    assert tally.passed == tally.records > 0


def test_there_are_hundreds_of_records() -> None:
    assert sum(len(list(parse(path.read_text()))) for path in OWN) >= 500


def corpora() -> pathlib.Path | None:
    """The directory of corpora of others, if SHOAL_CORPORA names one."""
    given = os.environ.get("SHOAL_CORPORA")
    return pathlib.Path(given) if given else None


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, pathlib.Path]]:
    """select1 to select3 by name."""
    place = corpora()
    if place is None:
        pytest.skip("no corpora: set SHOAL_CORPORA to a directory with sqllogictest.tar.xz")
    packed = place / "sqllogictest.tar.xz"
    if packed.exists():
        place = tmp_path_factory.mktemp("corpus")
        with tarfile.open(packed) as archive:
            for item in archive:
                content = archive.extractfile(item) if pathlib.Path(item.name).stem in CORPUS else None
                if content is not None:
                    (place / pathlib.Path(item.name).name).write_bytes(content.read())
    found = {path.stem: path for path in place.rglob("select?.test")}
    if not set(CORPUS) <= set(found):
        pytest.skip(f"no sqllogictest scripts in {place}")
    yield found


@pytest.mark.parametrize("name", CORPUS)
def test_the_corpus(shoal: ShoalServer, corpus: dict[str, pathlib.Path], name: str) -> None:
    tally = run_file(shoal.dsn, corpus[name])
    assert tally.failures == []
    assert tally.passed + tally.skipped == tally.records > 100


def test_failures_are_found(postgres_server: PostgresServer, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "planted.slt"
    path.write_text(
        "query I\nSELECT 1\n----\n2\n\nquery II rowsort\nSELECT 1, 2\n----\n1 2\n\nstatement ok\nSELEC\n\n"
        "statement error no such thing\nSELECT * FROM nothing_here\n\nstatement error\nSELECT 1\n\n"
        "query T\nSELECT 'a' UNION ALL SELECT 'b'\n----\n3 values hashing to d131dd02c5e6eec4693d9a0698aff95c\n"
    )
    tally = run_file(postgres_server.dsn, path)
    assert (tally.records, tally.passed, tally.failed) == (6, 1, 5)


def test_a_line_of_no_record_is_an_error() -> None:
    with pytest.raises(ScriptError, match="line 3"):
        list(parse("statement ok\nSELECT 1\nnot a record\n".replace("SELECT 1\n", "\n")))


def test_values_are_shown_as_scripts_write_them() -> None:
    assert [show(value, "T") for value in (None, "", "a\tb", True, 1.5)] == ["NULL", "(empty)", "a@b", "true", "1.5"]
    assert [show(value, "I") for value in (True, 2.9, "12abc", 7)] == ["1", "2", "12", "7"]
    assert show(1 / 3, "R") == "0.333"
