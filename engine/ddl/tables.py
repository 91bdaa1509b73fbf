"""CREATE TABLE, and the builder of table definitions.

A `TableBuilder` takes columns and constraints one by one and returns the resulting objects: the table, the indexes of
its keys, the sequences of its serial and identity columns. ALTER TABLE starts a builder from a table.

Rows are clustered by primary key, so a primary key's index shares the table's storage id and has no entries of its own.
"""

from __future__ import annotations

from dataclasses import replace

from catalog import collations
from catalog.errors import SqlError, not_supported
from catalog.schema import (
    Column,
    Constraint,
    Index,
    IndexColumn,
    Layout,
    SchemaObject,
    Sequence,
    StatisticsObject,
    Table,
    Tablespace,
)
from catalog.types import format_type, lookup
from catalog.types.base import TypeRef
from catalog.types.oids import INTEGERS, UNDECLARED
from engine.ddl import inheritance, names, partitions, triggers
from engine.ddl.collations import column_collation
from engine.ddl.context import DdlContext
from engine.ddl.exclusion import exclusion
from engine.ddl.expressions import columns_used, from_generated, stored_check, stored_default, stored_generated
from engine.ddl.foreign_keys import foreign_key
from engine.ddl.index_columns import must_have_class
from engine.ddl.like import copy_columns, copy_indexes, copy_statistics
from engine.ddl.sequences import new_sequence
from engine.ddl.storage_parameters import OF_TABLES, after_set, check_parameters, without_oids
from engine.ddl.tablespaces import place_of_index, place_of_table
from engine.sql import ast
from engine.sql.analyze import analyze_expression, resolve_type
from engine.sql.analyze.errors import fail
from engine.sql.parser import parse_expression

SERIAL_TYPES = {
    "serial": 23, "serial4": 23, "bigserial": 20, "serial8": 20, "smallserial": 21, "serial2": 21,
}  # fmt: skip
MAX_COLUMNS = 1600


SYSTEM_COLUMNS = ("tableoid", "cmax", "xmax", "cmin", "xmin", "ctid")


def refuse_system_name(name: str) -> None:
    """42701 for the name of a column that every table of PostgreSQL has."""
    if name in SYSTEM_COLUMNS:
        raise SqlError("42701", f'column name "{name}" conflicts with a system column name')


