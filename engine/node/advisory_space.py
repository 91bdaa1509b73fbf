"""The advisory locks of all sessions of a node. Those of one session: engine/session/advisory.py.

A lock's name is (database, first number, second number, 1 for one bigint or 2 for two integers), its mode EXCLUSIVE or
TABLE_SHARE of engine/txn/locks.py.
"""

from __future__ import annotations

from collections.abc import Hashable

from engine.txn.locks import EXCLUSIVE, TABLE_CONFLICTS, TABLE_SHARE, Contended, LockSpace, Owner

LockName = tuple[int, int, int, int]
MODE_NAMES = {EXCLUSIVE: "ExclusiveLock", TABLE_SHARE: "ShareLock"}


class AdvisorySpace(LockSpace):
    """The locks of all sessions of a node."""

    def __init__(self) -> None:
        super().__init__(TABLE_CONFLICTS)

    def weaken(self, owner: Owner, name: Hashable, modes: int) -> None:
        """Reduces the owner's lock to these modes."""
        if not modes:
            owner.table_locks.pop(name, None)
            self.release(owner, [name])
            return
        owner.table_locks[name] = modes
        place = self._held.get(name)
        if isinstance(place, Contended):
            place.holders[owner] = modes
            self._grant(name, place)
