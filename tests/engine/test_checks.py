"""Checks: what every replica computes, at which LSN, and who is told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import orjson
import pytest

from catalog.errors import SqlError
from catalog.rows import CHECKS, COUNTERS, FIRST_USER_STORAGE, KINDS
from engine import checks
from engine.checkpoint.digest import Digest
from engine.node.node import _OIDS, _STORAGE_IDS, Node
from engine.storage.edits import Edits
from engine.storage.tablespace import Tablespace
from tests.engine.storage.harness import key as key_of

NOW = 10**15
TABLE = 100


def key(number: int) -> bytes:
    return key_of(number, TABLE)


class Log:
    """A changelog that keeps what is submitted; the test says when it is committed."""

    pending_bytes = 0

    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    def submit(self, lsn: int, body: bytes, *_: object) -> None:
        self.bodies.append(body)

    def read(self, after: int) -> Any:
        return iter(())

    def bulk_names(self) -> list[str]:
        return []

    def retire(self, upto: int) -> None: ...
    def close(self) -> None: ...


class Columnar:
    def forget(self, storage_id: int) -> None: ...


class Replica:
    """A node over one tablespace; `reports` has what it has computed."""

    def __init__(self, path: Path) -> None:
        loop = asyncio.get_running_loop()
        self.log = Log()
        self.space = Tablespace.open(
            str(path), lambda *_: cast(Any, self.log), lambda work: cast(None, loop.call_soon_threadsafe(work))
        )
        self.node = Node(self.space, cast(Any, Columnar()), clock=lambda: NOW)
        self.reports: dict[bytes, Digest | SqlError] = {}
        self.node.report_check = lambda check, _, found: self.reports.__setitem__(check, found)

    def sequence(self, writes: dict[bytes, bytes | None]) -> int:
        return self.space.sequence(Edits(writes, [], []), 0, 0)

    def commit_all(self) -> None:
        self.space.on_committed(self.space.sequenced_lsn)

    def follow(self, leader: Replica) -> None:
        """Applies what the leader has submitted, all in one turn."""
        for lsn in range(self.space.durable_lsn + 1, len(leader.log.bodies) + 1):
            self.node.on_applied(self.space.apply(lsn, leader.log.bodies[lsn - 1]))

    async def report(self, check: bytes) -> Digest | SqlError:
        async with asyncio.timeout(10):
            while check not in self.reports:
                await asyncio.sleep(0.001)
        return self.reports[check]


@asynccontextmanager
async def replicas(path: Path, count: int) -> AsyncIterator[list[Replica]]:
    found = [Replica(path / str(number)) for number in range(count)]
    try:
        yield found
    finally:
        for replica in found:
            replica.commit_all()
            replica.space.close()


async def begun(leader: Replica) -> tuple[bytes, asyncio.Task[bytes]]:
    """A check whose row is sequenced."""
    task = asyncio.ensure_future(leader.node.checks.request())
    await asyncio.sleep(0)
    writes = Edits.decode(leader.log.bodies[-1]).writes
    return next(reversed(writes))[4:], task


async def test_all_replicas_digest_one_lsn_whatever_is_committed_meanwhile(tmp_path: Path) -> None:
    async with replicas(tmp_path, 3) as (leader, second, third):
        leader.sequence({key(1): b"a", key(2): b"b"})
        check, request = await begun(leader)
        lsn = leader.space.sequenced_lsn
        for number in range(50):  # the commits behind it become durable with it
            leader.sequence({key(1): b"%d" % number, key(number + 3): b"x"})
        leader.commit_all()
        assert await request == check
        second.follow(leader)
        third.follow(leader)
        found = [await replica.report(check) for replica in (leader, second, third)]
        assert isinstance(found[0], Digest)
        assert found[0] == found[1] == found[2]
        assert found[0].lsn == lsn and found[0].parts[TABLE][0] == 2 and found[0].parts[CHECKS][0] == 1


async def test_one_value_makes_a_difference(tmp_path: Path) -> None:
    async with replicas(tmp_path, 2) as (leader, second):
        leader.sequence({key(1): b"a"})
        leader.log.bodies[0] = Edits({key(1): b"A"}, [], []).encode()
        check, request = await begun(leader)
        leader.commit_all()
        await request
        second.follow(leader)
        ours, theirs = await leader.report(check), await second.report(check)
        assert isinstance(ours, Digest) and isinstance(theirs, Digest)
        assert ours.total != theirs.total and ours.parts[TABLE] != theirs.parts[TABLE]
        assert ours.parts[CHECKS] == theirs.parts[CHECKS]


async def test_nothing_is_reported_before_the_row_is_durable_nor_when_it_never_is(tmp_path: Path) -> None:
    async with replicas(tmp_path, 1) as (leader,):
        leader.sequence({key(1): b"a"})
        leader.commit_all()
        _, request = await begun(leader)
        await asyncio.sleep(0.02)
        assert not request.done() and not leader.reports
        lost = SqlError("40001", "deposed")
        leader.node.step_down(1, lost)
        with pytest.raises(SqlError, match="40001"):
            await request
        assert not leader.reports
        assert not leader.space._snapshots  # nothing keeps old versions any more


async def test_a_check_removes_the_rows_of_earlier_ones(tmp_path: Path) -> None:
    async with replicas(tmp_path, 1) as (leader,):
        known = []
        for _ in range(3):
            check, request = await begun(leader)
            leader.commit_all()
            await request
            await leader.report(check)
            known.append(check)
        rows = dict(leader.space.scan(checks.PREFIX, checks.PREFIX + b"\xff" * 17, leader.space.durable_lsn))
        assert rows == {checks.PREFIX + known[-1]: orjson.dumps({"time": NOW})}


async def test_old_requests_that_are_applied_again_are_passed_over(tmp_path: Path) -> None:
    async with replicas(tmp_path, 2) as (leader, late):
        check, request = await begun(leader)
        leader.commit_all()
        await request
        late.node.clock = lambda: NOW + checks.FRESH
        late.follow(leader)
        await leader.report(check)
        await asyncio.sleep(0.02)
        assert not late.reports


async def test_of_many_checks_at_once_the_last_one_is_computed_and_others_fail(tmp_path: Path) -> None:
    async with replicas(tmp_path, 1) as (leader,):
        requests = [await begun(leader) for _ in range(5)]
        leader.commit_all()
        for check, request in requests:
            await request
            await leader.report(check)
        assert isinstance(leader.reports[requests[-1][0]], Digest)
        errors = [found for found in leader.reports.values() if isinstance(found, SqlError)]
        assert errors and {error.sqlstate for error in errors} == {"53000"}


async def test_a_node_alone_has_nothing_to_compare(tmp_path: Path) -> None:
    async with replicas(tmp_path, 1) as (leader,):
        leader.node.report_check = None
        with pytest.raises(SqlError, match="55000"):
            await leader.node.checks.request()


def test_requests_have_a_storage_id_of_their_own() -> None:
    taken = {*KINDS, COUNTERS, COUNTERS + 1}
    assert CHECKS not in taken and CHECKS < FIRST_USER_STORAGE
    assert {_OIDS.storage_id, _STORAGE_IDS.storage_id} <= taken
