"""Catalog functions on the row path: each reads rows of a virtual table, as lookups.py does in SQL.

These are the Python sides of functions that read the internal tables of catalog/system/names.py, and pg_catalog. `find`
reads rows by one column; the session makes the rows (engine/system_views/rows.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Protocol, cast

from catalog import types
from catalog.errors import SqlError
from catalog.functions.base import CallContext, Trait
from catalog.functions.registry import implement, implements
from catalog.privileges import may
from catalog.schema import Sequence, VirtualTable
from catalog.system import derived_oids
from catalog.system import relations as internal
from catalog.system.lookups import DEFAULT_PRIVILEGES, PRIVILEGE_WORDS
from catalog.types.base import Array
from catalog.types.user import FIRST_ADDED_OID, FIRST_USER_OID

Row = tuple[Any, ...]


class _Rows(Protocol):
    def equal(self, number: int) -> Callable[[object], Iterable[Row]]: ...


class _Session(Protocol):
    def virtual_rows(self, relation: VirtualTable) -> _Rows: ...


def find(call: CallContext, table: VirtualTable, key: str, value: object) -> Iterable[Row]:
    session = cast(_Session, call.session)
    return session.virtual_rows(table).equal(_number(table, key))(value)


def found_name(call: CallContext, table: VirtualTable, wanted: str, oid: int) -> str | None:
    """Returns the name of an OID in a column of an internal table of names; None if there is none."""
    place = _number(table, wanted) - 1
    return next((cast(str, row[place]) for row in find(call, table, "oid", oid)), None)


def _number(table: VirtualTable, name: str) -> int:
    return next(column.number for column in table.columns if column.name == name)


def _table(name: str) -> VirtualTable:
    found = internal.system_relations()[11, name]
    assert isinstance(found, VirtualTable)
    return found


def _by_key(sources: str, table: VirtualTable, wanted: str, key: str = "oid") -> None:
    """Registers functions that return the column `wanted` of the row whose `key` is the first argument."""
    place = _number(table, wanted) - 1

    def answer(call: CallContext, value: object, *_: object) -> object:
        return next((row[place] for row in find(call, table, key, value)), None)

    for source in sources.split():
        implement(source, answer, needs_session=True)


def _always(sources: str, value: object) -> None:
    for source in sources.split():
        implement(source, partial(_the_same, value))


def _the_same(value: object, *_: object) -> object:
    return value


# ---- names and visibility -------------------------------------------------------------------------------------------


@implements("pg_type_is_visible", needs_session=True)
def _type_is_visible(call: CallContext, oid: int) -> bool | None:
    if oid < FIRST_ADDED_OID:
        return True
    return next((row[2] for row in find(call, internal.TYPE_NAMES, "oid", oid)), None)


@implements("pg_ts_config_is_visible", "pg_ts_dict_is_visible", needs_session=True)
def _text_search_is_visible(call: CallContext, oid: int) -> bool | None:
    if oid < FIRST_USER_OID:
        return True
    return next((row[1] for row in find(call, internal.TEXT_SEARCH_NAMES, "oid", oid)), None)


_by_key("pg_collation_is_visible", internal.COLLATION_NAMES, "visible")
_by_key("pg_collation_actual_version", internal.COLLATION_NAMES, "version")
_always(
    "pg_operator_is_visible pg_opclass_is_visible pg_opfamily_is_visible "
    "pg_conversion_is_visible pg_ts_parser_is_visible pg_ts_template_is_visible",
    True,
)
_always("pg_tablespace_location", "")


@implements("oidvectortypes")
def _types_of_vector(vector: Array) -> str:
    return ", ".join(types.format_type(cast(int, oid)) for oid in vector.elements)


# ---- definitions ----------------------------------------------------------------------------------------------------


@implements("pg_get_expr")
def _expression(tree: str, relation: int) -> str:
    return tree.partition("\x1f")[0]


@implements("pg_get_expr_ext")
def _pretty_expression(tree: str, relation: int, pretty: bool) -> str:
    return tree.split("\x1f")[1 if pretty else 0]


_by_key("pg_get_partkeydef", internal.PARTITION_TEXTS, "key")
_by_key("pg_get_partition_constraintdef", internal.PARTITION_TEXTS, "condition")
_by_key("pg_get_viewdef_wrap", internal.VIEW_TEXTS, "pretty")
_by_key("pg_get_function_arguments", internal.FUNCTION_NAMES, "arguments")
_by_key("pg_get_function_identity_arguments", internal.FUNCTION_NAMES, "identity")
_by_key("pg_get_function_result", internal.FUNCTION_NAMES, "result")
_by_key("pg_get_functiondef", internal.FUNCTION_NAMES, "definition")
_by_key("pg_function_is_visible", internal.FUNCTION_NAMES, "visible")
_by_key("pg_get_function_sqlbody", internal.FUNCTION_NAMES, "body")
_by_key("pg_get_triggerdef", internal.TRIGGER_TEXTS, "plain")


@implements("pg_get_triggerdef_ext", needs_session=True)
def _trigger_definition(call: CallContext, oid: int, pretty: bool) -> str | None:
    found = find(call, internal.TRIGGER_TEXTS, "oid", oid)
    return next((cast(str, row[2 if pretty else 1]) for row in found), None)


_by_key("pg_get_ruledef", internal.RULE_TEXTS, "plain")


@implements("pg_get_ruledef_ext", needs_session=True)
def _rule_definition(call: CallContext, oid: int, pretty: bool) -> str | None:
    found = find(call, internal.RULE_TEXTS, "oid", oid)
    return next((cast(str, row[2 if pretty else 1]) for row in found), None)


_by_key("pg_get_statisticsobjdef", internal.STATISTICS_TEXTS, "definition")
_by_key("pg_get_statisticsobjdef_columns", internal.STATISTICS_TEXTS, "columns")
_by_key("pg_get_statisticsobjdef_expressions", internal.STATISTICS_TEXTS, "expressions")
_by_key("pg_statistics_obj_is_visible", internal.STATISTICS_TEXTS, "visible")


@implements("pg_get_function_arg_default", needs_session=True)
def _argument_default(call: CallContext, function: int, number: int) -> str | None:
    found = find(call, internal.ARGUMENT_DEFAULTS, "oid", function)
    return next((cast(str, row[2]) for row in found if row[1] == number), None)


def _key_position(call: CallContext, index: int, attribute: int) -> int | None:
    """information_schema._pg_index_position: the position of a column in an index, from 1."""
    place = _number(_INDEXES, "indkey") - 1
    for row in find(call, _INDEXES, "indexrelid", index):
        if attribute in row[place].elements:
            return cast(int, row[place].elements.index(attribute)) + 1
    return None


_INDEXES = _table("pg_index")
implement("_pg_index_position", _key_position, needs_session=True)

# ---- comments -------------------------------------------------------------------------------------------------------

_DESCRIPTIONS, _SHARED_DESCRIPTIONS, _CLASSES = _table("pg_description"), _table("pg_shdescription"), _table("pg_class")


def _class_named(call: CallContext, name: str) -> int | None:
    return next((row[0] for row in find(call, _CLASSES, "relname", name) if row[2] == 11), None)


@implements("obj_description", needs_session=True)
def _object_comment(call: CallContext, oid: int, kind: str | None = None) -> str | None:
    number = None if kind is None else _class_named(call, kind)
    for row in find(call, _DESCRIPTIONS, "objoid", oid):
        if row[2] == 0 and (kind is None or row[1] == number):
            return cast(str, row[3])
    return None


@implements("col_description", needs_session=True)
def _column_comment(call: CallContext, oid: int, attribute: int) -> str | None:
    for row in find(call, _DESCRIPTIONS, "objoid", oid):
        if row[1] == derived_oids.PG_CLASS and row[2] == attribute:
            return cast(str, row[3])
    return None


@implements("shobj_description", needs_session=True)
def _shared_comment(call: CallContext, oid: int, kind: str) -> str | None:
    number = _class_named(call, kind)
    return next((row[2] for row in find(call, _SHARED_DESCRIPTIONS, "objoid", oid) if row[1] == number), None)


# ---- privileges -----------------------------------------------------------------------------------------------------

_ACL_ITEM = re.compile(r"(.*)=([A-Za-z*]*)/(.*)")


@implements("acldefault_sql", needs_session=True)
def _default_acl(call: CallContext, kind: str, owner: int) -> Array | None:
    name = next((row[2] for row in find(call, internal.ROLE_NAMES, "oid", owner)), None)
    if name is None or kind not in DEFAULT_PRIVILEGES:
        return None if name is None else Array.of(())
    own, public = DEFAULT_PRIVILEGES[kind]
    items = [f"={public}/{name}"] if public else []
    return Array.of((*items, f"{name}={own}/{name}"))


@implements("makeaclitem", needs_session=True)
def _acl_item(call: CallContext, grantee: int, grantor: int, word: str, grantable: bool) -> str:
    """makeaclitem(): 'grantee=r*/grantor'. Raises 22023."""
    letter = next((letter for letter, each in PRIVILEGE_WORDS.items() if each == word.upper()), None)
    if letter is None:
        raise SqlError("22023", f'unrecognized privilege type: "{word}"')
    names = [_role_shown(call, oid) for oid in (grantee, grantor)]
    return f"{names[0]}={letter}{'*' if grantable else ''}/{names[1]}"


def _role_shown(call: CallContext, oid: int) -> str:
    """A role's name in an ACL item: '' for PUBLIC, the number of a role that is not there."""
    if oid == 0:
        return ""
    return next((str(row[1]) for row in find(call, internal.ROLE_NAMES, "oid", oid)), str(oid))


