"""Access paths: the keys of a table or an index to which a condition restricts a statement.

The conjuncts of WHERE are matched with the columns of the primary key and of each index, in key order:

    a = 1 AND b IN (2, 3) AND c > 4 AND f(d)      on a key (a, b, c)
    step a = 1, step b IN (2, 3), range c > 4; f(d) remains a filter

    steps          scanned ranges
    all of a unique key by =        one key: a get, not a scan
    some leading ones               all keys with that prefix, restricted by the range on the next column
    none                            the whole table

An IN list makes one such scan per distinct member, in key order. There are no statistics: a unique key by equality is
best, then the most columns by equality, then a range. A plan that visits too many rows stops at execution.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field

from catalog.catalog import Catalog
from catalog.collations import is_current, key_type
from catalog.functions.system_columns import CTID_OF_NUMBER, NUMBER_OF_CTID
from catalog.records import dataclass
from catalog.schema import Index, Table
from catalog.types import element_of, lookup
from catalog.types.base import TypeRef
from catalog.types.collated import Rules, rules_of
from catalog.types.collated_oids import plain
from catalog.types.oids import COLLATABLE, INT8, INTEGERS, VARYING_TEXTS
from engine.sql import tree
from engine.sql.tree_walk import is_volatile, relations_of

_MIRROR = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """One column of a key, by attnum; 0 for an expression, which only its own conditions could match. `type`: the type
    of the values in the key; under an ICU collation a collated type."""

    number: int
    type: TypeRef
    nullable: bool

    def takes(self, condition: Condition) -> bool:
        """Whether the condition uses the order of this key: under the same collation, or equality if both treat only
        identical texts as equal."""
        if condition.kind in ("null", "not null"):
            return True
        own = rules_of(self.type.oid)
        if condition.kind in ("=", "in") and (own is None or own.deterministic):
            return condition.rules is None or condition.rules.deterministic
        return condition.rules == own


@dataclass(frozen=True, slots=True)
class Condition:
    """A conjunct that restricts one column: kind is one of = < <= > >= in null, or `not null` at the end of a range."""

    conjunct: int  # its position among the conjuncts
    column: int
    kind: str
    operand: tree.Expr | None  # for `in`: an array
    rules: Rules | None = None  # of the ICU collation that it compares under


@dataclass(frozen=True, slots=True)
class Access:
    """The way to the rows of one table. `index` None: by the table's own key.

    `covered` are the conjuncts that every row found meets. `single`: at most one row.
    """

    table: Table
    index: Index | None
    columns: tuple[KeyColumn, ...]
    steps: tuple[Condition, ...] = ()
    lower: Condition | None = None
    upper: Condition | None = None
    covered: frozenset[int] = frozenset()
    single: bool = False
    cursor: tree.CurrentOf | None = None  # the row at which this cursor is

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """All conditions in use, in key order: EXPLAIN's Index Cond."""
        bounds = (self.lower, self.upper)
        return (*self.steps, *(bound for bound in bounds if bound is not None))

    @property
    def full_scan(self) -> bool:
        return not (self.conditions or self.cursor)

    @property
    def rank(self) -> tuple[int, ...]:
        """Larger is better. Among equals the table's own key wins, because it saves the second look-up."""
        equal = sum(step.kind != "in" for step in self.steps)
        bounds = (self.lower is not None) + (self.upper is not None and self.upper.kind != "not null")
        return (self.single, len(self.steps), equal, bounds, self.index is None)


