"""The catalog: an immutable snapshot of all schema objects.

A `Catalog` contains all objects (catalog/schema.py) at one LSN. A committed change makes a new catalog, and readers
keep the old one. A transaction with DDL makes its own successor of the committed catalog.
"""

from __future__ import annotations

from collections import abc
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

from catalog.event_triggers import EventTrigger
from catalog.extensions import types_of
from catalog.functions.added import Added
from catalog.routines import added_by
from catalog.schema import (
    CODE,
    IN_DATABASES,
    IN_SCHEMAS,
    POSTGRES_DATABASE_OID,
    PREDEFINED_ROLES,
    USER_TYPES,
    ChangeStream,
    Code,
    Collation,
    Database,
    Domain,
    Extension,
    ExtensionType,
    ForeignServer,
    ForeignWrapper,
    Index,
    Parameter,
    Relation,
    Role,
    Routine,
    Schema,
    SchemaObject,
    Sequence,
    Table,
    Tablespace,
    UserCast,
    UserMapping,
    UserOperator,
    UserType,
    View,
)
from catalog.text_search.objects import (
    TEXT_SEARCH,
    TextSearchObject,
)
from catalog.types.user import UserEntry, remember
from catalog.usertypes import array_name, entries_of


@dataclass(frozen=True)
class Catalog:
    """All objects of one database at one LSN, and the shared objects. Immutable: `with_object` and `without` return a
    new catalog.

    `version` grows with every change, and is the key of plan caches. Within a schema, tables, indexes, sequences and
    views share one set of names, as in PostgreSQL.
    """

    version: int = 0
    database: int = POSTGRES_DATABASE_OID
    # By OID, shared ones included
    objects: Mapping[int, SchemaObject] = field(default_factory=lambda: dict(PREDEFINED_ROLES))
    relations: Mapping[tuple[int, str], int] = field(default_factory=dict)  # (schema OID, name) -> OID
    schemas: Mapping[str, int] = field(default_factory=dict)
    roles: Mapping[str, int] = field(
        default_factory=lambda: {role.name: role.oid for role in PREDEFINED_ROLES.values()}
    )
    databases: Mapping[str, int] = field(default_factory=dict)
    tablespaces: Mapping[str, int] = field(default_factory=dict)
    types: Mapping[tuple[int, str], int] = field(default_factory=dict)  # user types: (schema OID, name) -> OID
    heirs: frozenset[int] = frozenset()  # OIDs of the tables with parents, because every statement looks for children
    code: Mapping[int, Code] = field(default_factory=dict)  # by OID, those of other databases included
    with_triggers: frozenset[int] = frozenset()  # OIDs of the relations with triggers, because every change looks here

    with_rules: frozenset[int] = frozenset()  # OIDs of the relations with rules, of all databases

    def with_object(self, item: SchemaObject) -> Catalog:
        """Adds `item`, or replaces the object with its OID."""
        return self.with_changes({item.oid: item})

    def without(self, oid: int) -> Catalog:
        """This catalog without the object."""
        return self.with_changes({oid: None})

    def with_changes(self, changes: Mapping[int, SchemaObject | None]) -> Catalog:
        """Applies several changes (None: drop) in one new version."""
        objects = dict(self.objects)
        relations = dict(self.relations)
        types = dict(self.types)
        code = dict(self.code)
        for oid in changes:
            old = objects.pop(oid, None)
            if isinstance(old, (Table, Index, Sequence, View)):
                relations.pop((old.schema, old.name), None)
            elif isinstance(old, USER_TYPES):
                types.pop((old.schema, old.name), None)
            elif isinstance(old, CODE):
                code.pop(oid, None)
        for oid, item in changes.items():
            if item is None:
                continue
            objects[oid] = item
            if isinstance(item, (Table, Index, Sequence, View)):
                relations[(item.schema, item.name)] = oid
            elif isinstance(item, USER_TYPES):
                types[(item.schema, item.name)] = oid
            elif isinstance(item, CODE):
                code[oid] = item
        return self._with(changes, objects, relations, types, self._heirs_after(changes), code)

    def alongside(self, changed: Catalog, changes: Mapping[int, SchemaObject | None]) -> Catalog:
        """Like `with_changes`, if the catalog of another database had the same objects, and `changed` is that catalog
        after the changes. The result shares everything but schema names with `changed`, because there may be many
        databases with many objects."""
        return self._with(changes, changed.objects, changed.relations, changed.types, changed.heirs, changed.code)

    def _with(
        self,
        changes: Mapping[int, SchemaObject | None],
        objects: Mapping[int, SchemaObject],
        relations: Mapping[tuple[int, str], int],
        types: Mapping[tuple[int, str], int],
        heirs: frozenset[int],
        code: Mapping[int, Code],
    ) -> Catalog:
        named: dict[type[SchemaObject], dict[str, int]] = {
            Schema: dict(self.schemas),
            Role: dict(self.roles),
            Database: dict(self.databases),
            Tablespace: dict(self.tablespaces),
        }
        for oid in changes:
            old = self.objects.get(oid)
            if isinstance(old, (Schema, Role, Database, Tablespace)) and self._is_here(old):
                named[type(old)].pop(old.name, None)
        for oid, item in changes.items():
            if isinstance(item, (Schema, Role, Database, Tablespace)) and self._is_here(item):
                named[type(item)][item.name] = oid
        changed = Catalog(
            self.version + 1, self.database, objects, relations, named[Schema], named[Role], named[Database],
            named[Tablespace], types, heirs, code, self._with_triggers_after(changes), self._with_rules_after(changes),
        )  # fmt: skip
        if types:
            remember(changed.user_types)
        return changed

    def _heirs_after(self, changes: Mapping[int, SchemaObject | None]) -> frozenset[int]:
        coming = {oid for oid, item in changes.items() if isinstance(item, Table) and item.parents}
        if not coming and self.heirs.isdisjoint(changes):
            return self.heirs
        return self.heirs.difference(changes) | coming

    def _with_triggers_after(self, changes: Mapping[int, SchemaObject | None]) -> frozenset[int]:
        coming = {oid for oid, item in changes.items() if isinstance(item, Table | View) and item.triggers}
        if not coming and self.with_triggers.isdisjoint(changes):
            return self.with_triggers
        return self.with_triggers.difference(changes) | coming

    def _with_rules_after(self, changes: Mapping[int, SchemaObject | None]) -> frozenset[int]:
        coming = {oid for oid, item in changes.items() if isinstance(item, Table | View) and item.rules}
        if not coming and self.with_rules.isdisjoint(changes):
            return self.with_rules
        return self.with_rules.difference(changes) | coming

    def _is_here(self, item: SchemaObject) -> bool:
        """Whether an object belongs to this database. A schema belongs to one database (0: to all)."""
        return not isinstance(item, Schema) or item.database in (0, self.database)

    # Properties of all objects are computed once per version.

    @cached_property
    def derivations(self) -> dict[object, dict[Any, Any]]:
        """What other modules have computed from this catalog (catalog/derived.py)."""
        return {}

    @cached_property
    def by_kind(self) -> Mapping[type[SchemaObject], abc.Sequence[SchemaObject]]:
        """The objects of this database, and the shared ones, by their class, in the order of their OIDs."""
        own = {oid for oid, item in self.objects.items() if isinstance(item, Schema) and self._is_here(item)}
        found: dict[type[SchemaObject], list[SchemaObject]] = {}
        for oid in sorted(self.objects):
            item = self.objects[oid]
            if isinstance(item, Schema):
                here = oid in own
            elif isinstance(item, IN_DATABASES):
                here = item.database == self.database
            else:
                here = not isinstance(item, IN_SCHEMAS) or item.schema in own
            if here:
                found.setdefault(type(item), []).append(item)
        return found

    @cached_property
    def constraint_owners(self) -> Mapping[int, int]:
        """The table of each constraint of this database, by OID."""
        return {item.oid: table.oid for table in self._own_tables for item in table.constraints}

    @cached_property
    def policy_owners(self) -> Mapping[int, int]:
        """The table of each policy of this database, by OID."""
        return {item.oid: table.oid for table in self._own_tables for item in table.policies}

    @cached_property
    def constraint_names(self) -> Mapping[str, abc.Sequence[int]]:
        """The OIDs of the tables with a constraint of a name, by name."""
        found: dict[str, list[int]] = {}
        for table in self._own_tables:
            for item in table.constraints:
                found.setdefault(item.name, []).append(table.oid)
        return found

    @cached_property
    def referencing(self) -> Mapping[int, abc.Sequence[int]]:
        """The tables whose foreign keys refer to a table, by its OID."""
        found: dict[int, list[int]] = {}
        for table in self._own_tables:
            for target in {item.references for item in table.constraints if item.references is not None}:
                found.setdefault(target, []).append(table.oid)
        return found

    @cached_property
    def triggering(self) -> frozenset[int]:
        """The tables whose changes may fire triggers: those with triggers, the tables above them, and the tables whose
        foreign keys' actions change such a table."""
        if not self.with_triggers:
            return frozenset()
        found = {oid for oid in self.with_triggers if isinstance(self.objects.get(oid), Table)}
        for oid in tuple(found):  # whose transition tables may get their rows
            if any(item.old_table or item.new_table for item in self.table(oid).triggers):
                found.update(item.oid for item in self.descendants(oid))
        pending = list(found)
        while pending:
            table = self.table(pending.pop())
            more = set(table.parents)
            for constraint in table.constraints:
                if constraint.references is not None and {constraint.on_delete, constraint.on_update} & set("cnd"):
                    more.add(constraint.references)
                    more.update(item.oid for item in self.descendants(constraint.references))
            pending += more - found
            found |= more
        return frozenset(found)

    @cached_property
    def children(self) -> Mapping[int, abc.Sequence[int]]:
        """The tables that inherit from a table directly, partitions too, by its OID; in the order of their OIDs."""
        found: dict[int, list[int]] = {}
        for oid in sorted(self.heirs):
            for parent in self.table(oid).parents:
                found.setdefault(parent, []).append(oid)
        return found

    @cached_property
    def index_children(self) -> Mapping[int, abc.Sequence[int]]:
        """The indexes of partitions that are part of a partitioned table's index, by its OID."""
        found: dict[int, list[int]] = {}
        for item in self.by_kind.get(Index, ()):
            if isinstance(item, Index) and item.parent is not None:
                found.setdefault(item.parent, []).append(item.oid)
        return found

    def partitioned_above(self, table: Table) -> list[Table]:
        """The partitioned tables that a partition is part of, the nearest first."""
        found = []
        while table.bound is not None:
            table = self.table(table.parents[0])
            found.append(table)
        return found

    def descendants(self, oid: int) -> list[Table]:
        """The tables that inherit from a table, at any distance, each once; a parent before its children
        (find_all_inheritors)."""
        children = self.children
        found: dict[int, None] = dict.fromkeys(children.get(oid, ()))
        pending = list(found)
        while pending:
            new = [child for child in children.get(pending.pop(0), ()) if child not in found]
            found.update(dict.fromkeys(new))
            pending += new
        return [self.table(item) for item in found]

    @cached_property
    def user_types(self) -> Mapping[int, UserEntry]:
        """The types of users and extensions, and their array types, by OID."""
        found = []
        for oid in self.types.values():
            item = self.objects[oid]
            assert isinstance(item, USER_TYPES)
            found.append((item, self.schema_name(item.schema)))
        entries = entries_of(found)
        for extension in self.extensions.values():
            entries |= types_of(extension, self.schema_name(extension.schema))
        return entries

    @cached_property
    def knows_ascii_only(self) -> bool:
        """Whether only the letters of ASCII are letters, under the database's default collation."""
        own = self.objects.get(self.database)
        return isinstance(own, Database) and own.knows_ascii_only

    @cached_property
    def collating_domains(self) -> bool:
        """Whether any domain has a collation, or uses one in its default or a condition. Then every cast may need
        collations."""
        domains = [item for oid in self.types.values() if isinstance(item := self.objects[oid], Domain)]
        texts = [text for item in domains for text in (item.default, *(check.check for check in item.checks)) if text]
        return any(item.collation for item in domains) or any("COLLATE" in text for text in texts)

    @cached_property
    def collations(self) -> Mapping[tuple[int, str], Collation]:
        """The user-defined collations of this database, by schema and name."""
        found = self.by_kind.get(Collation, ())
        return {(item.schema, item.name): item for item in found if isinstance(item, Collation)}

    @cached_property
    def extensions(self) -> Mapping[str, Extension]:
        """The extensions of this database, by name."""
        here = set(self.schemas.values()) if self.code else set()
        return {item.name: item for item in self.code.values() if isinstance(item, Extension) and item.schema in here}

    @cached_property
    def routines(self) -> Mapping[str, abc.Sequence[Routine]]:
        """The user-defined functions and procedures of this database, by name."""
        here = set(self.schemas.values()) if self.code else set()
        found: dict[str, list[Routine]] = {}
        for item in self.code.values():
            if isinstance(item, Routine) and item.schema in here:
                found.setdefault(item.name, []).append(item)
        return found

    @cached_property
    def operators(self) -> Mapping[str, abc.Sequence[UserOperator]]:
        """The user-defined operators of this database, by name."""
        here = set(self.schemas.values()) if self.code else set()
        found: dict[str, list[UserOperator]] = {}
        for item in self.code.values():
            if isinstance(item, UserOperator) and item.schema in here:
                found.setdefault(item.name, []).append(item)
        return found

    @cached_property
    def casts(self) -> Mapping[tuple[int, int], UserCast]:
        """The casts of users in this database, by the OIDs of their types."""
        return {
            (item.source, item.target): item
            for item in self.code.values()
            if isinstance(item, UserCast) and item.database == self.database
        }

    @cached_property
    def wrappers(self) -> Mapping[str, ForeignWrapper]:
        """The foreign data wrappers of this database, by name."""
        found = (item for item in self.code.values() if isinstance(item, ForeignWrapper))
        return {item.name: item for item in found if item.database == self.database}

    @cached_property
    def servers(self) -> Mapping[str, ForeignServer]:
        """The foreign servers of this database, by name."""
        found = (item for item in self.code.values() if isinstance(item, ForeignServer))
        return {item.name: item for item in found if item.database == self.database}

    @cached_property
    def user_mappings(self) -> Mapping[tuple[int, int], UserMapping]:
        """The user mappings of this database, by the OIDs of server and role."""
        found = (item for item in self.code.values() if isinstance(item, UserMapping))
        return {(item.server, item.role): item for item in found if item.database == self.database}

    @cached_property
    def foreign_tables(self) -> frozenset[int]:
        """The OIDs of the foreign tables of this database, because every new statement looks here."""
        if not self.servers:
            return frozenset()
        return frozenset(oid for oid in self.relations.values() if getattr(self.objects[oid], "server", 0))

    @cached_property
    def event_triggers(self) -> abc.Sequence[EventTrigger]:
        """The event triggers of this database, in the order of their names."""
        found = [item for item in self.code.values() if isinstance(item, EventTrigger)]
        return sorted((item for item in found if item.database == self.database), key=lambda item: item.name)

    @cached_property
    def text_search(self) -> Mapping[int, TextSearchObject]:
        """The text search configurations and dictionaries of users in this database, by OID."""
        here = set(self.schemas.values()) if self.code else set()
        return {oid: item for oid, item in self.code.items() if isinstance(item, TEXT_SEARCH) and item.schema in here}

    @cached_property
    def added(self) -> Added:
        """The functions and operators that are not built in, by name."""
        return added_by(self)

    def extension_type(self, schema: int, name: str) -> ExtensionType | None:
        """The type with this name that an extension has in the schema."""
        for extension in self.extensions.values():
            if extension.schema == schema:
                for oid, entry in self.user_types.items():
                    if entry.definition is None and entry.row.name == name and not entry.row.element:
                        return ExtensionType(oid, entry.row.array, name, schema)
        return None

    def user_type(self, schema: int, name: str) -> UserType | None:
        """The user-defined type with this name in the schema."""
        oid = self.types.get((schema, name))
        item = None if oid is None else self.objects[oid]
        return item if isinstance(item, USER_TYPES) else None

    def user_type_of_array(self, schema: int, name: str) -> UserType | None:
        """The user-defined type in the schema whose array type has this name. Array names are cut to the length of a
        name."""
        found = self.user_type(schema, name[1:])
        if found is not None or len(name.encode()) < 63:
            return found
        for (place, candidate), oid in self.types.items():
            item = self.objects[oid]
            if place == schema and isinstance(item, USER_TYPES) and array_name(candidate) == name:
                return item
        return None

    @cached_property
    def sequences_of(self) -> Mapping[int, abc.Sequence[int]]:
        """The sequences that columns of a table own, by the table's OID."""
        found: dict[int, list[int]] = {}
        for item in self.by_kind.get(Sequence, ()):
            if isinstance(item, Sequence) and item.owned_by is not None:
                found.setdefault(item.owned_by[0], []).append(item.oid)
        return found

    @cached_property
    def parameters(self) -> Mapping[str, Parameter]:
        """The settings on which privileges were granted, by name."""
        found = self.by_kind.get(Parameter, ())
        return {item.name: item for item in found if isinstance(item, Parameter)}

    @cached_property
    def change_streams(self) -> Mapping[str, ChangeStream]:
        """The change streams of this database, by name."""
        found = self.by_kind.get(ChangeStream, ())
        return {item.name: item for item in found if isinstance(item, ChangeStream)}

    @property
    def _own_tables(self) -> abc.Sequence[Table]:
        return cast("abc.Sequence[Table]", self.by_kind.get(Table, ()))

    def get(self, oid: int) -> SchemaObject | None:
        return self.objects.get(oid)

    def table(self, oid: int) -> Table:
        """The table with this OID, which must exist."""
        item = self.objects[oid]
        assert isinstance(item, Table)
        return item

    def index(self, oid: int) -> Index:
        """The index with this OID, which must exist."""
        item = self.objects[oid]
        assert isinstance(item, Index)
        return item

    def relation(self, schema: int, name: str) -> Relation | None:
        """The user relation with this name in the schema. Virtual tables are found in catalog.system."""
        oid = self.relations.get((schema, name))
        if oid is None:
            return None
        item = self.objects[oid]
        assert isinstance(item, (Table, Index, Sequence, View))
        return item

    def tables(self) -> Iterator[Table]:
        """The tables of this database (`objects` also has those of other databases)."""
        here = set(self.schemas.values())
        for item in self.objects.values():
            if isinstance(item, Table) and item.schema in here:
                yield item

    def schema_name(self, oid: int) -> str:
        item = self.objects[oid]
        assert isinstance(item, Schema)
        return item.name
