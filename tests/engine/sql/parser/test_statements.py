"""Statements: what each clause becomes, what is refused by name, and where errors point."""

from __future__ import annotations

import pytest

from catalog.errors import SqlError
from engine.sql import ast
from engine.sql.parser import parse, parse_select
from tests.engine.sql.parser.shape import shape

_SHAPES = {
    "select": "SelectStmt()",
    "select a, b as c, d e from t": (
        "SelectStmt(targets=[ResTarget(expression=a) ResTarget(expression=b, name=c) ResTarget(expression=d, name=e)], "
        "from_clause=[RangeVar(catalog=None, schema=None, name=t)])"
    ),
    "select 1 is": "SelectStmt(targets=[ResTarget(expression=1, name=is)])",
    "values (1, default)": "SelectStmt(values=[[1 SetToDefault()]])",
    "select distinct on (a) a": "SelectStmt(targets=[ResTarget(expression=a)], distinct=[a])",
    "select group by (), rollup (a), grouping sets ((a, b), ())": (
        "SelectStmt(group_by=[GroupingSet(kind=empty) GroupingSet(kind=rollup, content=[a]) "
        "GroupingSet(kind=sets, content=[RowExpr(elements=[a b]) GroupingSet(kind=empty)])])"
    ),
    "select order by a using <, b desc limit all offset 2 rows": (
        "SelectStmt(order_by=[SortBy(expression=a, direction=using, using=[<]) SortBy(expression=b, direction=desc)], "
        "limit=none, offset=2)"
    ),
    "select order by a fetch first 3 rows with ties": (
        "SelectStmt(order_by=[SortBy(expression=a)], limit=3, limit_with_ties=True)"
    ),
    "select for no key update of t skip locked": (
        "SelectStmt(locking=[LockingClause(strength=no key update, of=[t], wait=skip locked)])"
    ),
    "begin isolation level serializable, read only not deferrable": (
        "TransactionStmt(kind=begin, isolation=serializable, read_only=True, deferrable=False)"
    ),
    "do $$ begin end $$": "DoStmt(language=plpgsql, body= begin end , literal=[3 $$ begin end $$])",
    "do language sql 'x'": "DoStmt(language=sql, body=x, literal=[16 'x'])",
    "rollback and chain": "TransactionStmt(kind=rollback, chain=True)",
    "rollback to savepoint a": "TransactionStmt(kind=rollback_to, name=a)",
    "release savepoint": "TransactionStmt(kind=release, name=savepoint)",
    "prepare transaction 'x'": "TransactionStmt(kind=prepare, name=x)",
    "set search_path to a, 'B'": "SetStmt(name=search_path, values=[a B])",
    "set local x.y = -1.5": "SetStmt(name=x.y, values=[-1.5], local=True)",
    "set time zone 'UTC'": "SetStmt(name=timezone, values=[UTC])",
    "set names 'utf8'": "SetStmt(name=client_encoding, values=[utf8])",
    "set session authorization default": "SetStmt(name=session_authorization)",
    "set role none": "SetStmt(name=role, values=[none])",
    "set transaction read only": ("SetStmt(name=TRANSACTION, modes=TransactionStmt(kind=set, read_only=True))"),
    "reset all": "SetStmt(name=all, reset=True)",
    "show transaction isolation level": "ShowStmt(name=transaction_isolation)",
    "prepare p (int, text) as delete from t": (
        "PrepareStmt(name=p, types=[@int4 text], "
        "query=DeleteStmt(relation=RangeVar(catalog=None, schema=None, name=t)))"
    ),
    "execute p(1)": "ExecuteStmt(name=p, arguments=[1])",
    "deallocate prepare all": "DeallocateStmt(name=None)",
    "declare c binary no scroll cursor with hold for select": (
        "DeclareCursorStmt(name=c, query=SelectStmt(), options=[binary no scroll hold])"
    ),
    "fetch backward 3 from c": "FetchStmt(cursor=c, direction=backward, count=3)",
    "move all in c": "FetchStmt(cursor=c, count=None, move=True)",
    "fetch next": "FetchStmt(cursor=next)",
    "close all": "ClosePortalStmt(name=None)",
    "explain (analyze, format json) select": ("ExplainStmt(query=SelectStmt(), options=[[analyze ] [format json]])"),
    "copy t (a, b) from stdin with (format csv, header, force_null (a))": (
        "CopyStmt(relation=RangeVar(catalog=None, schema=None, name=t), query=None, columns=[a b], is_from=True, "
        "options=[[format csv] [header True] [force_null [a]]])"
    ),
    "copy (select) to 'f' delimiter '|' csv": (
        "CopyStmt(relation=None, query=SelectStmt(), columns=[], is_from=False, filename=f, "
        "options=[[delimiter |] [format csv]])"
    ),
    "lock table only t in share row exclusive mode nowait": (
        "LockStmt(relations=[RangeVar(catalog=None, schema=None, name=t, only=True)], "
        "mode=share row exclusive, nowait=True)"
    ),
    "notify a, 'b'": "NotifyStmt(kind=notify, channel=a, payload=b)",
    "truncate a, b restart identity cascade": (
        "TruncateStmt(relations=[RangeVar(catalog=None, schema=None, name=a) "
        "RangeVar(catalog=None, schema=None, name=b)], restart_identity=True, cascade=True)"
    ),
    "drop table if exists a.b, c cascade": "DropStmt(kind=table, names=[[a b] [c]], if_exists=True, cascade=True)",
    "drop function f(a int, text)": "DropFunctionStmt(kind=function, signatures=["
    "FunctionSignature(name=[f], parameters=[FunctionParameter(name=a, type=@int4) "
    "FunctionParameter(name=, type=text)])])",
    "create schema if not exists s authorization u": "CreateSchemaStmt(name=s, owner=u, if_not_exists=True)",
    "create role r superuser login password 'x' in role a": (
        "RoleStmt(action=create, kind=role, names=[r], "
        "options=[[superuser True] [login True] [password x] [in_role [a]]])"
    ),
    "grant select (a), update on t to u with grant option": (
        "GrantStmt(is_grant=True, object_kind=table, privileges=[[select [a]] [update []]], objects=[[t]], "
        "grantees=[u], grant_option=True)"
    ),
    "revoke all privileges on all tables in schema s from public cascade": (
        "GrantStmt(is_grant=False, object_kind=all_tables, privileges=[[all []]], objects=[[s]], "
        "grantees=[public], cascade=True)"
    ),
    "grant a to b": ("GrantStmt(is_grant=True, object_kind=role, privileges=[[a []]], objects=[], grantees=[b])"),
    "comment on column t.a is 'x'": "CommentStmt(kind=column, names=[t a], text=x)",
    "alter table t rename column a to b": (
        "RenameStmt(kind=column, relation=RangeVar(catalog=None, schema=None, name=t), name=a, new_name=b)"
    ),
    "alter table t set schema s": (
        "AlterObjectSchemaStmt(kind=table, relation=RangeVar(catalog=None, schema=None, name=t), schema=s)"
    ),
    "alter sequence s restart with 5 no cycle": (
        "SequenceStmt(relation=RangeVar(catalog=None, schema=None, name=s), "
        "options=[[restart 5] [cycle False]], create=False)"
    ),
    "create tablespace ts location '/d'": "TablespaceStmt(action=create, name=ts, directory=/d)",
    "drop database d with (force)": "DropDatabaseStmt(name=d, force=True)",
    "refresh materialized view concurrently v with no data": (
        "RefreshMatViewStmt(relation=RangeVar(catalog=None, schema=None, name=v), concurrently=True, with_data=False)"
    ),
}


