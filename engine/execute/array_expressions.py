"""Arrays, rows and their comparisons in compiled expressions: a part of expressions.py.

Each function returns the source of one kind of node; `compiler` compiles the expressions within it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from catalog.functions import registry
from catalog.functions.array_shapes import array_slice, build_array, subscript
from catalog.functions.array_slices import assign_slice
from catalog.functions.base import Function, Operator, Trait
from catalog.functions.comparison import python_operator
from catalog.functions.registry import has_trait
from catalog.types.base import Array, TypeRef
from catalog.types.oids import JSON_TYPES, NAME, RECORD, RECORDS
from engine.execute import operations
from engine.execute.code import NotOnRowPath
from engine.execute.compiled_value import Value
from engine.execute.python_sides import comparison, equality_of, same_equality
from engine.execute.records import known_type
from engine.sql import tree

if TYPE_CHECKING:
    from engine.execute.expressions import ExpressionCompiler

_ATOMS = (tree.Const, tree.Param, tree.Var)
_MANY_ELEMENTS = 32


def cannot_fail(expression: tree.Expr) -> bool:
    return isinstance(expression.argument if isinstance(expression, tree.RelabelType) else expression, _ATOMS)


def of_rows(types: Sequence[TypeRef]) -> bool:
    """Whether values of these types are rows of no declared type, or arrays of them: all of one kind."""
    return types[0].oid in RECORDS and all(type_.oid == types[0].oid for type_ in types)


def compares_rows(function: Function, types: Sequence[TypeRef]) -> bool:
    return has_trait(function.source, Trait.COMPARES_ROWS) and of_rows(types)


def _constant_members(expression: tree.ScalarArrayOp) -> frozenset[object] | None:
    """The items of IN or NOT IN over an array constant without NULLs, where membership is a look-up in a set."""
    array = expression.right.value if isinstance(expression.right, tree.Const) else None
    if not isinstance(array, Array) or expression.operator.name != ("=" if expression.use_or else "<>"):
        return None
    if not expression.function.strict or not same_equality(expression.left.type.oid, expression.operator.right):
        return None
    members = frozenset(array.elements)
    return members if members and None not in members else None


def array_operation(compiler: ExpressionCompiler, expression: tree.ScalarArrayOp, truth: bool = False) -> str:
    """The source of left operator ANY|ALL (array); with `truth` it need only be truthy when TRUE."""
    right = expression.right
    members = _constant_members(expression)
    if members is not None:
        word = f"{'in' if expression.use_or else 'not in'} {compiler.code.constant(members, 'set')}"
        found = compiler.value(expression.left)
        if not found.nullable:
            return f"({found.source} {word})"
        source, left = compiler.bind(found)
        return f"(None if {source} is None else {left.source} {word})"
    equality = expression.use_or and expression.operator.name == "=" and expression.function.strict
    if truth and equality and isinstance(right, tree.ArrayExpr) and not right.nested:
        if all(isinstance(element, tree.Const) for element in right.elements):
            members = frozenset(e.value for e in right.elements if isinstance(e, tree.Const) and e.value is not None)
            if same_equality(expression.left.type.oid, right.element_type.oid):
                return f"({compiler.value(expression.left).source} in {compiler.code.constant(members, 'set')})"
        elif 0 < len(right.elements) <= _MANY_ELEMENTS and all(map(cannot_fail, right.elements)):
            return _any_as_or(compiler, expression, right)  # others may fail, and all elements are computed
    element_type = right.element_type if isinstance(right, tree.ArrayExpr) else TypeRef(expression.operator.right)
    compare = _element_comparison(compiler, expression, element_type)
    if not expression.function.strict:
        raise NotOnRowPath("ANY with an operator that is not strict")
    loop = operations.any_of if expression.use_or else operations.all_of
    left, array = compiler.value(expression.left), compiler.value(right)
    return (
        f"{compiler.code.constant(loop, loop.__name__)}({compiler.code.constant(compare, 'compare')},"
        f" {left.source}, {array.source})"
    )


def _element_comparison(
    compiler: ExpressionCompiler, expression: tree.ScalarArrayOp, element: TypeRef
) -> Callable[[object, object], object]:
    if expression.function.source != "record_eq" or expression.left.type.oid != RECORD:
        return comparison(expression.function, expression.left.type, element)
    array = tree.ArrayExpr((expression.left,), expression.right.type, expression.left.type)
    known_type(tree.CoalesceExpr((array, expression.right), array.type), compiler.levels)  # rows of one type
    key = known_type(expression.left, compiler.levels).equality_key()
    assert key is not None
    return lambda left, right: key(left) == key(right)


def _any_as_or(compiler: ExpressionCompiler, expression: tree.ScalarArrayOp, right: tree.ArrayExpr) -> str:
    source, left = compiler.bind_name(expression.left)
    tests = []
    types = (expression.left.type, right.element_type)
    for element in right.elements:
        found = compiler.value(element)
        if found.source != "None":
            guard, atom = compiler.bind(found) if found.nullable else ("", found)
            call = compiler.comparison_call(expression.function, left, atom, types)
            tests.append(f"({guard} is not None and {call})" if guard else call)
    some = " or ".join(tests) or "False"
    return f"({source} is not None and ({some}))" if left.nullable else f"(({source},) and ({some}))"


def scalar_array_value(compiler: ExpressionCompiler, expression: tree.ScalarArrayOp) -> Value:
    return Value(array_operation(compiler, expression))


def array_value(compiler: ExpressionCompiler, expression: tree.ArrayExpr) -> Value:
    compiler.code.names["Array"] = Array
    if expression.nested:
        elements = "".join(f"{compiler.value(element).source}, " for element in expression.elements)
        return Value(f"{compiler.code.constant(build_array, 'build_array')}(({elements}))", nullable=False)
    if all(isinstance(element, tree.Const) for element in expression.elements):
        values = tuple(element.value for element in expression.elements if isinstance(element, tree.Const))
        return Value(compiler.code.constant(Array.of(values), "array"), nullable=False, atom=True)
    elements = "".join(f"{compiler.value(element).source}, " for element in expression.elements)
    return Value(f"Array(({elements}), ({len(expression.elements)},), (1,))", nullable=False)


def row_value(compiler: ExpressionCompiler, expression: tree.RowExpr) -> Value:
    return Value(f"({''.join(f'{compiler.value(element).source}, ' for element in expression.elements)})", False)


def row_comparison(compiler: ExpressionCompiler, expression: tree.RowCompare) -> Value:
    """(a, b) < (c, d): the first pair that differs decides, and a NULL before it makes the result NULL. Later pairs are
    not computed."""
    source = str(expression.kind in ("<=", ">="))
    pairs = zip(expression.operators, expression.functions, expression.left, expression.right, strict=True)
    for operator, function, left, right in reversed(list(pairs)):
        equal, compare = (
            compiler.code.constant(found, name)
            for found, name in zip(
                _field_comparison(compiler, operator, function, left, right), ("equal", "compare"), strict=True
            )
        )
        (one, first), (other, second) = compiler.bind_name(left), compiler.bind_name(right)
        fields = f"({first.source}, {second.source})"
        source = f"({source} if {equal}{fields} else bool({compare}{fields}))"
        computed = [text for text, value in ((one, first), (other, second)) if value.nullable or text != value.source]
        if computed:
            source = f"(None if {' | '.join(f'({text} is None)' for text in computed)} else {source})"
    return Value(source)


def _field_comparison(
    compiler: ExpressionCompiler, operator: Operator, function: Function, left: tree.Expr, right: tree.Expr
) -> tuple[Callable[[Any, Any], object], Callable[[Any, Any], object]]:
    """The equality of two fields, and their comparison."""
    types = (left.type, right.type)
    if not compares_rows(function, types):
        return equality_of(operator, *types), comparison(function, *types)
    key: Any = known_type(tree.CoalesceExpr((left, right), left.type), compiler.levels).sort_key()
    compare = python_operator(registry.comparison(function.source))
    return lambda one, other: key(one) == key(other), lambda one, other: compare(key(one), key(other))


def field_value(compiler: ExpressionCompiler, expression: tree.FieldSelect) -> Value:
    source, atom = compiler.bind_name(expression.argument)
    if source == "None":
        return atom
    if not atom.nullable:
        return Value(f"{source}[{expression.field - 1}]")
    return Value(f"(None if {source} is None else {atom.source}[{expression.field - 1}])")


def subscript_value(compiler: ExpressionCompiler, expression: tree.SubscriptingRef) -> Value:
    if expression.argument.type.oid in JSON_TYPES:
        raise NotOnRowPath("subscript of jsonb")
    array = compiler.value(expression.argument).source
    upper = _subscripts(compiler, expression.upper)
    if expression.assignment is not None:
        if expression.is_slice:
            return _slice_assignment(compiler, expression, array, upper)
        name = compiler.code.constant(operations.assign_element, "assign_element")
        return Value(f"{name}({array}, {upper}, {compiler.value(expression.assignment).source})", nullable=False)
    if expression.argument.type.oid == NAME:
        if expression.is_slice:
            raise NotOnRowPath("slice of a name")
        return Value(f"{compiler.code.constant(operations.name_character, 'name_character')}({array}, {upper})")
    if not expression.is_slice:
        return Value(f"{compiler.code.constant(subscript, 'subscript')}({array}, {upper})")
    ends = tuple((low is None, high is None) for low, high in zip(expression.lower, expression.upper, strict=True))
    lower = _subscripts(compiler, expression.lower)
    name = compiler.code.constant(array_slice, "array_slice")
    return Value(f"{name}({array}, {lower}, {upper}, {ends!r})")


def _slice_assignment(compiler: ExpressionCompiler, expression: tree.SubscriptingRef, array: str, upper: str) -> Value:
    ends = tuple((low is None, high is None) for low, high in zip(expression.lower, expression.upper, strict=True))
    lower = _subscripts(compiler, expression.lower)
    assert expression.assignment is not None
    name = compiler.code.constant(assign_slice, "assign_slice")
    return Value(f"{name}({array}, {lower}, {upper}, {ends!r}, {compiler.value(expression.assignment).source})")


def _subscripts(compiler: ExpressionCompiler, items: Sequence[tree.Expr | None]) -> str:
    return f"({''.join(('None' if item is None else compiler.value(item).source) + ', ' for item in items)})"
