"""Definitions of partitioned tables and of children beside PostgreSQL."""

from __future__ import annotations

import os
import subprocess

import psycopg

from tests.engine.session.conftest import SCHEMA, Pair


def test_partition_keys(pair: Pair) -> None:
    pair.same(
        "create table p (a int, b text) partition by range (a, lower(b))",
        "create table q (a int) partition by magic (a)",
        "create table q (a int, b int) partition by list (a, b)",
        "create table q (a int) partition by range (c)",
        "create table q (a int, g int generated always as (a + 1) stored) partition by range (g)",
        "create table q (a int) partition by range ((1))",
        "create table q (a json) partition by list (a)",
        "create table q (a int) partition by range ((a + random()))",
        "create table q (a int) partition by range (sum(a))",
        "create table q (a int) partition by range ((select 1))",
        "create table q (a int primary key, b int) partition by range (b)",
        "create table q (a int, b int, unique (a)) partition by range ((b + 1))",
        "create table q (a int check (a > 0) no inherit) partition by range (a)",
        "create table q (a int) inherits (p) partition by range (a)",
        "create table q partition of p default partition by hash (a)",
        "create table q2 (a int) inherits (p)",
        "create table q2 (a int) inherits (q)",
    )


def test_bounds(pair: Pair) -> None:
    pair.run(
        "create table r (a int, b date) partition by range (a)",
        "create table r2 (a int, b int) partition by range (a, b)",
        "create table l (a text) partition by list (a)",
        "create table h (a int) partition by hash (a)",
        "create table plain (a int)",
    )
    pair.same(
        "create table x partition of plain for values in (1)",
        "create table x partition of r for values in (1)",
        "create table x partition of l for values from (1) to (2)",
        "create table x partition of h for values in (1)",
        "create table x partition of h default",
        "create table x partition of h for values with (modulus 0, remainder 0)",
        "create table x partition of h for values with (modulus 4, remainder 4)",
        "create table h1 partition of h for values with (modulus 10, remainder 0)",
        "create table x partition of h for values with (modulus 25, remainder 3)",
        "create table h2 partition of h for values with (modulus 50, remainder 1)",
        "create table x partition of h for values with (modulus 50, remainder 10)",
        "create table x partition of h for values with (modulus 100, remainder 51)",
        "create table r_1 partition of r for values from (1) to (10)",
        "create table x partition of r for values from (1, 2) to (10)",
        "create table x partition of r for values from (1) to (10, 11)",
        "create table x partition of r for values from (10) to (10)",
        "create table x partition of r for values from (null) to (10)",
        "create table x partition of r for values from (5) to (15)",
        "create table x partition of r for values from (0) to (2)",
        "create table x partition of r for values from (minvalue) to (maxvalue)",
        "create table x partition of r for values from ('a') to (20)",
        "create table x partition of r for values from (a) to (20)",
        "create table x partition of r for values from (sum(1)) to (20)",
        "create table r_2 partition of r for values from (10) to (5 * 4)",
        "create table r_d partition of r default",
        "create table x partition of r default",
        "insert into r values (100)",
        "create table x partition of r for values from (90) to (110)",
        "create table r_3 partition of r for values from (20) to (90)",
        "create table x partition of r2 for values from (minvalue, 1) to (10, 10)",
        "create table r2_1 partition of r2 for values from (minvalue, minvalue) to (10, 10)",
        "create table r2_2 partition of r2 for values from (10, 10) to (10, maxvalue)",
        "create table x partition of r2 for values from (10, 5) to (10, 11)",
        "insert into r2 values (10, 10), (10, 9), (0, null)",
        "create table l_1 partition of l for values in ('a', 'b', null)",
        "create table x partition of l for values in ('c', 'b')",
        "create table x partition of l for values in (null)",
        "create table x (a int) partition of l default",
        "create table x partition of l (a default 'x', check (a <> 'q')) for values in ('c')",
        "create table y partition of l (z default 'x') for values in ('d')",
        "insert into x values (default)",
        "select tableoid::regclass::text, * from l",
    )


