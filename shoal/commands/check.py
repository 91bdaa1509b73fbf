"""`shoal check --cluster`: compares the replicas of each tablespace at one LSN. With --dsn: check_indexes.py.

The leader starts the check (shoal_check()). Every replica computes a digest of its content at the LSN of that commit,
for each tablespace separately, and writes it to ZooKeeper (engine/checks.py, replication/checks.py). This command waits
for the digests of all replicas.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import orjson

from catalog.errors import SqlError
from catalog.rows import (
    CHECKS,
    COUNTERS,
    FIRST_USER_STORAGE,
    KINDS,
    LARGE_OBJECT_PAGES,
    LARGE_OBJECTS,
    NOTIFICATIONS,
    PREPARED_TRANSACTIONS,
    SPACE_REQUESTS,
)
from replication.checks import ReplicaReport, checks_folder, read_reports
from replication.interface import Coordination
from replication.observer import ObservedTablespace
from shoal.commands.check_indexes import BUILD_AGAIN, check_indexes
from shoal.commands.cluster_access import ClusterAccess, conninfo, open_cluster, query_node, table

DEFAULT = "pg_default"
DIFFERS, COLUMNS_DIFFER = "differs", "columns differ"
LOOK_AGAIN = 0.5  # seconds between two reads, if no watch fires earlier
NAMES = "SELECT relfilenode::int8, oid::regclass::text FROM pg_class WHERE relfilenode >= 100 ORDER BY relkind = 'r'"


async def run(options: argparse.Namespace) -> int:
    if options.dsn is not None:
        return await check_indexes(options)
    equal = True
    values: list[dict[str, object]] = []
    async with open_cluster(options.cluster) as cluster:
        first = cluster.tablespace(DEFAULT)
        others = sorted(cluster.observer.tablespaces.values(), key=lambda item: (item is not first, item.name))
        chosen = others if options.tablespace is None else [cluster.tablespace(options.tablespace)]
        wanted = {item.tablespace: expected_nodes(item) for item in chosen}
        host, port = cluster.leader(first)
        ends = asyncio.get_running_loop().time() + options.timeout
        where = conninfo(options.user, host=host, port=port)
        ((check,),) = await query_node(where, "SELECT shoal_check()", timeout=options.timeout)
        names = await _names(where)
        for item in chosen:
            left = max(ends - asyncio.get_running_loop().time(), 0.0)
            reports = await gather(cluster, item.tablespace, str(check), wanted[item.tablespace], left)
            lines = report_rows(compare(reports, wanted[item.tablespace], item.epoch.leader), reports, names)
            good = bool(lines) and all(line["equal"] for line in lines)
            values.append({"tablespace": item.name, "equal": good, "replicas": lines})
            equal &= good
            if not options.json:
                show(item.name, lines, reports)
    if options.json:
        print(orjson.dumps({"equal": equal, "tablespaces": values}, option=orjson.OPT_INDENT_2).decode())
    return 0 if equal else 1


def expected_nodes(tablespace: ObservedTablespace) -> set[str]:
    """The nodes whose replicas must answer: those that exist and those that should exist, except replicas that are
    being bootstrapped."""
    named = {*tablespace.spec.replicas, *tablespace.replicas}
    return named - {node for node, replica in tablespace.replicas.items() if replica.role == "bootstrapping"}


async def gather(
    cluster: ClusterAccess, tablespace: bytes, check: str, wanted: Collection[str], timeout: float
) -> dict[str, ReplicaReport]:
    """The reports that arrive in time. It does not wait for replicas on nodes that are not alive."""
    reports: dict[str, ReplicaReport] = {}
    try:
        async with asyncio.timeout(timeout):
            while True:
                reports = await read_reports(cluster.coordination, tablespace, check)
                alive = cluster.observer.tablespaces[tablespace].replicas.keys()
                if all(node in reports for node in wanted if node in alive):
                    return reports
                await _change(cluster.coordination, checks_folder(tablespace, check))
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


# ---- result ---------------------------------------------------------------------------------------------------------


def compare(reports: Mapping[str, ReplicaReport], wanted: Collection[str], leader: str) -> dict[str, list[str]]:
    """The problems of each replica as text. A replica that is equal to the leader's (or to the first one) has none."""
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
            found[node] = _problems_of(item, reference)
    return found


