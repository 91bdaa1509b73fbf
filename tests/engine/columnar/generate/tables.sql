create table t (a int primary key, b int, c bigint, d smallint, s text, v varchar(10), ch char(5), n numeric(10,2), g numeric, f float8, r real, ok bool, dt date, ts timestamp, tz timestamptz, u uuid, by bytea, arr int[], tarr text[]);
insert into t values
(1, 10, 100, 1, 'one', 'eins', 'ab', 1.50, 1.0, 1.5, 0.1, true, '2024-01-31', '2024-01-31 10:00:00', '2024-01-31 10:00:00+00', '11111111-1111-1111-1111-111111111111', '\x01', '{1,2,3}', '{a,b}'),
(2, 20, null, 2, 'two', null, 'ab', 2.25, 1.00, -0.5, 0.2, false, '2024-02-29', '2024-02-29 23:59:59.5', '2024-02-29 23:59:59.5+00', '22222222-2222-2222-2222-222222222222', '\x02ff', '{4,null}', '{}'),
(3, null, 300, null, null, 'drei', 'cd', null, 1e30, 'NaN', null, null, null, null, null, null, null, null, null),
(4, 20, 400, 4, 'Four', 'vier', '', -7.10, 'NaN', 'Infinity', 1e10, true, '1999-12-31', '1999-12-31 00:00:00', '1999-12-31 00:00:00+00', '33333333-3333-3333-3333-333333333333', '', '{}', null),
(5, 10, 100, 5, 'it''s {5}', 'fuenf', 'ab  x', 0.00, 0.1, 0, 3.25, false, '2024-01-31', '2024-01-31 10:00:00', '2024-01-31 10:00:00+00', null, '\x00', '{5}', '{"x y",null}');
create table u (a int, b int, k text);
insert into u values (1, 1, 'x'), (2, 1, 'y'), (2, 2, null), (null, 3, 'z'), (7, 4, 'x');
create table e (x int, y numeric);
