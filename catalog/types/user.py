"""The types that users define or extensions bring, beside the built-in ones: how an OID becomes a `SqlType` and a row
of pg_type.

A user's type belongs to a catalog, and `catalog.types.lookup` knows only its OID. OIDs are never reused, so what an OID
means can change in one way: its definition does (a label more, another name). Two places are asked, in this order:

    current   the types of the catalog that the running statement is analysed with (a context variable: every task and
              every thread made for one has its own), so that a transaction sees its own uncommitted changes
    known     every definition that this process has seen, the newest of each: for code that has no statement (storage,
              bulk jobs, the worker)

catalog/usertypes.py makes the entries from schema objects.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass

from catalog.types.base import SqlType, TypeRef
from catalog.types.rows import TypeRow

FIRST_USER_OID = 16384
FIRST_ADDED_OID = 14000  # of what a database may or may not have: types of extensions and of users


@dataclass(frozen=True, slots=True)
class UserEntry:
    """What the engine must know of one user type, or of its array type. `shown`: its name in SQL, quoted if need be.

    `definition` is the schema object (catalog/schema.py) that both are made of; None for a type of an extension.
    """

    sql_type: SqlType | None  # None for a domain: its values have the base type
    row: TypeRow
    schema: str
    shown: str
    definition: object


@dataclass(frozen=True, slots=True)
class Visible:
    """The user types of a statement: its catalog's, and the schemas whose names need not be said."""

    entries: Mapping[int, UserEntry]
    path: tuple[str, ...]


_NONE = Visible({}, ())
_current: ContextVar[Visible] = ContextVar("user_types", default=_NONE)
_known: dict[int, UserEntry] = {}


def use(entries: Mapping[int, UserEntry], path: tuple[str, ...]) -> None:
    """The statement that is analysed from here on has these types."""
    if entries or _current.get() is not _NONE:
        _current.set(Visible(entries, path))


def visible() -> Visible:
    """What the statement that is being analysed has."""
    return _current.get()


def restore(found: Visible) -> None:
    """What `visible` has given is so again."""
    _current.set(found)


def remember(entries: Mapping[int, UserEntry]) -> None:
    """These are the newest definitions of their OIDs."""
    _known.update(entries)


def entry_of(oid: int) -> UserEntry | None:
    """The user type, or the array of one, with this OID."""
    if oid < FIRST_ADDED_OID:
        return None
    found = _current.get().entries.get(oid)
    return found if found is not None else _known.get(oid)


def sent_oid(type_: TypeRef) -> int:
    """The type of a column as clients are told of it: of a domain the base type, of an array of a domain that array's
    own, of a table's row its row type."""
    return base_domain(type_.domain) or type_.oid if type_.domain else type_.oid


def base_domain(domain: int) -> int:
    """`TypeRef.domain` of the base type of a domain: 0, or that of an array of another domain. What is no domain (an
    array of one, a table's row) is its own base type."""
    entry = entry_of(domain)
    while entry is not None and entry.row.kind == "d":
        domain = entry.row.base
        entry = entry_of(domain)
    return domain if entry is not None or domain >= FIRST_USER_OID else 0
