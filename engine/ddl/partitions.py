"""PARTITION BY, bounds, ATTACH and DETACH PARTITION, and the parts of a table's indexes in its partitions.

An index of a partitioned table has no entries of its own. It represents one index in each partition (`Index.parent`).
Its primary key, unique and foreign key constraints work in the same way (`Constraint.parent`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from catalog import collations
from catalog.errors import SqlError, not_supported
from catalog.functions.hash_functions import partition_hash
from catalog.partitions import bound_conditions, datum_text
from catalog.schema import (
    Constraint,
    Index,
    IndexColumn,
    PartitionBound,
    PartitionColumn,
    Partitioning,
    Table,
)
from catalog.types import format_type, lookup
from catalog.types.base import TypeRef
from engine.ddl import names
from engine.ddl.context import DdlContext, ValidateConstraint
from engine.ddl.expressions import check_immutable, columns_used, stored_text
from engine.execute.code import NotOnRowPath
from engine.execute.expressions import compile_expression
from engine.partitions.levels import Datums
from engine.sql import ast
from engine.sql.analyze import analyze_expression, runnable_expression
from engine.sql.analyze.collations import collation_of
from engine.sql.analyze.targets import column_name
from engine.sql.parser import parse_expression

if TYPE_CHECKING:
    from engine.ddl.tables import TableBuilder

_STRATEGIES = {"range": "r", "list": "l", "hash": "h"}
_WORDS = {"r": "range", "l": "list", "h": "hash"}
_METHODS = {"r": "btree", "l": "btree", "h": "hash"}
MAX_KEYS = 32


# ---- PARTITION BY ---------------------------------------------------------------------------------------------------


def partitioning(context: DdlContext, table: Table, spec: ast.PartitionSpec) -> Partitioning:
    """PARTITION BY. Raises 22023, 42P17, 42703, 42704, 54011, 0A000 for operator classes and collations that are not
    the defaults."""
    strategy = _STRATEGIES.get(spec.strategy.lower())
    if strategy is None:
        raise SqlError("22023", f'unrecognized partitioning strategy "{spec.strategy}"')
    if strategy == "l" and len(spec.elements) != 1:
        raise SqlError("42P17", 'cannot use "list" partition strategy with more than one column')
    if len(spec.elements) > MAX_KEYS:
        raise SqlError("54011", f"cannot partition using more than {MAX_KEYS} columns")
    columns = tuple(_key_column(context, table, element, strategy) for element in spec.elements)
    if strategy == "h":
        partition_hash(tuple(column.type.oid for column in columns))
    return Partitioning(strategy, columns)


def _key_column(context: DdlContext, table: Table, element: ast.IndexElement, strategy: str) -> PartitionColumn:
    if element.collation and collations.rules(
        context.catalog, context.environment.find_collation(element.collation, element.location).oid
    ):
        not_supported(f'a partition key with collation "{element.collation[-1]}"')
    expression = element.expression
    name = element.name
    if name is not None:
        column = table.column(name)
        if column is None:
            place = element.location + 1 if element.location >= 0 else None
            raise SqlError("42703", f'column "{name}" named in partition key does not exist', position=place)
        found = PartitionColumn(column.number, column.type)
        rules = collations.rules(context.catalog, column.collation)
        if rules is not None and (strategy == "r" or not rules.deterministic):
            not_supported(f'a partition key under the ICU locale "{rules.locale}"')
    else:
        assert expression is not None
        found = _key_expression(context, table, expression)
    if lookup(found.type.oid).key_encoder() is None:
        method = _METHODS[strategy]
        raise SqlError(
            "42704",
            f'data type {format_type(found.type.oid)} has no default operator class for access method "{method}"',
            hint=f"You must specify a {method} operator class or define a default {method} operator class for the "
            "data type.",
        )
    if element.opclass and element.opclass[-1] != f"{lookup(found.type.oid).name}_ops":
        not_supported(f'operator class "{element.opclass[-1]}"')
    return found


def _key_expression(context: DdlContext, table: Table, expression: ast.Node) -> PartitionColumn:
    try:
        value = analyze_expression(expression, context.environment, table, None, "partition key expressions")
    except SqlError as error:
        error.position = None  # as in PostgreSQL, where this is done without the text
        raise
    used = columns_used(value)
    if not used:
        raise SqlError("42P17", "cannot use constant expression as partition key")
    if 0 in used:
        raise SqlError("42P17", "partition key expressions cannot contain whole-row references")
    check_immutable(context, value, "functions in partition key expression must be marked IMMUTABLE")
    if collations.rules(context.catalog, collation_of(value, context.catalog, table).oid) is not None:
        not_supported("a partition key expression under an ICU collation")
    return PartitionColumn(0, value.type, stored_text(context, value, table))


def key_columns(context: DdlContext, table: Table, column: PartitionColumn) -> tuple[int, ...]:
    """The columns (attnums) in a part of a partition key."""
    if column.expression is None:
        return (column.number,)
    value = analyze_expression(
        parse_expression(column.expression), context.environment, table, None, "partition key expressions"
    )
    return columns_used(value)


def refuse_generated(context: DdlContext, table: Table, spec: ast.PartitionSpec) -> None:
    """42P17 for a partition key with generated columns. A new table is checked when it is complete."""
    assert table.partitioning is not None
    for item, element in zip(table.partitioning.columns, spec.elements, strict=True):
        for number in key_columns(context, table, item):
            column = table.column_by_number(number)
            if column.generated is not None:
                raise SqlError(
                    "42P17",
                    "cannot use generated column in partition key",
                    detail=f'Column "{column.name}" is a generated column.',
                    position=element.location + 1 if element.location >= 0 else None,
                )


# ---- bounds ---------------------------------------------------------------------------------------------------------


def bound_of(context: DdlContext, parent: Table, name: str, spec: ast.BoundSpec) -> PartitionBound:
    """FOR VALUES of a new partition `name`, checked against the existing partitions. Raises 42P16, 42P17, 42804."""
    assert parent.partitioning is not None
    return _Bound(context, parent, name, spec).made()


class _Bound:
    """Converts one bound."""

    def __init__(self, context: DdlContext, parent: Table, name: str, spec: ast.BoundSpec) -> None:
        assert parent.partitioning is not None
        self.context = context
        self.parent = parent
        self.partitioning = parent.partitioning
        self.name = name
        self.spec = spec
        self.datums = Datums(parent.partitioning)
        siblings = [context.catalog.table(oid) for oid in context.catalog.children.get(parent.oid, ())]
        self.siblings = [(item, item.bound) for item in siblings if item.bound is not None]

    def error(self, sqlstate: str, message: str, node: ast.Node | None = None, **more: str) -> SqlError:
        location = (node or self.spec).location
        return SqlError(sqlstate, message, position=location + 1 if location >= 0 else None, **more)

    def made(self) -> PartitionBound:
        kind, strategy = self.spec.kind, self.partitioning.strategy
        if kind == "d":
            return self._default()
        if kind != strategy:
            raise self.error("42P16", f"invalid bound specification for a {_WORDS[strategy]} partition")
        if kind == "h":
            return self._hash()
        return self._list() if kind == "l" else self._range()

    def _default(self) -> PartitionBound:
        if self.partitioning.strategy == "h":
            raise SqlError("42P16", "a hash-partitioned table may not have a default partition")
        for sibling, bound in self.siblings:
            if bound.kind == "d":
                message = f'partition "{self.name}" conflicts with existing default partition "{sibling.name}"'
                raise self.error("42P17", message)
        return PartitionBound("d")

    def _hash(self) -> PartitionBound:
        modulus, remainder = self.spec.modulus, self.spec.remainder
        if modulus <= 0:
            raise SqlError("42P16", "modulus for hash partition must be an integer value greater than zero")
        if remainder >= modulus:
            raise SqlError("42P16", "remainder for hash partition must be less than modulus")
        known = sorted((bound.modulus, sibling.name) for sibling, bound in self.siblings)
        smaller = [item for item in known if item[0] <= modulus]
        larger = [item for item in known if item[0] > modulus]
        message = "every hash partition modulus must be a factor of the next larger modulus"
        if smaller and modulus % smaller[-1][0]:
            found, name = smaller[-1]
            detail = (
                f'The new modulus {modulus} is not divisible by {found}, the modulus of existing partition "{name}".'
            )
            raise SqlError("42P17", message, detail=detail)
        if larger and larger[0][0] % modulus:
            found, name = larger[0]
            detail = (
                f'The new modulus {modulus} is not a factor of {found}, the modulus of existing partition "{name}".'
            )
            raise self.error("42P17", message, detail=detail)
        for sibling, bound in self.siblings:
            common = min(bound.modulus, modulus)
            if bound.remainder % common == remainder % common:
                raise self._overlap(sibling)
        return PartitionBound("h", modulus=modulus, remainder=remainder)

    def _overlap(self, sibling: Table, node: ast.Node | None = None) -> SqlError:
        return self.error("42P17", f'partition "{self.name}" would overlap partition "{sibling.name}"', node)

    def _list(self) -> PartitionBound:
        values: list[str | None] = []
        for node in self.spec.values:
            text = self._text(node, 0)
            known = [self.datums.find_listed(item) for item in values]
            if self.datums.find_listed(text) not in known:
                values.append(text)
        taken = {
            self.datums.find_listed(value): sibling
            for sibling, bound in self.siblings
            for value in bound.values
            if bound.kind == "l"
        }
        for node, text in zip(self.spec.values, values, strict=False):
            sibling = taken.get(self.datums.find_listed(text))
            if sibling is not None:
                raise self._overlap(sibling, node)
        return PartitionBound("l", tuple(values))

    def _range(self) -> PartitionBound:
        width = len(self.partitioning.columns)
        for word, nodes in (("FROM", self.spec.values), ("TO", self.spec.upper)):
            if len(nodes) != width:
                raise SqlError("42P16", f"{word} must specify exactly one value per partitioning column")
        lower = self._ends(self.spec.values)
        upper = self._ends(self.spec.upper)
        low, high = self.datums.end(lower), self.datums.end(upper)
        if low >= high:
            types = self.datums.types
            shown = [
                ", ".join(datum_text(item, oid) for item, oid in zip(ends, types, strict=True))
                for ends in (lower, upper)
            ]
            detail = f"Specified lower bound ({shown[0]}) is greater than or equal to upper bound ({shown[1]})."
            raise self.error("42P17", f'empty range bound specified for partition "{self.name}"', self.spec.values[0],
                             detail=detail)  # fmt: skip
        for sibling, bound in self.siblings:
            if bound.kind == "r" and low < self.datums.end(bound.upper) and self.datums.end(bound.lower) < high:
                inside = self.datums.end(bound.lower) <= low
                raise self._overlap(sibling, (self.spec.values if inside else self.spec.upper)[0])
        return PartitionBound("r", lower=lower, upper=upper)

    def _ends(self, nodes: tuple[ast.Node, ...]) -> tuple[tuple[str, str], ...]:
        found: list[tuple[str, str]] = []
        for place, node in enumerate(nodes):
            word = node.names[0] if isinstance(node, ast.ColumnRef) and len(node.names) == 1 else ""
            if word in ("minvalue", "maxvalue"):
                found.append(("-" if word == "minvalue" else "+", ""))
                continue
            text = self._text(node, place)
            if text is None:
                raise SqlError("42P17", "cannot specify NULL in range bound")
            found.append(("v", text))
        for before, after, node in zip(found, found[1:], nodes[1:], strict=False):
            if before[0] != "v" and after[0] != before[0]:
                word = "MINVALUE" if before[0] == "-" else "MAXVALUE"
                raise self.error("42804", f"every bound following {word} must also be {word}", node)
        return tuple(found)

    def _text(self, node: ast.Node, place: int) -> str | None:
        """The value of a bound as text of the key's type. Raises 0A000, 42804 and errors of its evaluation."""
        if isinstance(node, ast.ColumnRef):
            raise self.error("0A000", "cannot use column reference in partition bound expression", node)
        column = self.partitioning.columns[place]
        target = TypeRef(column.type.oid, column.type.typmod)
        kind = "partition bound"
        try:
            value = runnable_expression(node, self.context.environment, None, target, kind)
        except SqlError as error:
            if error.sqlstate == "42703":
                raise self.error("0A000", "cannot use column reference in partition bound expression", node) from None
            if error.sqlstate != "42804":
                raise
            named = self.parent.column_by_number(column.number).name if column.number else str(column.expression)
            message = f'specified value cannot be cast to type {format_type(column.type.oid)} for column "{named}"'
            raise self.error("42804", message, node) from None
        context = self.context.exec_context()
        try:
            found = compile_expression(value, context.format)(context, ())
        except NotOnRowPath:
            not_supported("this expression in a partition bound")
        return None if found is None else lookup(column.type.oid).text_encoder()(found).decode()


