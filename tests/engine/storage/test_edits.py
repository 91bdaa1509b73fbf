"""Edits: what an entry's body says is what was committed."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catalog.errors import SqlError
from engine.storage.edits import PACK_FROM, Edits, RunReference

_KEYS = st.binary(min_size=4, max_size=40)
_RUNS = st.builds(RunReference, st.text(max_size=20), st.integers(0, 2**40), st.integers(0, 2**32 - 1))


@given(
    st.dictionaries(_KEYS, st.none() | st.binary(max_size=60), max_size=20),
    st.lists(_RUNS, max_size=3),
    st.lists(st.integers(0, 2**32 - 1), max_size=3),
)
@settings(max_examples=150, deadline=None)
def test_edits_round_trip_in_order(
    writes: dict[bytes, bytes | None], runs: list[RunReference], drops: list[int]
) -> None:
    edits = Edits(writes, runs, drops)
    decoded = Edits.decode(edits.encode())
    assert decoded == edits
    assert list(decoded.writes) == list(writes)


def test_large_bodies_are_packed() -> None:
    edits = Edits({number.to_bytes(8, "big"): b"value" * 20 for number in range(2000)})
    body = edits.encode()
    assert len(body) < PACK_FROM
    assert Edits.decode(body) == edits


def test_a_newer_body_is_refused() -> None:
    body = Edits({b"key1": b"v"}).encode()
    with pytest.raises(SqlError) as error:
        Edits.decode(bytes((99,)) + body[1:])
    assert error.value.sqlstate == "XX001"


def test_an_empty_value_is_no_deletion() -> None:
    edits = Edits({b"key1": b"", b"key2": None})
    assert Edits.decode(edits.encode()).writes == {b"key1": b"", b"key2": None}
