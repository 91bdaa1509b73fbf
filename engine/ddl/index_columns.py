"""The columns of indexes: column or expression, access method and operator class."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from catalog.errors import SqlError
from catalog.extensions import extension_with
from catalog.operator_classes import METHODS, OperatorClass, default_class, named_class, operator_class
from catalog.schema import IndexColumn, Table
from catalog.types import format_type, lookup
from catalog.types.user import FIRST_ADDED_OID
from engine.ddl.collations import index_collation
from engine.ddl.context import DdlContext
from engine.ddl.expressions import stored_index_expression
from engine.sql import ast, tree
from engine.sql.analyze import analyze_expression
from engine.sql.analyze.collations import collation_of
from engine.sql.analyze.targets import column_name
from engine.sql.parser import parse_expression

MAX_KEYS = 32


def must_have_class(context: DdlContext, method: str, type_: int) -> None:
    """42704 for a type without a default operator class for the access method."""
    if find_default_class(context, method, type_) is None:
        raise _without_class(method, type_)
    if method in ("btree", "hash"):
        must_be_a_key(method, type_)


def must_be_a_key(method: str, type_: int) -> None:
    """42704 for a type whose values cannot be keys of a tree."""
    if lookup(type_).key_encoder() is None:
        raise _without_class(method, type_)


def _without_class(method: str, type_: int) -> SqlError:
    return SqlError(
        "42704",
        f'data type {format_type(type_)} has no default operator class for access method "{method}"',
        hint="You must specify an operator class for the index or define a default operator class for the data type.",
    )


def second_part(statement: ast.IndexStmt) -> str:
    """The columns' part of a generated name: expressions by the function that they call, or 'expr', with a number if
    taken."""
    parts: list[str] = []
    for element in statement.elements:
        base = element.name
        if base is None:
            assert element.expression is not None
            base = column_name(element.expression)
            base = "expr" if base == "?column?" else base
        name, number = base, 0
        while name in parts:
            number += 1
            name = f"{base}{number}"
        parts.append(name)
    return "_".join([*parts, *(name for name in statement.include if name not in parts)])


def with_method(context: DdlContext, statement: ast.IndexStmt) -> ast.IndexStmt:
    """The statement, if its access method supports all of its options (DefineIndex)."""
    name = statement.method
    if name == "rtree":
        message = 'substituting access method "gist" for obsolete method "rtree"'
        context.notice(SqlError("00000", message, severity="NOTICE"))
        name = "gist"
    method = METHODS.get(name)
    if method is None:
        raise SqlError("42704", f'access method "{name}" does not exist')
    elements = statement.elements
    for wanted, able, what in (
        (statement.unique, method.unique, "unique indexes"),
        (bool(statement.include), method.include, "included columns"),
        (len(elements) > 1, method.multicolumn, "multicolumn indexes"),
    ):
        if wanted and not able:
            raise SqlError("0A000", f'access method "{name}" does not support {what}')
    return replace(statement, method=name)


def index_column(context: DdlContext, table: Table, element: ast.IndexElement, method: str) -> IndexColumn:
    """A column of a new index. Raises 42703, 42704, 42804, 0A000."""
    if not METHODS[method].ordered:
        for given, what in ((element.direction, "ASC/DESC"), (element.nulls, "NULLS FIRST/LAST")):
            if given != "default":
                raise SqlError("0A000", f'access method "{method}" does not support {what} options')
    element = _without_collate(element)
    descending = element.direction == "desc"
    nulls_first = element.nulls == "first" or (element.nulls == "default" and descending)
    if element.name is not None:
        column = table.column(element.name)
        if column is None:
            raise SqlError("42703", f'column "{element.name}" does not exist')
        made = IndexColumn(column.number, None, descending, nulls_first, type=column.type)
        value: tree.Expr = tree.Var(0, column.number, column.type)
    else:
        assert element.expression is not None
        text, type_ = stored_index_expression(context, table, element.expression)
        made = IndexColumn(0, text, descending, nulls_first, type=type_)
        value = analyze_expression(parse_expression(text), context.environment, table, None, "index expressions")
    collation = index_collation(context, table, element.collation, made.type, value)
    derived = 0 if made.number else collation_of(value, context.catalog, table).oid
    return replace(
        made,
        collation=collation,
        derived=derived,
        operator_class=_operator_class(context, method, made.type.oid, element.opclass),
    )


def _without_collate(element: ast.IndexElement) -> ast.IndexElement:
    """COLLATE around a whole expression becomes the index column's collation, and a plain column inside of it is an
    ordinary index column."""
    expression, collation = element.expression, element.collation
    while isinstance(expression, ast.CollateClause):
        collation = collation or expression.collation
        expression = expression.argument
    name = element.name
    if expression is not element.expression and isinstance(expression, ast.ColumnRef) and len(expression.names) == 1:
        name, expression = expression.names[0], None
    return replace(element, name=name, expression=expression, collation=collation)


def _presence(context: DdlContext) -> Callable[[int], bool]:
    """Whether this database has an operator class: it is built in, or of an extension that was created."""
    return lambda oid: oid < FIRST_ADDED_OID or extension_with(context.catalog, oid) is not None


def _presence_in(context: DdlContext, schemas: tuple[str, ...]) -> Callable[[int], bool]:
    """Whether one of these schemas has an operator class."""

    def present(oid: int) -> bool:
        if oid < FIRST_ADDED_OID:
            return "pg_catalog" in schemas
        extension = extension_with(context.catalog, oid)
        return extension is not None and context.catalog.schema_name(extension.schema) in schemas

    return present


def _operator_class(context: DdlContext, method: str, type_: int, written: tuple[str, ...]) -> int:
    """ResolveOpClass: the OID of the operator class, or 0 for the default one. Raises 42704, 42804."""
    if not written:
        must_have_class(context, method, type_)
        return 0
    found = class_named(context, method, written)
    if not found.takes(type_):
        raise SqlError("42804", f'operator class "{written[-1]}" does not accept data type {format_type(type_)}')
    if METHODS[method].ordered or method == "hash":
        must_be_a_key(method, type_)
    return 0 if found == find_default_class(context, method, type_) else found.oid


def class_named(context: DdlContext, method: str, written: tuple[str, ...]) -> OperatorClass:
    """The operator class with this name. Raises 42704."""
    found = named_class(method, written[-1], _presence_in(context, written[:-1] or context.environment.path))
    if found is None:
        raise SqlError("42704", f'operator class "{".".join(written)}" does not exist for access method "{method}"')
    return found


def find_default_class(context: DdlContext, method: str, type_: int) -> OperatorClass | None:
    """The default operator class of a type in this database."""
    return default_class(method, type_, _presence(context))


def class_for(context: DdlContext, method: str, type_: int, column: IndexColumn) -> int:
    """The operator class of an index column whose type changes. A class that was named must accept the new type."""
    written: tuple[str, ...] = ()
    if column.operator_class:
        extension = extension_with(context.catalog, column.operator_class)
        schema = "pg_catalog" if extension is None else context.catalog.schema_name(extension.schema)
        written = (schema, operator_class(column.operator_class).name)
    return _operator_class(context, method, type_, written)


def find_included(table: Table, name: str) -> int:
    column = table.column(name)
    if column is None:
        raise SqlError("42703", f'column "{name}" does not exist')
    return column.number
