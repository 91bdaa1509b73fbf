"""EXPLAIN: the path of a statement, and its plan (PostgreSQL 16 manual, 14.1).

    row path         the steps, in the words of PostgreSQL's plans (engine/execute/explain.py)
    columnar path    "Columnar Query" with the tables it reads; VERBOSE adds the DuckDB SQL

ANALYZE runs the statement, as in PostgreSQL (including its writes), and adds rows and time; with VERBOSE also the
operators of DuckDB that a columnar query has run (profile.py). If the row path has visited too many rows, the plan is
that of the columnar path, which has run.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape

import orjson

from catalog.errors import SqlError, not_supported
from catalog.types import oids
from catalog.types.base import TypeRef
from engine.columnar.profile import Profile, operator_lines, operator_tree
from engine.execute.context import Field, RowPathFull
from engine.session.portal import Portal
from engine.session.prepared import Prepared
from engine.sql import ast
from engine.statements import paths, planning, prepared_statements, run
from engine.statements.collect import Collector
from engine.statements.compound import CompoundPath, describe
from engine.statements.rows_plan import RowsPlan
from engine.statements.utility import text_row
from engine.statistics.statements import COLUMNAR

if TYPE_CHECKING:
    from engine.session.answer import Sink
    from engine.session.session import Session

_OPTIONS = ("analyze", "verbose", "costs", "settings", "buffers", "wal", "timing", "summary", "format")
_TRUE = ("", "true", "on", "1", "yes")


async def run_explain(session: Session, tree: ast.ExplainStmt, portal: Portal, sink: Sink) -> None:
    for line in await lines(session, tree, portal):
        await sink.rows(text_row((line,)))
    sink.complete("EXPLAIN")


def explain_fields(session: Session, tree: ast.ExplainStmt) -> tuple[Field, ...]:
    return (Field("QUERY PLAN", TypeRef(oids.TEXT)),)


async def lines(session: Session, explain: ast.ExplainStmt, portal: Portal) -> list[str]:
    """The lines of the answer. Raises 42601 for an unknown option, 22023 for an unknown format."""
    options = dict(explain.options)
    for name in options:
        if name not in _OPTIONS:
            raise SqlError("42601", f'unrecognized EXPLAIN option "{name}"')
    form = options.get("format", "text").lower()
    if form not in _FORMATS:
        raise SqlError("22023", f'unrecognized value for EXPLAIN option "format": "{form}"')
    translation = portal.prepared.statement.translation
    carried = [f"PostgreSQL: {translation}"] if translation else []  # the translated text of a query in another dialect
    prepared, parameters = await _explain(session, explain, portal)
    run.fail_first(session, run.rows_plan(prepared), parameters)
    verbose = options.get("verbose", "off").lower() in _TRUE
    if options.get("analyze", "off").lower() not in _TRUE:
        return _FORMATS[form]([*describe(run.rows_plan(prepared), verbose), *carried], [])
    profile = Profile() if verbose else None
    summary = options.get("summary", "on").lower() in _TRUE
    ran, measured = await _measure(session, prepared, parameters, summary, profile)
    ran_plan = run.rows_plan(ran.prepared)
    if _ran_in_columns(ran) and ran_plan.row is not None:
        assert ran_plan.columnar is not None
        plan = [*ran_plan.columnar.explain(ran_plan.command, verbose), "  Row Path: abandoned, too many rows"]
    else:
        plan = describe(ran_plan, verbose)
    operators = [] if profile is None else profile.operators
    if form == "text":
        plan = [*plan, *operator_lines(operators)]
    return _FORMATS[form]([*plan, *carried, *measured], operator_tree(operators))


async def _explain(session: Session, explain: ast.ExplainStmt, portal: Portal) -> tuple[Prepared, Sequence[object]]:
    """The plan of the explained statement, and the values of its parameters."""
    query = explain.query.query if isinstance(explain.query, ast.DeclareCursorStmt) else explain.query
    if isinstance(query, ast.ExecuteStmt):
        prepared = prepared_statements.find_executed(session, query)
        parameters: Sequence[object] = await prepared_statements.arguments(session, query, prepared)
        executed = prepared.statement.tree
        if isinstance(executed, ast.CallStmt):  # the plan of a SELECT that is no more than a call
            called = prepared.statement.of(executed.call)
            prepared = planning.prepare(session, called, prepared.parameters.declared, as_query=True)
        if not isinstance(prepared.plan, RowsPlan):
            what = "AS OF" if prepared.plan.is_planned_late else type(executed).__name__
            not_supported(f"EXPLAIN EXECUTE of a statement with {what}")
        return prepared, parameters
    if not isinstance(query, planning.QUERY_STATEMENTS):
        not_supported(f"EXPLAIN of {type(query).__name__}")
    if isinstance(query, ast.SelectStmt) and query.into is not None:
        not_supported("EXPLAIN of SELECT INTO")
    explained, types = portal.prepared.statement.of(query), portal.prepared.parameters.types
    prepared = planning.prepare(session, explained, types, as_query=True)
    if not isinstance(prepared.plan, RowsPlan):
        not_supported("EXPLAIN of a change of a relation with rules")
    prepared.tally = session.node.statements.nested
    return prepared, portal.parameters


_Plans = list[dict[str, Any]]
_NO_TAG = re.compile(r"[^A-Za-z0-9]+")


def _as_json(plan: list[str], inner: _Plans) -> list[str]:
    top: dict[str, object] = {"Node Type": plan[0], "Lines": plan}
    if inner:
        top["Plans"] = inner
    return [orjson.dumps([{"Plan": top}], option=orjson.OPT_INDENT_2).decode()]


def _as_yaml(plan: list[str], inner: _Plans) -> list[str]:
    quoted = [orjson.dumps(line).decode() for line in plan]  # a JSON string is one in YAML, too
    items = "".join(f"\n      - {line}" for line in quoted)
    return [f"- Plan: \n    Node Type: {quoted[0]}\n    Lines: {items}{_yaml_plans(inner, 4)}"]


def _yaml_plans(inner: _Plans, depth: int) -> str:
    if not inner:
        return ""
    margin, text = " " * depth, f"\n{' ' * depth}Plans: "
    for node in inner:
        lead = f"\n{margin}  - "
        for name, value in node.items():
            if name != "Plans":
                text += f"{lead}{orjson.dumps(name).decode()}: {orjson.dumps(value).decode()}"
                lead = f"\n{margin}    "
        text += _yaml_plans(node.get("Plans", []), depth + 4)
    return text


def _as_xml(plan: list[str], inner: _Plans) -> list[str]:
    items = "".join(f"\n        <Item>{escape(line)}</Item>" for line in plan)
    return [
        '<explain xmlns="http://www.postgresql.org/2009/explain">\n  <Query>\n    <Plan>\n'
        f"      <Node-Type>{escape(plan[0])}</Node-Type>\n      <Lines>{items}\n      </Lines>\n"
        f"{_xml_plans(inner, 6)}    </Plan>\n  </Query>\n</explain>"
    ]


def _xml_plans(inner: _Plans, depth: int) -> str:
    if not inner:
        return ""
    margin = " " * depth
    text = f"{margin}<Plans>\n"
    for node in inner:
        text += f"{margin}  <Plan>\n"
        for name, value in node.items():
            if name != "Plans":
                tag = _NO_TAG.sub("-", name)
                text += f"{margin}    <{tag}>{escape(str(value))}</{tag}>\n"
        text += f"{_xml_plans(node.get('Plans', []), depth + 4)}{margin}  </Plan>\n"
    return f"{text}{margin}</Plans>\n"


_FORMATS: dict[str, Callable[[list[str], _Plans], list[str]]] = {
    "text": lambda plan, _: plan, "json": _as_json, "yaml": _as_yaml, "xml": _as_xml,
}  # fmt: skip


def _ran_in_columns(portal: Portal) -> bool:
    return portal.path == COLUMNAR and not isinstance(run.rows_plan(portal.prepared).columnar, CompoundPath)


async def _measure(
    session: Session, prepared: Prepared, parameters: Sequence[object], summary: bool, profile: Profile | None
) -> tuple[Portal, list[str]]:
    """Runs it: returns the portal, and the lines about it."""
    began = time.perf_counter()
    portal = Portal(prepared, parameters, prepared.text_formats)
    portal.profile = profile
    collector = Collector(session.memory)
    try:
        await run.run(session, portal, 0, collector)
    except RowPathFull:
        paths.columnar_of(session, run.rows_plan(prepared))
        portal = Portal(prepared, parameters, prepared.text_formats)
        portal.profile = profile
        await run.run(session, portal, 0, collector)
    seconds = time.perf_counter() - began - (profile.seconds if profile is not None else 0)
    path = "columnar" if _ran_in_columns(portal) else "row"
    time_taken = [f"Execution Time: {seconds * 1000:.3f} ms"] if summary else []
    return portal, [f"Path: {path}", f"Actual Rows: {portal.count}", *time_taken]
