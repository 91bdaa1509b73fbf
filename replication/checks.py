"""The reports of a consistency check: the digest that each replica of a tablespace computed at one LSN.

    tablespaces/<ts>/checks/<check id>/<node>       ReplicaReport, written once by each replica

A check's id is 16 bytes that the leader chose (engine/checks.py). A replica that writes its report removes the reports
of all but the newest checks, so that they do not accumulate. A digest with too many tables for a znode is written
without its parts, because the total suffices to tell whether replicas are equal.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field

import orjson

from catalog.errors import SqlError
from replication.interface import ConflictError, Coordination
from replication.log.layout import paths

KEPT_CHECKS = 4  # checks whose reports stay
MOST_WRONG_COPIES = 100  # that are named
MAX_BYTES = 700_000  # ZooKeeper takes 1 MiB


@dataclass(frozen=True, slots=True)
class ReplicaReport:
    """`parts`: storage id -> (keys, hexadecimal hash); empty if there were too many. `error`: the reason why there is
    no digest, '' if there is one. `copies`: the number of tables whose columns the node has compared with the rows.
    `wrong_copies`: the tables whose columns differ, each with the difference."""

    lsn: int = 0
    total: str = ""
    parts: Mapping[int, tuple[int, str]] = field(default_factory=dict)
    error: str = ""
    reported: int = 0  # microseconds since 2000-01-01 UTC
    copies: int = 0
    wrong_copies: tuple[tuple[str, str], ...] = ()


def checks_folder(tablespace: bytes, check: bytes | str) -> str:
    name = check if isinstance(check, str) else check.hex()
    return f"{paths(tablespace).root}/checks/{name}"


def encode_report(report: ReplicaReport) -> bytes:
    data = _encode_with_parts(report, report.parts)
    return data if len(data) <= MAX_BYTES else _encode_with_parts(report, {})


def _encode_with_parts(report: ReplicaReport, parts: Mapping[int, tuple[int, str]]) -> bytes:
    return orjson.dumps({
        "lsn": report.lsn,
        "total": report.total,
        "parts": [(storage_id, *part) for storage_id, part in parts.items()],
        "error": report.error,
        "reported": report.reported,
        "copies": report.copies,
        "wrong_copies": report.wrong_copies[:MOST_WRONG_COPIES],
    })  # fmt: skip


def decode_report(data: bytes) -> ReplicaReport:
    """Raises SqlError XX001."""
    try:
        value = orjson.loads(data)
        parts = {int(storage_id): (int(keys), str(found)) for storage_id, keys, found in value["parts"]}
        copies, wrong = value.get("copies", 0), value.get("wrong_copies", ())  # a release before has none
        told = tuple((str(name), str(message)) for name, message in wrong)
        return ReplicaReport(value["lsn"], value["total"], parts, value["error"], value["reported"], copies, told)
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError):
        raise SqlError("XX001", f"a znode of the cluster holds no report of a check: {data[:80]!r}") from None


async def write_report(
    coordination: Coordination, tablespace: bytes, check: bytes, node: str, found: ReplicaReport
) -> None:
    """Writes a node's report, unless it has written one before. Raises CoordinationUnavailableError."""
    with contextlib.suppress(ConflictError):
        await coordination.create(f"{checks_folder(tablespace, check)}/{node}", encode_report(found))
    await _remove_old(coordination, tablespace, check)


async def read_reports(coordination: Coordination, tablespace: bytes, check: str) -> dict[str, ReplicaReport]:
    """The reports written so far, by node. Raises SqlError XX001, CoordinationUnavailableError."""
    found: dict[str, ReplicaReport] = {}
    root = checks_folder(tablespace, check)
    for node in await coordination.children(root):
        znode = await coordination.get(f"{root}/{node}")
        if znode is not None:
            found[node] = decode_report(znode.data)
    return found


async def _remove_old(coordination: Coordination, tablespace: bytes, newest: bytes) -> None:
    root = f"{paths(tablespace).root}/checks"
    names = [name for name in await coordination.children(root) if name != newest.hex()]
    if len(names) < KEPT_CHECKS:
        return
    times: dict[str, int] = {}
    for name in names:
        reports = await read_reports(coordination, tablespace, name)
        times[name] = max((item.reported for item in reports.values()), default=0)
    for name in sorted(names, key=lambda item: times[item])[: len(names) - KEPT_CHECKS + 1]:
        with contextlib.suppress(ConflictError):  # another node removes it, or still reports
            for node in await coordination.children(f"{root}/{name}"):
                await coordination.delete(f"{root}/{name}/{node}")
            await coordination.delete(f"{root}/{name}")
