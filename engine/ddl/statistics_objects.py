"""CREATE, ALTER, DROP and COMMENT ON STATISTICS (statscmds.c). Statistics are kept, shown and dumped. Nothing is
computed for them, because plans are not chosen by cost."""

from __future__ import annotations

from collections.abc import Sequence as Ordered
from dataclasses import replace

from catalog import types
from catalog.errors import SqlError
from catalog.identifiers import join_names
from catalog.schema import SchemaObject, Sequence, StatisticsObject, Table, View, VirtualTable
from engine.ddl import names
from engine.ddl.context import DdlContext
from engine.ddl.expressions import columns_used, stored_text
from engine.ddl.ownership import must_own, must_own_to_drop, must_rename, new_owner, target_schema
from engine.sql import ast, tree
from engine.sql.analyze import analyze_expression
from engine.sql.analyze.typeinfo import is_ordered
from engine.sql.parser import parse_expression

_KINDS = {"ndistinct": "d", "dependencies": "f", "mcv": "m"}
_MOST = 8
_WHAT = "statistics expressions"
_HIGHEST_TARGET = 10000
_SYSTEM_COLUMNS = ("ctid", "xmin", "cmin", "xmax", "cmax", "tableoid")
Reference = tuple[str, ...]


def create(context: DdlContext, statement: ast.CreateStatisticsStmt) -> str:
    """CREATE STATISTICS. Raises 42P01, 42809, 42710, 42703, 42701, 42601, 42P17, 54011, 0A000."""
    if len(statement.relations) != 1:
        raise SqlError("0A000", "only a single relation is allowed in CREATE STATISTICS")
    if statement.relations[0] is None:
        raise SqlError("0A000", "CREATE STATISTICS only supports relation names in the FROM clause")
    table = _table(context, statement.relations[0])
    elements = [_element(context, table, node) for node in statement.elements]
    name = statement.name[-1]
    relation = ast.RangeVar(None, statement.name[-2] if len(statement.name) > 1 else None, name)
    schema = context.creation_schema(relation)
    context.lock_name(schema.oid, f"statistics {name}")
    if _find_in(context, schema.oid, name) is not None:
        message = f'statistics object "{name}" already exists'
        if not statement.if_not_exists:
            raise SqlError("42710", message)
        context.notice(SqlError("42710", f"{message}, skipping", severity="NOTICE"))
        return "CREATE STATISTICS"
    numbers, found = _parts(table, elements)
    expressions = tuple(stored_text(context, item, table) for item in found)
    kinds = _kinds(statement, numbers, expressions)
    used = tuple(sorted({number for item in found for number in columns_used(item)}))
    made = StatisticsObject(
        context.new_oid(), schema.oid, name, table.oid, numbers, expressions, used, kinds, owner=context.user_oid
    )
    context.change({made.oid: made})
    return "CREATE STATISTICS"


def _element(context: DdlContext, table: Table, node: ast.Node) -> str | tree.Expr:
    """The name of a column, or an expression."""
    if isinstance(node, ast.ColumnRef) and len(node.names) == 1:
        return node.names[0]
    found = analyze_expression(node, context.environment, table, None, _WHAT)
    return table.column_by_number(found.column).name if isinstance(found, tree.Var) and found.column else found


def _table(context: DdlContext, relation: ast.RangeVar) -> Table:
    found = names.find(context, relation)
    if found is not None and not isinstance(found, Table):
        if isinstance(found, VirtualTable) or context.catalog.schema_name(found.schema) == "pg_catalog":
            raise SqlError("42501", f'permission denied: "{found.name}" is a system catalog')
        word = "sequence" if isinstance(found, Sequence) else "view" if isinstance(found, View) else "index"
        plural = "indexes" if word == "index" else f"{word}s"
        message = f'cannot define statistics for relation "{found.name}"'
        raise SqlError("42809", message, detail=f"This operation is not supported for {plural}.")
    return names.table_named(context, relation, "share update exclusive", materialized=True)


