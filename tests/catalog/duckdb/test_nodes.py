"""DuckDB SQL as trees: their text, and what they are asked."""

from __future__ import annotations

import pytest

from catalog.duckdb.nodes import (
    Call,
    CastTo,
    ColumnReference,
    Constant,
    Entry,
    Filled,
    Identifier,
    Later,
    Null,
    Parameter,
    Raising,
    Sql,
    Steady,
    Words,
    columns_of,
    comma_list,
    constant_integer,
    constant_text,
    fill,
    has_query,
    integer,
    join_parts,
    names_later,
    replace_later,
    string,
    text_of,
    uses,
)
from catalog.duckdb.templates import DISTINCT_MARK, FILTER_MARK, ORDER_MARK, parse_template
from catalog.duckdb.types import BIGINT, BOOLEAN, INTEGER, VARCHAR, decimal_type

ONE, TWO = ColumnReference("q1", "c1"), ColumnReference("q1", "c2")


@pytest.mark.parametrize(
    ("node", "text"),
    [
        (Null(decimal_type(3, 1)), "NULL::DECIMAL(3,1)"),
        (integer(5), "5::BIGINT"),
        (integer(-5, INTEGER), "(-5)::INTEGER"),
        (string("it's"), "'it''s'::VARCHAR"),
        (string("\x01"), "('' || chr(1) || '')::VARCHAR"),
        (string("\x03"), "'\x03'::VARCHAR"),
        (Parameter(2, VARCHAR), "CAST($2 AS VARCHAR)"),
        (CastTo(ONE, BIGINT), "CAST(q1.c1 AS BIGINT)"),
        (Call("f", [ONE, 3, "TRUE"]), "f(q1.c1, 3, TRUE)"),
        (Entry("s", "a0"), "s['a0']"),
        (comma_list([ONE, TWO]), "q1.c1, q1.c2"),
        (join_parts(" OR ", []), ""),
        (fill("({} + {})", ONE, TWO), "(q1.c1 + q1.c2)"),
        (fill("{1}{0}{1}", "a", "b"), "bab"),
        (fill("{x} < {y} AND {x} > 0", x=ONE, y=TWO), "q1.c1 < q1.c2 AND q1.c1 > 0"),
        (fill("[{{'k': {}}}]", ONE), "[{'k': q1.c1}]"),
        ("SELECT " + ONE + " AS c1", "SELECT q1.c1 AS c1"),
        (Raising("'x'"), "error('x')"),
        (Steady(fill("a({})", Raising("'x'"))), "a(raise_error('x'))"),
        (Steady(fill("a(error('SHOAL:22012:x'))")), "a(raise_error('SHOAL:22012:x'))"),
        (
            Steady(fill("a(error('other'), {})", string("error('SHOAL:"))),
            "a(error('other'), 'error(''SHOAL:'::VARCHAR)",
        ),
    ],
)
def test_text_is_made_of_the_whole_tree(node: Sql, text: str) -> None:
    assert text_of(node) == text


def test_trees_have_no_text_of_their_own() -> None:
    with pytest.raises(TypeError):
        f"{ONE}"
    with pytest.raises(TypeError):
        str(ONE)


def test_a_template_of_nothing_but_an_argument_is_the_argument() -> None:
    assert fill("{0}", ONE) is ONE


def test_a_template_of_nothing_but_null_is_null() -> None:
    found = fill("NULL::DECIMAL(3,1)", ONE)
    assert isinstance(found, Null) and found.type == decimal_type(3, 1)
    assert not isinstance(fill("NULL::{}", "VARCHAR"), Null)
    assert not isinstance(fill("NULL::VARCHAR || 'a'"), Null)


def test_constants_tell_their_values() -> None:
    assert constant_text(string("it's")) == "it's"
    assert constant_text(CastTo(string("a"), VARCHAR)) == "a"
    assert constant_text(integer(5)) is None
    assert constant_text(fill("{} || ''", string("a"))) is None
    assert constant_integer(integer(5)) == 5
    assert constant_integer(Constant("TRUE", True, BOOLEAN)) is None
    assert constant_integer(ONE) is None


def test_names_and_plain_constants_are_simple() -> None:
    simple = [ONE, Identifier("x"), Entry("s", "a0"), integer(5), string("a"), Words("TRUE")]
    assert all(node.is_simple for node in simple)
    others = [integer(-5), string("it's"), Null(BIGINT), Parameter(1, BIGINT), CastTo(ONE, BIGINT), fill("({})", ONE)]
    assert not any(node.is_simple for node in others)


def test_columns_are_found_wherever_they_stand() -> None:
    node = Call("f", [CastTo(ONE, BIGINT), fill("(SELECT {0} = {0})", TWO), string("q1.c3")])
    assert {item.name for item in columns_of(node)} == {"c1", "c2"}


def test_a_tree_of_many_uses_is_walked_once() -> None:
    node: Sql = ONE
    for _ in range(64):
        node = fill("({0} + {0})", node)
    assert list(columns_of(node)) == [ONE]
    assert names_later(node) == set()
    assert not has_query(node)


def test_marks_of_aggregates_are_replaced() -> None:
    node = fill(f"sum({DISTINCT_MARK}{{0}}{ORDER_MARK}){FILTER_MARK}", ONE)
    assert isinstance(node, Filled) and node.template.is_marked
    assert text_of(node) == "sum(q1.c1)"
    assert (
        text_of(node.with_marks("DISTINCT ", " ORDER BY " + TWO, " OVER ()"))
        == "sum(DISTINCT q1.c1 ORDER BY q1.c2) OVER ()"
    )


def test_a_mark_in_a_constant_is_none() -> None:
    node = fill(f"f({{0}}){FILTER_MARK}", string(FILTER_MARK))
    assert isinstance(node, Filled)
    assert text_of(node.with_marks("", "", " OVER ()")) == "f('/*filter*/'::VARCHAR) OVER ()"


def test_templates_count_their_uses() -> None:
    template = parse_template("CASE WHEN {0} > 0 THEN {0} ELSE {1} END")
    assert template.uses == (2, 1)
    assert template.repeats
    assert not parse_template("({} + {})").repeats


def test_templates_have_slots_of_one_kind() -> None:
    with pytest.raises(ValueError, match="named and numbered"):
        parse_template("{a} + {}")


def test_later_names_are_replaced_and_counted() -> None:
    node = fill("({} + list_transform([{}], lambda x: {}))", Later("a"), Later("b"), Later("c"))
    assert [(later.name, in_loop) for later, in_loop in uses(node)] == [("a", False), ("b", False), ("c", True)]
    assert names_later(node) == {"a", "b", "c"}
    assert text_of(replace_later(node, lambda later: ColumnReference("q", later.name))) == (
        "(q.a + list_transform([q.b], lambda x: q.c))"
    )
    with pytest.raises(AssertionError):
        text_of(node)


def test_queries_are_loops_and_literals_are_none() -> None:
    body = fill("SELECT {} FROM t", ONE)
    assert has_query(fill("({})", body))
    assert has_query(fill("EXISTS (SELECT 1)"))
    assert not has_query(fill("'(SELECT ' || {}", string("(SELECT ")))
    node = fill("{} IN ({}) AND {}", Later("a"), body, Later("b"))
    assert [in_loop for _, in_loop in uses(node)] == [False, True]
