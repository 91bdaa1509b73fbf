"""Which tablespaces statements and schema changes have to do with."""

from __future__ import annotations

from dataclasses import replace

import pytest

from catalog.catalog import Catalog
from catalog.schema import (
    DEFAULT_TABLESPACE_OID,
    Column,
    Constraint,
    Index,
    IndexColumn,
    Role,
    Routine,
    Schema,
    SchemaObject,
    Sequence,
    Table,
    Tablespace,
    View,
)
from catalog.types.base import TypeRef
from engine.node.affected_tablespaces import places_of_changes
from engine.replica import HOME
from engine.sql.analyze.environment import Environment
from engine.statements.routing import Routes
from engine.statements.statement_tablespaces import Reached, find_reached

NEAR, FAR, AWAY = DEFAULT_TABLESPACE_OID, 901, 902
IDS = {NEAR: HOME, FAR: b"\1" * 16, AWAY: b"\2" * 16}
PUBLIC = 2200
ID = Column(1, "id", TypeRef(23))


def table(oid: int, name: str, place: int, *, references: int = 0, column: Column = ID, schema: int = PUBLIC) -> Table:
    keys = (Constraint(oid + 1000, f"{name}_fkey", "f", (1,), references=references),) if references else ()
    return Table(oid, schema, name, (column,), oid + 5000, constraints=keys, tablespace=place)


OBJECTS: tuple[SchemaObject, ...] = (
    Tablespace(NEAR, "pg_default"),
    Tablespace(FAR, "far_place", identity=IDS[FAR].hex()),
    Tablespace(AWAY, "away_place", identity=IDS[AWAY].hex()),
    Role(10, "ann"),
    Schema(PUBLIC, 5, "public"),
    table(100, "near", NEAR),
    table(101, "far", FAR),
    table(102, "away", AWAY),
    table(103, "child", FAR, references=102),
    table(104, "counted", FAR, column=Column(1, "id", TypeRef(23), default="nextval('s'::regclass)")),
    table(105, "numbered", FAR, column=Column(1, "id", TypeRef(23), identity="a")),
    table(106, "whole", NEAR),
    replace(table(107, "part", AWAY), parents=(106,)),
    Routine(114, PUBLIC, "hidden", "f", (), TypeRef(23), False, "SELECT id FROM near"),
    View(115, PUBLIC, "over_hidden", (ID,), "SELECT", depends_on=(101, 114)),
    table(108, "filled", FAR, column=Column(1, "id", TypeRef(23), default="public.hidden()")),
    Index(110, PUBLIC, "far_index", 101, (IndexColumn(1),), 6000, tablespace=FAR),
    Sequence(111, PUBLIC, "s", 6001),
    View(112, PUBLIC, "over_far", (ID,), "SELECT", depends_on=(101,)),
    View(113, PUBLIC, "over_all", (ID,), "SELECT", depends_on=(112, 102)),
)
CATALOG = Catalog(database=5).with_changes({item.oid: item for item in OBJECTS})
ENVIRONMENT = Environment(CATALOG, ("public",), "ann", "postgres")


