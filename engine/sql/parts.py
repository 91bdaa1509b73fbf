"""Splits a statement with changes in its WITH clause into statements that run one after the other.

PostgreSQL runs the sub-statements and the main query of such a statement on one snapshot: none sees the writes of
another, and they communicate by RETURNING only (PostgreSQL 16 manual, 7.8.4). So each becomes a part. The rows that it
returns become the content of a virtual table of this statement, which later parts read:

    WITH gone AS (DELETE FROM a RETURNING x), some AS (SELECT x FROM gone WHERE x > 1) INSERT INTO b SELECT x FROM some

    DELETE FROM a RETURNING x                                                      -> result 1
    INSERT INTO b WITH gone AS (SELECT x FROM <result 1>), some AS (...) SELECT x FROM some

Other parts are WITH queries that lock rows, that call volatile functions, or that several parts refer to, because each
must run once only. Other WITH queries stay in the part that refers to them. A sub-query that locks rows (`WHERE id =
(SELECT id ... FOR UPDATE SKIP LOCKED LIMIT 1)`) and refers to nothing outside becomes a part too.

Everything here is a function of the tree.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from catalog.errors import not_supported
from catalog.schema import Column, Table, VirtualTable
from catalog.types.oids import RECORD
from engine.sql import tree
from engine.sql.table_subqueries import row_columns, row_of
from engine.sql.tree_records import RowPlace
from engine.sql.tree_walk import transform, walk, walk_with_depth

FIRST_RESULT_OID = 0xFFFF_0000
"""The OID of the first result of a statement, as a virtual table; further results follow."""

_RESULTS = 0x400  # of one statement; others have OIDs after them

_LOCKED_RESULT_OID = FIRST_RESULT_OID + 0xFFFE

STAGE = "*stage"
"""Beginning of the names of the WITH queries that engine/sql/stages.py makes, which are parts."""

_LOCKED = "*locked"  # names of WITH queries that cannot occur in a text
_OUTER = "*"

_Node = TypeVar("_Node")


@dataclass(frozen=True, slots=True)
class LockStep:
    """Locks the rows from which the rows of a query were made, one after the other, up to LIMIT.

    The query returns the columns of its result, then the keys of the rows to lock and the OIDs of their tables, where
    `marks` say, then LIMIT and OFFSET if it has them. Positions in its rows count from 1.
    """

    marks: tuple[tree.RowMark, ...]
    limit: int | None
    offset: int | None


@dataclass(frozen=True, slots=True)
class Part:
    """One statement to run. `result`: the virtual table of its rows, or None if nothing reads them. `locks`: what is
    done with its rows before they are those of `result`."""

    name: str
    statement: tree.Statement
    result: VirtualTable | None = None
    locks: LockStep | None = None


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts in the order of execution: those that the main statement needs, the main statement, the others."""

    before: tuple[Part, ...]
    main: Part
    after: tuple[Part, ...]
    counted: tuple[int, int] | None = None  # places (from, to) of the parts that together are the main statement


def is_result(table: object) -> bool:
    """Whether a relation contains the rows of a part."""
    return isinstance(table, VirtualTable) and table.oid >= FIRST_RESULT_OID


def reads_a_stage(query: tree.Query) -> bool:
    """Whether the query reads a stage (engine/sql/stages.py)."""
    return any(
        isinstance(entry, tree.RangeCte | tree.RangeTable) and entry.alias.startswith(STAGE)
        for entry in query.range_table
    )


def take_apart(root: tree.Statement, level: int = 0) -> Parts | None:
    """The parts of a statement, or None if it has only one. `level`: the number of statements around it that have it
    as a part; its results are others than theirs."""
    root = _lift_locking(root)
    if not any(_must_run(cte) for cte in root.ctes):
        return None
    return _Splitter(root, FIRST_RESULT_OID + level * _RESULTS).parts()


