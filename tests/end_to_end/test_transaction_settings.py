"""The modes of a transaction as settings: SHOW, current_setting, pg_settings, SET and set_config tell and change one
thing, on both servers."""

from __future__ import annotations

import itertools

import psycopg
import pytest

from tests.oracle import PostgresServer
from tests.server import ShoalServer

_MODES = {
    "transaction_isolation": ("ISOLATION LEVEL SERIALIZABLE", "serializable", "read committed"),
    "transaction_read_only": ("READ ONLY", "on", "off"),
    "transaction_deferrable": ("DEFERRABLE", "on", "off"),
}
_WAYS = {
    "SHOW": "SHOW {0}",
    "current_setting": "SELECT current_setting('{0}')",
    "pg_settings": "SELECT setting FROM pg_settings WHERE name = '{0}'",
}
_CHANGES = {
    "BEGIN": ["BEGIN {mode}"],
    "SET TRANSACTION": ["BEGIN", "SET TRANSACTION {mode}"],
    "SET": ["BEGIN", "SET {name} = '{value}'"],
    "SET LOCAL": ["BEGIN", "SET LOCAL {name} = '{value}'"],
    "set_config": ["BEGIN", "SELECT set_config('{name}', '{value}', true)"],
    "nothing": ["BEGIN"],
    "no block": [],
}


_CASES = [  # the SELECT of set_config is a query, before which two of the modes have to be set
    (name, change)
    for name, change in itertools.product(_MODES, _CHANGES)
    if change != "set_config" or name == "transaction_read_only"
]


@pytest.mark.parametrize(("name", "change"), _CASES)
def test_the_modes_are_shown_as_they_are(server: ShoalServer | PostgresServer, name: str, change: str) -> None:
    mode, value, default = _MODES[name]
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        for statement in _CHANGES[change]:
            connection.execute(statement.format(mode=mode, name=name, value=value))
        expected = default if change in ("nothing", "no block") else value
        told = {way: connection.execute(text.format(name)).fetchone()[0] for way, text in _WAYS.items()}
        assert told == dict.fromkeys(_WAYS, expected)
        connection.execute("ROLLBACK")
        assert connection.execute(f"SELECT current_setting('{name}')").fetchone() == (default,)


def test_read_only_by_a_setting_is_read_only(server: ShoalServer | PostgresServer) -> None:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        for change in ("SET transaction_read_only = on", "SELECT set_config('transaction_read_only', 'on', true)"):
            connection.execute("BEGIN")
            connection.execute(change)
            with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
                connection.execute("CREATE TABLE never (a int)")
            connection.execute("ROLLBACK")
