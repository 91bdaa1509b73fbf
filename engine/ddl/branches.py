"""CREATE DATABASE ... FROM another database: a branch, whose tables share the stored rows of its parent.

The schema objects are copied under new OIDs. The storage ids of copied tables and indexes are based on the parent's
(engine/storage/branch_storage.py), and sequences get copies of their states. No row is copied. Writers of the parent's
tables are blocked until the commit is sequenced, so that it lies between two of their transactions. After that, a
writer in the parent saves the values that it overwrites for the branch.

For a branch AS OF an earlier moment, the objects are those of that moment, and later writes are undone in the branch:
the saved values start with the earlier values of all changed keys. Those keys come from memory, or for an old moment
from a comparison that ran before anything was locked (engine/statements/branches.py). Storage that the parent has given
up since (TRUNCATE, DROP, a rewrite) is copied, and its storage ids have no base.

From a database in a backup, everything is copied. Its owners and grantees become the roles with the same names here.

Everything is stored in the same tablespace as in the parent. If that tablespace does not exist here (it was dropped, or
the backup is another server's), it is the one with the same name, or else pg_default.

Storage that a parent gives up while branches are based on it remains as an *orphan* (a row under ORPHANS), until the
last branch is dropped.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, Protocol, TypeVar

from catalog.catalog import Catalog
from catalog.errors import SqlError
from catalog.event_triggers import EventTrigger
from catalog.privileges import DATABASE_OWNER, parse
from catalog.row_types import is_row_type
from catalog.rows import ORPHANS
from catalog.schema import (
    BOOTSTRAP_ROLE_OID,
    DEFAULT_TABLESPACE_OID,
    IN_SCHEMAS,
    Composite,
    Database,
    ForeignServer,
    ForeignWrapper,
    Index,
    Role,
    Schema,
    SchemaObject,
    Sequence,
    Table,
    Tablespace,
    UserCast,
    UserMapping,
)
from catalog.system import derived_oids
from catalog.types.base import TypeRef
from engine.ddl.context import CopyStorage, DdlContext
from engine.storage.branch_storage import base_key, kept_id, leans
from engine.storage.columns import Column
from engine.storage.keys import PREFIX_BYTES, storage_prefix
from engine.txn.sequences import state_key

T = TypeVar("T")
_ORPHANS = storage_prefix(ORPHANS)
_SYSTEM_SCHEMAS = ("pg_catalog", "information_schema", "pg_toast")
# Fields that contain OIDs of other objects, at any depth of an object. Other fields contain numbers of another kind.
_REFERENCES = frozenset((
    "oid", "schema", "array_oid", "base_oid", "relation", "table", "index", "references", "sequence", "parent",
    "parents", "indexes", "depends_on", "operators", "operator_class", "collation", "domain", "function", "constraint",
    "dictionaries",
    "extension", "source", "target", "left", "right", "result", "commutator", "negator", "restrict", "join",
    "transition", "final", "combine", "serial", "deserial", "sort_operator", "moving_transition", "moving_inverse",
    "moving_final", "subtype", "multirange", "range", "difference", "server", "wrapper", "handler", "validator",
))  # fmt: skip
_ROLES = frozenset(("owner", "role", "roles"))  # fields that contain OIDs of roles


class Then(Protocol):
    """A database at a moment."""

    @property
    def catalog(self) -> Catalog:
        """The catalog at that moment."""

    @property
    def stored_here(self) -> bool:
        """Whether the database is stored on this node, so that a branch can share its storage. False if it has been
        dropped since."""

    @property
    def prepared(self) -> Mapping[int, int]:
        """Storage ids for the branch, by the storage ids of their bases. For these, changes up to a later moment are
        already saved."""

    def get(self, key: bytes) -> bytes | None:
        """The value under a key at that moment."""

    def get_changed(self, storage_id: int) -> Iterable[bytes]:
        """The keys that were written under a storage id since that moment, or since the prepared state. Reads sequenced
        state."""

    def batches(self, storage_id: int) -> AsyncIterator[tuple[Column, Column]]:
        """The content of a storage id, as columns of keys and values, in any order."""


def parent_at(context: DdlContext, then: Then | None, name: str) -> Database | None:
    """The database with this name, now or at that moment."""
    catalog = context.catalog if then is None else then.catalog
    found = catalog.get(catalog.databases.get(name, 0) if then is None else catalog.database)
    return found if isinstance(found, Database) else None


def create(context: DdlContext, parent: Database, made: Database, then: Then | None) -> None:
    """Makes `made` a branch of the parent, as of now or of `then`, or a copy of a database that is not stored here.
    Raises LockWait, 0A000, 55006, 3D000, 42704."""
    here = then is None or then.stored_here
    now = context.catalog_of(parent.oid) if here else Catalog()
    catalog = now if then is None else then.catalog
    found = _objects(catalog, parent.oid)
    for item in _objects(now, parent.oid):
        if isinstance(item, Table):
            context.lock_relation(item.oid, "share")
    roles = {} if here else _same_roles(catalog, context.catalog, found)
    places = _same_places(context, catalog, found)
    copy = Copy(context, roles, places, {} if then is None else then.prepared)
    copy.number(found)
    settled = catalog.get(parent.oid)
    assert isinstance(settled, Database)
    defaults = tuple(copy.of(item) for item in settled.default_acls)
    changes: dict[int, SchemaObject | None] = {made.oid: replace(made, default_acls=defaults)}
    for item in found:
        made_of = copy.of(item)
        if isinstance(made_of, Schema | UserCast | ForeignWrapper | ForeignServer | UserMapping | EventTrigger):
            made_of = replace(made_of, database=made.oid)
        changes[made_of.oid] = made_of
    context.change(changes, granted=False)
    _share(context, copy, now, then)
    for item in found:
        if isinstance(item, Sequence):
            key = state_key(item.storage_id)
            state = context.sequence_state(item) if then is None else then.get(key)
            if state is not None:
                context.transaction.put(state_key(copy.storage_ids[item.storage_id]), state)


def storage_of(catalog: Catalog, database: int) -> dict[int, int]:
    """The storage ids of a database's tables and indexes, each with its tablespace (OID)."""
    return {item.storage_id: item.tablespace for item in _objects(catalog, database) if isinstance(item, Table | Index)}


