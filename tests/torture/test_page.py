"""The page of promises keeps the figures of trials that did not run, and shows violations."""

from __future__ import annotations

from tests.torture.page import BEGIN, END, read, table
from tests.torture.trial import FULL, Result, Trial

TRIALS = [Trial(name, f"Promise {name}", "How.", 1.0, lambda seconds, seed, tell: Result()) for name in ("a", "b-c")]


def page(text: str) -> str:
    return f"# Promises\n\n{BEGIN}\n{text}\n{END}\n\n- an item of another section\n"


def test_figures_of_trials_that_did_not_run_stay() -> None:
    first = page(table(TRIALS, {"a": Result(["1 kill", "2\nlost"], [], {"no sync": True})}, "2026-11-01"))
    assert read(first)["a"].lines == ["1 kill", "2 lost", "planted faults: 1 of 1 caught (no sync)"]
    assert "| [Promise a](#a) | none | 1 of 1 | 2026-11-01 |" in first and "No figures yet." in first
    second = page(table(TRIALS, {"b-c": Result(["3 cells"])}, "2026-11-02", first))
    assert {name: found.day for name, found in read(second).items()} == {"a": "2026-11-01", "b-c": "2026-11-02"}
    assert read(second)["a"] == read(first)["a"] and read(second)["b-c"].lines == ["3 cells"]


def test_violations_and_unnoticed_faults_are_shown() -> None:
    made = table(TRIALS, {"a": Result(["1 kill"], ["a row is lost"], {"x": True, "y": False})}, "2026-11-01")
    assert "| [Promise a](#a) | 1 | 1 of 2 | 2026-11-01 |" in made
    assert "**WRONG**: a row is lost" in made and "**NOT NOTICED: y**" in made


def test_a_trial_that_tried_next_to_nothing_proves_nothing() -> None:
    trial = Trial("a", "Promise", "How.", 1.0, lambda seconds, seed, tell: Result(), enough=100)
    assert "only 99 tried, fewer than 100" in trial.lack(Result(tried=99), FULL)
    assert not trial.lack(Result(tried=100), FULL) and not trial.lack(Result(tried=50), FULL / 2)
    assert trial.lack(Result(tried=0), 1.0)
    assert not trial.lack(Result(tried=None), FULL)
