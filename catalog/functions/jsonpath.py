"""Evaluates SQL/JSON paths: jsonb_path_exists and others (jsonpath_exec.c; PostgreSQL 16 manual, 9.16.2).

A document is a Python value: None, bool, Decimal, str, list, dict (in jsonb's order); .datetime() makes a `Moment`.
Every item of a path is a generator of values, so that the evaluation reads only what the result needs, and raises an
error (`SqlError`) only when it reaches its place. Predicates convert errors to unknown (None); with `silent` an error
ends the evaluation. Errors that are never silenced are `Loud`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, NamedTuple, NoReturn

from catalog.errors import SqlError, not_supported
from catalog.functions import numeric
from catalog.functions.base import CallContext, Trait
from catalog.functions.jsonpath_regex import compiled_regex
from catalog.functions.numeric import ceiling, floor
from catalog.functions.registry import implement, mark
from catalog.types import oids
from catalog.types.float import format_float8, parse_float8
from catalog.types.json import quote_json
from catalog.types.json_text import Number, Pairs, decode_json
from catalog.types.jsonb_layout import offset_of
from catalog.types.jsonpath_moments import KINDS, Moment, compare_moments, read_moment, show_moment
from catalog.types.jsonpath_syntax import LAST_LEVEL, Item, JsonPath, parse_jsonpath
from catalog.types.numeric import format_numeric, parse_numeric


class Loud(Exception):  # noqa: N818 - passes an error through code that silences SqlError
    def __init__(self, error: SqlError) -> None:
        super().__init__(error.message)
        self.error = error


def _plain(node: object) -> object:
    """Converts a decoded document to the values of the evaluation."""
    if isinstance(node, Number):
        return parse_numeric(node)
    if isinstance(node, Pairs):
        return {key: _plain(value) for key, value in node}
    return [_plain(item) for item in node] if isinstance(node, list) else node


def _show(value: object) -> str:
    """Returns a value as jsonb's text."""
    if isinstance(value, Decimal):
        return format_numeric(value)
    if isinstance(value, str):
        return quote_json(value)
    if isinstance(value, Moment):
        return quote_json(show_moment(value))
    if isinstance(value, dict):
        return "{" + ", ".join([f"{quote_json(key)}: {_show(item)}" for key, item in value.items()]) + "}"
    if isinstance(value, list):
        return "[" + ", ".join([_show(item) for item in value]) + "]"
    return "null" if value is None else "true" if value else "false"


class Base(NamedTuple):
    """The document by which .keyvalue() numbers objects: its number, and its values."""

    number: int
    document: object


