"""The SELECTs that compute the rows of INSERT ... SELECT, UPDATE, DELETE and MERGE.

    UPDATE, DELETE   inner SELECT: the target's old columns, its hidden row number, the assigned values, and the columns
                     of the other FROM items; one row for each target row (an arbitrary match, as in PostgreSQL)
                     outer SELECT: old row, new values in the columns' stored forms, CHECK conditions, RETURNING
    INSERT           the same outer SELECT over the source query or VALUES, without an old row
    MERGE            the join of source and target; the engine chooses and computes the actions row by row, except for
                     their expressions with sub-queries, which the SELECT computes

These SELECTs write nothing: the engine receives Arrow batches, and locks, checks and writes the rows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from catalog.duckdb.nodes import CastTo, Clause, ColumnReference, Sql, comma_list, fill
from catalog.duckdb.types import BIGINT, DuckDBType
from catalog.errors import not_supported
from catalog.schema import Table
from catalog.types import oids
from catalog.types.base import DEFAULT_FORMAT, FormatSettings, TypeRef
from engine.columnar.generate import queries, ranges
from engine.columnar.generate.forms import Piece, convert, form_of, with_blanks
from engine.columnar.generate.shapes import with_whole
from engine.columnar.generate.state import Generation, Scope, Source, expression
from engine.columnar.generate.texts import record_text
from engine.columnar.interface import ColumnarQuery, OutputColumn
from engine.sql import tree
from engine.sql.tree_walk import is_volatile, walk


@dataclass(frozen=True, slots=True)
class ColumnarDml:
    """A query whose rows describe the rows to write, and the meaning of its columns (indexes into query.columns, from
    0).

    key        UPDATE, DELETE, MERGE: the primary key's columns in key order (old values), or the one index of the
               hidden row number (int8); () for INSERT. MERGE into a partitioned table: the partition's OID, and the
               hidden row number or NULL
    old        UPDATE, DELETE, MERGE: (attnum, index) of every column of the old row, in table order
    new        (attnum, index) of every column with a new value. UPDATE: assigned and generated columns; INSERT: all
               columns except for those in `pending`. Values have the columns' stored forms; NOT NULL is not checked
    checks     (constraint name, index) of booleans; FALSE violates the constraint (23514)
    returning  indexes of RETURNING's columns
    pending    INSERT: columns whose default uses a sequence or is volatile: the engine computes them for each row. Then
               generated columns, checks and RETURNING are not part of the query either (`complete` is False), because
               they may depend on the pending columns: the engine computes them from the statement
    inputs     MERGE: ((relation, column), index) of the columns, besides the old row, that its actions and its join
               condition use (the condition is evaluated again for a row that has changed, unless the condition or
               an action has a sub-query)
    computed   MERGE: (expression, index) of the expressions that the query computes
    """

    query: ColumnarQuery
    key: tuple[int, ...]
    old: tuple[tuple[int, int], ...]
    new: tuple[tuple[int, int], ...]
    checks: tuple[tuple[str, int], ...]
    returning: tuple[int, ...]
    pending: tuple[tree.Assignment, ...] = ()
    complete: bool = True
    inputs: tuple[tuple[tuple[int, int], int], ...] = ()
    computed: tuple[tuple[tree.Expr, int], ...] = ()


class _Layout:
    """Collects the output columns."""

    def __init__(self) -> None:
        self.columns: list[OutputColumn] = []
        self.sql: list[Sql] = []

    def add(self, name: str, type_: TypeRef, piece: Piece, form: DuckDBType | None = None) -> int:
        piece = with_blanks(piece) if form is None else convert(piece, form)
        self.columns.append(OutputColumn(name, type_, str(piece.form)))
        self.sql.append(CastTo(piece.sql, piece.form))
        return len(self.columns) - 1

    def select_list(self) -> Sql:
        return comma_list([fill("{} AS c{}", sql, number) for number, sql in enumerate(self.sql, 1)])


def generate_dml(
    statement: tree.Insert | tree.Update | tree.Delete | tree.Merge,
    parameter_types: Sequence[int] = (),
    settings: FormatSettings = DEFAULT_FORMAT,
    computes: bool = True,
) -> ColumnarDml:
    """Returns the query of a statement. `computes`: see Generation. Raises 0A000 with the name of the construct that
    cannot run here."""
    made: list[ColumnarDml] = []

    def query(settings: FormatSettings) -> ColumnarQuery:
        made.append(_dml(Generation(settings, parameter_types, computes), statement))
        return made[-1].query

    found = with_whole(query, settings)
    return dataclasses.replace(made[-1], query=found)


def _dml(generation: Generation, statement: tree.Insert | tree.Update | tree.Delete | tree.Merge) -> ColumnarDml:
    generation.volatile = is_volatile(statement)
    if isinstance(statement, tree.Insert):
        return _insert(generation, statement)
    if isinstance(statement, tree.Merge):
        return _merge(generation, statement)
    return _change(generation, statement)


def _query(statement: tree.Insert | tree.Update | tree.Delete) -> tree.Query:
    """Returns the statement's range table as a query, for scopes."""
    where = None if isinstance(statement, tree.Insert) else statement.where
    return tree.Query(targets=(), range_table=statement.range_table, where=where, ctes=statement.ctes)


