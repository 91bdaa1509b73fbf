"""The parts of the log by themselves: objects, the ledger list, retention, uploads, another store, shared reads."""

from __future__ import annotations

import asyncio
import gc
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from catalog.errors import SqlError
from replication.entry import NO_HASH
from replication.interface import (
    Checkpoint,
    ConflictError,
    CoordinationUnavailableError,
    Epoch,
    Head,
    HeadObject,
    Ledger,
    LedgerList,
    LogEntry,
    Replica,
    Spec,
    StoreUnavailableError,
    Znode,
)
from replication.log import BulkFiles, Committer, Follower, LogGoneError, LogSettings, Position, create_tablespace
from replication.log.election import Candidacy, candidate_rank
from replication.log.groups import CommitGroup
from replication.log.layout import (
    bulk_name,
    decode_head,
    decode_ledgers,
    decode_spec,
    encode_head,
    encode_ledgers,
    ledger_folder,
    parse_ledger,
    parse_object_name,
    paths,
)
from replication.log.leader import CommitNotification, LeaderLog
from replication.log.ledger_object import decode_object, encode_log_entry
from replication.log.ledgers import (
    Needs,
    close_all,
    delete_dropped_ledgers,
    droppable_ledgers,
    last_lsn,
    last_of_epoch,
    open_next,
)
from replication.log.lsn_waiters import FreshReads
from replication.log.takeover import claim_epoch, drop_tablespace, take_over
from tests.replication.log.world import Joint, VirtualClock, _inline
from tests.replication.memory_coordination import MemoryCoordination, MemorySession
from tests.replication.memory_store import MemoryStore

TABLESPACE = bytes(range(16))
SECOND = 1_000_000


# --- objects ---------------------------------------------------------------------------------------------------------


def make_object() -> tuple[bytes, HeadObject]:
    data, previous = b"", NO_HASH
    for lsn, files in ((1, ()), (2, ("run-1", "run-2")), (3, ())):
        entry, previous = encode_log_entry(lsn, b"body%d" % lsn, 7, 3, files, 0, 5, TABLESPACE, previous)
        data += entry
    return data, HeadObject(1, 1, 3, "0" * 32)


def decoded(data: bytes, item: HeadObject, after: Position) -> list[LogEntry]:
    return [read.entry for read in decode_object(data, item, TABLESPACE, 5, after)]


def test_a_part_of_a_transaction_over_several_tablespaces_names_all_of_them() -> None:
    joint = Joint((TABLESPACE, b"o" * 16), (1, 9))
    data, _ = encode_log_entry(1, b"body", 7, 3, ("run-1",), 0, 5, TABLESPACE, NO_HASH, joint)
    (entry,) = decoded(data, HeadObject(1, 1, 1, "0" * 32), Position(0, NO_HASH))
    assert (entry.files, entry.body) == (("run-1",), b"body")
    assert entry.parts == ((TABLESPACE, 1), (b"o" * 16, 9))


def test_a_part_that_does_not_name_itself_is_damage() -> None:
    joint = Joint((b"n" * 16, b"o" * 16), (1, 9))
    data, _ = encode_log_entry(1, b"body", 7, 3, (), 0, 5, TABLESPACE, NO_HASH, joint)
    with pytest.raises(SqlError, match="not part of its own transaction"):
        decoded(data, HeadObject(1, 1, 1, "0" * 32), Position(0, NO_HASH))


def test_an_object_gives_its_entries_with_their_files() -> None:
    data, item = make_object()
    entries = decoded(data, item, Position(0, NO_HASH))
    assert [(entry.lsn, entry.files, entry.body) for entry in entries] == [
        (1, (), b"body1"),
        (2, ("run-1", "run-2"), b"body2"),
        (3, (), b"body3"),
    ]
    assert decoded(data, item, Position(2, None)) == entries[2:]


def test_every_flipped_byte_of_an_object_is_noticed() -> None:
    data, item = make_object()
    for offset in range(len(data)):
        broken = bytearray(data)
        broken[offset] ^= 0x40
        with pytest.raises(SqlError) as error:
            decoded(bytes(broken), item, Position(0, NO_HASH))
        assert error.value.sqlstate == "XX001"


