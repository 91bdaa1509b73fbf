"""The command line: `python -m tests.conformance [SUITE...]`."""

from __future__ import annotations

import argparse
import contextlib
import json
import pathlib
import sys
import time

from tests.conformance import drivers, report
from tests.conformance.isolation import Isolation
from tests.conformance.logic import LogicTest
from tests.conformance.regress import Regress
from tests.conformance.suite import Outcome, Progress, Records, Suite, Target, cache
from tests.oracle import PostgresServer
from tests.server import ROOT, ShoalServer

SUITES: tuple[Suite, ...] = (LogicTest(), Regress(), Isolation(), *drivers.SUITES)


def main() -> int:
    """1 if a share is below its floor, 2 if there is nothing to run."""
    names = [suite.name for suite in SUITES]
    parser = argparse.ArgumentParser(
        prog="python -m tests.conformance", description="Runs suites that others wrote on PostgreSQL and on Shoal."
    )
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"{', '.join(names)} (default: all)")
    parser.add_argument("--seconds", type=float, help="a limit for each suite, in place of its own")
    parser.add_argument("--again", action="store_true", help="run PostgreSQL too where its records are kept")
    parser.add_argument("--causes", type=int, default=12, help="how many causes of failures to print (default 12)")
    parser.add_argument("--json", type=pathlib.Path, help="default build/conformance/conformance.json")
    parser.add_argument("--page", type=pathlib.Path, default=ROOT / "docs" / "conformance.md", help="the page to write")
    options = parser.parse_args()
    unknown = [name for name in options.suites if name not in names]
    if unknown:
        parser.error(f"no suite is called {unknown[0]}: there are {', '.join(names)}")
    file = options.json or cache() / "conformance.json"
    outcomes = report.load(file)
    ran: list[Outcome] = []
    for suite in SUITES:
        if options.suites and suite.name not in options.suites:
            continue
        if reason := suite.missing():
            print(f"{suite.name}: left out: {reason}", file=sys.stderr)
            continue
        outcome = run(suite, options.seconds or suite.seconds, options.again)
        ran.append(outcome)
        outcomes[suite.name] = outcome
        for cause, count in report.causes(outcome, options.causes):
            print(f"  {count:6} {cause}")
        report.save(file, outcomes)
        kept = [outcomes[name] for name in names if name in outcomes]
        options.page.write_text(report.markdown(kept))
    print(report.table(ran))
    return 2 if not ran else int(any(outcome.share < outcome.floor for outcome in ran))


def run(suite: Suite, seconds: float, again: bool) -> Outcome:
    """The suite on PostgreSQL, unless its records are kept, and on Shoal."""
    wanted = _kept(suite, seconds, again)
    began = time.monotonic()
    with ShoalServer() as shoal:
        got = suite.run(Target("shoal", shoal.port), Progress(f"{suite.name} on Shoal", seconds))
    return suite.outcome(wanted, got, time.monotonic() - began)


def _kept(suite: Suite, seconds: float, again: bool) -> Records:
    place = cache() / f"postgres-{suite.name}-{suite.fingerprint()}.json"
    if place.exists() and not again:
        found: Records = json.loads(place.read_text())
        return found
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(PostgresServer())
        progress = Progress(f"{suite.name} on PostgreSQL", seconds)
        records = suite.run(Target("postgres", server.port), progress)
    if progress.left > 0:  # else they are not whole
        place.write_text(json.dumps(records))
    return records


if __name__ == "__main__":
    sys.exit(main())
