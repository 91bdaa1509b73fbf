"""The functions of the statistics of functions (engine/session/function_calls.py), and those that read or reset all
statistics of the server.

What a session has counted is visible to others after its transaction, so pg_stat_force_next_flush() has nothing to do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, cast

from catalog.functions.base import CallContext, Trait
from catalog.functions.registry import implements


class _Counts(Protocol):
    @property
    def calls(self) -> int: ...
    @property
    def total(self) -> float: ...
    @property
    def own(self) -> float: ...


class _FunctionCalls(Protocol):
    def get(self, oid: int) -> _Counts | None: ...
    def pending(self) -> Mapping[int, _Counts]: ...
    def clear_snapshot(self) -> None: ...
    def reset(self, oid: int) -> None: ...


class _Session(Protocol):
    @property
    def function_calls(self) -> _FunctionCalls: ...


def _calls(call: CallContext) -> _FunctionCalls:
    return cast(_Session, call.session).function_calls


def _number(counts: _Counts | None) -> int | None:
    return None if counts is None else counts.calls


def _total(counts: _Counts | None) -> float | None:
    return None if counts is None else counts.total * 1000


def _own(counts: _Counts | None) -> float | None:
    return None if counts is None else counts.own * 1000


@implements("pg_stat_get_function_calls", needs_session=True)
def _calls_of(call: CallContext, oid: int) -> int | None:
    return _number(_calls(call).get(oid))


@implements("pg_stat_get_function_total_time", needs_session=True)
def _total_time_of(call: CallContext, oid: int) -> float | None:
    return _total(_calls(call).get(oid))


@implements("pg_stat_get_function_self_time", needs_session=True)
def _own_time_of(call: CallContext, oid: int) -> float | None:
    return _own(_calls(call).get(oid))


@implements("pg_stat_get_xact_function_calls", needs_session=True)
def _calls_within(call: CallContext, oid: int) -> int | None:
    return _number(_calls(call).pending().get(oid))


@implements("pg_stat_get_xact_function_total_time", needs_session=True)
def _total_time_within(call: CallContext, oid: int) -> float | None:
    return _total(_calls(call).pending().get(oid))


@implements("pg_stat_get_xact_function_self_time", needs_session=True)
def _own_time_within(call: CallContext, oid: int) -> float | None:
    return _own(_calls(call).pending().get(oid))


@implements("pg_stat_reset_single_function_counters", needs_session=True, traits=(Trait.SESSION_ONLY,))
def _reset(call: CallContext, oid: int) -> str:
    _calls(call).reset(oid)
    return ""


@implements("pg_stat_clear_snapshot", needs_session=True, traits=(Trait.SESSION_ONLY,))
def _clear_snapshot(call: CallContext) -> str:
    _calls(call).clear_snapshot()
    return ""


@implements("pg_stat_force_next_flush", needs_session=True, traits=(Trait.SESSION_ONLY,))
def _force_next_flush(call: CallContext) -> str:
    return ""
