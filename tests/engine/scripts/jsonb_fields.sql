-- Fields of jsonb by names that are known beforehand.
create table t (id int primary key, j jsonb);
insert into t values (1, '{"k": 1.10, "b": "x\u00e9\n\"", "c": 12345678901234567890123, "d": -5, "e": true, "f": null, "g": {"x": [1.0, 2]}, "h": 18446744073709551615, "i": 1e5, "a b": "q", "K": "up"}'), (2, '["k", "b"]'), (3, '"k"'), (4, '5'), (5, null), (6, '{}'), (7, 'null'), (8, '{"k": "", "b": [], "d": {}, "e": false, "h": -9223372036854775809, "i": 0.0}'), (9, '{"k": "\\u0041\/"}'), (10, '[1, {"k": 2}]'), (11, '{"k": -0, "d": 1E400, "i": 1.5e-3}'), (12, '{"k": {"k": "deep"}}');
insert into t select i, jsonb_build_object('k', i % 5, 'b', 'x' || i % 7, 'n', i / 8.0) from generate_series(13, 1500) i;
select id, j->>'k', j->>'b', j->>'c', j->>'d', j->>'e', j->>'f', j->>'g', j->>'h', j->>'i', j->>'a b', j->>'zz', j->>'K' from t where id < 20 order by id;
select id, j ? 'k', j ? 'b', j ? 'zz', j ? 'f', j ? 'a b' from t where id < 20 order by id;
select j->>'k', count(*) from t where j ? 'k' group by 1 order by 2 desc, 1;
select (j->>'k')::numeric k, count(*) from t where id > 12 group by 1 order by 1;
select sum((j->>'n')::numeric), max((j->>'n')::float8) from t where id > 12;
select count(*) from t where (j->'k')->>'k' = 'deep' or j->>'b' = 'x3';
select count(*) from t where j->>'it''s' is null and j->>'$.k' is null and j->>'' is null and j->>'k.k' is null;
select count(*) from t where j ->> 'k' in ('1', '2') and j->>'b' like 'x%';
select (j->>'k')::int from t where id = 1;
