"""CREATE, ALTER and DROP of enums and domains.

A domain's conditions are stored as text over VALUE, like the checks of tables. When a type is dropped, its users are
found in the catalog (`users_of`): columns of tables, other domains, and views that return it or cast to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from catalog import types
from catalog.errors import SqlError
from catalog.extensions import available
from catalog.identifiers import join_names
from catalog.schema import (
    Column,
    Composite,
    Constraint,
    Domain,
    Enum,
    EnumLabel,
    ExtensionType,
    Role,
    Schema,
    SchemaObject,
    Table,
    UserRange,
    UserType,
    View,
)
from catalog.types.base import TypeRef
from catalog.types.enum import GAP, MAX_LABEL_BYTES, position_between
from engine.ddl import collations
from engine.ddl.context import DdlContext, ValidateConstraint
from engine.ddl.expressions import default_text, stored_text
from engine.ddl.ownership import must_own, new_owner, target_schema
from engine.ddl.rewrite_text import change_named_type
from engine.sql import ast, tree
from engine.sql.analyze import resolve_type
from engine.sql.analyze.domains import analyze_check, within
from engine.sql.analyze.views import stored_query
from engine.sql.parser import parse_expression
from engine.sql.tree_walk import walk

Reference = tuple[str, ...]


# ---- finding --------------------------------------------------------------------------------------------------------


def find_type(context: DdlContext, name: Reference, dropped: bool = False) -> UserType | None:
    """The user's type of that name. Raises 42501 for a built-in one, or 2BP01 if a superuser drops it."""
    environment = context.environment
    schema = name[-2] if len(name) > 1 else None
    found = environment.find_type(schema, name[-1])
    built_in = types.pg_type_by_name.get(name[-1]) if schema in (None, "pg_catalog") else None
    if built_in is not None and (found is None or not environment.type_among(environment.before_system, name[-1])):
        shown, user = types.format_type(built_in.oid), context.catalog.get(context.user_oid)
        if dropped and isinstance(user, Role) and user.superuser:
            raise SqlError("2BP01", f"cannot drop type {shown} because it is required by the database system")
        raise SqlError("42501", f"must be owner of type {shown}")
    if isinstance(found, ExtensionType):
        extension = next(
            item.name for item in environment.catalog.extensions.values() if available()[item.name].has(found.oid)
        )
        raise SqlError(
            "2BP01",
            f"cannot drop type {types.format_type(found.oid)} because extension {extension} requires it",
            hint=f"You can drop extension {extension} instead.",
        )
    return found


def type_named(context: DdlContext, name: Reference) -> UserType:
    """The user's type of that name. Raises 42704, and 42501 unless the user owns it."""
    found = find_type(context, name)
    if found is None:
        if len(name) > 1 and not context.environment.schema_oid(name[-2]):
            raise SqlError("3F000", f'schema "{name[-2]}" does not exist')
        raise SqlError("42704", f'type "{".".join(name)}" does not exist')
    must_own(context, found)
    return found


def _domain_named(context: DdlContext, name: Reference) -> Domain:
    found = type_named(context, name)
    if not isinstance(found, Domain):
        raise SqlError("42809", f"{types.format_type(found.oid)} is not a domain")
    return found


def place_of(context: DdlContext, name: Reference) -> tuple[Schema, str]:
    """The schema of a new type, in which its name is free and locked. Raises 42710, and 42P07 for the name of a
    relation."""
    relation = ast.RangeVar(None, name[-2] if len(name) > 1 else None, name[-1])
    schema = context.creation_schema(relation)
    refuse_if_taken(context, schema.oid, name[-1])
    return schema, name[-1]


def refuse_if_taken(context: DdlContext, schema: int, name: str) -> None:
    context.lock_name(schema, name)
    relation = context.catalog.relation(schema, name)
    taken = context.catalog.user_type(schema, name) or context.catalog.extension_type(schema, name)
    if taken is not None or isinstance(relation, Table | View):
        raise SqlError("42710", f'type "{name}" already exists')


# ---- enums ----------------------------------------------------------------------------------------------------------


