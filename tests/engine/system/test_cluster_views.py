"""shoal_nodes, shoal_tablespaces, ...: a node alone shows itself; one in a cluster, what it knows of it."""

from __future__ import annotations

import shutil
import subprocess
from types import SimpleNamespace
from typing import Any, cast

import psycopg
import pytest

from catalog.system.cluster import CLUSTER_VIEWS
from catalog.types.base import Interval
from engine.cluster_view import CheckpointView, LedgerView, NodeView, ReplicaView, TablespaceView
from engine.storage.tablespace import Tablespace
from engine.system_views.cluster import cluster_rows
from tests.server import ShoalServer

HERE, OTHER = bytes(16), bytes(range(16))


# ---- a node alone ---------------------------------------------------------------------------------------------------


@pytest.fixture
def connection(shoal: ShoalServer) -> Any:
    with psycopg.connect(shoal.dsn, autocommit=True) as found:
        yield found


def test_a_node_alone_shows_itself(shoal: ShoalServer, connection: psycopg.Connection) -> None:
    row = connection.execute(
        "SELECT node, alive, this_node, host, port, started <= now(), connections >= 1 FROM shoal_nodes"
    ).fetchall()
    assert row == [("local", True, True, "127.0.0.1", shoal.port, True, True)]
    row = connection.execute(
        "SELECT tablespace, length(id), leader, live_replicas, expected_replicas, under_replicated "
        "FROM shoal_tablespaces"
    ).fetchall()
    assert ("pg_default", 32, "local", 1, 1, False) in row
    replicas = connection.execute("SELECT tablespace, node, role, this_node, lag FROM shoal_replicas").fetchall()
    assert ("pg_default", "local", "leader", True, 0) in replicas
    assert connection.execute("SELECT * FROM shoal_ledgers").fetchall() == []
    assert connection.execute("SELECT * FROM shoal_checkpoints").fetchall() == []


def test_the_log_of_a_node_alone_is_true_at_query_time(connection: psycopg.Connection) -> None:
    query = (
        "SELECT head_lsn, durable_lsn, sequenced_lsn, flushed_lsn, pending_bytes, staleness, role, cluster_stale "
        "FROM shoal_log_status WHERE tablespace = 'pg_default'"
    )
    connection.execute("CREATE TABLE logged (a int)")
    try:
        before = connection.execute(query).fetchone()
        for number in range(3):
            connection.execute("INSERT INTO logged VALUES (%s)", (number,))
        after = connection.execute(query).fetchone()
        assert before is not None and after is not None
        assert after[0] >= before[0] + 3
        assert after[0] == after[1] == after[2] > after[3]
        assert after[4] == 0 and after[5].total_seconds() == 0 and after[6:] == ("leader", False)
        connection.execute("CHECKPOINT")
        flushed = connection.execute(query).fetchone()
        assert flushed is not None and flushed[3] == flushed[0]
    finally:
        connection.execute("DROP TABLE logged")


def test_the_views_join_and_cannot_be_written(connection: psycopg.Connection) -> None:
    query = "SELECT count(*) FROM shoal_replicas JOIN shoal_nodes USING (node) JOIN pg_class ON relname = 'shoal_nodes'"
    assert (connection.execute(query).fetchone() or (0,))[0] >= 1
    for statement in ("INSERT INTO shoal_nodes VALUES ('x')", "DROP VIEW shoal_nodes", "DELETE FROM shoal_replicas"):
        with pytest.raises(psycopg.Error):
            connection.execute(statement)


def test_every_tablespace_of_a_node_is_shown(connection: psycopg.Connection) -> None:
    connection.execute("CREATE TABLESPACE seen LOCATION ''")
    connection.execute("CREATE TABLE placed (a int) TABLESPACE seen")
    try:
        connection.execute("INSERT INTO placed VALUES (1)")
        query = (
            "SELECT t.leader, r.role, l.durable_lsn = t.head_lsn, t.head_lsn >= 1 FROM shoal_tablespaces t "
            "JOIN shoal_replicas r USING (tablespace) JOIN shoal_log_status l USING (tablespace) "
            "WHERE tablespace = 'seen'"
        )
        assert connection.execute(query).fetchall() == [("local", "leader", True, True)]
    finally:
        connection.execute("DROP TABLE placed")
        connection.execute("DROP TABLESPACE seen")


