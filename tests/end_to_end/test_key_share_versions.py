"""Which version of a row a READ COMMITTED statement gets that locks it, where another transaction has changed it since
the statement began: FOR KEY SHARE is in no conflict with a change that leaves the key, and looks at none. Both servers.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from tests.meeting import Meeting
from tests.oracle import PostgresServer
from tests.server import ShoalServer

_names = itertools.count()
_WAITS = "SELECT a, b FROM t WHERE a = 1 AND pg_advisory_lock({number}) IS NOT NULL FOR {strength}"
_CHANGES = {
    "none": ("SELECT 1", "one"),
    "another column": ("UPDATE t SET b = 'two' WHERE a = 1", "two"),
    "two changes": ("UPDATE t SET b = b || 'x'; UPDATE t SET b = 'two'", "two"),
    "gone": ("DELETE FROM t WHERE a = 1", None),
}


@pytest.fixture
def meeting(server: ShoalServer | PostgresServer) -> Iterator[Meeting]:
    schema = f"versions_{next(_names)}"
    setup = f"CREATE SCHEMA {schema}; CREATE TABLE {schema}.t (a int PRIMARY KEY, b text)"
    made = Meeting(server.dsn, schema, setup)
    made.third.run("INSERT INTO t VALUES (1, 'one')")
    yield made
    made.close()


@pytest.mark.parametrize("strength", ["KEY SHARE", "SHARE", "NO KEY UPDATE", "UPDATE"])
@pytest.mark.parametrize("change", _CHANGES)
def test_after_a_wait_for_an_advisory_lock(meeting: Meeting, change: str, strength: str) -> None:
    number = 7_100_000 + next(_names)
    statement, newest = _CHANGES[change]
    meeting.first.run(f"SELECT pg_advisory_lock({number})")
    meeting.second.run("BEGIN")
    running = meeting.second.start(_WAITS.format(number=number, strength=strength))
    assert meeting.waits(running)
    meeting.first.run(statement, f"SELECT pg_advisory_unlock({number})")
    seen = "one" if strength == "KEY SHARE" and newest is not None else newest
    assert running.result(30) == ([] if seen is None else [(1, seen)])
    meeting.second.run("SELECT pg_advisory_unlock_all()", "COMMIT")
    assert meeting.second.run("SELECT b FROM t") == ([] if newest is None else [(newest,)])
