"""Compiled and planned bodies, kept with their catalog."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from catalog.catalog import Catalog
from catalog.derived import DerivedValues
from catalog.errors import SqlError
from catalog.routines import function_in
from catalog.schema import Routine, Table, View
from catalog.types import oids
from engine.execute.context import RoutineCall
from engine.session.prepared import Prepared
from engine.sql import ast, tree
from engine.sql.analyze.routines import body_of, parsed_body
from engine.sql.plpgsql.parser import Signature, parse_body
from engine.sql.plpgsql.signatures import event_trigger_signature, signature_of, text_of, trigger_signature
from engine.sql.plpgsql.tree import Shape
from engine.sql.plpgsql.types import CatalogTypes
from engine.statements import planning
from engine.statements.plpgsql.compile import BodyCompiler
from engine.statements.plpgsql.known import Known
from engine.statements.plpgsql.program import Program

if TYPE_CHECKING:
    from engine.session.session import Session

_CONFLICT, _PRINT_STRICT = "plpgsql.variable_conflict", "plpgsql.print_strict_params"
MOST_PROGRAMS = 2000
"""That are kept: one for each function, types of arguments, user, search path, ..."""


@dataclass(frozen=True, slots=True)
class SqlBody:
    """The statements of a function in SQL, planned, and the columns of the last one."""

    statements: tuple[Prepared, ...]


@dataclass(slots=True)
class _Kept:
    """What is kept with one catalog."""

    programs: dict[object, tuple[Program, Known]] = field(default_factory=dict)
    shapes: dict[int, Shape] = field(default_factory=dict)
    """The rows of relations with triggers, by their OIDs."""
    bodies: dict[object, SqlBody] = field(default_factory=dict)
    recent: dict[RoutineCall, tuple[Program, Known]] = field(default_factory=dict)
    last: tuple[RoutineCall | None, tuple[Program, Known] | None] = (
        None,
        None,
    )  # of `recent`: hashing a call takes long
    recent_key: tuple[object, ...] = ()  # what the calls in `recent` have in common

    def recent_programs(self, session: Session) -> dict[RoutineCall, tuple[Program, Known]]:
        """Those of sessions like this one, found without comparing what they depend on."""
        find, known = session.settings.find, self.recent_key
        options = find(_CONFLICT), find(_PRINT_STRICT)
        if not known or known[0] is not session.key or known[1:] != (session.temporary_schema, options):
            self.last = None, None
            self.recent, self.recent_key = {}, (session.key, session.temporary_schema, options)
        return self.recent


_kept: DerivedValues[str, _Kept] = DerivedValues()


def _kept_with(catalog: Catalog) -> _Kept:
    known = _kept.of(catalog)
    return known.get("") or known.setdefault("", _Kept())


def program_of(session: Session, routine: Routine, call: RoutineCall) -> tuple[Program, Known]:
    """The program of a routine in PL/pgSQL, for a call of it. Raises errors of its text."""
    kept = _kept_with(session.catalog)
    recent = kept.recent_programs(session)
    last, program = kept.last
    if last is call and program is not None:
        return program
    found = recent.get(call)
    if found is None:
        found = recent[call] = _find_program(session, kept, routine, call)
    kept.last = call, found
    return found


def _find_program(session: Session, kept: _Kept, routine: Routine, call: RoutineCall) -> tuple[Program, Known]:
    environment = session.environment
    types = call.types if oids.POLYMORPHIC & {*routine.signature, routine.result.oid} else ()
    key = (routine.oid, call.result, types, environment.path, session.key, _options(session))
    found = kept.programs.get(key)
    if found is None:
        if len(kept.programs) >= MOST_PROGRAMS:
            kept.programs.clear()
            kept.recent.clear()
        signature = signature_of(routine, call.result, types)
        found = kept.programs[key] = compile_body(session, routine.body, signature)
        found[0].shown, found[0].is_volatile = text_of(routine), routine.volatility == "v"
    return found


def trigger_program_of(
    session: Session, routine: Routine, relation: Table | View, local: tuple[str, ...]
) -> tuple[Program, Known, Shape]:
    """The program of a trigger function for one relation, and the form of its rows. `local`: the names of transition
    tables."""
    kept = _kept_with(session.catalog)
    shape = kept.shapes.get(relation.oid)
    if shape is None:
        shape = tuple((column.name, column.type) for column in relation.columns)
        kept.shapes[relation.oid] = shape
    key = (routine.oid, relation.oid, local, session.environment.path, session.key, _options(session))
    found = kept.programs.get(key)
    if found is None:
        if len(kept.programs) >= MOST_PROGRAMS:
            kept.programs.clear()
        found = compile_body(session, routine.body, trigger_signature(routine, shape))
        found[0].shown, found[0].is_volatile = text_of(routine), routine.volatility == "v"
        kept.programs[key] = found
    return *found, shape


def event_program_of(session: Session, routine: Routine) -> tuple[Program, Known]:
    """The program of an event trigger's function."""
    kept = _kept_with(session.catalog)
    key = (routine.oid, session.environment.path, session.key, _options(session))
    found = kept.programs.get(key)
    if found is None:
        found = compile_body(session, routine.body, event_trigger_signature(routine))
        found[0].shown, found[0].is_volatile = text_of(routine), routine.volatility == "v"
        kept.programs[key] = found
    return found


