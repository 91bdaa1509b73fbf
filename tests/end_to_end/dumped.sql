CREATE SCHEMA shop;
COMMENT ON SCHEMA shop IS 'what is sold';
SET search_path = shop, public;
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE DOMAIN positive AS int CHECK (VALUE > 0);
CREATE TYPE floats AS RANGE (SUBTYPE = float8, SUBTYPE_DIFF = float8mi, MULTIRANGE_TYPE_NAME = many_floats);
CREATE TYPE moodrange AS RANGE (SUBTYPE = mood);
CREATE TYPE words AS RANGE (SUBTYPE = text, COLLATION = "C", SUBTYPE_OPCLASS = text_pattern_ops);
COMMENT ON TYPE moodrange IS 'from a mood to another';
CREATE DOMAIN short AS floats CHECK (upper(VALUE) - lower(VALUE) < 10);
CREATE TABLE spans (a floats PRIMARY KEY, b moodrange[], c many_floats DEFAULT many_floats(floats(1, 2)), d words, e short,
    EXCLUDE USING gist (a WITH &&));
CREATE INDEX ON spans USING gist (c);
CREATE VIEW seen_spans AS SELECT a * floats(0, 5) AS a, many_floats(a) AS many FROM spans WHERE a && '[0,9)';
INSERT INTO spans VALUES ('[1,2)', ARRAY[moodrange('sad', 'ok')], DEFAULT, '[a,"b c")', '[1,2]'), ('[3,)', NULL, '{}', '(,)', NULL);
CREATE TABLE people (
    id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name varchar(40) NOT NULL,
    email text UNIQUE,
    born date DEFAULT '2000-01-01',
    balance numeric(12, 2) NOT NULL DEFAULT 0 CHECK (balance >= 0),
    feels mood DEFAULT 'ok',
    tags text[],
    "Odd Name" positive,
    double_balance numeric(13, 2) GENERATED ALWAYS AS (balance * 2) STORED
);
COMMENT ON TABLE people IS 'who buys, ''quoted''';
COMMENT ON COLUMN people.name IS 'as on the letter';
CREATE TABLE orders (
    id bigserial PRIMARY KEY,
    person int NOT NULL REFERENCES people (id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
    placed timestamptz DEFAULT now(),
    state char(1) DEFAULT 'n',
    note text,
    CONSTRAINT one_note UNIQUE (person, note)
);
CREATE INDEX orders_by_person ON orders (person, placed DESC NULLS LAST) INCLUDE (state);
CREATE STATISTICS order_statistics (ndistinct, mcv) ON person, state FROM orders;
CREATE STATISTICS public.order_notes ON note, lower(note), (id * 2) FROM orders;
ALTER STATISTICS order_statistics SET STATISTICS 50;
COMMENT ON STATISTICS order_statistics IS 'of who buys how';
CREATE UNIQUE INDEX open_orders ON orders (lower(note)) WHERE state = 'n';
CREATE TABLE kinds (a bool, b int2, c int4, d int8, e float4, f float8, g numeric, h text, i varchar(9), j char(3), k bytea,
    l date, m time(3), n timetz, o timestamp, p timestamptz, q interval, r uuid, s json, t jsonb, u inet, v inet, w int4[], x text[],
    y timestamptz[], z name);
CREATE TABLE self (id int PRIMARY KEY, parent int, CONSTRAINT up FOREIGN KEY (parent) REFERENCES self (id));
CREATE TABLE articles (id int PRIMARY KEY, body text, found tsvector GENERATED ALWAYS AS (to_tsvector('english', body)) STORED,
    wanted tsquery);
CREATE INDEX articles_found ON articles USING gin (found);
CREATE VIEW about_cats AS SELECT a.id, ts_rank(a.found, to_tsquery('english', 'cats')) AS rank FROM articles a
    WHERE a.found @@ to_tsquery('english', 'cats');
INSERT INTO articles (id, body, wanted) VALUES (1, 'The fat cats', 'cat <-> fat'), (2, 'it''s a dog', NULL);
CREATE TABLE prices (net cidr PRIMARY KEY, price money DEFAULT '1.50', paid money[]);
INSERT INTO prices VALUES ('10.1.0.0/16', '-1234.56', '{1,2.5}'), ('1.2.3.4', DEFAULT, NULL);
CREATE TABLE bookings (id int PRIMARY KEY DEFERRABLE INITIALLY DEFERRED, place int UNIQUE DEFERRABLE, during int4range,
    EXCLUDE USING gist (during WITH &&), CONSTRAINT one_place EXCLUDE (place WITH =) WHERE (place > 0) DEFERRABLE);
CREATE TABLE "Strange ""table""" ("select" int, "a b" text DEFAULT 'it''s');
CREATE SEQUENCE numbers START 10 INCREMENT 5 MAXVALUE 1000 CYCLE;
CREATE VIEW totals AS SELECT p.name, count(o.id) AS orders, max(o.placed) AS newest FROM people p
    LEFT JOIN orders o ON o.person = p.id AND o.state <> 'x' GROUP BY p.name HAVING count(o.id) >= 0;
COMMENT ON VIEW totals IS 'per person';
CREATE VIEW nested AS WITH t AS (SELECT * FROM totals) SELECT name, orders, rank() OVER (ORDER BY orders DESC) FROM t;
INSERT INTO people (name, email, tags, feels, "Odd Name", balance) VALUES ('Ann', 'ann@example.org', '{a,"b c",NULL}', 'happy', 3, 1.50),
    ('Bo', NULL, NULL, NULL, NULL, 0), ('Tab	and \ backslash', E'line\nbreak', '{}', 'sad', 1, 9999999999.99);
INSERT INTO orders (person, placed, note, state) SELECT 1 + g % 3, '2024-01-01 00:00:00+00'::timestamptz + g * '1 day'::interval,
    'note ' || g, CASE WHEN g % 2 = 0 THEN 'n' ELSE 'd' END FROM generate_series(1, 3000) g;
INSERT INTO kinds VALUES (true, -32768, 2147483647, -9223372036854775808, 1.5, 'Infinity', 12345678901234567890.000100, '', 'äöü', 'ab',
    '\x00ff5c', '2000-02-29', '12:30:15.123', '12:30:15+02', '2024-02-29 12:00:00.123456', '2024-02-29 12:00:00.123456+00',
    '1 year 2 mons -3 days 04:05:06.7', 'f47ac10b-58cc-4372-a567-0e02b2c3d479', '{"a": [1,  2]}', '{"b": null}', '192.168.1.5/24',
    '10.0.0.0/8', '{{1,2},{3,NULL}}', '{"x,y","\"q\""}', '{"2024-01-01 00:00:00+00"}', 'a_name');
INSERT INTO kinds (a) VALUES (NULL), (false);
INSERT INTO kinds (e, f, g) VALUES ('NaN', '-Infinity', 'NaN'), (0.1, 1e-300, -0.00);
INSERT INTO bookings SELECT g, g, int4range(g * 10, g * 10 + 10) FROM generate_series(1, 50) g;
INSERT INTO self VALUES (1, NULL), (2, 1), (3, 3);
INSERT INTO "Strange ""table""" VALUES (1, DEFAULT), (NULL, NULL);
SELECT nextval('numbers'), nextval('numbers');
CREATE SCHEMA empty;

CREATE TABLE shop.visits (day date NOT NULL, page text, seconds numeric(8, 2) DEFAULT 0) PARTITION BY RANGE (day);
CREATE TABLE shop.visits_2023 PARTITION OF shop.visits FOR VALUES FROM ('2023-01-01') TO ('2024-01-01');
CREATE TABLE shop.visits_2024 PARTITION OF shop.visits FOR VALUES FROM ('2024-01-01') TO ('2025-01-01')
    PARTITION BY LIST (lower(page));
CREATE TABLE shop.visits_2024_home PARTITION OF shop.visits_2024 FOR VALUES IN ('home', 'it''s', NULL);
CREATE TABLE shop.visits_2024_other PARTITION OF shop.visits_2024 DEFAULT;
CREATE TABLE shop.visits_other PARTITION OF shop.visits DEFAULT;
CREATE INDEX visits_page ON shop.visits (page);
INSERT INTO shop.visits VALUES ('2023-05-01', 'Home', 1), ('2024-05-01', 'Home', 2), ('2024-06-01', 'Cart', 3),
    ('1999-01-01', NULL, 4);
CREATE TABLE shop.spread (id integer, note text CHECK (note <> '')) PARTITION BY HASH (id);
CREATE TABLE shop.spread_0 PARTITION OF shop.spread FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE shop.spread_1 PARTITION OF shop.spread FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO shop.spread SELECT n, 'note ' || n FROM generate_series(1, 20) n;
CREATE TABLE shop.animals (name text NOT NULL, legs integer CHECK (legs >= 0));
CREATE TABLE shop.birds (wings integer DEFAULT 2) INHERITS (shop.animals);
INSERT INTO shop.animals VALUES ('dog', 4);
ALTER TABLE shop.animals ENABLE ROW LEVEL SECURITY;
ALTER TABLE shop.birds FORCE ROW LEVEL SECURITY;
CREATE POLICY quadrupeds ON shop.animals FOR SELECT TO pg_monitor USING (legs = 4);
CREATE POLICY "with wings" ON shop.animals AS RESTRICTIVE
    USING (legs > 1 AND name IN (SELECT b.name FROM shop.birds b WHERE b.legs = animals.legs)) WITH CHECK (legs < 5);
COMMENT ON POLICY quadrupeds ON shop.animals IS 'for those who count';
INSERT INTO shop.birds VALUES ('hen', 2, 2), ('kiwi', 2, 0);

CREATE FUNCTION shop.shown(a shop.animals) RETURNS text LANGUAGE sql STABLE AS $$ SELECT a.name || ':' || a.legs $$;
CREATE FUNCTION shop.with_legs(integer DEFAULT 2) RETURNS SETOF shop.animals LANGUAGE sql STABLE
    AS $$ SELECT a.* FROM shop.animals a WHERE a.legs = $1 $$;
CREATE FUNCTION shop.one(a shop.animals[], m shop.mood) RETURNS shop.birds LANGUAGE plpgsql
    SET search_path TO 'shop', 'pg_temp' SET work_mem TO '8MB'
    AS $$ DECLARE b birds; BEGIN SELECT * INTO b FROM birds ORDER BY name LIMIT 1; RETURN b; END $$;
CREATE PROCEDURE shop.add(INOUT n integer, VARIADIC names text[]) LANGUAGE plpgsql SECURITY DEFINER
    AS $$ BEGIN n := n + cardinality(names); END $$;
CREATE VIEW shop.labels AS SELECT shop.shown(a) AS label FROM shop.animals a;
CREATE TABLE shop.seen (id integer GENERATED ALWAYS AS IDENTITY, what text);
CREATE FUNCTION shop.note() RETURNS trigger LANGUAGE plpgsql
    AS $$ BEGIN INSERT INTO shop.seen (what) VALUES (TG_OP || ' ' || NEW.name); RETURN NEW; END $$;
CREATE TRIGGER noted AFTER INSERT OR UPDATE OF legs ON shop.birds FOR EACH ROW WHEN (NEW.legs > 0)
    EXECUTE FUNCTION shop.note('x');
CREATE CONSTRAINT TRIGGER late AFTER INSERT ON shop.animals DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    EXECUTE FUNCTION shop.note();
ALTER TABLE shop.birds DISABLE TRIGGER noted;

CREATE TABLE shop.replicated (id integer PRIMARY KEY, code text NOT NULL, note text);
CREATE UNIQUE INDEX replicated_code ON shop.replicated (code);
ALTER TABLE shop.replicated REPLICA IDENTITY USING INDEX replicated_code;
ALTER TABLE shop.animals REPLICA IDENTITY FULL;
CREATE VIEW shop.versions AS SELECT r.id, r.xmin IS NOT NULL AS written, r.ctid = r.ctid AS placed FROM shop.replicated r;
INSERT INTO shop.replicated VALUES (1, 'one', NULL), (2, 'two', 'second');

CREATE FUNCTION shop.add_legs(bigint, shop.animals) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$ SELECT $1 + $2.legs $$;
CREATE FUNCTION shop.shown_legs(bigint) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RETURN $1 || ' legs'; END $$;
CREATE AGGREGATE shop.total(shop.animals) (SFUNC = shop.add_legs, STYPE = bigint, INITCOND = '0',
    FINALFUNC = shop.shown_legs, PARALLEL = SAFE);
COMMENT ON AGGREGATE shop.total(shop.animals) IS 'their legs';
CREATE AGGREGATE shop.collect(VARIADIC items anycompatiblearray) (SFUNC = array_cat, STYPE = anycompatiblearray);
CREATE AGGREGATE shop.tally(*) (SFUNC = int8inc, STYPE = int8, INITCOND = '0', MSFUNC = int8inc, MINVFUNC = int8dec,
    MSTYPE = int8, MINITCOND = '0');
CREATE AGGREGATE shop.least(int) (SFUNC = int4smaller, STYPE = int4, COMBINEFUNC = int4smaller, SORTOP = <);
CREATE AGGREGATE shop.middle(double precision ORDER BY anyelement) (SFUNC = ordered_set_transition, STYPE = internal,
    FINALFUNC = percentile_disc_final, FINALFUNC_EXTRA, FINALFUNC_MODIFY = READ_WRITE);
REVOKE EXECUTE ON FUNCTION shop.least(int) FROM PUBLIC;
CREATE FUNCTION shop.alike(text, text) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$ SELECT lower($1) = lower($2) $$;
CREATE OPERATOR shop.=== (FUNCTION = shop.alike, LEFTARG = text, RIGHTARG = text, COMMUTATOR = OPERATOR(shop.===),
    RESTRICT = eqsel, JOIN = eqjoinsel, HASHES, MERGES);
CREATE OPERATOR shop.!!! (FUNCTION = int4um, RIGHTARG = integer);
COMMENT ON OPERATOR shop.=== (text, text) IS 'alike';
CREATE VIEW shop.hens AS SELECT legs, OPERATOR(shop.!!!) legs AS negative FROM shop.birds
    WHERE name OPERATOR(shop.===) 'HEN';
CREATE VIEW shop.legs AS SELECT shop.total(animals.*) AS total, shop.tally(*) AS number FROM shop.animals;

CREATE FUNCTION shop.mood_of(integer) RETURNS shop.mood LANGUAGE sql IMMUTABLE
    AS $$ SELECT CASE WHEN $1 > 1 THEN 'happy' ELSE 'sad' END::shop.mood $$;
CREATE CAST (integer AS shop.mood) WITH FUNCTION shop.mood_of(integer) AS ASSIGNMENT;
COMMENT ON CAST (integer AS shop.mood) IS 'feelings';
CREATE CAST (character varying AS shop.mood) WITH INOUT AS IMPLICIT;
CREATE TABLE shop.feelings (feels shop.mood);
INSERT INTO shop.feelings VALUES (1), ('ok'::varchar), (2);

CREATE SCHEMA far;
CREATE EXTENSION postgres_fdw WITH SCHEMA shop;
CREATE SERVER elsewhere FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '127.0.0.1', port '1', dbname 'a ''b');
COMMENT ON SERVER elsewhere IS 'it does not answer';
CREATE USER MAPPING FOR PUBLIC SERVER elsewhere OPTIONS ("user" 'nobody', password 'open "sesame"');
CREATE FOREIGN TABLE far.distant (
    id integer OPTIONS (column_name 'number') NOT NULL, name text DEFAULT 'x' COLLATE "C",
    CONSTRAINT positive CHECK (id > 0)
) SERVER elsewhere OPTIONS (schema_name 'a', table_name 'b');
COMMENT ON FOREIGN TABLE far.distant IS 'far away';
CREATE VIEW far.nearer AS SELECT id FROM far.distant WHERE name > 'a';
CREATE FOREIGN DATA WRAPPER own OPTIONS (a 'b');
CREATE SERVER "Other" TYPE 'x' VERSION '1' FOREIGN DATA WRAPPER own;
CREATE FOREIGN TABLE far.others () SERVER "Other";

