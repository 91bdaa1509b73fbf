"""The functions of change streams (engine/changes): shoal_changes() and related functions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, cast

from catalog.functions.base import CallContext, Function, Trait
from catalog.functions.registry import declare, implement
from catalog.types import oids


class _Streams(Protocol):
    def read(
        self, name: str, after: int | None, limit: int | None, ordinal: int | None
    ) -> Iterable[tuple[object, ...]]: ...
    def advance(self, name: str, lsn: int) -> int: ...
    def snapshot(self, name: str) -> int: ...
    def reach(self, name: str, after: int | None, limit: int | None) -> int: ...


class _Services(Protocol):
    @property
    def change_streams(self) -> _Streams: ...


class _Session(Protocol):
    surroundings: _Services


def _streams(call: CallContext) -> _Streams:
    return cast(_Session, call.session).surroundings.change_streams


def _changes(
    call: CallContext, name: str | None, after: int | None, limit: int | None, ordinal: int | None
) -> Iterable[tuple[object, ...]]:
    if name is None:
        return ()
    return _streams(call).read(name, after, limit, ordinal)


declare(
    Function(
        9990, "shoal_changes", "shoal_changes", "f", False, True, "v", (oids.TEXT, oids.INT8, oids.INT8, oids.INT4),
        oids.RECORD,
        0, 3,
        argument_names=("stream", "after", "limit", "ordinal"),
        output_names=(
            "lsn", "tx", "ordinal", "commit_time", "schema_version", "op", "table", "key", "before", "after",
        ),
        output_types=(
            oids.INT8, oids.INT8, oids.INT4, oids.TIMESTAMPTZ, oids.INT8, oids.TEXT, oids.TEXT, oids.JSONB, oids.JSONB,
            oids.JSONB,
        ),
        defaults=("NULL::bigint", "NULL::bigint", "NULL::integer"),
    )
)  # fmt: skip
implement("shoal_changes", _changes, needs_session=True)
declare(
    Function(
        9991, "shoal_change_stream_advance", "shoal_change_stream_advance", "f", True, False, "v",
        (oids.TEXT, oids.INT8), oids.INT8, 0, 0, argument_names=("stream", "lsn"),
    )
)  # fmt: skip
implement(
    "shoal_change_stream_advance",
    lambda call, name, lsn: _streams(call).advance(name, lsn),
    needs_session=True,
    traits=(Trait.LEADER,),
)
declare(
    Function(
        9992, "shoal_change_stream_snapshot", "shoal_change_stream_snapshot", "f", True, False, "v", (oids.TEXT,),
        oids.INT8, 0, 0, argument_names=("stream",),
    )
)  # fmt: skip
implement(
    "shoal_change_stream_snapshot",
    lambda call, name: _streams(call).snapshot(name),
    needs_session=True,
)
declare(
    Function(
        9993, "shoal_change_stream_reach", "shoal_change_stream_reach", "f", False, False, "v",
        (oids.TEXT, oids.INT8, oids.INT8), oids.INT8, 0, 2, argument_names=("stream", "after", "limit"),
        defaults=("NULL::bigint", "NULL::bigint"),
    )
)  # fmt: skip
implement(
    "shoal_change_stream_reach",
    lambda call, name, after, limit: None if name is None else _streams(call).reach(name, after, limit),
    needs_session=True,
)
