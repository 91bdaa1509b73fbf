"""The functions and operators of extensions over generated values, on PostgreSQL and on both paths of Shoal."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest

from tests.oracle import PostgresServer
from tests.server import ShoalServer

EXTENSIONS = ("fuzzystrmatch", "unaccent", "pg_trgm", "btree_gist")
ROWS = 120
SYLLABLES = (
    "ae", "b", "ch", "cia", "ck", "dge", "gh", "ghn", "gn", "ia", "io", "kn", "mb", "o", "ph", "qu", "sch", "schw",
    "sh", "th", "tio", "u", "wh", "wr", "x", "y", "ye", "z", "cc", "ss", "é", "ß", "Ł", "日", "ж", "3", " ", "-", "a",
    "e", "i",
)  # fmt: skip
CALLS = (
    "levenshtein(a, b)", "levenshtein(a, b, 2, 3, 4)", "levenshtein_less_equal(a, b, n)",
    "levenshtein_less_equal(a, b, 1, 2, 3, n)", "soundex(a)", "difference(a, b)", "metaphone(a, n + 1)", "unaccent(a)",
    "show_trgm(a)", "similarity(a, b)", "word_similarity(a, b)", "strict_word_similarity(a, b)", "a % b", "a <% b",
    "a %> b", "a <<% b", "a %>> b", "a <-> b", "a <<-> b", "a <->> b", "a <<<-> b", "a <->>> b", "n <-> i",
    "n::int2 <-> i::int2", "n::int8 <-> i", "n::float8 <-> i::float8", "n::oid <-> i::oid", "n::money <-> i::money",
    "date '2020-02-02' + n <-> date '2020-02-07' + i", "'1 mon'::interval * n <-> '1 day'::interval * i",
)  # fmt: skip


def _word(chance: random.Random) -> str:
    made = "".join(chance.choice(SYLLABLES) for _ in range(chance.randint(0, 6)))
    return made.upper() if chance.random() < 0.2 else made.title() if chance.random() < 0.2 else made


@dataclass(frozen=True)
class Database:
    """A database of the same name on both servers, with the extensions and a table of generated values."""

    ours: str
    theirs: str


@pytest.fixture(scope="module")
def database(shoal: ShoalServer, postgres_server: PostgresServer) -> Iterator[Database]:
    chance = random.Random(4)
    rows: list[tuple[Any, ...]] = []
    for number in range(ROWS):
        a = _word(chance)
        b = a[: len(a) // 2] + _word(chance) if chance.random() < 0.6 else _word(chance)
        rows.append((number, a, b, chance.randint(0, 9), chance.randint(-5, 20)))
    rows.append((ROWS, None, "x", None, 1))
    dsns = []
    for server in (shoal, postgres_server):
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute("CREATE DATABASE extensions_generated")
        dsns.append(server.dsn.replace("dbname=postgres", "dbname=extensions_generated"))
        with psycopg.connect(dsns[-1], autocommit=True) as connection:
            for name in EXTENSIONS:
                connection.execute(f"CREATE EXTENSION {name}".encode())
            connection.execute("CREATE TABLE v (id int PRIMARY KEY, a text, b text, n int, i int)")
            connection.cursor().executemany("INSERT INTO v VALUES (%s, %s, %s, %s, %s)", rows)
    yield Database(*dsns)
    for server in (shoal, postgres_server):
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute("DROP DATABASE extensions_generated WITH (FORCE)")


def answers(dsn: str, path: str | None = None) -> dict[str, object]:
    """What each call gives for all rows; if it fails, its error."""
    found: dict[str, object] = {}
    with psycopg.connect(dsn, autocommit=True) as connection:
        if path is not None:
            connection.execute(f"SET shoal.path = {path}".encode())
        for call in CALLS:
            try:
                sql = f"SELECT id, ({call})::text FROM v ORDER BY id"
                found[call] = connection.execute(sql.encode()).fetchall()
            except psycopg.Error as error:
                found[call] = (error.sqlstate, error.diag.message_primary)
    return found


@pytest.fixture(scope="module")
def expected(database: Database) -> dict[str, object]:
    return answers(database.theirs)


@pytest.mark.parametrize("path", ["auto", "columnar"])
def test_calls_over_generated_values_give_postgresqls_results(
    database: Database, path: str, expected: dict[str, object]
) -> None:
    found = answers(database.ours, path)
    wrong = {}
    for call, wanted in expected.items():
        got = found[call]
        if got != wanted:
            pairs = zip(got, wanted, strict=False) if isinstance(got, list) and isinstance(wanted, list) else []
            wrong[call] = next(((one, other) for one, other in pairs if one != other), (got, wanted))
    assert not wrong