def _must_run(cte: tree.Cte) -> bool:
    query = cte.query
    if not isinstance(query, tree.Query) or _locks_rows(query):
        return True
    return cte.name.startswith(STAGE) and not any(
        isinstance(entry, tree.RangeTable) and cte.name == entry.alias for entry in query.range_table
    )


def _locks_rows(node: object) -> bool:
    return any(isinstance(item, tree.Query) and item.row_marks for item in walk(node))


def _locks_inside(statement: tree.Statement) -> bool:
    """Whether a sub-query of it locks rows, which the row path alone does."""
    own = replace(statement, row_marks=()) if isinstance(statement, tree.Query) else statement
    return _locks_rows(own)


def take_locks_apart(query: tree.Query) -> Parts:
    """A query with FOR UPDATE and similar clauses as two parts: the first one has the rows in their order, and locks
    them; the main one returns them."""
    inner: list[tree.Target] = []

    def add(expression: tree.Expr, name: str = "place") -> tree.Expr:
        """The expression in the main part, whose value the first part has. Rows are made in the main part."""
        if isinstance(expression, tree.Var) and expression.column == 0:
            expression = _whole_row(query, expression)
        if isinstance(expression, tree.RowExpr):
            return replace(expression, elements=tuple([add(item) for item in expression.elements]))
        inner.append(tree.Target(expression, name))
        return tree.Var(0, len(inner), expression.type, 0, name)

    targets = tuple([replace(item, expression=add(item.expression, item.name)) for item in query.output])
    columns = tuple(Column(number, item.name, item.expression.type) for number, item in enumerate(inner, 1))

    def add_place(expression: tree.Expr) -> int:
        inner.append(tree.Target(expression, "place"))
        return len(inner)

    marks = tuple([_add_places(query, mark, add_place) for mark in query.row_marks])
    whole = query.limit_with_ties  # SKIP LOCKED is not allowed with it
    counts = [None if item is None or whole else add_place(item) for item in (query.limit, query.offset)]
    sources = replace(query, targets=tuple(inner), row_marks=())
    if not whole and (query.offset or any(mark.wait == "skip locked" for mark in marks)):
        sources = replace(sources, limit=None, offset=None)  # rows that are left out do not count
    result = VirtualTable(_LOCKED_RESULT_OID, 0, "locked", columns)
    shown = tuple(tree.RangeColumn(column.name, column.type) for column in columns)
    main = tree.Query(targets, (tree.RangeTable(result, result.name, shown),), (tree.FromRef(0),))
    return Parts((Part("", sources, result, LockStep(marks, *counts)),), Part("", main), ())


def _whole_row(query: tree.Query, item: tree.Var) -> tree.Expr:
    entry = None if item.levels_up else query.range_table[item.relation]
    if not isinstance(entry, tree.RangeTable) or not isinstance(entry.table, Table):
        return item
    return row_of(item, entry.table, {column.number: column.number for column in entry.table.columns})


def _add_places(query: tree.Query, mark: tree.RowMark, add: Callable[[tree.Expr], int]) -> tree.RowMark:
    """The mark with the positions of the keys of its rows, which `add` adds to the result. Raises 0A000 for a system
    catalog, whose rows have no keys."""
    entry = query.range_table[mark.relation]
    if isinstance(entry, tree.RangeTable):
        if not isinstance(entry.table, Table):
            not_supported("FOR UPDATE of a system catalog")
        positions = tuple([add(tree.Var(mark.relation, number, type_)) for number, type_ in row_columns(entry.table)])
        return replace(mark, members=(RowPlace(entry.table, positions),))
    assert isinstance(entry, tree.RangeSubquery)
    found: dict[int, int] = {}
    members = []
    for member in mark.members:
        for number in member.columns:
            if number not in found:
                found[number] = add(tree.Var(mark.relation, number, entry.columns[number - 1].type))
        members.append(replace(member, columns=tuple(found[number] for number in member.columns)))
    table = add(tree.Var(mark.relation, mark.table_column, entry.columns[mark.table_column - 1].type))
    return replace(mark, members=tuple(members), table_column=table)


