"""Writes the record again, or prints what statements become: `python -m tests.golden --help`."""

from __future__ import annotations

import argparse
import difflib
import pathlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator

from tests.golden.record import Made, record
from tests.golden.sources import sources

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[1]
PLANS = HERE / "plans"
IN_FULL = ("differential-01", "differential-02", "differential-found", "slt-changes", "slt-queries")
"""Sources whose generated texts are kept whole; of the others there is a hash of each, and `--show` prints them."""


def text_of(name: str, made: list[Made]) -> str:
    """The file of a source."""
    return "\n\n".join(each.full() if name in IN_FULL else each.brief() for each in made) + "\n"


def write(directory: pathlib.Path) -> None:
    """All files anew."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    for name, statements in sources():
        (directory / f"{name}.txt").write_text(text_of(name, record(statements)))


def matching(text: str) -> Iterator[str]:
    """All that statements become in which the text is, whatever the spaces."""
    wanted = " ".join(text.split())
    for name, statements in sources():
        if any(wanted in " ".join(sql.split()) for sql in statements):
            for made in record(statements):
                if wanted in " ".join(made.sql.split()):
                    yield f"-- {name}\n{made.full()}\n"


def at_commit(text: str, commit: str) -> str:
    """`matching` of another commit's code, over today's statements."""
    with tempfile.TemporaryDirectory() as directory:
        place = pathlib.Path(directory) / "commit"
        subprocess.run(["git", "-C", ROOT, "worktree", "add", "-q", "--detach", place, commit], check=True)
        try:
            for path in ("tests", "sqllogictest", "docs"):
                shutil.rmtree(place / path)
                shutil.copytree(ROOT / path, place / path)
            command = [sys.executable, "-m", "tests.golden", "--show", text]
            return subprocess.run(command, cwd=place, check=True, stdout=subprocess.PIPE, text=True).stdout
        finally:
            subprocess.run(["git", "-C", ROOT, "worktree", "remove", "--force", place], check=True)


def main() -> int:
    """1 where `--show` finds nothing, or a difference."""
    parser = argparse.ArgumentParser(prog="python -m tests.golden")
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--write", action="store_true", help="record again what the planner makes of every statement")
    action.add_argument("--show", metavar="TEXT", help="what statements in which this text is become, in full")
    parser.add_argument("--at", metavar="COMMIT", help="how that differs from what they become at a commit")
    parser.add_argument("--to", type=pathlib.Path, default=PLANS, help="where --write puts it (default %(default)s)")
    options = parser.parse_args()
    if options.write:
        write(options.to)
        return 0
    found = "\n".join(matching(options.show))
    if options.at is None:
        print(found, end="")
        return 0 if found else 1
    before = at_commit(options.show, options.at)
    lines = difflib.unified_diff(before.splitlines(), found.splitlines(), options.at, "here", n=1000, lineterm="")
    print("\n".join(lines) if before != found else found)
    return 1 if before != found else 0


if __name__ == "__main__":
    sys.exit(main())