def _objects(catalog: Catalog, database: int) -> list[SchemaObject]:
    """The objects in a database, without temporary objects and the content of PostgreSQL's own schemas."""
    schemas = {
        item.oid: item
        for item in catalog.objects.values()
        if isinstance(item, Schema)
        and item.database == database
        and item.name not in _SYSTEM_SCHEMAS
        and not item.name.startswith("pg_temp_")
    }
    inside = [item for item in catalog.objects.values() if isinstance(item, IN_SCHEMAS) and item.schema in schemas]
    outside = UserCast | ForeignWrapper | ForeignServer | UserMapping | EventTrigger
    others = [item for item in catalog.objects.values() if isinstance(item, outside) and item.database == database]
    return [*schemas.values(), *inside, *others]


def _same_roles(then: Catalog, now: Catalog, items: Iterable[SchemaObject]) -> dict[int, int]:
    """The present roles (OIDs) by the roles of that moment. Raises 42704 for owners and grantees that do not exist."""
    named = {item.name: item.oid for item in now.objects.values() if isinstance(item, Role)}
    found = {item.oid: item.name for item in then.objects.values() if isinstance(item, Role)}
    owners, grantees = set[int](), set[str]()
    for item in items:
        _note_roles(item, owners, grantees)
    wanted = grantees | {found[oid] for oid in owners if oid in found}
    missing = sorted(name for name in wanted - named.keys() if not name.startswith("pg_"))
    if missing:
        raise SqlError(
            "42704",
            f'role "{missing[0]}" does not exist',
            hint=f"The database has objects of, or privileges for, {', '.join(missing)}: CREATE ROLE first.",
        )
    return {oid: named.get(name, BOOTSTRAP_ROLE_OID) for oid, name in found.items()}


def _same_places(context: DdlContext, then: Catalog, items: Iterable[SchemaObject]) -> dict[int, int]:
    """The present tablespaces (OIDs) of the items, by those of that moment. They cannot be dropped until the
    transaction ends. An item without a present tablespace goes to pg_default, with a notice."""
    now, found = context.catalog, dict[int, int]()
    for oid in sorted({item.tablespace for item in items if isinstance(item, Table | Index | Sequence)}):
        old, same = then.get(oid), now.get(oid)
        if not isinstance(old, Tablespace) or oid == DEFAULT_TABLESPACE_OID:
            continue
        if not isinstance(same, Tablespace) or same.identity != old.identity:
            same = now.get(now.tablespaces.get(old.name, DEFAULT_TABLESPACE_OID))
        assert isinstance(same, Tablespace)
        if same.oid == DEFAULT_TABLESPACE_OID:
            message = f'there is no tablespace "{old.name}" here: what lay in it comes to pg_default'
            context.notice(SqlError("00000", message, severity="NOTICE"))
        else:
            context.lock_relation(same.oid, "row exclusive")
        found[oid] = same.oid
    return found


def _note_roles(value: Any, owners: set[int], grantees: set[str]) -> None:
    """Collects the roles that an object, or a part of one, refers to: owners by OID, roles in access control lists by
    name."""
    if isinstance(value, tuple):
        for part in value:
            _note_roles(part, owners, grantees)
    elif is_dataclass(value):
        for item in fields(value):
            held = getattr(value, item.name)
            if item.name in _ROLES:
                owners.update(held if isinstance(held, tuple) else (held,))
            elif item.name == "acl":
                for grant in map(parse, held or ()):
                    grantees.update({grant.grantee, grant.grantor} - {"", DATABASE_OWNER})
            else:
                _note_roles(held, owners, grantees)


