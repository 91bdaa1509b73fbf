"""Resolves operators and functions: PostgreSQL 16 manual 10.2 and 10.3 (parse_oper.c, parse_func.c).

Everything built in is immutable, so the result for a name and argument types is cached, including failures. Results
with user-defined types are not cached.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from catalog.functions import added, registry
from catalog.functions.base import Function, Operator, Trait
from catalog.row_types import is_row_type
from catalog.types import oids
from catalog.types.base import TypeRef
from catalog.types.oids import UNKNOWN
from engine.sql import tree
from engine.sql.analyze.coerce import coerce_type
from engine.sql.analyze.common_types import can_coerce, find_pathway, resolve_polymorphic
from engine.sql.analyze.declared import result_domain, shown_type
from engine.sql.analyze.environment import Environment
from engine.sql.analyze.errors import fail
from engine.sql.analyze.json_rows import write_value
from engine.sql.analyze.state import State
from engine.sql.analyze.typeinfo import cached_for_builtins, category, facts, type_name, type_names, type_oid_by_name


@dataclass(frozen=True, slots=True)
class Candidate:
    """A function in the form for one call. `order` maps declared positions to given arguments for named notation;
    `defaults` is the number of arguments with declared defaults; `variadic`: the tail is expanded; `place` is the
    position of its schema in the search path. `ambiguous`: another function of the schema accepts the same call."""

    function: Function
    types: tuple[int, ...]
    order: tuple[int, ...] | None = None
    defaults: int = 0
    variadic: bool = False
    place: int = 0
    ambiguous: bool = False


# ---- the heuristics -------------------------------------------------------------------------------------------------


def select_candidate(candidates: Sequence[Candidate], actual: Sequence[int]) -> Candidate | None:
    """func_select_candidate: the best candidate, or None if several are equally good."""
    count = len(actual)
    known = [oid != UNKNOWN for oid in actual]

    def best(score_of: object) -> list[Candidate]:
        top, keep = -1, []
        for candidate in current:
            score = score_of(candidate)  # type: ignore[operator]
            if score > top:
                top, keep = score, [candidate]
            elif score == top:
                keep.append(candidate)
        return keep

    def exact(candidate: Candidate) -> int:
        return sum(known[i] and candidate.types[i] == actual[i] for i in range(count))

    def exact_or_preferred(candidate: Candidate) -> int:
        score = 0
        for i in range(count):
            if known[i]:
                want = candidate.types[i]
                score += want == actual[i] or (facts(want).preferred and category(want) == category(actual[i]))
        return score

    current = list(candidates)
    current = best(exact)
    if len(current) == 1:
        return current[0]
    current = best(exact_or_preferred)
    if len(current) == 1:
        return current[0]
    if all(known):
        return None
    return _by_unknowns(current, actual, known)


def _by_unknowns(current: list[Candidate], actual: Sequence[int], known: Sequence[bool]) -> Candidate | None:
    """The last rules: unknown arguments get a category that the candidates agree on, or the type of the known ones."""
    count = len(actual)
    slots: dict[int, tuple[str, bool]] = {}
    resolved = True
    for i in range(count):
        if known[i]:
            continue
        chosen = facts(current[0].types[i]).category
        preferred = facts(current[0].types[i]).preferred
        conflict = False
        for candidate in current[1:]:
            fact = facts(candidate.types[i])
            if fact.category == chosen:
                preferred = preferred or fact.preferred
            elif fact.category == "S":
                chosen, preferred = "S", fact.preferred
            else:
                conflict = True
        if conflict and chosen != "S":
            resolved = False
            break
        slots[i] = (chosen, preferred)
    if resolved:
        kept = []
        for candidate in current:
            fits = True
            for i, (wanted, preferred) in slots.items():
                fact = facts(candidate.types[i])
                if fact.category != wanted or (preferred and not fact.preferred):
                    fits = False
                    break
            if fits:
                kept.append(candidate)
        if kept:
            current = kept
        if len(current) == 1:
            return current[0]
    known_types = {oid for i, oid in enumerate(actual) if known[i]}
    if len(known_types) == 1:
        assumed = [known_types.pop()] * count
        fits_all = [candidate for candidate in current if can_coerce(assumed, candidate.types[:count], "i")]
        if len(fits_all) == 1:
            return fits_all[0]
    return None


# ---- operators ------------------------------------------------------------------------------------------------------


def find_operator(name: str, left: int, right: int) -> Operator | str:
    """The operator for the operand types (left 0: prefix); 'missing' or 'ambiguous' if there is no single one."""
    more = added.operators_named(name)
    if more:
        return _operator_among((*registry.operators_named(name), *more), left, right)
    return _builtin_operator(name, left, right)


@cached_for_builtins(8192)
def _builtin_operator(name: str, left: int, right: int) -> Operator | str:
    return _operator_among(registry.operators_named(name), left, right)


def _operator_among(operators: Sequence[Operator], left: int, right: int) -> Operator | str:
    named = [item for item in operators if bool(item.left) == bool(left) and item.result]
    exact_left, exact_right = left, right
    if left:
        if left == UNKNOWN and right != UNKNOWN:
            exact_left = right
        elif right == UNKNOWN and left != UNKNOWN:
            exact_right = left
    for item in named:
        if item.left == exact_left and item.right == exact_right:
            return item
    actual = (left, right) if left else (right,)
    candidates = [_OperatorCandidate(item, (item.left, item.right) if left else (item.right,)) for item in named]
    fitting = [item for item in candidates if can_coerce(actual, item.types, "i")]
    if not fitting:
        return "missing"
    if len(fitting) == 1:
        return fitting[0].operator
    chosen = select_candidate(fitting, actual)  # type: ignore[arg-type]
    return chosen.operator if isinstance(chosen, _OperatorCandidate) else "ambiguous"


@dataclass(frozen=True, slots=True)
class _OperatorCandidate:
    operator: Operator
    types: tuple[int, ...]


def operator_for(
    environment: Environment,
    names: tuple[str, ...],
    left: int,
    right: int,
    location: int,
    declared: tuple[TypeRef | None, TypeRef] | None = None,
) -> Operator:
    """The operator, or 42883 / 42725 with PostgreSQL's hints; 3F000, 42501 for the named schema. `declared`: the
    operands' types as messages name them."""
    environment.check_operator(names, location)
    found: Operator | str = "missing"
    if len(names) == 1:
        found = find_operator(names[-1], left, right)
    elif names[-2] == "pg_catalog":
        found = _builtin_operator(names[-1], left, right)
    else:
        found = _operator_among(added.operators_named(names[-1], names[-2]), left, right)
    if isinstance(found, Operator):
        return found
    shown = ".".join(names)
    one, other = declared or (TypeRef(left), TypeRef(right))
    signature = f"{shown} {shown_type(environment, other)}"
    if left and one is not None:
        signature = f"{shown_type(environment, one)} {signature}"
    if found == "ambiguous":
        fail(
            "42725", f"operator is not unique: {signature}", location,
            hint="Could not choose a best candidate operator. You might need to add explicit type casts.",
        )  # fmt: skip
    hint = (
        "No operator matches the given name and argument types. You might need to add explicit type casts."
        if left
        else "No operator matches the given name and argument type. You might need to add an explicit type cast."
    )
    fail("42883", f"operator does not exist: {signature}", location, hint=hint)


