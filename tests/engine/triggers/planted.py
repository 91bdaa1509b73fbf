"""Servers with a fault in their triggers, which tests must notice (`python -m tests.torture.planted triggers ...`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from engine.execute import foreign_keys, triggers
from engine.session import session
from engine.sql.analyze import rules
from engine.statements.ddl_context import SessionDdl


def _reverse() -> None:
    found = triggers.triggers_for
    triggers.triggers_for = lambda *given, **named: found(*given, **named)[::-1]


def _forget_conditions() -> None:
    triggers._condition = lambda *_: lambda *_: True


def _forget_columns() -> None:
    triggers._concerns = lambda *_: True


def _keep_rows() -> None:
    before = triggers.RowTriggers._before

    def kept(self: Any, found: Any, context: Any, old: Any, new: Any, look: Any = None) -> Any:
        row = before(self, found, context, old, new, look)
        return new if row is None else row

    triggers.RowTriggers._before = kept  # type: ignore[method-assign]


def _forget_changes() -> None:
    before = triggers.RowTriggers._before

    def unchanged(self: Any, found: Any, context: Any, old: Any, new: Any, look: Any = None) -> Any:
        return None if before(self, found, context, old, new, look) is None else new

    triggers.RowTriggers._before = unchanged  # type: ignore[method-assign]


def _fire_at_once() -> None:
    around = triggers.AfterRow.around

    def early(self: Any, *given: Any) -> list[Callable[[], None]]:
        for call in around(self, *given):
            call()
        return []

    triggers.AfterRow.around = early  # type: ignore[method-assign]


def _forget_cascades() -> None:
    foreign_keys.ChildTable._events = {"u": None, "d": None}  # type: ignore[assignment]


def _change_in_use() -> None:
    SessionDdl.refuse_in_use = lambda *_: None  # type: ignore[method-assign]


def _forget_view_defaults() -> None:
    rules.default_of_view = lambda *_: None


def _check_replicas() -> None:
    session.Session.is_replica = property(lambda _: False, lambda _, __: None)  # type: ignore[assignment]


FAULTS: dict[str, Callable[[], None]] = {
    "the order of names is reversed": _reverse,
    "conditions are ignored": _forget_conditions,
    "columns are ignored": _forget_columns,
    "NULL skips no row": _keep_rows,
    "a changed row is not written": _forget_changes,
    "AFTER triggers fire at their row": _fire_at_once,
    "foreign keys fire no statement triggers": _forget_cascades,
    "a table in use is changed": _change_in_use,
    "defaults of views are forgotten": _forget_view_defaults,
    "replicas check foreign keys": _check_replicas,
}
