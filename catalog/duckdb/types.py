"""Types of DuckDB as objects, with precision, scale, elements and fields as attributes.

    parse_type("DECIMAL(10,2)[]").element.precision    10
    str(list_of(decimal_type(10, 2)))                  'DECIMAL(10,2)[]'

Types with the same text are equal. `parse_type` parses the texts of types, in the declarations of SQL types and in
signatures of UDFs, once each.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

_KNOWN = 4096


class DuckDBType:
    """A type without parameters, and the base class of the others."""

    __slots__ = ("_hash", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._hash = hash(text)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<{self.text}>"

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, DuckDBType) and self.text == other.text)

    def __hash__(self) -> int:
        return self._hash


class DecimalType(DuckDBType):
    """DECIMAL(precision,scale)."""

    __slots__ = ("precision", "scale")

    def __init__(self, precision: int, scale: int) -> None:
        super().__init__(f"DECIMAL({precision},{scale})")
        self.precision = precision
        self.scale = scale


class CharType(DuckDBType):
    """The type of char(n) columns in stored tables: a VARCHAR without the blanks that pad a value to `length`
    characters. Its SQL text is VARCHAR, but it is not equal to that type."""

    __slots__ = ("length",)

    def __init__(self, length: int) -> None:
        super().__init__(f"CHAR({length})")
        self.length = length

    def __str__(self) -> str:
        return "VARCHAR"


class ListType(DuckDBType):
    """element[]."""

    __slots__ = ("element",)

    def __init__(self, element: DuckDBType) -> None:
        super().__init__(f"{element}[]")
        self.element = element


class StructType(DuckDBType):
    """STRUCT(name type, ...)."""

    __slots__ = ("fields",)

    def __init__(self, fields: tuple[tuple[str, DuckDBType], ...]) -> None:
        super().__init__(f"STRUCT({', '.join([f'{name} {type_}' for name, type_ in fields])})")
        self.fields = fields


_scalars: dict[str, DuckDBType] = {}


def _scalar(name: str) -> DuckDBType:
    return _scalars.setdefault(name, DuckDBType(name))


BIGINT = _scalar("BIGINT")
BLOB = _scalar("BLOB")
BOOLEAN = _scalar("BOOLEAN")
DATE = _scalar("DATE")
DOUBLE = _scalar("DOUBLE")
FLOAT = _scalar("FLOAT")
HUGEINT = _scalar("HUGEINT")
INTEGER = _scalar("INTEGER")
INTERVAL = _scalar("INTERVAL")
SMALLINT = _scalar("SMALLINT")
TIME = _scalar("TIME")
TIMESTAMP = _scalar("TIMESTAMP")
UBIGINT = _scalar("UBIGINT")
VARCHAR = _scalar("VARCHAR")


@lru_cache(maxsize=_KNOWN)
def decimal_type(precision: int, scale: int) -> DecimalType:
    return DecimalType(precision, scale)


@lru_cache(maxsize=_KNOWN)
def char_type(length: int) -> CharType:
    return CharType(length)


@lru_cache(maxsize=_KNOWN)
def list_of(element: DuckDBType) -> ListType:
    return ListType(element)


def struct_of(fields: Iterable[DuckDBType]) -> StructType:
    """The STRUCT for a record, with fields f1, f2, ..."""
    return StructType(tuple([(f"f{number}", type_) for number, type_ in enumerate(fields, 1)]))


_DECIMAL = re.compile(r"DECIMAL\((\d+),\s*(\d+)\)")
_STRUCT = re.compile(r"STRUCT\((.*)\)")
_FIELD = re.compile(r'\s*(?:"([^"]*)"|(\w+))\s+((?:[^,()]|\([^()]*\))+)(?:,|$)')


@lru_cache(maxsize=_KNOWN)
def parse_type(text: str) -> DuckDBType:
    """Parses a type as DuckDB prints it. Does not support a STRUCT within a STRUCT. Raises ValueError for unknown
    types."""
    if text.endswith("[]"):
        return list_of(parse_type(text[:-2]))
    known = _scalars.get(text)
    if known is not None:
        return known
    if found := _DECIMAL.fullmatch(text):
        return decimal_type(int(found[1]), int(found[2]))
    if found := _STRUCT.fullmatch(text):
        return StructType(tuple((quoted or name, parse_type(kind)) for quoted, name, kind in _FIELD.findall(found[1])))
    raise ValueError(f"unknown type of DuckDB: {text}")
