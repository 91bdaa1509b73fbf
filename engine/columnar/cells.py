"""Text and binary forms of whole columns (see datarow.py): Arrow values in, `Cells` out.

`text_cells(oid, settings)` and `binary_cells(oid)` make the encoder of a column, once per query. Texts are exactly
PostgreSQL's. If Arrow's cast differs (floats with more than 10 digits before the point, decimals near zero, years
outside 0001..9999, infinities), a mask selects the differing values, and the encoders of catalog.types convert them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from catalog import types
from catalog.types import oids
from catalog.types.base import FormatSettings
from catalog.types.carried import is_carried_as_text
from catalog.types.named_objects import holds_names
from catalog.types.user import FIRST_USER_OID
from engine.columnar.worker.values import from_arrow
from engine.storage.columns import column_form, numbers_of, takes_shapes

Bytes: TypeAlias = npt.NDArray[np.uint8]
Encoder: TypeAlias = "Callable[[pa.Array], Cells]"

_UTC_NAMES = frozenset(("utc", "gmt", "etc/utc", "etc/gmt", "z", "zulu", "universal", "uct", "etc/uct"))
_DATE_FIRST = -719162  # 0001-01-01 in days since 1970
_DATE_LAST = 2932896  # 9999-12-31
_DAY = 86_400_000_000
_WORDS: Any = np.dtype([("low", "<i8"), ("high", "<i8")])
_INTERVAL: Any = np.dtype([("months", "<i4"), ("days", "<i4"), ("nanoseconds", "<i8")])


class Cells:
    """The values of a column in wire format: `lengths` in bytes (-1 for NULL), and either `matrix` (all values have the
    same width, and none is NULL) or `values` (an Arrow binary array, in which a NULL is an empty value)."""

    __slots__ = ("lengths", "matrix", "values")

    def __init__(self, lengths: npt.NDArray[np.int64], matrix: Bytes | None, values: pa.Array) -> None:
        self.lengths = lengths
        self.matrix = matrix
        self.values = values

    @classmethod
    def of(cls, array: pa.Array) -> Cells:
        """Cells of an Arrow string or binary array."""
        if pa.types.is_string(array.type):
            array = array.view(pa.binary())
        elif pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type):
            array = array.cast(pa.large_binary()).cast(pa.binary())
        elif not pa.types.is_binary(array.type):
            array = array.cast(pa.binary())  # string views
        offsets = np.frombuffer(array.buffers()[1], dtype=np.int32, count=len(array) + 1, offset=array.offset * 4)
        lengths = np.diff(offsets).astype(np.int64)
        if array.null_count:
            lengths[~_valid(array)] = -1
            array = array.fill_null(b"")
        return cls(lengths, None, array)

    @classmethod
    def of_matrix(cls, matrix: Bytes, array: pa.Array) -> Cells:
        """Cells of one width. `array` has the same NULLs."""
        rows, width = matrix.shape
        lengths = np.full(rows, width, dtype=np.int64)
        if not array.null_count:
            return cls(lengths, matrix, None)
        valid = _valid(array)
        ends = np.zeros(rows + 1, dtype=np.int32)
        np.cumsum(valid * width, out=ends[1:])
        kept = np.ascontiguousarray(matrix[valid])
        lengths[~valid] = -1
        buffers = [None, pa.py_buffer(ends), pa.py_buffer(kept)]
        return cls(lengths, None, pa.Array.from_buffers(pa.binary(), rows, buffers))

    def as_values(self) -> pa.Array:
        """The cells as Arrow binary; NULLs are empty."""
        return self.values if self.matrix is None else binary_of_matrix(self.matrix)

    def valid(self) -> npt.NDArray[np.bool_] | None:
        """A mask of the cells that are not NULL; None if no cell is NULL."""
        valid = self.lengths >= 0
        return None if valid.all() else valid


def _valid(array: pa.Array) -> npt.NDArray[np.bool_]:
    """True where the value is not NULL."""
    mask: npt.NDArray[np.bool_] = array.is_valid().to_numpy(zero_copy_only=False)
    return mask


def _stored_numbers(array: pa.Array, oid: int) -> npt.NDArray[Any]:
    """Dates or timestamps as PostgreSQL's numbers. Those of NULLs have no meaning."""
    numbers_in = column_form(oid).numbers_in
    assert numbers_in is not None
    numbers: npt.NDArray[Any] = numbers_in(array)
    return numbers


