"""The environment in which names are resolved: the statement's catalog, the search path, and the built-in relations."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, cached_property

from catalog.catalog import Catalog
from catalog.collations import built_in_names, collation
from catalog.errors import SqlError
from catalog.functions import added
from catalog.privileges import may
from catalog.row_types import types_in
from catalog.schema import (
    PG_CATALOG_OID,
    Collation,
    ExtensionType,
    Relation,
    Role,
    Schema,
    Sequence,
    Table,
    UserType,
    View,
    VirtualTable,
)
from catalog.system.parts import system_views, virtual_tables
from catalog.types import user
from catalog.types.base import DEFAULT_FORMAT, FormatSettings

_EVERYBODYS = ("pg_catalog", "information_schema")


@dataclass(frozen=True)
class Environment:
    """Everything other than its text that the meaning of a statement depends on.

    `search_path` contains schema names in order, with the session's temporary schema first once it exists. Names of
    missing schemas are skipped, as in PostgreSQL. `format` is for reading literals (DateStyle, TimeZone).
    """

    catalog: Catalog
    search_path: tuple[str, ...] = ("public",)
    user_name: str = "postgres"
    database_name: str = "postgres"
    format: FormatSettings = DEFAULT_FORMAT
    asks: bool = False  # whether privileges on schemas are checked: for the user's text, not for stored texts
    local: dict[str, VirtualTable] = field(default_factory=dict, compare=False)  # relations without a schema
    today: Catalog | None = None  # the present catalog, if `catalog` is a past one: its privileges are needed too

    def __post_init__(self) -> None:
        self.make_current()

    def make_current(self) -> None:
        """Makes this the environment that resolves and shows names of types, functions and operators."""
        user.use(types_in(self.catalog), self.path)
        added.use(self.catalog.added, self.path)

    @cached_property
    def path(self) -> tuple[str, ...]:
        """The names of the schemas to search, each once (recomputeNamespacePath). The temporary schema is first and
        pg_catalog second, unless search_path contains them."""
        names = self.search_path
        first = names[:1] if names and names[0].startswith("pg_temp_") else ()
        names = names[len(first) :]
        if "pg_temp" in names:
            names, first = tuple(first[0] if name == "pg_temp" and first else name for name in names), ()
        if "pg_catalog" not in names:
            names = ("pg_catalog", *names)
        return tuple(dict.fromkeys((*first, *names)))

    @cached_property
    def path_oids(self) -> tuple[int, ...]:
        """OIDs of the schemas to search, pg_catalog included."""
        schemas = self.catalog.schemas
        found = [schemas.get(name, PG_CATALOG_OID if name == "pg_catalog" else 0) for name in self.path]
        return tuple([oid for oid in found if oid])

    @cached_property
    def before_system(self) -> tuple[int, ...]:
        """OIDs of the schemas that are searched before pg_catalog."""
        return self.path_oids[: self.path_oids.index(PG_CATALOG_OID)]

    def check_usage(self, schema: str | None) -> None:
        """42501 for a named schema without USAGE for its user (LookupExplicitNamespace). All users may use the system's
        schemas."""
        if not self.asks or schema is None or schema in _EVERYBODYS:
            return
        if not _may_look_into(self.catalog.schemas.get(schema, 0), self.user_name, self.catalog, self.today):
            raise SqlError("42501", f"permission denied for schema {schema}")

    def check_operator(self, names: tuple[str, ...], location: int) -> None:
        """Checks the schema of OPERATOR(schema.name). Raises 3F000, 42501."""
        if len(names) == 1:
            return
        try:
            if not self.schema_oid(names[-2]):
                raise SqlError("3F000", f'schema "{names[-2]}" does not exist')
            self.check_usage(names[-2])
        except SqlError as error:
            error.position = position_of(location)
            raise

    def schema_oid(self, name: str) -> int:
        """OID of the schema, or 0. pg_temp is the session's own, which is first in its path once it exists."""
        if name == "pg_temp":
            name = next((item for item in self.search_path if item.startswith("pg_temp_")), name)
        found = self.catalog.schemas.get(name, 0)
        return found or (PG_CATALOG_OID if name == "pg_catalog" else 0)

    def is_of_others(self, table: Table) -> bool:
        """Whether it is a temporary table of another session (RELATION_IS_OTHER_TEMP), whose rows cannot be read
        through a parent table."""
        return table.persistence == "t" and table.schema not in self.path_oids

    def find_relation(self, schema: str | None, name: str) -> Relation | None:
        """The relation of that name: in `schema`, or the first on the search path."""
        if schema is not None:
            oid = self.schema_oid(schema)
            return self._in_schema(oid, name) if oid else None
        if self.local and name in self.local:
            return self.local[name]
        for oid in self.path_oids:
            found = self._in_schema(oid, name)
            if found is not None:
                return found
        return None

    def relation_with(self, oid: int) -> Relation | None:
        """The relation with this OID."""
        found = self.catalog.get(oid)
        if isinstance(found, Table | View | Sequence):
            return found
        return builtin_relations_by_oid().get(oid)

    def find_type(self, schema: str | None, name: str) -> UserType | ExtensionType | None:
        """The user-defined type of that name: in `schema`, or the first on the search path."""
        return self.type_among((self.schema_oid(schema),) if schema is not None else self.path_oids, name)

    def type_among(self, schemas: tuple[int, ...], name: str) -> UserType | ExtensionType | None:
        """The first user-defined type of that name in these schemas."""
        for oid in schemas:
            found = self.catalog.user_type(oid, name) or self.catalog.extension_type(oid, name)
            if found is not None:
                return found
        return None

    def find_element_type(self, schema: str | None, name: str) -> UserType | ExtensionType | None:
        """The user-defined type whose array type has that name: `mood` for `_mood`."""
        if not name.startswith("_"):
            return None
        for oid in (self.schema_oid(schema),) if schema is not None else self.path_oids:
            found = self.catalog.user_type_of_array(oid, name) or self.catalog.extension_type(oid, name[1:])
            if found is not None:
                return found
        return None

    def find_collation(self, name: tuple[str, ...], location: int = -1) -> Collation:
        """The collation of that name, which may have a schema. Raises 42704, 3F000."""
        schema = name[-2] if len(name) > 1 else None
        self.check_usage(schema)
        if schema is not None and not self.schema_oid(schema):
            raise SqlError("3F000", f'schema "{schema}" does not exist', position=position_of(location))
        for oid in (self.schema_oid(schema),) if schema is not None else self.path_oids:
            found = self.catalog.collations.get((oid, name[-1]))
            if found is not None:
                return found
            if oid == PG_CATALOG_OID and name[-1] in built_in_names():
                return collation(self.catalog, built_in_names()[name[-1]])
        message = f'collation "{".".join(name)}" for encoding "UTF8" does not exist'
        raise SqlError("42704", message, position=position_of(location))

    def _in_schema(self, schema: int, name: str) -> Relation | None:
        return self.catalog.relation(schema, name) or builtin_relation(schema, name)


