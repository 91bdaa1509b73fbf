"""Domains: the checks of a cast to a domain, and of stored values.

In the tree, values of a domain have its base type (catalog.types.base.TypeRef.domain is the domain), so functions,
operators and both paths need no special case. A cast adds a `CoerceToDomain` with the conditions of the domain and of
the domains below it. Columns are checked by rules of their table (`column_rule`), for all sources of rows. If a
composite type has attributes of domains, an expression that makes its values from something else than attributes (its
text form, JSON, a client's parameter) is wrapped in the conditions of all of them: `add_checks`.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import replace

from catalog.catalog import Catalog
from catalog.schema import Column, Domain
from catalog.types import oids
from catalog.types.base import TypeRef
from catalog.types.composite import CompositeType
from catalog.types.user import FIRST_USER_OID, entry_of
from engine.sql import ast, tree
from engine.sql.analyze import typeinfo
from engine.sql.analyze.dispatch import ConditionNode, condition
from engine.sql.analyze.environment import Environment
from engine.sql.analyze.state import Shared, State
from engine.sql.analyze.typeinfo import element_type, type_name
from engine.sql.parser import parse_expression

BOOL = TypeRef(oids.BOOL)


def lineage(catalog: Catalog, oid: int) -> list[Domain]:
    """The domain and the domains below it, innermost first."""
    found: list[Domain] = []
    item = catalog.get(oid)
    while isinstance(item, Domain):
        found.append(item)
        item = catalog.get(item.base_oid)
    return found[::-1]


def domain_default(catalog: Catalog, type_: TypeRef) -> str | None:
    """The default of a column of this type without a default of its own."""
    for item in reversed(lineage(catalog, type_.domain)):
        if item.default is not None:
            return item.default
    return None


def analyze_check(
    node: ast.Node, environment: Environment, type_: TypeRef, value: tree.Expr | None = None
) -> tree.Expr:
    """A domain's condition as a boolean expression over `value`, by default over VALUE."""
    shared = Shared(environment, ())
    shared.domain_value = value if value is not None else tree.DomainValue(TypeRef(type_.oid, type_.typmod))
    return condition(State(shared), ConditionNode(node, "check constraints", "CHECK"))


def to_domain(environment: Environment, expr: tree.Expr, target: TypeRef, explicit: bool, location: int) -> tree.Expr:
    """The expression, which has the base type, as a value of the domain (or as an array of such values)."""
    item = environment.catalog.get(target.domain)
    if item is None:
        return _each_to_domain(environment, expr, target, explicit, location)
    assert isinstance(item, Domain)
    name = type_name(item.oid)
    not_null, checks = False, []
    for part in lineage(environment.catalog, item.oid):
        not_null = not_null or part.not_null
        for check in sorted(part.checks, key=lambda check: check.name):
            assert check.check is not None
            checks.append((check.name, _bind(check.check, environment, item.type)))
    return tree.CoerceToDomain(expr, target, name, not_null, tuple(checks), not explicit, location)


def _bind(text: str, environment: Environment, type_: TypeRef) -> tree.Expr:
    inside = Environment(
        environment.catalog, ("pg_catalog", "public"), environment.user_name, environment.database_name
    )
    try:
        return analyze_check(parse_expression(text), inside, type_)
    finally:
        environment.make_current()


def _each_to_domain(
    environment: Environment, expr: tree.Expr, target: TypeRef, explicit: bool, location: int
) -> tree.Expr:
    entry = environment.catalog.user_types[target.domain]
    element = TypeRef(element_type(target.oid), target.typmod, entry.row.element)
    inner = tree.CaseTestExpr(TypeRef(element.oid, element.typmod))
    step = to_domain(environment, inner, element, explicit, location)
    return tree.ArrayCoerce(expr, step, target, location)


def has_conditions(catalog: Catalog, type_: TypeRef) -> bool:
    """Whether some value of the base type is not a value of the type, because of the domain or of a domain within
    it."""
    items = lineage(catalog, type_.domain)
    if any(item.not_null or item.checks for item in items):
        return True
    return any(has_conditions(catalog, part) for part in _parts(catalog, type_))


