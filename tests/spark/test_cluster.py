"""On a cluster: jobs through nodes that follow; a leader that is killed while a job or a stream writes costs time, and
no row."""

from __future__ import annotations

import os
import pathlib
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from shoal_spark import ShoalDataSource
from tests.cluster import ShoalCluster
from tests.spark.conftest import Side
from tests.spark.test_jdbc import frame_of_all_types
from tests.zookeeper_server import ZooKeeper

pytestmark = pytest.mark.long

FAILURES = (PySparkException, Py4JJavaError)
ROWS = 20000


@pytest.fixture
def cluster(zookeeper_server: ZooKeeper, spark: SparkSession) -> Iterator[ShoalCluster]:
    spark.dataSource.register(ShoalDataSource)
    with ShoalCluster(3, zookeeper=zookeeper_server) as cluster:
        yield cluster
        for query in spark.streams.active:
            query.stop()


def url(cluster: ShoalCluster, *first: str) -> str:
    """All nodes, those that are named in front: a client takes the first that answers."""
    names = [*first, *(name for name in cluster.nodes if name not in first)]
    places = ",".join(f"127.0.0.1:{cluster.node(name).port}" for name in names)
    return f"postgresql://postgres@{places}/postgres"


def save(frame: DataFrame, place: str, table: str) -> None:
    frame.write.format("shoal").option("url", place).option("dbtable", table).mode("append").save()


def one(cluster: ShoalCluster, query: str) -> Any:
    with cluster.connect() as connection:
        row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return row[0] if len(row) == 1 else row


def killing(folder: pathlib.Path, pid: int, at: int) -> Any:
    """For mapInArrow: whoever comes by with the batch of this number, of all tasks together, kills the process."""
    place = str(folder)

    def pass_on(batches: Any) -> Any:
        for batch in batches:
            for number in range(1 << 20):  # the first number that nobody has
                try:
                    os.close(os.open(f"{place}/batch-{number}", os.O_CREAT | os.O_EXCL))
                except FileExistsError:
                    continue
                if number == at:
                    os.kill(pid, signal.SIGKILL)
                break
            yield batch

    return pass_on


def test_every_type_goes_through_nodes_that_follow(cluster: ShoalCluster, spark: SparkSession) -> None:
    """Written by stock JDBC through one and by the data source through another, read by both at the leader."""
    first, second = cluster.followers()
    leader, through = (Side(spark, name, "", cluster.node(name).port) for name in (cluster.leader(), first))
    frame = frame_of_all_types(through)
    through.writer(frame, "by_jdbc").save()
    save(frame.repartition(3), url(cluster, second), "by_shoal")
    expected = [tuple(row) for row in frame.orderBy("id").collect()]
    for table in ("by_jdbc", "by_shoal"):
        source = spark.read.format("shoal").option("url", url(cluster, leader.name)).option("dbtable", table)
        for found in (leader.read(table), source.load()):
            assert [tuple(row) for row in found.orderBy("id").collect()] == expected


@pytest.mark.parametrize("through", ["leader", "follower"])
def test_a_leader_that_is_killed_during_a_write(
    cluster: ShoalCluster, spark: SparkSession, tmp_path: pathlib.Path, through: str
) -> None:
    """The job ends with all rows or with none, and one that is run again writes them once."""
    leader = cluster.leader()
    with cluster.connect(leader) as connection:
        connection.execute("CREATE TABLE taken (id bigint)")
    place = url(cluster, leader if through == "leader" else cluster.followers()[0])
    frame = spark.range(0, ROWS, 1, 4)
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "1000")
    try:
        killed = frame.mapInArrow(killing(tmp_path, cluster.node(leader).pid, 3), frame.schema)
        try:
            save(killed, place, "taken")
            written = ROWS
        except FAILURES:
            written = 0
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    assert not cluster.node(leader).running
    assert cluster.leader(not_this=leader)
    assert one(cluster, "SELECT count(*) FROM taken") == written
    if not written:
        save(frame, place, "taken")
    assert one(cluster, "SELECT count(*), count(DISTINCT id) FROM taken") == (ROWS, ROWS)
    loaded = spark.read.format("shoal").option("url", place).option("dbtable", "taken").load()
    assert loaded.count() == ROWS


def test_a_leader_that_is_killed_during_a_stream(
    cluster: ShoalCluster, spark: SparkSession, tmp_path: pathlib.Path
) -> None:
    """The query goes on, or is started again from its checkpoint; it has read and written every change once."""
    leader = cluster.leader()
    with cluster.connect(leader) as connection:
        connection.execute("CREATE TABLE followed (id int PRIMARY KEY)")
        connection.execute("CREATE CHANGE STREAM s FOR TABLE followed")
        connection.execute("CREATE TABLE sink (lsn bigint, ordinal int)")
        for number in range(40):
            connection.execute("INSERT INTO followed SELECT %s * 100 + g FROM generate_series(1, 100) g", (number,))
    place = url(cluster, leader)
    changes = spark.readStream.format("shoal").option("url", place).option("stream", "s")
    frame = changes.option("maxRowsPerBatch", 500).option("advance", "false").load()
    told = frame.mapInArrow(killing(tmp_path, cluster.node(leader).pid, 3), frame.schema)
    writer = told.select("lsn", "ordinal").writeStream.format("shoal").option("url", place).option("dbtable", "sink")

    def run() -> None:
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        try:
            query.processAllAvailable()
        finally:
            query.stop()

    try:
        run()
    except FAILURES:  # what tasks did not outlive by being run again
        run()
    assert not cluster.node(leader).running and cluster.leader(not_this=leader)
    with cluster.connect() as connection:
        seen = connection.execute("SELECT lsn, ordinal FROM sink ORDER BY 1, 2").fetchall()
        assert seen == connection.execute("SELECT lsn, ordinal FROM shoal_changes('s', 0, 100000)").fetchall()
    assert len(seen) == 4000
