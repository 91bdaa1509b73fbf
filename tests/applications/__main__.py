"""The command line: `python -m tests.applications [NAME...]`."""

from __future__ import annotations

import argparse
import contextlib
import pathlib
import sys
import tempfile
import time

from tests.applications import registry
from tests.applications.base import Application, Database, Failed, NotInstalled
from tests.oracle import PostgresServer
from tests.server import ShoalServer


def main() -> int:
    """1 if an application failed."""
    names = [application.name for application in registry.APPLICATIONS]
    parser = argparse.ArgumentParser(
        prog="python -m tests.applications", description="Installs applications and drives them against Shoal."
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(names)} (default: all)")
    parser.add_argument("--postgres", action="store_true", help="drive them against PostgreSQL, to check the programs")
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in names]
    if unknown:
        parser.error(f"no application is called {unknown[0]}: there are {', '.join(names)}")
    chosen = [each for each in registry.APPLICATIONS if not options.names or each.name in options.names]
    outcomes = [report(application, options.postgres) for application in chosen]
    failed = outcomes.count("failed")
    print(f"{outcomes.count('ok')} ok, {failed} failed, {outcomes.count('not run')} not run")
    return int(failed > 0)


def report(application: Application, on_postgres: bool) -> str:
    """Drives it and prints its line; ok, failed, or not run."""
    began = time.monotonic()
    outcome, reason = drive(application, on_postgres)
    seconds = time.monotonic() - began
    line = f"{application.name} {application.version}: {outcome} ({seconds:.0f} s)"
    print(line + (f": {reason}" if reason else ""), flush=True)
    return outcome


def drive(application: Application, on_postgres: bool) -> tuple[str, str]:
    """The outcome, and why it is not ok."""
    try:
        place = application.install()
        with contextlib.ExitStack() as stack:
            server = stack.enter_context(PostgresServer() if on_postgres else ShoalServer())
            directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="shoal-application-"))
            application.drive(place, Database(server.port), pathlib.Path(directory))
    except NotInstalled as error:
        return "not run", str(error)
    except Failed as error:
        return "failed", str(error)
    return "ok", ""


if __name__ == "__main__":
    sys.exit(main())
