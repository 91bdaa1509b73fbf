"""Functions by dialect and name. A function without an entry is refused.

A function has an entry if the dialect's manual gives it the meaning of the text that is written here, for all
arguments. If the meaning is the same only for some arguments, the others are refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import sqlglot.expressions as exp

from engine.sql.dialects.writer import Writer, string, text_of


class Call:
    """A call in the statement."""

    def __init__(self, writer: Writer, node: Any, name: str, arguments: list[Any]) -> None:
        self.writer = writer
        self.node = node
        self.name = name
        self.arguments = arguments

    def __len__(self) -> int:
        return len(self.arguments)

    def text(self, number: int) -> str:
        """Returns the text of an argument, counted from 0."""
        return self.writer.text(self.arguments[number])

    def operand(self, number: int) -> str:
        return self.writer.operand(self.arguments[number])

    def texts(self) -> list[str]:
        return list(map(self.writer.text, self.arguments))

    def is_literal(self, number: int) -> bool:
        node = self.arguments[number]
        return isinstance(node, exp.Literal | exp.RawString | exp.National | exp.Boolean)

    def check(self, least: int, most: int | None = None) -> None:
        """Raises 0A000 for another number of arguments."""
        if not least <= len(self) <= (least if most is None else most):
            self.refuse(f"with {len(self)} arguments")

    def refuse(self, what: str = "") -> NoReturn:
        self.writer.refuse(f"{self.name} {what}".strip(), self.node)

    def or_null(self, text: str) -> str:
        """Returns the text, with NULL for an empty string if the dialect has no empty strings."""
        return f"NULLIF({text}, '')" if self.writer.traits.empty_is_null else text


Function = Callable[[Call], str]
# Dialects by letters in the tables of functions: MySQL, Spark, snoWflake, BigQuery, T-SQL, Oracle, DuckDB.
_LETTERS = {
    "M": "mysql", "S": "spark", "W": "snowflake", "B": "bigquery", "T": "tsql", "O": "oracle", "D": "duckdb",
}  # fmt: skip
ALL = "MSWBTOD"
_FUNCTIONS: dict[str, dict[str, Function]] = {name: {} for name in _LETTERS.values()}
WINDOW_FUNCTIONS = frozenset((
    "ROW_NUMBER", "RANK", "DENSE_RANK", "PERCENT_RANK", "CUME_DIST", "NTILE", "LAG", "LEAD", "FIRST_VALUE",
    "LAST_VALUE", "NTH_VALUE",
))  # fmt: skip
AGGREGATES = frozenset((
    "COUNT", "COUNT_BIG", "SUM", "AVG", "MIN", "MAX", "STDDEV_POP", "STDDEV_SAMP", "VAR_POP", "VAR_SAMP", "STDDEV",
    "VARIANCE", "STD", "STDEV", "STDEVP", "VAR", "VARP", "BOOL_AND", "BOOL_OR", "LOGICAL_AND", "LOGICAL_OR", "EVERY",
    "ANY", "SOME", "BOOLAND_AGG", "BOOLOR_AGG", "COUNT_IF", "COUNTIF", "MEAN", "CORR", "COVAR_POP", "COVAR_SAMP",
))  # fmt: skip
# Aggregates that become expressions of several calls, which OVER cannot follow.
NOT_IN_WINDOWS = {"tsql": frozenset(("AVG",)), "mysql": frozenset(("STD",))}


def find(dialect: str, name: str) -> Function | None:
    """Returns the function that writes calls of a function, by its name in upper case; None if it is not supported."""
    return _FUNCTIONS[dialect].get(name)


def names(dialect: str) -> list[str]:
    """Returns the names of the supported functions of a dialect."""
    return sorted(_FUNCTIONS[dialect])


def define(letters: str, names: str, function: Function) -> None:
    """Registers these names for these dialects."""
    for letter in letters:
        for name in names.split():
            _FUNCTIONS[_LETTERS[letter]][name] = function


def same(name: str, least: int, most: int | None = None) -> Function:
    """Registers names whose arguments equal those of PostgreSQL's function, in the same order."""

    def write(call: Call) -> str:
        call.check(least, most)
        return f"{name}({', '.join(call.texts())})"

    return write


def form(template: str, count: int) -> Function:
    """Returns a function that writes a text with the arguments at {0}, {1}, in parentheses if necessary."""

    def write(call: Call) -> str:
        call.check(count)
        return template.format(*(call.operand(number) for number in range(count)))

    return write


# ---- conditions ----------------------------------------------------------------------------------------------------


def _coalesce(call: Call) -> str:
    call.check(1, 100)
    return f"COALESCE({', '.join(call.texts())})"


def _extreme(call: Call) -> str:
    """GREATEST and LEAST. PostgreSQL ignores NULLs."""
    call.check(1, 100)
    found = f"{call.name}({', '.join(call.texts())})"
    if not call.writer.traits.greatest_is_strict:
        return found
    nulls = [f"{call.operand(n)} IS NULL" for n in range(len(call)) if not call.is_literal(n)]
    if any(isinstance(item, exp.Null) for item in call.arguments):
        return "NULL"
    return f"CASE WHEN NOT ({' OR '.join(nulls)}) THEN {found} END" if nulls else found


def _choice(call: Call) -> str:
    """IF, IFF, IIF as calls."""
    call.check(3)
    condition, yes, no = call.texts()
    return f"CASE WHEN {condition} THEN {yes} ELSE {no} END"


