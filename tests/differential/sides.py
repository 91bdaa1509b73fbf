"""The three sides of a comparison, and runs over many seeds."""

from __future__ import annotations

import itertools
import time
from typing import TypeAlias

import psycopg

from tests.differential.compare import COLUMNAR, Side, Tally, prepare, run_scenario, runner
from tests.differential.partition import in_schema

Connection: TypeAlias = "psycopg.Connection[tuple[object, ...]]"
_SCHEMA = "differential"


def open_sides(postgres: Connection, row: Connection, columnar: Connection) -> tuple[Side, list[Side]]:
    """PostgreSQL, and Shoal's two paths, each in an empty schema of its own."""
    common = ("SET TimeZone TO 'Europe/Berlin'",)
    oracle = Side("PostgreSQL", runner(postgres))
    prepare(oracle.run, _SCHEMA, common)
    first, second = Side("row path", runner(row)), Side(COLUMNAR, runner(columnar))
    prepare(first.run, f"{_SCHEMA}_row", common)
    prepare(second.run, f"{_SCHEMA}_columnar", (*common, "SET shoal.path TO columnar"))
    return oracle, [first, second]


def partition_sides(row: Connection, columnar: Connection) -> list[Side]:
    """Shoal's two paths, each by itself in an empty schema of its own."""
    return [
        in_schema(Side("row path", runner(row)), "partitions_row"),
        in_schema(Side(COLUMNAR, runner(columnar)), "partitions_columnar", "SET shoal.path TO columnar"),
    ]


def run_seeds(first: int, seconds: float, postgres: Connection, row: Connection, columnar: Connection) -> Tally:
    """Scenarios from a first seed on until the time is over, one at least."""
    total = Tally()
    end = time.monotonic() + seconds
    for seed in itertools.count(first):
        total.add(run_scenario(seed, *open_sides(postgres, row, columnar)))
        if time.monotonic() > end:
            return total
    raise AssertionError("unreachable")
