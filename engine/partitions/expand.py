"""Replaces tables by their members in an analysed statement, so that it reads and changes plain tables only.

    FROM p                    FROM (SELECT a, b FROM p1 UNION ALL SELECT a, b FROM p2) p
    FROM p WHERE a = 1        FROM p1 p                           if only p1 can have such rows
    UPDATE p SET ...          UPDATE p1 SET ..., UPDATE p2 SET ... as one statement (engine/statements/compound.py)
    INSERT INTO p             unchanged: each row is routed (engine/partitions/partition_writer.py)

The columns of such a sub-query are at the positions of their numbers in the table, with NULLs for dropped ones, so
references to the table do not change. Conditions are pushed down into the parts on either path.

tableoid, if it is used, is a column after the last one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from catalog.catalog import Catalog
from catalog.errors import not_supported
from catalog.schema import Table
from catalog.types.base import TypeRef
from catalog.types.oids import INT4, INT8, OID
from engine.execute.expressions import constant_value
from engine.partitions.member_choice import conditions_on, members
from engine.partitions.router import column_numbers, key_column_numbers
from engine.sql import tree
from engine.sql.analyze import Environment
from engine.sql.analyze.rules import runnable_rules, table_rules
from engine.sql.table_subqueries import as_subquery, replace_columns, row_columns, row_of, uses
from engine.sql.tree_records import RowPlace
from engine.sql.tree_walk import conjuncts, firm_places, transform

_OID_REF, _ROW_REF = TypeRef(OID), TypeRef(INT8)
_OF_STATEMENT = (tree.POLICY_CHECK, tree.VIEW_CHECK)
"""The checks that depend on the table or view that the statement names, not on the table that gets the row."""
_Reading = TypeVar("_Reading", tree.Query, tree.Update, tree.Delete, tree.Merge)


def concerns(analyzed: tree.Analyzed, catalog: Catalog) -> bool:
    """Whether the statement has such tables. Cheap, because nearly all statements have none."""
    if analyzed.table_oids:
        return True
    children = catalog.children
    return bool(children) and any(oid in children or _is_part(catalog, oid) for oid in analyzed.relations)


def _is_part(catalog: Catalog, oid: int) -> bool:
    item = catalog.get(oid)
    return isinstance(item, Table) and (item.partitioning is not None or item.bound is not None)


def expand(
    analyzed: tree.Analyzed, environment: Environment, chosen: Mapping[int, Sequence[Table]] | None = None
) -> tree.Analyzed:
    """The statement over the members of its tables: those that match its constants, or the `chosen` ones for entries of
    its own range table."""
    expansion = _Expansion(environment, chosen or {})
    statement = expansion.statement(analyzed.statement)
    relations = _with_members(analyzed.relations, expansion.read)
    written = _with_members(analyzed.written, expansion.written)
    locked = _with_members(analyzed.locked, expansion.locked)
    return replace(analyzed, statement=statement, relations=relations, written=written, locked=locked, table_oids=False)


def _with_members(oids: Iterable[int], members: Iterable[int]) -> tuple[int, ...]:
    return tuple(dict.fromkeys((*oids, *members)))


def spread(statement: tree.Update | tree.Delete, environment: Environment) -> tuple[tree.Update | tree.Delete, ...]:
    """Splits an UPDATE or DELETE of a table with several members into one for each of them."""
    expansion = _Expansion(environment, {})
    whole = replace(statement, members=())
    moves = statement.table.partitioning is not None
    return tuple(expansion.onto(whole, member, moves) for member in statement.members)


class _Expansion:
    def __init__(self, environment: Environment, chosen: Mapping[int, Sequence[Table]]) -> None:
        self.environment = environment
        self.catalog = environment.catalog
        self.chosen = chosen
        self.read: dict[int, None] = {}
        self.written: dict[int, None] = {}
        self.locked: dict[int, None] = {}

    def statement(self, statement: tree.Statement) -> tree.Statement:
        changed = transform(statement, self._node)
        assert isinstance(changed, (tree.Query, tree.Insert, tree.Update, tree.Delete, tree.Merge))
        return changed

    def _node(self, node: object, depth: int) -> object:
        chosen = self.chosen if depth == 0 else {}
        if isinstance(node, tree.Query):
            return self._query(node, chosen)
        if isinstance(node, tree.Insert):
            return self._insert(node)
        if isinstance(node, (tree.Update, tree.Delete)):
            return self._change(node, chosen)
        if isinstance(node, tree.Merge):
            return self._merge(node)
        return node

    # ---- reading ----------------------------------------------------------------------------------------------------

    def _query(self, query: tree.Query, chosen: Mapping[int, Sequence[Table]]) -> tree.Query:
        return self._read_members(query, query.from_items, query.where, 0, chosen)

    def _read_members(
        self,
        statement: _Reading,
        from_items: Sequence[tree.FromItem],
        where: tree.Expr | None,
        first: int,
        chosen: Mapping[int, Sequence[Table]],
    ) -> _Reading:
        """Replaces tables with members by sub-queries, from that range entry on."""
        range_table = statement.range_table
        wanted = [
            relation
            for relation, entry in enumerate(range_table)
            if relation >= first and isinstance(entry, tree.RangeTable) and self._stands_for_others(statement, relation)
        ]
        if not wanted:
            return statement
        firm = set(firm_places(tuple(from_items)))
        tests = [*conjuncts(where), *_join_conditions(from_items)]
        entries = list(range_table)
        marks = _marks_of(statement)
        for relation in wanted:
            entry = range_table[relation]
            assert isinstance(entry, tree.RangeTable)
            found = chosen.get(relation)
            if found is None:
                found = self._members(entry, relation, tests if relation in firm else [])
            if relation in marks:
                entries[relation], marks[relation] = self._marked_union(statement, entry, marks[relation], found)
            else:
                entries[relation] = self._union_of(statement, entry, relation, found)
        changed = replace(statement, range_table=tuple(entries))
        if isinstance(changed, tree.Query):
            changed = replace(changed, row_marks=tuple(marks.values()))
        for relation in wanted:
            before, after = range_table[relation], entries[relation]
            if isinstance(before, tree.RangeTable) and isinstance(after, tree.RangeSubquery):
                changed = as_subquery(changed, relation, before, after)
        return changed

    def _stands_for_others(self, statement: tree.Statement, relation: int) -> bool:
        entry = statement.range_table[relation]
        if not isinstance(entry, tree.RangeTable) or not isinstance(entry.table, Table):
            return False
        table = entry.table
        inherited = not entry.only and (table.oid in self.catalog.children or table.partitioning is not None)
        return inherited or uses(statement, relation, tree.TABLE_OID)

    def _members(self, entry: tree.RangeTable, relation: int, tests: Sequence[tree.Expr]) -> list[Table]:
        table = entry.table
        assert isinstance(table, Table)
        if entry.only:
            return [table]
        found = members(self.catalog, table, conditions_on(self.catalog, table, relation, tests), constant_value)
        return [item for item in found if item is table or not self.environment.is_of_others(item)]

    def _union_of(
        self, statement: tree.Statement, entry: tree.RangeTable, relation: int, found: Sequence[Table]
    ) -> tree.RangeEntry:
        table = entry.table
        assert isinstance(table, Table)
        self.read.update(dict.fromkeys(item.oid for item in found))
        with_oid = uses(statement, relation, tree.TABLE_OID)
        if len(found) == 1 and not with_oid and _alike(table, found[0]):
            return replace(entry, table=found[0], only=True)
        if not found:
            found = [table]  # its own storage is empty
        return _union_as(entry, [self._arm(entry, table, item, with_oid) for item in found])

    def _marked_union(
        self, statement: tree.Statement, entry: tree.RangeTable, mark: tree.RowMark, found: Sequence[Table]
    ) -> tuple[tree.RangeEntry, tree.RowMark]:
        """A table whose rows are to be locked: its columns, then the keys of the members' rows, then tableoid. Members
        whose keys have the same types share columns."""
        table = entry.table
        assert isinstance(table, Table)
        self.locked.update(dict.fromkeys(item.oid for item in found))
        if len(found) == 1:
            union = self._union_of(statement, entry, mark.relation, found)
            if isinstance(union, tree.RangeTable):
                return union, mark
        self.read.update(dict.fromkeys(item.oid for item in found))
        found = found or [table]  # its own storage is empty
        columns_of = {item.oid: row_columns(item) for item in found}
        shapes = dict.fromkeys(tuple(type_ for _, type_ in columns) for columns in columns_of.values())
        arms, members = [], []
        for item in found:
            places: list[tree.Target] = []
            for shape in shapes:
                own = columns_of[item.oid] if shape == tuple(type_ for _, type_ in columns_of[item.oid]) else ()
                first = table.next_column + len(places)
                if own:
                    members.append(RowPlace(item, tuple(range(first, first + len(own)))))
                    places += (tree.Target(tree.Var(0, number, type_), "place") for number, type_ in own)
                else:
                    places += (tree.Target(tree.Const(None, type_), "place") for type_ in shape)
            arms.append(self._arm(entry, table, item, True, places))
        union = _union_as(entry, arms)
        return union, replace(mark, members=tuple(members), table_column=len(union.columns))

    def _arm(
        self,
        entry: tree.RangeTable,
        table: Table,
        member: Table,
        with_oid: bool,
        places: Sequence[tree.Target] = (),
    ) -> tree.Query:
        """SELECT the table's columns, the places of the rows, and tableoid FROM one member."""
        shown = {column.number: item.name for column, item in zip(table.columns, entry.columns, strict=True)}
        numbers = column_numbers(table, member)
        targets = []
        for number in range(1, table.next_column):
            if number in shown:
                type_ = table.column_by_number(number).type
                value: tree.Expr = tree.Var(0, numbers[number], type_, 0, shown[number])
            else:
                value = tree.Const(None, TypeRef(INT4))
            targets.append(tree.Target(value, shown.get(number, "")))
        targets += places
        if with_oid:
            targets.append(tree.Target(tree.Const(member.oid, _OID_REF), "tableoid"))
        columns = tuple(tree.RangeColumn(column.name, column.type) for column in member.columns)
        inner = tree.RangeTable(member, member.name, columns, sample=entry.sample, only=True)
        return tree.Query(tuple(targets), (inner,), (tree.FromRef(0),))

    # ---- changing ---------------------------------------------------------------------------------------------------

    def _insert(self, statement: tree.Insert) -> tree.Insert:
        table = statement.table
        if table.partitioning is None:
            if uses(statement, 0, tree.TABLE_OID):
                return self._with_table_oid(statement, table)
            return statement
        return replace(statement, checks=_checks_of_statement(statement))

    def _with_table_oid(self, statement: tree.Insert, table: Table) -> tree.Insert:
        changed = _renumber(statement, table, table, {column.number: column.number for column in table.columns})
        assert isinstance(changed, tree.Insert)
        return changed

    def _change(
        self, statement: tree.Update | tree.Delete, chosen: Mapping[int, Sequence[Table]]
    ) -> tree.Update | tree.Delete:
        if isinstance(statement, tree.Update):
            statement = self._read_members(statement, statement.from_items, statement.where, 1, chosen)
        else:
            statement = self._read_members(statement, statement.from_items, statement.where, 1, chosen)
        entry, table = statement.range_table[0], statement.table
        assert isinstance(entry, tree.RangeTable)
        if entry.only or not (table.oid in self.catalog.children or table.partitioning is not None):
            if uses(statement, 0, tree.TABLE_OID):
                return self.onto(statement, table, False)
            return self._within_bounds(statement)
        if isinstance(statement.where, tree.CurrentOf):
            not_supported("WHERE CURRENT OF for a partitioned or inherited table")
        found = chosen.get(0)
        if found is None:
            found = self._members(entry, 0, conjuncts(statement.where))
        self.written.update(dict.fromkeys(item.oid for item in found))
        self.read.update(dict.fromkeys(item.oid for item in found))
        if not found:
            return self.onto(statement, table, False)
        if len(found) == 1:
            return self.onto(statement, found[0], table.partitioning is not None)
        return replace(statement, members=tuple(found))

    def _assigns_key(self, statement: tree.Update, member: Table, numbers: dict[int, int]) -> bool:
        """Whether a row of a member may belong to another member after the UPDATE."""
        keys = key_column_numbers(self.catalog, member)
        generated = table_rules(member, self.environment).generated
        assigned = [*(numbers[item.column] for item in statement.assignments), *(item.column for item in generated)]
        return keys is None or not keys.isdisjoint(assigned)

    def _within_bounds(self, statement: tree.Update | tree.Delete) -> tree.Update | tree.Delete:
        """The change without the check of a partition's bounds, if it assigns no column that they depend on."""
        if not isinstance(statement, tree.Update) or statement.table.bound is None:
            return statement
        keys = key_column_numbers(self.catalog, statement.table)
        if keys is None or any(item.column in keys for item in (*statement.assignments, *statement.generated)):
            return statement
        return replace(statement, checks=tuple(item for item in statement.checks if item[0] != tree.PARTITION_CHECK))

    def onto(self, statement: tree.Update | tree.Delete, member: Table, moves: bool) -> tree.Update | tree.Delete:
        """The statement over one of the target's members."""
        table = statement.table
        numbers = column_numbers(table, member)
        entry = statement.range_table[0]
        assert isinstance(entry, tree.RangeTable)
        shown = {numbers[column.number]: item for column, item in zip(table.columns, entry.columns, strict=True)}
        columns = tuple(
            shown.get(column.number, tree.RangeColumn(column.name, column.type)) for column in member.columns
        )
        moves = moves and isinstance(statement, tree.Update) and self._assigns_key(statement, member, numbers)
        changed = _renumber(statement, table, member, numbers, moves)
        assert isinstance(changed, (tree.Update, tree.Delete))
        target = tree.RangeTable(member, entry.alias, columns, entry.aliased, only=True)
        changed = replace(changed, table=member, range_table=(target, *changed.range_table[1:]))
        if isinstance(changed, tree.Update):
            changed = self._with_rules(changed, table, member, numbers, moves)
        return changed

    def _with_rules(
        self, statement: tree.Update, table: Table, member: Table, numbers: dict[int, int], moves: bool
    ) -> tree.Update:
        rules = runnable_rules(member, self.environment, defaults=False)
        assignments = tuple(replace(item, column=numbers[item.column]) for item in statement.assignments)
        views = _checks_of_statement(statement)
        named = None if member.oid == table.oid else table
        checks = (*rules.checks_of_update(item.column for item in assignments), *views)
        changed = replace(statement, assignments=assignments, generated=rules.generated, checks=checks, named=named)
        if moves:
            return replace(changed, checks=views, root=table)
        bounded = self._within_bounds(changed)
        assert isinstance(bounded, tree.Update)
        return bounded

    def _merge(self, statement: tree.Merge) -> tree.Merge:
        entry, table = statement.range_table[0], statement.table
        assert isinstance(entry, tree.RangeTable)
        changed = self._read_members(statement, (statement.source,), None, 1, {})
        if table.partitioning is None:
            if table.oid in self.catalog.children and not entry.only:
                not_supported("MERGE into an inherited table")
            return changed
        found = self._members(entry, 0, conjuncts(statement.condition))
        self.written.update(dict.fromkeys(item.oid for item in found))
        self.read.update(dict.fromkeys(item.oid for item in found))
        arms = [self._arm(entry, table, item, True, (_row_number(item),)) for item in found or [table]]
        target = _union_as(entry, arms)
        entries = (target, *changed.range_table[1:])
        changed = replace(changed, range_table=entries, checks=_checks_of_statement(statement), in_members=True)
        return as_subquery(changed, 0, entry, target)


