"""Expressions as SQL text, the lower half of deparse.py (get_rule_expr and what it calls)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from catalog import collations, types
from catalog.catalog import Catalog
from catalog.functions import added, registry
from catalog.functions.base import Function, Operator
from catalog.functions.geometry import ITEMS
from catalog.functions.system_columns import SYSTEM_COLUMNS
from catalog.row_types import is_row_type
from catalog.schema import PG_CATALOG_OID, Collation, Schema, Table
from catalog.system import derived_oids
from catalog.text_search.objects import TextSearchObject
from catalog.types import oids
from catalog.types.base import TypeRef
from catalog.types.collated_oids import FIRST_OID as FIRST_COLLATED
from catalog.types.oids import ANY
from catalog.types.user import entry_of
from engine.sql import tree
from engine.sql.analyze.environment import builtin_relations_by_oid
from engine.sql.analyze.typeinfo import type_name
from engine.sql.deparse_names import (
    called,
    columns_of_using,
    present_names,
    quote_identifier,
    quote_literal,
    system_column,
)
from engine.sql.deparse_xml import xml_syntax

STANDARD, JOIN, VARIABLE = 8, 4, 4  # columns of indentation
_REG_TYPES = {
    oids.REGCLASS: "relation", oids.REGTYPE: "type", oids.REGNAMESPACE: "schema", oids.REGROLE: "role",
    oids.REGPROC: "function", oids.REGPROCEDURE: "function",
    oids.REGCONFIG: "text search", oids.REGDICTIONARY: "text search",
}  # fmt: skip


@dataclass(slots=True)
class Level:
    """The names of one query level: an alias for each entry, and for each the names of its columns by Var.column."""

    entries: Sequence[tree.RangeEntry]
    aliases: list[str]
    columns: list[dict[int, str]]
    qualified: bool
    renamed: dict[tuple[int, int], list[tuple[int, str]]]  # (entry, column) -> aliased joins around it, outermost first
    open_joins: set[int] = field(default_factory=set)  # aliased joins that are being printed
    windows: Sequence[tree.WindowClause] = field(default=())
    ctes: Sequence[tree.Cte] = field(default=())


class ExpressionPrinter:
    def __init__(self, catalog: Catalog, visible: Collection[int], pretty: bool = False) -> None:
        self.catalog = catalog
        self.visible = visible
        self.pretty = pretty
        self.parts: list[str] = []
        self.indent = 0
        self.levels: list[Level] = []
        self.show_implicit = True

    def text(self) -> str:
        return "".join(self.parts)

    def add(self, text: str) -> None:
        self.parts.append(text)

    def keyword(self, text: str, before: int, after: int, plus: int) -> None:
        """appendContextKeyword: a new line at the changed indentation, then the text."""
        self.indent += before
        self.trim()
        self.add("\n" + " " * (max(self.indent, 0) + plus) + text)
        self.indent = max(self.indent + after, 0)

    def trim(self) -> None:
        """Removes trailing blanks."""
        while self.parts:
            self.parts[-1] = self.parts[-1].rstrip(" ")
            if self.parts[-1]:
                return
            self.parts.pop()

    # ---- names ----------------------------------------------------------------------------------------------------

    def names_of(
        self, entries: Sequence[tree.RangeEntry], qualified: bool, from_items: Sequence[tree.FromItem] = ()
    ) -> Level:
        """Aliases that are unique over this level and those around it (set_rtable_names), and the names of columns."""
        used = {alias for level in self.levels for alias in level.aliases}
        aliases = []
        for entry in entries:
            alias = name = called(entry)
            if isinstance(entry, tree.RangeJoin) and alias == "unnamed_join":
                aliases.append("")
                continue
            number = 0
            while alias in used:
                number += 1
                alias = f"{name}_{number}"
            used.add(alias)
            aliases.append(alias)
        columns = []
        merged = columns_of_using(entries, from_items)
        for place, entry in enumerate(entries):
            if isinstance(entry, tree.RangeTable) and entry.given is not None:
                columns.append(present_names(entry, entry.given | {number for at, number in merged if at == place}))
                continue
            if isinstance(entry, tree.RangeTable):
                numbers = [column.number for column in entry.table.columns]
            else:
                numbers = list(range(1, len(entry.columns) + 1))
            columns.append({number: column.name for number, column in zip(numbers, entry.columns, strict=True)})
        return Level(entries, aliases, columns, qualified, _renamed_by_joins(entries))

    def relation_name(self, oid: int) -> str:
        """A relation's name, with its schema unless the schema is visible."""
        item = self.catalog.get(oid) or builtin_relations_by_oid().get(oid)
        schema = getattr(item, "schema", 0)
        name = quote_identifier(getattr(item, "name", str(oid)))
        if schema == PG_CATALOG_OID or schema in self.visible:
            return name
        owner = self.catalog.get(schema)
        shown = owner.name if isinstance(owner, Schema) else "information_schema"
        return f"{quote_identifier(shown)}.{name}"

    def collation(self, oid: int) -> str:
        """A collation's name, with its schema unless the schema is visible."""
        return self._name_in_schema(collations.collation(self.catalog, oid))

    def _name_in_schema(self, item: Collation | TextSearchObject) -> str:
        if item.schema == PG_CATALOG_OID or item.schema in self.visible:
            return quote_identifier(item.name)
        return f"{quote_identifier(self.catalog.schema_name(item.schema))}.{quote_identifier(item.name)}"

    def function_name(self, function: Function) -> str:
        """A function's name, with its schema unless the schema is visible."""
        return self._in_schema(function.oid) + quote_identifier(function.name)

    def operator_name(self, operator: Operator) -> str:
        schema = self._in_schema(operator.oid)
        return f"OPERATOR({schema}{operator.name})" if schema else operator.name

    def _in_schema(self, oid: int) -> str:
        schema = added.schema_of(oid)
        if schema is None or self.catalog.schemas.get(schema) in self.visible:
            return ""
        return quote_identifier(schema) + "."

    def type(self, found: TypeRef) -> str:
        """The name of a type. A user-defined type has its schema unless the schema is visible."""
        entry = entry_of(found.declared)
        if entry is None:
            return types.format_type(found.oid, found.typmod)
        if self.catalog.schemas.get(entry.schema) in self.visible:
            return entry.shown
        return f"{quote_identifier(entry.schema)}.{entry.shown}"

    # ---- expressions ----------------------------------------------------------------------------------------------

    def expression(self, expr: tree.Expr, show_implicit: bool = True) -> None:
        """Prints an expression. PostgreSQL shows implicit casts of arguments, but not of whole conditions."""
        self.show_implicit = show_implicit
        _EXPRESSIONS[type(expr)](self, expr)

    def operand(self, expr: tree.Expr, parent: tree.Expr, show_implicit: bool = True) -> None:
        """get_rule_expr_paren: prints an expression within another one, with parentheses if the pretty form needs
        them."""
        if self.pretty and not is_simple(expr, parent):
            self.add("(")
            self.expression(expr, show_implicit)
            self.add(")")
        else:
            self.expression(expr, show_implicit)

    def parenthesis(self, text: str) -> None:
        """A parenthesis that the pretty form leaves out."""
        if not self.pretty:
            self.add(text)

    def expressions(self, exprs: Sequence[tree.Expr], separator: str = ", ") -> None:
        for position, expr in enumerate(exprs):
            if position:
                self.add(separator)
            self.expression(expr)

    def const(self, expr: tree.Const, show_type: int = 0) -> None:
        """get_const_expr; show_type 1 always labels, -1 never."""
        if expr.value is None:
            self.add("NULL" if show_type < 0 else f"NULL::{self.type(expr.type)}")
            return
        oid = expr.type.oid
        text = self.value_text(expr.value, oid)
        label = True
        if oid == oids.BOOL:
            self.add("true" if expr.value else "false")
            label = False
        elif oid == oids.INT4 and not text.startswith("-"):
            self.add(text)
            label = False
        elif oid == oids.NUMERIC and text[0].isdigit() and any(char in "eE." for char in text):
            self.add(text)
            label = expr.type.typmod >= 0
        else:
            self.add(quote_literal(text))
        if show_type >= 0 and ((label and oid != oids.UNKNOWN) or show_type > 0):
            self.add(f"::{self.type(expr.type)}")

    def value_text(self, value: object, oid: int) -> str:
        """The text of a constant from its type's output function."""
        kind = _REG_TYPES.get(oid)
        if kind is not None and isinstance(value, int) and value:
            if kind == "relation" and (self.catalog.get(value) or builtin_relations_by_oid().get(value)):
                return self.relation_name(value)
            if kind == "type":
                return type_name(value)
            if kind in ("schema", "role"):
                item = self.catalog.get(value)
                return quote_identifier(getattr(item, "name", str(value)))
            if kind == "function" and oid == oids.REGPROC:
                return registry.function(value).name
            if kind == "text search" and (found := self.catalog.text_search.get(value)) is not None:
                return self._name_in_schema(found)
        if oid == oids.UNKNOWN:
            return str(value)
        return types.lookup(oid).text_encoder()(value).decode()

    def var(self, expr: tree.Var) -> None:
        self.add(self.variable(expr)[0])

    def variable(self, expr: tree.Var) -> tuple[str, str]:
        """(text, bare column name) of a column reference."""
        level = self.levels[-1 - expr.levels_up]
        entry = level.entries[expr.relation]
        alias = level.aliases[expr.relation]
        for join, name in level.renamed.get((expr.relation, expr.column), ()):
            if join not in level.open_joins:
                return f"{quote_identifier(level.aliases[join])}.{quote_identifier(name)}", name
        if not expr.column:
            return f"{quote_identifier(alias)}.*", ""
        name = expr.name if expr.column < 0 else level.columns[expr.relation][expr.column]
        if not alias and isinstance(entry, tree.RangeJoin):
            return quote_identifier(name), name
        if level.qualified or expr.levels_up:
            return f"{quote_identifier(alias)}.{quote_identifier(name)}", name
        return quote_identifier(name), name

    def call(self, expr: tree.FuncExpr) -> None:
        if expr.function.oid in SYSTEM_COLUMNS:
            self.var(system_column(expr))
        elif expr.display == "operator":
            self.operator(expr)
        elif expr.display == "cast_implicit" and not self.show_implicit:
            self.operand(expr.arguments[0], expr, False)
        elif expr.display in ("cast_explicit", "cast_implicit"):
            self.cast(expr.arguments[0], expr.type, expr)
        elif expr.function.oid in _PARTS:
            self.part(expr)
        elif expr.display != "sql_syntax" or not self.sql_syntax(expr):
            self.plain_call(expr)

    def part(self, expr: tree.FuncExpr) -> None:
        """Prints a coordinate of a point or a similar type as a subscript."""
        value, number = expr.arguments
        if isinstance(value, tree.Var):
            self.expression(value)
        else:
            self.sequence("(", value, ")")
        self.sequence("[", number, "]")

    def plain_call(self, expr: tree.FuncExpr) -> None:
        self.add(f"{self.function_name(expr.function)}(")
        self.arguments(expr.function, expr.arguments, expr.variadic)
        self.add(")")

    def arguments(self, function: Function, arguments: Sequence[tree.Expr], variadic: bool = False) -> None:
        collected = bool(function.variadic) and function.variadic != ANY
        for position, argument in enumerate(arguments):
            if position:
                self.add(", ")
            if (collected or variadic) and position == len(arguments) - 1:
                self.add("VARIADIC ")
            whole = self.whole_row(argument)
            self.expression(argument) if whole is None else self.add(whole)

    def whole_row(self, expr: tree.Expr) -> str | None:
        """t.* for the row of a table or a view that has become a value of its row type; None for anything else."""
        if not isinstance(expr, tree.RowExpr) or not is_row_type(expr.type.oid):
            return None
        first = expr.elements[0] if expr.elements else None
        if not isinstance(first, tree.Var):
            return None
        level = self.levels[-1 - first.levels_up]
        entry = level.entries[first.relation]
        if isinstance(entry, tree.RangeTable) and isinstance(entry.table, Table):
            owner, columns = entry.table.oid, [column.number for column in entry.table.columns]
        elif isinstance(entry, tree.RangeSubquery) and entry.view is not None:
            owner, columns = entry.view, list(range(1, len(entry.columns) + 1))
        else:
            return None
        places = [(item.relation, item.levels_up, item.column) for item in expr.elements if isinstance(item, tree.Var)]
        if expr.type.oid != derived_oids.row_type(owner) or len(places) < len(expr.elements):
            return None
        if places != [(first.relation, first.levels_up, column) for column in columns]:
            return None
        return f"{quote_identifier(level.aliases[first.relation])}.*"

    def operator(self, expr: tree.FuncExpr) -> None:
        assert expr.operator is not None
        self.parenthesis("(")
        if len(expr.arguments) == 2:
            self.operand(expr.arguments[0], expr)
            self.add(f" {self.operator_name(expr.operator)} ")
            self.operand(expr.arguments[1], expr)
        else:
            self.add(f"{self.operator_name(expr.operator)} ")
            self.operand(expr.arguments[0], expr)
        self.parenthesis(")")

    def sql_syntax(self, expr: tree.FuncExpr) -> bool:
        """get_func_sql_syntax: prints a call with a syntax of its own in SQL. Returns False for other calls."""
        name, arguments = expr.function.name, expr.arguments
        if name == "timezone" and len(arguments) == 2:
            self.bare_sequence("(", arguments[1], " AT TIME ZONE ", arguments[0], ")")
        elif name == "extract" and isinstance(arguments[0], tree.Const):
            self.bare_sequence(f"EXTRACT({arguments[0].value} FROM ", arguments[1], ")")
        elif name == "position":
            self.bare_sequence("POSITION((", arguments[1], ") IN (", arguments[0], "))")
        elif name == "overlay":
            self.bare_sequence("OVERLAY(", arguments[0], " PLACING ", arguments[1], " FROM ", arguments[2])
            if len(arguments) > 3:
                self.bare_sequence(" FOR ", arguments[3])
            self.add(")")
        elif name == "substring" and arguments[1].type.oid == oids.INT4:
            self.bare_sequence("SUBSTRING(", arguments[0], " FROM ", arguments[1])
            if len(arguments) > 2:
                self.bare_sequence(" FOR ", arguments[2])
            self.add(")")
        elif name == "substring" and len(arguments) == 3:
            self.bare_sequence("SUBSTRING(", arguments[0], " SIMILAR ", arguments[1], " ESCAPE ", arguments[2], ")")
        elif name in _TRIMS:
            self.add(f"TRIM({_TRIMS[name]}")
            if len(arguments) > 1:
                self.bare_sequence(" ", arguments[1])
            self.bare_sequence(" FROM ", arguments[0], ")")
        else:
            return xml_syntax(self, expr)
        return True

    def bare_sequence(self, *parts: str | tree.Expr) -> None:
        """Like `sequence`, but without the implicit casts of the expressions."""
        for part in parts:
            if isinstance(part, str):
                self.add(part)
            else:
                self.expression(part, False)

    def sequence(self, *parts: str | tree.Expr) -> None:
        """Prints texts and expressions one after the other."""
        for part in parts:
            if isinstance(part, str):
                self.add(part)
            else:
                self.expression(part)

    def cast(self, argument: tree.Expr, target: TypeRef, parent: tree.Expr) -> None:
        """get_coercion_expr: prints (argument)::type, without the label of a constant of that type."""
        if isinstance(argument, tree.Const) and argument.type == TypeRef(target.oid):
            self.const(argument, -1)
        else:
            self.parenthesis("(")
            self.operand(argument, parent, False)
            self.parenthesis(")")
        self.add(f"::{self.type(target)}")

    def relabel(self, expr: tree.RelabelType | tree.CoerceViaIO) -> None:
        if expr.type.oid >= FIRST_COLLATED or (expr.implicit and not self.show_implicit):
            self.operand(expr.argument, expr, False)
        else:
            self.cast(expr.argument, expr.type, expr)

    def collate(self, expr: tree.CollateExpr) -> None:
        self.parenthesis("(")
        self.operand(expr.argument, expr, False)
        self.add(f" COLLATE {self.collation(expr.collation)}")
        self.parenthesis(")")

    def typmod(self, expr: tree.CoerceTypmod) -> None:
        if not expr.explicit and not self.show_implicit:
            self.operand(expr.argument, expr, False)
            return
        argument = expr.argument
        if argument.type == TypeRef(expr.type.oid):
            argument = _hidden_cast(argument)
        self.cast(argument, expr.type, expr)

    def domain_value(self, expr: tree.DomainValue) -> None:
        self.add("VALUE")

    def to_domain(self, expr: tree.CoerceToDomain) -> None:
        if expr.implicit and not self.show_implicit:
            self.operand(expr.argument, expr, False)
            return
        argument = expr.argument
        if isinstance(argument, tree.CoerceTypmod) or argument.type.oid == expr.type.oid:
            argument = _hidden_cast(argument)
        self.cast(argument, expr.type, expr)

    def array_coerce(self, expr: tree.ArrayCoerce) -> None:
        implicit = isinstance(expr.element, tree.FuncExpr) and expr.element.display == "cast_implicit"
        implicit = implicit or (
            isinstance(expr.element, (tree.RelabelType, tree.CoerceViaIO)) and expr.element.implicit
        )
        if implicit and not self.show_implicit:
            self.operand(expr.argument, expr, False)
        else:
            self.cast(expr.argument, expr.type, expr)

    def boolean(self, expr: tree.BoolExpr) -> None:
        self.parenthesis("(")
        if expr.operator == "not":
            self.add("NOT ")
        for position, argument in enumerate(expr.arguments):
            self.add(f" {expr.operator.upper()} " if position else "")
            self.operand(argument, expr, False)
        self.parenthesis(")")

    def null_test(self, expr: tree.NullTest) -> None:
        self.parenthesis("(")
        self.operand(expr.argument, expr)
        self.add(" IS NULL" if expr.is_null else " IS NOT NULL")
        self.parenthesis(")")

    def boolean_test(self, expr: tree.BooleanTest) -> None:
        self.parenthesis("(")
        self.operand(expr.argument, expr, False)
        self.add(f" {expr.test.upper().replace('_', ' ')}")
        self.parenthesis(")")

    def distinct(self, expr: tree.DistinctExpr) -> None:
        if expr.negated:
            self.add("NOT (" if self.pretty else "(NOT ")
        self.parenthesis("(")
        self.operand(expr.left, expr)
        self.add(" IS DISTINCT FROM ")
        self.operand(expr.right, expr)
        self.parenthesis(")")
        if expr.negated:
            self.add(")")

    def null_if(self, expr: tree.NullIfExpr) -> None:
        self.sequence("NULLIF(", expr.left, ", ", expr.right, ")")

    def array_operation(self, expr: tree.ScalarArrayOp) -> None:
        self.parenthesis("(")
        self.operand(expr.left, expr)
        self.add(f" {self.operator_name(expr.operator)} {'ANY' if expr.use_or else 'ALL'} (")
        self.operand(expr.right, expr)
        if isinstance(expr.right, tree.SubLink) and expr.right.kind == "expr":
            self.add(f"::{self.type(expr.right.type)}")
        self.add(")")
        self.parenthesis(")")

    def coalesce(self, expr: tree.CoalesceExpr) -> None:
        self.add("COALESCE(")
        self.expressions(expr.arguments)
        self.add(")")

    def min_max(self, expr: tree.MinMaxExpr) -> None:
        self.add(f"{expr.operator.upper()}(")
        self.expressions(expr.arguments)
        self.add(")")

    def case(self, expr: tree.CaseExpr) -> None:
        self.keyword("CASE", 0, VARIABLE, 0)
        if expr.argument is not None:
            self.sequence(" ", expr.argument)
        for condition, result in expr.whens:
            shown = condition
            if expr.argument is not None:
                shown = _compared_value(condition)
            self.keyword("WHEN ", 0, 0, 0)
            self.expression(shown, False)
            self.sequence(" THEN ", result)
        self.keyword("ELSE ", 0, 0, 0)
        self.expression(expr.default)
        self.keyword("END", -VARIABLE, 0, 0)

    def array(self, expr: tree.ArrayExpr) -> None:
        self.add("ARRAY[")
        self.expressions(expr.elements)
        self.add("]")
        if not expr.elements:
            self.add(f"::{self.type(expr.type)}")

    def row(self, expr: tree.RowExpr) -> None:
        self.add("ROW(")
        self.expressions(expr.elements)
        self.add(")")
        if expr.type.oid != oids.RECORD:
            self.add(f"::{self.type(expr.type)}")

    def row_compare(self, expr: tree.RowCompare) -> None:
        self.add("(ROW(")
        self.expressions(expr.left)
        self.add(f") {expr.kind} ROW(")
        self.expressions(expr.right)
        self.add("))")

    def field(self, expr: tree.FieldSelect) -> None:
        self.sequence("(", expr.argument, f").{quote_identifier(expr.name)}")

    def subscript(self, expr: tree.SubscriptingRef) -> None:
        if isinstance(expr.argument, tree.Var):
            self.expression(expr.argument)
        else:
            self.sequence("(", expr.argument, ")")
        for position, upper in enumerate(expr.upper):
            self.add("[")
            if expr.is_slice:
                lower = expr.lower[position]
                if lower is not None:
                    self.expression(lower)
                self.add(":")
            if upper is not None:
                self.expression(upper)
            self.add("]")

    def sublink(self, expr: tree.SubLink) -> None:
        if expr.kind == "array":
            self.add("ARRAY(")
            self.subquery(expr.query, False)
            self.add(")")
            return
        if expr.kind == "expr":
            self.add("(")
            self.subquery(expr.query, False)
            self.add(")")
            return
        self.add("(")
        if expr.kind == "exists":
            self.add("EXISTS ")
        else:
            if len(expr.test) > 1:
                self.add("(")
                self.expressions(expr.test)
                self.add(")")
            else:
                self.expression(expr.test[0])
            if expr.kind == "any" and expr.operator_name == "=":
                self.add(" IN ")
            else:
                self.add(f" {expr.operator_name} {expr.kind.upper()} ")
        self.add("(")
        self.subquery(expr.query, False)
        self.add("))")

    def subquery(self, query: tree.Query, named: bool = True) -> None:
        saved = self.indent
        self.query(query, None, named)
        self.indent = saved

    def value_function(self, expr: tree.SqlValueFunction) -> None:
        self.add(expr.name.upper() + (f"({expr.precision})" if expr.precision is not None else ""))

    def next_value(self, expr: tree.NextValueExpr) -> None:
        self.add(f"nextval({quote_literal(self.relation_name(expr.sequence))}::regclass)")

    def grouping(self, expr: tree.GroupingFunc) -> None:
        self.add("GROUPING(")
        self.expressions(expr.arguments)
        self.add(")")

    def param(self, expr: tree.Param) -> None:
        self.add(f"${expr.number}")

    def default(self, _: tree.SetToDefault) -> None:
        self.add("DEFAULT")

    # ---- aggregates and windows -----------------------------------------------------------------------------------

    def aggregate(self, expr: tree.Aggref) -> None:
        self.add(f"{self.function_name(expr.function)}(")
        if expr.distinct:
            self.add("DISTINCT ")
        ordered_set = registry.aggregate_of(expr.function).kind != "n"
        if ordered_set:
            self.expressions(expr.direct_arguments)
            self.add(") WITHIN GROUP (ORDER BY ")
            self.sort_list(expr.order_by)
        else:
            if expr.star:
                self.add("*")
            self.arguments(expr.function, expr.arguments)
            if expr.order_by:
                self.add(" ORDER BY ")
                self.sort_list(expr.order_by)
        self.add(")")
        if expr.filter is not None:
            self.sequence(" FILTER (WHERE ", expr.filter, ")")

    def window_call(self, expr: tree.WindowFunc) -> None:
        self.add(f"{self.function_name(expr.function)}(")
        if expr.star:
            self.add("*")
        self.expressions(expr.arguments)
        self.add(")")
        if expr.filter is not None:
            self.sequence(" FILTER (WHERE ", expr.filter, ")")
        window = self.levels[-1].windows[expr.window]
        self.add(" OVER ")
        if window.name is not None:
            self.add(quote_identifier(window.name))
        else:
            self.window(window)

    def window(self, window: tree.WindowClause) -> None:
        self.add("(")
        separator = ""
        if window.partition_by:
            self.add("PARTITION BY ")
            for position, expr in enumerate(window.partition_by):
                self.add(", " if position else "")
                self.print_grouped(expr)
            separator = " "
        if window.order_by:
            self.add(f"{separator}ORDER BY ")
            self.sort_list(window.order_by)
            separator = " "
        frame = (window.frame_mode, window.frame_start[0], window.frame_end[0], window.exclude)
        if frame != ("range", "unbounded_preceding", "current_row", ""):
            self.add(f"{separator}{window.frame_mode.upper()} BETWEEN ")
            self.print_bound(window.frame_start)
            self.add(" AND ")
            self.print_bound(window.frame_end)
            if window.exclude:
                self.add(f" EXCLUDE {window.exclude.upper().replace('_', ' ')}")
        self.add(")")

    def print_bound(self, bound: tuple[str, tree.Expr | None]) -> None:
        kind, offset = bound
        if offset is not None:
            self.expression(offset, False)
            self.add(" ")
        self.add(kind.upper().replace("_", " "))

    def sort_list(self, clauses: Sequence[tree.SortClause]) -> None:
        for position, clause in enumerate(clauses):
            if position:
                self.add(", ")
            self.print_grouped(clause.expression)
            self.direction(clause)

    def direction(self, clause: tree.SortClause) -> None:
        if clause.descending:
            self.add(" DESC" if clause.nulls_first else " DESC NULLS LAST")
        elif clause.nulls_first:
            self.add(" NULLS FIRST")

    def print_grouped(self, expr: tree.Expr) -> None:
        """get_rule_sortgroupclause: prints an expression of ORDER BY or GROUP BY so that it is not read as the name or
        number of a column."""
        if isinstance(expr, tree.Const):
            self.const(expr, 1)
            return
        calls = isinstance(expr, (tree.FuncExpr, tree.Aggref, tree.WindowFunc))
        if isinstance(expr, tree.FuncExpr) and expr.display == "operator":
            calls = False
        if calls or (self.pretty and not isinstance(expr, tree.Var)):
            self.sequence("(", expr, ")")
        else:
            self.expression(expr)

    def query(self, query: tree.Query, names: Sequence[str] | None = None, named: bool = True) -> None:
        """Prints a query at the present indentation."""
        raise NotImplementedError


