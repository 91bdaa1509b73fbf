"""Reads many values of one column at once: common text forms of dates, timestamps and text, and the binary forms of
numbers.

`reader_of(oid, code)` returns a function from input values (`Values`) to their internal forms. The function returns
None if any value has another form: then the caller reads all values by the type's input function, which returns the
result or raises the error.

Dates and timestamps: values of one length are rows of a byte matrix. The type's own reader reads the first value; the
others must have digits at the same places, and otherwise the same bytes, including the zone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from catalog.types import date, numeric, oids, timestamp

FEW = 16  # fewer values are read one by one

Places = npt.NDArray[np.int64]


class Values:
    """Values as slices of one buffer: the start of each, its length in bytes, -1 for NULL, and the shortest and the
    longest length."""

    __slots__ = ("data", "first", "lengths", "longest", "shortest")

    def __init__(self, data: bytes, first: Places, lengths: Places, shortest: int, longest: int) -> None:
        self.data = data
        self.first = first
        self.lengths = lengths
        self.shortest = shortest
        self.longest = longest

    @classmethod
    def columns(cls, data: bytes, first: Places, lengths: Places) -> list[Values]:
        """Returns several columns with at least one value. Row i of `first` and `lengths` is column i."""
        bounds = lengths.min(axis=1).tolist(), lengths.max(axis=1).tolist()
        return [cls(data, *column) for column in zip(first, lengths, *bounds, strict=True)]

    def __len__(self) -> int:
        return len(self.first)

    def take(self, places: npt.NDArray[np.bool_]) -> Values:
        """Returns the values at which `places` is true; at least one."""
        return Values.columns(self.data, self.first[None, places], self.lengths[None, places])[0]

    def by_length(self) -> Iterator[tuple[Values, npt.NDArray[np.bool_] | None]]:
        """Yields the values of each length, and a mask of their places; None for all."""
        if self.shortest == self.longest:
            yield self, None
            return
        for length in set(self.lengths.tolist()):
            places = self.lengths == length
            yield self.take(places), places

    def each(self) -> list[bytes]:
        """Returns the bytes of each value; none may be NULL."""
        data = self.data
        return [data[at:end] for at, end in self.bounds()]

    def bounds(self) -> Iterator[tuple[int, int]]:
        """Yields start and end of each value; none may be NULL."""
        return zip(self.first.tolist(), (self.first + self.lengths).tolist(), strict=True)

    def as_dtype(self, dtype: str) -> npt.NDArray[Any]:
        """Returns the values as an array of a NumPy type with the same length in bytes."""
        width = np.dtype(dtype).itemsize
        every: npt.NDArray[Any] = np.ndarray((len(self.data) - width + 1,), dtype, self.data, 0, (1,))
        return every[self.first]

    def matrix(self) -> npt.NDArray[np.uint8]:
        """Returns values of one length as rows of bytes."""
        return self.as_dtype(f"V{self.longest}").view(np.uint8).reshape(len(self), -1)


Reader = Callable[[Values], Sequence[object] | None]
# Reads a text: the number of bytes of its local date or time, and its value; None for another form.
Form = Callable[[str], tuple[int, int] | None]


def reader_of(oid: int, code: int = 0) -> Reader | None:
    """Returns the reader of a type's values in text (code 0) or in binary (1); None if there is none."""
    return _READERS.get((oid, code))


def _texts(values: Values) -> Sequence[object] | None:
    text = values.data.decode("latin-1")  # one character for each byte
    texts = [text[at:end] for at, end in values.bounds()]
    joined = "".join(texts)
    if joined.isascii():
        return None if "\0" in joined else texts
    each = values.each()
    try:
        texts = list(b"\0".join(each).decode().split("\0"))
    except UnicodeDecodeError:
        return None
    return texts if len(texts) == len(each) else None  # a value contains NUL


def _numbers(dtype: str) -> Reader:
    """Returns the reader of numbers whose binary form is a NumPy type."""
    width = np.dtype(dtype).itemsize

    def read(values: Values) -> Sequence[object] | None:
        return values.as_dtype(dtype).tolist() if values.shortest == values.longest == width else None

    return read


