"""Clients through the router: real server processes behind it, and what becomes of clients when one dies."""

from __future__ import annotations

import os
import select
import signal
import socket
import threading
import time
from collections.abc import Iterator

import psycopg
import pytest
from psycopg import errors

from tests.end_to_end.router_thread import RouterThread, registered
from tests.server import ShoalServer
from wire import client_core, messages

LONG = "SELECT count(*) FROM generate_series(1, 200000) a, generate_series(1, 200000) b WHERE a.a # b.b = 5"


@pytest.fixture(scope="module")
def nodes() -> Iterator[tuple[ShoalServer, ShoalServer]]:
    """Two nodes that know nothing of each other; which one answers is told by its table `who`."""
    with ShoalServer() as one, ShoalServer() as two:
        for name, server in (("one", one), ("two", two)):
            with psycopg.connect(server.dsn, autocommit=True) as connection:
                connection.execute("CREATE TABLE who (name text)")
                connection.execute("INSERT INTO who VALUES (%s)", (name,))
                connection.execute("CREATE TABLE t (a int PRIMARY KEY, b text)")
        yield one, two


@pytest.fixture
def router(nodes: tuple[ShoalServer, ShoalServer]) -> Iterator[RouterThread]:
    for server in nodes:
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute("TRUNCATE t")
    with RouterThread(registered("one", nodes[0]), registered("two", nodes[1]), leader="two") as thread:
        yield thread


def who(connection: psycopg.Connection[tuple[object, ...]]) -> object:
    row = connection.execute("SELECT name FROM who").fetchone()
    assert row is not None
    return row[0]


def where(router: RouterThread, options: str = "") -> object:
    with psycopg.connect(router.dsn, options=options, connect_timeout=20) as connection:
        return who(connection)


def test_statements_transactions_copy_and_pipelines_pass(router: RouterThread) -> None:
    with psycopg.connect(router.dsn) as connection:
        with connection.cursor() as cursor, cursor.copy("COPY t FROM STDIN") as copy:
            for number in range(5000):
                copy.write_row((number, "x" * 100))
        connection.commit()
        assert connection.execute("SELECT count(*) FROM t").fetchone() == (5000,)
        with connection.cursor() as cursor, cursor.copy("COPY t TO STDOUT (FORMAT text)") as copy:
            assert sum(len(bytes(data)) for data in copy) > 500_000
        with connection.pipeline():
            cursors = [connection.execute("SELECT b FROM t WHERE a = %s", (n,)) for n in range(100)]
        assert all(cursor.fetchone() == ("x" * 100,) for cursor in cursors)
        with pytest.raises(errors.UniqueViolation):
            connection.execute("INSERT INTO t VALUES (1, '')")
        connection.rollback()
        assert connection.execute("SELECT repeat('y', 20000000)").fetchone() == ("y" * 20_000_000,)


def test_cancel_finds_the_node(router: RouterThread) -> None:
    connections = [psycopg.connect(router.dsn) for _ in range(4)]
    victim = connections[2]
    timer = threading.Timer(0.3, victim.cancel_safe)  # `cancel` would keep the router, a thread, from running
    timer.start()
    with pytest.raises(errors.QueryCanceled):
        victim.execute(LONG)
    timer.join()
    victim.rollback()
    assert [connection.execute("SELECT 1").fetchone() for connection in connections] == [(1,)] * 4
    for connection in connections:
        connection.close()


def test_new_clients_are_spread(router: RouterThread) -> None:
    connections = [psycopg.connect(router.dsn) for _ in range(10)]
    assert sorted(map(str, map(who, connections))) == ["one"] * 5 + ["two"] * 5
    for connection in connections:
        connection.close()


def test_the_least_loaded_node_is_preferred(router: RouterThread, nodes: tuple[ShoalServer, ShoalServer]) -> None:
    router.call(lambda: router.directory.put(registered("one", nodes[0], 0.9), registered("two", nodes[1], 0.1)))
    assert {where(router) for _ in range(5)} == {"two"}


def test_a_client_may_ask_for_the_leader_or_a_replica(router: RouterThread) -> None:
    assert {where(router, "-c shoal.route=leader") for _ in range(3)} == {"two"}
    assert {where(router, "-c shoal.route=replica") for _ in range(3)} == {"one"}
    with pytest.raises(psycopg.OperationalError, match=r"any, leader, replica"):
        where(router, "-c shoal.route=elsewhere")


def test_what_a_node_refuses_reaches_the_client(router: RouterThread) -> None:
    with pytest.raises(psycopg.OperationalError, match='role "nobody" does not exist'):
        psycopg.connect(router.dsn, user="nobody")
    with pytest.raises(psycopg.OperationalError, match='database "nowhere" does not exist'):
        psycopg.connect(router.dsn, dbname="nowhere")