# ---- sub-queries that lock rows -------------------------------------------------------------------------------------


def _lift_locking(root: tree.Statement) -> tree.Statement:
    """Moves sub-queries with FOR UPDATE and similar clauses, if they refer to nothing outside, to the root's WITH."""
    lifted: list[tree.Cte] = []

    def change(item: object, depth: int) -> object:
        if not isinstance(item, (tree.SubLink, tree.RangeSubquery)):
            return item
        query = item.query
        if not query.row_marks or depth < 1 or reaches_out(query, named_too=depth > 1):
            return item
        columns = tuple(tree.RangeColumn(target.name, target.expression.type) for target in query.output)
        cte = tree.Cte(f"{_LOCKED} {len(lifted)}", columns, query)
        lifted.append(cte)
        return replace(item, query=scan_of(tree.RangeCte(cte.name, depth, cte.name, columns)))

    if not any(isinstance(item, tree.Query) and item.row_marks and depth for item, depth in walk_with_depth(root)):
        return root
    changed = transform(root, change)
    assert isinstance(changed, (tree.Query, tree.Insert, tree.Update, tree.Delete, tree.Merge))
    return replace(changed, ctes=(*lifted, *changed.ctes))


def reaches_out(query: tree.Query, named_too: bool) -> bool:
    """Whether a query refers to columns of outer queries, or (`named_too`) to their WITH queries."""
    kinds = (tree.Var, tree.Aggref, tree.RangeCte) if named_too else (tree.Var, tree.Aggref)
    return any(isinstance(item, kinds) and item.levels_up >= depth for item, depth in walk_with_depth(query))


def scan_of(entry: tree.RangeCte | tree.RangeTable) -> tree.Query:
    """All columns of one relation whose columns count from 1."""
    targets = tuple(
        tree.Target(tree.Var(0, number, column.type, 0, column.name), column.name)
        for number, column in enumerate(entry.columns, 1)
    )
    return tree.Query(targets, (entry,), (tree.FromRef(0),))


# ---- parts ----------------------------------------------------------------------------------------------------------


class _Splitter:
    """The WITH queries of a root by name, and the ones that are parts."""

    def __init__(self, root: tree.Statement, first: int) -> None:
        self.root = root
        self.first = first  # OID of the first result
        self.ctes = {cte.name: cte for cte in root.ctes}
        self.direct = {name: _references(cte.query, 0) - {name} for name, cte in self.ctes.items()}
        self.direct_main = _references(replace(root, ctes=()), 1)
        self.own = {cte.name for cte in root.ctes if _must_run(cte)}
        self.own |= {cte.name for cte in root.ctes if isinstance(cte.query, tree.Query) and cte.query.volatile}
        self.own |= self._get_reached([name for name in self.own if _locks_inside(self.ctes[name].query)])
        while self._promote():
            pass

    def _promote(self) -> bool:
        """Makes a part of a query that several parts refer to. Returns whether there was one."""
        for name in self.ctes:
            if name in self.own:
                continue
            readers = sum(name in self._get_needed(self.direct[part]) for part in self.own)
            if readers + (name in self._get_needed(self.direct_main)) > 1:
                self.own.add(name)
                return True
        return False

    def _get_needed(self, names: Iterable[str]) -> set[str]:
        """The WITH queries in the part that refers to `names`, including references through queries that are not
        parts."""
        return self._get_reached(names, self.own)

    def parts(self) -> Parts:
        read = self._get_reached(self.direct_main)
        first = [name for name in self.ctes if name in self.own and name in read]
        left = [name for name, cte in self.ctes.items() if name not in read and not isinstance(cte.query, tree.Query)]
        later: list[str] = []
        for name in reversed(left):  # the last one first, as PostgreSQL runs them
            needed = self._get_reached([name])
            later += [
                other for other in self.ctes if other in needed and other in self.own and other not in (*first, *later)
            ]
        if isinstance(self.root, tree.Query):
            first, later = [*first, *later], []
        used = {name for user in (*first, *later) for name in self._get_needed(self.direct[user])}
        used |= self._get_needed(self.direct_main)
        results = {
            name: _result(self.first + number, self.ctes[name])
            for number, name in enumerate(self.ctes)
            if name in self.own and name in used
        }
        ctes = self._ctes(self.direct_main, results)
        main = Part("", _compact(replace(self.root, ctes=ctes)))
        return Parts(
            tuple(self._part(name, results) for name in first), main, tuple(self._part(name, results) for name in later)
        )

    def _get_reached(self, names: Iterable[str], ends: Container[str] = ()) -> set[str]:
        """The WITH queries that `names` refer to, directly or through others, but not through `ends`."""
        found: set[str] = set()
        waiting = list(names)
        while waiting:
            name = waiting.pop()
            if name not in found:
                found.add(name)
                if name not in ends:
                    waiting += self.direct[name]
        return found

    def _part(self, name: str, results: dict[str, VirtualTable]) -> Part:
        statement = _adopt(self.ctes[name].query, self._ctes(self.direct[name], results))
        return Part(name, _compact(statement), results.get(name))

    def _ctes(self, names: Iterable[str], results: dict[str, VirtualTable]) -> tuple[tree.Cte, ...]:
        """The WITH clause of a part that refers to `names`: results of other parts, and queries of its own."""
        needed = self._get_needed(names)
        found = []
        for name, cte in self.ctes.items():
            if name not in needed:
                continue
            if name in self.own:
                rows = scan_of(tree.RangeTable(results[name], name, cte.columns))
                found.append(replace(cte, query=rows, recursive=False, materialized=None))
            else:
                found.append(cte)
        return tuple(found)


