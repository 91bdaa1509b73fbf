"""A run from the command line: `python -m tests.differential [--families | --plpgsql] [--seconds N | --seed N]`."""

from __future__ import annotations

import argparse
import contextlib
import sys
from functools import partial

import psycopg

from tests.differential.compare import Tally, run_scenario
from tests.differential.families import prepared, run_families, run_family
from tests.differential.plpgsql import run_programs
from tests.differential.sides import open_sides, run_seeds
from tests.oracle import PostgresServer
from tests.server import ShoalServer


def main() -> int:
    """1 if an answer differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.differential")
    parser.add_argument("--seconds", type=float, default=60, help="how long (default 60)")
    parser.add_argument("--first", type=int, default=1, help="the first seed (default 1)")
    parser.add_argument("--seed", type=int, help="one scenario, its statements printed")
    parser.add_argument("--shoal", help="libpq connection string of a running Shoal")
    parser.add_argument("--postgres", help="libpq connection string of a running PostgreSQL")
    parser.add_argument("--failures", type=int, default=40, help="how many failures to print (default 40)")
    parser.add_argument("--families", action="store_true", help="partitioned and inherited tables, two connections")
    parser.add_argument("--plpgsql", action="store_true", help="programs in PL/pgSQL")
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        shoal = options.shoal or stack.enter_context(ShoalServer()).dsn
        postgres = options.postgres or stack.enter_context(PostgresServer()).dsn
        connect = partial(psycopg.connect, autocommit=True)
        if options.families:
            theirs, ours = (
                (stack.enter_context(connect(dsn)), stack.enter_context(connect(dsn))) for dsn in (postgres, shoal)
            )
            if options.seed is not None:
                tally = run_family(options.seed, prepared(*theirs), prepared(*ours), report=print)
            else:
                tally = run_families(options.first, options.seconds, theirs, ours)
            _print(tally, options.failures)
            return 1 if tally.failures else 0
        if options.plpgsql:
            theirs, ours = stack.enter_context(connect(postgres)), stack.enter_context(connect(shoal))
            first, most = (options.first, 1_000_000) if options.seed is None else (options.seed, 1)
            tally = run_programs(first, options.seconds, theirs, ours, most)
            _print(tally, options.failures)
            return 1 if tally.failures else 0
        connections = [stack.enter_context(connect(dsn)) for dsn in (postgres, shoal, shoal)]
        if options.seed is not None:
            tally = run_scenario(options.seed, *open_sides(*connections), report=print)
        else:
            tally = run_seeds(options.first, options.seconds, *connections)
    _print(tally, options.failures)
    return 1 if tally.failures else 0


def _print(tally: Tally, most: int) -> None:
    for failure in tally.failures[:most]:
        print(failure)
    for message, count in tally.refused.most_common(20):
        print(f"refused {count}: {message}")
    print("errors of PostgreSQL:", ", ".join(f"{code} {count}" for code, count in tally.errors.most_common()))
    print(
        f"statements: {tally.statements} compared: {tally.compared} refused: {tally.refused.total()} "
        f"failed: {len(tally.failures)}"
    )


if __name__ == "__main__":
    sys.exit(main())