def test_what_needs_a_cluster_says_so(connection: psycopg.Connection) -> None:
    for function in ("shoal_check", "shoal_checkpoint"):
        with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="not part of a cluster"):
            connection.execute(f"SELECT {function}()")
    connection.execute("CREATE ROLE looker LOGIN")
    try:
        connection.execute("SET ROLE looker")
        for function in ("shoal_check", "shoal_checkpoint"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(f"SELECT {function}()")
        assert connection.execute("SELECT count(*) FROM shoal_nodes").fetchone() == (1,)
    finally:
        connection.execute("RESET ROLE")
        connection.execute("DROP ROLE looker")


@pytest.mark.skipif(shutil.which("psql") is None, reason="needs psql")
def test_psql_describes_them(shoal: ShoalServer) -> None:
    command = ["psql", "-X", "-d", shoal.dsn, "-c", r"\d shoal_nodes", "-c", r"\dvS+ shoal*"]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    assert 'View "pg_catalog.shoal_nodes"' in shown
    assert all(view.name in shown and str(view.comment) in shown for view in CLUSTER_VIEWS)


# ---- in a cluster ---------------------------------------------------------------------------------------------------


class Space(Tablespace):
    """As far as the views look."""

    def __init__(self) -> None:
        self.sequenced_lsn, self.durable_lsn, self.flushed_lsn = 12, 11, 9

    @property
    def tablespace_id(self) -> bytes:
        return HERE

    @property
    def pending_bytes(self) -> int:
        return 300


class Cluster:
    node = "b"
    stale = True

    def nodes(self) -> list[NodeView]:
        return [NodeView("a", True, "h", 1, "h:2", 3, 0.5, 4, "0.1.0"), NodeView("b", True, "h", 2, connections=9)]

    def tablespaces(self) -> list[TablespaceView]:
        return [
            TablespaceView(HERE, "pg_default", "a", 4, 10, 99, 3, ("a", "b", "c"), "a", 2.5, "file:///s"),
            TablespaceView(OTHER, "fast", "", 1, 0, 0, 1, ("a",)),
        ]

    def replicas(self) -> list[ReplicaView]:
        return [
            ReplicaView(HERE, "a", "leader", 10, 5, 70),
            ReplicaView(HERE, "b", "follower", 7, 5, 71),
            ReplicaView(OTHER, "a", "bootstrapping", 0, 0, 0),
        ]

    def ledgers(self) -> list[LedgerView]:
        return [LedgerView(HERE, 1, 3, 1, 6, 100, 50, ""), LedgerView(HERE, 2, 4, 7, None, 30, 0, "file:///s")]

    def checkpoints(self) -> list[CheckpointView]:
        return [CheckpointView(HERE, 6, "ab", "folder", 1000, 60)]


def rows(view: str, leads: bool = False, cluster: Cluster | None = None) -> list[dict[str, object]]:
    replica = SimpleNamespace(leads=leads, leads_in=lambda tablespaces: leads, staleness=0.25)
    node = SimpleNamespace(
        store=Space(), replica=replica, cluster_view=cluster or Cluster(), sessions={1: None}, clock=lambda: 100
    )
    return cluster_rows(cast(Any, SimpleNamespace(node=node, client=SimpleNamespace(server_address=None))), view)


def test_nodes_that_are_named_and_not_there_are_shown() -> None:
    found = {row["node"]: row for row in rows("shoal_nodes")}
    assert list(found) == ["a", "b", "c"]
    assert (found["a"]["alive"], found["a"]["this_node"], found["a"]["connections"]) == (True, False, 4)
    assert (found["b"]["this_node"], found["b"]["connections"]) == (True, 1)  # counted now
    assert (found["c"]["alive"], found["c"]["host"]) == (False, None)


def test_tablespaces_know_whether_replicas_are_missing() -> None:
    first, second = rows("shoal_tablespaces")
    assert (first["leader"], first["epoch"], first["live_replicas"], first["under_replicated"]) == ("a", 4, 2, True)
    assert first["head_lsn"] == 11  # this node has applied it, so it was committed
    assert first["max_leader_inactivity"] == Interval(0, 0, 2_500_000)
    assert (second["leader"], second["live_replicas"], second["head_time"], second["store"]) == (None, 0, None, None)


def test_replicas_are_as_far_as_they_are_now() -> None:
    found = {(row["tablespace"], row["node"]): row for row in rows("shoal_replicas")}
    assert list(found) == [("pg_default", "a"), ("pg_default", "b"), ("pg_default", "c"), ("fast", "a")]
    here = found["pg_default", "b"]
    assert (here["applied_lsn"], here["flushed_lsn"], here["lag"], here["seen"]) == (11, 9, 0, 100)
    assert (found["pg_default", "a"]["applied_lsn"], found["pg_default", "a"]["lag"]) == (10, 1)
    assert found["pg_default", "c"] == {
        "tablespace": "pg_default", "node": "c", "this_node": False, "role": "missing"
    }  # fmt: skip
    assert found["fast", "a"]["role"] == "bootstrapping"


def test_ledgers_and_checkpoints_are_listed() -> None:
    first, second = rows("shoal_ledgers")
    assert (first["state"], first["last_lsn"], first["closed"], first["store"]) == ("closed", 6, 50, None)
    assert (second["state"], second["last_lsn"], second["closed"], second["store"]) == ("open", None, None, "file:///s")
    (checkpoint,) = rows("shoal_checkpoints")
    assert (checkpoint["tablespace"], checkpoint["lsn"], checkpoint["lag"]) == ("pg_default", 6, 5)


def test_the_log_is_shown_with_this_nodes_own_positions() -> None:
    (status,) = rows("shoal_log_status")
    assert (status["role"], status["node"], status["epoch"], status["head_lsn"]) == ("follower", "b", 4, 11)
    assert (status["sequenced_lsn"], status["durable_lsn"], status["flushed_lsn"]) == (12, 11, 9)
    assert (status["pending_bytes"], status["staleness"]) == (300, Interval(0, 0, 250_000))
    assert status["cluster_stale"] is True
    assert rows("shoal_log_status", leads=True)[0]["role"] == "leader"


# Of the schema: tests/engine/changes, tests/end_to_end/test_columns.py.
OF_SCHEMAS = ("shoal_change_streams", "shoal_columns", "shoal_stat_progress_columns")
OF_THE_CLUSTER = [view for view in CLUSTER_VIEWS if view.name not in OF_SCHEMAS]


@pytest.mark.parametrize("view", OF_THE_CLUSTER, ids=lambda view: view.name)
def test_rows_name_columns_of_their_view(view: Any) -> None:
    names = {column.name for column in view.columns}
    for row in rows(view.name):
        assert row.keys() <= names
