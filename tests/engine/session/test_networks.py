"""inet and cidr in statements, on both paths, beside PostgreSQL."""

from __future__ import annotations

from ipaddress import ip_network

import psycopg

from tests.engine.session.conftest import Pair
from tests.oracle import PostgresServer
from tests.server import ShoalServer


def test_networks(both_paths: Pair) -> None:
    both_paths.same(
        "select '192.168.1/24'::cidr, '10'::cidr, '128.1'::cidr, '192.168.100.128/25'::cidr, "
        "'2001:4f8:3:ba::/64'::cidr, '1.2.3.4'::cidr, '::1'::cidr, '224'::cidr, '250'::cidr, "
        "'10.1.2'::cidr, '0/0'::cidr",
        "select '192.168.1.1/24'::cidr",
        "select '1.2.3.4.5'::cidr",
        "select '10.0.0.0/33'::cidr",
        "select '::1/64'::cidr",
        "select 'x'::cidr",
        "select '{10.0.0.0/8,1.2.3.4}'::cidr[], array['10'::cidr], ('{10,11}'::cidr[])[2]",
        "select '10.1.2.3/8'::inet::cidr, '1.2.3.4'::inet::cidr, '10/8'::cidr::inet, "
        "'1.2.3.4'::cidr::inet, '1.2.3.4'::cidr::text, '1.2.3.4'::cidr || 'x'",
        "select network('192.168.1.5/24'), set_masklen('192.168.1.0/24'::cidr, 16), "
        "set_masklen('10.1.0.0/16'::cidr, -1), inet_merge('192.168.1.5/24', '192.168.2.5/24'), "
        "inet_merge('1.1.1.1','1.1.1.1'), abbrev('10.1.0.0/16'::cidr), abbrev('10.1.2.3/32'::cidr), "
        "abbrev('0/0'::cidr), abbrev('1.2.128.0/17'::cidr)",
        "select abbrev('2001:4f8:3:ba::/64'::cidr), abbrev('::/0'::cidr), abbrev('fe80::/10'::cidr), "
        "abbrev('2001:db8::/32'::cidr), abbrev('2001:0:0:1::/64'::cidr), "
        "abbrev('1:2:3:4:5:6:7:0/112'::cidr), abbrev('2001:4f8:3:ba:2e0:81ff:fe22:d1f1/128'::cidr), "
        "abbrev('2001:0:3:4::/64'::cidr)",
        "select inet_merge('1.1.1.1','::1')",
        "select set_masklen('10.1.0.0/16'::cidr, 33)",
        "select '10/8'::cidr >> '10.1/16'::cidr, '10.1.1.1'::inet << '10/8'::cidr, '10/8'::cidr = "
        "'10.0.0.0/8'::inet, '10/8'::cidr < '11/8', host('10.1/16'::cidr), masklen('10.1/16'::cidr), "
        "broadcast('10.1/16'::cidr), netmask('10.1/16'::cidr), family('10/8'::cidr), "
        "text('1.1.1.1'::cidr)",
        "create table nets (c cidr primary key, i inet, a cidr[])",
        "insert into nets select ('10.' || g || '.0.0/16')::cidr, ('10.' || g || '.0.1')::inet, "
        "array[('10.' || g || '.0.0/16')::cidr] from generate_series(0, 255) g",
        "insert into nets values ('1.2.3.4', '1.2.3.4', '{1.2.3.4}')",
        "select * from nets where c = '10.7/16'",
        "select * from nets where c = '1.2.3.4'",
        "select count(*), min(c), max(c) from nets",
        "select c, a from nets order by c desc limit 2",
        "select c from nets where c >> '10.9.1.1'::inet",
        "select c::inet, c::text, i::cidr from nets where i = '1.2.3.4'",
        "select array_agg(c order by c) from nets where c < '10.3/16'",
        "select a.c from nets a join nets b on a.c = network(set_masklen(b.i, 16)) where b.i = '10.77.0.1'",
        "select to_json(c), json_build_object('c', c), format('%s', c), row(c) from nets where i = '1.2.3.4'",
        "create index on nets using gist (c inet_ops)",
        "create index on nets (c)",
        "select '1.2.3.4'::cidr in (select c from nets), c = any (a) from nets where i = '1.2.3.4'",
        "create table ii (i inet)",
        "insert into ii values ('10.9.0.1'),('10.10.0.1'),('9.1.1.1'),('10.9.0.1/8')",
        "select string_agg(i::text, ' ' order by i) from ii",
        "select max(i), min(i) from ii",
        "select count(*) from ii where i > '10.9.0.1'",
        "select i, row_number() over (order by i) from ii",
    )


def test_cidr_in_binary(server: ShoalServer | PostgresServer) -> None:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        for text in ("10.0.0.0/8", "1.2.3.4/32", "2001:db8::/32"):
            for binary in (False, True):
                cursor = connection.execute("select %b::cidr, %s::cidr", (ip_network(text), text), binary=binary)
                assert cursor.fetchone() == (ip_network(text), ip_network(text))
