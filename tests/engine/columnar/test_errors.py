"""Errors of the worker as the engine hears of them."""

from __future__ import annotations

import pyarrow as pa

from engine.columnar.worker.query import as_sql_error


def test_memory_that_runs_out_anywhere_is_out_of_memory() -> None:
    for error in (MemoryError(), pa.lib.ArrowMemoryError("malloc of size 132056064 failed")):
        assert (as_sql_error(error).sqlstate, as_sql_error(error).message) == ("53200", "out of memory")


def test_what_is_unknown_is_an_internal_error() -> None:
    assert as_sql_error(ValueError("something")).sqlstate == "XX000"
