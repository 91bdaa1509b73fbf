"""Arrays of many rows at once are the LISTs that they are one by one."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from catalog.types import array_of, lookup, oids
from catalog.types.base import Array
from engine.storage.arrays import lists_of
from engine.storage.columns import column_form

ELEMENTS: dict[int, list[Any]] = {
    oids.TEXT: ["", "a", "ž€𝄞", "x" * 300],
    oids.VARCHAR: ["v", ""],
    oids.BOOL: [True, False],
    oids.INT2: [-32768, 0, 32767],
    oids.INT4: [-(2**31), 5, 2**31 - 1],
    oids.INT8: [-(2**63), 0, 2**63 - 1],
    oids.FLOAT4: [1.5, float("inf")],
    oids.FLOAT8: [-0.1, 1e300],
    oids.DATE: [-10, 0, 9000, 2**31 - 1],
    oids.TIMESTAMP: [-1, 0, 10**15, 2**63 - 1],
    oids.TIMESTAMPTZ: [0, 7],
}


def _column(oid: int, arrays: list[Array | None]) -> pa.Array | None:
    encode = lookup(array_of(oid)).binary_encoder()
    stored = pa.array([b"" if value is None else encode(value) for value in arrays], pa.binary())
    valid = np.array([value is not None for value in arrays])
    made = lists_of(oid)
    assert made is not None
    return made(stored, None if valid.all() else valid)


@pytest.mark.parametrize("oid", ELEMENTS)
def test_they_are_what_they_are_one_by_one(oid: int) -> None:
    chance = random.Random(oid)
    choices = [*ELEMENTS[oid], None]
    arrays = [Array.of(tuple(chance.choices(choices, k=chance.choice((0, 1, 2, 9))))) for _ in range(200)]
    one_by_one = column_form(array_of(oid)).values_out
    assert one_by_one is not None
    for some in (arrays, [value if chance.random() < 0.8 else None for value in arrays], [arrays[0], None]):
        found = _column(oid, some)
        assert found is not None
        found.validate(full=True)
        assert found.equals(one_by_one(some))


def test_other_shapes_are_left_alone() -> None:
    square = Array((1, 2, 3, 4), (2, 2), (1, 1))
    shifted = Array((1,), (1,), (0,))
    assert _column(oids.INT4, [Array.of((1,)), square]) is None
    assert _column(oids.INT4, [Array.of((1,)), shifted]) is None
    assert lists_of(oids.NUMERIC) is None
