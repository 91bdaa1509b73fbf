"""The changelog of a tablespace that takes no commits: its entries come from elsewhere, and are applied."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence

from catalog.errors import SqlError
from engine.storage.interface import Joint


class UnwritableLog(ABC):
    """engine.storage.interface.Changelog, but for the bulk segments of entries that are applied. `refusal` makes what
    is raised where something is submitted all the same."""

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
        """Nothing that storage would have to recover from."""
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
