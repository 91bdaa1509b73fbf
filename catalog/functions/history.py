"""Functions of backups, LSNs and commit times (engine/system_views/history.py), and of the configuration.

shoal_backup(url)                   makes a backup, and returns its last LSN
shoal_backup_progress()             the progress of the running backup as JSON, or NULL
shoal_restore_progress(name)        the progress of a database's restore from a backup as JSON, or NULL
shoal_lsn_at(time)                  the LSN of the last commit up to a time
shoal_time_of(lsn)                  the commit time of an LSN
pg_reload_conf()                    reads the configuration again, and returns whether it is in effect
pg_current_wal_lsn() and similar    the LSNs of pg_default's changelog
"""

from __future__ import annotations

from typing import Any, Protocol, cast

from catalog.functions.base import CallContext, Function, Trait
from catalog.functions.registry import declare, implement, mark
from catalog.types import oids


class _History(Protocol):
    def backup(self, url: str, run: object) -> int: ...
    def backup_progress(self) -> str | None: ...
    def restore_progress(self, name: str) -> str | None: ...
    def reload(self) -> bool: ...
    def lsn(self, which: str) -> int: ...
    def lsn_at(self, time: int, run: object) -> int: ...
    def time_of(self, lsn: int, run: object) -> int: ...


def _history(call: CallContext) -> _History:
    return cast(_History, cast(Any, call.session).surroundings.history)


declare(Function(9920, "shoal_backup", "shoal_backup", "f", True, False, "v", (oids.TEXT,), oids.INT8, 0, 0))
implement(
    "shoal_backup",
    lambda call, url: _history(call).backup(url, call),
    needs_session=True,
    traits=(Trait.LEADER, Trait.ALL_TABLESPACES),
)
declare(Function(9921, "shoal_backup_progress", "shoal_backup_progress", "f", True, False, "v", (), oids.TEXT, 0, 0))
implement("shoal_backup_progress", lambda call: _history(call).backup_progress(), needs_session=True)
declare(
    Function(
        9924, "shoal_restore_progress", "shoal_restore_progress", "f", True, False, "v", (oids.TEXT,), oids.TEXT, 0, 0
    )
)
implement("shoal_restore_progress", lambda call, name: _history(call).restore_progress(name), needs_session=True)


implement("pg_reload_conf", lambda call: _history(call).reload(), needs_session=True, traits=(Trait.SESSION_ONLY,))
declare(Function(9922, "shoal_lsn_at", "shoal_lsn_at", "f", True, False, "v", (oids.TIMESTAMPTZ,), oids.INT8, 0, 0))
implement("shoal_lsn_at", lambda call, time: _history(call).lsn_at(time, call), needs_session=True)
declare(Function(9923, "shoal_time_of", "shoal_time_of", "f", True, False, "v", (oids.INT8,), oids.TIMESTAMPTZ, 0, 0))
implement("shoal_time_of", lambda call, lsn: _history(call).time_of(lsn, call), needs_session=True)


def _declare_lsn(function: str, which: str) -> None:
    implement(function, lambda call: _history(call).lsn(which), needs_session=True)


for _function, _which in (
    ("pg_current_wal_lsn", "durable"),
    ("pg_current_wal_flush_lsn", "durable"),
    ("pg_current_wal_insert_lsn", "sequenced"),
):
    _declare_lsn(_function, _which)
mark(Trait.LEADER, "shoal_backup_progress", "shoal_restore_progress")