def test_foreign_keys_to_partitions_have_names_of_their_own(pair: Pair) -> None:
    """PostgreSQL makes a constraint for each partition of the referenced table; errors name it."""
    pair.same(
        "create table pk (a int, b int, primary key (a, b)) partition by list (a)",
        "create table pk1 partition of pk for values in (1)",
        "create table pk2 partition of pk for values in (2) partition by list (b)",
        "create table pk21 partition of pk2 for values in (1)",
        "create table fk (x int, y int, foreign key (x, y) references pk) partition by list (x)",
        "create table fk1 partition of fk for values in (1)",
        "create table fk2 partition of fk for values in (2, 3, 4)",
        "create table pk3 partition of pk for values in (3)",
        "create table pk22 partition of pk2 for values in (2)",
        "create table pk4 (b int not null, a int not null)",
        "alter table pk attach partition pk4 for values in (4)",
        "insert into pk values (1,1),(2,1),(2,2),(3,1),(4,1)",
        "insert into fk values (1,1),(2,1),(2,2),(3,1),(4,1)",
        "delete from pk where a = 1",
        "delete from pk where a = 2 and b = 1",
        "delete from pk where a = 2 and b = 2",
        "delete from pk where a = 3",
        "update pk set b = 7 where a = 4",
        "delete from pk22",
        "alter table pk detach partition pk1",
        "alter table pk2 detach partition pk22",
        "alter table pk detach partition pk2",
        "alter table pk detach partition pk4 concurrently",
        "insert into fk values (1, 9)",
        "create table q (a int primary key) partition by range (a)",
        "create table q1 partition of q for values from (0) to (10)",
        "create table r (a int constraint own references q, b int constraint r_b_fkey1 references q)",
        "insert into q values (1), (2)",
        "insert into r values (1, 2)",
        "delete from q where a = 1",
        "delete from q where a = 2",
    )


def test_attach_and_detach(pair: Pair) -> None:
    pair.run(
        "create table p (a int not null, b text check (b <> ''), c int default 5) partition by list (a)",
        "create table p1 (a int not null, b text, c int)",
        "create table p2 (c int, b text check (b <> ''), a int not null)",
        "insert into p2 values (1, 'x', 2), (2, 'y', 3)",
    )
    pair.same(
        "alter table p attach partition p1 for values in (1)",
        "alter table p1 add constraint p_b_check check (b <> '')",
        "alter table p attach partition p1 for values in (1)",
        "alter table p attach partition p1 for values in (7)",
        "alter table p2 rename constraint p2_b_check to p_b_check",
        "alter table p attach partition p2 for values in (2)",
        "select * from p",
        "alter table p attach partition p2 for values in (2, 3)",
        "select * from p",
        "alter table p1 add column d int",
        "alter table p add column d int default 3",
        "select * from p",
        "alter table p1 drop column d",
        "alter table p1 alter d type bigint",
        "alter table only p drop column d",
        "alter table only p add column e int",
        "alter table p drop column a",
        "alter table p alter a type bigint",
        "alter table p alter d type text using 'v' || d",
        "select * from p2",
        "alter table p alter c set not null",
        "alter table p1 alter c drop not null",
        "alter table p add constraint positive check (c > 0)",
        "insert into p values (2, 'z', -1)",
        "insert into p1 values (1, 'z', -1)",
        "alter table p1 drop constraint positive",
        "alter table p drop constraint positive",
        "insert into p values (2, 'z', -1)",
        "alter table p rename b to bb",
        "alter table p1 rename bb to b",
        "alter table p drop d, add d text default 'new'",
        "select * from p",
        "insert into p1 values (1, '', 1)",
        "alter table p detach partition p3",
        "alter table p detach partition p1",
        "insert into p values (1, 'x', 1)",
        "insert into p1 values (77, 'x', 1)",
        "alter table p1 drop column d",
        "alter table p attach partition p1 default",
        "alter table p1 inherit p",
        "truncate only p",
        "truncate p",
        "select count(*) from p2",
        "drop table p2",
        "drop table p",
        "select * from p2",
    )