def _form(table: Table, number: int) -> DuckDBType:
    type_ = table.column_by_number(number).type
    return form_of(type_.oid, type_.typmod)


# ---- UPDATE and DELETE ----------------------------------------------------------------------------------------------


def _change(generation: Generation, statement: tree.Update | tree.Delete) -> ColumnarDml:
    table = statement.table
    scope = Scope(generation, _query(statement))
    with_ = queries.with_clause(scope, statement.ctes)
    alias = generation.alias()
    from_ = ranges.from_list(scope, (tree.FromRef(0), *statement.from_items))
    inner, after = _inner_columns(scope, statement, alias)
    target = scope.sources[0]
    distinct: Clause = ""
    if statement.from_items:
        keys = [target.columns[number].sql for number in table.key_columns] or [ColumnReference(target.alias, "r")]
        distinct = fill("DISTINCT ON ({}) ", comma_list(keys))
    where: Clause = fill(" WHERE {}", expression(scope, statement.where).sql) if statement.where is not None else ""
    body = fill("SELECT {}{} FROM {}{}", distinct, comma_list(inner), from_, where)
    return _outer(generation, statement, after, fill("({}) AS {}", body, alias), with_)


def _inner_columns(
    scope: Scope, statement: tree.Update | tree.Delete, alias: str
) -> tuple[list[Sql], dict[int, Source]]:
    """Returns the inner select list, and the range table of the outer level: entry 0 is the old row, entry -1 the
    assigned values."""
    table = statement.table
    columns: list[Sql] = []
    after: dict[int, Source] = {}
    for relation, source in scope.sources.items():
        seen = {}
        for number, piece in source.columns.items():
            name = f"s{relation}_{number}"
            columns.append(fill("{} AS {}", piece.sql, name))
            seen[number] = Piece(ColumnReference(alias, name), piece.form, piece.fields)
        after[relation] = Source(alias, seen)
    if not table.key_columns:
        columns.append(fill("{} AS r", ColumnReference(scope.sources[0].alias, "r")))
    assigned = {}
    if isinstance(statement, tree.Update):
        for item in statement.assignments:
            piece = convert(expression(scope, item.expression), _form(table, item.column))
            columns.append(fill("{} AS n{}", piece.sql, item.column))
            assigned[item.column] = Piece(ColumnReference(alias, f"n{item.column}"), piece.form)
    after[-1] = Source(alias, assigned)
    return columns, after