def test_a_torn_or_longer_object_is_noticed() -> None:
    data, item = make_object()
    for wrong in (data[:-1], data[: len(data) // 2], b"", data + b"x"):
        with pytest.raises(SqlError):
            decoded(wrong, item, Position(0, NO_HASH))


def test_another_history_is_noticed() -> None:
    data, item = make_object()
    with pytest.raises(SqlError):
        decoded(data, item, Position(0, b"1" * 16))
    with pytest.raises(SqlError):
        decoded(data, item, Position(2, b"1" * 16))


def test_names_of_objects() -> None:
    item = HeadObject(3, 10, 12, "a" * 32)
    name = f"{ledger_folder(TABLESPACE, 3)}{10:020d}-{12:020d}-{'a' * 32}"
    assert parse_object_name(name, 3) == item
    assert parse_object_name(bulk_name(TABLESPACE, 3, "run"), 3) is None
    assert parse_ledger(TABLESPACE, bulk_name(TABLESPACE, 3, "run")) == 3
    assert parse_ledger(TABLESPACE, f"{TABLESPACE.hex()}/checkpoint-1/x") is None


def test_unknown_fields_are_ignored_and_missing_ones_have_defaults() -> None:
    head = Head(5, 2, "ab", 9, 100, (HeadObject(1, 4, 5, "c" * 32),))
    data = orjson.loads(encode_head(head)) | {"later": 1}
    data["recent"][0].append("later")
    assert decode_head(orjson.dumps(data)) == head
    assert decode_spec(b'{"name": "t", "replicas": ["a"], "later": []}') == Spec("t", ("a",))
    with pytest.raises(SqlError):
        decode_spec(b'{"replicas": []}')


# --- the ledger list -------------------------------------------------------------------------------------------------


def test_a_takeover_closes_everything_at_head() -> None:
    ledgers = (Ledger(1, 1, 1, 10, 5, 1), Ledger(2, 1, 11), Ledger(3, 1, 21))
    head = Head(15, 1, "", 0, 77)
    closed = close_all(ledgers, head, 9)
    assert [(ledger.first, ledger.last) for ledger in closed] == [(1, 10), (11, 15), (16, 15)]
    assert closed[1].bytes == 77
    after = open_next(closed, 2, 16, "")
    assert (after[-1].ledger, after[-1].first, after[-1].last) == (4, 16, None)
    assert last_of_epoch(after, 1) == 15
    assert last_of_epoch(after, 2) is None
    assert last_of_epoch(after[3:], 1) is None


def test_the_end_of_a_ledger_that_was_rolled_before_it_was_committed() -> None:
    ledgers = (Ledger(1, 1, 1), Ledger(2, 1, 21))
    assert last_lsn(ledgers, 0, 15) == 15
    assert last_lsn(ledgers, 1, 15) == 20
    assert last_lsn(ledgers, 0, 30) == 20
    assert last_lsn(ledgers, 1, 30) == 30


LEDGERS = (Ledger(1, 1, 1, 10, 5, 0), Ledger(2, 1, 11, 20, 5, 50 * SECOND), Ledger(3, 2, 21))


@pytest.mark.parametrize(
    ("checkpoints", "flushed", "now", "dropped"),
    [
        ((), {"a": 30}, 1000, []),
        ((30,), {"a": 30}, 1000, [1, 2]),
        ((30,), {"a": 30}, 120, [1]),  # the second has not been closed for long
        ((30, 15), {"a": 30}, 1000, [1]),  # of two checkpoints the older one counts
        ((30,), {"a": 30, "b": 19}, 1000, [1]),
        ((30,), {"a": 30, "b": 0}, 1000, []),
    ],
)
def test_retention(checkpoints: tuple[int, ...], flushed: dict[str, int], now: int, dropped: list[int]) -> None:
    needs = Needs([Checkpoint(lsn, "", "f", 1, 0) for lsn in checkpoints], flushed, 100.0)
    assert [ledger.ledger for ledger in droppable_ledgers(LEDGERS, needs, now * SECOND)] == dropped


async def test_sweeping_deletes_ledgers_that_are_not_listed() -> None:
    store = MemoryStore()
    for ledger in (1, 2, 3, 4):
        await store.put(f"{ledger_folder(TABLESPACE, ledger)}{1:020d}-{1:020d}-{'a' * 32}", b"")
        await store.put(bulk_name(TABLESPACE, ledger, "run"), b"")
    await store.put(f"{TABLESPACE.hex()}/checkpoint-{5:020d}/manifest.json", b"")
    await store.put("another/ledger-0000000001/x", b"")
    assert await delete_dropped_ledgers(store, TABLESPACE, 2) == [1]
    assert len(store.objects) == 8


# --- elections -------------------------------------------------------------------------------------------------------


def test_who_goes_first() -> None:
    spec = Spec("t", ("a", "b", "c", "d"), preferred_leader="c")
    replicas = {name: Replica(name, "follower", applied) for name, applied in (("a", 5), ("b", 9), ("c", 1), ("x", 99))}
    replicas["d"] = Replica("d", "bootstrapping", 100)
    vacant = Epoch(3, "")
    assert [candidate_rank(name, spec, vacant, replicas, False) for name in "cbadx"] == [0, 1, 2, None, None]
    assert candidate_rank("a", spec, replace(vacant, wish="a"), replicas, False) == 0
    assert candidate_rank("c", spec, vacant, replicas, True) == 3


# --- the znodes of a tablespace ---------------------------------------------------------------------------------------


async def test_znodes_are_made_whole_or_not_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    session = MemoryCoordination().session()

    async def lost(operations: object) -> None:
        raise CoordinationUnavailableError

    with monkeypatch.context() as patched, pytest.raises(CoordinationUnavailableError):
        patched.setattr(session, "multi", lost)
        await create_tablespace(session, TABLESPACE, Spec("t", ("a",)))
    assert list(await session.children("tablespaces")) == []


@pytest.mark.parametrize("known", [0, 1, 3])
async def test_a_part_of_the_znodes_is_removed(known: int) -> None:
    session = MemoryCoordination().session()
    where = paths(TABLESPACE)
    for path in (where.root, where.replicas, where.spec, where.ledgers)[: known + 1]:
        await session.create(path, b"")
    await drop_tablespace(session, TABLESPACE)
    assert list(await session.children("tablespaces")) == []


async def test_a_root_without_the_rest_is_filled() -> None:
    session = MemoryCoordination().session()
    await session.create(paths(TABLESPACE).root, b"")
    await create_tablespace(session, TABLESPACE, Spec("t", ("a",)))
    assert await session.get(paths(TABLESPACE).epoch) is not None
    with pytest.raises(ConflictError):
        await create_tablespace(session, TABLESPACE, Spec("t", ("a",)))


# --- a leader --------------------------------------------------------------------------------------------------------


class Term:
    """A leader without an engine: what it is told is kept."""

    def __init__(
        self, directory: Path, session: MemorySession, stores: dict[str, MemoryStore], **settings: Any
    ) -> None:
        self.session = session
        self.stores = stores
        self.bulk = BulkFiles(str(directory), run=_inline)
        self.settings = LogSettings(**settings)
        self.told: list[tuple[str, int]] = []

    async def begin(self, committer: Committer | None = None) -> LeaderLog:
        await create_tablespace(self.session, TABLESPACE, Spec("t", ("a",)))
        found = await self.session.get(paths(TABLESPACE).epoch)
        assert isinstance(found, Znode)
        claimed = await claim_epoch(self.session, TABLESPACE, "a", Candidacy(found, ()))
        term = await take_over(self.session, TABLESPACE, claimed, _nothing, "", VirtualClock())
        told = CommitNotification(self._tell("committed"), self._tell("deposed"), self._tell("unknown"), lambda: None)
        return LeaderLog(
            term,
            self.session,
            committer or Committer(self.session, self.settings),
            self.stores.__getitem__,
            self.bulk,
            told,
            settings=self.settings,
            clock=VirtualClock(),
        )

    def _tell(self, what: str) -> Callable[[int], None]:
        return lambda lsn: self.told.append((what, lsn))

    async def until(self, what: str, lsn: int) -> None:
        async with asyncio.timeout(5):
            while (what, lsn) not in self.told:
                await asyncio.sleep(0.001)


async def _nothing(head: Head) -> None:
    pass


async def test_a_file_uploaded_ahead_keeps_its_ledger_open(tmp_path: Path) -> None:
    store = MemoryStore()
    term = Term(tmp_path, MemoryCoordination().session(), {"": store}, ledger_bytes=300)
    leader = await term.begin()
    Path(leader.bulk_path("run")).write_bytes(b"rows")
    await leader.upload("run")
    for lsn in range(1, 6):
        leader.submit(lsn, b"x" * 100, 0, 1)
        await term.until("committed", lsn)
    assert len(leader.ledgers) == 1
    leader.submit(6, b"", 0, 1, ["run"])
    await term.until("committed", 6)
    leader.submit(7, b"", 0, 1)
    await term.until("committed", 7)
    assert len(leader.ledgers) == 2
    assert [name for operation, name in store.log if name.endswith("/run")] == [bulk_name(TABLESPACE, 1, "run")]


async def test_a_tablespace_moves_to_another_store_and_followers_read_both(tmp_path: Path) -> None:
    service = MemoryCoordination()
    stores = {"": MemoryStore(), "memory://second": MemoryStore(url="memory://second")}
    term = Term(tmp_path, service.session(), stores)
    leader = await term.begin()
    leader.submit(1, b"first", 0, 1)
    await term.until("committed", 1)
    leader.move_to_store("memory://second")
    leader.submit(2, b"second", 0, 1)
    await term.until("committed", 2)
    assert (len(stores[""].objects), len(stores["memory://second"].objects)) == (1, 1)
    applied: list[bytes] = []
    follower = Follower(
        service.session(),
        TABLESPACE,
        stores.__getitem__,
        lambda entry: applied.append(entry.body),
        term.bulk,
        Position(0, NO_HASH),
        clock=VirtualClock(),
    )
    running = asyncio.ensure_future(follower.run())
    async with asyncio.timeout(5):
        await follower.wait_for(2)
    assert applied == [b"first", b"second"]
    running.cancel()


async def test_a_full_store_ends_the_term_and_nothing_is_in_doubt(tmp_path: Path) -> None:
    store = MemoryStore()
    term = Term(tmp_path, MemoryCoordination().session(), {"": store}, commit_timeout=0.2, retry_pause=0.02)
    leader = await term.begin()
    leader.submit(1, b"x", 0, 1)
    await term.until("committed", 1)
    store.room = 0
    leader.submit(2, b"y", 0, 1)
    leader.submit(3, b"z", 0, 1)
    await term.until("deposed", 1)
    assert term.told == [("committed", 1), ("deposed", 1)]
    with pytest.raises(SqlError) as error:
        leader.submit(4, b"", 0, 1)
    assert error.value.sqlstate == "40001"


class AheadStore(MemoryStore):
    """Its appends are on their way when the call returns: futures, answered by the test. Or coroutines."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.answers: list[asyncio.Future[None]] = []

    def append(self, name: str, data: bytes) -> Awaitable[None]:  # type: ignore[override]
        if self.kind == "coroutine":
            return super().append(name, data)
        self.answers.append(asyncio.get_running_loop().create_future())
        if self.kind == "answered before":
            self.fail()
        return self.answers[-1]

    def fail(self) -> None:
        if self.answers and not self.answers[-1].done():
            self.answers[-1].set_exception(StoreUnavailableError("away"))


@pytest.fixture
async def complaints() -> AsyncIterator[list[str]]:
    """Of answers that nobody has awaited."""
    found: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: found.append(context["message"]))
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = lambda message, *rest: found.append(str(message))
        yield found


KINDS = pytest.mark.parametrize("kind", ["answered late", "answered before", "coroutine"])


@KINDS
async def test_a_term_that_ends_before_a_put_has_run_leaves_no_answer_behind(
    kind: str, tmp_path: Path, complaints: list[str]
) -> None:
    session = MemoryCoordination().session()
    store = AheadStore(kind)
    committer = Committer(session)
    term = Term(tmp_path, session, {"": store})
    leader = await term.begin(committer)
    leader.submit(1, b"x", 0, 1)
    leader.form_objects()
    committer.cut_off(leader, leader.groups[0])  # in the same turn: the PUT's task is cancelled before its first step
    store.fail()
    assert term.told == [("deposed", 0)]
    await asyncio.sleep(0.01)
    store.answers.clear()
    del leader
    gc.collect()
    assert complaints == []


@KINDS
async def test_an_object_dropped_before_its_put_has_run_leaves_no_answer_behind(
    kind: str, tmp_path: Path, complaints: list[str]
) -> None:
    session = MemoryCoordination().session()
    store = AheadStore("coroutine")
    committer = Committer(session)
    term = Term(tmp_path, session, {"": store})
    leader = await term.begin(committer)
    session.hold_replies()
    leader.submit(1, b"x", 0, 1)
    while leader.multi is None:
        await asyncio.sleep(0.001)
    store.kind = kind
    group = CommitGroup()
    leader.submit(2, b"y", 0, 1)
    leader.cut_objects(group, everything=True)
    committer.cut_off(leader, group)  # the term goes on until the commit before it is known
    store.fail()
    await asyncio.sleep(0.01)
    session.release_replies()
    await term.until("deposed", 1)
    assert term.told == [("committed", 1), ("deposed", 1)]
    store.answers.clear()
    del leader, group
    gc.collect()
    assert complaints == []


async def test_a_commit_without_an_answer_is_unknown_until_it_is_known(tmp_path: Path) -> None:
    service = MemoryCoordination()
    session = service.session(session_timeout=60)
    term = Term(tmp_path, session, {"": MemoryStore()}, commit_timeout=0.2, retry_pause=0.02)
    leader = await term.begin()
    session.lose_reply("after", reconnect=None)
    leader.submit(1, b"x", 0, 1)
    await term.until("unknown", 1)
    assert term.told == [("unknown", 1)]
    assert leader.may_serve_until == float("-inf")
    session.resume()
    await term.until("deposed", 1)
    assert term.told == [("unknown", 1), ("committed", 1), ("deposed", 1)]


async def test_zookeeper_away_before_anything_was_sent_fails_the_commit_for_sure(tmp_path: Path) -> None:
    session = MemoryCoordination().session(session_timeout=60)
    term = Term(tmp_path, session, {"": MemoryStore()}, commit_timeout=0.2)
    leader = await term.begin()
    session.suspend()
    leader.submit(1, b"x", 0, 1)
    await term.until("deposed", 0)
    assert term.told == [("deposed", 0)]


async def test_a_follower_whose_log_is_gone_says_so(tmp_path: Path) -> None:
    service = MemoryCoordination()
    session = service.session()
    store = MemoryStore()
    term = Term(tmp_path, session, {"": store}, ledger_bytes=1)
    leader = await term.begin()
    for lsn in range(1, 41):
        leader.submit(lsn, b"x", 0, 1)
        await term.until("committed", lsn)
    kept = decode_ledgers((await _get(session, paths(TABLESPACE).ledgers)).data).ledgers[5:]
    await session.set(paths(TABLESPACE).ledgers, encode_ledgers(LedgerList(kept)))
    follower = Follower(
        service.session(),
        TABLESPACE,
        lambda url: store,
        lambda entry: None,
        term.bulk,
        Position(0, None),
        clock=VirtualClock(),
    )
    with pytest.raises(LogGoneError):
        await asyncio.wait_for(follower.run(), 5)


async def _get(session: MemorySession, path: str) -> Znode:
    found = await session.get(path)
    assert found is not None
    return found


async def test_reads_that_are_shared_begin_after_the_question() -> None:
    began: list[int] = []
    gates: list[asyncio.Event] = []

    async def read() -> int:
        began.append(len(began))
        mine = len(gates)
        gates.append(asyncio.Event())
        await gates[mine].wait()
        return mine

    fresh: Callable[[], Awaitable[int]] = FreshReads(read)
    first = asyncio.ensure_future(fresh())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    later = [asyncio.ensure_future(fresh()) for _ in range(5)]
    await asyncio.sleep(0.001)
    assert began == [0]
    gates[0].set()
    assert await first == 0
    await asyncio.sleep(0.001)
    assert began == [0, 1]
    gates[1].set()
    assert await asyncio.gather(*later) == [1] * 5
