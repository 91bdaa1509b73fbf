"""Arrays of many elements that a thread reads have what is stored of them, which is what any other would be."""

from __future__ import annotations

import pytest

from catalog import patience
from catalog.types import array, lookup, oids
from catalog.types.base import Array, StoredArray

TEXTS = {
    "INT4": "[3:5]={1,NULL,-7}",
    "NUMERIC": "{{1.50,NaN},{0,1e10}}",
    "TEXT": '{a,"b c",NULL}',
    "JSONB": '{"{\\"a\\": 1}"}',
}


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("binary", (False, True))
def test_what_is_stored_is_the_same(monkeypatch: pytest.MonkeyPatch, name: str, binary: bool) -> None:
    type_ = lookup(getattr(oids, f"{name}_ARRAY"))
    decode, encode = type_.text_decoder(), type_.binary_encoder()
    plain = decode(TEXTS[name])
    monkeypatch.setattr(array, "MANY", 1)
    assert decode(TEXTS[name]).__class__ is Array  # the thread that serves everybody does not wait for it
    monkeypatch.setattr(patience, "_watched", 1)
    read = type_.binary_decoder()(encode(plain)) if binary else decode(TEXTS[name])
    assert isinstance(read, StoredArray) and read == plain
    assert read.stored == encode(read) == encode(plain)
    changed = read._replace(elements=read.elements[:1], dimensions=(1,), lower_bounds=(1,))
    assert encode(changed) == encode(Array.of(read.elements[:1]))


def test_another_type_stores_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(array, "MANY", 1)
    monkeypatch.setattr(patience, "_watched", 1)
    read = lookup(oids.TEXT_ARRAY).text_decoder()("{a,b}")
    other = lookup(oids.VARCHAR_ARRAY).binary_encoder()
    assert other(read) == other(Array.of(("a", "b"))) != read.stored  # type: ignore[attr-defined]
