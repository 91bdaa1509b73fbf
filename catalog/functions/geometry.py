"""Points, segments, lines and boxes, as in PostgreSQL's geo_ops.c, with its tolerance of 1e-6 (manual, 9.11).

Shapes of more points are in shapes.py. `closest_...` return the nearest point and its distance.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from catalog.errors import SqlError
from catalog.functions.base import Function
from catalog.functions.floats import add, divide, overflow, subtract
from catalog.functions.floats import multiply as times
from catalog.functions.registry import declare, implement
from catalog.types import oids
from catalog.types.geometry import (
    EPSILON,
    Box,
    Line,
    Point,
    Segment,
    equal,
    line_through,
    make_box,
    same_point,
    slope,
)


def less(one: float, other: float) -> bool:
    """FPlt."""
    return one + EPSILON < other


def at_most(one: float, other: float) -> bool:
    """FPle."""
    return one <= other + EPSILON


def greater(one: float, other: float) -> bool:
    """FPgt."""
    return one > other + EPSILON


def at_least(one: float, other: float) -> bool:
    """FPge."""
    return one + EPSILON >= other


def zero(value: float) -> bool:
    return abs(value) <= EPSILON


def distance(one: Point, other: Point) -> float:
    """point_dt."""
    return hypotenuse(subtract(one.x, other.x), subtract(one.y, other.y))


def hypotenuse(x: float, y: float) -> float:
    """pg_hypot, with its rounding. Raises 22003."""
    if math.isinf(x) or math.isinf(y):
        return math.inf
    if math.isnan(x) or math.isnan(y):
        return math.nan
    shorter, longer = sorted((abs(x), abs(y)))
    if shorter == 0.0:
        return longer
    ratio = shorter / longer
    result = longer * math.sqrt(1.0 + ratio * ratio)
    if math.isinf(result):
        raise overflow()
    return result


# ---- subscripts ------------------------------------------------------------------------------------------------------

ITEMS: dict[int, int] = {}
"""Type OIDs, and the OIDs of Shoal's own functions that return a numbered part of a value, from 0: x and y, corners,
ends, coefficients."""
STORES: dict[int, int] = {}
"""Type OIDs, and the OIDs of Shoal's own functions that replace a part of a value: (value, number, part)."""


def _item(value: tuple[object, ...], number: int) -> object:
    return value[number] if 0 <= number < len(value) else None


def _store_part(value: Any, number: int | None, part: object) -> object:
    """array_set_element for types of fixed length: a NULL value stays NULL, and a NULL part changes nothing. Raises
    22004, 2202E."""
    if value is None or part is None:
        return value
    if number is None:
        raise SqlError("22004", "array subscript in assignment must not be null")
    if not 0 <= number < len(value):
        raise SqlError("2202E", "array subscript out of range")
    return value._make([*value[:number], part, *value[number + 1 :]])


for _place, (_type, _part) in enumerate(
    ((oids.POINT, oids.FLOAT8), (oids.LSEG, oids.POINT), (oids.BOX, oids.POINT), (oids.LINE, oids.FLOAT8))
):
    ITEMS[_type], STORES[_type] = 9960 + _place, 9970 + _place
    _read, _written = (_type, oids.INT4), (_type, oids.INT4, _part)
    declare(Function(ITEMS[_type], "shoal_item", "shoal_item", "f", True, False, "i", _read, _part, 0, 0), inner=True)
    declare(
        Function(STORES[_type], "shoal_store", "shoal_store", "f", False, False, "i", _written, _type, 0, 0), inner=True
    )
implement("shoal_item", _item)
implement("shoal_store", _store_part)


# ---- points ----------------------------------------------------------------------------------------------------------


def plus(one: Point, other: Point) -> Point:
    return Point(add(one.x, other.x), add(one.y, other.y))


def minus(one: Point, other: Point) -> Point:
    return Point(subtract(one.x, other.x), subtract(one.y, other.y))


