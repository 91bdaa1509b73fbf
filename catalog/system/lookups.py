"""Catalog functions as DuckDB SQL: sub-queries over virtual tables, for queries with many rows.

`catalog_calls` maps the prosrc of a function (or, for output and input of a type, its codec: 'regclassout') to the
function that makes the SQL of a call. The engine computes calls with constant arguments (catalog/functions/system.py).

The SQL contains each argument once, because it may be long.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from catalog.functions.base import udf_name
from catalog.functions.duckdb_errors import sql_error_call, sql_error_call_of
from catalog.privileges import WORDS
from catalog.schema import VirtualTable
from catalog.system import derived_oids
from catalog.system.content import system_table
from catalog.system.relations import (
    ARGUMENT_DEFAULTS,
    COLLATION_NAMES,
    CONSTRAINT_TEXTS,
    DATABASE_SIZES,
    FUNCTION_COUNTS,
    FUNCTION_NAMES,
    HELD,
    INDEX_TEXTS,
    OPERATOR_NAMES,
    OWNED_SEQUENCES,
    PARTITION_TEXTS,
    RELATION_INPUT,
    RELATION_NAMES,
    RELATION_SIZES,
    ROLE_GROUPS,
    ROLE_NAMES,
    ROW_SECURITY,
    RULE_TEXTS,
    SCHEMA_NAMES,
    SEQUENCE_VALUES,
    SETTINGS,
    STATISTICS_TEXTS,
    TABLE_COUNTS,
    TABLESPACE_SIZES,
    TEXT_SEARCH_NAMES,
    TRIGGER_TEXTS,
    TYPE_INPUT,
    TYPE_NAMES,
    UPDATABLE,
    VIEW_TEXTS,
)
from catalog.types.user import FIRST_ADDED_OID, FIRST_USER_OID


@dataclass(frozen=True, slots=True)
class CatalogCall:
    """`sql` makes the SQL of a call from the SQL of its arguments; `tables` are the tables of its placeholders
    {v<oid>}; `udfs` are the sources of the UDFs that it calls."""

    sql: Callable[[list[str]], str]
    tables: tuple[VirtualTable, ...] = ()
    udfs: tuple[str, ...] = ()


catalog_calls: dict[str, CatalogCall] = {}


def register(sources: str, sql: Callable[[list[str]], str], *tables: VirtualTable, udfs: tuple[str, ...] = ()) -> None:
    for source in sources.split():
        catalog_calls[source] = CatalogCall(sql, tables, udfs)


def _column(table: VirtualTable, name: str) -> str:
    return next(f"c{column.number}" for column in table.columns if column.name == name)


def _place(table: VirtualTable) -> str:
    return f"{{v{table.oid}}}"


def look_up(
    table: VirtualTable, wanted: str, argument: str, key: str = "oid", more: str = "", unique: bool = True
) -> str:
    """Returns SQL for the value in column `wanted` of the row whose `key` is the argument; NULL if there is none.

    `unique`: there is at most one such row. Then DuckDB, which makes a join of this, needs no aggregation over it.
    """
    value = f"l.{_column(table, wanted)}"
    return (
        f"(SELECT {value if unique else f'any_value({value})'} FROM {_place(table)} AS l "
        f"WHERE l.{_column(table, key)} = {argument}{more})"
    )


def _by_key(sources: str, table: VirtualTable, wanted: str, key: str = "oid") -> None:
    """Registers functions that return the column `wanted` of the row whose `key` is the first argument."""
    register(sources, lambda arguments: look_up(table, wanted, arguments[0], key), table)


# ---- names: output and input of the reg types -----------------------------------------------------------------------


def _show_lookup(found: str, argument: str, none: str) -> str:
    """Returns SQL for a name; `none` for 0, and the number for a missing object."""
    return f"coalesce({found}, CASE {argument} WHEN 0 THEN '{none}' ELSE CAST({argument} AS VARCHAR) END)"


def _output(type_name: str, table: VirtualTable, wanted: str = "shown", none: str = "-") -> None:
    def sql(arguments: list[str]) -> str:
        return _show_lookup(look_up(table, wanted, arguments[0]), arguments[0], none)

    register(f"{type_name}out", sql, table)


_output("regclass", RELATION_NAMES)
_output("regproc", FUNCTION_NAMES)
_output("regprocedure", FUNCTION_NAMES, "signature")
_output("regoper", OPERATOR_NAMES, none="0")
_output("regoperator", OPERATOR_NAMES, "signature", none="0")
_output("regnamespace", SCHEMA_NAMES)
_output("regrole", ROLE_NAMES)
_output("regcollation", COLLATION_NAMES)

_FORMAT = udf_name("shoal_builtin_type")
_CANONICAL = udf_name("shoal_canonical_name")


def format_type(oid: str, typmod: str) -> str:
    """Returns SQL of format_type: a table has the names of row types and user-defined types, the UDF those of built-in
    types."""
    named = look_up(TYPE_NAMES, "shown", oid)
    return (
        f"CASE WHEN {oid} < {FIRST_ADDED_OID} THEN {_FORMAT}({oid}, CAST({typmod} AS INTEGER)) "
        f"WHEN {oid} IS NOT NULL THEN coalesce({named}, '???') END"
    )


register("format_type", lambda arguments: format_type(*arguments), TYPE_NAMES, udfs=("shoal_builtin_type",))
register("regtypeout", lambda arguments: format_type(arguments[0], "NULL"), TYPE_NAMES, udfs=("shoal_builtin_type",))


def _input(
    table: VirtualTable, key: str, missing: str, sqlstate: str, strict: bool = True
) -> Callable[[list[str]], str]:
    """Returns the input function of a reg type: it finds the OID of a name in its canonical form, or reads the digits
    of an OID."""

    def sql(arguments: list[str]) -> str:
        text = arguments[0]
        found = look_up(table, "oid", f"{_CANONICAL}({text})", key, unique=False)
        if not strict:
            return found
        digits = f"regexp_full_match({text}, '[0-9]+')"
        number = f"CASE WHEN {digits} THEN CAST({text} AS BIGINT) WHEN {text} = '-' THEN 0 END"
        message = missing.replace("$", f"' || {text} || '")
        error = sql_error_call_of(sqlstate, f"'{message}'")
        return f"CASE WHEN {text} IS NOT NULL THEN coalesce({number}, {found}, {error}) END"

    return sql


_NAMES = ("shoal_canonical_name",)
_CLASS_INPUT = _input(RELATION_INPUT, "name", 'relation "$" does not exist', "42P01")
register("regclassin text_regclass", _CLASS_INPUT, RELATION_INPUT, udfs=_NAMES)
register("to_regclass", _input(RELATION_INPUT, "name", "", "", False), RELATION_INPUT, udfs=_NAMES)
register("regtypein", _input(TYPE_INPUT, "name", 'type "$" does not exist', "42704"), TYPE_INPUT, udfs=_NAMES)
register("to_regtype", _input(TYPE_INPUT, "name", "", "", False), TYPE_INPUT, udfs=_NAMES)
register(
    "regnamespacein", _input(SCHEMA_NAMES, "shown", 'schema "$" does not exist', "3F000"), SCHEMA_NAMES, udfs=_NAMES
)
register("to_regnamespace", _input(SCHEMA_NAMES, "shown", "", "", False), SCHEMA_NAMES, udfs=_NAMES)
register("regrolein", _input(ROLE_NAMES, "shown", 'role "$" does not exist', "42704"), ROLE_NAMES, udfs=_NAMES)
register("to_regrole", _input(ROLE_NAMES, "shown", "", "", False), ROLE_NAMES, udfs=_NAMES)
_NO_COLLATION = 'collation "$" for encoding "UTF8" does not exist'
register("regcollationin", _input(COLLATION_NAMES, "shown", _NO_COLLATION, "42704"), COLLATION_NAMES, udfs=_NAMES)
register("to_regcollation", _input(COLLATION_NAMES, "shown", "", "", False), COLLATION_NAMES, udfs=_NAMES)

register(
    "pg_get_userbyid",
    lambda a: f"coalesce({look_up(ROLE_NAMES, 'name', a[0])}, 'unknown (OID=' || CAST({a[0]} AS VARCHAR) || ')')",
    ROLE_NAMES,
)
register(
    "oidvectortypes",
    lambda a: f"array_to_string(list_transform({a[0]}, lambda t: {_FORMAT}(t, NULL::INTEGER)), ', ')",
    udfs=("shoal_builtin_type",),
)

register(
    "set_config_by_name",
    lambda a: sql_error_call_of("0A000", f"'set_config over the rows of a query is not supported: ' || {a[0]}"),
)
register("show_config_by_name", lambda a: look_up(SETTINGS, "value", f"lower({a[0]})", "name"), SETTINGS)

# ---- visibility -----------------------------------------------------------------------------------------------------

_by_key("pg_table_is_visible", RELATION_NAMES, "visible")
register(
    "pg_type_is_visible",
    lambda a: f"CASE WHEN {a[0]} < {FIRST_ADDED_OID} THEN true ELSE {look_up(TYPE_NAMES, 'visible', a[0])} END",
    TYPE_NAMES,
)
register(
    "pg_ts_config_is_visible pg_ts_dict_is_visible",
    lambda a: f"CASE WHEN {a[0]} < {FIRST_USER_OID} THEN true ELSE {look_up(TEXT_SEARCH_NAMES, 'visible', a[0])} END",
    TEXT_SEARCH_NAMES,
)
_by_key("pg_collation_is_visible", COLLATION_NAMES, "visible")
_by_key("pg_collation_actual_version", COLLATION_NAMES, "version")
register(
    "pg_operator_is_visible pg_opclass_is_visible pg_opfamily_is_visible "
    "pg_conversion_is_visible pg_ts_parser_is_visible pg_ts_template_is_visible",
    lambda a: f"({a[0]} IS NOT NULL)",
)
_by_key("pg_is_other_temp_schema", SCHEMA_NAMES, "other_temporary")

# ---- definitions ----------------------------------------------------------------------------------------------------


def _pretty(table: VirtualTable) -> Callable[[list[str]], str]:
    """Returns the function that reads a text by OID; the second argument selects the pretty text."""

    def sql(arguments: list[str]) -> str:
        plain, pretty = _column(table, "plain"), _column(table, "pretty")
        return (
            f"(SELECT CASE WHEN {arguments[1]} THEN l.{pretty} ELSE l.{plain} END "
            f"FROM {_place(table)} AS l WHERE l.{_column(table, 'oid')} = {arguments[0]})"
        )

    return sql


_by_key("pg_get_constraintdef", CONSTRAINT_TEXTS, "plain")
register("pg_get_constraintdef_ext", _pretty(CONSTRAINT_TEXTS), CONSTRAINT_TEXTS)
_by_key("pg_get_triggerdef", TRIGGER_TEXTS, "plain")
register("pg_get_triggerdef_ext", _pretty(TRIGGER_TEXTS), TRIGGER_TEXTS)
_by_key("pg_get_ruledef", RULE_TEXTS, "plain")
register("pg_get_ruledef_ext", _pretty(RULE_TEXTS), RULE_TEXTS)
_by_key("pg_get_viewdef", VIEW_TEXTS, "plain")
register("pg_get_viewdef_ext", _pretty(VIEW_TEXTS), VIEW_TEXTS)
register("pg_get_viewdef_wrap", lambda a: look_up(VIEW_TEXTS, "pretty", a[0]), VIEW_TEXTS)
_by_key("pg_get_partkeydef", PARTITION_TEXTS, "key")
_by_key("pg_get_partition_constraintdef", PARTITION_TEXTS, "condition")
register("pg_get_indexdef", lambda a: look_up(INDEX_TEXTS, "plain", a[0], more=" AND l.c2 = 0"), INDEX_TEXTS)
register(
    "pg_get_indexdef_ext",
    lambda a: (
        f"(SELECT CASE WHEN count(CASE WHEN l.c2 = 0 THEN {a[1]} END) > 0 THEN coalesce(any_value("
        f"CASE WHEN l.c2 = {a[1]} THEN CASE WHEN {a[2]} THEN l.c4 ELSE l.c3 END END), '') END "
        f"FROM {_place(INDEX_TEXTS)} AS l "
        f"WHERE l.c1 = {a[0]})"
    ),
    INDEX_TEXTS,
)
register("pg_get_expr", lambda a: f"string_split({a[0]}, chr(31))[1]")
register("pg_get_expr_ext", lambda a: f"string_split({a[0]}, chr(31))[CASE WHEN {a[2]} THEN 2 ELSE 1 END]")
_by_key("pg_get_function_arguments", FUNCTION_NAMES, "arguments")
_by_key("pg_get_function_identity_arguments", FUNCTION_NAMES, "identity")
_by_key("pg_get_function_result", FUNCTION_NAMES, "result")
_by_key("pg_get_functiondef", FUNCTION_NAMES, "definition")
_by_key("pg_function_is_visible", FUNCTION_NAMES, "visible")
_by_key("pg_get_function_sqlbody", FUNCTION_NAMES, "body")
_by_key("pg_get_statisticsobjdef", STATISTICS_TEXTS, "definition")
_by_key("pg_get_statisticsobjdef_columns", STATISTICS_TEXTS, "columns")
_by_key("pg_get_statisticsobjdef_expressions", STATISTICS_TEXTS, "expressions")
_by_key("pg_statistics_obj_is_visible", STATISTICS_TEXTS, "visible")
register(
    "pg_get_function_arg_default",
    lambda a: look_up(ARGUMENT_DEFAULTS, "text", a[0], more=f" AND l.c2 = {a[1]}"),
    ARGUMENT_DEFAULTS,
)
register("pg_tablespace_location", lambda a: f"CASE WHEN {a[0]} IS NOT NULL THEN '' END")
register(
    "pg_get_serial_sequence",
    lambda a: (
        f"(SELECT any_value(l.c3) FROM {_place(OWNED_SEQUENCES)} AS l WHERE l.c1 = "
        f"{_CLASS_INPUT([a[0]])} AND l.c2 = {a[1]})"
    ),
    OWNED_SEQUENCES,
    RELATION_INPUT,
    udfs=_NAMES,
)

# ---- comments -------------------------------------------------------------------------------------------------------

_DESCRIPTIONS = system_table("pg_description")
_SHARED_DESCRIPTIONS = system_table("pg_shdescription")


def _object_comment(arguments: list[str]) -> str:
    """obj_description(oid, catalog name): the name of the catalog is nearly always a constant."""
    more = " AND l.c3 = 0"
    if len(arguments) > 1:
        more += f" AND l.c2 = (SELECT any_value(k.c1) FROM {_place(_CLASSES)} AS k WHERE k.c2 = {arguments[1]})"
    return look_up(_DESCRIPTIONS, "description", arguments[0], "objoid", more, unique=len(arguments) > 1)


_CLASSES = system_table("pg_class")
register("obj_description", _object_comment, _DESCRIPTIONS, _CLASSES)
register(
    "col_description",
    lambda a: look_up(
        _DESCRIPTIONS, "description", a[0], "objoid", f" AND l.c2 = {derived_oids.PG_CLASS} AND l.c3 = {a[1]}"
    ),
    _DESCRIPTIONS,
)
register(
    "shobj_description",
    lambda a: look_up(
        _SHARED_DESCRIPTIONS,
        "description",
        a[0],
        "objoid",
        f" AND l.c2 = (SELECT any_value(k.c1) FROM {_place(_CLASSES)} AS k WHERE k.c2 = {a[1]})",
    ),
    _SHARED_DESCRIPTIONS,
    _CLASSES,
)

# ---- privileges -----------------------------------------------------------------------------------------------------

_OPTIONS = (("", ""), (" WITH GRANT OPTION", "*"))
_LETTERS = ", ".join(
    f"'{word}{option}': ',{letter}{star},'" for word, letter in WORDS.items() for option, star in _OPTIONS
)


def _granted_test(where: str, words: str) -> str:
    """Returns SQL for whether the user has any of the privileges in a list of words, on the object that `where` selects
    in HELD."""
    asked = f"list_transform(string_split(upper({words}), ','), lambda w: map {{{_LETTERS}}}[trim(w)])"
    return (
        f"(SELECT any_value(len(list_filter({asked}, lambda p: p IS NOT NULL AND contains(l.c4, p))) > 0) "
        f"FROM {_place(HELD)} AS l WHERE {where})"
    )


def _register_granted(sources: str, where: Callable[[list[str]], str], words: int, *tables: VirtualTable) -> None:
    udfs = _NAMES if tables else ()
    register(sources, lambda a: _granted_test(where(a), a[words]), HELD, *tables, udfs=udfs)


_register_granted("has_table_privilege_id has_sequence_privilege_id", lambda a: f"l.c1 = {a[0]} AND l.c2 = 0", 1)
_register_granted("has_any_column_privilege_id", lambda a: f"l.c1 = {a[0]} AND l.c2 = -1", 1)
_register_granted(
    "has_table_privilege_name has_sequence_privilege_name",
    lambda a: f"l.c1 = {_CLASS_INPUT([a[0]])} AND l.c2 = 0",
    1,
    RELATION_INPUT,
)
_register_granted(
    "has_any_column_privilege_name", lambda a: f"l.c1 = {_CLASS_INPUT([a[0]])} AND l.c2 = -1", 1, RELATION_INPUT
)
_register_granted("has_column_privilege_id_name", lambda a: f"l.c1 = {a[0]} AND l.c3 = {a[1]}", 2)
_register_granted("has_column_privilege_id_attnum", lambda a: f"l.c1 = {a[0]} AND l.c2 = {a[1]} AND l.c2 > 0", 2)
_register_granted(
    "has_column_privilege_name_name", lambda a: f"l.c1 = {_CLASS_INPUT([a[0]])} AND l.c3 = {a[1]}", 2, RELATION_INPUT
)
_register_granted(
    "has_column_privilege_name_attnum",
    lambda a: f"l.c1 = {_CLASS_INPUT([a[0]])} AND l.c2 = {a[1]} AND l.c2 > 0",
    2,
    RELATION_INPUT,
)
_register_granted(
    "has_schema_privilege_id has_database_privilege_id has_tablespace_privilege_id has_server_privilege_id "
    "has_foreign_data_wrapper_privilege_id",
    lambda a: f"l.c1 = {a[0]} AND l.c2 = 0",
    1,
)
_register_granted("has_schema_privilege_name", lambda a: f"l.c3 = 'schema ' || {a[0]}", 1)
_register_granted("has_database_privilege_name", lambda a: f"l.c3 = 'database ' || {a[0]}", 1)
_register_granted("has_tablespace_privilege_name", lambda a: f"l.c3 = 'tablespace ' || {a[0]}", 1)
_register_granted("has_server_privilege_name", lambda a: f"l.c3 = 'server ' || {a[0]}", 1)
_register_granted("has_foreign_data_wrapper_privilege_name", lambda a: f"l.c3 = 'wrapper ' || {a[0]}", 1)


def _granted_on_setting(arguments: list[str]) -> str:
    name, words = arguments
    alone, others = (_granted_test(f"l.c3 = 'parameter ' || {one}", words) for one in (f"lower({name})", "''"))
    return f"(SELECT CASE WHEN {name} IS NOT NULL AND {words} IS NOT NULL THEN coalesce({alone}, {others}) END)"


register("has_parameter_privilege_name", _granted_on_setting, HELD)
register(
    "has_function_privilege_id",
    lambda a: f"coalesce({_granted_test(f'l.c1 = {a[0]} AND l.c2 = 0', a[1])}, {a[0]} IS NOT NULL)",
    HELD,
)
register(
    "has_type_privilege_id has_language_privilege_id",
    lambda a: f"({a[0]} IS NOT NULL)",
)


def _role_held(key: str) -> Callable[[list[str]], str]:
    """pg_has_role for the current user: USAGE, MEMBER, or otherwise the right to grant the role."""

    def sql(arguments: list[str]) -> str:
        usage, member, admin = (look_up(ROLE_NAMES, one, arguments[0], key) for one in ("held", "member", "admin"))
        word = f"upper(trim({arguments[1]}))"
        return f"CASE {word} WHEN 'USAGE' THEN {usage} WHEN 'MEMBER' THEN {member} ELSE {admin} END"

    return sql


register("pg_has_role_id", _role_held("oid"), ROLE_NAMES)
register("pg_has_role_name", _role_held("name"), ROLE_NAMES)
_AUTHID = system_table("pg_authid")
register(
    "pg_has_role_id_id",
    lambda a: (
        f"(coalesce({look_up(_AUTHID, 'rolsuper', a[0])}, false) OR (SELECT count(*) > 0 "
        f"FROM {_place(ROLE_GROUPS)} AS l WHERE l.c1 = {a[0]} AND l.c2 = {a[1]} "
        f"AND (l.c3 OR upper(trim({a[2]})) <> 'USAGE')))"
    ),
    ROLE_GROUPS,
    _AUTHID,
)
register(
    "row_security_active",
    lambda a: (
        f"(SELECT CASE WHEN q.o IS NOT NULL THEN coalesce({look_up(ROW_SECURITY, 'active', 'q.o')}, false) END "
        f"FROM (SELECT {a[0]} AS o) AS q)"
    ),
    ROW_SECURITY,
)
register(
    "row_security_active_name",
    lambda a: (
        "(SELECT CASE WHEN q.o IS NOT NULL THEN "
        f"coalesce({look_up(ROW_SECURITY, 'active', 'q.o')}, false) END FROM (SELECT {_CLASS_INPUT([a[0]])} AS o) AS q)"
    ),
    ROW_SECURITY,
    RELATION_INPUT,
    udfs=_NAMES,
)

PRIVILEGE_WORDS = {
    "a": "INSERT", "r": "SELECT", "w": "UPDATE", "d": "DELETE", "D": "TRUNCATE", "x": "REFERENCES", "t": "TRIGGER",
    "X": "EXECUTE", "U": "USAGE", "C": "CREATE", "T": "TEMPORARY", "c": "CONNECT", "s": "SET", "A": "ALTER SYSTEM",
}  # fmt: skip
# The default privileges of an object's owner and of PUBLIC (PostgreSQL 16 manual, 5.8).
DEFAULT_PRIVILEGES = {
    "r": ("arwdDxt", ""), "s": ("rwU", ""), "d": ("CTc", "Tc"), "f": ("X", "X"), "l": ("U", "U"), "L": ("rw", ""),
    "n": ("UC", ""), "t": ("C", ""), "F": ("U", ""), "S": ("U", ""), "T": ("U", "U"), "p": ("sA", ""),
}  # fmt: skip


def _default_acl(arguments: list[str]) -> str:
    """acldefault(kind, owner): '{=X/owner,owner=X/owner}'."""
    kinds = []
    for kind, (own, public) in DEFAULT_PRIVILEGES.items():
        items = [f"'={public}/' || o.c3"] if public else []
        items.append(f"o.c3 || '={own}/' || o.c3")
        kinds.append(f"WHEN '{kind}' THEN [{', '.join(items)}]")
    owner = f"(SELECT * FROM {_place(ROLE_NAMES)} AS l WHERE l.c1 = {arguments[1]})"
    return f"(SELECT any_value(CASE {arguments[0]} {' '.join(kinds)} ELSE []::VARCHAR[] END) FROM {owner} AS o)"


def _exploded_acl(arguments: list[str]) -> str:
    """aclexplode(acl): (grantor, grantee, privilege, grantable) for each letter of each item."""
    words = ", ".join(f"'{letter}': '{word}'" for letter, word in PRIVILEGE_WORDS.items())
    part = "regexp_extract(i, '^(.*)=([A-Za-z*]*)/(.*)$', %d)"
    letters = f"regexp_extract_all({part % 2}, '[A-Za-z][*]?')"
    row = (
        f"{{'f1': coalesce(r.m[{part % 3}], 0), 'f2': coalesce(r.m[{part % 1}], 0), "
        f"'f3': map {{{words}}}[left(p, 1)], 'f4': length(p) = 2}}"
    )
    items = f"flatten(list_transform(a.v, lambda i: list_transform({letters}, lambda p: {row})))"
    names = f"SELECT map(list(l.c3), list(l.c1)) AS m FROM {_place(ROLE_NAMES)} AS l"
    return f"(SELECT {items} FROM ({names}) AS r, (SELECT {arguments[0]} AS v) AS a)"


register("acldefault_sql", _default_acl, ROLE_NAMES)
register("aclexplode", _exploded_acl, ROLE_NAMES)

# ---- sizes ----------------------------------------------------------------------------------------------------------


def _relation_size(arguments: list[str]) -> str:
    own = look_up(RELATION_SIZES, "own", arguments[0])
    if len(arguments) == 1:
        return own
    error = sql_error_call("22023", "invalid fork name")
    kept = (
        f"CASE WHEN f.v = 'main' THEN 1 WHEN f.v IN ('fsm', 'vm', 'init') THEN 0 WHEN f.v IS NOT NULL THEN {error} END"
    )
    return f"({own} * (SELECT {kept} FROM (SELECT {arguments[1]} AS v) AS f))"


def _named_size(source: str, table: VirtualTable, message: str, sqlstate: str) -> None:
    """Registers a size function by name. The SQL raises an error for a missing object, and for a size that the role may
    not see."""
    error = sql_error_call(sqlstate, message)

    def sql(arguments: list[str]) -> str:
        (name,) = arguments
        return f"CASE WHEN {name} IS NOT NULL THEN coalesce({look_up(table, 'size', name, 'name')}, {error}) END"

    register(source, sql, table)


register("pg_relation_size", _relation_size, RELATION_SIZES)
_by_key("pg_table_size", RELATION_SIZES, "own")
_by_key("pg_indexes_size", RELATION_SIZES, "indexes")
_by_key("pg_total_relation_size", RELATION_SIZES, "total")
_by_key("pg_database_size_oid", DATABASE_SIZES, "size")
_named_size("pg_database_size_name", DATABASE_SIZES, "database does not exist, or permission denied", "3D000")
_by_key("pg_tablespace_size_oid", TABLESPACE_SIZES, "size")
_named_size("pg_tablespace_size_name", TABLESPACE_SIZES, "tablespace does not exist, or permission denied", "42704")

# ---- statistics: unmeasured values are zero -------------------------------------------------------------------------


def _count(source: str, column: str) -> None:
    register(source, lambda a: f"coalesce({look_up(TABLE_COUNTS, column, a[0])}, 0)", TABLE_COUNTS)


_count("pg_stat_get_tuples_inserted", "inserted")
_count("pg_stat_get_tuples_updated", "updated")
_count("pg_stat_get_tuples_deleted", "deleted")
_count("pg_stat_get_live_tuples", "live")

for _when in ("", "xact_"):
    for _name, _wanted in (("calls", "calls"), ("total_time", "total"), ("self_time", "own")):
        _by_key(f"pg_stat_get_{_when}function_{_name}", FUNCTION_COUNTS, _when + _wanted)

_COUNTERS = (
    "numscans tuples_returned tuples_fetched tuples_hot_updated "
    "dead_tuples mod_since_analyze ins_since_vacuum blocks_fetched blocks_hit vacuum_count "
    "autovacuum_count analyze_count autoanalyze_count xact_numscans xact_tuples_returned xact_tuples_fetched "
    "xact_tuples_inserted xact_tuples_updated xact_tuples_deleted xact_tuples_hot_updated"
)
register(" ".join(f"pg_stat_get_{name}" for name in _COUNTERS.split()), lambda a: "0::BIGINT")
register(
    "pg_stat_get_last_vacuum_time pg_stat_get_last_autovacuum_time pg_stat_get_last_analyze_time "
    "pg_stat_get_last_autoanalyze_time",
    lambda a: "NULL::TIMESTAMP",
)


def _sequence_last_value(arguments: list[str]) -> str:
    denied = look_up(SEQUENCE_VALUES, "denied", arguments[0])
    error = sql_error_call_of("42501", f"'permission denied for sequence ' || {denied}")
    return f"CASE WHEN {denied} IS NOT NULL THEN {error} ELSE {look_up(SEQUENCE_VALUES, 'last', arguments[0])} END"


register("pg_sequence_last_value", _sequence_last_value, SEQUENCE_VALUES)


def _of_kind(sources: str, condition: str) -> None:
    """Registers functions that depend on a relation's kind (@ in `condition`) and OID (l.c1)."""
    kind = "l." + _column(_CLASSES, "relkind")
    made = condition.replace("@", kind)
    register(
        sources, lambda a: f"(SELECT any_value({made}) FROM {_place(_CLASSES)} AS l WHERE l.c1 = {a[0]})", _CLASSES
    )