def binary_of_matrix(matrix: Bytes) -> pa.Array:
    """A byte matrix as an Arrow binary array with one value per row, without a copy."""
    rows, width = matrix.shape
    ends = np.arange(rows + 1, dtype=np.int32) * np.int32(width)
    return pa.Array.from_buffers(
        pa.binary(), rows, [None, pa.py_buffer(ends), pa.py_buffer(np.ascontiguousarray(matrix))]
    )


def contains_any(array: pa.Array, characters: bytes) -> bool:
    """Whether any value of a binary array contains one of these bytes."""
    offsets = np.frombuffer(array.buffers()[1], dtype=np.int32, count=len(array) + 1, offset=array.offset * 4)
    if array.buffers()[2] is None:
        return False
    first, last = int(offsets[0]), int(offsets[-1])
    data = np.frombuffer(array.buffers()[2], dtype=np.uint8)[first:last]
    wanted = np.zeros(256, dtype=np.bool_)
    wanted[np.frombuffer(characters, dtype=np.uint8)] = True
    return bool(wanted[data].any())


# ---- text ------------------------------------------------------------------------------------------------------------


def text_cells(oid: int, settings: FormatSettings) -> Encoder:
    """Makes the text encoder of a column with this SQL type, for PostgreSQL's text under these settings."""

    columns = types.columns_of(oid)
    named = holds_names(types.lookup(oid))  # the text contains names that were looked up already

    def encode(array: pa.Array) -> Cells:
        kind = array.type
        if named and pa.types.is_string(kind):
            return Cells.of(array)
        if (oid >= FIRST_USER_OID or is_carried_as_text(oid) or takes_shapes(oid)) and not pa.types.is_null(kind):
            return Cells.of(_by_value(array, oid, types.lookup(oid).text_encoder(settings)))
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            if columns.layout is types.Layout.TEXT and not columns.printed:
                return Cells.of(_by_value(array, oid, types.lookup(oid).text_encoder(settings)))
            return Cells.of(array)  # other types are stored in VARCHAR in their text form
        if pa.types.is_null(kind):
            return Cells.of(pa.nulls(len(array), pa.binary()))
        if pa.types.is_boolean(kind):
            return Cells.of_matrix(_boolean_letters(array), array)
        if pa.types.is_integer(kind) and columns.digits:
            return Cells.of(_integer_text(array))
        if pa.types.is_decimal(kind):
            return Cells.of(_decimal_text(array))
        if pa.types.is_floating(kind) and settings.extra_float_digits > 0:
            return Cells.of(_float_text(array, oid))
        if oid == oids.UUID and pa.types.is_binary(kind):
            return _uuid_text(array)
        if pa.types.is_binary(kind) and oid == oids.BYTEA and settings.bytea_output == "hex":
            return Cells.of(_hex_text(array))
        if settings.date_style == "ISO" and (made := _iso_text(array, oid, settings)) is not None:
            return made
        return Cells.of(_by_value(array, oid, types.lookup(oid).text_encoder(settings)))

    return encode


def _iso_text(array: pa.Array, oid: int, settings: FormatSettings) -> Cells | None:
    kind = array.type
    if pa.types.is_date32(kind):
        return Cells.of(_date_text(array, oid, settings))
    if pa.types.is_time64(kind):
        return Cells.of(_time_text(array, oid, settings))
    if pa.types.is_timestamp(kind):
        if oid != oids.TIMESTAMPTZ:
            return Cells.of(_timestamp_text(array, oid, settings, ""))
        if settings.timezone.lower() in _UTC_NAMES:
            return Cells.of(_timestamp_text(array, oid, settings, "+00"))
    return None


def _by_value(array: pa.Array, oid: int, encode: Callable[[Any], bytes]) -> pa.Array:
    """Encodes each distinct value by an encoder of catalog.types."""
    if len(array) > 32 and not pa.types.is_nested(array.type) and not pa.types.is_interval(array.type):
        dictionary = array.dictionary_encode()
        if len(dictionary.dictionary) < len(array) // 2:
            distinct = [encode(value) for value in from_arrow(dictionary.dictionary, oid)]
            return pa.array(distinct, type=pa.binary()).take(dictionary.indices)
    return pa.array([None if value is None else encode(value) for value in from_arrow(array, oid)], type=pa.binary())


def _patch(text: pa.Array, array: pa.Array, odd: npt.NDArray[np.bool_], oid: int, settings: FormatSettings) -> pa.Array:
    """Replaces the texts of the rows in the mask `odd` by those of the type's encoder in catalog.types."""
    if array.null_count:
        odd = odd & _valid(array)
    if not odd.any():
        return text
    mask = pa.array(odd)
    replaced = _by_value(array.filter(mask), oid, types.lookup(oid).text_encoder(settings))
    return pc.replace_with_mask(text, mask, replaced.cast(pa.string()))


