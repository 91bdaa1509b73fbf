"""The table that a run prints, and the JSON file beside it."""

from __future__ import annotations

import json
import os
import pathlib
import statistics
import subprocess
import time
from dataclasses import dataclass, field

from bench.measures import Measure, Result

RESULTS = pathlib.Path(__file__).resolve().parent / "results"
HEADER = f"{'measure':<34}{'Shoal':>12}{'PostgreSQL':>12}{'ratio':>8}{'floor':>9}  verdict"


@dataclass(slots=True)
class Line:
    """One measure's rounds for both servers."""

    measure: Measure
    shoal: list[Result] = field(default_factory=list)
    postgres: list[Result] = field(default_factory=list)

    @property
    def troubles(self) -> list[str]:
        """Errors of all rounds, each once."""
        found = [f"Shoal: {text}" for result in self.shoal for text in result.troubles]
        found += [f"PostgreSQL: {text}" for result in self.postgres for text in result.troubles]
        return list(dict.fromkeys(found))

    def medians(self) -> tuple[float, float | None]:
        """Shoal's and PostgreSQL's figure."""
        theirs = statistics.median(result.value for result in self.postgres) if self.postgres else None
        return statistics.median(result.value for result in self.shoal), theirs

    def ratio(self) -> float | None:
        """How many times PostgreSQL's speed Shoal has: of the medians. None where only Shoal's figure is bounded."""
        ours, theirs = self.medians()
        if self.measure.kind in ("extra", "size") or not theirs or not ours:
            return None
        return ours / theirs if self.measure.kind == "rate" else theirs / ours

    def holds(self) -> bool:
        """Whether Shoal is at the floor or better, without an error."""
        if any(result.troubles for result in self.shoal):
            return False
        if not self.measure.floor:
            return True
        if self.measure.kind in ("extra", "size"):
            return self.medians()[0] <= self.measure.floor
        ratio = self.ratio()
        return ratio is not None and ratio >= self.measure.floor

    def text(self) -> str:
        """The table's line; troubles follow on lines of their own."""
        ours, theirs = self.medians()
        kind, floor = self.measure.kind, self.measure.floor
        ratio = self.ratio()
        bound = f"{floor:.3g}" if ratio is not None or kind in ("rate", "time") else f"<= {floor:g}"
        verdict = ("ok" if self.holds() else "below") if floor else ""
        line = f"{self.measure.name:<34}{shown(ours, kind):>12}"
        line += f"{shown(theirs, kind) if theirs is not None else '':>12}"
        line += f"{f'{ratio:.2f}' if ratio is not None else '':>8}{bound if floor else '':>9}  {verdict}"
        return "\n".join([line, *(f"    {text}" for text in self.troubles)])


def shown(value: float, kind: str) -> str:
    """A figure with its unit."""
    if kind == "rate":
        return f"{value:,.0f} tps"
    if kind == "time":
        return f"{value:.3f} s"
    return f"{value:.1f} ms" if kind == "extra" else f"{value:.0f} MB"


def machine() -> dict[str, object]:
    """What the figures depend on."""
    version = subprocess.run(["pgbench", "--version"], capture_output=True, text=True, check=False).stdout.strip()
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return {"cores": os.cpu_count(), "load": os.getloadavg()[0], "pgbench": version, "commit": commit.stdout.strip()}


def write_json(lines: list[Line], options: dict[str, object]) -> pathlib.Path:
    """Every round of every measure, in bench/results/<time>.json."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / time.strftime("%Y%m%d-%H%M%S.json")
    measures = [
        {
            "name": line.measure.name,
            "kind": line.measure.kind,
            "floor": line.measure.floor,
            "shoal": [result.value for result in line.shoal],
            "postgres": [result.value for result in line.postgres],
            "ratio": line.ratio(),
            "holds": line.holds(),
            "troubles": line.troubles,
        }
        for line in lines
    ]
    path.write_text(json.dumps({"machine": machine(), "options": options, "measures": measures}, indent=1) + "\n")
    return path