def multiply_points(one: Point, other: Point) -> Point:
    """Multiplies points as complex numbers."""
    return Point(
        subtract(times(one.x, other.x), times(one.y, other.y)), add(times(one.x, other.y), times(one.y, other.x))
    )


def divide_points(one: Point, other: Point) -> Point:
    size = add(times(other.x, other.x), times(other.y, other.y))
    return Point(
        divide(add(times(one.x, other.x), times(one.y, other.y)), size),
        divide(subtract(times(one.y, other.x), times(one.x, other.y)), size),
    )


def middle(one: Point, other: Point) -> Point:
    return Point(divide(add(one.x, other.x), 2.0), divide(add(one.y, other.y), 2.0))


implement("construct_point", Point)
implement("point_left", lambda one, other: less(one.x, other.x))
implement("point_right", lambda one, other: greater(one.x, other.x))
implement("point_above", lambda one, other: greater(one.y, other.y))
implement("point_below", lambda one, other: less(one.y, other.y))
implement("point_vert", lambda one, other: equal(one.x, other.x))
implement("point_horiz", lambda one, other: equal(one.y, other.y))
implement("point_eq", same_point)
implement("point_ne", lambda one, other: not same_point(one, other))
implement("point_distance", distance)
implement("point_slope", slope)
implement("point_add", plus)
implement("point_sub", minus)
implement("point_mul", multiply_points)
implement("point_div", divide_points)
implement("point_box", lambda point: Box(point, point))


# ---- segments and lines ----------------------------------------------------------------------------------------------


def crossing(one: Line, other: Line) -> Point | None:
    """line_interpt_line: the intersection of two lines; None for parallel lines."""
    if zero(one.b):
        if zero(other.b):
            return None
        one, other = other, one
    if equal(other.a, times(one.a, divide(other.b, one.b))):
        return None
    x = divide(
        subtract(times(one.b, other.c), times(other.b, one.c)), subtract(times(one.a, other.b), times(other.a, one.b))
    )
    y = divide(-add(times(one.a, x), one.c), one.b)
    return Point(x + 0.0, y + 0.0)


def slope_of(segment: Segment) -> float:
    return slope(segment.start, segment.end)


def inverse_slope(segment: Segment) -> float:
    """point_invsl: the slope of a perpendicular."""
    start, end = segment
    if equal(start.x, end.x):
        return 0.0
    if equal(start.y, end.y):
        return math.inf
    return divide(subtract(start.x, end.x), subtract(end.y, start.y))


def line_of(segment: Segment) -> Line:
    return line_through(segment.start, slope_of(segment))


def length(segment: Segment) -> float:
    return distance(segment.start, segment.end)


def on_segment(segment: Segment, point: Point) -> bool:
    return equal(add(distance(point, segment.start), distance(point, segment.end)), length(segment))


def on_line(line: Line, point: Point) -> bool:
    return zero(add(add(times(line.a, point.x), times(line.b, point.y)), line.c))


def segment_crosses_line(segment: Segment, line: Line) -> Point | None:
    """lseg_interpt_line: the intersection of segment and line, or None. It is exactly an end of the segment if both are
    the same within the tolerance."""
    point = crossing(line_of(segment), line)
    if point is None or not on_segment(segment, point):
        return None
    return next((end for end in segment if same_point(end, point)), point)


def segments_cross(one: Segment, other: Segment) -> Point | None:
    """lseg_interpt_lseg: the intersection of two segments, or None."""
    point = segment_crosses_line(one, line_of(other))
    return point if point is not None and on_segment(other, point) else None


def closest_on_line(line: Line, point: Point) -> tuple[Point, float]:
    gradient = math.inf if zero(line.a) else 0.0 if zero(line.b) else divide(line.b, line.a)
    found = crossing(line_through(point, gradient), line)
    return (point, math.nan) if found is None else (found, distance(found, point))


def closest_to_line(segment: Segment, line: Line) -> tuple[Point, float]:
    """lseg_closept_line: the point of the segment that is nearest to the line."""
    found = segment_crosses_line(segment, line)
    if found is not None:
        return found, 0.0
    first, second = (closest_on_line(line, end)[1] for end in segment)
    return (segment.start, first) if first < second else (segment.end, second)


