"""DROP, and dependencies.

Dependencies are not stored. When an object is dropped, its dependents are found in the catalog: indexes and sequences
of a table, foreign keys to it, views that use it, the content of a schema.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from catalog import types
from catalog.errors import SqlError, not_supported
from catalog.extensions import available
from catalog.operator_classes import class_of, operator_class
from catalog.row_types import is_row_type
from catalog.schema import (
    EVERYBODY,
    IN_SCHEMAS,
    INFORMATION_SCHEMA_OID,
    PG_CATALOG_OID,
    USER_TYPES,
    Collation,
    Column,
    Composite,
    Constraint,
    Domain,
    Extension,
    ForeignServer,
    ForeignWrapper,
    Index,
    Policy,
    Role,
    Routine,
    Schema,
    SchemaObject,
    Sequence,
    Table,
    UserMapping,
    UserOperator,
    UserRange,
    UserType,
    View,
    VirtualTable,
)
from catalog.system import derived_oids
from catalog.text_search.objects import (
    TextSearchConfiguration,
    TextSearchDictionary,
)
from catalog.types.base import TypeRef
from engine.ddl import (
    collations,
    event_triggers,
    names,
    ownership,
    policies,
    rules,
    statistics_objects,
    text_search,
    triggers,
)
from engine.ddl.code_users import Use, own_objects, shown_use, users_of_code
from engine.ddl.context import DdlContext
from engine.ddl.object_words import name_object, name_type, word_of
from engine.ddl.parts import parts_of_range, whole_of
from engine.ddl.rewrite_text import default_over, tables_and_views
from engine.ddl.user_types import find_type, users_of
from engine.sql import ast

UNKNOWN_KINDS = {"rule": "rule", "policy": "policy"}


class Removal:
    """The effects of a DROP: objects to remove, foreign keys to remove from other tables, storage to free."""

    def __init__(self, context: DdlContext, cascade: bool) -> None:
        self.context = context
        self.cascade = cascade
        self.gone: dict[int, SchemaObject] = {}
        self.constraints: list[tuple[int, int]] = []  # (table OID, constraint OID) that go from tables that stay
        self.policies: list[tuple[int, int]] = []  # (table OID, policy OID) that go from tables that stay
        self.rules: list[tuple[int, int]] = []  # (relation OID, rule OID) that go from relations that stay
        self.defaults: list[tuple[int, int]] = []  # (table OID, column number) whose default used a dropped sequence
        self.columns: list[tuple[Table, Column]] = []  # whose type is dropped
        self.attributes: list[tuple[Composite, Column]] = []
        self.triggers: list[tuple[int, int]] = []  # (relation OID, trigger OID) whose function is dropped
        self._dependents: set[int] = set()
        self._extra: list[tuple[str, str, int]] = []
        """The dependents that only CASCADE drops: (object, object that it depends on, OID of its table or 0)."""

    def add(self, item: SchemaObject) -> None:
        """Adds an object, its parts and its dependents."""
        if item.oid in self.gone:
            return
        self.gone[item.oid] = item
        if isinstance(item, Table):
            self._take_parts(item)
        elif isinstance(item, Schema):
            for other in list(self.context.catalog.objects.values()):
                inside = isinstance(other, IN_SCHEMAS) and not isinstance(other, Index) and other.schema == item.oid
                found = other if isinstance(other, View) else whole_of(self.context, other) or other
                if inside and found.oid not in self.gone:
                    self._depend(found, item)
        elif isinstance(item, Index):
            for oid in self.context.catalog.index_children.get(item.oid, ()):
                self.add(self.context.catalog.index(oid))
        elif isinstance(item, Sequence):
            self._take_defaults(item)
        elif isinstance(item, USER_TYPES):
            self._take_users(item)
            for part in parts_of_range(self.context, item):
                self.add(part)
            schema = self.context.catalog.schema_name(item.schema)
            users = users_of_code(self.context, schema, lambda oid: oid in (item.oid, item.array_oid))
            self._take_callers(use for use in users if use.part == "policy")
        elif isinstance(item, Collation):
            self._take_collated(item)
        elif isinstance(item, Extension):
            self._take_members(item)
        elif isinstance(item, ForeignWrapper | ForeignServer):
            self._take_foreign(item)
        elif isinstance(item, UserOperator):
            schema = self.context.catalog.schema_name(item.schema)
            self._take_callers(users_of_code(self.context, schema, lambda oid: oid == item.oid))
        elif isinstance(item, Routine):
            schema = self.context.catalog.schema_name(item.schema)
            casts = any(cast.function == item.oid for cast in self.context.catalog.casts.values())
            self._take_casts(item)
            self._take_callers(users_of_code(self.context, schema, lambda oid: oid == item.oid, casts))
            self._take_triggers(item)
        elif isinstance(item, TextSearchConfiguration | TextSearchDictionary):
            self._take_text_search(item)
        if isinstance(item, Routine | UserOperator):
            self._take_rules(item)
        self._take_bodies(item)
        self._take_ranges(item)
        self._take_operators(item)
        self._take_casts(item)
        if isinstance(item, Table | View | Sequence):
            self._take_views(item)

    def take_triggers(self, triggers: Iterable[str], column: str) -> None:
        """Adds triggers, which the caller removes, that use a column."""
        self._extra += [(trigger, column, 0) for trigger in triggers]

    def take_shown(self, found: Iterable[str], on: str) -> None:
        """Adds generated columns or foreign keys, which the caller removes, that depend on something."""
        self._extra += [(what, on, 0) for what in found]

    def take(self, views: Iterable[View | Table], on: str) -> None:
        """Adds the views that use a column of a table."""
        for view in views:
            self._extra.append((name_object(view), on, 0))
            self.add(view)

    @property
    def is_empty(self) -> bool:
        """Whether nothing was added."""
        return not self._extra and not self.gone

    def _take_views(self, item: Table | View | Sequence) -> None:
        for view in self._views_over(item.oid):
            self._depend(view, item)
        self.take_policies(policies.policies_over(self.context, item.oid), name_object(item))
        self._take_rules(item)

    def _take_rules(self, item: SchemaObject) -> None:
        """Adds the rules of other relations that use an object."""
        for relation, rule in rules.rules_over(self.context, item.oid):
            if (relation.oid, rule.oid) not in self.rules:
                shown = f"rule {rule.name} on {name_object(relation)}"
                self._extra.append((shown, name_object(item), relation.oid))
                self.rules.append((relation.oid, rule.oid))

    def take_policies(self, found: Iterable[tuple[Table, Policy]], on: str) -> None:
        """Adds policies of other tables that depend on something."""
        for table, policy in found:
            if (table.oid, policy.oid) not in self.policies:
                self._extra.append((policies.show_policy(policy, table), on, table.oid))
                self.policies.append((table.oid, policy.oid))

    def _take_users(self, item: UserType) -> None:
        for user, column in users_of(self.context, item):
            if column is None:
                self._depend(user, item)
            elif isinstance(user, Composite) and user.oid not in self.gone:
                what = f"column {column.name} of composite type {user.name}"
                self._extra.append((what, name_type(column, item), user.oid))
                self.attributes.append((user, column))
            elif isinstance(user, Table) and user.oid not in self.gone:
                what = f"column {column.name} of table {user.name}"
                self._extra.append((what, name_type(column, item), user.oid))
                self.columns.append((user, column))

    def _take_collated(self, item: Collation) -> None:
        """Adds the users of a collation: columns, indexes, domains, and objects with an expression that uses it."""
        for user, number in collations.users(self.context, item):
            if user.oid in self.gone:
                continue
            if isinstance(user, Table) and number:
                column = user.column_by_number(number)
                self._extra.append((f"column {column.name} of table {user.name}", name_object(item), user.oid))
                self.columns.append((user, column))
            elif isinstance(user, Composite) and number:
                column = next(column for column in user.columns if column.number == number)
                self._extra.append((f"column {column.name} of composite type {user.name}", name_object(item), user.oid))
                self.attributes.append((user, column))
            elif not isinstance(user, Table):
                self._depend(user, item)
            else:
                raise SqlError(
                    "2BP01", f"cannot drop {name_object(item)} because an expression of {name_object(user)} names it"
                )

    def _take_members(self, item: Extension) -> None:
        """Adds the users of an extension's types, functions and operators."""
        self.context.environment.make_current()
        for part in (*self.context.catalog.by_kind.get(View, ()), *self.context.catalog.wrappers.values()):
            if isinstance(part, View | ForeignWrapper) and part.extension == item.oid:
                self.add(part)
        has = available()[item.name].has
        for table in list(self.context.catalog.tables()):
            for column in table.columns:
                if has(column.type.oid) and table.oid not in self.gone:
                    what = f"column {column.name} of table {table.name}"
                    self._extra.append((what, f"type {types.format_type(column.type.oid)}", table.oid))
                    self.columns.append((table, column))
        for found in own_objects(self.context):
            of_composite = isinstance(found, Composite) and any(has(column.type.oid) for column in found.columns)
            if isinstance(found, UserRange) and has(found.operator_class) and found.oid not in self.gone:
                on = f"operator class {operator_class(found.operator_class).name} for access method btree"
                self._extra.append((name_object(found), on, 0))
                self.add(found)
            if of_composite or (isinstance(found, Domain) and has(found.type.oid)):
                self._depend(found, item)
        self._take_indexes(has)
        self._take_callers(users_of_code(self.context, self.context.catalog.schema_name(item.schema), has))

    def _take_foreign(self, item: ForeignWrapper | ForeignServer) -> None:
        """Adds the servers of a wrapper, or the user mappings and foreign tables of a server."""
        catalog = self.context.catalog
        if isinstance(item, ForeignWrapper):
            for server in list(catalog.servers.values()):
                if server.wrapper == item.oid and server.oid not in self.gone:
                    self._depend(server, item)
            return
        users: list[UserMapping | Table] = [one for one in catalog.user_mappings.values() if one.server == item.oid]
        users += [table for oid in catalog.foreign_tables if (table := catalog.table(oid)).server == item.oid]
        for user in sorted(users, key=lambda one: one.oid):
            if isinstance(user, UserMapping):
                self._extra.append((self._shown_mapping(user, item), name_object(item), 0))
                self.gone[user.oid] = user
            elif user.oid not in self.gone:
                self._depend(user, item)

    def _shown_mapping(self, mapping: UserMapping, server: ForeignServer) -> str:
        role = self.context.catalog.get(mapping.role) if mapping.role != EVERYBODY else None
        return f"user mapping for {role.name if isinstance(role, Role) else 'public'} on server {server.name}"

    def _take_indexes(self, gone: Callable[[int], bool]) -> None:
        """Adds the indexes whose columns have an operator class that is dropped."""
        dropped = {(table.oid, column.number) for table, column in self.columns}
        for index in own_objects(self.context):
            if not isinstance(index, Index) or index.oid in self.gone:
                continue
            if any((index.table, column.number) in dropped for column in index.columns):
                continue  # a dropped column takes its indexes with it
            for column in index.columns:
                class_ = class_of(index.method, column.operator_class, column.type.oid)
                if class_ is not None and gone(class_.oid):
                    on = f"operator class {class_.name} for access method {index.method}"
                    self._take_index(index, on)
                    break

    def _take_index(self, index: Index, on: str) -> None:
        """Adds an index with its constraint."""
        table = self.context.catalog.table(index.table)
        constraint = next((item for item in table.constraints if item.index == index.oid), None)
        if constraint is None:
            self._extra.append((name_object(index), on, index.table))
        else:
            self._extra.append((f"constraint {constraint.name} on table {table.name}", on, index.table))
            self.constraints.append((table.oid, constraint.oid))
        self.add(index)

    def _take_bodies(self, item: SchemaObject) -> None:
        """Adds the functions that use the object in a body of SQL statements, or as a parameter or result."""
        routines = [other for others in self.context.catalog.routines.values() for other in others]
        row_types = (derived_oids.row_type(item.oid), derived_oids.row_array_type(item.oid))
        for other in routines:
            rows = {argument.type.oid for argument in other.arguments if is_row_type(argument.type.oid)}
            uses = other.relation == item.oid or not rows.isdisjoint(row_types)
            if uses and other.oid not in self.gone:
                self._extra.append((name_object(other), f"type {getattr(item, 'name', '')}", 0))
                self.add(other)
        for other in routines:
            typed = isinstance(item, USER_TYPES) and any(
                type_.declared in (item.oid, item.array_oid)
                for type_ in (other.result, *(argument.type for argument in other.arguments), *_state_of(other))
            )
            if other.oid not in self.gone and (typed or item.oid in other.depends_on):
                self._depend(other, item)

    def _take_ranges(self, item: SchemaObject) -> None:
        """Adds the range types with a dropped function."""
        for other in self.context.catalog.by_kind.get(UserRange, ()):
            if isinstance(other, UserRange) and other.difference == item.oid and other.oid not in self.gone:
                self._depend(other, item)

    def _take_operators(self, item: SchemaObject) -> None:
        """Adds the operators with a dropped function or type."""
        used = {item.oid, item.array_oid} if isinstance(item, USER_TYPES) else {item.oid}
        used |= {derived_oids.row_type(item.oid)} if isinstance(item, Table | View) else set()
        for others in list(self.context.catalog.operators.values()):
            for other in others:
                parts = (other.function, other.restrict, other.join, other.left, other.right, other.result)
                if other.oid not in self.gone and not used.isdisjoint(parts):
                    self._depend(other, item)

    def _take_casts(self, item: SchemaObject) -> None:
        """Adds the casts with a dropped function or type."""
        used = {item.oid, item.array_oid} if isinstance(item, USER_TYPES) else {item.oid}
        for other in list(self.context.catalog.casts.values()):
            if other.oid not in self.gone and not used.isdisjoint((other.function, other.source, other.target)):
                self._depend(other, item)

    def _take_callers(self, users: Iterable[Use]) -> None:
        """Adds the objects that call dropped functions or operators."""
        for use in users:
            table = use.item.table if isinstance(use.item, Index) else use.item.oid
            if use.item.oid in self.gone or any(table == other.oid for other, _ in self.columns):
                continue  # a dropped column takes its dependents with it
            on = shown_use(self.context, use.used)
            generated = isinstance(use.item, Table) and use.part == "default" and use.item.column_by_number(use.number)
            if isinstance(use.item, Table) and generated and generated.generated is not None:
                self._extra.append((f"column {use.name} of table {use.item.name}", on, use.item.oid))
                self.columns.append((use.item, generated))
            elif use.part == "default":
                what = f"default value for column {use.name} of {name_object(use.item)}"
                self._extra.append((what, on, 0))
                self.defaults.append((use.item.oid, use.number))
            elif isinstance(use.item, Table) and use.part == "check":
                self._extra.append((f"constraint {use.name} on table {use.item.name}", on, use.item.oid))
                self.constraints.append((use.item.oid, use.number))
            elif isinstance(use.item, Table) and use.part == "policy":
                self._extra.append((f"policy {use.name} on table {use.item.name}", on, use.item.oid))
                self.policies.append((use.item.oid, use.number))
            else:
                self._extra.append((name_object(use.item), on, 0))
                self.add(use.item)

    def _take_text_search(self, item: TextSearchConfiguration | TextSearchDictionary) -> None:
        """Adds the configurations with a dropped dictionary, and the texts that name the object."""
        for other in self.context.catalog.text_search.values():
            rows = other.mappings if isinstance(other, TextSearchConfiguration) else ()
            if other.oid not in self.gone and any(item.oid in row.dictionaries for row in rows):
                self._depend(other, item)
        schema = self.context.catalog.schema_name(item.schema)
        self._take_callers(users_of_code(self.context, schema, lambda oid: oid == item.oid))

    def _take_triggers(self, function: Routine) -> None:
        """Adds the triggers that call a dropped function."""
        for owner in (*self.context.catalog.by_kind.get(Table, ()), *self.context.catalog.by_kind.get(View, ())):
            assert isinstance(owner, Table | View)
            for trigger in owner.triggers:
                if trigger.function == function.oid:
                    self.triggers.append((owner.oid, trigger.oid))
                    if not trigger.parent:
                        shown = f"trigger {trigger.name} on {word_of(owner)} {owner.name}"
                        self._extra.append((shown, name_object(function), owner.oid))
        for item in self.context.catalog.event_triggers:
            if item.function == function.oid and item.oid not in self.gone:
                self._depend(item, function)

    def _take_parts(self, table: Table) -> None:
        catalog = self.context.catalog
        for oid in catalog.children.get(table.oid, ()):
            child = catalog.table(oid)
            if child.bound is not None:
                self.add(child)
            elif oid not in self.gone:
                self._depend(child, table)
        for oid in table.indexes:
            self.gone[oid] = catalog.index(oid)
        self.gone.update({item.oid: item for item in statistics_objects.of_table(self.context, table.oid)})
        for item in catalog.objects.values():
            if isinstance(item, Sequence) and item.owned_by and item.owned_by[0] == table.oid:
                self.gone[item.oid] = item
                self._take_views(item)
        above = (item.oid for item in catalog.partitioned_above(table) if item.oid not in self.gone)
        referenced = {table.oid, *above}
        for other in catalog.tables():
            if other.oid != table.oid:
                for constraint in other.constraints:
                    if constraint.references in referenced:
                        self._depend_constraint(other, constraint, table)

    def _take_defaults(self, sequence: Sequence) -> None:
        for item in tables_and_views(self.context.catalog):
            for column in item.columns:
                if item.oid in self.gone:
                    continue
                if column.sequence == sequence.oid or default_over(self.context, column, {sequence.oid}) is not None:
                    what = f"default value for column {column.name} of {name_object(item)}"
                    self._extra.append((what, f"sequence {sequence.name}", 0))
                    self.defaults.append((item.oid, column.number))

    def _views_over(self, oid: int) -> Iterator[View | Table]:
        for _, item in sorted(self.context.catalog.objects.items()):
            if isinstance(item, View | Table) and oid in item.depends_on and item.oid not in self.gone:
                yield item

    def _depend(self, item: SchemaObject, on: SchemaObject) -> None:
        self._extra.append((name_object(item), name_object(on), 0))
        self._dependents.add(item.oid)
        self.add(item)

    def _depend_constraint(self, other: Table, constraint: Constraint, table: Table) -> None:
        self.constraints.append((other.oid, constraint.oid))
        if constraint.parent is None:  # a part is dropped with its parent constraint
            what = f"constraint {constraint.name} on table {other.name}"
            self._extra.append((what, f"table {table.name}", other.oid))

    def carry_out(self, roots: list[SchemaObject], shown: str = "") -> None:
        """Writes the changes. `shown`: the root in messages, if it is a part of the object.

        Raises 2BP01 if another object depends on a dropped one and there is no CASCADE, and for a part of an extension.
        """
        for item in self.gone.values():
            owner = whole_of(self.context, item)
            if owner is not None and owner.oid not in self.gone:
                raise SqlError(
                    "2BP01",
                    f"cannot drop {name_object(item)} because {name_object(owner)} requires it",
                    hint=f"You can drop {name_object(owner)} instead.",
                )
        for item in self.gone.values():  # who drops or changes one is waited for, before it is in anybody's way
            if isinstance(item, Table | Index | Sequence | View):
                self.context.lock_relation(item.oid, "access exclusive")
        for oid in self._other_ends():
            self.context.lock_relation(oid, "access exclusive")
        of_rest = (item for item in self._extra if item[2] not in self.gone and not self._is_root(item[0], roots))
        extra = list({item[0]: item for item in reversed(list(of_rest))}.values())[::-1]  # the first reason of each
        if extra and not self.cascade:
            root = roots[0]
            word = shown or name_object(root) if len(roots) == 1 else "desired object(s)"
            raise SqlError(
                "2BP01",
                f"cannot drop {word} because other objects depend on {'it' if len(roots) == 1 else 'them'}",
                detail="\n".join(f"{what} depends on {on}" for what, on, _ in extra),
                hint="Use DROP ... CASCADE to drop the dependent objects too.",
            )
        self._notify(extra)
        self._refuse_in_use()
        parts = [*self.constraints, *self.policies, *self.rules, *self.triggers, *self.defaults]
        parts += [(table.oid, column.number) for table, column in self.columns]
        named = {item.oid for item in roots}
        self.context.note_dropped(named, self._dependents - named, parts)
        if self.columns:
            self._drop_columns()
        for composite, column in self.attributes:
            current = self.context.catalog.objects[composite.oid]
            if isinstance(current, Composite) and composite.oid not in self.gone:
                kept = tuple(item for item in current.columns if item.number != column.number)
                self.context.change({composite.oid: replace(current, columns=kept)})
        for relation, trigger in self.triggers:
            if relation not in self.gone:
                self.context.lock_relation(relation, "access exclusive")
                triggers.remove(self.context, relation, trigger)
        changes: dict[int, SchemaObject | None] = dict.fromkeys(self.gone)
        for item in self.gone.values():
            if isinstance(item, Table | Sequence) or (isinstance(item, Index) and not item.primary):
                self.context.drop_storage(item.storage_id)
            if isinstance(item, Index) and item.table not in self.gone:
                table = changes.get(item.table) or self.context.catalog.table(item.table)
                assert isinstance(table, Table)
                changes[table.oid] = replace(table, indexes=tuple(oid for oid in table.indexes if oid != item.oid))
        self._edit_tables(changes)
        self.context.change(changes)
        self._drop_policies()

    def _refuse_in_use(self) -> None:
        """55006 for a relation that a statement around this one uses: indexes first, as PostgreSQL drops them."""
        for item in sorted(self.gone.values(), key=lambda item: item.oid, reverse=True):
            if isinstance(item, Index):
                self.context.refuse_in_use(item, "DROP INDEX")
        for item in self.gone.values():
            if isinstance(item, Table | View | Sequence):
                self.context.refuse_in_use(item, "DROP TABLE")  # PostgreSQL says so for views too

    def _drop_policies(self) -> None:
        left = [(table, policy) for table, policy in self.policies if table not in self.gone]
        for table in dict.fromkeys(table for table, _ in left):
            self.context.lock_relation(table, "access exclusive")
        policies.remove_policies(self.context, left)
        left = [(relation, rule) for relation, rule in self.rules if relation not in self.gone]
        for relation in dict.fromkeys(relation for relation, _ in left):
            self.context.lock_relation(relation, "access exclusive")
        rules.remove_rules(self.context, left)

    def _other_ends(self) -> list[int]:
        """The remaining tables that foreign keys of dropped tables refer to."""
        tables = [item for item in self.gone.values() if isinstance(item, Table)]
        keys = [constraint.references for table in tables for constraint in table.constraints if constraint.kind == "f"]
        return [oid for oid in dict.fromkeys(keys) if oid is not None and oid not in self.gone]

    def _drop_columns(self) -> None:
        self.context.change({oid: None for oid, item in self.gone.items() if isinstance(item, View)})
        tables = {table.oid: table for table, _ in self.columns if table.oid not in self.gone}
        for table in tables.values():  # all columns of a table at once: a rewritten table must not have one of them
            relation = ast.RangeVar(None, self.context.catalog.schema_name(table.schema), table.name)
            dropped = {column.number: column for owner, column in self.columns if owner.oid == table.oid}
            commands = tuple(  # generated ones first, which a column that they use would take with it
                ast.AlterTableCmd("drop_column", column.name, cascade=True)
                for column in sorted(dropped.values(), key=lambda column: column.generated is None)
            )
            self.context.run(ast.AlterTableStmt("table", relation, commands))

    def _edit_tables(self, changes: dict[int, SchemaObject | None]) -> None:
        catalog = self.context.catalog
        for table_oid, constraint_oid in self.constraints:
            if table_oid in self.gone:
                continue
            table = changes.get(table_oid) or catalog.table(table_oid)
            assert isinstance(table, Table)
            self.context.lock_relation(table_oid, "access exclusive")
            kept = tuple(item for item in table.constraints if item.oid != constraint_oid)
            changes[table_oid] = replace(table, constraints=kept)
        for oid, number in self.defaults:
            relation = changes.get(oid) or catalog.get(oid)
            if isinstance(relation, Table | View) and oid not in self.gone:
                columns = tuple(
                    replace(item, default=None, sequence=None) if item.number == number else item
                    for item in relation.columns
                )
                changes[oid] = replace(relation, columns=columns)

    @staticmethod
    def _is_root(what: str, roots: list[SchemaObject]) -> bool:
        return any(what == name_object(root) for root in roots)

    def _notify(self, extra: list[tuple[str, str, int]]) -> None:
        if not extra:
            return
        if len(extra) == 1:
            notice = SqlError("00000", f"drop cascades to {extra[0][0]}", severity="NOTICE")
        else:
            detail = "\n".join(f"drop cascades to {what}" for what, _, _ in extra)
            notice = SqlError("00000", f"drop cascades to {len(extra)} other objects", detail=detail, severity="NOTICE")
        self.context.notice(notice)


