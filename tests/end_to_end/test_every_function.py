"""Every function that the engine declares, called with NULLs, with too few and too many arguments, and with ones of
wrong types: the answer is a value or an error of SQL, never an internal error. Those for trees only do not exist.
"""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from catalog.functions import registry
from catalog.functions.base import Function
from catalog.types import format_type
from tests.samples import some
from tests.server import ShoalServer

_WAIT = ("pg_sleep", "pg_sleep_for", "pg_sleep_until", "pg_advisory_lock", "pg_advisory_lock_shared",
         "pg_advisory_xact_lock", "pg_advisory_xact_lock_shared", "pg_terminate_backend", "pg_reload_conf",
         "shoal_checkpoint", "shoal_check", "shoal_check_indexes", "shoal_backup")  # fmt: skip
_AS_IN_POSTGRESQL = (
    "cache lookup failed",
    "unrecognized weight",
    "invalid non-zero objectSubId",
)  # elog() of what calls by hand alone reach
_KINDS = ("null", "null::int[]", "-1", "'x'", "row(1, null)")
PARTS = 4


def _functions() -> dict[str, list[Function]]:
    found: dict[str, list[Function]] = {}
    for oid in registry.function_oids():
        function = registry.function(oid)
        if function.name not in _WAIT:
            found.setdefault(function.name, []).append(function)
    return found


def _calls(name: str, functions: list[Function]) -> list[str]:
    most = max(len(function.argument_types) for function in functions)
    lists = [["null"] * count for count in range(most + 2)]
    for count in {len(function.argument_types) for function in functions} - {0}:
        lists += [[kind] * count for kind in _KINDS[1:]]
    for function in functions:
        lists.append([f"null::{format_type(oid)}" for oid in function.argument_types])
    return list(dict.fromkeys(f'SELECT "{name}"({", ".join(arguments)})' for arguments in lists))


def _internal(connection: psycopg.Connection, statement: str) -> str | None:
    """The internal error that a statement gives."""
    try:
        connection.execute(statement.encode())
    except psycopg.Error as error:
        if error.sqlstate in (None, "XX000") and not str(error).startswith(_AS_IN_POSTGRESQL):
            return f"{statement}: {error}"
    return None


@pytest.fixture(scope="module")
def shoal() -> Iterator[ShoalServer]:
    """One for these calls alone, which make large objects, change settings and forget statistics."""
    with ShoalServer() as server:
        yield server


@pytest.mark.parametrize("part", some(range(PARTS), 2))
def test_calls_give_no_internal_errors(shoal: ShoalServer, part: int) -> None:
    found = []
    with psycopg.connect(shoal.dsn, autocommit=True, options="-c statement_timeout=20s") as connection:
        for name, functions in list(_functions().items())[part::PARTS]:
            for statement in _calls(name, functions):
                found.append(_internal(connection, statement))
    assert [item for item in found if item] == []


_VALUES = {
    "text": "x", "character varying": "x", "character": "x", '"char"': "x", "name": "x", "bytea": "x", "integer": "1",
    "bigint": "1", "smallint": "1", "numeric": "1.5", "double precision": "1.5", "real": "1.5", "boolean": "t",
    "date": "2024-02-29", "timestamp without time zone": "2024-02-29 12:00", "time without time zone": "12:00",
    "timestamp with time zone": "2024-02-29 12:00+00", "time with time zone": "12:00+00", "interval": "1 day",
    "json": "[1]", "jsonb": "[1]", "jsonpath": "$", "uuid": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "bit": "1",
    "bit varying": "1", "inet": "127.0.0.1", "cidr": "10.0.0.0/8", "money": "1", "tsvector": "a", "tsquery": "a",
    "int4range": "[1,2)", "numrange": "[1,2)", "point": "(1,2)", "text[]": "{x}", "integer[]": "{1}", "oid": "1",
    "anyarray": "{1}", "anycompatiblearray": "{1}", "anyelement": "1", "anycompatible": "1", "anynonarray": "1",
}  # fmt: skip
"""A literal of each of these types."""
_POLYMORPHIC = {"anyarray": "integer[]", "anycompatiblearray": "integer[]"} | dict.fromkeys(
    ("anyelement", "anycompatible", "anynonarray"), "integer"
)
_PLACES = (
    "SELECT CASE WHEN ({}) IS NULL THEN 1 ELSE 2 END",
    "SELECT sum(CASE WHEN ({}) IS NULL THEN 1 ELSE 2 END) FROM generate_series(1, 2) WHERE ({}) IS NOT NULL OR false",
)
"""Where the planner would know a constant."""


def _constants(functions: list[Function]) -> list[str]:
    found = []
    for function in functions:
        names = [format_type(oid) for oid in function.argument_types]
        if function.volatility == "i" and not function.returns_set and all(name in _VALUES for name in names):
            values = [f"'{_VALUES[name]}'::{_POLYMORPHIC.get(name, name)}" for name in names]
            call = f'"{function.name}"({", ".join(values)})'
            found += [place.replace("{}", call) for place in _PLACES]
    return found


@pytest.mark.parametrize("path", some(["auto", "columnar"], 2))
def test_constants_give_no_internal_errors(shoal: ShoalServer, path: str) -> None:
    found, count = [], 0
    with psycopg.connect(shoal.dsn, autocommit=True, options="-c statement_timeout=20s") as connection:
        connection.execute(f"SET shoal.path = {path}".encode())
        for functions in _functions().values():
            for statement in _constants(functions):
                count += 1
                found.append(_internal(connection, statement))
    assert [item for item in found if item] == []
    assert count > 1000


def test_internal_errors_are_noticed(shoal: ShoalServer, monkeypatch: pytest.MonkeyPatch) -> None:
    with psycopg.connect(shoal.dsn, autocommit=True) as connection:
        statement = "SELECT ts_token_type(-1)"
        assert _internal(connection, statement) is None
        monkeypatch.setattr("tests.end_to_end.test_every_function._AS_IN_POSTGRESQL", "nothing")
        assert _internal(connection, statement) is not None


def test_functions_for_trees_have_no_name(shoal: ShoalServer) -> None:
    names = [function.name for oid in registry.function_oids() if registry.is_inner(oid)
             for function in [registry.function(oid)]]  # fmt: skip
    assert "row_to_json_object" in names
    with psycopg.connect(shoal.dsn, autocommit=True) as connection:
        for name in names:
            for arguments in ("", "null", "null, null", "null, null, null", "1, 2, 3, 4"):
                with pytest.raises(psycopg.errors.UndefinedFunction):
                    connection.execute(f'SELECT "{name}"({arguments})'.encode())  # in quotes the grammar takes no part
