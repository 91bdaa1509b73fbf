"""Cursors: WHERE CURRENT OF, scrolling, savepoints, what pg_cursors shows; beside PostgreSQL."""

from __future__ import annotations

import psycopg
import pytest

from tests.engine.session.conftest import Pair

TABLES = (
    "create table keyless (n int, t text)",
    "insert into keyless values (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd')",
    "create table keyed (area text, id int, t text, primary key (area, id))",
    "insert into keyed values ('', 1, 'a'), ('x', 1, 'b'), ('x', 2, 'c'), ('y', 7, null)",
)


def test_update_and_delete_where_current_of(both_paths: Pair) -> None:
    both_paths.run(*TABLES)
    for table in ("keyless", "keyed"):
        both_paths.same(
            "begin",
            f"declare c cursor for select t from {table}",
            "fetch 2 from c",
            f"update {table} set t = t || '!' where current of c returning *",
            f"update {table} set t = t || '?' where current of c",
            f"select * from {table}",
            "fetch 1 from c",
            f"delete from {table} where current of c returning *",
            f"delete from {table} where current of c",
            f"update {table} set t = 'gone' where current of c",
            "fetch all from c",
            "move backward all in c",
            "fetch next from c",
            f"update {table} as u set t = 'joined ' || k.n from keyless k where current of c and k.n = 1 returning u.t",
            "commit",
            f"select * from {table}",
        )


def test_the_row_of_a_cursor_with_for_update(pair: Pair) -> None:
    pair.run(*TABLES)
    pair.same(
        "begin",
        "declare c cursor for select t from keyed where id < 5 order by area, id for update",
        "fetch c",
        "update keyed set t = 'first' where current of c",
        "fetch relative 0 from c",
        "rollback",
        "begin",
        "declare c cursor for select t from keyless where n > 1 for share",
        "move 2 in c",
        "delete from keyless where current of c",
        "fetch c",
        "commit",
        "select * from keyed",
        "select * from keyless",
    )


def test_cursors_that_cannot_be_changed_through(pair: Pair) -> None:
    pair.run(*TABLES, "create view shown as select * from keyless")
    refused = (
        ("keyless", "select * from keyed"),
        ("keyless", "select * from keyed for update"),
        ("keyless", "select count(*) from keyless"),
        ("keyless", "select n from keyless group by n"),
        ("keyless", "select distinct n from keyless"),
        ("keyless", "select n from keyless union select 1"),
        ("keyless", "select k.n from keyless k join keyed on id = n"),
        ("keyless", "select * from keyless"),
        ("shown", "select * from shown"),
    )
    for table, query in refused:
        pair.same("begin", f"declare c cursor for {query}", f"delete from {table} where current of c", "rollback")
    pair.same(
        "delete from keyless where current of nowhere",
        "begin",
        "declare h cursor with hold for select * from keyless",
        "fetch h",
        "update keyless set t = 'held' where current of h",
        "commit",
        "update keyless set t = 'held' where current of h",
        "close h",
        "select * from keyless",
    )


def test_options_that_do_not_go_together(pair: Pair) -> None:
    pair.run(*TABLES)
    for options, query in (
        ("scroll cursor", "select n from keyless for update"),
        ("insensitive cursor", "select n from keyless for key share"),
        ("cursor with hold", "select n from keyless for no key update"),
        ("scroll no scroll cursor", "select 1"),
        ("insensitive asensitive cursor", "select 1"),
    ):
        pair.same("begin", f"declare c {options} for {query}", "rollback")


def test_which_cursors_go_back(pair: Pair) -> None:
    pair.run(*TABLES)
    for query in (
        "select n from keyless",
        "select * from (select n from keyless where n > 1) s",
        "select n from keyless order by t",
        "select n from generate_series(1, 4) n",
        "values (1), (2), (3)",
        "select 1",
        "select count(*) from keyless",
        "select n from keyless for update",
        "select k.n from keyless k, keyless l",
        "select generate_series(1, 3)",
    ):
        pair.same(
            "begin",
            f"declare c cursor for {query}",
            "select is_scrollable, is_binary, is_holdable, statement from pg_cursors where name = 'c'",
            "fetch 2 from c",
            "move relative 0 in c",
            "fetch backward 1 from c",
            "rollback",
        )
    pair.same(
        "begin",
        "-- said first\n declare b binary no scroll cursor for select n from keyless;",
        "select name, is_binary, is_scrollable, statement from pg_cursors",
        "fetch absolute 1 from b",
        "fetch absolute 2 from b",
        "fetch absolute 2 from b",
        "rollback",
        "prepare p as select 1;",
        "select name, statement from pg_prepared_statements",
        "deallocate p",
    )


def test_savepoints_close_only_the_cursors_behind_them(pair: Pair) -> None:
    pair.run(*TABLES)
    pair.same(
        "begin",
        "declare before cursor for select n from keyless order by n",
        "savepoint s",
        "declare after cursor for select n from keyless",
        "fetch before",
        "rollback to s",
        "fetch before",
        "savepoint s2",
        "fetch after",
        "rollback to s2",
        "declare later cursor for select n from keyless order by n",
        "release s2",
        "select 1/0",
        "rollback to s",
        "fetch before",
        "fetch later",
        "rollback",
    )


