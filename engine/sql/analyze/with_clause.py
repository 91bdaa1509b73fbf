"""WITH: common table expressions, recursive ones, and statements that change data (parse_cte.c)."""

from __future__ import annotations

from collections.abc import Iterator

from engine.sql import ast, tree
from engine.sql.analyze.dispatch import change_statement, select_query
from engine.sql.analyze.errors import fail
from engine.sql.analyze.search_cycle import rewritten
from engine.sql.analyze.set_operations import set_operation
from engine.sql.analyze.state import State
from engine.sql.analyze.targets import range_columns
from engine.sql.tree_walk import children


def with_clause(state: State, node: ast.WithClause) -> None:
    """Analyses the WITH items into `state.ctes`, in an order in which each one comes after those that it uses."""
    names = [item.name for item in node.ctes]
    for position, name in enumerate(names):
        if name in names[:position]:
            fail("42712", f'WITH query name "{name}" specified more than once', node.ctes[position])
    items = _order(node) if node.recursive else node.ctes
    state.future_ctes = {item.name: item for item in items}
    for item in items:
        if node.recursive:
            state.future_ctes.pop(item.name)
        if not isinstance(item.query, ast.SelectStmt) and state.parent is not None:
            fail("0A000", "WITH clause containing a data-modifying statement must be at the top level", item)
        if isinstance(item.query, ast.MergeStmt):
            fail("0A000", "MERGE not supported in WITH query", item)
        self_referring = node.recursive and item.name in set(_table_names(item.query))
        state.ctes[item.name] = _recursive(state, item) if self_referring else _plain(state, item)
        state.future_ctes.pop(item.name, None)


def _plain(state: State, item: ast.CommonTableExpr) -> tree.Cte:
    if item.search is not None or item.cycle is not None:
        fail("42601", "WITH query is not recursive", item)
    inner = State(state.shared, state)
    query: tree.Statement
    if isinstance(item.query, ast.SelectStmt):
        query = select_query(inner, item.query, settle=True)
        columns = range_columns(query.targets)
    else:
        query = change_statement(inner, item.query)
        columns = range_columns(query.returning)
        inner.volatile = True
    if isinstance(query, tree.Query) and query.volatile:
        state.volatile = True
    if not isinstance(query, tree.Query):
        state.volatile = True
    return tree.Cte(item.name, _name_columns(columns, item), query, False, item.materialized, aliases=item.columns)


def _name_columns(columns: tuple[tree.RangeColumn, ...], item: ast.CommonTableExpr) -> tuple[tree.RangeColumn, ...]:
    if len(item.columns) > len(columns):
        fail(
            "42P10",
            f'WITH query "{item.name}" has {len(columns)} columns available but {len(item.columns)} columns specified',
            item,
        )
    return tuple(
        tree.RangeColumn(item.columns[position], column.type) if position < len(item.columns) else column
        for position, column in enumerate(columns)
    )


def _recursive(state: State, item: ast.CommonTableExpr) -> tree.Cte:
    query = item.query
    name = item.name
    if not isinstance(query, ast.SelectStmt):
        fail("42P19", f'recursive query "{name}" must not contain data-modifying statements', item)
    if query.set_operation != "union":
        fail(
            "42P19",
            f'recursive query "{name}" does not have the form non-recursive-term UNION [ALL] recursive-term',
            item,
        )
    for present, what in (
        (query.order_by, "ORDER BY"), (query.offset, "OFFSET"), (query.limit, "LIMIT"),
        (query.locking, "FOR UPDATE/SHARE"),
    ):  # fmt: skip
        if present:
            fail("0A000", f"{what} in a recursive query is not implemented", _locate(present))
    assert query.left is not None and query.right is not None
    if query.with_clause is not None and name in set(_table_names(query.with_clause)):
        fail(
            "42P19",
            f'recursive reference to query "{name}" must not appear within a subquery',
            _reference(query.with_clause, name),
        )
    if name in set(_table_names(query.left)):
        fail(
            "42P19",
            f'recursive reference to query "{name}" must not appear within its non-recursive term',
            _reference(query.left, name),
        )
    _check_recursive_term(query.right, name)
    inner = State(state.shared, state)
    if query.with_clause is not None:
        with_clause(inner, query.with_clause)
    state.recursive_names[name] = item.columns
    try:
        analysed = set_operation(inner, query, recursive=name)
    finally:
        state.recursive_self.pop(name, None)
    state.volatile = state.volatile or analysed.volatile
    columns = _name_columns(range_columns(analysed.targets), item)
    if item.search is not None or item.cycle is not None:
        return rewritten(state, item, columns, analysed)
    return tree.Cte(name, columns, analysed, True, item.materialized, aliases=item.columns)


