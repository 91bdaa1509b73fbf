"""The stored rows of an access path, without generated code: for plans that run once and find a few rows.

    a = 1 AND b IN (2, 3) AND c > 4      prefixes   .. 1 2   .. 1 3       one for each combination of the steps' keys
                                         ranges     (.. 1 2 4, ..) ...    a get if the whole key is known

It finds the same rows as the code of engine/execute/scan.py, in the same order. It refuses keys that are so long that
storage may have cut them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

from catalog.functions.patterns import beginning
from catalog.types import lookup
from catalog.types.base import Array
from catalog.types.integer import BITS
from engine.execute.access import Access, Condition
from engine.execute.closures import Closure, Row
from engine.execute.code import NotOnRowPath
from engine.execute.index_forms import KeyColumn
from engine.execute.scan import narrower
from engine.sql import tree
from engine.storage.interface import Reader
from engine.storage.keys import KEPT_KEY_BYTES, NOT_NULL, NULL, fit_key, storage_prefix, successor

Operands = Callable[[tree.Expr], Closure]
Encode = Callable[[Any], bytes]
Keys = Callable[[Row], Sequence[bytes]]  # limit of a column's key
End = Callable[[Row], tuple[bytes, bool] | None]  # of a range: bytes, and whether it is past all that begin with them


class Reads:
    """`operands` makes the functions of operands, whose argument is the statement's parameters. Raises NotOnRowPath."""

    def __init__(self, access: Access, operands: Operands) -> None:
        if access.cursor:
            raise NotOnRowPath("WHERE CURRENT OF")
        assert not access.provided
        index = access.index
        self.table = access.table
        self._single = access.single
        self._base = storage_prefix(access.table.storage_id if index is None else index.storage_id)
        self._rows = None if index is None else storage_prefix(access.table.storage_id)
        mark = b"" if index is None else NOT_NULL
        steps = zip(access.steps, access.columns, strict=False)
        self._steps = [_keys(step, column, operands, mark) for step, column in steps]
        if access.lower is None and access.upper is None:
            self._low, self._high = _at(b"", False), _at(b"", True)
        else:
            column = access.columns[len(access.steps)]
            self._low = _end(access.lower, column, operands, mark, True)
            self._high = _end(access.upper, column, operands, mark, False)

    def values(self, reader: Reader, given: Row, most: int) -> list[bytes] | None:
        """The stored rows; None if there are more than that many, or more look-ups, or keys are long. Raises the errors
        of the operands."""
        prefixes = [self._base]
        for step in self._steps:
            keys = step(given)
            if len(keys) * len(prefixes) > most:
                return None
            prefixes = [prefix + key for prefix in prefixes for key in keys]
        low, high = self._low(given), self._high(given)
        if low is None or high is None:
            return []
        get, values = reader.get, []
        for prefix in prefixes:
            if self._single:
                value = get(fit_key(prefix))
                if value is not None:
                    values.append(value)
                continue
            first, last = prefix + low[0], prefix + high[0]
            if len(first) > KEPT_KEY_BYTES or len(last) > KEPT_KEY_BYTES:
                return None
            found = reader.scan(successor(first) if low[1] else first, successor(last) if high[1] else last)
            values += [value for _, value in islice(found, most + 1 - len(values))]
            if len(values) > most:
                return None
        if self._rows is None:
            return values
        rows = self._rows
        return [value for entry in values if (value := get(rows + entry)) is not None]


def _keys(step: Condition, column: KeyColumn, operands: Operands, mark: bytes) -> Keys:
    """The distinct keys of a step's column, in order."""
    if step.kind == "null":
        return lambda given: (NULL,)
    assert step.operand is not None
    encode = _encoder(column)
    if step.kind == "in":
        return _members(step.operand, column, encode, operands, mark)
    value_of = operands(step.operand)
    bits = narrower(column.type, step.operand.type)
    low, high = -(1 << bits), 1 << bits

    def key(given: Row) -> Sequence[bytes]:
        value = value_of(given)
        return () if value is None or (bits and not low <= value < high) else (mark + encode(value),)

    return key


def _members(array: tree.Expr, column: KeyColumn, encode: Encode, operands: Operands, mark: bytes) -> Keys:
    """The keys of an IN list."""
    elements: list[Closure] = []
    known: Sequence[object] = ()
    bits = BITS.get(column.type.oid, 0)
    if isinstance(array, tree.ArrayExpr) and not array.nested:
        elements = [operands(element) for element in array.elements]
        bits = 0 if array.element_type == column.type else bits
    elif isinstance(array, tree.Const) and isinstance(array.value, Array):
        known = array.value.elements
    else:
        raise NotOnRowPath("ANY of an array")
    low, high = -(1 << bits), 1 << bits

    def keys(given: Row) -> Sequence[bytes]:
        values: list[Any] = [value for value in known if value is not None]
        values += [value for element in elements if (value := element(given)) is not None]
        if bits:
            values = [value for value in values if low <= value < high]
        return sorted({mark + encode(value) for value in values})

    return keys


def _end(bound: Condition | None, column: KeyColumn, operands: Operands, mark: bytes, start: bool) -> End:
    """An end of a range over a column; None if the range is empty. A bound beyond the column's type is either no bound
    or makes the range empty."""
    if bound is None or bound.operand is None:  # NULLs are past it in any case
        return _at(mark, not start)
    encode, value_of = _encoder(column), operands(bound.operand)
    if bound.kind == "like":

        def beginning_of(given: Row) -> tuple[bytes, bool] | None:
            pattern = value_of(given)
            return None if pattern is None else (mark + beginning(pattern).encode(), not start)

        return beginning_of
    bits = narrower(column.type, bound.operand.type)
    least, most = -(1 << bits), (1 << bits) - 1
    past = (bound.kind in (">=", "<=")) != start

    def end(given: Row) -> tuple[bytes, bool] | None:
        value = value_of(given)
        if value is None:
            return None
        if bits and not least <= value <= most:
            return (mark, not start) if (value < least) == start else None
        return mark + encode(value), past

    return end


def _at(key: bytes, past: bool) -> End:
    return lambda given: (key, past)


def _encoder(column: KeyColumn) -> Encode:
    encode = lookup(column.type.oid).key_encoder()
    assert encode is not None
    return encode
