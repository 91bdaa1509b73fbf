"""Virtual tables (pg_catalog) on the row path: loops over rows that the session makes, by look-ups if possible.

    for row in v1_equal(operand): ...    a conjunct `column = operand`, `column = ANY (...)`, `column IN (SELECT ...)`,
                                         or `column ~ '^(name)$'`, which psql uses for names
    for row in v1_all(): ...             otherwise

engine/system_views/rows.py makes and caches the rows. Every visited row is counted, as in scans of stored tables, and
at ROW_LIMIT the statement goes to the columnar path.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from catalog.schema import VirtualTable
from catalog.system.definitions import system_relations_by_oid
from catalog.system.object_search import owners
from catalog.types.base import Array
from catalog.types.oids import BOOL, CHAR, INTEGERS, NAMED_TYPES, OID, REGCOLLATION, UNPADDED_TEXTS
from engine.execute.code import Code, LineUse, NotOnRowPath
from engine.execute.compiled_value import Value
from engine.execute.context import RowPathFull
from engine.execute.expressions import ExpressionCompiler
from engine.execute.transitions import NEW_OID, OLD_OID
from engine.sql import tree
from engine.sql.tree_walk import is_volatile, relations_of, variables

ROW_LIMIT = 20_000  # a row of these costs about half a microsecond

_OIDS = (NAMED_TYPES - {REGCOLLATION}) | {OID}
_OTHERS = frozenset((BOOL, CHAR))
_NAME_PATTERN = re.compile(r"\^\(([A-Za-z0-9_ -]+)\)\$|\^([A-Za-z0-9_ -]+)\$")


@dataclass(frozen=True, slots=True)
class VirtualAccess:
    """The way to the rows of a virtual table: by one conjunct, or all of them.

    `kind`: = | in | query | pattern | all; `covered`: the conjunct that every row found meets.
    """

    table: VirtualTable
    kind: str = "all"
    column: int = 0
    operand: tree.Expr | None = None
    direct: bool = False  # the value determines the owner of the rows
    covered: frozenset[int] = frozenset()

    single = False
    full_scan = False  # it has a limit of its own

    @property
    def rank(self) -> tuple[int, ...]:
        """Larger is better, comparable with Access.rank."""
        if self.kind == "all":
            return (0, 0, 0, 0, 0)
        return (0, 1 if self.direct else 0, int(self.kind == "="), int(self.direct), 1)


def virtual_access(
    table: VirtualTable, relation: int, conjuncts: Sequence[tree.Expr], bound: frozenset[int]
) -> VirtualAccess:
    """The best way to the rows of a relation, given the relations whose columns are available. Raises NotOnRowPath for
    a relation that is neither a system relation nor a sequence."""
    if table.oid in (OLD_OID, NEW_OID):
        return VirtualAccess(table)
    if table.oid not in system_relations_by_oid() and table.kind != "S":
        raise NotOnRowPath(f"relation {table.name}")
    found = [access for item in enumerate(conjuncts) for access in _matches(table, relation, *item, bound)]
    return max(found, key=lambda access: access.rank, default=VirtualAccess(table))


def _matches(
    table: VirtualTable, relation: int, position: int, conjunct: tree.Expr, bound: frozenset[int]
) -> Iterator[VirtualAccess]:
    kind = ""
    sides: tuple[tuple[tree.Expr, tree.Expr], ...] = ()
    match conjunct:
        case tree.FuncExpr(operator=operator, arguments=(left, right)) if operator and operator.name == "=":
            kind, sides = "=", ((left, right), (right, left))
        case tree.FuncExpr(operator=operator, arguments=(left, right)) if operator and operator.name == "~":
            kind, sides = "pattern", ((left, right),)
        case tree.ScalarArrayOp(operator=operator, use_or=True, left=left, right=right) if operator.name == "=":
            kind, sides = "in", ((left, right),)
        case tree.SubLink(kind="any", negated=False, test=(left,), comparisons=((operator, _),)):
            if operator.name == "=" and not variables(conjunct.query):
                kind, sides = "query", ((left, conjunct),)
    for column, operand in sides:
        number = _column(column, relation)
        if not number or (kind != "query" and (relations_of(operand) - bound or is_volatile(operand))):
            continue
        own = table.columns[number - 1].type.oid
        operand_type = own if kind in ("in", "query") else operand.type.oid
        if kind == "in" and isinstance(operand, tree.ArrayExpr):
            operand_type = operand.element_type.oid
        if not _alike(own, operand_type):
            continue
        direct = owners(table.oid, table.columns[number - 1].name) is not None
        covered = frozenset((position,)) if kind == "=" else frozenset[int]()
        yield VirtualAccess(table, kind, number, operand, direct, covered)


def _column(expression: tree.Expr, relation: int) -> int:
    while isinstance(expression, tree.RelabelType) and _alike(expression.type.oid, expression.argument.type.oid):
        expression = expression.argument
    if isinstance(expression, tree.Var) and expression.relation == relation and expression.levels_up == 0:
        return max(expression.column, 0)
    return 0


def _alike(left: int, right: int) -> bool:
    """Whether SQL's = of the two types is Python's == of their values."""
    return (left == right and left in _OTHERS) or any(
        left in group and right in group for group in (_OIDS, INTEGERS, UNPADDED_TEXTS)
    )


class VirtualWriter:
    """Writes the loop over an access into a function that has the local `n`."""

    def __init__(self, code: Code, expressions: ExpressionCompiler) -> None:
        self.code = code
        self.expressions = expressions
        code.names["RowPathFull"] = RowPathFull

    def write(
        self,
        access: VirtualAccess,
        relation: int,
        needed: Sequence[int],
        columns: dict[tuple[int, int], Value],
        query_rows: Callable[[tree.Query], str],
    ) -> None:
        """Opens the loop and puts the needed columns into locals; later code is written inside it. `query_rows` writes
        a sub-query and returns the source of its rows."""
        code = self.code
        row = code.temporary("row")
        code.indent(f"for {row} in {self._rows(access, query_rows)}:")
        code.line("n += 1", LineUse.COUNT)
        code.write_limit("n", ROW_LIMIT)
        for number in needed:
            if number < 0:
                raise NotOnRowPath("a system column")
            if number == 0:
                columns[relation, 0] = Value(row, nullable=False, atom=True)
                continue
            name = code.temporary("c")
            code.line(f"{name} = {row}[{number - 1}]")
            columns[relation, number] = Value(name, not access.table.columns[number - 1].not_null, atom=True)

    def _rows(self, access: VirtualAccess, query_rows: Callable[[tree.Query], str]) -> str:
        code = self.code
        if access.kind == "all":
            return f"{self._source(access.table)}.all()"
        look_up = self._look_up(access)
        operand = access.operand
        assert operand is not None
        if access.kind == "query":
            assert isinstance(operand, tree.SubLink)
            return f"{code.constant(of_query, 'of_query')}({look_up}, {query_rows(operand.query)})"
        value = self.expressions.value(operand).source
        if access.kind == "=":
            return f"{look_up}({value})"
        if access.kind == "in":
            return f"{code.constant(of_array, 'of_array')}({look_up}, {value})"
        return f"{code.constant(of_pattern, 'of_pattern')}({look_up}, {value}, {self._source(access.table)})"

    def _source(self, table: VirtualTable) -> str:
        """The local that holds the relation, made when the plan starts."""
        name = f"v{table.oid}"
        self._once(f"{name} = context.call.session.virtual_rows({self.code.constant(table, 'relation')})")
        return name

    def _look_up(self, access: VirtualAccess) -> str:
        name = f"v{access.table.oid}_{access.column}"
        self._once(f"{name} = {self._source(access.table)}.equal({access.column})")
        return name

    def _once(self, line: str) -> None:
        if line not in self.code.prologue:
            self.code.prologue.append(line)


LookUp = Callable[[object], Iterable[tuple[Any, ...]]]


def of_array(look_up: LookUp, array: Array | None) -> Iterable[tuple[Any, ...]]:
    """The rows of every distinct element."""
    members = () if array is None else dict.fromkeys(array.elements)
    return [row for member in members for row in look_up(member)]


def of_query(look_up: LookUp, rows: Iterable[tuple[object]]) -> Iterable[tuple[Any, ...]]:
    """The rows of every distinct value in a sub-query's only column."""
    return [row for member in dict.fromkeys(row[0] for row in rows) for row in look_up(member)]


def of_pattern(look_up: LookUp, pattern: str | None, relation: Any) -> Iterable[tuple[Any, ...]]:
    """The rows that a regular expression may match: those of one name, if it can match nothing else."""
    if pattern is None:
        return ()
    found = _NAME_PATTERN.fullmatch(pattern)
    rows: Iterable[tuple[Any, ...]] = look_up(found[1] or found[2]) if found is not None else relation.all()
    return rows
