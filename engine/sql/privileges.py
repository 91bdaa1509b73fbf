"""The privileges that a statement needs, from the analysed tree (PostgreSQL's RangeTblEntry.requiredPerms).

    a relation that is read              SELECT on the columns that it uses, or on any column if it uses none
    a target                             INSERT or UPDATE on the written columns, DELETE; SELECT on the read ones
    FOR UPDATE and similar clauses       UPDATE too
    a view                               the same on the view, for the user; on the relations in it for the view's
                                         owner, unless it is a security_invoker view
    a schema                             USAGE, for names in the statement itself

If several are missing, PostgreSQL reports the first in the order of its plan: engine/sql/need_order.py.

Constraints and foreign keys need no privileges of the user. A plan is made for one user and one catalog, so this runs
once for each plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from collections.abc import Sequence as Several
from dataclasses import dataclass, field
from functools import partial

from catalog.catalog import Catalog
from catalog.errors import SqlError
from catalog.privileges import may, may_columns, names_of
from catalog.schema import FIRST_USER_OID, PG_CATALOG_OID, Role, Schema, Sequence, Table, View, VirtualTable
from engine.sql import tree
from engine.sql.analyze.environment import builtin_relations_by_oid
from engine.sql.need_order import ON, Need, Order, is_inlined, joined_sublinks, stays, stays_barrier, stays_in_union
from engine.sql.tree_walk import children, node_fields, walk, walk_with_depth

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
"""The relations of pg_catalog and (HIDDEN_STANDARD) information_schema that PUBLIC may not read, and the roles that
may."""


@dataclass(slots=True)
class _Level:
    """A query or a change. `excluded`: the entries that are EXCLUDED. `named`: its names are in the user's statement,
    not in a view. `read`: the used columns of each relation, by its position."""

    statement: tree.Statement
    excluded: frozenset[int]
    role: Role
    named: bool
    read: dict[int, set[int]] = field(default_factory=dict)
    order: Order = field(default_factory=Order)
    inlined: dict[str, tuple[Order, bool]] = field(default_factory=dict)  # WITH queries inlined at their reference


def role_of(catalog: Catalog, name: str) -> Role:
    """The role of a user. Raises 42704 if it was dropped meanwhile."""
    found = catalog.get(catalog.roles.get(name, 0))
    if not isinstance(found, Role):
        raise SqlError("42704", f'role "{name}" does not exist')
    return found


def check(catalog: Catalog, user: Role, statement: tree.Statement) -> None:
    """42501 unless the user may run the statement. It also applies to superusers, if the owner of a view lacks a
    privilege."""
    needs = _Needs(catalog, user)
    order = needs.statement(statement, user, True)
    for ask in (*needs.schemas, *(need.check for need in order.all()), *needs.calls):
        ask()


def check_sublinks(catalog: Catalog, role: Role, part: object) -> None:
    """42501 unless a role may run the sub-queries in the conditions of policies. Columns of the policies' table need no
    privilege."""
    needs = _Needs(catalog, role)
    for item, depth in walk_with_depth(part):
        if isinstance(item, tree.Query) and depth == 0:
            for need in needs.statement(item, role, False).all():
                need.check()


def runs_as(catalog: Catalog, view: object, role: Role) -> Role:
    """The role whose privileges and policies the query of a view uses."""
    if not isinstance(view, View) or dict(view.options).get("security_invoker", "off") in ON:
        return role
    owner = catalog.get(view.owner)
    return owner if isinstance(owner, Role) else role


def reads_target(node: tree.Insert | tree.Update | tree.Delete | tree.Merge) -> bool:
    """Whether a change needs SELECT on its target."""
    if isinstance(node, tree.Merge):
        return True
    if node.views:
        return bool(node.views[0].read)
    if isinstance(node, tree.Insert) and node.on_conflict is not None and node.on_conflict.index_oids:
        return True
    targets = (0, 1) if isinstance(node, tree.Insert) else (0,)
    return any(
        isinstance(item, tree.Var) and item.levels_up == depth and item.relation in targets
        for part in _parts(node)
        for item, depth in walk_with_depth(part)
    )


def permission_denied(catalog: Catalog, item: object) -> SqlError:
    """42501 for a relation or a schema."""
    words = {Table: "table", View: "view", Sequence: "sequence", Schema: "schema"}
    word = words[type(item)]
    if isinstance(item, Table) and (item.server or item.query is not None):
        word = "foreign table" if item.server else "materialized view"
    return SqlError("42501", f"permission denied for {word} {item.name}")  # type: ignore[attr-defined]


class _Needs:
    """The needs of one statement, collected in PostgreSQL's order, because the first missing one is reported."""

    def __init__(self, catalog: Catalog, user: Role) -> None:
        self.catalog = catalog
        self.user = user
        self.schemas: list[Callable[[], None]] = []  # checks of schemas, which PostgreSQL makes when it looks up a name
        self.calls: list[Callable[[], None]] = []  # checks of functions, made when a statement begins to run

    # ---- relations --------------------------------------------------------------------------------------------------

    def _name(self, item: object) -> None:
        """Records that the statement names this relation."""
        schema = self.catalog.get(item.schema) if isinstance(item, (Table, View, Sequence)) else None
        if isinstance(schema, Schema):
            self.schemas.append(partial(self._usage, schema))

    def _usage(self, schema: Schema) -> None:
        if not may(self.catalog, schema, self.user, "U"):
            raise permission_denied(self.catalog, schema)

    def _need(self, item: object, role: Role, letter: str, columns: Iterable[int] = ()) -> None:
        if isinstance(item, (Table, View)):
            if not may_columns(self.catalog, item, role, letter, frozenset(columns)):
                raise permission_denied(self.catalog, item)
        elif isinstance(item, Sequence) and not may(self.catalog, item, role, letter):
            raise permission_denied(self.catalog, item)

    def _relation(self, entry: tree.RangeEntry) -> object:
        """The object of a range table entry, if it has privileges."""
        if isinstance(entry, tree.RangeTable):
            return self.catalog.get(entry.table.oid)
        if isinstance(entry, tree.RangeSubquery) and entry.view is not None:
            return self.catalog.get(entry.view)
        return None

    # ---- statements -------------------------------------------------------------------------------------------------

    def statement(self, node: tree.Statement, role: Role, named: bool) -> Order:
        """All needs of one statement or query as `role`. `named`: its names are in the user's statement, not in a
        view."""
        return self._query(node, role, named) if isinstance(node, tree.Query) else self._change(node, role, named)

    def _query(self, node: tree.Query, role: Role, named: bool) -> Order:
        level = _Level(node, frozenset(), role, named)
        for index, entry in enumerate(node.range_table):
            if self._relation(entry) is not None:
                level.read[index] = set()
        self._ctes(node, level)
        joined = joined_sublinks(node.where)
        for name in node_fields[tree.Query]:
            if name not in ("range_table", "ctes"):
                self._collect(getattr(node, name), level, joined)
        marked = {mark.relation for mark in node.row_marks}
        for index, entry in enumerate(node.range_table):
            needs = self._of_entry(index, level) if index in level.read else []
            if index in marked:
                needs.append(self._make_need(self._relation(entry), role, "w"))
            self._entry(entry, needs, level)
        level.order.ctes += (inner for inner, _ in level.inlined.values())  # named further in
        for link in joined:
            inner = self._nest(link.query, level)
            if link.kind == "exists":
                level.order.take_over(inner)
            else:
                level.order.add(inner, stays(link.query))
        return level.order

    def _of_entry(self, index: int, level: _Level) -> list[Need]:
        """The needs of a relation that is read. Its used columns are known at the end only."""
        item = self._relation(level.statement.range_table[index])
        if level.named:
            self._name(item)
        return [self._make_need(item, level.role, "r", level.read[index])]

    def _make_need(self, item: object, role: Role, letter: str, columns: Iterable[int] = ()) -> Need:
        return Need(partial(self._need, item, role, letter, columns), isinstance(item, View))

    def _ctes(self, node: tree.Statement, level: _Level) -> None:
        for cte in node.ctes:
            inner = self._nest(cte.query, level)
            if isinstance(cte.query, tree.Query) and is_inlined(cte, node):
                level.inlined[cte.name] = inner, stays(cte.query)
            else:
                level.order.ctes.append(inner)

    def _entry(self, entry: tree.RangeEntry, needs: list[Need], level: _Level) -> None:
        """One entry of a range table. `needs`: of the entry itself, if it is a relation."""
        if isinstance(entry, tree.RangeSubquery):
            if entry.view is not None and entry.view < FIRST_USER_OID:
                level.order.own.append(Need(partial(self._built_in, entry.view, level.role), True))
                return  # its query runs with the privileges of a superuser
            view = None if entry.view is None else self.catalog.get(entry.view)
            inner = self._nest(entry.query, level, runs_as(self.catalog, view, level.role), view is None)
            inner.own[:0] = needs
            leaf = isinstance(level.statement, tree.Query) and level.statement.set_operation is not None
            apart = (stays_in_union if leaf else stays)(entry.query) or stays_barrier(view, entry.query)
            level.order.add(inner, apart, is_arm=leaf)
            return
        if isinstance(entry, tree.RangeCte) and not entry.levels_up and entry.name in level.inlined:
            level.order.add(*level.inlined.pop(entry.name))
            return
        level.order.own += needs
        if isinstance(entry, tree.RangeTable):
            level.order.own.append(Need(partial(self._built_in, entry.table.oid, level.role)))
        elif isinstance(entry, (tree.RangeFunction, tree.RangeValues)):
            self._collect(entry.functions if isinstance(entry, tree.RangeFunction) else entry.rows, level)

    def _built_in(self, oid: int, role: Role) -> None:
        """42501 for a built-in relation that is not readable for all users."""
        item = None if oid >= FIRST_USER_OID or role.superuser else builtin_relations_by_oid().get(oid)
        if item is None or item.name not in HIDDEN:
            return
        if (item.schema == PG_CATALOG_OID) is (item.name in HIDDEN_STANDARD):
            return
        if names_of(self.catalog, role).isdisjoint(HIDDEN[item.name]):
            word = "table" if isinstance(item, VirtualTable) and item.kind == "r" else "view"
            raise SqlError("42501", f"permission denied for {word} {item.name}")

    def _nest(self, node: tree.Statement, level: _Level, role: Role | None = None, named: bool | None = None) -> Order:
        """A query within another one. References to outer levels count there, for the role of that level."""
        found = self.statement(node, role or level.role, level.named if named is None else level.named and named)
        for up, relation, column in _outer_columns(node):
            if up == 1:
                self._refer(level, relation, column)
        return found

    def _collect(self, node: object, level: _Level, left_out: Several[object] = ()) -> None:
        """The columns of this level that expressions use, and the needs of sub-queries in them. `left_out`: sub-queries
        that are handled elsewhere."""
        if isinstance(node, tree.Query):
            if all(node is not getattr(other, "query", other) for other in left_out):
                level.order.sublinks.append(self._nest(node, level))
        elif isinstance(node, tree.Var):
            if node.levels_up == 0:
                self._refer(level, node.relation, node.column)
        else:
            if isinstance(node, tree.FuncExpr) and node.function.reserved and not level.role.superuser:
                self.calls.append(partial(_refuse_call, node.function.name))
            for child in children(node):
                self._collect(child, level, left_out)

    def _refer(self, level: _Level, relation: int, column: int) -> None:
        if relation in level.excluded:  # a new row that was in conflict
            relation = 0
        if relation >= len(level.statement.range_table):
            return
        entry = level.statement.range_table[relation]
        if isinstance(entry, tree.RangeJoin):
            for item in [entry.expressions[column - 1]] if column else entry.expressions:
                for found in _variables(item):
                    self._refer(level, found.relation, found.column)
            return
        found_relation = self._relation(entry)
        if found_relation is None:
            self._built_in_column(entry, column)
            return
        numbers = level.read.setdefault(relation, set())
        if column:
            numbers.add(column)
        elif isinstance(found_relation, (Table, View)):
            numbers.update(one.number for one in found_relation.columns)

    def _built_in_column(self, entry: tree.RangeEntry, column: int) -> None:
        """42501 for the only column of a built-in relation that is not readable for all users."""
        if not isinstance(entry, tree.RangeTable) or entry.table.oid >= FIRST_USER_OID or self.user.superuser:
            return
        hidden = not column or entry.table.columns[column - 1].name == "subconninfo"
        if entry.table.name == "pg_subscription" and hidden:
            raise SqlError("42501", "permission denied for table pg_subscription")

    # ---- changes ----------------------------------------------------------------------------------------------------

    def _change(self, node: tree.Insert | tree.Update | tree.Delete | tree.Merge, role: Role, named: bool) -> Order:
        """The needs of a change. A change of a view needs privileges on the view for the user, and on the relations
        below it for the view's owner."""
        is_insert = isinstance(node, tree.Insert)
        level = _Level(node, frozenset([1]) if is_insert else frozenset(), role, named)
        for index, entry in enumerate(node.range_table):
            if index > is_insert and self._relation(entry) is not None:
                level.read[index] = set()
        self._ctes(node, level)
        source = node.source if isinstance(node, tree.Insert) else None
        self._collect(_parts(node), level, (source,))
        for index, entry in enumerate(node.range_table):
            needs = self._of_entry(index, level) if index > is_insert and index in level.read else []
            if index:  # PostgreSQL checks no privileges on a built-in relation that is changed
                self._entry(entry, needs, level)
        level.order.ctes += (inner for inner, _ in level.inlined.values())
        if isinstance(source, tree.Query):
            level.order.add(self._nest(source, level), stays(source))
        if isinstance(node, tree.Insert) and node.on_conflict is not None:
            for oid in node.on_conflict.index_oids:
                numbers = (column.number for column in self.catalog.index(oid).columns)
                level.read.setdefault(0, set()).update(number for number in numbers if number)
        first, behind = self._target(
            node, role, named, level.read.get(0, set() if isinstance(node, tree.Merge) else None)
        )
        level.order.own = [*first, *level.order.own, *behind]
        return level.order

    def _target(
        self,
        node: tree.Insert | tree.Update | tree.Delete | tree.Merge,
        role: Role,
        named: bool,
        read: Iterable[int] | None,
    ) -> tuple[list[Need], list[Need]]:
        """The needs of a change on the relation that it names, and on those below it if that is a view. `read`: the
        target's columns that it reads, or None."""
        table = self.catalog.get(node.table.oid)
        views = () if isinstance(node, tree.Merge) else node.views  # MERGE takes no view
        if named:
            self._name(self.catalog.get(views[0].oid) if views else table)
        if views:  # their conditions are not the statement's
            read = views[-1].referred or None
        letters: list[tuple[str, Iterable[int]]] = [*_writes(node), *([] if read is None else [("r", read)])]
        needs: list[list[Need]] = []
        for used in views:
            view = self.catalog.get(used.oid)
            assert isinstance(view, View)
            needs.append([Need(partial(self._passage, view, role, used, [letter for letter, _ in letters]), True)])
            role = runs_as(self.catalog, view, role)
        needs.append([self._make_need(table, role, letter, columns) for letter, columns in letters])
        return needs[0], [need for behind in needs[1:] for need in behind]

    def _passage(self, view: View, role: Role, used: tree.ViewUse, letters: Iterable[str]) -> None:
        """The needs of a change on a view that it goes through. If it reads no column, no SELECT is needed."""
        columns = {"r": used.read, "a": used.inserted, "w": used.updated}
        for letter in letters:
            if letter == "d" and not may(self.catalog, view, role, letter):
                raise permission_denied(self.catalog, view)
            if letter != "d" and (letter != "r" or used.read):
                self._need(view, role, letter, columns[letter])


def _refuse_call(name: str) -> None:
    raise SqlError("42501", f"permission denied for function {name}")


def _writes(node: tree.Statement) -> list[tuple[str, tuple[int, ...]]]:
    """The letters of the privileges that a change needs on its target, with the columns that it writes."""
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


def _parts(node: tree.Statement) -> tuple[object, ...]:
    """The expressions of a change that run with the user's privileges: not constraints, defaults and generated
    columns."""
    if isinstance(node, tree.Insert):
        return node.rows, node.source, node.on_conflict, node.returning
    if isinstance(node, tree.Update):
        return node.assignments, node.from_items, node.where, node.returning
    if isinstance(node, tree.Delete):
        return node.from_items, node.where, node.returning
    assert isinstance(node, tree.Merge)
    return node.source, node.condition, node.actions


def _variables(node: object) -> Iterable[tree.Var]:
    return (item for item in walk(node) if isinstance(item, tree.Var))


def _outer_columns(node: object) -> Iterable[tuple[int, int, int]]:
    """(levels out, relation, column) of the outer columns that a query uses."""
    for item, depth in walk_with_depth(node):
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