CREATE FUNCTION shop.watch() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE '%', tg_tag; END $$;
CREATE EVENT TRIGGER shop_watch ON ddl_command_end WHEN TAG IN ('DROP AGGREGATE', 'DROP CAST')
    EXECUTE FUNCTION shop.watch();
COMMENT ON EVENT TRIGGER shop_watch IS 'what goes';
CREATE EVENT TRIGGER shop_asleep ON sql_drop EXECUTE FUNCTION shop.watch();
ALTER EVENT TRIGGER shop_asleep DISABLE;

CREATE TABLE shop.shelves (id int PRIMARY KEY, place text DEFAULT 'cellar', full_at int);
CREATE TABLE shop.moved (id int, what text, at_once boolean DEFAULT true);
CREATE VIEW shop.places AS SELECT id, upper(place) AS place FROM shop.shelves;
CREATE RULE new_place AS ON INSERT TO shop.places DO INSTEAD
    INSERT INTO shop.shelves VALUES (new.id, lower(new.place)) RETURNING id, upper(place);
CREATE RULE old_place AS ON DELETE TO shop.places WHERE old.id > 0 DO INSTEAD
    (DELETE FROM shop.shelves s USING shop.moved m WHERE s.id = old.id AND m.id = s.id;
     UPDATE shop.moved SET what = 'gone: ' || old.place, at_once = DEFAULT WHERE id = old.id);
