"""The trials of a cluster in short: a leader is killed under load, histories on leader and followers; and faults of all
nodes, which have to be noticed."""

from __future__ import annotations

import pytest

from tests.cluster import ShoalCluster
from tests.samples import some
from tests.torture.cluster import HOOKS, LIMITS, SETTINGS, Run
from tests.torture.isolation import workload
from tests.torture.isolation.checker import Level, check, forbidden
from tests.torture.isolation.trials import LATE
from tests.torture.isolation.workload import Site
from tests.torture.others import cluster_notices

TRANSACTIONS = 300


def test_a_leader_that_is_killed_under_load_loses_nothing() -> None:
    with ShoalCluster(3, settings=SETTINGS, limits=LIMITS, hooks=HOOKS) as nodes:
        run = Run(nodes, 7, only="kill leader")
        assert run.run(2.0) == []
        assert run.nemesis.kills and run.epochs > run.nemesis.kills


@pytest.mark.parametrize("fault", some(["early", "forgetful"], 2))
def test_a_faulty_cluster_is_noticed(fault: str) -> None:
    """The other faults take longer to show themselves: `make torture`."""
    assert cluster_notices(fault, 7)


@pytest.mark.long
def test_histories_on_leader_and_followers_show_nothing_forbidden_and_late_reads_do() -> None:
    with ShoalCluster(3) as nodes:
        names = (nodes.leader(), *nodes.followers())
        site = workload.with_tablespace(Site(tuple(nodes.dsn(name) for name in names)))
        for level in Level:
            run = workload.run(site, level, 1, TRANSACTIONS)
            assert not run.problems
            assert not forbidden(check(run.history, level), level)
        level = Level.READ_COMMITTED
        lies = (workload.run(site, level, seed, TRANSACTIONS, lie=LATE) for seed in range(8))
        assert any(forbidden(check(run.history, level), level) for run in lies)