def _state_of(routine: Routine) -> tuple[TypeRef, ...]:
    """The types of the states of an aggregate; () for other routines."""
    parts = routine.aggregate
    if parts is None:
        return ()
    return (parts.state,) if parts.moving_state is None else (parts.state, parts.moving_state)


def drop(context: DdlContext, statement: ast.DropStmt) -> str:
    """DROP TABLE, VIEW, INDEX, SEQUENCE, SCHEMA. Raises 42P01, 3F000, 42809, 42501, 2BP01."""
    tag = f"DROP {statement.kind.upper()}" if statement.kind != "matview" else "DROP MATERIALIZED VIEW"
    if statement.kind in UNKNOWN_KINDS:
        return _drop_unknown(context, statement, tag)
    if statement.kind in ("type", "domain"):
        return _drop_types(context, statement, tag)
    if statement.kind == "collation":
        return _drop_named(context, statement, tag, "collation", collations.to_drop)
    if statement.kind == "statistics":
        return _drop_named(context, statement, tag, "statistics object", statistics_objects.to_drop)
    if statement.kind == "event trigger":
        return _drop_named(context, statement, tag, "event trigger", event_triggers.to_drop)
    if statement.kind.startswith("text search "):
        kind = statement.kind.removeprefix("text search ")
        return _drop_named(
            context, statement, tag, statement.kind, lambda context, parts: text_search.to_drop(context, kind, parts)
        )
    roots: list[SchemaObject] = []
    for parts in statement.names:
        found = _schema(context, parts) if statement.kind == "schema" else _relation(context, statement.kind, parts)
        if found is not None:
            roots.append(found)
        elif statement.if_exists:
            word = "materialized view" if statement.kind == "matview" else statement.kind
            notice = f'{word} "{".".join(parts)}" does not exist, skipping'
            context.notice(SqlError("00000", notice, severity="NOTICE"))
        elif statement.kind == "schema":
            raise SqlError("3F000", f'schema "{parts[-1]}" does not exist')
        else:
            sqlstate = "42704" if statement.kind in ("index", "foreign table") else "42P01"
            word = "materialized view" if statement.kind == "matview" else statement.kind
            raise SqlError(sqlstate, f'{word} "{".".join(parts)}" does not exist')
    if roots:
        removal = Removal(context, statement.cascade)
        for root in roots:
            _refuse_part(context, root)
            removal.add(root)
        removal.carry_out(roots)
    return tag


