"""EXPLAIN: which path a statement takes, and its plan there (PostgreSQL 16 manual, 14.1).

    row path         the steps, in the words of PostgreSQL's plans (engine/execute/explain.py)
    columnar path    "Columnar Query" with the tables it reads; VERBOSE adds the DuckDB SQL it becomes

ANALYZE runs the statement, as in PostgreSQL (its writes included), and adds rows and time. Where the row path has met
more rows than it is for, the plan is the one that has run.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

import orjson

from catalog.errors import SqlError, not_supported
from engine.execute.context import RowPathFull
from engine.session import planning
from engine.session.collect import Collector
from engine.session.prepared import Portal, Prepared
from engine.sql import ast

if TYPE_CHECKING:
    from engine.session.session import Session

_OPTIONS = ("analyze", "verbose", "costs", "settings", "buffers", "wal", "timing", "summary", "format")
_TRUE = ("", "true", "on", "1", "yes")


async def lines(session: Session, explain: ast.ExplainStmt, whole: ast.Statement) -> list[str]:
    """The lines of the answer. Raises 42601 for an unknown option, 22023 for an unknown format."""
    options = dict(explain.options)
    for name in options:
        if name not in _OPTIONS:
            raise SqlError("42601", f'unrecognized EXPLAIN option "{name}"')
    form = options.get("format", "text").lower()
    if form not in _FORMATS:
        raise SqlError("22023", f'unrecognized value for EXPLAIN option "format": "{form}"')
    query = explain.query.query if isinstance(explain.query, ast.DeclareCursorStmt) else explain.query
    if not isinstance(query, planning.QUERY_STATEMENTS):
        not_supported(f"EXPLAIN of {type(query).__name__}")
    prepared = planning.prepare(session, whole.of(query), ())
    prepared.tally = session.node.statements.nested
    if not prepared.parameter_types:
        planning.fail_first(session, prepared, ())
    verbose = options.get("verbose", "off").lower() in _TRUE
    plan = describe(prepared, verbose)
    if options.get("analyze", "off").lower() in _TRUE:
        measured = await _measure(session, prepared, options.get("summary", "on").lower() in _TRUE)
        if prepared.row is not None and (prepared.columnar or prepared.dml) is not None:
            plan = [*_columnar(prepared, verbose), "  Row Path: abandoned, too many rows"]
        plan += measured
    return _FORMATS[form](plan)


def _as_json(plan: list[str]) -> list[str]:
    return [orjson.dumps([{"Plan": {"Node Type": plan[0], "Lines": plan}}], option=orjson.OPT_INDENT_2).decode()]


def _as_yaml(plan: list[str]) -> list[str]:
    quoted = [orjson.dumps(line).decode() for line in plan]  # a JSON string is one in YAML, too
    items = "".join(f"\n      - {line}" for line in quoted)
    return [f"- Plan: \n    Node Type: {quoted[0]}\n    Lines: {items}"]


def _as_xml(plan: list[str]) -> list[str]:
    items = "".join(f"\n        <Item>{escape(line)}</Item>" for line in plan)
    return [
        '<explain xmlns="http://www.postgresql.org/2009/explain">\n  <Query>\n    <Plan>\n'
        f"      <Node-Type>{escape(plan[0])}</Node-Type>\n      <Lines>{items}\n      </Lines>\n"
        "    </Plan>\n  </Query>\n</explain>"
    ]


_FORMATS: dict[str, Callable[[list[str]], list[str]]] = {
    "text": lambda plan: plan, "json": _as_json, "yaml": _as_yaml, "xml": _as_xml,
}  # fmt: skip


def describe(prepared: Prepared, verbose: bool) -> list[str]:
    """The plan of a prepared statement."""
    if prepared.row is not None:
        return prepared.row.explain()
    if prepared.compound is not None:
        return list(prepared.compound.describe(lambda part: describe(part, verbose)))
    return _columnar(prepared, verbose)


def _columnar(prepared: Prepared, verbose: bool) -> list[str]:
    if prepared.columnar is not None:
        query = prepared.columnar
        found = ["Columnar Query"]
    else:
        assert prepared.dml is not None
        query = prepared.dml.query
        found = [f"{prepared.command.title()} through Columnar Query"]
    names = [table.name for table in query.tables] + [table.name for table in query.virtual_tables]
    if names:
        found.append(f"  Tables: {', '.join(names)}")
    if verbose:
        found.append(f"  SQL: {query.sql}")
    return found


async def _measure(session: Session, prepared: Prepared, summary: bool) -> list[str]:
    if prepared.parameter_types:
        raise SqlError("42P02", "there is no parameter $1")
    began = time.perf_counter()
    portal = Portal(prepared, (), prepared.text_formats)
    collector = Collector(session.memory)
    try:
        await session.run(portal, 0, collector)
    except RowPathFull:
        planning.columnar_of(session, prepared)
        await session.run(Portal(prepared, (), prepared.text_formats), 0, collector)
    seconds = time.perf_counter() - began
    path = "row" if portal.stream is None and prepared.columnar is None and prepared.dml is None else "columnar"
    time_taken = [f"Execution Time: {seconds * 1000:.3f} ms"] if summary else []
    return [f"Path: {path}", f"Actual Rows: {portal.count}", *time_taken]
