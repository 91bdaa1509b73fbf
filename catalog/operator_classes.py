"""Access methods of indexes and their operator classes, as PostgreSQL 15 declares them (PostgreSQL 16 manual, 11.10).

Btree and hash indexes are trees of keys. Indexes with other methods are declarations only: they are shown and dumped,
but store no keys. Queries do without them, because an index never changes a result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import chain

from catalog import types
from catalog.system.relations import read_rows
from catalog.types import oids

_BINARY_ALIKE = {oids.VARCHAR: (oids.TEXT,), oids.CIDR: (oids.INET,)}


_FILLED: Mapping[str, tuple[int, int] | tuple[str, ...]] = {"fillfactor": (10, 100)}


@dataclass(frozen=True, slots=True)
class AccessMethod:
    """An access method, and the features of CREATE INDEX that it supports (pg_am, amcan... of its handler). `options`:
    its storage parameters, each with the minimum and maximum number, or with the allowed words (none: a boolean)."""

    oid: int
    name: str
    options: Mapping[str, tuple[int, int] | tuple[str, ...]]
    unique: bool = False
    multicolumn: bool = True
    include: bool = False
    ordered: bool = False


METHODS = {
    method.name: method
    for method in (
        AccessMethod(403, "btree", {**_FILLED, "deduplicate_items": ()}, unique=True, include=True, ordered=True),
        AccessMethod(405, "hash", _FILLED, multicolumn=False),
        AccessMethod(783, "gist", {**_FILLED, "buffering": ("on", "off", "auto")}, include=True),
        AccessMethod(2742, "gin", {"fastupdate": (), "gin_pending_list_limit": (64, 2147483647)}),
        AccessMethod(3580, "brin", {"pages_per_range": (1, 131072), "autosummarize": ()}),
        AccessMethod(4000, "spgist", _FILLED, multicolumn=False, include=True),
    )
}


@dataclass(frozen=True, slots=True)
class OperatorClass:
    """A row of pg_opclass."""

    oid: int
    method: int
    name: str
    type: int
    default: bool
    family: int

    def takes(self, oid: int) -> bool:
        """Whether it can index values of the type: its own type, one with the same binary form, or any type if it is
        polymorphic."""
        return self.type == oid or self.type in _BINARY_ALIKE.get(oid, ()) or self.type == _family(oid)


@cache
def _classes() -> dict[int, OperatorClass]:
    rows = chain(read_rows("pg_opclass"), read_rows("extensions/pg_opclass"))
    found = [
        OperatorClass(
            int(row["oid"] or 0),
            int(row["opcmethod"] or 0),
            row["opcname"] or "",
            int(row["opcintype"] or 0),
            row["opcdefault"] == "t",
            int(row["opcfamily"] or 0),
        )
        for row in rows
    ]
    return {item.oid: item for item in found}


def _family(oid: int) -> int:
    """The polymorphic type of operator classes for all arrays, enums, ranges or records; 0 for other types."""
    if types.element_of(oid):
        return oids.ANYARRAY
    row = types.type_row(oid)
    kind = row.kind if row is not None else "b"
    return {"e": oids.ANYENUM, "r": oids.ANYRANGE, "m": oids.ANYMULTIRANGE, "c": oids.RECORD}.get(kind, 0)


@cache
def _families() -> dict[int, str]:
    rows = chain(read_rows("pg_opfamily"), read_rows("extensions/pg_opfamily"))
    return {int(row["oid"] or 0): row["opfname"] or "" for row in rows}


def family_name(found: OperatorClass) -> str:
    """The name of the class's operator family."""
    return _families()[found.family]


Present = Callable[[int], bool]


def _everywhere(oid: int) -> bool:
    return True


def operator_class(oid: int) -> OperatorClass:
    return _classes()[oid]


def default_class(method: str, type_: int, present: Present = _everywhere) -> OperatorClass | None:
    """GetDefaultOpClass: prefers the class of the type itself to one that can index it. `present` excludes the classes
    of extensions that a database lacks."""
    own = METHODS[method].oid
    of_method = (item for item in _classes().values() if item.method == own and item.default)
    found = [item for item in of_method if item.takes(type_) and present(item.oid)]
    return min(found, key=lambda item: item.type != type_, default=None)


def class_of(method: str, named: int, type_: int) -> OperatorClass | None:
    """The class of an index column: the named one (its OID), or the default for the type if it is 0."""
    return _classes()[named] if named else default_class(method, type_)


def named_class(method: str, name: str, present: Present) -> OperatorClass | None:
    own = METHODS[method].oid
    found = (item for item in _classes().values() if item.method == own and item.name == name)
    return next((item for item in found if present(item.oid)), None)
