"""Shoal's command line, configuration and composition root: the only place that knows all parts.

As a library it is the embedded database (shoal/embedded), with PEP 249's names:

    import shoal

    with shoal.open("./data") as db:
        db.execute("CREATE TABLE IF NOT EXISTS t (a int PRIMARY KEY, b text)")
        db.execute("INSERT INTO t VALUES (%s, %s)", (1, "one"))
        print(db.execute("SELECT * FROM t").fetchall())

The parts:

    cli.py, commands/     the command line (its page docs/cli.md is written by tools/write_cli_page.py) and the commands
    serve.py              connects the parts of a server, and runs it; engine/node/node.py is the result
    config.py             the configuration;  reload.py  changes it while the server runs;  auto_conf.py  the file that
                          ALTER SYSTEM writes
    access.py             host rules and certificates;  data_directory.py  the tablespaces of a directory
    cluster/              a node of a cluster;  router.py  `shoal router`;  logstore.py  `shoal logstore`
    archive/              backups;  history.py  the past that a single node keeps
    admin/, console/      the administration port: metrics, health; the web page with its API
    embedded/             the database inside a program
    logs.py               the formats of the log; what sessions write to it: engine/session/statement_log.py
    stacks.py             stack sizes of threads;  descriptors.py  limits of open files
    failure.py            ends the process after an error from which it cannot recover
    directory_watch.py    ends a server whose data directory was removed
"""

from __future__ import annotations

import sys
import warnings
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path
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

_BESIDE = ("catalog", "engine", "replication", "wire")


def _take_packages() -> None:
    """Loads Shoal's other packages from the folder of this one, even if a program has folders or files with these names
    in the folder of its script, which Python would find first. Raises ImportError if such a module is loaded
    already."""
    place = str(Path(__file__).resolve().parent.parent)
    for name in _BESIDE:
        found = PathFinder.find_spec(name, [place])
        if found is None or found.loader is None:
            continue
        loaded = sys.modules.get(name)
        if loaded is not None:
            if getattr(loaded, "__file__", None) != found.origin:
                raise ImportError(
                    f'Shoal needs its own package "{name}", and this program has loaded another module of that name: '
                    f"{getattr(loaded, '__file__', None) or loaded!r}. Rename it.",
                    name=name,
                )
            continue
        other = PathFinder.find_spec(name)
        if other is not None and other.origin is not None and other.origin != found.origin:
            warnings.warn(
                f'"{name}" is the name of a package of Shoal: {other.origin} cannot be imported beside it. Rename it.',
                RuntimeWarning,
                stacklevel=3,
            )
        module = sys.modules[name] = module_from_spec(found)
        try:
            found.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise


_take_packages()

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
    """Loads the library's names at their first use: the command line does not need them."""
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
