"""The command line: `python -m sqllogictest --dsn DSN PATH...`."""

from __future__ import annotations

import argparse
import sys
import time

from sqllogictest.runner import Tally, run_file, scripts

EXAMPLES = """examples:
  python -m sqllogictest --dsn "host=127.0.0.1 user=postgres" sqllogictest/scripts
  python -m sqllogictest --dsn "host=127.0.0.1 user=postgres" corpus/select1.test
"""


def main() -> int:
    """Runs the scripts; 1 if a record failed, 2 if there is nothing to run."""
    parser = argparse.ArgumentParser(
        prog="python -m sqllogictest",
        description="Runs sqllogictest scripts against a server that speaks the PostgreSQL protocol.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--dsn", required=True, help="libpq connection string of the server")
    parser.add_argument("--failures", type=int, default=20, help="how many failures to print per file (default 20)")
    parser.add_argument("paths", nargs="+", metavar="PATH", help="script, or directory of *.test and *.slt scripts")
    options = parser.parse_args()
    try:
        files = scripts(options.paths)
    except FileNotFoundError as error:
        print(f"sqllogictest: {error}", file=sys.stderr)
        return 2
    total = Tally()
    for number, path in enumerate(files, 1):
        began = time.monotonic()
        tally = run_file(options.dsn, path)
        for line in tally.failures[: options.failures]:
            print(line)
        if len(tally.failures) > options.failures:
            print(f"... and {len(tally.failures) - options.failures} more")
        seconds = time.monotonic() - began
        print(f"[{number}/{len(files)}] {path}: {tally.passed} of {tally.records} in {seconds:.1f} s", file=sys.stderr)
        total.add(tally)
    print(f"records: {total.records} passed: {total.passed} failed: {total.failed} skipped: {total.skipped}")
    return 1 if total.failed else 0 if total.records else 2


if __name__ == "__main__":
    sys.exit(main())
