"""SET and SHOW of PostgreSQL's parameters beside PostgreSQL: which values each takes, how they are shown, and errors.

Shoal refuses a value that would have an effect which it does not have (55P02).
"""

from __future__ import annotations

import psycopg

from tests.oracle import PostgresServer
from tests.server import ShoalServer

VALUES = (
    "x",
    "on",
    "1",
    "-1",
    "0",
    "1MB",
    "1s",
    " 2 min",
    "1.5",
    "0x10",
    "5e2",
    "1 xB",
    "99999999999999",
    "tr",
    "o",
)
SHORT = ("1", "1.5", "0x10")  # a time-out of so many milliseconds ends what comes next
OTHERWISE = frozenset({
    "TimeZone",  # words that are no zone
    "default_text_search_config", "max_stack_depth",  # other errors
    "lc_messages", "lc_monetary", "lc_numeric", "lc_time",  # any value, which has no effect
    "search_path",  # in another quotation
    "temp_tablespaces",  # checked when it is used
    "tcp_keepalives_count", "tcp_keepalives_idle", "tcp_keepalives_interval", "tcp_user_timeout",  # of the system
    "wal_compression",  # on is pglz
    "restrict_nonsystem_relation_kind",  # a client that finds it relies on it
})  # fmt: skip
REFUSED = frozenset({"array_nulls", "transform_null_equals", "default_table_access_method"})


def outcome(connection: psycopg.Connection[tuple[object, ...]], name: str, value: str) -> tuple[object, ...]:
    try:
        connection.execute(f"SET {name} = '{value}'".encode())
        return connection.execute(f"SHOW {name}".encode()).fetchone() or ()
    except psycopg.Error as error:
        return error.sqlstate, error.diag.message_primary, error.diag.message_hint
    finally:
        try:
            connection.execute(f"RESET {name}".encode())
        except psycopg.Error as error:
            assert error.sqlstate in ("55P02", "42704")


def test_values_of_every_parameter(shoal: ShoalServer, postgres_server: PostgresServer) -> None:
    wrong, refused = [], set()
    with (
        psycopg.connect(shoal.dsn, autocommit=True) as ours,
        psycopg.connect(postgres_server.dsn, autocommit=True) as theirs,
    ):
        listed = theirs.execute(
            "SELECT name, min_val, max_val, enumvals FROM pg_settings WHERE context IN ('user', 'superuser')"
        ).fetchall()
        for name, least, most, choices in listed:
            if name in OTHERWISE:
                continue
            for value in (*VALUES, *(item for item in (least, most) if item), *(choices or ())):
                if name.endswith("_timeout") and value in SHORT:
                    continue
                expected, found = outcome(theirs, name, value), outcome(ours, name, value)
                if found == expected:
                    continue
                if len(expected) == 1 and (found[0] == "55P02" or name in REFUSED):
                    refused.add(name)
                elif not (name in REFUSED or found[0] == "55P02"):
                    wrong.append(f"SET {name} = '{value}'\n  PostgreSQL {expected}\n  Shoal      {found}")
        again = [(name, ours.execute(f"SHOW {name}".encode()).fetchone()) for name in ("work_mem", "enable_sort")]
    assert not wrong, "\n".join(wrong[:10])
    assert len(refused) < 50
    assert again == [("work_mem", ("4MB",)), ("enable_sort", ("on",))]
