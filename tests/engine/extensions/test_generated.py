"""The functions and operators of extensions over generated values, on PostgreSQL and on both paths of Shoal."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest

from tests.oracle import PostgresServer
from tests.server import ShoalServer

EXTENSIONS = ("fuzzystrmatch", "unaccent", "pg_trgm", "btree_gist", "intarray", "ltree", "pgcrypto")
ROWS = 120
SYLLABLES = (
    "ae", "b", "ch", "cia", "ck", "dge", "gh", "ghn", "gn", "ia", "io", "kn", "mb", "o", "ph", "qu", "sch", "schw",
    "sh", "th", "tio", "u", "wh", "wr", "x", "y", "ye", "z", "cc", "ss", "é", "ß", "Ł", "日", "ж", "3", " ", "-", "a",
    "e", "i",
)  # fmt: skip
TABLE = (
    "CREATE TABLE v (id int PRIMARY KEY, a text, b text, n int, i int, x int[], y int[], z query_int, p ltree, o ltree,"
    " q lquery, t ltxtquery)"
)
CALLS = (
    "levenshtein(a, b)", "levenshtein(a, b, 2, 3, 4)", "levenshtein_less_equal(a, b, n)",
    "levenshtein_less_equal(a, b, 1, 2, 3, n)", "soundex(a)", "difference(a, b)", "metaphone(a, n + 1)", "unaccent(a)",
    "show_trgm(a)", "similarity(a, b)", "word_similarity(a, b)", "strict_word_similarity(a, b)", "a % b", "a <% b",
    "a %> b", "a <<% b", "a %>> b", "a <-> b", "a <<-> b", "a <->> b", "a <<<-> b", "a <->>> b", "n <-> i",
    "n::int2 <-> i::int2", "n::int8 <-> i", "n::float8 <-> i::float8", "n::oid <-> i::oid", "n::money <-> i::money",
    "x && y", "x @> y", "x <@ y", "# x", "x # n", "x + n", "x + y", "x - n", "x - y", "x | n", "x | y", "x & y",
    "icount(x)", "sort(x)", "sort(x, 'desc')", "sort_desc(x)", "uniq(x)", "uniq(sort(x))", "subarray(x, i)",
    "subarray(x, i, n - 3)", "x @@ z", "z ~~ y", "z",
    "p @> o", "p <@ o", "p < o", "p >= o", "p || o", "p || 'x.y'", "nlevel(p)", "lca(p, o)", "lca(p, o, p || o)",
    "index(p, subpath(o || 'a', 0, 1))", "index(p, o, i)", "p ~ q", "q ~ o", "p ? array[q, 'a.*']", "p @ t", "t @ o",
    "q", "t", "array[p, o] @> p", "array[p, o] ?~ q", "array[p, o] ?@ t", "array[p, o] ?<@ o", "ltree_cmp(p, o) < 0",
    "digest(a, 'sha512')", "hmac(a, b, 'sha1')", "encrypt(a::bytea, b::bytea, 'aes')",
    "encrypt_iv(a::bytea, b::bytea, 'vector', '3des')",
    "decrypt(encrypt(a::bytea, b::bytea, 'aes-ecb'), b::bytea, 'aes-ecb')",
    "crypt(a, 'ab')", "crypt(a, '$1$' || n)", "armor(a::bytea)", "dearmor(armor(b::bytea))",
    "pgp_sym_decrypt(pgp_sym_encrypt(a, 'k'), 'k')",
    "date '2020-02-02' + n <-> date '2020-02-07' + i", "'1 mon'::interval * n <-> '1 day'::interval * i",
)  # fmt: skip


def _word(chance: random.Random) -> str:
    made = "".join(chance.choice(SYLLABLES) for _ in range(chance.randint(0, 6)))
    return made.upper() if chance.random() < 0.2 else made.title() if chance.random() < 0.2 else made


def _numbers(chance: random.Random) -> str:
    return "{" + ",".join(str(chance.randint(-1, 5)) for _ in range(chance.randint(0, 6))) + "}"


def _query(chance: random.Random, operand: Callable[[], str], deep: int = 3) -> str:
    kind = chance.choice("ooo&|!(") if deep else "o"
    if kind == "o":
        return operand()
    first = _query(chance, operand, deep - 1)
    if kind == "!":
        return f"!({first})" if chance.random() < 0.5 else f"!{operand()}"
    return f"({first})" if kind == "(" else f"{first} {kind} {_query(chance, operand, deep - 1)}"


def _label(chance: random.Random) -> str:
    return chance.choice(("a", "b", "A", "a_b", "b_a", "abc", "é"))


def _path(chance: random.Random) -> str:
    return ".".join(_label(chance) for _ in range(chance.randint(0, 5)))


def _modified(chance: random.Random) -> str:
    return _label(chance) + chance.choice(("", "", "@", "*", "%", "@*", "%@", "%*"))


def _level(chance: random.Random) -> str:
    count = chance.choice(("", "", "{1}", "{,2}", "{1,}", "{0,3}", "{2}"))
    if chance.random() < 0.4:
        return "*" + count
    labels = "|".join(_modified(chance) for _ in range(chance.randint(1, 2)))
    return chance.choice(("", "", "!")) + labels + chance.choice(("", count))


def _row(chance: random.Random, number: int) -> tuple[Any, ...]:
    a = _word(chance)
    b = a[: len(a) // 2] + _word(chance) if chance.random() < 0.6 else _word(chance)
    path = _path(chance)
    other = path.rpartition(".")[0] if chance.random() < 0.3 else _path(chance)
    levels = ".".join(_level(chance) for _ in range(chance.randint(1, 4)))
    labels = _query(chance, lambda: _modified(chance))
    numbers = _query(chance, lambda: str(chance.randint(-1, 5)))
    n, i = chance.randint(0, 9), chance.randint(-5, 20)
    return number, a, b, n, i, _numbers(chance), _numbers(chance), numbers, path, other, levels, labels


@dataclass(frozen=True)
class Database:
    """A database of the same name on both servers, with the extensions and a table of generated values."""

    ours: str
    theirs: str


@pytest.fixture(scope="module")
def database(shoal: ShoalServer, postgres_server: PostgresServer) -> Iterator[Database]:
    chance = random.Random(4)
    rows = [_row(chance, number) for number in range(ROWS)]
    rows.append((ROWS, None, "x", None, 1, *(None for _ in range(7))))
    dsns = []
    for server in (shoal, postgres_server):
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute("CREATE DATABASE extensions_generated")
        dsns.append(server.dsn.replace("dbname=postgres", "dbname=extensions_generated"))
        with psycopg.connect(dsns[-1], autocommit=True) as connection:
            for name in EXTENSIONS:
                connection.execute(f"CREATE EXTENSION {name}".encode())
            connection.execute(TABLE)
            connection.cursor().executemany(f"INSERT INTO v VALUES ({', '.join(['%s'] * 12)})".encode(), rows)
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
    found = answers(database.theirs)
    assert {call: answer for call, answer in found.items() if not isinstance(answer, list)} == {}
    return found


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


OPTIONS = (
    "", "cipher-algo=aes256", "compress-algo=1", "compress-algo=2, compress-level=9", "s2k-mode=0", "s2k-mode=1",
    "disable-mdc=1", "sess-key=1, cipher-algo=aes192, s2k-cipher-algo=aes256", "convert-crlf=1", "unicode-mode=1",
    "s2k-count=1024, s2k-digest-algo=md5", "cipher-algo=3des",
)  # fmt: skip


def test_pgp_messages_are_readable_for_the_other_server(database: Database) -> None:
    texts = ("", "short", "line\nline\n", "é" * 300, "0123456789" * 5000)
    seal, read = "SELECT pgp_sym_encrypt(%s, 'pass', %s)", "SELECT pgp_sym_decrypt(%s, 'pass', %s)"
    with psycopg.connect(database.ours) as ours, psycopg.connect(database.theirs) as theirs:
        for options in OPTIONS:
            how = options if "crlf" in options else ""
            for text in texts:
                for writer, reader in ((ours, theirs), (theirs, ours)):
                    sealed = writer.execute(seal, (text, options)).fetchone()
                    assert sealed is not None
                    assert reader.execute(read, (sealed[0], how)).fetchone() == (text,), (options, text[:10])
