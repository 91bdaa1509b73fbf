"""The cached path: the plan of a known text. Nothing is awaited, and nothing is computed that planning could have
computed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from catalog.errors import SqlError
from engine.session.prepared import PastWait, Prepared
from engine.session.statement_texts import LONGEST_KEPT
from engine.sql.lift import lift
from engine.statements import planning

if TYPE_CHECKING:
    from engine.session.session import Session


def find(session: Session, sql: bytes) -> tuple[Prepared, Sequence[object]] | None:
    """A cached plan for the text of a simple Query, and its parameters; None sends the text to `run`."""
    plans = session.known_plans
    prepared = plans.get(sql) if len(sql) <= LONGEST_KEPT else None  # a longer search costs too much
    if prepared is not None:
        session.shown = sql
        if prepared.parameters.types:  # a Parse has put it there
            return None
        return (prepared, ()) if prepared.catalog is session.plan_cache_catalog() else None
    if session.unliftable is not None and session.unliftable in sql:
        return None  # only the parser can read its literals
    lifted = lift(sql)
    if lifted is None:
        return None
    template, literals, tags = lifted
    key = (template, tags)
    catalog = session.plan_cache_catalog()
    prepared = plans.get(key)
    if catalog is None or (prepared is None and key in plans):
        return None
    if prepared is None or prepared.catalog is not catalog:
        try:
            prepared = planning.prepare_lifted(session, template, tags, not session.cache.note_meeting(key))
        except PastWait:  # `run` waits until that exists
            return None
        planning.keep(session, key, prepared)
        if prepared is None:
            return None
    session.shown = sql
    try:
        decoders = prepared.parameters.literals
        return prepared, [decode(literal) for decode, literal in zip(decoders, literals, strict=True)]
    except SqlError:
        return None  # planned with its literals in place, the statement reports the error's position
