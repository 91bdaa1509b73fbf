"""The connections of a session to foreign servers, with their transactions (connection.c of postgres_fdw).

There is one connection for each user mapping, which the session keeps. A remote transaction begins with the first use
within a local one, and ends with it: committed just before the local commit, rolled back in the background. Savepoints
are mirrored when the connection is used next, so those that nothing happens in cost nothing.

A statement that is cancelled asks the remote server to cancel too, and leaves the connection to a task that waits for
its answer; the next use of the connection waits for that task.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from catalog.catalog import Catalog
from catalog.errors import SqlError, not_supported
from catalog.schema import EVERYBODY, ForeignServer, Role, UserMapping
from engine.foreign.interface import Answer, CannotConnectError, Destination, OpenRemote, Remote, RemoteLostError
from engine.txn.interface import SERIALIZABLE
from engine.txn.transaction import Savepoint, Transaction

T = TypeVar("T")
_CANCEL_LIMIT = 30.0  # seconds until a connection is given up whose server does not answer a cancel request
_NOT_SENT = (  # options that are not settings of the start-up
    "host", "hostaddr", "port", "password", "connect_timeout", "sslmode", "sslrootcert", "password_required", "dbname",
    "user", "options", "application_name",
)  # fmt: skip
_REFUSED = ("service", "passfile", "sslcert", "sslkey", "sslpassword", "sslcrl", "sslcrldir", "requirepeer")
_SETTINGS = {
    "search_path": "pg_catalog", "TimeZone": "UTC", "DateStyle": "ISO", "IntervalStyle": "postgres",
    "extra_float_digits": "3", "client_encoding": "UTF8",
}  # fmt: skip


class _Node(Protocol):
    open_remote: OpenRemote | None


class _Session(Protocol):
    @property
    def present(self) -> _Node: ...
    @property
    def catalog(self) -> Catalog: ...
    @property
    def transaction(self) -> Transaction | None: ...
    @property
    def database_name(self) -> str: ...


@dataclass(eq=False, slots=True)
class Connection:
    """`server` and `mapping` as they were when it was opened; `savepoints`: those of the local transaction that the
    remote one has; `pending`: commands to send before its next statement; `rest`: what is left of the last use; `half`:
    what the remote transaction has done is unknown."""

    remote: Remote
    server: ForeignServer
    mapping: UserMapping
    keeps: bool
    in_transaction: bool = False
    savepoints: list[Savepoint] = field(default_factory=list)
    pending: list[str] = field(default_factory=list)
    rest: asyncio.Future[None] | None = None
    half: bool = False
    cursors: int = 0

    def forget_transaction(self) -> None:
        self.in_transaction = False
        self.savepoints.clear()
        self.pending.clear()
        self.cursors = 0

    @property
    def is_lost(self) -> bool:
        return self.half or self.remote.lost

    def is_current(self, catalog: Catalog) -> bool:
        """Whether the server and the user mapping are still those of the connection."""
        return (catalog.get(self.server.oid), catalog.get(self.mapping.oid)) == (self.server, self.mapping)

    async def settle(self) -> None:
        """Waits for what goes on in the background."""
        if self.rest is not None:
            rest, self.rest = self.rest, None
            await asyncio.shield(rest)

    def refuse_if_lost(self) -> None:
        """Raises 08006."""
        if self.is_lost:
            raise SqlError("08006", f'connection to server "{self.server.name}" was lost')

    async def run(self, sql: str, parameters: Sequence[str | None] = (), shown: str = "") -> Answer:
        """Runs a statement of the transaction; `shown`: what errors show in its place. Raises the remote error with
        PostgreSQL's context, 08006, 57014."""
        while self.pending:
            command = self.pending.pop(0)
            await self._run(command, (), command)
        return await self._run(sql, parameters, shown or sql)

    async def _run(self, sql: str, parameters: Sequence[str | None], shown: str) -> Answer:
        task = asyncio.ensure_future(self.remote.run(sql, parameters))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            self.rest = asyncio.ensure_future(self._cancel(task))
            raise
        except RemoteLostError:
            self.half = True
            message = (
                "server closed the connection unexpectedly\n\tThis probably means the server terminated abnormally\n"
                "\tbefore or while processing the request."
            )
            raise SqlError("08006", message, context=f"remote SQL command: {shown}") from None
        except SqlError as error:
            context = "\n".join(filter(None, (error.context, f"remote SQL command: {shown}")))
            raise SqlError(
                error.sqlstate, error.message, detail=error.detail, hint=error.hint, context=context
            ) from None

    async def _cancel(self, task: asyncio.Future[Answer]) -> None:
        await self.remote.cancel()
        done, _ = await asyncio.wait((task,), timeout=_CANCEL_LIMIT)
        if not done:
            task.cancel()
            self.give_up()
        elif isinstance(task.exception(), RemoteLostError):
            self.half = True

    def give_up(self) -> None:
        self.half = True
        self.remote.close()


