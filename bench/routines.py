"""Functions in PL/pgSQL and row triggers: calls, a loop, an INSERT through a trigger, and TPC-B with an audit table."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from functools import partial

import psycopg

from bench.measures import Result, Server

ROWS = 100_000
KEYS = 10_000
CALLS = 2000
TURNS = 1_000_000
TRANSACTIONS = 1000
FUNCTIONS = """
    DROP TABLE IF EXISTS bench_keys;
    CREATE TABLE bench_keys (id int PRIMARY KEY, v int, t text);
    INSERT INTO bench_keys SELECT i, i * 2, 'name ' || i FROM generate_series(1, 10000) i;
    CREATE OR REPLACE FUNCTION bench_ten(x int) RETURNS int LANGUAGE plpgsql AS $$
    DECLARE a int; b int; c int := 0; s text;
    BEGIN
        SELECT v INTO a FROM bench_keys WHERE id = x;
        IF a IS NULL THEN RETURN -1; END IF;
        b := a + 1;
        SELECT t INTO s FROM bench_keys WHERE id = x + 1;
        IF b % 2 = 0 THEN c := b; ELSE c := b * 3; END IF;
        c := c + length(s);
        b := c - a;
        WHILE b > 1000000 LOOP b := b / 2; END LOOP;
        c := abs(b);
        RETURN c + a;
    END $$;
    CREATE OR REPLACE FUNCTION bench_adds(n int) RETURNS int LANGUAGE plpgsql AS $$
    DECLARE s int := 0;
    BEGIN
        FOR i IN 1..n LOOP s := (s + i) % 1000000; END LOOP;
        RETURN s;
    END $$
"""
BEFORE_ROW = """
    DROP TABLE IF EXISTS bench_rows;
    CREATE TABLE bench_rows (a int PRIMARY KEY, c int, d text);
    CREATE OR REPLACE FUNCTION bench_change() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN NEW.c := NEW.c + 1; NEW.d := 'x' || NEW.a; RETURN NEW; END $$;
    CREATE TRIGGER change BEFORE INSERT ON bench_rows FOR EACH ROW EXECUTE FUNCTION bench_change()
"""
TPC_B = """
    DROP TABLE IF EXISTS bench_accounts, bench_audit, bench_history, bench_branches;
    CREATE TABLE bench_accounts (aid int PRIMARY KEY, balance int, filler text);
    INSERT INTO bench_accounts SELECT i, 0, repeat('x', 80) FROM generate_series(1, 100000) i;
    CREATE TABLE bench_audit (
        n bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, who name, aid int, before int, after int
    );
    CREATE TABLE bench_history (aid int, delta int, mtime timestamptz);
    CREATE TABLE bench_branches (bid int PRIMARY KEY, balance int);
    INSERT INTO bench_branches VALUES (1, 0);
    CREATE OR REPLACE FUNCTION bench_note() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO bench_audit (who, aid, before, after) VALUES (current_user, NEW.aid, OLD.balance, NEW.balance);
        RETURN NULL;
    END $$
"""
AUDIT = "CREATE TRIGGER note AFTER UPDATE ON bench_accounts FOR EACH ROW EXECUTE FUNCTION bench_note()"

Connection = psycopg.Connection[tuple[object, ...]]


def _connect(server: Server, script: str) -> Connection:
    connection = psycopg.connect(server.dsn, autocommit=True)
    connection.execute(script.encode())
    return connection


def calls(server: Server) -> Result:
    """Calls a second of a function of ten statements with two look-ups, each in a statement of its own."""
    with _connect(server, FUNCTIONS) as connection:
        _call(connection, CALLS // 4)
        return Result(CALLS / _seconds(partial(_call, connection, CALLS)))


def _call(connection: Connection, count: int) -> None:
    for number in range(count):
        connection.execute("SELECT bench_ten(%s::int)", (number % (KEYS - 1) + 1,), prepare=True)


def loop(server: Server) -> Result:
    """Seconds of 1,000,000 additions in a loop."""
    with _connect(server, FUNCTIONS) as connection:
        return Result(_seconds(lambda: connection.execute("SELECT bench_adds(%s)", (TURNS,))))


def before_row(server: Server) -> Result:
    """Seconds of an INSERT of 100,000 rows through a BEFORE ROW trigger that changes two columns."""
    with _connect(server, BEFORE_ROW) as connection:
        insert = f"INSERT INTO bench_rows SELECT i, i FROM generate_series(1, {ROWS}) i"
        seconds = _seconds(lambda: connection.execute(insert.encode()))
        found = connection.execute("SELECT count(*), sum(c) FROM bench_rows").fetchone()
        wanted = (ROWS, ROWS * (ROWS + 1) // 2 + ROWS)
        connection.execute("DROP TABLE bench_rows")
        return Result(seconds, [] if found == wanted else [f"the rows are {found}"])


def audit(server: Server) -> Result:
    """Seconds by which an AFTER ROW trigger that inserts an audit row prolongs 1,000 transactions of TPC-B's kind."""
    with _connect(server, TPC_B) as connection:
        _transfer(connection, TRANSACTIONS // 4)
        without = min(_seconds(partial(_transfer, connection, TRANSACTIONS)) for _ in range(2))
        connection.execute(AUDIT)
        _transfer(connection, TRANSACTIONS // 4)
        with_trigger = min(_seconds(partial(_transfer, connection, TRANSACTIONS)) for _ in range(2))
        found = connection.execute("SELECT count(*) FROM bench_audit").fetchone()
        wanted = (TRANSACTIONS * 2 + TRANSACTIONS // 4,)
        return Result(with_trigger - without, [] if found == wanted else [f"the audit table has {found} rows"])


def _transfer(connection: Connection, count: int) -> None:
    chance = random.Random(1)
    for _ in range(count):
        account = chance.randint(1, ROWS)
        with connection.transaction():
            update = "UPDATE bench_accounts SET balance = balance + %s WHERE aid = %s"
            connection.execute(update, (5, account), prepare=True)
            connection.execute("SELECT balance FROM bench_accounts WHERE aid = %s", (account,), prepare=True)
            connection.execute("UPDATE bench_branches SET balance = balance + %s WHERE bid = 1", (5,), prepare=True)
            connection.execute("INSERT INTO bench_history VALUES (%s, %s, now())", (account, 5), prepare=True)


def _seconds(run: Callable[[], object]) -> float:
    began = time.perf_counter()
    run()
    return time.perf_counter() - began