def remove(context: DdlContext, roots: list[SchemaObject], cascade: bool) -> None:
    """Drops objects, with their parts and dependents. Raises 2BP01."""
    removal = Removal(context, cascade)
    for root in roots:
        removal.add(root)
    if roots:
        removal.carry_out(roots)


def _lock_siblings(context: DdlContext, partition: Table) -> None:
    """Locks the parent of a dropped partition and its default partition, to which the parent's rows would go
    (heap_drop_with_catalog)."""
    for oid in partition.parents:
        context.lock_relation(oid, "access exclusive")
        for child in map(context.catalog.table, context.catalog.children.get(oid, ())):
            if child.bound is not None and child.bound.kind == "d":
                context.lock_relation(child.oid, "access exclusive")


def _drop_types(context: DdlContext, statement: ast.DropStmt, tag: str) -> str:
    """DROP TYPE and DROP DOMAIN. Raises 42704, 42809 (no domain), 42501, 2BP01."""
    roots: list[SchemaObject] = []
    for parts in statement.names:
        found = find_type(context, parts, dropped=True)
        if found is None:
            schema = parts[-2] if len(parts) > 1 else None
            if schema is not None and not context.environment.schema_oid(schema):
                message = f'schema "{schema}" does not exist'
                sqlstate = "3F000"
            else:
                message, sqlstate = f'type "{".".join(parts)}" does not exist', "42704"
            if not statement.if_exists:
                raise SqlError(sqlstate, message)
            context.notice(SqlError("00000", f"{message}, skipping", severity="NOTICE"))
            continue
        ownership.must_own_to_drop(context, found)
        if statement.kind == "domain" and not isinstance(found, Domain):
            raise SqlError("42809", f'"{".".join(parts)}" is not a domain')
        roots.append(found)
    remove(context, roots, statement.cascade)
    return tag


