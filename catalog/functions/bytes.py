"""bytea: parts, bits, digests, and its text encodings (PostgreSQL 16 manual, 9.5)."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Sequence
from itertools import combinations

from catalog.duckdb.nodes import Sql, constant_text, fill
from catalog.encodings import ENCODINGS, Encoding, usable_encoding
from catalog.errors import SqlError, not_supported
from catalog.functions.base import Trait
from catalog.functions.duckdb_sql import once
from catalog.functions.registry import implement, mark
from catalog.functions.text import overlay, substring
from catalog.types.base import TypeRef

# ---- parts and bits ----


def _index(number: int, size: int) -> int:
    if not 0 <= number < size:
        raise SqlError("2202E", f"index {number} out of valid range, 0..{size - 1}")
    return number


def set_byte(value: bytes, number: int, new: int) -> bytes:
    index = _index(number, len(value))
    return value[:index] + bytes((new & 255,)) + value[index + 1 :]


def get_bit(value: bytes, number: int) -> int:
    index = _index(number, 8 * len(value))
    return value[index // 8] >> (index % 8) & 1


def set_bit(value: bytes, number: int, new: int) -> bytes:
    index = _index(number, 8 * len(value))
    if new not in (0, 1):
        raise SqlError("22023", "new bit must be 0 or 1")
    byte = value[index // 8] & ~(1 << index % 8) | new << index % 8
    return value[: index // 8] + bytes((byte,)) + value[index // 8 + 1 :]


def trim(left: bool, right: bool) -> Callable[[bytes, bytes], bytes]:
    def compute(value: bytes, characters: bytes) -> bytes:
        if not characters:
            return value
        if left:
            value = value.lstrip(characters)
        return value.rstrip(characters) if right else value

    return compute


# ---- encodings ----

_ESCAPED = re.compile(rb"\\(?:([0-3][0-7]{2})|(\\))|([^\\])", re.DOTALL)
_WHITE = str.maketrans("", "", " \n\t\r")


def encode(value: bytes, form: str) -> str:
    """Encodes bytes as hex, base64 (lines of 76 characters) or escape. Raises 22023 for another name."""
    name = form.lower()
    if name == "hex":
        return value.hex()
    if name == "base64":
        text = base64.b64encode(value).decode()
        return "\n".join(text[start : start + 76] for start in range(0, len(text), 76))
    if name == "escape":
        return "".join("\\\\" if b == 92 else chr(b) if 0 < b < 128 else f"\\{b:03o}" for b in value)
    raise SqlError("22023", f'unrecognized encoding: "{form}"')


def decode(text: str, form: str) -> bytes:
    name = form.lower()
    if name == "hex":
        return _decode_hex(text)
    if name == "base64":
        return _decode_base64(text)
    if name == "escape":
        return _decode_escape(text)
    raise SqlError("22023", f'unrecognized encoding: "{form}"')


def _decode_hex(text: str) -> bytes:
    digits = text.translate(_WHITE)
    wrong = re.search(r"[^0-9a-fA-F]", digits)
    if wrong:
        raise SqlError("22023", f'invalid hexadecimal digit: "{wrong[0]}"')
    if len(digits) % 2:
        raise SqlError("22023", "invalid hexadecimal data: odd number of digits")
    return bytes.fromhex(digits)


_WELL_FORMED = re.compile(r"[A-Za-z0-9+/]*={0,2}")
_ALPHABET = {char: value for value, char in enumerate(
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")}  # fmt: skip


def _decode_base64(text: str) -> bytes:
    """Decodes base64. Ignores white space; the end must be padded. Raises 22023."""
    symbols = text.translate(_WHITE)
    if len(symbols) % 4 == 0 and _WELL_FORMED.fullmatch(symbols):
        return base64.b64decode(symbols)
    result, buffer, position, end = bytearray(), 0, 0, 0
    for char in symbols:
        value = _ALPHABET.get(char, -1)
        if char == "=":
            end = end or {2: 1, 3: 2}.get(position, 0)
            value = 0
            if not end:
                raise SqlError("22023", 'unexpected "=" while decoding base64 sequence')
        elif value < 0:
            raise SqlError("22023", f'invalid symbol "{char}" found while decoding base64 sequence')
        buffer, position = buffer << 6 | value, position + 1
        if position == 4:  # as pg_base64_decode, keeps `end` for later groups
            result += buffer.to_bytes(3, "big")[: end or 3]
            buffer = position = 0
    if position:
        raise SqlError("22023", "invalid base64 end sequence",
                       hint="Input data is missing padding, is truncated, or is otherwise corrupted.")  # fmt: skip
    return bytes(result)


def _decode_escape(text: str) -> bytes:
    data, result, end = text.encode(), bytearray(), 0
    while end < len(data):
        match = _ESCAPED.match(data, end)
        if match is None:
            raise SqlError("22P02", "invalid input syntax for type bytea")
        result.append(int(match[1], 8) if match[1] else 92 if match[2] else match[3][0])
        end = match.end()
    return bytes(result)


def _encoding(given: str, kind: str) -> Encoding:
    found = usable_encoding(given)
    if found is None:
        raise SqlError("22023", f'invalid {kind} encoding name "{given}"')
    return ENCODINGS["UTF8"] if found.is_utf8 else found


def convert_from(value: bytes, encoding: str) -> str:
    """Decodes bytes. Raises 22021 or 22P05 for bytes that are not valid in the encoding."""
    return _encoding(encoding, "source").decode(value)


def convert_to(text: str, encoding: str) -> bytes:
    """Encodes a text. Raises 22P05 for a character that the encoding does not have."""
    return _encoding(encoding, "destination").encode(text)


def convert(value: bytes, source: str, destination: str) -> bytes:
    """Bytes of one encoding in another. Raises 22021, 22P05, and 42883 where PostgreSQL has no such conversion."""
    one, other = _encoding(source, "source"), _encoding(destination, "destination")
    if one is other:
        one.decode(value)
        return value
    if not (one.is_utf8 or other.is_utf8):
        if frozenset((one.name, other.name)) not in _DIRECT:
            names = f'"{one.name}" to "{other.name}"'
            raise SqlError("42883", f"default conversion function for encoding {names} does not exist")
        raise not_supported(f"conversion from {one.name} to {other.name}")
    return other.encode(one.decode(value))


# Pairs between which PostgreSQL converts without going through UTF8.
_DIRECT = frozenset(
    map(
        frozenset,
        (
            *combinations(("ISO_8859_5", "KOI8R", "WIN1251", "WIN866"), 2),
            *combinations(("SJIS", "EUC_JP"), 2),
            ("LATIN2", "WIN1250"),
        ),
    )
)


# ---- registration ----

_HASHES = ("sha224", "sha256", "sha384", "sha512")


def _hash(name: str) -> Callable[[bytes], bytes]:
    return lambda value: hashlib.new(name, value).digest()


def _encode_side(arguments: Sequence[Sql], types: Sequence[TypeRef]) -> Sql | None:
    return fill("lower(hex({}))", arguments[0]) if constant_text(arguments[1]) == "hex" else None


def _register() -> None:
    implement("byteaoctetlen", len, "CAST(octet_length({0}) AS INTEGER)")
    implement("byteacat", lambda left, right: left + right, "({0} || {1})", inline="({0} + {1})")
    implement("bytea_substr", substring)
    implement("bytea_substr_no_len", substring)
    implement("byteapos", lambda value, part: value.find(part) + 1)
    implement("byteaoverlay", overlay)
    implement("byteaoverlay_no_len", overlay)
    implement("byteaGetByte", lambda value, number: value[_index(number, len(value))])
    implement("byteaSetByte", set_byte)
    implement("byteaGetBit", get_bit)
    implement("byteaSetBit", set_bit)
    implement("bytea_bit_count", lambda value: int.from_bytes(value, "big").bit_count())
    implement("byteatrim", trim(left=True, right=True))
    implement("bytealtrim", trim(left=True, right=False))
    implement("byteartrim", trim(left=False, right=True))
    implement("binary_encode", encode, _encode_side)
    implement("binary_decode", decode)
    implement("pg_convert_from", convert_from)
    implement("pg_convert_to", convert_to)
    implement("pg_convert", convert)
    implement("md5_text", lambda text: hashlib.md5(text.encode()).hexdigest(), "md5({0})")
    implement("md5_bytea", lambda value: hashlib.md5(value).hexdigest())
    mark(Trait.NEVER_LARGER, "md5_text", "md5_bytea")
    for name in _HASHES:
        duckdb = once("unhex(sha256({0}))") if name == "sha256" else None
        implement(f"{name}_bytea", _hash(name), duckdb)


_register()
