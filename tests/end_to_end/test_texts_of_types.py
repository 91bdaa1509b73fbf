"""What the input function of every type makes of a text, or says of it, is what PostgreSQL's does: texts that begin as
values do and go on as none does, of one character up to some that a process reads."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import product

import psycopg
import pytest
from psycopg.pq import DiagnosticField

from catalog.types.long_values import LONG
from tests.oracle import PostgresServer
from tests.samples import Part, parts, some
from tests.server import ShoalServer

BEGINNINGS = (
    *("", "(", "{", "[", "1/", "\\x", "08:00:00:", "2020-", "1e", "P", "<(", "x", "0x", "{(", "[1,", "a=>", "$.", "1."),
    "infinity",
)
UNITS = (
    *("7", "0", "a", " ", "-", "{", "(", "[", '"', "\\", ",", "1,", "1.", "1:", "1-", "12e3", "(1,2)", "(1,2),", "\\x"),
    *("\\x ab", "é", "1 day ", "t", "1/", "{1,", "<", "$", "+", "now ", "a.", "=>", "'", ":", "e", "_"),
)
SIZES = (3, 5000, 200, 1, 9, 130, 260)  # characters
NOT_HERE = b"0A000"  # a type that Shoal does not have
KNOWN = {  # where PostgreSQL's own readers are odd: what is said here and there
    ("regconfig", b"42704", b"3F000"),  # a schema that is not there is not told from a name that is not
    ("regdictionary", b"42704", b"3F000"),
    ("regtype", b"3F000", b"42601"),  # of more than three names
    ("cidr", b"22P02", None),  # hexadecimal
    ("inet", b"22P02", None),  # a dot at the end
    ("date", b"22008", b"22007"),  # a date at the end of PostgreSQL's buffer
    ("timestamp", b"22008", b"22007"),
    ("timestamptz", b"22008", b"22007"),
    *((type_, b"22007", b"22023") for type_ in ("date", "time", "timetz", "timestamp", "timestamptz")),  # which of
    *((type_, b"22023", b"22007") for type_ in ("date", "time", "timetz", "timestamp", "timestamptz")),  # two faults
}


@pytest.fixture(scope="module")
def both(postgres_server: PostgresServer) -> Iterator[tuple[psycopg.Connection, psycopg.Connection]]:
    with (
        ShoalServer() as own,
        psycopg.connect(own.dsn, autocommit=True) as ours,
        psycopg.connect(postgres_server.dsn, autocommit=True) as theirs,
    ):
        for connection in (ours, theirs):
            connection.execute("SET statement_timeout = '30s'")
        yield ours, theirs


def types_of(connection: psycopg.Connection) -> list[str]:
    query = "SELECT typname FROM pg_type WHERE typtype IN ('b', 'r', 'm') AND typnamespace = 11 ORDER BY oid"
    return [name for (name,) in connection.execute(query)]


def read(connection: psycopg.Connection, type_: str, text: bytes) -> tuple[bytes | None, bytes | None]:
    """The SQLSTATE of a refusal, or the value as it is shown."""
    result = connection.pgconn.exec_params(f'SELECT $1::"{type_}"'.encode(), [text])
    return result.error_field(DiagnosticField.SQLSTATE), result.get_value(0, 0) if result.ntuples else None


def differences(both: tuple[psycopg.Connection, psycopg.Connection], types: list[str], text: str) -> Iterator[str]:
    data = text.encode()
    for type_ in types:
        (said, ours), (wanted, theirs) = (read(connection, type_, data) for connection in both)
        if said == NOT_HERE or (said, ours) == (wanted, theirs) or (type_, said, wanted) in KNOWN:
            continue
        yield f"{type_} of {text[:60]!r}: {said!r} {(ours or b'')[:60]!r}, not {wanted!r} {(theirs or b'')[:60]!r}"


def shared(both: tuple[psycopg.Connection, psycopg.Connection]) -> list[str]:
    there = set(types_of(both[1]))
    return [type_ for type_ in types_of(both[0]) if type_ in there]


@pytest.mark.parametrize("size", some(SIZES, len(SIZES) // 2))
@pytest.mark.parametrize("part", parts(2))
def test_every_beginning_and_rest(both: tuple[psycopg.Connection, psycopg.Connection], size: int, part: Part) -> None:
    types, found = shared(both), list[str]()
    for beginning, unit in part.of(random.Random(size).sample([*product(BEGINNINGS, UNITS)], 60)):
        found += differences(both, types, (beginning + unit * (size // len(unit)))[:size])
    assert found == []


@pytest.mark.long
@pytest.mark.parametrize("beginning", BEGINNINGS)
def test_all_of_them(both: tuple[psycopg.Connection, psycopg.Connection], beginning: str) -> None:
    types, found = shared(both), list[str]()
    for unit, size in product(UNITS, SIZES):
        found += differences(both, types, (beginning + unit * (size // len(unit)))[:size])
    assert found == []


LARGE = random.Random(1).sample([*product(BEGINNINGS, UNITS)], 40)


@pytest.mark.parametrize(("beginning", "unit"), some(LARGE, 20))
@pytest.mark.parametrize("part", parts(2))
def test_what_a_process_reads(
    both: tuple[psycopg.Connection, psycopg.Connection], beginning: str, unit: str, part: Part
) -> None:
    types = [type_ for type_ in shared(both) if not type_.startswith(("reg", "_reg", "json", "_json"))]
    text = (beginning + unit * (LONG // len(unit) + 1000))[: LONG + 1000]
    chosen = part.of(random.Random(beginning + unit).sample(types, 12))
    assert [*differences(both, chosen, text)] == []
