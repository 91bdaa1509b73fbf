"""Scripts of sessions in the form of PostgreSQL's isolation tests (specs/): every permutation gives the same results,
waits and ends on both servers. Each file has one subject; tests/conformance/spec.py reads the form."""

from __future__ import annotations

import pathlib

import pytest

from tests.conformance.isolation import difference, run_permutation
from tests.conformance.spec import parse
from tests.oracle import PostgresServer
from tests.server import ShoalServer

SPECS = sorted((pathlib.Path(__file__).parent / "specs").glob("*.spec"))


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_sessions_wait_and_end_as_in_postgresql(
    path: pathlib.Path, shoal: ShoalServer, postgres_server: PostgresServer
) -> None:
    spec = parse(path.read_text())
    for turns in spec.permutations:
        wanted = run_permutation(postgres_server.dsn, spec, turns)
        found = difference(wanted, run_permutation(shoal.dsn, spec, turns))
        if found:  # a look of the tester that came too late is no difference
            wanted = run_permutation(postgres_server.dsn, spec, turns)
            found = difference(wanted, run_permutation(shoal.dsn, spec, turns))
        assert not found, f"{' '.join(turn.step for turn in turns)}: {found}"


def test_a_wait_that_is_left_out_is_a_difference(shoal: ShoalServer, postgres_server: PostgresServer) -> None:
    path = next(path for path in SPECS if path.stem == "detach_concurrently")
    text = path.read_text()
    spec, faulty = parse(text), parse(text.replace(" CONCURRENTLY", ""))
    steps = ["ab", "as", "bd", "as1", "ac"]
    turns = next(turns for turns in spec.permutations if [turn.step for turn in turns] == steps)
    wanted = run_permutation(postgres_server.dsn, spec, turns)
    assert difference(wanted, run_permutation(shoal.dsn, faulty, turns))