def _drop_named(
    context: DdlContext,
    statement: ast.DropStmt,
    tag: str,
    word: str,
    find: Callable[[DdlContext, tuple[str, ...]], SchemaObject],
) -> str:
    """DROP COLLATION, STATISTICS, EVENT TRIGGER and TEXT SEARCH. Raises 42704, 3F000, 42501, 2BP01."""
    roots: list[SchemaObject] = []
    for parts in statement.names:
        try:
            roots.append(find(context, parts))
        except SqlError as error:
            if error.sqlstate not in ("42704", "3F000") or not statement.if_exists:
                raise
            message = error.message
            if error.sqlstate == "42704":
                message = f'{word} "{".".join(parts)}" does not exist'
            context.notice(SqlError("00000", f"{message}, skipping", severity="NOTICE"))
    remove(context, roots, statement.cascade)
    return tag


def _drop_unknown(context: DdlContext, statement: ast.DropStmt, tag: str) -> str:
    """Kinds of objects that cannot be created here. None exists, so IF EXISTS does nothing."""
    word = UNKNOWN_KINDS[statement.kind]
    for parts in statement.names:
        message = f'{word} "{".".join(parts)}" does not exist'
        if not statement.if_exists:
            raise SqlError("42704", message)
        context.notice(SqlError("00000", f"{message}, skipping", severity="NOTICE"))
    return tag


