"""The table of a run: on the terminal, in docs/conformance.md, and as JSON with every failure's cause."""

from __future__ import annotations

import json
import math
import pathlib
import re
from collections import Counter
from typing import Any

from tests.conformance.suite import Outcome

HEAD = ("suite", "size", "PostgreSQL 15 passes", "Shoal passes", "share", "floor")
REFUSED = re.compile(r"([\w\"'`(), .\[\]/*:=+-]{1,90}? (?:is|are) not supported[\w ]*)")
# A driver's words before ours; pg8000 gives the fields of the error as they came.
RAISED = re.compile(r".*(?:(?:0A000|FeatureNotSupported(?:Error)?[):]*) |'M': ['\"])", re.DOTALL)
PREFACE = """# Conformance

Results of other projects' test suites on Shoal. Only tests that PostgreSQL 15 itself passes count. `make conformance`
writes this page (`python -m tests.conformance --help` for one suite). `build/conformance/conformance.json` has every
failure with its cause.

"""
NOTES = """
- sqllogictest: a record passes when its result is the expected one.
- regress: a statement passes when its column names, rows (in order if it has ORDER BY) and command tag, or its SQLSTATE
  and message, are PostgreSQL's. Statements with different answers in two runs of PostgreSQL are not counted. EXPLAIN is
  counted, although its plans differ.
- isolation: a permutation passes when every step has the result of PostgreSQL, and waits and ends at the same places.
- The drivers' suites run as their authors ship them, with the released driver.
- A suite that reached its time limit is compared as far as it got. A suite that failed before its end has no figures.
"""


def row(outcome: Outcome) -> tuple[str, ...]:
    """The cells of the table."""
    floor = f"{100 * outcome.floor:g} %"
    if outcome.broken:
        return (outcome.title, "", "", f"broke off: {outcome.broken}", "", floor)
    return (
        outcome.title,
        f"{outcome.size:,} {outcome.unit}",
        f"{outcome.postgres:,}",
        f"{outcome.shoal:,}",
        f"{math.floor(10_000 * outcome.share) / 100:.2f} %",  # 100 only where nothing failed
        floor,
    )


def in_words(outcome: Outcome) -> str:
    """One line: how much passes, or why it broke off."""
    if outcome.broken:
        return f"broke off: {outcome.broken}"
    size, whole = f"{outcome.shoal:,} of {outcome.postgres:,} {outcome.unit}", row(outcome)
    return f"{size}, {whole[4]} (floor {whole[5]}) in {outcome.seconds:.0f} s"


def table(outcomes: list[Outcome]) -> str:
    """For the terminal."""
    lines = [HEAD, *map(row, outcomes)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEAD))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)


def refused(outcomes: list[Outcome]) -> Counter[str]:
    """What was refused by name, and how often."""
    found: Counter[str] = Counter()
    for outcome in outcomes:
        for cause in outcome.failures.values():
            match = REFUSED.search(RAISED.sub("", cause))
            if match is not None:
                found[re.sub(r"(?<=[\"'])[^\"']{1,60}(?=[\"'])", "...", match[1].strip())] += 1
    return found


def causes(outcome: Outcome, most: int) -> list[tuple[str, int]]:
    """The most frequent causes of a suite's failures, names and numbers left out."""
    counter = Counter(re.sub(r"\"[^\"]*\"|'[^']*'|\d+", "…", cause)[:160] for cause in outcome.failures.values())
    return counter.most_common(most)


def markdown(outcomes: list[Outcome]) -> str:
    """docs/conformance.md."""
    lines = [HEAD, ("---",) * len(HEAD), *map(row, outcomes)]
    text = PREFACE + "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n" + NOTES
    names = refused(outcomes)
    if names:
        text += (
            "\n## Not supported\n\nFeatures that the suites use and Shoal refuses, with the number of failed tests.\n\n"
        )
        text += "| refused | tests |\n| --- | --- |\n"
        text += "".join(f"| {_cell(name)} | {count} |\n" for name, count in names.most_common())
    return text


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def load(path: pathlib.Path) -> dict[str, Outcome]:
    """The outcomes of earlier runs by suite; a run of some suites leaves the others' figures."""
    if not path.exists():
        return {}
    found: dict[str, Any] = json.loads(path.read_text())
    return {name: Outcome(**fields) for name, fields in found.items()}


def save(path: pathlib.Path, outcomes: dict[str, Outcome]) -> None:
    """Writes what `load` reads."""
    fields = {
        name: {field: getattr(outcome, field) for field in Outcome.__dataclass_fields__}
        for name, outcome in outcomes.items()
    }
    path.write_text(json.dumps(fields, indent=1))
