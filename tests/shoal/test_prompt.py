"""The prompt of `shoal sql`, with keys as a terminal sends them."""

from __future__ import annotations

import pathlib
import threading
import time
from itertools import product
from typing import Any

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from shoal.commands import sql_prompt
from tests.samples import some

UP, CTRL_C, CTRL_D, CTRL_R, CTRL_G, ENTER = "\x1b[A", "\x03", "\x04", "\x12", "\x07", "\r"


class Channel:
    """Remembers what it is to run."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    def run(self, statement: str) -> list[Any]:
        self.ran.append(statement)
        return []


def _run(*keys: str) -> list[str]:
    """Types the keys, with a moment after each part; what is run."""
    channel = Channel()
    with create_pipe_input() as pipe, create_app_session(input=pipe, output=DummyOutput()):

        def type_them() -> None:
            for part in keys:
                pipe.send_text(part)
                time.sleep(0.2)

        typist = threading.Thread(target=type_them)
        typist.start()
        assert sql_prompt.prompt(channel, lambda result: None) == 0  # type: ignore[arg-type]
        typist.join()
    return channel.ran


@pytest.fixture(autouse=True)
def own_history(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


ONE, TWO = "SELECT 1", "SELECT 2"


@pytest.mark.parametrize(
    ("inside", "end", "before"),
    some(
        product(
            ["", "SELECT", "nothing like it", ";"],
            [CTRL_C, CTRL_C * 2, CTRL_G + CTRL_C],
            ["", "SELECT", "SELECT 3;" + UP],
        ),
        4,
    ),
)
def test_the_prompt_works_after_a_cancelled_search(before: str, inside: str, end: str) -> None:
    assert _run(f"{ONE};{ENTER}{before}{CTRL_R}{inside}{end}{CTRL_C}{TWO};{ENTER}{CTRL_D}") == [ONE, TWO]


def test_what_a_search_finds_is_run() -> None:
    assert _run(f"{ONE};{ENTER}SELECT 22;{ENTER}", CTRL_R, "1", ENTER, ENTER + CTRL_D)[-1] == ONE


def test_enter_begins_a_line_until_a_statement_has_ended() -> None:
    assert _run(f"SELECT{ENTER}7;{ENTER}{CTRL_D}") == ["SELECT\n7"]
