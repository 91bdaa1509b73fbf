"""The commands against a cluster that is nothing but znodes and a store: what they show, and what they call wrong."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import pathlib
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from psycopg.conninfo import conninfo_to_dict

from catalog import rows as system_rows
from catalog.schema import Column, Schema, Table
from catalog.types.base import TypeRef
from engine.storage.edits import Edits
from replication.checks import ReplicaReport
from replication.interface import (
    Checkpoint,
    Coordination,
    Epoch,
    Head,
    HeadObject,
    Ledger,
    LedgerList,
    Node,
    Replica,
    Spec,
)
from replication.log.layout import encode, encode_checkpoints, encode_head, encode_ledgers, object_name, paths
from replication.log.ledger_object import encode_log_entry
from replication.log.settings import SystemClock
from replication.stores import open_store
from replication.zookeeper.cluster import open_coordination
from shoal.cli import main, parser
from shoal.commands import status
from shoal.commands.check import compare, report_rows, show
from shoal.commands.cluster_access import age, conninfo, now, size, table
from shoal.config import ConfigError
from wire.client_core import SSL_REQUEST

TABLESPACE = bytes(range(16))
STORAGE = 120
SCHEMA = Schema(2200, 5, "public")
TABLE = Table(16384, 2200, "words", (Column(1, "a", TypeRef(23)),), storage_id=STORAGE)
Capture = pytest.CaptureFixture[str]


def in_zookeeper(url: str, work: Callable[[Coordination], Awaitable[None]]) -> None:
    async def run() -> None:
        session = await open_coordination(url)
        try:
            await work(session)
        finally:
            await session.close()

    asyncio.run(run())


class Ports:
    """Two ports that answer as a node's do, as far as `shoal status` asks."""

    def __init__(self) -> None:
        self.sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
        self.numbers = [item.getsockname()[1] for item in self.sockets]
        for item in self.sockets:
            threading.Thread(target=self._serve, args=(item,), daemon=True).start()

    def _serve(self, listening: socket.socket) -> None:
        with contextlib.suppress(OSError):  # it is closed
            while True:
                connection = listening.accept()[0]
                with connection:
                    if connection.recv(8) == SSL_REQUEST:
                        connection.sendall(b"N")

    def close(self) -> None:
        for item in self.sockets:
            with contextlib.suppress(OSError):  # it is closed already
                item.shutdown(socket.SHUT_RDWR)
            item.close()


class Made:
    """A cluster of two nodes whose znodes stay (they are not ephemeral), and a log of five entries in two ledgers."""

    def __init__(self, url: str, directory: pathlib.Path, ports: Ports) -> None:
        self.url = url
        self.ports = ports
        self.store = f"file://{directory}"
        self.directory = directory
        in_zookeeper(url, self._fill)

    async def _fill(self, session: Coordination) -> None:
        clock = SystemClock().wall()
        for number, node in enumerate(("a", "b")):
            await session.create(
                f"nodes/{node}", encode(Node(node, "127.0.0.1", self.ports.numbers[number], load=0.25))
            )
        known = paths(TABLESPACE)
        await session.create(known.spec, encode(Spec("pg_default", ("a", "b"), 2, store=self.store)))
        await session.create(known.epoch, encode(Epoch(2, "a")))
        await session.create(known.checkpoints, encode_checkpoints((Checkpoint(3, "ab", "folder", 10, clock),)))
        await session.create(known.replica("a"), encode(Replica("a", "leader", 5, 5, clock)))
        await session.create(known.replica("b"), encode(Replica("b", "follower", 3, 2, clock)))
        last, size = await self._write()
        ledgers = (Ledger(1, 1, 1, 3, 500, clock, self.store), Ledger(2, 2, 4, store=self.store))
        await session.create(known.ledgers, encode_ledgers(LedgerList(ledgers)))
        await session.create(known.head, encode_head(Head(5, 2, last.hex(), clock, size)))

    async def _write(self) -> tuple[bytes, int]:
        row = STORAGE.to_bytes(4, "big")
        bodies: list[dict[bytes, bytes | None]] = [
            {system_rows.object_key(item): system_rows.encode(item) for item in (SCHEMA, TABLE)},
            {row + b"1": b"one", row + b"2": b"two"},
            {row + b"1": None},
            {row + b"3": b"three"},
            {(99).to_bytes(4, "big") + b"x": b"y"},
        ]
        previous, size = bytes(16), 0
        store = open_store(self.store)
        for item, numbers in (
            (HeadObject(1, 1, 2, "1" * 32), (1, 2)),
            (HeadObject(1, 3, 3, "2" * 32), (3,)),
            (HeadObject(2, 4, 5, "3" * 32), (4, 5)),
        ):
            data = b""
            for lsn in numbers:
                body = Edits(bodies[lsn - 1], [], [STORAGE] if lsn == 5 else []).encode()
                entry, previous = encode_log_entry(
                    lsn, body, lsn * 1_000_000, 7, (), lsn - 1, item.ledger, TABLESPACE, previous
                )
                data += entry
            await store.put(object_name(TABLESPACE, item), data)
            size += len(data)
        orphan = HeadObject(1, 4, 4, "f" * 32)
        await store.put(object_name(TABLESPACE, orphan), b"never committed")
        await store.close()
        return previous, size

    def object(self, ending: str) -> pathlib.Path:
        return next(path for path in self.directory.rglob("*") if path.name.endswith(ending))