def _outer(
    generation: Generation,
    statement: tree.Update | tree.Delete,
    after: dict[int, Source],
    from_: Sql,
    with_: Clause,
) -> ColumnarDml:
    table, layout = statement.table, _Layout()
    assigned = after.pop(-1).columns
    old = tuple(
        (column.number, layout.add(column.name, column.type, after[0].columns[column.number]))
        for column in table.columns
    )
    places = dict(old)
    key = tuple(places[number] for number in table.key_columns)
    if not key:
        key = (layout.add("r", TypeRef(oids.INT8), Piece(ColumnReference(after[0].alias, "r"), BIGINT)),)
    scope = Scope(generation, _query(statement))
    scope.sources = {**after, 0: Source(after[0].alias, {**after[0].columns, **assigned})}
    new, checks = _new_row(scope, statement, layout, assigned) if isinstance(statement, tree.Update) else ((), ())
    returning = tuple(_returning(scope, layout, statement.returning))
    query = generation.finish(fill("{}SELECT {} FROM {}", with_, layout.select_list(), from_), layout.columns)
    return ColumnarDml(query, key, old, new, checks, returning)


def _new_row(
    scope: Scope, statement: tree.Insert | tree.Update, layout: _Layout, assigned: dict[int, Piece]
) -> tuple[tuple[tuple[int, int], ...], tuple[tuple[str, int], ...]]:
    """Adds assigned and generated columns and CHECK conditions to the output. Entry 0 of the scope is the new row; the
    generated columns are added to it."""
    table = statement.table
    made = dict(assigned)
    for item in statement.generated:
        made[item.column] = convert(expression(scope, item.expression), _form(table, item.column))
    scope.sources[0].columns.update(made)
    new = []
    for column in table.columns:
        if column.number in made:
            new.append((column.number, layout.add(column.name, column.type, made[column.number])))
    checks = tuple(
        (name, layout.add(name, TypeRef(oids.BOOL), expression(scope, condition)))
        for name, condition in statement.checks
    )
    return tuple(new), checks


def _returning(scope: Scope, layout: _Layout, targets: Iterable[tree.Target]) -> list[int]:
    places = []
    for target in targets:
        piece = expression(scope, target.expression)
        if piece.fields:
            piece = record_text(scope.generation, piece)
        places.append(layout.add(target.name, target.expression.type, piece))
    return places


# ---- MERGE ----------------------------------------------------------------------------------------------------------


def _merge(generation: Generation, statement: tree.Merge) -> ColumnarDml:
    """Returns the query of MERGE: source rows with the matching target rows, and source rows without a match if an
    action inserts them. Raises 0A000 for whole rows in an action."""
    table, layout = statement.table, _Layout()
    scope = Scope(generation, tree.Query(targets=(), range_table=statement.range_table, ctes=statement.ctes))
    with_ = queries.with_clause(scope, statement.ctes)
    inserts = any(not action.matched and action.action != "nothing" for action in statement.actions)
    join = tree.FromJoin("left" if inserts else "inner", statement.source, tree.FromRef(0), statement.condition)
    from_ = ranges.from_list(scope, (join,))
    target = scope.sources[0]
    old = tuple(
        (column.number, layout.add(column.name, column.type, target.columns[column.number])) for column in table.columns
    )
    places = dict(old)
    key = tuple(places[number] for number in table.key_columns)
    inputs: dict[tuple[int, int], int] = {}
    if statement.in_members:
        last = len(statement.range_table[0].columns)
        member = layout.add("tableoid", TypeRef(oids.OID), target.columns[last])
        key = (member, layout.add("r", TypeRef(oids.INT8), target.columns[last - 1]))
        inputs[0, last] = member
    elif not key:
        key = (layout.add("r", TypeRef(oids.INT8), Piece(ColumnReference(target.alias, "r"), BIGINT)),)
    there = fill("{} IS NOT NULL", layout.sql[key[0]])
    computed: list[tuple[tree.Expr, int]] = []

    def add_inputs(parts: Iterable[object]) -> None:
        for part in parts:
            if isinstance(part, tree.Var) and part.relation and (part.relation, part.column) not in inputs:
                piece = expression(scope, part)
                inputs[part.relation, part.column] = layout.add(part.name, part.type, piece)

    for action in statement.actions:
        guard = there if action.matched else fill("NOT ({})", there)
        old_row = tuple(check for _, check in action.policies)
        for item in (action.condition, *old_row, *(assignment.expression for assignment in action.assignments)):
            if item is None:
                continue
            if any(isinstance(part, tree.SubLink) for part in walk(item)):
                piece = expression(scope, item)
                piece = Piece(fill("CASE WHEN {} THEN {} END", guard, piece.sql), piece.form, piece.fields)
                computed.append((item, layout.add("x", item.type, piece)))
                continue
            parts = list(walk(item))
            if any(isinstance(part, tree.Var) and part.column == 0 for part in parts):
                not_supported("a whole row in an action of MERGE")
            add_inputs(parts)
    if not computed:
        parts = list(walk(statement.condition))
        whole = [part for part in parts if isinstance(part, tree.Var) and not part.column]
        if not whole and not any(isinstance(part, tree.SubLink) for part in parts):
            add_inputs(parts)
    query = generation.finish(fill("{}SELECT {} FROM {}", with_, layout.select_list(), from_), layout.columns)
    return ColumnarDml(query, key, old, (), (), (), (), True, tuple(inputs.items()), tuple(computed))


