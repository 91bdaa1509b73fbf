-- One query a line, over the tables of test_queries.py. Rows are compared in order where the line ends in ORDER BY.

-- arithmetic and functions of scalars
select a, b + a, b - a, b * a, b / a, b % 3 from t
select a, -b, +b, abs(a - 3) from t order by a desc
select c + b, d + b, d * d, c / d from t
select n + 1, n * n, n - g, n / 3, n % 2, -n, abs(n) from t where a <> 4
select f + 1, f * 2, f / 2, -f, r + 1, r * 2, r + f from t where a not in (3,4)
select s || '!', s || v, length(s), upper(s), lower(s), substr(s, 2), substring(s from 1 for 2) from t
select round(n), round(n, 1), trunc(n), ceil(n), floor(n), sign(n), round(f), sqrt(a), power(a, 2), exp(0), ln(1), mod(a, 2) from t where a <> 3
select replace(s, 'o', '0'), trim(both from ch), position('o' in s), left(s, 2), right(s, 2), reverse(s), repeat(s, 2), split_part(s, 'o', 1), lpad(s, 5, '*'), initcap(s), concat_ws('-', s, v), ascii(s), chr(65), strpos(s, 'o'), translate(s, 'o', '0') from t
select 9223372036854775807 + 0, 2147483647::bigint + 1, 1e3, 1.10 from u limit 1

-- comparisons
select v = 'eins', ch = 'ab', ch = 'ab   ', s < 'p', s > 'Z' from t
select ch, length(ch), ch || '|' from t
select a from t where b is distinct from 10
select a, b is not distinct from null from t
select a from t where a in (1, 3, null)
select a from t where a not in (1, 3)
select a from t where a not in (1, null)
select a from t where n in (1.5, 2.25)
select a from t where g in (1, 0.10)
select a from t where g > n
select a from t where n >= 1.5 and n < 2.250
select a from t where b = any(array[10, 30])
select a from t where 2 = any(arr)
select a, 2 = any(arr), 9 <> all(arr), 4 < any(arr), 'a' = any(tarr) from t
select a from t where s like '%o%' or s ilike 'F%'
select a from t where s not like 'o%'
select a from t where s like any (array['o%', 't%'])
select a from t where s ~ '^t' or s !~ 'o'
select a from t where a between 2 and 4 and not b between 15 and 25
select a from t where (a, b) = (1, 10)
select a from t where (a, b) < (2, 20)
select a from t where (b, a) >= (10, 2)
select a, (a, b) < (1, null), (null, a) < (1, 2) from t

-- logic and conditionals
select * from t
select t.* from t where ok
select a from t where ok is not true
select a, ok is null, ok is unknown, not ok, ok and null, ok or null from t
select nullif(b, 10), coalesce(b, c, 0), greatest(a, b, 3), least(a, b, 3) from t
select coalesce(n, 0), coalesce(n, 1.5), coalesce(g, n) from t
select greatest(n, g), least(n, 1), greatest(f, 0), greatest(s, v) from t
select least(1.5, 2), greatest(null, 1), greatest('a', 'b')
select case when a = 1 then 'x' when b = 20 then s end from t
select case b when 10 then n when 20 then 0 else 1.234 end from t
select case when a > 2 then n else n * 2 end + 1, coalesce(n, 0) * 2, coalesce(n, 0.5) > 1 from t
select case a when 1 then 'one' when 2 then 'two' else 'many' end, count(*) from t group by 1 order by 1
select null, null::int, null + 1, 'x' || null, coalesce(null, null)
select 'a' as "A", 1 as "select", 'braces {} {0} {t1}' as x
select 1 where true
select 1 where null
select count(*) from t where null