class TableBuilder:
    """Collects a definition. `table` is the state so far, `indexes` and `sequences` are new objects."""

    def __init__(self, context: DdlContext, table: Table) -> None:
        self.context = context
        self.table = table
        self.indexes: list[Index] = []
        self.statistics: list[StatisticsObject] = []
        self.sequences: list[Sequence] = []
        self.new_constraints: list[Constraint] = []
        self.conflicting_defaults: set[str] = set()  # inherited columns

    # ---- columns ------------------------------------------------------------------------------------------------

    def add_column(self, definition: ast.ColumnDef) -> Column:
        """Adds a column without its constraints (`add_column_constraints` follows, after all columns)."""
        table = self.table
        if table.column(definition.name) is not None:
            raise SqlError("42701", f'column "{definition.name}" of relation "{table.name}" already exists')
        refuse_system_name(definition.name)
        if len(table.columns) >= MAX_COLUMNS:
            raise SqlError("54011", f"tables can have at most {MAX_COLUMNS} columns")
        number = table.next_column
        column = self._serial(definition, number) or Column(number, definition.name, self.type_of(definition))
        collation = column_collation(self.context, definition.collation, column.type, definition.location)
        column = replace(column, collation=collation)
        self.table = replace(table, columns=(*table.columns, column), next_column=number + 1)
        return column

    def type_of(self, definition: ast.ColumnDef) -> TypeRef:
        """A column's type. Raises 42704, 42P16."""
        assert definition.type is not None
        found = resolve_type(definition.type, self.context.environment)
        lookup(found.oid)
        if found.oid in UNDECLARED or lookup(found.oid).category == "P":
            raise SqlError("42P16", f'column "{definition.name}" has pseudo-type {format_type(found.oid)}')
        return found

    def _serial(self, definition: ast.ColumnDef, number: int) -> Column | None:
        assert definition.type is not None
        parts = definition.type.names
        oid = SERIAL_TYPES.get(parts[0]) if len(parts) == 1 else None
        if oid is None:
            return None
        sequence = self._owned_sequence(definition.name, number, TypeRef(oid), (), "a")
        column = f"{self.table.name}.{definition.name}"
        self._tell(f'{self._command} will create implicit sequence "{sequence.name}" for serial column "{column}"')
        schema = self.context.catalog.schema_name(sequence.schema)
        default = f"nextval('{quote(schema)}.{quote(sequence.name)}'::regclass)"
        return Column(number, definition.name, TypeRef(oid), True, default, sequence=sequence.oid)

    @property
    def is_new(self) -> bool:
        """Whether the table is being created, so that it has no rows, and no constraint that is NOT VALID."""
        return self.context.catalog.get(self.table.oid) is None

    @property
    def _command(self) -> str:
        return "CREATE TABLE" if self.is_new else "ALTER TABLE"

    def _tell(self, message: str) -> None:
        """Sends a message that PostgreSQL sends at DEBUG1."""
        self.context.notice(SqlError("00000", message, severity="DEBUG"))

    def _owned_sequence(
        self, column: str, number: int, type_: TypeRef, options: tuple[tuple[str, object], ...], kind: str
    ) -> Sequence:
        taken = [sequence.name for sequence in self.sequences]
        name = names.free_relation_name(self.context, self.table.schema, self.table.name, column, "seq", taken)
        sequence = new_sequence(self.context, self.table.schema, name, type_, options)
        sequence = replace(sequence, owned_by=(self.table.oid, number), owned_kind=kind, owner=self.table.owner)
        self.sequences.append(sequence)
        return sequence

    def change_column(self, column: Column) -> None:
        """Replaces the column with the same number."""
        columns = tuple(column if item.number == column.number else item for item in self.table.columns)
        self.table = replace(self.table, columns=columns)

    def column_named(self, name: str) -> Column:
        """Raises 42703."""
        column = self.table.column(name)
        if column is None:
            raise SqlError("42703", f'column "{name}" of relation "{self.table.name}" does not exist')
        return column

    # ---- constraints --------------------------------------------------------------------------------------------

    def add_column_constraints(self, definition: ast.ColumnDef) -> None:
        """Adds the constraints in a column's definition."""
        for constraint in definition.constraints:
            column = self.column_named(definition.name)
            if constraint.kind in ("primary", "unique", "foreign", "check"):
                self.add_constraint(replace(constraint, columns=constraint.columns or (column.name,)), column)
            else:
                self.change_column(self._with_property(column, constraint))

    def _with_property(self, column: Column, constraint: ast.ConstraintDef) -> Column:
        kind = constraint.kind
        if kind == "not_null":
            return replace(column, not_null=True)
        if kind == "null":
            if column.not_null:
                message = (
                    f'conflicting NULL/NOT NULL declarations for column "{column.name}" of table "{self.table.name}"'
                )
                raise SqlError("42601", message)
            return column
        if kind == "default":
            if column.default is not None or column.identity:
                message = f'multiple default values specified for column "{column.name}" of table "{self.table.name}"'
                raise SqlError("42601", message)
            self._refuse_two_sources(column, default=True)
            return replace(column, default=stored_default(self.context, constraint, column.type))
        if kind == "identity":
            return self.identity(column, constraint)
        if kind == "generated":
            self._refuse_two_sources(column, generated=True)
            self._refuse_use(column)
            made = stored_generated(self.context, self.table, constraint, column.type, column.number)
            return replace(column, generated=made)
        not_supported(f"{kind} constraints")

    def _refuse_two_sources(
        self, column: Column, default: bool = False, identity: bool = False, generated: bool = False
    ) -> None:
        """42601 for a generated column that also has a default or an identity."""
        if not (generated or column.generated is not None):
            return
        where = f'specified for column "{column.name}" of table "{self.table.name}"'
        if identity or column.identity:
            raise SqlError("42601", f"both identity and generation expression {where}")
        if default or column.default is not None:
            raise SqlError("42601", f"both default and generation expression {where}")
        if column.generated is not None:
            raise SqlError("42601", f"multiple generation clauses {where}")

    def _refuse_use(self, column: Column) -> None:
        """42P17 for a new generated column that another generated column uses."""
        for other in self.table.columns:
            if other.generated is None:
                continue
            value = analyze_expression(
                parse_expression(other.generated), self.context.environment, self.table, None,
                "column generation expressions",
            )  # fmt: skip
            if column.number in columns_used(value):
                raise from_generated(column.name)

    def identity(self, column: Column, constraint: ast.ConstraintDef) -> Column:
        """GENERATED ... AS IDENTITY. Raises 22023 for a type that is not an integer."""
        if column.type.oid not in INTEGERS:
            raise SqlError("22023", "identity column type must be smallint, integer, or bigint")
        if column.identity:
            message = f'multiple identity specifications for column "{column.name}" of table "{self.table.name}"'
            raise SqlError("42601", message)
        self._refuse_two_sources(column, identity=True)
        if column.default is not None:
            message = f'both default and identity specified for column "{column.name}" of table "{self.table.name}"'
            raise SqlError("42601", message)
        options = constraint.sequence_options
        sequence = self._owned_sequence(column.name, column.number, column.type, options, "i")
        return replace(column, identity=constraint.identity, not_null=True, sequence=sequence.oid)

    def add_constraint(self, constraint: ast.ConstraintDef, column: Column | None = None) -> Constraint:
        """Adds a table constraint. Raises 42710 for a name in use, and the errors of each kind."""
        known = next((item for item in self.table.constraints if item.name == constraint.name), None)
        if constraint.name and known is not None:
            mergeable = known.kind == "c" and known.inherited and not known.local and self.table.bound is None
            if mergeable and constraint.kind == "check":
                made = self._check(constraint, column)
                if made.check == known.check:
                    return inheritance.merge_own(self, known, made)
            message = f'constraint "{constraint.name}" for relation "{self.table.name}" already exists'
            raise SqlError("42710", message)
        if constraint.kind in ("primary", "unique"):
            made = self._key(constraint)
        elif constraint.kind == "exclusion":
            made = exclusion(self, constraint)
        elif constraint.kind == "check":
            made = self._check(constraint, column)
        elif constraint.kind == "foreign":
            made = foreign_key(self, constraint)
        else:
            not_supported(f"{constraint.kind} constraints")
        self.table = replace(self.table, constraints=(*self.table.constraints, made))
        self.new_constraints.append(made)
        return made

    def _check(self, constraint: ast.ConstraintDef, column: Column | None) -> Constraint:
        if constraint.no_inherit and self.table.partitioning is not None:
            raise SqlError("42P16", f'cannot add NO INHERIT constraint to partitioned table "{self.table.name}"')
        text, columns = stored_check(self.context, self.table, constraint)
        named = column.name if column else (self.table.column_by_number(columns[0]).name if len(columns) == 1 else "")
        name = constraint.name or names.free_constraint_name(self.table.constraints, self.table.name, named, "check")
        return Constraint(
            self.context.new_oid(), name, "c", columns, check=text,
            validated=not constraint.not_valid or self.is_new,
            no_inherit=constraint.no_inherit,
        )  # fmt: skip

    def _key(self, constraint: ast.ConstraintDef) -> Constraint:
        primary = constraint.kind == "primary"
        if primary and any(item.kind == "p" for item in self.table.constraints):
            raise SqlError("42P16", f'multiple primary keys for table "{self.table.name}" are not allowed')
        place_of_index(self.context, constraint.tablespace, self.table)
        if constraint.using_index is not None:
            if self.table.partitioning is not None:
                message = "ALTER TABLE / ADD CONSTRAINT USING INDEX is not supported on partitioned tables"
                raise SqlError("0A000", message)
            if constraint.deferrable:
                not_supported("a deferrable constraint USING INDEX")
            return self._key_from_index(constraint, primary)
        numbers = self._key_columns(constraint)
        partitions.check_unique_key(self.table, "PRIMARY KEY" if primary else "UNIQUE", numbers)
        if primary:
            for number in numbers:
                self.change_column(replace(self.table.column_by_number(number), not_null=True))
        second = "" if primary else "_".join([*constraint.columns, *constraint.include])
        taken = [index.name for index in self.indexes]
        name = constraint.name or names.free_relation_name(
            self.context, self.table.schema, self.table.name, second, "pkey" if primary else "key", taken
        )
        if constraint.name:
            names.refuse_if_taken(self.context, self.table.schema, name, False)
        what = f"{'ADD ' if self._command == 'ALTER TABLE' else ''}{'PRIMARY KEY' if primary else 'UNIQUE'}"
        self._tell(f'{self._command} / {what} will create implicit index "{name}" for table "{self.table.name}"')
        keys = [self.table.column_by_number(number) for number in numbers]
        columns = tuple(IndexColumn(item.number, collation=item.collation, type=item.type) for item in keys)
        aside = any(collations.rules(self.context.catalog, item.collation) for item in keys)
        clustered = primary and not constraint.deferrable and not aside
        kind = "p" if primary else "u"
        index = Index(
            self.context.new_oid(),
            self.table.schema,
            name,
            self.table.oid,
            columns,
            self.table.storage_id if clustered else self.context.new_storage_id(self.table.tablespace),
            unique=not constraint.deferrable,
            primary=clustered,
            late=kind if constraint.deferrable else "",
            aside=primary and aside and not constraint.deferrable,
            nulls_not_distinct=constraint.nulls_not_distinct,
            include=tuple(self.column_named(item).number for item in constraint.include),
            owner=self.table.owner,
            tablespace=self.table.tablespace,
        )
        self.add_index(index)
        if clustered:
            self.table = replace(self.table, key_columns=numbers)
        return Constraint(
            self.context.new_oid(), name, kind, numbers, index=index.oid, deferrable=constraint.deferrable,
            initially_deferred=constraint.initially_deferred,
        )  # fmt: skip

    def add_index(self, index: Index) -> None:
        """Adds the index of a constraint."""
        self.indexes.append(index)
        self.table = replace(self.table, indexes=(*self.table.indexes, index.oid))

    def _key_columns(self, constraint: ast.ConstraintDef) -> tuple[int, ...]:
        numbers: list[int] = []
        for name in constraint.columns:
            column = self.table.column(name)
            if column is None:
                raise SqlError("42703", f'column "{name}" named in key does not exist')
            if column.number in numbers:
                word = "primary key" if constraint.kind == "primary" else "unique"
                raise SqlError("42701", f'column "{name}" appears twice in {word} constraint')
            must_have_order(self.context, column)
            numbers.append(column.number)
        return tuple(numbers)

    def _key_from_index(self, constraint: ast.ConstraintDef, primary: bool) -> Constraint:
        """ADD PRIMARY KEY | UNIQUE USING INDEX: the index becomes the constraint's, and gets its name. Raises 42704,
        42809 for an index that differs from the one that the constraint would create."""
        found = self.context.catalog.relation(self.table.schema, constraint.using_index or "")
        if not isinstance(found, Index):
            fail("42704", f'index "{constraint.using_index}" does not exist', constraint)
        if found.table != self.table.oid:
            fail("42809", f'index "{found.name}" does not belong to table "{self.table.name}"', constraint)
        if any(item.index == found.oid for item in self.table.constraints):
            fail("55000", f'index "{found.name}" is already associated with a constraint', constraint)
        if not (found.ready and found.valid):
            fail("55000", f'index "{found.name}" is not valid', constraint)
        _check_like_constraint(found, constraint)
        numbers = tuple(item.number for item in found.columns)
        name = constraint.name or found.name
        if name != found.name:
            names.refuse_if_taken(self.context, self.table.schema, name, False)
            text = f'ALTER TABLE / ADD CONSTRAINT USING INDEX will rename index "{found.name}" to "{name}"'
            self.context.notice(SqlError("00000", text, severity="NOTICE"))
            found = replace(found, name=name)
        if primary:
            for number in numbers:
                self.change_column(replace(self.table.column_by_number(number), not_null=True))
            if any(collations.rules(self.context.catalog, item.collation) for item in found.columns):
                found = replace(found, aside=True)
            else:
                self.context.drop_storage(found.storage_id)
                found = replace(found, primary=True, storage_id=self.table.storage_id)
                self.table = replace(self.table, key_columns=numbers)
        self.indexes.append(found)
        return Constraint(self.context.new_oid(), name, "p" if primary else "u", numbers, index=found.oid)

    # ---- the result -----------------------------------------------------------------------------------------------

    def objects(self) -> dict[int, SchemaObject | None]:
        """All objects to write."""
        found: dict[int, SchemaObject | None] = {self.table.oid: self.table}
        found.update({item.oid: item for item in self.indexes})
        found.update({item.oid: item for item in self.sequences})
        found.update({item.oid: item for item in self.statistics})
        return found


