"""What the planner makes of a statement, as text that is the same in every run."""

from __future__ import annotations

import contextlib
import hashlib
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import shoal
from catalog import patience
from catalog.errors import SqlError
from engine.columnar.interface import ColumnarQuery
from engine.execute.code import Code
from engine.session.session import Session
from engine.sql import ast
from engine.sql.ast import Statement
from engine.sql.lift import lift
from engine.sql.parser import parse
from engine.statements import planning
from engine.statements.columnar_read import ColumnarRead
from engine.statements.compound import CompoundPath, describe
from engine.statements.dml import ColumnarChange
from engine.statements.paths import columnar_of
from engine.statements.routine_path import RoutinePath
from engine.statements.rows_plan import ColumnarPath, RowsPlan
from shoal.embedded.connection import Connection
from shoal.embedded.errors import Error

FIRST_OWN = 16384
_NUMBER = re.compile(r"(?<![\w.])\d{5,}(?![\w.])")
_KINDS = {
    "ColumnarRead": "columnar", "ColumnarChange": "dml", "CompoundPath": "compound", "UtilityPlan": "utility",
    "EmptyStatement": "empty", "AsOfPlan": "past", "CallPlan": "call", "RoutinePath": "calls",
}  # fmt: skip
_PLACE = re.compile(r"\{([tw])(\d+)\}")


