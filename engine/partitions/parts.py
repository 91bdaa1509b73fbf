"""UPDATE and DELETE of tables with several members, as statements of several parts (engine/sql/parts.py).

All parts use the snapshot of the statement, so none sees rows that another one has moved to its table. Their results
are joined, and the main part reads them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from catalog.schema import Column, VirtualTable
from engine.partitions.expand import spread
from engine.sql import tree
from engine.sql.analyze import Environment
from engine.sql.parts import FIRST_RESULT_OID, Part, Parts, scan_of, take_apart

_MAIN_RESULT = FIRST_RESULT_OID + 0xFFFF


def parts_of(root: tree.Statement, environment: Environment, level: int = 0) -> Parts | None:
    """The parts of a statement, or None if it has only one. `level`: see `take_apart`."""
    parts = take_apart(root, level)
    if parts is None:
        if not _has_members(root):
            return None
        parts = Parts((), Part("", root), ())
    before = list(_spread(parts.before, environment))
    after = tuple(_spread(parts.after, environment))
    main = parts.main.statement
    if not isinstance(main, (tree.Update, tree.Delete)) or not main.members:
        return replace(parts, before=tuple(before), after=after)
    first = len(before)
    result = _result(main) if main.returning else None
    own = [Part("", statement, result) for statement in spread(main, environment)]
    if result is None:
        before += own[:-1]
        return Parts(tuple(before), own[-1], after, (first, first + len(own)))
    before += own
    columns = tuple(tree.RangeColumn(column.name, column.type) for column in result.columns)
    query = scan_of(tree.RangeTable(result, result.name, columns))
    named = tuple(
        replace(target, origin_table=item.origin_table, origin_column=item.origin_column)
        for target, item in zip(query.targets, main.returning, strict=True)
    )
    return Parts(tuple(before), Part("", replace(query, targets=named)), after, (first, first + len(own)))


def _has_members(statement: tree.Statement) -> bool:
    return isinstance(statement, (tree.Update, tree.Delete)) and bool(statement.members)


def _spread(parts: Iterable[Part], environment: Environment) -> Iterator[Part]:
    for part in parts:
        statement = part.statement
        if isinstance(statement, (tree.Update, tree.Delete)) and statement.members:
            yield from (replace(part, statement=item) for item in spread(statement, environment))
        else:
            yield part


def _result(statement: tree.Update | tree.Delete) -> VirtualTable:
    columns = tuple(
        Column(number, target.name, target.expression.type) for number, target in enumerate(statement.returning, 1)
    )
    return VirtualTable(_MAIN_RESULT, 0, "returned", columns)
