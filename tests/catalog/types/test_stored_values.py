"""Long values that threads read: they have what is stored of them with them, and are else what they always are."""

from __future__ import annotations

from copy import copy
from typing import Any

import pytest

from catalog import patience
from catalog.types import beside, long_values, lookup, oids
from catalog.types.array import ArrayType
from catalog.types.base import Array, Parts, StoredArray, is_stored

VALUES = {
    oids.INT4_ARRAY: "{{1,2},{3,NULL}}",
    oids.NUMERIC_ARRAY: "[0:1]={1.50,NULL}",
    oids.TEXT_ARRAY: '{"a b",c,""}',
    oids.JSONB_ARRAY: '{"{\\"a\\": 1}",1}',
    oids.INT4MULTIRANGE: "{[1,3),[5,6)}",
    oids.PATH: "[(1,2),(3,4)]",
    oids.POLYGON: "((1,2),(3,4),(5,6))",
    oids.VARBIT: "10101",
    oids.HSTORE: "b=>1, a=>NULL",
    oids.TSVECTOR: "b:1,2 a:3A",
    oids.TSQUERY: "a & !b",
}


@pytest.mark.parametrize("oid", VALUES)
@pytest.mark.parametrize("length", ("some", "long"))
@pytest.mark.parametrize("binary", (False, True))
def test_what_is_stored_is_the_same(monkeypatch: pytest.MonkeyPatch, oid: int, length: str, binary: bool) -> None:
    sql_type = lookup(oid)
    known: Any = sql_type.text_decoder()(VALUES[oid])
    sent = sql_type.binary_encoder()(known)
    store: Any = sql_type.storage.to_storage
    monkeypatch.setattr(patience, "beside_watched", lambda: True)
    monkeypatch.setattr(long_values, "SOME", 1)
    beside.use()
    if length == "long":
        monkeypatch.setattr(sql_type, "long", 0)
    decoder: Any = sql_type.binary_decoder() if binary else sql_type.text_decoder()
    found = decoder(sent if binary else VALUES[oid])
    assert found == known
    assert known == found
    assert store(found) == store(known)
    assert sql_type.binary_encoder()(found) == sent
    assert sql_type.text_encoder()(found) == sql_type.text_encoder()(known)
    assert is_stored(found) == (oid not in (oids.VARBIT, oids.HSTORE, oids.TSVECTOR, oids.TSQUERY))


def test_another_type_stores_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """varchar[] is text[] without a conversion, but what is stored names its elements' type."""
    monkeypatch.setattr(patience, "beside_watched", lambda: True)
    monkeypatch.setattr(long_values, "SOME", 1)
    beside.use()
    value = lookup(oids.VARCHAR_ARRAY).text_decoder()("{a,b}")
    assert isinstance(value, StoredArray)
    plain = lookup(oids.TEXT_ARRAY).storage.to_storage
    monkeypatch.undo()
    assert plain is not None
    assert plain(value) == plain(lookup(oids.TEXT_ARRAY).text_decoder()("{a,b}"))


def test_parts_compare_and_join_as_tuples() -> None:
    parts = Parts(b"", 0, lambda _: (1, 2))
    assert parts == (1, 2) == parts
    assert (1,) < parts < (1, 3)
    assert parts.__add__((3,)) == (1, 2, 3)
    assert parts.__radd__((0,)) == (0, 1, 2)
    assert hash(parts) == hash((1, 2))
    assert [*parts] == [1, 2]


@pytest.mark.parametrize("oid", (oids.INT4_ARRAY, oids.PATH, oids.POLYGON))
def test_what_is_made_of_one_is_stored_as_it_is(monkeypatch: pytest.MonkeyPatch, oid: int) -> None:
    monkeypatch.setattr(patience, "beside_watched", lambda: True)
    monkeypatch.setattr(long_values, "SOME", 1)
    beside.use()
    sql_type = lookup(oid)
    store: Any = sql_type.storage.to_storage
    known: Any = sql_type.text_decoder()(VALUES[oid])
    parts = "elements" if oid == oids.INT4_ARRAY else "points"
    changed = {parts: tuple(getattr(known, parts))[:1]}
    if oid == oids.INT4_ARRAY:
        changed |= {"dimensions": (1,), "lower_bounds": (1,)}
    made = known._replace(**changed)
    assert not is_stored(made)
    monkeypatch.undo()
    plain: Any = sql_type.text_decoder()(VALUES[oid])
    assert store(made) == store(plain._replace(**changed))


def test_arrays_of_users_types_that_are_made_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their stored form names no element type."""
    monkeypatch.setattr(patience, "beside_watched", lambda: True)
    monkeypatch.setattr(long_values, "SOME", 1)
    beside.use()
    element = copy(lookup(oids.INT4))
    element.oid = 0  # as usertypes._Stored
    of_users = ArrayType(0, "", lookup(oids.INT4))
    plain = ArrayType(0, "", element).storage
    of_users.storage, of_users.stored_as = plain, 0
    read: Any = of_users.text_decoder()("{1,2}")
    made = read._replace(elements=(7,), dimensions=(1,))
    assert plain.to_storage is not None
    assert plain.to_storage(made) == plain.to_storage(Array.of((7,)))
