"""The worker's DuckDB: its tables are in a file (columns_file.py), and it spills into its own directory. It has no
access to other files.

Some settings restrict it, others select PostgreSQL's semantics. The last one locks the configuration, so that no query
can change them.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import duckdb

from engine.columnar.worker.columns_file import ColumnsFile
from engine.columnar.worker.room import Room

_PIN = "SELECT p.x FROM pin AS p, columns.pin AS q"
"""Reads two empty tables, which fixes a transaction's snapshot in both databases."""

_BROKEN = "projection_pullup"
"""An optimizer of DuckDB 2.0 whose plans may refer to removed columns ("Failed to bind column reference"), for example
with lateral joins and with sub-queries without rows."""
_NEEDED = ("filter_pushdown", "join_order", "deliminator", "limit_pushdown", "top_n", "unused_columns", "cte_inlining")
"""The optimizers without which joins would be Cartesian products, or whole tables would be sorted or materialized."""
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
    f"disabled_optimizers='{_BROKEN}'",
    "allowed_configs=['disabled_optimizers']",
    "lock_configuration=true",
)


def open_database(memory_limit: int, threads: int, spill_directory: str) -> Any:
    """Returns a connection to a new DuckDB in memory. `memory_limit` is in bytes."""
    return open_with_columns(Room(memory_limit, spill_directory), threads)[0]


def open_with_columns(room: Room, threads: int) -> tuple[Any, ColumnsFile]:
    """Returns a connection to a new DuckDB, and the file of its tables, which is created if it does not exist."""
    config = {
        "memory_limit": f"{room.memory_limit // 1024}KiB",
        "threads": threads,
        "temp_directory": room.spill_directory,
    }
    if room.spill:
        config["max_temp_directory_size"] = f"{room.spill // 1024}KiB"
    connection = duckdb.connect(":memory:", config=config)
    columns = ColumnsFile(connection, room.columns_path)
    for setting in _SETTINGS:
        connection.execute("SET " + setting)
    connection.execute("CREATE TABLE pin (x INTEGER)")
    text, nothing = connection.sqltype("VARCHAR"), connection.sqltype("NULL")
    connection.create_function("raise_error", _raise, [text], nothing, null_handling="special", side_effects=False)
    return connection, columns


def _raise(message: str) -> None:
    """Raises an error in a query (`Steady` in catalog/duckdb/nodes.py)."""
    raise ValueError(message)


_planning = threading.Lock()


@contextlib.contextmanager
def careful_planning(connection: Any, sql: str, plainly: bool) -> Iterator[None]:
    """Prevents plans that DuckDB 2.0 fails to run, which would invalidate the whole database. `plainly`: the query has
    failed in this way, so only the indispensable optimizers plan it.

    A LEFT JOIN that the optimizer turns into a RIGHT JOIN has two sources of rows. Under UNNEST, and with another join
    above it, DuckDB mistakes their dictionaries for one ("dict-surviving join ... build pipeline is not
    single-source"). So joins of queries with UNNEST keep their sides. The setting applies to the whole database, so
    only one such query is planned at a time.
    """
    if not plainly and "unnest(" not in sql:
        yield
        return
    with _planning, connection.cursor() as beside:
        if plainly:
            known = [name for (name,) in beside.execute("SELECT name FROM duckdb_optimizers()").fetchall()]
            disabled = ",".join(name for name in known if name not in _NEEDED)
        else:
            disabled = f"{_BROKEN},build_side_probe_side"
        beside.execute(f"SET disabled_optimizers='{disabled}'")
        try:
            yield
        finally:
            beside.execute(f"SET disabled_optimizers='{_BROKEN}'")


def is_fatal(error: BaseException) -> bool:
    """Whether DuckDB has met an internal error, after which it accepts no more statements."""
    text = str(error)
    return text.startswith(("INTERNAL Error", "FATAL Error")) or "has been invalidated" in text


def pinned_cursor(connection: Any) -> Any:
    """Returns a cursor in a transaction whose snapshot is the current state."""
    cursor = connection.cursor()
    cursor.execute("BEGIN")
    cursor.execute(_PIN).fetchall()
    return cursor
