"""float4 and float8: the shortest text that reads back as the same number, in PostgreSQL's format.

Python's repr() finds the same shortest digits as PostgreSQL's Ryu; only the border to the exponent form differs
(10**15 instead of 10**16). The internal form of a float4 is the Python float of the same value. In SQL, NaN equals NaN,
and -0 equals 0.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable
from decimal import Decimal
from functools import total_ordering
from typing import Any

from catalog.errors import SqlError
from catalog.types import oids
from catalog.types.base import DEFAULT_FORMAT, Columns, FormatSettings, Layout, SqlType, Storage
from catalog.types.texts import WHITESPACE, bad_syntax, wrong_length

_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\Z")
HEXADECIMAL = r"0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)(?:[pP][+-]?[0-9]+)?"
_HEXADECIMAL = re.compile(rf"[+-]?{HEXADECIMAL}\Z")
_NUMBER_FIRST = re.compile(rf"[+-]?(?:{HEXADECIMAL}|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)")
_WORDS = {
    sign + word: value
    for word, number in (("infinity", math.inf), ("inf", math.inf), ("nan", math.nan))
    for sign, value in (("", number), ("+", number), ("-", -number))
}
_NAN_WITH_TAG = re.compile(r"[+-]?nan\([0-9a-z_]*\)\Z")
_NONZERO = re.compile(r"[+-]?(?:0[xX])?[0.]*[1-9a-dA-Df-oF-O]")
_SINGLE = struct.Struct("<f")
_DOUBLE = struct.Struct("<d")
_BITS = struct.Struct("<Q")
_SINGLE_BITS = struct.Struct("<I")
_FIXED_DIGITS8 = 1e15
_FIXED_DIGITS4 = 1e6
_WHOLE_DOUBLES = 2.0**53  # larger doubles have no fraction


@total_ordering
class Greatest:
    """The sort key of NaN: greater than every number, and equal to itself."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Greatest)

    def __lt__(self, other: object) -> bool:
        return False

    def __hash__(self) -> int:
        return 0x7FF8


NAN_KEY = Greatest()


def _parse_special(text: str, type_name: str, parse: Callable[[str], float]) -> float:
    word = text.strip(WHITESPACE)
    if word.isascii():
        value = _WORDS.get(word.lower())
        if value is not None:
            return value
        if _HEXADECIMAL.match(word):
            return float.fromhex(word)
        if _NAN_WITH_TAG.match(word.lower()):
            return math.nan
    number = _NUMBER_FIRST.match(word)
    if number is not None and number.end() < len(word):
        parse(number[0])  # as strtod(), reports a number out of range before a syntax error after it
    raise bad_syntax(type_name, text)


def _overflow(text: str, type_name: str) -> SqlError:
    return SqlError("22003", f'"{text.strip(WHITESPACE)}" is out of range for type {type_name}')


def parse_float8(text: str) -> float:
    """Reads a double as strtod() and float8in do. Raises 22P02, and 22003 for overflow and underflow."""
    if _DECIMAL.match(text):
        value = float(text)
    else:
        stripped = text.strip(WHITESPACE)
        if not _DECIMAL.match(stripped):
            try:
                return _parse_special(text, "double precision", parse_float8)
            except OverflowError:
                raise _overflow(text, "double precision") from None
        value = float(stripped)
    if value == 0.0:
        if _NONZERO.match(text.strip(WHITESPACE)):
            raise _overflow(text, "double precision")
    elif value - value != 0.0:
        raise _overflow(text, "double precision")
    return value


def round_to_single(value: float) -> float:
    """Returns the nearest float4. Raises OverflowError for a value out of range."""
    single: float = _SINGLE.unpack(_SINGLE.pack(value))[0]
    return single


