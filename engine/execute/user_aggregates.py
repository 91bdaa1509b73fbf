"""User-defined aggregates: the steps of those whose functions are built in, and the code of the others.

total(x)    with a function in SQL or PL/pgSQL; the calls are compiled into the plan's function:
                if x is not None:                                  the transition function is strict
                    if state is NO_STATE: state = x                there is no initial state
                    elif state is not None: state = <call>
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from catalog.functions.base import AggregateSteps
from catalog.functions.registry import function
from catalog.types import lookup
from catalog.types.base import EMPTY_ARRAY, Array, TypeRef
from engine.execute.compiled_value import Value
from engine.execute.python_sides import python_side
from engine.sql import tree
from engine.sql.aggregate_body import AggregateBody
from engine.sql.tree_walk import walk

if TYPE_CHECKING:
    from engine.execute.code import Code
    from engine.execute.expressions import ExpressionCompiler


class _NoState:
    """The state before the first row, if there is no initial state."""


NO_STATE = _NoState()


def computed_elsewhere(node: object) -> bool:
    """Whether it is a call of an aggregate with functions of users."""
    return isinstance(node, tree.Aggref | tree.WindowFunc) and node.body is not None and node.body.built_in is None


# ---- built-in functions ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BuiltInSteps:
    """An aggregate whose functions are built in: OIDs of the functions (final: 0 for none) and of the state's type, and
    the initial state as text. `extra`: FINALFUNC_EXTRA; `star`: it has no
    arguments, and its steps ignore those that they get."""

    transition: int
    final: int
    state: int
    initial: str | None
    extra: bool
    star: bool


def built_in_steps(call: tree.Aggref | tree.WindowFunc) -> BuiltInSteps | None:
    """The steps of a call, if its functions are built in."""
    declared, body = call.function.aggregate, call.body
    if declared is None or body is None or body.built_in is None:
        return None
    state = body.initial.type.oid
    return BuiltInSteps(
        declared.transition_function, declared.final_function, state, declared.initial_value, declared.final_extra,
        not call.arguments,
    )  # fmt: skip


def python_steps(steps: BuiltInSteps, types: Sequence[TypeRef], direct: int, result: TypeRef) -> AggregateSteps:
    """The steps as Python functions, for arguments of these types, `direct` ones first. A step is not called for rows
    with a NULL if the transition function is strict."""
    state, given = TypeRef(steps.state), [] if steps.star else list(types[direct:])
    transition = function(steps.transition)
    initial = None if steps.initial is None else lookup(steps.state).text_decoder()(steps.initial)
    grows = transition.source == "array_append" and not direct
    if grows:
        step: Callable[..., Any] = _append
        begin: object = initial
    else:
        call, _ = python_side(transition, [state, *given], state)
        step = _strict(call) if transition.strict else call
        if steps.star:
            step = _without_row(step)
        begin = NO_STATE if transition.strict and initial is None else initial
    final = _final(steps, [state, *types[:direct], *(given if steps.extra else ())], len(given), result)
    if grows:
        return _growing(begin, final)
    if not direct:
        return (lambda: begin), step, final
    return _with_direct(begin, step, final)


def _strict(call: Callable[..., Any]) -> Callable[..., Any]:
    def step(state: object, *row: object) -> object:
        if state is NO_STATE:
            return row[0]
        return None if state is None else call(state, *row)

    return step


def _without_row(step: Callable[..., Any]) -> Callable[..., Any]:
    return lambda state, *_: step(state)


def _final(steps: BuiltInSteps, types: Sequence[TypeRef], count: int, result: TypeRef) -> Callable[..., Any]:
    if not steps.final:
        return lambda state: None if state is NO_STATE else state
    found = function(steps.final)
    call, _ = python_side(found, types, result)
    more = (None,) * count if steps.extra else ()

    def final(state: object, *direct: object) -> object:
        value = None if state is NO_STATE else state
        if found.strict and None in (value, *direct, *more):
            return None
        return call(value, *direct, *more)

    return final


def _with_direct(begin: object, step: Callable[..., Any], final: Callable[..., Any]) -> AggregateSteps:
    """The steps of an ordered-set aggregate, whose state keeps the direct arguments for the final function."""

    def advance(kept: tuple[object, tuple[object, ...]], *row: object) -> tuple[object, tuple[object, ...]]:
        return step(kept[0], *row), kept[1]

    return (lambda *given: (begin, given)), advance, lambda kept: final(kept[0], *kept[1])


def _append(state: list[object], value: object) -> list[object]:
    state.append(value)
    return state


def _growing(begin: Any, final: Callable[..., Any]) -> AggregateSteps:
    """array_append as a transition function: a list, which is not copied for each row."""

    def result_of(state: list[object]) -> object:
        if not state:
            return final(begin)
        first = EMPTY_ARRAY if begin is None else begin
        count = len(first.elements) + len(state)
        lower = first.lower_bounds or (1,)
        return final(Array((*first.elements, *state), (count,), lower))

    return list, _append, result_of


# ---- functions of users ---------------------------------------------------------------------------------------------


def write_initial_state(code: Code, body: AggregateBody) -> str:
    """Source of the state before the first row."""
    return code.constant(NO_STATE if body.takes_first else body.initial.value, "state")


def write_step(expressions: ExpressionCompiler, body: AggregateBody, state: str, arguments: Sequence[Value]) -> None:
    """Writes the step of one row, whose arguments are not NULL if the transition function is strict. `state`: the
    target of the assignment."""
    code = expressions.code
    depth = code.depth
    if body.takes_first:
        code.line(f"if {state} is {code.constant(NO_STATE, 'state')}: {state} = {arguments[0].source}")
        code.indent(f"elif {state} is not None:")
    elif body.strict:
        code.indent(f"if {state} is not None:")
    known = code.temporary("state")
    code.line(f"{known} = {state}")
    if body.strict:
        arguments = [Value(item.source, nullable=False, atom=item.atom) for item in arguments]
    inputs = [Value(known, nullable=not body.strict, atom=True), *arguments]
    code.line(f"{state} = {_call(expressions, body.step, inputs, ())}")
    code.dedent_to(depth)


def final_value(expressions: ExpressionCompiler, body: AggregateBody, state: str, direct: Sequence[Value]) -> str:
    """Source of the result. Writes the state into a local first."""
    code = expressions.code
    known = code.temporary("state")
    code.line(f"{known} = {state}")
    if body.takes_first:
        code.line(f"if {known} is {code.constant(NO_STATE, 'state')}: {known} = None")
    return _call(expressions, body.final, [Value(known, nullable=True, atom=True)], direct)


def _call(expressions: ExpressionCompiler, call: tree.Expr, inputs: Sequence[Value], direct: Sequence[Value]) -> str:
    """Source of a call over these inputs; the privileges for its functions were checked when it was planned."""
    overrides = expressions.overrides
    numbered = dict(enumerate(inputs)) | {-number: value for number, value in enumerate(direct, 1)}
    found = [item for item in walk(call) if isinstance(item, tree.StepInput)]
    before = expressions.checked
    expressions.checked = True
    for item in found:
        overrides[item] = numbered[item.number]
    try:
        return expressions.value(call).source
    finally:
        expressions.checked = before
        for item in found:
            overrides.pop(item, None)