@cached_for_builtins(8192)
def operator_types(operator: Operator, left: int, right: int) -> tuple[tuple[int, ...], int]:
    """The operand types and result type of an operator for these operands, polymorphic ones resolved."""
    actual = (left, right) if left else (right,)
    declared = [operator.left, operator.right] if left else [operator.right]
    result = resolve_polymorphic(actual, declared, operator.result, False)
    return tuple(declared), result


@dataclass(frozen=True, slots=True)
class _Call:
    """The result of operator resolution for two operand types: the function, its argument types and result type.
    `joins_as_text`: a trait of the function."""

    operator: Operator
    function: Function
    operands: tuple[int, ...]
    result: TypeRef
    joins_as_text: bool


def function_of(operator: Operator) -> Function:
    """The function of an operator, built in or of a user."""
    return added.function_of_user(operator.function) or registry.function(operator.function)


def _call_of(operator: Operator, left: int, right: int) -> _Call:
    operands, result = operator_types(operator, left, right)
    function = function_of(operator)
    return _Call(
        operator, function, operands, TypeRef(result), registry.has_trait(function.source, Trait.JOINS_AS_TEXT)
    )


@cached_for_builtins(8192)
def _builtin_call(name: str, left: int, right: int) -> _Call | None:
    """None where there is no single built-in operator."""
    found = _builtin_operator(name, left, right)
    return _call_of(found, left, right) if isinstance(found, Operator) else None


