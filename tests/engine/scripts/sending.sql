select float4send('1.5'::float4), float8send(-2.25), int2send(5::int2), int4send(-1), int8send(7), textsend('abc'), boolsend(true), numeric_send(1.50), date_send('2020-01-01'), timestamp_send('2020-01-01 01:02:03'), timestamptz_send('2020-01-01 01:02:03+00'), interval_send('1 day 2 hours'), uuid_send('a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'), byteasend('\x01'), jsonb_send('{"a": 1}'), json_send('[1]'), bit_send(B'101'), range_send('[1,2)'::int4range), array_send(array[1,2]), macaddr_send('08:00:2b:01:02:03'), varcharsend('x'), bpcharsend('x'::char(3)), namesend('n'), charsend('c'), oidsend(5), time_send('01:02'), timetz_send('01:02+03'), jsonpath_send('$.a');
select float4send(x::float4) from (values ('5e-20'), ('67e14'), ('985e15'), ('7693e-42')) v(x) order by x;
select float8send(x) from generate_series(1, 3) g(i), lateral (select i * 0.5::float8 as x) s order by x;
create type e as enum ('a', 'b');
select enum_send('b'::e);
