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
from catalog.privileges import may, may_columns, names_of
from catalog.schema import FIRST_USER_OID, PG_CATALOG_OID, Catalog, Role, Schema, Sequence, Table, View, VirtualTable
from engine.sql import tree
from engine.sql.analyze.environment import builtin_relations_by_oid

_ON = ("yes", "true", "on", "1", "")
_SKIPPED = frozenset({"function", "operator", "functions", "operators", "type", "table", "location", "element_type"})

_ALL, _STATISTICS = frozenset({"pg_read_all_data"}), frozenset({"pg_read_all_data", "pg_read_all_stats"})
HIDDEN_STANDARD = frozenset(
    {
        "_pg_foreign_data_wrappers", "_pg_foreign_servers", "_pg_foreign_table_columns", "_pg_foreign_tables",
        "_pg_user_mappings", "sql_parts", "transforms",
    }
)  # fmt: skip
HIDDEN = {
    **dict.fromkeys(
        (
            "pg_authid", "pg_config", "pg_file_settings", "pg_hba_file_rules", "pg_ident_file_mappings",
            "pg_largeobject", "pg_replication_origin_status", "pg_shadow", "pg_statistic", "pg_statistic_ext_data",
            "pg_user_mapping", *HIDDEN_STANDARD,
        ),
        _ALL,
    ),
    "pg_backend_memory_contexts": _STATISTICS,
    "pg_shmem_allocations": _STATISTICS,
}  # fmt: skip
"""The relations of pg_catalog and (HIDDEN_STANDARD) information_schema that not everybody may read, and the roles that
may."""
RESERVED = frozenset(
    {
        764, 765, 767, 2172, 2274, 2282, 2307, 2621, 2622, 2623, 2624, 2625, 2739, 2848, 3071, 3072, 3098, 3293, 3295,
        3297, 3307, 3329, 3353, 3354, 3400, 3401, 3436, 3775, 3776, 3777, 3800, 3801, 3826, 3827, 3828, 4543, 5029,
        5030, 5031, 5052, 6003, 6004, 6005, 6006, 6007, 6008, 6009, 6010, 6011, 6012, 6013, 6014, 6170, 6230, 6232,
        6250, 6270, 6271, 6272,
    }
)  # fmt: skip
"""The built-in functions (OIDs) that PUBLIC may not execute."""

_Level = tuple[tuple[tree.RangeEntry, ...], frozenset[int]]  # range table, and entries that are EXCLUDED


def role_of(catalog: Catalog, name: str) -> Role:
    """The role of a user. Raises 42704 where somebody has dropped it meanwhile."""
    found = catalog.get(catalog.roles.get(name, 0))
    if not isinstance(found, Role):
        raise SqlError("42704", f'role "{name}" does not exist')
    return found


