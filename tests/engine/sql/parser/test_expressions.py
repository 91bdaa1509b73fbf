"""Expressions: precedence, spellings and values, as short trees."""

from __future__ import annotations

import pytest

from catalog.errors import SqlError
from engine.sql import ast
from engine.sql.parser import parse_expression, parse_type_name
from tests.engine.sql.parser.shape import shape

_PRECEDENCE = {
    "1 + 2 * 3": "(+ 1 (* 2 3))",
    "(1 + 2) * 3": "(* (+ 1 2) 3)",
    "1 - 2 - 3": "(- (- 1 2) 3)",
    "2 ^ 3 ^ 2": "(^ (^ 2 3) 2)",
    "-2 ^ 2": "(^ -2 2)",
    "- a ^ 2": "(^ (- a) 2)",
    "-1::int2": "(- (cast 1 int2))",
    "- -5": "5",
    "-9223372036854775808": "-9223372036854775808",
    "a or b and not c = d": "(or a (and b (not (= c d))))",
    "a and b and (c and d)": "(and a b (and c d))",
    "a = b is null": "NullTest(argument=(= a b), is_null=True)",
    "not a is not null": "(not NullTest(argument=a, is_null=False))",
    "a is null = b": "(= NullTest(argument=a, is_null=True) b)",
    "a is not distinct from b or c": "(or (not_distinct a b) c)",
    "a || b + c": "(|| a (+ b c))",
    "@ -5 + a": "(@ (+ -5 a))",
    "~ 1 & 2": "(& (~ 1) 2)",
    "a < b || c": "(< a (|| b c))",
    "a between 1 and 2 and c": "(and (between a [1 2]) c)",
    "a not between symmetric 1 + 1 and 2": "(not_between_sym a [(+ 1 1) 2])",
    "a + b in (1, 2)": "(in (+ a b) [1 2])",
    "a in (1) in (true)": "(in (in a [1]) [true])",
    "a not like 'x' || b": "(not_like a (|| 'x' b))",
    "a like 'x' escape '!'": "(like a like_escape('x', '!'))",
    "a similar to 'x'": "(similar a similar_to_escape('x'))",
    "a = any (b)": "(op_any a b)",
    "a < all ((b))": "(op_all a b)",
    "a ~~ some ('{x}')": "(op_any a '{x}')",
    "a at time zone 'UTC' + b": "(+ timezone('UTC', a) b)",
    'a collate "C" < b': "(< CollateClause(argument=a, collation=[C]) b)",
    "a::int::text": "(cast (cast a @int4) text)",
    "a operator(pg_catalog.+) b * c": "(pg_catalog.+ a (* b c))",
    "a<-1": "(< a -1)",
    "a @-1": "(@- a 1)",
    "x=-1": "(= x -1)",
    "a->'b'->>'c'": "(->> (-> a 'b') 'c')",
    "a !~~* b": "(!~~* a b)",
    "a <> b": "(<> a b)",
    "a != b": "(<> a b)",
    "a isnull notnull": "NullTest(argument=NullTest(argument=a, is_null=True), is_null=False)",
    "a is not unknown": "BooleanTest(argument=a, test=is_not_unknown)",
}

