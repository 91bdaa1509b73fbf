"""CREATE VIEW."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from catalog.collations import collation, of_type
from catalog.errors import SqlError, not_supported
from catalog.schema import Column, Table, View
from catalog.schema import Sequence as SequenceObject
from catalog.types import format_type
from engine.ddl import ownership
from engine.ddl.context import DdlContext
from engine.ddl.expressions import default_text
from engine.sql import ast, tree
from engine.sql.analyze import analyze
from engine.sql.analyze.collations import output_collations
from engine.sql.analyze.derived_collations import indeterminate
from engine.sql.analyze.updatable import not_updatable
from engine.sql.analyze.views import sources_of
from engine.sql.deparse import deparse_query
from engine.sql.tree_walk import walk


def create_view(context: DdlContext, statement: ast.ViewStmt) -> str:
    """CREATE [OR REPLACE] VIEW. Raises 42P07, 42P16 (columns changed by REPLACE), 42611."""
    if statement.recursive:
        statement = _recursive(statement)
    if isinstance(statement.query, ast.SelectStmt) and statement.query.changes_data:
        raise SqlError("0A000", "views must not contain data-modifying statements in WITH")
    relation = statement.relation
    analyzed = analyze(statement.query, context.environment)
    persistence = statement.persistence
    if persistence == "p" and _reads_temporary(context, analyzed.relations):
        persistence = "t"
        context.notice(SqlError("00000", f'view "{relation.name}" will be a temporary view', severity="NOTICE"))
    schema = context.creation_schema(relation, persistence)
    query = analyzed.statement
    assert isinstance(query, tree.Query)
    if analyzed.parameter_types:
        raise SqlError("42P02", "there is no parameter $1")
    columns = _columns(context, query, statement.columns)
    refuse_whole_rows(query)
    options, check_option = _options(statement)
    if check_option is not None and (why := not_updatable(query, context.environment, True)) is not None:
        message = "WITH CHECK OPTION is supported only on automatically updatable views"
        raise SqlError("0A000", message, hint=why)
    for oid in analyzed.relations:
        if isinstance(context.catalog.get(oid), Table | View):
            context.lock_relation(oid, "access share")
    context.lock_name(schema.oid, relation.name)
    existing = context.catalog.relation(schema.oid, relation.name)
    text = deparse_query(query, context.catalog, names=[column.name for column in columns])
    sources = sources_of(text, context.environment)
    if existing is None:
        view = View(
            context.new_oid(), schema.oid, relation.name, columns, text, context.user_oid,
            check_option, analyzed.relations, options=options, sources=sources,
        )  # fmt: skip
        context.change({view.oid: view})
        return "CREATE VIEW"
    if not statement.replace:
        raise SqlError("42P07", f'relation "{relation.name}" already exists')
    if not isinstance(existing, View):
        raise SqlError("42809", f'"{relation.name}" is not a view')
    ownership.must_own(context, existing)
    context.lock_relation(existing.oid, "access exclusive")
    _must_extend(context, existing, columns)
    kept = existing.columns
    changed = replace(
        existing, columns=(*kept, *columns[len(kept) :]), query=text, sources=sources,
        depends_on=analyzed.relations, options=options, check_option=check_option,
    )  # fmt: skip
    context.change({existing.oid: changed})
    return "CREATE VIEW"


def alter_default(context: DdlContext, view: View, command: ast.AlterTableCmd) -> View:
    """ALTER COLUMN ... SET and DROP DEFAULT: the changed view. Raises 42703, 42804."""
    column = next((item for item in view.columns if item.name == command.name), None)
    if column is None:
        raise SqlError("42703", f'column "{command.name}" of relation "{view.name}" does not exist')
    context.lock_relation(view.oid, "access exclusive")
    context.refuse_in_use(view, "ALTER TABLE")
    text = None
    if command.action == "set_default":
        assert command.definition is not None
        text = default_text(context, command.definition, column.type)
    columns = tuple(replace(item, default=text) if item is column else item for item in view.columns)
    changed = replace(view, columns=columns)
    context.change({view.oid: changed})
    return changed


def _reads_temporary(context: DdlContext, relations: Iterable[int]) -> bool:
    """isQueryUsingTempRelation: a view on a temporary relation is temporary."""
    found = [context.catalog.get(oid) for oid in relations]
    schemas = {item.schema for item in found if isinstance(item, Table | View | SequenceObject)}
    return any(context.catalog.schema_name(schema).startswith("pg_temp_") for schema in schemas)


def _recursive(statement: ast.ViewStmt) -> ast.ViewStmt:
    """makeRecursiveViewSelect: CREATE RECURSIVE VIEW v (a) AS q is a view over WITH RECURSIVE v (a) AS (q)."""
    if statement.check_option is not None:
        raise SqlError("0A000", "WITH CHECK OPTION not supported on recursive views")
    name = statement.relation.name
    targets = tuple(ast.ResTarget(ast.ColumnRef((column,)), None) for column in statement.columns)
    cte = ast.CommonTableExpr(name, statement.columns, statement.query)
    query = ast.SelectStmt(targets, (ast.RangeVar(None, None, name),), with_clause=ast.WithClause(True, (cte,)))
    return replace(statement, query=query, recursive=False)


def _options(statement: ast.ViewStmt) -> tuple[tuple[tuple[str, str], ...], str | None]:
    """The options to store, and the check option, which may be one of them. Raises 22023."""
    kept = []
    check_option = statement.check_option
    for name, value in statement.options:
        if name == "check_option":
            if value.lower() not in ("local", "cascaded"):
                message = f'invalid value for enum option "check_option": {value}'
                raise SqlError("22023", message, detail='Valid values are "local" and "cascaded".')
            check_option = value.lower()
        elif name in ("security_barrier", "security_invoker"):
            if value.lower() not in _BOOLEANS:
                raise SqlError("22023", f'invalid value for boolean option "{name}": {value}')
            kept.append((name, value.lower() or "true"))
        else:
            raise SqlError("22023", f'unrecognized parameter "{name}"')
    return tuple(kept), check_option


_BOOLEANS = frozenset(("", "true", "false", "on", "off", "yes", "no", "1", "0"))


def _columns(context: DdlContext, query: tree.Query, wanted: tuple[str, ...]) -> tuple[Column, ...]:
    targets = query.output
    if len(wanted) > len(targets):
        raise SqlError("42601", "CREATE VIEW specifies more column names than columns")
    columns: list[Column] = []
    for number, target in enumerate(targets, 1):
        name = wanted[number - 1] if number <= len(wanted) else target.name
        if any(column.name == name for column in columns):
            raise SqlError("42701", f'column "{name}" specified more than once')
        if isinstance(target.expression, tree.Var) and target.expression.column == 0:
            not_supported("a view with a whole row as a column")
        columns.append(Column(number, name, target.expression.type))
    return with_collations(context, query, tuple(columns))


def with_collations(context: DdlContext, query: tree.Query, columns: tuple[Column, ...]) -> tuple[Column, ...]:
    """The columns of a view, with their collations where these differ from those of their types. Raises 42P22."""
    made = []
    for column, oid in zip(columns, output_collations(query, context.catalog), strict=True):
        typed = of_type(column.type.oid)
        if typed and not oid:
            raise indeterminate(f'view column "{column.name}"')
        made.append(column if oid == typed else replace(column, collation=oid))
    return tuple(made)


def refuse_whole_rows(query: tree.Query) -> None:
    """Raises 0A000 for a whole row in ROW or VALUES, because its text t.* would be expanded to columns."""
    for item in walk(query):
        lists: Iterable[tuple[tree.Expr, ...]] = ()
        if isinstance(item, tree.RangeValues):
            lists = item.rows
        elif isinstance(item, tree.RowExpr):
            lists = (item.elements,)
        if any(isinstance(cell, tree.Var) and cell.column == 0 for cells in lists for cell in cells):
            not_supported("a stored query with a whole row in ROW or VALUES")


def _must_extend(context: DdlContext, view: View, columns: tuple[Column, ...]) -> None:
    if len(columns) < len(view.columns):
        raise SqlError("42P16", "cannot drop columns from view")
    for old, new in zip(view.columns, columns, strict=False):
        if old.name != new.name:
            message = f'cannot change name of view column "{old.name}" to "{new.name}"'
            hint = "Use ALTER VIEW ... RENAME COLUMN ... to change name of view column instead."
            raise SqlError("42P16", message, hint=hint)
        if old.collation != new.collation and old.type == new.type:
            shown = [collation(context.catalog, item.collation or of_type(item.type.oid)).name for item in (old, new)]
            message = f'cannot change collation of view column "{old.name}" from "{shown[0]}" to "{shown[1]}"'
            raise SqlError("42P16", message)
        if old.type != new.type:
            types = [format_type(item.type.declared, item.type.typmod) for item in (old, new)]
            message = f'cannot change data type of view column "{old.name}" from {types[0]} to {types[1]}'
            raise SqlError("42P16", message)
