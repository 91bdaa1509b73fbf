"""Clients that speak another encoding than UTF8, beside PostgreSQL."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from catalog.encodings import ENCODINGS
from tests.oracle import PostgresServer
from tests.server import ShoalServer

Server = ShoalServer | PostgresServer
SINGLE = [item.name for item in ENCODINGS.values() if item.width == 1 and item.codec]
MULTIPLE = ["EUC_CN", "EUC_KR", "EUC_JP", "SJIS", "GBK", "UHC", "GB18030"]


@pytest.fixture
def latin(server: Server) -> Iterator[psycopg.Connection]:
    with psycopg.connect(server.dsn, autocommit=True, client_encoding="latin1") as connection:
        connection.execute("drop table if exists encoded")
        connection.execute("create table encoded (id int primary key, t text, a text[])")
        yield connection


def test_texts_both_ways(latin: psycopg.Connection) -> None:
    assert latin.info.parameter_status("client_encoding") == "LATIN1"
    assert latin.execute("show client_encoding").fetchone() == ("LATIN1",)
    assert latin.execute("select pg_client_encoding()").fetchone() == ("LATIN1",)
    assert latin.execute("select 'é', length('é'), octet_length('é')").fetchone() == ("é", 1, 2)
    for number, form in enumerate(("%s", "%t", "%b")):
        latin.execute(f"insert into encoded values (%s, {form}, '{{ü}}')".encode("latin1"), (number, "Größe"))
    assert latin.execute("select distinct t from encoded", binary=True).fetchall() == [("Größe",)]
    assert latin.execute("select distinct t, a from encoded").fetchall() == [("Größe", ["ü"])]
    assert latin.execute('select 1 as "é"').description[0].name == "é"  # type: ignore[index]
    with pytest.raises(psycopg.errors.UndefinedColumn, match='column "ñ" does not exist'):
        latin.execute("select ñ")


def test_an_encoding_is_followed_from_the_moment_that_it_is_set(server: Server) -> None:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        assert connection.execute("select 'é'").fetchone() == ("é",)
        connection.execute("set client_encoding to 'windows-1252'")
        assert connection.info.parameter_status("client_encoding") == "WIN1252"
        assert connection.execute("select '€'").fetchone() == ("€",)
        connection.execute("set names 'utf8'")
        assert connection.execute("select '€☃'").fetchone() == ("€☃",)
        connection.autocommit = False
        connection.execute("set client_encoding = latin1")
        assert connection.execute("select 'é'").fetchone() == ("é",)
        connection.rollback()
        assert connection.info.parameter_status("client_encoding") == "UTF8"
        assert connection.execute("select '☃'").fetchone() == ("☃",)
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        with pytest.raises(psycopg.errors.InvalidParameterValue):
            connection.execute("set client_encoding = nonsense")
        with pytest.raises(psycopg.OperationalError, match="nonsense"):
            psycopg.connect(server.dsn, client_encoding="nonsense")


def test_characters_that_the_client_does_not_have(latin: psycopg.Connection) -> None:
    latin.execute(
        "insert into encoded select g, case when g = 3 then chr(8364) else 'x' end from generate_series(1, 5) g"
    )
    message = 'character with byte sequence 0xe2 0x82 0xac in encoding "UTF8" has no equivalent in encoding "LATIN1"'
    for prepare in (False, True):
        with pytest.raises(psycopg.errors.UntranslatableCharacter, match=message):
            latin.execute("select t from encoded order by id", prepare=prepare)
        assert latin.execute("select count(*) from encoded").fetchone() == (5,)
    with latin.transaction():
        with pytest.raises(psycopg.errors.UntranslatableCharacter), latin.transaction():
            latin.execute("select chr(8364)")
        with pytest.raises(psycopg.errors.UntranslatableCharacter), latin.transaction():
            latin.execute("update encoded set id = id + 10 returning t")
        assert latin.execute("select max(id) from encoded").fetchone() == (5,)
    with pytest.raises(psycopg.errors.UniqueViolation) as failed:
        latin.execute("create unique index on encoded (t)")
        latin.execute("insert into encoded values (9, chr(8364))")
    assert failed.value.sqlstate == "23505"


def test_a_query_that_waited_for_a_lock(latin: psycopg.Connection, server: Server) -> None:
    """It is taken again once the lock is granted, and is in UTF-8 by then."""
    latin.execute("insert into encoded values (1, 'x')")
    waits = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and pid = %s"
    with (
        ThreadPoolExecutor(1) as pool,
        psycopg.connect(server.dsn, autocommit=True) as observer,
        psycopg.connect(server.dsn) as holder,
    ):
        holder.execute("update encoded set t = 'y' where id = 1")
        waiter = pool.submit(latin.execute, "update encoded set t = t || 'Größe' where id = 1")
        deadline = time.monotonic() + 30
        while observer.execute(waits, (latin.info.backend_pid,)).fetchone() == (0,):
            assert time.monotonic() < deadline, "nobody waits"
            time.sleep(0.01)
        holder.commit()
        waiter.result(30)
        assert observer.execute("select t from encoded").fetchall() == [("yGröße",)]


def test_copy(latin: psycopg.Connection) -> None:
    rows = "".join(f"{number}\tÜber {number}\t{{é}}\n" for number in range(2000)).encode("latin1")
    with latin.cursor() as cursor:
        with cursor.copy("copy encoded from stdin") as copy:
            for start in range(0, len(rows), 999):
                copy.write(rows[start : start + 999])
        with cursor.copy("copy encoded to stdout with (encoding 'latin1')") as copy:
            assert sorted(b"".join(copy).splitlines()) == sorted(rows.splitlines())
        latin.execute("update encoded set t = chr(9731) where id = 7")
        with pytest.raises(psycopg.errors.UntranslatableCharacter), cursor.copy("copy encoded to stdout") as copy:
            list(copy)
    assert latin.execute("select t from encoded where id = 8").fetchone() == ("Über 8",)


def test_copy_of_characters_that_messages_cut(server: Server) -> None:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("drop table if exists encoded")
        connection.execute("create table encoded (id int primary key, t text)")
        connection.execute("set client_encoding = sjis")
        data = "".join(f"{number}\t表計算 {number}\n" for number in range(100)).encode("cp932")
        with connection.cursor() as cursor:
            with cursor.copy("copy encoded from stdin") as copy:
                for start in range(0, len(data), 7):
                    copy.write(data[start : start + 7])
            with pytest.raises(psycopg.errors.CharacterNotInRepertoire), cursor.copy("copy encoded from stdin") as copy:
                copy.write(b"1000\t\x95")
        assert connection.execute("select count(*), max(t) from encoded where t like '表%'").fetchone() == (
            100,
            "表計算 99",
        )


@pytest.mark.parametrize("name", SINGLE)
def test_single_bytes_are_the_characters_of_postgresql(postgres: psycopg.Connection, name: str) -> None:
    _same_as(postgres, name, [bytes([byte]) for byte in range(1, 256)])


@pytest.mark.parametrize("name", MULTIPLE)
def test_pairs_of_bytes_are_the_characters_of_postgresql(postgres: psycopg.Connection, name: str) -> None:
    """Characters that PostgreSQL has and Python's codecs have not are counted."""
    pairs = [bytes([first, second]) for first in range(0x81, 255, 3) for second in range(0x30, 255, 2)]
    assert _same_as(postgres, name, pairs) <= {"EUC_JP": 20, "UHC": 80}.get(name, 1)


