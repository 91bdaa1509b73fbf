"""The suites of drivers and of SQLAlchemy: pytest in an environment of their own, a record for each test.

A record is [outcome, cause]. What is skipped on PostgreSQL counts for nothing; what is skipped on Shoal and passes on
PostgreSQL is a failure.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import time
from collections.abc import Callable

import psycopg

from tests.conformance import packages
from tests.conformance.suite import OneByOne, Progress, Record, Records, Target, cache

PLUGIN = pathlib.Path(__file__).parent / "plugin"
TEST_LIMIT = 60  # seconds a test
NAMES = 2  # how tests are named in the records: kept ones of another number are made again
LOOK = 1.0  # seconds between looks at how far it is


class PytestSuite(OneByOne):
    """`package`: of packages.VERSIONS. `paths`: what pytest is given, of the source package. `environment` and
    `arguments`: made from the target. `databases`, `statements`: what must be there, in `database`."""

    unit = "tests"

    def __init__(
        self,
        name: str,
        title: str,
        package: str,
        paths: tuple[str, ...],
        floor: float,
        seconds: float,
        environment: Callable[[Target], dict[str, str]] = lambda _: {},
        arguments: Callable[[Target], list[str]] = lambda _: [],
        database: str = "postgres",
        statements: tuple[str, ...] = (),
        only: tuple[str, ...] = (),
    ) -> None:
        self.name = name
        self.title = title
        self.floor = floor
        self.seconds = seconds
        self._package = package
        self._paths = paths
        self._environment = environment
        self._arguments = arguments
        self._database = database
        self._statements = statements
        self._only = only
        self._stopped = ""  # why pytest did not get as far as the first test

    def missing(self) -> str:
        return ""

    def fetch(self) -> None:
        packages.source(self._package)
        packages.python()

    def fingerprint(self) -> str:
        return f"{packages.VERSIONS[self._package]}-{NAMES}"

    def run(self, target: Target, progress: Progress) -> Records:
        self.cut = False
        self._prepare(target)
        place = self._tests()
        results = cache() / f"results-{self.name}-{target.name}"
        results.unlink(missing_ok=True)
        environment = os.environ | {
            "CONFORMANCE_RESULTS": str(results),
            "PYTHONPATH": str(PLUGIN),
            "PGHOST": "127.0.0.1",
            "PGPORT": str(target.port),
            "PGUSER": "postgres",
            "PGDATABASE": self._database,
            "PGTZ": "UTC",
            **self._environment(target),
        }
        command = [
            str(packages.python()), "-m", "pytest", "-q", "--tb=native", "--maxfail=1000000",
            "--rootdir=.", "-p", "conformance_plugin", "-p", "no:cacheprovider", f"--timeout={TEST_LIMIT}",
            *self._arguments(target), *self._paths,
        ]  # fmt: skip
        log = cache() / f"log-{self.name}-{target.name}"
        with log.open("w") as out:
            process = subprocess.Popen(command, cwd=place, env=environment, stdout=out, stderr=subprocess.STDOUT)
            while process.poll() is None:
                time.sleep(LOOK)
                done = results.read_bytes().count(b"\n") if results.exists() else 0
                progress.step(done, done + 1, "tests so far")
                if progress.left < 0:
                    process.kill()
                    process.wait()
                    self.cut = True
        if not results.exists():
            self._stopped = _brief(log.read_text())
            return {}
        return _read(results)

    def _prepare(self, target: Target) -> None:
        with psycopg.connect(target.dsn(), autocommit=True) as connection:
            if self._database != "postgres":
                connection.execute(f"CREATE DATABASE {self._database}".encode())
        with psycopg.connect(target.dsn(self._database), autocommit=True) as connection:
            for statement in self._statements:
                with contextlib.suppress(psycopg.errors.FeatureNotSupported):  # then the tests that need it fail
                    connection.execute(statement.encode())

    def _tests(self) -> pathlib.Path:
        """Where pytest runs: the source package, or a copy of only what is named, so that the installed driver is
        tested and not the one beside the tests."""
        place = packages.source(self._package)
        if not self._only:
            return place
        copy = cache() / f"tests-{self.name}"
        shutil.rmtree(copy, ignore_errors=True)
        for item in self._only:
            target = copy / item
            if (place / item).is_dir():
                shutil.copytree(place / item, target)
            else:
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(place / item, target)
        return copy

    def counts(self, record: Record) -> bool:
        return bool(record[0] == "passed")

    def compare(self, test: str, wanted: Record, got: Record | None) -> str:
        if got is None:
            return f"not run: {self._stopped}" if self._stopped else "not run in time"
        return "" if got[0] == "passed" else f"{got[0]}: {_brief(got[1])}"


def _read(results: pathlib.Path) -> Records:
    found: Records = {}
    for line in results.read_text(encoding="utf-8").splitlines():
        test, outcome, cause = json.loads(line)
        test = re.sub(r"(postgresql\+\w+?)_\d+_\d+", r"\1", test)  # SQLAlchemy puts the server's version into names
        if test in found and found[test][0] == "failed":
            continue
        found[test] = [outcome, cause]
    return found


def _brief(cause: str) -> str:
    """The line of a cause that says most."""
    lines = [line.strip() for line in cause.splitlines() if line.strip()]
    telling = [line for line in lines if re.search(r"(Error|Exception|Warning|Refused)\b|not supported|^E ", line)]
    return (telling or lines or ["no cause told"])[0][:240]


def _sqlalchemy(name: str, title: str, paths: tuple[str, ...], floor: float, seconds: float) -> PytestSuite:
    return PytestSuite(
        name,
        title,
        "sqlalchemy",
        paths,
        floor,
        seconds,
        arguments=lambda target: [
            "--dburi",
            f"postgresql+psycopg://postgres@127.0.0.1:{target.port}/test",
            "-p",
            "no:xdist",
            *(["--backend-only"] if name != "sqlalchemy" else []),
        ],
        database="test",
        statements=("CREATE SCHEMA test_schema", "CREATE SCHEMA test_schema_2"),
    )


SUITES: tuple[PytestSuite, ...] = (
    _sqlalchemy("sqlalchemy", "SQLAlchemy, dialect suite", ("test/dialect/test_suite.py",), 0.97, 600.0),
    _sqlalchemy(
        "sqlalchemy-postgresql", "SQLAlchemy, test/dialect/postgresql", ("test/dialect/postgresql",), 0.75, 1500.0
    ),
    PytestSuite("asyncpg", "asyncpg", "asyncpg", ("tests",), 0.90, 900.0, only=("tests",)),
    PytestSuite(
        "psycopg2",
        "psycopg2",
        "psycopg2",
        ("tests",),
        0.90,
        900.0,
        environment=lambda _: {"PSYCOPG2_TESTDB": "psycopg2_test"},
        database="psycopg2_test",
        only=("tests",),
    ),
    PytestSuite(
        "pg8000",
        "pg8000",
        "pg8000",
        ("test",),
        0.90,
        900.0,
        only=("test", "README.md"),
        statements=("CREATE EXTENSION IF NOT EXISTS hstore",),
    ),
)
