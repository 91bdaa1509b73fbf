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

A column of an index may be an expression, lower(email). It is found in a condition as a column is, by its structure
(engine/execute/index_forms.py). A partial index is a path if the conditions imply its predicate
(engine/sql/implication.py). Where that depends on a parameter ("props ->> $1" on an index on props ->> 'name'), the
path is *provided* that the parameter has a certain value: see engine/execute/variants.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field, replace

from catalog.catalog import Catalog
from catalog.functions.patterns import is_like
from catalog.functions.system_columns import CTID_OF_NUMBER, NUMBER_OF_CTID
from catalog.records import dataclass
from catalog.schema import Index, Table
from catalog.types import element_of, lookup
from catalog.types.base import TypeRef
from catalog.types.collated import Rules, rules_of
from catalog.types.collated_oids import plain
from catalog.types.oids import BOOL, COLLATABLE, INT8, INTEGERS, VARYING_TEXTS
from engine.execute.index_forms import (
    FIRST_EXPRESSION,
    NO_FORMS,
    IndexForms,
    KeyColumn,
    forms_of,
    plain_column,
    usable,
)
from engine.sql import tree
from engine.sql.implication import PREFIX, Provided, begins_with_text, find_implication, is_row, same
from engine.sql.tree_walk import is_volatile, relations_of

_NO_COLUMN: tuple[int, Provided] = (0, ())
_NOTHING: frozenset[int] = frozenset()
_MIRROR = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True, slots=True)
class Condition:
    """A conjunct that restricts one column: kind is one of = < <= > >= in null; `like`, both ends of a range; or
    `not null` at the end of a range."""

    conjunct: int  # its position among the conjuncts
    column: int  # or the number of an index's expression
    kind: str
    operand: tree.Expr | None  # for `in`: an array; for `like`: the pattern
    rules: Rules | None = None  # of the ICU collation that it compares under
    provided: Provided = ()  # comparisons of parameters under which it restricts the column


@dataclass(frozen=True, slots=True)
class Access:
    """The way to the rows of one table. `index` None: by the table's own key.

    `covered` are the conjuncts that every row found meets. `single`: at most one row. `provided`: the comparisons of
    parameters under which it finds all rows. `partial`: the index has a predicate. `exact`: texts are covered, so a key
    that storage would cut cannot be searched.
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
    provided: Provided = ()
    partial: bool = False
    exact: bool = False

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """All conditions in use, in key order: EXPLAIN's Index Cond."""
        bounds = (self.lower, self.upper if self.upper is not self.lower else None)
        return (*self.steps, *(bound for bound in bounds if bound is not None))

    @property
    def full_scan(self) -> bool:
        return not (self.conditions or self.cursor or self.partial)

    @property
    def rank(self) -> tuple[int, ...]:
        """Larger is better. Among equals the table's own key wins, because it saves the second look-up."""
        equal = sum(step.kind != "in" for step in self.steps)
        bounds = (self.lower is not None) + (self.upper is not None and self.upper.kind != "not null")
        return (self.single, len(self.steps), equal, bounds, self.partial, not self.provided, self.index is None)