def create_enum(context: DdlContext, statement: ast.CreateEnumStmt) -> str:
    """CREATE TYPE ... AS ENUM. Raises 42710, 42602 (a label of more than 63 bytes), 23505 (the same label twice)."""
    schema, name = place_of(context, statement.name)
    labels: list[EnumLabel] = []
    for number, label in enumerate(statement.labels, 1):
        _check_label(label)
        if any(item.name == label for item in labels):
            raise SqlError(
                "23505",
                'duplicate key value violates unique constraint "pg_enum_typid_label_index"',
                detail=f"Key (enumtypid, enumlabel)=({context.new_oid()}, {label}) already exists.",
            )
        labels.append(EnumLabel(context.new_oid(), label, number * GAP))
    item = Enum(context.new_oid(), schema.oid, name, context.new_oid(), tuple(labels), context.user_oid)
    context.change({item.oid: item})
    return "CREATE TYPE"


def _check_label(label: str) -> None:
    if len(label.encode()) > MAX_LABEL_BYTES:
        raise SqlError(
            "42602", f'invalid enum label "{label}"', detail=f"Labels must be {MAX_LABEL_BYTES} bytes or less."
        )


def alter_enum(context: DdlContext, statement: ast.AlterEnumStmt) -> str:
    """ADD VALUE, RENAME VALUE. Raises 42710, 22023, 42602, 42809."""
    item = type_named(context, statement.name)
    if not isinstance(item, Enum):
        raise SqlError("42809", f"{types.format_type(item.oid)} is not an enum")
    context.lock_name(item.oid, "")
    item = type_named(context, statement.name)
    assert isinstance(item, Enum)
    _check_label(statement.new)
    taken = any(label.name == statement.new for label in item.labels)
    if statement.old is not None:
        labels = tuple(
            replace(label, name=statement.new) if label.name == statement.old else label for label in item.labels
        )
        if not any(label.name == statement.old for label in item.labels):
            raise SqlError("22023", f'"{statement.old}" is not an existing enum label')
        if taken:
            raise SqlError("42710", f'enum label "{statement.new}" already exists')
        context.change({item.oid: replace(item, labels=labels)})
        return "ALTER TYPE"
    if taken:
        if not statement.if_not_exists:
            raise SqlError("42710", f'enum label "{statement.new}" already exists')
        message = f'enum label "{statement.new}" already exists, skipping'
        context.notice(SqlError("42710", message, severity="NOTICE"))
        return "ALTER TYPE"
    context.change({item.oid: replace(item, labels=_with_label(context, item, statement))})
    return "ALTER TYPE"


def _with_label(context: DdlContext, item: Enum, statement: ast.AlterEnumStmt) -> tuple[EnumLabel, ...]:
    at = len(item.labels)
    if statement.place:
        found = [number for number, label in enumerate(item.labels) if label.name == statement.neighbor]
        if not found:
            raise SqlError("22023", f'"{statement.neighbor}" is not an existing enum label')
        at = found[0] + (statement.place == "after")
    before = item.labels[at - 1].position if at else None
    after = item.labels[at].position if at < len(item.labels) else None
    label = EnumLabel(context.new_oid(), statement.new, position_between(before, after))
    return (*item.labels[:at], label, *item.labels[at:])


# ---- domains --------------------------------------------------------------------------------------------------------


def create_domain(context: DdlContext, statement: ast.CreateDomainStmt) -> str:
    """CREATE DOMAIN. Raises 42710, 42809 (over a pseudo-type), 42601 (constraints that contradict each other)."""
    schema, name = place_of(context, statement.name)
    try:
        item = _new_domain(context, statement, schema, name)
    except SqlError as error:
        error.position = None  # as in PostgreSQL
        raise
    context.change({item.oid: item})
    return "CREATE DOMAIN"


def _new_domain(context: DdlContext, statement: ast.CreateDomainStmt, schema: Schema, name: str) -> Domain:
    base = resolve_type(statement.type, context.environment)
    if types.lookup(base.oid).category == "P":
        raise SqlError("42804", f'"{types.format_type(base.oid)}" is not a valid base type for a domain')
    item = Domain(
        context.new_oid(), schema.oid, name, context.new_oid(), TypeRef(base.oid, base.typmod), base.declared,
        collation=collations.column_collation(context, statement.collation, base, statement.location),
        owner=context.user_oid,
    )  # fmt: skip
    stated: set[str] = set()
    for constraint in statement.constraints:
        item = _with_constraint(context, item, constraint, stated)
    return item


