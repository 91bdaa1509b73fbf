"""INSERT, UPDATE and DELETE: targets, assignment casts, defaults, RETURNING (analyze.c, rewriteHandler.c)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from catalog.schema import PG_CATALOG_OID, Column, Index, Table, View, VirtualTable
from catalog.schema import Sequence as SequenceObject
from catalog.types.base import TypeRef
from catalog.types.oids import REFCURSOR, UNKNOWN
from engine.sql import ast, tree
from engine.sql.analyze import coerce
from engine.sql.analyze.assignments import check_default, store_part
from engine.sql.analyze.conflicts import on_conflict
from engine.sql.analyze.dispatch import analyses, expression, select_query
from engine.sql.analyze.environment import undefined_table
from engine.sql.analyze.errors import expr_location, fail
from engine.sql.analyze.expressions import named_argument
from engine.sql.analyze.from_clause import from_clause
from engine.sql.analyze.rules import TableRules, table_rules, with_view_defaults
from engine.sql.analyze.scope import table_item
from engine.sql.analyze.set_clause import assign, own_name, target_column, update_assignments
from engine.sql.analyze.set_operations import recast
from engine.sql.analyze.state import NamespaceItem, State
from engine.sql.analyze.targets import range_columns, settle, target_list
from engine.sql.analyze.typeinfo import TEXT_REF
from engine.sql.analyze.updatable import view_target
from engine.sql.analyze.with_clause import with_clause
from engine.sql.tree_walk import shift_levels, walk


def changed_table(state: State, node: ast.RangeVar, verb: str) -> tuple[Table, NamespaceItem]:
    """setTargetTable: the table to change, as range entry 0."""
    if node.catalog is not None and node.catalog != state.environment.database_name:
        full = f"{node.catalog}.{node.schema}.{node.name}"
        fail("0A000", f'cross-database references are not implemented: "{full}"', node)
    relation = state.environment.find_relation(node.schema, node.name)
    if relation is None:
        raise undefined_table(node.schema, node.name, node.location)
    if isinstance(relation, Index):
        fail("42809", f'"{node.name}" is an index', node)
    if isinstance(relation, SequenceObject):
        fail("42809", f'cannot change sequence "{node.name}"')
    if isinstance(relation, VirtualTable):
        if relation.schema == PG_CATALOG_OID and relation.kind == "r":
            fail("42501", f"permission denied for table {node.name}")
        fail("55000", f'cannot {verb} view "{node.name}"')
    if isinstance(relation, View) and verb == "merge into":
        fail(
            "0A000", f'cannot execute MERGE on relation "{node.name}"',
            detail="This operation is not supported for views.",
        )  # fmt: skip
    if isinstance(relation, View):
        return _changed_view(state, node, relation, verb)
    if relation.query is not None:
        if verb == "merge into":
            detail = "This operation is not supported for materialized views."
            fail("0A000", f'cannot execute MERGE on relation "{node.name}"', detail=detail)
        fail("42809", f'cannot change materialized view "{node.name}"')
    state.shared.relations[relation.oid] = None
    state.shared.written[relation.oid] = None
    alias = node.alias.name if node.alias else relation.name
    columns = tuple(tree.RangeColumn(column.name, column.type) for column in relation.columns)
    entry = tree.RangeTable(relation, alias, columns, only=node.only)
    item = table_item(state.add(entry), entry)
    state.names.append(item)
    state.target = item
    return relation, item


def _changed_view(state: State, node: ast.RangeVar, view: View, verb: str) -> tuple[Table, NamespaceItem]:
    """The base table of an updatable view, with the view's column names."""
    target = view_target(view, state.environment, verb)
    table = target.table
    state.shared.relations.update(dict.fromkeys((view.oid, *target.relations)))
    state.shared.written[table.oid] = None
    alias = node.alias.name if node.alias else view.name
    columns = tuple(tree.RangeColumn(column.name, column.type) for column in table.columns)
    entry = tree.RangeTable(table, alias, columns, only=target.only)
    item = target.item(state.add(entry), alias)
    state.names.append(item)
    state.target = item
    return table, item


