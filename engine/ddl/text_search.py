"""CREATE, ALTER, DROP and COMMENT ON TEXT SEARCH CONFIGURATION and DICTIONARY (tsearchcmds.c).

Parsers and templates are functions in C, and refused. A change of a definition makes a new version of the catalog, so
every plan that uses it is made anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from catalog.errors import SqlError, not_supported
from catalog.functions import added
from catalog.identifiers import quote_identifier, split_name
from catalog.schema import (
    PG_CATALOG_OID,
)
from catalog.system.relations import read_rows
from catalog.text_search import configurations
from catalog.text_search.configurations import CONFIGURATIONS, DICTIONARIES, UNACCENT, dictionary_for
from catalog.text_search.dictionaries import Dictionary
from catalog.text_search.objects import (
    TextSearchConfiguration,
    TextSearchDictionary,
    TextSearchObject,
    TokenMapping,
)
from catalog.text_search.parser import NUMBERS, TOKEN_TYPES
from engine.ddl.code_users import users_of_code
from engine.ddl.context import DdlContext
from engine.ddl.ownership import must_own, must_own_to_drop, must_rename, new_owner, target_schema
from engine.sql import ast

_KINDS: dict[str, type] = {"configuration": TextSearchConfiguration, "dictionary": TextSearchDictionary}
_INDEXES = {
    "configuration": ("pg_ts_config_cfgname_index", "cfgname, cfgnamespace"),
    "dictionary": ("pg_ts_dict_dictname_index", "dictname, dictnamespace"),
}


def _join(name: Sequence[str]) -> str:
    return ".".join(name)


# ---- names ----------------------------------------------------------------------------------------------------------


def _schemas_of(context: DdlContext, name: Sequence[str]) -> tuple[str, ...]:
    """The schema of a qualified name. Raises 3F000."""
    if len(name) < 2:
        return ()
    if not context.environment.schema_oid(name[-2]):
        raise SqlError("3F000", f'schema "{name[-2]}" does not exist')
    return (name[-2],)


def _find_oid(context: DdlContext, kind: str, name: Sequence[str]) -> int:
    """The OID of a configuration or dictionary, built in or not. Raises 42704, 3F000."""
    schemas = _schemas_of(context, name)
    context.environment.make_current()
    known = CONFIGURATIONS if kind == "configuration" else DICTIONARIES
    named = added.configuration_named if kind == "configuration" else added.dictionary_named
    built_in = next((oid for oid, called in known.items() if called == name[-1]), None)
    found = built_in if schemas in ((), ("pg_catalog",)) else None
    found = found or named(name[-1], schemas)
    if found is None:
        raise SqlError("42704", f'text search {kind} "{_join(name)}" does not exist')
    return found


def _template(context: DdlContext, name: Sequence[str]) -> int:
    """The OID of a template. Raises 42704, 3F000."""
    schemas = _schemas_of(context, name)
    for row in read_rows("pg_ts_template") if schemas in ((), ("pg_catalog",)) else ():
        if row["tmplname"] == name[-1]:
            return int(row["oid"] or 0)
    unaccent = context.catalog.extensions.get("unaccent")
    if unaccent is not None and name[-1] == "unaccent":
        place = context.catalog.schema_name(unaccent.schema)
        if place in (schemas or context.environment.path):
            return configurations.UNACCENT_TEMPLATE
    raise SqlError("42704", f'text search template "{_join(name)}" does not exist')


def find(context: DdlContext, kind: str, name: Sequence[str], action: str = "") -> TextSearchObject:
    """A user's configuration or dictionary, which the user owns unless the action is to give it away or move it.
    Raises 42704, 3F000, 42501; 0A000 for a built-in one."""
    oid = _find_oid(context, kind, name)
    item = context.catalog.get(oid)
    if not isinstance(item, TextSearchConfiguration | TextSearchDictionary):
        shown = f"text search {kind} {quote_identifier(name[-1])}"
        if not context.is_superuser:
            raise SqlError("42501", f"must be owner of text search {kind} {_join(name)}")
        if action == "drop" and oid == UNACCENT:
            message = f"cannot drop {shown} because extension unaccent requires it"
            raise SqlError("2BP01", message, hint="You can drop extension unaccent instead.")
        if action == "drop":
            not_supported(f"DROP of the built-in {shown}")
        not_supported(f"a change of the built-in {shown}")
    context.lock_object(item.oid)
    if action == "drop":
        must_own_to_drop(context, item)
    elif action not in ("owner", "schema"):
        must_own(context, item)
    return item


def _refuse_taken(context: DdlContext, kind: str, schema: int, name: str) -> None:
    """23505 for a name that another object of the kind has."""
    context.lock_name(schema, f"text search {kind} {name}")
    known = CONFIGURATIONS if kind == "configuration" else DICTIONARIES
    here = (item for item in context.catalog.text_search.values() if isinstance(item, _KINDS[kind]))
    taken = any(item.schema == schema and item.name == name for item in here)
    if taken or (schema == PG_CATALOG_OID and name in known.values()):
        index, columns = _INDEXES[kind]
        detail = f"Key ({columns})=({name}, {schema}) already exists."
        raise SqlError("23505", f'duplicate key value violates unique constraint "{index}"', detail=detail)


# ---- CREATE ---------------------------------------------------------------------------------------------------------


def create(context: DdlContext, statement: ast.CreateTextSearchStmt) -> str:
    """Raises 42501, 42601, 42704, 42P17, 22023, F0000, 23505, 0A000."""
    kind, name = statement.kind, statement.name
    if kind in ("parser", "template"):
        if not context.is_superuser:
            raise SqlError("42501", f"must be superuser to create text search {kind}s")
        not_supported(f"CREATE TEXT SEARCH {kind.upper()}")
    schema = context.creation_schema(ast.RangeVar(None, name[-2] if len(name) > 1 else None, name[-1])).oid
    item: TextSearchObject
    if kind == "dictionary":
        item = _new_dictionary(context, schema, name[-1], statement.definition)
    else:
        item = _new_configuration(context, schema, name[-1], statement.definition)
    _refuse_taken(context, kind, schema, name[-1])
    context.change({item.oid: item})
    return f"CREATE TEXT SEARCH {kind.upper()}"


def _option(item: ast.DefinitionItem) -> tuple[str, str, str]:
    return item.name, item.text, "number" if item.kind == "number" else "string"


def _name_in(item: ast.DefinitionItem) -> tuple[str, ...]:
    """defGetQualifiedName. Raises 42601."""
    if item.kind == "none":
        raise SqlError("42601", f"{item.name} requires a parameter")
    if item.kind == "number":
        raise SqlError("42601", f"argument of {item.name} must be a name")
    return item.names or (item.text,)


def _new_dictionary(
    context: DdlContext, schema: int, name: str, definition: Sequence[ast.DefinitionItem]
) -> TextSearchDictionary:
    template = 0
    options = []
    for item in definition:
        if item.name == "template":
            template = _template(context, _name_in(item))
        else:
            options.append(_option(item))
    if not template:
        raise SqlError("42P17", "text search template is required")
    made = TextSearchDictionary(context.new_oid(), schema, name, template, tuple(options), context.user_oid)
    _verify(context, made)
    return made


def _verify(context: DdlContext, item: TextSearchDictionary) -> None:
    """verify_dictoptions: makes the dictionary once."""
    context.environment.make_current()
    configurations.make_dictionary(item, lambda name: _below(context, name))


def _below(context: DdlContext, name: str) -> Dictionary:
    return configurations.current().dictionary(_find_oid(context, "dictionary", split_name(name)))


def _new_configuration(
    context: DdlContext, schema: int, name: str, definition: Sequence[ast.DefinitionItem]
) -> TextSearchConfiguration:
    parser = source = None
    for item in definition:
        if item.name == "parser":
            parser = _name_in(item)
        elif item.name == "copy":
            source = _name_in(item)
        else:
            raise SqlError("42601", f'text search configuration parameter "{item.name}" not recognized')
    if parser is not None and source is not None:
        raise SqlError("42601", "cannot specify both PARSER and COPY options")
    if parser is not None and (parser[-1] != "default" or _schemas_of(context, parser) not in ((), ("pg_catalog",))):
        raise SqlError("42704", f'text search parser "{_join(parser)}" does not exist')
    mappings: tuple[TokenMapping, ...] = ()
    if source is not None:
        mappings = _mappings_of(context, _find_oid(context, "configuration", source))
    elif parser is None:
        raise SqlError("42P17", "text search parser is required")
    return TextSearchConfiguration(context.new_oid(), schema, name, mappings, context.user_oid)


def _mappings_of(context: DdlContext, oid: int) -> tuple[TokenMapping, ...]:
    item = context.catalog.get(oid)
    if isinstance(item, TextSearchConfiguration):
        return item.mappings
    oids = {name: number for number, name in DICTIONARIES.items()}
    found = ((kind, dictionary_for(CONFIGURATIONS[oid], kind)) for kind in range(1, len(TOKEN_TYPES) + 1))
    return tuple(TokenMapping(kind, (oids[name],)) for kind, name in found if name is not None)


# ---- ALTER ----------------------------------------------------------------------------------------------------------


def alter(context: DdlContext, statement: ast.AlterTextSearchStmt) -> str:
    """Raises 42704, 42501, 22023, 23505, 42710, F0000, 0A000."""
    kind = statement.kind
    if kind in ("parser", "template"):
        if not context.is_superuser:
            raise SqlError("42501", f"must be superuser to {statement.action} text search {kind}s")
        not_supported(f"ALTER TEXT SEARCH {kind.upper()}")
    item = find(context, kind, statement.name, statement.action)
    if statement.action in ("rename", "owner", "schema"):
        changed = _move(context, item, statement)
    elif isinstance(item, TextSearchDictionary):
        changed = _with_options(item, statement.definition)
        _verify(context, changed)
    else:
        changed = _with_mappings(context, item, statement)
    context.change({item.oid: changed})
    return f"ALTER TEXT SEARCH {kind.upper()}"


def _move(context: DdlContext, item: TextSearchObject, statement: ast.AlterTextSearchStmt) -> TextSearchObject:
    if statement.action == "owner":
        return replace(item, owner=new_owner(context, item, statement.value).oid)
    schema, name = item.schema, statement.value
    if statement.action == "schema":
        schema, name = target_schema(context, item.schema, item.name, statement.value).oid, item.name
        if schema == item.schema:
            return item
        must_own(context, item)
    else:
        must_rename(context, item)
    for other in context.catalog.text_search.values():
        if type(other) is type(item) and (other.schema, other.name) == (schema, name):
            place = context.catalog.schema_name(schema)
            raise SqlError("42710", f'text search {statement.kind} "{name}" already exists in schema "{place}"')
    context.environment.make_current()
    for use in users_of_code(context, context.catalog.schema_name(item.schema), lambda oid: oid == item.oid):
        not_supported(f'renaming text search {statement.kind} "{item.name}", which a text of {use.item.name} names')
    return replace(item, schema=schema, name=name)


def _with_options(item: TextSearchDictionary, definition: Sequence[ast.DefinitionItem]) -> TextSearchDictionary:
    """An option without a value is removed."""
    options = list(item.options)
    for given in definition:
        options = [option for option in options if option[0] != given.name]
        if given.kind != "none":
            options.append(_option(given))
    return replace(item, options=tuple(options))


def _with_mappings(
    context: DdlContext, item: TextSearchConfiguration, statement: ast.AlterTextSearchStmt
) -> TextSearchConfiguration:
    tokens = []
    for name in statement.tokens:
        if name not in NUMBERS:
            raise SqlError("22023", f'token type "{name}" does not exist')
        tokens.append(NUMBERS[name])
    given = tuple(_find_oid(context, "dictionary", name) for name in statement.dictionaries)
    known = {row.token: row.dictionaries for row in item.mappings}
    if statement.action == "replace":
        old, new = given
        for kind in tokens or list(known):
            if kind in known:
                known[kind] = tuple(new if oid == old else oid for oid in known[kind])
    elif statement.action == "drop mapping":
        for kind, name in zip(tokens, statement.tokens, strict=True):
            if known.pop(kind, None) is None:
                message = f'mapping for token type "{name}" does not exist'
                if not statement.if_exists:
                    raise SqlError("42704", message)
                context.notice(SqlError("00000", f"{message}, skipping", severity="NOTICE"))
    else:
        for kind in tokens:
            if statement.action == "add" and kind in known:
                raise SqlError(
                    "23505",
                    'duplicate key value violates unique constraint "pg_ts_config_map_index"',
                    detail=f"Key (mapcfg, maptokentype, mapseqno)=({item.oid}, {kind}, 1) already exists.",
                )
            known[kind] = given
    return replace(item, mappings=tuple(TokenMapping(kind, known[kind]) for kind in sorted(known)))


# ---- DROP, COMMENT --------------------------------------------------------------------------------------------------


def to_drop(context: DdlContext, kind: str, name: Sequence[str]) -> TextSearchObject:
    """The object of DROP. Raises 42704, 3F000, 42501, 2BP01, 0A000 for parsers and templates."""
    if kind not in _KINDS:
        if not context.is_superuser:
            raise SqlError("42501", f"must be superuser to drop text search {kind}s")
        not_supported(f"DROP TEXT SEARCH {kind.upper()}")
    return find(context, kind, name, "drop")


def comment(context: DdlContext, kind: str, name: Sequence[str], text: str | None) -> str:
    """COMMENT ON. Raises 42704, 3F000, 42501, 0A000 for parsers and templates."""
    if kind not in _KINDS:
        if not context.is_superuser:
            raise SqlError("42501", f"must be superuser to comment on text search {kind}")
        not_supported(f"COMMENT ON TEXT SEARCH {kind.upper()}")
    item = find(context, kind, name)
    context.change({item.oid: replace(item, comment=text)})
    return "COMMENT"
