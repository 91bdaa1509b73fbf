"""Calls with the syntax of SQL/XML as SQL text (get_rule_expr for XmlExpr)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from catalog.functions.xml_names import IS_DOCUMENT, sql_name
from engine.sql import tree
from engine.sql.deparse_names import quote_identifier

if TYPE_CHECKING:
    from engine.sql.deparse_expressions import ExpressionPrinter

_STANDALONE = {1: ", STANDALONE YES", 0: ", STANDALONE NO", -1: ", STANDALONE NO VALUE", -2: ""}


def _value(expr: tree.Expr) -> object:
    """The value of a constant, which may have got its type by a cast."""
    while isinstance(expr, tree.FuncExpr) and len(expr.arguments) == 1:
        expr = expr.arguments[0]
    return expr.value if isinstance(expr, tree.Const) else None


def xml_syntax(printer: ExpressionPrinter, expr: tree.FuncExpr) -> bool:
    """Prints a call of one of these functions. Returns False for other calls."""
    name, arguments = expr.function.name, expr.arguments
    if name == "xmlelement":
        _element(printer, arguments)
    elif name == "xmlforest":
        printer.add("XMLFOREST(")
        _print_pairs(printer, arguments)
        printer.add(")")
    elif name == "xmlconcat":
        items = arguments[0].elements if isinstance(arguments[0], tree.ArrayExpr) else arguments
        printer.add("XMLCONCAT(")
        _print_items(printer, items)
        printer.add(")")
    elif name == "xmlpi":
        printer.add(f"XMLPI(NAME {_name_of(arguments[0])}")
        if len(arguments) > 1:
            printer.bare_sequence(", ", arguments[1])
        printer.add(")")
    elif name == "xmlroot":
        printer.bare_sequence("XMLROOT(", arguments[0], ", VERSION ")
        if isinstance(arguments[1], tree.Const) and arguments[1].value is None:
            printer.add("NO VALUE")
        else:
            printer.bare_sequence(arguments[1])
        standalone = _value(arguments[2])
        printer.add(_STANDALONE[standalone if isinstance(standalone, int) else -2] + ")")
    elif name == "xmlparse":
        keeps = "PRESERVE" if _value(arguments[2]) else "STRIP"
        kind = str(_value(arguments[0])).upper()
        printer.bare_sequence(f"XMLPARSE({kind} ", arguments[1], f" {keeps} WHITESPACE)")
    elif name == "xmlserialize":
        kind = str(_value(arguments[0])).upper()
        printer.bare_sequence(f"XMLSERIALIZE({kind} ", arguments[1], " AS text)")
    elif name == "xmlexists":
        printer.bare_sequence("XMLEXISTS((", arguments[0], ") PASSING (", arguments[1], "))")
    elif name == IS_DOCUMENT:
        printer.bare_sequence("(", arguments[0], " IS DOCUMENT)")
    else:
        return False
    return True


def _name_of(name: tree.Expr) -> str:
    return quote_identifier(sql_name(str(_value(name))))


def _element(printer: ExpressionPrinter, arguments: Sequence[tree.Expr]) -> None:
    printer.add(f"XMLELEMENT(NAME {_name_of(arguments[0])}")
    count = _value(arguments[1])
    end = 2 + 2 * (count if isinstance(count, int) else 0)
    if end > 2:
        printer.add(", XMLATTRIBUTES(")
        _print_pairs(printer, arguments[2:end])
        printer.add(")")
    if arguments[end:]:
        printer.add(", ")
        _print_items(printer, arguments[end:])
    printer.add(")")


def _print_pairs(printer: ExpressionPrinter, arguments: Sequence[tree.Expr]) -> None:
    for place in range(1, len(arguments), 2):
        value = arguments[place]
        separator = ", " if place > 1 else ""
        printer.bare_sequence(separator, value, f" AS {_name_of(arguments[place - 1])}")


def _print_items(printer: ExpressionPrinter, items: Sequence[tree.Expr]) -> None:
    for place, item in enumerate(items):
        printer.bare_sequence(", " if place else "", item)
