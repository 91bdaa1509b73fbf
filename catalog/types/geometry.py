"""point, lseg, path, box, polygon, line and circle (PostgreSQL 16 manual, 8.8; geo_ops.c).

Internal forms are named tuples of floats and points. Text is read and written as in path_decode and path_encode. The
binary form is that of the send functions, and is also the stored form. In columns the values are text.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

from catalog.errors import SqlError
from catalog.types import oids
from catalog.types.base import DEFAULT_FORMAT, Columns, FormatSettings, Order, Parts, SqlType, Storage
from catalog.types.float import FLOAT8, HEXADECIMAL, parse_float8
from catalog.types.texts import WHITESPACE, bad_syntax

EPSILON = 1.0e-6
_NUMBER = re.compile(
    rf"[{WHITESPACE}]*([+-]?(?:inf(?:inity)?|nan|{HEXADECIMAL}|(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?))[{WHITESPACE}]*",
    re.IGNORECASE | re.ASCII,
)
_INT4 = struct.Struct(">i")


class Point(NamedTuple):
    x: float
    y: float


class Segment(NamedTuple):
    start: Point
    end: Point


class Box(NamedTuple):
    """A box; `high` is the upper right corner."""

    high: Point
    low: Point


class Line(NamedTuple):
    """The line a x + b y + c = 0."""

    a: float
    b: float
    c: float


class Path(NamedTuple):
    points: tuple[Point, ...]
    closed: bool


class Polygon(NamedTuple):
    points: tuple[Point, ...]


class StoredPath(Path):
    """A path of many points, with its stored form."""

    stored: bytes = b""


class StoredPolygon(Polygon):
    """A polygon of many points, with its stored form."""

    stored: bytes = b""


class Circle(NamedTuple):
    center: Point
    radius: float


def make_box(one: Point, other: Point) -> Box:
    """box_construct: the box with these opposite corners. NaN is greater than any number; of equal numbers (0 and -0)
    the first is the lower."""
    low_x, high_x = sorted((one.x, other.x), key=_order)
    low_y, high_y = sorted((one.y, other.y), key=_order)
    return Box(Point(high_x, high_y), Point(low_x, low_y))


def _order(value: float) -> tuple[bool, float]:
    return (True, 0.0) if math.isnan(value) else (False, value)


# ---- text ------------------------------------------------------------------------------------------------------------


class _Reader:
    """Reads one text from the left. Syntax errors are 22P02 with the whole text."""

    def __init__(self, text: str, name: str) -> None:
        self.text = text
        self.name = name
        self.at = 0

    def fail(self) -> SqlError:
        return bad_syntax(self.name, self.text)

    def space(self) -> None:
        while self.peek() and self.peek() in WHITESPACE:
            self.at += 1

    def peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def take(self, wanted: str) -> bool:
        if self.peek() != wanted:
            return False
        self.at += 1
        return True

    def expect(self, wanted: str) -> None:
        if not self.take(wanted):
            raise self.fail()

    def number(self) -> float:
        """Reads a number. Raises 22003 for a number out of range."""
        found = _NUMBER.match(self.text, self.at)
        if found is None:
            raise self.fail()
        self.at = found.end()
        return parse_float8(found[1])

    def pair(self) -> Point:
        """pair_decode: reads x,y or (x,y)."""
        self.space()
        inside = self.take("(")
        x = self.number()
        self.expect(",")
        y = self.number()
        if inside:
            self.expect(")")
            self.space()
        return Point(x, y)

    def points(self, count: int, may_be_open: bool) -> tuple[tuple[Point, ...], bool]:
        """path_decode: reads `count` points. Returns them, and whether they were in brackets."""
        self.space()
        depth = 0
        is_open = self.peek() == "["
        if is_open:
            if not may_be_open:
                raise self.fail()
            depth, self.at = 1, self.at + 1
        elif self.peek() == "(":
            following = self.text[self.at + 1 :].lstrip(WHITESPACE)
            if following.startswith("("):
                depth, self.at = 1, len(self.text) - len(following)
            elif self.text.rfind("(") == self.at:
                depth, self.at = 1, self.at + 1
        found = []
        for _ in range(count):
            found.append(self.pair())
            self.take(",")
        while depth:
            if not (self.take(")") or (is_open and depth == 1 and self.take("]"))):
                raise self.fail()
            depth -= 1
            self.space()
        return tuple(found), is_open

    def end(self) -> None:
        if self.at != len(self.text):
            raise self.fail()

    def count(self) -> int:
        """Returns the number of points, from the number of commas. Raises 22P02 for an even number of commas."""
        commas = self.text.count(",")
        if commas % 2 == 0:
            raise self.fail()
        return (commas + 1) // 2


def _read_point(text: str) -> Point:
    reader = _Reader(text, "point")
    found = reader.pair()
    reader.end()
    return found


def _read_two(text: str, name: str, may_be_open: bool) -> tuple[Point, ...]:
    reader = _Reader(text, name)
    found, _ = reader.points(2, may_be_open)
    reader.end()
    return found


def _read_segment(text: str) -> Segment:
    return Segment(*_read_two(text, "lseg", True))


def _read_box(text: str) -> Box:
    high, low = _read_two(text, "box", False)
    return make_box(low, high)


def _read_path(text: str) -> Path:
    reader = _Reader(text, "path")
    count = reader.count()
    reader.space()
    around = reader.peek() == "(" and text.rfind("(") == reader.at
    if around:
        reader.at += 1
    points, is_open = reader.points(count, True)
    if around:
        reader.expect(")")
        reader.space()
    reader.end()
    return Path(points, not is_open)


def _read_polygon(text: str) -> Polygon:
    reader = _Reader(text, "polygon")
    points, _ = reader.points(reader.count(), False)
    reader.end()
    return Polygon(points)


def _read_line(text: str) -> Line:
    reader = _Reader(text, "line")
    reader.space()
    if not reader.take("{"):
        start, end = _read_two(text, "line", True)
        if same_point(start, end):
            raise SqlError("22P02", "invalid line specification: must be two distinct points")
        return line_through(start, slope(start, end))
    a = reader.number()
    reader.expect(",")
    b = reader.number()
    reader.expect(",")
    c = reader.number()
    reader.expect("}")
    reader.space()
    reader.end()
    return _checked_line(a, b, c, "22P02")


def _checked_line(a: float, b: float, c: float, sqlstate: str) -> Line:
    if abs(a) <= EPSILON and abs(b) <= EPSILON:
        raise SqlError(sqlstate, "invalid line specification: A and B cannot both be zero")
    return Line(a, b, c)


def _read_circle(text: str) -> Circle:
    reader = _Reader(text, "circle")
    reader.space()
    depth = 0
    angled = reader.take("<")
    if angled:
        depth = 1
    elif reader.peek() == "(":
        following = text[reader.at + 1 :].lstrip(WHITESPACE)
        if following.startswith("("):
            depth, reader.at = 1, len(text) - len(following)
    center = reader.pair()
    reader.take(",")
    radius = reader.number()
    if radius < 0:
        raise reader.fail()
    while depth:
        if not (reader.take(")") or (depth == 1 and reader.take(">"))):
            raise reader.fail()
        depth -= 1
        reader.space()
    reader.end()
    return Circle(center, radius)


# ---- shared by the input of lines and catalog/functions/geometry.py ------------------------------------------------


def equal(one: float, other: float) -> bool:
    """FPeq: equality with a tolerance of 1e-6."""
    return one == other or abs(one - other) <= EPSILON


def same_point(one: Point, other: Point) -> bool:
    """point_eq_point: NaN equals NaN."""
    if any(map(math.isnan, (*one, *other))):
        return all(a == b or (math.isnan(a) and math.isnan(b)) for a, b in zip(one, other, strict=True))
    return equal(one.x, other.x) and equal(one.y, other.y)


def slope(start: Point, end: Point) -> float:
    """point_sl: infinity for a vertical line. Raises 22003."""
    if equal(start.x, end.x):
        return float("inf")
    if equal(start.y, end.y):
        return 0.0
    return (start.y - end.y) / (start.x - end.x)


def line_through(point: Point, gradient: float) -> Line:
    """line_construct: the line through a point with a slope."""
    if abs(gradient) == float("inf"):
        return Line(-1.0, 0.0, point.x)
    if gradient == 0:
        return Line(0.0, -1.0, point.y)
    return Line(gradient, -1.0, point.y - gradient * point.x + 0.0)


# ---- the types -------------------------------------------------------------------------------------------------------

_Write = Callable[[Any, Callable[[float], str]], str]


def _pair(point: Point, number: Callable[[float], str]) -> str:
    return f"({number(point.x)},{number(point.y)})"


def _pairs(points: Sequence[Point], number: Callable[[float], str]) -> str:
    return ",".join([_pair(point, number) for point in points])


def _write_path(value: Path, number: Callable[[float], str]) -> str:
    inside = _pairs(value.points, number)
    return f"({inside})" if value.closed else f"[{inside}]"


class GeometricType(SqlType):
    """A geometric type, defined by two functions for text and two for bytes."""

    category = "G"
    preferred = False
    columns = Columns(order=Order.NONE, output_of_settings=True)

    def __init__(
        self,
        oid: int,
        array_oid: int,
        name: str,
        length: int,
        read: Callable[[str], object],
        write: _Write,
        pack: Callable[[Any], bytes],
        unpack: Callable[[bytes], object],
        delimiter: str = ",",
    ) -> None:
        self.oid = oid
        self.array_oid = array_oid
        self.name = self.sql_name = name
        self.length = length
        self.delimiter = delimiter
        self._read = read
        self._write = write
        self._pack = pack
        self._unpack = unpack
        self.storage = Storage(None, pack, lambda data: unpack(bytes(data)))  # type: ignore[call-overload]

    def input_function(self, settings: FormatSettings = DEFAULT_FORMAT, typmod: int = -1) -> Callable[[str], object]:
        return self._read

    def with_stored(self, value: object) -> object:
        return self._long(self._pack(value), value)

    def of_stored(self, stored: bytes) -> object:
        return self._long(stored, None)

    def _long(self, stored: bytes, value: Any) -> object:
        """Returns a path or a polygon of many points, with its stored form."""
        points = None if value is None else value.points
        parts: Any = Parts(stored, self.oid, lambda data: cast(Any, self._unpack(data)).points, points)
        made = StoredPath(parts, stored[:1] != b"\0") if self.oid == oids.PATH else StoredPolygon(parts)
        made.stored = stored
        return made

    def text_encoder(self, settings: FormatSettings = DEFAULT_FORMAT) -> Callable[[Any], bytes]:
        encode = FLOAT8.text_encoder(settings)
        write = self._write

        def number(value: float) -> str:
            return encode(value).decode()

        return lambda value: write(value, number).encode()

    def receive_function(self, typmod: int = -1) -> Callable[[bytes], object]:
        return self._unpack

    def binary_encoder(self) -> Callable[[Any], bytes]:
        return self._pack

    def duckdb_type(self, typmod: int = -1) -> str:
        return "VARCHAR"


def _floats(count: int, make: Callable[..., object]) -> Callable[[bytes], object]:
    layout = struct.Struct(f">{count}d")

    def unpack(data: bytes) -> object:
        if len(data) < layout.size:
            raise SqlError("08P01", "insufficient data left in message")
        if len(data) > layout.size:
            raise SqlError("22P03", "incorrect binary data format")
        return make(*layout.unpack(data))

    return unpack


def _pack_points(points: Sequence[Point]) -> bytes:
    return struct.pack(f">{2 * len(points)}d", *[value for point in points for value in point])


def _unpack_points(data: bytes, at: int, name: str) -> tuple[Point, ...]:
    if len(data) < at + 4:
        raise SqlError("08P01", "insufficient data left in message")
    (count,) = _INT4.unpack_from(data, at)
    if count <= 0:
        raise SqlError("22P03", f'invalid number of points in external "{name}" value')
    numbers = _floats(2 * count, lambda *values: values)(data[at + 4 :])
    assert isinstance(numbers, tuple)
    return tuple(Point(x, y) for x, y in zip(numbers[::2], numbers[1::2], strict=True))


def _pack_path(value: Path) -> bytes:
    if isinstance(value, StoredPath) and value.stored:
        return value.stored
    return bytes((value.closed,)) + _INT4.pack(len(value.points)) + _pack_points(value.points)


def _pack_polygon(value: Polygon) -> bytes:
    if isinstance(value, StoredPolygon) and value.stored:
        return value.stored
    return _INT4.pack(len(value.points)) + _pack_points(value.points)


def _unpack_path(data: bytes) -> object:
    return Path(_unpack_points(data, 1, "path"), data[:1] != b"\0")


def _unpack_circle(x: float, y: float, radius: float) -> Circle:
    if radius < 0:
        raise SqlError("22P03", 'invalid radius in external "circle" value')
    return Circle(Point(x, y), radius)


def _unpack_line(a: float, b: float, c: float) -> Line:
    return _checked_line(a, b, c, "22P03")


GEOMETRY: tuple[GeometricType, ...] = (
    GeometricType(
        oids.POINT, oids.POINT_ARRAY, "point", 16, _read_point, _pair,
        lambda value: struct.pack(">2d", *value), _floats(2, Point),
    ),
    GeometricType(
        oids.LSEG, oids.LSEG_ARRAY, "lseg", 32, _read_segment, lambda value, number: f"[{_pairs(value, number)}]",
        _pack_points, _floats(4, lambda a, b, c, d: Segment(Point(a, b), Point(c, d))),
    ),
    GeometricType(
        oids.PATH, oids.PATH_ARRAY, "path", -1, _read_path, _write_path, _pack_path, _unpack_path,
    ),
    GeometricType(
        oids.BOX, oids.BOX_ARRAY, "box", 32, _read_box, _pairs, _pack_points,
        _floats(4, lambda a, b, c, d: make_box(Point(c, d), Point(a, b))), ";",
    ),
    GeometricType(
        oids.POLYGON, oids.POLYGON_ARRAY, "polygon", -1, _read_polygon,
        lambda value, number: f"({_pairs(value.points, number)})",
        _pack_polygon,
        lambda data: Polygon(_unpack_points(data, 0, "polygon")),
    ),
    GeometricType(
        oids.LINE, oids.LINE_ARRAY, "line", 24, _read_line,
        lambda value, number: "{" + ",".join([number(part) for part in value]) + "}",
        lambda value: struct.pack(">3d", *value), _floats(3, _unpack_line),
    ),
    GeometricType(
        oids.CIRCLE, oids.CIRCLE_ARRAY, "circle", 24, _read_circle,
        lambda value, number: f"<{_pair(value.center, number)},{number(value.radius)}>",
        lambda value: struct.pack(">3d", *value.center, value.radius), _floats(3, _unpack_circle),
    ),
)  # fmt: skip
GEOMETRY_OIDS = frozenset(known.oid for known in GEOMETRY)
