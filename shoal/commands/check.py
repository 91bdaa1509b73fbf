"""`shoal check`: whether all replicas of a tablespace hold the same at one and the same LSN.

The leader begins the check (shoal_check()); every replica then computes the digest of what it holds at the LSN of that
commit and writes it into ZooKeeper (engine/checks.py, replication/checks.py), where this command waits for all of them.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Collection, Mapping

import orjson

from catalog.errors import SqlError, not_supported
from catalog.rows import CHECKS, COUNTERS, KINDS, NOTIFICATIONS
from replication.checks import Report, folder, read_reports
from replication.interface import Coordination
from replication.observer import Observed
from shoal.commands.looking import Cluster, ask, looking_at, table

LOOK_AGAIN = 0.5  # seconds, where no watch says so
NAMES = "SELECT relfilenode, oid::regclass FROM pg_class WHERE relfilenode >= 100 ORDER BY relkind = 'r'"


async def run(options: argparse.Namespace) -> int:
    async with looking_at(options.cluster) as cluster:
        tablespace = cluster.tablespace(options.tablespace)
        if tablespace.name != "pg_default":
            not_supported(f'a check of tablespace "{tablespace.name}"')
        host, port = cluster.leader(tablespace)
        wanted = expected(tablespace)
        rows = await ask(host, port, options.user, "SELECT shoal_check()", timeout=options.timeout)
        reports = await gather(cluster, tablespace.tablespace, str(rows[0][0]), wanted, options.timeout)
        names = await _names(host, port, options.user)
    return show(options, tablespace.name, compare(reports, wanted, tablespace.epoch.leader), reports, names)


def expected(tablespace: Observed) -> set[str]:
    """The nodes whose replicas are to answer: those that are there, and those that should be."""
    return {*tablespace.spec.replicas, *tablespace.replicas}


async def gather(
    cluster: Cluster, tablespace: bytes, check: str, wanted: Collection[str], timeout: float
) -> dict[str, Report]:
    """The reports that come in time, of replicas that live; those of others are not waited for."""
    reports: dict[str, Report] = {}
    try:
        async with asyncio.timeout(timeout):
            while True:
                reports = await read_reports(cluster.coordination, tablespace, check)
                alive = cluster.observer.tablespaces[tablespace].replicas.keys()
                if all(node in reports for node in wanted if node in alive):
                    return reports
                await _change(cluster.coordination, folder(tablespace, check))
    except TimeoutError:
        return reports


async def _change(coordination: Coordination, path: str) -> None:
    changed = asyncio.Event()
    await coordination.children(path, changed.set)
    try:
        async with asyncio.timeout(LOOK_AGAIN):
            await changed.wait()
    except TimeoutError:
        return


# ---- what it comes to -----------------------------------------------------------------------------------------------


def compare(reports: Mapping[str, Report], wanted: Collection[str], leader: str) -> dict[str, list[str]]:
    """What is wrong with each replica, in words; nothing where it is equal to the leader's (or to the first one's)."""
    good = {node: item for node, item in reports.items() if not item.error}
    reference = good.get(leader) or next((good[node] for node in sorted(good)), None)
    found: dict[str, list[str]] = {}
    for node in sorted({*wanted, *reports}):
        item = reports.get(node)
        if item is None:
            found[node] = ["did not answer"]
        elif item.error:
            found[node] = [item.error]
        elif reference is None or item.lsn != reference.lsn:
            found[node] = [f"is a digest at LSN {item.lsn}"]
        else:
            found[node] = [] if item.total == reference.total else ["differs"]
    return found


def different(report: Report, reference: Report) -> list[int]:
    """The storage ids whose content differs."""
    ids = sorted({*report.parts, *reference.parts})
    return [item for item in ids if report.parts.get(item) != reference.parts.get(item)]


def name_of(storage_id: int, names: Mapping[int, str]) -> str:
    if storage_id in KINDS:
        return f"catalog: {KINDS[storage_id].__name__}"
    system = {COUNTERS: "counters: OIDs", COUNTERS + 1: "counters: storage ids", CHECKS: "checks"}
    system[NOTIFICATIONS] = "notifications"
    return names.get(storage_id) or system.get(storage_id) or f"storage id {storage_id}"


async def _names(host: str, port: int, user: str) -> dict[int, str]:
    """Relations by storage id, as the leader names them."""
    try:
        rows = await ask(host, port, user, NAMES, timeout=30.0)
    except SqlError:
        return {}
    return {int(row[0] or 0): str(row[1]) for row in rows}


def show(
    options: argparse.Namespace,
    tablespace: str,
    verdict: Mapping[str, list[str]],
    reports: Mapping[str, Report],
    names: Mapping[int, str],
) -> int:
    """Prints it; the exit status."""
    equal = all(not wrong for wrong in verdict.values()) and bool(verdict)
    reference = next((reports[node] for node in sorted(verdict) if not verdict[node]), None)
    lines: list[dict[str, object]] = []
    for node, wrong in verdict.items():
        item = reports.get(node)
        parts = different(item, reference) if wrong == ["differs"] and item and reference else []
        lines.append({
            "node": node,
            "equal": not wrong,
            "wrong": wrong[0] if wrong else None,
            "lsn": item.lsn if item and not item.error else None,
            "hash": item.total if item and not item.error else None,
            "tables": [
                {
                    "storage_id": part,
                    "table": name_of(part, names),
                    "rows": item.parts.get(part, (0, ""))[0] if item else 0,
                    "leader_rows": reference.parts.get(part, (0, ""))[0] if reference else 0,
                }
                for part in parts
            ],
        })  # fmt: skip
    if options.json:
        value = {"tablespace": tablespace, "equal": equal, "replicas": lines}
        print(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode())
        return 0 if equal else 1
    rows = [(line["node"], line["wrong"] or "equal", line["lsn"], line["hash"]) for line in lines]
    print(table(("REPLICA", "RESULT", "LSN", "HASH"), rows))
    for line in lines:
        for part in line["tables"]:  # type: ignore[attr-defined]
            print(f"{line['node']}: {part['table']} differs ({part['rows']} keys, {part['leader_rows']} on the leader)")
    tables = len([part for part in reference.parts if part >= 100]) if reference else 0
    print(f"all replicas are equal in {tables} tables, indexes and sequences" if equal else "WRONG: not all are equal")
    return 0 if equal else 1