# Expressions in which an operator needs no parentheses, because they have their own or other separators.
_ENCLOSING = (
    tree.BoolExpr, tree.SubscriptingRef, tree.ArrayExpr, tree.RowExpr, tree.CoalesceExpr, tree.MinMaxExpr,
    tree.NullIfExpr, tree.Aggref, tree.GroupingFunc, tree.WindowFunc, tree.CaseExpr,
)  # fmt: skip
_WORDS = (
    tree.Var, tree.Const, tree.Param, tree.SetToDefault, tree.SqlValueFunction, tree.NextValueExpr, tree.DomainValue,
)  # fmt: skip


_PARTS = frozenset(ITEMS.values())
_CASTS = (tree.RelabelType, tree.CoerceViaIO, tree.CoerceTypmod, tree.ArrayCoerce, tree.CoerceToDomain)


def is_simple(expr: tree.Expr, parent: tree.Expr) -> bool:
    """isSimpleNode: whether the expression needs no parentheses within `parent` in the pretty form."""
    if isinstance(expr, _CASTS):
        return is_simple(expr.argument, expr)
    if isinstance(expr, tree.FieldSelect):
        return not isinstance(parent, tree.FieldSelect)
    is_operator = isinstance(expr, tree.FuncExpr) and expr.display == "operator"
    if is_operator and isinstance(parent, tree.FuncExpr) and parent.display == "operator":
        assert isinstance(expr, tree.FuncExpr)
        return _binds_tighter(expr, parent)
    if isinstance(expr, tree.BoolExpr) and isinstance(parent, tree.BoolExpr):
        return parent.operator == "or" or (parent.operator == "and" and expr.operator != "or")
    if is_operator or isinstance(
        expr, (tree.BoolExpr, tree.SubLink, tree.NullTest, tree.BooleanTest, tree.DistinctExpr)
    ):
        if isinstance(parent, tree.FuncExpr):
            return parent.display == "call"
        return isinstance(parent, _ENCLOSING)
    return isinstance(expr, (*_WORDS, tree.FuncExpr, *_ENCLOSING))