def _check_like_constraint(index: Index, constraint: ast.ConstraintDef) -> None:
    """42809 for an index that differs from the constraint's own."""
    complaint = ""
    if not index.unique:
        complaint = f'"{index.name}" is not a unique index'
    elif any(item.number == 0 for item in index.columns):
        complaint = f'index "{index.name}" contains expressions'
    elif index.predicate is not None:
        complaint = f'"{index.name}" is a partial index'
    for number, item in enumerate(index.columns, 1):
        if not complaint and (item.descending or item.nulls_first or item.operator_class):
            complaint = f'index "{index.name}" column number {number} does not have default sorting behavior'
    if complaint:
        detail = "Cannot create a primary key or unique constraint using such an index."
        fail("42809", complaint, constraint, detail=detail)


def layout(version: int, columns: tuple[Column, ...]) -> Layout:
    """The row layout of these columns."""
    return Layout(version, tuple(column.number for column in columns), tuple(column.type for column in columns))


def must_have_order(context: DdlContext, column: Column) -> None:
    """42704 for a column type without an order for btree indexes."""
    must_have_class(context, "btree", column.type.oid)


def quote(name: str) -> str:
    """An identifier for stored SQL text, quoted where necessary (inside a string literal with doubled quotes)."""
    if name.isidentifier() and name == name.lower() and name.isascii():
        return name
    return '"' + name.replace('"', '""').replace("'", "''") + '"'


