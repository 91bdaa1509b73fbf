"""Functions for programs that read and write whole tables in parallel.

shoal_key_ranges(table, parts)      returns SQL conditions on the primary key; each row of the table meets exactly one
shoal_hold_snapshot(seconds)        exports a snapshot of the current state and returns its identifier, for SET
                                    TRANSACTION SNAPSHOT. It expires if no transaction has imported it for so many
                                    seconds
shoal_release_snapshot(identifier)  releases a snapshot; false if there is none
shoal_stage(seconds)                opens a stage (engine/node/stages.py) and returns its token
shoal_drop_stage(token)             drops a stage; false if there is none
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, cast

from catalog.functions.base import CallContext, Function, Trait
from catalog.functions.registry import declare, implements
from catalog.types import oids


class _Stages(Protocol):
    def open(self, user: str, seconds: int) -> str: ...
    def drop(self, user: str, token: str) -> bool: ...


class _Snapshots(Protocol):
    def hold(self, session: object, seconds: int) -> str: ...
    def release(self, session: object, name: str) -> bool: ...


class _Services(Protocol):
    @property
    def stages(self) -> _Stages: ...
    @property
    def snapshots(self) -> _Snapshots: ...
    def key_ranges(self, oid: int, parts: int) -> Sequence[str]: ...


class _Session(Protocol):
    user_name: str

    @property
    def surroundings(self) -> _Services: ...


def _session(call: CallContext) -> _Session:
    return cast(_Session, call.session)


_TOKEN = (oids.TEXT,)
declare(
    Function(9930, "shoal_key_ranges", "shoal_key_ranges", "f", True, True, "v", (oids.REGCLASS, oids.INT4),
             oids.TEXT, 0, 0, ("table", "parts"))
)  # fmt: skip
for _oid, _name, _default in ((9931, "shoal_stage", "3600"), (9932, "shoal_hold_snapshot", "600")):
    declare(
        Function(_oid, _name, _name, "f", True, False, "v", (oids.INT4,), oids.TEXT, 0, 1, ("seconds",),
                 defaults=(_default,))
    )  # fmt: skip
declare(Function(9933, "shoal_drop_stage", "shoal_drop_stage", "f", True, False, "v", _TOKEN, oids.BOOL, 0, 0))
declare(
    Function(9934, "shoal_release_snapshot", "shoal_release_snapshot", "f", True, False, "v", _TOKEN, oids.BOOL, 0, 0)
)


@implements("shoal_key_ranges", needs_session=True, traits=(Trait.LEADER,))
def _key_ranges(call: CallContext, table: int, parts: int) -> Sequence[str]:
    return _session(call).surroundings.key_ranges(table, parts)


@implements("shoal_stage", needs_session=True, traits=(Trait.LEADER,))
def _stage(call: CallContext, seconds: int) -> str:
    session = _session(call)
    return session.surroundings.stages.open(session.user_name, seconds)


@implements("shoal_drop_stage", needs_session=True, traits=(Trait.LEADER,))
def _drop_stage(call: CallContext, token: str) -> bool:
    session = _session(call)
    return session.surroundings.stages.drop(session.user_name, token)


@implements("shoal_hold_snapshot", needs_session=True, traits=(Trait.LEADER,))
def _hold_snapshot(call: CallContext, seconds: int) -> str:
    session = _session(call)
    return session.surroundings.snapshots.hold(session, seconds)


@implements("shoal_release_snapshot", needs_session=True, traits=(Trait.LEADER,))
def _release_snapshot(call: CallContext, name: str) -> bool:
    session = _session(call)
    return session.surroundings.snapshots.release(session, name)
