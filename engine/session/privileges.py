"""What a statement needs of its user, told from the analysed tree (PostgreSQL's RangeTblEntry.requiredPerms).

    a relation that is read          SELECT on the columns that are referred to; on any of them if none is
    a target                         INSERT or UPDATE on the columns that are written, DELETE; SELECT on those read
    FOR UPDATE and its kin           UPDATE too
    a view                           the same on the view, as the user; on what it reads as the view's owner, unless it
                                     is a security_invoker view
    a schema                         USAGE, for what the statement itself names

What constraints and foreign keys look at needs nothing of the user. Plans are made for one user and one catalog, so
this runs once for a plan.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, is_dataclass

from catalog.errors import SqlError
from catalog.privileges import may, may_columns
from catalog.schema import Catalog, Role, Schema, Sequence, Table, View
from engine.sql import tree

_ON = ("yes", "true", "on", "1", "")
_SKIPPED = frozenset({"function", "operator", "functions", "operators", "type", "table", "location", "element_type"})

_Level = tuple[tuple[tree.RangeEntry, ...], frozenset[int]]  # range table, and entries that need no SELECT


def check(catalog: Catalog, user: Role, statement: tree.Statement) -> None:
    """42501 unless the user may run the statement."""
    if not user.superuser:
        _Needs(catalog, user).statement(statement, (), user)


def permission_denied(catalog: Catalog, item: object) -> SqlError:
    """42501 for a relation or a schema."""
    words = {Table: "table", View: "view", Sequence: "sequence", Schema: "schema"}
    return SqlError("42501", f"permission denied for {words[type(item)]} {item.name}")  # type: ignore[attr-defined]


class _Needs:
    """One statement."""

    def __init__(self, catalog: Catalog, user: Role) -> None:
        self.catalog = catalog
        self.user = user
        self.columns: dict[tuple[int, int], tuple[object, Role, set[int]]] = {}

    # ---- relations --------------------------------------------------------------------------------------------------

    def _schema(self, item: Table | View | Sequence, role: Role) -> None:
        schema = self.catalog.get(item.schema)
        if role is self.user and isinstance(schema, Schema) and not may(self.catalog, schema, role, "U"):
            raise permission_denied(self.catalog, schema)

    def _need(self, item: object, role: Role, letter: str, columns: Iterable[int] = ()) -> None:
        if isinstance(item, (Table, View)):
            self._schema(item, role)
            if not may_columns(self.catalog, item, role, letter, frozenset(columns)):
                raise permission_denied(self.catalog, item)
        elif isinstance(item, Sequence):
            self._schema(item, role)
            if not may(self.catalog, item, role, letter):
                raise permission_denied(self.catalog, item)

    def _relation(self, entry: tree.RangeEntry) -> object:
        """The object that an entry reads, if it is one with privileges."""
        if isinstance(entry, tree.RangeTable):
            return self.catalog.get(entry.table.oid)
        if isinstance(entry, tree.RangeSubquery) and entry.view is not None:
            return self.catalog.get(entry.view)
        return None

    # ---- statements -------------------------------------------------------------------------------------------------

    def statement(self, node: tree.Statement, levels: tuple[_Level, ...], role: Role) -> None:
        """Everything that one statement or query needs as `role`."""
        if isinstance(node, tree.Query):
            self._query(node, levels, role)
        else:
            self._change(node, levels, role)

    def _query(self, node: tree.Query, levels: tuple[_Level, ...], role: Role) -> None:
        read: dict[int, set[int]] = {
            index: set() for index, entry in enumerate(node.range_table) if self._relation(entry) is not None
        }
        inside = (*levels, (node.range_table, frozenset[int]()))
        self._within(node, inside, role, read)
        for index, columns in read.items():
            self._need(self._relation(node.range_table[index]), role, "r", columns)
        for mark in node.row_marks:
            self._need(self._relation(node.range_table[mark.relation]), role, "w")

    def _within(self, node: object, levels: tuple[_Level, ...], role: Role, read: dict[int, set[int]]) -> None:
        """The columns that a query's own parts refer to, into `read`; its entries, WITH queries and sub-queries."""
        assert isinstance(node, (tree.Query, tree.Insert, tree.Update, tree.Delete, tree.Merge))
        self._entries(node, levels, role, read)
        if isinstance(node, tree.Query):
            skipped = ("range_table", "ctes")
            self._collect(
                [getattr(node, one.name) for one in fields(node) if one.name not in skipped], levels, role, read
            )

    def _entries(self, node: tree.Statement, levels: tuple[_Level, ...], role: Role, read: dict[int, set[int]]) -> None:
        for cte in node.ctes:
            self._nested(cte.query, levels, role, read)
        for entry in node.range_table:
            if isinstance(entry, tree.RangeSubquery):
                owner = self._view_role(entry, role)
                self._nested(entry.query, levels, owner, read)
            elif isinstance(entry, (tree.RangeFunction, tree.RangeValues)):
                parts = entry.functions if isinstance(entry, tree.RangeFunction) else entry.rows
                self._collect(parts, levels, role, read)

    def _view_role(self, entry: tree.RangeSubquery, role: Role) -> Role:
        view = self.catalog.get(entry.view or 0)
        if not isinstance(view, View) or dict(view.options).get("security_invoker", "off") in _ON:
            return role
        owner = self.catalog.get(view.owner)
        return owner if isinstance(owner, Role) else role

    def _nested(self, node: tree.Statement, levels: tuple[_Level, ...], role: Role, read: dict[int, set[int]]) -> None:
        """A query within another one. What it refers to there counts there, by the role of that level."""
        self.statement(node, levels, role)
        outer = _outer_columns(node)
        for up, relation, column in outer:
            if up == 1:
                self._refer(levels[-1], relation, column, read)

    def _collect(self, node: object, levels: tuple[_Level, ...], role: Role, read: dict[int, set[int]]) -> None:
        """The columns of this level that expressions refer to."""
        if isinstance(node, (tuple, list)):
            for item in node:
                self._collect(item, levels, role, read)
        elif isinstance(node, tree.Query):
            self._nested(node, levels, role, read)
        elif isinstance(node, tree.Var):
            if node.levels_up == 0:
                self._refer(levels[-1], node.relation, node.column, read)
        elif is_dataclass(node) and not isinstance(node, type) and type(node).__module__ == tree.__name__:
            for one in fields(node):
                if one.name not in _SKIPPED:
                    self._collect(getattr(node, one.name), levels, role, read)

    def _refer(self, level: _Level, relation: int, column: int, read: dict[int, set[int]]) -> None:
        entries, free = level
        if relation in free or relation >= len(entries):
            return
        entry = entries[relation]
        if isinstance(entry, tree.RangeJoin):
            for item in [entry.expressions[column - 1]] if column else entry.expressions:
                for found in _variables(item):
                    self._refer(level, found.relation, found.column, read)
            return
        found_relation = self._relation(entry)
        if found_relation is None:
            return
        numbers = read.setdefault(relation, set())
        if column:
            numbers.add(column)
        elif isinstance(found_relation, (Table, View)):
            numbers.update(one.number for one in found_relation.columns)

    # ---- changes ----------------------------------------------------------------------------------------------------

    def _change(
        self, node: tree.Insert | tree.Update | tree.Delete | tree.Merge, levels: tuple[_Level, ...], role: Role
    ) -> None:
        """A change. Of a view: of the view as the user, and of what is under it as its owner."""
        read: dict[int, set[int]] = {
            index: set()
            for index, entry in enumerate(node.range_table)
            if index and self._relation(entry) is not None and not (isinstance(node, tree.Insert) and index == 1)
        }
        excluded = frozenset([1]) if isinstance(node, tree.Insert) else frozenset[int]()
        inside = (*levels, (node.range_table, excluded))
        self._entries(node, inside, role, read)
        self._collect(_parts(node), inside, role, read)
        if isinstance(node, tree.Insert) and node.on_conflict is not None:
            for oid in node.on_conflict.index_oids:
                numbers = (column.number for column in self.catalog.index(oid).columns)
                read.setdefault(0, set()).update(number for number in numbers if number)
        read_of_target = read.pop(0, None)
        for letter, written in _writes(node):
            self._target(node, role, letter, written)
        if read_of_target is not None:
            self._target(node, role, "r", read_of_target)
        for index, columns in read.items():
            self._need(self._relation(node.range_table[index]), role, "r", columns)

    def _target(
        self,
        node: tree.Insert | tree.Update | tree.Delete | tree.Merge,
        role: Role,
        letter: str,
        columns: Iterable[int],
    ) -> None:
        table = self.catalog.get(node.table.oid)
        views = () if isinstance(node, tree.Merge) else node.views
        for oid in views:
            view = self.catalog.get(oid)
            assert isinstance(view, View)
            self._schema(view, role)
            if not may(self.catalog, view, role, letter):
                raise permission_denied(self.catalog, view)
            if dict(view.options).get("security_invoker", "off") not in _ON:
                owner = self.catalog.get(view.owner)
                role = owner if isinstance(owner, Role) else role
        if not role.superuser:
            self._need(table, role, letter, columns)


