"""Stored expressions after a rename: parsed with the old names, deparsed with the new ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import cast

from catalog.catalog import Catalog
from catalog.errors import not_supported
from catalog.extensions import available
from catalog.identifiers import quote_identifier
from catalog.schema import Column, Domain, Index, Routine, Schema, SchemaObject, Sequence, Table, UserType, View
from catalog.types.base import TypeRef
from catalog.types.oids import REGCLASS
from engine.ddl.code_users import users_of_code
from engine.ddl.context import DdlContext
from engine.ddl.expressions import stored_text
from engine.ddl.policies import policies_naming, policy_rewrites
from engine.ddl.statistics_objects import with_names
from engine.ddl.triggers import with_columns
from engine.sql import tree
from engine.sql.analyze import analyze_expression
from engine.sql.analyze.domains import analyze_check
from engine.sql.analyze.typeinfo import BOOL_REF
from engine.sql.analyze.views import sources_of, stored_query
from engine.sql.deparse import deparse_query
from engine.sql.parser import parse_expression
from engine.sql.tree_walk import walk


def refuse_used_by_views(context: DdlContext, oid: int, what: str, renamed: bool = False) -> None:
    """0A000 if a function's body of SQL statements uses the relation, because its text contains the name. The same
    holds for views if more than the name changes. For a mere rename, only names in constants of views are refused."""
    for item in context.catalog.objects.values():
        if isinstance(item, View | Table | Routine) and oid in item.depends_on:
            if renamed and not isinstance(item, Routine) and item.sources and not _names_constant(context, item, oid):
                continue
            word = "function" if isinstance(item, Routine) else "view"
            hint = f"Drop the {word}, rename, and create it again."
            not_supported(f"{what} while {word} {item.name} uses it", hint=hint)


def _names_constant(context: DdlContext, item: View | Table, oid: int) -> bool:
    """Whether the relation is a constant of type regclass in the view's query, whose text contains its name."""
    return "regclass" in (item.query or "") and any(
        isinstance(found, tree.Const) and found.type.oid == REGCLASS and found.value == oid
        for found in walk(stored_query(item, context.environment))
    )


def _refuse_used_code(context: DdlContext, schema: Schema, what: str) -> None:
    """0A000 for users of the functions and types in a renamed schema, because stored texts contain the schema's
    name."""
    catalog = context.catalog
    brought = [available()[item.name] for item in catalog.extensions.values() if item.schema == schema.oid]
    routines = [item for items in catalog.routines.values() for item in items]
    own = {item.oid for item in routines if item.schema == schema.oid}
    if not brought and not own:
        return
    mark = quote_identifier(schema.name) + "."
    used = any(users_of_code(context, schema.name, lambda oid: oid in own or any(item.has(oid) for item in brought)))
    if used or any(mark in text for item in routines for text in item.statements or ()):
        not_supported(f"{what} while stored expressions use its functions")


def rename_relations(context: DdlContext, changes: dict[int, SchemaObject | None], what: str) -> None:
    """Changes the names or schemas of relations. Defaults that draw from them are rewritten. Views over them are
    refused (0A000), and so are views over a schema that is renamed as a whole."""
    renamed = set(changes)
    for item in context.catalog.objects.values():
        if isinstance(item, Table | View | Sequence) and item.schema in renamed:
            renamed.add(item.oid)
    for oid in renamed:
        refuse_used_by_views(context, oid, what, renamed=True)
    for oid in changes:
        if isinstance(schema := context.catalog.get(oid), Schema):
            _refuse_used_code(context, schema, what)
    follow = [
        (relation.oid, column.number, found)
        for relation in tables_and_views(context.catalog)
        for column in relation.columns
        if (found := default_over(context, column, renamed)) is not None
    ]
    rewrites = policy_rewrites(context, policies_naming(renamed))
    context.change(changes)
    for rewrite in rewrites:
        rewrite()
    for oid, number, found in follow:
        relation = context.catalog.get(oid)
        assert isinstance(relation, Table | View)
        text = stored_text(context, found)
        columns = tuple(replace(item, default=text) if item.number == number else item for item in relation.columns)
        context.change({oid: replace(relation, columns=columns)})


def tables_and_views(catalog: Catalog) -> Iterator[Table | View]:
    """The relations whose columns may have defaults, in the order of their OIDs within their kinds."""
    for kind in (Table, View):
        for item in catalog.by_kind.get(kind, ()):
            assert isinstance(item, Table | View)
            yield item


def default_over(context: DdlContext, column: Column, oids: set[int]) -> tree.Expr | None:
    """The column's default, if it has one of these relations as a constant of type regclass."""
    if column.default is None or "regclass" not in column.default:
        return None
    found = analyze_expression(
        parse_expression(column.default), context.environment, None, column.type, "DEFAULT expressions"
    )
    named = any(
        isinstance(item, tree.Const) and item.type.oid == REGCLASS and item.value in oids for item in walk(found)
    )
    return found if named else None


