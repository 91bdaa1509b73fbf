"""Constants that PostgreSQL computes during planning, if they fail or keep another expression from failing
(eval_const_expressions).

    CASE WHEN id = 1 THEN 1 / 0 ELSE 0 END      22012, for any rows: 1 / 0 is computed before the first
    CASE WHEN true THEN 1 ELSE max(1 / 0) END   1: expressions that a constant condition excludes are not computed
    coalesce(-22, count(45 / 0))                -22, likewise

The values of parameters, including lifted literals, are known when an execution begins. So planning searches constant
calls that may fail, and makes a function that each execution runs first (`fails_first`). Most statements have no such
call. Aggregates and sub-queries are computed before the expressions around them: if a constant excludes them, planning
removes them (`without_unreached`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, NoReturn

from catalog.errors import SqlError, not_supported
from catalog.functions.base import Trait
from catalog.functions.registry import has_trait
from catalog.patience import FIRST, TooLong, fold
from catalog.types.base import FormatSettings, TypeRef
from catalog.types.oids import BOOL, FIXED_SIZE, FLOATS, INTEGERS, NUMERIC, TEXTS
from engine.execute.code import NotOnRowPath
from engine.execute.context import ExecContext, small_values
from engine.execute.expressions import compile_expression, constant_value
from engine.sql import tree
from engine.sql.folding import Folding
from engine.sql.implication import Provided, hold
from engine.sql.tree_walk import children, inner_nodes, substitute, transform, walk, walk_with_depth

Check = Callable[[ExecContext, Sequence[object]], object]

_CONDITIONALS = (tree.CaseExpr, tree.CoalesceExpr, tree.BoolExpr)
_EAGER = (tree.Aggref, tree.WindowFunc, tree.SubLink)
_FOLDED = (
    tree.RelabelType, tree.CoerceTypmod, tree.BoolExpr, tree.CaseExpr, tree.CoalesceExpr, tree.MinMaxExpr,
    tree.NullTest, tree.BooleanTest, tree.ArrayExpr, tree.SubscriptingRef, tree.RowExpr, tree.FieldSelect,
)  # fmt: skip
_OF_PLAIN_CALLS = (tree.FuncExpr, tree.RelabelType, tree.CoerceTypmod, tree.CoerceViaIO)
_OF_ONE_FUNCTION = (tree.FuncExpr, tree.NullIfExpr, tree.DistinctExpr, tree.ScalarArrayOp)
_FAILING_CASTS = frozenset((tree.CoerceTypmod, tree.CoerceViaIO))
_COMPARISONS = frozenset(("=", "<>", "<", "<=", ">", ">="))
# Types whose text forms depend only on the value.
_TEXT_FORMS = INTEGERS | FLOATS | TEXTS | {BOOL, NUMERIC}
_BOOL = TypeRef(BOOL)


def has_failing(analyzed: tree.Analyzed) -> bool:
    """Whether there is a constant call that may fail: otherwise the next two functions have nothing to do. It runs for
    every statement, and most calls have a column among their arguments."""
    holds = _Constants().holds
    for item in inner_nodes(analyzed.statement):
        if type(item) is tree.FuncExpr:
            for argument in item.arguments:
                if type(argument) is tree.Var:
                    break
            else:
                if _fails(item) and holds(item, True):
                    return True
        elif type(item) in _FAILING_CASTS:
            if holds(item, True):
                return True
        elif type(item) is tree.OnConflict and item.provided:
            return True
    return False


def fails_first(analyzed: tree.Analyzed, settings: FormatSettings) -> Check | None:
    """The function that each execution runs first; None: there is none. It raises the errors of PostgreSQL's planner,
    and TooLong if that takes long: then the failure occurs when the expression is computed."""
    statement = analyzed.statement
    finder = _Finder(settings, analyzed.literals)
    found = finder.query(statement) if isinstance(statement, tree.Query) else finder.change(statement)
    if finder.is_small and len(found) == 1:
        return found[0]
    return _in_turn(found) if found else None


def _in_turn(checks: Sequence[Check]) -> Check:
    """Runs the checks over small values: with large ones a single step of C may take long."""

    def run(context: ExecContext, parameters: Sequence[object]) -> None:
        with small_values(context):
            for check in checks:
                check(context, parameters)

    FIRST.add(run.__code__)
    return run


def _arbiters_found(provided: Provided) -> Check:
    """Raises 42P10 if a parameter contradicts the predicate of a partial arbiter index."""

    def run(context: ExecContext, parameters: Sequence[object]) -> None:
        if not hold(provided, parameters):
            raise SqlError("42P10", tree.NO_ARBITER)

    FIRST.add(run.__code__)
    return run


def _choice(condition: Check, outcome: object, then: Sequence[Check], other: Sequence[Check]) -> Check:
    """Runs `then` if the condition has this outcome, and `other` if not."""

    def run(context: ExecContext, parameters: Sequence[object]) -> None:
        for check in then if condition(context, parameters) is outcome else other:
            check(context, parameters)

    FIRST.add(run.__code__)
    return run


class _Constants:
    """The expressions of a statement that the planner computes with known parameters."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, bool], tuple[object, bool]] = {}  # by the identity of the first

    def holds(self, node: object, tested: bool = False) -> bool:
        """Whether it is constant. `tested`: whether the operand of the CASE around it is constant."""
        kind = type(node)
        if kind is tree.Const or kind is tree.Param:
            return True
        if kind is tree.Var:
            return False
        known = self._known.get((id(node), tested))
        if known is None:
            known = self._known[id(node), tested] = (node, self._is_found(node, tested))
        return known[1]

    def _is_found(self, node: object, tested: bool) -> bool:
        if isinstance(node, tree.CaseTestExpr):
            return tested
        if isinstance(node, tree.CoerceViaIO):
            if not _TEXT_FORMS.issuperset((node.argument.type.oid, node.type.oid)):
                return False
        elif isinstance(node, _OF_ONE_FUNCTION):
            function = node.function
            if function.volatility != "i" or function.returns_set or function.kind != "f":
                return False
        elif not isinstance(node, _FOLDED):
            return False
        tested = tested or (isinstance(node, tree.CaseExpr) and node.argument is not None)
        for child in children(node):  # noqa: SIM110 - a generator for each call costs more than the question
            if not self.holds(child, tested):
                return False
        return True