# ---- trees ----------------------------------------------------------------------------------------------------------


def _checks_of_statement(statement: tree.Insert | tree.Update | tree.Merge) -> tuple[tuple[str, tree.Expr], ...]:
    return tuple(item for item in statement.checks if item[0].startswith(_OF_STATEMENT))


def _alike(table: Table, member: Table) -> bool:
    return [(column.number, column.name) for column in table.columns] == [
        (column.number, column.name) for column in member.columns
    ]


def _marks_of(statement: tree.Statement) -> dict[int, tree.RowMark]:
    return {mark.relation: mark for mark in statement.row_marks} if isinstance(statement, tree.Query) else {}


def _row_number(member: Table) -> tree.Target:
    hidden = not member.key_columns and member.partitioning is None
    return tree.Target(tree.Var(0, tree.ROW_NUMBER, _ROW_REF) if hidden else tree.Const(None, _ROW_REF), "r")


def _union_as(entry: tree.RangeTable, arms: list[tree.Query]) -> tree.RangeSubquery:
    columns = tuple(tree.RangeColumn(target.name, target.expression.type) for target in arms[0].targets)
    return tree.RangeSubquery(_union(arms, columns), entry.alias, columns)


def _union(arms: list[tree.Query], columns: tuple[tree.RangeColumn, ...]) -> tree.Query:
    """The union of the arms, as a balanced tree because there may be thousands."""
    if len(arms) == 1:
        return arms[0]
    entries = tuple(tree.RangeSubquery(arm, f"*SELECT* {number}", columns) for number, arm in enumerate(arms, 1))
    types = tuple(column.type for column in columns)

    def joined(low: int, high: int) -> tree.SetOperation | tree.FromRef:
        if high - low == 1:
            return tree.FromRef(low)
        middle = (low + high) // 2
        return tree.SetOperation("union", True, joined(low, middle), joined(middle, high), types)

    operation = joined(0, len(arms))
    assert isinstance(operation, tree.SetOperation)
    targets = tuple(
        tree.Target(tree.Var(0, number, column.type, 0, column.name), column.name)
        for number, column in enumerate(columns, 1)
    )
    return tree.Query(targets, entries, set_operation=operation)


def _renumber(node: object, table: Table, member: Table, numbers: dict[int, int], moves: bool = False) -> object:
    """A change of a member as target, with the member's column numbers. `moves`: the table of the new row is known only
    when it is written."""
    alike = _alike(table, member)

    def change(item: tree.Var) -> tree.Expr:
        if item.column == tree.TABLE_OID:
            return item if moves else tree.Const(member.oid, _OID_REF)
        if alike:
            return item
        return row_of(item, table, numbers) if item.column == 0 else replace(item, column=numbers[item.column])

    return replace_columns(node, 0, change)


def _join_conditions(items: Iterable[tree.FromItem]) -> Iterator[tree.Expr]:
    """The conditions of inner joins that are not inside an outer join."""
    for item in items:
        if isinstance(item, tree.FromJoin) and item.kind in ("inner", "cross"):
            yield from conjuncts(item.condition)
            yield from _join_conditions((item.left, item.right))
