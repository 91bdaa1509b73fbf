"""Updatable views (rewriteHandler.c): a simple selection from one table, or from another updatable view.

A statement that changes the view changes its base table. Its names are the view's, and are replaced by the expressions
of the view's columns. It changes only rows that match the view's WHERE. A check option adds conditions for every new
row, those of inner views first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NoReturn

from catalog.errors import SqlError
from catalog.schema import Column, Table, View
from engine.sql import tree
from engine.sql.analyze.environment import Environment
from engine.sql.analyze.errors import fail
from engine.sql.analyze.state import NamespaceItem
from engine.sql.analyze.typeinfo import BOOL_REF
from engine.sql.analyze.views import view_query
from engine.sql.barriers import conditions_of_change
from engine.sql.tree_walk import shift_levels, transform, walk_with_depth

_COMPUTED = "View columns that are not columns of their base relation are not updatable."
_SAMPLED = "Views containing TABLESAMPLE"
_WHOLE_ROW = "View columns that return whole-row references are not updatable."
_DOING = {
    "insert into": ("inserting into", "INSERT"),
    "update": ("updating", "UPDATE"),
    "delete from": ("deleting from", "DELETE"),
}


@dataclass(frozen=True, slots=True)
class ViewTarget:
    """A view in the form of its base table. `expressions`: those of its columns, over the table as range entry 0;
    `unchangeable`: by column, the view that computes it and the reason; `conditions`: the views' WHERE, outermost
    first; `inner`: the view below this one; `relations`: all relations in between; `only`: without child tables;
    `below`: the columns of its relation that its columns are, or 0 for computed ones; `referred`: all columns that its
    query uses; `read` and `updated`: its columns that the statement uses so far."""

    view: View
    table: Table
    names: tuple[str, ...]
    expressions: tuple[tree.Expr, ...]
    unchangeable: dict[str, tuple[str, str]]
    condition: tree.Expr | None
    inner: ViewTarget | None
    relations: tuple[int, ...]
    only: bool
    below: tuple[int, ...]
    referred: frozenset[int]
    read: set[int] = field(default_factory=set)
    updated: set[int] = field(default_factory=set)

    def where(self, where: tree.Expr | None) -> tree.Expr | None:
        """The condition of a change, with those of all views in between."""
        level: ViewTarget | None = self
        levels: list[tuple[View, tree.Expr | None]] = []
        while level is not None:
            levels.append((level.view, level.condition))
            level = level.inner
        return join_conditions(conditions_of_change(levels, where))

    def views(self, inserted: Iterable[str] = ()) -> tuple[tree.ViewUse, ...]:
        """This view and those below it, with the statement's use of them. If a column of a view is read, its owner
        reads all columns that the view's query uses."""
        names = [self.names.index(name) + 1 for name in inserted]
        return self._used(tuple(sorted(self.read)), tuple(names), tuple(sorted(self.updated)))

    def _used(
        self, read: tuple[int, ...], inserted: tuple[int, ...], updated: tuple[int, ...]
    ) -> tuple[tree.ViewUse, ...]:
        referred = tuple(sorted(self.referred)) if read else ()
        own = tree.ViewUse(self.view.oid, read, inserted, updated, referred)
        if self.inner is None:
            return (own,)
        below = [tuple(self.below[number - 1] for number in numbers) for numbers in (inserted, updated)]
        return (own, *self.inner._used(referred, *below))

    def column(self, name: str, verb: str, location: int) -> Column | None:
        """The table's column for a column of the view, under the view's name; None for an unknown name. Raises 0A000
        for a computed one."""
        if name not in self.names:
            return None
        refused = self.unchangeable.get(name)
        if refused is not None:
            what = "insert into" if verb == "insert into" else "update"
            view, why = refused
            raise SqlError("0A000", f'cannot {what} column "{name}" of view "{view}"', detail=why)
        found = self.expressions[self.names.index(name)]
        assert isinstance(found, tree.Var)
        if verb != "insert into":
            self.updated.add(self.names.index(name) + 1)
        return replace(self.table.column_by_number(found.column), name=name)

    def checks(self, cascaded: bool = False) -> tuple[tuple[str, tree.Expr], ...]:
        """The conditions of check options, as CHECK constraints with names of their own kind, inner ones first."""
        own = cascaded or self.view.check_option is not None
        cascaded = cascaded or self.view.check_option == "cascaded"
        found = () if self.inner is None else self.inner.checks(cascaded)
        if own and self.condition is not None:
            holds = tree.BooleanTest(self.condition, "is_true", BOOL_REF)  # NULL is no yes here
            found += ((f"{tree.VIEW_CHECK}{len(found):04}{self.view.name}", holds),)
        return found

    def item(self, index: int, alias: str) -> NamespaceItem:
        """The namespace item of its names over the table as range entry `index`."""
        expressions = [_move(expression, {0: index}) for expression in self.expressions]
        origins = [(self.view.oid, column.number) for column in self.view.columns]
        found = NamespaceItem(alias, index, None, list(self.names), expressions, origins)
        found.view = self
        return found

    def reads(self, positions: Iterable[int]) -> None:
        """Records that the statement reads these columns (NamespaceItem.read)."""
        self.read.update(position + 1 for position in positions)


