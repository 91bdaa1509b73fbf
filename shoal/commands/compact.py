"""`shoal pipeline compact`: a store of backups gets fewer and larger objects, and loses what nobody wants any more.

Merging is done here, or, where a master is named, by Spark's tasks, one for each piece that is made. They need Shoal
and the store's credentials where they run.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Sequence

import orjson

from replication.interface import ChangelogStore
from replication.stores import open_store
from shoal.archive import compacting
from shoal.archive.compacting import Compacted, Group
from shoal.archive.contents import look
from shoal.commands.backup import archive_url
from shoal.commands.looking import plural, size
from shoal.commands.showing import Bars
from shoal.config import ConfigError


def run(options: argparse.Namespace) -> int:
    """The exit status. Raises ConfigError, SqlError."""
    if options.keep is not None and options.keep < 1:
        raise ConfigError("--keep is at least 1: the newest backup stays")
    began, result = time.monotonic(), Compacted()
    url = archive_url(options.store)
    with Bars() as bars:
        groups = asyncio.run(_prepare(url, options, result))
        if options.master is None or not groups:
            asyncio.run(_merge_here(url, groups, result, bars))
        else:
            _merge_on_spark(url, groups, result, bars, options)
        bars.finish()
    _show(options, result, time.monotonic() - began)
    return 0


async def _prepare(url: str, options: argparse.Namespace, result: Compacted) -> Sequence[Group]:
    """Retires backups; what is to be merged."""
    store = open_store(url, timeout=compacting.TIMEOUT)
    try:
        found = await look(store)
        if not found.records:
            raise ConfigError(f"{options.store} holds no complete backup")
        stay = found.records
        if options.keep is not None:
            stay = await compacting.retire(found, options.keep, result)
        tablespaces = list(dict.fromkeys(space.tablespace for record in stay for space in record.spaces))
        await compacting.tidy(store, tablespaces, result)
        return await compacting.plan(store, tablespaces)
    finally:
        await store.close()


async def _merge_here(url: str, groups: Sequence[Group], result: Compacted, bars: Bars) -> None:
    store = open_store(url, timeout=compacting.TIMEOUT)
    try:
        await compacting.compact(store, groups, result, bars.show)
    finally:
        await store.close()


def _merge_on_spark(
    url: str, groups: Sequence[Group], result: Compacted, bars: Bars, options: argparse.Namespace
) -> None:
    from shoal_spark.jobs.session import spark_session, watched

    with spark_session(options.master, options.conf, options.verbose) as spark:
        parts = spark.sparkContext.parallelize([(url, group) for group in groups], len(groups))
        counts = watched(spark, bars, "changelog", lambda: parts.map(_merge).collect())

    async def finish() -> None:
        store: ChangelogStore = open_store(url, timeout=compacting.TIMEOUT)
        try:
            for group, entries in zip(groups, counts, strict=True):
                await compacting.count(store, group, entries, result)
        finally:
            await store.close()

    asyncio.run(finish())


def _merge(item: tuple[str, Group]) -> int:
    """In a task."""
    return compacting.merge(*item)


def _show(options: argparse.Namespace, result: Compacted, seconds: float) -> None:
    if options.json:
        print(orjson.dumps({
            "job": "compact", "entries": result.entries, "bytes": result.bytes, "seconds": round(seconds, 3),
            "backups_retired": result.retired, "objects_deleted": result.deleted, "bytes_freed": result.freed,
            "pieces_merged": result.merged, "into": result.into,
        }).decode())  # fmt: skip
        return
    rate = f"{size(int(result.bytes / seconds))}/s" if seconds else ""
    print(
        f"compact: {plural(result.merged, 'piece')} of the changelog into {result.into}, {size(result.bytes)} "
        f"in {seconds:.1f} s ({rate})"
    )
    print(f"{plural(result.retired, 'backup')} retired: {plural(result.deleted, 'object')}, {size(result.freed)} freed")
