"""Statements that are not queries: the function of its kind runs each (registry.py).

Describe needs the columns of such a statement before it runs, so these are part of the plan.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING

from engine.session.plan import Answer, Plan, ResultColumns
from engine.statements import event_triggers, registry

if TYPE_CHECKING:
    from engine.execute.context import Field
    from engine.session.answer import Sink
    from engine.session.portal import Portal
    from engine.session.prepared import Prepared
    from engine.session.session import Session
    from engine.sql import ast

_LENGTH = struct.Struct(">i")


class UtilityPlan(Plan):
    """`kind` is None for a statement that is not supported."""

    __slots__ = ("at_once", "columns", "is_cacheable", "is_counted", "kind")

    def __init__(self, kind: registry.StatementKind | None, fields: tuple[Field, ...] | None) -> None:
        self.kind = kind
        self.columns = None if fields is None else ResultColumns(fields)
        self.at_once = self.is_cacheable = kind is not None and kind.answer is not None
        self.is_counted = kind is None or kind.is_counted

    def answer(
        self, session: Session, prepared: Prepared, parameters: Sequence[object], formats: tuple[int, ...]
    ) -> Answer | None:
        return self.kind.answer(session, prepared)  # type: ignore[union-attr, misc]

    async def run(self, session: Session, portal: Portal, limit: int, sink: Sink) -> None:
        """Raises 0A000 for a statement that is not supported."""
        tree, kind = portal.prepared.statement.tree, self.kind
        if session.transaction is not None and (kind is None or kind.has_snapshot):
            session.transaction.queried = True
        run = registry.kind_of(tree).run
        assert run is not None
        portal.done = True
        registry.refuse_in_block(session, tree)
        if kind is not None and kind.fires and event_triggers.concern(session, kind, tree):
            await event_triggers.run_between(session, tree, lambda: run(session, tree, portal, sink))
        else:
            await run(session, tree, portal, sink)


class EmptyStatement(Plan):
    """A text without a statement."""

    __slots__ = ()

    is_counted = False

    async def run(self, session: Session, portal: Portal, limit: int, sink: Sink) -> None:
        portal.done = True
        sink.empty()


def plan(session: Session, tree: ast.Node) -> UtilityPlan:
    """The plan of a statement that is not a query. Raises errors of finding its columns."""
    kind = registry.find(tree)
    return UtilityPlan(kind, None if kind is None or kind.fields is None else kind.fields(session, tree))


def simple_formats(session: Session, prepared: Prepared) -> tuple[int, ...]:
    """The result formats of a simple Query."""
    kind = registry.find(prepared.statement.tree)
    found = None if kind is None or kind.formats is None else kind.formats(session, prepared.statement.tree)
    return prepared.text_formats if found is None else found


def text_row(values: Sequence[str | None]) -> bytes:
    """One DataRow of text values; text has the same bytes in both formats."""
    parts = []
    for value in values:
        if value is None:
            parts.append(b"\xff\xff\xff\xff")
        else:
            data = value.encode()
            parts += (_LENGTH.pack(len(data)), data)
    body = b"".join(parts)
    return b"D" + _LENGTH.pack(len(body) + 6) + struct.pack(">h", len(values)) + body
