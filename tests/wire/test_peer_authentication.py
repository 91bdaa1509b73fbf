"""Introductions between nodes: good once, for one node, for a while, and for exactly what was signed."""

from __future__ import annotations

import pytest

from catalog.errors import SqlError
from wire.peer_authentication import NONCES, WINDOW, Peer, PeerVerifier, introduce

SECRET = b"a secret of the cluster"
CLIENT = {"user": "u", "database": "d", "TimeZone": "UTC"}


class Clock:
    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def verifier(clock: Clock) -> PeerVerifier:
    return PeerVerifier(SECRET, "b", clock)


def introduction(clock: Clock, secret: bytes = SECRET, target: str = "b") -> dict[str, str]:
    return introduce(CLIENT, secret, node="a", target=target, client="10.0.0.9:1234", clock=clock)


def test_an_introduction_carries_who_and_what(clock: Clock, verifier: PeerVerifier) -> None:
    assert verifier.check(introduction(clock)) == (Peer("a", "10.0.0.9:1234"), CLIENT)


def test_a_client_of_its_own_needs_none(verifier: PeerVerifier) -> None:
    assert verifier.check(CLIENT) == (None, CLIENT)


def refused(verifier: PeerVerifier, parameters: dict[str, str]) -> str:
    with pytest.raises(SqlError) as caught:
        verifier.check(parameters)
    assert (caught.value.sqlstate, caught.value.severity) == ("28000", "FATAL")
    return caught.value.message


def test_another_secret_is_refused(clock: Clock, verifier: PeerVerifier) -> None:
    assert "secret" in refused(verifier, introduction(clock, b"another secret of it"))


@pytest.mark.parametrize("name", ["user", "database", "TimeZone", "_shoal.node", "_shoal.client", "_shoal.issued"])
def test_what_was_changed_on_the_way_is_refused(clock: Clock, verifier: PeerVerifier, name: str) -> None:
    assert "secret" in refused(verifier, {**introduction(clock), name: "postgres"})


def test_a_setting_added_on_the_way_is_refused(clock: Clock, verifier: PeerVerifier) -> None:
    assert "secret" in refused(verifier, {**introduction(clock), "role": "postgres"})


@pytest.mark.parametrize("proof", [{}, {"_shoal.proof": ""}, {"_shoal.proof": "\u00e9"}])
def test_reserved_parameters_without_a_proof_are_refused(verifier: PeerVerifier, proof: dict[str, str]) -> None:
    assert "secret" in refused(verifier, {**CLIENT, "_shoal.node": "a", **proof})


def test_an_introduction_is_good_once(clock: Clock, verifier: PeerVerifier) -> None:
    seen = introduction(clock)
    verifier.check(seen)
    assert "before" in refused(verifier, seen)
    clock.now += WINDOW + 1
    assert "clocks" in refused(verifier, seen)


def test_an_introduction_to_another_node_is_refused(clock: Clock, verifier: PeerVerifier) -> None:
    assert 'this is node "b"' in refused(verifier, introduction(clock, target="c"))


def test_nonces_are_forgotten_when_they_are_of_no_more_use(clock: Clock, verifier: PeerVerifier) -> None:
    verifier.check(introduction(clock))
    clock.now += 2 * WINDOW + 1
    verifier.check(introduction(clock))
    assert len(verifier._nonces) == 1 < NONCES


def test_a_short_secret_is_refused() -> None:
    with pytest.raises(ValueError, match="16 bytes"):
        PeerVerifier(b"short", "a")
