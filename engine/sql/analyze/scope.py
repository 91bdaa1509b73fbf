"""Resolves names of columns and relations within a statement (parse_relation.c): `a`, `t.a` and `t`.

The innermost query level with the name decides. Two items with the name at one level are ambiguous (42702). An item may
be visible but not allowed, by the rules of LATERAL, which has an error of its own.
"""

from __future__ import annotations

from catalog.schema import Index, Sequence, Table, VirtualTable
from catalog.types.base import TypeRef
from catalog.types.composite import CompositeType
from catalog.types.user import entry_of
from engine.sql import tree
from engine.sql.analyze.common_types import resolve_polymorphic
from engine.sql.analyze.declared import row_of
from engine.sql.analyze.errors import fail, refuse
from engine.sql.analyze.state import NamespaceItem, State, positions
from engine.sql.analyze.system_columns import NAMES as SYSTEM_COLUMNS
from engine.sql.analyze.system_columns import system_column
from engine.sql.analyze.typeinfo import RECORD_REF
from engine.sql.tree_walk import shift_levels


class TableShape:
    """The part of a table's namespace item that all queries share if its columns are not renamed."""

    __slots__ = ("_expressions", "by_name", "columns", "names", "origins", "table")

    def __init__(self, table: Table | VirtualTable) -> None:
        self.table = table
        self.names = [column.name for column in table.columns]
        self.columns = tuple(tree.RangeColumn(column.name, column.type) for column in table.columns)
        self.origins = [(table.oid, column.number) for column in table.columns]
        self.by_name = positions(self.names)
        self._expressions: dict[int, list[tree.Expr]] = {}

    def expressions(self, index: int) -> list[tree.Expr]:
        """The table's columns as entry `index` of a range table."""
        found = self._expressions.get(index)
        if found is None:
            found = [tree.Var(index, column.number, column.type, 0, column.name) for column in self.table.columns]
            if index < _INDEXES_KEPT:
                self._expressions[index] = found
        return found


_SHAPES_KEPT = 1024
_INDEXES_KEPT = 8
_shapes: dict[int, TableShape] = {}


def shape_of(table: Table | VirtualTable) -> TableShape:
    """The shape of a table definition, computed once, because it takes a quarter of the analysis of a small join, and
    more for wide tables."""
    shape = _shapes.get(id(table))
    if shape is None or shape.table is not table:
        if len(_shapes) >= _SHAPES_KEPT:
            _shapes.clear()
        shape = _shapes[id(table)] = TableShape(table)
    return shape


def table_item(index: int, entry: tree.RangeTable) -> NamespaceItem:
    """The namespace item of a stored or virtual table."""
    table = entry.table
    shape = shape_of(table)
    if entry.columns is shape.columns:
        expressions = shape.expressions(index)
        return NamespaceItem(entry.alias, index, entry, shape.names, expressions, shape.origins, shape.by_name)
    names = [column.name for column in entry.columns]
    expressions = [
        tree.Var(index, column.number, column.type, 0, name) for column, name in zip(table.columns, names, strict=True)
    ]
    origins = [(table.oid, column.number) for column in table.columns]
    return NamespaceItem(entry.alias, index, entry, names, expressions, origins)


def positional_item(index: int, entry: tree.RangeEntry, origins: list[tuple[int, int]] | None = None) -> NamespaceItem:
    """The namespace item of a subquery, function, VALUES list or CTE: columns by position."""
    names = [column.name for column in entry.columns]
    expressions: list[tree.Expr] = [
        tree.Var(index, position, column.type, 0, column.name) for position, column in enumerate(entry.columns, 1)
    ]
    return NamespaceItem(entry.alias, index, entry, names, expressions, origins)


def raise_levels(expr: tree.Expr, levels: int, location: int) -> tree.Expr:
    """A namespace expression as seen from `levels` levels further in, at a place in the text."""
    if isinstance(expr, tree.Var):
        return tree.Var(expr.relation, expr.column, expr.type, expr.levels_up + levels, expr.name, location)
    if levels == 0:
        return expr
    return shift_levels(expr, levels)


def find_column(state: State, name: str, location: int, local_only: bool = False) -> tree.Expr | None:
    """colNameToVar: the column for an unqualified name, or None. 42702 if there are several."""
    level: State | None = state
    levels = 0
    while level is not None:
        found: tuple[NamespaceItem, int] | None = None
        for item in level.namespace:
            if not item.columns_visible:
                continue
            position = item.by_name.get(name)
            if position is None:
                continue
            if item.lateral_only and not level.lateral:
                continue
            if found is not None or position == -1:
                fail("42702", f'column reference "{name}" is ambiguous', location)
            _check_lateral(level, item, location)
            found = (item, position)
        if found is not None:
            return raise_levels(found[0].read(found[1]), levels, location)
        if name in SYSTEM_COLUMNS and (value := _system_column(level, name, location)) is not None:
            return raise_levels(value, levels, location)
        if local_only:
            return None
        level, levels = level.parent, levels + 1
    return None


