"""Errors on their way out of DuckDB."""

from __future__ import annotations

from catalog.errors import SqlError
from catalog.functions.duckdb_errors import sql_error_call, sql_error_call_of, translate, udf_error_message
from tests.catalog.functions.calling import open_duckdb


def raised(sql: str) -> SqlError:
    try:
        open_duckdb().execute(f"SELECT {sql}").fetchall()
    except Exception as error:
        return translate(str(error))
    raise AssertionError("no error")


def test_raised_errors_keep_sqlstate_and_message() -> None:
    error = raised(sql_error_call("2201F", "it's a 100% error: really"))
    assert (error.sqlstate, error.message) == ("2201F", "it's a 100% error: really")
    error = raised(sql_error_call_of("22P02", "'value ' || 5"))
    assert (error.sqlstate, error.message) == ("22P02", "value 5")


def test_an_error_call_quoted_in_another_error_is_not_taken_for_it() -> None:
    sql = f"CASE WHEN 1 = 2 THEN {sql_error_call('22012', 'division by zero')} ELSE CAST(1e300::DOUBLE AS FLOAT) END"
    assert raised(sql).message == "value out of range: overflow"


def test_errors_of_udfs_come_back() -> None:
    message = "Invalid Input Error: Python exception occurred: " + udf_error_message(SqlError("22003", "too big"))
    assert (translate(message).sqlstate, translate(message).message) == ("22003", "too big")


def test_what_is_not_known_is_an_internal_error() -> None:
    assert translate("Binder Error: whatever").sqlstate == "XX000"


def test_what_nests_deeper_than_duckdb_goes() -> None:
    error = raised("NOT " * 2000 + "true")
    assert (error.sqlstate, error.message) == ("54001", "stack depth limit exceeded")
    assert error.hint == "Simplify the statement: it nests too deeply."


def test_a_udf_that_nests_too_deeply() -> None:
    message = "Invalid Input Error: Python exception occurred while executing the UDF: RecursionError: too deep"
    assert translate(message).sqlstate == "54001"
