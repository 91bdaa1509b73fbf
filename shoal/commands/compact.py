"""`shoal pipeline compact`: merges the objects of a store of backups into fewer and larger ones, and deletes backups
that are no longer wanted.

The merge runs in this process, or with --master in tasks of Spark, one for each merged object. Where they run they need
Shoal and the store's credentials.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Sequence

import orjson

from replication.interface import ChangelogStore
from replication.stores import open_store
from shoal.archive import compaction
from shoal.archive.compaction import CompactionSummary, MergeGroup
from shoal.archive.contents import read_contents
from shoal.commands.backup import archive_url
from shoal.commands.cluster_access import plural, size
from shoal.commands.progress_bars import Bars
from shoal.config import ConfigError


def run(options: argparse.Namespace) -> int:
    """The exit status. Raises ConfigError, SqlError."""
    if options.keep is not None and options.keep < 1:
        raise ConfigError("--keep is at least 1: the newest backup stays")
    began, result = time.monotonic(), CompactionSummary()
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


async def _prepare(url: str, options: argparse.Namespace, result: CompactionSummary) -> Sequence[MergeGroup]:
    """Retires backups, and returns the groups to merge."""
    store = open_store(url, timeout=compaction.TIMEOUT)
    try:
        found = await read_contents(store)
        if not found.records:
            raise ConfigError(f"{options.store} holds no complete backup")
        stay = found.records
        if options.keep is not None:
            stay = await compaction.retire(found, options.keep, result)
        tablespaces = list(dict.fromkeys(space.tablespace for record in stay for space in record.spaces))
        await compaction.delete_nested(store, tablespaces, result)
        return await compaction.plan_merges(store, tablespaces)
    finally:
        await store.close()


async def _merge_here(url: str, groups: Sequence[MergeGroup], result: CompactionSummary, bars: Bars) -> None:
    store = open_store(url, timeout=compaction.TIMEOUT)
    try:
        await compaction.compact(store, groups, result, bars.show)
    finally:
        await store.close()


def _merge_on_spark(
    url: str, groups: Sequence[MergeGroup], result: CompactionSummary, bars: Bars, options: argparse.Namespace
) -> None:
    from shoal_spark.jobs.session import run_with_progress, spark_session

    with spark_session(options.master, options.conf, options.verbose) as spark:
        parts = spark.sparkContext.parallelize([(url, group) for group in groups], len(groups))
        counts = run_with_progress(spark, bars, "changelog", lambda: parts.map(_merge).collect())

    async def finish() -> None:
        store: ChangelogStore = open_store(url, timeout=compaction.TIMEOUT)
        try:
            for group, entries in zip(groups, counts, strict=True):
                await compaction.record_merge(store, group, entries, result)
        finally:
            await store.close()

    asyncio.run(finish())


def _merge(item: tuple[str, MergeGroup]) -> int:
    """Merges a group in a task of Spark."""
    return compaction.merge_group(*item)


def _show(options: argparse.Namespace, result: CompactionSummary, seconds: float) -> None:
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
