"""Rows: what goes in comes out, alone, as single columns, and in batches; older layouts read as the current one."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from catalog.errors import SqlError
from catalog.schema import Column, Layout, Table
from catalog.types import by_name
from catalog.types.base import TypeRef
from engine.storage.columns import column_form, to_values
from engine.storage.rows import RowCodec
from tests.engine.storage.samples import STORED, make_table, random_rows, values_of


def _same(left: Any, right: Any) -> bool:
    if isinstance(left, float) and math.isnan(left):
        return isinstance(right, float) and math.isnan(right)
    return repr(left) == repr(right)


def _same_rows(left: list[tuple[Any, ...]], right: list[tuple[Any, ...]]) -> bool:
    return len(left) == len(right) and all(
        len(a) == len(b) and all(map(_same, a, b)) for a, b in zip(left, right, strict=True)
    )


def _unbatched(table: Table, batch: Any) -> list[tuple[Any, ...]]:
    columns = [to_values(batch.column(f"c{column.number}"), column.type.oid) for column in table.columns]
    return list(zip(*columns, strict=True))


@pytest.mark.parametrize("name", STORED)
def test_a_value_of_each_type_round_trips(name: str) -> None:
    codec = RowCodec(make_table(name, "int4", name))
    for value in (*values_of(name), None):
        row = (value, 5, value)
        assert _same_rows([codec.decode(codec.encode(row))], [row])


@pytest.mark.parametrize("nulls", [False, True])
def test_rows_of_all_types_round_trip_alone_by_column_and_in_batches(nulls: bool) -> None:
    table = make_table(*STORED)
    codec = RowCodec(table)
    rows = random_rows(STORED, 60, 3, nulls)
    stored = [codec.encode(row) for row in rows]
    assert _same_rows([codec.decode(row) for row in stored], rows)
    for position, column in enumerate(table.columns):
        decode = codec.decode_column(column.number)
        assert all(_same(decode(row), values[position]) for row, values in zip(stored, rows, strict=True))
    batch = codec.batches.decode(stored)
    assert _same_rows(_unbatched(table, batch), rows)
    assert batch.schema == codec.batches.arrow_schema()
    assert codec.batches.encode(batch).to_pylist() == stored


def test_batches_of_one_row_width_are_read_in_place() -> None:
    codec = RowCodec(make_table("int4", "bpchar", "int8"))
    rows = [(i, "x" * 10, -i) for i in range(100)]
    array = pa.array([codec.encode(row) for row in rows], pa.binary())
    assert _unbatched(codec.table, codec.batches.decode(array)) == rows
    assert _unbatched(codec.table, codec.batches.decode(array.slice(10, 5))) == rows[10:15]


def test_an_empty_batch_has_the_schema() -> None:
    codec = RowCodec(make_table(*STORED))
    assert codec.batches.decode([]).schema == codec.batches.arrow_schema()
    assert len(codec.batches.encode(codec.batches.decode([]))) == 0


def test_columns_can_be_chosen() -> None:
    codec = RowCodec(make_table("int4", "text", "int8"))
    batch = codec.batches.decode([codec.encode((1, "a", 2))], [3, 2])
    assert batch.to_pydict() == {"c3": [2], "c2": ["a"]}


def test_a_column_that_a_batch_lacks_is_null() -> None:
    codec = RowCodec(make_table("int4", "text", "int8", "text"))
    batch = pa.record_batch({"c1": pa.array([1, 2], pa.int32()), "c4": pa.array(["x", None])})
    assert [codec.decode(row) for row in codec.batches.encode(batch).to_pylist()] == [
        (1, None, None, "x"),
        (2, None, None, None),
    ]


def test_decimal_columns_keep_their_scale() -> None:
    codec = RowCodec(make_table("numeric"))
    for kind, text in ((pa.decimal128(20, 10), "0.0000001200"), (pa.decimal128(10, 2), "-1.10")):
        column = pa.array([text]).cast(kind)
        (value,) = codec.decode(codec.batches.encode(pa.record_batch({"c1": column})).to_pylist()[0])
        assert format(value, "f") == text


def test_infinite_dates_are_duckdbs() -> None:
    if "date" not in by_name:
        pytest.skip("no date type")
    import duckdb

    codec = RowCodec(make_table("date", "timestamp"))
    rows = list(zip(values_of("date")[2:4], values_of("timestamp")[2:4], strict=True))
    batch = codec.batches.decode([codec.encode(row) for row in rows])
    with duckdb.connect() as connection:
        connection.register("b", pa.Table.from_batches([batch]))
        found = connection.execute("SELECT c1 = 'infinity', c1 = '-infinity', c2 = 'infinity', c2 = '-infinity' FROM b")
        assert found.fetchall() == [(True, False, True, False), (False, True, False, True)]


def _altered() -> tuple[RowCodec, RowCodec]:
    """A table before and after: column 2 dropped, 4 added with a value for old rows, 5 added without."""
    before = make_table("int4", "text", "text")
    text, numeric = TypeRef(by_name["text"].oid), TypeRef(by_name["numeric"].oid)
    columns = (
        before.columns[0],
        before.columns[2],
        Column(4, "d", numeric, missing="1.50"),
        Column(5, "e", text),
    )
    layout = Layout(2, (1, 3, 4, 5), (before.columns[0].type, text, numeric, text))
    after = replace(before, columns=columns, layouts=(*before.layouts, layout))
    return RowCodec(before), RowCodec(after)


def test_rows_of_older_layouts_read_as_current_ones() -> None:
    before, after = _altered()
    old, old_null = before.encode((1, "dropped", "kept")), before.encode((2, None, None))
    (value,) = values_of("numeric")[:1]
    new = after.encode((3, "k", value, "e"))
    missing = by_name["numeric"].text_decoder()("1.50")
    expected = [(1, "kept", missing, None), (3, "k", value, "e"), (2, None, missing, None)]
    assert [after.decode(row) for row in (old, new, old_null)] == expected
    for position, column in enumerate(after.table.columns):
        decode = after.decode_column(column.number)
        assert [decode(row) for row in (old, new, old_null)] == [row[position] for row in expected]
    assert _unbatched(after.table, after.batches.decode([old, new, old_null])) == expected


def test_a_column_dropped_without_a_new_layout_is_written_as_null() -> None:
    before = make_table("int4", "text", "int8")
    dropped = RowCodec(replace(before, columns=(before.columns[0], before.columns[2])))
    row = dropped.encode((1, 2))
    assert RowCodec(before).decode(row) == (1, None, 2)
    assert dropped.decode(row) == (1, 2)


def test_an_unknown_layout_is_damage() -> None:
    codec = RowCodec(make_table("int4"))
    row = b"\x09\x00" + codec.encode((1,))[2:]
    for read in (codec.decode, codec.decode_column(1), lambda row: codec.batches.decode([row])):
        with pytest.raises(SqlError) as error:
            read(row)
        assert error.value.sqlstate == "XX001"


def test_more_columns_than_a_bitmap_byte_holds() -> None:
    names = ["int4", "text"] * 10
    codec = RowCodec(make_table(*names))
    rows = random_rows(names, 50, 5, nulls=True)
    stored = [codec.encode(row) for row in rows]
    assert [codec.decode(row) for row in stored] == rows
    assert codec.batches.encode(codec.batches.decode(stored)).to_pylist() == stored
    assert _unbatched(codec.table, codec.batches.decode(stored)) == rows


def test_arrow_types_are_those_of_the_forms() -> None:
    for name in STORED:
        oid = by_name[name].oid
        assert RowCodec(make_table(name)).batches.arrow_schema().field(0).type == column_form(oid).arrow_type
