"""The functions of pg_stat_statements, which read the node's statistics (engine/statistics).

Columns without a counterpart in Shoal are 0: blocks (LMDB does not count pages by statement), the WAL of a statement,
JIT. Planning is not measured, as with PostgreSQL's default pg_stat_statements.track_planning = off.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Protocol, cast

from catalog.errors import SqlError
from catalog.functions.base import CallContext
from catalog.functions.registry import implements
from catalog.schema import Role
from catalog.system.content import Live

_UNREADABLE = "<insufficient privilege>"
_NO_PLANNING = (0, 0.0, 0.0, 0.0, 0.0, 0.0)
_NO_BLOCKS = (*(0,) * 10, *(0.0,) * 4)
_NO_LOG = (0, 0, Decimal(0))
_NO_JIT = (0, 0.0) * 4


class _Surroundings(Protocol):
    user: Role | None
    live: Live


class _Session(Protocol):
    @property
    def surroundings(self) -> _Surroundings: ...


def _surroundings(call: CallContext) -> _Surroundings:
    return cast(_Session, call.session).surroundings


@implements("pg_stat_statements_1_10", needs_session=True)
def _statements(call: CallContext, with_text: bool) -> Iterable[tuple[object, ...]]:
    for row in _surroundings(call).live.statements():
        shown = (row.queryid, row.text if with_text else None) if row.readable else (None, _UNREADABLE)
        times = (row.total, row.least, row.most, row.mean, row.deviation)
        yield (
            row.user, row.database, True, *shown, *_NO_PLANNING, row.calls, *times, row.rows, *_NO_BLOCKS, *_NO_LOG,
            *_NO_JIT,
        )  # fmt: skip


@implements("pg_stat_statements_info", needs_session=True)
def _info(call: CallContext) -> tuple[int, int]:
    return _surroundings(call).live.statements_info()


@implements("pg_stat_statements_reset_1_7", needs_session=True)
def _reset(call: CallContext, user: int, database: int, queryid: int) -> None:
    surroundings = _surroundings(call)
    if surroundings.user is None or not surroundings.user.superuser:
        raise SqlError("42501", "permission denied for function pg_stat_statements_reset")
    surroundings.live.reset_statements(user, database, queryid)
