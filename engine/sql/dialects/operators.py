"""Operators."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import sqlglot.expressions as exp

from engine.sql.dialects.values import is_date, is_of_days
from engine.sql.dialects.writer import Write, Writer, construct, integer_of, text_of

_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*\Z")


def _infix(symbol: str) -> Write:
    def write(writer: Writer, node: Any) -> str:
        left, right = writer.take(node, "this", "expression")
        return f"{writer.operand(left)} {symbol} {writer.operand(right)}"

    return write


def _connective(symbol: str) -> Write:
    """Returns the writer of AND or OR. A chain of the same operator needs no parentheses."""

    def write(writer: Writer, node: Any) -> str:
        left, right = writer.take(node, "this", "expression")
        first = writer.text(left) if type(left) is type(node) else writer.operand(left)
        return f"{first} {symbol} {writer.operand(right)}"

    return write


def _paren(writer: Writer, node: Any) -> str:
    (inner,) = writer.take(node, "this")
    return f"({writer.text(inner)})"


def _not(writer: Writer, node: Any) -> str:
    (inner,) = writer.take(node, "this")
    if isinstance(inner, exp.Is) and isinstance(inner.expression, exp.Null | exp.Boolean):
        left, right = writer.take(inner, "this", "expression")
        return f"{writer.operand(left)} IS NOT {writer.text(right)}"
    return f"NOT {writer.operand(inner)}"


def _negative(writer: Writer, node: Any) -> str:
    (inner,) = writer.take(node, "this")
    return f"-{writer.operand(inner)}"


def _add(writer: Writer, node: Any) -> str:
    left, right = writer.take(node, "this", "expression")
    if writer.dialect == "tsql":
        strings = [_is_text(writer, item) for item in (left, right)]
        if any(strings):
            for item, other in ((left, strings[1]), (right, strings[0])):
                value = text_of(item)
                if not other and value is not None and (not value.strip() or _NUMBER.match(value)):
                    writer.refuse("+ of a string that may be a number", node)
            return _concatenation(writer, node)
    return _sum(writer, left, right, "+")


def _concatenation(writer: Writer, node: Any) -> str:
    """Writes T-SQL's + of strings as textcat, which accepts only strings: if one operand is a string, the others are
    too, or T-SQL would also fail."""
    if isinstance(node, exp.Paren):
        return _concatenation(writer, writer.take(node, "this")[0])
    if not isinstance(node, exp.Add):
        return writer.text(node)
    left, right = writer.take(node, "this", "expression")
    return f"textcat({_concatenation(writer, left)}, {_concatenation(writer, right)})"


def _subtract(writer: Writer, node: Any) -> str:
    left, right = writer.take(node, "this", "expression")
    return _sum(writer, left, right, "-")


def _sum(writer: Writer, left: Any, right: Any, sign: str) -> str:
    """Writes a sum or a difference. A date plus an interval of days or longer is a date in some dialects, and a
    timestamp in PostgreSQL."""
    found = f"{writer.operand(left)} {sign} {writer.operand(right)}"
    if writer.traits.keeps_dates and isinstance(right, exp.Interval) and is_date(left) and is_of_days(right):
        return f"CAST({found} AS date)"
    return found


def _is_text(writer: Writer, node: Any) -> bool:
    """Whether an operand of T-SQL's + is a string for any types of columns."""
    if isinstance(node, exp.Paren):
        return _is_text(writer, node.this)
    if isinstance(node, exp.Add):
        return _is_text(writer, node.this) or _is_text(writer, node.expression)
    if isinstance(node, exp.Cast):
        return node.to.this in exp.DataType.TEXT_TYPES
    if isinstance(node, exp.Convert):
        return node.this.this in exp.DataType.TEXT_TYPES
    if isinstance(node, exp.Anonymous):
        return str(node.name).upper() in _TEXT_FUNCTIONS
    return text_of(node) is not None or isinstance(node, exp.Substring | exp.Trim)