def lock_whole(context: DdlContext, table: Table) -> list[Table]:
    """Locks a table and all of its partitions exclusively, because writers lock the partition only."""
    context.lock_relation(table.oid, "access exclusive")
    found = [table, *context.catalog.descendants(table.oid)]
    for item in found[1:]:
        context.lock_relation(item.oid, "access exclusive")
    return found


def defaults(context: DdlContext, parent: Table) -> list[Table]:
    """The default partition, or None."""
    found = (context.catalog.table(oid) for oid in context.catalog.children.get(parent.oid, ()))
    return [item for item in found if item.bound is not None and item.bound.kind == "d"]


def check_default(context: DdlContext, parent: Table, bound: PartitionBound) -> None:
    """Adds a check that the default partition has no rows of a new partition (23514, a job)."""
    for default in defaults(context, parent) if bound.kind != "d" else ():
        conditions = bound_conditions(context.catalog, parent, bound)
        text = f"(NOT ({' AND '.join(conditions)}))"
        for item in lock_whole(context, default):
            message = f'updated partition constraint for default partition "{item.name}" would be violated by some row'
            check_rows(context, item, text, message)


def check_rows(context: DdlContext, table: Table, text: str, message: str) -> None:
    """Checks every row of the table against a condition, and raises 23514 with that message."""
    if table.partitioning is None and not context.table_is_empty(table):
        context.add_job(ValidateConstraint(table, Constraint(0, "", "c", check=text), violated=message))