# ---- INSERT ---------------------------------------------------------------------------------------------------------


def _insert(generation: Generation, statement: tree.Insert) -> ColumnarDml:
    table, layout = statement.table, _Layout()
    scope = Scope(generation, _query(statement))
    with_ = queries.with_clause(scope, statement.ctes)
    body, numbers = _given_rows(scope, statement)
    alias = generation.alias()
    given = Source.of_pieces(alias, body.pieces).columns
    row = {number: convert(given[place], _form(table, number)) for place, number in enumerate(numbers, 1)}
    pending = tuple(item for item in statement.defaults if is_volatile(item.expression))
    for item in statement.defaults:
        if item not in pending:
            row[item.column] = convert(expression(scope, item.expression), _form(table, item.column))
    scope.sources[0] = Source(alias, dict(row))
    # The rows' partitions, or numbers, are not known here.
    routed = table.partitioning is not None or any(
        isinstance(item, tree.Var) and item.column == tree.ROW_NUMBER for item in walk(statement.returning)
    )
    if pending or routed:
        new = tuple(
            (column.number, layout.add(column.name, column.type, row[column.number]))
            for column in table.columns
            if column.number in row
        )
        checks: tuple[tuple[str, int], ...] = ()
        returning: tuple[int, ...] = ()
    else:
        new, checks = _new_row(scope, statement, layout, row)
        returning = tuple(_returning(scope, layout, statement.returning))
    sql = fill("{}SELECT {} FROM ({}) AS {}", with_, layout.select_list(), body.sql, alias)
    query = generation.finish(sql, layout.columns)
    return ColumnarDml(query, (), (), new, checks, returning, pending, complete=not (pending or routed))


def _given_rows(scope: Scope, statement: tree.Insert) -> tuple[queries.Body, tuple[int, ...]]:
    """Returns the query of the rows to insert, and the attnum of each of its columns."""
    if statement.source is not None:
        return queries.query(statement.source, scope), statement.source_columns
    columns = statement.table.columns
    entry = tree.RangeValues(statement.rows, "", tuple(tree.RangeColumn(item.name, item.type) for item in columns))
    sql, pieces = ranges.values(scope, entry)
    names = ranges.column_names(len(pieces))
    body = queries.Body(fill("SELECT * FROM ({}) AS {}({})", sql, scope.generation.alias(), names), pieces)
    return body, tuple(item.number for item in columns)
