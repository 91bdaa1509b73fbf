"""Many values of one column at once: the common forms of dates, timestamps and text in text, of numbers in
binary.

`reader_of(oid, code)` gives a function from values as they arrived (`Values`) to their internal forms, or None where
one value is enough to make it doubtful: then the type's input function reads them all, one by one, to the right result
or the right error.

Dates and timestamps: values of one length are rows of a byte matrix. The first is read by its type's own reader, which
says how it is built; the others must have digits where it has digits and the same bytes elsewhere, zone included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from catalog.types import date, numeric, oids, timestamp

FEW = 16  # values for which this is not worth the trouble

Places = npt.NDArray[np.int64]


class Values:
    """Values as slices of one buffer: where each begins, and how long it is in bytes, -1 for NULL; the shortest and the
    longest of these."""

    __slots__ = ("data", "first", "lengths", "longest", "shortest")

    def __init__(self, data: bytes, first: Places, lengths: Places, shortest: int, longest: int) -> None:
        self.data = data
        self.first = first
        self.lengths = lengths
        self.shortest = shortest
        self.longest = longest

    @classmethod
    def columns(cls, data: bytes, first: Places, lengths: Places) -> list[Values]:
        """Several columns, each a row of both, with at least one value."""
        bounds = lengths.min(axis=1).tolist(), lengths.max(axis=1).tolist()
        return [cls(data, *column) for column in zip(first, lengths, *bounds, strict=True)]

    def __len__(self) -> int:
        return len(self.first)

    def take(self, places: npt.NDArray[np.bool_]) -> Values:
        """Those where `places` is true, which it is somewhere."""
        return Values.columns(self.data, self.first[None, places], self.lengths[None, places])[0]

    def by_length(self) -> Iterator[tuple[Values, npt.NDArray[np.bool_] | None]]:
        """Those of each length, and which they are; None: all."""
        if self.shortest == self.longest:
            yield self, None
            return
        for length in set(self.lengths.tolist()):
            places = self.lengths == length
            yield self.take(places), places

    def each(self) -> list[bytes]:
        """The bytes of each, none of which is NULL."""
        data = self.data
        return [data[at:end] for at, end in self.bounds()]

    def bounds(self) -> Iterator[tuple[int, int]]:
        """Where each begins and ends, none of which is NULL."""
        return zip(self.first.tolist(), (self.first + self.lengths).tolist(), strict=True)

    def as_dtype(self, dtype: str) -> npt.NDArray[Any]:
        """Values that are all as long as one item of a NumPy type, as that."""
        width = np.dtype(dtype).itemsize
        every: npt.NDArray[Any] = np.ndarray((len(self.data) - width + 1,), dtype, self.data, 0, (1,))
        return every[self.first]

    def matrix(self) -> npt.NDArray[np.uint8]:
        """Values of one length as rows of bytes."""
        return self.as_dtype(f"V{self.longest}").view(np.uint8).reshape(len(self), -1)


Reader = Callable[[Values], Sequence[object] | None]
# What a text has to be: how many of its bytes are the local moment, and the value that it means.
Form = Callable[[str], tuple[int, int] | None]


def reader_of(oid: int, code: int = 0) -> Reader | None:
    """The reader of a type's values in text (code 0) or in binary (1), if it has one."""
    return _READERS.get((oid, code))


def _texts(values: Values) -> Sequence[object] | None:
    text = values.data.decode("latin-1")  # a character a byte
    texts = [text[at:end] for at, end in values.bounds()]
    joined = "".join(texts)
    if joined.isascii():
        return None if "\0" in joined else texts
    each = values.each()
    try:
        texts = list(b"\0".join(each).decode().split("\0"))
    except UnicodeDecodeError:
        return None
    return texts if len(texts) == len(each) else None  # one has a NUL in it


def _numbers(dtype: str) -> Reader:
    """Of numbers that are sent as NumPy has them."""
    width = np.dtype(dtype).itemsize

    def read(values: Values) -> Sequence[object] | None:
        return values.as_dtype(dtype).tolist() if values.shortest == values.longest == width else None

    return read


def _moments(unit: str, form: Form) -> Reader:
    """`unit` of numpy.datetime64 in which the type counts."""

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
    """Values of one length; None unless all are built as the first one is."""
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
    # A digit is as far from the first one as digits are, any other byte not at all.
    lowest = np.where(digits, np.uint8(ord("0")), first)
    if (matrix - lowest > np.where(digits, np.uint8(9), np.uint8(0))).any():
        return None
    local = np.ascontiguousarray(matrix[:, :kept]).view(f"S{kept}").reshape(-1)
    try:
        numbers = local.astype(f"M8[{unit}]").astype(np.int64)
    except ValueError:  # a day that is in no month
        return None
    return numbers + (value - numbers[0]) if (local >= b"0001").all() else None


def _numerics(values: Values) -> Sequence[object] | None:
    """Of up to 16 digits that are sent, and 18 with zeros behind them."""
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
        shift = scale + 4 * (weight - digits + 1)  # from the last digit sent to the last one shown
        if digits and ((shift > 18 - 4 * digits) | (shift < -18)).any():
            return None
        powers = 10 ** np.abs(shift if digits else 0 * shift)
        number = np.where(shift < 0, number // powers, number * powers)  # what is behind the scale is cut off
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
