"""The casts between types, the common type of several expressions, and polymorphic types.

Follows PostgreSQL 16 manual chapter 10 and the behaviour of parse_coerce.c. A context is 'i' (implicit), 'a'
(assignment) or 'e' (explicit), as in pg_cast. coerce.py builds expressions from the results.
"""

from __future__ import annotations

from collections.abc import Sequence

from catalog.errors import SqlError
from catalog.functions import registry
from catalog.functions.added import cast_between
from catalog.row_types import is_row_type
from catalog.types import oids
from catalog.types.base import TypeRef
from catalog.types.oids import (
    ANY,
    ANYARRAY,
    ANYCOMPATIBLE,
    ANYCOMPATIBLEARRAY,
    ANYCOMPATIBLENONARRAY,
    ANYCOMPATIBLERANGE,
    ANYELEMENT,
    ANYNONARRAY,
    POLYMORPHIC,
    RECORD,
    TEXT,
    UNKNOWN,
)
from engine.sql import tree
from engine.sql.analyze import typeinfo
from engine.sql.analyze.declared import common_domain
from engine.sql.analyze.errors import expr_location, fail
from engine.sql.analyze.typeinfo import cached_for_builtins, category, element_type, facts, type_name

_RANK = {"i": 0, "a": 1, "e": 2}
ALWAYS = frozenset({ANY, ANYELEMENT, ANYNONARRAY, ANYCOMPATIBLE, ANYCOMPATIBLENONARRAY})


@cached_for_builtins(8192)
def find_pathway(target: int, source: int, context: str) -> tuple[str, int]:
    """The cast from one type to another: ('none' | 'relabel' | 'function' | 'io' | 'array', function OID)."""
    if source == target:
        return "relabel", 0
    cast = registry.cast(source, target) or cast_between(source, target)
    if cast is not None:
        if _RANK[context] < _RANK[cast.context]:
            return "none", 0
        if cast.method == "f":
            return "function", cast.function
        return ("io", 0) if cast.method == "i" else ("relabel", 0)
    result = "none"
    if target not in oids.VECTORS:
        to_element, from_element = element_type(target), element_type(source)
        if to_element and from_element and find_pathway(to_element, from_element, context)[0] != "none":
            result = "array"
    if result == "none" and (
        (context in "ae" and category(target) == "S") or (context == "e" and category(source) == "S")
    ):
        result = "io"
    return result, 0


@cached_for_builtins(16384)
def can_coerce_one(source: int, target: int, context: str) -> bool:
    """Whether a value of `source` may become `target`, leaving consistency of polymorphic types to the caller."""
    if source in (target, UNKNOWN) or target in ALWAYS or target in POLYMORPHIC:
        return True
    if find_pathway(target, source, context)[0] != "none":
        return True
    return (target == RECORD and facts(source).kind == "c") or (source == RECORD and facts(target).kind == "c")


def can_coerce(sources: Sequence[int], targets: Sequence[int], context: str) -> bool:
    """can_coerce_type: every source to its target, and the polymorphic ones consistently."""
    generic = False
    for source, target in zip(sources, targets, strict=True):
        if not can_coerce_one(source, target, context):
            return False
        generic = generic or target in POLYMORPHIC
    return not generic or _generic_consistent(tuple(sources), tuple(targets))


@cached_for_builtins(8192)
def _generic_consistent(sources: tuple[int, ...], targets: tuple[int, ...]) -> bool:
    try:
        resolve_polymorphic(sources, list(targets), 0, False, check_only=True)
    except SqlError:
        return False
    return True


# ---- common types ---------------------------------------------------------------------------------------------------


def select_common_type(exprs: Sequence[tree.Expr], construct: str | None) -> tuple[int, tree.Expr | None]:
    """The type that UNION, CASE, ... resolve to (manual 10.5), and the expression that determined it.

    42804 '... types x and y cannot be matched'; without `construct`, type 0 instead of the error.
    """
    chosen, chosen_expr = exprs[0].type.oid, exprs[0]
    if all(expr.type.oid == chosen for expr in exprs) and chosen != UNKNOWN:
        return chosen, chosen_expr
    row_types = {expr.type.oid: expr for expr in exprs if is_row_type(expr.type.oid)}
    if len(row_types) == 1 and all(expr.type.oid in (RECORD, UNKNOWN, *row_types) for expr in exprs):
        return next(iter(row_types.items()))
    chosen_facts = facts(chosen)
    for expr in exprs[1:]:
        oid = expr.type.oid
        if oid in (UNKNOWN, chosen):
            continue
        other = facts(oid)
        if chosen == UNKNOWN:
            chosen, chosen_expr, chosen_facts = oid, expr, other
        elif other.category != chosen_facts.category:
            if construct is None:
                return 0, None
            names = f"{type_name(chosen)} and {type_name(oid)}"
            fail("42804", f"{construct} types {names} cannot be matched", expr_location(expr))
        elif not chosen_facts.preferred and can_coerce_one(chosen, oid, "i") and not can_coerce_one(oid, chosen, "i"):
            chosen, chosen_expr, chosen_facts = oid, expr, other
    return (TEXT if chosen == UNKNOWN else chosen), chosen_expr


