"""Faults that families.py must notice: a server that is told something else than the other."""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Callable
from dataclasses import dataclass

from tests.differential.compare import Outcome
from tests.differential.families import Connection, prepared, run_family

SEEDS = range(1, 60)


@dataclass(frozen=True, slots=True)
class Fault:
    """`pattern` in statements becomes `new`. `soon`: a seed whose family met it when this was written."""

    pattern: str
    new: str
    soon: int


FAULTS = {
    "cascades stay where they are": Fault(r"ON UPDATE CASCADE", "ON UPDATE NO ACTION", 7),
    "a view over ONLY is one over all": Fault(r"FROM ONLY par$", "FROM par", 1),
    "ATTACH does nothing": Fault(r"ATTACH PARTITION (loose\d).*", r"ADD CHECK (c IS NOT NULL OR '\1' = '')", 9),
    "nobody is waited for": Fault(r"^BEGIN; ", "BEGIN; COMMIT; ", 1),
    "children are left out": Fault(r"^(UPDATE|DELETE FROM) par\b", r"\1 ONLY par", 9),
    "a unique index is none": Fault(r"CREATE UNIQUE INDEX", "CREATE INDEX", 10),
}


def planted(run: Callable[[str], Outcome], fault: Fault) -> Callable[[str], Outcome]:
    return lambda sql: run(re.sub(fault.pattern, fault.new, sql))


def noticed(
    fault: Fault, theirs: tuple[Connection, Connection], ours: tuple[Connection, Connection], end: float = float("inf")
) -> bool | None:
    """Whether families tell a server with the fault from one without; None if the time `end` came before all of
    SEEDS were tried."""
    for seed in itertools.chain([fault.soon], SEEDS):
        first, second = prepared(*ours)
        faulty = planted(first, fault), planted(second, fault)
        if run_family(seed, prepared(*theirs), faulty, examine=False).failures:
            return True
        if time.monotonic() > end:
            return None
    return False
