"""The SQL that is sent to the server of a foreign table (deparse.c of postgres_fdw).

A condition is sent if the remote server must agree with this one about it: comparisons by built-in immutable operators
of columns, constants and parameters of types whose order does not depend on a locale; texts are only compared for
equality. Conditions are evaluated here again, so sending one only saves rows.
"""

from __future__ import annotations

from collections.abc import Sequence

from catalog.functions.base import Operator
from catalog.identifiers import quote_identifier, quote_literal
from catalog.schema import Column, Table
from catalog.types import element_of, format_type, lookup, oids
from catalog.types.user import FIRST_ADDED_OID
from engine.sql import tree

_ORDERED = oids.INTEGERS | {
    oids.BOOL, oids.FLOAT4, oids.FLOAT8, oids.NUMERIC, oids.DATE, oids.TIME, oids.TIMESTAMP, oids.TIMESTAMPTZ,
    oids.UUID, oids.BYTEA, oids.OID,
}  # fmt: skip
_TEXTS = oids.VARYING_TEXTS | {oids.BPCHAR}
_EQUALITY = frozenset(("=", "<>"))
_OPERATORS = _EQUALITY | {"<", "<=", ">", ">=", "+", "-", "*"}


def remote_name(table: Table, schema: str) -> str:
    """The remote table's name; `schema`: the foreign table's own."""
    options = dict(table.foreign_options)
    parts = options.get("schema_name", schema), options.get("table_name", table.name)
    return ".".join(map(quote_identifier, parts))


def column_name(column: Column) -> str:
    """The remote column's name."""
    return quote_identifier(dict(column.foreign_options).get("column_name", column.name))


def value_text(value: object, oid: int) -> str | None:
    """A value as a parameter of a remote statement."""
    return None if value is None else lookup(oid).text_encoder()(value).decode()


class Conditions:
    """Writes conditions over the columns of one foreign table: range entry `relation` of its query."""

    def __init__(self, table: Table, relation: int) -> None:
        self._columns = {column.number: column for column in table.columns}
        self._relation = relation
        self.parameters: list[tree.Param] = []  # of the statement, in the order of the remote $1, $2, ...

    def text(self, condition: tree.Expr) -> str | None:
        """The condition in the remote server's SQL; None if it is only evaluated here."""
        before = len(self.parameters)
        try:
            return self._write(condition)
        except _NotSentError:
            del self.parameters[before:]
            return None

    def _write(self, item: tree.Expr) -> str:
        if isinstance(item, tree.Var):
            return self._column(item)
        if isinstance(item, tree.Const):
            return _constant(item)
        if isinstance(item, tree.Param):
            return self._parameter(item)
        if isinstance(item, tree.RelabelType):
            _check_type(item.type.oid)
            return self._write(item.argument)
        if isinstance(item, tree.BoolExpr):
            parts = [self._write(argument) for argument in item.arguments]
            return f"(NOT {parts[0]})" if item.operator == "not" else f"({f' {item.operator.upper()} '.join(parts)})"
        if isinstance(item, tree.NullTest) and not item.whole:
            return f"({self._write(item.argument)} IS {'' if item.is_null else 'NOT '}NULL)"
        if isinstance(item, tree.FuncExpr) and item.operator is not None:
            return self._operation(item)
        if isinstance(item, tree.ScalarArrayOp):
            return self._any(item)
        raise _NotSentError

    def _column(self, item: tree.Var) -> str:
        column = self._columns.get(item.column)
        if item.levels_up or item.relation != self._relation or column is None:
            raise _NotSentError
        _check_type(column.type.oid)
        if column.type.domain:
            raise _NotSentError
        return column_name(column)

    def _parameter(self, item: tree.Param) -> str:
        _check_type(item.type.oid)
        if item not in self.parameters:
            self.parameters.append(item)
        return f"${self.parameters.index(item) + 1}::{format_type(item.type.oid)}"

    def _operation(self, item: tree.FuncExpr) -> str:
        operator = item.operator
        assert operator is not None
        self._check_operator(operator, item.function.volatility)
        if len(item.arguments) != 2:
            raise _NotSentError
        left, right = item.arguments
        return f"({self._operand(left, right)} {operator.name} {self._operand(right, left)})"

    def _operand(self, item: tree.Expr, other: tree.Expr) -> str:
        """A constant beside a column of its type is written without the type: the remote column's may be another."""
        plain = (isinstance(other, tree.RelabelType) and other.argument) or other
        if isinstance(item, tree.Const) and isinstance(plain, tree.Var) and item.value is not None:
            text = _constant(item)
            return text.rpartition("::")[0] if "::" in text and plain.type.oid == item.type.oid else text
        return self._write(item)

    @staticmethod
    def _check_operator(operator: Operator, volatility: str) -> None:
        sides = {operator.left, operator.right}
        allowed = operator.name in (_EQUALITY if sides & _TEXTS else _OPERATORS)
        if operator.oid >= FIRST_ADDED_OID or volatility != "i" or not allowed or not sides <= _ORDERED | _TEXTS:
            raise _NotSentError

    def _any(self, item: tree.ScalarArrayOp) -> str:
        self._check_operator(item.operator, item.function.volatility)
        left, word = self._write(item.left), "ANY" if item.use_or else "ALL"
        if isinstance(item.right, tree.ArrayExpr):
            elements = ", ".join(self._write(element) for element in item.right.elements)
            return f"({left} {item.operator.name} {word} (ARRAY[{elements}]))"
        if isinstance(item.right, tree.Const | tree.Param):
            return f"({left} {item.operator.name} {word} ({self._write(item.right)}))"
        raise _NotSentError


class _NotSentError(Exception):
    """The remote server might not agree."""


def _check_type(oid: int) -> None:
    if (element_of(oid) or oid) not in _ORDERED | _TEXTS:
        raise _NotSentError


def _constant(item: tree.Const) -> str:
    _check_type(item.type.oid)
    shown = format_type(item.type.oid)
    text = value_text(item.value, item.type.oid)
    if text is None:
        return f"NULL::{shown}"
    if item.type.oid == oids.INT4 and not text.startswith("-"):
        return text
    if item.type.oid == oids.BOOL:
        return "true" if item.value else "false"
    return f"{quote_literal(text)}::{shown}"


def select(table: Table, schema: str, columns: Sequence[str], conditions: Sequence[str]) -> str:
    """SELECT ... FROM the remote table."""
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return f"SELECT {', '.join(columns) or 'NULL'} FROM {remote_name(table, schema)}{where}"
