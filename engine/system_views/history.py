"""Services of a session for functions of backups, LSNs and times (catalog/functions/history.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import orjson

from catalog.errors import SqlError, not_supported
from engine.past.manager import Past, past_of
from engine.session.other_waits import result_of

if TYPE_CHECKING:
    from engine.session.session import Session


class History:
    """The history for one session."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def backup(self, url: str, run: object) -> int:
        """shoal_backup(): the LSN of the backup. Raises LockWait until it is complete, 42501, 25006, 0A000, and errors
        of the backup."""
        session = self._session
        self._session.identity.require_superuser("shoal_backup")
        backups = session.node.backups
        if backups is None:
            raise SqlError("0A000", "backups of this node are not supported")
        if session.transaction is not None:
            session.transaction.refuse_if_read_only("shoal_backup()")
        return cast(int, result_of(session, f"shoal_backup {url}", run, lambda: backups.write(url)))

    def backup_progress(self) -> str | None:
        """shoal_backup_progress(). Raises 42501."""
        self._session.identity.require_superuser("shoal_backup_progress")
        backups = self._session.node.backups
        return None if backups is None else backups.progress()

    def restore_progress(self, name: str) -> str | None:
        """shoal_restore_progress(). Raises 42501."""
        self._session.identity.require_superuser("shoal_restore_progress")
        found = self._session.node.restores.get(name)
        if found is None:
            return None
        return orjson.dumps({"step": found.step, "done": found.done, "total": found.total}).decode()

    def reload(self) -> bool:
        """pg_reload_conf(). Raises 42501, 0A000."""
        self._session.identity.require_superuser("pg_reload_conf")
        node = self._session.present
        if node.configuration is None:
            not_supported("pg_reload_conf(): this database has no configuration to read again")
        return node.configuration.reload()

    def lsn_at(self, time: int, run: object) -> int:
        """shoal_lsn_at(). Raises LockWait if history must be read, 22023, 72000, 0A000."""
        past = self._past()
        known = past.lsn_known(time)
        if known is not None:
            return known
        return cast(int, result_of(self._session, f"shoal_lsn_at {time}", run, lambda: past.lsn_at(time)))

    def time_of(self, lsn: int, run: object) -> int:
        """shoal_time_of(): microseconds since 2000-01-01 UTC. Raises as `lsn_at`."""
        past = self._past()
        return cast(int, result_of(self._session, f"shoal_time_of {lsn}", run, lambda: past.time_of(lsn)))

    def _past(self) -> Past:
        past = past_of(self._session.present)
        if past is None:
            not_supported("reading the past on this server")
        return past

    def lsn(self, which: str) -> int:
        """pg_default's LSN, durable or sequenced."""
        space = self._session.node.store.of(0)
        return space.durable_lsn if which == "durable" else space.sequenced_lsn
