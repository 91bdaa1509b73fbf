"""Writes docs/decisions/index.md: the records of decisions by part of the system, from the records themselves.

.venv/bin/python -m tools.write_decisions_index

A record is a file NNN-short-title.md of docs/decisions. It begins with its title and three lines, in this order:

    # The decision in one sentence
    - Date: 2026-11-20
    - Status: accepted
    - Part: The columnar path

A status is `accepted` or `superseded by [NNN](NNN-short-title.md)`, with what it concerns behind it where that is not
all of the decision. A part is one of PARTS.
"""

from __future__ import annotations

import pathlib
import re
from dataclasses import dataclass

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "docs" / "decisions"
PARTS = (
    "SQL text and analysis",
    "Types, functions and collations",
    "Plans and the row path",
    "The columnar path",
    "Transactions and locks",
    "Changelog and storage",
    "Cluster",
    "Bulk work",
    "Sharing the processors",
    "Time travel, branches, backups, change streams",
    "Spark and the data pipeline",
    "Tests and tools",
)
_INTRODUCTION = """\
# Decisions

Each record has one decision: the problem, what is done and in which files, what was measured, and what follows from it.
A later decision does not change an old record; it supersedes it. Figures are of one 2-core machine that was shared with
other work: trust the ratios, not the absolute values.

A new record takes the next number. `python -m tools.write_decisions_index` writes this page.
"""
_HEAD = re.compile(
    r"# (?P<title>.+)\n\n"
    r"- Date: (?P<date>\d{4}-\d\d-\d\d)(?: \(.+\))?\n"
    r"- Status: (?P<status>.+)\n"
    r"- Part: (?P<part>.+)\n\n"
)


@dataclass(frozen=True)
class Decision:
    """What a record says of itself in its first lines."""

    file: str
    title: str
    date: str
    status: str
    part: str

    @property
    def number(self) -> str:
        return self.file[:3]


def decisions(folder: pathlib.Path = FOLDER) -> list[Decision]:
    """All records by number. Raises ValueError for a record whose first lines are not as they should be."""
    return [_decision(path) for path in sorted(folder.glob("*.md")) if path.name != "index.md"]


def _decision(path: pathlib.Path) -> Decision:
    head = _HEAD.match(path.read_text(encoding="utf-8"))
    if head is None or not re.match(r"\d{3}-", path.name):
        raise ValueError(f"{path.name}: the number, the title, Date, Status or Part is missing or malformed")
    if head["part"] not in PARTS:
        raise ValueError(f"{path.name}: {head['part']} is not in PARTS")
    return Decision(path.name, head["title"], head["date"], head["status"], head["part"])


def page(folder: pathlib.Path = FOLDER) -> str:
    """The index as it should be."""
    known = decisions(folder)
    lines = [_INTRODUCTION]
    for part in PARTS:
        rows = [
            f"| [{of.number}]({of.file}) | {of.title} | {of.date} | {of.status} |" for of in known if of.part == part
        ]
        if rows:
            lines += [f"## {part}", "", "| | decision | date | status |", "|---|---|---|---|", *rows, ""]
    return "\n".join(lines).rstrip("\n") + "\n"


if __name__ == "__main__":
    (FOLDER / "index.md").write_text(page(), encoding="utf-8")