def _parts(table: Table, elements: Ordered[str | tree.Expr]) -> tuple[tuple[int, ...], list[tree.Expr]]:
    """The numbers of the columns in ascending order, and the expressions."""
    if len(elements) > _MOST:
        raise SqlError("54011", f"cannot have more than {_MOST} columns in statistics")
    numbers: list[int] = []
    expressions: list[tree.Expr] = []
    for element in elements:
        if isinstance(element, str):
            numbers.append(_column(table, element))
            continue
        if len(elements) > 1 and not is_ordered(element.type.oid):
            shown = types.format_type(element.type.oid)
            message = "expression cannot be used in multivariate statistics because its type"
            raise SqlError("0A000", f"{message} {shown} has no default btree operator class")
        expressions.append(element)
    return tuple(sorted(numbers)), expressions


def _column(table: Table, name: str) -> int:
    column = table.column(name)
    if column is None:
        if name in _SYSTEM_COLUMNS:
            raise SqlError("0A000", "statistics creation on system columns is not supported")
        raise SqlError("42703", f'column "{name}" does not exist')
    if not is_ordered(column.type.oid):
        shown = types.format_type(column.type.declared)
        message = f'column "{name}" cannot be used in statistics because its type {shown}'
        raise SqlError("0A000", f"{message} has no default btree operator class")
    return column.number


def _kinds(statement: ast.CreateStatisticsStmt, numbers: tuple[int, ...], expressions: tuple[str, ...]) -> str:
    given = ""
    for word in statement.kinds:
        if word not in _KINDS:
            raise SqlError("42601", f'unrecognized statistics kind "{word}"')
        given += _KINDS[word]
    alone = not numbers and len(expressions) == 1
    if alone and given:
        message = "when building statistics on a single expression, statistics kinds may not be specified"
        raise SqlError("0A000", message)
    if not alone and len(numbers) + len(expressions) < 2:
        raise SqlError("42P17", "extended statistics require at least 2 columns")
    if len(set(numbers)) < len(numbers):
        raise SqlError("42701", "duplicate column name in statistics definition")
    if len(set(expressions)) < len(expressions):
        raise SqlError("42701", "duplicate expression in statistics definition")
    kinds = "" if alone else "".join(kind for kind in "dfm" if not given or kind in given)
    return kinds + ("e" if expressions else "")


# ---- finding --------------------------------------------------------------------------------------------------------


def _find_in(context: DdlContext, schema: int, name: str) -> StatisticsObject | None:
    for item in context.catalog.by_kind.get(StatisticsObject, ()):
        if isinstance(item, StatisticsObject) and item.schema == schema and item.name == name:
            return item
    return None


def _find(context: DdlContext, name: Reference) -> StatisticsObject | None:
    """The statistics object of this name. Raises 3F000."""
    if len(name) > 1:
        schema = context.environment.schema_oid(name[-2])
        if not schema:
            raise SqlError("3F000", f'schema "{name[-2]}" does not exist')
        return _find_in(context, schema, name[-1])
    places = context.environment.path_oids
    return next(filter(None, (_find_in(context, place, name[-1]) for place in places)), None)


def _get(context: DdlContext, name: Reference) -> StatisticsObject:
    found = _find(context, name)
    if found is None:
        raise SqlError("42704", f'statistics object "{".".join(name)}" does not exist')
    return found


# ---- ALTER, DROP, COMMENT -------------------------------------------------------------------------------------------


def alter(context: DdlContext, statement: ast.AlterStatisticsStmt) -> str:
    """ALTER STATISTICS. Raises 42704, 42501, 42710, 22023."""
    tag = "ALTER STATISTICS"
    if statement.action == "target":
        _set_target(context, statement)
        return tag
    item = _get(context, statement.name)
    context.lock_object(item.oid)
    if statement.action == "owner":
        context.change({item.oid: replace(item, owner=new_owner(context, item, statement.value).oid)})
        return tag
    if statement.action == "rename":
        must_rename(context, item)
        _move(context, item, replace(item, name=statement.value))
        return tag
    schema = target_schema(context, item.schema, item.name, statement.value)
    if schema.oid != item.schema:
        must_own(context, item)
        _move(context, item, replace(item, schema=schema.oid))
    return tag