def _same_as(postgres: psycopg.Connection, name: str, codes: list[bytes]) -> int:
    postgres.execute(
        "create or replace function pg_temp.read(b bytea, e text) returns text language plpgsql as "
        "$$ begin return convert_from(b, e); exception when others then return sqlstate || ' ' || sqlerrm; end $$"
    )
    rows = postgres.execute("select b, pg_temp.read(b, %s) from unnest(%s::bytea[]) b", (name, codes)).fetchall()
    missing = 0
    for code, expected in rows:
        try:
            found = ENCODINGS[name].decode(bytes(code))
        except Exception as error:
            found = f"{getattr(error, 'sqlstate', '')} {getattr(error, 'message', error)}"
        if found[:5] == "22P05" and len(expected) <= 2:
            missing += 1
        elif found[:2] == "22" and expected[:2] == "22":
            assert found[:5] == expected[:5] or name not in SINGLE, (code, found, expected)
        else:
            assert found == expected, code
            assert len(found) > 1 or ENCODINGS[name].decode(ENCODINGS[name].encode(found)) == found
    return missing


def _binary(connection: psycopg.Connection, sql: str) -> bytes:
    with connection.cursor() as cursor, cursor.copy(sql.encode()) as copy:
        return b"".join(map(bytes, copy))


@pytest.mark.parametrize("rows", [3, 8_000])
def test_copy_in_binary(latin: psycopg.Connection, rows: int) -> None:
    latin.execute("drop table if exists several")
    latin.execute("create table several (id int, t text, v varchar(9), c char(3), n name, j jsonb, x json, b bytea)")
    latin.execute(
        "insert into several select g, case when mod(g, 3) > 0 then 'Größe ' || g end, 'ü', 'ñ', 'é', '{\"ä\": 1}',"
        " '\"ß\"', '\\xe9' from generate_series(1, %s) g",
        (rows,),
    )
    data = _binary(latin, "copy (select * from several order by id) to stdout (format binary, encoding 'utf8')")
    assert "Größe 1".encode("latin1") in data
    assert "Größe 1".encode() not in data
    latin.execute("create temp table again (like several)")
    with latin.cursor() as cursor, cursor.copy("copy again from stdin (format binary)") as copy:
        for start in range(0, len(data), 9973):
            copy.write(data[start : start + 9973])
    query = "select id, t, v, c, n, j::text, x::text, b from {} order by id"
    found, wanted = (latin.execute(query.format(name).encode()).fetchall() for name in ("again", "several"))
    assert found == wanted
    assert latin.execute("select count(*), max(t) from again where t like 'Größe%'").fetchone() == (
        rows - rows // 3,
        max(f"Größe {g}" for g in range(1, rows + 1) if g % 3),
    )


def test_copy_in_binary_of_what_the_client_does_not_have(latin: psycopg.Connection) -> None:
    latin.execute("insert into encoded values (1, chr(9731))")
    message = 'character with byte sequence 0xe2 0x98 0x83 in encoding "UTF8" has no equivalent in encoding "LATIN1"'
    with pytest.raises(psycopg.errors.UntranslatableCharacter, match=message):
        _binary(latin, "copy (select id, t from encoded) to stdout (format binary)")
    head = b"PGCOPY\n\xff\r\n\0" + bytes(8)
    latin.execute("set client_encoding = sjis")
    with (
        pytest.raises(psycopg.errors.CharacterNotInRepertoire),
        latin.cursor() as cursor,
        cursor.copy("copy encoded (t) from stdin (format binary)") as copy,
    ):
        copy.write(head + b"\0\1\0\0\0\1\x95\xff\xff")
