"""The names of statements in the context of errors (plpgsql_stmt_typename)."""

from __future__ import annotations

from engine.sql import ast
from engine.sql.plpgsql import tree as pl

KINDS: dict[type, str] = {
    pl.Block: "statement block",
    pl.Assign: "assignment",
    pl.If: "IF",
    pl.Case: "CASE",
    pl.ForInteger: "FOR with integer loop variable",
    pl.ForCursor: "FOR over cursor",
    pl.Foreach: "FOREACH over array",
    pl.Return: "RETURN",
    pl.ReturnNext: "RETURN NEXT",
    pl.ReturnQuery: "RETURN QUERY",
    pl.Raise: "RAISE",
    pl.Assert: "ASSERT",
    pl.RunDynamic: "EXECUTE",
    pl.OpenCursor: "OPEN",
    pl.CloseCursor: "CLOSE",
}


def kind_of(statement: pl.PlStatement) -> str:
    """The name of a statement's kind in the context of an error (plpgsql_stmt_typename)."""
    match statement:
        case pl.Loop():
            return "LOOP" if statement.condition is None else "WHILE"
        case pl.ForQuery():
            return "FOR over EXECUTE statement" if statement.dynamic else "FOR over SELECT rows"
        case pl.Exit():
            return "CONTINUE" if statement.again else "EXIT"
        case pl.RunSql():
            if statement.perform:
                return "PERFORM"
            return {ast.CallStmt: "CALL", ast.DoStmt: "DO"}.get(type(statement.sql.tree), "SQL statement")
        case pl.GetDiagnostics():
            return "GET STACKED DIAGNOSTICS" if statement.stacked else "GET DIAGNOSTICS"
        case pl.Fetch():
            return "MOVE" if statement.move else "FETCH"
        case pl.EndTransaction():
            return "ROLLBACK" if statement.undo else "COMMIT"
    return KINDS[type(statement)]
