"""The SQL in a body: expressions as analysed trees, and queries and changes as plans.

An expression that is nothing but an expression becomes a part of the function's Python source. Its variables are the
function's locals: variable number n is `p<n + 1>`, as a parameter of a statement is. An expression over a field of a
record is analysed when the record has a value, once for each shape of it. Any other expression is a query, which runs
as a statement.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from catalog.errors import SqlError
from catalog.schema import Column
from engine.execute.code import Code, NotOnRowPath
from engine.execute.compiled_value import Value
from engine.execute.expressions import ExpressionCompiler
from engine.sql import ast, tree
from engine.sql.analyze import Environment, analyze
from engine.sql.analyze.assignments import TO_VARIABLE, store_part
from engine.sql.analyze.collations import collate
from engine.sql.analyze.routines import expand_calls, plain_expression
from engine.sql.analyze.state import State
from engine.sql.plpgsql.scope import VariableScope
from engine.sql.plpgsql.tree import Fragment, Shape, Target, Variable
from engine.sql.tree_walk import walk
from engine.statements.plpgsql.names import LocalNames, Names, ParameterUse


@dataclass(frozen=True, slots=True)
class Text:
    """An analysed text. `uses`: its parameters in their order."""

    analyzed: tree.Analyzed
    uses: tuple[ParameterUse, ...]

    def plain(self, environment: Environment) -> tree.Expr | None:
        """The expression that the text is; None where it is more than that."""
        return _plain(self.analyzed, environment)


def records_in(fragment: Fragment) -> list[Variable]:
    """The records without declared fields that a text may use."""
    return records_among(fragment.tree, fragment.scope)


def records_among(nodes: object, scope: VariableScope) -> list[Variable]:
    """The records without declared fields that a tree, or a tuple of trees, may use."""
    return [variable for variable in variables_among(nodes, scope) if variable.type is None]


def variables_among(nodes: object, scope: VariableScope) -> list[Variable]:
    """The variables that a tree, or a tuple of trees, may use: some of the names may turn out to be columns."""
    found: dict[int, Variable] = {}
    for node in walk(nodes):
        used: tuple[tuple[str, ...], ...] = ()
        if isinstance(node, ast.ColumnRef):
            used = node.names, node.names[:-1]
        elif isinstance(node, ast.UpdateStmt | ast.DeleteStmt) and node.current_of is not None:
            used = ((node.current_of,),)
        for names in used:
            known = scope.find(names) if names else None
            if known is not None:
                found[known[0].number] = known[0]
    return list(found.values())


def analyse_text(
    fragment: Fragment, environment: Environment, shapes: Mapping[int, Shape | None], conflict: str
) -> Text:
    """A text as a statement, with its parameters numbered from 1."""
    names = Names(fragment.scope, shapes, conflict)
    node = _with_fields(fragment, shapes)
    return Text(analyze(node, environment, names=names), tuple(names.uses))


def _with_fields(fragment: Fragment, shapes: Mapping[int, Shape | None]) -> ast.Node:
    """The tree of a text, with fields in place of record.* in the rows of INSERT ... VALUES."""
    node = fragment.tree
    if not isinstance(node, ast.InsertStmt) or not isinstance(node.query, ast.SelectStmt) or not node.query.values:
        return node
    query = node.query
    rows = tuple(tuple(part for cell in row for part in _cells(cell, fragment.scope, shapes)) for row in query.values)
    return node if rows == query.values else replace(node, query=replace(query, values=rows))


def _cells(cell: ast.Node, scope: VariableScope, shapes: Mapping[int, Shape | None]) -> tuple[ast.Node, ...]:
    if not isinstance(cell, ast.ColumnRef) or cell.names[-1] != "*":
        return (cell,)
    names = cell.names[:-1]
    known = scope.find(names) if names else None
    if known is None or known[0].type is not None or known[1] != len(names):
        return (cell,)
    shape = known[0].shape or shapes.get(known[0].number)
    if shape is None:
        raise SqlError("42809", "record type has not been registered")
    return tuple(ast.ColumnRef((*names, name), location=cell.location) for name, _ in shape)


def has_fields_alone(fragment: Fragment) -> bool:
    """Whether all that a text may use of records are fields of those of tables' rows."""
    for node in walk(fragment.tree):
        if isinstance(node, ast.ColumnRef):
            names = node.names[:-1] if node.names[-1] == "*" else node.names
            known = fragment.scope.find(names) if names else None
            if known is not None and known[0].type is None:
                whole = known[1] == len(node.names) or node.names[-1] == "*"
                if whole or known[0].shape is None:
                    return False
    return True


