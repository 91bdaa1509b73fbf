CREATE SCHEMA rich;
SET search_path = rich, public;
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE TYPE pair AS (a int, b text COLLATE "C");
CREATE DOMAIN positive AS int NOT NULL DEFAULT 1 CONSTRAINT above_zero CHECK (VALUE > 0);
CREATE DOMAIN short AS varchar(7);
CREATE DOMAIN of_pair AS pair;
CREATE SEQUENCE counter AS smallint START 5 INCREMENT 2 MINVALUE 1 MAXVALUE 99 CYCLE;
CREATE FUNCTION plus_one(given int, OUT result int) LANGUAGE sql IMMUTABLE STRICT AS 'SELECT given + 1';
CREATE FUNCTION twice(text DEFAULT 'x', OUT other int, more int DEFAULT 3) LANGUAGE sql STABLE AS 'SELECT $2';
CREATE FUNCTION listed(n int) RETURNS TABLE (k int, v text) LANGUAGE sql AS $$ SELECT n, 'v' $$;
CREATE PROCEDURE nothing(a int, INOUT b text) LANGUAGE sql AS $$ SELECT b $$;
CREATE TABLE parent (
    id int GENERATED ALWAYS AS IDENTITY (START 10 INCREMENT 3 CACHE 4 CYCLE) PRIMARY KEY,
    name varchar(20) NOT NULL DEFAULT 'none',
    m mood DEFAULT 'ok',
    p pair,
    amount numeric(10, 2) CHECK (amount >= 0),
    qty positive,
    s short,
    n int,
    tags text[] DEFAULT '{}',
    at timestamptz(3) DEFAULT now(),
    doubled int GENERATED ALWAYS AS (n * 2) STORED,
    length int GENERATED ALWAYS AS (length(name) + n) STORED,
    CONSTRAINT parent_name_key UNIQUE (name, m),
    CONSTRAINT two_columns CHECK (n < 100 OR name <> 'x')
);
CREATE TABLE child (
    id bigserial,
    parent int REFERENCES parent ON DELETE CASCADE ON UPDATE SET NULL,
    name varchar(20), m mood,
    extra int DEFAULT nextval('counter'),
    UNIQUE (id) INCLUDE (extra),
    CONSTRAINT child_names FOREIGN KEY (name, m) REFERENCES parent (name, m) MATCH FULL DEFERRABLE INITIALLY DEFERRED
);
CREATE INDEX ON child (name, extra DESC NULLS LAST) INCLUDE (m) WHERE extra > 3;
CREATE UNIQUE INDEX ON child (lower(name), (extra + 1), id);
CREATE INDEX ON parent (name varchar_pattern_ops, amount) WITH (fillfactor = 70);
CREATE INDEX named_index ON parent (plus_one(n));
CREATE INDEX ON parent (n, n);
CREATE INDEX ON parent USING hash (n);
CREATE UNIQUE INDEX ON parent (amount) NULLS NOT DISTINCT;
CREATE TABLE kept (a int, b int, UNIQUE NULLS NOT DISTINCT (a) INCLUDE (b), EXCLUDE USING btree (b WITH =));
CREATE TABLE base (a int CONSTRAINT alone CHECK (a <> 3) NO INHERIT, t text NOT NULL, CONSTRAINT below CHECK (a < 9));
CREATE TABLE heir (b int) INHERITS (base);
CREATE TABLE parts (k int, v text) PARTITION BY RANGE (k, lower(v));
CREATE TABLE part1 PARTITION OF parts FOR VALUES FROM (1, 'a') TO (10, MAXVALUE);
CREATE TABLE part_rest PARTITION OF parts DEFAULT;
CREATE TABLE lists (k mood) PARTITION BY LIST (k);
CREATE TABLE list1 PARTITION OF lists FOR VALUES IN ('sad', NULL);
CREATE TABLE hashed (k int PRIMARY KEY) PARTITION BY HASH (k);
CREATE TABLE hash0 PARTITION OF hashed FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE VIEW plain AS SELECT id, name, n AS many, doubled, length(name) AS long FROM parent WHERE n > 0;
CREATE VIEW plain2 (x, y) AS SELECT name, many FROM plain WITH CASCADED CHECK OPTION;
CREATE VIEW computed2 AS SELECT long, many + 1 AS more FROM plain;
CREATE VIEW constants AS SELECT 1 AS one FROM base;
CREATE VIEW local_check AS SELECT a, t FROM base WHERE a > 0 WITH LOCAL CHECK OPTION;
CREATE VIEW joined AS SELECT p.id, c.extra, c.name FROM parent p JOIN child c ON c.parent = p.id;
CREATE VIEW merged AS SELECT name, p.n FROM parent p JOIN child c USING (name, m);
CREATE VIEW grouped AS SELECT name, count(*) AS n, sum(amount) FROM parent GROUP BY name;
CREATE VIEW limited AS SELECT a FROM base ORDER BY a LIMIT 3;
CREATE VIEW over_limited AS SELECT a FROM limited;
CREATE VIEW over_parts AS SELECT k, v FROM parts;
CREATE VIEW calling AS SELECT plus_one(a) AS b, l.v FROM base, listed(a) l;
CREATE VIEW over_union AS SELECT a FROM base UNION SELECT b FROM kept;
CREATE VIEW over_grouped AS SELECT * FROM grouped;
CREATE VIEW barrier WITH (security_barrier) AS SELECT a, a AS again FROM base;
CREATE VIEW nested AS
    WITH w AS (SELECT a FROM base) SELECT a FROM w WHERE a IN (SELECT n FROM parent WHERE m = 'ok') AND EXISTS (TABLE kept);