def _options(session: Session) -> tuple[str, bool]:
    """The settings that bodies are compiled with: plpgsql.variable_conflict and plpgsql.print_strict_params."""
    find = session.settings.find
    return find(_CONFLICT) or "error", find(_PRINT_STRICT) in ("on", "true", "1")


def compile_body(session: Session, body: str, signature: Signature) -> tuple[Program, Known]:
    """A body that is not kept: that of DO."""
    environment = session.environment
    parsed = parse_body(body, signature, CatalogTypes(environment), session.key.conforming)
    return BodyCompiler(parsed, signature, environment, *_options(session)).compile(), Known()


def plan_of_body(
    session: Session, routine: Routine, statement: ast.Statement, item: tree.Analyzed | ast.Node, types: Sequence[int]
) -> Prepared:
    """The plan of one statement of a body in SQL; `statement` is the text for queries and changes. Raises 0A000 for
    what such a body may not have."""
    if isinstance(item, tree.Analyzed):
        prepared = planning.plan_statement(session, statement, item, session.environment)
    else:
        if isinstance(item, ast.CopyStmt) and item.filename is None:
            raise SqlError("0A000", "cannot COPY to/from client in an SQL function")
        if isinstance(item, ast.TransactionStmt):
            raise SqlError("0A000", f"{item.kind.upper()} is not allowed in an SQL function")
        text = ast.Statement(item, routine.body, 0, len(types), routine.body)
        prepared = planning.prepare(session, text, types)
    prepared.tally = session.node.statements.nested
    return prepared


def sql_body_of(session: Session, routine: Routine, call: RoutineCall) -> SqlBody:
    """The statements of a routine in SQL, for a call of it."""
    kept = _kept_with(session.catalog)
    environment = session.environment
    key = (routine.oid, call, environment.path, session.key, session.user_name)
    found = kept.bodies.get(key)
    if found is None:
        if len(kept.bodies) >= MOST_PROGRAMS:
            kept.bodies.clear()
        function = function_in(session.catalog, routine)
        body = body_of(routine, environment, function, call.types, call.result)
        planned = []
        for node, item in zip(parsed_body(routine), body.statements, strict=True):
            statement = ast.Statement(node, routine.body, 0, len(call.types), routine.body)
            planned.append(plan_of_body(session, routine, statement, item, call.types))
        found = kept.bodies[key] = SqlBody(tuple(planned))
    return found
