"""One schema with objects of every kind, as information_schema and the functions of definitions show it, on both."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import product

import psycopg
import pytest

from tests.engine.system.conftest import Pair, rich_pair
from tests.oracle import PostgresServer
from tests.samples import some
from tests.server import ShoalServer

_OID = re.compile(r"(?<![A-Za-z0-9])\d{5,}(?![0-9])|(?<=_)\d{5,}(?=_|$)")
_OF_RELATIONS = "FROM pg_class c WHERE relnamespace = 'rich'::regnamespace"
_OF_FUNCTIONS = "FROM pg_proc p WHERE pronamespace = 'rich'::regnamespace"
_PRETTY = "unnest(ARRAY[false, true]) pretty"
_DEFINITIONS = {
    "indexdef": f"SELECT relname, pg_get_indexdef(oid) {_OF_RELATIONS} AND relkind IN ('i', 'I')",
    "indexdef of columns": "SELECT relname, n, pretty, pg_get_indexdef(c.oid, n, pretty)"
    f" FROM pg_class c, generate_series(0, 5) n, {_PRETTY}"
    " WHERE relnamespace = 'rich'::regnamespace AND relkind IN ('i', 'I')",
    "constraintdef": "SELECT conrelid::regclass, contypid::regtype, conname, pretty, pg_get_constraintdef(oid, pretty)"
    f" FROM pg_constraint, {_PRETTY} WHERE connamespace = 'rich'::regnamespace",
    "viewdef": "SELECT relname, pretty, pg_get_viewdef(c.oid, pretty)"
    f" FROM pg_class c, {_PRETTY} WHERE relnamespace = 'rich'::regnamespace AND relkind IN ('v', 'm')",
    "functiondef": f"SELECT proname, pg_get_functiondef(oid) {_OF_FUNCTIONS}",
    "functions": "SELECT proname, pg_get_function_arguments(oid), pg_get_function_identity_arguments(oid),"
    f" pg_get_function_result(oid), pg_get_function_sqlbody(oid) {_OF_FUNCTIONS}",
    "defaults of arguments": "SELECT proname, n, pg_get_function_arg_default(p.oid, n)"
    " FROM pg_proc p, generate_series(-1, 4) n WHERE pronamespace = 'rich'::regnamespace",
    "defaults of built-in arguments": "SELECT p.oid::regprocedure, n, pg_get_function_arg_default(p.oid, n)"
    " FROM pg_proc p, generate_series(1, 5) n WHERE proname IN ('jsonb_path_query', 'make_interval', 'lower')",
    "partkeydef": f"SELECT relname, pg_get_partkeydef(oid) {_OF_RELATIONS} AND relkind IN ('r', 'p')",
    "partition_constraintdef": f"SELECT relname, pg_get_partition_constraintdef(oid) {_OF_RELATIONS} AND relkind = 'r'",
    "bounds": f"SELECT relname, pg_get_expr(relpartbound, oid) {_OF_RELATIONS}",
    "defaults": "SELECT adrelid::regclass, adnum, pretty, pg_get_expr(adbin, adrelid, pretty)"
    f" FROM pg_attrdef JOIN pg_class c ON c.oid = adrelid, {_PRETTY} WHERE relnamespace = 'rich'::regnamespace",
    "serial_sequence": "SELECT relname, attname, pg_get_serial_sequence('rich.' || relname, attname)"
    " FROM pg_class c JOIN pg_attribute ON attrelid = c.oid"
    " WHERE relnamespace = 'rich'::regnamespace AND relkind = 'r' AND attnum > 0",
    "comments": f"SELECT relname, obj_description(oid, 'pg_class') {_OF_RELATIONS}",
    "comments on columns": "SELECT relname, attname, col_description(c.oid, attnum)"
    " FROM pg_class c JOIN pg_attribute ON attrelid = c.oid WHERE relnamespace = 'rich'::regnamespace AND attnum > 0",
    "comments on constraints": "SELECT conname, conrelid::regclass, obj_description(oid, 'pg_constraint')"
    " FROM pg_constraint WHERE connamespace = 'rich'::regnamespace",
    "inheritance of constraints": "SELECT conname, conrelid::regclass, conislocal, coninhcount, connoinherit"
    " FROM pg_constraint WHERE connamespace = 'rich'::regnamespace",
    "updatable relations": f"SELECT relname, relkind, pg_relation_is_updatable(oid, false) {_OF_RELATIONS}",
    "updatable columns": "SELECT relname, n, pg_column_is_updatable(c.oid, n::int2, true)"
    " FROM pg_class c, generate_series(-1, 6) n WHERE relnamespace = 'rich'::regnamespace AND relkind <> 'r'",
    "described relations": f"SELECT pg_describe_object('pg_class'::regclass, oid, 0) {_OF_RELATIONS}",
    "described columns": "SELECT pg_describe_object('pg_class'::regclass, attrelid, attnum)"
    " FROM pg_attribute JOIN pg_class c ON c.oid = attrelid"
    " WHERE relnamespace = 'rich'::regnamespace AND attnum > 0 AND relkind <> 'i'",
    "described constraints": "SELECT pg_describe_object('pg_constraint'::regclass, oid, 0)"
    " FROM pg_constraint WHERE connamespace = 'rich'::regnamespace",
    "described functions": f"SELECT pg_describe_object('pg_proc'::regclass, oid, 0) {_OF_FUNCTIONS}",
    "described types": "SELECT pg_describe_object('pg_type'::regclass, oid, 0)"
    " FROM pg_type WHERE typnamespace = 'rich'::regnamespace",
    "described defaults": "SELECT pg_describe_object('pg_attrdef'::regclass, a.oid, 0)"
    " FROM pg_attrdef a JOIN pg_class c ON c.oid = adrelid WHERE relnamespace = 'rich'::regnamespace",
    "described rules": "SELECT pg_describe_object('pg_rewrite'::regclass, r.oid, 0)"
    " FROM pg_rewrite r JOIN pg_class c ON c.oid = ev_class WHERE relnamespace = 'rich'::regnamespace",
    "described schemas": "SELECT pg_describe_object('pg_namespace'::regclass, oid, 0) FROM pg_namespace"
    " WHERE nspname IN ('rich', 'public', 'pg_catalog')",
    "described roles and collations": "SELECT pg_describe_object('pg_authid'::regclass, oid, 0) FROM pg_authid"
    " WHERE rolname LIKE 'rich%' UNION SELECT pg_describe_object('pg_collation'::regclass, oid, 0)"
    " FROM pg_collation WHERE collname IN ('german', 'C', 'default', 'de-x-icu')",
    "described built-in objects": "SELECT pg_describe_object('pg_proc'::regclass, oid, 0) FROM pg_proc"
    " WHERE proname LIKE 'array%' UNION SELECT pg_describe_object('pg_operator'::regclass, oid, 0) FROM pg_operator"
    " WHERE oprname = '<' AND oid < 16384 UNION SELECT pg_describe_object('pg_am'::regclass, oid, 0) FROM pg_am"
    " WHERE amname = 'btree' UNION SELECT pg_describe_object('pg_language'::regclass, oid, 0) FROM pg_language"
    " WHERE lanname = 'sql' UNION SELECT pg_describe_object('pg_database'::regclass, oid, 0) FROM pg_database"
    " WHERE datname = 'postgres' UNION SELECT pg_describe_object('pg_tablespace'::regclass, oid, 0)"
    " FROM pg_tablespace WHERE spcname = 'pg_default' UNION SELECT pg_describe_object('pg_ts_config'::regclass, oid, 0)"
    " FROM pg_ts_config WHERE cfgname = 'english'",
    "objects that are not there": "SELECT pg_describe_object(k::oid, o::oid, 0)"
    " FROM unnest(ARRAY[1247, 1255, 1259, 2604, 2606, 2615, 2618]) k, unnest(ARRAY[0, 1, 2000000000]) o",
    "what rules depend on": "SELECT r.ev_class::regclass, d.refclassid::regclass,"
    " CASE d.refclassid WHEN 'pg_proc'::regclass THEN d.refobjid::regprocedure::text"
    " WHEN 'pg_type'::regclass THEN d.refobjid::regtype::text ELSE d.refobjid::regclass::text END,"
    " d.refobjsubid, d.deptype FROM pg_depend d JOIN pg_rewrite r ON r.oid = d.objid"
    " JOIN pg_class c ON c.oid = r.ev_class WHERE relnamespace = 'rich'::regnamespace",
    "what functions depend on": "SELECT p.oid::regprocedure, d.refclassid::regclass,"
    " CASE d.refclassid WHEN 'pg_proc'::regclass THEN d.refobjid::regprocedure::text"
    " ELSE d.refobjid::regclass::text END, d.refobjsubid, d.deptype"
    " FROM pg_depend d JOIN pg_proc p ON p.oid = d.objid AND d.classid = 'pg_proc'::regclass"
    " WHERE pronamespace = 'rich'::regnamespace AND d.refclassid IN ('pg_class'::regclass, 'pg_proc'::regclass)",
}


@pytest.fixture(scope="module")
def pair(shoal: ShoalServer, postgres_server: PostgresServer) -> Iterator[Pair]:
    with rich_pair(shoal, postgres_server) as connections:
        yield connections


def _plain(value: object) -> object:
    """Without the OIDs that names of PostgreSQL contain, which differ from server to server."""
    return _OID.sub("OID", value) if isinstance(value, str) else value


def _of_schema(row: tuple[object, ...]) -> bool:
    return any(isinstance(value, str) and value.startswith("rich") for value in row)


def _rows(connection: psycopg.Connection, query: str) -> Counter[tuple[object, ...]]:
    return Counter(tuple(map(_plain, row)) for row in connection.execute(query).fetchall())


def _same(ours: Counter[tuple[object, ...]], theirs: Counter[tuple[object, ...]]) -> None:
    assert theirs, "the schema shows nothing of this"
    assert sorted((theirs - ours), key=repr) == sorted((ours - theirs), key=repr)


def _views() -> list[str]:
    """Those of information_schema that say something of a schema's objects."""
    return [
        "administrable_role_authorizations", "applicable_roles", "attributes", "check_constraint_routine_usage",
        "check_constraints", "collation_character_set_applicability", "collations", "column_column_usage",
        "column_domain_usage", "column_options", "column_privileges", "column_udt_usage", "columns",
        "constraint_column_usage", "constraint_table_usage", "data_type_privileges", "domain_constraints",
        "domain_udt_usage", "domains", "element_types", "enabled_roles", "key_column_usage", "parameters",
        "referential_constraints", "role_column_grants", "role_routine_grants", "role_table_grants",
        "role_udt_grants", "role_usage_grants", "routine_column_usage", "routine_privileges", "routine_routine_usage",
        "routine_sequence_usage", "routine_table_usage", "routines", "schemata", "sequences", "table_constraints",
        "table_privileges", "tables", "transforms", "triggered_update_columns", "triggers", "udt_privileges",
        "usage_privileges", "user_defined_types", "view_column_usage", "view_routine_usage", "view_table_usage",
        "views",
    ]  # fmt: skip


