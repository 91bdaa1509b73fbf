"""pg_describe_object: descriptions of objects for messages and dependencies (getObjectDescription).

Like all catalog functions, it exists as SQL over the virtual tables, and as a Python function that reads their rows.
The result is NULL for missing objects, and for catalogs that Shoal does not have.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from catalog.functions.base import CallContext
from catalog.functions.registry import implements
from catalog.functions.system import shown_type
from catalog.functions.system_lookups import Row, find
from catalog.schema import VirtualTable
from catalog.system import derived_oids
from catalog.system import relations as internal
from catalog.system.content import system_table
from catalog.system.lookups import format_type, look_up, register

_RELATION_WORDS = {
    "r": "table", "p": "table", "i": "index", "I": "index", "S": "sequence", "t": "toast table", "v": "view",
    "m": "materialized view", "c": "composite type", "f": "foreign table",
}  # fmt: skip
_CLASS, _ATTRIBUTE = system_table("pg_class"), system_table("pg_attribute")
_CONSTRAINT, _DEFAULT, _RULE = system_table("pg_constraint"), system_table("pg_attrdef"), system_table("pg_rewrite")
_POLICY = system_table("pg_policy")
_NAMED: dict[int, tuple[str, VirtualTable, str]] = {
    derived_oids.PG_PROC: ("function", internal.FUNCTION_NAMES, "signature"),
    derived_oids.PG_OPERATOR: ("operator", internal.OPERATOR_NAMES, "signature"),
    derived_oids.PG_STATISTIC_EXT: ("statistics object", internal.STATISTICS_TEXTS, "shown"),
    derived_oids.PG_NAMESPACE: ("schema", internal.SCHEMA_NAMES, "name"),
    derived_oids.PG_AUTHID: ("role", internal.ROLE_NAMES, "name"),
    derived_oids.PG_COLLATION: ("collation", internal.COLLATION_NAMES, "shown"),
    derived_oids.PG_DATABASE: ("database", system_table("pg_database"), "datname"),
    derived_oids.PG_TABLESPACE: ("tablespace", system_table("pg_tablespace"), "spcname"),
    derived_oids.PG_FOREIGN_SERVER: ("server", system_table("pg_foreign_server"), "srvname"),
    derived_oids.PG_FOREIGN_DATA_WRAPPER: ("foreign-data wrapper", system_table("pg_foreign_data_wrapper"), "fdwname"),
    derived_oids.PG_EXTENSION: ("extension", system_table("pg_extension"), "extname"),
    derived_oids.PG_EVENT_TRIGGER: ("event trigger", system_table("pg_event_trigger"), "evtname"),
    3600: ("text search dictionary", system_table("pg_ts_dict"), "dictname"),
    3601: ("text search parser", system_table("pg_ts_parser"), "prsname"),
    3602: ("text search configuration", system_table("pg_ts_config"), "cfgname"),
    2607: ("conversion", system_table("pg_conversion"), "conname"),
    3764: ("text search template", system_table("pg_ts_template"), "tmplname"),
    2601: ("access method", system_table("pg_am"), "amname"),
    2612: ("language", system_table("pg_language"), "lanname"),
}
"""By catalog: the word, and the table with the name by OID."""


def _place(table: VirtualTable, name: str) -> int:
    return next(column.number for column in table.columns if column.name == name) - 1


# ---- as SQL ---------------------------------------------------------------------------------------------------------


def _column(table: VirtualTable, name: str, alias: str) -> str:
    return f"{alias}.c{_place(table, name) + 1}"


def _rows(table: VirtualTable, alias: str) -> str:
    return f"{{v{table.oid}}} AS {alias}"


def _relation_sql(oid: str) -> str:
    words = " ".join(f"WHEN '{kind}' THEN '{word} '" for kind, word in _RELATION_WORDS.items())
    kind = _column(_CLASS, "relkind", "d")
    word = f"(SELECT CASE {kind} {words} END FROM {_rows(_CLASS, 'd')} WHERE d.c1 = {oid})"
    return f"({word} || {look_up(internal.RELATION_NAMES, 'shown', oid)})"


def _column_sql(relation: str, number: str) -> str:
    on, place = _column(_ATTRIBUTE, "attrelid", "t"), _column(_ATTRIBUTE, "attnum", "t")
    found = f"FROM {_rows(_ATTRIBUTE, 't')} WHERE {on} = {relation} AND {place} = {number}"
    name = f"(SELECT {_column(_ATTRIBUTE, 'attname', 't')} {found})"
    return f"('column ' || {name} || ' of ' || {_relation_sql(relation)})"


def _part_sql(table: VirtualTable, oid: str, text: str) -> str:
    return f"(SELECT {text} FROM {_rows(table, 'o')} WHERE {_column(table, 'oid', 'o')} = {oid})"


def _describe_arguments(arguments: list[str]) -> str:
    kind, oid, part = arguments
    on = _column(_CONSTRAINT, "conrelid", "o")
    constraint = f"'constraint ' || {_column(_CONSTRAINT, 'conname', 'o')}"
    cases = {
        derived_oids.PG_CLASS: f"CASE WHEN {part} = 0 THEN {_relation_sql(oid)} ELSE {_column_sql(oid, part)} END",
        derived_oids.PG_TYPE: f"CASE WHEN {look_up(_TYPE, 'typname', oid)} IS NOT NULL "
        f"THEN 'type ' || {format_type(oid, 'NULL')} END",
        derived_oids.PG_CONSTRAINT: _part_sql(
            _CONSTRAINT,
            oid,
            f"CASE WHEN {on} = 0 THEN {constraint} ELSE {constraint} || ' on ' || {_relation_sql(on)} END",
        ),
        derived_oids.PG_ATTRDEF: _part_sql(
            _DEFAULT,
            oid,
            "'default value for ' || "
            + _column_sql(_column(_DEFAULT, "adrelid", "o"), _column(_DEFAULT, "adnum", "o")),
        ),
        derived_oids.PG_REWRITE: _part_sql(
            _RULE,
            oid,
            f"'rule ' || {_column(_RULE, 'rulename', 'o')} || ' on ' || "
            + _relation_sql(_column(_RULE, "ev_class", "o")),
        ),
        derived_oids.PG_POLICY: _part_sql(
            _POLICY,
            oid,
            f"'policy ' || {_column(_POLICY, 'polname', 'o')} || ' on ' || "
            + _relation_sql(_column(_POLICY, "polrelid", "o")),
        ),
    }
    for catalog, (word, table, name) in _NAMED.items():
        cases[catalog] = f"'{word} ' || {look_up(table, name, oid)}"
    return f"CASE {kind} {' '.join(f'WHEN {number} THEN {text}' for number, text in cases.items())} END"


_TYPE = system_table("pg_type")
register(
    "pg_describe_object",
    _describe_arguments,
    *(table for _, table, _ in _NAMED.values()),
    *(_CLASS, _ATTRIBUTE, _CONSTRAINT, _DEFAULT, _RULE, _POLICY, _TYPE, internal.RELATION_NAMES, internal.TYPE_NAMES),
    udfs=("shoal_builtin_type",),
)


# ---- in Python ------------------------------------------------------------------------------------------------------


def _one(call: CallContext, table: VirtualTable, oid: int) -> Row | None:
    found: Iterable[Row] = find(call, table, "oid", oid)
    return next(iter(found), None)


def _relation(call: CallContext, oid: int) -> str | None:
    row, named = _one(call, _CLASS, oid), _one(call, internal.RELATION_NAMES, oid)
    if row is None or named is None:
        return None
    return f"{_RELATION_WORDS[row[_place(_CLASS, 'relkind')]]} {named[1]}"


def _column_of(call: CallContext, relation: int, number: int) -> str | None:
    place, name = _place(_ATTRIBUTE, "attnum"), _place(_ATTRIBUTE, "attname")
    names = (row[name] for row in find(call, _ATTRIBUTE, "attrelid", relation) if row[place] == number)
    found, on = next(names, None), _relation(call, relation)
    return None if found is None or on is None else f"column {found} of {on}"


@implements("pg_describe_object", needs_session=True)
def _describe(call: CallContext, kind: int, oid: int, part: int) -> str | None:
    if kind == derived_oids.PG_CLASS:
        return _relation(call, oid) if part == 0 else _column_of(call, oid, part)
    if kind == derived_oids.PG_TYPE:
        return None if _one(call, _TYPE, oid) is None else f"type {shown_type(call, oid, None)}"
    if kind in _NAMED:
        word, table, name = _NAMED[kind]
        row = _one(call, table, oid)
        return None if row is None else f"{word} {row[_place(table, name)]}"
    return _describe_part(call, kind, oid)


def _describe_part(call: CallContext, kind: int, oid: int) -> str | None:
    """Returns the description of a constraint, a default, a rule or a policy; None for others and for missing
    objects."""
    tables = {
        derived_oids.PG_CONSTRAINT: _CONSTRAINT, derived_oids.PG_ATTRDEF: _DEFAULT, derived_oids.PG_REWRITE: _RULE,
        derived_oids.PG_POLICY: _POLICY,
    }  # fmt: skip
    table = tables.get(kind)
    row = None if table is None else _one(call, table, oid)
    if table is None or row is None:
        return None
    if table is _DEFAULT:
        on = _column_of(call, row[_place(table, "adrelid")], row[_place(table, "adnum")])
        return None if on is None else f"default value for {on}"
    if table is _RULE:
        return f"rule {row[_place(table, 'rulename')]} on {_relation(call, row[_place(table, 'ev_class')])}"
    if table is _POLICY:
        return f"policy {row[_place(table, 'polname')]} on {_relation(call, row[_place(table, 'polrelid')])}"
    name, relation = row[_place(table, "conname")], cast(int, row[_place(table, "conrelid")])
    return f"constraint {name} on {_relation(call, relation)}" if relation else f"constraint {name}"
