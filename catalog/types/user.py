"""User-defined types and types of extensions: maps their OIDs to a `SqlType` and a row of pg_type.

A user-defined type belongs to a catalog, but `catalog.types.lookup` gets only an OID. OIDs are never reused, so only
the definition of an OID can change (a new label, another name). There are two sources, in this order:

    current   the types of the catalog with which the running statement is analysed (a context variable, which each
              task and each thread of a statement has), so that a transaction sees its own uncommitted changes
    known     the newest definitions in this process, for code without a statement (storage, bulk jobs, the worker)

catalog/usertypes.py makes the entries from schema objects.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass

from catalog.types.base import SqlType, TypeRef
from catalog.types.rows import TypeRow

FIRST_USER_OID = 16384
FIRST_ADDED_OID = 14000  # the first OID of types of extensions and of users


@dataclass(frozen=True, slots=True)
class UserEntry:
    """The properties of a user-defined type, or of its array type. `shown`: its name in SQL, quoted if necessary.

    `definition` is the schema object (catalog/schema.py) of both types; None for a type of an extension.
    """

    sql_type: SqlType | None  # None for a domain: its values have the base type
    row: TypeRow
    schema: str
    shown: str
    definition: object


@dataclass(frozen=True, slots=True)
class Visible:
    """The user-defined types of a statement: those of its catalog, and the search path."""

    entries: Mapping[int, UserEntry]
    path: tuple[str, ...]


_NONE = Visible({}, ())
_current: ContextVar[Visible] = ContextVar("user_types", default=_NONE)
_known: dict[int, UserEntry] = {}


def use(entries: Mapping[int, UserEntry], path: tuple[str, ...]) -> None:
    """Sets the user-defined types and the search path of the statement that is analysed next."""
    if entries or _current.get() is not _NONE:
        _current.set(Visible(entries, path))


def visible() -> Visible:
    """Returns the user-defined types and the search path of the current statement."""
    return _current.get()


def restore(found: Visible) -> None:
    """Restores an earlier result of `visible`."""
    _current.set(found)


def remember(entries: Mapping[int, UserEntry]) -> None:
    """Stores the newest definitions for this process."""
    _known.update(entries)


def entry_of(oid: int) -> UserEntry | None:
    """Returns the user-defined type, or its array type, with this OID; None if there is none."""
    if oid < FIRST_ADDED_OID:
        return None
    found = _current.get().entries.get(oid)
    return found if found is not None else _known.get(oid)


def sent_oid(type_: TypeRef) -> int:
    """Returns the type of a column that clients see: for a domain the base type, for an array of a domain the OID of
    this array type, for a table's row its row type."""
    return base_domain(type_.domain) or type_.oid if type_.domain else type_.oid


def base_domain(domain: int) -> int:
    """Returns `TypeRef.domain` of the base type of a domain: 0, or the OID of an array of another domain. A type that
    is not a domain (an array of a domain, a table's row) is its own base type."""
    entry = entry_of(domain)
    while entry is not None and entry.row.kind == "d":
        domain = entry.row.base
        entry = entry_of(domain)
    return domain if entry is not None or domain >= FIRST_USER_OID else 0
