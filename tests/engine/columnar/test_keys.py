"""Encoded storage keys, decoded back into the columns by which the worker finds rows."""

from __future__ import annotations

import random
from collections.abc import Callable

import pyarrow as pa
import pytest

from catalog.types import oids
from engine.columnar.worker.keys import KeyPlan
from engine.columnar.worker.values import from_arrow
from engine.storage.keys import row_key_encoder, row_number_key
from tests.engine.columnar.conftest import make_table


def integers(bits: int, signed: bool = True) -> Callable[[random.Random], int]:
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    return lambda chance: chance.choice([low, high, low + 1, high - 1, 0, chance.randint(low, high)])


FIXED: dict[int, Callable[[random.Random], object]] = {
    oids.BOOL: lambda chance: chance.random() < 0.5,
    oids.INT2: integers(16),
    oids.INT4: integers(32),
    oids.INT8: integers(64),
    oids.OID: integers(32, signed=False),
    oids.UUID: lambda chance: chance.randbytes(16),
    oids.DATE: lambda chance: chance.choice([-(2**31), 2**31 - 1, 0, chance.randint(-700_000, 2_000_000)]),
    oids.TIMESTAMP: lambda chance: chance.choice([-(2**63), 2**63 - 1, 0, chance.randint(-(2**60), 2**60)]),
    oids.TIMESTAMPTZ: lambda chance: chance.choice([-(2**63), 2**63 - 1, 0, chance.randint(-(2**60), 2**60)]),
}


def test_keys_of_fixed_width_decode_to_their_columns() -> None:
    chance = random.Random(7)
    for _ in range(50):
        types = [(chance.choice(list(FIXED)), -1) for _ in range(chance.randint(1, 5))]
        table = make_table(20001, types, tuple(range(1, len(types) + 1)))
        encode = row_key_encoder(20001, [column.type for column in table.columns])
        rows = [tuple(FIXED[oid](chance) for oid, _ in types) for _ in range(10)]
        plan = KeyPlan(table)
        assert not plan.is_encoded
        decoded = plan.decode(pa.array([encode(row) for row in rows], pa.binary()).slice(3))
        columns = [from_arrow(column, oid) for column, (oid, _) in zip(decoded.columns, types, strict=True)]
        assert list(zip(*columns, strict=True)) == rows[3:]


def test_hidden_row_numbers_decode() -> None:
    plan = KeyPlan(make_table(20001, [(oids.TEXT, -1)], ()))
    numbers = [0, 1, 2**40, -5]
    decoded = plan.decode(pa.array([row_number_key(20001, number) for number in numbers], pa.binary()))
    assert decoded.to_pydict() == {"r": numbers}


@pytest.mark.parametrize("oid", [oids.TEXT, oids.NUMERIC, oids.FLOAT8, oids.BYTEA, oids.BPCHAR])
def test_other_keys_stay_encoded(oid: int) -> None:
    plan = KeyPlan(make_table(20001, [(oids.INT4, -1), (oid, -1)], (1, 2)))
    assert plan.is_encoded
    keys = [b"\0\0\x4e\x21" + rest for rest in (b"", b"a", b"\0" * 500)]
    for part in (pa.array(keys, pa.binary()), pa.array([b"xxxx", *keys], pa.binary()).slice(1)):
        assert plan.decode(part).to_pydict() == {"k": [b"", b"a", b"\0" * 500]}
    assert plan.decode(pa.array([], pa.binary())).num_rows == 0


def test_a_key_that_may_be_cut_stays_encoded() -> None:
    assert KeyPlan(make_table(20001, [(oids.UUID, -1)] * 32, tuple(range(1, 33)))).is_encoded
