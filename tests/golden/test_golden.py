"""The planner makes of every statement what the record says that it makes."""

from __future__ import annotations

import difflib
import os
import pathlib
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

from catalog.errors import not_supported
from engine.columnar.generate import generate
from engine.columnar.interface import ColumnarQuery
from engine.execute.code import Code
from engine.statements import columnar_read, planning
from tests.golden.__main__ import PLANS, ROOT
from tests.golden.record import record

NAMES = sorted(path.name for path in PLANS.glob("*.txt"))
SHOWN = 60
"""Lines of a difference that a failure tells."""
TRIED = [
    "CREATE TABLE t (id int PRIMARY KEY, v int)",
    "SELECT v + 1 FROM t WHERE id = 5",
    "UPDATE t SET v = v + 1 WHERE id = 5",
    "SELECT v, count(*) FROM t GROUP BY v",
]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The record of this code, by a process of its own, whose hashes differ from run to run."""
    directory = tmp_path_factory.mktemp("golden") / "plans"
    command = [sys.executable, "-W", "ignore", "-m", "tests.golden", "--write", "--to", str(directory)]
    environment = {**os.environ, "PYTHONHASHSEED": "random"}
    subprocess.run(command, cwd=ROOT, env=environment, check=True, timeout=280)
    return directory


def test_the_same_statements_are_recorded(made: pathlib.Path) -> None:
    assert sorted(path.name for path in made.glob("*.txt")) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_plans_are_as_recorded(name: str, made: pathlib.Path) -> None:
    before, now = ((directory / name).read_text() for directory in (PLANS, made))
    if before != now:
        lines = list(difflib.unified_diff(before.splitlines(), now.splitlines(), "recorded", "now", n=4, lineterm=""))
        pytest.fail("\n".join([*lines[:SHOWN], f"{len(lines)} lines; see CONTRIBUTING.md"]), pytrace=False)


def _no_row_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "plan_row", lambda *_: None)


def _another_source(monkeypatch: pytest.MonkeyPatch) -> None:
    line = Code.line
    monkeypatch.setattr(Code, "line", lambda code, text, *use: line(code, f"{text} ", *use))


def _another_query(monkeypatch: pytest.MonkeyPatch) -> None:
    def changed(*arguments: Any) -> ColumnarQuery:
        found = generate(*arguments)
        return replace(found, sql=f"{found.sql} ")

    monkeypatch.setattr(columnar_read, "generate", changed)


def _another_constant(monkeypatch: pytest.MonkeyPatch) -> None:
    named = Code.name_value
    monkeypatch.setattr(Code, "name_value", lambda code, _, hint: named(code, len, hint))


def _a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "check_calls", lambda *_: not_supported("a change"))


@pytest.mark.parametrize("fault", [_no_row_plan, _another_source, _another_query, _another_constant, _a_refusal])
def test_a_changed_plan_is_noticed(fault: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    before = [each.brief() for each in record(TRIED)]
    assert before == [each.brief() for each in record(TRIED)]
    with monkeypatch.context() as within:
        fault(within)
        assert before != [each.brief() for each in record(TRIED)]
