"""The documentation as a site: every page is in its navigation, links lead somewhere, nothing comes from elsewhere.

mkdocs checks the first two itself when it builds strictly (`validation` of mkdocs.yml; never with --quiet, which has it
not see its own warnings); planted faults show that it does.
"""

from __future__ import annotations

import pathlib
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.docs.running import ROOT, Pages, blocks

# What the commands of a page must have written.
SAID = {
    "index.md": (" 100000 | 10000000.00 | 125.00", '"balance": "101.00"'),
    "time-travel.md": ("  7 |  100.00", " 100000.00"),
}
_LOADED = re.compile(r"<(?:script|link|img|iframe)\b[^>]*(?:src|href)=\"?((?:https?:)?//[^\"> ]+)")


def build(folder: pathlib.Path, site: pathlib.Path) -> tuple[int, str]:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", str(folder / "mkdocs.yml"), "-d", str(site)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def copy(tmp_path: pathlib.Path) -> pathlib.Path:
    shutil.copy(ROOT / "mkdocs.yml", tmp_path)
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    return tmp_path


def test_the_site_is_whole_and_loads_nothing_from_elsewhere(tmp_path: pathlib.Path) -> None:
    status, told = build(ROOT, tmp_path / "site")
    assert status == 0, told
    pages = {path.stem for path in (ROOT / "docs").glob("*.md")}
    assert {path.stem for path in (tmp_path / "site").glob("*.html")} == {*pages, "404"}
    for page in (tmp_path / "site").glob("*.html"):
        loaded = _LOADED.findall(page.read_text())
        assert not loaded, f"{page.name} loads {loaded}"


def test_what_is_wrong_with_the_site_ends_the_build(copy: pathlib.Path, tmp_path: pathlib.Path) -> None:
    (copy / "docs" / "outside.md").write_text("# Outside\n")
    (copy / "docs" / "index.md").write_text("# Start\n\n[no page](gone.md) [no heading](sql.md#nowhere)\n")
    status, told = build(copy, tmp_path / "site")
    assert status != 0 and all(named in told for named in ("outside.md", "gone.md", "#nowhere")), told


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda page: page.stem)
def test_lists_and_tables_stand_apart_from_the_text_before_them(page: pathlib.Path) -> None:
    """Python-Markdown reads on as text otherwise."""
    before, fenced = "", False
    for number, line in enumerate(page.read_text().splitlines(), 1):
        fenced ^= line.startswith("```")
        begins = re.match(r"(- |\* |\d+\. |\|)", line)
        goes_on = re.match(r"(- |\* |\d+\. |\||\s|#|<!--|$)", before)
        in_table = before.startswith("|") and line and not line.startswith(("|", "<!--"))
        assert fenced or not (in_table or (begins and not goes_on)), (
            f"{page.name}:{number} needs an empty line before it"
        )
        before = line


@pytest.fixture(scope="module")
def pages() -> Iterator[Pages]:
    keeper = Pages()
    yield keeper
    keeper.close()


@pytest.mark.parametrize("page", [page.name for page in sorted((ROOT / "docs").glob("*.md")) if blocks(page.name)])
def test_what_a_page_says_to_paste_runs_as_it_stands(page: str, pages: Pages) -> None:
    status, told = pages.run(page)
    assert status == 0, told
    assert all(text in told for text in SAID.get(page, ())), told


def test_a_command_that_fails_is_told(pages: Pages) -> None:
    status, told = pages.run("../tests/docs/failing.md")
    assert status == 1 and 'relation "nothing" does not exist' in told, told