CREATE VIEW of_sequence AS SELECT last_value, nextval('counter') FROM counter;
CREATE MATERIALIZED VIEW stored AS SELECT a, t FROM base;
CREATE INDEX ON stored (a);
CREATE VIEW over_stored AS SELECT a FROM stored;
CREATE FUNCTION counted() RETURNS bigint LANGUAGE sql BEGIN ATOMIC SELECT nextval('rich.counter'); END;
CREATE FUNCTION summed(lowest int) RETURNS numeric LANGUAGE sql
    BEGIN ATOMIC SELECT sum(amount) + (SELECT plus_one(min(x.a)) FROM local_check x) FROM parent WHERE n > lowest; END;
CREATE ROLE rich_reader;
CREATE ROLE rich_writer;
GRANT USAGE ON SCHEMA rich TO rich_reader;
GRANT SELECT ON parent, plain TO rich_reader;
GRANT UPDATE (name, amount), INSERT (name) ON parent TO rich_writer WITH GRANT OPTION;
GRANT USAGE ON SEQUENCE counter TO rich_reader;
GRANT EXECUTE ON FUNCTION plus_one(int) TO rich_reader;
GRANT rich_reader TO rich_writer WITH ADMIN OPTION;
COMMENT ON TABLE parent IS 'a parent';
COMMENT ON COLUMN parent.name IS 'its name';
COMMENT ON INDEX named_index IS 'an index';
COMMENT ON INDEX parent_pkey IS 'a key';
COMMENT ON CONSTRAINT two_columns ON parent IS 'a check';
COMMENT ON CONSTRAINT parent_pkey ON parent IS 'a constraint of a key';
CREATE TABLE alike (LIKE parent INCLUDING ALL);
CREATE TABLE alike_rest (z int, LIKE parent INCLUDING ALL EXCLUDING COMMENTS EXCLUDING IDENTITY);
CREATE TABLE alike_keys (LIKE kept INCLUDING INDEXES, z text);
CREATE TABLE alike_checks (LIKE base INCLUDING CONSTRAINTS);
CREATE COLLATION german (provider = icu, locale = 'de');
CREATE TABLE colls (a text COLLATE german, b text COLLATE "C");
CREATE INDEX ON colls (a COLLATE "C", b DESC);