_TEXT_FUNCTIONS = frozenset(("CONCAT", "UPPER", "LOWER", "LTRIM", "RTRIM", "LEFT", "RIGHT", "REPLACE", "REPLICATE"))


def _divide(writer: Writer, node: Any) -> str:
    left, right = writer.take(node, "this", "expression", "typed", "safe")[:2]
    traits = writer.traits
    above, below = writer.operand(left), writer.operand(right)
    if traits.null_on_zero and not integer_of(right):
        below = f"NULLIF({writer.text(right)}, 0)"
    if traits.divides_in_double:
        return f"CAST({writer.text(left)} AS double precision) / {below}"
    if traits.divides_exactly and not (_has_fraction(left) or _has_fraction(right)):
        # An integer times 1.0 is numeric; other types do not change.
        return f"{above} * 1.0 / {below}"
    return f"{above} / {below}"


def _has_fraction(node: Any) -> bool:
    """Whether the node is a number with a decimal point, which PostgreSQL divides with a fraction."""
    return isinstance(node, exp.Literal) and not node.args.get("is_string") and "." in node.this


def _remainder(writer: Writer, node: Any) -> str:
    left, right = writer.take(node, "this", "expression")
    below = writer.operand(right)
    if writer.traits.null_on_zero and not integer_of(right):
        below = f"NULLIF({writer.text(right)}, 0)"
    return f"{writer.operand(left)} % {below}"


def _whole_quotient(writer: Writer, node: Any) -> str:
    """DIV of MySQL and Spark."""
    left, right = writer.take(node, "this", "expression")
    if writer.dialect not in ("mysql", "spark"):
        writer.refuse(construct(node), node)
    below = writer.text(right)
    if writer.traits.null_on_zero and not integer_of(right):
        below = f"NULLIF({below}, 0)"
    return f"CAST(div({writer.text(left)}, {below}) AS bigint)"


def _power(writer: Writer, node: Any) -> str:
    left, right = writer.take(node, "this", "expression")
    if writer.dialect != "duckdb":
        writer.refuse(construct(node), node)
    return f"power(CAST({writer.text(left)} AS double precision), {writer.text(right)})"


def _double_bar(writer: Writer, node: Any) -> str:
    left, right = writer.take(node, "this", "expression", "safe")[:2]
    if writer.dialect == "tsql":
        writer.refuse(construct(node), node)
    if writer.traits.empty_is_null:  # NULL and the empty string are the same
        return f"NULLIF(concat({writer.text(left)}, {writer.text(right)}), '')"
    first = writer.text(left) if isinstance(left, exp.DPipe) else writer.operand(left)
    return f"{first} || {writer.operand(right)}"


def _is(writer: Writer, node: Any) -> str:
    left, right = writer.take(node, "this", "expression")
    if not isinstance(right, exp.Null | exp.Boolean):
        writer.refuse("IS", node)
    return f"{writer.operand(left)} IS {writer.text(right)}"


def _between(writer: Writer, node: Any) -> str:
    value, low, high = writer.take(node, "this", "low", "high")
    return f"{writer.operand(value)} BETWEEN {writer.operand(low)} AND {writer.operand(high)}"


def _in(writer: Writer, node: Any) -> str:
    value, items, query = writer.take(node, "this", "expressions", "query")
    if query is not None and not items:
        found = writer.text(query)
        return f"{writer.operand(value)} IN {found if isinstance(query, exp.Subquery) else f'({found})'}"
    if not items or query is not None:
        writer.refuse("IN of other than a list or a query", node)
    return f"{writer.operand(value)} IN ({writer.write_list(items)})"


def _exists(writer: Writer, node: Any) -> str:
    (query,) = writer.take(node, "this")
    found = writer.text(query)
    return f"EXISTS {found if isinstance(query, exp.Subquery) else f'({found})'}"


def _quantifier(word: str) -> Write:
    """Returns the writer of ANY or ALL with a query."""

    def write(writer: Writer, node: Any) -> str:
        (query,) = writer.take(node, "this")
        if not isinstance(query, exp.Query):
            writer.refuse(f"{word} of other than a query", node)
        found = writer.text(query)
        return f"{word} {found if isinstance(query, exp.Subquery) else f'({found})'}"

    return write


