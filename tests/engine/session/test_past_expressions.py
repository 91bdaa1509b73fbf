"""AS OF takes every expression without columns, on every protocol, for every moment: each answer is the one that was
recorded when the moment was now, or the error that says why there is none."""

from __future__ import annotations

import datetime
import itertools
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.samples import some
from tests.server import ShoalServer

ACCESS = {
    "key": ("SELECT id, n FROM t{of} WHERE id = {id}", 7),
    "range": ("SELECT id, n FROM t{of} WHERE id > {id} ORDER BY id LIMIT 3", 7),
    "aggregate": ("SELECT count(*), sum(n)::bigint FROM t{of} WHERE id > {id}", 0),
    "join": ("SELECT count(*), sum(b.n)::bigint FROM t{of} a JOIN t{of} b ON b.id = a.id WHERE a.id > {id}", 0),
}
"""Statements, and what the parameter of their condition is."""

# {lsn}, {hex} and {time} stand for literals, %(lsn)s and so on for parameters.
LITERALS = [
    "LSN {lsn}", "LSN '{lsn}'", "LSN '{hex}'", "LSN '{hex}'::pg_lsn", "LSN {lsn} + 0", "LSN ({lsn})", "LSN abs(-{lsn})",
    "LSN greatest(1, {lsn})", "LSN CASE WHEN 1 < 2 THEN {lsn} ELSE 1 END", "LSN shoal_lsn_at('{time}')",
    "TIMESTAMP '{time}'", "TIMESTAMP '{time}'::timestamptz", "TIMESTAMP timestamptz '{time}'",
    "TIMESTAMP '{time}'::timestamptz - interval '0 s'", "TIMESTAMP now() - (now() - '{time}'::timestamptz)",
    "TIMESTAMP shoal_time_of({lsn})", "TIMESTAMP to_timestamp({epoch})",
]  # fmt: skip
PARAMETERS = [
    "LSN %(lsn)s", "LSN %(lsn)s::bigint", "LSN %(lsn)s + 0", "LSN %(hex)s::pg_lsn", "LSN %(lsn)s::text::bigint",
    "LSN greatest(%(one)s, %(lsn)s)", "LSN CASE WHEN %(one)s = 1 THEN %(lsn)s ELSE 1 END", "LSN shoal_lsn_at(%(time)s)",
    "LSN shoal_lsn_at(%(text)s::timestamptz)", "LSN (%(lsn)s::numeric * %(one)s)::bigint",
    "TIMESTAMP %(time)s", "TIMESTAMP %(text)s", "TIMESTAMP %(time)s::timestamptz", "TIMESTAMP %(text)s::timestamptz",
    "TIMESTAMP %(text)s::text::timestamptz", "TIMESTAMP %(time)s - interval '0 s'", "TIMESTAMP %(time)s + %(nothing)s",
    "TIMESTAMP now() - (now() - %(time)s)", "TIMESTAMP shoal_time_of(%(lsn)s)", "TIMESTAMP to_timestamp(%(epoch)s)",
]  # fmt: skip


@dataclass(frozen=True)
class Moment:
    lsn: int
    time: datetime.datetime
    answers: dict[str, list[Any]] = field(default_factory=dict)

    def values(self) -> dict[str, Any]:
        return {
            "lsn": self.lsn, "hex": f"0/{self.lsn:X}", "time": self.time, "text": self.time.isoformat(), "one": 1,
            "nothing": datetime.timedelta(0), "epoch": self.time.timestamp(),
        }  # fmt: skip

    def literal(self, form: str) -> str:
        return form.format(lsn=self.lsn, hex=f"0/{self.lsn:X}", time=self.time.isoformat(), epoch=self.time.timestamp())


class Kept(ShoalServer):
    """`window`: seconds in memory; `history`: the rest in files."""

    def __init__(self, data: Path, window: float, history: bool) -> None:
        super().__init__(data)
        self._window, self._history = window, history

    def command(self) -> list[str]:
        config = self.data.parent / "shoal.toml"
        config.write_text(f"past_window = {self._window}\n")
        more = ["--history-retention", "3600"] if self._history else []
        return [*super().command(), "--config", str(config), *more]


