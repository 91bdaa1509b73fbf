"""Views that can be changed like tables (rewriteHandler.c): a plain selection from one table, or from such a view.

A statement that changes the view changes the table under it. The names in the statement are the view's, and stand for
what the view's columns stand for; the rows concerned are those of the view's WHERE; a check option adds conditions that
every new row must meet, those of inner views first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

from catalog.errors import SqlError
from catalog.schema import Column, Table, View
from engine.sql import tree
from engine.sql.analyze.environment import Environment
from engine.sql.analyze.errors import fail
from engine.sql.analyze.state import NamespaceItem
from engine.sql.analyze.typeinfo import BOOL_REF
from engine.sql.analyze.views import view_query
from engine.sql.analyze.walk import shift_levels, transform

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
    """A view as the table under it. `expressions`: what its columns stand for, over the table as range entry 0;
    `unchangeable`: by column, the view that computes it and why that is in the way; `conditions`: the views' WHERE, the
    outermost first; `inner`: the view under this one; `relations`: every relation on the way."""

    view: View
    table: Table
    names: tuple[str, ...]
    expressions: tuple[tree.Expr, ...]
    unchangeable: dict[str, tuple[str, str]]
    condition: tree.Expr | None
    inner: ViewTarget | None
    relations: tuple[int, ...]

    @property
    def conditions(self) -> tuple[tree.Expr, ...]:
        inner = () if self.inner is None else self.inner.conditions
        return inner if self.condition is None else (self.condition, *inner)

    @property
    def views(self) -> tuple[int, ...]:
        """The OIDs of this view and of those under it."""
        return (self.view.oid,) if self.inner is None else (self.view.oid, *self.inner.views)

    def column(self, name: str, verb: str, location: int) -> Column | None:
        """The table's column that a column of the view is, under the view's name; None for an unknown name. Raises
        0A000 for one that is computed."""
        if name not in self.names:
            return None
        refused = self.unchangeable.get(name)
        if refused is not None:
            what = "insert into" if verb == "insert into" else "update"
            view, why = refused
            raise SqlError("0A000", f'cannot {what} column "{name}" of view "{view}"', detail=why)
        found = self.expressions[self.names.index(name)]
        assert isinstance(found, tree.Var)
        return replace(self.table.column_by_number(found.column), name=name)

    def checks(self, cascaded: bool = False) -> tuple[tuple[str, tree.Expr], ...]:
        """The conditions of check options, as CHECK constraints under a name of their own kind; inner ones first."""
        own = cascaded or self.view.check_option is not None
        cascaded = cascaded or self.view.check_option == "cascaded"
        found = () if self.inner is None else self.inner.checks(cascaded)
        if own and self.condition is not None:
            holds = tree.BooleanTest(self.condition, "is_true", BOOL_REF)  # NULL is no yes here
            found += ((f"{tree.VIEW_CHECK}{len(found):04}{self.view.name}", holds),)
        return found

    def item(self, index: int, alias: str) -> NamespaceItem:
        """Its names over the table as range entry `index`."""
        expressions = [_moved(expression, {0: index}) for expression in self.expressions]
        origins = [(self.view.oid, column.number) for column in self.view.columns]
        found = NamespaceItem(alias, index, None, list(self.names), expressions, origins)
        found.view = self
        return found


def view_target(view: View, environment: Environment, verb: str) -> ViewTarget:
    """A view as the target of a change. Raises 55000 for one that cannot be changed."""
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
        table, relations = inner.table, (*inner.relations, view.oid)
        put = {number: expression for number, expression in enumerate(inner.expressions, 1)}
    else:
        assert isinstance(entry, tree.RangeTable) and isinstance(entry.table, Table)
        table, relations = entry.table, (entry.table.oid, view.oid)
        put = {}
    names = tuple(column.name for column in view.columns)
    expressions = []
    unchangeable: dict[str, tuple[str, str]] = {}
    base = _base(query)
    for name, target in zip(names, query.output, strict=True):
        expressions.append(_over_table(target.expression, base, put))
        refused = _refused(view, target.expression, base, inner)
        if refused is not None:
            unchangeable[name] = refused
    condition = None if query.where is None else _over_table(query.where, base, put)
    return ViewTarget(view, table, names, tuple(expressions), unchangeable, condition, inner, relations)


def _refused(view: View, expression: tree.Expr, base: int, inner: ViewTarget | None) -> tuple[str, str] | None:
    """Why a column of a view cannot be assigned to, if it cannot, and which view it is that says so."""
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
    """view_query_is_auto_updatable: the reason why a view's rows are not rows of one table, None if they are.
    `changes_columns`: some column must be one of the table's too."""
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
    """A view's expression over the table as range entry 0. `put`: what the columns of the view between stand for."""

    def change(item: object, depth: int) -> object:
        if not isinstance(item, tree.Var) or item.levels_up != depth or item.relation != base:
            return item
        if not put:
            return replace(item, relation=0)
        if item.column == 0:
            fail("0A000", "a view over a whole row of a view is not supported as the target of a change")
        return shift_levels(put[item.column], depth)

    return transform(node, change)  # type: ignore[return-value]


def _moved(node: tree.Expr, places: dict[int, int]) -> tree.Expr:
    def change(item: object, depth: int) -> object:
        if isinstance(item, tree.Var) and item.levels_up == depth and item.relation in places:
            return replace(item, relation=places[item.relation])
        return item

    return transform(node, change)  # type: ignore[return-value]


def joined(conditions: Sequence[tree.Expr], where: tree.Expr | None) -> tree.Expr | None:
    """Several conditions as one, None for none."""
    found = [*conditions] if where is None else [*conditions, where]
    if len(found) < 2:
        return found[0] if found else None
    return tree.BoolExpr("and", tuple(found), BOOL_REF)
