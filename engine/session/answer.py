"""The destination of a statement's answer, and the data of COPY FROM STDIN.

The connection of the wire implements both; so do the collectors of engine/statements/collect.py, for statements within
others.
"""

from __future__ import annotations

from typing import Protocol

from catalog.errors import SqlError
from engine.bulk.progress import CopySource
from engine.session.prepared import Prepared


class Sink(Protocol):
    """The destination of a statement's answer: the wire's connection, or a collector in the embedded library."""

    def fields(self, prepared: Prepared, formats: tuple[int, ...]) -> None:
        """The columns of the rows that follow (simple queries only; Describe answers in the extended protocol)."""

    async def rows(self, data: bytes) -> None:
        """Complete framed rows. Waits while the client does not read."""

    def complete(self, tag: str) -> None: ...
    def empty(self) -> None: ...
    def suspend(self) -> None: ...
    def notice(self, notice: SqlError) -> None: ...

    async def copy_in(self, columns: int, binary: bool) -> CopySource: ...
    def copy_out(self, columns: int, binary: bool) -> None: ...
    def copy_out_done(self) -> None: ...


class Answer:
    """A sink that sends the command tag only when the statement's transaction is durable."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._tag: str | None = None
        self.fields = sink.fields
        self.rows = sink.rows
        self.suspend = sink.suspend
        self.notice = sink.notice
        self.copy_in = sink.copy_in
        self.copy_out = sink.copy_out
        self.copy_out_done = sink.copy_out_done
        self.empty = sink.empty

    def complete(self, tag: str) -> None:
        self._tag = tag

    def release(self) -> None:
        if self._tag is not None:
            self._sink.complete(self._tag)


def tag(command: str, count: int) -> str:
    """The command tag. INSERT has a zero in place of the OID of old releases."""
    return f"INSERT 0 {count}" if command == "INSERT" else f"{command} {count}"