def renamed_texts(context: DdlContext, old: Table, new: Table, column: int) -> dict[int, SchemaObject | None]:
    """`new` with its checks, generated columns and index expressions deparsed with the new names."""
    refuse_used_by_views(context, old.oid, f"renaming a column of {old.name}", renamed=True)

    def rewritten(text: str, target: TypeRef | None, kind: str) -> str:
        found = analyze_expression(parse_expression(text), context.environment, old, target, kind)
        return stored_text(context, found, new)

    constraints = tuple(
        replace(item, check=rewritten(item.check, BOOL_REF, "check constraints")) if item.check is not None else item
        for item in new.constraints
    )
    columns = tuple(
        replace(item, generated=rewritten(item.generated, item.type, "column generation expressions"))
        if item.generated is not None
        else item
        for item in new.columns
    )
    changed = replace(new, constraints=constraints, columns=columns, triggers=with_columns(context, old, new))
    if new.partitioning is not None:
        parts = tuple(
            replace(item, expression=rewritten(item.expression, None, "partition key expressions"))
            if item.expression is not None
            else item
            for item in new.partitioning.columns
        )
        changed = replace(changed, partitioning=replace(new.partitioning, columns=parts))
    changes: dict[int, SchemaObject | None] = {new.oid: changed, **with_names(context, old, new)}
    for oid in new.indexes:
        index = context.catalog.index(oid)
        keys = tuple(
            replace(item, expression=rewritten(item.expression, None, "index expressions"))
            if item.expression is not None
            else item
            for item in index.columns
        )
        predicate = rewritten(index.predicate, BOOL_REF, "index predicates") if index.predicate is not None else None
        if keys != index.columns or predicate != index.predicate:
            changes[oid] = replace(index, columns=keys, predicate=predicate)
    return changes


# ---- another name for a type ----------------------------------------------------------------------------------------

Rewrite = Callable[[], None]


def change_named_type(context: DdlContext, old: UserType, new: UserType) -> None:
    """Changes the name or schema of a type. Stored expressions and views with the old name are parsed before the change
    and deparsed after it."""
    follow = policy_rewrites(context, lambda _, policy: old.name in f"{policy.using} {policy.check}")
    kinds = context.catalog.by_kind
    for item in (*kinds.get(Table, ()), *kinds.get(Domain, ()), *kinds.get(View, ())):
        if isinstance(item, Table):
            follow += _table_rewrites(context, item, old.name)
        elif isinstance(item, Domain) and item.oid != old.oid:
            follow += _domain_rewrites(context, item, old.name)
        elif isinstance(item, View) and old.name in item.query:
            follow.append(_view_rewrite(context, item))
    if isinstance(old, Domain):
        follow += _domain_rewrites(context, old, old.name)
    context.change({new.oid: new})
    context.environment.make_current()
    for rewrite in follow:
        rewrite()


def _reprint(context: DdlContext, text: str | None, name: str, table: Table | None, kind: str) -> Callable[[], str]:
    """Parses a stored expression now, and returns the function that deparses it later."""
    if text is None or name not in text:
        return lambda: cast(str, text)
    found = analyze_expression(parse_expression(text), context.environment, table, None, kind)
    return lambda: stored_text(context, found, table)


def _table_rewrites(context: DdlContext, table: Table, name: str) -> list[Rewrite]:
    found: list[Rewrite] = []
    defaults = {
        column.number: _reprint(context, column.default, name, None, "DEFAULT expressions") for column in table.columns
    }
    generated = {
        column.number: _reprint(context, column.generated, name, table, "column generation expressions")
        for column in table.columns
    }
    checks = {item.oid: _reprint(context, item.check, name, table, "check constraints") for item in table.constraints}

    def rewrite() -> None:
        current = context.catalog.table(table.oid)
        columns = tuple(
            replace(column, default=defaults[column.number](), generated=generated[column.number]())
            for column in current.columns
        )
        constraints = tuple(replace(item, check=checks[item.oid]()) for item in current.constraints)
        if columns != current.columns or constraints != current.constraints:
            context.change({table.oid: replace(current, columns=columns, constraints=constraints)})

    found.append(rewrite)
    for oid in table.indexes:
        found.append(_index_rewrite(context, table, context.catalog.index(oid), name))
    return found


def _index_rewrite(context: DdlContext, table: Table, index: Index, name: str) -> Rewrite:
    keys = [_reprint(context, part.expression, name, table, "index expressions") for part in index.columns]
    predicate = _reprint(context, index.predicate, name, table, "index predicates")

    def rewrite() -> None:
        columns = tuple(replace(part, expression=key()) for part, key in zip(index.columns, keys, strict=True))
        changed = replace(index, columns=columns, predicate=predicate())
        if changed != index:
            context.change({index.oid: changed})

    return rewrite


def _domain_rewrites(context: DdlContext, item: Domain, name: str) -> list[Rewrite]:
    default = _reprint(context, item.default, name, None, "DEFAULT expressions")
    checks = [
        (check.oid, analyze_check(parse_expression(check.check or ""), context.environment, item.type))
        for check in item.checks
    ]

    def rewrite() -> None:
        current = context.catalog.objects[item.oid]
        assert isinstance(current, Domain)
        texts = {oid: stored_text(context, found) for oid, found in checks}
        changed = replace(
            current,
            default=default(),
            checks=tuple(replace(check, check=texts[check.oid]) for check in current.checks),
        )
        if changed != current:
            context.change({item.oid: changed})

    return [rewrite]


def _view_rewrite(context: DdlContext, view: View) -> Rewrite:
    query = stored_query(view, context.environment)

    def rewrite() -> None:
        names = [column.name for column in view.columns]
        text = deparse_query(query, context.catalog, names=names)
        if text != view.query:
            sources = sources_of(text, context.environment)
            context.change({view.oid: replace(view, query=text, sources=sources)})

    return rewrite