@dataclass(slots=True)
class Finder:
    """Finds access paths to one relation of a query.

    `bound` are the relations whose columns are available when the scan starts (outer loops); columns of outer queries
    always are.
    """

    catalog: Catalog
    table: Table
    relation: int
    bound: frozenset[int] = frozenset()
    conditions: dict[int, list[Condition]] = field(default_factory=dict)
    positioned: Access | None = None  # by WHERE CURRENT OF

    def add(self, conjuncts: Sequence[tree.Expr]) -> None:
        """Takes the conjuncts that it can use; positions are those in `conjuncts`."""
        for position, conjunct in enumerate(conjuncts):
            if isinstance(conjunct, tree.CurrentOf) and self.relation == 0:
                covered = frozenset((position,))
                self.positioned = Access(self.table, None, (), covered=covered, single=True, cursor=conjunct)
            for condition in self._match(position, conjunct):
                self.conditions.setdefault(condition.column, []).append(condition)

    def paths(self, ordered: bool) -> Iterator[Access]:
        """Every path that may be the best, the full scan first; only that of WHERE CURRENT OF if there is one.
        `ordered`: the order of the rows alone may justify a path."""
        if self.positioned is not None:
            yield self.positioned
            return
        yield self._path(None, key_columns(self.table), unique=bool(self.table.key_columns))
        for oid in self.table.indexes:
            index = self.catalog.index(oid)
            if usable(self.catalog, index) and (ordered or index.columns[0].number in self.conditions):
                yield self._path(index, index_columns(self.catalog, self.table, index), index.unique)

    def best(self, wanted: Sequence[tree.SortClause] = ()) -> Access:
        """The best path; among equally good ones, one that returns the rows in the wanted order."""

        def rank(path: Access) -> tuple[int, ...]:
            serves = bool(wanted) and order_served(path, self.relation, wanted) is not None
            return (*path.rank[:4], serves, *path.rank[4:])

        paths = list(self.paths(bool(wanted)))
        return paths[0] if len(paths) == 1 else max(paths, key=rank)

    def _path(self, index: Index | None, columns: tuple[KeyColumn, ...], unique: bool) -> Access:
        steps: list[Condition] = []
        lower = upper = None
        for column in columns:
            found = [item for item in self.conditions.get(column.number, ()) if column.takes(item)]
            step = next((c for kind in ("=", "null", "in") for c in found if c.kind == kind), None)
            if step is None:
                lower = next((c for c in found if c.kind in (">", ">=")), None)
                upper = next((c for c in found if c.kind in ("<", "<=")), None)
                if upper is None and index is not None:
                    upper = next((c for c in found if c.kind == "not null"), None)
                break
            steps.append(step)
        used = [*steps, *(bound for bound in (lower, upper) if bound is not None)]
        single = unique and len(steps) == len(columns) > 0 and all(step.kind == "=" for step in steps)
        covered = frozenset(c.conjunct for c in used if fixed_size(self._type(c.column)))
        return Access(self.table, index, columns, tuple(steps), lower, upper, covered, single)

    def _type(self, number: int) -> TypeRef:
        return self.table.column_by_number(number).type

    # ---- matching ---------------------------------------------------------------------------------------------------

    def _match(self, position: int, conjunct: tree.Expr) -> Iterator[Condition]:
        match conjunct:
            case tree.FuncExpr(operator=operator, arguments=(left, right)) if operator and operator.name in _MIRROR:
                for column, kind, operand in (
                    (left, operator.name, right),
                    (right, _MIRROR[operator.name], left),
                ):
                    number = self._column(column)
                    if number and self._usable(operand) and _same_key(self._type(number).oid, operand.type.oid):
                        yield Condition(position, number, kind, operand, rules_of(operand.type.oid))
                        return
                yield from self._by_ctid(position, conjunct)
            case tree.ScalarArrayOp(operator=operator, use_or=True, left=left, right=right) if operator.name == "=":
                number = self._column(left)
                if isinstance(right, tree.ArrayExpr):
                    element = right.element_type.oid
                else:
                    element = element_of(right.type.oid)
                if number and self._usable(right) and _same_key(self._type(number).oid, element):
                    yield Condition(position, number, "in", right, rules_of(element))
            case tree.NullTest(argument=argument, is_null=is_null):
                number = self._column(argument)
                if number and not self.table.column_by_number(number).not_null:
                    yield Condition(position, number, "null" if is_null else "not null", None)

    def _by_ctid(self, position: int, conjunct: tree.FuncExpr) -> Iterator[Condition]:
        """ctid = operand, if ctid has the only column of the key."""
        left, right = conjunct.arguments
        for place, operand in ((left, right), (right, left)):
            if conjunct.function.source != "tideq" or not isinstance(place, tree.FuncExpr):
                continue
            number = self._column(place.arguments[0]) if place.function.oid == CTID_OF_NUMBER.oid else 0
            if number > 0 and self._usable(operand):
                key = tree.FuncExpr(NUMBER_OF_CTID, (operand,), TypeRef(INT8))
                yield Condition(position, number, "=", key)
                return

    def _column(self, expression: tree.Expr) -> int:
        while (
            isinstance(expression, tree.RelabelType)
            and {plain(expression.type.oid), expression.argument.type.oid} <= VARYING_TEXTS
        ):
            expression = expression.argument
        if isinstance(expression, tree.Var) and expression.relation == self.relation and expression.levels_up == 0:
            return expression.column
        return 0

    def _usable(self, operand: tree.Expr) -> bool:
        if type(operand) is tree.Param or type(operand) is tree.Const:
            return True
        return relations_of(operand) <= self.bound and not is_volatile(operand)