-- sub-queries
select a from t where (a, b) in (select a, b * 10 from u)
select a from t where (a, b) not in (select a, b from u)
select a from t where a in (select a from u)
select a from t where a not in (select a from u)
select a from t where a not in (select a from u where a is not null)
select a from t where exists (select 1 from u where u.a = t.a)
select a from t where not exists (select * from u where u.a = t.a and u.b = 1)
select a, (select count(*) from u where u.a < t.a) from t
select a, (select max(k) from u where u.a = t.a) from t
select a, (select k from u where u.a = t.a and u.b = 2) from t
select a from t where b > all (select b from u)
select a from t where b > any (select a from u)
select a from t where n > all (select y from e)
select a from t where g = any (select 1.00)
select a, n = any (select 1.500), g <> all (select 1.00) from t
select a, (a, b) < any (select a, b from u) from t
select a, array(select b from u where u.a = t.a order by b desc) from t
select (select sum(x.b) from u x where x.a = t.a) + 1 from t order by 1
select a, (select (select count(*) from u where u.b = v.b and t.a = u.a) from u v limit 1) from t
select sum((select count(*) from u where u.a = t.a)) from t
select (select sum(t.a)) from t
select a from t where (select true)
select b, (select count(*) from u where u.b <= t.b / 10) from t group by b order by 1
select exists(select 1 from e), not exists(select 1 from e)
select a from t where a = (select min(a) from u)
select a, (select b from u where u.a = t.a order by b desc limit (select 1)) from t
select avg(c) from t where c > (select avg(c) from t)
select a from t where n > (select avg(n) from t)
select a + b * 2 + c * 3, case when c > (select avg(c) from t) then a * 2 else b * 10 end, (select count(*) from t as x where x.b < t.b), abs(b - c) from t where (c <= d - 2 or c >= d + 2) or a > b order by 1, 2
select t1.a from t t1 where t1.b in (select t2.b from t t2 where t2.a <> t1.a and t2.b = t1.b)

-- joins
select t.a, u.k from t join u on t.a = u.a
select t.a, u.k from t left join u on t.a = u.a
select t.a, u.k from t right join u on t.a = u.a
select t.a, u.a from t full join u on t.a = u.a
select a, t.b, u.b from t join u using (a)
select a, t.b, u.b from t full join u using (a)
select * from t join u using (a, b)
select * from u natural join e
select x.a, y.a from u x cross join u y where x.a = y.b
select x.a, y.a, z.a from u x, u y left join u z on y.a = z.b where x.b = y.b
select t.a, l.m from t left join lateral (select max(b) as m from u where u.a <= t.a) l on true
select t.a, l.b from t, lateral (select b from u where u.a = t.a order by b limit 1) l
select t.a, x.* from t left join (u x join u y on x.b = y.b) on t.a = x.a
select x.a, y.a from t x join t y on x.g = y.g order by 1, 2
select x.a, y.a from t x left join t y on x.ch = y.ch and x.n < y.n order by 1, 2

-- aggregates
select count(*), count(b), count(distinct b), sum(a), sum(c), sum(n), sum(g), avg(a), avg(n), min(s), max(s) from t
select sum(f), avg(f), min(f), max(f) from t where a in (1,2,5)
select min(f), max(f), max(g), min(n), max(ch), min(dt), max(ts) from t
select sum(a), avg(a), count(*), max(s) from t where false
select b, count(*), sum(a) from t group by b order by b
select b, count(*) from t group by b having count(*) > 1 order by b nulls first
select b + 1, count(*) from t group by b + 1 order by 1
select b % 3 as m, sum(n) from t group by m order by m desc
select floor(g), count(*) from t group by floor(g) order by floor(g)
select ch, count(*) from t group by ch order by ch
select a, s, count(*) from t group by a order by a
select b, d, grouping(b), grouping(b, d), count(*) from t group by grouping sets ((b), (d), ()) order by 1, 2, 4
select b, ok, count(*) from t group by rollup (b, ok) order by b, ok, 3
select b, ok, sum(a) from t group by cube (b, ok) order by b, ok, 3
select round(g), ok, count(*) from t group by rollup (round(g), ok) order by round(g), ok, 3
select sum(a) filter (where b = 10), count(*) filter (where ok), avg(n) filter (where a < 3) from t
select sum(distinct b), avg(distinct b), count(distinct g), count(distinct ch) from t
select string_agg(s, ',' order by a desc), array_agg(a order by a desc), array_agg(b order by a) from t
select string_agg(distinct v, '-') from t
select avg(DISTINCT x), sum(DISTINCT x), stddev(DISTINCT x), var_pop(DISTINCT x), count(DISTINCT x), max(DISTINCT x) FROM (VALUES (0.3::float8), (0.1), (0.2), (NULL), (1e10), (-7.7), (0.1)) AS t(x)
select avg(DISTINCT x) FILTER (WHERE x < 1), sum(DISTINCT x ORDER BY x DESC), avg(DISTINCT x::float4), sum(DISTINCT x::float4), stddev(DISTINCT x::float4) FROM (VALUES (0.3::float8), (0.1), (0.2), (1e10), ('NaN'), (0.1)) AS t(x)
select string_agg(s, v order by a) from t
select bool_and(ok), bool_or(ok), every(a > 0), bit_and(a), bit_or(a) from t
select stddev(a), variance(a), var_pop(f), stddev_samp(n), corr(a, b), regr_slope(a, b) from t where a in (1,2,5)
select sum(n) / count(*), sum(b) / count(*), avg(a) * 2 from t
select max(a) - min(a), sum(a * b), sum(case when ok then n else 0 end), sum(coalesce(n, 0)) from t
select b, sum(case when ok then n * 2 else 0 end), avg(coalesce(n, 0.5)), max(coalesce(n, 0)) from t group by b order by b
select 'const', count(*) from t group by 'const'::text
select 1 from t having count(*) > 2
select max(a) from t having max(a) > 100

