"""`shoal backup`, `shoal verify`, `shoal restore`.

The server makes a backup, when the command calls the SQL function shoal_backup. So a directory is a directory on the
server's machine. The other two commands need no server.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import tempfile
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from urllib.parse import quote

import orjson

from catalog.errors import SqlError
from catalog.identifiers import quote_literal
from replication.interface import ChangelogStore
from replication.stores import open_store
from shoal.archive.contents import BackupContents, read_contents, verify_all
from shoal.archive.restore import RestoreTarget, plan_restore, restore_directory
from shoal.commands.cluster_access import (
    EPOCH,
    age,
    conninfo,
    open_cluster,
    open_session,
    plural,
    query_node,
    size,
    timestamp,
)
from shoal.commands.progress_bars import Bars
from shoal.config import ConfigError

PATIENCE = 7 * 24 * 3600.0  # seconds
DAMAGED = "XX001"
LOOK = 0.3  # seconds between two checks of the progress
TIMEOUT = 60.0  # seconds for a call of the store
STEPS = {"looking": "looking at the store", "checkpoint": "rows", "changelog": "changelog"}


def archive_url(place: str) -> str:
    """The URL of a store of backups. A directory is converted to a URL."""
    if "://" in place or place.startswith("quorum("):
        return place
    return f"file://{quote(os.path.abspath(place))}"


# ---- backup ---------------------------------------------------------------------------------------------------------


async def run_backup(options: argparse.Namespace) -> int:
    url = archive_url(options.destination)
    where = await _server_address(options)
    statement = f"SELECT shoal_backup({quote_literal(url)})".encode()
    with Bars() as bars:
        watching = asyncio.create_task(_watch(where, bars))
        try:
            ((lsn,),) = await query_node(where, statement, timeout=PATIENCE)
        finally:
            watching.cancel()
        bars.finish()
    async with _open_backup(url, options.destination) as found:
        record = found.records[-1]
    if options.json:
        print(orjson.dumps({
            "destination": url, "lsn": lsn, "time": timestamp(record.spaces[0].time),
            "bytes": record.written, "backups": len(found.records),
        }).decode())  # fmt: skip
    else:
        print(f"backup of everything up to LSN {lsn}: {size(record.written)} written to {options.destination}")
    return 0


async def _server_address(options: argparse.Namespace) -> str:
    """The connection string of the server that makes the backup."""
    if options.cluster is not None:
        async with open_cluster(options.cluster) as cluster:
            host, port = cluster.leader(cluster.tablespace("pg_default"))
            return conninfo(options.user, host=host, port=port)
    return conninfo(options.user, options.dsn)


async def _watch(where: str, bars: Bars) -> None:
    """Shows the progress of the backup until it is cancelled."""
    await asyncio.sleep(LOOK)
    with contextlib.suppress(SqlError, ConfigError):  # the backup itself reports the error
        async with open_session(where) as connection:
            while True:
                cursor = await connection.execute("SELECT shoal_backup_progress()")
                for (shown,) in await cursor.fetchall():
                    _show(bars, shown)
                await asyncio.sleep(LOOK)


def _show(bars: Bars, shown: str | None) -> None:
    if shown is not None:
        status = orjson.loads(shown)
        where = "" if status["tablespace"] in ("", "pg_default") else f"{status['tablespace']}: "
        bars.show(where + STEPS[status["step"]], status["done"], status["total"])


# ---- verify ---------------------------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def _open_backup(url: str, place: str) -> AsyncIterator[BackupContents]:
    """Opens the backups at a place. Raises ConfigError if there are none, SqlError for damage."""
    if "://" not in place and not os.path.isdir(place):
        raise ConfigError(f"{place} is not a directory")
    store: ChangelogStore = open_store(url, timeout=TIMEOUT)
    try:
        found = await read_contents(store)
        if found.owner is None or not found.records:
            raise ConfigError(f"{place} holds no complete backup")
        yield found
    finally:
        await store.close()


async def run_verify(options: argparse.Namespace) -> int:
    async with _open_backup(archive_url(options.source), options.source) as found:
        with _scratch() as scratch, Bars() as bars:
            result = await verify_all(found, os.path.join(scratch, "files"), bars.show)
        if options.json:
            print(orjson.dumps({
                "source": found.store.url, "whole": not result.findings, "findings": result.findings,
                "checkpoints": result.checkpoints, "rows": result.rows, "entries": result.entries,
                "backups": [_record_row(found, number) for number in range(len(found.records))],
            }).decode())  # fmt: skip
            return 1 if result.findings else 0
        for record in found.records:
            first = record.spaces[0]
            when = f"up to LSN {first.lsn}" + (f", {timestamp(first.time)}" if first.time else "")
            print(f"backup of {timestamp(record.created)} ({age(record.created)} ago): {when}")
        for finding in result.findings:
            print(f"WRONG: {finding}")
    if not result.findings:
        read = f"{plural(result.checkpoints, 'checkpoint')} with {plural(result.rows, 'row')}"
        print(f"complete: {read} and {result.entries} entries of the changelog read, all intact")
    return 1 if result.findings else 0


def _scratch() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="shoal-verify-", ignore_cleanup_errors=True)


def _record_row(found: BackupContents, number: int) -> dict[str, object]:
    record = found.records[number]
    return {
        "created": timestamp(record.created), "lsn": record.spaces[0].lsn, "bytes": record.written,
        "tablespaces": [space.name for space in record.spaces],
    }  # fmt: skip


# ---- restore --------------------------------------------------------------------------------------------------------


async def run_restore(options: argparse.Namespace) -> int:
    if options.data is None:
        options.misused("--data DIR (a new data directory) or --as NAME (a database beside others) is required")
    if options.dsn is not None:
        options.misused("--dsn is for --as NAME, a database beside those of a running server")
    target = RestoreTarget(options.to_lsn, None if options.to_time is None else moment(options.to_time))
    async with _open_backup(archive_url(options.source), options.source) as found:
        spaces = await plan_restore(found, target)
        with Bars() as bars:
            try:
                await restore_directory(spaces, options.data, bars.show)
            except SqlError as error:
                if error.sqlstate == DAMAGED:
                    error.hint = error.hint or (
                        f"`shoal verify {options.source}` lists all that is. Take a whole copy of the backup, or a "
                        "moment that needs none of it (--to-lsn)."
                    )
                raise
    first = spaces[0]
    if options.json:
        print(orjson.dumps({
            "data": os.path.abspath(options.data), "lsn": first.lsn,
            "time": timestamp(first.time) if first.time else None,
        }).decode())  # fmt: skip
        return 0
    when = f", {timestamp(first.time)}" if first.time else ""
    print(f"{options.data} is the database as of LSN {first.lsn}{when}")
    print(f"start it with: shoal serve --data {options.data}")
    return 0


def moment(text: str) -> int:
    """Converts an ISO time to microseconds since 2000-01-01 UTC. A time without a zone is in this machine's zone.
    Raises ConfigError."""
    try:
        return round((datetime.fromisoformat(text).astimezone(UTC) - EPOCH).total_seconds() * 1_000_000)
    except ValueError:
        raise ConfigError(
            f'"{text}" is not a time such as 2026-11-20T18:04:11 or "2026-11-20 18:04:11.5+01:00"'
        ) from None
