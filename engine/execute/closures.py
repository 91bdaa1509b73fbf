"""Expressions of the analysed tree as Python functions of a row, composed of existing functions.

    a + b * 2        add(row[0], multiply(row[1], 2))       where `add` and `multiply` were compiled once

For plans that run once over a few rows: each node costs a function call, where the code of
engine/execute/expressions.py has one expression, but nothing is compiled. Both have the same meaning: the expressions
that are evaluated, their order, and the three kinds of conditions (a value, TRUE or not, FALSE or not). Nodes without a
function here raise NotOnRowPath. So do nodes whose value may be large, so that this module needs no memory accounting.

A row is a tuple: the statement's parameters, then the columns. A node is a `Part`: a place in the row, a constant, or a
function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any, cast

from catalog.errors import SqlError
from catalog.functions.base import Function
from catalog.functions.registry import implementation
from catalog.memory import size_of
from catalog.patience import TooLong, fold, is_watched
from catalog.types.base import Array, TypeRef
from catalog.types.oid import bits_kept
from catalog.types.oids import BOOL, BYTEA, SMALL, TEXTS
from engine.execute.code import NotOnRowPath
from engine.execute.measured import is_slow, may_last
from engine.execute.members import FEWEST, hash_key, members_of
from engine.execute.python_sides import python_side
from engine.sql import tree
from engine.sql.folding import Folding

Row = tuple[Any, ...]
Closure = Callable[[Row], Any]
Part = tuple[str, Any]  # PLACE, CONSTANT or CALL, and its position, value or function

PLACE, CONSTANT, CALL = "p", "c", "f"
NULL: Part = (CONSTANT, None)
# Results of calls that are never large, nor made of names, rows or arrays.
_SCALARS = SMALL | TEXTS | {BYTEA}
_PLAIN = frozenset((int, bool, float, type(None)))
_BOOL = TypeRef(BOOL)


class Closures:
    """Makes the functions for one kind of row, whose columns `place` locates."""

    def __init__(self, literals: int = 0) -> None:
        self.folding = Folding(literals)
        self.may_last = False  # a part may take long with long values
        self._tested: list[list[Any]] = []  # values of CASE, for its conditions

    def place(self, item: tree.Var) -> int:
        """The position of a column. Raises NotOnRowPath."""
        raise NotImplementedError

    def function(self, expression: tree.Expr) -> Closure:
        """A function that returns the value of an expression."""
        return close_part(self.part(expression))

    def part(self, expression: tree.Expr) -> Part:
        """The Part of an expression, for use in the node above it."""
        method = _PARTS.get(type(expression))
        if method is None:
            raise NotOnRowPath(type(expression).__name__)
        return method(self, expression)

    def true(self, expression: tree.Expr) -> Closure:
        """A function whose result is truthy exactly when the condition is TRUE."""
        if isinstance(expression, tree.BoolExpr):
            if expression.operator == "not":
                return self.false(expression.arguments[0])
            return _join(expression.operator, [self.true(item) for item in expression.arguments])
        return self.function(expression)

    def false(self, expression: tree.Expr) -> Closure:
        """A function whose result is truthy exactly when the condition is FALSE."""
        if isinstance(expression, tree.BoolExpr):
            if expression.operator == "not":
                return self.true(expression.arguments[0])
            other = "or" if expression.operator == "and" else "and"
            return _join(other, [self.false(item) for item in expression.arguments])
        value = self.function(expression)
        return lambda row: value(row) is False

    # ---- leaves -----------------------------------------------------------------------------------------------------

    def _const(self, expression: tree.Const) -> Part:
        value = expression.value
        if type(value) not in _PLAIN and size_of(value):
            raise NotOnRowPath("a large constant")
        return CONSTANT, value

    def _param(self, expression: tree.Param) -> Part:
        return PLACE, expression.number - 1

    def _var(self, expression: tree.Var) -> Part:
        return PLACE, self.place(expression)

    def _relabel(self, expression: tree.RelabelType) -> Part:
        part = self.part(expression.argument)
        kept = bits_kept(expression.argument.type.oid, expression.type.oid)
        if kept is None:
            return part
        if part[0] == CONSTANT:
            return CONSTANT, None if part[1] is None else kept(part[1])
        return CALL, _maker(part[0], "", True)(kept, part[1])

    def _case_test(self, expression: tree.CaseTestExpr) -> Part:
        held = self._tested[-1]
        return CALL, lambda row: held[0]

    # ---- calls ------------------------------------------------------------------------------------------------------

    def _function(self, expression: tree.FuncExpr) -> Part:
        function = expression.function
        if function.returns_set or function.kind != "f" or function.volatility == "v":
            raise NotOnRowPath(f"function {function.name}")
        if expression.type.oid not in SMALL or is_slow(function):
            raise NotOnRowPath(f"function {function.name}, whose result may be large")
        parts = [self.part(argument) for argument in expression.arguments]
        types = [argument.type for argument in expression.arguments]
        call = make_call(function, parts, types, expression.type)
        self.may_last = self.may_last or may_last(types, expression.type)
        before = self.folding.before_others(expression) if function.strict and call is not NULL else ()
        if not before:
            return call
        value, constants = close_part(call), [self.function(part) for part, _ in before]

        def unless_null(row: Row) -> Any:
            return None if None in [constant(row) for constant in constants] else value(row)

        return CALL, unless_null

    def _array_operation(self, expression: tree.ScalarArrayOp) -> Part:
        right = expression.right
        if not isinstance(right, tree.ArrayExpr) or right.nested or not expression.function.strict:
            raise NotOnRowPath("ANY of an array")
        left = self.function(expression.left)
        if len(right.elements) >= FEWEST:
            can_hash, key = hash_key(expression, right.element_type.oid)
            values = [element.value for element in right.elements if isinstance(element, tree.Const)]
            if not can_hash or len(values) < len(right.elements):
                raise NotOnRowPath("ANY of a long array")
            among = members_of(Array.of(tuple(values)), key, not expression.use_or)
            return CALL, lambda row: among(left(row))
        elements = [self.function(element) for element in right.elements]
        compare = _comparison(expression.function, expression.left.type, right.element_type)
        return CALL, _among(compare, left, elements, expression.use_or)

    def _null_if(self, expression: tree.NullIfExpr) -> Part:
        left, right = self.function(expression.left), self.function(expression.right)
        if not expression.function.strict:
            raise NotOnRowPath("NULLIF with an operator that is not strict")
        equal = _comparison(expression.function, expression.left.type, expression.right.type)

        def null_if(row: Row) -> Any:
            value, other = left(row), right(row)
            return value if value is None or other is None or not equal(value, other) else None

        return CALL, null_if

    # ---- logic ------------------------------------------------------------------------------------------------------

    def _bool(self, expression: tree.BoolExpr) -> Part:
        values = [self.function(item) for item in expression.arguments]
        if expression.operator == "not":
            (value,) = values
            return CALL, lambda row: None if (found := value(row)) is None else not found
        decisive = expression.operator == "or"

        def combined(row: Row) -> bool | None:
            unknown = False
            for value in values:
                found: bool | None = value(row)
                if found is decisive:
                    return found
                if found is None:
                    unknown = True
            return None if unknown else not decisive

        return CALL, combined

    def _null_test(self, expression: tree.NullTest) -> Part:
        if expression.argument.type.oid not in _SCALARS:
            raise NotOnRowPath("IS NULL of what may be a row")
        value, is_null = self.function(expression.argument), expression.is_null
        return CALL, lambda row: (value(row) is None) is is_null

    def _coalesce(self, expression: tree.CoalesceExpr) -> Part:
        values = [self.function(item) for item in expression.arguments]

        def first(row: Row) -> Any:
            for value in values:
                if (found := value(row)) is not None:
                    return found
            return None

        return CALL, first

    def _case(self, expression: tree.CaseExpr) -> Part:
        held: list[Any] = [None]
        argument = None
        if expression.argument is not None:
            argument = self.function(expression.argument)
            self._tested.append(held)
        try:
            whens = [(self.true(condition), self.function(result)) for condition, result in expression.whens]
            last = self.function(expression.default)
        finally:
            if argument is not None:
                self._tested.pop()

        def case(row: Row) -> Any:
            if argument is not None:
                held[0] = argument(row)
            for condition, result in whens:
                if condition(row):
                    return result(row)
            return last(row)

        return CALL, case


def make_call(function: Function, parts: Sequence[Part], types: Sequence[TypeRef], result: TypeRef) -> Part:
    """A call of a function."""
    found = implementation(function.source)
    template = None if found is None else found.python_source
    if template == "{0}" and function.strict:
        return parts[0]
    if function.strict and NULL in parts:
        return NULL
    kinds = "".join([kind for kind, _ in parts])
    python: Callable[..., object] | None = None
    if template is None:
        python, needs_context = python_side(function, types, result)
        if needs_context:
            raise NotOnRowPath(f"function {function.name}, which asks the session")
        made = _maker(kinds, "", function.strict)
    else:
        made = _maker(kinds, function.source, function.strict)
    call = made(python, *[payload for _, payload in parts])
    constant = function.volatility == "i" and PLACE not in kinds and CALL not in kinds
    if constant and (is_watched() or not may_last(types, result)):
        try:
            return CONSTANT, fold(call, ((),))
        except (SqlError, TooLong, RecursionError):
            pass  # it fails, or takes long, when (and if) it runs
    return CALL, call


@lru_cache(4096)
def _maker(kinds: str, source: str, strict: bool) -> Callable[..., Closure]:
    """The maker of call functions, from the Python side and the kind of each argument. `source`: of a function whose
    Python side is inlined (Implementation.python_source); '' for any other."""
    names: dict[str, Any] = {}
    values = [f"a{n}" if kind == CONSTANT else f"x{n}" for n, kind in enumerate(kinds)]
    body = f"f({', '.join(values)})"
    if source:
        found = implementation(source)
        assert found is not None and found.python_source is not None
        names.update(found.python_names)
        body = found.python_source.format(*values)
    lines = [f"def make(f, {', '.join(f'a{n}' for n in range(len(kinds)))}):", "    def call(row):"]
    for n, kind in enumerate(kinds):
        if kind != CONSTANT:
            lines.append(f"        x{n} = {f'row[a{n}]' if kind == PLACE else f'a{n}(row)'}")
    tests = [f"x{n} is None" for n, kind in enumerate(kinds) if kind != CONSTANT]
    if strict and tests:
        lines.append(f"        if {' or '.join(tests)}: return None")
    lines += [f"        return {body}", "    return call"]
    exec("\n".join(lines), names)
    return cast("Callable[..., Closure]", names["make"])


def close_part(part: Part) -> Closure:
    """The function of a part."""
    kind, payload = part
    if kind == PLACE:
        return itemgetter(payload)
    if kind == CONSTANT:
        return lambda row: payload
    return cast(Closure, payload)


def row_of(parts: Sequence[Part]) -> Callable[[Row], Row]:
    """A function that returns a tuple of these parts."""
    kinds = "".join([kind for kind, _ in parts])
    if kinds == PLACE * len(kinds) and len(kinds) > 1:
        return itemgetter(*[position for _, position in parts])
    return _tuple_maker(kinds)(*[payload for _, payload in parts])


@lru_cache(1024)
def _tuple_maker(kinds: str) -> Callable[..., Callable[[Row], Row]]:
    forms = {PLACE: "row[a{}]", CONSTANT: "a{}", CALL: "a{}(row)"}
    given = ", ".join(f"a{n}" for n in range(len(kinds)))
    items = "".join(forms[kind].format(n) + ", " for n, kind in enumerate(kinds))
    names: dict[str, Any] = {}
    exec(f"def make({given}):\n    return lambda row: ({items})", names)
    return cast("Callable[..., Callable[[Row], Row]]", names["make"])


def _comparison(function: Function, left: TypeRef, right: TypeRef) -> Callable[[Any, Any], Any]:
    """A comparison of two values."""
    python, needs_context = python_side(function, (left, right), _BOOL)
    if needs_context or is_slow(function):
        raise NotOnRowPath(f"function {function.name} among many values")
    return python


def _join(operator: str, tests: list[Closure]) -> Closure:
    if len(tests) == 2:
        first, second = tests
        if operator == "and":
            return lambda row: first(row) and second(row)
        return lambda row: first(row) or second(row)
    if operator == "and":

        def every(row: Row) -> bool:
            for test in tests:  # noqa: SIM110 - a generator for each row costs more than the tests
                if not test(row):
                    return False
            return True

        return every

    def some(row: Row) -> bool:
        for test in tests:  # noqa: SIM110
            if test(row):
                return True
        return False

    return some


def _among(compare: Callable[[Any, Any], Any], left: Closure, elements: list[Closure], decisive: bool) -> Closure:
    """Compares with each element until one decides: ANY by being true (`decisive`), ALL by being false. All elements
    are computed before, because one may fail."""

    def among(row: Row) -> bool | None:
        value = left(row)
        unknown = False
        for other in [element(row) for element in elements]:
            found = None if value is None or other is None else compare(value, other)
            if found is None:
                unknown = True
            elif bool(found) is decisive:
                return decisive
        return None if unknown else not decisive

    return among


_PARTS: dict[type, Callable[[Closures, Any], Part]] = {
    tree.Const: Closures._const,
    tree.Param: Closures._param,
    tree.Var: Closures._var,
    tree.RelabelType: Closures._relabel,
    tree.CaseTestExpr: Closures._case_test,
    tree.FuncExpr: Closures._function,
    tree.ScalarArrayOp: Closures._array_operation,
    tree.NullIfExpr: Closures._null_if,
    tree.BoolExpr: Closures._bool,
    tree.NullTest: Closures._null_test,
    tree.CoalesceExpr: Closures._coalesce,
    tree.CaseExpr: Closures._case,
}