-- windows
select a, row_number() over (order by a desc), rank() over (order by b), dense_rank() over (order by b nulls first) from t order by a
select a, sum(a) over (order by a), sum(b) over (partition by ok order by a), count(*) over () from t order by a
select a, lag(a) over w, lead(a, 2, 0) over w, first_value(s) over w, last_value(a) over w, nth_value(a, 2) over w from t window w as (order by a)
select a, sum(a) over (order by a rows between 1 preceding and 1 following), avg(n) over (order by a rows unbounded preceding) from t order by a
select a, sum(a) over (order by b range between 5 preceding and 5 following), count(*) over (order by b groups between 1 preceding and current row) from t order by a
select a, sum(a) over (order by b rows between unbounded preceding and unbounded following exclude ties) from t order by a
select a, ntile(2) over (order by a), percent_rank() over (order by b), cume_dist() over (order by b) from t order by a
select b, sum(sum(a)) over (order by b), rank() over (order by count(*) desc, b) from t group by b order by b
select a, lag(n, 1, 0.5) over (order by a), sum(g) over (order by a), n - lag(n) over (order by a) from t order by a
select a, count(*) filter (where b = 10) over (order by a) from t order by a

-- distinct
select distinct b from t order by b
select distinct round(g, 1) from t order by 1 desc
select distinct ch from t order by ch
select distinct b, ok from t order by 2, 1
select distinct on (b) b, a from t order by b, a desc
select distinct on (b) a from t order by b, a desc
select distinct on (g) g, a from t order by g, a

-- set operations
select a from t union select a from u order by 1
select a from t union all select b from u order by a desc nulls last
select a from t intersect select a from u
select a from t except select a from u order by 1
select b from t intersect all select b * 10 from u
select b from t except all select 10
select n from t union select 1.75 order by 1
select g from t where a > 2 union select 1.000 order by 1
select g from t where a > 2 intersect select 0.1
select g from t except select 1.000 order by 1
select n from t union all select g from t order by 1 nulls first
select ch from t union select 'ab' order by 1
(select a from t order by a desc limit 2) union all (select a from u order by a limit 1) order by 1
select a from t union all (select 100 union select 101) order by a limit 3 offset 1
select 1 union select 2 union all select 2 order by 1
select a, null from t union all select null, k from u order by 1, 2
select count(*) from (select a, b from t union all select a, b from u) x

-- order and limits
select a from t order by b nulls first, a desc limit 3
select a from t order by n desc, a
select a from t order by g, a
select a from t order by g desc nulls last, a
select a from t order by s desc nulls first
select a from t order by f, a
select a from t order by lower(s), a
select a as z, b from t order by a + 0 desc
select a from t order by a limit 2 offset 1
select a from t order by a limit null offset null
select a from t order by a limit (select 2)
select a from t order by a offset 3
select b from t order by b fetch first 2 rows with ties
select b, ok from t order by b nulls first, ok offset 1 fetch first 1 rows with ties

