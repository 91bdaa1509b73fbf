"""Compiled bodies, kept for the newest catalog."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from catalog.catalog import Catalog
from catalog.schema import Routine, Table, View
from catalog.types.base import TypeRef
from engine.sql.plpgsql.parser import Signature, parse_body
from engine.sql.plpgsql.signatures import signature_of, trigger_signature
from engine.sql.plpgsql.tree import Shape
from engine.sql.plpgsql.types import CatalogTypes
from engine.statements.plpgsql.compile import BodyCompiler, Program
from engine.statements.plpgsql.frame import Known

if TYPE_CHECKING:
    from engine.session.session import Session


@dataclass(slots=True)
class _Kept:
    catalog: Catalog | None = None
    programs: dict[object, tuple[Program, Known]] = field(default_factory=dict)
    shapes: dict[int, Shape] = field(default_factory=dict)
    """The rows of relations with triggers, by their OIDs."""


_kept = _Kept()


def program_of(session: Session, routine: Routine, result: TypeRef) -> tuple[Program, Known]:
    """The program of a routine. Raises errors of its text."""
    if _kept.catalog is not session.catalog:
        _kept.catalog, _kept.programs, _kept.shapes = session.catalog, {}, {}
    environment = session.environment
    key = (routine.oid, result, environment.path, session.key)
    found = _kept.programs.get(key)
    if found is None:
        found = _kept.programs[key] = compile_body(session, routine.body, signature_of(routine, result))
    return found


def trigger_program_of(
    session: Session, routine: Routine, relation: Table | View
) -> tuple[Program, Known, Shape]:
    """The program of a trigger function for one relation, and the form of its rows."""
    if _kept.catalog is not session.catalog:
        _kept.catalog, _kept.programs, _kept.shapes = session.catalog, {}, {}
    shape = _kept.shapes.get(relation.oid)
    if shape is None:
        shape = tuple((column.name, column.type) for column in relation.columns)
        _kept.shapes[relation.oid] = shape
    key = (routine.oid, relation.oid, session.environment.path, session.key)
    found = _kept.programs.get(key)
    if found is None:
        found = compile_body(session, routine.body, trigger_signature(routine, shape))
        _kept.programs[key] = found
    return *found, shape


def compile_body(session: Session, body: str, signature: Signature) -> tuple[Program, Known]:
    """A body that is not kept: that of DO."""
    environment = session.environment
    parsed = parse_body(body, signature, CatalogTypes(environment), session.key.conforming)
    conflict = session.settings.find("plpgsql.variable_conflict") or "error"
    return BodyCompiler(parsed, signature, environment, conflict).compile(), Known()