# ---- parts of indexes and constraints -------------------------------------------------------------------------------


def check_unique_key(table: Table, word: str, numbers: tuple[int, ...]) -> None:
    """0A000 unless a unique key of a partitioned table contains its partition key."""
    if table.partitioning is None:
        return
    for column in table.partitioning.columns:
        if not column.number:
            detail = f"{word} constraints cannot be used when partition keys include expressions."
            raise SqlError("0A000", f"unsupported {word} constraint with partition key definition", detail=detail)
        if column.number not in numbers:
            name = table.column_by_number(column.number).name
            detail = (
                f'{word} constraint on table "{table.name}" lacks column "{name}" which is part of the partition key.'
            )
            raise SqlError(
                "0A000", "unique constraint on partitioned table must include all partitioning columns", detail=detail
            )


def inherit_keys(builder: TableBuilder, parent: Table) -> None:
    """Gives a new partition its parts of the parent's indexes, keys and foreign keys."""
    context = builder.context
    for oid in parent.indexes:
        new_part(builder, parent, context.catalog.index(oid))
    for constraint in parent.constraints:
        if constraint.kind == "f":
            part = foreign_key_part(context, builder.table, parent, constraint)
            builder.table = replace(builder.table, constraints=(*builder.table.constraints, part))
            builder.new_constraints.append(part)