def _views(item: NamespaceItem, inserted: Iterable[Column] = ()) -> tuple[tree.ViewUse, ...]:
    return () if item.view is None else item.view.views(column.name for column in inserted)


def _checks(item: NamespaceItem, checks: tuple[tuple[str, tree.Expr], ...]) -> tuple[tuple[str, tree.Expr], ...]:
    """The checks of new rows: the table's constraints, and the check options of the view."""
    return checks if item.view is None else (*checks, *item.view.checks())


def _returning(state: State, item: NamespaceItem, nodes: tuple[ast.ResTarget, ...]) -> tuple[tree.Target, ...]:
    if not nodes:
        return ()
    targets = target_list(state, nodes, "RETURNING")
    settle(state, targets)
    return tuple(targets)


# ---- INSERT ---------------------------------------------------------------------------------------------------------


@analyses(ast.InsertStmt)
def insert(state: State, node: ast.InsertStmt) -> tree.Insert:
    """transformInsertStmt, with the defaults and the rules about generated columns that the rewriter adds."""
    if node.with_clause is not None:
        with_clause(state, node.with_clause)
    table, item = changed_table(state, node.relation, "insert into")
    rules = table_rules(table, state.environment)
    if item.view is not None:
        rules = with_view_defaults(rules, item.view, state.environment)
    query = node.query
    columns = insert_columns(table, item, node.columns)
    rows: tuple[tuple[tree.Expr, ...], ...] = ()
    source: tree.Query | None = None
    source_columns: tuple[int, ...] = ()
    if query is None:
        rows = (tuple(_default(rules, column) for column in table.columns),)
    elif query.values and not (
        query.order_by or query.limit or query.offset or query.with_clause or query.locking or _has_star(query)
    ):
        rows, source, source_columns = _insert_values(state, node, table, rules, columns, query)
    else:
        source, source_columns = _insert_select(state, node, table, columns, query)
    defaults: tuple[tree.Assignment, ...] = ()
    if source is not None:
        defaults = tuple(
            tree.Assignment(column.number, rules.default(column))
            for column in table.columns
            if column.number not in source_columns and column.generated is None
        )
    state.namespace = [item]
    conflict = None
    if node.on_conflict is not None:
        conflict = on_conflict(state, node.on_conflict, table, item, rules)
        item.may_conflict = conflict.action == "update"
    returning = _returning(state, item, node.returning)
    width = len(source_columns) if source is not None else len(query.values[0]) if query is not None else 0
    given = columns if node.columns else columns[:width]
    return tree.Insert(
        table, tuple(state.entries), rows, source, source_columns, defaults, rules.generated,
        _checks(item, rules.checks), conflict, returning, tuple(state.ctes.values()),
        tuple(column.number for column in given), _views(item, given),
    )  # fmt: skip


def insert_columns(table: Table, item: NamespaceItem, targets: tuple[ast.ResTarget, ...]) -> list[Column]:
    """checkInsertTargets: the column of each target, once for each of its parts (`gather_values` joins them). For a
    view, only the columns before the first computed one."""
    found: list[Column] = []
    if not targets:
        if item.view is None:
            return list(table.columns)
        for name in item.names:
            if name in item.view.unchangeable:
                break
            column = target_column(table, item, name, "insert into", -1)
            if any(column.number == other.number for other in found):
                fail("42601", f'multiple assignments to same column "{own_name(table, column)}"')
            found.append(column)
        return found
    for target in targets:
        assert target.name is not None
        column = target_column(table, item, target.name, "insert into", target.location)
        whole = [other.name for other in targets if not other.indirection]
        if target.indirection and target.name not in whole:
            found.append(column)
            continue
        if column in found:
            fail("42701", f'column "{target.name}" specified more than once', target)
        if any(column.number == other.number for other in found):
            fail("42601", f'multiple assignments to same column "{own_name(table, column)}"')
        found.append(column)
    return found


def _default(rules: TableRules, column: Column) -> tree.Expr:
    return rules.default(column)


