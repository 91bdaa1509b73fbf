"""nextval, currval, setval, lastval (PostgreSQL 16 manual, 9.17). The argument is the OID of a sequence (regclass)."""

from __future__ import annotations

from typing import Protocol, cast

from catalog.functions.base import CallContext, Trait
from catalog.functions.registry import implements


class _Session(Protocol):
    def next_value(self, sequence: int) -> int: ...
    def current_value(self, sequence: int) -> int: ...
    def last_value(self) -> int: ...
    def set_value(self, sequence: int, value: int, is_called: bool) -> None: ...


def _session(call: CallContext) -> _Session:
    return cast(_Session, call.session)


@implements("nextval_oid", needs_session=True, traits=(Trait.LEADER, Trait.TRACELESS))
def _next_value(call: CallContext, sequence: int) -> int:
    return _session(call).next_value(sequence)


@implements("currval_oid", needs_session=True, traits=(Trait.LEADER,))
def _current_value(call: CallContext, sequence: int) -> int:
    return _session(call).current_value(sequence)


@implements("lastval", needs_session=True, traits=(Trait.LEADER,))
def _last_value(call: CallContext) -> int:
    return _session(call).last_value()


@implements("setval_oid", "setval3_oid", needs_session=True, traits=(Trait.LEADER,))
def _set_value(call: CallContext, sequence: int, value: int, is_called: bool = True) -> int:
    _session(call).set_value(sequence, value, is_called)
    return value
