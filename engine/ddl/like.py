"""CREATE TABLE (LIKE ...): copies the columns of another table, and the parts that INCLUDING names.

Indexes are copied with generated names, whether they belong to a constraint or not. Constraints keep their names.
INCLUDING COMMENTS copies the comments of columns, checks and indexes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from catalog.errors import SqlError
from catalog.privileges import may
from catalog.schema import Column, Constraint, Index, Sequence, Table, View
from engine.ddl import names, partitions, statistics_objects
from engine.ddl.ownership import user_role, word_of
from engine.sql import ast

if TYPE_CHECKING:
    from engine.ddl.tables import TableBuilder

_LABELS = {"p": "pkey", "u": "key", "x": "excl"}


def copy_columns(builder: TableBuilder, like: ast.LikeClause) -> None:
    """Copies names, types and NOT NULL; with INCLUDING also defaults, identities and checks. Raises 42P01, 42809,
    42501, 42701."""
    source = _source(builder, like)
    including = like.including
    for column in source.columns:
        if builder.table.column(column.name) is not None:
            raise SqlError("42701", f'column "{column.name}" specified more than once')
        number = builder.table.next_column
        copied = Column(number, column.name, column.type, column.not_null, collation=column.collation)
        if "defaults" in including and column.default is not None:
            copied = replace(copied, default=column.default)
        if "generated" in including and column.generated is not None:
            copied = replace(copied, generated=column.generated)
        if "comments" in including:
            copied = replace(copied, comment=column.comment)
        table = builder.table
        builder.table = replace(table, columns=(*table.columns, copied), next_column=number + 1)
        if "identity" in including and column.identity:
            options = _sequence_options(builder, column)
            identity = ast.ConstraintDef("identity", identity=column.identity, sequence_options=options)
            builder.change_column(builder.identity(replace(copied, default=None), identity))
    if not isinstance(source, Table) or "constraints" not in including:
        return
    for constraint in source.constraints:
        if constraint.kind == "c":
            named = (source.column_by_number(number).name for number in constraint.columns)
            numbers = tuple(builder.column_named(name).number for name in named)
            comment = constraint.comment if "comments" in including else None
            taken = replace(
                constraint, oid=builder.context.new_oid(), columns=numbers, inherited=0, local=True, comment=comment
            )
            builder.table = replace(builder.table, constraints=(*builder.table.constraints, taken))


def copy_statistics(builder: TableBuilder, like: ast.LikeClause) -> None:
    """INCLUDING STATISTICS."""
    source = _source(builder, like)
    if isinstance(source, Table) and "statistics" in like.including:
        with_comments = "comments" in like.including
        builder.statistics += statistics_objects.copies(builder.context, source, builder.table, with_comments)


def copy_indexes(builder: TableBuilder, like: ast.LikeClause) -> None:
    """INCLUDING INDEXES. Raises 42P16 for a second primary key, 0A000 if a partitioned table's key lacks a column of
    its partition key."""
    source = _source(builder, like)
    including = like.including
    if not isinstance(source, Table) or "indexes" not in including:
        return
    catalog = builder.context.catalog
    for index in sorted(
        (catalog.index(oid) for oid in source.indexes), key=lambda item: (not item.is_primary, item.oid)
    ):
        constraint = next((c for c in source.constraints if c.kind in "pux" and c.index == index.oid), None)
        _copy_index(builder, source, index, constraint, index.comment if "comments" in including else None)


def _copy_index(
    builder: TableBuilder, source: Table, index: Index, constraint: Constraint | None, comment: str | None
) -> None:
    context, table = builder.context, builder.table
    if index.is_primary and any(item.kind == "p" for item in table.constraints):
        raise SqlError("42P16", f'multiple primary keys for table "{table.name}" are not allowed')
    numbers = {0: 0} | {column.number: builder.column_named(column.name).number for column in source.columns}
    columns = tuple(replace(item, number=numbers[item.number]) for item in index.columns)
    if index.is_unique:
        word = "PRIMARY KEY" if index.is_primary else "UNIQUE"
        partitions.check_unique_key(table, word, tuple(item.number for item in columns))
    label = "idx" if constraint is None else _LABELS[constraint.kind]
    name = names.free_relation_name(
        context, table.schema, table.name, "" if index.is_primary else partitions.words_of(source, index),
        label,
        [item.name for item in builder.indexes],
    )  # fmt: skip
    made = replace(
        index, oid=context.new_oid(), schema=table.schema, name=name, table=table.oid, columns=columns,
        storage_id=table.storage_id if index.primary else context.new_storage_id(table.tablespace),
        include=tuple(numbers[item] for item in index.include), owner=table.owner, tablespace=table.tablespace,
        comment=comment, parent=None, valid=True, ready=True, collation_version="",
    )  # fmt: skip
    builder.add_index(made)
    key = tuple(item.number for item in columns)
    for number in key if index.is_primary else ():
        builder.change_column(replace(builder.table.column_by_number(number), not_null=True))
    if index.primary:
        builder.table = replace(builder.table, key_columns=key)
    if constraint is not None:
        copied = replace(
            constraint, oid=context.new_oid(), name=name, columns=key, index=made.oid, comment=None, inherited=0,
            local=True, parent=None,
        )  # fmt: skip
        builder.table = replace(builder.table, constraints=(*builder.table.constraints, copied))


def _source(builder: TableBuilder, like: ast.LikeClause) -> Table | View:
    source = names.find(builder.context, like.relation)
    if source is None:
        raise SqlError("42P01", f'relation "{names.show_relation(like.relation)}" does not exist')
    if not hasattr(source, "columns") or isinstance(source, Index):
        raise SqlError("42809", f'"{source.name}" is not a table or view')
    assert not isinstance(source, Sequence)
    if isinstance(source, Table | View) and not may(builder.context.catalog, source, user_role(builder.context), "r"):
        raise SqlError("42501", f"permission denied for {word_of(source)} {source.name}")
    if isinstance(source, Table | View):
        builder.context.lock_relation(source.oid, "access share")
    return source  # type: ignore[return-value]  # a virtual table has the same columns


def _sequence_options(builder: TableBuilder, column: Column) -> tuple[tuple[str, object], ...]:
    """The options of an identity column's sequence."""
    sequence = builder.context.catalog.get(column.sequence or 0)
    assert isinstance(sequence, Sequence)
    words = ("increment", "minvalue", "maxvalue", "start", "cache", "cycle")
    values = (
        sequence.increment, sequence.minimum, sequence.maximum, sequence.start, sequence.cache, sequence.cycle,
    )  # fmt: skip
    return tuple(zip(words, values, strict=True))
