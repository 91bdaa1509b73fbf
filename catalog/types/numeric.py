"""numeric: exact decimals up to 131072 digits before the point and 16383 after, NaN and the two infinities.

Internal form: `decimal.Decimal` with an exponent of zero or less, which is PostgreSQL's display scale: 1.10 has two
digits. There is no negative zero and no positive exponent (1e5 is 100000). All arithmetic uses the context `EXACT`,
whose precision no numeric can reach: Python's default context would silently round to 28 digits.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence
from decimal import MAX_EMAX, MIN_EMIN, ROUND_HALF_UP, Context, Decimal, DivisionByZero, InvalidOperation
from itertools import repeat
from typing import Any

from catalog.errors import SqlError
from catalog.types import oids
from catalog.types.base import DEFAULT_FORMAT, Columns, FormatSettings, Layout, SqlType, Storage
from catalog.types.float import NAN_KEY
from catalog.types.integer import INT4
from catalog.types.texts import WHITESPACE, bad_syntax

MAX_INTEGRAL_DIGITS = 131072
MAX_SCALE = 16383
MAX_PRECISION = 1000  # of a declared numeric(p, s)
_LONG = 1 << 18  # characters; a longer text is a numeric only with leading zeros or spaces
_PIECE = 1 << 20  # characters compared in one step

EXACT = Context(
    prec=400_000,
    rounding=ROUND_HALF_UP,
    Emin=MIN_EMIN,
    Emax=MAX_EMAX,
    capitals=1,
    clamp=0,
    flags=[],
    traps=[InvalidOperation, DivisionByZero],
)
"""Wide enough for the sum and the product of any two numerics; rounds half away from zero, as PostgreSQL does."""

NAN = Decimal("NaN")
INFINITY = Decimal("Infinity")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)\Z")
_SCIENTIFIC = re.compile(r"([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))[eE]([+-]?[0-9]+)\Z")
_WORDS = {
    "nan": NAN,
    "infinity": INFINITY,
    "inf": INFINITY,
    "+infinity": INFINITY,
    "+inf": INFINITY,
    "-infinity": -INFINITY,
    "-inf": -INFINITY,
}
_SIGN_POSITIVE, _SIGN_NEGATIVE, _SIGN_NAN, _SIGN_INFINITY, _SIGN_MINUS_INFINITY = 0x0000, 0x4000, 0xC000, 0xD000, 0xF000
_HEADER = struct.Struct(">hhHH")
HEADER_BYTES, SIGN_NEGATIVE = _HEADER.size, _SIGN_NEGATIVE


def overflow() -> SqlError:
    """Returns error 22003 for more digits than a numeric can have."""
    return SqlError("22003", "value overflows numeric format")


def canonical(value: Decimal) -> Decimal:
    """Converts a result of decimal arithmetic to the internal form. Raises 22003 beyond the limits of the type."""
    if not value:
        value = value.copy_abs()
    exponent = value.as_tuple().exponent
    if isinstance(exponent, str):
        return value
    if exponent > 0 or exponent < -MAX_SCALE or value.adjusted() >= MAX_INTEGRAL_DIGITS:
        if not value and exponent > 0:
            return Decimal(0)
        if exponent < -MAX_SCALE or value.adjusted() >= MAX_INTEGRAL_DIGITS:
            raise overflow()
        value = value.quantize(Decimal(1), context=EXACT)
    return value


def parse_numeric(text: str) -> Decimal:
    """Reads a numeric as numeric_in does, without a modifier. Raises 22P02, 22003."""
    if len(text) > _LONG:
        return _parse_long(text)
    if _NUMBER.match(text) is None:
        text_only = text.strip(WHITESPACE)
        word = _WORDS.get(text_only.lower())
        if word is not None:
            return word
        if _NUMBER.match(text_only) is None:
            return _parse_scientific(text, text_only)
        value = Decimal(text_only)
    else:
        value = Decimal(text)
    if not value:
        value = value.copy_abs()
    return value if len(text) <= MAX_SCALE else canonical(value)


def _parse_long(text: str) -> Decimal:
    """Does the same as parse_numeric for a long text. Removes spaces and leading zeros; the rest is a short number or
    an error. Making a Decimal of millions of digits would take seconds."""
    number = text.strip(WHITESPACE)
    sign = number[:1] if number[:1] in ("+", "-") else ""
    start = len(sign)
    zeros = "0" * _PIECE
    while number.startswith(zeros, start):
        start += _PIECE
    digits = number[start:].lstrip("0")
    zero = "0" if len(sign) + len(digits) < len(number) else ""
    short = sign + zero + digits
    if len(short) <= _LONG:
        try:
            return parse_numeric(short)
        except SqlError as error:
            if error.sqlstate != "22P02":
                raise
            raise bad_syntax("numeric", text) from None
    mark = max(digits.rfind("e"), digits.rfind("E"))
    mantissa, exponent = (digits, "e0") if mark < 0 else (digits[:mark], digits[mark:])
    whole, _, fraction = mantissa.partition(".")
    if (
        (zero or whole or fraction)
        and _all_digits(whole)
        and _all_digits(fraction)
        and _SCIENTIFIC.match(f"1{exponent}")
    ):
        raise overflow()
    raise bad_syntax("numeric", text)


def _all_digits(text: str) -> bool:
    pieces = (text[start : start + _PIECE] for start in range(0, len(text), _PIECE))
    return all(piece.isascii() and piece.isdecimal() for piece in pieces)


def _parse_scientific(text: str, text_only: str) -> Decimal:
    match = _SCIENTIFIC.match(text_only)
    if match is None:
        raise bad_syntax("numeric", text)
    exponent = match[2].lstrip("+-").lstrip("0")
    if len(exponent) > 9:
        raise overflow()
    return canonical(Decimal(text_only))


def format_numeric(value: Decimal) -> str:
    """Returns the text of numeric_out, which never has an exponent."""
    text = str(value)
    return format(value, "f") if "E" in text else text


def precision_of(typmod: int) -> int:
    """Returns the declared precision of numeric(p, s)."""
    return (typmod - 4) >> 16 & 0xFFFF


def scale_of(typmod: int) -> int:
    """Returns the declared scale of numeric(p, s), -1000 to 1000."""
    scale = (typmod - 4) & 0x7FF
    return (scale ^ 1024) - 1024


def apply_typmod(typmod: int) -> Callable[[Any], object]:
    """Returns the function that rounds to numeric(p, s). It raises 22003 for more than p - s digits before the
    point."""
    precision, scale = precision_of(typmod), scale_of(typmod)
    unit = Decimal((0, (1,), -scale))
    one = Decimal(1)
    limit = precision - scale

    def apply(value: Any) -> object:
        if value and value.same_quantum(unit) and value.adjusted() < limit and scale >= 0:
            return value
        if not value.is_finite():
            if value.is_nan():
                return value
            detail = f"A field with precision {precision}, scale {scale} cannot hold an infinite value."
            raise SqlError("22003", "numeric field overflow", detail=detail)
        rounded = value.quantize(unit, context=EXACT)
        if not rounded:
            return rounded.quantize(one if scale < 0 else unit, context=EXACT).copy_abs()
        if rounded.adjusted() >= limit:
            bound = f"10^{limit}" if limit else "1"
            raise SqlError(
                "22003",
                "numeric field overflow",
                detail=f"A field with precision {precision}, scale {scale} must round to "
                f"an absolute value less than {bound}.",
            )
        return rounded.quantize(one, context=EXACT) if scale < 0 else rounded

    return apply


def decode_binary(data: bytes) -> Decimal:
    """numeric_recv: reads count, weight, sign and scale, then base-10000 digits. Raises 22P03, 08P01."""
    if len(data) < 8:
        raise SqlError("08P01", "insufficient data left in message")
    count, weight, sign, scale = _HEADER.unpack_from(data)
    if len(data) < 8 + 2 * max(count, 0):
        raise SqlError("08P01", "insufficient data left in message")
    if len(data) > 8 + 2 * max(count, 0):
        raise SqlError("22P03", "incorrect binary data format")
    if sign in (_SIGN_NAN, _SIGN_INFINITY, _SIGN_MINUS_INFINITY):
        return NAN if sign == _SIGN_NAN else INFINITY if sign == _SIGN_INFINITY else -INFINITY
    if sign not in (_SIGN_POSITIVE, _SIGN_NEGATIVE):
        raise SqlError("22P03", 'invalid sign in external "numeric" value')
    if scale > MAX_SCALE:
        raise SqlError("22P03", 'invalid scale in external "numeric" value')
    digits = struct.unpack_from(f">{count}h", data, 8) if count > 0 else ()
    if digits and (min(digits) < 0 or max(digits) > 9999):
        raise SqlError("22P03", 'invalid digit in external "numeric" value')
    coefficient = 0
    for digit in digits:
        coefficient = coefficient * 10_000 + digit
    # Digits from the last transmitted one to the last one of the scale, where the rest is truncated.
    shift = scale + 4 * (weight - count + 1)
    if coefficient:
        coefficient = coefficient * 10**shift if shift >= 0 else coefficient // 10**-shift
    if sign == _SIGN_NEGATIVE:
        coefficient = -coefficient
    value = scale_decimal(coefficient, scale)
    return value if value.adjusted() < MAX_INTEGRAL_DIGITS else canonical(value)


def scale_decimal(coefficient: int, scale: int) -> Decimal:
    """Returns coefficient * 10 ** -scale."""
    return Decimal(coefficient).scaleb(-scale, EXACT)


def all_scaled(coefficients: Sequence[int], scale: int) -> list[Decimal]:
    """Returns `scale_decimal` of many coefficients with one scale."""
    return list(map(EXACT.multiply, coefficients, repeat(Decimal((0, (1,), -scale)))))


def encode_binary(value: Any) -> bytes:
    """numeric_send."""
    if not value.is_finite():
        if value.is_nan():
            return _HEADER.pack(0, 0, _SIGN_NAN, 0)
        # PostgreSQL sends a bit of the header's flags as the scale of an infinity.
        return _HEADER.pack(0, 0, _SIGN_INFINITY if value > 0 else _SIGN_MINUS_INFINITY, 0x20)
    text = format(value, "f")
    sign = _SIGN_POSITIVE
    if text[0] == "-":
        text = text[1:]
        sign = _SIGN_NEGATIVE
    whole, _, fraction = text.partition(".")
    padded = whole.rjust(-(-len(whole) // 4) * 4, "0") + fraction.ljust(-(-len(fraction) // 4) * 4, "0")
    groups = [int(padded[start : start + 4]) for start in range(0, len(padded), 4)]
    weight = -(-len(whole) // 4) - 1
    first = 0
    while first < len(groups) and groups[first] == 0:
        first += 1
    last = len(groups)
    while last > first and groups[last - 1] == 0:
        last -= 1
    count = last - first
    if not count:
        return _HEADER.pack(0, 0, sign, len(fraction))
    return _HEADER.pack(count, weight - first, sign, len(fraction)) + struct.pack(f">{count}h", *groups[first:last])


_MINUS_INFINITY_KEY, _NEGATIVE_KEY, _ZERO_KEY, _POSITIVE_KEY, _INFINITY_KEY, _NAN_KEY = (
    bytes([n]) for n in range(1, 7)
)
_EXPONENT_BIAS = 1 << 23
_DIGIT_TO_BYTE = bytes(range(1, 256)) + b"\xff"
_COMPLEMENT = bytes(255 - byte for byte in range(256))


def encode_key(value: Any) -> bytes:
    """Encodes class, exponent of the first digit (3 bytes), digits without trailing zeros (one byte each, 1 to 10),
    0x00.

    For negative numbers, all bytes after the class byte are complemented. 1.0 and 1.00 have the same bytes.
    """
    sign, digits, exponent = value.as_tuple()
    if isinstance(exponent, str):
        return _NAN_KEY if exponent != "F" else _MINUS_INFINITY_KEY if sign else _INFINITY_KEY
    significant = bytes(digits).lstrip(b"\0")
    if not significant:
        return _ZERO_KEY
    first = exponent + len(significant) + _EXPONENT_BIAS
    body: bytes = first.to_bytes(3, "big") + significant.rstrip(b"\0").translate(_DIGIT_TO_BYTE) + b"\0"
    return _NEGATIVE_KEY + body.translate(_COMPLEMENT) if sign else _POSITIVE_KEY + body


class Numeric(SqlType):
    """numeric, internal form `decimal.Decimal`."""

    oid = oids.NUMERIC
    array_oid = oids.NUMERIC_ARRAY
    name = "numeric"
    sql_name = "numeric"
    category = "N"
    preferred = False
    length = -1
    storage = Storage(
        None,
        to_storage=lambda value: format_numeric(value).encode(),  # type: ignore[arg-type]
        from_storage=lambda data: Decimal(data.decode()),  # type: ignore[attr-defined]
    )
    columns = Columns(layout=Layout.DECIMALS)

    def input_function(self, settings: FormatSettings = DEFAULT_FORMAT, typmod: int = -1) -> Callable[[str], object]:
        if typmod < 4:
            return parse_numeric
        apply = apply_typmod(typmod)
        return lambda text: apply(parse_numeric(text))

    def text_encoder(self, settings: FormatSettings = DEFAULT_FORMAT) -> Callable[[Any], bytes]:
        return lambda value: format_numeric(value).encode()

    def receive_function(self, typmod: int = -1) -> Callable[[bytes], object]:
        if typmod < 4:
            return decode_binary
        apply = apply_typmod(typmod)
        return lambda data: apply(decode_binary(data))

    def binary_encoder(self) -> Callable[[object], bytes]:
        return encode_binary

    def typmod_in(self, arguments: tuple[str, ...]) -> int:
        if len(arguments) not in (1, 2):
            raise SqlError("22023", "invalid NUMERIC type modifier")
        decode = INT4.input_function()
        numbers: list[Any] = [decode(argument) for argument in arguments]
        precision, scale = numbers[0], numbers[1] if len(numbers) == 2 else 0
        if not 1 <= precision <= MAX_PRECISION:
            raise SqlError("22023", f"NUMERIC precision {precision} must be between 1 and {MAX_PRECISION}")
        if not -MAX_PRECISION <= scale <= MAX_PRECISION:
            raise SqlError("22023", f"NUMERIC scale {scale} must be between -{MAX_PRECISION} and {MAX_PRECISION}")
        typmod: int = (precision << 16 | scale & 0x7FF) + 4
        return typmod

    def typmod_out(self, typmod: int) -> str:
        return f"({precision_of(typmod)},{scale_of(typmod)})" if typmod >= 4 else ""

    def length_coercion(self, typmod: int, explicit: bool) -> Callable[[object], object] | None:
        return apply_typmod(typmod) if typmod >= 4 else None

    def sort_key(self) -> Callable[[Any], object]:
        return lambda value: NAN_KEY if value.is_nan() else value

    def key_encoder(self) -> Callable[[object], bytes]:
        return encode_key

    def duckdb_type(self, typmod: int = -1) -> str:
        if typmod >= 4:
            precision, scale = precision_of(typmod), scale_of(typmod)
            if precision <= 38 and 0 <= scale <= precision:
                return f"DECIMAL({precision},{scale})"
        return "VARCHAR"
