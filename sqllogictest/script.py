"""Scripts: text -> records.

A script is a run of records, each separated by blank lines; '#' begins a comment line.

    statement ok | statement error [regular expression] | statement count N
    <SQL>

    query TYPES [nosort|rowsort|valuesort] [label]
    <SQL>
    ----
    <one value per line, or one row per line, or "N values hashing to MD5">

    skipif ENGINE / onlyif ENGINE      before a record: who leaves it out, who alone runs it
    hash-threshold N                   results of more than N values are compared by hash
    halt                               the rest of the script is not run

TYPES has a letter per column: T text, I integer, R real. A query may also be `query error [regular expression]`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass


class ScriptError(Exception):
    """A line that is not of the format."""


@dataclass(frozen=True, slots=True)
class Record:
    """kind: statement | query | hash-threshold | halt. `line` counts from 1.

    expect: ok | error | count (with `count`) | rows. `expected` are the lines below '----'; None if there are none.
    """

    line: int
    kind: str
    sql: str = ""
    expect: str = "ok"
    count: int = 0
    pattern: str = ""
    types: str = ""
    sort: str = "nosort"
    label: str = ""
    expected: tuple[str, ...] | None = None
    conditions: tuple[tuple[str, str], ...] = ()

    def runs_on(self, engine: str) -> bool:
        """Whether skipif and onlyif let this record run on the engine."""
        return all((name == engine) == (kind == "onlyif") for kind, name in self.conditions)


def parse(text: str) -> Iterator[Record]:
    """The records of a script. Raises ScriptError with the line."""
    lines = text.splitlines()
    position = 0
    conditions: list[tuple[str, str]] = []
    while position < len(lines):
        line = lines[position].strip()
        number = position + 1
        position += 1
        if not line or line.startswith("#"):
            continue
        words = line.split()
        if words[0] in ("skipif", "onlyif"):
            conditions.append((words[0], words[1]))
            continue
        if words[0] == "halt":
            record = Record(number, "halt", conditions=tuple(conditions))
        elif words[0] == "hash-threshold":
            record = Record(number, "hash-threshold", count=int(words[1]))
        elif words[0] in ("statement", "query"):
            body, position = _body(lines, position)
            record = _record(number, words, line, body, tuple(conditions))
        else:
            raise ScriptError(f"line {number}: unknown record {words[0]!r}")
        conditions = []
        yield record


def _body(lines: list[str], position: int) -> tuple[list[str], int]:
    start = position
    while position < len(lines) and lines[position].strip():
        position += 1
    return lines[start:position], position


def _record(
    number: int, words: list[str], line: str, body: list[str], conditions: tuple[tuple[str, str], ...]
) -> Record:
    expected: tuple[str, ...] | None = None
    if "----" in body:
        cut = body.index("----")
        expected = tuple(item.rstrip() for item in body[cut + 1 :])
        body = body[:cut]
    sql = "\n".join(body)
    if len(words) > 1 and words[1] == "error":
        pattern = line.split(None, 2)[2] if len(words) > 2 else ""
        return Record(number, words[0], sql, "error", pattern=pattern, conditions=conditions)
    if words[0] == "statement":
        if len(words) > 2 and words[1] == "count":
            return Record(number, "statement", sql, "count", int(words[2]), conditions=conditions)
        if len(words) < 2 or words[1] != "ok":
            raise ScriptError(f"line {number}: statement ok, error or count N")
        return Record(number, "statement", sql, conditions=conditions)
    types = words[1] if len(words) > 1 else ""
    if not re.fullmatch("[TIR]*", types):
        raise ScriptError(f"line {number}: bad column types {types!r}")
    sort = words[2] if len(words) > 2 and words[2] in ("nosort", "rowsort", "valuesort") else "nosort"
    label = words[-1] if len(words) > 3 else ""
    return Record(
        number, "query", sql, "rows", types=types, sort=sort, label=label, expected=expected, conditions=conditions
    )
