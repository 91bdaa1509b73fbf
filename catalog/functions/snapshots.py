"""pg_export_snapshot() (PostgreSQL 16 manual, 9.27.5)."""

from __future__ import annotations

from typing import Protocol, cast

from catalog.functions.base import CallContext, Trait
from catalog.functions.registry import implements


class _Session(Protocol):
    def export_snapshot(self) -> str: ...


@implements("pg_export_snapshot", needs_session=True, traits=(Trait.LEADER,))
def _export(call: CallContext) -> str:
    return cast(_Session, call.session).export_snapshot()