def number_of(index: Index | None) -> int:
    """The OID of a path's index; 0 for the table's own key."""
    return 0 if index is None else index.oid


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
    without: frozenset[int] | None = None  # indexes (OIDs) that parameters exclude; None: paths are for all parameters
    exact: bool = False  # `Access.exact` is possible
    forms: IndexForms = NO_FORMS
    given: Sequence[tree.Expr] = ()

    def add(self, conjuncts: Sequence[tree.Expr]) -> None:
        """Takes the conjuncts that it can use; positions are those in `conjuncts`."""
        self.forms, self.given = forms_of(self.catalog, self.table), conjuncts
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
            if self.forms is not NO_FORMS:
                if (path := self._special(index, ordered)) is not None:
                    yield path
            elif usable(self.catalog, index) and (ordered or index.columns[0].number in self.conditions):
                yield self._path(index, index_columns(self.catalog, self.table, index), index.unique)

    def _special(self, index: Index, ordered: bool) -> Access | None:
        """The path by an index of a table some of whose indexes are on expressions or partial."""
        columns = self.forms.columns.get(index.oid)
        if columns is None:
            return None
        predicate = self.forms.predicates.get(index.oid)
        if predicate is None:
            path = self._path(index, columns, index.unique) if ordered or columns[0].number in self.conditions else None
        else:
            provided = find_implication(self.given, predicate, self.relation)
            if provided is None:
                return None
            path = self._path(index, columns, index.unique)
            path = replace(path, provided=path.provided + provided, partial=True)
        if path is None or not path.provided:
            return path
        return path if self._depends(index) else None

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
            found = [
                item
                for item in self.conditions.get(column.number, ())
                if column.takes(item.kind, item.rules) and (not item.provided or self._depends(index))
            ]
            step = next((c for kind in ("=", "null", "in") for c in found if c.kind == kind), None)
            if step is None:
                lower = next((c for c in found if c.kind in (">", ">=")), None)
                upper = next((c for c in found if c.kind in ("<", "<=")), None)
                if lower is None and upper is None:
                    lower = upper = next((c for c in found if c.kind == "like"), None)
                if upper is None and index is not None:
                    upper = next((c for c in found if c.kind == "not null"), None)
                break
            steps.append(step)
        used = [*steps, *(bound for bound in (lower, upper) if bound is not None)]
        single = unique and len(steps) == len(columns) > 0 and all(step.kind == "=" for step in steps)
        covered = frozenset(c.conjunct for c in used if fixed_size(self._type(c.column)))
        exact = frozenset(step.conjunct for step in steps if self._is_exact(step)) if self.exact else _NOTHING
        provided = tuple(item for condition in used for item in condition.provided)
        return Access(
            *(self.table, index, columns, tuple(steps), lower, upper, covered | exact, single),
            provided=provided,
            exact=bool(exact),
        )

    def _depends(self, index: Index | None) -> bool:
        """Whether the path by an index may be one for certain values of the parameters."""
        return self.without is not None and number_of(index) not in self.without

    def _is_exact(self, step: Condition) -> bool:
        """Whether the text of a step is that of the key: to compute an expression again would cost more than to look
        at the length of the key."""
        is_text = step.column <= FIRST_EXPRESSION and self._type(step.column).oid in VARYING_TEXTS
        return is_text and step.kind in ("=", "in") and step.rules is None

    def _type(self, number: int) -> TypeRef:
        if number <= FIRST_EXPRESSION:
            return self.forms.type_of(number)
        return self.table.column_by_number(number).type

    # ---- matching ---------------------------------------------------------------------------------------------------

    def _match(self, position: int, conjunct: tree.Expr) -> Iterator[Condition]:
        match conjunct:
            case tree.FuncExpr(operator=operator, arguments=(left, right)) if operator and operator.name in _MIRROR:
                for column, kind, operand in (
                    (left, operator.name, right),
                    (right, _MIRROR[operator.name], left),
                ):
                    number, provided = self._column(column)
                    if number and self._usable(operand) and _same_key(self._type(number).oid, operand.type.oid):
                        yield Condition(position, number, kind, operand, rules_of(operand.type.oid), provided)
                        return
                yield from self._by_ctid(position, conjunct)
            case tree.FuncExpr(function=function, arguments=(left, pattern)) if is_like(function):
                number, provided = self._column(left)
                if number and self._type(number).oid in VARYING_TEXTS and self._usable(pattern):
                    yield from self._by_pattern(position, number, pattern, provided)
            case tree.ScalarArrayOp(operator=operator, use_or=True, left=left, right=right) if operator.name == "=":
                number, provided = self._column(left)
                if isinstance(right, tree.ArrayExpr):
                    element = right.element_type.oid
                else:
                    element = element_of(right.type.oid)
                if number and self._usable(right) and _same_key(self._type(number).oid, element):
                    yield Condition(position, number, "in", right, rules_of(element), provided)
            case tree.NullTest(argument=argument, is_null=is_null) if not is_row(argument.type):
                number, provided = self._column(argument)
                if number and (number <= FIRST_EXPRESSION or not self.table.column_by_number(number).not_null):
                    yield Condition(position, number, "null" if is_null else "not null", None, provided=provided)
            case tree.BoolExpr(operator="or", arguments=arms):
                yield from self._by_arms(position, arms)
            case _ if conjunct.type.oid == BOOL:
                yield from self._by_truth(position, conjunct)

    def _by_arms(self, position: int, arms: Sequence[tree.Expr]) -> Iterator[Condition]:
        """a = 1 OR a = 2, as a list of values of one type."""
        found = [next(self._match(position, arm), None) for arm in arms]
        operands = [
            item.operand for item in found if item is not None and item.kind == "=" and item.operand is not None
        ]
        first = found[0]
        if first is None or len(operands) < len(arms) or any(item.type != operands[0].type for item in operands):
            return
        if all(item and (item.column, item.rules) == (first.column, first.rules) for item in found):
            element = operands[0].type
            if array := lookup(element.oid).array_oid:
                members = tree.ArrayExpr(tuple(operands), TypeRef(array), element)
                provided = tuple(item for condition in found if condition for item in condition.provided)
                yield Condition(position, first.column, "in", members, first.rules, provided)

    def _by_truth(self, position: int, conjunct: tree.Expr) -> Iterator[Condition]:
        """A boolean, or NOT of one."""
        negated = isinstance(conjunct, tree.BoolExpr) and conjunct.operator == "not"
        number, provided = self._column(conjunct.arguments[0] if negated else conjunct)  # type: ignore[union-attr]
        if number > 0 or number <= FIRST_EXPRESSION:
            yield Condition(position, number, "=", tree.Const(not negated, TypeRef(BOOL)), provided=provided)

    def _by_pattern(self, position: int, number: int, pattern: tree.Expr, provided: Provided) -> Iterator[Condition]:
        """LIKE of a pattern that begins with text. What a parameter begins with is known when the statement runs."""
        if isinstance(pattern, tree.Const) and not begins_with_text(pattern.value):
            return
        if isinstance(pattern, tree.Param):
            if self.without is None:
                return
            provided = (*provided, (pattern, PREFIX, tree.Const(None, pattern.type)))
        yield Condition(position, number, "like", pattern, provided=provided)

    def _by_ctid(self, position: int, conjunct: tree.FuncExpr) -> Iterator[Condition]:
        """ctid = operand, if ctid has the only column of the key."""
        left, right = conjunct.arguments
        for place, operand in ((left, right), (right, left)):
            if conjunct.function.source != "tideq" or not isinstance(place, tree.FuncExpr):
                continue
            number = self._column(place.arguments[0])[0] if place.function.oid == CTID_OF_NUMBER.oid else 0
            if number > 0 and self._usable(operand):
                key = tree.FuncExpr(NUMBER_OF_CTID, (operand,), TypeRef(INT8))
                yield Condition(position, number, "=", key)
                return

    def _column(self, expression: tree.Expr) -> tuple[int, Provided]:
        """The column that the expression is, or the number of the index's expression; 0 if it is none."""
        while (
            isinstance(expression, tree.RelabelType)
            and {plain(expression.type.oid), expression.argument.type.oid} <= VARYING_TEXTS
        ):
            if self.forms.expressions and (found := self._number_of(expression))[0]:
                return found
            expression = expression.argument
        if isinstance(expression, tree.Var):
            here = expression.relation == self.relation and expression.levels_up == 0
            return (expression.column if here else 0), ()
        return self._number_of(expression) if self.forms.expressions else _NO_COLUMN

    def _number_of(self, expression: tree.Expr) -> tuple[int, Provided]:
        return self.forms.number_of(expression, self.relation, self.without)

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
    return tuple([plain_column(catalog, table, index, place) for place in range(len(index.columns))])


