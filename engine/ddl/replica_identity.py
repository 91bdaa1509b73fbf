"""ALTER TABLE ... REPLICA IDENTITY (ATExecReplicaIdentity). It is kept for dumps and psql; change streams always have
the whole old row."""

from __future__ import annotations

from dataclasses import replace
from typing import NoReturn

from catalog.errors import SqlError
from catalog.schema import Index, Table
from engine.ddl.context import DdlContext

_LETTERS = {"default": "d", "full": "f", "nothing": "n", "index": "i"}


def set_identity(context: DdlContext, table: Table, kind: str, name: str | None) -> Table:
    """The table with another identity: default, full, nothing, or the index of a name. Its indexes are marked. Raises
    42704, 42809, 0A000."""
    chosen = None if name is None else _index(context, table, name)
    for index in map(context.catalog.index, table.indexes):
        marked = chosen is not None and index.oid == chosen.oid
        if index.replica_identity != marked:
            context.change({index.oid: replace(index, replica_identity=marked)})
    return replace(table, replica_identity=_LETTERS[kind])


def _index(context: DdlContext, table: Table, name: str) -> Index:
    found = context.catalog.get(context.catalog.relations.get((table.schema, name), 0))
    if found is None:
        raise SqlError("42704", f'index "{name}" for table "{table.name}" does not exist')
    if not isinstance(found, Index):
        raise SqlError("42809", f'"{name}" is not an index')
    if found.table != table.oid:
        raise SqlError("42809", f'"{found.name}" is not an index for table "{table.name}"')
    if not found.is_unique:
        _refuse(found, "non-unique", "42809")
    if found.late:
        _refuse(found, "non-immediate")
    if any(not column.number for column in found.columns):
        _refuse(found, "expression")
    if found.predicate is not None:
        _refuse(found, "partial")
    for part in found.columns:
        column = table.column_by_number(part.number)
        if not column.not_null:
            message = f'index "{name}" cannot be used as replica identity because column "{column.name}" is nullable'
            raise SqlError("42809", message)
    return found


def _refuse(index: Index, kind: str, sqlstate: str = "0A000") -> NoReturn:
    raise SqlError(sqlstate, f'cannot use {kind} index "{index.name}" as replica identity')


def check_nullable(context: DdlContext, table: Table, number: int) -> None:
    """Whether a column may lose NOT NULL. Raises 42P16."""
    for index in map(context.catalog.index, table.indexes):
        if index.replica_identity and any(part.number == number for part in index.columns):
            name = table.column_by_number(number).name
            raise SqlError("42P16", f'column "{name}" is in index used as replica identity')