def is_null(node: object) -> bool:
    """Whether the planner sees that it is NULL: a strict function with a constant NULL argument is."""
    if isinstance(node, tree.Const):
        return node.value is None
    if isinstance(node, tree.RelabelType | tree.CoerceTypmod):
        return is_null(node.argument)
    if not isinstance(node, tree.FuncExpr) or not node.function.strict or node.function.returns_set:
        return False
    return node.function.kind == "f" and any(is_null(argument) for argument in node.arguments)


def may_fail(node: object) -> bool:
    """Whether the computation of a constant expression may raise an error."""
    return any(map(_fails, inner_nodes(node)))


def _fails(node: Any) -> bool:
    """Whether it may raise an error if no part of it does."""
    kind = type(node)
    if kind is tree.FuncExpr:
        compares = node.operator is not None and node.operator.name in _COMPARISONS
        return not compares and not has_trait(node.function.source, Trait.NEVER_FAILS)
    return kind in _FAILING_CASTS


class _Finder:
    """Finds the constant calls of one statement that may fail."""

    def __init__(self, settings: FormatSettings, literals: int) -> None:
        self._settings = settings
        self._literals = literals
        self._folding = Folding(literals)
        self._is_constant = _Constants().holds
        self.is_small = True  # no value in what it has found can be large

    # ---- statements -------------------------------------------------------------------------------------------------

    def change(self, node: tree.Insert | tree.Update | tree.Delete | tree.Merge) -> list[Check]:
        """For INSERT without the rows of VALUES, which are computed anyway."""
        found: list[Check] = []
        if isinstance(node, tree.Insert) and node.on_conflict is not None and node.on_conflict.provided:
            found.append(_arbiters_found(node.on_conflict.provided))
        for name in ("assignments", "where", "source", "on_conflict", "condition", "actions", "returning"):
            value = getattr(node, name, None)
            for item in value if isinstance(value, tuple) else () if value is None else (value,):
                found += self._part(item)
        return [*found, *self._sources(node.range_table, node, node.ctes)]

    def query(self, node: tree.Query, used: Callable[[int], bool] | None = None) -> list[Check]:
        """`used`: whether the outer query uses an output column; unused ones are not computed."""
        found: list[Check] = []
        number = 0
        if node.distinct is not None or used is None or node.set_operation is not None:
            used = _any_column
        for target in node.targets:
            number += not target.junk
            if target.junk or used(number):
                found += self.checks(target.expression)
        for name in ("from_items", "where", "group_by", "having", "windows", "order_by", "limit", "offset"):
            value = getattr(node, name)
            for item in value if isinstance(value, tuple) else () if value is None else (value,):
                found += self._part(item)
        return [*found, *self._sources(node.range_table, node, node.ctes)]

    def _sources(self, entries: Iterable[tree.RangeEntry], around: Any, ctes: tuple[tree.Cte, ...]) -> list[Check]:
        found: list[Check] = []
        for place, entry in enumerate(entries):
            if isinstance(entry, tree.RangeSubquery):
                found += self.query(entry.query, _columns_used(around, place))
            elif isinstance(entry, tree.RangeFunction):
                found += self._all(entry.functions)
            elif isinstance(entry, tree.RangeValues):
                for row in entry.rows:
                    found += self._all(row)
        if ctes:
            asked = {item.name for item in walk(around) if isinstance(item, tree.RangeCte)}
            for cte in ctes:
                if not isinstance(cte.query, tree.Query):
                    found += self.change(cte.query)
                elif cte.name in asked:
                    found += self.query(cte.query)
        return found

    def _part(self, item: Any) -> list[Check]:
        if isinstance(item, tree.Assignment):
            value = item.expression
            if isinstance(value, tree.CoerceTypmod) and isinstance(value.argument, tree.Const | tree.Param):
                return []  # the most frequent case; it fails at the first row that changes
        return self.checks(item)

    # ---- expressions ------------------------------------------------------------------------------------------------

    def _all(self, nodes: Iterable[object]) -> list[Check]:
        return [check for node in nodes for check in self.checks(node)]

    def checks(self, node: Any) -> list[Check]:
        """The computed parts of an expression, in order."""
        if isinstance(node, tree.Const | tree.Param | tree.Var):
            return []
        if isinstance(node, tree.Query):
            return self.query(node)
        if isinstance(node, tree.SubLink) and node.kind == "exists" and not node.query.has_aggregates:
            return self.query(node.query, _no_column)
        if isinstance(node, tree.CaseExpr):
            return self._case(node)
        if isinstance(node, tree.CoalesceExpr):
            return self._coalesce(node)
        if isinstance(node, tree.BoolExpr) and node.operator != "not":
            return self._connect(node)
        if not self._is_constant(node):
            return self._all(children(node))
        if not may_fail(node):
            return []
        return [*self._beside_null(node), *self._compute(node)]

    def _beside_null(self, node: tree.Expr) -> list[Check]:
        """The parts that are computed before a constant expression, which itself skips arguments beside a NULL. Each
        part is searched once, however deep it is."""
        if not isinstance(node, _OF_PLAIN_CALLS):
            return self._all(children(node))
        found: list[Check] = []
        inside: list[Any] = [node]
        while inside:
            item = inside.pop()
            if not isinstance(item, _OF_PLAIN_CALLS):
                found = [*self.checks(item), *found]
                continue
            arguments: list[Any] = list(children(item))
            doubtful = [place for place, one in enumerate(arguments) if not self._folding.is_never_null(one)]
            for place, argument in enumerate(arguments):
                if doubtful in ([], [place]):
                    inside.append(argument)
                else:
                    found = [*found, *self.checks(argument)]
        return found

    def _compute(self, node: tree.Expr) -> list[Check]:
        if not may_fail(node):
            return []
        try:
            if _without_parameters(node) and constant_value(node) is not None:
                return []
        except NotOnRowPath:  # unknown before the execution
            return []
        check = self._function(node)
        return [] if check is None else [check]

    def _function(self, node: tree.Expr) -> Check | None:
        self.is_small &= all(getattr(item, "type", _BOOL).oid in FIXED_SIZE for item in walk(node))
        try:
            return compile_expression(node, self._settings)
        except NotOnRowPath:
            return None

    def _case(self, node: tree.CaseExpr) -> list[Check]:
        argument = node.argument
        before = [] if argument is None else self.checks(argument)
        if argument is not None and is_null(argument):
            argument = tree.Const(None, argument.type)
        found = self.checks(node.default)
        for condition, result in reversed(node.whens):
            test = condition
            if argument is not None and self._is_constant(argument):
                test = _with_argument(condition, argument)
            if is_null(test):
                found = [*self.checks(test), *found]
            elif self._is_constant(test):
                found = [*self.checks(test), *self._choose(test, True, self.checks(result), found)]
            else:
                found = [*self.checks(test), *self.checks(result), *found]
        return [*before, *found]

    def _coalesce(self, node: tree.CoalesceExpr) -> list[Check]:
        found: list[Check] = []
        for argument in reversed(node.arguments):
            if self._folding.is_never_null(argument):
                found = []
            elif self._is_constant(argument) and not is_null(argument):
                found = self._choose(tree.NullTest(argument, True), True, found, [])
            found = [*self.checks(argument), *found]
        return found

    def _connect(self, node: tree.BoolExpr) -> list[Check]:
        found: list[Check] = []
        for argument in reversed(node.arguments):
            if self._is_constant(argument) and not is_null(argument):
                found = self._choose(argument, node.operator == "or", [], found)
            found = [*self.checks(argument), *found]
        return found

    def _choose(self, test: tree.Expr, outcome: bool, then: list[Check], other: list[Check]) -> list[Check]:
        if not then and not other:
            return []
        if self._literals and not _without_parameters(test):
            refuse_template()
        condition = self._function(test)
        return [] if condition is None else [_choice(condition, outcome, then, other)]