def closest_on_segment(segment: Segment, point: Point) -> tuple[Point, float]:
    found, _ = closest_to_line(segment, line_through(point, inverse_slope(segment)))
    return found, distance(found, point)


def closest_to_segment(on: Segment, to: Segment) -> tuple[Point, float]:
    """lseg_closept_lseg: the point of `on` that is nearest to `to`."""
    found = segments_cross(on, to)
    if found is not None:
        return found, 0.0
    best, least = closest_on_segment(on, to.start)
    point, far = closest_on_segment(on, to.end)
    if far < least:
        best, least = point, far
    for end in on:
        far = closest_on_segment(to, end)[1]
        if far < least:
            best, least = end, far
    return best, least


def _line_slope(line: Line) -> float:
    return 0.0 if zero(line.a) else math.inf if zero(line.b) else divide(line.a, -line.b)


def _point_or_null(found: tuple[Point, float]) -> Point | None:
    """Returns the point; None if its distance is NaN."""
    return None if math.isnan(found[1]) else found[0]


def _perpendicular(one: Line, other: Line) -> bool:
    if zero(one.a):
        return zero(other.b)
    if zero(other.a):
        return zero(one.b)
    if zero(one.b):
        return zero(other.a)
    if zero(other.b):
        return zero(one.a)
    return equal(divide(times(one.a, other.a), times(one.b, other.b)), -1.0)


def _same_line(one: Line, other: Line) -> bool:
    if any(map(math.isnan, (*one, *other))):
        return all(a == b or (math.isnan(a) and math.isnan(b)) for a, b in zip(one, other, strict=True))
    ratio = next((divide(a, b) for a, b in zip(one, other, strict=True) if not zero(b)), 1.0)
    return all(equal(a, times(ratio, b)) for a, b in zip(one, other, strict=True))


def _line_distance(one: Line, other: Line) -> float:
    if crossing(one, other) is not None:
        return 0.0
    pairs = ((one.a, other.a), (one.b, other.b))
    usable = (divide(a, b) for a, b in pairs if not (zero(a) or math.isnan(a) or zero(b) or math.isnan(b)))
    ratio = next(usable, 1.0)
    return divide(abs(subtract(one.c, times(ratio, other.c))), hypotenuse(one.a, one.b))


def _line_of_points(one: Point, other: Point) -> Line:
    if same_point(one, other):
        raise SqlError("22023", "invalid line specification: must be two distinct points")
    return line_through(one, slope(one, other))


def _nearest_on_line(line: Line, segment: Segment) -> Point | None:
    """close_ls, which returns the point of the segment."""
    return None if slope_of(segment) == _line_slope(line) else _point_or_null(closest_to_line(segment, line))


def _nearest_of_segments(one: Segment, other: Segment) -> Point | None:
    return None if slope_of(one) == slope_of(other) else _point_or_null(closest_to_segment(other, one))