def _moments(unit: str, form: Form) -> Reader:
    """Returns the reader of dates or timestamps. `unit`: the type's unit in numpy.datetime64."""

    def read(values: Values) -> Sequence[object] | None:
        found = np.empty(len(values), np.int64)
        for alike, places in values.by_length():
            numbers = _alike(alike, unit, form)
            if numbers is None:
                return None
            found[places if places is not None else slice(None)] = numbers
        return found.tolist()

    return read


def _alike(values: Values, unit: str, form: Form) -> Places | None:
    """Reads values of one length; None if a value has another form than the first."""
    if not values.longest:
        return None
    matrix = values.matrix()
    first = matrix[0]
    text = first.tobytes()
    if not text.isascii():
        return None
    shape = form(text.decode())
    if shape is None:
        return None
    kept, value = shape
    digits = (first >= ord("0")) & (first <= ord("9"))
    digits[kept:] = False
    # A digit is at most 9 above '0'; any other byte must be equal to that of the first value.
    lowest = np.where(digits, np.uint8(ord("0")), first)
    if (matrix - lowest > np.where(digits, np.uint8(9), np.uint8(0))).any():
        return None
    local = np.ascontiguousarray(matrix[:, :kept]).view(f"S{kept}").reshape(-1)
    try:
        numbers = local.astype(f"M8[{unit}]").astype(np.int64)
    except ValueError:  # a day out of its month
        return None
    return numbers + (value - numbers[0]) if (local >= b"0001").all() else None


def _numerics(values: Values) -> Sequence[object] | None:
    """Reads numerics of up to 16 transmitted digits, and 18 digits with trailing zeros; None for others."""
    coefficients = np.empty(len(values), np.int64)
    scales = np.empty(len(values), np.int64)
    for alike, places in values.by_length():
        digits, odd = divmod(alike.longest - numeric.HEADER_BYTES, 2)
        if odd or not 0 <= digits <= 4:
            return None
        words = alike.matrix().view(">i2").astype(np.int64)
        count, weight, sign, scale = words[:, :4].T
        groups = words[:, 4:]
        if (count != digits).any() or (groups < 0).any() or (groups > 9_999).any():
            return None
        if ((sign != 0) & (sign != numeric.SIGN_NEGATIVE) | (scale < 0) | (scale > numeric.MAX_SCALE)).any():
            return None
        number = np.zeros(len(alike), np.int64)
        for group in groups.T:
            number = number * 10_000 + group
        shift = scale + 4 * (weight - digits + 1)  # digits from the last transmitted one to the last one of the scale
        if digits and ((shift > 18 - 4 * digits) | (shift < -18)).any():
            return None
        powers = 10 ** np.abs(shift if digits else 0 * shift)
        number = np.where(shift < 0, number // powers, number * powers)  # truncates digits beyond the scale
        at = places if places is not None else slice(None)
        coefficients[at] = np.where(sign == 0, number, -number)
        scales[at] = scale
    if (scales == scales[0]).all():
        return numeric.all_scaled(coefficients.tolist(), int(scales[0]))
    return list(map(numeric.scale_decimal, coefficients.tolist(), scales.tolist()))


_READERS: dict[tuple[int, int], Reader] = {
    (oids.TEXT, 0): _texts,
    (oids.TEXT, 1): _texts,
    (oids.VARCHAR, 0): _texts,
    (oids.VARCHAR, 1): _texts,
    (oids.INT2, 1): _numbers(">i2"),
    (oids.INT4, 1): _numbers(">i4"),
    (oids.INT8, 1): _numbers(">i8"),
    (oids.FLOAT4, 1): _numbers(">f4"),
    (oids.FLOAT8, 1): _numbers(">f8"),
    (oids.NUMERIC, 1): _numerics,
    (oids.DATE, 0): _moments("D", date.iso_form),
    (oids.TIMESTAMP, 0): _moments("us", timestamp.local_form),
    (oids.TIMESTAMPTZ, 0): _moments("us", timestamp.zoned_form),
}