def common_typmod(exprs: Sequence[tree.Expr], oid: int) -> int:
    """The modifier that all expressions of that type share, -1 if they do not."""
    first = exprs[0].type
    if first.oid != oid or first.typmod == -1:
        return -1
    return first.typmod if all(expr.type == first for expr in exprs) else -1


def common_type(exprs: Sequence[tree.Expr], oid: int) -> TypeRef:
    """The common type of expressions: a domain only if all have that domain."""
    return TypeRef(oid, common_typmod(exprs, oid), common_domain([_own_type(expr) for expr in exprs]))


def _own_type(expr: tree.Expr) -> TypeRef:
    """The type of an expression; NULL has none."""
    return typeinfo.UNKNOWN_REF if isinstance(expr, tree.Const) and expr.value is None else expr.type


# ---- polymorphic types ----------------------------------------------------------------------------------------------


def _no_match(message: str, detail: str | None = None) -> SqlError:
    return SqlError("42804", message, detail=detail)


def resolve_polymorphic(
    actual: Sequence[int], declared: list[int], result: int, allow_polymorphic: bool, *, check_only: bool = False
) -> int:
    """enforce_generic_type_consistency: replaces the polymorphic types in `declared`, and returns the result type.

    42804 if the arguments do not agree. `check_only` stops after this check.
    """
    if not any(oid in POLYMORPHIC for oid in declared):
        if result in POLYMORPHIC:
            raise _no_match(
                "could not determine polymorphic type because input has type unknown"
                if result in oids.ANY_FAMILY
                else "could not determine polymorphic common type because input has type unknown"
            )
        return result
    found = _Polymorphic(actual, declared)
    found.gather()
    if check_only:
        found.agree(lenient=True)
        return 0
    if found.array == ANYARRAY and not allow_polymorphic:  # as columns of pg_stats are: nothing can agree with it
        alone = sum(oid in oids.ANY_FAMILY for oid in declared) == 1
        if not alone or (result != ANYARRAY and result in oids.ANY_FAMILY):
            raise _no_match('cannot determine element type of "anyarray" argument')
    found.agree(lenient=False)
    for position, oid in enumerate(declared):
        if oid in POLYMORPHIC:
            declared[position] = found.concrete(oid)
    return found.concrete(result) if result in POLYMORPHIC else result