implement("lseg_construct", Segment)
implement("lseg_length", length)
implement("lseg_parallel", lambda one, other: equal(slope_of(one), slope_of(other)))
implement("lseg_perp", lambda one, other: equal(slope_of(one), inverse_slope(other)))
implement("lseg_vertical", lambda item: equal(item.start.x, item.end.x))
implement("lseg_horizontal", lambda item: equal(item.start.y, item.end.y))
implement("lseg_eq", lambda one, other: same_point(one.start, other.start) and same_point(one.end, other.end))
implement("lseg_ne", lambda one, other: not (same_point(one.start, other.start) and same_point(one.end, other.end)))
implement("lseg_lt", lambda one, other: less(length(one), length(other)))
implement("lseg_le", lambda one, other: at_most(length(one), length(other)))
implement("lseg_gt", lambda one, other: greater(length(one), length(other)))
implement("lseg_ge", lambda one, other: at_least(length(one), length(other)))
implement("lseg_center", lambda item: middle(*item))
implement("lseg_distance", lambda one, other: closest_to_segment(one, other)[1])
implement("lseg_intersect", lambda one, other: segments_cross(one, other) is not None)
implement("lseg_interpt", segments_cross)
implement("line_construct_pp", _line_of_points)
implement("line_intersect", lambda one, other: crossing(one, other) is not None)
implement("line_interpt", crossing)
implement("line_parallel", lambda one, other: crossing(one, other) is None)
implement("line_perp", _perpendicular)
implement("line_vertical", lambda item: zero(item.b))
implement("line_horizontal", lambda item: zero(item.a))
implement("line_eq", _same_line)
implement("line_distance", _line_distance)
implement("inter_sl", lambda segment, line: segment_crosses_line(segment, line) is not None)
implement("on_pl", lambda point, line: on_line(line, point))
implement("on_ps", lambda point, segment: on_segment(segment, point))
implement("on_sl", lambda segment, line: all(on_line(line, end) for end in segment))
implement("dist_pl", lambda point, line: closest_on_line(line, point)[1])
implement("dist_lp", lambda line, point: closest_on_line(line, point)[1])
implement("dist_ps", lambda point, segment: closest_on_segment(segment, point)[1])
implement("dist_sp", lambda segment, point: closest_on_segment(segment, point)[1])
implement("dist_sl", lambda segment, line: closest_to_line(segment, line)[1])
implement("dist_ls", lambda line, segment: closest_to_line(segment, line)[1])
implement("close_pl", lambda point, line: _point_or_null(closest_on_line(line, point)))
implement("close_ps", lambda point, segment: _point_or_null(closest_on_segment(segment, point)))
implement("close_lseg", _nearest_of_segments)
implement("close_ls", _nearest_on_line)


# ---- boxes -----------------------------------------------------------------------------------------------------------


def overlap(one: Box, other: Box) -> bool:
    """box_ov."""
    return (
        at_most(one.low.x, other.high.x)
        and at_most(other.low.x, one.high.x)
        and at_most(one.low.y, other.high.y)
        and at_most(other.low.y, one.high.y)
    )


def contains(one: Box, other: Box) -> bool:
    """box_contain_box."""
    return (
        at_least(one.high.x, other.high.x)
        and at_most(one.low.x, other.low.x)
        and at_least(one.high.y, other.high.y)
        and at_most(one.low.y, other.low.y)
    )


def contains_point(box: Box, point: Point) -> bool:
    return box.high.x >= point.x >= box.low.x and box.high.y >= point.y >= box.low.y


def center(box: Box) -> Point:
    return middle(box.high, box.low)


def area(box: Box) -> float:
    return times(subtract(box.high.x, box.low.x), subtract(box.high.y, box.low.y))


def edges(box: Box) -> Iterator[Segment]:
    """Yields the edges of a box in the order of geo_ops.c."""
    upper_left, lower_right = Point(box.low.x, box.high.y), Point(box.high.x, box.low.y)
    yield Segment(box.low, upper_left)
    yield Segment(box.high, upper_left)
    yield Segment(box.low, lower_right)
    yield Segment(box.high, lower_right)


def _nearest(box: Box, closest: Callable[[Segment], tuple[Point, float]]) -> tuple[Point, float]:
    best, least = Point(0.0, 0.0), math.inf
    for number, edge in enumerate(edges(box)):
        point, far = closest(edge)
        if number == 0 or far < least:
            best, least = point, far
    return best, least


def closest_on_box(box: Box, point: Point) -> tuple[Point, float]:
    if contains_point(box, point):
        return point, 0.0
    return _nearest(box, lambda edge: closest_on_segment(edge, point))


def _meets_box(segment: Segment, box: Box) -> bool:
    """box_interpt_lseg."""
    if not overlap(make_box(*segment), box):
        return False
    if any(contains_point(box, end) for end in segment):
        return True
    return any(segments_cross(edge, segment) is not None for edge in edges(box))


