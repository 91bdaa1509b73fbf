"""Trees as short text: (+ 1 (* a 2)). Positions and fields that hold their defaults are left out."""

from __future__ import annotations

from dataclasses import MISSING, fields, is_dataclass
from typing import Any

from engine.sql import ast


def shape(node: Any) -> str:
    """An expression in prefix form; any other node as Name(field=...)."""
    if isinstance(node, tuple):
        return "[" + " ".join(shape(item) for item in node) + "]"
    if isinstance(node, ast.Literal):
        return f"'{node.value}'" if node.kind == "string" else f"{node.value}".lower()
    if isinstance(node, ast.ColumnRef):
        return ".".join(node.names)
    if isinstance(node, ast.ParamRef):
        return f"${node.number}"
    if isinstance(node, ast.TypeName):
        return _type(node)
    if isinstance(node, ast.TypeCast):
        return f"(cast {shape(node.argument)} {_type(node.type)})"
    if isinstance(node, ast.Expression):
        name = ".".join(node.operator) if node.kind == "op" else f"{node.kind}"
        return "(" + " ".join([name, *(shape(side) for side in (node.left, node.right) if side is not None)]) + ")"
    if isinstance(node, ast.BoolExpr):
        return "(" + " ".join([node.operator, *map(shape, node.arguments)]) + ")"
    if isinstance(node, ast.ListExpr):
        return shape(node.items)
    if isinstance(node, ast.FuncCall) and _is_plain(node):
        return f"{node.names[-1]}(" + ", ".join(map(shape, node.arguments)) + ")"
    if is_dataclass(node):
        return _generic(node)
    return str(node)


def _type(node: ast.TypeName) -> str:
    modifiers = f"({','.join(node.modifiers)})" if node.modifiers else ""
    return ".".join(node.names).replace("pg_catalog.", "@") + modifiers + "[]" * node.array_dimensions


def _is_plain(node: ast.FuncCall) -> bool:
    special = node.star or node.distinct or node.order_by or node.filter or node.within_group or node.over
    return not special and not node.argument_names and not node.variadic


def _generic(node: Any) -> str:
    shown = []
    for each in fields(node):
        value = getattr(node, each.name)
        is_default = each.default is not MISSING and value == each.default
        if each.name != "location" and not is_default:
            shown.append(f"{each.name}={shape(value)}")
    return f"{type(node).__name__}({', '.join(shown)})"
