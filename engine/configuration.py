"""The interface of sessions to the server's configuration, which shoal/reload.py implements. An embedded database has
none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Origin:
    """The source of the value in force, as in pg_settings.source, with file and line if it comes from a file."""

    source: str
    file: str | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A line of a configuration file. `applied`: it is in force. `error`: the reason if it cannot be."""

    file: str
    line: int
    name: str
    value: str
    applied: bool
    error: str | None = None


@dataclass(frozen=True, slots=True)
class RuleEntry:
    """A line of the file of host rules. A line without an error has the columns of pg_hba_file_rules."""

    line: int
    error: str | None = None
    kind: str | None = None
    databases: tuple[str, ...] | None = None
    users: tuple[str, ...] | None = None
    address: str | None = None
    netmask: str | None = None
    method: str | None = None


class Configuration(Protocol):
    """The configuration. Names are in lower case."""

    pending: frozenset[str]
    """Settings whose new value waits for the server to start again."""

    def reload(self) -> bool:
        """Reads the configuration again. Returns whether the new one is in force."""

    def show_value(self, name: str) -> str:
        """The value in force of one of SERVER_DEFINITIONS, without credentials."""

    def origin(self, name: str) -> Origin | None:
        """The source of a value, or None for the default."""

    async def alter(self, name: str | None, value: str | None) -> None:
        """ALTER SYSTEM. The change is on disk when this returns. The value None removes a setting, and the name None
        removes all. Raises 58030."""

    def entries(self) -> Sequence[FileEntry]:
        """The settings in the files. Reads the files."""

    def rules(self) -> Sequence[RuleEntry]:
        """The rules in the file of host rules. Reads the file."""