KEYS_KEPT = 512
_keys: dict[int, tuple[Table, tuple[KeyColumn, ...]]] = {}


def key_columns(table: Table) -> tuple[KeyColumn, ...]:
    """The columns of the table's own key; () if rows have a hidden row number. Cached, because every planned statement
    needs them."""
    known = _keys.get(id(table))
    if known is None or known[0] is not table:
        if len(_keys) >= KEYS_KEPT:
            _keys.clear()
        columns = tuple(KeyColumn(number, table.column_by_number(number).type, False) for number in table.key_columns)
        known = _keys[id(table)] = (table, columns)
    return known[1]


def index_columns(catalog: Catalog, table: Table, index: Index) -> tuple[KeyColumn, ...]:
    found = []
    for item in index.columns:
        if item.number:
            column = table.column_by_number(item.number)
            found.append(KeyColumn(item.number, key_type(catalog, column.type, item.collation), not column.not_null))
        else:
            found.append(KeyColumn(0, key_type(catalog, item.type, item.collation), True))
    return tuple(found)


def usable(catalog: Catalog, index: Index) -> bool:
    """Whether scans may use it: it is complete, has all rows, is not the table's own key again, and has the order of
    this machine's ICU."""
    whole = index.ready and index.is_tree and index.predicate is None and not index.primary
    return whole and is_current(catalog, index)


def fixed_size(type_: TypeRef) -> bool:
    """Whether the type's key bytes always have one length, so that keys are never cut."""
    return lookup(type_.oid).storage.is_fixed


def _same_key(column: int, operand: int) -> bool:
    """Whether values of the operand's type can be searched among the column's keys (the same btree family)."""
    if lookup(column).key_encoder() is None:
        return False
    operand = plain(operand)
    return column == operand or {column, operand} <= INTEGERS or {column, operand} <= VARYING_TEXTS


def order_served(access: Access, relation: int, order_by: Sequence[tree.SortClause]) -> bool | None:
    """Whether the scan returns the rows in the wanted order: False forward, True backward, None not at all."""
    fixed = {step.column for step in access.steps if step.kind in ("=", "null")}
    keys = [column for column in access.columns if column.number not in fixed]
    direction: bool | None = None
    position = 0
    for clause in order_by:
        variable = clause.expression
        wanted = rules_of(variable.type.oid)
        while isinstance(variable, tree.RelabelType) and (
            {plain(variable.type.oid), variable.argument.type.oid} <= VARYING_TEXTS or wanted is not None
        ):
            variable = variable.argument
        if not (isinstance(variable, tree.Var) and variable.relation == relation and variable.levels_up == 0):
            return None
        if variable.column in fixed:
            continue
        if position == len(keys):
            # The table's own key is complete: no two rows are equal in it.
            return bool(direction) if access.index is None and access.columns else None
        key = keys[position]
        if rules_of(key.type.oid) != wanted and plain(key.type.oid) in COLLATABLE:
            return None
        if key.number != variable.column or (key.nullable and clause.nulls_first != clause.descending):
            return None
        if direction is None:
            direction = clause.descending
        elif direction != clause.descending:
            return None
        position += 1
    return bool(direction)