def _writes(node: tree.Statement) -> list[tuple[str, tuple[int, ...]]]:
    """The letters that a change needs on its target, with the columns that it writes."""
    if isinstance(node, tree.Insert):
        found = [("a", node.columns)]
        if node.on_conflict is not None and node.on_conflict.action == "update":
            found.append(("w", tuple(item.column for item in node.on_conflict.assignments)))
        return found
    if isinstance(node, tree.Update):
        return [("w", tuple(item.column for item in node.assignments))]
    if isinstance(node, tree.Delete):
        return [("d", ())]
    assert isinstance(node, tree.Merge)
    letters = {"update": "w", "insert": "a", "delete": "d"}
    return [
        (letters[action.action], tuple(item.column for item in action.assignments) if action.action == "update" else ())
        for action in node.actions
        if action.action in letters
    ]


def _parts(node: tree.Statement) -> list[object]:
    """What a change computes for its user: not constraints, defaults and generated columns, which are the table's."""
    if isinstance(node, tree.Insert):
        return [node.rows, node.source, node.on_conflict, node.returning]
    if isinstance(node, tree.Update):
        return [node.assignments, node.from_items, node.where, node.returning]
    if isinstance(node, tree.Delete):
        return [node.from_items, node.where, node.returning]
    assert isinstance(node, tree.Merge)
    return [node.source, node.condition, node.actions]


def _variables(node: object) -> Iterable[tree.Var]:
    from engine.sql.analyze.walk import expressions_in

    return (item for item, _ in expressions_in(node) if isinstance(item, tree.Var))


def _outer_columns(node: object) -> Iterable[tuple[int, int, int]]:
    """(levels out, relation, column) of what a query refers to outside of itself."""
    from engine.sql.analyze.walk import expressions_in

    for item, depth in expressions_in(node):
        if isinstance(item, tree.Var) and item.levels_up >= depth:
            yield item.levels_up - depth + 1, item.relation, item.column