def test_keys_of_partitioned_tables(pair: Pair) -> None:
    pair.run(
        "create table p (a int, b int, c text) partition by range (a)",
        "create table p1 partition of p for values from (0) to (10)",
        "create table p2 partition of p for values from (10) to (20) partition by range (b)",
        "create table p2a partition of p2 for values from (0) to (10)",
        "insert into p values (1, 1, 'x'), (2, 2, 'y'), (11, 1, 'z')",
        "create index on p1 (c)",
    )
    pair.same(
        "create unique index on p (b)",
        "create index p_c on p (c)",
        "create unique index p_ab on p (a, b)",
        "insert into p values (1, 1, 'again')",
        "insert into p2a values (11, 1, 'again')",
        "alter table p add primary key (a)",
        "alter table p add primary key (a, b)",
        "drop index p_ab",
        "insert into p values (11, 1, 'again')",
        "insert into p values (3, null, 'again')",
        "create table p3 partition of p for values from (20) to (30)",
        "create table p4 (c text, b int, a int)",
        "insert into p4 values ('q', 1, 31), ('q', 1, 31)",
        "alter table p attach partition p4 for values from (30) to (40)",
        "delete from p4",
        "alter table p attach partition p4 for values from (30) to (40)",
        "insert into p4 values ('q', 1, 31)",
        "insert into p values (31, 1, 'r') on conflict (a, b) do update set c = excluded.c returning *",
        "drop index p1_c_idx",
        "alter table p1 drop constraint p1_pkey",
        "select indexrelid::regclass::text, indrelid::regclass::text, indisunique, indisprimary, indisvalid "
        "from pg_index where indrelid in ('p'::regclass, 'p1'::regclass, 'p2'::regclass, 'p2a'::regclass, "
        "'p3'::regclass, 'p4'::regclass)",
        "alter table p drop constraint p_pkey",
        "drop index p_c",
        "create index p_only on only p (c)",
        "create index p1_only on p1 (c)",
        "alter index p_only attach partition p1_only",
        "select indexrelid::regclass::text, indisvalid from pg_index where indrelid = 'p'::regclass",
        "select indexrelid::regclass::text from pg_index where indrelid in ('p1'::regclass, 'p2a'::regclass)",
    )


def test_inheritance(both_paths: Pair) -> None:
    both_paths.run(
        "create table a (x int check (x > 0), y text default 'a')",
        "create table b (z int) inherits (a)",
        "create table c (y text default 'c') inherits (b)",
        "create table other (x int, w int)",
    )
    both_paths.same(
        "create table d (y int) inherits (a)",
        "create table d () inherits (a, a)",
        "create table d (w int) inherits (b, other)",
        "insert into a values (1), (2)",
        "insert into b values (3, 'b', 30)",
        "insert into c (x, z) values (4, 40)",
        "insert into d values (5, 'd', 50, 500)",
        "insert into c values (0)",
        "select tableoid::regclass::text, * from a",
        "select * from only a",
        "select * from b where x > 3",
        "select tableoid::regclass::text, * from b*",
        "update a set y = y || x where x > 1 returning tableoid::regclass::text, *",
        "update only a set y = 'only'",
        "update b set z = z + x from a where a.x = b.x and b.y like 'b%'",
        "delete from a where x = 4 returning *",
        "delete from only b",
        "select * from a",
        "alter table a add column n int default 9",
        "select * from d",
        "alter table b drop column n",
        "alter table a drop column n",
        "alter table only a add check (x < 100)",
        "alter table a add constraint small check (x < 100)",
        "insert into d values (500)",
        "insert into b values (500)",
        "alter table b no inherit a",
        "select * from a",
        "alter table b inherit a",
        "alter table b inherit a",
        "alter table a inherit c",
        "select * from a",
        "truncate only a",
        "select count(*) from a",
        "drop table a",
        "drop table a cascade",
    )


def test_system_catalogs(pair: Pair) -> None:
    pair.run(
        "create table p (a int not null, b text, c numeric) partition by range (a, lower(b))",
        "create table p1 partition of p for values from (1, minvalue) to (10, 'm') partition by list (c)",
        "create table p1a partition of p1 for values in (1.5, 2, null)",
        "create table p1b partition of p1 default",
        "create table pd partition of p default",
        "create index p_b on p (b)",
        "create table h (a int, b date) partition by hash (a, b)",
        "create table h1 partition of h for values with (modulus 2, remainder 1)",
        "create table l (a text) partition by list (a)",
        "create table l1 partition of l for values in ('a', 'it''s')",
        "create table l2 partition of l for values in (null)",
        "create table l3 partition of l default",
        "create table i (x int check (x > 0))",
        "create table j (x int, y int) inherits (i)",
    )
    mine = "n.nspname = current_schema()"
    pair.same(
        "select relname, relkind, relispartition, relhassubclass, pg_get_expr(relpartbound, c.oid) from pg_class c "
        f"join pg_namespace n on n.oid = relnamespace where {mine}",
        "select relname, pg_get_partkeydef(c.oid) from pg_class c join pg_namespace n on n.oid = relnamespace "
        f"where {mine} and relkind = 'p'",
        *(
            f"select pg_get_partition_constraintdef('{name}'::regclass)"
            for name in ("p1", "p1a", "p1b", "pd", "l1", "l2", "l3", "i")
        ),
        "select inhrelid::regclass::text, inhparent::regclass::text, inhseqno, inhdetachpending from pg_inherits "
        f"join pg_class c on c.oid = inhrelid join pg_namespace n on n.oid = relnamespace where {mine}",
        "select partrelid::regclass::text, partstrat, partnatts, partdefid::regclass::text, partattrs::text "
        f"from pg_partitioned_table join pg_class c on c.oid = partrelid join pg_namespace n on n.oid = relnamespace "
        f"where {mine}",
        "select attrelid::regclass::text, attname, attislocal, attinhcount from pg_attribute where attnum > 0 and "
        "attrelid in ('p1a'::regclass, 'j'::regclass)",
        "select conrelid::regclass::text, conname, conislocal, coninhcount, connoinherit from pg_constraint where "
        "conrelid in ('i'::regclass, 'j'::regclass)",
        "select relid::text, parentrelid::text, isleaf, level from pg_partition_tree('p')",
        "select relid::text from pg_partition_ancestors('p1a')",
        "select pg_partition_root('p1a')::text, pg_partition_root('i')::text",
        "select table_name, table_type from information_schema.tables where table_schema = current_schema()",
    )


