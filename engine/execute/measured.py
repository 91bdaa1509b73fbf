"""Memory accounting in a plan's function (catalog/memory.py), where it can matter.

    large(call)                        around calls whose result may be large for any arguments
    memory.row(len(value))             for a stored row in a loop, if it is large
    memory.fleeting = 0                at the next row of a loop that may make large values
    if memory.seen: memory.keep(...)   after every row that is stored in a list

A plan without these, such as a look-up by key, does not use the memory account.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from catalog.functions.base import Function, Trait
from catalog.functions.registry import has_trait
from catalog.memory import LARGE, large, large_array
from catalog.types import element_of, oids
from catalog.types.base import TypeRef
from engine.execute.code import Code, LineUse
from engine.sql import tree

_TEXTS = oids.TEXTS | oids.JSON_TYPES | {oids.BYTEA, oids.XML, oids.BIT, oids.VARBIT}  # their values are str or bytes
_PADDED = frozenset((oids.BPCHAR, oids.BIT))  # char(n), bit(n)


def may_last(types: Iterable[TypeRef], result: TypeRef) -> bool:
    """Whether the types of a call do not bound its time."""
    return result.oid not in oids.FIXED_SIZE or not oids.FIXED_SIZE.issuperset([type_.oid for type_ in types])


def is_slow(function: Function) -> bool:
    """Whether short patterns and paths may take unbounded time, and hold the interpreter; False if nothing can
    interrupt them."""
    return has_trait(function.source, Trait.SLOW)


def measured_call(code: Code, call: str, function: Function, result: TypeRef) -> str:
    """The source of a call, counted if its result may be large."""
    if function.returns_set or has_trait(function.source, Trait.NEVER_LARGER):
        return call
    return _measure(code, call, result)


def measured_cast(code: Code, call: str, expression: tree.CoerceViaIO | tree.CoerceTypmod) -> str:
    """The source of a cast, counted if its value may be large, or its length is."""
    given, result = expression.argument.type.oid, expression.type
    if isinstance(expression, tree.CoerceViaIO):
        may_be_large = given in _TEXTS or element_of(given) != 0
    else:
        may_be_large = result.oid in _PADDED and result.typmod > LARGE
    return _measure(code, call, result) if may_be_large else call


def _measure(code: Code, call: str, result: TypeRef) -> str:
    if result.oid in _TEXTS:
        code.names["large"] = large
        code.large_calls += 1
        return f"large({call})"
    if element_of(result.oid):
        code.names["large_array"] = large_array
        code.large_calls += 1
        return f"large_array({call})"
    return call


def write_stored_row(code: Code, value: str, body: Callable[[], None]) -> None:
    """The code for each stored row of a loop."""
    loop = MeteredLoop(code)
    code.line(f"if len({value}) > {LARGE}: memory.row(len({value}))", LineUse.METER)
    body()
    loop.write_next_row()


def write_kept(code: Code, rows: str) -> None:
    """The code after a row was appended to a list."""
    write_kept_value(code, f"{rows}[-1]")


def write_kept_value(code: Code, value: str) -> None:
    """The code after a value was stored."""
    code.line(f"if memory.seen: memory.keep({value})", LineUse.KEPT)


class MeteredLoop:
    """The body of a loop, which begins at the present line."""

    def __init__(self, code: Code) -> None:
        self._code = code
        self._start = code.position, code.depth
        self._large_calls = code.large_calls

    def write_next_row(self) -> None:
        """After the body is written: if it may make large values, those of the previous row no longer count."""
        if self._code.large_calls > self._large_calls:
            self._code.insert_at(*self._start, "memory.fleeting = 0", LineUse.METER)