def drop_from_table(context: DdlContext, statement: ast.DropFromTableStmt) -> str:
    """DROP POLICY, TRIGGER, RULE. Raises 42P01, 42704, 42501, and 2BP01 for the rule of a view."""
    tag = f"DROP {statement.kind.upper()}"
    if statement.kind == "trigger" and triggers.drop(context, statement) is not None:
        return tag
    relation = context.environment.find_relation(statement.relation.schema, statement.relation.name)
    schema = statement.relation.schema
    if relation is None:
        if schema is not None and not context.environment.schema_oid(schema) and statement.if_exists:
            message, sqlstate = f'schema "{schema}" does not exist', "3F000"
        else:
            message, sqlstate = f'relation "{names.show_relation(statement.relation)}" does not exist', "42P01"
    elif isinstance(relation, View) and statement.kind == "rule" and statement.name == "_RETURN":
        because = f"cannot drop rule _RETURN on view {relation.name} because view {relation.name} requires it"
        raise SqlError("2BP01", because, hint=f"You can drop view {relation.name} instead.")
    elif (statement.kind == "rule" and rules.drop_rule(context, relation, statement.name)) or (
        statement.kind == "policy"
        and isinstance(relation, Table)
        and policies.drop_policy(context, relation, statement.name)
    ):
        return tag
    else:
        word = "relation" if statement.if_exists or statement.kind == "rule" else "table"
        message, sqlstate = f'{statement.kind} "{statement.name}" for {word} "{relation.name}" does not exist', "42704"
    if not statement.if_exists:
        raise SqlError(sqlstate, message)
    context.notice(SqlError("00000", f"{message}, skipping", severity="NOTICE"))
    return tag