def _references(node: object, level: int) -> set[str]:
    """The names of WITH queries that a node refers to `level` levels above its root's own (0), or its own (1)."""
    return {
        item.name
        for item, depth in walk_with_depth(node)
        if isinstance(item, tree.RangeCte) and item.levels_up == depth - level
    }


def _adopt(statement: tree.Statement, ctes: Sequence[tree.Cte]) -> tree.Statement:
    """A statement that was one level inside the owner of `ctes`, with these in its own WITH clause."""
    if not ctes:
        return statement
    names = {cte.name: _OUTER + cte.name for cte in ctes}

    def lower_levels(item: object, depth: int) -> object:
        if isinstance(item, tree.RangeCte) and item.levels_up == depth:
            return replace(item, name=names[item.name], levels_up=item.levels_up - 1)
        return item

    inner = transform(statement, lower_levels)
    assert isinstance(inner, (tree.Query, tree.Insert, tree.Update, tree.Delete, tree.Merge))
    return replace(inner, ctes=(*(_rename(cte, names) for cte in ctes), *inner.ctes))


def _rename(cte: tree.Cte, names: dict[str, str]) -> tree.Cte:
    def change(item: object, depth: int) -> object:
        if isinstance(item, tree.RangeCte) and item.levels_up == depth:
            return replace(item, name=names[item.name])
        return item

    query = transform(cte.query, change)
    assert isinstance(query, tree.Query)
    return replace(cte, name=names[cte.name], query=query)


def _compact(statement: tree.Statement) -> tree.Statement:
    """Moves the WITH queries of an INSERT to its source, if only the source uses them, because the row path supports
    that."""
    if not isinstance(statement, tree.Insert) or statement.source is None or not statement.ctes:
        return statement
    if _references(replace(statement, source=None, ctes=()), 1):
        return statement
    source = _adopt(statement.source, statement.ctes)
    assert isinstance(source, tree.Query)
    return replace(statement, source=source, ctes=())


def _result(oid: int, cte: tree.Cte) -> VirtualTable:
    for column in cte.columns:
        if column.type.oid == RECORD:
            not_supported(f'a row as column "{column.name}" of WITH query "{cte.name}"')
    columns = tuple(Column(number, column.name, column.type) for number, column in enumerate(cte.columns, 1))
    return VirtualTable(oid, 0, cte.name, columns)
