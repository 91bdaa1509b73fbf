"""sqlsmith in short; and servers whose defects, hangs and crashes have to be noticed."""

from __future__ import annotations

import time

import pytest

from tests.samples import some
from tests.server import ShoalServer
from tests.torture.planted import FAULTS
from tests.torture.smith.smith import Smith, possible, prepare, statements
from tests.torture.smith.trials import planted

pytestmark = pytest.mark.skipif(not possible(), reason="sqlsmith is not installed")


@pytest.mark.parametrize("fault", some(FAULTS, 2))
def test_a_faulty_server_is_noticed(fault: str) -> None:
    assert planted(fault, 7)


def test_every_statement_is_answered_or_refused_properly() -> None:
    with ShoalServer() as server:
        prepare(server.dsn)
        smith = Smith(server)
        for seed in (1, 2):
            assert smith.run(seed, 25, time.monotonic() + 60)
        assert smith.found.problems == []
        assert smith.found.states["00000"]
        assert statements(server.dsn, 3, 5) == statements(server.dsn, 3, 5)
