"""What a client hears beside its results, by client_min_messages, on Shoal and on PostgreSQL."""

from __future__ import annotations

import psycopg
import pytest

from tests.oracle import PostgresServer
from tests.server import ShoalServer

MADE = [
    'CREATE TABLE will create implicit sequence "told_id_seq" for serial column "told.id"',
    'CREATE TABLE / PRIMARY KEY will create implicit index "told_pkey" for table "told"',
    'CREATE TABLE / UNIQUE will create implicit index "told_b_key" for table "told"',
    'ALTER TABLE / ADD UNIQUE will create implicit index "more" for table "told"',
]
SKIPPED = 'table "nothing" does not exist, skipping'
WARNED = "there is no transaction in progress"


@pytest.mark.parametrize(
    ("level", "heard"),
    [
        ("debug5", [*MADE, SKIPPED, WARNED]),
        ("debug1", [*MADE, SKIPPED, WARNED]),
        ("log", [SKIPPED, WARNED]),
        ("notice", [SKIPPED, WARNED]),
        ("warning", [WARNED]),
        ("error", []),
    ],
)
def test_levels(server: ShoalServer | PostgresServer, level: str, heard: list[str]) -> None:
    said: list[str | None] = []
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute(f"SET client_min_messages TO {level}".encode())
        connection.add_notice_handler(lambda notice: said.append(notice.message_primary))
        connection.execute("CREATE TABLE told (id serial PRIMARY KEY, b int UNIQUE)")
        connection.execute("ALTER TABLE told ADD CONSTRAINT more UNIQUE (id, b)")
        connection.execute("DROP TABLE told")
        connection.execute("DROP TABLE IF EXISTS nothing")
        connection.execute("COMMIT")
    known = {*MADE, SKIPPED, WARNED}  # PostgreSQL tells more of its own business
    assert [line for line in said if line in known] == heard


def test_references_of_columns_and_tables_have_their_order(server: ShoalServer | PostgresServer) -> None:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE known (a int PRIMARY KEY)")
        connection.execute(
            "CREATE TABLE knows (a int REFERENCES known, b int, CONSTRAINT a_first FOREIGN KEY (b) REFERENCES known,"
            " c int REFERENCES known)"
        )
        with pytest.raises(psycopg.errors.ForeignKeyViolation) as caught:
            connection.execute("INSERT INTO knows VALUES (1, 2, 3)")
        assert caught.value.diag.constraint_name == "knows_a_fkey"
        connection.execute("DROP TABLE knows, known")


def test_what_is_temporary_is_shown_as_that(server: ShoalServer | PostgresServer) -> None:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("CREATE TEMP TABLE passing (a serial)")
        connection.execute("CREATE TEMP VIEW passing_by AS SELECT * FROM passing")
        shown = connection.execute(
            "SELECT relname, relkind, relpersistence FROM pg_class WHERE relname LIKE 'passing%' ORDER BY 1"
        ).fetchall()
        assert shown == [("passing", "r", "t"), ("passing_a_seq", "S", "t"), ("passing_by", "v", "t")]