def _with_constraint(context: DdlContext, item: Domain, constraint: ast.ConstraintDef, stated: set[str]) -> Domain:
    kind = constraint.kind
    if kind == "default":
        if kind in stated:
            raise SqlError("42601", "multiple default expressions")
        stated.add(kind)
        assert constraint.expression is not None
        return replace(item, default=default_text(context, constraint.expression, item.type))
    if kind in ("null", "not_null"):
        if {"null", "not_null"} - {kind} & stated:
            raise SqlError("42601", "conflicting NULL/NOT NULL constraints")
        stated.add(kind)
        return replace(item, not_null=kind == "not_null")
    if kind == "check":
        if constraint.no_inherit:
            raise SqlError("42P16", "check constraints for domains cannot be marked NO INHERIT")
        return replace(item, checks=(*item.checks, _check(context, item, constraint)))
    words = {
        "primary": "primary key constraints", "unique": "unique constraints", "foreign": "foreign key constraints",
        "exclusion": "exclusion constraints",
    }  # fmt: skip
    if kind in words:
        raise SqlError("42601", f"{words[kind]} not possible for domains")
    raise SqlError("42601", "specifying GENERATED not supported for domains")


def _check(context: DdlContext, item: Domain, constraint: ast.ConstraintDef) -> Constraint:
    assert constraint.expression is not None
    name = constraint.name or _free_name(item, join_names(item.name, "", "check"))
    if any(other.name == name for other in item.checks):
        raise SqlError("42710", f'constraint "{name}" for domain "{item.name}" already exists')
    found = analyze_check(constraint.expression, context.environment, item.type)
    return Constraint(
        context.new_oid(), name, "c", check=stored_text(context, found), validated=not constraint.not_valid
    )


def _free_name(item: Domain, wanted: str) -> str:
    used = {other.name for other in item.checks}
    name, number = wanted, 0
    while name in used:
        number += 1
        name = f"{wanted}{number}"
    return name


def alter_domain(context: DdlContext, statement: ast.AlterDomainStmt) -> str:
    """ALTER DOMAIN. Stored values must satisfy a new condition: 23502, 23514."""
    item = _domain_named(context, statement.name)
    context.lock_name(item.oid, "")
    action = statement.action
    if action == "set_default":
        assert statement.definition is not None
        item = replace(item, default=default_text(context, statement.definition, item.type))
    elif action == "drop_default":
        item = replace(item, default=None)
    elif action in ("set_not_null", "drop_not_null"):
        item = replace(item, not_null=action == "set_not_null")
        if item.not_null:
            _validate(context, item, None)
    elif action == "add":
        item = _with_added(context, item, statement)
    else:
        item = _with_changed(context, item, statement)
    context.change({item.oid: item})
    return "ALTER DOMAIN"


def _with_added(context: DdlContext, item: Domain, statement: ast.AlterDomainStmt) -> Domain:
    constraint = statement.definition
    assert isinstance(constraint, ast.ConstraintDef)
    if constraint.kind != "check":
        return _with_constraint(context, item, constraint, set())
    check = _check(context, item, constraint)
    if check.validated:
        _validate(context, item, check)
    return replace(item, checks=(*item.checks, check))


def _with_changed(context: DdlContext, item: Domain, statement: ast.AlterDomainStmt) -> Domain:
    """DROP, RENAME and VALIDATE CONSTRAINT."""
    name = statement.constraint
    found = next((check for check in item.checks if check.name == name), None)
    if found is None:
        message = f'constraint "{name}" of domain "{item.name}" does not exist'
        if not statement.if_exists:
            raise SqlError("42704", message)
        context.notice(SqlError("00000", f"{message}, skipping", severity="NOTICE"))
        return item
    if statement.action == "drop_constraint":
        return replace(item, checks=tuple(check for check in item.checks if check is not found))
    if statement.action == "rename_constraint":
        if any(check.name == statement.new_name for check in item.checks):
            raise SqlError("42710", f'constraint "{statement.new_name}" for domain "{item.name}" already exists')
        changed = replace(found, name=statement.new_name)
    else:
        if not found.validated:
            _validate(context, item, found)
        changed = replace(found, validated=True)
    return replace(item, checks=tuple(changed if check is found else check for check in item.checks))


