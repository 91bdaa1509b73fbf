"""Runs records against a server and compares.

Each file gets a schema of its own, dropped afterwards. Values are written as sqllogictest does: NULL, (empty) for the
empty string, integers in decimal, reals with three digits, unprintable characters as @. A result above the hash
threshold is compared by the MD5 of its values, one a line.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

import psycopg

from sqllogictest.exchange import Answer, Exchange
from sqllogictest.script import Record, parse

ENGINE = "postgresql"
DEFAULT_THRESHOLD = 8
_schemas = itertools.count(1)


@dataclass(slots=True)
class Tally:
    """What came of the records; `failures` hold a line for each failed one."""

    records: int = 0
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    failures: list[str] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        self.records += other.records
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        self.failures += other.failures


class Mismatch(Exception):  # noqa: N818 - named for what it tells
    """What a record expected and did not get."""


def scripts(paths: Sequence[str]) -> list[Path]:
    """The script files under these files and directories. Raises FileNotFoundError."""
    found: list[Path] = []
    for name in paths:
        path = Path(name)
        if not path.exists():
            raise FileNotFoundError(f"no such file or directory: {name}")
        found += sorted([*path.rglob("*.test"), *path.rglob("*.slt")]) if path.is_dir() else [path]
    return found


def run_file(dsn: str, path: Path, report: Callable[[str], None] = lambda _: None) -> Tally:
    """Runs one script in a schema of its own."""
    tally = Tally()
    schema = f"sqllogictest_{next(_schemas)}"
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
        connection.execute(f"CREATE SCHEMA {schema}")
        connection.execute(f"SET search_path TO {schema}")
        try:
            _run_records(connection, path, tally, report)
        finally:
            if not connection.closed:
                connection.execute(f"DROP SCHEMA {schema} CASCADE")
    return tally


def _run_records(
    connection: psycopg.Connection[tuple[object, ...]], path: Path, tally: Tally, report: Callable[[str], None]
) -> None:
    exchange = Exchange(connection)
    labels: dict[str, str] = {}
    asked: tuple[Record, int] | None = None
    for record, threshold in _chosen(path, tally):
        if asked is None:
            exchange.ask(record.sql)
        else:
            _finish(exchange, asked, record.sql, labels, path, tally, report)
        asked = record, threshold
    if asked is not None:
        _finish(exchange, asked, None, labels, path, tally, report)


def _chosen(path: Path, tally: Tally) -> Iterator[tuple[Record, int]]:
    """The records to be run, with the hash threshold that holds for each; all are counted."""
    threshold = DEFAULT_THRESHOLD
    for record in parse(path.read_text(encoding="utf-8", errors="replace")):
        if record.kind == "hash-threshold":
            threshold = record.count
            continue
        if not record.runs_on(ENGINE):
            tally.records += record.kind != "halt"
            tally.skipped += record.kind != "halt"
            continue
        if record.kind == "halt":
            return
        tally.records += 1
        yield record, threshold


def _finish(
    exchange: Exchange,
    asked: tuple[Record, int],
    following: str | None,
    labels: dict[str, str],
    path: Path,
    tally: Tally,
    report: Callable[[str], None],
) -> None:
    """Takes the answer of the record that was asked and asks the one that follows, before it reads and compares."""
    record, threshold = asked
    answer: Answer | psycopg.Error
    exchange.take()
    if following is not None:
        exchange.ask(following)
    try:
        answer = exchange.answer()
    except psycopg.Error as error:
        answer = error
    try:
        _check(record, answer, threshold, labels)
        tally.passed += 1
    except Mismatch as mismatch:
        tally.failed += 1
        line = f"{path}:{record.line}: {mismatch}"
        tally.failures.append(line)
        report(line)


def _check(record: Record, answer: Answer | psycopg.Error, threshold: int, labels: dict[str, str]) -> None:
    """Raises Mismatch where it is not what the record expects."""
    if isinstance(answer, psycopg.Error):
        if record.expect != "error":
            raise Mismatch(f"{type(answer).__name__}: {_first_line(answer)}\n  {record.sql}") from answer
        if record.pattern and not re.search(record.pattern, str(answer)):
            raise Mismatch(f"error {_first_line(answer)!r} does not match {record.pattern!r}") from answer
        return
    if record.expect == "error":
        raise Mismatch(f"no error\n  {record.sql}")
    if record.expect == "count" and answer.affected != record.count:
        raise Mismatch(f"{answer.affected} rows affected, {record.count} expected\n  {record.sql}")
    if record.kind == "query":
        _compare(record, answer.rows, threshold, labels)


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [""])[0]


def _compare(record: Record, rows: list[tuple[object, ...]], threshold: int, labels: dict[str, str]) -> None:
    if record.types and rows and len(rows[0]) != len(record.types):
        raise Mismatch(f"{len(rows[0])} columns, {len(record.types)} expected\n  {record.sql}")
    shown = [[show(value, kind) for value, kind in zip(row, record.types, strict=True)] for row in rows]
    if record.sort == "rowsort":
        shown.sort()
    values = [value for row in shown for value in row]
    if record.sort == "valuesort":
        values.sort()
    digest = hashlib.md5("".join(value + "\n" for value in values).encode(), usedforsecurity=False).hexdigest()
    if record.label and labels.setdefault(record.label, digest) != digest:
        raise Mismatch(f"another result than the earlier query labelled {record.label}\n  {record.sql}")
    if record.expected is None:
        return
    hashed = re.fullmatch(r"(\d+) values hashing to ([0-9a-f]{32})", " ".join(record.expected))
    if hashed:
        if (len(values), digest) != (int(hashed[1]), hashed[2]):
            raise Mismatch(
                f"{len(values)} values hashing to {digest}, {' '.join(record.expected)} expected\n  {record.sql}"
            )
        return
    wanted = list(record.expected)
    if wanted != values and wanted != [" ".join(row) for row in shown]:
        raise Mismatch(f"{values[:threshold]} is not {wanted[:threshold]}\n  {record.sql}")


def show(value: object, kind: str) -> str:
    """A value as scripts write it. kind: T, I or R."""
    if value is None:
        return "NULL"
    if type(value) is int and kind != "R":
        return str(value)
    if isinstance(value, bool):
        return str(int(value)) if kind != "T" else str(value).lower()
    if kind == "I":
        return str(_integer(value))
    if kind == "R":
        return f"{float(str(value)):.3f}"
    text = str(value)
    return "".join(char if " " <= char <= "~" else "@" for char in text) or "(empty)"


def _integer(value: object) -> object:
    if isinstance(value, (float, Decimal)):
        return int(value) if math.isfinite(value) else value
    if isinstance(value, str):
        found = re.match(r"\s*[+-]?\d+", value)
        return int(found[0]) if found else 0
    return value
