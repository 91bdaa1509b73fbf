"""Services of a session for the functions of change streams (catalog/functions/change_streams.py)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from catalog.catalog import Catalog
from catalog.errors import SqlError
from catalog.schema import Role
from engine.changes.stream_reader import Wanted

if TYPE_CHECKING:
    from engine.session.session import Session
    from engine.storage.interface import Reader

AT_ONCE = 10_000  # changes, where no limit is given


class StreamCalls:
    """shoal_changes() and the related functions for a session, with its present catalog and user."""

    def __init__(self, session: Session, catalog: Catalog, user: Role | None) -> None:
        self._session = session
        self._changes = session.node.changes
        self._catalog = catalog
        self._user = user

    @staticmethod
    def _check(after: int | None, limit: int | None) -> None:
        if (limit is not None and limit < 1) or (after is not None and after < 0):
            raise SqlError("22023", '"limit" must be at least 1, and "after" not negative')

    @property
    def _reader(self) -> Reader:
        return self._session.transaction or self._session.node.store.current

    def read(
        self, name: str, after: int | None, limit: int | None, ordinal: int | None
    ) -> Iterable[tuple[object, ...]]:
        """The rows of shoal_changes(). Without a limit, a notice says if there are more. Raises 42704, 42501, 55000,
        57P03, 22023."""
        self._check(after, limit)
        if ordinal is not None and (after is None or ordinal < 0):
            raise SqlError("22023", '"ordinal" must not be negative, and needs "after"')
        session = self._session

        def cut(lsn: int) -> None:
            if limit is None:
                session.warn("00000", f"more changes follow: continue with after => {lsn}", "NOTICE")

        wanted = Wanted(after, limit or AT_ONCE, ordinal)
        return self._changes.read(self._catalog, self._user, self._reader, name, wanted, cut)

    def advance(self, name: str, lsn: int) -> int:
        """The stream's position. Raises 42704, 42501, 55000, 57P03, 22023, 25006; LockWait."""
        transaction = self._session.transaction or self._session.begin_implicit()
        return self._changes.advance(self._catalog, self._user, transaction, name, lsn)

    def reach(self, name: str, after: int | None, limit: int | None) -> int:
        """The LSN that a read with this limit would reach. Raises 42704, 42501, 55000, 57P03, 22023."""
        self._check(after, limit)
        return self._changes.reach(self._catalog, self._user, self._reader, name, after, limit)

    def snapshot(self, name: str) -> int:
        """The LSN of the statement's snapshot in the stream's tablespace. Raises 42704, 42501, 57P03."""
        transaction = self._session.transaction
        seen = self._session.node.store.durable_lsn if transaction is None else transaction.snapshot_lsn
        return self._changes.count_seen(self._catalog, self._user, name, seen)