def _schema(context: DdlContext, parts: tuple[str, ...]) -> Schema | None:
    oid = context.catalog.schemas.get(parts[-1])
    if oid is None:
        return None
    found = context.catalog.get(oid)
    assert isinstance(found, Schema)
    if found.oid in (PG_CATALOG_OID, INFORMATION_SCHEMA_OID):
        message = f"cannot drop schema {found.name} because it is required by the database system"
        raise SqlError("2BP01", message)
    ownership.must_own(context, found)
    return found


_RELATIONS = ("table", "view", "materialized view", "index", "sequence", "foreign table")


def _relation(context: DdlContext, kind: str, parts: tuple[str, ...]) -> SchemaObject | None:
    found = context.environment.find_relation(parts[-2] if len(parts) > 1 else None, parts[-1])
    if found is None:
        return None
    if isinstance(found, VirtualTable) or found.schema in (PG_CATALOG_OID, INFORMATION_SCHEMA_OID):
        raise SqlError("42501", f'permission denied: "{found.name}" is a system catalog')
    shown = "materialized view" if kind == "matview" else kind
    if shown not in _RELATIONS:
        not_supported(f"DROP {kind.upper()}")
    word = word_of(found)
    if word != shown:
        hint = f"Use DROP {word.upper()} to remove {'an' if word == 'index' else 'a'} {word}."
        article = "an" if kind == "index" else "a"
        raise SqlError("42809", f'"{found.name}" is not {article} {shown}', hint=hint)
    ownership.must_own_to_drop(context, found)
    if isinstance(found, Table) and found.bound is not None:
        _lock_siblings(context, found)
    elif isinstance(found, Index):  # before the index: who has the table is not waited for by one who holds that
        context.lock_relation(found.table, "access exclusive")
        if context.catalog.table(found.table).partitioning is not None:
            for table in context.catalog.descendants(found.table):
                context.lock_relation(table.oid, "access exclusive")
    context.lock_relation(found.oid, "access exclusive")
    return context.catalog.get(found.oid)


def _refuse_part(context: DdlContext, item: SchemaObject) -> None:
    """2BP01 for a part of another object: the index of a constraint, an identity column's sequence."""
    if isinstance(item, Index):
        if item.parent is not None:
            above = context.catalog.index(item.parent)
            raise SqlError(
                "2BP01",
                f"cannot drop index {item.name} because index {above.name} requires it",
                hint=f"You can drop index {above.name} instead.",
            )
        table = context.catalog.table(item.table)
        for constraint in table.constraints:
            if constraint.index == item.oid and constraint.kind in "pux":
                owner = f"constraint {constraint.name} on table {table.name}"
                raise SqlError(
                    "2BP01",
                    f"cannot drop index {item.name} because {owner} requires it",
                    hint=f"You can drop {owner} instead.",
                )
    if isinstance(item, Sequence) and item.owned_by and item.owned_kind == "i":
        table = context.catalog.table(item.owned_by[0])
        column = table.column_by_number(item.owned_by[1])
        raise SqlError(
            "2BP01",
            f"cannot drop sequence {item.name} because column {column.name} of table {table.name} requires it",
            hint=f"You can drop column {column.name} of table {table.name} instead.",
        )
