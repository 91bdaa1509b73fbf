create table a (id int primary key, i int[], b int[][], t text[], j jsonb);
insert into a values (1, '{1,2,3}', '{{1,2},{3,4}}', '{a,b}', '{}'), (2, '{}', '{}', null, null), (3, null, null, '{x}', '[1]'), (4, '{7}', null, '{}', '{"a": {"b": [1]}}'), (5, '{1}', null, null, '"s"');
update a set b[1:1][1:2] = '{{11,12}}' where id = 1;
update a set b[2:3][1:1] = '{5,6}' where id = 1;
update a set b[1:2] = '{{7,8},{9,10}}' where id = 1;
update a set i[-1:0] = '{-1,0}' where id = 1;
update a set b[1:2][1:1] = '{1,2}' where id = 2;
select id, i, b from a order by id;
