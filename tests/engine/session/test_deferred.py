"""Deferrable foreign keys and SET CONSTRAINTS beside PostgreSQL."""

from __future__ import annotations

import psycopg
import pytest

from tests.end_to_end.test_isolation import Client
from tests.engine.session.conftest import SCHEMA, Pair
from tests.server import ShoalServer


def test_deferred_foreign_keys(both_paths: Pair) -> None:
    both_paths.same(
        "create table p (id int primary key, u int unique)",
        "create table c (id int primary key, pid int references p deferrable initially deferred, x int "
        "constraint cx references p (u) deferrable, y int constraint cy references p)",
        "create table self (id int primary key, up int references self deferrable initially deferred)",
        "insert into c values (1, 1)",
        "insert into p values (1, 10), (2, 20)",
        "insert into c values (1, 1)",
        "begin",
        "insert into c values (2, 7)",
        "insert into c values (3, 8)",
        "insert into p values (7), (8)",
        "commit",
        "select * from c",
        "begin",
        "insert into c values (4, 70)",
        "insert into c values (5, 71)",
        "commit",
        "select * from c",
        "begin",
        "insert into c values (4, 70)",
        "delete from c where id = 4",
        "commit",
        "begin",
        "insert into c values (4, 70)",
        "update c set pid = 1 where id = 4",
        "commit",
        "begin",
        "insert into c values (5, 70)",
        "savepoint a",
        "insert into c values (6, 71)",
        "rollback to a",
        "insert into p values (70)",
        "commit",
        "begin",
        "insert into c values (6, 700)",
        "set constraints all immediate",
        "rollback",
        "begin",
        "insert into c values (6, 700)",
        "set constraints c_pid_fkey immediate",
        "rollback",
        "begin",
        "insert into c values (6, 700)",
        "set constraints cx immediate",
        "set constraints cx deferred",
        "insert into c values (7, 1, 99)",
        "set constraints cx immediate",
        "rollback",
        "begin",
        "set constraints all immediate",
        "insert into c values (7, 700)",
        "rollback",
        "begin",
        "set constraints all deferred",
        "insert into c values (7, 1, 99)",
        "insert into p values (99, 99)",
        "commit",
        "begin",
        "set constraints cx deferred",
        "insert into c values (8, 1, 199)",
        "commit",
        "begin",
        "set constraints all deferred",
        "insert into c values (8, 1, 10, 12345)",
        "rollback",
        "set constraints cy deferred",
        "begin",
        "set constraints cy deferred",
        "rollback",
        "begin",
        "set constraints nosuch deferred",
        "rollback",
        "begin",
        "set constraints nosuch.cx deferred",
        "rollback",
        "set constraints all deferred",
        "begin",
        "delete from p where id = 1",
        "insert into p values (1, 10)",
        "commit",
        "begin",
        "delete from p where id = 1",
        "commit",
        "begin",
        "set constraints cx deferred",
        "delete from p where id = 1",
        "commit",
        "begin",
        "update p set id = 1000 where id = 7",
        "update c set pid = 1000 where pid = 7",
        "commit",
        "begin",
        "update p set id = 2000 where id = 1000",
        "commit",
        "select * from c",
        "begin",
        "insert into self values (1, 2), (2, 1)",
        "commit",
        "begin",
        "delete from self where id = 1",
        "delete from self where id = 2",
        "commit",
        "insert into self values (5, 5)",
        "insert into self values (6, 7), (7, 6)",
        "insert into self values (8, 9)",
        "select * from self",
        "begin",
        "insert into c select g, g from generate_series(5000, 8000) g",
        "insert into p select g from generate_series(5000, 8000) g",
        "commit",
        "begin",
        "insert into c select g, g from generate_series(15000, 18000) g",
        "commit",
        "select count(*) from c",
        "create table casc (id int primary key, p int references p on delete cascade deferrable initially deferred)",
        "insert into casc values (1, 2)",
        "begin",
        "delete from p where id = 2",
        "select * from casc",
        "commit",
        "create table restr (id int primary key, p int references p on delete restrict deferrable initially deferred)",
        "insert into restr values (1, 8)",
        "begin",
        "delete from p where id = 8",
        "rollback",
        "begin",
        "insert into c values (9001, 9001)",
        "commit and chain",
        "select 1",
        "rollback",
        "with a as (insert into c values (9002, 9002)) insert into p values (9002)",
        "begin",
        "with a as (insert into c values (9003, 9003)) select 1",
        "insert into p values (9003)",
        "commit",
        "select conname, condeferrable, condeferred from pg_constraint where conrelid = 'c'::regclass",
        "select pg_get_constraintdef(oid) from pg_constraint where conrelid = 'c'::regclass",
        "alter table casc add constraint late foreign key (id) references c deferrable initially deferred",
        "begin",
        "alter table casc add constraint late2 foreign key (id) references nosuch deferrable initially deferred",
        "rollback",
    )


def test_a_commit_waits_for_the_holder_of_the_key(pair: Pair, shoal: ShoalServer) -> None:
    pair.shoal.execute("CREATE TABLE p (id int PRIMARY KEY)")
    pair.shoal.execute("CREATE TABLE c (id int PRIMARY KEY, p int REFERENCES p DEFERRABLE INITIALLY DEFERRED)")
    first, second, third = (Client(shoal.dsn, SCHEMA) for _ in range(3))
    try:
        for fate, left in (("ROLLBACK", [(1,)]), ("COMMIT", [])):
            first.run("BEGIN", "INSERT INTO c VALUES (1, 1)")
            third.run("INSERT INTO p VALUES (1)")
            second.run("BEGIN", "DELETE FROM p WHERE id = 1")
            waiting = first.waits("COMMIT")
            second.run(fate)
            if left:
                waiting.result(20)
            else:
                with pytest.raises(psycopg.errors.ForeignKeyViolation):
                    waiting.result(20)
            assert third.run("SELECT id FROM c") == left
            third.run("DELETE FROM c", "DELETE FROM p")
    finally:
        for client in (first, second, third):
            client.close()