def test_what_is_no_protocol_ends_one_client_only(router: RouterThread) -> None:
    with psycopg.connect(router.dsn) as connection, socket.create_connection(("127.0.0.1", router.port), 10) as raw:
        raw.sendall(client_core.startup({"user": "postgres", "database": "postgres"}))
        answer = b""
        while not answer.endswith(messages.READY["I"]):
            answer += raw.recv(65536)
        raw.sendall(b"Q\xff\xff\xff\xff" * 10)
        assert b"08P01" in raw.recv(65536)
        for rubbish in (b"GET / HTTP/1.1\r\n\r\n", b"\0\0\0\x08\x7f\xff\xff\xff", b"\xff" * 100):
            with socket.create_connection(("127.0.0.1", router.port), 10) as other:
                other.sendall(rubbish)
                assert other.recv(65536).startswith(b"E")
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_there_is_a_limit_of_clients(nodes: tuple[ShoalServer, ShoalServer]) -> None:
    with RouterThread(registered("one", nodes[0]), max_connections=2) as router:
        connections = [psycopg.connect(router.dsn) for _ in range(2)]
        with pytest.raises(psycopg.OperationalError, match="too many clients"):
            psycopg.connect(router.dsn)
        connections.pop().close()
        with psycopg.connect(router.dsn) as connection:
            assert who(connection) == "one"
        connections.pop().close()


def test_without_a_node_there_is_one_clear_line(nodes: tuple[ShoalServer, ShoalServer]) -> None:
    with RouterThread(deadline=0.3) as router:
        with pytest.raises(psycopg.OperationalError, match=r"no node takes connections(.|\n)*no node is registered"):
            psycopg.connect(router.dsn)
        with pytest.raises(psycopg.OperationalError, match="no leader takes connections"):
            psycopg.connect(router.dsn, options="-c shoal.route=leader")


def test_clients_wait_for_a_node_that_is_about_to_come(nodes: tuple[ShoalServer, ShoalServer]) -> None:
    with RouterThread() as router:
        node = registered("one", nodes[0])
        timer = threading.Timer(0.3, lambda: router.call(lambda: router.directory.put(node)))
        timer.start()
        assert where(router) == "one"
        timer.join()


def test_a_node_that_is_stopped_in_good_order_says_so_itself(private_shoal: ShoalServer) -> None:
    with RouterThread(registered("one", private_shoal)) as router:
        connection = psycopg.connect(router.dsn)
        private_shoal.stop()
        with pytest.raises(errors.AdminShutdown, match="administrator command"):
            connection.execute("SELECT 1")


def test_a_killed_node_ends_idle_clients_with_57p01_and_running_ones_with_08007(private_shoal: ShoalServer) -> None:
    with RouterThread(registered("one", private_shoal)) as router:
        idle, running = psycopg.connect(router.dsn), psycopg.connect(router.dsn)
        idle.execute("SELECT 1")
        timer = threading.Timer(0.3, private_shoal.kill)
        timer.start()
        with pytest.raises(errors.TransactionResolutionUnknown, match="node one is gone"):
            running.execute(LONG)
        timer.join()
        told, _, _ = select.select([idle], [], [], 30)
        assert told  # before it says anything: what it said could have been on its way to the node
        with pytest.raises(errors.AdminShutdown, match="node one is gone"):
            idle.execute("SELECT 1")


def test_a_stopped_process_gets_no_clients_and_loses_those_it_has(
    private_shoal: ShoalServer, nodes: tuple[ShoalServer, ShoalServer]
) -> None:
    dying, one = registered("dying", private_shoal), registered("one", nodes[0], 0.5)
    with RouterThread(dying, one, dial_timeout=0.5, probe_timeout=0.3) as router:
        held = psycopg.connect(router.dsn)
        os.kill(private_shoal.pid, signal.SIGSTOP)
        try:
            assert where(router) == "one"
            with pytest.raises(psycopg.OperationalError, match="node dying is gone"):
                held.execute("SELECT 1")
        finally:
            os.kill(private_shoal.pid, signal.SIGCONT)


def test_under_load_clients_of_a_killed_node_connect_again_and_go_on(
    private_shoal: ShoalServer, nodes: tuple[ShoalServer, ShoalServer]
) -> None:
    with psycopg.connect(private_shoal.dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE who (name text)")
        connection.execute("INSERT INTO who VALUES ('dying')")
    with RouterThread(registered("dying", private_shoal), registered("one", nodes[0])) as router:
        killed = threading.Event()
        answers: list[dict[str, int]] = [{} for _ in range(6)]
        strange: list[BaseException] = []

        def work(seen: dict[str, int]) -> None:
            after = 0
            while after < 20:
                # An ending that arrives right behind an answer is a notice to libpq, and the next statement meets EOF.
                told: list[str | None] = []
                try:
                    with psycopg.connect(router.dsn, autocommit=True, connect_timeout=20) as connection:
                        connection.add_notice_handler(lambda notice, told=told: told.append(notice.sqlstate))
                        while after < 20:
                            late = killed.is_set()
                            name = str(who(connection))
                            seen[name] = seen.get(name, 0) + 1
                            after += late
                except (errors.AdminShutdown, errors.TransactionResolutionUnknown):
                    seen["lost"] = seen.get("lost", 0) + 1
                except BaseException as error:
                    if told != ["57P01"]:
                        strange.append(error)
                        return
                    seen["lost"] = seen.get("lost", 0) + 1

        threads = [threading.Thread(target=work, args=(seen,)) for seen in answers]
        for thread in threads:
            thread.start()
        time.sleep(0.5)
        private_shoal.kill()
        killed.set()
        for thread in threads:
            thread.join(60)
        assert not strange
        assert sum(seen.get("lost", 0) for seen in answers) == 3  # half of the clients were there
        assert all(seen.get("one", 0) >= 20 for seen in answers)
