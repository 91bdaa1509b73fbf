"""What the registry says of types agrees with pg_type and format_type."""

from __future__ import annotations

import psycopg
import pytest

from catalog.errors import SqlError
from catalog.types import array_of, by_oid, element_of, format_type, lookup, oids, pg_type_by_oid, pg_type_rows


def test_types_are_declared_as_postgresql_declares_them() -> None:
    for oid, sql_type in by_oid.items():
        row = pg_type_by_oid[oid]
        ours = (sql_type.name, sql_type.array_oid, sql_type.category, sql_type.preferred, sql_type.length)
        assert ours == (row.name, row.array, row.category, row.preferred, row.length)
        assert sql_type.sql_name == format_type(oid)


def test_format_type(postgres: psycopg.Connection) -> None:
    cases: list[tuple[int, int | None]] = [(row.oid, typmod) for row in pg_type_rows for typmod in (None, -1)]
    cases += [(0, None), (999999, None)]
    for name, typmods in {
        "varchar": [5, 14],
        "bpchar": [5, 14],
        "numeric": [(5 << 16 | 2) + 4, (3 << 16 | (-2 & 0x7FF)) + 4],
        "timestamp": [0, 3],
        "timestamptz": [6],
        "time": [2],
        "timetz": [1],
        "interval": [0x7FFF << 16 | 3, 4 << 16 | 0xFFFF, (1 << 12 | 1 << 28) & 0xFFFF0000 | 3],
        "bit": [3],
        "varbit": [8],
    }.items():
        for row in pg_type_rows:
            if row.name in (name, "_" + name):
                cases += [(row.oid, typmod) for typmod in typmods]
    rows = postgres.execute(
        "select format_type(o, t) from unnest(%s::oid[], %s::int[]) as c(o, t)",
        ([oid for oid, _ in cases], [typmod for _, typmod in cases]),
    ).fetchall()
    for (oid, typmod), (expected,) in zip(cases, rows, strict=True):
        assert format_type(oid, typmod) == expected, (oid, typmod)


def test_arrays_and_their_elements() -> None:
    assert array_of(oids.INT4) == oids.INT4_ARRAY
    assert element_of(oids.INT4_ARRAY) == oids.INT4
    assert element_of(oids.NAME) == 0
    assert element_of(oids.INT2VECTOR) == oids.INT2


def test_types_without_codec_are_refused_by_name() -> None:
    with pytest.raises(SqlError) as refused:
        lookup(oids.GTSVECTOR)
    assert (refused.value.sqlstate, refused.value.message) == ("0A000", "type gtsvector is not supported")
    with pytest.raises(SqlError) as unknown:
        lookup(999999)
    assert unknown.value.sqlstate == "42704"


def test_types_without_modifier_refuse_one() -> None:
    with pytest.raises(SqlError) as refused:
        lookup(oids.INT4).typmod_in(("3",))
    assert (refused.value.sqlstate, refused.value.message) == (
        "42601",
        'type modifier is not allowed for type "int4"',
    )
