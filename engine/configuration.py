"""What a server's configuration tells the sessions, and takes from them; shoal/reload.py implements it. A database
without a server, such as an embedded one, has none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Origin:
    """Where the value in force is from, as pg_settings.source says it; file and line, where it is from a file."""

    source: str
    file: str | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A line of a configuration file. `applied`: it is in force; `error`: why it cannot be."""

    file: str
    line: int
    name: str
    value: str
    applied: bool
    error: str | None = None


@dataclass(frozen=True, slots=True)
class RuleEntry:
    """A line of the file of host rules. Without an error: its parts, as pg_hba_file_rules has them."""

    line: int
    error: str | None = None
    kind: str | None = None
    databases: tuple[str, ...] | None = None
    users: tuple[str, ...] | None = None
    address: str | None = None
    netmask: str | None = None
    method: str | None = None


class Configuration(Protocol):
    """Names are in lower case."""

    pending: frozenset[str]
    """Settings whose new value waits for the server to start again."""

    def reload(self) -> bool:
        """Reads it again; whether what was read is in force."""

    def show_value(self, name: str) -> str:
        """The value in force of one of SERVER_DEFINITIONS, without credentials."""

    def origin(self, name: str) -> Origin | None:
        """None: the default."""

    async def alter(self, name: str | None, value: str | None) -> None:
        """ALTER SYSTEM: on disk when it returns. A value of None takes the setting out, a name of None all of them.
        Raises 58030."""

    def entries(self) -> Sequence[FileEntry]:
        """What the files say now. Reads them."""

    def rules(self) -> Sequence[RuleEntry]:
        """What the file of host rules says now. Reads it."""
