"""Extensions."""

from __future__ import annotations

from dataclasses import dataclass

from engine.sql.ast.base import Node


@dataclass(frozen=True, slots=True)
class ExtensionStmt(Node):
    """action: create | drop | schema | update. `names`: one, several for DROP."""

    action: str
    names: tuple[str, ...]
    schema: str | None = None
    version: str | None = None
    if_exists: bool = False  # IF NOT EXISTS of CREATE
    cascade: bool = False
