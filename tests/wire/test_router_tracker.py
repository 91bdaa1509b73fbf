"""Reading along: the same whatever the pieces are, and never past a header that makes no sense."""

from __future__ import annotations

import random

import pytest

from catalog.errors import SqlError
from wire import client_core, messages
from wire.router import Tracker, route_of

STREAM = b"".join(
    [
        messages.PARSE_COMPLETE,
        messages.message(b"D", b"Z\0\0\0\x05" * 50),
        messages.command_complete("SELECT 1"),
        messages.READY["T"],
        messages.message(b"D", b""),
        messages.READY["I"],
        messages.message(b"N", b"notice"),
    ]
)


@pytest.mark.parametrize("seed", range(30))
def test_messages_are_counted_however_they_are_cut(seed: int) -> None:
    choice = random.Random(seed)
    tracker = Tracker(b"Z")
    position = 0
    while position < len(STREAM):
        size = choice.choice((1, 2, 4, 5, 6, 100))
        tracker.feed(STREAM[position : position + size])
        position += size
    assert (tracker.count, chr(tracker.last_kind), tracker.at_boundary) == (2, "N", True)


@pytest.mark.parametrize("cut", [1, 4, 5, 6, len(STREAM) - 1])
def test_a_cut_message_is_not_at_a_boundary(cut: int) -> None:
    tracker = Tracker(b"Z")
    tracker.feed(STREAM[:cut])
    assert tracker.at_boundary == (cut == 5)


@pytest.mark.parametrize("length", [b"\xff\xff\xff\xff", b"\0\0\0\x03", b"\x80\0\0\0"])
def test_a_length_that_leads_backwards_is_refused(length: bytes) -> None:
    with pytest.raises(SqlError, match="08P01"):
        Tracker(b"Q").feed(b"Q" + length + b"x" * 10)


def test_a_route_may_stand_in_the_options_or_alone() -> None:
    assert route_of({}) == "any"
    assert route_of({"options": "-c shoal.route=leader -c a.b=c"}) == "leader"
    assert route_of({"shoal.route": "replica"}) == "replica"


def test_what_clients_ask_is_counted() -> None:
    tracker = Tracker(b"QSF")
    tracker.feed(client_core.query(b"SELECT 1") + client_core.parse(b"", b"Q", ()) + client_core.SYNC)
    assert tracker.count == 2
