"""COPY data between a connection and the statement that reads it."""

from __future__ import annotations

import asyncio

import pytest

from catalog.errors import SqlError
from engine.foreground import foreground
from wire.copy_feed import AT_ONCE, COPY_AHEAD, PRESSED_AHEAD, CopyFeed


class Connection:
    def __init__(self) -> None:
        self.paused = False

    def pause(self, reason: str) -> None:
        self.paused = True

    def resume(self, reason: str) -> None:
        self.paused = False


def test_everything_is_read_in_order_and_a_little_at_a_time() -> None:
    async def run() -> None:
        feed = CopyFeed(Connection())
        pieces = [bytes([number]) * 100_000 for number in range(20)] + [b"end"]
        for piece in pieces:
            feed.put(piece)
        feed.end()
        found = []
        while (data := await feed.read()) is not None:
            found.append(data)
        assert b"".join(found) == b"".join(pieces)
        assert max(map(len, found)) <= AT_ONCE + 100_000
        assert len(found) < len(pieces)  # small ones are joined

    asyncio.run(run())


def test_the_connection_stops_reading_while_too_much_waits() -> None:
    async def run() -> None:
        connection = Connection()
        feed = CopyFeed(connection)
        for _ in range(COPY_AHEAD // AT_ONCE):
            feed.put(bytes(AT_ONCE))
            assert not connection.paused
        feed.put(b"x")
        assert connection.paused
        taken = 0
        while connection.paused:
            taken += len(await feed.read() or b"")
        assert COPY_AHEAD // 2 <= taken < COPY_AHEAD

    asyncio.run(run())


def test_it_takes_less_while_short_statements_wait_for_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        connection = Connection()
        feed = CopyFeed(connection)
        for _ in range(PRESSED_AHEAD // AT_ONCE + 1):
            feed.put(bytes(AT_ONCE))
        assert not connection.paused
        monkeypatch.setattr(foreground(), "_until", float("inf"))
        feed.put(b"x")
        assert connection.paused

    asyncio.run(run())


def test_a_failure_is_told_after_what_came_before_it() -> None:
    async def run() -> None:
        feed = CopyFeed(Connection())
        reading = asyncio.ensure_future(feed.read())
        await asyncio.sleep(0)
        feed.put(b"rows")
        assert await reading == b"rows"
        feed.end(SqlError("57014", "gone"))
        with pytest.raises(SqlError, match="gone"):
            await feed.read()

    asyncio.run(run())