def local_expression(
    fragment: Fragment, environment: Environment, conflict: str, fields: dict[ParameterUse, int], first: int
) -> tree.Expr | None:
    """A text as an expression over the function's locals; None where it is more than an expression. `fields`, `first`:
    see LocalNames."""
    names = LocalNames(fragment.scope, conflict, fields, first)
    return _plain(analyze(fragment.tree, environment, names=names), environment)


def part_of_variable(state: State, target: Target, before: tree.Expr, given: tree.Expr) -> tree.Expr:
    """The value of a variable after `given` was assigned to a part of it."""
    assert target.variable.type is not None
    column = Column(1, target.variable.name, target.variable.type)
    place = ast.ResTarget(None, target.variable.name, target.steps)
    return store_part(state, before, column, place, given, TO_VARIABLE)


def failing_part(expression: tree.Expr, environment: Environment) -> tree.Expr | None:
    """A part of an expression that is computed in any case, consists of constants and fails: PostgreSQL's planner
    computes it before the expression runs."""
    compiler = ExpressionCompiler(Code(), environment.format, no_column)

    def is_constant(node: tree.Expr) -> bool:
        match node:
            case tree.Const():
                return True
            case tree.RelabelType() | tree.CoerceTypmod() | tree.CoerceViaIO():
                return is_constant(node.argument)
            case tree.FuncExpr():
                return node.function.volatility == "i" and all(map(is_constant, node.arguments))
            case tree.CoalesceExpr():
                return all(map(is_constant, node.arguments))
        return False

    def search(node: tree.Expr) -> tree.Expr | None:
        arguments: Sequence[tree.Expr] = ()
        match node:
            case tree.RelabelType() | tree.CoerceTypmod() | tree.CoerceViaIO():
                arguments = (node.argument,)
            case tree.FuncExpr() | tree.BoolExpr():
                arguments = node.arguments
            case tree.RowExpr():
                arguments = node.elements
        found = next((part for item in arguments if (part := search(item)) is not None), None)
        return found or (node if arguments and is_constant(node) and compiler.constant(node) is None else None)

    return search(expression)


def no_column(item: tree.Var) -> Value:
    """Columns in an expression: there are none."""
    raise NotOnRowPath(f"column {item.name}")


def _plain(analyzed: tree.Analyzed, environment: Environment) -> tree.Expr | None:
    if analyzed.collated:
        analyzed = collate(analyzed, environment.catalog)
    query = expand_calls(analyzed, environment).statement
    return plain_expression(query) if isinstance(query, tree.Query) and len(query.output) == 1 else None


def shape_of_record(value: object) -> Shape | None:
    """The shape of a record's value; None without one."""
    return getattr(value, "shape", None)


def shape_of_rows(expression: tree.Expr) -> Shape | None:
    """The shape of the rows that an expression gives, if it chooses among rows of one shape: CASE, COALESCE."""
    match expression:
        case tree.RowExpr():
            return tuple((name, item.type) for name, item in zip(expression.names, expression.elements, strict=True))
        case tree.CaseExpr():
            parts: Sequence[tree.Expr] = (*(value for _, value in expression.whens), expression.default)
        case tree.CoalesceExpr():
            parts = expression.arguments
        case _:
            return None
    shapes = {shape_of_rows(part) for part in parts if not (isinstance(part, tree.Const) and part.value is None)}
    return shapes.pop() if len(shapes) == 1 else None


def record_named(fragment: Fragment) -> Variable | None:
    """The record that an expression consists of; None for any other expression."""
    node = fragment.tree
    if not isinstance(node, ast.SelectStmt) or fragment.text.strip().count(" "):
        return None
    names = tuple(fragment.text.strip().lower().split("."))
    found = fragment.scope.find(names)
    return found[0] if found is not None and found[1] == len(names) and found[0].type is None else None


def field_place(target: Target) -> int:
    """The position of the field of a record of a table's row that an assignment names; -1 for any other target."""
    shape, steps = target.variable.shape, target.steps
    if shape is None or target.variable.type is not None or len(steps) != 1:
        return -1
    return next((place for place, (name, _) in enumerate(shape) if name == steps[0]), -1)