CREATE RULE moves AS ON UPDATE TO shop.shelves WHERE new.id <> old.id
    DO INSERT INTO shop.moved (id, what) SELECT new.id, m.what FROM shop.moved m WHERE m.id = old.id;
COMMENT ON RULE moves ON shop.shelves IS 'who moves';
CREATE RULE never AS ON DELETE TO shop.shelves DO INSTEAD NOTHING;
ALTER TABLE shop.shelves DISABLE RULE never;
INSERT INTO shop.places VALUES (1, 'ATTIC');

CREATE TEXT SEARCH DICTIONARY shop.synonyms (TEMPLATE = synonym, SYNONYMS = synonym_sample, CaseSensitive = false);
CREATE TEXT SEARCH DICTIONARY shop."Words" (TEMPLATE = simple, STOPWORDS = english, ACCEPT = 1);
CREATE TEXT SEARCH CONFIGURATION shop.search (COPY = english);
ALTER TEXT SEARCH CONFIGURATION shop.search ALTER MAPPING FOR asciiword, word WITH shop.synonyms, shop."Words";
ALTER TEXT SEARCH CONFIGURATION shop.search DROP MAPPING FOR email;
COMMENT ON TEXT SEARCH CONFIGURATION shop.search IS 'of the shop';
COMMENT ON TEXT SEARCH DICTIONARY shop."Words" IS 'plain';
CREATE TABLE shop.texts (body text, words tsvector GENERATED ALWAYS AS (to_tsvector('shop.search', body)) STORED);
CREATE INDEX texts_body ON shop.texts USING gin (to_tsvector('shop.search', body));
INSERT INTO shop.texts VALUES ('The cats of Postgres');

CREATE TABLE shop.documents (id integer, body xml);
INSERT INTO shop.documents VALUES (1, '<a b="1">x &amp; y</a>'), (2, NULL);
CREATE VIEW shop.elements AS SELECT xmlelement(name "of shop", xmlattributes(id AS number), body, 'end'::text) AS element,
    xmlforest(id AS i, body) AS forest, xmlconcat(body, '<end/>') AS both, xmlpi(name target, 'text') AS instruction,
    xmlroot(body, version '1.1', standalone yes) AS root, xmlserialize(content body AS text) AS shown,
    xmlexists('//a' PASSING body) AS has FROM shop.documents;
