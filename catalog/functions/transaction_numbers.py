"""Numbers of transactions, their outcomes, and snapshots (PostgreSQL 16 manual, 9.26.7)."""

from __future__ import annotations

from typing import Protocol, cast

from catalog.functions.base import CallContext, Trait
from catalog.functions.registry import implement, implements

Snapshot = tuple[int, int, tuple[int, ...]]


class _Services(Protocol):
    def transaction_number(self, assign: bool) -> int | None: ...

    def transaction_status(self, number: int) -> str | None: ...

    def snapshot_of_numbers(self) -> Snapshot: ...


class _Session(Protocol):
    @property
    def surroundings(self) -> _Services: ...


def _services(call: CallContext) -> _Services:
    return cast(_Session, call.session).surroundings


@implements("pg_current_xact_id", needs_session=True, traits=(Trait.LEADER,))
def _transaction_number(call: CallContext) -> int | None:
    """pg_current_xact_id and txid_current: the number of the transaction; later ones have larger numbers."""
    return _services(call).transaction_number(True)


@implements("pg_current_xact_id_if_assigned", needs_session=True, traits=(Trait.LEADER,))
def _known_transaction_number(call: CallContext) -> int | None:
    return _services(call).transaction_number(False)


@implements("pg_xact_status", needs_session=True, traits=(Trait.LEADER,))
def _status(call: CallContext, number: int) -> str | None:
    return _services(call).transaction_status(number)


@implements("pg_current_snapshot", needs_session=True, traits=(Trait.LEADER,))
def _snapshot(call: CallContext) -> Snapshot:
    return _services(call).snapshot_of_numbers()


_OLDEST, _LARGEST, _ROUND = 3, 2**31 - 1, 2**32  # the first xid that ages; the age of the others; xids begin again


def _to_int4(difference: int) -> int:
    return (difference + 2**31) % _ROUND - 2**31


@implements("xid_age", needs_session=True, traits=(Trait.LEADER,))
def _age(call: CallContext, number: int) -> int:
    if number < _OLDEST:
        return _LARGEST
    services = _services(call)
    return _to_int4((services.transaction_number(False) or services.snapshot_of_numbers()[1]) - number)


@implements("mxid_age", needs_session=True, traits=(Trait.LEADER,))
def _group_age(call: CallContext, number: int) -> int:
    """Rows that several transactions lock need no number here, so 1 is still the next one."""
    return _to_int4(1 - number) if number else _LARGEST


def _is_visible(number: int, snapshot: Snapshot) -> bool:
    low, high, running = snapshot
    return number < low or (number < high and number not in running)


implement("pg_snapshot_xmin", lambda snapshot: snapshot[0])
implement("pg_snapshot_xmax", lambda snapshot: snapshot[1])
implement("pg_snapshot_xip", lambda snapshot: snapshot[2])
implement("pg_visible_in_snapshot", _is_visible)
