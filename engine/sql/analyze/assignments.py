"""Assignments to parts of columns: SET a[1].x = v, INSERT INTO t (a[1], b.x) (transformAssignmentIndirection).

The new value of the column is one expression over its old value. A field is stored by a row of the composite type with
the other old fields, an element by `SubscriptingRef` with `assignment`. Several assignments to parts of a column nest.
An assignment to a part of a stored value replaces that value, so that no value occurs twice in the expression.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NoReturn

from catalog.functions import registry
from catalog.functions.geometry import STORES
from catalog.functions.hstore import ASSIGN as HSTORE_ASSIGN
from catalog.functions.jsonb_assignment import ASSIGN
from catalog.schema import Column
from catalog.types import oids
from catalog.types.base import TypeRef
from catalog.types.composite import CompositeType
from catalog.types.oids import JSONB
from catalog.types.user import entry_of
from engine.sql import ast, tree
from engine.sql.analyze import coerce
from engine.sql.analyze.domains import to_domain
from engine.sql.analyze.errors import fail, refuse
from engine.sql.analyze.state import State
from engine.sql.analyze.subscripts import hstore_key, jsonb_path, part_number, subscript
from engine.sql.analyze.typeinfo import BOOL_REF, element_type, facts, type_name
from engine.sql.tree_walk import is_volatile

_REWRITE = "You will need to rewrite or cast the expression."
_Store = Callable[[tree.Expr], tree.Expr]
"""Makes the expression for the new content of a column from the expression for its present content."""


def check_default(target: ast.ResTarget) -> NoReturn:
    """0A000 for DEFAULT as the value of a part."""
    what = "an array element" if isinstance(target.indirection[0], ast.Subscript) else "a subfield"
    fail("0A000", f"cannot set {what} to DEFAULT", target)


TO_VARIABLE = "assignment"
"""The clause for a variable of PL/pgSQL, whose parts take values of every type, by their texts."""


def store_part(
    state: State, before: tree.Expr, column: Column, target: ast.ResTarget, value: tree.Expr, kind: str
) -> tree.Expr:
    """The column after `value` was stored in `target`, a part of it. `kind`: the clause, for messages.

    Raises 42804, 42703 and 42846 for a part that does not exist or has another type. The conditions of the column's own
    domain are rules of the table, which are checked at the end.
    """
    saved, state.kind = state.kind, kind
    part = _Part(state, value, target.location)
    plain = TypeRef(column.type.oid, column.type.typmod)
    result = part.store_value(before, plain, column.name, target.indirection, subscripting=False)
    state.kind = saved
    return result


class _Part:
    """One assignment: the value, and the path to its place."""

    def __init__(self, state: State, value: tree.Expr, location: int) -> None:
        self.state = state
        self.value = value
        self.location = location

    def store_value(
        self,
        before: tree.Expr,
        type_: TypeRef,
        name: str,
        steps: tuple[ast.Subscript | str, ...],
        *,
        subscripting: bool,
    ) -> tree.Expr:
        """The new value of a place of this type, whose value was `before`, after `value` is stored at the end of
        `steps`."""
        if not steps:
            return self._coerce(type_, name, subscripting)
        count = next((at for at, step in enumerate(steps) if not isinstance(step, ast.Subscript)), len(steps))
        if count:
            result = self._element(before, type_, name, list(steps[:count]), steps[count:])  # type: ignore[arg-type]
        else:
            result = self._field(before, type_, name, steps)
        return to_domain(self.state.environment, result, type_, False, self.location) if type_.domain else result

    def _coerce(self, type_: TypeRef, name: str, subscripting: bool) -> tree.Expr:
        result = coerce.coerce(self.state, self.value, type_, "a")
        if result is None and self.state.kind == TO_VARIABLE:
            return tree.CoerceViaIO(self.value, type_)
        if result is None:
            wanted, given = type_name(type_.declared), type_name(self.value.type.oid)
            message = f'subfield "{name}" is of type {wanted} but expression is of type {given}'
            if subscripting:
                message = f'subscripted assignment to "{name}" requires type {wanted} but expression is of type {given}'
            fail("42804", message, self.location, hint=_REWRITE)
        return result

    def _field(
        self, before: tree.Expr, type_: TypeRef, column: str, steps: tuple[ast.Subscript | str, ...]
    ) -> tree.Expr:
        name = steps[0]
        assert isinstance(name, str)
        if name == "*":
            fail("0A000", 'row expansion via "*" is not supported here', self.location)
        entry = entry_of(type_.oid)
        at = f'cannot assign to field "{name}" of column "{column}" because'
        shown = type_name(type_.declared)
        if entry is None or not isinstance(entry.sql_type, CompositeType):
            fail("42804", f"{at} its type {shown} is not a composite type", self.location)
        fields = entry.sql_type.fields
        number = next((at for at, (known, _) in enumerate(fields, 1) if known == name), 0)
        if not number:
            fail("42703", f"{at} there is no such column in data type {shown}", self.location)
        elements = list(_fields_of(before, fields))
        elements[number - 1] = self.store_value(
            elements[number - 1], fields[number - 1][1], name, steps[1:], subscripting=False
        )
        return tree.RowExpr(tuple(elements), tuple(known for known, _ in fields), TypeRef(type_.oid), self.location)

    def _element(
        self,
        before: tree.Expr,
        type_: TypeRef,
        name: str,
        subscripts: list[ast.Subscript],
        rest: tuple[ast.Subscript | str, ...],
    ) -> tree.Expr:
        if type_.oid == JSONB:
            return self._in_jsonb(before, name, subscripts, rest)
        if type_.oid == oids.HSTORE:
            return self._in_hstore(before, type_, name, subscripts, rest)
        if type_.oid in STORES:
            return self._in_fixed(before, type_, name, subscripts, rest)
        if not element_type(type_.oid):
            if facts(type_.oid).subscript:
                refuse(f"assignment to a subscript of type {type_name(type_.oid)}", self.location)
            message = f"cannot subscript type {type_name(type_.declared)} because it does not support subscripting"
            fail("42804", message, self.location if isinstance(before, tree.Var) else -1)
        place = subscript(self.state, before, subscripts, self.location)
        assert isinstance(place, tree.SubscriptingRef)
        wanted = TypeRef(type_.oid, type_.typmod) if place.is_slice else self._element_type(type_)
        if not rest:
            stored = self.store_value(place, wanted, name, (), subscripting=True)
            return replace(place, type=before.type, assignment=stored)
        return self._replace(before, place, lambda held: self.store_value(held, wanted, name, rest, subscripting=True))

    def _element_type(self, type_: TypeRef) -> TypeRef:
        known = self.state.environment.catalog.user_types.get(type_.domain)
        return TypeRef(element_type(type_.oid), type_.typmod, known.row.element if known is not None else 0)

    def _replace(self, array: tree.Expr, place: tree.SubscriptingRef, make: _Store) -> tree.Expr:
        """The array with the result of `make` at a place. `make` gets the value that this statement has stored there,
        if it has."""
        below: list[tree.SubscriptingRef] = []  # stores at other places
        base = array
        while isinstance(base, tree.SubscriptingRef) and base.assignment is not None:
            if _same_place(base, place):
                base = replace(base, assignment=make(base.assignment))
                for store in reversed(below):
                    base = replace(store, argument=base)
                return base
            if not (_is_constant(base) and _is_constant(place)):
                break
            below.append(base)
            base = base.argument
        if is_volatile(base):
            refuse("a field of an element at a computed place, next to a value that is volatile", self.location)
        return replace(place, argument=array, type=array.type, assignment=make(replace(place, argument=base)))

    def _in_fixed(
        self,
        before: tree.Expr,
        type_: TypeRef,
        name: str,
        subscripts: list[ast.Subscript],
        rest: tuple[ast.Subscript | str, ...],
    ) -> tree.Expr:
        """A coordinate of a point, a corner of a box and so on."""
        function = registry.function(STORES[type_.oid])
        number = part_number(self.state, subscripts, "updates on slices of fixed-length arrays not implemented")
        part = TypeRef(function.argument_types[2])
        held = subscript(self.state, before, subscripts, self.location)
        stored = self.store_value(held, part, name, rest, subscripting=True)
        return tree.FuncExpr(function, (before, number, stored), type_, None, "call", False, self.location)

    def _in_hstore(
        self,
        before: tree.Expr,
        type_: TypeRef,
        name: str,
        subscripts: list[ast.Subscript],
        rest: tuple[ast.Subscript | str, ...],
    ) -> tree.Expr:
        key = hstore_key(self.state, subscripts, self.location)
        stored = self.store_value(before, TypeRef(oids.TEXT), name, rest, subscripting=True)
        function = registry.function(HSTORE_ASSIGN)
        return tree.FuncExpr(function, (before, key, stored), type_, None, "call", False, self.location)

    def _in_jsonb(
        self,
        before: tree.Expr,
        name: str,
        subscripts: list[ast.Subscript],
        rest: tuple[ast.Subscript | str, ...],
    ) -> tree.Expr:
        path, first_is_number = jsonb_path(self.state, subscripts, self.location)
        stored = self.store_value(before, TypeRef(JSONB), name, rest, subscripting=True)
        function = registry.function(ASSIGN)
        arguments = (before, path, stored, tree.Const(first_is_number, BOOL_REF))
        return tree.FuncExpr(function, arguments, TypeRef(JSONB), None, "call", False, self.location)


def _fields_of(row: tree.Expr, fields: tuple[tuple[str, TypeRef], ...]) -> tuple[tree.Expr, ...]:
    if isinstance(row, tree.RowExpr):
        return row.elements
    if isinstance(row, tree.Const) and row.value is None:
        return tuple(tree.Const(None, type_) for _, type_ in fields)
    return tuple(tree.FieldSelect(row, number, name, type_) for number, (name, type_) in enumerate(fields, 1))


def _same_place(one: tree.SubscriptingRef, other: tree.SubscriptingRef) -> bool:
    return not one.is_slice and one.upper == other.upper and not is_volatile(one.upper)


def _is_constant(place: tree.SubscriptingRef) -> bool:
    return not place.is_slice and all(isinstance(item, tree.Const) for item in place.upper)
