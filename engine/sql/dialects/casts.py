"""Types and casts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import sqlglot.expressions as exp
from sqlglot.expressions import DType

from engine.sql.dialects.writer import Writer, construct, text_of

_INTEGERS: Final = frozenset(("smallint", "integer", "bigint"))
# Types that in every dialect are the same as PostgreSQL's type of this name.
_COMMON: Final = {
    DType.SMALLINT: "smallint",
    DType.INT: "integer",
    DType.BIGINT: "bigint",
    DType.DOUBLE: "double precision",
    DType.DATE: "date",
    DType.BOOLEAN: "boolean",
}
# Other types, or types with another meaning, by dialect. None: the dialect has no such type, or PostgreSQL has no
# counterpart.
_TYPES: Final[dict[str, dict[DType, str | None]]] = {
    "mysql": {
        DType.TINYINT: "smallint",
        DType.MEDIUMINT: "integer",
        DType.FLOAT: "real",
        DType.DATETIME: "timestamp(0)",
        DType.TIMESTAMP: "timestamp(0)",
        DType.TIME: "time(0)",
        DType.CHAR: "text",
        DType.VARCHAR: "varchar",
        DType.TEXT: "text",
        DType.TINYTEXT: "text",
        DType.MEDIUMTEXT: "text",
        DType.LONGTEXT: "text",
        DType.DECIMAL: "numeric(10,0)",
        DType.BOOLEAN: None,  # a number in this dialect
    },
    "spark": {
        DType.TINYINT: "smallint",
        DType.FLOAT: "real",
        DType.TEXT: "text",
        DType.VARCHAR: "varchar",
        DType.TIMESTAMPTZ: "timestamp with time zone",
        DType.TIMESTAMPNTZ: "timestamp",
        DType.DECIMAL: "numeric(10,0)",
    },
    "snowflake": {
        DType.TINYINT: "numeric(38,0)",
        DType.SMALLINT: "numeric(38,0)",
        DType.INT: "numeric(38,0)",
        DType.BIGINT: "numeric(38,0)",
        DType.TEXT: "text",
        DType.VARCHAR: "text",
        DType.CHAR: "varchar(1)",
        DType.TIMESTAMP: "timestamp",
        DType.TIMESTAMPNTZ: "timestamp",
        DType.DATETIME: "timestamp",
        DType.TIMESTAMPLTZ: "timestamp with time zone",
        DType.TIME: "time",
        DType.DECIMAL: "numeric(38,0)",
    },
    "bigquery": {
        DType.SMALLINT: "bigint",
        DType.INT: "bigint",
        DType.TEXT: "text",
        DType.TIMESTAMP: "timestamp",  # sqlglot's name for this dialect's DATETIME
        DType.TIMESTAMPTZ: "timestamp with time zone",
        DType.DATETIME: "timestamp",
        DType.TIME: "time",
        DType.DECIMAL: "numeric(38,9)",
    },
    "tsql": {
        DType.UTINYINT: "smallint",
        DType.FLOAT: "double precision",
        DType.DOUBLE: "double precision",
        DType.VARCHAR: "varchar(30)",
        DType.NVARCHAR: "varchar(30)",
        DType.CHAR: "char(30)",
        DType.NCHAR: "char(30)",
        DType.DATETIME: "timestamp(3)",
        DType.DATETIME2: "timestamp(6)",
        DType.SMALLDATETIME: None,
        DType.TIMESTAMPTZ: "timestamp with time zone",
        DType.TIME: "time",
        DType.DECIMAL: "numeric(18,0)",
        DType.UUID: "uuid",
        DType.BOOLEAN: None,
    },
    "oracle": {
        DType.SMALLINT: "numeric(38,0)",
        DType.INT: "numeric(38,0)",
        DType.BIGINT: None,
        DType.VARCHAR: "varchar",
        DType.NVARCHAR: "varchar",
        DType.CHAR: "char",
        DType.TEXT: "text",
        DType.DATE: "timestamp(0)",
        DType.TIMESTAMP: "timestamp(6)",
        DType.TIMESTAMPTZ: "timestamp with time zone",
        DType.DECIMAL: "numeric",
        DType.BOOLEAN: None,
    },
    "duckdb": {
        DType.TINYINT: "smallint",
        DType.INT128: "numeric(38,0)",
        DType.FLOAT: "real",
        DType.TEXT: "text",
        DType.VARCHAR: "text",
        DType.TIMESTAMP: "timestamp",
        DType.TIMESTAMPNTZ: "timestamp",
        DType.TIMESTAMPTZ: "timestamp with time zone",
        DType.TIME: "time",
        DType.DECIMAL: "numeric(18,3)",
        DType.UUID: "uuid",
    },
}
_LENGTHS: Final = {DType.CHAR: "varchar", DType.NCHAR: "varchar", DType.VARCHAR: "varchar", DType.NVARCHAR: "varchar"}
_PADDED: Final = ("tsql", "oracle")  # dialects that pad CHAR(n) to n characters


def type_name(writer: Writer, node: Any, column: bool = False) -> str:
    """Returns PostgreSQL's name of a type, for a table's column (`column`) or for a cast. Raises 0A000 for a type
    without a counterpart."""
    if not isinstance(node, exp.DataType):
        writer.refuse(construct(node), node)
    kind, parameters = writer.take(node, "this", "expressions", "nested")[:2]
    shown = getattr(kind, "value", str(kind))
    types = _TYPES[writer.dialect]
    found = types[kind] if kind in types else _COMMON.get(kind)
    if found is None:
        writer.refuse(f"type {shown}", node)
    if not parameters:
        if column and found in ("varchar(30)", "char(30)"):
            return f"{found.partition('(')[0]}(1)"
        return found
    numbers = [_modifier(writer, item, node) for item in parameters]
    if "max" in numbers:
        return "text"
    if kind == DType.DECIMAL:
        return f"numeric({','.join(numbers)})"
    if kind in _LENGTHS and len(numbers) == 1 and not (writer.dialect == "spark" and not column):
        padded = kind in (DType.CHAR, DType.NCHAR) and (column or writer.dialect in _PADDED)
        return f"{'char' if padded else 'varchar'}({numbers[0]})"
    if found.partition("(")[0] in ("timestamp", "time") and len(numbers) == 1 and int(numbers[0]) <= 6:
        return f"{found.partition('(')[0]}({numbers[0]})"
    if kind == DType.FLOAT and len(numbers) == 1 and writer.dialect in ("tsql", "mysql") and int(numbers[0]) <= 53:
        return "real" if int(numbers[0]) <= 24 else "double precision"
    if found in _INTEGERS and writer.dialect == "mysql":
        return found  # INT(11) is the same type as INT
    writer.refuse(f"type {shown}({','.join(numbers)})", node)


def _modifier(writer: Writer, item: Any, node: Any) -> str:
    if isinstance(item, exp.DataTypeParam):
        (value,) = writer.take(item, "this")
        if isinstance(value, exp.Literal) and str(value.this).isdigit():
            return str(value.this)
        if isinstance(value, exp.Var) and writer.dialect == "tsql" and value.name.upper() == "MAX":
            return "max"
    writer.refuse("parameter of a type", node)


def _cast(writer: Writer, node: Any) -> str:
    value, to = writer.take(node, "this", "to")
    return cast_to(writer, value, to)


def _convert(writer: Writer, node: Any) -> str:
    """CONVERT(type, value) of T-SQL."""
    to, value = writer.take(node, "this", "expression")
    if writer.dialect != "tsql":
        writer.refuse("CONVERT", node)
    return cast_to(writer, value, to)


def cast_to(writer: Writer, value: Any, to: Any) -> str:
    """Writes a CAST. Raises 0A000 for a type without a counterpart."""
    name = type_name(writer, to)
    text = writer.text(value)
    if writer.traits.truncates_casts and name in _INTEGERS and not _is_whole(value):
        return f"CAST(trunc({writer.operand(value)} * 1.0) AS {name})"
    literal = text_of(value)
    if name == "numeric(38,9)" and literal is not None and len(literal.partition(".")[2]) <= 9:
        name = "numeric"  # without rounding
    return f"CAST({text} AS {name})"


def _is_whole(value: Any) -> bool:
    """Whether a cast of the value to an integer drops no fraction: string literals have none, or the cast fails."""
    if isinstance(value, exp.Paren | exp.Neg):
        return _is_whole(value.this)
    if isinstance(value, exp.Literal) and not value.args.get("is_string"):
        return str(value.this).isdigit()
    return text_of(value) is not None or isinstance(value, exp.Null | exp.Parameter | exp.Placeholder)


def _timestamp_literal(writer: Writer, node: Any) -> str:
    """TIMESTAMP '..' of Oracle."""
    value, form = writer.take(node, "this", "format")
    if text_of(value) is None or text_of(form) != "%Y-%m-%d %H:%M:%S.%f":
        writer.refuse("TIMESTAMP", node)
    return f"CAST({writer.text(value)} AS timestamp(6))"


WRITERS: dict[type, Callable[[Writer, Any], str]] = {
    exp.Cast: _cast,
    exp.Convert: _convert,
    exp.StrToTime: _timestamp_literal,
}
