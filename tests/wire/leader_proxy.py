"""A TCP proxy before a server that a test can cut at a chosen moment: what was sent is lost, or its answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType


class LeaderProxy:
    """Forwards bytes both ways. `cut_when` sees every piece for the server, `swallow_when` every piece for the
    client; where one says True, both sides are cut and the piece is lost."""

    def __init__(self, port: int) -> None:
        self.server_port = port
        self.port = 0
        self.connections = 0
        self.cut_when: Callable[[bytes], bool] = lambda data: False
        self.swallow_when: Callable[[bytes], bool] = lambda data: False
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> LeaderProxy:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def cut(self) -> None:
        """Resets every connection."""
        for writer in self._writers:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        back, forth = await asyncio.open_connection("127.0.0.1", self.server_port)
        self._writers |= {writer, forth}
        answers = asyncio.create_task(self._pump(back, writer, to_server=False))
        await self._pump(reader, forth, to_server=True)
        await answers

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, to_server: bool) -> None:
        try:
            while data := await reader.read(65536):
                if (self.cut_when if to_server else self.swallow_when)(data):
                    self.cut()
                    return
                writer.write(data)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()