_EMPTY = {
    "check_constraint_routine_usage", "column_options", "transforms", "triggered_update_columns", "triggers",
}  # fmt: skip


@pytest.mark.parametrize(("view", "path"), some(product(_views(), ("auto", "columnar")), 5))
def test_information_schema_is_postgresqls(pair, view: str, path: str) -> None:
    ours, _ = pair
    ours.execute(f"SET shoal.path = {path}")
    every = [_rows(connection, f"SELECT * FROM information_schema.{view}") for connection in pair]
    found = [Counter({row: count for row, count in rows.items() if _of_schema(row)}) for rows in every]
    if view not in _EMPTY:
        _same(*found)
    else:
        assert found[0] == found[1]


@pytest.mark.parametrize(("what", "path"), some(product(_DEFINITIONS, ("auto", "columnar")), 3))
def test_definitions_are_postgresqls(pair, what: str, path: str) -> None:
    ours, theirs = pair
    ours.execute(f"SET shoal.path = {path}")
    _same(_rows(ours, _DEFINITIONS[what]), _rows(theirs, _DEFINITIONS[what]))


def test_every_view_of_information_schema_is_tried(pair) -> None:
    _, theirs = pair
    query = "SELECT table_name FROM information_schema.views WHERE table_schema = 'information_schema'"
    known = {name for (name,) in theirs.execute(query).fetchall()}
    foreign = {name for name in known if "foreign" in name or "user_mapping" in name}
    assert known - foreign - {"character_sets", "information_schema_catalog_name"} == set(_views())


def test_the_comparison_notices_a_difference(pair) -> None:
    ours, theirs = pair
    query = _DEFINITIONS["updatable relations"]
    with ours.transaction(force_rollback=True):
        ours.execute("CREATE OR REPLACE VIEW rich.plain2 (x, y) AS SELECT DISTINCT name, many FROM rich.plain")
        with pytest.raises(AssertionError):
            _same(_rows(ours, query), _rows(theirs, query))
