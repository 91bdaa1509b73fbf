"""The computation of user-defined aggregates: calls of their functions over inputs that the executor fills in.

    CREATE AGGREGATE total(int) (sfunc = add, stype = int8, finalfunc = shown)
    total(x)      step: add(<state>, <argument 1>)     final: shown(<state>)

An aggregate with the functions of a built-in one and the same initial state is planned as that one: so it needs no
Python function for each of them, and runs as fast. For the others, calls of functions in SQL are replaced by the
expressions that these consist of; all other functions of users stay calls (engine/statements/routine_path.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from catalog.errors import not_supported
from catalog.functions import registry
from catalog.functions.base import Aggregate, Function
from catalog.routines import LANGUAGE, function_in
from catalog.schema import Routine
from catalog.types import lookup
from catalog.types.base import TypeRef
from catalog.types.oids import ANY, INTERNAL
from engine.sql import tree
from engine.sql.aggregate_body import AggregateBody
from engine.sql.analyze.common_types import resolve_polymorphic
from engine.sql.analyze.environment import Environment
from engine.sql.analyze.resolve import argument
from engine.sql.analyze.state import Shared, State

Call = tree.Aggref | tree.WindowFunc
Expand = Callable[[tree.Expr], tree.Expr]


def function_with(environment: Environment, oid: int) -> Function:
    """The function with this OID, built in or of a user."""
    routine = environment.catalog.get(oid)
    return function_in(environment.catalog, routine) if isinstance(routine, Routine) else registry.function(oid)


def with_body(call: Call, environment: Environment, expand: Expand) -> Call:
    """The call of a user-defined aggregate with its computation. `expand` replaces calls of functions in SQL. Raises
    0A000 for functions that cannot run alone."""
    declared = registry.aggregate_of(call.function)
    twin = registry.twin_aggregate(declared, call.function.argument_types)
    internal = declared.transition_type == INTERNAL
    if twin is not None and (internal or registry.implementation(twin.source) is not None):
        return replace(call, function=twin)
    return replace(call, body=_body(call, declared, environment, expand))


def state_type(function: Function, arguments: Sequence[int]) -> int:
    """The type of the state for arguments of these types (resolve_aggregate_transtype)."""
    state = registry.aggregate_of(function).transition_type
    declared = list(function.argument_types)
    declared += declared[-1:] * (len(arguments) - len(declared))  # VARIADIC "any"
    return resolve_polymorphic(list(arguments), declared, state, False)


def _body(call: Call, declared: Aggregate, environment: Environment, expand: Expand) -> AggregateBody:
    function = call.function
    direct = call.direct_arguments if isinstance(call, tree.Aggref) else ()
    state = TypeRef(state_type(function, [item.type.oid for item in (*direct, *call.arguments)]))
    transition = function_with(environment, declared.transition_function)
    if state.oid == INTERNAL:
        not_supported(f"aggregate {function.name}, whose state is internal")
    inside = State(Shared(environment, ()))
    value = tree.StepInput(0, state)
    given = [tree.StepInput(number, item.type) for number, item in enumerate(call.arguments, 1)]
    step = _call(inside, transition, (value, *given), state)
    final: tree.Expr = value
    final_function = None
    if declared.final_function:
        final_function = function_with(environment, declared.final_function)
        more = [tree.StepInput(-number, item.type) for number, item in enumerate(direct, 1)]
        extra = [tree.Const(None, item.type) for item in call.arguments] if declared.final_extra else []
        final = expand(_call(inside, final_function, (value, *more, *extra), call.type))
    initial = None
    if declared.initial_value is not None:
        initial = lookup(state.oid).text_decoder()(declared.initial_value)
    return AggregateBody(
        tree.Const(initial, state), expand(step), final, transition.strict, transition.strict and initial is None,
        _built_in(transition, final_function, (step, final)),
    )  # fmt: skip


def _call(inside: State, function: Function, given: Sequence[tree.Expr], result: TypeRef) -> tree.FuncExpr:
    """A call of one of the aggregate's functions, with the arguments as it declares them."""
    types = list(function.argument_types)
    types += [types[-1]] * (len(given) - len(types))  # VARIADIC "any"
    actual = [item.type.oid for item in given]
    wanted = list(types)
    found = resolve_polymorphic(actual, wanted, function.result_type, False)
    values = [item if oid == ANY else argument(inside, item, oid) for item, oid in zip(given, wanted, strict=True)]
    return tree.FuncExpr(function, tuple(values), TypeRef(found or result.oid))


def _built_in(
    transition: Function, final: Function | None, calls: Sequence[tree.Expr]
) -> tuple[Function, Function | None] | None:
    """The functions, if all are built in, need no session, and get their inputs as they are."""
    for call in calls:
        given = call.arguments if isinstance(call, tree.FuncExpr) else (call,)
        if not all(isinstance(item, tree.StepInput | tree.Const) for item in given):
            return None
    for function in (transition, final):
        if function is None:
            continue
        found = registry.implementation(function.source)
        if function.language == LANGUAGE or found is None or found.needs_context:
            return None
        if found.python is None and found.python_for_types is None:
            return None
    return transition, final
