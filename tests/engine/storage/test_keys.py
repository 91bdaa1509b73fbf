"""Keys: their order is SQL's, equal values have equal keys, and whole columns encode as single values do."""

from __future__ import annotations

import itertools
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catalog.errors import SqlError
from catalog.types import by_name
from catalog.types.base import TypeRef
from engine.storage.columns import from_values
from engine.storage.keys import (
    KEPT_KEY_BYTES,
    MAX_KEY_BYTES,
    encode_index_entries,
    encode_keys,
    encode_row_numbers,
    fit_key,
    index_entry_encoder,
    prefix_range,
    row_key_encoder,
    row_number_key,
    row_number_of,
    row_numbers_of,
    successor,
)
from tests.engine.storage.samples import ORDERED, values_of


def _sort_key(name: str) -> Any:
    return by_name[name].sort_key() or (lambda value: value)


def _types(*names: str) -> list[TypeRef]:
    return [TypeRef(by_name[name].oid) for name in names]


@pytest.mark.parametrize("name", ORDERED)
def test_key_order_is_the_types_order(name: str) -> None:
    encode, order = row_key_encoder(9, _types(name)), _sort_key(name)
    values = values_of(name)
    for left, right in itertools.product(values, repeat=2):
        a, b = encode((left,)), encode((right,))
        if max(len(a), len(b)) >= MAX_KEY_BYTES:
            assert (a == b) == (left == right)
            continue
        assert (a < b) == (order(left) < order(right))
        assert (a == b) == (order(left) == order(right))


@given(st.lists(st.tuples(st.text(alphabet="ab\x01 é", max_size=4), st.integers(-3, 3)), min_size=2, max_size=8))
@settings(max_examples=100, deadline=None)
def test_keys_of_several_columns_compare_column_by_column(rows: list[tuple[str, int]]) -> None:
    encode = row_key_encoder(9, _types("text", "int8"))
    by_bytes = sorted(rows, key=encode)
    assert by_bytes == sorted(rows, key=lambda row: (row[0].encode(), row[1]))


@pytest.mark.parametrize("name", ORDERED)
def test_columns_encode_as_single_values_do(name: str) -> None:
    values = values_of(name)
    types = _types(name, "int4", "text")
    columns = [
        from_values(values, types[0].oid),
        pa.array(range(len(values)), pa.int32()),
        pa.array(["x"] * len(values)),
    ]
    rows = list(zip(values, range(len(values)), ["x"] * len(values), strict=True))
    for count in (1, 2, 3):
        encode = row_key_encoder(9, types[:count])
        assert encode_keys(9, types[:count], columns[:count]).to_pylist() == [encode(row[:count]) for row in rows]


@pytest.mark.parametrize("unique", [False, True])
@pytest.mark.parametrize("nulls_not_distinct", [False, True])
def test_index_entries_of_columns_are_those_of_single_rows(unique: bool, nulls_not_distinct: bool) -> None:
    types = _types("int4", "text")
    row_keys = encode_row_numbers(5, 1, 4)
    for numbers in ([4, 3, 2, 1], [4, None, 2, 1]):
        texts = ["a", "b", "", "d" * 600]
        columns = [pa.array(numbers, pa.int32()), pa.array(texts)]
        encode = index_entry_encoder(8, types, unique, nulls_not_distinct)
        keys, places = encode_index_entries(8, types, columns, row_keys, unique, nulls_not_distinct)
        assert keys.to_pylist() == [
            encode(row, key) for row, key in zip(zip(numbers, texts, strict=True), row_keys.to_pylist(), strict=True)
        ]
        assert places.to_pylist() == [key[4:] for key in row_keys.to_pylist()]


def test_no_rows_make_no_entries() -> None:
    none = encode_row_numbers(5, 1, 0)
    keys, places = encode_index_entries(8, _types("int4"), [pa.array([], pa.int32())], none, False)
    assert keys.to_pylist() == places.to_pylist() == []
    assert (
        encode_keys(8, _types("int4", "text"), [pa.array([], pa.int32()), pa.array([], pa.string())]).to_pylist() == []
    )


def test_unique_entries_collide_exactly_when_sql_says_so() -> None:
    types = _types("int4", "int4")
    plain, unique = index_entry_encoder(8, types, False), index_entry_encoder(8, types, True)
    strict = index_entry_encoder(8, types, True, True)
    one, two = row_number_key(5, 1), row_number_key(5, 2)
    assert plain((1, 2), one) != plain((1, 2), two)
    assert unique((1, 2), one) == unique((1, 2), two)
    assert unique((1, None), one) != unique((1, None), two)
    assert strict((1, None), one) == strict((1, None), two)


def test_nulls_come_last_in_an_index() -> None:
    encode = index_entry_encoder(8, _types("int4"), False)
    assert encode((2**31 - 1,), b"\0\0\0\5r") < encode((None,), b"\0\0\0\5a")


def test_a_long_key_is_cut_and_stays_unique() -> None:
    encode = row_key_encoder(9, _types("text"))
    longs = ["x" * 600 + tail for tail in ("", "a", "b")]
    keys = [encode((text,)) for text in longs]
    assert [len(key) for key in keys] == [MAX_KEY_BYTES] * 3
    assert len(set(keys)) == 3
    assert len({key[:KEPT_KEY_BYTES] for key in keys}) == 1


def test_every_key_below_the_limit_is_kept_as_it_is() -> None:
    key = b"k" * (MAX_KEY_BYTES - 1)
    assert fit_key(key) == key
    assert fit_key(key + b"k") != key + b"k"


def test_row_numbers_count_in_key_order() -> None:
    keys = encode_row_numbers(3, -2, 5).to_pylist()
    assert keys == sorted(keys) == [row_number_key(3, number) for number in range(-2, 3)]
    assert [row_number_of(key) for key in keys] == list(range(-2, 3))
    assert row_numbers_of(encode_row_numbers(3, 7, 3)).tolist() == [7, 8, 9]
    assert encode_row_numbers(3, 1, 0).to_pylist() == []


@given(st.binary(min_size=1, max_size=4).filter(lambda prefix: prefix.strip(b"\xff") != b""), st.binary(max_size=3))
@settings(max_examples=100, deadline=None)
def test_a_prefix_range_holds_exactly_what_begins_so(prefix: bytes, tail: bytes) -> None:
    low, high = prefix_range(prefix)
    assert low <= prefix + tail < high
    assert not successor(prefix).startswith(prefix)


def test_a_type_without_order_is_refused() -> None:
    with pytest.raises(SqlError) as error:
        row_key_encoder(9, _types("xid"))
    assert error.value.sqlstate == "42704"


@pytest.mark.parametrize("name", ORDERED)
def test_a_row_key_is_the_prefix_and_the_types_key(name: str) -> None:
    """Scans build their bounds from `key_encoder`, so the faster way must give the same bytes."""
    encode, of_type = row_key_encoder(9, _types(name)), by_name[name].key_encoder()
    assert of_type is not None
    for value in values_of(name):
        assert encode((value,)) == fit_key(b"\0\0\0\x09" + of_type(value))
