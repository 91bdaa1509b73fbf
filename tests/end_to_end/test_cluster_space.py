"""The disk that the tables of a follower take is what those of its leader take, whatever was deleted."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from engine.storage.holes import allocated_bytes
from engine.storage.space import SPARE_BYTES
from tests.cluster import PATIENCE, ShoalCluster
from tests.samples import some

ROWS = 40_000  # of about a kilobyte
MORE = 4 << 20  # bytes by which files of the same rows may differ beyond SPARE_BYTES: pages fill in other ways


@pytest.fixture(scope="module")
def cluster() -> Iterator[ShoalCluster]:
    with ShoalCluster(2) as own:
        yield own


def used(cluster: ShoalCluster, name: str) -> int:
    return sum(allocated_bytes(str(path)) for path in (cluster.nodes[name].data / "rows").glob("*"))


def filled(cluster: ShoalCluster, connection: psycopg.Connection) -> int:
    """A table that both have in their files; the bytes that the leader has then."""
    connection.execute("DROP TABLE IF EXISTS much")
    connection.execute("CREATE TABLE much (id int PRIMARY KEY, t text)")
    connection.execute(
        "INSERT INTO much SELECT g, repeat(md5(g::text) || md5((g + 1)::text), 16) FROM generate_series(1, %s) AS g",
        (ROWS,),
    )
    settled(cluster)
    for name in cluster.nodes:
        cluster.wait_until(lambda name=name: used(cluster, name) > ROWS * 900, f"{name} has them in its file")
    return used(cluster, cluster.leader())


def settled(cluster: ShoalCluster) -> None:
    """Both have applied everything, and put it into their files."""
    cluster.wait_for_applied()
    for name in cluster.nodes:
        with cluster.connect(name) as connection:
            connection.execute("SET shoal.read_consistency = 'eventual'")
            connection.execute("CHECKPOINT")


def both_take(cluster: ShoalCluster, most: int) -> None:
    leader, (follower,) = cluster.leader(), cluster.followers()

    def small() -> bool:
        one, other = used(cluster, leader), used(cluster, follower)
        return max(one, other) <= most and abs(one - other) <= SPARE_BYTES + MORE

    cluster.wait_until(small, f"both take {most >> 20} MB at most", 2 * PATIENCE)


@pytest.mark.parametrize("statement", some(["DROP TABLE much", "TRUNCATE much"], 2))
def test_what_is_dropped(cluster: ShoalCluster, statement: str) -> None:
    with cluster.connect() as connection:
        full = filled(cluster, connection)
        connection.execute(statement.encode())
        settled(cluster)
        both_take(cluster, full // 2)


@pytest.mark.parametrize("deletion", some(["id % 10 <> 0", "id > 8000"], 2))
@pytest.mark.long
def test_vacuum_full_after_deletions(cluster: ShoalCluster, deletion: str) -> None:
    with cluster.connect() as connection:
        full = filled(cluster, connection)
        connection.execute(f"DELETE FROM much WHERE {deletion}".encode())
        settled(cluster)
        connection.execute("VACUUM FULL much")
        both_take(cluster, full // 2)
