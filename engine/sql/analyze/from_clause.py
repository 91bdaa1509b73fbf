"""FROM: tables, views, subqueries, functions and joins, and their names (transformFromClause).

Every item adds entries to the range table, and returns its place in the join tree, its own namespace item (the meaning
of * for it), and the items that it makes visible. While an item is analysed, the items to its left are in the namespace
for LATERAL references only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from catalog.functions.base import Function
from catalog.functions.of_views import VIEWS
from catalog.schema import Sequence as SequenceObject
from catalog.schema import Source, Table, View, VirtualTable, sequence_table
from catalog.types import lookup
from catalog.types.base import TypeRef
from catalog.types.composite import CompositeType
from catalog.types.oids import FLOAT4, FLOAT8, RECORD
from catalog.types.user import FIRST_USER_OID
from engine.sql import ast, tree
from engine.sql.analyze import coerce, column_definitions, common_types, json_records, routines, scope
from engine.sql.analyze.column_definitions import Definitions
from engine.sql.analyze.declared import relation_of
from engine.sql.analyze.dispatch import expression, select_query
from engine.sql.analyze.domains import has_conditions, value_rule
from engine.sql.analyze.environment import undefined_table
from engine.sql.analyze.errors import fail, refuse
from engine.sql.analyze.resolve import make_operator
from engine.sql.analyze.state import NamespaceItem, State
from engine.sql.analyze.targets import column_name, range_columns
from engine.sql.analyze.typeinfo import BOOL_REF, INT8_REF
from engine.sql.analyze.views import view_query
from engine.sql.tree_walk import shift_levels, walk_with_depth


@dataclass(slots=True)
class Item:
    """One analysed FROM item: its place in the join tree, its own columns, and everything that it makes visible."""

    place: tree.FromItem
    own: NamespaceItem
    visible: list[NamespaceItem]


def from_clause(state: State, nodes: tuple[ast.Node, ...]) -> tuple[tree.FromItem, ...]:
    """Analyses the FROM list and adds its names to the namespace. 42712 for a duplicate name."""
    places = []
    for node in nodes:
        item = _item(state, node)
        _check_conflicts(state.namespace, item.visible)
        _set_lateral(item.visible, True, True)
        state.namespace = state.namespace + item.visible
        places.append(item.place)
    _set_lateral(state.namespace, False, True)
    return tuple(places)


def _set_lateral(items: list[NamespaceItem], only: bool, allowed: bool) -> None:
    for item in items:
        item.lateral_only = only
        item.lateral_ok = allowed


def _check_conflicts(left: list[NamespaceItem], right: list[NamespaceItem]) -> None:
    for one in right:
        if not one.table_visible:
            continue
        for other in left:
            if other.table_visible and one.alias == other.alias and not _distinct_tables(one, other):
                fail("42712", f'table name "{one.alias}" specified more than once')


def _distinct_tables(one: NamespaceItem, other: NamespaceItem) -> bool:
    """Allows two tables with the same name in different schemas, if neither has an alias."""
    first, second = one.entry, other.entry
    return (
        isinstance(first, tree.RangeTable)
        and isinstance(second, tree.RangeTable)
        and first.table.oid != second.table.oid
        and first.table.name == first.alias
        and second.table.name == second.alias
    )


def _item(state: State, node: ast.Node) -> Item:
    if isinstance(node, ast.RangeVar):
        item = relation_item(state, node)
    elif isinstance(node, ast.RangeSubselect):
        item = _subselect(state, node)
    elif isinstance(node, ast.RangeFunction):
        item = _function(state, node)
    elif isinstance(node, ast.JoinExpr):
        return _join(state, node)
    elif isinstance(node, ast.RangeTableSample):
        item = _sample(state, node)
    else:
        refuse(f"{type(node).__name__} in FROM", node)
    state.names.append(item)
    return Item(tree.FromRef(item.index), item, [item])


def _has_samples(relation: Table | VirtualTable) -> bool:
    return isinstance(relation, Table) or relation.kind == "r"


def _sample(state: State, node: ast.RangeTableSample) -> NamespaceItem:
    """transformRangeTableSample. 0A000 if it is not a table, 42704 for an unknown method, 2202H."""
    relation = node.relation
    item = relation_item(state, relation) if isinstance(relation, ast.RangeVar) else None
    entry = None if item is None else state.entries[item.index]
    if item is None or not isinstance(entry, tree.RangeTable) or not _has_samples(entry.table):
        fail("0A000", "TABLESAMPLE clause can only be applied to tables and materialized views", relation)
    if node.method not in ("bernoulli", "system"):
        fail("42704", f"tablesample method {node.method} does not exist", node)
    if len(node.arguments) != 1:
        fail("2202H", f"tablesample method {node.method} requires 1 argument, not {len(node.arguments)}", node)
    state.names.append(item)  # for hints
    percent = _sample_value(state, node.arguments[0], FLOAT4)
    seed = None if node.repeatable is None else _sample_value(state, node.repeatable, FLOAT8)
    state.names.pop()
    state.entries[item.index] = replace(entry, sample=tree.Sample(node.method, percent, seed))
    state.volatile = state.volatile or seed is None
    return item


def _sample_value(state: State, node: ast.Node, oid: int) -> tree.Expr:
    saved, state.namespace = state.namespace, []
    value = expression(state, node, "functions in FROM")
    state.namespace = saved
    found = coerce.coerce(state, value, TypeRef(oid), "i") or coerce.coerce(state, value, TypeRef(oid), "a")
    if found is None:
        fail("42804", f"argument of TABLESAMPLE must be type {'real' if oid == FLOAT4 else 'double precision'}", node)
    return found


# ---- tables, views, WITH queries ------------------------------------------------------------------------------------


def relation_item(state: State, node: ast.RangeVar) -> NamespaceItem:
    """A name in FROM: a WITH query, a table, or a view, which is expanded."""
    if node.schema is None:
        found = _with_query(state, node)
        if found is not None:
            return found
    source = state.shared.sources.get(node.location)
    relation = open_relation(state, node, source)
    alias = node.alias.name if node.alias else node.name
    if isinstance(relation, View):
        query, relations = view_query(relation, state.environment)
        state.shared.relations.update(dict.fromkeys(relations))
        state.volatile = state.volatile or query.volatile
        names = [column.name for column in relation.columns] or [target.name for target in query.output]
        if source is not None:
            former = dict(source.columns)
            names = [former.get(number, name) for number, name in enumerate(names, 1)]
        types = [target.expression.type for target in query.output]
        columns = tuple(
            tree.RangeColumn(name, found) for name, found in zip(_rename(names, node.alias), types, strict=True)
        )
        entry = tree.RangeSubquery(query, alias, columns, False, relation.oid)
        index = state.add(entry)
        numbers = [column.number for column in relation.columns] or list(range(1, len(names) + 1))
        origins = [(relation.oid, number) for number in numbers]
        return scope.positional_item(index, entry, origins)
    assert isinstance(relation, (Table, VirtualTable))
    if isinstance(relation, Table) and not relation.populated:
        message = f'materialized view "{relation.name}" has not been populated'
        fail("55000", message, hint="Use the REFRESH MATERIALIZED VIEW command.")
    if source is not None:
        return _source_item(state, node, relation, source, alias)
    shape = scope.shape_of(relation)
    columns = shape.columns
    if node.alias is not None and node.alias.columns:
        names = _rename(shape.names, node.alias)
        columns = tuple(
            tree.RangeColumn(name, column.type) for name, column in zip(names, relation.columns, strict=True)
        )
    range_table = tree.RangeTable(relation, alias, columns, node.alias is not None, only=node.only)
    return scope.table_item(state.add(range_table), range_table)


def _source_item(
    state: State, node: ast.RangeVar, table: Table | VirtualTable, source: Source, alias: str
) -> NamespaceItem:
    """A table in a stored text, with its former columns and their former names. A dropped column keeps its position,
    for the column lists of aliases."""
    former = [name for _, name in source.columns]
    written = node.alias.columns if node.alias is not None else ()
    names = dict(zip((number for number, _ in source.columns), _rename(former, node.alias), strict=True))
    given = frozenset(number for number, _ in source.columns[: len(written)])
    columns = tuple(tree.RangeColumn(names.get(column.number, column.name), column.type) for column in table.columns)
    entry = tree.RangeTable(table, alias, columns, node.alias is not None, only=node.only, given=given)
    types = {column.number: column.type for column in table.columns}
    index = state.add(entry)
    expressions: list[tree.Expr] = [
        tree.Var(index, number, types[number], 0, name) if number in types else tree.Const(None, INT8_REF)
        for number, name in names.items()
    ]
    shown = [name if number in types else f"........pg.dropped.{number}........" for number, name in names.items()]
    return NamespaceItem(alias, index, entry, shown, expressions, [(table.oid, number) for number in names])


def open_relation(state: State, node: ast.RangeVar, source: Source | None = None) -> Table | VirtualTable | View:
    """The relation of a RangeVar, which is added to the statement's dependencies. 42P01, 42809, 0A000."""
    if node.as_of is not None:  # where it is, the statement is analysed without it (engine/statements/as_of.py)
        fail(
            "0A000", "AS OF is not supported here", node.as_of, hint="It reads whole statements: SELECT, COPY, EXPLAIN."
        )
    if node.catalog is not None and node.catalog != state.environment.database_name:
        full = f"{node.catalog}.{node.schema}.{node.name}"
        fail("0A000", f'cross-database references are not implemented: "{full}"', node)
    if source is None:
        relation = state.environment.find_relation(node.schema, node.name)
    else:
        relation = state.environment.relation_with(source.relation)
    if relation is None:
        if node.schema is None and _is_future(state, node.name):
            fail(
                "42P01", f'relation "{node.name}" does not exist', node,
                detail=f'There is a WITH item named "{node.name}", but it cannot be referenced from this part of '
                "the query.",
                hint="Use WITH RECURSIVE, or re-order the WITH items to remove forward references.",
            )  # fmt: skip
        raise undefined_table(node.schema, node.name, node.location)
    if isinstance(relation, SequenceObject):
        relation = sequence_table(relation)
    if not isinstance(relation, (Table, VirtualTable, View)):
        scope.relation_kind_error(relation, node.name, node.location)
        raise AssertionError
    state.shared.relations[relation.oid] = None
    if state.shared.recorded is not None and relation.oid >= FIRST_USER_OID:
        columns = tuple((column.number, column.name) for column in relation.columns)
        state.shared.recorded.append(Source(node.location, relation.oid, columns))
    return relation