_FORMS = {
    "a.b.c": "a.b.c",
    "t.*": "t.*",
    "a[1].b[2:]": (
        "Indirection(argument=a, steps=[Subscript(is_slice=False, lower=None, upper=1) b "
        "Subscript(is_slice=True, lower=2, upper=None)])"
    ),
    "(a).b": "Indirection(argument=a, steps=[b])",
    "array[[1, 2], [3]]": "ArrayExpr(elements=[ArrayExpr(elements=[1 2]) ArrayExpr(elements=[3])])",
    "(1, 'b')": "RowExpr(elements=[1 'b'])",
    "row()": "RowExpr(elements=[], explicit=True)",
    "case a when 1 then 'x' else 'y' end": (
        "CaseExpr(argument=a, whens=[CaseWhen(condition=1, result='x')], default='y')"
    ),
    "coalesce(a, 1)": "CoalesceExpr(arguments=[a 1])",
    "greatest(a, 1)": "MinMaxExpr(operator=greatest, arguments=[a 1])",
    "nullif(a, 1)": "(nullif a 1)",
    "cast(a as numeric(10,2))": "(cast a @numeric(10,2))",
    "date '2020-01-01'": "(cast '2020-01-01' date)",
    "interval '1' day to second(3)": "(cast '1' @interval(7176,3))",
    "interval(2) '1 s'": "(cast '1 s' @interval(32767,2))",
    "char 'abc'": "(cast 'abc' @bpchar)",
    "double precision '1'": "(cast '1' @float8)",
    "f(a => 1, variadic b)": ("FuncCall(names=[f], arguments=[1 b], argument_names=[a None], variadic=True)"),
    "count(*)": "FuncCall(names=[count], star=True)",
    "count(distinct a)": "FuncCall(names=[count], arguments=[a], distinct=True)",
    "f(a order by b desc nulls last)": (
        "FuncCall(names=[f], arguments=[a], order_by=[SortBy(expression=b, direction=desc, nulls=last)])"
    ),
    "sum(a) filter (where b) over w": ("FuncCall(names=[sum], arguments=[a], filter=b, over=WindowDef(name=w))"),
    "extract(year from a)": "extract('year', a)",
    "position('a' in b)": "position(b, 'a')",
    "substring(a from 2 for 3)": "substring(a, 2, 3)",
    "substring(a for 3)": "substring(a, 1, (cast 3 @int4))",
    "substring(a similar 'x' escape '#')": "substring(a, 'x', '#')",
    "substring(a, 2)": "substring(a, 2)",
    "overlay(a placing b from 2)": "overlay(a, b, 2)",
    "trim(leading 'x' from a)": "ltrim(a, 'x')",
    "trim(a)": "btrim(a)",
    "current_timestamp(3)": "SqlValueFunction(name=current_timestamp, precision=3)",
    "collation for (a)": "pg_collation_for(a)",
    "(a, b) overlaps (c, d)": "overlaps(a, b, c, d)",
    "left('abc', 1)": "left('abc', 1)",
    "$1 + $12": "(+ $1 $12)",
    "1e5": "1e5",
    ".5": ".5",
    "1.": "1.",
    "null": "none",
}

_TYPES = {
    "character varying(10)": "@varchar(10)",
    "char": "@bpchar(1)",
    '"char"': "char",
    "national character(3)": "@bpchar(3)",
    "double precision": "@float8",
    "float(24)": "@float4",
    "float(25)": "@float8",
    "timestamp(3) with time zone": "@timestamptz(3)",
    "time without time zone": "@time",
    "bit": "@bit(1)",
    "bit varying(5)": "@varbit(5)",
    "interval year to month": "@interval(6)",
    "interval second(2)": "@interval(4096,2)",
    "numeric(10,2)[]": "@numeric(10,2)[]",
    "int[3][4]": "@int4[][]",
    "int array[4]": "@int4[]",
    "s.Foo(1)": "s.foo(1)",
    "dec": "@numeric",
    "bigint": "@int8",
}


@pytest.mark.parametrize(("text", "expected"), (_PRECEDENCE | _FORMS).items(), ids=str)
def test_expression(text: str, expected: str) -> None:
    assert shape(parse_expression(text)) == expected


@pytest.mark.parametrize(("text", "expected"), _TYPES.items(), ids=str)
def test_type_name(text: str, expected: str) -> None:
    assert shape(parse_type_name(text)) == expected


@pytest.mark.parametrize("text", ["a < b < c", "a like b like c", "a is distinct from b is null", "a = b = c"])
def test_operators_without_associativity_do_not_chain(text: str) -> None:
    with pytest.raises(SqlError) as caught:
        parse_expression(text)
    assert caught.value.sqlstate == "42601"


def test_numbers_are_integers_while_they_fit_int8() -> None:
    for text, kind in (("9223372036854775807", "integer"), ("9223372036854775808", "float"), ("1.0", "float")):
        literal = parse_expression(text)
        assert isinstance(literal, ast.Literal)
        assert (literal.kind, literal.value) == (kind, text)
    lowest = parse_expression("-9223372036854775808")
    assert isinstance(lowest, ast.Literal)
    assert lowest.kind == "integer"


def test_locations_point_at_operators_names_and_literals() -> None:
    tree = parse_expression("abc + f(1)")
    assert isinstance(tree, ast.Expression)
    assert tree.location == 4
    assert tree.left is not None
    assert tree.left.location == 0
    assert tree.right is not None
    assert tree.right.location == 6
