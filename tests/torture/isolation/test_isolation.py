"""Isolation in short: random histories at each level, the named anomalies, the table of row locks, on both servers; and
lies of clients, that the checker has to find."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import psycopg
import pytest

from tests.oracle import PostgresServer
from tests.server import ShoalServer
from tests.torture.isolation import workload
from tests.torture.isolation.checker import Level, Outcome, check, forbidden
from tests.torture.isolation.hermitage import SCENARIOS, Scenario, compare
from tests.torture.isolation.row_locks import conflicts
from tests.torture.isolation.trials import WEAKER, key_share_for_share
from tests.torture.isolation.workload import Lie, Site

TRANSACTIONS = 800


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    """A server with a tablespace beside pg_default."""
    with ShoalServer() as server:
        yield workload.with_tablespace(Site((server.dsn,)))


@pytest.mark.parametrize("level", Level)
def test_random_histories_show_nothing_forbidden(site: Site, level: Level) -> None:
    run = workload.run(site, level, 1, TRANSACTIONS)
    assert not run.problems
    assert not forbidden(check(run.history, level), level)


@pytest.mark.parametrize(
    ("lie", "level", "expected"),
    [
        (Lie(level=Level.READ_COMMITTED), Level.REPEATABLE_READ, "G-single"),
        (Lie(level=Level.REPEATABLE_READ), Level.SERIALIZABLE, "G2-item"),
        (Lie(commits=True), Level.READ_COMMITTED, "G1a"),
    ],
)
def test_a_weaker_level_than_promised_is_noticed(shoal: ShoalServer, lie: Lie, level: Level, expected: str) -> None:
    run = workload.run(Site((shoal.dsn,)), level, 1, TRANSACTIONS, lie=lie)
    assert not run.problems
    assert expected in {anomaly.name for anomaly in forbidden(check(run.history, level), level)}


@pytest.mark.parametrize("nodes", [1, 2])
def test_a_missing_leader_is_expected_in_a_cluster_and_a_problem_of_a_single_node(
    shoal: ShoalServer, nodes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """57P03 at COMMIT says that nothing was committed; every session meets it, and a lost connection at BEGIN."""
    sql = workload._Session._sql
    committed = itertools.count(1)

    def leaderless(session: workload._Session, text: str, *parameters: object) -> Sequence[tuple[object, ...]]:
        if text == "COMMIT" and next(committed) % 10 == 0:
            raise psycopg.errors.CannotConnectNow("nobody leads")
        if text.startswith("BEGIN") and next(committed) % 50 == 0:
            session.connection.close()
        return sql(session, text, *parameters)

    monkeypatch.setattr(workload._Session, "_sql", leaderless)
    run = workload.run(Site((shoal.dsn,) * nodes), Level.SERIALIZABLE, 1, 200)
    assert bool(run.problems) == (nodes == 1)
    if nodes > 1:
        assert {transaction.outcome for transaction in run.history} == set(Outcome)
        assert not forbidden(check(run.history, Level.SERIALIZABLE), Level.SERIALIZABLE)


@pytest.mark.parametrize("level", Level)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_named_anomalies(postgres_server: PostgresServer, shoal: ShoalServer, scenario: Scenario, level: Level) -> None:
    assert compare(postgres_server.dsn, shoal.dsn, scenario, level)[1] == ""


def test_row_locks_conflict_as_in_postgresql(postgres_server: PostgresServer, shoal: ShoalServer) -> None:
    wanted, got = conflicts(postgres_server.dsn), conflicts(shoal.dsn)
    assert got == wanted
    assert {"55P03", "[]"} <= set(got.values())
    assert conflicts(shoal.dsn, key_share_for_share) != wanted, "a weaker lock is not noticed"


@pytest.mark.parametrize("level", WEAKER)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_named_anomalies_of_a_weaker_level_are_noticed(
    postgres_server: PostgresServer, shoal: ShoalServer, scenario: Scenario, level: Level
) -> None:
    """Where the weaker level lets something through that the level prevents."""
    problem = compare(postgres_server.dsn, shoal.dsn, scenario, level, WEAKER[level])[1]
    assert problem or scenario.prevented_from is not level
