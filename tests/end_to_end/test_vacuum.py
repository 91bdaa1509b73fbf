"""VACUUM and ANALYZE as clients meet them, on Shoal and on PostgreSQL: owners and locks count, though Shoal has nothing
to clean up."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from tests.end_to_end.test_isolation import Client
from tests.oracle import PostgresServer
from tests.server import ShoalServer


@pytest.fixture
def pair(server: ShoalServer | PostgresServer) -> Iterator[tuple[Client, Client]]:
    """Two clients, and a table of a superuser's."""
    clients = Client(server.dsn, "public"), Client(server.dsn, "public")
    clients[0].run("DROP TABLE IF EXISTS cleaned", "CREATE TABLE cleaned (a int)")
    yield clients
    for client in clients:
        client.close()


@pytest.mark.parametrize("command", ["VACUUM", "ANALYZE"])
def test_tables_of_others_are_skipped_with_a_warning(pair: tuple[Client, Client], command: str) -> None:
    one, _ = pair
    said: list[str | None] = []
    one.connection.add_notice_handler(lambda notice: said.append(notice.message_primary))
    one.run(
        "DROP ROLE IF EXISTS cleaner", "CREATE ROLE cleaner", "SET ROLE cleaner", f"{command} cleaned", "RESET ROLE"
    )
    assert said[-1] == f'skipping "cleaned" --- only table or database owner can {command.lower()} it'
    one.run("ALTER TABLE cleaned OWNER TO cleaner", "SET ROLE cleaner", f"{command} cleaned", "RESET ROLE")
    assert len([line for line in said if line is not None and line.startswith("skipping")]) == 1
    one.run("DROP TABLE cleaned", "DROP ROLE cleaner")


@pytest.mark.parametrize("command", ["VACUUM", "ANALYZE"])
def test_they_wait_for_each_other_and_not_for_writers(pair: tuple[Client, Client], command: str) -> None:
    one, two = pair
    one.run("BEGIN", "INSERT INTO cleaned VALUES (1)")
    two.run(f"{command} cleaned")
    one.run("LOCK cleaned IN SHARE UPDATE EXCLUSIVE MODE")
    waiting = two.waits(f"{command} cleaned")
    one.run("COMMIT")
    waiting.result(20)


def test_a_lock_may_be_passed_over(pair: tuple[Client, Client]) -> None:
    one, two = pair
    said: list[str | None] = []
    two.connection.add_notice_handler(lambda notice: said.append(notice.message_primary))
    one.run("BEGIN", "LOCK cleaned")
    two.run("VACUUM (SKIP_LOCKED) cleaned")
    assert said == ['skipping vacuum of "cleaned" --- lock not available']
    one.run("ROLLBACK")
    with pytest.raises(psycopg.errors.ActiveSqlTransaction):
        one.run("BEGIN", "VACUUM cleaned")
