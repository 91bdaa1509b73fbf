"""Many texts at once (catalog/types/many.py): what the types' own input functions make of each, or nothing."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catalog.errors import SqlError
from catalog.types import lookup, oids
from catalog.types.base import FormatSettings
from catalog.types.many import Values, reader_of
from catalog.types.numeric import decode_binary, encode_binary

OIDS = (oids.DATE, oids.TIMESTAMP, oids.TIMESTAMPTZ, oids.TEXT, oids.VARCHAR)
SETTINGS = FormatSettings(timezone="Europe/Helsinki")

_days = st.one_of(st.dates().map(str), st.sampled_from(["0000-01-01", "0001-01-01", "9999-12-31", "2023-02-29"]))
_clocks = st.one_of(
    st.times().map(str), st.sampled_from(["00:00:00", "23:59:59", "24:00:00", "23:59:60", "12:00", "1:00:00"])
)
_zones = st.sampled_from(["", "", "+00", "+00", "-03", "+05:30", "Z", " +00", " UTC", "+0530", "+16"])
_moments = st.tuples(_days, st.sampled_from([" ", " ", "T", "  "]), _clocks, _zones).map("".join)
_values = st.one_of(
    st.lists(st.tuples(_days, _zones).map("".join), min_size=1, max_size=6),
    st.lists(_moments, min_size=1, max_size=6),
    st.lists(st.one_of(_moments, st.text(max_size=12), st.sampled_from(["infinity", "now", "x\0y"])), min_size=1),
)


def values_of(values: Sequence[bytes]) -> Values:
    """As they arrive: slices of one buffer."""
    lengths = np.fromiter(map(len, values), np.int64, len(values))
    return Values.columns(b"".join(values), (np.cumsum(lengths) - lengths)[None], lengths[None])[0]


@settings(max_examples=600, deadline=None)
@given(st.sampled_from(OIDS), _values, st.integers(0, 3))
def test_what_is_read_is_what_is_read_one_by_one(oid: int, texts: list[str], again: int) -> None:
    values = [text.encode() for text in texts] * (1 + again)
    reader = reader_of(oid)
    assert reader is not None
    found = reader(values_of(values))
    if found is None:
        return
    decode = lookup(oid).text_decoder(SETTINGS)
    try:
        expected = [decode(value.decode()) for value in values]
    except SqlError as error:
        raise AssertionError((error, found)) from None
    assert found == expected


@pytest.mark.parametrize(
    ("oid", "form"),
    [
        (oids.DATE, "2024-01-{:02}"),
        (oids.DATE, "2024-01-{:02} +02"),
        (oids.TIMESTAMP, "2024-01-01 10:00:{:02}.25"),
        (oids.TIMESTAMPTZ, "2024-01-01 10:00:{:02}-03:30"),
        (oids.TEXT, "näme {}"),
    ],
)
def test_the_common_forms_are_read(oid: int, form: str) -> None:
    values = [form.format(number).encode() for number in range(1, 30)]
    reader = reader_of(oid)
    assert reader is not None
    decode = lookup(oid).text_decoder(SETTINGS)
    assert reader(values_of(values)) == [decode(value.decode()) for value in values]
    assert reader(values_of([*values, b"2024-02-30 +02\xff"])) is None


_sent = st.one_of(
    st.decimals(min_value=-(10**9), max_value=10**9, places=4),
    st.decimals(min_value=-(10**40), max_value=10**40, allow_nan=True),
    st.sampled_from([Decimal("NaN"), Decimal("-Infinity"), Decimal("0.00"), Decimal("1E+7"), Decimal("9999.9999")]),
).map(encode_binary)


@settings(max_examples=600, deadline=None)
@given(st.lists(st.one_of(_sent, st.binary(max_size=20)), min_size=1, max_size=5), st.data())
def test_numbers_in_binary_are_what_is_read_one_by_one(values: list[bytes], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(values) - 1))
    if values[at] and data.draw(st.booleans()):  # another weight, sign or scale than such digits are sent with
        changed = bytearray(values[at])
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
        values[at] = bytes(changed)
    reader = reader_of(oids.NUMERIC, 1)
    assert reader is not None
    found = reader(values_of(values))
    if found is not None:
        assert list(map(repr, found)) == list(map(repr, map(decode_binary, values)))


def test_common_numbers_in_binary_are_read() -> None:
    values = [encode_binary(Decimal(number).scaleb(-2)) for number in range(-500, 3_000_000, 99_991)]
    reader = reader_of(oids.NUMERIC, 1)
    assert reader is not None
    assert reader(values_of(values)) == list(map(decode_binary, values))
    assert reader(values_of([*values, encode_binary(Decimal("NaN"))])) is None
