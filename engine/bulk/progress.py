"""The progress of a COPY, for pg_stat_progress_copy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class CopySource(Protocol):
    """The data of COPY FROM STDIN."""

    async def read(self) -> bytes | None:
        """The next piece, of any size and not cut at rows; None at the end. Raises 57014 when the client has
        cancelled."""


@dataclass(slots=True)
class CopyProgress:
    """`relation` is an OID, 0 for a query; `excluded` counts rows that WHERE has left out."""

    command: str
    relation: int = 0
    bytes: int = 0
    rows: int = 0
    excluded: int = 0


class CountedSource:
    """A CopySource that counts the bytes of another one."""

    def __init__(self, source: CopySource, progress: CopyProgress) -> None:
        self._source = source
        self._progress = progress

    async def read(self) -> bytes | None:
        data = await self._source.read()
        if data is not None:
            self._progress.bytes += len(data)
        return data
