-- Moments formatted, and intervals multiplied, many at a time.
create table m (id int primary key, at timestamp, f float8, z timestamptz);
insert into m select i, timestamp '1999-12-27 00:00:00' + i * interval '7 hours 13 minutes 5.25 seconds', i / 4.0, timestamptz '2024-01-01 00:00+00' + i * interval '1 hour' from generate_series(1, 1500) i;
insert into m values (2001, 'infinity', 'nan', 'infinity'), (2002, '-infinity', 'infinity', null), (2003, '0044-03-15 12:00 BC', '-infinity', null), (2004, null, null, null), (2005, '0999-01-01 01:02:03', -0.0, null), (2006, '12024-05-06 07:08:09', 1e15, null);
select to_char(at, 'YYYY-MM'), count(*) from m group by 1 order by 1;
select to_char(at, 'YYYY-MM-DD HH24:MI:SS.US') from m order by id;
select to_char(at, 'HH12:MI AM'), to_char(at, 'HH:MI:SS PM'), to_char(at, 'Dy DD Mon YYYY'), to_char(at, 'IYYY-IW'), to_char(at, 'DDD/YYYY'), to_char(at, 'yyyymmdd') from m order by id;
select to_char(at, 'YYYY"W"IW'), to_char(at, 'FMDD'), to_char(at, 'DDth'), to_char(at, 'SSSS'), to_char(at, 'Month'), to_char(at, ''), to_char(at, 'YY Q J'), to_char(at, 'DDTH') from m where id < 30 or id > 2000 order by id;
select to_char(z, 'YYYY-MM-DD HH24'), to_char(at::date, 'DD.MM.YYYY') from m order by id;
select id * interval '1 minute', interval '1 mon 3 days 00:00:01.5' * id, interval '-1 year' * id from m where id <= 1500 order by id;
select id, f * interval '1 month 1 day 1 hour' from m where id <= 1500 or id in (2004, 2005) order by id;
select f * interval '1 second' from m where id = 2001;
select f * interval '1 second' from m where id = 2006;
select f * interval '1 month' from m where id = 2006;
select sum(id * interval '1 hour'), max(at + id * interval '1 day') from m where id <= 1500;
select date_trunc('week', at + id * interval '36 hours') w, count(*) from m where id <= 1500 group by w order by w limit 20;
