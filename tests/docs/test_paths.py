"""Paths that texts name: each file and folder of the repository that a page or a docstring names is there.

Pages name paths in backticks. Docstrings of packages list their modules without them, so there every word that looks
like a path counts. A path is taken as it stands, or from the folder of its text, or from a folder above that one. The
name of a file alone may be any file's. In all other sources (comments, docstrings, lists in code) only whole paths of
files count, as tests/docs/test_site.py.
"""

from __future__ import annotations

import ast
import functools
import pathlib
import re
from collections.abc import Iterator

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGES = ("bench", "catalog", "engine", "replication", "shoal", "shoal_spark", "sqllogictest", "tools", "wire")
FOLDERS = (*PACKAGES, "deploy", "docs", "tests")
LONGEST_TOUR = 12 * 1024  # bytes of ARCHITECTURE.md
PAGES = [
    *(ROOT / name for name in ("ARCHITECTURE.md", "CONTRIBUTING.md", "README.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
DOCSTRINGS = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("__init__.py"))
_CODE = re.compile(r"(`+)(.+?)\1")
_FENCED = re.compile(r"^```.*?^```", re.S | re.M)
_PATH = re.compile(
    rf"(?:(?:{'|'.join(FOLDERS)})/[\w.*/-]*|[\w.*-]+(?:/[\w.*-]+)*\.(?:py|pyi|sh|svg|toml|tsv|yaml|yml))"
)
_WORD = re.compile(rf"(?<![\w./:<{{])(?:{_PATH.pattern})(?![\w/])")
_WHOLE = re.compile(rf"(?<![\w./:<{{-])(?:{'|'.join(FOLDERS)})/[\w/]+\.\w+")
# Names of files that are not the repository's, each with where it stands.
NOT_OURS = {
    "zkCli.sh": "ZooKeeper's",
}


def page_paths(text: str) -> Iterator[str]:
    """The paths that a page names in backticks, outside of blocks."""
    for _, code in _CODE.findall(_FENCED.sub("", text)):
        if _PATH.fullmatch(code):
            yield code


def docstring_paths(text: str) -> Iterator[str]:
    """Every word of a package's docstring that looks like a path."""
    for word in _WORD.findall(text):
        yield word.rstrip(".")


def source_paths(text: str) -> Iterator[str]:
    """Whole paths of files in a source."""
    yield from _WHOLE.findall(text)


@functools.cache
def names() -> frozenset[str]:
    """The names of all files of the repository."""
    kept = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if "node_modules" not in path.parts]
    return frozenset(path.name for path in (*kept, *ROOT.iterdir()) if path.is_file())


def is_there(path: str, folder: pathlib.Path) -> bool:
    """Whether the repository has what a text in `folder` calls `path`, where * stands for anything."""
    if "/" not in path and "*" not in path and path in names():
        return True
    at = folder
    while True:
        if next(at.glob(path.rstrip("/")), None) is not None:
            return True
        if at == ROOT:
            return False
        at = at.parent


def missing(file: pathlib.Path, text: str) -> list[str]:
    found = page_paths(text) if file.suffix == ".md" else docstring_paths(text)
    return [path for path in found if path not in NOT_OURS and not is_there(path, file.parent)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_paths_of_a_page_exist(page: pathlib.Path) -> None:
    assert not missing(page, page.read_text(encoding="utf-8"))


@pytest.mark.parametrize("module", DOCSTRINGS, ids=lambda module: str(module.parent.relative_to(ROOT)))
def test_paths_of_a_package_exist(module: pathlib.Path) -> None:
    docstring = ast.get_docstring(ast.parse(module.read_text(encoding="utf-8")))
    assert docstring, "a package says what lives in it"
    assert not missing(module, docstring)


@pytest.mark.parametrize("folder", FOLDERS)
def test_files_that_sources_name_exist(folder: str) -> None:
    wrong = {
        (str(source.relative_to(ROOT)), path)
        for source in (ROOT / folder).rglob("*.py")
        for path in source_paths(source.read_text(encoding="utf-8"))
        if not (ROOT / path).exists()
    }
    assert not wrong


def test_wrong_paths_are_noticed() -> None:
    gone = "engine/session/" + "gone.py"
    page = f"See `engine/statements/as_of.py`, `{gone}`, `gone.py`, ``tests/gone/*.py`` and `SELECT 1/gone`.\n"
    assert missing(ROOT / "docs" / "page.md", page) == [gone, "gone.py", "tests/gone/*.py"]
    docstring = "What lives here:\n\n    portal.py     portals (session/portal.py)\n    gone.py     see engine/gone.\n"
    assert missing(ROOT / "engine" / "__init__.py", docstring) == ["gone.py", "engine/gone"]
    assert list(source_paths(f"# As {gone} does, not https://host/{gone}\n")) == [gone]


def test_pages_name_paths() -> None:
    """Or else the expression above has stopped to see any."""
    tour = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    assert len(set(page_paths(tour))) > 40
    assert sum(len(set(page_paths(page.read_text(encoding="utf-8")))) for page in PAGES) > 120


def test_the_tour_is_short() -> None:
    assert (ROOT / "ARCHITECTURE.md").stat().st_size <= LONGEST_TOUR
