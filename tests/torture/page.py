"""docs/guarantees.md: the promises, the trial of each, and the figures of its last run.

    python -m tests.torture.page      writes the page again, with the figures that it has

A trial that did not run keeps its figures and their day: they are read back from the page itself.
"""

from __future__ import annotations

import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tests.torture.trial import Result, Trial

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "guarantees.md"
BEGIN, END = "<!-- figures: make torture -->", "<!-- end of figures -->"
_HEAD = "| promise | violations | planted faults caught | day |\n|---|---|---|---|"
_ANCHOR = re.compile(r"<a id=\"([\w-]+)\"></a>")
_DAY = re.compile(r"^Figures of (.*):$", re.MULTILINE)
_CAUGHT = re.compile(r"^planted faults: (\d+ of \d+) caught")
_SEED = re.compile(r"^Seed of the last run: (\d+)\.$", re.MULTILINE)


class Figures(NamedTuple):
    """The result of a trial as the page shows it."""

    lines: list[str]
    day: str


def _figures(result: Result, day: str) -> Figures:
    lines = [*result.figures]
    if result.caught:
        names = ", ".join(name if caught else f"**NOT NOTICED: {name}**" for name, caught in result.caught.items())
        lines.append(f"planted faults: {sum(result.caught.values())} of {len(result.caught)} caught ({names})")
    lines += [f"**WRONG**: {problem[:200]}" for problem in result.problems[:3]]
    return Figures([" ".join(line.split()) for line in lines], day)


def read(text: str) -> dict[str, Figures]:
    """The figures of a page by the name of the trial."""
    figures = text.partition(BEGIN)[2].partition(END)[0]
    name, *rest = _ANCHOR.split(figures)
    found = {}
    for name, section in zip(rest[::2], rest[1::2], strict=True):
        if day := _DAY.search(section):
            found[name] = Figures([line[2:] for line in section.splitlines() if line.startswith("- ")], day[1])
    return found


def _summary(trial: Trial, figures: Figures) -> str:
    caught = [found[1] for line in figures.lines if (found := _CAUGHT.match(line))]
    wrong = sum(line.startswith("**WRONG**") for line in figures.lines)
    return f"| [{trial.promise}](#{trial.name}) | {wrong or 'none'} | {', '.join(caught)} | {figures.day} |"


def _section(trial: Trial, figures: Figures | None) -> str:
    lines = [f'<a id="{trial.name}"></a>', "", f"### {trial.promise}", "", trial.how, ""]
    if figures is None:
        return "\n".join([*lines, "No figures yet."])
    return "\n".join([*lines, f"Figures of {figures.day}:", "", *(f"- {line}" for line in figures.lines)])


def table(trials: Sequence[Trial], results: Mapping[str, Result], day: str, before: str = "") -> str:
    """The summary and a section for each trial, in Markdown. `before`: an earlier page, for trials that did not run."""
    known = read(before) | {name: _figures(result, day) for name, result in results.items()}
    summary = [_HEAD, *(_summary(trial, known[trial.name]) for trial in trials if trial.name in known)]
    sections = [_section(trial, known.get(trial.name)) for trial in trials]
    return "\n\n".join(["\n".join(summary), *sections])


def write(trials: Sequence[Trial], results: Mapping[str, Result], day: str, seed: int | str) -> None:
    """Puts the figures between the marks of the page."""
    text = PAGE.read_text()
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    made = table(trials, results, day, text)
    PAGE.write_text(f"{head}{BEGIN}\nSeed of the last run: {seed}.\n\n{made}\n{END}{tail}")


if __name__ == "__main__":
    from tests.torture.all import TRIALS

    seed = _SEED.search(PAGE.read_text())
    write(TRIALS, {}, "", seed[1] if seed else "none")