def check_given(column: Column, overriding: str) -> bool:
    """Whether a given value is used; OVERRIDING USER VALUE ignores it. 428C9 if it is not allowed."""
    if column.generated is not None:
        fail(
            "428C9", f'cannot insert a non-DEFAULT value into column "{column.name}"',
            detail=f'Column "{column.name}" is a generated column.',
        )  # fmt: skip
    if column.identity == "a" and overriding == "":
        fail(
            "428C9", f'cannot insert a non-DEFAULT value into column "{column.name}"',
            detail=f'Column "{column.name}" is an identity column defined as GENERATED ALWAYS.',
            hint="Use OVERRIDING SYSTEM VALUE to override.",
        )  # fmt: skip
    return not (column.identity and overriding == "user")


def _check_count(
    node: ast.InsertStmt, item: NamespaceItem, columns: Sequence[Column], given: int, locate: object
) -> None:
    if item.view is not None and not node.columns and len(columns) < given <= len(item.names):
        item.view.column(item.names[len(columns)], "insert into", -1)
    if given > len(columns):
        fail("42601", "INSERT has more expressions than target columns", locate(len(columns)))  # type: ignore[operator]
    if node.columns and given < len(columns):
        fail("42601", "INSERT has more target columns than expressions", node.columns[given])


def _has_star(query: ast.SelectStmt) -> bool:
    """Whether VALUES has a row that is expanded, as `new.*` in PL/pgSQL."""
    return any(isinstance(cell, ast.ColumnRef) and cell.names[-1] == "*" for row in query.values for cell in row)


def _insert_values(
    state: State, node: ast.InsertStmt, table: Table, rules: TableRules, columns: list[Column], query: ast.SelectStmt
) -> tuple[tuple[tuple[tree.Expr, ...], ...], tree.Query | None, tuple[int, ...]]:
    """VALUES of an INSERT: each cell cast to its column. With subqueries inside, the rows become a query."""
    width = len(query.values[0])
    kind = "single VALUES" if len(query.values) == 1 else "VALUES"
    cells: list[list[tree.Expr | None]] = []
    for row in query.values:
        if len(row) != width:
            fail("42601", "VALUES lists must all be the same length", row[0])
        cells.append([None if isinstance(cell, ast.SetToDefault) else expression(state, cell, kind) for cell in row])
    first = query.values[0]
    assert state.target is not None
    _check_count(node, state.target, columns, width, lambda position: first[position])
    columns = columns[:width]
    if has_parts(node.columns):
        cells = [gather_values(state, node.columns, columns, row) for row in cells]
        columns = once(columns)
        width = len(columns)
    used = [True] * width
    for position, column in enumerate(columns):
        if any(row[position] is not None for row in cells):
            used[position] = check_given(column, node.overriding)
    ready = [
        [
            assign(state, value, column) if value is not None and use else rules.default(column)
            for value, column, use in zip(row, columns, used, strict=True)
        ]
        for row in cells
    ]
    if any(_has_sublink(value) for row in ready for value in row):
        source = _values_source(state, columns, ready)
        return (), source, tuple(column.number for column in columns)
    return tuple(_full_rows(table, rules, columns, ready)), None, ()


def has_parts(targets: tuple[ast.ResTarget, ...]) -> bool:
    """Whether parts of columns are among the targets."""
    return any(target.indirection for target in targets)


def once(columns: list[Column]) -> list[Column]:
    """Each column once, in the order of their first targets."""
    return list({column.number: column for column in columns}.values())


def gather_values(
    state: State, targets: tuple[ast.ResTarget, ...], columns: list[Column], row: Sequence[tree.Expr | None]
) -> list[tree.Expr | None]:
    """The values of a row, with values of parts joined to one value of their column: INSERT INTO t (a[1], b.x)."""
    values: dict[int, tree.Expr | None] = {}
    for target, column, value in zip(targets, columns, row, strict=False):
        if not target.indirection:
            values[column.number] = value
            continue
        if value is None:
            check_default(target)
        before = values.get(column.number) or tree.Const(None, TypeRef(column.type.oid, column.type.typmod))
        values[column.number] = store_part(state, before, column, target, value, "INSERT")
    return list(values.values())


