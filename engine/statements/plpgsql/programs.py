"""Compiled and planned bodies, kept for the newest catalog."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from catalog.catalog import Catalog
from catalog.routines import function_in
from catalog.schema import Routine
from catalog.types import oids
from engine.execute.context import RoutineCall
from engine.session.prepared import Prepared
from engine.sql import ast
from engine.sql.analyze.routines import body_of, parsed_body
from engine.sql.plpgsql.parser import Signature, parse_body
from engine.sql.plpgsql.signatures import signature_of
from engine.sql.plpgsql.types import CatalogTypes
from engine.statements import planning
from engine.statements.plpgsql.compile import BodyCompiler, Program
from engine.statements.plpgsql.frame import Known

if TYPE_CHECKING:
    from engine.session.session import Session


@dataclass(frozen=True, slots=True)
class SqlBody:
    """The statements of a function in SQL, planned, and the columns of the last one."""

    statements: tuple[Prepared, ...]


@dataclass(slots=True)
class _Kept:
    catalog: Catalog | None = None
    programs: dict[object, tuple[Program, Known]] = field(default_factory=dict)
    bodies: dict[object, SqlBody] = field(default_factory=dict)

    def renew(self, catalog: Catalog) -> None:
        if self.catalog is not catalog:
            self.catalog, self.programs, self.bodies = catalog, {}, {}


_kept = _Kept()


def program_of(session: Session, routine: Routine, call: RoutineCall) -> tuple[Program, Known]:
    """The program of a routine in PL/pgSQL, for a call of it. Raises errors of its text."""
    _kept.renew(session.catalog)
    environment = session.environment
    types = call.types if oids.POLYMORPHIC & {*routine.signature, routine.result.oid} else ()
    key = (routine.oid, call.result, types, environment.path, session.key)
    found = _kept.programs.get(key)
    if found is None:
        signature = signature_of(routine, call.result, types)
        found = _kept.programs[key] = compile_body(session, routine.body, signature)
    return found


def compile_body(session: Session, body: str, signature: Signature) -> tuple[Program, Known]:
    """A body that is not kept: that of DO."""
    environment = session.environment
    parsed = parse_body(body, signature, CatalogTypes(environment), session.key.conforming)
    conflict = session.settings.find("plpgsql.variable_conflict") or "error"
    return BodyCompiler(parsed, signature, environment, conflict).compile(), Known()


def sql_body_of(session: Session, routine: Routine, call: RoutineCall) -> SqlBody:
    """The statements of a routine in SQL, for a call of it."""
    _kept.renew(session.catalog)
    environment = session.environment
    key = (routine.oid, call, environment.path, session.key, session.user_name)
    found = _kept.bodies.get(key)
    if found is None:
        function = function_in(session.catalog, routine)
        body = body_of(routine, environment, function, call.types, call.result)
        planned = []
        for node, analyzed in zip(parsed_body(routine), body.statements, strict=True):
            statement = ast.Statement(node, routine.body, 0, len(call.types), routine.body)
            prepared = planning.plan_statement(session, statement, analyzed, environment)
            prepared.tally = session.node.statements.nested
            planned.append(prepared)
        found = _kept.bodies[key] = SqlBody(tuple(planned))
    return found
