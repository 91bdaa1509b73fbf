"""Clients of other languages: each program prints what it sees, and Shoal's lines are those of PostgreSQL.

    node             node-postgres, pg-cursor, pg-copy-streams      node and npm
    pgjdbc           PostgreSQL's JDBC driver                       libpostgresql-jdbc-java and a JDK
    pgx              Go                                             go
    tokio_postgres   Rust                                           cargo

A program (tests/drivers/programs) creates, fills, queries and changes tables with every common type, prepares
statements, goes through transactions, provokes errors and copies. It is built once, into a cache of the user's; what
its language needs is fetched then. A language that is not on the machine is skipped, with its name.
"""

from __future__ import annotations

import hashlib
import os
import pathlib
import shutil
import subprocess
from collections.abc import Callable, Iterator

import psycopg
import pytest

from tests.drivers.conftest import AnyServer
from tests.oracle import PostgresServer

PROGRAMS = pathlib.Path(__file__).parent / "programs"
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "shoal-tests"
SCHEMA = "programs"
BUILD_SECONDS = 600  # the first time: dependencies are fetched and compiled
RUN_SECONDS = 120
JDBC = pathlib.Path("/usr/share/java/postgresql.jar")

Command = list[str]


def _require(*names: str) -> None:
    for name in names:
        if shutil.which(name) is None:
            pytest.skip(f"{name} is not installed")


def _run(command: Command, directory: pathlib.Path, **environment: str) -> None:
    """A step of a build. What it cannot fetch skips the test: the machine is offline."""
    settings = {**os.environ, **environment}
    done = subprocess.run(
        command, cwd=directory, env=settings, capture_output=True, text=True, timeout=BUILD_SECONDS, check=False
    )
    if done.returncode:
        output = done.stdout + done.stderr
        if any(sign in output for sign in ("ENOTFOUND", "ECONNREFUSED", "no such host", "Could not resolve host")):
            pytest.skip(f"{command[0]} cannot fetch its packages: {output.strip().splitlines()[-1]}")
        raise AssertionError(f"{command}:\n{output}")


def _place(name: str) -> pathlib.Path:
    """A directory for what a program is built into; another one when its sources change."""
    digest = hashlib.sha256()
    for file in sorted((PROGRAMS / name).iterdir()):
        digest.update(file.name.encode() + file.read_bytes())
    place = CACHE / f"{name}-{digest.hexdigest()[:16]}"
    place.mkdir(parents=True, exist_ok=True)
    return place


def _node() -> Command:
    _require("node", "npm")
    place = _place("node")
    for file in (PROGRAMS / "node").iterdir():
        shutil.copy(file, place)
    if not (place / "node_modules" / "pg-copy-streams").exists():
        _run(["npm", "install", "--no-audit", "--no-fund", "--no-package-lock"], place)
    return ["node", str(place / "client.js")]


def _pgjdbc() -> Command:
    _require("java", "javac")
    if not JDBC.exists():
        pytest.skip("libpostgresql-jdbc-java is not installed")
    place = _place("pgjdbc")
    if not (place / "Client.class").exists():
        _run(["javac", "-cp", str(JDBC), "-d", str(place), "Client.java"], PROGRAMS / "pgjdbc")
    return ["java", "-cp", f"{JDBC}:{place}", "Client"]


def _pgx() -> Command:
    _require("go")
    program = _place("pgx") / "client"
    if not program.exists():
        _run(["go", "build", "-o", str(program), "."], PROGRAMS / "pgx", CGO_ENABLED="0")
    return [str(program)]


def _tokio_postgres() -> Command:
    _require("cargo")
    place = _place("tokio_postgres")
    program = place / "debug" / "client"
    if not program.exists():
        _run(["cargo", "build", "--quiet", "--locked"], PROGRAMS / "tokio_postgres", CARGO_TARGET_DIR=str(place))
    return [str(program)]


BUILDS: dict[str, Callable[[], Command]] = {
    "node": _node,
    "pgjdbc": _pgjdbc,
    "pgx": _pgx,
    "tokio_postgres": _tokio_postgres,
}


@pytest.fixture(scope="module", params=BUILDS)
def program(request: pytest.FixtureRequest) -> Iterator[tuple[str, Command]]:
    """A program's name, and the command that runs it."""
    yield request.param, BUILDS[request.param]()


def _lines(command: Command, server: AnyServer) -> list[str]:
    """What the program prints in a new schema on this server."""
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {SCHEMA}")
    try:
        whole = [*command, "127.0.0.1", str(server.port), SCHEMA]
        settings = {**os.environ, "TZ": "UTC"}
        done = subprocess.run(whole, env=settings, capture_output=True, text=True, timeout=RUN_SECONDS, check=False)
    finally:
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute(f"DROP SCHEMA {SCHEMA} CASCADE")
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    return done.stdout.splitlines()


_expected: dict[str, list[str]] = {}


@pytest.mark.parametrize("server", ["shoal", "follower"], indirect=True)
def test_a_program_sees_what_it_sees_in_postgresql(
    program: tuple[str, Command], server: AnyServer, postgres_server: PostgresServer
) -> None:
    name, command = program
    if name not in _expected:
        _expected[name] = _lines(command, postgres_server)
    assert len(_expected[name]) > 30
    assert _lines(command, server) == _expected[name]