_METHOD_TYPES = {bool: "boolean", Decimal: "number", str: "string", list: "array", dict: "object", type(None): "null"}
_SYMBOLS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "mod": "%"}
_ARITHMETIC: dict[str, Callable[[Decimal, Decimal], Decimal]] = {
    "add": numeric.add, "sub": numeric.subtract, "mul": numeric.multiply, "div": numeric.divide, "mod": numeric.modulo,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Place:
    """The context of an item: @, the size of the array whose subscripts are evaluated, the base of .keyvalue(), and
    whether structural errors are raised (in strict mode, but not under .**)."""

    current: object
    size: int
    base: Base
    structural: bool


class _Walk:
    def __init__(self, path: JsonPath, document: object, variables: object, zone: str | None) -> None:
        self.path = path
        self.lax = path.lax
        self.document = document
        self.variables = variables
        self.zone = zone  # of the session; None for functions without time zones
        self.only_existence = False  # the result depends only on whether there are values
        self.objects = 1  # the next number of an object that .keyvalue() makes

    @property
    def start(self) -> _Place:
        return _Place(self.document, -1, Base(0, self.document), not self.lax)

    def values(self) -> Iterator[object]:
        return self.item(self.path.root, self.document, self.start, self.lax)

    # ---- items ----

    def item(self, item: Item, value: object, place: _Place, unwrap: bool) -> Iterator[object]:
        """executeItemOptUnwrapTarget: yields the values of the item and the following items for a value."""
        if item.kind in _PREDICATES:
            return self.following(item, self.truth(replace(item, next=None), value, place), place)
        return _ITEMS[item.kind](self, item, value, place, unwrap)

    def following(self, item: Item, value: object, place: _Place) -> Iterator[object]:
        """executeNextItem: yields the values of the items after this one."""
        if item.next is None:
            return iter((value,))
        return self.item(item.next, value, place, self.lax)

    def unwrap_array(self, item: Item, value: list[object], place: _Place, again: bool = False) -> Iterator[object]:
        """Applies the item to the elements of an array, for lax mode."""
        for element in value:
            yield from self.item(item, element, place, again)

    def all_of(self, item: Item, value: object, place: _Place) -> list[object]:
        """Returns every value of an item, also if the outer evaluation needs only existence."""
        before, self.only_existence = self.only_existence, False
        try:
            return list(self.item(item, value, place, self.lax))
        finally:
            self.only_existence = before

    def any_of(self, item: Item, value: object, place: _Place) -> bool:
        """Whether an item has a value. Lax mode stops at the first value."""
        if not self.lax:
            return bool(self.all_of(item, value, place))
        before, self.only_existence = self.only_existence, True
        try:
            return any(True for _ in self.item(item, value, place, self.lax))
        finally:
            self.only_existence = before

    def results(self, item: Item | None, value: object, place: _Place, unwrap: bool) -> list[object]:
        """executeItemOptUnwrapResult: returns all values; in lax mode, the elements of arrays."""
        assert item is not None
        found = self.all_of(item, value, place)
        if not (unwrap and self.lax):
            return found
        flat: list[object] = []
        for each in found:
            flat.extend(each) if isinstance(each, list) else flat.append(each)
        return flat

    def _root(self, item: Item, value: object, place: _Place, unwrap: bool) -> Iterator[object]:
        return self.following(item, self.document, replace(place, base=Base(0, self.document)))

    def _current(self, item: Item, value: object, place: _Place, unwrap: bool) -> Iterator[object]:
        return self.following(item, place.current, place)

    def _literal(self, item: Item, value: object, place: _Place, unwrap: bool) -> Iterator[object]:
        return self.following(item, item.value, place)

    def _variable(self, item: Item, value: object, place: _Place, unwrap: bool) -> Iterator[object]:
        assert isinstance(self.variables, dict)
        if item.value not in self.variables:
            raise Loud(SqlError("42704", f'could not find jsonpath variable "{item.value}"'))
        found = self.variables[item.value]
        return self.following(item, found, replace(place, base=Base(1, self.variables)))

    def _key(self, item: Item, value: object, place: _Place, unwrap: bool) -> Iterator[object]:
        if isinstance(value, dict):
            if item.value in value:
                return self.following(item, value[item.value], place)
            if place.structural:
                _fail("2203A", f'JSON object does not contain key "{item.value}"')
        elif unwrap and isinstance(value, list):
            return self.unwrap_array(item, value, place)
        elif place.structural:
            _fail("2203A", "jsonpath member accessor can only be applied to an object")
        return iter(())

    def _any_key(self, item: Item, value: object, place: _Place, unwrap: bool) -> Iterator[object]:
        if isinstance(value, dict):
            return self._onto(item, list(value.values()), place)
        if unwrap and isinstance(value, list):
            return self.unwrap_array(item, value, place)
        if place.structural:
            _fail("2203C", "jsonpath wildcard member accessor can only be applied to an object")
        return iter(())

    def _onto(self, item: Item, values: list[object], place: _Place) -> Iterator[object]:
        for each in values:
            yield from self.following(item, each, place)

    def _any_array(self, item: Item, value: object, place: _Place, unwrap: bool) -> Iterator[object]:
        if isinstance(value, list):
            return self._onto(item, value, place)
        if self.lax:
            return self.following(item, value, place)
        if place.structural:
            _fail("22039", "jsonpath wildcard array accessor can only be applied to an array")
        return iter(())

    def _array(self, item: Item, value: object, place: _Place, unwrap: bool) -> Iterator[object]:
        if not isinstance(value, list):
            if not self.lax:
                if place.structural:
                    _fail("22039", "jsonpath array accessor can only be applied to an array")
                return
            value = [value]
        size = len(value)
        inner = replace(place, size=size)
        assert isinstance(item.value, tuple)
        for first, last in item.value:
            low = self._subscript(first, value, inner)
            high = low if last is None else self._subscript(last, value, inner)
            if place.structural and (low < 0 or low > high or high >= size):
                _fail("22033", "jsonpath array subscript is out of bounds")
            for index in range(max(low, 0), min(high, size - 1) + 1):
                yield from self.following(item, value[index], place)

    def _subscript(self, item: Item, value: object, place: _Place) -> int:
        found = self.all_of(item, value, place)
        if len(found) != 1 or not isinstance(found[0], Decimal):
            _fail("22033", "jsonpath array subscript is not a single numeric value")
        whole = int(found[0]) if found[0].is_finite() else 1 << 40
        if not -(1 << 31) <= whole < 1 << 31:
            _fail("22033", "jsonpath array subscript is out of integer range")
        return whole

    def _last(self, item: Item, value: object, place: _Place, unwrap: bool) -> Iterator[object]:
        return self.following(item, Decimal(place.size - 1), place)

    def _any(self, item: Item, value: object, place: _Place, unwrap: bool) -> Iterator[object]:
        assert isinstance(item.value, tuple)
        first, last = item.value
        inside = replace(place, structural=False)
        if first == 0:
            yield from self.following(item, value, inside)
        yield from self._below(item, value, inside, 1, first, last)

    def _below(self, item: Item, value: object, place: _Place, level: int, first: int, last: int) -> Iterator[object]:
        """executeAnyItem: yields the values of the levels `first` to `last` below the value, whose children are at
        `level`; for **{last} only values without children."""
        if last != LAST_LEVEL and level > last:
            return
        if not isinstance(value, (list, dict)):
            return
        for each in value.values() if isinstance(value, dict) else value:
            nested = isinstance(each, (list, dict))
            wanted = level >= first if first != LAST_LEVEL else last == LAST_LEVEL and not nested
            if wanted:
                yield from self.following(item, each, place)
            if nested and (last == LAST_LEVEL or level < last):
                yield from self._below(item, each, place, level + 1, first, last)

    def _filter(self, item: Item, value: object, place: _Place, unwrap: bool) -> Iterator[object]:
        if unwrap and isinstance(value, list):
            return self.unwrap_array(item, value, place)
        if self.truth(item.left, value, replace(place, current=value)) is not True:
            return iter(())
        return self.following(item, value, place)

    # ---- arithmetic and methods ----

    def _binary(self, item: Item, value: object, place: _Place, unwrap: bool) -> Iterator[object]:
        operands = []
        for side, operand in (("left", item.left), ("right", item.right)):
            found = self.results(operand, value, place, True)
            if len(found) != 1 or not isinstance(found[0], Decimal):
                symbol = _SYMBOLS[item.kind]
                _fail("22038", f"{side} operand of jsonpath operator {symbol} is not a single numeric value")
            operands.append(found[0])
        return self.following(item, _ARITHMETIC[item.kind](operands[0], operands[1]), place)

    def _unary(self, item: Item, value: object, place: _Place, unwrap: bool) -> Iterator[object]:
        for each in self.results(item.left, value, place, True):
            if not isinstance(each, Decimal):
                if self.only_existence and item.next is None:
                    continue
                sign = "-" if item.kind == "minus" else "+"
                _fail("2203B", f"operand of unary jsonpath operator {sign} is not a numeric value")
            yield from self.following(item, -each if item.kind == "minus" else each, place)

    def _type(self, item: Item, value: object, place: _Place, unwrap: bool) -> Iterator[object]:
        name = KINDS[value.oid] if isinstance(value, Moment) else _METHOD_TYPES[type(value)]
        return self.following(item, name, place)

    def _size(self, item: Item, value: object, place: _Place, unwrap: bool) -> Iterator[object]:
        if not isinstance(value, list):
            if not self.lax:
                if place.structural:
                    _fail("22039", "jsonpath item method .size() can only be applied to an array")
                return iter(())
            return self.following(item, Decimal(1), place)
        return self.following(item, Decimal(len(value)), place)

    def _numeric_method(self, item: Item, value: object, place: _Place, unwrap: bool) -> Iterator[object]:
        if unwrap and isinstance(value, list):
            return self.unwrap_array(item, value, place)
        if not isinstance(value, Decimal):
            _fail("22036", f"jsonpath item method .{item.kind}() can only be applied to a numeric value")
        made = abs(value) if item.kind == "abs" else floor(value) if item.kind == "floor" else ceiling(value)
        return self.following(item, made, place)

    def _double(self, item: Item, value: object, place: _Place, unwrap: bool) -> Iterator[object]:
        if unwrap and isinstance(value, list):
            return self.unwrap_array(item, value, place)
        if isinstance(value, bool) or not isinstance(value, (Decimal, str)):
            _fail("22036", "jsonpath item method .double() can only be applied to a string or numeric value")
        what = "numeric" if isinstance(value, Decimal) else "string"
        message = f"{what} argument of jsonpath item method .double() is "
        message += (
            "out of range for type double precision"
            if what == "numeric"
            else "not a valid representation of a double precision number"
        )
        try:
            number = parse_float8(format_numeric(value) if isinstance(value, Decimal) else value)
        except SqlError:
            _fail("22036", message)
        if number - number != 0.0 and what == "string":
            _fail("22036", message)
        if number - number != 0.0:
            _fail("22036", "NaN or Infinity is not allowed for jsonpath item method .double()")
        return self.following(
            item, value if isinstance(value, Decimal) else parse_numeric(format_float8(number)), place
        )

    def _datetime(self, item: Item, value: object, place: _Place, unwrap: bool) -> Iterator[object]:
        if unwrap and isinstance(value, list):
            return self.unwrap_array(item, value, place)
        if not isinstance(value, str):
            _fail("22031", "jsonpath item method .datetime() can only be applied to a string")
        if item.value is not None:
            raise Loud(_refusal("jsonpath item method .datetime(template)"))
        moment = read_moment(value)
        if moment is None:
            raise SqlError(
                "22031",
                f'datetime format is not recognized: "{value}"',
                hint="Use a datetime template argument to specify the input data format.",
            )
        return self.following(item, moment, place)

    def _keyvalue(self, item: Item, value: object, place: _Place, unwrap: bool) -> Iterator[object]:
        if unwrap and isinstance(value, list):
            yield from self.unwrap_array(item, value, place)
            return
        if not isinstance(value, dict):
            _fail("2203C", "jsonpath item method .keyvalue() can only be applied to an object")
        number = Decimal(place.base.number * 10_000_000_000 + offset_of(place.base.document, value))
        for key, member in value.items():
            made = {"id": number, "key": key, "value": member}
            self.objects += 1
            yield from self.following(item, made, replace(place, base=Base(self.objects, made)))

    # ---- predicates ----

    def truth(self, item: Item | None, value: object, place: _Place) -> bool | None:
        """executeBoolItem: the result of a predicate; None is unknown."""
        assert item is not None
        if item.kind == "and":
            left = self.truth(item.left, value, place)
            if left is False:
                return False
            right = self.truth(item.right, value, place)
            return left if right is True else right
        if item.kind == "or":
            left = self.truth(item.left, value, place)
            if left is True:
                return True
            right = self.truth(item.right, value, place)
            return left if right is False else right
        if item.kind == "not":
            inner = self.truth(item.left, value, place)
            return None if inner is None else not inner
        if item.kind == "is_unknown":
            return self.truth(item.left, value, place) is None
        if item.kind == "exists":
            return self._exists(item, value, place)
        return self._compare_operands(item, value, place)

    def _exists(self, item: Item, value: object, place: _Place) -> bool | None:
        assert item.left is not None
        try:
            return self.any_of(item.left, value, place)
        except SqlError:
            return None

    def _compare_operands(self, item: Item, value: object, place: _Place) -> bool | None:
        """executePredicate. Lax mode stops at the first pair that fits; strict mode searches all pairs for errors."""
        unwrap_right = item.kind not in ("starts_with", "like_regex")
        try:
            left = self.results(item.left, value, place, True)
            right: list[object] = [None]
            if item.kind != "like_regex":
                right = self.results(item.right, value, place, unwrap_right)
        except SqlError:
            return None
        found = unknown = False
        for one in left:
            for other in right:
                answer = self._holds(item, one, other)
                if answer is None:
                    if not self.lax:
                        return None
                    unknown = True
                elif answer:
                    if self.lax:
                        return True
                    found = True
        return True if found else None if unknown else False

    def _holds(self, item: Item, left: object, right: object) -> bool | None:
        if item.kind == "starts_with":
            return left.startswith(right) if isinstance(left, str) and isinstance(right, str) else None
        if item.kind == "like_regex":
            assert isinstance(item.value, tuple)
            return compiled_regex(*item.value).test(left) if isinstance(left, str) else None
        order = self._order(left, right)
        if order is None:
            if left is None or right is None:
                return None if left is right else item.kind == "ne"
            return None
        return _DECISIONS[item.kind](order)

    def _order(self, left: object, right: object) -> int | None:
        """Returns -1, 0 or 1; None for values that cannot be compared."""
        if left is None and right is None:
            return 0
        if isinstance(left, Moment) and isinstance(right, Moment):
            return compare_moments(left, right, self.zone, _no_zone)
        if type(left) is not type(right) or isinstance(left, (list, dict)) or left is None:
            return None
        one: Any = left.encode() if isinstance(left, str) else left
        other: Any = right.encode() if isinstance(right, str) else right
        return int(one > other) - int(one < other)


def _no_zone(source: int, target: int) -> NoReturn:
    raise Loud(
        SqlError(
            "0A000",
            f"cannot convert value from {_short(source)} to {_short(target)} without time zone usage",
            hint="Use *_tz() function for time zone support.",
        )
    )


def _short(oid: int) -> str:
    return {oids.DATE: "date", oids.TIME: "time", oids.TIMETZ: "timetz", oids.TIMESTAMP: "timestamp"}.get(
        oid, "timestamptz"
    )


def _fail(sqlstate: str, message: str) -> NoReturn:
    raise SqlError(sqlstate, message)


def _refusal(feature: str) -> SqlError:
    try:
        not_supported(feature)
    except SqlError as error:
        return error


_PREDICATES = frozenset(
    ("and", "or", "not", "is_unknown", "eq", "ne", "lt", "gt", "le", "ge", "exists", "starts_with", "like_regex")
)
_DECISIONS: dict[str, Callable[[int], bool]] = {
    "eq": lambda order: order == 0,
    "ne": lambda order: order != 0,
    "lt": lambda order: order < 0,
    "gt": lambda order: order > 0,
    "le": lambda order: order <= 0,
    "ge": lambda order: order >= 0,
}
_ITEMS: dict[str, Callable[[_Walk, Item, object, _Place, bool], Iterator[object]]] = {
    "root": _Walk._root,
    "current": _Walk._current,
    "key": _Walk._key,
    "any_key": _Walk._any_key,
    "any_array": _Walk._any_array,
    "array": _Walk._array,
    "last": _Walk._last,
    "any": _Walk._any,
    "filter": _Walk._filter,
    "variable": _Walk._variable,
    **dict.fromkeys(("null", "bool", "numeric", "string"), _Walk._literal),
    **dict.fromkeys(("add", "sub", "mul", "div", "mod"), _Walk._binary),
    **dict.fromkeys(("plus", "minus"), _Walk._unary),
    "type": _Walk._type,
    "size": _Walk._size,
    **dict.fromkeys(("abs", "floor", "ceiling"), _Walk._numeric_method),
    "double": _Walk._double,
    "datetime": _Walk._datetime,
    "keyvalue": _Walk._keyvalue,
}


# ---- functions ------------------------------------------------------------------------------------------------------


def _walk(target: str, path: str, variables: str, zone: str | None) -> _Walk:
    known = _plain(decode_json(variables))
    if not isinstance(known, dict):
        raise SqlError(
            "22023",
            '"vars" argument is not an object',
            detail='Jsonpath parameters should be encoded as key-value pairs of "vars" object.',
        )
    return _Walk(parse_jsonpath(path), _plain(decode_json(target)), known, zone)


def _collect(walk: _Walk, silent: bool) -> list[object]:
    """Returns all values; with `silent`, the values before the first error."""
    found: list[object] = []
    try:
        for value in walk.values():
            found.append(value)
    except SqlError:
        if not silent:
            raise
    except Loud as loud:
        raise loud.error from None
    return found


def exists(target: str, path: str, variables: str = "{}", silent: bool = False, zone: str | None = None) -> bool | None:
    """jsonb_path_exists: whether the path has a value; with `silent`, NULL for an error. A lax path is evaluated up to
    the first value."""
    walk = _walk(target, path, variables, zone)
    try:
        return walk.any_of(walk.path.root, walk.document, walk.start)
    except SqlError:
        if not silent:
            raise
        return None
    except Loud as loud:
        raise loud.error from None


def match(target: str, path: str, variables: str = "{}", silent: bool = False, zone: str | None = None) -> bool | None:
    """jsonb_path_match: the truth value of the path; NULL for unknown. Raises 22038 for other values."""
    found = _collect(_walk(target, path, variables, zone), silent)
    if len(found) == 1 and (found[0] is None or isinstance(found[0], bool)):
        return found[0]
    if not silent:
        raise SqlError("22038", "single boolean result is expected")
    return None


def query(target: str, path: str, variables: str = "{}", silent: bool = False, zone: str | None = None) -> list[str]:
    return [_show(value) for value in _collect(_walk(target, path, variables, zone), silent)]


def query_array(target: str, path: str, variables: str = "{}", silent: bool = False, zone: str | None = None) -> str:
    return _show(_collect(_walk(target, path, variables, zone), silent))


def query_first(
    target: str, path: str, variables: str = "{}", silent: bool = False, zone: str | None = None
) -> str | None:
    found = _collect(_walk(target, path, variables, zone), silent)
    return _show(found[0]) if found else None


def _with_zone(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda call, *arguments: function(*arguments, zone=_zone_of(call))


def _zone_of(call: CallContext) -> str:
    return call.timezone


for _name, _function in (
    ("exists", exists), ("match", match), ("query", query), ("query_array", query_array), ("query_first", query_first),
):  # fmt: skip
    implement(f"jsonb_path_{_name}", _function)
    implement(f"jsonb_path_{_name}_tz", _with_zone(_function), needs_context=True)
implement("jsonb_path_exists_opr", lambda target, path: exists(target, path, silent=True))
implement("jsonb_path_match_opr", lambda target, path: match(target, path, silent=True))
for _name in ("exists", "match", "query_array", "query_first"):
    mark(Trait.SLOW, f"jsonb_path_{_name}", f"jsonb_path_{_name}_tz")
mark(Trait.SLOW, "jsonb_path_exists_opr", "jsonb_path_match_opr")
