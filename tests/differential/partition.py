"""Oracles that need no second database (Rigger and Su: Ternary Logic Partitioning, Non-optimizing Reference Engine).

    TLP      what a query gives is what it gives WHERE p, WHERE NOT p and WHERE p IS NULL together; count, sum, min and
             max of the whole come from those of the three
    NoREC    as many rows fulfil p in WHERE, where plans make use of it, as by CASE WHEN p in the select list

Tables, sources and conditions are those of generate.py. Data exceptions (class 22) and what is refused are passed over.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.differential.compare import REFUSED, Outcome, Side, comparable, prepare
from tests.differential.generate import Scenario

SUBJECTS = 12  # of a scenario
PASSED_OVER = ("22", REFUSED, "54")


@dataclass(slots=True)
class Found:
    """`queries`: how many were run; `checked`: how many comparisons they gave."""

    queries: int = 0
    checked: int = 0
    failures: list[str] = field(default_factory=list)


class _Passed(Exception):  # noqa: N818 - named for what becomes of it
    """A statement that says nothing."""


class _Partitions:
    def __init__(self, seed: int, side: Side, found: Found) -> None:
        self.seed = seed
        self.side = side
        self.found = found
        self.scenario = Scenario(seed)

    def run(self) -> None:
        for sql in self.scenario.setup():
            assert not self.side.run(sql).sqlstate, f"seed {self.seed}: {sql}"
        for _ in range(SUBJECTS):
            source, columns, _ = self.scenario.source()
            condition = self.scenario.condition(columns)
            names = ", ".join(column.name for column in columns[:4])
            integer = next(column.name for column in columns if column.kind == "int4")
            for check in (self._rows, self._totals, self._reference):
                try:
                    check(source, condition, names if check == self._rows else integer)
                    self.found.checked += 1
                except _Passed:
                    pass

    def _ask(self, sql: str) -> Outcome:
        self.found.queries += 1
        got = self.side.run(sql)
        if got.sqlstate.startswith(PASSED_OVER):
            raise _Passed
        if got.sqlstate:
            self._fail(sql, f"{got.sqlstate} {got.message}")
            raise _Passed
        return got

    def _fail(self, sql: str, what: str) -> None:
        self.found.failures.append(f"seed {self.seed}, {self.side.name}: {sql}\n    {what}")

    @staticmethod
    def _three(condition: str) -> tuple[str, str, str]:
        return f"({condition})", f"NOT ({condition})", f"({condition}) IS NULL"

    def _rows(self, source: str, condition: str, names: str) -> None:
        whole = Counter(comparable(self._ask(f"SELECT {names} FROM {source}"), exact=True))
        parts: Counter[tuple[str | None, ...]] = Counter()
        for part in self._three(condition):
            parts += Counter(comparable(self._ask(f"SELECT {names} FROM {source} WHERE {part}"), exact=True))
        if parts != whole:
            self._fail(f"SELECT {names} FROM {source} WHERE {condition}", f"{parts.total()} rows, not {whole.total()}")

    def _totals(self, source: str, condition: str, integer: str) -> None:
        one = f"SELECT count(*), sum({integer}::numeric), min({integer}), max({integer}) FROM {source}"
        whole = self._ask(one).rows
        union = " UNION ALL ".join(f"{one} WHERE {part}" for part in self._three(condition))
        together = f"SELECT sum(a), sum(b), min(c), max(d) FROM ({union}) parts (a, b, c, d)"
        if (got := self._ask(together).rows) != whole:
            self._fail(together, f"{got}, not {whole}")

    def _reference(self, source: str, condition: str, _: str) -> None:
        filtered = self._ask(f"SELECT count(*) FROM {source} WHERE {condition}").rows
        counted = f"SELECT coalesce(sum(CASE WHEN {condition} THEN 1 ELSE 0 END), 0) FROM {source}"
        if (got := self._ask(counted).rows) != filtered:
            self._fail(counted, f"{got}, by WHERE {filtered}")


def run_partitions(first: int, seconds: float, sides: Callable[[], list[Side]]) -> Found:
    """Scenarios from a first seed on until the time is over, one at least; on each of the sides by itself."""
    found = Found()
    end = time.monotonic() + seconds
    for seed in itertools.count(first):
        for side in sides():
            _Partitions(seed, side, found).run()
        if time.monotonic() > end:
            break
    return found


def in_schema(side: Side, schema: str, *settings: str) -> Side:
    """The side, with an empty schema to work in."""
    prepare(side.run, schema, settings)
    return side
