"""What a follower reads of the head is as new as it says, also where its server lags behind."""

from __future__ import annotations

import gc
from dataclasses import replace
from typing import Any

import pytest

from replication.interface import CoordinationUnavailableError, Spec
from replication.log import Position, create_tablespace
from replication.log.follower import Follower
from replication.log.layout import decode_head, encode_head, paths
from tests.replication.memory_coordination import MemoryCoordination, MemorySession

TABLESPACE = b"T" * 16


async def _follower(session: MemorySession) -> Follower:
    await create_tablespace(session, TABLESPACE, Spec("main", ("a",)))
    none: Any = None
    return Follower(session, TABLESPACE, none, none, none, Position(0, None))


async def test_a_strong_read_sees_what_was_committed_before_it() -> None:
    service = MemoryCoordination()
    leader, own = service.session("a"), service.session("b")
    follower = await _follower(own)
    head = paths(TABLESPACE).head
    for lsn in range(1, 5):
        own.lag()
        found = await leader.get(head)
        assert found is not None
        await leader.set(head, encode_head(replace(decode_head(found.data), lsn=lsn)), found.version)
        assert (await follower.read_head()).lsn == lsn


async def test_a_strong_read_that_fails_leaves_nothing_behind(caplog: pytest.LogCaptureFixture) -> None:
    service = MemoryCoordination()
    own = service.session("b")
    follower = await _follower(own)
    own.expire()
    with pytest.raises(CoordinationUnavailableError):
        await follower.read_head()
    gc.collect()
    assert not caplog.records