def check(catalog: Catalog, user: Role, statement: tree.Statement) -> None:
    """42501 unless the user may run the statement: superusers too, where a view's owner may not read what it reads."""
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
            if isinstance(entry, tree.RangeTable):
                self._built_in(entry.table.oid, role)
            elif isinstance(entry, tree.RangeSubquery):
                if entry.view is not None and entry.view < FIRST_USER_OID:
                    self._built_in(entry.view, role)
                    continue  # what it reads, it reads as a superuser
                owner = self._view_role(entry, role)
                self._nested(entry.query, levels, owner, read)
            elif isinstance(entry, (tree.RangeFunction, tree.RangeValues)):
                parts = entry.functions if isinstance(entry, tree.RangeFunction) else entry.rows
                self._collect(parts, levels, role, read)

    def _built_in(self, oid: int, role: Role) -> None:
        """42501 for a built-in relation that is not everybody's."""
        item = None if oid >= FIRST_USER_OID or role.superuser else builtin_relations_by_oid().get(oid)
        if item is None or item.name not in HIDDEN:
            return
        if (item.schema == PG_CATALOG_OID) is (item.name in HIDDEN_STANDARD):
            return
        if names_of(self.catalog, role).isdisjoint(HIDDEN[item.name]):
            word = "table" if isinstance(item, VirtualTable) and item.kind == "r" else "view"
            raise SqlError("42501", f"permission denied for {word} {item.name}")

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
        elif isinstance(node, tree.FuncExpr) and node.function.oid in RESERVED and not role.superuser:
            raise SqlError("42501", f"permission denied for function {node.function.name}")
        elif isinstance(node, tree.Var):
            if node.levels_up == 0:
                self._refer(levels[-1], node.relation, node.column, read)
        elif is_dataclass(node) and not isinstance(node, type) and type(node).__module__ == tree.__name__:
            for one in fields(node):
                if one.name not in _SKIPPED:
                    self._collect(getattr(node, one.name), levels, role, read)

    def _refer(self, level: _Level, relation: int, column: int, read: dict[int, set[int]]) -> None:
        entries, excluded = level
        if relation in excluded:  # a new row that was in conflict
            relation = 0
        if relation >= len(entries):
            return
        entry = entries[relation]
        if isinstance(entry, tree.RangeJoin):
            for item in [entry.expressions[column - 1]] if column else entry.expressions:
                for found in _variables(item):
                    self._refer(level, found.relation, found.column, read)
            return
        found_relation = self._relation(entry)
        if found_relation is None:
            self._built_in_column(entry, column)
            return
        numbers = read.setdefault(relation, set())
        if column:
            numbers.add(column)
        elif isinstance(found_relation, (Table, View)):
            numbers.update(one.number for one in found_relation.columns)

    def _built_in_column(self, entry: tree.RangeEntry, column: int) -> None:
        """42501 for the only column of a built-in relation that is not everybody's."""
        if not isinstance(entry, tree.RangeTable) or entry.table.oid >= FIRST_USER_OID or self.user.superuser:
            return
        hidden = not column or entry.table.columns[column - 1].name == "subconninfo"
        if entry.table.name == "pg_subscription" and hidden:
            raise SqlError("42501", "permission denied for table pg_subscription")

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
        read_of_target = read.pop(0, set() if isinstance(node, tree.Merge) else None)
        needs: list[tuple[str, Iterable[int]]] = list(_writes(node))
        views = () if isinstance(node, tree.Merge) else node.views
        if views:  # their conditions are not the statement's
            read_of_target = {*views[-1].referred} or None
        if read_of_target is not None:
            needs.append(("r", read_of_target))
        self._target(node, role, needs)
        for index, columns in read.items():
            self._need(self._relation(node.range_table[index]), role, "r", columns)

    def _target(
        self,
        node: tree.Insert | tree.Update | tree.Delete | tree.Merge,
        role: Role,
        needs: list[tuple[str, Iterable[int]]],
    ) -> None:
        """What a change needs of its target, by letters with the table's columns."""
        table = self.catalog.get(node.table.oid)
        for used in () if isinstance(node, tree.Merge) else node.views:
            view = self.catalog.get(used.oid)
            assert isinstance(view, View)
            self._passage(view, role, used, needs)
            if dict(view.options).get("security_invoker", "off") not in _ON:
                owner = self.catalog.get(view.owner)
                role = owner if isinstance(owner, Role) else role
        if not role.superuser:
            for letter, columns in needs:
                self._need(table, role, letter, columns)

    def _passage(self, view: View, role: Role, used: tree.ViewUse, needs: list[tuple[str, Iterable[int]]]) -> None:
        """What a change needs of a view that it goes through. Who reads none of its columns need not be able to."""
        self._schema(view, role)
        columns = {"r": used.read, "a": used.inserted, "w": used.updated}
        for letter, _ in needs:
            if letter == "d" and not may(self.catalog, view, role, letter):
                raise permission_denied(self.catalog, view)
            if letter != "d" and (letter != "r" or used.read):
                self._need(view, role, letter, columns[letter])


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
        (
            letters[action.action],
            tuple(item.column for item in action.assignments) if action.action == "update" else action.columns,
        )
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


def given_columns(statement: tree.Statement, table: Table) -> frozenset[int]:
    """The columns (attnums) of a table that a statement gives values (ExecGetInsertedCols, ExecGetUpdatedCols)."""
    changes = [part for part in (statement, *(cte.query for cte in statement.ctes)) if not isinstance(part, tree.Query)]
    return frozenset(
        number
        for change in changes
        if table.oid in (change.table.oid, getattr(getattr(change, "named", None), "oid", 0))
        for _, columns in _writes(change)
        for number in columns
    )