def _binds_tighter(expr: tree.FuncExpr, parent: tree.FuncExpr) -> bool:
    """Whether arithmetic within arithmetic keeps its meaning without parentheses."""
    classes = []
    for call in (expr, parent):
        name = call.operator.name if call.operator is not None and len(call.arguments) == 2 else ""
        if len(name) != 1 or name not in "+-*/%":
            return False
        classes.append(name in "*/%")
    inner, outer = classes
    return parent.arguments[0] is expr if inner == outer else inner


_TRIMS = {"btrim": "BOTH", "ltrim": "LEADING", "rtrim": "TRAILING"}


def _renamed_by_joins(entries: Sequence[tree.RangeEntry]) -> dict[tuple[int, int], list[tuple[int, str]]]:
    """The columns that an aliased join hides behind its own name. Later joins are outer ones."""
    found: dict[tuple[int, int], list[tuple[int, str]]] = {}
    for index, entry in enumerate(entries):
        if isinstance(entry, tree.RangeJoin) and entry.alias != "unnamed_join":
            for column, expr in zip(entry.columns, entry.expressions, strict=True):
                if isinstance(expr, tree.Var):
                    found.setdefault((expr.relation, expr.column), []).insert(0, (index, column.name))
    return found


def _hidden_cast(expr: tree.Expr) -> tree.Expr:
    """Marks a cast as implicit, because another cast to the same type with a modifier follows: only the latter is
    printed."""
    if isinstance(expr, tree.FuncExpr) and expr.display == "cast_explicit":
        return replace(expr, display="cast_implicit")
    if isinstance(expr, (tree.RelabelType, tree.CoerceViaIO)) and not expr.implicit:
        return replace(expr, implicit=True)
    return expr