def refuse_template() -> NoReturn:
    """Lifted literals decide what is computed: they must be known when the statement is planned."""
    not_supported("a template whose literals decide what is computed")


def _no_column(number: int) -> bool:
    return False


def _any_column(number: int) -> bool:
    return True


def _columns_used(around: Any, place: int) -> Callable[[int], bool] | None:
    """The columns of a sub-query in FROM that the outer query uses; None for all."""
    if isinstance(around, tree.Query) and around.set_operation is not None:
        return None
    asked: set[int] = set()
    seen = replace(
        around, range_table=tuple(item for item in around.range_table if not isinstance(item, tree.RangeJoin))
    )
    for item, depth in walk_with_depth(seen):
        if isinstance(item, tree.Var) and item.relation == place and item.levels_up + 1 == depth:
            asked.add(item.column)
    return None if 0 in asked else asked.__contains__


def _with_argument(condition: tree.Expr, argument: tree.Expr) -> tree.Expr:
    """A condition of CASE with the constant that it tests in it."""
    return substitute(condition, lambda item, depth: argument if isinstance(item, tree.CaseTestExpr) else None)


def _without_parameters(node: object) -> bool:
    return not any(isinstance(item, tree.Param) for item in walk(node))


# ---- removal of excluded expressions --------------------------------------------------------------------------------