def _validate(context: DdlContext, item: Domain, check: Constraint | None) -> None:
    """Checks every stored value of the domain against a new condition, or against NOT NULL without one."""
    catalog = context.catalog
    domains = {item.oid}
    while more := {
        other.oid
        for other in catalog.objects.values()
        if isinstance(other, Domain) and other.base_oid in domains and other.oid not in domains
    }:
        domains |= more
    arrays = {other.array_oid for oid in domains if isinstance(other := catalog.objects[oid], Domain)}
    for table in list(catalog.tables()):
        for column in table.columns:
            if column.type.domain in arrays:
                entry = context.catalog.user_types[column.type.domain]
                used = types.type_row(entry.row.element)
                place = f"{table.name}.{column.name}"
                message = f'cannot alter type "{used.name if used else item.name}" because column "{place}" uses it'
                raise SqlError("0A000", message)
            elif within(context.catalog, column.type, domains):
                place = f"{table.name}.{column.name}"
                raise SqlError("0A000", f'cannot alter type "{item.name}" because column "{place}" uses it')
            if column.type.domain in domains:
                context.lock_relation(table.oid, "share")
                kind = "n" if check is None else "c"
                job = Constraint(0, "", kind, (column.number,), check=_over_column(context, table, column, check))
                context.add_job(ValidateConstraint(table, job, of_domain=True))


def _over_column(context: DdlContext, table: Table, column: Column, check: Constraint | None) -> str | None:
    """The domain's condition, with the column in place of VALUE."""
    if check is None or check.check is None:
        return None
    value = tree.Var(0, column.number, column.type)
    found = analyze_check(parse_expression(check.check), context.environment, column.type, value)
    return stored_text(context, found, table)


# ---- both -----------------------------------------------------------------------------------------------------------


def alter_type(context: DdlContext, statement: ast.AlterTypeStmt) -> str:
    """RENAME TO, OWNER TO, SET SCHEMA. Raises 42710, 42704, 3F000, 42809."""
    if statement.kind == "collation":
        return collations.alter(context, statement)
    tag = f"ALTER {statement.kind.upper()}"
    item = _domain_named(context, statement.name) if statement.kind == "domain" else type_named(context, statement.name)
    context.lock_name(item.oid, "")
    if statement.action == "owner":
        role = new_owner(context, item, statement.value)
        context.change({item.oid: replace(item, owner=role.oid)})
        return tag
    if statement.action == "rename":
        refuse_if_taken(context, item.schema, statement.value)
        change_named_type(context, item, replace(item, name=statement.value))
        return tag
    schema = target_schema(context, item.schema, item.name, statement.value)
    if schema.oid != item.schema:
        refuse_if_taken(context, schema.oid, item.name)
        change_named_type(context, item, replace(item, schema=schema.oid))
    return tag


def uses(type_: TypeRef, item: UserType) -> bool:
    """Whether values of `type_` have the user's type, or are arrays of it."""
    return type_.declared in (item.oid, item.array_oid)


def _views_with(context: DdlContext, item: UserType) -> Iterator[View]:
    """The views whose query has an expression of the type."""

    for view in list(context.catalog.by_kind.get(View, ())):
        assert isinstance(view, View)
        if any(uses(column.type, item) for column in view.columns):
            yield view
        elif item.name in view.query:
            found = stored_query(view, context.environment)
            if any(
                isinstance(type_ := getattr(node, "type", None), TypeRef) and uses(type_, item) for node in walk(found)
            ):
                yield view


def users_of(context: DdlContext, item: UserType) -> Iterator[tuple[SchemaObject, Column | None]]:
    """The dependents of a type: (table, column), (domain, None), (range type, None), (view, None)."""
    for found in context.catalog.objects.values():
        if isinstance(found, Domain | UserRange):
            over = found.base_oid if isinstance(found, Domain) else found.subtype
            if over in (item.oid, item.array_oid):
                yield found, None
        elif isinstance(found, Composite):
            for column in found.columns:
                if uses(column.type, item):
                    yield found, column
    for table in context.catalog.tables():
        for column in table.columns:
            if uses(column.type, item):
                yield table, column
    for view in _views_with(context, item):
        yield view, None


def comment(context: DdlContext, kind: str, name: Reference, part: str, text: str | None) -> str:
    """COMMENT ON TYPE, DOMAIN, CONSTRAINT ... ON DOMAIN."""
    item = type_named(context, name) if kind == "type" else _domain_named(context, name)
    if kind != "domain constraint":
        context.change({item.oid: replace(item, comment=text)})
        return "COMMENT"
    assert isinstance(item, Domain)
    if not any(check.name == part for check in item.checks):
        raise SqlError("42704", f'constraint "{part}" for domain "{item.name}" does not exist')
    checks = tuple(replace(check, comment=text) if check.name == part else check for check in item.checks)
    context.change({item.oid: replace(item, checks=checks)})
    return "COMMENT"
