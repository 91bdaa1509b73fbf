"""Applies ALTER TABLE to a table of the worker, without a new build.

ADD COLUMN and DROP COLUMN change no stored row (engine/storage/rows.py): an old row has the new column's `missing`
value. So the worker adds the column with that value to all rows, or drops the column. Any other change of a description
changes stored rows under a new storage id. After a rolled back change, the numbers of columns and layouts may have
another meaning, and the table is built again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from catalog import types
from catalog.errors import SqlError
from catalog.types.base import TypeRef
from catalog.types.text import has_blanks
from engine.columnar.frames import Header
from engine.columnar.literals import literal, quote_text
from engine.storage.columns import from_values, takes_shapes


def reshape_commands(held: Header, wanted: Header, whole: bool = False) -> list[str] | None:
    """The commands of ALTER TABLE that change the worker's table from one description to another. None if it must be
    built again. `whole`: its arrays are stored as text."""
    had = {column[0]: column for column in held["columns"]}
    known = held["layouts"]
    if (
        held["storage_id"] != wanted["storage_id"]
        or held["key"] != wanted["key"]
        or wanted["layouts"][: len(known)] != known
        or any(had.get(column[0], column) != column for column in wanted["columns"])
    ):
        return None
    kept = {column[0] for column in wanted["columns"]}
    try:
        commands = [_addition(column, whole) for column in wanted["columns"] if column[0] not in had]
    except SqlError:  # a value that has no literal
        return None
    return commands + [f"DROP COLUMN c{number}" for number in had if number not in kept]


def _addition(column: Sequence[Any], whole: bool) -> str:
    """The command that adds a column. Raises SqlError for a value without a literal."""
    number, oid, typmod, missing = column
    sql_type = types.lookup(oid)
    kind = "VARCHAR" if whole and takes_shapes(oid) else sql_type.duckdb_type(typmod)
    if missing is None:
        return f"ADD COLUMN c{number} {kind}"
    value = sql_type.text_decoder(typmod=typmod)(missing)
    return f"ADD COLUMN c{number} {kind} DEFAULT {_literal(value, TypeRef(oid, typmod), kind)}"


def _literal(value: Any, type_: TypeRef, kind: str) -> str:
    """The value in the form of rows that are decoded to columns."""
    if kind.endswith("]") or takes_shapes(type_.oid):
        raise SqlError("0A000", "an array as the value of a column that is added")
    if kind not in ("VARCHAR", "BLOB"):
        return literal(value, kind)
    held = from_values([value], type_.oid)[0].as_py()
    if kind == "BLOB":
        return literal(held, kind)
    return quote_text(held.rstrip(" ") if has_blanks(type_) else held)