def create_table(context: DdlContext, statement: ast.CreateStmt) -> str:
    """CREATE TABLE, with its parents and as a partition. Raises 42P07, 42701, 42P16, and the errors of its parts."""
    if statement.on_commit and statement.persistence != "t" and statement.relation.schema != "pg_temp":
        raise SqlError("42P16", "ON COMMIT can only be used on temporary tables")
    if statement.access_method not in (None, "heap"):
        raise SqlError("42704", f'access method "{statement.access_method}" does not exist')
    relation = statement.relation
    persistence = "t" if statement.persistence == "t" else "p"
    try:
        schema = context.creation_schema(relation, persistence)
    except SqlError as error:
        if error.sqlstate == "3F000" and relation.location >= 0:
            error.position = relation.location + 1
        raise
    if names.refuse_if_taken(context, schema.oid, relation.name, statement.if_not_exists, has_row_type=True):
        return "CREATE TABLE"
    if statement.partition_by is not None and statement.inherits and statement.bound is None:
        raise SqlError("42P17", "cannot create partitioned table as inheritance child")
    parents = inheritance.parents_named(context, statement.inherits, persistence, partition=statement.bound is not None)
    options = without_oids(statement.options)
    check_parameters(options, OF_TABLES if statement.partition_by is None else {})
    wanted = statement.tablespace
    if wanted is None and statement.bound is not None:
        place = context.catalog.get(parents[0].tablespace)
        wanted = place.name if isinstance(place, Tablespace) else None
    tablespace = place_of_table(context, wanted, persistence)
    table = Table(
        context.new_oid(),
        schema.oid,
        relation.name,
        (),
        context.new_storage_id(tablespace),
        owner=context.user_oid,
        tablespace=tablespace,
        persistence=persistence,
        options=after_set((), options),
        on_commit=statement.on_commit if statement.on_commit in ("delete", "drop") else "",
        parents=tuple(parent.oid for parent in parents),
    )
    builder = TableBuilder(context, table)
    inheritance.inherit_columns(builder, parents)
    _add_columns(builder, statement.elements)
    inheritance.refuse_conflicting_defaults(builder)
    if statement.partition_by is not None:
        builder.table = replace(
            builder.table, partitioning=partitions.partitioning(context, builder.table, statement.partition_by)
        )
    if statement.bound is not None:
        bound = partitions.bound_of(context, parents[0], relation.name, statement.bound)
        partitions.check_default(context, parents[0], bound)
        builder.table = replace(builder.table, bound=bound)
    for like in statement.elements:
        if isinstance(like, ast.LikeClause):
            copy_indexes(builder, like)
            copy_statistics(builder, like)
    for part in _keys_first(statement.elements):
        if isinstance(part, ast.ColumnDef):
            builder.add_column_constraints(part)
        elif isinstance(part, ast.ConstraintDef):
            builder.add_constraint(part)
    if statement.partition_by is not None:
        partitions.refuse_generated(context, builder.table, statement.partition_by)
    inheritance.inherit_checks(builder, parents)
    if statement.bound is not None:
        partitions.inherit_keys(builder, parents[0])
    builder.table = replace(builder.table, layouts=(layout(0, builder.table.columns),))
    context.change(builder.objects())
    if statement.bound is not None:
        triggers.copy_all(context, parents[0], builder.table)
    return "CREATE TABLE"