def _is_future(state: State, name: str) -> bool:
    level: State | None = state
    while level is not None:
        if name in level.future_ctes:
            return True
        level = level.parent
    return False


def _rename(names: list[str], alias: ast.Alias | None, what: str = "table") -> list[str]:
    """Column names after an alias's column list. 42P10 for a list that is too long."""
    if alias is None or not alias.columns:
        return names
    if len(alias.columns) > len(names):
        fail(
            "42P10",
            f'{what} "{alias.name}" has {len(names)} columns available but {len(alias.columns)} columns specified',
        )
    return [*alias.columns, *names[len(alias.columns) :]]


def _with_query(state: State, node: ast.RangeVar) -> NamespaceItem | None:
    level: State | None = state
    levels = 0
    while level is not None:
        columns: tuple[tree.RangeColumn, ...] | None = None
        recursive = False
        if node.name in level.recursive_self:
            columns, recursive = level.recursive_self[node.name], True
        elif node.name in level.ctes:
            cte = level.ctes[node.name]
            columns = cte.columns
            if not isinstance(cte.query, tree.Query) and not cte.query.returning:
                fail("0A000", f'WITH query "{node.name}" does not have a RETURNING clause', node)
        if columns is not None:
            alias = node.alias.name if node.alias else node.name
            names = _rename([column.name for column in columns], node.alias)
            renamed = tuple(tree.RangeColumn(name, old.type) for name, old in zip(names, columns, strict=True))
            entry = tree.RangeCte(node.name, levels, alias, renamed, recursive)
            return scope.positional_item(state.add(entry), entry)
        level, levels = level.parent, levels + 1
    return None


