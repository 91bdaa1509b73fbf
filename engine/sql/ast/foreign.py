"""Foreign data wrappers, servers, user mappings; IMPORT FOREIGN SCHEMA. CREATE FOREIGN TABLE is a CreateStmt."""

from __future__ import annotations

from catalog.records import dataclass
from engine.sql.ast.base import Node
from engine.sql.ast.definitions import ForeignOption


@dataclass(frozen=True, slots=True)
class ForeignWrapperStmt(Node):
    """CREATE and ALTER FOREIGN DATA WRAPPER. `handler` and `validator`: names of functions, () for NO HANDLER, None if
    nothing is said."""

    action: str  # create | alter
    name: str
    handler: tuple[str, ...] | None = None
    validator: tuple[str, ...] | None = None
    options: tuple[ForeignOption, ...] = ()


@dataclass(frozen=True, slots=True)
class ForeignServerStmt(Node):
    """CREATE and ALTER SERVER. `sets_version`: ALTER with VERSION, which may be NULL."""

    action: str  # create | alter
    name: str
    wrapper: str = ""
    type: str | None = None
    version: str | None = None
    options: tuple[ForeignOption, ...] = ()
    if_not_exists: bool = False
    sets_version: bool = False


@dataclass(frozen=True, slots=True)
class UserMappingStmt(Node):
    """CREATE, ALTER and DROP USER MAPPING. `role` as written; `exists`: IF NOT EXISTS of CREATE, IF EXISTS of DROP."""

    action: str  # create | alter | drop
    role: str
    server: str
    options: tuple[ForeignOption, ...] = ()
    exists: bool = False


@dataclass(frozen=True, slots=True)
class ImportForeignSchemaStmt(Node):
    """IMPORT FOREIGN SCHEMA. `choice`: '' all tables, 'limit' to `tables`, all 'except' `tables`."""

    schema: str
    server: str
    target: str
    choice: str = ""
    tables: tuple[str, ...] = ()
    options: tuple[ForeignOption, ...] = ()
