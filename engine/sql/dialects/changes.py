"""Statements that change rows or tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sqlglot.expressions as exp

from engine.sql.dialects.casts import type_name
from engine.sql.dialects.joins import from_clause, table_name
from engine.sql.dialects.writer import Writer, construct, word_of


def _target(writer: Writer, node: Any) -> str:
    """Returns the changed table, with its alias."""
    if not isinstance(node, exp.Table):
        writer.refuse(construct(node), node)
    name, schema, catalog, alias = writer.take(node, "this", "db", "catalog", "alias")
    named = "" if alias is None else f" AS {writer.name(writer.take(alias, 'this')[0])}"
    return f"{table_name(writer, name, schema, catalog)}{named}"


def _insert(writer: Writer, node: Any) -> str:
    target, source, default = writer.take(node, "this", "expression", "default")
    columns = ""
    if isinstance(target, exp.Schema):
        target, names = writer.take(target, "this", "expressions")
        columns = f" ({', '.join(map(writer.name, names))})"
    if default:
        return f"INSERT INTO {_target(writer, target)}{columns} DEFAULT VALUES"
    if not isinstance(source, exp.Query | exp.Values):
        writer.refuse("INSERT of other than a query", node)
    return f"INSERT INTO {_target(writer, target)}{columns} {writer.text(source)}"


def _update(writer: Writer, node: Any) -> str:
    target, assignments, from_, where = writer.take(node, "this", "expressions", "from_", "where")
    if from_ is not None and writer.dialect not in ("duckdb", "snowflake", "bigquery"):
        writer.refuse("UPDATE FROM", node)
    names: list[str] = []
    texts = []
    if not assignments:
        writer.refuse("UPDATE without SET", node)
    for assignment in assignments:
        if not isinstance(assignment, exp.EQ) or not isinstance(assignment.this, exp.Column):
            writer.refuse("SET", node)
        if writer.dialect == "mysql":  # MySQL assigns in order, and later assignments read the new values
            read = {column.name.lower() for column in assignment.expression.find_all(exp.Column)}
            if read & set(names):
                writer.refuse("SET of a column that an assignment before it has changed", assignment)
        name, table = writer.take(assignment.this, "this", "table")
        if table is not None and writer.name(table) != writer.quote(target.alias_or_name.lower()):
            writer.refuse("UPDATE of several tables", assignment)
        names.append(name.name.lower())
        value = writer.take(assignment, "this", "expression")[1]
        text = "DEFAULT" if word_of(value) == "DEFAULT" else writer.text(value)
        texts.append(f"{writer.name(name)} = {text}")
    words = [f"UPDATE {_target(writer, target)} SET {', '.join(texts)}", from_clause(writer, from_, None)]
    return " ".join(filter(None, (*words, _where(writer, where))))


def _delete(writer: Writer, node: Any) -> str:
    target, where = writer.take(node, "this", "where")
    return " ".join(filter(None, (f"DELETE FROM {_target(writer, target)}", _where(writer, where))))


def _where(writer: Writer, node: Any) -> str:
    return "" if node is None else f"WHERE {writer.text(node)}"


# ---- tables --------------------------------------------------------------------------------------------------------


def _create(writer: Writer, node: Any) -> str:
    kind, target, query, exists, replace = writer.take(node, "kind", "this", "expression", "exists", "replace")
    word = str(kind).upper()
    if word not in ("TABLE", "VIEW") or (replace and word == "TABLE"):
        writer.refuse(f"CREATE {'OR REPLACE ' if replace else ''}{word}", node)
    columns = None
    if isinstance(target, exp.Schema):
        target, columns = writer.take(target, "this", "expressions")
    head = f"CREATE {'OR REPLACE ' if replace else ''}{word} {'IF NOT EXISTS ' if exists else ''}"
    name = _target(writer, target)
    if query is not None:
        if columns or not isinstance(query, exp.Query) or (word == "VIEW" and exists):
            writer.refuse(f"CREATE {word} AS", node)
        return f"{head}{name} AS {writer.text(query)}"
    if word != "TABLE" or not columns:
        writer.refuse(f"CREATE {word} without columns", node)
    return f"{head}{name} ({', '.join(_table_element(writer, item) for item in columns)})"


def _table_element(writer: Writer, node: Any) -> str:
    if isinstance(node, exp.ColumnDef):
        name, kind, constraints = writer.take(node, "this", "kind", "constraints")
        if kind is None:
            writer.refuse("column without a type", node)
        words = [writer.name(name), type_name(writer, kind, column=True)]
        return " ".join((*words, *(_constraint(writer, item) for item in constraints or ())))
    if isinstance(node, exp.PrimaryKey):
        columns, include = writer.take(node, "expressions", "include")
        if include is not None:
            writer.take(include)
        return f"PRIMARY KEY ({', '.join(_key_column(writer, item) for item in columns)})"
    writer.refuse(f"CREATE TABLE {construct(node)}", node)


def _key_column(writer: Writer, node: Any) -> str:
    if isinstance(node, exp.Ordered):
        (node,) = writer.take(node, "this", "nulls_first")[:1]
    if isinstance(node, exp.Column):
        (node,) = writer.take(node, "this")
    return writer.name(node)


def _constraint(writer: Writer, node: Any) -> str:
    (kind,) = writer.take(node, "kind")
    if isinstance(kind, exp.NotNullColumnConstraint):
        (allows,) = writer.take(kind, "allow_null")
        return "NULL" if allows else "NOT NULL"
    if isinstance(kind, exp.PrimaryKeyColumnConstraint):
        writer.take(kind)
        return "PRIMARY KEY"
    if isinstance(kind, exp.UniqueColumnConstraint):
        writer.take(kind)
        return "UNIQUE"
    if isinstance(kind, exp.DefaultColumnConstraint):
        (value,) = writer.take(kind, "this")
        return f"DEFAULT {writer.operand(value)}"
    writer.refuse(construct(kind).removesuffix(" COLUMN CONSTRAINT"), node)


def _drop(writer: Writer, node: Any) -> str:
    kind, tables, exists, cascade = writer.take(node, "kind", "tables", "exists", "cascade")
    word = str(kind).upper()
    if word not in ("TABLE", "VIEW"):
        writer.refuse(f"DROP {word}", node)
    behind = " CASCADE" if cascade else ""
    listed = ", ".join(_target(writer, table) for table in tables)
    return f"DROP {word} {'IF EXISTS ' if exists else ''}{listed}{behind}"


def _truncate(writer: Writer, node: Any) -> str:
    (tables,) = writer.take(node, "expressions")
    return f"TRUNCATE TABLE {', '.join(_target(writer, table) for table in tables)}"


WRITERS: dict[type, Callable[[Writer, Any], str]] = {
    exp.Insert: _insert,
    exp.Update: _update,
    exp.Delete: _delete,
    exp.Create: _create,
    exp.Drop: _drop,
    exp.TruncateTable: _truncate,
}
