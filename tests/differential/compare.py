"""Runs a scenario on several sides and says what differs.

Rows are compared as text, as multisets unless the statement orders them; floats to 12 digits, and numerics by value
where a query shows one of several equal ones. SQLSTATEs must be equal; a statement that Shoal refuses (0A000) is
counted, not compared. Where PostgreSQL may or may not meet a value that raises, or the columnar path's DuckDB decides
which of several conditions it computes (docs/sql.md), an error of class 22 on one side only ends the scenario without a
verdict if the statement changes rows, and is passed over if it does not.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

import psycopg
from psycopg import pq

from tests.differential.generate import Scenario, Statement

FLOATS, NUMERIC = (700, 701), 1700
FIRST_OWN_OID = 16384
REFUSED = "0A000"
COLUMNAR = "columnar path"
_OF_VALUES = ("22", REFUSED)  # PostgreSQL cannot make NaN an integer: 0A000
_CONDITIONS = re.compile(r"\b(AND|OR|BETWEEN|CASE|coalesce|nullif)\b")
_NUMBER = re.compile(r"-?\d+\.\d+|-?\d+")


@dataclass(frozen=True, slots=True)
class Outcome:
    """`sqlstate` is '' for success; the rows are text."""

    sqlstate: str
    message: str = ""
    types: tuple[int, ...] = ()
    rows: tuple[tuple[str | None, ...], ...] = ()
    tag: str = ""


@dataclass(slots=True)
class Side:
    """One of the sides; `run` takes a statement."""

    name: str
    run: Callable[[str], Outcome]


@dataclass(slots=True)
class Tally:
    statements: int = 0
    compared: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)  # PostgreSQL's SQLSTATEs
    failures: list[str] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        self.statements += other.statements
        self.compared += other.compared
        self.refused += other.refused
        self.errors += other.errors
        self.failures += other.failures


def runner(connection: psycopg.Connection[tuple[object, ...]]) -> Callable[[str], Outcome]:
    """Runs statements by the simple protocol, so that every value comes as the server writes it."""

    def run(sql: str) -> Outcome:
        result = connection.pgconn.exec_(sql.encode())
        if result.status == pq.ExecStatus.FATAL_ERROR:
            sqlstate = result.error_field(pq.DiagnosticField.SQLSTATE) or b"?"
            message = result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or result.error_message
            return Outcome(sqlstate.decode(), (message or b"").decode())
        width = result.nfields
        rows = tuple(
            tuple(None if (v := result.get_value(r, c)) is None else v.decode() for c in range(width))
            for r in range(result.ntuples)
        )
        types = tuple(result.ftype(c) for c in range(width))
        return Outcome("", "", types, rows, (result.command_status or b"").decode())

    return run


def prepare(run: Callable[[str], Outcome], schema: str, settings: Sequence[str] = ()) -> None:
    """An empty schema that unqualified names lie in."""
    for sql in (f"DROP SCHEMA IF EXISTS {schema} CASCADE", f"CREATE SCHEMA {schema}", f"SET search_path TO {schema}"):
        found = run(sql)
        assert not found.sqlstate, found
    for sql in settings:
        found = run(sql)
        assert not found.sqlstate, found


def _float(text: str) -> str:
    try:
        return f"{float(text):.11g}" if abs(float(text)) > 1e-9 else "0"
    except ValueError:
        return text


def _by_value(text: str) -> str:
    """Every number in a text without its trailing zeros: 1.10 in an array is 1.1."""
    return _NUMBER.sub(lambda found: str(Decimal(found[0]).normalize()), text)


def comparable(outcome: Outcome, exact: bool) -> list[tuple[str | None, ...]]:
    """The rows in a form that is equal where the answers agree."""
    made = []
    for row in outcome.rows:
        cells: list[str | None] = []
        for oid, value in zip(outcome.types, row, strict=True):
            if value is None:
                cells.append(None)
            elif oid in FLOATS:
                cells.append(_float(value))
            else:
                cells.append(value if exact or oid != NUMERIC else _by_value(value))
        made.append(tuple(cells))
    return made


def difference(statement: Statement, want: Outcome, got: Outcome, chooses: bool = False) -> str:
    """What differs, '' if nothing does. `chooses`: the side chooses the order of conditions."""
    exact = statement.exact and not (chooses and _CONDITIONS.search(statement.sql))
    if want.sqlstate != got.sqlstate:
        both_data = want.sqlstate.startswith(_OF_VALUES) and got.sqlstate.startswith(_OF_VALUES)
        one_data = not (want.sqlstate and got.sqlstate) and (want.sqlstate or got.sqlstate).startswith(_OF_VALUES)
        folded = want.sqlstate and not got.rows  # PostgreSQL computes constants even where there are no rows
        if both_data or (one_data and (folded or not exact)):
            return ""
        return f"SQLSTATE {got.sqlstate or 'none'} {got.message} is not {want.sqlstate or 'none'} {want.message}"
    if want.sqlstate:
        return ""
    if want.types != got.types:
        return f"types {got.types} are not {want.types}"
    expected, found = comparable(want, statement.exact), comparable(got, statement.exact)
    more, less = Counter(found) - Counter(expected), Counter(expected) - Counter(found)
    if more or less:
        return f"{len(found)} rows, not {len(expected)}; only here {list(more)[:3]}, only there {list(less)[:3]}"
    if statement.ordered and expected != found:
        return f"the order {found[:6]} is not {expected[:6]}"
    return "" if want.tag == got.tag else f"tag {got.tag} is not {want.tag}"


def run_scenario(
    seed: int, oracle: Side, others: Sequence[Side], report: Callable[[str], None] = lambda _: None
) -> Tally:
    """Runs the scenario of a seed; a failure names it, the statement, and what differs."""
    scenario, tally = Scenario(seed), Tally()
    for sql in scenario.setup():
        report(sql)
        for side in (oracle, *others):
            found = side.run(sql)
            assert not found.sqlstate, f"seed {seed}: {side.name}: {sql}: {found.message}"
    for statement in scenario.statements():
        report(statement.sql)
        tally.statements += 1
        want = oracle.run(statement.sql)
        if want.sqlstate:
            tally.errors[want.sqlstate] += 1
            if want.sqlstate.startswith("42"):
                report(f"-- {want.message}")
        for side in others:
            got = side.run(statement.sql)
            if got.sqlstate == REFUSED != want.sqlstate:
                tally.refused[got.message] += 1
                if statement.changes and not want.sqlstate:
                    return tally  # this side's table has another content now
                continue
            tally.compared += 1
            found_difference = difference(statement, want, got, side.name == COLUMNAR)
            if found_difference:
                tally.failures.append(f"seed {seed}, {side.name}: {statement.sql}\n    {found_difference}")
            if statement.changes and (found_difference or want.sqlstate != got.sqlstate):
                return tally
    return tally