def _tree(sql: str) -> ast.Node:
    (statement,) = parse(sql)
    return statement.tree


@pytest.mark.parametrize(("sql", "expected"), _SHAPES.items(), ids=str)
def test_statement(sql: str, expected: str) -> None:
    assert shape(_tree(sql)) == expected


def test_set_operations_bind_like_postgresql() -> None:
    tree = parse_select("select 1 union select 2 intersect all select 3 except (select 4 order by 1) limit 1")
    assert tree.set_operation == "except"
    assert tree.limit is not None
    assert tree.left is not None
    assert tree.left.set_operation == "union"
    assert tree.left.right is not None
    assert (tree.left.right.set_operation, tree.left.right.all) == ("intersect", True)
    assert tree.right is not None
    assert len(tree.right.order_by) == 1


def test_joins_nest_from_the_left_and_wait_for_their_conditions() -> None:
    (join,) = parse_select("select from a join b left join c using (x) on true natural full join d").from_clause
    assert isinstance(join, ast.JoinExpr)
    assert (join.kind, join.natural) == ("full", True)
    assert isinstance(join.left, ast.JoinExpr)
    assert isinstance(join.left.right, ast.JoinExpr)
    assert (join.left.right.kind, join.left.right.using) == ("left", ("x",))


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("((select 1))", ast.SubLink),
        ("((select 1) + 1)", ast.Expression),
        ("((select 1), 2)", ast.RowExpr),
        ("((select 1) union (select 2))", ast.SubLink),
        ("(((1)))", ast.Literal),
        ("((select 1)::text)", ast.TypeCast),
        ("((select a).b)", ast.Indirection),
    ],
)
def test_parentheses_hold_queries_or_expressions(text: str, kind: type) -> None:
    (target,) = parse_select(f"select {text}").targets
    assert isinstance(target.expression, kind)


