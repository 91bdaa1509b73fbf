"""What the analysed tree looks like where the answer is not visible in names and types."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from catalog.catalog import Catalog
from catalog.errors import SqlError
from catalog.schema import Column, Constraint, Schema, Table
from catalog.schema import Sequence as SequenceObject
from catalog.types.base import TypeRef
from engine.sql import tree
from engine.sql.analyze import Environment, analyze, analyze_expression, resolve_type
from engine.sql.parser import parse, parse_expression, parse_type_name

INT4, TEXT = TypeRef(23), TypeRef(25)
TABLE = Table(
    16400,
    2200,
    "t",
    (
        Column(1, "id", INT4, True, sequence=16399, default="nextval('public.t_id_seq'::regclass)"),
        Column(2, "b", TEXT, default="'x'"),
        Column(4, "k", INT4, identity="a", sequence=16398),
        Column(5, "g", INT4, generated="id * 2"),
    ),
    16400,
    key_columns=(1,),
    constraints=(Constraint(16405, "b_check", "c", check="b <> ''"),),
)
CATALOG = Catalog().with_changes(
    {
        2200: Schema(2200, 5, "public"),
        16400: TABLE,
        16399: SequenceObject(16399, 2200, "t_id_seq", 16399),
        16398: SequenceObject(16398, 2200, "t_k_seq", 16398),
    }
)
ENVIRONMENT = Environment(CATALOG)


def analysed(sql: str, types: Sequence[int] = ()) -> tree.Query | tree.Insert | tree.Update | tree.Delete:
    (statement,) = parse(sql)
    return analyze(statement.tree, ENVIRONMENT, types).statement


def selected(expression: str) -> tree.Expr:
    found = analysed(f"SELECT {expression} FROM t")
    assert isinstance(found, tree.Query)
    return found.targets[0].expression


def test_insert_fills_every_column_in_table_order() -> None:
    found = analysed("INSERT INTO t (b) VALUES ('y'), (DEFAULT)")
    assert isinstance(found, tree.Insert)
    first, second = found.rows
    narrowed = first[0]
    assert isinstance(narrowed, tree.FuncExpr) and narrowed.function.name == "int4"
    call = narrowed.arguments[0]
    assert isinstance(call, tree.FuncExpr) and call.function.name == "nextval"
    assert call.arguments == (tree.Const(16399, TypeRef(2205)),)
    assert first[1] == tree.Const("y", TEXT) and second[1] == tree.Const("x", TEXT)
    assert first[2] == tree.NextValueExpr(16398, INT4)
    assert [item.column for item in found.generated] == [5]
    assert [name for name, _ in found.checks] == ["b_check"]


def test_insert_with_a_subquery_in_values_has_a_source() -> None:
    found = analysed("INSERT INTO t (b) VALUES ((SELECT max(b) FROM t))")
    assert isinstance(found, tree.Insert)
    assert found.source is not None and found.rows == () and found.source_columns == (2,)
    assert [item.column for item in found.defaults] == [1, 4]


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("INSERT INTO t (k) VALUES (1)", 'cannot insert a non-DEFAULT value into column "k"'),
        ("INSERT INTO t (g) VALUES (1)", 'cannot insert a non-DEFAULT value into column "g"'),
        ("INSERT INTO t (k) SELECT 1", 'cannot insert a non-DEFAULT value into column "k"'),
        ("UPDATE t SET k = 1", 'column "k" can only be updated to DEFAULT'),
        ("UPDATE t SET g = 1", 'column "g" can only be updated to DEFAULT'),
    ],
)
def test_generated_columns_take_no_values(sql: str, message: str) -> None:
    with pytest.raises(SqlError) as raised:
        analysed(sql)
    assert (raised.value.sqlstate, raised.value.message) == ("428C9", message)


def test_overriding_system_value_lets_identity_through() -> None:
    found = analysed("INSERT INTO t (k) OVERRIDING SYSTEM VALUE VALUES (7)")
    assert isinstance(found, tree.Insert)
    assert found.rows[0][2] == tree.Const(7, INT4)


def test_in_list_of_constants_is_one_array_comparison() -> None:
    found = selected("id IN (1, 2, 3)")
    assert isinstance(found, tree.ScalarArrayOp) and isinstance(found.right, tree.ArrayExpr)
    mixed = selected("id IN (1, 2, k)")
    assert isinstance(mixed, tree.BoolExpr) and isinstance(mixed.arguments[0], tree.ScalarArrayOp)


def test_literals_are_read_where_their_type_is_known() -> None:
    call = selected("id = '17'")
    assert isinstance(call, tree.FuncExpr) and call.arguments[1] == tree.Const(17, INT4)
    with pytest.raises(SqlError) as raised:
        selected("id = 'x7'")
    assert (raised.value.sqlstate, raised.value.position) == ("22P02", 13)


def test_group_by_expression_equals_target_wherever_it_is_written() -> None:
    found = analysed("SELECT id + 1, count(*) FROM t GROUP BY id + 1")
    assert isinstance(found, tree.Query) and found.group_by == (found.targets[0].expression,)


def test_query_knows_when_it_is_volatile() -> None:
    for sql, volatile in (("SELECT random()", True), ("SELECT now()", False), ("SELECT (SELECT random())", True)):
        found = analysed(sql)
        assert isinstance(found, tree.Query) and found.volatile is volatile


def test_union_casts_its_leaves() -> None:
    found = analysed("SELECT id FROM t UNION ALL SELECT 1.5")
    assert isinstance(found, tree.Query) and found.set_operation is not None
    leaf = found.range_table[0]
    assert isinstance(leaf, tree.RangeSubquery)
    assert leaf.query.targets[0].expression.type.oid == 1700 == found.targets[0].expression.type.oid


def test_expressions_outside_of_queries() -> None:
    assert analyze_expression(parse_expression("'5'"), ENVIRONMENT, None, INT4) == tree.Const(5, INT4)
    check = analyze_expression(parse_expression("id > 0"), ENVIRONMENT, TABLE, TypeRef(16))
    assert isinstance(check, tree.FuncExpr) and check.arguments[0] == tree.Var(0, 1, INT4, 0, "id")
    with pytest.raises(SqlError) as raised:
        analyze_expression(parse_expression("id"), ENVIRONMENT, None, INT4)
    assert raised.value.message == "cannot use column reference in DEFAULT expression"
    with pytest.raises(SqlError) as raised:
        analyze_expression(parse_expression("now()"), ENVIRONMENT, None, INT4)
    assert raised.value.sqlstate == "42804"


def test_type_names() -> None:
    assert resolve_type(parse_type_name("varchar(10)"), ENVIRONMENT) == TypeRef(1043, 14)
    assert resolve_type(parse_type_name("numeric(10,2)[]"), ENVIRONMENT) == TypeRef(1231, 655366)
    with pytest.raises(SqlError) as raised:
        resolve_type(parse_type_name("nothing"), ENVIRONMENT)
    assert (raised.value.sqlstate, raised.value.message) == ("42704", 'type "nothing" does not exist')
