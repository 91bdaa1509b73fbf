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
from catalog.types import element_of
from catalog.types.base import Array, TypeRef
from catalog.types.oids import JSON_TYPES, NAME, RECORD, RECORDS
from engine.execute import operations
from engine.execute.code import NotOnRowPath
from engine.execute.compiled_value import Value
from engine.execute.members import Key, RepeatedArray, hash_key, is_membership, members_of
from engine.execute.python_sides import comparison, equality_of
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


def array_operation(compiler: ExpressionCompiler, expression: tree.ScalarArrayOp, truth: bool = False) -> str:
    """The source of left operator ANY|ALL (array); with `truth` it need only be truthy when TRUE."""
    right = expression.right
    if isinstance(right, tree.ArrayExpr):
        element = right.element_type
    else:
        element = TypeRef(element_of(right.type.oid) or expression.operator.right)
    can_hash, key = hash_key(expression, element.oid)
    array = _constant_array(compiler, right)
    if array is not None and can_hash:
        return _membership(compiler, expression, array, key, truth)
    items = right.elements if isinstance(right, tree.ArrayExpr) and not right.nested else None
    if truth and expression.use_or and is_membership(expression) and items and _is_short(items):
        return _any_as_or(compiler, expression, items, element)
    compare = _element_comparison(compiler, expression, element)
    if not expression.function.strict:
        raise NotOnRowPath("ANY with an operator that is not strict")
    left, array_source = compiler.value(expression.left).source, compiler.value(right).source
    name = compiler.code.constant(compare, "compare")
    if not (can_hash and compiler.code.in_plan):
        loop = operations.any_of if expression.use_or else operations.all_of
        return f"{compiler.code.constant(loop, loop.__name__)}({name}, {left}, {array_source})"
    repeated = compiler.code.temporary("among")
    made = compiler.code.constant(RepeatedArray, "RepeatedArray")
    hashed = "None" if key is None else compiler.code.constant(key, "key")
    compiler.code.prologue.append(f"{repeated} = {made}({hashed}, {name}, {not expression.use_or})")
    if items is not None and all(isinstance(item, tree.Const | tree.Param) for item in items):
        whole = compiler.code.temporary("array")
        compiler.code.prologue.append(f"{whole} = {array_source}")
        array_source = whole
    return f"{repeated}({left}, {array_source})"


def _constant_array(compiler: ExpressionCompiler, array: tree.Expr) -> Array | None:
    """The array, if planning knows it."""
    if isinstance(array, tree.Const):
        return array.value if isinstance(array.value, Array) else None
    if not isinstance(array, tree.ArrayExpr) or array.nested:
        return None
    values = []
    for element in array.elements:
        known = compiler.constant(element)
        if known is None:
            return None
        values.append(known[0])
    return Array.of(tuple(values))


def _is_short(items: Sequence[tree.Expr]) -> bool:
    """Whether each element can be compared by code of its own. All elements must be computed if one may fail."""
    return len(items) <= _MANY_ELEMENTS and all(map(cannot_fail, items))


def _membership(
    compiler: ExpressionCompiler, expression: tree.ScalarArrayOp, array: Array, key: Key, truth: bool
) -> str:
    """The source of = ANY or <> ALL over an array that planning knows."""
    found = compiler.value(expression.left)
    members = frozenset(array.elements)
    only_true = truth and expression.use_or
    if key is None and members and (only_true or None not in members):
        word = f"{'in' if expression.use_or else 'not in'} {compiler.code.constant(members - {None}, 'set')}"
        if only_true or not found.nullable:
            return f"({found.source} {word})"
        source, left = compiler.bind(found)
        return f"(None if {source} is None else {left.source} {word})"
    name = compiler.code.constant(members_of(array, key, not expression.use_or), "among")
    return f"{name}({found.source})"


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


def _any_as_or(
    compiler: ExpressionCompiler, expression: tree.ScalarArrayOp, items: Sequence[tree.Expr], element_type: TypeRef
) -> str:
    source, left = compiler.bind_name(expression.left)
    tests = []
    types = (expression.left.type, element_type)
    for element in items:
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
