"""What the worker's DuckDB may take."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Room:
    """What a DuckDB may take: bytes of memory, and of the spill directory (0: nine tenths of what is free there), and
    the file that its tables are in (None: they go with it), in which nothing is saved for so many seconds."""

    memory_limit: int
    spill_directory: str
    spill: int = 0
    columns_path: str | None = None
    save_after: float = 0.0