@implements("aclexplode", needs_session=True)
def _exploded_acl(call: CallContext, acl: Array) -> list[Row]:
    found: list[Row] = []
    for item in acl.elements:
        parts = _ACL_ITEM.fullmatch(str(item))
        assert parts is not None, item
        grantee, grantor = (
            next((row[0] for row in find(call, internal.ROLE_NAMES, "shown", parts[side])), 0) for side in (1, 3)
        )
        for letter in re.findall(r"[A-Za-z]\*?", parts[2]):
            found.append((grantor, grantee, PRIVILEGE_WORDS[letter[0]], len(letter) == 2))
    return found


# ---- kinds of relations ---------------------------------------------------------------------------------------------

_KIND = _number(_CLASSES, "relkind") - 1


def _of_kind(source: str, answer: Callable[[str, int], object]) -> None:
    def look(call: CallContext, oid: int, *_: object) -> object:
        return next((answer(row[_KIND], oid) for row in find(call, _CLASSES, "oid", oid)), None)

    implement(source, look, needs_session=True)


@implements("pg_relation_is_updatable", needs_session=True)
def _relation_is_updatable(call: CallContext, oid: int, _: bool, number: int = 0) -> int:
    """pg_relation_is_updatable: a bit mask; 28, which is INSERT, UPDATE and DELETE, for a table."""
    kind = next((row[_KIND] for row in find(call, _CLASSES, "oid", oid)), "")
    if kind != "v":
        return 28 if kind in ("r", "p") else 0
    return next((cast(int, row[2]) for row in find(call, internal.UPDATABLE, "oid", oid) if row[1] == number), 0)


