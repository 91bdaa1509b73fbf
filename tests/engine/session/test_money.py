"""money in statements, on both paths, beside PostgreSQL."""

from __future__ import annotations

from tests.engine.session.conftest import Pair


def test_money(both_paths: Pair) -> None:
    both_paths.same(
        "select '1234.567'::money, '$1,234.5'::money, '-5'::money, '(7.1)'::money, ''::money, "
        "'12-'::money, '$ 5'::money, '-$5.005'::money, '92233720368547758.07'::money, "
        "'-92233720368547758.08'::money, '.5'::money, '+3'::money",
        "select 'x'::money",
        "select '1.2.3'::money",
        "select '92233720368547758.08'::money",
        "select 5::money, 5::bigint::money, 1.005::money, 2.345::numeric::money, "
        "'12.34'::money::numeric, '7'::money::text",
        "select 'NaN'::numeric::money",
        "select 92233720368547759::bigint::money",
        "select '10'::money + '5.5', '10'::money - '20', '10'::money * 3, 3 * '10.01'::money, "
        "'10'::money / 3, '10'::money / 2.5::float8, '10'::money * 1.005::float8, '10'::money / "
        "'4'::money, '-10'::money / 3, 2::int2 * '3'::money, '3'::money * 2.5::float4, '5'::money / "
        "2::int2",
        "select '10'::money / 0",
        "select '10'::money / '0'::money",
        "select '1'::money < '2', '1'::money = '1.00', '3'::money >= '2', greatest('1'::money, '2'), "
        "least('1'::money, '2')",
        "create table cash (id int primary key, m money, a money[])",
        "insert into cash select g, (g * 1.25)::numeric::money, array[g::money] from generate_series(1, 700) g",
        "select sum(m), min(m), max(m), count(distinct m) from cash",
        "select m, a from cash where m > '870' order by m desc",
        "select * from cash where m = '2.50'",
        "create index on cash (m)",
        "select id from cash where m between '10' and '12' order by m",
        "update cash set m = m * 2 where id = 3",
        "select m, m::numeric, to_json(m), format('%s', m) from cash where id = 3",
        "select sum(m) over (order by id) from cash where id < 4",
        "create table pk (m money primary key, d money default 5 check (d > '1'))",
        "insert into pk values ('1'), ('-1'), ('0.5')",
        "insert into pk values ('1.00')",
        "insert into pk values ('7', '0.5')",
        "select * from pk order by m",
        "select array_agg(m order by m) from pk",
        "select '{1,2.5,\"1,000\"}'::money[]",
    )


def test_money_in_binary(both_paths: Pair) -> None:
    for connection in (both_paths.shoal, both_paths.postgres):
        cursor = connection.cursor(binary=True)
        cursor.execute("create table b (m money, a money[])")
        with cursor.copy("copy b from stdin (format binary)") as copy:
            header = b"PGCOPY\n\xff\r\n\0" + bytes(8)
            cents = (-1234).to_bytes(8, "big", signed=True)
            copy.write(header + b"\0\2\0\0\0\x08" + cents + b"\xff\xff\xff\xff" + b"\xff\xff")
        found = cursor.execute("select m, m::text from b").fetchone()
        assert found in ((cents, "-$12.34"), (-1234, "-$12.34"))
