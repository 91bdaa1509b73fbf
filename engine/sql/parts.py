"""A statement with changes in its WITH clause, taken apart into statements that can run one after the other.

PostgreSQL runs the sub-statements of such a statement and its main query on one snapshot: none sees what another
writes, and RETURNING is all that they tell each other (PostgreSQL 16 manual, 7.8.4). So each becomes a part, and the
rows that it returns become the content of a virtual table of this statement alone, which the parts after it read:

    WITH gone AS (DELETE FROM a RETURNING x), some AS (SELECT x FROM gone WHERE x > 1) INSERT INTO b SELECT x FROM some

    DELETE FROM a RETURNING x                                                      -> result 1
    INSERT INTO b WITH gone AS (SELECT x FROM <result 1>), some AS (...) SELECT x FROM some

What is a part besides the changes: queries of WITH that lock rows, those that call volatile functions, and those that
several parts refer to, since each must run once only. Other queries of WITH stay with the part that refers to them.
A sub-query that locks rows (`WHERE id = (SELECT id ... FOR UPDATE SKIP LOCKED LIMIT 1)`) that refers to nothing outside
becomes a part of its own too.

Everything here is a function of the tree.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from catalog.errors import not_supported
from catalog.schema import Column, VirtualTable
from catalog.types.oids import RECORD
from engine.sql import tree
from engine.sql.tree_walk import transform, walk_with_depth

FIRST_RESULT_OID = 0xFFFF_0000
"""Virtual tables of results are numbered from here, within one statement."""

_LOCKED = "*locked"  # names of WITH queries that no text can give
_OUTER = "*"

_Node = TypeVar("_Node")


@dataclass(frozen=True, slots=True)
class Part:
    """One statement to run. `result`: where the rows that it returns are read by others, None where nobody does."""

    name: str
    statement: tree.Statement
    result: VirtualTable | None = None


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts in the order in which they run: those that the main statement needs, then it, then the others."""

    before: tuple[Part, ...]
    main: Part
    after: tuple[Part, ...]
    counted: tuple[int, int] | None = None  # places (from, to) of the parts that together are the main statement


def is_result(table: object) -> bool:
    """Whether a relation holds what a part has returned."""
    return isinstance(table, VirtualTable) and table.oid >= FIRST_RESULT_OID


def take_apart(root: tree.Statement) -> Parts | None:
    """The parts of a statement; None for one that is a single part."""
    root = _lift_locking(root)
    if not any(_must_run(cte) for cte in root.ctes):
        return None
    return _Splitter(root).parts()


def _must_run(cte: tree.Cte) -> bool:
    return not isinstance(cte.query, tree.Query) or bool(cte.query.row_marks)


# ---- sub-queries that lock rows -------------------------------------------------------------------------------------


def _lift_locking(root: tree.Statement) -> tree.Statement:
    """Sub-queries with FOR UPDATE and its kin that refer to nothing outside, as queries of the root's WITH."""
    lifted: list[tree.Cte] = []

    def change(item: object, depth: int) -> object:
        if not isinstance(item, (tree.SubLink, tree.RangeSubquery)):
            return item
        query = item.query
        if not query.row_marks or depth < 1 or _reaches_out(query, named_too=depth > 1):
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


def _reaches_out(query: tree.Query, named_too: bool) -> bool:
    """Whether a query refers to columns around it, or (`named_too`) to WITH queries around it."""
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
    """The WITH queries of a root by name, and which of them are parts."""

    def __init__(self, root: tree.Statement) -> None:
        self.root = root
        self.ctes = {cte.name: cte for cte in root.ctes}
        self.direct = {name: _references(cte.query, 0) - {name} for name, cte in self.ctes.items()}
        self.direct_main = _references(replace(root, ctes=()), 1)
        self.own = {cte.name for cte in root.ctes if _must_run(cte)}
        self.own |= {cte.name for cte in root.ctes if isinstance(cte.query, tree.Query) and cte.query.volatile}
        while self._promote():
            pass

    def _promote(self) -> bool:
        """Makes a part of a query that several parts refer to; whether there was one."""
        for name in self.ctes:
            if name in self.own:
                continue
            readers = sum(name in self._get_needed(self.direct[part]) for part in self.own)
            if readers + (name in self._get_needed(self.direct_main)) > 1:
                self.own.add(name)
                return True
        return False

    def _get_needed(self, names: Iterable[str]) -> set[str]:
        """The WITH queries that stand in a part which refers to `names`: through those that are no parts."""
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
            name: _result(FIRST_RESULT_OID + number, self.ctes[name])
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
    """A statement that stood one level within the owner of `ctes`, with these in its own WITH clause."""
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
    """An INSERT whose WITH queries only its source refers to has them there, where the row path takes them."""
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