-- WITH
with x as (select a, b from t where b is not null) select x.a, y.a from x join x y on x.b = y.b order by 1, 2
with x(p, q) as (select a, b from t), y as (select sum(p) as m from x) select * from x, y order by 1
with x as materialized (select 1 as one) select * from x, x y
with recursive r(n) as (select 1 union all select n + 1 from r where n < 5) select * from r
with recursive r(n, p) as (select 1, 1.0 union all select n + 1, p * 1.5 from r where n < 5) select * from r
with recursive r(n) as (values (1) union select (n * 2) % 7 from r) select * from r order by 1
with recursive r(n) as (select 1 union all select n + 1 from r) select n from r limit 4
with recursive tr(a, path) as (select a, array[a] from u where a = 1 union all select u.a, path || u.a from tr join u on u.b = tr.a where u.a <> all(path)) select * from tr
with x as (select a from t) select (select count(*) from x where x.a < u.a) from u
with recursive c(i) as (select 1 union all (with d as (select i + 1 as j from c) select j from d where j < 4)) select * from c

-- VALUES and set-returning functions
values (1, 'a'), (2, null), (null, 'c')
values (1.5), (2), (3.25)
select * from (values (1, 'x'), (2, 'y')) v(i, j) where i > 1
select column1 + 1 from (values (1), (2)) v order by 1
select generate_series(1, 3)
select a, generate_series(1, a) from t where a < 4 order by 1, 2
select a, unnest(arr) from t order by 1, 2
select unnest(array[1,2,3]), unnest(array['a','b'])
select generate_series(1, 2), generate_series(1, 4)
select a, unnest(arr) * 2 as x from t order by x nulls first limit 3
select distinct generate_series(1, 3) % 2 order by 1
select b, count(*), generate_series(1, 2) from t group by b order by b, 3
select * from generate_series(1, 5)
select * from generate_series(10, 1, -3) as g(x) where x > 2
select * from generate_series(1, 3) with ordinality
select * from unnest(array[10, 20], array['a', 'b', 'c']) as x(p, q)
select t.a, x from t, unnest(t.arr) as x order by 1, 2
select t.a, x, o from t left join lateral unnest(t.tarr) with ordinality as z(x, o) on true order by 1, 3
select t.a, x from t, generate_series(t.a, 4) x order by 1, 2
select * from rows from (generate_series(1, 2), generate_series(5, 7)) as z(p, q)
select sum(x) from generate_series(1, 1000) x
select * from abs(-3) as x

-- arrays and rows
select arr[1], arr[2], arr[9], arr[1:2], arr[2:], tarr[1] from t
select arr[a], arr[0], arr[-1], arr[a:3], arr[:0] from t
select array[1, 2, 3], array[a, b], array['x', s], array[]::int[] from t
select array_length(arr, 1), cardinality(arr), array_append(arr, 9), arr || 7, array_to_string(tarr, ',') from t
select arr = array[1,2,3], arr < array[4], arr @> array[1], tarr && array['a'] from t
select arr from t order by arr, a
select array[n, 1] from t
select row(1, 'a b', null), (a, s) from t
select t from u t order by b
select row(a, b) = row(1, 10), (a, b) is null, row(null, null) is null from t

-- casts and types
select a::text, b::text, c::text, n::text, g::text, f::text, r::text, ok::text, dt::text, ts::text, by::text, u::text, arr::text from t
select '12'::int, ' 7 '::int, '1.50'::numeric, '2024-01-01'::date, 'true'::bool, '1.5'::float8
select (a || '0')::int, (s || '')::varchar, (b::text || '.5')::numeric, (a::text)::bool from t where a = 1
select s::varchar(2), 'abc'::char(5), 'abcdef'::varchar(3), n::numeric(5,1), n::int, f::int, g::numeric(5,2) from t where a in (1, 2, 5)
select a::float8, a::numeric, n::float8, c::int, d::bigint, ok::int, 1::bool from t
select 1.5::int, 2.5::int, -2.5::int, 2.5::float8::int, 3.5::float8::int
select arr::bigint[], arr::text[], array[1.5, 2.5]::int[] from t
select dt + 1, dt - date '2024-01-01', dt < '2024-02-01', ts::date, dt::timestamp from t
select '1 2 3'::text || 4 || true || null::text, 5 || 'x'
select x, x::text, coalesce(x, 1), case when x > 0 then x else 0 end, sum(x) over (order by x) from (select b::numeric(2,2) / 1 as y, (0.01 * b)::numeric(2,2) as x from u) z order by 1

