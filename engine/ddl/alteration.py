"""ALTER TABLE. Commands change the definition one after another. The resulting work on rows is collected and done once.

no work             ADD COLUMN without default or with a constant one (a read adds it to older rows), DROP COLUMN
                    (a new layout without it), defaults, renames, owners, dropped constraints
check of every row  SET NOT NULL, ADD CHECK, ADD FOREIGN KEY                       (job ValidateConstraint)
new index           ADD UNIQUE                                                     (job BuildIndex)
rewrite of all rows ADD / DROP PRIMARY KEY (rows are clustered by it), ALTER TYPE, ADD COLUMN with a volatile
                    default or GENERATED, SET TABLESPACE (with its indexes)        (job RewriteTable)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from catalog import collations
from catalog.errors import SqlError, not_supported
from catalog.schema import Column, Constraint, Index, SchemaObject, Sequence, StatisticsObject, Table, View
from catalog.types import format_type, lookup, type_row
from catalog.types.base import TypeRef
from engine.ddl import ownership, partitions, policies, rules, statistics_objects, triggers
from engine.ddl.collations import column_collation
from engine.ddl.context import BuildIndex, DdlContext, RewriteTable, ValidateConstraint
from engine.ddl.drop import Removal
from engine.ddl.expressions import columns_used, default_text
from engine.ddl.foreign_tables import alter_options
from engine.ddl.index_columns import class_for
from engine.ddl.key_dependents import refuse_views_that_need
from engine.ddl.object_words import name_object
from engine.ddl.physical_order import clustered_index, mark
from engine.ddl.replica_identity import check_nullable, set_identity
from engine.ddl.rewrite_reasons import NEW_TYPE, NEW_VALUES, changes_values
from engine.ddl.rewrite_text import refuse_used_by_views
from engine.ddl.sequences import alter_sequence
from engine.ddl.storage_parameters import OF_TABLES, after_reset, after_set, check_parameters, without_toast
from engine.ddl.tables import TableBuilder, layout
from engine.ddl.tablespaces import place_of_table
from engine.execute.code import NotOnRowPath
from engine.execute.expressions import compile_expression
from engine.sql import ast, tree
from engine.sql.analyze import analyze_expression, resolve_type, runnable_expression
from engine.sql.analyze.domains import domain_default
from engine.sql.analyze.views import reads_column, stored_query
from engine.sql.parser import parse_expression
from engine.sql.tree_walk import is_volatile

_WITHOUT_EFFECT = (
    "set_statistics",
    "set_storage",
    "set_logged",
    "set_unlogged",
)


class Alteration:
    """One ALTER TABLE: the changed definition, and the work on rows."""

    def __init__(self, context: DdlContext, table: Table) -> None:
        self.context = context
        self.old = table
        self.builder = TableBuilder(context, table)
        self.conversions: dict[int, tree.Expr] = {}
        self.rewrite = False
        self.reasons = 0  # why PostgreSQL would write all rows anew, for event triggers
        self.moved = False
        self.new_layout = False
        self.validations: list[Constraint] = []
        self.dropped: list[Index | Sequence | StatisticsObject] = []
        self.empty = context.table_is_empty(table)

    @property
    def table(self) -> Table:
        return self.builder.table

    def run(self, commands: tuple[ast.AlterTableCmd, ...]) -> None:
        for command in commands:
            self.apply(command)
        self.finish()

    def apply(self, command: ast.AlterTableCmd) -> None:
        """Applies one command. `finish` writes the result."""
        handler = _COMMANDS.get(command.action)
        if handler is not None:
            handler(self, command)
        elif command.action not in _WITHOUT_EFFECT:
            not_supported(f"ALTER TABLE {command.action.upper().replace('_', ' ')}")

    def finish(self) -> None:
        """Writes the changed objects, and adds the jobs for the rows."""
        table = self.table
        if self.new_layout and not self.rewrite:
            version = table.layouts[-1].version + 1
            table = replace(table, layouts=(*table.layouts, layout(version, table.columns)))
        made = {index.oid: index for index in self.builder.indexes}
        if self.builder.sequences or any(self.context.catalog.get(oid) is None for oid in made):
            ownership.must_create_in(self.context, table.schema, ownership.user_role(self.context))
        changes: dict[int, SchemaObject | None] = {item.oid: item for item in self.builder.sequences}
        if self.rewrite:
            table = self._with_new_storage(table, made)
        if self.conversions:
            self.validations += [
                item
                for item in table.constraints
                if item.late and item not in self.validations and not self.conversions.keys().isdisjoint(item.columns)
            ]
        self.builder.table = table
        changes.update(made)
        changes.update({item.oid: None for item in self.dropped})
        for item in self.dropped:
            if not isinstance(item, StatisticsObject) and not (isinstance(item, Index) and item.primary):
                self.context.drop_storage(item.storage_id)
        changes[table.oid] = table
        self.context.change(changes)
        if self.reasons and table.partitioning is None:
            self.context.note_rewrite(table.oid, self.reasons)
        if self.empty:
            return
        if self.rewrite:
            self.context.add_job(RewriteTable(self.old, table, tuple(self.conversions.items())))
        else:
            for index in self.builder.indexes:
                if index.is_tree and index.ready and not index.primary:
                    self.context.add_job(BuildIndex(table, index))
        for constraint in self.validations:
            self.context.add_job(ValidateConstraint(table, constraint))

    def _with_new_storage(self, table: Table, made: dict[int, Index]) -> Table:
        """New storage ids for the table and every index. Only the newest layout remains."""
        self.context.drop_storage(self.old.storage_id)
        place = table.tablespace
        table = replace(table, storage_id=self.context.new_storage_id(place), layouts=(layout(0, table.columns),))
        columns = tuple(replace(column, missing=None) for column in table.columns)
        table = replace(table, columns=columns)
        for oid in table.indexes:
            index = made.get(oid) or self.context.catalog.index(oid)
            if oid not in made and not index.primary:
                self.context.drop_storage(index.storage_id)
            storage = table.storage_id if index.primary else self.context.new_storage_id(place)
            made[oid] = replace(index, storage_id=storage, tablespace=place)
        return table

    # ---- columns ------------------------------------------------------------------------------------------------

    def add_column(self, command: ast.AlterTableCmd) -> None:
        definition = command.definition
        assert isinstance(definition, ast.ColumnDef)
        if command.if_not_exists and self.table.column(definition.name) is not None:
            message = f'column "{definition.name}" of relation "{self.table.name}" already exists, skipping'
            self.context.notice(SqlError("42701", message, severity="NOTICE"))
            return
        known = len(self.builder.new_constraints)
        self.builder.add_column(definition)
        self.builder.add_column_constraints(definition)
        column = self.builder.column_named(definition.name)
        self.new_layout = True
        new = self.builder.new_constraints[known:]
        self.validations += [item for item in new if item.late or item.kind in "cf"]
        if any(item.kind == "p" and not item.late for item in new):
            self.rewrite = True
        self._fill(column)

    def foreign_options(self, command: ast.AlterTableCmd) -> None:
        self.builder.table = alter_options(self.context, self.table, command)

    def enable_trigger(self, command: ast.AlterTableCmd) -> None:
        self.builder.table = triggers.enable(self.context, self.table, command)

    disable_trigger = enable_trigger

    def enable_rule(self, command: ast.AlterTableCmd) -> None:
        self.builder.table = rules.enable(self.table, command)

    disable_rule = enable_rule

    def add_inherited_column(self, column: Column) -> None:
        """Adds a column that the table's parent has got."""
        table = self.table
        number = table.next_column
        copied = replace(
            column, number=number, identity="", sequence=None, missing=None, comment=None, acl=None, inherited=1,
            local=False,
        )  # fmt: skip
        self.builder.table = replace(table, columns=(*table.columns, copied), next_column=number + 1)
        self.new_layout = True
        self._fill(copied)

    def drop_inherited(self, constraint: Constraint) -> None:
        """Drops a constraint that the table's parent has lost."""
        self._take_constraint(constraint)

    def take_key(self, parent: Table, index: Index) -> Index:
        """The part of a partitioned table's primary key: the rows are rewritten in its order."""
        nullable = {column.number for column in self.table.columns if not column.not_null}
        part = partitions.new_part(self.builder, parent, index)
        numbers = [item.number for item in part.columns if item.number in nullable]
        self.rewrite = self.table.partitioning is None
        self.validations += [_not_null(self.table.column_by_number(number)) for number in numbers]
        self.finish()
        return part

    def _fill(self, column: Column) -> None:
        """The value of existing rows in a new column."""
        if column.generated is not None or column.identity or column.sequence:
            self.rewrite = True
            self.reasons |= NEW_VALUES
            return
        text = column.default
        if text is None and column.type.domain and not self.empty:
            text = domain_default(self.context.catalog, column.type) or "NULL"
        if text is None:
            if column.not_null and not self.empty:
                self.validations.append(_not_null(column))
            return
        kind = "DEFAULT expressions"
        expression = runnable_expression(parse_expression(text), self.context.environment, None, column.type, kind)
        if is_volatile(expression):
            self.rewrite = True
            self.reasons |= NEW_VALUES
            self.conversions[column.number] = expression
            return
        try:
            value = compile_expression(expression, self.context.exec_context().format)(self.context.exec_context(), ())
        except NotOnRowPath:
            self.rewrite = True
            self.conversions[column.number] = expression
            return
        if value is None:
            if column.not_null and not self.empty:
                self.validations.append(_not_null(column))
        else:
            text = lookup(column.type.oid).text_encoder()(value).decode()
            self.builder.change_column(replace(column, missing=text))

    def drop_column(self, command: ast.AlterTableCmd) -> None:
        name = command.name or ""
        column = self.table.column(name)
        if column is None and command.if_exists:
            message = f'column "{name}" of relation "{self.table.name}" does not exist, skipping'
            self.context.notice(SqlError("00000", message, severity="NOTICE"))
            return
        column = self.builder.column_named(name)
        for generated in self._drop_dependents(column, command.cascade):
            self.drop_column(ast.AlterTableCmd("drop_column", generated.name, cascade=True))
        number = column.number
        self.dropped += statistics_objects.using_column(self.context, self.table, number)
        table = self.table
        including = {oid for oid in table.indexes if number in self._index(oid).include}
        doomed = [item for item in table.constraints if number in item.columns or item.index in including]
        for constraint in doomed:
            self._lock_referenced(constraint)
            self._take_constraint(constraint)
        for oid in self.table.indexes:
            index = self._index(oid)
            if any(item.number == number for item in index.columns) or number in index.include:
                self._take_index(index)
        if column.sequence is not None:
            sequence = self.context.catalog.get(column.sequence)
            if isinstance(sequence, Sequence):
                self.dropped.append(sequence)
        table = self.table
        self.builder.table = replace(table, columns=tuple(item for item in table.columns if item.number != number))
        self.new_layout = True

    def _drop_dependents(self, column: Column, cascade: bool) -> list[Column]:
        """Drops what depends on a column, except for the generated columns that use it, which it returns. Raises 2BP01
        without CASCADE."""
        generated = [
            item
            for item in self.table.columns
            if item.generated is not None and column.number in self._used(item.generated, item.type)
        ]
        for oid in self.table.indexes:
            index = self._index(oid)
            texts = [item.expression for item in index.columns if item.expression] + [index.predicate or ""]
            if any(text and column.number in self._used(text, None) for text in texts):
                self._take_index(index)
        users = triggers.using_column(self.context, self.table, column.number)
        bound = policies.policies_with_column(self.context, self.table, column.number)
        referring: list[tuple[Table, Constraint]] = []
        removal = Removal(self.context, cascade)
        on = self._name_column(column)
        for item in generated:
            removal.take_shown((self._name_column(item),), on)
            referring += self._take_readers(removal, item)
        referring += self._take_readers(removal, column)
        removal.take_triggers([f"trigger {item.name} on table {self.table.name}" for item in users], on)
        for table, _ in bound:  # who drops one is waited for
            self.context.lock_relation(table.oid, "access exclusive")
        removal.take_policies(bound, on)
        if removal.is_empty:
            return []
        if users:
            kept_triggers = tuple(item for item in self.table.triggers if item not in users)
            self.builder.table = replace(self.table, triggers=kept_triggers)
        removal.carry_out([self.table], on)
        kept_policies = self.context.catalog.table(self.table.oid).policies
        self.builder.table = replace(self.table, policies=kept_policies)
        for other, constraint in referring:
            current = self.context.catalog.table(other.oid)
            kept = tuple(item for item in current.constraints if item.oid != constraint.oid)
            self.context.change({other.oid: replace(current, constraints=kept)})
        return generated

    def _name_column(self, column: Column) -> str:
        return f"column {column.name} of table {self.table.name}"

    def _take_readers(self, removal: Removal, column: Column) -> list[tuple[Table, Constraint]]:
        """Adds the views and foreign keys of other tables that use a column, and returns the foreign keys."""
        views = self._views_reading(column, f"dropping column {column.name} of {self.table.name}")
        referring = [found for found in self._referring(column) if found[0].oid != self.table.oid]
        for user in (*views, *(table for table, _ in referring)):  # who drops one is waited for
            self.context.lock_relation(user.oid, "access exclusive")
        shown = (f"constraint {item.name} on table {table.name}" for table, item in referring if item.parent is None)
        removal.take_shown(shown, self._name_column(column))
        removal.take([view for view in views if view.oid not in removal.gone], self._name_column(column))
        return referring

    def _views_reading(self, column: Column, what: str) -> list[View | Table]:
        """The views that use the column. Raises 0A000 for functions that use the table."""
        refuse_used_by_views(self.context, self.table.oid, what, renamed=True)
        return [
            item
            for item in self.context.catalog.objects.values()
            if isinstance(item, View | Table)
            and self.table.oid in item.depends_on
            and reads_column(stored_query(item, self.context.environment), self.table.oid, column.number)
        ]

    def _used(self, text: str, target: TypeRef | None) -> tuple[int, ...]:
        kind = "index expressions"
        return columns_used(
            analyze_expression(parse_expression(text), self.context.environment, self.old, target, kind)
        )

    def alter_type(self, command: ast.AlterTableCmd) -> None:
        column = self.builder.column_named(command.name or "")
        assert command.type is not None
        target = resolve_type(command.type, self.context.environment)
        source: ast.Node = command.definition or ast.ColumnRef((column.name,))
        kind = "transform expressions"
        try:
            expression = runnable_expression(source, self.context.environment, self.old, target, kind)
        except SqlError as error:
            if error.sqlstate != "42804" or command.definition is not None:
                raise
            message = (
                f'column "{column.name}" cannot be cast automatically to type {format_type(target.oid, target.typmod)}'
            )
            hint = f'You might need to specify "USING {column.name}::{format_type(target.oid, target.typmod)}".'
            raise SqlError("42804", message, hint=hint) from None
        collated = next((value for name, value in command.options if name == "collation"), ())
        collation = column_collation(self.context, collated, target, command.location)
        rules = collations.rules(self.context.catalog, collation)
        if rules is not None and not rules.deterministic and column.number in self.table.key_columns:
            not_supported("a nondeterministic collation for a column of a primary key that is there")
        changed = replace(column, type=target, collation=collation)
        if column.default is not None and not column.sequence:
            try:
                changed = replace(changed, default=default_text(self.context, parse_expression(column.default), target))
            except SqlError:
                message = (
                    f'default for column "{column.name}" cannot be cast automatically to type {format_type(target.oid)}'
                )
                raise SqlError("42804", message) from None
        self._refuse_type_of_used(column)
        self._lock_keys(column)
        self.builder.change_column(changed)
        for oid in self.table.indexes:
            self._retype_index(self._index(oid), column, changed)
        if (
            column.type.oid != target.oid
            or command.definition is not None
            or column.type.typmod != target.typmod
            or (target.domain not in (0, column.type.domain))
            or (collation != column.collation and self._in_keys(column))
        ):
            self.conversions[column.number] = expression
            self.rewrite = True
            self.reasons |= NEW_TYPE if changes_values(expression) else 0

    def _refuse_type_of_used(self, column: Column) -> None:
        """Raises 0A000 for a column whose type generated columns, views or policies have been analysed with."""
        for item in self.table.columns:
            if item.generated is not None and column.number in self._used(item.generated, item.type):
                detail = f'Column "{column.name}" is used by generated column "{item.name}".'
                raise SqlError("0A000", "cannot alter type of a column used by a generated column", detail=detail)
        if views := self._views_reading(column, f"altering the type of column {column.name}"):
            detail = f'rule _RETURN on {name_object(views[0])} depends on column "{column.name}"'
            raise SqlError("0A000", "cannot alter type of a column used by a view or rule", detail=detail)
        if bound := policies.policies_with_column(self.context, self.table, column.number):
            table, policy = bound[0]
            detail = f'{policies.show_policy(policy, table)} depends on column "{column.name}"'
            raise SqlError("0A000", "cannot alter type of a column used in a policy definition", detail=detail)

    def _lock_referenced(self, constraint: Constraint) -> None:
        """Locks the table that a foreign key refers to, as PostgreSQL does to change its triggers there. Does nothing
        for another constraint."""
        if constraint.kind == "f":
            assert constraint.references is not None
            self.context.lock_relation(constraint.references, "access exclusive")

    def _lock_keys(self, column: Column) -> None:
        """Locks the tables at the other ends of the foreign keys over a column. If the column's type changes,
        PostgreSQL drops these keys and adds them again."""
        for constraint in self.table.constraints:
            if column.number in constraint.columns:
                self._lock_referenced(constraint)
        for other, constraint in self._referring(column):
            if constraint.references != other.oid:
                self.context.lock_relation(other.oid, "access exclusive")

    def _referring(self, column: Column) -> list[tuple[Table, Constraint]]:
        """The foreign keys that refer to a column, with their tables."""
        return [
            (other, constraint)
            for other in self.context.catalog.tables()
            for constraint in other.constraints
            if constraint.kind == "f"
            and constraint.references == self.table.oid
            and column.number in constraint.referenced_columns
        ]

    def _in_keys(self, column: Column) -> bool:
        """Whether an index contains the column, so that its entries change."""
        indexes = map(self._index, self.table.indexes)
        return any(item.number == column.number or item.expression for index in indexes for item in index.columns)

    def _retype_index(self, index: Index, before: Column, column: Column) -> None:
        if any(item.number == column.number for item in index.columns):
            keys = tuple(
                replace(
                    item,
                    type=column.type,
                    collation=column.collation if item.collation == before.collation else item.collation,
                    operator_class=class_for(self.context, index.method, column.type.oid, item),
                )
                if item.number == column.number
                else item
                for item in index.columns
            )
            self.builder.indexes = [item for item in self.builder.indexes if item.oid != index.oid]
            self.builder.indexes.append(replace(index, columns=keys, collation_version=""))

    def set_default(self, command: ast.AlterTableCmd) -> None:
        column = self.builder.column_named(command.name or "")
        self._refuse_identity(column)
        if column.generated is not None:
            raise SqlError("42601", f'column "{column.name}" of relation "{self.table.name}" is a generated column')
        assert command.definition is not None
        text = default_text(self.context, command.definition, column.type)
        self.builder.change_column(replace(column, default=text))

    def drop_default(self, command: ast.AlterTableCmd) -> None:
        column = self.builder.column_named(command.name or "")
        self._refuse_identity(column)
        if column.generated is not None:
            message = f'column "{column.name}" of relation "{self.table.name}" is a generated column'
            hint = "Use ALTER TABLE ... ALTER COLUMN ... DROP EXPRESSION instead."
            raise SqlError("42601", message, hint=hint)
        self.builder.change_column(replace(column, default=None))

    def _refuse_identity(self, column: Column) -> None:
        if column.identity:
            message = f'column "{column.name}" of relation "{self.table.name}" is an identity column'
            raise SqlError("42601", message)

    def set_not_null(self, command: ast.AlterTableCmd) -> None:
        column = self.builder.column_named(command.name or "")
        if not column.not_null:
            self.builder.change_column(replace(column, not_null=True))
            self.validations.append(_not_null(column))

    def drop_not_null(self, command: ast.AlterTableCmd) -> None:
        column = self.builder.column_named(command.name or "")
        if column.number in self.table.key_columns:
            raise SqlError("42P16", f'column "{column.name}" is in a primary key')
        if column.identity:
            message = f'column "{column.name}" of relation "{self.table.name}" is an identity column'
            raise SqlError("42601", message)
        check_nullable(self.context, self.table, column.number)
        self.builder.change_column(replace(column, not_null=False))

    def add_identity(self, command: ast.AlterTableCmd) -> None:
        column = self.builder.column_named(command.name or "")
        if not column.not_null:
            place = f'column "{column.name}" of relation "{self.table.name}"'
            message = f"{place} must be declared NOT NULL before identity can be added"
            raise SqlError("55000", message)
        if column.identity:
            message = f'column "{column.name}" of relation "{self.table.name}" is already an identity column'
            raise SqlError("55000", message)
        assert isinstance(command.definition, ast.ConstraintDef)
        self.builder.change_column(self.builder.identity(column, command.definition))

    def set_identity(self, command: ast.AlterTableCmd) -> None:
        column = self._identity_column(command)
        options = dict(command.options)
        kind = options.pop("generated", None)
        if kind is not None:
            self.builder.change_column(replace(column, identity=str(kind)))
        if options and column.sequence is not None:
            sequence = self.context.catalog.get(column.sequence)
            assert isinstance(sequence, Sequence)
            alter_sequence(self.context, sequence, tuple(options.items()))

    def drop_identity(self, command: ast.AlterTableCmd) -> None:
        column = self.builder.column_named(command.name or "")
        if not column.identity and command.if_exists:
            return
        column = self._identity_column(command)
        sequence = self.context.catalog.get(column.sequence or 0)
        if isinstance(sequence, Sequence):
            self.dropped.append(sequence)
        self.builder.change_column(replace(column, identity="", sequence=None))

    def _identity_column(self, command: ast.AlterTableCmd) -> Column:
        column = self.builder.column_named(command.name or "")
        if not column.identity:
            message = f'column "{column.name}" of relation "{self.table.name}" is not an identity column'
            raise SqlError("55000", message)
        return column

    def drop_expression(self, command: ast.AlterTableCmd) -> None:
        column = self.builder.column_named(command.name or "")
        if column.generated is None and not command.if_exists:
            message = f'column "{column.name}" of relation "{self.table.name}" is not a stored generated column'
            raise SqlError("55000", message)
        self.builder.change_column(replace(column, generated=None))

    # ---- storage parameters ---------------------------------------------------------------------------------------

    def set_options(self, command: ast.AlterTableCmd) -> None:
        if command.name is None:  # a column's have no effect
            toasted = any((row := type_row(column.type.oid)) and row.length < 0 for column in self.table.columns)
            options = command.options if toasted else without_toast(command.options)
            check_parameters(options, OF_TABLES if self.table.partitioning is None else {})
            self.builder.table = replace(self.table, options=after_set(self.table.options, options))

    def reset_options(self, command: ast.AlterTableCmd) -> None:
        if any(value for _, value in command.options):
            raise SqlError("42601", "RESET must not include values for parameters")
        if command.name is None:
            names = [name for name, _ in command.options]
            self.builder.table = replace(self.table, options=after_reset(self.table.options, names))

    # ---- constraints --------------------------------------------------------------------------------------------

    def add_constraint(self, command: ast.AlterTableCmd) -> None:
        definition = command.definition
        assert isinstance(definition, ast.ConstraintDef)
        nullable = {column.number for column in self.table.columns if not column.not_null}
        made = self.builder.add_constraint(definition)
        if made.kind == "p":
            self.rewrite |= not made.late
            self.validations += [_not_null(self.table.column_by_number(n)) for n in made.columns if n in nullable]
        if made.late or (made.kind in "cf" and made.validated):
            self.validations.append(made)

    def drop_constraint(self, command: ast.AlterTableCmd) -> None:
        found = self._constraint(command.name or "", command.if_exists)
        if found is None:
            return
        self._lock_referenced(found)
        if found.kind == "p":
            refuse_views_that_need(self.context, self.table, found, command.cascade)
        referring = [
            (other, constraint)
            for other in self.context.catalog.tables()
            for constraint in other.constraints
            if constraint.kind == "f"
            and found.index is not None
            and found.kind in "pux"
            and constraint.index == found.index
        ]
        for other, _ in referring:  # who drops one is waited for
            if other.oid != self.table.oid:
                self.context.lock_relation(other.oid, "access exclusive")
        if referring and not command.cascade:
            what = f"constraint {found.name} on table {self.table.name}"
            raise SqlError(
                "2BP01",
                f"cannot drop {what} because other objects depend on it",
                detail="\n".join(
                    f"constraint {c.name} on table {t.name} depends on index {found.name}" for t, c in referring
                ),
                hint="Use DROP ... CASCADE to drop the dependent objects too.",
            )
        for other, constraint in referring:
            if other.oid == self.table.oid:
                self._take_constraint(constraint)
                continue
            current = self.context.catalog.table(other.oid)
            kept = tuple(item for item in current.constraints if item.oid != constraint.oid)
            self.context.change({other.oid: replace(current, constraints=kept)})
        self._take_constraint(found)

    def _take_constraint(self, constraint: Constraint) -> None:
        table = self.table
        kept = tuple(item for item in table.constraints if item.oid != constraint.oid)
        self.builder.table = replace(table, constraints=kept)
        if constraint.kind == "p" and not constraint.late:
            self.builder.table = replace(self.builder.table, key_columns=())
            self.rewrite = True
        if constraint.kind in "pux" and constraint.index is not None:
            self._take_index(self._index(constraint.index))

    def _take_index(self, index: Index) -> None:
        if index.oid not in self.table.indexes:
            return
        table = self.table
        self.builder.table = replace(table, indexes=tuple(oid for oid in table.indexes if oid != index.oid))
        self.builder.indexes = [item for item in self.builder.indexes if item.oid != index.oid]
        self.dropped.append(index)

    def _index(self, oid: int) -> Index:
        for index in self.builder.indexes:
            if index.oid == oid:
                return index
        return self.context.catalog.index(oid)

    def _constraint(self, name: str, if_exists: bool) -> Constraint | None:
        for constraint in self.table.constraints:
            if constraint.name == name:
                return constraint
        message = f'constraint "{name}" of relation "{self.table.name}" does not exist'
        if not if_exists:
            raise SqlError("42704", message)
        self.context.notice(SqlError("00000", f"{message}, skipping", severity="NOTICE"))
        return None

    def validate_constraint(self, command: ast.AlterTableCmd) -> None:
        found = self._constraint(command.name or "", False)
        assert found is not None
        if found.references is not None:
            self.context.lock_relation(found.references, "row share")
        if not found.validated:
            done = replace(found, validated=True)
            constraints = tuple(done if item.oid == found.oid else item for item in self.table.constraints)
            self.builder.table = replace(self.table, constraints=constraints)
            self.validations.append(done)

    # ---- the rest -----------------------------------------------------------------------------------------------

    def owner(self, command: ast.AlterTableCmd) -> None:
        role = ownership.new_owner(self.context, self.table, command.value or "")
        changed = ownership.with_owner(self.context, self.table, role)
        assert isinstance(changed, Table)
        self.builder.table = changed
        for item in list(self.context.catalog.objects.values()):
            if (isinstance(item, Index) and item.table == self.table.oid) or (
                isinstance(item, Sequence) and item.owned_by and item.owned_by[0] == self.table.oid
            ):
                self.context.change({item.oid: replace(item, owner=role.oid)})

    def row_security(self, command: ast.AlterTableCmd) -> None:
        """ENABLE, DISABLE, FORCE or NO FORCE ROW LEVEL SECURITY. Children keep their own state."""
        on = command.action in ("enable_row_security", "force_row_security")
        if "force" in command.action:
            self.builder.table = replace(self.table, force_row_security=on)
        else:
            self.builder.table = replace(self.table, row_security=on)

    def tablespace(self, command: ast.AlterTableCmd) -> None:
        if self.moved:
            raise SqlError("42601", "cannot have multiple SET TABLESPACE subcommands")
        self.moved = True
        oid = place_of_table(self.context, command.value)
        if oid != self.table.tablespace:
            self.builder.table = replace(self.table, tablespace=oid)
            self.rewrite = True

    def cluster(self, command: ast.AlterTableCmd) -> None:
        """CLUSTER ON, and SET WITHOUT CLUSTER without a name."""
        chosen = None if command.name is None else clustered_index(self.context, self.table, command.name)
        mark(self.context, self.table, chosen)

    def replica_identity(self, command: ast.AlterTableCmd) -> None:
        self.builder.table = set_identity(self.context, self.table, command.value or "", command.name)


def _not_null(column: Column) -> Constraint:
    return Constraint(0, f"{column.name}_not_null", "n", (column.number,))


_COMMAND_NAMES = (
    "add_column", "drop_column", "alter_type", "set_default", "drop_default", "set_not_null", "drop_not_null",
    "add_identity", "set_identity", "drop_identity", "drop_expression", "add_constraint", "drop_constraint",
    "validate_constraint", "owner", "tablespace", "set_options", "reset_options", "enable_trigger", "disable_trigger",
    "enable_rule", "disable_rule", "cluster", "replica_identity", "foreign_options",
)  # fmt: skip
ROW_SECURITY = {
    "enable_row_security": "ENABLE ROW SECURITY", "disable_row_security": "DISABLE ROW SECURITY",
    "force_row_security": "FORCE ROW SECURITY", "no_force_row_security": "NO FORCE ROW SECURITY",
}  # fmt: skip
_COMMANDS: dict[str, Callable[[Alteration, Any], None]] = {
    **{name: getattr(Alteration, name) for name in _COMMAND_NAMES},
    **dict.fromkeys(ROW_SECURITY, Alteration.row_security),
}