def make_operator(
    state: State, names: tuple[str, ...], left: tree.Expr | None, right: tree.Expr, location: int
) -> tree.FuncExpr:
    """make_op: a typed operator expression with its operands coerced."""
    left_type = left.type.oid if left is not None else 0
    right_type = right.type.oid
    if left is not None and oids.RECORD in (left_type, right_type):
        if is_row_type(right_type):
            left, left_type = coerce_type(state, left, right.type, "i"), right_type
        elif is_row_type(left_type):
            right, right_type = coerce_type(state, right, left.type, "i"), left_type
        elif is_row_type(left.type.domain) and added.operators_named(names[-1]):  # hstore's #= makes a row of its type
            left, left_type = coerce_type(state, left, TypeRef(left.type.domain), "i"), left.type.domain
    call = None
    if len(names) == 1 and not added.operators_named(names[0]):
        call = _builtin_call(names[0], left_type, right_type)
    if call is None:
        types = (None if left is None else left.type, right.type)
        found = operator_for(state.environment, names, left_type, right_type, location, types)
        call = _call_of(found, left_type, right_type)
    declared = call.operands
    arguments: tuple[tree.Expr, ...]
    if left is not None:
        arguments = (
            left if left_type == declared[0] else argument(state, left, declared[0]),
            right if right_type == declared[1] else argument(state, right, declared[1]),
        )
    else:
        arguments = (right if right_type == declared[0] else argument(state, right, declared[0]),)
    if call.joins_as_text:
        arguments = tuple(map(write_value, arguments))
    if call.function.volatility == "v":
        state.volatile = True
    operator, result = call.operator, call.result
    if operator.result in oids.POLYMORPHIC and left is not None:
        given = (left.type, right.type)
        result = TypeRef(result.oid, domain=result_domain(given, (operator.left, operator.right), operator.result))
    return tree.FuncExpr(call.function, arguments, result, operator, "operator", False, location)


def argument(state: State, expr: tree.Expr, oid: int) -> tree.Expr:
    """make_fn_arguments for one argument: an implicit cast to the declared type."""
    if expr.type.oid == oid:
        return expr
    return coerce_type(state, expr, TypeRef(oid), "i")


# ---- functions ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Found:
    """func_get_detail's answer. status: 'function' | 'coercion' | 'missing' | 'ambiguous'."""

    status: str
    candidate: Candidate | None = None
    coercion: int = 0


def _named_order(function: Function, names: tuple[str | None, ...]) -> tuple[int, ...] | None:
    """The declared position of each given argument; None if a name does not match. Gaps are defaults."""
    positional = sum(name is None for name in names)
    places = list(range(positional))
    for name in names[positional:]:
        if name not in function.argument_names:
            return None
        place = function.argument_names.index(name)
        if place in places:
            return None
        places.append(place)
    return tuple(places)


@lru_cache(4096)
def _builtin_candidates(
    name: str, count: int, names: tuple[str | None, ...], expand_variadic: bool
) -> tuple[Candidate, ...]:
    return candidates_of([(0, item) for item in registry.functions_named(name)], count, names, expand_variadic)


def candidates_of(
    functions: Iterable[tuple[int, Function]], count: int, names: tuple[str | None, ...], expand_variadic: bool
) -> tuple[Candidate, ...]:
    """FuncnameGetCandidates: all ways in which a function of that name can accept that many arguments. Each function
    has a position in the search path. Of those with the same types the first in the path is used, and then the one that
    is not variadic."""
    found: dict[tuple[int, ...], Candidate] = {}
    for place, function in functions:
        declared = function.argument_types
        if any(item is not None for item in names):
            candidate = _named_candidate(function, count, names, expand_variadic)
        elif function.variadic and expand_variadic and count >= len(declared):
            tail = (function.variadic,) * (count - len(declared) + 1)
            candidate = Candidate(function, declared[:-1] + tail, None, 0, True)
        elif len(declared) == count:
            candidate = Candidate(function, declared)
        elif len(declared) - function.default_count <= count < len(declared):
            candidate = Candidate(function, declared[:count], None, len(declared) - count)
        else:
            candidate = None
        if candidate is None:
            continue
        candidate = replace(candidate, place=place) if place else candidate
        other = found.get(candidate.types)
        if other is None or _is_preferred(candidate, other):
            found[candidate.types] = candidate
        elif not _is_preferred(other, candidate):
            found[candidate.types] = replace(other, ambiguous=True)
    return tuple(found.values())


