"""Who a statement is carried to."""

from __future__ import annotations

import time

import pytest

from catalog.errors import SqlError
from replication.interface import Node
from shoal.cluster import adapter
from shoal.cluster.adapter import LeaderLocator
from tests.end_to_end.router_thread import FixedDirectory
from wire.session_proxy import LeaderAddress


@pytest.fixture
def directory() -> FixedDirectory:
    directory = FixedDirectory()
    directory.nodes = {"a": Node("a", "127.0.0.1", 1), "b": Node("b", "127.0.0.1", 2)}
    directory.leaders = {"pg_default": "b"}
    return directory


async def test_a_leader_that_has_failed_is_tried_again_soon(directory: FixedDirectory) -> None:
    """It may have refused because it was only just taking over, and there will be no other."""
    locator = LeaderLocator(directory, b"secret", "a")
    target = await locator.leader("pg_default")
    assert target == LeaderAddress("b", "127.0.0.1", 2)
    began = time.monotonic()
    assert await locator.leader("pg_default", not_this=target) == target
    assert adapter.SAME_PATIENCE <= time.monotonic() - began < 2.0


async def test_without_a_leader(directory: FixedDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapter, "LEADER_PATIENCE", 0.1)
    directory.leaders = {}
    with pytest.raises(SqlError) as refused:
        await LeaderLocator(directory, b"secret", "a").leader("pg_default")
    assert refused.value.sqlstate == "57P03"