KINDS = {"in memory": (600.0, False), "in files": (0.0, True), "not kept": (0.0, False)}


def let_go(connection: psycopg.Connection, lsn: int) -> None:
    """Returns when memory has let go of an LSN that nobody asked it to keep."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            connection.execute(f"SELECT count(*) FROM t AS OF LSN {lsn}".encode())
        except psycopg.errors.SnapshotTooOld:
            return
        connection.execute("UPDATE t SET n = n WHERE id = 1")
        time.sleep(0.1)
    raise AssertionError("it is kept")


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def place(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ShoalServer, list[Moment]]]:
    """A server, and moments of it: five, of which files are open for three at most."""
    with Kept(tmp_path_factory.mktemp("moments") / "data", *KINDS[kind]) as server:
        moments = []
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute("CREATE TABLE t (id int PRIMARY KEY, n int)")
            connection.execute("INSERT INTO t SELECT i, i FROM generate_series(1, 3000) i")
            for step in range(5):
                connection.execute("UPDATE t SET n = n + %s", (1000 * (step + 1),))
                time.sleep(0.01)
                row = connection.execute("SELECT (pg_current_wal_lsn() - '0/0')::int, clock_timestamp()").fetchone()
                assert row is not None
                moments.append(Moment(*row))
                for name, (sql, value) in ACCESS.items():
                    moments[-1].answers[name] = connection.execute(sql.format(of="", id=value)).fetchall()
                time.sleep(0.01)
            connection.execute("UPDATE t SET n = -1")
            connection.execute("DELETE FROM t WHERE id > 2000")
            if kind == "not kept":
                let_go(connection, moments[-1].lsn)
        yield server, moments


def bound(sql: str, values: dict[str, Any], protocol: str, connection: psycopg.Connection) -> Sequence[list[Any]]:
    """The answers of a statement that is run twice: the second time its plan is there."""
    found = []
    for _ in range(2):
        if protocol == "simple":
            with psycopg.ClientCursor(connection) as cursor:
                found.append(cursor.execute(sql, values).fetchall())
        else:
            with connection.cursor(binary=protocol == "binary") as cursor:
                places = sql.replace(")s", ")b") if protocol == "binary" else sql
                prepare = True if protocol == "prepared" else None
                found.append(cursor.execute(places, values, prepare=prepare).fetchall())
    return found


def check(kind: str, run: Any, wanted: list[Any], what: str) -> None:
    if kind == "not kept":
        with pytest.raises(psycopg.errors.SnapshotTooOld):
            run()
    else:
        for found in run():
            assert found == wanted, what


def trials(
    forms: list[str], kind: str, path: str, part: int = 0, parts: int = 1
) -> Iterator[tuple[str, tuple[str, int], str]]:
    """Every form with two kinds of access where that is quick, with one of them elsewhere; by columns, where each takes
    long and the moment is told before they are asked, one part of the forms."""
    accesses = itertools.cycle(ACCESS.items())
    for form in forms[part::parts] if path == "columnar" else forms:
        for _ in range(2 if (kind, path) == ("in memory", "auto") else 1):
            name, (sql, value) = next(accesses)
            yield name, (sql, value), form


PROTOCOLS = ["simple", "extended", "binary", "prepared"]


@pytest.mark.parametrize(
    ("path", "half"), [("auto", 0), *(pytest.param("columnar", half, marks=pytest.mark.long) for half in (0, 1))]
)
@pytest.mark.parametrize("protocol", some(PROTOCOLS, 2))
def test_every_expression(
    kind: str, place: tuple[ShoalServer, list[Moment]], protocol: str, path: str, half: int
) -> None:
    server, moments = place
    turn = itertools.cycle(moments)  # so that most moments in files are not open
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute(f"SET shoal.path = {path}")
        for name, (sql, value), form in trials(
            PARAMETERS, kind, path, 2 * PROTOCOLS.index(protocol) + half, 2 * len(PROTOCOLS)
        ):
            moment = next(turn)
            text = sql.format(of=f" AS OF {form}", id="%(id)s")
            values = {**moment.values(), "id": value}
            check(kind, lambda: bound(text, values, protocol, connection), moment.answers[name], f"{protocol}: {text}")  # noqa: B023


@pytest.mark.parametrize("path", some(["auto", "columnar"], 2))
def test_every_literal(kind: str, place: tuple[ShoalServer, list[Moment]], path: str) -> None:
    """A text whose literals are lifted out, and the same as one that is prepared."""
    server, moments = place
    turn = itertools.cycle(moments)
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute(f"SET shoal.path = {path}")
        for number, (name, (sql, value), form) in enumerate(trials(LITERALS, kind, path)):
            moment = next(turn)
            text = sql.format(of=f" AS OF {moment.literal(form)}", id=value)
            for prepare in (None, True) if path == "auto" else ((None, True)[number % 2],):

                def run(text: str = text, prepare: bool | None = prepare) -> list[list[Any]]:
                    return [connection.execute(text, prepare=prepare).fetchall() for _ in range(2)]

                check(kind, run, moment.answers[name], text)


WRONG = [
    ("LSN %(text)s::text", "22P02"), ("TIMESTAMP %(one)s + 0", "42804"), ("LSN %(text)s::date", "42804"),
    ("LSN NULL::bigint", "22004"),
    ("LSN %(null)s::bigint", "22004"), ("TIMESTAMP %(null)s", "22004"), ("LSN 1 / (%(one)s - 1)", "22012"),
    ("LSN 999999 + %(one)s", "22023"), ("TIMESTAMP now() + %(hour)s", "22023"), ("TIMESTAMP 'x'", "22007"),
    ("LSN (SELECT 1)", "0A000"), ("LSN n", "42703"), ("TIMESTAMP %(hex)s", "22007"), ("LSN -%(one)s", "22023"),
]  # fmt: skip


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(("form", "code"), WRONG)
def test_what_says_no_moment_is_refused(
    place: tuple[ShoalServer, list[Moment]], protocol: str, form: str, code: str
) -> None:
    server, moments = place
    values = {**moments[0].values(), "id": 7, "null": None, "hour": datetime.timedelta(hours=1)}
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        sql, _ = ACCESS["key"]
        with pytest.raises(psycopg.Error) as error:
            bound(sql.format(of=f" AS OF {form}", id="%(id)s"), values, protocol, connection)
        assert error.value.sqlstate == code


@pytest.fixture
def connection(server: Any) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(server.dsn, autocommit=True) as found:
        yield found


NO_PARAMETERS = [
    "SELECT $1::int", "SELECT 1 + $2 - $1", "SELECT 'a' || $1", "SELECT * FROM pg_class WHERE oid = $1",
    "SELECT count(*) FROM pg_class WHERE relname < $1", "VALUES ($1::int)", "CREATE TEMP TABLE none AS SELECT $1::int",
    "DECLARE c CURSOR WITH HOLD FOR SELECT $1::int",
]  # fmt: skip


@pytest.mark.parametrize("sql", NO_PARAMETERS)
def test_a_simple_query_has_no_parameters(connection: psycopg.Connection[Any], sql: str) -> None:
    """Whether an extended one has left its plan behind or not."""
    for _ in range(2):
        with pytest.raises(psycopg.errors.UndefinedParameter) as error:
            connection.execute(sql.encode())
        found = error.value.diag
        number = sql.index("$")
        assert (found.message_primary, found.statement_position) == (
            f"there is no parameter ${sql[number + 1]}", str(number + 1)
        )  # fmt: skip
        if sql.count("$") == 1 and sql.startswith(("SELECT", "VALUES")):
            assert connection.pgconn.prepare(b"", sql.encode()).status == psycopg.pq.ExecStatus.COMMAND_OK