def _add_columns(builder: TableBuilder, elements: tuple[ast.Node, ...]) -> None:
    """Adds the columns of the statement, and those of LIKE. Raises 42701, 42703, and errors of their types."""
    written: set[str] = set()
    for element in elements:
        if isinstance(element, ast.ColumnDef):
            if element.name in written:
                raise SqlError("42701", f'column "{element.name}" specified more than once')
            written.add(element.name)
            if element.foreign_options:
                raise SqlError("42809", f'"{builder.table.name}" is not a foreign table')
            if inheritance.merge_column(builder, element):
                continue
            if element.type is None:
                raise SqlError("42703", f'column "{element.name}" does not exist')
            if builder.table.column(element.name) is not None:
                raise SqlError("42701", f'column "{element.name}" specified more than once')
            builder.add_column(element)
        elif isinstance(element, ast.LikeClause):
            copy_columns(builder, element)


def _keys_first(elements: tuple[ast.Node, ...]) -> list[ast.Node]:
    """Columns first, then keys, then foreign keys, because a table may refer to its own key at any place."""

    def rank(element: ast.Node) -> int:
        if isinstance(element, ast.ConstraintDef):
            return {"primary": 1, "unique": 1, "exclusion": 1, "check": 2}.get(element.kind, 3)
        return 0

    ordered: list[ast.Node] = []
    for element in elements:
        if isinstance(element, ast.ColumnDef):
            foreign = tuple(item for item in element.constraints if item.kind == "foreign")
            ordered.append(replace(element, constraints=tuple(i for i in element.constraints if i.kind != "foreign")))
            ordered += [replace(item, columns=item.columns or (element.name,)) for item in foreign]
        else:
            ordered.append(element)
    return sorted(ordered, key=rank)
