"""Limits of the worker's DuckDB."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Room:
    """The memory and the files of a DuckDB. `memory_limit` and `spill` are bytes; `spill` 0: nine tenths of the free
    space. `columns_path` is the file with the tables; None: they are lost when the process ends. Nothing is saved in
    the first `save_after` seconds."""

    memory_limit: int
    spill_directory: str
    spill: int = 0
    columns_path: str | None = None
    save_after: float = 0.0
