"""Wrong passwords are answered later and later, by the address that they come from."""

from __future__ import annotations

import pytest

from catalog.errors import SqlError
from wire import password_throttle
from wire.password_throttle import FIRST, FREE, MOST, PENDING, WINDOW, PasswordThrottle, network_of


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def guess(guesses: PasswordThrottle, address: str, count: int) -> list[float]:
    """The delays of so many wrong passwords, one after the other."""
    delays = []
    for _ in range(count):
        guesses.check(address)
        delays.append(guesses.record_failure(address))
        guesses.release(address)
    return delays


def test_delays_grow_to_a_bound_and_are_forgotten() -> None:
    clock = Clock()
    guesses = PasswordThrottle(clock)
    delays = guess(guesses, "10.0.0.1", 200)
    assert delays[:FREE] == [0.0] * FREE
    assert delays[FREE] == FIRST and delays[FREE + 1] == 2 * FIRST
    assert delays == sorted(delays) and delays[-1] == MOST
    assert guess(guesses, "10.0.0.2", 1) == [0.0]  # another address
    clock.now += WINDOW + 1
    assert guess(guesses, "10.0.0.1", 1) == [0.0]


def test_many_connections_guess_no_faster() -> None:
    """Whoever sends as many guesses as are looked at, at every moment, for an hour."""
    clock = Clock()
    guesses = PasswordThrottle(clock)
    looked_at, due = 0, []
    for _ in range(36_000):
        clock.now += 0.1
        while due and due[0] <= clock.now:
            due.pop(0)
            guesses.release("10.0.0.1")
        for _ in range(3):
            try:
                guesses.check("10.0.0.1")
            except SqlError as error:
                assert error.sqlstate == "53300"
                break
            looked_at += 1
            due.append(clock.now + guesses.record_failure("10.0.0.1"))
            due.sort()
    assert looked_at < 1.1 * 3600 * PENDING / MOST + 50


def test_an_unbounded_rate_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(password_throttle, "PENDING", 10**9)
    with pytest.raises(AssertionError):
        test_many_connections_guess_no_faster()


def test_no_more_than_so_many_addresses_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(password_throttle, "ADDRESSES", 50)
    guesses = PasswordThrottle(Clock())
    for number in range(1000):
        guess(guesses, f"10.0.{number // 250}.{number % 250}", 2)
        guess(guesses, "192.168.0.1", 1)
        assert len(guesses) <= 50
    assert guess(guesses, "192.168.0.1", 1) == [MOST]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("10.0.0.1", "10.0.0.2", False),
        ("::ffff:10.0.0.1", "10.0.0.1", True),
        ("2001:db8::1", "2001:db8::ffff:1", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("fe80::1%eth0", "fe80::2%eth1", True),
    ],
)
def test_which_addresses_are_one(one: str, other: str, same: bool) -> None:
    assert (network_of(one) == network_of(other)) is same
