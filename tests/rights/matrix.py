"""The authorisation matrix: each statement of cases.py by each actor, on Shoal and on PostgreSQL.

    python -m tests.rights.matrix        shows every cell that differs

A cell is the SQLSTATE of the error, else those of the warnings. One connection an actor; a block that is rolled back
around each cell. An actor that was a superuser when its session began, and is none any more, is among them.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import random
import re
import sys
import time
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import psycopg
from psycopg import pq

from tests.oracle import PostgresServer
from tests.rights.cases import ACTORS, AFTER, DEMOTED, OBJECTS, SETUP, Case, cases, questions
from tests.server import ShoalServer

SQLSTATE = pq.DiagnosticField.SQLSTATE
PLACES = {
    "shoal": "CREATE TABLESPACE place OWNER owner",
    "postgres": "SET allow_in_place_tablespaces = on; CREATE TABLESPACE place OWNER owner LOCATION ''",
}
LARGE_OBJECT = 100
NO_LOGICAL_LOG = "55000"  # what PostgreSQL warns of with a publication
PATIENCE = "20s"  # a cell that takes longer is told as 57014

Cell = tuple[str, str]  # statement, actor
Server = ShoalServer | PostgresServer


@dataclass(frozen=True, slots=True)
class Difference:
    """What is meant to differ, and to be stricter: patterns of the statement and of the actor, and the reason."""

    statement: str
    actors: str
    reason: str
    laxer: bool = False

    def fits(self, cell: Cell) -> bool:
        return bool(re.fullmatch(self.statement, cell[0]) and re.fullmatch(self.actors, cell[1]))


_ANY = ".*"
DIFFERENCES = (
    Difference(
        r"ALTER (FUNCTION|PROCEDURE|AGGREGATE|OPERATOR|TYPE|DOMAIN|COLLATION|SCHEMA|DATABASE|TABLESPACE|CHANGE STREAM) "
        r".* OWNER TO owner",
        _ANY,
        "who does not own it cannot give it to the owner that it has: PostgreSQL lets everybody do nothing",
    ),
    Difference(
        r"ALTER (FUNCTION|PROCEDURE|AGGREGATE|OPERATOR|TYPE|DOMAIN|COLLATION) bare\..* SET SCHEMA bare",
        "schemaowner",
        "the same of the schema where it is",
    ),
    Difference(r"(ALTER TABLE|CREATE TABLE) .*information_schema.*", "super", "no relation enters a system schema"),
    Difference(
        r"PREPARE z AS SELECT \* FROM .*",
        _ANY,
        "a statement is planned, and its privileges are looked at, when it is prepared",
    ),
    Difference(r"COPY .* '/nowhere/file'", _ANY, "files of the server are refused to everybody, by name"),
    Difference(
        r"SET SESSION AUTHORIZATION .*",
        "demoted|demotedmember",
        "who is no superuser any more is none at once; PostgreSQL remembers who has logged in",
    ),
    Difference(
        r"DROP OWNED BY (friend|CURRENT_USER)",
        _ANY,
        "what was granted to the role goes, as PostgreSQL's manual says; its server keeps what others have granted, "
        "with a warning",
        laxer=True,
    ),
)

_BETWEEN_STATEMENTS = re.compile(r";(?=(?:[^']*'[^']*')*[^']*\Z)")
"""A semicolon that is not in a string."""


def statements_in(text: str) -> list[str]:
    """The statements of a text."""
    return [part.strip() for part in _BETWEEN_STATEMENTS.split(text) if part.strip()]


def prepare(server: Server, name: str) -> psycopg.Connection:
    """The objects of the matrix; gives the superuser's connection."""
    admin = psycopg.connect(server.dsn, autocommit=True)

    def run(text: str) -> None:
        for statement in statements_in(text):
            admin.execute(statement.encode())

    run(SETUP)
    run(PLACES[name])
    run("GRANT CREATE ON TABLESPACE place TO grantee; CREATE DATABASE given OWNER owner")
    run("REVOKE CONNECT ON DATABASE given FROM PUBLIC")
    for place in ("s", "bare"):
        run("SET ROLE owner")
        run(OBJECTS.format(s=place))
        run("RESET ROLE")
    run(AFTER)
    run(f"SET ROLE owner; SELECT lo_create({LARGE_OBJECT}); RESET ROLE")
    run("GRANT CREATE ON DATABASE postgres TO owner; SET ROLE owner")
    run(translated("CREATE CHANGE STREAM stream FOR TABLE s.t", name))
    run("RESET ROLE; REVOKE CREATE ON DATABASE postgres FROM owner")
    run(translated("CREATE CHANGE STREAM everything FOR ALL TABLES", name))
    return admin


def translated(statement: str, server: str) -> str:
    """A change stream is owned and given away as a publication of PostgreSQL's is."""
    if server == "shoal" or "CHANGE STREAM" not in statement:
        return statement
    inserts = " WITH (publish = 'insert')" if statement.startswith("CREATE") else ""  # others take keys that are named
    return statement.replace("CHANGE STREAM", "PUBLICATION") + inserts


