"""The console of a cluster of three: who leads and follows, as seen from a follower, and a node that is gone."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from playwright.sync_api import expect

from tests.cluster import ShoalCluster
from tests.shoal.console.browser import PHONE, Watched, chromium
from tests.shoal.console.server import ApiClient


@pytest.fixture(scope="module")
def cluster() -> Iterator[ShoalCluster]:
    with ShoalCluster(nodes=3, settings={"admin": "127.0.0.1:0"}) as found:
        yield found


def _admin_port(cluster: ShoalCluster, node: str) -> int:
    with psycopg.connect(cluster.dsn(node), autocommit=True) as connection:
        row = connection.execute("SELECT admin FROM shoal_nodes WHERE this_node").fetchone()
    assert row is not None
    return int(row[0].rpartition(":")[2])


def test_a_follower_s_console_shows_the_cluster_and_changes_it(cluster: ShoalCluster) -> None:
    leader = cluster.leader()
    follower = next(name for name in cluster.nodes if name != leader)
    api = ApiClient(_admin_port(cluster, follower))
    assert api.log_in()[0] == 200
    api.rows("CREATE TABLE seen (a int PRIMARY KEY)")
    api.rows("INSERT INTO seen VALUES (1)")
    assert api.rows("SELECT count(*) FROM seen") == [[1]]
    for view in ("activity", "locks", "tables", "ledgers", "schema"):
        assert api.get(f"/api/view/{view}")[0] == 200, view
    with chromium() as browser:
        window = Watched(browser, api.port)
        window.log_in()
        page = window.page
        expect(page.locator(".card")).to_have_count(3)
        expect(page.locator(".card").filter(has_text="this node")).to_contain_text(follower)
        headings = page.locator(".map thead th").all_inner_texts()
        roles = page.locator(".map tbody tr").first.locator("td, th").all_inner_texts()
        assert "leader" in roles[headings.index(leader)]
        assert "follower" in roles[headings.index(follower)]
        assert window.obstacles() == []
        window.open("changelog")
        expect(page.get_by_role("region", name="Ledgers")).to_contain_text("open")
        assert window.obstacles() == []
        window.close()
        assert not window.troubles


@pytest.mark.long
def test_a_lost_node_is_described_in_words(cluster: ShoalCluster) -> None:
    leader = cluster.leader()
    gone = next(name for name in cluster.nodes if name != leader)
    port = _admin_port(cluster, leader)
    with chromium() as browser:
        window = Watched(browser, port, PHONE, "dark")
        window.log_in()
        expect(window.page.locator(".summary")).to_contain_text("No problems")
        cluster.kill(gone)
        expect(window.page.locator(".summary.bad")).to_contain_text(gone, timeout=30_000)
        assert window.obstacles() == []
        assert window.overflow() <= 0
        cluster.start(gone)
        expect(window.page.locator(".summary")).to_contain_text("No problems", timeout=30_000)
        window.close()
        assert not window.troubles
