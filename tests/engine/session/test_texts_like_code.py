"""A text is a text, whatever it looks like: nothing of a plan, of generated Python or of generated SQL is told by
searching for words that a constant may hold as well."""

from __future__ import annotations

import re
from itertools import product

import pytest

from tests.engine.session.conftest import Pair
from tests.samples import some

TEXTS = (
    "q1 q2 q3 q4 q5 q6 q7 q8 q9 q10 q11 q12", "(SELECT 1) lambda x: x", "memory.row(1) large(2) get(3) scan(4)",
    "n += 1 nonlocal n", "NULL::VARCHAR", "p1 = parameters; context.call", "{0} {t1} {} %s %(a)s $1 ?", "\\x01\\x02 \\",
    "t1 v1 w1 l0 c1 t.c1", "'' || chr(1) || ''", "\x01t1\x02 \x03 \x04q1\x05", "random() nextval('s') AS OF LSN 1",
    "-- /* */ ; \"a\"", "metered raise NotSmall", "unnest(list_transform([1], lambda q1: q1))",
)  # fmt: skip
# `v` is equal to 'a', and nobody knows when the statement is planned; {x} is the text, as a literal.
EXPRESSIONS = (
    "{x}", "v || {x}", "{x} || v", "nullif(v, {x}) || {x}", "coalesce(nullif(v, 'a'), {x}) || {x}",
    "v in ({x}, 'a', 'b')", "v = any (array[{x}, 'a'])", "case v when {x} then {x} when 'a' then v || {x} end",
    "case when v < {x} then {x} else v end || {x}", "greatest(v, {x}, 'a')", "replace({x}, v, {x})",
    "concat_ws(v, {x}, v, {x})", "array[v, {x}]", "row(v, {x})::text", "to_jsonb(v || {x})", "md5({x} || v)",
    "jsonb_build_object(v, {x})", "{x} like v || '%'", "position(v in {x})", "split_part({x}, v, 1)",
    "format('%s', {x})",
    "(select max(w || {x}) from (values (v)) y(w))", "{x} is distinct from v", "upper({x}) || lower({x})",
    "string_agg(v, {x} order by v) over (partition by v || {x})", "('a' || {x})::varchar(8)", "{x}::bytea is null",
)  # fmt: skip
STABLE = "chr(97 + (i - i))"
VOLATILE = "chr(97 + floor(random())::int)"


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


@pytest.mark.parametrize(("text", "v"), some(product(TEXTS, (STABLE, VOLATILE)), 7))
def test_no_text_is_taken_for_code(both_paths: Pair, text: str, v: str) -> None:
    both_paths.run("create table t (i int primary key)", "insert into t values (1), (2), (3)")
    for expression in EXPRESSIONS:
        if "::bytea" in expression and "\\" in text:
            continue
        written = expression.format(x=literal(text))
        both_paths.same(f"select {written} from (select {v} as v from t) t")
        if v is VOLATILE:
            both_paths.same(f"select {inlined(expression, v).format(x=literal(text))} from t")


def inlined(expression: str, v: str) -> str:
    """The expression with the value itself in place of `v`."""
    return re.sub(r"\bv\b", v.replace("{", "{{"), expression)
