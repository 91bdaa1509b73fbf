"""CHECK constraints of parents and children under one name, foreign keys of partitioned tables: what PostgreSQL makes
of each statement, and what is in pg_constraint afterwards."""

from __future__ import annotations

import psycopg

from tests.oracle import PostgresServer
from tests.server import ShoalServer

_STATEMENTS = """
CREATE TABLE p1 (a int, CONSTRAINT c CHECK (a > 0))
CREATE TABLE ch1 (a int, CONSTRAINT c CHECK (a > 0) NO INHERIT)
ALTER TABLE ch1 INHERIT p1
CREATE TABLE ch3 () INHERITS (p1)
ALTER TABLE ch3 ADD CONSTRAINT c CHECK (a > 0)
ALTER TABLE ch3 ADD CONSTRAINT c CHECK (a > 0)
CREATE TABLE ch4 () INHERITS (p1)
ALTER TABLE ch4 ADD CONSTRAINT c CHECK (a > 1)
ALTER TABLE ch4 ADD CONSTRAINT c CHECK (a > 0) NO INHERIT
ALTER TABLE ch4 ADD CONSTRAINT c CHECK (a > 0) NOT VALID
CREATE TABLE ch5 (CONSTRAINT c CHECK (a > 0) NO INHERIT) INHERITS (p1)
CREATE TABLE ch6 (CONSTRAINT c CHECK (a > 1)) INHERITS (p1)
CREATE TABLE ch7 (a int, CONSTRAINT c CHECK (a > 0) NOT VALID) INHERITS (p1)
CREATE TABLE ch8 () INHERITS (p1)
ALTER TABLE ch8 ADD CONSTRAINT d CHECK (a > 0) NO INHERIT
ALTER TABLE p1 ADD CONSTRAINT d CHECK (a > 0)
ALTER TABLE ch8 DROP CONSTRAINT d
ALTER TABLE ch8 ADD CONSTRAINT d CHECK (a > 0) NOT VALID
ALTER TABLE p1 ADD CONSTRAINT d CHECK (a > 0)
ALTER TABLE p1 ADD CONSTRAINT d CHECK (a > 0) NOT VALID
ALTER TABLE ch8 ADD CONSTRAINT e CHECK (a > 3)
ALTER TABLE p1 ADD CONSTRAINT e CHECK (a > 0)
ALTER TABLE ch8 ADD CONSTRAINT f UNIQUE (a)
ALTER TABLE p1 ADD CONSTRAINT f CHECK (a > 0)
ALTER TABLE ONLY p1 ADD CONSTRAINT g CHECK (a > 1)
ALTER TABLE ONLY p1 ADD CONSTRAINT g CHECK (a > 1) NO INHERIT
CREATE TABLE p2 (a int, CONSTRAINT c CHECK (a > 5))
CREATE TABLE ch9 () INHERITS (p1, p2)
ALTER TABLE ONLY p1 RENAME CONSTRAINT c TO cc
ALTER TABLE ONLY p1 RENAME CONSTRAINT g TO gg
ALTER TABLE ch3 RENAME CONSTRAINT c TO cc
ALTER TABLE p1 RENAME CONSTRAINT c TO cc
CREATE TABLE pk (id int PRIMARY KEY)
CREATE TABLE pt (a int) PARTITION BY LIST (a)
ALTER TABLE pt ADD FOREIGN KEY (a) REFERENCES pk NOT VALID
ALTER TABLE ONLY pt ADD FOREIGN KEY (a) REFERENCES pk
ALTER TABLE ONLY pt ADD CONSTRAINT dd CHECK (a > 0)
ALTER TABLE ONLY pt ADD CONSTRAINT dn CHECK (a > 0) NO INHERIT
CREATE TABLE pt1 PARTITION OF pt FOR VALUES IN (1)
ALTER TABLE ONLY pt ADD FOREIGN KEY (a) REFERENCES pk
ALTER TABLE ONLY pt ADD CONSTRAINT de CHECK (a > 0)
ALTER TABLE ONLY pt ADD CONSTRAINT dd CHECK (a > 0)
ALTER TABLE ONLY pt DROP CONSTRAINT dd
ALTER TABLE ONLY pt ALTER COLUMN a SET NOT NULL
ALTER TABLE ONLY pt DROP COLUMN a
ALTER TABLE pt1 ADD CONSTRAINT dd CHECK (a > 0)
ALTER TABLE pt1 ADD CONSTRAINT e1 CHECK (a > 0) NO INHERIT
ALTER TABLE pt ADD CONSTRAINT e1 CHECK (a > 0)
CREATE TABLE at1 (a int, CONSTRAINT dd CHECK (a > 0) NO INHERIT)
ALTER TABLE pt ATTACH PARTITION at1 FOR VALUES IN (2)
CREATE TABLE fk (a int REFERENCES pk, FOREIGN KEY (a) REFERENCES pk NOT VALID)
CREATE TABLE fkd (a int, FOREIGN KEY (a) REFERENCES pk NOT VALID) PARTITION BY LIST (a)
VACUUM (PARALLEL -1) pk
CREATE TABLE idt (a int GENERATED ALWAYS AS IDENTITY)
ALTER SEQUENCE idt_a_seq OWNED BY NONE
"""
_LEFT = (
    "SELECT conrelid::regclass::text, conname, conislocal, coninhcount, connoinherit, convalidated FROM pg_constraint"
    " WHERE connamespace = 'of_children'::regnamespace ORDER BY 1, 2"
)


def _outcome(connection: psycopg.Connection, statement: str) -> object:
    try:
        connection.execute(statement)
    except psycopg.Error as error:
        return error.sqlstate, error.diag.message_primary
    return None


def test_constraints_of_one_name_in_parents_and_children(shoal: ShoalServer, postgres_server: PostgresServer) -> None:
    with (
        psycopg.connect(shoal.dsn, autocommit=True) as ours,
        psycopg.connect(postgres_server.dsn, autocommit=True) as theirs,
    ):
        for connection in (ours, theirs):
            connection.execute("CREATE SCHEMA of_children; SET search_path = of_children")
        try:
            for statement in _STATEMENTS.strip().split("\n"):
                assert _outcome(ours, statement) == _outcome(theirs, statement), statement
            found, wanted = ours.execute(_LEFT).fetchall(), theirs.execute(_LEFT).fetchall()
            assert found == wanted
            assert len(wanted) > 20
        finally:
            for connection in (ours, theirs):
                connection.execute("DROP SCHEMA of_children CASCADE")
