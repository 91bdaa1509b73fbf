"""Many values of one column at once: the common forms of dates, timestamps and text in text, of numeric in binary.

`reader_of(oid, code)` gives a function from the bytes of values to their internal forms, or None where one value is
enough to make it doubtful: then the type's input function reads them all, one by one, to the right result or the right
error.

Dates and timestamps: values of one length are rows of a byte matrix. The first is read by its type's own reader, which
says how it is built; the others must have digits where it has digits and the same bytes elsewhere, zone included.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from catalog.types import date, numeric, oids, timestamp

FEW = 16  # values for which this is not worth the trouble

Reader = Callable[[Sequence[bytes]], Sequence[object] | None]
# What a text has to be: how many of its bytes are the local moment, and the value that it means.
Form = Callable[[str], tuple[int, int] | None]


def reader_of(oid: int, code: int = 0) -> Reader | None:
    """The reader of a type's values in text (code 0) or in binary (1), if it has one."""
    return _READERS.get((oid, code))


def _texts(values: Sequence[bytes]) -> Sequence[object] | None:
    try:
        texts = list(b"\0".join(values).decode().split("\0"))
    except UnicodeDecodeError:
        return None
    return texts if len(texts) == len(values) else None  # one has a NUL in it


def _moments(unit: str, form: Form) -> Reader:
    """`unit` of numpy.datetime64 in which the type counts."""

    def read(values: Sequence[bytes]) -> Sequence[object] | None:
        by_length = _by_length(values)
        if len(by_length) == 1:
            numbers = _alike(values, unit, form)
            return None if numbers is None else numbers.tolist()
        found = np.empty(len(values), np.int64)
        for places in by_length.values():
            numbers = _alike([values[place] for place in places], unit, form)
            if numbers is None:
                return None
            found[places] = numbers
        return found.tolist()

    return read


def _by_length(values: Sequence[bytes]) -> dict[int, list[int]]:
    """The places of the values of each length."""
    by_length: dict[int, list[int]] = {}
    for place, length in enumerate(map(len, values)):
        by_length.setdefault(length, []).append(place)
    return by_length


def _alike(values: Sequence[bytes], unit: str, form: Form) -> np.ndarray[tuple[int], np.dtype[np.int64]] | None:
    """Values of one length; None unless all are built as the first one is."""
    if not values[0].isascii():
        return None
    shape = form(values[0].decode())
    if shape is None:
        return None
    kept, value = shape
    matrix = np.frombuffer(b"".join(values), np.uint8).reshape(len(values), -1)
    first = matrix[0]
    digits = (first >= ord("0")) & (first <= ord("9"))
    digits[kept:] = False
    if (matrix[:, digits] - np.uint8(ord("0")) > 9).any() or (matrix[:, ~digits] != first[~digits]).any():
        return None
    local = np.ascontiguousarray(matrix[:, :kept]).view(f"S{kept}").reshape(-1)
    try:
        numbers = local.astype(f"M8[{unit}]").astype(np.int64)
    except ValueError:  # a day that is in no month
        return None
    return numbers + (value - numbers[0]) if (local >= b"0001").all() else None


def _numerics(values: Sequence[bytes]) -> Sequence[object] | None:
    """Of up to 16 digits that are sent, and 18 with zeros behind them."""
    found: list[object] = [None] * len(values)
    for length, places in _by_length(values).items():
        digits = (length - numeric.HEADER_BYTES) // 2
        if length % 2 or not 0 <= digits <= 4:
            return None
        words = np.frombuffer(b"".join([values[place] for place in places]), ">i2").reshape(len(places), -1)
        count, weight, sign, scale = words[:, :4].astype(np.int64).T
        groups = words[:, 4:].astype(np.int64)
        if (count != digits).any() or (groups < 0).any() or (groups > 9_999).any():
            return None
        if ((sign != 0) & (sign != numeric.SIGN_NEGATIVE) | (scale < 0) | (scale > numeric.MAX_SCALE)).any():
            return None
        number = np.zeros(len(places), np.int64)
        for group in groups.T:
            number = number * 10_000 + group
        shift = scale + 4 * (weight - digits + 1)  # from the last digit sent to the last one shown
        if digits and ((shift > 18 - 4 * digits) | (shift < -18)).any():
            return None
        powers = 10 ** np.abs(shift if digits else 0 * shift)
        number = np.where(shift < 0, number // powers, number * powers)  # what is behind the scale is cut off
        number = np.where(sign == 0, number, -number)
        for place, coefficient, behind in zip(places, number.tolist(), scale.tolist(), strict=True):
            found[place] = numeric.scaled(coefficient, behind)
    return found


_READERS: dict[tuple[int, int], Reader] = {
    (oids.TEXT, 0): _texts,
    (oids.TEXT, 1): _texts,
    (oids.VARCHAR, 0): _texts,
    (oids.VARCHAR, 1): _texts,
    (oids.NUMERIC, 1): _numerics,
    (oids.DATE, 0): _moments("D", date.iso_form),
    (oids.TIMESTAMP, 0): _moments("us", timestamp.local_form),
    (oids.TIMESTAMPTZ, 0): _moments("us", timestamp.zoned_form),
}