# ---- subqueries and functions ---------------------------------------------------------------------------------------


def _subselect(state: State, node: ast.RangeSubselect) -> NamespaceItem:
    if node.alias is None:
        fail(
            "42601",
            "VALUES in FROM must have an alias" if node.query.values else "subquery in FROM must have an alias",
            node,
            hint="For example, FROM (VALUES ...) [AS] foo."
            if node.query.values
            else "For example, FROM (SELECT ...) [AS] foo.",
        )
    saved_kind, state.kind = state.kind, "FROM clause of their own query level"
    saved_lateral, state.lateral = state.lateral, node.lateral
    inner = State(state.shared, state)
    query = select_query(inner, node.query, settle=True)
    state.kind, state.lateral = saved_kind, saved_lateral
    state.volatile = state.volatile or query.volatile
    columns = range_columns(query.targets)
    names = _rename([column.name for column in columns], node.alias)
    columns = tuple(tree.RangeColumn(name, old.type) for name, old in zip(names, columns, strict=True))
    entry = tree.RangeSubquery(query, node.alias.name, columns, node.lateral)
    return scope.positional_item(state.add(entry), entry)


def _view_of(node: ast.RangeFunction) -> ast.RangeVar | None:
    """The view whose rows a system function returns."""
    call = node.functions[0]
    lists = node.definitions or node.inside
    if len(node.functions) > 1 or node.ordinality or lists or not isinstance(call, ast.FuncCall):
        return None
    view = VIEWS.get(call.names[-1])
    if view is None or call.arguments or len(call.names) > 2 or call.names[:-1] not in ((), ("pg_catalog",)):
        return None
    return ast.RangeVar(None, "pg_catalog", view, node.alias or ast.Alias(call.names[-1]))


