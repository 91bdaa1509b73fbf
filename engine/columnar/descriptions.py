"""The description of a table for the worker, as JSON with everything that its row codec needs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from catalog.schema import Column, Layout, Table
from catalog.type_descriptions import describe, learn
from catalog.types import element_of, lookup
from catalog.types.base import TypeRef
from catalog.types.collated_oids import plain
from catalog.types.enum import EnumType
from catalog.types.user import FIRST_USER_OID
from engine.columnar.frames import Header
from engine.storage.columns import takes_shapes


def describe_table(table: Table, bases: Sequence[int] = ()) -> Header:
    """The description of a table, as JSON. `bases`: the storage ids that it is based on, nearest first."""
    return {
        "storage_id": table.storage_id,
        "bases": list(bases),
        "columns": [[c.number, c.type.oid, c.type.typmod, c.missing] for c in table.columns],
        "key": list(table.key_columns),
        "types": describe(c.type.oid for c in table.columns),
        "layouts": [
            [layout.version, list(layout.columns), [[t.oid, t.typmod] for t in layout.types]]
            for layout in table.layouts
        ],
    }


def stored_kind(type_: TypeRef, whole: bool) -> str:
    """The DuckDB type of a column in the worker's table. `whole`: its arrays are stored as text."""
    return "VARCHAR" if whole and takes_shapes(type_.oid) else lookup(type_.oid).duckdb_type(type_.typmod)


def table_of(description: Any) -> Table:
    """The inverse of `describe_table`: a Table with everything that the row codec reads."""
    learn(description["types"])
    return Table(
        oid=0,
        schema=0,
        name="",
        columns=tuple(
            Column(number, f"c{number}", TypeRef(oid, typmod), missing=missing)
            for number, oid, typmod, missing in description["columns"]
        ),
        storage_id=description["storage_id"],
        key_columns=tuple(description["key"]),
        layouts=tuple(
            Layout(version, tuple(columns), tuple(TypeRef(*reference) for reference in references))
            for version, columns, references in description["layouts"]
        ),
    )


def text_of(description: Header) -> str:
    """A description as text. It is equal for tables whose stored rows become the same columns. The user types in it
    must be registered."""
    parts = {name: part for name, part in description.items() if name != "bases"}
    return json.dumps({**parts, "types": sorted(definitions(description))}, sort_keys=True)


def definitions(description: Header) -> set[tuple[str, ...]]:
    """The definitions of the user types that determine the content of columns. Enums do not: rows and columns contain
    the positions of labels, which never change (catalog/types/enum.py)."""
    if all(_is_plain(oid) for _, oid, _, _ in description["columns"]):
        return set()
    return {tuple(definition) for definition in description["types"]}


def _is_plain(oid: int) -> bool:
    """Whether a type is an enum or an array of an enum, or neither user-defined nor collated."""
    if oid < FIRST_USER_OID:
        return plain(oid) == oid
    return isinstance(lookup(element_of(oid) or oid), EnumType)