def _problems_of(item: ReplicaReport, reference: ReplicaReport) -> list[str]:
    if item.total != reference.total:
        return [DIFFERS]
    return [COLUMNS_DIFFER] if item.wrong_copies else []


def differing_storage_ids(report: ReplicaReport, reference: ReplicaReport) -> list[int]:
    """The storage ids whose content differs."""
    ids = sorted({*report.parts, *reference.parts})
    return [item for item in ids if report.parts.get(item) != reference.parts.get(item)]


def name_of(storage_id: int, names: Mapping[int, str]) -> str:
    if storage_id in KINDS:
        return f"catalog: {KINDS[storage_id].__name__}"
    system = {COUNTERS: "counters: OIDs", COUNTERS + 1: "counters: storage ids", CHECKS: "checks"}
    system |= {NOTIFICATIONS: "notifications", LARGE_OBJECTS: "large objects", LARGE_OBJECT_PAGES: "their pages"}
    system |= {PREPARED_TRANSACTIONS: "prepared transactions", SPACE_REQUESTS: "requests to return free space"}
    return names.get(storage_id) or system.get(storage_id) or f"storage id {storage_id}"


async def _names(where: str) -> dict[int, str]:
    """The names of relations by storage id, from the leader."""
    try:
        rows = await query_node(where, NAMES, timeout=30.0)
    except SqlError:
        return {}
    return dict(rows)


def report_rows(
    verdict: Mapping[str, list[str]], reports: Mapping[str, ReplicaReport], names: Mapping[int, str]
) -> list[dict[str, object]]:
    """The results of the replicas' reports, for JSON."""
    reference = next((reports[node] for node in sorted(verdict) if verdict[node] in ([], [COLUMNS_DIFFER])), None)
    lines: list[dict[str, object]] = []
    for node, wrong in verdict.items():
        item = reports.get(node)
        parts = differing_storage_ids(item, reference) if wrong == [DIFFERS] and item and reference else []
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
            "columns": [{"table": name, "wrong": why} for name, why in (item.wrong_copies if item else ())],
        })  # fmt: skip
    return lines


def show(tablespace: str, lines: Sequence[Mapping[str, Any]], reports: Mapping[str, ReplicaReport]) -> None:
    """Prints the result as text."""
    equal = bool(lines) and all(line["equal"] for line in lines)
    rows = [(line["node"], line["wrong"] or "equal", line["lsn"], line["hash"]) for line in lines]
    print(f"tablespace {tablespace}")
    print(table(("REPLICA", "RESULT", "LSN", "HASH"), rows))
    for line in lines:
        for part in line["tables"]:
            print(f"{line['node']}: {part['table']} differs ({part['rows']} keys, {part['leader_rows']} on the leader)")
        for column in line["columns"]:
            print(f"{line['node']}: columns of {column['table']}: {column['wrong']}")
    reference = next((reports[line["node"]] for line in lines if line["equal"]), None)
    tables = len([part for part in reference.parts if part >= FIRST_USER_STORAGE]) if reference else 0
    copies = sum(report.copies for report in reports.values())
    if equal:
        print(
            f"all replicas are equal in {tables} tables, indexes and sequences; {copies} copies in columns match them"
        )
    elif any(line["wrong"] not in (None, COLUMNS_DIFFER) for line in lines):
        print("WRONG: not all are equal")
    if any(line["columns"] for line in lines):
        print(f"WRONG: columns differ from rows; {BUILD_AGAIN}")
