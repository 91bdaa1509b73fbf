"""Plan descriptions in the lines of PostgreSQL's EXPLAIN (COSTS OFF) (PostgreSQL 16 manual, 14.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from catalog.catalog import Catalog
from catalog.collations import collation, with_rules
from catalog.schema import Table
from catalog.types import format_type, lookup
from catalog.types.base import Array
from catalog.types.collated import rules_of
from catalog.types.collated_oids import FIRST_OID as FIRST_COLLATED
from catalog.types.oids import BOOL, INTEGERS
from engine.execute.access import Access
from engine.execute.virtual import VirtualAccess
from engine.sql import tree
from engine.sql.tree_walk import transform

Detail = tuple[str, tuple["tree.Expr | CollatedKey", ...], "tree.Query | tree.Update | tree.Delete | tree.Insert"]


@dataclass(slots=True)
class PlanNote:
    """One step: a title, conditions under it ('Filter', expressions, the statement they belong to), its inputs."""

    title: str
    details: list[Detail] = field(default_factory=list)
    children: list[PlanNote] = field(default_factory=list)


def explain_lines(notes: Sequence[PlanNote], depth: int = 0) -> list[str]:
    """The lines of a plan; children are indented under an arrow."""
    lines: list[str] = []
    for note in notes:
        margin = " " * (depth * 6 - 4) + "->  " if depth else ""
        lines.append(margin + note.title)
        inner = " " * (depth * 6 + 2)
        for label, expressions, statement in note.details:
            if expressions:
                texts = [expression_text(item, statement) for item in expressions]
                if label.endswith("Key"):
                    text = ", ".join(texts)
                else:
                    text = texts[0] if len(texts) == 1 else f"({' AND '.join(texts)})"
                lines.append(f"{inner}{label}: {text}")
        lines += explain_lines(note.children, depth + 1)
    return lines


def scan_note(
    statement: tree.Query | tree.Update | tree.Delete,
    entry: tree.RangeEntry,
    access: Access | VirtualAccess | None,
    reverse: bool,
    filters: tuple[tree.Expr, ...],
) -> PlanNote:
    """The note of one relation's scan."""
    if isinstance(access, VirtualAccess):
        kind, name = ("Seq Scan" if access.kind == "all" else "Index Scan"), access.table.name
        target = name if entry.alias in ("", name) else f"{name} {entry.alias}"
        return PlanNote(f"{kind} on {target}", [("Filter", filters, statement)])
    if access is None or not isinstance(entry, tree.RangeTable) or not isinstance(entry.table, Table):
        kind = {tree.RangeValues: "Values Scan on", tree.RangeFunction: "Function Scan on"}.get(
            type(entry), "Subquery Scan on"
        )
        return PlanNote(f"{kind} {_quote(entry.alias)}", [("Filter", filters, statement)])
    name = entry.table.name
    target = name if entry.alias in ("", name) else f"{name} {entry.alias}"
    if access.full_scan and access.index is None and not reverse:
        return PlanNote(f"Seq Scan on {target}", [("Filter", filters, statement)])
    index = access.index.name if access.index is not None else primary_name(entry.table)
    backward = " Backward" if reverse else ""
    conditions = tuple(_condition_expression(access, position) for position in range(len(access.conditions)))
    return PlanNote(
        f"Index Scan{backward} using {index} on {target}",
        [("Index Cond", conditions, statement), ("Filter", filters, statement)],
    )


def primary_name(table: Table) -> str:
    """The name under which the table's own key is known."""
    for constraint in table.constraints:
        if constraint.kind == "p":
            return constraint.name
    return f"{table.name}_pkey"


def _condition_expression(access: Access, position: int) -> tree.Expr:
    """An index condition as text: (column operator operand)."""
    condition = access.conditions[position]
    expression = next((c.expression for c in access.columns if c.number == condition.column and c.expression), None)
    if expression is None:
        column: str | tree.Expr = access.table.column_by_number(condition.column).name
    else:
        column = _with_names(expression, access.table)
    return _Shown(column, condition.kind, condition.operand)  # type: ignore[return-value]


def _with_names(expression: tree.Expr, table: Table) -> tree.Expr:
    """An index's expression with the names of its columns."""

    def change(item: object, depth: int) -> object:
        return replace(item, name=table.column_by_number(item.column).name) if isinstance(item, tree.Var) else item

    return transform(expression, change)


@dataclass(frozen=True, slots=True)
class _Shown:
    column: str | tree.Expr
    kind: str
    operand: tree.Expr | None


