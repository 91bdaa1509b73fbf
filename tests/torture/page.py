"""docs/guarantees.md: the table of promises, how each is tried, and the figures of the last run.

Figures that a run did not make stay as they were, with their day: they are read back from the page itself.
"""

from __future__ import annotations

import pathlib
import re
from collections.abc import Mapping, Sequence

from tests.torture.trial import Result, Trial

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "guarantees.md"
BEGIN, END = "<!-- figures: make torture -->", "<!-- end of figures -->"
_HEAD = "| promise | how it is tried | figures | day |\n|---|---|---|---|"
_ROW = re.compile(r"^\| <a id=\"(?P<name>[\w-]+)\"></a>.*\| (?P<figures>[^|]*) \| (?P<day>[^|]*) \|$", re.MULTILINE)


def _figures(result: Result) -> str:
    parts = [*result.figures]
    if result.caught:
        names = ", ".join(name if caught else f"**NOT NOTICED: {name}**" for name, caught in result.caught.items())
        parts.append(f"planted faults: {sum(result.caught.values())} of {len(result.caught)} caught ({names})")
    parts += [f"**WRONG**: {problem.replace('|', '/')[:200]}" for problem in result.problems[:3]]
    return "; ".join(parts).replace("\n", " ")


def table(trials: Sequence[Trial], results: Mapping[str, Result], day: str, before: str = "") -> str:
    """The table in Markdown. `before`: an earlier page, for what was not tried now."""
    known = {found["name"]: (found["figures"], found["day"]) for found in _ROW.finditer(before)}
    lines = [_HEAD]
    for trial in trials:
        figures, when = known.get(trial.name, ("not yet", ""))
        if trial.name in results:
            figures, when = _figures(results[trial.name]), day
        lines.append(f'| <a id="{trial.name}"></a>{trial.promise} | {trial.how} | {figures} | {when} |')
    return "\n".join(lines)


def write(trials: Sequence[Trial], results: Mapping[str, Result], day: str, seed: int) -> None:
    """Puts the figures between the marks of the page."""
    text = PAGE.read_text()
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    made = table(trials, results, day, text)
    PAGE.write_text(f"{head}{BEGIN}\nSeed of the last run: {seed}.\n\n{made}\n{END}{tail}")