def _boolean_letters(array: pa.Array) -> Bytes:
    truth = array.fill_null(False).to_numpy(zero_copy_only=False)
    return np.where(truth, np.uint8(ord("t")), np.uint8(ord("f"))).reshape(-1, 1)


def _integer_text(array: pa.Array) -> pa.Array:
    return array.cast(pa.string())


def _float_text(array: pa.Array, oid: int) -> pa.Array:
    """The text of floats. Arrow prints the same shortest digits as PostgreSQL, but uses exponents for other values."""
    text = array.cast(pa.string())
    size = np.abs(numbers_of(array, "<f4" if pa.types.is_float32(array.type) else "<f8"))
    with np.errstate(invalid="ignore"):
        plain = (size == 0) | ((size >= 1e-4) & (size < (1e6 if size.dtype == np.float32 else 1e10)))
    return _patch(text, array, ~plain, oid, FormatSettings())


def _decimal_text(array: pa.Array) -> pa.Array:
    """The text of DECIMALs with all digits of their scale. Arrow's cast prints small values with an exponent. So 64-bit
    arithmetic makes the digits, or Python's decimals for longer values."""
    scale = array.type.scale
    words = numbers_of(array, _WORDS)
    low = words["low"]
    narrow = words["high"] == (low >> 63)
    if array.null_count:
        narrow = narrow | ~_valid(array)
    if not narrow.all() or scale > 18 or bool((low == np.iinfo(np.int64).min).any()):
        return pa.array([None if v is None else format(v, "f") for v in array.to_pylist()], type=pa.string())
    valid = pa.array(_valid(array)) if array.null_count else None
    if scale == 0:
        text = pa.array(low).cast(pa.string())
    else:
        whole, fraction = np.divmod(np.abs(low), 10**scale)
        sign = pa.DictionaryArray.from_arrays(pa.array((low < 0).astype(np.int8)), pa.array(["", "-"]))
        # A leading 1, which is removed later, keeps the zeros of the fraction.
        padded = pa.array(fraction + 10**scale).cast(pa.string())
        text = pc.binary_join_element_wise(
            sign.cast(pa.string()), pa.array(whole).cast(pa.string()), ".", pc.utf8_slice_codeunits(padded, 1), ""
        )
    return text if valid is None else pc.if_else(valid, text, pa.scalar(None, pa.string()))


def _uuid_text(array: pa.Array) -> Cells:
    """The text of uuid: 16 bytes as 8-4-4-4-12 hexadecimal digits."""
    packed = array.fill_null(bytes(16))
    offsets = np.frombuffer(packed.buffers()[1], dtype=np.int32, count=1, offset=packed.offset * 4)
    raw = np.frombuffer(packed.buffers()[2], dtype=np.uint8, count=len(array) * 16, offset=int(offsets[0]))
    digits = _HEX_PAIRS[raw].view(np.uint8).reshape(-1, 32)
    text = np.full((len(array), 36), ord("-"), dtype=np.uint8)
    for source, target, length in ((0, 0, 8), (8, 9, 4), (12, 14, 4), (16, 19, 4), (20, 24, 12)):
        text[:, target : target + length] = digits[:, source : source + length]
    return Cells.of_matrix(text, array)


_HEX_PAIRS = np.frombuffer(b"".join(b"%02x" % i for i in range(256)), dtype="<u2")


def _hex_text(array: pa.Array) -> pa.Array:
    """The text of bytea: \\x and hexadecimal digits."""
    offsets = np.frombuffer(array.buffers()[1], dtype=np.int32, count=len(array) + 1, offset=array.offset * 4)
    first, last = int(offsets[0]), int(offsets[-1])
    data = array.buffers()[2]
    raw = np.frombuffer(data, dtype=np.uint8)[first:last] if data is not None else np.zeros(0, dtype=np.uint8)
    digits = _HEX_PAIRS[raw]
    ends = (offsets.astype(np.int64) - first) * 2
    hexadecimal = pa.Array.from_buffers(pa.large_string(), len(array), [None, pa.py_buffer(ends), pa.py_buffer(digits)])
    text = pc.binary_join_element_wise(
        pa.scalar("\\x", pa.large_string()), hexadecimal, pa.scalar("", pa.large_string())
    )
    if array.null_count:
        text = pc.if_else(array.is_valid(), text, pa.scalar(None, pa.large_string()))
    return text