def _function(state: State, node: ast.RangeFunction) -> NamespaceItem:
    view = _view_of(node)
    if view is not None:
        return relation_item(state, view)
    calls, lists = column_definitions.calls_of(node)
    saved, state.lateral = state.lateral, True
    values: list[tree.Expr] = []
    for call in calls:
        value = coerce.settle_unknown(state, expression(state, call, "functions in FROM"))
        for item, depth in walk_with_depth(value):
            if item is not value and depth == 0 and isinstance(item, tree.FuncExpr) and item.function.returns_set:
                fail("0A000", "set-returning functions must appear at top level of FROM", item.location)
        values.append(value)
    state.lateral = saved
    lateral = any(
        isinstance(item, tree.Var) and item.levels_up == depth
        for value in values
        for item, depth in walk_with_depth(value)
    )
    name = column_name(calls[0])
    if len(values) == 1 and not lists[0] and (fields := _fields_of(values[0])) is not None:
        return _rows_of_composites(state, node, values[0], fields, name, lateral or node.lateral)
    columns: list[tree.RangeColumn] = []
    counts = []
    for position, (call, value) in enumerate(zip(calls, values, strict=True)):
        given = _function_columns(state, node, call, value, lists[position], len(calls))
        values[position] = json_records.with_columns(value, given)
        columns.extend(given)
        counts.append(len(given))
    if node.ordinality:
        columns.append(tree.RangeColumn("ordinality", INT8_REF))
    alias = node.alias.name if node.alias else name
    names = _rename([column.name for column in columns], node.alias)
    renamed = tuple(replace(old, name=new) for new, old in zip(names, columns, strict=True))
    entry = tree.RangeFunction(tuple(values), alias, renamed, tuple(counts), node.ordinality, lateral or node.lateral)
    rows: tree.RangeEntry = entry
    if any(column.type.oid >= FIRST_USER_OID or column.type.domain for column in columns):
        rows = _checked_rows(state, entry)
    return scope.positional_item(state.add(rows), rows)


def _fields_of(value: tree.Expr) -> Sequence[tuple[str, TypeRef]] | None:
    """The fields of the values of a composite type that a function returns, for example unnest; None for a function
    that returns rows, and for other values."""
    known = lookup(value.type.oid)
    if not isinstance(value, tree.FuncExpr) or not isinstance(known, CompositeType) or value.function.output_types[1:]:
        return None
    returns_rows = routines.row_columns(value) or json_records.composite_columns(value)
    return None if returns_rows is not None else known.fields


def _rows_of_composites(
    state: State,
    node: ast.RangeFunction,
    value: tree.Expr,
    fields: Sequence[tuple[str, TypeRef]],
    name: str,
    lateral: bool,
) -> NamespaceItem:
    """The values of a function in FROM as rows of their fields."""
    whole = tree.Var(0, 1, value.type, 0, name)
    found: list[tuple[str, tree.Expr]] = [
        (field, tree.FieldSelect(whole, number, field, type_)) for number, (field, type_) in enumerate(fields, 1)
    ]
    columns = [tree.RangeColumn(name, value.type)]
    if node.ordinality:
        columns.append(tree.RangeColumn("ordinality", INT8_REF))
        found.append(("ordinality", tree.Var(0, 2, INT8_REF, 0, "ordinality")))
    inner = tree.RangeFunction((value,), name, tuple(columns), (1,), node.ordinality, lateral)
    query = tree.Query(
        tuple(tree.Target(item, field) for field, item in found),
        (shift_levels(inner, 1),),
        (tree.FromRef(0),),
        volatile=state.volatile,
    )
    names = _rename([field for field, _ in found], node.alias)
    renamed = tuple(tree.RangeColumn(new, item.type) for new, (_, item) in zip(names, found, strict=True))
    entry = tree.RangeSubquery(query, node.alias.name if node.alias else name, renamed, lateral)
    return scope.positional_item(state.add(entry), entry)