@implements("pg_column_is_updatable", needs_session=True)
def _column_is_updatable(call: CallContext, oid: int, number: int, triggers: bool) -> bool:
    """pg_column_is_updatable: whether UPDATE and DELETE (20) are possible."""
    return number > 0 and _relation_is_updatable(call, oid, triggers, number) & 20 == 20


_of_kind("pg_relation_is_publishable", lambda kind, oid: kind == "r" and oid >= 16384)


@implements("pg_sequence_last_value", needs_session=True, traits=(Trait.LEADER,))
def _sequence_last_value(call: CallContext, oid: int) -> int | None:
    """pg_sequence_last_value. Raises 42501."""
    for _, value, denied in find(call, internal.SEQUENCE_VALUES, "oid", oid):
        if denied is not None:
            raise SqlError("42501", f"permission denied for sequence {denied}")
        return cast("int | None", value)
    return None


@implements("pg_sequence_parameters", needs_session=True)
def _sequence_parameters(call: CallContext, oid: int) -> list[tuple[object, ...]]:
    """pg_sequence_parameters. Raises 42501."""
    surroundings = cast(Any, call.session).surroundings
    item, user = surroundings.catalog.get(oid), surroundings.user
    if item is None:
        raise SqlError("42P01", f"relation with OID {oid} does not exist")
    if not isinstance(item, Sequence):
        raise SqlError("XX000", f"cache lookup failed for sequence {oid}")
    if user is not None and not may(surroundings.catalog, item, user, "rwU"):
        raise SqlError("42501", f"permission denied for sequence {item.name}")
    return [(item.start, item.minimum, item.maximum, item.increment, item.cycle, item.cache, item.type.oid)]


# ---- statistics: unmeasured values are zero, as in lookups.py -------------------------------------------------------

_COUNTERS = (
    "numscans tuples_returned tuples_fetched tuples_hot_updated "
    "dead_tuples mod_since_analyze ins_since_vacuum blocks_fetched blocks_hit vacuum_count "
    "autovacuum_count analyze_count autoanalyze_count xact_numscans xact_tuples_returned xact_tuples_fetched "
    "xact_tuples_inserted xact_tuples_updated xact_tuples_deleted xact_tuples_hot_updated"
)
_always(" ".join(f"pg_stat_get_{name}" for name in _COUNTERS.split()), 0)
_always(
    "pg_stat_get_last_vacuum_time pg_stat_get_last_autovacuum_time pg_stat_get_last_analyze_time "
    "pg_stat_get_last_autoanalyze_time",
    None,
)
