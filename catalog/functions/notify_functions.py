"""pg_notify(), and the channels of a session (PostgreSQL 16 manual, NOTIFY and 9.26)."""

from __future__ import annotations

from typing import Protocol, cast

from catalog.functions.base import CallContext, Trait
from catalog.functions.registry import implements


class _Notifications(Protocol):
    @property
    def channels(self) -> tuple[str, ...]: ...
    @property
    def queue_usage(self) -> float: ...
    def notify(self, channel: str, payload: str) -> None: ...


class _Session(Protocol):
    transaction: object

    @property
    def notifications(self) -> _Notifications: ...
    def begin_implicit(self) -> object: ...


def _session(call: CallContext) -> _Session:
    return cast(_Session, call.session)


@implements("pg_notify", needs_session=True, traits=(Trait.LEADER,))
def _notify(call: CallContext, channel: str | None, payload: str | None) -> str:
    session = _session(call)
    if session.transaction is None:
        session.begin_implicit()
    session.notifications.notify(channel or "", payload or "")
    return ""


@implements("pg_listening_channels", needs_session=True, traits=(Trait.SESSION_ONLY,))
def _channels(call: CallContext) -> tuple[str, ...]:
    return _session(call).notifications.channels


@implements("pg_notification_queue_usage", needs_session=True, traits=(Trait.SESSION_ONLY,))
def _queue_usage(call: CallContext) -> float:
    return _session(call).notifications.queue_usage
