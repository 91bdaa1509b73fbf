"""Processes that work for a statement: what they say, and how they end."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from typing import Any

import pytest

from catalog import processes, stillness
from catalog.errors import SqlError
from catalog.processes import Errand

SAYS = "import os, signal, sys; given = sys.stdin.buffer.read(); os.write(1, given[: len(given) // 2]); "
WHOLE = SAYS + "os.write(1, given[len(given) // 2 :])"


def output(program: str, given: bytes = b"abcd" * 1000, errand: Errand | None = None) -> bytes:
    return (errand or Errand()).output([sys.executable, "-I", "-c", program], given, {})


def test_what_a_process_says() -> None:
    assert output(WHOLE) == b"abcd" * 1000
    assert output(WHOLE, b"x" * 10_000_000) == b"x" * 10_000_000
    assert output(WHOLE, b"") == b""


@pytest.mark.parametrize("end", ["os.kill(os.getpid(), signal.SIGKILL)", "sys.exit(3)", "raise MemoryError"])
def test_a_process_that_ends_in_the_midst_has_said_nothing(end: str) -> None:
    """What it has written may be a value of its own."""
    assert output(SAYS + end) == b""


def test_one_that_does_nothing_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stillness, "LOOK_SECONDS", 0.1)
    monkeypatch.setattr(stillness, "STILL_SECONDS", 1.0)
    began = time.monotonic()
    assert output(SAYS + "os.kill(os.getpid(), signal.SIGSTOP)") == b""
    assert output("import os; os.read(os.pipe()[0], 1)", b"x" * 1_000_000) == b""  # nor does it read
    assert time.monotonic() - began < 60


def test_one_that_waits_for_this_process_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that gets no processor is not the process's fault, be it late with the input or with the answer."""
    monkeypatch.setattr(stillness, "LOOK_SECONDS", 0.1)
    monkeypatch.setattr(stillness, "STILL_SECONDS", 0.5)
    talk = subprocess.Popen.communicate

    def talk_late(self: Any, given: bytes) -> Any:
        time.sleep(2.0)
        self.stdin.write(given[:100_000])
        time.sleep(2.0)
        return talk(self, given[100_000:])

    monkeypatch.setattr(subprocess.Popen, "communicate", talk_late)
    answers = "import os, sys\nwhile part := os.read(0, 50_000): os.write(1, part)"
    assert output(answers, bytes(1_000_000)) == bytes(1_000_000)


def test_one_that_works_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stillness, "LOOK_SECONDS", 0.1)
    monkeypatch.setattr(stillness, "STILL_SECONDS", 0.5)
    works = "import time\nend = time.monotonic() + 2\nwhile time.monotonic() < end: sum(range(1000))\nprint('done')"
    assert output(works) == b"done\n"


def test_an_errand_ends_without_waiting_for_a_process_that_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    beginning, go_on = threading.Event(), threading.Event()
    start = subprocess.Popen
    started: list[Any] = []

    def begin_slowly(*arguments: Any, **more: Any) -> Any:
        beginning.set()
        go_on.wait(30)
        started.append(start(*arguments, **more))
        return started[0]

    monkeypatch.setattr(processes.subprocess, "Popen", begin_slowly)  # type: ignore[attr-defined]
    errand, said = Errand(), []
    thread = threading.Thread(target=lambda: said.append(output("import time; time.sleep(60)", errand=errand)))
    thread.start()
    assert beginning.wait(30)
    began = time.monotonic()
    errand.end()
    assert time.monotonic() - began < 10
    go_on.set()
    thread.join(30)
    assert said == [b""] and started[0].returncode
    with pytest.raises(SqlError) as caught:
        output(WHOLE, errand=errand)
    assert caught.value.sqlstate == "57014"