class _Polymorphic:
    """The types that one call binds to anyelement and its family, and to anycompatible and its family."""

    def __init__(self, actual: Sequence[int], declared: Sequence[int]) -> None:
        self.actual = actual
        self.declared = declared
        self.element = self.array = self.range = self.multirange = 0
        self.compatible: list[int] = []
        self.compatible_range = self.compatible_multirange = 0
        self.common = 0
        self.has_one = self.has_two = self.unknown_two = False

    def gather(self) -> None:
        for oid, want in zip(self.actual, self.declared, strict=False):
            if want in oids.ANY_FAMILY:
                self.has_one = True
                if oid != UNKNOWN:
                    self._bind_one(want, oid)
            elif want in oids.ANYCOMPATIBLE_FAMILY:
                self.has_two = True
                if oid != UNKNOWN:
                    self._bind_two(want, oid)
                else:
                    self.unknown_two = True

    def _bind_one(self, want: int, oid: int) -> None:
        slots = {ANYARRAY: "array", oids.ANYRANGE: "range", oids.ANYMULTIRANGE: "multirange"}
        slot = slots.get(want, "element")
        names = {"array": "anyarray", "element": "anyelement", "range": "anyrange", "multirange": "anymultirange"}
        known = getattr(self, slot)
        if known and known != oid:
            raise _no_match(
                f'arguments declared "{names[slot]}" are not all alike', f"{type_name(known)} versus {type_name(oid)}"
            )
        setattr(self, slot, oid)
        if slot == "array" and not element_type(oid) and oid != ANYARRAY:
            raise _no_match(f"argument declared anyarray is not an array but type {type_name(oid)}")
        if slot == "range" and not typeinfo.range_subtype(oid):
            raise _no_match(f"argument declared anyrange is not a range type but type {type_name(oid)}")
        if slot == "multirange" and not typeinfo.multirange_range(oid):
            raise _no_match(f"argument declared anymultirange is not a multirange type but type {type_name(oid)}")
        if want == ANYNONARRAY and element_type(oid):
            raise _no_match(f"type matched to anynonarray is an array type: {type_name(oid)}")
        if want == oids.ANYENUM and facts(oid).kind != "e":
            raise _no_match(f"type matched to anyenum is not an enum type: {type_name(oid)}")

    def _bind_two(self, want: int, oid: int) -> None:
        if want == ANYCOMPATIBLEARRAY:
            if not element_type(oid):
                raise _no_match(f"argument declared anycompatiblearray is not an array but type {type_name(oid)}")
            self.compatible.append(element_type(oid))
        elif want == ANYCOMPATIBLERANGE:
            if self.compatible_range not in (0, oid) or not typeinfo.range_subtype(oid):
                raise _no_match('arguments declared "anycompatiblerange" are not all alike')
            self.compatible_range = oid
            self.compatible.append(typeinfo.range_subtype(oid))
        elif want == oids.ANYCOMPATIBLEMULTIRANGE:
            if not typeinfo.multirange_range(oid):
                raise _no_match('arguments declared "anycompatiblemultirange" are not all alike')
            self.compatible_multirange = oid
            self.compatible.append(typeinfo.range_subtype(typeinfo.multirange_range(oid)))
        else:
            if want == ANYCOMPATIBLENONARRAY and element_type(oid):
                raise _no_match(f"type matched to anycompatiblenonarray is an array type: {type_name(oid)}")
            self.compatible.append(oid)

    def agree(self, lenient: bool) -> None:
        """Derives each family's element type and checks that its members fit."""
        self._agree_one(lenient)
        if not self.has_two:
            return
        if self.compatible:
            exprs = [tree.CaseTestExpr(TypeRef(oid)) for oid in self.compatible]
            self.common = select_common_type(exprs, None)[0]
            if not self.common or not all(can_coerce_one(oid, self.common, "i") for oid in self.compatible):
                raise _no_match("arguments of anycompatible family cannot be cast to a common type")
            if self.compatible_range and typeinfo.range_subtype(self.compatible_range) != self.common:
                raise _no_match(
                    f"anycompatiblerange type {type_name(self.compatible_range)} "
                    f"does not match anycompatible type {type_name(self.common)}"
                )
        else:
            self.common = TEXT

    def _agree_one(self, lenient: bool) -> None:
        if not self.has_one:
            return
        if self.multirange and not self.range:
            self.range = typeinfo.multirange_range(self.multirange)
        for container, inner, name in (
            (self.array, element_type(self.array) if self.array else 0, "anyarray"),
            (self.range, typeinfo.range_subtype(self.range), "anyrange"),
        ):
            if not container or container == ANYARRAY:
                continue
            if self.element and self.element != inner:
                raise _no_match(
                    f"argument declared {name} is not consistent with argument declared anyelement",
                    f"{type_name(container)} versus {type_name(self.element)}",
                )
            self.element = inner
        if not self.element and self.array == ANYARRAY:
            self.element = ANYELEMENT
        if not self.element and not lenient:
            raise _no_match("could not determine polymorphic type because input has type unknown")

    def concrete(self, oid: int) -> int:
        """The actual type for a polymorphic type in this call."""
        if oid in (ANYELEMENT, ANYNONARRAY, oids.ANYENUM):
            return self.element
        if oid == ANYARRAY:
            return self.array or self._array_of(self.element)
        if oid == oids.ANYRANGE:
            return self.range or self._missing("anyrange")
        if oid == oids.ANYMULTIRANGE:
            return self.multirange or typeinfo.multirange_of(self.range) or self._missing("anymultirange")
        if oid in (ANYCOMPATIBLE, ANYCOMPATIBLENONARRAY):
            return self.common
        if oid == ANYCOMPATIBLEARRAY:
            return self._array_of(self.common)
        if oid == ANYCOMPATIBLERANGE:
            one = self.compatible_range or typeinfo.multirange_range(self.compatible_multirange)
            return one or self._missing("anycompatiblerange")
        many = self.compatible_multirange or typeinfo.multirange_of(self.compatible_range)
        return many or self._missing("anycompatiblemultirange")

    def _array_of(self, element: int) -> int:
        array = typeinfo.array_type(element)
        if not array:
            raise SqlError("42704", f"could not find array type for data type {type_name(element)}")
        return array

    def _missing(self, name: str) -> int:
        raise _no_match(f"could not determine polymorphic type {name} because input has type unknown")
