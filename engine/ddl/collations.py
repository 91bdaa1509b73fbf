"""CREATE, ALTER and DROP COLLATION, and the collations of columns, domains and indexes.

Only ICU collations and copies of existing ones can be created. Collations of the C library differ between machines, and
the machines of a cluster need not agree. When a collation is dropped, its users are found in the catalog.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from catalog import collations, icu
from catalog.errors import SqlError, not_supported
from catalog.identifiers import quote_identifier
from catalog.schema import (
    PG_CATALOG_OID,
    Collation,
    Composite,
    Domain,
    Index,
    SchemaObject,
    Table,
    UserRange,
    View,
)
from catalog.system import derived_oids
from catalog.types import format_type, oids
from catalog.types.base import TypeRef
from engine.ddl.code_users import own_objects
from engine.ddl.context import DdlContext
from engine.ddl.ownership import must_own, must_own_to_drop, must_rename, new_owner, target_schema
from engine.sql import ast, tree
from engine.sql.analyze.collation_needs import texts_of
from engine.sql.analyze.collations import collation_of
from engine.sql.analyze.references import references
from engine.sql.analyze.views import stored_query

_BYTES = ("C", "POSIX")
_SPELLINGS = {"true": True, "on": True, "1": True, "yes": True, "false": False, "off": False, "0": False, "no": False}
_OPTIONS = ("locale", "lc_collate", "lc_ctype", "provider", "deterministic", "version", "rules")


def column_collation(context: DdlContext, name: tuple[str, ...], type_: TypeRef, location: int = -1) -> int:
    """The collation of a new column: from COLLATE, from its domain, or 0 for its type's. Raises 42704, 42804."""
    typed = collations.of_type(type_.oid)
    if not name:
        domain = context.catalog.objects.get(type_.domain)
        return domain.collation if isinstance(domain, Domain) else 0
    found = context.environment.find_collation(name, location)
    if not typed:
        raise SqlError(
            "42804",
            f"collations are not supported by type {format_type(type_.oid)}",
            position=location + 1 if location >= 0 else None,
        )
    if type_.oid == oids.CITEXT and collations.rules(context.catalog, found.oid) is not None:
        not_supported("citext under an ICU collation")
    return 0 if found.oid == typed else found.oid


def index_collation(context: DdlContext, table: Table, name: tuple[str, ...], type_: TypeRef, value: tree.Expr) -> int:
    """The collation of an index column over `value`: its own, or that of the value. Raises 42704, 42804, 42P22."""
    typed = collations.of_type(type_.oid)
    if name:
        return column_collation(context, name, type_) or typed
    if not typed:
        return 0
    derived = collation_of(value, context.catalog, table)
    if not derived.oid or derived.other:
        raise SqlError(
            "42P22",
            "could not determine which collation to use for index expression",
            hint="Use the COLLATE clause to set the collation explicitly.",
        )
    return 0 if derived.oid == typed else derived.oid


def define(context: DdlContext, statement: ast.CollationStmt) -> str:
    """CREATE COLLATION. Raises 42710, 42601, 42P17, 0A000, 22023 (a locale that ICU does not have)."""
    relation = ast.RangeVar(None, statement.name[-2] if len(statement.name) > 1 else None, statement.name[-1])
    schema, name = context.creation_schema(relation), statement.name[-1]
    context.lock_name(schema.oid, name)
    found = context.catalog.collations.get((schema.oid, name))
    if found is not None or (schema.oid == PG_CATALOG_OID and name in collations.built_in_names()):
        message = f'collation "{name}" already exists'
        if not statement.if_not_exists:
            raise SqlError("42710", message)
        context.notice(SqlError("42710", f"{message}, skipping", severity="NOTICE"))
        return "CREATE COLLATION"
    if statement.source:
        source = context.environment.find_collation(statement.source)
        if source.provider == "d":
            raise SqlError("42P17", 'collation "default" cannot be copied')
        fresh = Collation(context.new_oid(), schema.oid, name, owner=context.user_oid)
        item = replace(fresh, locale=source.locale, deterministic=source.deterministic, provider=source.provider)
    else:
        item = _of_options(statement, Collation(context.new_oid(), schema.oid, name, owner=context.user_oid))
    if item.provider == collations.ICU:
        icu.sort_key_maker(item.locale)
        item = replace(item, version=icu.version_of(item.locale))
    context.change({item.oid: item})
    return "CREATE COLLATION"


def _of_options(statement: ast.CollationStmt, item: Collation) -> Collation:
    given: dict[str, str] = {}
    for name, value in statement.options:
        if name in given:
            raise SqlError("42601", "conflicting or redundant options")
        if name not in _OPTIONS:
            raise SqlError("42601", f'collation attribute "{name}" not recognized')
        given[name] = value
    if "locale" in given and ("lc_collate" in given or "lc_ctype" in given):
        detail = "LOCALE cannot be specified together with LC_COLLATE or LC_CTYPE."
        raise SqlError("42601", "conflicting or redundant options", detail=detail)
    if "rules" in given:
        not_supported("CREATE COLLATION with RULES")
    provider = given.get("provider", "libc").lower()
    if provider not in ("icu", "libc"):
        raise SqlError("42P17", f"unrecognized collation provider: {given['provider']}")
    word = given.get("deterministic", "true").lower()
    if word not in _SPELLINGS:
        raise SqlError("42601", "deterministic requires a Boolean value")
    deterministic = _SPELLINGS[word]
    if provider == "libc":
        return _of_libc(given, deterministic, item)
    if "locale" not in given:
        raise SqlError("42P17", 'parameter "locale" must be specified')
    return replace(item, locale=given["locale"], deterministic=deterministic)