def foreign_key_part(context: DdlContext, child: Table, parent: Table, constraint: Constraint) -> Constraint:
    """The parent's foreign key as one of the partition."""
    taken = {item.name for item in child.constraints}
    name = constraint.name
    if name in taken:
        named = "_".join(parent.column_by_number(number).name for number in constraint.columns)
        name = names.free_constraint_name(child.constraints, child.name, named, "fkey")
    return replace(
        constraint, oid=context.new_oid(), name=name, columns=map_columns(parent, child, constraint.columns),
        inherited=1, local=False, parent=constraint.oid, comment=None,
    )  # fmt: skip


def map_columns(parent: Table, child: Table, numbers: tuple[int, ...]) -> tuple[int, ...]:
    found = []
    for number in numbers:
        column = child.column(parent.column_by_number(number).name)
        assert column is not None
        found.append(column.number)
    return tuple(found)


def constraint_of(table: Table, index: Index) -> Constraint | None:
    return next((item for item in table.constraints if item.kind in "pu" and item.index == index.oid), None)


def new_part(builder: TableBuilder, parent: Table, index: Index) -> Index:
    """A new index of a new or altered table as a part of its parent's index."""
    context, child = builder.context, builder.table
    constraint = constraint_of(parent, index)
    if index.is_primary and any(item.kind == "p" for item in child.constraints):
        raise SqlError("42P16", f'multiple primary keys for table "{child.name}" are not allowed')
    if index.is_unique:
        word = "PRIMARY KEY" if index.is_primary else "UNIQUE"
        check_unique_key(
            child, word, map_columns(parent, child, tuple(item.number for item in index.columns if item.number))
        )
    columns = tuple(
        replace(item, number=map_columns(parent, child, (item.number,))[0]) if item.number else item
        for item in index.columns
    )
    label = "pkey" if index.is_primary else "key" if constraint is not None else "idx"
    name = names.free_relation_name(
        context, child.schema, child.name, "" if index.is_primary else words_of(parent, index), label,
        [item.name for item in builder.indexes],
    )  # fmt: skip
    storage = child.storage_id if index.primary else context.new_storage_id(child.tablespace)
    part = replace(
        index, oid=context.new_oid(), schema=child.schema, name=name, table=child.oid, columns=columns,
        storage_id=storage, include=map_columns(parent, child, index.include), owner=child.owner,
        tablespace=child.tablespace, comment=None, parent=index.oid, valid=True,
    )  # fmt: skip
    builder.indexes.append(part)
    builder.table = replace(child, indexes=(*child.indexes, part.oid))
    if constraint is not None:
        numbers = tuple(item.number for item in columns)
        if index.is_primary:
            for number in numbers:
                builder.change_column(replace(builder.table.column_by_number(number), not_null=True))
        if index.primary:
            builder.table = replace(builder.table, key_columns=numbers)
        made = replace(
            constraint, oid=context.new_oid(), name=name, columns=numbers, index=part.oid, inherited=1, local=False,
            parent=constraint.oid, comment=None,
        )  # fmt: skip
        builder.table = replace(builder.table, constraints=(*builder.table.constraints, made))
        builder.new_constraints.append(made)
    return part


