"""Full text search beside PostgreSQL: the parser, the grammars of both types, matching and ranks."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import psycopg
import pytest

from catalog.errors import SqlError
from catalog.text_search import headline, queries, query_matches, ranking, vectors, web
from catalog.text_search.configurations import BUILT_IN, LANGUAGES, lexemes
from catalog.text_search.parser import TOKEN_TYPES, tokens

ENGLISH = BUILT_IN.find_named("english")
PIECES = [
    "a",
    "bc",
    "Foo",
    "é",
    "ñx",
    "1",
    "23",
    "0",
    ".",
    ".",
    "-",
    "-",
    "_",
    "/",
    "/",
    "@",
    ":",
    "://",
    "http",
    "www",
    "com",
    "<",
    ">",
    "</",
    "script",
    "style",
    "<!--",
    "-->",
    "&",
    "&amp;",
    "&#12;",
    ";",
    "~",
    "?",
    "=",
    "%",
    "+",
    "e",
    "E",
    "x",
    "'",
    '"',
    "\\",
    "!",
    "D",
    "_a",
    ",",
    "(",
    ")",
    "#",
    "b.c",
    "d@e.fr",
    "ß",
    "中文",
    "̈",
]
SIGNS = [
    "a",
    "b",
    "&",
    "|",
    "!",
    "(",
    ")",
    "<",
    ">",
    "-",
    ":",
    "*",
    "'",
    "\\",
    '"',
    "the",
    "cats",
    "<->",
    "<2>",
    "or",
    "OR",
    "-x",
    "fat-rat",
    "é",
    "a:1",
    "2A",
    ",",
]


def made(seed: int, pieces: list[str], count: int, most: int) -> list[str]:
    """Texts of random pieces, some of them blanks."""
    source = random.Random(seed)
    return ["".join(source.choice([*pieces, " ", " "]) for _ in range(source.randint(0, most))) for _ in range(count)]


def test_tokens(postgres: psycopg.Connection) -> None:
    texts = [*made(1, PIECES, 2000, 14), "see http://a.b.com:80/x?y=1, or mail me-2@b-c.org <b>now</b> -1.5e3 v1.2.3"]
    found = postgres.execute(
        "select n, array_agg(tokid order by o), array_agg(token order by o) from unnest(%s::text[]) with ordinality "
        "u (t, n), lateral ts_parse('default', t) with ordinality p (tokid, token, o) group by n",
        (texts,),
    )
    theirs = {number: list(zip(kinds, parts, strict=True)) for number, kinds, parts in found}
    for number, text in enumerate(texts, 1):
        assert list(tokens(text)) == theirs.get(number, []), text


def test_token_types(postgres: psycopg.Connection) -> None:
    for parser in ("'default'", "3722::oid"):
        found = postgres.execute(f"select alias, description from ts_token_type({parser})".encode()).fetchall()
        assert found == list(TOKEN_TYPES)


def test_plain_words_take_the_short_way() -> None:
    assert list(tokens("The cat, sat")) == [(1, "The"), (12, " "), (1, "cat"), (12, ", "), (1, "sat")]


@pytest.mark.parametrize("language", LANGUAGES)
def test_stems(postgres: psycopg.Connection, language: str) -> None:
    words = (
        "generously organizing organizations emergencies lateral adding the and häuser mädchen grünes chevaux "
        "mangeaient красивые домов canciones corazón bambini città ευτυχία talossa iloinen huizen böcker"
    )
    found = postgres.execute("select to_tsvector(%s::regconfig, %s)::text", (language, words)).fetchone()
    vector = vectors.make_vector(
        (word, ((position, 0),)) for word, position in lexemes(BUILT_IN.find_named(language), words)
    )
    assert found == (vectors.print_vector(vector),)


def outcome(function: Callable[..., str], *arguments: str) -> str:
    try:
        return function(*arguments)
    except SqlError as error:
        return f"{error.sqlstate} {error.message}"


def test_grammars(postgres: psycopg.Connection) -> None:
    for name, body in (
        ("query", "t::tsquery"), ("vector", "t::tsvector"), ("to_query", "to_tsquery('english', t)"),
    ):  # fmt: skip
        postgres.execute(
            (
                f"create function pg_temp.read_{name}(t text) returns text language plpgsql as $$ begin "
                f"return {body}::text; exception when others then return sqlstate || ' ' || sqlerrm; end $$"
            ).encode()
        )
    texts = [*made(2, SIGNS, 3000, 9), '"a b" -c or "d e', "x <-> (y & !z:*AB)", "'it''s':1A,2 \\'q"]
    rows = postgres.execute(
        "select pg_temp.read_query(t), pg_temp.read_vector(t), pg_temp.read_to_query(t), "
        "websearch_to_tsquery('english', t)::text, phraseto_tsquery('english', t)::text, "
        "plainto_tsquery('english', t)::text from unnest(%s::text[]) with ordinality u (t, n) order by n",
        (texts,),
    ).fetchall()
    for text, row in zip(texts, rows, strict=True):
        ours = (
            outcome(queries.parse_query, text),
            outcome(vectors.parse_vector, text),
            outcome(queries.to_query, ENGLISH, text),
            web.web_query(ENGLISH, text),
            queries.plain_query(ENGLISH, text, queries.PHRASE),
            queries.plain_query(ENGLISH, text, queries.AND),
        )
        assert ours == row, text


def a_query(source: random.Random, depth: int = 0) -> str:
    chance = source.random()
    if depth > 3 or chance < 0.35:
        return source.choice(("a", "b:*", "c:CD", "d:A", "e"))
    if chance < 0.5:
        return "!" + a_query(source, depth + 1)
    if chance < 0.6:
        return f"({a_query(source, depth + 1)})"
    sign = source.choice((" & ", " | ", " <-> ", " <2> ", " <0> "))
    return a_query(source, depth + 1) + sign + a_query(source, depth + 1)


def a_vector(source: random.Random) -> str:
    words = []
    for _ in range(source.randint(0, 6)):
        places = [
            f"{source.randint(1, 9)}{source.choice(('', '', 'A', 'B', 'C'))}" for _ in range(source.randint(1, 4))
        ]
        word = source.choice(("a", "b", "c", "d", "e", "aa", "ab", "bc", "bd"))
        words.append(f"{word}:{','.join(places)}" if source.random() < 0.85 else word)
    return " ".join(words)


def test_matches_and_ranks(postgres: psycopg.Connection) -> None:
    source = random.Random(3)
    cases = [(a_query(source), a_vector(source), source.choice((0, 0, 1, 2, 4, 8, 16, 32, 63))) for _ in range(3000)]
    rows = postgres.execute(
        "select q::tsquery::text, v::tsvector::text, v::tsvector @@ q::tsquery, ts_rank(v::tsvector, q::tsquery, m), "
        "ts_rank_cd(v::tsvector, q::tsquery, m), numnode(q::tsquery) "
        "from unnest(%s::text[], %s::text[], %s::int[]) with ordinality u (q, v, m, n) order by n",
        [list(column) for column in zip(*cases, strict=True)],
    ).fetchall()
    for (written, text, method), row in zip(cases, rows, strict=True):
        query, vector = queries.parse_query(written), vectors.parse_vector(text)
        tree, words = queries.query_of(query), vectors.vector_of(vector)
        found = np.float32(ranking.rank(ranking.WEIGHTS, words, tree, method))
        count = sum(1 for _ in queries.nodes(tree))
        covers = np.float32(ranking.rank_of_covers(ranking.WEIGHTS, words, tree, method))
        ours = query, vector, query_matches.matches(words, tree), float(str(found)), float(str(covers)), count
        assert ours == row, (written, text, method)


WORDS = (
    "The cats sat on a mat-like thing, 12.5 http://x.org/cat <b>ran</b> sat cat and well-known cat-mat; v1.2.3 of it."
)


def test_headlines(postgres: psycopg.Connection) -> None:
    source = random.Random(5)
    words = WORDS.split()
    settings = (
        "", "MaxWords=5, MinWords=2", "MaxWords = 8, MinWords=1, ShortWord=0", "HighlightAll=on, StartSel='<<'",
        "MaxFragments=2, MaxWords=6, MinWords=3", 'maxfragments=3,MaxWords=9,MinWords=2, FragmentDelimiter=" ## "',
    )  # fmt: skip
    cases = []
    for _ in range(2500):
        text = " ".join(source.choice(words) for _ in range(source.randint(0, 60)))
        query = source.choice(("cat", "cat & mat", "sat <-> cat", "cat | sat", "ca:* & !ran", "mat-lik", "cat & cat:*",
                               "known | well", "cat <2> mat", "nowhere"))  # fmt: skip
        cases.append((text, query, source.choice(settings)))
    rows = postgres.execute(
        "select q::tsquery::text, ts_headline('english', t, q::tsquery, o) "
        "from unnest(%s::text[], %s::text[], %s::text[]) with ordinality u (t, q, o, n) order by n",
        [list(column) for column in zip(*cases, strict=True)],
    ).fetchall()
    for (text, _, options), (query, theirs) in zip(cases, rows, strict=True):
        ours = headline.headline(ENGLISH, text, queries.query_of(query), headline.options_of(options))
        assert ours == theirs, (text, query, options)


def test_options_of_headlines(postgres: psycopg.Connection) -> None:
    for options in ("MaxWords=3", "MinWords=0", "ShortWord=-1", "MaxFragments=-1", "Words=3", "MaxWords", "MaxWords=x",
                    "MaxWords=99999999999", "StartSel='a, StopSel=b", "HighlightAll=yes, MinWords=0"):  # fmt: skip
        try:
            found = postgres.execute("select ts_headline('english', 'a cat', 'cat', %s)", (options,)).fetchone()
            theirs = str(found[0]) if found else ""
        except psycopg.Error as error:
            theirs = f"{error.sqlstate} {error.diag.message_primary}"

        def ours(options: str = options) -> str:
            return headline.headline(ENGLISH, "a cat", queries.query_of("'cat'"), headline.options_of(options))

        assert outcome(ours) == theirs, options


def test_vectors_in_their_order(postgres: psycopg.Connection) -> None:
    source = random.Random(4)
    texts = sorted({vectors.parse_vector(a_vector(source)) for _ in range(300)})
    rows = postgres.execute(
        "select t::tsvector::text from unnest(%s::text[]) t order by t::tsvector", (texts,)
    ).fetchall()
    assert sorted(texts, key=vectors.sort_key) == [row[0] for row in rows]
    assert sorted(texts, key=vectors.key_bytes) == [row[0] for row in rows]
