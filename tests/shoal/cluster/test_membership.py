"""A node's registration, over a coordination service in memory."""

from __future__ import annotations

from dataclasses import replace

import pytest

from replication.interface import Node
from replication.log.layout import node_path
from shoal.cluster.membership import Registration
from shoal.config import ConfigError
from tests.replication.memory_coordination import MemoryCoordination

NODE = Node("n", "127.0.0.1", 5433, started=7)


def idle() -> tuple[float, int]:
    return 0.0, 0


async def test_what_a_lost_session_of_this_process_left_is_replaced() -> None:
    service = MemoryCoordination()
    lost, opened = service.session(), service.session()
    registration = Registration(NODE, idle)
    await registration.register(lost)
    await registration.register(opened)  # the servers have not ended the other session yet
    await lost.close()
    assert service.value(node_path("n")) is not None
    await opened.close()
    assert service.value(node_path("n")) is None
    registration.stop()


@pytest.mark.parametrize("other", [replace(NODE, started=8), replace(NODE, port=5434)])
async def test_another_process_of_the_same_name_is_not_replaced(other: Node) -> None:
    service = MemoryCoordination()
    first, second = Registration(other, idle), Registration(NODE, idle)
    await first.register(service.session())
    with pytest.raises(ConfigError, match='"n" is already running'):
        await second.register(service.session(session_timeout=-0.45))  # so it waits for 0.1 s
    first.stop()
