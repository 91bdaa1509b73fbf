"""The worker process end to end: real store, real socket, real DuckDB."""

from __future__ import annotations

from catalog.types import oids
from tests.engine.columnar.conftest import Database, make_table, query

INT4, INT8, TEXT = (oids.INT4, -1), (oids.INT8, -1), (oids.TEXT, -1)
COUNT = [(oids.INT8, "BIGINT")]


async def test_a_query_sees_what_is_durable(database: Database) -> None:
    table = make_table(20001, [INT4, TEXT], (1,))
    await database.commit(database.writes(table, (1, "one"), (2, None)))
    wanted = query("SELECT x.c1, x.c2 FROM {t20001} AS x ORDER BY 1", [(23, "INTEGER"), (25, "VARCHAR")], table)
    assert await database.fetch(wanted) == [(1, "one"), (2, None)]
    await database.flush()
    await database.commit({**database.writes(table, (2, "two"), (3, "three")), database.key(table, (1, "")): None})
    assert await database.fetch(wanted) == [(2, "two"), (3, "three")]
