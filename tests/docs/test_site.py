"""The documentation as a site: every page is in its navigation, links lead somewhere, nothing comes from elsewhere.

mkdocs checks the first two itself when it builds strictly (`validation` of mkdocs.yml; never with --quiet, which has it
not see its own warnings); planted faults show that it does.
"""

from __future__ import annotations

import itertools
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator

import pytest

from shoal.cli import parser
from tests.docs.running import ROOT, Pages, blocks

# What the commands of a page must have written.
SAID = {
    "../README.md": (" 100000 | 10000000.00 | 125.00",),
    "branches.md": ("  1000\n",),
    "cluster.md": (
        " c    | follower |",
        " 1001\n",
        "no problems found",
        "log://127.0.0.1:7304 is no longer needed",
    ),
    "embedded.md": ("(1, 'ann', Decimal('10.00'))",),
    "index.md": (" 100000 | 10000000.00 | 125.00", '"balance": "101.00"'),
    "time-travel.md": ("  7 |  100.00", " 100000.00"),
}
# Blocks of commands that are not run here, by their page and first line, and why.
_SPARK = "starts Spark, which takes minutes: run by tests/spark"
_ZOOKEEPER_USERS = "wants a ZooKeeper with these users or certificates: tests/end_to_end/test_access.py has them"
NOT_RUN = {
    ("cluster.md", "make cluster"): "tests/end_to_end/test_cluster_tool.py runs it on free ports",
    ("cluster.md", "install -m 600 /dev/null /etc/shoal-zk"): _ZOOKEEPER_USERS,
    ("cluster.md", "export SHOAL_ZK_SASL_FILE"): _ZOOKEEPER_USERS,
    ("cluster.md", "export SHOAL_ZK_TLS_CA"): _ZOOKEEPER_USERS,
    ("dialects.md", "import sqlglot"): "wants an installed package; tests/shoal_sqlglot tries it",
    ("guarantees.md", "make torture"): "takes as long as it is told; tests/torture has a short version of every trial",
    ("index.md", "make serve"): "installs from PyPI, then is `shoal serve`, which is what the page runs with",
    ("index.md", "psql"): "a prompt; what is to be pasted into it runs",
    (
        "sql.md",
        "CREATE EXTENSION postgres_fdw",
    ): "wants another server, as tests/end_to_end/test_foreign_tables.py has",
    (
        "operating.md",
        "echo 'CHANGE-ME' > password",
    ): "wants Docker; tests/end_to_end/test_compose.py reads its commands",
    ("monitoring.md", "docker compose"): "wants Docker; tests/end_to_end/test_compose.py reads the file",
    ("pipeline.md", "pip install"): _SPARK,
    ("pipeline.md", "shoal pipeline import"): _SPARK,
    ("pipeline.md", "shoal pipeline copy"): _SPARK,
    ("security.md", "CREATE TABLE notes"): "logs in as two roles: tests/engine/session/test_row_security.py has them",
    ("spark.md", "pip install"): _SPARK,
    ("spark.md", "import psycopg"): _SPARK,
    ("spark.md", "spark.dataSource"): _SPARK,
    ("spark.md", "with moment"): _SPARK,
    ("spark.md", "CREATE TEMPORARY VIEW"): _SPARK,
    ("spark.md", "changes ="): _SPARK,
    ("spark.md", "spark-shell"): _SPARK,
    ("spark.md", "frame ="): _SPARK,
    ("../README.md", "make serve"): "as in index.md",
    ("../README.md", "make cluster"): "as in cluster.md",
}
PAGES = ["../README.md", *(page.name for page in sorted((ROOT / "docs").glob("*.md")))]
_BLOCK = re.compile(r"^(<!-- run.*? -->\n)?```(\w*)\n(.*?)^```", re.S | re.M)
_COMMAND = re.compile(r"\s*(make|shoal|psql|pip|docker|curl|export|python|install) \S")
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
    pages = {str(path.relative_to(ROOT / "docs").with_suffix("")) for path in (ROOT / "docs").rglob("*.md")}
    made = {str(path.relative_to(tmp_path / "site").with_suffix("")) for path in (tmp_path / "site").rglob("*.html")}
    assert made == {*pages, "404"}
    for page in (tmp_path / "site").rglob("*.html"):
        loaded = _LOADED.findall(page.read_text())
        assert not loaded, f"{page.name} loads {loaded}"


def test_what_is_wrong_with_the_site_ends_the_build(copy: pathlib.Path, tmp_path: pathlib.Path) -> None:
    (copy / "docs" / "outside.md").write_text("# Outside\n")
    (copy / "docs" / "index.md").write_text("# Start\n\n[no page](gone.md) [no heading](sql.md#nowhere)\n")
    status, told = build(copy, tmp_path / "site")
    assert status != 0 and all(named in told for named in ("outside.md", "gone.md", "#nowhere")), told


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda page: page.stem)
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


@pytest.mark.parametrize("page", PAGES)
def test_what_shows_commands_is_run_or_says_why_not(page: str) -> None:
    left = {first for of, first in NOT_RUN if of == page}
    for run, language, text in _BLOCK.findall((ROOT / "docs" / page).read_text(encoding="utf-8")):
        first = text.partition("\n")[0]
        if run or first == "examples:" or (language in ("", "json") and not _COMMAND.match(text)):
            continue
        known = [start for start in left if first.startswith(start)]
        assert known, f"{first} is not run, and nobody says why"
        left.difference_update(known)
    assert not left, "is there no more"


def test_the_examples_of_the_commands_are_taken_by_the_parser() -> None:
    examples = [
        line.strip()
        for block in re.findall(r"```\nexamples:\n(.*?)```", (ROOT / "docs" / "cli.md").read_text(), re.S)
        for line in block.replace("\\\n", "").splitlines()
        if re.match(r"  (SHOAL_\w+=\S+ )*shoal ", line)
    ]
    assert len(examples) > 40
    for line in examples:
        words = shlex.split(re.split(r" {3,}", line)[0].replace(" ... ", " --data d "))
        words = list(itertools.takewhile(lambda word: word not in ("|", ">"), words))
        parser().parse_args(words[words.index("shoal") + 1 :])


@pytest.fixture(scope="module")
def pages() -> Iterator[Pages]:
    keeper = Pages()
    yield keeper
    keeper.close()


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)])
def test_what_a_page_says_to_paste_runs_as_it_stands(page: str, pages: Pages) -> None:
    status, told = pages.run(page)
    assert status == 0, told
    assert all(text in told for text in SAID.get(page, ())), told


def test_a_command_that_fails_is_told(pages: Pages) -> None:
    status, told = pages.run("../tests/docs/failing.md")
    assert status == 1 and 'relation "nothing" does not exist' in told, told
