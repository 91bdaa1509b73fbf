"""Type names: maps SQL's names of types to names in pg_catalog, as PostgreSQL's grammar does.

Modifiers are the texts of the expressions. Intervals have (field mask) or (field mask, precision), where the mask has a
bit for each field as in PostgreSQL's datetime.h, and all 15 bits if no fields are named.
"""

from __future__ import annotations

from typing import Final

from engine.sql import ast
from engine.sql.parser.cursor import Cursor
from engine.sql.parser.keywords import TYPE_FUNCTION_NAME

_SIMPLE: Final = {
    "int": "int4",
    "integer": "int4",
    "smallint": "int2",
    "bigint": "int8",
    "real": "float4",
    "boolean": "bool",
}
_NUMERIC: Final = ("numeric", "decimal", "dec")
_CHARACTER: Final = ("character", "char", "varchar", "national", "nchar")
# The first words of type names that are keywords in the grammar.
BUILT_IN_TYPES: Final = frozenset(
    (*_SIMPLE, *_NUMERIC, *_CHARACTER, "float", "double", "bit", "time", "timestamp", "interval")
)
_YEAR, _MONTH, _DAY, _HOUR, _MINUTE, _SECOND = 1 << 2, 1 << 1, 1 << 3, 1 << 10, 1 << 11, 1 << 12
_FULL_RANGE: Final = "32767"
_INTERVAL_RANGES: Final = {
    ("year", None): _YEAR,
    ("month", None): _MONTH,
    ("day", None): _DAY,
    ("hour", None): _HOUR,
    ("minute", None): _MINUTE,
    ("second", None): _SECOND,
    ("year", "month"): _YEAR | _MONTH,
    ("day", "hour"): _DAY | _HOUR,
    ("day", "minute"): _DAY | _HOUR | _MINUTE,
    ("day", "second"): _DAY | _HOUR | _MINUTE | _SECOND,
    ("hour", "minute"): _HOUR | _MINUTE,
    ("hour", "second"): _HOUR | _MINUTE | _SECOND,
    ("minute", "second"): _MINUTE | _SECOND,
}


def _built_in(name: str, modifiers: tuple[str, ...] = (), *, location: int) -> ast.TypeName:
    return ast.TypeName(("pg_catalog", name), modifiers, location=location)


class TypeNames(Cursor):
    """Typename and its parts."""

    def type_name(self) -> ast.TypeName:
        """Typename: [SETOF] type [array bounds]. Raises 0A000 for SETOF, which only types of functions may have."""
        start = self._curr.start
        if self.accept("setof"):
            self.refuse("SETOF", start)
        simple = self.simple_type_name()
        dimensions = self._array_bounds()
        if dimensions == 0:
            return simple
        return ast.TypeName(simple.names, simple.modifiers, dimensions, location=start)

    def _array_bounds(self) -> int:
        if self.accept("array"):
            if self.accept("["):
                self.integer()
                self.expect("]")
            return 1
        dimensions = 0
        while self.accept("["):
            if not self.accept("]"):
                self.integer()
                self.expect("]")
            dimensions += 1
        return dimensions

    def simple_type_name(self) -> ast.TypeName:
        if self._curr.key in BUILT_IN_TYPES and not (self._curr.key == "double" and self.peek() != "precision"):
            return self.built_in_type(constant=False)
        return self._generic_type()

    def _generic_type(self) -> ast.TypeName:
        token = self._curr
        if token.key not in TYPE_FUNCTION_NAME:
            self.fail()
        parts = [self.advance().text]
        while self.accept("."):
            parts.append(self.label())
        return ast.TypeName(tuple(parts), self._modifiers(), location=token.start)

    def _modifiers(self) -> tuple[str, ...]:
        """( expression, ... ), each as its text."""
        if not self.accept("("):
            return ()
        items = []
        while True:
            start = self._curr.start
            self.expression()
            items.append(self.source(start))
            if not self.accept(","):
                break
        self.expect(")")
        return tuple(items)

    def built_in_type(self, *, constant: bool) -> ast.TypeName:
        """A type whose name is a keyword. `constant`: before a string literal, where char and bit have no default
        length."""
        token = self._curr
        key, location = token.key, token.start
        if key in _SIMPLE:
            self.advance()
            return _built_in(_SIMPLE[key], location=location)
        if key in _NUMERIC:
            self.advance()
            return _built_in("numeric", self._modifiers(), location=location)
        if key == "double":
            self.expect("double", "precision")
            return _built_in("float8", location=location)
        if key == "float":
            return self._float(location)
        if key == "bit":
            return self._bit(location, constant)
        if key in ("time", "timestamp"):
            return self._time(key, location)
        if key == "interval":
            return self._interval(location)
        return self._character(location, constant)

    def _float(self, location: int) -> ast.TypeName:
        self.expect("float")
        if not self.accept("("):
            return _built_in("float8", location=location)
        at = self._curr.start
        bits = self.integer()
        self.expect(")")
        if bits < 1:
            self.complain("precision for type float must be at least 1 bit", at, "22023")
        if bits > 53:
            self.complain("precision for type float must be less than 54 bits", at, "22023")
        return _built_in("float4" if bits <= 24 else "float8", location=location)

    def _bit(self, location: int, constant: bool) -> ast.TypeName:
        self.expect("bit")
        varying = self.accept("varying")
        modifiers = self._modifiers()
        if varying:
            return _built_in("varbit", modifiers, location=location)
        return _built_in("bit", modifiers or (() if constant else ("1",)), location=location)

    def _character(self, location: int, constant: bool) -> ast.TypeName:
        key = self.advance().key
        if key == "national":
            key = self.expect_one_of("character", "char")
        varying = key == "varchar" or self.accept("varying")
        modifiers: tuple[str, ...] = ()
        if self.accept("("):
            modifiers = (self.expect("ICONST").text,)
            self.expect(")")
        if varying:
            return _built_in("varchar", modifiers, location=location)
        return _built_in("bpchar", modifiers or (() if constant else ("1",)), location=location)

    def _time(self, key: str, location: int) -> ast.TypeName:
        self.expect(key)
        modifiers: tuple[str, ...] = ()
        if self.accept("("):
            modifiers = (str(self.integer()),)
            self.expect(")")
        zone = False
        if self._curr.key == "with" and self.peek() == "time":
            self.expect("with", "time", "zone")
            zone = True
        elif self._curr.key == "without":
            self.expect("without", "time", "zone")
        return _built_in(key + ("tz" if zone else ""), modifiers, location=location)

    def _interval(self, location: int) -> ast.TypeName:
        self.expect("interval")
        if self.accept("("):
            precision = self.integer()
            self.expect(")")
            return _built_in("interval", (_FULL_RANGE, str(precision)), location=location)
        return _built_in("interval", self.interval_fields(), location=location)

    def interval_fields(self) -> tuple[str, ...]:
        """opt_interval: YEAR, DAY TO SECOND(3), ... as modifiers; () if there is none."""
        first = self._curr.key
        if (first, None) not in _INTERVAL_RANGES:
            return ()
        self.advance()
        last = None
        if first not in ("month", "second") and self._curr.key == "to":
            self.expect("to")
            last = self._curr.key
            if (first, last) not in _INTERVAL_RANGES:
                self.fail()
            self.advance()
        mask = str(_INTERVAL_RANGES[first, last])
        if (last or first) == "second" and self.accept("("):
            precision = self.integer()
            self.expect(")")
            return (mask, str(precision))
        return (mask,)