def _updatable(oid: str, number: str) -> str:
    """Returns SQL for the possible changes of a relation: 28 (INSERT, UPDATE and DELETE) for a table, the value in
    UPDATABLE for a view."""
    kind = "l." + _column(_CLASSES, "relkind")
    events = f"SELECT any_value(u.c3) FROM {_place(UPDATABLE)} AS u WHERE u.c1 = l.c1 AND u.c2 = {number}"
    return (
        f"(SELECT coalesce(any_value(CASE WHEN {kind} IN ('r', 'p') THEN 28 WHEN {kind} = 'v' THEN ({events}) END), 0) "
        f"FROM {_place(_CLASSES)} AS l WHERE l.c1 = {oid})"
    )


register(
    "pg_relation_is_updatable",
    lambda a: f"CASE WHEN {a[0]} IS NOT NULL AND {a[1]} IS NOT NULL THEN {_updatable(a[0], '0')} END",
    UPDATABLE,
    _CLASSES,
)
register(
    "pg_column_is_updatable",  # requires UPDATE and DELETE
    lambda a: (
        f"CASE WHEN {a[0]} IS NOT NULL AND {a[2]} IS NOT NULL AND {a[1]} IS NOT NULL "
        f"THEN {a[1]} > 0 AND ({_updatable(a[0], a[1])} & 20) = 20 END"
    ),
    UPDATABLE,
    _CLASSES,
)
_of_kind("pg_relation_is_publishable", "@ = 'r' AND l.c1 >= 16384")

# ---- information_schema's own functions -----------------------------------------------------------------------------

_INDEXES = system_table("pg_index")
register(
    "_pg_index_position",
    lambda a: (
        f"(SELECT any_value(CAST(list_position(l.{_column(_INDEXES, 'indkey')}, {a[1]}) AS INTEGER)) "
        f"FROM {_place(_INDEXES)} AS l WHERE l.c1 = {a[0]})"
    ),
    _INDEXES,
)
