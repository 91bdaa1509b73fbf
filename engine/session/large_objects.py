"""Large objects (PostgreSQL 16 manual, chapter 35; be-fsstubs.c and inv_api.c).

    storage id 13, database, OID          -> the owner's OID as JSON
    storage id 14, database, OID, page    -> up to PAGE bytes; missing bytes before the end of the object are zeros

The session's transaction writes these rows like all others. A descriptor belongs to the transaction that opened it.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

import orjson

from catalog.errors import SqlError
from catalog.privileges import acts_as
from catalog.rows import LARGE_OBJECT_PAGES, LARGE_OBJECTS
from catalog.schema import Role
from engine.txn.interface import NO_KEY_UPDATE, UPDATE

if TYPE_CHECKING:
    from engine.session.interface import SessionCore
    from engine.storage.views import Snapshot
    from engine.txn.transaction import Transaction

PAGE = 2048
LIMIT = (2**31 - 1) * PAGE  # bytes of one object
INV_WRITE, INV_READ = 0x20000, 0x40000
_OBJECT = struct.Struct(">III").pack
_PAGE = struct.Struct(">IIII").pack
_BEHIND = 0xFFFFFFFF  # greater than the number of any page


SLICE = 500  # objects that one slice reads: less than a millisecond
_PREFIX = LARGE_OBJECTS.to_bytes(4, "big")


def _value(owner: int) -> bytes:
    """The row of an object."""
    return orjson.dumps({"owner": owner})


async def pause() -> None:
    await asyncio.sleep(0)


@dataclass(slots=True)
class _Owned:
    """The objects (keys) whose rows had these values at a moment, with their rows."""

    snapshot: Snapshot
    values: frozenset[bytes]
    keys: dict[bytes, bytes] = field(default_factory=dict)


@dataclass(slots=True)
class Descriptor:
    oid: int
    writable: bool
    position: int = 0


class LargeObjects:
    """The large objects of a session."""

    def __init__(self, session: SessionCore) -> None:
        self._session = session
        self._opened_in: Transaction | None = None
        self._descriptors: dict[int, Descriptor] = {}
        self._owned: _Owned | None = None

    # ---- objects ----------------------------------------------------------------------------------------------------

    def create(self, oid: int) -> int:
        """Creates an empty object; 0 chooses an OID. Raises 23505, 25006."""
        transaction = self._writing("lo_create()")
        oid = oid or self._session.node.new_oid()
        key = self._key(oid)
        transaction.lock(key, UPDATE)
        if transaction.newest(key) is not None:
            raise SqlError(
                "23505",
                'duplicate key value violates unique constraint "pg_largeobject_metadata_oid_index"',
                detail=f"Key (oid)=({oid}) already exists.",
                schema="pg_catalog",
                table="pg_largeobject_metadata",
                constraint="pg_largeobject_metadata_oid_index",
            )
        user = self._user()
        transaction.put(key, _value(0 if user is None else user.oid))
        return oid

    def unlink(self, oid: int) -> None:
        """Raises 42704, 42501, 25006."""
        transaction = self._writing("lo_unlink()")
        self._check(transaction, oid, "must be owner of")
        self.remove(oid)

    def remove(self, oid: int) -> None:
        """Removes an object, without a check of its owner."""
        transaction = self._writing("lo_unlink()")
        transaction.lock(self._key(oid), UPDATE)
        for key, _ in list(transaction.scan(self._page(oid, 0), self._page(oid, _BEHIND))):
            transaction.put(key, None)
        transaction.put(self._key(oid), None)
        for number in [number for number, item in self._open().items() if item.oid == oid]:
            del self._descriptors[number]

    def rows(self) -> list[tuple[int, int]]:
        """pg_largeobject_metadata of the session's database: (OID, owner)."""
        database = self._session.database_oid
        transaction = self._session.transaction
        reader = transaction if transaction is not None else self._session.node.store.current
        found = reader.scan(_OBJECT(LARGE_OBJECTS, database, 0), _OBJECT(LARGE_OBJECTS, database + 1, 0))
        return [(int.from_bytes(key[8:12], "big"), int(orjson.loads(value)["owner"])) for key, value in found]

    def owned_by(self, owner: int) -> list[tuple[int, int]]:
        """The large objects of a role, in all databases: (database, OID). Between `find_owned` and `forget_owned` only
        changes since then are read."""
        value, known, transaction = _value(owner), self._owned, self._reading()
        if known is None or value not in known.values:
            raise SqlError("XX000", f"the large objects of role {owner} were not looked for")
        keys = dict.fromkeys(key for key, found in known.keys.items() if found == value)
        space = self._session.node.store.of(LARGE_OBJECTS)
        changed = {key for _, key in space.changed_since(LARGE_OBJECTS, known.snapshot.lsn, space.sequenced_lsn)}
        for key in changed.union(key for key in transaction.writes if key.startswith(_PREFIX)):
            keys.pop(key, None)
            if transaction.newest(key) == value:
                keys[key] = None
        return [(int.from_bytes(key[4:8], "big"), int.from_bytes(key[8:12], "big")) for key in sorted(keys)]

    async def find_owned(self, owners: Iterable[int]) -> None:
        """Searches the large objects of these roles, of which there may be millions, in slices, so that other sessions
        run in between."""
        snapshot = self._session.node.store.of(LARGE_OBJECTS).snapshot()
        self._owned = known = _Owned(snapshot, frozenset(map(_value, owners)))
        low, high = _PREFIX, _OBJECT(LARGE_OBJECTS + 1, 0, 0)
        while True:
            part = list(islice(snapshot.scan(low, high), SLICE))
            known.keys.update((key, value) for key, value in part if value in known.values)
            if len(part) < SLICE:
                return
            low = part[-1][0] + b"\0"
            await pause()

    def forget_owned(self) -> None:
        known, self._owned = self._owned, None
        if known is not None:
            known.snapshot.close()

    def give(self, oid: int, owner: int) -> None:
        """Sets another owner, without a check of privileges."""
        transaction = self._writing("ALTER LARGE OBJECT")
        transaction.lock(self._key(oid), NO_KEY_UPDATE)
        transaction.put(self._key(oid), _value(owner))

    # ---- descriptors ------------------------------------------------------------------------------------------------

    def open(self, oid: int, mode: int) -> int:
        """A descriptor. Raises 42704, 42501, 22023."""
        if not mode & (INV_WRITE | INV_READ):
            raise SqlError("22023", f"invalid flags for opening a large object: {mode}")
        writable = bool(mode & INV_WRITE)
        transaction = self._writing("lo_open(INV_WRITE)") if writable else self._reading()
        self._check(transaction, oid, "permission denied for")
        opened = self._open()
        number = next(number for number in range(len(opened) + 1) if number not in opened)
        opened[number] = Descriptor(oid, writable)
        return number

    def close(self, number: int) -> None:
        """Raises 42704."""
        self._descriptor(number)
        del self._descriptors[number]

    def read(self, number: int, length: int) -> bytes:
        """Reads from the descriptor's position on. Raises 42704."""
        item = self._descriptor(number)
        data = self._read(self._reading(), item.oid, item.position, max(length, 0))
        item.position += len(data)
        return data

    def write(self, number: int, data: bytes) -> int:
        """Raises 42704, 55000."""
        item = self._descriptor(number)
        self._must_write(item, number)
        self._write(self._writing("lowrite()"), item.oid, item.position, data)
        item.position += len(data)
        return len(data)

    def seek(self, number: int, offset: int, whence: int) -> int:
        """The new position. Raises 42704, 22023."""
        item = self._descriptor(number)
        if whence not in (0, 1, 2):
            raise SqlError("22023", f"invalid whence setting: {whence}")
        base = (0, item.position, self._size(self._reading(), item.oid) if whence == 2 else 0)[whence]
        if not 0 <= base + offset <= LIMIT:
            raise SqlError("22023", f"invalid large object seek target: {base + offset}")
        item.position = base + offset
        return item.position

    def tell(self, number: int) -> int:
        """Raises 42704."""
        return self._descriptor(number).position

    def truncate(self, number: int, length: int) -> None:
        """Truncates, or extends with zeros. Raises 42704, 55000, 22023."""
        item = self._descriptor(number)
        self._must_write(item, number)
        if not 0 <= length <= LIMIT:
            raise SqlError("22023", f"invalid large object truncation target: {length}")
        transaction = self._writing("lo_truncate()")
        transaction.lock(self._key(item.oid), NO_KEY_UPDATE)
        page, left = divmod(length, PAGE)
        for key, _ in list(transaction.scan(self._page(item.oid, page + 1), self._page(item.oid, _BEHIND))):
            transaction.put(key, None)
        key = self._page(item.oid, page)
        data = transaction.get(key)
        if left:
            transaction.put(key, (data or b"")[:left].ljust(left, b"\0"))
        elif data is not None:
            transaction.put(key, None)
        if not left and page and self._size(transaction, item.oid) < length:
            last = self._page(item.oid, page - 1)
            transaction.put(last, (transaction.get(last) or b"").ljust(PAGE, b"\0"))

    # ---- without descriptors ----------------------------------------------------------------------------------------

    def get(self, oid: int, offset: int, length: int) -> bytes:
        """Bytes of an object; length -1: to its end. Raises 42704, 22023."""
        transaction = self._reading()
        self._check(transaction, oid, "permission denied for")
        if offset < 0:
            raise SqlError("22023", f"invalid large object seek target: {offset}")
        return self._read(transaction, oid, offset, self._size(transaction, oid) if length < 0 else length)

    def put(self, oid: int, offset: int, data: bytes) -> None:
        """Raises 42704, 42501, 22023, 25006."""
        transaction = self._writing("lo_put()")
        self._check(transaction, oid, "permission denied for")
        if not 0 <= offset <= LIMIT:
            raise SqlError("22023", f"invalid large object seek target: {offset}")
        self._write(transaction, oid, offset, data)

    # ---- pages ------------------------------------------------------------------------------------------------------

    def _key(self, oid: int) -> bytes:
        return _OBJECT(LARGE_OBJECTS, self._session.database_oid, oid)

    def _page(self, oid: int, page: int) -> bytes:
        return _PAGE(LARGE_OBJECT_PAGES, self._session.database_oid, oid, page)

    def _size(self, transaction: Transaction, oid: int) -> int:
        for key, value in transaction.scan(self._page(oid, 0), self._page(oid, _BEHIND), reverse=True):
            return int.from_bytes(key[12:16], "big") * PAGE + len(value)
        return 0

    def _read(self, transaction: Transaction, oid: int, position: int, length: int) -> bytes:
        length = min(length, self._size(transaction, oid) - position)
        if length <= 0:
            return b""
        first, skip = divmod(position, PAGE)
        made = bytearray(length)
        for key, value in transaction.scan(self._page(oid, first), self._page(oid, (position + length) // PAGE + 1)):
            at = (int.from_bytes(key[12:16], "big") - first) * PAGE - skip
            begin = max(-at, 0)
            part = value[begin : max(length - at, begin)]
            made[at + begin : at + begin + len(part)] = part
        return bytes(made)

    def _write(self, transaction: Transaction, oid: int, position: int, data: bytes) -> None:
        if position + len(data) > LIMIT:
            raise SqlError("22023", f"invalid large object write request size: {len(data)}")
        transaction.lock(self._key(oid), NO_KEY_UPDATE)
        done = 0
        while done < len(data):
            page, start = divmod(position + done, PAGE)
            part = data[done : done + PAGE - start]
            key = self._page(oid, page)
            old = transaction.get(key) or b""
            transaction.put(key, old[:start].ljust(start, b"\0") + part + old[start + len(part) :])
            done += len(part)

    # ---- the transaction --------------------------------------------------------------------------------------------

    def _reading(self) -> Transaction:
        session = self._session
        if session.transaction is None:
            session.begin_implicit().begin_statement()
        assert session.transaction is not None
        return session.transaction

    def _writing(self, command: str) -> Transaction:
        transaction = self._reading()
        transaction.refuse_if_read_only(command)
        return transaction

    def _open(self) -> dict[int, Descriptor]:
        transaction = self._session.transaction
        if self._opened_in is not transaction:
            self._opened_in, self._descriptors = transaction, {}
        return self._descriptors

    def _descriptor(self, number: int) -> Descriptor:
        found = self._open().get(number)
        if found is None:
            raise SqlError("42704", f"invalid large-object descriptor: {number}")
        return found

    def _must_write(self, item: Descriptor, number: int) -> None:
        if not item.writable:
            raise SqlError("55000", f"large object descriptor {number} was not opened for writing")

    def _user(self) -> Role | None:
        catalog = self._session.catalog
        found = catalog.get(catalog.roles.get(self._session.user_name, 0))
        return found if isinstance(found, Role) else None

    def _check(self, transaction: Transaction, oid: int, otherwise: str) -> None:
        """Raises 42704 if the object does not exist, 42501 if the user is not its owner."""
        row = transaction.get(self._key(oid))
        if row is None:
            raise SqlError("42704", f"large object {oid} does not exist")
        user = self._user()
        if not acts_as(self._session.catalog, user, int(orjson.loads(row)["owner"])):
            raise SqlError("42501", f"{otherwise} large object {oid}")