def _share(context: DdlContext, copy: Copy, now: Catalog, then: Then | None) -> None:
    """Bases the storage ids of the branch on the parent's, and copies storage that does not exist any more."""
    transaction = context.transaction
    here = then is None or then.stored_here
    copied: list[tuple[int, int]] = []
    alive = {item.storage_id for item in now.objects.values() if isinstance(item, Table | Index)}
    for old, new in copy.storage_ids.items():
        if not leans(new):
            continue
        if not here or (old not in alive and transaction.newest(orphan_key(old)) is None):
            if then is None or old in then.prepared:
                raise SqlError("55006", "the parent's tables were changed while the branch was made", hint="Try again.")
            copied.append((old, new))
            continue
        # The row is stored in the tablespace of the leaning storage id, so the commit has a part there. A later writer
        # there, which keeps the rows that it overwrites, follows this commit in that tablespace's changelog.
        transaction.put(base_key(new), storage_prefix(old))
        if then is not None:
            kept = storage_prefix(kept_id(new))
            for key in then.get_changed(old):
                value = then.get(key)
                if value is None:
                    transaction.delete(kept + key[PREFIX_BYTES:])
                else:
                    transaction.put(kept + key[PREFIX_BYTES:], value)
    if copied and then is not None:
        context.add_job(CopyStorage(then, tuple(copied)))


class Copy:
    """Copies schema objects under new OIDs. `number` assigns the OIDs, and `of` replaces the old ones."""

    def __init__(
        self,
        context: DdlContext,
        roles: Mapping[int, int],
        places: Mapping[int, int],
        prepared: Mapping[int, int],
    ) -> None:
        """`roles` and tablespaces (`places`): the OIDs that differ here. `prepared`: storage ids that are already
        assigned."""
        self._context = context
        self._roles = roles
        self._places = places
        self._prepared = prepared
        self.oids: dict[int, int] = {}
        self.storage_ids: dict[int, int] = {}

    def number(self, items: Iterable[SchemaObject]) -> None:
        """Assigns new OIDs to everything that the objects define, and new storage ids to everything that they store."""
        for item in sorted(items, key=lambda item: item.oid):  # so a type stays after the types that it consists of
            self._number_all(item)
            if isinstance(item, Table | Index) and item.storage_id not in self.storage_ids:
                place = self._places.get(item.tablespace, item.tablespace)
                prepared = self._prepared.get(item.storage_id)
                self.storage_ids[item.storage_id] = prepared or self._context.new_leaning_id(place)
            elif isinstance(item, Sequence):
                self.storage_ids[item.storage_id] = self._context.new_storage_id()

    def _number_all(self, value: Any) -> None:
        if isinstance(value, tuple):
            for part in value:
                self._number_all(part)
        elif is_dataclass(value) and not isinstance(value, TypeRef):
            defining = ("oid", "array_oid", "relation") if isinstance(value, Composite) else ("oid", "array_oid")
            for item in fields(value):
                found = getattr(value, item.name)
                if item.name in defining:
                    self.oids[found] = self._context.new_oid()
                else:
                    self._number_all(found)

    def of(self, value: T) -> T:
        """The object, or the part of one, for the branch."""
        return self._copy(value, "")  # type: ignore[no-any-return]

    def _copy(self, value: Any, name: str) -> Any:
        if name == "storage_id":
            return self.storage_ids[value]
        if isinstance(value, int) and name in _ROLES:
            return self._roles.get(value, value)
        if name == "tablespace":
            return self._places.get(value, value)
        if name == "owned_by":
            return None if value is None else (self.oids.get(value[0], value[0]), value[1])
        if isinstance(value, int) and name in _REFERENCES:
            return self._oid_of(value)
        if isinstance(value, tuple):
            return tuple(self._copy(part, name) for part in value)
        if is_dataclass(value) and not isinstance(value, type):
            changed = {item.name: self._copy(getattr(value, item.name), item.name) for item in fields(value)}
            return type(value)(**changed)
        return value

    def _oid_of(self, oid: int) -> int:
        """The OID of an object in the branch; that of a row type is made from the OID of its relation."""
        if is_row_type(oid):
            relation = oid % derived_oids.RANGE
            return oid - relation + self.oids.get(relation, relation)
        return self.oids.get(oid, oid)


# ---- giving storage up ----------------------------------------------------------------------------------------------


def orphan_key(storage_id: int) -> bytes:
    """The key of the row that marks a storage id as used by branches only."""
    return _ORPHANS + storage_prefix(storage_id)


def give_up(context: DdlContext, storage_id: int) -> list[int]:
    """Called when the last object with this storage id is dropped. Returns the storage ids to remove now, itself first,
    or none while branches are based on it. Raises LockWait."""
    transaction = context.transaction
    if not leans(storage_id) and not context.heirs(storage_id):
        return [storage_id]
    context.lock_name(0, "storage that branches share")
    if _is_leant_on(context, storage_id):
        transaction.put(orphan_key(storage_id), b"\1")
        return []
    below = context.base(storage_id)
    if below is None:
        return [storage_id]
    transaction.delete(base_key(storage_id))
    gone = [storage_id, kept_id(storage_id)]
    if transaction.newest(orphan_key(below)) is not None and not _is_leant_on(context, below):
        transaction.delete(orphan_key(below))
        gone += give_up(context, below)
    return gone


def _is_leant_on(context: DdlContext, storage_id: int) -> bool:
    return any(context.base(heir) is not None for heir in context.heirs(storage_id))