def _gathered_source(
    state: State, targets: tuple[ast.ResTarget, ...], columns: list[Column], source: tree.Query
) -> tree.Query:
    """`gather_values` over the rows of a query, as a query around it."""
    around = State(state.shared, state)
    row: list[tree.Expr | None] = []
    inside: list[tree.Target] = []
    for target in source.targets:
        if target.junk:
            inside.append(target)
            continue
        value = target.expression
        if value.type.oid == UNKNOWN and isinstance(value, tree.Const | tree.Param):  # gets the type of its column
            row.append(value)
            inside.append(replace(target, expression=tree.Const(None, TEXT_REF)))
        else:
            value = coerce.settle_unknown(state, value)
            type_ = TypeRef(value.type.oid, value.type.typmod)
            row.append(tree.Var(0, len(row) + 1, type_, 0, target.name, expr_location(value)))
            inside.append(replace(target, expression=value))
    query = shift_levels(recast(source, tuple(inside)), 1)
    assert isinstance(query, tree.Query)
    entry = tree.RangeSubquery(query, "*SELECT*", range_columns(query.targets))
    values = gather_values(around, targets, columns, row)
    found = tuple(
        tree.Target(value, column.name)
        for value, column in zip(values, once(columns), strict=True)
        if value is not None
    )
    return tree.Query(found, (entry,), (tree.FromRef(0),), volatile=source.volatile or around.volatile)


def _full_rows(
    table: Table, rules: TableRules, columns: list[Column], rows: list[list[tree.Expr]]
) -> list[tuple[tree.Expr, ...]]:
    """Rows over all columns of the table, in its order."""
    if len(columns) == len(table.columns) and all(
        one.number == other.number for one, other in zip(columns, table.columns, strict=True)
    ):
        return [tuple(row) for row in rows]
    places = {column.number: position for position, column in enumerate(columns)}
    template = [(places.get(column.number), rules.default(column)) for column in table.columns]
    return [tuple(default if place is None else row[place] for place, default in template) for row in rows]


def _has_sublink(value: tree.Expr) -> bool:
    if isinstance(value, (tree.Const, tree.Param)):
        return False
    return any(isinstance(item, tree.SubLink) for item in walk(value))


def _values_source(state: State, columns: list[Column], rows: list[list[tree.Expr]]) -> tree.Query:
    """The rows as a query one level further in."""
    shifted = [tuple(shift_levels(value, 1) for value in row) for row in rows]
    names = [column.name for column in columns]
    if len(shifted) == 1:
        targets = tuple(tree.Target(value, name) for value, name in zip(shifted[0], names, strict=True))
        return tree.Query(targets, volatile=state.volatile)
    ranges = tuple(tree.RangeColumn(column.name, column.type) for column in columns)
    entry = tree.RangeValues(tuple(shifted), "*VALUES*", ranges)
    targets = tuple(
        tree.Target(tree.Var(0, position, column.type, 0, column.name), column.name)
        for position, column in enumerate(columns, 1)
    )
    return tree.Query(targets, (entry,), (tree.FromRef(0),), volatile=state.volatile)


def _insert_select(
    state: State, node: ast.InsertStmt, table: Table, columns: list[Column], query: ast.SelectStmt
) -> tuple[tree.Query, tuple[int, ...]]:

    saved, state.namespace = state.namespace, []
    source = select_query(State(state.shared, state), query, settle=False)
    state.namespace = saved
    output = source.output
    locations = [expr_location(target.expression) for target in output]
    assert state.target is not None
    _check_count(node, state.target, columns, len(output), locations.__getitem__)
    columns = columns[: len(output)]
    if has_parts(node.columns):
        source = _gathered_source(state, node.columns, columns, source)
        columns = once(columns)
    dropped = [position for position, column in enumerate(columns) if not check_given(column, node.overriding)]
    targets = list(source.targets)
    places = [position for position, target in enumerate(targets) if not target.junk]
    for place, column in zip(places, columns, strict=True):
        value = assign(state, targets[place].expression, column)
        if value is not targets[place].expression:
            targets[place] = replace(targets[place], expression=value)
    if any(new is not old for new, old in zip(targets, source.targets, strict=True)):
        source = recast(source, tuple(targets))
    numbers = [column.number for column in columns]
    if dropped:
        source = _without_columns(source, dropped)
        numbers = [number for position, number in enumerate(numbers) if position not in dropped]
    return source, tuple(numbers)


