"""The parser beside PostgreSQL's: the same texts accepted, the same errors at the same places."""

from __future__ import annotations

import random
from collections import Counter

import psycopg
import pytest

from catalog.errors import SqlError
from engine.sql import ast
from engine.sql.parser import parse, parse_expression
from engine.sql.parser.keywords import KEYWORDS
from engine.sql.parser.lexer import Scanner
from tests.engine.sql.parser.corpus import ParserOracle, Verdict, corpora, statements_of

_KEYWORD_PLACES = (
    "select {}",
    "select 1 {}",
    "select 1 as {}",
    "select 1 + 2 {} from t",
    "select {}(1)",
    "select {} 'x'",
    "select 1::{}",
    "select * from {}",
    "select * from t {}",
    "select * from t {} join u on true",
    "select * from {}(1)",
    "insert into t ({}) values (1)",
    "update t {} set a = 1",
    "create table t ({} int)",
    "create index on t ({})",
    "set {} = 1",
    "{} x",
    "drop {} x",
)


_OF_ANALYSIS = ("unnamed XML ", "XML attribute name ")  # errors that PostgreSQL finds when it analyses the tree


def _ours(sql: str) -> Verdict | None:
    """Our verdict; None where the text is refused by name, which PostgreSQL does not do."""
    try:
        refused = any(isinstance(statement.tree, ast.RefusedStmt) for statement in parse(sql))
    except SqlError as error:
        if error.message.startswith(_OF_ANALYSIS):
            return Verdict(None)
        return None if error.sqlstate == "0A000" else Verdict(error.sqlstate, error.message, error.position)
    return None if refused else Verdict(None)


def _scripts() -> list[str]:
    place = corpora()
    if place is None:
        pytest.skip("no corpora: set SHOAL_CORPORA to a directory with pg_regress")
    found = []
    for path in sorted((place / "pg_regress" / "sql").glob("*.sql")):
        found += statements_of(path.read_text("utf-8", "replace"))
    return found


def test_the_regression_tests_parse_as_in_postgresql(postgres: psycopg.Connection) -> None:
    oracle = ParserOracle(postgres)
    different = []
    statements = _scripts()
    for sql in statements:
        ours = _ours(sql)
        if ours is not None and ours != (theirs := oracle.ask(sql)):
            different.append((sql, theirs, ours))
    oracle.close()
    assert different == []
    assert len(statements) > 5_000


def test_broken_statements_fail_at_the_same_place(postgres: psycopg.Connection) -> None:
    """Statements with a token taken out, put in or exchanged. A few errors may differ in place, none in kind."""
    oracle = ParserOracle(postgres)
    chance = random.Random(20_240_601)
    statements = sorted({sql for sql in _scripts() if len(sql) < 300})
    spares = [*KEYWORDS, "(", ")", ",", "*", "1", "'x'", "x", "=", "::", "[", "||"]
    outcome: Counter[str] = Counter()
    for sql in chance.sample(statements, 1_500):
        tokens = [sql[token.start : token.end] for token in Scanner(sql).scan()[:-1]]
        at = chance.randrange(len(tokens))
        tokens[at : at + chance.randrange(2)] = [chance.choice(spares)] if chance.random() < 0.7 else []
        broken = " ".join(tokens)
        ours, theirs = _ours(broken), oracle.ask(broken)
        if ours is None:
            outcome["refused"] += 1
        elif ours == theirs:
            outcome["same"] += 1
        else:
            outcome["place" if ours.sqlstate and theirs.sqlstate else "kind"] += 1
    oracle.close()
    assert outcome["kind"] <= 2
    assert outcome["place"] <= 8
    assert outcome["same"] > 1_300


def test_keywords_are_names_where_postgresql_says(postgres: psycopg.Connection) -> None:
    oracle = ParserOracle(postgres)
    different = []
    for place in _KEYWORD_PLACES:
        for word in KEYWORDS:
            sql = place.replace("{}", word)
            ours = _ours(sql)
            if ours is not None and ours != (theirs := oracle.ask(sql)):
                different.append((sql, theirs, ours))
    oracle.close()
    assert different == []


def test_full_parentheses_mean_the_same(postgres: psycopg.Connection) -> None:
    """Random expressions without parentheses, beside the same with our tree's parentheses written out."""
    chance = random.Random(7)
    for _ in range(150):
        text = _random_expression(chance)
        try:
            written = _parenthesise(parse_expression(text))
        except SqlError:
            continue
        assert _value(postgres, text) == _value(postgres, written), (text, written)


def _random_expression(chance: random.Random) -> str:
    parts = []
    for _ in range(chance.randrange(2, 6)):
        prefix = chance.choice(("", "", "", "- ", "+ ", "@ ", "~ "))
        parts.append(prefix + str(chance.randrange(1, 9)))
        parts.append(chance.choice(("+", "-", "*", "/", "%", "^", "&", "|", "<<", "#", "|/ 4 +")))
    text = " ".join(parts[:-1])
    if chance.random() < 0.5:
        return text
    other = chance.choice((">", "<", "=", "<>", "is distinct from", "between 1 and 9 and 3 <", "in (1, 2) or 3 ="))
    return f"{chance.choice(('', 'not '))}{text} {other} {chance.randrange(9)} {chance.choice(('', 'is not true'))}"


def _parenthesise(node: ast.Node | None) -> str:
    if isinstance(node, ast.Literal):
        return f"({node.value})"
    if isinstance(node, ast.BoolExpr):
        if node.operator == "not":
            return f"(not {_parenthesise(node.arguments[0])})"
        return "(" + f" {node.operator} ".join(map(_parenthesise, node.arguments)) + ")"
    if isinstance(node, ast.BooleanTest):
        return f"({_parenthesise(node.argument)} {node.test.replace('_', ' ')})"
    assert isinstance(node, ast.Expression)
    left = _parenthesise(node.left) if node.left is not None else ""
    if isinstance(node.right, ast.ListExpr):
        items = [_parenthesise(item) for item in node.right.items]
        return (
            f"({left} between {' and '.join(items)})" if node.kind == "between" else f"({left} in ({','.join(items)}))"
        )
    operator = "is distinct from" if node.kind == "distinct" else node.operator[0]
    return f"({left} {operator} {_parenthesise(node.right)})"


def _value(postgres: psycopg.Connection, expression: str) -> object:
    try:
        row = postgres.execute(f"select {expression}".encode()).fetchone()
    except psycopg.Error as error:
        return error.sqlstate
    return row
