"""Logins to the page, and their authentication.

A login is a role of the database with its password, which is checked against the SCRAM verifier in the catalog. The
host rules of the SQL port apply to the browser's address: they may refuse it, and with `trust` a role without a
password may log in without one.

  cookie      32 random bytes, HttpOnly, SameSite=Strict. Its name contains the port, because browsers keep cookies by
              host. The server keeps only a hash of it.
  token       16 other random bytes, which the page sends with every request (X-Shoal-Token). Pages of other origins can
              neither read it nor set the header. Servers on other ports receive the cookie, but not the token.
  end         IDLE seconds after the last request, LONGEST seconds after the login, when the role's password changes or
              expires, and when the node stops

Guessing is slowed down. After FAILURES wrong passwords for a role within WINDOW seconds, every attempt for that role is
refused, even with the right password, until the oldest failure is older than the window. At most CHECKS passwords are
checked at a time, in threads, because each check computes thousands of hashes.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field

from catalog.errors import SqlError
from catalog.schema import Role
from catalog.scram import matches, verifier
from engine.node.node import Node
from shoal.console.statements import StatementConnection

IDLE = 1800.0
LONGEST = 12 * 3600.0
TAB_IDLE = 600.0  # seconds after which an idle editor's connection is closed and its open transaction rolled back
LOGINS = 100
TABS = 8  # connections of editors for each login
FAILURES = 5
WINDOW = 60.0
CHECKS = 4
ROLES_WATCHED = 1000
SWEEP = 15.0  # seconds between two removals of ended logins

_WITHOUT_ACCESS = verifier("")  # used for a role that does not exist, so that a guess takes the same time


class TooManyAttemptsError(Exception):
    """`wait`: seconds until the next attempt is allowed."""

    def __init__(self, role: str, wait: float) -> None:
        super().__init__(f'too many wrong passwords for "{role}": try again in {wait:.0f} s')
        self.wait = wait


@dataclass(slots=True)
class Login:
    """A role that is logged in. `verifier` is the verifier of its password at the login. `views` runs the queries of
    views. `tabs` are the connections of editors, by the names that the page has given them."""

    role: str
    database: str
    verifier: str | None
    token: str
    begun: float
    used: float
    views: StatementConnection
    tabs: dict[str, StatementConnection] = field(default_factory=dict)
    ended: bool = False

    def close(self) -> None:
        self.ended = True
        for connection in (self.views, *self.tabs.values()):
            connection.close()
        self.tabs.clear()


class LoginAttempts:
    """Wrong passwords of the last WINDOW seconds, by role."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failures: OrderedDict[str, deque[float]] = OrderedDict()

    def check(self, role: str) -> None:
        """Raises TooManyAttemptsError."""
        failures = self._failures.get(role)
        if failures is None:
            return
        now = self._clock()
        while failures and failures[0] <= now - WINDOW:
            failures.popleft()
        if not failures:
            del self._failures[role]
        elif len(failures) >= FAILURES:
            raise TooManyAttemptsError(role, failures[0] + WINDOW - now)

    def record_failure(self, role: str) -> None:
        self._failures.setdefault(role, deque()).append(self._clock())
        self._failures.move_to_end(role)
        if len(self._failures) > ROLES_WATCHED:
            self._failures.popitem(last=False)


class Logins:
    """The logins of one node. On its event loop."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._logins: dict[bytes, Login] = {}
        self._attempts = LoginAttempts(clock)
        self._checks = asyncio.Semaphore(CHECKS)
        self._sweeping: asyncio.TimerHandle | None = None

    async def password_of(self, node: Node, role: str, password: str, *, trusted: bool) -> str | None:
        """Returns the role's verifier if the password is right. Returns None for a role without a password, which may
        log in if `trusted`.

        Raises 28P01 for a wrong password, and TooManyAttemptsError.
        """
        self._attempts.check(role)
        known, kept = self._find_verifier(node, role)
        if known and kept is None and trusted:
            if password:
                message = f'role "{role}" has no password: leave the field empty'
                raise SqlError("28P01", message, hint=f"Give it one: ALTER ROLE {role} PASSWORD '...'")
            return None
        async with self._checks:
            self._attempts.check(role)
            right = await asyncio.to_thread(matches, password, kept or _WITHOUT_ACCESS)
        if not (right and known and kept is not None):
            self._attempts.record_failure(role)
            raise SqlError("28P01", f'password authentication failed for user "{role}"')
        return kept

    def _find_verifier(self, node: Node, role: str) -> tuple[bool, str | None]:
        """Whether the role exists with a password that is still valid, or without one; and its verifier."""
        catalog = node.shared_catalog
        found = catalog.get(catalog.roles.get(role, 0))
        if not isinstance(found, Role) or (
            found.password is not None and found.valid_until is not None and found.valid_until < node.clock()
        ):
            return False, None
        return True, found.password

    def begin(self, role: str, database: str, kept: str | None, views: StatementConnection) -> tuple[str, Login]:
        """Starts a login, and returns the cookie's value and the login. Raises 53300 when there are too many."""
        self._end_expired()
        if len(self._logins) >= LOGINS:
            raise SqlError("53300", f"{LOGINS} users are logged in already: log out first")
        now = self._clock()
        login = Login(role, database, kept, secrets.token_urlsafe(16), now, now, views)
        cookie = secrets.token_urlsafe(32)
        self._logins[_hash(cookie)] = login
        if self._sweeping is None:
            self._end_expired()
        return cookie, login

    def find(self, cookie: str, node: Node) -> Login | None:
        """The login of a cookie, or None if it has ended."""
        key = _hash(cookie)
        login = self._logins.get(key)
        if login is None:
            return None
        now = self._clock()
        if self._is_over(login, now) or self._find_verifier(node, login.role) != (True, login.verifier):
            self.end(cookie)
            return None
        login.used = now
        return login

    def end(self, cookie: str) -> None:
        """Ends a login."""
        login = self._logins.pop(_hash(cookie), None)
        if login is not None:
            login.close()

    @staticmethod
    def _is_over(login: Login, now: float) -> bool:
        return now - login.used > IDLE or now - login.begun > LONGEST

    def _end_expired(self) -> None:
        """Ends expired logins, and repeats this while there are logins."""
        if self._sweeping is not None:
            self._sweeping.cancel()
        now = self._clock()
        for key, login in list(self._logins.items()):
            if self._is_over(login, now):
                del self._logins[key]
                login.close()
            for name, tab in list(login.tabs.items()):
                if tab.is_lost or (not tab.is_busy and time.monotonic() - tab.used > TAB_IDLE):
                    login.tabs.pop(name).close()
        self._sweeping = asyncio.get_running_loop().call_later(SWEEP, self._end_expired) if self._logins else None


def _hash(cookie: str) -> bytes:
    return hashlib.sha256(cookie.encode()).digest()
