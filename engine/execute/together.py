"""INSERT ... VALUES compiled for many rows at once: those of one statement, and of many executions of it.

The rows' values are made one after the other as in the plan of one execution. Then their keys are looked up and locked,
and the rows are written, all together (`TableWriter.write_together`). That has no effect unless every row succeeds. So
it is only for statements in which the difference is invisible (`together`): no row sees another one, by RETURNING or by
a function. If a row fails or has to wait, the rows are inserted one by one, and the row gets its error there.

The rows of a VALUES list must be alike: the expressions of the first one over further parameters, in order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine.execute.code import NotOnRowPath
from engine.execute.context import Together
from engine.execute.frame import minds_memory, write_function
from engine.execute.writer import TableWriter
from engine.sql import tree
from engine.sql.tree_walk import contains, has_sublink, is_volatile, substitute, walk

if TYPE_CHECKING:
    from engine.execute.modify import InsertCompiler


def parameters_of_a_row(statement: tree.Insert, types: tuple[int, ...]) -> int | None:
    """The number of parameters of each row, None if they are not alike or the statement is unsuitable."""
    if statement.source is not None or statement.on_conflict is not None or statement.returning or statement.ctes:
        return None
    if is_volatile(statement) or has_sublink(statement) or contains(statement, _is_position):
        return None
    each, rest = divmod(len(types), len(statement.rows))
    if rest or not each or types != types[:each] * len(statement.rows):
        return None
    first = statement.rows[0]
    if any(isinstance(item, tree.Param) and item.number > each for item in walk(first)):
        return None
    for place, row in enumerate(statement.rows[1:], 1):
        if _number(row, -each * place) != first:
            return None
    return each


def _is_position(node: object) -> bool:
    return isinstance(node, tree.CurrentOf)


def _number(row: tuple[tree.Expr, ...], by: int) -> tuple[tree.Expr, ...]:
    """The row with other numbers of parameters."""

    def change(node: Any, depth: int) -> tree.Param | None:
        return tree.Param(node.number + by, node.type) if isinstance(node, tree.Param) else None

    return substitute(row, change)


def compile_together(compiler: InsertCompiler, each: int) -> Together | None:
    """None: the statement is unsuitable. `each`: parameters of a row."""
    statement, shell, code = compiler.statement, compiler.shell, compiler.code
    writer = shell.writer
    if type(writer) is not TableWriter or writer.exclusions:
        return None
    if any(foreign.parent is writer for foreign in writer.outgoing):
        return None  # a row must not refer to one of a later execution

    others = [name for name, _ in statement.checks if name.startswith((tree.POLICY_CHECK, tree.VIEW_CHECK))]
    triggers = None if others else shell.triggers

    def body() -> None:
        code.line("checks = Checks()")
        code.line("made = []")
        code.line("add = made.append")
        depth = code.depth
        code.indent(f"for {', '.join(f'p{number}' for number in range(1, each + 1))}, in parameters:")
        write_row = compiler.write_row_values if triggers is None else compiler.write_given_row
        write_row(statement.rows[0])
        code.line("add(row)")
        code.dedent_to(depth)
        if triggers is not None:
            code.line(f"made = {code.constant(triggers.new_rows, 'new_rows')}(context, made)")
        code.line(f"{code.constant(writer.write_together, 'write')}(context.transaction, context, made, checks)")
        code.line("checks.finish()")
        code.line('return b"", len(made)')

    try:
        write_function(code, 0, "context.transaction", body)
        if code.prologue or minds_memory(code):
            return None
        return Together(len(statement.rows), each, code.finish("run"))
    except NotOnRowPath:
        return None