def parse_float4(text: str) -> float:
    """Reads a single as strtof() does: rounds once, from the decimal digits. Raises 22P02, 22003."""
    stripped = text.strip(WHITESPACE)
    if not _DECIMAL.match(stripped):
        try:
            return round_to_single(_parse_special(text, "real", parse_float4))
        except OverflowError:
            raise _overflow(text, "real") from None
    value = float(stripped)
    if value - value == 0.0 and not _BITS.unpack(_DOUBLE.pack(value))[0] & 0x0FFFFFFF:
        value = _off_the_midpoint(value, stripped)
    try:
        single = round_to_single(value)
    except OverflowError:
        raise _overflow(text, "real") from None
    if single - single != 0.0 or (single == 0.0 and _NONZERO.match(stripped)):
        raise _overflow(text, "real")
    return single


def _off_the_midpoint(value: float, text: str) -> float:
    """Returns a double on the same side of the midpoint between two singles as the text's value. Without that, rounding
    twice is wrong if the double is exactly the midpoint and the text is not."""
    exact = Decimal(text)
    if exact > Decimal(value):
        return math.nextafter(value, math.inf)
    if exact < Decimal(value):
        return math.nextafter(value, -math.inf)
    return value


def _exponent_form(digits: str, exponent: int, sign: str) -> str:
    mantissa = digits[0] + ("." + digits[1:] if len(digits) > 1 else "")
    return f"{sign}{mantissa}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"


def format_float8(value: float) -> str:
    """Returns the shortest text that reads back, as float8out does with extra_float_digits > 0."""
    if -_FIXED_DIGITS8 < value < _FIXED_DIGITS8:
        text = repr(value)
        return text[:-2] if text.endswith(".0") else text
    if value - value != 0.0:
        return _format_special(value)
    magnitude = abs(value)
    text = repr(magnitude)
    if "e" not in text:  # repr() uses the exponent form from 1e16, PostgreSQL from 1e15
        whole, _, fraction = text.partition(".")
        digits, exponent = (whole + fraction).rstrip("0"), len(whole) - 1
    else:
        digits, exponent = _split(text)
    if magnitude >= _WHOLE_DOUBLES:
        precision = len(digits)
        while float(text) != magnitude or _on_the_border(magnitude, int(digits) * 10 ** (exponent - len(digits) + 1)):
            precision = max(precision, 14) + 1
            text = f"{magnitude:.{precision}e}"
            digits, exponent = _split(text)
    return _exponent_form(digits, exponent, "-" if value < 0 else "")


def _on_the_border(magnitude: float, shown: int) -> bool:
    """Whether the decimal is halfway to the next double. Reading rounds it to even; PostgreSQL does not use that."""
    exact = int(magnitude)
    neighbours = (int(math.nextafter(magnitude, 0.0)), exact + int(math.ulp(magnitude)))
    return shown != exact and 2 * shown - exact in neighbours


def _split(text: str) -> tuple[str, int]:
    """Returns the digits without trailing zeros and the exponent of the first digit, of a text such as '1.50e+20'."""
    mantissa, _, exponent = text.partition("e")
    return mantissa.replace(".", "").rstrip("0"), int(exponent)


def format_float4(value: float) -> str:
    """Returns the shortest text that reads back as the same single."""
    if value - value != 0.0:
        return _format_special(value)
    magnitude = abs(value)
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    if magnitude == 0.0:
        return sign + "0"
    digits, exponent = _shortest_single(magnitude)
    if exponent < -4 or magnitude >= _FIXED_DIGITS4:
        return _exponent_form(digits, exponent, sign)
    if exponent < 0:
        return f"{sign}0.{'0' * (-exponent - 1)}{digits}"
    whole = digits[: exponent + 1].ljust(exponent + 1, "0")
    fraction = digits[exponent + 1 :]
    return f"{sign}{whole}.{fraction}" if fraction else sign + whole


