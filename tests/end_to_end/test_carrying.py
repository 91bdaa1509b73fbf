"""A client of a node that follows sees what a client of the leader sees, whoever leads meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing

import psycopg
import pytest
from psycopg import Connection
from psycopg.rows import TupleRow

from catalog.errors import SqlError
from tests.cluster_node import SECRET
from tests.server import ShoalServer
from tests.two_nodes import ScriptedNode, TwoNodes
from wire.client import ClientConnection
from wire.peer_authentication import introduce

Client = Connection[TupleRow]


@pytest.fixture(scope="module")
def shared() -> Iterator[TwoNodes]:
    with TwoNodes() as nodes:
        yield nodes


@pytest.fixture
def nodes(shared: TwoNodes) -> Iterator[TwoNodes]:
    """Two nodes with an empty table t (a, b)."""
    with psycopg.connect(shared.leader.dsn, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS t")
        connection.execute("CREATE TABLE t (a int PRIMARY KEY, b text)")
    assert rows(shared.follower) == []  # a strong read: it has applied that
    yield shared


@pytest.fixture
def private() -> Iterator[TwoNodes]:
    """Two nodes for a test that kills one, with an empty table t."""
    with TwoNodes() as nodes:
        with psycopg.connect(nodes.leader.dsn, autocommit=True) as connection:
            connection.execute("CREATE TABLE t (a int PRIMARY KEY, b text)")
        yield nodes


@pytest.fixture
def front(nodes: TwoNodes) -> Iterator[Client]:
    """A client of the node that follows, in autocommit."""
    with connect(nodes.follower) as connection:
        yield connection


def connect(node: ScriptedNode, *, autocommit: bool = True) -> Client:
    return psycopg.connect(node.dsn, autocommit=autocommit)


def rows(node: ScriptedNode, sql: str = "SELECT a FROM t ORDER BY a") -> list[object]:
    with connect(node) as connection:
        return [row[0] for row in connection.execute(sql.encode())]


def value(connection: Client, sql: str) -> object:
    found = connection.execute(sql.encode()).fetchone()
    assert found is not None
    return found[0]


def told(work: Callable[[], object]) -> str | None:
    """The SQLSTATE that it ends with."""
    with pytest.raises(psycopg.Error) as caught:
        work()
    return caught.value.sqlstate


# ---- one session ---------------------------------------------------------------------------------------------------


def test_own_writes_are_read_at_once(front: Client) -> None:
    for number in range(20):
        front.execute("INSERT INTO t VALUES (%s, 'x')", (number,))
        assert value(front, f"SELECT b FROM t WHERE a = {number}") == "x"
    front.execute("CREATE TABLE made_here (a int)")
    assert value(front, "SELECT count(*) FROM made_here") == 0
    front.execute("DROP TABLE made_here")


def test_settings_go_along_and_come_back(front: Client) -> None:
    front.execute("SET search_path = pg_temp, \"a,b\", public; SET my.own = 'it''s'; SET datestyle = 'SQL, DMY'")
    query = "current_setting('search_path') || current_setting('my.own') || current_setting('datestyle')"
    expected = 'pg_temp, "a,b", publicit\'sSQL, DMY'
    front.execute("INSERT INTO t SELECT 1, " + query)
    assert value(front, "SELECT b FROM t") == expected
    with front.transaction():
        front.execute("INSERT INTO t VALUES (2, '')")
        front.execute("SET my.own = 'changed there'")
        front.execute("SET LOCAL my.other = 'only there'")
        front.execute("SET application_name = 'carried'")
    assert value(front, "SHOW my.own") == "changed there"
    assert value(front, "SELECT current_setting('my.other', true)") in ("", None)
    assert front.info.parameter_status("application_name") == "carried"
    with front.transaction(force_rollback=True):
        front.execute("INSERT INTO t VALUES (3, '')")
        front.execute("SET my.own = 'lost'")
        front.execute("SET timezone = 'Europe/Berlin'")
        assert front.info.parameter_status("TimeZone") == "Europe/Berlin"
    assert value(front, "SHOW my.own") == "changed there"
    assert front.info.parameter_status("TimeZone") == "UTC"
    front.execute("INSERT INTO t SELECT 4, current_setting('my.own')")
    front.execute("RESET datestyle")
    front.execute("INSERT INTO t SELECT 5, current_setting('datestyle')")
    assert [row[1] for row in front.execute("SELECT a, b FROM t WHERE a >= 4 ORDER BY a")] == [
        "changed there",
        "ISO, MDY",
    ]


def test_a_block_that_was_begun_here_continues_at_the_leader(nodes: TwoNodes, front: Client) -> None:
    front.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    front.execute("SET LOCAL my.own = 'one'")
    front.execute("SAVEPOINT s")
    front.execute("SET my.own = 'two'")
    front.execute('SAVEPOINT "T"')
    front.execute("INSERT INTO t SELECT 1, current_setting('my.own') || current_setting('transaction_isolation')")
    front.execute('ROLLBACK TO "T"')
    assert value(front, "SELECT current_setting('my.own')") == "two"
    front.execute("ROLLBACK TO s")
    assert value(front, "SELECT current_setting('my.own')") == "one"
    front.execute("INSERT INTO t VALUES (2, '')")
    front.execute("COMMIT")
    assert value(front, "SELECT current_setting('my.own', true)") in ("", None)
    assert rows(nodes.follower) == rows(nodes.leader) == [2]


def test_a_setting_of_the_local_part_of_a_block_lasts_or_not(front: Client) -> None:
    for end, expected in (("COMMIT", "new"), ("ROLLBACK", "old")):
        front.execute("SET my.own = 'old'")
        front.execute("BEGIN; SET my.own = 'new'")
        front.execute("DELETE FROM t")
        front.execute(end.encode())
        assert value(front, "SHOW my.own") == expected


def test_errors_come_through_and_the_block_fails(front: Client) -> None:
    assert told(lambda: front.execute("INSERT INTO nowhere VALUES (1)")) == "42P01"
    front.execute("BEGIN")
    front.execute("INSERT INTO t VALUES (1, '')")
    assert told(lambda: front.execute("INSERT INTO t VALUES (1, '')")) == "23505"
    assert told(lambda: front.execute("SELECT 1")) == "25P02"
    front.execute("ROLLBACK")
    assert value(front, "SELECT count(*) FROM t") == 0


def test_temporary_tables_live_at_the_leader(front: Client) -> None:
    front.execute("CREATE TEMPORARY TABLE mine (a int)")
    front.execute("INSERT INTO mine VALUES (1), (2)")
    assert value(front, "SELECT count(*) FROM mine") == 2
    front.execute("INSERT INTO t SELECT a, 'from mine' FROM mine")
    front.execute("DROP TABLE mine")
    assert value(front, "SELECT count(*) FROM t") == 2
    front.execute("CREATE TEMPORARY TABLE mine (a int)")
    front.execute("DISCARD ALL")
    assert told(lambda: front.execute("SELECT * FROM mine")) == "42P01"


def test_cursors(front: Client) -> None:
    front.execute("INSERT INTO t SELECT g, 'x' FROM generate_series(1, 10) g")
    front.execute("BEGIN")
    front.execute("DECLARE c CURSOR FOR SELECT a FROM t ORDER BY a")
    assert front.execute("FETCH 2 FROM c").fetchall() == [(1,), (2,)]
    front.execute("DECLARE h CURSOR WITH HOLD FOR SELECT a FROM t ORDER BY a")
    front.execute("COMMIT")
    assert front.execute("FETCH 3 FROM h").fetchall() == [(1,), (2,), (3,)]
    front.execute("INSERT INTO t VALUES (11, '')")
    assert front.execute("FETCH 1 FROM h").fetchall() == [(4,)]
    front.execute("CLOSE h")
    front.execute("BEGIN READ ONLY")
    front.execute("DECLARE c CURSOR FOR SELECT a FROM t ORDER BY a")
    assert front.execute("FETCH ALL FROM c").rowcount == 11
    front.execute("COMMIT")


def test_sequences_are_the_leaders(nodes: TwoNodes, front: Client) -> None:
    front.execute("DROP TABLE IF EXISTS numbered")
    front.execute("CREATE TABLE numbered (id serial PRIMARY KEY, b text)")
    front.execute("INSERT INTO numbered (b) VALUES ('x')")
    assert value(front, "SELECT lastval()") == 1
    assert value(front, "SELECT currval('numbered_id_seq')") == 1
    assert value(front, "SELECT nextval('numbered_id_seq')") == 2
    assert value(front, "SELECT last_value FROM numbered_id_seq") == 2
    with connect(nodes.leader) as other:
        assert value(other, "SELECT nextval('numbered_id_seq')") == 3
    front.execute("CREATE VIEW drawing AS SELECT nextval('numbered_id_seq') AS n")
    assert value(front, "SELECT count(*) FROM pg_class WHERE relname = 'drawing'") == 1  # the follower has it now
    for _ in range(3):
        assert told(lambda: front.execute("SELECT n FROM drawing")) == "40001"
    assert value(front, "SELECT nextval('numbered_id_seq')") == 4
    front.execute("DROP VIEW drawing")
    front.execute("DROP TABLE numbered")


def test_prepared_statements(front: Client) -> None:
    front.execute("PREPARE ins (int, text) AS INSERT INTO t VALUES ($1, $2)")
    front.execute("EXECUTE ins (1, 'one')")
    front.execute("PREPARE sel AS SELECT b FROM t WHERE a = $1")
    assert value(front, "EXECUTE sel (1)") == "one"
    front.execute("BEGIN")
    front.execute("EXECUTE ins (2, 'two')")
    assert value(front, "EXECUTE sel (2)") == "two"
    front.execute("PREPARE later AS SELECT count(*) FROM t")
    front.execute("COMMIT")
    assert value(front, "EXECUTE later") == 2
    front.execute("DEALLOCATE ins")
    assert told(lambda: front.execute("EXECUTE ins (3, '')")) == "26000"
    front.execute("DEALLOCATE ALL")
    assert told(lambda: front.execute("EXECUTE sel (1)")) == "26000"
    assert value(front, "SELECT count(*) FROM t") == 2


def test_statements_that_the_driver_prepares(front: Client) -> None:
    for number in range(4):
        front.execute("INSERT INTO t VALUES (%s, %s)", (number, "x"), prepare=True)
        assert front.execute("SELECT b FROM t WHERE a = %s", (number,), prepare=True).fetchall() == [("x",)]
        with front.transaction():
            front.execute("INSERT INTO t VALUES (%s, %s)", (number + 10, "y"), prepare=True)
            assert front.execute("SELECT b FROM t WHERE a = %s", (number + 10,), prepare=True).fetchall() == [("y",)]


def test_pipelines(nodes: TwoNodes, front: Client) -> None:
    with front.pipeline():
        cursors = []
        for number in range(200):
            front.execute("INSERT INTO t VALUES (%s, 'x')", (number,))
            cursors.append(front.execute("SELECT count(*) FROM t"))
    assert [cursor.fetchone() for cursor in cursors] == [(number + 1,) for number in range(200)]
    with pytest.raises(psycopg.errors.UniqueViolation), front.pipeline(), front.transaction():
        front.execute("INSERT INTO t VALUES (500, 'x')")
        front.execute("INSERT INTO t VALUES (1, 'x')")
    assert value(front, "SELECT count(*) FROM t") == 200


def test_several_statements_in_one_query(nodes: TwoNodes, front: Client) -> None:
    front.execute("SELECT 1; INSERT INTO t VALUES (1, ''); SELECT * FROM t")
    front.execute("BEGIN; SELECT 1; INSERT INTO t VALUES (2, '')")
    front.execute("INSERT INTO t VALUES (3, ''); COMMIT; SELECT 1")
    front.execute("BEGIN")
    assert told(lambda: front.execute("SELECT 1/0")) == "22012"
    front.execute("ROLLBACK; INSERT INTO t VALUES (4, '')")
    front.execute("BEGIN READ ONLY; SELECT * FROM t")
    front.execute("COMMIT; INSERT INTO t VALUES (5, '')")
    assert rows(nodes.leader) == [1, 2, 3, 4, 5]


def test_copy_both_ways(front: Client) -> None:
    with front.cursor() as cursor:
        with cursor.copy("COPY t FROM STDIN") as copy:
            for number in range(5000):
                copy.write_row((number, "x" * 100))
        with cursor.copy("COPY t TO STDOUT") as copy:
            assert sum(1 for _ in copy.rows()) == 5000
        with cursor.copy("COPY (SELECT 1) TO STDOUT") as copy:
            assert b"".join(copy) == b"1\n"
    with pytest.raises(psycopg.errors.UniqueViolation), front.cursor() as cursor, cursor.copy("COPY t FROM STDIN") as c:
        c.write_row((1, "again"))
    assert value(front, "SELECT count(*) FROM t") == 5000


def test_savepoints_and_nested_transactions(front: Client) -> None:
    with front.transaction():
        with front.transaction():
            front.execute("INSERT INTO t VALUES (1, '')")
        with pytest.raises(psycopg.errors.UniqueViolation), front.transaction():
            front.execute("INSERT INTO t VALUES (1, '')")
        front.execute("INSERT INTO t VALUES (2, '')")
    assert value(front, "SELECT count(*) FROM t") == 2


def test_roles_go_along(front: Client) -> None:
    front.execute("DROP ROLE IF EXISTS visitor")
    front.execute("CREATE ROLE visitor LOGIN")
    front.execute("SET ROLE visitor")
    assert told(lambda: front.execute("INSERT INTO t VALUES (1, '')")) == "42501"
    assert value(front, "SELECT current_user") == "visitor"
    front.execute("RESET ROLE")
    front.execute("INSERT INTO t VALUES (1, '')")
    front.execute("DROP ROLE visitor")


def test_locks_are_the_leaders(nodes: TwoNodes, front: Client) -> None:
    front.execute("INSERT INTO t VALUES (1, '')")
    with connect(nodes.leader) as other:
        other.execute("BEGIN")
        other.execute("SELECT * FROM t WHERE a = 1 FOR UPDATE")
        front.execute("SET lock_timeout = '100ms'")
        assert told(lambda: front.execute("UPDATE t SET b = 'x'")) == "55P03"
        assert told(lambda: front.execute("SELECT * FROM t FOR SHARE NOWAIT")) == "55P03"
        assert front.execute("SELECT a FROM t").fetchall() == [(1,)]
        front.execute("SET lock_timeout = 0; SET statement_timeout = '100ms'")
        assert told(lambda: front.execute("UPDATE t SET b = 'x'")) == "57014"
        front.execute("RESET statement_timeout")
        assert during(lambda: front.execute("UPDATE t SET b = 'x'"), front.cancel) == "57014"
        front.execute("BEGIN")
        assert during(lambda: front.execute("UPDATE t SET b = 'x'"), lambda: other.execute("ROLLBACK")) is None
        front.execute("COMMIT")
    assert value(front, "SELECT b FROM t") == "x"


def during(work: Callable[[], object], then: Callable[[], object], wait: float = 0.3) -> str | None:
    """The SQLSTATE that the work ends with when the other thing happens after a moment."""
    timer = threading.Timer(wait, then)
    timer.start()
    try:
        work()
    except psycopg.Error as error:
        return error.sqlstate
    finally:
        timer.join()
    return None


def test_the_activity_of_a_carried_session(nodes: TwoNodes, front: Client) -> None:
    state = f"SELECT state || ': ' || query FROM pg_stat_activity WHERE pid = {front.info.backend_pid}"
    with connect(nodes.follower) as watcher, connect(nodes.leader) as other:
        front.execute("BEGIN")
        front.execute("INSERT INTO t VALUES (1, '')")
        assert value(watcher, state) == "idle in transaction: INSERT INTO t VALUES (1, '')"
        told(lambda: front.execute("SELECT 1/0 FROM t"))
        assert value(watcher, state) == "idle in transaction (aborted): SELECT 1/0 FROM t"
        front.execute("ROLLBACK")
        other.execute("BEGIN; INSERT INTO t VALUES (1, '')")
        seen = []

        def look() -> None:
            seen.append(value(watcher, state))
            watcher.execute("SELECT pg_cancel_backend(%s)", (front.info.backend_pid,))

        assert during(lambda: front.execute("INSERT INTO t VALUES (%s, 'p')", (1,)), look) == "57014"
        assert seen == ["active: INSERT INTO t VALUES ($1, 'p')"]
        address = "SELECT count(*) FROM pg_stat_activity WHERE client_port = inet_client_port()"
        assert value(front, address) == 1
        watcher.execute("SELECT pg_terminate_backend(%s)", (front.info.backend_pid,))
        assert told(lambda: [front.execute("INSERT INTO t VALUES (2, '')") for _ in range(3)]) == "57P01"


def test_messages_that_are_too_large_end_their_connection_everywhere(nodes: TwoNodes) -> None:
    for node in (nodes.leader, nodes.follower):
        with connect(node) as client:
            client.execute("SET connection_memory_limit = '16MB'")
            assert value(client, f"SELECT length('{'x' * 8_000_000}')") == 8_000_000
            with pytest.raises(psycopg.OperationalError):
                client.execute("SELECT length(%s)", ("x" * 100_000_000,))
            assert client.closed


def test_timeouts_of_idle_sessions(nodes: TwoNodes) -> None:
    for setting, begin, expected in (
        ("idle_in_transaction_session_timeout", "BEGIN; INSERT INTO t VALUES (1, '')", "25P03"),
        ("idle_session_timeout", "INSERT INTO t VALUES (2, '')", "57P05"),
        ("transaction_timeout", "BEGIN; INSERT INTO t VALUES (3, '')", "25P04"),
        ("transaction_timeout", "BEGIN; SELECT 1", "25P04"),
    ):
        with closing(connect(nodes.follower)) as front:
            front.execute(f"SET {setting} = '100ms'".encode())
            front.execute(begin.encode())
            time.sleep(0.4)
            assert told(lambda client=front: client.execute("SELECT 1")) == expected  # type: ignore[misc]
    assert rows(nodes.leader) == [2]  # what was in a transaction is undone


@pytest.mark.parametrize("prepared", [False, True], ids=["simple", "prepared"])
def test_a_sequence_that_the_log_has_yet_to_bring_is_the_leaders_too(
    nodes: TwoNodes, front: Client, prepared: bool
) -> None:
    front.prepare_threshold = 0 if prepared else None
    with connect(nodes.leader) as writer:
        for block in ("", "BEGIN READ ONLY"):
            nodes.follower.say("lag")
            try:
                writer.execute("CREATE SEQUENCE fresh; CREATE VIEW shown AS SELECT last_value FROM fresh")
                writer.execute("SELECT nextval('fresh'), nextval('fresh')")
                if block:
                    front.execute(block.encode())
                for _ in range(2):
                    found = front.execute("SELECT f.last_value, s.last_value FROM fresh f, shown s WHERE 1 = %s", (1,))
                    assert found.fetchall() == [(2, 2)]
                    assert value(writer, "SELECT nextval('fresh')") == 3
                    writer.execute("SELECT setval('fresh', 2)")
                if block:
                    front.execute("COMMIT")
                assert value(front, "SELECT 1 + count(*) FROM t") == 1
            finally:
                nodes.follower.say("lag")
                writer.execute("DROP SEQUENCE fresh CASCADE")


# ---- reads ---------------------------------------------------------------------------------------------------------


def test_a_follower_answers_reads_as_fresh_as_they_are_wanted(nodes: TwoNodes, front: Client) -> None:
    follower = nodes.follower
    with connect(nodes.leader) as writer:
        front.execute("INSERT INTO t VALUES (1, '')")
        token = value(front, "SELECT shoal_last_commit()")
        value(front, "SELECT count(*) FROM t")
        follower.say("lag")
        try:
            writer.execute("INSERT INTO t VALUES (2, '')")
            newest = value(writer, "SELECT shoal_last_commit()")
            front.execute("SET read_consistency = 'eventual'")
            assert value(front, "SELECT count(*) FROM t") == 1
            front.execute("SET read_consistency = 'session'")
            assert value(front, "SELECT count(*) FROM t") == 1
            front.execute(f"SET read_after = '{newest}'".encode())
            assert told(lambda: front.execute("SELECT count(*) FROM t")) == "55000"
            front.execute(f"SET read_after = '{token}'".encode())
            assert value(front, "SELECT count(*) FROM t") == 1
            front.execute("SET read_consistency = 'bounded'; SET max_staleness = '1s'")
            assert value(front, "SELECT count(*) FROM t") == 1
            follower.say("late 1.5")
            assert told(lambda: front.execute("SELECT count(*) FROM t")) == "55000"
            front.execute("SET read_consistency = 'strong'")
            assert value(front, "SELECT count(*) FROM t") == 2
        finally:
            follower.say("lag")
            follower.say("late 0")


def test_a_sessions_own_commit_is_waited_for(nodes: TwoNodes, front: Client) -> None:
    front.execute("SET read_consistency = 'session'")
    for number in range(50):
        front.execute("INSERT INTO t VALUES (%s, '')", (number,))
        assert value(front, "SELECT count(*) FROM t") == number + 1


def test_read_only_blocks_read_here(nodes: TwoNodes, front: Client) -> None:
    front.execute("INSERT INTO t VALUES (1, '')")
    with connect(nodes.leader) as writer:
        front.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        assert value(front, "SELECT count(*) FROM t") == 1
        writer.execute("INSERT INTO t VALUES (2, '')")
        assert value(front, "SELECT count(*) FROM t") == 1
        assert told(lambda: front.execute("INSERT INTO t VALUES (3, '')")) == "25006"
        front.execute("ROLLBACK")
        front.execute("BEGIN READ ONLY")
        assert value(front, "SELECT count(*) FROM t") == 2
        writer.execute("INSERT INTO t VALUES (3, '')")
        assert value(front, "SELECT count(*) FROM t") == 3
        assert told(lambda: front.execute("SET TRANSACTION READ WRITE")) == "25001"
        front.execute("ROLLBACK")
    front.execute("SET default_transaction_read_only = on")
    assert value(front, "SELECT count(*) FROM t") == 3
    assert told(lambda: front.execute("INSERT INTO t VALUES (4, '')")) == "25006"
    front.execute("BEGIN")
    assert told(lambda: front.execute("DELETE FROM t")) == "25006"
    front.execute("ROLLBACK")
    front.execute("BEGIN READ WRITE")
    front.execute("DELETE FROM t")
    front.execute("COMMIT")
    assert rows(nodes.leader) == []


def test_the_head_that_cannot_be_read(nodes: TwoNodes, front: Client) -> None:
    nodes.follower.say("deaf")
    try:
        assert told(lambda: front.execute("SELECT * FROM t")) == "57P03"
        assert told(lambda: front.execute("SELECT * FROM t WHERE a = %s", (1,))) == "57P03"
        front.execute("SET read_consistency = 'eventual'")
        assert value(front, "SELECT count(*) FROM t") == 0
    finally:
        nodes.follower.say("serve")


# ---- who leads changes -----------------------------------------------------------------------------------------------


def test_sessions_go_on_when_the_leadership_moves_between_statements(nodes: TwoNodes) -> None:
    with connect(nodes.a) as one, connect(nodes.b) as two:
        for number in range(6):
            for offset, client in enumerate((one, two)):
                client.execute("INSERT INTO t VALUES (%s, '')", (2 * number + offset,))
                assert value(client, "SELECT count(*) FROM t") == 2 * number + offset + 1
            nodes.switch()
    assert rows(nodes.a) == rows(nodes.b) == list(range(12))


@pytest.mark.parametrize("through", ["leader", "follower"])
@pytest.mark.parametrize("then", ["INSERT INTO t VALUES (3, '')", "SELECT * FROM t", "COMMIT"])
def test_a_block_whose_leader_is_deposed_ends_with_40001_once(nodes: TwoNodes, through: str, then: str) -> None:
    with connect(getattr(nodes, through)) as client:
        client.execute("BEGIN")
        client.execute("INSERT INTO t VALUES (1, '')")
        nodes.switch()
        assert told(lambda: client.execute(then.encode())) == "40001"
        if then != "COMMIT":
            assert told(lambda: client.execute("SELECT 1")) == "25P02"
            client.execute("ROLLBACK")
        client.execute("INSERT INTO t VALUES (2, '')")
    assert rows(nodes.leader) == [2]


@pytest.mark.parametrize("through", ["leader", "follower"])
def test_a_rollback_after_the_leader_was_deposed_is_simply_done(nodes: TwoNodes, through: str) -> None:
    with connect(getattr(nodes, through)) as client:
        client.execute("BEGIN")
        client.execute("INSERT INTO t VALUES (1, '')")
        nodes.switch()
        client.execute("ROLLBACK")
        client.execute("INSERT INTO t VALUES (2, '')")
    assert rows(nodes.leader) == [2]


@pytest.mark.parametrize("through", ["leader", "follower"])
def test_a_block_in_which_nothing_was_done_goes_on_elsewhere(nodes: TwoNodes, through: str) -> None:
    with connect(getattr(nodes, through)) as client:
        client.execute("BEGIN")
        client.execute("SET LOCAL my.own = 'kept'")
        nodes.switch()
        client.execute("INSERT INTO t SELECT 1, current_setting('my.own')")
        client.execute("COMMIT")
    assert rows(nodes.leader, "SELECT b FROM t") == ["kept"]


@pytest.mark.parametrize("through", ["leader", "follower"])
def test_what_waits_for_a_lock_at_a_deposed_leader_ends(nodes: TwoNodes, through: str) -> None:
    with connect(nodes.leader) as holder, connect(getattr(nodes, through)) as client:
        holder.execute("BEGIN")
        holder.execute("INSERT INTO t VALUES (1, '')")
        assert during(lambda: client.execute("INSERT INTO t VALUES (1, '')"), nodes.switch) == "40001"
        client.execute("INSERT INTO t VALUES (1, '')")
        assert told(lambda: holder.execute("COMMIT")) == "40001"
    assert rows(nodes.leader) == [1]


@pytest.mark.parametrize("through", ["leader", "follower"])
def test_a_copy_at_a_deposed_leader_ends(nodes: TwoNodes, through: str) -> None:
    with connect(getattr(nodes, through)) as client:

        def load() -> None:
            with client.cursor() as cursor, cursor.copy("COPY t FROM STDIN") as copy:
                for number in range(1000):
                    copy.write_row((number, "x" * 1000))
                    if number == 500:
                        nodes.switch()

        assert told(load) == "40001"
        client.execute("INSERT INTO t VALUES (2, '')")
    assert rows(nodes.leader) == [2]


@pytest.mark.parametrize("through", ["leader", "follower"])
@pytest.mark.parametrize("end", ["INSERT INTO t VALUES (2, '')", "COMMIT"])
def test_a_commit_that_the_deposed_leader_did_not_make(nodes: TwoNodes, through: str, end: str) -> None:
    leader = nodes.leader
    with connect(getattr(nodes, through)) as client:
        if end == "COMMIT":
            client.execute("BEGIN; INSERT INTO t VALUES (1, '')")
        leader.say("hold")
        assert during(lambda: client.execute(end.encode()), nodes.switch) == "40001"
        client.execute("INSERT INTO t VALUES (3, '')")
    assert rows(nodes.leader) == rows(nodes.follower) == [3]


@pytest.mark.parametrize("through", ["leader", "follower"])
def test_a_commit_of_which_nobody_knows(nodes: TwoNodes, through: str) -> None:
    leader = nodes.leader
    with closing(connect(getattr(nodes, through))) as client:
        leader.say("hold")
        assert during(lambda: client.execute("INSERT INTO t VALUES (1, '')"), lambda: leader.say("doubt")) == "08007"
        assert client.broken
    leader.say("write")
    assert rows(nodes.leader) == [1]


def test_pinned_sessions_end_with_the_leader_that_holds_them(nodes: TwoNodes) -> None:
    with closing(connect(nodes.follower)) as client:
        client.execute("CREATE TEMPORARY TABLE mine (a int)")
        nodes.switch()
        assert told(lambda: client.execute("SELECT * FROM mine")) == "57P01"
    assert rows(nodes.leader, "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'pg\\_temp%'") == [0]


def test_a_leader_that_is_not_sure_answers_nothing_from_its_own_state(nodes: TwoNodes) -> None:
    with connect(nodes.leader) as here, connect(nodes.follower) as there, connect(nodes.leader) as block:
        block.execute("BEGIN")
        block.execute("INSERT INTO t VALUES (9, '')")
        nodes.leader.say("suspend")
        try:
            started = time.monotonic()
            assert told(lambda: here.execute("INSERT INTO t VALUES (1, '')")) == "57P03"
            assert told(lambda: there.execute("INSERT INTO t VALUES (1, '')")) == "57P03"
            assert 2.5 < time.monotonic() - started < 9
            assert told(lambda: block.execute("COMMIT")) == "40001"
            there.execute("SET read_consistency = 'eventual'")
            assert value(there, "SELECT count(*) FROM t") == 0
            resume = nodes.leader.say
            assert during(lambda: here.execute("INSERT INTO t VALUES (1, '')"), lambda: resume("resume")) is None
            nodes.leader.say("suspend")
            assert during(lambda: there.execute("INSERT INTO t VALUES (2, '')"), lambda: resume("resume")) is None
        finally:
            nodes.leader.say("resume")
    assert rows(nodes.leader) == [1, 2]


def test_without_a_leader(nodes: TwoNodes) -> None:
    with connect(nodes.leader) as one, connect(nodes.follower) as two:
        two.execute("INSERT INTO t VALUES (1, '')")
        nodes.nobody_leads()
        started = time.monotonic()
        with pytest.raises(psycopg.Error) as caught:
            two.execute("INSERT INTO t VALUES (2, '')")
        assert caught.value.sqlstate == "57P03" and caught.value.diag.message_hint is not None
        assert 2.5 < time.monotonic() - started < 5
        two.execute("SET statement_timeout = '200ms'")
        assert told(lambda: two.execute("INSERT INTO t VALUES (2, '')")) == "57014"
        two.execute("RESET statement_timeout")
        assert during(lambda: two.execute("INSERT INTO t VALUES (%s, '')", (2,)), two.cancel) == "57014"
        two.execute("SET read_consistency = 'eventual'")
        one.execute("SET read_consistency = 'eventual'")
        assert value(two, "SELECT count(*) FROM t") == value(one, "SELECT count(*) FROM t") == 1
        two.execute("BEGIN")
        assert during(lambda: two.execute("INSERT INTO t VALUES (3, '')"), lambda: nodes.follower.say("lead")) is None
        two.execute("COMMIT")
        nodes.leader, nodes.follower = nodes.follower, nodes.leader
        one.execute("INSERT INTO t VALUES (4, '')")
    assert rows(nodes.leader) == [1, 3, 4]


# ---- the leader is killed ------------------------------------------------------------------------------------------


def test_the_leader_is_killed(private: TwoNodes) -> None:
    b = private.b
    with connect(b) as thinking, connect(b) as committing, connect(b) as idle, closing(connect(b)) as in_doubt:
        idle.execute("INSERT INTO t VALUES (0, '')")
        for number, client in enumerate((thinking, committing, in_doubt), 1):
            client.execute("BEGIN")
            client.execute("INSERT INTO t VALUES (%s, '')", (number,))
        private.a.say("hold")
        doubts = []
        thread = threading.Thread(target=lambda: doubts.append(told(lambda: in_doubt.execute("COMMIT"))))
        thread.start()
        time.sleep(0.3)
        private.a.kill()
        thread.join()
        assert doubts == ["08007"]
        waiting: list[object] = []
        thread = threading.Thread(target=lambda: waiting.append(idle.execute("INSERT INTO t VALUES (9, '')").rowcount))
        thread.start()
        b.say("lead")
        thread.join()
        assert waiting == [1]
        assert told(lambda: committing.execute("COMMIT")) == "40001"
        assert told(lambda: thinking.execute("SELECT * FROM t")) == "40001"
        thinking.execute("ROLLBACK")
        for number, client in enumerate((thinking, committing), 10):
            client.execute("INSERT INTO t VALUES (%s, '')", (number,))
    assert rows(b) == [0, 9, 10, 11]


# ---- who may carry ---------------------------------------------------------------------------------------------------


async def test_a_node_without_the_secret_is_turned_away(nodes: TwoNodes, shoal: ShoalServer) -> None:
    mine = {"user": "postgres", "database": "postgres"}
    for port in (nodes.leader.port, nodes.follower.port, shoal.port):
        for parameters in (
            {**mine, "_shoal.node": "b"},
            introduce(mine, b"another cluster's secret", node="b", target=nodes.leader.name),
            introduce(mine, SECRET, node="b", target="somebody else"),
        ):
            with pytest.raises(SqlError) as caught:
                await ClientConnection.open("127.0.0.1", port, parameters)
            assert caught.value.sqlstate == "28000"


def test_who_logs_in_at_a_follower_is_who_the_leader_knows(nodes: TwoNodes, front: Client) -> None:
    front.execute("DROP ROLE IF EXISTS novice")
    for number in range(5):
        front.execute("CREATE ROLE novice LOGIN")
        front.execute(f"ALTER ROLE novice SET application_name = 'the {number}.'".encode())
        with psycopg.connect(nodes.follower.dsn, user="novice") as novice:
            assert value(novice, "SHOW application_name") == f"the {number}."
        front.execute("DROP ROLE novice")