@dataclass(frozen=True, slots=True)
class CollatedKey:
    """A sort key, and the name of the ICU collation of its order."""

    expression: tree.Expr
    name: str


def sort_key_shown(expression: tree.Expr, catalog: Catalog) -> tree.Expr | CollatedKey:
    """A sort key for EXPLAIN."""
    rules = rules_of(expression.type.oid)
    if rules is None or not isinstance(expression, tree.RelabelType):
        return expression
    return CollatedKey(expression.argument, collation(catalog, with_rules(catalog, rules)).name)


def expression_text(expression: object, statement: object) -> str:
    """An expression as EXPLAIN shows it. Forms without a short text are shown as '...'."""
    match expression:
        case _Shown(column=column) if not isinstance(column, str):
            return expression_text(replace(expression, column=expression_text(column, statement)), statement)
        case _Shown(kind="null" | "not null"):
            return f"({expression.column} IS {expression.kind.upper()})"
        case _Shown(kind="in"):
            return f"({expression.column} = ANY ({expression_text(expression.operand, statement)}))"
        case _Shown(kind="like"):
            return f"({expression.column} ~~ {expression_text(expression.operand, statement)})"
        case _Shown():
            return f"({expression.column} {expression.kind} {expression_text(expression.operand, statement)})"
        case CollatedKey():
            return f"{expression_text(expression.expression, statement)} COLLATE {_quote(expression.name)}"
        case tree.Const():
            return _constant_text(expression)
        case tree.Param():
            return f"${expression.number}"
        case tree.Var():
            return _quote(expression.name) if expression.name else _column_name(expression, statement)
        case tree.FuncExpr(operator=operator, arguments=(left, right)) if operator is not None:
            return f"({expression_text(left, statement)} {operator.name} {expression_text(right, statement)})"
        case tree.FuncExpr(display="cast_implicit", arguments=(argument,)):
            return expression_text(argument, statement)
        case tree.FuncExpr():
            arguments = ", ".join(expression_text(item, statement) for item in expression.arguments)
            return f"{expression.function.name}({arguments})"
        case tree.RelabelType(type=type_) if type_.oid >= FIRST_COLLATED:
            return expression_text(expression.argument, statement)
        case tree.RelabelType() | tree.CoerceViaIO() | tree.CoerceTypmod():
            inner = expression_text(expression.argument, statement)
            return f"({inner})::{format_type(expression.type.oid, expression.type.typmod)}"
        case tree.BoolExpr(operator="not"):
            return f"(NOT {expression_text(expression.arguments[0], statement)})"
        case tree.BoolExpr():
            joined = f" {expression.operator.upper()} ".join(
                expression_text(item, statement) for item in expression.arguments
            )
            return f"({joined})"
        case tree.NullTest():
            return f"({expression_text(expression.argument, statement)} IS {'' if expression.is_null else 'NOT '}NULL)"
        case tree.ScalarArrayOp():
            how = "ANY" if expression.use_or else "ALL"
            sides = expression_text(expression.left, statement), expression_text(expression.right, statement)
            return f"({sides[0]} {expression.operator.name} {how} ({sides[1]}))"
        case tree.ArrayExpr():
            return f"ARRAY[{', '.join(expression_text(item, statement) for item in expression.elements)}]"
        case tree.Aggref():
            arguments = ", ".join(expression_text(item, statement) for item in expression.arguments)
            return f"{expression.function.name}({'*' if expression.star else arguments})"
    return "..."


def _constant_text(constant: tree.Const) -> str:
    if constant.value is None:
        return "NULL"
    text = lookup(constant.type.oid).text_encoder()(constant.value).decode()
    if constant.type.oid in INTEGERS and not isinstance(constant.value, Array):
        return text
    if constant.type.oid == BOOL:
        return "true" if constant.value else "false"
    escaped = text.replace("'", "''")
    return f"'{escaped}'::{format_type(constant.type.oid, constant.type.typmod)}"


def _column_name(variable: tree.Var, statement: object) -> str:
    table = getattr(statement, "range_table", ())
    if variable.levels_up == 0 and variable.relation < len(table):
        entry = table[variable.relation]
        if isinstance(entry, tree.RangeTable):
            for column in entry.table.columns:
                if column.number == variable.column:
                    return _quote(column.name)
        elif 0 < variable.column <= len(entry.columns):
            return _quote(entry.columns[variable.column - 1].name)
    return f"column{variable.column}"


def _quote(name: str) -> str:
    plain = name.isidentifier() and name == name.lower()
    return name if plain else '"' + name.replace('"', '""') + '"'
