"""When logins end, and how guessing is slowed down: with a clock of the test's own."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from catalog.errors import SqlError
from catalog.schema import Role
from catalog.scram import matches, verifier
from engine.node.node import Node
from shoal.console.logins import FAILURES, IDLE, LOGINS, LONGEST, WINDOW, LoginAttempts, Logins, TooManyAttemptsError
from shoal.console.statements import StatementConnection


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


class FakeConnection:
    closed = False
    lost = False

    def close(self) -> None:
        self.closed = True


def _node(valid_until: int | None = None, **roles: str | None) -> Node:
    objects = {
        number: Role(number, name, password=kept, valid_until=valid_until)
        for number, (name, kept) in enumerate(roles.items(), 1)
    }
    catalog = SimpleNamespace(roles={role.name: role.oid for role in objects.values()}, get=objects.get)
    return cast(Node, SimpleNamespace(shared_catalog=catalog, clock=lambda: 1000))


def _connection() -> tuple[FakeConnection, StatementConnection]:
    made = FakeConnection()
    return made, cast(StatementConnection, made)


def test_a_verifier_matches_its_password_alone() -> None:
    kept = verifier("right")
    assert matches("right", kept)
    assert not matches("wrong", kept)
    assert not matches("", kept)
    assert not matches(kept, kept)
    assert not matches("right", "md5abc")


async def test_a_login_ends_when_it_is_idle() -> None:
    clock = Clock()
    logins, node = Logins(clock), _node(ann=None)
    made, connection = _connection()
    cookie, login = logins.begin("ann", "postgres", None, connection)
    clock.now += IDLE - 1
    assert logins.find(cookie, node) is login
    clock.now += IDLE - 1
    assert logins.find(cookie, node) is login
    clock.now += IDLE + 1
    assert logins.find(cookie, node) is None
    assert made.closed


async def test_a_login_ends_some_time_however_busy_it_is() -> None:
    clock = Clock()
    logins, node = Logins(clock), _node(ann=None)
    cookie, login = logins.begin("ann", "postgres", None, _connection()[1])
    while clock.now < 1000 + LONGEST:
        assert logins.find(cookie, node) is login
        clock.now += IDLE / 2
    clock.now += 1
    assert logins.find(cookie, node) is None


async def test_a_login_ends_with_its_role() -> None:
    logins = Logins(Clock())
    cookie, _ = logins.begin("ann", "postgres", None, _connection()[1])
    assert logins.find(cookie, _node(bob=None)) is None


async def test_logins_are_bounded() -> None:
    logins = Logins(Clock())
    for _ in range(LOGINS):
        logins.begin("ann", "postgres", None, _connection()[1])
    with pytest.raises(SqlError, match="logged in already") as caught:
        logins.begin("ann", "postgres", None, _connection()[1])
    assert caught.value.sqlstate == "53300"


async def test_a_role_without_a_password_takes_none() -> None:
    logins = Logins(Clock())
    assert await logins.password_of(_node(ann=None), "ann", "", trusted=True) is None
    with pytest.raises(SqlError, match="has no password"):
        await logins.password_of(_node(ann=None), "ann", "guess", trusted=True)


async def test_a_role_without_a_password_is_refused_where_rules_require_one() -> None:
    logins = Logins(Clock())
    for password in ("", "guess"):
        with pytest.raises(SqlError, match="password authentication failed"):
            await logins.password_of(_node(ann=None), "ann", password, trusted=False)
    kept = verifier("right")
    assert await logins.password_of(_node(bob=kept), "bob", "right", trusted=False) == kept


async def test_a_password_is_good_until_its_time_is_over() -> None:
    logins, kept = Logins(Clock()), verifier("right")
    assert await logins.password_of(_node(valid_until=1000, ann=kept), "ann", "right", trusted=True) == kept
    with pytest.raises(SqlError, match="password authentication failed"):
        await logins.password_of(_node(valid_until=999, ann=kept), "ann", "right", trusted=True)
    cookie, _ = logins.begin("ann", "postgres", kept, _connection()[1])
    assert logins.find(cookie, _node(valid_until=999, ann=kept)) is None


async def test_an_empty_password_does_not_stand_for_a_role_that_is_not_there() -> None:
    with pytest.raises(SqlError, match="password authentication failed"):
        await Logins(Clock()).password_of(_node(ann=None), "bob", "", trusted=True)


def test_attempts_are_allowed_again_when_the_oldest_has_left_the_window() -> None:
    clock = Clock()
    attempts = LoginAttempts(clock)
    for _ in range(FAILURES):
        attempts.check("ann")
        attempts.record_failure("ann")
        clock.now += 1
    with pytest.raises(TooManyAttemptsError) as caught:
        attempts.check("ann")
    assert caught.value.wait == pytest.approx(WINDOW - FAILURES)
    attempts.check("bob")
    clock.now += caught.value.wait
    attempts.check("ann")


def test_the_roles_that_are_watched_are_bounded() -> None:
    attempts: Any = LoginAttempts(Clock())
    for n in range(3000):
        attempts.record_failure(f"role {n}")
    assert len(attempts._failures) == 1000
