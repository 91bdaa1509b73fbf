"""Every configuration parameter of PostgreSQL is there: shown, and set where that can change no answer."""

from __future__ import annotations

import psycopg
import pytest

from tests.oracle import PostgresServer
from tests.server import ShoalServer

_COLUMNS = "name, unit, category, vartype"


@pytest.fixture(scope="module")
def pair(shoal: ShoalServer, postgres_server: PostgresServer):
    with (
        psycopg.connect(shoal.dsn, autocommit=True) as ours,
        psycopg.connect(postgres_server.dsn, autocommit=True) as theirs,
    ):
        yield ours, theirs


def test_all_parameters_of_postgresql_are_listed(pair) -> None:
    names = [
        {row[0] for row in connection.execute("SELECT name FROM pg_show_all_settings()").fetchall()}
        for connection in pair
    ]
    assert names[1] - names[0] == {"restrict_nonsystem_relation_kind"}


def test_they_are_shown_by_show_current_setting_and_pg_settings_alike(pair) -> None:
    ours = pair[0]
    shown = {row[0]: row[1] for row in ours.execute("SHOW ALL").fetchall()}
    for name, value in shown.items():
        assert ours.execute(f'SHOW "{name}"').fetchone()[0] == value
        assert ours.execute("SELECT current_setting(%s)", [name]).fetchone()[0] == value
    rows = ours.execute("SELECT name, current_setting(name) FROM pg_settings").fetchall()
    assert dict(rows) == shown


def test_defaults_are_shown_in_postgresqls_units(pair) -> None:
    ours, theirs = pair
    unused = ours.execute("SELECT name, setting, unit FROM pg_settings WHERE context = 'internal' AND unit IS NOT NULL")
    checked = 0
    for name, setting, unit in unused.fetchall():
        found = theirs.execute("SELECT setting, unit FROM pg_settings WHERE name = %s", [name]).fetchone()
        if found == (setting, unit):  # the same value there
            assert ours.execute(f"SHOW {name}").fetchone() == theirs.execute(f"SHOW {name}").fetchone()
            checked += 1
    assert checked > 30


def test_what_only_plans_depend_on_is_set_and_undone(pair) -> None:
    for connection in pair:
        connection.execute("BEGIN; SET min_parallel_table_scan_size = '1MB'; SET LOCAL geqo_threshold = 3")
        assert connection.execute("SHOW min_parallel_table_scan_size").fetchone() == ("1MB",)
        connection.execute("ROLLBACK")
        assert connection.execute("SHOW min_parallel_table_scan_size").fetchone() == ("8MB",)
        connection.execute("SET cursor_tuple_fraction = 0.5; RESET ALL")
        assert connection.execute("SHOW cursor_tuple_fraction").fetchone() == ("0.1",)


@pytest.mark.parametrize("name", ["shared_buffers", "max_wal_size", "autovacuum", "listen_addresses", "fsync"])
def test_what_there_is_not_cannot_be_changed(pair, name: str) -> None:
    for connection in pair:
        with pytest.raises(psycopg.errors.CantChangeRuntimeParam):
            connection.execute(f"SET {name} = DEFAULT")


def test_functions_of_system_views_give_the_views_rows(pair) -> None:
    for connection in pair:
        for function, view in {
            "pg_show_all_settings": "pg_settings",
            "pg_cursor": "pg_cursors",
            "pg_prepared_statement": "pg_prepared_statements",
            "pg_timezone_abbrevs": "pg_timezone_abbrevs",
        }.items():
            same = connection.execute(f"SELECT (SELECT count(*) FROM {function}()) = (SELECT count(*) FROM {view})")
            assert same.fetchone() == (True,)
        assert connection.execute("SELECT s.name FROM pg_show_all_settings() AS s WHERE s.name = 'port'").rowcount == 1
        assert connection.execute("SELECT a FROM pg_show_all_settings() AS x (a, b) WHERE a = 'port'").rowcount == 1