def _set_target(context: DdlContext, statement: ast.AlterStatisticsStmt) -> None:
    target = int(statement.value)
    if target < -1:
        raise SqlError("22023", f"statistics target {target} is too low")
    if target > _HIGHEST_TARGET:
        target = _HIGHEST_TARGET
        context.notice(SqlError("22023", f"lowering statistics target to {target}", severity="WARNING"))
    if statement.if_exists and _find(context, statement.name) is None:
        shown = ".".join(statement.name)
        message = f'statistics object "{shown}" does not exist, skipping'
        context.notice(SqlError("00000", message, severity="NOTICE"))
        return
    item = _get(context, statement.name)
    must_own(context, item)
    context.lock_object(item.oid)
    context.change({item.oid: replace(item, statistics_target=target)})


def _move(context: DdlContext, item: StatisticsObject, moved: StatisticsObject) -> None:
    if _find_in(context, moved.schema, moved.name) is not None:
        place = context.catalog.schema_name(moved.schema)
        raise SqlError("42710", f'statistics object "{moved.name}" already exists in schema "{place}"')
    context.lock_name(moved.schema, f"statistics {moved.name}")
    context.change({item.oid: moved})


def to_drop(context: DdlContext, name: Reference) -> StatisticsObject:
    """The statistics object to drop. Raises 42704, 3F000, 42501."""
    item = _get(context, name)
    must_own_to_drop(context, item)
    return item


def comment(context: DdlContext, name: Reference, text: str | None) -> str:
    item = _get(context, name)
    must_own(context, item)
    context.lock_object(item.oid)
    context.change({item.oid: replace(item, comment=text)})
    return "COMMENT"


# ---- with their table -----------------------------------------------------------------------------------------------


def of_table(context: DdlContext, table: int) -> list[StatisticsObject]:
    """The statistics objects of a table."""
    found = context.catalog.by_kind.get(StatisticsObject, ())
    return [item for item in found if isinstance(item, StatisticsObject) and item.table == table]


def using_column(context: DdlContext, table: Table, number: int) -> list[StatisticsObject]:
    """Those that use a column, which are dropped with it."""
    return [
        item for item in of_table(context, table.oid) if number in item.columns or number in item.expression_columns
    ]


def _analyze(context: DdlContext, text: str, table: Table) -> tree.Expr:
    return analyze_expression(parse_expression(text), context.environment, table, None, _WHAT)


def with_names(context: DdlContext, old: Table, new: Table) -> dict[int, SchemaObject | None]:
    """Those of a table with the new names of its columns."""
    return {
        item.oid: replace(
            item,
            expressions=tuple(stored_text(context, _analyze(context, text, old), new) for text in item.expressions),
        )
        for item in of_table(context, old.oid)
        if item.expressions
    }


def copies(context: DdlContext, source: Table, table: Table, comments: bool) -> list[StatisticsObject]:
    """LIKE ... INCLUDING STATISTICS: those of the source for a new table, with generated names."""
    made: list[StatisticsObject] = []
    for item in of_table(context, source.oid):
        shown = [source.column_by_number(number).name for number in item.columns]
        numbers = tuple(sorted(column.number for name in shown if (column := table.column(name)) is not None))
        base = join_names(table.name, "_".join([*shown, *("expr" for _ in item.expressions)]), "stat")
        name, number = base, 0
        while _find_in(context, table.schema, name) is not None or any(other.name == name for other in made):
            number += 1
            name = f"{base}{number}"
        used = [source.column_by_number(one).name for one in item.expression_columns]
        used_here = tuple(column.number for one in used if (column := table.column(one)) is not None)
        made.append(
            StatisticsObject(
                context.new_oid(), table.schema, name, table.oid, numbers, item.expressions, used_here, item.kinds,
                owner=context.user_oid, comment=item.comment if comments else None,
            )
        )  # fmt: skip
    return made