class ForeignConnections:
    """The connections of one session."""

    def __init__(self, session: _Session) -> None:
        self._session = session
        self._all: dict[int, Connection] = {}  # by the OID of the user mapping

    @property
    def in_transaction(self) -> bool:
        return any(connection.in_transaction for connection in self._all.values())

    async def get(self, server: ForeignServer, role: int) -> Connection:
        """The connection to a server as the role, in the remote transaction. Raises 42704, 2F003, 08001, 08006."""
        mapping = self._mapping(server, role)
        connection = self._all.get(mapping.oid)
        if connection is not None:
            await connection.settle()
        if connection is not None and connection.in_transaction:
            connection.refuse_if_lost()
        elif connection is None or not self._is_valid(connection):
            connection = await self._open(server, mapping, role)
        if not connection.in_transaction:
            connection = await self._begin(connection, role)
        self._mirror(connection)
        return connection

    def _mapping(self, server: ForeignServer, role: int) -> UserMapping:
        known = self._session.catalog.user_mappings
        found = known.get((server.oid, role)) or known.get((server.oid, EVERYBODY))
        if found is None:
            user = self._session.catalog.get(role)
            name = user.name if isinstance(user, Role) else "public"
            raise SqlError("42704", f'user mapping not found for "{name}"')
        return found

    def _is_valid(self, connection: Connection) -> bool:
        valid = connection.is_current(self._session.catalog) and not connection.is_lost
        if not valid:
            self._drop(connection)
        return valid

    def _drop(self, connection: Connection) -> None:
        connection.remote.close()
        self._all.pop(connection.mapping.oid, None)

    async def _open(self, server: ForeignServer, mapping: UserMapping, role: int) -> Connection:
        opener = self._session.present.open_remote
        if opener is None:
            not_supported("a foreign table in an embedded database")
        options = dict(server.options) | dict(mapping.options)
        try:
            remote = await opener(self._destination(options, role))
        except CannotConnectError as error:
            raise SqlError("08001", f'could not connect to server "{server.name}"', detail=str(error)) from None
        if self._needs_password(options, role) and not remote.used_password:
            remote.close()
            raise SqlError(
                "2F003",
                "password is required",
                detail="Non-superuser cannot connect if the server does not request a password.",
                hint="Target server's authentication method must be changed or password_required=false set in the "
                "user mapping attributes.",
            )
        keeps = options.get("keep_connections", "true").lower() in ("true", "on", "1")
        connection = self._all[mapping.oid] = Connection(remote, server, mapping, keeps)
        return connection

    def _needs_password(self, options: dict[str, str], role: int) -> bool:
        user = self._session.catalog.get(role)
        if isinstance(user, Role) and user.superuser:
            return False
        return options.get("password_required", "true").lower() in ("true", "on", "1")

    def _destination(self, options: dict[str, str], role: int) -> Destination:
        """Raises 2F003, 0A000, 08001."""
        for name in _REFUSED:
            if options.get(name):
                not_supported(f"the option {name} of a foreign server")
        if self._needs_password(options, role) and not options.get("password"):
            detail = "Non-superusers must provide a password in the user mapping."
            raise SqlError("2F003", "password is required", detail=detail)
        user = self._session.catalog.get(role)
        name = options.get("user") or (user.name if isinstance(user, Role) else "")
        parameters = {"user": name, "database": options.get("dbname") or name, **_SETTINGS}
        parameters["application_name"] = options.get("application_name") or "postgres_fdw"
        if options.get("options"):
            parameters["options"] = options["options"]
        port, limit = options.get("port") or "5432", options.get("connect_timeout") or "0"
        if not port.isdigit() or not 0 < int(port) < 65536:
            raise CannotConnectError(f'invalid port number: "{port}"')
        seconds = float(limit) if limit.isdigit() and int(limit) else 60.0
        return Destination(
            options.get("hostaddr") or options.get("host") or "", int(port), options.get("password"), parameters,
            options.get("sslmode") or "prefer", options.get("sslrootcert") or "", seconds,
        )  # fmt: skip

    # ---- transactions -----------------------------------------------------------------------------------------------

    async def _begin(self, connection: Connection, role: int) -> Connection:
        transaction = self._session.transaction
        level = "REPEATABLE READ"
        if transaction is not None and transaction.isolation == SERIALIZABLE:
            level = "SERIALIZABLE"
        begin = f"START TRANSACTION ISOLATION LEVEL {level}"
        try:
            await connection.run(begin)
        except SqlError as error:
            if error.sqlstate != "08006" or not connection.half:
                raise
            self._drop(connection)  # it has ended while it was kept
            connection = await self._open(connection.server, connection.mapping, role)
            await connection.run(begin)
        connection.in_transaction = True
        return connection

    def _mirror(self, connection: Connection) -> None:
        """Brings the remote transaction's savepoints to those of the local one."""
        transaction = self._session.transaction
        local = transaction.savepoints if transaction is not None else []
        same = 0
        for ours, theirs in zip(local, connection.savepoints, strict=False):
            if ours is not theirs:
                break
            same += 1
        if same < len(connection.savepoints):
            connection.pending.append(f"RELEASE SAVEPOINT s{same + 2}")
            del connection.savepoints[same:]
        for savepoint in local[same:]:
            connection.savepoints.append(savepoint)
            connection.pending.append(f"SAVEPOINT s{len(connection.savepoints) + 1}")

    def roll_back_to(self, savepoint: Savepoint) -> None:
        """ROLLBACK TO, or an error after the savepoint."""
        for connection in self._all.values():
            for place, known in enumerate(connection.savepoints):
                if known is savepoint:
                    connection.pending.append(f"ROLLBACK TO SAVEPOINT s{place + 2}")
                    del connection.savepoints[place + 1 :]
                    break

    async def commit(self) -> None:
        """Commits the remote transactions. Raises the errors of doing so, after which the caller rolls back."""
        for connection in list(self._all.values()):
            if not connection.in_transaction:
                continue
            await connection.settle()
            connection.refuse_if_lost()
            answer = await connection.run("COMMIT TRANSACTION")
            if answer.tag != "COMMIT":
                raise SqlError("40000", f'the transaction on server "{connection.server.name}" was rolled back')
            connection.forget_transaction()
            if not connection.keeps:
                self._drop(connection)

    def abandon(self) -> None:
        """Rolls the remote transactions back, in the background."""
        for connection in list(self._all.values()):
            if connection.in_transaction:
                connection.forget_transaction()
                connection.rest = asyncio.ensure_future(self._roll_back(connection, connection.rest))

    async def _roll_back(self, connection: Connection, rest: Awaitable[None] | None) -> None:
        if rest is not None:
            await rest
        try:
            if not connection.is_lost:
                async with asyncio.timeout(_CANCEL_LIMIT):
                    await connection.remote.run("ABORT TRANSACTION")
        except (SqlError, RemoteLostError, TimeoutError):
            connection.give_up()
        if not connection.keeps or connection.half:
            self._drop(connection)

    # ---- the functions of the extension -----------------------------------------------------------------------------

    def describe_all(self) -> Iterable[tuple[str | None, bool]]:
        """The connections: the server's name, None if it was dropped, and whether its options are still the same."""
        for connection in list(self._all.values()):
            if not connection.in_transaction and not self._is_valid(connection):
                continue
            catalog = self._session.catalog
            server = catalog.get(connection.server.oid)
            yield (server.name if isinstance(server, ForeignServer) else None), connection.is_current(catalog)

    def disconnect(self, server: int | None) -> tuple[bool, list[str]]:
        """Closes the connections to a server, or all (None): whether any was closed, and the servers whose connections
        are in use."""
        closed, used = False, []
        for connection in list(self._all.values()):
            if server is not None and connection.server.oid != server:
                continue
            if connection.in_transaction:
                used.append(connection.server.name)
            else:
                self._drop(connection)
                closed = True
        return closed, used

    def close(self) -> None:
        """The session has ended."""
        for connection in list(self._all.values()):
            self._drop(connection)