def fixed_size(type_: TypeRef) -> bool:
    """Whether the type's key bytes always have one length, so that keys are never cut."""
    return lookup(type_.oid).storage.is_fixed


def _same_key(column: int, operand: int) -> bool:
    """Whether values of the operand's type can be searched among the column's keys (the same btree family)."""
    if lookup(column).key_encoder() is None:
        return False
    operand = plain(operand)
    return column == operand or {column, operand} <= INTEGERS or {column, operand} <= VARYING_TEXTS


@dataclass(frozen=True, slots=True)
class ScanOrder:
    """The order in which a scan returns the rows. `apart`: the NULLs of the first column without a step are visited
    "first" or "last", contrary to their place in the key."""

    reverse: bool
    apart: str = ""


def order_served(access: Access, relation: int, order_by: Sequence[tree.SortClause]) -> ScanOrder | None:
    """How the scan returns the rows in the wanted order; None if it cannot."""
    fixed = {step.column for step in access.steps if step.kind in ("=", "null")}
    keys = [column for column in access.columns if column.number not in fixed]
    ranged = access.lower or access.upper
    direction: bool | None = None
    apart = ""
    position = 0
    for clause in order_by:
        number = _sorted_column(access, relation, clause.expression)
        if number is None:
            return None
        if number in fixed:
            continue
        if position == len(keys):
            # The table's own key is complete: no two rows are equal in it.
            return ScanOrder(bool(direction), apart) if access.index is None and access.columns else None
        key = keys[position]
        if rules_of(key.type.oid) != rules_of(clause.expression.type.oid) and plain(key.type.oid) in COLLATABLE:
            return None
        if key.number != number or direction not in (None, clause.descending):
            return None
        if key.nullable and clause.nulls_first != clause.descending and (ranged is None or ranged.column != number):
            if position or len(access.steps) != len(fixed) or ranged is not None or access.index is None:
                return None
            apart = "first" if clause.nulls_first else "last"
        direction = clause.descending
        position += 1
    return ScanOrder(bool(direction), apart)


def _sorted_column(access: Access, relation: int, expression: tree.Expr) -> int | None:
    """The column, or the number of the index's expression, by which a clause of ORDER BY sorts; None if it is
    neither."""
    wanted = rules_of(expression.type.oid)
    while True:
        if isinstance(expression, tree.Var):
            here = expression.relation == relation and expression.levels_up == 0
            return expression.column if here else None
        for column in access.columns:
            if column.expression is not None and same(expression, column.expression, relation) == ():
                return column.number
        if not isinstance(expression, tree.RelabelType) or not (
            {plain(expression.type.oid), expression.argument.type.oid} <= VARYING_TEXTS or wanted is not None
        ):
            return None
        expression = expression.argument
