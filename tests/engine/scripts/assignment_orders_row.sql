create type pair as (x int, tags text[]);
create table t (id int primary key, a int[], ps pair[]);
insert into t (id, ps[2].tags[1], ps[1].x, ps[2].x) values (13, 'foo', 1, 2), (14, 'baz', 3, 4);
insert into t (id, ps[3].tags[2], a[0], a[-1]) values (15, 'foo', 1, 2) returning *;
insert into t (id, ps[3].tags[2], a[5]) values (16, 'foo', 1);
update t set a[2] = 5, ps[1].tags[0] = 'zero' where id < 16;
update t set a[2:3] = '{8,9}', ps[2:2] = '{"(7,{w})"}' where id = 16;
select * from t order by id;