def without_unreached(analyzed: tree.Analyzed, context: Callable[[], ExecContext]) -> tree.Analyzed:
    """The statement without expressions that a constant excludes, if those could fail. Raises 0A000 if this depends on
    literals that were lifted out of the text; with the literals in place it does not. `context`: for computations at
    planning."""
    if not any(isinstance(item, _CONDITIONALS) for item in walk(analyzed.statement)):
        return analyzed
    reach = _Reach(analyzed.literals, context)
    return replace(analyzed, statement=transform(analyzed.statement, reach.change))


class _Reach:
    """The rest of an expression when its constants are known."""

    def __init__(self, literals: int, context: Callable[[], ExecContext]) -> None:
        self._literals = literals
        self._context = context
        self._folding = Folding(literals)
        self._is_constant = _Constants().holds

    def change(self, node: Any, depth: int) -> object:
        """For `transform`."""
        if isinstance(node, tree.CoalesceExpr):
            return self._coalesce(node)
        if isinstance(node, tree.CaseExpr):
            return self._case(node)
        if isinstance(node, tree.BoolExpr) and node.operator != "not":
            return self._connect(node)
        return node

    def _get_constant(self, test: tree.Expr, rest: Iterable[object]) -> tuple[object] | None:
        """The value of a condition, in a tuple; None if it depends on rows or parameters, or fails."""
        if is_null(test):
            return (None,) if not may_fail(test) else None
        if not self._is_constant(test):
            return None
        if not _without_parameters(test):
            if self._literals and any(_is_eager(node) for node in rest):
                refuse_template()
            return None
        try:
            context = self._context()
            context.stays = True
            with small_values(context):
                return (fold(compile_expression(test, context.format), (context, ())),)
        except (SqlError, TooLong, RecursionError, NotOnRowPath):
            return None  # a failure here occurs again at execution

    def _case(self, node: tree.CaseExpr) -> tree.Expr:
        whens = []
        default, argument = node.default, node.argument
        known_argument = argument is None or self._is_constant(argument) or is_null(argument)
        if argument is not None and is_null(argument) and not may_fail(argument):
            argument = tree.Const(None, argument.type)
        for place, (condition, result) in enumerate(node.whens):
            test = condition if argument is None else _with_argument(condition, argument)
            later = chain((result,), chain.from_iterable(node.whens[place + 1 :]), (node.default,))
            known = self._get_constant(test, later) if known_argument else None
            if known is None:
                whens.append((condition, result))
            elif known[0] is True:
                default = result
                break
        return replace(node, whens=tuple(whens), default=default) if whens else default

    def _coalesce(self, node: tree.CoalesceExpr) -> tree.Expr:
        kept: list[tree.Expr] = []
        for argument in node.arguments:
            if isinstance(argument, tree.Const) and argument.value is None:
                continue
            kept.append(argument)
            if self._folding.is_never_null(argument):
                break
        if not kept:
            return tree.Const(None, node.type)
        return kept[0] if len(kept) == 1 else replace(node, arguments=tuple(kept))

    def _connect(self, node: tree.BoolExpr) -> tree.Expr:
        decides = node.operator == "or"
        kept: list[tree.Expr] = []
        for place, argument in enumerate(node.arguments):
            known = self._get_constant(argument, node.arguments[place + 1 :])
            if known is None or known[0] is None:
                kept.append(argument)
            elif known[0] is decides:
                kept.append(tree.Const(decides, _BOOL))
                break
        if not kept:
            return tree.Const(not decides, _BOOL)
        return kept[0] if len(kept) == 1 else replace(node, arguments=tuple(kept))


def _is_eager(node: object) -> bool:
    return any(isinstance(item, _EAGER) for item in walk(node))
