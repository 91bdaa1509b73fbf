"""int2, int4, int8: arithmetic, bits, and conversions among these types (PostgreSQL 16 manual, 9.3).

Python integers do not overflow, so every result is compared with its range. DuckDB's integer types have PostgreSQL's
widths and raise errors on overflow. Comments explain templates that are complicated because DuckDB differs.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence

from catalog.errors import SqlError
from catalog.functions.base import Trait
from catalog.functions.registry import implement

_NAMES = {2: "smallint", 4: "integer", 8: "bigint"}
LIMITS = {size: 1 << (8 * size - 1) for size in _NAMES}


def out_of_range(size: int) -> SqlError:
    return SqlError("22003", f"{_NAMES[size]} out of range")


def _int2(value: int) -> int:
    if -32768 <= value <= 32767:
        return value
    raise out_of_range(2)


def _int4(value: int) -> int:
    if -2147483648 <= value <= 2147483647:
        return value
    raise out_of_range(4)


def _int8(value: int) -> int:
    if -9223372036854775808 <= value <= 9223372036854775807:
        return value
    raise out_of_range(8)


CHECKS: dict[int, Callable[[int], int]] = {2: _int2, 4: _int4, 8: _int8}
NAMES: dict[str, object] = {"_int2": _int2, "_int4": _int4, "_int8": _int8}


def division_by_zero() -> SqlError:
    return SqlError("22012", "division by zero")


def quotient(left: int, right: int) -> int:
    """Divides and truncates towards zero, as C does. Raises 22012."""
    if right > 0:
        return left // right if left >= 0 else -(-left // right)
    if right == 0:
        raise division_by_zero()
    return -(left // -right) if left >= 0 else left // right


def remainder(left: int, right: int) -> int:
    """Returns the remainder, with the sign of the dividend. Raises 22012."""
    if right == 0:
        raise division_by_zero()
    if right < 0:
        right = -right
    return left % right if left >= 0 else -(-left % right)


REMAINDERS = frozenset(("int2mod", "int4mod", "int8mod"))
"""The functions that are `remainder`."""

# (name of the pair of types in prosrc, bytes of the result)
_PAIRS = (("int2", 2), ("int4", 4), ("int8", 8), ("int24", 4), ("int42", 4), ("int28", 8), ("int82", 8), ("int48", 8), ("int84", 8))  # fmt: skip  # noqa: E501

_COMPARISONS = (
    ("eq", "=", "==", operator.eq), ("ne", "<>", "!=", operator.ne), ("lt", "<", "<", operator.lt),
    ("le", "<=", "<=", operator.le), ("gt", ">", ">", operator.gt), ("ge", ">=", ">=", operator.ge),
)  # fmt: skip


def comparisons(names: str, traits: Sequence[Trait] = ()) -> None:
    """Registers the six comparisons of a type whose internal form Python and DuckDB compare as PostgreSQL does.

    `names` is a template for the suffix: 'int4{}', 'date_{}'.
    """
    for suffix, symbol, python_symbol, function in _COMPARISONS:
        template, inline = f"({{0}} {symbol} {{1}})", f"({{0}} {python_symbol} {{1}})"
        implement(names.format(suffix), function, template, inline=inline, compares=suffix, traits=traits)


def _with_range_check(function: Callable[[int, int], int], size: int) -> Callable[[int, int], int]:
    check = CHECKS[size]
    return lambda left, right: check(function(left, right))


def _arithmetic(pair: str, size: int) -> None:
    for suffix, symbol, function in (("pl", "+", operator.add), ("mi", "-", operator.sub), ("mul", "*", operator.mul)):
        implement(
            f"{pair}{suffix}",
            _with_range_check(function, size),
            f"({{0}} {symbol} {{1}})",
            inline=f"_int{size}({{0}} {symbol} {{1}})",
            names=NAMES,
        )
    implement(f"{pair}div", _with_range_check(quotient, size), "({0} // {1})")


_PREVIOUS_WIDTHS = {2: 32, 4: 32, 8: 64}  # C shifts a promoted int, and the processor takes the count modulo its width


def _wrap(value: int, size: int) -> int:
    """Returns the lowest `size` bytes of a value, as a signed integer."""
    limit = LIMITS[size]
    return (value + limit) % (2 * limit) - limit


def _shift_left(size: int) -> Callable[[int, int], int]:
    width = _PREVIOUS_WIDTHS[size]
    return lambda value, count: _wrap(value << (count % width), size)


def _shift_right(size: int) -> Callable[[int, int], int]:
    width = _PREVIOUS_WIDTHS[size]
    return lambda value, count: value >> (count % width)


def _gcd(size: int) -> Callable[[int, int], int]:
    check = CHECKS[size]
    return lambda left, right: check(math.gcd(left, right))


def _lcm(size: int) -> Callable[[int, int], int]:
    check = CHECKS[size]
    return lambda left, right: check(math.lcm(left, right))


_DUCKDB_TYPES = {2: "SMALLINT", 4: "INTEGER", 8: "BIGINT"}


def _one_type(size: int) -> None:
    name, check, duck = f"int{size}", CHECKS[size], _DUCKDB_TYPES[size]
    # Zero minus the value, because DuckDB's unary minus of a constant has a wider type. In DuckDB x % -1 overflows for
    # the smallest integer, x % 1 never does.
    implement(f"{name}um", lambda value: check(-value), f"(0::{duck} - {{0}})", traits=(Trait.NEVER_FAILS,))
    implement(f"{name}up", lambda value: value, "{0}", inline="{0}", traits=(Trait.NEVER_FAILS,))
    implement(f"{name}abs", lambda value: check(abs(value)), "abs({0})")
    implement(f"{name}mod", remainder, "({0} % CASE WHEN {1} = -1 THEN 1 ELSE {1} END)")
    implement(f"{name}and", operator.and_, "({0} & {1})", inline="({0} & {1})")
    implement(f"{name}or", operator.or_, "({0} | {1})", inline="({0} | {1})")
    implement(f"{name}xor", operator.xor, "xor({0}, {1})", inline="({0} ^ {1})")
    implement(f"{name}not", operator.invert, "(~{0})", inline="(~{0})")
    implement(f"{name}shl", _shift_left(size))
    implement(f"{name}shr", _shift_right(size))
    implement(f"{name}larger", max, "greatest({0}, {1})")
    implement(f"{name}smaller", min, "least({0}, {1})")
    if size > 2:
        implement(f"{name}gcd", _gcd(size))
        implement(f"{name}lcm", _lcm(size))
        implement(f"{name}inc", lambda value: check(value + 1), f"({{0}} + 1::{duck})")


def _conversions() -> None:
    for source, target, size in (("i2toi4", "INTEGER", 0), ("int28", "BIGINT", 0), ("int48", "BIGINT", 0),
                                 ("i4toi2", "SMALLINT", 2), ("int82", "SMALLINT", 2), ("int84", "INTEGER", 4)):  # fmt: skip  # noqa: E501
        if size:
            implement(source, CHECKS[size], f"CAST({{0}} AS {target})", inline=f"_int{size}({{0}})", names=NAMES)
        else:
            cast = f"CAST({{0}} AS {target})"
            implement(source, lambda value: value, cast, inline="{0}", traits=(Trait.NEVER_FAILS,))


for _pair, _size in _PAIRS:
    comparisons(f"{_pair}{{}}")
    _arithmetic(_pair, _size)
for _size in _NAMES:
    _one_type(_size)
_conversions()
