"""Members of a quorum's URL: who may be replaced by whom, and what the URL is then."""

from __future__ import annotations

import pytest

from catalog.errors import SqlError
from replication.stores.members import parse_quorum
from replication.stores.open import open_store

A, B, C, D = (f"log://{name}:7301" for name in "abcd")
URL = f"quorum(3,3,2):{A},{B},{C}"


def test_what_is_no_quorum() -> None:
    assert parse_quorum("file:///x") is None
    assert parse_quorum("quorum(3,3):a,b,c") is None


async def test_a_url_is_read_and_written() -> None:
    for url in (URL, f"quorum(2,2,1):{A},{B},-{C}"):
        assert str(parse_quorum(url)) == url
        store = open_store(url)
        assert store.url == url
        await store.close()


def test_a_member_is_replaced_in_its_place() -> None:
    quorum = parse_quorum(URL)
    assert quorum is not None
    leaving = quorum.with_member_replaced(B, D)
    assert str(leaving) == f"quorum(3,3,2):{A},{D},{C},-{B}"
    assert str(leaving.without_leaving()) == f"quorum(3,3,2):{A},{D},{C}"


def test_a_member_is_drained() -> None:
    quorum = parse_quorum(f"{URL},{D}")
    assert quorum is not None
    assert str(quorum.with_member_leaving(A)) == f"quorum(3,3,2):{B},{C},{D},-{A}"


@pytest.mark.parametrize(
    ("url", "old", "new", "sqlstate", "text"),
    [
        (URL, D, "log://e:1", "22023", "is not a member of"),
        (URL, A, B, "22023", "is a member of"),
        (URL, A, "", "22023", "needs 3 members"),
        (f"{URL},-{D}", A, "log://e:1", "55000", f"{D} is still being emptied"),
        (f"{URL},-{D}", A, "", "55000", f"{D} is still being emptied"),
    ],
)
def test_what_cannot_be(url: str, old: str, new: str, sqlstate: str, text: str) -> None:
    quorum = parse_quorum(url)
    assert quorum is not None
    with pytest.raises(SqlError) as raised:
        quorum.with_member_replaced(old, new) if new else quorum.with_member_leaving(old)
    assert raised.value.sqlstate == sqlstate and text in raised.value.message