# ---- patterns ------------------------------------------------------------------------------------------------------


def _like(writer: Writer, node: Any) -> str:
    return _pattern(writer, node, None)


def _escape(writer: Writer, node: Any) -> str:
    match, character = writer.take(node, "this", "expression")
    value = text_of(character)
    if not isinstance(match, exp.Like | exp.ILike) or value is None or len(value) != 1:
        writer.refuse("ESCAPE", node)
    return _pattern(writer, match, value)


def _pattern(writer: Writer, node: Any, escape: str | None) -> str:
    value, pattern, negate = writer.take(node, "this", "expression", "negate")
    symbol = "ILIKE" if isinstance(node, exp.ILike) else "LIKE"
    if symbol == "ILIKE" and not writer.traits.has_ilike:
        writer.refuse(symbol, node)
    if isinstance(pattern, exp.Any | exp.All | exp.Tuple | exp.Paren | exp.Subquery):
        writer.refuse(f"{symbol} {construct(pattern)}", node)
    literal = text_of(pattern)
    if writer.dialect == "tsql" and (literal is None or "[" in literal):
        writer.refuse("LIKE with a set of characters", node)  # a pattern that is not constant may contain one
    found = f"{writer.operand(value)} {'NOT ' if negate else ''}{symbol} {writer.operand(pattern)}"
    if escape is not None:
        return f"{found} ESCAPE '{escape.replace(chr(39), chr(39) * 2)}'"
    if writer.traits.escapes_like or (literal is not None and "\\" not in literal):
        return found
    return f"{found} ESCAPE ''"


# ---- conditions ----------------------------------------------------------------------------------------------------


def _case(writer: Writer, node: Any) -> str:
    value, branches, default = writer.take(node, "this", "ifs", "default")
    words = ["CASE"] if value is None else ["CASE", writer.operand(value)]
    for branch in branches:
        condition, result = writer.take(branch, "this", "true")
        words.append(f"WHEN {writer.text(condition)} THEN {writer.text(result)}")
    if default is not None:
        words.append(f"ELSE {writer.text(default)}")
    return " ".join((*words, "END"))


def _if(writer: Writer, node: Any) -> str:
    condition, yes, no = writer.take(node, "this", "true", "false")
    if writer.dialect not in ("mysql", "spark", "bigquery", "duckdb"):
        writer.refuse("IF", node)
    otherwise = "" if no is None else f" ELSE {writer.text(no)}"
    return f"CASE WHEN {writer.text(condition)} THEN {writer.text(yes)}{otherwise} END"


WRITERS: dict[type, Callable[[Writer, Any], str]] = {
    exp.Paren: _paren,
    exp.And: _connective("AND"),
    exp.Or: _connective("OR"),
    exp.Not: _not,
    exp.Neg: _negative,
    exp.Add: _add,
    exp.Sub: _subtract,
    exp.Mul: _infix("*"),
    exp.Div: _divide,
    exp.Mod: _remainder,
    exp.IntDiv: _whole_quotient,
    exp.Pow: _power,
    exp.DPipe: _double_bar,
    exp.EQ: _infix("="),
    exp.NEQ: _infix("<>"),
    exp.LT: _infix("<"),
    exp.LTE: _infix("<="),
    exp.GT: _infix(">"),
    exp.GTE: _infix(">="),
    exp.NullSafeEQ: _infix("IS NOT DISTINCT FROM"),
    exp.NullSafeNEQ: _infix("IS DISTINCT FROM"),
    exp.Is: _is,
    exp.Between: _between,
    exp.In: _in,
    exp.Exists: _exists,
    exp.Any: _quantifier("ANY"),
    exp.All: _quantifier("ALL"),
    exp.Like: _like,
    exp.ILike: _like,
    exp.Escape: _escape,
    exp.Case: _case,
    exp.If: _if,
}