def _shortest_single(magnitude: float) -> tuple[str, int]:
    """Returns the shortest digits strictly between the midpoints to both neighbours; of these the nearest."""
    (bits,) = _SINGLE_BITS.unpack(_SINGLE.pack(magnitude))
    below = Decimal((magnitude + _SINGLE.unpack(_SINGLE_BITS.pack(bits - 1))[0]) / 2)
    step = magnitude - _SINGLE.unpack(_SINGLE_BITS.pack(bits - 1))[0]
    if bits & 0x7FFFFF == 0 and bits > 0x800000:
        step *= 2  # above a power of two, the distance of singles is twice as large
    above = Decimal(magnitude + step / 2)
    for precision in range(9):
        text = f"{magnitude:.{precision}e}"
        nearest = Decimal(text)
        if below < nearest < above:
            break
        nearest += Decimal((0, (1,), int(text.partition("e")[2]) - precision))
        if below < nearest < above:
            text = f"{nearest:.{precision}e}"
            break
    return _split(text)


def _format_special(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _limit(digits: int) -> Callable[[Any], bytes]:
    """Returns the output function with extra_float_digits <= 0: printf's %g with so many digits."""

    def encode(value: Any) -> bytes:
        if value - value != 0.0:
            return _format_special(value).encode()
        return f"{value:.{digits}g}".encode()

    return encode


class Float(SqlType):
    """float4 or float8, internal form `float`."""

    def __init__(self, oid: int, array_oid: int, name: str, sql_name: str, length: int) -> None:
        self.oid = oid
        self.array_oid = array_oid
        self.name = name
        self.sql_name = sql_name
        self.category = "N"
        self.preferred = length == 8
        self.length = length
        self._code = "d" if length == 8 else "f"
        self.storage = Storage(self._code)
        arrow = "double" if length == 8 else "float"
        self.columns = Columns(layout=Layout.NUMBERS, arrow=arrow, sent=f">f{length}", output_of_settings=True)

    def input_function(self, settings: FormatSettings = DEFAULT_FORMAT, typmod: int = -1) -> Callable[[str], object]:
        return parse_float8 if self.length == 8 else parse_float4

    def text_encoder(self, settings: FormatSettings = DEFAULT_FORMAT) -> Callable[[Any], bytes]:
        if settings.extra_float_digits <= 0:
            return _limit(max(1, (15 if self.length == 8 else 6) + settings.extra_float_digits))
        form = format_float8 if self.length == 8 else format_float4
        return lambda value: form(value).encode()

    def receive_function(self, typmod: int = -1) -> Callable[[bytes], object]:
        layout, length = struct.Struct(">" + self._code), self.length

        def decode(data: bytes) -> object:
            if len(data) != length:
                raise wrong_length(data, length)
            return layout.unpack(data)[0]

        return decode

    def binary_encoder(self) -> Callable[[object], bytes]:
        return struct.Struct(">" + self._code).pack

    def sort_key(self) -> Callable[[Any], object]:
        is_nan = math.isnan
        return lambda value: NAN_KEY if is_nan(value) else value

    def key_encoder(self) -> Callable[[Any], bytes]:
        """Encodes the IEEE bits in byte order: flips the sign, and all bits of negative numbers; NaN is the
        greatest."""
        floats, bits = struct.Struct(">" + self._code), struct.Struct(">" + ("Q" if self.length == 8 else "I"))
        top = 1 << (8 * self.length - 1)
        all_ones = (top << 1) - 1
        nan = b"\xff" * self.length

        def encode(value: Any) -> bytes:
            if math.isnan(value):
                return nan
            raw: int = bits.unpack(floats.pack(value + 0.0))[0]  # -0.0 + 0.0 is 0.0
            return bits.pack(raw ^ all_ones if raw & top else raw | top)

        return encode

    def duckdb_type(self, typmod: int = -1) -> str:
        return "DOUBLE" if self.length == 8 else "FLOAT"


FLOAT4 = Float(oids.FLOAT4, oids.FLOAT4_ARRAY, "float4", "real", 4)
FLOAT8 = Float(oids.FLOAT8, oids.FLOAT8_ARRAY, "float8", "double precision", 8)