def test_create_table_holds_columns_and_constraints() -> None:
    tree = _tree(
        "create temp table if not exists s.t (id bigint generated always as identity (start 5) primary key,"
        " a varchar(10) collate \"C\" not null default lower('X') || 1 check (a <> '') no inherit,"
        " b int references u (x) match full on delete set null on update cascade deferrable initially deferred,"
        " constraint k unique nulls not distinct (a, b) include (id) with (fillfactor = 70),"
        " foreign key (a) references v not valid, like w including all excluding indexes) on commit drop"
    )
    assert isinstance(tree, ast.CreateStmt)
    assert (tree.persistence, tree.if_not_exists, tree.on_commit) == ("t", True, "drop")
    identity, text, reference, unique, foreign, like = tree.elements
    assert isinstance(identity, ast.ColumnDef)
    assert [each.kind for each in identity.constraints] == ["identity", "primary"]
    assert identity.constraints[0].sequence_options == (("start", 5),)
    assert isinstance(text, ast.ColumnDef)
    assert text.collation == ("C",)
    assert [(each.kind, each.expression_text) for each in text.constraints] == [
        ("not_null", ""),
        ("default", "lower('X') || 1"),
        ("check", "a <> ''"),
    ]
    assert text.constraints[2].no_inherit
    assert isinstance(reference, ast.ColumnDef)
    (constraint,) = reference.constraints
    assert (constraint.match, constraint.on_delete, constraint.on_update) == ("f", "n", "c")
    assert constraint.deferrable
    assert constraint.initially_deferred
    assert isinstance(unique, ast.ConstraintDef)
    assert (unique.name, unique.columns, unique.include) == ("k", ("a", "b"), ("id",))
    assert unique.nulls_not_distinct
    assert unique.options == (("fillfactor", "70"),)
    assert isinstance(foreign, ast.ConstraintDef)
    assert foreign.not_valid
    assert isinstance(like, ast.LikeClause)
    assert "indexes" not in like.including
    assert "defaults" in like.including


def test_alter_table_commands() -> None:
    tree = _tree(
        "alter table only t add column if not exists a int default 1, drop column b cascade,"
        " alter c type text using c::text, alter c set default 1 + 2, alter c drop not null,"
        " add constraint k check (a > 0) not valid, drop constraint if exists l, owner to u, set (fillfactor = 50)"
    )
    assert isinstance(tree, ast.AlterTableStmt)
    assert [command.action for command in tree.commands] == [
        "add_column",
        "drop_column",
        "alter_type",
        "set_default",
        "drop_not_null",
        "add_constraint",
        "drop_constraint",
        "owner",
        "set_options",
    ]
    assert tree.commands[2].definition_text == "c::text"
    assert tree.commands[3].definition_text == "1 + 2"
    assert tree.commands[0].definition_text == "a int default 1"


def test_insert_with_conflict_clause_and_returning() -> None:
    tree = _tree(
        "with w as (select 1) insert into t as x (a, b[1]) overriding user value select * from w"
        " on conflict (lower(a), b) where b > 0 do update set (a, b) = (select 1, 2), c = default where x.a = 1"
        " returning *"
    )
    assert isinstance(tree, ast.InsertStmt)
    assert tree.with_clause is not None
    assert tree.overriding == "user"
    assert tree.on_conflict is not None
    assert tree.on_conflict.infer is not None
    assert [each.name for each in tree.on_conflict.infer.elements] == [None, "b"]
    assert [type(each) for each in tree.on_conflict.assignments] == [ast.MultiAssign, ast.ResTarget]
    assert len(tree.returning) == 1


def test_merge() -> None:
    tree = _tree(
        "merge into t using u on t.a = u.a when matched and u.b then update set a = 1 when matched then delete"
        " when not matched then insert (a) values (1) when not matched then do nothing"
    )
    assert isinstance(tree, ast.MergeStmt)
    assert [(each.matched, each.action) for each in tree.whens] == [
        (True, "update"),
        (True, "delete"),
        (False, "insert"),
        (False, "nothing"),
    ]


def test_many_statements_keep_their_place_in_the_text() -> None:
    first, second = parse("  select $2 ;; -- c\n select 1 + $1;")
    assert (first.text, first.offset, first.parameters) == ("select $2", 2, 2)
    assert (second.text, second.offset, second.parameters) == ("select 1 + $1", 21, 1)
    assert parse(" ; -- nothing") == ()


@pytest.mark.parametrize(
    ("sql", "what"),
    [
        ("create rule r as on insert to t do (select 1; select 2)", "a rule with SELECT as an action"),
        ("create operator class x for type int using btree as operator 1 <", "CREATE OPERATOR CLASS"),
    ],
)
def test_known_statements_without_a_tree_are_named(sql: str, what: str) -> None:
    (statement,) = parse(sql + "; ")
    assert isinstance(statement.tree, ast.RefusedStmt)
    assert statement.tree.what == what


def test_deep_nesting_works_or_is_54001() -> None:
    for depth in (50, 500, 20_000):
        try:
            parse("select " + "(" * depth + "1" + ")" * depth)
        except SqlError as error:
            assert error.sqlstate == "54001"
            assert depth > 50


def test_long_lists_are_no_nesting() -> None:
    (statement,) = parse("select 1 where a in (" + ",".join(["1"] * 20_000) + ")")
    assert isinstance(statement.tree, ast.SelectStmt)
    parse("select " + " and ".join(["a"] * 5_000) + "+1" * 5_000)
