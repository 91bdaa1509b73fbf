"""What has been revoked may not be read of the past either: by no road, in no session that stands there already. Each
statement fails there as it does now."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.engine.session.test_past import Remembering, lsn
from tests.server import ShoalServer

SETUP = (
    "CREATE ROLE reader LOGIN", "CREATE ROLE clerks", "GRANT clerks TO reader",
    "CREATE SCHEMA s", "GRANT USAGE ON SCHEMA s TO clerks",
    "CREATE TABLE s.t (id int PRIMARY KEY, n int)", "INSERT INTO s.t SELECT i, i FROM generate_series(1, 3000) i",
    "GRANT SELECT (id, n) ON s.t TO reader",
    "CREATE TABLE s.owned (id int PRIMARY KEY)", "INSERT INTO s.owned VALUES (1), (2)",
    "CREATE VIEW s.v AS SELECT id FROM s.owned", "GRANT SELECT ON s.v TO reader",
    "CREATE FUNCTION s.invoker() RETURNS bigint LANGUAGE sql AS 'SELECT count(*) FROM s.t'",
    "CREATE FUNCTION s.definer() RETURNS bigint LANGUAGE sql SECURITY DEFINER AS 'SELECT count(*) FROM s.owned'",
    "REVOKE EXECUTE ON FUNCTION s.definer() FROM public", "GRANT EXECUTE ON FUNCTION s.definer() TO clerks",
    "CREATE FUNCTION s.outer_() RETURNS bigint LANGUAGE sql AS 'SELECT s.invoker() + s.definer()'",
)  # fmt: skip
STATEMENTS = (
    "SELECT n FROM s.t WHERE id = 7", "SELECT count(n) FROM s.t", "SELECT id FROM s.v WHERE id = 1",
    "SELECT count(*) FROM s.v", "SELECT s.invoker()", "SELECT s.definer()", "SELECT s.outer_()",
    "SELECT (SELECT max(n) FROM s.t)", "WITH w AS (SELECT id FROM s.t) SELECT count(*) FROM w",
    "SELECT count(*) FROM s.t WHERE id IN (SELECT id FROM s.v)", "EXECUTE key(7)", "EXECUTE many", "EXECUTE call",
)  # fmt: skip
PREPARED = (
    "PREPARE key(int) AS SELECT n FROM s.t WHERE id = $1", "PREPARE many AS SELECT count(*) FROM s.v",
    "PREPARE call AS SELECT s.outer_()",
)  # fmt: skip
REVOCATIONS = (
    ("REVOKE SELECT (n) ON s.t FROM reader", "GRANT SELECT (n) ON s.t TO reader"),
    ("REVOKE SELECT (id, n) ON s.t FROM reader", "GRANT SELECT (id, n) ON s.t TO reader"),
    ("REVOKE SELECT ON s.v FROM reader", "GRANT SELECT ON s.v TO reader"),
    ("REVOKE EXECUTE ON FUNCTION s.definer() FROM clerks", "GRANT EXECUTE ON FUNCTION s.definer() TO clerks"),
    ("REVOKE EXECUTE ON FUNCTION s.invoker() FROM public", "GRANT EXECUTE ON FUNCTION s.invoker() TO public"),
    ("REVOKE USAGE ON SCHEMA s FROM clerks", "GRANT USAGE ON SCHEMA s TO clerks"),
    ("REVOKE clerks FROM reader", "GRANT clerks TO reader"),
    ("ALTER VIEW s.v OWNER TO clerks", "ALTER VIEW s.v OWNER TO postgres"),
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShoalServer]:
    with Remembering(tmp_path_factory.mktemp("rights") / "data") as found:
        with psycopg.connect(found.dsn, autocommit=True) as owner:
            for statement in SETUP:
                owner.execute(statement)
        yield found


def entered(server: ShoalServer, at: int | None = None) -> psycopg.Connection[Any]:
    connection = psycopg.connect(server.dsn.replace("user=postgres", "user=reader"), autocommit=True)
    if at is not None:
        connection.execute(f"SET as_of = '{at}'")
    for statement in PREPARED:
        connection.execute(statement)
    return connection


def states(connection: psycopg.Connection[Any], statements: tuple[str, ...] = STATEMENTS) -> dict[str, str]:
    """The SQLSTATE of each; '' where it answers. Twice: the second time there may be a plan."""
    found = {}
    for statement in statements:
        seen = set()
        for _ in range(2):
            try:
                connection.execute(statement.encode())
                seen.add("")
            except psycopg.Error as error:
                seen.add(str(error.sqlstate))
        (found[statement],) = seen
    return found


@pytest.mark.parametrize(("revoke", "grant"), REVOCATIONS)
def test_the_past_and_the_present_refuse_alike(server: ShoalServer, revoke: str, grant: str) -> None:
    with psycopg.connect(server.dsn, autocommit=True) as owner, entered(server) as present:
        at = lsn(owner)
        owner.execute("UPDATE s.t SET n = n + 1 WHERE id = 7")
        with entered(server, at) as past:
            assert set(states(past).values()) == set(states(present).values()) == {""}
            owner.execute(revoke)
            try:
                wanted = states(present)
                assert "42501" in wanted.values()
                assert states(past) == wanted
                past.execute("RESET as_of")
                past.execute(f"SET as_of = '{at}'")
                assert states(past) == wanted
                plain = tuple(item for item in STATEMENTS if item.startswith("SELECT n FROM s.t"))
                clause = tuple(item.replace("s.t ", f"s.t AS OF LSN {at} ") for item in plain)
                assert list(states(present, clause).values()) == [wanted[item] for item in plain]
            finally:
                owner.execute(grant)
            assert set(states(past).values()) == {""}


def test_who_is_no_superuser_any_more_is_none_in_the_past(server: ShoalServer) -> None:
    acts = ("SELECT n FROM s.t WHERE id = 7", "SELECT count(*) FROM pg_authid", "SELECT pg_reload_conf()")
    with psycopg.connect(server.dsn, autocommit=True) as owner:
        owner.execute("CREATE ROLE boss LOGIN SUPERUSER")
        at = lsn(owner)
        owner.execute("UPDATE s.t SET n = n + 1 WHERE id = 7")
        boss = psycopg.connect(server.dsn.replace("user=postgres", "user=boss"), autocommit=True)
        with boss:
            boss.execute(f"SET as_of = '{at}'")
            assert set(states(boss, acts).values()) == {""}
            owner.execute("ALTER ROLE boss NOSUPERUSER")
            assert set(states(boss, acts).values()) == {"42501"}
        owner.execute("DROP ROLE boss")