def _is_preferred(one: Candidate, other: Candidate) -> bool:
    return one.place < other.place if one.place != other.place else other.variadic and not one.variadic


def _named_candidate(
    function: Function, count: int, names: tuple[str | None, ...], expand_variadic: bool
) -> Candidate | None:
    declared = function.argument_types
    padded = (None,) * (count - len(names)) + tuple(names)
    if count > len(declared) or (function.variadic and expand_variadic):
        return None
    order = _named_order(function, padded)
    if order is None:
        return None
    first_default = len(declared) - function.default_count
    if any(place not in order for place in range(first_default)):
        return None
    # The given arguments in their own order; the call is put into declared order when it is built.
    return Candidate(function, tuple(declared[place] for place in order), order, len(declared) - count)


def find_function(
    name: str,
    actual: tuple[int, ...],
    names: tuple[str | None, ...] = (),
    expand_variadic: bool = True,
    literal: bool = False,
    schema: str | None = None,
    stored: bool = False,
    target: int = 0,
) -> Found:
    """func_get_detail. `literal`: the single argument is an unknown literal (int4('5') is then a cast). `schema`: None
    to search the path. `stored`: the text was deparsed from a tree, or the grammar made the call. `target`: the type of
    that name in the path, if it is not built in."""
    if stored and (inner := registry.inner_functions_named(name)):
        functions = [(0, item) for item in inner]
        return _function_among(candidates_of(functions, len(actual), names, expand_variadic), 0, actual, names, literal)
    if schema in (None, "pg_catalog"):
        if schema is not None or not (target or added.has_functions_named(name)):
            return _builtin_function(name, actual, names, expand_variadic, literal)
        functions = added.searched_functions(name, registry.functions_named(name))
        target = target or type_oid_by_name().get(name, 0)
    else:
        functions, target = [(0, item) for item in added.functions_named(name, schema)], 0
    candidates = candidates_of(functions, len(actual), names, expand_variadic)
    return _function_among(candidates, target, actual, names, literal)


@cached_for_builtins(8192)
def _builtin_function(
    name: str, actual: tuple[int, ...], names: tuple[str | None, ...], expand_variadic: bool, literal: bool
) -> Found:
    candidates = _builtin_candidates(name, len(actual), names, expand_variadic)
    return _function_among(candidates, type_oid_by_name().get(name, 0), actual, names, literal)


def _function_among(
    candidates: Sequence[Candidate],
    target: int,
    actual: tuple[int, ...],
    names: tuple[str | None, ...],
    literal: bool,
) -> Found:
    """The matching candidate, or a cast to the type of that name (`target`, 0 if there is none)."""
    for candidate in candidates:
        if candidate.types == actual:
            return _make_found(candidate)
    if len(actual) == 1 and not names and target and _is_cast(actual[0], target, literal):
        return Found("coercion", None, target)
    fitting = [item for item in candidates if can_coerce(actual, item.types, "i")]
    if not fitting:
        return Found("missing")
    if len(fitting) == 1:
        return _make_found(fitting[0])
    return _make_found(select_candidate(fitting, actual))


def _make_found(candidate: Candidate | None) -> Found:
    return Found("ambiguous") if candidate is None or candidate.ambiguous else Found("function", candidate)


def _is_cast(source: int, target: int, literal: bool) -> bool:
    if source == UNKNOWN and literal:
        return True
    kind = find_pathway(target, source, "e")[0]
    if kind == "io":
        return not (source == oids.RECORD and category(target) == "S")
    return kind == "relabel"


def signature(name: str, actual: Sequence[int], names: tuple[str | None, ...] = ()) -> str:
    """funcname_signature_string: 'f(integer, x => text)'."""
    if not names:
        return f"{name}({type_names(actual)})"
    padded = (None,) * (len(actual) - len(names)) + tuple(names)
    shown = [
        f"{label} => {type_name(oid)}" if label else type_name(oid) for label, oid in zip(padded, actual, strict=True)
    ]
    return f"{name}({', '.join(shown)})"
