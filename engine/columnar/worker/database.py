"""The worker's DuckDB: its tables in a file (columns_file.py), spilling into a directory of its own, closed to the
outside.

Settings: design.md's sandbox, and PostgreSQL's semantics where they are settings. After them the configuration is
locked, so that nothing that runs later can change them back.
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
"""Of empty tables: reading them is what fixes a transaction's snapshot, in both databases."""

_BROKEN = "projection_pullup"
"""The optimizer of DuckDB 2.0 whose plans may name columns that are not there any more ("Failed to bind column
reference"): of lateral joins and sub-queries without rows, for example."""
_NEEDED = ("filter_pushdown", "join_order", "deliminator", "limit_pushdown", "top_n", "unused_columns", "cte_inlining")
"""The optimizers without which joins would be products, or whole tables would be sorted or kept."""
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
    """A connection to a new DuckDB whose tables go with it. `memory_limit` in bytes."""
    return open_with_columns(Room(memory_limit, spill_directory), threads)[0]


def open_with_columns(room: Room, threads: int) -> tuple[Any, ColumnsFile]:
    """A connection to a new DuckDB, and the file of its tables, which is made if it is not there."""
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
    """See `Steady` in catalog/duckdb/nodes.py."""
    raise ValueError(message)


_planning = threading.Lock()


@contextlib.contextmanager
def careful_planning(connection: Any, sql: str, plainly: bool) -> Iterator[None]:
    """Keeps DuckDB 2.0 from a plan that it fails to run, which would end the whole database. `plainly`: it has failed
    so, and is planned by the optimizers alone that it cannot do without.

    A LEFT JOIN turned into a RIGHT JOIN has two sources of rows; under UNNEST, and with another join above it, their
    dictionaries are taken for one ("dict-surviving join ... build pipeline is not single-source"). So joins of queries
    with UNNEST keep their sides. The setting is the database's: such queries are planned one at a time.
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
    """Whether DuckDB has run into a defect of its own: it takes no more statements then."""
    text = str(error)
    return text.startswith(("INTERNAL Error", "FATAL Error")) or "has been invalidated" in text


def pinned_cursor(connection: Any) -> Any:
    """A cursor in a transaction that sees what is committed now, whatever commits later."""
    cursor = connection.cursor()
    cursor.execute("BEGIN")
    cursor.execute(_PIN).fetchall()
    return cursor
