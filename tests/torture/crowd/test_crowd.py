"""Point reads go on beside each load, in short; how fast, `make torture` measures."""

from __future__ import annotations

from tests.torture.crowd.crowd import Window, crowd
from tests.torture.crowd.trials import judged

SIZES = {"slow reader": 256 << 20, "COPY": 16 << 20, "IN list": 100_000, "analytic query": 0}


def test_reads_go_on_beside_every_load() -> None:
    with crowd(idle=20, busy=10, rate=100.0) as people:
        quiet = people.run("quiet", {}, 1.0)
        assert quiet.figures["reads"]
        window = people.run("all", SIZES, 4.0)
        assert len(window.said) == len(SIZES)
        assert not [said for said in window.said if said.startswith("WRONG")]
        assert window.figures["reads"]
        assert window.memory < quiet.memory + 1000


def test_slow_reads_failed_loads_and_memory_are_noticed() -> None:
    good = Window("x", {"p99": 4.0}, 100.0, ["done"])
    assert not judged(good, 1.0, 100.0)
    slow = Window("x", {"p99": 6.0}, 100.0)
    assert judged(slow, 1.0, 100.0)
    assert judged(slow, 1.0, 100.0, slow)
    assert not judged(slow, 1.0, 100.0, good)
    assert judged(slow, 1.0, 100.0, Window("x", {"p99": 4.0}, 100.0, ["WRONG: COPY"]))
    assert judged(Window("x", {"p99": 4.0}, 2000.0), 1.0, 100.0)
    assert judged(Window("x", {"p99": 4.0}, 100.0, ["WRONG: COPY"]), 1.0, 100.0)