def _system_column(level: State, name: str, location: int) -> tree.Expr | None:
    """The system column for an unqualified name."""
    found: tree.Expr | None = None
    for item in level.namespace:
        if not item.columns_visible or (item.lateral_only and not level.lateral):
            continue
        value = system_column(level, item, name, location)
        if value is None:
            continue
        if found is not None:
            fail("42702", f'column reference "{name}" is ambiguous', location)
        _check_lateral(level, item, location)
        found = value
    return found


def _check_lateral(level: State, item: NamespaceItem, location: int) -> None:
    if not item.lateral_only or item.lateral_ok:
        return
    message = f'invalid reference to FROM-clause entry for table "{item.alias}"'
    if item is level.target:
        hint = f'There is an entry for table "{item.alias}", but it cannot be referenced from this part of the query.'
        fail("42P10", message, location, hint=hint)
    detail = "The combining JOIN type must be INNER or LEFT for a LATERAL reference."
    fail("42P10", message, location, detail=detail)


def find_item(state: State, schema: str | None, name: str, location: int) -> tuple[NamespaceItem, int] | None:
    """refnameNamespaceItem: the table for a qualifier, and its number of levels out."""
    schema_oid = 0
    if schema is not None:
        schema_oid = state.environment.schema_oid(schema)
        if not schema_oid:
            return None
    level: State | None = state
    levels = 0
    while level is not None:
        found = None
        for item in level.namespace:
            if item.alias != name or not item.table_visible or (item.lateral_only and not level.lateral):
                continue
            if schema is not None and not _is_relation(state, item, schema, schema_oid, name):
                continue
            if found is not None:
                fail("42P09", f'table reference "{name}" is ambiguous', location)
            _check_lateral(level, item, location)
            found = item
        if found is not None:
            return found, levels
        level, levels = level.parent, levels + 1
    return None


def _is_relation(state: State, item: NamespaceItem, schema: str, schema_oid: int, name: str) -> bool:
    """Whether it is the table or view of that name."""
    entry = item.entry
    if item.view is not None:
        return item.view.view.schema == schema_oid and item.view.view.name == name
    if isinstance(entry, tree.RangeTable):
        return entry.table.schema == schema_oid and entry.table.name == name
    if not isinstance(entry, tree.RangeSubquery) or not entry.view:
        return False
    found = state.environment.find_relation(schema, name)
    return found is not None and found.oid == entry.view


def column_of(state: State, item: NamespaceItem, levels: int, name: str, location: int) -> tree.Expr | None:
    """The named column of one item, None if it has none."""
    position = item.by_name.get(name)
    if position is None:
        value = system_column(state.up(levels), item, name, location) if name in SYSTEM_COLUMNS else None
        return None if value is None else raise_levels(value, levels, location)
    if position == -1:
        fail("42702", f'column reference "{name}" is ambiguous', location)
    return raise_levels(item.read(position), levels, location)


def whole_row(item: NamespaceItem, levels: int, location: int) -> tree.Expr:
    """The row of an item as one value: a whole-row Var, or for a join a row of its columns."""
    entry = item.entry
    if isinstance(entry, tree.RangeFunction) and len(entry.columns) == 1 and not entry.ordinality:
        return raise_levels(item.read(0), levels, location)
    if entry is None or isinstance(entry, tree.RangeJoin):
        elements = tuple(raise_levels(expr, levels, location) for expr in item.read_all())
        return tree.RowExpr(elements, tuple(item.names), RECORD_REF, location)
    return tree.Var(item.index, 0, row_of(entry), levels, item.alias, location)


def row_columns(state: State, expr: tree.Expr) -> list[tuple[str, tree.Expr]] | None:
    """The columns of a row-valued expression, as (name, expression); None if they are unknown."""
    if isinstance(expr, tree.Var) and expr.column == 0:
        level = state.up(expr.levels_up)
        entry = level.entries[expr.relation]
        return [
            (column.name, tree.Var(expr.relation, number, column.type, expr.levels_up, column.name, expr.location))
            for column, number in zip(entry.columns, entry_numbers(entry), strict=True)
        ]
    if isinstance(expr, tree.RowExpr) and expr.type.oid == RECORD_REF.oid:
        return list(zip(expr.names, expr.elements, strict=True))
    fields = _record_fields(state, expr)
    if fields is None:
        return None
    return [(name, tree.FieldSelect(expr, number, name, type_)) for number, (name, type_) in enumerate(fields, 1)]


def _record_fields(state: State, expr: tree.Expr) -> list[tuple[str, TypeRef]] | None:
    """Names and types of a record's fields: of a function's OUT columns, of ROW(), or of a sub-query's column with one
    (expandRecordVariable)."""
    if isinstance(expr, tree.RowExpr) and expr.type.oid == RECORD_REF.oid:
        return [(name, item.type) for name, item in zip(expr.names, expr.elements, strict=True)]
    entry = entry_of(expr.type.oid)
    if entry is not None and isinstance(entry.sql_type, CompositeType):
        return list(entry.sql_type.fields)
    if isinstance(expr, tree.FuncExpr) and expr.function.output_types:
        return list(zip(expr.function.output_names, output_types(expr), strict=True))
    if isinstance(expr, tree.Var) and expr.column > 0:
        source = state.up(expr.levels_up).entries[expr.relation]
        if isinstance(source, tree.RangeSubquery):
            return _record_fields(state, source.query.output[expr.column - 1].expression)
    return None


