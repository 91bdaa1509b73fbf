"""DROP ROLE, REASSIGN OWNED and DROP OWNED find the large objects of a role among many; others have their turn."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import shoal
from engine.session import large_objects

WORLD = (
    "CREATE ROLE a", "CREATE ROLE b", "SET ROLE a", "SELECT lo_create(n) FROM generate_series(1000, 1099) n",
    "SET ROLE b", "SELECT lo_create(n) FROM generate_series(2000, 2099) n", "RESET ROLE",
    "SELECT lo_create(n) FROM generate_series(3000, 3009) n", "CREATE DATABASE other",
)  # fmt: skip
OWNERS = """SELECT rolname, count(*) FROM pg_largeobject_metadata JOIN pg_roles r ON r.oid = lomowner GROUP BY 1
ORDER BY 1"""


@pytest.fixture
def database(tmp_path: Path) -> Iterator[shoal.Database]:
    with shoal.open(tmp_path / "data") as found:
        for statement in WORLD:
            found.execute(statement)
        yield found


def refused(database: shoal.Database, statement: str) -> str:
    with pytest.raises(shoal.Error) as caught:
        database.execute(statement)
    return str(caught.value)


@pytest.mark.parametrize("size", [1, 7, 100, 500])
def test_all_of_them_are_found(database: shoal.Database, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """Those of before, those that the transaction makes, takes away or gives; and nobody waits for a whole scan."""
    pauses = []

    async def pause() -> None:
        pauses.append(1)

    monkeypatch.setattr(large_objects, "SLICE", size)
    monkeypatch.setattr(large_objects, "pause", pause)
    assert "cannot be dropped" in refused(database, "DROP ROLE a")
    assert len(pauses) == 210 // size
    database.execute("BEGIN")
    database.execute("SELECT lo_unlink(1000)")
    database.execute("SET ROLE a")
    database.execute("SELECT lo_create(1)")
    database.execute("RESET ROLE")
    database.execute("REASSIGN OWNED BY a TO b")
    assert database.execute(OWNERS).fetchall() == [("b", 200), ("postgres", 10)]
    database.execute("DROP ROLE a")
    database.execute("DROP OWNED BY b")
    assert database.execute(OWNERS).fetchall() == [("postgres", 10)]
    database.execute("ROLLBACK")
    assert database.execute(OWNERS).fetchall() == [("a", 100), ("b", 100), ("postgres", 10)]
    database.execute("DROP OWNED BY a, b")
    database.execute("DROP ROLE a, b")
    assert database.execute(OWNERS).fetchall() == [("postgres", 10)]


@pytest.mark.parametrize("behind", [True, False])
def test_what_comes_during_the_search_is_found(
    database: shoal.Database, monkeypatch: pytest.MonkeyPatch, behind: bool
) -> None:
    """An object that somebody makes where the search has been already, or will come; and one that goes."""
    database.execute("DROP OWNED BY a")
    other, searching, made = database.connect(), threading.Event(), threading.Event()

    async def pause() -> None:
        searching.set()
        while not made.is_set():
            await asyncio.sleep(0.001)

    monkeypatch.setattr(large_objects, "SLICE", 10)
    monkeypatch.setattr(large_objects, "pause", pause)
    oid = 7 if behind else 5000
    with ThreadPoolExecutor(1) as thread:
        dropped = thread.submit(refused, database, "DROP ROLE a")
        assert searching.wait(30)
        other.execute("SET ROLE a")
        other.execute(f"SELECT lo_create({oid})")
        other.execute("RESET ROLE")
        other.commit()
        made.set()
        assert "cannot be dropped" in dropped.result(30)
        searching.clear()
        made.clear()
        done = thread.submit(database.execute, "DROP ROLE a")
        assert searching.wait(30)
        other.execute(f"SELECT lo_unlink({oid})")
        other.commit()
        made.set()
        done.result(30)
    other.close()
