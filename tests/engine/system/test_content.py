"""What sessions see of each other's schema changes in the catalogs, and of the running node."""

from __future__ import annotations

import psycopg
import pytest

from tests.server import ShoalServer


@pytest.fixture
def pair(shoal: ShoalServer) -> tuple[psycopg.Connection, psycopg.Connection]:
    return psycopg.connect(shoal.dsn), psycopg.connect(shoal.dsn, autocommit=True)


def _names(connection: psycopg.Connection, pattern: str) -> list[str]:
    query = "SELECT relname FROM pg_class WHERE relname LIKE %s ORDER BY 1"
    return [row[0] for row in connection.execute(query, (pattern,))]


def test_a_transaction_alone_sees_its_own_schema_changes(
    pair: tuple[psycopg.Connection, psycopg.Connection],
) -> None:
    one, other = pair
    one.execute("CREATE TABLE seen_own (id serial PRIMARY KEY)")
    assert _names(one, "seen_own%") == ["seen_own", "seen_own_id_seq", "seen_own_pkey"]
    assert _names(other, "seen_own%") == []
    one.execute("ALTER TABLE seen_own ADD COLUMN more text")
    columns = "SELECT count(*) FROM pg_attribute WHERE attrelid = 'seen_own'::regclass AND attnum > 0"
    assert one.execute(columns).fetchone() == (2,)
    one.rollback()
    assert _names(one, "seen_own%") == []


def test_committed_changes_are_in_the_next_query(pair: tuple[psycopg.Connection, psycopg.Connection]) -> None:
    one, other = pair
    for number in range(3):
        assert _names(other, "growing%") == [f"growing{n}" for n in range(number)]
        one.execute(f"CREATE TABLE growing{number} (a int)")
        one.commit()
    for number in range(3):
        one.execute(f"DROP TABLE growing{number}")
    one.commit()
    assert _names(other, "growing%") == []


def test_names_follow_the_search_path(pair: tuple[psycopg.Connection, psycopg.Connection]) -> None:
    _, connection = pair
    connection.execute("CREATE SCHEMA aside")
    connection.execute("CREATE TABLE aside.hidden (id serial)")
    try:
        query = "SELECT oid::regclass::text, pg_table_is_visible(oid) FROM pg_class WHERE relname = 'hidden'"
        default = "SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef WHERE adrelid = 'aside.hidden'::regclass"
        assert connection.execute(query).fetchall() == [("aside.hidden", False)]
        assert connection.execute(default).fetchone() == ("nextval('aside.hidden_id_seq'::regclass)",)
        connection.execute("SET search_path = aside")
        assert connection.execute(query).fetchall() == [("hidden", True)]
        assert connection.execute(default).fetchone() == ("nextval('hidden_id_seq'::regclass)",)
    finally:
        connection.execute("DROP SCHEMA aside CASCADE")


def test_databases_have_catalogs_of_their_own(shoal: ShoalServer) -> None:
    with psycopg.connect(shoal.dsn, autocommit=True) as first:
        first.execute("CREATE DATABASE apart")
        first.execute("CREATE TABLE only_here (a int)")
        with psycopg.connect(shoal.dsn.replace("dbname=postgres", "dbname=apart"), autocommit=True) as second:
            assert _names(second, "only_here") == []
            second.execute("CREATE TABLE only_there (a int)")
            assert _names(first, "only_%") == ["only_here"]
            assert _names(second, "only_%") == ["only_there"]
            schemas = "SELECT schema_name FROM information_schema.schemata ORDER BY 1"
            fresh = [("information_schema",), ("pg_catalog",), ("public",)]
            assert second.execute(schemas).fetchall() == fresh
        first.execute("DROP TABLE only_here")
        first.execute("DROP DATABASE apart")


def test_sequences_read_as_tables(pair: tuple[psycopg.Connection, psycopg.Connection]) -> None:
    _, connection = pair
    connection.execute("CREATE SEQUENCE stands START 5")
    try:
        assert connection.execute("SELECT last_value, is_called FROM stands").fetchone() == (5, False)
        connection.execute("SELECT nextval('stands'), nextval('stands')")
        assert connection.execute("SELECT last_value, is_called FROM stands").fetchone() == (6, True)
        values = "SELECT last_value FROM pg_sequences WHERE sequencename = 'stands'"
        assert connection.execute(values).fetchone() == (6,)
    finally:
        connection.execute("DROP SEQUENCE stands")


def test_sessions_and_locks_are_shown(pair: tuple[psycopg.Connection, psycopg.Connection]) -> None:
    one, other = pair
    other.execute("CREATE TABLE watched (a int)")
    try:
        one.execute("LOCK TABLE watched IN SHARE MODE")
        activity = "SELECT state, query FROM pg_stat_activity WHERE pid = %s"
        state, query = other.execute(activity, (one.info.backend_pid,)).fetchone() or ("", "")
        assert (state, query) == ("idle in transaction", "LOCK TABLE watched IN SHARE MODE")
        locks = "SELECT mode, granted FROM pg_locks WHERE relation = 'watched'::regclass"
        assert other.execute(locks).fetchall() == [("ShareLock", True)]
    finally:
        one.rollback()
        other.execute("DROP TABLE watched")


def test_every_system_relation_can_be_read(pair: tuple[psycopg.Connection, psycopg.Connection]) -> None:
    _, connection = pair
    names = connection.execute(
        "SELECT oid::regclass::text FROM pg_class WHERE oid < 16384 AND relkind IN ('r', 'v') ORDER BY 1"
    ).fetchall()
    assert len(names) > 200
    for (name,) in names:
        connection.execute(f"SELECT * FROM {name} LIMIT 1")


def test_writes_to_system_relations_are_refused(pair: tuple[psycopg.Connection, psycopg.Connection]) -> None:
    _, connection = pair
    for statement in ("DELETE FROM pg_class", "UPDATE pg_proc SET proname = 'x'", "INSERT INTO pg_am VALUES (1)"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(statement)
