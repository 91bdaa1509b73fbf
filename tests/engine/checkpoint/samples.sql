CREATE TABLE types (
  id int PRIMARY KEY, b boolean, i2 smallint, i8 bigint, f4 real, f8 double precision, o oid,
  n102 numeric(10,2), n38 numeric(38,0), n numeric, n50 numeric(50,3), nneg numeric(5,-2),
  t text, v varchar(5), c char(4), ch "char", nm name, by bytea, u uuid, j json, jb jsonb,
  d date, ti time, tz timetz, ts timestamp, tstz timestamptz, iv interval,
  ia int[], ta text[], na numeric(6,2)[], da date[], ua uuid[], ja jsonb[], iva interval[], inetc inet
);
CREATE INDEX types_t ON types (t);
CREATE UNIQUE INDEX types_u ON types (i8, d) WHERE b;
CREATE INDEX types_lower ON types (lower(t), n);
CREATE INDEX types_arrays ON types (ia);
CREATE INDEX types_iv ON types (iv);
INSERT INTO types VALUES
 (1, true, 7, 8, 1.5, 2.5, 99, 1.10, 12345678901234567890123456789012345678, 1.100, 5.123, 1200, 'plain', 'abc', 'x', 'q',
  'name', '\x00ff', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '{"a": 1,  "b": [1,2]}', '{"b":2,"a":1}', '2024-02-29',
  '12:34:56.789012', '12:34:56+02', '2024-02-29 12:00:00.000001', '2024-02-29 12:00:00+05', '1 mon 2 days 03:04:05.6',
  '{1,2,NULL}', '{a,"b c",NULL}', '{1.10,2}', '{2020-01-01}', '{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}', '{"{\"a\": 1}"}',
  '{1 day,2 mons}', '10.0.0.1'),
 (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
  NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
 (3, false, -32768, -9223372036854775808, 'NaN', 'Infinity', 4294967295, 'NaN', -1, 'Infinity', 'NaN', 0, '', '', '', '',
  '', '', '00000000-0000-0000-0000-000000000000', '[]', 'null', 'infinity', '24:00:00', '23:59:59+14', '-infinity',
  'infinity', '-1 mons +300000:00:00', '{}', '{}', '{NaN}', '{infinity,2020-01-01}', '{}', '{}',
  '{178000000 years}', '::1'),
 (4, true, 32767, 9223372036854775807, '-0', '-0', 0, 0.00, 0, 0.0000000001, 99999999999999999999999999999999999999999999.5,
  -99900, 'é日本', 'éé', 'é', 'z', 'x', '\x', 'ffffffff-ffff-ffff-ffff-ffffffffffff', '"x"', '1.50', '-infinity', '00:00',
  '00:00+00', '4713-01-01 00:00:00 BC', '294276-12-31 23:59:59.999999+00', '-178000000 years', '{{1,2},{3,4}}',
  '[3:4]={a,b}', '{{1.5},{2.5}}', '{}', '{NULL}', '{NULL}', '{}', '192.168.0.0/16'),
 (5, true, 1, 1, 1, 1, 1, 99999999.99, 99999999999999999999999999999999999999, 123456789.123456789, 1, 100, 'z', 'z', 'zzzz',
  'A', 'y', '\x01', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '1', '"y"', '4713-01-01 BC', '23:59:59.999999', '00:00-12:30',
  'infinity', '-infinity', '0', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
CREATE TABLE heap (a int, b text);
INSERT INTO heap SELECT g, repeat('h', g % 7) FROM generate_series(1, 1000) g;
DELETE FROM heap WHERE a % 10 = 3;
CREATE INDEX heap_a ON heap (a);
CREATE TABLE nothing ();
INSERT INTO nothing DEFAULT VALUES;
CREATE TABLE empty (a int PRIMARY KEY);
CREATE TABLE "Odd name/É" ("Select" int PRIMARY KEY, "_shoal_row_number" text);
INSERT INTO "Odd name/É" VALUES (1, 'x');
CREATE TABLE hidden_name ("_shoal_row_number" text);
INSERT INTO hidden_name VALUES ('x');

CREATE TABLE keyed (d date, t text, n numeric, x int, PRIMARY KEY (d, t, n));
INSERT INTO keyed VALUES ('2020-01-01', 'a', 1.50, 1), ('infinity', 'b', 'NaN', 2), ('-infinity', repeat('k', 700), 3, 3),
  ('2020-01-01', 'a', 1.5000001, 4), ('4713-01-01 BC', '', 0, 5);
CREATE TABLE spans (i interval PRIMARY KEY, x int);
INSERT INTO spans VALUES ('178000000 years', 1), ('1 day', 2), ('-178000000 years', 3), ('999999999:00:00', 4);

CREATE TABLE layouts (id int PRIMARY KEY, gone text, kept numeric(8,2));
INSERT INTO layouts SELECT g, 'gone ' || g, g / 4.0 FROM generate_series(1, 300) g;
ALTER TABLE layouts ADD COLUMN added date DEFAULT '2001-02-03';
INSERT INTO layouts SELECT g, 'gone ' || g, g, '2020-02-02' FROM generate_series(301, 400) g;
ALTER TABLE layouts DROP COLUMN gone;
INSERT INTO layouts VALUES (500, 5, NULL);
ALTER TABLE layouts ADD COLUMN last text;
UPDATE layouts SET last = 'x' WHERE id % 50 = 0;

CREATE TABLE plain_layouts (id int PRIMARY KEY, a text);
INSERT INTO plain_layouts SELECT g, 'a' || g FROM generate_series(1, 300) g;
ALTER TABLE plain_layouts ADD COLUMN b int DEFAULT 7;
INSERT INTO plain_layouts VALUES (301, 'b', 8);

CREATE SCHEMA other;
CREATE TABLE other.serials (id serial PRIMARY KEY, x text UNIQUE, parent int REFERENCES other.serials);
INSERT INTO other.serials (x, parent) VALUES ('a', NULL), ('b', 1), (NULL, 2), (NULL, NULL);
CREATE TABLE emptied (id int PRIMARY KEY, x text UNIQUE);
INSERT INTO emptied SELECT g, 'x' || g FROM generate_series(1, 200) g;
TRUNCATE emptied;
INSERT INTO emptied VALUES (1, 'one');
CREATE TABLE dropped (id int PRIMARY KEY);
INSERT INTO dropped SELECT generate_series(1, 200);
DROP TABLE dropped;
CREATE VIEW summary AS SELECT count(*) AS n FROM heap;
CREATE ROLE someone LOGIN PASSWORD 'secret';
CREATE SEQUENCE counter START 100 INCREMENT 5;
SELECT nextval('counter');