def ids(*places: int) -> Reached:
    return frozenset(IDS[place] for place in places)


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("BEGIN", ids()),
        ("SELECT * FROM far", ids(FAR)),
        ("SELECT now(), * FROM far WHERE id IN (SELECT id FROM away)", ids(FAR, AWAY)),
        ("SELECT * FROM over_far", ids(FAR)),
        ("SELECT * FROM over_all", ids(FAR, AWAY)),
        ("SELECT * FROM far, unknown", ids(FAR, NEAR)),
        ("SELECT 'far'::regclass", ids(NEAR)),
        ("SELECT * FROM pg_class", ids(NEAR)),
        ("SELECT * FROM child", ids(FAR)),
        ("SELECT * FROM counted", ids(FAR)),
        ("SELECT * FROM whole", ids(NEAR, AWAY)),
        ("SELECT * FROM part", ids(AWAY)),
        ("UPDATE part SET id = 2", ids(NEAR, AWAY)),
        ("PREPARE TRANSACTION 'x'", None),
        ("COMMIT PREPARED 'x'", None),
        ("SELECT * FROM far WHERE id = hidden()", None),
        ("SELECT * FROM over_hidden", None),
        ("SELECT * FROM filled", ids(FAR)),
        ("INSERT INTO filled VALUES (1)", None),
        ("UPDATE far SET id = 2", ids(FAR)),
        ("INSERT INTO child VALUES (1)", ids(FAR, AWAY)),
        ("DELETE FROM away", ids(FAR, AWAY)),
        ("INSERT INTO counted VALUES (1)", ids(FAR, NEAR)),
        ("INSERT INTO numbered VALUES (1)", ids(FAR, NEAR)),
        ("INSERT INTO far SELECT nextval('s')", ids(FAR, NEAR)),
        ("SELECT * FROM far WHERE pg_try_advisory_lock(id)", ids(FAR, NEAR)),
        ("COPY far FROM STDIN", ids(FAR)),
        ("COPY (SELECT * FROM over_far) TO STDOUT", ids(FAR)),
        ("LOCK TABLE far", ids(FAR)),
        ("WITH x AS (DELETE FROM far RETURNING id) INSERT INTO near SELECT id FROM x", ids(FAR, NEAR)),
        ("CREATE INDEX ON far (id)", ids(FAR, NEAR)),
        ("CREATE TABLE t (id int) TABLESPACE away_place", ids(AWAY, NEAR)),
        ("CREATE TABLE t (id int REFERENCES far)", ids(FAR, NEAR)),
        ("CREATE TEMP TABLE t (id int)", ids(NEAR)),
        ("ALTER TABLE near SET TABLESPACE far_place", ids(FAR, NEAR)),
        ("DROP TABLE public.far, near", ids(FAR, NEAR)),
        ("DROP VIEW over_all", ids(FAR, AWAY, NEAR)),
        ("TRUNCATE far", ids(FAR, NEAR)),
        ("DROP SCHEMA public CASCADE", None),
        ("SELECT * INTO t FROM far", None),
        ("GRANT SELECT ON far TO ann", None),
        ("SELECT shoal_check()", None),
        ("PREPARE p AS UPDATE far SET id = 1", None),
        ("DECLARE c CURSOR WITH HOLD FOR SELECT * FROM far", None),
    ],
)
def test_what_statements_have_to_do_with(sql: str, expected: Reached | None) -> None:
    route = Routes().of(sql.encode())
    assert find_reached(route, route.needs, ENVIRONMENT, "") == expected


def test_a_table_that_is_made_lies_in_the_default_tablespace() -> None:
    route = Routes().of(b"CREATE TABLE t (id int)")
    assert find_reached(route, route.needs, ENVIRONMENT, "away_place") == ids(AWAY, NEAR)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({200: table(200, "new", NEAR)}, set()),
        ({200: table(200, "new", FAR)}, {FAR}),
        ({200: table(200, "new", NEAR, references=102)}, {FAR, AWAY}),
        ({101: None}, {FAR}),
        ({106: None}, {AWAY}),
        ({107: None}, {AWAY}),
        ({200: replace(table(200, "new", FAR), parents=(106,))}, {FAR, AWAY}),
        ({101: table(101, "far", AWAY)}, {FAR, AWAY}),
        ({102: None}, {FAR, AWAY}),
        ({110: None}, {FAR}),
        ({100: None}, set()),
        ({113: None}, {FAR, AWAY}),
        ({200: table(200, "far", NEAR, schema=2300)}, None),
        ({111: None}, set()),
        ({10: None}, None),
        ({201: Role(201, "bob")}, set()),
        ({PUBLIC: None}, None),
        ({204: Routine(204, PUBLIC, "f", "f", (), TypeRef(23), False, "SELECT 1")}, None),
        ({202: Schema(202, 5, "pg_temp_7")}, set()),
        ({FAR: None}, {FAR}),
        ({203: Tablespace(203, "third", identity="03" * 16)}, set()),
    ],
)
def test_what_schema_changes_have_to_do_with(
    changes: dict[int, SchemaObject | None], expected: set[int] | None
) -> None:
    assert places_of_changes({5: CATALOG}, changes) == expected
