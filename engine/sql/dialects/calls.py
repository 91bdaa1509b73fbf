"""Calls: functions by their names in the dialect, aggregates, windows, and calls with a special syntax."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sqlglot.expressions as exp

from engine.sql.dialects import date_functions, functions
from engine.sql.dialects.functions import Call
from engine.sql.dialects.writer import Writer, construct, text_of

_FRAMED = ("FIRST_VALUE", "LAST_VALUE", "NTH_VALUE")
_EDGES = {"UNBOUNDED PRECEDING", "UNBOUNDED FOLLOWING", "CURRENT ROW"}


def _call(writer: Writer, node: Any) -> str:
    name, arguments = writer.take(node, "this", "expressions")
    if not isinstance(name, str):
        writer.refuse(construct(node), node)
    call = Call(writer, node, name.upper(), list(arguments or ()))
    if call.name in functions.WINDOW_FUNCTIONS and not isinstance(node.parent, exp.Window | exp.RespectNulls):
        writer.refuse(f"{call.name} without OVER", node)
    write = functions.find(writer.dialect, call.name)
    if write is None:
        call.refuse()
    return write(call)


def has_aggregate(node: Any) -> bool:
    """Whether the select list of a query contains an aggregate, or may contain one."""
    return any(
        isinstance(found, exp.GroupConcat | exp.Window)
        or (isinstance(found, exp.Anonymous) and str(found.name).upper() in functions.AGGREGATES)
        for item in node.expressions
        for found in item.walk()
    )


# ---- windows -------------------------------------------------------------------------------------------------------


def _window(writer: Writer, node: Any) -> str:
    call, partition, order, spec, alias, over = writer.take(
        node, "this", "partition_by", "order", "spec", "alias", "over"
    )
    if over is not None and str(over).upper() != "OVER":
        writer.refuse(str(over), node)
    if isinstance(node.parent, exp.Select) and node.arg_key == "windows":  # WINDOW name AS (...)
        return f"{writer.name(call)} AS ({_inside(writer, partition, order, spec, alias)})"
    function = call.this if isinstance(call, exp.RespectNulls) else call
    name = str(function.name).upper() if isinstance(function, exp.Anonymous) else ""
    if name not in functions.WINDOW_FUNCTIONS and name not in functions.AGGREGATES:
        writer.refuse(f"{name or construct(function)} OVER", node)
    if name in functions.NOT_IN_WINDOWS.get(writer.dialect, ()):
        writer.refuse(f"{name} OVER", node)
    text = writer.text(call)
    if alias is not None and not (partition or order or spec):
        return f"{text} OVER {writer.name(alias)}"
    inside = _inside(writer, partition, order, spec, alias)
    if writer.dialect == "snowflake" and name in _FRAMED and order is not None and spec is None:
        inside += " ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"  # the dialect's default frame
    return f"{text} OVER ({inside})"


def _inside(writer: Writer, partition: Any, order: Any, spec: Any, alias: Any) -> str:
    words = []
    if alias is not None:
        words.append(writer.name(alias))
    if partition:
        words.append(f"PARTITION BY {writer.write_list(partition)}")
    if order is not None:
        words.append(writer.text(order))
    if spec is not None:
        words.append(writer.text(spec))
    return " ".join(words)


def _frame(writer: Writer, node: Any) -> str:
    kind, start, start_side, end, end_side = writer.take(node, "kind", "start", "start_side", "end", "end_side")
    first = _edge(writer, start, start_side)
    if end is None and not end_side:
        return f"{kind} {first}"
    return f"{kind} BETWEEN {first} AND {_edge(writer, end, end_side)}"


def _edge(writer: Writer, value: Any, side: Any) -> str:
    if value is None:
        writer.refuse("frame without an end")
    text = value if isinstance(value, str) else writer.operand(value)
    edge = f"{text} {side or ''}".strip()
    if isinstance(value, str) and edge not in _EDGES:
        writer.refuse(edge)
    return edge


def _respect_nulls(writer: Writer, node: Any) -> str:
    """RESPECT NULLS, which PostgreSQL's window functions always do."""
    (call,) = writer.take(node, "this")
    return writer.text(call)


