"""The functions that depend on a collation, and their replacements for ICU collations.

`collated_lt` and similar functions (catalog/functions/collated.py) compare by the key of the collated type of their
arguments. `icu_upper`, `icu_lower` and `icu_initcap` take the locale as their last argument. For "C" and similar
collations, `ascii_upper` and others replace upper, lower and initcap, and map the letters of ASCII only.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from catalog.collations import collated_type
from catalog.functions import registry
from catalog.functions.base import Function, Operator
from catalog.functions.collated import CASE_MAPPINGS, FIRST_FUNCTION
from catalog.functions.regex import ASCII
from catalog.types import oids
from catalog.types.base import TypeRef
from catalog.types.collated import Rules
from engine.sql import tree


def ascii_function(function: Function) -> Function:
    """The ASCII version of a function of regular expressions or ILIKE. It has an OID of its own, by which the worker
    distinguishes functions."""
    return replace(function, oid=FIRST_FUNCTION | function.oid, source=ASCII + function.source)


def like_function(function: Function) -> Function:
    """LIKE in place of ILIKE, for texts that are already in lower case."""
    (found,) = registry.functions_named(function.source.replace("ic", "", 1))
    return found


def decides(function: Function, rules: Rules) -> bool:
    """Whether a comparison of texts depends on the collation. Equality depends on it if different texts can be
    equal."""
    return not (rules.deterministic and registry.comparison(function.source) in ("eq", "ne"))


def collated_comparison(function: Function) -> Function:
    """The comparison of collated values that replaces one of texts or arrays."""
    return replace(function, source=f"collated_{registry.comparison(function.source)}")


def collated_pair(function: Function, operator: Operator, type_: TypeRef, rules: Rules) -> tuple[Function, Operator]:
    """The collated comparison with its operator, whose operands have the collated type."""
    oid = collated_type(type_.oid, rules).oid
    return collated_comparison(function), replace(operator, left=oid, right=oid)


def collated_extreme(node: tree.Aggref | tree.WindowFunc, rules: Rules) -> tree.Expr:
    """max or min under a collation: of the collated type, with the original type as result."""
    name = node.function.source.partition("(")[0]
    type_ = collated_type(node.arguments[0].type.oid, rules)
    arguments = (tree.RelabelType(node.arguments[0], type_), *node.arguments[1:])
    function = node.function
    if not function.source.endswith("(anyarray)"):
        function = replace(function, source=f"{name}(collated)")
    return tree.RelabelType(replace(node, function=function, arguments=arguments, type=type_), node.type)


def collated_mapping(node: Any, rules: Rules, name: str = "") -> tree.Expr:
    """upper, lower or initcap with a locale: replaces the call, or (`name`) wraps an expression."""
    text = TypeRef(oids.TEXT)
    if name:
        argument, location = node, -1
    else:
        (argument,), name, location = node.arguments, node.function.source, node.location
    number = CASE_MAPPINGS.index(name)
    function = Function(
        FIRST_FUNCTION + number, name, f"icu_{name}", "f", True, False, "i", (oids.TEXT, oids.TEXT), oids.TEXT, 0, 0
    )
    return tree.FuncExpr(function, (argument, tree.Const(rules.locale, text)), text, location=location)


def ascii_mapping(node: Any, name: str = "") -> tree.Expr:
    """upper, lower or initcap for ASCII letters: replaces the call, or (`name`) wraps an expression."""
    text = TypeRef(oids.TEXT)
    if name:
        argument, location = node, -1
    else:
        (argument,), name, location = node.arguments, node.function.source, node.location
    number = 3 + CASE_MAPPINGS.index(name)
    function = Function(
        FIRST_FUNCTION + number, name, f"ascii_{name}", "f", True, False, "i", (oids.TEXT,), oids.TEXT, 0, 0
    )
    return tree.FuncExpr(function, (argument,), text, location=location)
