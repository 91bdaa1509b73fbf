"""pg_identify_object and its kin: of every object of one rich schema, and of what is built in."""

from __future__ import annotations

import re
from collections.abc import Iterator

import psycopg
import pytest

from catalog.system import derived_oids, identities
from tests.engine.system.conftest import Pair, rich_pair
from tests.oracle import PostgresServer
from tests.server import ShoalServer

_MORE = (
    "ALTER DEFAULT PRIVILEGES IN SCHEMA rich GRANT SELECT ON TABLES TO rich_reader",
    "ALTER DEFAULT PRIVILEGES GRANT EXECUTE ON FUNCTIONS TO rich_reader",
    "GRANT SET ON PARAMETER work_mem TO rich_reader",
    'CREATE TABLE rich."Odd name" ("A b" int PRIMARY KEY)',
    "SELECT lo_create(4711)",
)
_WHOLE = (
    "pg_tablespace", "pg_collation", "pg_cast", "pg_am", "pg_opclass", "pg_opfamily", "pg_amop",
    "pg_amproc", "pg_ts_config", "pg_ts_dict", "pg_ts_parser", "pg_ts_template", "pg_default_acl", "pg_parameter_acl",
    "pg_operator",
)  # fmt: skip
_IN_SCHEMA = ("pg_class", "pg_type", "pg_proc", "pg_constraint", "pg_rewrite", "pg_namespace")
_BOTH = "x.*, a.type, a.object_names, a.object_args"
_CALLS = "pg_identify_object({0}) x, pg_identify_object_as_address({0}) a"
_QUERIES = {
    name: f"SELECT {_BOTH} FROM {name} o, " + _CALLS.format(f"'{name}'::regclass, o.oid, 0") for name in _WHOLE
} | {  # other tests may have left some
    "roles": f"SELECT {_BOTH} FROM pg_authid o, " + _CALLS.format("1260, o.oid, 0")
    + " WHERE rolname ~ '^(rich|pg)_' OR rolname = 'postgres'",
    "defaults": f"SELECT {_BOTH} FROM pg_attrdef o, " + _CALLS.format("2604, o.oid, 0")
    + " WHERE x.identity ~ 'rich'",
} | {
    name: f"SELECT {_BOTH} FROM {name} o, " + _CALLS.format(f"'{name}'::regclass, o.oid, 0")
    + " WHERE x.identity ~ 'rich'"
    for name in _IN_SCHEMA
} | {
    "columns": f"SELECT {_BOTH} FROM pg_attribute o JOIN pg_class c ON c.oid = attrelid, "
    + _CALLS.format("1259, o.attrelid, o.attnum")
    + " WHERE attnum > 0 AND relnamespace = 'rich'::regnamespace",
    "built-in functions": f"SELECT {_BOTH} FROM pg_proc o, " + _CALLS.format("1255, o.oid, 0")
    + " WHERE proname IN ('array_append', 'count', 'lag', 'substring', 'int4pl', 'oidvectorle', 'record_out')",
    "built-in types": f"SELECT {_BOTH} FROM pg_type o, " + _CALLS.format("1247, o.oid, 0")
    + " WHERE typtype = 'b' AND typname ~ '^_?(int|char|bp|var|oid|num|time|bit|json|text|name)' AND oid < 10000",
    "large objects": f"SELECT {_BOTH} FROM pg_largeobject_metadata o, " + _CALLS.format("2613, o.oid, 0"),
    "what is not there": f"SELECT k, o, {_BOTH} FROM unnest(ARRAY[1247, 1255, 1259, 2604, 2606, 2615, 2618, 2617, 1260,"
    " 1262, 1213, 2612, 3456, 3079, 2605, 2601, 2616, 2753, 2602, 2603, 3602, 826, 6243, 2613]::oid[]) k,"
    " unnest(ARRAY[0, 2000000000]::oid[]) o, " + _CALLS.format("k, o, 0"),
    "no such column": f"SELECT {_BOTH} FROM pg_class c, " + _CALLS.format("1259, c.oid, 99")
    + " WHERE relname IN ('parent', 'plain', 'counter')",
    "no value": "SELECT x.* FROM unnest(ARRAY[1259, NULL]::oid[]) k, pg_identify_object(k, NULL, 0) x",
    "a field": "SELECT (pg_identify_object(1259, oid, 0)).identity FROM pg_class"
    " WHERE relnamespace = 'rich'::regnamespace",
}  # fmt: skip
_REFUSED = ("1, 1, 1", "0, 0, 0", "2608, 0, 0", "1247, 23, 5")
_OID = re.compile(r"\d{5,}")


@pytest.fixture(scope="module")
def pair(shoal: ShoalServer, postgres_server: PostgresServer) -> Iterator[Pair]:
    with rich_pair(shoal, postgres_server, _MORE) as connections:
        yield connections


def _rows(connection: psycopg.Connection, query: str) -> set[str]:
    return {_OID.sub("OID", repr(row)) for row in connection.execute(query).fetchall()}


@pytest.mark.parametrize("path", ["auto", "columnar"])
@pytest.mark.parametrize("what", _QUERIES)
def test_identities_are_postgresqls(pair, what: str, path: str) -> None:
    ours, theirs = pair
    ours.execute(f"SET shoal.path = {path}")
    found, wanted = (_rows(connection, _QUERIES[what]) for connection in (ours, theirs))
    assert wanted
    assert found == wanted


@pytest.mark.parametrize("function", ["pg_identify_object", "pg_identify_object_as_address"])
@pytest.mark.parametrize("arguments", _REFUSED)
def test_refusals_are_postgresqls(pair, arguments: str, function: str) -> None:
    told = []
    for connection in pair:
        with pytest.raises(psycopg.Error) as raised:
            connection.execute(f"SELECT * FROM {function}({arguments})")
        told.append((raised.value.sqlstate, raised.value.diag.message_primary))
    assert told[0] == told[1]


def test_names_follow_what_is_renamed(pair) -> None:
    ours, _ = pair
    with ours.transaction(force_rollback=True):
        ours.execute("CREATE SCHEMA one; CREATE TYPE one.old AS ENUM ('a'); CREATE TABLE one.t (a one.old)")
        ours.execute("CREATE FUNCTION one.f(one.old) RETURNS int LANGUAGE sql AS 'SELECT 1'")
        ours.execute("ALTER TYPE one.old RENAME TO new; ALTER SCHEMA one RENAME TO two")
        types = _rows(ours, _QUERIES["pg_type"].replace("'rich'", "'two'"))
        functions = _rows(ours, _QUERIES["pg_proc"].replace("'rich'", "'two'"))
        assert any("two.new[]" in row for row in types)
        assert any("two.f(two.new)" in row for row in functions)


def test_one_function_is_identified_without_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    every = identities._sources(derived_oids.PG_PROC)
    rows = {oid: list(identities._function_rows(line)) for oid, line in every.items()}
    monkeypatch.delattr(identities, "_sources")
    assert {oid: identities._built_in_object(derived_oids.PG_PROC, oid) for oid in rows} == rows
    assert not identities._built_in_object(derived_oids.PG_PROC, 1)