def _checked_rows(state: State, entry: tree.RangeFunction) -> tree.RangeEntry:
    """The function's rows with checks of domains, if domains in its columns have conditions."""
    columns = [
        tree.Var(0, number, TypeRef(column.type.oid, column.type.typmod), 0, column.name)
        for number, column in enumerate(entry.columns, 1)
    ]
    rules = tuple(
        value_rule(state.environment, value, column.type)
        for value, column in zip(columns, entry.columns, strict=True)
        if has_conditions(state.environment.catalog, column.type)
    )
    if not rules:
        return entry
    query = tree.Query(
        tuple(tree.Target(value, value.name) for value in columns),
        (shift_levels(entry, 1),),
        (tree.FromRef(0),),
        tree.BoolExpr("and", rules),
        volatile=state.volatile,
    )
    return tree.RangeSubquery(query, entry.alias, entry.columns, entry.lateral)


def _function_columns(
    state: State, node: ast.RangeFunction, call: ast.Node, value: tree.Expr, definitions: Definitions, count: int
) -> list[tree.RangeColumn]:
    function: Function | None = value.function if isinstance(value, tree.FuncExpr) else None
    is_record = value.type.oid == RECORD and not (function is not None and len(function.output_types) > 1)
    if definitions:
        if not is_record:
            at = definitions[0]
            if value.type.oid == RECORD:
                fail("42601", "a column definition list is redundant for a function with OUT parameters", at)
            if isinstance(lookup(value.type.oid), CompositeType):
                message = "a column definition list is redundant for a function returning a named composite type"
                fail("42601", message, at)
            fail("42601", 'a column definition list is only allowed for functions returning "record"', at)
        if relation_of(state.environment, value.type) is not None:
            message = "a column definition list is redundant for a function returning a named composite type"
            fail("42601", message, definitions[0])
        return column_definitions.columns_of(state, definitions, value)
    if is_record:
        columns = scope.row_columns(state, value)
        if columns is None:
            fail("42601", 'a column definition list is required for functions returning "record"', call)
        return [tree.RangeColumn(name, expr.type) for name, expr in columns]
    if function is not None and len(function.output_types) > 1:
        assert isinstance(value, tree.FuncExpr)
        resolved = scope.output_types(value)
        return [tree.RangeColumn(name, oid) for name, oid in zip(function.output_names, resolved, strict=True)]
    composite = routines.row_columns(value) or json_records.composite_columns(value)
    if composite is not None:
        return composite
    name = column_name(call)
    if function is not None and len(function.output_types) == 1 and function.output_names[0]:
        name = function.output_names[0]
    elif count == 1 and node.alias is not None:
        name = node.alias.name
    return [tree.RangeColumn(name, value.type)]


# ---- joins ----------------------------------------------------------------------------------------------------------


def _join(state: State, node: ast.JoinExpr) -> Item:
    left = _item(state, node.left)
    _set_lateral(left.visible, True, node.kind in ("inner", "left", "cross"))
    saved = state.namespace
    state.namespace = saved + left.visible
    right = _item(state, node.right)
    state.namespace = saved
    _check_conflicts(left.visible, right.visible)
    visible = left.visible + right.visible
    using = _natural_columns(left.own, right.own) if node.natural else list(node.using)
    merged, tests = _merge(state, node, left.own, right.own, using)
    condition: tree.Expr | None = None
    if tests:
        condition = tests[0] if len(tests) == 1 else tree.BoolExpr("and", tuple(tests), BOOL_REF, node.location)
    elif node.on is not None:
        condition = _on(state, node.on, visible)
    elif node.natural and node.kind != "inner":
        condition = tree.Const(True, BOOL_REF)
    return _join_item(state, node, left, right, using, merged, condition)


def _on(state: State, node: ast.Node, visible: list[NamespaceItem]) -> tree.Expr:
    saved = state.namespace
    _set_lateral(visible, False, True)
    state.namespace = visible
    condition = coerce.to_boolean(state, expression(state, node, "JOIN conditions"), "JOIN/ON")
    state.namespace = saved
    return condition


def _natural_columns(left: NamespaceItem, right: NamespaceItem) -> list[str]:
    names = set(right.names)
    return [name for name in left.names if name in names]


