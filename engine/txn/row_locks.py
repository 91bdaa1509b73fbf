"""Locks of rows and of index keys.

A transaction that finds an existing unique key *looks on* (`wait_for_writer`): it waits until no writer of the key
holds it, and then holds nothing itself.

The keys of a bulk insert are millions and have no entries of their own. Its transaction *claims* the storage ids of its
runs, and every key in a run is locked as if it had an entry. A request for such a key makes the entry, and queues
behind it. Existing locks of others are compared beside the event loop: `watch` records new locks meanwhile, so that not
all locks have to be read again. Transactions without such a neighbour have no extra cost.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

from engine.storage.keys import PREFIX_BYTES
from engine.txn.interface import NO_KEY_UPDATE, UPDATE
from engine.txn.locks import LOOKS_ON, ROW_CONFLICTS, Contended, LockSpace, Owner, Ticket

if TYPE_CHECKING:
    from engine.storage.runs import BulkRun

MOVES_KEPT = 4096  # of each kind; they serve transactions that wait for the row at that time


class Claimant(Owner, Protocol):
    """A transaction whose bulk runs lock the keys that they contain."""

    runs: list[BulkRun]

    def has_in_runs(self, key: bytes) -> bool: ...

    def has_written(self, key: bytes) -> bool: ...


class KeyChange(NamedTuple):
    """A row was inserted under a key where the transaction had deleted another (`old_key` None), or the row of the old
    key got this key."""

    mark: int  # the transaction's mark at that time (`Transaction.mark`)
    old_key: bytes | None
    key: bytes


def _keep_latest(kept: dict[bytes, Any], key: bytes, value: object) -> None:
    kept.pop(key, None)
    if len(kept) >= MOVES_KEPT:
        del kept[next(iter(kept))]
    kept[key] = value


class RowLocks(LockSpace):
    """The space of rows, of all tables and indexes."""

    may_reorder = False

    def __init__(self) -> None:
        super().__init__(ROW_CONFLICTS)
        # Rows that got another key lately, by their former key: (the new key, LSN of the commit).
        self.moved: dict[bytes, tuple[bytes, int]] = {}
        # Keys of rows that one transaction has lately deleted and inserted again, and the LSN of its commit.
        self.renewed: dict[bytes, int] = {}
        self._claims: dict[bytes, list[Claimant]] = {}  # by storage id, as the prefix of its keys
        self._watches: dict[bytes, list[list[bytes]]] = {}  # of pending claims; each has its place

    # ---- locks ------------------------------------------------------------------------------------------------------

    def acquire(self, owner: Owner, held_modes: dict[Hashable, int], name: Hashable, mode: int) -> Ticket | None:
        assert owner.waiting is None, "a transaction that waits cannot ask for another lock"
        if self._committed:
            self._tell(owner, name)
        place = self._held.get(name)
        if place is None and not (self._claims and (place := self._enter_claim(name, owner))):  # type: ignore[arg-type]
            self._held[name] = owner
            held_modes[name] = mode
            return None
        return self._acquire_taken(owner, held_modes, name, mode, place)

    def would_block(self, owner: Owner, name: Hashable, mode: int) -> bool:
        if self._claims and name not in self._held:
            self._enter_claim(name, owner)  # type: ignore[arg-type]
        return super().would_block(owner, name, mode)

    def all_free(self, names: Sequence[bytes]) -> bool:
        """Whether all these locks are free, and no claim can include them."""
        return self._held.keys().isdisjoint(names) and not (
            self._claims and any(name[:PREFIX_BYTES] in self._claims for name in names)
        )

    def take_free(self, owner: Owner, held_modes: dict[Hashable, int], names: Sequence[bytes], mode: int) -> None:
        """Takes locks that are all free."""
        self._held.update(dict.fromkeys(names, owner))
        held_modes.update(dict.fromkeys(names, mode))

    def take_all(self, owner: Owner, held_modes: dict[Hashable, int], names: Sequence[bytes], mode: int) -> bool:
        """Takes locks if all of them are free, and none has a commit to tell of. False: one is not so, and nothing has
        happened."""
        told = self._committed
        if not self.all_free(names) or (told and not told.keys().isdisjoint(names)):
            return False
        self.take_free(owner, held_modes, names, mode)
        return True

    def note_key_changes(self, changes: Sequence[KeyChange], store: Any) -> None:
        """Records the key changes of a committed transaction, which still has the locks."""
        renewed: set[bytes] = set()
        first_keys: dict[bytes, bytes] = {}  # by the present key of the row
        for change in changes:
            if change.old_key is None:
                renewed.add(change.key)
                first_keys.pop(change.key, None)
            elif change.old_key in first_keys:
                first_keys[change.key] = first_keys.pop(change.old_key)
            elif change.old_key not in renewed:  # else the transaction has inserted the row: nobody else has seen it
                first_keys[change.key] = change.old_key
        for key, first_key in first_keys.items():
            is_elsewhere = key[:PREFIX_BYTES] != first_key[:PREFIX_BYTES]  # in another partition, if it is still there
            newest = store.newest(first_key if is_elsewhere else key)
            if key == first_key:
                renewed.discard(key)  # it has its key again
            if newest is not None and (is_elsewhere or newest[1] is not None):
                _keep_latest(self.moved, first_key, (key, newest[0]))
        for key in renewed:
            newest = store.newest(key)
            if newest is not None and newest[1] is not None:
                _keep_latest(self.renewed, key, newest[0])

    def wait_for_writer(self, owner: Owner, name: bytes, is_there: bool = True) -> Ticket | None:
        """The ticket for looking on; None if no other writer of the name holds it, or, if the key does not exist
        (`is_there`), no other may insert it. Raises 40P01."""
        place = self._held.get(name)
        if place is None and self._claims:
            place = self._enter_claim(name, owner)
        if place is None or place is owner:
            return None
        holders = cast("Iterable[Claimant]", place.holders if isinstance(place, Contended) else (place,))
        if not any(
            holder is not owner
            and self._modes_of(holder, name) >= NO_KEY_UPDATE
            and (not is_there or holder.has_written(name))
            for holder in holders
        ):
            return None
        entry = self._make_contended(name, place)
        entry.looked_on = True
        return self._queue(entry, Ticket(self, name, owner, LOOKS_ON), len(entry.waiters))

    def _is_blocked(self, entry: Contended, owner: Owner, mode: int) -> bool:
        return self._kept_out(entry, owner, mode)

    def _place_in_queue(self, entry: Contended, owner: Owner, own: int, mode: int) -> int:
        return 0 if own else len(entry.waiters)

    # ---- keys that bulk runs lock -----------------------------------------------------------------------------------

    def claim(self, owner: Claimant, prefix: bytes) -> None:
        """From now on the owner locks all keys of its runs under a storage id, in the mode UPDATE. Nobody else holds a
        lock of such a key (engine/bulk/claims.py)."""
        self._claims.setdefault(prefix, []).append(owner)

    def unclaim(self, owner: Claimant, prefixes: Iterable[bytes]) -> None:
        """Ends claims. Claimed keys that have become separate locks are released like others."""
        for prefix in prefixes:
            self._claims[prefix] = [item for item in self._claims[prefix] if item is not owner]
            self._forget_claims(prefix)

    def _forget_claims(self, prefix: bytes) -> None:
        if not self._claims[prefix] and prefix not in self._watches:
            del self._claims[prefix]

    def claimants(self, prefix: bytes, owner: Owner) -> list[Claimant]:
        """Other transactions with claims under a storage id."""
        return [item for item in self._claims.get(prefix, ()) if item is not owner]

    def names(self) -> list[Any]:
        """All locked names."""
        return list(self._held)

    def watch(self, prefix: bytes) -> list[bytes]:
        """A list that receives new locks under a storage id, until `unwatch`."""
        new: list[bytes] = []
        self._watches.setdefault(prefix, []).append(new)
        self._claims.setdefault(prefix, [])
        return new

    def unwatch(self, prefix: bytes, new: list[bytes]) -> None:
        """Ends a watch."""
        watches = [item for item in self._watches.pop(prefix) if item is not new]
        if watches:
            self._watches[prefix] = watches
        self._forget_claims(prefix)

    def is_own(self, owner: Owner, name: bytes) -> bool:
        """Whether no other owner holds it."""
        place = self._held.get(name)
        return place is owner or (isinstance(place, Contended) and place.holders.keys() == {owner})

    def _enter_claim(self, name: bytes, asker: Owner) -> Owner | None:
        """Makes a separate lock of a key that another transaction's claim locks; None if no claim locks it."""
        prefix = name[:PREFIX_BYTES]
        for watch in self._watches.get(prefix, ()):
            watch.append(name)
        for owner in self._claims.get(prefix, ()):
            if owner is not asker and owner.has_in_runs(name):
                self._held[name] = owner
                owner.row_locks[name] = UPDATE
                return owner
        return None
