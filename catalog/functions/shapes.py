"""Paths, polygons and circles (geo_ops.c; PostgreSQL 16 manual, 9.11)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise

from catalog.errors import SqlError
from catalog.functions.floats import add, divide, subtract
from catalog.functions.floats import multiply as times
from catalog.functions.geometry import (
    at_least,
    at_most,
    closest_on_segment,
    closest_to_segment,
    contains,
    distance,
    divide_points,
    greater,
    hypotenuse,
    less,
    middle,
    minus,
    multiply_points,
    on_segment,
    overlap,
    plus,
    segments_cross,
    zero,
)
from catalog.functions.registry import implement
from catalog.types.geometry import EPSILON, Box, Circle, Path, Point, Polygon, Segment, equal, make_box, same_point

_ON_EDGE = 1 << 31  # more crossings than any polygon has


def _sides(points: Sequence[Point], closed: bool) -> Iterator[Segment]:
    """Yields the segments between neighbouring points. For a closed shape, the first segment is from the last point to
    the first."""
    if closed:
        yield Segment(points[-1], points[0])
    for start, end in pairwise(points):
        yield Segment(start, end)


def bounding_box(points: Iterable[Point]) -> Box:
    xs, ys = zip(*points, strict=True)
    return Box(Point(max(xs), max(ys)), Point(min(xs), min(ys)))


def _crossings(x: float, y: float, before_x: float, before_y: float) -> int:
    """lseg_crossing: counts the crossings of the side from `before` to (x, y) with the positive x axis, each twice and
    with its direction as sign."""
    if zero(y):
        if zero(x):
            return _ON_EDGE
        right = greater(x, 0.0)
        if zero(before_y):
            same_side = greater(before_x, 0.0) if right else less(before_x, 0.0)
            return 0 if same_side else _ON_EDGE
        if not right:
            return 0
        return 1 if less(before_y, 0.0) else -1
    sign = 1 if greater(y, 0.0) else -1
    if zero(before_y):
        return 0 if less(before_x, 0.0) else sign
    if less(before_y, 0.0) if sign < 0 else greater(before_y, 0.0):
        return 0
    if at_least(x, 0.0) and greater(before_x, 0.0):
        return 2 * sign
    if less(x, 0.0) and at_most(before_x, 0.0):
        return 0
    side = subtract(times(subtract(x, before_x), y), times(subtract(y, before_y), x))
    if zero(side):
        return _ON_EDGE
    if less(side, 0.0) if sign < 0 else greater(side, 0.0):
        return 0
    return 2 * sign


def inside(point: Point, points: Sequence[Point]) -> int:
    """point_inside: 0 outside, 1 inside, 2 on the edge."""
    moved = [minus(item, point) for item in points]
    total = 0
    for before, item in pairwise([*moved, moved[0]]):
        crossed = _crossings(item.x, item.y, before.x, before.y)
        if crossed == _ON_EDGE:
            return 2
        total += crossed
    return 1 if total else 0


# ---- paths -----------------------------------------------------------------------------------------------------------


def _path_area(path: Path) -> float | None:
    if not path.closed:
        return None
    total = 0.0
    for start, end in pairwise([*path.points, path.points[0]]):
        total = subtract(add(total, times(start.x, end.y)), times(start.y, end.x))
    return divide(abs(total), 2.0)


def _path_length(path: Path) -> float:
    total = 0.0
    for side in _sides(path.points, path.closed):
        total = add(total, distance(*side))
    return total


def _paths_meet(one: Path, other: Path) -> bool:
    if not overlap(bounding_box(one.points), bounding_box(other.points)):
        return False
    return any(
        segments_cross(side, against) is not None
        for side in _sides(one.points, one.closed)
        for against in _sides(other.points, other.closed)
    )


def _least(distances: Iterable[float]) -> float | None:
    """Returns the least distance; None without distances. If the first is NaN the result is NaN; other NaNs are
    ignored."""
    found: float | None = None
    for item in distances:
        if found is None or item < found:
            found = item
    return found


def _path_distance(one: Path, other: Path) -> float | None:
    return _least(
        closest_to_segment(side, against)[1]
        for side in _sides(one.points, one.closed)
        for against in _sides(other.points, other.closed)
    )


def _distance_to_path(path: Path, point: Point) -> float:
    found = _least(closest_on_segment(side, point)[1] for side in _sides(path.points, path.closed))
    return 0.0 if found is None else found


def _on_path(point: Point, path: Path) -> bool:
    if path.closed:
        return inside(point, path.points) != 0
    return any(on_segment(side, point) for side in _sides(path.points, False))


def _join_paths(one: Path, other: Path) -> Path | None:
    return None if one.closed or other.closed else Path(one.points + other.points, False)


def _each_point(change: Callable[[Point, Point], Point]) -> Callable[[Path, Point], Path]:
    return lambda path, by: Path(tuple([change(point, by) for point in path.points]), path.closed)


def _as_polygon(path: Path) -> Polygon:
    if not path.closed:
        raise SqlError("22023", "open path cannot be converted to polygon")
    return Polygon(path.points)


implement("path_area", _path_area)
implement("path_length", _path_length)
implement("path_inter", _paths_meet)
implement("path_distance", _path_distance)
implement("path_isclosed", lambda path: path.closed)
implement("path_isopen", lambda path: not path.closed)
implement("path_npoints", lambda path: len(path.points))
implement("path_close", lambda path: Path(path.points, True))
implement("path_open", lambda path: Path(path.points, False))
implement("path_n_lt", lambda one, other: len(one.points) < len(other.points))
implement("path_n_gt", lambda one, other: len(one.points) > len(other.points))
implement("path_n_eq", lambda one, other: len(one.points) == len(other.points))
implement("path_n_le", lambda one, other: len(one.points) <= len(other.points))
implement("path_n_ge", lambda one, other: len(one.points) >= len(other.points))
implement("path_add", _join_paths)
implement("path_add_pt", _each_point(plus))
implement("path_sub_pt", _each_point(minus))
implement("path_mul_pt", _each_point(multiply_points))
implement("path_div_pt", _each_point(divide_points))
implement("path_poly", _as_polygon)
implement("poly_path", lambda polygon: Path(polygon.points, True))
implement("on_ppath", _on_path)
implement("dist_ppath", lambda point, path: _distance_to_path(path, point))
implement("dist_pathp", _distance_to_path)
implement("path_contain_pt", lambda path, point: _on_path(point, path))


# ---- polygons --------------------------------------------------------------------------------------------------------


def _same_polygon(one: Polygon, other: Polygon) -> bool:
    """plist_same: both polygons have the same points in the same order, beginning at any point, in either
    direction."""
    count = len(one.points)
    if len(other.points) != count:
        return False
    for start, point in enumerate(other.points):
        if same_point(one.points[0], point):
            for step in (1, -1):
                turned = [other.points[(start + step * number) % count] for number in range(count)]
                if all(same_point(mine, its) for mine, its in zip(one.points, turned, strict=True)):
                    return True
    return False


def _segment_inside(one: Point, other: Point, polygon: Polygon, start: int) -> bool:
    """lseg_inside_poly, for the sides from number `start` on."""
    points = polygon.points
    segment = Segment(one, other)
    crossed = False
    before = points[start - 1]
    for number in range(start, len(points)):
        side = Segment(before, points[number])
        before = points[number]
        fits = True
        if on_segment(side, one):
            if on_segment(side, other):
                return True
            fits = _touching_inside(one, other, side, polygon, number + 1)
        elif on_segment(side, other):
            fits = _touching_inside(other, one, side, polygon, number + 1)
        else:
            point = segments_cross(segment, side)
            if point is not None:
                crossed = True
                fits = _segment_inside(one, point, polygon, number + 1) and _segment_inside(
                    other, point, polygon, number + 1
                )
        if not fits:
            return False
    return crossed or inside(middle(one, other), points) != 0


def _touching_inside(on: Point, off: Point, side: Segment, polygon: Polygon, start: int) -> bool:
    """touched_lseg_inside_poly, for a segment from `on`, which is on the side, to `off`, which is not."""
    segment = Segment(on, off)
    if same_point(on, side.start):
        ends: tuple[Point, ...] = (side.end,)
    elif same_point(on, side.end):
        ends = (side.start,)
    else:
        ends = (side.start, side.end)
    for end in ends:
        if on_segment(segment, end):
            return _segment_inside(off, end, polygon, start)
    return True


def _contains(one: Polygon, other: Polygon) -> bool:
    if not contains(bounding_box(one.points), bounding_box(other.points)):
        return False
    return all(_segment_inside(*side, one, 0) for side in _sides(other.points, True))


def _overlap(one: Polygon, other: Polygon) -> bool:
    if not overlap(bounding_box(one.points), bounding_box(other.points)):
        return False
    crossed = any(
        segments_cross(side, against) is not None
        for side in _sides(one.points, True)
        for against in _sides(other.points, True)
    )
    return crossed or inside(one.points[0], other.points) != 0 or inside(other.points[0], one.points) != 0


def _polygon_distance(one: Polygon, other: Polygon) -> float | None:
    if _overlap(one, other):
        return 0.0
    return _least(
        closest_to_segment(side, against)[1]
        for side in _sides(one.points, True)
        for against in _sides(other.points, True)
    )


def _distance_to_polygon(point: Point, polygon: Polygon) -> float:
    if inside(point, polygon.points):
        return 0.0
    found = _least(closest_on_segment(side, point)[1] for side in _sides(polygon.points, True))
    assert found is not None
    return found


def _around_polygon(polygon: Polygon) -> Circle:
    """poly_to_circle: the center is the mean of the points, the radius their mean distance from it."""
    count = float(len(polygon.points))
    x = y = radius = 0.0
    for point in polygon.points:
        x, y = add(x, point.x), add(y, point.y)
    center = Point(divide(x, count), divide(y, count))
    for point in polygon.points:
        radius = add(radius, distance(point, center))
    return Circle(center, divide(radius, count))


def _of_boxes(test: Callable[[Box, Box], bool]) -> Callable[[Polygon, Polygon], bool]:
    return lambda one, other: test(bounding_box(one.points), bounding_box(other.points))


def _polygon_of_box(box: Box) -> Polygon:
    return Polygon((box.low, Point(box.low.x, box.high.y), box.high, Point(box.high.x, box.low.y)))


implement("poly_same", _same_polygon)
implement("poly_contain", _contains)
implement("poly_contained", lambda one, other: _contains(other, one))
implement("poly_contain_pt", lambda polygon, point: inside(point, polygon.points) != 0)
implement("pt_contained_poly", lambda point, polygon: inside(point, polygon.points) != 0)
implement("poly_overlap", _overlap)
implement("poly_distance", _polygon_distance)
implement("poly_left", _of_boxes(lambda one, other: one.high.x < other.low.x))
implement("poly_overleft", _of_boxes(lambda one, other: one.high.x <= other.high.x))
implement("poly_right", _of_boxes(lambda one, other: one.low.x > other.high.x))
implement("poly_overright", _of_boxes(lambda one, other: one.low.x >= other.low.x))
implement("poly_below", _of_boxes(lambda one, other: one.high.y < other.low.y))
implement("poly_overbelow", _of_boxes(lambda one, other: one.high.y <= other.high.y))
implement("poly_above", _of_boxes(lambda one, other: one.low.y > other.high.y))
implement("poly_overabove", _of_boxes(lambda one, other: one.low.y >= other.low.y))
implement("poly_npoints", lambda polygon: len(polygon.points))
implement("poly_center", lambda polygon: _around_polygon(polygon).center)
implement("poly_circle", _around_polygon)
implement("poly_box", lambda polygon: bounding_box(polygon.points))
implement("box_poly", _polygon_of_box)
implement("dist_ppoly", _distance_to_polygon)
implement("dist_polyp", lambda polygon, point: _distance_to_polygon(point, polygon))


# ---- circles ---------------------------------------------------------------------------------------------------------


def _area(circle: Circle) -> float:
    return times(times(circle.radius, circle.radius), math.pi)


def _same_circle(one: Circle, other: Circle) -> bool:
    both_nan = math.isnan(one.radius) and math.isnan(other.radius)
    return (both_nan or equal(one.radius, other.radius)) and same_point(one.center, other.center)


def _not_negative(value: float) -> float:
    return max(value, 0.0) if not math.isnan(value) else value


def _beyond(circle: Circle, point: Point) -> float:
    """Returns the distance of the point from the circle; 0 inside."""
    return _not_negative(subtract(distance(circle.center, point), circle.radius))


def _circle_distance(one: Circle, other: Circle) -> float:
    return _not_negative(subtract(distance(one.center, other.center), add(one.radius, other.radius)))


def _to_polygon_distance(circle: Circle, polygon: Polygon) -> float:
    return _not_negative(subtract(_distance_to_polygon(circle.center, polygon), circle.radius))


def _covers(circle: Circle, point: Point) -> bool:
    return distance(circle.center, point) <= circle.radius


def _circle_of_box(box: Box) -> Circle:
    center = middle(box.high, box.low)
    return Circle(center, distance(center, box.high))


def _box_of_circle(circle: Circle) -> Box:
    delta = divide(circle.radius, math.sqrt(2.0))
    by = Point(delta, delta)
    return make_box(plus(circle.center, by), minus(circle.center, by))


def _polygon_of_circle(count: int, circle: Circle) -> Polygon:
    if zero(circle.radius):
        raise SqlError("0A000", "cannot convert circle with radius zero to polygon")
    if count < 2:
        raise SqlError("22023", "must request at least 2 points")
    step = divide(2.0 * math.pi, float(count))
    points = []
    for number in range(count):
        angle = times(float(number), step)
        x = subtract(circle.center.x, times(circle.radius, math.cos(angle)))
        y = add(circle.center.y, times(circle.radius, math.sin(angle)))
        points.append(Point(x, y))
    return Polygon(tuple(points))


def _left_and_right() -> None:
    """Registers the operators for the relative position of circles along an axis."""
    for (before, not_after, after, not_before), axis in (
        (("left", "overleft", "right", "overright"), 0),
        (("below", "overbelow", "above", "overabove"), 1),
    ):

        def least(circle: Circle, axis: int = axis) -> float:
            return subtract(circle.center[axis], circle.radius)

        def most(circle: Circle, axis: int = axis) -> float:
            return add(circle.center[axis], circle.radius)

        implement(f"circle_{before}", lambda one, other, m=most, k=least: less(m(one), k(other)))
        implement(f"circle_{not_after}", lambda one, other, m=most: at_most(m(one), m(other)))
        implement(f"circle_{after}", lambda one, other, m=most, k=least: greater(k(one), m(other)))
        implement(f"circle_{not_before}", lambda one, other, k=least: at_least(k(one), k(other)))


_left_and_right()
implement("cr_circle", Circle)
implement("circle_same", _same_circle)
implement(
    "circle_overlap", lambda one, other: at_most(distance(one.center, other.center), add(one.radius, other.radius))
)
implement(
    "circle_contain",
    lambda one, other: at_most(distance(one.center, other.center), subtract(one.radius, other.radius)),
)
implement(
    "circle_contained",
    lambda one, other: at_most(distance(one.center, other.center), subtract(other.radius, one.radius)),
)
implement("circle_eq", lambda one, other: equal(_area(one), _area(other)))
implement("circle_ne", lambda one, other: abs(subtract(_area(one), _area(other))) > EPSILON)
implement("circle_lt", lambda one, other: less(_area(one), _area(other)))
implement("circle_gt", lambda one, other: greater(_area(one), _area(other)))
implement("circle_le", lambda one, other: at_most(_area(one), _area(other)))
implement("circle_ge", lambda one, other: at_least(_area(one), _area(other)))
implement("circle_add_pt", lambda circle, point: Circle(plus(circle.center, point), circle.radius))
implement("circle_sub_pt", lambda circle, point: Circle(minus(circle.center, point), circle.radius))
implement(
    "circle_mul_pt",
    lambda circle, point: Circle(multiply_points(circle.center, point), times(circle.radius, hypotenuse(*point))),
)
implement(
    "circle_div_pt",
    lambda circle, point: Circle(divide_points(circle.center, point), divide(circle.radius, hypotenuse(*point))),
)
implement("circle_area", _area)
implement("circle_diameter", lambda circle: times(circle.radius, 2.0))
implement("circle_radius", lambda circle: circle.radius)
implement("circle_center", lambda circle: circle.center)
implement("circle_distance", _circle_distance)
implement("circle_contain_pt", _covers)
implement("pt_contained_circle", lambda point, circle: _covers(circle, point))
implement("dist_pc", lambda point, circle: _beyond(circle, point))
implement("dist_cpoint", _beyond)
implement("dist_cpoly", _to_polygon_distance)
implement("dist_polyc", lambda polygon, circle: _to_polygon_distance(circle, polygon))
implement("box_circle", _circle_of_box)
implement("circle_box", _box_of_circle)
implement("circle_poly", _polygon_of_circle)
implement("polygon", lambda circle: _polygon_of_circle(12, circle))