def test_foreign_keys_of_partitioned_tables(pair: Pair) -> None:
    pair.run(
        "create table pk (id int primary key)",
        "insert into pk values (1), (2), (3)",
        "create table f (a int, r int references pk on delete cascade) partition by list (a)",
        "create table f1 partition of f for values in (1)",
        "create table f2 (r int, a int)",
        "insert into f2 values (3, 2)",
        "alter table f attach partition f2 for values in (2)",
        "create table g (a int, r int constraint g_to_pk references pk) partition by list (a)",
        "create table g1 partition of g default",
        "insert into g values (1, 1)",
    )
    pair.same(
        "insert into f values (1, 9)",
        "insert into f values (2, 9)",
        "insert into f1 values (1, 9)",
        "insert into f values (1, 2), (2, 2), (2, 3)",
        "delete from pk where id = 1",
        "update pk set id = 10 where id = 1",
        "delete from pk where id = 2",
        "select tableoid::regclass::text, * from f",
        "alter table f1 drop constraint f_r_fkey",
        "alter table f drop constraint f_r_fkey",
        "insert into f values (1, 9), (2, 9)",
        "alter table f add constraint again foreign key (r) references pk",
        "delete from f where r = 9",
        "alter table f add constraint again foreign key (r) references pk",
        "insert into f values (2, 9)",
        "update f set r = 9 where a = 2",
    )


def test_names_of_checks_go_down(pair: Pair) -> None:
    pair.run("create table a (x int constraint one check (x > 0))", "create table b () inherits (a)")
    pair.same(
        "alter table b rename constraint one to two",
        "alter table a rename constraint one to two",
        "insert into b values (0)",
        "alter table a drop constraint two",
        "insert into b values (0)",
    )


def test_psql_shows_the_same(pair: Pair) -> None:
    pair.run(
        "create table p (a int not null, b text, c numeric default 5) partition by range (a)",
        "create table p1 partition of p for values from (1) to (10)",
        "create table p2 partition of p for values from (10) to (20) partition by list (lower(b))",
        "create table p2x partition of p2 for values in ('x', null)",
        "create table pd partition of p default",
        "create index p_b on p (b)",
        "create table h (id int primary key, t text) partition by hash (id)",
        "create table h0 partition of h for values with (modulus 2, remainder 0)",
        "create table par (x int check (x > 0))",
        "create table chi (y int) inherits (par)",
    )
    commands = [
        *(f"\\d+ {name}" for name in ("p", "p1", "p2", "p2x", "pd", "h", "par", "chi", "p_b")),
        "\\d h0", "\\d p1_b_idx", "\\dP", "\\dt", "\\di",
    ]  # fmt: skip

    def shown(info: psycopg.ConnectionInfo) -> str:
        dsn = f"host={info.host} port={info.port} user={info.user} dbname={info.dbname}"
        arguments = [part for command in commands for part in ("-c", command)]
        environment = {**os.environ, "PGOPTIONS": f"-c search_path={SCHEMA}"}
        command = ["psql", "-X", "-d", dsn, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, env=environment)
        return done.stdout

    assert shown(pair.shoal.info) == shown(pair.postgres.info)