def _fraction_text(microseconds: npt.NDArray[np.int64]) -> pa.Array | None:
    """The text of fractions of a second: '.25' for 250000, '' for 0. None if all are 0."""
    if not microseconds.any():
        return None
    digits = pc.utf8_slice_codeunits(pa.array(microseconds + 1_000_000).cast(pa.string()), 1)
    fraction = pc.binary_join_element_wise(".", pc.utf8_rtrim(digits, characters="0"), "")
    return pc.if_else(pa.array(microseconds == 0), "", fraction)


def _join(*parts: pa.Array | str | None) -> pa.Array:
    return pc.binary_join_element_wise(*[part for part in parts if part is not None], "")


def _date_text(array: pa.Array, oid: int, settings: FormatSettings) -> pa.Array:
    days = numbers_of(array, "<i4")
    odd = (days < _DATE_FIRST) | (days > _DATE_LAST)
    plain = pa.array(np.where(odd, 0, days)).view(pa.date32()).cast(pa.string())
    return _null_like(_patch(plain, array, odd, oid, settings), array)


def _time_text(array: pa.Array, oid: int, settings: FormatSettings) -> pa.Array:
    clock = numbers_of(array, "<i8")
    odd = (clock < 0) | (clock >= _DAY)  # 24:00:00
    clock = np.where(odd, 0, clock)
    seconds, microseconds = np.divmod(clock, 1_000_000)
    plain = _join(
        pa.array(seconds.astype(np.int32)).view(pa.time32("s")).cast(pa.string()), _fraction_text(microseconds)
    )
    return _null_like(_patch(plain, array, odd, oid, settings), array)


def _timestamp_text(array: pa.Array, oid: int, settings: FormatSettings, zone: str) -> pa.Array:
    stamps = numbers_of(array, "<i8")
    odd = (stamps < _DATE_FIRST * _DAY) | (stamps >= (_DATE_LAST + 1) * _DAY)
    seconds, microseconds = np.divmod(np.where(odd, 0, stamps), 1_000_000)
    plain = _join(
        pa.array(seconds).view(pa.timestamp("s")).cast(pa.string()), _fraction_text(microseconds), zone or None
    )
    return _null_like(_patch(plain, array, odd, oid, settings), array)


def _null_like(text: pa.Array, array: pa.Array) -> pa.Array:
    if not array.null_count:
        return text
    return pc.if_else(array.is_valid(), text, pa.scalar(None, pa.string()))


# ---- binary ----------------------------------------------------------------------------------------------------------


def binary_cells(oid: int) -> Encoder:
    """Makes the binary encoder of a column with this SQL type (its send function, PostgreSQL 16 manual, 55.2.4)."""

    def encode(array: pa.Array) -> Cells:
        kind = array.type
        if pa.types.is_null(kind):
            return Cells.of(pa.nulls(len(array), pa.binary()))
        if types.columns_of(oid).sent_as_held and (pa.types.is_string(kind) or pa.types.is_binary(kind)):
            return Cells.of(array)
        if oid == oids.JSONB and pa.types.is_string(kind):
            text = pc.binary_join_element_wise(pa.scalar(b"\x01"), array.view(pa.binary()), pa.scalar(b""))
            return Cells.of(text)
        matrix = _fixed_binary(array, oid)
        if matrix is not None:
            return Cells.of_matrix(matrix, array)
        return Cells.of(_by_value(array, oid, types.lookup(oid).binary_encoder()))

    return encode


def _fixed_binary(array: pa.Array, oid: int) -> Bytes | None:
    kind = array.type
    if pa.types.is_boolean(kind):
        truth: Bytes = array.fill_null(False).to_numpy(zero_copy_only=False).astype(np.uint8).reshape(-1, 1)
        return truth
    if pa.types.is_date32(kind):
        return _pack(_stored_numbers(array, oids.DATE), ">i4")
    if pa.types.is_timestamp(kind):
        return _pack(_stored_numbers(array, oids.TIMESTAMP), ">i8")
    if pa.types.is_time64(kind):
        return _pack(numbers_of(array, "<i8"), ">i8")
    if pa.types.is_interval(kind):
        parts = numbers_of(array, _INTERVAL)
        columns = [
            _pack(parts["nanoseconds"] // 1000, ">i8"),
            _pack(parts["days"], ">i4"),
            _pack(parts["months"], ">i4"),
        ]
        return np.concatenate(columns, axis=1)
    sent = types.columns_of(oid).sent
    if sent and (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        return _pack(array.fill_null(0).to_numpy(zero_copy_only=False), sent)
    return None


def _pack(values: npt.NDArray[Any], dtype: str) -> Bytes:
    packed = values.astype(dtype)
    return packed.view(np.uint8).reshape(len(values), packed.dtype.itemsize)
