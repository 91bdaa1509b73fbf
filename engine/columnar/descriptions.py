"""A table's description on its way to the worker: what its row codec needs, as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from catalog.schema import Column, Layout, Table
from catalog.type_descriptions import describe, learn
from catalog.types.base import TypeRef
from engine.columnar.frames import Header


def describe_table(table: Table, bases: Sequence[int] = ()) -> Header:
    """What the worker must know of a table, as JSON. `bases`: the storage ids that it leans on, nearest first."""
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
