"""The ledger list: however many ledgers there are, a roll, a look-up and a drop cost the same."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
import pytest_asyncio

from catalog.errors import SqlError
from replication.interface import (
    Coordination,
    Create,
    Epoch,
    Head,
    Ledger,
    LedgerList,
    Operation,
    Set,
    Spec,
    Znode,
)
from replication.log import ledger_list
from replication.log.election import Candidacy
from replication.log.layout import (
    decode_ledgers,
    decode_segment,
    encode,
    encode_ledgers,
    encode_segment,
    paths,
)
from replication.log.ledger_list import DeposedError, LedgerListReader, OwnedList
from replication.log.ledgers import Ledgers, Needs, close_committed, droppable_ledgers, last_of_epoch, open_next
from replication.log.settings import LogGoneError, LogSettings
from replication.log.takeover import claim_epoch, create_tablespace, drop_tablespace, take_over
from replication.zookeeper.cluster import open_coordination
from tests.replication.log.test_parts import Term, VirtualClock
from tests.replication.memory_coordination import MemoryCoordination
from tests.replication.memory_store import MemoryStore

TABLESPACE = b"T" * 16
WHERE = paths(TABLESPACE)
STORE = "quorum(3,3,2):log://10.0.0.1:6700,log://10.0.0.2:6700,log://10.0.0.3:6700"
ROLL_BYTES = 100_000
"""What a roll may write."""


class Counted:
    """A session whose requests are counted, and what they read and write."""

    def __init__(self, session: Coordination) -> None:
        self._session = session
        self.reset()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def reset(self) -> None:
        self.requests = self.written = self.read = self.largest = 0

    async def get(self, path: str, watch: Callable[[], None] | None = None) -> Znode | None:
        found = await self._session.get(path, watch)
        self.requests += 1
        size = 0 if found is None else len(found.data)
        self.read += size
        self.largest = max(self.largest, size)
        return found

    async def multi(self, operations: Sequence[Operation]) -> list[int]:
        self.requests += 1
        sizes = [len(item.data) for item in operations if isinstance(item, Set | Create)]
        self.written += sum(sizes)
        self.largest = max(self.largest, *sizes, 0)
        return await self._session.multi(operations)


def made(number: int, *, each: int = 10) -> Ledger:
    """The ledger with that number, closed: 10 entries, and a new epoch with every thousandth."""
    return Ledger(number, 1 + number // 1000, (number - 1) * each + 1, number * each, 64 << 20, number, STORE)


async def fill(session: Coordination, count: int) -> LedgerList:
    """The list of a tablespace that has had so many ledgers, the last of which is open; as rolls make it."""
    await create_tablespace(session, TABLESPACE, Spec("main", ("a",), store=STORE))
    await session.set(WHERE.epoch, encode(Epoch(made(count).epoch, "a")))
    segments = max(0, count - 1 - ledger_list.SEGMENT // 4) // ledger_list.SEGMENT
    for first in range(0, segments, 30):
        await session.multi([
            Create(WHERE.segment(number), encode_segment(tuple(map(made, _numbers(number)))))
            for number in range(first, min(first + 30, segments))
        ])  # fmt: skip
    newest = [made(number) for number in range(segments * ledger_list.SEGMENT + 1, count + 1)]
    newest[-1] = replace(newest[-1], last=None, closed=0)
    older = segments * ledger_list.SEGMENT
    listed = LedgerList(tuple(newest), 0, segments, 1, 1, older, older * (64 << 20))
    await session.set(WHERE.ledgers, encode_ledgers(listed))
    return listed


def _numbers(segment: int) -> range:
    return range(segment * ledger_list.SEGMENT + 1, (segment + 1) * ledger_list.SEGMENT + 1)


async def owned(session: Coordination) -> OwnedList:
    epoch, found = await session.get(WHERE.epoch), await session.get(WHERE.ledgers)
    assert epoch is not None and found is not None
    return OwnedList(
        TABLESPACE,
        epoch.version,
        decode_ledgers(found.data),
        found.version,
        session,
        LogSettings(retry_pause=0.01),
        lambda: False,
    )


def rolled(ledgers: Ledgers) -> Ledgers:
    """As a leader rolls: the open one is full."""
    end = ledgers[-1].first + 9
    opened = open_next(ledgers, ledgers[-1].epoch, end + 1, STORE)
    return close_committed(opened, end, {ledgers[-1].ledger: 64 << 20}, ledgers[-1].ledger)


async def check_rolls(listed: OwnedList, session: Counted, rolls: int) -> None:
    """A roll is one request, of a bounded size, and no znode is large."""
    for _ in range(rolls):
        session.reset()
        await listed.edit(rolled)
        assert session.requests == 1
        assert session.written < ROLL_BYTES and session.largest < ROLL_BYTES


MILLION = 1_000_000


@pytest.fixture(scope="module")
def million() -> MemoryCoordination:
    """A service with a list of a million ledgers."""
    service = MemoryCoordination()

    async def make() -> None:
        await fill(service.session("a"), MILLION)

    asyncio.run(make())
    return service


async def test_a_million_ledgers_roll_at_the_cost_of_a_few(million: MemoryCoordination) -> None:
    session = Counted(million.session("b"))
    listed = await owned(session)
    began = time.perf_counter()
    await check_rolls(listed, session, 300)
    seconds = (time.perf_counter() - began) / 300
    print(f"{seconds * 1000:.2f} ms a roll, {session.written} bytes the last one")
    assert listed.listed.count + len(listed.ledgers) == MILLION + 300
    found = await session.get(WHERE.ledgers)
    assert decode_ledgers(found.data) == listed.listed
    session.reset()
    pages = LedgerListReader(TABLESPACE)
    last = 0
    async for page in pages.all_pages(session):
        for ledger in page:
            assert ledger.ledger == last + 1
            last = ledger.ledger
    assert last == MILLION + 300 and session.largest < ROLL_BYTES


async def test_a_roll_that_writes_the_whole_list_is_noticed(
    million: MemoryCoordination, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_list, "LISTED", 10**9)
    monkeypatch.setattr(ledger_list, "LISTED_BYTES", 10**9)
    session = Counted(MemoryCoordination().session("b"))
    await create_tablespace(session, TABLESPACE, Spec("main", ("a",), store=STORE))
    ledgers = tuple(made(number) for number in range(1, 3000))
    await session.set(WHERE.ledgers, encode_ledgers(LedgerList((*ledgers, replace(made(3000), last=None)))))
    with pytest.raises(AssertionError):
        await check_rolls(await owned(session), session, 1)


@pytest.mark.parametrize("place", [1, 7, 555_555, 999_000, MILLION - 1])
async def test_who_looks_for_an_lsn_reads_a_handful_of_segments(million: MemoryCoordination, place: int) -> None:
    session = Counted(million.session("c"))
    pages = LedgerListReader(TABLESPACE)
    await pages.refresh(session)
    lsn = made(place).first + 3
    session.reset()
    ledgers: list[Ledger] = []
    async for page in pages.pages_from_lsn(session, lsn):
        ledgers += page
        if len(ledgers) > 2 * ledger_list.SEGMENT:
            break
    assert session.requests <= 20 and session.read < 20 * ROLL_BYTES
    found = next(index for index, ledger in enumerate(ledgers) if ledger.last is None or ledger.last >= lsn)
    assert ledgers[found].ledger == place and ledgers[found].first <= lsn
    assert [ledger.ledger for ledger in ledgers] == list(range(ledgers[0].ledger, ledgers[-1].ledger + 1))
    page, index = await pages.find_ledger(session, place) or ((), 0)
    assert page[index].ledger == place
    assert await pages.find_ledger(session, 0) is None
    assert await pages.find_ledger(session, 2 * MILLION) is None


@pytest.mark.parametrize("epoch", [1, 2, 500, 999, 1000])
async def test_the_end_of_an_epoch_is_found(million: MemoryCoordination, epoch: int) -> None:
    session = Counted(million.session("d"))
    assert await LedgerListReader(TABLESPACE).end_of_epoch(session, epoch) == made(epoch * 1000 - 1).last
    assert session.requests <= 20


async def test_every_epoch_of_a_short_list_ends_where_all_of_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_list, "SEGMENT", 4)
    session = MemoryCoordination().session("a")
    await fill(session, 60)
    listed = await owned(session)
    ledgers: list[Ledger] = []
    epochs = iter([1, 1, 1, 1, 2, 2, 3, 5, 5, 5, 5, 5, 9, 9, 9, 9, 10, 11, 12, 13, 14] + [20] * 60)

    def scattered(page: Ledgers) -> Ledgers:
        return tuple(replace(ledger, epoch=next(epochs)) for ledger in page)

    await listed.edit_segments(scattered)
    await listed.edit(scattered)
    async for page in LedgerListReader(TABLESPACE).all_pages(session):
        ledgers += page
    for epoch in range(22):
        assert await LedgerListReader(TABLESPACE).end_of_epoch(session, epoch) == last_of_epoch(
            tuple(ledgers), epoch
        ), epoch


async def test_old_ledgers_are_dropped_a_segment_at_a_time() -> None:
    session = Counted(MemoryCoordination().session("a"))
    await fill(session, 2000)
    listed = await owned(session)
    before = listed.listed
    needs = Needs([], {}, 0.0)

    def chosen(upto: int) -> Callable[[Ledgers], list[Ledger]]:
        return lambda ledgers: [ledger for ledger in ledgers[:-1] if ledger.ledger <= upto]

    for upto in (1, 150, 200, 201, 900, 1999, 1999):
        gone: list[int] = []
        while part := await listed.drop(chosen(upto)):
            gone += [ledger.ledger for ledger in part]
        assert gone == list(range(before.first_ledger, upto + 1))
        assert listed.listed.first_ledger == upto + 1
        assert listed.listed.first_lsn == made(upto + 1).first
        total = listed.listed.count + len(listed.ledgers)
        assert total == 2000 - upto
        before = listed.listed
    assert await session.children(WHERE.ledgers) == []
    assert droppable_ledgers(listed.ledgers, needs, 10**9) == []
    await check_rolls(listed, session, 600)
    assert await session.children(WHERE.ledgers) != []


async def test_who_reads_what_is_dropped_meanwhile_hears_that_it_is_gone() -> None:
    session = MemoryCoordination().session("a")
    await fill(session, 1000)
    listed = await owned(session)
    pages = LedgerListReader(TABLESPACE)
    await pages.refresh(session)
    await listed.drop(lambda ledgers: list(ledgers[:-1]))
    with pytest.raises(LogGoneError):
        async for _ in pages.pages_from_lsn(session, 1):
            pass


@pytest.mark.parametrize("when", ["before", "after", "later"])
async def test_what_is_written_once_more_after_a_lost_reply_is_there_once(when: str) -> None:
    service = MemoryCoordination()
    session = service.session("a")
    await fill(session, 1000)
    listed = await owned(session)
    for step in range(300):
        if step % 7 == 0:
            session.lose_reply(when)  # type: ignore[arg-type]
        if step % 3:
            await listed.edit(rolled)
        else:
            await listed.drop(lambda ledgers: list(ledgers[:1]))
        if when == "later":
            session.carry_out_late_requests()
    found = await session.get(WHERE.ledgers)
    assert found is not None and decode_ledgers(found.data) == listed.listed
    numbers: list[int] = []
    async for page in LedgerListReader(TABLESPACE).all_pages(session):
        numbers += [ledger.ledger for ledger in page]
    assert numbers == list(range(101, 1201))


async def test_who_leads_no_more_changes_nothing() -> None:
    service = MemoryCoordination()
    session = service.session("a")
    await fill(session, 1000)
    listed = await owned(session)
    await session.set(WHERE.epoch, encode(Epoch(99, "b")))
    before = {path: service.value(path) for path in (WHERE.ledgers, WHERE.segment(0))}
    elsewhere: Callable[[Ledgers], Ledgers] = lambda page: tuple(replace(ledger, store="x") for ledger in page)  # noqa: E731
    for work in (
        listed.edit(rolled),
        listed.drop(lambda ledgers: list(ledgers[:5])),
        listed.drop(lambda ledgers: list(ledgers[:-1])),
        listed.edit_segments(elsewhere),
    ):
        with pytest.raises(DeposedError):
            await work
    assert before == {path: service.value(path) for path in before}


# --- lists of releases without segments ------------------------------------------------------------------------------


FAR = "s3://bucket/" + "x" * 2800


@pytest.mark.parametrize(
    ("count", "store"), [(1, STORE), (300, STORE), (4000, "file:///changelog"), (1, FAR), (331, FAR)]
)
async def test_a_list_in_one_znode_is_taken_over(count: int, store: str) -> None:
    """As it was written before there were segments: JSON records."""
    session = Counted(MemoryCoordination().session("a"))
    await create_tablespace(session, TABLESPACE, Spec("main", ("a",), store=store))
    old = tuple(replace(made(number), store=store) for number in range(1, count + 1))
    await session.set(WHERE.ledgers, orjson.dumps(old))
    await session.set(WHERE.epoch, encode(Epoch(100, "")))
    epoch = await session.get(WHERE.epoch)
    assert epoch is not None
    claimed = await claim_epoch(session, TABLESPACE, "a", Candidacy(epoch, ()))

    async def nothing(head: Head) -> None:
        pass

    await session.set(WHERE.head, encode_head_at(old[-1].last or 0))
    term = await take_over(session, TABLESPACE, claimed, nothing, store, VirtualClock())
    assert term.listed.ledgers[-1].ledger == count + 1
    listed = OwnedList(TABLESPACE, claimed[1], term.listed, term.listed_version, session, LogSettings(), lambda: False)
    await listed.edit(lambda ledgers: ledgers)
    await listed.edit(rolled)
    session.reset()
    numbers: list[int] = []
    async for page in LedgerListReader(TABLESPACE).all_pages(session):
        assert all(replace(made(ledger.ledger), store=store) == ledger for ledger in page if ledger.ledger <= count)
        numbers += [ledger.ledger for ledger in page]
    assert numbers == list(range(1, count + 3))
    assert session.largest < ROLL_BYTES
    await drop_tablespace(session, TABLESPACE)
    assert await session.children(WHERE.root) == []


def encode_head_at(lsn: int) -> bytes:
    return orjson.dumps({"lsn": lsn, "epoch": 0, "hash": "", "commit_time": 0, "bytes": 0, "recent": []})


def test_a_short_list_is_written_as_releases_without_segments_read_it() -> None:
    ledgers = (made(1), replace(made(2), last=None))
    assert orjson.loads(encode_ledgers(LedgerList(ledgers)))[0]["ledger"] == 1
    assert decode_ledgers(encode_ledgers(LedgerList(ledgers))) == LedgerList(ledgers)
    assert decode_segment(encode_segment(ledgers)) == ledgers


# --- a roll that cannot be done --------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", ["54000", "something else"])
async def test_a_roll_that_fails_ends_the_term_after_the_commit_timeout(
    error: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoryStore()
    term = Term(tmp_path, MemoryCoordination().session(), {"": store}, ledger_bytes=200, commit_timeout=0.2)
    leader = await term.begin()
    leader.submit(1, b"x" * 300, 0, 1)
    await term.until("committed", 1)

    async def fail(*_: object) -> None:
        raise SqlError(error, "a request to ZooKeeper is too large") if error.isdigit() else OSError(error)

    monkeypatch.setattr(leader.list, "edit", fail)
    leader.submit(2, b"y", 0, 1)
    await term.until("deposed", 1)
    assert not leader.leading and leader.state == "over"


async def test_a_roll_that_fails_once_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    term = Term(tmp_path, MemoryCoordination().session(), {"": store}, ledger_bytes=200, retry_pause=0.01)
    leader = await term.begin()
    leader.submit(1, b"x" * 300, 0, 1)
    await term.until("committed", 1)
    original = leader.list.edit
    tries = 0

    async def fail(change: Callable[[Ledgers], Ledgers]) -> Ledgers:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise OSError("once")
        return await original(change)

    monkeypatch.setattr(leader.list, "edit", fail)
    leader.submit(2, b"y", 0, 1)
    await term.until("committed", 2)
    assert len(leader.ledgers) == 2
    leader.close()


# --- ZooKeeper itself ------------------------------------------------------------------------------------------------


@pytest_asyncio.fixture
async def real(zookeeper: str) -> AsyncIterator[Coordination]:
    session = await open_coordination(zookeeper)
    yield session
    await session.close()


async def test_twenty_thousand_ledgers_in_zookeeper(real: Coordination) -> None:
    session = Counted(real)
    await fill(session, 20_000)
    listed = await owned(session)
    began = time.perf_counter()
    await check_rolls(listed, session, 300)
    print(f"{(time.perf_counter() - began) / 300 * 1000:.2f} ms a roll")
    session.reset()
    pages = LedgerListReader(TABLESPACE)
    await pages.refresh(session)
    async for page in pages.pages_from_lsn(session, made(12_345).first):
        assert any(ledger.ledger == 12_345 for ledger in page)
        break
    assert session.requests <= 20
    while await listed.drop(lambda ledgers: list(ledgers[:-1])):
        pass
    assert len(listed.ledgers) == 1 and listed.listed.first_ledger == 20_300
    await drop_tablespace(session, TABLESPACE)