# ---- special syntax ------------------------------------------------------------------------------------------------


def _distinct(writer: Writer, node: Any) -> str:
    (items,) = writer.take(node, "expressions")
    if len(items) != 1:
        writer.refuse("DISTINCT of several values", node)
    return f"DISTINCT {writer.text(items[0])}"


def _joined_strings(writer: Writer, node: Any) -> str:
    """GROUP_CONCAT, STRING_AGG, LISTAGG, with ORDER BY inside or WITHIN GROUP after them."""
    value, separator = writer.take(node, "this", "separator")
    order, distinct = None, ""
    if isinstance(value, exp.Order):
        order, value = value, value.this
    if isinstance(value, exp.Distinct):
        (items,) = writer.take(value, "expressions")
        if len(items) != 1:
            writer.refuse("DISTINCT of several values", value)
        value, distinct = items[0], "DISTINCT "
        if isinstance(value, exp.Order):
            order, value = value, value.this
    sorted_by = ""
    if order is not None:
        items = writer.take(order, "this", "expressions")[1]
        sorted_by = f" ORDER BY {writer.write_list(items)}"
    default = "','" if writer.dialect in ("mysql", "bigquery", "duckdb") else "''"
    between = default if separator is None else writer.text(separator)
    return f"string_agg({distinct}CAST({writer.text(value)} AS text), {between}{sorted_by})"


def _substring(writer: Writer, node: Any) -> str:
    """SUBSTRING(x FROM a FOR b) and SUBSTRING(x, a, b)."""
    value, start, length = writer.take(node, "this", "start", "length", "zero_start")[:3]
    arguments = [item for item in (value, start, length) if item is not None]
    write = functions.find(writer.dialect, "SUBSTRING") or functions.find(writer.dialect, "SUBSTR")
    call = Call(writer, node, "SUBSTRING", arguments)
    if write is None:
        call.refuse()
    return write(call)


def _trim(writer: Writer, node: Any) -> str:
    """TRIM(BOTH x FROM y). Dialects differ if x has several characters."""
    value, characters, side = writer.take(node, "this", "expression", "position")
    name = {"": "btrim", "BOTH": "btrim", "LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(side or "").upper())
    if name is None or writer.dialect == "bigquery":
        writer.refuse("TRIM", node)
    if characters is None:
        found = f"{name}({writer.text(value)}, ' ')"
    else:
        literal = text_of(characters)
        if writer.dialect in ("mysql", "oracle") and (literal is None or len(literal) != 1):
            writer.refuse("TRIM of several characters", node)
        found = f"{name}({writer.text(value)}, {writer.text(characters)})"
    return f"NULLIF({found}, '')" if writer.traits.empty_is_null else found


def _position(writer: Writer, node: Any) -> str:
    """POSITION(a IN b)."""
    value, part = writer.take(node, "this", "substr", "clamp_position")[:2]
    if writer.dialect in ("tsql", "oracle"):
        writer.refuse("POSITION", node)
    return f"strpos({writer.text(value)}, {writer.text(part)})"


def _extract(writer: Writer, node: Any) -> str:
    unit, value = writer.take(node, "this", "expression")
    return date_functions.extract(writer, node, unit.name.upper(), value)


WRITERS: dict[type, Callable[[Writer, Any], str]] = {
    exp.Anonymous: _call,
    exp.Window: _window,
    exp.WindowSpec: _frame,
    exp.RespectNulls: _respect_nulls,
    exp.Distinct: _distinct,
    exp.GroupConcat: _joined_strings,
    exp.Substring: _substring,
    exp.Trim: _trim,
    exp.StrPosition: _position,
    exp.Extract: _extract,
}
