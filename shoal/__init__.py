"""Shoal's command line, configuration and composition root: the only place that knows all parts.

As a library it is the embedded database (shoal/embedded), with PEP 249's names:

    import shoal

    with shoal.open("./data") as db:
        db.execute("CREATE TABLE IF NOT EXISTS t (a int PRIMARY KEY, b text)")
        db.execute("INSERT INTO t VALUES (%s, %s)", (1, "one"))
        print(db.execute("SELECT * FROM t").fetchall())
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shoal.embedded.connection import Connection, Cursor
    from shoal.embedded.database import Database, connect, open
    from shoal.embedded.errors import (
        DatabaseError,
        DataError,
        Error,
        IntegrityError,
        InterfaceError,
        InternalError,
        NotSupportedError,
        OperationalError,
        ProgrammingError,
        Warning,
    )
    from shoal.embedded.types import (
        BINARY,
        DATETIME,
        NUMBER,
        ROWID,
        STRING,
        Binary,
        Date,
        DateFromTicks,
        Time,
        TimeFromTicks,
        Timestamp,
        TimestampFromTicks,
    )
    from shoal.embedded.values import Json

apilevel = "2.0"
threadsafety = 2  # threads may share the module and connections
paramstyle = "pyformat"

_PLACES = {
    "shoal.embedded.database": ("Database", "connect", "open"),
    "shoal.embedded.connection": ("Connection", "Cursor"),
    "shoal.embedded.errors": (
        "DataError", "DatabaseError", "Error", "IntegrityError", "InterfaceError", "InternalError",
        "NotSupportedError", "OperationalError", "ProgrammingError", "Warning",
    ),
    "shoal.embedded.types": (
        "BINARY", "DATETIME", "NUMBER", "ROWID", "STRING", "Binary", "Date", "DateFromTicks", "Time", "TimeFromTicks",
        "Timestamp", "TimestampFromTicks",
    ),
    "shoal.embedded.values": ("Json",),
}  # fmt: skip
_FOUND_IN = {name: module for module, names in _PLACES.items() for name in names}


def __getattr__(name: str) -> Any:
    """The library's names are loaded when they are used: the command line does without them."""
    if name not in _FOUND_IN:
        raise AttributeError(f"module 'shoal' has no attribute '{name}'")
    from importlib import import_module

    return getattr(import_module(_FOUND_IN[name]), name)


__all__ = [
    "BINARY", "DATETIME", "NUMBER", "ROWID", "STRING", "Binary", "Connection", "Cursor", "DataError", "Database",
    "DatabaseError", "Date", "DateFromTicks", "Error", "IntegrityError", "InterfaceError", "InternalError", "Json",
    "NotSupportedError", "OperationalError", "ProgrammingError", "Time", "TimeFromTicks", "Timestamp",
    "TimestampFromTicks", "Warning", "apilevel", "connect", "open", "paramstyle", "threadsafety",
]  # fmt: skip
