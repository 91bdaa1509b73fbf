"""The parameters of a prepared statement: their types, and functions that read their values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from catalog.errors import SqlError
from catalog.types import lookup, oids
from catalog.types.datetime import outside_of_plans
from catalog.types.oids import NAMED_ARRAY_TYPES, NAMED_TYPES
from engine.session.statement_texts import utf8
from engine.sql.analyze import Environment
from engine.sql.analyze.environment import usable_path
from engine.sql.analyze.literals import read_literal

if TYPE_CHECKING:
    from catalog.catalog import Catalog
    from engine.node.plan_cache import PlanKey

ParameterDecoder = Callable[[bytes], object]

# Types whose texts never denote a time.
_TIMELESS = oids.NUMBERS | oids.COLLATABLE | oids.JSON_TYPES | {oids.BOOL, oids.BYTEA, oids.CHAR, oids.UUID}
_SAFE_DIGITS = {oids.INT8: 18, oids.INT2: 4, oids.INT4: 9}  # this many digits always fit the type


class Parameters:
    """`types` are OIDs. `declared` are the types that clients see and that a new plan uses: domains stay domains.
    `literals` read the literals of a lifted statement."""

    __slots__ = ("_catalog", "_decoders", "_key", "declared", "literals", "types")

    def __init__(self, types: tuple[int, ...], declared: tuple[int, ...], catalog: Catalog, key: PlanKey) -> None:
        self.types = types
        self.declared = declared or types
        self.literals: tuple[ParameterDecoder, ...] = ()
        self._catalog = catalog
        self._key = key
        self._decoders: dict[tuple[int, ...], tuple[ParameterDecoder, ...]] = {}

    def decoders(self, formats: tuple[int, ...]) -> tuple[ParameterDecoder, ...]:
        """Functions that read Bind's parameters in these formats, one for each. Raises 08P01."""
        decoders = self._decoders.get(formats)
        if decoders is None:
            decoders = self._decoders[formats] = self._make_decoders(formats)
        return decoders

    def decode(self, values: Sequence[bytes | None], formats: tuple[int, ...]) -> list[object]:
        """Bind's parameters, one for each type, in internal form. Raises the errors of the types' inputs."""
        decoders = self.decoders(formats)
        return [None if value is None else decoder(value) for value, decoder in zip(values, decoders, strict=True)]

    def explain(self, error: SqlError, portal: bytes, values: Sequence[bytes | None], formats: tuple[int, ...]) -> None:
        """Names the parameter that could not be read in the error's context, without its value, as PostgreSQL does."""
        for number, (value, decoder) in enumerate(zip(values, self._decoders.get(formats, ()), strict=False), 1):
            try:
                if value is not None:
                    decoder(value)
            except SqlError:
                binary = formats and formats[number - 1 if len(formats) > 1 else 0]
                shown = f'portal "{portal.decode()}"' if portal else "unnamed portal"
                error.context = f"{shown} parameter ${number}" + ("" if binary else " = '...'")
                return

    def literal_decoder(self, tag: str, oid: int) -> ParameterDecoder:
        """A function that reads a lifted literal: i and l are integers."""
        if tag in "il":
            return int
        decode = self._text_decoder(oid)
        return lambda literal: decode(utf8(literal))

    def _text_decoder(self, oid: int) -> Callable[[str], object]:
        """The input function of a type under the statement's settings; the reg types look up names in its catalog."""
        if oid not in NAMED_TYPES and oid not in NAMED_ARRAY_TYPES:
            decode = lookup(oid).text_decoder(self._key.format)
            return decode if oid in _TIMELESS else outside_of_plans(decode)
        key = self._key
        path = usable_path(self._catalog, key.search_path, key.user)
        environment = Environment(self._catalog, path, key.user, format=key.format, asks=True)
        return lambda text: read_literal(environment, text, oid, -1, -1)

    def _make_decoders(self, formats: tuple[int, ...]) -> tuple[ParameterDecoder, ...]:
        count = len(self.types)
        if not formats:
            formats = (0,) * count
        elif len(formats) == 1:
            formats = formats * count
        elif len(formats) != count:
            raise SqlError("08P01", f"bind message has {len(formats)} parameter formats but {count} parameters")
        decoders = []
        for oid, code in zip(self.types, formats, strict=True):
            if code == 1:
                decoders.append(lookup(oid).binary_decoder())
            elif code == 0:
                decoder = _from_text(self._text_decoder(oid), oid not in oids.NUMBERS)
                decoders.append(_from_digits(decoder, _SAFE_DIGITS[oid]) if oid in _SAFE_DIGITS else decoder)
            else:
                raise SqlError("08P01", f"unsupported format code: {code}")
        return tuple(decoders)


def _from_text(decode: Callable[[str], object], textual: bool) -> ParameterDecoder:
    if not textual:
        # The type's input refuses non-ASCII text, with the text in its message.
        return lambda value: decode(value.decode() if value.isascii() else utf8(value))

    return lambda value: decode(utf8(value))


def _from_digits(decode: ParameterDecoder, most: int) -> ParameterDecoder:
    """An integer from its text. A short text of digits, with or without a minus, needs no further check."""

    def read(value: bytes) -> object:
        if len(value) <= most and (value.isdigit() or (value[:1] == b"-" and value[1:].isdigit())):
            return int(value)
        return decode(value)

    return read
