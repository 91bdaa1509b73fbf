"""Functions that the commands share: access to a cluster without changing it, SQL to a node, tables of text."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import time
from collections.abc import AsyncIterator, Coroutine, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, LiteralString

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from catalog.errors import SqlError
from replication.interface import ChangelogStore, Coordination, CoordinationUnavailableError, StoreUnavailableError
from replication.observer import ObservedTablespace, Observer
from replication.stores import open_store
from replication.zookeeper.cluster import open_coordination
from shoal.config import ConfigError

EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
PATIENCE = 10.0  # seconds for ZooKeeper and stores to answer
Connection = psycopg.AsyncConnection[tuple[Any, ...]]


@dataclass(slots=True)
class ClusterAccess:
    """An open cluster. `url` has no credentials."""

    url: str
    coordination: Coordination
    observer: Observer

    def tablespace(self, name: str) -> ObservedTablespace:
        """Raises ConfigError, which lists the existing names."""
        found = self.observer.tablespace_by_name(name)
        if found is None:
            names = ", ".join(sorted(item.name for item in self.observer.tablespaces.values())) or "none"
            raise ConfigError(f'there is no tablespace "{name}" in {self.url}; there are: {names}')
        return found

    def address(self, node: str) -> tuple[str, int]:
        """The address where a node listens. Raises ConfigError if the node is not registered."""
        found = self.observer.nodes.get(node)
        if found is None:
            raise ConfigError(f"node {node} is not there")
        return found.host, found.port

    def leader(self, tablespace: ObservedTablespace) -> tuple[str, int]:
        """The address where the leader listens. Raises ConfigError."""
        if not tablespace.epoch.leader:
            raise ConfigError(f'tablespace "{tablespace.name}" has no leader at the moment; retry in a few seconds')
        return self.address(tablespace.epoch.leader)


def run_command(work: Coroutine[Any, Any, int]) -> int:
    """Runs a command. Converts the errors that stop it to ConfigError or SqlError."""
    logging.getLogger("shoal").setLevel(logging.ERROR)  # the command itself reports errors
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)
    try:
        return asyncio.run(work)
    except (CoordinationUnavailableError, StoreUnavailableError) as error:
        raise ConfigError(str(error)) from error


@contextlib.asynccontextmanager
async def open_cluster(url: str) -> AsyncIterator[ClusterAccess]:
    """Opens the cluster at an address. Raises SqlError, ConfigError."""
    coordination = await open_coordination(url, timeout=PATIENCE, create=False)
    try:

        async def share_session() -> Coordination:
            return coordination

        observer = Observer(share_session, shared_session=True)
        await observer.start()
        try:
            if observer.stale:
                raise ConfigError(f"{coordination.address.url} does not answer")
            yield ClusterAccess(coordination.address.url, coordination, observer)
        finally:
            await observer.close()
    finally:
        await coordination.close()


class OpenStores:
    """The changelog stores of a tablespace, each opened once."""

    def __init__(self, default: str) -> None:
        """`default`: the tablespace's present store."""
        self._default = default
        self._open: dict[str, ChangelogStore] = {}

    def __call__(self, url: str) -> ChangelogStore:
        """A replication.log.settings.StoreOf. Raises SqlError for an invalid URL."""
        wanted = url or self._default
        if wanted not in self._open:
            self._open[wanted] = open_store(wanted, timeout=PATIENCE)
        return self._open[wanted]

    async def close(self) -> None:
        for store in self._open.values():
            await store.close()


# ---- SQL ------------------------------------------------------------------------------------------------------------


LOCAL = "host=127.0.0.1 port=5432"


def conninfo(user: str, dsn: str = LOCAL, **given: str | int) -> str:
    """A connection string of libpq, completed from the environment: PGPASSWORD, ~/.pgpass, PGSSLMODE, ... Where `dsn`
    has no user it is `user`, and where it has no database it is postgres. `given` overrides `dsn`. Raises
    ConfigError."""
    try:
        named: dict[str, Any] = {"user": user, "dbname": "postgres", **conninfo_to_dict(dsn), **given}
        return make_conninfo(**named)
    except psycopg.Error as error:
        raise ConfigError(one_line(str(error))) from error