def _of_libc(given: dict[str, str], deterministic: bool, item: Collation) -> Collation:
    locale = given.get("locale")
    for name in ("lc_collate", "lc_ctype"):
        value = given.get(name, locale)
        if value is None:
            raise SqlError("42P17", f'parameter "{name}" must be specified')
        if value not in _BYTES:
            not_supported(f'libc collation "{value}" (use provider = icu)')
        locale = value
    if not deterministic:
        raise SqlError("0A000", "nondeterministic collations not supported with this provider")
    return replace(item, locale=locale or "C", provider="c")


def find(context: DdlContext, name: tuple[str, ...], drop: bool = False) -> Collation:
    """The user's collation of that name. Raises 42704, and 42501 for a built-in one or another owner's."""
    found = context.environment.find_collation(name)
    if found.oid not in context.catalog.objects:
        raise SqlError("42501", f"must be owner of collation {found.name}")
    if drop:
        must_own_to_drop(context, found)
    else:
        must_own(context, found)
    return found


def to_drop(context: DdlContext, name: tuple[str, ...]) -> Collation:
    """The collation to drop. Raises 2BP01 for a built-in one."""
    found = context.environment.find_collation(name)
    if found.oid not in context.catalog.objects and context.is_superuser:
        shown = quote_identifier(found.name)
        raise SqlError("2BP01", f"cannot drop collation {shown} because it is required by the database system")
    return find(context, name, drop=True)


def alter(context: DdlContext, statement: ast.AlterTypeStmt) -> str:
    """ALTER COLLATION RENAME TO, OWNER TO, SET SCHEMA, REFRESH VERSION. Raises 42710, 42704, 3F000, 42501."""
    tag = "ALTER COLLATION"
    item = find(context, statement.name)
    context.lock_name(item.oid, "")
    if statement.action == "refresh":
        version = collations.version(item) or ""
        text = (
            "version has not changed"
            if version == item.version
            else f"changing version from {item.version} to {version}"
        )
        context.notice(SqlError("00000", text, severity="NOTICE"))
        context.change({item.oid: replace(item, version=version)})
        return tag
    if statement.action == "owner":
        context.change({item.oid: replace(item, owner=new_owner(context, item, statement.value).oid)})
        return tag
    schema, name = item.schema, statement.value
    if statement.action == "schema":
        schema, name = target_schema(context, item.schema, item.name, statement.value).oid, item.name
        if schema == item.schema:
            return tag
    else:
        must_rename(context, item)
    context.lock_name(schema, name)
    if (schema, name) in context.catalog.collations:
        shown = context.catalog.schema_name(schema)
        raise SqlError("42710", f'collation "{name}" already exists in schema "{shown}"')
    for user, _ in users(context, item):
        if isinstance(user, View) or _in_texts(user, item):
            not_supported(f'renaming collation "{item.name}", which the text of {user.name} names')
    context.change({item.oid: replace(item, schema=schema, name=name)})
    return tag


def _in_texts(user: SchemaObject, item: Collation) -> bool:
    """Whether an expression that is stored as text uses the collation."""
    name = f"COLLATE {quote_identifier(item.name)}"
    schema_free = f".{quote_identifier(item.name)}"
    return any(name in text or schema_free in text for text in _texts_of(user))


def _texts_of(user: SchemaObject) -> Iterator[str]:
    if isinstance(user, Table):
        yield from texts_of(user)
        if user.partitioning is not None:
            yield from (part.expression for part in user.partitioning.columns if part.expression)
        if user.query:
            yield user.query
    elif isinstance(user, Index):
        yield from (column.expression for column in user.columns if column.expression)
        if user.predicate:
            yield user.predicate
    elif isinstance(user, Domain):
        yield from (item.check for item in user.checks if item.check)
    elif isinstance(user, View):
        yield user.query


def comment(context: DdlContext, name: tuple[str, ...], text: str | None) -> str:
    """COMMENT ON COLLATION."""
    item = find(context, name)
    context.change({item.oid: replace(item, comment=text)})
    return "COMMENT"


def users(context: DdlContext, item: Collation) -> Iterator[tuple[SchemaObject, int]]:
    """The dependents of a collation: (object, number of the column or 0). Other databases have collations of their
    own."""
    for other in own_objects(context):
        if isinstance(other, Table | Composite | View):
            for column in other.columns:
                if column.collation == item.oid:
                    yield other, column.number
        if _names(context, other, item):
            yield other, 0


def _names(context: DdlContext, other: SchemaObject, item: Collation) -> bool:
    """Whether an object, or an expression in it, uses the collation."""
    if isinstance(other, View):
        return "COLLATE" in other.query and _reads(context, other, item)
    if isinstance(other, Index):
        table = context.catalog.table(other.table)
        for column in other.columns:
            of_table = column.number and table.column_by_number(column.number).collation == item.oid
            if column.collation == item.oid and not of_table:
                return True
    return (isinstance(other, Domain | UserRange) and other.collation == item.oid) or _in_texts(other, item)


def _reads(context: DdlContext, view: View, item: Collation) -> bool:
    return (derived_oids.PG_COLLATION, item.oid, 0) in references([stored_query(view, context.environment)])