def words_of(table: Table, index: Index) -> str:
    """The columns' part of a generated name: the names of the index's columns, numbered if taken."""
    words: list[str] = []
    for item in (*index.columns, *(IndexColumn(number) for number in index.include)):
        base = _column_word(table, item)
        name, number = base, 0
        while name in words:
            number += 1
            name = f"{base}{number}"
        words.append(name)
    return "_".join(words)


def _column_word(table: Table, item: IndexColumn) -> str:
    if item.number:
        return table.column_by_number(item.number).name
    name = column_name(parse_expression(item.expression or ""))
    return "expr" if name == "?column?" else name


def matching_index(context: DdlContext, child: Table, parent: Table, index: Index) -> Index | None:
    """An index of a partition that can become its part of the parent's index: equal to it, and not a part of another
    one."""
    wanted = constraint_of(parent, index)
    columns = tuple(
        replace(item, number=map_columns(parent, child, (item.number,))[0]) if item.number else item
        for item in index.columns
    )
    for oid in child.indexes:
        own = context.catalog.index(oid)
        alike = (
            own.parent is None
            and own.method == index.method
            and own.unique == index.unique
            and own.primary == index.primary
            and own.late == index.late
            and own.columns == columns
            and own.predicate == index.predicate
            and own.nulls_not_distinct == index.nulls_not_distinct
            and sorted(own.include) == sorted(map_columns(parent, child, index.include))
        )
        if alike and (wanted is None or constraint_of(child, own) is not None):
            return own
    return None