@contextlib.asynccontextmanager
async def open_session(where: str) -> AsyncIterator[Connection]:
    """A session of a node through libpq, with its handling of passwords, TLS and several hosts. `where`: of `conninfo`.
    Raises ConfigError if it cannot connect. While it is open it raises SqlError for the node's errors, and ConfigError
    when the connection is lost."""
    try:
        connection = await Connection.connect(where, autocommit=True, fallback_application_name="shoal")
    except psycopg.Error as error:
        raise server_error(error) from error
    try:
        yield connection
    except psycopg.Error as error:
        raise server_error(error) from error
    finally:
        await connection.close()


async def query_node(where: str, sql: LiteralString | bytes, *, timeout: float) -> list[tuple[Any, ...]]:
    """The rows of a query in a new session. Raises SqlError, ConfigError, also after `timeout` seconds."""
    try:
        async with asyncio.timeout(timeout), open_session(where) as connection:
            return await (await connection.execute(sql)).fetchall()
    except TimeoutError:
        node = conninfo_to_dict(where)
        raise ConfigError(f"{node.get('host')}:{node.get('port')} did not answer within {timeout:g} s") from None


def server_error(error: psycopg.Error) -> SqlError | ConfigError:
    """The server's error, or libpq's as one line."""
    diagnosis = error.diag
    if diagnosis.message_primary is None:
        return ConfigError(one_line(str(error)))
    return SqlError(
        diagnosis.sqlstate or "XX000", diagnosis.message_primary, detail=diagnosis.message_detail,
        hint=diagnosis.message_hint, internal_query=diagnosis.internal_query,
        position=int(diagnosis.statement_position or diagnosis.internal_position or 0) or None,
    )  # fmt: skip


# ---- text -----------------------------------------------------------------------------------------------------------


def one_line(text: str) -> str:
    """Joins a text of several lines, such as libpq's, to sentences on one line."""
    lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    return (
        " ".join(line if line[-1] in ".,:;?!" else f"{line}." for line in lines[:-1])
        + " " * (len(lines) > 1)
        + (lines[-1] if lines else "")
    )


def now() -> int:
    """The time, in microseconds since 2000-01-01 UTC."""
    return int((time.time() - EPOCH.timestamp()) * 1_000_000)


def timestamp(value: int) -> str:
    """'2026-11-20 09:42:46.915Z'."""
    return (EPOCH + timedelta(microseconds=value)).isoformat(" ", "milliseconds").replace("+00:00", "Z")


def timestamp_or_none(value: int) -> str | None:
    """A timestamp for JSON; None for 0, which means never."""
    return timestamp(value) if value else None


def plural(count: int, what: str) -> str:
    """'1 ledger', '2 ledgers'."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def age(value: int) -> str:
    """The time since a moment in its two largest units: '2 d 3 h', '4 min 5 s', '1 s'."""
    seconds = max(0, (now() - value) // 1_000_000)
    parts: list[str] = []
    for name, length in (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)):
        count, seconds = divmod(seconds, length)
        if count or parts or name == "s":
            parts.append(f"{count} {name}")
    return " ".join(parts[:2])


def size(value: int) -> str:
    """'512 B', '1.5 MiB'."""
    amount = float(value)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{value} B" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TiB"


def table(header: Sequence[str], rows: Sequence[Sequence[object]], indent: str = "") -> str:
    """Formats columns of text under their names. Numbers are aligned to the right."""
    cells = [list(header), *([("" if cell is None else str(cell)) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    right = [
        all(re.fullmatch(r"[\d.]*( [KMGT]?i?B|%)?", cell) for cell in column) and any(column)
        for column in zip(*cells[1:], strict=True)
    ] or [False] * len(header)
    lines = []
    for row in cells:
        shown = [
            cell.rjust(width) if numeric else cell.ljust(width)
            for cell, width, numeric in zip(row, widths, right, strict=True)
        ]
        lines.append((indent + "  ".join(shown)).rstrip())
    return "\n".join(lines)