def _parts(catalog: Catalog, type_: TypeRef) -> tuple[TypeRef, ...]:
    """The types of a type's attributes or elements, which may be domains."""
    if type_.oid < FIRST_USER_OID and type_.domain == 0:
        return ()
    element = _element(catalog, type_)
    if element is not None:
        return (element,)
    entry = catalog.user_types.get(type_.oid)
    known = entry.sql_type if entry is not None else None
    return tuple(field for _, field in known.fields) if isinstance(known, CompositeType) else ()


def within(catalog: Catalog, type_: TypeRef, domains: Container[int]) -> bool:
    """Whether values of the type contain values of one of the domains."""
    return any(part.domain in domains or within(catalog, part, domains) for part in _parts(catalog, type_))


def _element(catalog: Catalog, type_: TypeRef) -> TypeRef | None:
    """The type of an array's elements with their domain; None if it is not an array."""
    oid = element_type(type_.oid)
    if not oid:
        return None
    over = catalog.user_types.get(type_.domain)  # of a domain over arrays, that domain's own entry: it has no element
    return TypeRef(oid, type_.typmod, over.row.element if over is not None else 0)


def add_checks(environment: Environment, expr: tree.Expr, type_: TypeRef) -> tree.Expr:
    """The expression, a value of `type_`'s base type, with checks of all domains in it."""
    catalog = environment.catalog
    if not has_conditions(catalog, type_):
        return expr
    if any(item.not_null or item.checks for item in lineage(catalog, type_.domain)):
        expr = to_domain(environment, expr, type_, False, -1)
    parts = _parts(catalog, type_)
    if not any(has_conditions(catalog, part) for part in parts):
        return expr
    plain = TypeRef(type_.oid, type_.typmod)
    element = _element(catalog, type_)
    if element is not None:
        step = add_checks(environment, tree.CaseTestExpr(TypeRef(element.oid, element.typmod)), element)
        return tree.ArrayCoerce(expr, step, plain)
    value = tree.DomainValue(plain)
    entry = catalog.user_types[type_.oid]
    assert isinstance(entry.sql_type, CompositeType)
    rules: list[tree.Expr] = []
    for number, (name, field) in enumerate(entry.sql_type.fields, 1):
        if has_conditions(catalog, field):
            attribute = tree.FieldSelect(value, number, name, TypeRef(field.oid, field.typmod))
            rules.append(tree.DomainRule(add_checks(environment, attribute, field), BOOL))
    absent = tree.NullTest(value, True, whole=True)
    met = tree.CaseExpr(None, ((absent, tree.Const(True, BOOL)),), tree.BoolExpr("and", tuple(rules)), BOOL)
    return tree.CoerceToDomain(expr, plain, "", False, (("", met),))


def column_rule(environment: Environment, column: Column) -> tree.Expr:
    """A condition that is TRUE, or raises the errors of a cast of the column's value to its type."""
    value = tree.Var(0, column.number, TypeRef(column.type.oid, column.type.typmod), name=column.name)
    return value_rule(environment, value, column.type)


def value_rule(environment: Environment, value: tree.Expr, type_: TypeRef) -> tree.Expr:
    """A condition that is TRUE for a value of `type_`, and raises otherwise."""
    return tree.DomainRule(add_checks(environment, value, type_), BOOL)


def base_types(oids: tuple[int, ...]) -> tuple[int, ...]:
    """The OIDs that a client gave for parameters, with base types in place of domains."""
    if all(oid < FIRST_USER_OID for oid in oids):
        return oids
    return tuple(_base(oid) for oid in oids)


def given_domains(catalog: Catalog, oids: Sequence[int]) -> dict[int, TypeRef]:
    """The domains among the types that a client gave for $1, $2, ...: the base type with the domain, by number."""
    found = {}
    for number, oid in enumerate(oids, 1):
        item = catalog.get(oid) if oid >= FIRST_USER_OID else None
        if isinstance(item, Domain):
            found[number] = replace(item.type, domain=oid)
    return found


def _base(oid: int) -> int:
    while (fact := typeinfo.facts(oid)).kind == "d":
        entry = entry_of(oid)
        assert entry is not None
        oid = entry.row.base
    element = fact.element
    if element >= FIRST_USER_OID and typeinfo.facts(element).kind == "d":
        return typeinfo.array_type(_base(element))
    return oid
