"""Advisory locks, and pg_blocking_pids (PostgreSQL 16 manual, 9.27.10 and 9.27.1).

A lock is identified by one bigint or by two integers, in the session's database; the two key spaces do not overlap.
engine/session/advisory.py keeps the locks of a session.
"""

from __future__ import annotations

import functools
from typing import Protocol, cast

from catalog.functions.base import CallContext, Trait
from catalog.functions.registry import implement, implements
from catalog.types.base import Array


class _Locks(Protocol):
    def lock(self, run: object, name: tuple[int, int, int, int], mode: int, of_session: bool, wait: bool) -> bool: ...
    def unlock(self, name: tuple[int, int, int, int], mode: int) -> bool: ...
    def unlock_all(self) -> None: ...


class _Session(Protocol):
    database_oid: int

    @property
    def advisory(self) -> _Locks: ...
    def blockers(self, process_id: int) -> list[int]: ...
    def safe_snapshot_blockers(self, process_id: int) -> list[int]: ...


_EXCLUSIVE, _SHARE = 64, 16  # engine.txn.locks.EXCLUSIVE and TABLE_SHARE
_WORD = 0xFFFFFFFF


def _session(call: CallContext) -> _Session:
    return cast(_Session, call.session)


def _name(session: _Session, numbers: tuple[int, ...]) -> tuple[int, int, int, int]:
    if len(numbers) == 1:
        return session.database_oid, numbers[0] >> 32 & _WORD, numbers[0] & _WORD, 1
    return session.database_oid, numbers[0] & _WORD, numbers[1] & _WORD, 2


def _lock(mode: int, of_session: bool, wait: bool, call: CallContext, *numbers: int) -> object:
    session = _session(call)
    taken = session.advisory.lock(call, _name(session, numbers), mode, of_session, wait)
    return "" if wait else taken


def _unlock(mode: int, call: CallContext, *numbers: int) -> bool:
    session = _session(call)
    return session.advisory.unlock(_name(session, numbers), mode)


@implements("pg_advisory_unlock_all", needs_session=True, traits=(Trait.SESSION_ONLY,))
def _unlock_all(call: CallContext) -> str:
    _session(call).advisory.unlock_all()
    return ""


for _form in ("int8", "int4"):
    for _suffix, _mode in (("", _EXCLUSIVE), ("_shared", _SHARE)):
        for _level, _of_session in (("", True), ("_xact", False)):
            for _verb, _wait in (("pg", True), ("pg_try", False)):
                _source = f"{_verb}_advisory{_level}_lock{_suffix}_{_form}"
                _function = functools.partial(_lock, _mode, _of_session, _wait)
                implement(_source, _function, needs_session=True, traits=(Trait.LEADER,))
        _source = f"pg_advisory_unlock{_suffix}_{_form}"
        implement(_source, functools.partial(_unlock, _mode), needs_session=True, traits=(Trait.LEADER,))


@implements("pg_blocking_pids", needs_session=True)
def _blocking(call: CallContext, process_id: int) -> Array:
    return Array.of(tuple(_session(call).blockers(process_id)))


@implements("pg_safe_snapshot_blocking_pids", needs_session=True)
def _snapshot_blockers(call: CallContext, process_id: int) -> Array:
    return Array.of(tuple(_session(call).safe_snapshot_blockers(process_id)))


@implements("pg_isolation_test_session_is_blocked", needs_session=True)
def _is_blocked(call: CallContext, process_id: int, interesting: Array) -> bool:
    """Whether the session waits for a lock that one of the interesting sessions holds, or for which one of them waits
    ahead of it, or whether the session waits for a safe snapshot (pg_isolation_test_session_is_blocked)."""
    session = _session(call)
    waits = not set(session.blockers(process_id)).isdisjoint(interesting.elements)
    return waits or bool(session.safe_snapshot_blockers(process_id))
