"""Backups of several tablespaces: all of them come back as of one moment, and no transaction over several is torn."""

from __future__ import annotations

import threading
from pathlib import Path

import psycopg
import pytest

from catalog.errors import SqlError
from replication.stores import open_store
from shoal.archive.contents import read_contents
from shoal.archive.restore import RestoreTarget, TablespacePlan, plan_restore, restore_directory
from tests.shoal.archive.history import KeepingServer, lsn_of, stored


def _write(dsn: str, stop: threading.Event, first: int) -> None:
    """Transactions over both tablespaces, and some over one."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        number = first
        while not stop.is_set():
            number += 2
            with connection.transaction():
                connection.execute("INSERT INTO here VALUES (%s)", (number,))
                connection.execute("INSERT INTO there VALUES (%s)", (number,))
            connection.execute("INSERT INTO there VALUES (%s)", (-number,))


async def test_no_transaction_is_torn(tmp_path: Path) -> None:
    backups = f"file://{tmp_path}/backups"
    stop = threading.Event()
    lsns = []
    with KeepingServer(tmp_path / "data") as server, psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLESPACE other")
        connection.execute("CREATE TABLE here (id int PRIMARY KEY)")
        connection.execute("CREATE TABLE there (id int PRIMARY KEY) TABLESPACE other")
        connection.execute("SELECT shoal_backup(%s)", (backups,))
        writers = [threading.Thread(target=_write, args=(server.dsn, stop, first)) for first in (0, 1)]
        for writer in writers:
            writer.start()
        for _ in range(3):
            for _ in range(10):
                connection.execute("INSERT INTO here VALUES (%s)", (-1 - len(lsns),))
                lsns.append(lsn_of(connection))
            connection.execute("SELECT shoal_backup(%s)", (backups,))
        stop.set()
        for writer in writers:
            writer.join()
    store = open_store(backups)
    found = await read_contents(store)
    plans: list[list[TablespacePlan]] = [await plan_restore(found, RestoreTarget())]
    plans += [await plan_restore(found, RestoreTarget(lsn)) for lsn in lsns[::9]]
    plans.append(await plan_restore(found, RestoreTarget(time=plans[1][0].time)))
    most = 0
    for number, planned in enumerate(plans):
        assert [item.name for item in planned] == ["pg_default", "other"]
        data = tmp_path / str(number)
        await restore_directory(planned, str(data), lambda *_: None)
        content = stored(data)
        here = {row[0] for row in content["here"] if row[0] > 0}
        there = {row[0] for row in content["there"] if row[0] > 0}
        assert here == there, number
        most = max(most, len(here))
    assert most > 10
    await store.close()


async def test_those_that_came_and_went(tmp_path: Path) -> None:
    """Every LSN has the tablespaces that there were then; one that no backup has is told of, and nothing is made."""
    backups = f"file://{tmp_path}/backups"
    lsns = []
    with KeepingServer(tmp_path / "data") as server, psycopg.connect(server.dsn, autocommit=True) as connection:
        for statements in (
            ("CREATE TABLE ticks (n int)",),
            ("CREATE TABLESPACE other", "CREATE TABLE there (id int) TABLESPACE other", "INSERT INTO there VALUES (1)"),
            ("INSERT INTO there VALUES (2)",),
            ("DROP TABLE there", "DROP TABLESPACE other"),
        ):
            for statement in statements:
                connection.execute(statement)
            connection.execute("INSERT INTO ticks VALUES (1)")
            lsns.append(lsn_of(connection))
            if len(lsns) != 3:
                connection.execute("SELECT shoal_backup(%s)", (backups,))
                connection.execute("INSERT INTO ticks VALUES (2)")
                lsns[-1] = lsn_of(connection) if len(lsns) == 1 else lsns[-1]
    store = open_store(backups)
    found = await read_contents(store)
    made = {}
    for number, lsn in enumerate(lsns):
        planned = await plan_restore(found, RestoreTarget(lsn))
        if number == 2:
            with pytest.raises(SqlError, match='tablespace "other" was there, and') as caught:
                await restore_directory(planned, str(tmp_path / str(number)), lambda *_: None)
            assert caught.value.sqlstate == "22023"
            assert not (tmp_path / str(number)).exists()
            continue
        await restore_directory(planned, str(tmp_path / str(number)), lambda *_: None)
        made[number] = stored(tmp_path / str(number)).get("there")
    assert made == {0: None, 1: [(1,)], 3: None}
    await store.close()