class Runner:
    """One actor on one server."""

    def __init__(self, server: Server, name: str, actor: str, admin: psycopg.Connection) -> None:
        self.name, self.admin = name, admin
        self.connection = psycopg.connect(server.dsn.replace("user=postgres", f"user={actor}"), autocommit=True)
        self.raw = self.connection.pgconn
        self.warnings: list[str] = []
        self.raw.notice_handler = self._note
        self.raw.exec_(f"SET statement_timeout = '{PATIENCE}'".encode())

    def _note(self, result: pq.abc.PGresult) -> None:
        if result.error_field(pq.DiagnosticField.SEVERITY_NONLOCALIZED) == b"WARNING":
            sqlstate = (result.error_field(SQLSTATE) or b"").decode()
            self.warnings += [sqlstate] if sqlstate != NO_LOGICAL_LOG else []

    def cell(self, case: Case) -> str:
        """What a statement comes to."""
        text = translated(case.statement, self.name).encode()
        if case.undo is None:
            self.raw.exec_(b"BEGIN")
        self.warnings.clear()
        found = self._outcome(self.raw.exec_(text)) or ",".join(sorted(set(self.warnings)))
        if case.undo is None:
            self.raw.exec_(b"ROLLBACK")
        elif not found and case.undo:
            for undo in case.undo.format(place=PLACES[self.name]).split(";"):
                self.admin.execute(undo.encode())
        return found or "ok"

    def _outcome(self, result: pq.abc.PGresult) -> str:
        if result.status == pq.ExecStatus.COPY_OUT:
            while self.raw.get_copy_data(False)[0] > 0:
                pass
            result = self._last()
        elif result.status == pq.ExecStatus.COPY_IN:
            self.raw.put_copy_end()
            result = self._last()
        return (result.error_field(SQLSTATE) or b"").decode()

    def _last(self) -> pq.abc.PGresult:
        found = self.raw.get_result()
        assert found is not None
        while (more := self.raw.get_result()) is not None:
            found = more
        return found

    def close(self) -> None:
        self.connection.close()


def outcomes(
    server: Server,
    name: str,
    chosen: Callable[[Case], bool] = lambda _: True,
    seed: int | None = None,
    until: float = math.inf,
) -> dict[Cell, str]:
    """Cells of one server: all of them, or with a seed, in an order of it, those that there is time for until then, on
    the monotonic clock."""
    with contextlib.closing(each(server, name, chosen, seed)) as cells:
        return dict(itertools.takewhile(lambda _: time.monotonic() < until, cells))


def each(
    server: Server, name: str, chosen: Callable[[Case], bool] = lambda _: True, seed: int | None = None
) -> Generator[tuple[Cell, str], None, None]:
    """One cell after the other."""
    with prepare(server, name) as admin, psycopg.connect(server.dsn.replace("user=postgres", "user=target")):
        runners = {actor: Runner(server, name, actor, admin) for actor in ACTORS}
        for actor in DEMOTED:
            admin.execute(f"ALTER ROLE {actor} NOSUPERUSER".encode())
        wanted = [case for case in cases() if chosen(case)]
        places = [(actor, case) for actor in runners for case in wanted]
        places += [("stranger", case) for case in filter(chosen, questions())]
        if seed is not None:
            random.Random(seed).shuffle(places)
        for actor, case in places:
            yield (case.statement, actor), runners[actor].cell(case)
        for runner in runners.values():
            runner.close()


@dataclass(slots=True)
class Comparison:
    """`wrong`: cells that differ and must not. `unused`: differences that are none any more."""

    cells: int = 0
    wrong: list[str] = field(default_factory=list)
    unused: list[str] = field(default_factory=list)


def compared(shoal: dict[Cell, str], postgres: dict[Cell, str], known: Iterable[Difference]) -> Comparison:
    result = Comparison(len(shoal))
    left = list(known)
    used = set[int]()
    for cell, ours in shoal.items():
        theirs = postgres[cell]
        if ours == theirs:
            continue
        fitting = [number for number, item in enumerate(left) if item.fits(cell)]
        if any(ours != "ok" or left[number].laxer for number in fitting):
            used.update(fitting)
        else:
            result.wrong.append(f"{cell[1]}: {cell[0]}: {ours}, PostgreSQL {theirs}")
    result.unused = [item.statement for number, item in enumerate(left) if number not in used]
    return result


def run(shoal: Server, postgres: Server) -> Comparison:
    """Both servers beside each other."""
    with ThreadPoolExecutor(2) as pool:
        ours = pool.submit(outcomes, shoal, "shoal")
        theirs = pool.submit(outcomes, postgres, "postgres")
        return compared(ours.result(), theirs.result(), DIFFERENCES)


def main() -> int:
    with ShoalServer() as shoal, PostgresServer() as postgres:
        found = run(shoal, postgres)
    print(*found.wrong, sep="\n")
    print(f"{found.cells} cells, {len(found.wrong)} differ; not used: {found.unused}")
    return bool(found.wrong or found.unused)


if __name__ == "__main__":
    sys.exit(main())
