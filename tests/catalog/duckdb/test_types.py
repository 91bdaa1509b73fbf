"""Types of DuckDB as objects."""

from __future__ import annotations

import duckdb
import pytest

from catalog import types
from catalog.duckdb.types import BIGINT, DecimalType, ListType, StructType, decimal_type, list_of, parse_type, struct_of
from catalog.errors import SqlError

TEXTS = [
    "BIGINT", "VARCHAR", "DECIMAL(10,2)", "DECIMAL(38,0)[]", "TIMESTAMP[][]", "STRUCT(f1 BIGINT, f2 DECIMAL(10,2))",
    "STRUCT(f1 VARCHAR[], f2 TIME)[]",
]  # fmt: skip


@pytest.mark.parametrize("text", TEXTS)
def test_a_type_has_the_text_that_it_was_read_from(text: str) -> None:
    assert str(parse_type(text)) == text
    assert parse_type(text) == parse_type(text)
    assert parse_type(text) != parse_type("DATE")


@pytest.mark.parametrize("text", TEXTS)
def test_duckdb_reads_it_as_the_same_type(text: str) -> None:
    row = duckdb.connect().execute(f"SELECT typeof(CAST(NULL AS {text}))").fetchone()
    assert row is not None and parse_type(row[0].replace('"', "")) == parse_type(text)


def test_types_have_their_parts_as_attributes() -> None:
    form = parse_type("DECIMAL(10,2)[]")
    assert isinstance(form, ListType) and isinstance(form.element, DecimalType)
    assert (form.element.precision, form.element.scale) == (10, 2)
    record = parse_type("STRUCT(f1 BIGINT, f2 DECIMAL(10,2)[])")
    assert isinstance(record, StructType)
    assert record.fields == (("f1", BIGINT), ("f2", form))
    assert record == struct_of([BIGINT, list_of(decimal_type(10, 2))])


def test_what_is_no_type_is_noticed() -> None:
    with pytest.raises(ValueError, match="unknown type"):
        parse_type("DECIMAL")


def test_every_type_of_sql_has_one() -> None:
    for oid in types.pg_type_by_oid:
        try:
            text = types.lookup(oid).duckdb_type()
        except SqlError:
            continue
        assert str(parse_type(text)) == text