def _decode(call: Call) -> str:
    """DECODE(value, key, result, ..., default): NULL equals NULL."""
    call.check(3, 255)
    value, rest = call.operand(0), call.arguments[1:]
    words = ["CASE"]
    while len(rest) > 1:
        key, result, *rest = rest
        words.append(f"WHEN {value} IS NOT DISTINCT FROM {call.writer.operand(key)} THEN {call.writer.text(result)}")
    if rest:
        words.append(f"ELSE {call.writer.text(rest[0])}")
    return " ".join((*words, "END"))


define(ALL, "COALESCE", _coalesce)
define(ALL, "NULLIF", same("NULLIF", 2))
define("MSWBD", "IFNULL", form("COALESCE({0}, {1})", 2))
define("SWO", "NVL", form("COALESCE({0}, {1})", 2))
define("T", "ISNULL", form("COALESCE({0}, {1})", 2))
define("SWO", "NVL2", form("CASE WHEN {0} IS NOT NULL THEN {1} ELSE {2} END", 3))
define("M", "ISNULL", form("({0} IS NULL)", 1))
define("S", "ISNULL", form("({0} IS NULL)", 1))
define("S", "ISNOTNULL", form("({0} IS NOT NULL)", 1))
define("W", "ZEROIFNULL", form("COALESCE({0}, 0)", 1))
define("W", "NULLIFZERO", form("NULLIF({0}, 0)", 1))
define("W", "EQUAL_NULL", form("({0} IS NOT DISTINCT FROM {1})", 2))
define("MSWBTOD", "GREATEST LEAST", _extreme)
define("MSB", "IF", _choice)
define("W", "IFF", _choice)
define("T", "IIF", _choice)
define("WO", "DECODE", _decode)


# ---- aggregates ----------------------------------------------------------------------------------------------------


def aggregate(name: str) -> Function:
    """Returns a function that writes an aggregate of one argument, which may be DISTINCT."""

    def write(call: Call) -> str:
        call.check(1)
        return f"{name}({call.text(0)})"

    return write


def _count(call: Call) -> str:
    call.check(1)
    node = call.arguments[0]
    if isinstance(node, exp.Distinct) and len(node.expressions) > 1:
        if call.writer.dialect not in ("mysql", "spark", "snowflake"):
            call.refuse("of several values")
        items = [call.writer.operand(item) for item in call.writer.take(node, "expressions")[0]]
        present = " AND ".join(f"{item} IS NOT NULL" for item in items)
        return f"count(DISTINCT ROW({', '.join(items)})) FILTER (WHERE {present})"
    return f"count({call.text(0)})"


def _tsql_average(call: Call) -> str:
    """AVG of T-SQL, which is an integer for integers: the quotient of SUM and COUNT."""
    call.check(1)
    return f"(sum({call.text(0)}) / count({call.text(0)}))"


def _count_if(call: Call) -> str:
    call.check(1)
    if isinstance(call.arguments[0], exp.Distinct):
        call.refuse("DISTINCT")
    return f"count(CASE WHEN {call.text(0)} THEN 1 END)"


define(ALL, "COUNT", _count)
define("T", "COUNT_BIG", _count)
define("MSWBTOD", "SUM", aggregate("sum"))
define("MSWBTOD", "MIN", aggregate("min"))
define("MSWBTOD", "MAX", aggregate("max"))
define("MSWBOD", "AVG", aggregate("avg"))
define("SD", "MEAN", aggregate("avg"))
define("T", "AVG", _tsql_average)
define("MSWBOD", "STDDEV_POP", aggregate("stddev_pop"))
define("MSWBOD", "STDDEV_SAMP", aggregate("stddev_samp"))
define("MSWBOD", "VAR_POP", aggregate("var_pop"))
define("MSWBOD", "VAR_SAMP", aggregate("var_samp"))
define("M", "STDDEV STD", aggregate("stddev_pop"))
define("M", "VARIANCE", aggregate("var_pop"))
define("SWBD", "STDDEV", aggregate("stddev_samp"))
define("SWBD", "VARIANCE", aggregate("var_samp"))
define("T", "STDEV", aggregate("stddev_samp"))
define("T", "STDEVP", aggregate("stddev_pop"))
define("T", "VAR", aggregate("var_samp"))
define("T", "VARP", aggregate("var_pop"))
define("SD", "BOOL_AND", aggregate("bool_and"))
define("SD", "BOOL_OR", aggregate("bool_or"))
define("S", "EVERY", aggregate("bool_and"))
define("B", "LOGICAL_AND", aggregate("bool_and"))
define("B", "LOGICAL_OR", aggregate("bool_or"))
define("SW", "COUNT_IF", _count_if)
define("B", "COUNTIF", _count_if)


# ---- windows -------------------------------------------------------------------------------------------------------

for _name in ("ROW_NUMBER", "RANK", "DENSE_RANK", "PERCENT_RANK", "CUME_DIST"):
    define(ALL, _name, same(_name.lower(), 0))
define(ALL, "NTILE", same("ntile", 1))
define(ALL, "LAG", same("lag", 1, 3))
define(ALL, "LEAD", same("lead", 1, 3))
define(ALL, "FIRST_VALUE", same("first_value", 1))
define(ALL, "LAST_VALUE", same("last_value", 1))
define("MSWBOD", "NTH_VALUE", same("nth_value", 2))


# ---- text functions of several tables ------------------------------------------------------------------------------


def literal(value: str) -> str:
    return string(value)


def literal_of(call: Call, number: int) -> str | None:
    """Returns the value of an argument that is a string literal; None for others."""
    return text_of(call.arguments[number])