-- combinations
select t.a, t.s, count(u.a) from t left join u on t.a = u.a group by t.a order by t.a
select t.*, count(*) from t group by t.a order by t.a
select a, b from t group by a, b having sum(c) > 100 order by a
select (select count(*) from u where u.a = t.b % 3) as x, count(*) from t group by x order by x
select b, (select max(u.b) from u where u.a = min(t.a)) from t group by b order by b
select count(*) from t where (select count(*) from u where u.a = t.a) > 0
select a, sum(count(*)) over () from t group by a order by a
select a from t order by row_number() over (order by b desc, a)
select a, case when row_number() over (order by a) > 2 then 'x' end from t order by a
select * from (select a, row_number() over (partition by b order by a) rn from t) x where rn = 1 order by a
select a, b from t order by b desc nulls last, a limit 2
select a from t where exists (select 1 from u where u.a = t.a and u.b > (select avg(b) from u v where v.k = u.k))
select t.a from t join u on t.a = u.a and exists (select 1 from e right join u z on true where z.b = u.b)
select a, (select array_agg(b order by b) from u where u.a = t.a) from t
select * from t x where x.a = (select max(y.a) from t y where y.b = x.b) order by a
with q as (select b, sum(a) as s from t group by b) select * from q where s > (select avg(s) from q) order by 1
select t.a, z.* from t, lateral (with w as (select u.b from u where u.a = t.a) select count(*) as n, max(b) as m from w) z
select a, b from t where (a, b) in (values (1, 10), (2, 20), (3, null))
select a from t where (a, b) not in (values (1, 10), (2, null))
select a from t where row(a, b) is distinct from row(1, 10)
select count(*) from t, u, e
select count(*) from t left join e on true
select coalesce(x.a, y.b), x.k from u x full join u y on x.a = y.b and x.k = 'x' order by 1, 2
select * from (select 1 as a union all select 2) x join (values (1, 'p'), (3, 'q')) y(a, z) using (a)
select * from (select 1 as a union all select 2) x full join (values (1, 'p'), (3, 'q')) y(a, z) using (a) order by a
select a from u x full join u y using (a) group by a order by a
select sum(b) from u x join u y using (a, b)
select n from t group by n having n > 1 order by n desc
select case when grouping(b) = 1 then 'all' else b::text end, count(*) from t group by rollup (b) order by 1, 2
select b, count(*) from t group by grouping sets ((), (b)) having count(*) > 1 order by b, 2
select percentile_cont(0.5) within group (order by a), percentile_disc(0.5) within group (order by s), mode() within group (order by b) from t
select percentile_cont(array[0.25, 0.75]) within group (order by a) from t
select b, percentile_cont(0.5) within group (order by f) from t where a in (1,2,5) group by b order by b
select max(n), min(n), sum(n), avg(n) from t group by b order by 1
select sum(coalesce(n, 1)) over (order by a), avg(case when ok then n else 0 end) over (order by a) from t
select min(coalesce(n, 0)), max(case when a > 2 then n else 1.000 end), count(distinct coalesce(n, 1)) from t
select coalesce(n, 0), count(*) from t group by coalesce(n, 0) order by 1
select distinct coalesce(n, 0) from t order by 1
select coalesce(n, 0) from t union all select 5 order by 1
select array[coalesce(n, 0), 1.5], row(coalesce(n, 0)), coalesce(n, 0)::text, coalesce(n, 0)::int, coalesce(n, 1)::numeric(10,1), round(coalesce(n, 0), 1) from t
select coalesce(n, 0) + 1, coalesce(n, 0) * n, -coalesce(n, 1), abs(coalesce(n, -1)), coalesce(n, 0) / 2, coalesce(n, 0) % 2 from t
select nullif(n, 1.5), nullif(coalesce(n, 0), 0), greatest(coalesce(n, 0), 1) from t
select coalesce(n, 0) in (0, 1.5), coalesce(n, 0) = any (select y + 1 from e), coalesce(n, 0) between 0 and 2 from t
select case when a = 1 then null when a = 2 then 1.5 else n end from t
select case when a = 1 then null else null end from t
select sum(a) from t where n in (select n from t where a < 3)
select g::numeric(20,5) + n, n::numeric(20, 10) * n from t where g < 10
select sum(n * n), sum(n) * sum(n), sum(c) * 2, avg(c) + 1 from t
select c::numeric * c::numeric * c::numeric from t where c < 200
select (n * 100)::int, n * 1.0, n * 1e2, 1e-3 * n from t
select 1/3.0, 2.0/3, 10.0/2, 1e10/3, 0.00001/3
select avg(a), avg(b), avg(c), avg(d), avg(a::numeric) from t
select s from t where s > 'a' and s <= 'two' order by s
select v from t where v like 'e_n%' or v = 'vier'
select s, count(*) from t group by s order by s
select left(s, 1) as l, count(*) from t where s is not null group by l order by l
select a from t where ok = true and not (b = 20 or n < 0)
select a from t where not (b > 15) or b is null
select a, b > 10 and ok, b > 10 or ok, not (b > 10) from t
select a from t where b > 10 is not false
select max(s collate "C") from t
select dt, count(*) from t group by dt order by dt
select max(dt), min(ts), max(tz) from t
select a from t where dt = '2024-01-31' and ts > '2024-01-01 00:00:00'
select a from t where u = '11111111-1111-1111-1111-111111111111' or by = '\x00'
select u, by from t order by u, by
select unnest(array[1, 2]) + a, a from t where a < 3 order by 1, 2
select a, generate_series(1, 2), unnest(array['x','y','z']) from t where a = 1
select count(*) from (select unnest(arr) from t) x
select array(select unnest(arr) from t order by 1)
select x.y from t, unnest(arr) with ordinality as x(y, z) where z = 1 order by 1
select a, (select sum(x) from unnest(arr) x) from t
select string_agg(x::text, ',') from unnest(array[3, 1, 2]) x
select * from generate_series(1.0, 2.0, 0.5)
select coalesce(current_date is not null, false), localtimestamp is not null
select md5(s), encode(by, 'hex'), decode('ff', 'hex') from t
select regexp_replace(s, 'o', 'X'), s ~* 'T', regexp_match(s, 't(.)') from t
select a from t where a = 1 union (select a from t where a = 2 order by a limit 1) except select 2
select (select 1 union select 2 order by 1 limit 1)
select (values (1))
select exists (values (1))
select 1 as x order by x
select a from t limit 0
select count(*) over (), a from t limit 2
select a as b, b as a from t order by a, b
select -a as a from t order by a
select a, a from t order by a
select t.a from t, t t2 where t.a = t2.a + 1 order by t.a
select t.a from t natural join t t2 order by 1
select * from t limit 1 offset 10
table u
select (t).a, (z).k from t, u z where t.a = z.a
select x from (select row(1, 2) as x) y
select a from t where t is not null
select t = t from u t
select a, lag(s) over (partition by ok order by a desc) from t order by a
select first_value(n) over (order by n desc nulls last), last_value(n) over (order by n rows between current row and unbounded following) from t
select a, sum(b) over w1, count(*) over w2 from t window w1 as (partition by ok), w2 as (w1 order by a) order by a
select max(a) over (order by a rows between 2 preceding and 1 preceding), min(a) over (order by a range between unbounded preceding and unbounded following) from t
select array_agg(a) over (order by a), string_agg(s, ',') over (order by a) from t
select bool_or(ok) over (order by a), stddev(a) over (order by a) from t
select every(ok) filter (where a > 1) from t

-- errors that must not be raised
select sum(100 / (a - 1)) filter (where a > 1), count(100 / (a - 2)) filter (where a <> 2) from t
select sum(100 / (a - 1)) filter (where a > 1) over (order by a) from t
select a from t where a <> 1 and 10 / (a - 1) > 2
select case when a = 1 then 0 else 10 / (a - 1) end, coalesce(b, 1 / (a - 3)) from t where a <> 3
select x from (select a, 10 / (a - 1) as x from t where a > 1) y where x > 3
select sum(case when s ~ '^[0-9]+$' then s::int else 0 end) from t

-- rows that an outer join has made up
select t.a, u from t left join u on t.a = u.a
select t.a, count(u.*), count(u) from t left join u on t.a = u.a group by t.a order by t.a
select x.a, t is null, t.a from u x left join t on x.a = t.a
select t.a, z from t left join (select a, k from u) z on t.a = z.a
select u, e from u full join e on u.a = e.x