def closest_to_box(box: Box, segment: Segment) -> tuple[Point, float]:
    """box_closept_lseg: the point of the box that is nearest to the segment; if they intersect, the point of the
    segment that is nearest to the box's center."""
    if _meets_box(segment, box):
        return closest_on_segment(segment, center(box))[0], 0.0
    return _nearest(box, lambda edge: closest_to_segment(edge, segment))


def _intersection(one: Box, other: Box) -> Box | None:
    if not overlap(one, other):
        return None
    return Box(
        Point(min(one.high.x, other.high.x), min(one.high.y, other.high.y)),
        Point(max(one.low.x, other.low.x), max(one.low.y, other.low.y)),
    )


def bounding_box(one: Box, other: Box) -> Box:
    """boxes_bound_box: the smallest box around both."""
    return Box(
        Point(max(one.high.x, other.high.x), max(one.high.y, other.high.y)),
        Point(min(one.low.x, other.low.x), min(one.low.y, other.low.y)),
    )


def _each(change: Callable[[Point, Point], Point]) -> Callable[[Box, Point], Box]:
    return lambda box, point: make_box(change(box.high, point), change(box.low, point))


implement("points_box", make_box)
implement("box_same", lambda one, other: same_point(one.high, other.high) and same_point(one.low, other.low))
implement("box_overlap", overlap)
implement("box_left", lambda one, other: less(one.high.x, other.low.x))
implement("box_overleft", lambda one, other: at_most(one.high.x, other.high.x))
implement("box_right", lambda one, other: greater(one.low.x, other.high.x))
implement("box_overright", lambda one, other: at_least(one.low.x, other.low.x))
implement("box_below", lambda one, other: less(one.high.y, other.low.y))
implement("box_overbelow", lambda one, other: at_most(one.high.y, other.high.y))
implement("box_above", lambda one, other: greater(one.low.y, other.high.y))
implement("box_overabove", lambda one, other: at_least(one.low.y, other.low.y))
implement("box_below_eq", lambda one, other: at_most(one.high.y, other.low.y))
implement("box_above_eq", lambda one, other: at_least(one.low.y, other.high.y))
implement("box_contain", contains)
implement("box_contained", lambda one, other: contains(other, one))
implement("box_contain_pt", contains_point)
implement("on_pb", lambda point, box: contains_point(box, point))
implement("on_sb", lambda segment, box: all(contains_point(box, end) for end in segment))
implement("box_lt", lambda one, other: less(area(one), area(other)))
implement("box_le", lambda one, other: at_most(area(one), area(other)))
implement("box_eq", lambda one, other: equal(area(one), area(other)))
implement("box_gt", lambda one, other: greater(area(one), area(other)))
implement("box_ge", lambda one, other: at_least(area(one), area(other)))
implement("box_area", area)
implement("box_width", lambda box: subtract(box.high.x, box.low.x))
implement("box_height", lambda box: subtract(box.high.y, box.low.y))
implement("box_center", center)
implement("box_diagonal", lambda box: Segment(box.high, box.low))
implement("box_distance", lambda one, other: distance(center(one), center(other)))
implement("box_intersect", _intersection)
implement("boxes_bound_box", bounding_box)
implement("box_add", lambda box, point: Box(plus(box.high, point), plus(box.low, point)))
implement("box_sub", lambda box, point: Box(minus(box.high, point), minus(box.low, point)))
implement("box_mul", _each(multiply_points))
implement("box_div", _each(divide_points))
implement("inter_sb", _meets_box)
implement("inter_lb", lambda line, box: any(segment_crosses_line(edge, line) is not None for edge in edges(box)))
implement("dist_pb", lambda point, box: closest_on_box(box, point)[1])
implement("dist_bp", lambda box, point: closest_on_box(box, point)[1])
implement("dist_sb", lambda segment, box: closest_to_box(box, segment)[1])
implement("dist_bs", lambda box, segment: closest_to_box(box, segment)[1])
implement("close_pb", lambda point, box: _point_or_null(closest_on_box(box, point)))
implement("close_sb", lambda segment, box: _point_or_null(closest_to_box(box, segment)))