@dataclass(slots=True)
class Made:
    """`plan` is what EXPLAIN prints, or why there is no plan; `texts` are the generated ones: kind -> text."""

    sql: str
    plan: list[str]
    texts: dict[str, str] = field(default_factory=dict)

    def full(self) -> str:
        return "\n".join([self.sql, *_indented(self.plan), *(f"  [{k}]\n{_shifted(v)}" for k, v in self.texts.items())])

    def brief(self) -> str:
        """With a hash in place of each generated text."""
        hashes = " ".join(f"{kind}={digest(text)}" for kind, text in self.texts.items())
        return "\n".join([self.sql, *_indented(self.plan), *([f"  [{hashes}]"] if hashes else [])])


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _indented(lines: Sequence[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def _shifted(text: str) -> str:
    return "\n".join(f"    {line}" if line else "" for line in text.splitlines())


@contextlib.contextmanager
def written_sources() -> Iterator[list[tuple[str, dict[str, object]]]]:
    """The sources that are compiled meanwhile, with the objects that they name."""
    found: list[tuple[str, dict[str, object]]] = []
    finish = Code.finish

    def noted(code: Code, name: str) -> Callable[..., Any]:
        found.append((code.source, dict(code.names)))
        return finish(code, name)

    with mock.patch.object(Code, "finish", noted):
        yield found


def record(statements: Sequence[str]) -> list[Made]:
    """What becomes of each in a database of their own. Those that define something are run; queries and changes are
    planned only, for rows have no part in it. What comes again, and becomes the same, is left out."""
    never = mock.patch.object(patience, "FOLDING", math.inf)  # what is folded does not depend on the machine
    with never, contextlib.closing(shoal.open(":memory:")) as database:
        connection = database.connect(autocommit=True)
        found: dict[str, Made] = {}
        for sql in statements:
            for made in _made(connection, sql):
                found.setdefault(made.full(), made)
        return list(found.values())


def _made(connection: Connection, sql: str) -> list[Made]:
    try:
        parsed = parse(sql)
    except SqlError as error:
        return [Made(sql, [refusal(error)])]
    if not all(isinstance(each.tree, planning.QUERY_STATEMENTS) and not _makes_table(each) for each in parsed):
        return [_run(connection, sql)]
    link = connection._link
    return [link._engine.call(planned, link._protocol.session, each) for each in parsed]


def _makes_table(statement: Statement) -> bool:
    return isinstance(statement.tree, ast.SelectStmt) and statement.tree.into is not None


def refusal(error: SqlError) -> str:
    return f"{error.sqlstate} {error.message}"


def _run(connection: Connection, sql: str) -> Made:
    try:
        connection.execute(sql)
    except Error as error:
        return Made(sql, [f"{error.sqlstate} {error}".splitlines()[0]])
    return Made(sql, ["is run"])


def planned(session: Session, statement: Statement) -> Made:
    """On the engine's thread."""
    sql = statement.text
    try:
        with written_sources() as written:
            prepared = planning.prepare(session, statement, ())
            plan = prepared.plan
            if isinstance(plan, RowsPlan) and plan.row is not None:
                plan.row_function(prepared.text_formats)
    except SqlError as error:
        return Made(sql, [refusal(error)])
    if not isinstance(plan, RowsPlan):
        return Made(sql, [_KINDS[type(plan).__name__]])
    if not prepared.lasting:
        return Made(sql, [f"{kind(plan)}: made of the time at which it is planned"])
    made = Made(sql, describe(plan, False))
    if written:
        made.texts["row"] = "".join(source for source, _ in written)
    template, lifted = _lifted(session, sql)
    if lifted:
        made.texts["lifted"] = f"{template}\n{''.join(source for source, _ in lifted)}"
    if names := _names([*written, *lifted]):
        made.texts["names"] = names
    try:
        if not isinstance(plan.columnar, RoutinePath):  # it has the row path's source
            made.texts["columnar"] = columnar_text(columnar_of(session, plan))
    except SqlError as error:
        made.plan.append(f"columnar path: {refusal(error)}")
    made.texts = {kind: named(session, text) for kind, text in made.texts.items()}
    return made


def _lifted(session: Session, sql: str) -> tuple[str, list[tuple[str, dict[str, object]]]]:
    """The template of all statements of this form, and the sources of the plan that the simple protocol keeps."""
    lifted = lift(sql.encode())
    if lifted is None:
        return "", []
    template, _, tags = lifted
    with written_sources() as written:
        prepared = planning.prepare_lifted(session, template, tags, False)
        if prepared is None or not isinstance(prepared.plan, RowsPlan) or prepared.plan.row is None:
            return "", []
        prepared.plan.row_function(prepared.text_formats)
    return f"{template.decode()} {tags.decode()}", written


def _names(written: Sequence[tuple[str, dict[str, object]]]) -> str:
    """What the sources' global names are bound to. They stand apart: a name that changes in our own code does no more
    than change these."""
    lines = (f"{name} = {shown(value)}" for _, names in written for name, value in names.items() if name[-1].isdigit())
    return "\n".join(dict.fromkeys(lines))


def shown(value: object) -> str:
    """A constant of a source: its value where that is one, else what it is, wherever that is defined."""
    if isinstance(value, int | float | str | bytes):
        return repr(value)
    return getattr(value, "__qualname__", type(value).__name__)


def kind(plan: RowsPlan) -> str:
    """The path that a plan takes."""
    return "row" if plan.at_once else _KINDS[type(plan.columnar).__name__]


def columnar_text(path: ColumnarPath) -> str:
    if isinstance(path, CompoundPath):
        return "\n".join(path.describe(lambda part: [kind(part), *_part(part)]))
    if isinstance(path, ColumnarRead):
        return _query_text(path.query)
    assert isinstance(path, ColumnarChange)
    dml = path.dml
    parts = ("key", "old", "new", "checks", "returning", "complete", "inputs")
    return "\n".join([_query_text(dml.query), *(f"{part}: {getattr(dml, part)}" for part in parts)])


def _part(plan: RowsPlan) -> list[str]:
    found = plan.row.explain() if plan.row is not None else []
    if plan.columnar is not None:
        found += columnar_text(plan.columnar).splitlines()
    return found


def _query_text(query: ColumnarQuery) -> str:
    names = {table.storage_id: table.name for table in query.tables}
    text = _PLACE.sub(lambda found: f"{{{found[1]}:{names.get(int(found[2]), '?')}}}", query.sql)
    return "\n".join([text, f"parameters: {query.parameters}", f"columns: {[c.type for c in query.columns]}"])


def named(session: Session, text: str) -> str:
    """Names in place of the OIDs of what the statements have made themselves."""
    objects = session.catalog.objects

    def name(found: re.Match[str]) -> str:
        item = objects.get(int(found[0])) if int(found[0]) >= FIRST_OWN else None
        return found[0] if item is None else f"<{getattr(item, 'name', type(item).__name__)}>"

    return _NUMBER.sub(name, text)