def test_an_error_of_a_row_comes_when_it_is_fetched(pair: Pair) -> None:
    pair.run(*TABLES)
    pair.same(
        "begin",
        "declare c cursor for select n / 0 from keyless order by n",
        "savepoint s",
        "fetch c",
        "rollback to s",
        "fetch c",
        "rollback to s",
        "select 'on'",
        "commit",
    )


def test_where_current_of_over_a_join_with_for_update(pair: Pair) -> None:
    pair.run(*TABLES)
    pair.same(
        "begin",
        "declare c cursor for select k.n, d.area from keyless k join keyed d on d.id = k.n where d.area > '' "
        "order by 1 for update of k",
        "fetch 2 from c",
        "update keyless set t = 'joined' where current of c",
        "delete from keyed where current of c",
        "rollback",
        "begin",
        "declare c cursor for select 1 from keyless a, keyless b where a.n = b.n + 1 for update",
        "fetch c",
        "delete from keyless where current of c",
        "rollback",
        "explain (costs off) declare c cursor for select 1",
    )


def test_a_held_cursor_outside_of_a_block_shows_its_columns_alone(both_paths: Pair) -> None:
    both_paths.run(*TABLES)
    for table in ("keyless", "keyed"):
        both_paths.same(
            f"declare c cursor with hold for select t from {table}",
            "fetch 2 from c",
            "fetch all from c",
            f"update {table} set t = 'changed' where current of c",
            "close c",
        )


FAMILIES = (
    "create table p (id int, k text, v int) partition by range (id)",
    "create table p1 partition of p for values from (0) to (10)",
    "create table p2 (v int, k text, id int)",
    "alter table p attach partition p2 for values from (10) to (20)",
    "insert into p select n, 'k' || n, n from generate_series(1, 19) n",
    "create table q (id int primary key, v int) partition by hash (id)",
    "create table q0 partition of q for values with (modulus 2, remainder 0)",
    "create table q1 partition of q for values with (modulus 2, remainder 1)",
    "insert into q select n, n from generate_series(1, 9) n",
    "create table par (x int primary key, y text)",
    "create table chi (z int) inherits (par)",
    "insert into par values (1, 'a')",
    "insert into chi values (1, 'b', 5), (1, 'b', 6)",
)


def test_rows_of_partitions_and_children(both_paths: Pair) -> None:
    both_paths.run(*FAMILIES)
    both_paths.same(
        "begin",
        "declare c cursor for select v from p where id in (5, 12)",
        "fetch c",
        "update p set v = -v where current of c returning tableoid::regclass, *",
        "fetch c",
        "update p set id = 3, k = 'moved' where current of c returning tableoid::regclass, *",
        "fetch c",
        "commit",
        "begin",
        "declare c cursor for select * from q where v = 4 or v = 7 for update",
        "fetch c",
        "delete from q where current of c returning *",
        "fetch c",
        "update q set v = 0 where current of c returning tableoid::regclass, *",
        "commit",
        "begin",
        "declare c cursor for select v from q where v = 7",
        "fetch c",
        "update q0 set v = 70 where current of c",
        "update q1 set v = 71 where current of c",
        "commit",
        "begin",
        "declare c cursor for select v from p1 where id = 7",
        "fetch c",
        "update p1 set v = 70 where current of c",
        "update p set v = 71 where current of c",
        "rollback",
        "begin",
        "declare c cursor for select y from par",
        "fetch 2 from c",
        "update par set y = 'second' where current of c",
        "fetch c",
        "delete from chi where current of c returning z",
        "delete from only par where current of c",
        "commit",
        "select tableoid::regclass, * from p",
        "select tableoid::regclass, * from q",
        "select tableoid::regclass, * from par",
    )


def test_loops_over_cursors_in_functions(pair: Pair) -> None:
    pair.run(*TABLES, *FAMILIES)
    for table, key in (("p", "id"), ("keyless", "n"), ("keyed", "id")):
        text = "k" if table == "p" else "t"
        pair.same(
            f"do $$ declare c cursor for select * from {table} where {key} < 14 for update; r record; begin "
            f"for r in c loop if r.{key} % 2 = 0 then delete from {table} where current of c; "
            f"else update {table} set {text} = 'odd' where current of c; end if; end loop; end $$",
            f"select * from {table}",
            f"do $$ declare c refcursor; r record; begin open c for select * from {table}; fetch c into r; "
            f"update {table} set {text} = 'by variable' where current of c; close c; end $$",
            f"select {text}, count(*) from {table} group by 1",
            f"do $$ declare c refcursor := 'none'; begin delete from {table} where current of c; end $$",
            f"do $$ declare c refcursor := 'cursor'; begin open c for execute 'select * from {table}'; move c; "
            f"delete from {table} where current of cursor; close c; end $$",
            f"select count(*) from {table}",
        )
    for connection in (pair.shoal, pair.postgres):  # they number variables in another way
        with pytest.raises(psycopg.errors.UndefinedObject, match="no value found for parameter"):
            connection.execute("do $$ declare c refcursor; begin delete from p where current of c; end $$")