@contextmanager
def inner_environment(
    catalog: Catalog,
    search_path: tuple[str, ...] = ("public",),
    user_name: str = "postgres",
    database_name: str = "postgres",
) -> Iterator[Environment]:
    """The environment of a text within a statement. The former environment becomes current again at the end."""
    types, functions = user.visible(), added.current()
    try:
        yield Environment(catalog, search_path, user_name, database_name)
    finally:
        user.restore(types)
        added.restore(functions)


def usable_path(
    catalog: Catalog, path: tuple[str, ...], user_name: str, today: Catalog | None = None
) -> tuple[str, ...]:
    """A search path without the schemas in which the user lacks USAGE (recomputeNamespacePath). `today`: see
    Environment."""

    def is_usable(name: str) -> bool:
        return name in _EVERYBODYS or _may_look_into(catalog.schemas.get(name, 0), user_name, catalog, today)

    return tuple(filter(is_usable, path))


def _may_look_into(schema: int, user_name: str, *catalogs: Catalog | None) -> bool:
    """Whether a user has USAGE on a schema in all catalogs."""
    for catalog in catalogs:
        if catalog is not None:
            found, role = catalog.get(schema), catalog.get(catalog.roles.get(user_name, 0))
            if isinstance(found, Schema) and isinstance(role, Role) and not may(catalog, found, role, "U"):
                return False
    return True


def builtin_relation(schema: int, name: str) -> VirtualTable | View | None:
    """A relation of pg_catalog or information_schema that every database has."""
    return builtin_relations().get((schema, name))


@cache
def builtin_relations() -> dict[tuple[int, str], VirtualTable | View]:
    """All built-in relations, by (schema OID, name)."""
    return {**virtual_tables, **system_views}


@cache
def builtin_relations_by_oid() -> dict[int, VirtualTable | View]:
    """All built-in relations, by OID."""
    return {item.oid: item for item in builtin_relations().values()}


def undefined_table(schema: str | None, name: str, location: int) -> SqlError:
    """42P01 for a relation that does not exist."""
    full = f"{schema}.{name}" if schema else name
    return SqlError("42P01", f'relation "{full}" does not exist', position=position_of(location))


def position_of(location: int) -> int | None:
    """A node's location (characters from 0, -1 for none) as an error position (from 1)."""
    return location + 1 if location >= 0 else None