def output_types(call: tree.FuncExpr) -> list[TypeRef]:
    """Types of a function's OUT columns, polymorphic ones by what the call bound."""
    declared = call.function.argument_types
    actual = [item.type.oid for item in call.arguments]
    return [TypeRef(resolve_polymorphic(actual, list(declared), oid, False)) for oid in call.function.output_types]


def entry_numbers(entry: tree.RangeEntry) -> list[int]:
    """The Var.column of each of an entry's columns."""
    if isinstance(entry, tree.RangeTable):
        return [column.number for column in entry.table.columns]
    return list(range(1, len(entry.columns) + 1))


# ---- errors ---------------------------------------------------------------------------------------------------------


def missing_column(state: State, name: str, location: int) -> None:
    """42703 for an unqualified name, with PostgreSQL's hint for similar names."""
    message = f'column "{name}" does not exist'
    fail("42703", message, location, **_column_hint(state, None, name))


def missing_qualified(state: State, qualifier: str, name: str, location: int) -> None:
    """42703 for t.a if t exists but a does not."""
    fail("42703", f"column {qualifier}.{name} does not exist", location, **_column_hint(state, qualifier, name))


def missing_table(state: State, qualifier: str, location: int) -> None:
    """42P01 for a qualifier without a FROM item."""
    level: State | None = state
    hidden = None
    while level is not None and hidden is None:
        for item in level.names:
            entry = item.entry
            if item.alias == qualifier:
                hidden = (item, "same")
            elif isinstance(entry, tree.RangeTable) and entry.table.name == qualifier and hidden is None:
                hidden = (item, "aliased")
        level = level.parent
    if hidden is None:
        fail("42P01", f'missing FROM-clause entry for table "{qualifier}"', location)
    item, how = hidden
    if how == "aliased" and item in state.namespace:
        fail(
            "42P01", f'invalid reference to FROM-clause entry for table "{qualifier}"', location,
            hint=f'Perhaps you meant to reference the table alias "{item.alias}".',
        )  # fmt: skip
    if how == "aliased":
        fail("42P01", f'missing FROM-clause entry for table "{qualifier}"', location)
    fail(
        "42P01", f'invalid reference to FROM-clause entry for table "{qualifier}"', location,
        hint=f'There is an entry for table "{item.alias}", but it cannot be referenced from this part of the query.',
    )  # fmt: skip


def _column_hint(state: State, qualifier: str | None, name: str) -> dict[str, str]:
    """searchRangeTableForCol and errorMissingColumn: a hidden exact match, or one or two names that are near."""
    nearest: list[tuple[str, str]] = []
    best = 4  # MAX_FUZZY_DISTANCE + 1
    level: State | None = state
    while level is not None:
        for item in level.names:
            if isinstance(item.entry, tree.RangeJoin):
                continue
            penalty = 0 if qualifier is None else _distance(qualifier, item.alias, 4)
            known = name in item.by_name or (name in SYSTEM_COLUMNS and _has_system_columns(item))
            if penalty == 0 and known:
                return {
                    "hint": f'There is a column named "{name}" in table "{item.alias}", '
                    "but it cannot be referenced from this part of the query."
                }
            if penalty > best:
                continue
            for column in item.names:
                distance = _distance(column, name, best + 1 - penalty)
                if distance > len(name) // 2:
                    continue
                distance += penalty
                if distance < best:
                    nearest, best = [(item.alias, column)], distance
                elif distance == best:
                    nearest = [*nearest, (item.alias, column)] if len(nearest) == 1 else []
        level = level.parent
    shown = " or the column ".join(f'"{table}.{column}"' for table, column in nearest)
    return {"hint": f"Perhaps you meant to reference the column {shown}."} if shown else {}


def _has_system_columns(item: NamespaceItem) -> bool:
    return isinstance(item.entry, tree.RangeTable) and isinstance(item.entry.table, Table)


def _distance(left: str, right: str, limit: int) -> int:
    """Levenshtein distance, at most limit + 1."""
    if abs(len(left) - len(right)) > limit:
        return limit + 1
    previous = list(range(len(right) + 1))
    for row, char in enumerate(left, 1):
        current = [row]
        for column, other in enumerate(right, 1):
            current.append(min(previous[column] + 1, current[column - 1] + 1, previous[column - 1] + (char != other)))
        previous = current
    return min(previous[-1], limit + 1)


def relation_kind_error(relation: object, name: str, location: int) -> None:
    """42809 for an index, 0A000 for a sequence in FROM or as a target."""
    if isinstance(relation, Index):
        fail(
            "42809", f'cannot open relation "{name}"', location,
            detail="This operation is not supported for indexes.",
        )  # fmt: skip
    if isinstance(relation, Sequence):
        refuse("reading a sequence as a table", location)
    assert isinstance(relation, (Table, VirtualTable))
