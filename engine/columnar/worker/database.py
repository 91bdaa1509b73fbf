"""The worker's DuckDB: in memory, spilling into a directory of its own, closed to the outside.

Settings: design.md's sandbox, and PostgreSQL's semantics where they are settings. After them the configuration is
locked, so that nothing that runs later can change them back.
"""

from __future__ import annotations

from typing import Any

import duckdb

PIN = "pin"  # an empty table: reading it is what fixes a transaction's snapshot

_SETTINGS = (
    "enable_external_access=false",
    "autoload_known_extensions=false",
    "autoinstall_known_extensions=false",
    "allow_community_extensions=false",
    "python_enable_replacements=false",
    "integer_division=true",
    "default_null_order='nulls_last_on_asc_first_on_desc'",
    "TimeZone='UTC'",
    "preserve_insertion_order=true",
    "lock_configuration=true",
)


def open_database(memory_limit: int, threads: int, spill_directory: str) -> Any:
    """A connection to a new DuckDB. `memory_limit` in bytes."""
    connection = duckdb.connect(
        ":memory:",
        config={
            "memory_limit": f"{memory_limit // 1024}KiB",
            "threads": threads,
            "temp_directory": spill_directory,
        },
    )
    for setting in _SETTINGS:
        connection.execute("SET " + setting)
    connection.execute(f"CREATE TABLE {PIN} (x INTEGER)")
    return connection


def pinned_cursor(connection: Any) -> Any:
    """A cursor in a transaction that sees what is committed now, whatever commits later."""
    cursor = connection.cursor()
    cursor.execute("BEGIN")
    cursor.execute(f"SELECT x FROM {PIN}").fetchall()
    return cursor
