"""`shoal doctor DIR`: finds problems in the directory of a stopped server, with advice. It changes nothing."""

from __future__ import annotations

import argparse
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import orjson

from catalog.errors import SqlError
from engine.storage.examination import bulk_files, examine_tables, in_use
from engine.storage.runs import file_checksum
from replication.examination import examine
from replication.segments import SegmentEntry
from shoal.config import ConfigError

LOW = 1 << 30  # free bytes on the disk below which it is reported
_TABLESPACE = re.compile(r"[0-9a-f]{32}")


@dataclass(slots=True)
class TablespaceReport:
    """The report on one tablespace: `facts` about it, and its `problems`."""

    name: str
    facts: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    tablespace: bytes = b""
    last: int = 0
    acknowledged: int = 0
    parts: list[tuple[int, tuple[tuple[bytes, int], ...]]] = field(default_factory=list)


def run(options: argparse.Namespace) -> int:
    """The exit status: 0, or 1 when something is wrong. Raises ConfigError if it is not a server's directory."""
    data = Path(options.directory)
    if not (data / "rows").is_dir():
        raise ConfigError(f"{data} is not the data directory of a Shoal server: it has no rows/")
    if in_use(str(data)):
        raise ConfigError(
            f"{data} is in use by a server: stop it first, or check it while it runs (shoal check --dsn ...)"
        )
    member = (data / "cluster.json").exists()
    reports = diagnose(data)
    wrong = any(report.problems for report in reports)
    advice = _advice(data, member, wrong)
    if options.json:
        shown = [
            {"tablespace": report.name, "facts": report.facts, "problems": report.problems, "notes": report.notes}
            for report in reports
        ]
        print(
            orjson.dumps(
                {"healthy": not wrong, "tablespaces": shown, "advice": advice}, option=orjson.OPT_INDENT_2
            ).decode()
        )
    else:
        for report in reports:
            print(report.name)
            for sign, lines in (("   ", report.facts), (" - ", report.notes), (" ! ", report.problems)):
                for line in lines:
                    print(f"{sign}{line}")
        print("\n".join(advice))
    return 1 if wrong else 0


def diagnose(data: Path) -> list[TablespaceReport]:
    """A report on each tablespace, pg_default first."""
    others = sorted(path for path in data.glob("tablespaces/*") if _TABLESPACE.fullmatch(path.name))
    reports = [_examine(data, "pg_default")]
    for path in others:
        reports.append(_examine(path, f"tablespace {path.name}"))
        if reports[-1].tablespace not in (b"", bytes.fromhex(path.name)):
            reports[-1].problems.append(f"it holds another tablespace, {reports[-1].tablespace.hex()}")
    _check_joint_parts(reports)
    return reports


def _examine(directory: Path, name: str) -> TablespaceReport:
    report = TablespaceReport(name)
    tables = examine_tables(str(directory / "rows"))
    report.tablespace = tables.tablespace
    report.facts.append(f"tables: {tables.keys:,} keys, {tables.bytes:,} bytes, up to LSN {tables.flushed}")
    report.problems += tables.problems
    folder = directory / "changelog"
    if not folder.is_dir():
        if not (directory / "cluster.json").exists() and not (directory.parent.parent / "cluster.json").exists():
            report.problems.append("the changelog is missing")
        return report
    log = examine(str(folder), tables.tablespace, tables.flushed, _bulk_of(folder))
    report.last, report.acknowledged = max(log.last, tables.flushed), log.acknowledged
    report.parts = log.parts
    report.facts.append(
        f"changelog: {log.entries:,} entries, LSN {log.first} to {log.last}, {log.bytes:,} bytes, "
        f"acknowledged up to {log.acknowledged}"
    )
    report.problems += log.problems
    if log.torn and not log.problems:
        report.notes.append(f"{log.torn} entries after the end were never acknowledged: the next start removes them")
    return report


def _bulk_of(folder: Path) -> Callable[[SegmentEntry], str]:
    def look(entry: SegmentEntry) -> str:
        try:
            for name, expected in bulk_files(entry.body):
                path = folder / "bulk" / name
                if not path.exists():
                    return f"its file bulk/{name} is missing"
                if file_checksum(str(path)) != expected:
                    return f"its file bulk/{name} is damaged"
        except SqlError as error:
            return error.message
        return ""

    return look


def _check_joint_parts(reports: list[TablespaceReport]) -> None:
    """Finds transactions over several tablespaces of which one tablespace has lost its part."""
    here = {report.tablespace: report for report in reports}
    for report in reports:
        for lsn, parts in report.parts:
            missing = [there for there, at in parts if there in here and at > here[there].last]
            if missing and lsn <= report.acknowledged:
                names = ", ".join(here[there].name for there in missing)
                report.problems.append(f"entry {lsn} was acknowledged, and its part in {names} is lost")
            elif missing:
                report.notes.append(f"entry {lsn} was not committed: the next start removes it and everything after it")


def _advice(data: Path, member: bool, wrong: bool) -> list[str]:
    free = shutil.disk_usage(data).free
    lines = [f"only {free >> 20} MB are free on the disk: the server stops when it is full"] if free < LOW else []
    if not os.access(data, os.W_OK):
        lines.append(f"{data} cannot be written to by this user")
    if not wrong:
        return [*lines, "Nothing is wrong."]
    if member:
        return [
            *lines,
            "This is a replica of a cluster: move the directory away and start the node again. It will be restored "
            "from a checkpoint and the changelog of the cluster.",
        ]
    return [
        *lines,
        f"Do not start a server on it. Keep a copy: cp -a {data} {data}.damaged",
        "Then restore a backup into a new directory: shoal verify BACKUP; shoal restore BACKUP --data NEW",
        "Without a backup: start a server on a copy. If it starts, pg_dump saves all rows that it can still read.",
    ]