def view_target(view: View, environment: Environment, verb: str) -> ViewTarget:
    """A view as the target of a change. Raises 55000 for a view that is not updatable."""
    query, _ = view_query(view, environment)
    why = not_updatable(query, environment, changes_columns=verb != "delete from")
    if why is not None:
        _refuse(view, verb, why)
    entry = query.range_table[_base(query)]
    inner: ViewTarget | None = None
    if isinstance(entry, tree.RangeSubquery):
        below = environment.catalog.get(entry.view or 0)
        assert isinstance(below, View)
        inner = view_target(below, environment, verb)
        table, relations, only = inner.table, (*inner.relations, view.oid), inner.only
        put = {number: expression for number, expression in enumerate(inner.expressions, 1)}
    else:
        assert isinstance(entry, tree.RangeTable) and isinstance(entry.table, Table)
        table, relations, only = entry.table, (entry.table.oid, view.oid), entry.only
        put = {}
    names = tuple(column.name for column in view.columns)
    expressions = []
    unchangeable: dict[str, tuple[str, str]] = {}
    base = _base(query)
    for name, target in zip(names, query.output, strict=True):
        expressions.append(_over_table(target.expression, base, put))
        refused = _get_refusal(view, target.expression, base, inner)
        if refused is not None:
            unchangeable[name] = refused
    condition = None if query.where is None else _over_table(query.where, base, put)
    columns_below = tuple(_column_below(target.expression, base) for target in query.output)
    referred = _get_references(query, base)
    return ViewTarget(
        view, table, names, tuple(expressions), unchangeable, condition, inner, relations, only, columns_below, referred
    )


def _get_references(query: tree.Query, base: int) -> frozenset[int]:
    """The columns of a view's relation that its query uses."""
    parts = (*(target.expression for target in query.output), *(() if query.where is None else (query.where,)))
    found = {
        item.column
        for part in parts
        for item, depth in walk_with_depth(part)
        if isinstance(item, tree.Var) and item.levels_up == depth and item.relation == base
    }
    if 0 in found:  # the whole row
        found = set(range(1, len(query.range_table[base].columns) + 1))
    return frozenset(found)


def _column_below(expression: tree.Expr, base: int) -> int:
    """The column of a view's relation that an expression is, or 0 if it is computed."""
    if isinstance(expression, tree.Var) and expression.relation == base and not expression.levels_up:
        return expression.column
    return 0


INSERT, UPDATE, DELETE = 1 << 3, 1 << 2, 1 << 4  # as pg_relation_is_updatable has them


def updatable_events(view: View, environment: Environment) -> tuple[int, dict[int, int]]:
    """The changes that a view allows (relation_is_updatable): as a whole, and by attnum for single columns."""
    query, _ = view_query(view, environment)
    if not_updatable(query, environment, changes_columns=False) is not None:
        return 0, {}
    base = _base(query)
    entry = query.range_table[base]
    below, columns_below = INSERT | UPDATE | DELETE, None
    if isinstance(entry, tree.RangeSubquery):
        inner = environment.catalog.get(entry.view or 0)
        assert isinstance(inner, View)
        below, columns_below = updatable_events(inner, environment)
    found = {}
    for column, target in zip(view.columns, query.output, strict=True):
        own = max(_column_below(target.expression, base), 0)
        if not own:
            found[column.number] = DELETE & below
        else:
            found[column.number] = below if columns_below is None else columns_below.get(own, 0)
    changed = 0
    for events in found.values():
        changed |= events
    return (changed if found else DELETE) & below, found


