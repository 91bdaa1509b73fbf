"""Who is logged in to the page, and who may log in.

A login is a role of the database with its password, checked against the SCRAM verifier that the catalog keeps. The SQL
port's host rules hold here too, for the address that the browser has: whom they refuse is refused, and a role without a
password is let in without one where they trust it.

    cookie      32 random bytes, HttpOnly, SameSite=Strict; its name has the port in it, because browsers keep cookies
                by host. Only a hash of it is kept here
    token       another 16 random bytes, which the page keeps and sends with every request (X-Shoal-Token): pages of
                others can neither read it nor set the header, and servers on other ports, which are sent the cookie
                too, never see it
    ends        IDLE seconds after the last request, LONGEST seconds after the log-in, when the role's password changes
                or is valid no more, and with the node

Guessing is slowed down: after FAILURES wrong passwords for a role within WINDOW seconds nobody may try that role until
the oldest of them has left the window, not even with the right one. At most CHECKS passwords are checked at a time, in
a thread: each costs thousands of hashes.
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
TAB_IDLE = 600.0  # seconds after which an editor's connection is closed, with the transaction that it has open
LOGINS = 100
TABS = 8  # connections of editors a login
FAILURES = 5
WINDOW = 60.0
CHECKS = 4
ROLES_WATCHED = 1000
SWEEP = 15.0  # seconds between two removals of ended logins

_WITHOUT_ACCESS = verifier("")  # in place of a verifier where there is no such role: a guess costs the same


class TooManyAttemptsError(Exception):
    """`wait`: seconds until the next one may be made."""

    def __init__(self, role: str, wait: float) -> None:
        super().__init__(f'too many wrong passwords for "{role}": try again in {wait:.0f} s')
        self.wait = wait


@dataclass(slots=True)
class Login:
    """A role that is logged in. `verifier` is its password's at the login; `views` runs the views' queries, `tabs` are
    the connections of editors by the names that the page has given them."""

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
        """The role's verifier, if the password is right; None for a role without one, which is let in if `trusted`.

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
        """Whether there is such a role with a password that is still valid, or with none; and its verifier."""
        catalog = node.shared_catalog
        found = catalog.get(catalog.roles.get(role, 0))
        if not isinstance(found, Role) or (
            found.password is not None and found.valid_until is not None and found.valid_until < node.clock()
        ):
            return False, None
        return True, found.password

    def begin(self, role: str, database: str, kept: str | None, views: StatementConnection) -> tuple[str, Login]:
        """The cookie's value and the login. Raises 53300 when there are too many."""
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
        """The login of a cookie, if it has not ended."""
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
        """Logs out."""
        login = self._logins.pop(_hash(cookie), None)
        if login is not None:
            login.close()

    @staticmethod
    def _is_over(login: Login, now: float) -> bool:
        return now - login.used > IDLE or now - login.begun > LONGEST

    def _end_expired(self) -> None:
        """Ends what is over, and looks again later while there is anything."""
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
