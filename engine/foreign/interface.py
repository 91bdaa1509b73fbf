"""Connections to other servers, as the engine uses them; wire/remote_client.py makes them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

Row = Sequence[bytes | None]


@dataclass(frozen=True, slots=True)
class Destination:
    """Where to connect. `host`: a name, an address, or the directory of a Unix socket. `parameters` are those of the
    start-up, with user and database. `needs_password`: the server must ask for the password."""

    host: str
    port: int
    password: str | None = field(repr=False)
    parameters: Mapping[str, str]
    tls: str = "prefer"  # sslmode
    certificates: str = ""  # the file of sslrootcert
    timeout: float = 10.0
    needs_password: bool = False


class CannotConnectError(Exception):
    """The other server cannot be reached, or has refused; the message is libpq's."""


class RemoteLostError(Exception):
    """The connection has ended while a statement ran, or before it."""


class Answer(Protocol):
    """What a statement has returned. `size`: the bytes of its rows."""

    tag: str
    size: int

    def rows(self) -> list[Row]:
        """The rows, as texts. Takes time: many are read in a thread."""


class Remote(Protocol):
    """One connection. Statements run one after the other."""

    lost: bool
    used_password: bool

    async def run(self, sql: str, parameters: Sequence[str | None] = ()) -> Answer:
        """Runs one statement. Raises the SqlError of the other server, and RemoteLostError."""

    async def cancel(self) -> object:
        """Asks the other server to cancel the running statement."""

    def close(self) -> None: ...


OpenRemote = Callable[[Destination], Awaitable[Remote]]
"""Connects. Raises CannotConnectError."""