def _compared_value(condition: tree.Expr) -> tree.Expr:
    """The value that CASE x WHEN compares x with: the right side of the condition that the analyser has built."""
    if isinstance(condition, tree.FuncExpr) and condition.operator is not None and len(condition.arguments) == 2:
        return condition.arguments[1]
    return condition


_EXPRESSIONS: dict[type, Callable[[Any, Any], None]] = {
    tree.Const: ExpressionPrinter.const,
    tree.Param: ExpressionPrinter.param,
    tree.Var: ExpressionPrinter.var,
    tree.FuncExpr: ExpressionPrinter.call,
    tree.RelabelType: ExpressionPrinter.relabel,
    tree.CollateExpr: ExpressionPrinter.collate,
    tree.CoerceViaIO: ExpressionPrinter.relabel,
    tree.CoerceTypmod: ExpressionPrinter.typmod,
    tree.ArrayCoerce: ExpressionPrinter.array_coerce,
    tree.DomainValue: ExpressionPrinter.domain_value,
    tree.CoerceToDomain: ExpressionPrinter.to_domain,
    tree.Aggref: ExpressionPrinter.aggregate,
    tree.WindowFunc: ExpressionPrinter.window_call,
    tree.GroupingFunc: ExpressionPrinter.grouping,
    tree.BoolExpr: ExpressionPrinter.boolean,
    tree.NullTest: ExpressionPrinter.null_test,
    tree.BooleanTest: ExpressionPrinter.boolean_test,
    tree.DistinctExpr: ExpressionPrinter.distinct,
    tree.NullIfExpr: ExpressionPrinter.null_if,
    tree.ScalarArrayOp: ExpressionPrinter.array_operation,
    tree.CoalesceExpr: ExpressionPrinter.coalesce,
    tree.MinMaxExpr: ExpressionPrinter.min_max,
    tree.CaseExpr: ExpressionPrinter.case,
    tree.ArrayExpr: ExpressionPrinter.array,
    tree.RowExpr: ExpressionPrinter.row,
    tree.RowCompare: ExpressionPrinter.row_compare,
    tree.FieldSelect: ExpressionPrinter.field,
    tree.SubscriptingRef: ExpressionPrinter.subscript,
    tree.SubLink: ExpressionPrinter.sublink,
    tree.SqlValueFunction: ExpressionPrinter.value_function,
    tree.NextValueExpr: ExpressionPrinter.next_value,
    tree.SetToDefault: ExpressionPrinter.default,
}
