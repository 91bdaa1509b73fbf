"""The command line: `python -m tests.conformance [SUITE...]`."""

from __future__ import annotations

import argparse
import contextlib
import json
import pathlib
import subprocess
import sys
import time

from tests.conformance import drivers, report
from tests.conformance.beside import AT_ONCE, run_beside, write_outcome
from tests.conformance.isolation import Isolation
from tests.conformance.logic import LogicTest
from tests.conformance.regress import Regress
from tests.conformance.suite import Outcome, Progress, Records, Suite, Target, cache
from tests.oracle import PostgresServer
from tests.server import ROOT, ShoalServer

SUITES: tuple[Suite, ...] = (LogicTest(), Regress(), Isolation(), *drivers.SUITES)
EXAMPLES = """examples:
  python -m tests.conformance                        all suites, two beside each other: about half an hour
  python -m tests.conformance regress asyncpg        these two
  python -m tests.conformance isolation --causes 40  more of what failed
"""


def main() -> int:
    """1 if a share is below its floor or a suite broke off, 2 if there is nothing to run."""
    options = _options()
    chosen = [suite for suite in SUITES if not options.suites or suite.name in options.suites]
    if options.outcome is not None:
        suite = chosen[0]
        seconds = options.seconds or suite.seconds
        return write_outcome(suite, lambda: run(suite, seconds, options.again), options.outcome)
    ready = [suite for suite in chosen if _is_there(suite)]
    ran: list[Outcome] = []
    began = time.monotonic()
    for outcome in run_beside(ready, options.beside, lambda suite: _most(suite, options), _passed_on(options)):
        ran.append(outcome)
        print(f"{outcome.name}: {report.in_words(outcome)} ({time.monotonic() - began:.0f} s since the start)")
        for cause, count in report.causes(outcome, options.causes):
            print(f"  {count:6} {cause}")
        sys.stdout.flush()
        _write(outcome, options.json or cache() / "conformance.json", options.page)
    print(report.table([outcome for suite in SUITES for outcome in ran if outcome.name == suite.name]))
    return 2 if not ran else int(any(outcome.share < outcome.floor for outcome in ran))


def _options() -> argparse.Namespace:
    names = [suite.name for suite in SUITES]
    parser = argparse.ArgumentParser(
        prog="python -m tests.conformance",
        description="Runs suites that others wrote on PostgreSQL and on Shoal.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"{', '.join(names)} (default: all)")
    parser.add_argument("--beside", type=int, default=AT_ONCE, help=f"how many at the same time (default {AT_ONCE})")
    parser.add_argument("--seconds", type=float, help="a limit for each suite, in place of its own")
    parser.add_argument("--again", action="store_true", help="run PostgreSQL too where its records are kept")
    parser.add_argument("--causes", type=int, default=12, help="how many causes of failures to print (default 12)")
    parser.add_argument("--json", type=pathlib.Path, help="default build/conformance/conformance.json")
    parser.add_argument("--page", type=pathlib.Path, default=ROOT / "docs" / "conformance.md", help="the page to write")
    parser.add_argument("--outcome", type=pathlib.Path, help=argparse.SUPPRESS)  # one suite, in this process
    options = parser.parse_args()
    unknown = [name for name in options.suites if name not in names]
    if unknown:
        parser.error(f"no suite is called {unknown[0]}: there are {', '.join(names)}")
    if options.beside < 1:
        parser.error("--beside is the number of suites that run at the same time: 1 or more")
    return options


def _passed_on(options: argparse.Namespace) -> list[str]:
    """What the process of a suite is told."""
    return [*(["--seconds", str(options.seconds)] if options.seconds else []), *(["--again"] if options.again else [])]


def _is_there(suite: Suite) -> bool:
    """Whether it can run; else says why not. What it needs is fetched now, not by several suites at once."""
    reason = suite.missing()
    if not reason:
        try:
            suite.fetch()
        except (OSError, subprocess.SubprocessError) as error:
            reason = f"cannot get it from PyPI: {error}"
    if reason:
        print(f"{suite.name}: left out: {reason}", file=sys.stderr)
    return not reason


def _most(suite: Suite, options: argparse.Namespace) -> float:
    """The seconds that it may take, with those on PostgreSQL where its records are not kept."""
    seconds: float = options.seconds or suite.seconds
    return seconds if _place(suite).exists() and not options.again else 2 * seconds


def _write(outcome: Outcome, file: pathlib.Path, page: pathlib.Path) -> None:
    """The outcome beside those that are kept of the other suites, and the page of them all."""
    outcomes = report.load(file)
    outcomes[outcome.name] = outcome
    report.save(file, outcomes)
    page.write_text(report.markdown([outcomes[suite.name] for suite in SUITES if suite.name in outcomes]))


def run(suite: Suite, seconds: float, again: bool) -> Outcome:
    """The suite on PostgreSQL, unless its records are kept, and on Shoal."""
    wanted = _kept(suite, seconds, again)
    began = time.monotonic()
    with ShoalServer() as shoal:
        got = suite.run(Target("shoal", shoal.port), Progress(f"{suite.name} on Shoal", seconds))
    return suite.outcome(wanted, got, time.monotonic() - began)


def _place(suite: Suite) -> pathlib.Path:
    """Where PostgreSQL's records are kept."""
    return cache() / f"postgres-{suite.name}-{suite.fingerprint()}.json"


def _kept(suite: Suite, seconds: float, again: bool) -> Records:
    place = _place(suite)
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
    try:
        sys.exit(main())
    except KeyboardInterrupt:  # the suites and their servers have been stopped on the way here
        sys.exit(130)
