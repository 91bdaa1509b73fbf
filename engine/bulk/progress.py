"""How far a COPY is: what pg_stat_progress_copy shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class CopySource(Protocol):
    """The data of COPY FROM STDIN."""

    async def read(self) -> bytes | None:
        """The next piece (any size, not cut at rows), None at the end. Raises 57014 when the client gave up."""


@dataclass(slots=True)
class CopyProgress:
    """`relation` is an OID, 0 for a query; `excluded` are rows that WHERE has left out."""

    command: str
    relation: int = 0
    bytes: int = 0
    rows: int = 0
    excluded: int = 0


class CountedSource:
    """CopySource over another one: counts what is read."""

    def __init__(self, source: CopySource, progress: CopyProgress) -> None:
        self._source = source
        self._progress = progress

    async def read(self) -> bytes | None:
        data = await self._source.read()
        if data is not None:
            self._progress.bytes += len(data)
        return data
