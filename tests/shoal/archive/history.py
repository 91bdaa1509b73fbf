"""A small history on a real server: what each of its LSNs looked like, recorded when it was the newest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg

from catalog.schema import Table
from engine.storage.keys import prefix_range, storage_prefix
from engine.storage.rows import RowCodec
from tests.end_to_end.consistency import opened
from tests.server import ShoalServer

Content = dict[str, list[tuple[Any, ...]]]

STATEMENTS = """
CREATE TABLE a (id int PRIMARY KEY, x text)
CREATE INDEX a_x ON a (x)
INSERT INTO a VALUES (1, 'one'), (2, 'two')
INSERT INTO a SELECT n, 'row ' || n FROM generate_series(10, 6000) n
UPDATE a SET x = 'changed' WHERE id = 1
DELETE FROM a WHERE id = 2
CREATE TABLE b (n int, t text)
INSERT INTO b VALUES (1, 'kept'), (2, NULL)
ALTER TABLE a ADD COLUMN y int
UPDATE a SET y = id WHERE id < 12
INSERT INTO b SELECT n, 'many' FROM generate_series(1, 12000) n
TRUNCATE b
INSERT INTO b VALUES (3, 'after')
DROP TABLE a
CREATE TABLE a (id int PRIMARY KEY)
INSERT INTO a VALUES (7)
""".strip().splitlines()


class KeepingServer(ShoalServer):
    """Keeps its past."""

    def command(self) -> list[str]:
        return [*super().command(), "--history-retention", "3600"]


def lsn_of(connection: psycopg.Connection) -> int:
    """The durable LSN."""
    row = connection.execute("SELECT pg_current_wal_lsn() - '0/0'").fetchone()
    assert row is not None
    return int(row[0])


def shown(connection: psycopg.Connection) -> Content:
    """Every table of the schema public, as SQL shows it."""
    names = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
    return {name: sorted(connection.execute(f"SELECT * FROM {name}").fetchall(), key=repr) for (name,) in names}


def record(connection: psycopg.Connection, statements: list[str]) -> dict[int, Content]:
    """Runs the statements; what every LSN that they end at looks like."""
    found = {}
    for statement in statements:
        connection.execute(statement)
        found[lsn_of(connection)] = shown(connection)
    return found


def stored(data: Path) -> Content:
    """Every table of the schema public in a data directory."""
    with opened(data) as node:
        catalog = next(iter(node.catalogs.values()))
        public = catalog.schemas["public"]
        found = {}
        for table in (item for item in catalog.objects.values() if isinstance(item, Table) and item.schema == public):
            codec = RowCodec(table)
            numbers = [column.number - 1 for column in table.columns]
            space = node.store.of(table.storage_id)
            rows = space.current.scan(*prefix_range(storage_prefix(table.storage_id)))
            decoded = [codec.decode(value) for _, value in rows]
            found[table.name] = sorted((tuple(row[number] for number in numbers) for row in decoded), key=repr)
        return found