def _locate(present: object) -> ast.Node | int:
    found = present[0] if isinstance(present, tuple) else present
    if isinstance(found, ast.SortBy):
        found = found.expression
    return found if isinstance(found, ast.Node) else -1


def _reference(node: object, name: str) -> ast.Node | int:
    return next((item for item in _range_variables(node) if item.name == name), -1)


def _check_recursive_term(node: ast.SelectStmt, name: str) -> None:
    """checkWellFormedRecursion: checks where the recursive term refers to the query itself."""
    references = [item for item in _range_variables(node) if item.schema is None and item.name == name]
    if node.set_operation:
        if node.set_operation == "except" and name in set(_table_names(node.right)):
            at = _reference(node.right, name)
            fail("42P19", f'recursive reference to query "{name}" must not appear within EXCEPT', at)
        if node.set_operation == "intersect" and node.all:
            fail("42P19", f'recursive reference to query "{name}" must not appear within INTERSECT', references[0])
    places = [node.where, node.having, node.targets, node.order_by, node.group_by, node.limit, node.offset]
    for place in places:
        if name in set(_table_names(place)):
            at = _reference(place, name)
            fail("42P19", f'recursive reference to query "{name}" must not appear within a subquery', at)
    for item in node.from_clause:
        _check_outer_joins(item, name)
    if len(references) > 1:
        fail("42P19", f'recursive reference to query "{name}" must not appear more than once', references[1])


def _check_outer_joins(node: ast.Node, name: str) -> None:
    if isinstance(node, ast.JoinExpr):
        hidden: list[ast.Node] = []
        if node.kind in ("left", "full"):
            hidden.append(node.right)
        if node.kind in ("right", "full"):
            hidden.append(node.left)
        for side in hidden:
            if name in set(_table_names(side)):
                fail(
                    "42P19",
                    f'recursive reference to query "{name}" must not appear within an outer join',
                    _reference(side, name),
                )
        _check_outer_joins(node.left, name)
        _check_outer_joins(node.right, name)


# ---- which names a raw tree refers to -------------------------------------------------------------------------------


def _range_variables(node: object) -> Iterator[ast.RangeVar]:
    """Every relation named in a raw tree, without the names that an inner WITH defines."""
    if isinstance(node, ast.RangeVar):
        yield node
        return
    hidden: set[str] = set()
    inner = getattr(node, "with_clause", None)
    if isinstance(inner, ast.WithClause):
        hidden = {item.name for item in inner.ctes}
    for child in children(node):
        for found in _range_variables(child):
            if found.schema is not None or found.name not in hidden:
                yield found


def _table_names(node: object) -> Iterator[str]:
    return (item.name for item in _range_variables(node) if item.schema is None)


def _order(node: ast.WithClause) -> list[ast.CommonTableExpr]:
    """TopologicalSort: items after those that they use. 0A000 for mutual recursion."""
    waiting = list(node.ctes)
    names = {item.name for item in waiting}
    needs = {item.name: (set(_table_names(item.query)) & names) - {item.name} for item in waiting}
    done: list[ast.CommonTableExpr] = []
    placed: set[str] = set()
    while waiting:
        ready = next((item for item in waiting if needs[item.name] <= placed), None)
        if ready is None:
            fail("0A000", "mutual recursion between WITH items is not implemented", waiting[0])
        waiting.remove(ready)
        placed.add(ready.name)
        done.append(ready)
    return done
