"""The named anomalies as scripts of two or three sessions (after Kleppmann's Hermitage), each at every level.

A script is run as PostgreSQL's isolation tester would (tests/conformance/isolation.py): what each step gave, and which
had to wait. `seen` tells from that whether the anomaly has shown itself.

    name       sessions, steps in their order      table t: (1, 10), (2, 20)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.conformance.isolation import difference, run_permutation
from tests.conformance.spec import parse
from tests.torture.isolation.checker import Level

Outcome = Mapping[str, list[Any]]  # step -> what it gave (tests/conformance/exchange.py)


@dataclass(frozen=True, slots=True)
class Scenario:
    """`script`: a line a step, its session's number and SQL. Every session begins by itself and ends by COMMIT."""

    name: str
    prevented_from: Level  # on
    script: str
    seen: Callable[[Outcome], bool]


def _rows(outcome: Outcome, step: int) -> list[list[str]]:
    results = outcome.get(f"s{step}", [])
    return results[0][2] if results and results[0][0] == "rows" else []


def _values(outcome: Outcome, step: int) -> set[str]:
    return {row[1] for row in _rows(outcome, step)}


def _committed(outcome: Outcome, *steps: int) -> bool:
    return all(outcome.get(f"s{step}") == [["done", "COMMIT"]] for step in steps)


def _one(number: int) -> str:
    return f"SELECT * FROM t WHERE id = {number}"


def _set(number: int, value: int) -> str:
    return f"UPDATE t SET v = {value} WHERE id = {number}"


_ALL, _THREES = "SELECT * FROM t ORDER BY id", "SELECT * FROM t WHERE v % 3 = 0 ORDER BY id"
_RC, _RR, _SER = Level.READ_COMMITTED, Level.REPEATABLE_READ, Level.SERIALIZABLE

SCENARIOS = (
    Scenario(
        "G0",
        _RC,
        f"1 {_set(1, 11)}\n2 {_set(1, 12)}\n1 {_set(2, 21)}\n1 COMMIT\n2 {_set(2, 22)}\n2 COMMIT\n1 {_ALL}",
        lambda o: _values(o, 7) in ({"11", "22"}, {"12", "21"}),
    ),
    Scenario(
        "G1a", _RC, f"1 {_set(1, 101)}\n2 {_ALL}\n1 ROLLBACK\n2 {_ALL}\n2 COMMIT", lambda o: "101" in _values(o, 2)
    ),
    Scenario(
        "G1b",
        _RC,
        f"1 {_set(1, 101)}\n2 {_ALL}\n1 {_set(1, 11)}\n1 COMMIT\n2 {_ALL}\n2 COMMIT",
        lambda o: "101" in _values(o, 2) | _values(o, 5),
    ),
    Scenario(
        "G1c",
        _RC,
        f"1 {_set(1, 11)}\n2 {_set(2, 22)}\n1 {_one(2)}\n2 {_one(1)}\n1 COMMIT\n2 COMMIT",
        lambda o: "22" in _values(o, 3) or "11" in _values(o, 4),
    ),
    Scenario(
        "OTV",
        _RC,
        f"1 {_set(1, 11)}\n1 {_set(2, 19)}\n2 {_set(1, 12)}\n1 COMMIT\n3 {_one(1)}\n2 {_set(2, 18)}\n3 {_one(2)}\n"
        f"2 COMMIT\n3 {_one(2)}\n3 {_one(1)}\n3 COMMIT",
        lambda o: _values(o, 9) == {"18"} and _values(o, 10) != {"12"},
    ),
    Scenario(
        "PMP",
        _RR,
        f"1 SELECT * FROM t WHERE v = 30\n2 INSERT INTO t VALUES (3, 30)\n2 COMMIT\n1 {_THREES}\n1 COMMIT",
        lambda o: "30" in _values(o, 4),
    ),
    Scenario(
        "P4",
        _RR,
        f"1 {_one(1)}\n2 {_one(1)}\n1 {_set(1, 11)}\n2 {_set(1, 11)}\n1 COMMIT\n2 COMMIT",
        lambda o: _committed(o, 5, 6),
    ),
    Scenario(
        "G-single",
        _RR,
        f"1 {_one(1)}\n2 {_ALL}\n2 {_set(1, 12)}\n2 {_set(2, 18)}\n2 COMMIT\n1 {_one(2)}\n1 COMMIT",
        lambda o: "18" in _values(o, 6),
    ),
    Scenario(
        "G2-item",
        _SER,
        f"1 {_ALL}\n2 {_ALL}\n1 {_set(1, 11)}\n2 {_set(2, 21)}\n1 COMMIT\n2 COMMIT",
        lambda o: _committed(o, 5, 6),
    ),
    Scenario(
        "G2",
        _SER,
        f"1 {_THREES}\n2 {_THREES}\n1 INSERT INTO t VALUES (3, 30)\n2 INSERT INTO t VALUES (4, 42)\n1 COMMIT\n2 COMMIT",
        lambda o: _committed(o, 5, 6),
    ),
)


def transcript(dsn: str, scenario: Scenario, level: Level) -> list[Any]:
    """What the steps of the scenario gave, and which waited."""
    steps = [line.split(" ", 1) for line in scenario.script.splitlines()]
    sessions = ""
    for session in sorted({number for number, _ in steps}):
        sessions += f"session n{session}\nsetup {{ BEGIN ISOLATION LEVEL {level.value}; }}\n"
        sessions += "".join(
            f"step s{place} {{ {sql}; }}\n" for place, (number, sql) in enumerate(steps, 1) if number == session
        )
    order = " ".join(f"s{place}" for place in range(1, len(steps) + 1))
    spec = parse(
        "setup { DROP TABLE IF EXISTS t; CREATE TABLE t (id int PRIMARY KEY, v int); "
        f"INSERT INTO t VALUES (1, 10), (2, 20); }}\nteardown {{ DROP TABLE t; }}\n{sessions}permutation {order}\n"
    )
    return run_permutation(dsn, spec, spec.permutations[0])


def outcome(found: list[Any]) -> Outcome:
    return {entry[1]: entry[3] for entry in found if entry[0] == "step"}


def compare(postgres: str, shoal: str, scenario: Scenario, level: Level, lie: Level | None = None) -> tuple[bool, str]:
    """Whether the anomaly has shown itself on Shoal; and how Shoal differs from PostgreSQL, or from what the level
    promises, '' if it does not. `lie`: the level that Shoal is asked for in its place, a planted fault."""
    wanted, got = transcript(postgres, scenario, level), transcript(shoal, scenario, lie or level)
    problem = difference(wanted, got)
    seen = scenario.seen(outcome(got))
    levels = list(Level)
    if not problem and seen == (levels.index(level) >= levels.index(scenario.prevented_from)):
        problem = "seen, though the level prevents it" if seen else "not seen, though the level lets it through"
    return seen, f"{scenario.name} at {level.value}: {problem}" if problem else ""
