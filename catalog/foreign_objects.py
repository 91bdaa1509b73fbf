"""The objects around foreign tables: foreign data wrappers, servers and user mappings (catalog/schema.py has all
others)."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ForeignWrapper:
    """CREATE FOREIGN DATA WRAPPER. `handler` and `validator` are OIDs of functions, 0: none. `extension`: the OID of
    the extension that created it."""

    oid: int
    database: int
    name: str
    owner: int
    handler: int = 0
    validator: int = 0
    options: tuple[tuple[str, str], ...] = ()
    comment: str | None = None
    acl: tuple[str, ...] | None = None
    extension: int = 0


@dataclass(frozen=True, slots=True)
class ForeignServer:
    """CREATE SERVER. `wrapper`: the OID of its foreign data wrapper."""

    oid: int
    database: int
    name: str
    owner: int
    wrapper: int
    type: str | None = None
    version: str | None = None
    options: tuple[tuple[str, str], ...] = ()
    comment: str | None = None
    acl: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class UserMapping:
    """CREATE USER MAPPING. `role`: whose it is; EVERYBODY for PUBLIC. `options` may contain a password."""

    oid: int
    database: int
    server: int
    role: int
    options: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @property
    def name(self) -> str:
        """The OIDs of its role and its server, because a mapping has no name."""
        return f"{self.role} {self.server}"
