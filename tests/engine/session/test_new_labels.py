"""A label of an enum that the transaction itself has added is not used before it is committed."""

from __future__ import annotations

import psycopg
import pytest

from tests.oracle import PostgresServer
from tests.server import ShoalServer

USES = (
    "select 'b'::fresh", "select array['b']::fresh[]", "select '{a,b}'::fresh[]", "insert into freshly values ('b')",
    "select * from freshly where e < 'b'", "update freshly set e = 'b'", "select coalesce(e, 'b') from freshly",
)  # fmt: skip


@pytest.mark.parametrize("use", USES)
def test_a_new_label_waits_for_its_commit(server: PostgresServer | ShoalServer, use: str) -> None:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("create type fresh as enum ('a')")
        connection.execute("create table freshly (e fresh)")
        connection.execute("begin")
        connection.execute("alter type fresh add value 'b'")
        connection.execute("select 'a'::fresh")
        with pytest.raises(psycopg.errors.UnsafeNewEnumValueUsage) as refused:
            connection.execute(use.encode())
        assert refused.value.diag.message_primary == 'unsafe use of new value "b" of enum type fresh'
        connection.execute("rollback")
        connection.execute("alter type fresh add value 'b'")
        connection.execute(use.encode())
        connection.execute("drop table freshly")
        connection.execute("drop type fresh")


def test_a_type_of_the_transaction_itself_has_all_its_labels(shoal: ShoalServer) -> None:
    """As from PostgreSQL 17 on; 15 refuses this too."""
    with psycopg.connect(shoal.dsn, autocommit=True) as connection:
        connection.execute("begin")
        connection.execute("create type fresh as enum ('a')")
        connection.execute("alter type fresh add value 'b'")
        assert connection.execute("select 'b'::fresh::text").fetchall() == [("b",)]
        connection.execute("rollback")
