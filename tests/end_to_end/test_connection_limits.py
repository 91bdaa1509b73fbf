"""Who is let in where there is no room, and where nobody is to be let in: the same on both servers."""

from __future__ import annotations

import itertools
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import Any

import psycopg
import pytest

from tests.oracle import PostgresServer
from tests.server import ShoalServer

MOST, RESERVED = 8, 3


class NarrowServer(ShoalServer):
    def command(self) -> list[str]:
        return ["env", f"SHOAL_MAX_CONNECTIONS={MOST}", *super().command()]


class NarrowPostgres(PostgresServer):
    def __init__(self) -> None:
        super().__init__(("fsync=off", f"max_connections={MOST}", "max_wal_senders=0", "autovacuum=off"))


@pytest.fixture(scope="module", params=[NarrowServer, NarrowPostgres], ids=["shoal", "postgres"])
def narrow(request: pytest.FixtureRequest) -> Iterator[Any]:
    with request.param() as server, psycopg.connect(server.dsn, autocommit=True) as owner:
        owner.execute("CREATE ROLE bob LOGIN")
        owner.execute("CREATE ROLE few LOGIN CONNECTION LIMIT 2")
        owner.execute("CREATE ROLE nobody LOGIN CONNECTION LIMIT 0")
        owner.execute("CREATE ROLE chief LOGIN SUPERUSER CONNECTION LIMIT 0")
        for name in ("narrow", "shut", "closed"):
            owner.execute(f"CREATE DATABASE {name}".encode())
        owner.execute("ALTER DATABASE narrow CONNECTION LIMIT 2")
        owner.execute("ALTER DATABASE shut CONNECTION LIMIT 0")
        owner.execute("ALTER DATABASE closed ALLOW_CONNECTIONS false")
        owner.close()
        yield server


def enters(server: Any, held: ExitStack, user: str, database: str = "postgres") -> tuple[str, str]:
    """Whether a login is let in, which then stays until `held` ends, or with which words it is refused."""
    try:
        held.enter_context(psycopg.connect(server.dsn, user=user, dbname=database, connect_timeout=20))
    except psycopg.OperationalError as error:
        return "refused", str(error).strip().rpartition("FATAL:  ")[2].splitlines()[0]
    return "in", ""


def owner_of(server: Any) -> psycopg.Connection[Any]:
    """A connection, once those of the test before have gone: PostgreSQL's end a moment after their clients."""
    deadline = time.monotonic() + 20
    while True:
        try:
            return psycopg.connect(server.dsn, autocommit=True)
        except psycopg.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def logins(server: Any, *who: tuple[str, str]) -> list[tuple[str, str]]:
    with ExitStack() as held:
        return [enters(server, held, user, database) for user, database in who]


IN = ("in", "")
CASES = {
    "a role's limit": (
        [("few", "postgres")] * 3, [IN, IN, ("refused", 'too many connections for role "few"')]
    ),
    "none for a role": ([("nobody", "postgres")], [("refused", 'too many connections for role "nobody"')]),
    "superusers have no limit": ([("chief", "postgres"), ("chief", "narrow")], [IN, IN]),
    "a database's limit": (
        [("bob", "narrow"), ("few", "narrow"), ("bob", "narrow"), ("postgres", "narrow")],
        [IN, IN, ("refused", 'too many connections for database "narrow"'), IN],
    ),
    "superusers count to a database's": (
        [("postgres", "narrow"), ("postgres", "narrow"), ("bob", "narrow")],
        [IN, IN, ("refused", 'too many connections for database "narrow"')],
    ),
    "none for a database": (
        [("bob", "shut"), ("postgres", "shut")], [("refused", 'too many connections for database "shut"'), IN]
    ),
    "a database that takes nobody": (
        [("bob", "closed"), ("postgres", "closed")],
        [("refused", 'database "closed" is not currently accepting connections')] * 2,
    ),
    "the last places are for superusers": (
        [("bob", "postgres")] * (MOST - RESERVED + 1) + [("postgres", "postgres")] * (RESERVED + 1),
        [IN] * (MOST - RESERVED)
        + [("refused", "remaining connection slots are reserved for non-replication superuser connections")]
        + [IN] * RESERVED + [("refused", "sorry, too many clients already")],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_who_is_let_in(narrow: Any, name: str) -> None:
    who, wanted = CASES[name]
    for _ in range(20):  # until the sessions of the case before are gone
        found = logins(narrow, *who)
        if found == wanted:
            return
        time.sleep(0.1)
    assert found == wanted


WRONG = [
    ("CREATE ROLE wrong CONNECTION LIMIT -2", "22023"), ("ALTER ROLE bob CONNECTION LIMIT -5", "22023"),
    ("ALTER DATABASE narrow CONNECTION LIMIT -2", "22023"),
    ("ALTER DATABASE postgres ALLOW_CONNECTIONS false", "22023"),
]  # fmt: skip


@pytest.mark.parametrize(("statement", "code"), WRONG)
def test_limits_that_are_none(narrow: Any, statement: str, code: str) -> None:
    with owner_of(narrow) as owner:
        with pytest.raises(psycopg.Error) as error:
            owner.execute(statement.encode())
        assert error.value.sqlstate == code


def test_a_limit_that_is_changed_counts_at_once(narrow: Any) -> None:
    with owner_of(narrow) as owner, ExitStack() as held:
        assert enters(narrow, held, "bob") == IN
        owner.execute("ALTER ROLE bob CONNECTION LIMIT 1")
        assert enters(narrow, held, "bob") == ("refused", 'too many connections for role "bob"')
        owner.execute("ALTER ROLE bob CONNECTION LIMIT -1")
        assert enters(narrow, held, "bob") == IN


def test_sockets_that_say_nothing_take_nobody_s_place() -> None:
    with NarrowServer() as server, ExitStack() as held:
        with psycopg.connect(server.dsn, autocommit=True) as owner:
            owner.execute("CREATE ROLE bob LOGIN")
        silent = []
        for _ in range(5 * MOST):
            silent.append(held.enter_context(socket.create_connection(("127.0.0.1", server.port), 20)))
        for user in itertools.islice(itertools.cycle(["bob", "postgres"]), MOST - RESERVED):
            assert enters(server, held, user) == IN
        time.sleep(0.2)
        told = 0
        for connection in silent:
            connection.setblocking(False)
            with suppress(BlockingIOError):
                told += b"C53300\0" in connection.recv(1000)
        assert told >= 4 * MOST  # who has waited for longest is told why, and let go