def _get_refusal(view: View, expression: tree.Expr, base: int, inner: ViewTarget | None) -> tuple[str, str] | None:
    """The reason why a column of a view is not updatable, if it is not, and the view in which it is computed."""
    if not isinstance(expression, tree.Var) or expression.relation != base or expression.levels_up:
        return view.name, _COMPUTED
    if expression.column == 0:
        return view.name, _WHOLE_ROW
    return None if inner is None else inner.unchangeable.get(inner.names[expression.column - 1])


def _refuse(view: View, verb: str, why: str) -> NoReturn:
    doing, event = _DOING[verb]
    raise SqlError(
        "55000",
        f'cannot {verb} view "{view.name}"',
        detail=why,
        hint=f"To enable {doing} the view, provide an INSTEAD OF {event} trigger or an unconditional ON {event} DO "
        "INSTEAD rule.",
    )


def not_updatable(query: tree.Query, environment: Environment, changes_columns: bool) -> str | None:
    """view_query_is_auto_updatable: the reason why a view is not updatable, or None. `changes_columns`: at least one
    column must be updatable."""
    for present, reason in (
        (query.distinct is not None, "Views containing DISTINCT"),
        (query.group_by or query.grouping_sets, "Views containing GROUP BY"),
        (query.having is not None, "Views containing HAVING"),
        (query.set_operation is not None, "Views containing UNION, INTERSECT, or EXCEPT"),
        (query.ctes, "Views containing WITH"),
        (query.limit is not None or query.offset is not None, "Views containing LIMIT or OFFSET"),
        (query.has_aggregates, "Views that return aggregate functions"),
        (query.has_windows, "Views that return window functions"),
        (query.has_set_functions, "Views that return set-returning functions"),
        (not _selects_from_one(query, environment), "Views that do not select from a single table or view"),
        (any(isinstance(entry, tree.RangeTable) and entry.sample for entry in query.range_table), _SAMPLED),
    ):
        if present:
            return f"{reason} are not automatically updatable."
    if changes_columns:
        base = _base(query)
        found = (target.expression for target in query.output)
        if not any(isinstance(item, tree.Var) and item.relation == base and item.column > 0 for item in found):
            return "Views that have no updatable columns are not automatically updatable."
    return None


def _selects_from_one(query: tree.Query, environment: Environment) -> bool:
    if len(query.from_items) != 1 or not isinstance(query.from_items[0], tree.FromRef):
        return False
    entry = query.range_table[_base(query)]
    if isinstance(entry, tree.RangeSubquery):
        return isinstance(environment.catalog.get(entry.view or 0), View)
    return isinstance(entry, tree.RangeTable) and isinstance(entry.table, Table) and entry.table.query is None


def _base(query: tree.Query) -> int:
    (item,) = query.from_items
    assert isinstance(item, tree.FromRef)
    return item.relation


def _over_table(node: tree.Expr, base: int, put: dict[int, tree.Expr]) -> tree.Expr:
    """A view's expression over the table as range entry 0. `put`: the expressions of the columns of the views in
    between."""

    def change(item: object, depth: int) -> object:
        if not isinstance(item, tree.Var) or item.levels_up != depth or item.relation != base:
            return item
        if not put:
            return replace(item, relation=0)
        if item.column == 0:
            fail("0A000", "a view over a whole row of a view is not supported as the target of a change")
        return shift_levels(put[item.column], depth)

    return transform(node, change)


def _move(node: tree.Expr, places: dict[int, int]) -> tree.Expr:
    def change(item: object, depth: int) -> object:
        if isinstance(item, tree.Var) and item.levels_up == depth and item.relation in places:
            return replace(item, relation=places[item.relation])
        return item

    return transform(node, change)


def join_conditions(conditions: Sequence[tree.Expr]) -> tree.Expr | None:
    """Several conditions as one, None for none."""
    if len(conditions) < 2:
        return conditions[0] if conditions else None
    return tree.BoolExpr("and", tuple(conditions), BOOL_REF)
