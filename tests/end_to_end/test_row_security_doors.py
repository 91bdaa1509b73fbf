"""The other ways by which rows leave a table: the past, change streams, branches, ranges of keys, Arrow. PostgreSQL has
none of them, so these tests ask Shoal alone. And plans of tables with row security by a key."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from tests.end_to_end.test_copy_arrow import out
from tests.server import ShoalServer

SETUP = """
CREATE ROLE alice LOGIN; CREATE ROLE bob LOGIN; GRANT CREATE ON DATABASE postgres TO alice;
CREATE TABLE notes (id int PRIMARY KEY, who name, note text);
INSERT INTO notes VALUES (1, 'alice', 'a'), (2, 'bob', 'b'), (3, 'alice', 'c'), (4, 'bob', 'd');
GRANT SELECT, INSERT, UPDATE, DELETE ON notes TO alice, bob
"""
RESTRICT = """
ALTER TABLE notes ENABLE ROW LEVEL SECURITY; CREATE POLICY own ON notes USING (who = current_user)
"""


def as_role(server: ShoalServer, role: str, database: str = "postgres") -> psycopg.Connection:
    dsn = server.dsn.replace("user=postgres", f"user={role}").replace("dbname=postgres", f"dbname={database}")
    return psycopg.connect(dsn, autocommit=True)


@pytest.fixture
def server(private_shoal: ShoalServer) -> Iterator[ShoalServer]:
    with psycopg.connect(private_shoal.dsn, autocommit=True) as connection:
        connection.execute(SETUP.encode())
    yield private_shoal


def run(server: ShoalServer, text: str) -> list[tuple[object, ...]]:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        cursor = connection.execute(text.encode())
        return cursor.fetchall() if cursor.description else []


def ids(connection: psycopg.Connection, text: str) -> list[object]:
    return [row[0] for row in connection.execute(text.encode()).fetchall()]


def refusal(connection: psycopg.Connection, text: str) -> tuple[str | None, str | None]:
    with pytest.raises(psycopg.Error) as caught:
        connection.execute(text.encode()).fetchall()
    return caught.value.sqlstate, caught.value.diag.message_primary


def test_the_past_has_the_policies_of_both_moments(server: ShoalServer) -> None:
    ((before,),) = run(server, "SELECT clock_timestamp()")
    run(server, RESTRICT)
    ((between,),) = run(server, "SELECT clock_timestamp()")
    with as_role(server, "alice") as alice:
        look = f"SELECT id FROM notes AS OF TIMESTAMP '{before}' ORDER BY id"
        assert ids(alice, look) == [1, 3]
        assert ids(alice, f"SELECT id FROM notes AS OF TIMESTAMP '{between}' ORDER BY id") == [1, 3]
        run(server, "ALTER POLICY own ON notes USING (who = current_user AND id < 3)")
        assert ids(alice, look) == [1]
        run(server, "ALTER POLICY own ON notes USING (true)")
        assert ids(alice, look) == [1, 2, 3, 4]
        assert ids(alice, f"SELECT id FROM notes AS OF TIMESTAMP '{between}' ORDER BY id") == [1, 3]
        alice.execute(f"SET as_of = '{before}'".encode())
        assert ids(alice, "SELECT id FROM notes ORDER BY id") == [1, 2, 3, 4]
        run(server, "ALTER POLICY own ON notes USING (id = 4)")
        assert ids(alice, "SELECT id FROM notes ORDER BY id") == [4]
        alice.execute("RESET as_of")
        run(server, "ALTER TABLE notes ADD COLUMN more int; DROP POLICY own ON notes")
        run(server, "CREATE POLICY own ON notes USING (more > 0)")
        assert refusal(alice, look)[0] == "0A000"


def test_streams_are_refused_to_those_whom_policies_restrict(server: ShoalServer) -> None:
    with as_role(server, "alice") as alice:
        alice.execute("CREATE CHANGE STREAM s FOR TABLE notes")
        run(server, "INSERT INTO notes VALUES (5, 'bob', 'e')")
        assert len(alice.execute("SELECT * FROM shoal_changes('s')").fetchall()) == 1
        run(server, RESTRICT)
        message = 'query would be affected by row-level security policy for table "notes"'
        for text in ("SELECT * FROM shoal_changes('s')", "SELECT shoal_change_stream_reach('s')"):
            assert refusal(alice, text) == ("42501", message)
        run(server, "ALTER ROLE alice BYPASSRLS")
        assert len(alice.execute("SELECT * FROM shoal_changes('s')").fetchall()) == 1


def test_ranges_of_keys_are_no_keys_of_hidden_rows(server: ShoalServer) -> None:
    run(server, "INSERT INTO notes SELECT n, 'bob', 'x' FROM generate_series(10, 20000) n")
    with as_role(server, "alice") as alice:
        assert len(ids(alice, "SELECT shoal_key_ranges('notes', 4)")) == 4
        run(server, RESTRICT)
        assert ids(alice, "SELECT shoal_key_ranges('notes', 4)") == ["true"]


def test_arrow_has_the_rows_that_are_shown(server: ShoalServer) -> None:
    run(server, RESTRICT)
    with as_role(server, "alice") as alice:
        for source in ("notes", "(SELECT * FROM notes)"):
            assert sorted(out(alice, source).column("id").to_pylist()) == [1, 3]
        for target in ("COPY notes FROM STDIN (FORMAT arrow)", "COPY notes FROM STDIN"):
            assert refusal(alice, target)[0] == "0A000"


def test_a_branch_has_the_policies(server: ShoalServer) -> None:
    run(server, f"{RESTRICT}; CREATE POLICY also ON notes TO bob USING (id = 1)")
    run(server, "CREATE DATABASE branch FROM postgres")
    with as_role(server, "alice", "branch") as alice, as_role(server, "bob", "branch") as bob:
        assert ids(alice, "SELECT id FROM notes ORDER BY id") == [1, 3]
        assert ids(bob, "SELECT id FROM notes ORDER BY id") == [1, 2, 4]


def test_rows_are_found_by_their_keys(server: ShoalServer) -> None:
    run(server, RESTRICT)
    with as_role(server, "alice") as alice:
        for text in ("SELECT note FROM notes", "UPDATE notes SET note = 'x'"):
            plan = "\n".join(map(str, ids(alice, f"EXPLAIN {text} WHERE id = 1")))
            assert "notes_pkey" in plan and "who" in plan, plan
        assert ids(alice, "SELECT note FROM notes WHERE id = 2") == []


def test_policies_survive_a_restart(server: ShoalServer) -> None:
    run(server, RESTRICT)
    shown = run(server, "SELECT * FROM pg_policies")
    server.kill()
    server.start()
    assert run(server, "SELECT * FROM pg_policies") == shown
    with as_role(server, "alice") as alice:
        assert ids(alice, "SELECT id FROM notes ORDER BY id") == [1, 3]
