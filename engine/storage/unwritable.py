"""The changelog of a tablespace that accepts no commits: it applies entries from elsewhere."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence

from catalog.errors import SqlError
from engine.storage.interface import Joint


class UnwritableLog(ABC):
    """engine.storage.interface.Changelog, only with the bulk segments of applied entries. `refusal` makes the error of
    `submit`."""

    pending_bytes = 0

    def __init__(self, refusal: Callable[[], SqlError]) -> None:
        self._refusal = refusal

    def submit(
        self,
        lsn: int,
        body: bytes,
        commit_time: int,
        schema_version: int,
        files: Sequence[str] = (),
        joint: Joint | None = None,
    ) -> None:
        """Raises the refusal."""
        raise self._refusal()

    def read(self, after: int) -> Iterator[tuple[int, int, bytes]]:
        """Storage has nothing to recover from."""
        return iter(())

    def retire(self, upto: int) -> None:
        return

    @abstractmethod
    def bulk_path(self, name: str) -> str: ...

    @abstractmethod
    def bulk_names(self) -> list[str]: ...

    @abstractmethod
    def drop_bulk(self, name: str, lsn: int) -> None: ...

    def close(self) -> None:
        return