def _without_columns(source: tree.Query, dropped: list[int]) -> tree.Query:
    """The source without columns that OVERRIDING USER VALUE ignores."""
    inner = shift_levels(source, 1)
    assert isinstance(inner, tree.Query)
    columns = range_columns(inner.targets)
    targets = tuple(
        tree.Target(tree.Var(0, position + 1, column.type, 0, column.name), column.name)
        for position, column in enumerate(columns)
        if position not in dropped
    )
    entry = tree.RangeSubquery(inner, "*SELECT*", columns)
    return tree.Query(targets, (entry,), (tree.FromRef(0),), volatile=source.volatile)


# ---- UPDATE, DELETE -------------------------------------------------------------------------------------------------


@analyses(ast.UpdateStmt)
def update(state: State, node: ast.UpdateStmt) -> tree.Update:
    """transformUpdateStmt: the target is range entry 0, FROM items follow."""
    table, item, places, where, returning = _changed_rows(state, node, "update", node.from_clause)
    rules = table_rules(table, state.environment)
    if item.view is not None:  # DEFAULT is that of the view's column, or NULL
        rules = with_view_defaults(replace(rules, defaults={}), replace(item.view, inner=None), state.environment)
    assignments = update_assignments(state, node.assignments, table, item, rules)
    checks = _checks(item, rules.checks_of_update(part.column for part in assignments))
    return tree.Update(
        table, tuple(state.entries), assignments, places, where, rules.generated, checks, returning,
        tuple(state.ctes.values()), _views(item),
    )  # fmt: skip


@analyses(ast.DeleteStmt)
def delete(state: State, node: ast.DeleteStmt) -> tree.Delete:
    """transformDeleteStmt: the target is range entry 0, USING items follow."""
    table, item, places, where, returning = _changed_rows(state, node, "delete from", node.using)
    ctes = tuple(state.ctes.values())
    return tree.Delete(table, tuple(state.entries), places, where, returning, ctes, _views(item))


def _changed_rows(
    state: State, node: ast.UpdateStmt | ast.DeleteStmt, verb: str, others: tuple[ast.Node, ...]
) -> tuple[Table, NamespaceItem, tuple[tree.FromItem, ...], tree.Expr | None, tuple[tree.Target, ...]]:
    """What UPDATE and DELETE share: the table and its range entry, FROM or USING, WHERE, RETURNING."""
    if node.with_clause is not None:
        with_clause(state, node.with_clause)
    table, item = changed_table(state, node.relation, verb)
    places = _from_items(state, item, others)
    where: tree.Expr | None = None
    if node.current_of is not None:
        if item.view is not None:
            fail("0A000", "WHERE CURRENT OF on a view is not implemented")
        variable = named_argument(state, ast.ColumnRef((node.current_of,)))
        if not isinstance(variable, tree.Param) or variable.type.oid != REFCURSOR:
            variable = None
        where = tree.CurrentOf(node.current_of, variable)
    if node.where is not None:
        where = coerce.to_boolean(state, expression(state, node.where, "WHERE"), "WHERE")
    if item.view is not None:
        where = item.view.where(where)
    return table, item, places, where, _returning(state, item, node.returning)


def _from_items(state: State, target: NamespaceItem, nodes: tuple[ast.Node, ...]) -> tuple[tree.FromItem, ...]:
    """The FROM or USING list; it sees the target's name but none of its columns."""
    state.namespace = [target]
    if not nodes:
        return ()
    target.lateral_only, target.lateral_ok = True, False
    places = from_clause(state, nodes)
    target.lateral_only, target.lateral_ok = False, True
    return places
