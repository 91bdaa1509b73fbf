"""Fixtures shared by all tests: a real PostgreSQL beside us, as the oracle, a real Shoal, a real ZooKeeper."""

from __future__ import annotations

import atexit
import itertools
import logging
import os
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from catalog import patience
from tests import forks, imports, left_behind, order
from tests.oracle import PostgresServer
from tests.process_state import ProcessState
from tests.server import ShoalServer
from tests.zookeeper_server import ZooKeeper


def _keep_bytecode() -> None:
    """Tests start hundreds of processes, and compiling the code takes each of them as much time as all else that it
    does before it serves. Where Python is told to write no bytecode, it is kept outside of the tree, for this run."""
    if os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):
        directory = os.environ["PYTHONPYCACHEPREFIX"] = tempfile.mkdtemp(prefix="shoal-bytecode-")
        atexit.register(shutil.rmtree, directory, ignore_errors=True)


def _hear_interrupts() -> None:
    """What a shell starts in the background ignores SIGINT, and so does all that it starts itself: a run of the tests
    too, whose tests interrupt programs. They start them as if from a terminal."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


_keep_bytecode()
_hear_interrupts()
forks.enable()

LINES_OF_A_FAILURE = 12
"""What is told at once; the summary at the end has all of them."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    imports.begin()
    imports.import_a_part(session.config)


def pytest_collection_finish() -> None:
    imports.end()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    order.in_order(items)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """A failure is told when it comes: whoever ends a run before its summary still knows what failed."""
    if report.failed and "PYTEST_XDIST_WORKER" not in os.environ:
        why = report.longreprtext.strip().splitlines()[-LINES_OF_A_FAILURE:]
        print(f"\n{report.nodeid}: {report.when} failed after {report.duration:.1f} s", *why, sep="\n    ", flush=True)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> order.Scheduling | None:
    return order.Scheduling(config, log) if config.getvalue("dist") == "loadfile" else None


_at_start = ProcessState.now()


@pytest.fixture(autouse=True)
def settings_of_the_process() -> None:
    """A command that an earlier test ran in this process has no effect on the next one."""
    _at_start.restore()


_known: dict[str, left_behind.Found] = {}
"""What is on servers that files of tests share, by their DSNs."""


@pytest.fixture(scope="module", autouse=True)
def leaves_nothing(request: pytest.FixtureRequest) -> Iterator[None]:
    """What a file leaves on servers that others share is removed."""
    yield
    for dsn, known in _known.items():
        left_behind.remove(dsn, left_behind.found(dsn) - known)
        if left := left_behind.found(dsn) - known:
            _known[dsn] |= left
            pytest.fail(f"{request.path.name} leaves on {dsn}: {', '.join(sorted(map(' '.join, left)))}")


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A PostgreSQL of this machine in a directory of its own, stopped and removed at the end of the run."""
    with PostgresServer() as server:
        _known[server.dsn] = left_behind.found(server.dsn)
        yield server
        del _known[server.dsn]


@pytest.fixture
def postgres(postgres_server: PostgresServer) -> Iterator[psycopg.Connection]:
    """An open autocommit connection to the oracle."""
    with psycopg.connect(postgres_server.dsn, autocommit=True) as connection:
        yield connection


@pytest.fixture(scope="session")
def shoal() -> Iterator[ShoalServer]:
    """A Shoal process with a directory of its own, for tests that leave it running; others use `private_shoal`."""
    with ShoalServer() as server:
        _known[server.dsn] = left_behind.found(server.dsn)
        yield server
        del _known[server.dsn]


@pytest.fixture
def private_shoal() -> Iterator[ShoalServer]:
    """A Shoal process that one test has for itself: to stop, kill and start again."""
    with ShoalServer() as server:
        yield server


@pytest.fixture(params=["shoal", "postgres"])
def server(request: pytest.FixtureRequest) -> ShoalServer | PostgresServer:
    """Shoal and then the oracle: a test that takes this runs on both, so what it expects is PostgreSQL's."""
    found: ShoalServer | PostgresServer = request.getfixturevalue(
        "shoal" if request.param == "shoal" else "postgres_server"
    )
    return found


@pytest.fixture
def restored_process() -> Iterator[None]:
    """For a test that runs the command of a server in this process: what the command sets for its whole process is
    undone, so that later tests neither log to a stream that was captured, and closed, for this one, nor recurse as
    deeply as servers may, nor are interrupted where they compute."""
    root = logging.getLogger()
    handlers, level, stack, recursion, switching = (
        root.handlers[:],
        root.level,
        threading.stack_size(),
        sys.getrecursionlimit(),
        sys.getswitchinterval(),
    )
    yield
    patience.unwatch()
    root.handlers[:] = handlers
    root.setLevel(level)
    threading.stack_size(stack)
    sys.setrecursionlimit(recursion)
    sys.setswitchinterval(switching)


_chroots = itertools.count()


@pytest.fixture(scope="session")
def zookeeper_server() -> Iterator[ZooKeeper]:
    """A ZooKeeper of one server. A test that stops it starts it again."""
    with ZooKeeper() as zookeeper:
        yield zookeeper


@pytest.fixture
def zookeeper(zookeeper_server: ZooKeeper) -> str:
    """The URL of a cluster that nobody has made yet."""
    return zookeeper_server.url(f"test-{next(_chroots)}")


@pytest.fixture(scope="session")
def zookeeper_ensemble() -> Iterator[ZooKeeper]:
    """A ZooKeeper of three servers. A test that stops one starts it again."""
    with ZooKeeper(3) as ensemble:
        yield ensemble