@pytest.fixture
def made(zookeeper: str, tmp_path: pathlib.Path) -> Iterator[Made]:
    ports = Ports()
    yield Made(zookeeper, tmp_path / "store", ports)
    ports.close()


def lines(capsys: Capture) -> list[Any]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


# ---- status ---------------------------------------------------------------------------------------------------------


def test_status_of_a_healthy_cluster(made: Made, capsys: Capture) -> None:
    assert main(["status", "--cluster", made.url]) == 0
    shown = capsys.readouterr().out
    assert "no problems found" in shown
    assert "tablespace pg_default: leader a, replicas 2 (expected 2)" in shown
    assert main(["status", "--cluster", made.url, "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert value["ok"] and [node["node"] for node in value["nodes"]] == ["a", "b"]
    (tablespace,) = value["tablespaces"]
    assert (tablespace["head_lsn"], tablespace["leader"], tablespace["checkpoint_lsn"]) == (5, "a", 3)
    assert [(item["node"], item["role"], item["lag"]) for item in tablespace["replicas"]] == [
        ("a", "leader", 0), ("b", "follower", 2)
    ]  # fmt: skip


def test_status_asks_the_nodes(made: Made, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that nobody listens for, one that takes connections and says nothing, one that ends them."""
    monkeypatch.setattr(status, "ANSWER", 0.5)
    made.ports.close()
    assert main(["status", "--cluster", made.url]) == 1
    shown = capsys.readouterr().out
    for name, port in zip("ab", made.ports.numbers, strict=True):
        assert f"WRONG: node {name} cannot be reached: Connection refused at 127.0.0.1:{port}" in shown
    with socket.create_server(("127.0.0.1", made.ports.numbers[0])):
        assert main(["status", "--cluster", made.url, "--json"]) == 1
    value = json.loads(capsys.readouterr().out)
    assert not value["ok"] and value["problems"][0].startswith("node a does not answer within 0.5 s")
    assert [node["answers"] for node in value["nodes"]] == [False, False]


def test_status_says_that_a_leader_still_catches_up(made: Made, capsys: Capture) -> None:
    in_zookeeper(made.url, lambda session: _set(session, paths(TABLESPACE).epoch, encode(Epoch(3, "b"))))
    assert main(["status", "--cluster", made.url]) == 1
    assert "WRONG: tablespace pg_default is being taken over by b" in capsys.readouterr().out


def test_status_says_what_is_wrong(made: Made, capsys: Capture) -> None:
    known = paths(TABLESPACE)

    async def damage(session: Coordination) -> None:
        await session.delete("nodes/a")
        await session.delete(known.replica("b"))
        await session.set(known.replica("a"), encode(Replica("a", "leader", 5, 5, now() - 60_000_000)))

    in_zookeeper(made.url, damage)
    assert main(["status", "--cluster", made.url]) == 1
    shown = capsys.readouterr().out
    wrong = {line for line in shown.splitlines() if line.startswith("WRONG")}
    assert {line.removeprefix("WRONG: ") for line in wrong if "last heard" not in line} == {
        "node a is not there",
        "tablespace pg_default has no replica on b, where it should",
        "tablespace pg_default is led by a, which is not there",
        "tablespace pg_default has 1 of 2 replicas",
    }
    assert any("was last heard of 1 min" in line for line in wrong)
    assert "UNDER-REPLICATED" in shown and "MISSING" in shown and "NOT THERE" in shown
    in_zookeeper(made.url, lambda session: _set(session, known.epoch, encode(Epoch(3, ""))))
    assert main(["status", "--cluster", made.url, "--json"]) == 1
    assert "tablespace pg_default has no leader" in json.loads(capsys.readouterr().out)["problems"]


async def _set(session: Coordination, path: str, data: bytes) -> None:
    await session.set(path, data)


def test_who_only_looks_makes_no_cluster(zookeeper: str, capsys: Capture) -> None:
    for _ in range(2):
        assert main(["status", "--cluster", zookeeper]) == 1
        error = capsys.readouterr().err
        assert "holds no cluster" in error and len(error.splitlines()) == 1


# ---- ledgers --------------------------------------------------------------------------------------------------------


def test_ledgers_are_listed_and_shown(made: Made, capsys: Capture) -> None:
    assert main(["ledger", "list", "--cluster", made.url, "--json"]) == 0
    first, second = lines(capsys)
    assert (first["state"], first["first_lsn"], first["last_lsn"], first["entries"]) == ("closed", 1, 3, 3)
    assert (second["state"], second["epoch"], second["first_lsn"], second["last_lsn"]) == ("open", 2, 4, 5)
    assert main(["ledger", "show", "--cluster", made.url, "1", "--json"]) == 0
    kinds = [(item["kind"], item["first_lsn"], item["last_lsn"]) for item in lines(capsys)]
    assert kinds == [("entries", 1, 2), ("entries", 3, 3), ("never committed", 4, 4)]
    assert main(["ledger", "list", "--cluster", made.url]) == 0
    assert "LEDGER" in capsys.readouterr().out
    assert main(["ledger", "show", "--cluster", made.url, "7"]) == 1
    assert "no ledger 7; it has: 1 to 2" in capsys.readouterr().err
    assert main(["ledger", "list", "--cluster", made.url, "--tablespace", "other"]) == 1
    assert "there are: pg_default" in capsys.readouterr().err


def test_entries_are_read_with_the_names_of_tables(made: Made, capsys: Capture) -> None:
    assert main(["ledger", "read", "--cluster", made.url, "--json"]) == 0
    read = lines(capsys)
    assert [item["lsn"] for item in read] == [1, 2, 3, 4, 5]
    assert [item["epoch"] for item in read] == [1, 1, 1, 2, 2]
    assert read[0]["edits"] == [
        {"storage_id": 4, "name": "catalog: Schema", "edits": 1, "deletions": 0},
        {"storage_id": 5, "name": "catalog: Table", "edits": 1, "deletions": 0},
    ]
    assert read[1]["edits"] == [{"storage_id": STORAGE, "name": "public.words", "edits": 2, "deletions": 0}]
    assert read[2]["edits"][0]["deletions"] == 1
    assert read[4]["edits"][0]["name"] == "storage id 99" and read[4]["dropped"][0]["name"] == "public.words"
    assert (read[2]["time"], read[2]["schema_version"]) == ("2000-01-01 00:00:03.000Z", 7)
    assert main(["ledger", "read", "--cluster", made.url, "--from", "2", "--to", "4"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in shown] == ["2", "3", "4", "3"]
    assert shown[-1] == "3 entries read, all intact"


@pytest.mark.parametrize("ending", ["1" * 32, "3" * 32])
def test_damage_is_noticed(made: Made, capsys: Capture, ending: str) -> None:
    path = made.object(ending)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.chmod(0o600)
    path.write_bytes(data)
    assert main(["ledger", "read", "--cluster", made.url]) == 1
    assert "WRONG: object" in capsys.readouterr().out


def test_another_history_and_what_is_missing_are_noticed(made: Made, capsys: Capture) -> None:
    known = paths(TABLESPACE)
    in_zookeeper(made.url, lambda session: _set(session, known.head, encode_head(Head(5, 2, "00" * 16, 0, 1))))
    assert main(["ledger", "read", "--cluster", made.url]) == 1
    assert "another hash than the head" in capsys.readouterr().out
    made.object("2" * 32).unlink()
    assert main(["ledger", "read", "--cluster", made.url]) == 1
    assert "LSN 3 is missing" in capsys.readouterr().out


def test_what_was_dropped_is_said_to_be(made: Made, capsys: Capture) -> None:
    kept = encode_ledgers(LedgerList((Ledger(2, 2, 4, store=made.store),)))
    in_zookeeper(made.url, lambda session: _set(session, paths(TABLESPACE).ledgers, kept))
    assert main(["ledger", "read", "--cluster", made.url, "--from", "2"]) == 1
    assert "the changelog begins at LSN 4" in capsys.readouterr().err
    assert main(["ledger", "read", "--cluster", made.url]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["4", "5", "2"]


# ---- check, checkpoint ----------------------------------------------------------------------------------------------


def report(total: str, **parts: tuple[int, str]) -> ReplicaReport:
    return ReplicaReport(9, total, {int(name[1:]): part for name, part in parts.items()})


def test_replicas_are_compared_table_by_table(capsys: Capture) -> None:
    reports = {
        "a": report("x", t5=(1, "s"), t120=(3, "p"), t121=(2, "q")),
        "b": report("x", t5=(1, "s"), t120=(3, "p"), t121=(2, "q")),
        "c": report("y", t5=(1, "s"), t120=(4, "P")),
        "d": ReplicaReport(error="snapshot too old"),
    }
    verdict = compare(reports, {"a", "b", "c", "d", "e"}, "b")
    assert verdict == {"a": [], "b": [], "c": ["differs"], "d": ["snapshot too old"], "e": ["did not answer"]}
    lines: list[dict[str, Any]] = report_rows(verdict, reports, {120: "words"})
    assert [line["equal"] for line in lines] == [True, True, False, False, False]
    third = next(item for item in lines if item["node"] == "c")
    assert [(part["table"], part["rows"], part["leader_rows"]) for part in third["tables"]] == [
        ("words", 4, 3), ("storage id 121", 0, 2)
    ]  # fmt: skip
    show("pg_default", lines, reports)
    shown = capsys.readouterr().out
    assert "c: words differs (4 keys, 3 on the leader)" in shown and "WRONG: not all are equal" in shown
    good = {node: reports[node] for node in ("a", "b")}
    show("pg_default", report_rows(compare(good, {"a", "b"}, "a"), good, {}), good)
    assert "all replicas are equal in 2 tables" in capsys.readouterr().out


def test_a_digest_of_another_lsn_is_not_equal() -> None:
    reports = {"a": ReplicaReport(9, "x"), "b": ReplicaReport(8, "x")}
    assert compare(reports, {"a", "b"}, "a") == {"a": [], "b": ["is a digest at LSN 8"]}


def test_a_leader_that_is_away_is_one_line(made: Made, capsys: Capture) -> None:
    made.ports.close()
    for command in (["checkpoint"], ["check", "--timeout", "1"]):
        assert main([*command, "--cluster", made.url]) == 1
        error = capsys.readouterr().err
        assert f'"127.0.0.1", port {made.ports.numbers[0]} failed' in error and len(error.splitlines()) == 1
    in_zookeeper(made.url, lambda session: _set(session, paths(TABLESPACE).epoch, encode(Epoch(3, ""))))
    assert main(["checkpoint", "--cluster", made.url]) == 1
    assert "has no leader at the moment" in capsys.readouterr().err


def test_connection_strings_are_completed() -> None:
    def read(*arguments: str, **given: str | int) -> dict[str, object]:
        return conninfo_to_dict(conninfo(*arguments, **given))

    whole = {"host": "h", "port": "7", "user": "u", "dbname": "postgres"}
    assert read("u", "host=h port=7") == read("no", "postgresql://u@h:7/") == read("u", host="h", port=7) == whole
    assert read("u", "user=v password='a b' dbname=d") == {"user": "v", "password": "a b", "dbname": "d"}
    for wrong in ("host", "port=x y", "postgresql://[h/"):
        with pytest.raises(ConfigError):
            conninfo("u", wrong)


def test_numbers_are_shown_for_people() -> None:
    assert [size(value) for value in (0, 1023, 1536, 5 << 20, 3 << 40)] == [
        "0 B", "1023 B", "1.5 KiB", "5.0 MiB", "3.0 TiB"
    ]  # fmt: skip
    assert age(now() - 3_661_000_000) == "1 h 1 min"
    assert table(("A", "NUMBER"), [("x", 1), ("yy", 100)]) == "A   NUMBER\nx        1\nyy     100"


def _commands(parser: argparse.ArgumentParser, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, command in action.choices.items():
                yield (*words, name)
                yield from _commands(command, (*words, name))


COMMANDS = sorted(_commands(parser()))
WITHOUT_RESULT = {("completion",), ("ledger",), ("pipeline",), ("store",)}  # a script; commands of several parts


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_explains_itself(command: tuple[str, ...], capsys: Capture) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*command, "--help"])
    assert ended.value.code == 0
    told = capsys.readouterr().out
    assert "examples:" in told and f"  shoal {command[0]}" in told.partition("examples:")[2]
    assert ("--json" in told.partition("examples:")[0]) == (command not in WITHOUT_RESULT)