def _merge(
    state: State, node: ast.JoinExpr, left: NamespaceItem, right: NamespaceItem, using: list[str]
) -> tuple[list[tree.Expr], list[tree.Expr]]:
    """The merged columns of USING, and the equalities that join them."""
    merged: list[tree.Expr] = []
    tests: list[tree.Expr] = []
    for index, name in enumerate(using):
        if name in using[:index]:
            fail("42701", f'column name "{name}" appears more than once in USING clause', node)
        sides: list[tree.Expr] = []
        for item, which in ((left, "left"), (right, "right")):
            position = item.by_name.get(name)
            if position is None:
                fail("42703", f'column "{name}" specified in USING clause does not exist in {which} table')
            if position == -1:
                fail("42702", f'common column name "{name}" appears more than once in {which} table')
            sides.append(item.read(position))
        test = make_operator(state, ("=",), sides[0], sides[1], -1)
        tests.append(coerce.to_boolean(state, test, "JOIN/USING"))
        merged.append(_merged_column(state, node.kind, sides[0], sides[1]))
    return merged, tests


def _merged_column(state: State, kind: str, left: tree.Expr, right: tree.Expr) -> tree.Expr:
    """buildMergedJoinVar."""
    oid, typmod = left.type.oid, left.type.typmod
    if right.type.oid != oid:
        oid = common_types.select_common_type([left, right], "JOIN/USING")[0]
        typmod = -1
    elif right.type.typmod != typmod:
        typmod = -1
    sides = []
    for side in (left, right):
        value = coerce.to_common(state, side, oid, "JOIN/USING")
        if value.type.typmod != typmod:
            value = tree.RelabelType(value, TypeRef(oid, typmod))
        sides.append(value)
    if kind == "left" or (kind in ("inner", "cross") and (sides[0] is left or sides[1] is not right)):
        return sides[0]
    if kind in ("right", "inner"):
        return sides[1]
    return tree.CoalesceExpr((sides[0], sides[1]), TypeRef(oid, typmod))


def _joined_columns(
    left: NamespaceItem, right: NamespaceItem, using: list[str], merged: list[tree.Expr]
) -> tuple[list[str], list[tree.Expr]]:
    """The columns of a join: the columns that USING has merged, then those of both sides."""
    if not using:
        return left.names + right.names, left.read_all() + right.read_all()
    names = list(using)
    expressions = list(merged)
    for side in (left, right):
        for name, expr in zip(side.names, side.read_all(), strict=True):
            if name not in using:
                names.append(name)
                expressions.append(expr)
    return names, expressions


def _join_item(
    state: State,
    node: ast.JoinExpr,
    left: Item,
    right: Item,
    using: list[str],
    merged: list[tree.Expr],
    condition: tree.Expr | None,
) -> Item:
    names, expressions = _joined_columns(left.own, right.own, using, merged)
    alias = node.alias.name if node.alias else "unnamed_join"
    shown = _rename(names, node.alias, "join expression")
    columns = tuple([tree.RangeColumn(name, expr.type) for name, expr in zip(shown, expressions, strict=True)])
    entry = tree.RangeJoin(alias, columns, tuple(expressions), len(using))
    index = state.add(entry)
    # Expressions above the join refer to the columns of the base entries, except for merged columns.
    seen: list[tree.Expr] = [
        expr if isinstance(expr, tree.Var) else tree.Var(index, position, expr.type, 0, name)
        for position, (name, expr) in enumerate(zip(shown, expressions, strict=True), 1)
    ]
    own = NamespaceItem(alias, index, entry, shown, seen)
    visible: list[NamespaceItem] = []
    if node.using_alias is not None and node.alias is None:
        only = NamespaceItem(node.using_alias, index, entry, list(using), seen[: len(using)])
        _check_conflicts(left.visible + right.visible, [only])
        right.visible.append(only)
    if node.alias is None:
        visible = left.visible + right.visible
        for item in visible:
            item.columns_visible = False
        own.table_visible = False
    else:
        state.names.append(own)
    kind = "inner" if node.kind == "cross" and condition is not None else node.kind
    if kind == "inner" and condition is None:
        kind = "cross"
    if kind in ("left", "full"):
        state.nullable |= _entries(right.place)
    if kind in ("right", "full"):
        state.nullable |= _entries(left.place)
    place = tree.FromJoin(kind, left.place, right.place, condition, index)
    return Item(place, own, [*visible, own])


def _entries(place: tree.FromItem) -> set[int]:
    """The range table entries under a place of the join tree."""
    if isinstance(place, tree.FromRef):
        return {place.relation}
    return _entries(place.left) | _entries(place.right)
