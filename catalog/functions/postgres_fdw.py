"""The functions of the extension postgres_fdw, about the session's connections to other servers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, cast

from catalog.functions.base import CallContext, Trait
from catalog.functions.registry import implements


class _Session(Protocol):
    def foreign_connections(self) -> Iterable[tuple[str | None, bool]]: ...
    def disconnect_foreign(self, server: str | None) -> bool: ...


def _session(call: CallContext) -> _Session:
    return cast(_Session, call.session)


@implements("postgres_fdw_get_connections", needs_session=True, traits=(Trait.SESSION_ONLY,))
def _connections(call: CallContext) -> Iterable[tuple[str | None, bool]]:
    yield from _session(call).foreign_connections()


@implements("postgres_fdw_disconnect", needs_session=True, traits=(Trait.SESSION_ONLY,))
def _disconnect(call: CallContext, server: str) -> bool:
    """Raises 42704."""
    return _session(call).disconnect_foreign(server)


@implements("postgres_fdw_disconnect_all", needs_session=True, traits=(Trait.SESSION_ONLY,))
def _disconnect_all(call: CallContext) -> bool:
    return _session(call).disconnect_foreign(None)
