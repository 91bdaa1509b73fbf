"""The worker's DuckDB: what is kept from it, and when it is beyond help."""

from __future__ import annotations

import pathlib

import duckdb
import pytest

from engine.columnar.worker.database import careful_planning, is_fatal, open_database


def _disabled(connection: object) -> object:
    row = connection.execute("SELECT current_setting('disabled_optimizers')").fetchone()  # type: ignore[attr-defined]
    return row[0]


def test_queries_with_unnest_keep_the_sides_of_their_joins(tmp_path: pathlib.Path) -> None:
    connection = open_database(1 << 28, 1, str(tmp_path))
    with careful_planning(connection, "SELECT 1", False):
        assert _disabled(connection) == "projection_pullup"
    with careful_planning(connection, "SELECT unnest([1, 2])", False):
        assert _disabled(connection) == "build_side_probe_side,projection_pullup"
    assert _disabled(connection) == "projection_pullup"


def test_a_query_that_duckdb_fails_to_plan_is_planned_plainly(tmp_path: pathlib.Path) -> None:
    connection = open_database(1 << 28, 1, str(tmp_path))
    with careful_planning(connection, "SELECT 1", True):
        disabled = str(_disabled(connection))
        assert "statistics_propagation" in disabled and "join_order" not in disabled
    assert _disabled(connection) == "projection_pullup"


def test_nothing_else_of_the_configuration_can_be_changed(tmp_path: pathlib.Path) -> None:
    connection = open_database(1 << 28, 1, str(tmp_path))
    for setting in ("enable_external_access=true", "memory_limit='8GB'", "allowed_configs=['threads']"):
        with pytest.raises(duckdb.Error):
            connection.execute("SET " + setting)


def test_a_defect_of_duckdb_is_distinguished_from_a_failed_query() -> None:
    assert is_fatal(RuntimeError("INTERNAL Error: dict-surviving join: narrowed column 0"))
    assert is_fatal(
        RuntimeError("FATAL Error: Failed: database has been invalidated because of a previous fatal error")
    )
    assert not is_fatal(RuntimeError("Invalid Input Error: Python exception occurred"))
